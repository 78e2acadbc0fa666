/* Azure's Shared Key for the Blob service ("Authorize with Shared Key", the string of versions 2015-02-21 and newer).
 * Shared access signatures and bearer tokens need no signing and are not here. No state; safe from any thread. */
#include "base/error.h"
#include "store/canonical.h"
#include "store/digest.h"
#include "store/sign.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define TEXT_BYTES_MAX ((size_t)256 * 1024)
#define KEY_BYTES_MAX 512

static const char *header(const lki_request *request, const char *name) {
  for (size_t i = 0; i < request->header_count; i++)
    if (strcmp(request->headers[i].name, name) == 0) return request->headers[i].value;
  return "";
}

static void put_standard_headers(lki_writer *w, const lki_request *request) {
  static const char *const names[] = {"content-encoding", "content-language", NULL,           "content-md5",
                                      "content-type",     "date",             "if-modified-since", "if-match",
                                      "if-none-match",    "if-unmodified-since", "range"};
  const bool dated = header(request, "x-ms-date")[0] != 0; /* then that one counts, and Date is left out */
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    char length[24] = "";
    const char *value = length;
    if (names[i] != NULL && !(dated && strcmp(names[i], "date") == 0)) value = header(request, names[i]);
    /* The length is the body's, and nothing at all when that is empty. */
    if (names[i] == NULL && request->body.bytes > 0) snprintf(length, sizeof length, "%zu", request->body.bytes);
    lki_put_text(w, value);
    lki_put_text(w, "\n");
  }
}

/* The service sorts names as a dictionary does: hyphens count only where nothing else differs. */
static int header_order(const char *a, const char *b) {
  const char *x = a, *y = b;
  for (;; x++, y++) {
    while (*x == '-') x++;
    while (*y == '-') y++;
    if (*x != *y) return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
    if (*x == 0) return strcmp(a, b);
  }
}

static void put_ms_headers(lki_writer *w, const lki_request *request) {
  lki_pair pairs[LKI_REQUEST_PAIRS_MAX];
  size_t count = 0;
  for (size_t i = 0; i < request->header_count; i++) {
    if (strncmp(request->headers[i].name, "x-ms-", 5) != 0) continue;
    size_t j = count++;
    for (; j > 0 && header_order(pairs[j - 1].name, request->headers[i].name) > 0; j--) pairs[j] = pairs[j - 1];
    pairs[j] = request->headers[i];
  }
  for (size_t i = 0; i < count; i++) {
    lki_put_text(w, pairs[i].name);
    lki_put_text(w, ":");
    lki_put_folded(w, pairs[i].value);
    lki_put_text(w, "\n");
  }
}

static char *lower(lki_arena *arena, const char *text) {
  char *out = lki_arena_strndup(arena, text, strlen(text));
  for (char *p = out; p != NULL && *p; p++)
    if (*p >= 'A' && *p <= 'Z') *p = (char)(*p - 'A' + 'a');
  return out;
}

/* The account, the path as it is sent (with an endpoint that has the account in its path, as emulators do, it is there
 * twice), and the query decoded. */
static bool put_resource(lki_writer *w, lki_request *request, const char *account) {
  lki_pair pairs[LKI_REQUEST_PAIRS_MAX];
  const char *path = lki_percent_encode(&request->arena, request->path, true);
  if (path == NULL) return false;
  for (size_t i = 0; i < request->query_count; i++) {
    pairs[i] = (lki_pair){lower(&request->arena, request->query[i].name), request->query[i].value};
    if (pairs[i].name == NULL) return false;
  }
  lki_pairs_sort(pairs, request->query_count);
  lki_put_text(w, "/");
  lki_put_text(w, account);
  lki_put_text(w, path);
  for (size_t i = 0; i < request->query_count; i++) {
    const bool more = i > 0 && strcmp(pairs[i].name, pairs[i - 1].name) == 0;
    lki_put_text(w, more ? "," : "\n");
    if (!more) {
      lki_put_text(w, pairs[i].name);
      lki_put_text(w, ":");
    }
    lki_put_text(w, pairs[i].value);
  }
  return true;
}

bool lki_azure_canonical(lki_request *request, const char *account, const char **out) {
  lake_buffer text;
  lki_writer w;
  lki_buffer_init(&text, request->arena.env, TEXT_BYTES_MAX);
  lki_writer_init(&w, &text);
  lki_put_text(&w, request->method);
  lki_put_text(&w, "\n");
  put_standard_headers(&w, request);
  put_ms_headers(&w, request);
  const char *whole = NULL;
  if (put_resource(&w, request, account)) whole = lki_written(&w, &request->arena);
  lki_buffer_free(&text);
  if (whole != NULL) *out = whole;
  return whole != NULL;
}

/* "Fri, 26 Jun 2015 23:39:12 GMT", whatever the program's locale. */
static bool http_date(int64_t wall_s, char out[40]) {
  static const char days[7][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const time_t at = (time_t)wall_s;
  struct tm utc;
  if (wall_s < 0 || gmtime_r(&at, &utc) == NULL || utc.tm_year > 9999 - 1900) return false;
  snprintf(out, 40, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[utc.tm_wday % 7], utc.tm_mday, months[utc.tm_mon % 12],
           utc.tm_year + 1900, utc.tm_hour, utc.tm_min, utc.tm_sec);
  return true;
}

static bool authorize(lki_request *request, const char *account, const char *canonical, lake_bytes key) {
  unsigned char mac[LKI_SHA256_BYTES];
  char signature[4 * ((LKI_SHA256_BYTES + 2) / 3) + 1];
  if (!lki_hmac_sha256(key, (lake_bytes){canonical, strlen(canonical)}, mac)) return false;
  lki_base64((lake_bytes){mac, sizeof mac}, signature);
  const size_t room = strlen(account) + sizeof signature + 16;
  char *line = lki_arena_alloc(&request->arena, room);
  if (line == NULL) return false;
  snprintf(line, room, "SharedKey %s:%s", account, signature);
  lki_request_header(request, "authorization", line);
  return true;
}

lake_status lki_sign_azure(lki_request *request, const lki_credentials *credentials, int64_t wall_s, lake_error *err) {
  if (credentials->anonymous) return LAKE_OK;
  const char *account = credentials->key_id, *canonical = NULL;
  if (account == NULL || credentials->secret == NULL)
    return lki_fail(err, LAKE_INVALID, "signing a request: the credentials have no account with its key");
  unsigned char key[KEY_BYTES_MAX];
  const long key_bytes = lki_base64_decode(credentials->secret, key, sizeof key);
  char date[40];
  lake_status s = LAKE_OK;
  if (key_bytes <= 0) {
    s = lki_fail(err, LAKE_INVALID, "signing a request: the key of account \"%.60s\" is not base64, or too long; copy it again",
                 account);
  } else if (!http_date(wall_s, date)) {
    s = lki_fail(err, LAKE_INVALID, "signing a request: the time is out of range");
  } else {
    lki_request_header(request, "x-ms-date", date);
    if (!request->failed && (!lki_azure_canonical(request, account, &canonical) ||
                             !authorize(request, account, canonical, (lake_bytes){key, (size_t)key_bytes})))
      s = lki_fail(err, LAKE_NOMEM, "signing a request: out of memory");
  }
  lki_wipe(key, sizeof key);
  return s;
}

/* Taking cloud URLs apart. Everything is decoded once, checked, and written again in one way only. Pure but
 * for memory; safe from any thread. */
#include "store/url.h"
#include "base/env.h"
#include "base/error.h"
#include "store/request.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MIB_MAX                                                                                              \
  4000 /* 5 GiB is the most that one request may carry in S3; a block of Azure holds 4,000 MiB */

typedef enum kind { TEXT, BOOL, NUMBER, ENDPOINT, REGION } kind;

enum { IN_S3 = 1, IN_GCS = 2, IN_AZURE = 4, EVERYWHERE = 7 };

static const struct option {
  const char *name;
  kind kind;
  unsigned clouds;
  uint64_t min, max; /* of a number */
} options[LKI_OPTION_COUNT] = {
    [LKI_OPTION_ACCOUNT] = {"account", TEXT, IN_AZURE, 0, 0},
    [LKI_OPTION_ANONYMOUS] = {"anonymous", BOOL, EVERYWHERE, 0, 0},
    [LKI_OPTION_CA_FILE] = {"ca_file", TEXT, EVERYWHERE, 0, 0},
    [LKI_OPTION_CONNECTIONS] = {"connections", NUMBER, EVERYWHERE, 1, 1024},
    [LKI_OPTION_ENDPOINT] = {"endpoint", ENDPOINT, EVERYWHERE, 0, 0},
    [LKI_OPTION_HEDGE_PERCENT] = {"hedge_percent", NUMBER, EVERYWHERE, 0, 100},
    [LKI_OPTION_MULTIPART_MB] = {"multipart_mb", NUMBER, EVERYWHERE, 0, MIB_MAX},
    [LKI_OPTION_PART_MB] = {"part_mb", NUMBER, EVERYWHERE, 5, MIB_MAX},
    [LKI_OPTION_PATH_STYLE] = {"path_style", BOOL, IN_S3, 0, 0},
    [LKI_OPTION_PROFILE] = {"profile", TEXT, IN_S3, 0, 0},
    [LKI_OPTION_REGION] = {"region", REGION, IN_S3 | IN_GCS, 0, 0},
    [LKI_OPTION_REQUESTER_PAYS] = {"requester_pays", BOOL, IN_S3, 0, 0},
    [LKI_OPTION_SSE] = {"sse", TEXT, IN_S3, 0, 0},
    [LKI_OPTION_SSE_KEY] = {"sse_key", TEXT, IN_S3, 0, 0},
};

static const struct {
  const char *scheme;
  const char *noun; /* what its first part names */
} clouds[] = {
    [LKI_CLOUD_S3] = {"s3", "bucket"},
    [LKI_CLOUD_GCS] = {"gs", "bucket"},
    [LKI_CLOUD_AZURE] = {"az", "container"},
};

static bool is_alnum(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}
static bool is_lower(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
static char lower(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static lake_status no_memory(lake_error *err) {
  return lki_fail(err, LAKE_NOMEM, "store URL: out of memory");
}

/* Decodes %XX; a control character or a broken escape is INVALID. part names the piece. */
static lake_status decode(lki_arena *arena, const char *text, size_t bytes, const char *part, char **out,
                          lake_error *err) {
  char *dst = lki_arena_strndup(arena, text, bytes);
  if (dst == NULL) return no_memory(err);
  if (!lki_percent_decode(dst, dst)) /* in place: it only gets shorter */
    return lki_fail(err, LAKE_INVALID,
                    "store URL: a '%%' in the %s does not begin an escape; write %%25 for a '%%'", part);
  for (const char *at = dst; *at != 0; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f)
      return lki_fail(err, LAKE_INVALID, "store URL: the %s holds a control character", part);
  *out = dst;
  return LAKE_OK;
}

bool lki_dns_bucket(const char *bucket) {
  size_t bytes = strlen(bucket);
  if (bytes < 3 || bytes > 63 || !is_lower(bucket[0]) || !is_lower(bucket[bytes - 1])) return false;
  for (size_t i = 0; i < bytes; i++)
    if (!is_lower(bucket[i]) && bucket[i] != '-') return false;
  return true;
}

static lake_status check_bucket(lki_cloud cloud, const char *bucket, lake_error *err) {
  const char *noun = clouds[cloud].noun, *scheme = clouds[cloud].scheme;
  size_t bytes = strlen(bucket);
  if (bytes == 0)
    return lki_fail(err, LAKE_INVALID, "store URL \"%s:\": no %s is named; write %s://%s/prefix", scheme,
                    noun, scheme, noun);
  bool tame = true;
  for (size_t i = 0; i < bytes; i++) tame = tame && (is_alnum(bucket[i]) || strchr("-._", bucket[i]) != NULL);
  if (!tame) /* not repeated: it may hold a secret, as in key:secret@bucket */
    return lki_fail(err, LAKE_INVALID,
                    "store URL \"%s:\": the %s holds a character that none has; write %s://%s/prefix, "
                    "without keys or accounts",
                    scheme, noun, scheme, noun);
  if (cloud == LKI_CLOUD_AZURE) {
    bool good = lki_dns_bucket(bucket) && strstr(bucket, "--") == NULL;
    if (good) return LAKE_OK;
    return lki_fail(
        err, LAKE_INVALID,
        "store URL \"az:\": container \"%.80s\": 3 to 63 lower-case letters, digits and single dashes",
        bucket);
  }
  bool good = bytes >= 3 && bytes <= 255 && is_alnum(bucket[0]) && is_alnum(bucket[bytes - 1]) &&
              strstr(bucket, "..") == NULL;
  if (good) return LAKE_OK;
  return lki_fail(
      err, LAKE_INVALID,
      "store URL \"%s:\": bucket \"%.80s\": 3 to 255 letters, digits, dots, dashes and underscores", scheme,
      bucket);
}

/* The prefix without the slashes around it. Parts that a folder would not have are refused, since other tools
 * would take them for something else. */
static lake_status check_prefix(char *prefix, const char **out, lake_error *err) {
  if (*prefix == '/') prefix++; /* one at either end says nothing; a second one is an empty part */
  size_t bytes = strlen(prefix);
  if (bytes > 1 && prefix[bytes - 1] == '/') prefix[--bytes] = 0;
  if (bytes > LKI_URL_PREFIX_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "store URL: the prefix is longer than %d bytes",
                    LKI_URL_PREFIX_BYTES_MAX);
  for (const char *part = prefix; bytes > 0;) {
    size_t n = strcspn(part, "/");
    if (n == 0)
      return lki_fail(err, LAKE_INVALID,
                      "store URL: the prefix \"%.200s\" has an empty part; write one '/' where it has two", prefix);
    if ((n == 1 && part[0] == '.') || (n == 2 && part[0] == '.' && part[1] == '.'))
      return lki_fail(err, LAKE_INVALID, "store URL: the prefix \"%.200s\" has a part \".\" or \"..\"", prefix);
    if (strncmp(part, ".lake-", 6) == 0)
      return lki_fail(err, LAKE_INVALID,
                      "store URL: the prefix \"%.200s\" has a part that begins with \".lake-\"", prefix);
    if (part[n] == 0) break;
    part += n + 1;
  }
  *out = prefix;
  return LAKE_OK;
}

bool lki_parse_bool(const char *text, bool *out) {
  static const char *const yes[] = {"true", "1", "yes"}, *const no[] = {"false", "0", "no"};
  for (size_t i = 0; i < 3; i++) {
    if (strcasecmp(text, yes[i]) == 0) {
      *out = true;
      return true;
    }
    if (strcasecmp(text, no[i]) == 0) {
      *out = false;
      return true;
    }
  }
  return false;
}

bool lki_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out) {
  uint64_t value = 0;
  if (*text == 0) return false;
  for (; *text != 0; text++) {
    if (*text < '0' || *text > '9') return false;
    uint64_t digit = (uint64_t)(*text - '0');
    if (value > (UINT64_MAX - digit) / 10) return false;
    value = value * 10 + digit;
  }
  if (value < min || value > max) return false;
  *out = value;
  return true;
}

lake_status lki_check_region(const char *name, const char *value, lake_error *err) {
  size_t bytes = strlen(value);
  bool good = bytes > 0 && bytes < 40; /* it becomes a part of host names and of signatures */
  for (size_t i = 0; i < bytes; i++)
    good = good && (is_alnum(value[i]) || value[i] == '-' || value[i] == '_');
  if (good) return LAKE_OK;
  return lki_fail(err, LAKE_INVALID, "%s: not the name of a region; write for example eu-west-1", name);
}

/* "host", "host:port", "[v6]:port"; the number of bytes, or 0. */
static size_t authority_bytes(const char *text) {
  size_t n = 0;
  if (text[0] == '[') {
    n = 1 + strspn(text + 1, "0123456789abcdefABCDEF:.");
    if (text[n] != ']' || n == 1) return 0;
    n++;
  } else {
    while (is_alnum(text[n]) || text[n] == '-' || text[n] == '.' || text[n] == '_') n++;
    if (n == 0 || n > 255) return 0;
  }
  if (text[n] != ':') return n;
  uint64_t port = 0;
  size_t digits = strspn(text + n + 1, "0123456789");
  char number[8] = {0};
  if (digits == 0 || digits > 5) return 0;
  memcpy(number, text + n + 1, digits);
  return lki_parse_u64(number, 1, 65535, &port) ? n + 1 + digits : 0;
}

lake_status lki_check_endpoint(lki_arena *arena, const char *name, const char *value, bool with_path,
                               const char **out, lake_error *err) {
  size_t head = strncasecmp(value, "https://", 8) == 0 ? 8 : strncasecmp(value, "http://", 7) == 0 ? 7 : 0;
  if (head == 0) return lki_fail(err, LAKE_INVALID, "%s: an endpoint begins with https:// or http://", name);
  size_t used = authority_bytes(value + head);
  const char *path = value + head + used;
  size_t path_bytes = strlen(path);
  while (path_bytes > 0 && path[path_bytes - 1] == '/') path_bytes--;
  bool good = used > 0 && (*path == 0 || *path == '/');
  for (size_t i = 0; i < path_bytes; i++)
    good = good && (is_alnum(path[i]) || strchr("/-._~", path[i]) != NULL);
  if (!good || head + used + path_bytes > 250) /* the value is not repeated: it may hold a password */
    return lki_fail(
        err, LAKE_INVALID,
        "%s: an endpoint is https://host or https://host:port, without user, password, query or fragment",
        name);
  if (path_bytes > 0 && !with_path)
    return lki_fail(err, LAKE_INVALID,
                    "%s: an endpoint has no path; the bucket and the prefix are in the store's URL", name);
  char *text = lki_arena_strndup(arena, value, head + used + path_bytes);
  if (text == NULL) return no_memory(err);
  for (size_t i = 0; i < head + used; i++) text[i] = lower(text[i]);
  *out = text;
  return LAKE_OK;
}

/* Names that people and other tools use for what must not stand in a URL. */
static bool secret_name(const char *name) {
  static const char *const parts[] = {"secret",           "password", "token",   "access_key", "accesskey",
                                      "account_key",      "sas",      "session", "signature",  "credential",
                                      "connection_string"};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
    if (strcasestr(name, parts[i]) != NULL) return true;
  return strcasecmp(name, "sig") == 0 || strcasecmp(name, "key") == 0 || strcasecmp(name, "sv") == 0;
}

static lake_status unknown_option(lki_cloud cloud, const char *name, lake_error *err) {
  if (secret_name(name))
    return lki_fail(
        err, LAKE_INVALID,
        "store URL: option \"%.60s\": keys, tokens and signatures do not belong into a URL, which gets into "
        "logs and listings; give them as variables or files (docs/STORES.md)",
        name);
  char known[300] = "";
  size_t used = 0, bytes = strlen(name);
  bool tame = bytes <= 32; /* what does not look like a name is not repeated: it may be a secret */
  for (size_t i = 0; i < bytes; i++) tame = tame && (is_alnum(name[i]) || name[i] == '_' || name[i] == '-');
  if (!tame) name = "...";
  for (size_t i = 0; i < LKI_OPTION_COUNT; i++)
    if ((options[i].clouds & (1u << cloud)) != 0 && used < sizeof known)
      used +=
          (size_t)snprintf(known + used, sizeof known - used, "%s%s", used > 0 ? ", " : "", options[i].name);
  return lki_fail(err, LAKE_INVALID, "store URL \"%s:\": unknown option \"%.60s\"; known: %s",
                  clouds[cloud].scheme, name, known);
}

static lake_status check_text(lki_option option, const char *value, lake_error *err) {
  if (option == LKI_OPTION_SSE && strcmp(value, "AES256") != 0 && strcmp(value, "aws:kms") != 0)
    return lki_fail(err, LAKE_INVALID, "store URL: option sse is AES256 or aws:kms");
  if (option == LKI_OPTION_ACCOUNT &&
      (strlen(value) > 63 || value[strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-")]))
    return lki_fail(err, LAKE_INVALID,
                    "store URL: option account is the storage account's name: lower-case letters and digits");
  if (strlen(value) > 1024)
    return lki_fail(err, LAKE_INVALID, "store URL: option %s is too long", options[option].name);
  return LAKE_OK;
}

/* Checks a value and brings it into its normal form. */
static lake_status normalize(lki_arena *arena, lki_cloud cloud, lki_option option, char *value,
                             const char **out, lake_error *err) {
  const struct option *o = &options[option];
  char name[48];
  bool truth = false;
  uint64_t number = 0;
  snprintf(name, sizeof name, "store URL: option %s", o->name);
  if (*value == 0) return lki_fail(err, LAKE_INVALID, "%s has no value", name);
  switch (o->kind) {
  case BOOL:
    if (!lki_parse_bool(value, &truth)) return lki_fail(err, LAKE_INVALID, "%s is true or false", name);
    *out = truth ? "true" : "false";
    return LAKE_OK;
  case NUMBER:
    if (!lki_parse_u64(value, o->min, o->max, &number))
      return lki_fail(err, LAKE_INVALID, "%s is a number from %" PRIu64 " to %" PRIu64, name, o->min, o->max);
    while (value[0] == '0' && value[1] != 0) value++;
    *out = value;
    return LAKE_OK;
  case REGION:
    *out = value;
    return lki_check_region(name, value, err);
  case ENDPOINT:
    return lki_check_endpoint(arena, name, value, cloud == LKI_CLOUD_AZURE, out, err);
  default:
    *out = value;
    return check_text(option, value, err);
  }
}

static lake_status take_option(lki_arena *arena, const char *text, size_t bytes, lki_url *url,
                               lake_error *err) {
  const char *equals = memchr(text, '=', bytes);
  size_t name_bytes = equals != NULL ? (size_t)(equals - text) : bytes;
  char *name = NULL, *value = NULL;
  lake_status s = decode(arena, text, name_bytes, "name of an option", &name, err);
  if (s == LAKE_OK && equals != NULL)
    s = decode(arena, equals + 1, bytes - name_bytes - 1, "value of an option", &value, err);
  if (s != LAKE_OK) return s;
  size_t i = 0;
  while (i < LKI_OPTION_COUNT && strcmp(options[i].name, name) != 0) i++;
  if (i == LKI_OPTION_COUNT) return unknown_option(url->cloud, equals != NULL ? name : "...", err);
  if ((options[i].clouds & (1u << url->cloud)) == 0)
    return lki_fail(err, LAKE_INVALID, "store URL: %s:// has no option %s", url->scheme, name);
  if (value == NULL) return lki_fail(err, LAKE_INVALID, "store URL: option %s has no value", name);
  if (url->options[i] != NULL)
    return lki_fail(err, LAKE_INVALID, "store URL: option %s is given twice", name);
  return normalize(arena, url->cloud, (lki_option)i, value, &url->options[i], err);
}

static lake_status take_options(lki_arena *arena, const char *query, lki_url *url, lake_error *err) {
  while (*query != 0) {
    size_t bytes = strcspn(query, "&");
    lake_status s = bytes > 0 ? take_option(arena, query, bytes, url, err) : LAKE_OK;
    if (s != LAKE_OK) return s;
    query += bytes;
    if (*query == '&') query++;
  }
  const char *sse = url->options[LKI_OPTION_SSE];
  if (url->options[LKI_OPTION_SSE_KEY] != NULL && (sse == NULL || strcmp(sse, "aws:kms") != 0))
    return lki_fail(err, LAKE_INVALID, "store URL: option sse_key goes with sse=aws:kms only");
  return LAKE_OK;
}

static lake_status take_cloud(const char *text, lki_url *url, size_t *bytes, lake_error *err) {
  for (size_t i = 0; i < sizeof clouds / sizeof clouds[0]; i++) {
    size_t n = strlen(clouds[i].scheme);
    if (strncasecmp(text, clouds[i].scheme, n) != 0 || text[n] != ':') continue;
    if (text[n + 1] != '/' || text[n + 2] != '/')
      return lki_fail(err, LAKE_INVALID, "store URL \"%s:\": write %s://%s/prefix", clouds[i].scheme,
                      clouds[i].scheme, clouds[i].noun);
    url->cloud = (lki_cloud)i;
    url->scheme = clouds[i].scheme;
    *bytes = n + 3;
    return LAKE_OK;
  }
  return lki_fail(err, LAKE_UNSUPPORTED, "store URL: not s3://, gs:// or az://");
}

lake_status lki_url_parse(lki_arena *arena, const char *text, lki_url *out, lake_error *err) {
  lki_url url = {0};
  size_t head = 0;
  if (strnlen(text, LKI_URL_BYTES_MAX + 1) > LKI_URL_BYTES_MAX)
    return lki_fail(err, LAKE_INVALID, "store URL: longer than %d bytes", LKI_URL_BYTES_MAX);
  lake_status s = take_cloud(text, &url, &head, err);
  if (s != LAKE_OK) return s;
  text += head;
  size_t bucket_bytes = strcspn(text, "/?#");
  size_t all_bytes = strcspn(text, "?#"); /* the bucket and what follows it up to the options */
  if (text[all_bytes] == '#' || strchr(text + all_bytes, '#') != NULL)
    return lki_fail(err, LAKE_INVALID, "store URL \"%s:\": a '#' has no meaning here; write %%23",
                    url.scheme);
  char *bucket = lki_arena_strndup(arena, text, bucket_bytes), *prefix = NULL;
  if (bucket == NULL) return no_memory(err);
  s = check_bucket(url.cloud, bucket, err);
  if (s == LAKE_OK) s = decode(arena, text + bucket_bytes, all_bytes - bucket_bytes, "prefix", &prefix, err);
  if (s == LAKE_OK) s = check_prefix(prefix, &url.prefix, err);
  if (s == LAKE_OK && text[all_bytes] == '?') s = take_options(arena, text + all_bytes + 1, &url, err);
  if (s != LAKE_OK) return s;
  url.bucket = bucket;
  *out = url;
  return LAKE_OK;
}

/* Appends text with all but what is plain in every place of a URL written as %XX. */
static lake_status append_encoded(lake_buffer *buffer, const char *text, lake_error *err) {
  static const char digits[] = "0123456789ABCDEF";
  lake_status s = LAKE_OK;
  for (; *text != 0 && s == LAKE_OK; text++) {
    unsigned char c = (unsigned char)*text;
    char escape[3] = {'%', digits[c >> 4], digits[c & 15]};
    bool plain = is_alnum(*text) || strchr("-._~/:=@,+", *text) != NULL;
    s = plain ? lki_buffer_append(buffer, text, 1, err) : lki_buffer_append(buffer, escape, 3, err);
  }
  return s;
}

static lake_status append(lake_buffer *buffer, const char *text, lake_error *err) {
  return lki_buffer_append(buffer, text, strlen(text), err);
}

lake_status lki_url_print(lake_env *env, const lki_url *url, char **out, lake_error *err) {
  lake_buffer buffer;
  lki_buffer_init(&buffer, env, SIZE_MAX / 4);
  const char *mark = "?";
  lake_status s = append(&buffer, url->scheme, err);
  if (s == LAKE_OK) s = append(&buffer, "://", err);
  if (s == LAKE_OK) s = append(&buffer, url->bucket, err);
  if (s == LAKE_OK && url->prefix[0] != 0) s = append(&buffer, "/", err);
  if (s == LAKE_OK) s = append_encoded(&buffer, url->prefix, err);
  for (size_t i = 0; i < LKI_OPTION_COUNT && s == LAKE_OK; i++) {
    if (url->options[i] == NULL) continue;
    s = append(&buffer, mark, err);
    if (s == LAKE_OK) s = append(&buffer, options[i].name, err);
    if (s == LAKE_OK) s = append(&buffer, "=", err);
    if (s == LAKE_OK) s = append_encoded(&buffer, url->options[i], err);
    mark = "&";
  }
  if (s == LAKE_OK && buffer.bytes > LKI_URL_BYTES_MAX)
    s = lki_fail(err, LAKE_INVALID, "store URL: longer than %d bytes", LKI_URL_BYTES_MAX);
  if (s == LAKE_OK) {
    char *text = lki_strndup(env, (const char *)buffer.data, buffer.bytes);
    if (text == NULL)
      s = no_memory(err);
    else
      *out = text;
  }
  lki_buffer_free(&buffer);
  return s;
}

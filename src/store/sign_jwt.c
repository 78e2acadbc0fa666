/* Assertions for token endpoints (RFC 7515, RFC 7523): header.claims.signature, each in base64 for URLs, signed with
 * RS256. No state; safe from any thread. */
#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"
#include "store/digest.h"
#include "store/sign.h"
#include <stdio.h>
#include <string.h>

#define SIGNATURE_BYTES_MAX 2048 /* of a key with 16,384 bits */
#define PART_BYTES_MAX ((size_t)64 * 1024)

/* Without padding, '-' for '+' and '_' for '/'. NULL: no memory. */
static const char *base64_url(lki_arena *arena, lake_bytes data) {
  char *out = lki_arena_alloc(arena, 4 * ((data.bytes + 2) / 3) + 1);
  if (out == NULL) return NULL;
  lki_base64(data, out);
  for (char *p = out; *p; p++) {
    if (*p == '+') *p = '-';
    if (*p == '/') *p = '_';
    if (*p == '=') *p = 0;
  }
  return out;
}

/* {"alg":"RS256","typ":"JWT","kid":...} */
static const char *head(lki_arena *arena, const char *key_id) {
  lake_buffer text;
  lki_buffer_init(&text, arena->env, PART_BYTES_MAX);
  lki_json *json = lki_json_new_object();
  const char *out = NULL;
  bool built = lki_json_add_string(json, "alg", "RS256") && lki_json_add_string(json, "typ", "JWT");
  if (built && key_id != NULL) built = lki_json_add_string(json, "kid", key_id) != NULL;
  if (built && lki_json_print(json, false, &text, NULL) == LAKE_OK) out = base64_url(arena, lki_buffer_view(&text));
  lki_json_free(json);
  lki_buffer_free(&text);
  return out;
}

static const char *join(lki_arena *arena, const char *a, const char *b) {
  const size_t room = strlen(a) + strlen(b) + 2;
  char *out = lki_arena_alloc(arena, room);
  if (out != NULL) snprintf(out, room, "%s.%s", a, b);
  return out;
}

lake_status lki_sign_jwt(lki_arena *arena, const char *pem, const char *key_id, const char *claims_json,
                         const char **out, lake_error *err) {
  const size_t claims_bytes = strlen(claims_json);
  if (claims_bytes > PART_BYTES_MAX || (key_id != NULL && strlen(key_id) > 1024))
    return lki_fail(err, LAKE_INVALID, "token request: the claims or the key id are too long");
  const char *first = head(arena, key_id);
  const char *second = base64_url(arena, (lake_bytes){claims_json, claims_bytes});
  const char *text = first != NULL && second != NULL ? join(arena, first, second) : NULL;
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "token request: out of memory");
  unsigned char signature[SIGNATURE_BYTES_MAX];
  size_t bytes = sizeof signature;
  if (!lki_rsa_sha256(pem, (lake_bytes){text, strlen(text)}, signature, &bytes))
    return lki_fail(err, LAKE_INVALID, "token request: the private key is not an RSA key in PEM without a password; "
                    "download the service account's key file again");
  const char *third = base64_url(arena, (lake_bytes){signature, bytes});
  const char *whole = third != NULL ? join(arena, text, third) : NULL;
  if (whole == NULL) return lki_fail(err, LAKE_NOMEM, "token request: out of memory");
  *out = whole;
  return LAKE_OK;
}

/* Azure's shared access signatures, of an account (ss, srt) and of a container (sr=c): the text that was signed is made
 * anew from the query, then the times and the permissions hold. Only versions from 2020-12-06 on, whose texts have the
 * encryption scope in them. */
#define _GNU_SOURCE
#include "server.h"
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#define SHA256_BYTES 32
#define VERSION_FIRST "2020-12-06"

static void lines(text *t, const request *q, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const char *value = request_param(q, names[i]);
    text_add(t, "%s%s", i > 0 ? "\n" : "", value != NULL ? value : "");
  }
}

static void put_account(text *t, const server *s, const request *q) {
  static const char *const NAMES[] = {"sp", "ss", "srt", "st", "se", "sip", "spr", "sv", "ses"};
  text_add(t, "%s\n", s->options.auth_key);
  lines(t, q, NAMES, sizeof NAMES / sizeof *NAMES);
  text_add(t, "\n");
}

static void put_service(text *t, const server *s, const request *q) {
  static const char *const BEFORE[] = {"sp", "st", "se"};
  static const char *const BEHIND[] = {"si", "sip", "spr", "sv", "sr", "", "ses", "rscc", "rscd", "rsce", "rscl", "rsct"};
  lines(t, q, BEFORE, sizeof BEFORE / sizeof *BEFORE);
  text_add(t, "\n/blob/%s/%s\n", s->options.auth_key, q->bucket);
  lines(t, q, BEHIND, sizeof BEHIND / sizeof *BEHIND);
}

static bool signature_fits(const server *s, const request *q, bool of_account) {
  unsigned char key[256], mac[SHA256_BYTES];
  unsigned mac_bytes = sizeof mac;
  text to_sign = {0}, expected = {0};
  if (of_account) put_account(&to_sign, s, q);
  else put_service(&to_sign, s, q);
  const size_t key_bytes = base64_decode(s->options.auth_secret, key, sizeof key);
  HMAC(EVP_sha256(), key, (int)key_bytes, (const unsigned char *)to_sign.data, to_sign.bytes, mac, &mac_bytes);
  text_base64(&expected, mac, sizeof mac);
  const bool good = strcmp(expected.data, request_param(q, "sig")) == 0;
  text_free(&to_sign);
  text_free(&expected);
  return good;
}

static bool has(const request *q, const char *name, char letter) {
  const char *value = request_param(q, name);
  return value != NULL && letter != 0 && strchr(value, letter) != NULL;
}

static bool permitted(const request *q) {
  switch (q->op) {
  case OP_GET:
  case OP_HEAD: return has(q, "sp", 'r');
  case OP_LIST: return has(q, "sp", 'l');
  case OP_DELETE: return has(q, "sp", 'd');
  case OP_CREATE: return has(q, "sp", 'w') || has(q, "sp", 'c');
  default: return has(q, "sp", 'w');
  }
}

bool sas_check(const server *s, const request *q, int64_t now_unix_s, refusal *why) {
  const char *version = request_param(q, "sv"), *begin = request_param(q, "st"), *end = request_param(q, "se");
  const bool of_account = request_param(q, "ss") != NULL;
  int64_t begin_s = 0, end_s = 0;
  *why = REFUSE_SIGNATURE;
  if (s->options.auth_secret == NULL || q->bucket == NULL || version == NULL || strcmp(version, VERSION_FIRST) < 0 ||
      !signature_fits(s, q, of_account))
    return false;
  *why = REFUSE_TIMES;
  if (end == NULL || !date_parse(end, &end_s) || end_s <= now_unix_s) return false;
  if (begin != NULL && (!date_parse(begin, &begin_s) || begin_s > now_unix_s)) return false;
  *why = REFUSE_RESOURCE;
  if (of_account ? !has(q, "ss", 'b') || !has(q, "srt", q->op == OP_LIST ? 'c' : 'o')
                 : request_param(q, "sr") == NULL || strcmp(request_param(q, "sr"), "c") != 0)
    return false;
  *why = REFUSE_PERMISSION;
  return permitted(q);
}

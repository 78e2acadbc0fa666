/* Assertions with RS256: the signature against the example of RFC 7515, appendix A.2, whose key this is; the rest by
 * its parts. */
#include "support/support.h"

#include "base/buffer.h"
#include "base/env.h"
#include "base/json.h"
#include "store/digest.h"
#include "store/sign.h"
#include <stdlib.h>
#include <string.h>

static const char pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQCh+BYK4uPJtGXO\n"
    "jS1lYmM2K5J9vinh8CR3/BYlzJChNuOL2TSXxbbqY913EeZ8dCn5VrD7io8ImtxL\n"
    "aYk8wTM/U+3QGbh3hCUv7JFP5IV3aVlL6kKA0ywPVb9ilE8TA5a8bpvfbr3SvaNn\n"
    "juygxmj3AbONv/s4yDQs4v5tJ/reSlpIdJed1LnPmt7Ex1sFhSwsD174pcF1A5L5\n"
    "ROjtZMEQxrZHYJqkeDrrnGya11UxMFBji4NmXG9veoKjlnAqH2QbgtPr8jkiGUkf\n"
    "toaHLFcW9Qr4NY2ai50Xw0Byj3+H2JoY2PyrZ62EWQwuz3WTOTY8BwNNb2BvniHg\n"
    "VFbK5emhAgMBAAECggEAEq5xpGnNCivDflJsRQBXHx1hdR1k6Ulwe2JZD50LpXyW\n"
    "PEAeP88vLNO97IjlA7/GQ5sLKMgvfTeXZx9SE+7YwVol2NXOoAJe46sui395IW/G\n"
    "O+pWJ1O0BkTGoVEn2bKVRUCgu+GjBVaYLU6f3l9kJfFNS3E0QbVdxzubSu3Mkqzj\n"
    "kn439X0M/V51gfpRLI9JYanrC4D4qAdGcopV/0ZHHzQlBjudU2QvXt4ehNYTCBr6\n"
    "XCLQUShb1juUO1ZdiYoFaFQT5Tw8bGUl/x/jTj3ccPDVZFD9pIuhLhBOneufuBiB\n"
    "4cS98l2SR/RQyGWSeWjnczT0QU91p1DhOVRuOopznQKBgQDgHMQQ60imZV1URk0K\n"
    "pLttoLhyt3SmqdEf/kgHePDdtzEafpAu+cS191R2JiuoF2yzWXnwFDcqGigp5BNr\n"
    "0AHQfD8/Lk8l1Mk09jxxCfui5nYooNyac8YFjm3vItzVCVDnEd3BbVWG8qf6deqE\n"
    "lMGAg+C2V0L4oNXnP7LZcPAZRwKBgQC5A8R+CZW2MvRTLLHzwZkUXV866cff7tx6\n"
    "kqa0finGG0KgeqlaZPxgCZnFp7AeAcCMtiynVlJ7vMVgePsLq6XtON4tB5kP9jAP\n"
    "rq3rbAOal78eUH5OcED6eNuCV8ixEu1eWcPNCS/l1OW1EnXUEoEHKl54Xrrz2uNw\n"
    "kgMTP1FZ1wKBgAcCn1dwJKufzBWQxWQp1vsM5fggqPN1qGb5y0MAk3g7/Ls5bkUp\n"
    "5u9SN0Ai3Ya6hNnvWJMb7sXQX6U/zyO2M/hTip7tUeh7CXgwo59dkpN75gJLVds2\n"
    "9+DAncu3KXU4f2Fa+7bLNrur53k8KwPOq2bbuTG69QtV7Jr5MR0AHWKNAoGBAIf/\n"
    "evpitUf+4JYbLpvNXWcY052Mpz22aR84mY3nh3F2LF2mjMJDpTg7FmuyPcVw6EcG\n"
    "yoAe9fa65iNqCq+jdw6PVNGo2hxfjSiZ8IIzHdsPXI89//pMjZcQK9r+CCoRjaZj\n"
    "OYiIDktVWZzmevJuv6WywUqd57LE3Zar3dLSIkx1AoGAIYd7DHOhrWvxkwPQsRM2\n"
    "tOgrjbcrfvtQJipd+DlcxyVuuM9sQLdgjVk2oy26F0EmpScGLq2MowX7fhd/QJQ3\n"
    "ydy5cY7YIBi87w93IKLEdfnbJtoOPLUW0ITrJReOgo1cq9SbsxYawBgfp/gh6A56\n"
    "03k2+ZQwVK0JKSHuLFkuQ3U=\n"
    "-----END PRIVATE KEY-----\n";

static const char rfc_input[] = "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ";
static const char rfc_signature[] =
    "cC4hiUPoj9Eetdgtv3hF80EGrhuB//dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh+0Qc/lF5YKt/O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZ"
    "cAcQjbKBYNX4BAynRFdiuB++f/nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB/eSN9383LcOLn6/dO++xi12jzDwusC+e"
    "OkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN/IoypGlUPQGe77Rw==";

static void test_rs256(void **state) {
  (void)state;
  unsigned char out[256];
  char encoded[400];
  size_t bytes = sizeof out;
  assert_true(lki_rsa_sha256(pem, (lake_bytes){rfc_input, strlen(rfc_input)}, out, &bytes));
  assert_int_equal(bytes, 256);
  lki_base64((lake_bytes){out, bytes}, encoded);
  assert_string_equal(encoded, rfc_signature);
  bytes = 255; /* no room: refused, nothing written past it */
  assert_false(lki_rsa_sha256(pem, (lake_bytes){rfc_input, strlen(rfc_input)}, out, &bytes));
}

/* A part of a token as plain text, decoded by way of ordinary base64. */
static size_t plain_part(const char *part, size_t chars, unsigned char *out, size_t room) {
  char text[2000];
  assert_true(chars + 4 < sizeof text);
  for (size_t i = 0; i < chars; i++) text[i] = part[i] == '-' ? '+' : part[i] == '_' ? '/' : part[i];
  while (chars % 4 != 0) text[chars++] = '=';
  text[chars] = 0;
  const long bytes = lki_base64_decode(text, out, room);
  assert_true(bytes >= 0);
  return (size_t)bytes;
}

static void assert_member(const lki_json *json, const char *name, const char *want) {
  const char *got = lki_json_string(lki_json_get(json, name));
  if (want == NULL) {
    assert_null(got);
    return;
  }
  assert_non_null(got);
  assert_string_equal(got, want);
}

static void check_token(lake_env *env, const char *key_id, const char *claims) {
  lki_arena arena;
  lake_error err = LAKE_ERROR_INIT;
  const char *token = NULL;
  lki_arena_init(&arena, env);
  assert_ok(lki_sign_jwt(&arena, pem, key_id, claims, &token, &err), &err);
  assert_null(strpbrk(token, "+/="));
  const char *dot = strchr(token, '.'), *dot2 = strchr(dot + 1, '.');
  assert_non_null(dot2);
  assert_null(strchr(dot2 + 1, '.'));
  unsigned char plain[1500], signature[256];
  size_t bytes = plain_part(token, (size_t)(dot - token), plain, sizeof plain);
  lki_json *head = NULL;
  assert_ok(lki_json_parse((lake_bytes){plain, bytes}, "head", &head, &err), &err);
  assert_member(head, "alg", "RS256");
  assert_member(head, "typ", "JWT");
  assert_member(head, "kid", key_id);
  lki_json_free(head);
  bytes = plain_part(dot + 1, (size_t)(dot2 - dot - 1), plain, sizeof plain);
  assert_int_equal(bytes, strlen(claims));
  assert_memory_equal(plain, claims, bytes);
  bytes = sizeof signature;
  assert_true(lki_rsa_sha256(pem, (lake_bytes){token, (size_t)(dot2 - token)}, signature, &bytes));
  assert_int_equal(plain_part(dot2 + 1, strlen(dot2 + 1), plain, sizeof plain), bytes);
  assert_memory_equal(plain, signature, bytes);
  lki_arena_free(&arena);
}

static void test_token(void **state) {
  (void)state;
  lake_env *env = NULL;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  check_token(env, "abc123", "{\"iss\":\"joe@example.org\",\"exp\":1300819380}");
  check_token(env, NULL, "{}");
  check_token(env, "a\"b\\c", "{\"x\":\"\xc3\xa9?>\"}"); /* quoted in the JSON; '-' and '_' in the base64 */
  lake_env_close(env);
}

static void test_refusals(void **state) {
  (void)state;
  lake_env *env = NULL;
  lki_arena arena;
  lake_error err = LAKE_ERROR_INIT;
  const char *token = NULL;
  char *long_claims = malloc(100000);
  assert_non_null(long_claims);
  memset(long_claims, ' ', 99999);
  long_claims[99999] = 0;
  assert_int_equal(lake_env_open(NULL, &env, NULL), LAKE_OK);
  lki_arena_init(&arena, env);
  assert_status(lki_sign_jwt(&arena, "no key", "k", "{}", &token, &err), LAKE_INVALID, &err);
  assert_null(strstr(err.text, "no key")); /* whatever stood there may be a secret */
  assert_status(lki_sign_jwt(&arena, pem, "k", long_claims, &token, &err), LAKE_INVALID, &err);
  assert_null(token);
  lki_arena_free(&arena);
  lake_env_close(env);
  free(long_claims);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rs256), cmocka_unit_test(test_token),
                                     cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

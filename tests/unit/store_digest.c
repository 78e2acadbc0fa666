/* Digests and encodings against published vectors (FIPS 180, RFC 1321, RFC 4231, RFC 4648), and what is refused. */
#include "support/support.h"

#include "store/digest.h"
#include <string.h>

static lake_bytes text(const char *t) {
  return (lake_bytes){t, strlen(t)};
}

static void test_hashes(void **state) {
  (void)state;
  unsigned char hash[LKI_SHA256_BYTES], md5[LKI_MD5_BYTES];
  char hex[65];
  assert_true(lki_sha256((lake_bytes){NULL, 0}, hash));
  lki_hex(hash, sizeof hash, hex);
  assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  assert_true(lki_sha256(text("abc"), hash));
  lki_hex(hash, sizeof hash, hex);
  assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  assert_true(lki_md5(text("abc"), md5));
  lki_hex(md5, sizeof md5, hex);
  assert_string_equal(hex, "900150983cd24fb0d6963f7d28e17f72");
  assert_true(lki_hmac_sha256(text("Jefe"), text("what do ya want for nothing?"), hash));
  lki_hex(hash, sizeof hash, hex);
  assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  unsigned char long_key[131];
  memset(long_key, 0xaa, sizeof long_key);
  assert_true(lki_hmac_sha256((lake_bytes){long_key, sizeof long_key},
                              text("Test Using Larger Than Block-Size Key - Hash Key First"), hash));
  lki_hex(hash, sizeof hash, hex);
  assert_string_equal(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  assert_true(lki_hmac_sha256((lake_bytes){NULL, 0}, (lake_bytes){NULL, 0}, hash));
  lki_hex(hash, sizeof hash, hex);
  assert_string_equal(hex, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void test_base64(void **state) {
  (void)state;
  static const struct {
    const char *plain, *encoded;
  } cases[] = {{"", ""},         {"f", "Zg=="},         {"fo", "Zm8="},        {"foo", "Zm9v"},
               {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="}, {"foobar", "Zm9vYmFy"}, {"\xfb\xff\xfe", "+//+"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char encoded[16];
    unsigned char plain[8];
    const size_t bytes = strlen(cases[i].plain);
    lki_base64(text(cases[i].plain), encoded);
    assert_string_equal(encoded, cases[i].encoded);
    memset(plain, 0x55, sizeof plain);
    assert_int_equal(lki_base64_decode(encoded, plain, bytes), bytes); /* just enough room */
    assert_memory_equal(plain, cases[i].plain, bytes);
    for (size_t k = bytes; k < sizeof plain; k++) assert_int_equal(plain[k], 0x55); /* and not a byte more is written */
    if (bytes > 0) assert_int_equal(lki_base64_decode(encoded, plain, bytes - 1), -1);
  }
  static const char *const bad[] = {"Z", "Zg", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", " Zm9v", "Zm9-", "Zg=a", "Zm9v=", "Zm9vY==="};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    unsigned char plain[16];
    if (lki_base64_decode(bad[i], plain, sizeof plain) != -1) fail_msg("\"%s\" was taken for base64", bad[i]);
  }
}

static void test_wipe(void **state) {
  (void)state;
  char secret[] = "secret";
  lki_wipe(secret, sizeof secret);
  for (size_t i = 0; i < sizeof secret; i++) assert_int_equal(secret[i], 0);
  lki_wipe(NULL, 0);
}

/* No key is asked for at the terminal, and no failure is left behind for others. The signing itself: sign_jwt. */
static void test_rsa_refuses(void **state) {
  (void)state;
  static const char *const bad[] = {"", "nonsense",
                                    "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n",
                                    "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                                    "MIGjMF8GCSqGSIb3DQEFDTBSMDEGCSqGSIb3DQEFDDAkBBA=\n-----END ENCRYPTED PRIVATE KEY-----\n"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    unsigned char out[512];
    size_t bytes = sizeof out;
    assert_false(lki_rsa_sha256(bad[i], text("x"), out, &bytes));
    assert_int_equal(bytes, sizeof out);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hashes),
      cmocka_unit_test(test_base64),
      cmocka_unit_test(test_wipe),
      cmocka_unit_test(test_rsa_refuses),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}

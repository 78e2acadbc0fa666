/* Digests, MACs, base64 and RSA signatures by OpenSSL. No state; safe from any thread. */
#define OPENSSL_API_COMPAT 10100 /* SHA256_Init and its sisters: see below why */
#include "store/digest.h"
#include <assert.h>
#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <string.h>

static const void *not_null(lake_bytes data) {
  return data.bytes > 0 ? data.data : ""; /* OpenSSL may refuse NULL even when there is nothing to read */
}

/* By SHA-256's own functions, not by EVP: OpenSSL 3 looks an algorithm up for every digest and MAC, under a lock that
 * all threads share, which costs several times what it takes to hash a request's few hundred bytes. */
static bool sha256_two(lake_bytes first, lake_bytes second, unsigned char out[LKI_SHA256_BYTES]) {
  SHA256_CTX ctx;
  bool ok = SHA256_Init(&ctx) == 1 && SHA256_Update(&ctx, not_null(first), first.bytes) == 1 &&
            SHA256_Update(&ctx, not_null(second), second.bytes) == 1 && SHA256_Final(out, &ctx) == 1;
  OPENSSL_cleanse(&ctx, sizeof ctx); /* it may have held a key */
  return ok;
}

bool lki_sha256(lake_bytes data, unsigned char out[LKI_SHA256_BYTES]) {
  return sha256_two(data, (lake_bytes){NULL, 0}, out);
}

bool lki_md5(lake_bytes data, unsigned char out[LKI_MD5_BYTES]) {
  return EVP_Digest(not_null(data), data.bytes, out, NULL, EVP_md5(), NULL) == 1;
}

/* RFC 2104. */
bool lki_hmac_sha256(lake_bytes key, lake_bytes data, unsigned char out[LKI_SHA256_BYTES]) {
  unsigned char inner[SHA256_CBLOCK] = {0}, outer[SHA256_CBLOCK], hash[LKI_SHA256_BYTES];
  bool ok = true;
  if (key.bytes > sizeof inner)
    ok = lki_sha256(key, inner);
  else if (key.bytes > 0)
    memcpy(inner, key.data, key.bytes);
  for (size_t i = 0; i < sizeof inner; i++) {
    outer[i] = inner[i] ^ 0x5c;
    inner[i] ^= 0x36;
  }
  ok = ok && sha256_two((lake_bytes){inner, sizeof inner}, data, hash) &&
       sha256_two((lake_bytes){outer, sizeof outer}, (lake_bytes){hash, sizeof hash}, out);
  OPENSSL_cleanse(inner, sizeof inner);
  OPENSSL_cleanse(outer, sizeof outer);
  OPENSSL_cleanse(hash, sizeof hash);
  return ok;
}

void lki_hex(const unsigned char *data, size_t bytes, char *out) {
  static const char digits[] = "0123456789abcdef";
  for (size_t i = 0; i < bytes; i++) {
    *out++ = digits[data[i] >> 4];
    *out++ = digits[data[i] & 15];
  }
  *out = 0;
}

void lki_base64(lake_bytes data, char *out) {
  assert(data.bytes < (size_t)1 << 30);
  (void)EVP_EncodeBlock((unsigned char *)out, not_null(data), (int)data.bytes);
}

/* Whole groups of four, '=' at most twice and only at the end: OpenSSL by itself lets more pass. */
static bool base64_form(const char *text, size_t chars, size_t *pad) {
  static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (chars % 4 != 0) return false;
  const size_t good = strspn(text, alphabet);
  *pad = chars - good;
  return *pad <= 2 && strspn(text + good, "=") == *pad;
}

long lki_base64_decode(const char *text, unsigned char *out, size_t out_bytes) {
  const size_t chars = strlen(text);
  size_t pad = 0;
  if (chars >= (size_t)1 << 30 || !base64_form(text, chars, &pad)) return -1;
  const size_t bytes = chars / 4 * 3 - pad;
  if (bytes > out_bytes) return -1;
  if (bytes == 0) return 0;
  /* The last group goes aside, since OpenSSL writes three bytes for it whatever its padding. */
  unsigned char last[3];
  const size_t head = chars - 4, used = head / 4 * 3;
  bool ok = head == 0 || EVP_DecodeBlock(out, (const unsigned char *)text, (int)head) == (int)used;
  ok = ok && EVP_DecodeBlock(last, (const unsigned char *)text + head, 4) == 3;
  if (ok) memcpy(out + used, last, bytes - used);
  lki_wipe(last, sizeof last);
  return ok ? (long)bytes : -1;
}

/* Without it OpenSSL would ask the terminal for the password of an encrypted key. */
static int no_password(char *dst, int room, int writing, void *ctx) {
  (void)dst, (void)room, (void)writing, (void)ctx;
  return -1;
}

bool lki_rsa_sha256(const char *pem, lake_bytes data, unsigned char *out, size_t *out_bytes) {
  const size_t pem_bytes = strlen(pem);
  EVP_PKEY *key = NULL;
  EVP_MD_CTX *ctx = EVP_MD_CTX_new();
  BIO *bio = pem_bytes < (size_t)1 << 20 ? BIO_new_mem_buf(pem, (int)pem_bytes) : NULL;
  bool ok = false;
  size_t need = 0;
  if (bio != NULL) key = PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL);
  if (ctx != NULL && key != NULL && EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA &&
      EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
      EVP_DigestSign(ctx, NULL, &need, not_null(data), data.bytes) == 1 && need <= *out_bytes) {
    need = *out_bytes;
    ok = EVP_DigestSign(ctx, out, &need, not_null(data), data.bytes) == 1;
  }
  if (ok) *out_bytes = need;
  BIO_free(bio);
  EVP_PKEY_free(key);
  EVP_MD_CTX_free(ctx);
  ERR_clear_error(); /* the thread's queue of errors is nobody's business */
  return ok;
}

void lki_wipe(void *data, size_t bytes) {
  if (bytes > 0) OPENSSL_cleanse(data, bytes);
}

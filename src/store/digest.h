/* The one door to OpenSSL: digests, MACs, base64, RSA signatures. Pure. Safe from any thread. */
#ifndef LKI_STORE_DIGEST_H
#define LKI_STORE_DIGEST_H

#include <lakestream/base.h>

#define LKI_SHA256_BYTES 32
#define LKI_MD5_BYTES 16

bool lki_sha256(lake_bytes data, unsigned char out[LKI_SHA256_BYTES]);
bool lki_md5(lake_bytes data, unsigned char out[LKI_MD5_BYTES]); /* Content-MD5 only */
bool lki_hmac_sha256(lake_bytes key, lake_bytes data, unsigned char out[LKI_SHA256_BYTES]);
void lki_hex(const unsigned char *data, size_t bytes, char *out); /* lower case; 2 * bytes + 1 */
/* out has room for 4 * ((bytes + 2) / 3) + 1. */
void lki_base64(lake_bytes data, char *out);
/* The number of bytes, or -1: not base64, or more than out_bytes. */
long lki_base64_decode(const char *text, unsigned char *out, size_t out_bytes);
/* RS256 over data with a PEM private key; *out_bytes in: room. false: the key is not usable or the room too small. */
bool lki_rsa_sha256(const char *pem, lake_bytes data, unsigned char *out, size_t *out_bytes);
void lki_wipe(void *data, size_t bytes); /* not optimised away */

#endif

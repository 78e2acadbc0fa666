/* URLs of clouds, connection strings and times: what people type and servers say. A URL that is accepted has
 * one text, which is accepted again and stays what it is. */
#include "base/buffer.h"
#include "base/env.h"
#include "store/resolver.h"
#include "store/settings.h"
#include "store/source.h"
#include "support/fuzz.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned long accepted;

static void check_url(const lki_url *url) {
  size_t bytes = strlen(url->prefix);
  fuzz_expect(url->bucket[0] != 0 && strpbrk(url->bucket, "/:@?#%") == NULL, "an impossible bucket");
  fuzz_expect(bytes <= LKI_URL_PREFIX_BYTES_MAX, "a prefix above its limit");
  fuzz_expect(bytes == 0 || (url->prefix[0] != '/' && url->prefix[bytes - 1] != '/'),
              "slashes around a prefix");
  fuzz_expect(strstr(url->prefix, "//") == NULL, "an empty part in a prefix");
  const char *endpoint = url->options[LKI_OPTION_ENDPOINT];
  fuzz_expect(endpoint == NULL || strpbrk(endpoint, "@?# \r\n") == NULL,
              "an endpoint with more than a host in it");
  for (size_t i = 0; i < LKI_OPTION_COUNT; i++)
    for (const char *at = url->options[i]; at != NULL && *at != 0; at++)
      fuzz_expect((unsigned char)*at >= 0x20, "a control character in an option");
}

static void try_url(const char *text) {
  lake_error err = LAKE_ERROR_INIT;
  lki_arena arena;
  lki_url url;
  char *one = NULL, *two = NULL;
  lki_arena_init(&arena, fuzz_env());
  lake_status s = lki_url_parse(&arena, text, &url, &err);
  if (s == LAKE_OK) {
    check_url(&url);
    s = lki_url_print(fuzz_env(), &url, &one, &err); /* too long when it is encoded: INVALID */
  }
  if (s == LAKE_OK) {
    accepted++;
    fuzz_expect(lki_settings_canonical(fuzz_env(), one, &two, &err) == LAKE_OK, err.text);
    fuzz_expect(strcmp(one, two) == 0, "two texts for one URL");
  } else {
    fuzz_expect(s == LAKE_INVALID || s == LAKE_UNSUPPORTED, lake_status_name(s));
    fuzz_expect(err.status == s && err.text[0] != 0, "the error is not filled");
  }
  lki_free(fuzz_env(), one);
  lki_free(fuzz_env(), two);
  lki_arena_free(&arena);
}

static void try_connection_string(const char *text) {
  static const char *const names[] = {"AccountName", "AccountKey", "BlobEndpoint", "SharedAccessSignature"};
  lki_arena arena;
  lki_arena_init(&arena, fuzz_env());
  for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
    const char *value = lki_connection_string_get(&arena, text, names[i]);
    fuzz_expect(value == NULL || (strchr(value, ';') == NULL && strstr(text, value) != NULL),
                "not a value of the text");
  }
  lki_arena_free(&arena);
}

static void try_time(const char *text) {
  int64_t seconds = 0;
  if (!lki_parse_time(text, &seconds)) return;
  accepted++;
  fuzz_expect(seconds > -200000 && seconds < (int64_t)253402300800 + 200000, "a time outside of its years");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  char *text = malloc(bytes + 1);
  if (text == NULL) abort();
  memcpy(text, data, bytes);
  text[bytes] = 0;
  try_url(text);
  try_connection_string(text);
  try_time(text);
  free(text);
  fuzz_expect_nothing_left();
  return 0;
}

#ifndef LAKE_LIBFUZZER
int main(int argc, char **argv) {
  static const char *const texts[] = {
      "s3://bucket/prefix/a b?region=eu-west-1&endpoint=http://127.0.0.1:9000/&path_style=true&part_mb=16",
      "gs://my.bucket_1/x%20y/%C3%A9?anonymous=1&connections=64&hedge_percent=5&multipart_mb=0",
      "az://data/run?account=acc&endpoint=http://[::1]:10000/acc&ca_file=/etc/ca.pem",
      "s3://bucket?sse=aws:kms&sse_key=arn:aws:kms:eu-west-1:1:key/1&requester_pays=yes&profile=prod",
      "AccountName=acc;AccountKey=aHVzaA==;BlobEndpoint=http://h/acc;SharedAccessSignature=sv=1&sig=x",
      "2026-01-31T12:00:00Z",
      "2026-01-31T12:00:00.123+01:30",
      NULL};
  int rc = fuzz_main_texts(argc, argv, texts);
  printf("%lu accepted\n", accepted);
  fuzz_expect(argc > 1 || accepted > 100, "hardly any input was accepted");
  return rc;
}
#endif

/* The text of a cloud URL, taken apart and checked: s3://bucket/prefix?name=value&…, gs://…,
 * az://container/…. Pure but for memory. A URL is shown, logged and put into job files, so a secret in one is
 * refused, and never repeated in the error. */
#ifndef LKI_STORE_URL_H
#define LKI_STORE_URL_H

#include "base/buffer.h"

typedef enum lki_cloud { LKI_CLOUD_S3, LKI_CLOUD_GCS, LKI_CLOUD_AZURE } lki_cloud;

#define LKI_URL_BYTES_MAX 4096
#define LKI_URL_PREFIX_BYTES_MAX 512

/* In the order of their names, which is that of a canonical URL. */
typedef enum lki_option {
  LKI_OPTION_ACCOUNT,
  LKI_OPTION_ANONYMOUS,
  LKI_OPTION_CA_FILE,
  LKI_OPTION_CONNECTIONS,
  LKI_OPTION_ENDPOINT,
  LKI_OPTION_HEDGE_PERCENT,
  LKI_OPTION_MULTIPART_MB,
  LKI_OPTION_PART_MB,
  LKI_OPTION_PATH_STYLE,
  LKI_OPTION_PROFILE,
  LKI_OPTION_REGION,
  LKI_OPTION_REQUESTER_PAYS,
  LKI_OPTION_SSE,
  LKI_OPTION_SSE_KEY,
  LKI_OPTION_COUNT
} lki_option;

typedef struct lki_url {
  lki_cloud cloud;
  const char *scheme; /* "s3" */
  const char *bucket;
  const char *prefix;                    /* decoded, without slashes at either end; "": none */
  const char *options[LKI_OPTION_COUNT]; /* decoded and in their normal form; NULL: not there */
} lki_url;

/* All texts are the arena's. INVALID, NOMEM. */
lake_status lki_url_parse(lki_arena *arena, const char *text, lki_url *out, lake_error *err);
/* The one text of a URL; the caller frees *out with lki_free. */
lake_status lki_url_print(lake_env *env, const lki_url *url, char **out, lake_error *err);

/* The checks of single values, which also come from variables and files. Each fills `err` with what is wrong
 * with `name`, which says where the value came from too: "AWS_REGION", "option region". */
lake_status lki_check_region(const char *name, const char *value, lake_error *err);
/* Brings "https://Host:port/" into its normal form, without a slash at the end. with_path: a path may follow.
 */
lake_status lki_check_endpoint(lki_arena *arena, const char *name, const char *value, bool with_path,
                               const char **out, lake_error *err);
bool lki_parse_bool(const char *text, bool *out); /* true, false, 1, 0, yes, no, in any case */
/* A plain decimal number; false: not one, or not within min to max. */
bool lki_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool lki_dns_bucket(const char *bucket); /* can be the first label of a host name */

#endif

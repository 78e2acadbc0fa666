/* What a cloud URL, the environment and the files of the user's profiles say about a store, each with the
 * place it came from. The options of the URL come before the environment, which comes before the files.
 * Immutable once opened. */
#ifndef LKI_STORE_SETTINGS_H
#define LKI_STORE_SETTINGS_H

#include "base/buffer.h"
#include "store/profile.h"
#include "store/url.h"

/* One setting as `lake doctor` shows it. */
typedef struct lki_setting {
  const char *name;   /* "region" */
  const char *value;  /* "eu-west-1"; never a secret */
  const char *source; /* "AWS_REGION", "~/.aws/config [profile prod]", "URL", "default" */
} lki_setting;

#define LKI_SETTINGS_MAX 32

typedef struct lki_settings {
  lki_arena arena;
  lki_cloud cloud;
  const char *bucket;   /* S3, GCS: bucket; Azure: container */
  const char *prefix;   /* without slashes at either end; "" for none */
  const char *endpoint; /* "https://s3.eu-west-1.amazonaws.com": no trailing slash; Azure: with the account's
                           path if any */
  const char *region;   /* S3 and HMAC keys; "us-east-1" or "auto" by default */
  const char *account;  /* Azure; else NULL */
  const char *profile;  /* of S3; "default" unless one is named */
  bool profile_in_url;  /* then keys in variables are somebody else's */
  bool path_style; /* the bucket is the first component of the path, not part of the host; Azure, GCS: always
                    */
  bool anonymous;
  bool emulator; /* STORAGE_EMULATOR_HOST: a server for tests, which needs no credentials */
  bool requester_pays;
  const char *sse;          /* "AES256", "aws:kms", or NULL */
  const char *sse_key;      /* key id for aws:kms, or NULL */
  const char *ca_file;      /* or NULL */
  uint64_t part_bytes;      /* of a multipart upload: 16 MiB */
  uint64_t multipart_bytes; /* larger objects go in parts: 64 MiB; UINT64_MAX: never */
  uint32_t
      hedge_percent;    /* ranged reads that may be asked twice when slow, of a hundred; 0: none (default) */
  uint32_t connections; /* in flight to the host; 0: the engine's default */
  const char *config_path;      /* ~/.aws/config or what stands for it; NULL: there is no home */
  const char *credentials_path; /* ~/.aws/credentials */
  lki_setting shown[LKI_SETTINGS_MAX];
  size_t shown_count;
} lki_settings;

/* url: "s3://bucket/prefix?region=…". INVALID says which option or variable is wrong, and how it should read.
 */
lake_status lki_settings_open(lake_env *env, const char *url, lki_settings *out, lake_error *err);
void lki_settings_close(lki_settings *settings);
/* The same store always gives the same text, without secrets: scheme, bucket, prefix, and the options of the
 * URL in order of their names. Reads nothing but the URL. The caller frees *out with lki_free. */
lake_status lki_settings_canonical(lake_env *env, const char *url, char **out, lake_error *err);

#endif

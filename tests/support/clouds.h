/* The library's cloud stores over the fault server, one dialect at a time: starts it, and sets the environment that a
 * user of that cloud would have (keys, endpoint), without anything of the machine's own. */
#ifndef LAKE_TESTS_CLOUDS_H
#define LAKE_TESTS_CLOUDS_H

#include "support/faultd.h"

typedef enum cloud_kind {
  CLOUD_S3,
  CLOUD_GCS_KEY,   /* HMAC keys: the XML API */
  CLOUD_GCS_TOKEN, /* as an emulator: the JSON API, nothing signed */
  CLOUD_AZURE,
  CLOUD_COUNT
} cloud_kind;

typedef struct cloud {
  cloud_kind kind;
  const char *name;
  faultd *server;
  char file[512]; /* of S3's credentials */
  unsigned renewals;
  char url[256]; /* of a store: "s3://bucket/run?endpoint=…" */
} cloud;

/* Requests are verified by their signatures where the kind has them. Asserts. One at a time in a process, since the
 * environment is one. */
cloud *cloud_start(cloud_kind kind);
void cloud_stop(cloud *c);
/* S3, whose keys lie in a file: puts others there, as a tool that renews them does. */
void cloud_renew(cloud *c);
/* The URL with another prefix, in static storage of the cloud until the next call. */
const char *cloud_url(cloud *c, const char *prefix);

/* Runs a test on several clouds, one after another: the exit code of a test's main(). */
int cloud_run(void (*test)(cloud_kind kind), const cloud_kind *kinds, size_t count);
/* The same on all. */
int cloud_run_all(void (*test)(cloud_kind kind));

#endif

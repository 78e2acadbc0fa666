/* Checking a whole namespace: the manifests, every segment, every TGB's bytes, and the promises on the step order. */
#ifndef LKI_LAUNCHER_VERIFY_H
#define LKI_LAUNCHER_VERIFY_H

#include "cli.h"
#include "client/namespace.h"

#define LKI_VERIFY_JOBS_MAX 64

typedef struct lki_verify_options {
  uint64_t from, to;     /* steps; {0, UINT64_MAX}: all */
  bool fast;             /* footers only, not the frames */
  uint64_t chain;        /* manifest versions before the newest that are checked too */
  uint32_t jobs;         /* TGBs read at once */
} lki_verify_options;

typedef struct lki_verify_fault {
  const char *kind;   /* "manifest", "chain", "segment", "tgb", "order", "producer" */
  const char *object; /* key, or what else is at fault */
  const char *text;   /* what was found */
  const char *means;  /* what it means for the stream */
} lki_verify_fault;

typedef struct lki_verify_result {
  uint64_t version, step_count, segment_count, manifest_count, tgb_count, slice_count, read_bytes;
  uint64_t quarantined_count; /* steps passed over */
  uint64_t fault_count;
} lki_verify_result;

typedef void lki_verify_fault_fn(void *ctx, const lki_verify_fault *fault);

/* OK: everything was looked at; the result says how many faults were found and on_fault was called for each, one at a
 * time. Else what kept it from looking. */
lake_status lki_verify(lki_cli *cli, lake_namespace *ns, const lki_verify_options *options,
                       lki_verify_fault_fn *on_fault, void *ctx, lki_verify_result *result, lake_error *err);

#endif

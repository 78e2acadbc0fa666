/* Writing a range of steps into one HDF5 file: the only door to HDF5. Call it from one thread. */
#ifndef LKI_LAUNCHER_EXPORT_HDF5_H
#define LKI_LAUNCHER_EXPORT_HDF5_H

#include "cli.h"
#include "client/namespace.h"

typedef struct lki_export_request {
  lake_namespace *ns;
  const lki_manifest *manifest;
  uint64_t from, to;   /* steps that the manifest holds */
  uint64_t tensor_set; /* bit i: tensor i of the schema */
  const char *path;
  bool force;          /* an existing file is replaced */
} lki_export_request;

typedef struct lki_export_result {
  uint64_t step_count;
  uint64_t file_bytes;
} lki_export_result;

/* The file appears under its name complete, durable and read back, or not at all. EXISTS: it is there already.
 * CANCELED: a signal that lki_cli_block_signals holds back came. */
lake_status lki_export_hdf5(lki_cli *cli, const lki_export_request *request, lki_export_result *result,
                            lake_error *err);

#endif

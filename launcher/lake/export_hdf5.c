/* The HDF5 file of a range of steps. It is written beside its name, read back, and only then given the name, so that a
 * crash, a full disk or a damaged write never leaves a file that looks like a good one. HDF5's own file locks are off:
 * they fail on some parallel file systems, and nobody else knows the temporary name.
 *
 * HDF5 handles are hid_t values of which a negative one is an error; each is closed by who opened it. */
#include "export_hdf5.h"
#include "base/checksum.h"
#include "export_disk.h"
#include "tgb/tgb.h"
#include "walk.h"
#include <errno.h>
#include <fcntl.h>
#include <hdf5.h>
#include <hdf5_hl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DIMENSIONS_MAX (4 + LAKE_TENSOR_RANK_MAX) /* step, d, c, row, then those of one row */
#define CHUNK_BYTES_MAX ((hsize_t)64 << 20)
#define DEFLATE_LEVEL 4
#define RAW_DATASET "slices"

typedef struct column {
  uint32_t tensor; /* index in the schema; UINT32_MAX: raw slices */
  char name[64];
  hid_t type, dataset;
  int rank;
  hsize_t dims[DIMENSIONS_MAX], block[DIMENSIONS_MAX]; /* block: one slice's part */
  size_t block_bytes;
  uint64_t checksum; /* over the blocks in the order written */
} column;

typedef struct exporter {
  lki_cli *cli;
  const lki_export_request *request;
  const lki_schema *schema;
  char *temporary;
  bool created; /* the temporary file is there */
  hid_t file, steps, producer, epoch, seq, producer_type;
  column columns[LAKE_TENSOR_COUNT_MAX];
  uint32_t column_count;
  hsize_t row_count; /* steps in the file */
  hsize_t row;       /* next to be written */
} exporter;

/* ---- errors ---- */

static herr_t first_cause(unsigned n, const H5E_error2_t *e, void *ctx) {
  if (n == 0 && e->desc != NULL) snprintf(ctx, 200, "%s", e->desc);
  return 0;
}

/* What errno says about making, writing or naming a file. */
static lake_status fail_file(const char *path, const char *what, int code, lake_error *err) {
  switch (code) {
  case ENOENT:
  case ENOTDIR: return lki_fail(err, LAKE_NOTFOUND, "%s: %s: its folder does not exist, or takes no files", path, what);
  case EACCES:
  case EPERM: return lki_fail(err, LAKE_DENIED, "%s: %s: not permitted in that folder; choose another", path, what);
  case EROFS: return lki_fail(err, LAKE_DENIED, "%s: %s: a read-only file system; choose another", path, what);
  case ENOSPC:
  case EDQUOT:
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: %s: the disk is full or your quota reached; free space, or choose another",
                    path, what);
  case EFBIG:
    return lki_fail(err, LAKE_UNAVAILABLE, "%s: %s: above the limit on the size of a file (ulimit -f)", path, what);
  default: return lki_fail(err, LAKE_UNAVAILABLE, "%s: %s: %s", path, what, strerror(code));
  }
}

static lake_status fail_hdf5(const exporter *x, const char *what, lake_error *err) {
  const int code = lki_export_disk_failure();
  if (code != 0) return fail_file(x->request->path, "not written", code, err);
  char cause[200] = "unknown cause";
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, first_cause, cause);
  return lki_fail(err, LAKE_UNAVAILABLE, "%s: HDF5: %s: %s", x->request->path, what, cause);
}

/* Whether the user wants it to end. The signals are blocked (lki_export_hdf5 says by whom) and looked for here. */
static lake_status check_signals(const exporter *x, lake_error *err) {
  const int number = lki_cli_signal(x->cli);
  if (number == 0) return LAKE_OK;
  return lki_fail(err, LAKE_CANCELED, "stopped by SIG%s; %s was not written", sigabbrev_np(number), x->request->path);
}

/* ---- types, attributes ---- */

static hid_t float16_type(void) {
  hid_t type = H5Tcopy(H5T_IEEE_F32LE);
  if (type < 0) return type;
  if (H5Tset_fields(type, 15, 10, 5, 0, 10) < 0 || H5Tset_size(type, 2) < 0 || H5Tset_ebias(type, 15) < 0) {
    H5Tclose(type);
    return -1;
  }
  return type;
}

/* h5py's own form of a bool. */
static hid_t bool_type(void) {
  hid_t type = H5Tenum_create(H5T_STD_I8LE);
  signed char no = 0, yes = 1;
  if (type >= 0 && H5Tenum_insert(type, "FALSE", &no) >= 0 && H5Tenum_insert(type, "TRUE", &yes) >= 0) return type;
  if (type >= 0) H5Tclose(type);
  return -1;
}

static hid_t type_of(lake_dtype dtype) {
  switch (dtype) {
  case LAKE_U8: return H5Tcopy(H5T_STD_U8LE);
  case LAKE_I8: return H5Tcopy(H5T_STD_I8LE);
  case LAKE_U16: return H5Tcopy(H5T_STD_U16LE);
  case LAKE_I16: return H5Tcopy(H5T_STD_I16LE);
  case LAKE_U32: return H5Tcopy(H5T_STD_U32LE);
  case LAKE_I32: return H5Tcopy(H5T_STD_I32LE);
  case LAKE_U64: return H5Tcopy(H5T_STD_U64LE);
  case LAKE_I64: return H5Tcopy(H5T_STD_I64LE);
  case LAKE_F16: return float16_type();
  case LAKE_BF16: return H5Tcopy(H5T_STD_U16LE); /* HDF5 readers know no bf16: its bits, and an attribute that says so */
  case LAKE_F32: return H5Tcopy(H5T_IEEE_F32LE);
  case LAKE_F64: return H5Tcopy(H5T_IEEE_F64LE);
  case LAKE_BOOL: return bool_type();
  }
  return -1;
}

static bool put_text(hid_t object, const char *name, const char *text) {
  hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR), attribute = -1;
  bool done = type >= 0 && space >= 0 && H5Tset_size(type, H5T_VARIABLE) >= 0 &&
              H5Tset_cset(type, H5T_CSET_UTF8) >= 0;
  if (done) attribute = H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  done = attribute >= 0 && H5Awrite(attribute, type, &text) >= 0;
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  return done;
}

static bool put_numbers(hid_t object, const char *name, const uint64_t *values, hsize_t count) {
  hid_t space = count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &count, NULL);
  hid_t attribute = space >= 0 ? H5Acreate2(object, name, H5T_STD_U64LE, space, H5P_DEFAULT, H5P_DEFAULT) : -1;
  bool done = attribute >= 0 && H5Awrite(attribute, H5T_NATIVE_UINT64, values) >= 0;
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
  return done;
}

static bool put_number(hid_t object, const char *name, uint64_t value) { return put_numbers(object, name, &value, 1); }

/* ---- the file's frame ---- */

static hid_t access_list(void) {
  hid_t list = H5Pcreate(H5P_FILE_ACCESS);
  if (list >= 0 && H5Pset_file_locking(list, 0, 1) >= 0) return list;
  if (list >= 0) H5Pclose(list);
  return -1;
}

/* The name first, without HDF5, which does not say why it cannot be had. */
static lake_status create_file(exporter *x, lake_error *err) {
  const int fd = open(x->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd < 0) return fail_file(x->request->path, "not created", errno, err);
  close(fd);
  x->created = true;
  hid_t access = access_list();
  if (access >= 0 && lki_export_disk(access, x->temporary) >= 0)
    x->file = H5Fcreate(x->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, access);
  lake_status s = x->file >= 0 ? LAKE_OK : fail_hdf5(x, "creating the file", err);
  if (access >= 0) H5Pclose(access);
  if (s != LAKE_OK) return s;
  char uuid[37];
  lki_id_format(x->schema->namespace_id, uuid);
  uint64_t mesh[2] = {x->schema->mesh.d_count, x->schema->mesh.c_count};
  const lki_manifest *m = x->request->manifest;
  bool done = put_text(x->file, "format", "lakestream-hdf5") && put_number(x->file, "format_version", 1) &&
              put_text(x->file, "uuid", uuid) && put_text(x->file, "url", lki_store_url(x->request->ns->store)) &&
              put_numbers(x->file, "mesh", mesh, 2) && put_number(x->file, "rows_per_slice", x->schema->rows_per_slice) &&
              put_text(x->file, "layout", "contiguous") && put_text(x->file, "note", x->schema->note) &&
              put_text(x->file, "lakestream_version", lake_version_string()) &&
              put_number(x->file, "manifest_version", m->version) && put_number(x->file, "first_step", x->request->from) &&
              put_number(x->file, "step_count", x->row_count);
  return done ? LAKE_OK : fail_hdf5(x, "writing attributes", err);
}

/* Chunked, checksummed, compressed. The first dimension may be empty, so it is declared extendible. */
static hid_t create_dataset(hid_t file, const char *name, hid_t type, int rank, const hsize_t *dims,
                            const hsize_t *chunk, bool deflate) {
  hsize_t dims_max[DIMENSIONS_MAX];
  memcpy(dims_max, dims, sizeof *dims * (size_t)rank);
  dims_max[0] = H5S_UNLIMITED;
  hid_t space = H5Screate_simple(rank, dims, dims_max), list = H5Pcreate(H5P_DATASET_CREATE), dataset = -1;
  bool done = space >= 0 && list >= 0 && H5Pset_chunk(list, rank, chunk) >= 0;
  if (done && deflate) done = H5Pset_shuffle(list) >= 0 && H5Pset_deflate(list, DEFLATE_LEVEL) >= 0;
  if (done && deflate) done = H5Pset_fletcher32(list) >= 0;
  if (done) dataset = H5Dcreate2(file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  return dataset;
}

static lake_status create_step_datasets(exporter *x, lake_error *err) {
  hsize_t chunk = x->row_count < 1 ? 1 : x->row_count > 65536 ? 65536 : x->row_count;
  x->producer_type = H5Tcopy(H5T_C_S1);
  if (x->producer_type < 0 || H5Tset_size(x->producer_type, LKI_PRODUCER_ID_BYTES_MAX + 1) < 0)
    return fail_hdf5(x, "the type of producer ids", err);
  x->steps = create_dataset(x->file, "steps", H5T_STD_U64LE, 1, &x->row_count, &chunk, true);
  x->producer = create_dataset(x->file, "producer", x->producer_type, 1, &x->row_count, &chunk, true);
  x->epoch = create_dataset(x->file, "epoch", H5T_STD_U64LE, 1, &x->row_count, &chunk, true);
  x->seq = create_dataset(x->file, "seq", H5T_STD_U64LE, 1, &x->row_count, &chunk, true);
  if (x->steps < 0 || x->producer < 0 || x->epoch < 0 || x->seq < 0) return fail_hdf5(x, "creating datasets", err);
  return H5DSset_scale(x->steps, "step") >= 0 ? LAKE_OK : fail_hdf5(x, "making steps a dimension scale", err);
}

static bool label(const exporter *x, const column *c) {
  static const char *const names[] = {"step", "d", "c", "row"};
  bool done = H5DSattach_scale(c->dataset, x->steps, 0) >= 0;
  for (int i = 0; done && i < c->rank; i++) {
    char text[24];
    snprintf(text, sizeof text, i < 4 ? "%s" : "dim%s%d", i < 4 ? names[i] : "", i - 4);
    done = H5DSset_label(c->dataset, (unsigned)i, text) >= 0;
  }
  return done;
}

static lake_status create_column(exporter *x, column *c, lake_error *err) {
  hsize_t chunk[DIMENSIONS_MAX];
  const bool raw = c->tensor == UINT32_MAX;
  c->dims[0] = x->row_count;
  c->dims[1] = x->schema->mesh.d_count;
  c->dims[2] = x->schema->mesh.c_count;
  c->block[0] = c->block[1] = c->block[2] = 1;
  c->rank = 3;
  hsize_t bytes = 1;
  if (!raw) {
    const lake_tensor_spec *spec = &x->schema->tensors[c->tensor];
    c->dims[c->rank++] = x->schema->rows_per_slice;
    for (uint32_t i = 0; i < spec->rank; i++) c->dims[c->rank++] = spec->shape[i];
    bytes = lake_dtype_bytes(spec->dtype);
    for (int i = 3; i < c->rank; i++) bytes *= c->block[i] = c->dims[i];
  }
  c->block_bytes = (size_t)bytes;
  memcpy(chunk, c->block, sizeof chunk);
  /* One chunk a slice, unless that is more than a reader wants to hold at once. */
  for (int i = 3; i < c->rank && bytes > CHUNK_BYTES_MAX; i++)
    while (chunk[i] > 1 && bytes > CHUNK_BYTES_MAX) {
      bytes = bytes / chunk[i] * ((chunk[i] + 1) / 2);
      chunk[i] = (chunk[i] + 1) / 2;
    }
  c->type = raw ? H5Tvlen_create(H5T_STD_U8LE) : type_of(x->schema->tensors[c->tensor].dtype);
  if (c->type >= 0) c->dataset = create_dataset(x->file, c->name, c->type, c->rank, c->dims, chunk, !raw);
  bool done = c->dataset >= 0 && label(x, c) &&
              put_text(c->dataset, "dtype", raw ? "bytes" : lake_dtype_name(x->schema->tensors[c->tensor].dtype));
  return done ? LAKE_OK : fail_hdf5(x, c->name, err);
}

static lake_status create_columns(exporter *x, lake_error *err) {
  lake_status s = LAKE_OK;
  static const char *const taken[] = {"steps", "producer", "epoch", "seq"};
  for (uint32_t i = 0; i < x->schema->tensor_count; i++) {
    if ((x->request->tensor_set >> i & 1) == 0) continue;
    column *c = &x->columns[x->column_count++];
    *c = (column){.tensor = i, .type = -1, .dataset = -1};
    snprintf(c->name, sizeof c->name, "%s", x->schema->tensors[i].name);
    for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++) /* a tensor may be called like one of our own */
      if (strcmp(c->name, taken[k]) == 0) snprintf(c->name, sizeof c->name, "tensor_%s", taken[k]);
  }
  if (x->schema->tensor_count == 0)
    x->columns[x->column_count++] = (column){.tensor = UINT32_MAX, .name = RAW_DATASET, .type = -1, .dataset = -1};
  for (uint32_t i = 0; s == LAKE_OK && i < x->column_count; i++) s = create_column(x, &x->columns[i], err);
  return s;
}

/* ---- the steps ---- */

static bool write_at(hid_t dataset, hid_t type, int rank, const hsize_t *at, const hsize_t *block, const void *data) {
  hid_t file_space = H5Dget_space(dataset), memory_space = H5Screate_simple(rank, block, NULL);
  bool done = file_space >= 0 && memory_space >= 0 &&
              H5Sselect_hyperslab(file_space, H5S_SELECT_SET, at, NULL, block, NULL) >= 0 &&
              H5Dwrite(dataset, type, memory_space, file_space, H5P_DEFAULT, data) >= 0;
  if (memory_space >= 0) H5Sclose(memory_space);
  if (file_space >= 0) H5Sclose(file_space);
  return done;
}

static lake_status write_slice(exporter *x, uint32_t slice, lake_bytes view, lake_error *err) {
  lake_tensor tensors[LAKE_TENSOR_COUNT_MAX];
  uint32_t count = 0;
  lake_status s = LAKE_OK;
  if (x->schema->tensor_count > 0)
    s = lki_schema_slice_tensors(x->schema, view.data, view.bytes, tensors, LAKE_TENSOR_COUNT_MAX, &count, err);
  for (uint32_t i = 0; s == LAKE_OK && i < x->column_count; i++) {
    column *c = &x->columns[i];
    hsize_t at[DIMENSIONS_MAX] = {x->row, slice / x->schema->mesh.c_count, slice % x->schema->mesh.c_count};
    hvl_t bytes = {view.bytes, (void *)(uintptr_t)view.data};
    bool raw = c->tensor == UINT32_MAX;
    const void *data = raw ? (const void *)&bytes : tensors[c->tensor].data;
    c->checksum = raw ? lki_checksum(view.data, view.bytes, c->checksum) : lki_checksum(data, c->block_bytes, c->checksum);
    if (!write_at(c->dataset, c->type, c->rank, at, c->block, data)) s = fail_hdf5(x, c->name, err);
  }
  return s;
}

static lake_status write_step(void *ctx, const lki_walk_step *step, lake_error *err) {
  exporter *x = ctx;
  const lki_manifest *m = x->request->manifest;
  if (lki_export_disk_failure() != 0) return fail_hdf5(x, "writing", err);
  lake_status s = check_signals(x, err);
  if (s != LAKE_OK) return s;
  for (uint32_t i = 0; i < m->quarantine_count; i++)
    if (m->quarantine[i] == step->step) return LAKE_OK; /* readers must not deliver it */
  lki_tgb_ref tgb = {&x->schema->namespace_id, step->producer_id, step->descriptor};
  char producer[LKI_PRODUCER_ID_BYTES_MAX + 1] = {0};
  hsize_t one = 1;
  snprintf(producer, sizeof producer, "%s", step->producer_id);
  if (!write_at(x->steps, H5T_NATIVE_UINT64, 1, &x->row, &one, &step->step) ||
      !write_at(x->producer, x->producer_type, 1, &x->row, &one, producer) ||
      !write_at(x->epoch, H5T_NATIVE_UINT64, 1, &x->row, &one, &step->descriptor->epoch) ||
      !write_at(x->seq, H5T_NATIVE_UINT64, 1, &x->row, &one, &step->descriptor->seq))
    return fail_hdf5(x, "writing a step's number", err);
  for (uint32_t i = 0; s == LAKE_OK && i < step->descriptor->slice_count; i++) {
    lki_slice slice = {0};
    s = lki_tgb_read_slice(x->request->ns->store, &tgb, i, lki_cli_deadline(x->cli), &slice, err);
    if (s == LAKE_OK) s = write_slice(x, i, slice.view, err);
    lki_slice_free(&slice);
  }
  if (s != LAKE_OK) lki_error_prefix(err, "step %" PRIu64, step->step);
  x->row++;
  lki_cli_progress(x->cli, "export: step %" PRIu64 " of %" PRIu64, (uint64_t)x->row, (uint64_t)x->row_count);
  return s;
}

static void close_file(exporter *x) {
  for (uint32_t i = 0; i < x->column_count; i++) {
    if (x->columns[i].dataset >= 0) H5Dclose(x->columns[i].dataset);
    if (x->columns[i].type >= 0) H5Tclose(x->columns[i].type);
    x->columns[i].dataset = x->columns[i].type = -1;
  }
  hid_t *const datasets[] = {&x->steps, &x->producer, &x->epoch, &x->seq};
  for (size_t i = 0; i < sizeof datasets / sizeof datasets[0]; i++) {
    if (*datasets[i] >= 0) H5Dclose(*datasets[i]);
    *datasets[i] = -1;
  }
  if (x->producer_type >= 0) H5Tclose(x->producer_type);
  x->producer_type = -1;
}

/* ---- reading back ---- */

/* Reads the blocks in the order they were written; *checksum must come out as it did then. */
static bool reread_column(const exporter *x, hid_t file, const column *c, uint64_t *checksum) {
  const bool raw = c->tensor == UINT32_MAX;
  hid_t dataset = H5Dopen2(file, c->name, H5P_DEFAULT);
  hid_t type = dataset >= 0 ? H5Dget_type(dataset) : -1, space = dataset >= 0 ? H5Dget_space(dataset) : -1;
  hid_t memory = H5Screate_simple(c->rank, c->block, NULL);
  unsigned char *block = malloc(c->block_bytes + 1);
  bool good = type >= 0 && space >= 0 && memory >= 0 && block != NULL;
  *checksum = 0;
  for (hsize_t row = 0; good && row < x->row_count; row++)
    for (hsize_t slice = 0; good && slice < c->dims[1] * c->dims[2]; slice++) {
      hsize_t at[DIMENSIONS_MAX] = {row, slice / c->dims[2], slice % c->dims[2]};
      hvl_t bytes = {0, NULL};
      good = H5Sselect_hyperslab(space, H5S_SELECT_SET, at, NULL, c->block, NULL) >= 0 &&
             H5Dread(dataset, type, memory, space, H5P_DEFAULT, raw ? (void *)&bytes : block) >= 0;
      if (!good) break;
      *checksum = raw ? lki_checksum(bytes.p != NULL ? bytes.p : "", bytes.len, *checksum)
                      : lki_checksum(block, c->block_bytes, *checksum);
      if (raw) good = H5Dvlen_reclaim(type, memory, H5P_DEFAULT, &bytes) >= 0;
    }
  free(block);
  if (memory >= 0) H5Sclose(memory);
  if (space >= 0) H5Sclose(space);
  if (type >= 0) H5Tclose(type);
  if (dataset >= 0) H5Dclose(dataset);
  return good;
}

static lake_status reread(const exporter *x, lake_error *err) {
  hid_t access = access_list();
  hid_t file = access >= 0 ? H5Fopen(x->temporary, H5F_ACC_RDONLY, access) : -1;
  lake_status s = file >= 0 ? LAKE_OK : fail_hdf5(x, "reading the file back", err);
  for (uint32_t i = 0; s == LAKE_OK && i < x->column_count; i++) {
    uint64_t checksum = 0;
    lki_cli_progress(x->cli, "export: reading %s back", x->columns[i].name);
    if ((s = check_signals(x, err)) != LAKE_OK) break;
    if (!reread_column(x, file, &x->columns[i], &checksum))
      s = fail_hdf5(x, "reading the file back", err);
    else if (checksum != x->columns[i].checksum)
      s = lki_fail(err, LAKE_CORRUPT, "%s: %s reads back otherwise than it was written; check the disk",
                   x->request->path, x->columns[i].name);
  }
  if (file >= 0) H5Fclose(file);
  if (access >= 0) H5Pclose(access);
  return s;
}

/* ---- the name ---- */

static lake_status sync_path(const char *path, int flags, lake_error *err) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | flags);
  if (fd < 0) return fail_file(path, "opening", errno, err);
  lake_status s = fsync(fd) == 0 ? LAKE_OK : fail_file(path, "fsync", errno, err);
  close(fd);
  return s;
}

static lake_status publish(exporter *x, lki_export_result *result, lake_error *err) {
  const char *path = x->request->path;
  struct stat st;
  lake_status s = sync_path(x->temporary, 0, err);
  if (s == LAKE_OK) s = reread(x, err);
  if (s == LAKE_OK) s = check_signals(x, err);
  if (s == LAKE_OK && stat(x->temporary, &st) != 0) s = fail_file(x->temporary, "stat", errno, err);
  if (s != LAKE_OK) return s;
  if (renameat2(AT_FDCWD, x->temporary, AT_FDCWD, path, x->request->force ? 0u : (unsigned)RENAME_NOREPLACE) != 0) {
    int code = errno;
    /* File systems without the flag: the look before the work has to do. */
    if (code == EINVAL && access(path, F_OK) != 0) code = rename(x->temporary, path) == 0 ? 0 : errno;
    if (code == EEXIST) return lki_fail(err, LAKE_EXISTS, "%s exists; --force replaces it", path);
    if (code != 0) return fail_file(path, "rename", code, err);
  }
  char *folder = strdup(path), *slash = folder != NULL ? strrchr(folder, '/') : NULL;
  if (slash != NULL) slash[1] = 0;
  s = sync_path(slash != NULL ? folder : ".", O_DIRECTORY, err);
  free(folder);
  result->step_count = x->row_count;
  result->file_bytes = (uint64_t)st.st_size;
  return s;
}

static lake_status check_target(const lki_export_request *r, lake_error *err) {
  struct stat st;
  if (stat(r->path, &st) != 0) return LAKE_OK;
  if (!S_ISREG(st.st_mode)) return lki_fail(err, LAKE_INVALID, "%s is not a file", r->path);
  return r->force ? LAKE_OK : lki_fail(err, LAKE_EXISTS, "%s exists; --force replaces it", r->path);
}

lake_status lki_export_hdf5(lki_cli *cli, const lki_export_request *request, lki_export_result *result,
                            lake_error *err) {
  exporter *x = calloc(1, sizeof *x);
  if (x == NULL) return lki_fail(err, LAKE_NOMEM, "no memory for the export");
  x->cli = cli;
  x->request = request;
  x->schema = request->ns->schema;
  x->file = x->steps = x->producer = x->epoch = x->seq = x->producer_type = -1;
  x->row_count = request->to - request->from;
  for (uint32_t i = 0; i < request->manifest->quarantine_count; i++)
    if (request->manifest->quarantine[i] >= request->from && request->manifest->quarantine[i] < request->to)
      x->row_count--;
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* its stack traces are no message for people */
  lake_status s = check_target(request, err);
  if (s == LAKE_OK && asprintf(&x->temporary, "%s.tmp-%ld", request->path, (long)getpid()) < 0) {
    x->temporary = NULL;
    s = lki_fail(err, LAKE_NOMEM, "no memory for the export");
  }
  if (s == LAKE_OK) s = create_file(x, err);
  if (s == LAKE_OK) s = create_step_datasets(x, err);
  if (s == LAKE_OK) s = create_columns(x, err);
  lki_walk_visitor visitor = {.ctx = x, .step = write_step, .timeout_ms = cli->timeout_ms};
  if (s == LAKE_OK) s = lki_walk(request->ns, request->manifest, request->from, request->to, &visitor, err);
  close_file(x);
  const bool closed = x->file < 0 || H5Fclose(x->file) >= 0;
  if (s == LAKE_OK && (!closed || lki_export_disk_failure() != 0)) s = fail_hdf5(x, "closing the file", err);
  if (s == LAKE_OK) s = publish(x, result, err);
  if (x->created && s != LAKE_OK) (void)unlink(x->temporary);
  free(x->temporary);
  free(x);
  return s;
}

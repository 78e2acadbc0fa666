/* A namespace: one stream of Transactional Global Batches under one URL prefix, and what its slices hold. */
#ifndef LAKESTREAM_NAMESPACE_H
#define LAKESTREAM_NAMESPACE_H

#include <lakestream/base.h>
#include <lakestream/store.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LAKE_TENSOR_RANK_MAX 7   /* dimensions of one row */
#define LAKE_TENSOR_COUNT_MAX 64 /* tensors in a schema */
#define LAKE_TENSOR_ALIGN 64     /* bytes; every tensor of a slice begins on this boundary */
#define LAKE_MESH_MAX 65536      /* D*C */

typedef struct lake_namespace lake_namespace;

typedef enum lake_dtype {
  LAKE_U8 = 1, LAKE_I8 = 2, LAKE_U16 = 3, LAKE_I16 = 4, LAKE_U32 = 5, LAKE_I32 = 6, LAKE_U64 = 7, LAKE_I64 = 8,
  LAKE_F16 = 9, LAKE_BF16 = 10, LAKE_F32 = 11, LAKE_F64 = 12, LAKE_BOOL = 13 /* one byte, 0 or 1 */
} lake_dtype;

/* The device mesh as far as data goes: D data-parallel replicas, C context-parallel ranks in each. */
typedef struct lake_mesh {
  uint32_t d_count;
  uint32_t c_count;
} lake_mesh;

/* A position in the mesh. */
typedef struct lake_coords {
  uint32_t d;
  uint32_t c;
} lake_coords;

/* One named tensor of a slice. `shape` is that of one row; in a slice it is [rows_per_slice, shape...], row-major,
 * little-endian. With C > 1 the shape is that of one context-parallel rank's part. */
typedef struct lake_tensor_spec {
  char name[64]; /* [A-Za-z_][A-Za-z0-9_]* */
  lake_dtype dtype;
  uint32_t rank; /* dimensions in shape; 0: one scalar a row */
  uint64_t shape[LAKE_TENSOR_RANK_MAX];
} lake_tensor_spec;

/* A tensor of a slice in memory: a view, no copy. */
typedef struct lake_tensor {
  const char *name;
  lake_dtype dtype;
  uint32_t rank; /* dimensions in shape, the row dimension included */
  uint64_t shape[LAKE_TENSOR_RANK_MAX + 1];
  const void *data;
  size_t bytes;
} lake_tensor;

typedef enum lake_codec {
  LAKE_CODEC_DEFAULT = 0, /* LAKE_CODEC_NONE */
  LAKE_CODEC_NONE = 1,    /* slices stored as they are */
  LAKE_CODEC_ZSTD = 2     /* each slice compressed where that saves at least 1/16 of it */
} lake_codec;

typedef struct lake_namespace_options {
  uint32_t size;           /* set by LAKE_NAMESPACE_OPTIONS_INIT */
  lake_mesh mesh;          /* {0,0}: {1,1} */
  uint32_t rows_per_slice; /* R; 0: 1 */
  uint32_t tensor_count;   /* 0: raw bytes, any length per slice, and R must be 1 */
  const lake_tensor_spec *tensors;
  uint32_t codec;          /* lake_codec */
  uint32_t tail_max;       /* K: descriptors kept inline in a manifest before a segment is sealed; 0: 128 */
  const char *note;        /* free text kept with the namespace; NULL: none */
  uint32_t version_block;  /* manifest versions that reclaim deletes together; at least so many are kept; 0: 1024 */
  uint32_t force;          /* 1: also on a service that fails the check of lake doctor: what is committed may be lost */
} lake_namespace_options;

#define LAKE_NAMESPACE_OPTIONS_INIT {sizeof(lake_namespace_options), {0, 0}, 0, 0, NULL, 0, 0, NULL, 0, 0}

typedef struct lake_namespace_info {
  char uuid[37];
  lake_mesh mesh;
  uint32_t rows_per_slice;
  uint32_t tensor_count;
  const lake_tensor_spec *tensors; /* borrowed from the namespace */
  lake_codec codec;
  uint32_t tail_max;
  uint32_t version_block;
  uint64_t slice_bytes; /* of a typed slice in memory; 0 when slices are raw */
  const char *note;     /* borrowed from the namespace; "" if none */
  const char *url;      /* borrowed from the namespace */
} lake_namespace_info;

/** Create a namespace: write its lakestream.json, which must not exist.
 *  @param url where (see lake_store_open()); the folder is made if missing.
 *  @param options mesh, rows, schema; NULL is a raw stream on a 1 by 1 mesh.
 *  @param out the opened namespace, set last; NULL if it is not wanted.
 *  Ownership: the caller closes *out with lake_namespace_close(). options are copied.
 *  Blocks: until the store answered or the deadline. Threads: any. MPI: local; call it on one rank.
 *  Errors: EXISTS (there is one), INVALID, UNAVAILABLE, DENIED, TIMEOUT, NOMEM. UNCERTAIN: at the deadline it was not
 *  known whether this call created it. Call again; EXISTS then may speak of that very namespace, which has no owner: as
 *  after any EXISTS, open it and compare lake_namespace_info_get() with what was wanted.
 */
LAKE_API lake_status lake_namespace_create(lake_env *env, const char *url, const lake_namespace_options *options,
                                           lake_deadline deadline, lake_namespace **out, lake_error *err);

/** Open a namespace by URL.
 *  @param url as for lake_store_open().
 *  @param out the namespace, set last.
 *  Ownership: the caller closes it with lake_namespace_close(), after the clients opened from it.
 *  Blocks: until the store answered or the deadline. Threads: any. MPI: local.
 *  Errors: NOTFOUND (no namespace there), CORRUPT, UNSUPPORTED (newer format), UNAVAILABLE, DENIED, TIMEOUT, NOMEM.
 */
LAKE_API lake_status lake_namespace_open(lake_env *env, const char *url, lake_deadline deadline, lake_namespace **out,
                                         lake_error *err);

/** Open a namespace on a store of one's own.
 *  @param store an open store; it is used, not owned, and must outlive the namespace.
 *  @param out the namespace, set last.
 *  Ownership: the caller closes it with lake_namespace_close(), and the store after that.
 *  Blocks: until the store answered or the deadline. Threads: any. MPI: local. Errors: as lake_namespace_open().
 */
LAKE_API lake_status lake_namespace_open_store(lake_env *env, lake_store *store, lake_deadline deadline,
                                               lake_namespace **out, lake_error *err);

/** Create a namespace on a store of one's own; see lake_namespace_create() and lake_namespace_open_store().
 *  @param store an open store, used and not owned.
 *  @param out the opened namespace, set last; NULL if it is not wanted.
 *  Ownership: the caller closes *out. Blocks: until the store answered or the deadline. Threads: any. MPI: local.
 *  Errors: as lake_namespace_create().
 */
LAKE_API lake_status lake_namespace_create_store(lake_env *env, lake_store *store,
                                                 const lake_namespace_options *options, lake_deadline deadline,
                                                 lake_namespace **out, lake_error *err);

/** Close a namespace; NULL is accepted.
 *  Ownership: the namespace is gone; producers and consumers opened from it must be closed before.
 *  Blocks: no. Threads: one, the last user. MPI: local. Errors: none.
 */
LAKE_API void lake_namespace_close(lake_namespace *ns);

/** What the namespace is.
 *  @param info filled; its pointers are borrowed from ns.
 *  Ownership: borrowed. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_namespace_info_get(const lake_namespace *ns, lake_namespace_info *info);

/** Requests and bytes that this handle's store has seen, all clients of it together.
 *  @param stats filled.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_namespace_stats_get(const lake_namespace *ns, lake_store_stats *stats);

/** The bytes of one element of a dtype; 0 for an unknown one.
 *  @param dtype the type.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API size_t lake_dtype_bytes(lake_dtype dtype);

/** The short name of a dtype, such as "u16" or "bf16"; "?" for an unknown one.
 *  @param dtype the type.
 *  Ownership: the text is static. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API const char *lake_dtype_name(lake_dtype dtype);

/** The tensors of a typed slice that lies in memory: views into it. A producer finds with it where each tensor of a
 *  slice that it fills belongs: zero the slice, call this, cast the const of `data` away, write (docs/examples/hello.c).
 *  @param slice first byte of the slice, 64-byte aligned; slice_bytes of lake_namespace_info long.
 *  @param slice_bytes length of the slice in bytes.
 *  @param tensors filled, room for `capacity`.
 *  @param count how many were filled.
 *  Ownership: views into slice. Blocks: no. Threads: any. MPI: local.
 *  Errors: INVALID (raw namespace, wrong length, too little room).
 */
LAKE_API lake_status lake_slice_tensors(const lake_namespace *ns, const void *slice, size_t slice_bytes,
                                        lake_tensor *tensors, uint32_t capacity, uint32_t *count, lake_error *err);

/** End the stream: after this commit no batch is appended and readers end at the same last step.
 *  @param step_count steps in the sealed stream; may be NULL.
 *  Ownership: none passes. Blocks: until the commit is resolved or the deadline. Threads: any. MPI: local; one rank.
 *  Errors: FENCED never; UNCERTAIN (call again), UNAVAILABLE, TIMEOUT. Sealing a sealed stream is OK.
 */
LAKE_API lake_status lake_namespace_seal(lake_namespace *ns, lake_deadline deadline, uint64_t *step_count,
                                         lake_error *err);

/** Declare that a checkpoint needs the stream from a cursor on (a pin), so that nothing it reads is deleted.
 *  @param group name of the consumer group, such as "default"; [A-Za-z0-9._-], at most 64.
 *  @param checkpoint name of the checkpoint, such as "step-000120"; the same rules.
 *  @param cursor text from lake_consumer_cursor().
 *  Ownership: copied. Blocks: until the store answered or the deadline. Threads: any. MPI: local; one rank writes.
 *  Errors: INVALID, EXISTS (that checkpoint is pinned at another cursor), RECLAIMED (the cursor's step was deleted),
 *  UNCERTAIN (reclaim is at work just there and had not decided by the deadline: the pin stands; or it is not known
 *  whether the pin was written: call again to learn whether it holds), UNAVAILABLE, TIMEOUT.
 *  Source: paper section 5.3.
 */
LAKE_API lake_status lake_pin_create(lake_namespace *ns, const char *group, const char *checkpoint,
                                     const char *cursor, lake_deadline deadline, lake_error *err);

/** Drop a pin; OK also when there is none.
 *  @param group as given to lake_pin_create().
 *  @param checkpoint as given to lake_pin_create().
 *  Ownership: none passes. Blocks: until the store answered or the deadline. Threads: any. MPI: local.
 *  Errors: INVALID, UNAVAILABLE, TIMEOUT.
 */
LAKE_API lake_status lake_pin_remove(lake_namespace *ns, const char *group, const char *checkpoint,
                                     lake_deadline deadline, lake_error *err);

#ifdef __cplusplus
}
#endif
#endif

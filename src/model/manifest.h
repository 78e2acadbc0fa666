/* The decoded manifest: the whole visible state at one version, as an immutable reference-counted snapshot in one
 * arena. Pure: no I/O, no clock, no locks (the reference count is atomic). */
#ifndef LKI_MODEL_MANIFEST_H
#define LKI_MODEL_MANIFEST_H

#include "base/buffer.h"
#include "base/error.h"
#include <stdatomic.h>

#define LKI_ID_BYTES 16
#define LKI_PRODUCER_ID_BYTES_MAX 64
#define LKI_STATE_BYTES_MAX 256
#define LKI_OWNER_BYTES_MAX 128
#define LKI_PRODUCER_COUNT_MAX 65536
#define LKI_DESCRIPTOR_COUNT_MAX 65536 /* in one tail or segment */
#define LKI_SEGMENT_REF_COUNT_MAX 4096
#define LKI_SEGMENT_LEVEL_MAX 12
#define LKI_SEGMENT_FANOUT 8           /* refs that a manifest holds at most, and that a fold takes */
#define LKI_QUARANTINE_COUNT_MAX 4096
#define LKI_PACKED_BYTES_MAX 512       /* a longer packed index goes to the footer only */
#define LKI_SLICE_COUNT_MAX 65536
#define LKI_COMMIT_TGB_COUNT_MAX 4096  /* descriptors one commit may add */

/* Unique per manifest attempt and per namespace; compared, never interpreted. */
typedef struct lki_id {
  unsigned char bytes[LKI_ID_BYTES];
} lki_id;

static inline bool lki_id_equal(lki_id a, lki_id b) {
  unsigned char x = 0;
  for (int i = 0; i < LKI_ID_BYTES; i++) x |= (unsigned char)(a.bytes[i] ^ b.bytes[i]);
  return x == 0;
}

/* How a slice's frame is found in the TGB's object. Frames begin on 64-byte boundaries, the first at
 * LKI_TGB_HEADER_BYTES, in the order d*C + c. */
typedef enum lki_layout_kind {
  LKI_LAYOUT_UNIFORM = 1, /* every frame has frame_bytes */
  LKI_LAYOUT_PACKED = 2,  /* frame_bytes_each[slice] lists them */
  LKI_LAYOUT_FOOTER = 3   /* only the footer lists them: read the last footer_bytes of the object */
} lki_layout_kind;

/* One committed TGB. Its step is its place in the order. */
typedef struct lki_descriptor {
  uint32_t producer; /* index in the producer table of what holds this: manifest or segment */
  uint64_t epoch;
  uint64_t seq;
  uint64_t object_bytes;
  uint32_t slice_count;
  uint32_t footer_bytes;
  lki_layout_kind layout;
  uint64_t frame_bytes;             /* UNIFORM */
  const uint64_t *frame_bytes_each; /* PACKED: slice_count of them, in the holder's arena */
} lki_descriptor;

typedef struct lki_producer_entry {
  const char *id;
  uint64_t epoch;    /* newest incarnation; 0 never */
  uint64_t next_seq; /* TGBs committed so far */
  uint64_t offset;
  lake_bytes state;
  uint64_t last_version; /* version of its newest commit: who is active is told by versions, not clocks */
  bool retired;
  const char *owner; /* "host:pid" of the newest incarnation, for people */
} lki_producer_entry;

/* A sealed run of step_count descriptors. level 0: a segment of descriptors; level n: a segment of refs below n. */
typedef struct lki_segment_ref {
  uint64_t first_step;
  uint64_t step_count;
  uint32_t level;
  uint32_t object_bytes;
  uint64_t version;  /* of the manifest it was sealed from: only version + 1 could bring it in */
  uint64_t checksum; /* of the object, and part of its name */
} lki_segment_ref;

typedef struct lki_manifest {
  atomic_uint refs;
  lki_arena arena;
  lki_id namespace_id;
  uint64_t version;      /* 0: the empty beginning, which has no object */
  lki_id attempt;        /* unique id of the attempt that wrote this */
  lki_id previous;       /* attempt of version - 1; zero at version 1 */
  const char *writer;    /* "producer-id host:pid", for people */
  bool sealed;
  uint64_t first_live_step;
  uint64_t next_step;    /* steps committed so far, in all */
  uint32_t producer_count;
  lki_producer_entry *producers; /* in order of first arrival; an index never changes */
  uint32_t segment_count;
  lki_segment_ref *segments; /* in step order, covering [.., tail_first_step) without a gap */
  uint64_t tail_first_step;
  uint32_t tail_count;
  lki_descriptor *tail; /* steps tail_first_step .. next_step - 1 */
  uint32_t quarantine_count;
  uint64_t *quarantine; /* ascending steps that readers must not deliver */
} lki_manifest;

/* A decoded segment, with its own table of producer ids. Same life as a manifest. */
typedef struct lki_segment {
  atomic_uint refs;
  lki_arena arena;
  lki_id namespace_id;
  uint32_t level;
  uint64_t first_step;
  uint64_t step_count;
  uint32_t producer_count;
  const char **producer_ids;
  uint32_t descriptor_count; /* level 0 */
  lki_descriptor *descriptors;
  uint32_t child_count; /* level > 0 */
  lki_segment_ref *children;
} lki_segment;

/* An empty manifest, version 0, one reference; NULL: no memory. Whoever fills it does so before sharing it. */
lki_manifest *lki_manifest_new(lake_env *env);
lki_manifest *lki_manifest_retain(lki_manifest *manifest);
void lki_manifest_release(lki_manifest *manifest); /* NULL accepted */
lki_segment *lki_segment_new(lake_env *env);
lki_segment *lki_segment_retain(lki_segment *segment);
void lki_segment_release(lki_segment *segment);

/* Index of a producer id, or -1. */
int64_t lki_manifest_find_producer(const lki_manifest *manifest, const char *id);
/* The ref that covers step, or NULL. */
const lki_segment_ref *lki_segment_ref_find(const lki_segment_ref *refs, uint32_t count, uint64_t step);

/* Check everything a manifest must be by itself (counts, order, no gaps, limits). CORRUPT with the reason. */
lake_status lki_manifest_check(const lki_manifest *manifest, lake_error *err);
lake_status lki_segment_check(const lki_segment *segment, lake_error *err);
/* Check that `next` may follow `base`: version + 1, previous attempt, order only extended, each producer's seq, epoch
 * and offset only moved forward and together. CORRUPT with the reason. */
lake_status lki_manifest_check_successor(const lki_manifest *base, const lki_manifest *next, lake_error *err);

#endif

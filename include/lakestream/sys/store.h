/* The operations table of a store, for those who write one. Applications use <lakestream/store.h>.
 *
 * A store maps keys to immutable byte strings. A key is one or more components joined by '/'; the door
 * (src/store/store.c) has checked it before any operation sees it: no empty, "." or ".." component, none that
 * begins with ".lake-", no NUL, at most 900 bytes in all and 240 in a component.
 */
#ifndef LAKESTREAM_SYS_STORE_H
#define LAKESTREAM_SYS_STORE_H

#include <lakestream/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Owned bytes with a maximum. Zero-initialised plus env and bytes_max it is empty and valid. */
typedef struct lake_buffer {
  lake_env *env;
  unsigned char *data; /* 64-byte aligned when the library allocated it */
  size_t bytes;        /* in use */
  size_t capacity;     /* allocated */
  size_t bytes_max;    /* growing past this is refused */
  bool fixed;          /* data belongs to the caller: never grown, never freed */
} lake_buffer;

typedef enum lake_range_kind { LAKE_RANGE_WHOLE = 0, LAKE_RANGE_EXACT = 1, LAKE_RANGE_SUFFIX = 2 } lake_range_kind;

/* Which bytes of an object: all of them; exactly [offset, offset+bytes); or the last `bytes` (fewer if the
 * object is shorter). */
typedef struct lake_range {
  lake_range_kind kind;
  uint64_t offset;
  uint64_t bytes;
} lake_range;

typedef struct lake_object_info {
  uint64_t object_bytes; /* size of the whole object */
} lake_object_info;

/* Called once per key in ascending byte order; return false to stop the listing early. key is borrowed. */
typedef bool lake_list_fn(void *ctx, const char *key, uint64_t object_bytes);

/* Called once per unfinished upload; return false to stop. key and upload_id are borrowed. */
typedef bool lake_upload_fn(void *ctx, const char *key, const char *upload_id);

/* Contract, for every member: blocking until done or the deadline; callable from any thread at once; on failure
 * outputs are untouched and `err` says what failed on which key. Statuses beyond those listed: UNAVAILABLE
 * (transient), DENIED, TIMEOUT, NOMEM, UNSUPPORTED. */
typedef struct lake_store_ops {
  uint32_t size;
  const char *scheme;

  /* Read. out->bytes is set to what was delivered, from out->data[0]; the buffer grows up to bytes_max; an
   * object that would need more is CORRUPT (longer than such an object may be). EXACT delivers exactly range.bytes or fails with CORRUPT (the object is shorter). A reply that is
   * not what was asked (whole body for a range, short body) is never delivered. info may be NULL.
   * NOTFOUND: no such object. */
  lake_status (*get)(void *self, const char *key, lake_range range, lake_buffer *out, lake_object_info *info,
                     lake_deadline deadline, lake_error *err);

  /* Write, atomically and durably: after OK the object survives a power loss; before, readers see the old
   * object or none. UNCERTAIN or UNAVAILABLE: it may or may not be there; the same bytes may be sent again. */
  lake_status (*put)(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err);

  /* Write only if no object has this key. OK: this call created it, durably. EXISTS: an object with this key
   * exists; it may be an earlier try of one's own. UNCERTAIN: not known; read back. Never overwrites. */
  lake_status (*put_if_absent)(void *self, const char *key, lake_bytes body, lake_deadline deadline, lake_error *err);

  /* Size of an object. NOTFOUND: no such object. */
  lake_status (*head)(void *self, const char *key, lake_object_info *info, lake_deadline deadline, lake_error *err);

  /* Keys with this textual prefix ("" lists all), strictly after start_after (NULL: from the first), ascending.
   * Reads as many pages as it takes until fn returns false. */
  lake_status (*list)(void *self, const char *prefix, const char *start_after, lake_list_fn *fn, void *ctx,
                      lake_deadline deadline, lake_error *err);

  /* Delete. OK also when nothing was there. */
  lake_status (*remove)(void *self, const char *key, lake_deadline deadline, lake_error *err);

  /* Release self. Never fails. */
  void (*close)(void *self);

  /* What follows may be NULL, or beyond `size` in a table that was compiled earlier. */

  /* Uploads of keys with this prefix that were begun and neither finished nor given up, in any order. NULL: the store
   * has none, or removes them by itself. */
  lake_status (*list_uploads)(void *self, const char *prefix, lake_upload_fn *fn, void *ctx, lake_deadline deadline,
                              lake_error *err);

  /* Give such an upload up, and what it has stored. OK also when it is gone. The object of that key is not touched. */
  lake_status (*abort_upload)(void *self, const char *key, const char *upload_id, lake_deadline deadline,
                              lake_error *err);

  /* Look for settings of the store that spoil this contract, such as versioned names. UNSUPPORTED: there are some, and
   * what to do. NOTFOUND: these credentials may not look, or the store does not tell; `err` says what to grant. That is no
   * failure: it says nothing about the store. */
  lake_status (*check)(void *self, lake_deadline deadline, lake_error *err);

  /* Delete `count` objects, 1 to LAKE_REMOVE_MANY_MAX, in any order and not as one: whatever happens, some may be gone
   * and some not, and nothing else is ever touched. gone[i] is false on entry and set, on failure too, once nothing is at
   * keys[i] any more for sure, so that only the others are sent again; OK: that is so of all. On failure `err` names
   * the first key that failed, and why. UNSUPPORTED: the others have to be deleted by remove, one by one. NULL: all. */
  lake_status (*remove_many)(void *self, const char *const *keys, size_t count, bool *gone, lake_deadline deadline,
                             lake_error *err);
} lake_store_ops;

#define LAKE_REMOVE_MANY_MAX 1000

#ifdef __cplusplus
}
#endif
#endif

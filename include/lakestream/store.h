/* Opening a store by URL. Most programs never do: lake_namespace_open() takes the URL itself. */
#ifndef LAKESTREAM_STORE_H
#define LAKESTREAM_STORE_H

#include <lakestream/base.h>
#include <lakestream/sys/store.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct lake_store lake_store;

/* Requests that reached the store and bytes that crossed it, since it was opened (each retry counts). */
typedef struct lake_store_stats {
  uint64_t get_count, put_count, put_if_absent_count, head_count, list_count, remove_count;
  uint64_t failed_count;   /* of the above, those that did not end in OK, EXISTS or NOTFOUND */
  uint64_t read_bytes;     /* delivered by get */
  uint64_t written_bytes;  /* accepted by put and put_if_absent */
} lake_store_stats;

/** Open the store that a URL names.
 *  @param url "file:/absolute/folder", "file:relative/folder", a plain path that begins with '/' or '.',
 *         "mem:NAME" (a store inside this environment, shared by all who open the same NAME in it), or
 *         "s3://bucket/prefix", "gs://bucket/prefix", "az://container/prefix" with options as in
 *         "?region=eu-west-1" (docs/STORES.md). Keys and tokens are refused there: they come from the environment
 *         and from files.
 *  @param out the store, set last.
 *  Ownership: the caller closes it with lake_store_close(). url is copied.
 *  Blocks: may touch the disk. Threads: any. MPI: local.
 *  Errors: INVALID (malformed URL), UNSUPPORTED (unknown scheme), UNAVAILABLE, DENIED, NOMEM.
 */
LAKE_API lake_status lake_store_open(lake_env *env, const char *url, lake_store **out, lake_error *err);

/** Wrap an operations table of one's own as a store.
 *  @param ops table; must outlive the store.
 *  @param self passed to each operation; ops->close(self) is called by lake_store_close().
 *  @param label shown in errors in place of a URL; copied.
 *  Ownership: the caller closes it with lake_store_close(). On failure self stays the caller's.
 *  Blocks: no. Threads: any. MPI: local. Errors: INVALID, NOMEM.
 */
LAKE_API lake_status lake_store_wrap(lake_env *env, const lake_store_ops *ops, void *self, const char *label,
                                     lake_store **out, lake_error *err);

/** Close a store; NULL is accepted.
 *  Ownership: the store is gone afterwards. Blocks: no. Threads: one, the last user. MPI: local. Errors: none.
 */
LAKE_API void lake_store_close(lake_store *store);

/** Read the counters.
 *  @param stats filled.
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API void lake_store_stats_get(const lake_store *store, lake_store_stats *stats);

#ifdef __cplusplus
}
#endif
#endif

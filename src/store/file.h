/* Inside the file: store, shared by its files. A store is a folder (the root); an object is a regular file
 * below it whose path is its key. Names that begin with ".lake-" are the store's own and never keys:
 *
 *   .lake-tmp/<pid>-<16 hex>     bytes on their way in, not yet an object; left behind only by a killed
 * process .lake-claim/<32 hex of key>/ who may create a name, on file systems without hard links
 * (file_claim.c)
 *
 * Symbolic links below the root are never followed, so no key reaches outside. Threads: everything here may
 * be called from any thread; the only lock guards the opening of the root. */
#ifndef LKI_STORE_FILE_H
#define LKI_STORE_FILE_H

#include <lakestream/sys/store.h>
#include <stdatomic.h>
#include <sys/types.h>

#define LKI_FILE_TMP ".lake-tmp"
#define LKI_FILE_CLAIM ".lake-claim"
#define LKI_FILE_NAME_BYTES 64      /* room for a name of the store's own */
#define LKI_FILE_DURABLE_COUNT 1024 /* power of two */

/* How a finished temporary gets its final name only if nobody has it. Tried in this order; a file system that
 * lacks one lacks it always, so what was learned is kept. */
typedef enum lki_file_publish {
  LKI_PUBLISH_LINK = 0,   /* link(2) */
  LKI_PUBLISH_RENAME = 1, /* renameat2(RENAME_NOREPLACE) */
  LKI_PUBLISH_CLAIM = 2   /* file_claim.c */
} lki_file_publish;

typedef struct lki_file_store {
  lake_env *env;
  char *root;
  atomic_int root_fd; /* -1 until the root exists */
  atomic_int publish; /* lki_file_publish */
  atomic_bool no_openat2;
  struct lki_mutex *lock; /* held while the root is made and opened */
  /* Checksums of folders whose names are known to be on the disk all the way up, by slot; 0: none. A
   * collision costs an fsync, never correctness. */
  atomic_uint_fast64_t durable[LKI_FILE_DURABLE_COUNT];
} lki_file_store;

/* ---- file_path.c: names to descriptors. On failure the status is returned with err set. ---- */

/* The text and status of a failed system call; doing is "cannot open", "cannot write", .... */
lake_status lki_file_fail(lake_error *err, int e, const char *doing);
/* A name was not there: NOTFOUND, or UNAVAILABLE when the whole store was removed behind our back. */
lake_status lki_file_fail_missing(int root_fd, lake_error *err);

/* The root, kept open by the store. create: it is made if it does not exist, durably. NOTFOUND otherwise. */
lake_status lki_file_root(lki_file_store *fs, bool create, int *fd, lake_error *err);
/* As openat(root_fd, path), but beneath the root and through no symbolic link. Returns a descriptor, or -1
 * and errno. */
int lki_file_open_at(lki_file_store *fs, int root_fd, const char *path, int flags);
/* The folder that holds key, opened for fsync, and key's last component. create: missing folders are made,
 * and the way up to the root is durable afterwards. */
lake_status lki_file_open_parent(lki_file_store *fs, const char *key, bool create, int *fd, const char **name,
                                 lake_error *err);
/* One of the store's own folders below the root, made if missing. */
lake_status lki_file_own_folder(lki_file_store *fs, int root_fd, const char *name, int *fd, lake_error *err);
int lki_file_fsync(int fd);  /* 0, or -1 and errno; never EINTR */
void lki_file_close(int fd); /* keeps errno; -1 accepted */

/* ---- file_put.c ---- */

/* A name for something of one's own that nobody else makes. */
void lki_file_unique_name(lki_file_store *fs, char name[LKI_FILE_NAME_BYTES]);
/* Writes a new file and its bytes to the disk, without fsync of the folder; it is gone again on failure. *fd
 * stays open. */
lake_status lki_file_write_new(lki_file_store *fs, int folder_fd, const char *name, lake_bytes body,
                               lake_deadline deadline, int *fd, lake_error *err);
lake_status lki_file_put(lki_file_store *fs, const char *key, lake_bytes body, lake_deadline deadline,
                         lake_error *err);
lake_status lki_file_put_if_absent(lki_file_store *fs, const char *key, lake_bytes body,
                                   lake_deadline deadline, lake_error *err);
/* Whether the file behind fd is what the name leads to. */
bool lki_file_is(int fd, int parent_fd, const char *name);
/* The last step of a write; UNCERTAIN when it fails, since the object is in place. */
lake_status lki_file_sync_folder(int parent_fd, lake_error *err);
/* EXISTS, or INVALID when the name belongs to something that is no object; OK: nothing has the name. */
lake_status lki_file_name_free(int parent_fd, const char *name, lake_error *err);

/* ---- file_claim.c ---- */

lake_status lki_file_claim_put(lki_file_store *fs, int root_fd, int parent_fd, const char *key,
                               const char *name, lake_bytes body, lake_deadline deadline, lake_error *err);
/* ---- file_list.c ---- */

lake_status lki_file_list(lki_file_store *fs, const char *prefix, const char *start_after, lake_list_fn *fn,
                          void *ctx, lake_deadline deadline, lake_error *err);

#endif

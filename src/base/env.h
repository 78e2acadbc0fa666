/* The environment behind lake_env: clock, randomness, threads, memory, log, all through one table, so that a
 * simulator can stand in for the machine. Knows nothing of Lakestream. Every function is safe from any thread. */
#ifndef LKI_BASE_ENV_H
#define LKI_BASE_ENV_H

#include <lakestream/base.h>

typedef struct lki_mutex lki_mutex;
typedef struct lki_cond lki_cond;
typedef struct lki_thread lki_thread;

#define LKI_NEVER UINT64_MAX /* no deadline: only for waits that another thread's join bounds */

typedef struct lki_env_ops {
  uint64_t (*now_ns)(void *self);                           /* monotonic; paces, never decides */
  uint64_t (*wall_ns)(void *self);                          /* since 1970; for people and signatures only */
  void (*random)(void *self, void *dst, size_t bytes);      /* for unique ids and jitter */
  void (*sleep_until)(void *self, uint64_t at_ns);
  void *(*alloc)(void *self, size_t align, size_t bytes);   /* may return NULL */
  void (*free)(void *self, void *p);
  void (*log)(void *self, lake_log_level level, const char *line);
  lki_thread *(*thread_start)(void *self, const char *name, void (*fn)(void *arg), void *arg); /* NULL: failed */
  void (*thread_join)(void *self, lki_thread *thread);
  lki_mutex *(*mutex_open)(void *self); /* NULL: no memory */
  void (*mutex_close)(void *self, lki_mutex *mutex);
  void (*mutex_lock)(void *self, lki_mutex *mutex);
  void (*mutex_unlock)(void *self, lki_mutex *mutex);
  lki_cond *(*cond_open)(void *self);
  void (*cond_close)(void *self, lki_cond *cond);
  bool (*cond_wait)(void *self, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns); /* false: the time came */
  void (*cond_signal)(void *self, lki_cond *cond);
  void (*cond_broadcast)(void *self, lki_cond *cond);
  uint64_t (*process_id)(void *self); /* differs in a forked child, where the library's threads do not run */
  void (*close)(void *self);
  /* Both or neither (NULL: as alloc and free): large blocks, 64-byte aligned, freed with the size they were made with. */
  void *(*block_alloc)(void *self, size_t bytes);
  void (*block_free)(void *self, void *p, size_t bytes);
} lki_env_ops;

/* What is dear to make, used by one thread at a time, and kept here between two uses. */
typedef void lki_drop_fn(void *thing);
typedef enum lki_kept { LKI_KEPT_COMPRESSOR, LKI_KEPT_DECOMPRESSOR, LKI_KEPT_COUNT } lki_kept;

struct lake_env {
  const lki_env_ops *ops;
  void *self;
  uint32_t log_level;
  uint64_t process_id; /* of the process that opened it */
  void *mem_stores; /* owned by src/store/mem.c: the stores of this environment that are called mem:NAME */
  void (*mem_stores_close)(lake_env *env);
  lki_mutex *lock; /* guards mem_stores */
  _Atomic(void *) kept[LKI_KEPT_COUNT];
  _Atomic(lki_drop_fn *) kept_drop[LKI_KEPT_COUNT];
};

/* Wrap an operations table as an environment (the simulator's way in). On failure self stays the caller's. */
lake_status lki_env_wrap(const lki_env_ops *ops, void *self, uint32_t log_level, lake_env **out, lake_error *err);

uint64_t lki_now_ns(lake_env *env);
uint64_t lki_wall_ns(lake_env *env);
void lki_random(lake_env *env, void *dst, size_t bytes);
uint64_t lki_random_u64(lake_env *env);
double lki_random_unit(lake_env *env); /* [0, 1) */
void lki_sleep_until(lake_env *env, uint64_t at_ns);
bool lki_deadline_passed(lake_env *env, lake_deadline deadline);
uint64_t lki_after_ns(lake_env *env, uint64_t ns); /* now + ns, saturating */

void *lki_alloc(lake_env *env, size_t bytes);                       /* not zeroed; bytes 0 gives one byte */
void *lki_alloc_aligned(lake_env *env, size_t align, size_t bytes); /* align: a power of two */
void *lki_new(lake_env *env, size_t bytes);                         /* zeroed */
char *lki_strdup(lake_env *env, const char *text);
char *lki_strndup(lake_env *env, const char *text, size_t bytes);
void lki_free(lake_env *env, void *p); /* NULL accepted */
/* For buffers that may be large: freed memory goes back to the machine at once. free gets the same number of bytes. */
void *lki_block_alloc(lake_env *env, size_t bytes); /* 64-byte aligned, not zeroed */
void lki_block_free(lake_env *env, void *p, size_t bytes); /* NULL accepted */

/* The kept thing, now the caller's, or NULL: then the caller makes one. */
void *lki_env_take(lake_env *env, lki_kept kind);
/* Gives it back; one more than is kept is dropped at once, the kept one with the environment. */
void lki_env_keep(lake_env *env, lki_kept kind, void *thing, lki_drop_fn *drop);
void lki_env_drop_kept(lake_env *env); /* all of them, as when the environment closes */

void lki_note(lake_env *env, lake_log_level level, const char *format, ...) LAKE_PRINTF(3, 4);

lki_thread *lki_thread_start(lake_env *env, const char *name, void (*fn)(void *arg), void *arg);
void lki_thread_join(lake_env *env, lki_thread *thread); /* NULL accepted */
lki_mutex *lki_mutex_open(lake_env *env);
void lki_mutex_close(lake_env *env, lki_mutex *mutex); /* NULL accepted */
void lki_lock(lake_env *env, lki_mutex *mutex);
void lki_unlock(lake_env *env, lki_mutex *mutex);
lki_cond *lki_cond_open(lake_env *env);
void lki_cond_close(lake_env *env, lki_cond *cond); /* NULL accepted */
bool lki_wait(lake_env *env, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns); /* false: the time came */
void lki_signal(lake_env *env, lki_cond *cond);
void lki_broadcast(lake_env *env, lki_cond *cond);

/* OK, or INVALID in a process that was forked after `what` was opened: its threads and connections are its parent's. */
lake_status lki_check_process(lake_env *env, const char *what, lake_error *err);

/* The value of a process environment variable, or NULL: the library's only door to getenv. Borrowed. */
const char *lki_getenv(const char *name);
/* "host:pid" of this process, for people; dst is always terminated. */
void lki_owner_text(char *dst, size_t bytes);
/* For the simulator, whose histories must not depend on where it runs: this text instead; NULL: the truth again. */
void lki_owner_fix(const char *text);

#endif

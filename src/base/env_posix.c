/* The machine's own environment. Thread-safe throughout; condition variables run on CLOCK_MONOTONIC, so a step of the
 * wall clock neither shortens nor lengthens a wait. */
#include "base/env_posix.h"
#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

typedef struct posix_env {
  lake_env_options options;
} posix_env;

struct lki_mutex {
  pthread_mutex_t m;
};
struct lki_cond {
  pthread_cond_t c;
};
struct lki_thread {
  pthread_t t;
  void (*fn)(void *arg);
  void *arg;
  char name[16];
};

static uint64_t clock_ns(clockid_t id) {
  struct timespec ts;
  clock_gettime(id, &ts);
  return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static struct timespec to_timespec(uint64_t at_ns) {
  const uint64_t last_ns = (uint64_t)INT64_MAX; /* some 292 years: for ever, without overflowing time_t */
  if (at_ns > last_ns) at_ns = last_ns;
  struct timespec ts;
  ts.tv_sec = (time_t)(at_ns / 1000000000u);
  ts.tv_nsec = (long)(at_ns % 1000000000u);
  return ts;
}

static uint64_t posix_now_ns(void *self) {
  (void)self;
  return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t posix_wall_ns(void *self) {
  (void)self;
  return clock_ns(CLOCK_REALTIME);
}

static void posix_random(void *self, void *dst, size_t bytes) {
  (void)self;
  unsigned char *p = dst;
  while (bytes > 0) {
    ssize_t n = getrandom(p, bytes, 0);
    if (n <= 0) continue; /* interrupted; after boot it cannot fail otherwise */
    p += n;
    bytes -= (size_t)n;
  }
}

static void posix_sleep_until(void *self, uint64_t at_ns) {
  (void)self;
  struct timespec ts = to_timespec(at_ns);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) != 0) {
  }
}

static void *posix_alloc(void *self, size_t align, size_t bytes) {
  posix_env *env = self;
  if (env->options.alloc != NULL) return env->options.alloc(env->options.alloc_ctx, align, bytes);
  if (align <= 16) return malloc(bytes);
  if (bytes > SIZE_MAX - align) return NULL;
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void posix_free(void *self, void *p) {
  posix_env *env = self;
  if (env->options.free != NULL)
    env->options.free(env->options.alloc_ctx, p);
  else
    free(p);
}

/* Mapped for themselves: the C library keeps freed memory of this size for the next one of its kind, and of budgets for
 * bytes in flight a multiple then stays in use. */
#define MAPPED_BYTES_MIN ((size_t)4 << 20)

static bool is_mapped(const posix_env *env, size_t bytes) {
  return env->options.alloc == NULL && bytes >= MAPPED_BYTES_MIN;
}

static void *posix_block_alloc(void *self, size_t bytes) {
  if (!is_mapped(self, bytes)) return posix_alloc(self, 64, bytes);
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return p != MAP_FAILED ? p : NULL;
}

static void posix_block_free(void *self, void *p, size_t bytes) {
  if (is_mapped(self, bytes))
    munmap(p, bytes);
  else
    posix_free(self, p);
}

static void posix_log(void *self, lake_log_level level, const char *line) {
  posix_env *env = self;
  if (env->options.log != NULL) env->options.log(env->options.log_ctx, level, line);
}

static void *thread_main(void *arg) {
  lki_thread *thread = arg;
  pthread_setname_np(pthread_self(), thread->name);
  thread->fn(thread->arg);
  return NULL;
}

static lki_thread *posix_thread_start(void *self, const char *name, void (*fn)(void *arg), void *arg) {
  lki_thread *thread = posix_alloc(self, 16, sizeof *thread);
  if (thread == NULL) return NULL;
  thread->fn = fn;
  thread->arg = arg;
  snprintf(thread->name, sizeof thread->name, "%s", name);
  /* Signals belong to the application's threads, never to the library's. */
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int rc = pthread_create(&thread->t, NULL, thread_main, thread);
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  if (rc != 0) {
    posix_free(self, thread);
    return NULL;
  }
  return thread;
}

static void posix_thread_join(void *self, lki_thread *thread) {
  int rc = pthread_join(thread->t, NULL);
  assert(rc == 0);
  (void)rc;
  posix_free(self, thread);
}

static lki_mutex *posix_mutex_open(void *self) {
  lki_mutex *mutex = posix_alloc(self, 16, sizeof *mutex);
  if (mutex != NULL) pthread_mutex_init(&mutex->m, NULL);
  return mutex;
}

static void posix_mutex_close(void *self, lki_mutex *mutex) {
  pthread_mutex_destroy(&mutex->m);
  posix_free(self, mutex);
}

static void posix_mutex_lock(void *self, lki_mutex *mutex) {
  (void)self;
  int rc = pthread_mutex_lock(&mutex->m);
  assert(rc == 0);
  (void)rc;
}

static void posix_mutex_unlock(void *self, lki_mutex *mutex) {
  (void)self;
  int rc = pthread_mutex_unlock(&mutex->m);
  assert(rc == 0);
  (void)rc;
}

static lki_cond *posix_cond_open(void *self) {
  lki_cond *cond = posix_alloc(self, 16, sizeof *cond);
  if (cond == NULL) return NULL;
  pthread_condattr_t attr;
  pthread_condattr_init(&attr);
  pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
  pthread_cond_init(&cond->c, &attr);
  pthread_condattr_destroy(&attr);
  return cond;
}

static void posix_cond_close(void *self, lki_cond *cond) {
  pthread_cond_destroy(&cond->c);
  posix_free(self, cond);
}

static bool posix_cond_wait(void *self, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns) {
  (void)self;
  if (at_ns == LKI_NEVER) {
    pthread_cond_wait(&cond->c, &mutex->m);
    return true;
  }
  struct timespec ts = to_timespec(at_ns);
  return pthread_cond_timedwait(&cond->c, &mutex->m, &ts) == 0;
}

static void posix_cond_signal(void *self, lki_cond *cond) {
  (void)self;
  pthread_cond_signal(&cond->c);
}

static void posix_cond_broadcast(void *self, lki_cond *cond) {
  (void)self;
  pthread_cond_broadcast(&cond->c);
}

static uint64_t posix_process_id(void *self) {
  (void)self;
  return (uint64_t)getpid();
}

static void posix_close(void *self) {
  posix_env *env = self;
  lake_env_options options = env->options;
  if (options.free != NULL)
    options.free(options.alloc_ctx, env);
  else
    free(env);
}

static const lki_env_ops posix_ops = {
    posix_now_ns,      posix_wall_ns,     posix_random,     posix_sleep_until, posix_alloc,      posix_free,
    posix_log,         posix_thread_start, posix_thread_join, posix_mutex_open,  posix_mutex_close, posix_mutex_lock,
    posix_mutex_unlock, posix_cond_open,   posix_cond_close, posix_cond_wait,   posix_cond_signal, posix_cond_broadcast,
    posix_process_id, posix_close,       posix_block_alloc, posix_block_free,
};

const lki_env_ops *lki_env_posix_ops(void) { return &posix_ops; }

void *lki_env_posix_new(const lake_env_options *options) {
  posix_env *env = options->alloc != NULL ? options->alloc(options->alloc_ctx, 16, sizeof *env) : malloc(sizeof *env);
  if (env != NULL) env->options = *options;
  return env;
}

const char *lki_getenv(const char *name) { return getenv(name); }

static const char *fixed_owner;

void lki_owner_fix(const char *text) { fixed_owner = text; }

void lki_owner_text(char *dst, size_t bytes) {
  char host[65];
  if (fixed_owner != NULL) {
    snprintf(dst, bytes, "%s", fixed_owner);
    return;
  }
  if (gethostname(host, sizeof host) != 0) snprintf(host, sizeof host, "unknown-host");
  host[sizeof host - 1] = 0;
  snprintf(dst, bytes, "%s:%ld", host, (long)getpid());
}

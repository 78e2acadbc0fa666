/* The environment's door: every function is one call through the table. lake_env_open() gives the machine's own
 * table, which lives in env_posix.c. */
#include "base/env.h"
#include "base/env_posix.h"
#include "base/error.h"
#include <lakestream/lakestream.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)

const char *lake_version_string(void) {
  return TEXT(LAKE_VERSION_MAJOR) "." TEXT(LAKE_VERSION_MINOR) "." TEXT(LAKE_VERSION_PATCH);
}

lake_status lki_env_wrap(const lki_env_ops *ops, void *self, uint32_t log_level, lake_env **out, lake_error *err) {
  lake_env *env = ops->alloc(self, 16, sizeof *env);
  if (env == NULL) return lki_fail(err, LAKE_NOMEM, "environment: out of memory");
  memset(env, 0, sizeof *env);
  env->ops = ops;
  env->self = self;
  env->log_level = log_level;
  env->process_id = ops->process_id(self);
  env->lock = ops->mutex_open(self);
  if (env->lock == NULL) {
    ops->free(self, env);
    return lki_fail(err, LAKE_NOMEM, "environment: out of memory");
  }
  *out = env;
  return LAKE_OK;
}

lake_status lake_env_open(const lake_env_options *options, lake_env **out, lake_error *err) {
  lake_env_options o;
  lake_status s = lki_options_copy(&o, sizeof o, options, "lake_env_options", err);
  if (s != LAKE_OK) return s;
  if ((o.alloc == NULL) != (o.free == NULL))
    return lki_fail(err, LAKE_INVALID, "lake_env_options: set both alloc and free, or neither");
  void *self = lki_env_posix_new(&o);
  if (self == NULL) return lki_fail(err, LAKE_NOMEM, "environment: out of memory");
  s = lki_env_wrap(lki_env_posix_ops(), self, o.log_level, out, err);
  if (s != LAKE_OK) lki_env_posix_ops()->close(self);
  return s;
}

void lake_env_close(lake_env *env) {
  if (env == NULL) return;
  if (env->mem_stores_close != NULL) env->mem_stores_close(env);
  lki_env_drop_kept(env);
  env->ops->mutex_close(env->self, env->lock);
  const lki_env_ops *ops = env->ops;
  void *self = env->self;
  ops->free(self, env);
  ops->close(self);
}

lake_deadline lake_deadline_after_ms(lake_env *env, uint64_t timeout_ms) {
  lake_deadline deadline;
  deadline.at_ns = timeout_ms > UINT64_MAX / 1000000u ? LKI_NEVER : lki_after_ns(env, timeout_ms * 1000000u);
  return deadline;
}

uint64_t lki_now_ns(lake_env *env) { return env->ops->now_ns(env->self); }
uint64_t lki_wall_ns(lake_env *env) { return env->ops->wall_ns(env->self); }
void lki_random(lake_env *env, void *dst, size_t bytes) { env->ops->random(env->self, dst, bytes); }

uint64_t lki_random_u64(lake_env *env) {
  uint64_t value = 0;
  lki_random(env, &value, sizeof value);
  return value;
}

double lki_random_unit(lake_env *env) { return (double)(lki_random_u64(env) >> 11) * 0x1p-53; }
void lki_sleep_until(lake_env *env, uint64_t at_ns) { env->ops->sleep_until(env->self, at_ns); }
bool lki_deadline_passed(lake_env *env, lake_deadline deadline) { return lki_now_ns(env) >= deadline.at_ns; }

uint64_t lki_after_ns(lake_env *env, uint64_t ns) {
  uint64_t now = lki_now_ns(env);
  return ns > UINT64_MAX - now ? LKI_NEVER : now + ns;
}

void *lki_alloc(lake_env *env, size_t bytes) { return env->ops->alloc(env->self, 16, bytes > 0 ? bytes : 1); }

void *lki_alloc_aligned(lake_env *env, size_t align, size_t bytes) {
  return env->ops->alloc(env->self, align, bytes > 0 ? bytes : 1);
}

void *lki_new(lake_env *env, size_t bytes) {
  void *p = lki_alloc(env, bytes);
  if (p != NULL) memset(p, 0, bytes);
  return p;
}

char *lki_strndup(lake_env *env, const char *text, size_t bytes) {
  char *copy = lki_alloc(env, bytes + 1);
  if (copy != NULL) {
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
  }
  return copy;
}

char *lki_strdup(lake_env *env, const char *text) { return lki_strndup(env, text, strlen(text)); }

void lki_free(lake_env *env, void *p) {
  if (p != NULL) env->ops->free(env->self, p);
}

void *lki_block_alloc(lake_env *env, size_t bytes) {
  if (env->ops->block_alloc == NULL) return lki_alloc_aligned(env, 64, bytes);
  return env->ops->block_alloc(env->self, bytes > 0 ? bytes : 1);
}

void lki_block_free(lake_env *env, void *p, size_t bytes) {
  if (p == NULL) return;
  if (env->ops->block_free == NULL)
    lki_free(env, p);
  else
    env->ops->block_free(env->self, p, bytes > 0 ? bytes : 1);
}

void *lki_env_take(lake_env *env, lki_kept kind) { return atomic_exchange(&env->kept[kind], NULL); }

void lki_env_drop_kept(lake_env *env) {
  for (lki_kept kind = 0; kind < LKI_KEPT_COUNT; kind++) {
    void *thing = lki_env_take(env, kind);
    if (thing != NULL) atomic_load(&env->kept_drop[kind])(thing);
  }
}

void lki_env_keep(lake_env *env, lki_kept kind, void *thing, lki_drop_fn *drop) {
  atomic_store(&env->kept_drop[kind], drop);
  void *none = NULL;
  if (!atomic_compare_exchange_strong(&env->kept[kind], &none, thing)) drop(thing);
}

void lki_note(lake_env *env, lake_log_level level, const char *format, ...) {
  if ((uint32_t)level > env->log_level) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  env->ops->log(env->self, level, line);
}

lki_thread *lki_thread_start(lake_env *env, const char *name, void (*fn)(void *arg), void *arg) {
  return env->ops->thread_start(env->self, name, fn, arg);
}

void lki_thread_join(lake_env *env, lki_thread *thread) {
  if (thread != NULL) env->ops->thread_join(env->self, thread);
}

lki_mutex *lki_mutex_open(lake_env *env) { return env->ops->mutex_open(env->self); }

void lki_mutex_close(lake_env *env, lki_mutex *mutex) {
  if (mutex != NULL) env->ops->mutex_close(env->self, mutex);
}

void lki_lock(lake_env *env, lki_mutex *mutex) { env->ops->mutex_lock(env->self, mutex); }
void lki_unlock(lake_env *env, lki_mutex *mutex) { env->ops->mutex_unlock(env->self, mutex); }
lki_cond *lki_cond_open(lake_env *env) { return env->ops->cond_open(env->self); }

void lki_cond_close(lake_env *env, lki_cond *cond) {
  if (cond != NULL) env->ops->cond_close(env->self, cond);
}

bool lki_wait(lake_env *env, lki_cond *cond, lki_mutex *mutex, uint64_t at_ns) {
  return env->ops->cond_wait(env->self, cond, mutex, at_ns);
}

void lki_signal(lake_env *env, lki_cond *cond) { env->ops->cond_signal(env->self, cond); }
void lki_broadcast(lake_env *env, lki_cond *cond) { env->ops->cond_broadcast(env->self, cond); }

lake_status lki_check_process(lake_env *env, const char *what, lake_error *err) {
  if (env->ops->process_id(env->self) == env->process_id) return LAKE_OK;
  return lki_fail(err, LAKE_INVALID, "%s was opened before fork(); open environment and handles in the child itself",
                  what);
}

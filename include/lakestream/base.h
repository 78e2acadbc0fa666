/* Lakestream: status, errors, environment, deadlines, bytes.
 *
 * Everything else in the library hangs off a lake_env. There are no globals, no thread-local errors,
 * nothing is printed and nothing calls exit(). All integers are host order in memory.
 */
#ifndef LAKESTREAM_BASE_H
#define LAKESTREAM_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LAKE_API __attribute__((visibility("default")))
#define LAKE_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define LAKE_API
#define LAKE_PRINTF(f, a)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What happened, coarse: each value says what the caller does next. */
typedef enum lake_status {
  LAKE_OK = 0,
  LAKE_INVALID = 1,      /* the arguments or the configuration are wrong: correct them */
  LAKE_EXISTS = 2,       /* the name is taken: open it, or choose another */
  LAKE_NOTFOUND = 3,     /* nothing is there: check the name, or create it */
  LAKE_AGAIN = 4,        /* not now (lost a race, nothing new yet): the same call may go through later */
  LAKE_END = 5,          /* the stream is sealed and read to its last step */
  LAKE_UNCERTAIN = 6,    /* the write may or may not have happened: nothing was undone; ask again later */
  LAKE_UNAVAILABLE = 7,  /* the store does not answer, is full or refuses for now: retry with backoff */
  LAKE_FENCED = 8,       /* a newer incarnation owns this producer id: stop this process */
  LAKE_RECLAIMED = 9,    /* the data asked for was deleted below the boundary: resume from a live pin */
  LAKE_CORRUPT = 10,     /* bytes failed their checks, on every try: restore the object */
  LAKE_TIMEOUT = 11,     /* the deadline passed; the error names what was waited for */
  LAKE_CANCELED = 12,    /* the handle is being closed */
  LAKE_NOMEM = 13,       /* an allocation failed; nothing changed */
  LAKE_UNSUPPORTED = 14, /* the store, the build or the format version cannot do this */
  LAKE_DENIED = 15,      /* credentials missing, wrong or without the right */
  LAKE_INTERNAL = 16     /* a bug in Lakestream: report it with the error's text */
} lake_status;

/* Every function that takes a `lake_error *err` accepts NULL there; every other pointer must be valid unless its comment
 * says otherwise.
 *
 * Caller-owned account of one failure: a single line that says what failed, on which object, what to do. */
typedef struct lake_error {
  lake_status status;
  char text[500];
} lake_error;

#define LAKE_ERROR_INIT {LAKE_OK, {0}}

/* Borrowed bytes: a view by value. The owner is named where one is handed out. */
typedef struct lake_bytes {
  const void *data;
  size_t bytes;
} lake_bytes;

/* The process-wide context of the library: clock, randomness, threads, memory, log. */
typedef struct lake_env lake_env;

typedef enum lake_log_level { LAKE_LOG_ERROR = 0, LAKE_LOG_WARN = 1, LAKE_LOG_INFO = 2, LAKE_LOG_DEBUG = 3 } lake_log_level;

typedef struct lake_env_options {
  uint32_t size; /* sizeof(lake_env_options), set by LAKE_ENV_OPTIONS_INIT */
  uint32_t log_level;                                        /* lake_log_level; 0: errors only */
  void (*log)(void *ctx, lake_log_level level, const char *line); /* NULL: nothing is logged; any thread */
  void *log_ctx;
  void *(*alloc)(void *ctx, size_t align, size_t bytes); /* NULL: aligned_alloc/malloc; may return NULL; any thread */
  void (*free)(void *ctx, void *p);                      /* set both or neither */
  void *alloc_ctx;
} lake_env_options;

#define LAKE_ENV_OPTIONS_INIT {sizeof(lake_env_options), 0, NULL, NULL, NULL, NULL, NULL}

/* A point on the environment's monotonic clock. Waits end at it; no decision about data reads it. */
typedef struct lake_deadline {
  uint64_t at_ns;
} lake_deadline;

/** The name of a status, such as "TIMEOUT".
 *  @param status any value.
 *  Ownership: the text is static. Blocks: no. Threads: any. MPI: local.
 *  Errors: an unknown value gives "UNKNOWN".
 */
LAKE_API const char *lake_status_name(lake_status status);

/** The library's version, "major.minor.patch".
 *  Ownership: the text is static. Blocks: no. Threads: any. MPI: local. Errors: none.
 */
LAKE_API const char *lake_version_string(void);

/** Open an environment.
 *  @param options NULL for the defaults; 0 in a field means its default.
 *  @param out the environment, set last.
 *  Ownership: the caller closes it with lake_env_close() after everything that was opened from it.
 *  Blocks: no. Threads: any. MPI: local. Errors: INVALID (unknown non-zero option bytes), NOMEM.
 */
LAKE_API lake_status lake_env_open(const lake_env_options *options, lake_env **out, lake_error *err);

/** Close an environment; NULL is accepted.
 *  Ownership: env is gone afterwards; every handle opened from it must have been closed before.
 *  Blocks: no. Threads: one, the last user. MPI: local. Errors: none.
 */
LAKE_API void lake_env_close(lake_env *env);

/** The deadline that lies timeout_ms milliseconds from now.
 *  @param env whose clock is used.
 *  @param timeout_ms milliseconds; 0 is "do not wait".
 *  Ownership: by value. Blocks: no. Threads: any. MPI: local. Errors: none (saturates).
 */
LAKE_API lake_deadline lake_deadline_after_ms(lake_env *env, uint64_t timeout_ms);

#ifdef __cplusplus
}
#endif
#endif

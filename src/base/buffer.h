/* lake_buffer: owned bytes with a maximum; and an arena: many small allocations freed at once. Not thread-safe. */
#ifndef LKI_BASE_BUFFER_H
#define LKI_BASE_BUFFER_H

#include <lakestream/sys/store.h>

#define LKI_BUFFER_ALIGN 64 /* what lki_block_alloc() promises */

void lki_buffer_init(lake_buffer *buffer, lake_env *env, size_t bytes_max);
void lki_buffer_init_fixed(lake_buffer *buffer, lake_env *env, void *data, size_t capacity);
void lki_buffer_free(lake_buffer *buffer); /* leaves it empty and usable */
/* Capacity of at least `capacity`. INVALID past bytes_max, NOMEM. The content is kept. */
lake_status lki_buffer_reserve(lake_buffer *buffer, size_t capacity, lake_error *err);
lake_status lki_buffer_append(lake_buffer *buffer, const void *data, size_t bytes, lake_error *err);
lake_bytes lki_buffer_view(const lake_buffer *buffer);

typedef struct lki_arena {
  lake_env *env;
  struct lki_arena_block *blocks;
  size_t used_bytes; /* in all */
  bool failed;       /* an allocation has failed: for those who build a lot and ask once at the end */
} lki_arena;

void lki_arena_init(lki_arena *arena, lake_env *env);
void *lki_arena_alloc(lki_arena *arena, size_t bytes); /* 16-byte aligned, zeroed; NULL: no memory */
void *lki_arena_copy(lki_arena *arena, const void *data, size_t bytes);
char *lki_arena_strndup(lki_arena *arena, const char *text, size_t bytes);
void lki_arena_free(lki_arena *arena);
void lki_arena_wipe_free(lki_arena *arena); /* for what holds secrets: nothing of it stays in memory */

#endif

/* Owned bytes and arenas. Not thread-safe: one owner at a time. */
#include "base/buffer.h"
#include "base/env.h"
#include "base/error.h"
#include <assert.h>
#include <string.h>

void lki_buffer_init(lake_buffer *buffer, lake_env *env, size_t bytes_max) {
  memset(buffer, 0, sizeof *buffer);
  buffer->env = env;
  buffer->bytes_max = bytes_max;
}

void lki_buffer_init_fixed(lake_buffer *buffer, lake_env *env, void *data, size_t capacity) {
  memset(buffer, 0, sizeof *buffer);
  buffer->env = env;
  buffer->data = data;
  buffer->capacity = capacity;
  buffer->bytes_max = capacity;
  buffer->fixed = true;
}

void lki_buffer_free(lake_buffer *buffer) {
  if (buffer->data != NULL && !buffer->fixed) lki_block_free(buffer->env, buffer->data, buffer->capacity);
  if (!buffer->fixed) {
    buffer->data = NULL;
    buffer->capacity = 0;
  }
  buffer->bytes = 0;
}

lake_status lki_buffer_reserve(lake_buffer *buffer, size_t capacity, lake_error *err) {
  if (capacity <= buffer->capacity) return LAKE_OK;
  if (capacity > buffer->bytes_max)
    return lki_fail(err, LAKE_INVALID, "%zu bytes do not fit into a buffer of at most %zu", capacity,
                    buffer->bytes_max);
  /* Doubling keeps appends linear; the first reservation is exact, since most buffers are sized once. */
  size_t want = capacity;
  if (buffer->capacity > 0 && want < buffer->capacity * 2) want = buffer->capacity * 2;
  if (want > buffer->bytes_max) want = buffer->bytes_max;
  unsigned char *data = lki_block_alloc(buffer->env, want);
  if (data == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for %zu bytes", want);
  if (buffer->bytes > 0) memcpy(data, buffer->data, buffer->bytes);
  lki_block_free(buffer->env, buffer->data, buffer->capacity);
  buffer->data = data;
  buffer->capacity = want;
  return LAKE_OK;
}

/* What is appended to in small pieces does not begin with three bytes and double ten times. */
#define APPEND_BYTES_MIN ((size_t)512)

lake_status lki_buffer_append(lake_buffer *buffer, const void *data, size_t bytes, lake_error *err) {
  if (bytes == 0) return LAKE_OK;
  if (bytes > SIZE_MAX - buffer->bytes) return lki_fail(err, LAKE_INVALID, "buffer: length overflows");
  size_t need = buffer->bytes + bytes;
  if (need > buffer->capacity && need < APPEND_BYTES_MIN && buffer->bytes_max >= APPEND_BYTES_MIN)
    need = APPEND_BYTES_MIN;
  lake_status s = lki_buffer_reserve(buffer, need, err);
  if (s != LAKE_OK) return s;
  memcpy(buffer->data + buffer->bytes, data, bytes);
  buffer->bytes += bytes;
  return LAKE_OK;
}

lake_bytes lki_buffer_view(const lake_buffer *buffer) {
  lake_bytes view = {buffer->data, buffer->bytes};
  return view;
}

struct lki_arena_block {
  struct lki_arena_block *next;
  size_t used;
  size_t capacity;
  size_t pad; /* keeps the data 16-byte aligned */
};

/* The first blocks are small, since most arenas are: the C library has such at hand. */
#define ARENA_BLOCK_BYTES ((size_t)8192)
#define ARENA_FIRST_BYTES ((size_t)960)
#define ARENA_SMALL_BYTES ((size_t)3000)

void lki_arena_init(lki_arena *arena, lake_env *env) {
  arena->env = env;
  arena->blocks = NULL;
  arena->used_bytes = 0;
  arena->failed = false;
}

void *lki_arena_alloc(lki_arena *arena, size_t bytes) {
  if (bytes > SIZE_MAX / 2) {
    arena->failed = true;
    return NULL;
  }
  size_t need = (bytes + 15) / 16 * 16;
  if (need == 0) need = 16;
  struct lki_arena_block *block = arena->blocks;
  if (block == NULL || block->capacity - block->used < need) {
    size_t capacity = arena->used_bytes < ARENA_SMALL_BYTES ? ARENA_FIRST_BYTES : ARENA_BLOCK_BYTES;
    if (need > capacity) capacity = need > ARENA_BLOCK_BYTES ? need : ARENA_BLOCK_BYTES;
    block = lki_alloc(arena->env, sizeof *block + capacity);
    if (block == NULL) {
      arena->failed = true;
      return NULL;
    }
    block->used = 0;
    block->capacity = capacity;
    block->next = arena->blocks;
    arena->blocks = block;
  }
  unsigned char *p = (unsigned char *)(block + 1) + block->used;
  block->used += need;
  arena->used_bytes += need;
  memset(p, 0, need);
  return p;
}

void *lki_arena_copy(lki_arena *arena, const void *data, size_t bytes) {
  void *p = lki_arena_alloc(arena, bytes);
  if (p != NULL && bytes > 0) memcpy(p, data, bytes);
  return p;
}

char *lki_arena_strndup(lki_arena *arena, const char *text, size_t bytes) {
  char *p = lki_arena_alloc(arena, bytes + 1);
  if (p != NULL && bytes > 0) memcpy(p, text, bytes);
  return p; /* terminated: the arena zeroes */
}

void lki_arena_free(lki_arena *arena) {
  struct lki_arena_block *block = arena->blocks;
  while (block != NULL) {
    struct lki_arena_block *next = block->next;
    lki_free(arena->env, block);
    block = next;
  }
  arena->blocks = NULL;
  arena->used_bytes = 0;
}

void lki_arena_wipe_free(lki_arena *arena) {
  for (struct lki_arena_block *block = arena->blocks; block != NULL; block = block->next)
    explicit_bzero(block + 1, block->used);
  lki_arena_free(arena);
}

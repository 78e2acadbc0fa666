#include "support/scarce.h"
#include <stdlib.h>

static void *scarce_alloc(void *ctx, size_t align, size_t bytes) {
  scarce *memory = ctx;
  if (atomic_load(&memory->left) >= 0 && atomic_fetch_sub(&memory->left, 1) == 0) return NULL;
  atomic_fetch_add(&memory->live, 1);
  return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void scarce_free(void *ctx, void *p) {
  scarce *memory = ctx;
  if (p != NULL) atomic_fetch_sub(&memory->live, 1);
  free(p);
}

lake_env_options scarce_options(scarce *memory) {
  lake_env_options options = LAKE_ENV_OPTIONS_INIT;
  atomic_store(&memory->left, -1);
  atomic_store(&memory->live, 0);
  options.alloc = scarce_alloc;
  options.free = scarce_free;
  options.alloc_ctx = memory;
  return options;
}

void scarce_fail_at(scarce *memory, long at) {
  atomic_store(&memory->left, at);
}

bool scarce_failed(scarce *memory) {
  return atomic_exchange(&memory->left, -1) < 0;
}

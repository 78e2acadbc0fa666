/* The one door to zstd: no other file includes its header. A context asks the processor what it can do, which a
 * virtual machine answers slowly (tens of microseconds, more than a manifest takes to decode), so the environment
 * keeps one of each kind. The custom-memory constructors are what lets a
 * test make each allocation fail and a simulator count them; they are exported by every libzstd since 1.3. */
#define ZSTD_STATIC_LINKING_ONLY
#include "format/zstd.h"
#include "base/env.h"
#include <zstd.h>

/* A block of zstd makes at most 128 KiB from 4 bytes (a run), so no honest frame expands more than this. */
#define EXPANSION_MAX 32768u

struct lki_compressor {
  lake_env *env;
  ZSTD_CCtx *context;
};

static void *zstd_alloc(void *env, size_t bytes) {
  return lki_alloc(env, bytes);
}
static void zstd_free(void *env, void *p) {
  lki_free(env, p);
}

static ZSTD_customMem memory_of(lake_env *env) {
  ZSTD_customMem memory = {zstd_alloc, zstd_free, env};
  return memory;
}

static void compressor_drop(void *thing) {
  lki_compressor *compressor = thing;
  ZSTD_freeCCtx(compressor->context);
  lki_free(compressor->env, compressor);
}

static void decompressor_drop(void *context) {
  ZSTD_freeDCtx(context);
}

lki_compressor *lki_compressor_open(lake_env *env) {
  lki_compressor *compressor = lki_env_take(env, LKI_KEPT_COMPRESSOR);
  if (compressor != NULL) return compressor;
  compressor = lki_new(env, sizeof *compressor);
  if (compressor == NULL) return NULL;
  compressor->env = env;
  compressor->context = ZSTD_createCCtx_advanced(memory_of(env));
  if (compressor->context == NULL) {
    lki_free(env, compressor);
    return NULL;
  }
  return compressor;
}

void lki_compressor_close(lki_compressor *compressor) {
  if (compressor != NULL) lki_env_keep(compressor->env, LKI_KEPT_COMPRESSOR, compressor, compressor_drop);
}

bool lki_compress(lki_compressor *compressor, lake_bytes src, int level, void *dst, size_t dst_bytes,
                  size_t *bytes) {
  size_t n = ZSTD_compressCCtx(compressor->context, dst, dst_bytes, src.data, src.bytes, level);
  if (ZSTD_isError(n)) return false;
  *bytes = n;
  return true;
}

bool lki_compressed_check(lake_bytes src, uint64_t content_bytes) {
  if (src.bytes == 0 || content_bytes / EXPANSION_MAX > src.bytes) return false;
  /* A skippable frame has content size 0 and would pass for an empty slice. */
  if (ZSTD_isFrame(src.data, src.bytes) == 0 ||
      ZSTD_getFrameContentSize(src.data, src.bytes) != content_bytes)
    return false;
  return ZSTD_findFrameCompressedSize(src.data, src.bytes) == src.bytes;
}

lake_status lki_decompress(lake_env *env, lake_bytes src, void *dst, size_t dst_bytes) {
  ZSTD_DCtx *context = lki_env_take(env, LKI_KEPT_DECOMPRESSOR);
  if (context == NULL) context = ZSTD_createDCtx_advanced(memory_of(env));
  if (context == NULL) return LAKE_NOMEM;
  size_t n = ZSTD_decompressDCtx(context, dst, dst_bytes, src.data, src.bytes);
  lki_env_keep(env, LKI_KEPT_DECOMPRESSOR, context, decompressor_drop);
  return n == dst_bytes ? LAKE_OK : LAKE_CORRUPT;
}

/* The one door to zstd. Contexts take their memory from the environment. Pure otherwise. */
#ifndef LKI_FORMAT_ZSTD_H
#define LKI_FORMAT_ZSTD_H

#include <lakestream/base.h>

typedef struct lki_compressor lki_compressor;

/* A compressor that is used for many blocks, by one thread at a time; NULL: no memory. */
lki_compressor *lki_compressor_open(lake_env *env);
void lki_compressor_close(lki_compressor *compressor); /* NULL accepted */
/* One zstd frame that states its content's size. false: it does not fit into dst_bytes (or memory is short):
 * the caller stores the bytes as they are. */
bool lki_compress(lki_compressor *compressor, lake_bytes src, int level, void *dst, size_t dst_bytes,
                  size_t *bytes);

/* Is src exactly one zstd frame, and does it say that its content has content_bytes? Reads headers only. */
bool lki_compressed_check(lake_bytes src, uint64_t content_bytes);
/* Decompresses one frame of exactly dst_bytes. CORRUPT, NOMEM; the caller says on which object. */
lake_status lki_decompress(lake_env *env, lake_bytes src, void *dst, size_t dst_bytes);

#endif

/* Writing many frames with one compressor. Pure. */
#ifndef LKI_FORMAT_FRAME_H
#define LKI_FORMAT_FRAME_H

#include "format/format.h"
#include "format/zstd.h"

/* As lki_frame_encode; compressor NULL: store as it is. */
lake_status lki_frame_append(lki_compressor *compressor, lake_bytes slice, lki_frame_key key,
                             lake_buffer *out, lake_error *err);

#endif

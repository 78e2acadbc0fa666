/* The packer: documents become rows of tokens, rows become the slices of one TGB. Pure: no I/O, no clock, no threads.
 *
 * A document of n bytes is n + 2 tokens: BOS, its bytes, EOS. Documents follow one another without padding and are cut
 * into rows of seq_len tokens; a TGB holds D*R rows, numbered d*R + r. Each row is cut into C chunks of seq_len / C
 * tokens, chunk c for context-parallel rank c. Per token:
 *   tokens        the token, or PAD
 *   labels        the next token of the same document, also across the end of a row, else PAD
 *   position_ids  counted from 0 at each document's start and again at each row's start, since attention never
 *                 leaves a row
 *   segment_ids   number of the document within its row, from 1; 0 is padding
 *   loss_mask     1 where the label is a token, else 0
 * Nothing is carried from one TGB to the next but the place in the document, so a feeder resumes at any TGB. */
#ifndef LKI_FEED_PACK_H
#define LKI_FEED_PACK_H

#include "model/schema.h"

#define LKI_TOKEN_BOS 256
#define LKI_TOKEN_EOS 257
#define LKI_TOKEN_PAD 258
#define LKI_TOKEN_VOCAB 259
#define LKI_PACK_TENSOR_COUNT 5
#define LKI_SEQ_LEN_MAX ((uint32_t)1 << 24)

typedef struct lki_pack {
  lake_mesh mesh;
  uint32_t rows;      /* R */
  uint32_t seq_len;   /* S, a multiple of C */
  uint32_t chunk_len; /* S / C */
  uint64_t token_count_max; /* D*R*S */
  uint64_t token_count;     /* in use */
  int32_t segment;          /* of the current row's last document; 0: the row is empty */
  uint64_t row_token_at;    /* first token of the part of the document that lies in the current row */
  uint64_t slice_bytes;     /* a multiple of 64, so that the slices can lie one behind the other */
  uint64_t tensor_offset[LKI_PACK_TENSOR_COUNT];
  unsigned char *slices;    /* D*C of them */
} lki_pack;

/* The schema the packer fills: five tensors of one chunk each. INVALID when seq_len does not divide by C. */
lake_status lki_pack_schema(uint32_t seq_len, uint32_t c_count, lake_tensor_spec specs[LKI_PACK_TENSOR_COUNT],
                            lake_error *err);
/* Does a namespace hold what the packer makes? Its sequence length goes to *seq_len. INVALID names the difference. */
lake_status lki_pack_schema_fits(const lake_namespace_info *info, uint32_t *seq_len, lake_error *err);

lake_status lki_pack_init(lki_pack *pack, lake_mesh mesh, uint32_t rows, uint32_t seq_len, lake_error *err);
void lki_pack_fini(lki_pack *pack);
void lki_pack_reset(lki_pack *pack); /* all padding */

static inline uint64_t lki_pack_document_tokens(size_t bytes) { return (uint64_t)bytes + 2; }
static inline bool lki_pack_full(const lki_pack *pack) { return pack->token_count == pack->token_count_max; }
/* Adds tokens [token_at, ...) of a document until it or the TGB is full; returns the first token not taken. */
uint64_t lki_pack_document(lki_pack *pack, lake_bytes document, uint64_t token_at);
/* Views of the D*C slices, slices[d*C + c]. */
void lki_pack_slices(const lki_pack *pack, lake_bytes *slices);

#endif

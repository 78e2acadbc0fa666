/* A byte-level language model in plain C: embedding, one hidden layer, softmax; SGD with momentum.
 *
 * Gradients are summed as 64-bit integers (fixed point, per row), so their sum is the same bits whatever order,
 * algorithm or split over ranks the reduction uses: a resumed run ends bit-identical, and so does one on another
 * number of replicas. Not thread-safe; no MPI in here. */
#ifndef LM_MODEL_H
#define LM_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LM_VOCAB 259 /* 256 bytes, BOS, EOS, PAD */
#define LM_PAD 258
#define LM_CONTEXT_MAX 32

typedef struct lm_shape {
  uint32_t context; /* tokens the model looks back on, the current one included */
  uint32_t embed;   /* width of an embedding */
  uint32_t hidden;  /* width of the hidden layer */
} lm_shape;

typedef struct lm_model {
  lm_shape shape;
  size_t param_count;
  float *weights;    /* param_count: embedding, hidden weights, hidden bias, output weights, output bias */
  float *momentum;   /* param_count */
  float *gradient;   /* param_count: of one row, scratch */
  float *activation; /* scratch of one token */
} lm_model;

/* One row of a slice: `count` tokens of one sequence (or of this rank's part of it). */
typedef struct lm_row {
  const uint16_t *tokens;
  const uint16_t *labels;
  const int32_t *segment_ids; /* the context never reaches into another document */
  const uint8_t *loss_mask;   /* 0: no target here */
  uint32_t count;
} lm_row;

/* What a step adds up over all rows; all integers, so that the order does not matter. */
typedef struct lm_sums {
  uint64_t *gradient; /* param_count; two's complement fixed point */
  uint64_t loss;      /* fixed point */
  uint64_t token_count;
} lm_sums;

/* Weights drawn from the seed. False: no memory. */
bool lm_model_open(lm_model *model, lm_shape shape, uint64_t seed);
void lm_model_close(lm_model *model);

/* Adds one row's gradient, loss and token count to sums. False: a value is not finite or a token is out of range. */
bool lm_model_row(lm_model *model, const lm_row *row, lm_sums *sums);
/* One step of SGD on the mean gradient. */
void lm_model_update(lm_model *model, const lm_sums *sums, float rate, float momentum);
/* Mean loss in nats per token; 0 where there was no token. */
double lm_sums_loss(const lm_sums *sums);

#endif

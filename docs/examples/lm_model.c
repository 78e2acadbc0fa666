/* The model's arithmetic. Inner loops run over contiguous output units, so that they vectorise without reordering
 * any sum; build without -ffast-math and without contraction, else two builds may differ. */
#include "lm_model.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FIXED_ONE 4294967296.0 /* 2^32: a row's gradient may reach 2^21 before a sum of 2^10 rows overflows */

/* Where each block of parameters begins. */
typedef struct layout {
  size_t embedding, hidden_weights, hidden_bias, output_weights, output_bias, end;
} layout;

static layout layout_of(lm_shape shape) {
  layout at;
  size_t input = (size_t)shape.context * shape.embed;
  at.embedding = 0;
  at.hidden_weights = at.embedding + (size_t)LM_VOCAB * shape.embed;
  at.hidden_bias = at.hidden_weights + input * shape.hidden;
  at.output_weights = at.hidden_bias + shape.hidden;
  at.output_bias = at.output_weights + (size_t)shape.hidden * LM_VOCAB;
  at.end = at.output_bias + LM_VOCAB;
  return at;
}

static uint64_t splitmix64(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void draw(float *dst, size_t count, float scale, uint64_t *state) {
  for (size_t i = 0; i < count; i++) {
    double unit = (double)(splitmix64(state) >> 11) / 9007199254740992.0;
    dst[i] = (float)((2.0 * unit - 1.0) * scale);
  }
}

bool lm_model_open(lm_model *model, lm_shape shape, uint64_t seed) {
  memset(model, 0, sizeof *model);
  layout at = layout_of(shape);
  size_t input = (size_t)shape.context * shape.embed;
  model->shape = shape;
  model->param_count = at.end;
  model->weights = calloc(at.end, sizeof(float));
  model->momentum = calloc(at.end, sizeof(float));
  model->gradient = calloc(at.end, sizeof(float));
  model->activation = calloc(2 * (input + shape.hidden) + 2 * LM_VOCAB, sizeof(float));
  if (!model->weights || !model->momentum || !model->gradient || !model->activation) {
    lm_model_close(model);
    return false;
  }
  draw(model->weights + at.embedding, (size_t)LM_VOCAB * shape.embed, 0.5f, &seed);
  draw(model->weights + at.hidden_weights, input * shape.hidden, 1.0f / sqrtf((float)input), &seed);
  draw(model->weights + at.output_weights, (size_t)shape.hidden * LM_VOCAB, 1.0f / sqrtf((float)shape.hidden), &seed);
  return true;
}

void lm_model_close(lm_model *model) {
  free(model->activation);
  free(model->gradient);
  free(model->momentum);
  free(model->weights);
  memset(model, 0, sizeof *model);
}

/* y += a * x */
static void add_scaled(float *restrict y, const float *restrict x, float a, size_t count) {
  for (size_t i = 0; i < count; i++) y[i] += a * x[i];
}

/* Eight partial sums in a fixed order: fast, and the same bits each time. */
static float dot(const float *restrict x, const float *restrict y, size_t count) {
  float part[8] = {0};
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    for (size_t k = 0; k < 8; k++) part[k] += x[i + k] * y[i + k];
  float sum = ((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7]));
  for (; i < count; i++) sum += x[i] * y[i];
  return sum;
}

/* The ids of the context of position i: the newest first; PAD where the document or the row has not begun. */
static void context_of(const lm_model *model, const lm_row *row, uint32_t i, uint16_t ids[LM_CONTEXT_MAX]) {
  for (uint32_t k = 0; k < model->shape.context; k++) {
    bool inside = k <= i && row->segment_ids[i - k] == row->segment_ids[i];
    ids[k] = inside ? row->tokens[i - k] : LM_PAD;
  }
}

/* Turns logits into probabilities; returns the loss of the label. */
static double softmax(float *logits, uint16_t label) {
  float top = logits[0], sum = 0;
  for (size_t v = 1; v < LM_VOCAB; v++) top = logits[v] > top ? logits[v] : top;
  for (size_t v = 0; v < LM_VOCAB; v++) sum += logits[v] = expf(logits[v] - top);
  for (size_t v = 0; v < LM_VOCAB; v++) logits[v] /= sum;
  return -log((double)logits[label] + 1e-30);
}

/* Forward and backward of one position; returns its loss and adds to model->gradient. */
static double position(lm_model *model, const uint16_t ids[LM_CONTEXT_MAX], uint16_t label) {
  const layout at = layout_of(model->shape);
  const size_t embed = model->shape.embed, hidden = model->shape.hidden, input = model->shape.context * embed;
  const float *w = model->weights;
  float *g = model->gradient;
  float *x = model->activation, *dx = x + input, *h = dx + input, *dh = h + hidden, *logits = dh + hidden;

  for (size_t k = 0; k < model->shape.context; k++)
    memcpy(x + k * embed, w + at.embedding + ids[k] * embed, embed * sizeof(float));
  memcpy(h, w + at.hidden_bias, hidden * sizeof(float));
  for (size_t j = 0; j < input; j++) add_scaled(h, w + at.hidden_weights + j * hidden, x[j], hidden);
  for (size_t j = 0; j < hidden; j++) h[j] = tanhf(h[j]);
  memcpy(logits, w + at.output_bias, LM_VOCAB * sizeof(float));
  for (size_t j = 0; j < hidden; j++) add_scaled(logits, w + at.output_weights + j * LM_VOCAB, h[j], LM_VOCAB);
  double loss = softmax(logits, label);

  logits[label] -= 1.0f; /* now the gradient of the logits */
  add_scaled(g + at.output_bias, logits, 1.0f, LM_VOCAB);
  for (size_t j = 0; j < hidden; j++) {
    add_scaled(g + at.output_weights + j * LM_VOCAB, logits, h[j], LM_VOCAB);
    dh[j] = dot(w + at.output_weights + j * LM_VOCAB, logits, LM_VOCAB) * (1.0f - h[j] * h[j]);
  }
  add_scaled(g + at.hidden_bias, dh, 1.0f, hidden);
  for (size_t j = 0; j < input; j++) {
    add_scaled(g + at.hidden_weights + j * hidden, dh, x[j], hidden);
    dx[j] = dot(w + at.hidden_weights + j * hidden, dh, hidden);
  }
  for (size_t k = 0; k < model->shape.context; k++)
    add_scaled(g + at.embedding + ids[k] * embed, dx + k * embed, 1.0f, embed);
  return loss;
}

bool lm_model_row(lm_model *model, const lm_row *row, lm_sums *sums) {
  memset(model->gradient, 0, model->param_count * sizeof(float));
  double loss = 0;
  uint64_t token_count = 0;
  for (uint32_t i = 0; i < row->count; i++)
    if (row->tokens[i] >= LM_VOCAB || row->labels[i] >= LM_VOCAB) return false;
  for (uint32_t i = 0; i < row->count; i++) {
    if (row->loss_mask[i] == 0) continue;
    uint16_t ids[LM_CONTEXT_MAX];
    context_of(model, row, i, ids);
    loss += position(model, ids, row->labels[i]);
    token_count++;
  }
  if (!isfinite(loss)) return false;
  for (size_t i = 0; i < model->param_count; i++) {
    double fixed = (double)model->gradient[i] * FIXED_ONE;
    if (!(fabs(fixed) < 9007199254740992.0)) return false; /* 2^53; also a NaN ends here */
    sums->gradient[i] += (uint64_t)(int64_t)llrint(fixed);
  }
  sums->loss += (uint64_t)(int64_t)llrint(loss * FIXED_ONE);
  sums->token_count += token_count;
  return true;
}

static double from_fixed(uint64_t sum) { return (double)(int64_t)sum / FIXED_ONE; }

void lm_model_update(lm_model *model, const lm_sums *sums, float rate, float momentum) {
  if (sums->token_count == 0) return;
  double scale = 1.0 / (double)sums->token_count;
  for (size_t i = 0; i < model->param_count; i++) {
    model->momentum[i] = momentum * model->momentum[i] + (float)(from_fixed(sums->gradient[i]) * scale);
    model->weights[i] -= rate * model->momentum[i];
  }
}

double lm_sums_loss(const lm_sums *sums) {
  return sums->token_count > 0 ? from_fixed(sums->loss) / (double)sums->token_count : 0.0;
}

/* From a rank to its place in the mesh.
 * Invariant: over all ranks each (d,c) is taken by the same number of ranks, tp*pp. Pure: no MPI, no state. */
#include "order.h"
#include <stdio.h>
#include <string.h>

static const char *const dimension_names[LKI_DIMENSION_COUNT] = {"tp", "cp", "ep", "dp", "pp"};

static int dimension_of(const char *name, size_t bytes) {
  for (int i = 0; i < LKI_DIMENSION_COUNT; i++)
    if (bytes == 2 && memcmp(name, dimension_names[i], 2) == 0) return i;
  return -1;
}

/* Reads "tp-cp-dp" into the dimensions from the fastest to the slowest; returns how many, or -1. */
static int order_parse(const char *order, int fastest_first[LKI_DIMENSION_COUNT], char why[300]) {
  bool seen[LKI_DIMENSION_COUNT] = {false};
  int count = 0;
  for (const char *at = order;; at++) {
    size_t bytes = strcspn(at, "-");
    int dimension = dimension_of(at, bytes);
    if (dimension < 0) {
      snprintf(why, 300, "mesh order \"%.60s\": \"%.*s\" is no dimension; use tp, cp, ep, dp and pp joined by '-'", order,
               (int)(bytes < 20 ? bytes : 20), at);
      return -1;
    }
    if (seen[dimension]) {
      snprintf(why, 300, "mesh order \"%.60s\": %s occurs twice; name each dimension once", order,
               dimension_names[dimension]);
      return -1;
    }
    seen[dimension] = true;
    fastest_first[count++] = dimension;
    at += bytes;
    if (*at == '\0') return count;
  }
}

/* Fills in what is 0 and checks the product against the number of ranks. */
static lake_status sizes_resolve(const uint32_t given[LKI_DIMENSION_COUNT], uint32_t rank_count,
                                 uint32_t sizes[LKI_DIMENSION_COUNT], char why[300]) {
  uint64_t others = 1;
  for (int i = 0; i < LKI_DIMENSION_COUNT; i++) {
    sizes[i] = given[i] > 0 ? given[i] : 1;
    if (i == LKI_DP) continue;
    others *= sizes[i];
    if (others > UINT32_MAX) others = UINT32_MAX; /* keeps the next product below 2^64; far above any job */
  }
  if (given[LKI_DP] == 0 && others <= rank_count && rank_count % others == 0)
    sizes[LKI_DP] = (uint32_t)(rank_count / others);
  uint64_t product = others * sizes[LKI_DP];
  if (product == rank_count) return LAKE_OK;
  snprintf(why, 300,
           "parallel sizes tp=%u cp=%u ep=%u dp=%u pp=%u need %llu ranks but the communicator has %u; "
           "correct the sizes or the number of ranks",
           sizes[LKI_TP], sizes[LKI_CP], sizes[LKI_EP], sizes[LKI_DP], sizes[LKI_PP], (unsigned long long)product,
           rank_count);
  return LAKE_INVALID;
}

lake_status lki_order_place(const char *order, const uint32_t given[LKI_DIMENSION_COUNT], uint32_t rank,
                            uint32_t rank_count, lake_mesh *mesh, lake_coords *coords, char why[300]) {
  if (order == NULL) order = LKI_ORDER_DEFAULT;
  int fastest_first[LKI_DIMENSION_COUNT];
  int count = order_parse(order, fastest_first, why);
  if (count < 0) return LAKE_INVALID;
  uint32_t sizes[LKI_DIMENSION_COUNT];
  lake_status status = sizes_resolve(given, rank_count, sizes, why);
  if (status != LAKE_OK) return status;

  /* Peel the digits off the rank, the fastest first. ep and dp both add to d: the one further left counts in ones. */
  uint32_t left = rank, c = 0, d = 0, d_weight = 1;
  bool placed[LKI_DIMENSION_COUNT] = {false};
  for (int i = 0; i < count; i++) {
    int dimension = fastest_first[i];
    uint32_t index = left % sizes[dimension];
    left /= sizes[dimension];
    placed[dimension] = true;
    if (dimension == LKI_CP) c = index;
    if (dimension != LKI_EP && dimension != LKI_DP) continue;
    d += index * d_weight;
    d_weight *= sizes[dimension];
  }
  for (int i = 0; i < LKI_DIMENSION_COUNT; i++)
    if (!placed[i] && sizes[i] > 1) {
      snprintf(why, 300, "mesh order \"%.60s\" leaves out %s, whose size is %u; add it to the order", order,
               dimension_names[i], sizes[i]);
      return LAKE_INVALID;
    }
  *mesh = (lake_mesh){sizes[LKI_EP] * sizes[LKI_DP], sizes[LKI_CP]};
  *coords = (lake_coords){d, c};
  return LAKE_OK;
}

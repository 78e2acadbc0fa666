/* From a rank to its place in the mesh: pure arithmetic, no MPI, no state, safe from any thread. */
#ifndef LKI_HPC_ORDER_H
#define LKI_HPC_ORDER_H

#include <lakestream/namespace.h>

#define LKI_ORDER_DEFAULT "tp-cp-ep-dp-pp" /* Megatron's */

typedef enum lki_dimension { LKI_TP, LKI_CP, LKI_EP, LKI_DP, LKI_PP, LKI_DIMENSION_COUNT } lki_dimension;

/* Places `rank` of `rank_count` in the mesh that the order (NULL: the default) and the dimensions' sizes span; a size
 * of 0 is 1, but for dp, where 0 is what remains of rank_count. ep and dp together make d, in the order's order.
 * On failure why[] holds one line and the outputs are untouched. */
lake_status lki_order_place(const char *order, const uint32_t sizes[LKI_DIMENSION_COUNT], uint32_t rank,
                            uint32_t rank_count, lake_mesh *mesh, lake_coords *coords, char why[300]);

#endif

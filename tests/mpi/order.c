/* Placement by a mesh order, against a table made by counting, and against Megatron's own formulas. */
#include "../../hpc/order.h"
#include "support/support.h"
#include <stdio.h>
#include <string.h>

static const char *const names[LKI_DIMENSION_COUNT] = {"tp", "cp", "ep", "dp", "pp"};

/* Counts through all ranks like an odometer whose first digit turns fastest, and compares every rank. */
static void check_order(const int *dims, int dim_count, const uint32_t sizes[LKI_DIMENSION_COUNT]) {
  char order[32] = "";
  uint32_t rank_count = 1;
  for (int i = 0; i < dim_count; i++) {
    strcat(order, i > 0 ? "-" : "");
    strcat(order, names[dims[i]]);
    rank_count *= sizes[dims[i]];
  }
  bool ep_first = false; /* which of ep and dp stands further left, and so counts in ones */
  for (int i = 0; i < dim_count; i++) {
    if (dims[i] == LKI_DP) break;
    if (dims[i] == LKI_EP) ep_first = true;
  }
  uint32_t digit[LKI_DIMENSION_COUNT] = {0};
  for (uint32_t rank = 0; rank < rank_count; rank++) {
    lake_mesh mesh = {0, 0};
    lake_coords coords = {9, 9};
    char why[300] = "";
    assert_int_equal(lki_order_place(order, sizes, rank, rank_count, &mesh, &coords, why), LAKE_OK);
    uint32_t d = ep_first ? digit[LKI_DP] * sizes[LKI_EP] + digit[LKI_EP] : digit[LKI_EP] * sizes[LKI_DP] + digit[LKI_DP];
    if (coords.d != d || coords.c != digit[LKI_CP])
      fail_msg("order %s rank %u: (%u,%u), expected (%u,%u)", order, rank, coords.d, coords.c, d, digit[LKI_CP]);
    assert_int_equal(mesh.d_count, sizes[LKI_EP] * sizes[LKI_DP]);
    assert_int_equal(mesh.c_count, sizes[LKI_CP]);
    for (int i = 0; i < dim_count; i++) {
      if (++digit[dims[i]] < sizes[dims[i]]) break;
      digit[dims[i]] = 0;
    }
  }
}

/* All orders of all five dimensions: permutations counted in the factorial system, so no recursion. */
static void test_every_order(void **state) {
  (void)state;
  static const uint32_t size_sets[][LKI_DIMENSION_COUNT] = {
      {1, 1, 1, 1, 1}, {2, 1, 1, 3, 1}, {2, 3, 1, 2, 2}, {1, 2, 2, 3, 1}, {3, 2, 2, 2, 2}, {1, 4, 1, 1, 5}, {8, 1, 4, 1, 1}};
  int checked = 0;
  for (size_t s = 0; s < sizeof size_sets / sizeof size_sets[0]; s++)
    for (int n = 0; n < 120; n++, checked++) {
      int left[LKI_DIMENSION_COUNT] = {0, 1, 2, 3, 4}, dims[LKI_DIMENSION_COUNT], code = n;
      for (int i = 0; i < LKI_DIMENSION_COUNT; i++) {
        int remaining = LKI_DIMENSION_COUNT - i, at = code % remaining;
        code /= remaining;
        dims[i] = left[at];
        memmove(left + at, left + at + 1, sizeof(int) * (size_t)(remaining - at - 1));
      }
      check_order(dims, LKI_DIMENSION_COUNT, size_sets[s]);
    }
  assert_int_equal(checked, 840);
  static const int shorter[] = {LKI_DP, LKI_CP};
  static const uint32_t two[LKI_DIMENSION_COUNT] = {1, 2, 1, 4, 1};
  check_order(shorter, 2, two);
}

/* t = r%T, c = (r/T)%C, d = (r/(TC))%D, p = r/(TCD). */
static void test_megatron(void **state) {
  (void)state;
  const uint32_t T = 2, C = 3, D = 4, P = 2, sizes[LKI_DIMENSION_COUNT] = {T, C, 1, D, P};
  for (uint32_t r = 0; r < T * C * D * P; r++) {
    lake_mesh mesh;
    lake_coords coords;
    char why[300];
    assert_int_equal(lki_order_place(NULL, sizes, r, T * C * D * P, &mesh, &coords, why), LAKE_OK);
    assert_int_equal(coords.c, r / T % C);
    assert_int_equal(coords.d, r / (T * C) % D);
    /* The other order in use: pipeline before data. */
    assert_int_equal(lki_order_place("tp-cp-ep-pp-dp", sizes, r, T * C * D * P, &mesh, &coords, why), LAKE_OK);
    assert_int_equal(coords.c, r / T % C);
    assert_int_equal(coords.d, r / (T * C * P));
  }
}

static void refused(const char *order, const uint32_t sizes[LKI_DIMENSION_COUNT], uint32_t rank_count, const char *text) {
  lake_mesh mesh = {7, 7};
  lake_coords coords = {7, 7};
  char why[300] = "";
  assert_int_equal(lki_order_place(order, sizes, 0, rank_count, &mesh, &coords, why), LAKE_INVALID);
  assert_string_equal(why, text);
  assert_int_equal(mesh.d_count + mesh.c_count + coords.d + coords.c, 28); /* untouched */
}

static void test_refused(void **state) {
  (void)state;
  static const uint32_t plain[LKI_DIMENSION_COUNT] = {2, 1, 1, 2, 1};
  refused("tp-cp-xp", plain, 4,
          "mesh order \"tp-cp-xp\": \"xp\" is no dimension; use tp, cp, ep, dp and pp joined by '-'");
  refused("", plain, 4, "mesh order \"\": \"\" is no dimension; use tp, cp, ep, dp and pp joined by '-'");
  refused("tp-dp-", plain, 4, "mesh order \"tp-dp-\": \"\" is no dimension; use tp, cp, ep, dp and pp joined by '-'");
  refused("tp-dp-tp", plain, 4, "mesh order \"tp-dp-tp\": tp occurs twice; name each dimension once");
  refused("cp-dp", plain, 4, "mesh order \"cp-dp\" leaves out tp, whose size is 2; add it to the order");
  refused(NULL, plain, 6,
          "parallel sizes tp=2 cp=1 ep=1 dp=2 pp=1 need 4 ranks but the communicator has 6; "
          "correct the sizes or the number of ranks");
  static const uint32_t huge[LKI_DIMENSION_COUNT] = {UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX};
  lake_mesh mesh;
  lake_coords coords;
  char why[300];
  assert_int_equal(lki_order_place(NULL, huge, 0, 1, &mesh, &coords, why), LAKE_INVALID);
}

/* dp 0 is what remains. */
static void test_remaining(void **state) {
  (void)state;
  static const uint32_t sizes[LKI_DIMENSION_COUNT] = {2, 0, 0, 0, 0};
  lake_mesh mesh;
  lake_coords coords;
  char why[300];
  assert_int_equal(lki_order_place(NULL, sizes, 5, 8, &mesh, &coords, why), LAKE_OK);
  assert_int_equal(mesh.d_count, 4);
  assert_int_equal(mesh.c_count, 1);
  assert_int_equal(coords.d, 2);
  refused(NULL, sizes, 7, "parallel sizes tp=2 cp=1 ep=1 dp=1 pp=1 need 2 ranks but the communicator has 7; "
                          "correct the sizes or the number of ranks");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_order), cmocka_unit_test(test_megatron),
                                     cmocka_unit_test(test_refused), cmocka_unit_test(test_remaining)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

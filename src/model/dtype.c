/* Element types of tensors: names and sizes. No state. */
#include <lakestream/namespace.h>

static const struct {
  const char *name;
  size_t bytes;
} dtypes[] = {
    {"?", 0},   {"u8", 1},  {"i8", 1},  {"u16", 2},  {"i16", 2}, {"u32", 4}, {"i32", 4},
    {"u64", 8}, {"i64", 8}, {"f16", 2}, {"bf16", 2}, {"f32", 4}, {"f64", 8}, {"bool", 1},
};

static size_t index_of(lake_dtype dtype) {
  size_t i = (size_t)dtype;
  return i < sizeof dtypes / sizeof dtypes[0] ? i : 0;
}

size_t lake_dtype_bytes(lake_dtype dtype) {
  return dtypes[index_of(dtype)].bytes;
}
const char *lake_dtype_name(lake_dtype dtype) {
  return dtypes[index_of(dtype)].name;
}

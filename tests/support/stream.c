#include "support/stream.h"
#include <stdlib.h>
#include <string.h>

lake_env *test_env(void) {
  lake_env *env = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_env_open(NULL, &env, &err), &err);
  return env;
}

lake_namespace *test_namespace_new(lake_env *env, const char *url, uint32_t d, uint32_t c, uint32_t tail_max) {
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh.d_count = d;
  options.mesh.c_count = c;
  options.tail_max = tail_max;
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_namespace_create(env, url, &options, test_deadline(env), &ns, &err), &err);
  return ns;
}

lake_status test_append(lake_producer *p, lake_mesh mesh, uint32_t producer, uint64_t seq, lake_deadline deadline,
                        lake_error *err) {
  const uint32_t count = mesh.d_count * mesh.c_count;
  test_slice *content = calloc(count, sizeof *content);
  lake_bytes *slices = calloc(count, sizeof *slices);
  assert_non_null(content);
  assert_non_null(slices);
  for (uint32_t i = 0; i < count; i++) {
    content[i] = (test_slice){producer, i / mesh.c_count, i % mesh.c_count, 0, seq};
    slices[i].data = &content[i];
    slices[i].bytes = sizeof content[i];
  }
  lake_bytes state = {&seq, sizeof seq};
  lake_status s = lake_producer_append(p, slices, count, seq + 1, state, deadline, err);
  free(slices);
  free(content);
  return s;
}

/* A small stream for tests: a raw or typed namespace whose slices say who made them. */
#ifndef LAKE_TESTS_STREAM_H
#define LAKE_TESTS_STREAM_H

#include "support/support.h"

/* What a test slice holds: enough to know its place. */
typedef struct test_slice {
  uint32_t producer;
  uint32_t d, c;
  uint32_t pad;
  uint64_t seq;
} test_slice;

lake_env *test_env(void); /* asserts; close with lake_env_close */
lake_namespace *test_namespace_new(lake_env *env, const char *url, uint32_t d, uint32_t c, uint32_t tail_max);
/* Appends one TGB that says producer and seq, offset seq + 1, state = the seq as 8 bytes. */
lake_status test_append(lake_producer *p, lake_mesh mesh, uint32_t producer, uint64_t seq, lake_deadline deadline,
                        lake_error *err);

#endif

/* Two producer processes, 2,000 small TGBs each, committing under contention on file:; four reader processes follow
 * live. Every TGB is visible exactly once, each producer's in its own order, and all readers see one order (I2-I4). */
#include "support/stream.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PRODUCERS 2
#define PER_PRODUCER 2000u
#define READERS 4

static const lake_mesh mesh = {2, 2};

static lake_namespace *open_ns(lake_env *env, const char *url) {
  lake_namespace *ns = NULL;
  lake_error err = LAKE_ERROR_INIT;
  assert_ok(lake_namespace_open(env, url, test_deadline(env), &ns, &err), &err);
  return ns;
}

/* A child's life: an assertion that fails leaves a non-zero exit. */
static void produce(const char *url, uint32_t id) {
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = open_ns(env, url);
  char name[16];
  snprintf(name, sizeof name, "p%u", id);
  lake_producer *p = NULL;
  assert_ok(lake_producer_open(ns, name, NULL, lake_deadline_after_ms(env, 240000), NULL, &p, &err), &err);
  for (uint64_t seq = 0; seq < PER_PRODUCER; seq++) {
    assert_ok(test_append(p, mesh, id, seq, lake_deadline_after_ms(env, 240000), &err), &err);
    /* Small bursts, committed at once: as much contention as there can be. */
    if (seq % 20 == 19) assert_ok(lake_producer_flush(p, lake_deadline_after_ms(env, 240000), &err), &err);
  }
  assert_ok(lake_producer_retire(p, lake_deadline_after_ms(env, 240000), &err), &err);
  lake_producer_stats stats;
  lake_producer_stats_get(p, &stats);
  printf("producer %u: %llu commits of %llu attempts\n", id, (unsigned long long)stats.commit_count,
         (unsigned long long)stats.attempt_count);
  fflush(stdout);
  lake_producer_close(p);
  lake_namespace_close(ns);
  lake_env_close(env);
}

/* Follows the stream and writes the order it saw, one line a step. */
static void follow(const char *url, uint32_t slice, const char *path) {
  lake_env *env = test_env();
  lake_error err = LAKE_ERROR_INIT;
  lake_namespace *ns = open_ns(env, url);
  lake_consumer_options o = LAKE_CONSUMER_OPTIONS_INIT;
  o.coords = (lake_coords){slice / mesh.c_count, slice % mesh.c_count};
  lake_consumer *c = NULL;
  assert_ok(lake_consumer_open(ns, &o, lake_deadline_after_ms(env, 240000), &c, &err), &err);
  FILE *out = fopen(path, "w");
  assert_non_null(out);
  lake_status s = LAKE_OK;
  for (uint64_t step = 0; s == LAKE_OK; step++) {
    lake_batch batch;
    s = lake_consumer_next(c, lake_deadline_after_ms(env, 240000), &batch, &err);
    if (s != LAKE_OK) break;
    assert_int_equal(batch.step, step);
    test_slice content;
    memcpy(&content, batch.data, sizeof content);
    assert_int_equal(content.d, o.coords.d);
    assert_int_equal(content.c, o.coords.c);
    fprintf(out, "%u %llu\n", content.producer, (unsigned long long)content.seq);
    lake_consumer_release(c, &batch);
  }
  assert_status(s, LAKE_END, &err);
  assert_int_equal(fclose(out), 0);
  lake_consumer_close(c);
  lake_namespace_close(ns);
  lake_env_close(env);
}

static pid_t spawn(const char *url, bool producer, uint32_t i, const char *path) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0) return pid;
  if (producer)
    produce(url, i);
  else
    follow(url, i, path);
  _exit(0);
}

static void reap(pid_t pid) {
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void check_order(char paths[READERS][600]) {
  FILE *in[READERS];
  for (int i = 0; i < READERS; i++) assert_non_null(in[i] = fopen(paths[i], "r"));
  uint64_t next[PRODUCERS] = {0};
  for (uint64_t step = 0; step < PRODUCERS * PER_PRODUCER; step++) {
    unsigned first_producer = 0;
    unsigned long long first_seq = 0;
    for (int i = 0; i < READERS; i++) {
      unsigned producer = 0;
      unsigned long long seq = 0;
      assert_int_equal(fscanf(in[i], "%u %llu\n", &producer, &seq), 2);
      if (i == 0) {
        first_producer = producer;
        first_seq = seq;
        assert_true(producer < PRODUCERS);
        assert_int_equal(seq, next[producer]); /* 0, 1, 2, ... without a gap or a repeat */
        next[producer]++;
      }
      assert_int_equal(producer, first_producer);
      assert_int_equal(seq, first_seq);
    }
  }
  for (int i = 0; i < READERS; i++) {
    assert_int_equal(fgetc(in[i]), EOF);
    fclose(in[i]);
  }
  for (int p = 0; p < PRODUCERS; p++) assert_int_equal(next[p], PER_PRODUCER);
}

static void test_contention(void **state) {
  (void)state;
  const char *folder = test_scratch();
  char url[600], paths[READERS][600];
  snprintf(url, sizeof url, "file:%s/ns", folder);
  lake_env *env = test_env();
  lake_namespace *ns = test_namespace_new(env, url, mesh.d_count, mesh.c_count, 0);
  pid_t producers[PRODUCERS], readers[READERS];
  for (uint32_t i = 0; i < READERS; i++) {
    snprintf(paths[i], sizeof paths[i], "%s/order.%u", folder, i);
    readers[i] = spawn(url, false, i, paths[i]);
  }
  for (uint32_t i = 0; i < PRODUCERS; i++) producers[i] = spawn(url, true, i, NULL);
  for (int i = 0; i < PRODUCERS; i++) reap(producers[i]);
  lake_error err = LAKE_ERROR_INIT;
  uint64_t steps = 0;
  assert_ok(lake_namespace_seal(ns, test_deadline(env), &steps, &err), &err);
  assert_int_equal(steps, PRODUCERS * PER_PRODUCER);
  for (int i = 0; i < READERS; i++) reap(readers[i]);
  check_order(paths);
  lake_namespace_close(ns);
  lake_env_close(env);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_contention)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

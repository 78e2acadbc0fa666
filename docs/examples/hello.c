/* Hello, Lakestream: make a namespace, append three typed batches, read them back as each data-parallel
 * replica would.
 *
 *   hello [URL]        URL: where the namespace is made; default a fresh folder under $TMPDIR or /tmp
 *
 * It uses the installed headers and library only: docs/examples/consumer builds it out of tree. */
#include <lakestream/lakestream.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 2, TOKENS = 16, BATCHES = 3 };

static int fail(const lake_error *err) {
  fprintf(stderr, "hello: %s: %s\n", lake_status_name(err->status), err->text);
  return 1;
}

/* A slice holds one row: TOKENS tokens, 64 bytes. Tensors begin on 64-byte boundaries and a slice ends on
 * one, so a schema whose tensors do not fill their places needs padding: info.slice_bytes says how long a
 * slice is. */
static lake_status create(lake_env *env, const char *url, lake_deadline deadline, lake_namespace **ns,
                          lake_error *err) {
  lake_tensor_spec tokens = {.name = "tokens", .dtype = LAKE_I32, .rank = 1, .shape = {TOKENS}};
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh.d_count = REPLICAS;
  options.mesh.c_count = 1;
  options.tensor_count = 1;
  options.tensors = &tokens;
  return lake_namespace_create(env, url, &options, deadline, ns, err);
}

/* One batch is one TGB: a slice for each replica. They become visible together or not at all. */
static lake_status append_batches(lake_namespace *ns, lake_deadline deadline, lake_error *err) {
  lake_producer *producer = NULL;
  lake_producer_resume resume;
  const lake_bytes no_state = {NULL, 0};
  lake_status s = lake_producer_open(ns, "hello-0", NULL, deadline, &resume, &producer, err);
  /* After a crash, resume.offset is where to go on; in a fresh namespace it is 0. */
  for (uint64_t i = resume.offset; s == LAKE_OK && i < BATCHES; i++) {
    int32_t rows[REPLICAS][TOKENS];
    lake_bytes slices[REPLICAS];
    for (int d = 0; d < REPLICAS; d++) {
      for (int t = 0; t < TOKENS; t++) rows[d][t] = (int32_t)i * 1000 + d * 100 + t;
      slices[d].data = rows[d];
      slices[d].bytes = sizeof rows[d];
    }
    s = lake_producer_append(producer, slices, REPLICAS, i + 1, no_state, deadline, err);
  }
  if (s == LAKE_OK) s = lake_producer_flush(producer, deadline, err);
  lake_producer_close(producer);
  return s;
}

static lake_status read_replica(lake_namespace *ns, uint32_t d, lake_deadline deadline, lake_error *err) {
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.coords.d = d;
  lake_consumer *consumer = NULL;
  lake_status s = lake_consumer_open(ns, &options, deadline, &consumer, err);
  while (s == LAKE_OK) {
    lake_batch batch;
    s = lake_consumer_next(consumer, deadline, &batch, err);
    if (s != LAKE_OK) break;
    const int32_t *tokens = batch.tensors[0].data;
    printf("replica %" PRIu32 " step %" PRIu64 " %s:", d, batch.step, batch.tensors[0].name);
    for (int t = 0; t < TOKENS; t++) printf(" %" PRId32, tokens[t]);
    printf("\n");
    lake_consumer_release(consumer, &batch);
  }
  lake_consumer_close(consumer);
  return s == LAKE_END ? LAKE_OK : s; /* sealed and read to the end */
}

int main(int argc, char **argv) {
  char folder[4096];
  const char *url = argc > 1 ? argv[1] : folder;
  if (argc < 2) {
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lakestream-hello-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(folder) == NULL) {
      perror("hello: mkdtemp");
      return 1;
    }
  }
  lake_error err = LAKE_ERROR_INIT;
  lake_env *env = NULL;
  lake_namespace *ns = NULL;
  lake_status s = lake_env_open(NULL, &env, &err);
  if (s != LAKE_OK) return fail(&err);
  const lake_deadline deadline = lake_deadline_after_ms(env, 30000);
  s = create(env, url, deadline, &ns, &err);
  if (s == LAKE_OK) s = append_batches(ns, deadline, &err);
  if (s == LAKE_OK) s = lake_namespace_seal(ns, deadline, NULL, &err);
  for (uint32_t d = 0; s == LAKE_OK && d < REPLICAS; d++) s = read_replica(ns, d, deadline, &err);
  if (s == LAKE_OK) printf("%d batches in %s\n", BATCHES, url);
  lake_namespace_close(ns);
  lake_env_close(env);
  return s == LAKE_OK ? 0 : fail(&err);
}

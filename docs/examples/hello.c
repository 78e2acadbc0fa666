/* Hello, Lakestream: make a namespace, append three typed batches, read them back as each data-parallel
 * replica would.
 *
 *   hello [URL]        URL: where the namespace is made, to stay; default a folder under $TMPDIR or /tmp that
 *                      is removed at the end
 *
 * It uses the installed headers and library only: docs/examples/out_of_tree builds it out of tree. */
#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700 /* mkdtemp and nftw, with -std=c11 too */
#endif
#include <lakestream/lakestream.h>
#include <ftw.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPLICAS = 2, TOKENS = 16, BATCHES = 3, TENSORS = 2 };

static int fail(const lake_error *err) {
  fprintf(stderr, "hello: %s: %s\n", lake_status_name(err->status), err->text);
  return 1;
}

/* A slice holds one row: TOKENS tokens and one weight. */
static lake_status create(lake_env *env, const char *url, lake_deadline deadline, lake_namespace **ns,
                          lake_error *err) {
  const lake_tensor_spec tensors[TENSORS] = {
      {.name = "tokens", .dtype = LAKE_I32, .rank = 1, .shape = {TOKENS}},
      {.name = "weight", .dtype = LAKE_F32, .rank = 1, .shape = {1}}};
  lake_namespace_options options = LAKE_NAMESPACE_OPTIONS_INIT;
  options.mesh.d_count = REPLICAS;
  options.mesh.c_count = 1;
  options.tensor_count = TENSORS;
  options.tensors = tensors;
  return lake_namespace_create(env, url, &options, deadline, ns, err);
}

/* Tensors begin on 64-byte boundaries and a slice ends on one, so there may be padding between and behind
 * them: zeroes. lake_slice_tensors finds their places; its views are for readers, and since this memory is
 * ours the const is cast away. */
static lake_status fill(const lake_namespace *ns, char *slice, size_t slice_bytes, uint64_t batch, uint32_t d,
                        lake_error *err) {
  lake_tensor views[TENSORS];
  uint32_t count;
  memset(slice, 0, slice_bytes);
  lake_status s = lake_slice_tensors(ns, slice, slice_bytes, views, TENSORS, &count, err);
  if (s != LAKE_OK) return s;
  int32_t *tokens = (int32_t *)views[0].data;
  float *weight = (float *)views[1].data;
  for (int t = 0; t < TOKENS; t++) tokens[t] = (int32_t)batch * 1000 + (int32_t)d * 100 + t;
  *weight = 1.0f / (float)(batch + 1);
  return LAKE_OK;
}

/* One batch is one TGB: a slice for each replica. They become visible together or not at all. */
static lake_status append_batches(lake_namespace *ns, lake_deadline deadline, lake_error *err) {
  lake_producer *producer = NULL;
  lake_producer_resume resume;
  lake_namespace_info info;
  const lake_bytes no_state = {NULL, 0};
  lake_namespace_info_get(ns, &info);
  const size_t slice_bytes = (size_t)info.slice_bytes; /* a multiple of LAKE_TENSOR_ALIGN */
  char *memory = aligned_alloc(LAKE_TENSOR_ALIGN, REPLICAS * slice_bytes);
  if (memory == NULL) {
    err->status = LAKE_NOMEM;
    snprintf(err->text, sizeof err->text, "no memory for a batch");
    return LAKE_NOMEM;
  }
  lake_status s = lake_producer_open(ns, "hello-0", NULL, deadline, &resume, &producer, err);
  /* After a crash, resume.offset is where to go on; in a fresh namespace it is 0. */
  for (uint64_t i = s == LAKE_OK ? resume.offset : 0; s == LAKE_OK && i < BATCHES; i++) {
    lake_bytes slices[REPLICAS];
    for (uint32_t d = 0; d < REPLICAS && s == LAKE_OK; d++) {
      slices[d] = (lake_bytes){memory + d * slice_bytes, slice_bytes};
      s = fill(ns, memory + d * slice_bytes, slice_bytes, i, d, err);
    }
    if (s == LAKE_OK) s = lake_producer_append(producer, slices, REPLICAS, i + 1, no_state, deadline, err);
  }
  if (s == LAKE_OK) s = lake_producer_flush(producer, deadline, err);
  lake_producer_close(producer);
  free(memory);
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
    const float *weight = batch.tensors[1].data;
    printf("replica %" PRIu32 " step %" PRIu64 " %s:", d, batch.step, batch.tensors[0].name);
    for (int t = 0; t < TOKENS; t++) printf(" %" PRId32, tokens[t]);
    printf(" %s: %.2f\n", batch.tensors[1].name, (double)*weight);
    lake_consumer_release(consumer, &batch);
  }
  lake_consumer_close(consumer);
  return s == LAKE_END ? LAKE_OK : s; /* sealed and read to the end */
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
  (void)about, (void)kind, (void)where;
  return remove(path);
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
  if (s != LAKE_OK) goto done;
  const lake_deadline deadline = lake_deadline_after_ms(env, 30000);
  s = create(env, url, deadline, &ns, &err);
  if (s == LAKE_OK) s = append_batches(ns, deadline, &err);
  if (s == LAKE_OK) s = lake_namespace_seal(ns, deadline, NULL, &err);
  for (uint32_t d = 0; s == LAKE_OK && d < REPLICAS; d++) s = read_replica(ns, d, deadline, &err);
  if (s == LAKE_OK) printf("%d batches in %s%s\n", BATCHES, url, argc < 2 ? ", removed now" : "");
  lake_namespace_close(ns);
  lake_env_close(env);
done:
  if (argc < 2) nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
  return s == LAKE_OK ? 0 : fail(&err);
}

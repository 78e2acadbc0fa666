/* train_lm: a small byte-level language model, trained data-parallel over MPI on what a Lakestream consumer yields.
 *
 * It shows a trainer's whole life with Lakestream: open a group of consumers, take one slice a step, write checkpoints
 * that hold weights and cursor, pin each of them, resume from the newest one, stop on a signal. Killed at any moment
 * and started again with the same options it ends with the same bits as a run that was left alone; so does a run on
 * another number of replicas (the sums over ranks are integer sums: see lm_model.h).
 *
 * One collective a step carries gradients, loss, digest and the flags by which the ranks agree how the step ended. */
#include "exit.h"
#include "lm_checkpoint.h"
#include "lm_model.h"
#include "lm_options.h"
#include "lm_report.h"
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* What is added up over the ranks besides the gradients. Each rank counts itself in at most one of got, ended and
 * failed; a rank that waits for data when it is told to stop counts itself in none. */
enum { SUM_LOSS, SUM_TOKENS, SUM_ROWS_DIGEST, SUM_GOT, SUM_ENDED, SUM_FAILED, SUM_STOP, SUM_COUNT };

enum { TOKENS, LABELS, SEGMENT_IDS, LOSS_MASK, FIELD_COUNT };
static const struct {
  const char *name;
  lake_dtype dtype;
} fields[FIELD_COUNT] = {
    {"tokens", LAKE_U16}, {"labels", LAKE_U16}, {"segment_ids", LAKE_I32}, {"loss_mask", LAKE_U8}};

typedef struct trainer {
  lm_options options;
  int rank, rank_count;
  lake_env *env;
  lake_namespace *ns;
  lake_namespace_info info;
  lake_mesh mesh;
  lake_coords coords;
  bool owner; /* the first rank at these coordinates: it learns, the others (tp, pp) only read along */
  lake_mpi_group *group;
  lm_model model;
  lm_state state;
  uint64_t *sums; /* param_count gradients, then SUM_COUNT others */
  lm_report report;
  uint64_t saved_step; /* of the last checkpoint; UINT64_MAX: none */
  uint64_t begin_ns, begin_step;
} trainer;

static volatile sig_atomic_t stop_asked;
static void on_signal(int number) { (void)number, stop_asked = 1; }

static uint64_t now_ns(const trainer *job) { return lake_deadline_after_ms(job->env, 0).at_ns; }

/* Every rank brings its status; all get the worst, and the first rank that has it says why. */
static lake_status agree(const trainer *job, lake_status mine, const lake_error *err) {
  struct {
    int status, rank;
  } own = {(int)mine, job->rank}, worst;
  MPI_Allreduce(&own, &worst, 1, MPI_2INT, MPI_MAXLOC, MPI_COMM_WORLD);
  if (worst.status != LAKE_OK && worst.rank == job->rank) fprintf(stderr, "train_lm: %s\n", err->text);
  return (lake_status)worst.status;
}

/* --- opening ---------------------------------------------------------------------------------------------------- */

static lake_status schema_check(const lake_namespace_info *info, lake_error *err) {
  for (int f = 0; f < FIELD_COUNT; f++) {
    bool found = false;
    for (uint32_t t = 0; t < info->tensor_count; t++)
      found |= strcmp(info->tensors[t].name, fields[f].name) == 0 && info->tensors[t].dtype == fields[f].dtype &&
               info->tensors[t].rank == 1 && info->tensors[t].shape[0] == info->tensors[0].shape[0];
    if (!found)
      return lm_fail(err, LAKE_INVALID, "namespace %.200s has no tensor %s of type %s as `lake feed text` writes it; "
                     "feed one with that command", info->url, fields[f].name, lake_dtype_name(fields[f].dtype));
  }
  return LAKE_OK;
}

static lake_status open_local(trainer *job, lake_error *err) {
  lake_status status = lake_env_open(NULL, &job->env, err);
  if (status != LAKE_OK) return status;
  status = lake_namespace_open(job->env, job->options.url, lake_deadline_after_ms(job->env, job->options.deadline_ms),
                               &job->ns, err);
  if (status != LAKE_OK) return status;
  lake_namespace_info_get(job->ns, &job->info);
  status = schema_check(&job->info, err);
  if (status != LAKE_OK) return status;
  lake_parallel parallel = job->options.parallel;
  if (parallel.cp == 0) parallel.cp = job->info.mesh.c_count;
  status = lake_mpi_mesh_from_order(MPI_COMM_WORLD, job->options.mesh_order, &parallel, &job->mesh, &job->coords, err);
  if (status != LAKE_OK) return status;
  if (!lm_model_open(&job->model, job->options.shape, job->options.seed) ||
      (job->sums = calloc(job->model.param_count + SUM_COUNT, sizeof *job->sums)) == NULL)
    return lm_fail(err, LAKE_NOMEM, "no memory for a model of context %u, embed %u, hidden %u", job->options.shape.context,
                   job->options.shape.embed, job->options.shape.hidden);
  if (job->model.param_count > 100000000) return lm_fail(err, LAKE_INVALID, "the model is too large; lower --hidden");
  job->state.seed = job->options.seed;
  job->state.rate = job->options.rate;
  job->state.momentum = job->options.momentum;
  snprintf(job->state.uuid, sizeof job->state.uuid, "%s", job->info.uuid);
  return LAKE_OK;
}

/* Of the ranks that share coordinates the lowest one learns. */
static lake_status owner_find(trainer *job, lake_error *err) {
  uint32_t place = job->coords.d * job->mesh.c_count + job->coords.c;
  uint32_t *places = calloc((size_t)job->rank_count, sizeof *places);
  lake_status status = agree(job, places != NULL ? LAKE_OK : lm_fail(err, LAKE_NOMEM, "no memory"), err);
  if (status == LAKE_OK) {
    MPI_Allgather(&place, 1, MPI_UINT32_T, places, 1, MPI_UINT32_T, MPI_COMM_WORLD);
    int first = 0;
    while (places[first] != place) first++;
    job->owner = first == job->rank;
  }
  free(places);
  return status;
}

/* Rank 0 reads the newest checkpoint and gives it to all. Sets *resumed. */
static lake_status resume(trainer *job, bool *resumed, lake_error *err) {
  lake_status status = LAKE_OK;
  int found = 0;
  if (job->rank == 0 && job->options.ckpt_dir != NULL) {
    status = lm_checkpoint_load_newest(job->options.ckpt_dir, &job->state, &job->model, err);
    found = status == LAKE_OK;
    if (status == LAKE_NOTFOUND) status = LAKE_OK;
  }
  status = agree(job, status, err);
  if (status != LAKE_OK) return status;
  MPI_Bcast(&found, 1, MPI_INT, 0, MPI_COMM_WORLD);
  *resumed = found;
  if (!found) return LAKE_OK;
  MPI_Bcast(&job->state, (int)sizeof job->state, MPI_BYTE, 0, MPI_COMM_WORLD);
  MPI_Bcast(job->model.weights, (int)job->model.param_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  MPI_Bcast(job->model.momentum, (int)job->model.param_count, MPI_FLOAT, 0, MPI_COMM_WORLD);
  return LAKE_OK;
}

static lake_status group_open(trainer *job, bool resumed, lake_error *err) {
  lake_consumer_options options = LAKE_CONSUMER_OPTIONS_INIT;
  options.mesh = job->mesh;
  options.coords = job->coords;
  options.cursor = resumed ? job->state.cursor : NULL;
  lake_deadline deadline = lake_deadline_after_ms(job->env, job->options.deadline_ms);
  lake_status status = lake_mpi_group_open(MPI_COMM_WORLD, job->ns, &options, deadline, &job->group, err);
  if (status == LAKE_TIMEOUT) {
    /* A rank that did not come would not come to an agreement either. */
    fprintf(stderr, "train_lm: %s\n", err->text);
    MPI_Abort(MPI_COMM_WORLD, lki_exit_code(status));
  }
  if (status != LAKE_OK) return agree(job, status, err);
  lake_consumer_cursor(lake_mpi_group_consumer(job->group), job->state.cursor);
  uint64_t row = 0, step = 0;
  status = lake_cursor_parse(job->ns, job->state.cursor, &row, &step, err);
  if (status == LAKE_OK) {
    /* The global batch is what it was written as, so a job's step is a step of the namespace on any mesh. */
    if (!resumed) job->state.step = step;
    if (job->state.step != step)
      status = lm_fail(err, LAKE_CORRUPT, "the checkpoint stands at step %" PRIu64 " but its cursor at step %" PRIu64
                       "; remove it and resume from the one before", job->state.step, step);
  }
  return agree(job, status, err);
}

/* --- one step --------------------------------------------------------------------------------------------------- */

/* The rows' share of the data digest: each row's bytes under its place in the whole stream, added up, so that the sum
 * tells whether the same rows were used at the same places, whichever rank used them. */
static uint64_t row_digest(const trainer *job, const lake_batch *batch, uint32_t r, uint32_t rows) {
  uint64_t row = (batch->step * job->mesh.d_count + job->coords.d) * rows + r;
  uint64_t digest = row * job->mesh.c_count + job->coords.c;
  for (uint32_t t = 0; t < batch->tensor_count; t++) {
    size_t bytes = batch->tensors[t].bytes / rows;
    digest = XXH3_64bits_withSeed((const unsigned char *)batch->tensors[t].data + r * bytes, bytes, digest);
  }
  return digest;
}

static lake_status learn(trainer *job, const lake_batch *batch, lake_error *err) {
  const lake_tensor *field[FIELD_COUNT] = {NULL};
  for (uint32_t t = 0; t < batch->tensor_count; t++)
    for (int f = 0; f < FIELD_COUNT; f++)
      if (strcmp(batch->tensors[t].name, fields[f].name) == 0) field[f] = &batch->tensors[t];
  uint32_t rows = (uint32_t)field[TOKENS]->shape[0];
  size_t width = (size_t)field[TOKENS]->shape[1];
  uint64_t *others = job->sums + job->model.param_count;
  lm_sums sums = {job->sums, 0, 0};
  for (uint32_t r = 0; r < rows; r++) {
    size_t at = r * width;
    lm_row row = {(const uint16_t *)field[TOKENS]->data + at, (const uint16_t *)field[LABELS]->data + at,
                  (const int32_t *)field[SEGMENT_IDS]->data + at, (const uint8_t *)field[LOSS_MASK]->data + at,
                  (uint32_t)width};
    if (!lm_model_row(&job->model, &row, &sums))
      return lm_fail(err, LAKE_INTERNAL, "rank %d, step %" PRIu64 ": the loss or a token is out of range; lower --lr",
                     job->rank, batch->step);
    others[SUM_ROWS_DIGEST] += row_digest(job, batch, r, rows);
  }
  others[SUM_LOSS] = sums.loss;
  others[SUM_TOKENS] = sums.token_count;
  return LAKE_OK;
}

/* The next slice. Waits in short pieces, to hear a signal. CANCELED: told to stop while waiting. */
static lake_status next_slice(trainer *job, lake_batch *batch, lake_error *err) {
  uint64_t end_ns = lake_deadline_after_ms(job->env, job->options.deadline_ms).at_ns;
  for (;;) {
    lake_deadline piece = lake_deadline_after_ms(job->env, 250);
    if (piece.at_ns > end_ns) piece.at_ns = end_ns;
    lake_status status = lake_consumer_next(lake_mpi_group_consumer(job->group), piece, batch, err);
    if (status != LAKE_TIMEOUT) return status;
    if (stop_asked) return LAKE_CANCELED;
    if (now_ns(job) >= end_ns) return status;
  }
}

/* Reads and learns one slice and adds all ranks' results up into job->sums. */
static lake_status step_sum(trainer *job, double *wait_ms, lake_error *err) {
  uint64_t *others = job->sums + job->model.param_count;
  memset(job->sums, 0, (job->model.param_count + SUM_COUNT) * sizeof *job->sums);
  lake_batch batch;
  memset(&batch, 0, sizeof batch);
  uint64_t begin_ns = now_ns(job);
  lake_status status = next_slice(job, &batch, err);
  double waited_ms = (double)(now_ns(job) - begin_ns) / 1e6;
  if (status == LAKE_OK && batch.step != job->state.step)
    status = lm_fail(err, LAKE_INTERNAL, "rank %d got step %" PRIu64 " where %" PRIu64 " is due", job->rank, batch.step,
                     job->state.step);
  if (status == LAKE_OK && job->owner) status = learn(job, &batch, err);
  lake_consumer_release(lake_mpi_group_consumer(job->group), &batch);
  others[SUM_GOT] = status == LAKE_OK;
  others[SUM_ENDED] = status == LAKE_END;
  others[SUM_FAILED] = status != LAKE_OK && status != LAKE_END && status != LAKE_CANCELED;
  others[SUM_STOP] = stop_asked != 0;
  MPI_Allreduce(MPI_IN_PLACE, job->sums, (int)(job->model.param_count + SUM_COUNT), MPI_UINT64_T, MPI_SUM,
                MPI_COMM_WORLD);
  MPI_Reduce(&waited_ms, wait_ms, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  return others[SUM_FAILED] > 0 ? agree(job, status == LAKE_END || status == LAKE_CANCELED ? LAKE_OK : status, err)
                                : LAKE_OK;
}

/* All ranks have the sums: move the model and the cursor on. */
static void step_apply(trainer *job, double wait_ms) {
  const uint64_t *others = job->sums + job->model.param_count;
  lm_sums sums = {job->sums, others[SUM_LOSS], others[SUM_TOKENS]};
  lm_model_update(&job->model, &sums, (float)job->options.rate, (float)job->options.momentum);
  job->state.data_digest = XXH3_64bits_withSeed(&others[SUM_ROWS_DIGEST], sizeof(uint64_t), job->state.data_digest);
  job->state.loss = lm_sums_loss(&sums);
  uint64_t step = job->state.step++;
  lake_consumer_cursor(lake_mpi_group_consumer(job->group), job->state.cursor);
  if (job->rank != 0) return;
  if (job->options.log_every > 0 && (step + 1) % job->options.log_every == 0) {
    printf("step %" PRIu64 "  loss %.4f  wait %.1f ms\n", step + 1, job->state.loss, wait_ms);
    fflush(stdout);
  }
  if (!lm_report_step(&job->report, step, job->state.loss, wait_ms))
    fprintf(stderr, "train_lm: warning: --csv %s lacks step %" PRIu64 ": it cannot be written\n", job->options.csv, step);
}

/* --- checkpoints ------------------------------------------------------------------------------------------------ */

static void pin_name(char name[32], uint64_t step) { snprintf(name, 32, "step-%08" PRIu64, step); }

/* The pin goes before the file: a file without a pin is found and dropped at the next checkpoint, a pin without a file
 * would keep data for ever. */
static bool forget_pin(void *ctx, uint64_t step) {
  trainer *job = ctx;
  char name[32];
  lake_error err = LAKE_ERROR_INIT;
  pin_name(name, step);
  lake_status status = lake_pin_remove(job->ns, job->options.group, name,
                                       lake_deadline_after_ms(job->env, job->options.deadline_ms), &err);
  if (status != LAKE_OK) fprintf(stderr, "train_lm: warning: pin %s stays for now: %s\n", name, err.text);
  return status == LAKE_OK;
}

/* Without its pin a checkpoint is still guarded by the older ones, which stand below it; so these stay, too. */
static bool pin(trainer *job) {
  char name[32];
  lake_error err = LAKE_ERROR_INIT;
  pin_name(name, job->state.step);
  lake_status status = lake_mpi_pin_create(job->group, job->options.group, name,
                                           lake_deadline_after_ms(job->env, job->options.deadline_ms), &err);
  if (status != LAKE_OK && job->rank == 0) fprintf(stderr, "train_lm: warning: no pin %s: %s\n", name, err.text);
  return status == LAKE_OK;
}

static lake_status checkpoint(trainer *job, lake_error *err) {
  if (job->options.ckpt_dir == NULL || job->saved_step == job->state.step) return LAKE_OK;
  lake_status status = LAKE_OK;
  if (job->rank == 0) status = lm_checkpoint_save(job->options.ckpt_dir, &job->state, &job->model, err);
  status = agree(job, status, err);
  if (status != LAKE_OK) return status;
  job->saved_step = job->state.step;
  if (pin(job) && job->rank == 0)
    lm_checkpoint_prune(job->options.ckpt_dir, job->saved_step, job->options.ckpt_keep, forget_pin, job);
  return LAKE_OK;
}

/* --- the run ---------------------------------------------------------------------------------------------------- */

static lake_status train(trainer *job, lake_error *err) {
  const uint64_t *others = job->sums + job->model.param_count;
  for (;;) {
    if (job->options.step_count > 0 && job->state.step >= job->options.step_count) break;
    double wait_ms = 0;
    lake_status status = step_sum(job, &wait_ms, err);
    if (status != LAKE_OK) return status;
    uint64_t all = (uint64_t)job->rank_count;
    if (others[SUM_GOT] == all) {
      step_apply(job, wait_ms);
    } else if (others[SUM_ENDED] == all) {
      break;
    } else if (others[SUM_STOP] == 0) {
      lm_fail(err, LAKE_INTERNAL, "step %" PRIu64 ": the stream ended on %" PRIu64 " of %" PRIu64 " ranks", job->state.step,
              others[SUM_ENDED], all);
      return agree(job, LAKE_INTERNAL, err);
    }
    /* Told to stop: a step that not all ranks have is left for the next run, whose cursor is before it. */
    if (others[SUM_STOP] > 0) {
      if (job->rank == 0) printf("stopping at step %" PRIu64 " as told by a signal\n", job->state.step);
      break;
    }
    if (job->state.step % job->options.ckpt_every == 0) status = checkpoint(job, err);
    if (status != LAKE_OK) return status;
  }
  return checkpoint(job, err);
}

static void summary_print(FILE *to, trainer *job, const uint64_t bytes[2], const char *between) {
  double seconds = (double)(now_ns(job) - job->begin_ns) / 1e9;
  uint64_t weights = XXH3_64bits(job->model.weights, job->model.param_count * sizeof(float));
  fprintf(to, "steps=%" PRIu64 "%sloss=%.6f%sweights=%016" PRIx64 "%sdata=%016" PRIx64 "%s", job->state.step, between,
          job->state.loss, between, weights, between, job->state.data_digest, between);
  fprintf(to, "steps_per_s=%.2f%swait_p50_ms=%.3f%swait_p95_ms=%.3f%s",
          seconds > 0 ? (double)(job->state.step - job->begin_step) / seconds : 0.0, between,
          lm_report_wait_ms(&job->report, 0.50), between, lm_report_wait_ms(&job->report, 0.95), between);
  fprintf(to, "read_bytes=%" PRIu64 "%sdelivered_bytes=%" PRIu64 "%sread_per_delivered=%.4f\n", bytes[0], between,
          bytes[1], between, bytes[1] > 0 ? (double)bytes[0] / (double)bytes[1] : 0.0);
}

static lake_status finish(trainer *job, lake_error *err) {
  lake_store_stats store;
  lake_consumer_stats consumer;
  lake_namespace_stats_get(job->ns, &store);
  lake_consumer_stats_get(lake_mpi_group_consumer(job->group), &consumer);
  uint64_t own[2] = {store.read_bytes, consumer.stored_bytes}, bytes[2] = {0, 0};
  MPI_Reduce(own, bytes, 2, MPI_UINT64_T, MPI_SUM, 0, MPI_COMM_WORLD);
  lake_status status = LAKE_OK;
  if (job->rank == 0) {
    printf("final: ");
    summary_print(stdout, job, bytes, " ");
    fflush(stdout);
    FILE *file = job->options.summary != NULL ? fopen(job->options.summary, "w") : NULL;
    if (file != NULL) summary_print(file, job, bytes, "\n");
    if (job->options.summary != NULL && (file == NULL || fclose(file) != 0))
      status = lm_fail(err, LAKE_UNAVAILABLE, "--summary %.300s: %s", job->options.summary, strerror(errno));
  }
  return agree(job, status, err);
}

static lake_status run(trainer *job) {
  lake_error err = LAKE_ERROR_INIT;
  bool resumed = false;
  lake_status status = agree(job, open_local(job, &err), &err);
  if (status == LAKE_OK) status = owner_find(job, &err);
  if (status == LAKE_OK) status = resume(job, &resumed, &err);
  if (status == LAKE_OK) status = group_open(job, resumed, &err);
  if (status == LAKE_OK) {
    if (job->rank == 0) status = lm_report_open(&job->report, job->options.csv, job->state.step, &err);
    status = agree(job, status, &err);
  }
  if (status != LAKE_OK) return status;
  job->begin_ns = now_ns(job);
  job->begin_step = job->state.step;
  if (job->rank == 0) {
    printf("%s at step %" PRIu64 ": %d ranks, mesh %ux%u, %zu parameters\n", resumed ? "resuming" : "starting",
           job->state.step, job->rank_count, job->mesh.d_count, job->mesh.c_count, job->model.param_count);
    fflush(stdout);
  }
  /* The crash may have come between checkpoint and pin; and a first run is guarded from its first step on. */
  if (resumed) {
    job->saved_step = job->state.step;
    pin(job);
  } else {
    status = checkpoint(job, &err);
  }
  if (status == LAKE_OK) status = train(job, &err);
  return status == LAKE_OK ? finish(job, &err) : status;
}

int main(int argc, char **argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  static trainer job; /* zeroed */
  job.saved_step = UINT64_MAX;
  MPI_Comm_rank(MPI_COMM_WORLD, &job.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &job.rank_count);
  struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
  sigaction(SIGTERM, &action, NULL);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGUSR1, &action, NULL);

  lake_error err = LAKE_ERROR_INIT;
  lake_status status = lm_options_parse(argc, argv, &job.options, &err);
  if (job.options.help) {
    if (job.rank == 0) fputs(lm_options_help(), stdout);
  } else {
    status = agree(&job, status, &err);
    if (status == LAKE_OK) status = run(&job);
  }
  lm_report_close(&job.report);
  lake_mpi_group_close(job.group);
  lake_namespace_close(job.ns);
  lake_env_close(job.env);
  free(job.sums);
  lm_model_close(&job.model);
  MPI_Finalize();
  return lki_exit_code(status);
}

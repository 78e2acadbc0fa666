/* Reading the command line with getopt_long. */
#include "lm_options.h"
#include "lm_checkpoint.h"
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

static const char help_text[] =
    "usage: mpirun -n RANKS train_lm --url URL [options]\n"
    "Train a small byte-level language model, data-parallel, on the text that `lake feed text` wrote.\n"
    "\n"
    "  --url URL           namespace to read\n"
    "  --steps N           stop before step N (default: at the end of the sealed stream)\n"
    "  --ckpt-dir DIR      write checkpoints here, and resume from the newest complete one\n"
    "  --ckpt-every K      steps between checkpoints (default 50)\n"
    "  --ckpt-keep N       checkpoints kept (default 3)\n"
    "  --group NAME        consumer group in whose name checkpoints are pinned (default \"default\")\n"
    "  --mesh-order ORDER  which rank is where, the fastest first (default tp-cp-ep-dp-pp)\n"
    "  --tp N --cp N --ep N --dp N --pp N\n"
    "                      sizes of the parallel dimensions (default: cp as in the namespace, dp what remains, others 1)\n"
    "  --context N --embed N --hidden N\n"
    "                      sizes of the model (default 8, 16, 64)\n"
    "  --lr X --momentum X SGD (default 0.3, 0.9)\n"
    "  --seed N            of the first weights (default 1)\n"
    "  --csv FILE          step,loss,wait_ms,run for each step; a resumed run goes on in it\n"
    "  --summary FILE      key=value lines about the run\n"
    "  --log-every N       steps between lines of progress (default 20; 0: none)\n"
    "  --deadline-ms N     longest wait for a step's data (default 60000)\n"
    "  --help\n"
    "\n"
    "SIGTERM, SIGINT and SIGUSR1: finish the step, write a checkpoint, exit 0.\n"
    "Exit codes: 0 fine, 1 other, 2 usage, 3 not found, 4 conflict, 5 transient, 6 corrupt, 7 timeout, 8 credentials,\n"
    "9 unsupported.\n";

enum { URL = 1, STEPS, CKPT_DIR, CKPT_EVERY, CKPT_KEEP, GROUP, MESH_ORDER, TP, CP, EP, DP, PP, CONTEXT, EMBED, HIDDEN,
       LR, MOMENTUM, SEED, CSV, SUMMARY, LOG_EVERY, DEADLINE_MS, HELP };

static const struct option long_options[] = {
    {"url", 1, NULL, URL}, {"steps", 1, NULL, STEPS}, {"ckpt-dir", 1, NULL, CKPT_DIR},
    {"ckpt-every", 1, NULL, CKPT_EVERY}, {"ckpt-keep", 1, NULL, CKPT_KEEP}, {"group", 1, NULL, GROUP},
    {"mesh-order", 1, NULL, MESH_ORDER}, {"tp", 1, NULL, TP}, {"cp", 1, NULL, CP}, {"ep", 1, NULL, EP},
    {"dp", 1, NULL, DP}, {"pp", 1, NULL, PP}, {"context", 1, NULL, CONTEXT}, {"embed", 1, NULL, EMBED},
    {"hidden", 1, NULL, HIDDEN}, {"lr", 1, NULL, LR}, {"momentum", 1, NULL, MOMENTUM}, {"seed", 1, NULL, SEED},
    {"csv", 1, NULL, CSV}, {"summary", 1, NULL, SUMMARY}, {"log-every", 1, NULL, LOG_EVERY},
    {"deadline-ms", 1, NULL, DEADLINE_MS}, {"help", 0, NULL, HELP}, {NULL, 0, NULL, 0}};

static const char *option_name(int code) {
  for (const struct option *o = long_options; o->name != NULL; o++)
    if (o->val == code) return o->name;
  return "?";
}

static lake_status whole(int code, uint64_t min, uint64_t max, uint64_t *out, lake_error *err) {
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(optarg, &end, 10);
  if (errno != 0 || end == optarg || *end != '\0' || *optarg == '-' || value < min || value > max)
    return lm_fail(err, LAKE_INVALID, "--%s %.60s: a whole number from %llu to %llu is wanted", option_name(code), optarg,
                   (unsigned long long)min, (unsigned long long)max);
  *out = value;
  return LAKE_OK;
}

static lake_status small(int code, uint32_t min, uint32_t max, uint32_t *out, lake_error *err) {
  uint64_t value = 0;
  lake_status status = whole(code, min, max, &value, err);
  if (status == LAKE_OK) *out = (uint32_t)value;
  return status;
}

static lake_status real(int code, double min, double max, double *out, lake_error *err) {
  char *end = NULL;
  double value = strtod(optarg, &end);
  if (end == optarg || *end != '\0' || !(value >= min && value <= max))
    return lm_fail(err, LAKE_INVALID, "--%s %.60s: a number from %g to %g is wanted", option_name(code), optarg, min, max);
  *out = value;
  return LAKE_OK;
}

static lake_status take(int code, lm_options *options, lake_error *err) {
  switch (code) {
  case URL: options->url = optarg; return LAKE_OK;
  case STEPS: return whole(code, 1, UINT64_MAX, &options->step_count, err);
  case CKPT_DIR: options->ckpt_dir = optarg; return LAKE_OK;
  case CKPT_EVERY: return whole(code, 1, UINT64_MAX, &options->ckpt_every, err);
  case CKPT_KEEP: return small(code, 1, 1000, &options->ckpt_keep, err);
  case GROUP: options->group = optarg; return LAKE_OK;
  case MESH_ORDER: options->mesh_order = optarg; return LAKE_OK;
  case TP: return small(code, 1, 65536, &options->parallel.tp, err);
  case CP: return small(code, 1, 65536, &options->parallel.cp, err);
  case EP: return small(code, 1, 65536, &options->parallel.ep, err);
  case DP: return small(code, 1, 65536, &options->parallel.dp, err);
  case PP: return small(code, 1, 65536, &options->parallel.pp, err);
  case CONTEXT: return small(code, 1, LM_CONTEXT_MAX, &options->shape.context, err);
  case EMBED: return small(code, 1, 1024, &options->shape.embed, err);
  case HIDDEN: return small(code, 1, 8192, &options->shape.hidden, err);
  case LR: return real(code, 0, 1000, &options->rate, err);
  case MOMENTUM: return real(code, 0, 0.9999, &options->momentum, err);
  case SEED: return whole(code, 0, UINT64_MAX, &options->seed, err);
  case CSV: options->csv = optarg; return LAKE_OK;
  case SUMMARY: options->summary = optarg; return LAKE_OK;
  case LOG_EVERY: return whole(code, 0, UINT64_MAX, &options->log_every, err);
  case DEADLINE_MS: return whole(code, 1, UINT32_MAX, &options->deadline_ms, err);
  case HELP: options->help = true; return LAKE_OK;
  default: return LAKE_INTERNAL;
  }
}

lake_status lm_options_parse(int argc, char **argv, lm_options *options, lake_error *err) {
  *options = (lm_options){.group = "default", .ckpt_every = 50, .ckpt_keep = 3, .shape = {8, 16, 64}, .rate = 0.3,
                          .momentum = 0.9, .seed = 1, .deadline_ms = 60000, .log_every = 20};
  opterr = 0;
  for (int code; (code = getopt_long(argc, argv, "h", long_options, NULL)) != -1;) {
    if (code == 'h') code = HELP;
    if (code == '?')
      return lm_fail(err, LAKE_INVALID, "option %.100s is unknown or lacks its value; see --help", argv[optind - 1]);
    lake_status status = take(code, options, err);
    if (status != LAKE_OK) return status;
  }
  if (options->help) return LAKE_OK;
  if (optind < argc) return lm_fail(err, LAKE_INVALID, "unexpected word %.100s; see --help", argv[optind]);
  if (options->url == NULL) return lm_fail(err, LAKE_INVALID, "--url is missing; see --help");
  return LAKE_OK;
}

const char *lm_options_help(void) { return help_text; }

/* train_lm's command line. Pure but for getopt's own state. */
#ifndef LM_OPTIONS_H
#define LM_OPTIONS_H

#include "lm_model.h"
#include <lakestream/mpi.h>

typedef struct lm_options {
  const char *url;
  const char *group;      /* pins are written in this group's name */
  uint64_t step_count;    /* stop before this step; 0: at the end of the sealed stream */
  const char *ckpt_dir;   /* NULL: no checkpoints */
  uint64_t ckpt_every;    /* steps */
  uint32_t ckpt_keep;     /* checkpoints kept */
  const char *mesh_order; /* NULL: the library's default */
  lake_parallel parallel; /* cp 0: the namespace's C; dp 0: what remains */
  lm_shape shape;
  double rate, momentum;
  uint64_t seed;
  const char *csv;     /* NULL: none */
  const char *summary; /* NULL: none */
  uint64_t deadline_ms;
  uint64_t log_every; /* steps; 0: none */
  bool help;
} lm_options;

/* INVALID: one line of text. Texts in *options point into argv. */
lake_status lm_options_parse(int argc, char **argv, lm_options *options, lake_error *err);
const char *lm_options_help(void);

#endif

/* The text feeder: input -> packer -> producer, from wherever this producer id stopped before. One thread. */
#ifndef LKI_FEED_TEXT_H
#define LKI_FEED_TEXT_H

#include "cli.h"

typedef struct lki_feed_text_options {
  const char *url;
  const char *const *inputs;
  size_t input_count;
  const char *id;
  uint64_t index, count;
  uint32_t seq_len, rows; /* 0: the namespace's, or 1 row where it is created */
  lake_mesh mesh;         /* {0,0}: the namespace's, or 1x1 where it is created */
  uint32_t codec;
  bool create;
  const char *field;
  bool invalid_replace;
  uint64_t document_bytes_max;
  bool tail_drop;
  uint64_t pass_count;    /* over the input; 0: for ever */
  double rate;            /* TGBs a second; 0: as fast as it goes */
  uint64_t limit_tgb_count; /* by this process; 0: no limit */
  uint64_t max_tgb_count;   /* by this id in all; 0: no limit */
  const char *stats_path;
} lki_feed_text_options;

/* Feeds until the end, a limit, or a signal to drain (SIGTERM, SIGINT, SIGUSR1: a second SIGTERM or SIGINT kills). */
lake_status lki_feed_text(lki_cli *cli, const lki_feed_text_options *options, lake_error *err);

#endif

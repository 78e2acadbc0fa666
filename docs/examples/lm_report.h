/* What train_lm tells: a line of CSV per step, and a summary at the end. Only rank 0 uses it. One thread. */
#ifndef LM_REPORT_H
#define LM_REPORT_H

#include <lakestream/base.h>
#include <stdio.h>

typedef struct lm_report {
  FILE *csv;         /* NULL: none wanted */
  unsigned run;      /* which incarnation writes: 1 for the first */
  double *waits_ms;  /* of this incarnation's steps */
  size_t wait_count, wait_capacity;
} lm_report;

/* Opens the CSV (path NULL: none) to go on at `step`: lines of steps from there on are dropped, since a killed run may
 * have got further than its last checkpoint. */
lake_status lm_report_open(lm_report *report, const char *path, uint64_t step, lake_error *err);
void lm_report_close(lm_report *report);
/* Adds one step; false: the CSV cannot be written. */
bool lm_report_step(lm_report *report, uint64_t step, double loss, double wait_ms);
/* The wait below which the given share of the steps stayed; 0 when there was none. Sorts waits_ms. */
double lm_report_wait_ms(lm_report *report, double share);

#endif

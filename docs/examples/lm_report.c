/* The CSV and the waits. */
#include "lm_report.h"
#include "lm_checkpoint.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CSV_HEAD "step,loss,wait_ms,run\n"

static lake_status fail_errno(lake_error *err, const char *path) {
  return lm_fail(err, LAKE_UNAVAILABLE, "--csv %.300s: %s; free space or choose another file", path, strerror(errno));
}

/* Copies the lines before `step`, which are whole lines of our own; anything else is dropped. */
static void keep_lines(FILE *from, FILE *to, uint64_t step, unsigned *run) {
  char line[256];
  while (fgets(line, sizeof line, from) != NULL) {
    unsigned long long line_step;
    double loss, wait_ms;
    unsigned line_run;
    if (strchr(line, '\n') == NULL || sscanf(line, "%llu,%lf,%lf,%u", &line_step, &loss, &wait_ms, &line_run) != 4)
      continue;
    *run = line_run >= *run ? line_run + 1 : *run;
    if (line_step < step) fputs(line, to);
  }
}

lake_status lm_report_open(lm_report *report, const char *path, uint64_t step, lake_error *err) {
  memset(report, 0, sizeof *report);
  report->run = 1;
  if (path == NULL) return LAKE_OK;
  char temporary[4200];
  if ((size_t)snprintf(temporary, sizeof temporary, "%s.tmp", path) >= sizeof temporary)
    return lm_fail(err, LAKE_INVALID, "--csv: the path is too long");
  FILE *to = fopen(temporary, "w");
  if (to == NULL) return fail_errno(err, temporary);
  fputs(CSV_HEAD, to);
  FILE *from = fopen(path, "r");
  if (from != NULL) {
    keep_lines(from, to, step, &report->run);
    fclose(from);
  }
  if (fflush(to) != 0 || rename(temporary, path) != 0) {
    lake_status status = fail_errno(err, path);
    fclose(to);
    remove(temporary);
    return status;
  }
  report->csv = to; /* the open file keeps its place at the end, now under the right name */
  return LAKE_OK;
}

void lm_report_close(lm_report *report) {
  if (report->csv != NULL) fclose(report->csv);
  free(report->waits_ms);
  memset(report, 0, sizeof *report);
}

bool lm_report_step(lm_report *report, uint64_t step, double loss, double wait_ms) {
  if (report->wait_count == report->wait_capacity) {
    size_t capacity = report->wait_capacity > 0 ? 2 * report->wait_capacity : 1024;
    double *grown = realloc(report->waits_ms, capacity * sizeof *grown);
    if (grown != NULL) report->waits_ms = grown, report->wait_capacity = capacity;
  }
  if (report->wait_count < report->wait_capacity) report->waits_ms[report->wait_count++] = wait_ms;
  if (report->csv == NULL) return true;
  fprintf(report->csv, "%llu,%.6f,%.3f,%u\n", (unsigned long long)step, loss, wait_ms, report->run);
  return fflush(report->csv) == 0;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y ? 1 : 0;
}

double lm_report_wait_ms(lm_report *report, double share) {
  if (report->wait_count == 0) return 0;
  qsort(report->waits_ms, report->wait_count, sizeof *report->waits_ms, ascending);
  size_t at = (size_t)(share * (double)report->wait_count);
  return report->waits_ms[at < report->wait_count ? at : report->wait_count - 1];
}

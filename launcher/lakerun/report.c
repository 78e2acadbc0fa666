/* The end of a run, for people and for machines. Reads, decides nothing. */
#include "base/error.h"
#include "base/json.h"
#include "supervise.h"
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

static const char *const state_names[] = {"waiting",     "running",    "finished", "failed", "drained",
                                          "not drained", "terminated", "killed",   "stopped"};

/* The worst state of a role's units speaks for the role. */
static lki_unit_state role_state(const lki_run *run, const lki_role *role) {
  static const int badness[] = {[LKI_UNIT_WAITING] = 0,    [LKI_UNIT_RUNNING] = 0, [LKI_UNIT_FINISHED] = 1,
                                [LKI_UNIT_DRAINED] = 2,    [LKI_UNIT_STOPPED] = 3, [LKI_UNIT_UNDRAINED] = 4,
                                [LKI_UNIT_TERMINATED] = 5, [LKI_UNIT_KILLED] = 6,  [LKI_UNIT_FAILED] = 7};
  lki_unit_state worst = LKI_UNIT_WAITING;
  for (size_t i = 0; i < run->unit_count; i++)
    if (run->units[i].role == role && badness[run->units[i].state] > badness[worst])
      worst = run->units[i].state;
  return worst;
}

static void reason_text(const lki_run *run, char *dst, size_t bytes) {
  switch (run->reason) {
  case LKI_REASON_DONE:
    if (run->job->done_when < run->job->role_count)
      snprintf(dst, bytes, "%s finished", run->job->roles[run->job->done_when].name);
    else
      snprintf(dst, bytes, "finished");
    break;
  case LKI_REASON_SIGNAL:
    snprintf(dst, bytes, "stopped by SIG%s", lki_signal_name(run->stop_signal));
    break;
  case LKI_REASON_FAILED:
    snprintf(dst, bytes, "%s failed", run->stop_unit->label);
    break;
  case LKI_REASON_DEADLINE:
    snprintf(dst, bytes, "deadline passed");
    break;
  default:
    snprintf(dst, bytes, "could not be supervised");
    break;
  }
}

static void failure_text(const lki_role *role, const lki_failure *failure, char *dst, size_t bytes) {
  char end[40], who[64];
  if (!failure->any) {
    snprintf(dst, bytes, "-");
    return;
  }
  lki_status_text(failure->status, end, sizeof end);
  if (role->kind == LKI_ROLE_PROCESS)
    snprintf(who, sizeof who, "%s.%zu", role->name, failure->index);
  else if (failure->rank >= 0)
    snprintf(who, sizeof who, "%s.%ld", role->name, failure->rank);
  else
    snprintf(who, sizeof who, "%s", role->name);
  snprintf(dst, bytes, "%s %s, attempt %" PRIu64 ", after %.1f s", who, end, failure->attempt,
           (double)failure->ran_ms / 1000);
}

void lki_report_print(lki_run *run) {
  char text[256], line[512];
  reason_text(run, text, sizeof text);
  lki_sink_say(&run->err, "%s: %s after %.1f s, exit %d", run->job->name, text,
               (double)(run->end_ns - run->begin_ns) / 1e9, lki_run_exit_code(run));
  lki_sink_say(&run->err, "%-16s %7s %8s %8s  %-15s  %s", "role", "started", "restarts", "failures", "state",
               "first failure");
  for (size_t i = 0; i < run->job->role_count; i++) {
    const lki_role *role = &run->job->roles[i];
    const lki_record *record = &run->records[i];
    failure_text(role, &record->first, text, sizeof text);
    snprintf(line, sizeof line, "%-16s %7" PRIu64 " %8" PRIu64 " %8" PRIu64 "  %-15s  %s", role->name,
             record->starts, record->restarts, record->failures, state_names[role_state(run, role)], text);
    lki_sink_say(&run->err, "%s", line);
  }
}

static void add_end(lki_json *object, int status) {
  if (WIFEXITED(status)) {
    lki_json_add_number(object, "exit_code", WEXITSTATUS(status));
    lki_json_add_null(object, "signal");
  } else {
    lki_json_add_null(object, "exit_code");
    lki_json_add_string(object, "signal", lki_signal_name(WTERMSIG(status)));
  }
  lki_json_add_number(object, "code", lki_status_code(status));
}

static void add_failure(lki_json *role, const lki_failure *failure) {
  if (!failure->any) {
    lki_json_add_null(role, "first_failure");
    return;
  }
  lki_json *object = lki_json_add_object(role, "first_failure");
  time_t seconds = (time_t)(failure->wall_ns / 1000000000);
  struct tm tm;
  char at[40] = "";
  if (gmtime_r(&seconds, &tm) != NULL) strftime(at, sizeof at, "%Y-%m-%dT%H:%M:%SZ", &tm);
  lki_json_add_number(object, "index", (double)failure->index);
  if (failure->rank >= 0)
    lki_json_add_number(object, "rank", (double)failure->rank);
  else
    lki_json_add_null(object, "rank");
  lki_json_add_number(object, "attempt", (double)failure->attempt);
  add_end(object, failure->status);
  lki_json_add_number(object, "after_ms", (double)failure->ran_ms);
  lki_json_add_string(object, "at", at);
}

static void add_role(const lki_run *run, lki_json *roles, size_t which) {
  const lki_role *role = &run->job->roles[which];
  const lki_record *record = &run->records[which];
  lki_json *object = lki_json_add_object(roles, role->name);
  lki_json_add_string(object, "kind", role->kind == LKI_ROLE_MPI ? "mpi" : "process");
  lki_json_add_number(object, "count", (double)role->count);
  lki_json_add_number(object, "started", (double)record->starts);
  lki_json_add_number(object, "restarts", (double)record->restarts);
  lki_json_add_number(object, "failures", (double)record->failures);
  lki_json_add_string(object, "state", state_names[role_state(run, role)]);
  add_failure(object, &record->first);
  lki_json *units = lki_json_add_array(object, "units");
  for (size_t i = 0; i < run->unit_count; i++) {
    const lki_unit *unit = &run->units[i];
    if (unit->role != role) continue;
    lki_json *item = lki_json_add_object(units, NULL);
    lki_json_add_number(item, "index", (double)unit->index);
    lki_json_add_string(item, "state", state_names[unit->state]);
    lki_json_add_number(item, "attempt", (double)unit->attempt);
    if (unit->ended)
      add_end(lki_json_add_object(item, "last_end"), unit->last_status);
    else
      lki_json_add_null(item, "last_end");
  }
}

lake_status lki_report_json(const lki_run *run, lake_buffer *out, lake_error *err) {
  char text[128];
  lki_json *json = lki_json_new_object();
  if (json == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory for the summary");
  reason_text(run, text, sizeof text);
  lki_json_add_string(json, "job", run->job->name);
  lki_json_add_number(json, "exit_code", lki_run_exit_code(run));
  lki_json_add_string(json, "reason", text);
  lki_json_add_number(json, "elapsed_ms", (double)((run->end_ns - run->begin_ns) / 1000000));
  lki_json *roles = lki_json_add_object(json, "roles");
  for (size_t i = 0; i < run->job->role_count; i++) add_role(run, roles, i);
  lake_status s = lki_json_print(json, true, out, err);
  lki_json_free(json);
  return s;
}

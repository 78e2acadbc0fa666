/* One unit's life: starting an attempt under a keeper, and deciding what its end means. */
#include "base/error.h"
#include "keeper.h"
#include "plan.h"
#include "supervise.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

int lki_status_code(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void lki_status_text(int status, char *dst, size_t bytes) {
  if (WIFEXITED(status))
    snprintf(dst, bytes, "exit %d", WEXITSTATUS(status));
  else
    snprintf(dst, bytes, "signal %s", lki_signal_name(WTERMSIG(status)));
}

lake_status lki_unit_init(lki_run *run, lki_unit *unit, const lki_role *role, size_t index, lake_error *err) {
  size_t ranks = role->kind == LKI_ROLE_MPI ? (size_t)role->count : 0;
  long number = ranks > 0 ? -1 : (long)index;
  size_t role_index = (size_t)(role - run->job->roles);
  memset(unit, 0, sizeof *unit);
  unit->role = role;
  unit->record = &run->records[role_index];
  unit->index = index;
  unit->control = -1;
  if (number < 0)
    snprintf(unit->label, sizeof unit->label, "%s", role->name);
  else
    snprintf(unit->label, sizeof unit->label, "%s.%zu", role->name, index);
  if (!lki_stream_init(&unit->out, &run->out, role->name, (unsigned)role_index, '|', number, ranks) ||
      !lki_stream_init(&unit->err, &run->err, role->name, (unsigned)role_index, '!', number, ranks))
    return lki_fail(err, LAKE_NOMEM, "%s: out of memory", unit->label);
  return LAKE_OK;
}

typedef struct ends {
  int control[2]; /* ours, the keeper's */
  int out[2];     /* read, write */
  int err[2];
} ends;

static void close_pair(int *pair) {
  if (pair[0] >= 0) close(pair[0]);
  if (pair[1] >= 0) close(pair[1]);
}

static bool open_ends(ends *e) {
  *e = (ends){{-1, -1}, {-1, -1}, {-1, -1}};
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, e->control) == 0 && pipe2(e->out, O_CLOEXEC) == 0 &&
      pipe2(e->err, O_CLOEXEC) == 0 && fcntl(e->out[0], F_SETFL, O_NONBLOCK) == 0 &&
      fcntl(e->err[0], F_SETFL, O_NONBLOCK) == 0)
    return true;
  int number = errno;
  close_pair(e->control);
  close_pair(e->out);
  close_pair(e->err);
  errno = number;
  return false;
}

/* In the forked process. Every descriptor of lakerun's must go: another keeper's control would otherwise
 * never reach its end. */
static _Noreturn void become_keeper(const lki_run *run, const lki_plan *plan, const ends *e) {
  const lki_role *role = plan->role;
  lki_keeper keeper = {
      .argv = plan->argv,
      .envp = plan->envp,
      .workdir = plan->remote ? NULL : run->job->workdir,
      .cpus = role->kind == LKI_ROLE_PROCESS && role->cpus != NULL && !plan->remote ? &role->cpu_set : NULL,
      .control = 3,
      .tell_pid = true,
      .relay = plan->remote,
      .as_signal = true,
      .drain_signal = role->drain_signal,
      /* mpirun must get the chance to end its ranks, which are in groups of their own. */
      .death_signal = role->kind == LKI_ROLE_MPI ? SIGTERM : SIGKILL,
      .term_ms = run->job->term_ms,
  };
  dup2(e->out[1], STDOUT_FILENO);
  dup2(e->err[1], STDERR_FILENO);
  if (e->control[1] == 3)
    fcntl(3, F_SETFD, 0);
  else
    dup2(e->control[1], 3);
  close_range(4, ~0U, 0);
  setrlimit(RLIMIT_NOFILE, &run->files);
  lki_keeper_run(&keeper);
}

static bool spawn(lki_run *run, lki_unit *unit, const lki_plan *plan, lake_error *err) {
  ends e;
  if (!open_ends(&e)) {
    lki_fail(err, LAKE_INTERNAL, "cannot make its pipes: %s", strerror(errno));
    return false;
  }
  pid_t pid = fork();
  if (pid == 0) become_keeper(run, plan, &e);
  if (pid < 0) {
    lki_fail(err, LAKE_INTERNAL, "cannot start a process: %s", strerror(errno));
    close_pair(e.control);
    close_pair(e.out);
    close_pair(e.err);
    return false;
  }
  close(e.control[1]);
  close(e.out[1]);
  close(e.err[1]);
  unit->pid = pid;
  unit->heard = false;
  unit->control = e.control[0];
  unit->out.fd = e.out[0];
  unit->err.fd = e.err[0];
  unit->err.failed_rank = -1;
  return true;
}

void lki_unit_start(lki_run *run, lki_unit *unit) {
  lake_error err = LAKE_ERROR_INIT;
  lki_arena arena;
  lki_plan plan;
  lki_arena_init(&arena, run->env);
  unit->state = LKI_UNIT_RUNNING;
  unit->started_ns = lki_now_ns(run->env);
  unit->record->starts++;
  if (unit->attempt > 0) unit->record->restarts++;
  bool started = lki_plan_build(&arena, run->job, unit->role, unit->index, unit->attempt, environ, &plan,
                                &err) == LAKE_OK &&
                 spawn(run, unit, &plan, &err);
  lki_arena_free(&arena);
  if (started) return;
  lki_sink_say(&run->err, "%s: %s", unit->label, err.text);
  lki_unit_ended(run, unit, W_EXITCODE(1, 0));
}

void lki_unit_tell(lki_unit *unit, char byte) {
  /* A keeper that cannot take a byte is past obeying; the next phase follows anyway. */
  if (unit->control >= 0 && send(unit->control, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

void lki_unit_hear(lki_run *run, lki_unit *unit) {
  int pid = 0;
  bool heard = unit->heard;
  unit->heard = true;
  if (heard || unit->control < 0 ||
      recv(unit->control, &pid, sizeof pid, MSG_DONTWAIT) != (ssize_t)sizeof pid)
    return;
  if (unit->attempt == 0)
    lki_sink_say(&run->err, "%s: started, pid %d", unit->label, pid);
  else
    lki_sink_say(&run->err, "%s: started again, pid %d, attempt %" PRIu64, unit->label, pid, unit->attempt);
}

/* Exponential, capped; between half and the whole of it, so that units that died together do not return
 * together. */
static uint64_t backoff_ms(const lki_run *run, const lki_unit *unit) {
  const lki_restart *restart = &unit->role->restart;
  uint64_t ms = restart->backoff_ms;
  for (uint64_t i = 1; i < unit->failures && ms < restart->backoff_ms_max; i++) ms *= 2;
  if (ms > restart->backoff_ms_max) ms = restart->backoff_ms_max;
  return ms - (uint64_t)(lki_random_unit(run->env) * (double)ms / 2);
}

static void start_later(lki_run *run, lki_unit *unit, uint64_t ms) {
  unit->state = LKI_UNIT_WAITING;
  unit->attempt++;
  unit->start_at_ns = lki_after_ns(run->env, ms * NS_PER_MS);
}

static void note_failure(lki_run *run, lki_unit *unit, int status, uint64_t ran_ms) {
  lki_failure failure = {.any = true,
                         .status = status,
                         .index = unit->index,
                         .rank = unit->err.failed_rank,
                         .attempt = unit->attempt,
                         .ran_ms = ran_ms,
                         .wall_ns = lki_wall_ns(run->env)};
  if (ran_ms >= unit->role->restart.healthy_ms) unit->failures = 0;
  if (unit->failures++ == 0) unit->row_first = failure;
  unit->record->failures++;
  if (!unit->record->first.any) unit->record->first = failure;
}

static void failed_for_good(lki_run *run, lki_unit *unit, int code) {
  unit->state = LKI_UNIT_FAILED;
  if (!unit->role->required || run->phase != LKI_PHASE_RUN) return;
  run->stop_unit = unit;
  run->stop_code = code;
  lki_run_stop(run, LKI_REASON_FAILED);
}

static void on_failure(lki_run *run, lki_unit *unit, int status, uint64_t ran_ms) {
  const lki_restart *restart = &unit->role->restart;
  char end[40], rank[48] = "";
  note_failure(run, unit, status, ran_ms);
  lki_status_text(status, end, sizeof end);
  if (unit->err.failed_rank >= 0) snprintf(rank, sizeof rank, ", rank %ld first", unit->err.failed_rank);
  char head[192];
  snprintf(head, sizeof head, "%s: %s%s after %.1f s", unit->label, end, rank, (double)ran_ms / 1000);
  int code = lki_status_code(status);
  if (restart->policy == LKI_POLICY_NEVER) {
    lki_sink_say(&run->err, "%s; its restart policy is never", head);
    failed_for_good(run, unit, code);
  } else if (WIFEXITED(status) && restart->fatal[code]) {
    lki_sink_say(&run->err, "%s; a retry cannot help that code (restart.fatal)", head);
    failed_for_good(run, unit, code);
  } else if (unit->failures > restart->limit) {
    lki_sink_say(&run->err, "%s; no restart is left of %" PRIu64 " in a row", head, restart->limit);
    failed_for_good(run, unit, lki_status_code(unit->row_first.status));
  } else {
    uint64_t ms = backoff_ms(run, unit);
    lki_sink_say(&run->err, "%s; starts again in %.1f s, restart %" PRIu64 " of %" PRIu64, head,
                 (double)ms / 1000, unit->failures, restart->limit);
    start_later(run, unit, ms);
  }
}

/* How it ended counts, not how far the stop had come: it may have ended by itself just before a KILL that was
 * on its way, and others can kill it too. Behind a shell or a remote shell a signal is an exit code. */
static void on_stopped(const lki_run *run, lki_unit *unit, int status) {
  int code = lki_status_code(status);
  if (run->phase == LKI_PHASE_DRAIN)
    unit->state = code == 0 ? LKI_UNIT_DRAINED : LKI_UNIT_UNDRAINED;
  else
    unit->state = code == 128 + SIGKILL ? LKI_UNIT_KILLED : LKI_UNIT_TERMINATED;
}

void lki_unit_ended(lki_run *run, lki_unit *unit, int status) {
  uint64_t ran_ms = (lki_now_ns(run->env) - unit->started_ns) / NS_PER_MS;
  lki_unit_hear(run, unit);
  lki_stream_finish(&unit->out);
  lki_stream_finish(&unit->err);
  if (unit->control >= 0) close(unit->control);
  unit->control = -1;
  unit->pid = 0;
  unit->ended = true;
  unit->last_status = status;
  if (run->phase != LKI_PHASE_RUN) {
    on_stopped(run, unit, status);
  } else if (lki_status_code(status) != 0) {
    on_failure(run, unit, status, ran_ms);
  } else if (unit->role->restart.policy == LKI_POLICY_ALWAYS) {
    unit->failures = 0;
    start_later(run, unit, unit->role->restart.backoff_ms);
  } else {
    unit->state = LKI_UNIT_FINISHED;
    lki_sink_say(&run->err, "%s: finished after %.1f s", unit->label, (double)ran_ms / 1000);
  }
}

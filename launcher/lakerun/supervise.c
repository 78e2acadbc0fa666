/* The loop: start what is due, wait, read, reap, and carry a stop through its phases. */
#include "supervise.h"
#include "base/error.h"
#include "keeper.h"
#include "procs.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)
#define KILL_MS 10000 /* a keeper's own patience after KILL, and some */
#define FLUSH_MS 2000 /* for the reader of our output, at the end */

lake_status lki_run_open(lake_env *env, const lki_job *job, lki_run *run, lake_error *err) {
  memset(run, 0, sizeof *run);
  run->env = env;
  run->job = job;
  run->signal_fd = -1;
  lki_sink_init(&run->out, STDOUT_FILENO);
  lki_sink_init(&run->err, STDERR_FILENO);
  size_t count = 0, made = 0;
  for (size_t i = 0; i < job->role_count; i++) count += lki_role_units(&job->roles[i]);
  run->records = calloc(job->role_count, sizeof *run->records);
  run->units = calloc(count, sizeof *run->units);
  lake_status s =
      run->records != NULL && run->units != NULL ? LAKE_OK : lki_fail(err, LAKE_NOMEM, "out of memory");
  for (size_t i = 0; i < job->role_count && s == LAKE_OK; i++)
    for (size_t k = 0; k < lki_role_units(&job->roles[i]) && s == LAKE_OK; k++) {
      s = lki_unit_init(run, &run->units[made], &job->roles[i], k, err);
      run->unit_count = ++made;
    }
  if (s != LAKE_OK) lki_run_close(run);
  return s;
}

void lki_run_close(lki_run *run) {
  for (size_t i = 0; i < run->unit_count; i++) {
    lki_stream_free(&run->units[i].out);
    lki_stream_free(&run->units[i].err);
  }
  free(run->units);
  free(run->records);
  lki_sink_free(&run->out);
  lki_sink_free(&run->err);
  if (run->signal_fd >= 0) close(run->signal_fd);
}

static void remember_foreign(void *ctx, pid_t child) {
  lki_run *run = ctx;
  if (run->foreign_count < sizeof run->foreign / sizeof run->foreign[0])
    run->foreign[run->foreign_count++] = child;
}

/* Signals come by descriptor, orphans come to us, and descriptors suffice for the units. */
static bool take_over(lki_run *run) {
  sigset_t set;
  lki_procs_children(remember_foreign, run);
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  getrlimit(RLIMIT_NOFILE, &run->files);
  struct rlimit all = {run->files.rlim_max, run->files.rlim_max};
  setrlimit(RLIMIT_NOFILE, &all);
  sigemptyset(&set);
  static const int wanted[] = {SIGCHLD, SIGINT, SIGTERM, SIGUSR1};
  for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) sigaddset(&set, wanted[i]);
  struct sigaction hup;
  if (sigaction(SIGHUP, NULL, &hup) == 0 && hup.sa_handler != SIG_IGN)
    sigaddset(&set, SIGHUP); /* else: nohup */
  sigprocmask(SIG_BLOCK, &set, NULL);
  run->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  return run->signal_fd >= 0;
}

static void tell_all(lki_run *run, char byte) {
  for (size_t i = 0; i < run->unit_count; i++) lki_unit_tell(&run->units[i], byte);
}

static void enter_phase(lki_run *run, lki_phase phase) {
  static const char *const names[] = {"", "draining", "sending TERM", "sending KILL", "giving up"};
  const uint64_t patience_ms[] = {0, run->job->drain_ms, run->job->term_ms, KILL_MS, 0};
  static const char bytes[] = {0, LKI_KEEP_DRAIN, LKI_KEEP_TERM, LKI_KEEP_KILL, 0};
  run->phase = phase;
  run->phase_end_ns = lki_after_ns(run->env, patience_ms[phase] * NS_PER_MS);
  if (phase == LKI_PHASE_GIVEN_UP) {
    lki_sink_say(&run->err,
                 "some processes do not end, whatever is sent to them; look for them on this machine");
    return;
  }
  size_t running = 0;
  for (size_t i = 0; i < run->unit_count; i++) {
    running += run->units[i].state == LKI_UNIT_RUNNING;
    if (run->units[i].state == LKI_UNIT_WAITING) run->units[i].state = LKI_UNIT_STOPPED;
  }
  if (running > 0) lki_sink_say(&run->err, "%s: %zu running", names[phase], running);
  tell_all(run, bytes[phase]);
}

void lki_run_stop(lki_run *run, lki_reason reason) {
  if (run->phase != LKI_PHASE_RUN) return;
  run->reason = reason;
  enter_phase(run, LKI_PHASE_DRAIN);
}

static void on_signal(lki_run *run, int number) {
  if (run->phase == LKI_PHASE_RUN) {
    run->stop_signal = number;
    lki_sink_say(&run->err, "got SIG%s", lki_signal_name(number));
    lki_run_stop(run, LKI_REASON_SIGNAL);
  } else if (number == SIGINT && run->phase < LKI_PHASE_KILL) {
    /* Someone at a terminal is in a hurry. Slurm repeats the others by itself, so they change nothing. */
    enter_phase(run, run->phase + 1);
  }
}

static bool is_known(const lki_run *run, pid_t pid) {
  for (size_t i = 0; i < run->unit_count; i++)
    if (run->units[i].pid == pid) return true;
  for (size_t i = 0; i < run->foreign_count; i++)
    if (run->foreign[i] == pid) return true;
  return false;
}

typedef struct orphans {
  const lki_run *run;
  size_t count;
} orphans;

static void kill_orphan(void *ctx, pid_t child) {
  orphans *found = ctx;
  if (is_known(found->run, child)) return;
  found->count++;
  kill(child, SIGKILL);
}

static size_t kill_orphans(const lki_run *run) {
  orphans found = {run, 0};
  lki_procs_children(kill_orphan, &found);
  return found.count;
}

/* Orphans come to us only when a keeper itself was killed; what they did is over, since their unit starts
 * anew. They go before their unit's last output is read, which they might else prolong for ever. */
static bool reap(lki_run *run) {
  bool any = false;
  int status = 0;
  for (pid_t pid = waitpid(-1, &status, WNOHANG); pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    any = true;
    for (size_t i = 0; i < run->unit_count; i++)
      if (run->units[i].pid == pid) {
        run->units[i].pid = 0;
        run->units[i].last_status = status;
        run->units[i].reaped = true;
        break;
      }
  }
  if (any) kill_orphans(run);
  for (size_t i = 0; any && i < run->unit_count; i++)
    if (run->units[i].reaped) {
      run->units[i].reaped = false;
      lki_unit_ended(run, &run->units[i], run->units[i].last_status);
    }
  return any;
}

/* The job is done when the deciding units are through; then the rest is drained. */
static void check_done(lki_run *run) {
  bool decided = true, all = true;
  for (size_t i = 0; i < run->unit_count; i++) {
    lki_unit_state state = run->units[i].state;
    bool through = state == LKI_UNIT_FINISHED || state == LKI_UNIT_FAILED;
    all = all && through;
    decided = decided && (through || !lki_job_decides(run->job, run->units[i].role));
  }
  if (decided || all) lki_run_stop(run, LKI_REASON_DONE);
}

static size_t count_running(const lki_run *run) {
  size_t running = 0;
  for (size_t i = 0; i < run->unit_count; i++) running += run->units[i].state == LKI_UNIT_RUNNING;
  return running;
}

static void on_time(lki_run *run) {
  uint64_t now = lki_now_ns(run->env);
  if (run->phase == LKI_PHASE_RUN) {
    for (size_t i = 0; i < run->unit_count && run->phase == LKI_PHASE_RUN; i++)
      if (run->units[i].state == LKI_UNIT_WAITING && run->units[i].start_at_ns <= now)
        lki_unit_start(run, &run->units[i]);
    if (run->phase == LKI_PHASE_RUN) check_done(run);
    bool late = run->job->deadline_ms > 0 && now - run->begin_ns >= run->job->deadline_ms * NS_PER_MS;
    if (late && run->phase == LKI_PHASE_RUN) {
      lki_sink_say(&run->err, "the deadline of %" PRIu64 " ms has passed", run->job->deadline_ms);
      lki_run_stop(run, LKI_REASON_DEADLINE);
    }
  } else if (now >= run->phase_end_ns && run->phase < LKI_PHASE_GIVEN_UP) {
    enter_phase(run, run->phase + 1);
  }
}

/* Milliseconds until something is due, rounded up. */
static int patience_ms(const lki_run *run) {
  uint64_t at = run->phase == LKI_PHASE_RUN ? LKI_NEVER : run->phase_end_ns;
  uint64_t now = lki_now_ns(run->env);
  if (run->phase == LKI_PHASE_RUN && run->job->deadline_ms > 0)
    at = run->begin_ns + run->job->deadline_ms * NS_PER_MS;
  for (size_t i = 0; i < run->unit_count; i++)
    if (run->units[i].state == LKI_UNIT_WAITING && run->units[i].start_at_ns < at)
      at = run->units[i].start_at_ns;
  if (at == LKI_NEVER) return -1;
  uint64_t ms = at > now ? (at - now + NS_PER_MS - 1) / NS_PER_MS : 0;
  return ms > 60000 ? 60000 : (int)ms;
}

typedef struct polled {
  struct pollfd *fds; /* the signals, our two outputs, then three per unit */
  size_t count;
} polled;

static void prepare(const lki_run *run, polled *p) {
  const lki_sink *sinks[2] = {&run->out, &run->err};
  p->fds[0] = (struct pollfd){.fd = run->signal_fd, .events = POLLIN};
  for (size_t i = 0; i < 2; i++)
    p->fds[1 + i] = (struct pollfd){.fd = sinks[i]->bytes > 0 ? sinks[i]->fd : -1, .events = POLLOUT};
  for (size_t i = 0; i < run->unit_count; i++) {
    const lki_unit *unit = &run->units[i];
    bool running = unit->state == LKI_UNIT_RUNNING;
    struct pollfd *fds = &p->fds[3 + 3 * i];
    fds[0] =
        (struct pollfd){.fd = running && !lki_sink_full(&run->out) ? unit->out.fd : -1, .events = POLLIN};
    fds[1] =
        (struct pollfd){.fd = running && !lki_sink_full(&run->err) ? unit->err.fd : -1, .events = POLLIN};
    /* The keeper says one thing; its end is seen by SIGCHLD, so the hang-up must not keep us awake. */
    fds[2] = (struct pollfd){.fd = running && !unit->heard ? unit->control : -1, .events = POLLIN};
  }
}

static void on_ready(lki_run *run, const polled *p) {
  lki_sink *sinks[2] = {&run->out, &run->err};
  for (size_t i = 0; i < 2; i++)
    if (p->fds[1 + i].revents != 0) lki_sink_write(sinks[i]);
  for (size_t i = 0; i < run->unit_count; i++) {
    const struct pollfd *fds = &p->fds[3 + 3 * i];
    lki_unit *unit = &run->units[i];
    if (fds[2].revents != 0) lki_unit_hear(run, unit);
    if (fds[0].revents != 0) lki_stream_read(&unit->out);
    if (fds[1].revents != 0) lki_stream_read(&unit->err);
  }
  struct signalfd_siginfo info;
  while (read(run->signal_fd, &info, sizeof info) == (ssize_t)sizeof info)
    if (info.ssi_signo != SIGCHLD) on_signal(run, (int)info.ssi_signo);
}

/* The last lines; a reader that does not read cannot hold us. */
static void flush(lki_run *run) {
  uint64_t until = lki_after_ns(run->env, FLUSH_MS * NS_PER_MS);
  lki_sink *sinks[2] = {&run->out, &run->err};
  while ((run->out.bytes > 0 || run->err.bytes > 0) && lki_now_ns(run->env) < until) {
    struct pollfd fds[2];
    for (size_t i = 0; i < 2; i++)
      fds[i] = (struct pollfd){.fd = sinks[i]->bytes > 0 ? sinks[i]->fd : -1, .events = POLLOUT};
    if (poll(fds, 2, 100) < 0 && errno != EINTR) return;
    for (size_t i = 0; i < 2; i++)
      if (fds[i].revents != 0) lki_sink_write(sinks[i]);
  }
}

/* What is left when the units are through can only be orphans of killed keepers. */
static void end_orphans(lki_run *run) {
  uint64_t until = lki_after_ns(run->env, KILL_MS * NS_PER_MS);
  struct pollfd fd = {.fd = run->signal_fd, .events = POLLIN};
  for (size_t i = 0; i < run->unit_count; i++) {
    if (run->units[i].state == LKI_UNIT_RUNNING) run->units[i].state = LKI_UNIT_KILLED;
    run->units[i].pid = 0; /* a keeper that did not end is an orphan now */
  }
  while (kill_orphans(run) > 0 && lki_now_ns(run->env) < until) {
    struct signalfd_siginfo info;
    poll(&fd, 1, 20);
    while (read(run->signal_fd, &info, sizeof info) > 0) continue;
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}

void lki_run_loop(lki_run *run) {
  polled p = {.count = 3 + 3 * run->unit_count};
  p.fds = calloc(p.count, sizeof *p.fds);
  run->begin_ns = lki_now_ns(run->env);
  if (p.fds == NULL || !take_over(run)) {
    lki_sink_say(&run->err, "cannot supervise: %s", strerror(errno));
    run->phase = LKI_PHASE_GIVEN_UP;
    run->reason = LKI_REASON_BROKEN;
  }
  for (;;) {
    if (run->phase < LKI_PHASE_GIVEN_UP) on_time(run);
    if (run->phase != LKI_PHASE_RUN && (run->phase == LKI_PHASE_GIVEN_UP || count_running(run) == 0)) break;
    prepare(run, &p);
    if (poll(p.fds, p.count, patience_ms(run)) < 0) continue; /* a stop and continue: look again */
    on_ready(run, &p);
    reap(run);
  }
  if (run->signal_fd >= 0) end_orphans(run);
  run->end_ns = lki_now_ns(run->env);
  lki_report_print(run);
  flush(run);
  free(p.fds);
}

int lki_run_exit_code(const lki_run *run) {
  bool clean = run->phase != LKI_PHASE_GIVEN_UP;
  for (size_t i = 0; i < run->unit_count; i++) {
    lki_unit_state state = run->units[i].state;
    clean = clean && state != LKI_UNIT_UNDRAINED && state != LKI_UNIT_TERMINATED && state != LKI_UNIT_KILLED;
  }
  switch (run->reason) {
  case LKI_REASON_DONE:
    return 0;
  case LKI_REASON_SIGNAL:
    return clean ? 0 : 128 + run->stop_signal;
  case LKI_REASON_FAILED:
    return run->stop_code;
  case LKI_REASON_DEADLINE:
    return 7;
  default:
    return 1;
  }
}

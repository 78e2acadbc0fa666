/* The keeper's loop: control bytes and SIGCHLD, one deadline at a time. */
#include "keeper.h"
#include "procs.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define KILL_MS 5000      /* how long the kernel may take to end what got SIGKILL */
#define KILL_ROUND_MS 20  /* orphans come to us one generation after the other */
#define RELAY_END_MS 2000 /* for the remote shell to end after its remote end did */

/* Stages only move forward. */
typedef enum stage { STAGE_RUN, STAGE_TERM, STAGE_KILL, STAGE_GONE } stage;

typedef struct keeping {
  const lki_keeper *keeper;
  pid_t command;
  bool command_ended;
  int status;   /* of the command */
  int relay;    /* write end of the remote shell's standard input, or -1 */
  int child_fd; /* signalfd for SIGCHLD */
  int control;  /* -1 after its end */
  stage stage;
  int64_t at_ms; /* when the stage's patience ends; 0: lakerun will say */
} keeping;

static int64_t now_ms(void) {
  struct timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void complain(const char *what, const char *on) {
  char text[512];
  int n = snprintf(text, sizeof text, "lakerun: cannot %s '%.300s': %s\n", what, on, strerror(errno));
  if (n > 0 && write(STDERR_FILENO, text, (size_t)n) < 0) return;
}

/* Between fork and exec. Dispositions go back to their defaults: lakerun ignores some signals, commands must
 * not. */
static _Noreturn void become_command(const lki_keeper *keeper, pid_t parent, int input) {
  sigset_t none;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, keeper->death_signal);
  if (getppid() != parent) _exit(LKI_EXIT_NOT_STARTED);
  for (int i = 1; i < NSIG; i++) signal(i, SIG_DFL);
  dup2(input, STDIN_FILENO);
  close_range(3, ~0U, 0);
  if (keeper->workdir != NULL && chdir(keeper->workdir) != 0) {
    complain("enter the folder", keeper->workdir);
    _exit(LKI_EXIT_NOT_STARTED);
  }
  if (keeper->cpus != NULL && sched_setaffinity(0, sizeof *keeper->cpus, keeper->cpus) != 0) {
    complain("use the CPU set of", keeper->argv[0]);
    _exit(LKI_EXIT_NOT_STARTED);
  }
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execvpe(keeper->argv[0], keeper->argv, keeper->envp);
  int code = errno == ENOENT ? LKI_EXIT_NOT_FOUND : LKI_EXIT_NOT_STARTED;
  complain("run", keeper->argv[0]);
  _exit(code);
}

static void start(keeping *k) {
  int pipe_fds[2] = {-1, -1};
  int input = k->keeper->relay ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (k->keeper->relay && pipe2(pipe_fds, O_CLOEXEC) == 0) {
    input = pipe_fds[0];
    k->relay = pipe_fds[1];
    fcntl(k->relay, F_SETFL, O_NONBLOCK);
  }
  pid_t self = getpid();
  k->command = input >= 0 ? fork() : -1;
  if (k->command == 0) become_command(k->keeper, self, input);
  if (k->command < 0) {
    complain("start", k->keeper->argv[0]);
    _exit(LKI_EXIT_NOT_STARTED);
  }
  setpgid(k->command, k->command); /* here too, so that a signal cannot come before the group is there */
  close(input);
  int pid = (int)k->command;
  if (k->keeper->tell_pid && send(k->control, &pid, sizeof pid, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
}

static void relay(keeping *k, char byte) {
  if (k->relay >= 0 && write(k->relay, &byte, 1) < 0 && errno == EPIPE) {
    close(k->relay);
    k->relay = -1;
  }
}

static void drain(keeping *k) {
  if (k->keeper->relay)
    relay(k, LKI_KEEP_DRAIN);
  else if (!k->command_ended)
    kill(k->command, k->keeper->drain_signal);
}

static void term_orphan(void *ctx, pid_t child) {
  const keeping *k = ctx;
  if (child != k->command)
    kill(child, SIGTERM); /* the command got its own with the group; twice may mean more */
}

/* TERM goes to the command's group and to the orphans that came to us. A remote shell only passes it on. */
static void enter_term(keeping *k) {
  if (k->stage >= STAGE_TERM) return;
  k->stage = STAGE_TERM;
  if (k->keeper->relay && !k->command_ended) {
    relay(k, LKI_KEEP_TERM);
    return;
  }
  if (!k->command_ended) kill(-k->command, SIGTERM);
  lki_procs_children(term_orphan, k);
}

/* As long as lakerun is there and the command lives, lakerun decides when KILL follows. */
static void enter_term_alone(keeping *k) {
  enter_term(k);
  if (k->stage != STAGE_TERM || k->at_ms != 0) return;
  k->at_ms = now_ms() + (int64_t)k->keeper->term_ms;
  if (k->keeper->relay && !k->command_ended) k->at_ms += RELAY_END_MS;
}

static void enter_kill(keeping *k) {
  if (k->stage >= STAGE_KILL) return;
  k->stage = STAGE_KILL;
  k->at_ms = now_ms() + KILL_MS;
  relay(k, LKI_KEEP_KILL);
}

static void reap(keeping *k) {
  int status = 0;
  pid_t pid = waitpid(-1, &status, WNOHANG);
  for (; pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
    if (pid != k->command) continue;
    k->command_ended = true;
    k->status = status;
    /* What it left behind is ours now, in whatever group it is. */
    if (k->stage == STAGE_TERM) lki_procs_children(term_orphan, k);
  }
  bool childless = pid < 0 && errno == ECHILD;
  if (k->command_ended && childless)
    k->stage = STAGE_GONE;
  else if (k->command_ended)
    enter_term_alone(k);
}

static void obey(keeping *k) {
  char bytes[16];
  ssize_t n = read(k->control, bytes, sizeof bytes);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n <= 0) { /* lakerun is gone */
    close(k->control);
    k->control = -1;
    enter_term_alone(k);
  }
  for (ssize_t i = 0; i < n; i++) {
    if (bytes[i] == LKI_KEEP_DRAIN) drain(k);
    if (bytes[i] == LKI_KEEP_TERM) enter_term(k);
    if (bytes[i] == LKI_KEEP_KILL) enter_kill(k);
  }
}

static void on_time(keeping *k) {
  if (k->stage == STAGE_TERM && k->at_ms != 0 && now_ms() >= k->at_ms) enter_kill(k);
  if (k->stage != STAGE_KILL) return;
  /* A remote shell gets the time to bring the end of its remote side. */
  bool remote_ends = k->keeper->relay && !k->command_ended && now_ms() < k->at_ms - KILL_MS + RELAY_END_MS;
  if (!remote_ends) lki_procs_signal_children(SIGKILL);
  if (now_ms() < k->at_ms) return;
  errno = ETIMEDOUT;
  complain("end all processes of", k->keeper->argv[0]);
  k->stage = STAGE_GONE;
}

/* lakerun reads the end of the command off ours, so we end the same way; without a second core file. */
static _Noreturn void end_as(const keeping *k) {
  if (WIFEXITED(k->status)) _exit(WEXITSTATUS(k->status));
  int number = k->command_ended ? WTERMSIG(k->status) : SIGKILL;
  if (k->keeper->as_signal) {
    const struct rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    prctl(PR_SET_DUMPABLE, 0);
    signal(number, SIG_DFL);
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
  }
  _exit(128 + number);
}

_Noreturn void lki_keeper_run(const lki_keeper *keeper) {
  keeping k = {.keeper = keeper, .relay = -1, .control = keeper->control};
  sigset_t child, all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, NULL);
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  /* Signals stay blocked and pending: a signal to a whole job step reaches the command by itself, and ours
   * come by the control descriptor. SIGPIPE is ignored for the relay. */
  signal(SIGPIPE, SIG_IGN);
  prctl(PR_SET_NAME, "lakerun-keep");
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  setsid();
  k.child_fd = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  start(&k);
  while (k.stage != STAGE_GONE) {
    struct pollfd fds[2] = {{.fd = k.child_fd, .events = POLLIN}, {.fd = k.control, .events = POLLIN}};
    int64_t wait_ms = -1;
    if (k.stage == STAGE_TERM && k.at_ms != 0) wait_ms = k.at_ms > now_ms() ? k.at_ms - now_ms() : 0;
    if (k.stage == STAGE_KILL || k.child_fd < 0) wait_ms = KILL_ROUND_MS;
    if (poll(fds, 2, wait_ms > 1000000 ? 1000000 : (int)wait_ms) < 0 && errno != EINTR) break;
    struct signalfd_siginfo info;
    while (k.child_fd >= 0 && read(k.child_fd, &info, sizeof info) > 0) continue;
    if (fds[1].revents != 0) obey(&k);
    reap(&k);
    if (k.stage == STAGE_TERM || k.stage == STAGE_KILL) on_time(&k);
  }
  end_as(&k);
}

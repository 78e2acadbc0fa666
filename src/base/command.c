/* Commands through posix_spawn, which is safe in a program of many threads. No state; safe from any thread.
 */
#include "base/command.h"
#include "base/error.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Signals as a program expects them: threads of the library block all of them, and a host may ignore some. */
static int plain_signals(posix_spawnattr_t *attributes) {
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  int e = posix_spawnattr_setsigmask(attributes, &none);
  if (e == 0) e = posix_spawnattr_setsigdefault(attributes, &all);
  if (e == 0) e = posix_spawnattr_setpgroup(attributes, 0);
  if (e == 0)
    e = posix_spawnattr_setflags(attributes,
                                 POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  return e;
}

/* 0, or an errno. fd is the end of a pipe that becomes its standard output. */
static int start(const char *command, int fd, pid_t *pid) {
  char shell[] = "sh", flag[] = "-c";
  char *copy = (char *)(uintptr_t)command; /* exec's prototype lacks the const that it keeps */
  char *const argv[] = {shell, flag, copy, NULL};
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  int e = posix_spawn_file_actions_init(&actions);
  if (e != 0) return e;
  e = posix_spawnattr_init(&attributes);
  if (e != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return e;
  }
  e = plain_signals(&attributes);
  if (e == 0) e = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  if (e == 0) e = posix_spawn_file_actions_adddup2(&actions, fd, 1);
  if (e == 0) e = posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  if (e == 0) e = posix_spawn(pid, "/bin/sh", &actions, &attributes, argv, environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return e;
}

/* Milliseconds to the deadline for poll, rounded up. */
static int left_ms(lake_env *env, lake_deadline deadline) {
  uint64_t now = lki_now_ns(env);
  if (now >= deadline.at_ns) return 0;
  uint64_t ms = (deadline.at_ns - now + 999999u) / 1000000u;
  return ms > 1000000 ? 1000000 : (int)ms;
}

/* Reads to the end of the pipe. */
static lake_status read_output(lake_env *env, int fd, char *dst, size_t bytes_max, lake_deadline deadline,
                               size_t *bytes, lake_error *err) {
  size_t used = 0;
  for (;;) {
    struct pollfd p = {fd, POLLIN, 0};
    int ready = poll(&p, 1, left_ms(env, deadline));
    if (ready < 0 && errno != EINTR)
      return lki_fail(err, LAKE_UNAVAILABLE, "poll: %s", strerrordesc_np(errno));
    if (ready <= 0) {
      if (lki_deadline_passed(env, deadline))
        return lki_fail(err, LAKE_TIMEOUT, "it did not end in time and was killed");
      continue;
    }
    ssize_t n = read(fd, dst + used, bytes_max + 1 - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return lki_fail(err, LAKE_UNAVAILABLE, "reading what it says: %s", strerrordesc_np(errno));
    if (n == 0) break;
    used += (size_t)n;
    if (used > bytes_max) return lki_fail(err, LAKE_INVALID, "it wrote more than %zu bytes", bytes_max);
  }
  dst[used] = 0;
  *bytes = used;
  return LAKE_OK;
}

/* Waits for its end; a program that has closed its output may take its time with that, so the deadline holds
 * here too. */
static lake_status wait_end(lake_env *env, pid_t pid, lake_deadline deadline, bool *gone, lake_error *err) {
  int status = 0;
  for (;;) {
    pid_t got = waitpid(pid, &status, WNOHANG);
    *gone = got == pid || (got < 0 && errno != EINTR);
    if (got == pid) break;
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return LAKE_OK; /* the host ignores SIGCHLD: the system took it, and only its output tells */
    if (lki_deadline_passed(env, deadline))
      return lki_fail(err, LAKE_TIMEOUT, "it did not end in time and was killed");
    lki_sleep_until(env, lki_after_ns(env, 2000000));
  }
  if (WIFSIGNALED(status)) return lki_fail(err, LAKE_INVALID, "it was ended by signal %d", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0)
    return lki_fail(err, LAKE_INVALID, "it ended with code %d", WEXITSTATUS(status));
  return LAKE_OK;
}

lake_status lki_command_output(lake_env *env, const char *command, size_t bytes_max, lake_deadline deadline,
                               char **out, size_t *bytes, lake_error *err) {
  int pipe_fds[2];
  pid_t pid = 0;
  size_t used = 0;
  bool gone = false; /* its number may be another's by now */
  char *text = lki_alloc(env, bytes_max + 2);
  if (text == NULL) return lki_fail(err, LAKE_NOMEM, "out of memory");
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    lki_free(env, text);
    return lki_fail(err, LAKE_UNAVAILABLE, "no pipe: %s", strerrordesc_np(errno));
  }
  int e = start(command, pipe_fds[1], &pid);
  close(pipe_fds[1]);
  lake_status s = e == 0 ? LAKE_OK : lki_fail(err, LAKE_UNAVAILABLE, "no process: %s", strerrordesc_np(e));
  if (s == LAKE_OK) s = read_output(env, pipe_fds[0], text, bytes_max, deadline, &used, err);
  if (e == 0 && s == LAKE_OK) s = wait_end(env, pid, deadline, &gone, err);
  if (e == 0 && s != LAKE_OK && !gone) { /* whatever is left of it: the group is its own */
    kill(-pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
  }
  close(pipe_fds[0]);
  if (s == LAKE_OK) {
    *out = text;
    *bytes = used;
  } else {
    explicit_bzero(text, bytes_max + 2);
    lki_free(env, text);
  }
  return s;
}

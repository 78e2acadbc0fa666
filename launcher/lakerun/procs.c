/* Children from /proc. No state. */
#include "procs.h"
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Parent and state of a process; false: it is gone. */
static bool stat_of(const char *pid, pid_t *parent, char *state) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return false;
  text[n] = 0;
  /* The name stands in parentheses and may hold any character, so look for the last one. */
  const char *end = strrchr(text, ')');
  int number = 0;
  if (end == NULL || sscanf(end + 1, " %c %d", state, &number) != 2) return false;
  *parent = number;
  return true;
}

size_t lki_procs_children(void (*fn)(void *ctx, pid_t child), void *ctx) {
  DIR *folder = opendir("/proc");
  if (folder == NULL) return 0;
  size_t count = 0;
  pid_t self = getpid();
  for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
    pid_t parent = 0;
    char state = 0;
    if (!isdigit((unsigned char)entry->d_name[0]) || !stat_of(entry->d_name, &parent, &state)) continue;
    if (parent != self || state == 'Z' || state == 'X') continue;
    count++;
    if (fn != NULL) fn(ctx, (pid_t)strtol(entry->d_name, NULL, 10));
  }
  closedir(folder);
  return count;
}

static void send_to(void *ctx, pid_t child) {
  kill(child, *(const int *)ctx);
}

size_t lki_procs_signal_children(int signal) {
  return lki_procs_children(send_to, &signal);
}

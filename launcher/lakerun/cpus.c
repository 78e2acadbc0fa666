/* CPU sets as text. No state. */
#include "job.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One number below CPU_SETSIZE; moves *p past it. -1: none there. */
static int number(const char **p) {
  if (!isdigit((unsigned char)**p)) return -1;
  int value = 0;
  for (; isdigit((unsigned char)**p); (*p)++) {
    value = value * 10 + (**p - '0');
    if (value >= CPU_SETSIZE) return -1;
  }
  return value;
}

bool lki_cpus_parse(const char *text, cpu_set_t *out) {
  cpu_set_t set;
  CPU_ZERO(&set);
  const char *p = text;
  for (;;) {
    int low = number(&p);
    int high = low;
    if (low >= 0 && *p == '-') {
      p++;
      high = number(&p);
    }
    if (low < 0 || high < low) return false;
    for (int i = low; i <= high; i++) CPU_SET((size_t)i, &set);
    if (*p == 0) break;
    if (*p++ != ',') return false;
  }
  *out = set;
  return true;
}

/* Numbers of the set, as the kernel writes such a list: "0-3,8". */
static void list(const cpu_set_t *set, char *dst, size_t bytes) {
  size_t used = 0;
  dst[0] = 0;
  for (int i = 0; i < CPU_SETSIZE && used < bytes; i++) {
    if (!CPU_ISSET((size_t)i, set)) continue;
    int low = i;
    while (i + 1 < CPU_SETSIZE && CPU_ISSET((size_t)i + 1, set)) i++;
    const char *comma = used > 0 ? "," : "";
    int n = low == i ? snprintf(dst + used, bytes - used, "%s%d", comma, low)
                     : snprintf(dst + used, bytes - used, "%s%d-%d", comma, low, i);
    used += n > 0 ? (size_t)n : bytes;
  }
}

/* What is online, with the kernel's own text for it. */
static bool read_online(cpu_set_t *have, char *text, size_t bytes) {
  FILE *f = fopen("/sys/devices/system/cpu/online", "re");
  bool known = f != NULL && fgets(text, (int)bytes, f) != NULL;
  if (f != NULL) fclose(f);
  if (known) text[strcspn(text, "\n")] = 0;
  return known && lki_cpus_parse(text, have);
}

int lki_cpus_missing(const cpu_set_t *set, char *online, size_t bytes) {
  cpu_set_t have;
  if (!read_online(&have, online, bytes)) {
    /* No sysfs, as in a bare chroot: CPUs that we may run on, and numbers below the count of CPUs, may be
     * there. Whether they are online is left to the child's sched_setaffinity. */
    long count = sysconf(_SC_NPROCESSORS_CONF);
    if (sched_getaffinity(0, sizeof have, &have) != 0) return -1;
    for (int i = 0; i < CPU_SETSIZE && i < count; i++) CPU_SET((size_t)i, &have);
    list(&have, online, bytes);
  }
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET((size_t)i, set) && !CPU_ISSET((size_t)i, &have)) return i;
  return -1;
}

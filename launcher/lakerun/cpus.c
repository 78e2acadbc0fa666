/* CPU sets as text. No state. */
#include "job.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

int lki_cpus_missing(const cpu_set_t *set, char *online, size_t bytes) {
  cpu_set_t have;
  FILE *f = fopen("/sys/devices/system/cpu/online", "re");
  bool known = f != NULL && fgets(online, (int)bytes, f) != NULL;
  if (f != NULL) fclose(f);
  if (known) online[strcspn(online, "\n")] = 0;
  /* Without sysfs the child's sched_setaffinity is left to judge. */
  if (!known || !lki_cpus_parse(online, &have)) return -1;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (CPU_ISSET((size_t)i, set) && !CPU_ISSET((size_t)i, &have)) return i;
  return -1;
}

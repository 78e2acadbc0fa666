/* Every planted bug (src/base/planted.h) is found by the simulator within its budget of schedules, and without one there
 * is nothing to find. Seeds are fixed. One child process a bug, two at a time, so that a bug that makes the library
 * assert is seen too. Prints a table; a row is replayed with
 *
 *   LAKE_PLANTED=NAME[+blind] LAKE_SEED=SEED LAKE_TRACE=1 test_sim_planted
 *
 * "+blind": the writer's own check of what it is about to write is off as well, so that the simulator is alone. */
#include "base/planted.h"
#include "sim/schedule.h"
#include "support/support.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CLEAN_COUNT 150
#define BUDGET 400
#define WORKERS 2

lki_planted_bug lki_planted = LKI_PLANT_NONE;
bool lki_planted_blind = false;

typedef struct trial {
  lki_planted_bug bug;
  bool blind;
  const char *name, *text;
  /* Written by the child. */
  uint64_t seed, run_count;
  double cpu_s;
  bool caught;
  char violation[600];
} trial;

typedef struct bug_info {
  const char *name;
  bool paired;
  const char *text;
} bug_info;

#define BUG_INFO(name, paired, text) {#name, paired, text},
static const bug_info bugs[] = {{"none", false, "nothing"}, LKI_PLANTED_BUGS(BUG_INFO)};

static uint64_t env_number(const char *name, uint64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text ? strtoull(text, NULL, 0) : otherwise;
}

/* The trials, in memory that children share; the first is without a bug. */
static trial *new_trials(size_t *count) {
  const size_t most = 2 * LKI_PLANT_COUNT;
  trial *t = mmap(NULL, most * sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(t != MAP_FAILED);
  *count = 0;
  for (int i = 0; i < LKI_PLANT_COUNT; i++)
    for (int blind = 0; blind <= (bugs[i].paired ? 1 : 0); blind++)
      t[(*count)++] = (trial){.bug = (lki_planted_bug)i, .blind = blind == 1, .name = bugs[i].name, .text = bugs[i].text};
  return t;
}

static void print_line(void *ctx, const char *line) {
  (void)ctx;
  puts(line);
}

static void run_trial(trial *t, uint64_t first_seed, uint64_t budget, bool traced) {
  lki_planted = t->bug;
  lki_planted_blind = t->blind;
  lki_schedule_options o = {0};
  if (traced) o.trace = print_line;
  for (uint64_t i = 0; i < budget && !t->caught; i++) {
    lki_schedule_report r;
    t->seed = first_seed + i; /* before the run, for one that ends in an assertion */
    t->run_count = i + 1;
    t->caught = !lki_schedule_run(t->seed, &o, &r);
    snprintf(t->violation, sizeof t->violation, "%s", r.violation);
  }
  t->cpu_s = (double)clock() / CLOCKS_PER_SEC;
}

static pid_t start_child(trial *t) {
  fflush(stdout);
  const pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid != 0) return pid;
  run_trial(t, 1, t->bug == LKI_PLANT_NONE ? CLEAN_COUNT : BUDGET, false);
  _exit(0);
}

static void run_all(trial *trials, size_t count) {
  pid_t pids[WORKERS] = {0};
  size_t at[WORKERS] = {0}, next = 0, running = 0;
  while (next < count || running > 0) {
    for (int w = 0; w < WORKERS; w++) {
      if (pids[w] != 0 || next == count) continue;
      at[w] = next;
      pids[w] = start_child(&trials[next++]);
      running++;
    }
    int status = 0;
    const pid_t ended = wait(&status);
    for (int w = 0; w < WORKERS; w++) {
      if (pids[w] != ended) continue;
      trial *t = &trials[at[w]];
      if (WIFSIGNALED(status)) {
        t->caught = true;
        snprintf(t->violation, sizeof t->violation, "ended by signal %d", WTERMSIG(status));
      }
      pids[w] = 0;
      running--;
    }
  }
}

static void test_every_bug_is_caught(void **state) {
  (void)state;
  size_t count = 0, missed = 0;
  trial *trials = new_trials(&count);
  run_all(trials, count);
  for (size_t i = 0; i < count; i++) {
    const trial *t = &trials[i];
    char name[64];
    snprintf(name, sizeof name, "%s%s", t->name, t->blind ? "+blind" : "");
    const bool right = t->caught == (t->bug != LKI_PLANT_NONE);
    printf("%-34s %4llu runs %5.1f s  %s %s\n", name, (unsigned long long)t->run_count, t->cpu_s,
           right ? "" : t->caught ? "NOT CLEAN" : "NOT CAUGHT:", t->caught ? t->violation : t->text);
    if (t->caught) printf("%-34s replay: LAKE_PLANTED=%s LAKE_SEED=%llu test_sim_planted\n", "", name, (unsigned long long)t->seed);
    if (!right) missed++;
  }
  printf("%zu planted bugs in %zu trials, %zu wrong\n", (size_t)LKI_PLANT_COUNT - 1, count - 1, missed);
  munmap(trials, 2 * LKI_PLANT_COUNT * sizeof *trials);
  assert_int_equal(missed, 0);
  assert_true(LKI_PLANT_COUNT - 1 >= 22);
}

/* LAKE_PLANTED: one bug, from LAKE_SEED on, LAKE_SCHEDULES times. */
static int replay(const char *wanted) {
  char name[64];
  snprintf(name, sizeof name, "%.*s", (int)strcspn(wanted, "+"), wanted);
  for (int i = 0; i < LKI_PLANT_COUNT; i++) {
    if (strcmp(bugs[i].name, name) != 0) continue;
    trial t = {.bug = (lki_planted_bug)i, .blind = strchr(wanted, '+') != NULL};
    run_trial(&t, env_number("LAKE_SEED", 1), env_number("LAKE_SCHEDULES", 1), getenv("LAKE_TRACE") != NULL);
    printf("%s, seed %llu, %llu runs: %s\n", wanted, (unsigned long long)t.seed, (unsigned long long)t.run_count,
           t.caught ? t.violation : "no violation");
    return t.caught ? 1 : 0;
  }
  fprintf(stderr, "no planted bug is called %s\n", name);
  return 2;
}

int main(void) {
  const char *wanted = getenv("LAKE_PLANTED");
  if (wanted != NULL && *wanted) return replay(wanted);
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_bug_is_caught)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}

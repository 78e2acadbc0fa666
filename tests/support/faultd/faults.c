/* Faults and their rules; see faults.h. Rules are asked in the order in which they came. */
#define _GNU_SOURCE
#include "faults.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BIT(o) (1u << (o))
#define ALL_OPS (BIT(OP_COUNT) - 1u)
#define BODY_OPS (BIT(OP_GET) | BIT(OP_LIST))
#define BROKEN_OPS (BODY_OPS | BIT(OP_DELETE)) /* the deletion of many has a body to break, too */
#define CREATE_OPS (BIT(OP_CREATE) | BIT(OP_COMPLETE))
#define RULES_MAX 256
#define SKEW_S_DEFAULT 960

/* Where each fault makes sense, and what it needs. */
static const struct {
  const char *name;
  unsigned ops;
  int need;
} FAULTS[FAULT_COUNT] = {
    [FAULT_DROP_REQUEST] = {"drop-request", ALL_OPS, NEED_NOTHING},
    [FAULT_DROP_REPLY] = {"drop-reply", ALL_OPS, NEED_NOTHING},
    [FAULT_DUPLICATE] = {"duplicate", ALL_OPS, NEED_NOTHING},
    [FAULT_LATE_PUT] = {"late-put", BIT(OP_PUT) | BIT(OP_CREATE), NEED_NOTHING},
    [FAULT_ERROR_500] = {"error-500", ALL_OPS, NEED_NOTHING},
    [FAULT_SLOWDOWN] = {"slowdown-503", ALL_OPS, NEED_NOTHING},
    [FAULT_THROTTLE] = {"throttle-429", ALL_OPS, NEED_NOTHING},
    [FAULT_UNDECIDED] = {"conflict-409-undecided", BIT(OP_PUT) | CREATE_OPS, NEED_NOTHING},
    [FAULT_TAKEN_409] = {"taken-409", CREATE_OPS, NEED_TAKEN},
    [FAULT_TAKEN_304] = {"taken-304", CREATE_OPS, NEED_TAKEN},
    [FAULT_ERROR_200] = {"error-200", ALL_OPS & ~BIT(OP_HEAD), NEED_NOTHING},
    [FAULT_SHORT_BODY] = {"short-body", BROKEN_OPS, NEED_BODY},
    [FAULT_CLOSE_DELIMITED] = {"close-delimited", BROKEN_OPS, NEED_BODY},
    [FAULT_EXTRA_BYTES] = {"extra-bytes", BROKEN_OPS, NEED_BODY},
    [FAULT_RANGE_IGNORED] = {"range-ignored", BIT(OP_GET), NEED_RANGE},
    [FAULT_RANGE_WRONG] = {"range-wrong", BIT(OP_GET), NEED_RANGE},
    [FAULT_BIT_FLIP] = {"bit-flip", BROKEN_OPS, NEED_BODY},
    [FAULT_STALE_MANIFEST] = {"stale-manifest", BIT(OP_GET) | BIT(OP_HEAD), NEED_NOTHING},
    [FAULT_STALE_LIST] = {"stale-list", BIT(OP_LIST), NEED_NOTHING},
    [FAULT_RESET] = {"reset", BROKEN_OPS, NEED_BODY},
    [FAULT_DRIP] = {"drip", BODY_OPS, NEED_BODY},
    [FAULT_STALL] = {"stall", ALL_OPS, NEED_NOTHING},
    [FAULT_SKEW] = {"skew", ALL_OPS, NEED_NOTHING},
    [FAULT_EXPIRED_TOKEN] = {"expired-token", ALL_OPS, NEED_NOTHING},
    [FAULT_DENY] = {"deny-403", ALL_OPS, NEED_NOTHING},
    [FAULT_IGNORE_CONDITION] = {"ignore-condition", CREATE_OPS, NEED_NOTHING},
    [FAULT_INVERT_CONDITION] = {"invert-condition", CREATE_OPS, NEED_NOTHING},
};

static const char *const OPS[OP_COUNT] = {"get", "put", "create", "head", "list", "delete", "complete", "other"};

typedef struct rule {
  fault which;
  unsigned ops;
  char *key; /* NULL: any */
  bool endless;
  uint64_t count, skip;
  char arg[64];
} rule;

struct faults {
  pthread_mutex_t lock;
  rule rules[RULES_MAX];
  size_t rule_count;
  uint64_t fired[FAULT_COUNT];
};

const char *fault_name(fault which) { return which < FAULT_COUNT ? FAULTS[which].name : ""; }
const char *op_name(op o) { return o < OP_COUNT ? OPS[o] : "control"; }

faults *faults_new(void) {
  faults *f = must_alloc(sizeof *f);
  pthread_mutex_init(&f->lock, NULL);
  return f;
}

static bool parse_option(rule *r, const char *name, const char *value) {
  if (strcmp(name, "op") == 0) {
    unsigned ops = strcmp(value, "any") == 0 ? ALL_OPS : 0;
    for (int i = 0; i < OP_COUNT; i++)
      if (strcmp(value, OPS[i]) == 0) ops = BIT(i);
    r->ops &= ops;
    return r->ops != 0;
  }
  if (strcmp(name, "key") == 0) {
    free(r->key);
    r->key = must_copy(value, strlen(value));
    return true;
  }
  if (strcmp(name, "arg") == 0) {
    snprintf(r->arg, sizeof r->arg, "%s", value);
    return true;
  }
  char *end = NULL;
  const uint64_t n = strtoull(value, &end, 10);
  if (strcmp(name, "count") == 0 && (r->endless = strcmp(value, "all") == 0)) return true;
  if (*value < '0' || *value > '9' || *end) return false;
  if (strcmp(name, "count") == 0) r->count = n;
  else if (strcmp(name, "skip") == 0) r->skip = n;
  else return false;
  return true;
}

/* Cuts the line; false, with the word that is wrong, when it is no rule. */
static bool parse_rule(rule *r, char *line, const char **wrong) {
  *r = (rule){.which = FAULT_NONE, .count = 1};
  char *save = NULL;
  char *word = strtok_r(line, " \t\r", &save);
  for (int i = 0; i < FAULT_COUNT; i++)
    if (strcmp(word, FAULTS[i].name) == 0) r->which = (fault)i;
  *wrong = word;
  if (r->which == FAULT_NONE) return false;
  r->ops = FAULTS[r->which].ops;
  r->endless = r->which == FAULT_SKEW;
  while ((word = strtok_r(NULL, " \t\r", &save)) != NULL) {
    *wrong = word;
    char *value = strchr(word, '=');
    if (value == NULL) return false;
    *value++ = 0;
    if (!parse_option(r, word, value)) return false;
  }
  return true;
}

bool faults_add(faults *f, const char *lines, text *why) {
  char *copy = must_copy(lines, strlen(lines)), *rest = copy;
  bool good = true;
  pthread_mutex_lock(&f->lock);
  const size_t before = f->rule_count;
  for (char *line; good && (line = strsep(&rest, "\n")) != NULL;) {
    if (line[strspn(line, " \t\r")] == 0) continue;
    const char *wrong = "too many rules";
    good = f->rule_count < RULES_MAX && parse_rule(&f->rules[f->rule_count], line, &wrong);
    if (good) f->rule_count++;
    else text_add(why, "no rule: %s\n", wrong);
  }
  if (!good) {
    for (size_t i = before; i <= f->rule_count && i < RULES_MAX; i++) {
      free(f->rules[i].key);
      f->rules[i].key = NULL;
    }
    f->rule_count = before;
  }
  pthread_mutex_unlock(&f->lock);
  free(copy);
  return good;
}

static bool fits(const rule *r, const request *q) {
  return (r->endless || r->count > 0) && (r->ops & BIT(q->op)) != 0 &&
         (r->key == NULL || strstr(q->name != NULL ? q->name : "", r->key) != NULL || strstr(q->target, r->key) != NULL);
}

/* Counts a rule that fits; false while it still lets requests pass. */
static bool fire(faults *f, rule *r) {
  if (r->skip > 0) {
    r->skip--;
    return false;
  }
  if (!r->endless) r->count--;
  f->fired[r->which]++;
  return true;
}

bool faults_take(faults *f, int there, const request *q, fault_hit *hit) {
  bool found = false;
  pthread_mutex_lock(&f->lock);
  for (size_t i = 0; i < f->rule_count && !found; i++) {
    rule *r = &f->rules[i];
    if (r->which == FAULT_SKEW || (FAULTS[r->which].need & there) == 0 || !fits(r, q) || !fire(f, r)) continue;
    hit->which = r->which;
    memcpy(hit->arg, r->arg, sizeof hit->arg);
    found = true;
  }
  pthread_mutex_unlock(&f->lock);
  return found;
}

int64_t faults_skew(faults *f, const request *q) {
  int64_t skew_s = 0;
  pthread_mutex_lock(&f->lock);
  for (size_t i = 0; i < f->rule_count && skew_s == 0; i++) {
    rule *r = &f->rules[i];
    if (r->which == FAULT_SKEW && fits(r, q) && fire(f, r)) skew_s = r->arg[0] ? strtoll(r->arg, NULL, 10) : SKEW_S_DEFAULT;
  }
  pthread_mutex_unlock(&f->lock);
  return skew_s;
}

void faults_report(faults *f, text *json) {
  pthread_mutex_lock(&f->lock);
  for (int i = 0; i < FAULT_COUNT; i++)
    text_add(json, "%s\"%s\":%llu", i == 0 ? "{" : ",", FAULTS[i].name, (unsigned long long)f->fired[i]);
  text_add(json, "}\n");
  pthread_mutex_unlock(&f->lock);
}

void faults_reset(faults *f) {
  pthread_mutex_lock(&f->lock);
  for (size_t i = 0; i < f->rule_count; i++) free(f->rules[i].key);
  memset(f->rules, 0, sizeof f->rules);
  f->rule_count = 0;
  memset(f->fired, 0, sizeof f->fired);
  pthread_mutex_unlock(&f->lock);
}

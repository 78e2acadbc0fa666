#include "support/fuzz.h"
#include "base/env.h"
#include "support/sample.h"
#include "support/support.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CORPUS_MAX 64
#define INPUT_BYTES_MAX 65536

static sample_memory memory;
static lake_env *env;
static size_t live_at_start;

lake_env *fuzz_env(void) {
  if (env == NULL) {
    env = sample_env(&memory);
    live_at_start = memory.live_count;
  }
  return env;
}

void fuzz_expect(bool truth, const char *why) {
  if (truth) return;
  fprintf(stderr, "fuzz: %s\n", why);
  abort();
}

void fuzz_expect_nothing_left(void) {
  lki_env_drop_kept(fuzz_env()); /* what the environment may keep is no leak */
  fuzz_expect(memory.live_count == live_at_start, "memory was not given back");
  fuzz_expect(memory.peak_bytes < (size_t)256 << 20, "absurdly much memory was asked for");
}

void fuzz_expect_refusal(lake_status status, const lake_error *err) {
  fuzz_expect(status == LAKE_CORRUPT || status == LAKE_UNSUPPORTED, lake_status_name(status));
  fuzz_expect(err->status == status && err->text[0] != 0, "the error is not filled");
}

typedef struct input {
  uint8_t *data;
  size_t bytes;
} input;

static input read_input(const char *path) {
  input in = {malloc(INPUT_BYTES_MAX), 0};
  FILE *f = fopen(path, "rb");
  if (f == NULL || in.data == NULL) {
    perror(path);
    exit(1);
  }
  in.bytes = fread(in.data, 1, INPUT_BYTES_MAX, f);
  fclose(f);
  return in;
}

/* A block of the exact length, so that the address sanitizer sees a read past its end. */
static void run_one(const uint8_t *data, size_t bytes) {
  uint8_t *copy = malloc(bytes > 0 ? bytes : 1);
  if (copy == NULL) abort();
  memcpy(copy, data, bytes);
  LLVMFuzzerTestOneInput(copy, bytes);
  free(copy);
}

static bool wanted(const char *name, const char *const *suffixes) {
  for (; *suffixes != NULL; suffixes++) {
    size_t n = strlen(name), m = strlen(*suffixes);
    if (n > m && strcmp(name + n - m, *suffixes) == 0) return true;
  }
  return false;
}

static size_t read_corpus(const char *const *suffixes, input *corpus) {
  char folder[900], path[1200];
  const char *source = getenv("LAKE_SOURCE_DIR");
  size_t count = 0;
  snprintf(folder, sizeof folder, "%s/tests/golden/data", source != NULL ? source : ".");
  DIR *dir = opendir(folder);
  if (dir == NULL) {
    perror(folder);
    exit(1);
  }
  for (struct dirent *entry; count < CORPUS_MAX && (entry = readdir(dir)) != NULL;) {
    if (!wanted(entry->d_name, suffixes)) continue;
    snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
    corpus[count++] = read_input(path);
  }
  closedir(dir);
  return count;
}

/* One to four changes: a bit, a byte that is special, a number, a part cut, doubled or taken from another
 * input. */
static size_t mutate(lki_rng *rng, const input *corpus, size_t count, uint8_t *data, size_t bytes) {
  static const uint8_t special[] = {0, 1, 0x7f, 0x80, 0xff, '"', '0', '9'};
  for (uint64_t n = 1 + lki_rng_below(rng, 4); n > 0; n--) {
    size_t at = bytes > 0 ? (size_t)lki_rng_below(rng, bytes) : 0, left = bytes - at;
    const input *other = &corpus[lki_rng_below(rng, count)];
    switch (bytes > 0 ? lki_rng_below(rng, 7) : 6) {
    case 0:
      data[at] ^= (uint8_t)(1u << lki_rng_below(rng, 8));
      break;
    case 1:
      data[at] = special[lki_rng_below(rng, sizeof special)];
      break;
    case 2:
      data[at] = (uint8_t)(data[at] + lki_rng_below(rng, 9) - 4);
      break;
    case 3:
      bytes = at;
      break;
    case 4: { /* cut out */
      size_t n_cut = 1 + (size_t)lki_rng_below(rng, left < 16 ? left : 16);
      memmove(data + at, data + at + n_cut, left - n_cut);
      bytes -= n_cut;
      break;
    }
    case 5: { /* doubled */
      size_t n_copy = 1 + (size_t)lki_rng_below(rng, left < 16 ? left : 16);
      if (bytes + n_copy > INPUT_BYTES_MAX) break;
      memmove(data + at + n_copy, data + at, left);
      bytes += n_copy;
      break;
    }
    default: { /* spliced */
      size_t from = (size_t)lki_rng_below(rng, other->bytes), n_take = other->bytes - from;
      if (n_take > INPUT_BYTES_MAX - at) n_take = INPUT_BYTES_MAX - at;
      memcpy(data + at, other->data + from, n_take);
      if (at + n_take > bytes) bytes = at + n_take;
    }
    }
  }
  return bytes;
}

/* Mutations in rounds of this many, with a look at the clock in between. */
#define ROUND_COUNT 1000

/* $LAKE_FUZZ_SECONDS, a time budget, comes before $LAKE_FUZZ_COUNT. */
static unsigned long run_mutations(const input *corpus, size_t count) {
  const char *count_text = getenv("LAKE_FUZZ_COUNT"), *seconds_text = getenv("LAKE_FUZZ_SECONDS");
  unsigned long wanted_count = count_text != NULL ? strtoul(count_text, NULL, 10) : 20000, done = 0;
  uint64_t seconds = seconds_text != NULL ? strtoull(seconds_text, NULL, 10) : 0;
  uint64_t end_ns = lki_now_ns(env) + seconds * 1000000000u;
  lki_rng rng = {test_seed()};
  uint8_t *data = malloc(INPUT_BYTES_MAX);
  if (data == NULL) abort();
  while (seconds > 0 ? lki_now_ns(env) < end_ns : done < wanted_count) {
    for (unsigned i = 0; i < ROUND_COUNT && (seconds > 0 || done < wanted_count); i++, done++) {
      const input *start = &corpus[lki_rng_below(&rng, count)];
      memcpy(data, start->data, start->bytes);
      run_one(data, mutate(&rng, corpus, count, data, start->bytes));
    }
  }
  free(data);
  return done;
}

static bool run_files(int argc, char **argv) {
  fuzz_env();
  for (int i = 1; i < argc; i++) {
    input in = read_input(argv[i]);
    run_one(in.data, in.bytes);
    free(in.data);
  }
  return argc > 1;
}

/* For libFuzzer, whose programs have another main and so begin with what is in a folder. */
static void write_corpus(const char *folder, const input *corpus, size_t count) {
  char path[1200];
  for (size_t i = 0; i < count; i++) {
    snprintf(path, sizeof path, "%.1000s/%zu", folder, i);
    FILE *f = fopen(path, "wb");
    fuzz_expect(f != NULL && fwrite(corpus[i].data, 1, corpus[i].bytes, f) == corpus[i].bytes && fclose(f) == 0, path);
  }
}

static int run_corpus(const input *corpus, size_t count) {
  const char *folder = getenv("LAKE_FUZZ_WRITE");
  if (folder != NULL) write_corpus(folder, corpus, count);
  for (size_t i = 0; i < count; i++) run_one(corpus[i].data, corpus[i].bytes);
  unsigned long done = run_mutations(corpus, count);
  printf("%lu mutations of %zu inputs\n", done, count);
  lake_env_close(env);
  return 0;
}

int fuzz_main(int argc, char **argv, const char *const *suffixes) {
  input corpus[CORPUS_MAX] = {{NULL, 0}};
  if (run_files(argc, argv)) return 0;
  size_t count = read_corpus(suffixes, corpus);
  fuzz_expect(count > 0, "no golden objects to begin with");
  int rc = run_corpus(corpus, count);
  for (size_t i = 0; i < count; i++) free(corpus[i].data);
  return rc;
}

int fuzz_main_texts(int argc, char **argv, const char *const *texts) {
  input corpus[CORPUS_MAX] = {{NULL, 0}};
  size_t count = 0;
  if (run_files(argc, argv)) return 0;
  for (; texts[count] != NULL; count++) {
    fuzz_expect(count < CORPUS_MAX, "too many texts");
    corpus[count].bytes = strlen(texts[count]);
    corpus[count].data = malloc(corpus[count].bytes + 1);
    if (corpus[count].data == NULL) abort();
    memcpy(corpus[count].data, texts[count], corpus[count].bytes);
  }
  int rc = run_corpus(corpus, count);
  for (size_t i = 0; i < count; i++) free(corpus[i].data);
  return rc;
}

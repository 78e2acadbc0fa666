/* Checkpoint files. All numbers little-endian:
 *   0  "LAKECKPT"   8  version u32, header bytes u32   16  file bytes u64   24  step   32  data digest   40  seed
 *  48  rate f64, momentum f64   64  params u64   72  vocab, context, embed, hidden u32   88  uuid[40]   128  cursor[128]
 * 256  loss f64   264  weights f32[params], momentum f32[params], then XXH3-64 of everything before. */
#include "lm_checkpoint.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define MAGIC "LAKECKPT"
#define VERSION 1u
#define HEADER_BYTES 264u
#define LIST_MAX 4096 /* checkpoint files in one folder */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is written as it lies in memory");

typedef struct header {
  char magic[8];
  uint32_t version, header_bytes;
  uint64_t file_bytes, step, data_digest, seed;
  double rate, momentum;
  uint64_t param_count;
  uint32_t vocab, context, embed, hidden;
  char uuid[40];
  char cursor[LAKE_CURSOR_BYTES];
  double loss;
} header;
_Static_assert(sizeof(header) == HEADER_BYTES, "the layout above has no padding");

lake_status lm_fail(lake_error *err, lake_status status, const char *format, ...) {
  if (err == NULL) return status;
  char text[sizeof err->text]; /* aside: the arguments may point into *err */
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  memcpy(err->text, text, sizeof text);
  err->status = status;
  return status;
}

static lake_status fail_errno(lake_error *err, const char *doing, const char *path) {
  int code = errno;
  lake_status status = code == EACCES || code == EPERM || code == EROFS ? LAKE_DENIED : LAKE_UNAVAILABLE;
  return lm_fail(err, status, "checkpoint %.250s: cannot %s: %s; free space or choose another --ckpt-dir", path, doing,
                 strerror(code));
}

static size_t file_bytes_of(size_t param_count) {
  return HEADER_BYTES + 2 * param_count * sizeof(float) + sizeof(uint64_t);
}

static bool write_all(int fd, const unsigned char *data, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, data, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    data += n;
    bytes -= (size_t)n;
  }
  return true;
}

static bool folder_sync(const char *folder) {
  int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return false;
  bool ok = fsync(fd) == 0;
  close(fd);
  return ok;
}

static bool folder_make(const char *folder) {
  char path[4096];
  if ((size_t)snprintf(path, sizeof path, "%s", folder) >= sizeof path) return errno = ENAMETOOLONG, false;
  for (char *at = path + 1;; at++) {
    if (*at != '/' && *at != '\0') continue;
    char kept = *at;
    *at = '\0';
    if (mkdir(path, 0777) != 0 && errno != EEXIST) return false;
    if (kept == '\0') return true;
    *at = kept;
  }
}

lake_status lm_checkpoint_save(const char *folder, const lm_state *state, const lm_model *model, lake_error *err) {
  char path[4200], temporary[4300];
  lake_status status = LAKE_OK;
  int fd = -1;
  size_t bytes = file_bytes_of(model->param_count), block = model->param_count * sizeof(float);
  unsigned char *file = malloc(bytes);
  if (file == NULL) return lm_fail(err, LAKE_NOMEM, "checkpoint: no memory for %zu bytes", bytes);
  header head = {.version = VERSION, .header_bytes = HEADER_BYTES, .file_bytes = bytes, .step = state->step,
                 .data_digest = state->data_digest, .seed = state->seed, .rate = state->rate,
                 .momentum = state->momentum, .param_count = model->param_count, .vocab = LM_VOCAB,
                 .context = model->shape.context, .embed = model->shape.embed, .hidden = model->shape.hidden,
                 .loss = state->loss};
  memcpy(head.magic, MAGIC, sizeof head.magic);
  memcpy(head.uuid, state->uuid, sizeof head.uuid);
  memcpy(head.cursor, state->cursor, sizeof head.cursor);
  memcpy(file, &head, sizeof head);
  memcpy(file + HEADER_BYTES, model->weights, block);
  memcpy(file + HEADER_BYTES + block, model->momentum, block);
  uint64_t checksum = XXH3_64bits(file, bytes - sizeof checksum);
  memcpy(file + bytes - sizeof checksum, &checksum, sizeof checksum);

  snprintf(path, sizeof path, "%.4000s/ckpt-%08llu.bin", folder, (unsigned long long)state->step);
  snprintf(temporary, sizeof temporary, "%s.tmp-%ld", path, (long)getpid());
  if (!folder_make(folder)) {
    status = fail_errno(err, "make its folder", path);
    goto done;
  }
  fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || !write_all(fd, file, bytes) || fsync(fd) != 0) {
    status = fail_errno(err, "write it", path);
    goto done;
  }
  if (rename(temporary, path) != 0 || !folder_sync(folder)) status = fail_errno(err, "put it in place", path);
done:
  if (fd >= 0) close(fd);
  if (status != LAKE_OK) unlink(temporary);
  free(file);
  return status;
}

/* CORRUPT: the file is not a complete checkpoint, for the reason given. */
static lake_status file_read(const char *path, unsigned char **out, size_t *out_bytes, lake_error *err) {
  lake_status status = LAKE_OK;
  unsigned char *file = NULL;
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0 || fstat(fd, &st) != 0) {
    status = fail_errno(err, "open it", path);
    goto done;
  }
  size_t bytes = (size_t)st.st_size, got = 0;
  if (st.st_size < (off_t)(HEADER_BYTES + sizeof(uint64_t)) || st.st_size > (off_t)1 << 32) {
    status = lm_fail(err, LAKE_CORRUPT, "%.300s: %lld bytes are no checkpoint", path, (long long)st.st_size);
    goto done;
  }
  file = malloc(bytes);
  if (file == NULL) {
    status = lm_fail(err, LAKE_NOMEM, "checkpoint %.300s: no memory", path);
    goto done;
  }
  while (got < bytes) {
    ssize_t n = read(fd, file + got, bytes - got);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += (size_t)n;
  }
  header head;
  uint64_t checksum;
  memcpy(&head, file, sizeof head);
  memcpy(&checksum, file + bytes - sizeof checksum, sizeof checksum);
  if (got < bytes || memcmp(head.magic, MAGIC, sizeof head.magic) != 0 || head.file_bytes != bytes ||
      head.version != VERSION || head.header_bytes != HEADER_BYTES ||
      checksum != XXH3_64bits(file, bytes - sizeof checksum)) {
    status = lm_fail(err, LAKE_CORRUPT, "%.300s: truncated or damaged", path);
    goto done;
  }
  *out = file;
  *out_bytes = bytes;
  file = NULL;
done:
  free(file);
  if (fd >= 0) close(fd);
  return status;
}

static lake_status file_accept(const char *path, const unsigned char *file, size_t bytes, lm_state *state,
                               lm_model *model, lake_error *err) {
  header head;
  memcpy(&head, file, sizeof head);
  head.uuid[sizeof head.uuid - 1] = head.cursor[sizeof head.cursor - 1] = '\0';
  if (strcmp(head.uuid, state->uuid) != 0)
    return lm_fail(err, LAKE_INVALID, "checkpoint %.200s belongs to namespace %s but --url is namespace %s; choose another "
                   "--ckpt-dir", path, head.uuid, state->uuid);
  if (head.vocab != LM_VOCAB || head.context != model->shape.context || head.embed != model->shape.embed ||
      head.hidden != model->shape.hidden || head.param_count != model->param_count ||
      bytes != file_bytes_of(model->param_count))
    return lm_fail(err, LAKE_INVALID, "checkpoint %.200s holds a model of context %u, embed %u, hidden %u; give these "
                   "sizes or choose another --ckpt-dir", path, head.context, head.embed, head.hidden);
  if (head.seed != state->seed || head.rate != state->rate || head.momentum != state->momentum)
    return lm_fail(err, LAKE_INVALID, "checkpoint %.200s was trained with --seed %llu --lr %g --momentum %g; give these or "
                   "choose another --ckpt-dir", path, (unsigned long long)head.seed, head.rate, head.momentum);
  size_t block = model->param_count * sizeof(float);
  memcpy(model->weights, file + HEADER_BYTES, block);
  memcpy(model->momentum, file + HEADER_BYTES + block, block);
  state->step = head.step;
  state->data_digest = head.data_digest;
  state->loss = head.loss;
  memcpy(state->cursor, head.cursor, sizeof state->cursor);
  return LAKE_OK;
}

static int newest_first(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? 1 : x > y ? -1 : 0;
}

/* The step in "ckpt-<step>.bin", if the name is as lm_checkpoint_save() writes it. */
static bool step_of(const char *name, uint64_t *step) {
  if (strncmp(name, "ckpt-", 5) != 0 || name[5] < '0' || name[5] > '9') return false;
  errno = 0;
  unsigned long long value = strtoull(name + 5, NULL, 10);
  char as_written[64];
  snprintf(as_written, sizeof as_written, "ckpt-%08llu.bin", value);
  if (errno != 0 || strcmp(name, as_written) != 0) return false;
  *step = value;
  return true;
}

/* Steps of the checkpoints in the folder, the newest first; 0 when there is no such folder. Removes what interrupted
 * saves left if `tidy`: nobody else saves here. */
static size_t list_steps(const char *folder, uint64_t steps[LIST_MAX], bool tidy) {
  DIR *dir = opendir(folder);
  if (dir == NULL) return 0;
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
    if (tidy && strncmp(entry->d_name, "ckpt-", 5) == 0 && strstr(entry->d_name, ".bin.tmp-") != NULL)
      unlinkat(dirfd(dir), entry->d_name, 0);
    if (count < LIST_MAX && step_of(entry->d_name, &steps[count])) count++;
  }
  closedir(dir);
  qsort(steps, count, sizeof *steps, newest_first);
  return count;
}

lake_status lm_checkpoint_load_newest(const char *folder, lm_state *state, lm_model *model, lake_error *err) {
  uint64_t *steps = malloc(LIST_MAX * sizeof *steps);
  if (steps == NULL) return lm_fail(err, LAKE_NOMEM, "checkpoint: no memory");
  lake_status status = LAKE_NOTFOUND;
  size_t count = list_steps(folder, steps, false);
  for (size_t i = 0; i < count && status == LAKE_NOTFOUND; i++) {
    char path[4200];
    unsigned char *file = NULL;
    size_t bytes = 0;
    lake_error why = LAKE_ERROR_INIT;
    snprintf(path, sizeof path, "%.4000s/ckpt-%08llu.bin", folder, (unsigned long long)steps[i]);
    lake_status read_status = file_read(path, &file, &bytes, &why);
    if (read_status == LAKE_CORRUPT) {
      fprintf(stderr, "train_lm: warning: %s; passing over to the one before\n", why.text);
      continue;
    }
    status = read_status == LAKE_OK ? file_accept(path, file, bytes, state, model, err)
                                    : lm_fail(err, read_status, "%s", why.text);
    free(file);
  }
  free(steps);
  if (status == LAKE_NOTFOUND) lm_fail(err, LAKE_NOTFOUND, "no complete checkpoint in %.300s", folder);
  return status;
}

void lm_checkpoint_prune(const char *folder, uint64_t saved, uint32_t keep, bool (*forget)(void *ctx, uint64_t step),
                         void *ctx) {
  uint64_t *steps = malloc(LIST_MAX * sizeof *steps);
  if (steps == NULL) return; /* the next checkpoint prunes */
  size_t count = list_steps(folder, steps, true);
  uint32_t kept = 1; /* the one just saved, whatever else is there */
  for (size_t i = 0; i < count; i++) {
    char path[4200];
    unsigned char *file = NULL;
    size_t bytes = 0;
    lake_error why = LAKE_ERROR_INIT;
    if (steps[i] == saved) continue;
    snprintf(path, sizeof path, "%.4000s/ckpt-%08llu.bin", folder, (unsigned long long)steps[i]);
    if (kept < keep) {
      /* A file that cannot be resumed from does not count. It is not removed either, until enough newer ones are there:
       * then its pin goes with it; until then older pins guard as much. */
      kept += file_read(path, &file, &bytes, &why) == LAKE_OK;
      free(file);
      continue;
    }
    /* Above the one just saved lies only what the resume passed over: this run will write these steps again. */
    if (steps[i] < saved && forget(ctx, steps[i])) unlink(path);
  }
  free(steps);
}

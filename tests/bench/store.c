/* What our store costs over a bare libcurl loop, how well requests overlap, and that memory is bounded. JSON
 * lines; ratios are medians of rounds in which both sides take turns. usage: bench_store [rgw] [latency]
 * [memory]   (default all)
 *
 * rgw      PUT of 10 MB and ranged GETs of 1 MB and 100 KB, through lake_store against threads that each run
 * the same requests with libcurl, signed beforehand, into one buffer, without a check of what comes. Needs a
 * server: source DIR/env of `bash tests/servers/rgw.sh start DIR`. PUTs also over https, where payloads are
 * not signed, and over http against a bare side that hashes each payload as a signer must.
 * latency  100 KB GETs from the fault server, which waits 20 ms before each reply: 64 in flight
 * against one. memory   1,000 reads of 10 MB, all submitted at once, under a budget of 64 MB: the peak above
 * what was there before. LAKE_BENCH_ROUNDS (9), LAKE_BENCH_PARALLEL (8), LAKE_BENCH_LOAD (part of the name of a load against a server: others
 * are left out) */
#include "base/buffer.h"
#include "base/env.h"
#include "store/digest.h"
#include "store/sign.h"
#include "store/store.h"
#include "support/faultd.h"
#include <curl/curl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#define PARALLEL_MAX 64
#define ROUNDS_MAX 99
#define PUT_BYTES ((size_t)10 * 1000 * 1000)
#define GET_OBJECT "bench-object"

static lake_env *env;
static unsigned char *payload; /* PUT_BYTES */

static void check(lake_status s, const lake_error *err) {
  if (s == LAKE_OK) return;
  fprintf(stderr, "bench_store: %s\n", err->text);
  exit(1);
}

static void must(bool truth, const char *what) {
  if (truth) return;
  fprintf(stderr, "bench_store: %s\n", what);
  exit(1);
}

static unsigned number_from_env(const char *name, unsigned otherwise, unsigned max) {
  const char *text = getenv(name);
  unsigned value = text != NULL ? (unsigned)strtoul(text, NULL, 10) : otherwise;
  return value == 0 ? 1 : value < max ? value : max;
}

static double seconds_of(struct timeval t) {
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static double median(const double *values, unsigned count) {
  double sorted[ROUNDS_MAX];
  memcpy(sorted, values, count * sizeof *values);
  qsort(sorted, count, sizeof *sorted, compare);
  return count % 2 == 1 ? sorted[count / 2] : (sorted[count / 2 - 1] + sorted[count / 2]) / 2;
}

/* ---- one load, from either side ---- */

typedef struct load {
  const char *name;
  bool put;
  size_t bytes;   /* of one request */
  unsigned count; /* requests of one round */
  bool hashed;    /* the bare side, too, hashes what it puts, which every signature over http needs */
} load;

typedef struct worker {
  pthread_t thread;
  const load *load;
  lake_store *store; /* ours; NULL: bare */
  unsigned number, parallel;
  atomic_uint *next;
  CURL *easy;
  struct curl_slist *headers; /* signed */
  char url[512];
  unsigned char *sink; /* PUT_BYTES */
  size_t at;           /* in the sink, or in the payload */
} worker;

static void run_ours(worker *w) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lake_deadline_after_ms(env, 600 * 1000);
  char key[64];
  if (w->load->put) {
    snprintf(key, sizeof key, "bench-put-%u", w->number);
    check(lki_store_put(w->store, key, (lake_bytes){payload, w->load->bytes}, deadline, &err), &err);
    return;
  }
  lake_buffer sink;
  lki_buffer_init_fixed(&sink, env, w->sink, w->load->bytes);
  lake_range range =
      lki_range_exact(w->number * w->load->bytes % (PUT_BYTES - w->load->bytes + 1), w->load->bytes);
  check(lki_store_get(w->store, GET_OBJECT, range, &sink, NULL, deadline, &err), &err);
}

static size_t bare_write(char *data, size_t size, size_t count, void *ctx) {
  worker *w = ctx;
  if (w->at + size * count > PUT_BYTES) return 0;
  memcpy(w->sink + w->at, data, size * count);
  w->at += size * count;
  return size * count;
}

static size_t bare_read(char *dst, size_t size, size_t count, void *ctx) {
  worker *w = ctx;
  size_t bytes = size * count, left = w->load->bytes - w->at;
  if (bytes > left) bytes = left;
  memcpy(dst, payload + w->at, bytes);
  w->at += bytes;
  return bytes;
}

static void run_bare(worker *w) {
  unsigned char hash[LKI_SHA256_BYTES];
  w->at = 0;
  if (w->load->hashed) must(lki_sha256((lake_bytes){payload, w->load->bytes}, hash), "no digest");
  CURLcode code = curl_easy_perform(w->easy);
  long status = 0;
  curl_easy_getinfo(w->easy, CURLINFO_RESPONSE_CODE, &status);
  if (code == CURLE_OK && status == (w->load->put ? 200 : 206)) return;
  fprintf(stderr, "bench_store: bare %s: %s, status %ld\n", w->load->name, curl_easy_strerror(code), status);
  exit(1);
}

static void *work(void *arg) {
  worker *w = arg;
  pthread_setname_np(pthread_self(), w->store != NULL ? "ours" : "bare"); /* for perf */
  while (atomic_fetch_add(w->next, 1) < w->load->count) {
    if (w->store != NULL)
      run_ours(w);
    else
      run_bare(w);
  }
  return NULL;
}

typedef struct cost {
  double bytes_per_s, cpu_s_per_gb;
} cost;

static cost run_round(worker *workers, unsigned parallel) {
  const load *l = workers[0].load;
  atomic_uint next = 0;
  double cpu = cpu_seconds();
  uint64_t begin = lki_now_ns(env);
  for (unsigned i = 0; i < parallel; i++) {
    workers[i].next = &next;
    must(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "no threads");
  }
  for (unsigned i = 0; i < parallel; i++) pthread_join(workers[i].thread, NULL);
  double seconds = (double)(lki_now_ns(env) - begin) / 1e9, bytes = (double)l->bytes * l->count;
  return (cost){bytes / seconds, (cpu_seconds() - cpu) / (bytes / 1e9)};
}

/* ---- the bare side's requests ---- */

typedef struct target {
  const char *endpoint, *bucket, *key_id, *secret, *ca_file;
} target;

static struct curl_slist *sign(const target *t, const load *l, const char *path, const char *range) {
  lake_error err = LAKE_ERROR_INIT;
  lki_request request;
  lki_http_request http;
  lki_credentials credentials = {.key_id = t->key_id, .secret = t->secret, .expires_wall_ns = UINT64_MAX};
  lki_day_key *day = lki_day_key_open(env);
  bool https = strncmp(t->endpoint, "https", 5) == 0;
  lki_request_init(&request, env, l->put ? "PUT" : "GET", t->endpoint, path);
  if (l->put)
    request.body = (lake_bytes){payload, l->bytes};
  else
    lki_request_header(&request, "range", range);
  check(lki_sign_v4(&request, &lki_v4_aws, &credentials, "us-east-1",
                    (int64_t)(lki_wall_ns(env) / 1000000000u), l->put && https, day, &err),
        &err);
  check(lki_request_finish(&request, &http, &err), &err);
  struct curl_slist *list = curl_slist_append(NULL, "Expect:");
  for (size_t i = 0; i < http.header_count; i++) {
    char line[1024];
    snprintf(line, sizeof line, "%s: %s", http.headers[i].name, http.headers[i].value);
    list = curl_slist_append(list, line);
  }
  lki_request_free(&request);
  lki_day_key_close(day);
  return list;
}

static void open_bare(worker *w, const target *t) {
  char path[200], range[64];
  size_t first = w->number * w->load->bytes % (PUT_BYTES - w->load->bytes + 1);
  if (w->load->put)
    snprintf(path, sizeof path, "/%s/bench-put-%u", t->bucket, w->number);
  else
    snprintf(path, sizeof path, "/%s/%s", t->bucket, GET_OBJECT);
  snprintf(range, sizeof range, "bytes=%zu-%zu", first, first + w->load->bytes - 1);
  snprintf(w->url, sizeof w->url, "%s%s", t->endpoint, path);
  w->headers = sign(t, w->load, path, range);
  w->easy = curl_easy_init();
  must(w->easy != NULL && w->headers != NULL, "no memory");
  curl_easy_setopt(w->easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(w->easy, CURLOPT_URL, w->url);
  curl_easy_setopt(w->easy, CURLOPT_HTTPHEADER, w->headers);
  curl_easy_setopt(w->easy, CURLOPT_BUFFERSIZE, 128L * 1024);
  curl_easy_setopt(w->easy, CURLOPT_UPLOAD_BUFFERSIZE, 1024L * 1024);
  curl_easy_setopt(w->easy, CURLOPT_WRITEFUNCTION, bare_write);
  curl_easy_setopt(w->easy, CURLOPT_WRITEDATA, w);
  if (t->ca_file != NULL) curl_easy_setopt(w->easy, CURLOPT_CAINFO, t->ca_file);
  if (!w->load->put) return;
  curl_easy_setopt(w->easy, CURLOPT_UPLOAD, 1L);
  curl_easy_setopt(w->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)w->load->bytes);
  curl_easy_setopt(w->easy, CURLOPT_READFUNCTION, bare_read);
  curl_easy_setopt(w->easy, CURLOPT_READDATA, w);
}

/* ---- against a bare loop ---- */

static void compare_load(const load *l, const target *t, lake_store *store) {
  const char *only = getenv("LAKE_BENCH_LOAD");
  if (only != NULL && strstr(l->name, only) == NULL) return;
  unsigned parallel = number_from_env("LAKE_BENCH_PARALLEL", 8, PARALLEL_MAX);
  unsigned rounds = number_from_env("LAKE_BENCH_ROUNDS", 9, ROUNDS_MAX);
  worker ours[PARALLEL_MAX] = {0}, bare[PARALLEL_MAX] = {0};
  double rate[2][ROUNDS_MAX], cpu[2][ROUNDS_MAX], rate_ratio[ROUNDS_MAX], cpu_ratio[ROUNDS_MAX];
  for (unsigned i = 0; i < parallel; i++) {
    ours[i] = (worker){.load = l, .store = store, .number = i, .sink = malloc(PUT_BYTES)};
    bare[i] = (worker){.load = l, .number = i, .sink = malloc(PUT_BYTES)};
    must(ours[i].sink != NULL && bare[i].sink != NULL, "no memory");
    memset(ours[i].sink, 1, PUT_BYTES);
    memset(bare[i].sink, 1, PUT_BYTES);
    open_bare(&bare[i], t);
  }
  run_round(bare, parallel); /* connections, and the server's caches */
  run_round(ours, parallel);
  for (unsigned r = 0; r < rounds; r++) {
    for (unsigned half = 0; half < 2; half++) { /* who goes first changes */
      unsigned side = (r + half) % 2;
      cost c = run_round(side == 0 ? ours : bare, parallel);
      rate[side][r] = c.bytes_per_s;
      cpu[side][r] = c.cpu_s_per_gb;
    }
    rate_ratio[r] = rate[0][r] / rate[1][r];
    cpu_ratio[r] = cpu[0][r] / cpu[1][r];
  }
  printf("{\"bench\":\"store\",\"load\":\"%s\",\"parallel\":%u,\"rounds\":%u,\"requests\":%u,\"mb_s\":%.1f,"
         "\"bare_mb_s\":%.1f,\"throughput_ratio\":%.3f,\"cpu_s_per_gb\":%.3f,\"bare_cpu_s_per_gb\":%.3f,"
         "\"cpu_ratio\":%.3f}\n",
         l->name, parallel, rounds, l->count, median(rate[0], rounds) / 1e6, median(rate[1], rounds) / 1e6,
         median(rate_ratio, rounds), median(cpu[0], rounds), median(cpu[1], rounds),
         median(cpu_ratio, rounds));
  fflush(stdout);
  for (unsigned i = 0; i < parallel; i++) {
    curl_easy_cleanup(bare[i].easy);
    curl_slist_free_all(bare[i].headers);
    free(ours[i].sink);
    free(bare[i].sink);
  }
}

static lake_store *open_store(const target *t) {
  lake_error err = LAKE_ERROR_INIT;
  lake_store *store = NULL;
  char url[300];
  setenv("AWS_ENDPOINT_URL", t->endpoint, 1);
  setenv("AWS_REGION", "us-east-1", 1);
  setenv("AWS_ACCESS_KEY_ID", t->key_id, 1);
  setenv("AWS_SECRET_ACCESS_KEY", t->secret, 1);
  setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
  if (t->ca_file != NULL)
    setenv("AWS_CA_BUNDLE", t->ca_file, 1);
  else
    unsetenv("AWS_CA_BUNDLE");
  snprintf(url, sizeof url, "s3://%s", t->bucket);
  check(lake_store_open(env, url, &store, &err), &err);
  return store;
}

static void put_object(lake_store *store) {
  lake_error err = LAKE_ERROR_INIT;
  lake_deadline deadline = lake_deadline_after_ms(env, 60000);
  check(lki_store_put(store, GET_OBJECT, (lake_bytes){payload, PUT_BYTES}, deadline, &err), &err);
}

static bool bench_rgw(void) {
  target t = {getenv("LAKE_TEST_S3_ENDPOINT"), getenv("LAKE_TEST_S3_BUCKET"), getenv("LAKE_TEST_S3_KEY_ID"),
              getenv("LAKE_TEST_S3_SECRET"), NULL};
  if (t.endpoint == NULL || t.bucket == NULL || t.key_id == NULL || t.secret == NULL) {
    fprintf(stderr, "bench_store: rgw left out: source DIR/env of: bash tests/servers/rgw.sh start DIR\n");
    return false;
  }
  const load loads[] = {{"put 10 MB http", true, PUT_BYTES, 16, false},
                        {"put 10 MB http, hashed by both", true, PUT_BYTES, 16, true},
                        {"get 1 MB http", false, 1000 * 1000, 300, false},
                        {"get 100 KB http", false, 100 * 1000, 2000, false}};
  const load secure[] = {{"put 10 MB https", true, PUT_BYTES, 16, false},
                         {"get 1 MB https", false, 1000 * 1000, 300, false}};
  lake_store *store = open_store(&t);
  put_object(store);
  for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) compare_load(&loads[i], &t, store);
  lake_store_close(store);
  t.endpoint = getenv("LAKE_TEST_S3_HTTPS_ENDPOINT");
  t.ca_file = getenv("LAKE_TEST_S3_CA");
  if (t.endpoint == NULL || t.ca_file == NULL) return true;
  store = open_store(&t);
  for (size_t i = 0; i < sizeof secure / sizeof *secure; i++) compare_load(&secure[i], &t, store);
  lake_store_close(store);
  return true;
}

/* ---- latency ---- */

#define FLIGHT 64

static lake_store *open_faultd(faultd **server, const char *delay_ms) {
  *server = faultd_start("s3", "--delay-ms", delay_ms, NULL);
  target t = {(*server)->url, "bench", "key", "secret", NULL};
  lake_store *store = open_store(&t);
  put_object(store);
  return store;
}

static double requests_per_s(lake_store *store, unsigned parallel, unsigned count) {
  const load l = {"get 100 KB", false, 100 * 1000, count, false};
  worker workers[FLIGHT] = {0};
  for (unsigned i = 0; i < parallel; i++) {
    workers[i] = (worker){.load = &l, .store = store, .number = i, .sink = malloc(l.bytes)};
    must(workers[i].sink != NULL, "no memory");
    memset(workers[i].sink, 1, l.bytes);
  }
  cost c = run_round(workers, parallel);
  for (unsigned i = 0; i < parallel; i++) free(workers[i].sink);
  return c.bytes_per_s / (double)l.bytes;
}

static void bench_latency(void) {
  faultd *server = NULL;
  unsigned rounds = number_from_env("LAKE_BENCH_ROUNDS", 9, ROUNDS_MAX);
  double one[ROUNDS_MAX], many[ROUNDS_MAX], ratio[ROUNDS_MAX];
  lake_store *store = open_faultd(&server, "20");
  requests_per_s(store, FLIGHT, FLIGHT * 4); /* connections */
  for (unsigned r = 0; r < rounds; r++) {
    one[r] = requests_per_s(store, 1, 30);
    many[r] = requests_per_s(store, FLIGHT, FLIGHT * 30);
    ratio[r] = many[r] / one[r];
  }
  printf("{\"bench\":\"store\",\"load\":\"get 100 KB, 20 ms\",\"rounds\":%u,\"requests_s_1\":%.1f,"
         "\"requests_s_%u\":%.1f,\"ratio\":%.2f}\n",
         rounds, median(one, rounds), FLIGHT, median(many, rounds), median(ratio, rounds));
  fflush(stdout);
  lake_store_close(store);
  faultd_stop(server);
}

/* ---- memory ---- */

#define READS 1000
#define BUDGET_BYTES ((uint64_t)64 * 1000 * 1000)

typedef struct read_call {
  lki_http_call call;
  lake_buffer sink;
  atomic_uint *left, *failed;
} read_call;

static void on_read(lki_http_call *call) {
  read_call *r = call->ctx;
  if (call->status != LAKE_OK || call->reply.status != 200 || r->sink.bytes != PUT_BYTES)
    atomic_fetch_add(r->failed, 1);
  lki_buffer_free(&r->sink);
  atomic_fetch_sub(r->left, 1);
}

static long status_kb(const char *name) {
  char line[200];
  long kb = -1;
  FILE *f = fopen("/proc/self/status", "r");
  must(f != NULL, "no /proc");
  while (fgets(line, sizeof line, f) != NULL)
    if (strncmp(line, name, strlen(name)) == 0) kb = strtol(line + strlen(name) + 1, NULL, 10);
  fclose(f);
  return kb;
}

static void forget_peak(void) {
  FILE *f = fopen("/proc/self/clear_refs", "w");
  must(f != NULL && fputs("5", f) >= 0 && fclose(f) == 0, "the kernel does not forget a peak");
}

static void bench_memory(void) {
  faultd *server = NULL;
  lake_store *store = open_faultd(&server, "0");
  lake_store_close(store);
  lake_error err = LAKE_ERROR_INIT;
  lki_http *http = NULL;
  lki_http_options options = {.in_flight_bytes_max = BUDGET_BYTES};
  check(lki_http_open(env, &options, &http, &err), &err);
  read_call *reads = calloc(READS, sizeof *reads);
  must(reads != NULL, "no memory");
  memset(reads, 1, READS * sizeof *reads); /* there before, as the callers' own */
  atomic_uint left = READS, failed = 0;
  char url[200];
  snprintf(url, sizeof url, "%s/bench/%s", server->url, GET_OBJECT);
  malloc_trim(0);
  long idle_kb = status_kb("VmRSS:");
  forget_peak();
  for (unsigned i = 0; i < READS; i++) {
    read_call *r = &reads[i];
    *r = (read_call){.left = &left, .failed = &failed};
    lki_buffer_init(&r->sink, env, PUT_BYTES);
    r->call.request = (lki_http_request){.method = "GET",
                                         .url = url,
                                         .sink = &r->sink,
                                         .expect_bytes = PUT_BYTES,
                                         .deadline = lake_deadline_after_ms(env, 600 * 1000)};
    r->call.done = on_read;
    r->call.ctx = r;
    lki_http_submit(http, &r->call);
  }
  while (atomic_load(&left) > 0) lki_sleep_until(env, lki_after_ns(env, 1000000));
  long peak_kb = status_kb("VmHWM:");
  must(atomic_load(&failed) == 0, "a read failed");
  lki_http_stats stats;
  lki_http_stats_get(http, &stats);
  double above = (double)(peak_kb - idle_kb) * 1024;
  printf("{\"bench\":\"store\",\"load\":\"%u reads of 10 MB at "
         "once\",\"budget_mb\":%.0f,\"in_flight_peak_mb\":%.1f,"
         "\"rss_peak_above_idle_mb\":%.1f,\"of_budget\":%.3f}\n",
         READS, (double)BUDGET_BYTES / 1e6, (double)stats.in_flight_bytes_peak / 1e6, above / 1e6,
         above / (double)BUDGET_BYTES);
  fflush(stdout);
  lki_http_close(http);
  free(reads);
  faultd_stop(server);
}

static bool wanted(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], name) == 0) return true;
  return argc == 1;
}

int main(int argc, char **argv) {
  lake_error err = LAKE_ERROR_INIT;
  bool ok = true;
  check(lake_env_open(NULL, &env, &err), &err);
  payload = malloc(PUT_BYTES);
  must(payload != NULL, "no memory");
  lki_random(env, payload, PUT_BYTES);
  curl_global_init(CURL_GLOBAL_DEFAULT);
  if (wanted(argc, argv, "latency")) bench_latency();
  if (wanted(argc, argv, "memory")) bench_memory();
  if (wanted(argc, argv, "rgw")) ok = bench_rgw();
  free(payload);
  lake_env_close(env);
  return ok ? 0 : 77;
}

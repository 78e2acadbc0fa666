/* Signs the requests that stand on stdin, one JSON object a line, and prints a JSON object for each: what was signed, the
 * header that came of it, and the URL that would be sent. For tests/property/sign_oracle.sh. */
#include "base/buffer.h"
#include "base/env.h"
#include "base/json.h"
#include "store/sign.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

static void die(const char *what, const lake_error *err) {
  fprintf(stderr, "signer: %s: %s\n", what, err != NULL ? err->text : "");
  exit(1);
}

static const char *text(const lki_json *json, const char *name) {
  return lki_json_string(lki_json_get(json, name));
}

/* [["name", "value"], ...] */
static void add_pairs(lki_request *request, const lki_json *pairs, void (*add)(lki_request *, const char *, const char *)) {
  for (const lki_json *pair = lki_json_first(pairs); pair != NULL; pair = lki_json_next(pair)) {
    const lki_json *name = lki_json_first(pair);
    add(request, lki_json_string(name), lki_json_string(lki_json_next(name)));
  }
}

static const char *value_of(const lki_request *request, const char *name) {
  for (size_t i = 0; i < request->header_count; i++)
    if (strcmp(request->headers[i].name, name) == 0) return request->headers[i].value;
  return "";
}

static void answer(lake_env *env, lki_request *request) {
  lki_http_request out = {0};
  const char *canonical = NULL, *names = NULL;
  lake_buffer line;
  lki_buffer_init(&line, env, (size_t)1 << 24);
  if (!lki_v4_canonical(request, value_of(request, "x-amz-content-sha256"), &canonical, &names)) die("canonical", NULL);
  lki_json *json = lki_json_new_object();
  lki_json_add_string(json, "canonical", canonical);
  lki_json_add_string(json, "authorization", value_of(request, "authorization"));
  if (lki_request_finish(request, &out, NULL) == LAKE_OK) lki_json_add_string(json, "url", out.url);
  if (lki_json_print(json, false, &line, NULL) != LAKE_OK) die("printing", NULL);
  fwrite(line.data, 1, line.bytes, stdout);
  putchar('\n');
  lki_json_free(json);
  lki_buffer_free(&line);
}

static void one(lake_env *env, lki_day_key *day, const char *line, size_t bytes) {
  lki_json *json = NULL;
  lake_error err = LAKE_ERROR_INIT;
  lki_request request;
  if (lki_json_parse((lake_bytes){line, bytes}, "request", &json, &err) != LAKE_OK) die("request", &err);
  lki_request_init(&request, env, text(json, "method"), text(json, "origin"), text(json, "path"));
  add_pairs(&request, lki_json_get(json, "query"), lki_request_query);
  add_pairs(&request, lki_json_get(json, "headers"), lki_request_header);
  const char *body = text(json, "body");
  request.body = (lake_bytes){body, strlen(body)};
  const lki_credentials credentials = {
      .key_id = text(json, "key_id"), .secret = text(json, "secret"), .session = text(json, "session")};
  uint64_t wall_s = 0;
  bool no_payload = false;
  if (!lki_json_u64(lki_json_get(json, "time"), &wall_s) || !lki_json_bool(lki_json_get(json, "unsigned"), &no_payload))
    die("time or unsigned", NULL);
  if (lki_sign_v4(&request, &lki_v4_aws, &credentials, text(json, "region"), (int64_t)wall_s, no_payload, day, &err) != LAKE_OK)
    die("signing", &err);
  if (request.failed) die("building", NULL);
  answer(env, &request);
  lki_request_free(&request);
  lki_json_free(json);
}

int main(void) {
  lake_env *env = NULL;
  if (lake_env_open(NULL, &env, NULL) != LAKE_OK) return 1;
  lki_day_key *day = lki_day_key_open(env);
  if (day == NULL) return 1;
  char *line = NULL;
  size_t room = 0;
  ssize_t bytes = 0;
  while ((bytes = getline(&line, &room, stdin)) > 0) one(env, day, line, (size_t)bytes);
  free(line);
  lki_day_key_close(day);
  lake_env_close(env);
  return 0;
}

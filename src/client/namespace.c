/* Creating and opening a namespace, sealing it. The handle is immutable after opening; its log has a lock of its own. */
#include "client/namespace.h"
#include "base/env.h"
#include "client/proof.h"
#include "client/trust.h"
#include "format/names.h"
#include "store/checked.h"
#include <inttypes.h>
#include <string.h>

typedef struct schema_check {
  lake_env *env;
  lki_schema *schema;
} schema_check;

static lake_status check_schema(void *ctx, lake_bytes bytes, const lake_object_info *info, lake_error *err) {
  (void)info;
  schema_check *c = ctx;
  return lki_namespace_decode(c->env, bytes, LKI_NAME_NAMESPACE, &c->schema, err);
}

static lake_status read_schema(lake_store *store, lake_deadline deadline, lki_schema **out, lake_error *err) {
  lake_env *env = lki_store_env(store);
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, (size_t)1 << 20);
  schema_check check = {env, NULL};
  lake_status s = lki_store_get_checked(store, LKI_NAME_NAMESPACE, lki_range_whole(), &bytes, check_schema, &check,
                                        deadline, err);
  lki_buffer_free(&bytes);
  if (s == LAKE_NOTFOUND)
    s = lki_fail(err, LAKE_NOTFOUND, "no namespace at %s (there is no %s); check the URL, or create it with lake init",
                 lki_store_url(store), LKI_NAME_NAMESPACE);
  if (s == LAKE_OK) *out = check.schema;
  return s;
}

/* Takes the schema, also on failure. */
static lake_status make_handle(lake_store *store, bool owns_store, lki_schema *schema, lake_namespace **out,
                               lake_error *err) {
  lake_env *env = lki_store_env(store);
  lake_namespace *ns = lki_new(env, sizeof *ns);
  if (ns == NULL) {
    lki_schema_free(schema);
    return lki_fail(err, LAKE_NOMEM, "out of memory while opening a namespace");
  }
  ns->env = env;
  ns->store = store;
  ns->schema = schema;
  lake_status s = lki_log_open(store, schema, &ns->log, err);
  if (s == LAKE_OK) {
    ns->owns_store = owns_store;
    *out = ns;
  } else {
    lake_namespace_close(ns);
  }
  return s;
}

static lake_status open_on(lake_store *store, bool owns_store, lake_deadline deadline, lake_namespace **out,
                           lake_error *err) {
  lki_schema *schema = NULL;
  lake_status s = read_schema(store, deadline, &schema, err);
  return s == LAKE_OK ? make_handle(store, owns_store, schema, out, err) : s;
}

/* What stands at the name: OK, ours by its uuid; EXISTS, another's; else it could not be read. */
static lake_status read_owner(lake_store *store, lki_id id, lake_deadline deadline, lake_error *err) {
  lki_schema *found = NULL;
  lake_status s = read_schema(store, deadline, &found, err);
  if (s == LAKE_OK && !lki_id_equal(found->namespace_id, id)) {
    char uuid[37];
    lki_id_format(found->namespace_id, uuid);
    s = lki_fail(err, LAKE_EXISTS, "%s already holds namespace %s; open it, or choose a fresh prefix",
                 lki_store_url(store), uuid);
  }
  lki_schema_free(found);
  return s;
}

/* Whether a namespace may be created on a service: read first, since creating alone, on one that takes no heed of
 * conditions (it may have been proven before its settings were changed), would overwrite what is there. */
static lake_status check_vacant(lake_store *store, lki_id id, lake_deadline deadline, lake_error *err) {
  lake_error e = LAKE_ERROR_INIT;
  lake_status s = lki_proof_wanted(lki_store_url(store)) ? read_owner(store, id, deadline, &e) : LAKE_NOTFOUND;
  if (s == LAKE_NOTFOUND) return LAKE_OK;
  if (s == LAKE_CORRUPT)
    lki_error_prefix(&e, "%s cannot hold a namespace, since something else is at %s; check the URL and the endpoint",
                     lki_store_url(store), LKI_NAME_NAMESPACE);
  lki_error_copy(err, &e);
  return s;
}

/* Creates lakestream.json. A reply that could be about an earlier try of ours is resolved by its uuid; while there is
 * nothing at the name the put may still be on its way, so the same bytes are sent again until somebody owns it. */
static lake_status put_schema(lake_store *store, lki_id id, lake_bytes bytes, lake_deadline deadline, lake_error *err) {
  lake_env *env = lki_store_env(store);
  lake_error cause = LAKE_ERROR_INIT, back = LAKE_ERROR_INIT;
  bool doubtful = false; /* a put was sent whose outcome its reply did not tell */
  for (;;) { /* ended by an owner, a refusal or the deadline */
    lake_status s = lki_store_put_if_absent(store, LKI_NAME_NAMESPACE, bytes, deadline, &cause);
    if (s == LAKE_OK) return s;
    doubtful = doubtful || s == LAKE_UNCERTAIN;
    lake_status r = read_owner(store, id, deadline, &back);
    if (r == LAKE_OK) return r;
    if (r == LAKE_EXISTS || (s == LAKE_EXISTS && !doubtful)) {
      lki_error_copy(err, &back);
      return r;
    }
    if (!doubtful) {
      lki_error_copy(err, &cause);
      return s;
    }
    if (lki_deadline_passed(env, deadline)) break;
    const uint64_t until_ns = lki_after_ns(env, (uint64_t)(200e6 * lki_random_unit(env)));
    lki_sleep_until(env, until_ns < deadline.at_ns ? until_ns : deadline.at_ns);
  }
  return lki_fail(err, LAKE_UNCERTAIN, "it is not known whether the namespace at %s was created (%s); create it again, and "
                  "if it exists then, open it and see whether it is what was wanted", lki_store_url(store), cause.text);
}

/* All memory is there before anything is written, so that NOMEM means that nothing was. */
static lake_status create_on(lake_store *store, bool owns_store, const lake_namespace_options *options,
                             lake_deadline deadline, lake_namespace **out, lake_error *err) {
  lake_env *env = lki_store_env(store);
  lki_schema *schema = NULL;
  lake_namespace *ns = NULL;
  lake_buffer bytes;
  lki_buffer_init(&bytes, env, (size_t)1 << 20);
  lki_id id;
  lki_random(env, &id, sizeof id);
  lake_status s = lki_schema_new(env, options, id, &schema, err);
  if (s == LAKE_OK) s = check_vacant(store, id, deadline, err);
  if (s == LAKE_OK) s = lki_trust_new(store, owns_store, schema, deadline, err);
  if (s == LAKE_OK) s = lki_namespace_encode(schema, &bytes, err);
  if (s == LAKE_OK && out != NULL) {
    s = make_handle(store, false, schema, &ns, err);
    schema = NULL;
  }
  if (s == LAKE_OK) s = put_schema(store, id, lki_buffer_view(&bytes), deadline, err);
  if (s == LAKE_OK && out != NULL) {
    ns->owns_store = owns_store;
    *out = ns;
    ns = NULL;
  }
  lake_namespace_close(ns);
  lki_buffer_free(&bytes);
  lki_schema_free(schema);
  return s;
}

lake_status lake_namespace_open_store(lake_env *env, lake_store *store, lake_deadline deadline, lake_namespace **out,
                                      lake_error *err) {
  (void)env;
  return open_on(store, false, deadline, out, err);
}

lake_status lake_namespace_create_store(lake_env *env, lake_store *store, const lake_namespace_options *options,
                                        lake_deadline deadline, lake_namespace **out, lake_error *err) {
  (void)env;
  return create_on(store, false, options, deadline, out, err);
}

lake_status lake_namespace_open(lake_env *env, const char *url, lake_deadline deadline, lake_namespace **out,
                                lake_error *err) {
  lake_store *store = NULL;
  lake_status s = lake_store_open(env, url, &store, err);
  if (s != LAKE_OK) return s;
  s = open_on(store, true, deadline, out, err);
  if (s != LAKE_OK) lake_store_close(store);
  return s;
}

lake_status lake_namespace_create(lake_env *env, const char *url, const lake_namespace_options *options,
                                  lake_deadline deadline, lake_namespace **out, lake_error *err) {
  lake_store *store = NULL;
  lake_status s = lake_store_open(env, url, &store, err);
  if (s != LAKE_OK) return s;
  s = create_on(store, true, options, deadline, out, err);
  if (s != LAKE_OK || out == NULL) lake_store_close(store);
  return s;
}

void lake_namespace_close(lake_namespace *ns) {
  if (ns == NULL) return;
  lki_log_close(ns->log);
  lki_schema_free(ns->schema);
  if (ns->owns_store) lake_store_close(ns->store);
  lki_free(ns->env, ns);
}

void lake_namespace_info_get(const lake_namespace *ns, lake_namespace_info *info) {
  const lki_schema *schema = ns->schema;
  memset(info, 0, sizeof *info);
  lki_id_format(schema->namespace_id, info->uuid);
  info->mesh = schema->mesh;
  info->rows_per_slice = schema->rows_per_slice;
  info->tensor_count = schema->tensor_count;
  info->tensors = schema->tensors;
  info->codec = schema->codec;
  info->tail_max = schema->tail_max;
  info->version_block = schema->version_block;
  info->slice_bytes = schema->slice_bytes;
  info->note = schema->note;
  info->url = lki_store_url(ns->store);
}

void lake_namespace_stats_get(const lake_namespace *ns, lake_store_stats *stats) {
  lake_store_stats_get(ns->store, stats);
}

lake_status lake_slice_tensors(const lake_namespace *ns, const void *slice, size_t slice_bytes, lake_tensor *tensors,
                               uint32_t capacity, uint32_t *count, lake_error *err) {
  return lki_schema_slice_tensors(ns->schema, slice, slice_bytes, tensors, capacity, count, err);
}

lake_status lake_namespace_seal(lake_namespace *ns, lake_deadline deadline, uint64_t *step_count, lake_error *err) {
  lake_status s = lki_check_process(ns->env, "the namespace", err);
  if (s != LAKE_OK) return s;
  char owner[LKI_OWNER_BYTES_MAX];
  lki_owner_text(owner, sizeof owner);
  lki_change change = {.kind = LKI_CHANGE_SEAL};
  lki_commit_result result;
  s = lki_log_commit(ns->log, &change, owner, deadline, &result, err);
  if (s == LAKE_EXISTS) s = LAKE_OK; /* somebody sealed it: that is what was asked for */
  if (s == LAKE_OK && step_count != NULL) *step_count = result.manifest->next_step;
  lki_manifest_release(result.manifest);
  return s;
}

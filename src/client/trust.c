/* Proof before trust. A handle remembers that its store was proven; two threads that come at once may both ask, which
 * does no harm. */
#include "client/trust.h"
#include "base/env.h"
#include "base/error.h"
#include "client/proof.h"
#include <stdatomic.h>
#include <string.h>

static lake_status prove(lake_store *store, bool reopen, lake_deadline deadline, lake_error *err) {
  lake_env *env = lki_store_env(store);
  lake_store *second = NULL;
  lki_proof_report report;
  if (reopen) {
    const lake_status s = lake_store_open(env, lki_store_url(store), &second, err);
    if (s != LAKE_OK) return s;
  }
  const lake_status s = lki_store_prove(store, second != NULL ? second : store, &lki_proof_short, &report, deadline, err);
  lake_store_close(second);
  return s;
}

/* The store failed, and somebody wants it all the same. */
static void warn(lake_store *store, const lake_error *err) {
  lki_note(lki_store_env(store), LAKE_LOG_WARN, "%s; forced: what is committed there may be lost", err->text);
}

lake_status lki_trust_new(lake_store *store, bool reopen, lki_schema *schema, lake_deadline deadline, lake_error *err) {
  const bool forced = schema->store_mark == LKI_STORE_FORCED;
  lake_error e = LAKE_ERROR_INIT;
  schema->store_mark = LKI_STORE_UNPROVEN;
  if (!lki_proof_wanted(lki_store_url(store))) return LAKE_OK;
  const lake_status s = prove(store, reopen, deadline, &e);
  if (s == LAKE_OK) schema->store_mark = LKI_STORE_PROVEN;
  if (s == LAKE_OK) return s;
  if (s == LAKE_UNSUPPORTED && forced) {
    warn(store, &e);
    schema->store_mark = LKI_STORE_FORCED;
    return LAKE_OK;
  }
  lki_error_copy(err, &e);
  return s;
}

lake_status lki_trust_check(lake_namespace *ns, lake_deadline deadline, lake_error *err) {
  lake_error e = LAKE_ERROR_INIT;
  if (ns->schema->store_mark != LKI_STORE_UNPROVEN || !lki_proof_wanted(lki_store_url(ns->store))) return LAKE_OK;
  if (atomic_load(&ns->store_proven)) return LAKE_OK;
  lake_status s = prove(ns->store, ns->owns_store, deadline, &e);
  const char *force = s == LAKE_UNSUPPORTED ? lki_getenv("LAKESTREAM_FORCE") : NULL;
  if (force != NULL && strcmp(force, "1") == 0) {
    warn(ns->store, &e);
    s = LAKE_OK;
  }
  if (s == LAKE_OK) atomic_store(&ns->store_proven, true);
  else lki_error_copy(err, &e);
  return s;
}

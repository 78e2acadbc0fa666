/* What checks that were killed have left below doctor/. A run's name begins with the second in which it began, by the
 * clock of its machine; a day later nobody is at it any more, whatever the clocks. Nothing else rests on that, and what
 * has another name is left alone. Asked only of a store that has just kept its promises. */
#include "client/page.h"
#include "client/proof_inner.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define OLD_S ((uint64_t)24 * 3600)
#define STAMP_DIGITS 10u

void lki_proof_name_run(lake_env *env, uint64_t nonce, char prefix[LKI_PROOF_RUN_BYTES]) {
  snprintf(prefix, LKI_PROOF_RUN_BYTES, LKI_PROOF_PREFIX "%010" PRIu64 "-%016" PRIx64 "/",
           lki_wall_ns(env) / 1000000000u % 10000000000u, nonce);
}

bool lki_proof_run_is_old(lake_env *env, const char *key) {
  const size_t prefix_bytes = sizeof LKI_PROOF_PREFIX - 1;
  if (strncmp(key, LKI_PROOF_PREFIX, prefix_bytes) != 0) return false;
  const char *at = key + prefix_bytes;
  if (strspn(at, "0123456789") != STAMP_DIGITS || at[STAMP_DIGITS] != '-') return false;
  if (strspn(at + STAMP_DIGITS + 1, "0123456789abcdef") != 16 || at[STAMP_DIGITS + 17] != '/') return false;
  uint64_t began_s = 0;
  for (size_t i = 0; i < STAMP_DIGITS; i++) began_s = began_s * 10 + (uint64_t)(at[i] - '0');
  return began_s + OLD_S < lki_wall_ns(env) / 1000000000u;
}

static lki_page_verdict judge(void *ctx, const char *key, uint64_t object_bytes) {
  const lki_proof *p = ctx;
  (void)object_bytes;
  return lki_proof_run_is_old(p->env, key) ? LKI_PAGE_TAKE : LKI_PAGE_SKIP;
}

void lki_proof_sweep(lki_proof *p) {
  lki_page *page = lki_new(p->env, sizeof *page);
  if (page == NULL) return;
  lki_page_init(page, p->env);
  lake_status s = LAKE_OK;
  while (s == LAKE_OK && !page->last) {
    s = lki_page_read(page, p->stores[0], LKI_PROOF_PREFIX, judge, p, lki_proof_until(p), NULL);
    for (uint32_t i = 0; s == LAKE_OK && i < page->count; i++) {
      if (p->options->stop != NULL && p->options->stop(p->options->ctx)) s = LAKE_CANCELED;
      if (s == LAKE_OK) s = lki_store_remove(p->stores[0], page->keys[i], lki_proof_until(p), NULL);
      if (s == LAKE_OK) p->report->old_count++;
    }
  }
  lki_page_free(page);
  lki_free(p->env, page);
}

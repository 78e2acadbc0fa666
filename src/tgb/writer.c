/* Writing a TGB's object. */
#include "format/names.h"
#include "tgb/tgb.h"

lake_status lki_tgb_write(lake_store *store, const char *producer_id, uint64_t epoch, uint64_t seq, lake_bytes object,
                          lake_deadline deadline, lake_error *err) {
  char name[LKI_NAME_BYTES];
  lki_name_tgb(name, producer_id, epoch, seq);
  return lki_store_put(store, name, object, deadline, err);
}

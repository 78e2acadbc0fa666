/* The state's text. No state of its own. */
#include "feed/place.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT_FORMAT(n64, x64)                                                                                         \
  "text1 list=%016" x64 " config=%016" x64 " pass=%" n64 " file=%" n64 " document=%" n64 " at=%" n64 " token=%" n64

size_t lki_feed_place_format(const lki_feed_place *p, char text[LKI_FEED_STATE_BYTES]) {
  int n = snprintf(text, LKI_FEED_STATE_BYTES, TEXT_FORMAT(PRIu64, PRIx64), p->list_hash, p->config_hash, p->pass,
                   p->document.file, p->document.ordinal, p->document.at, p->token);
  return (size_t)n; /* at most 185: the words, two times 16 digits, five times 20 */
}

lake_status lki_feed_place_parse(lake_bytes state, lki_feed_place *place, lake_error *err) {
  char text[LKI_FEED_STATE_BYTES + 1], again[LKI_FEED_STATE_BYTES];
  lki_feed_place p = {0};
  bool good = state.bytes < sizeof again;
  if (good) {
    memcpy(text, state.data, state.bytes);
    text[state.bytes] = 0;
    good = sscanf(text,
                  "text1 list=%" SCNx64 " config=%" SCNx64 " pass=%" SCNu64 " file=%" SCNu64 " document=%" SCNu64
                  " at=%" SCNu64 " token=%" SCNu64,
                  &p.list_hash, &p.config_hash, &p.pass, &p.document.file, &p.document.ordinal, &p.document.at,
                  &p.token) == 7;
  }
  /* scanf is lenient about blanks, signs and overflow; the one true text is not. */
  if (good) good = lki_feed_place_format(&p, again) == state.bytes && memcmp(again, state.data, state.bytes) == 0;
  if (!good)
    return lki_fail(err, LAKE_INVALID,
                    "this producer id was used by something else than the text feeder; choose another --id");
  *place = p;
  return LAKE_OK;
}

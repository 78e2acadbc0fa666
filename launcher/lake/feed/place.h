/* A feeder's state as the producer keeps it: where in its input the next TGB begins. Pure. */
#ifndef LKI_FEED_PLACE_H
#define LKI_FEED_PLACE_H

#include "feed/input.h"

#define LKI_FEED_STATE_BYTES 256

typedef struct lki_feed_place {
  uint64_t list_hash;   /* of the input files: another input is refused */
  uint64_t config_hash; /* of all options that decide the bytes: other options are refused */
  uint64_t pass;        /* over the input, from 0 */
  lki_input_place document;
  uint64_t token; /* first token of that document that is not in a TGB yet */
} lki_feed_place;

/* One line of printable text, which `lake ls --producers` shows as it is. Returns its length. */
size_t lki_feed_place_format(const lki_feed_place *place, char text[LKI_FEED_STATE_BYTES]);
/* INVALID: not the state of a text feeder. */
lake_status lki_feed_place_parse(lake_bytes state, lki_feed_place *place, lake_error *err);

#endif

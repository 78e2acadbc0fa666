/* A store that does not keep its promises: wraps a store in memory and lies in one way. Two handles of one name are two
 * connections to it. For tests of the proof. */
#ifndef LAKE_TESTS_LIAR_H
#define LAKE_TESTS_LIAR_H

#include "support/support.h"

typedef enum liar_lie {
  LIE_NONE,
  LIE_CONDITION_IGNORED,  /* a create always writes and says OK */
  LIE_CONDITION_INVERTED, /* a create writes only over what is there */
  LIE_TWO_WINNERS,        /* in a race the second writer is told that it created the name, too */
  LIE_OVERWRITTEN,        /* in a race the second writer is refused, but its bytes stay */
  LIE_TAKEN_BY_NOBODY,    /* in a race all are refused */
  LIE_OTHER_COPY,         /* the second connection reads what nobody wrote over the first */
  LIE_LIST_MISSES,        /* a listing lacks the newest object */
  LIE_LIST_REMOVED,       /* a listing shows one that was removed */
  LIE_LIST_BY_FOLDER,     /* a listing is in the order of folders, as if '/' came before all other characters */
  LIE_LIST_SIZE,          /* a listing tells other sizes */
  LIE_RANGE_SHIFTED,      /* ranges begin one byte late */
  LIE_RANGE_WHOLE,        /* ranges do not count: the whole object comes */
  LIE_RANGE_REFUSED,      /* ranges are not answered */
  LIE_RANGE_PAST_END,     /* a range past the end is filled up */
  LIE_SUFFIX_IS_HEAD,     /* the last bytes are the first ones */
  LIE_HEAD_SIZE,          /* head tells another size */
  LIE_REMOVE_NOTHING,     /* what is removed stays */
  LIE_GET_STAYS_EMPTY,    /* a get that found nothing is answered so for ever */
  LIE_HEAD_STAYS_EMPTY,   /* the same of a head */
  LIE_NAME_SPENT,         /* what was removed is gone, but its name stays taken */
  LIE_REMOVED_RETURNS,    /* what was removed is there again once somebody creates its name */
  /* Not lies: what happens with honest stores. */
  TRUE_REPLIES_LOST,      /* a third of the creates is done and answered UNCERTAIN, a third of those done EXISTS */
  TRUE_BUSY,              /* in a race nobody gets through */
  TRUE_RECREATE_UNDECIDED, /* the first create of a removed name is not carried out and answered UNCERTAIN */
  TRUE_RECREATE_BUSY,     /* the same, answered UNAVAILABLE */
  TRUE_REMOVE_DENIED,
  TRUE_CREATE_DENIED
} liar_lie;

/* Asserts. label: what the store is called, such as "s3://bucket/liar". Handles of one env share the objects. */
lake_store *liar_open(lake_env *env, const char *label, liar_lie told, uint32_t connection);
/* Objects that are there now. */
uint64_t liar_object_count(lake_env *env);

#endif

/* Planted bugs: mistakes that a careful engineer could make in the protocol, one of which a test build switches on, to
 * see that the simulator finds it. In every other build LKI_PLANTED is the constant 0 and the compiler drops the
 * mistake; the names and the switch are not even there. */
#ifndef LKI_BASE_PLANTED_H
#define LKI_BASE_PLANTED_H

#ifdef LAKE_PLANTED
#include <stdbool.h>

/* X(NAME, PAIRED, what is wrong). PAIRED 1: the writer's own check of what it is about to write may stop it, so that
 * the bug is tried with that check switched off as well. */
#define LKI_PLANTED_BUGS(X)                                                                                           \
  X(ALIVE_UNCHECKED_AFTER_CREATE, 0, "a version that was created is believed without a look at the boundary")        \
  X(ALIVE_UNCHECKED_AFTER_LOAD, 0, "a version that was loaded is believed without a look at the boundary")           \
  X(MISSING_IS_NOTHING_NEW, 0, "a missing next version means nothing new, even under the boundary")                  \
  X(MARK_OF_WRONG_BLOCK, 0, "the boundary is looked for one block too high")                                         \
  X(TAKEN_IS_OURS, 0, "a name that is taken after a doubtful put is taken by oneself")                               \
  X(TAKEN_IS_LOST, 0, "a name that is taken is always another's: it is not read back")                               \
  X(UNDECIDED_IS_TAKEN, 0, "a put without a certain answer (409, time-out) counts as a lost race")                   \
  X(UNCERTAIN_IS_DONE, 0, "a put without a certain answer counts as done")                                           \
  X(UNCERTAIN_IS_FAILED, 0, "a put without a certain answer counts as failed")                                       \
  X(UNCERTAIN_IS_UNDONE, 0, "after a put without a certain answer the name is removed, to be sure")                  \
  X(MISSING_IS_LOST, 0, "a 404 on the read-back is taken for the answer")                                            \
  X(RETRY_OVERWRITES, 0, "the put that is sent again is not conditional any more")                                   \
  X(CONTENT_IS_IDENTITY, 0, "the read-back compares what was written, not who wrote it")                             \
  X(ATTEMPT_ID_OF_WRITER, 0, "the attempt id is the same for all attempts of a writer")                              \
  X(STALE_REBASE, 0, "after a lost race the winner's version number is taken, not its content")                      \
  X(REBASE_REPEATS, 1, "what an earlier attempt made visible is appended again")                                     \
  X(REBASE_SKIPS_ONE, 1, "one TGB too many counts as visible already when others went first")                        \
  X(RETIRED_IS_FORGOTTEN, 1, "a retired producer's seq and offset start again at 0")                                 \
  X(NOT_FENCED, 1, "an older epoch goes on appending")                                                               \
  X(EPOCH_ADOPTED, 0, "an older epoch appends in the newer one's name")                                              \
  X(CLAIM_KEEPS_EPOCH, 0, "opening a producer id again does not raise its epoch")                                    \
  X(RESUME_BEFORE_CLAIM, 0, "a producer resumes from what it read before its claim")                                 \
  X(SEQ_REUSED, 0, "a producer resumes with the seq that was committed last")                                        \
  X(OFFSET_LEFT_BEHIND, 0, "an append does not move the offset")                                                     \
  X(STATE_LEFT_BEHIND, 0, "an append does not replace the state")                                                    \
  X(OFFSET_AHEAD, 0, "a commit takes the offset of the TGB that was appended last, not of its own last one")         \
  X(PUT_UNCERTAIN_IS_DURABLE, 0, "an upload without a certain answer counts as durable")                             \
  X(FLUSH_AT_DURABLE, 0, "flush returns when all is durable but not yet committed")                                  \
  X(SETTLED_ONE_TOO_MANY, 0, "one TGB more than the manifest shows counts as committed")                             \
  X(SETTLED_BY_ANY_EPOCH, 0, "another epoch's TGBs count as one's own")                                              \
  X(FENCED_TELLS_NOTHING, 0, "what of a fenced producer is in after all is not counted as committed")                \
  X(SEALED_TAKES_APPENDS, 1, "a sealed stream goes on")                                                              \
  X(SEAL_DROPS_ONE, 1, "one descriptor too many leaves the tail when a run is sealed")                               \
  X(SEAL_SHIFTED, 0, "a segment begins one descriptor too late")                                                     \
  X(SEGMENT_ID_MIXED, 0, "a segment's descriptor refers to the producer that was met last")                          \
  X(SEGMENT_NOT_DURABLE, 0, "a segment counts as written before it is")                                              \
  X(ROOT_FORGETS_CHILD, 1, "a new root segment leaves out the newest segment")                                       \
  X(RECLAIM_BEFORE_MARK, 0, "manifests are deleted before their boundary is raised")                                 \
  X(RECLAIM_TAKES_NEWEST, 0, "the newest manifest is deleted with the old ones")                                     \
  X(RING_OVERRUN, 0, "the prefetch window is one slot longer than its ring")                                         \
  X(RETRY_MOVES_ON, 0, "a slice that is fetched again is the next step's")                                           \
  X(CURSOR_AT_PREFETCH, 0, "the cursor stands where the prefetch is, not the caller")                                \
  X(CURSOR_ONE_BACK, 0, "the cursor stands at the step that was delivered last")                                     \
  X(END_ONE_EARLY, 0, "the stream ends before its last step")                                                        \
  X(ANNOUNCED_EARLY, 0, "a TGB is announced before its object is durable")                                             \
  X(CARGO_OF_ANY_EPOCH, 0, "what a fenced producer announced is carried")                                              \
  X(CARGO_OF_ANY_SEQ, 1, "an announced TGB is carried though the one before it is missing")                            \
  X(WRONG_SLICE, 0, "a rank reads the slice of rank 0")

#define LKI_PLANT_ENUM(name, paired, text) LKI_PLANT_##name,
typedef enum lki_planted_bug { LKI_PLANT_NONE, LKI_PLANTED_BUGS(LKI_PLANT_ENUM) LKI_PLANT_COUNT } lki_planted_bug;

/* Defined by the test program, and set by it alone. */
extern lki_planted_bug lki_planted; /* the one that is switched on */
extern bool lki_planted_blind;      /* the writer's own checks are switched off */

#define LKI_PLANTED(name) (lki_planted == LKI_PLANT_##name)
#define LKI_PLANTED_BLIND lki_planted_blind
#else
#define LKI_PLANTED(name) 0
#define LKI_PLANTED_BLIND 0
#endif

#endif

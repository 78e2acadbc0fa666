/* The commit protocol of src/log, small enough to be searched completely: create-if-absent, epochs, the boundary,
 * reclaim. What simulation samples, spin goes through: every order of the steps below.
 *
 *   By hand, in an empty folder, with a copy of this file (tests/model/10-spin.sh does it, and says what must come out):
 *     spin -a commit.pml && cc -O2 -DSAFETY -DCOLLAPSE -DVECTORSZ=1024 -o pan pan.c && ./pan -m100000
 *   "errors: 0" without "Search not completed": it holds (9 million states, half a minute, 600 MB). A mistake is
 *   switched in for spin, and the story of what it does is told afterwards; it ends with "broken: <rule>":
 *     spin -a -DUNGUARDED commit.pml && cc ... && ./pan -m100000 && spin -t -p -DUNGUARDED commit.pml
 *
 *   -DUNGUARDED        reclaim deletes without a boundary, and nobody looks for one
 *   -DCHECK_FIRST      the boundary is looked at before the put instead of after it
 *   -DNO_FENCING       the epoch is not compared when a change is applied
 *   -DNO_RESEND_CHECK  a put without a reply counts as failed, and its seq is used for another content
 *   -DTRUST_EXISTS     "the name exists" counts as lost, without reading whose it is
 *   -DFENCED_SETTLES   FENCED counts as "not committed", without asking the versions: see fenced() below
 *   Sizes, below: -DVERSIONS -DBLOCK -DSTEPS -DLOSSES -DGIVE_UPS.
 *
 * Who takes part. A and S are producers; Z is the zombie, an older process with the producer id of S. There is no time:
 * a process may stand still before any step as long as it likes, so each of them may sleep through claims and
 * reclamations, and never wake, which is a crash. Z is whichever of the two begins first.
 *
 * What a step is. A put and the look at the boundary after it are two steps, with anything in between. A read and the
 * look at the boundary after it are one: a mark stays once it is there, and what was read from an unmarked block is
 * the same until then, so what comes between them comes as well before both. A change is applied and put in one step:
 * applying is a function of the view, so sleeping between them is sleeping before them with an old view.
 *
 * Left out, since it changes no outcome: tail and segments; the hint, LIST and gallop (a writer finds the newest
 * version, sooner or later; the reader looks at every name); retiring and sealing; blocks are marked from old to new. */

#ifndef VERSIONS
#define VERSIONS 5 /* the last name; a writer that gets there stops */
#endif
#ifndef BLOCK
#define BLOCK 2 /* versions to a boundary mark */
#endif
#ifndef STEPS
#define STEPS 1 /* TGBs that each writer appends, each in a commit of its own */
#endif
#ifndef LOSSES
#define LOSSES 1 /* puts in the whole run whose reply is lost: they land now, later or never */
#endif
#ifndef GIVE_UPS
#define GIVE_UPS 1 /* deadlines in the whole run that pass on an unsettled put */
#endif

#define A 0
#define Z 1
#define S 2
#define ID(me) (me != A) /* the producer id: Z and S have the same */

/* An attempt id. A new attempt at the same version is only made after a deadline, so this makes it unique. */
#define ATTEMPT(me, gave_up) (1 + 2 * me + gave_up)
#define WRITER(attempt) ((attempt - 1) / 2)
#define LATE 7 /* stands for any attempt that can no longer be the first under its name */

/* A content: what TGB it is. The odd ones are sent; the next even one is what NO_RESEND_CHECK puts in its place.
 * 0 is a claim. */
#define CONTENT(me, step) (1 + 2 * (STEPS * me + step))
#define CONTENTS (1 + 6 * STEPS)

/* The store: which attempt's manifest lies under a name, 0 if there is none; how many blocks are marked; one request
 * that is still under way though nobody waits for its reply. */
byte name[VERSIONS + 1];
byte boundary;
byte late_version, late_attempt, late_content, late_seq;

/* The truth, which no process sees: each version as it was first created. A writer's view is the number of a version,
 * since it is insisted that whoever believes a version read that very manifest. */
typedef manifest {
  byte attempt;
  byte epoch[2];
  byte next_seq[2]
}
manifest truth[VERSIONS + 1];
byte last;             /* the newest version */
byte seen[CONTENTS];   /* how often a content is in the order of the newest version */
bool denied[CONTENTS]; /* somebody was told that it is not in, and never will be */

byte losses = LOSSES, give_ups = GIVE_UPS, gone;
bool z_began;
hidden byte k;

#ifdef UNGUARDED
#define DEAD(v) false
#define MAY_DELETE(v) (v < last)
#else
#define DEAD(v) ((v) / BLOCK < boundary)
#define MAY_DELETE(v) DEAD(v)
#endif

mtype = {
  I1_ONE_OWNER,     /* whoever believes a version has read the manifest that was created first */
  I3_ONE_ORDER,     /* a version is created on top of the newest one; the order is only added to */
  I4_NO_GAP,        /* an id's seqs are 0, 1, 2, ... in the order */
  I4_NO_REPEAT,     /* and each content is there once */
  I5_COMMITTED,     /* who was told that its TGB is in the order finds it there, once */
  I5_NOT_COMMITTED, /* who was told that it is not will not */
  I7_LOST,          /* who was told that it created a version did; the newest version is never deleted */
  MAP_KEPT          /* what a producer knows of its own entry stays in the map */
}

#define insist(rule, condition) \
  if \
  :: condition \
  :: else -> printf("broken: %e\n", rule); assert(false) \
  fi

/* A put arrives at a free name. Under an old name that is all; at the end it makes the next version. */
inline create(v, attempt_, content_, seq_) {
  name[v] = attempt_;
  if
  :: v <= last
  :: else ->
     insist(I3_ONE_ORDER, v == last + 1);
     k = ID(WRITER(attempt_));
     truth[v].attempt = attempt_;
     truth[v].epoch[0] = truth[last].epoch[0];
     truth[v].epoch[1] = truth[last].epoch[1];
     truth[v].next_seq[0] = truth[last].next_seq[0];
     truth[v].next_seq[1] = truth[last].next_seq[1];
     if
     :: content_ == 0 -> truth[v].epoch[k]++
     :: else ->
        insist(I4_NO_GAP, seq_ == truth[v].next_seq[k]);
        insist(I4_NO_REPEAT, seen[content_] == 0);
        insist(I5_NOT_COMMITTED, !denied[content_]);
        truth[v].next_seq[k]++;
        seen[content_]++
     fi;
     last = v;
     if
     :: late_version == v -> late_attempt = LATE; late_content = 0; late_seq = 0
     :: else
     fi
  fi;
  k = 0
}

mtype = { TRY, PUT, CREATED, READ_BACK, BEHIND, CHECKED, GONE }

/* Parts of a writer's step; they use its variables, and leave in `at` where it stands afterwards. */

inline committed() {
  insist(I5_COMMITTED, seen[content] == 1);
  seq++;
  step++;
  content = CONTENT(me, step);
  at = (step < STEPS -> TRY : GONE)
}

/* FENCED by itself does not tell what became of the TGB: an attempt whose name was reclaimed before its outcome was
 * known, or that was left at a deadline, may be in the order, and the newest map speaks of the newer epoch. The version
 * that claimed it tells for good (src/log/fenced.c), while the one before it can be read, which shows that it is that
 * version. If not, the writer is told that it is not known. -DFENCED_SETTLES claims to know always, and fails. */
inline fenced() {
  k = 1;
  do
  :: truth[k].epoch[ID(me)] > epoch -> break
  :: else -> k++
  od;
  if
#ifdef FENCED_SETTLES
  :: insist(I5_NOT_COMMITTED, seen[content] == 0); denied[content] = true
#else
  :: truth[version].next_seq[ID(me)] > seq && DEAD(k - 1) -> skip
  :: truth[version].next_seq[ID(me)] > seq && !DEAD(k - 1) && truth[k].next_seq[ID(me)] > seq ->
     insist(I5_COMMITTED, seen[content] == 1)
  :: truth[version].next_seq[ID(me)] <= seq || (!DEAD(k - 1) && truth[k].next_seq[ID(me)] <= seq) ->
     insist(I5_NOT_COMMITTED, seen[content] == 0); denied[content] = true
#endif
  fi;
  k = 0;
  at = GONE
}

/* src/model/change.c: whether there is anything to send. */
inline apply() {
  at = PUT;
  if
  :: epoch == 0 -> skip
  :: else ->
#ifndef NO_FENCING
     insist(MAP_KEPT, truth[version].epoch[ID(me)] >= epoch);
     if
     :: truth[version].epoch[ID(me)] > epoch -> fenced()
     :: else -> skip
     fi;
#endif
     if
     :: at == PUT && truth[version].next_seq[ID(me)] > seq -> committed() /* EXISTS */
     :: at == PUT && truth[version].next_seq[ID(me)] <= seq ->
        insist(MAP_KEPT, truth[version].next_seq[ID(me)] == seq)
     :: else -> skip
     fi
  fi;
  if
  :: at == PUT && version == VERSIONS -> at = GONE
#ifdef CHECK_FIRST
  :: at == PUT && version < VERSIONS -> at = (DEAD(version + 1) -> BEHIND : CHECKED) /* and sleeps */
#endif
  :: else -> skip
  fi
}

inline put() {
  if
  :: name[version + 1] == 0 -> create(version + 1, ATTEMPT(me, gave_up), content, seq); at = CREATED
  :: name[version + 1] != 0 ->
#ifdef TRUST_EXISTS /* told that this attempt lost; later the map would tell, but that is what AGAIN means */
     insist(I5_NOT_COMMITTED, truth[version + 1].attempt != ATTEMPT(me, gave_up));
     at = BEHIND
#else
     at = READ_BACK
#endif
  :: losses > 0 && late_version == 0 -> /* no reply, and the request is under way */
     losses--;
     late_version = version + 1; late_attempt = ATTEMPT(me, gave_up); late_content = content; late_seq = seq;
     at = READ_BACK;
#ifdef NO_RESEND_CHECK
     if
     :: content != 0 -> denied[content] = true; gave_up = true; content++; at = TRY
     :: else
     fi
#endif
  fi
}

inline won() {
  version++;
  at = TRY;
  if
  :: epoch == 0 ->
     epoch = truth[version].epoch[ID(me)];
     seq = truth[version].next_seq[ID(me)];
     content = CONTENT(me, 0)
  :: else -> committed()
  fi
}

/* One lki_log_try or lki_log_commit after the other: a claim, then an append for each step. The places:
 * TRY       lki_log_try begins, from the view; or the view is refreshed
 * PUT       the same bytes are sent to the same name again
 * CREATED   the store said that the put created the name; check_alive comes next
 * READ_BACK the store said that the name exists, or nothing; read_back comes next
 * BEHIND    the name was a reclaimed one; lki_log_jump comes next */
proctype writer(byte me) {
  mtype at = TRY;
  byte version, epoch, seq, content, step;
  bool gave_up;

  if
  :: me == A -> epoch = 1; content = CONTENT(A, 0) /* begins with its claim done, to save versions */
  :: me == Z -> z_began = true
  :: me == S -> z_began
  fi;
  do
  :: atomic { (at == TRY || at == BEHIND) && last > version -> version = last; at = TRY }
  :: atomic { at == TRY -> apply(); if :: at == PUT -> put() :: else fi }
  :: atomic { at == PUT || at == CHECKED -> put() }
  :: atomic { at == CREATED ->
       if
#ifndef CHECK_FIRST
       :: DEAD(version + 1) -> at = BEHIND
#endif
       :: else -> insist(I7_LOST, truth[version + 1].attempt == ATTEMPT(me, gave_up)); won()
       fi
     }
  :: atomic { at == READ_BACK ->
       if
       :: DEAD(version + 1) -> at = BEHIND
       :: else ->
          if
          :: name[version + 1] == 0 -> at = PUT
          :: name[version + 1] == 0 && give_ups > 0 && !gave_up -> /* told UNCERTAIN; the caller comes again */
             give_ups--; gave_up = true; at = TRY
          :: name[version + 1] == ATTEMPT(me, gave_up) ->
             insist(I7_LOST, truth[version + 1].attempt == ATTEMPT(me, gave_up)); won()
          :: name[version + 1] != 0 && name[version + 1] != ATTEMPT(me, gave_up) ->
             insist(I1_ONE_OWNER, truth[version + 1].attempt == name[version + 1]); version++; at = TRY
          fi
       fi
     }
  :: atomic { at == GONE -> break }
  od;
  atomic {
    version = 0; epoch = 0; seq = 0; content = 0; step = 0; gave_up = false;
    gone++;
    if
    :: gone == 3 -> insist(I7_LOST, name[last] == truth[last].attempt)
    :: else
    fi
  }
}

proctype network() {
end:
  do
  :: atomic { late_version != 0 ->
       if
       :: name[late_version] == 0 -> create(late_version, late_attempt, late_content, late_seq)
       :: true
       fi;
       late_version = 0; late_attempt = 0; late_content = 0; late_seq = 0
     }
  od
}

/* Any number of reclaimers, at any time: a mark, or the deletion of whatever may be deleted. */
proctype reclaim() {
  byte v;
end:
  do
#ifndef UNGUARDED
  :: boundary < last / BLOCK -> boundary++
#endif
  :: d_step { last > 1 -> v = 1;
       do
       :: v == last -> break
       :: v < last && MAY_DELETE(v) -> name[v] = 0; v++
       :: v < last && !MAY_DELETE(v) -> v++
       od;
       v = 0
     }
  od
}

/* Any number of readers, wherever they stand: each may come upon any name, and believes what its block lets it. */
proctype reader() {
  byte v;
end:
  do
  :: d_step { last > 0 -> v = 1;
       do
       :: v > last -> break
       :: v <= last ->
          insist(I1_ONE_OWNER, name[v] == 0 || DEAD(v) || name[v] == truth[v].attempt);
          v++
       od;
       v = 0
     }
  od
}

init {
  atomic {
    truth[0].epoch[ID(A)] = 1;
    run writer(A); run writer(Z); run writer(S);
    run network(); run reclaim(); run reader()
  }
}

/* Arrival: every rank of the caller's communicator learns that all the others are here, before anything is begun on it
 * that only all together can end.
 *
 * A collective that not all ranks join keeps its place in the order of the communicator's collectives for good, and
 * whatever the caller does there later is paired with the wrong one. So nothing but small messages with a tag of our
 * own travels here: they are paired by rank and tag and disturb neither collectives nor other messages.
 *
 * Rank 0 hosts, the others are guests. A guest says HELLO and is told that it is SEEN. When all have come, rank 0
 * CALLs; a guest that answers PRESENT waits for the word, which is GO or, with the names of the missing, MISSING; or
 * another CALL, when one had left meanwhile. A guest that gives up says BYE. Both sides keep a reserve of their time for
 * what is between a call and the word, so only a rank that is stopped for longer than the reserve just there can be left
 * behind by a GO.
 *
 * What a guest that gave up is sent lies there until its next arrival, which tells it by its nonce. What a rank 0 that
 * was not there was sent is taken in order later, so that HELLO and BYE cancel out. Threading: MPI_THREAD_FUNNELED. */
#include "internal.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAGIC UINT32_C(0x4c414b45)
#define LIST_BYTES 200

enum { NOTHING, HELLO, SEEN, CALL, PRESENT, GO, MISSING, BYE };

typedef struct message {
  uint32_t magic;
  uint32_t kind;
  uint64_t nonce;        /* of the guest's arrival */
  uint64_t round;        /* CALL, and PRESENT as its answer */
  char list[LIST_BYTES]; /* MISSING: the ranks that did not come */
} message;

/* A message under way. MPI may need it after this call is over, so each is allocated. */
typedef struct letter {
  struct letter *next;
  MPI_Request request;
  message message;
} letter;

typedef struct arrival {
  lki_comm *comm; /* its `comm` is the caller's communicator */
  const char *what;
  lake_deadline deadline, call_deadline; /* the reserve lies between the two */
  letter *letters;
  struct timespec pause; /* ranks may share a core: the next look into an empty mailbox comes later and later */
  int looks;
} arrival;

static lake_status send_to(arrival *a, int rank, const message *what, lake_error *err) {
  letter *l = calloc(1, sizeof *l);
  if (l == NULL)
    return lki_mpi_fail(err, LAKE_NOMEM, "rank %d of %d, %s: no memory", a->comm->rank, a->comm->rank_count, a->what);
  l->message = *what;
  l->message.magic = MAGIC;
  int code = MPI_Isend(&l->message, (int)sizeof l->message, MPI_BYTE, rank, LAKE_MPI_TAG, a->comm->comm, &l->request);
  if (code != MPI_SUCCESS) {
    free(l);
    return lki_mpi_failed(a->comm, code, a->what, err);
  }
  l->next = a->letters;
  a->letters = l;
  return LAKE_OK;
}

/* A send cannot be cancelled: what MPI still needs is left to it. */
static void letters_leave(arrival *a) {
  while (a->letters != NULL) {
    letter *l = a->letters;
    int done = 0;
    a->letters = l->next;
    if (MPI_Test(&l->request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done)
      free(l);
    else
      MPI_Request_free(&l->request);
  }
}

/* Takes one message, if there is any; NOTHING: there was none, and a moment has passed. */
static lake_status take(arrival *a, int source, message *got, int *from, lake_error *err) {
  int there = 0, bytes = 0;
  MPI_Message handle = MPI_MESSAGE_NULL;
  MPI_Status about;
  got->kind = NOTHING;
  int code = MPI_Improbe(source, LAKE_MPI_TAG, a->comm->comm, &there, &handle, &about);
  if (code != MPI_SUCCESS) return lki_mpi_failed(a->comm, code, a->what, err);
  if (!there) {
    if (a->looks++ < 100) return LAKE_OK;
    nanosleep(&a->pause, NULL);
    if (a->pause.tv_nsec < 500000) a->pause.tv_nsec *= 2;
    return LAKE_OK;
  }
  a->looks = 0;
  a->pause.tv_nsec = 1000;
  *from = about.MPI_SOURCE;
  code = MPI_Mrecv(got, (int)sizeof *got, MPI_BYTE, &handle, &about);
  if (code == MPI_SUCCESS) code = MPI_Get_count(&about, MPI_BYTE, &bytes);
  if (code != MPI_SUCCESS) return lki_mpi_failed(a->comm, code, a->what, err);
  if (bytes != (int)sizeof *got || got->magic != MAGIC)
    return lki_mpi_fail(err, LAKE_INVALID, "rank %d of %d, %s: rank %d sent a message of its own with tag %d, which is "
                        "LAKE_MPI_TAG; use another tag or give a duplicate", a->comm->rank, a->comm->rank_count, a->what,
                        *from, LAKE_MPI_TAG);
  got->list[sizeof got->list - 1] = '\0';
  return LAKE_OK;
}

/* --- rank 0 ----------------------------------------------------------------------------------------------------- */

typedef struct guest {
  uint64_t nonce; /* from 1 */
  bool came;
  bool present; /* answered this round's call */
} guest;

typedef struct house {
  guest *guests; /* by rank; the first, rank 0 itself, is not used */
  int count;     /* all ranks */
  int came_count;
  int present_count;
  uint64_t round; /* 0: not called yet */
} house;

/* Writes the ranks that have not come or, if all have, those that did not answer: such as "2, 5 and 11 more". */
static void missing_text(const house *h, char *dst, size_t dst_bytes) {
  const bool awaited = h->came_count < h->count - 1;
  int missing = 0;
  size_t used = 0;
  dst[0] = '\0';
  for (int r = 1; r < h->count; r++) {
    if (awaited ? h->guests[r].came : h->guests[r].present) continue;
    if (missing++ >= 8 || used + 16 > dst_bytes) continue;
    used += (size_t)snprintf(dst + used, dst_bytes - used, "%s%d", missing > 1 ? ", " : "", r);
  }
  if (missing > 8) snprintf(dst + used, dst_bytes - used, " and %d more", missing - 8);
}

static lake_status tell_all(arrival *a, const house *h, uint32_t kind, const char *list, lake_error *err) {
  message m = {.kind = kind, .round = h->round};
  lake_status status = LAKE_OK;
  snprintf(m.list, sizeof m.list, "%s", list);
  for (int r = 1; r < h->count && status == LAKE_OK; r++) {
    m.nonce = h->guests[r].nonce;
    if (h->guests[r].came) status = send_to(a, r, &m, err);
  }
  return status;
}

static lake_status hear(arrival *a, house *h, int from, const message *got, lake_error *err) {
  guest *g = &h->guests[from];
  if (got->kind == HELLO) {
    h->came_count += !g->came;
    h->present_count -= g->present;
    *g = (guest){got->nonce, true, false};
    return send_to(a, from, &(message){.kind = SEEN, .nonce = g->nonce}, err);
  }
  if (got->nonce != g->nonce || !g->came) return LAKE_OK; /* left over from an arrival before */
  if (got->kind == PRESENT && got->round == h->round && !g->present) {
    g->present = true;
    h->present_count++;
  } else if (got->kind == BYE) {
    h->came_count--;
    h->present_count -= g->present;
    g->came = g->present = false;
  }
  return LAKE_OK;
}

static bool all_came(const house *h) { return h->came_count == h->count - 1; }
static bool all_present(const house *h) { return h->present_count == h->count - 1; }

/* Until all have come, or, if called, all have answered or one has left; or the time is up. */
static lake_status attend(arrival *a, house *h, bool called, lake_deadline until, lake_error *err) {
  while (called ? all_came(h) && !all_present(h) : !all_came(h)) {
    /* What is there when the time is up came in time. */
    bool late = lki_comm_now_ns(a->comm) >= until.at_ns;
    message got;
    int from = 0;
    lake_status status = take(a, MPI_ANY_SOURCE, &got, &from, err);
    if (status == LAKE_OK && got.kind != NOTHING) status = hear(a, h, from, &got, err);
    if (status != LAKE_OK) return status;
    if (late && got.kind == NOTHING) break;
  }
  return LAKE_OK;
}

/* Each round ends with all present, with one missing at its deadline, or with one that left: then all are awaited again. */
static lake_status host_rounds(arrival *a, house *h, lake_error *err) {
  for (;;) {
    lake_status status = attend(a, h, false, a->call_deadline, err);
    if (status != LAKE_OK || !all_came(h)) return status;
    h->round++;
    h->present_count = 0;
    for (int r = 1; r < h->count; r++) h->guests[r].present = false;
    /* Half of the reserve: the guests count the whole of theirs from about now. */
    uint64_t half_ns = (a->deadline.at_ns - a->call_deadline.at_ns) / 2;
    lake_deadline until = {lki_comm_now_ns(a->comm) + half_ns};
    status = tell_all(a, h, CALL, "", err);
    if (status == LAKE_OK) status = attend(a, h, true, until, err);
    if (status != LAKE_OK || all_came(h)) return status;
  }
}

static lake_status host(arrival *a, lake_error *err) {
  house h = {.count = a->comm->rank_count};
  h.guests = calloc((size_t)h.count, sizeof *h.guests);
  if (h.guests == NULL) return lki_mpi_fail(err, LAKE_NOMEM, "rank 0 of %d, %s: no memory", h.count, a->what);
  char list[LIST_BYTES] = "";
  lake_status status = host_rounds(a, &h, err);
  bool all = status == LAKE_OK && all_came(&h) && all_present(&h);
  if (!all) missing_text(&h, list, sizeof list);
  if (status == LAKE_OK) status = tell_all(a, &h, all ? GO : MISSING, list, err);
  if (status == LAKE_OK && !all)
    status = lki_mpi_fail(err, LAKE_TIMEOUT, "rank 0 of %d, %s: rank %s did not come within the deadline; see that rank's "
                          "log", h.count, a->what, list);
  free(h.guests);
  return status;
}

/* --- the others ------------------------------------------------------------------------------------------------- */

static lake_status give_up(arrival *a, uint64_t nonce, bool seen, lake_error *err) {
  lake_status status = send_to(a, 0, &(message){.kind = BYE, .nonce = nonce}, err);
  if (status != LAKE_OK) return status;
  const char *why = seen ? "rank 0 is here but not all others within the deadline; see rank 0's log"
                         : "rank 0 did not come within the deadline; see that rank's log";
  return lki_mpi_fail(err, LAKE_TIMEOUT, "rank %d of %d, %s: %s", a->comm->rank, a->comm->rank_count, a->what, why);
}

static lake_status visit(arrival *a, lake_error *err) {
  static atomic_uint_least64_t last_nonce;
  const uint64_t nonce = atomic_fetch_add(&last_nonce, 1) + 1;
  bool seen = false;
  lake_status status = send_to(a, 0, &(message){.kind = HELLO, .nonce = nonce}, err);
  while (status == LAKE_OK) {
    uint64_t now_ns = lki_comm_now_ns(a->comm);
    message got;
    int from = 0;
    status = take(a, 0, &got, &from, err);
    if (status != LAKE_OK) break;
    if (got.kind == NOTHING && now_ns >= a->deadline.at_ns) return give_up(a, nonce, seen, err);
    if (got.kind == NOTHING || got.nonce != nonce) continue;
    seen = true;
    if (got.kind == GO) return LAKE_OK;
    if (got.kind == MISSING)
      return lki_mpi_fail(err, LAKE_TIMEOUT, "rank %d of %d, %s: rank %s did not come within the deadline; see that "
                          "rank's log", a->comm->rank, a->comm->rank_count, a->what, got.list);
    if (got.kind != CALL) continue;
    /* Who cannot wait for the word any more must not be counted on. */
    if (now_ns >= a->call_deadline.at_ns) return give_up(a, nonce, seen, err);
    status = send_to(a, 0, &(message){.kind = PRESENT, .nonce = nonce, .round = got.round}, err);
  }
  return status;
}

lake_status lki_comm_arrive(lki_comm *comm, lake_deadline deadline, const char *what, lake_error *err) {
  if (comm->rank_count == 1) return LAKE_OK;
  arrival a = {.comm = comm, .what = what, .deadline = deadline, .pause = {0, 1000}};
  a.call_deadline = lki_comm_work_deadline(comm, deadline);
  lake_status status = comm->rank == 0 ? host(&a, err) : visit(&a, err);
  letters_leave(&a);
  return status;
}

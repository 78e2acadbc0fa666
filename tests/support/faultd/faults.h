/* The 27 faults and the rules that say when they happen. Any thread may call any function.
 *
 *   drop-request            the connection ends, nothing was done
 *   drop-reply              done, then the connection ends without a reply
 *   duplicate               done twice; the reply is the second one's
 *   late-put                500 now (arg=drop: no reply); it is done right after a GET or HEAD of this key got its 404
 *   error-500               nothing was done (arg=applied: it was); so the next three
 *   slowdown-503            with a Retry-After of arg seconds (1)
 *   throttle-429            with a Retry-After of arg seconds (1)
 *   conflict-409-undecided  a race is not over: ask again
 *   taken-409, taken-304    instead of the dialect's own answer that a name is taken (on Azure a 409 it is)
 *   error-200               200 with an error in its body; nothing was done (arg=applied: it was; arg=CODE:PART, where many
 *                           are deleted: only the keys that have PART in them fail, with that code; arg=?CODE:PART: and
 *                           the reply names other ones)
 *   short-body              half of the Content-Length, then the connection ends
 *   close-delimited         no Content-Length, half of the body, then the connection ends
 *   extra-bytes             7 bytes behind the Content-Length, then the connection ends; arg=range: a 206 for a range 7
 *                           bytes longer than asked for
 *   range-ignored           200 with the whole object
 *   range-wrong             206 whose Content-Range is off by arg bytes (1)
 *   bit-flip                one bit in the middle of the body
 *   stale-manifest          what the key's newest change replaced, or 404
 *   stale-list              a listing before the newest arg (1) changes
 *   reset                   half of the body, then a TCP reset
 *   drip                    a byte of the body every arg ms (50)
 *   stall                   no answer, the connection stays
 *   skew                    the clock is arg seconds (960) fast: in Date, and for signed requests, which get a 403
 *   expired-token           the dialect's refusal of a token that has expired
 *   deny-403                the dialect's refusal of who is known and may not do this
 *   ignore-condition        what should only create overwrites
 *   invert-condition        what should only create only overwrites
 */
#ifndef FAULTD_FAULTS_H
#define FAULTD_FAULTS_H

#include "http.h"

typedef enum fault {
  FAULT_DROP_REQUEST, FAULT_DROP_REPLY, FAULT_DUPLICATE, FAULT_LATE_PUT, FAULT_ERROR_500, FAULT_SLOWDOWN,
  FAULT_THROTTLE, FAULT_UNDECIDED, FAULT_TAKEN_409, FAULT_TAKEN_304, FAULT_ERROR_200, FAULT_SHORT_BODY,
  FAULT_CLOSE_DELIMITED, FAULT_EXTRA_BYTES, FAULT_RANGE_IGNORED, FAULT_RANGE_WRONG, FAULT_BIT_FLIP,
  FAULT_STALE_MANIFEST, FAULT_STALE_LIST, FAULT_RESET, FAULT_DRIP, FAULT_STALL, FAULT_SKEW, FAULT_EXPIRED_TOKEN,
  FAULT_DENY, FAULT_IGNORE_CONDITION, FAULT_INVERT_CONDITION, FAULT_COUNT, FAULT_NONE = FAULT_COUNT
} fault;

/* What must be there for a fault to have an effect: a rule waits until it is. */
enum { NEED_NOTHING = 1, NEED_TAKEN = 2, NEED_BODY = 4, NEED_RANGE = 8 };

typedef struct fault_hit {
  fault which;
  char arg[64]; /* "" when the rule has none */
} fault_hit;

typedef struct faults faults;
faults *faults_new(void);

/* One rule a line: <fault> [op=get|put|create|head|list|delete|complete|other|any] [key=<substring>] [count=N|all]
 * [skip=N] [arg=<text>]. key: in "bucket/key" or in the target as it was sent. Without op: wherever the fault makes sense; without count: once, but skew: always. False with
 * the reason in why when a line is no rule; none of the lines is in force then. */
bool faults_add(faults *f, const char *lines, text *why);
/* The first rule that fits this request and needs no more than what there is; it counts as fired. */
bool faults_take(faults *f, int there, const request *q, fault_hit *hit);
/* How far off the server's clock is for this request, in seconds; 0 without a rule. */
int64_t faults_skew(faults *f, const request *q);
void faults_report(faults *f, text *json); /* {"drop-request":0,...} */
void faults_reset(faults *f);
const char *fault_name(fault which);
const char *op_name(op o);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * The dispatcher keeps off its client's processor. The kernel often puts both on one, because each wakes the other, and
 * leaves them there for as long as both yield: every call then costs two context switches instead of a read of a cache
 * line. The one that polls can tell: the yield took long, and after it there was a record, so it was the client that ran. The
 * dispatcher then moves to another processor, one that shares a cache with this one where there is such; its affinity mask
 * is the old one right after. If another thread is busy there it moves back, and tries again later, each time less soon.
 */
#ifndef WRK_PLACE_H
#define WRK_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum wrk_place_move { WRK_PLACE_STAY, WRK_PLACE_AWAY, WRK_PLACE_BACK };

/* What is known; zeroes to begin with. The dispatcher's alone. Times as CLOCK_MONOTONIC has them, in nanoseconds. */
struct wrk_place {
    unsigned signs;    /* that the client runs here */
    bool helped;       /* by the last move: a record came without a yield that took long */
    uint64_t moved_ns; /* a short time ago: it may be the wrong place; 0: it is not that short */
    uint64_t rest_ns;  /* after a move to the wrong place: so long there is no other */
    uint64_t rests_until_ns;
};

/* A yield has ended at now_ns, after took_ns; found: there was a record after it. What to do. */
enum wrk_place_move wrk_place_judge(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found);

/* Reads from /sys which processors share a cache: before the sandbox, which has no such files. */
void wrk_place_init(void);
/* Does what wrk_place_judge() says. True: it is on another processor than its client now. */
bool wrk_place_yielded(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found);

#endif

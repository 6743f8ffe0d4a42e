/* SPDX-License-Identifier: MIT */
/*
 * Keeps the dispatcher off its client's processor. The kernel often places both on the same
 * processor, because each wakes the other, and leaves them there as long as both yield: each call
 * then costs two context switches instead of a read of a cache line. The polling side can detect
 * this: the yield took long and a record followed, so the client ran. The dispatcher then moves to
 * another processor, if possible one that shares a cache with the current one; its affinity mask is
 * restored directly after. If another thread is busy there it moves back and retries later, after
 * growing delays.
 */
#ifndef WRK_PLACE_H
#define WRK_PLACE_H

#include <stdbool.h>
#include <stdint.h>

enum wrk_place_move { WRK_PLACE_STAY, WRK_PLACE_AWAY, WRK_PLACE_BACK };

/* State of the placement; zero-initialised, dispatcher only. Times are CLOCK_MONOTONIC, ns. */
struct wrk_place {
    unsigned signs;    /* signs that the client runs on this processor */
    bool helped;       /* the last move helped: a record came without a long yield */
    uint64_t moved_ns; /* time of a recent move, which may prove wrong; 0: none recent */
    uint64_t rest_ns;  /* pause after a move to a wrong processor */
    uint64_t rests_until_ns;
};

/*
 * Decides what to do after a yield that ended at now_ns and took took_ns; found: a record followed.
 */
enum wrk_place_move wrk_place_judge(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found);

/* Reads the processors that share a cache from /sys; to be called before the sandbox, which hides
 * it. */
void wrk_place_init(void);
/* Applies wrk_place_judge(). True: now on another processor than the client. */
bool wrk_place_yielded(struct wrk_place *p, uint64_t now_ns, uint64_t took_ns, bool found);

#endif

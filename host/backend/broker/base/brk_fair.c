/* SPDX-License-Identifier: MIT */
/*
 * Shares by weight and cap, decided from processor time alone. This file has no notion of processes
 * or clocks, so that its test can replay any history. It is fair queueing with a virtual time (use
 * divided by weight): an entity whose lead over the slowest entity with demand exceeds the slack is
 * held until the latter has caught up.
 */
#include "base.h"

#define UNIT 100u /* default weight, at which virtual time equals processor time */

uint64_t brk_fair_charge(struct brk_fair *f, uint64_t used_ns)
{
    uint64_t d = used_ns > f->used_ns ? used_ns - f->used_ns : 0;

    f->used_ns = used_ns > f->used_ns ? used_ns : f->used_ns;
    f->vtime += d * UNIT / f->weight;
    f->window_ns += d;
    f->credit_ns -= (int64_t)d;
    return d;
}

void brk_fair_window(struct brk_fair *f, uint64_t waited_ns, uint64_t window_ns, uint64_t floor)
{
    /* A held entity could not show its demand, which stays unchanged. */
    if (!f->was_held) {
        /* A thread's wait is counted when it is over, on a busy machine several windows later. */
        f->calm = f->window_ns + waited_ns >= window_ns / 4 * 3 ? 0 : f->calm + 1;
        f->wants = !f->calm || (f->wants && f->calm < BRK_FAIR_CALM);
    }
    f->was_held = f->held;
    f->window_ns = 0;
    brk_fair_join(f, floor);
}

void brk_fair_join(struct brk_fair *f, uint64_t floor)
{
    if (!f->wants && f->vtime < floor)
        f->vtime = floor; /* unused time is not saved up */
}

void brk_fair_weight(struct brk_fair *f, uint32_t weight, uint64_t floor)
{
    /* The lead in processor time is preserved. */
    uint64_t lead = f->vtime > floor ? f->vtime - floor : 0;

    if (weight == f->weight)
        return;
    f->vtime = floor + (f->vtime > floor ? lead * f->weight / weight : 0);
    f->weight = weight;
}

void brk_fair_hold(struct brk_fair *f, uint64_t slowest, uint64_t slack_ns)
{
    uint64_t lead = slowest != BRK_FAIR_NONE && f->vtime > slowest ? f->vtime - slowest : 0;

    /* Clamped: a huge lead (the slowest has just arrived) would overflow. */
    lead = lead > UINT64_MAX / BRK_WEIGHT_MAX ? UINT64_MAX : lead * f->weight / UNIT;
    f->ahead = f->ahead ? lead > 0 : lead > slack_ns;
    f->far = f->ahead && lead > (f->far ? slack_ns : slack_ns * BRK_FAIR_FAR);
    f->held = f->ahead || f->over;
    f->was_held |= f->held;
}

void brk_fair_cap(struct brk_fair *f, uint64_t rate_ns, uint64_t burst_ns)
{
    if (!f->cap) {
        f->credit_ns = 0;
        f->over = false;
        return;
    }
    f->credit_ns += (int64_t)rate_ns;
    if (f->credit_ns > (int64_t)burst_ns)
        f->credit_ns = (int64_t)burst_ns;
    f->over = f->credit_ns < 0;
}

void brk_fair_forgive(struct brk_fair *f, uint64_t slowest)
{
    if (slowest != BRK_FAIR_NONE && f->vtime > slowest)
        f->vtime = slowest;
    f->ahead = f->far = false;
    f->held = f->over;
}

/* SPDX-License-Identifier: MIT */
/*
 * Shares by weight and cap, decided from processor time alone: this file knows neither processes nor clocks, so
 * that its test can play any history. It is fair queueing with a virtual time (use divided by weight): who leads the
 * slowest of those that want the processors by more than the slack is held until that one has caught up.
 */
#include "base.h"

#define UNIT 100u /* the default weight: its virtual time is processor time */

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
    /* One that was held could not show what it wants: nothing has changed. */
    if (!f->was_held) {
        /* A thread that waits is counted when its wait is over, which on a busy machine is windows later. */
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
        f->vtime = floor; /* time that was not used is not saved up */
}

void brk_fair_weight(struct brk_fair *f, uint32_t weight, uint64_t floor)
{
    /* The lead stays as it is in processor time. */
    uint64_t lead = f->vtime > floor ? f->vtime - floor : 0;

    if (weight == f->weight)
        return;
    f->vtime = floor + (f->vtime > floor ? lead * f->weight / weight : 0);
    f->weight = weight;
}

void brk_fair_hold(struct brk_fair *f, uint64_t slowest, uint64_t slack_ns)
{
    uint64_t lead = slowest != BRK_FAIR_NONE && f->vtime > slowest ? f->vtime - slowest : 0;

    /* A lead beyond all measure (the slowest has just come) would only overflow. */
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

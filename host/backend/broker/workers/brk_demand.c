/* SPDX-License-Identifier: MIT */
/*
 * How many workers are kept waiting for clients: as many as came within one window lately, the window being longer than
 * a worker takes to start, so that a burst like the last one finds a worker each. A larger burst raises the number at
 * once; while fewer come it halves every HALF_NS, down to --pool. Workers beyond --pool yield to everything else: to
 * the burst itself, whose processors they would take (they start when it pauses, or when a client waits), to the
 * host's memory, to the rate of starts, and no more are started at a time than there are processors.
 */
#include "demand.h"

#define WINDOW_MIN_NS 100000000u            /* a shell's loop of short programs */
#define WINDOW_MAX_NS UINT64_C(10000000000) /* a driver that takes seconds to start */
#define HALF_NS UINT64_C(10000000000)
#define REFILL_NS 30000000u /* lets the client that came go first, while a worker is ready for the next */
#define PAUSE_NS 100000000u /* without a client: the burst is over, also on a busy machine */
#define MEMORY_PART 16u     /* of the free memory, for what is beyond --pool */

uint64_t brk_demand_window_ns(const struct brk_demand *d)
{
    const uint64_t twice = 2 * d->start_ns;

    return twice < WINDOW_MIN_NS ? WINDOW_MIN_NS : twice > WINDOW_MAX_NS ? WINDOW_MAX_NS : twice;
}

/* Clients of the window that ends now. */
static unsigned demand_recent(const struct brk_demand *d, uint64_t now_ns)
{
    const uint64_t window = brk_demand_window_ns(d);
    unsigned n = 0;

    for (unsigned i = 0; i < BRK_POOL_LEARNT_MAX; i++)
        n += d->came_ns[i] && now_ns - d->came_ns[i] < window;
    return n;
}

static void demand_decay(struct brk_demand *d, uint64_t now_ns)
{
    while (d->learnt && now_ns - d->learnt_ns >= HALF_NS) {
        d->learnt /= 2;
        d->learnt_ns += HALF_NS;
    }
}

unsigned brk_demand_target(struct brk_demand *d, const struct brk_demand_bounds *b, uint64_t now_ns)
{
    unsigned high = b->high < b->free ? b->high : b->free, more;

    demand_decay(d, now_ns);
    if (!b->low || d->learnt <= b->low || high <= b->low)
        return b->low;
    more = (d->learnt < high ? d->learnt : high) - b->low;
    if (b->worker && b->available / MEMORY_PART / b->worker < more)
        more = (unsigned)(b->available / MEMORY_PART / b->worker);
    return b->low + more;
}

void brk_demand_came(struct brk_demand *d, unsigned left, const struct brk_demand_bounds *b, uint64_t now_ns)
{
    unsigned recent;

    demand_decay(d, now_ns);
    d->came_ns[d->next] = now_ns;
    d->next = (d->next + 1) % BRK_POOL_LEARNT_MAX;
    recent = demand_recent(d, now_ns);
    if (recent >= d->learnt) {
        d->learnt = recent;
        d->learnt_ns = now_ns;
    }
    /* Put off once, not again with each client, which would empty the pool. */
    if (!left || d->learnt > b->low)
        d->refill_ns = 0;
    else if (!d->refill_ns)
        d->refill_ns = now_ns + REFILL_NS;
}

/* Time since the latest client. */
static uint64_t demand_pause(const struct brk_demand *d, uint64_t now_ns)
{
    return now_ns - d->came_ns[(d->next + BRK_POOL_LEARNT_MAX - 1) % BRK_POOL_LEARNT_MAX];
}

void brk_demand_started(struct brk_demand *d, uint64_t took_ns)
{
    d->start_ns = d->start_ns ? d->start_ns - d->start_ns / 4 + took_ns / 4 : took_ns;
}

bool brk_demand_wants(struct brk_demand *d, const struct brk_demand_bounds *b,
                      const struct brk_demand_stock *s, uint64_t now_ns)
{
    if (s->spare >= brk_demand_target(d, b, now_ns)) {
        d->refill_ns = 0;
        return false;
    }
    if (now_ns < d->refill_ns)
        return false;
    return s->spare < b->low || (s->starting < s->processors && s->starts_left &&
                                 (s->waiting || demand_pause(d, now_ns) >= PAUSE_NS));
}

uint64_t brk_demand_next_ns(const struct brk_demand *d, const struct brk_demand_bounds *b, uint64_t now_ns)
{
    if (now_ns < d->refill_ns)
        return d->refill_ns - now_ns;
    if (d->learnt <= b->low)
        return UINT64_MAX;
    const uint64_t pause = demand_pause(d, now_ns), since = now_ns - d->learnt_ns;

    if (pause < PAUSE_NS)
        return PAUSE_NS - pause;
    return since < HALF_NS ? HALF_NS - since : 0;
}

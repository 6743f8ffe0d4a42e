/* SPDX-License-Identifier: MIT */
/*
 * When polling pays: the policy behind each bounded wait of a ring, on both sides of it.
 *
 * A wait looks for its answer in shared memory for a while before it sleeps. With a processor to spare that is
 * much cheaper than to sleep and be woken. With none it is much dearer: who polls, also with sched_yield(), uses up
 * or gives away its share of the processor, and the scheduler runs a neighbour for a whole time slice (milliseconds)
 * first, whereas a sleeper that is woken runs at once. Nothing that a process can read says cheaply which of the two
 * holds; but whoever polls notices when it was off its processor: a step of the loop that takes microseconds at most
 * has taken a slice.
 *
 * So: polling is allowed until a slice is lost. Then it rests, from POL_REST_MIN_NS on and four times as long after
 * each loss that follows, up to POL_REST_MAX_NS: one slice lost in a rest is what it costs to learn that the crowd has
 * gone. After POL_CALM_NS of polling without a loss a rest is short again. Within the time that is allowed the length of a poll adapts:
 * halved when it was in vain, longer when the answer came.
 *
 * One policy belongs to one side of one ring; its threads share it. All of it is statistics: races cost a poll too many
 * or too few. Times: CLOCK_MONOTONIC, ns.
 */
#ifndef POL_POLL_H
#define POL_POLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define POL_SLICE_NS \
    UINT64_C(200000) /* longer than polite neighbours keep a processor, shorter than a time slice */
#define POL_REST_MIN_NS UINT64_C(50000000)
#define POL_REST_MAX_NS UINT64_C(1600000000)
#define POL_CALM_NS UINT64_C(10000000)
#define POL_FORCED_NS UINT64_C(300000000) /* length of a poll that is forced */

struct pol_policy {
    uint64_t min_ns, max_ns; /* bounds of budget_ns; max_ns 0: never polls */
    bool forced;             /* a lost slice changes nothing */
    _Atomic uint64_t budget_ns;
    _Atomic uint64_t rests_until_ns, rest_ns; /* rest_ns: the last rest's length, 0 in calm */
    _Atomic uint64_t calm_ns;                 /* polled without a loss since the last one */
    _Atomic uint64_t hits, vain, losses; /* polls that found the answer, that did not, that lost a slice */
};

static inline void pol_init(struct pol_policy *p, uint64_t min_ns, uint64_t max_ns)
{
    *p = (struct pol_policy){.min_ns = min_ns, .max_ns = max_ns};
    atomic_init(&p->budget_ns, max_ns);
}

/*
 * For tests, which count what a call costs in either case and not how often it is met: `how` is the value of
 * VGPU_TEST_POLL. "always": each poll lasts POL_FORCED_NS, whatever is lost; "never": no poll. NULL or another: no change.
 */
static inline void pol_force(struct pol_policy *p, const char *how)
{
    if (how && strcmp(how, "never") == 0)
        pol_init(p, 0, 0);
    if (how && strcmp(how, "always") == 0) {
        pol_init(p, POL_FORCED_NS, POL_FORCED_NS);
        p->forced = true;
    }
}

/* Without a locked instruction: a count may be lost when two threads end a poll at once. */
static inline void pol_count(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* Whether to poll at all. */
static inline bool pol_may(const struct pol_policy *p, uint64_t now)
{
    return p->max_ns && now >= atomic_load_explicit(&p->rests_until_ns, memory_order_relaxed);
}

static inline uint64_t pol_budget(const struct pol_policy *p)
{
    return atomic_load_explicit(&p->budget_ns, memory_order_relaxed);
}

/*
 * After each step of a poll, which began at `before` and ended at `now`. True: a neighbour ran meanwhile for as long
 * as it liked. Polling rests from here on; the caller looks once more and sleeps.
 */
static inline bool pol_lost(struct pol_policy *p, uint64_t before, uint64_t now)
{
    uint64_t rest;

    if (now - before < POL_SLICE_NS || p->forced)
        return false;
    rest = atomic_load_explicit(&p->rest_ns, memory_order_relaxed);
    if (!rest)
        rest = POL_REST_MIN_NS;
    else
        rest = rest < POL_REST_MAX_NS / 4 ? 4 * rest : POL_REST_MAX_NS;
    atomic_store_explicit(&p->calm_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&p->rest_ns, rest, memory_order_relaxed);
    atomic_store_explicit(&p->rests_until_ns, now + rest, memory_order_relaxed);
    pol_count(&p->losses);
    return true;
}

/* A sleep was short, so that a longer poll would have saved it. */
static inline void pol_more(struct pol_policy *p)
{
    uint64_t next = pol_budget(p) * 4 + p->min_ns;

    atomic_store_explicit(&p->budget_ns, next < p->max_ns ? next : p->max_ns, memory_order_relaxed);
}

/* The full budget: what was learned from before says nothing any more. */
static inline void pol_refill(struct pol_policy *p)
{
    atomic_store_explicit(&p->budget_ns, p->max_ns, memory_order_relaxed);
}

/* Polled for `ns` without a loss. */
static inline void pol_calm(struct pol_policy *p, uint64_t ns)
{
    uint64_t calm;

    if (!atomic_load_explicit(&p->rest_ns, memory_order_relaxed))
        return;
    calm = atomic_load_explicit(&p->calm_ns, memory_order_relaxed) + ns;
    atomic_store_explicit(&p->calm_ns, calm, memory_order_relaxed);
    if (calm >= POL_CALM_NS)
        atomic_store_explicit(&p->rest_ns, 0, memory_order_relaxed);
}

/* The answer came after `ns` without a loss. */
static inline void pol_hit(struct pol_policy *p, uint64_t ns)
{
    pol_count(&p->hits);
    pol_calm(p, ns);
}

/* No answer in `ns` without a loss: the next poll is shorter. */
static inline void pol_vain(struct pol_policy *p, uint64_t ns)
{
    uint64_t next = pol_budget(p) / 2;

    pol_count(&p->vain);
    pol_calm(p, ns);
    atomic_store_explicit(&p->budget_ns, next > p->min_ns ? next : p->min_ns, memory_order_relaxed);
}

/* Such a poll pays: the next one is longer. */
static inline void pol_longer(struct pol_policy *p)
{
    uint64_t budget = pol_budget(p), next = budget + budget / 4 + 1;

    if (budget < p->max_ns)
        atomic_store_explicit(&p->budget_ns, next < p->max_ns ? next : p->max_ns, memory_order_relaxed);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Adaptive polling: the policy of each bounded wait of a ring, on both of its sides.
 *
 * A wait polls shared memory for a while before it sleeps. With a spare processor, polling is much
 * cheaper than sleeping and being woken. Without one it is much more expensive: a polling thread,
 * even with sched_yield(), uses up or gives away its share of the processor, and the scheduler runs
 * a neighbour for a whole time slice (milliseconds) first, whereas a sleeper that is woken runs at
 * once. A process cannot cheaply find out which case holds, but a polling thread notices when it
 * was descheduled: a step of the loop that normally takes microseconds at most takes a slice.
 *
 * So polling is allowed until a slice is lost. Then polling rests, for POL_REST_MIN_NS at first and
 * four times as long after each further loss, up to POL_REST_MAX_NS: detecting that the load is
 * gone costs one slice per rest. After POL_CALM_NS of polling without a loss, rests are short
 * again. Within the allowed time the length of a poll adapts: halved after a poll in vain, longer
 * when the answer arrived.
 *
 * A policy belongs to one side of one ring; its threads share it. All of it is statistics: a race
 * costs a poll too many or too few. Times: CLOCK_MONOTONIC, ns.
 */
#ifndef POL_POLL_H
#define POL_POLL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define POL_SLICE_NS UINT64_C(200000) /* longer than yielding neighbours run, below a time slice */
#define POL_REST_MIN_NS UINT64_C(50000000)
#define POL_REST_MAX_NS UINT64_C(1600000000)
#define POL_CALM_NS UINT64_C(10000000)
#define POL_FORCED_NS UINT64_C(300000000) /* length of a forced poll */

struct pol_policy {
    uint64_t min_ns, max_ns; /* bounds of budget_ns; max_ns 0: polling is off */
    bool forced;             /* ignore lost slices */
    _Atomic uint64_t budget_ns;
    /* end of the rest; length of the last rest, 0 if calm */
    _Atomic uint64_t rests_until_ns, rest_ns;
    _Atomic uint64_t calm_ns; /* polling time since the last loss */
    /* polls with an answer, without an answer, with a lost slice */
    _Atomic uint64_t hits, vain, losses;
};

static inline void pol_init(struct pol_policy *p, uint64_t min_ns, uint64_t max_ns)
{
    *p = (struct pol_policy){.min_ns = min_ns, .max_ns = max_ns};
    atomic_init(&p->budget_ns, max_ns);
}

/*
 * For tests that measure the cost of a call in either mode: `how` is the value of VGPU_TEST_POLL.
 * "always": each poll lasts POL_FORCED_NS, whatever is lost; "never": no polling. NULL or any other
 * value: no change.
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

/* Not a locked instruction: a count may be lost if two threads end a poll at the same time. */
static inline void pol_count(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1, memory_order_relaxed);
}

/* True if the caller may poll. */
static inline bool pol_may(const struct pol_policy *p, uint64_t now)
{
    return p->max_ns && now >= atomic_load_explicit(&p->rests_until_ns, memory_order_relaxed);
}

static inline uint64_t pol_budget(const struct pol_policy *p)
{
    return atomic_load_explicit(&p->budget_ns, memory_order_relaxed);
}

/*
 * Call after each step of a poll, which began at `before` and ended at `now`. True: a neighbour ran
 * for a time slice meanwhile. Polling rests from now on; the caller checks once more and sleeps.
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

/* Call after a short sleep, which a longer poll would have avoided. */
static inline void pol_more(struct pol_policy *p)
{
    uint64_t next = pol_budget(p) * 4 + p->min_ns;

    atomic_store_explicit(&p->budget_ns, next < p->max_ns ? next : p->max_ns, memory_order_relaxed);
}

/* Restores the full budget: earlier statistics no longer apply. */
static inline void pol_refill(struct pol_policy *p)
{
    atomic_store_explicit(&p->budget_ns, p->max_ns, memory_order_relaxed);
}

/* Accounts for `ns` of polling without a loss. */
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

/* The answer arrived after `ns` without a loss. */
static inline void pol_hit(struct pol_policy *p, uint64_t ns)
{
    pol_count(&p->hits);
    pol_calm(p, ns);
}

/* No answer within `ns`, without a loss: shortens the next poll. */
static inline void pol_vain(struct pol_policy *p, uint64_t ns)
{
    uint64_t next = pol_budget(p) / 2;

    pol_count(&p->vain);
    pol_calm(p, ns);
    atomic_store_explicit(&p->budget_ns, next > p->min_ns ? next : p->min_ns, memory_order_relaxed);
}

/* Such a poll pays: lengthens the next poll. */
static inline void pol_longer(struct pol_policy *p)
{
    uint64_t budget = pol_budget(p), next = budget + budget / 4 + 1;

    if (budget < p->max_ns)
        atomic_store_explicit(&p->budget_ns, next < p->max_ns ? next : p->max_ns, memory_order_relaxed);
}

#endif

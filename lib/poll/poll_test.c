/* SPDX-License-Identifier: MIT */
/* The policy in simulated time: a caller that waits for answers, beside neighbours that come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "poll.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define MIN_NS (1 * US)
#define MAX_NS (8 * US)
#define YIELDS_NS (60 * US)
#define WAKE_NS (20 * US) /* a sleep costs so much more than a poll that finds the answer */

struct world {
    struct pol_policy p;
    uint64_t now;
    uint64_t answer_ns;              /* from the question to the answer */
    uint64_t slice_ns;               /* what a step of a poll loses while there are neighbours; 0: none */
    uint64_t crowd_every, crowd_for; /* neighbours come each crowd_every and stay for crowd_for; 0: always */
    uint64_t waits, found, slept, lost;
};

static bool world_crowded(const struct world *w)
{
    return w->slice_ns && (!w->crowd_every || w->now % w->crowd_every < w->crowd_for);
}

/* One wait as lib/link/lnk_ring.c makes it: spin, yield, sleep. */
static void world_wait(struct world *w)
{
    uint64_t start = w->now, there = start + w->answer_ns;
    bool yields = false;

    w->waits++;
    while (pol_may(&w->p, start)) {
        uint64_t before = w->now;

        yields = yields || before - start >= pol_budget(&w->p);
        if (yields && before - start >= YIELDS_NS) {
            pol_vain(&w->p, before - start);
            break;
        }
        w->now += yields && world_crowded(w) ? w->slice_ns : US;
        if (pol_lost(&w->p, before, w->now)) {
            w->lost++;
            break;
        }
        if (w->now >= there) {
            pol_hit(&w->p, w->now - start);
            if (!yields)
                pol_longer(&w->p);
            w->found++;
            return;
        }
    }
    w->slept++;
    w->now = (w->now > there ? w->now : there) + WAKE_NS;
}

static void world_run(struct world *w, uint64_t until)
{
    while (w->now < until)
        world_wait(w);
}

static void world_begin(struct world *w)
{
    pol_init(&w->p, MIN_NS, MAX_NS);
    w->now = SECOND;
}

/* Nobody else: every answer is found by polling. */
static void test_idle(void **state)
{
    struct world w = {.answer_ns = 3 * US};

    (void)state;
    world_begin(&w);
    world_run(&w, 3 * SECOND);
    assert_true(w.waits > 100000);
    assert_int_equal(w.found, w.waits);
    assert_int_equal(w.p.losses, 0);
    assert_int_equal(pol_budget(&w.p), MAX_NS);
}

/* Long answers, nobody else: polling becomes short, and never rests. */
static void test_long(void **state)
{
    struct world w = {.answer_ns = 500 * US};

    (void)state;
    world_begin(&w);
    world_run(&w, 3 * SECOND);
    assert_int_equal(w.found, 0);
    assert_int_equal(pol_budget(&w.p), MIN_NS);
    assert_true(pol_may(&w.p, w.now));
    /* Short ones again: found at once by the yields, and by spinning soon. */
    w.answer_ns = 1 * US;
    w.found = w.waits = 0;
    world_run(&w, w.now + 10 * MS);
    assert_int_equal(w.found, w.waits);
    assert_int_equal(pol_budget(&w.p), MAX_NS);
}

/* One neighbour, and many, that never rest: few slices are lost, however long it lasts. */
static void test_crowded(void **state)
{
    static const uint64_t slices[] = {4 * MS, 12 * MS, 100 * MS};

    (void)state;
    for (size_t i = 0; i < sizeof(slices) / sizeof(slices[0]); i++) {
        struct world w = {.answer_ns = 20 * US, .slice_ns = slices[i]};

        world_begin(&w);
        world_run(&w, 61 * SECOND);
        assert_true(w.lost >= 3);
        assert_true(w.lost <= 4 + 60 * SECOND / POL_REST_MAX_NS);
        assert_true(w.waits > 1000000); /* the others slept and were woken: 40 us each */
        assert_int_equal(w.lost, w.p.losses);
    }
}

/* A neighbour for a while: polling is back at the latest when the rest that it caused ends, and stays. */
static void test_goes(void **state)
{
    struct world w = {.answer_ns = 20 * US, .slice_ns = 4 * MS};

    (void)state;
    world_begin(&w);
    world_run(&w, 21 * SECOND);
    w.slice_ns = 0;
    world_run(&w, w.now + POL_REST_MAX_NS);
    w.found = w.waits = 0;
    world_run(&w, w.now + SECOND);
    assert_int_equal(w.found, w.waits);
    assert_int_equal(w.p.rest_ns, 0);
    /* The next neighbour is a new one: a short rest first. */
    w.slice_ns = 4 * MS;
    w.lost = 0;
    while (!w.lost)
        world_wait(&w);
    assert_int_equal(w.p.rest_ns, POL_REST_MIN_NS);
}

/* Bursts of neighbours: what is lost is a share of the bursts, not of the calm. */
static void test_bursts(void **state)
{
    struct world w = {.answer_ns = 20 * US, .slice_ns = 4 * MS, .crowd_every = SECOND, .crowd_for = 20 * MS};

    (void)state;
    world_begin(&w);
    world_run(&w, 31 * SECOND);
    assert_true(w.lost <= 31);
    assert_true(w.found * 10 > w.waits * 8);
    assert_int_equal(w.p.rest_ns, 0);
}

/* A step a little shorter than the limit is no loss, one that is as long is one; no policy without a maximum. */
static void test_edges(void **state)
{
    struct pol_policy p;

    (void)state;
    pol_init(&p, MIN_NS, MAX_NS);
    assert_false(pol_lost(&p, 5, 5 + POL_SLICE_NS - 1));
    assert_true(pol_may(&p, 0));
    assert_true(pol_lost(&p, 5, 5 + POL_SLICE_NS));
    assert_false(pol_may(&p, 5 + POL_SLICE_NS + POL_REST_MIN_NS - 1));
    assert_true(pol_may(&p, 5 + POL_SLICE_NS + POL_REST_MIN_NS));
    for (unsigned i = 0; i < 10; i++)
        pol_lost(&p, 0, SECOND);
    assert_int_equal(p.rest_ns, POL_REST_MAX_NS);
    pol_calm(&p, POL_CALM_NS - 1);
    assert_int_equal(p.rest_ns, POL_REST_MAX_NS);
    pol_calm(&p, 1);
    assert_int_equal(p.rest_ns, 0);
    pol_init(&p, 0, 0);
    assert_false(pol_may(&p, SECOND));
}

static void bounds_vain(struct pol_policy *p)
{
    pol_vain(p, MAX_NS);
}

/* However often the length of a poll is changed, and by whatever, it stays between its bounds. */
static void test_bounds(void **state)
{
    static void (*const changes[])(struct pol_policy *) = {pol_more, pol_longer, pol_refill, bounds_vain};
    static const uint64_t bounds[][2] = {
        {MIN_NS, MAX_NS}, {MIN_NS, MIN_NS}, {MIN_NS, 5 * MIN_NS + 1}, {0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
        for (unsigned from = 0; from < 4; from++) {
            for (unsigned to = 0; to < 4; to++) {
                struct pol_policy p;

                pol_init(&p, bounds[i][0], bounds[i][1]);
                for (unsigned n = 0; n < 40; n++) {
                    changes[n < 20 ? from : to](&p);
                    assert_true(pol_budget(&p) >= bounds[i][0] && pol_budget(&p) <= bounds[i][1]);
                }
                if (to == 3)
                    assert_int_equal(pol_budget(&p), bounds[i][0]);
                else
                    assert_int_equal(pol_budget(&p), bounds[i][1]);
            }
        }
    }
}

static void test_forced(void **state)
{
    struct pol_policy p;

    (void)state;
    pol_init(&p, MIN_NS, MAX_NS);
    pol_force(&p, NULL);
    pol_force(&p, "sometimes");
    assert_int_equal(pol_budget(&p), MAX_NS);
    pol_force(&p, "always");
    for (unsigned i = 0; i < 10; i++) {
        assert_false(pol_lost(&p, 0, SECOND));
        pol_vain(&p, SECOND);
    }
    assert_true(pol_may(&p, 1));
    assert_int_equal(pol_budget(&p), POL_FORCED_NS);
    pol_force(&p, "never");
    pol_more(&p);
    assert_false(pol_may(&p, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),   cmocka_unit_test(test_long),   cmocka_unit_test(test_crowded),
        cmocka_unit_test(test_goes),   cmocka_unit_test(test_bursts), cmocka_unit_test(test_edges),
        cmocka_unit_test(test_bounds), cmocka_unit_test(test_forced),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

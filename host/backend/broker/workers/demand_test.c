/* SPDX-License-Identifier: MIT */
/* How many workers wait ready, for arrivals that are made up: time is a counter of milliseconds here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "demand.h"

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define WORKER (3 * MIB)
#define MOST 256u

/* A broker: its workers take `start_ms` each, two processors start them. */
struct broker {
    struct brk_demand d;
    struct brk_demand_bounds b;
    uint64_t start_ms, done_ms[MOST]; /* when those that start are ready */
    unsigned ready, starting, waiting;
    unsigned misses, most; /* clients that found none ready; workers at most */
    bool no_starts;
};

static uint64_t clock_ms; /* from 1: 0 is no time */

static struct broker *begin(struct broker *v, unsigned low, unsigned high, uint64_t start_ms)
{
    memset(v, 0, sizeof(*v));
    v->b = (struct brk_demand_bounds){
        .low = low, .high = high, .free = 64, .worker = WORKER, .available = 4096 * MIB};
    v->start_ms = start_ms;
    v->ready = low;
    brk_demand_started(&v->d, start_ms * MS);
    clock_ms = 1000;
    return v;
}

static unsigned spare(const struct broker *v)
{
    return v->ready + v->starting;
}

static bool wants(struct broker *v)
{
    const struct brk_demand_stock s = {.waiting = v->waiting > 0,
                                       .spare = spare(v),
                                       .starting = v->starting,
                                       .processors = 2,
                                       .starts_left = !v->no_starts};

    return brk_demand_wants(&v->d, &v->b, &s, clock_ms * MS) || (v->waiting && !spare(v));
}

static void come(struct broker *v, unsigned clients)
{
    while (clients--) {
        brk_demand_came(&v->d, v->ready ? v->ready - 1 : 0, &v->b, clock_ms * MS);
        if (v->ready) {
            v->ready--;
        } else {
            v->waiting++;
            v->misses++;
        }
    }
}

/* A millisecond of the pool's work. */
static void pass(struct broker *v)
{
    for (unsigned i = 0; i < v->starting;) {
        if (v->done_ms[i] > clock_ms) {
            i++;
            continue;
        }
        v->done_ms[i] = v->done_ms[--v->starting];
        brk_demand_started(&v->d, v->start_ms * MS);
        if (v->waiting)
            v->waiting--;
        else
            v->ready++;
    }
    while (wants(v)) {
        assert_true(v->starting < MOST);
        v->done_ms[v->starting++] = clock_ms + v->start_ms;
    }
    if (v->ready > brk_demand_target(&v->d, &v->b, clock_ms * MS))
        v->ready--;
    v->most = spare(v) > v->most ? spare(v) : v->most;
}

/* `clients` every `every_ms` for `for_ms`. Returns the clients that waited. */
static unsigned run(struct broker *v, uint64_t for_ms, uint64_t every_ms, unsigned clients)
{
    const unsigned before = v->misses;

    for (uint64_t i = 0; i < for_ms; i++, clock_ms++) {
        if (i % every_ms == 0)
            come(v, clients);
        pass(v);
    }
    return v->misses - before;
}

static unsigned target(struct broker *v)
{
    return brk_demand_target(&v->d, &v->b, clock_ms * MS);
}

/* A program a minute needs no more than --pool, and nothing wakes the broker for it. */
static void test_idle(void **state)
{
    struct broker v;

    (void)state;
    assert_int_equal(run(begin(&v, 2, 8, 20), 600000, 60000, 1), 0);
    assert_int_equal(v.most, 2);
    assert_int_equal(target(&v), 2);
    assert_true(brk_demand_next_ns(&v.d, &v.b, clock_ms * MS) == UINT64_MAX);
}

/* Programs at a rate that --pool serves. */
static void test_steady(void **state)
{
    struct broker v;

    (void)state;
    assert_int_equal(run(begin(&v, 2, 8, 20), 60000, 100, 1), 0);
    assert_int_equal(v.most, 2);
    /* With a driver that takes a second to start, the same rate needs more. */
    run(begin(&v, 2, 32, 1000), 20000, 100, 1);
    assert_uint_in_range(target(&v), 20, 32);
    v.d.learnt_ns = clock_ms * MS;
    assert_true(v.most <= 32);
}

/* Programs that follow each other at once: --pool is refilled meanwhile, the rest when they pause. */
static void test_back_to_back(void **state)
{
    struct broker v;

    (void)state;
    assert_uint_in_range(run(begin(&v, 2, 8, 15), 300, 10, 1), 0, 4);
    assert_int_equal(target(&v), 8);
    assert_int_equal(run(&v, 10000, 10, 1), 0);
    assert_int_equal(v.most, 2);
    assert_true(brk_demand_next_ns(&v.d, &v.b, clock_ms * MS) < 100 * MS);
    run(&v, 200, 1000, 0);
    assert_int_equal(v.ready, 8);
    assert_int_equal(run(&v, 100, 1, 1), 100 - 8);
}

/* As many at once as there are: the second burst finds a worker each. */
static void test_burst(void **state)
{
    struct broker v;

    (void)state;
    assert_int_equal(run(begin(&v, 2, 8, 20), 5000, 5000, 8), 6);
    assert_int_equal(target(&v), 8);
    assert_int_equal(run(&v, 5000, 5000, 8), 0);
    assert_int_equal(run(&v, 5000, 5000, 12), 4); /* beyond --pool-max */
    /* It decays, one step after the other, and the workers with it. */
    assert_true(brk_demand_next_ns(&v.d, &v.b, clock_ms * MS) <= 10000 * MS);
    run(&v, 10000, 20000, 0);
    assert_uint_in_range(target(&v), 3, 7);
    run(&v, 30000, 40000, 0);
    assert_int_equal(target(&v), 2);
    assert_int_equal(spare(&v), 2);
    assert_true(brk_demand_next_ns(&v.d, &v.b, clock_ms * MS) == UINT64_MAX);
}

/* Replacing is put off once, not again with each client, and not where none is left or programs come in bursts. */
static void test_refill(void **state)
{
    struct broker v;

    (void)state;
    begin(&v, 8, 8, 1000);
    for (unsigned i = 0; i < 4; i++, clock_ms += 10) {
        come(&v, 1);
        assert_int_equal(wants(&v), i == 3);
    }
    assert_int_equal(v.ready, 4);
    begin(&v, 1, 8, 1000);
    come(&v, 1);
    assert_true(wants(&v));
    begin(&v, 4, 8, 1000)->d.learnt = 5;
    v.d.learnt_ns = clock_ms * MS;
    come(&v, 1);
    assert_true(wants(&v));
}

/* What one VM learns takes nothing that another is promised: --pool is there for each, the rest is bounded by memory. */
static void test_two_vms(void **state)
{
    struct broker greedy, calm;
    const uint64_t free_memory = 480 * MIB;
    uint64_t began;

    (void)state;
    begin(&calm, 2, 64, 20);
    begin(&greedy, 2, 64, 20);
    began = clock_ms;
    for (; clock_ms < began + 20000; clock_ms++) {
        greedy.b.available = calm.b.available =
            free_memory -
            (spare(&greedy) + spare(&calm) - 4 > 100 ? 0 : spare(&greedy) + spare(&calm) - 4) * WORKER;
        if (clock_ms % 500 == 0)
            come(&greedy, 40);
        if (clock_ms % 100 == 50)
            come(&calm, 1);
        pass(&greedy);
        pass(&calm);
    }
    assert_int_equal(calm.misses, 0);
    assert_true((greedy.most - 2) * WORKER <= free_memory / 16);
    assert_true(greedy.most > 4);
    /* Another VM takes the memory: what was learnt is given back, --pool is not. */
    greedy.b.available = 0;
    run(&greedy, 100, 200, 0);
    assert_int_equal(spare(&greedy), 2);
}

/* What binds besides: no pool at all, the slots that are left, the rate of starts, processors. */
static void test_bounds(void **state)
{
    struct broker v;

    (void)state;
    run(begin(&v, 0, 64, 20), 1000, 10, 1);
    assert_int_equal(target(&v), 0);
    assert_int_equal(v.ready, 0);
    begin(&v, 2, 64, 20)->b.free = 5;
    run(&v, 1000, 10, 1);
    assert_int_equal(target(&v), 5);
    v.b.free = 0;
    assert_int_equal(target(&v), 2);
    begin(&v, 2, 64, 20)->no_starts = true;
    run(&v, 1000, 1000, 20);
    assert_int_equal(v.most, 2);
    begin(&v, 2, 64, 20);
    come(&v, 20);
    pass(&v);
    assert_int_equal(v.starting, 2);
    v.waiting = 0;
    v.ready = 2;
    clock_ms += 10;
    assert_false(wants(&v)); /* --pool is there, and the burst is not over */
    /* --pool-max below --pool takes nothing from it. */
    run(begin(&v, 4, 1, 20), 1000, 10, 1);
    assert_int_equal(target(&v), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle),   cmocka_unit_test(test_steady), cmocka_unit_test(test_back_to_back),
        cmocka_unit_test(test_burst),  cmocka_unit_test(test_refill), cmocka_unit_test(test_two_vms),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests_name("demand", tests, NULL, NULL);
}

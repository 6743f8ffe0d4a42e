/* SPDX-License-Identifier: MIT */
/* When the dispatcher moves away from its client's processor, when back, and that its affinity mask stays. */
#define _GNU_SOURCE
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "place.h"

#define SIGNS 8
#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

static struct wrk_place p;
static uint64_t now;

static enum wrk_place_move yield(uint64_t took_ns, bool found)
{
    now += took_ns + US;
    return wrk_place_judge(&p, now, took_ns, found);
}

static int set_up(void **state)
{
    (void)state;
    memset(&p, 0, sizeof(p));
    now = 1000 * MS;
    return 0;
}

/* Signs until it moves; 0: it does not. */
static unsigned signs(unsigned most)
{
    for (unsigned i = 1; i <= most; i++) {
        if (yield(5 * US, true) == WRK_PLACE_AWAY)
            return i;
    }
    return 0;
}

static void test_signs(void **state)
{
    (void)state;
    assert_int_equal(signs(100), SIGNS);
    assert_int_equal(yield(100, true), WRK_PLACE_STAY); /* it helped: the next time is as soon */
    assert_int_equal(signs(100), SIGNS);
}

static void test_no_signs(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) /* somebody ran, but it was not the client */
        assert_int_equal(yield(5 * US, false), WRK_PLACE_STAY);
    for (unsigned i = 0; i < 100; i++) /* nobody did */
        assert_int_equal(yield(200, true), WRK_PLACE_STAY);
    for (unsigned i = 0; i < 100; i++) /* a record without a yield in between: the client runs elsewhere */
        assert_int_equal(yield(i % SIGNS == SIGNS - 1 ? 0 : 5 * US, true), WRK_PLACE_STAY);
    for (unsigned i = 0; i < 100; i++)
        assert_int_equal(yield(10 * MS, false), WRK_PLACE_STAY); /* it has not moved: a slice is no reason */
}

/* A thread that is busy there: back, and longer and longer until the next time. */
static void test_busy_there(void **state)
{
    uint64_t rest = 100 * MS;

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        assert_int_not_equal(signs(100), 0);
        assert_int_equal(yield(3 * MS, i % 2), WRK_PLACE_BACK);
        assert_int_equal(yield(3 * MS, false), WRK_PLACE_STAY);
        assert_int_equal(signs(100), 0);
        now += rest - 10 * MS;
        assert_int_equal(signs(100), 0);
        now += 9 * MS;
        rest = rest < 5000 * MS ? 2 * rest : 10000 * MS;
    }
    /* A move that was right: what was before it does not count. */
    assert_int_not_equal(signs(100), 0);
    assert_int_equal(yield(100, true), WRK_PLACE_STAY);
    now += 60 * MS;
    assert_int_equal(yield(3 * MS, true), WRK_PLACE_STAY);
    assert_int_not_equal(signs(100), 0);
    assert_int_equal(yield(3 * MS, false), WRK_PLACE_BACK);
    now += 100 * MS;
    assert_int_not_equal(signs(100), 0);
}

/* Others poll there, too: not to and fro. */
static void test_no_help(void **state)
{
    unsigned moves = 0;

    (void)state;
    for (uint64_t end = now + 1000 * MS; now < end;)
        moves += yield(5 * US, true) != WRK_PLACE_STAY;
    assert_uint_in_range(moves, 1, 5);
}

static void test_mask(void **state)
{
    cpu_set_t before, one, after;

    (void)state;
    wrk_place_init();
    assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
    bool moved = false;
    for (unsigned i = 0; i < SIGNS; i++, now += 10 * US)
        moved = wrk_place_yielded(&p, now, 5 * US, true);
    assert_int_equal(moved, CPU_COUNT(&before) > 1);
    assert_int_equal(wrk_place_yielded(&p, now, 3 * MS, false), false); /* back */
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&before, &after));
    /* Bound to one: it stays there. */
    CPU_ZERO(&one);
    for (unsigned cpu = 0; !CPU_COUNT(&one); cpu++) {
        if (CPU_ISSET(cpu, &before))
            CPU_SET(cpu, &one);
    }
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
    now += 1000 * MS;
    for (unsigned i = 0; i < 100; i++, now += 10 * US)
        assert_false(wrk_place_yielded(&p, now, 5 * US, true));
    assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
    assert_true(CPU_EQUAL(&one, &after));
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_signs, set_up),      cmocka_unit_test_setup(test_no_signs, set_up),
        cmocka_unit_test_setup(test_busy_there, set_up), cmocka_unit_test_setup(test_no_help, set_up),
        cmocka_unit_test_setup(test_mask, set_up),
    };

    return cmocka_run_group_tests_name("place", tests, NULL, NULL);
}

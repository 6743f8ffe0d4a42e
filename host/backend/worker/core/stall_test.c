/* SPDX-License-Identifier: MIT */
/* When the time limit ends a client whose dispatcher is held by a call of the provider. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define MS UINT64_C(1000000)
#define LIMIT (1000 * MS)

static uint64_t issued, ended;

static void operations(uint64_t *i, uint64_t *e)
{
    *i = issued;
    *e = ended;
}

/* Looks every 250 ms, up to `n` times, until the limit is met; the number of looks before that. */
static unsigned looks(struct wrk_stall *s, uint64_t *now, uint64_t round, unsigned n)
{
    for (unsigned i = 0; i < n; i++, *now += 250 * MS) {
        if (wrk_stall_look(s, round, *now, LIMIT))
            return i;
    }
    return n;
}

static int stall_setup(void **state)
{
    (void)state;
    wrk_provider.sg_operations = operations;
    issued = 8;
    ended = 7;
    return 0;
}

static void test_held(void **state)
{
    struct wrk_stall s = {0};
    uint64_t now = 5000 * MS;

    (void)state;
    assert_int_equal(looks(&s, &now, 3, 20), 5); /* the first look begins the second, which must be over */
    assert_false(wrk_stall_look(&s, 3, now, 0)); /* no limit any more */
}

static void test_not_held(void **state)
{
    struct wrk_stall s = {0};
    uint64_t now = 5000 * MS;

    (void)state;
    assert_int_equal(looks(&s, &now, 4, 20), 20); /* asleep */
    for (uint64_t round = 5; round < 45; round += 2)
        assert_int_equal(looks(&s, &now, round, 3), 3); /* it comes round */
    for (issued = 100; ended < 40; ended++)
        assert_int_equal(looks(&s, &now, 51, 3), 3); /* work ends */
    issued = ended;
    assert_int_equal(looks(&s, &now, 53, 20), 20); /* nothing is under way: the call itself takes long */
    issued++;
    assert_int_equal(looks(&s, &now, 53, 20), 4); /* counted from when there was something */
}

/* A worker that was stopped for long has not had that time. */
static void test_stopped(void **state)
{
    struct wrk_stall s = {0};
    uint64_t now = 5000 * MS;

    (void)state;
    assert_int_equal(looks(&s, &now, 3, 3), 3);
    now += 60000 * MS;
    assert_int_equal(looks(&s, &now, 3, 20), 2);
}

/* What the dispatcher is told of stops: none while it is in a long call, and each once. */
static void test_stopped_for_the_dispatcher(void **state)
{
    struct wrk_stall s = {0};
    uint64_t now = 500000 * MS, before, ns;

    (void)state;
    issued = ended;
    looks(&s, &now, 3, 1);
    assert_true(wrk_stall_stopped(now, &before));
    assert_int_equal(looks(&s, &now, 3, 40), 40); /* 10 s in one round */
    assert_true(wrk_stall_stopped(now, &ns));
    assert_int_equal(ns, before);
    now += 60000 * MS;
    assert_true(wrk_stall_stopped(now, &ns)); /* it runs first */
    assert_int_equal(ns - before, 60000 * MS);
    looks(&s, &now, 3, 2);
    assert_true(wrk_stall_stopped(now, &ns));
    assert_int_equal(ns - before, 60000 * MS);
    issued++;
    wrk_provider.sg_operations = NULL; /* NVIDIA's driver */
    assert_int_equal(looks(&s, &now, 3, 20), 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup(test_held, stall_setup),
                                       cmocka_unit_test_setup(test_not_held, stall_setup),
                                       cmocka_unit_test_setup(test_stopped, stall_setup),
                                       cmocka_unit_test_setup(test_stopped_for_the_dispatcher, stall_setup)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

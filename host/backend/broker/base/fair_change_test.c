/* SPDX-License-Identifier: MIT */
/* Weights and caps that change while a client runs: what it has used stays, what held it back goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "base/base.h"

#define MS UINT64_C(1000000)

/* The processor time by which it leads, in ns. */
static uint64_t lead_of(const struct brk_fair *f, uint64_t floor)
{
    return (f->vtime - floor) * f->weight / 100;
}

static void test_lead_stays(void **state)
{
    static const uint32_t weights[] = {1, 10, 100, 250, BRK_WEIGHT_MAX};
    const unsigned n = sizeof(weights) / sizeof(weights[0]);
    const uint64_t floor = 5000 * MS, used = 300 * MS;

    (void)state;
    for (unsigned i = 0; i < n * n; i++) {
        struct brk_fair f = {.weight = weights[i / n], .vtime = floor};

        brk_fair_charge(&f, used);
        brk_fair_weight(&f, weights[i % n], floor);
        assert_int_equal(f.weight, weights[i % n]);
        assert_uint_in_range(lead_of(&f, floor), used - used / 100, used + used / 100);
        /* From there on it is charged by the new weight. */
        brk_fair_charge(&f, 2 * used);
        assert_uint_in_range(lead_of(&f, floor), 2 * used - used / 50, 2 * used + used / 50);
    }
}

/* Time behind the slowest client is no debt of the others. */
static void test_no_lead(void **state)
{
    struct brk_fair f = {.weight = 100, .vtime = 70 * MS};

    (void)state;
    brk_fair_weight(&f, 10, 200 * MS);
    assert_int_equal(f.vtime, 200 * MS);
}

static void test_cap_goes(void **state)
{
    struct brk_fair f = {.weight = 100, .cap = 25};

    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        brk_fair_charge(&f, f.used_ns + 100 * MS);
        brk_fair_cap(&f, MS, 10 * MS);
        brk_fair_hold(&f, BRK_FAIR_NONE, BRK_FAIR_SLACK_NS);
        assert_true(f.over && f.held);
        f.cap = 0;
        brk_fair_cap(&f, MS, 10 * MS);
        brk_fair_hold(&f, BRK_FAIR_NONE, BRK_FAIR_SLACK_NS);
        assert_false(f.over || f.held);
        /* What was used without a cap does not count for the next one. */
        brk_fair_charge(&f, f.used_ns + 100 * MS);
        brk_fair_cap(&f, MS, 10 * MS);
        f.cap = 50;
        brk_fair_cap(&f, MS, 10 * MS);
        assert_false(f.over);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lead_stays),
        cmocka_unit_test(test_no_lead),
        cmocka_unit_test(test_cap_goes),
    };

    return cmocka_run_group_tests_name("changes of shares", tests, NULL, NULL);
}

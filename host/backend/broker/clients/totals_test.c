/* SPDX-License-Identifier: MIT */
/* Sums over clients: each figure is added to its own, and stays at its maximum where a sum would not fit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "clients.h"

#define FIGURES (sizeof(struct brk_use) / sizeof(uint64_t))

union use {
    struct brk_use use;
    uint64_t figure[FIGURES];
};
_Static_assert(sizeof(struct brk_use) % sizeof(uint64_t) == 0, "figures of 64 bits only");

static void test_each_figure(void **state)
{
    (void)state;
    for (unsigned only = 0; only < FIGURES; only++) {
        union use sum = {.figure = {0}}, u = {.figure = {0}};

        for (unsigned i = 0; i < FIGURES; i++)
            sum.figure[i] = 1000 * (i + 1);
        u.figure[only] = 7 + only;
        brk_totals_add(&sum.use, &u.use);
        brk_totals_add(&sum.use, &u.use);
        for (unsigned i = 0; i < FIGURES; i++)
            assert_int_equal(sum.figure[i], 1000 * (i + 1) + (i == only ? 2 * (7 + only) : 0));
        u.figure[only] = UINT64_MAX - 1;
        brk_totals_add(&sum.use, &u.use);
        assert_true(sum.figure[only] == UINT64_MAX);
    }
}

/* What clients have used stays in the sums when they are gone, whatever their number. */
static void test_gone(void **state)
{
    static struct brk_client clients[3];
    uint64_t cpu = 0, throttled = 0;

    (void)state;
    brk_totals.gone = (struct brk_use){0};
    for (unsigned i = 0; i < 3; i++) {
        clients[i].cpu_ns = 10 + i;
        clients[i].throttled_ns = 100 + i;
        cpu += 10 + i;
        throttled += 100 + i;
        brk_totals_gone(&clients[i]);
        assert_int_equal(brk_totals.gone.cpu_ns, cpu);
        assert_int_equal(brk_totals.gone.throttled_ns, throttled);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_figure), cmocka_unit_test(test_gone)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

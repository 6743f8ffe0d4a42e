/* SPDX-License-Identifier: MIT */
/* How long a killed worker may take to end, and what a client's use adds up to. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "clients.h"
#include "vgb_deadline.h"

static unsigned stuck_calls;

static void stuck(struct brk_client *c)
{
    (void)c;
    stuck_calls++;
}

static const struct brk_client_ops ops = {.stuck = stuck};

/* A client that ends has VGB_REAP_MS from there on, another worker that was killed VGB_GRACE_MS from its kill. */
static void test_killed(void **state)
{
    const uint64_t at = UINT64_C(1000000000000);

    (void)state;
    for (int ending = 0; ending < 2; ending++) {
        const uint64_t limit = VGB_MS_TO_NS(ending ? VGB_REAP_MS : VGB_GRACE_MS);
        struct brk_proc p = {.pid = 1, .since_ns = ending ? 1 : at};
        struct brk_client c = {
            .ops = &ops, .state = ending ? BRK_C_ENDING : BRK_C_STARTING, .ending_ns = ending ? at : 1};

        stuck_calls = 0;
        assert_true(brk_client_users.unreaped(&c, &p, at + limit));
        assert_false(c.stuck);
        assert_true(brk_client_users.unreaped(&c, &p, at + limit + 1));
        assert_true(c.stuck);
        assert_int_equal(stuck_calls, 1);
        /* Once: then it counts only while something is held for it. */
        assert_false(brk_client_users.unreaped(&c, &p, at + 2 * limit));
        p.held = true;
        assert_true(brk_client_users.unreaped(&c, &p, at + 2 * limit));
        assert_int_equal(stuck_calls, 1);
    }
}

/* While a worker is stopped the time goes on, and no other time does. */
static void test_throttled(void **state)
{
    const uint64_t second = 1000000000u;
    struct brk_client c = {.throttled_ns = 3 * second, .cpu_ns = 7};
    struct brk_use u;

    (void)state;
    c.braked_ns = vgb_now_ns() - 5 * second;
    brk_totals_use(&c, &u);
    assert_int_equal(u.throttled_ns, 3 * second);
    assert_int_equal(u.cpu_ns, 7);
    c.brake = 1;
    brk_totals_use(&c, &u);
    assert_uint_in_range(u.throttled_ns, 8 * second, 600 * second);
    assert_int_equal(u.cpu_ns, 7);
}

/* Each of the sums is its own, and none goes back to 0. */
static void test_sums(void **state)
{
    struct brk_use sum = {1, 2, 3, 4, 5, 6}, more = {10, 20, 30, 40, 50, 60};
    uint64_t values[6];

    (void)state;
    assert_int_equal(sizeof(sum), sizeof(values));
    brk_totals_add(&sum, &more);
    memcpy(values, &sum, sizeof(values));
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(values[i], 11 * (i + 1));
    memset(&more, 0xff, sizeof(more));
    brk_totals_add(&sum, &more);
    memcpy(values, &sum, sizeof(values));
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(values[i], UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_throttled),
        cmocka_unit_test(test_sums),
    };

    return cmocka_run_group_tests_name("watch", tests, NULL, NULL);
}

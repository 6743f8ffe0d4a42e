/* SPDX-License-Identifier: MIT */
/* Token buckets and sizes at their exact bounds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "base.h"

#define SECOND UINT64_C(1000000000)

/* A bucket of any size counts as half full with half of its tokens, and not with one less. */
static void test_half(void **state)
{
    (void)state;
    for (unsigned burst = 1; burst <= 9; burst++) {
        for (unsigned taken = 0; taken <= burst; taken++) {
            const uint64_t now = SECOND;
            struct brk_bucket b;

            brk_bucket_init(&b, 10, burst);
            assert_true(brk_bucket_half(&b, now));
            for (unsigned i = 0; i < taken; i++)
                assert_int_equal(brk_bucket_take(&b, now), 0);
            if (brk_bucket_half(&b, now) != (2 * (burst - taken) >= burst))
                fail_msg("%u of %u tokens", burst - taken, burst);
            assert_true(brk_bucket_half(&b, now + burst * SECOND / 10));
        }
    }
}

/* The tokens of the time that passes: none a nanosecond early, never more than the bucket holds. */
static void test_filled(void **state)
{
    (void)state;
    for (unsigned burst = 1; burst <= 4; burst++) {
        uint64_t now = 7 * SECOND;
        struct brk_bucket b;

        brk_bucket_init(&b, 10, burst);
        for (unsigned i = 0; i < burst; i++)
            assert_int_equal(brk_bucket_take(&b, now), 0);
        assert_int_equal(brk_bucket_take(&b, now), SECOND / 10);
        assert_int_equal(brk_bucket_take(&b, now + SECOND / 10 - 1), 1);
        assert_int_equal(brk_bucket_take(&b, now + SECOND / 10), 0);
        now += 1000 * SECOND;
        for (unsigned i = 0; i < burst; i++)
            assert_int_equal(brk_bucket_take(&b, now), 0);
        assert_int_equal(brk_bucket_take(&b, now), SECOND / 10);
    }
}

/* Sizes with each unit: the largest that 64 bits hold is taken, the next one is refused and changes nothing. */
static void test_sizes(void **state)
{
    static const char units[] = "KMGT";
    static const char *const wrong[] = {"",
                                        "K",
                                        "-1",
                                        "+1",
                                        " 1",
                                        "1 ",
                                        "1k",
                                        "1KB",
                                        "1KK",
                                        "1.5G",
                                        "0x10",
                                        "18446744073709551616",
                                        "99999999999999999999T"};
    char text[40];

    (void)state;
    for (unsigned i = 0; i <= 4; i++) {
        const unsigned shift = 10 * i;
        const uint64_t most = UINT64_MAX >> shift;
        const char unit[2] = {i ? units[i - 1] : '\0', '\0'};
        uint64_t bytes = 77;

        for (uint64_t n = 0; n <= 2; n++) {
            snprintf(text, sizeof(text), "%llu%s", (unsigned long long)n, unit);
            assert_true(brk_parse_size(text, &bytes));
            assert_int_equal(bytes, n << shift);
        }
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)most, unit);
        assert_true(brk_parse_size(text, &bytes));
        assert_int_equal(bytes, most << shift);
        if (!shift)
            continue;
        snprintf(text, sizeof(text), "%llu%s", (unsigned long long)most + 1, unit);
        assert_false(brk_parse_size(text, &bytes));
        assert_int_equal(bytes, most << shift);
    }
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        uint64_t bytes = 77;

        if (brk_parse_size(wrong[i], &bytes) || bytes != 77)
            fail_msg("'%s' is taken for a size", wrong[i]);
    }
}

/* Each limit: its bounds are taken, what is beyond is refused, 0 where it means none. */
static void test_limits(void **state)
{
    char text[40], want[80];

    (void)state;
    for (unsigned i = 0; i < BRK_L_COUNT; i++) {
        const enum brk_limit_id id = (enum brk_limit_id)i;
        const struct brk_limit *l = &brk_limits[id];
        uint64_t value = 77;

        assert_int_equal(brk_limit_find(l->name), id);
        for (int k = -1; k <= 1; k++) {
            const bool in_low = k >= 0 || (l->none && l->low == 1), in_high = k <= 0;

            if (l->low || k >= 0) {
                snprintf(text, sizeof(text), "%llu",
                         (unsigned long long)l->low + (unsigned long long)(long long)k);
                if (brk_limit_parse(id, text, &value, want) != in_low)
                    fail_msg("%s %s", l->name, text);
            }
            if (l->high == UINT64_MAX && k > 0)
                continue;
            snprintf(text, sizeof(text), "%llu",
                     (unsigned long long)l->high + (unsigned long long)(long long)k);
            if (brk_limit_parse(id, text, &value, want) != in_high)
                fail_msg("%s %s", l->name, text);
        }
        assert_int_equal(brk_limit_parse(id, "0", &value, want), l->none || !l->low);
    }
    assert_int_equal(brk_limit_find("vram"), BRK_L_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_half), cmocka_unit_test(test_filled),
                                       cmocka_unit_test(test_sizes), cmocka_unit_test(test_limits)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The copy at every alignment and length around a line; the choice in simulated time. */
#include "bulk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../testing/range.h"

#define ROOM 1024u

static void copies_every_length_and_alignment(void **state)
{
    static uint8_t from[ROOM], to[ROOM];

    (void)state;
    for (size_t i = 0; i < ROOM; i++)
        from[i] = (uint8_t)(i * 7 + 1);
    for (size_t skew = 0; skew < 2 * BLK_LINE; skew += 3)
        for (size_t at = 0; at < BLK_LINE; at++)
            for (size_t n = 0; n < 5 * BLK_LINE; n += n < 2 * BLK_LINE ? 1 : 13) {
                memset(to, 0xee, sizeof(to));
                blk_copy_past(to + at, from + skew, n);
                assert_memory_equal(to + at, from + skew, n);
                assert_true(at == 0 || to[at - 1] == 0xee);
                assert_int_equal(to[at + n], 0xee);
            }
}

/* So many copies on a machine where the kinds take so many ns a KiB; how many were of another
   kind than the fastest. */
static unsigned rounds(struct blk_choice *c, unsigned n, const uint64_t *ns)
{
    unsigned other = 0, fastest = 0;

    for (unsigned k = 1; k < c->kinds; k++)
        fastest = ns[k] < ns[fastest] ? k : fastest;
    for (unsigned i = 0; i < n; i++) {
        const uint32_t kind = blk_choose(c);

        assert_uint_in_range(kind, 0, c->kinds - 1);
        other += kind != fastest;
        blk_learn(c, kind, 1u << 20, ns[kind] << 10);
    }
    return other;
}

static const uint64_t near_ns[BLK_KINDS] = {100, 150, 130, 170}, far_ns[BLK_KINDS] = {500, 120, 480, 90};

static void the_fastest_kind_is_found(void **state)
{
    (void)state;
    for (uint32_t kinds = 2; kinds <= BLK_KINDS; kinds += 2) {
        struct blk_choice near = {.kinds = kinds}, far = {.kinds = kinds};

        rounds(&near, kinds * (BLK_KEPT + 1), near_ns);
        assert_int_equal(near.best, 0);
        rounds(&far, kinds * (BLK_KEPT + 1), far_ns);
        assert_int_equal(far.best, kinds - 1);
        /* After that trials are rare, and become rarer. */
        assert_uint_in_range(rounds(&near, 1000, near_ns), 4, 6 * BLK_BURST);
        assert_uint_in_range(rounds(&far, 1000, far_ns), 4, 6 * BLK_BURST);
        assert_uint_in_range(rounds(&near, 10000, near_ns), 10 * BLK_BURST, 25 * BLK_BURST);
    }
}

static void equal_kinds_stay_ordinary(void **state)
{
    static const uint64_t ns[BLK_KINDS] = {100, 95, 88, 80};
    struct blk_choice c = {.kinds = BLK_KINDS};

    (void)state;
    rounds(&c, 200, ns);
    assert_int_equal(c.best, 0);
}

/* Two of five measurements may be spoilt by a lost time slice. */
static void spoilt_measurements_change_nothing(void **state)
{
    struct blk_choice c = {.kinds = 2};

    (void)state;
    rounds(&c, 30, far_ns);
    assert_int_equal(c.best, 1);
    blk_learn(&c, 1, 1u << 20, UINT64_C(8000000));
    blk_learn(&c, 1, 1u << 20, UINT64_MAX / 1000);
    assert_int_equal(c.best, 1);
    blk_learn(&c, 1, 0, 5);
    assert_int_equal(c.best, 1);
}

/* What stays in the caches makes the next ordinary copy fast: that shows only when several
   follow each other. */
static void what_the_caches_hold_counts(void **state)
{
    struct blk_choice c = {.kinds = BLK_KINDS};
    bool held = false;

    (void)state;
    for (unsigned i = 0; i < 3000; i++) {
        const uint32_t kind = blk_choose(&c);

        blk_learn(&c, kind, 1u << 20, (kind & BLK_FROM_PIECE ? 130u : held ? 100u : 180u) << 10);
        held = !(kind & BLK_FROM_PIECE);
    }
    assert_int_equal(c.best & BLK_FROM_PIECE, 0);
}

/* Copies that are seldom measured get their trials, and a measurement to compare with, too. */
static void unmeasured_copies_have_trials(void **state)
{
    struct blk_choice c = {.kinds = 2};
    unsigned measured = 0;

    (void)state;
    assert_true(blk_unsure(&c));
    assert_int_equal(blk_choose_unmeasured(&c), 0);
    for (unsigned i = 0; i < 5000; i++) {
        if (blk_unsure(&c)) {
            measured++;
            rounds(&c, 1, i < 2500 ? near_ns : far_ns);
        } else {
            blk_choose_unmeasured(&c);
        }
        assert_false(i < 2500 && c.best != 0);
    }
    assert_int_equal(c.best, 1);
    assert_uint_in_range(measured, 2 * BLK_KEPT + 20, 200);
}

/* The worker is moved to a processor that shares a cache, and back. */
static void a_change_is_noticed(void **state)
{
    struct blk_choice c = {.kinds = BLK_KINDS};

    (void)state;
    rounds(&c, 5000, far_ns);
    assert_int_equal(c.best, 3);
    rounds(&c, 20 * BLK_TRY_MAX, near_ns);
    assert_int_equal(c.best, 0);
    rounds(&c, 20 * BLK_TRY_MIN, far_ns); /* the kind in use has become slower than the others were */
    assert_int_not_equal(c.best, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_every_length_and_alignment),
        cmocka_unit_test(the_fastest_kind_is_found),
        cmocka_unit_test(equal_kinds_stay_ordinary),
        cmocka_unit_test(spoilt_measurements_change_nothing),
        cmocka_unit_test(unmeasured_copies_have_trials),
        cmocka_unit_test(what_the_caches_hold_counts),
        cmocka_unit_test(a_change_is_noticed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

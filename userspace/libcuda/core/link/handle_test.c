/* SPDX-License-Identifier: MIT */
/* The handle table: stale, foreign and wrong-typed handles, generations, delayed reuse, threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "../../../../protocol/vgp_guest_rt.h"
#include "../core.h"

static void test_values(void **state)
{
    uint64_t h = vgp_handle_mint(VGP_H_EVENT);

    (void)state;
    assert_int_not_equal(h, 0);
    assert_true(h > 2); /* never one of the special streams */
    assert_int_equal(VGP_HANDLE_TYPE(h), VGP_H_EVENT);
    assert_int_not_equal(VGP_HANDLE_GEN(h), 0);
    assert_true(vgp_handle_live(h, VGP_H_EVENT));
    assert_false(vgp_handle_live(h, VGP_H_MODULE));             /* wrong type asked for */
    assert_false(vgp_handle_live(h ^ 1ull << 32, VGP_H_EVENT)); /* another generation */
    assert_false(vgp_handle_live(h + 1, VGP_H_EVENT));          /* an index never used */
    assert_false(vgp_handle_live(0, VGP_H_EVENT));
    assert_false(vgp_handle_live(h, (enum vgp_handle_type)200));
    vgp_handle_drop(h);
    assert_false(vgp_handle_live(h, VGP_H_EVENT));
    vgp_handle_drop(h); /* twice is harmless */
}

static void test_bad_types(void **state)
{
    const uint64_t live = vgp_handle_mint(VGP_H_EVENT);

    (void)state;
    assert_int_equal(vgp_handle_mint((enum vgp_handle_type)0), 0);
    assert_int_equal(vgp_handle_mint(VGP_H_TYPES), 0);
    vgp_handle_drop(0);
    vgp_handle_drop(UINT64_MAX);
    /* Each number of a type that a handle can hold, also those without a table. */
    for (unsigned type = 0; type < 256; type++) {
        const uint64_t h = (live & ~(UINT64_C(0xff) << 56)) | (uint64_t)type << 56;

        if (type == VGP_H_EVENT)
            continue;
        vgp_handle_drop(h);
        assert_false(vgp_handle_live(h, (enum vgp_handle_type)type));
        assert_null(vcu_handle_data(h, (enum vgp_handle_type)type));
    }
    assert_true(vgp_handle_live(live, VGP_H_EVENT));
    vgp_handle_drop(live);
}

/* Facts are of one object: they begin at 0, and are not learnt over a change or for a later object. */
static void test_facts(void **state)
{
    uint64_t first = vgp_handle_mint(VGP_H_STREAM), other = vgp_handle_mint(VGP_H_STREAM);

    (void)state;
    assert_int_equal(vcu_handle_fact(first, VGP_H_STREAM, 0), 0);
    assert_true(vcu_handle_learn(first, VGP_H_STREAM, 0, 0, 7));
    assert_false(vcu_handle_learn(first, VGP_H_STREAM, 0, 0, 8));
    assert_true(vcu_handle_learn(first, VGP_H_STREAM, 1, 0, 9));
    assert_int_equal(vcu_handle_fact(first, VGP_H_STREAM, 0), 7);
    assert_int_equal(vcu_handle_fact(first, VGP_H_STREAM, 1), 9);
    assert_int_equal(vcu_handle_fact(first, VGP_H_EVENT, 0), 0);
    assert_int_equal(vcu_handle_fact(other, VGP_H_STREAM, 0), 0);
    vgp_handle_drop(first);
    assert_int_equal(vcu_handle_fact(first, VGP_H_STREAM, 0), 0);
    for (int i = 0; i < 200; i++) {
        uint64_t h = vgp_handle_mint(VGP_H_STREAM);

        assert_int_equal(vcu_handle_fact(h, VGP_H_STREAM, 0), 0);
        assert_int_equal(vcu_handle_fact(h, VGP_H_STREAM, 1), 0);
        assert_false(vcu_handle_learn(first, VGP_H_STREAM, 0, 0, 7));
        assert_int_equal(vcu_handle_fact(h, VGP_H_STREAM, 0), 0);
        vgp_handle_drop(h);
    }
    vgp_handle_drop(other);
}

static void test_reuse(void **state)
{
    uint64_t first = vgp_handle_mint(VGP_H_GRAPH);
    int reused = 0;

    (void)state;
    vgp_handle_drop(first);
    for (int i = 0; i < 1000; i++) {
        uint64_t h = vgp_handle_mint(VGP_H_GRAPH);

        assert_int_not_equal(h, first);
        if (VGP_HANDLE_INDEX(h) == VGP_HANDLE_INDEX(first)) {
            reused++;
            assert_true(i >= 32); /* not at once */
            assert_int_not_equal(VGP_HANDLE_GEN(h), VGP_HANDLE_GEN(first));
        }
        vgp_handle_drop(h);
        assert_false(vgp_handle_live(first, VGP_H_GRAPH));
    }
    assert_true(reused > 0); /* but it is: the table does not grow without end */
}

static void test_data(void **state)
{
    uint64_t h = vgp_handle_mint(VGP_H_LIBRARY);
    int value;

    (void)state;
    assert_null(vcu_handle_data(h, VGP_H_LIBRARY));
    assert_true(vcu_handle_set_data(h, VGP_H_LIBRARY, &value));
    assert_ptr_equal(vcu_handle_data(h, VGP_H_LIBRARY), &value);
    assert_null(vcu_handle_data(h, VGP_H_MODULE));
    vgp_handle_drop(h);
    assert_null(vcu_handle_data(h, VGP_H_LIBRARY));
    assert_false(vcu_handle_set_data(h, VGP_H_LIBRARY, &value));
}

static void test_limit(void **state)
{
    uint64_t *all = test_malloc(VGP_HANDLE_INDEX_MAX * sizeof(*all));
    uint32_t n = 0;
    uint64_t h;

    (void)state;
    while ((h = vgp_handle_mint(VGP_H_TEXTURE)) != 0) {
        assert_true(n < VGP_HANDLE_INDEX_MAX);
        all[n++] = h;
    }
    assert_int_equal(n, VGP_HANDLE_INDEX_MAX - 1); /* index 0 is not used */
    vgp_handle_drop(all[7]);
    h = vgp_handle_mint(VGP_H_TEXTURE);
    assert_int_equal(VGP_HANDLE_INDEX(h), VGP_HANDLE_INDEX(all[7]));
    assert_int_not_equal(h, all[7]);
    assert_int_equal(vgp_handle_mint(VGP_H_TEXTURE), 0);
    test_free(all);
}

static void *churn(void *arg)
{
    uint64_t mine[32];
    uintptr_t bad = 0;

    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 32; i++) {
            mine[i] = vgp_handle_mint(VGP_H_EVENT);
            vcu_handle_set_data(mine[i], VGP_H_EVENT, arg);
        }
        for (int i = 0; i < 32; i++) {
            bad += vcu_handle_data(mine[i], VGP_H_EVENT) != arg;
            vgp_handle_drop(mine[i]);
            bad += vgp_handle_live(mine[i], VGP_H_EVENT);
        }
    }
    return (void *)bad;
}

static void test_threads(void **state)
{
    pthread_t t[4];
    int tags[4];
    uint32_t before = vcu_handle_count(VGP_H_EVENT);

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, churn, &tags[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *bad;

        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(vcu_handle_count(VGP_H_EVENT), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_bad_types), cmocka_unit_test(test_facts),
        cmocka_unit_test(test_reuse),   cmocka_unit_test(test_data),      cmocka_unit_test(test_limit),
        cmocka_unit_test(test_threads),
    };

    return cmocka_run_group_tests_name("handle", tests, NULL, NULL);
}

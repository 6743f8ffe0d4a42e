/* SPDX-License-Identifier: MIT */
/* Stored answers of queries, and their invalidation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "code.h"
#include "recall.h"

static void test_kept(void **state)
{
    struct vcu_question q = {.call = 7, .object = 3, .inputs = {1, 2, 3}}, other;
    uint64_t answer[2] = {0};

    (void)state;
    assert_false(vcu_recall(&q, answer));
    vcu_recall_keep(&q, (uint64_t[2]){10, 20});
    assert_true(vcu_recall(&q, answer));
    assert_int_equal(answer[0], 10);
    assert_int_equal(answer[1], 20);
    /* Each part of a question counts. */
    for (int part = 0; part < 5; part++) {
        other = (struct vcu_question){.call = 7, .object = 3, .inputs = {1, 2, 3}};
        other.call += part == 0;
        other.object += part == 1;
        if (part >= 2)
            other.inputs[part - 2]++;
        assert_false(vcu_recall(&other, answer));
    }
    assert_true(vcu_recall(&q, answer));
    vcu_recall_forget();
    assert_false(vcu_recall(&q, answer));
}

/* An answer to a query made before a setting changed, and received after it, is not kept. */
static void test_late(void **state)
{
    struct vcu_question q = {.call = 8};
    uint64_t answer[2] = {0};

    (void)state;
    assert_false(vcu_recall(&q, answer));
    vcu_recall_forget();
    vcu_recall_keep(&q, (uint64_t[2]){1, 1});
    assert_false(vcu_recall(&q, answer));
}

/* Many queries: every stored answer is right, whichever entries were replaced. */
static void test_many(void **state)
{
    uint64_t answer[2] = {0};
    unsigned known = 0;

    (void)state;
    for (uint64_t i = 0; i < 10000; i++) {
        struct vcu_question q = {.call = 9, .inputs = {i}};

        assert_false(vcu_recall(&q, answer));
        vcu_recall_keep(&q, (uint64_t[2]){i, ~i});
    }
    for (uint64_t i = 0; i < 10000; i++) {
        struct vcu_question q = {.call = 9, .inputs = {i}};

        if (!vcu_recall(&q, answer))
            continue;
        known++;
        assert_int_equal(answer[0], i);
        assert_int_equal(answer[1], ~i);
    }
    assert_true(known > 100);
}

static void test_off(void **state)
{
    struct vcu_question q = {.call = 10};
    uint64_t answer[2] = {0};

    (void)state;
    assert_false(vcu_recall(&q, answer));
    vcu_recall_keep(&q, (uint64_t[2]){1, 1});
    setenv("VGPU_ANSWER_QUERIES", "0", 1);
    vcu_recall_init();
    assert_false(vcu_recall(&q, answer));
    unsetenv("VGPU_ANSWER_QUERIES");
    vcu_recall_init();
    assert_true(vcu_recall(&q, answer));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_off),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* The most memory that a graph's launch has at one time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "graph.h"

#define KEPT WRK_PEAK_KEPT
#define N(a) (sizeof(a) / sizeof((a)[0]))

/* a0 f0 a1 f1 a2 f2, one after the other: never two at once. */
static void test_chain(void **state)
{
    static const uint32_t edges[][2] = {{4, 5}, {0, 1}, {1, 2}, {3, 4}, {2, 3}};
    const struct wrk_peak_mem mem[] = {{0, 1, 100}, {2, 3, 300}, {4, 5, 200}};

    (void)state;
    assert_int_equal(wrk_peak(6, edges, N(edges), mem, N(mem)), 300);
}

/* a0 a1 f0 a2 f1 f2: two at once. */
static void test_overlap(void **state)
{
    static const uint32_t edges[][2] = {{0, 1}, {1, 2}, {2, 3}, {3, 4}, {4, 5}};
    const struct wrk_peak_mem mem[] = {{0, 2, 100}, {1, 4, 10}, {3, 5, 150}};

    (void)state;
    assert_int_equal(wrk_peak(6, edges, N(edges), mem, N(mem)), 160);
}

/* Branches without an order may run at once, even when each frees before it allocates again. */
static void test_branches(void **state)
{
    static const uint32_t edges[][2] = {{0, 1}, {1, 2}, {2, 3}, {4, 5}};
    const struct wrk_peak_mem mem[] = {{0, 1, 100}, {2, 3, 50}, {4, 5, 70}};

    (void)state;
    /* 170 would do: the third is counted with both, of which it may meet either. */
    assert_int_equal(wrk_peak(6, edges, N(edges), mem, N(mem)), 220);
    assert_int_equal(wrk_peak(6, NULL, 0, mem, N(mem)), 220);
}

/* What the graph leaves allocated counts from its beginning on. */
static void test_kept(void **state)
{
    static const uint32_t edges[][2] = {{0, 1}, {1, 2}};
    const struct wrk_peak_mem mem[] = {{0, 1, 100}, {2, KEPT, 30}};

    (void)state;
    assert_int_equal(wrk_peak(3, edges, N(edges), mem, N(mem)), 130);
    assert_int_equal(wrk_peak(0, NULL, 0, NULL, 0), 0);
}

/* Edges that no driver gives, and sizes that wrap: the sum, and never less. */
static void test_odd(void **state)
{
    static const uint32_t circle[][2] = {{0, 1}, {1, 0}};
    const struct wrk_peak_mem mem[] = {{0, 1, 100}, {1, 0, 30}};
    const struct wrk_peak_mem huge[] = {{0, KEPT, UINT64_MAX / 2 + 1}, {1, KEPT, UINT64_MAX / 2 + 1}};

    (void)state;
    assert_int_equal(wrk_peak(2, circle, N(circle), mem, N(mem)), 130);
    assert_true(wrk_peak(2, NULL, 0, huge, N(huge)) == UINT64_MAX);
}

/* The work has a bound: of a graph so large the sum counts. */
static void test_large(void **state)
{
    enum { NODES = 1 << 20, MEM = 4096 };
    uint32_t(*edges)[2] = calloc(NODES, sizeof(*edges));
    struct wrk_peak_mem *mem = calloc(MEM, sizeof(*mem));

    (void)state;
    assert_non_null(edges);
    assert_non_null(mem);
    for (uint32_t i = 0; i + 1 < NODES; i++) {
        edges[i][0] = i;
        edges[i][1] = i + 1;
    }
    for (uint32_t m = 0; m < MEM; m++)
        mem[m] = (struct wrk_peak_mem){2 * m, 2 * m + 1, 1};
    assert_int_equal(wrk_peak(NODES / 16, (const uint32_t(*)[2])edges, NODES / 16 - 1, mem, MEM), 1);
    assert_int_equal(wrk_peak(NODES, (const uint32_t(*)[2])edges, NODES - 1, mem, MEM), MEM);
    free(edges);
    free(mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chain), cmocka_unit_test(test_overlap), cmocka_unit_test(test_branches),
        cmocka_unit_test(test_kept),  cmocka_unit_test(test_odd),     cmocka_unit_test(test_large),
    };

    return cmocka_run_group_tests_name("memory_peak", tests, NULL, NULL);
}

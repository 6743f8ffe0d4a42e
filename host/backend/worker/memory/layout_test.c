/* SPDX-License-Identifier: MIT */
/* Where memory of the guest goes: its own address, but never near this process's own mappings. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "memory.h"

#define SIZE (UINT64_C(1) << 21)
#define FREE UINT64_C(0x123400000000) /* nothing is there in any layout of x86-64 or arm64 */

static int init(void **state)
{
    (void)state;
    return wrk_layout_init() ? 0 : -1;
}

static void test_own_address(void **state)
{
    (void)state;
    uint8_t *p = wrk_layout_reserve(FREE, SIZE);

    assert_int_equal((uintptr_t)p, FREE);
    /* Taken by the guest itself: another one. */
    uint8_t *q = wrk_layout_reserve(FREE, SIZE);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    munmap(p, SIZE);
    munmap(q, SIZE);
}

/* Addresses that are free, and yet are not used: their answer would tell where our mappings end. */
static void near(uintptr_t ours)
{
    static const int64_t off[] = {
        0, 1 << 21, -(1 << 21), INT64_C(1) << 30, -(INT64_C(1) << 30), INT64_C(1) << 32, -(INT64_C(1) << 32)};

    for (unsigned i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        uint64_t va = ((uint64_t)ours + (uint64_t)off[i]) & ~UINT64_C(0xfff);

        if (va < (1 << 21) || va >> 47)
            continue;
        uint8_t *p = wrk_layout_reserve(va, SIZE);
        assert_non_null(p);
        assert_int_not_equal((uintptr_t)p, va);
        /* What is moved is far from everything of ours. */
        uint64_t d = (uintptr_t)p > ours ? (uintptr_t)p - ours : ours - (uintptr_t)p;
        assert_true(d > UINT64_C(1) << 33);
        munmap(p, SIZE);
    }
}

static void test_near_own_mappings(void **state)
{
    int on_stack = 0;
    void *heap = malloc(100), *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    near((uintptr_t)&on_stack);
    near((uintptr_t)test_near_own_mappings);
    near((uintptr_t)heap);
    near((uintptr_t)printf);
    near((uintptr_t)map);
    free(heap);
    munmap(map, 4096);
}

/* A range that contains one of our mappings, whatever its size. */
static void test_around(void **state)
{
    const uint64_t size = UINT64_C(1) << 40;
    uint64_t va = ((uintptr_t)printf & ~(size - 1));

    (void)state;
    uint8_t *p = wrk_layout_reserve(va, size);
    assert_non_null(p);
    assert_int_not_equal((uintptr_t)p, va);
    munmap(p, size);
}

static void test_moved_is_random(void **state)
{
    uint8_t *p[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        p[i] = wrk_layout_reserve(0, SIZE);
        assert_non_null(p[i]);
        for (unsigned k = 0; k < i; k++) {
            int64_t d = p[i] - p[k];

            assert_true(d > (1 << 21) || d < -(1 << 21));
        }
    }
    for (unsigned i = 0; i < 8; i++)
        munmap(p[i], SIZE);
}

static void test_impossible(void **state)
{
    (void)state;
    assert_null(wrk_layout_reserve(FREE, UINT64_C(1) << 47));
    assert_null(wrk_layout_reserve(UINT64_MAX - 4095, UINT64_C(1) << 60));
    uint8_t *p = wrk_layout_reserve((UINT64_C(1) << 47) - 4096, SIZE); /* over the end */
    assert_non_null(p);
    munmap(p, SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_address), cmocka_unit_test(test_near_own_mappings),
        cmocka_unit_test(test_around),      cmocka_unit_test(test_moved_is_random),
        cmocka_unit_test(test_impossible),
    };

    return cmocka_run_group_tests_name("layout", tests, init, NULL);
}

/* SPDX-License-Identifier: MIT */
/* Where memory of the guest goes: its own address, but never in an area with this process's own mappings. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <unistd.h>

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

#define AREA (UINT64_C(1) << 35) /* nothing finer than that may show */

/* Addresses that are free, and yet are not used: their answer would tell where our mappings end. */
static void near(uintptr_t ours)
{
    static const int64_t off[] = {
        0, 1 << 21, -(1 << 21), INT64_C(1) << 30, -(INT64_C(1) << 30), INT64_C(1) << 34, -(INT64_C(1) << 34)};

    for (unsigned i = 0; i < sizeof(off) / sizeof(off[0]); i++) {
        uint64_t va = ((uint64_t)ours + (uint64_t)off[i]) & ~UINT64_C(0xfff);

        if (va / AREA != ours / AREA)
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

/* Would the guest's memory be at that address? Asked as a guest asks: by mapping it. */
static bool kept(uint64_t va)
{
    uint8_t *p = wrk_layout_reserve(va, VGP_PAGE);
    bool there = (uintptr_t)p == va;

    assert_non_null(p);
    munmap(p, VGP_PAGE);
    return there;
}

/* A page of the same area as va that is nowhere near a mapping of the process. */
static uint64_t elsewhere(uint64_t va)
{
    for (uint64_t page = va & ~(AREA - 1), step = AREA / 64, i = 0; i < 64; i++, page += step) {
        FILE *f = fopen("/proc/self/maps", "re");
        unsigned long long low, high;
        bool clear = page != 0;
        char line[600];

        assert_non_null(f);
        while (fgets(line, sizeof(line), f)) {
            if (sscanf(line, "%llx-%llx", &low, &high) == 2 && page + step > low && page < high + step)
                clear = false;
        }
        fclose(f);
        if (clear)
            return page;
    }
    return 0;
}

/* At every edge of every mapping the answer is the one for the whole area: it tells nothing of the edge. */
static void test_edges(void **state)
{
    static uint64_t edges[1024];
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long low, high;
    unsigned n = 0, asked = 0;
    char line[600];

    (void)state;
    assert_non_null(f);
    while (n + 2 <= sizeof(edges) / sizeof(edges[0]) && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx", &low, &high) == 2 && high <= UINT64_C(1) << 47) {
            edges[n++] = low;
            edges[n++] = high;
        }
    }
    fclose(f);
    for (unsigned i = 0; i < n; i++) {
        for (int step = -3; step <= 3; step++) {
            const uint64_t va = edges[i] + (uint64_t)(int64_t)step * VGP_PAGE, other = elsewhere(va);

            if (va + VGP_PAGE > UINT64_C(1) << 47 || !other)
                continue;
            assert_int_equal(kept(va), kept(other));
            asked++;
        }
    }
    assert_true(asked > 100);
}

/* What the process maps later is in areas that were its own from the beginning, as the executable's two. */
static void test_later_mappings(void **state)
{
    const uint64_t exe = (uintptr_t)test_later_mappings / AREA;
    const size_t big = UINT64_C(1) << 40;
    unsigned count = 0;
    uint8_t *p;

    (void)state;
    p = mmap(NULL, big, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_false(wrk_layout_may_keep((uintptr_t)p, VGP_PAGE));
    assert_false(wrk_layout_may_keep((uintptr_t)p + big - VGP_PAGE, VGP_PAGE));
    munmap(p, big);
    p = sbrk(0);
    assert_false(wrk_layout_may_keep((uintptr_t)p & ~UINT64_C(0xfff), UINT64_C(1) << 30));
    for (uint64_t a = 0; a < (UINT64_C(1) << 47) / AREA - 1; a++) {
        bool mine = !wrk_layout_may_keep(a * AREA + AREA / 2, VGP_PAGE);

        if (a >= exe - 3 && a <= exe + 3)
            count += mine;
    }
    assert_int_equal(count,
                     2); /* always: a third one would show that the heap is near the end of the second */
    assert_false(wrk_layout_may_keep(exe * AREA, AREA));
    assert_false(wrk_layout_may_keep((exe + 1) * AREA, AREA));
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

/* What is shared with a provider or the client: in areas where memory of the guest never is, far from the rest of
 * the process and at places that say nothing about each other. */
static void test_private(void **state)
{
    uint8_t *p[8];

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        p[i] = wrk_layout_private(SIZE);
        assert_non_null(p[i]);
        const uint64_t range = (uintptr_t)p[i] & ~((UINT64_C(1) << 40) - 1);
        for (uint64_t va = range; va < range + (UINT64_C(1) << 40); va += AREA)
            assert_false(wrk_layout_may_keep(va, AREA));
        assert_false(kept((uintptr_t)p[i] + 64 * SIZE));
        assert_true((uintptr_t)p[i] < UINT64_C(1) << 45);
        for (unsigned k = 0; k < i; k++) {
            int64_t d = p[i] - p[k];

            assert_true(d > (1 << 21) || d < -(1 << 21));
            assert_true((uintptr_t)p[k] >= range && (uintptr_t)p[k] < range + (UINT64_C(1) << 40));
        }
    }
    for (unsigned i = 0; i < 8; i++)
        munmap(p[i], SIZE);
    assert_null(wrk_layout_private(UINT64_C(1) << 41));
    /* Where the software GPU maps what kernels see: a guest that is there first would send it elsewhere. */
    for (uint64_t va = UINT64_C(0x1f0000000000); va < UINT64_C(0x200000000000); va += AREA)
        assert_false(wrk_layout_may_keep(va, AREA));
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

/* As a worker, which wrk_main.c starts again with the old layout. */
static void old_layout(char **argv)
{
#ifndef __SANITIZE_THREAD__
    int now = personality(0xffffffff);

    if (now < 0 || now & ADDR_COMPAT_LAYOUT || personality((unsigned long)now | ADDR_COMPAT_LAYOUT) < 0)
        return;
    execv("/proc/self/exe", argv);
#else
    (void)argv;
#endif
}

int main(int argc, char **argv)
{
    (void)argc;
    old_layout(argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_address),    cmocka_unit_test(test_near_own_mappings),
        cmocka_unit_test(test_around),         cmocka_unit_test(test_moved_is_random),
        cmocka_unit_test(test_impossible),     cmocka_unit_test(test_edges),
        cmocka_unit_test(test_later_mappings), cmocka_unit_test(test_private),
    };

    return cmocka_run_group_tests_name("layout", tests, init, NULL);
}

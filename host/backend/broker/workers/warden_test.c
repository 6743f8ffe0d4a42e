/* SPDX-License-Identifier: MIT */
/* How the broker sees whether guest memory is mapped in a worker: here, in itself. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "workers.h"

#define PAGE 4096u
#define PAGES 3000u /* their lines do not fit into one read */

static int maps, file;
static uint8_t *place;

static int setup(void **state)
{
    (void)state;
    maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    file = memfd_create("ram", MFD_CLOEXEC);
    place = mmap(NULL, PAGES * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return maps < 0 || file < 0 || ftruncate(file, PAGES * PAGE) || place == MAP_FAILED;
}

static void put(unsigned page, unsigned n, int prot)
{
    assert_ptr_equal(mmap(place + page * PAGE, n * PAGE, prot, MAP_SHARED | MAP_FIXED, file, 0),
                     place + page * PAGE);
}

static void take(unsigned page, unsigned n)
{
    assert_ptr_equal(mmap(place + page * PAGE, n * PAGE, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0),
                     place + page * PAGE);
}

static unsigned parts; /* of the last look */

static int by_text(int fd, uint64_t at, uint64_t length)
{
    static struct brk_look look;
    int have = BRK_LOOK_MORE;

    brk_look_begin(&look, fd, at, length);
    for (parts = 0; have == BRK_LOOK_MORE; parts++)
        have = brk_look_on(&look);
    return have;
}

/* By both ways the same, where the kernel has both. */
static int seen(unsigned page, unsigned n)
{
    uint64_t at = (uintptr_t)place + page * PAGE;
    int asked = brk_maps_ask(maps, at, n * PAGE), text = by_text(maps, at, n * PAGE);

    assert_true(asked == text || asked == BRK_LOOK_MORE);
    return text;
}

static void test_edges(void **state)
{
    (void)state;
    assert_int_equal(seen(0, PAGES), 0);
    put(10, 4, PROT_READ);
    assert_int_equal(seen(0, 10), 0);
    assert_int_equal(seen(0, 11), 1);
    assert_int_equal(seen(11, 1), 1);
    assert_int_equal(seen(13, 5), 1);
    assert_int_equal(seen(14, 5), 0);
    assert_int_equal(seen(0, PAGES), 1);
    take(10, 3);
    assert_int_equal(seen(10, 4), 1); /* a page was left */
    assert_int_equal(seen(10, 3), 0);
    take(13, 1);
    assert_int_equal(seen(0, PAGES), 0);
    put(10, 1, PROT_NONE); /* what cannot be read now can be made readable */
    assert_int_equal(seen(10, 1), 1);
    take(10, 1);
}

/* The last one of many. */
static void test_many(void **state)
{
    (void)state;
    for (unsigned i = 0; i + 2 < PAGES; i += 2)
        assert_int_equal(mprotect(place + i * PAGE, PAGE, PROT_READ), 0);
    assert_int_equal(seen(0, PAGES), 0);
    /* None of its parts is longer than what one look reads at once. */
    assert_in_range(parts, PAGES / 600, PAGES);
    put(PAGES - 1, 1, PROT_READ | PROT_WRITE);
    assert_int_equal(seen(0, PAGES), 1);
    assert_int_equal(seen(0, PAGES - 1), 0);
    take(PAGES - 1, 1);
    assert_int_equal(seen(0, PAGES), 0);
}

/* A list that cannot be read says nothing: the worker is ended. */
static void test_unreadable(void **state)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(brk_maps_ask(fd, (uintptr_t)place, PAGE), BRK_LOOK_MORE);
    assert_int_equal(by_text(fd, (uintptr_t)place, PAGE), -1);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_unreadable),
    };

    return cmocka_run_group_tests_name("warden", tests, setup, NULL);
}

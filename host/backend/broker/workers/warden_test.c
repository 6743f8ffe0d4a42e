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

/* By both ways the same. */
static int seen(unsigned page, unsigned n)
{
    uint64_t at = (uintptr_t)place + page * PAGE;
    int by_query = brk_maps_have_file(maps, at, n * PAGE, false),
        by_text = brk_maps_have_file(maps, at, n * PAGE, true);

    assert_int_equal(by_query, by_text);
    return by_query;
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
    assert_int_equal(brk_maps_have_file(fd, (uintptr_t)place, PAGE, true), -1);
    assert_int_equal(brk_maps_have_file(fd, (uintptr_t)place, PAGE, false), -1);
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

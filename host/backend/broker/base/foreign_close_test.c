/* SPDX-License-Identifier: MIT */
/* Descriptors whose close waits for as long as others like, and more of them than there are threads to wait. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

#define FIRST 200 /* from here on a close waits */
#define THREADS 64u
#define MANY 400u

static pthread_t loop;
static unsigned waits, closed;
static bool held, by_loop;

/* In the place of the C library's: what a file of a FUSE does whose server does not answer. */
int close(int fd)
{
    if (fd >= FIRST && fd < FIRST + (int)MANY) {
        if (pthread_equal(pthread_self(), loop))
            by_loop = true; /* and does not wait, for the test's sake */
        __atomic_fetch_add(&waits, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&held, __ATOMIC_SEQ_CST) && !pthread_equal(pthread_self(), loop))
            usleep(1000);
        __atomic_fetch_add(&closed, 1, __ATOMIC_SEQ_CST);
    }
    return (int)syscall(SYS_close, fd);
}

static bool is_open(int fd)
{
    return fcntl(fd, F_GETFD) >= 0;
}

static bool reaches(const unsigned *counter, unsigned value)
{
    for (int i = 0; i < 60000 && __atomic_load_n(counter, __ATOMIC_SEQ_CST) != value; i++)
        usleep(1000);
    return __atomic_load_n(counter, __ATOMIC_SEQ_CST) == value;
}

static void give(unsigned from, unsigned to)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0 && fd < FIRST);
    for (unsigned i = from; i < to; i++)
        assert_int_equal(dup3(fd, FIRST + (int)i, O_CLOEXEC), FIRST + (int)i);
    close(fd);
    for (unsigned i = from; i < to; i++)
        brk_foreign_close(FIRST + (int)i);
}

static void test_more_than_threads(void **state)
{
    int pair[2];
    char byte;

    (void)state;
    loop = pthread_self();
    held = true;
    give(0, THREADS);
    assert_true(reaches(&waits, THREADS));
    assert_false(brk_foreign_crowded());
    /* The next ones hold nobody, and are not forgotten. */
    give(THREADS, MANY);
    assert_false(by_loop);
    assert_true(brk_foreign_crowded());
    assert_int_equal(closed, 0);
    for (unsigned i = 0; i < MANY; i++)
        assert_true(is_open(FIRST + (int)i));
    /* A connection that ends now takes what is queued in it along; its peer sees the end at once. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    int was = pair[0];
    assert_int_equal(send(pair[1], "x", 1, 0), 1);
    brk_foreign_end(&pair[0]);
    assert_int_equal(pair[0], -1);
    assert_true(is_open(was));
    assert_int_equal(recv(pair[1], &byte, 1, 0), 0);
    __atomic_store_n(&held, false, __ATOMIC_SEQ_CST);
    assert_true(reaches(&closed, MANY));
    for (int i = 0; i < 60000 && is_open(was); i++)
        usleep(1000);
    assert_false(is_open(was));
    assert_false(brk_foreign_crowded());
    for (unsigned i = 0; i < MANY; i++)
        assert_false(is_open(FIRST + (int)i));
    assert_false(by_loop);
    close(pair[1]);
}

/* The pages of a file in memory go with its last close: not while the loop waits, and not behind those that wait. */
static void test_memory(void **state)
{
    enum { SMALL = 4096, LARGE = 64 << 20 };

    (void)state;
    loop = pthread_self();
    waits = closed = 0;
    held = false;
    for (unsigned i = 0; i < 2; i++) {
        int fd = memfd_create("test", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(fallocate(fd, 0, 0, i ? LARGE : SMALL), 0);
        assert_int_equal(dup3(fd, FIRST + (int)i, O_CLOEXEC), FIRST + (int)i);
        close(fd);
        brk_foreign_close(FIRST + (int)i);
        /* One page is not worth a thread. */
        assert_true(by_loop == !i);
        by_loop = false;
    }
    assert_true(reaches(&closed, 2));
    for (int i = 0; i < 60000 && is_open(FIRST + 1); i++)
        usleep(1000);
    assert_false(is_open(FIRST + 1));
    /* All threads wait for others: memory is given up all the same. */
    waits = closed = 0;
    held = true;
    give(0, THREADS + 1);
    assert_true(reaches(&waits, THREADS));
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0 && fd < FIRST);
    assert_int_equal(fallocate(fd, 0, 0, LARGE), 0);
    brk_foreign_close(fd);
    for (int i = 0; i < 60000 && is_open(fd); i++)
        usleep(1000);
    assert_false(is_open(fd));
    assert_int_equal(closed, 0);
    __atomic_store_n(&held, false, __ATOMIC_SEQ_CST);
    assert_true(reaches(&closed, THREADS + 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_more_than_threads),
                                       cmocka_unit_test(test_memory)};

    return cmocka_run_group_tests_name("descriptors of others", tests, NULL, NULL);
}

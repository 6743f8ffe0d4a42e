/* SPDX-License-Identifier: MIT */
/* The arbiter's file with very many locks in it. fair_test.c has the other tests of the file. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

static unsigned naps, slow_us;

/* In the places of the C library's: how often somebody is waited for; a child that is slow. */
int usleep(useconds_t us)
{
    const struct timespec t = {.tv_nsec = (long)us * 1000};

    naps++;
    return nanosleep(&t, NULL);
}

int ftruncate(int fd, off_t length)
{
    const struct timespec t = {.tv_nsec = (long)slow_us * 1000};

    nanosleep(&t, NULL);
    return (int)syscall(SYS_ftruncate, fd, length);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* What it takes to ask for the locks of all rows once. */
static uint64_t look_at_rows(const char *path)
{
    const uint64_t began = cpu_ns();
    int fd = open(path, O_RDWR | O_CLOEXEC);

    for (off_t i = 1; i <= 255; i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};

        assert_int_equal(fcntl(fd, F_OFD_GETLK, &l), 0);
        assert_int_equal(l.l_type, F_UNLCK);
    }
    close(fd);
    return cpu_ns() - began;
}

/* A broker that takes very many locks, which the kernel walks through for each other one, does not hold the others up. */
static void test_arbiter_many_locks(void **state)
{
    enum { LOCKS = 12000, COMMITS = 40 };
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    uint64_t used, one, row[8] = {[3] = 1}; /* memory is promised */

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    for (off_t i = 1; i <= 255; i++)
        assert_int_equal(pwrite(fd, row, sizeof(row), 64 * i), sizeof(row));
    for (off_t i = 0; i < LOCKS; i++) {
        struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1000 + 2 * i, .l_len = 1};

        assert_int_equal(fcntl(fd, F_OFD_SETLK, &l), 0);
    }
    one = look_at_rows(path);
    used = cpu_ns();
    assert_null(brk_arbiter_open(path));
    for (unsigned i = 0; i < COMMITS; i++) {
        brk_arbiter_publish(&vm, 5000000000u * (i + 1)); /* without a row: tries to get one */
        assert_true(brk_arbiter_commit(10, 1000));
    }
    used = cpu_ns() - used;
    if (used >= one * COMMITS / 4)
        fail_msg("%llu us, where all rows take %llu us", (unsigned long long)used / 1000,
                 (unsigned long long)one / 1000);
    assert_false(brk_arbiter_commit(1000, 1000)); /* what cannot be asked counts */
    brk_arbiter_close();
    close(fd);
    assert_null(brk_arbiter_open(path));
    assert_true(brk_arbiter_commit(1000, 1000)); /* nobody has those rows */
    brk_arbiter_close();
    unlink(path);
}

/* A broker that makes the file short again and again, and keeps its lock a while each time, has the others wait a part of
 * the time only. */
static void test_arbiter_short_often(void **state)
{
    enum { TIMES = 40 };
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    struct brk_fair vm = {.weight = 100, .vtime = 77, .wants = true};
    int fd = mkstemp(path);
    struct stat st;

    (void)state;
    assert_true(fd >= 0);
    assert_null(brk_arbiter_open(path));
    slow_us = 30000;
    naps = 0;
    for (unsigned i = 0; i < TIMES; i++) {
        assert_int_equal(syscall(SYS_ftruncate, fd, 0), 0);
        brk_arbiter_publish(&vm, 5000000000u + i);
    }
    assert_true(naps > 0);
    assert_true(naps < 250); /* of the 1000 that 20 such waits take */
    slow_us = 0;
    brk_arbiter_close();
    assert_null(
        brk_arbiter_open(path)); /* afterwards it is as long as ever, once the last slow child has ended */
    for (unsigned i = 0; !fstat(fd, &st) && !st.st_size && i < 6000; i++) {
        usleep(10000);
        brk_arbiter_publish(&vm, 6000000000u + i);
    }
    assert_true(st.st_size > 0);
    brk_arbiter_close();
    close(fd);
    unlink(path);
}

/* The other VMs see each change of what this VM uses, asked for or not; of other pools they see nothing. */
static void test_arbiter_usage(void **state)
{
    enum { ASK, FORCE };
    static const struct {
        int how;
        uint64_t to;
    } step[] = {{ASK, 100}, {ASK, 300}, {FORCE, 500}, {FORCE, 200}, {FORCE, 1200}, {ASK, 150}, {FORCE, 0}};
    char path[] = "/tmp/vgb-arbiter-XXXXXX";
    uint64_t from = 0, row[8];

    (void)state;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_null(brk_arbiter_open(path));
    brk_opt.memory = BRK_MEMORY_CEILING;
    brk_opt.gpu_memory = 1000;
    for (unsigned i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
        if (step[i].how == ASK)
            assert_true(brk_quota_move(&brk_vram, from, step[i].to));
        else
            brk_quota_force(&brk_vram, from, step[i].to);
        from = step[i].to;
        brk_quota_force(&brk_pins, 0, 7);
        assert_true(brk_quota_move(&brk_blobs, brk_blobs.used, 13));
        assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
        if (row[3] != from)
            fail_msg("step %u: the table says %llu, not %llu", i, (unsigned long long)row[3],
                     (unsigned long long)from);
    }
    /* A refusal changes nothing. */
    assert_true(brk_quota_move(&brk_vram, from, 40));
    assert_false(brk_quota_move(&brk_vram, 40, 1001));
    assert_int_equal(brk_vram.used, 40);
    assert_int_equal(pread(fd, row, sizeof(row), 64), sizeof(row));
    assert_int_equal(row[3], 40);
    brk_arbiter_close();
    close(fd);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arbiter_many_locks),
        cmocka_unit_test(test_arbiter_usage),
        cmocka_unit_test(test_arbiter_short_often),
    };

    return cmocka_run_group_tests_name("arbiter", tests, NULL, NULL);
}

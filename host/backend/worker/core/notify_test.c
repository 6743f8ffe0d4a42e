/* SPDX-License-Identifier: MIT */
/* Notifications: output does not wait for a guest that does not read, beyond a bound. */
#include "core.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#define RING 65536u
#define PIECE 2000u
#define BOUND 200u /* sleeps of a millisecond */

static struct vgp_window_shared shared;
static uint8_t ring[RING] __attribute__((aligned(64)));
static struct wrk_worker w;
static void (*sink)(void *ctx, const char *text, size_t len);
static unsigned sleeps;
static bool reads; /* the guest makes room while the worker sleeps */

/* In place of the C library's. */
int nanosleep(const struct timespec *t, struct timespec *left)
{
    sleeps++;
    if (reads)
        shared.notify_head = shared.notify_tail;
    return clock_nanosleep(CLOCK_MONOTONIC, 0, t, left);
}

static void set_sink(void (*fn)(void *ctx, const char *text, size_t len), void *ctx)
{
    (void)ctx;
    sink = fn;
}

static int setup(void **state)
{
    (void)state;
    memset(&shared, 0, sizeof(shared));
    memset(&w, 0, sizeof(w));
    pthread_mutex_init(&w.notify_lock, NULL);
    w.wake_fd = -1;
    w.win.base = ring;
    w.win.shared = &shared;
    w.win.notify_size = RING;
    wrk_provider.sg_set_print_sink = set_sink;
    wrk_provider.sg_set_error_sink = NULL;
    assert_int_equal(wrk_notify_capture_output(&w), 0);
    sleeps = 0;
    reads = false;
    return 0;
}

static void print(unsigned pieces)
{
    static const char text[PIECE];

    for (unsigned i = 0; i < pieces; i++)
        sink(&w, text, sizeof(text));
}

/* However much is printed, it waits once. */
static void test_never_reads(void **state)
{
    (void)state;
    print(40);
    assert_true(sleeps <= BOUND + 1);
    assert_int_equal(w.lost_prints, 40 - RING / 2032);
}

/* Once the guest has read, its output is there again; a full ring may then wait again. */
static void test_reads_again(void **state)
{
    uint64_t lost;

    (void)state;
    print(40);
    lost = w.lost_prints;
    shared.notify_head = shared.notify_tail;
    print(20);
    assert_int_equal(w.lost_prints, lost);
    sleeps = 0;
    print(40);
    assert_true(sleeps > BOUND / 2 && sleeps <= BOUND + 1);
}

/* A head that moves without making room is no reading. */
static void test_lies(void **state)
{
    (void)state;
    print(34);
    sleeps = 0;
    for (unsigned i = 1; i < 8; i++) {
        shared.notify_head = shared.notify_tail + (uint64_t)i * RING;
        print(1);
    }
    assert_int_equal(sleeps, 0);
}

/* A guest that reads loses nothing, however much there is. */
static void test_keeps_reading(void **state)
{
    (void)state;
    reads = true;
    print(20000);
    assert_int_equal(w.lost_prints, 0);
    assert_true(sleeps > BOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_never_reads, setup),
        cmocka_unit_test_setup(test_reads_again, setup),
        cmocka_unit_test_setup(test_lies, setup),
        cmocka_unit_test_setup(test_keeps_reading, setup),
    };

    return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/*
 * A front end gives other descriptors than eventfds as kicks: refused. One that stays readable whatever is read of it: the
 * broker does not spin. A worker fills its client's doorbell: the client does not wait.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "vgb_fd.h"
#include "vm.h"

#define BURN_NS UINT64_C(200000000)

static uint64_t cpu_ns(clockid_t clock)
{
    struct timespec t;

    assert_int_equal(clock_gettime(clock, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A broker that spins takes about as much as the test, on one processor too. */
static void assert_rests(pid_t broker)
{
    const uint64_t begun = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t before;
    clockid_t clock;

    assert_int_equal(clock_getcpuclockid(broker, &clock), 0);
    before = cpu_ns(clock);
    while (cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - begun < BURN_NS)
        ;
    assert_uint_in_range(cpu_ns(clock) - before, 0, BURN_NS / 4);
}

static void kick_by(struct vm *v, unsigned q, int fd)
{
    uint64_t index = q;

    assert_int_equal(vm_acked(v, BRK_VU_SET_VRING_KICK, &index, 8, &fd, 1), 0);
    assert_int_equal(vm_ask(v, BRK_VU_GET_FEATURES) == UINT64_MAX, 0);
}

static void on_both_queues(struct vm *v, int fd)
{
    for (unsigned q = VGPU_VQ_CONTROL; q <= VGPU_VQ_EVENT; q++) {
        kick_by(v, q, fd);
        assert_rests(v->b.pid);
        kick_by(v, q, v->kick[q]);
    }
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
}

/* For each purpose of each queue; afterwards the device serves. */
static void assert_refused(struct vm *v, int fd)
{
    static const uint32_t requests[] = {BRK_VU_SET_VRING_KICK, BRK_VU_SET_VRING_CALL, BRK_VU_SET_VRING_ERR};

    for (unsigned i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
        for (uint64_t q = VGPU_VQ_CONTROL; q <= VGPU_VQ_DOORBELL; q++)
            assert_int_equal(vm_acked(v, requests[i], &q, 8, &fd, 1), 1);
    }
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    assert_int_equal(vm_destroy(v, 0), VGPU_S_OK);
}

/* It stays readable whatever is read. */
static void test_pipe_without_writer(void **state)
{
    int ends[2];

    assert_int_equal(pipe(ends), 0);
    close(ends[1]);
    assert_refused(*state, ends[0]);
    close(ends[0]);
}

/* A look at it waits for whoever is changing it. */
static void test_epoll(void **state)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    assert_true(fd >= 0);
    assert_refused(*state, fd);
    close(fd);
}

/* Others, such as those of a FUSE, may be served by a program that does not answer. */
static void test_file(void **state)
{
    int fd = memfd_create("kick", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_refused(*state, fd);
    close(fd);
}

/* One write, and a reader takes 1 of it at a time. */
static void test_full_semaphore(void **state)
{
    const uint64_t full = UINT64_MAX - 1;
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);

    assert_int_equal(write(fd, &full, sizeof(full)), sizeof(full));
    on_both_queues(*state, fd);
    close(fd);
}

/* A socket of another family has a queue of errors, and epoll reports an event for each until somebody takes it. */
static void test_channel_of_another_family(void **state)
{
    struct vm *v = *state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), pair[2];

    assert_true(fd >= 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(vm_acked(v, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &fd, 1), 1);
    assert_int_equal(vm_acked(v, BRK_VU_SET_BACKEND_REQ_FD, NULL, 0, &pair[1], 1), 0);
    assert_int_equal(vm_create(v, 0), VGPU_S_OK);
    close(pair[0]);
    close(pair[1]);
    close(fd);
}

/* Here the test is the worker, too: they share the description. */
static void test_full_doorbell(void **state)
{
    static const char *const extra[] = {NULL};
    const uint64_t full = UINT64_MAX - 1, one = 1;
    struct broker b;
    struct guest g;

    (void)state;
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(guest_connect(&g, b.sock, "full"), 0);
    pid_t worker = worker_of_client(b.pid);

    assert_true(worker > 0);
    assert_int_equal(kill(worker, SIGSTOP), 0); /* it would take what is in the counter */
    assert_int_equal(fcntl(g.doorbell, F_GETFL) & O_NONBLOCK, O_NONBLOCK);
    vgb_eventfd_clear(g.doorbell);
    assert_int_equal(write(g.doorbell, &full, sizeof(full)), sizeof(full));
    alarm(60); /* else for ever */
    assert_int_equal(write(g.doorbell, &one, sizeof(one)), -1);
    alarm(0);
    assert_int_equal(kill(worker, SIGCONT), 0);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_doorbell),
        cmocka_unit_test_setup_teardown(test_pipe_without_writer, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_epoll, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_file, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_full_semaphore, vm_setup, vm_teardown),
        cmocka_unit_test_setup_teardown(test_channel_of_another_family, vm_setup, vm_teardown),
    };

    return cmocka_run_group_tests_name("kick", tests, NULL, NULL);
}

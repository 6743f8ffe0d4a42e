/* SPDX-License-Identifier: MIT */
/* Workers as the broker sees them: how long one may be silent, how much it may say, which process is ended. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "clients.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"

struct fixture {
    struct brk_proc p;
    struct brk_client c;
    int worker; /* the other end of the socket */
    pid_t child;
};

static pid_t sleeper(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        for (;;)
            pause();
    }
    return pid;
}

static unsigned open_descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* A thread of its own closes received descriptors. */
static bool open_descriptors_become(unsigned n)
{
    for (int i = 0; i < 60000 && open_descriptors() != n; i++)
        usleep(1000);
    return open_descriptors() == n;
}

static void none(struct brk_source *s, uint32_t events)
{
    (void)s;
    (void)events;
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int pair[2];

    if (!f || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return -1;
    f->worker = pair[1];
    f->child = sleeper();
    f->p.sock = (struct brk_source){.fd = pair[0], .ready = none};
    f->p.pidfd = (struct brk_source){.fd = (int)syscall(SYS_pidfd_open, f->child, 0), .ready = none};
    f->p.pid = f->child;
    f->p.state = BRK_PROC_ASSIGNED;
    f->p.client = &f->c;
    f->c.state = BRK_C_SERVING;
    brk_opt.long_call_ms = 60000;
    vgb_set_nonblock(f->p.sock.fd);
    *state = f;
    return brk_loop_add(&f->p.sock, EPOLLIN);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    brk_loop_del(&f->p.sock);
    kill(f->child, SIGKILL);
    waitpid(f->child, NULL, 0);
    close(f->p.sock.fd);
    close(f->p.pidfd.fd);
    close(f->worker);
    free(f);
    return 0;
}

static void say(struct fixture *f, uint32_t type, uint32_t status)
{
    struct vgb_msg m = {.type = type, .status = status};

    assert_int_equal(vgb_msg_send(f->worker, &m, NULL, 0, MSG_DONTWAIT), 0);
}

static bool silent_after(struct fixture *f, uint64_t from_ns, unsigned ms)
{
    bool waits;

    return brk_client_users.silent(&f->c, &f->p, from_ns + VGB_MS_TO_NS(ms), &waits);
}

static void test_silence(void **state)
{
    struct fixture *f = *state;
    const uint64_t asked = f->c.asked_ns = vgb_now_ns();
    bool waits = true;

    assert_false(
        brk_client_users.silent(&f->c, &f->p, asked + VGB_MS_TO_NS(3600000), &waits)); /* nothing was asked */
    assert_false(waits);
    f->c.asked = 1;
    assert_false(silent_after(f, asked, VGB_ANSWER_MS));
    assert_true(silent_after(f, asked, VGB_ANSWER_MS + 1));
}

/* In a long call an answer may take longer, up to the option's limit in all. */
static void test_busy(void **state)
{
    struct fixture *f = *state;
    const uint64_t asked = f->c.asked_ns = vgb_now_ns();

    f->c.asked = 1;
    say(f, VGB_M_BUSY, 1);
    brk_proc_drain(&f->p, 8);
    assert_true(f->p.busy);
    assert_false(silent_after(f, asked, VGB_ANSWER_MS + 1));
    assert_false(silent_after(f, asked, 60000));
    assert_true(silent_after(f, asked, 60001));
    say(f, VGB_M_BUSY, 0);
    brk_proc_drain(&f->p, 8);
    assert_false(f->p.busy);
    f->p.busy_until_ns = asked + VGB_MS_TO_NS(20000);
    assert_false(silent_after(f, asked, 20000 + VGB_ANSWER_MS)); /* from its end on the usual time */
    assert_true(silent_after(f, asked, 20000 + VGB_ANSWER_MS + 1));
    /* Whatever it says, again and again. */
    f->p.busy_until_ns = asked + VGB_MS_TO_NS(59999);
    assert_true(silent_after(f, asked, 60001));
    f->p.busy = true;
    assert_true(silent_after(f, asked, 60001));
    /* A question that comes when an old call has long ended. */
    f->p.busy = false;
    f->p.busy_until_ns = asked - 1;
    assert_true(silent_after(f, asked, VGB_ANSWER_MS + 1));
    /* The option may take it away; the usual time stays. */
    brk_opt.long_call_ms = 0;
    f->p.busy = true;
    assert_false(silent_after(f, asked, VGB_ANSWER_MS));
    assert_true(silent_after(f, asked, VGB_ANSWER_MS + 1));
    /* A driver that would take the silence for the end of the device. */
    brk_opt.long_call_ms = 60000;
    assert_false(silent_after(f, asked, VGB_ANSWER_MS + 1));
    f->c.impatient = true;
    assert_true(silent_after(f, asked, VGB_ANSWER_MS + 1));
}

/* Descriptors that it does not take count as a question, for as long as it reads nothing. */
static void test_unread(void **state)
{
    struct fixture *f = *state;
    const struct vgb_msg m = {.type = VGB_M_IMAGE};
    struct vgb_msg got;
    unsigned nfds = 1;
    uint64_t sent;
    bool waits;
    int fd = eventfd(0, EFD_CLOEXEC);

    brk_opt.max_clients = 4;
    brk_proc_send(&f->p, &m, NULL, 0);
    sent = vgb_now_ns();
    assert_false(silent_after(f, sent, 3600000));
    brk_proc_send(&f->p, &m, &fd, 1);
    sent = vgb_now_ns();
    assert_false(silent_after(f, sent, VGB_ANSWER_MS - 1));
    assert_true(silent_after(f, sent, VGB_ANSWER_MS + 1));
    f->p.busy = true;
    assert_false(silent_after(f, sent, VGB_ANSWER_MS + 1));
    assert_true(silent_after(f, sent, 60001));
    f->p.busy = false;
    brk_out_look(&f->p, sent);
    /* Whatever else it answers. */
    f->c.asked = 1;
    f->c.asked_ns = sent + VGB_MS_TO_NS(VGB_ANSWER_MS);
    assert_true(silent_after(f, sent, VGB_ANSWER_MS + 1));
    f->c.asked = 0;
    nfds = 0;
    assert_int_equal(vgb_msg_recv(f->worker, &got, NULL, &nfds, MSG_DONTWAIT), 1);
    sent += VGB_MS_TO_NS(5000);
    brk_out_look(&f->p, sent);
    assert_false(silent_after(f, sent, VGB_ANSWER_MS - 1));
    assert_true(silent_after(f, sent, VGB_ANSWER_MS + 1));
    close(fd);
    nfds = 1;
    assert_int_equal(vgb_msg_recv(f->worker, &got, &fd, &nfds, MSG_DONTWAIT), 1);
    close(fd);
    brk_out_look(&f->p, sent);
    assert_false(brk_client_users.silent(&f->c, &f->p, sent + VGB_MS_TO_NS(3600000), &waits));
    assert_false(waits);
}

static void bad_busy(struct fixture *f, uint32_t first, uint32_t second)
{
    say(f, VGB_M_BUSY, first);
    say(f, VGB_M_BUSY, second);
    brk_proc_drain(&f->p, 8);
    assert_int_equal(f->p.state, BRK_PROC_KILLED);
}

static void test_busy_twice(void **state)
{
    bad_busy(*state, 1, 1);
}

static void test_busy_end_first(void **state)
{
    bad_busy(*state, 0, 1);
}

static void test_busy_odd(void **state)
{
    bad_busy(*state, 2, 1);
}

static void test_busy_early(void **state)
{
    struct fixture *f = *state;

    f->p.state = BRK_PROC_READY; /* it has no client yet */
    f->p.client = NULL;
    bad_busy(f, 1, 0);
}

/* However much has come, only so many messages are handled at a time. */
static void test_flood(void **state)
{
    struct fixture *f = *state;
    struct vgb_msg m;
    unsigned n = 0, left = 0, no_fds = 0;

    for (unsigned i = 0; i < 12; i++)
        say(f, VGB_M_BUSY, 1 - i % 2);
    brk_proc_drain(&f->p, 5);
    assert_int_equal(f->p.state, BRK_PROC_ASSIGNED);
    assert_true(f->p.busy); /* the fifth said so */
    while (vgb_msg_recv(f->p.sock.fd, &m, NULL, &no_fds, MSG_DONTWAIT) == 1) {
        left++;
        n += m.status;
    }
    assert_int_equal(left, 7);
    assert_int_equal(n, 3);
}

/* A worker whose process id is another process's by now. */
static void test_recycled_pid(void **state)
{
    struct fixture *f = *state;
    pid_t other = sleeper();
    int status;

    f->p.pid = other;
    brk_proc_kill(&f->p);
    assert_int_equal(f->p.state, BRK_PROC_KILLED);
    assert_int_equal(waitpid(f->child, &status, 0), f->child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(waitpid(other, &status, WNOHANG), 0); /* it lives */
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, &status, 0), other);
    f->child = sleeper();
}

/* The doorbell that the worker is sent, or -1: nothing came. */
static int doorbell_sent(struct fixture *f)
{
    struct vgb_msg m;
    unsigned n = 1;
    int fd = -1;

    if (vgb_msg_recv(f->worker, &m, &fd, &n, MSG_DONTWAIT) != 1)
        return -1;
    assert_int_equal(m.type, VGB_M_DOORBELL);
    assert_int_equal(n, 1);
    return fd;
}

/* A guest that starts again has another doorbell: worker and broker have a copy of it, and none of the old one. */
static void test_new_doorbell(void **state)
{
    struct fixture *f = *state;
    unsigned before = open_descriptors();
    uint64_t rung;

    f->c.proc = &f->p;
    f->c.doorbell = -1;
    for (int round = 0; round < 3; round++) {
        int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        assert_true(bell >= 0);
        brk_client_new_doorbell(&f->c, bell);
        int sent = doorbell_sent(f);
        assert_true(sent >= 0);
        assert_int_equal(fcntl(f->c.doorbell, F_GETFD), FD_CLOEXEC);
        vgb_eventfd_signal(sent);
        vgb_eventfd_signal(f->c.doorbell);
        assert_int_equal(read(bell, &rung, sizeof(rung)), sizeof(rung));
        assert_int_equal(rung, 2);
        close(sent);
        close(bell);
        assert_true(open_descriptors_become(before + 1));
    }
    /* One that is none changes nothing. */
    int had = f->c.doorbell;
    brk_client_new_doorbell(&f->c, -1);
    assert_int_equal(f->c.doorbell, had);
    assert_int_equal(doorbell_sent(f), -1);
    /* A client without a worker gets it with its worker. */
    for (int waiting = 0; waiting < 2; waiting++) {
        int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

        f->c.proc = waiting ? &f->p : NULL;
        f->c.state = waiting ? BRK_C_WAITING : BRK_C_DEAD;
        brk_client_new_doorbell(&f->c, bell);
        assert_int_equal(doorbell_sent(f), -1);
        vgb_eventfd_signal(f->c.doorbell);
        assert_int_equal(read(bell, &rung, sizeof(rung)), sizeof(rung));
        close(bell);
    }
    close(f->c.doorbell);
    assert_true(open_descriptors_become(before));
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_silence),      TEST(test_busy),       TEST(test_busy_twice), TEST(test_busy_end_first),
        TEST(test_busy_odd),     TEST(test_busy_early), TEST(test_flood),      TEST(test_recycled_pid),
        TEST(test_new_doorbell), TEST(test_unread),
    };

    vgb_log_init(2, VGB_ERROR, "test");
    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

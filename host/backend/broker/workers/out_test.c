/* SPDX-License-Identifier: MIT */
/*
 * Messages that cannot be sent to a worker at once: none is lost or comes in another order, whatever the kernel is out of;
 * and descriptors that a worker leaves in its socket, which the kernel counts for all of them.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "vgb_fd.h"
#include "workers/workers.h"

#define FLYING_MAX 64u /* of brk_out.c */
#define NOBODY 65534

struct fixture {
    struct brk_proc p;
    int worker; /* the other end of the socket */
    int event;  /* what is sent */
    pid_t child;
};

/* What the next sends give; 0: the kernel decides (linked with --wrap). */
int __real_vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags);
int __wrap_vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags);
static int fails;
static unsigned sends;

int __wrap_vgb_msg_send(int sock, const struct vgb_msg *m, const int *fds, unsigned nfds, int flags)
{
    sends++;
    return fails ? -fails : __real_vgb_msg_send(sock, m, fds, nfds, flags);
}

static void on_message(struct brk_source *s, uint32_t events)
{
    struct brk_proc *p = (struct brk_proc *)((char *)s - offsetof(struct brk_proc, sock));

    if (events & EPOLLOUT)
        brk_proc_flush(p);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    int pair[2];

    if (!f || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
        return -1;
    fails = 0;
    sends = 0;
    brk_opt.max_clients = 4;
    f->child = fork();
    if (f->child == 0) {
        for (;;)
            pause();
    }
    f->worker = pair[1];
    f->event = eventfd(0, EFD_CLOEXEC);
    f->p.sock = (struct brk_source){.fd = pair[0], .ready = on_message};
    f->p.pidfd.fd = (int)syscall(SYS_pidfd_open, f->child, 0);
    f->p.pid = f->child;
    f->p.state = BRK_PROC_ASSIGNED;
    *state = f;
    return f->child < 0 || f->event < 0 || f->p.pidfd.fd < 0 ? -1 : brk_loop_add(&f->p.sock, EPOLLIN);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    brk_out_drop(&f->p);
    brk_loop_del(&f->p.sock);
    kill(f->child, SIGKILL);
    waitpid(f->child, NULL, 0);
    close(f->p.sock.fd);
    close(f->p.pidfd.fd);
    close(f->worker);
    close(f->event);
    free(f);
    return 0;
}

/* A message with a number and so many descriptors. */
static void give(struct fixture *f, uint64_t number, unsigned nfds)
{
    const struct vgb_msg m = {.type = VGB_M_MAP, .value = number};
    const int fds[VGB_MSG_FDS] = {f->event, f->event, f->event, f->event,
                                  f->event, f->event, f->event, f->event};

    brk_proc_send(&f->p, &m, fds, nfds);
}

/* The worker reads one: its number; -1: there is none. */
static int64_t take(struct fixture *f, unsigned nfds)
{
    unsigned n = VGB_MSG_FDS;
    int fds[VGB_MSG_FDS];
    struct vgb_msg m;

    if (vgb_msg_recv(f->worker, &m, fds, &n, MSG_DONTWAIT) != 1)
        return -1;
    assert_int_equal(n, nfds);
    vgb_close_all(fds, n);
    return (int64_t)m.value;
}

/* One message with descriptors, two behind it, while the kernel is out of something. */
static void out_of(struct fixture *f, int error)
{
    fails = error;
    give(f, 1, 3);
    give(f, 2, 0);
    give(f, 3, 1);
    assert_int_equal(f->p.state, BRK_PROC_ASSIGNED);
    assert_int_equal(take(f, 0), -1);
    /* The socket has room, which is not what is missing: it is not asked for that over and over. */
    sends = 0;
    for (unsigned i = 0; i < 20; i++)
        assert_true(brk_loop_once(0));
    assert_int_equal(sends, 0);
    brk_proc_flush(&f->p);
    assert_int_equal(sends, 1);
    assert_true(f->p.out_later);
    fails = 0;
    brk_proc_flush(&f->p);
    assert_false(f->p.out_later);
    assert_null(f->p.out);
    assert_int_equal(take(f, 3), 1);
    assert_int_equal(take(f, 0), 2);
    assert_int_equal(take(f, 1), 3);
    assert_int_equal(take(f, 0), -1);
}

static void test_kernel_out_of(void **state)
{
    out_of(*state, ETOOMANYREFS);
    out_of(*state, ENOBUFS);
    out_of(*state, ENOMEM);
}

/* A message that can never be sent is one that the worker would wait for. */
static void test_never(void **state)
{
    struct fixture *f = *state;

    fails = EBADF;
    give(f, 1, 1);
    assert_int_equal(f->p.state, BRK_PROC_KILLED);
}

static void test_never_later(void **state)
{
    struct fixture *f = *state;

    fails = ENOMEM;
    give(f, 1, 1);
    fails = EBADF;
    brk_proc_flush(&f->p);
    assert_int_equal(f->p.state, BRK_PROC_KILLED);
    assert_null(f->p.out);
}

/* A worker that has ended is not one of those. */
static void test_closed(void **state)
{
    struct fixture *f = *state;

    fails = ENOBUFS;
    give(f, 1, 1);
    fails = EPIPE;
    brk_proc_flush(&f->p);
    give(f, 2, 1);
    assert_int_equal(f->p.state, BRK_PROC_ASSIGNED);
    assert_null(f->p.out);
}

/* A socket that is full has room when the worker has read. */
static void test_full(void **state)
{
    struct fixture *f = *state;
    int64_t n = 0;

    while (!f->p.out)
        give(f, (uint64_t)n++, 0);
    give(f, (uint64_t)n++, 0);
    assert_false(f->p.out_later);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(take(f, 0), i);
        assert_true(brk_loop_once(0));
    }
    assert_null(f->p.out);
}

/* However much is sent, the socket of one worker holds so many descriptors; the rest comes when it reads. */
static void test_flying(void **state)
{
    struct fixture *f = *state;
    const int64_t most = FLYING_MAX / VGB_MSG_FDS, n = most + 3;
    int64_t in = 0;

    for (int64_t i = 0; i < n; i++)
        give(f, (uint64_t)i, VGB_MSG_FDS);
    assert_int_equal(f->p.state, BRK_PROC_ASSIGNED);
    while (take(f, VGB_MSG_FDS) == in)
        in++;
    assert_int_equal(in, most);
    assert_true(f->p.out && f->p.out_later);
    brk_proc_flush(&f->p);
    while (take(f, VGB_MSG_FDS) == in)
        in++;
    assert_int_equal(in, n);
    assert_null(f->p.out);
    brk_out_look(&f->p, vgb_now_ns());
    assert_false(brk_out_holds(&f->p));
}

/* Where RLIMIT_NOFILE is low, all workers together have half of it; a message can be sent in any case. */
static void test_share(void **state)
{
    struct fixture *f = *state;
    struct rlimit was, low;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    low = (struct rlimit){160, was.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    for (unsigned i = 0; i < 30; i++)
        give(f, i, 1);
    assert_int_equal(f->p.flying, 160 / 2 / 4);
    for (int64_t i = 0; i < 160 / 2 / 4; i++)
        assert_int_equal(take(f, 1), i);
    assert_int_equal(take(f, 1), -1);
    low.rlim_cur = 24;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    brk_proc_flush(&f->p);
    assert_int_equal(f->p.flying, VGB_MSG_FDS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
}

/* As many messages as the worker has not read say since when. */
static void test_unread(void **state)
{
    struct fixture *f = *state;
    const uint64_t begin = vgb_now_ns();

    brk_out_look(&f->p, begin);
    assert_false(brk_out_holds(&f->p));
    give(f, 0, 0);
    assert_false(brk_out_holds(&f->p));
    give(f, 1, 2);
    give(f, 2, 1);
    assert_true(brk_out_holds(&f->p));
    assert_true(f->p.unread_ns >= begin);
    brk_out_look(&f->p, begin + 1000000000000u);
    assert_true(f->p.unread_ns < begin + 1000000000000u); /* it has read nothing */
    give(f, 3, 1);
    brk_out_look(&f->p, begin + 1000000000000u);
    assert_true(f->p.unread_ns < begin + 1000000000000u); /* nor when more has come */
    assert_int_equal(take(f, 0), 0);
    brk_out_look(&f->p, begin + 2000000000000u);
    assert_int_equal(f->p.unread_ns, begin + 2000000000000u);
    assert_true(brk_out_holds(&f->p));
    assert_int_equal(take(f, 2), 1);
    assert_int_equal(take(f, 1), 2);
    assert_int_equal(take(f, 1), 3);
    brk_out_look(&f->p, begin + 3000000000000u);
    assert_false(brk_out_holds(&f->p));
}

/* In a process of a user who may not exceed the kernel's bound: 0, or the line that is wrong. */
static int with_others_unread(struct fixture *f)
{
    struct rlimit r = {64, 64}; /* the bound; room for what this process inherited, too */
    const uid_t own = 3000000 + (uid_t)getpid();
    const struct vgb_msg m = {0};
    int pair[2], fds[] = {f->event, f->event, f->event, f->event}, n = 0, e = 0;

    /* The bound is compared with what is in all sockets of the user: of one that no other process has. */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, pair) ||
        (!geteuid() && (setresgid(NOBODY, NOBODY, NOBODY) ||
                        (setresuid(own, own, own) && setresuid(NOBODY, NOBODY, NOBODY)))) ||
        setrlimit(RLIMIT_NOFILE, &r))
        return -1;
    while (!e && n++ < 1000)
        e = __real_vgb_msg_send(pair[0], &m, fds, 4, MSG_DONTWAIT);
    if (e != -ETOOMANYREFS)
        return -1;
    give(f, 1, 1);
    give(f, 2, 0);
    if (f->p.state != BRK_PROC_ASSIGNED || take(f, 0) != -1 || !f->p.out_later)
        return __LINE__;
    close(pair[1]);
    close(pair[0]);
    brk_proc_flush(&f->p);
    if (take(f, 1) != 1 || take(f, 0) != 2 || f->p.out)
        return __LINE__;
    return 0;
}

/* The kernel's own bound: another worker of the same user has left descriptors in its socket. */
static void test_kernel_bound(void **state)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        const int line = with_others_unread(*state);

        _exit(line < 0 ? 255 : line % 255);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 255)
        skip(); /* no such user, or a kernel without the bound */
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_kernel_out_of), TEST(test_never),  TEST(test_never_later),
        TEST(test_closed),        TEST(test_full),   TEST(test_flying),
        TEST(test_share),         TEST(test_unread), TEST(test_kernel_bound),
    };

    vgb_log_init(2, VGB_ERROR, "test");
    if (brk_loop_init())
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

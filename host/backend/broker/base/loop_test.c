/* SPDX-License-Identifier: MIT */
/* A listening socket while no descriptor is left: the loop must not spin, and serve it when one is free. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "base/base.h"
#include "vgb_fd.h"

#define ROUNDS 10000u

static unsigned asked, served;

static void on_connection(struct brk_source *s, uint32_t events)
{
    int fd = brk_accept(s);

    (void)events;
    asked++;
    if (fd < 0)
        return;
    served++;
    close(fd);
}

static int connected(const struct sockaddr_un *a)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof(*a)), 0);
    return fd;
}

/* A listening socket in a folder of its own, whose name `dir`, a template, becomes; a loop that does not watch it yet. */
static struct brk_source listening(struct sockaddr_un *a, char *dir)
{
    struct brk_source s = {.ready = on_connection};

    assert_non_null(mkdtemp(dir));
    snprintf(a->sun_path, sizeof(a->sun_path), "%s/s", dir);
    s.fd = brk_listen_unix(a->sun_path, SOCK_STREAM, BRK_LISTEN_OWNER);
    assert_true(s.fd >= 0);
    assert_int_equal(brk_loop_init(), 0);
    return s;
}

static void test_no_descriptor(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct rlimit was, low;
    char dir[] = "/tmp/vgb-loop-XXXXXX";
    struct brk_source s = listening(&a, dir);
    int one, two;

    (void)state;
    assert_int_equal(brk_loop_add(&s, EPOLLIN), 0);
    one = connected(&a);
    two = connected(&a);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
    low = was;
    low.rlim_cur = 0; /* what is open stays open */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    /* One that spins is asked in every round; 0 ms each, so that few rests end meanwhile. */
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_true(brk_loop_once(0));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    assert_true(asked >= 1);
    assert_true(asked < ROUNDS / 2);
    assert_int_equal(served, 0);
    assert_true(s.rests_until_ns != 0);
    /* -1: it wakes by itself. */
    while (served < 2)
        assert_true(brk_loop_once(-1));
    assert_int_equal(s.rests_until_ns, 0);
    /* Ends while it rests. */
    close(one);
    one = connected(&a);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
    while (!s.rests_until_ns)
        assert_true(brk_loop_once(0));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
    brk_loop_del(&s);
    assert_int_equal(s.rests_until_ns, 0);
    assert_true(brk_loop_once(0));
    assert_int_equal(served, 2);
    close(s.fd);
    close(one);
    close(two);
    unlink(a.sun_path);
    rmdir(dir);
}

/* Who passed a listening socket on can shut it down, which epoll reports for good. */
static void test_shut_down(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgb-loop-XXXXXX";
    struct brk_source s = listening(&a, dir);

    (void)state;
    assert_int_equal(brk_loop_add(&s, EPOLLIN), 0);
    assert_int_equal(shutdown(s.fd, SHUT_RDWR), 0);
    asked = 0;
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_true(brk_loop_once(0));
    assert_uint_in_range(asked, 1, ROUNDS / 2);
    /* It is asked again after each rest. */
    for (unsigned before = asked; asked == before;)
        assert_true(brk_loop_once(-1));
    brk_loop_del(&s);
    close(s.fd);
    unlink(a.sun_path);
    rmdir(dir);
}

/* At the path that a broker is to have somebody listens, and accepts nothing: the broker says so, and does not wait. */
static void test_path_is_kept(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgb-loop-XXXXXX";
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), waits;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", dir);
    assert_int_equal(bind(other, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(other, 0), 0);
    waits = connected(&a);
    alarm(30); /* else for ever */
    assert_int_equal(brk_listen_unix(a.sun_path, SOCK_STREAM, BRK_LISTEN_OWNER), -EADDRINUSE);
    alarm(0);
    close(waits);
    close(other);
    unlink(a.sun_path);
    rmdir(dir);
}

/* connect(2) refuses a file, and a link to a socket without a listener, as it does such a socket. */
static void test_file_is_kept(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgb-loop-XXXXXX", file[40], link[40];
    struct stat st;
    int other = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", dir);
    snprintf(file, sizeof(file), "%s/file", dir);
    snprintf(link, sizeof(link), "%s/link", dir);
    assert_int_equal(bind(other, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(close(open(file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)), 0);
    assert_int_equal(symlink(a.sun_path, link), 0);
    assert_int_equal(brk_listen_unix(file, SOCK_STREAM, BRK_LISTEN_OWNER), -EADDRINUSE);
    assert_int_equal(brk_listen_unix(link, SOCK_STREAM, BRK_LISTEN_OWNER), -EADDRINUSE);
    assert_int_equal(lstat(file, &st), 0);
    assert_int_equal(lstat(link, &st), 0);
    close(other);
    other = brk_listen_unix(a.sun_path, SOCK_STREAM, BRK_LISTEN_OWNER); /* nobody listens there any more */
    assert_true(other >= 0);
    close(other);
    unlink(link);
    unlink(file);
    unlink(a.sun_path);
    rmdir(dir);
}

/* Listens, and has a child with its descriptors, as system calls that do not return have. */
static void listen_and_share(const char *path, const int ready[2])
{
    int fd = brk_listen_unix(path, SOCK_STREAM, BRK_LISTEN_OWNER);
    pid_t child;

    close(ready[0]);
    child = fd < 0 ? fd : (pid_t)syscall(SYS_clone, CLONE_FILES, NULL, NULL, NULL, NULL);
    if (child && write(ready[1], &child, sizeof(child)) != sizeof(child))
        _exit(1);
    poll(&(struct pollfd){.fd = ready[1]}, 1, -1); /* both end with the test, which may fail */
    _exit(0);
}

/* A broker that was killed while a child of it makes a system call: the child has its listening socket. */
static void test_listener_has_ended(void **state)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char dir[] = "/tmp/vgb-loop-XXXXXX";
    pid_t broker, child = 0;
    int ready[2], fd;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(a.sun_path, sizeof(a.sun_path), "%s/s", dir);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    broker = fork();
    if (!broker)
        listen_and_share(a.sun_path, ready);
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    assert_true(child > 0);
    assert_int_equal(brk_listen_unix(a.sun_path, SOCK_STREAM, BRK_LISTEN_OWNER), -EADDRINUSE);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)broker, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    close(connected(&a));                                            /* the child keeps it open */
    fd = brk_listen_unix(a.sun_path, SOCK_STREAM, BRK_LISTEN_OWNER); /* not waited for yet */
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(broker, NULL, 0), broker);
    close(ready[0]);
    close(ready[1]);
    unlink(a.sun_path);
    rmdir(dir);
}

/* brk_listen_unix() in another namespace of processes, where the listener has no number. Closes what it opened. */
static int listen_elsewhere(const char *path)
{
    int status = 0;
    pid_t helper = fork(), first;

    if (!helper) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWPID) && unshare(CLONE_NEWPID))
            _exit(255);
        first = fork();
        if (!first) {
            const int fd = brk_listen_unix(path, SOCK_STREAM, BRK_LISTEN_OWNER);

            _exit(fd < 0 ? -fd : 0);
        }
        _exit(first > 0 && waitpid(first, &status, 0) == first && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                                    : 254);
    }
    assert_true(helper > 0);
    assert_int_equal(waitpid(helper, &status, 0), helper);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool kernel_names_peers(void)
{
    int pair[2], fd = -1;
    bool ok;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    ok = !getsockopt(pair[0], SOL_SOCKET, 77 /* SO_PEERPIDFD */, &fd, &(socklen_t){sizeof(fd)});
    close(pair[0]);
    close(pair[1]);
    if (ok)
        close(fd);
    return ok;
}

/* A broker in a container is killed; the next one has another namespace of processes. */
static void test_listener_elsewhere_has_ended(void **state)
{
    char dir[] = "/tmp/vgb-loop-XXXXXX", path[64];
    pid_t broker, child = 0;
    int ready[2], r;

    (void)state;
    if (!kernel_names_peers()) {
        print_message("needs Linux 6.5\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
    broker = fork();
    if (!broker)
        listen_and_share(path, ready);
    assert_int_equal(read(ready[0], &child, sizeof(child)), sizeof(child));
    r = listen_elsewhere(path);
    assert_int_equal(kill(broker, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)broker, &(siginfo_t){0}, WEXITED | WNOWAIT), 0);
    if (r != 255) {
        assert_int_equal(r, EADDRINUSE);
        assert_int_equal(listen_elsewhere(path), 0);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(broker, NULL, 0), broker);
    close(ready[0]);
    close(ready[1]);
    unlink(path);
    rmdir(dir);
    if (r == 255) {
        print_message("this system makes no namespaces for this user\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_descriptor),      cmocka_unit_test(test_shut_down),
        cmocka_unit_test(test_path_is_kept),       cmocka_unit_test(test_file_is_kept),
        cmocka_unit_test(test_listener_has_ended), cmocka_unit_test(test_listener_elsewhere_has_ended)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}

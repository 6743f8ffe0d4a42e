/* SPDX-License-Identifier: MIT */
/* Programs of the host that hold a broker: by descriptors whose close waits, by connections that say nothing. */
#define _GNU_SOURCE
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest.h"
#include "proc.h"
#include "vgb_fd.h"
#include "vgp_sock.h"

#define HELD_S 600   /* longer than any of these tests */
#define GREETINGS 64 /* as many connections may say nothing, of the broker */

/* A TCP connection with bytes that nobody takes: its last close waits until *peer is closed. */
static int lingering(int *peer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const struct linger wait = {.l_onoff = 1, .l_linger = HELD_S};
    static char bytes[1 << 16];
    socklen_t size = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fd;

    assert_int_equal(bind(l, (struct sockaddr *)&a, size), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (struct sockaddr *)&a, &size), 0);
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    *peer = accept4(l, NULL, NULL, SOCK_CLOEXEC);
    assert_true(*peer >= 0);
    close(l);
    while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
        ;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
    return fd;
}

static int connected(const char *path, pid_t status_of)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    socklen_t size = sizeof(a);

    if (path)
        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    else
        size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
                           (size_t)snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vgpu-backend.status.%d",
                                            (int)status_of));
    assert_int_equal(connect(fd, (struct sockaddr *)&a, size), 0);
    return fd;
}

static void assert_serves(struct broker *b)
{
    struct guest g;

    alarm(100); /* ends this program should the broker be held */
    assert_int_equal(guest_connect(&g, b->sock, "another"), 0);
    guest_close(&g);
    alarm(0);
}

/* Sends it in a message of n bytes; the broker has the last reference then. */
static int give(int sock, uint32_t type, size_t n, int times)
{
    char bytes[1024] = {0};
    int peer, fd = lingering(&peer);

    memcpy(bytes, &type, sizeof(type));
    for (int i = 0; i < times; i++)
        vgb_send_fds(sock, bytes, n, &fd, 1, MSG_DONTWAIT);
    /* Ours may be the last after all: a process that exits does not wait. */
    pid_t holder = fork();

    if (!holder) {
        for (;;)
            pause();
    }
    close(fd);
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
    return peer;
}

static void test_close_that_waits(void **state)
{
    static const struct {
        uint32_t type;
        size_t size;
        int times;
    } messages[] = {
        {VGP_SOCK_INFO, 4, 1},    /* refused with its descriptor */
        {VGP_SOCK_INFO, 1000, 1}, /* longer than any: nothing of it is kept */
        {99, 4, 8},               /* the first ends the connection, others lie in its queue */
    };
    struct broker b;
    int sock, peer;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (size_t i = 0; i < sizeof(messages) / sizeof(messages[0]); i++) {
        sock = connected(b.sock, 0);
        peer = give(sock, messages[i].type, messages[i].size, messages[i].times);
        assert_serves(&b);
        close(sock);
        assert_serves(&b);
        close(peer);
    }
    /* Any user may connect to the socket that tells the status. The broker may take the connection before the message
     * is in it: some of these are late enough. */
    for (int i = 0; i < 20; i++) {
        sock = connected(NULL, b.pid);
        peer = give(sock, 0, 4, 4);
        close(sock);
        assert_serves(&b);
        close(peer);
    }
    assert_int_equal(broker_stop(&b), 0);
}

/* The control socket: its own user's and root's programs alone, which may pass on what somebody else has sent them. */
static void test_control(void **state)
{
    char dir[] = "/tmp/vgb-foreign-XXXXXX", path[64];
    const char *const extra[] = {"--control", path, NULL};
    static const size_t sizes[] = {3, 1000};
    struct broker b;
    int sock, peer;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/c", dir);
    assert_int_equal(broker_start(&b, extra), 0);
    for (unsigned i = 0; i < 2; i++) {
        kill(b.pid, SIGSTOP); /* it reads the request when nobody else has the descriptor */
        sock = connected(path, 0);
        peer = give(sock, 'g' | 'e' << 8 | 't' << 16, sizes[i], 1);
        kill(b.pid, SIGCONT);
        assert_serves(&b);
        close(sock);
        assert_serves(&b);
        close(peer);
    }
    assert_int_equal(broker_stop(&b), 0);
    rmdir(dir);
}

/* A program of a user that --peer-uid does not name: the broker closes the connection with what lies in it. */
static void test_refused_peer(void **state)
{
    static const char *const extra[] = {"--peer-uid", "4242", NULL};
    struct broker b;
    int sock, peer;

    (void)state;
    if (geteuid()) {
        print_message("not run: foreign: programs of other users take root\n");
        skip();
    }
    assert_int_equal(broker_start(&b, extra), 0);
    assert_int_equal(chmod(b.dir, 0755), 0);
    assert_int_equal(chmod(b.sock, 0777), 0);
    kill(b.pid, SIGSTOP); /* it takes the connection when the message is there */
    assert_int_equal(seteuid(4343), 0);
    sock = connected(b.sock, 0);
    assert_int_equal(seteuid(0), 0);
    peer = give(sock, VGP_SOCK_INFO, 4, 1);
    kill(b.pid, SIGCONT);
    assert_serves(&b);
    close(sock);
    close(peer);
    assert_int_equal(broker_stop(&b), 0);
}

/* As many as may say nothing, and more: one that does is served. */
static void test_idle_connections(void **state)
{
    struct broker b;
    int idle[2 * GREETINGS];

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    for (int i = 0; i < 2 * GREETINGS; i++)
        idle[i] = connected(b.sock, 0);
    assert_serves(&b);
    for (int i = 0; i < 2 * GREETINGS; i++)
        close(idle[i]);
    assert_serves(&b);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_close_that_waits),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_refused_peer),
        cmocka_unit_test(test_idle_connections),
    };

    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}

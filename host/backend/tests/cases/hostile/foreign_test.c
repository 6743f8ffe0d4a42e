/* SPDX-License-Identifier: MIT */
/* Programs of the host that hold a broker: by descriptors whose close waits, by connections that say nothing. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "guest.h"
#include "proc.h"
#include "vgb_deadline.h"
#include "vgb_fd.h"
#include "vgp_sock.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

#define HELD_S 600   /* longer than any of these tests */
#define GREETINGS 64 /* as many connections may say nothing, of the broker */

static int tcp_connected(int *peer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
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
    return fd;
}

/* A TCP connection with bytes that nobody takes: its last close waits until *peer is closed. */
static int lingering(int *peer)
{
    const struct linger wait = {.l_onoff = 1, .l_linger = HELD_S};
    static char bytes[1 << 16];
    int fd = tcp_connected(peer);

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

/* -1: as many wait for the broker as may. */
static int connecting(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    if (!connect(fd, (struct sockaddr *)&a, sizeof(a)))
        return fd;
    close(fd);
    return -1;
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

/* A send whose bytes are not there: it has the socket's lock. */
static struct {
    int sock, uffd;
    char *page;
    pthread_t thread;
} sender;

static void *send_nothing(void *arg)
{
    (void)arg;
    return (void *)(uintptr_t)(send(sender.sock, sender.page, 64, MSG_NOSIGNAL) == 64);
}

/* False: this kernel, or this user, has no userfaultfd that stops system calls. */
static bool sender_start(void)
{
    struct uffdio_api api = {.api = UFFD_API};
    struct uffdio_register r = {.range.len = VGP_PAGE, .mode = UFFDIO_REGISTER_MODE_MISSING};
    struct pollfd p = {.events = POLLIN};

    p.fd = sender.uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
    if (sender.uffd < 0)
        return false;
    assert_int_equal(ioctl(sender.uffd, UFFDIO_API, &api), 0);
    sender.page = mmap(NULL, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(sender.page, MAP_FAILED);
    r.range.start = (uintptr_t)sender.page;
    assert_int_equal(ioctl(sender.uffd, UFFDIO_REGISTER, &r), 0);
    assert_int_equal(pthread_create(&sender.thread, NULL, send_nothing, NULL), 0);
    assert_int_equal(poll(&p, 1, -1), 1); /* it has asked for the page: it has the lock */
    return true;
}

static void sender_end(void)
{
    struct uffdio_zeropage z = {.range = {(uintptr_t)sender.page, VGP_PAGE}};
    void *sent;

    assert_int_equal(ioctl(sender.uffd, UFFDIO_ZEROPAGE, &z), 0);
    pthread_join(sender.thread, &sent);
    assert_non_null(sent);
    munmap(sender.page, VGP_PAGE);
    close(sender.uffd);
}

/* The lock of a socket: whatever the broker does with the descriptor waits for it. */
static void test_locked(void **state)
{
    struct broker b;
    int peer, sock;

    (void)state;
    sender.sock = tcp_connected(&peer);
    if (!sender_start()) {
        print_message("not run: foreign: userfaultfd takes root\n");
        skip();
    }
    assert_int_equal(broker_start(&b, NULL), 0);
    sock = connected(b.sock, 0);
    assert_int_equal(vgb_send_fds(sock, "x", 1, &sender.sock, 1, 0), 1);
    assert_serves(&b);
    close(sock);
    assert_serves(&b);
    sender_end();
    assert_int_equal(broker_stop(&b), 0);
    close(sender.sock);
    close(peer);
}

/* Registers a page of a file in memory. */
static bool maps_page(struct guest *g, uint32_t region)
{
    struct vgp_sock_map m = {
        .type = VGP_SOCK_MAP, .region = region, .va = 0x700000000000, .length = VGP_PAGE};
    struct vgp_sock_mapped answer = {0};
    struct pollfd p = {.fd = g->sock, .events = POLLIN};
    int fd = memfd_create("page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    bool ok;

    assert_int_equal(ftruncate(fd, VGP_PAGE), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
    m.va += (uint64_t)region * VGP_PAGE;
    ok = vgb_send_fds(g->sock, &m, sizeof(m), &fd, 1, MSG_DONTWAIT) == (ssize_t)sizeof(m) &&
         poll(&p, 1, 20000) == 1 &&
         recv(g->sock, &answer, sizeof(answer), MSG_DONTWAIT) == (ssize_t)sizeof(answer) && !answer.status;
    close(fd);
    return ok;
}

/* Descriptors whose close waits, without end, from a client and from connections that are none: they do not
 * take all that the broker may have open, so others go on. */
static void test_many(void **state)
{
    const struct rlimit few = {400, 400};
    const struct vgp_sock_map bad = {.type = VGP_SOCK_MAP, .length = VGP_PAGE};
    struct vgp_sock_mapped answer;
    int peer, sock, fds[4];
    struct guest g, hostile;
    struct broker b;

    (void)state;
    sender.sock = tcp_connected(&peer);
    if (!sender_start()) {
        print_message("not run: foreign: userfaultfd takes root\n");
        skip();
    }
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "another"), 0);
    assert_int_equal(guest_connect(&hostile, b.sock, "hostile"), 0);
    assert_int_equal(prlimit(b.pid, RLIMIT_NOFILE, &few, NULL), 0);
    for (unsigned i = 0; i < 600; i++) {
        struct pollfd p = {.fd = hostile.sock, .events = POLLIN};

        if (vgb_send_fds(hostile.sock, &bad, sizeof(bad), &sender.sock, 1, 0) < 0 ||
            poll(&p, 1, 20000) != 1 || recv(hostile.sock, &answer, sizeof(answer), 0) <= 0)
            break; /* the connection was ended */
    }
    assert_true(maps_page(&g, 1));
    for (unsigned i = 0; i < 4; i++)
        fds[i] = sender.sock;
    for (unsigned i = 0; i < 100 && (sock = connecting(b.sock)) >= 0; i++) {
        vgb_send_fds(sock, "x", 1, fds, 4, MSG_DONTWAIT);
        usleep(2000);
        close(sock);
    }
    assert_true(maps_page(&g, 2));
    sender_end();
    assert_serves(&b);
    guest_close(&hostile);
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
    close(sender.sock);
    close(peer);
}

/* The broker ends although the close of a descriptor does not return. */
static void test_end(void **state)
{
    struct broker b;
    int peer, sock;

    (void)state;
    sender.sock = tcp_connected(&peer);
    if (!sender_start()) {
        print_message("not run: foreign: userfaultfd takes root\n");
        skip();
    }
    assert_int_equal(broker_start(&b, NULL), 0);
    sock = connected(b.sock, 0);
    assert_int_equal(vgb_send_fds(sock, "x", 1, &sender.sock, 1, 0), 1);
    assert_serves(&b);
    assert_int_equal(broker_end(&b, VGB_EXIT_MS), 0);
    close(sock);
    sender_end();
    assert_int_equal(broker_stop(&b), 0);
    close(sender.sock);
    close(peer);
}

/* Whoever may ask for the status sends no descriptor, where the kernel can refuse it. */
static void test_status_takes_none(void **state)
{
    char dir[] = "/tmp/vgb-foreign-XXXXXX", path[64];
    const char *const extra[] = {"--status", path, NULL};
    const int no = 0;
    struct broker b;
    int pair[2];

    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    if (setsockopt(pair[0], SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no))) {
        print_message("not run: foreign: sockets that refuse descriptors take Linux 6.16\n");
        skip();
    }
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/s", dir);
    assert_int_equal(broker_start(&b, extra), 0);
    kill(b.pid, SIGSTOP); /* the connection is there before the broker takes it */
    for (unsigned i = 0; i < 2; i++) {
        int sock = connected(i ? path : NULL, b.pid);

        assert_int_equal(vgb_send_fds(sock, "x", 1, pair, 1, MSG_DONTWAIT), -EPERM);
        assert_int_equal(vgb_send_fds(sock, "x", 1, NULL, 0, MSG_DONTWAIT), 1);
        close(sock);
    }
    kill(b.pid, SIGCONT);
    assert_serves(&b);
    close(pair[0]);
    close(pair[1]);
    assert_int_equal(broker_stop(&b), 0);
    rmdir(dir);
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
        cmocka_unit_test(test_locked),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_status_takes_none),
        cmocka_unit_test(test_control),
        cmocka_unit_test(test_refused_peer),
        cmocka_unit_test(test_idle_connections),
        cmocka_unit_test(test_end),
    };

    return cmocka_run_group_tests_name("foreign", tests, NULL, NULL);
}

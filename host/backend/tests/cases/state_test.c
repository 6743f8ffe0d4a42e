/* SPDX-License-Identifier: MIT */
/* What a broker and its workers look like from outside: descriptors, where memory is, which requests are taken. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>
#include <cuda.h>

#include "guest.h"
#include "proc.h"
#include "vgb_fd.h"
#include "vgp_calls.h"
#include "vgp_sock.h"

/* Flags of open(2) of one descriptor of a process and what it is; false: it cannot be looked at. */
static bool look(pid_t pid, const char *fd, unsigned *flags, char what[200])
{
    char path[64], line[200];
    bool found = false;

    snprintf(path, sizeof(path), "/proc/%d/fd/%.10s", (int)pid, fd);
    ssize_t n = readlink(path, what, 199);
    what[n > 0 ? n : 0] = '\0';
    snprintf(path, sizeof(path), "/proc/%d/fdinfo/%.10s", (int)pid, fd);
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof(line), f))
        found = sscanf(line, "flags: %o", flags) == 1;
    if (f)
        fclose(f);
    return found && n > 0;
}

/* Looks at all descriptors of a process but standard input, output and error; how many there are. */
static unsigned each(pid_t pid, void (*fn)(pid_t pid, const char *fd, unsigned flags, const char *what))
{
    char path[64], what[200];
    unsigned n = 0, flags;
    struct dirent *e;

    snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    while (d && (e = readdir(d))) {
        if (e->d_name[0] == '.' || atoi(e->d_name) <= 2 || !look(pid, e->d_name, &flags, what))
            continue;
        fn(pid, e->d_name, flags, what);
        n++;
    }
    if (d)
        closedir(d);
    return n;
}

static unsigned timers;

/* Nothing that the broker starts gets its descriptors; and its one thread waits in epoll_wait(2), nowhere else. */
static void check_broker(pid_t pid, const char *fd, unsigned flags, const char *what)
{
    if (!(flags & O_CLOEXEC))
        fail_msg("descriptor %s of broker %d, %s, passes an exec: flags 0%o", fd, (int)pid, what, flags);
    timers += strstr(what, "[timerfd]") != NULL;
    if ((strstr(what, "[timerfd]") || strstr(what, "[signalfd]")) && !(flags & O_NONBLOCK))
        fail_msg("descriptor %s of broker %d, %s, blocks", fd, (int)pid, what);
}

static const char *private_file;

static void check_worker(pid_t pid, const char *fd, unsigned flags, const char *what)
{
    (void)flags;
    if (strstr(what, private_file))
        fail_msg("descriptor %s of worker %d is %s, which whoever started the broker had open", fd, (int)pid,
                 what);
}

static void test_descriptors(void **state)
{
    static const char *const shares[] = {"--client-cap", "50", NULL}; /* by a timer */
    char name[] = "/tmp/vgb-state-XXXXXX";
    int file[2] = {mkstemp(name)}; /* passes an exec */
    struct broker b = {0};
    struct guest g;
    uint64_t p;

    (void)state;
    private_file = name;
    file[1] = fcntl(file[0], F_DUPFD, 60);
    assert_true(file[1] >= 60);
    assert_int_equal(broker_start(&b, shares), 0);
    assert_int_equal(guest_connect(&g, b.sock, "state"), 0);
    assert_int_equal(guest_context(&g), 0);
    assert_int_equal(guest_alloc(&g, 1 << 20, &p), 0);
    assert_true(each(b.pid, check_broker) > 3);
    assert_true(timers > 0);
    if (!each(worker_of_client(b.pid), check_worker))
        print_message("not run: descriptors of workers: /proc/PID/fd of workers cannot be read\n");
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
    close(file[0]);
    close(file[1]);
    unlink(name);
}

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
#define PROGRAMS 0x550000000000ul /* from here on a guest program has its own memory */

/* Libraries and other mappings of a worker are below those of programs, so that guest memory gets its own address. */
static void test_layout(void **state)
{
    unsigned long from, to, here = (unsigned long)(uintptr_t)stdout;
    char path[64], line[500];
    unsigned seen = 0;
    struct broker b = {0};
    struct guest g;

    (void)state;
    assert_true(here >= PROGRAMS); /* of this process: where a library is by default */
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&g, b.sock, "layout"), 0);
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)worker_of_client(b.pid));
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f)) {
        if (!strstr(line, ".so") || sscanf(line, "%lx-%lx", &from, &to) != 2)
            continue;
        seen++;
        if (to > PROGRAMS)
            fail_msg("of the worker: %s", line);
    }
    if (f)
        fclose(f);
    if (!seen)
        print_message("not run: layout: the maps of workers cannot be read\n");
    guest_close(&g);
    assert_int_equal(broker_stop(&b), 0);
}
#endif

/* ---- requests of programs ---- */

/* A request of so many bytes and descriptors; `answered`: the answer's type, 0: the connection is closed. */
struct request {
    uint32_t type;
    unsigned size, fds;
    uint32_t answered;
};

static int try_request(int sock, const struct request *q)
{
    const struct timeval bound = {.tv_sec = 60};
    struct vgp_sock_hello hello = {.type = q->type,
                                   .version_major = VGP_VERSION_MAJOR,
                                   .version_minor = VGP_VERSION_MINOR,
                                   .label = "requests"};
    uint8_t buf[512] = {0};
    int fds[4], got[4];
    unsigned n = 4;

    memcpy(buf, &hello, sizeof(hello));
    if (q->type != VGP_SOCK_HELLO) /* a region that is not there */
        memcpy(buf, &(struct vgp_sock_map){.type = q->type, .region = 77}, sizeof(struct vgp_sock_map));
    for (unsigned i = 0; i < 4; i++)
        fds[i] = sock;
    setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof(bound));
    assert_true(vgb_send_fds(sock, buf, q->size, fds, q->fds, 0) == (ssize_t)q->size);
    ssize_t r = vgb_recv_fds(sock, buf, sizeof(buf), got, &n, 0);
    if (r == 0 || r == -ECONNRESET)
        return 0;
    assert_true(r >= 4);
    vgb_close_all(got, n);
    uint32_t type;
    memcpy(&type, buf, sizeof(type));
    return (int)type;
}

#define HELLO (unsigned)sizeof(struct vgp_sock_hello)
#define MAP (unsigned)sizeof(struct vgp_sock_map)

/* Each size, number of descriptors and moment but the right one ends the connection, and nobody else's. */
static void test_requests(void **state)
{
    static const struct request first[] = {
        {VGP_SOCK_HELLO, HELLO - 1, 0, 0},
        {VGP_SOCK_HELLO, HELLO + 1, 0, 0},
        {VGP_SOCK_HELLO, HELLO, 1, 0},
        {VGP_SOCK_HELLO, 3, 0, 0},
        {VGP_SOCK_HELLO, 4, 0, 0},
        {VGP_SOCK_INFO, 4, 0, VGP_SOCK_INFO},
        {VGP_SOCK_INFO, 8, 0, 0},
        {VGP_SOCK_INFO, 4, 1, 0},
        {VGP_SOCK_WELCOME, 4, 0, 0},
        {VGP_SOCK_MAP, MAP, 1, 0},
        {VGP_SOCK_UNMAP, MAP, 0, 0},
        {0, 4, 0, 0},
        {99, MAP, 0, 0},
        {VGP_SOCK_HELLO, HELLO, 0, VGP_SOCK_WELCOME},
    };
    static const struct request later[] = {
        {VGP_SOCK_HELLO, HELLO, 0, 0},
        {VGP_SOCK_INFO, 4, 0, 0},
        {VGP_SOCK_MAP, MAP, 0, 0},
        {VGP_SOCK_MAP, MAP, 2, 0},
        {VGP_SOCK_MAP, MAP - 8, 1, 0},
        {VGP_SOCK_MAP, MAP, 1, VGP_SOCK_MAPPED}, /* refused: a socket is no memory */
        {VGP_SOCK_UNMAP, MAP, 1, 0},
        {VGP_SOCK_UNMAP, MAP + 8, 0, 0},
        {VGP_SOCK_UNMAP, MAP, 0, VGP_SOCK_MAPPED},
        {VGP_SOCK_MAPPED, MAP, 0, 0},
    };
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct broker b = {0};
    struct guest g, other;

    (void)state;
    assert_int_equal(broker_start(&b, NULL), 0);
    assert_int_equal(guest_connect(&other, b.sock, "other"), 0);
    assert_int_equal(guest_context(&other), 0);
    snprintf(a.sun_path, sizeof(a.sun_path), "%s", b.sock);
    for (unsigned i = 0; i < sizeof(first) / sizeof(first[0]); i++) {
        int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

        assert_int_equal(connect(sock, (struct sockaddr *)&a, sizeof(a)), 0);
        int is = try_request(sock, &first[i]);
        if (is != (int)first[i].answered)
            fail_msg("request %u: answer %d, not %u", i, is, first[i].answered);
        close(sock);
    }
    for (unsigned i = 0; i < sizeof(later) / sizeof(later[0]); i++) {
        assert_int_equal(guest_connect(&g, b.sock, "later"), 0);
        int is = try_request(g.sock, &later[i]);
        if (is != (int)later[i].answered)
            fail_msg("later request %u: answer %d, not %u", i, is, later[i].answered);
        guest_close(&g);
    }
    uint64_t p;
    assert_int_equal(guest_alloc(&other, 1 << 20, &p), 0);
    guest_close(&other);
    assert_int_equal(broker_stop(&b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors),
        cmocka_unit_test(test_requests),
#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
        cmocka_unit_test(test_layout),
#endif
    };

    return cmocka_run_group_tests_name("state", tests, NULL, NULL);
}

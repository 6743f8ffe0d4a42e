/* SPDX-License-Identifier: MIT */
/* The socket transport against a broker that behaves, misbehaves, refuses or disappears. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "../../protocol/vgp_ring.h"
#include "../../protocol/vgp_sock.h"
#include "transport.h"

enum behaviour {
    GOOD,
    REFUSE,
    HANG_UP,
    NO_FDS,
    SMALL_WINDOW,
    SHORT_MEMFD,
    SHORT_MESSAGE,
    WRONG_TYPE,
    UNSEALED,
    MAP_QUOTA,
    MAP_WRONG_REGION,
    MAP_HANG_UP,
};

static struct {
    char path[64];
    int listener, connection, memfd, bell;
    enum behaviour how;
    struct vgp_window_shared *window;
    struct vgp_sock_hello hello;
    struct vgp_sock_map last_map;
    pthread_t thread;
} b;

static void send_with_fds(const void *data, size_t n, const int *fds, int n_fds)
{
    union {
        struct cmsghdr align;
        char space[CMSG_SPACE(2 * sizeof(int))];
    } control = {0};
    struct iovec iov = {(void *)data, n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

    if (n_fds != 0) {
        msg.msg_control = control.space;
        msg.msg_controllen = CMSG_SPACE((size_t)n_fds * sizeof(int));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN((size_t)n_fds * sizeof(int));
        memcpy(CMSG_DATA(&control.align), fds, (size_t)n_fds * sizeof(int));
    }
    sendmsg(b.connection, &msg, MSG_NOSIGNAL);
}

static void welcome(void)
{
    struct vgp_sock_welcome w = {.type = VGP_SOCK_WELCOME, .window_size = VGP_WINDOW_MIN};
    struct vgp_sock_refused r = {.type = VGP_SOCK_REFUSED, .text = "the test does not like you"};
    int fds[2] = {b.memfd, b.bell};

    switch (b.how) {
    case REFUSE:
        send_with_fds(&r, sizeof(r), NULL, 0);
        break;
    case HANG_UP:
        shutdown(b.connection, SHUT_RDWR);
        break;
    case NO_FDS:
        send_with_fds(&w, sizeof(w), NULL, 0);
        break;
    case SMALL_WINDOW:
        w.window_size = VGP_WINDOW_MIN - 4096;
        send_with_fds(&w, sizeof(w), fds, 2);
        break;
    case SHORT_MEMFD:
        w.window_size = VGP_WINDOW_MIN + 4096;
        send_with_fds(&w, sizeof(w), fds, 2);
        break;
    case SHORT_MESSAGE:
        send_with_fds(&w, 4, fds, 2);
        break;
    case WRONG_TYPE:
        w.type = 77;
        send_with_fds(&w, sizeof(w), fds, 2);
        break;
    default:
        send_with_fds(&w, sizeof(w), fds, 2);
    }
}

static void *broker(void *arg)
{
    struct vgp_sock_map map;

    (void)arg;
    b.connection = accept(b.listener, NULL, NULL);
    if (recv(b.connection, &b.hello, sizeof(b.hello), 0) != sizeof(b.hello))
        return NULL;
    welcome();
    while (recv(b.connection, &map, sizeof(map), 0) == sizeof(map)) { /* the fd is dropped */
        struct vgp_sock_mapped m = {
            .type = VGP_SOCK_MAPPED,
            .region = map.region,
            .worker_va = map.va,
        };

        b.last_map = map;
        if (b.how == MAP_QUOTA)
            m.status = VGPU_S_QUOTA;
        if (b.how == MAP_WRONG_REGION)
            m.region++;
        if (b.how == MAP_HANG_UP)
            break;
        send_with_fds(&m, sizeof(m), NULL, 0);
    }
    shutdown(b.connection, SHUT_RDWR);
    return NULL;
}

static void start(enum behaviour how)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    memset(&b, 0, sizeof(b));
    b.how = how;
    snprintf(b.path, sizeof(b.path), "/tmp/lnk_transport_test.%d", (int)getpid());
    unlink(b.path);
    strcpy(addr.sun_path, b.path);
    b.listener = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    assert_int_equal(bind(b.listener, (struct sockaddr *)&addr, sizeof(addr)), 0);
    assert_int_equal(listen(b.listener, 1), 0);
    b.memfd = memfd_create("window", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(b.memfd, VGP_WINDOW_MIN), 0);
    if (how != UNSEALED)
        assert_int_equal(fcntl(b.memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    b.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    b.window = mmap(NULL, VGP_WINDOW_MIN, PROT_READ | PROT_WRITE, MAP_SHARED, b.memfd, 0);
    assert_int_equal(pthread_create(&b.thread, NULL, broker, NULL), 0);
    setenv("VGPU_SOCKET", b.path, 1);
}

static void stop_transport(struct lnk_transport *t)
{
    if (t->ops != NULL)
        t->ops->close(t);
    pthread_join(b.thread, NULL);
    close(b.connection);
    close(b.listener);
    close(b.memfd);
    close(b.bell);
    munmap(b.window, VGP_WINDOW_MIN);
    unlink(b.path);
}

static int64_t in_ms(int ms)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec + (int64_t)ms * 1000000;
}

static void test_good(void **state)
{
    struct lnk_transport t;
    uint64_t bell = 0;

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    assert_int_equal(b.hello.type, VGP_SOCK_HELLO);
    assert_int_equal(b.hello.version_major, VGP_VERSION_MAJOR);
    assert_int_equal(t.window_size, VGP_WINDOW_MIN);
    b.window->sticky_result = 42; /* it is the same memory */
    assert_int_equal(((struct vgp_window_shared *)t.window)->sticky_result, 42);
    t.ops->doorbell(&t);
    assert_int_equal(read(b.bell, &bell, sizeof(bell)), 8);
    assert_int_equal(bell, 1);
    stop_transport(&t);
}

static void test_refusals(void **state)
{
    static const struct {
        enum behaviour how;
        int error;
        const char *text;
    } rows[] = {
        {REFUSE, -ECONNREFUSED, "the test does not like you"},
        {HANG_UP, -ECONNRESET, "greet"},
        {NO_FDS, -EPROTO, "window"},
        {SMALL_WINDOW, -EPROTO, "window"},
        {SHORT_MEMFD, -EPROTO, "window"},
        {SHORT_MESSAGE, -EPROTO, "window"},
        {WRONG_TYPE, -EPROTO, "window"},
        {UNSEALED, -EPROTO, "window"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lnk_transport t;
        int rc;

        start(rows[i].how);
        rc = lnk_transport_open(&t);
        if (rc != rows[i].error || strstr(t.why, rows[i].text) == NULL)
            fail_msg("row %zu: %d, %s", i, rc, t.why);
        assert_null(t.ops); /* everything is closed again */
        stop_transport(&t);
    }
}

static void test_no_broker(void **state)
{
    char path[300];
    struct lnk_transport t;

    (void)state;
    setenv("VGPU_SOCKET", "/nonexistent/x.sock", 1);
    assert_int_equal(lnk_transport_open(&t), -ENOENT);
    assert_non_null(strstr(t.why, "vgpu-backend --listen"));
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    setenv("VGPU_SOCKET", path, 1);
    assert_int_equal(lnk_transport_open(&t), -ENAMETOOLONG);
}

static void *wake_later(void *arg)
{
    (void)arg;
    usleep(30000);
    __atomic_fetch_add(&b.window->wake_seq, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &b.window->wake_seq, FUTEX_WAKE, 1000, NULL, NULL, 0);
    return NULL;
}

static void *hang_up_later(void *arg)
{
    (void)arg;
    usleep(30000);
    shutdown(b.connection, SHUT_RDWR);
    return NULL;
}

static void test_wait(void **state)
{
    struct lnk_transport t;
    pthread_t other;
    uint64_t seen;

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    seen = t.ops->seen(&t);
    assert_int_equal(t.ops->wait(&t, seen, in_ms(20)), -ETIMEDOUT);
    assert_int_equal(t.ops->wait(&t, seen + 1, in_ms(20)), 0); /* moved already: at once */
    pthread_create(&other, NULL, wake_later, NULL);
    assert_int_equal(t.ops->wait(&t, seen, -1), 0);
    pthread_join(other, NULL);
    seen = t.ops->seen(&t);
    pthread_create(&other, NULL, hang_up_later, NULL);
    assert_int_equal(t.ops->wait(&t, seen, -1), -ENODEV); /* no deadline, but no hanging either */
    pthread_join(other, NULL);
    stop_transport(&t);
}

static void test_shared_memory(void **state)
{
    struct lnk_transport t;
    struct lnk_shared_memory m = {0}, n = {0};
    char *own = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    assert_int_equal(t.ops->alloc_shared(&t, NULL, 8192, &m), 0);
    assert_int_equal(b.last_map.type, VGP_SOCK_MAP);
    assert_int_equal(b.last_map.va, (uintptr_t)m.va);
    assert_int_equal(b.last_map.length, 8192);
    assert_int_equal(m.worker_va, (uintptr_t)m.va);
    assert_int_equal(((char *)m.va)[8191], 0);
    memset(own, 'z', 8192);
    assert_int_equal(t.ops->share(&t, own, 8192, false, &n), 0);
    assert_int_equal(own[0], 'z'); /* same address, same contents */
    assert_int_equal(own[8191], 'z');
    assert_int_not_equal(n.region, m.region);
    assert_int_equal(t.ops->share(&t, own, 8192, true, &n), -EOPNOTSUPP);
    assert_int_equal(t.ops->unshare(&t, &m, true), 0);
    assert_int_equal(b.last_map.type, VGP_SOCK_UNMAP);
    assert_int_equal(b.last_map.region, m.region);
    munmap(own, 8192);
    assert_int_equal(t.ops->share(&t, own, 8192, false, &n), -EFAULT);
    stop_transport(&t);
}

/* A child sees the contents, and what it writes stays its own. */
static bool is_private(volatile char *p, char want)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        bool ok = *p == want;

        *p = want + 1;
        _exit(ok ? 0 : 1);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0 && *p == want;
}

/* What is not shared any more is memory as before, but where the program has put something else. */
static void test_unshared(void **state)
{
    struct lnk_transport t;
    struct lnk_shared_memory m = {0};
    char *own = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int fd, other;

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    memset(own, 'a', 3 * 4096);
    assert_int_equal(t.ops->share(&t, own, 3 * 4096, false, &m), 0);
    memset(own, 'b', 3 * 4096);
    fd = m.kept - 1;
    assert_int_equal(mprotect(own + 8192, 4096, PROT_READ), 0);
    assert_ptr_equal(
        mmap(own + 4096, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
        own + 4096);
    own[4096] = 'c';
    assert_int_equal(t.ops->unshare(&t, &m, false), 0);
    assert_int_equal(fcntl(fd, F_GETFD), -1);
    assert_true(is_private(own, 'b'));
    assert_true(is_private(own + 4096, 'c'));
    assert_int_equal(own[8192], 'b');
    assert_int_equal(mprotect(own + 8192, 4096, PROT_READ | PROT_WRITE), 0);
    assert_true(is_private(own + 8192, 'b'));

    /* Another file has the number: it is neither mapped nor closed. */
    assert_int_equal(t.ops->share(&t, own, 8192, false, &m), 0);
    fd = m.kept - 1;
    other = memfd_create("other", MFD_CLOEXEC);
    assert_int_equal(dup2(other, fd), fd);
    assert_int_equal(t.ops->unshare(&t, &m, false), 0);
    assert_int_equal(fcntl(fd, F_GETFD), 0);
    assert_int_equal(own[0], 'b');
    close(fd);
    close(other);
    munmap(own, 3 * 4096);
    stop_transport(&t);
}

/* Memory that others have, and a process without descriptors: nothing is changed. */
static void test_not_shared(void **state)
{
    struct lnk_transport t;
    struct lnk_shared_memory m = {0};
    struct rlimit limit, few;
    int fd = memfd_create("shared", MFD_CLOEXEC);
    char *p, *q, *own;

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    assert_int_equal(ftruncate(fd, 4096), 0);
    own = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    p = mmap(own + 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
    q = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    b.last_map.type = 0;
    assert_int_equal(t.ops->share(&t, own, 12288, false, &m), -EOPNOTSUPP);
    assert_int_equal(t.ops->share(&t, p, 4096, false, &m), -EOPNOTSUPP);
    *p = 'x';
    assert_int_equal(*q, 'x');
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    few = limit;
    few.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    assert_int_equal(t.ops->share(&t, own, 4096, false, &m), -EOPNOTSUPP);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(b.last_map.type, 0); /* the worker was not asked */
    close(fd);
    munmap(own, 12288);
    munmap(q, 4096);
    stop_transport(&t);
}

static void test_shared_memory_refused(void **state)
{
    static const struct {
        enum behaviour how;
        int error;
    } rows[] = {{MAP_QUOTA, -EDQUOT}, {MAP_WRONG_REGION, -EPROTO}, {MAP_HANG_UP, -ECONNRESET}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lnk_transport t;
        struct lnk_shared_memory m;

        start(rows[i].how);
        assert_int_equal(lnk_transport_open(&t), 0);
        assert_int_equal(t.ops->alloc_shared(&t, NULL, 4096, &m), rows[i].error);
        assert_true(t.why[0] != '\0');
        /* The words by which vgpu doctor knows the option. */
        assert_int_equal(strstr(t.why, "(vgpu-backend --pin-quota)") != NULL, rows[i].how == MAP_QUOTA);
        stop_transport(&t);
    }
}

static void test_forked(void **state)
{
    struct lnk_transport t;
    int fd;

    (void)state;
    start(GOOD);
    assert_int_equal(lnk_transport_open(&t), 0);
    fd = dup(t.fd);
    t.ops->forked(&t); /* what the child does with its copies */
    assert_int_equal(t.fd, -1);
    assert_int_equal(t.bell_fd, -1);
    close(fd);
    stop_transport(&t);
}

/* ---- places ---- */

static void test_places(void **state)
{
    static const struct {
        const char *text;
        unsigned n;
        const char *first, *last;
    } rows[] = {
        {"/a.sock", 1, "/a.sock", "/a.sock"},
        {"/a.sock:/b.sock", 2, "/a.sock", "/b.sock"},
        {":/a.sock::/b.sock:", 2, "/a.sock", "/b.sock"},
        {"::", 0, NULL, NULL},
    };
    static struct lnk_place list[LNK_PLACES_MAX];
    char many[3 * LNK_PLACES_MAX + 16] = "", path[64];
    struct lnk_transport t;
    int fd;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        setenv("VGPU_SOCKET", rows[i].text, 1);
        assert_int_equal(lnk_places(list), rows[i].n);
        if (rows[i].n == 0)
            continue;
        assert_string_equal(list[0].path, rows[i].first);
        assert_string_equal(list[rows[i].n - 1].path, rows[i].last);
        assert_int_equal(list[rows[i].n - 1].number, rows[i].n - 1);
        assert_ptr_equal(list[0].ops, &lnk_transport_sock);
    }
    assert_int_equal(lnk_transport_open(&t), -ENODEV); /* of the last row */
    assert_non_null(strstr(t.why, "VGPU_SOCKET names no socket"));
    for (int i = 0; i < LNK_PLACES_MAX + 4; i++)
        strcat(many, "/x:");
    setenv("VGPU_SOCKET", many, 1);
    assert_int_equal(lnk_places(list), LNK_PLACES_MAX);
    /* A name with a colon is one that is there. */
    snprintf(path, sizeof(path), "/tmp/lnk_transport_test:%d", (int)getpid());
    fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    setenv("VGPU_SOCKET", path, 1);
    assert_int_equal(lnk_places(list), 1);
    assert_string_equal(list[0].path, path);
    close(fd);
    unlink(path);
}

static void test_first_place(void **state)
{
    static struct lnk_place list[LNK_PLACES_MAX];
    struct lnk_transport t;
    char both[300];

    (void)state;
    start(GOOD);
    snprintf(both, sizeof(both), "/nonexistent/x.sock:%s", b.path);
    setenv("VGPU_SOCKET", both, 1);
    assert_int_equal(lnk_places(list), 2);
    assert_int_equal(lnk_transport_open_at(&t, &list[0]), -ENOENT);
    assert_null(t.ops);
    assert_int_equal(lnk_transport_open_at(&t, &list[1]), 0);
    assert_int_equal(t.number, 1);
    stop_transport(&t);
}

static void test_identity(void **state)
{
    uint8_t uuid[16], want[16];
    char bus[] = "0000:f0:02.0", odd[] = "f0";
    int domain = 0;

    (void)state;
    memcpy(uuid, "vgpu-cuda-soft00", 16);
    memcpy(want, uuid, 16);
    lnk_identify(0, "software GPU", uuid, bus, &domain);
    lnk_identify(3, "NVIDIA", uuid, bus, &domain); /* real ones differ by themselves */
    assert_memory_equal(uuid, want, 16);
    assert_string_equal(bus, "0000:f0:02.0");
    assert_int_equal(domain, 0);
    lnk_identify(63, "software GPU", uuid, bus, &domain);
    assert_memory_not_equal(uuid, want, 16);
    want[14] = '0' + 63;
    assert_memory_equal(uuid, want, 16);
    assert_string_equal(bus, "003F:f0:02.0");
    assert_int_equal(domain, 63);
    lnk_identify(1, "software GPU", uuid, odd, &domain); /* a worker's text of another form stays */
    assert_string_equal(odd, "f0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),          cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_no_broker),     cmocka_unit_test(test_wait),
        cmocka_unit_test(test_shared_memory), cmocka_unit_test(test_shared_memory_refused),
        cmocka_unit_test(test_unshared),      cmocka_unit_test(test_not_shared),
        cmocka_unit_test(test_forked),        cmocka_unit_test(test_places),
        cmocka_unit_test(test_first_place),   cmocka_unit_test(test_identity),
    };

    return cmocka_run_group_tests_name("transport", tests, NULL, NULL);
}

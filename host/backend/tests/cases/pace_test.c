/* SPDX-License-Identifier: MIT */
/*
 * Shares of the software GPU, against workers that were taken over: they use all the processor time that they get and
 * listen to nobody. All of it happens on one processor, so that there is always less than is wanted. What is waited
 * for is a ratio of processor times, which holds on a slow machine, too.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc.h"
#include "vgb_fd.h"
#include "vgp_ring.h"
#include "vgp_sock.h"

#define WAIT_MS 60000

static char folder[40], control[2][60], arbiter[60];

static uint64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t cpu_ms(pid_t pid)
{
    struct timespec t;
    clockid_t clock;

    if (clock_getcpuclockid(pid, &clock) || clock_gettime(clock, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int connect_to(const struct sockaddr_un *a, socklen_t size)
{
    struct timeval limit = {.tv_sec = 60};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    assert_int_equal(connect(fd, (const struct sockaddr *)a, size), 0);
    return fd;
}

static int connect_path(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};

    snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    return connect_to(&a, sizeof(a));
}

static void tell(const char *path, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void tell(const char *path, const char *fmt, ...)
{
    char text[300];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    const char *answer = control_ask(path, text, strlen(text));
    assert_non_null(answer);
    assert_string_equal(answer, "ok\n");
}

/* A client of a greedy worker; its connection. */
static int greedy(const struct broker *b)
{
    struct vgp_sock_hello hello = {.type = VGP_SOCK_HELLO,
                                   .version_major = VGP_VERSION_MAJOR,
                                   .version_minor = VGP_VERSION_MINOR,
                                   .label = "greedy"};
    int fd = connect_path(b->sock), fds[4];
    uint8_t buf[512];
    unsigned nfds = 4;
    uint32_t type = 0;

    assert_int_equal(send(fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
    assert_true(vgb_recv_fds(fd, buf, sizeof(buf), fds, &nfds, 0) >= 4);
    memcpy(&type, buf, 4);
    vgb_close_all(fds, nfds);
    assert_int_equal(type, VGP_SOCK_WELCOME);
    return fd;
}

/* The workers that serve clients, in the order of the clients. */
static unsigned served(const struct broker *b, pid_t *pid, unsigned room)
{
    static char text[65536];
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int len = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "vgpu-backend.status.%d", (int)b->pid), p;
    int fd = connect_to(&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len));
    ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
    unsigned found = 0;

    close(fd);
    text[n > 0 ? n : 0] = '\0';
    for (char *at = text; (at = strstr(at, "\nclient ")) && found < room; at++)
        found += sscanf(at, "\nclient %d", &p) == 1 ? (pid[found] = p, 1u) : 0u;
    return found;
}

static void start(struct broker *b, unsigned i, const char *option, const char *value)
{
    const char *base = getenv("BACKEND_DIR");
    char worker[600];
    const char *extra[] = {"--worker",  worker,      "--log",
                           "/dev/null", "--control", control[i],
                           option,      value,       option ? "--arbiter" : NULL,
                           arbiter,     NULL};

    snprintf(worker, sizeof(worker), "%s/tests/badworker", base ? base : ".");
    memset(b, 0, sizeof(*b));
    assert_int_equal(broker_start(b, extra), 0);
}

/* A broker, and greedy clients of it. */
static void start_greedy(struct broker *b, int *fd, pid_t *pid, unsigned n)
{
    start(b, 0, NULL, NULL);
    for (unsigned i = 0; i < n; i++)
        fd[i] = greedy(b);
    assert_int_equal(served(b, pid, n), n);
}

/* Whether, within the time, `light` uses a share of both from low to high percent, after some time of both. The
 * beginning is forgotten now and then: the machine may have been too busy for the broker to run. */
static bool shares(pid_t light, pid_t heavy, unsigned low, unsigned high)
{
    for (uint64_t end = now_ms() + WAIT_MS; now_ms() < end;) {
        uint64_t l0 = cpu_ms(light), h0 = cpu_ms(heavy), l = 0, h = 0;

        for (uint64_t part = now_ms() + 10000; h + l < 500 && now_ms() < part;) {
            usleep(20000);
            l = cpu_ms(light) - l0;
            h = cpu_ms(heavy) - h0;
        }
        if (h + l >= 300 && l * 100 >= (h + l) * low && l * 100 <= (h + l) * high)
            return true;
    }
    return false;
}

static void test_weights(void **state)
{
    struct broker b;
    pid_t pid[2];
    int fd[2];

    (void)state;
    start_greedy(&b, fd, pid, 2);
    tell(control[0], "set client-weight 10 client %d", (int)pid[0]);
    tell(control[0], "set client-weight 90 client %d", (int)pid[1]);
    assert_true(shares(pid[0], pid[1], 4, 20));
    /* The other way round, while they run. */
    tell(control[0], "set client-weight 90 client %d", (int)pid[0]);
    tell(control[0], "set client-weight 10 client %d", (int)pid[1]);
    assert_true(shares(pid[1], pid[0], 4, 20));
    /* Alone, the light one has it all; and one that is stopped ends like any other. */
    close(fd[0]);
    assert_true(gone_within(pid[0], WAIT_MS));
    uint64_t was = cpu_ms(pid[1]), end = now_ms() + WAIT_MS;
    while (cpu_ms(pid[1]) - was < 100 && now_ms() < end)
        usleep(10000);
    assert_true(cpu_ms(pid[1]) - was >= 100);
    close(fd[1]);
    assert_true(gone_within(pid[1], WAIT_MS));
    assert_int_equal(broker_stop(&b), 0);
}

/* A worker that goes first and says for ever that it has work: it has its share, no more. */
static void test_priority(void **state)
{
    struct broker b;
    pid_t pid[2];
    int fd[2];

    (void)state;
    start_greedy(&b, fd, pid, 2);
    tell(control[0], "set client-priority 2 client %d", (int)pid[0]);
    assert_true(shares(pid[1], pid[0], 35, 90));
    tell(control[0], "set client-weight 10 client %d", (int)pid[0]);
    tell(control[0], "set client-weight 90 client %d", (int)pid[1]);
    assert_true(shares(pid[0], pid[1], 1, 25));
    for (unsigned i = 0; i < 2; i++)
        close(fd[i]);
    assert_int_equal(broker_stop(&b), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_true(gone_within(pid[i], WAIT_MS));
}

static void test_cap(void **state)
{
    struct broker b;
    pid_t pid;

    (void)state;
    start(&b, 0, NULL, NULL);
    int fd = greedy(&b);
    assert_int_equal(served(&b, &pid, 1), 1);
    tell(control[0], "set client-cap 20");
    /* Those that run already have it, too. */
    tell(control[0], "set client-cap 20 client %d", (int)pid);
    bool kept = false, used = false;
    for (uint64_t end = now_ms() + WAIT_MS; !(kept && used) && now_ms() < end;) {
        uint64_t t = now_ms(), was = cpu_ms(pid);

        usleep(500000);
        t = now_ms() - t;
        kept |= (cpu_ms(pid) - was) * 100 < t * 40;
        used |= cpu_ms(pid) - was > 10;
    }
    assert_true(kept);
    assert_true(used);
    assert_int_equal(broker_stop(&b), 0); /* it may be stopped now: ended all the same */
    assert_true(gone_within(pid, WAIT_MS));
    close(fd);
}

static void test_virtual_machines(void **state)
{
    struct broker b[2];
    pid_t pid[2];
    int fd[2];

    (void)state;
    start(&b[0], 0, "--weight", "10");
    start(&b[1], 1, "--weight", "90");
    for (unsigned i = 0; i < 2; i++) {
        fd[i] = greedy(&b[i]);
        assert_int_equal(served(&b[i], &pid[i], 1), 1);
    }
    assert_true(shares(pid[0], pid[1], 4, 20));
    tell(control[0], "set weight 90");
    tell(control[1], "set weight 10");
    assert_true(shares(pid[1], pid[0], 4, 20));
    /* A broker that is killed holds nobody back. */
    kill(b[0].pid, SIGKILL);
    broker_stop(&b[0]);
    uint64_t was = cpu_ms(pid[1]), end = now_ms() + WAIT_MS;
    while (cpu_ms(pid[1]) - was < 100 && now_ms() < end)
        usleep(10000);
    assert_true(cpu_ms(pid[1]) - was >= 100);
    assert_int_equal(broker_stop(&b[1]), 0);
    close(fd[0]);
    close(fd[1]);
    unlink(control[0]);
}

/* Of its threads, the lowest or the highest. */
static int nice_of(pid_t pid, bool highest)
{
    char path[60];
    struct dirent *e;
    int found = highest ? -20 : 19;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    DIR *d = opendir(path);
    while (d && (e = readdir(d))) {
        int n = *e->d_name == '.' ? found : getpriority(PRIO_PROCESS, (id_t)atoi(e->d_name));

        found = highest ? (n > found ? n : found) : (n < found ? n : found);
    }
    if (d)
        closedir(d);
    return found;
}

static bool may_raise(void)
{
    struct rlimit l;
    int was = getpriority(PRIO_PROCESS, 0);

    getrlimit(RLIMIT_NICE, &l);
    if (was <= 18 && (!geteuid() || l.rlim_cur >= (rlim_t)(20 - was)))
        return true;
    print_message("not run: priorities: this user may not raise them again\n");
    return false;
}

static bool runs_last(pid_t pid)
{
    for (uint64_t end = now_ms() + WAIT_MS; now_ms() < end; usleep(1000)) {
        if (nice_of(pid, false) == 19)
            return true;
    }
    return false;
}

/* It has what it began with, soon. */
static void has_priority(pid_t pid)
{
    int was = getpriority(PRIO_PROCESS, 0);

    for (uint64_t end = now_ms() + WAIT_MS; nice_of(pid, true) != was && now_ms() < end;)
        usleep(10000);
    assert_int_equal(nice_of(pid, true), was);
}

/* Who is ahead runs last, with all its threads, and has its priority back when nobody is behind it any more. Where the
 * broker cannot give it back (`may`), it does not take it away, and shares are those of stopping alone. */
static void priorities(bool may)
{
    struct broker b;
    pid_t pid[2];
    int fd[2];

    start_greedy(&b, fd, pid, 2);
    tell(control[0], "set client-weight 10 client %d", (int)pid[0]);
    tell(control[0], "set client-weight 90 client %d", (int)pid[1]);
    if (may)
        assert_true(runs_last(pid[0]));
    assert_true(shares(pid[0], pid[1], 4, 20));
    if (!may)
        assert_int_equal(nice_of(pid[0], true), getpriority(PRIO_PROCESS, 0));
    close(fd[1]);
    assert_true(gone_within(pid[1], WAIT_MS));
    has_priority(pid[0]);
    close(fd[0]);
    assert_true(gone_within(pid[0], WAIT_MS));
    assert_int_equal(broker_stop(&b), 0);
}

static void test_runs_last(void **state)
{
    (void)state;
    if (may_raise())
        priorities(true);
}

/* A worker that is out of its group cannot be put last: it is stopped, and nobody else's priority stays low for it. */
static void test_leaves_group(void **state)
{
    struct broker b;
    pid_t pid[3];
    int fd[3];

    (void)state;
    if (!may_raise())
        return;
    start_greedy(&b, fd, pid, 3);
    tell(control[0], "set client-weight 10 client %d", (int)pid[0]);
    tell(control[0], "set client-weight 90 client %d", (int)pid[1]);
    tell(control[0], "set client-weight 10 client %d", (int)pid[2]);
    assert_true(runs_last(pid[0]));
    /* By now it knows the signal. */
    for (uint64_t end = now_ms() + WAIT_MS; cpu_ms(pid[2]) < 100 && now_ms() < end;)
        usleep(10000);
    assert_int_equal(kill(pid[2], SIGUSR1), 0);
    assert_true(shares(pid[2], pid[1], 4, 20));
    for (int i = 1; i < 3; i++) {
        close(fd[i]);
        assert_true(gone_within(pid[i], WAIT_MS));
    }
    has_priority(pid[0]);
    close(fd[0]);
    assert_true(gone_within(pid[0], WAIT_MS));
    assert_int_equal(broker_stop(&b), 0);
}

/* The last one: what is given up does not come back. */
static void test_cannot_raise(void **state)
{
    struct rlimit none = {0, 0};

    (void)state;
    assert_int_equal(setrlimit(RLIMIT_NICE, &none), 0);
    if (!geteuid())
        assert_int_equal(prctl(PR_CAPBSET_DROP, CAP_SYS_NICE), 0);
    priorities(false);
}

static int setup(void **state)
{
    cpu_set_t may, one;
    int cpu = 0;

    (void)state;
    strcpy(folder, "/tmp/vgb-pace-XXXXXX");
    if (!mkdtemp(folder) || sched_getaffinity(0, sizeof(may), &may))
        return -1;
    while (!CPU_ISSET(cpu, &may))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    snprintf(control[0], sizeof(control[0]), "%s/c0", folder);
    snprintf(control[1], sizeof(control[1]), "%s/c1", folder);
    snprintf(arbiter, sizeof(arbiter), "%s/arbiter", folder);
    setenv("VGPU_TEST_BADWORKER", "greedy", 1);
    return sched_setaffinity(0, sizeof(one), &one);
}

static int teardown(void **state)
{
    (void)state;
    unlink(arbiter);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_weights),      cmocka_unit_test(test_priority),
        cmocka_unit_test(test_cap),          cmocka_unit_test(test_virtual_machines),
        cmocka_unit_test(test_runs_last),    cmocka_unit_test(test_leaves_group),
        cmocka_unit_test(test_cannot_raise),
    };

    return cmocka_run_group_tests_name("pace", tests, setup, teardown);
}

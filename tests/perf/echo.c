// SPDX-License-Identifier: MIT
/*
 * Cost of a round trip without libcuda: shared memory with the polling of the ring (a short spin,
 * then yielding), a unix socket, TCP over loopback; the same number of bytes each way.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

const char *const echo_names[] = {"shared memory", "unix socket", "TCP loopback"};

struct lane {
    _Atomic uint64_t request __attribute__((aligned(64)));
    uint8_t in[MESSAGE] __attribute__((aligned(64)));
    _Atomic uint64_t reply __attribute__((aligned(64)));
    uint8_t out[MESSAGE] __attribute__((aligned(64)));
};

struct echo {
    enum echo_kind kind;
    pid_t pid;
    int fd;
    struct lane *lane;
    uint64_t seq;
};

/*
 * Polls like the ring, so that the difference is the work of libcuda and not of the scheduler:
 * pauses for an adaptive time (halved if in vain, extended if successful), then yields at every
 * check.
 */
#define SPIN_MIN_NS 1000u
#define SPIN_MAX_NS 40000u

static void await(_Atomic uint64_t *word, uint64_t value)
{
    static uint64_t budget = SPIN_MAX_NS;
    uint64_t end = now_ns() + budget;

    for (unsigned i = 1; atomic_load_explicit(word, memory_order_acquire) != value; i++) {
        __builtin_ia32_pause();
        if (i % 16 == 0 && now_ns() > end) {
            if (budget > SPIN_MIN_NS)
                budget /= 2;
            while (atomic_load_explicit(word, memory_order_acquire) != value)
                sched_yield();
            return;
        }
    }
    if (budget < SPIN_MAX_NS)
        budget += budget / 4 + 1;
}

static void serve_lane(struct lane *l)
{
    for (uint64_t seq = 1;; seq++) {
        while (atomic_load_explicit(&l->request, memory_order_acquire) != seq)
            sched_yield(); /* like the worker, yields on every round */
        memcpy(l->out, l->in, MESSAGE);
        atomic_store_explicit(&l->reply, seq, memory_order_release);
    }
}

static bool all(int fd, void *p, size_t n, bool out)
{
    for (size_t done = 0; done < n;) {
        ssize_t k = out ? write(fd, (char *)p + done, n - done) : read(fd, (char *)p + done, n - done);
        if (k <= 0)
            return false;
        done += (size_t)k;
    }
    return true;
}

static void serve_fd(int fd)
{
    char b[MESSAGE];
    while (all(fd, b, MESSAGE, false) && all(fd, b, MESSAGE, true))
        ;
    _exit(0);
}

static int tcp_pair(int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;

    if (l < 0 || bind(l, (struct sockaddr *)&a, sizeof(a)) || listen(l, 1) ||
        getsockname(l, (struct sockaddr *)&a, &n))
        return -1;
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (fds[0] < 0 || connect(fds[0], (struct sockaddr *)&a, sizeof(a)))
        return -1;
    fds[1] = accept(l, NULL, NULL);
    close(l);
    setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    return fds[1] < 0 ? -1 : 0;
}

struct echo *echo_start(enum echo_kind kind)
{
    struct echo *e = calloc(1, sizeof(*e));
    int fds[2] = {-1, -1};

    if (!e)
        return NULL;
    e->kind = kind;
    e->fd = -1;
    if (kind == ECHO_SHM) {
        e->lane = mmap(NULL, sizeof(*e->lane), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (e->lane == MAP_FAILED)
            return NULL;
    } else if (kind == ECHO_UNIX ? socketpair(AF_UNIX, SOCK_STREAM, 0, fds) : tcp_pair(fds)) {
        perror("bench: socket");
        return NULL;
    }
    e->pid = fork();
    if (e->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (kind == ECHO_SHM)
            serve_lane(e->lane);
        close(fds[0]);
        serve_fd(fds[1]);
    }
    if (fds[1] >= 0)
        close(fds[1]);
    e->fd = fds[0];
    if (e->lane)
        kill(e->pid, SIGSTOP); /* it polls, so it is stopped unless measured */
    return e;
}

bool echo_once(struct echo *e, struct samples *s)
{
    char b[MESSAGE] = {0};
    uint64_t t0 = now_ns();

    if (e->kind == ECHO_SHM) {
        e->lane->in[0] = (uint8_t)++e->seq;
        atomic_store_explicit(&e->lane->request, e->seq, memory_order_release);
        await(&e->lane->reply, e->seq);
    } else if (!all(e->fd, b, MESSAGE, true) || !all(e->fd, b, MESSAGE, false)) {
        return false;
    }
    if (s)
        samples_add(s, (double)(now_ns() - t0));
    return true;
}

void echo_wake(struct echo *e)
{
    if (e->lane)
        kill(e->pid, SIGCONT);
}
void echo_rest(struct echo *e)
{
    if (e->lane)
        kill(e->pid, SIGSTOP);
}

int echo_pid(const struct echo *e)
{
    return e->pid;
}

void echo_stop(struct echo *e)
{
    kill(e->pid, SIGKILL);
    waitpid(e->pid, NULL, 0);
    if (e->fd >= 0)
        close(e->fd);
    free(e);
}

/* SPDX-License-Identifier: MIT */
/*
 * Signals by eventfds that others have given. Who shares one can fill its counter at any time, also
 * between a look and the write, which then blocks: O_NONBLOCK belongs to the shared description,
 * and the kernel accepts RWF_NOWAIT only for reads. A timer interrupts such a write; the signal is
 * then lost, as its receiver has asked for.
 */
#define _GNU_SOURCE
#include "base.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define WRITE_NS 10000000l /* and again, in case it expires before the write begins */
#define SIGNAL SIGUSR2

#ifndef sigev_notify_thread_id /* in older C libraries */
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* By system calls: in older C libraries these functions are in librt. */
static int timer;
static enum { TIMER_UNTRIED, TIMER_THERE, TIMER_NONE } state;

static void on_timer(int sig)
{
    (void)sig; /* an interrupted write returns */
}

static bool timer_there(void)
{
    struct sigaction act = {.sa_handler = on_timer};
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGNAL};

    if (state != TIMER_UNTRIED)
        return state == TIMER_THERE;
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    state = !sigaction(SIGNAL, &act, NULL) && !syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer)
                ? TIMER_THERE
                : TIMER_NONE;
    return state == TIMER_THERE;
}

static void timer_set(long ns)
{
    const struct itimerspec t = {{0, ns}, {0, ns}};

    syscall(SYS_timer_settime, timer, 0, &t, NULL);
}

bool brk_is_named(int fd, const char *name)
{
    char link[40], target[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    n = readlink(link, target, sizeof(target));
    return n == (ssize_t)strlen(name) && !memcmp(target, name, (size_t)n);
}

bool brk_is_eventfd(int fd)
{
    return brk_is_named(fd, "anon_inode:[eventfd]");
}

void brk_eventfd_signal(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    const uint64_t one = 1;
    bool bounded;

    /* A full counter is a signal that has not been taken. */
    if (poll(&p, 1, 0) != 1)
        return;
    bounded = timer_there();
    if (bounded)
        timer_set(WRITE_NS);
    if (write(fd, &one, sizeof(one)) < 0)
        p.revents = 0; /* interrupted, or no eventfd */
    if (bounded)
        timer_set(0);
}

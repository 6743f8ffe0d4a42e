/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

static int epoll_fd = -1;
static bool stopped;
static struct brk_source signals;

#define REST_MS 100
static struct brk_source *resting; /* paused listening sockets */

static void on_signal(struct brk_source *s, uint32_t events)
{
    struct signalfd_siginfo info;

    (void)events;
    if (read(s->fd, &info, sizeof(info)) == sizeof(info))
        vgb_log(VGB_INFO, "signal %u: ending", info.ssi_signo);
    stopped = true;
}

int brk_loop_init(void)
{
    sigset_t set;

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0)
        return -errno;
    vgb_close_received = brk_foreign_close;
    signal(SIGPIPE, SIG_IGN);
    /* if inherited as ignored, workers would vanish before being reaped */
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signals.fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    signals.ready = on_signal;
    return signals.fd < 0 ? -errno : brk_loop_add(&signals, EPOLLIN);
}

int brk_loop_add(struct brk_source *s, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = s};

    return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, s->fd, &e) ? -errno : 0;
}

void brk_loop_change(struct brk_source *s, uint32_t events)
{
    struct epoll_event e = {.events = events, .data.ptr = s};

    epoll_ctl(epoll_fd, EPOLL_CTL_MOD, s->fd, &e);
}

void brk_loop_del(struct brk_source *s)
{
    struct brk_source **p = &resting;

    epoll_ctl(epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
    while (*p && *p != s)
        p = &(*p)->resting;
    if (*p)
        *p = s->resting;
    s->rests_until_ns = 0;
}

/* Not watched at all: epoll reports EPOLLHUP and EPOLLERR whatever it is asked for. */
void brk_loop_rest(struct brk_source *s)
{
    if (!s->rests_until_ns) {
        epoll_ctl(epoll_fd, EPOLL_CTL_DEL, s->fd, NULL);
        s->resting = resting;
        resting = s;
    }
    s->rests_until_ns = vgb_now_ns() + REST_MS * UINT64_C(1000000);
}

int brk_accept(struct brk_source *s)
{
    static struct vgb_ratelimit limit;
    int fd = accept4(s->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (fd >= 0)
        return fd;
    /* Whatever the error, epoll may report the same again at once; of a socket that was shut down it
     * is EAGAIN. */
    if (errno != EAGAIN)
        vgb_log_limited(&limit, VGB_WARN, "a connection waits: %s", strerror(errno));
    brk_loop_rest(s);
    return -1;
}

/* Resumes sources whose pause is over; returns the maximum sleep because of the rest. */
static int wake_resting(int timeout_ms)
{
    uint64_t now = resting ? vgb_now_ns() : 0;

    for (struct brk_source **p = &resting; *p;) {
        struct brk_source *s = *p;

        if (now < s->rests_until_ns || brk_loop_add(s, EPOLLIN)) { /* or no memory: later */
            p = &s->resting;
            continue;
        }
        *p = s->resting;
        s->rests_until_ns = 0;
    }
    return resting && (timeout_ms < 0 || timeout_ms > REST_MS) ? REST_MS : timeout_ms;
}

bool brk_loop_once(int timeout_ms)
{
    struct epoll_event e;

    /*
     * A single event at a time: a handler may free any source, including that of a pending event.
     */
    int n = epoll_wait(epoll_fd, &e, 1, wake_resting(timeout_ms));
    if (n == 1) {
        struct brk_source *s = e.data.ptr;

        s->ready(s, e.events);
    }
    return !stopped;
}

void brk_loop_stop(void)
{
    stopped = true;
}

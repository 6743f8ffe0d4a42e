/* SPDX-License-Identifier: MIT */
/* Notifications to the guest, including the provider's output. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vgb_fd.h"

#define TEXT_MAX 2048u /* maximum text of a notification, bytes; longer output is split */

/*
 * Maximum time that output waits for room, ms, per half ring of notifications written. A guest that
 * reads never exhausts it; a guest that does not read, or only pretends to, delays the worker's
 * threads once.
 */
#define PRINT_WAIT_MS 200u
#define MS_NS 1000000

/* Writes a record; the lock is held. False: no room. */
static bool push_locked(struct wrk_worker *w, uint16_t type, uint64_t cookie, const void *data, uint32_t size,
                        bool counted)
{
    const struct wrk_window *win = &w->win;
    uint64_t head = __atomic_load_n(&win->shared->notify_head, __ATOMIC_ACQUIRE);
    uint64_t used = w->notify_tail - head;
    uint32_t bytes = (uint32_t)sizeof(struct vgp_notify) + (counted ? 4 : 0) + size;
    uint32_t total = (bytes + 15) & ~15u;
    uint64_t pos = w->notify_tail & (win->notify_size - 1);
    uint64_t room = win->notify_size - pos;
    uint64_t pad = room < total ? room : 0;
    uint8_t *ring = win->base + win->notify_offset;

    /* A head beyond the tail is invalid: the guest only loses its own notifications. */
    if (used > win->notify_size || win->notify_size - used < total + pad)
        return false;
    if (pad) {
        struct vgp_notify p = {.size = (uint32_t)pad, .type = VGP_NOTIFY_PAD};
        memcpy(ring + pos, &p, sizeof(p));
        w->notify_tail += pad;
        pos = 0;
    }
    struct vgp_notify n = {.size = total, .type = type, .cookie = cookie};
    uint8_t *at = ring + pos;
    memcpy(at, &n, sizeof(n));
    at += sizeof(n);
    if (counted) {
        memcpy(at, &size, 4);
        at += 4;
    }
    if (size)
        memcpy(at, data, size);
    memset(at + size, 0, total - bytes);
    w->notify_tail += total;
    __atomic_store_n(&win->shared->notify_tail, w->notify_tail, __ATOMIC_RELEASE);
    return true;
}

bool wrk_notify(struct wrk_worker *w, enum vgp_notify_type type, uint64_t cookie, const void *text,
                uint32_t size, unsigned wait_ms)
{
    bool counted = type == VGP_NOTIFY_DETAIL;
    const struct timespec ms = {.tv_nsec = MS_NS};
    bool done;

    if (size > TEXT_MAX)
        size = TEXT_MAX;
    for (;;) {
        pthread_mutex_lock(&w->notify_lock);
        done = push_locked(w, (uint16_t)type, cookie, text, size, counted);
        pthread_mutex_unlock(&w->notify_lock);
        if (done || !wait_ms--)
            break;
        wrk_wake_guest(w, true);
        nanosleep(&ms, NULL);
    }
    /* Other work may be waiting for a host function. */
    if (done)
        wrk_wake_guest(w, type == VGP_NOTIFY_HOST_FUNC);
    return done;
}

void wrk_notify_detail(struct wrk_worker *w, const char *text)
{
    if (text && *text)
        wrk_notify(w, VGP_NOTIFY_DETAIL, 0, text, (uint32_t)strnlen(text, TEXT_MAX), 0);
}

/*
 * True if output may wait another millisecond for room; counts it once for all waiting threads.
 * Progress is measured by the worker's own tail, as the guest's head is untrusted. The lock is
 * held.
 */
static bool print_may_wait_locked(struct wrk_worker *w)
{
    uint64_t now;

    if (w->notify_tail - w->print_tail >= w->win.notify_size / 2) {
        w->print_tail = w->notify_tail;
        w->print_waited_ms = 0;
    }
    if (w->print_waited_ms >= PRINT_WAIT_MS)
        return false;
    now = vgb_now_ns();
    if (now - w->print_counted_ns >= MS_NS) {
        w->print_counted_ns = now;
        w->print_waited_ms++;
    }
    return true;
}

/* Bounded back-pressure: a guest that does not read only loses output. */
static void print_piece(struct wrk_worker *w, uint64_t where, const char *text, uint32_t n)
{
    const struct timespec ms = {.tv_nsec = MS_NS};
    bool done, waits;

    for (;;) {
        pthread_mutex_lock(&w->notify_lock);
        done = push_locked(w, VGP_NOTIFY_PRINT, where, text, n, true);
        waits = !done && print_may_wait_locked(w);
        w->lost_prints += !done && !waits;
        pthread_mutex_unlock(&w->notify_lock);
        if (!waits)
            break;
        wrk_wake_guest(w, true);
        nanosleep(&ms, NULL);
    }
    if (done)
        wrk_wake_guest(w, true);
}

static void print_to(struct wrk_worker *w, uint64_t where, const char *text, size_t len)
{
    while (len) {
        uint32_t n = len > TEXT_MAX ? TEXT_MAX : (uint32_t)len;

        print_piece(w, where, text, n);
        text += n;
        len -= n;
    }
}

static void print_sink(void *ctx, const char *text, size_t len)
{
    print_to(ctx, VGP_PRINT_STDOUT, text, len);
}

static void error_sink(void *ctx, const char *text, size_t len)
{
    print_to(ctx, VGP_PRINT_STDERR, text, len);
}

/* Non-blocking read ends of the provider's standard output and standard error. */
static int output_fd[2] = {-1, -1};
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static void drain_pipes(struct wrk_worker *w, unsigned pipes)
{
    char buf[TEXT_MAX];
    ssize_t n;

    pthread_mutex_lock(&output_lock);
    for (unsigned i = 0; i < pipes; i++) {
        while ((n = read(output_fd[i], buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR)) {
            if (n > 0)
                print_to(w, i ? VGP_PRINT_STDERR : VGP_PRINT_STDOUT, buf, (size_t)n);
        }
    }
    pthread_mutex_unlock(&output_lock);
}

void wrk_notify_drain_output(struct wrk_worker *w, CUresult result)
{
    if (output_fd[0] < 0)
        return;
    /* flushes a partial line; may block on the reader below, which does not take this lock */
    fflush(stdout);
    /* Reading a pipe costs every wait a system call. Standard error has data only after a failed
     * assert. */
    drain_pipes(w, result == CUDA_SUCCESS ? 1 : 2);
}

/* Drains the pipes while the dispatcher is busy elsewhere. */
static void *output_reader(void *arg)
{
    struct pollfd p[2] = {{.fd = output_fd[0], .events = POLLIN}, {.fd = output_fd[1], .events = POLLIN}};

    while (poll(p, 2, -1) >= 0 || errno == EINTR) {
        if ((p[0].revents | p[1].revents) & (POLLERR | POLLHUP))
            break;
        drain_pipes(arg, 2);
    }
    return NULL;
}

/* Redirects descriptor `to` into a pipe; returns the read end, or -1. */
static int notify_capture(int to)
{
    int p[2];

    if (pipe2(p, O_CLOEXEC))
        return -1;
    if (!vgb_set_nonblock(p[0]) || dup3(p[1], to, 0) < 0) {
        close(p[0]);
        p[0] = -1;
    }
    close(p[1]);
    return p[0];
}

/* NVIDIA's device printf goes to the process's standard output and failed asserts to its standard
 * error: both are redirected to pipes read here, and the log is moved elsewhere. */
static int capture_output(struct wrk_worker *w)
{
    int log = fcntl(2, F_DUPFD_CLOEXEC, 3);
    pthread_t t;

    if (log < 0)
        return -1;
    vgb_log_init(log, vgb_log_level_get(), "worker");
    output_fd[0] = notify_capture(1);
    output_fd[1] = output_fd[0] >= 0 ? notify_capture(2) : -1;
    if (output_fd[1] < 0 || pthread_create(&t, NULL, output_reader, w)) {
        /* Later output has no reader and goes to the log. */
        dup3(log, 1, 0);
        dup3(log, 2, 0);
        vgb_close(&output_fd[0]);
        vgb_close(&output_fd[1]);
        return -1;
    }
    pthread_detach(t);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return 0;
}

int wrk_notify_capture_output(struct wrk_worker *w)
{
    if (wrk_provider.sg_set_print_sink) {
        wrk_provider.sg_set_print_sink(print_sink, w);
        if (wrk_provider.sg_set_error_sink)
            wrk_provider.sg_set_error_sink(error_sink, w);
        return 0;
    }
    return capture_output(w);
}

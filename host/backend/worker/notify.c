/* SPDX-License-Identifier: MIT */
/* Notifications to the guest, and the provider's output, which becomes notifications. */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "vgb_fd.h"

#define TEXT_MAX 2048u /* bytes of text in one notification; longer output takes several */

/* Writes one record; the lock is held. False when there is no room. */
static bool push_locked(struct vgb_worker *w, uint16_t type, uint64_t cookie, const void *data,
                        uint32_t size, bool counted)
{
    const struct vgb_window *win = &w->win;
    uint64_t head = __atomic_load_n(&win->shared->notify_head, __ATOMIC_ACQUIRE);
    uint64_t used = w->notify_tail - head;
    uint32_t bytes = (uint32_t)sizeof(struct vgp_notify) + (counted ? 4 : 0) + size;
    uint32_t total = (bytes + 15) & ~15u;
    uint64_t pos = w->notify_tail & (win->notify_size - 1);
    uint64_t room = win->notify_size - pos;
    uint64_t pad = room < total ? room : 0;
    uint8_t *ring = win->base + win->notify_offset;

    /* A head beyond the tail is the guest's lie: it only loses its own notifications. */
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

bool vgb_notify(struct vgb_worker *w, enum vgp_notify_type type, uint64_t cookie, const void *text,
                uint32_t size, unsigned wait_ms)
{
    bool counted = type == VGP_NOTIFY_PRINT || type == VGP_NOTIFY_DETAIL;
    const struct timespec ms = {.tv_nsec = 1000000};
    bool done;

    if (size > TEXT_MAX)
        size = TEXT_MAX;
    for (;;) {
        pthread_mutex_lock(&w->notify_lock);
        done = push_locked(w, (uint16_t)type, cookie, text, size, counted);
        pthread_mutex_unlock(&w->notify_lock);
        if (done || !wait_ms--)
            break;
        vgb_wake_guest(w, true);
        nanosleep(&ms, NULL);
    }
    /* A print may wait for the next reply; a host function may be what everybody waits for. */
    if (done)
        vgb_wake_guest(w, type == VGP_NOTIFY_HOST_FUNC || type == VGP_NOTIFY_PRINT);
    return done;
}

void vgb_notify_detail(struct vgb_worker *w, const char *text)
{
    if (text && *text)
        vgb_notify(w, VGP_NOTIFY_DETAIL, 0, text, (uint32_t)strnlen(text, TEXT_MAX), 0);
}

static void print_to(struct vgb_worker *w, uint64_t where, const char *text, size_t len)
{
    while (len) {
        uint32_t n = len > TEXT_MAX ? TEXT_MAX : (uint32_t)len;

        /* Back-pressure, but bounded: a guest that never reads loses output, nothing else. */
        if (!vgb_notify(w, VGP_NOTIFY_PRINT, where, text, n, 200))
            w->lost_prints++;
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

static int output_fd = -1; /* read end of what the provider prints, non-blocking */
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static void drain(struct vgb_worker *w)
{
    char buf[TEXT_MAX];
    ssize_t n;

    pthread_mutex_lock(&output_lock);
    while ((n = read(output_fd, buf, sizeof(buf))) > 0 || (n < 0 && errno == EINTR)) {
        if (n > 0)
            print_sink(w, buf, (size_t)n);
    }
    pthread_mutex_unlock(&output_lock);
}

void vgb_notify_drain_output(struct vgb_worker *w)
{
    if (output_fd < 0)
        return;
    fflush(stdout); /* the rest of a line; may wait for the reader below, which needs no such lock */
    drain(w);
}

/* Keeps the pipe from filling up while the dispatcher is busy elsewhere. */
static void *output_reader(void *arg)
{
    struct pollfd p = {.fd = output_fd, .events = POLLIN};

    while (poll(&p, 1, -1) >= 0 || errno == EINTR) {
        if (p.revents & (POLLERR | POLLHUP))
            break;
        drain(arg);
    }
    return NULL;
}

/* NVIDIA's device printf goes to the process's standard output: make that a pipe to ourselves. */
static int capture_stdout(struct vgb_worker *w)
{
    pthread_t t;
    int p[2];

    if (pipe2(p, O_CLOEXEC))
        return -1;
    output_fd = p[0];
    if (!vgb_set_nonblock(p[0]) || dup2(p[1], 1) < 0 ||
        pthread_create(&t, NULL, output_reader, w)) {
        output_fd = -1;
        close(p[0]);
        close(p[1]);
        return -1;
    }
    close(p[1]);
    pthread_detach(t);
    setvbuf(stdout, NULL, _IOLBF, 0);
    return 0;
}

int vgb_notify_capture_output(struct vgb_worker *w)
{
    if (vgb_cu.set_print_sink) {
        vgb_cu.set_print_sink(print_sink, w);
        if (vgb_cu.set_error_sink)
            vgb_cu.set_error_sink(error_sink, w);
        return 0;
    }
    return capture_stdout(w);
}

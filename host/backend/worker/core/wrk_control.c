/* SPDX-License-Identifier: MIT */
/* Worker end of the private channel to the broker. Dispatcher only. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

void wrk_die(struct wrk_worker *w, unsigned reason, const char *fmt, ...)
{
    struct vgb_msg m = {.type = VGB_M_DEAD, .reason = reason};
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(m.text, sizeof(m.text), fmt, ap);
    va_end(ap);
    vgb_log(VGB_INFO, "client %s ends: %s", w->label, m.text);
    if (w->win.shared) {
        struct vgp_window_shared *s = w->win.shared;

        memcpy(s->dead_text, m.text, sizeof(s->dead_text));
        s->dead_reason = reason;
        __atomic_store_n(&s->worker_state, VGP_WORKER_DEAD, __ATOMIC_RELEASE);
        wrk_wake_guest(w, true);
    }
    vgb_msg_send(w->sock, &m, NULL, 0, MSG_DONTWAIT);
    _exit(reason == VGPU_DEAD_PROTOCOL ? 0 : 1);
}

static const struct wrk_control_ops *ops;

void wrk_control_init(const struct wrk_control_ops *o)
{
    ops = o;
}

static void control_answer(struct wrk_worker *w, const struct vgb_msg *m)
{
    if (vgb_msg_send(w->sock, m, NULL, 0, 0) < 0)
        _exit(1); /* the worker does not outlive the broker */
}

void wrk_control_unmapped(struct wrk_worker *w, uint32_t region, uint32_t status, uint64_t job)
{
    struct vgb_msg a = {.type = VGB_M_UNMAPPED, .region = region, .status = status, .value = job};

    control_answer(w, &a);
}

void wrk_control_busy(struct wrk_worker *w)
{
    bool busy = atomic_load(&w->waits.long_calls) != 0;
    struct vgb_msg m = {.type = VGB_M_BUSY, .status = busy};

    if (busy == atomic_load(&w->waits.said_busy))
        return;
    atomic_store(&w->waits.said_busy, busy);
    control_answer(w, &m);
}

void wrk_control_work(struct wrk_worker *w, uint32_t state, uint32_t number)
{
    struct vgb_msg m = {.type = VGB_M_WORK, .status = state, .flags = number};

    control_answer(w, &m);
}

/* Handles a message; true if it is the answer to a request, left to the caller. */
static bool handle_message(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    struct vgb_msg a;

    switch (m->type) {
    case VGB_M_MAP:
        if (ops->map(w, m, fds, nfds, &a))
            control_answer(w, &a);
        return false;
    case VGB_M_UNMAP:
        ops->unmap(w, m->region);
        break;
    case VGB_M_PLACED:
        if (ops->placed(w, m->region, &a))
            control_answer(w, &a);
        break;
    case VGB_M_TAKEN:
        ops->taken(w, m->region);
        break;
    case VGB_M_DOORBELL:
        /* Replaced in place: a waiter thread may be signalling it, and must not write to another
         * descriptor. */
        if (nfds == 1 && dup2(fds[0], w->doorbell) >= 0)
            fcntl(w->doorbell, F_SETFD, FD_CLOEXEC);
        break;
    case VGB_M_LIMITS:
        ops->limits(w, m->value, &m->limits);
        break;
    case VGB_M_TURN:
        ops->turn(w, m->status == 1, m->value, m->flags);
        break;
    case VGB_M_HOLDER_GONE:
        ops->holder_gone();
        break;
    case VGB_M_BLOBS_WANTED:
        w->blobs_wanted = true; /* deferred: this thread may be waiting for room itself */
        break;
    case VGB_M_GRANT:
    case VGB_M_USAGE:
        vgb_close_all(fds, nfds);
        return true;
    case VGB_M_SHARED:
    case VGB_M_IMAGE:
        return true; /* the requester takes the descriptor */
    default:
        break;
    }
    vgb_close_all(fds, nfds);
    return false;
}

/* Receives a message: 1; 0 = none now. Exits if the broker has ended. */
static int receive_message(struct wrk_worker *w, struct vgb_msg *m, int *fds, unsigned *nfds, int flags)
{
    *nfds = VGB_MSG_FDS;
    int r = vgb_msg_recv(w->sock, m, fds, nfds, flags);

    if (r == -EAGAIN)
        return 0;
    if (r != 1)
        _exit(0);
    return 1;
}

void wrk_control_poll(struct wrk_worker *w)
{
    struct vgb_msg m;
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    while (receive_message(w, &m, fds, &nfds, MSG_DONTWAIT))
        handle_message(w, &m, fds, nfds);
}

/* total: bytes wanted; least: bytes that suffice. Returns the grant's status and, in *why, its
 * reason. */
static bool control_reserve(struct wrk_worker *w, uint32_t kind, uint64_t total, uint64_t least,
                            uint64_t *reserved, uint32_t *why)
{
    struct vgb_msg m = {.type = VGB_M_RESERVE, .flags = kind, .value = total, .length = least};
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    control_answer(w, &m);
    do {
        receive_message(w, &m, fds, &nfds, 0);
    } while (!handle_message(w, &m, fds, nfds));
    *reserved = m.value;
    *why = m.reason;
    return m.status == VGPU_S_OK && m.value >= least;
}

bool wrk_control_reserve(struct wrk_worker *w, uint64_t total, uint64_t least, uint32_t *why)
{
    return control_reserve(w, VGB_RESERVE_DEVICE, total, least, &w->quota.reserved, why);
}

void wrk_control_report(struct wrk_worker *w, uint64_t total)
{
    uint32_t why;

    control_reserve(w, VGB_RESERVE_HELD, total, total, &w->quota.reserved, &why);
}

bool wrk_control_reserve_blobs(struct wrk_worker *w, uint64_t total, uint64_t least, uint64_t *granted)
{
    uint32_t why;

    return control_reserve(w, VGB_RESERVE_BLOBS, total, least, granted, &why);
}

void wrk_control_usage(struct wrk_worker *w, struct vgb_msg *m)
{
    struct vgb_msg ask = {.type = VGB_M_ASK_USAGE};
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    control_answer(w, &ask);
    do {
        receive_message(w, m, fds, &nfds, 0);
    } while (!handle_message(w, m, fds, nfds));
}

int wrk_control_share(struct wrk_worker *w, struct vgb_msg *m)
{
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    control_answer(w, m);
    do {
        receive_message(w, m, fds, &nfds, 0);
    } while (!handle_message(w, m, fds, nfds));
    if (nfds > 1)
        vgb_close_all(fds + 1, nfds - 1);
    return nfds ? fds[0] : -1;
}

int wrk_control_image(struct wrk_worker *w, const uint8_t *hash, uint64_t size, struct vgb_msg *m)
{
    *m = (struct vgb_msg){.type = VGB_M_IMAGE_ASK, .length = size};
    memcpy(m->image.hash, hash, VGB_IMAGE_HASH);
    return wrk_control_share(w, m);
}

void wrk_control_image_filled(struct wrk_worker *w, uint64_t number, bool complete)
{
    struct vgb_msg m = {.type = VGB_M_IMAGE_FILLED, .value = number, .status = !complete};

    control_answer(w, &m);
}

void wrk_control_drop(struct wrk_worker *w, const uint8_t *token)
{
    struct vgb_msg m = {.type = VGB_M_SHARE_DROP};

    memcpy(m.share.token, token, VGB_TOKEN);
    int fd = wrk_control_share(w, &m);

    vgb_close(&fd);
}

/* Maps only this client's slice of the window, at an address that reveals nothing. */
static bool map_window(struct wrk_worker *w, int fd, uint64_t offset, uint64_t length)
{
    void *at, *p;

    if (!wrk_window_plan(&w->win, length) || offset % VGP_PAGE)
        return false;
    at = ops->place(length);
    p = at ? mmap(at, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) : MAP_FAILED;
    if (p == MAP_FAILED)
        return false;
    w->win.base = p;
    w->win.shared = p;
    wrk_window_map_aliases(&w->win, ops->place(WRK_WINDOW_ALIASES * (size_t)VGP_PAGE), fd, offset);
    return true;
}

int wrk_control_wait_start(struct wrk_worker *w, struct vgb_msg *start)
{
    int fds[VGB_MSG_FDS];
    unsigned nfds;

    do {
        receive_message(w, start, fds, &nfds, 0);
        if (start->type != VGB_M_START)
            vgb_close_all(fds, nfds);
    } while (start->type != VGB_M_START);
    if (nfds < 2 || nfds > 3 || !map_window(w, fds[0], start->offset, start->length)) {
        vgb_log(VGB_ERROR, "cannot map the client window: %s", strerror(errno));
        return -1;
    }
    close(fds[0]);
    w->doorbell = fds[1];
    w->wake_fd = nfds == 3 ? fds[2] : -1;
    memcpy(w->label, start->text, sizeof(w->label) - 1);
    w->images = start->flags & VGB_START_IMAGES;
    return 0;
}

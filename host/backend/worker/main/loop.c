/* SPDX-License-Identifier: MIT */
/*
 * The dispatcher's loop: work, poll for a bounded and adaptive time, then sleep. Polling yields the
 * processor on every round: with no core to spare, a pure spin would hold up the very guest that it
 * waits for.
 */
#include "main.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

#define SPIN_MIN_NS 2000u
#define SPIN_MAX_NS 50000u
#define SPIN_WAITS_NS 100000u    /* while calls of ours are pending: short kernels end in this time */
#define CONTROL_EVERY_NS 200000u /* broker messages while the ring never runs dry */
#define RECORDS_PER_ROUND 32u

/* Executes what is in the ring; true when there was anything. */
static bool run_ring(struct wrk_worker *w)
{
    for (unsigned n = 0; n < RECORDS_PER_ROUND; n++) {
        switch (wrk_ring_next(&w->ring, &w->win)) {
        case WRK_RING_EMPTY:
            return n > 0;
        case WRK_RING_MALFORMED:
            wrk_die(w, VGPU_DEAD_PROTOCOL, "malformed ring: %s", w->ring.error);
        case WRK_RING_RECORD:
            wrk_dispatch_one(w);
        }
    }
    return true;
}

/* Polls until something is in the ring (true) or the budget is spent. */
static bool spin(struct wrk_worker *w)
{
    uint64_t start = vgb_now_ns();

    for (;;) {
        bool waits = w->waits.polled != NULL && wrk_waits_poll(w);

        wrk_waits_land(w);
        uint64_t budget = waits && w->spin_ns < SPIN_WAITS_NS ? SPIN_WAITS_NS : w->spin_ns;

        for (int i = 0; i < 16; i++) {
            if (wrk_ring_pending(&w->ring, &w->win))
                return true;
            __builtin_ia32_pause();
        }
        if (vgb_now_ns() - start >= budget)
            return false;
        sched_yield();
    }
}

static void sleep_until_rung(struct wrk_worker *w)
{
    struct vgp_window_shared *s = w->win.shared;
    struct pollfd p[2] = {{.fd = w->doorbell, .events = POLLIN}, {.fd = w->sock, .events = POLLIN}};

    __atomic_store_n(&s->worker_state, VGP_WORKER_IDLE, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the producer's, see vgp_ring.h */
    if (!wrk_ring_pending(&w->ring, &w->win)) {
        if (poll(p, 2, -1) < 0 && errno != EINTR)
            wrk_die(w, VGPU_DEAD_EXITED, "the worker cannot wait for its doorbell");
    }
    __atomic_store_n(&s->worker_state, VGP_WORKER_RUNNING, __ATOMIC_RELAXED);
    if (p[0].revents)
        vgb_eventfd_clear(w->doorbell);
    if (p[1].revents)
        wrk_control_poll(w);
}

void wrk_loop(struct wrk_worker *w)
{
    uint64_t control_at = 0, slept_at = 0;

    w->spin_ns = SPIN_MAX_NS;
    for (;;) {
        if (run_ring(w)) {
            if (w->waits.polled)
                wrk_waits_poll(w);
            wrk_waits_land(w);
            uint64_t now = vgb_now_ns();
            if (now - control_at > CONTROL_EVERY_NS) {
                control_at = now;
                wrk_control_busy(w); /* before answers that come too late are missed */
                wrk_control_poll(w);
                wrk_async_error_retry(w);
            }
            continue;
        }
        if (spin(w))
            continue;
        wrk_waits_hand_over(w);
        wrk_async_error_retry(w);
        wrk_share_flush(w);
        wrk_control_busy(w);
        wrk_quota_trim(w);
        /* This much polling found nothing: less next time. A short sleep: more. */
        if (w->spin_ns > SPIN_MIN_NS)
            w->spin_ns /= 2;
        slept_at = vgb_now_ns();
        sleep_until_rung(w);
        if (vgb_now_ns() - slept_at < 2 * SPIN_MAX_NS) {
            w->spin_ns = w->spin_ns * 4 + SPIN_MIN_NS;
            if (w->spin_ns > SPIN_MAX_NS)
                w->spin_ns = SPIN_MAX_NS;
        }
    }
}

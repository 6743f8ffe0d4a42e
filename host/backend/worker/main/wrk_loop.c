/* SPDX-License-Identifier: MIT */
/*
 * Dispatcher loop: work, poll for a bounded, adaptive time, then sleep. Polling yields the
 * processor in every round: without a spare core, a pure spin would delay the guest that it waits
 * for.
 */
#define _GNU_SOURCE
#include "main.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "place.h"
#include "vgb_fd.h"
#include "vgpu_device.h"

#define SPIN_MIN_NS 2000u
#define SPIN_MAX_NS 50000u
#define SPIN_WAITS_NS 100000u    /* while calls are pending: covers short kernels */
#define CONTROL_EVERY_NS 200000u /* interval of broker messages while the ring is busy */
#define RECORDS_PER_ROUND 32u
#define WATCHES_EVERY_NS 5000u /* interval of polling watches while the ring is not empty */

/* Executes the record taken last if allowed now: a client beyond its bounds or without a turn
 * waits. */
static bool run_one(struct wrk_worker *w)
{
    const struct vgp_dispatch *row = vgp_dispatch_row(w->ring.rec.call);

    w->holds = row && !wrk_flow_may(w, w->ring.rec.call, row->flags);
    if (!w->holds)
        wrk_dispatch_one(w);
    return !w->holds;
}

/* Executes the records in the ring; true if there were any. */
static bool run_ring(struct wrk_worker *w)
{
    if (w->holds && !run_one(w))
        return false;
    for (unsigned n = 0; n < RECORDS_PER_ROUND; n++) {
        switch (wrk_ring_next(&w->ring, &w->win)) {
        case WRK_RING_EMPTY:
            return n > 0;
        case WRK_RING_MALFORMED:
            wrk_die(w, VGPU_DEAD_PROTOCOL, "malformed ring: %s", w->ring.error);
        case WRK_RING_RECORD:
            if (!run_one(w))
                return n > 0;
        }
    }
    return true;
}

/* Polls until the ring is non-empty (true) or the budget is spent; not if no processor is free
 * (lib/poll/poll.h). */
static bool spin_for_work(struct wrk_worker *w)
{
    static struct wrk_place place;
    uint64_t start = vgb_now_ns(), now = start, took = 0;

    if (!pol_may(&w->poll, start))
        return false;
    for (;;) {
        bool waits = w->waits.polled != NULL && wrk_waits_poll(w);

        wrk_waits_land(w);
        if (wrk_watches && wrk_watches_poll(w, vgb_now_ns()))
            waits = true;
        uint64_t budget = pol_budget(&w->poll);

        if (waits && budget < SPIN_WAITS_NS)
            budget = SPIN_WAITS_NS;
        for (int i = 0; i < 16; i++) {
            if (wrk_ring_pending(&w->ring, &w->win)) {
                /* The client has yet to be scheduled there: do not sleep before. */
                if (wrk_place_yielded(&place, now, i ? 0 : took, true))
                    pol_refill(&w->poll);
                pol_hit(&w->poll, now - start);
                return true;
            }
            __builtin_ia32_pause();
        }
        uint64_t before = vgb_now_ns();
        if (before - start >= budget) {
            pol_vain(&w->poll, before - start);
            return false;
        }
        sched_yield();
        now = vgb_now_ns();
        took = now - before;
        wrk_place_yielded(&place, now, took, false);
        if (pol_lost(&w->poll, before, now))
            return wrk_ring_pending(&w->ring, &w->win);
    }
}

static int rest_in_poll(struct pollfd p[2], uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};

    int n;

    wrk_stall_rests();
    n = ppoll(p, 2, ns == UINT64_MAX ? NULL : &t, NULL);
    wrk_stall_rests();
    return n;
}

static void loop_hear_broker(struct wrk_worker *w)
{
    wrk_control_poll(w);
    wrk_quota_report(w);
}

/* The record taken must wait for work in flight to end, or for the broker. */
static void sleep_with_record(struct wrk_worker *w)
{
    struct pollfd p[2] = {{.fd = w->doorbell, .events = POLLIN}, {.fd = w->sock, .events = POLLIN}};

    if (rest_in_poll(p, wrk_flow_patience(w)) < 0 && errno != EINTR)
        wrk_die(w, VGPU_DEAD_EXITED, "the worker cannot wait for its broker");
    if (p[0].revents)
        vgb_eventfd_clear(w->doorbell);
    if (p[1].revents)
        loop_hear_broker(w);
}

static void sleep_until_rung(struct wrk_worker *w)
{
    struct vgp_window_shared *s = w->win.shared;
    struct pollfd p[2] = {{.fd = w->doorbell, .events = POLLIN}, {.fd = w->sock, .events = POLLIN}};

    __atomic_store_n(&s->worker_state, VGP_WORKER_IDLE, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* pairs with the producer's, see vgp_ring.h */
    if (!wrk_ring_pending(&w->ring, &w->win)) {
        if (rest_in_poll(p, wrk_flow_patience(w)) < 0 && errno != EINTR)
            wrk_die(w, VGPU_DEAD_EXITED, "the worker cannot wait for its doorbell");
    }
    __atomic_store_n(&s->worker_state, VGP_WORKER_RUNNING, __ATOMIC_RELAXED);
    if (p[0].revents)
        vgb_eventfd_clear(w->doorbell);
    if (p[1].revents)
        loop_hear_broker(w);
}

void wrk_loop(struct wrk_worker *w)
{
    uint64_t control_at = 0, slept_at = 0;

    pol_init(&w->poll, SPIN_MIN_NS, SPIN_MAX_NS);
    pol_force(&w->poll, getenv("VGPU_TEST_POLL"));
    wrk_stall_watch(w);
    for (;;) {
        wrk_stall_round();
        if (run_ring(w)) {
            if (w->waits.polled)
                wrk_waits_poll(w);
            wrk_waits_land(w);
            uint64_t now = vgb_now_ns();
            if (now - control_at > CONTROL_EVERY_NS) {
                control_at = now;
                wrk_control_busy(w); /* before late answers are missed */
                loop_hear_broker(w);
                wrk_async_error_retry(w);
                wrk_blobs_make_room(w, now);
            }
            if (wrk_watches && now - wrk_watched_ns > WATCHES_EVERY_NS)
                wrk_watches_poll(w, now);
            wrk_flow_look(w, false);
            continue;
        }
        if (!w->holds && spin_for_work(w))
            continue;
        wrk_watches_end(w);
        wrk_async_error_retry(w);
        wrk_share_flush(w);
        wrk_control_busy(w);
        wrk_quota_trim(w);
        wrk_blobs_make_room(w, vgb_now_ns());
        wrk_waits_land(w);
        wrk_flow_look(w, true);
        /* last: a landed wait may have started another, which would not be polled during sleep */
        wrk_waits_hand_over(w);
        if (w->holds) {
            sleep_with_record(w);
            continue;
        }
        /* Poll less after a fruitless poll, more after a short sleep. */
        slept_at = vgb_now_ns();
        sleep_until_rung(w);
        if (vgb_now_ns() - slept_at < 2 * SPIN_MAX_NS)
            pol_more(&w->poll);
    }
}

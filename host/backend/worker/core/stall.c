/* SPDX-License-Identifier: MIT */
/*
 * The time limit while the dispatcher is held. Where a provider makes a call wait for earlier work (its queue of a stream is
 * full, a copy finds no room to be put aside, a stream has no thread of its own), the dispatcher waits with it and does not come to
 * wrk_flow_look(). A thread therefore looks at the dispatcher's rounds: while there is none, and no operation ends, the
 * limit holds all the same.
 *
 * Only with a provider that counts its operations (sg_operations()). With a driver, fewer calls are let through than its queue of
 * a stream has room for.
 */
#include "core.h"
#include "vgb_fd.h"
#include "vgpu_device.h"

#include <time.h>

#include "vgp_worker.h"

#define LOOK_NS 250000000u /* ns between two looks */
#define DRIVER_QUEUE 512u  /* calls; NVIDIA's driver has a launch wait behind some 1024 */

/* Odd: the dispatcher is at work. It grows with each round, so that the same odd number means the same round. */
static _Atomic uint64_t rounds = 1;

void wrk_stall_round(void)
{
    atomic_store_explicit(&rounds, atomic_load_explicit(&rounds, memory_order_relaxed) + 2,
                          memory_order_relaxed);
}

void wrk_stall_rests(void)
{
    atomic_store_explicit(&rounds, atomic_load_explicit(&rounds, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

bool wrk_stall_look(struct wrk_stall *s, uint64_t round, uint64_t now, uint64_t most_ns)
{
    uint64_t issued, ended;
    const uint64_t gap = s->looked_ns && now > s->looked_ns ? now - s->looked_ns : 0;

    wrk_provider.sg_operations(&issued, &ended);
    if (!s->looked_ns || round != s->round || ended != s->ended || !(round & 1) || issued == ended)
        s->since_ns = now;
    else if (gap > 2 * (uint64_t)LOOK_NS) /* the process was stopped or had no processor */
        s->since_ns += gap - LOOK_NS;
    s->looked_ns = now;
    s->round = round;
    s->ended = ended;
    return most_ns && now > s->since_ns && now - s->since_ns > most_ns;
}

uint64_t wrk_stall_queue(void)
{
    const uint64_t most = wrk_client_limits.queue;

    if (!wrk_client_limits.time_s || wrk_provider.sg_operations)
        return most;
    return most && most < DRIVER_QUEUE ? most : DRIVER_QUEUE;
}

static void *watch_dispatcher(void *arg)
{
    const struct timespec nap = {.tv_nsec = LOOK_NS};
    struct wrk_stall s = {0};

    for (;;) {
        const unsigned most = __atomic_load_n(&wrk_client_limits.time_s, __ATOMIC_RELAXED);

        if (wrk_stall_look(&s, atomic_load(&rounds), vgb_now_ns(), (uint64_t)most * 1000000000u)) {
            wrk_limit_hit("seconds without an end of any work", most, "--client-time-limit");
            wrk_die(arg, VGPU_DEAD_KILLED, "none of its work has ended for %u s (--client-time-limit)", most);
        }
        nanosleep(&nap, NULL);
    }
    return NULL;
}

void wrk_stall_watch(struct wrk_worker *w)
{
    static bool watched;
    pthread_t t;

    if (watched || !wrk_client_limits.time_s || !wrk_provider.sg_operations ||
        pthread_create(&t, NULL, watch_dispatcher, w))
        return;
    pthread_detach(t);
    watched = true;
}

/* SPDX-License-Identifier: MIT */
/*
 * The processor time of one call that compiles or links. Such a call cannot be ended, so the client is. A thread looks
 * at the clocks of those under way while there are any: the dispatcher may be the one that compiles.
 */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include <linux/types.h>

#include "vgpu_device.h"

#define LOOK_MS 200

static struct under_way {
    clockid_t clock;
    uint64_t from_ns;
    pthread_t thread;
    bool used;
} under_way[WRK_WAITERS_MAX + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static unsigned count;
static bool watched;

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;

    return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void look(struct wrk_worker *w)
{
    uint64_t most = __atomic_load_n(&wrk_client_limits.compile_s, __ATOMIC_RELAXED);
    bool over = false;

    for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
        const struct under_way *u = &under_way[i];

        over |= u->used && most && read_clock(u->clock) > u->from_ns + most * 1000000000u;
    }
    if (!over)
        return;
    wrk_limit_hit("seconds for one compilation", most, "--client-compile-time");
    wrk_die(w, VGPU_DEAD_KILLED,
            "a compilation took more than %llu s of processor time (--client-compile-time)",
            (unsigned long long)most);
}

static void *watch(void *arg)
{
    pthread_mutex_lock(&lock);
    for (;;) {
        struct timespec until;

        while (!count)
            pthread_cond_wait(&begun, &lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&begun, &lock, &until);
        look(arg);
    }
    return NULL;
}

void wrk_compile_begin(struct wrk_worker *w)
{
    pthread_t t;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
        struct under_way *u = &under_way[i];

        if (u->used || pthread_getcpuclockid(pthread_self(), &u->clock))
            continue;
        u->thread = pthread_self();
        u->from_ns = read_clock(u->clock);
        u->used = true;
        count++;
        break;
    }
    if (!watched && !pthread_create(&t, NULL, watch, w)) {
        pthread_detach(t);
        watched = true;
    }
    if (count == 1)
        pthread_cond_signal(&begun);
    pthread_mutex_unlock(&lock);
}

void wrk_compile_end(void)
{
    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
        if (!under_way[i].used || !pthread_equal(under_way[i].thread, pthread_self()))
            continue;
        under_way[i].used = false;
        count--;
    }
    pthread_mutex_unlock(&lock);
}

const char *wrk_image_refused(uint64_t bytes)
{
    static char why[100];

    if (!wrk_client_limits.image || bytes <= wrk_client_limits.image)
        return NULL;
    wrk_limit_hit("bytes of an image", wrk_client_limits.image, "--client-image");
    snprintf(why, sizeof(why), "the image has %llu bytes: the limit is --client-image",
             (unsigned long long)bytes);
    return why;
}

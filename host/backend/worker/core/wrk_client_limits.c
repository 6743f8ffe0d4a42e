/* SPDX-License-Identifier: MIT */
/* Limits of a client on host resources: memory, threads, handles, streams, the printf buffer. Set
 * by options of the broker; each error names the option, in the broker's log and to the guest. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <linux/types.h>

#include "vgp_worker.h"
#include "vgpu_device.h"

/* Remaining bytes below which an out-of-memory error is attributed to the limit. */
#define MEMORY_TRIAL (UINT64_C(32) << 20)

struct vgb_limits wrk_client_limits;

static struct wrk_worker *self;
static struct vgb_ratelimit lines;

void wrk_limit_hit(const char *what, uint64_t limit, const char *option)
{
    char text[200];

    if (!vgb_ratelimit_take(&lines, vgb_now_ns()))
        return;
    snprintf(text, sizeof(text), "%s: the limit of %llu is met (vgpu-backend %s)", what,
             (unsigned long long)limit, option);
    vgb_log(VGB_WARN, "client %s: %s", self ? self->label : "", text);
    if (self)
        wrk_notify_detail(self, text);
}

/* ---- memory ---- */

/* Private writable memory now: data and stacks, as the kernel counts it for RLIMIT_DATA. */
static uint64_t data_now(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    if (!f)
        return UINT64_MAX;
    if (fscanf(f, "%*u %*u %*u %*u %*u %lu", &pages) != 1)
        pages = 0;
    fclose(f);
    return pages ? (uint64_t)pages * VGP_PAGE : UINT64_MAX;
}

static void limit_memory(uint64_t bytes)
{
    uint64_t now = data_now(), limit;
    struct rlimit r;

    /* Excludes device memory already reserved by the software GPU, which has its own quota. */
    if (!bytes || __builtin_add_overflow(now, bytes, &limit))
        return;
    r.rlim_cur = r.rlim_max = limit;
    if (now == UINT64_MAX || setrlimit(RLIMIT_DATA, &r))
        vgb_log(VGB_WARN, "the memory of a worker is not limited: %s", strerror(errno));
}

/* The provider does not report which memory was short: try an allocation of some size. */
void wrk_limits_look_at_memory(void)
{
    void *p;

    if (!wrk_client_limits.memory)
        return;
    p = mmap(NULL, MEMORY_TRIAL, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        wrk_limit_hit("bytes of host memory", wrk_client_limits.memory, "--client-memory");
    else
        munmap(p, MEMORY_TRIAL);
}

/* ---- threads ---- */

static bool thread_allowed(unsigned n)
{
    unsigned most = __atomic_load_n(&wrk_client_limits.threads, __ATOMIC_RELAXED);

    if (!most || n <= most)
        return true;
    wrk_limit_hit("threads", most, "--client-threads");
    return false;
}

__attribute__((constructor)) static void limit_threads(void)
{
    wrk_thread_allowed = thread_allowed;
}

/* ---- printf of kernels ---- */

static const struct vgp_provider *lower; /* functions below this filter */

static CUresult CUDAAPI capped_set_limit(CUlimit limit, size_t value)
{
    if (limit == CU_LIMIT_PRINTF_FIFO_SIZE && wrk_client_limits.printf_fifo &&
        value > wrk_client_limits.printf_fifo) {
        wrk_limit_hit("bytes for printf", wrk_client_limits.printf_fifo, "--client-printf");
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return lower->cuCtxSetLimit(limit, value);
}

void wrk_limits_filter(struct wrk_worker *w, struct vgp_provider *table, const struct vgp_provider *below)
{
    (void)w;
    lower = below;
    if (lower->cuCtxSetLimit)
        table->cuCtxSetLimit = capped_set_limit;
}

/*
 * ---- compilers: the processor time of one call that compiles or links ----
 *
 * Such a call cannot be ended, so the client is. A thread looks at the clocks of those under way while there are any:
 * the dispatcher may be the one that compiles.
 */

#define LOOK_MS 200

static struct under_way {
    clockid_t clock;
    uint64_t from_ns;
    pthread_t thread;
    bool used;
} under_way[WRK_WAITERS_MAX + 1];
static pthread_mutex_t compile_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t begun = PTHREAD_COND_INITIALIZER;
static unsigned compiles;
static bool watched, dozing; /* the watching thread: exists; waits without a deadline */

static uint64_t read_clock(clockid_t clock)
{
    struct timespec t;

    return clock_gettime(clock, &t) ? 0 : (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void look_at_compilers(struct wrk_worker *w)
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

static void *client_limits_watch(void *arg)
{
    pthread_mutex_lock(&compile_lock);
    for (;;) {
        struct timespec until;

        dozing = !compiles;
        while (dozing) /* the compilation may have ended when this thread runs: it stays awake all the same */
            pthread_cond_wait(&begun, &compile_lock);
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_MS * 1000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&begun, &compile_lock, &until);
        look_at_compilers(arg);
    }
    return NULL;
}

void wrk_compile_begin(struct wrk_worker *w)
{
    pthread_t t;

    pthread_mutex_lock(&compile_lock);
    for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
        struct under_way *u = &under_way[i];

        if (u->used || pthread_getcpuclockid(pthread_self(), &u->clock))
            continue;
        u->thread = pthread_self();
        u->from_ns = read_clock(u->clock);
        u->used = true;
        compiles++;
        break;
    }
    if (!watched && !pthread_create(&t, NULL, client_limits_watch, w)) {
        pthread_detach(t);
        watched = true;
    }
    /* Otherwise it looks within LOOK_MS anyway: short compilations in a row wake it once in that time, not each. */
    if (dozing)
        pthread_cond_signal(&begun);
    dozing = false;
    pthread_mutex_unlock(&compile_lock);
}

void wrk_compile_end(void)
{
    pthread_mutex_lock(&compile_lock);
    for (unsigned i = 0; i < sizeof(under_way) / sizeof(under_way[0]); i++) {
        if (!under_way[i].used || !pthread_equal(under_way[i].thread, pthread_self()))
            continue;
        under_way[i].used = false;
        compiles--;
    }
    pthread_mutex_unlock(&compile_lock);
}

/*
 * ---- the time limit while the dispatcher is held ----
 *
 * Where a provider makes a call wait for earlier work (its queue of a stream is full, a copy finds no room to be put
 * aside, a stream has no thread of its own), the dispatcher waits with it and does not come to wrk_flow_look(). A thread
 * therefore looks at the dispatcher's rounds: while there is none, and no operation ends, the limit holds all the same.
 *
 * Only with a provider that counts its operations (sg_operations()). With a driver, fewer calls are let through than its
 * queue of a stream has room for.
 */

#define STALL_LOOK_NS 250000000u /* ns between two looks */
#define DRIVER_QUEUE 512u        /* calls; NVIDIA's driver has a launch wait behind some 1024 */

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

/* For the dispatcher, which has gaps of its own: it may be in a long call. */
static _Atomic uint64_t stopped_ns, seen_ns;

static uint64_t stop_in_gap(uint64_t gap)
{
    return gap > 2 * (uint64_t)STALL_LOOK_NS ? gap - STALL_LOOK_NS : 0;
}

bool wrk_stall_stopped(uint64_t now, uint64_t *ns)
{
    const uint64_t seen = atomic_load(&seen_ns);

    /* The dispatcher may run before the watching thread does. */
    *ns = atomic_load(&stopped_ns) + (now > seen ? stop_in_gap(now - seen) : 0);
    return seen != 0;
}

bool wrk_stall_look(struct wrk_stall *s, uint64_t round, uint64_t now, uint64_t most_ns)
{
    uint64_t issued = 0, ended = 0;
    /* the process was stopped or had no processor */
    const uint64_t stopped = s->looked_ns && now > s->looked_ns ? stop_in_gap(now - s->looked_ns) : 0;

    atomic_store(&stopped_ns, atomic_load(&stopped_ns) + stopped);
    atomic_store(&seen_ns, now);
    if (wrk_provider.sg_operations)
        wrk_provider.sg_operations(&issued, &ended);
    if (!s->looked_ns || round != s->round || ended != s->ended || !(round & 1) || issued == ended)
        s->since_ns = now;
    else
        s->since_ns += stopped;
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
    const struct timespec nap = {.tv_nsec = STALL_LOOK_NS};
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
    static bool started;
    pthread_t t;

    if (started || !wrk_client_limits.time_s || pthread_create(&t, NULL, watch_dispatcher, w))
        return;
    pthread_detach(t);
    started = true;
}

/* ---- images ---- */

const char *wrk_image_refused(uint64_t bytes)
{
    static char why[160];

    if (!wrk_client_limits.image || bytes <= wrk_client_limits.image)
        return NULL;
    wrk_limit_hit("bytes of an image", wrk_client_limits.image, "--client-image");
    snprintf(why, sizeof(why),
             "the image has %llu bytes: the limit of %llu is met (vgpu-backend --client-image)",
             (unsigned long long)bytes, (unsigned long long)wrk_client_limits.image);
    return why;
}

/* ---- handles ---- */

bool wrk_limits_unnamed(const struct wrk_handles *t)
{
    if (wrk_client_limits.handles && t->live_all + t->unnamed + t->kept >= wrk_client_limits.handles) {
        wrk_limit_hit("objects", wrk_client_limits.handles, "--client-handles");
        return false;
    }
    return true;
}

bool wrk_limits_stream(const struct wrk_handles *t)
{
    const uint64_t streams = (uint64_t)t->live[VGP_H_STREAM] + t->thread_streams;

    if (!wrk_limits_unnamed(t))
        return false;
    if (wrk_client_limits.streams && streams >= wrk_client_limits.streams) {
        wrk_limit_hit("streams", wrk_client_limits.streams, "--client-streams");
        return false;
    }
    return true;
}

bool wrk_limits_handle(const struct wrk_handles *t, unsigned type)
{
    return type == VGP_H_STREAM ? wrk_limits_stream(t) : wrk_limits_unnamed(t);
}

/* The broker itself changes the memory limit by prlimit(2). */
void wrk_limits_change(const struct vgb_limits *l)
{
    wrk_client_limits.memory = l->memory;
    wrk_client_limits.blobs = l->blobs;
    wrk_client_limits.printf_fifo = l->printf_fifo;
    __atomic_store_n(&wrk_client_limits.threads, l->threads, __ATOMIC_RELAXED);
    wrk_client_limits.streams = l->streams;
    wrk_client_limits.handles = l->handles;
    wrk_client_limits.image = l->image;
    wrk_client_limits.queue = l->queue;
    __atomic_store_n(&wrk_client_limits.time_s, l->time_s,
                     __ATOMIC_RELAXED); /* the watching thread reads it */
    __atomic_store_n(&wrk_client_limits.compile_s, l->compile_s, __ATOMIC_RELAXED);
}

void wrk_limits_set(struct wrk_worker *w, const struct vgb_limits *l)
{
    self = w;
    wrk_client_limits = *l;
    limit_memory(l->memory);
}

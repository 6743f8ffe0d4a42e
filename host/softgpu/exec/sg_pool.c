/* SPDX-License-Identifier: MIT */
/*
 * Launches: a pool of threads and the calling thread take blocks in ascending order; exec/sg_block.c
 * runs them.
 */
#define _GNU_SOURCE
#include "exec/run.h"
#include "exec/code.h"
#include "exec/profile.h"
#include "lib/poll/poll.h"
#include "memory/grace.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#define MAX_THREADS 256
#define SPIN_NS 50000   /* ns that an idle thread polls for work: waking costs as much */
#define PART_NS 1000000 /* between two attempts to get another processor */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t work, done;
    struct sg_run *runs;
    uint32_t want, started;
    uint32_t idle;     /* threads that wait for work */
    uint32_t spinning; /* idle threads that poll `posted` and need not be woken */
    uint32_t reserved; /* idle threads reserved by cooperative launches that have begun */
    uint32_t posted;   /* atomic: number of launches with work for other threads */
    bool may_spin;     /* each thread has a processor */
    bool relaxed;
} pool = {
    .lock = PTHREAD_MUTEX_INITIALIZER, .work = PTHREAD_COND_INITIALIZER, .done = PTHREAD_COND_INITIALIZER};

void sg_exec_set_threads(unsigned n)
{
    cpu_set_t may;

    if (!n) { /* queried only in this case: it reads a file, which a sandbox may forbid later */
        long online = sysconf(_SC_NPROCESSORS_ONLN);

        n = online > 0 ? (unsigned)online : 1;
    }
    pthread_mutex_lock(&pool.lock);
    pool.want = n > MAX_THREADS ? MAX_THREADS : n;
    pool.may_spin = !sched_getaffinity(0, sizeof(may), &may) && (unsigned)CPU_COUNT(&may) >= n;
    pthread_mutex_unlock(&pool.lock);
}

void sg_exec_set_relaxed(bool relaxed)
{
    pthread_mutex_lock(&pool.lock);
    pool.relaxed = relaxed;
    pthread_mutex_unlock(&pool.lock);
}

void sg_exec_prepare(void)
{
    sg_profile_open();
    sg_windows_init(); /* before any client data lies in these ranges */
}

/* Runs blocks on the calling thread until none is left. worker: its number, from 0, below run->nworkers. */
static void run_part(struct sg_run *run, uint32_t worker)
{
    const uint64_t begin = sg_profile_on() ? sg_profile_cpu() : 0;
#if defined(__x86_64__)
    const unsigned save = _mm_getcsr(); /* once for all blocks: it waits for pending operations */

    _mm_setcsr(run->code->mxcsr);
#endif
    sg_grace_enter();
    if (run->l->cooperative || run->cluster_size > 1)
        sg_run_together(run, worker);
    else
        sg_run_apart(run, worker);
    sg_grace_leave();
#if defined(__x86_64__)
    _mm_setcsr(save);
#endif
    if (begin)
        __atomic_fetch_add(&run->cpu_ns, sg_profile_cpu() - begin, __ATOMIC_RELAXED);
    sg_arena_trim();
}

/* ---- the pool ---- */

/*
 * Finds work for the calling thread. A cooperative launch has reserved its threads, because its
 * blocks wait for each other: it must not depend on a thread that another kernel keeps for ever.
 */
static struct sg_run *pool_find(uint32_t *worker)
{
    for (struct sg_run *r = pool.runs; r; r = r->link) {
        if (r->joined == r->nworkers || __atomic_load_n(&r->stop, __ATOMIC_RELAXED))
            continue;
        if (r->l->cooperative)
            pool.reserved--;
        else if (__atomic_load_n(&r->next, __ATOMIC_RELAXED) >= r->total || pool.idle <= pool.reserved)
            continue;
        *worker = r->joined; /* written under the lock, read without it: run_all() */
        __atomic_store_n(&r->joined, r->joined + 1, __ATOMIC_RELAXED);
        __atomic_store_n(&r->active, r->active + 1, __ATOMIC_RELAXED);
        pool.idle--;
        return r;
    }
    return NULL;
}

/* Shared by all threads of the pool that wait for work. */
static struct pol_policy pool_poll = {.min_ns = SPIN_NS, .max_ns = SPIN_NS};

/*
 * Polls until *word differs from `is`, for SPIN_NS at most, and only if a processor is free.
 * Kernels of a model follow each other within microseconds, and waking a sleeping thread takes as
 * long. Yields to other runnable threads.
 */
static void spin_while(const uint32_t *word, uint32_t is)
{
    const uint64_t begin = sg_profile_now();
    uint64_t before = begin, now = begin;

    if (!pol_may(&pool_poll, begin))
        return;
    for (unsigned i = 1; __atomic_load_n(word, __ATOMIC_ACQUIRE) == is; i++) {
#if defined(__x86_64__)
        _mm_pause();
#endif
        if (i % 64)
            continue;
        sched_yield();
        now = sg_profile_now();
        if (pol_lost(&pool_poll, before, now))
            return;
        if (now - begin > SPIN_NS) {
            pol_vain(&pool_poll, now - begin);
            return;
        }
        before = now;
    }
    pol_hit(&pool_poll, now - begin);
}

static void *pool_thread(void *arg)
{
    bool spun = true;

    (void)arg;
    pthread_mutex_lock(&pool.lock);
    for (;;) {
        const uint32_t posted = pool.posted;
        uint32_t worker;
        struct sg_run *r = pool_find(&worker);

        if (!r && (spun || !pool.may_spin)) {
            pthread_cond_wait(&pool.work, &pool.lock);
            continue;
        }
        if (!r) {
            pool.spinning++;
            pthread_mutex_unlock(&pool.lock);
            spin_while(&pool.posted, posted);
            pthread_mutex_lock(&pool.lock);
            pool.spinning--;
            spun = true;
            continue;
        }
        pthread_mutex_unlock(&pool.lock);
        run_part(r, worker);
        pthread_mutex_lock(&pool.lock);
        pool.idle++;
        spun = false;
        __atomic_store_n(&r->active, r->active - 1, __ATOMIC_RELAXED);
        if (!r->active)
            pthread_cond_broadcast(&pool.done);
    }
    return NULL;
}

static void pool_grow(uint32_t n)
{
    while (pool.started < n) {
        pthread_attr_t a;
        pthread_t t;

        pthread_attr_init(&a);
        pthread_attr_setdetachstate(&a, PTHREAD_CREATE_DETACHED);
        if (pthread_create(&t, &a, pool_thread, NULL)) {
            pthread_attr_destroy(&a);
            return;
        }
        pthread_attr_destroy(&a);
        pool.started++;
        pool.idle++;
    }
}

/*
 * A thread was polling for work but none joined: it waits for the processor of this thread. The
 * kernel's load balancing separates them after milliseconds; requesting another processor does so
 * at once. Done rarely, as there may be no free processor.
 */
static void separate_threads(void)
{
    static int64_t last; /* atomic */
    const int64_t now = (int64_t)sg_profile_now();
    cpu_set_t all, others;

    if (now - __atomic_load_n(&last, __ATOMIC_RELAXED) < PART_NS)
        return;
    __atomic_store_n(&last, now, __ATOMIC_RELAXED);
    if (sched_getaffinity(0, sizeof(all), &all))
        return;
    others = all;
    CPU_CLR((unsigned)sched_getcpu(), &others);
    if (CPU_COUNT(&others) && !sched_setaffinity(0, sizeof(others), &others))
        sched_setaffinity(0, sizeof(all), &all);
}

static void run_all(struct sg_run *run)
{
    bool awaited = false;
    struct sg_run **p;

    pthread_mutex_lock(&pool.lock);
    if (!pool.want) {
        pthread_mutex_unlock(&pool.lock);
        sg_exec_set_threads(0);
        pthread_mutex_lock(&pool.lock);
    }
    run->nsm = pool.want;
    run->nworkers = pool.want < run->total ? pool.want : (uint32_t)run->total;
    if (run->l->sms && run->nworkers > run->l->sms->count)
        run->nworkers = run->l->sms->count;
    if (run->code->ordered && !pool.relaxed)
        run->nworkers = 1; /* runs blocks one after the other, so sums are reproducible */
    pool_grow(run->nworkers - 1);
    if (run->nworkers > pool.started + 1)
        run->nworkers = pool.started + 1;
    run->joined = 1;
    if (run->l->cooperative) {
        const uint32_t left = pool.idle > pool.reserved ? pool.idle - pool.reserved : 0;

        if (run->nworkers > 1 + left)
            run->nworkers = 1 + left;
        pool.reserved += run->nworkers - 1;
    }
    if (run->nworkers > 1) {
        for (p = &pool.runs; *p; p = &(*p)->link)
            ;
        *p = run;
        __atomic_store_n(&pool.posted, pool.posted + 1, __ATOMIC_RELEASE);
        if (run->l->cooperative || run->nworkers - 1 > pool.spinning + 1)
            pthread_cond_broadcast(&pool.work);
        else if (run->nworkers - 1 > pool.spinning)
            pthread_cond_signal(&pool.work);
        awaited = pool.spinning > 0;
    }
    pthread_mutex_unlock(&pool.lock);
    run_part(run, 0);
    if (run->nworkers <= 1)
        return;
    if (awaited && __atomic_load_n(&run->joined, __ATOMIC_RELAXED) == 1)
        separate_threads();
    for (uint32_t n; pool.may_spin && (n = __atomic_load_n(&run->active, __ATOMIC_RELAXED)) != 0;) {
        spin_while(&run->active, n);
        if (__atomic_load_n(&run->active, __ATOMIC_RELAXED) == n)
            break; /* they are at it for longer */
    }
    pthread_mutex_lock(&pool.lock);
    /* a cooperative launch needs every worker to have come */
    while (run->active || (run->l->cooperative && run->joined < run->nworkers &&
                           !__atomic_load_n(&run->stop, __ATOMIC_RELAXED)))
        pthread_cond_wait(&pool.done, &pool.lock);
    for (p = &pool.runs; *p != run; p = &(*p)->link)
        ;
    *p = run->link;
    if (run->l->cooperative) {
        /* the run ended before these threads arrived */
        pool.reserved -= run->nworkers - run->joined;
        pthread_cond_broadcast(&pool.work);
    }
    while (run->active)
        pthread_cond_wait(&pool.done, &pool.lock);
    pthread_mutex_unlock(&pool.lock);
}

/* Sets the number of blocks per cluster. Returns false if that cannot be run. */
static bool run_clusters(struct sg_run *run)
{
    const uint32_t *grid = run->l->grid, *want = run->l->cluster[0] ? run->l->cluster : run->k->cluster;
    uint64_t n = 1;

    run->explicit_cluster = want[0] != 0;
    for (int i = 0; i < 3; i++)
        run->cluster[i] = run->explicit_cluster ? want[i] : 1;
    for (int i = 0; i < 3; i++) {
        if (!run->cluster[i] || run->cluster[i] > SG_CLUSTER_MAX || grid[i] % run->cluster[i])
            return false;
        n *= run->cluster[i];
    }
    run->cluster_size = (uint32_t)n;
    return n <= SG_CLUSTER_MAX;
}

static int run_grid(const struct sg_launch *l, struct sg_fault *fault)
{
    struct sg_run run = {.l = l, .k = l->kernel, .op_name = sg_op_name};
    struct sg_diag diag;
    int r;

    memset(fault, 0, sizeof(*fault));
    r = l->kernel->ops->prepare(l->kernel, &diag);
    if (r) {
        fault->result = r;
        fault->line = diag.line;
        snprintf(fault->message, sizeof(fault->message), "%s", diag.message);
        return r;
    }
    run.code = l->kernel->ops->code(l->kernel, l->block);
    if (!run_clusters(&run)) {
        fault->result = SG_ERR_CLUSTER;
        snprintf(fault->message, sizeof(fault->message),
                 "%s: clusters of %u x %u x %u blocks do not fit the grid or the device", run.code->name,
                 run.cluster[0], run.cluster[1], run.cluster[2]);
        return SG_ERR_CLUSTER;
    }
    run.total = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2] / run.cluster_size;
    if (l->cooperative) {
        run.workspace = aligned_alloc(SG_GRID_WORKSPACE, SG_GRID_WORKSPACE);
        if (!run.workspace) {
            fault->result = SG_ERR_NOMEM;
            return SG_ERR_NOMEM;
        }
        memset(run.workspace, 0, SG_GRID_WORKSPACE);
        run.workspace[0] = SG_GRID_WORKSPACE;
    }
    pthread_mutex_init(&run.fault_lock, NULL);
    run_all(&run);
    if (sg_profile_on())
        sg_profile_launch(run.code, run.total * run.cluster_size, run.icount, run.cpu_ns);
    sg_tree_count(l, run.icount);
    pthread_mutex_destroy(&run.fault_lock);
    free(run.workspace);
    if (run.faulted)
        *fault = run.fault;
    return fault->result;
}

int sg_exec_launch(const struct sg_launch *l, struct sg_fault *fault)
{
    return sg_run_tree(l, fault, run_grid);
}

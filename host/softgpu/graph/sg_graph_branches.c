/* SPDX-License-Identifier: MIT */
/*
 * Branches of graphs: units that do not depend on each other run concurrently.
 *
 * The thread that runs the graph takes one unit after the other, always the first ready unit in
 * step order, so a graph of short nodes costs nothing beyond a chain and its order is reproducible.
 * A unit that takes long may wait for work of another branch. Therefore a thread that watches the
 * active runs adds a thread to a run whenever units are ready and none has begun or ended for a
 * while; the helper leaves when no unit is ready.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "graph/graph.h"

#define TICK_NS 1000000         /* minimum time without progress before a helper is added, ns */
#define TICKS_IDLE 64u          /* ticks without a run before the watcher sleeps */
#define HELPERS_MAX 128u        /* per process; as many as a GPU's concurrent kernels */
#define HELPER_STACK (2u << 20) /* as of a stream's thread */

/* ---- edges ---- */

struct sg_edges *sg_edges_new(const uint32_t (*pair)[2], size_t n, size_t steps)
{
    struct sg_edges *e = calloc(1, sizeof(*e));

    if (!e)
        return NULL;
    atomic_init(&e->refs, 1);
    e->waits = calloc(steps + 1, sizeof(*e->waits));
    e->first = calloc(steps + 2, sizeof(*e->first));
    e->next = malloc((n + 1) * sizeof(*e->next));
    if (!e->waits || !e->first || !e->next) {
        sg_edges_put(e);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        e->waits[pair[i][1]]++;
        e->first[pair[i][0] + 2]++;
    }
    for (size_t i = 2; i < steps + 2; i++)
        e->first[i] += e->first[i - 1];
    for (size_t i = 0; i < n; i++)
        e->next[e->first[pair[i][0] + 1]++] = pair[i][1];
    return e;
}

void sg_edges_put(struct sg_edges *e)
{
    if (!e || atomic_fetch_sub(&e->refs, 1) != 1)
        return;
    free(e->waits);
    free(e->first);
    free(e->next);
    free(e);
}

/* ---- the memory that a launch can use at one time ---- */

/* The unit of the uppermost level that step i is part of; *at: that of a step before it. */
static size_t top_of(const struct sg_program *p, size_t i, size_t *at)
{
    while (*at + p->step[*at].child < i)
        *at += 1 + p->step[*at].child;
    return *at;
}

static bool any_wide(const struct sg_program *p, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (p->step[i].wide)
            return true;
    }
    return false;
}

/* Marks the units of the top level that begin after unit `from` has ended. todo: one entry per
   unit. */
static void mark_after(const struct sg_program *p, size_t from, bool *after, uint32_t *todo)
{
    size_t n = 0;

    todo[n++] = (uint32_t)from;
    while (n > 0) {
        const uint32_t at = todo[--n];

        for (uint32_t k = p->edges->first[at]; k < p->edges->first[at + 1]; k++) {
            const uint32_t next = p->edges->next[k];

            if (after[next])
                continue;
            after[next] = true;
            todo[n++] = next;
        }
    }
}

/* An allocation that its program frees. */
struct pair {
    SG_LENT const struct sg_graph_memory *m;
    size_t alloc, free;         /* steps */
    size_t top_alloc, top_free; /* their units */
    uint64_t with;              /* maximum of allocated memory once this is allocated */
};

static uint64_t bytes_of(const struct sg_graph_memory *m)
{
    return (m->size + 511) & ~511ull;
}

/* Subtracts from each pair's sum the memory that is never allocated together with it, because of
   step `at` of pair i. */
static void subtract_exclusive(const struct sg_program *p, struct pair *pairs, size_t n, size_t i, bool freed,
                               bool *after, uint32_t *todo)
{
    const size_t at = freed ? pairs[i].free : pairs[i].alloc;
    const size_t top = freed ? pairs[i].top_free : pairs[i].top_alloc;
    const bool chain = !any_wide(p, top, top + 1 + p->step[top].child);

    memset(after, 0, p->n * sizeof(*after));
    mark_after(p, top, after, todo);
    for (size_t j = 0; j < n; j++) {
        const bool later =
            pairs[j].top_alloc == top ? chain && pairs[j].alloc > at : after[pairs[j].top_alloc];

        if (j == i || !later || pairs[i].m->device != pairs[j].m->device)
            continue;
        if (freed)
            pairs[j].with -= bytes_of(pairs[i].m); /* it is freed before j is allocated */
        else
            pairs[i].with -= bytes_of(pairs[j].m); /* j comes later, and counts i itself */
    }
}

/* Limit of edges and steps visited by subtract_exclusive(); for a larger graph the plain sum counts. */
#define PEAK_WORK_MAX ((size_t)1 << 28)

static bool peak_is_exact(const struct sg_program *p, size_t pairs)
{
    return !pairs || p->edges->first[p->n] + 2 * p->n <= PEAK_WORK_MAX / 2 / pairs;
}

/*
 * With branches: at an allocation, all memory may be allocated that is not freed before it and does
 * not come after it. The maximum of these sums is an upper bound at any time; for a chain it is the
 * exact maximum.
 */
bool sg_graph_memory_find_peak(struct sg_program *p)
{
    struct pair *pairs = calloc(p->n + 1, sizeof(*pairs));
    bool *after = calloc(p->n + 1, sizeof(*after));
    uint32_t *todo = calloc(p->n + 1, sizeof(*todo));
    uint64_t now[SG_MAX_DEVICES] = {0};
    const bool ok = pairs && after && todo;
    size_t n = 0;

    for (size_t i = 0; ok && p->memory && i < p->n; i++) {
        const struct sg_graph_memory *m = p->step[i].mem;

        if (!m || p->step[i].other == SIZE_MAX)
            continue;
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_MEM_FREE) {
            now[m->device] -= p->edges ? 0 : bytes_of(m);
            continue;
        }
        pairs[n++] = (struct pair){.m = m, .alloc = i, .free = p->step[i].other};
        now[m->device] += bytes_of(m);
        if (!p->edges && now[m->device] > p->peak[m->device])
            p->peak[m->device] = now[m->device];
    }
    const bool exact = p->edges && peak_is_exact(p, n);

    for (size_t i = 0, at = 0; p->edges && i < n; i++) {
        size_t from = pairs[i].top_alloc = top_of(p, pairs[i].alloc, &at);

        pairs[i].top_free = exact ? top_of(p, pairs[i].free, &from) : 0;
        pairs[i].with = now[pairs[i].m->device];
    }
    for (size_t i = 0; exact && i < n; i++) {
        subtract_exclusive(p, pairs, n, i, true, after, todo);
        subtract_exclusive(p, pairs, n, i, false, after, todo);
    }
    for (size_t i = 0; p->edges && i < n; i++) {
        uint64_t *peak = &p->peak[pairs[i].m->device];

        *peak = pairs[i].with > *peak ? pairs[i].with : *peak;
    }
    free(pairs);
    free(after);
    free(todo);
    return ok;
}

/* ---- running ---- */

/* A level in progress. Lives on the stack of the thread that launched it, which waits for the
   helpers. */
struct run {
    SG_LENT const struct sg_level *l;
    SG_LENT struct sg_genv *genv; /* of the launching thread */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t *left;  /* by step, from l->from on: units that it waits for and that have not ended */
    uint32_t *ready; /* ready steps: a heap, ordered by step number */
    size_t nready;
    SG_OWNED struct sg_branch_events *events; /* NULL: no events */
    bool asleep;                              /* the launching thread waits */
    unsigned running, helpers;
    uint64_t moves; /* units begun and ended */
    CUresult result;
    /* The watcher's, under its lock. */
    SG_LISTED struct run *next, **pprev;
    uint64_t seen;
};

static struct {
    pthread_mutex_t lock; /* taken before the lock of a run */
    pthread_cond_t wake;
    SG_LISTED struct run *runs;
    bool started, asleep;
    unsigned helpers;
} watch = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void put_ready(struct run *r, uint32_t step)
{
    size_t i = r->nready++;

    for (; i > 0 && r->ready[(i - 1) / 2] > step; i = (i - 1) / 2)
        r->ready[i] = r->ready[(i - 1) / 2];
    r->ready[i] = step;
}

static void take_top(struct run *r)
{
    const uint32_t last = r->ready[--r->nready];
    size_t i = 0;

    for (size_t k; (k = 2 * i + 1) < r->nready; i = k) {
        if (k + 1 < r->nready && r->ready[k + 1] < r->ready[k])
            k++;
        if (r->ready[k] >= last)
            break;
        r->ready[i] = r->ready[k];
    }
    r->ready[i] = last;
}

/* True if the next unit, the top of r->ready, may begin. */
static bool any_ready(const struct run *r)
{
    return r->result == CUDA_SUCCESS && r->nready;
}

/* Cancels the other units; units that still run may depend on these. */
static void stop_others(const struct run *r)
{
    struct sg_ctx *ctx = r->l->s->ctx;

    if (r->running && (atomic_load(&ctx->fault) || atomic_load(&ctx->cut) || !atomic_load(&ctx->alive)))
        ctx->abort = 1;
}

/* Decrements the number of things that the unit waits for. */
static void miss_less(void *run, uint32_t step)
{
    struct run *r = run;

    if (--r->left[step - r->l->from] == 0)
        put_ready(r, step);
}

static void unit_over(struct run *r, uint32_t step, CUresult result)
{
    const struct sg_edges *e = r->l->p->edges;

    r->running--;
    r->moves++;
    if (result != CUDA_SUCCESS) {
        if (r->result == CUDA_SUCCESS)
            r->result = result;
        stop_others(r);
    }
    for (uint32_t k = e->first[step]; k < e->first[step + 1]; k++)
        miss_less(r, e->next[k]);
    if (r->events)
        sg_branch_events_over(r->events, step, miss_less, r);
    if (r->asleep)
        pthread_cond_signal(&r->changed);
}

/* Runs units until none is ready; the launching thread: until none runs. Under the lock. */
static void take_part(struct run *r, bool launching)
{
    for (;;) {
        uint32_t step;
        CUresult result;

        if (!any_ready(r) && launching && r->running) {
            r->asleep = true;
            pthread_cond_wait(&r->changed, &r->lock);
            r->asleep = false;
            continue;
        }
        if (!any_ready(r))
            return;
        step = r->ready[0];
        take_top(r);
        r->running++;
        r->moves++;
        pthread_mutex_unlock(&r->lock);
        result = r->l->run(r->l->arg, step, r->l->s);
        pthread_mutex_lock(&r->lock);
        unit_over(r, step, result);
    }
}

static void *helper_main(void *arg)
{
    struct run *r = arg;

    sg_genv_now = r->genv;
    pthread_mutex_lock(&r->lock);
    take_part(r, false);
    r->helpers--;
    pthread_cond_signal(&r->changed);
    pthread_mutex_unlock(&r->lock); /* r may have been freed */
    pthread_mutex_lock(&watch.lock);
    watch.helpers--;
    pthread_mutex_unlock(&watch.lock);
    return NULL;
}

static bool start_thread(void *(*fn)(void *), void *arg)
{
    pthread_attr_t attr;
    pthread_t t;
    bool ok;

    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, HELPER_STACK);
    ok = pthread_create(&t, &attr, fn, arg) == 0;
    pthread_attr_destroy(&attr);
    return ok;
}

/* Adds a thread to each run with a ready unit and no progress; if no thread is available now,
   later. */
static void add_threads(struct run *r)
{
    pthread_mutex_lock(&r->lock);
    if (r->moves == r->seen && watch.helpers < HELPERS_MAX && r->running > r->helpers && any_ready(r) &&
        start_thread(helper_main, r)) {
        r->helpers++;
        watch.helpers++;
    }
    r->seen = r->moves;
    pthread_mutex_unlock(&r->lock);
}

static void *watch_main(void *arg)
{
    const struct timespec tick = {0, TICK_NS};
    unsigned idle = 0;

    (void)arg;
    pthread_mutex_lock(&watch.lock);
    for (;;) {
        for (struct run *r = watch.runs; r; r = r->next)
            add_threads(r);
        idle = watch.runs ? 0 : idle + 1;
        if (idle > TICKS_IDLE) {
            watch.asleep = true;
            while (!watch.runs)
                pthread_cond_wait(&watch.wake, &watch.lock);
            watch.asleep = false;
            idle = 0;
        }
        pthread_mutex_unlock(&watch.lock);
        nanosleep(&tick, NULL);
        pthread_mutex_lock(&watch.lock);
    }
    return NULL;
}

static void watch_begin(struct run *r)
{
    pthread_mutex_lock(&watch.lock);
    r->next = watch.runs;
    r->pprev = &watch.runs;
    if (r->next)
        r->next->pprev = &r->next;
    watch.runs = r;
    if (!watch.started) /* no thread available: the next run tries again */
        watch.started = start_thread(watch_main, NULL);
    if (watch.asleep)
        pthread_cond_signal(&watch.wake);
    pthread_mutex_unlock(&watch.lock);
}

static void watch_end(struct run *r)
{
    pthread_mutex_lock(&watch.lock);
    *r->pprev = r->next;
    if (r->next)
        r->next->pprev = r->pprev;
    pthread_mutex_unlock(&watch.lock);
}

/* False: no memory. */
static bool begin_run(struct run *r)
{
    const struct sg_level *l = r->l;

    for (size_t i = l->from; i < l->to; i += 1 + l->p->step[i].child)
        r->left[i - l->from] = l->p->edges->waits[i];
    if (l->p->events && !sg_branch_events_new(l, r->left, &r->events))
        return false;
    for (size_t i = l->from; i < l->to; i += 1 + l->p->step[i].child) {
        if (!r->left[i - l->from])
            put_ready(r, (uint32_t)i);
    }
    return true;
}

static void end_run(struct run *r)
{
    sg_branch_events_free(r->events);
    free(r->left);
}

bool sg_branches_run(const struct sg_level *l, CUresult *result)
{
    const size_t n = l->to - l->from;
    struct run r = {.l = l, .genv = sg_genv_now};

    r.left = malloc(n * 2 * sizeof(uint32_t));
    if (!r.left)
        return false;
    r.ready = r.left + n;
    if (!begin_run(&r)) {
        end_run(&r);
        return false;
    }
    pthread_mutex_init(&r.lock, NULL);
    pthread_cond_init(&r.changed, NULL);
    watch_begin(&r);
    pthread_mutex_lock(&r.lock);
    take_part(&r, true);
    pthread_mutex_unlock(&r.lock);
    watch_end(&r); /* no further helper comes */
    pthread_mutex_lock(&r.lock);
    while (r.helpers)
        pthread_cond_wait(&r.changed, &r.lock);
    pthread_mutex_unlock(&r.lock);
    pthread_mutex_destroy(&r.lock);
    pthread_cond_destroy(&r.changed);
    end_run(&r);
    *result = r.result;
    return true;
}

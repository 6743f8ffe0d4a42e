/* SPDX-License-Identifier: MIT */
/*
 * What waits and look-ups need to know of contexts: the primary context of a green one, destroyed streams whose work
 * still runs, and the work left in a context that ends.
 */
#include "core.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* ---- green contexts ----
 *
 * They share memory, modules and events with their primary context, which owns them. Floors below
 * their handlers need the primary context of each. */

static struct wrk_green_base *greens;

void wrk_green_base_add(struct wrk_green_base *g)
{
    g->next = greens;
    greens = g;
}

void wrk_green_base_remove(struct wrk_green_base *g)
{
    struct wrk_green_base **p = &greens;

    while (*p && *p != g)
        p = &(*p)->next;
    if (*p)
        *p = g->next;
}

bool wrk_greens_exist(void)
{
    return greens != NULL;
}

uint64_t wrk_base_handle(struct wrk_worker *w, uint64_t context)
{
    struct wrk_handle_entry *e = greens ? wrk_handles_find(&w->handles, context, VGP_H_CONTEXT) : NULL;

    return e && e->owner ? e->owner : context;
}

CUcontext wrk_base_context(CUcontext ctx)
{
    for (const struct wrk_green_base *g = greens; g; g = g->next) {
        if (g->ctx == ctx)
            return g->base_ctx;
    }
    return ctx;
}

bool wrk_context_has(struct wrk_worker *w, uint64_t context, uint64_t owner)
{
    return owner == context || (greens && wrk_base_handle(w, owner) == context);
}

bool wrk_context_divided(struct wrk_worker *w, uint64_t context)
{
    uint64_t base = wrk_base_handle(w, context);

    for (const struct wrk_green_base *g = greens; g; g = g->next) {
        if (g->base == base)
            return true;
    }
    return false;
}

/* ---- destroyed streams ---- */

/* A destroyed stream still finishes its work, but can no longer be queried. From then on its
 * context is waited for as a whole, on a waiter, until such a wait that began later has ended. */
#define ORPHANS 16u
static struct {
    pthread_mutex_t lock; /* also taken by waiters; innermost lock */
    struct orphan {
        CUcontext ctx;   /* NULL: free entry */
        uint64_t number; /* number of the latest destroyed stream */
    } of[ORPHANS];
    uint64_t number;
    bool many; /* more contexts than entries: set permanently */
} orphans = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Entry of the context or, for NULL, a free entry; NULL: none. The lock is held. */
static struct orphan *place_of(CUcontext ctx)
{
    for (unsigned i = 0; i < ORPHANS; i++) {
        if (orphans.of[i].ctx == ctx)
            return &orphans.of[i];
    }
    return NULL;
}

/* `ctx` NULL: unknown. The lock is held. */
static void note_orphan(CUcontext ctx)
{
    struct orphan *o = NULL;

    if (ctx && !(o = place_of(ctx)))
        o = place_of(NULL);
    if (o)
        *o = (struct orphan){ctx, ++orphans.number};
    else
        orphans.many = true;
}

void wrk_orphan_note(CUcontext ctx)
{
    pthread_mutex_lock(&orphans.lock);
    note_orphan(ctx);
    pthread_mutex_unlock(&orphans.lock);
}

void wrk_wait_context_forget(CUcontext ctx)
{
    const CUcontext base = wrk_base_context(ctx);

    pthread_mutex_lock(&orphans.lock);
    struct orphan *o = place_of(ctx);
    if (o)
        o->ctx = NULL;
    if (base != ctx)
        note_orphan(base);
    pthread_mutex_unlock(&orphans.lock);
}

uint64_t wrk_orphaned(CUcontext ctx)
{
    const struct orphan *o;
    uint64_t number;

    pthread_mutex_lock(&orphans.lock);
    o = ctx ? place_of(ctx) : NULL;
    number = o ? o->number : orphans.many ? UINT64_MAX : 0;
    pthread_mutex_unlock(&orphans.lock);
    return number;
}

CUresult wrk_wait_context_whole(struct wrk_wait *wait)
{
    uint64_t number = wrk_orphaned(wait->ctx);
    struct wrk_answer a = wrk_await_context(&wrk_provider);
    struct orphan *o;

    pthread_mutex_lock(&orphans.lock);
    o = a.state == WRK_COMPLETE && wait->ctx ? place_of(wait->ctx) : NULL;
    if (o && o->number <= number)
        o->ctx = NULL;
    pthread_mutex_unlock(&orphans.lock);
    return a.result;
}

/* ---- the work of a context that ends ---- */

#define REST_FIRST_NS 50000l
#define REST_LAST_NS 10000000l

struct wrk_rest *wrk_rest_new(CUcontext ctx, unsigned n)
{
    struct wrk_rest *rest = calloc(1, sizeof(*rest) + n * sizeof(rest->events[0]));

    if (rest)
        rest->ctx = ctx;
    return rest;
}

/* Destroys the marks that are complete, or of which that cannot be told. */
static void rest_look(struct wrk_rest *rest)
{
    unsigned left = 0;

    for (unsigned i = 0; i < rest->n; i++) {
        CUevent e = rest->events[i];
        enum wrk_state is = wrk_ask_event(&wrk_provider, e).state;

        if (is == WRK_RUNNING) {
            rest->events[left++] = e;
            continue;
        }
        wrk_provider.cuEventDestroy_v2(e);
        if (is == WRK_COMPLETE)
            atomic_fetch_add(&rest->done, 1);
    }
    rest->n = left;
}

void wrk_rest_await(struct wrk_rest *rest)
{
    struct timespec step = {.tv_nsec = REST_FIRST_NS};

    if (wrk_provider.cuCtxSetCurrent(rest->ctx) != CUDA_SUCCESS)
        return; /* they end with it */
    for (rest_look(rest); rest->n; rest_look(rest)) {
        nanosleep(&step, NULL);
        step.tv_nsec = step.tv_nsec < REST_LAST_NS ? 2 * step.tv_nsec : REST_LAST_NS;
    }
    wrk_provider.cuCtxSetCurrent(NULL);
}

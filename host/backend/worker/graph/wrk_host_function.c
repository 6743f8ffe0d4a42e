/* SPDX-License-Identifier: MIT */
/*
 * Host functions: the provider calls the worker, the guest runs the function, the stream continues.
 * Functions of cuLaunchHostFunc run once; those of graph nodes run at each launch, possibly in
 * several launches at once.
 *
 * A run has a slot and a sequence number. Its end is reported twice: by a record, and by a word of
 * the window, polled here at intervals. So a stream continues even if the record is stuck behind
 * calls that wait for this very stream.
 *
 * A wait for external semaphores may last, and a driver may have a single thread for all host
 * functions: then the function only notifies the guest and returns, and the stream itself waits for
 * the word of the window, which the provider sees through a mapping per context.
 *
 * Slots and sequence numbers are guessable, so an answer counts only for an open request. A run is
 * HELD while the provider may still call hostfunc_ask() with it, ASKED from just before the notification,
 * and freed by the answer or the end of its context. An answer to a run that is HELD or never
 * existed, or more answers than requests, end the client.
 */
#define _GNU_SOURCE
#include "graph.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "vgp_worker.h"

#define HOST_FUNCS_MAX 16384u                /* one-time functions not yet run, of one client */
#define GRAPH_FUNCS_MAX (1u << 20)           /* of graphs */
#define STREAM_WAITS_MAX (VGP_HOST_RUNS / 2) /* runs that streams wait for */
#define LOOK_FIRST_NS 1000000l               /* initial interval of polling the window, ... */
#define LOOK_LAST_NS 100000000l              /* ... and the maximum interval */

struct wrk_host_func {
    atomic_uint refs;
    VGB_LISTED struct wrk_host_func *next; /* in `untold`; of one-time functions in `pending` */
    VGB_LISTED struct wrk_host_func **at;  /* of one-time functions: what names it in `pending` */
    CUcontext ctx;                         /* one-time: the stream's, or the one below; NULL: ending, ended */
    VGB_LISTED struct wrk_host_page *end;  /* the end of its context, until it has landed */
    bool counted;                          /* in `waiting` */
    bool orphan;                           /* its run is counted in stream_waits, and in no list */
    uint64_t cookie;
    bool once; /* from cuLaunchHostFunc or cuStreamAddCallback: the guest knows when it has run */
    bool told; /* the guest was told of its end, or never heard of it */
    enum vgp_extsem_op semaphores;
};

enum run_state { RUN_HELD, RUN_ASKED };

struct run {
    VGB_LISTED struct run *next;
    uint64_t cookie;
    uint32_t slot, sequence;
    enum run_state state;
    bool done;
    bool orphan; /* its context has ended while the provider held it: hostfunc_ask() frees it */
    VGB_COUNTED struct wrk_host_func *f;   /* set if the stream, not a thread, waits for its end */
    VGB_LISTED struct wrk_host_page *page; /* of its context; NULL: none, or the context ended */
};

/* The window's page with host_done, as mapped for a context's streams. Stands for the context: is
 * not found by address once the context begins to end, as the address may be reused. */
struct wrk_host_page {
    VGB_LISTED struct wrk_host_page *next;
    CUcontext ctx;
    void *base;
    CUdeviceptr at;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct run *runs;
static struct wrk_host_page *pages; /* of contexts whose end has not begun */
static unsigned stream_waits;       /* orphans included: bounds what a provider may hold */
static uint64_t owed;               /* requests not answered by a record yet */
static unsigned waiting;            /* pending one-time functions, but those whose context has ended */
static unsigned in_graphs;          /* functions of graphs */
static struct wrk_host_func *untold;
static struct wrk_host_func *pending; /* one-time functions */
static uint64_t slots[VGP_HOST_RUNS / 64];
static uint32_t last_sequence;
static struct wrk_worker *self;
uint64_t wrk_host_nodes_made; /* the dispatcher's, both */
uint64_t wrk_semaphores_made;

static void page_init(void)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attr);
    pthread_condattr_destroy(&attr);
}

static bool take_slot_locked(uint32_t *slot)
{
    for (unsigned i = 0; i < VGP_HOST_RUNS / 64; i++) {
        if (slots[i] == UINT64_MAX)
            continue;
        unsigned bit = (unsigned)__builtin_ctzll(~slots[i]);
        slots[i] |= UINT64_C(1) << bit;
        *slot = i * 64 + bit;
        return true;
    }
    return false;
}

/* It has its slot. */
static void enter_locked(struct run *r)
{
    if (++last_sequence == 0)
        last_sequence = 1;
    r->sequence = last_sequence;
    r->next = runs;
    runs = r;
}

static void hostfunc_begin(struct run *r)
{
    pthread_mutex_lock(&lock);
    while (!take_slot_locked(&r->slot))
        pthread_cond_wait(&changed, &lock);
    enter_locked(r);
    pthread_mutex_unlock(&lock);
}

/* Before the notification: the guest may answer before this thread continues. */
static void mark_asked_locked(struct run *r)
{
    r->state = RUN_ASKED;
    owed++;
}

static void leave_locked(struct run **at)
{
    struct run *r = *at;

    *at = r->next;
    slots[r->slot / 64] &= ~(UINT64_C(1) << (r->slot % 64));
    pthread_cond_broadcast(&changed);
}

static bool ended_locked(const struct run *r)
{
    return r->done || __atomic_load_n(&self->win.shared->host_done[r->slot], __ATOMIC_ACQUIRE) == r->sequence;
}

static void wait_end(struct run *r)
{
    long step = LOOK_FIRST_NS;

    pthread_mutex_lock(&lock);
    while (!ended_locked(r)) {
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += step;
        if (until.tv_nsec >= 1000000000l) {
            until.tv_nsec -= 1000000000l;
            until.tv_sec++;
        }
        if (pthread_cond_timedwait(&changed, &lock, &until) == ETIMEDOUT && step < LOOK_LAST_NS)
            step *= 2;
    }
    for (struct run **at = &runs; *at; at = &(*at)->next) {
        if (*at == r) {
            leave_locked(at);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* status: of the stream, as the provider says it to a callback */
static void hostfunc_run(struct wrk_host_func *f, CUresult status)
{
    struct run r = {.cookie = f->cookie};

    wrk_host_func_get(f);
    hostfunc_begin(&r);
    pthread_mutex_lock(&lock);
    mark_asked_locked(&r);
    pthread_mutex_unlock(&lock);
    uint32_t what[3] = {(uint32_t)status, r.slot, r.sequence};
    /* A guest that makes no room delays only its own stream. */
    while (!wrk_notify(self, VGP_NOTIFY_HOST_FUNC, f->cookie, what, sizeof(what), 1000))
        continue;
    wait_end(&r);
    if (f->once)
        wrk_host_func_put(f); /* the stream's */
    wrk_host_func_put(f);
}

void wrk_host_func_run(void *arg)
{
    hostfunc_run(arg, CUDA_SUCCESS);
}

void wrk_host_func_call_back(CUstream stream, CUresult status, void *func)
{
    (void)stream;
    hostfunc_run(func, status);
}

/* ---- runs that a stream waits for ---- */

static struct wrk_host_page *page_of_locked(CUcontext ctx)
{
    struct wrk_host_page *p = pages;

    while (p && p->ctx != ctx)
        p = p->next;
    return p;
}

/*
 * Creates a context's page on first use; dispatcher only. Without the lock, as all provider calls:
 * it may wait for the context's work, and a host function in that work ends under the lock.
 */
static void page_make(struct wrk_worker *w, CUcontext ctx)
{
    struct wrk_host_page *p;
    bool ok;

    if (!wrk_provider.cuMemHostRegister_v2 || !wrk_provider.cuMemHostGetDevicePointer_v2 ||
        !wrk_provider.cuStreamBatchMemOp_v2)
        return;
    p = calloc(1, sizeof(*p));
    if (!p)
        return;
    p->ctx = ctx;
    pthread_mutex_lock(&lock);
    if (!page_of_locked(ctx))
        p->base = wrk_window_alias_take(&w->win); /* each context registers its own */
    pthread_mutex_unlock(&lock);
    if (!p->base) { /* there is one, or none can be had */
        free(p);
        return;
    }
    ok = wrk_provider.cuMemHostRegister_v2(
             p->base, VGP_PAGE, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP) == CUDA_SUCCESS &&
         wrk_provider.cuMemHostGetDevicePointer_v2(&p->at, p->base, 0) == CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (ok) {
        p->next = pages;
        pages = p;
    } else {
        wrk_window_alias_give(&w->win, p->base);
        free(p);
    }
    pthread_mutex_unlock(&lock);
}

/* A run with a slot, for a wait of the current context's; NULL: a thread has to wait. */
static struct run *stream_run(struct wrk_worker *w, struct wrk_host_func *f, CUdeviceptr *word)
{
    struct run *r = calloc(1, sizeof(*r));
    struct wrk_host_page *p = NULL;

    page_make(w, w->current);
    pthread_mutex_lock(&lock);
    if (r && stream_waits < STREAM_WAITS_MAX)
        p = page_of_locked(w->current);
    if (p && take_slot_locked(&r->slot)) {
        r->cookie = f->cookie;
        r->f = f;
        r->page = p;
        enter_locked(r);
        stream_waits++;
        *word = p->at + VGP_HOST_DONE_OFFSET + r->slot * sizeof(uint32_t);
    } else {
        free(r);
        r = NULL;
        vgb_log(VGB_DEBUG, "a wait for semaphores takes a thread of the provider's");
    }
    pthread_mutex_unlock(&lock);
    return r;
}

/* The provider does not hold it any more: it was ASKED, or could not be issued. */
static void stream_run_end_locked(struct run **at)
{
    struct run *r = *at;

    leave_locked(at);
    stream_waits--;
    free(r);
}

/* Its context is gone. The provider may or may not still call hostfunc_ask() with it. */
static void stream_run_abandon_locked(struct run **at)
{
    struct run *r = *at;

    if (r->state == RUN_ASKED) {
        stream_run_end_locked(at);
    } else {
        leave_locked(at);
        r->page = NULL;
        r->orphan = r->f->orphan = true;
    }
}

/* In the stream, before it waits: the word is behind what it waits for, and the guest is asked. */
static void hostfunc_ask(void *arg)
{
    struct run *run = arg, r;
    bool orphan;

    pthread_mutex_lock(&lock);
    orphan = run->orphan;
    if (orphan) {
        stream_waits -= run->f->orphan;
        run->f->orphan = false;
    } else {
        /* under the lock: once it is ASKED its context's end gives the slot to another run */
        __atomic_store_n(&self->win.shared->host_done[run->slot], run->sequence - 1, __ATOMIC_RELEASE);
        mark_asked_locked(run);
    }
    r = *run; /* as soon as the guest knows, it may be gone */
    pthread_mutex_unlock(&lock);
    if (orphan) {
        wrk_host_func_put(r.f);
        free(run);
        return;
    }
    uint32_t what[3] = {CUDA_SUCCESS, r.slot, r.sequence};

    while (!wrk_notify(self, VGP_NOTIFY_HOST_FUNC, r.cookie, what, sizeof(what), 1000))
        continue;
    wrk_host_func_put(r.f);
}

CUresult wrk_host_func_wait(struct wrk_worker *w, CUstream stream, struct wrk_host_func *f)
{
    CUdeviceptr word = 0;
    struct run *r = stream_run(w, f, &word);
    /* Once the provider has it, its context's end may free it. */
    const uint32_t sequence = r ? r->sequence : 0;
    CUresult res = wrk_provider.cuLaunchHostFunc(stream, r ? hostfunc_ask : wrk_host_func_run,
                                                 r ? (void *)r : (void *)f);

    if (res != CUDA_SUCCESS) {
        pthread_mutex_lock(&lock);
        for (struct run **at = &runs; r && *at; at = &(*at)->next) {
            if (*at == r) {
                stream_run_end_locked(at);
                break;
            }
        }
        pthread_mutex_unlock(&lock);
        wrk_host_func_put(f);
        return res;
    }
    if (!r)
        return res;
    /* Later runs in this slot have higher numbers: none can make it wait again. */
    CUstreamBatchMemOpParams op = {
        .waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, word, {sequence}, CU_STREAM_WAIT_VALUE_GEQ, 0}};
    return wrk_provider.cuStreamBatchMemOp_v2(stream, 1, &op, 0);
}

/* The functions of an ending context, whose address may name another one before they are looked at again. */
static struct wrk_host_page *pending_leave_locked(CUcontext ctx, struct wrk_host_page *p)
{
    for (struct wrk_host_func *f = pending; f; f = f->next) {
        if (f->ctx != ctx)
            continue;
        if (!p && !(p = calloc(1, sizeof(*p))))
            break; /* no memory: they stay counted */
        f->ctx = NULL;
        f->end = p;
    }
    return p;
}

static void uncount_locked(struct wrk_host_func *f)
{
    waiting -= f->counted;
    stream_waits -= f->orphan;
    f->counted = f->orphan = false;
}

/* A stream that failed, or that its context cut off, does not run its functions; should one run yet, it is there. */
static void pending_gone_locked(const struct wrk_host_page *p)
{
    for (struct wrk_host_func *f = pending; f; f = f->next) {
        if (f->end == p) {
            f->end = NULL;
            uncount_locked(f);
        }
    }
}

struct wrk_host_page *wrk_host_func_context_ends(CUcontext ctx)
{
    struct wrk_host_page **at = &pages, *p;

    pthread_mutex_lock(&lock);
    while (*at && (*at)->ctx != ctx)
        at = &(*at)->next;
    p = *at;
    *at = p ? p->next : NULL;
    if (ctx)
        p = pending_leave_locked(ctx, p);
    pthread_mutex_unlock(&lock);
    return p;
}

void wrk_host_func_context_gone(struct wrk_host_page *p, bool registered)
{
    if (!p)
        return;
    pthread_mutex_lock(&lock);
    for (struct run **at = &runs; *at;) {
        if ((*at)->page == p)
            stream_run_abandon_locked(at);
        else
            at = &(*at)->next;
    }
    pending_gone_locked(p);
    pthread_mutex_unlock(&lock);
    /* Without the lock: waits for work, including host functions, of the underlying context. */
    if (p->base && registered && wrk_provider.cuMemHostUnregister)
        wrk_provider.cuMemHostUnregister(p->base);
    pthread_mutex_lock(&lock);
    if (p->base)
        wrk_window_alias_give(&self->win, p->base);
    pthread_mutex_unlock(&lock);
    free(p);
}

struct wrk_host_func *wrk_host_func_new(struct wrk_worker *w, uint64_t cookie, bool one_time)
{
    struct wrk_host_func *f = NULL;

    pthread_once(&once, page_init);
    wrk_host_nodes_made += !one_time;
    pthread_mutex_lock(&lock);
    if (!self)
        self = w; /* once: provider threads read it without the lock after the first function */
    if (one_time ? waiting < HOST_FUNCS_MAX : in_graphs < GRAPH_FUNCS_MAX)
        f = calloc(1, sizeof(*f));
    if (f) {
        atomic_init(&f->refs, 1);
        f->cookie = cookie;
        f->once = f->told = one_time;
        waiting += one_time;
        in_graphs += !one_time;
    }
    if (f && one_time) {
        f->counted = true;
        /* Work of a green context goes on when that has ended. */
        f->ctx = w->call.other[1] ? w->call.other[1] : wrk_base_context(w->current);
        f->at = &pending;
        if ((f->next = pending))
            pending->at = &f->next;
        pending = f;
    }
    pthread_mutex_unlock(&lock);
    return f;
}

struct wrk_host_func *wrk_host_func_get(struct wrk_host_func *f)
{
    atomic_fetch_add(&f->refs, 1);
    return f;
}

static void free_func(struct wrk_host_func *f)
{
    pthread_mutex_lock(&lock);
    if (f->once) {
        uncount_locked(f);
        *f->at = f->next;
        if (f->next)
            f->next->at = f->at;
    } else {
        in_graphs--;
    }
    pthread_mutex_unlock(&lock);
    free(f);
}

void wrk_tell_released(struct wrk_worker *w, uint64_t cookie)
{
    while (!wrk_notify(w, VGP_NOTIFY_RELEASED, cookie, NULL, 0, 1000))
        continue;
}

void wrk_host_func_put(struct wrk_host_func *f)
{
    if (atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    if (f->told) {
        free_func(f);
    } else if (!pthread_equal(pthread_self(), self->quota.dispatcher)) {
        uint64_t cookie = f->cookie;

        free_func(f);
        wrk_tell_released(self, cookie);
    } else {
        f->next = untold; /* the dispatcher's own list */
        untold = f;
        wrk_host_funcs_tell();
    }
}

void wrk_host_funcs_tell(void)
{
    while (untold && wrk_notify(self, VGP_NOTIFY_RELEASED, untold->cookie, NULL, 0, 0)) {
        struct wrk_host_func *f = untold;

        untold = f->next;
        free_func(f);
    }
}

/* Its call failed: the guest does not expect a notification. */
void wrk_host_func_drop(struct wrk_host_func *f)
{
    f->told = true;
    wrk_host_func_put(f);
}

uint64_t wrk_host_func_cookie(const struct wrk_host_func *f)
{
    return f->cookie;
}

void wrk_host_func_set_semaphores(struct wrk_host_func *f, enum vgp_extsem_op what)
{
    f->semaphores = what;
    wrk_semaphores_made += what != VGP_EXTSEM_NONE;
}

enum vgp_extsem_op wrk_host_func_semaphores(const struct wrk_host_func *f)
{
    return f->semaphores;
}

/* A record answers a single request. False: none is open. */
static bool take_answer_locked(void)
{
    if (!owed)
        return false;
    owed--;
    return true;
}

/* Protocol 1.0: any run with that cookie. */
CUresult wrk_do_vgpHostFuncDone(struct wrk_call *c, const struct vgp_args_vgpHostFuncDone *a)
{
    bool asked;

    pthread_once(&once, page_init);
    pthread_mutex_lock(&lock);
    asked = take_answer_locked();
    for (struct run *r = runs; asked && r; r = r->next) {
        if (r->cookie == a->cookie && r->state == RUN_ASKED && !r->f)
            r->done = true;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!asked)
        return wrk_malformed(c, "an answer although no host function was asked for");
    return CUDA_SUCCESS;
}

/* The run that the guest answers; *at NULL: its word in the window has ended it before. False: the
 * guest was never asked for it. */
static bool find_asked_locked(uint32_t slot, uint32_t sequence, struct run ***at)
{
    /* Sequence numbers wrap: numbers ahead of the last were never issued. */
    if (!sequence || slot >= VGP_HOST_RUNS || (int32_t)(last_sequence - sequence) < 0)
        return false;
    for (*at = &runs; **at; *at = &(**at)->next) {
        if ((**at)->sequence == sequence)
            return (**at)->slot == slot && (**at)->state == RUN_ASKED;
    }
    return true;
}

CUresult wrk_do_vgpHostFuncFinished(struct wrk_call *c, const struct vgp_args_vgpHostFuncFinished *a)
{
    struct run **at;
    bool asked;

    pthread_once(&once, page_init);
    pthread_mutex_lock(&lock);
    asked = find_asked_locked(a->slot, a->sequence, &at) && take_answer_locked();
    if (asked && *at && (*at)->f)
        stream_run_end_locked(at);
    else if (asked && *at)
        (*at)->done = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!asked)
        return wrk_malformed(c, "an answer to host function %u of slot %u, which was not asked for",
                             a->sequence, a->slot);
    return CUDA_SUCCESS;
}

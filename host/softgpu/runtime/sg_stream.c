/* SPDX-License-Identifier: MIT */
/*
 * Streams: a queue, and a thread that is started when first needed and sleeps when idle.
 *
 * Each operation gets a number when it is issued (under the context's issue lock, which is what
 * makes "issued before" a total order per context) and runs when the operation before it in its
 * stream and everything it depends on have completed. Dependencies point to earlier operations
 * only, so waiting for them cannot deadlock.
 *
 * The rules of the legacy default stream are dependencies: an operation on it depends on all
 * pending work of the blocking streams, and an operation on a blocking stream depends on the
 * pending work of the legacy stream.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>

#include "runtime/runtime.h"

/* Number of operations that may be pending in a stream before issuing another one waits.
   NVIDIA's driver waits, too (at about 1024 launches); without a limit a client could fill all
   memory. */
#define SG_STREAM_PENDING_MAX 16384

/* The interpreter runs on this stack; 8 MiB per stream would be a lot of address space. */
#define SG_STREAM_STACK (2u << 20)

_Atomic unsigned sg_captures;
_Thread_local struct sg_genv *sg_genv_now;
static _Atomic unsigned long long next_stream_id = 1;
static _Atomic uint64_t issued_operations, ended_operations; /* of all streams: sg_operations() */

/* ---- dependencies of future streams ---- */

struct sg_deps {
    unsigned n;
    struct sg_dep dep[]; /* each a reference */
};

void sg_deps_free(struct sg_deps *d)
{
    for (unsigned i = 0; d && i < d->n; i++)
        sg_obj_put(&d->dep[i].stream->obj);
    free(d);
}

/* The incomplete dependencies of a and b (each may be NULL), with room for one more. NULL: out
   of memory. */
static struct sg_deps *deps_pending(const struct sg_deps *a, const struct sg_deps *b)
{
    const struct sg_deps *from[2] = {a, b};
    struct sg_deps *d = malloc(sizeof(*d) + ((a ? a->n : 0) + (b ? b->n : 0) + 1) * sizeof(d->dep[0]));

    if (!d)
        return NULL;
    d->n = 0;
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; from[k] && i < from[k]->n; i++) {
            const struct sg_dep *dep = &from[k]->dep[i];

            if (atomic_load(&dep->stream->completed) >= dep->seq)
                continue;
            sg_obj_get(&dep->stream->obj);
            d->dep[d->n++] = *dep;
        }
    }
    return d;
}

bool sg_ctx_gate(struct sg_ctx *ctx, struct sg_stream *s, uint64_t seq)
{
    struct sg_deps *old, *d;

    pthread_mutex_lock(&ctx->base->issue);
    old = ctx->gates;
    d = deps_pending(old, NULL);
    if (d) {
        sg_obj_get(&s->obj);
        d->dep[d->n++] = (struct sg_dep){s, seq};
        ctx->gates = d;
    }
    pthread_mutex_unlock(&ctx->base->issue);
    if (d)
        sg_deps_free(old);
    return d != NULL;
}

void sg_ctx_ungate(struct sg_ctx *ctx)
{
    struct sg_deps *d;

    pthread_mutex_lock(&ctx->base->issue);
    d = ctx->gates;
    ctx->gates = NULL;
    pthread_mutex_unlock(&ctx->base->issue);
    sg_deps_free(d);
}

static void stream_free(struct sg_obj *obj)
{
    struct sg_stream *s = (struct sg_stream *)obj;

    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->work);
    pthread_cond_destroy(&s->done);
    if (!s->bare)
        sg_obj_put(&s->ctx->obj);
    if (s->green && !s->legacy)
        sg_obj_put(&s->green->obj);
    sg_deps_free(s->first);
    sg_hooks->front_free(s->front);
    free(s);
}

/*
 * A context's default stream is created with ctx->legacy still NULL. It is part of the context: a
 * reference to it is a reference to the context. A green context's default stream is still in the
 * list of the primary context's streams.
 */
CUresult sg_stream_new(struct sg_ctx *self, unsigned flags, int priority, struct sg_stream **out)
{
    struct sg_ctx *ctx = self->base, *green = self == ctx ? NULL : self;
    struct sg_stream *s = calloc(1, sizeof(*s));

    if (!s || !(s->front = sg_hooks->front_new())) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    sg_obj_init(&s->obj, SG_T_STREAM, ctx, stream_free);
    s->ctx = ctx;
    s->green = green;
    s->legacy = !self->legacy;
    s->bare = s->legacy && !green;
    if (s->legacy)
        s->obj.whole = &self->obj;
    s->flags = flags;
    s->priority = priority;
    s->id = atomic_fetch_add(&next_stream_id, 1);
    s->sync_policy = CU_SYNC_POLICY_AUTO;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->work, NULL);
    pthread_cond_init(&s->done, NULL);
    if (!s->bare) {
        sg_obj_get(&ctx->obj);
        if (green && !s->legacy)
            sg_obj_get(&green->obj);
        pthread_mutex_lock(&ctx->issue);
        /* a primary context's streams include those of its green contexts */
        if (ctx->gates || self->gates)
            s->first = deps_pending(ctx->gates, green ? green->gates : NULL);
        if ((ctx->gates || self->gates) && !s->first) {
            pthread_mutex_unlock(&ctx->issue);
            sg_obj_end(&s->obj); /* no other thread has seen it */
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        sg_obj_get(&s->obj); /* the list's reference */
        s->next = ctx->streams;
        s->pprev = &ctx->streams;
        if (s->next)
            s->next->pprev = &s->next;
        ctx->streams = s;
        pthread_mutex_unlock(&ctx->issue);
    }
    *out = s;
    return CUDA_SUCCESS;
}

bool sg_stream_idle(struct sg_stream *s)
{
    return atomic_load(&s->completed) >= atomic_load(&s->submitted);
}

void sg_stream_wait(struct sg_stream *s, uint64_t seq)
{
    if (atomic_load(&s->completed) >= seq)
        return;
    pthread_mutex_lock(&s->lock);
    while (atomic_load(&s->completed) < seq)
        pthread_cond_wait(&s->done, &s->lock);
    pthread_mutex_unlock(&s->lock);
}

void sg_stream_drain(struct sg_stream *s)
{
    sg_stream_wait(s, atomic_load(&s->submitted));
    atomic_fetch_add(&sg_waits, 1);
}

static void unlink_stream(struct sg_stream *s)
{
    bool listed;

    pthread_mutex_lock(&s->ctx->issue);
    listed = s->pprev != NULL;
    if (listed) {
        *s->pprev = s->next;
        if (s->next)
            s->next->pprev = s->pprev;
        s->pprev = NULL;
        s->next = NULL;
    }
    pthread_mutex_unlock(&s->ctx->issue);
    if (listed)
        sg_obj_put(&s->obj);
}

/* ---- operations ---- */

static bool op_grow_deps(struct sg_op *op)
{
    if (op->ndeps == op->cap_deps) {
        unsigned cap = op->cap_deps ? 2 * op->cap_deps : 4;
        struct sg_dep *grown = realloc(op->deps, cap * sizeof(*grown));

        if (!grown)
            return false;
        op->deps = grown;
        op->cap_deps = cap;
    }
    return true;
}

bool sg_op_add_dep(struct sg_op *op, struct sg_stream *s, uint64_t seq)
{
    if (atomic_load(&s->completed) >= seq)
        return true;
    if (!op_grow_deps(op))
        return false;
    sg_obj_get(&s->obj);
    op->deps[op->ndeps++] = (struct sg_dep){s, seq};
    return true;
}

bool sg_op_keep(struct sg_op *op, struct sg_stream *s)
{
    if (!op_grow_deps(op))
        return false;
    op->deps[op->ndeps++] = (struct sg_dep){s, 0};
    return true;
}

void sg_op_end(struct sg_op *op)
{
    for (unsigned i = 0; i < op->ndeps; i++)
        sg_obj_put(&op->deps[i].stream->obj);
    free(op->deps);
    op->deps = NULL;
    op->ndeps = op->cap_deps = 0;
    op->drop(op);
}

static void complete_operation(struct sg_stream *s, uint64_t seq)
{
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->completed, seq);
    pthread_cond_broadcast(&s->done);
    if (s->watches) /* of an operation that another thread has run */
        pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    atomic_fetch_add(&ended_operations, 1);
}

void sg_operations(uint64_t *issued, uint64_t *ended)
{
    *ended = atomic_load(&ended_operations); /* first: what ends meanwhile has been issued */
    *issued = atomic_load(&issued_operations);
}

bool sg_stream_cut(const struct sg_stream *s)
{
    return atomic_load(&s->ctx->cut) || (s->green && atomic_load(&s->green->cut));
}

static bool has_ended(struct sg_stream *s)
{
    bool ended;

    pthread_mutex_lock(&s->lock);
    ended = s->ended;
    pthread_mutex_unlock(&s->lock);
    return ended;
}

/* Waits for its turn, runs op, completes and drops it. */
static CUresult op_execute(struct sg_op *op, struct sg_stream *s)
{
    CUresult r;
    uint64_t seq = op->seq;
    bool skip;

    sg_stream_wait(s, seq - 1);
    /* The caller of cuCtxWaitEvent would wait for work that it may have to let go itself. */
    skip = op->only_waits && has_ended(s);
    for (unsigned i = 0; i < op->ndeps && !skip; i++)
        sg_stream_wait(op->deps[i].stream, op->deps[i].seq);
    r = (CUresult)atomic_load(&s->ctx->fault);
    if (r == CUDA_SUCCESS && sg_stream_cut(s))
        r = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if ((r == CUDA_SUCCESS && !skip) || op->run_always)
        r = op->run(op, s);
    /* Release first: a waiter may rely on everything being released at completion. */
    sg_op_end(op);
    complete_operation(s, seq);
    return r;
}

static void *stream_main(void *arg)
{
    struct sg_stream *s = arg;

    for (;;) {
        struct sg_watch *due;
        struct sg_op *op;
        bool early;

        pthread_mutex_lock(&s->lock);
        while (!s->head && !sg_watch_due(s) && (!s->dying || s->watches))
            pthread_cond_wait(&s->work, &s->lock);
        due = sg_watches_take(s);
        op = s->head;
        if (op) {
            s->head = op->next;
            if (!s->head)
                s->tail = NULL;
        }
        s->ended = !op && !due;
        /* Under the lock: the watches of what completes later are not in `due`. */
        early = op && atomic_load(&s->completed) < op->seq - 1;
        pthread_mutex_unlock(&s->lock);
        if (!op && !due)
            break;
        sg_watches_run(s, due);
        if (early) {
            sg_stream_wait(s, op->seq - 1); /* run by another thread */
            pthread_mutex_lock(&s->lock);
            due = sg_watches_take(s);
            pthread_mutex_unlock(&s->lock);
            sg_watches_run(s, due);
        }
        if (op)
            op_execute(op, s);
    }
    if (!s->bare)
        unlink_stream(s);
    sg_obj_put(&s->obj);
    return NULL;
}

static bool start_thread_locked(struct sg_stream *s)
{
    pthread_attr_t attr;
    pthread_t t;

    if (s->thread)
        return true;
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attr, SG_STREAM_STACK);
    sg_obj_get(&s->obj);
    s->thread = pthread_create(&t, &attr, stream_main, s) == 0;
    pthread_attr_destroy(&attr);
    if (!s->thread)
        sg_obj_put(&s->obj); /* the caller holds a reference, so this is not the last */
    return s->thread;
}

static bool enqueue_operation(struct sg_stream *s, struct sg_op *op)
{
    bool ok;

    pthread_mutex_lock(&s->lock);
    ok = !s->ended && start_thread_locked(s);
    if (ok) {
        op->next = NULL;
        if (s->tail)
            s->tail->next = op;
        else
            s->head = op;
        s->tail = op;
        pthread_cond_signal(&s->work);
    }
    pthread_mutex_unlock(&s->lock);
    return ok;
}

/* Adds the dependencies of the default-stream rules. Under the issue lock. */
static bool add_implicit_deps(struct sg_op *op, struct sg_stream *s)
{
    struct sg_ctx *ctx = s->ctx;
    struct sg_stream *standard = (s->green ? s->green : ctx)->legacy;

    for (unsigned i = 0; s->first && i < s->first->n; i++) {
        if (!sg_op_add_dep(op, s->first->dep[i].stream, s->first->dep[i].seq))
            return false;
    }

    if (!s->legacy) {
        if (s->flags & CU_STREAM_NON_BLOCKING)
            return true;
        return sg_op_add_dep(op, standard, atomic_load(&standard->submitted));
    }
    for (struct sg_stream *o = ctx->streams; o; o = o->next) {
        if (o != s && o->green == s->green && !(o->flags & CU_STREAM_NON_BLOCKING) &&
            !sg_op_add_dep(op, o, atomic_load(&o->submitted)))
            return false;
    }
    return true;
}

CUresult sg_issue(struct sg_stream *s, struct sg_op *op, enum sg_issue_mode mode)
{
    struct sg_ctx *ctx = s->ctx;
    uint64_t submitted = atomic_load(&s->submitted);
    struct sg_deps *first;
    bool queued = false;
    CUresult r;

    if (atomic_load(&sg_captures) && sg_hooks->capture_op(s, op, mode == SG_ISSUE_SYNC, &r))
        return r;
    if (submitted > SG_STREAM_PENDING_MAX)
        sg_stream_wait(s, submitted - SG_STREAM_PENDING_MAX);
    pthread_mutex_lock(&ctx->issue);
    if (!atomic_load(&ctx->alive) || !add_implicit_deps(op, s)) {
        pthread_mutex_unlock(&ctx->issue);
        sg_op_end(op);
        return atomic_load(&ctx->alive) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    if (atomic_load(&sg_captures) && (r = sg_hooks->check_legacy(s)) != CUDA_SUCCESS) {
        pthread_mutex_unlock(&ctx->issue);
        sg_op_end(op);
        return r;
    }
    /* op holds them; not under the lock: this may drop the last reference to a context */
    first = s->first;
    s->first = NULL;
    op->seq = atomic_load(&s->submitted) + 1;
    atomic_store(&s->submitted, op->seq);
    atomic_fetch_add(&issued_operations, 1);
    if (op->issued)
        op->issued(op, s);
    if (mode == SG_ISSUE_ASYNC ||
        (mode == SG_ISSUE_INLINE && (op->ndeps || atomic_load(&s->completed) != op->seq - 1)))
        queued = enqueue_operation(s, op); /* no thread, or the stream was just destroyed: run it here */
    pthread_mutex_unlock(&ctx->issue);
    sg_deps_free(first);
    if (queued)
        return CUDA_SUCCESS;
    r = op_execute(op, s);
    if (mode == SG_ISSUE_SYNC)
        return sg_see_fault(ctx) != CUDA_SUCCESS ? sg_see_fault(ctx) : r;
    /* The result does not depend on whether the caller happened to run the operation itself. */
    return r == (CUresult)atomic_load(&ctx->fault) ? CUDA_SUCCESS : r;
}

/* ---- life ---- */

void sg_stream_retire(struct sg_stream *s)
{
    bool has_thread;

    pthread_mutex_lock(&s->lock);
    s->dying = true; /* first: no capture begins in it from now on */
    has_thread = s->thread;
    pthread_cond_signal(&s->work);
    pthread_mutex_unlock(&s->lock);
    sg_hooks->abandon(s);
    sg_obj_unregister(&s->obj);
    if (!has_thread && !s->bare)
        unlink_stream(s);
}

bool sg_ctx_idle(struct sg_ctx *ctx)
{
    bool idle = sg_stream_idle(ctx->legacy);

    pthread_mutex_lock(&ctx->issue);
    for (struct sg_stream *s = ctx->streams; s && idle; s = s->next)
        idle = sg_stream_idle(s);
    pthread_mutex_unlock(&ctx->issue);
    return idle;
}

bool sg_ctx_has(const struct sg_ctx *ctx, const struct sg_stream *s)
{
    return ctx == s->green || ctx == s->ctx;
}

/* True if o belongs to the streams waited for with self or, for a legacy stream, with that
   stream. */
static bool goes_with(const struct sg_ctx *self, const struct sg_stream *legacy, const struct sg_stream *o)
{
    if (!legacy)
        return sg_ctx_has(self, o);
    return o != legacy && o->green == legacy->green && !(o->flags & CU_STREAM_NON_BLOCKING);
}

static void drain_streams(struct sg_ctx *self, const struct sg_stream *legacy)
{
    struct sg_ctx *ctx = self->base;
    struct {
        SG_COUNTED struct sg_stream *s;
        uint64_t seq;
    } *wait = NULL;
    size_t n = 0, cap = 0;

    pthread_mutex_lock(&ctx->issue);
    for (struct sg_stream *s = ctx->streams; s; s = s->next)
        cap++;
    if (cap)
        wait = malloc(cap * sizeof(*wait));
    for (struct sg_stream *s = ctx->streams; s && wait; s = s->next) {
        if (sg_stream_idle(s) || !goes_with(self, legacy, s))
            continue;
        sg_obj_get(&s->obj);
        wait[n].s = s;
        wait[n++].seq = atomic_load(&s->submitted);
    }
    pthread_mutex_unlock(&ctx->issue);
    for (size_t i = 0; i < n; i++) {
        sg_stream_wait(wait[i].s, wait[i].seq);
        sg_obj_put(&wait[i].s->obj);
    }
    free(wait);
    if (cap && !wait) {
        /* No memory for the list: one stream at a time, until none is busy. */
        struct sg_stream *busy;

        do {
            pthread_mutex_lock(&ctx->issue);
            for (busy = ctx->streams; busy && (sg_stream_idle(busy) || !goes_with(self, legacy, busy));)
                busy = busy->next;
            if (busy)
                sg_obj_get(&busy->obj);
            pthread_mutex_unlock(&ctx->issue);
            if (busy) {
                sg_stream_drain(busy);
                sg_obj_put(&busy->obj);
            }
        } while (busy);
    }
}

void sg_ctx_drain(struct sg_ctx *self)
{
    sg_stream_drain(self->legacy);
    drain_streams(self, NULL);
    sg_stream_drain(self->legacy);
    atomic_fetch_add(&sg_waits, 1);
}

void sg_stream_synchronize(struct sg_stream *s)
{
    if (s->legacy)
        drain_streams(s->ctx, s);
    sg_stream_drain(s);
}

bool sg_stream_is_complete(struct sg_stream *s)
{
    bool idle = sg_stream_idle(s);

    if (!s->legacy)
        return idle;
    pthread_mutex_lock(&s->ctx->issue);
    for (struct sg_stream *o = s->ctx->streams; o && idle; o = o->next)
        idle = !goes_with(s->ctx, s, o) || sg_stream_idle(o);
    pthread_mutex_unlock(&s->ctx->issue);
    return idle;
}

void sg_ctx_retire_streams(struct sg_ctx *ctx)
{
    for (;;) {
        struct sg_stream *s;

        pthread_mutex_lock(&ctx->issue);
        s = ctx->streams;
        if (s)
            sg_obj_get(&s->obj);
        pthread_mutex_unlock(&ctx->issue);
        if (!s)
            return;
        sg_stream_retire(s);
        unlink_stream(s);
        sg_obj_put(&s->obj);
    }
}

/* SPDX-License-Identifier: MIT */
/* Driver API: events. An event stands for "that operation of that stream has completed". */
#include <stdlib.h>
#include <time.h>

#include "sg_event.h"
#include "sg_graph.h"

#define SG_EVENT_FLAGS (CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)

uint64_t sg_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

/* An event of any context; without one a context must be current for the error to be 400. */
static CUresult event_get(CUevent h, struct sg_event **out)
{
    struct sg_ctx *ctx;
    struct sg_tls *t;
    CUresult r = sg_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    t = sg_tls();
    if (t && t->in_callback)
        return CUDA_ERROR_NOT_PERMITTED;
    *out = SG_LOOKUP(h, SG_T_EVENT);
    if (*out)
        return CUDA_SUCCESS;
    r = sg_current(&ctx);
    return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_HANDLE;
}

static bool event_state(struct sg_event *e, struct sg_stream **s, uint64_t *seq);

#define SG_EVENT(var, h)                                                                           \
    SG_AUTO struct sg_event *var = NULL;                                                           \
    do {                                                                                           \
        CUresult sg_rc_ = event_get((h), &(var));                                                  \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
    } while (0)

static void event_free(struct sg_obj *obj)
{
    struct sg_event *e = (struct sg_event *)obj;

    sg_obj_put((struct sg_obj *)e->stream);
    pthread_mutex_destroy(&e->lock);
    sg_front_clear(e->front);
    free(e->front);
    sg_ipc_event_end(e->ipc);
    free(e);
}

/* ipc: taken over, also on failure; or NULL. */
static CUresult event_new(struct sg_ctx *ctx, unsigned Flags, struct sg_ipc_event *ipc,
                          CUevent *phEvent)
{
    struct sg_event *e = calloc(1, sizeof(*e));

    if (!e || !(e->front = calloc(1, sizeof(*e->front)))) {
        free(e);
        sg_ipc_event_end(ipc);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    e->ipc = ipc;
    sg_obj_init(&e->obj, SG_T_EVENT, ctx, event_free);
    pthread_mutex_init(&e->lock, NULL);
    e->flags = Flags;
    bool ok = sg_obj_register(&e->obj);

    if (ok)
        *phEvent = SG_HANDLE(CUevent, e);
    sg_obj_put(&e->obj);
    return ok ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    struct sg_ipc_event *ipc = NULL;

    SG_CTX(ctx);
    if (!phEvent || (Flags & ~(unsigned)SG_EVENT_FLAGS) ||
        ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    if (Flags & CU_EVENT_INTERPROCESS && !(ipc = sg_ipc_event_new()))
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuEventCreate: no page to share");
    return event_new(ctx, Flags, ipc, phEvent);
}

CUresult sg_event_open(struct sg_ctx *ctx, const uint8_t *token, unsigned flags, CUevent *out)
{
    struct sg_ipc_event *ipc;
    CUresult r = sg_ipc_event_open(token, &ipc);

    return r == CUDA_SUCCESS ? event_new(ctx, CU_EVENT_DISABLE_TIMING | flags, ipc, out) : r;
}

CUresult sg_event_token(CUevent event, uint8_t *token, unsigned *flags)
{
    SG_EVENT(e, event);
    if (!e->ipc || !sg_ipc_event_token(e->ipc, token))
        return sg_fail(CUDA_ERROR_INVALID_HANDLE,
                       "cuIpcGetEventHandle: not created with CU_EVENT_INTERPROCESS here");
    *flags = e->flags & CU_EVENT_BLOCKING_SYNC;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventDestroy_v2(CUevent hEvent)
{
    SG_EVENT(e, hEvent);
    return sg_obj_unregister(&e->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuEventDestroy(CUevent hEvent)
{
    return cuEventDestroy_v2(hEvent);
}

/* ---- recording ---- */

struct record_op {
    struct sg_op op;
    struct sg_event *event; /* a reference */
    struct sg_stream *old;  /* the event's stream before: let go outside the issue lock */
    uint64_t record;
    uint64_t ipc_record; /* for other processes, 0: none */
};

static void record_issued(struct sg_op *op, struct sg_stream *s)
{
    struct record_op *o = (struct record_op *)op;
    struct sg_event *e = o->event;

    sg_obj_get(&s->obj);
    pthread_mutex_lock(&e->lock);
    o->old = e->stream;
    e->stream = s;
    e->seq = op->seq;
    o->record = ++e->record;
    if (e->ipc)
        o->ipc_record = e->ipc_record = sg_ipc_event_record(e->ipc);
    pthread_mutex_unlock(&e->lock);
}

static CUresult record_run(struct sg_op *op, struct sg_stream *s)
{
    struct record_op *o = (struct record_op *)op;

    (void)s;
    if (!(o->event->flags & CU_EVENT_DISABLE_TIMING)) {
        uint64_t now = sg_now_ns();

        pthread_mutex_lock(&o->event->lock);
        if (o->event->record == o->record) {
            o->event->stamp_ns = now;
            o->event->stamp_record = o->record;
        }
        pthread_mutex_unlock(&o->event->lock);
    }
    return CUDA_SUCCESS;
}

static void record_drop(struct sg_op *op)
{
    struct record_op *o = (struct record_op *)op;

    if (o->ipc_record) /* here, because an operation that is not run is over too */
        sg_ipc_event_complete(o->event->ipc, o->ipc_record);
    sg_obj_put(&o->event->obj);
    sg_obj_put((struct sg_obj *)o->old);
    free(o);
}

/* ---- nodes of graphs: the event stands for the launch that they are part of ---- */

struct node_op {
    struct sg_op op;
    struct sg_event *event; /* a reference */
};

static CUresult node_run(struct sg_op *op, struct sg_stream *s)
{
    struct sg_event *e = ((struct node_op *)op)->event;

    if (op->node_type != CU_GRAPH_NODE_TYPE_EVENT_RECORD || e->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_SUCCESS; /* waiting was a dependency of the launch */
    pthread_mutex_lock(&e->lock);
    if (e->stream == s && e->seq == atomic_load(&s->completed) + 1) {
        e->stamp_ns = sg_now_ns();
        e->stamp_record = e->record;
    }
    pthread_mutex_unlock(&e->lock);
    return CUDA_SUCCESS;
}

static void node_drop(struct sg_op *op)
{
    sg_obj_put(&((struct node_op *)op)->event->obj);
    free(op);
}

CUresult sg_event_op(CUevent event, bool wait, struct sg_op **out)
{
    struct node_op *o;

    if (!event)
        return CUDA_ERROR_INVALID_VALUE;
    SG_EVENT(e, event);
    if (e->ipc)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "interprocess events in graphs");
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = node_run;
    o->op.drop = node_drop;
    o->op.node_type = wait ? CU_GRAPH_NODE_TYPE_WAIT_EVENT : CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    sg_obj_get(&e->obj);
    o->event = e;
    *out = &o->op;
    return CUDA_SUCCESS;
}

CUevent sg_event_of(struct sg_op *op)
{
    return SG_HANDLE(CUevent, ((struct node_op *)op)->event);
}

/* False: no memory to let the event's stream of before go later, outside the lock. */
bool sg_event_node_record(struct sg_op *node, struct sg_op *op, struct sg_stream *s)
{
    struct sg_event *e = ((struct node_op *)node)->event;
    struct sg_stream *old;

    pthread_mutex_lock(&e->lock);
    old = e->stream;
    if (old != s) {
        sg_obj_get(&s->obj);
        e->stream = s;
    }
    e->seq = op->seq;
    e->record++;
    pthread_mutex_unlock(&e->lock);
    /* A dependency that holds already keeps the reference until the launch has been run. */
    return !old || old == s || sg_op_keep(op, old);
}

bool sg_event_node_wait(struct sg_op *node, struct sg_op *op)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    return !event_state(((struct node_op *)node)->event, &s, &seq) || sg_op_add_dep(op, s, seq);
}

static struct record_op *record_new(struct sg_event *e)
{
    struct record_op *o = calloc(1, sizeof(*o));

    if (!o)
        return NULL;
    o->op.run = record_run;
    o->op.node_type = -1;
    o->op.issued = record_issued;
    o->op.drop = record_drop;
    sg_obj_get(&e->obj);
    o->event = e;
    return o;
}

CUresult CUDAAPI cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct record_op *o;
    CUresult r;

    r = sg_stream_get_any(hStream, &s);
    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    r = (CUresult)atomic_load(&s->ctx->sticky);
    if (r != CUDA_SUCCESS)
        return r;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    SG_EVENT(e, hEvent);
    if (e->obj.owner != s->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags) /* only meaningful in a capture, where it makes an event node */
        return sg_capture_event(s, hEvent, false);
    if ((atomic_load(&sg_captures) || e->front->capture) && sg_capture_record(s, e, &r))
        return r;
    o = record_new(e);
    return o ? sg_issue(s, &o->op, SG_ISSUE_INLINE) : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return cuEventRecordWithFlags(hEvent, hStream, 0);
}

CUresult CUDAAPI cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
    return cuEventRecordWithFlags(hEvent, SG_PTSZ(hStream), 0);
}

CUresult CUDAAPI cuEventRecordWithFlags_ptsz(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    return cuEventRecordWithFlags(hEvent, SG_PTSZ(hStream), flags);
}

/* ---- asking and waiting ---- */

/* The operation of the latest record; false: never recorded. The stream comes with a reference. */
static bool event_state(struct sg_event *e, struct sg_stream **s, uint64_t *seq)
{
    pthread_mutex_lock(&e->lock);
    *s = e->stream;
    *seq = e->seq;
    if (*s)
        sg_obj_get(&(*s)->obj);
    pthread_mutex_unlock(&e->lock);
    return *s != NULL;
}

/* True when another process made the latest record, which is *n. */
static bool recorded_elsewhere(struct sg_event *e, uint64_t *n)
{
    bool elsewhere;

    if (!e->ipc)
        return false;
    pthread_mutex_lock(&e->lock);
    *n = sg_ipc_event_latest(e->ipc);
    elsewhere = *n && *n != e->ipc_record;
    pthread_mutex_unlock(&e->lock);
    return elsewhere;
}

CUresult CUDAAPI cuEventQuery(CUevent hEvent)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    SG_EVENT(e, hEvent);
    if (e->front->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    SG_NOT_CAPTURING();
    if (recorded_elsewhere(e, &seq))
        return sg_ipc_event_done(e->ipc, seq) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (!event_state(e, &s, &seq))
        return CUDA_SUCCESS;
    bool done = atomic_load(&s->completed) >= seq;
    CUresult r = (CUresult)atomic_load(&s->ctx->sticky);

    return r != CUDA_SUCCESS ? r : done ? sg_see_fault(s->ctx) : CUDA_ERROR_NOT_READY;
}

CUresult CUDAAPI cuEventSynchronize(CUevent hEvent)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    SG_EVENT(e, hEvent);
    if (e->front->capture)
        return CUDA_ERROR_CAPTURED_EVENT;
    SG_NOT_CAPTURING();
    if (recorded_elsewhere(e, &seq)) {
        sg_ipc_event_wait(e->ipc, seq);
        return CUDA_SUCCESS;
    }
    if (!event_state(e, &s, &seq))
        return CUDA_SUCCESS;
    sg_stream_wait(s, seq);
    return sg_see_fault(s->ctx);
}

CUresult CUDAAPI cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    SG_AUTO struct sg_stream *s0 = NULL, *s1 = NULL;
    uint64_t q0, q1, t0, t1;

    SG_EVENT(a, hStart);
    SG_EVENT(b, hEnd);
    if (!pMilliseconds)
        return CUDA_ERROR_INVALID_VALUE;
    if (a->obj.owner != b->obj.owner || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) ||
        !event_state(a, &s0, &q0) || !event_state(b, &s1, &q1))
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = (CUresult)atomic_load(&s0->ctx->sticky);

    if (r != CUDA_SUCCESS)
        return r;
    if (atomic_load(&s0->completed) < q0 || atomic_load(&s1->completed) < q1)
        return CUDA_ERROR_NOT_READY;
    pthread_mutex_lock(&a->lock);
    t0 = a->stamp_ns;
    pthread_mutex_unlock(&a->lock);
    pthread_mutex_lock(&b->lock);
    t1 = b->stamp_ns;
    pthread_mutex_unlock(&b->lock);
    *pMilliseconds = (float)((double)(int64_t)(t1 - t0) / 1e6);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    return cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

/* ---- making a stream wait ---- */

static CUresult nothing_run(struct sg_op *op, struct sg_stream *s)
{
    (void)op;
    (void)s;
    return CUDA_SUCCESS;
}

static void nothing_drop(struct sg_op *op)
{
    free(op);
}

/* ... for a record of another process: the stream's thread sleeps until then. */

struct remote_op {
    struct sg_op op;
    struct sg_event *event; /* a reference */
    uint64_t n;
};

static CUresult remote_run(struct sg_op *op, struct sg_stream *s)
{
    struct remote_op *o = (struct remote_op *)op;

    (void)s;
    sg_ipc_event_wait(o->event->ipc, o->n);
    return CUDA_SUCCESS;
}

static void remote_drop(struct sg_op *op)
{
    sg_obj_put(&((struct remote_op *)op)->event->obj);
    free(op);
}

static CUresult wait_remote(struct sg_stream *s, struct sg_event *e, uint64_t n)
{
    struct remote_op *o;

    if (sg_ipc_event_done(e->ipc, n))
        return CUDA_SUCCESS;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = remote_run;
    o->op.node_type = -1;
    o->op.drop = remote_drop;
    sg_obj_get(&e->obj);
    o->event = e;
    o->n = n;
    return sg_issue(s, &o->op, SG_ISSUE_ASYNC);
}

/* What is issued on s from now on waits for what e stands for now. */
static CUresult wait_event(struct sg_stream *s, struct sg_event *e)
{
    SG_AUTO struct sg_stream *from = NULL;
    struct sg_op *op;
    uint64_t seq;

    if (recorded_elsewhere(e, &seq))
        return wait_remote(s, e, seq);
    if (!event_state(e, &from, &seq) || from == s || atomic_load(&from->completed) >= seq)
        return CUDA_SUCCESS;
    op = calloc(1, sizeof(*op));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->run = nothing_run;
    op->node_type = -1;
    op->drop = nothing_drop;
    if (!sg_op_add_dep(op, from, seq)) {
        free(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sg_issue(s, op, SG_ISSUE_INLINE);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r = sg_stream_get_any(hStream, &s);

    if (r != CUDA_SUCCESS) {
        s = NULL;
        return r;
    }
    r = (CUresult)atomic_load(&s->ctx->sticky);
    if (r != CUDA_SUCCESS)
        return r;
    if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    SG_EVENT(e, hEvent);
    if (Flags) /* only meaningful in a capture, where it makes an event node */
        return sg_capture_event(s, hEvent, true);
    if ((atomic_load(&sg_captures) || e->front->capture) && sg_capture_wait(s, e, &r))
        return r;
    return wait_event(s, e);
}

CUresult CUDAAPI cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    return cuStreamWaitEvent(SG_PTSZ(hStream), hEvent, Flags);
}

/* ---- all streams of a context ---- */

/* op begins when everything that was issued in ctx is complete. False: out of memory. */
static bool after_all(struct sg_op *op, struct sg_ctx *self)
{
    struct sg_ctx *ctx = self->base;
    bool ok;

    pthread_mutex_lock(&ctx->issue);
    ok = sg_op_add_dep(op, self->legacy, atomic_load(&self->legacy->submitted));
    for (struct sg_stream *s = ctx->streams; s && ok; s = s->next)
        ok = !sg_ctx_has(self, s) || sg_op_add_dep(op, s, atomic_load(&s->submitted));
    pthread_mutex_unlock(&ctx->issue);
    return ok;
}

/* A context that may be asked for its work; INVALID_CONTEXT, its error, what a capture forbids. */
static CUresult ctx_get(CUcontext h, struct sg_ctx **out)
{
    CUresult r = sg_check_init();

    *out = NULL;
    if (r != CUDA_SUCCESS)
        return r;
    *out = sg_ctx_find(h);
    if (!*out)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!sg_ctx_alive(*out))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    r = (CUresult)atomic_load(&(*out)->base->sticky);
    return r != CUDA_SUCCESS ? r : sg_capture_check_ctx(*out);
}

/* The event is recorded on a stream of its own, which waits for the others and is gone then. */
CUresult CUDAAPI cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
    SG_AUTO struct sg_ctx *c = NULL;
    struct sg_stream *s;
    struct record_op *o;
    CUresult r = ctx_get(hCtx, &c);

    if (r != CUDA_SUCCESS)
        return r;
    SG_EVENT(e, hEvent);
    if (e->obj.owner != c->base)
        return CUDA_ERROR_INVALID_HANDLE;
    r = sg_stream_new(c, CU_STREAM_NON_BLOCKING, 0, &s);
    if (r != CUDA_SUCCESS)
        return r;
    o = record_new(e);
    if (!o) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (!after_all(&o->op, c)) {
        record_drop(&o->op);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        r = sg_issue(s, &o->op, SG_ISSUE_ASYNC);
    }
    sg_stream_retire(s);
    sg_obj_put(&s->obj);
    return r;
}

/*
 * Reaches the streams that there are and those to come; with an event that another process has recorded,
 * of these only the blocking ones.
 */
CUresult CUDAAPI cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
    SG_AUTO struct sg_ctx *c = NULL;
    SG_AUTO struct sg_stream *from = NULL;
    struct sg_stream **all = NULL;
    size_t n = 0, cap = 1;
    uint64_t seq;
    CUresult r = ctx_get(hCtx, &c);

    if (r != CUDA_SUCCESS)
        return r;
    SG_EVENT(e, hEvent);
    if (e->front->capture)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (!recorded_elsewhere(e, &seq) && event_state(e, &from, &seq) &&
        atomic_load(&from->completed) < seq && !sg_ctx_gate(c, from, seq))
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&c->base->issue);
    for (struct sg_stream *s = c->base->streams; s; s = s->next)
        cap++;
    all = malloc(cap * sizeof(*all));
    if (all) {
        sg_obj_get(&c->legacy->obj);
        all[n++] = c->legacy;
        for (struct sg_stream *s = c->base->streams; s; s = s->next) {
            if (s == c->legacy || !sg_ctx_has(c, s))
                continue;
            sg_obj_get(&s->obj);
            all[n++] = s;
        }
    }
    pthread_mutex_unlock(&c->base->issue);
    if (!all)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        if (r == CUDA_SUCCESS)
            r = wait_event(all[i], e);
        sg_obj_put(&all[i]->obj);
    }
    free(all);
    return r;
}

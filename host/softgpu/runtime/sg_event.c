/* SPDX-License-Identifier: MIT */
/* Events. An event refers to an operation of a stream and is complete when that operation is. */
#include <stdlib.h>
#include <time.h>

#include "runtime/ipc_event.h"
#include "runtime/runtime.h"
#include "lib/clock/clock.h"

/* An event of any context. For an unknown handle, 400 requires a current context. */
CUresult sg_event_get(CUevent h, struct sg_event **out)
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

static void event_free(struct sg_obj *obj)
{
    struct sg_event *e = (struct sg_event *)obj;

    sg_obj_put((struct sg_obj *)e->stream);
    pthread_mutex_destroy(&e->lock);
    sg_hooks->front_free(e->front);
    sg_ipc_event_end(e->ipc);
    free(e);
}

/* Takes ownership of ipc, even on failure; ipc may be NULL. */
static CUresult make_event(struct sg_ctx *ctx, unsigned Flags, struct sg_ipc_event *ipc, CUevent *phEvent)
{
    struct sg_event *e = calloc(1, sizeof(*e));

    if (!e || !(e->front = sg_hooks->front_new())) {
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

CUresult sg_event_new(struct sg_ctx *ctx, unsigned flags, CUevent *out)
{
    struct sg_ipc_event *ipc = NULL;

    if (flags & CU_EVENT_INTERPROCESS && !(ipc = sg_ipc_event_new()))
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuEventCreate: no page to share");
    return make_event(ctx, flags, ipc, out);
}

CUresult sg_event_open(struct sg_ctx *ctx, const uint8_t *token, unsigned flags, CUevent *out)
{
    struct sg_ipc_event *ipc;
    CUresult r = sg_ipc_event_open(token, &ipc);

    return r == CUDA_SUCCESS ? make_event(ctx, CU_EVENT_DISABLE_TIMING | flags, ipc, out) : r;
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

/* The operation of the latest record; false: never recorded. The stream comes with a reference. */
bool sg_event_state(struct sg_event *e, struct sg_stream **s, uint64_t *seq)
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
bool sg_event_elsewhere(struct sg_event *e, uint64_t *n)
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

bool sg_event_elsewhere_done(struct sg_event *e, uint64_t n)
{
    return sg_ipc_event_done(e->ipc, n);
}

void sg_event_elsewhere_wait(struct sg_event *e, uint64_t n)
{
    sg_ipc_event_wait(e->ipc, n);
}

/* ---- recording ---- */

struct record_op {
    struct sg_op op;
    SG_COUNTED struct sg_event *event; /* a reference */
    /* the event's previous stream: released outside the issue lock */
    SG_COUNTED struct sg_stream *old;
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
        uint64_t now = clk_now_ns();

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
    SG_COUNTED struct sg_event *event; /* a reference */
};

static CUresult node_run(struct sg_op *op, struct sg_stream *s)
{
    struct sg_event *e = ((struct node_op *)op)->event;

    if (op->node_type != CU_GRAPH_NODE_TYPE_EVENT_RECORD || e->flags & CU_EVENT_DISABLE_TIMING)
        return CUDA_SUCCESS; /* waiting was a dependency of the launch */
    pthread_mutex_lock(&e->lock);
    if (e->stream == s && e->seq == atomic_load(&s->completed) + 1) {
        e->stamp_ns = clk_now_ns();
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

    return !sg_event_state(((struct node_op *)node)->event, &s, &seq) || sg_op_add_dep(op, s, seq);
}

struct sg_op *sg_event_record_op(struct sg_event *e)
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
    return &o->op;
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
    SG_COUNTED struct sg_event *event; /* a reference */
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
    o->op.only_waits = true;
    o->op.node_type = -1;
    o->op.drop = remote_drop;
    sg_obj_get(&e->obj);
    o->event = e;
    o->n = n;
    return sg_issue(s, &o->op, SG_ISSUE_ASYNC);
}

CUresult sg_event_wait(struct sg_stream *s, struct sg_event *e)
{
    SG_AUTO struct sg_stream *from = NULL;
    struct sg_op *op;
    uint64_t seq;

    if (sg_event_elsewhere(e, &seq))
        return wait_remote(s, e, seq);
    if (!sg_event_state(e, &from, &seq) || from == s || atomic_load(&from->completed) >= seq)
        return CUDA_SUCCESS;
    op = calloc(1, sizeof(*op));
    if (!op)
        return CUDA_ERROR_OUT_OF_MEMORY;
    op->run = nothing_run;
    op->only_waits = true;
    op->node_type = -1;
    op->drop = nothing_drop;
    if (!sg_op_add_dep(op, from, seq)) {
        free(op);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return sg_issue(s, op, SG_ISSUE_INLINE);
}

bool sg_event_when(CUevent event, void (*fn)(void *arg, CUresult r), void *arg)
{
    SG_AUTO struct sg_event *e = NULL;
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    return sg_event_get(event, &e) == CUDA_SUCCESS && !sg_event_elsewhere(e, &seq) &&
           sg_event_state(e, &s, &seq) && sg_stream_when(s, seq, fn, arg);
}

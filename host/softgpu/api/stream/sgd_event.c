/* SPDX-License-Identifier: MIT */
/*
 * Driver API: events. An event refers to an operation of a stream and is complete when that
 * operation is.
 */
#include <stdlib.h>

#include "api/api.h"

/* ---- recording ---- */

CUresult sgd_cuEventRecordWithFlags(CUevent hEvent, struct sg_stream *s, unsigned int flags)
{
    struct sg_op *op;
    CUresult r;

    SG_EVENT(e, hEvent);
    if (e->obj.owner != s->ctx)
        return CUDA_ERROR_INVALID_HANDLE;
    if (flags) /* only meaningful in a capture, in which the call creates an event node */
        return sg_capture_event(s, hEvent, false);
    if ((atomic_load(&sg_captures) || e->front->capture) && sg_capture_record(s, e, &r))
        return r;
    op = sg_event_record_op(e);
    return op ? sg_issue(s, op, SG_ISSUE_INLINE) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- asking and waiting ---- */

CUresult sgd_cuEventQuery(struct sg_event *e)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    if (sg_event_elsewhere(e, &seq))
        return sg_event_elsewhere_done(e, seq) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
    if (!sg_event_state(e, &s, &seq))
        return CUDA_SUCCESS;
    bool done = atomic_load(&s->completed) >= seq;
    CUresult r = (CUresult)atomic_load(&s->ctx->sticky);

    return r != CUDA_SUCCESS ? r : done ? sg_see_fault(s->ctx) : CUDA_ERROR_NOT_READY;
}

CUresult sgd_cuEventSynchronize(struct sg_event *e)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t seq;

    if (sg_event_elsewhere(e, &seq)) {
        sg_event_elsewhere_wait(e, seq);
        return CUDA_SUCCESS;
    }
    if (!sg_event_state(e, &s, &seq))
        return CUDA_SUCCESS;
    sg_stream_wait(s, seq);
    atomic_fetch_add(&sg_waits, 1);
    return sg_see_fault(s->ctx);
}

CUresult sgd_cuEventElapsedTime_v2(float *pMilliseconds, struct sg_event *a, struct sg_event *b)
{
    SG_AUTO struct sg_stream *s1 = NULL;
    SG_AUTO struct sg_stream *s0 = NULL;
    uint64_t q0, q1, t0, t1;

    if (a->obj.owner != b->obj.owner || ((a->flags | b->flags) & CU_EVENT_DISABLE_TIMING) ||
        !sg_event_state(a, &s0, &q0) || !sg_event_state(b, &s1, &q1))
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

/* ---- making a stream wait ---- */

CUresult sgd_cuStreamWaitEvent(struct sg_stream *s, CUevent hEvent, unsigned int Flags)
{
    CUresult r;

    SG_EVENT(e, hEvent);
    if (Flags) /* only meaningful in a capture, in which the call creates an event node */
        return sg_capture_refuse_wait(s, e) ? CUDA_ERROR_INVALID_VALUE : sg_capture_event(s, hEvent, true);
    if ((atomic_load(&sg_captures) || e->front->capture) && sg_capture_wait(s, e, &r))
        return r;
    return sg_event_wait(s, e);
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

CUresult sg_ctx_waitable(CUcontext h, struct sg_ctx **out)
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

/* Records the event on a temporary stream that waits for the others. */
CUresult sgd_cuCtxRecordEvent(struct sg_ctx *c, struct sg_event *e)
{
    struct sg_stream *s;
    struct sg_op *op;
    CUresult r = sg_stream_new(c, CU_STREAM_NON_BLOCKING, 0, &s);

    if (r != CUDA_SUCCESS)
        return r;
    op = sg_event_record_op(e);
    if (!op) {
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else if (!after_all(op, c)) {
        sg_op_end(op);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    } else {
        r = sg_issue(s, op, SG_ISSUE_ASYNC);
    }
    sg_stream_retire(s);
    sg_obj_put(&s->obj);
    return r;
}

/*
 * Applies to existing and future streams; for an event recorded by another process, only to the
 * blocking ones among future streams.
 */
CUresult sgd_cuCtxWaitEvent(struct sg_ctx *c, struct sg_event *e)
{
    SG_AUTO struct sg_stream *from = NULL;
    struct sg_stream **all = NULL;
    size_t n = 0, cap = 1;
    uint64_t seq;
    CUresult r = CUDA_SUCCESS;

    if (!sg_event_elsewhere(e, &seq) && sg_event_state(e, &from, &seq) &&
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
            r = sg_event_wait(all[i], e);
        sg_obj_put(&all[i]->obj);
    }
    free(all);
    return r;
}

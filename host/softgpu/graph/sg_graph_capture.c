/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: operations become nodes instead of being run. A stream is part of a capture from
 * cuStreamBeginCapture, or from waiting for an event that was recorded in a captured stream, until
 * the capture ends.
 */
#include <stdlib.h>

#include "graph/graph.h"

void sg_capture_abandon(struct sg_stream *s)
{
    struct sg_capture *c;

    if (!atomic_load(&sg_captures))
        return;
    pthread_mutex_lock(&sg_graph_lock);
    c = s->front->capture;
    /* A stream forked from the origin may end; whether it was joined is checked at the end. */
    if (c && c->origin == s) {
        c->invalid = true;
        if (c->own)
            sg_obj_unregister(&c->graph->obj);
        sg_capture_close(c);
    }
    pthread_mutex_unlock(&sg_graph_lock);
}

CUresult sg_capture_check_ctx(struct sg_ctx *self)
{
    struct sg_ctx *ctx = self->base;
    CUresult r = CUDA_SUCCESS;

    if (!atomic_load(&sg_captures))
        return r;
    pthread_mutex_lock(&ctx->issue);
    pthread_mutex_lock(&sg_graph_lock);
    for (struct sg_stream *s = ctx->streams; s; s = s->next) {
        if (s->front->capture && sg_ctx_has(self, s)) {
            s->front->capture->invalid = true;
            r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    pthread_mutex_unlock(&ctx->issue);
    return r;
}

bool sg_capture_refuse_wait(struct sg_stream *s, struct sg_event *e)
{
    bool captured;

    pthread_mutex_lock(&sg_graph_lock);
    captured = e->front->capture != NULL;
    if (captured && s->front->capture)
        s->front->capture->invalid = true;
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

CUresult sg_capture_event(struct sg_stream *s, CUevent event, bool wait)
{
    struct sg_op *op;
    CUresult r = sg_event_op(event, wait, &op);

    if (r == CUDA_SUCCESS && !sg_capture_op(s, op, false, &r)) {
        sg_op_end(op);
        r = CUDA_ERROR_INVALID_VALUE; /* documented: not outside of a capture */
    }
    return r;
}

bool sg_capture_op(struct sg_stream *s, struct sg_op *op, bool sync, CUresult *r)
{
    struct sg_node *n;
    struct sg_capture *c;

    pthread_mutex_lock(&sg_graph_lock);
    c = s->front->capture;
    if (!c) {
        pthread_mutex_unlock(&sg_graph_lock);
        return false;
    }
    if (c->invalid) {
        *r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (sync || op->node_type < 0) {
        c->invalid = true;
        *r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else if (op->captured && (*r = op->captured(op)) != CUDA_SUCCESS) {
        /* Refused; the capture continues. */
    } else {
        *r = sg_node_new(c->graph, (CUgraphNodeType)op->node_type, op, s->front->nodes, s->front->n, &n);
        op = NULL;
        if (*r == CUDA_SUCCESS) {
            *r = sg_front_set(s->front, c, &n, 1);
            sg_obj_put(&n->obj);
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    if (op)
        sg_op_end(op);
    return true;
}

bool sg_capture_memory(struct sg_stream *s, CUgraphNodeType type, struct sg_graph_memory *m, CUresult *r)
{
    struct sg_capture *c = s->front->capture;
    struct sg_node *n;

    if (!c)
        return false;
    *r = sg_node_new(c->graph, type, NULL, s->front->nodes, s->front->n, &n);
    if (*r != CUDA_SUCCESS) {
        sg_graph_memory_put(m);
        return true;
    }
    n->mem = m;
    c->graph->has_memory = true;
    *r = sg_front_set(s->front, c, &n, 1);
    sg_obj_put(&n->obj);
    return true;
}

/* CUDA_ERROR_STREAM_CAPTURE_IMPLICIT if a blocking stream captures; `use` also invalidates the
 * captures. Under the issue lock. */
static CUresult check_implicit(struct sg_stream *s, bool use)
{
    CUresult r = CUDA_SUCCESS;

    if (!s->legacy)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    for (struct sg_stream *o = s->ctx->streams; o; o = o->next) {
        if (o->front->capture && o->green == s->green && !(o->flags & CU_STREAM_NON_BLOCKING)) {
            o->front->capture->invalid |= use;
            r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sg_capture_check_legacy(struct sg_stream *s)
{
    return check_implicit(s, true);
}

CUresult sg_capture_check_query(struct sg_stream *s)
{
    CUresult r;

    if (!atomic_load(&sg_captures) || !s->legacy)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&s->ctx->issue);
    r = check_implicit(s, false);
    pthread_mutex_unlock(&s->ctx->issue);
    return r;
}

CUresult sg_capture_check_wait(struct sg_stream *s)
{
    CUresult r = CUDA_SUCCESS;

    if (!atomic_load(&sg_captures))
        return r;
    if (s->legacy) {
        pthread_mutex_lock(&s->ctx->issue);
        r = sg_capture_check_legacy(s);
        pthread_mutex_unlock(&s->ctx->issue);
        return r;
    }
    pthread_mutex_lock(&sg_graph_lock);
    if (s->front->capture) {
        s->front->capture->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

bool sg_capture_ask_event(struct sg_event *e)
{
    struct sg_capture *c;
    bool active;

    if (!sg_hooks->front_captured(e->front))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    c = e->front->capture;
    active = c && !c->ended;
    if (active)
        c->invalid = true;
    pthread_mutex_unlock(&sg_graph_lock);
    return active;
}

bool sg_capture_left_event(struct sg_event *e)
{
    bool left;

    if (!sg_hooks->front_captured(e->front))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    left = e->front->capture && e->front->capture->ended;
    pthread_mutex_unlock(&sg_graph_lock);
    return left;
}

/* Records that the event stands for the front of s. False: s is not captured. */
bool sg_capture_record(struct sg_stream *s, struct sg_event *e, CUresult *r)
{
    bool captured;

    pthread_mutex_lock(&sg_graph_lock);
    captured = s->front->capture != NULL;
    if (captured)
        *r = s->front->capture->invalid
                 ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                 : sg_front_set(e->front, s->front->capture, s->front->nodes, s->front->n);
    else
        sg_front_clear(e->front); /* the event is no longer captured */
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

/* Takes s into the capture of e. Under the lock. */
static CUresult join_front(struct sg_stream *s, const struct sg_front *from)
{
    struct sg_capture *c = from->capture;
    struct sg_stream **grown = realloc(c->streams, (c->nstreams + 1) * sizeof(*grown));
    CUresult r;

    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->streams = grown;
    r = sg_front_set(s->front, c, from->nodes, from->n);
    if (r == CUDA_SUCCESS) {
        sg_obj_get(&s->obj);
        c->streams[c->nstreams++] = s;
    }
    return r;
}

/* False: neither the stream nor the event has to do with a capture. */
bool sg_capture_wait(struct sg_stream *s, struct sg_event *e, CUresult *r)
{
    bool handled = true;

    pthread_mutex_lock(&sg_graph_lock);
    struct sg_capture *sc = s->front->capture, *ec = e->front->capture;

    if (!sc && !ec) {
        handled = false;
    } else if (!ec) {
        sc->invalid = true; /* the event belongs to work outside */
        *r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    } else if (ec->ended) {
        *r = CUDA_ERROR_CAPTURED_EVENT;
    } else if (ec->invalid) {
        *r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else if (s->legacy) {
        ec->invalid = true;
        *r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    } else if (s->dying) { /* another thread destroys it */
        *r = CUDA_ERROR_INVALID_HANDLE;
    } else if (!sc) {
        *r = join_front(s, e->front);
    } else if (sc != ec) {
        sc->invalid = ec->invalid = true;
        *r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
    } else {
        *r = sg_front_merge(s->front, e->front->nodes, e->front->n);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return handled;
}

/* ---- called by the runtime ---- */

static struct sg_front *front_new(void)
{
    return calloc(1, sizeof(struct sg_front));
}

static void front_free(struct sg_front *f)
{
    pthread_mutex_lock(&sg_graph_lock);
    sg_front_clear(f);
    pthread_mutex_unlock(&sg_graph_lock);
    free(f);
}

static bool front_captured(const struct sg_front *f)
{
    return f->capture != NULL;
}

const struct sg_graph_hooks sg_graph_hooks = {
    .capture_op = sg_capture_op,
    .check_legacy = sg_capture_check_legacy,
    .abandon = sg_capture_abandon,
    .front_new = front_new,
    .front_free = front_free,
    .front_captured = front_captured,
    .set_conditional = sg_cond_set,
    .device = &sg_device_graph_ops,
};

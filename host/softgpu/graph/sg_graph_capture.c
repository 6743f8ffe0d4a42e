/* SPDX-License-Identifier: MIT */
/*
 * Stream capture: operations become nodes instead of being run. A stream is part of a capture from
 * cuStreamBeginCapture, or from waiting for an event that was recorded in a captured stream, until
 * the capture ends.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static struct sg_capture *captures; /* under the lock */

void sg_capture_put(struct sg_capture *c)
{
    if (c && atomic_fetch_sub(&c->refs, 1) == 1) {
        sg_obj_put((struct sg_obj *)c->graph);
        free(c);
    }
}

static struct sg_node *front_get_node(struct sg_node *n)
{
    sg_obj_get(&n->obj);
    n->fronts++;
    return n;
}

static void front_put_node(struct sg_node *n)
{
    n->fronts--;
    sg_obj_put(&n->obj);
}

static void front_drop_nodes(struct sg_front *f)
{
    for (size_t i = 0; i < f->n; i++)
        front_put_node(f->nodes[i]);
    free(f->nodes);
    f->nodes = NULL;
    f->n = 0;
}

void sg_front_clear(struct sg_front *f)
{
    front_drop_nodes(f);
    if (f->pprev) {
        *f->pprev = f->next;
        if (f->next)
            f->next->pprev = f->pprev;
    }
    sg_capture_put(f->capture);
    memset(f, 0, sizeof(*f));
}

static bool front_may_have(const struct sg_capture *c, struct sg_node *const *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (nodes[i]->graph != c->graph)
            return false;
    }
    return true;
}

CUresult sg_front_set(struct sg_front *f, struct sg_capture *c, struct sg_node *const *nodes, size_t n)
{
    struct sg_front next = {.capture = c};

    if (!front_may_have(c, nodes, n))
        return CUDA_ERROR_INVALID_VALUE;
    if (n) {
        next.nodes = malloc(n * sizeof(*next.nodes));
        if (!next.nodes)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    while (next.n < n) {
        next.nodes[next.n] = front_get_node(nodes[next.n]);
        next.n++;
    }
    atomic_fetch_add(&c->refs, 1);
    sg_front_clear(f);
    *f = next;
    f->next = c->fronts;
    f->pprev = &c->fronts;
    if (f->next)
        f->next->pprev = &f->next;
    c->fronts = f;
    return CUDA_SUCCESS;
}

CUresult sg_front_merge(struct sg_front *f, struct sg_node *const *nodes, size_t n)
{
    struct sg_node **grown;

    if (!front_may_have(f->capture, nodes, n))
        return CUDA_ERROR_INVALID_VALUE;
    grown = realloc(f->nodes, (f->n + n + 1) * sizeof(*grown));
    if (!grown)
        return CUDA_ERROR_OUT_OF_MEMORY;
    f->nodes = grown;
    for (size_t i = 0; i < n; i++)
        nodes[i]->mark = false;
    for (size_t i = 0; i < f->n; i++)
        f->nodes[i]->mark = true;
    for (size_t i = 0; i < n; i++) {
        if (!nodes[i]->mark) {
            nodes[i]->mark = true;
            f->nodes[f->n++] = front_get_node(nodes[i]);
        }
    }
    return CUDA_SUCCESS;
}

void sg_captures_forget_node(const struct sg_graph *g, struct sg_node *n)
{
    /* While a graph is being captured into, calls remove only new nodes, which are in no front;
       the count avoids searching all fronts in vain. */
    for (struct sg_capture *c = captures; c && n->fronts; c = c->next) {
        if (c->graph != g)
            continue;
        for (struct sg_front *f = c->fronts; f; f = f->next) {
            for (size_t i = f->n; i-- > 0;) {
                if (f->nodes[i] != n)
                    continue;
                f->nodes[i] = f->nodes[--f->n];
                front_put_node(n);
            }
        }
    }
}

bool sg_graph_captured(const struct sg_graph *g)
{
    for (struct sg_capture *c = captures; c; c = c->next) {
        if (c->graph == g)
            return true;
    }
    return false;
}

void sg_capture_list(struct sg_capture *c)
{
    c->next = captures;
    c->pprev = &captures;
    if (c->next)
        c->next->pprev = &c->next;
    captures = c;
    atomic_fetch_add(&sg_captures, 1);
}

CUresult sg_capture_check_unsafe(void)
{
    const struct sg_tls *t;
    CUresult r = CUDA_SUCCESS;

    if (!atomic_load(&sg_captures) || !(t = sg_tls()) || t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    for (struct sg_capture *c = captures; c; c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self());

        /* As cuThreadExchangeStreamCaptureMode is documented. */
        if (mine ? c->mode == CU_STREAM_CAPTURE_MODE_RELAXED
                 : c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
                       t->capture_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)
            continue;
        c->invalid = true;
        r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r != CUDA_SUCCESS ? sg_fail(r, "not while a stream captures in this mode") : r;
}

void sg_capture_close(struct sg_capture *c)
{
    *c->pprev = c->next;
    if (c->next)
        c->next->pprev = c->pprev;
    c->ended = true;
    c->origin = NULL;
    atomic_fetch_sub(&sg_captures, 1);
    /* The fronts hold references to the capture: keep it alive until the last front is cleared. */
    atomic_fetch_add(&c->refs, 1);
    for (size_t i = 0; i < c->nstreams; i++) {
        sg_front_clear(c->streams[i]->front);
        sg_obj_put(&c->streams[i]->obj);
    }
    free(c->streams);
    c->streams = NULL;
    c->nstreams = 0;
    /* The remaining fronts belong to events: only the fact that they were captured matters. */
    for (struct sg_front *f = c->fronts; f; f = f->next)
        front_drop_nodes(f);
    /* Not the graph either, which may have a node that holds such an event. This may clear fronts. */
    sg_obj_put((struct sg_obj *)c->graph);
    c->graph = NULL;
    sg_capture_put(c);
}

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

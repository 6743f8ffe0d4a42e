/* SPDX-License-Identifier: MIT */
/*
 * The captures in progress, and their fronts: the nodes on which the next captured node of a stream
 * depends, or for which an event stands.
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

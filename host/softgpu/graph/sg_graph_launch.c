/* SPDX-License-Identifier: MIT */
/* Launches of executable graphs: their order, their events, their memory. */
#include <stdlib.h>

#include "graph/graph.h"

/* A captured launch is part of the graph that contains it. */
static CUresult graph_run(struct sg_op *op, struct sg_stream *s)
{
    struct sg_graph_launch *o = (struct sg_graph_launch *)op;

    return sg_genv_now ? sg_program_run(o->program, o->claim, s)
                       : sg_device_graph_run(o->exec, o->program, o->claim, s);
}

/* A step that records an event. */
struct recorded {
    uint64_t event; /* handle */
    size_t step;
};

static int by_event(const void *a, const void *b)
{
    const struct recorded *x = a, *y = b;

    if (x->event != y->event)
        return x->event < y->event ? -1 : 1;
    return x->step < y->step ? -1 : x->step > y->step;
}

static uint64_t event_of_step(const struct sg_program *p, size_t i)
{
    return (uint64_t)(uintptr_t)sg_event_of(p->step[i].gop->op);
}

/* The steps of p that record, by event and step; to be freed. False: no memory. */
static bool find_records(const struct sg_program *p, struct recorded **out, size_t *n)
{
    size_t count = 0;

    for (size_t i = 0; i < p->n; i++)
        count += p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD;
    *n = 0;
    *out = malloc((count + 1) * sizeof(**out));
    if (!*out)
        return false;
    for (size_t i = 0; i < p->n; i++) {
        if (p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            (*out)[(*n)++] = (struct recorded){event_of_step(p, i), i};
    }
    qsort(*out, *n, sizeof(**out), by_event);
    (*out)[*n] = (struct recorded){UINT64_MAX, SIZE_MAX}; /* for searches that end there */
    return true;
}

/* True if the same launch recorded the event before the wait: then the order of steps suffices. */
static bool recorded_before(const struct recorded *r, size_t n, const struct sg_program *p, size_t i)
{
    const uint64_t event = event_of_step(p, i);
    size_t from = 0;

    while (from < n) { /* finds the first record of the event, or of a later event */
        const size_t mid = from + (n - from) / 2;

        if (r[mid].event < event)
            from = mid + 1;
        else
            n = mid;
    }
    return r[from].event == event && r[from].step < i;
}

/* Adds to op the dependencies of the waits of p and of launches captured into it. */
static bool wait_events(const struct sg_program *p, struct sg_op *op)
{
    struct recorded *records;
    bool ok = true;
    size_t n;

    if (!p->events)
        return true;
    if (!find_records(p, &records, &n))
        return false;
    for (size_t i = 0; i < p->n; i++) {
        struct sg_op *step = p->step[i].gop ? p->step[i].gop->op : NULL;

        if (p->step[i].type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && !recorded_before(records, n, p, i))
            ok &= sg_event_node_wait(step, op);
        else if (p->step[i].type == CU_GRAPH_NODE_TYPE_GRAPH && step)
            ok &= wait_events(((struct sg_graph_launch *)step)->program, op);
    }
    free(records);
    return ok;
}

static bool record_events(const struct sg_program *p, struct sg_op *op, struct sg_stream *s)
{
    bool ok = true;

    for (size_t i = 0; i < p->n; i++) {
        struct sg_op *step = p->step[i].gop ? p->step[i].gop->op : NULL;

        if (p->step[i].type == CU_GRAPH_NODE_TYPE_EVENT_RECORD)
            ok &= sg_event_node_record(step, op, s);
        else if (p->step[i].type == CU_GRAPH_NODE_TYPE_GRAPH && step)
            ok &= record_events(((struct sg_graph_launch *)step)->program, op, s);
    }
    return ok;
}

/* Under the issue lock: op's events now refer to op, and op waits for the events that its nodes
   wait for. */
static void issue_events(const struct sg_program *p, struct sg_op *op, struct sg_stream *s)
{
    /* All waits before the first record, at every depth: otherwise op could wait for itself, or
       two launches of different contexts for each other. */
    bool ok = wait_events(p, op);

    if (!record_events(p, op, s) || !ok) { /* as for any operation without memory: the context fails */
        sg_device_fail("no memory for the events of a graph");
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
    }
}

/* Launches of an executable graph are serialised, whichever streams they use (documented). */
static bool serialise_launch(struct sg_graph_exec *x, struct sg_op *op, struct sg_stream *s)
{
    bool ok = true;

    pthread_mutex_lock(&sg_graph_lock);
    if (x->last && x->last != s)
        ok = sg_op_add_dep(op, x->last, x->last_seq);
    if (x->last != s) {
        sg_obj_put((struct sg_obj *)x->last);
        sg_obj_get(&s->obj);
        x->last = s;
    }
    x->last_seq = op->seq;
    pthread_mutex_unlock(&sg_graph_lock);
    return ok;
}

static void graph_issued(struct sg_op *op, struct sg_stream *s)
{
    struct sg_graph_launch *o = (struct sg_graph_launch *)op;

    if (o->claim)
        o->claim->issued = true;
    if (o->exec)
        sg_graph_exec_uploaded(o->exec);
    if (o->exec && !serialise_launch(o->exec, op, s)) {
        sg_device_fail("no memory for the order of graph launches");
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
    }
    issue_events(o->program, op, s);
}

/* Under the lock. The node holds only the program; it claims no memory, since its graph may run
   at any time. */
static CUresult graph_captured(struct sg_op *op)
{
    struct sg_graph_launch *o = (struct sg_graph_launch *)op;

    if (o->program->memory || o->program->nconds) /* it would become a child */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "capture of the launch of a graph with memory or "
                                                 "conditional nodes");
    sg_obj_put((struct sg_obj *)o->exec);
    o->exec = NULL;
    return CUDA_SUCCESS;
}

static void graph_drop(struct sg_op *op)
{
    struct sg_graph_launch *o = (struct sg_graph_launch *)op;

    sg_gclaim_end(o->program, o->claim);
    sg_program_put(o->program);
    sg_obj_put((struct sg_obj *)o->exec);
    free(op);
}

void sg_graph_exec_uploaded(struct sg_graph_exec *x)
{
    pthread_mutex_lock(&sg_graph_lock);
    x->uploaded = true;
    pthread_mutex_unlock(&sg_graph_lock);
}

CUresult sg_graph_exec_launch(struct sg_graph_exec *x, struct sg_stream *s)
{
    struct sg_graph_launch *o;
    CUresult r = CUDA_SUCCESS;

    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->op.run = graph_run;
    o->op.drop = graph_drop;
    o->op.node_type = CU_GRAPH_NODE_TYPE_GRAPH;
    pthread_mutex_lock(&sg_graph_lock);
    o->program = x->program;
    atomic_fetch_add(&o->program->refs, 1);
    /* Uses the current state; whether the launch is captured is decided when it is issued:
       graph_captured(). */
    if (s->front->capture)
        r = graph_captured(&o->op);
    else if (o->program->memory)
        r = sg_gclaim_new(o->program, x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH, &x->hold,
                          &o->claim);
    pthread_mutex_unlock(&sg_graph_lock);
    if (r != CUDA_SUCCESS) {
        graph_drop(&o->op);
        return r;
    }
    o->op.issued = graph_issued;
    o->op.captured = graph_captured;
    sg_obj_get(&x->obj);
    o->exec = x;
    return sg_issue(s, &o->op, SG_ISSUE_ASYNC);
}

/* SPDX-License-Identifier: MIT */
/*
 * Runs the steps of programs, and graphs launched by kernels (CUDA C++ Programming Guide, CUDA Graphs,
 * "Device Graph Launch"). A running graph keeps lists of the launches made by its kernels. A launch
 * runs on the thread of the branch that takes it from a list, one graph after the other, in an order
 * allowed by the guide:
 *
 *   fire and forget  after the kernel that launched it; its launcher ends after it
 *   sibling          after its launcher, before the launcher's tail launches
 *   tail             after its launcher and everything launched by the latter, in launch order;
 *                    tail launches of a tail launch run before tail launches already pending
 *
 * A graph whose tail launches never end delays later siblings for ever.
 */
#include <stdlib.h>

#include "graph/device_graph.h"

static void list_init(struct sg_glaunches *l)
{
    l->first = NULL;
    l->last = &l->first;
}

void sg_glaunches_add(struct sg_glaunches *l, struct sg_glaunch *g)
{
    g->next = NULL;
    *l->last = g;
    l->last = &g->next;
}

/* Puts all of `more` before l. */
static void list_before(struct sg_glaunches *l, struct sg_glaunches *more)
{
    if (!more->first)
        return;
    *more->last = l->first;
    if (!l->first)
        l->last = more->last;
    l->first = more->first;
    list_init(more);
}

static struct sg_glaunch *list_take(struct sg_glaunches *l)
{
    struct sg_glaunch *g = l->first;

    if (g) {
        l->first = g->next;
        if (!l->first)
            l->last = &l->first;
    }
    return g;
}

struct sg_glaunch *sg_glaunch_new(struct sg_graph_exec *x, struct sg_program *p)
{
    struct sg_glaunch *g = calloc(1, sizeof(*g));

    if (!g)
        return NULL;
    if (x)
        sg_obj_get(&x->obj);
    g->exec = x;
    atomic_fetch_add(&p->refs, 1);
    g->program = p;
    return g;
}

/* Not under the lock: this may drop the last reference. */
static void glaunch_end(struct sg_glaunch *g)
{
    if (g->device) {
        pthread_mutex_lock(&sg_graph_lock);
        g->exec->queued = false;
        pthread_mutex_unlock(&sg_graph_lock);
    }
    sg_program_put(g->program);
    sg_obj_put((struct sg_obj *)g->exec);
    free(g);
}

static void list_end(struct sg_glaunches *l)
{
    for (struct sg_glaunch *g; (g = list_take(l)) != NULL;)
        glaunch_end(g);
}

/* ---- the steps of a program ---- */

/* A program that runs on this thread. */
struct running {
    SG_LENT struct sg_program *program;
    SG_LENT struct sg_gclaim *claim; /* claim of memory; or NULL */
};

/* The steps below step number `head`, which is a child graph or a body. */
static CUresult run_below(struct running *o, size_t head, struct sg_stream *s);

/* Checked in loops, because a condition may stay true for ever. */
CUresult sg_stream_stopped(const struct sg_stream *s)
{
    CUresult r = (CUresult)atomic_load(&s->ctx->fault);

    if (r == CUDA_SUCCESS && sg_stream_cut(s))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return r == CUDA_SUCCESS && s->ctx->abort ? CUDA_ERROR_LAUNCH_FAILED : r;
}

/* The step of body number n; skips the steps below each earlier body. */
static size_t find_body(const struct sg_program *p, size_t at, unsigned n)
{
    at++;
    while (n-- > 0)
        at += 1 + p->step[at].child;
    return at;
}

static CUresult run_condition(struct running *o, size_t at, struct sg_stream *s)
{
    const struct sg_step *st = &o->program->step[at];
    uint32_t v = sg_cond_value(st->cond);
    CUresult r = CUDA_SUCCESS;
    size_t body;

    if (st->cond_type == CU_GRAPH_COND_TYPE_IF)
        v = v ? 0 : 1;
    if (st->cond_type != CU_GRAPH_COND_TYPE_WHILE) {
        if (v >= st->cond_size)
            return CUDA_SUCCESS;
        body = find_body(o->program, at, v);
        return run_below(o, body, s);
    }
    body = at + 1;
    for (; v && r == CUDA_SUCCESS; v = sg_cond_value(st->cond)) {
        r = run_below(o, body, s);
        if (r == CUDA_SUCCESS)
            r = sg_stream_stopped(s);
    }
    return r;
}

/* A step and all that is below it. */
static CUresult run_unit(struct running *o, size_t i, struct sg_stream *s)
{
    const struct sg_program *p = o->program;
    const struct sg_step *st = &p->step[i];
    struct sg_op *step = st->disabled ? NULL : st->gop->op;
    CUresult r = CUDA_SUCCESS;

    if (st->cond)
        return run_condition(o, i, s);
    if (st->mem) {
        if (o->claim && (st->type == CU_GRAPH_NODE_TYPE_MEM_FREE || st->other != SIZE_MAX))
            sg_gclaim_step(p, o->claim, i);
    } else if (step) {
        r = step->run(step, s);
        if (r == CUDA_SUCCESS && st->type == CU_GRAPH_NODE_TYPE_KERNEL)
            r = sg_device_graph_drain(s);
    }
    return r == CUDA_SUCCESS && st->child ? run_below(o, i, s) : r;
}

static CUresult run_branch(void *arg, size_t step, struct sg_stream *s)
{
    return run_unit(arg, step, s);
}

static CUresult run_level(struct running *o, size_t from, size_t to, bool wide, struct sg_stream *s)
{
    CUresult r = CUDA_SUCCESS;

    if (wide && sg_branches_run(&(struct sg_level){o->program, from, to, s, run_branch, o}, &r))
        return r;
    for (size_t i = from; i < to && r == CUDA_SUCCESS; i += 1 + o->program->step[i].child)
        r = run_unit(o, i, s);
    return r;
}

static CUresult run_below(struct running *o, size_t head, struct sg_stream *s)
{
    const struct sg_step *st = &o->program->step[head];

    return run_level(o, head + 1, head + 1 + st->child, st->wide, s);
}

CUresult sg_program_run(struct sg_program *p, struct sg_gclaim *claim, struct sg_stream *s)
{
    struct running o = {.program = p, .claim = claim};

    sg_cond_begin(p->conds, p->nconds);
    return run_level(&o, 0, p->n, p->wide, s);
}

/* ---- the graphs launched by its kernels ---- */

static void set_running(struct sg_glaunch *g, bool running)
{
    if (!g->exec)
        return;
    pthread_mutex_lock(&sg_graph_lock);
    g->exec->running = running;
    if (g->device && running) {
        g->exec->queued = false; /* it may be launched again as a tail */
        g->device = false;
    }
    pthread_mutex_unlock(&sg_graph_lock);
}

/* Runs graphs, with all that they launch, in order. Empties the list in any case. */
static CUresult chain_launches(struct sg_glaunches *todo, struct sg_gclaim *claim, struct sg_stream *s,
                               unsigned depth, unsigned above)
{
    struct sg_genv *outer = sg_genv_now;
    CUresult r = CUDA_SUCCESS;

    for (struct sg_glaunch *g; r == CUDA_SUCCESS && (g = list_take(todo)) != NULL;) {
        struct sg_genv env = {.depth = depth, .above = above, .levels = above + g->program->levels};

        if (g->exec && (g->exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH))
            env.exec = g->exec;
        list_init(&env.forget);
        list_init(&env.sibling);
        list_init(&env.tail);
        set_running(g, true);
        sg_genv_now = &env;
        r = sg_program_run(g->program, claim, s);
        sg_genv_now = outer;
        set_running(g, false);
        claim = NULL; /* only for the first */
        list_before(todo, &env.tail);
        list_before(todo, &env.sibling);
        list_end(&env.forget); /* left when it failed */
        glaunch_end(g);
        if (r == CUDA_SUCCESS && todo->first)
            r = sg_stream_stopped(s);
    }
    list_end(todo);
    return r;
}

CUresult sg_device_graph_drain(struct sg_stream *s)
{
    struct sg_genv *env = sg_genv_now;
    struct sg_glaunches todo;

    pthread_mutex_lock(&sg_graph_lock);
    todo = env->forget;
    if (!todo.first)
        list_init(&todo);
    list_init(&env->forget);
    pthread_mutex_unlock(&sg_graph_lock);
    return todo.first ? chain_launches(&todo, NULL, s, env->depth + 1, env->levels) : CUDA_SUCCESS;
}

CUresult sg_device_graph_run(struct sg_graph_exec *x, struct sg_program *p, struct sg_gclaim *claim,
                             struct sg_stream *s)
{
    struct sg_glaunch *g = sg_glaunch_new(x, p);
    struct sg_glaunches todo;

    if (!g) {
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    list_init(&todo);
    sg_glaunches_add(&todo, g);
    return chain_launches(&todo, claim, s, 0, 0);
}

/* SPDX-License-Identifier: MIT */
/*
 * Graphs launched by kernels (CUDA C++ Programming Guide, CUDA Graphs, "Device Graph Launch"). A
 * running graph keeps lists of the launches made by its kernels. A launch runs on the thread of the
 * branch that takes it from a list, one graph after the other, in an order allowed by the guide:
 *
 *   fire and forget  after the kernel that launched it; its launcher ends after it
 *   sibling          after its launcher, before the launcher's tail launches
 *   tail             after its launcher and everything launched by the latter, in launch order;
 *                    tail launches of a tail launch run before tail launches already pending
 *
 * A graph whose tail launches never end delays later siblings for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* cudaError_t values */
#define E_INVALID 1u
#define E_MEMORY 2u
#define E_DEPTH 65u   /* cudaErrorLaunchMaxDepthExceeded */
#define E_PENDING 69u /* cudaErrorLaunchPendingCountExceeded */
/* cudaStreamGraphTailLaunch and the other two modes. */
#define MODE_TAIL (UINT64_C(1) << 56)
#define MODE_FORGET (UINT64_C(2) << 56)
#define MODE_SIBLING (UINT64_C(3) << 56)
#define FORGET_MAX 120u /* per run of a graph; siblings count, too */
#define TAIL_MAX 255u   /* pending tail launches */
#define DEPTH_MAX 24u   /* our own limit: fire and forget nested in fire and forget */

/* A graph that is to run. */
struct glaunch {
    SG_OWNED struct glaunch *next;
    SG_COUNTED struct sg_graph_exec *exec; /* a reference, or NULL */
    SG_COUNTED struct sg_program *program; /* a reference */
    bool device;                           /* exec->queued stands for it */
};

struct list {
    SG_OWNED struct glaunch *first, **last;
};

/* A graph that runs. Lists and counts: under sg_graph_lock. */
struct sg_genv {
    SG_LENT struct sg_graph_exec *exec; /* NULL: unknown to the device */
    struct list forget, sibling, tail;
    unsigned forgotten, tails, depth;
    unsigned above;  /* levels of the graphs that run around it on this thread */
    unsigned levels; /* levels, including its own */
};

static struct sg_graph_exec *known; /* launchable from the device; under sg_graph_lock */

static void list_init(struct list *l)
{
    l->first = NULL;
    l->last = &l->first;
}

static void list_add(struct list *l, struct glaunch *g)
{
    g->next = NULL;
    *l->last = g;
    l->last = &g->next;
}

/* Puts all of `more` before l. */
static void list_before(struct list *l, struct list *more)
{
    if (!more->first)
        return;
    *more->last = l->first;
    if (!l->first)
        l->last = more->last;
    l->first = more->first;
    list_init(more);
}

static struct glaunch *list_take(struct list *l)
{
    struct glaunch *g = l->first;

    if (g) {
        l->first = g->next;
        if (!l->first)
            l->last = &l->first;
    }
    return g;
}

static struct glaunch *glaunch_new(struct sg_graph_exec *x, struct sg_program *p)
{
    struct glaunch *g = calloc(1, sizeof(*g));

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
static void glaunch_end(struct glaunch *g)
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

static void list_end(struct list *l)
{
    for (struct glaunch *g; (g = list_take(l)) != NULL;)
        glaunch_end(g);
}

/* ---- registered graphs ---- */

void sg_device_graph_add(struct sg_graph_exec *x)
{
    x->name = x->obj.handle;
    x->next_known = known;
    known = x;
}

void sg_device_graph_drop(struct sg_graph_exec *x)
{
    for (struct sg_graph_exec **p = &known; *p; p = &(*p)->next_known) {
        if (*p == x) {
            *p = x->next_known;
            return;
        }
    }
}

/* Returns a reference: the list has none, and an entry may be about to end. */
static struct sg_graph_exec *find_device_graph(uint64_t name)
{
    struct sg_graph_exec *x = known;

    while (x && (x->name != name || !name || !sg_obj_try_get(&x->obj)))
        x = x->next_known;
    return x;
}

/*
 * The name that kernels give to an executable graph, in place of its handle, when the loader of
 * this library hands out handles of its own. 400 if x cannot be launched from the device, or if
 * the name is 0 or in use.
 */
CUresult sg_graph_exec_name(CUgraphExec hGraphExec, uint64_t name)
{
    CUresult r = CUDA_ERROR_INVALID_HANDLE;

    SG_GRAPH_EXEC(x, hGraphExec);
    pthread_mutex_lock(&sg_graph_lock);
    SG_AUTO struct sg_graph_exec *has = find_device_graph(name);

    if (name && (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) && (!has || has == x)) {
        x->name = name;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* ---- allowed contents of such a graph ---- */

static bool copy_side_ok(CUmemorytype type, const void *host)
{
    struct sg_mem_info info;

    return type == CU_MEMORYTYPE_DEVICE ||
           (type == CU_MEMORYTYPE_HOST && sg_mem_find((uint64_t)(uintptr_t)host, &info));
}

/* The manual of cuGraphInstantiateWithParams lists it. NULL: fine. */
static const char *step_wrong(const struct sg_ctx *ctx, CUgraphNodeType type, struct sg_op *op,
                              CUgraphInstantiateResult *why)
{
    CUDA_MEMCPY3D copy;

    *why = CUDA_GRAPH_INSTANTIATE_NODE_OPERATION_NOT_SUPPORTED;
    switch (type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        if (sg_launch_nests(op))
            return "a kernel that launches kernels";
        if (sg_launch_ctx(op) == ctx)
            return NULL;
        *why = CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED;
        return "a kernel of another context";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        sg_copy_describe(op, &copy);
        return copy_side_ok(copy.srcMemoryType, copy.srcHost) &&
                       copy_side_ok(copy.dstMemoryType, copy.dstHost)
                   ? NULL
                   : "a copy of an array, or of host memory that is not pinned";
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return NULL;
    default:
        return "a node that is no kernel, copy, memset or child graph";
    }
}

CUresult sg_device_graph_check_op(const struct sg_ctx *ctx, CUgraphNodeType type, struct sg_op *op)
{
    CUgraphInstantiateResult why;
    const char *wrong = step_wrong(ctx, type, op, &why);

    return wrong ? sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a graph for launches from the device has %s", wrong)
                 : CUDA_SUCCESS;
}

static CUresult check_device_graph(const struct sg_ctx *ctx, const struct sg_program *p, size_t *work,
                                   CUgraphInstantiateResult *why, uint64_t *node)
{
    for (size_t i = 0; i < p->n; i++) {
        struct sg_op *op = p->step[i].gop ? p->step[i].gop->op : NULL;
        const char *wrong = NULL;

        if (p->step[i].type == CU_GRAPH_NODE_TYPE_GRAPH) {
            CUresult r =
                op ? check_device_graph(ctx, sg_graph_op_program(op), work, why, node) : CUDA_SUCCESS;

            if (r != CUDA_SUCCESS)
                return r;
            continue;
        }
        wrong = step_wrong(ctx, p->step[i].type, op, why);
        if (wrong) {
            *node = p->step[i].node;
            return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "a graph for launches from the device has %s", wrong);
        }
        ++*work;
    }
    return CUDA_SUCCESS;
}

CUresult sg_device_graph_check(const struct sg_ctx *ctx, const struct sg_program *p,
                               CUgraphInstantiateResult *why, uint64_t *node)
{
    size_t work = 0;
    CUresult r = check_device_graph(ctx, p, &work, why, node);

    if (r == CUDA_SUCCESS && !work) {
        *why = CUDA_GRAPH_INSTANTIATE_ERROR;
        r = sg_fail(CUDA_ERROR_INVALID_VALUE,
                    "a graph for launches from the device has no kernel, copy or memset");
    }
    return r;
}

/* ---- asked by kernels ---- */

static uint32_t queue_device_graph(struct sg_genv *env, struct sg_graph_exec *x, uint64_t mode)
{
    struct list *to = mode == MODE_TAIL ? &env->tail : mode == MODE_FORGET ? &env->forget : &env->sibling;
    unsigned *count = mode == MODE_TAIL ? &env->tails : &env->forgotten;
    struct glaunch *g;

    if (mode != MODE_TAIL && mode != MODE_FORGET && mode != MODE_SIBLING)
        return E_INVALID;
    /* Only one launch at a time, but a graph may launch itself again for the time after its end. */
    if (x->queued || (x->running && !(mode == MODE_TAIL && env->exec == x)))
        return E_INVALID;
    if (*count >= (mode == MODE_TAIL ? TAIL_MAX : FORGET_MAX))
        return E_PENDING;
    if (mode == MODE_FORGET && env->depth >= DEPTH_MAX)
        return E_DEPTH;
    /* It runs within this graph, or in its place. */
    if ((mode == MODE_FORGET ? env->levels : env->above) + x->program->levels > SG_GRAPH_LEVELS_MAX)
        return E_DEPTH;
    g = glaunch_new(x, x->program);
    if (!g)
        return E_MEMORY;
    g->device = x->queued = true;
    list_add(to, g);
    ++*count;
    return 0;
}

/* Not from a kernel outside any graph; not graphs that were changed or not uploaded. */
static uint32_t device_launch(struct sg_genv *env, uint64_t exec, uint64_t stream)
{
    uint32_t r = E_INVALID;

    pthread_mutex_lock(&sg_graph_lock);
    SG_AUTO struct sg_graph_exec *x = env ? find_device_graph(exec) : NULL;

    if (x && x->uploaded)
        r = queue_device_graph(env, x, stream);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* The name is constant once a launch may have been made. */
static uint64_t device_self(const struct sg_genv *env)
{
    return env && env->exec ? env->exec->name : 0;
}

const struct sg_graph_ops sg_device_graph_ops = {.launch = device_launch, .self = device_self};

/* ---- running ---- */

static CUresult chain_launches(struct list *todo, struct sg_gclaim *claim, struct sg_stream *s,
                               unsigned depth, unsigned above);

CUresult sg_device_graph_drain(struct sg_stream *s)
{
    struct sg_genv *env = sg_genv_now;
    struct list todo;

    pthread_mutex_lock(&sg_graph_lock);
    todo = env->forget;
    if (!todo.first)
        list_init(&todo);
    list_init(&env->forget);
    pthread_mutex_unlock(&sg_graph_lock);
    return todo.first ? chain_launches(&todo, NULL, s, env->depth + 1, env->levels) : CUDA_SUCCESS;
}

static void set_running(struct glaunch *g, bool running)
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
static CUresult chain_launches(struct list *todo, struct sg_gclaim *claim, struct sg_stream *s,
                               unsigned depth, unsigned above)
{
    struct sg_genv *outer = sg_genv_now;
    CUresult r = CUDA_SUCCESS;

    for (struct glaunch *g; r == CUDA_SUCCESS && (g = list_take(todo)) != NULL;) {
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

CUresult sg_device_graph_run(struct sg_graph_exec *x, struct sg_program *p, struct sg_gclaim *claim,
                             struct sg_stream *s)
{
    struct glaunch *g = glaunch_new(x, p);
    struct list todo;

    if (!g) {
        sg_set_fault(s->ctx, CUDA_ERROR_OUT_OF_MEMORY);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    list_init(&todo);
    list_add(&todo, g);
    return chain_launches(&todo, claim, s, 0, 0);
}

/* SPDX-License-Identifier: MIT */
/*
 * Graphs launched by kernels: which graphs they may be, and the calls of kernels. graph/sg_graph_run.c
 * runs them.
 */
#include <stdlib.h>
#include <string.h>

#include "graph/device_graph.h"
#include "lib/hash/hash.h"

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

#define KNOWN_LISTS 4096u
/* Graphs launchable from the device, by the hash of their names, which a client chooses; under sg_graph_lock. */
static struct sg_graph_exec *known[KNOWN_LISTS];

/* ---- registered graphs ---- */

static struct sg_graph_exec **known_list(uint64_t name)
{
    return &known[hsh_number(0, name) % KNOWN_LISTS];
}

static void add_named(struct sg_graph_exec *x, uint64_t name)
{
    struct sg_graph_exec **list = known_list(name);

    x->name = name;
    x->next_known = *list;
    *list = x;
}

void sg_device_graph_add(struct sg_graph_exec *x)
{
    add_named(x, x->obj.handle);
}

void sg_device_graph_drop(struct sg_graph_exec *x)
{
    for (struct sg_graph_exec **p = known_list(x->name); *p; p = &(*p)->next_known) {
        if (*p == x) {
            *p = x->next_known;
            return;
        }
    }
}

/* Returns a reference: the list has none, and an entry may be about to end. */
static struct sg_graph_exec *find_device_graph(uint64_t name)
{
    struct sg_graph_exec *x = *known_list(name);

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
        sg_device_graph_drop(x);
        add_named(x, name);
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
    struct sg_glaunches *to = mode == MODE_TAIL     ? &env->tail
                              : mode == MODE_FORGET ? &env->forget
                                                    : &env->sibling;
    unsigned *count = mode == MODE_TAIL ? &env->tails : &env->forgotten;
    struct sg_glaunch *g;

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
    g = sg_glaunch_new(x, x->program);
    if (!g)
        return E_MEMORY;
    g->device = x->queued = true;
    sg_glaunches_add(to, g);
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

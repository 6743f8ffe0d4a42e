/* SPDX-License-Identifier: MIT */
/* Driver API: updating executable graphs. Launches in progress keep the program they started
   with. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

/* The device launches the program that was uploaded last; under the lock. */
static void set_program(struct sg_graph_exec *x, struct sg_program *p)
{
    sg_program_put(x->program);
    x->program = p;
    x->uploaded = false;
}

static bool for_device(const struct sg_graph_exec *x)
{
    return (x->flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0;
}

/* The step of a node; NULL: the executable graph has none. Under the lock. */
static struct sg_step *find_step(struct sg_program *p, CUgraphNode hNode)
{
    return sg_program_step(p, (uint64_t)(uintptr_t)hNode);
}

/*
 * The program of x to modify: its own, unless a launch or a node that captured a launch uses it,
 * too. A copy costs as much as a launch, and each of these needs at most one. NULL: out of memory.
 * Under the lock.
 */
static struct sg_program *program_to_change(struct sg_graph_exec *x)
{
    if (atomic_load(&x->program->refs) != 1) {
        struct sg_program *c = sg_program_copy(x->program);

        if (!c)
            return NULL;
        set_program(x, c);
    }
    x->uploaded = false;
    return x->program;
}

static CUresult replace_step(struct sg_graph_exec *x, CUgraphNode node, CUgraphNodeType type,
                             struct sg_graph_op *gop)
{
    struct sg_step *st = find_step(x->program, node);
    struct sg_program *p;

    if (!st || st->type != type)
        return CUDA_ERROR_INVALID_VALUE;
    p = program_to_change(x);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    st = find_step(p, node);
    sg_graph_op_put(st->gop);
    sg_graph_op_get(gop);
    st->gop = gop;
    return CUDA_SUCCESS;
}

static bool same_sides(struct sg_op *a, struct sg_op *b)
{
    CUDA_MEMCPY3D p, q;

    sg_copy_describe(a, &p);
    sg_copy_describe(b, &q);
    return p.srcMemoryType == q.srcMemoryType && p.dstMemoryType == q.dstMemoryType;
}

/* Documented for cuGraphExecMemcpyNodeSetParams: the device on which memory is mapped must not
   change. */
static bool keeps_sides(struct sg_program *p, CUgraphNode node, struct sg_op *op)
{
    const struct sg_step *st = find_step(p, node);

    return !st || st->type != CU_GRAPH_NODE_TYPE_MEMCPY || !st->gop || same_sides(op, st->gop->op);
}

/* Documented for memsets: of several rows only address and value may change, and the number of rows of
   none. */
static bool same_rows(struct sg_op *a, struct sg_op *b)
{
    CUDA_MEMSET_NODE_PARAMS p, q;

    sg_set_describe(a, &p);
    sg_set_describe(b, &q);
    return p.height == q.height &&
           (p.height == 1 || (p.width == q.width && p.elementSize == q.elementSize && p.pitch == q.pitch));
}

static bool keeps_rows(struct sg_program *p, CUgraphNode node, struct sg_op *op)
{
    const struct sg_step *st = find_step(p, node);

    return !st || st->type != CU_GRAPH_NODE_TYPE_MEMSET || !st->gop || same_rows(op, st->gop->op);
}

CUresult sg_exec_replace(CUgraphExec hGraphExec, CUgraphNode hNode, CUgraphNodeType type, struct sg_op *op)
{
    struct sg_graph_op *gop = sg_graph_op_new(op);
    CUresult r;

    if (!gop)
        return CUDA_ERROR_OUT_OF_MEMORY;
    SG_AUTO struct sg_graph_exec *x = SG_LOOKUP(hGraphExec, SG_T_GRAPH_EXEC);

    pthread_mutex_lock(&sg_graph_lock);
    r = x ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && for_device(x))
        r = sg_device_graph_check_op(x->obj.owner, type, gop->op);
    if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEMCPY && !keeps_sides(x->program, hNode, gop->op))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS && type == CU_GRAPH_NODE_TYPE_MEMSET && !keeps_rows(x->program, hNode, gop->op))
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = replace_step(x, hNode, type, gop);
    pthread_mutex_unlock(&sg_graph_lock);
    sg_graph_op_put(gop);
    return r;
}

static bool can_disable(const struct sg_step *st)
{
    return st && (st->type == CU_GRAPH_NODE_TYPE_KERNEL || st->type == CU_GRAPH_NODE_TYPE_MEMSET ||
                  st->type == CU_GRAPH_NODE_TYPE_MEMCPY);
}

CUresult sgd_cuGraphNodeSetEnabled(struct sg_graph_exec *x, CUgraphNode hNode, unsigned int isEnabled)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!hNode)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    if (can_disable(find_step(x->program, hNode))) {
        struct sg_program *p = program_to_change(x);

        r = p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (p)
            find_step(p, hNode)->disabled = !isEnabled;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphNodeGetEnabled(struct sg_graph_exec *x, CUgraphNode hNode, unsigned int *isEnabled)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (!hNode || !isEnabled)
        return r;
    pthread_mutex_lock(&sg_graph_lock);
    struct sg_step *st = find_step(x->program, hNode);

    if (can_disable(st)) {
        *isEnabled = !st->disabled;
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* Steps of a launch that was captured. */
static size_t launch_steps(const struct sg_step *st)
{
    return st->type == CU_GRAPH_NODE_TYPE_GRAPH && st->gop->op ? sg_graph_op_program(st->gop->op)->steps : 0;
}

/* Number of levels down to the lowest level of `with`, as the child of step st. */
static unsigned child_levels(const struct sg_program *p, const struct sg_step *st,
                             const struct sg_program *with)
{
    return sg_program_level(p, (size_t)(st - p->step)) + 1 + with->levels;
}

/* Replaces the steps of a child if their number, their types and their graphs are the same. */
static CUresult replace_child(struct sg_graph_exec *x, CUgraphNode hNode, const struct sg_program *with)
{
    struct sg_program *c = sg_program_copy(x->program);
    struct sg_step *st = c ? find_step(c, hNode) : NULL;
    CUresult r = c ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OUT_OF_MEMORY;

    if (st && st->type == CU_GRAPH_NODE_TYPE_GRAPH && st->child == with->n) {
        r = sg_urefs_copy(&c->urefs, &with->urefs) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        for (size_t i = 0; i < with->n && r == CUDA_SUCCESS; i++) {
            struct sg_step *to = st + 1 + i;

            if (to->type != with->step[i].type || to->child != with->step[i].child) {
                r = CUDA_ERROR_INVALID_VALUE;
                break;
            }
            c->steps += launch_steps(&with->step[i]) - launch_steps(to);
            sg_graph_op_put(to->gop);
            to->gop = with->step[i].gop;
            sg_graph_op_get(to->gop);
        }
    }
    if (r == CUDA_SUCCESS && c->steps > SG_GRAPH_MAX)
        r = sg_graph_too_large();
    const unsigned levels = r == CUDA_SUCCESS ? child_levels(c, st, with) : 0;

    if (r == CUDA_SUCCESS)
        r = sg_program_check_levels(levels);
    if (r == CUDA_SUCCESS) {
        c->events |= with->events;
        c->levels = levels > c->levels ? levels : c->levels;
        set_program(x, c);
    } else {
        sg_program_put(c);
    }
    return r;
}

CUresult sgd_cuGraphExecChildGraphNodeSetParams(struct sg_graph_exec *x, CUgraphNode hNode,
                                                struct sg_graph *g)
{
    CUgraphInstantiateResult why;
    struct sg_program *p = NULL;
    uint64_t node;
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    r = sg_program_new(g, &p, NULL, NULL);
    if (r == CUDA_SUCCESS && (p->memory || p->nconds))
        r = sg_fail(CUDA_ERROR_NOT_SUPPORTED, "child graphs with memory or conditional nodes");
    if (r == CUDA_SUCCESS && for_device(x))
        r = sg_device_graph_check(x->obj.owner, p, &why, &node);
    if (r == CUDA_SUCCESS)
        r = replace_child(x, hNode, p);
    sg_program_put(p);
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sgd_cuGraphExecKernelNodeSetParams_v2(struct sg_ctx *ctx, CUgraphExec hGraphExec, CUgraphNode hNode,
                                               const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    struct sg_launch_attributes kept = {.cooperative = false};
    const struct sg_step *st;
    struct sg_op *op;
    CUresult r;

    SG_GRAPH_EXEC(x, hGraphExec);
    if (!nodeParams || !hNode)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&sg_graph_lock);
    st = find_step(x->program, hNode);
    if (st && st->type == CU_GRAPH_NODE_TYPE_KERNEL && st->gop)
        sg_launch_get_attributes(st->gop->op, &kept);
    pthread_mutex_unlock(&sg_graph_lock);
    r = sg_launch_op(sg_current_self(ctx), nodeParams, &kept, &op);
    return r == CUDA_SUCCESS ? sg_exec_replace(hGraphExec, hNode, CU_GRAPH_NODE_TYPE_KERNEL, op) : r;
}

/* The properties of a step that an update cannot change, according to cuda.h. */
static CUgraphExecUpdateResult update_step(const struct sg_step *to, const struct sg_step *is)
{
    if (to->type != is->type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (to->edges != is->edges || !to->node != !is->node)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (to->mem != is->mem)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    if (!to->cond != !is->cond || to->cond_type != is->cond_type || to->cond_size != is->cond_size)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (to->child != is->child)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if ((to->type == CU_GRAPH_NODE_TYPE_MEMCPY && !same_sides(to->gop->op, is->gop->op)) ||
        (to->type == CU_GRAPH_NODE_TYPE_MEMSET && !same_rows(to->gop->op, is->gop->op)))
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The same nodes with the same edges; allowed differences depend on the type. */
static CUgraphExecUpdateResult update_exec(struct sg_graph_exec *x, struct sg_program *p, uint64_t *node)
{
    CUgraphInstantiateResult why;

    if (p->n != x->program->n)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < p->n; i++) {
        CUgraphExecUpdateResult r = update_step(&p->step[i], &x->program->step[i]);

        if (r != CU_GRAPH_EXEC_UPDATE_SUCCESS) {
            *node = p->step[i].node;
            return r;
        }
    }
    if (for_device(x) && sg_device_graph_check(x->obj.owner, p, &why, node) != CUDA_SUCCESS)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; i < p->n; i++) { /* the executable graph keeps the names of its nodes */
        p->step[i].node = x->program->step[i].node;
        p->step[i].disabled = x->program->step[i].disabled;
    }
    sg_step_index_share(p, x->program);
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

CUresult sgd_cuGraphExecUpdate_v2(struct sg_graph_exec *x, struct sg_graph *g,
                                  CUgraphExecUpdateResultInfo *resultInfo)
{
    CUgraphExecUpdateResultInfo info;
    struct sg_program *p = NULL;
    uint64_t node = 0;
    CUresult r;

    memset(&info, 0, sizeof(info));
    pthread_mutex_lock(&sg_graph_lock);
    r = g->owned ? sg_fail(CUDA_ERROR_INVALID_VALUE, "cuGraphExecUpdate: the graph belongs to a node")
                 : sg_program_new(g, &p, NULL, NULL);
    info.result = r == CUDA_SUCCESS ? update_exec(x, p, &node) : CU_GRAPH_EXEC_UPDATE_ERROR;
    if (info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS) {
        set_program(x, p);
        p = NULL;
    } else if (r == CUDA_SUCCESS) {
        r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    info.errorNode = (CUgraphNode)(uintptr_t)node;
    sg_program_put(p);
    if (resultInfo)
        memcpy(resultInfo, &info, sizeof(info)); /* its padding too */
    return r;
}

CUresult CUDAAPI cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                                   CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult r;

    if (!hErrorNode_out || !updateResult_out)
        return CUDA_ERROR_INVALID_VALUE;
    r = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
        *hErrorNode_out = info.errorNode;
        *updateResult_out = info.result;
    }
    return r;
}

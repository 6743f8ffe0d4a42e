/* SPDX-License-Identifier: MIT */
/* Nodes of graphs other than kernels and copies, and the calls that take a node of any type. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* ---- memsets ---------------------------------------------------------------------------------- */

static bool memset_sure(const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx)
{
    uint64_t bytes = 0;

    if (p->elementSize == 1 || p->elementSize == 2 || p->elementSize == 4)
        bytes = vcu_fill_extent(p->dst, p->pitch, p->width, p->height, p->elementSize);
    return bytes != 0 && p->pitch <= VCU_PITCH_SURE && vcu_node_context_sure(ctx) &&
           vcu_node_memory_sure(ctx, p->dst, bytes);
}

CUresult vcu_memset_node(const struct vgp_where *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx,
                         uint64_t *node)
{
    struct vgp_where where = *w;

    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    ctx = vcu_node_context(w, ctx);
    if (vcu_build_post(w, memset_sure(p, ctx)))
        where.op = VGP_NODE_POST;
    return vgp_call_vgpGraphMemsetNode(VGP_WHERE(&where), ctx, p->dst, p->pitch, p->value, p->elementSize,
                                       p->width, p->height, node);
}

/* ---- host functions --------------------------------------------------------------------------- */

CUresult vcu_host_node(const struct vgp_where *w, const CUDA_HOST_NODE_PARAMS *p, uint64_t *node)
{
    struct vgp_where where = *w;
    uint64_t cookie;
    CUresult res;

    if (p == NULL || p->fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    cookie = vcu_hostfunc_keep(p->fn, p->userData, NULL, &res);
    if (cookie == 0)
        return res;
    vcu_where_post(&where); /* where it fails, the worker releases the function */
    res = vgp_call_vgpGraphHostNode(VGP_WHERE(&where), cookie, node);
    vcu_hostfunc_kept(cookie, res);
    return res;
}

/* ---- children and empty nodes ----------------------------------------------------------------- */

/* A node without parameters can be given none (driver 580). */
static CUresult empty_set(CUgraphNode node)
{
    uint32_t type = 0;
    uint64_t graph;
    CUresult res = vgp_call_vgpGraphNodeInfo(node, &type, &graph);

    if (res != CUDA_SUCCESS)
        return res;
    return type == CU_GRAPH_NODE_TYPE_EMPTY ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult empty_node(const char *call, const struct vgp_where *w, uint64_t *node)
{
    struct vgp_where where = *w;

    if (w->op == VGP_NODE_SET)
        return empty_set((CUgraphNode)(uintptr_t)w->target);
    if (!vgp_where_adds(w))
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "an empty node has no parameters");
    vcu_where_post(&where);
    return vgp_call_vgpGraphEmptyNode(VGP_WHERE(&where), node);
}

CUresult vcu_child_node(const struct vgp_where *w, CUgraph child, uint64_t *node)
{
    struct vgp_where where = *w;

    if (!vcu_graph_ok(child))
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_build_post_child(w, child))
        where.op = VGP_NODE_POST;
    return vgp_call_vgpGraphChildNode(VGP_WHERE(&where), child, node);
}

CUresult vcu_move_node(const struct vgp_where *w, CUgraph child, uint64_t *node)
{
    CUresult res;

    if (!vcu_graph_ok(child))
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpGraphMoveNode(VGP_WHERE(w), child, node);
    if (res == CUDA_SUCCESS)
        vcu_build_moved(child, w->graph, (CUgraphNode)(uintptr_t)*node);
    return res;
}

/* ---- events ----------------------------------------------------------------------------------- */

CUresult vcu_event_node(const struct vgp_where *w, CUevent event, bool wait, uint64_t *node)
{
    struct vgp_where where = *w;
    CUcontext of;

    if (!vgp_handle_live((uintptr_t)event, VGP_H_EVENT))
        return event == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    of = vcu_handle_data((uintptr_t)event, VGP_H_EVENT); /* none for events of several processes */
    if (vcu_build_post(w, vcu_node_context_sure(of)))
        where.op = VGP_NODE_POST;
    return vgp_call_vgpGraphEventNode(VGP_WHERE(&where), event, wait, node);
}

/* ---- any type --------------------------------------------------------------------------------- */

static CUresult any_child(const char *call, const struct vgp_where *w, const CUDA_CHILD_GRAPH_NODE_PARAMS *p,
                          uint64_t *node)
{
    if (w->op == VGP_NODE_SET)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "a child graph cannot be exchanged");
    if (!vgp_where_adds(w))
        return vcu_child_node(w, p->graph, node);
    if (p->ownership == CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE)
        return vcu_move_node(w, p->graph, node);
    if (p->ownership != CU_GRAPH_CHILD_GRAPH_OWNERSHIP_CLONE)
        return CUDA_ERROR_INVALID_VALUE;
    return vcu_child_node(w, p->graph, node);
}

CUresult vcu_any_node(const char *call, const struct vgp_where *w, CUgraphNodeParams *p, uint64_t *node)
{
    CUDA_MEMSET_NODE_PARAMS set;

    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < 3; i++) {
        if (p->reserved0[i] != 0)
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (p->reserved2 != 0)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: /* the third version has the fields of the second */
        return vcu_kernel_node(call, w, (const CUDA_KERNEL_NODE_PARAMS *)&p->kernel, node);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        if (p->memcpy.flags != 0 || p->memcpy.reserved != 0)
            return CUDA_ERROR_INVALID_VALUE;
        return vcu_copy_node(call, w, &p->memcpy.copyParams, p->memcpy.copyCtx, node);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memcpy(&set, &p->memset, sizeof(set)); /* the second version appends the context */
        return vcu_memset_node(w, &set, p->memset.ctx, node);
    case CU_GRAPH_NODE_TYPE_HOST:
        return vcu_host_node(w, (const CUDA_HOST_NODE_PARAMS *)&p->host, node);
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return any_child(call, w, &p->graph, node);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return empty_node(call, w, node);
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return vcu_event_node(w, p->eventWait.event, true, node);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return vcu_event_node(w, p->eventRecord.event, false, node);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return vcu_batch_node(w, (const CUDA_BATCH_MEM_OP_NODE_PARAMS *)&p->memOp, node);
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: /* the second version has the fields of the first */
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        if (!vgp_where_adds(w))
            return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                              "nodes of type %d (memory, condition) cannot be changed", (int)p->type);
        if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
            return vcu_alloc_node(w, (CUDA_MEM_ALLOC_NODE_PARAMS *)&p->alloc, node);
        return p->type == CU_GRAPH_NODE_TYPE_MEM_FREE ? vcu_free_node(w, p->free.dptr, node)
                                                      : vcu_condition_node(w, &p->conditional, node);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_SIGNAL: /* as does the third version of these two */
        return vcu_extsem_signal_node(call, w, (const CUDA_EXT_SEM_SIGNAL_NODE_PARAMS *)&p->extSemSignal,
                                      node);
    case CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT:
        return vcu_extsem_wait_node(call, w, (const CUDA_EXT_SEM_WAIT_NODE_PARAMS *)&p->extSemWait, node);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

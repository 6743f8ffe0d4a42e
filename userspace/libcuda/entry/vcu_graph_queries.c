/* SPDX-License-Identifier: MIT */
/*
 * cuGraphDebugDotPrint and cuGraphNodeGetParams, from queries (lib/driver/graph.h): the file is the guest's, so it is
 * written here.
 */
#include "../graph/graph.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

static CUresult about_kernel(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p)
{
    uint64_t func, ctx;
    uint32_t total, none = 0;
    CUresult r = vgp_call_vgpGraphKernelNodeGet(node, UINT32_MAX, &func, &ctx, &p->gridDimX, &p->gridDimY,
                                                &p->gridDimZ, &p->blockDimX, &p->blockDimY, &p->blockDimZ,
                                                &p->sharedMemBytes, &total, NULL, &none);

    p->func = (CUfunction)(uintptr_t)func;
    return r;
}

static CUresult about_alloc(CUgraphNode node, CUdeviceptr *ptr, size_t *bytes)
{
    uint64_t at, size;
    uint32_t none[3] = {0};
    CUresult r = vgp_call_vgpGraphMemNodeGet(node, 0, &at, &size, NULL, NULL, NULL, NULL, &none[0], NULL,
                                             &none[1], NULL, &none[2]);

    *ptr = at;
    *bytes = size;
    return r;
}

static CUresult about_memory_operations(CUgraphNode node, unsigned *count)
{
    uint32_t flags, none = 0;

    return vgp_call_vgpGraphBatchMemOpNodeGet(node, UINT32_MAX, &flags, count, NULL, &none);
}

static CUresult about_body(CUgraphNode node, unsigned i, unsigned *total, CUgraph *body)
{
    uint64_t handle = 0;
    uint32_t n = 1;
    CUresult r = vgp_call_vgpGraphBodies(node, i, total, &handle, &n);

    *body = n != 0 ? (CUgraph)(uintptr_t)handle : NULL;
    return r;
}

static unsigned about_number(const void *handle)
{
    return vcu_graph_number(handle);
}

static const struct cua_graph_ops graph_ops = {
    .nodes = vcu_cuGraphGetNodes,
    .edges = vcu_cuGraphGetEdges_v2,
    .type = vcu_cuGraphNodeGetType,
    .child = vcu_cuGraphChildGraphNodeGetGraph,
    .kernel = vcu_cuGraphKernelNodeGetParams_v2,
    .copy = vcu_cuGraphMemcpyNodeGetParams,
    .set = vcu_cuGraphMemsetNodeGetParams,
    .host = vcu_cuGraphHostNodeGetParams,
    .event_wait = vcu_cuGraphEventWaitNodeGetEvent,
    .event_record = vcu_cuGraphEventRecordNodeGetEvent,
    .semaphore_signal = vcu_cuGraphExternalSemaphoresSignalNodeGetParams,
    .semaphore_wait = vcu_cuGraphExternalSemaphoresWaitNodeGetParams,
    .alloc = vcu_cuGraphMemAllocNodeGetParams,
    .free = vcu_cuGraphMemFreeNodeGetParams,
    .memory_operations = vcu_cuGraphBatchMemOpNodeGetParams,
    .kernel_brief = about_kernel,
    .alloc_brief = about_alloc,
    .memory_operations_brief = about_memory_operations,
    .body = about_body,
    .number = about_number,
};

CUresult vcu_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_graph_ok(hGraph))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    res = cua_graph_dot(&graph_ops, hGraph, path, flags);
    return res == CUDA_ERROR_OPERATING_SYSTEM
               ? VCU_REFUSE(res, "cuGraphDebugDotPrint", "the file cannot be written")
               : res;
}

CUresult vcu_cuGraphNodeGetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    const char *why = NULL;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_node_ok(hNode))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    res = cua_node_params(&graph_ops, hNode, nodeParams, &why);
    return why != NULL ? VCU_REFUSE(res, "cuGraphNodeGetParams", "%s", why) : res;
}

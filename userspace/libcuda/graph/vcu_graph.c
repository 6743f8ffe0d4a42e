/* SPDX-License-Identifier: MIT */
/* Executable graphs, and queries about graphs. */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/*
 * An executable graph keeps a single number in the guest, as the data of its handle, so that a
 * launch needs neither a query nor a lock: the number of host functions that a launch runs (32
 * bits), whether it may be refused (1), the index of its context, with which it ends (21), and its
 * weight (10).
 */
#define MAY_BE_REFUSED (UINT64_C(1) << 32)
#define CONTEXT_SHIFT 33
#define CONTEXT_MASK ((UINT64_C(1) << 21) - 1)
_Static_assert(VGP_HANDLE_INDEX_MAX <= CONTEXT_MASK, "the index of a context has 21 bits");
#define WEIGHT_SHIFT 54
#define WEIGHT_MAX 1023u

static uint64_t exec_traits(CUgraphExec x)
{
    return (uintptr_t)vcu_handle_data((uintptr_t)x, VGP_H_GRAPH_EXEC);
}

static void set_traits(CUgraphExec x, uint64_t v)
{
    vcu_handle_set_data((uintptr_t)x, VGP_H_GRAPH_EXEC, (void *)(uintptr_t)v);
}

static void set_host_nodes(CUgraphExec x, uint32_t n)
{
    set_traits(x, (exec_traits(x) & ~(uint64_t)UINT32_MAX) | n);
}

static uint32_t host_nodes(CUgraphExec x)
{
    return (uint32_t)exec_traits(x);
}

/* Share of a launch in the provider's queue: its number of nodes, within the range of the bits.
 * Queried only where streams share a queue. */
static uint64_t weight_of(CUgraph graph)
{
    size_t n = 0;

    if (vcu_room.context == 0 ||
        vcu_graph_items(VGP_LIST_NODES, (uintptr_t)graph, NULL, NULL, NULL, &n, false) != CUDA_SUCCESS)
        return 0;
    return n < WEIGHT_MAX ? n : WEIGHT_MAX;
}

static void forget_exec(uint64_t handle, void *data, void *arg)
{
    if (((uint64_t)(uintptr_t)data >> CONTEXT_SHIFT & CONTEXT_MASK) == *(uint32_t *)arg)
        vgp_handle_drop(handle);
}

static void context_ending(struct vcu_context *c)
{
    uint32_t index = VGP_HANDLE_INDEX(c->handle);

    vcu_build_doubt();
    if (c->green == 0)
        vcu_handle_each(VGP_H_GRAPH_EXEC, forget_exec, &index);
}

const struct vcu_unit_ops vcu_graph_unit = {.connected = vcu_build_init, .context_ending = context_ending};

/* ---- instantiation --------------------------------------------------------------------------- */

struct made {
    uint32_t result;     /* CUgraphInstantiateResult */
    uint64_t error_node; /* 0 = none */
};

static CUresult instantiate_graph(CUgraphExec *out, CUgraph graph, uint64_t flags, CUstream upload,
                                  struct made *made)
{
    uint32_t status = CUDA_ERROR_UNKNOWN, nodes = 0;
    uint64_t exec;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (out == NULL || !vcu_graph_ok(graph))
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_stream_ok(upload))
        return vcu_stream_error(upload);
    exec = vgp_handle_mint(VGP_H_GRAPH_EXEC);
    if (exec == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpGraphInstantiate((CUgraphExec)(uintptr_t)exec, graph, flags, upload, &status,
                                       &made->result, &made->error_node, &nodes);
    if (res == CUDA_SUCCESS)
        res = (CUresult)status;
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(exec);
        return res;
    }
    *out = (CUgraphExec)(uintptr_t)exec;
    set_traits(*out, (uint64_t)VGP_HANDLE_INDEX(vcu_owner_context()) << CONTEXT_SHIFT | nodes |
                         (vcu_graph_has_memory(graph) ? MAY_BE_REFUSED : 0) |
                         weight_of(graph) << WEIGHT_SHIFT);
    return CUDA_SUCCESS;
}

CUresult vcu_cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph, unsigned long long flags)
{
    struct made made = {0};
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS && (flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        res = CUDA_ERROR_INVALID_VALUE; /* documented: only for cuGraphInstantiateWithParams */
    return res == CUDA_SUCCESS ? instantiate_graph(phGraphExec, hGraph, flags, NULL, &made) : res;
}

CUresult vcu_cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                                   char *logBuffer, size_t bufferSize)
{
    struct made made = {0};
    CUresult res;

    if (logBuffer != NULL && bufferSize != 0)
        logBuffer[0] = '\0';
    res = instantiate_graph(phGraphExec, hGraph, 0, NULL, &made);
    if (phErrorNode != NULL)
        *phErrorNode = (CUgraphNode)(uintptr_t)made.error_node;
    return res;
}

CUresult vcu_cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                          CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    struct made made = {.result = CUDA_GRAPH_INSTANTIATE_ERROR};
    CUstream upload = NULL;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (instantiateParams == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if ((instantiateParams->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD) != 0)
        upload = vcu_stream(instantiateParams->hUploadStream); /* else it is not read */
    res = instantiate_graph(phGraphExec, hGraph, instantiateParams->flags, upload, &made);
    instantiateParams->hErrNode_out = (CUgraphNode)(uintptr_t)made.error_node;
    instantiateParams->result_out = (CUgraphInstantiateResult)made.result;
    return res;
}

CUresult vcu_cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                                  CUgraphExecUpdateResultInfo *resultInfo)
{
    uint32_t status = CUDA_ERROR_UNKNOWN, result = CU_GRAPH_EXEC_UPDATE_ERROR, nodes = 0;
    uint64_t node = 0, from = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_exec_ok(hGraphExec) || !vcu_graph_ok(hGraph))
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpGraphExecUpdate(hGraphExec, hGraph, &status, &result, &node, &from, &nodes);
    if (res != CUDA_SUCCESS)
        return res;
    if (resultInfo != NULL) {
        memset(resultInfo, 0, sizeof(*resultInfo)); /* its padding too */
        resultInfo->result = (CUgraphExecUpdateResult)result;
        resultInfo->errorNode = (CUgraphNode)(uintptr_t)node;
        resultInfo->errorFromNode = (CUgraphNode)(uintptr_t)from;
    }
    if ((CUresult)status == CUDA_SUCCESS)
        set_host_nodes(hGraphExec, nodes);
    return (CUresult)status;
}

CUresult vcu_cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode *hErrorNode_out,
                               CUgraphExecUpdateResult *updateResult_out)
{
    CUgraphExecUpdateResultInfo info = {0};
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (hErrorNode_out == NULL || updateResult_out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
    if (res == CUDA_SUCCESS || res == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE) {
        *hErrorNode_out = info.errorNode;
        *updateResult_out = info.result;
    }
    return res;
}

/* ---- launch ---------------------------------------------------------------------------------- */

CUresult vcu_graph_check_launch(CUgraphExec exec, CUstream stream)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_exec_ok(exec))
        return CUDA_ERROR_INVALID_VALUE;
    return vcu_check_own_stream(stream);
}

CUresult vcu_cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    uint32_t runs, weight;
    CUresult res;

    hStream = vcu_stream(hStream);
    res = vcu_graph_check_launch(hGraphExec, hStream);
    if (res != CUDA_SUCCESS)
        return res;
    runs = host_nodes(hGraphExec);
    if (__builtin_expect(runs != 0, 0) && !vcu_stream_captured(hStream))
        vcu_hostfunc_expect(runs);
    weight = (uint32_t)(exec_traits(hGraphExec) >> WEIGHT_SHIFT);
    if (weight > 1)
        vcu_stream_weigh((uintptr_t)hStream, weight - 1); /* the call itself counts one */
    if (__builtin_expect(exec_traits(hGraphExec) & MAY_BE_REFUSED, 0))
        return vgp_call_vgpGraphLaunch(hGraphExec, hStream);
    return vgp_call_cuGraphLaunch(hGraphExec, hStream);
}

/* ---- graphs and their parts ------------------------------------------------------------------ */

CUresult vcu_graph_items(uint32_t what, uint64_t object, CUgraphNode *from, CUgraphNode *to,
                         CUgraphEdgeData *edges, size_t *count, bool edges_matter)
{
    uint64_t total = 0, have = 0, room = from == NULL ? 0 : *count;

    if (from != NULL && room == 0) /* (driver 580) */
        return CUDA_ERROR_INVALID_VALUE;
    do {
        uint64_t f[VGP_LIST_MAX], t[VGP_LIST_MAX], e[VGP_LIST_MAX];
        uint32_t nf = VGP_LIST_MAX, nt = VGP_LIST_MAX, ne = VGP_LIST_MAX;
        uint32_t ask = room - have < VGP_LIST_MAX ? (uint32_t)(room - have) : VGP_LIST_MAX;
        CUresult res = vgp_call_vgpGraphList(what, ask, object, have, &total, f, &nf, t, &nt, e, &ne);

        if (res != CUDA_SUCCESS)
            return res;
        if (nf > ask || (to != NULL && nt != nf) || (what >= VGP_LIST_EDGES && ne != nf))
            return CUDA_ERROR_UNKNOWN;
        if (nf == 0)
            break;
        for (uint32_t i = 0; i < nf; i++) {
            from[have + i] = (CUgraphNode)(uintptr_t)f[i];
            if (to != NULL)
                to[have + i] = (CUgraphNode)(uintptr_t)t[i];
            if (edges != NULL)
                memcpy(&edges[have + i], &e[i], sizeof(*edges));
            else if (edges_matter && e[i] != 0)
                return CUDA_ERROR_LOSSY_QUERY;
        }
        have += nf;
    } while (have < room && have < total);
    for (uint64_t i = have; i < room; i++) {
        from[i] = NULL;
        if (to != NULL)
            to[i] = NULL;
    }
    *count = from == NULL ? total : have;
    return CUDA_SUCCESS;
}

CUresult vcu_node_neighbours(uint32_t what, CUgraphNode node, CUgraphNode *out, CUgraphEdgeData *edges,
                             size_t *n)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_node_ok(node) || n == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return vcu_graph_items(what, (uintptr_t)node, out, NULL, out == NULL ? NULL : edges, n, true);
}

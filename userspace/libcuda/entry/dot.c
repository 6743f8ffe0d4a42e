/* SPDX-License-Identifier: MIT */
/* cuGraphDebugDotPrint: the file is the guest's, so it is written here, from queries. */
#include "../graph/graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

static const char *const types[] = {
    "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
    "WAIT_EVENT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
    "BATCH_MEM_OP", "CONDITIONAL"};

#define CHILDREN_MAX 64 /* child graphs within child graphs: bounds recursion */
#define WANTS(flags, which) ((flags) & (CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_##which))

/* What the flags ask for about one node; the driver leaves the form open. Parameters that come with
 * memory of the node's are asked for without it: what the application was given must stay. */
static void print_details(FILE *f, CUgraphNode n, CUgraphNodeType type, unsigned flags)
{
    CUDA_KERNEL_NODE_PARAMS k;
    uint64_t func, ctx, bytes;
    uint32_t total, count, none[3] = {0};
    CUDA_MEMCPY3D c;
    CUDA_MEMSET_NODE_PARAMS m;
    CUDA_HOST_NODE_PARAMS h;
    uint64_t dptr;
    CUevent e;

    if (WANTS(flags, HANDLES))
        fprintf(f, " | node %p", (void *)n);
    if (type == CU_GRAPH_NODE_TYPE_KERNEL && WANTS(flags, KERNEL_NODE_PARAMS) &&
        vgp_call_vgpGraphKernelNodeGet(n, UINT32_MAX, &func, &ctx, &k.gridDimX, &k.gridDimY, &k.gridDimZ,
                                       &k.blockDimX, &k.blockDimY, &k.blockDimZ, &k.sharedMemBytes, &total,
                                       NULL, none) == CUDA_SUCCESS)
        fprintf(f, " | func %#llx | grid %u,%u,%u | block %u,%u,%u | shared %u", (unsigned long long)func,
                k.gridDimX, k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY && WANTS(flags, MEMCPY_NODE_PARAMS) &&
        vcu_cuGraphMemcpyNodeGetParams(n, &c) == CUDA_SUCCESS)
        fprintf(f, " | types %d to %d | %zu,%zu,%zu", (int)c.srcMemoryType, (int)c.dstMemoryType,
                c.WidthInBytes, c.Height, c.Depth);
    if (type == CU_GRAPH_NODE_TYPE_MEMSET && WANTS(flags, MEMSET_NODE_PARAMS) &&
        vcu_cuGraphMemsetNodeGetParams(n, &m) == CUDA_SUCCESS)
        fprintf(f, " | %#llx | value %u of %u bytes | %zu,%zu", (unsigned long long)m.dst, m.value,
                m.elementSize, m.width, m.height);
    if (type == CU_GRAPH_NODE_TYPE_HOST && WANTS(flags, HOST_NODE_PARAMS) &&
        vcu_cuGraphHostNodeGetParams(n, &h) == CUDA_SUCCESS)
        fprintf(f, " | fn %p | data %p", (void *)(uintptr_t)h.fn, h.userData);
    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && WANTS(flags, EVENT_NODE_PARAMS) &&
        vcu_cuGraphEventRecordNodeGetEvent(n, &e) == CUDA_SUCCESS)
        fprintf(f, " | event %p", (void *)e);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && WANTS(flags, EVENT_NODE_PARAMS) &&
        vcu_cuGraphEventWaitNodeGetEvent(n, &e) == CUDA_SUCCESS)
        fprintf(f, " | event %p", (void *)e);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && WANTS(flags, MEM_ALLOC_NODE_PARAMS) &&
        vgp_call_vgpGraphMemNodeGet(n, 0, &dptr, &bytes, NULL, NULL, NULL, NULL, &none[0], NULL, &none[1],
                                    NULL, &none[2]) == CUDA_SUCCESS)
        fprintf(f, " | %#llx | %llu bytes", (unsigned long long)dptr, (unsigned long long)bytes);
    if (type == CU_GRAPH_NODE_TYPE_MEM_FREE && WANTS(flags, MEM_FREE_NODE_PARAMS) &&
        vcu_cuGraphMemFreeNodeGetParams(n, (CUdeviceptr *)&dptr) == CUDA_SUCCESS)
        fprintf(f, " | %#llx", (unsigned long long)dptr);
    if (type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && WANTS(flags, BATCH_MEM_OP_NODE_PARAMS) &&
        vgp_call_vgpGraphBatchMemOpNodeGet(n, UINT32_MAX, &total, &count, NULL, none) == CUDA_SUCCESS)
        fprintf(f, " | %u operations", count);
}

static CUresult print_graph(FILE *f, CUgraph graph, unsigned flags, unsigned depth);

/* The bodies of a conditional node. */
static CUresult print_bodies(FILE *f, CUgraphNode node, unsigned flags, unsigned depth)
{
    uint32_t total = 1;
    CUresult res = CUDA_SUCCESS;

    for (uint32_t i = 0; res == CUDA_SUCCESS && i < total; i++) {
        uint64_t body = 0;
        uint32_t n = 1;

        res = vgp_call_vgpGraphBodies(node, i, &total, &body, &n);
        if (res == CUDA_SUCCESS && n != 0)
            res = print_graph(f, (CUgraph)(uintptr_t)body, flags, depth + 1);
    }
    return res;
}

/* The graphs that a node of that type holds, in the cluster of the node's own. */
static CUresult print_children(FILE *f, CUgraphNode node, CUgraphNodeType type, unsigned flags,
                               unsigned depth)
{
    CUgraph child;
    CUresult res;

    if (depth == CHILDREN_MAX)
        return CUDA_SUCCESS;
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return print_bodies(f, node, flags, depth);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_SUCCESS;
    res = vcu_cuGraphChildGraphNodeGetGraph(node, &child);
    return res == CUDA_SUCCESS ? print_graph(f, child, flags, depth + 1) : res;
}

static CUresult print_nodes(FILE *f, CUgraph graph, unsigned flags, unsigned depth)
{
    CUgraphNode *nodes = NULL;
    size_t n = 0;
    CUresult res = vcu_cuGraphGetNodes(graph, NULL, &n);

    if (res != CUDA_SUCCESS)
        return res;
    nodes = calloc(n + 1, sizeof(*nodes));
    if (nodes == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n != 0)
        res = vcu_cuGraphGetNodes(graph, nodes, &n);
    for (size_t i = 0; res == CUDA_SUCCESS && i < n; i++) {
        CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;

        res = vcu_cuGraphNodeGetType(nodes[i], &type);
        if (res == CUDA_SUCCESS)
            fprintf(f, "\"%p\"[shape=\"record\" label=\"{%s | %u", (void *)nodes[i],
                    (unsigned)type < sizeof(types) / sizeof(types[0]) ? types[type] : "?",
                    vcu_graph_number(nodes[i]));
        if (res == CUDA_SUCCESS) {
            print_details(f, nodes[i], type, flags);
            fprintf(f, "}\"];\n");
            res = print_children(f, nodes[i], type, flags, depth);
        }
    }
    free(nodes);
    return res;
}

static CUresult print_edges(FILE *f, CUgraph graph)
{
    CUgraphNode *from;
    CUgraphEdgeData *data;
    size_t n = 0;
    CUresult res = vcu_cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &n);

    if (res != CUDA_SUCCESS || n == 0)
        return res;
    from = calloc(2 * n, sizeof(*from));
    data = calloc(n, sizeof(*data));
    res = from == NULL || data == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                       : vcu_cuGraphGetEdges_v2(graph, from, from + n, data, &n);
    for (size_t i = 0; res == CUDA_SUCCESS && i < n; i++)
        fprintf(f, "\"%p\" -> \"%p\";\n", (void *)from[i], (void *)from[n + i]);
    free(from);
    free(data);
    return res;
}

static CUresult print_graph(FILE *f, CUgraph graph, unsigned flags, unsigned depth)
{
    CUresult res;

    fprintf(f, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", vcu_graph_number(graph),
            vcu_graph_number(graph));
    res = print_nodes(f, graph, flags, depth);
    if (res == CUDA_SUCCESS)
        res = print_edges(f, graph);
    fprintf(f, "}\n");
    return res;
}

CUresult vcu_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    CUresult res = vcu_check_init();
    FILE *f;

    if (res == CUDA_SUCCESS && (!vcu_graph_ok(hGraph) || path == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    f = fopen(path, "w");
    if (f == NULL)
        return VCU_REFUSE(CUDA_ERROR_OPERATING_SYSTEM, "cuGraphDebugDotPrint", "the file cannot be written");
    fprintf(f, "digraph dot {\n");
    res = print_graph(f, hGraph, flags, 0);
    fprintf(f, "}\n");
    if (fclose(f) != 0 && res == CUDA_SUCCESS)
        res = CUDA_ERROR_OPERATING_SYSTEM;
    return res;
}

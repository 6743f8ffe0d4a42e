/* SPDX-License-Identifier: MIT */
/* cuGraphDebugDotPrint: the file is the guest's, so it is written here, from what can be asked. */
#include "vcu_graph.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../protocol/generated/vgp_entry.h"

static const char *const types[] = { "KERNEL", "MEMCPY", "MEMSET", "HOST", "GRAPH", "EMPTY",
                                     "WAIT_EVENT", "EVENT_RECORD", "EXT_SEMAS_SIGNAL",
                                     "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE", "BATCH_MEM_OP",
                                     "CONDITIONAL" };

static CUresult print_nodes(FILE *f, CUgraph graph)
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
            fprintf(f, "\"%p\"[shape=\"record\" label=\"{%s}\"];\n", (void *)nodes[i],
                    (unsigned)type < sizeof(types) / sizeof(types[0]) ? types[type] : "?");
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
    res = from == NULL || data == NULL
              ? CUDA_ERROR_OUT_OF_MEMORY
              : vcu_cuGraphGetEdges_v2(graph, from, from + n, data, &n);
    for (size_t i = 0; res == CUDA_SUCCESS && i < n; i++)
        fprintf(f, "\"%p\" -> \"%p\";\n", (void *)from[i], (void *)from[n + i]);
    free(from);
    free(data);
    return res;
}

CUresult vcu_cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    CUresult res = vcu_check_init();
    FILE *f;

    (void)flags; /* which details are printed; the driver leaves their form open */
    if (res == CUDA_SUCCESS && (!vcu_graph_ok(hGraph) || path == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res != CUDA_SUCCESS)
        return res;
    f = fopen(path, "w");
    if (f == NULL)
        return VCU_REFUSE(CUDA_ERROR_OPERATING_SYSTEM, "cuGraphDebugDotPrint",
                          "the file cannot be written");
    fprintf(f, "digraph dot {\nsubgraph cluster_0 {\nlabel=\"graph\"\n");
    res = print_nodes(f, hGraph);
    if (res == CUDA_SUCCESS)
        res = print_edges(f, hGraph);
    fprintf(f, "}\n}\n");
    if (fclose(f) != 0 && res == CUDA_SUCCESS)
        res = CUDA_ERROR_OPERATING_SYSTEM;
    return res;
}

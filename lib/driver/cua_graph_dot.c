/* SPDX-License-Identifier: MIT */
/* A graph as a Graphviz file. CUDA leaves the form open. */
#include "graph.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define DOT_DEPTH_MAX 64u /* graphs within graphs: bounds recursion */
#define DOT_WANTS(flags, what) \
    ((flags) & (CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE | CU_GRAPH_DEBUG_DOT_FLAGS_##what))

/* A file being written. */
struct dot {
    const struct cua_graph_ops *ops;
    FILE *f;
    unsigned flags;
};

static const char *dot_type_name(CUgraphNodeType type)
{
    static const char *const names[] = {
        "KERNEL",       "MEMCPY",       "MEMSET",           "HOST",           "GRAPH",     "EMPTY",
        "WAIT_EVENT",   "EVENT_RECORD", "EXT_SEMAS_SIGNAL", "EXT_SEMAS_WAIT", "MEM_ALLOC", "MEM_FREE",
        "BATCH_MEM_OP", "CONDITIONAL"};

    return (unsigned)type < sizeof(names) / sizeof(names[0]) ? names[type] : "?";
}

/* Details of work nodes; those of memory and event nodes follow below. */
static void dot_print_work(const struct dot *d, CUgraphNode n, CUgraphNodeType type)
{
    CUDA_KERNEL_NODE_PARAMS k;
    CUDA_MEMSET_NODE_PARAMS m;
    CUDA_HOST_NODE_PARAMS h;
    CUDA_MEMCPY3D c;

    if (type == CU_GRAPH_NODE_TYPE_KERNEL && DOT_WANTS(d->flags, KERNEL_NODE_PARAMS) &&
        d->ops->kernel_brief(n, &k) == CUDA_SUCCESS)
        fprintf(d->f, " | func %p | grid %u,%u,%u | block %u,%u,%u | shared %u", (void *)k.func, k.gridDimX,
                k.gridDimY, k.gridDimZ, k.blockDimX, k.blockDimY, k.blockDimZ, k.sharedMemBytes);
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY && DOT_WANTS(d->flags, MEMCPY_NODE_PARAMS) &&
        d->ops->copy(n, &c) == CUDA_SUCCESS)
        fprintf(d->f, " | types %d to %d | %zu,%zu,%zu", (int)c.srcMemoryType, (int)c.dstMemoryType,
                c.WidthInBytes, c.Height, c.Depth);
    if (type == CU_GRAPH_NODE_TYPE_MEMSET && DOT_WANTS(d->flags, MEMSET_NODE_PARAMS) &&
        d->ops->set(n, &m) == CUDA_SUCCESS)
        fprintf(d->f, " | %#llx | value %u of %u bytes | %zu,%zu", m.dst, m.value, m.elementSize, m.width,
                m.height);
    if (type == CU_GRAPH_NODE_TYPE_HOST && DOT_WANTS(d->flags, HOST_NODE_PARAMS) &&
        d->ops->host(n, &h) == CUDA_SUCCESS)
        fprintf(d->f, " | fn %p | data %p", (void *)(uintptr_t)h.fn, h.userData);
}

static void dot_print_memory(const struct dot *d, CUgraphNode n, CUgraphNodeType type)
{
    CUdeviceptr ptr;
    unsigned count;
    size_t bytes;
    CUevent e;

    if (type == CU_GRAPH_NODE_TYPE_EVENT_RECORD && DOT_WANTS(d->flags, EVENT_NODE_PARAMS) &&
        d->ops->event_record(n, &e) == CUDA_SUCCESS)
        fprintf(d->f, " | event %p", (void *)e);
    if (type == CU_GRAPH_NODE_TYPE_WAIT_EVENT && DOT_WANTS(d->flags, EVENT_NODE_PARAMS) &&
        d->ops->event_wait(n, &e) == CUDA_SUCCESS)
        fprintf(d->f, " | event %p", (void *)e);
    if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && DOT_WANTS(d->flags, MEM_ALLOC_NODE_PARAMS) &&
        d->ops->alloc_brief(n, &ptr, &bytes) == CUDA_SUCCESS)
        fprintf(d->f, " | %#llx | %zu bytes", ptr, bytes);
    if (type == CU_GRAPH_NODE_TYPE_MEM_FREE && DOT_WANTS(d->flags, MEM_FREE_NODE_PARAMS) &&
        d->ops->free(n, &ptr) == CUDA_SUCCESS)
        fprintf(d->f, " | %#llx", ptr);
    if (type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP && DOT_WANTS(d->flags, BATCH_MEM_OP_NODE_PARAMS) &&
        d->ops->memory_operations_brief(n, &count) == CUDA_SUCCESS)
        fprintf(d->f, " | %u operations", count);
}

static CUresult dot_print_graph(const struct dot *d, CUgraph graph, unsigned depth);

static CUresult dot_print_bodies(const struct dot *d, CUgraphNode node, unsigned depth)
{
    unsigned total = 1;
    CUresult r = CUDA_SUCCESS;

    for (unsigned i = 0; r == CUDA_SUCCESS && i < total; i++) {
        CUgraph body = NULL;

        r = d->ops->body(node, i, &total, &body);
        if (r == CUDA_SUCCESS && body != NULL)
            r = dot_print_graph(d, body, depth);
    }
    return r;
}

/* A node, and the graphs that it holds in the cluster of its own graph. */
static CUresult dot_print_node(const struct dot *d, CUgraphNode node, unsigned depth)
{
    CUgraphNodeType type;
    CUgraph child;
    CUresult r = d->ops->type(node, &type);

    if (r != CUDA_SUCCESS)
        return r;
    fprintf(d->f, "\"%p\"[shape=\"record\" label=\"{%s | %u", (void *)node, dot_type_name(type),
            d->ops->number(node));
    if (DOT_WANTS(d->flags, HANDLES))
        fprintf(d->f, " | node %p", (void *)node);
    dot_print_work(d, node, type);
    dot_print_memory(d, node, type);
    fprintf(d->f, "}\"];\n");
    if (depth == DOT_DEPTH_MAX)
        return CUDA_SUCCESS;
    if (type == CU_GRAPH_NODE_TYPE_CONDITIONAL)
        return dot_print_bodies(d, node, depth + 1);
    if (type != CU_GRAPH_NODE_TYPE_GRAPH)
        return CUDA_SUCCESS;
    r = d->ops->child(node, &child);
    return r == CUDA_SUCCESS ? dot_print_graph(d, child, depth + 1) : r;
}

static CUresult dot_print_nodes(const struct dot *d, CUgraph graph, unsigned depth)
{
    CUgraphNode *nodes;
    size_t n = 0;
    CUresult r = d->ops->nodes(graph, NULL, &n);

    if (r != CUDA_SUCCESS)
        return r;
    nodes = calloc(n + 1, sizeof(*nodes));
    if (nodes == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (n != 0)
        r = d->ops->nodes(graph, nodes, &n);
    for (size_t i = 0; r == CUDA_SUCCESS && i < n && nodes[i] != NULL; i++)
        r = dot_print_node(d, nodes[i], depth);
    free(nodes);
    return r;
}

static CUresult dot_print_edges(const struct dot *d, CUgraph graph)
{
    CUgraphNode *from;
    CUgraphEdgeData *data;
    size_t n = 0, room;
    CUresult r = d->ops->edges(graph, NULL, NULL, NULL, &n);

    if (r != CUDA_SUCCESS || n == 0)
        return r;
    room = n;
    from = calloc(2 * room, sizeof(*from));
    data = calloc(room, sizeof(*data));
    r = from == NULL || data == NULL ? CUDA_ERROR_OUT_OF_MEMORY
                                     : d->ops->edges(graph, from, from + room, data, &n);
    for (size_t i = 0; r == CUDA_SUCCESS && i < n && i < room; i++)
        fprintf(d->f, "\"%p\" -> \"%p\";\n", (void *)from[i], (void *)from[room + i]);
    free(from);
    free(data);
    return r;
}

static CUresult dot_print_graph(const struct dot *d, CUgraph graph, unsigned depth)
{
    unsigned number = d->ops->number(graph);
    CUresult r;

    fprintf(d->f, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", number, number);
    r = dot_print_nodes(d, graph, depth);
    if (r == CUDA_SUCCESS)
        r = dot_print_edges(d, graph);
    fprintf(d->f, "}\n");
    return r;
}

CUresult cua_graph_dot(const struct cua_graph_ops *ops, CUgraph graph, const char *path, unsigned flags)
{
    struct dot d = {.ops = ops, .f = path == NULL ? NULL : fopen(path, "w"), .flags = flags};
    bool failed;
    CUresult r;

    if (d.f == NULL)
        return path == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_OPERATING_SYSTEM;
    fprintf(d.f, "digraph dot {\n");
    r = dot_print_graph(&d, graph, 0);
    fprintf(d.f, "}\n");
    failed = ferror(d.f) != 0;
    failed = fclose(d.f) != 0 || failed;
    return r == CUDA_SUCCESS && failed ? CUDA_ERROR_OPERATING_SYSTEM : r;
}

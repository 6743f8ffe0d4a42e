/* SPDX-License-Identifier: MIT */
/*
 * Building graphs call by call. The worker checks handles of graphs and nodes. This file has the
 * checks that need no reply, and the work that only the guest can do: pack parameters, keep host
 * functions.
 */
#include "graph.h"
#include "../code/code.h"
#include "../memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* ---- where ------------------------------------------------------------------------------------ */

CUresult vcu_where_add(const char *call, CUgraphNode *out, struct vgp_where *w, CUgraph graph,
                       const CUgraphNode *deps, const CUgraphEdgeData *edges, size_t n)
{
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    if (out == NULL || !vcu_graph_ok(graph) || (n != 0 && deps == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    if (n >= VGP_HANDLE_INDEX_MAX) /* more nodes than a process can have */
        return CUDA_ERROR_INVALID_VALUE;
    if (n > VGP_DEPENDENCIES_MAX)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                          "more than %u dependencies: add the others with cuGraphAddDependencies",
                          VGP_DEPENDENCIES_MAX);
    *w = (struct vgp_where){.op = VGP_NODE_ADD, .graph = graph, .deps = deps, .edges = edges, .ndeps = n};
    vcu_build_name(w);
    return CUDA_SUCCESS;
}

CUresult vcu_where_set(struct vgp_where *w, CUgraphNode node)
{
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    *w = (struct vgp_where){.op = VGP_NODE_SET, .target = node};
    return vcu_node_ok(node) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcu_where_exec(struct vgp_where *w, CUgraphExec exec, CUgraphNode node)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    *w = (struct vgp_where){.op = VGP_NODE_EXEC, .target = node, .exec = exec};
    return vcu_node_ok(node) && vcu_exec_ok(exec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- graphs ----------------------------------------------------------------------------------- */

static CUresult node_info(CUgraphNode node, uint32_t *type, uint64_t *graph)
{
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_node_ok(node))
        res = CUDA_ERROR_INVALID_VALUE;
    return res == CUDA_SUCCESS ? vgp_call_vgpGraphNodeInfo(node, type, graph) : res;
}

#define EDGES_MAX ((size_t)VGP_HANDLE_INDEX_MAX * VGP_HANDLE_INDEX_MAX) /* one for each two nodes */

#define EDGES_CALL 1024u /* maximum number of edges of a call */

struct edge_ends {
    CUgraphNode from, to;
};

static int by_ends(const void *a, const void *b)
{
    const struct edge_ends *x = a, *y = b;

    if (x->to != y->to)
        return (uintptr_t)x->to < (uintptr_t)y->to ? -1 : 1;
    return (uintptr_t)x->from < (uintptr_t)y->from ? -1 : x->from != y->from;
}

static void set_ends(struct edge_ends *ends, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ends[i] = (struct edge_ends){from[i], to[i]};
    qsort(ends, n, sizeof(*ends), by_ends);
}

/* Checks that the graph has each of the edges, and none is named twice: for removals in several
 * calls, which cannot be undone without the edges' data. */
static CUresult edges_present(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to, size_t n)
{
    struct edge_ends *has = NULL, *ends = NULL;
    CUgraphNode *nodes = NULL, *to_nodes = NULL;
    size_t all = 0;
    CUresult res = vcu_graph_items(VGP_LIST_EDGES, (uintptr_t)graph, NULL, NULL, NULL, &all, false);

    if (res == CUDA_SUCCESS && (n > all || all > EDGES_MAX))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS) {
        nodes = calloc(2 * all, sizeof(*nodes));
        has = calloc(all, sizeof(*has));
        ends = calloc(n, sizeof(*ends));
        if (nodes == NULL || has == NULL || ends == NULL)
            res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (res == CUDA_SUCCESS) {
        to_nodes = nodes + all;
        res = vcu_graph_items(VGP_LIST_EDGES, (uintptr_t)graph, nodes, to_nodes, NULL, &all, false);
    }
    if (res == CUDA_SUCCESS) {
        set_ends(has, nodes, to_nodes, all);
        set_ends(ends, from, to, n);
    }
    for (size_t i = 0; res == CUDA_SUCCESS && i < n; i++) {
        if ((i != 0 && by_ends(&ends[i - 1], &ends[i]) == 0) ||
            bsearch(&ends[i], has, all, sizeof(*has), by_ends) == NULL)
            res = CUDA_ERROR_INVALID_VALUE;
    }
    free(nodes);
    free(has);
    free(ends);
    return res;
}

/* Changes the edges of one call. */
static CUresult edges_call(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                           const CUgraphEdgeData *data, uint32_t n, bool remove)
{
    CUresult res;

    if (!remove && data == NULL && vcu_build_post_edges(graph, from, to, n))
        return vgp_post_vgpGraphEdges(graph, remove, from, n, to, n, NULL, 0);
    res = vgp_call_vgpGraphEdges(graph, remove, from, n, to, n, data,
                                 data == NULL ? 0 : n * (uint32_t)sizeof(*data));
    vcu_build_edges(graph, from, to, n, res == CUDA_SUCCESS && !remove);
    return res;
}

/* Changes all edges or none. More than a call takes are split; where a later call fails, the edges
 * that the earlier ones added are removed again. */
CUresult vcu_graph_edges(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                         const CUgraphEdgeData *data, size_t n, bool remove)
{
    CUresult res = vcu_check_init();
    size_t done = 0;

    if (res == CUDA_SUCCESS && (!vcu_graph_ok(graph) || (n != 0 && (from == NULL || to == NULL)) ||
                                n > EDGES_MAX)) /* the arrays are then not read */
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS && remove && n > EDGES_CALL)
        res = edges_present(graph, from, to, n);
    while (res == CUDA_SUCCESS && done < n) {
        const uint32_t part = n - done < EDGES_CALL ? (uint32_t)(n - done) : EDGES_CALL;

        res = edges_call(graph, from + done, to + done, data == NULL ? NULL : data + done, part, remove);
        if (res == CUDA_SUCCESS)
            done += part;
    }
    while (res != CUDA_SUCCESS && !remove && done != 0) { /* all parts before the failed one are full */
        done -= EDGES_CALL;
        vgp_call_vgpGraphEdges(graph, true, from + done, EDGES_CALL, to + done, EDGES_CALL, NULL, 0);
    }
    return res;
}

CUresult vcu_node_enabled(CUgraphExec exec, CUgraphNode node, bool set, uint32_t *value)
{
    CUresult res = vcu_check_usable();

    if (res == CUDA_SUCCESS && (!vcu_exec_ok(exec) || !vcu_node_ok(node) || value == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    return res == CUDA_SUCCESS ? vgp_call_vgpGraphNodeEnabled(exec, node, set, set ? *value : 0, value) : res;
}

/* ---- kernels ---------------------------------------------------------------------------------- */

/* owner: the context of the function, which providers compare with the current context; 0: a
 * kernel, which has code in `at`. */
static bool kernel_context_sure(uint64_t owner, const struct vcu_context *at)
{
    const struct vcu_context *c = owner != 0 ? vcu_context_find(NULL) : at;

    return c != NULL && (owner == 0 || owner == c->handle) &&
           vcu_node_context_sure((CUcontext)(uintptr_t)c->handle);
}

CUresult vcu_kernel_node(const char *call, const struct vgp_where *w, const CUDA_KERNEL_NODE_PARAMS *p,
                         uint64_t *node)
{
    CUfunction func;
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    const struct vcu_context *at;
    struct vgp_where where = *w;
    struct vcu_launch l;
    const char *why;
    const void *data;
    uint8_t *buffer;
    uint64_t owner;
    uint32_t size;
    CUresult res;

    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    func = p->func != NULL ? p->func : (CUfunction)p->kern;
    f = vcu_func_find_in(func, &owner);
    if (f == NULL)
        return func == NULL ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    at = vcu_context_find(p->ctx); /* NULL: the current one, if there is one */
    if (at == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    l = (struct vcu_launch){.grid = {p->gridDimX, p->gridDimY, p->gridDimZ},
                            .block = {p->blockDimX, p->blockDimY, p->blockDimZ},
                            .shared = p->sharedMemBytes};
    res = vcu_launch_check(vcu.devices[at->device].attributes, f, false, &l, &why);
    if (res != CUDA_SUCCESS)
        return VCU_REFUSE(res, call, "%s: %s", f->name, why);
    buffer = malloc(f->param_bytes + 1);
    if (buffer == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vcu_launch_pack(f, p->kernelParams, p->extra, buffer, &data, &size);
    if (res == CUDA_SUCCESS &&
        vcu_build_post(w, size == f->param_bytes && vcu_launch_sure(f, &f->in_node) &&
                              vcu_block_known(f, l.block) && kernel_context_sure(owner, at)))
        where.op = VGP_NODE_POST;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphKernelNode(VGP_WHERE(&where), func, p->func != NULL ? NULL : p->ctx,
                                          p->gridDimX, p->gridDimY, p->gridDimZ, p->blockDimX, p->blockDimY,
                                          p->blockDimZ, p->sharedMemBytes, data, size, node);
    if (res == CUDA_SUCCESS && vgp_where_adds(w))
        atomic_store_explicit(&f->in_node, true, memory_order_relaxed);
    if (res == CUDA_SUCCESS)
        vcu_block_accepted(f, l.block);
    free(buffer);
    return res;
}

/* The packed parameters, piece by piece; malloc'd. */
static CUresult fetch_params(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p, uint8_t **out, uint32_t *size)
{
    uint32_t total = 0, have = 0;
    uint64_t func = 0, ctx = 0;
    uint8_t *data = NULL;

    memset(p, 0, sizeof(*p));
    do {
        uint8_t part[3900];
        uint32_t n = sizeof(part);
        CUresult res = vgp_call_vgpGraphKernelNodeGet(node, have, &func, &ctx, &p->gridDimX, &p->gridDimY,
                                                      &p->gridDimZ, &p->blockDimX, &p->blockDimY,
                                                      &p->blockDimZ, &p->sharedMemBytes, &total, part, &n);

        if (res == CUDA_SUCCESS && (total > VCU_MAX_PARAM_BYTES || n > total - have))
            res = CUDA_ERROR_UNKNOWN;
        if (res == CUDA_SUCCESS && data == NULL) {
            data = calloc(1, total + 1);
            res = data == NULL ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
        }
        if (res != CUDA_SUCCESS) {
            free(data);
            return res;
        }
        memcpy(data + have, part, n);
        have += n;
        if (n == 0)
            break;
    } while (have < total);
    if (VGP_HANDLE_TYPE(func) == VGP_H_KERNEL)
        p->kern = (CUkernel)(uintptr_t)func;
    p->func = (CUfunction)(uintptr_t)func; /* a CUkernel is accepted wherever a CUfunction is */
    p->ctx = (CUcontext)(uintptr_t)ctx;
    *out = data;
    *size = have;
    return CUDA_SUCCESS;
}

CUresult vcu_cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    uint8_t *data = NULL;
    uint32_t type = 0, size = 0;
    uint64_t graph = 0;
    void **list;
    CUresult res = node_info(hNode, &type, &graph);

    if (res != CUDA_SUCCESS)
        return res;
    if (nodeParams == NULL || type != CU_GRAPH_NODE_TYPE_KERNEL)
        return CUDA_ERROR_INVALID_VALUE;
    res = fetch_params(hNode, nodeParams, &data, &size);
    if (res != CUDA_SUCCESS)
        return res;
    f = vcu_func_find(nodeParams->func);
    if (f == NULL || f->param_bytes > size) {
        free(data);
        return VCU_REFUSE(CUDA_ERROR_UNKNOWN, "cuGraphKernelNodeGetParams",
                          "the node's function is none of this process's");
    }
    /* A single block: the pointers, then their targets. */
    list = malloc(f->param_count * sizeof(*list) + size + 1);
    if (list != NULL) {
        uint8_t *bytes = (uint8_t *)(list + f->param_count);

        memcpy(bytes, data, size);
        for (uint32_t i = 0; i < f->param_count; i++)
            list[i] = bytes + f->params[i].offset;
        nodeParams->kernelParams = list;
    }
    free(data);
    if (list == NULL || !vcu_node_keep(hNode, (CUgraph)(uintptr_t)graph, list))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
}

CUresult vcu_kernel_attribute(CUgraphNode node, CUgraphNode source, uint32_t op, uint32_t id,
                              const void *value, void *result)
{
    uint32_t n = sizeof(CUkernelNodeAttrValue);
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && !vcu_node_ok(node))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphKernelNodeAttribute(node, source, op, id, value, value == NULL ? 0 : n, result,
                                                   &n);
    /* Nodes that kernels may change cannot be destroyed, nor copied with their graph. */
    if (res == CUDA_SUCCESS &&
        (op == 2 || (op == 1 && id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)))
        vcu_build_special_node(node);
    return res;
}

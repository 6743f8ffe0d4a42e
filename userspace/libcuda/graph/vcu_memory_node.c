/* SPDX-License-Identifier: MIT */
/* Memory allocation and free nodes, and conditional nodes. */
#include "graph.h"
#include "../memory/memory.h"

#include <stdlib.h>
#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define DESCRIPTORS_MAX 64u

/* ---- memory ------------------------------------------------------------------------------------ */

bool vcu_graph_has_memory(CUgraph graph)
{
    uint32_t memory = 0;

    return vcu_graph_memory_known() && vgp_call_vgpGraphTraits(graph, &memory) == CUDA_SUCCESS && memory != 0;
}

CUresult vcu_alloc_node(const struct vgp_where *w, CUDA_MEM_ALLOC_NODE_PARAMS *p, uint64_t *node)
{
    uint32_t types[DESCRIPTORS_MAX], access[DESCRIPTORS_MAX], n;
    int32_t ids[DESCRIPTORS_MAX];
    uint64_t dptr = 0;
    CUresult res;

    if (p == NULL || p->bytesize == 0 || p->accessDescCount > DESCRIPTORS_MAX ||
        (p->accessDescCount != 0 && p->accessDescs == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    n = (uint32_t)p->accessDescCount;
    for (uint32_t i = 0; i < n; i++) {
        types[i] = p->accessDescs[i].location.type;
        ids[i] = p->accessDescs[i].location.id;
        access[i] = p->accessDescs[i].flags;
    }
    res = vgp_call_vgpGraphMemAllocNode(VGP_WHERE(w), p->poolProps.allocType, p->poolProps.handleTypes,
                                        p->poolProps.location.type, p->poolProps.location.id, p->bytesize,
                                        types, n, ids, n, access, n, node, &dptr);
    if (res != CUDA_SUCCESS)
        return res;
    p->dptr = dptr;
    vcu_graph_memory_note(dptr, p->bytesize, p->poolProps.location.id);
    return CUDA_SUCCESS;
}

CUresult vcu_cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    uint32_t kind = 0, location = 0, types[DESCRIPTORS_MAX], access[DESCRIPTORS_MAX];
    uint32_t n = DESCRIPTORS_MAX, m = DESCRIPTORS_MAX, k = DESCRIPTORS_MAX, type = 0;
    uint64_t dptr = 0, bytes = 0, graph = 0;
    int32_t id = 0, ids[DESCRIPTORS_MAX];
    CUmemAccessDesc *list = NULL;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (!vcu_node_ok(hNode) || params_out == NULL))
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphNodeInfo(hNode, &type, &graph);
    if (res == CUDA_SUCCESS && type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpGraphMemNodeGet(hNode, 0, &dptr, &bytes, &kind, &location, &id, types, &n, ids, &m,
                                          access, &k);
    if (res != CUDA_SUCCESS)
        return res;
    if (n > DESCRIPTORS_MAX || m != n || k != n)
        return CUDA_ERROR_UNKNOWN;
    if (n != 0) {
        list = calloc(n, sizeof(*list));
        if (list == NULL)
            return CUDA_ERROR_OUT_OF_MEMORY;
        for (uint32_t i = 0; i < n; i++) {
            list[i].location.type = (CUmemLocationType)types[i];
            list[i].location.id = ids[i];
            list[i].flags = (CUmemAccess_flags)access[i];
        }
        if (!vcu_node_keep(hNode, (CUgraph)(uintptr_t)graph, list))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memset(params_out, 0, sizeof(*params_out));
    params_out->poolProps.allocType = (CUmemAllocationType)kind;
    params_out->poolProps.location.type = (CUmemLocationType)location;
    params_out->poolProps.location.id = id;
    params_out->accessDescs = list;
    params_out->accessDescCount = n;
    params_out->bytesize = bytes;
    params_out->dptr = dptr;
    return CUDA_SUCCESS;
}

CUresult vcu_free_node(const struct vgp_where *w, CUdeviceptr dptr, uint64_t *node)
{
    return dptr == 0 ? CUDA_ERROR_INVALID_VALUE : vgp_call_vgpGraphMemFreeNode(VGP_WHERE(w), dptr, node);
}

/* ---- conditions -------------------------------------------------------------------------------- */

/* The handles of a node's graphs, kept with the node; malloc'd. */
static CUresult fetch_bodies(uint64_t node, uint32_t size, CUgraph **out)
{
    CUgraph *list = calloc(size + 1, sizeof(*list));
    uint32_t have = 0;

    if (list == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    while (have < size) {
        uint64_t part[400];
        uint32_t n = 400, total = 0;
        CUresult res = vgp_call_vgpGraphBodies((CUgraphNode)(uintptr_t)node, have, &total, part, &n);

        if (res == CUDA_SUCCESS && (total != size || n == 0 || n > size - have))
            res = CUDA_ERROR_UNKNOWN;
        if (res != CUDA_SUCCESS) {
            free(list);
            return res;
        }
        for (uint32_t i = 0; i < n; i++)
            list[have++] = (CUgraph)(uintptr_t)part[i];
    }
    *out = list;
    return CUDA_SUCCESS;
}

/* True if every provider takes a node of that type with so many graphs. */
static bool condition_sure(const CUDA_CONDITIONAL_NODE_PARAMS *p)
{
    switch (p->type) {
    case CU_GRAPH_COND_TYPE_IF:
        return p->size <= 2;
    case CU_GRAPH_COND_TYPE_WHILE:
        return p->size == 1;
    default:
        return p->type == CU_GRAPH_COND_TYPE_SWITCH;
    }
}

#define BODIES_NAMED 256u /* maximum of vgpGraphConditionalNamed */

/* Adds the node with handles minted here for its graphs; *bodies: NULL where the worker is to mint them. */
static CUresult named_condition(const struct vgp_where *w, const CUDA_CONDITIONAL_NODE_PARAMS *p,
                                CUgraph **bodies, uint64_t *node)
{
    struct vgp_where where = *w;
    CUgraph *list = p->size <= BODIES_NAMED ? calloc(p->size, sizeof(*list)) : NULL;
    CUresult res;

    if (!vcu_build_bodies(w, p->handle, list, p->size)) {
        free(list);
        return CUDA_SUCCESS;
    }
    if (condition_sure(p) && vcu_node_context_sure(p->ctx) && vcu_build_post_condition(w, p->ctx))
        where.op = VGP_NODE_POST;
    res =
        vgp_call_vgpGraphConditionalNamed(VGP_WHERE(&where), p->handle, p->type, p->ctx, list, p->size, node);
    if (res == CUDA_SUCCESS) {
        *node = (uintptr_t)w->target;
        *bodies = list;
    } else {
        free(list);
    }
    return res;
}

CUresult vcu_condition_node(const struct vgp_where *w, CUDA_CONDITIONAL_NODE_PARAMS *p, uint64_t *node)
{
    CUgraph *bodies = NULL;
    CUresult res;

    if (p->size == 0 || (p->ctx != NULL && vcu_context_find(p->ctx) == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    res = named_condition(w, p, &bodies, node);
    if (res == CUDA_SUCCESS && bodies == NULL) {
        res = vgp_call_vgpGraphConditionalNode(VGP_WHERE(w), p->handle, p->type, p->size, p->ctx, node);
        if (res == CUDA_SUCCESS)
            res = fetch_bodies(*node, p->size, &bodies);
    }
    if (res == CUDA_SUCCESS && !vcu_node_keep((CUgraphNode)(uintptr_t)*node, w->graph, bodies))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res == CUDA_SUCCESS)
        p->phGraph_out = bodies;
    return res;
}

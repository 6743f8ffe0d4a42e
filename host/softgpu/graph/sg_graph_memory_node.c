/* SPDX-License-Identifier: MIT */
/* Nodes that allocate or free memory: added by calls, or captured. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

/* Grants the devices in `access` access to m, in addition to its own device. */
static bool keep_access(struct sg_graph_memory *m, const CUmemAccessDesc *access, size_t n)
{
    uint32_t all = SG_ACCESS_OF(m->device);

    for (size_t i = 0; i < n; i++) {
        if (access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            all |= SG_ACCESS_OF(access[i].location.id);
    }
    sg_mem_set_access(m->addr, all);
    if (!n)
        return true;
    m->access = malloc(n * sizeof(*access));
    if (!m->access)
        return false;
    memcpy(m->access, access, n * sizeof(*access));
    m->naccess = n;
    return true;
}

/* Adds a node of m, whose reference it takes over (also on failure). Under the lock. */
static CUresult add_locked(CUgraphNode *out, struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                           CUgraphNodeType type, struct sg_graph_memory *m)
{
    struct sg_node **deps = NULL, *node;
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    if (out && (!n || dependencies))
        r = sg_dependencies_get_locked(g, dependencies, n, &deps);
    if (r == CUDA_SUCCESS)
        r = sg_node_new(g, type, NULL, deps, n, &node);
    sg_nodes_put(deps, n);
    if (r != CUDA_SUCCESS) {
        sg_graph_memory_put(m);
        return r;
    }
    node->mem = m;
    g->has_memory = true;
    *out = SG_HANDLE(CUgraphNode, node);
    sg_obj_put(&node->obj);
    return CUDA_SUCCESS;
}

/* Checks that graph g may get a node that frees m or, with m NULL, a node that allocates. */
static CUresult may_add(const struct sg_graph *g, const struct sg_graph_memory *m)
{
    if (g->owned) /* documented for children that were moved, and for bodies of conditions */
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "memory nodes in a graph that belongs to a node of another");
    if (!m)
        return CUDA_SUCCESS;
    if (m->freed_inside || (m->owner == g->id ? m->freed_outside : false))
        return CUDA_ERROR_INVALID_VALUE;
    sg_graph_settle(g);
    for (size_t i = 0; i < g->n; i++) {
        if (g->nodes[i]->mem == m && g->nodes[i]->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return CUDA_ERROR_INVALID_VALUE; /* freed twice in the same graph */
    }
    return CUDA_SUCCESS;
}

static void note_free(const struct sg_graph *g, struct sg_graph_memory *m)
{
    if (m->owner == g->id)
        m->freed_inside = true;
    else
        m->freed_outside = true;
}

CUresult sg_graph_memory_add_alloc(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                   CUDA_MEM_ALLOC_NODE_PARAMS *p, CUgraphNode *out)
{
    struct sg_graph_memory *m = NULL;
    CUresult r;

    pthread_mutex_lock(&sg_graph_lock);
    r = may_add(g, NULL);
    if (r == CUDA_SUCCESS)
        r = sg_graph_memory_new(g, p->poolProps.location.id, p->bytesize, &m);
    if (r == CUDA_SUCCESS && !keep_access(m, p->accessDescs, p->accessDescCount)) {
        sg_graph_memory_put(m);
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r == CUDA_SUCCESS) {
        uint64_t addr = m->addr;

        r = add_locked(out, g, dependencies, n, CU_GRAPH_NODE_TYPE_MEM_ALLOC, m);
        if (r == CUDA_SUCCESS)
            p->dptr = addr;
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

CUresult sg_graph_memory_add_free(struct sg_graph *g, const CUgraphNode *dependencies, size_t n,
                                  uint64_t addr, CUgraphNode *out)
{
    CUresult r = CUDA_ERROR_INVALID_VALUE;

    pthread_mutex_lock(&sg_graph_lock);
    struct sg_graph_memory *m = sg_graph_memory_find(addr);

    if (m)
        r = may_add(g, m);
    if (r == CUDA_SUCCESS) {
        sg_graph_memory_get(m);
        r = add_locked(out, g, dependencies, n, CU_GRAPH_NODE_TYPE_MEM_FREE, m);
        if (r == CUDA_SUCCESS)
            note_free(g, m);
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return r;
}

/* ---- capture ---- */

bool sg_capture_alloc(struct sg_stream *s, int device, uint64_t bytes, uint32_t access, CUdeviceptr *dptr,
                      CUresult *r)
{
    CUmemAccessDesc peers[SG_MAX_DEVICES];
    struct sg_graph_memory *m = NULL;
    size_t n = 0;
    bool captured;

    if (!atomic_load(&sg_captures))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    captured = s->front->capture != NULL;
    if (captured) {
        struct sg_graph *g = s->front->capture->graph;

        *r = s->front->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : may_add(g, NULL);
        if (*r == CUDA_SUCCESS)
            *r = sg_graph_memory_new(g, device, bytes, &m);
        for (unsigned d = 0; d < sg_config.ndevices; d++) {
            if ((int)d != device && (access & SG_ACCESS_OF(d)))
                peers[n++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, (int)d},
                                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
        }
        if (*r == CUDA_SUCCESS && !keep_access(m, peers, n)) {
            sg_graph_memory_put(m);
            *r = CUDA_ERROR_OUT_OF_MEMORY;
        }
        if (*r == CUDA_SUCCESS) {
            uint64_t addr = m->addr;

            sg_capture_memory(s, CU_GRAPH_NODE_TYPE_MEM_ALLOC, m, r);
            if (*r == CUDA_SUCCESS)
                *dptr = addr;
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

bool sg_capture_free(struct sg_stream *s, CUdeviceptr dptr, CUresult *r)
{
    bool captured;

    if (!atomic_load(&sg_captures))
        return false;
    pthread_mutex_lock(&sg_graph_lock);
    captured = s->front->capture != NULL;
    if (captured) {
        struct sg_graph *g = s->front->capture->graph;
        struct sg_graph_memory *m = sg_graph_memory_find(dptr);

        *r = s->front->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
             : m                        ? may_add(g, m)
                                        : CUDA_ERROR_INVALID_VALUE;
        if (*r == CUDA_SUCCESS) {
            sg_graph_memory_get(m);
            sg_capture_memory(s, CU_GRAPH_NODE_TYPE_MEM_FREE, m, r);
            if (*r == CUDA_SUCCESS)
                note_free(g, m);
        }
    }
    pthread_mutex_unlock(&sg_graph_lock);
    return captured;
}

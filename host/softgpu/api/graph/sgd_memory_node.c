/* SPDX-License-Identifier: MIT */
/* Driver API: memory allocation and free nodes. */
#include <string.h>

#include "api/api.h"

static CUresult check_props(const CUmemPoolProps *p, const CUmemAccessDesc *access, size_t n)
{
    if (p->allocType != CU_MEM_ALLOCATION_TYPE_PINNED || p->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
        n > sg_config.ndevices || (n && !access))
        return CUDA_ERROR_INVALID_VALUE;
    if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return p->location.type == CU_MEM_LOCATION_TYPE_HOST ||
                       p->location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA
                   ? sg_fail(CUDA_ERROR_NOT_SUPPORTED, "graph nodes that allocate host memory")
                   : CUDA_ERROR_INVALID_VALUE;
    if ((unsigned)p->location.id >= sg_config.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n; i++) {
        /* As for pools: the device that the memory is on reaches it in any case. */
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            (unsigned)access[i].location.id >= sg_config.ndevices ||
            (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
             (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE || access[i].location.id == p->location.id)))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, struct sg_graph *g,
                                    const CUgraphNode *dependencies, size_t numDependencies,
                                    CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    CUDA_MEM_ALLOC_NODE_PARAMS *p = nodeParams;
    CUresult r;

    if (!p || !p->bytesize || !phGraphNode || (numDependencies && !dependencies))
        return CUDA_ERROR_INVALID_VALUE;
    r = check_props(&p->poolProps, p->accessDescs, p->accessDescCount);
    return r == CUDA_SUCCESS ? sg_graph_memory_add_alloc(g, dependencies, numDependencies, p, phGraphNode)
                             : r;
}

/* A node gets it once, after its handle; it does not change and lives as long as the node. */
static const struct sg_graph_memory *memory_of(const struct sg_node *n)
{
    const struct sg_graph_memory *m;

    pthread_mutex_lock(&sg_graph_lock);
    m = n->mem;
    pthread_mutex_unlock(&sg_graph_lock);
    return m;
}

CUresult sgd_cuGraphMemAllocNodeGetParams(struct sg_node *n, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    if (!params_out || n->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC || !memory_of(n))
        return CUDA_ERROR_INVALID_VALUE;
    memset(params_out, 0, sizeof(*params_out));
    params_out->poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    params_out->poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    params_out->poolProps.location.id = n->mem->device;
    params_out->accessDescs = n->mem->access;
    params_out->accessDescCount = n->mem->naccess;
    params_out->bytesize = n->mem->size;
    params_out->dptr = n->mem->addr;
    return CUDA_SUCCESS;
}

CUresult sgd_cuGraphMemFreeNodeGetParams(struct sg_node *n, CUdeviceptr *dptr_out)
{
    if (!dptr_out || n->type != CU_GRAPH_NODE_TYPE_MEM_FREE || !memory_of(n))
        return CUDA_ERROR_INVALID_VALUE;
    *dptr_out = n->mem->addr;
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGraphMemTrim(CUdevice device)
{
    sg_graph_memory_trim(device);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    cuuint64_t v = 0;

    if (!value || !sg_graph_memory_attribute(device, attr, &v))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, &v, sizeof(v));
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    cuuint64_t v;

    memcpy(&v, value, sizeof(v));
    if (v || (attr != CU_GRAPH_MEM_ATTR_USED_MEM_HIGH && attr != CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH))
        return CUDA_ERROR_INVALID_VALUE; /* documented: high watermarks only, and only to zero */
    sg_graph_memory_reset_high(device, attr);
    return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * Part of vgp_roundtrip_test.c: stand-ins for the worker's functions that decoders call. They count
 * the handles that a call names, drops and keeps.
 */
#ifndef VGP_ROUNDTRIP_WORKER_H
#define VGP_ROUNDTRIP_WORKER_H

CUresult wrk_malformed(struct wrk_call *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(c->malformed_text, sizeof(c->malformed_text), fmt, ap);
    va_end(ap);
    c->malformed = true;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult wrk_missing(struct wrk_call *c, const char *name)
{
    (void)c;
    (void)name;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult wrk_handle_get(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, bool null_ok,
                        void **object)
{
    (void)c;
    if (handle == 0 && null_ok) {
        *object = NULL;
        return CUDA_SUCCESS;
    }
    if (VGP_HANDLE_TYPE(handle) != (unsigned)type)
        return CUDA_ERROR_INVALID_HANDLE;
    *object = (void *)(uintptr_t)0x1000;
    return CUDA_SUCCESS;
}

CUresult wrk_func_get(struct wrk_call *c, uint64_t handle, CUfunction *func)
{
    void *p = NULL;
    CUresult r = wrk_handle_get(c, handle, VGP_H_FUNCTION, false, &p);
    *func = p;
    return r;
}

CUresult wrk_graph_object(struct wrk_call *c, uint64_t handle, CUgraph *object)
{
    return wrk_handle_get(c, handle, VGP_H_GRAPH, false, (void **)object);
}

CUresult wrk_graph_object_any(struct wrk_call *c, uint64_t handle, CUgraph *object)
{
    return wrk_handle_get(c, handle, VGP_H_GRAPH, false, (void **)object);
}

CUresult wrk_node_object(struct wrk_call *c, uint64_t handle, CUgraphNode *object)
{
    return wrk_handle_get(c, handle, VGP_H_GRAPH_NODE, false, (void **)object);
}

CUresult wrk_green_object(struct wrk_call *c, uint64_t handle, CUgreenCtx *object)
{
    return wrk_handle_get(c, handle, VGP_H_GREEN, false, (void **)object);
}

CUresult wrk_allocation_object(struct wrk_call *c, uint64_t handle, CUmemGenericAllocationHandle *object)
{
    return wrk_handle_get(c, handle, VGP_H_ALLOCATION, false, (void **)object);
}

uint64_t wrk_handle_of(struct wrk_worker *w, unsigned type, const void *object)
{
    (void)w;
    return object ? VGP_HANDLE(type, 1, 1) : 0;
}

CUresult wrk_handle_reserve(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    return VGP_HANDLE_TYPE(handle) == (unsigned)type ? CUDA_SUCCESS : wrk_malformed(c, "handle type");
}

void wrk_handle_put(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type, void *object)
{
    handles.named++;
    (void)c;
    (void)handle;
    (void)type;
    (void)object;
}

void wrk_handle_parent(struct wrk_call *c, uint64_t handle, uint64_t parent)
{
    handles.parents++;
    (void)c;
    (void)handle;
    (void)parent;
}

void wrk_handle_drop(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    handles.unnamed++;
    (void)c;
    (void)handle;
    (void)type;
}

uint64_t wrk_handle_parent_of(struct wrk_call *c, uint64_t handle)
{
    (void)c;
    return handle;
}

bool wrk_handle_is_part(struct wrk_call *c, uint64_t handle, enum vgp_handle_type type)
{
    (void)c;
    (void)handle;
    (void)type;
    return false;
}

CUresult wrk_refuse(struct wrk_call *c, CUresult r, const char *why)
{
    (void)c;
    (void)why;
    return r;
}

bool wrk_name_keep_long(struct wrk_call *c, uint64_t handle, unsigned type)
{
    (void)c;
    (void)handle;
    (void)type;
    return false;
}

CUresult wrk_node_context(struct wrk_call *c, uint64_t handle, CUcontext *out)
{
    return wrk_handle_get(c, handle, VGP_H_CONTEXT, true, (void **)out);
}

CUresult wrk_long(struct wrk_call *c, wrk_long_call call, const void *object, const uint64_t args[3])
{
    (void)c;
    (void)object;
    return call(args);
}

CUresult wrk_where_get(struct wrk_call *c, struct wrk_where *w, uint32_t op, uint64_t graph, uint64_t target,
                       uint64_t exec, const uint64_t *dependencies, uint32_t n, const void *edges,
                       uint32_t edge_bytes)
{
    (void)c;
    (void)graph;
    (void)target;
    (void)exec;
    memset(w, 0, sizeof(*w));
    w->op = op % 3;
    w->deps = calloc(n + 1, sizeof(*w->deps));
    for (uint32_t i = 0; i < n; i++)
        w->ndeps += dependencies[i] != 0;
    for (uint32_t i = 0; i < edge_bytes; i++)
        w->ndeps += ((const uint8_t *)edges)[i] != 0;
    return CUDA_SUCCESS;
}

void wrk_where_end(struct wrk_where *w)
{
    free(w->deps);
}

CUresult wrk_added(struct wrk_call *c, struct wrk_where *w, CUresult r, CUgraphNode node, uint64_t *handle)
{
    (void)c;
    (void)w;
    (void)node;
    *handle = 1;
    return r;
}

CUresult wrk_blob_take(struct wrk_call *c, uint32_t blob_id, uint64_t size, const void **data)
{
    (void)size;
    (void)data;
    return wrk_malformed(c, "blob %u is not there", blob_id);
}

#endif

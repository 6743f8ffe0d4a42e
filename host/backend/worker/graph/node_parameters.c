/* SPDX-License-Identifier: MIT */
/* Kernel nodes and stream memory operations as nodes; copies are in copy_node.c. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "lib/driver/memory_operation.h"

/* ---- kernels ---- */

static CUresult kernel_node(struct wrk_call *c, struct wrk_where *w, const CUDA_KERNEL_NODE_PARAMS *p,
                            uint64_t *handle)
{
    CUgraphNode node = NULL;
    CUresult r;

    if (!wrk_provider.cuGraphAddKernelNode_v2 || !wrk_provider.cuGraphKernelNodeSetParams_v2 ||
        !wrk_provider.cuGraphExecKernelNodeSetParams_v2)
        return wrk_missing(c, "cuGraphAddKernelNode_v2 and its kin");
    if (w->op == VGP_NODE_SET)
        return wrk_provider.cuGraphKernelNodeSetParams_v2(w->target->object, p);
    if (w->op == VGP_NODE_EXEC)
        return wrk_provider.cuGraphExecKernelNodeSetParams_v2(w->exec, w->target->object, p);
    if (w->op != VGP_NODE_ADD)
        return wrk_malformed(c, "launches are captured by other calls");
    /* in a single call, as a node cannot always be removed */
    if (w->edges && wrk_provider.cuGraphAddNode_v2) {
        CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};

        _Static_assert(sizeof(any.kernel) >= sizeof(*p), "the third version appends");
        memcpy(&any.kernel, p, sizeof(*p));
        r = wrk_provider.cuGraphAddNode_v2(&node, w->graph->object, w->deps, w->edges, w->ndeps, &any);
        w->edges = NULL;
        return wrk_added(c, w, r, node, handle);
    }
    r = wrk_provider.cuGraphAddKernelNode_v2(&node, w->graph->object, w->deps, wrk_where_n(w), p);
    return wrk_added(c, w, r, node, handle);
}

CUresult wrk_do_vgpGraphKernelNode(struct wrk_call *c, const struct vgp_args_vgpGraphKernelNode *a,
                                   const uint64_t *dependencies, const void *edgeData, const void *params,
                                   struct vgp_ret_vgpGraphKernelNode *ret)
{
    size_t size = a->params_len;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)params, CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, CU_LAUNCH_PARAM_END};
    CUDA_KERNEL_NODE_PARAMS p = {.gridDimX = a->gridX,
                                 .gridDimY = a->gridY,
                                 .gridDimZ = a->gridZ,
                                 .blockDimX = a->blockX,
                                 .blockDimY = a->blockY,
                                 .blockDimZ = a->blockZ,
                                 .sharedMemBytes = a->sharedBytes,
                                 .extra = size ? extra : NULL};
    CUfunction f;
    struct wrk_where w;
    CUresult r = WRK_WHERE(&w);

    if (r == CUDA_SUCCESS)
        r = wrk_func_get(c, a->func, &f);
    if (r == CUDA_SUCCESS)
        r = wrk_node_context(c, a->context, &p.ctx);
    if (r == CUDA_SUCCESS) {
        if (VGP_HANDLE_TYPE(a->func) == VGP_H_KERNEL)
            p.kern = (CUkernel)f;
        else
            p.func = f;
        r = kernel_node(c, &w, &p, &ret->node);
    }
    wrk_where_end(&w);
    return r;
}

struct by_function {
    CUfunction f;
    uint64_t handle;
};

static void compare_function(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    struct by_function *s = arg;
    CUfunction f = NULL;

    if (!s->handle && wrk_provider.cuKernelGetFunction(&f, e->object) == CUDA_SUCCESS && f == s->f)
        s->handle = handle;
}

/* Client handle of the function launched by a node, or of its kernel. */
static uint64_t name_function(struct wrk_worker *w, const CUDA_KERNEL_NODE_PARAMS *p)
{
    struct by_function s = {.f = p->func};

    if (p->kern && !p->func)
        return wrk_handle_of(w, VGP_H_KERNEL, p->kern);
    s.handle = wrk_handle_of(w, VGP_H_FUNCTION, p->func);
    if (!s.handle)
        s.handle = wrk_handle_of(w, VGP_H_KERNEL, p->func);
    if (!s.handle && wrk_provider.cuKernelGetFunction)
        wrk_handles_each(&w->handles, VGP_H_KERNEL, compare_function, &s);
    return s.handle;
}

#define PARAMS_MAX 32764u /* maximum bytes of launch parameters */

/* Packs the parameters, which the provider lists individually with their layout. */
static CUresult pack_list(const CUDA_KERNEL_NODE_PARAMS *p, uint8_t *out, uint32_t *total)
{
    for (size_t i = 0;; i++) {
        size_t offset = 0, size = 0;
        CUresult r = CUDA_ERROR_INVALID_VALUE;

        if (p->func && wrk_provider.cuFuncGetParamInfo)
            r = wrk_provider.cuFuncGetParamInfo(p->func, i, &offset, &size);
        else if (p->kern && wrk_provider.cuKernelGetParamInfo)
            r = wrk_provider.cuKernelGetParamInfo(p->kern, i, &offset, &size);
        if (r != CUDA_SUCCESS) /* no parameter has this index; another error is not an end of the list */
            return r == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : r;
        if (!vgp_range_ok(offset, size, PARAMS_MAX) || !p->kernelParams || !p->kernelParams[i])
            return CUDA_ERROR_UNKNOWN;
        memcpy(out + offset, p->kernelParams[i], size);
        if (offset + size > *total)
            *total = (uint32_t)(offset + size);
    }
}

static CUresult pack(const CUDA_KERNEL_NODE_PARAMS *p, uint8_t *out, uint32_t *total)
{
    const void *buffer = NULL;
    size_t size = 0;

    *total = 0;
    if (!p->extra)
        return pack_list(p, out, total);
    for (void **e = p->extra; *e != CU_LAUNCH_PARAM_END; e += 2) {
        if (*e == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = e[1];
        else if (*e == CU_LAUNCH_PARAM_BUFFER_SIZE)
            size = *(size_t *)e[1];
        else
            return CUDA_ERROR_UNKNOWN;
    }
    if (size > PARAMS_MAX || (size && !buffer))
        return CUDA_ERROR_UNKNOWN;
    if (size)
        memcpy(out, buffer, size);
    *total = (uint32_t)size;
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpGraphKernelNodeGet(struct wrk_call *c, const struct vgp_args_vgpGraphKernelNodeGet *a,
                                      struct vgp_ret_vgpGraphKernelNodeGet *ret,
                                      struct vgp_outs_vgpGraphKernelNodeGet *o)
{
    static uint8_t packed[PARAMS_MAX]; /* dispatcher only */
    CUDA_KERNEL_NODE_PARAMS p = {0};
    struct wrk_gnode *n;
    CUresult r = wrk_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGraphKernelNodeGetParams_v2)
        return wrk_missing(c, "cuGraphKernelNodeGetParams_v2");
    r = wrk_provider.cuGraphKernelNodeGetParams_v2(n->object, &p);
    if (r == CUDA_SUCCESS) {
        memset(packed, 0, sizeof(packed));
        r = pack(&p, packed, &ret->total);
    }
    if (r != CUDA_SUCCESS)
        return r;
    ret->func = name_function(c->w, &p);
    ret->context = wrk_handle_of(c->w, VGP_H_CONTEXT, p.ctx);
    ret->gridX = p.gridDimX;
    ret->gridY = p.gridDimY;
    ret->gridZ = p.gridDimZ;
    ret->blockX = p.blockDimX;
    ret->blockY = p.blockDimY;
    ret->blockZ = p.blockDimZ;
    ret->sharedBytes = p.sharedMemBytes;
    if (a->first < ret->total) {
        uint32_t left = ret->total - a->first;

        ret->params_len = left < sizeof(o->params) ? left : (uint32_t)sizeof(o->params);
        memcpy(o->params, packed + a->first, ret->params_len);
    }
    return CUDA_SUCCESS;
}

/* ---- memory operations of streams ---- */

#define OPERATION_WORDS 4u

CUstreamBatchMemOpParams wrk_memory_operation(uint32_t operation, uint32_t flags, uint64_t address,
                                              uint64_t value)
{
    const struct cua_memory_operation m = {(CUstreamBatchMemOpType)operation, flags, address, value};

    return cua_memory_operation_params(&m);
}

CUresult wrk_memory_operations_packed(struct wrk_call *c, CUstreamBatchMemOpParams *out,
                                      const uint64_t *words, uint32_t nwords)
{
    if (nwords % OPERATION_WORDS)
        return wrk_malformed(c, "half a memory operation");
    for (uint32_t i = 0; i < nwords; i += OPERATION_WORDS)
        *out++ = wrk_memory_operation((uint32_t)words[i], (uint32_t)words[i + 1], words[i + 2], words[i + 3]);
    return CUDA_SUCCESS;
}

CUresult wrk_do_vgpGraphBatchMemOpNodeGet(struct wrk_call *c,
                                          const struct vgp_args_vgpGraphBatchMemOpNodeGet *a,
                                          struct vgp_ret_vgpGraphBatchMemOpNodeGet *ret,
                                          struct vgp_outs_vgpGraphBatchMemOpNodeGet *o)
{
    const uint32_t room = sizeof(o->operations) / sizeof(o->operations[0]) / OPERATION_WORDS;
    CUDA_BATCH_MEM_OP_NODE_PARAMS p = {0};
    struct wrk_gnode *n;
    CUresult r = wrk_gnode_get(c, a->node, &n);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuGraphBatchMemOpNodeGetParams)
        return wrk_missing(c, "cuGraphBatchMemOpNodeGetParams");
    r = wrk_provider.cuGraphBatchMemOpNodeGetParams(n->object, &p);
    if (r != CUDA_SUCCESS)
        return r;
    ret->flags = p.flags;
    ret->total = p.count;
    for (uint32_t i = 0; i < room && a->first < p.count && i < p.count - a->first; i++) {
        const struct cua_memory_operation m = cua_memory_operation_of(&p.paramArray[a->first + i]);
        uint64_t *words = &o->operations[i * OPERATION_WORDS];

        words[0] = m.type;
        words[1] = m.flags;
        words[2] = m.address;
        words[3] = m.value;
        ret->operations_len += OPERATION_WORDS;
    }
    return CUDA_SUCCESS;
}

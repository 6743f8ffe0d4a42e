/* SPDX-License-Identifier: MIT */
/* Kernel nodes and stream memory operations as nodes; copies are in wrk_copy_node.c. */
#include "node.h"

#include <stdlib.h>
#include <string.h>

#include "lib/driver/memory_operation.h"

/* ---- kernels ---- */

CUresult wrk_kernel_node_add(struct wrk_where *w, CUgraphNode *node, const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_KERNEL};
    CUresult r;

    _Static_assert(sizeof(any.kernel) >= sizeof(*p), "the third version appends");
    memcpy(&any.kernel, p, sizeof(*p));
    r = wrk_provider.cuGraphAddNode_v2(node, w->in, w->deps, w->edges, w->ndeps, &any);
    w->edges = NULL; /* already added */
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

uint64_t wrk_kernel_node_function(struct wrk_worker *w, const CUDA_KERNEL_NODE_PARAMS *p)
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

static CUresult pack_kernel(const CUDA_KERNEL_NODE_PARAMS *p, uint8_t *out, uint32_t *total)
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

CUresult wrk_kernel_node_pack(const CUDA_KERNEL_NODE_PARAMS *p, const uint8_t **packed, uint32_t *size)
{
    static uint8_t bytes[PARAMS_MAX]; /* dispatcher only */

    memset(bytes, 0, sizeof(bytes));
    *packed = bytes;
    return pack_kernel(p, bytes, size);
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

uint64_t wrk_memory_operation_word(const CUstreamBatchMemOpParams *p, unsigned word)
{
    const struct cua_memory_operation m = cua_memory_operation_of(p);

    return word == 0 ? m.type : word == 1 ? m.flags : word == 2 ? m.address : m.value;
}

/* SPDX-License-Identifier: MIT */
/* Context queries, all answered in the guest. */
#include "core.h"

#include "../../../protocol/generated/vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"

/* The context that NULL or a handle names, for questions: it need not be retained. */
static CUresult find_for_query(CUcontext ctx, struct vcu_context **c)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    *c = vcu_context_find(ctx);
    return *c == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
}

CUresult vcu_cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    struct vcu_context *c;
    CUresult res = find_for_query(ctx, &c);

    if (res != CUDA_SUCCESS)
        return res;
    if (device == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *device = c->device;
    return CUDA_SUCCESS;
}

CUresult vcu_cuCtxGetDevice(CUdevice *device)
{
    return vcu_cuCtxGetDevice_v2(device, NULL);
}

CUresult vcu_cuCtxGetFlags(unsigned int *flags)
{
    struct vcu_context *c;
    CUresult res = find_for_query(NULL, &c);

    if (res != CUDA_SUCCESS)
        return res;
    if (flags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = c->base->flags | CU_CTX_MAP_HOST; /* the documentation: always set since CUDA 3.2 */
    return CUDA_SUCCESS;
}

CUresult vcu_cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    struct vcu_context *c;
    CUresult res = find_for_query(ctx, &c);

    if (res != CUDA_SUCCESS)
        return res;
    if (ctxId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = c->id;
    return CUDA_SUCCESS;
}

CUresult vcu_cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    struct vcu_context *c;
    CUresult res = find_for_query(ctx, &c);

    if (res != CUDA_SUCCESS)
        return res;
    if (version == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *version = c->api_version;
    return CUDA_SUCCESS;
}

CUresult vcu_cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
    struct vcu_context *c;
    CUresult res = find_for_query(NULL, &c);

    if (res != CUDA_SUCCESS)
        return res;
    if (pExecAffinity == NULL || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return VCU_REFUSE(CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY, "cuCtxGetExecAffinity",
                      "execution affinity is not served");
}

CUresult vcu_stream_context(CUstream stream, uint64_t *context)
{
    CUresult res;

    stream = vcu_stream(stream);
    /* A stream tells its context without one being current. */
    res = (uintptr_t)stream <= 2 ? vcu_check_context() : vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(stream))
        return vcu_stream_error(stream);
    *context = (uintptr_t)stream <= 2
                   ? vcu_current_context()
                   : (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
    return CUDA_SUCCESS;
}

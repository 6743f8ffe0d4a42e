/* SPDX-License-Identifier: MIT */
/* Context queries, all answered in the guest. */
#include "core.h"

#include "../../../protocol/generated/vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"

/* The context that NULL or a handle names: it need not be retained. */
CUresult vcu_context_facts(CUcontext ctx, struct vcu_context_facts *out)
{
    const struct vcu_context *c;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_context_find(ctx);
    if (c == NULL)
        return CUDA_ERROR_INVALID_CONTEXT;
    *out = (struct vcu_context_facts){
        .device = c->device,
        .flags = c->base->flags | CU_CTX_MAP_HOST, /* the documentation: always set since CUDA 3.2 */
        .api_version = c->api_version,
        .id = c->id,
    };
    return CUDA_SUCCESS;
}

CUresult vcu_check_context_named(CUcontext ctx)
{
    return vcu_context_find(ctx) == NULL ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS;
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
    *context = (uintptr_t)stream <= 2 ? vcu_current_context()
                                      : (uint64_t)(uintptr_t)vcu_handle_data((uintptr_t)stream, VGP_H_STREAM);
    return CUDA_SUCCESS;
}

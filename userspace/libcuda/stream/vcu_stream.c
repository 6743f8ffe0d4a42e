/* SPDX-License-Identifier: MIT */
/* Streams and events: the calls answered in the guest; all other calls are generated. */
#include "stream.h"

#include <string.h>

#include "../memory/memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_cuStreamDestroy_v2(CUstream hStream)
{
    bool borrowed;
    CUresult res =
        vcu_context_borrow((uintptr_t)vcu_handle_data((uintptr_t)hStream, VGP_H_STREAM), &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    if (vgp_handle_live((uintptr_t)hStream, VGP_H_STREAM)) {
        vcu_capture_forget_stream(hStream);
        res = vgp_call_cuStreamDestroy_v2(hStream);
    } else {
        res = vcu_stream_error(hStream);
    }
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_stream_wait(CUstream hStream)
{
    CUstream stream = vcu_stream(hStream);

    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    return vcu_wait_answered(stream, false) ? CUDA_SUCCESS : vcu_stream_wait_sent(stream);
}

CUresult vcu_stream_query(CUstream hStream)
{
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (vcu_current_context() != 0 && vcu_check_context() == CUDA_SUCCESS && vcu_wait_idle())
        return CUDA_SUCCESS;
    return vcu_stream_query_sent(vcu_stream(hStream));
}

CUresult vcu_cuEventDestroy_v2(CUevent hEvent)
{
    bool borrowed;
    CUresult res = vcu_context_borrow((uintptr_t)vcu_handle_data((uintptr_t)hEvent, VGP_H_EVENT), &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    res = vgp_handle_live((uintptr_t)hEvent, VGP_H_EVENT) ? vgp_call_cuEventDestroy_v2(hEvent)
                                                          : CUDA_ERROR_INVALID_HANDLE;
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    const struct vcu_context *c;
    uint64_t context = 0;
    CUresult res = vcu_stream_context(hStream, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (pCtx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    c = vcu_handle_data(context, VGP_H_CONTEXT);
    *pCtx = (CUcontext)(uintptr_t)(c == NULL ? context : c->base->handle);
    if (pGreenCtx != NULL)
        *pGreenCtx = c == NULL ? NULL : (CUgreenCtx)(uintptr_t)c->green;
    return CUDA_SUCCESS;
}

/* ---- attributes ---- */

/* Both sides can access managed memory at any time: attaching has no effect. */
CUresult vcu_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags)
{
    struct vcu_place p;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST && flags != CU_MEM_ATTACH_SINGLE) ||
        !vcu_memory_find(dptr, &p) || (p.m.kind != VCU_MEM_MANAGED && p.m.kind != VCU_MEM_SHADOW) ||
        p.start != dptr || (length != 0 && length != p.size))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

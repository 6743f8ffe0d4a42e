/* SPDX-License-Identifier: MIT */
/* Streams and events: the calls answered in the guest; the others are generated. */
#include "../memory/memory.h"

#include <string.h>

#include "../../../protocol/generated/vgp_entry.h"
#include "../../../protocol/generated/vgp_guest.h"

CUresult vcu_cuStreamDestroy_v2(CUstream hStream)
{
    bool borrowed;
    CUresult res = vcu_context_borrow(
        (uintptr_t)vcu_handle_data((uintptr_t)hStream, VGP_H_STREAM), &borrowed);

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

/* cuStreamSynchronize in a live context. */
CUresult vcu_stream_wait(CUstream hStream)
{
    CUstream stream = vcu_stream(hStream);

    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (vcu_wait_answered(stream, false))
        return CUDA_SUCCESS;
    vcu_wait_intend(stream, VCU_EFFECT_WAITS);
    return vgp_call_cuStreamSynchronize(stream);
}

/* cuStreamQuery, which needs no current context. */
CUresult vcu_stream_query(CUstream hStream)
{
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (vcu_current_context() != 0 && vcu_check_context() == CUDA_SUCCESS && vcu_wait_idle())
        return CUDA_SUCCESS;
    return vgp_call_cuStreamQuery(vcu_stream(hStream));
}

CUresult vcu_cuEventDestroy_v2(CUevent hEvent)
{
    bool borrowed;
    CUresult res = vcu_context_borrow(
        (uintptr_t)vcu_handle_data((uintptr_t)hEvent, VGP_H_EVENT), &borrowed);

    if (res != CUDA_SUCCESS)
        return res;
    res = vgp_handle_live((uintptr_t)hEvent, VGP_H_EVENT) ? vgp_call_cuEventDestroy_v2(hEvent)
                                                          : CUDA_ERROR_INVALID_HANDLE;
    vcu_context_return(borrowed);
    return res;
}

CUresult vcu_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    uint64_t context;
    CUresult res = vcu_stream_context(hStream, &context);

    if (res != CUDA_SUCCESS)
        return res;
    if (pctx == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = (CUcontext)(uintptr_t)context;
    return CUDA_SUCCESS;
}

CUresult vcu_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CUcontext ctx = NULL;
    CUresult res = vcu_cuStreamGetCtx(hStream, pCtx == NULL ? NULL : &ctx);
    const struct vcu_context *c;

    if (res != CUDA_SUCCESS)
        return res;
    c = vcu_handle_data((uintptr_t)ctx, VGP_H_CONTEXT);
    *pCtx = c == NULL ? ctx : (CUcontext)(uintptr_t)c->base->handle;
    if (pGreenCtx != NULL)
        *pGreenCtx = c == NULL ? NULL : (CUgreenCtx)(uintptr_t)c->green;
    return CUDA_SUCCESS;
}

CUresult vcu_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx)
{
    CUcontext ctx;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && phCtx == NULL)
        res = CUDA_ERROR_INVALID_VALUE;
    return res == CUDA_SUCCESS ? vcu_cuStreamGetCtx_v2(hStream, &ctx, phCtx) : res;
}

/* ---- attributes ---- */

CUresult vcu_cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr,
                                  const CUstreamAttrValue *value)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if (value == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return vgp_call_vgpStreamSetAttribute(vcu_stream(hStream), attr, value, sizeof(*value));
}

CUresult vcu_cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr,
                                  CUstreamAttrValue *value_out)
{
    uint8_t bytes[sizeof(*value_out)];
    uint32_t n = sizeof(bytes);
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if (value_out == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpStreamGetAttribute(vcu_stream(hStream), attr, bytes, &n);
    if (res == CUDA_SUCCESS && n != sizeof(bytes))
        res = CUDA_ERROR_UNKNOWN;
    if (res == CUDA_SUCCESS)
        memcpy(value_out, bytes, sizeof(bytes));
    return res;
}

/* Managed memory is where both sides reach it at any time: attaching changes nothing. */
CUresult vcu_cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                    unsigned int flags)
{
    struct vcu_place p;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(vcu_stream(hStream)))
        return vcu_stream_error(vcu_stream(hStream));
    if ((flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
         flags != CU_MEM_ATTACH_SINGLE) ||
        !vcu_memory_find(dptr, &p) ||
        (p.m.kind != VCU_MEM_MANAGED && p.m.kind != VCU_MEM_SHADOW) || p.start != dptr ||
        (length != 0 && length != p.size))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult vcu_cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    uint64_t context;
    CUresult res = vcu_stream_context(hStream, &context);

    if (res != CUDA_SUCCESS)
        return res;
    return vcu_cuCtxGetDevice_v2(device, (CUcontext)(uintptr_t)context);
}

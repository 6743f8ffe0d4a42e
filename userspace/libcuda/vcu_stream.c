/* SPDX-License-Identifier: MIT */
/* What of streams and events is answered in the guest; the rest of them is generated. */
#include "vcu_memory.h"

#include <string.h>

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/generated/vgp_guest.h"

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

CUresult vcu_cuStreamDestroy(CUstream hStream)
{
    return vcu_cuStreamDestroy_v2(hStream);
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

CUresult vcu_cuEventDestroy(CUevent hEvent)
{
    return vcu_cuEventDestroy_v2(hEvent);
}

CUresult vcu_cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vgp_handle_live((uintptr_t)hStart, VGP_H_EVENT) ||
        !vgp_handle_live((uintptr_t)hEnd, VGP_H_EVENT))
        return CUDA_ERROR_INVALID_HANDLE;
    if (pMilliseconds == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return vgp_call_cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
}

/* The context of a stream: the handle table keeps it as the stream's data (vcu_handle.c). */
static CUresult context_of(CUstream stream, uint64_t *context)
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

CUresult vcu_cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    uint64_t context;
    CUresult res = context_of(hStream, &context);

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
    CUresult res = context_of(hStream, &context);

    if (res != CUDA_SUCCESS)
        return res;
    return vcu_cuCtxGetDevice_v2(device, (CUcontext)(uintptr_t)context);
}

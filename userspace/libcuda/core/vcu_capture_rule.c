/* SPDX-License-Identifier: MIT */
/* Calls that are forbidden while streams capture: they are refused, and the captures are lost. */
#include "core.h"

#include "vgp_guest.h"

CUresult vcu_capture_status(CUstream stream, uint32_t *status)
{
    return vgp_call_vgpStreamCaptureInfo(stream, UINT64_MAX, status, NULL, NULL, NULL, NULL, &(uint32_t){0},
                                         NULL, &(uint32_t){0});
}

bool vcu_stream_captured(CUstream stream)
{
    uint32_t status = CU_STREAM_CAPTURE_STATUS_NONE;

    if (atomic_load_explicit(&vcu_captures, memory_order_relaxed) == 0 || (uintptr_t)stream <= 1)
        return false;
    if (vcu_capture_post(stream))
        return true;
    return vcu_capture_status(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult vcu_capture_spoil(const char *call, CUstream stream)
{
    vcu_capture_doubt();
    vgp_call_vgpStreamInvalidateCapture(stream);
    return VCU_REFUSE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
                      "cannot be captured; the capture of the stream is lost");
}

CUresult vcu_capture_forbids(const char *call)
{
    CUstream stream;

    if (!vcu_capture_forbids_thread())
        return CUDA_SUCCESS;
    while ((stream = vcu_capture_next_lost()) != NULL)
        vgp_call_vgpStreamInvalidateCapture(stream);
    return VCU_REFUSE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call,
                      "not while a stream captures in this mode; the capture is lost");
}

CUresult vcu_check_uncaptured(const char *call)
{
    CUresult res = vcu_check_context();

    return res != CUDA_SUCCESS ? res : vcu_capture_unsafe(call);
}

void vcu_capture_tell_spoilt(CUstream stream)
{
    if (vcu_capture_spoilt(stream))
        vgp_call_vgpStreamInvalidateCapture(stream);
}

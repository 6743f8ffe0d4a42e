/* SPDX-License-Identifier: MIT */
/*
 * Memory and events shared with other processes by handles (cuIpc*). A handle is a token of the
 * host's broker, which knows it in this virtual machine (or session of the host) only.
 */
#include "memory.h"

#include <string.h>

#include "vgp_entry.h"
#include "vgp_guest.h"
#include "../../../protocol/vgp_guest_rt.h"

/* ---- memory --------------------------------------------------------------------------------- */

CUresult vcu_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    CUipcMemHandle h;
    uint32_t n = sizeof(h);
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (pHandle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    struct vcu_place p;
    if (!vcu_memory_find(dptr, &p) || p.m.kind != VCU_MEM_DEVICE || p.m.pool != 0 || p.m.opened)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuIpcGetMemHandle", "%#llx is not memory of cuMemAlloc",
                          (unsigned long long)dptr);
    res = vgp_call_cuIpcGetMemHandle(&h, &n, dptr);
    if (res == CUDA_SUCCESS && n != sizeof(h))
        res = CUDA_ERROR_UNKNOWN;
    if (res == CUDA_SUCCESS) {
        vcu_memory_set_exported(dptr);
        *pHandle = h;
    }
    return res;
}

CUresult vcu_cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    /* Removed from the table first: once closed, another thread may get the address at once. */
    struct vcu_place p;
    bool last = vcu_memory_close(dptr, &p);

    res = vgp_call_cuIpcCloseMemHandle(dptr);
    if (res != CUDA_SUCCESS && last)
        vcu_memory_put(p.start, p.size, &p.m);
    return res;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Data of the handle of an event that other processes may have. */
static char interprocess;
/* Events that measure time, a bit for each index of a handle. */
static _Atomic uint64_t timed[VGP_HANDLE_INDEX_MAX / 64];

static void note_timing(CUevent event, bool measures)
{
    const uint64_t index = VGP_HANDLE_INDEX((uintptr_t)event) % VGP_HANDLE_INDEX_MAX;
    const uint64_t bit = UINT64_C(1) << index % 64;

    if (measures)
        atomic_fetch_or_explicit(&timed[index / 64], bit, memory_order_relaxed);
    else
        atomic_fetch_and_explicit(&timed[index / 64], ~bit, memory_order_relaxed);
}

static bool measures_time(CUevent event)
{
    const uint64_t index = VGP_HANDLE_INDEX((uintptr_t)event) % VGP_HANDLE_INDEX_MAX;

    return (atomic_load_explicit(&timed[index / 64], memory_order_relaxed) >> index % 64 & 1) != 0;
}

CUresult vcu_cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (phEvent == NULL ||
        (Flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS)) ||
        ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING)))
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_cuEventCreate(phEvent, Flags);
    if (res == CUDA_SUCCESS && (Flags & CU_EVENT_INTERPROCESS))
        vcu_handle_set_data((uintptr_t)*phEvent, VGP_H_EVENT, &interprocess);
    if (res == CUDA_SUCCESS)
        note_timing(*phEvent, (Flags & CU_EVENT_DISABLE_TIMING) == 0);
    return res;
}

/* Another process may learn of the record as soon as the call returns: it must have happened. */
static CUresult await_record(CUevent event, CUresult res)
{
    uint64_t echo;

    if (res == CUDA_SUCCESS && vcu_handle_data((uintptr_t)event, VGP_H_EVENT) == &interprocess)
        res = vgp_call_vgpPing(0, &echo);
    return res;
}

static CUresult check_record(CUevent event, CUstream stream)
{
    CUresult res = vcu_check_context();
    const void *of;

    if (res != CUDA_SUCCESS)
        return res;
    if (!vgp_handle_live((uintptr_t)event, VGP_H_EVENT) || !vcu_stream_ok(stream))
        return CUDA_ERROR_INVALID_HANDLE;
    of = vcu_handle_data((uintptr_t)event, VGP_H_EVENT);
    return of == &interprocess || (uint64_t)(uintptr_t)of == vcu_stream_owner(vcu_stream(stream))
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_HANDLE; /* documented: both of one context */
}

static bool is_interprocess(CUevent event)
{
    return vcu_handle_data((uintptr_t)event, VGP_H_EVENT) == &interprocess;
}

CUresult vcu_event_launch_ok(CUevent event, CUstream stream)
{
    CUresult res = check_record(event, stream);

    return res == CUDA_SUCCESS && (is_interprocess(event) || measures_time(event)) ? CUDA_ERROR_INVALID_VALUE
                                                                                   : res;
}

CUresult vcu_cuEventRecord(CUevent hEvent, CUstream hStream)
{
    CUresult res = check_record(hEvent, hStream);
    struct vgp_intent intent;

    if (res != CUDA_SUCCESS)
        return res;
    intent = vcu_capture_post_record(vcu_stream(hStream), hEvent, !is_interprocess(hEvent));
    return await_record(hEvent, vgp_call_cuEventRecord(intent, hEvent, vcu_stream(hStream)));
}

CUresult vcu_cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    CUresult res = vcu_check_context();
    struct vgp_intent intent;

    if (res != CUDA_SUCCESS)
        return res;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    res = check_record(hEvent, hStream);
    if (res != CUDA_SUCCESS)
        return res;
    /* The record needs no reply, so that the provider's refusal would belong to a later call. */
    if (flags != 0 && !vcu_stream_captured(vcu_stream(hStream)))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuEventRecordWithFlags",
                          "CU_EVENT_RECORD_EXTERNAL outside of a capture");
    intent = vcu_capture_post_record(vcu_stream(hStream), hEvent, flags == 0 && !is_interprocess(hEvent));
    return await_record(hEvent, vgp_call_cuEventRecordWithFlags(intent, hEvent, vcu_stream(hStream), flags));
}

CUresult vcu_cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    uint64_t h;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (phEvent == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    h = vgp_handle_mint(VGP_H_EVENT);
    if (h == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpIpcOpenEvent(&handle, sizeof(handle), (CUevent)(uintptr_t)h);
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(h);
        return res;
    }
    vcu_handle_set_data(h, VGP_H_EVENT, &interprocess);
    *phEvent = (CUevent)(uintptr_t)h;
    return CUDA_SUCCESS;
}

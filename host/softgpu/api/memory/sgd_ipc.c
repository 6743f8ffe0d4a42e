/* SPDX-License-Identifier: MIT */
/* Driver API: memory and events that processes share by handles of 64 bytes (cuIpc*). */
#include <string.h>

#include "api/api.h"

/* The contents of an IPC handle. They come from another process: properties that the memory
   itself can provide are not taken from them. */
struct ipc_handle {
    char magic[8];
    uint8_t token[SG_SHARE_TOKEN];
    uint64_t size;
    int32_t device;
    uint32_t flags; /* flags of an event */
    uint32_t zero[2];
};
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "as cuda.h says");
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcEventHandle), "as cuda.h says");

static const char magic_memory[] = "sgIPCmem", magic_event[] = "sgIPCevt"; /* 8 bytes of each */

/* ---- memory ---- */

CUresult sgd_cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct ipc_handle h = {.size = 0};
    struct sg_mem_info info;
    CUresult r;

    if (!pHandle || !sg_mem_find(dptr, &info) || info.kind != SG_MEM_DEVICE || info.internal || info.async ||
        info.imported)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_share_export(&info, h.token);
    h.size = info.size;
    h.device = info.device;
    memcpy(h.magic, magic_memory, sizeof(h.magic));
    if (r == CUDA_SUCCESS)
        memcpy(pHandle, &h, sizeof(h));
    return r;
}

CUresult sgd_cuIpcOpenMemHandle_v2(struct sg_ctx *ctx, CUdeviceptr *pdptr, CUipcMemHandle handle)
{
    struct ipc_handle h;
    uint64_t addr = 0;
    CUresult r;

    memcpy(&h, &handle, sizeof(h));
    if (memcmp(h.magic, magic_memory, sizeof(h.magic)) || h.flags)
        return CUDA_ERROR_INVALID_VALUE; /* as driver 580 says of bytes that are no handle */
    r = sg_share_open_memory(ctx, h.token, h.size, h.device, &addr);
    if (r == CUDA_SUCCESS)
        *pdptr = addr;
    return r;
}

CUresult sgd_cuIpcCloseMemHandle(struct sg_ctx *ctx, CUdeviceptr dptr)
{
    struct sg_mem_info info;

    if (!sg_mem_find(dptr, &info) || info.base != dptr || !info.imported || info.async)
        return CUDA_ERROR_INVALID_VALUE;
    if (info.ctx != ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_ctx_drain(ctx); /* work that may still use it */
    if (!sg_share_close_memory(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    return sg_see_fault(ctx);
}

/* ---- events ---- */

CUresult sgd_cuIpcGetEventHandle(struct sg_ctx *ctx, CUipcEventHandle *pHandle, CUevent event)
{
    struct ipc_handle h = {.size = 0};
    CUresult r;

    memcpy(h.magic, magic_event, sizeof(h.magic));
    h.device = ctx->device;
    r = sg_event_token(event, h.token, &h.flags);
    if (r == CUDA_SUCCESS)
        memcpy(pHandle, &h, sizeof(h));
    return r;
}

CUresult sgd_cuIpcOpenEventHandle(struct sg_ctx *ctx, CUevent *phEvent, CUipcEventHandle handle)
{
    struct ipc_handle h;

    memcpy(&h, &handle, sizeof(h));
    if (memcmp(h.magic, magic_event, sizeof(h.magic)) || h.size)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sg_ipc_event_is_ours(h.token))
        return CUDA_ERROR_INVALID_CONTEXT; /* made by this process */
    return sg_event_open(ctx, h.token, h.flags & CU_EVENT_BLOCKING_SYNC, phEvent);
}

/* SPDX-License-Identifier: MIT */
/* Driver API: memory and events that processes share by handles of 64 bytes (cuIpc*). */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sg_event.h"
#include "sg_share.h"

#define SG_PAGES(bytes) (((bytes) + 4095) & ~UINT64_C(4095))

/* What a handle holds. Whoever opens it believes nothing of it that the memory itself can tell. */
struct ipc_handle {
    char magic[8];
    uint8_t token[SG_SHARE_TOKEN];
    uint64_t size;
    int32_t device;
    uint32_t flags; /* of an event */
    uint32_t zero[2];
};
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcMemHandle), "as cuda.h says");
_Static_assert(sizeof(struct ipc_handle) == sizeof(CUipcEventHandle), "as cuda.h says");

static const char magic_memory[8] = "sgIPCmem", magic_event[8] = "sgIPCevt";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list and every `opens` */
static struct sg_share *shares;

static void link_locked(struct sg_share *s)
{
    s->next = shares;
    s->pprev = &shares;
    if (s->next)
        s->next->pprev = &s->next;
    shares = s;
}

static void unlink_locked(struct sg_share *s)
{
    if (!s->pprev)
        return;
    *s->pprev = s->next;
    if (s->next)
        s->next->pprev = s->pprev;
    s->pprev = NULL;
}

void sg_share_link(struct sg_share *s)
{
    pthread_mutex_lock(&lock);
    link_locked(s);
    pthread_mutex_unlock(&lock);
}

void sg_share_end(struct sg_share *s)
{
    pthread_mutex_lock(&lock);
    unlink_locked(s);
    pthread_mutex_unlock(&lock);
    sg_share_close(s->token);
    free(s);
}

/* ---- memory ---- */

/* Makes the allocation one that can be opened elsewhere. Under the lock. */
static CUresult export_locked(const struct sg_mem_info *info)
{
    struct sg_share *s = calloc(1, sizeof(*s));
    int fd;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = sg_share_create(SG_SHARE_MEMORY, SG_PAGES(info->size), s->token, NULL);
    if (fd < 0) {
        free(s);
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuIpcGetMemHandle: no %llu bytes to share",
                       (unsigned long long)info->size);
    }
    s->size = info->size;
    s->base = info->base;
    CUresult r = sg_mem_share(info, s, fd, sg_share_move);

    close(fd);
    if (r == CUDA_SUCCESS) {
        link_locked(s);
    } else {
        sg_share_close(s->token);
        free(s);
    }
    return r;
}

CUresult CUDAAPI cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    struct ipc_handle h = {.size = 0};
    struct sg_mem_info info;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    (void)ctx;
    if (!pHandle || !sg_mem_find(dptr, &info) || info.kind != SG_MEM_DEVICE || info.internal ||
        info.async || info.imported)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    if (!info.share)
        r = export_locked(&info);
    /* Looked up again under the lock: another thread may have done it, or freed the memory. */
    if (!sg_mem_find(info.base, &info) || !info.share || info.imported)
        r = r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    else
        r = CUDA_SUCCESS;
    if (r == CUDA_SUCCESS) {
        memcpy(h.magic, magic_memory, sizeof(h.magic));
        struct sg_share *s = shares;

        while (s && s != info.share)
            s = s->next;
        if (s)
            memcpy(h.token, s->token, sizeof(h.token));
        else
            r = CUDA_ERROR_INVALID_VALUE; /* freed in this very moment */
    }
    pthread_mutex_unlock(&lock);
    h.size = info.size;
    h.device = info.device;
    if (r == CUDA_SUCCESS)
        memcpy(pHandle, &h, sizeof(h));
    return r;
}

static struct sg_share *by_token_locked(const uint8_t *token)
{
    struct sg_share *s = shares;

    while (s && memcmp(s->token, token, sizeof(s->token)))
        s = s->next;
    return s;
}

/* Under the lock. */
static CUresult import_locked(struct sg_ctx *ctx, const uint8_t *token, uint64_t size,
                              uint64_t pool, uint32_t access, uint64_t *addr)
{
    struct sg_share *s = calloc(1, sizeof(*s));
    uint64_t bytes;
    int fd;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = sg_share_open(SG_SHARE_MEMORY, token, &bytes, NULL);
    if (fd < 0) {
        free(s);
        return fd == -1 ? CUDA_ERROR_INVALID_HANDLE : CUDA_ERROR_MAP_FAILED;
    }
    memcpy(s->token, token, sizeof(s->token));
    s->size = size;
    s->opens = 1;
    s->ctx = ctx;
    s->ctx_id = ctx->id;
    CUresult r = size && size <= bytes && SG_PAGES(size) == bytes
                     ? sg_mem_alloc_shared(ctx, size, pool, access, s, true, fd, &s->base)
                     : CUDA_ERROR_INVALID_HANDLE;

    close(fd);
    if (r != CUDA_SUCCESS) {
        sg_share_close(s->token);
        free(s);
        return r == CUDA_ERROR_OUT_OF_MEMORY ? CUDA_ERROR_MAP_FAILED : r;
    }
    link_locked(s);
    *addr = s->base;
    return CUDA_SUCCESS;
}

CUresult sg_share_import(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, uint64_t pool,
                         uint32_t access, uint64_t *addr)
{
    CUresult r = CUDA_ERROR_INVALID_HANDLE;

    pthread_mutex_lock(&lock);
    if (!by_token_locked(token)) /* else it is of this process, or has been opened already */
        r = import_locked(ctx, token, size, pool, access, addr);
    pthread_mutex_unlock(&lock);
    return r;
}

bool sg_share_token(const struct sg_share *share, uint8_t *token)
{
    struct sg_share *s;

    pthread_mutex_lock(&lock);
    for (s = shares; s && s != share; s = s->next)
        ;
    if (s)
        memcpy(token, s->token, sizeof(s->token));
    pthread_mutex_unlock(&lock);
    return s != NULL;
}

CUresult CUDAAPI cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle,
                                       unsigned int Flags)
{
    struct ipc_handle h;
    struct sg_share *s;
    uint64_t addr = 0;
    CUresult r = CUDA_SUCCESS;

    SG_CTX(ctx);
    if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&h, &handle, sizeof(h));
    if (memcmp(h.magic, magic_memory, sizeof(h.magic)) || h.flags)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lock);
    s = by_token_locked(h.token);
    if (s && !s->opens) {
        r = CUDA_ERROR_INVALID_CONTEXT; /* made by this process */
    } else if (s && (s->ctx != ctx || s->ctx_id != ctx->id)) {
        r = CUDA_ERROR_INVALID_CONTEXT; /* one context of a process may have it open */
    } else if (s) {
        s->opens++;
        addr = s->base;
    } else if (h.device != ctx->device) {
        r = sg_fail(CUDA_ERROR_INVALID_CONTEXT,
                    "cuIpcOpenMemHandle: memory of device %d, context of device %d", h.device,
                    ctx->device); /* the devices have no access to each other */
    } else {
        r = import_locked(ctx, h.token, h.size, 0, SG_ACCESS_ALL, &addr);
    }
    pthread_mutex_unlock(&lock);
    if (r == CUDA_SUCCESS)
        *pdptr = addr;
    return r;
}

CUresult CUDAAPI cuIpcOpenMemHandle(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    return cuIpcOpenMemHandle_v2(pdptr, handle, Flags);
}

CUresult CUDAAPI cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    struct sg_mem_info info;
    struct sg_share *s;
    bool last = false;

    SG_CTX(ctx);
    if (!sg_mem_find(dptr, &info) || info.base != dptr || !info.imported || info.async)
        return CUDA_ERROR_INVALID_VALUE;
    if (info.ctx != ctx)
        return CUDA_ERROR_INVALID_CONTEXT;
    sg_ctx_drain(ctx); /* what may still use it */
    pthread_mutex_lock(&lock);
    for (s = shares; s && (s->base != dptr || !s->opens); s = s->next)
        ;
    if (s && --s->opens == 0) {
        last = true;
        unlink_locked(s); /* who opens the handle from now on gets another mapping */
    }
    pthread_mutex_unlock(&lock);
    if (!s)
        return CUDA_ERROR_INVALID_VALUE;
    if (last)
        sg_mem_release(dptr);
    return sg_see_fault(ctx);
}

/* ---- events ---- */

CUresult CUDAAPI cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    struct ipc_handle h = {.size = 0};
    CUresult r;

    SG_CTX(ctx);
    if (!pHandle)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(h.magic, magic_event, sizeof(h.magic));
    h.device = ctx->device;
    r = sg_event_token(event, h.token, &h.flags);
    if (r == CUDA_SUCCESS)
        memcpy(pHandle, &h, sizeof(h));
    return r;
}

CUresult CUDAAPI cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    struct ipc_handle h;

    SG_CTX(ctx);
    if (!phEvent)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&h, &handle, sizeof(h));
    if (memcmp(h.magic, magic_event, sizeof(h.magic)) || h.size)
        return CUDA_ERROR_INVALID_HANDLE;
    if (sg_ipc_event_is_ours(h.token))
        return CUDA_ERROR_INVALID_CONTEXT; /* made by this process */
    return sg_event_open(ctx, h.token, h.flags & CU_EVENT_BLOCKING_SYNC, phEvent);
}

/* SPDX-License-Identifier: MIT */
/* Memory shared with other processes: exported or opened here. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memory/memory.h"

#define SG_PAGES(bytes) (((bytes) + 4095) & ~UINT64_C(4095))

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

/* The end() of a piece: its memory has left this process. */
static void share_end(struct sg_share *s)
{
    pthread_mutex_lock(&lock);
    unlink_locked(s);
    pthread_mutex_unlock(&lock);
    sg_share_close(s->token);
    free(s);
}

static struct sg_share *share_new(uint64_t size)
{
    struct sg_share *s = calloc(1, sizeof(*s));

    if (s) {
        s->size = size;
        s->end = share_end;
    }
    return s;
}

CUresult sg_share_alloc(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access, uint64_t *addr)
{
    struct sg_share *s = share_new(size);
    CUresult r;
    int fd;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = size > UINT64_C(1) << 46 ? -1 : sg_share_create(SG_SHARE_MEMORY, SG_PAGES(size), s->token, NULL);
    if (fd < 0) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    /* Under the lock, which share_end() takes: another thread may release the memory at once. */
    pthread_mutex_lock(&lock);
    r = sg_mem_alloc_shared(ctx, size, pool, access, s, false, fd, &s->base);
    if (r == CUDA_SUCCESS) {
        *addr = s->base;
        link_locked(s);
    }
    pthread_mutex_unlock(&lock);
    close(fd);
    if (r != CUDA_SUCCESS) {
        sg_share_close(s->token);
        free(s);
    }
    return r;
}

/* Makes the allocation openable by other processes. Under the lock. */
static CUresult export_locked(const struct sg_mem_info *info)
{
    struct sg_share *s = share_new(info->size);
    int fd;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = sg_share_create(SG_SHARE_MEMORY, SG_PAGES(info->size), s->token, NULL);
    if (fd < 0) {
        free(s);
        return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cuIpcGetMemHandle: no %llu bytes to share",
                       (unsigned long long)info->size);
    }
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

CUresult sg_share_export(struct sg_mem_info *info, uint8_t *token)
{
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    if (!info->share)
        r = export_locked(info);
    /* Looked up again under the lock: another thread may have exported or freed the memory. */
    if (!sg_mem_find(info->base, info) || !info->share || info->imported)
        r = r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    else
        r = CUDA_SUCCESS;
    if (r == CUDA_SUCCESS) {
        struct sg_share *s = shares;

        while (s && s != info->share)
            s = s->next;
        if (s)
            memcpy(token, s->token, sizeof(s->token));
        else
            r = CUDA_ERROR_INVALID_VALUE; /* freed in this very moment */
    }
    pthread_mutex_unlock(&lock);
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
static CUresult import_locked(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, uint64_t pool,
                              uint32_t access, uint64_t *addr)
{
    struct sg_share *s = share_new(size);
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
    s->opens = 1;
    s->ctx = ctx;
    s->ctx_id = sg_space(ctx)->id;
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
    if (!by_token_locked(token)) /* otherwise it belongs to this process, or is already open */
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

CUresult sg_share_open_memory(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, int device,
                              uint64_t *addr)
{
    struct sg_share *s;
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    s = by_token_locked(token);
    if (s && !s->opens) {
        r = CUDA_ERROR_INVALID_CONTEXT; /* made by this process */
    } else if (s && (s->ctx != ctx || s->ctx_id != sg_space(ctx)->id)) {
        r = CUDA_ERROR_INVALID_CONTEXT; /* only one context of a process may have it open */
    } else if (s) {
        s->opens++;
        *addr = s->base;
    } else if (device != sg_space(ctx)->device) {
        r = sg_fail(CUDA_ERROR_INVALID_CONTEXT,
                    "cuIpcOpenMemHandle: memory of device %d, context of device %d", device,
                    sg_space(ctx)->device); /* the devices have no access to each other */
    } else {
        r = import_locked(ctx, token, size, 0, SG_ACCESS_ALL, addr);
    }
    pthread_mutex_unlock(&lock);
    return r;
}

bool sg_share_close_memory(uint64_t addr)
{
    struct sg_mem_info info;
    struct sg_share *s;
    bool last = false;

    pthread_mutex_lock(&lock);
    for (s = shares; s && (s->base != addr || !s->opens); s = s->next)
        ;
    if (s && --s->opens == 0) {
        /* Looked up under the lock, which holds up the end of s. */
        last = sg_mem_find(addr, &info) && info.share == s;
        unlink_locked(s); /* later opens of the handle create another mapping */
    }
    pthread_mutex_unlock(&lock);
    if (last)
        sg_mem_release_same(addr, info.id);
    return s != NULL;
}

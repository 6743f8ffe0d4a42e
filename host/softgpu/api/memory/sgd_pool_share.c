/* SPDX-License-Identifier: MIT */
/* Driver API: pools and their memory in other processes. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "api/memory/pool.h"

static const char pointer_magic[] = "sgPOOLpt"; /* 8 bytes of it */

/* The data of cuMemPoolExportPointer. */
struct pointer {
    char magic[8];
    uint8_t token[SG_SHARE_TOKEN];
    uint64_t size;
    uint8_t id[16]; /* id of the pool */
};
_Static_assert(sizeof(struct pointer) == sizeof(CUmemPoolPtrExportData), "as cuda.h says");

static CUresult check_fd_type(CUmemAllocationHandleType type)
{
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR                      ? CUDA_SUCCESS
           : type <= CU_MEM_HANDLE_TYPE_NONE || type > CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_INVALID_VALUE
                                                                                 : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult sgd_cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                              CUmemAllocationHandleType handleType, unsigned long long flags)
{
    int fd;
    CUresult r;

    SG_AUTO struct sg_pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!handle_out || !p || flags)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_fd_type(handleType);
    if (r != CUDA_SUCCESS)
        return r;
    if (!p->shareable && !p->imported)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "the pool was not made with that handle type");
    fd = p->imported ? fcntl(p->fd, F_DUPFD_CLOEXEC, 3) : sg_share_again(p->token);
    if (fd < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *(int *)handle_out = fd;
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                CUmemAllocationHandleType handleType)
{
    struct sg_share_tail tail;
    struct sg_pool *p;
    int fd = (int)(uintptr_t)handle;
    CUresult r = check_fd_type(handleType);

    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_share_look(fd, SG_POOL_MAGIC, &tail))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "not a pool that was exported");
    p = sg_pool_new(tail.device, false, 0);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    p->imported = true;
    memcpy(p->id, tail.id, sizeof(p->id));
    if (sg_share_gives_fds())
        p->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    *pool_out = SG_HANDLE(CUmemoryPool, p);
    sg_obj_put(&p->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    struct pointer data;
    struct sg_mem_info info;

    if (!shareData_out || !sg_mem_find(ptr, &info) || !info.async || info.base != ptr || info.freeing)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_pool *p = sg_lookup(info.pool, SG_T_POOL);

    if (!p || !p->shareable)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "memory of a pool that cannot be exported");
    memset(&data, 0, sizeof(data));
    memcpy(data.magic, pointer_magic, sizeof(data.magic));
    memcpy(data.id, p->id, sizeof(data.id));
    data.size = info.size;
    if (!sg_share_token(info.share, data.token))
        return CUDA_ERROR_INVALID_VALUE; /* freed in this very moment */
    memcpy(shareData_out, &data, sizeof(data));
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolImportPointer(struct sg_ctx *ctx, CUdeviceptr *ptr_out, CUmemoryPool pool,
                                    CUmemPoolPtrExportData *shareData)
{
    struct pointer data;
    uint64_t addr;
    CUresult r;

    SG_AUTO struct sg_pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!ptr_out || !shareData || !p || !p->imported)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, shareData, sizeof(data));
    if (memcmp(data.magic, pointer_magic, sizeof(data.magic)) || memcmp(data.id, p->id, sizeof(data.id)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "not memory of that pool");
    if (ctx->device != p->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    pthread_mutex_lock(&p->access_lock);
    r = sg_share_import(ctx, data.token, data.size, (uint64_t)(uintptr_t)pool, p->access, &addr);
    pthread_mutex_unlock(&p->access_lock);
    if (r != CUDA_SUCCESS)
        return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
    sg_pool_account((uint64_t)(uintptr_t)pool, (int64_t)data.size);
    *ptr_out = addr;
    return CUDA_SUCCESS;
}

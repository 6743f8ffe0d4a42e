/* SPDX-License-Identifier: MIT */
/*
 * Driver API: stream-ordered allocation and memory pools. A pool here keeps accounts and settings;
 * freed memory goes back to the device at once, so a pool reserves what is in use.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sg_graph.h"
#include "sg_share.h"

struct pool {
    struct sg_obj obj;
    bool is_default;
    int device;
    bool shareable; /* other processes may have what is in it, and the pool by descriptor */
    bool imported;  /* of another process: only what that one exports can be in it */
    uint8_t token[SG_SHARE_TOKEN]; /* shareable and made here */
    uint8_t id[16];                /* shareable or imported: the same in all processes */
    int fd;                        /* imported: to export it again; else -1 */
    pthread_mutex_t lock; /* guards the fields below */
    unsigned peers;       /* bit i: device i was given access */
    int reuse[3];         /* CU_MEMPOOL_ATTR_REUSE_*, stored and without effect */
    uint64_t threshold, used, used_high, reserved_high, max;
};

static const char tail_magic[8] = "sgPOOL01", pointer_magic[8] = "sgPOOLpt";

/* What cuMemPoolExportPointer gives. */
struct pointer {
    char magic[8];
    uint8_t token[SG_SHARE_TOKEN];
    uint64_t size;
    uint8_t id[16]; /* of the pool */
};
_Static_assert(sizeof(struct pointer) == sizeof(CUmemPoolPtrExportData), "as cuda.h says");

static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
/* By device. */
static struct pool *default_pool[SG_MAX_DEVICES];
static uint64_t current_pool[SG_MAX_DEVICES]; /* handle set by cuDeviceSetMemPool, 0: the default one */

static void pool_free(struct sg_obj *obj)
{
    struct pool *p = (struct pool *)obj;

    if (p->shareable)
        sg_share_close(p->token);
    if (p->fd >= 0)
        close(p->fd);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

static struct pool *pool_new(int device, bool is_default, uint64_t max)
{
    struct pool *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    sg_obj_init(&p->obj, SG_T_POOL, NULL, pool_free);
    pthread_mutex_init(&p->lock, NULL);
    p->device = device;
    p->fd = -1;
    p->is_default = is_default;
    p->max = max;
    for (int i = 0; i < 3; i++)
        p->reuse[i] = 1;
    if (!sg_obj_register(&p->obj)) {
        sg_obj_put(&p->obj);
        return NULL;
    }
    return p;
}

static uint64_t default_handle(int device)
{
    uint64_t h;

    pthread_mutex_lock(&default_lock);
    if (!default_pool[device])
        default_pool[device] = pool_new(device, true, 0);
    h = default_pool[device] ? default_pool[device]->obj.handle : 0;
    pthread_mutex_unlock(&default_lock);
    return h;
}

static uint64_t current_handle(int device)
{
    uint64_t h;

    pthread_mutex_lock(&default_lock);
    h = current_pool[device];
    pthread_mutex_unlock(&default_lock);
    return h ? h : default_handle(device);
}

void sg_pool_account(uint64_t handle, int64_t delta)
{
    SG_AUTO struct pool *p = sg_lookup(handle, SG_T_POOL);

    if (!p)
        return; /* destroyed meanwhile: its memory lives until freed */
    pthread_mutex_lock(&p->lock);
    p->used += (uint64_t)delta;
    if (p->used > p->used_high)
        p->used_high = p->used;
    if (p->used > p->reserved_high)
        p->reserved_high = p->used;
    pthread_mutex_unlock(&p->lock);
}

/* ---- allocation ---- */

/* Memory of a shareable pool, on pages of its own from the start. */
static CUresult alloc_shareable(struct sg_ctx *ctx, uint64_t n, uint64_t pool, uint64_t *addr)
{
    struct sg_share *s = calloc(1, sizeof(*s));
    int fd;

    if (!s)
        return CUDA_ERROR_OUT_OF_MEMORY;
    fd = n > UINT64_C(1) << 46 ? -1
                               : sg_share_create(SG_SHARE_MEMORY, (n + 4095) & ~UINT64_C(4095),
                                                 s->token, NULL);
    if (fd < 0) {
        free(s);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    s->size = n;
    CUresult r = sg_mem_alloc_shared(ctx, n, pool, s, false, fd, &s->base);

    close(fd);
    if (r != CUDA_SUCCESS) {
        sg_share_close(s->token);
        free(s);
        return r;
    }
    *addr = s->base;
    sg_share_link(s);
    return CUDA_SUCCESS;
}

/* The address is usable in stream order, which it is if it is usable now. */
static CUresult pool_alloc(CUdeviceptr *dptr, size_t n, uint64_t handle, CUstream stream)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t addr;
    CUresult r;

    SG_CTX(ctx);
    if (!dptr || !n)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct pool *p = sg_lookup(handle, SG_T_POOL);

    if (!p || p->device != ctx->device)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->imported)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "allocation from a pool of another process");
    r = sg_stream_get(ctx, stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (sg_capture_alloc(s, p->device, n, dptr, &r))
        return r;
    pthread_mutex_lock(&p->lock);
    bool fits = !p->max || (n <= p->max && p->used <= p->max - n);

    pthread_mutex_unlock(&p->lock);
    if (!fits)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = p->shareable ? alloc_shareable(ctx, n, handle, &addr)
                     : sg_mem_alloc(ctx, SG_MEM_DEVICE, n, 0, handle, &addr);
    if (r != CUDA_SUCCESS)
        return r;
    sg_pool_account(handle, (int64_t)n);
    *dptr = addr;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    SG_CTX(ctx);
    return pool_alloc(dptr, bytesize, current_handle(ctx->device), hStream);
}

CUresult CUDAAPI cuMemAllocAsync_ptsz(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return cuMemAllocAsync(dptr, bytesize, SG_PTSZ(hStream));
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream)
{
    return pool_alloc(dptr, bytesize, (uint64_t)(uintptr_t)pool, hStream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *dptr, size_t bytesize,
                                              CUmemoryPool pool, CUstream hStream)
{
    return cuMemAllocFromPoolAsync(dptr, bytesize, pool, SG_PTSZ(hStream));
}

struct free_op {
    struct sg_op op;
    uint64_t addr, pool;
    int64_t size;
    struct sg_gmem *graph; /* a reference; or NULL */
};

static CUresult free_run(struct sg_op *op, struct sg_stream *s)
{
    struct free_op *o = (struct free_op *)op;

    (void)s;
    if (o->graph)
        return CUDA_SUCCESS; /* when dropped, which happens in any case */
    if (sg_mem_release(o->addr))
        sg_pool_account(o->pool, -o->size);
    return CUDA_SUCCESS;
}

static void free_drop(struct sg_op *op)
{
    if (((struct free_op *)op)->graph)
        sg_gmem_unclaim(((struct free_op *)op)->graph);
    free(op);
}

CUresult CUDAAPI cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct sg_mem_info info;
    struct free_op *o;
    CUresult r;

    SG_CTX(ctx);
    if (!dptr)
        return CUDA_SUCCESS;
    r = sg_stream_get(ctx, hStream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (sg_capture_free(s, dptr, &r))
        return r;
    if (!sg_mem_find(dptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    o = calloc(1, sizeof(*o));
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = info.graph                 ? sg_gmem_free(dptr, &o->graph)
        : sg_mem_begin_free(dptr) ? CUDA_SUCCESS
                                   : CUDA_ERROR_INVALID_VALUE;
    if (r != CUDA_SUCCESS) {
        free(o);
        return r;
    }
    o->op.run = free_run;
    o->op.node_type = -1;
    o->op.drop = free_drop;
    o->op.run_always = true;
    o->addr = dptr;
    o->pool = info.pool;
    o->size = (int64_t)info.size;
    return sg_issue(s, &o->op, SG_ISSUE_INLINE);
}

CUresult CUDAAPI cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream)
{
    return cuMemFreeAsync(dptr, SG_PTSZ(hStream));
}

/* ---- pools ---- */

CUresult CUDAAPI cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    SG_INIT();
    if (!pool_out)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    *pool_out = (CUmemoryPool)(uintptr_t)default_handle(dev);
    return *pool_out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    SG_INIT();
    if (!pool)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    *pool = (CUmemoryPool)(uintptr_t)current_handle(dev);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    SG_INIT();
    SG_CHECK_DEVICE(dev);
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || p->device != dev || p->imported)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&default_lock);
    current_pool[dev] = p->is_default ? 0 : (uint64_t)(uintptr_t)pool;
    pthread_mutex_unlock(&default_lock);
    return CUDA_SUCCESS;
}

/* The pool's own descriptor stands for the pool and has no memory. */
static bool make_shareable(struct pool *p)
{
    struct sg_share_tail tail;
    int fd = sg_share_create_fd(tail_magic, 0, p->device, p->token, &tail);

    if (fd < 0)
        return false;
    close(fd);
    memcpy(p->id, tail.id, sizeof(p->id));
    p->shareable = true;
    return true;
}

CUresult CUDAAPI cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    struct pool *p;

    SG_INIT();
    if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_ERROR_INVALID_VALUE;
    if (!sg_location_ok(&poolProps->location))
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemPoolCreate: pools of host memory");
    SG_CHECK_DEVICE(poolProps->location.id);
    if (poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                       "cuMemPoolCreate: pools can be exported by descriptor only");
    p = pool_new(poolProps->location.id, false, poolProps->maxSize);
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (poolProps->handleTypes && !make_shareable(p)) {
        sg_obj_unregister(&p->obj);
        sg_obj_put(&p->obj);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pool = SG_HANDLE(CUmemoryPool, p);
    sg_obj_put(&p->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolDestroy(CUmemoryPool pool)
{
    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || p->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&default_lock);
    if (current_pool[p->device] == (uint64_t)(uintptr_t)pool)
        current_pool[p->device] = 0; /* documented: the default pool takes its place */
    pthread_mutex_unlock(&default_lock);
    sg_obj_unregister(&p->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    (void)minBytesToKeep; /* nothing is kept that is not in use */
    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    return p ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t v = 0;

    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    bool is_int = attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;

    memcpy(&v, value, is_int ? sizeof(int) : sizeof(v));
    pthread_mutex_lock(&p->lock);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = v != 0;
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        p->threshold = v;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* may only be reset */
        if (v)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            p->reserved_high = p->used;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (v)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            p->used_high = p->used;
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    pthread_mutex_unlock(&p->lock);
    return r;
}

CUresult CUDAAPI cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t v = 0;

    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || !value)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&p->lock);
    switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        v = (uint64_t)p->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
        break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        v = p->threshold;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        v = p->used;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        v = p->reserved_high;
        break;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        v = p->used_high;
        break;
    default:
        r = CUDA_ERROR_INVALID_VALUE;
        break;
    }
    pthread_mutex_unlock(&p->lock);
    if (r == CUDA_SUCCESS)
        memcpy(value, &v,
               attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES ? sizeof(int) : sizeof(v));
    return r;
}

CUresult CUDAAPI cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || (count && !map))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        SG_CHECK_DEVICE(map[i].location.id);
        /* The device that the memory is on always has access; it cannot be taken away. */
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
            (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE || map[i].location.id == p->device))
            return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&p->lock);
    for (size_t i = 0; i < count; i++) {
        unsigned bit = 1u << map[i].location.id;

        p->peers = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? p->peers & ~bit : p->peers | bit;
    }
    pthread_mutex_unlock(&p->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                    CUmemLocation *location)
{
    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(memPool, SG_T_POOL);

    if (!p || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(location->id);
    pthread_mutex_lock(&p->lock);
    *flags = location->id == p->device || (p->peers & 1u << location->id)
                 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                 : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    pthread_mutex_unlock(&p->lock);
    return CUDA_SUCCESS;
}

/* ---- pools and their memory in other processes ---- */

static CUresult check_fd_type(CUmemAllocationHandleType type)
{
    return type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ? CUDA_SUCCESS
           : type <= CU_MEM_HANDLE_TYPE_NONE || type > CU_MEM_HANDLE_TYPE_FABRIC
               ? CUDA_ERROR_INVALID_VALUE
                                                            : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult CUDAAPI cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                                  CUmemAllocationHandleType handleType,
                                                  unsigned long long flags)
{
    CUresult r;
    int fd;

    SG_INIT();
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

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

CUresult CUDAAPI cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                                    CUmemAllocationHandleType handleType,
                                                    unsigned long long flags)
{
    struct sg_share_tail tail;
    struct pool *p;
    int fd = (int)(uintptr_t)handle;
    CUresult r;

    SG_INIT();
    if (!pool_out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    r = check_fd_type(handleType);
    if (r != CUDA_SUCCESS)
        return r;
    if (!sg_share_look(fd, tail_magic, &tail))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "not a pool that was exported");
    p = pool_new(tail.device, false, 0);
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

CUresult CUDAAPI cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    struct pointer data;
    struct sg_mem_info info;

    SG_INIT();
    if (!shareData_out || !sg_mem_find(ptr, &info) || !info.async || info.base != ptr ||
        info.freeing)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct pool *p = sg_lookup(info.pool, SG_T_POOL);

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

CUresult CUDAAPI cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                        CUmemPoolPtrExportData *shareData)
{
    struct pointer data;
    uint64_t addr;
    CUresult r;

    SG_CTX(ctx);
    SG_AUTO struct pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!ptr_out || !shareData || !p || !p->imported)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&data, shareData, sizeof(data));
    if (memcmp(data.magic, pointer_magic, sizeof(data.magic)) ||
        memcmp(data.id, p->id, sizeof(data.id)))
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "not memory of that pool");
    if (ctx->device != p->device)
        return CUDA_ERROR_INVALID_CONTEXT;
    r = sg_share_import(ctx, data.token, data.size, (uint64_t)(uintptr_t)pool, &addr);
    if (r != CUDA_SUCCESS)
        return r == CUDA_ERROR_INVALID_HANDLE ? CUDA_ERROR_INVALID_VALUE : r;
    sg_pool_account((uint64_t)(uintptr_t)pool, (int64_t)data.size);
    *ptr_out = addr;
    return CUDA_SUCCESS;
}

/* ---- the calls of 13.0: a location and a type instead of a device ---- */

static CUresult check_kind(const CUmemLocation *location, CUmemAllocationType type)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_SUCCESS;
    bool host = location->type == CU_MEM_LOCATION_TYPE_HOST ||
                location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    bool managed = type == CU_MEM_ALLOCATION_TYPE_MANAGED &&
                   (host || location->type == CU_MEM_LOCATION_TYPE_DEVICE ||
                    location->type == CU_MEM_LOCATION_TYPE_NONE);

    if (managed || (host && type == CU_MEM_ALLOCATION_TYPE_PINNED))
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "pools of host memory or of managed memory");
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                        CUmemAllocationType type)
{
    SG_INIT();
    CUresult r = check_kind(location, type);

    return r == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool_out, location->id) : r;
}

CUresult CUDAAPI cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                 CUmemAllocationType type)
{
    SG_INIT();
    CUresult r = check_kind(location, type);

    return r == CUDA_SUCCESS ? cuDeviceGetMemPool(pool, location->id) : r;
}

CUresult CUDAAPI cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                                 CUmemoryPool pool)
{
    SG_INIT();
    CUresult r = check_kind(location, type);

    return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}

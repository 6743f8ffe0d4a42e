/* SPDX-License-Identifier: MIT */
/*
 * Driver API: stream-ordered allocation and memory pools. A pool keeps only counters and settings:
 * freed memory returns to the device at once, so a pool reserves exactly the memory in use.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/memory/pool.h"

#define POOL_PIECE (UINT64_C(32) << 20) /* bytes */

static pthread_mutex_t default_lock = PTHREAD_MUTEX_INITIALIZER; /* guards the two below */
/* By device. */
static struct sg_pool *default_pool[SG_MAX_DEVICES];
/* handle set by cuDeviceSetMemPool; 0: the default pool */
static uint64_t current_pool[SG_MAX_DEVICES];

static void pool_free(struct sg_obj *obj)
{
    struct sg_pool *p = (struct sg_pool *)obj;

    if (p->shareable)
        sg_share_close(p->token);
    if (p->fd >= 0)
        close(p->fd);
    pthread_mutex_destroy(&p->lock);
    pthread_mutex_destroy(&p->access_lock);
    free(p);
}

struct sg_pool *sg_pool_new(int device, bool is_default, uint64_t max)
{
    struct sg_pool *p = calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    sg_obj_init(&p->obj, SG_T_POOL, NULL, pool_free);
    pthread_mutex_init(&p->lock, NULL);
    pthread_mutex_init(&p->access_lock, NULL);
    p->device = device;
    p->access = SG_ACCESS_OF(device);
    p->fd = -1;
    p->is_default = is_default;
    p->max = max;
    sg_mem_pool_account = sg_pool_account;
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
    if (!default_pool[device]) {
        default_pool[device] = sg_pool_new(device, true, 0);
        if (default_pool[device])
            sg_obj_lasts(&default_pool[device]->obj);
    }
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

/* Releases reserved memory beyond `keep` that is not in use. Under the lock. */
static void pool_release(struct sg_pool *p, uint64_t keep)
{
    uint64_t least = p->used > keep ? p->used : keep;

    if (p->reserved > least)
        p->reserved = least;
}

/* Accounts for the memory released by waits since the last call. Under the lock. */
static void pool_settle(struct sg_pool *p)
{
    uint64_t waits = atomic_load(&sg_waits);

    if (waits != p->waits)
        pool_release(p, p->threshold);
    p->waits = waits;
}

void sg_pool_account(uint64_t handle, int64_t delta)
{
    SG_AUTO struct sg_pool *p = sg_lookup(handle, SG_T_POOL);

    if (!p)
        return; /* destroyed meanwhile: its memory lives until freed */
    pthread_mutex_lock(&p->lock);
    pool_settle(p);
    p->used += (uint64_t)delta;
    if (p->used > p->used_high)
        p->used_high = p->used;
    if (p->used > p->reserved)
        p->reserved = p->used;
    if (p->reserved > p->reserved_high)
        p->reserved_high = p->reserved;
    pthread_mutex_unlock(&p->lock);
}

/* ---- allocation ---- */

/* Documented to be refused, but the driver gives NULL (580); a node of a graph has to have a size. */
static CUresult alloc_nothing(struct sg_stream *s, CUdeviceptr *dptr)
{
    if (atomic_load(&sg_captures) && sg_hooks->front_captured(s->front))
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    return CUDA_SUCCESS;
}

/* The address must be usable in stream order; it is usable at once. */
static CUresult pool_alloc(CUdeviceptr *dptr, size_t n, uint64_t handle, CUstream stream)
{
    SG_AUTO struct sg_stream *s = NULL;
    uint64_t addr;
    CUresult r;

    SG_CTX(ctx);
    if (!dptr)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_pool *p = sg_lookup(handle, SG_T_POOL);

    if (!p || p->device != ctx->device)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->imported)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "allocation from a pool of another process");
    r = sg_stream_get(ctx, stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (!n)
        return alloc_nothing(s, dptr);
    pthread_mutex_lock(&p->access_lock);
    if (sg_capture_alloc(s, p->device, n, p->access, dptr, &r)) {
        pthread_mutex_unlock(&p->access_lock);
        return r;
    }
    pthread_mutex_lock(&p->lock);
    bool fits = !p->max || (n <= p->max && p->used <= p->max - n);

    pthread_mutex_unlock(&p->lock);
    r = !fits          ? CUDA_ERROR_OUT_OF_MEMORY
        : p->shareable ? sg_share_alloc(ctx, n, handle, p->access, &addr)
                       : sg_mem_alloc_pool(ctx, n, handle, p->access, &addr);
    if (r == CUDA_SUCCESS)
        sg_pool_account(handle, (int64_t)n); /* before the next one is asked whether it fits */
    pthread_mutex_unlock(&p->access_lock);
    if (r != CUDA_SUCCESS)
        return r;
    *dptr = addr;
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemAllocAsync(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    return pool_alloc(dptr, bytesize, current_handle(ctx->device), hStream);
}

CUresult CUDAAPI cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                         CUstream hStream)
{
    return pool_alloc(dptr, bytesize, (uint64_t)(uintptr_t)pool, hStream);
}

struct free_op {
    struct sg_op op;
    uint64_t addr, id, pool;
    int64_t size;
    SG_COUNTED struct sg_graph_memory *graph; /* a reference; or NULL */
};

static CUresult free_run(struct sg_op *op, struct sg_stream *s)
{
    struct free_op *o = (struct free_op *)op;

    (void)s;
    if (o->graph)
        return CUDA_SUCCESS;                 /* when dropped, which happens in any case */
    if (sg_mem_release_same(o->addr, o->id)) /* its context may have ended with it meanwhile */
        sg_pool_account(o->pool, -o->size);
    return CUDA_SUCCESS;
}

static void free_drop(struct sg_op *op)
{
    if (((struct free_op *)op)->graph)
        sg_graph_memory_unclaim(((struct free_op *)op)->graph);
    free(op);
}

CUresult sgd_cuMemFreeAsync(struct sg_ctx *ctx, CUdeviceptr dptr, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    struct sg_mem_info info;
    struct free_op *o;
    CUresult r;

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
    r = info.graph                         ? sg_graph_memory_free(dptr, &o->graph)
        : sg_mem_begin_free(dptr, info.id) ? CUDA_SUCCESS
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
    o->id = info.id;
    o->pool = info.pool;
    o->size = (int64_t)info.size;
    return sg_issue(s, &o->op, SG_ISSUE_INLINE);
}

/* ---- pools ---- */

CUresult sgd_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    *pool_out = (CUmemoryPool)(uintptr_t)default_handle(dev);
    return *pool_out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sgd_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    *pool = (CUmemoryPool)(uintptr_t)current_handle(dev);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult sgd_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    SG_AUTO struct sg_pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || p->device != dev || p->imported)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&default_lock);
    current_pool[dev] = p->is_default ? 0 : (uint64_t)(uintptr_t)pool;
    pthread_mutex_unlock(&default_lock);
    return CUDA_SUCCESS;
}

/* In whole pieces of what the driver reserves at a time (580). */
static uint64_t pool_limit(uint64_t max)
{
    return max > UINT64_MAX - POOL_PIECE ? UINT64_MAX : (max + POOL_PIECE - 1) / POOL_PIECE * POOL_PIECE;
}

/* Makes a new pool shareable. Its own descriptor stands for the pool and has no memory. False: out of memory. */
static bool pool_share(struct sg_pool *p)
{
    struct sg_share_tail tail;
    int fd = sg_share_create_fd(SG_POOL_MAGIC, 0, p->device, p->token, &tail);

    if (fd < 0)
        return false;
    close(fd);
    memcpy(p->id, tail.id, sizeof(p->id));
    p->shareable = true;
    return true;
}

CUresult sgd_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    struct sg_pool *p;

    if (poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemPoolCreate: pools of host memory");
    if ((unsigned)poolProps->location.id >= sg_config.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "cuMemPoolCreate: pools can be exported by descriptor only");
    p = sg_pool_new(poolProps->location.id, false, pool_limit(poolProps->maxSize));
    if (!p)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (poolProps->handleTypes && !pool_share(p)) {
        sg_obj_unregister(&p->obj);
        sg_obj_put(&p->obj);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pool = SG_HANDLE(CUmemoryPool, p);
    sg_obj_put(&p->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolDestroy(CUmemoryPool pool)
{
    SG_AUTO struct sg_pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || p->is_default)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&default_lock);
    if (current_pool[p->device] == (uint64_t)(uintptr_t)pool)
        current_pool[p->device] = 0; /* documented: the default pool takes its place */
    pthread_mutex_unlock(&default_lock);
    sg_obj_unregister(&p->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolTrimTo(struct sg_pool *p, size_t minBytesToKeep)
{
    pthread_mutex_lock(&p->lock);
    pool_settle(p);
    pool_release(p, minBytesToKeep);
    pthread_mutex_unlock(&p->lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolSetAttribute(struct sg_pool *p, CUmemPool_attribute attr, void *value)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t v = 0;
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
        pool_settle(p);
        p->threshold = v;
        break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH: /* can only be reset */
        if (v)
            r = CUDA_ERROR_INVALID_VALUE;
        else
            p->reserved_high = p->reserved;
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

CUresult sgd_cuMemPoolGetAttribute(struct sg_pool *p, CUmemPool_attribute attr, void *value)
{
    CUresult r = CUDA_SUCCESS;
    uint64_t v = 0;

    pthread_mutex_lock(&p->lock);
    pool_settle(p);
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
        v = p->reserved;
        break;
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

CUresult sgd_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    SG_AUTO struct sg_pool *p = SG_LOOKUP(pool, SG_T_POOL);

    if (!p || (count && !map))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            return CUDA_ERROR_INVALID_VALUE;
        SG_CHECK_DEVICE(map[i].location.id);
        if (map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE &&
            map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            return CUDA_ERROR_INVALID_VALUE;
        /* The device of the memory always has access, which cannot be revoked. */
        if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && map[i].location.id == p->device)
            return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&p->access_lock);
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = SG_ACCESS_OF(map[i].location.id);

        p->access = map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? p->access & ~bits : p->access | bits;
    }
    /* It also applies to allocations in use. */
    sg_mem_set_pool_access((uint64_t)(uintptr_t)pool, p->access);
    pthread_mutex_unlock(&p->access_lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuMemPoolGetAccess(CUmemAccess_flags *flags, struct sg_pool *p, CUmemLocation *location)
{
    if ((unsigned)location->id >= sg_config.ndevices)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&p->access_lock);
    *flags = p->access >> 2 * location->id & 3;
    pthread_mutex_unlock(&p->access_lock);
    return CUDA_SUCCESS;
}

/* ---- the calls of 13.0: a location and a type instead of a device ---- */

static CUresult check_kind(const CUmemLocation *location, CUmemAllocationType type)
{
    if (!location)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_SUCCESS;
    bool host =
        location->type == CU_MEM_LOCATION_TYPE_HOST || location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
    bool managed =
        type == CU_MEM_ALLOCATION_TYPE_MANAGED && (host || location->type == CU_MEM_LOCATION_TYPE_DEVICE ||
                                                   location->type == CU_MEM_LOCATION_TYPE_NONE);

    if (managed || (host && type == CU_MEM_ALLOCATION_TYPE_PINNED))
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "pools of host memory or of managed memory");
    return sg_location_ok(location) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_SUPPORTED; /* driver 580 */
}

CUresult sgd_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location, CUmemAllocationType type)
{
    CUresult r = check_kind(location, type);

    return r == CUDA_SUCCESS ? cuDeviceGetDefaultMemPool(pool_out, location->id) : r;
}

CUresult sgd_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CUresult r = check_kind(location, type);

    if (r != CUDA_SUCCESS)
        return r;
    SG_CHECK_DEVICE(location->id);
    return cuDeviceGetMemPool(pool, location->id);
}

CUresult sgd_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUresult r = check_kind(location, type);

    return r == CUDA_SUCCESS ? cuDeviceSetMemPool(location->id, pool) : r;
}

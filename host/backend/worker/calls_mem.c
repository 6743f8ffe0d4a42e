/* SPDX-License-Identifier: MIT */
/* Handlers of device memory, and the quota in front of the provider's allocating functions. */
#include "graph.h"

#include <string.h>

#include "vgp_worker.h"

/* The worker of this process: the wrapped functions have the provider's signatures. */
static struct vgb_worker *self;
static struct vgp_provider raw;

static CUresult finish_free(struct vgb_worker *w, struct vgb_wait *wait, CUresult r)
{
    struct vgb_alloc a;

    /* The entry first: once freed, the dispatcher may be given the same address again. */
    vgb_quota_detach(w, wait->arg[0], &a);
    CUresult f = vgb_provider.cuMemFree_v2((CUdeviceptr)wait->arg[0]);

    if (wait->blocking && r == CUDA_SUCCESS && f == CUDA_SUCCESS)
        r = f;
    if (f == CUDA_SUCCESS)
        vgb_quota_give(w, a.bytes);
    else
        vgb_quota_remember(w, a.address, a.bytes, a.ctx);
    return r != CUDA_SUCCESS ? r : f;
}

CUresult vgb_do_cuMemFree_v2(struct vgb_call *c, const struct vgp_args_cuMemFree_v2 *a)
{
    struct vgb_wait *wait;

    if (!vgb_provider.cuMemFree_v2)
        return vgb_missing(c, "cuMemFree");
    wait = vgb_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* Freeing waits for the device: do that first, without blocking, then free. */
    wait->finish = finish_free;
    wait->arg[0] = a->dptr;
    CUresult r = vgb_wait_add_context(c, wait);
    if (r != CUDA_SUCCESS && vgb_is_sticky(r))
        return vgb_wait_fail(c, wait, r);
    return vgb_wait_start(c, wait);
}

CUresult vgb_do_vgpDeviceGetDefaultMemPool(struct vgb_call *c,
                                           const struct vgp_args_vgpDeviceGetDefaultMemPool *a)
{
    CUmemoryPool pool = NULL;
    CUresult r = vgb_handle_reserve(c, a->pool, VGP_H_MEM_POOL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuDeviceGetDefaultMemPool)
        return vgb_missing(c, "cuDeviceGetDefaultMemPool");
    r = vgb_provider.cuDeviceGetDefaultMemPool(&pool, a->device);
    if (r == CUDA_SUCCESS)
        vgb_handle_put(c, a->pool, VGP_H_MEM_POOL, pool);
    return r;
}

CUresult vgb_do_vgpMemPoolSetAttribute(struct vgb_call *c,
                                       const struct vgp_args_vgpMemPoolSetAttribute *a)
{
    CUmemoryPool pool;
    uint64_t value = a->value; /* int attributes: the low half, little-endian */
    CUresult r = vgb_handle_get(c, a->pool, VGP_H_MEM_POOL, false, (void **)&pool);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMemPoolSetAttribute)
        return vgb_missing(c, "cuMemPoolSetAttribute");
    return vgb_provider.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a->attr, &value);
}

CUresult vgb_do_vgpMemPoolGetAttribute(struct vgb_call *c,
                                       const struct vgp_args_vgpMemPoolGetAttribute *a,
                                       struct vgp_ret_vgpMemPoolGetAttribute *r)
{
    CUmemoryPool pool;
    CUresult e = vgb_handle_get(c, a->pool, VGP_H_MEM_POOL, false, (void **)&pool);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuMemPoolGetAttribute)
        return vgb_missing(c, "cuMemPoolGetAttribute");
    return vgb_provider.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a->attr, &r->value);
}

CUresult vgb_do_cuMemPrefetchAsync_v2(struct vgb_call *c,
                                      const struct vgp_args_cuMemPrefetchAsync_v2 *a)
{
    CUmemLocation location;
    CUstream stream;
    CUresult r = vgb_handle_get(c, a->hStream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgb_provider.cuMemPrefetchAsync_v2)
        return vgb_missing(c, "cuMemPrefetchAsync_v2");
    memset(&location, 0, sizeof(location));
    location.type = (CUmemLocationType)a->location.type;
    location.id = a->location.id;
    return vgb_provider.cuMemPrefetchAsync_v2(a->devPtr, a->count, location, a->flags, stream);
}

CUresult vgb_do_vgpPointerManaged(struct vgb_call *c, const struct vgp_args_vgpPointerManaged *a,
                                  struct vgp_ret_vgpPointerManaged *r)
{
    unsigned managed = 0;

    if (!vgb_provider.cuPointerGetAttribute)
        return vgb_missing(c, "cuPointerGetAttribute");
    CUresult e = vgb_provider.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                    a->addr);
    r->managed = managed & 1; /* cuda.h calls it a boolean: drivers write one byte or four */
    return e;
}

CUresult vgb_do_vgpPointerSetSync(struct vgb_call *c, const struct vgp_args_vgpPointerSetSync *a)
{
    unsigned on = a->on;

    if (!vgb_provider.cuPointerSetAttribute)
        return vgb_missing(c, "cuPointerSetAttribute");
    return vgb_provider.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a->addr);
}

/* ---- the quota ---- */

static CUresult account(CUresult r, uint64_t address, uint64_t bytes)
{
    if (r != CUDA_SUCCESS || !vgb_quota_remember(self, address, bytes,
                                                   vgb_base_context(self->current)))
        vgb_quota_give(self, bytes);
    return r;
}

static CUresult q_alloc(CUdeviceptr *p, size_t n)
{
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMemAlloc_v2(p, n);
    return account(r, *p, n);
}

static CUresult q_managed(CUdeviceptr *p, size_t n, unsigned flags)
{
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMemAllocManaged(p, n, flags);
    return account(r, *p, n);
}

static CUresult q_pitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height, unsigned elem)
{
    /* The pitch is known afterwards only: drivers round it to 512 at most. */
    uint64_t row = width + 511 < width ? UINT64_MAX : (width + 511) / 512 * 512, n;

    if (__builtin_mul_overflow(row, (uint64_t)height, &n))
        n = UINT64_MAX; /* without a limit the provider has the say */
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMemAllocPitch_v2(p, pitch, width, height, elem);
    return account(r, *p, n);
}

/* On a captured stream these make nodes: memory counts when the graph is launched. */
static CUresult made_node(CUresult r)
{
    vgb_memory_nodes_made += r == CUDA_SUCCESS;
    return r;
}

static CUresult q_async(CUdeviceptr *p, size_t n, CUstream s)
{
    if (vgb_stream_captured(s))
        return made_node(raw.cuMemAllocAsync(p, n, s));
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMemAllocAsync(p, n, s);
    return account(r, *p, n);
}

static CUresult q_pool(CUdeviceptr *p, size_t n, CUmemoryPool pool, CUstream s)
{
    if (vgb_stream_captured(s))
        return made_node(raw.cuMemAllocFromPoolAsync(p, n, pool, s));
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMemAllocFromPoolAsync(p, n, pool, s);
    return account(r, *p, n);
}

static CUresult q_free_async(CUdeviceptr p, CUstream s)
{
    if (vgb_stream_captured(s))
        return made_node(raw.cuMemFreeAsync(p, s));
    CUresult r = raw.cuMemFreeAsync(p, s);

    if (r == CUDA_SUCCESS)
        vgb_quota_forget(self, p);
    return r;
}

static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    static const unsigned char size[] = {[CU_AD_FORMAT_UNSIGNED_INT8] = 1,
                                         [CU_AD_FORMAT_SIGNED_INT8] = 1,
                                         [CU_AD_FORMAT_UNSIGNED_INT16] = 2,
                                         [CU_AD_FORMAT_SIGNED_INT16] = 2,
                                         [CU_AD_FORMAT_HALF] = 2};
    unsigned f = (unsigned)d->Format;
    uint64_t n = f < sizeof(size) && size[f] ? size[f] : 4;
    const uint64_t dims[] = {d->NumChannels, d->Width, d->Height, d->Depth};

    for (unsigned i = 0; i < 4; i++) {
        if (dims[i] && __builtin_mul_overflow(n, dims[i], &n))
            return UINT64_MAX;
    }
    return n;
}

static CUresult q_array(CUarray *a, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    uint64_t n = array_bytes(d);

    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuArray3DCreate_v2(a, d);
    return account(r, (uintptr_t)*a, n);
}

static CUresult q_array_destroy(CUarray a)
{
    CUresult r = raw.cuArrayDestroy(a);

    if (r == CUDA_SUCCESS)
        vgb_quota_forget(self, (uintptr_t)a);
    return r;
}

/* Its levels together: never twice the first one. */
static CUresult q_mipmap(CUmipmappedArray *m, const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned levels)
{
    uint64_t n = array_bytes(d);

    n = levels <= 1 ? n : n > UINT64_MAX / 2 ? UINT64_MAX : 2 * n;
    if (!vgb_quota_take(self, n))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult r = raw.cuMipmappedArrayCreate(m, d, levels);
    return account(r, (uintptr_t)*m, n);
}

static CUresult q_mipmap_destroy(CUmipmappedArray m)
{
    CUresult r = raw.cuMipmappedArrayDestroy(m);

    if (r == CUDA_SUCCESS)
        vgb_quota_forget(self, (uintptr_t)m);
    return r;
}

static CUresult q_info(size_t *free_bytes, size_t *total)
{
    CUresult r = raw.cuMemGetInfo_v2(free_bytes, total);
    uint64_t held = self->quota.used + self->quota.hidden;
    uint64_t left = self->quota.limit > held ? self->quota.limit - held : 0;

    if (r == CUDA_SUCCESS && *total > self->quota.limit)
        *total = self->quota.limit;
    if (r == CUDA_SUCCESS && *free_bytes > left)
        *free_bytes = left;
    return r;
}

/* The software GPU's device memory is this process's: the difference is what it holds. Contexts do
 * not matter to the answer, but one must be current: without one the last answer stands. */
uint64_t vgb_provider_used(void)
{
    static uint64_t last;
    size_t free_bytes = 0, total = 0;

    if (vgb_cu.is_soft && raw.cuMemGetInfo_v2 &&
        raw.cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS)
        last = total - free_bytes;
    else if (!vgb_cu.is_soft && self) /* of other drivers only the memory of graphs is known */
        last = self->quota.used + vgb_graph_memory_reserved();
    return last;
}

void vgb_quota_wrap(struct vgb_worker *w)
{
    self = w;
    raw = vgb_provider;
#define WRAP(field, fn)                                                                            \
    if (raw.field)                                                                                 \
    vgb_provider.field = fn
    WRAP(cuMemAlloc_v2, q_alloc);
    WRAP(cuMemAllocManaged, q_managed);
    WRAP(cuMemAllocPitch_v2, q_pitch);
    WRAP(cuMemAllocAsync, q_async);
    WRAP(cuMemAllocFromPoolAsync, q_pool);
    WRAP(cuMemFreeAsync, q_free_async);
    WRAP(cuArray3DCreate_v2, q_array);
    WRAP(cuArrayDestroy, q_array_destroy);
    WRAP(cuMipmappedArrayCreate, q_mipmap);
    WRAP(cuMipmappedArrayDestroy, q_mipmap_destroy);
    if (w->quota.limit)
        WRAP(cuMemGetInfo_v2, q_info);
#undef WRAP
}

/* SPDX-License-Identifier: MIT */
/* Handlers of device memory. */
#include "../calls.h"

#include <string.h>


static CUresult finish_free(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_alloc a;

    /* The entry first: once freed, the dispatcher may be given the same address again. */
    wrk_quota_detach(w, wait->arg[0], &a);
    CUresult f = wrk_provider.cuMemFree_v2((CUdeviceptr)wait->arg[0]);

    if (wait->blocking && r == CUDA_SUCCESS && f == CUDA_SUCCESS)
        r = f;
    if (f == CUDA_SUCCESS)
        wrk_quota_give(w, a.bytes);
    else
        wrk_quota_remember(w, a.address, a.bytes, a.ctx);
    return r != CUDA_SUCCESS ? r : f;
}

CUresult wrk_do_cuMemFree_v2(struct wrk_call *c, const struct vgp_args_cuMemFree_v2 *a)
{
    struct wrk_wait *wait;

    if (!wrk_provider.cuMemFree_v2)
        return wrk_missing(c, "cuMemFree");
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* Freeing waits for the device: do that first, without blocking, then free. */
    wait->finish = finish_free;
    wait->arg[0] = a->dptr;
    CUresult r = wrk_wait_add_context(c, wait);
    if (r != CUDA_SUCCESS && wrk_is_sticky(r))
        return wrk_wait_fail(c, wait, r);
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_vgpDeviceGetDefaultMemPool(struct wrk_call *c,
                                           const struct vgp_args_vgpDeviceGetDefaultMemPool *a)
{
    CUmemoryPool pool = NULL;
    CUresult r = wrk_handle_reserve(c, a->pool, VGP_H_MEM_POOL);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuDeviceGetDefaultMemPool)
        return wrk_missing(c, "cuDeviceGetDefaultMemPool");
    r = wrk_provider.cuDeviceGetDefaultMemPool(&pool, a->device);
    if (r == CUDA_SUCCESS)
        wrk_handle_put(c, a->pool, VGP_H_MEM_POOL, pool);
    return r;
}

CUresult wrk_do_vgpMemPoolSetAttribute(struct wrk_call *c,
                                       const struct vgp_args_vgpMemPoolSetAttribute *a)
{
    CUmemoryPool pool;
    uint64_t value = a->value; /* int attributes: the low half, little-endian */
    CUresult r = wrk_handle_get(c, a->pool, VGP_H_MEM_POOL, false, (void **)&pool);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemPoolSetAttribute)
        return wrk_missing(c, "cuMemPoolSetAttribute");
    return wrk_provider.cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a->attr, &value);
}

CUresult wrk_do_vgpMemPoolGetAttribute(struct wrk_call *c,
                                       const struct vgp_args_vgpMemPoolGetAttribute *a,
                                       struct vgp_ret_vgpMemPoolGetAttribute *r)
{
    CUmemoryPool pool;
    CUresult e = wrk_handle_get(c, a->pool, VGP_H_MEM_POOL, false, (void **)&pool);

    if (e != CUDA_SUCCESS)
        return e;
    if (!wrk_provider.cuMemPoolGetAttribute)
        return wrk_missing(c, "cuMemPoolGetAttribute");
    return wrk_provider.cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a->attr, &r->value);
}

CUresult wrk_do_cuMemPrefetchAsync_v2(struct wrk_call *c,
                                      const struct vgp_args_cuMemPrefetchAsync_v2 *a)
{
    CUmemLocation location;
    CUstream stream;
    CUresult r = wrk_handle_get(c, a->hStream, VGP_H_STREAM, true, (void **)&stream);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuMemPrefetchAsync_v2)
        return wrk_missing(c, "cuMemPrefetchAsync_v2");
    memset(&location, 0, sizeof(location));
    location.type = (CUmemLocationType)a->location.type;
    location.id = a->location.id;
    return wrk_provider.cuMemPrefetchAsync_v2(a->devPtr, a->count, location, a->flags, stream);
}

CUresult wrk_do_vgpPointerManaged(struct wrk_call *c, const struct vgp_args_vgpPointerManaged *a,
                                  struct vgp_ret_vgpPointerManaged *r)
{
    unsigned managed = 0;

    if (!wrk_provider.cuPointerGetAttribute)
        return wrk_missing(c, "cuPointerGetAttribute");
    CUresult e = wrk_provider.cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED,
                                                    a->addr);
    r->managed = managed & 1; /* cuda.h calls it a boolean: drivers write one byte or four */
    return e;
}

CUresult wrk_do_vgpPointerSetSync(struct wrk_call *c, const struct vgp_args_vgpPointerSetSync *a)
{
    unsigned on = a->on;

    if (!wrk_provider.cuPointerSetAttribute)
        return wrk_missing(c, "cuPointerSetAttribute");
    return wrk_provider.cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, a->addr);
}

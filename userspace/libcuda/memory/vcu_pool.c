/* SPDX-License-Identifier: MIT */
/* Memory pools and the stream-ordered allocator. */
#include "memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

#define DESCRIPTORS_MAX 64 /* the wire's maximum */

static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t default_pools[VCU_MAX_DEVICES];
static uint64_t current_pools[VCU_MAX_DEVICES]; /* set by cuDeviceSetMemPool; 0: the default one */

CUresult vcu_pool_check(CUmemoryPool pool)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    return vgp_handle_live((uintptr_t)pool, VGP_H_MEM_POOL) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- the pool of a device ------------------------------------------------------------------- */

static CUresult default_pool_locked(CUdevice dev, uint64_t *pool)
{
    uint64_t h = default_pools[dev];
    CUresult res = CUDA_SUCCESS;

    if (h == 0) {
        h = vgp_handle_mint(VGP_H_MEM_POOL);
        res = h == 0 ? CUDA_ERROR_OUT_OF_MEMORY
                     : vgp_call_vgpDeviceGetDefaultMemPool(dev, (CUmemoryPool)(uintptr_t)h);
        if (res == CUDA_SUCCESS)
            default_pools[dev] = h;
        else if (h != 0)
            vgp_handle_drop(h);
    }
    *pool = h;
    return res;
}

CUresult vcu_pool_create(uint64_t handle, const CUmemPoolProps *p)
{
    return vgp_call_vgpMemPoolCreate((CUmemoryPool)(uintptr_t)handle, p->allocType, p->handleTypes,
                                     p->location.type, p->location.id, p->maxSize, p->usage);
}

CUresult vcu_pool_of_device(CUmemoryPool *pool, CUdevice dev, bool current)
{
    struct vcu_device *d;
    uint64_t h;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    if (pool == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&pool_lock);
    h = current ? current_pools[dev] : 0;
    if (h == 0)
        res = default_pool_locked(dev, &h);
    pthread_mutex_unlock(&pool_lock);
    if (res == CUDA_SUCCESS)
        *pool = (CUmemoryPool)(uintptr_t)h;
    return res;
}

CUresult vcu_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    struct vcu_device *d;
    CUresult res = vcu_device_get(dev, &d);

    if (res == CUDA_ERROR_INVALID_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = vcu_pool_check(pool);
    if (res == CUDA_SUCCESS)
        res = vcu_capture_unsafe("cuDeviceSetMemPool");
    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&pool_lock);
    res = vgp_call_cuDeviceSetMemPool(dev, pool);
    if (res == CUDA_SUCCESS)
        current_pools[dev] = (uintptr_t)pool == default_pools[dev] ? 0 : (uintptr_t)pool;
    pthread_mutex_unlock(&pool_lock);
    return res;
}

CUresult vcu_pool_location(const char *call, const CUmemLocation *location, CUmemAllocationType type)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (location == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && type == CU_MEM_ALLOCATION_TYPE_PINNED)
        return CUDA_SUCCESS;
    if ((type == CU_MEM_ALLOCATION_TYPE_PINNED || type == CU_MEM_ALLOCATION_TYPE_MANAGED) &&
        (location->type == CU_MEM_LOCATION_TYPE_DEVICE || location->type == CU_MEM_LOCATION_TYPE_HOST ||
         location->type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         (location->type == CU_MEM_LOCATION_TYPE_NONE && type == CU_MEM_ALLOCATION_TYPE_MANAGED)))
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                          "pools of host memory and of managed memory are not served");
    return location->type < CU_MEM_LOCATION_TYPE_DEVICE ||
                   location->type > CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT
               ? CUDA_ERROR_NOT_SUPPORTED /* driver 580 */
               : CUDA_ERROR_INVALID_VALUE;
}

/* ---- pools ---------------------------------------------------------------------------------- */

CUresult vcu_cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult res = vcu_pool_check(pool);

    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&pool_lock);
    for (int i = 0; i < vcu.device_count; i++) {
        if (default_pools[i] == (uintptr_t)pool)
            res = VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuMemPoolDestroy",
                             "a device's default pool cannot be destroyed");
    }
    if (res == CUDA_SUCCESS)
        res = vgp_call_cuMemPoolDestroy(pool);
    if (res == CUDA_SUCCESS)
        vcu_parked_pool((uintptr_t)pool, false);
    for (int i = 0; res == CUDA_SUCCESS && i < vcu.device_count; i++) {
        if (current_pools[i] == (uintptr_t)pool)
            current_pools[i] = 0; /* documented: the default pool replaces it */
    }
    pthread_mutex_unlock(&pool_lock);
    return res;
}

/* The reuse switches (1 to 3) are int, the rest cuuint64_t. */
static bool attribute_is_int(CUmemPool_attribute attr)
{
    return attr <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
}

static CUresult check_attribute(CUmemoryPool pool, CUmemPool_attribute attr, const void *value)
{
    CUresult res = vcu_pool_check(pool);

    if (res != CUDA_SUCCESS)
        return res;
    if (value == NULL || (int)attr < CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES ||
        attr > CU_MEMPOOL_ATTR_USED_MEM_HIGH)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    uint64_t v;
    CUresult res = check_attribute(pool, attr, value);

    if (res != CUDA_SUCCESS)
        return res;
    v = attribute_is_int(attr) ? (uint64_t) * (int *)value : *(cuuint64_t *)value;
    res = vgp_call_vgpMemPoolSetAttribute(pool, attr, v);
    if (res == CUDA_SUCCESS && attr == CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
        vcu_parked_pool((uintptr_t)pool, v == UINT64_MAX);
    return res;
}

CUresult vcu_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    uint64_t v = 0;
    CUresult res = check_attribute(pool, attr, value);

    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpMemPoolGetAttribute(pool, attr, &v);
    if (res != CUDA_SUCCESS)
        return res;
    if (attribute_is_int(attr))
        *(int *)value = (int)v;
    else
        *(cuuint64_t *)value = v;
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    uint32_t types[DESCRIPTORS_MAX], access[DESCRIPTORS_MAX];
    int32_t ids[DESCRIPTORS_MAX];
    CUresult res = vcu_pool_check(pool);

    if (res != CUDA_SUCCESS)
        return res;
    if ((count != 0 && map == NULL) || count > DESCRIPTORS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        types[i] = map[i].location.type;
        ids[i] = map[i].location.id;
        access[i] = map[i].flags;
    }
    return vgp_call_vgpMemPoolSetAccess(pool, types, (uint32_t)count, ids, (uint32_t)count, access,
                                        (uint32_t)count);
}

/* ---- stream-ordered allocation -------------------------------------------------------------- */

/* Sends the parked frees. False: there were none. */
static bool give_back(void)
{
    bool any = atomic_load(&vcu_parked) != 0;

    vcu_parked_send();
    return any;
}

/* Documented to be refused, but the driver gives NULL (580); a node of a graph has to have a size. */
static CUresult alloc_nothing(CUdeviceptr *dptr, CUstream stream)
{
    if (vcu_stream_captured(stream))
        return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    CUmemoryPool pool = NULL;
    uint64_t context;
    struct vcu_context_facts facts;
    CUdeviceptr parked = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (dptr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0)
        return alloc_nothing(dptr, hStream);
    res = vcu_stream_context(hStream, &context);
    if (res == CUDA_SUCCESS)
        res = vcu_context_facts((CUcontext)(uintptr_t)context, &facts);
    if (res == CUDA_SUCCESS)
        res = vcu_pool_of_device(&pool, facts.device,
                                 true); /* only so that pointer queries can report the pool */
    bool node = res == CUDA_SUCCESS && vcu_stream_captured(hStream);
    if (res == CUDA_SUCCESS && !node) {
        parked = vcu_parked_take(bytesize, (uintptr_t)pool, hStream);
        if (parked != 0)
            *dptr = parked;
    }
    if (res == CUDA_SUCCESS && parked == 0) {
        res = vgp_call_cuMemAllocAsync(dptr, bytesize, hStream);
        if (res == CUDA_ERROR_OUT_OF_MEMORY && give_back())
            res = vgp_call_cuMemAllocAsync(dptr, bytesize, hStream);
    }
    if (res == CUDA_SUCCESS && node)
        vcu_graph_memory_note(*dptr, bytesize, facts.device);
    else if (res == CUDA_SUCCESS)
        res = vcu_memory_note_pool(*dptr, bytesize, (uintptr_t)pool, hStream);
    return res;
}

CUresult vcu_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream)
{
    CUdeviceptr parked = 0;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return vcu_stream_error(hStream);
    if (dptr == NULL || !vgp_handle_live((uintptr_t)pool, VGP_H_MEM_POOL))
        return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0)
        return alloc_nothing(dptr, hStream);
    bool node = vcu_stream_captured(hStream);
    if (!node)
        parked = vcu_parked_take(bytesize, (uintptr_t)pool, hStream);
    if (parked != 0) {
        *dptr = parked;
    } else {
        res = vgp_call_cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream);
        if (res == CUDA_ERROR_OUT_OF_MEMORY && give_back())
            res = vgp_call_cuMemAllocFromPoolAsync(dptr, bytesize, pool, hStream);
    }
    if (res == CUDA_SUCCESS && node)
        vcu_graph_memory_note(*dptr, bytesize, vcu_context_find(NULL)->device);
    else if (res == CUDA_SUCCESS)
        res = vcu_memory_note_pool(*dptr, bytesize, (uintptr_t)pool, hStream);
    return res;
}

CUresult vcu_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    struct vcu_place p;
    bool known;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    res = vcu_check_own_stream(hStream);
    if (res != CUDA_SUCCESS)
        return res;
    if (dptr == 0)
        return CUDA_SUCCESS;
    /* On a captured stream a node frees memory of a graph, and nothing else can be freed. */
    if (vcu_stream_captured(hStream))
        return vgp_call_cuMemFreeAsync(dptr, hStream);
    known = vcu_memory_find(dptr, &p);
    if (known && p.m.graph)
        return vgp_call_vgpGraphMemFree(dptr, hStream);
    /* The record has no reply, so memory that the driver would refuse to free is refused here. */
    if (known && (p.m.imported || (p.m.opened && p.m.pool == 0)))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuMemFreeAsync",
                          "%#llx is memory of another process or driver; free it with %s",
                          (unsigned long long)dptr, p.m.imported ? "cuMemFree" : "cuIpcCloseMemHandle");
    if (!vcu_memory_take(dptr, VCU_MEM_DEVICE, &p))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuMemFreeAsync",
                          "%#llx is not the start of an allocation", (unsigned long long)dptr);
    if (p.m.context == vcu_owner_context() && !p.m.opened && vcu_parked_put(dptr, p.size, p.m.pool, hStream))
        return CUDA_SUCCESS;
    res = vgp_call_cuMemFreeAsync(dptr, hStream);
    if (res != CUDA_SUCCESS)
        vcu_memory_add(p.start, p.size, &p.m);
    return res;
}

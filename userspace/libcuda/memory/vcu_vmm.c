/* SPDX-License-Identifier: MIT */
/*
 * Virtual memory management. The worker decides. The guest keeps the reserved ranges and the
 * mappings in them (in the table of device memory), from which pointer queries and copies are
 * answered.
 */
#include "memory.h"

#include <stdlib.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define DESCRIPTORS_MAX 64 /* the wire's maximum; a process does not see more devices either */

static struct vcu_range_set reservations = VCU_RANGE_SET_INIT;

static uint64_t vmm_number(CUmemGenericAllocationHandle h)
{
    return (uint64_t)h;
}

/* All flags that cuda.h names. */
#define HANDLE_TYPES \
    (CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR | CU_MEM_HANDLE_TYPE_WIN32 | CU_MEM_HANDLE_TYPE_WIN32_KMT | \
     CU_MEM_HANDLE_TYPE_FABRIC)

CUresult vcu_allocation_create(uint64_t handle, size_t size, const CUmemAllocationProp *p,
                               unsigned long long flags)
{
    return vgp_call_vgpMemCreate(handle, size, p->type, p->requestedHandleTypes, p->location.type,
                                 p->location.id, p->allocFlags.compressionType,
                                 p->allocFlags.gpuDirectRDMACapable, p->allocFlags.usage, flags);
}

CUresult vcu_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                           CUmemAllocationGranularity_flags option)
{
    uint64_t g = 0;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (granularity == NULL || prop == NULL || (unsigned)prop->requestedHandleTypes > HANDLE_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpMemGetGranularity(prop->type, prop->requestedHandleTypes, prop->location.type,
                                        prop->location.id, option, &g);
    if (res == CUDA_SUCCESS)
        *granularity = g;
    return res;
}

/* ---- physical memory ------------------------------------------------------------------------ */

/*
 * Handles that cuMemRetainAllocationHandle returned again while they were live: one object, as with
 * the driver, and the number of releases before the last.
 */
static struct retained {
    uint64_t handle;
    unsigned more;
} * retained;
static unsigned nretained, retained_room;
static pthread_mutex_t retained_lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. False: no memory. */
static bool retain_again(uint64_t handle)
{
    unsigned i = 0;

    while (i < nretained && retained[i].handle != handle)
        i++;
    if (i == retained_room) {
        unsigned room = retained_room == 0 ? 16 : 2 * retained_room;
        struct retained *grown = realloc(retained, room * sizeof(*grown));

        if (grown == NULL)
            return false;
        retained = grown;
        retained_room = room;
    }
    if (i == nretained)
        retained[nretained++] = (struct retained){.handle = handle};
    retained[i].more++;
    return true;
}

/* False: this release is the last one. */
static bool release_one(uint64_t handle)
{
    bool found = false;

    pthread_mutex_lock(&retained_lock);
    for (unsigned i = 0; i < nretained && !found; i++) {
        if (retained[i].handle != handle)
            continue;
        found = true;
        if (--retained[i].more == 0)
            retained[i] = retained[--nretained];
    }
    pthread_mutex_unlock(&retained_lock);
    return found;
}

CUresult vcu_cuMemRelease(CUmemGenericAllocationHandle handle)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (release_one(vmm_number(handle)))
        return CUDA_SUCCESS;
    if (!vgp_handle_live(vmm_number(handle), VGP_H_ALLOCATION))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuMemRelease", "the handle is not live");
    res = vgp_call_vgpMemRelease(vmm_number(handle));
    if (res == CUDA_SUCCESS)
        vcu_multicast_forget(vmm_number(handle));
    return res;
}

CUresult vcu_cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    struct vcu_place place;
    bool mapped, again = false;
    uint64_t h;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (handle == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    mapped = vcu_memory_find((uintptr_t)addr, &place) && place.m.kind == VCU_MEM_MAPPED;
    pthread_mutex_lock(&retained_lock);
    if (mapped && vgp_handle_live(place.m.allocation, VGP_H_ALLOCATION)) {
        again = true;
        res = retain_again(place.m.allocation) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&retained_lock);
    if (again) {
        if (res == CUDA_SUCCESS)
            *handle = place.m.allocation;
        return res;
    }
    h = vgp_handle_mint(VGP_H_ALLOCATION);
    if (h == 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    res = vgp_call_vgpMemRetain(h, (uintptr_t)addr);
    if (res != CUDA_SUCCESS) {
        vgp_handle_drop(h);
        return res;
    }
    *handle = h;
    if (mapped) { /* its new handle, for the next call */
        place.m.allocation = h;
        vcu_memory_put(place.start, place.size, &place.m);
    }
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                    CUmemGenericAllocationHandle handle)
{
    uint32_t type = 0, location = 0, types = 0;
    CUmemAllocationProp p = {0};
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (prop == NULL || !vgp_handle_live(vmm_number(handle), VGP_H_ALLOCATION))
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_vgpMemAllocationProp(vmm_number(handle), &type, &location, &p.location.id,
                                        &p.allocFlags.compressionType, &p.allocFlags.gpuDirectRDMACapable,
                                        &p.allocFlags.usage);
    p.type = (CUmemAllocationType)type;
    p.location.type = (CUmemLocationType)location;
    if (res == CUDA_SUCCESS)
        res = vgp_call_vgpMemHandleTypes(vmm_number(handle), &types);
    p.requestedHandleTypes = (CUmemAllocationHandleType)types;
    if (res == CUDA_SUCCESS)
        *prop = p;
    return res;
}

/* ---- addresses ------------------------------------------------------------------------------ */

CUresult vcu_cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                                 unsigned long long flags)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (ptr == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vgp_call_cuMemAddressReserve(ptr, size, alignment, addr, flags);
    if (res == CUDA_SUCCESS && !vcu_range_add(&reservations, *ptr, size, NULL)) {
        vgp_call_cuMemAddressFree(*ptr, size);
        res = CUDA_ERROR_OUT_OF_MEMORY;
    }
    return res;
}

CUresult vcu_cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    struct vcu_range r = {0, 0, NULL};
    bool was;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    /* First: once free, another thread may get the address at once. */
    was = vcu_range_remove(&reservations, ptr, &r);
    res = vgp_call_cuMemAddressFree(ptr, size);
    if (res != CUDA_SUCCESS && was)
        vcu_range_add(&reservations, r.start, r.size, NULL);
    return res;
}

bool vcu_vmm_find(uint64_t addr, struct cua_reserved *out)
{
    struct vcu_place p;
    struct vcu_range r;

    if (!vcu_range_find(&reservations, addr, &r))
        return false;
    *out = (struct cua_reserved){.base = r.start, .size = r.size};
    if (vcu_memory_find(addr, &p) && p.m.kind == VCU_MEM_MAPPED) {
        out->map_base = p.start;
        out->map_size = p.size;
    }
    return true;
}

/* Device of an allocation, for pointer queries; 0 for memory of the host and multicast objects. */
static int allocation_device(uint64_t handle)
{
    uint32_t type = 0, location = CU_MEM_LOCATION_TYPE_INVALID;
    unsigned char compression, rdma;
    unsigned short usage;
    int id = 0;

    if (vcu.device_count <= 1)
        return 0;
    if (vgp_call_vgpMemAllocationProp(handle, &type, &location, &id, &compression, &rdma, &usage) !=
            CUDA_SUCCESS ||
        location != CU_MEM_LOCATION_TYPE_DEVICE)
        return 0;
    return id;
}

/* ---- mappings ------------------------------------------------------------------------------- */

CUresult vcu_cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                      unsigned long long flags)
{
    struct vcu_memory m = {
        .kind = VCU_MEM_MAPPED,
        .device_ptr = ptr,
        .allocation = vmm_number(handle),
    };
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vgp_handle_live(vmm_number(handle), VGP_H_ALLOCATION))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuMemMap", "the handle is not live");
    vcu_multicast_await(vmm_number(handle));
    res = vgp_call_vgpMemMap(ptr, size, offset, vmm_number(handle), flags);
    if (res != CUDA_SUCCESS)
        return res;
    m.buffer_id = vcu_memory_new_id();
    m.device = allocation_device(m.allocation);
    if (vcu_memory_put(ptr, size, &m))
        return CUDA_SUCCESS;
    vgp_call_cuMemUnmap(ptr, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* The number of ranges in [ptr, ptr + size), with gaps between them. */
static unsigned mappings_in(uint64_t ptr, uint64_t size)
{
    struct vcu_place p;
    unsigned n = 0;

    for (uint64_t at = ptr; at - ptr < size && vcu_memory_next(at, size - (at - ptr), &p);
         at = p.start + p.size)
        n++;
    return n;
}

/* Takes the mappings in [ptr, ptr + size), at most `most`; returns their number. */
static unsigned take_mappings(uint64_t ptr, uint64_t size, struct vcu_place *out, unsigned most)
{
    struct vcu_place p;
    unsigned n = 0;

    for (uint64_t at = ptr; n < most && at - ptr < size && vcu_memory_next(at, size - (at - ptr), &p);
         at = p.start + p.size) {
        if (p.start >= ptr && p.size <= size - (p.start - ptr) &&
            vcu_memory_take(p.start, VCU_MEM_MAPPED, &out[n]))
            n++;
    }
    return n;
}

CUresult vcu_cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    struct vcu_place *gone;
    unsigned n, most;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (ptr + size < ptr)
        return CUDA_ERROR_INVALID_VALUE;
    most = mappings_in(ptr, size);
    gone = calloc(most + 1, sizeof(*gone));
    if (gone == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* First, as in cuMemAddressFree. */
    n = take_mappings(ptr, size, gone, most);
    res = vgp_call_cuMemUnmap(ptr, size);
    for (unsigned i = 0; res != CUDA_SUCCESS && i < n; i++)
        vcu_memory_put(gone[i].start, gone[i].size, &gone[i].m);
    free(gone);
    return res;
}

CUresult vcu_cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    uint32_t types[DESCRIPTORS_MAX], access[DESCRIPTORS_MAX];
    int32_t ids[DESCRIPTORS_MAX];
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (desc == NULL || count == 0 || count > DESCRIPTORS_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        types[i] = desc[i].location.type;
        ids[i] = desc[i].location.id;
        access[i] = desc[i].flags;
    }
    res = vgp_call_vgpMemSetAccess(ptr, size, types, (uint32_t)count, ids, (uint32_t)count, access,
                                   (uint32_t)count);
    if (res != CUDA_SUCCESS)
        return res;
    vcu_memory_set_access(ptr, size, desc, count);
    return CUDA_SUCCESS;
}

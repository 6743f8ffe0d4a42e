/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory: pages that the worker maps too, at the same address where that is free there,
 * and that the provider has registered. Copies to and from it need no staging, kernels may use it.
 *
 * Where existing memory cannot be shared (over the socket, when it is not whole pages),
 * cuMemHostRegister still succeeds as pinned memory does, copies are staged, and only the device
 * pointer of it is refused.
 */
#include "vcu_memory.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/generated/vgp_guest.h"

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static CUresult result_of(const char *call, int rc)
{
    CUresult res = rc == -ENODEV                    ? CUDA_ERROR_DEVICE_UNAVAILABLE
                   : rc == -EFAULT || rc == -EINVAL ? CUDA_ERROR_INVALID_VALUE
                                                    : CUDA_ERROR_OUT_OF_MEMORY;

    return VCU_REFUSE(res, call, "%s", vcu.transport.why);
}

/* Registers what the worker has mapped with its provider. */
static CUresult register_region(struct vcu_memory *m, unsigned flags)
{
    struct vcu_context *c = vcu_context_find(NULL);
    uint64_t on_device = 0;
    CUresult res;

    m->context = vcu_owner_context();
    m->device = c == NULL ? 0 : c->device;
    m->buffer_id = vcu_memory_new_id();
    res = vgp_call_vgpRegionRegister(m->shared.region, flags, (uintptr_t)m->shared.va,
                                     m->shared.length, &on_device);
    if (res == CUDA_SUCCESS) {
        m->device_ptr = on_device;
        m->in_place = true;
    }
    return res;
}

CUresult vcu_hostmem_new(const char *call, uint64_t size, struct vcu_memory *m)
{
    uint64_t page = page_size();
    CUresult res;
    int rc;

    if (size > UINT64_MAX - page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    vcu.transport.why[0] = '\0';
    rc = vcu.transport.ops->alloc_shared(&vcu.transport, (size + page - 1) & ~(page - 1),
                                         &m->shared);
    if (rc != 0)
        return result_of(call, rc);
    res = register_region(m, 0);
    if (res != CUDA_SUCCESS)
        vcu.transport.ops->unshare(&vcu.transport, &m->shared, true);
    return res;
}

void vcu_hostmem_end(struct vcu_memory *m)
{
    if (m->in_place) {
        vgp_call_vgpRegionUnregister(m->shared.region); /* waits for copies that use it */
        vcu.transport.ops->unshare(&vcu.transport, &m->shared, !m->registered);
    }
}

CUresult vcu_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct vcu_memory m = { .kind = VCU_MEM_HOST, .flags = Flags };
    CUresult res = vcu_check_uncaptured("cuMemHostAlloc");

    if (res != CUDA_SUCCESS)
        return res;
    if (pp == NULL || bytesize == 0 ||
        (Flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                             CU_MEMHOSTALLOC_WRITECOMBINED)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_hostmem_new("cuMemHostAlloc", bytesize, &m);
    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_memory_add((uintptr_t)m.shared.va, bytesize, &m)) {
        vcu_hostmem_end(&m);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pp = m.shared.va;
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return vcu_cuMemHostAlloc(pp, bytesize, 0);
}

CUresult vcu_cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return vcu_cuMemHostAlloc(pp, bytesize, 0);
}

/* Takes the range out if it is of the wanted sort; `registered` tells the two sorts apart. */
static CUresult take(void *p, bool registered, struct vcu_place *place)
{
    struct vcu_place found;

    if (!vcu_memory_find_host((uintptr_t)p, &found) || found.start != (uintptr_t)p ||
        found.m.registered != registered)
        return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    if (!vcu_memory_take((uintptr_t)p, VCU_MEM_HOST, place))
        return CUDA_ERROR_INVALID_VALUE; /* another thread was faster */
    return CUDA_SUCCESS;
}

/* Ends memory that is `registered` or allocated; no context need be current. */
static CUresult end_host(void *p, bool registered, const char *call)
{
    struct vcu_place place;
    bool borrowed;
    CUresult res;

    if (!vcu_memory_find_host((uintptr_t)p, &place))
        place.m.context = 0;
    res = vcu_context_borrow(place.m.context, &borrowed);
    if (res != CUDA_SUCCESS)
        return res;
    res = vcu_capture_unsafe(call);
    if (res == CUDA_SUCCESS && p == NULL)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = take(p, registered, &place);
    if (res == CUDA_SUCCESS)
        vcu_hostmem_end(&place.m);
    vcu_context_return(borrowed);
    return res;
}

/* As the driver: NULL is freed without an error, like free(NULL). */
CUresult vcu_cuMemFreeHost(void *p)
{
    return p == NULL ? vcu_check_init() : end_host(p, false, "cuMemFreeHost");
}

CUresult vcu_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct vcu_memory m = { .kind = VCU_MEM_HOST, .flags = Flags, .registered = true };
    uint64_t page = page_size();
    uint64_t start = (uintptr_t)p & ~(page - 1);
    uint64_t end = ((uintptr_t)p + bytesize + page - 1) & ~(page - 1);
    bool read_only = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    bool whole, socket;
    struct vcu_place place;
    CUresult res = vcu_check_uncaptured("cuMemHostRegister");
    int rc;

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL || bytesize == 0 || end < start ||
        (Flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                             CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostRegister",
                          "I/O memory cannot be shared with the host");
    if (!vcu_memory_mapped(p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_memory_find_host((uintptr_t)p, &place) ||
        vcu_memory_find_host((uintptr_t)p + bytesize - 1, &place))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;

    whole = start == (uintptr_t)p && end == (uintptr_t)p + bytesize;
    socket = vcu.transport.ops == &vcu_transport_sock;
    if (!socket || whole) {
        vcu.transport.why[0] = '\0';
        rc = vcu.transport.ops->share(&vcu.transport, (void *)(uintptr_t)start, end - start,
                                      read_only, &m.shared);
        if (rc != 0 && rc != -EOPNOTSUPP)
            return result_of("cuMemHostRegister", rc);
        if (rc == 0) {
            res = register_region(&m, read_only ? VGP_REGION_READONLY : 0);
            if (res != CUDA_SUCCESS) {
                vcu.transport.ops->unshare(&vcu.transport, &m.shared, false);
                return res;
            }
            if (m.device_ptr != 0)
                m.device_ptr += (uintptr_t)p - start;
        }
    }
    if (!m.in_place) {
        struct vcu_context *c = vcu_context_find(NULL);

        m.context = vcu_owner_context();
        m.device = c == NULL ? 0 : c->device;
        m.buffer_id = vcu_memory_new_id();
    }
    if (!vcu_memory_add((uintptr_t)p, bytesize, &m)) {
        vcu_hostmem_end(&m);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemHostRegister(void *p, size_t bytesize, unsigned int Flags)
{
    return vcu_cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult vcu_cuMemHostUnregister(void *p)
{
    return end_host(p, true, "cuMemHostUnregister");
}

CUresult vcu_cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    struct vcu_place place;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (pdptr == NULL || Flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_memory_find_host((uintptr_t)p, &place))
        return CUDA_ERROR_INVALID_VALUE;
    if (place.m.device_ptr == 0)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostGetDevicePointer",
                          "without a VM, registered memory that is not whole pages is only copied");
    *pdptr = place.m.device_ptr + ((uintptr_t)p - place.start);
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct vcu_place place;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (pFlags == NULL || !vcu_memory_find_host((uintptr_t)p, &place) || place.m.registered)
        return CUDA_ERROR_INVALID_VALUE;
    /* Under unified addressing all pinned memory is mapped, whatever was asked for. */
    *pFlags = place.m.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/* Pointer queries, answered from the tables of memory.c. */
#include "memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    struct vcu_place p;
    CUresult res;

    if (pbase == NULL && psize == NULL) /* before cuInit, too (driver 580) */
        return CUDA_SUCCESS;
    if (pbase != NULL)
        *pbase = 0;
    if (psize != NULL)
        *psize = 0;
    res = vcu_check_context();
    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_memory_find(dptr, &p) ||
        (p.m.kind == VCU_MEM_MAPPED && p.m.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase != NULL)
        *pbase = p.start;
    if (psize != NULL)
        *psize = p.size;
    return CUDA_SUCCESS;
}

static CUdeviceptr device_pointer(const struct vcu_place *p, CUdeviceptr ptr)
{
    if (p->m.kind != VCU_MEM_HOST)
        return ptr;
    return p->m.device_ptr == 0 ? 0 : p->m.device_ptr + (ptr - p->start);
}

/* The range around a pointer, as far as the device may touch it. */
static bool known_range(CUdeviceptr ptr, struct vcu_place *p)
{
    return vcu_memory_find(ptr, p) &&
           (p->m.kind != VCU_MEM_MAPPED || p->m.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
}

static CUresult pointer_decompress(const struct cua_pointer *p, bool *capable)
{
    return vcu_decompress_capable(p->device, p->on_device, capable);
}

/* Known data about an address. */
static struct cua_pointer pointer_about(CUdeviceptr ptr)
{
    struct cua_pointer p = {.address = ptr, .decompress = pointer_decompress};
    struct vcu_place at;

    vcu_vmm_find(ptr, &p.reserved);
    p.known = vcu_memory_find(ptr, &at);
    if (!p.known)
        return p;
    p.host = at.m.kind == VCU_MEM_HOST;
    p.managed = at.m.kind == VCU_MEM_MANAGED || at.m.kind == VCU_MEM_SHADOW;
    p.no_access = at.m.kind == VCU_MEM_MAPPED && at.m.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    p.read_only = at.m.kind == VCU_MEM_MAPPED && at.m.flags == CU_MEM_ACCESS_FLAGS_PROT_READ;
    p.sync_memops = at.m.sync_memops;
    p.ipc = at.m.kind == VCU_MEM_DEVICE && at.m.pool == 0 && !at.m.opened && !at.m.imported;
    p.device = at.m.device;
    p.base = at.start;
    p.size = at.size;
    p.id = at.m.buffer_id;
    p.on_device = p.no_access ? 0 : device_pointer(&at, ptr);
    p.context = at.m.context;
    p.pool = at.m.pool;
    return p;
}

/* Both need no current context: the runtime calls them in threads without one (PyTorch's thread
 * that pins memory). */
CUresult vcu_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct cua_pointer p;
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    p = pointer_about(ptr);
    return cua_pointer_attribute(&p, data, attribute);
}

CUresult vcu_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr)
{
    struct cua_pointer p;
    CUresult res = vcu_check_usable();

    if (res != CUDA_SUCCESS)
        return res;
    p = pointer_about(ptr);
    return cua_pointer_attributes(&p, numAttributes, attributes, data);
}

CUresult vcu_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct vcu_place p;
    unsigned int on;
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (value == NULL || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !known_range(ptr, &p))
        return CUDA_ERROR_INVALID_VALUE;
    on = *(const unsigned int *)value;
    res = vgp_call_vgpPointerSetSync(device_pointer(&p, ptr), on);
    if (res == CUDA_SUCCESS)
        vcu_memory_set_sync(ptr, on != 0);
    return res;
}

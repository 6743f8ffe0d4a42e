/* SPDX-License-Identifier: MIT */
/* Driver API: pointer attributes; lib/driver/pointer.h. */
#include <string.h>

#include "api/api.h"

#include "lib/driver/driver.h"

/* ACCESS_FLAGS says what the device of the current context may do; without a context, the device of
   the memory. */
static int accessing_device(const struct sg_mem_info *info)
{
    struct sg_ctx *ctx;

    return sg_current_raw(&ctx) == CUDA_SUCCESS ? sg_space(ctx)->device : info->device;
}

/* Collects the properties of an address. */
static struct cua_pointer pointer_about(CUdeviceptr ptr)
{
    struct cua_pointer p = {.address = ptr};
    struct sg_mem_info info;
    uint32_t access;

    sg_vmm_find(ptr, &p.reserved);
    p.known = sg_mem_find(ptr, &info);
    if (!p.known && p.reserved.map_size) {
        p.known = p.no_access = true;
        p.device = p.reserved.device;
        p.id = p.reserved.id;
    }
    if (!p.known || p.no_access)
        return p;
    p.host = info.kind == SG_MEM_HOST || info.kind == SG_MEM_REGISTERED;
    p.managed = info.kind == SG_MEM_MANAGED;
    access = info.access >> 2 * accessing_device(&info) & 3;
    if (info.kind == SG_MEM_MAPPED) {
        p.no_access = access == CU_MEM_ACCESS_FLAGS_PROT_NONE;
        p.read_only = access == CU_MEM_ACCESS_FLAGS_PROT_READ;
    } else {
        p.read_only = !info.writable;
    }
    p.sync_memops = info.sync_memops;
    p.ipc = info.kind == SG_MEM_DEVICE && !info.internal && !info.async && !info.imported;
    p.device = info.device;
    p.base = info.base;
    p.size = info.size;
    p.id = info.id;
    p.on_device = p.no_access ? 0 : ptr;
    /* Memory mapped by cuMemMap belongs to the device, not to a context. */
    p.context = info.kind != SG_MEM_MAPPED ? info.context : 0;
    p.pool = info.async ? info.pool : 0;
    return p;
}

CUresult sgd_cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct cua_pointer p = pointer_about(ptr);

    return cua_pointer_attribute(&p, data, attribute);
}

/* Unknown pointers are no error here: the attributes come back as zero (documented). */
CUresult sgd_cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes, void **data,
                                    CUdeviceptr ptr)
{
    struct cua_pointer p = pointer_about(ptr);

    return cua_pointer_attributes(&p, numAttributes, attributes, data);
}

CUresult sgd_cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    struct sg_mem_info info;
    unsigned v;

    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !sg_mem_find(ptr, &info))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(&v, value, sizeof(v));
    sg_mem_set_sync(ptr, v != 0);
    return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/* Pointer queries, answered from the tables of vcu_memory.c. */
#include "memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUdeviceptr vcu_pointer_on_device(const struct vcu_place *p, CUdeviceptr ptr)
{
    if (p->m.kind != VCU_MEM_HOST)
        return ptr;
    return p->m.device_ptr == 0 ? 0 : p->m.device_ptr + (ptr - p->start);
}

bool vcu_pointer_range(CUdeviceptr ptr, struct vcu_place *p)
{
    return vcu_memory_find(ptr, p) && (p->m.kind != VCU_MEM_MAPPED || p->m.readers != 0);
}

static CUresult pointer_decompress(const struct cua_pointer *p, bool *capable)
{
    return vcu_decompress_capable(p->device, p->on_device, capable);
}

struct cua_pointer vcu_pointer_about(CUdeviceptr ptr)
{
    struct cua_pointer p = {.address = ptr, .decompress = pointer_decompress};
    struct vcu_place at;

    vcu_vmm_find(ptr, &p.reserved);
    p.known = vcu_memory_find(ptr, &at);
    if (!p.known)
        return p;
    p.host = at.m.kind == VCU_MEM_HOST;
    p.managed = at.m.kind == VCU_MEM_MANAGED || at.m.kind == VCU_MEM_SHADOW;
    p.no_access = at.m.kind == VCU_MEM_MAPPED && vcu_memory_access(&at.m) == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    p.read_only = at.m.kind == VCU_MEM_MAPPED && vcu_memory_access(&at.m) == CU_MEM_ACCESS_FLAGS_PROT_READ;
    p.sync_memops = at.m.sync_memops;
    p.ipc = at.m.kind == VCU_MEM_DEVICE && at.m.pool == 0 && !at.m.opened && !at.m.imported;
    p.device = at.m.device;
    p.base = at.start;
    p.size = at.size;
    p.id = at.m.buffer_id;
    p.on_device = p.no_access ? 0 : vcu_pointer_on_device(&at, ptr);
    p.context = at.m.context;
    p.pool = at.m.pool;
    return p;
}

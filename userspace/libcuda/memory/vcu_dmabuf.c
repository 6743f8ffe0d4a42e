/* SPDX-License-Identifier: MIT */
/*
 * dma-bufs: of pinned host memory and managed memory, whose pages are the guest's; and memory of
 * other drivers of the guest (vgem, udmabuf, virtio-gpu) as external memory. The guest's driver
 * does both (kernel/vgpu_drv), so neither exists over the socket. Device memory is the host's: the
 * guest has no pages of it.
 *
 * Imported memory is registered with the provider like pinned host memory, and known in the guest
 * as device memory: libcuda gives the program no mapping of it. Its addresses are reserved in this
 * process, so that they refer to no other memory.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

#define TRIES 8

struct imported {
    struct lnk_shared_memory shared;
    CUdeviceptr ptr;
};

static CUresult result_of(const char *call, int rc)
{
    CUresult res = CUDA_ERROR_OPERATING_SYSTEM;

    switch (rc) {
    case -ENODEV:
        res = CUDA_ERROR_DEVICE_UNAVAILABLE;
        break;
    case -EBADF:
    case -EINVAL:
    case -ENOENT:
        res = CUDA_ERROR_INVALID_VALUE;
        break;
    case -ENOMEM:
    case -ENOBUFS:
    case -EDQUOT:
        res = CUDA_ERROR_OUT_OF_MEMORY;
        break;
    case -EACCES:
    case -EOPNOTSUPP:
        res = CUDA_ERROR_NOT_SUPPORTED;
        break;
    default:
        break;
    }
    return VCU_REFUSE(res, call, "%s", vcu.transport.why);
}

static CUresult no_dmabuf(const char *call)
{
    return VCU_REFUSE(
        CUDA_ERROR_NOT_SUPPORTED, call, "%s",
        vcu.transport.ops == &lnk_transport_sock
            ? "without a VM there is no guest memory that a dma-buf could be of"
            : "the guest's driver (vgpu_drv) exports and imports no dma-bufs: a newer one does");
}

/* ---- import --------------------------------------------------------------------------------- */

/* At the same address for both; where that is not free in the worker, at another address. */
static int import_somewhere(int fd, uint64_t length, bool read_only, struct lnk_shared_memory *m)
{
    struct lnk_transport *t = &vcu.transport;
    void *hint = NULL;

    for (int i = 0; i < TRIES; i++) {
        void *p = mmap(hint, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int rc;

        if (p == MAP_FAILED)
            return -ENOMEM;
        rc = t->ops->import_dmabuf(t, fd, p, length, read_only, m);
        if (rc != 0) {
            munmap(p, length);
            return rc;
        }
        if (m->worker_va == (uintptr_t)p)
            return 0;
        t->ops->unshare(t, m, true);
        hint = vcu_far_address();
    }
    snprintf(t->why, sizeof(t->why), "the worker has no address for it that is free here, too");
    return -EOPNOTSUPP;
}

static CUresult register_import(struct imported *d, bool read_only)
{
    struct vcu_context *c = vcu_context_find(NULL);
    struct vcu_memory m = {
        .kind = VCU_MEM_DEVICE,
        .context = vcu_owner_context(),
        .device = c == NULL ? 0 : c->device,
        .buffer_id = vcu_memory_new_id(),
        .imported = true,
    };
    uint64_t on_device = 0;
    CUresult res = vgp_call_vgpRegionRegister(d->shared.region, read_only ? VGP_REGION_READONLY : 0,
                                              (uintptr_t)d->shared.va, d->shared.length, &on_device);

    if (res != CUDA_SUCCESS)
        return res;
    if (on_device == 0)
        res = VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuImportExternalMemory",
                         "the host's driver gives no device address for registered memory");
    m.device_ptr = on_device;
    if (res == CUDA_SUCCESS && !vcu_memory_put(on_device, d->shared.length, &m))
        res = CUDA_ERROR_OUT_OF_MEMORY;
    if (res != CUDA_SUCCESS)
        vgp_call_vgpRegionUnregister(d->shared.region);
    d->ptr = on_device;
    return res;
}

CUresult vcu_dmabuf_import(void **object, CUdeviceptr *ptr, int fd, size_t size)
{
    const char *call = "cuImportExternalMemory";
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    int mode, rc;
    struct imported *d;
    CUresult res;

    if (!vcu.transport.dmabuf)
        return no_dmabuf(call);
    mode = fcntl(fd, F_GETFL);
    if (mode < 0 || size > UINT64_MAX - page)
        return CUDA_ERROR_INVALID_VALUE;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    /* A descriptor that may not be written (drmPrimeHandleToFD without DRM_RDWR) gives kernels read access. */
    mode &= O_ACCMODE;
    rc = import_somewhere(fd, (size + page - 1) & ~(page - 1), mode == O_RDONLY, &d->shared);
    if (rc != 0) {
        free(d);
        return result_of(call, rc);
    }
    res = register_import(d, mode == O_RDONLY);
    if (res != CUDA_SUCCESS) {
        vcu.transport.ops->unshare(&vcu.transport, &d->shared, true);
        free(d);
        return res;
    }
    *object = d;
    *ptr = d->ptr;
    return CUDA_SUCCESS;
}

CUresult vcu_dmabuf_release(void *object)
{
    struct imported *d = object;
    struct vcu_place place;

    vcu_memory_take(d->ptr, VCU_MEM_DEVICE, &place); /* a context that was destroyed took it away */
    vgp_call_vgpRegionUnregister(d->shared.region);  /* waits for copies that use it */
    vcu.transport.ops->unshare(&vcu.transport, &d->shared, true);
    free(d);
    return CUDA_SUCCESS;
}

/* ---- export --------------------------------------------------------------------------------- */

static CUresult refuse_range(const char *why)
{
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemGetHandleForAddressRange", "%s", why);
}

/* True if the range has pages of the guest; returns its offset in the shared memory. */
static CUresult find_pages(uint64_t start, uint64_t size, struct vcu_place *p, uint64_t *offset)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), length;
    bool host;

    if (!vcu_memory_find(start, p))
        return CUDA_ERROR_INVALID_VALUE;
    host = p->m.kind == VCU_MEM_HOST || p->m.kind == VCU_MEM_MANAGED;
    if (p->m.imported)
        return refuse_range("imported memory has a dma-buf already: the one that was imported");
    if (!host)
        return refuse_range(
            "device memory is the host's: the guest has no pages of it (device attribute 124 is 0)");
    if (!p->m.in_place)
        return refuse_range("the memory is not pinned (beyond pin_limit_mib of vgpu_drv), only copied");
    /* Whole pages: the last page is included entirely, although the range may end within it. A slab
     * has pages of other allocations. */
    *offset = start - (uintptr_t)p->m.shared.va;
    length = p->m.slab == NULL ? p->m.shared.length : (p->size + page - 1) & ~(page - 1);
    return vgp_range_ok(*offset - p->m.slab_offset, size, length) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcu_cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                           CUmemRangeHandleType handleType, unsigned long long flags)
{
    const char *call = "cuMemGetHandleForAddressRange";
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), offset = 0;
    struct vcu_place place;
    CUresult res = vcu_check_context();
    int fd = -1, rc;

    if (res != CUDA_SUCCESS)
        return res;
    if (handle == NULL || size == 0 || (dptr | size) % page != 0 ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD ||
        (flags & ~(unsigned long long)CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    res = find_pages(dptr, size, &place, &offset);
    if (res != CUDA_SUCCESS)
        return res;
    if (flags != 0)
        return refuse_range("pages of the guest are mapped through no BAR");
    if (!vcu.transport.dmabuf)
        return no_dmabuf(call);
    rc = vcu.transport.ops->export_dmabuf(&vcu.transport, &place.m.shared, offset, size, &fd);
    if (rc != 0)
        return result_of(call, rc);
    vcu_memory_set_exported(dptr);
    *(int *)handle = fd;
    return CUDA_SUCCESS;
}

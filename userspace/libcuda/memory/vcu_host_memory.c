/* SPDX-License-Identifier: MIT */
/*
 * The calls for pinned host memory: pages that the worker maps too, at the same address where that
 * is free there, and that the provider has registered (vcu_hostmem.c). Copies to and from it need no
 * staging, kernels may use it.
 *
 * Where existing memory cannot be shared (over the socket, when its first or last page may have
 * other data, or it is shared already), cuMemHostRegister still succeeds like pinned memory, copies
 * are staged, and only its device pointer is refused. The same holds in a VM beyond pin_limit_mib
 * of the guest's driver, which counts the memory pinned by a user: NVIDIA's driver has no such
 * limit. Memory requested as mapped (CU_MEMHOSTALLOC_DEVICEMAP, CU_MEMHOSTREGISTER_DEVICEMAP) is
 * pinned or refused.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static void end_memory(struct vcu_memory *m, uint64_t size)
{
    if (m->slab != NULL)
        vcu_slab_give(m, size);
    else
        vcu_hostmem_end(m);
}

CUresult vcu_cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    struct vcu_memory m = {.kind = VCU_MEM_HOST, .flags = Flags};
    CUresult res;
    uint8_t *p;

    if (pp != NULL)
        *pp = NULL;
    res = vcu_check_uncaptured("cuMemHostAlloc");
    if (res != CUDA_SUCCESS)
        return res;
    if (pp == NULL || (Flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                                           CU_MEMHOSTALLOC_WRITECOMBINED)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytesize == 0) /* nothing, as with NVIDIA's driver */
        return CUDA_SUCCESS;
    if (!vcu_slab_take(bytesize, &m)) {
        res = vcu_hostmem_new("cuMemHostAlloc", bytesize, (Flags & CU_MEMHOSTALLOC_DEVICEMAP) == 0, &m);
        if (res != CUDA_SUCCESS)
            return res;
    }
    p = (uint8_t *)m.shared.va + m.slab_offset;
    if (!vcu_memory_add((uintptr_t)p, bytesize, &m)) {
        end_memory(&m, bytesize);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pp = p;
    return CUDA_SUCCESS;
}

/* Removes the range if it is of the requested kind; `registered` distinguishes the two kinds. */
static CUresult host_memory_take(void *p, bool registered, struct vcu_place *place)
{
    struct vcu_place found;

    if (!vcu_memory_find_host((uintptr_t)p, &found))
        return registered ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    if (found.start != (uintptr_t)p || found.m.registered != registered)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vcu_memory_take((uintptr_t)p, VCU_MEM_HOST, place))
        return CUDA_ERROR_INVALID_VALUE; /* another thread was faster */
    return CUDA_SUCCESS;
}

CUresult vcu_host_memory_end(void *p, bool registered, const char *call)
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
        res = host_memory_take(p, registered, &place);
    if (res == CUDA_SUCCESS)
        end_memory(&place.m, place.size);
    vcu_context_return(borrowed);
    return res;
}

/*
 * True if all other data on the pages [start, end) around p is the allocator's own bookkeeping of
 * p. Sharing replaces the pages, and a write of another thread to other data on them would be lost.
 * The GNU C library maps each large request separately (from 128 KiB on, up to a bound that grows
 * with what is freed), and records that in the two words before it, by which free() finds the
 * mapping: these pages have no other data. The words are read by a system call, because the memory
 * before p may be unmapped.
 */
static bool has_its_pages(const void *p, uint64_t start, uint64_t end)
{
    struct {
        uint64_t before, size; /* bytes of the mapping in front of the words; of the rest, and flags */
    } words;
    const uint64_t at = (uintptr_t)p - sizeof(words), mask = page_size() - 1;
    const struct iovec here = {&words, sizeof(words)}, there = {(void *)(uintptr_t)at, sizeof(words)};
    uint64_t size;

    if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != (ssize_t)sizeof(words) || (words.size & 7) != 2)
        return false;
    size = words.size & ~UINT64_C(7);
    return words.before <= at && size <= UINT64_MAX - at && ((at - words.before) & mask) == 0 &&
           ((at + size) & mask) == 0 && at - words.before <= start && at + size >= end;
}

CUresult vcu_cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    struct vcu_memory m = {.kind = VCU_MEM_HOST, .flags = Flags, .registered = true};
    uint64_t page = page_size();
    uint64_t start = (uintptr_t)p & ~(page - 1);
    uint64_t end = ((uintptr_t)p + bytesize + page - 1) & ~(page - 1);
    bool read_only = (Flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
    bool whole, socket;
    struct vcu_place place;
    CUresult res = vcu_check_uncaptured("cuMemHostRegister");

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL || bytesize == 0 || bytesize > UINTPTR_MAX - (uintptr_t)p || end < start ||
        (Flags & ~(unsigned)(CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                             CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, "cuMemHostRegister",
                          "I/O memory cannot be shared with the host");
    /* INVALID_VALUE: allocated, not registered; this before what comes behind it (driver 580). */
    if (vcu_memory_find_host((uintptr_t)p, &place))
        return place.m.registered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    if (!lnk_memory_mapped(p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_memory_find_host((uintptr_t)p + bytesize - 1, &place))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;

    whole = start == (uintptr_t)p && end == (uintptr_t)p + bytesize;
    socket = vcu.transport.ops == &lnk_transport_sock;
    if (!socket || whole || has_its_pages(p, start, end)) {
        res = vcu_hostmem_share("cuMemHostRegister", (void *)(uintptr_t)start, end - start, read_only,
                                (Flags & CU_MEMHOSTREGISTER_DEVICEMAP) == 0, &m);
        if (res != CUDA_SUCCESS)
            return res;
        if (m.device_ptr != 0)
            m.device_ptr += (uintptr_t)p - start;
    }
    if (!m.in_place)
        vcu_hostmem_describe(&m);
    if (!vcu_memory_add((uintptr_t)p, bytesize, &m)) {
        vcu_hostmem_end(&m);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    return CUDA_SUCCESS;
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
        return VCU_REFUSE(
            CUDA_ERROR_NOT_SUPPORTED, "cuMemHostGetDevicePointer", "%s",
            place.m.over_limit
                ? "the memory is beyond pin_limit_mib of vgpu_drv, and only copied"
                : "without a VM, registered memory that has no pages of its own, or is shared or read-only, "
                  "is only copied: use cudaHostAlloc or whole pages of aligned_alloc(4096, ...), or a guest");
    *pdptr = place.m.device_ptr + ((uintptr_t)p - place.start);
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    struct vcu_place place;
    CUresult res;

    if (pFlags == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_context();
    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_memory_find_host((uintptr_t)p, &place) || place.m.registered)
        return CUDA_ERROR_INVALID_VALUE;
    /* Under unified addressing all pinned memory is portable and mapped, whatever was requested; staged
     * memory is not mapped. */
    *pFlags = place.m.flags | CU_MEMHOSTALLOC_PORTABLE | (place.m.in_place ? CU_MEMHOSTALLOC_DEVICEMAP : 0);
    return CUDA_SUCCESS;
}

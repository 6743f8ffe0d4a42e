/* SPDX-License-Identifier: MIT */
/*
 * Pinned host memory: pages that the worker maps too, at the same address where that is free there,
 * and that the provider has registered. Copies to and from it need no staging, kernels may use it.
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
#include "slab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

static uint64_t page_size(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

static CUresult result_of(const char *call, int rc)
{
    CUresult lost = lnk_ring_lost(&vcu.ring);
    CUresult res = lost != CUDA_SUCCESS             ? lost
                   : rc == -ENODEV                  ? CUDA_ERROR_DEVICE_UNAVAILABLE
                   : rc == -EFAULT || rc == -EINVAL ? CUDA_ERROR_INVALID_VALUE
                                                    : CUDA_ERROR_OUT_OF_MEMORY;

    return call == NULL ? res : VCU_REFUSE(res, call, "%s", vcu.transport.why);
}

/* True if the driver's error means that the limit is reached. ENOBUFS has no other meaning. Older
 * drivers returned ENOMEM, also when the host is short of memory: copies are staged then, too. */
static bool is_over_limit(int rc)
{
    return rc == -ENOBUFS || rc == -ENOMEM;
}

/* VGPU_FAULT: the driver's error when the limit is reached, else 0. */
static int pin_fault(uint64_t size)
{
    static _Atomic uint64_t pinned;
    int limit, error;

    if (__builtin_expect(vcu_fault_spec == NULL, 1) || !vcu_fault_number("pinned", NULL, &limit))
        return 0;
    if (atomic_load(&pinned) + size <= (uint64_t)limit) {
        atomic_fetch_add(&pinned, size);
        return 0;
    }
    snprintf(vcu.transport.why, sizeof(vcu.transport.why),
             "pin %llu bytes: VGPU_FAULT; as pin_limit_mib of vgpu_drv", (unsigned long long)size);
    return vcu_fault_number("pinned", "errno", &error) ? -error : -ENOBUFS;
}

/* Beyond the limit of pinned memory: the call succeeds, its memory is not shared, copies are staged. */
static void say_staged(const char *call, uint64_t size)
{
    lnk_why(call, "%llu bytes are not pinned, copies of them are staged, kernels cannot use them: %s",
            (unsigned long long)size, vcu.transport.why);
}

/* The part of the description that does not depend on sharing. */
static void host_memory_describe(struct vcu_memory *m)
{
    struct vcu_context *c = vcu_context_find(NULL);

    m->context = vcu_owner_context();
    m->device = c == NULL ? 0 : c->device;
    m->buffer_id = vcu_memory_new_id();
}

/* Registers memory mapped by the worker with its provider. */
static CUresult register_region(struct vcu_memory *m, unsigned flags)
{
    uint64_t on_device = 0;
    CUresult res;

    host_memory_describe(m);
    res = vgp_call_vgpRegionRegister(m->shared.region, flags, (uintptr_t)m->shared.va, m->shared.length,
                                     &on_device);
    if (res == CUDA_SUCCESS) {
        m->device_ptr = on_device;
        m->in_place = true;
    }
    return res;
}

/* Memory of this process alone. */
static CUresult stage_new(const char *call, uint64_t length, struct vcu_memory *m)
{
    void *p = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return CUDA_ERROR_OUT_OF_MEMORY;
    m->shared = (struct lnk_shared_memory){.va = p, .length = length};
    m->over_limit = true;
    host_memory_describe(m);
    say_staged(call, length);
    return CUDA_SUCCESS;
}

/*
 * Between 32 and 42 TiB: the worker maps nothing of its own there (host/backend/worker/memory/wrk_layout.c refuses memory
 * of a guest in more than a third of what is below 64 TiB), nor does a sanitizer in this process.
 */
void *vcu_far_address(void)
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof(r), GRND_NONBLOCK) != (ssize_t)sizeof(r))
        r = (uintptr_t)&r >> 4; /* a hint only */
    return (void *)(uintptr_t)((UINT64_C(1) << 45) + r % (UINT64_C(10) << 40) / 4096 * 4096);
}

/*
 * Kernels use the program's own address, so memory that the worker could not map there is tried at
 * another address. This process does not know which addresses the worker reserves; they are few,
 * and in the same areas as a program's mappings.
 */
static int alloc_shared(uint64_t length, struct lnk_shared_memory *m)
{
    struct lnk_transport *t = &vcu.transport;
    int rc = t->ops->alloc_shared(t, NULL, length, m), elsewhere = 0;

    if (__builtin_expect(vcu_fault_spec != NULL, 0))
        vcu_fault_number("elsewhere", NULL, &elsewhere);
    for (int i = 0; i < 8 && rc == 0 && (m->worker_va != (uintptr_t)m->va || i < elsewhere); i++) {
        t->ops->unshare(t, m, true);
        rc = t->ops->alloc_shared(t, vcu_far_address(), length, m);
    }
    return rc;
}

static CUresult host_new(const char *call, uint64_t size, bool may_stage, struct vcu_memory *m)
{
    uint64_t page = page_size(), length = (size + page - 1) & ~(page - 1);
    CUresult res;
    int rc;

    if (size > UINT64_MAX - page)
        return CUDA_ERROR_OUT_OF_MEMORY;
    vcu.transport.why[0] = '\0';
    rc = pin_fault(length);
    if (rc == 0)
        rc = alloc_shared(length, &m->shared);
    if (is_over_limit(rc) && may_stage)
        return stage_new(call, length, m);
    if (rc != 0)
        return result_of(call, rc);
    res = register_region(m, 0);
    if (res != CUDA_SUCCESS)
        vcu.transport.ops->unshare(&vcu.transport, &m->shared, true);
    return res;
}

CUresult vcu_hostmem_new(const char *call, uint64_t size, struct vcu_memory *m)
{
    return host_new(call, size, false, m);
}

void vcu_hostmem_end(struct vcu_memory *m)
{
    if (m->in_place) {
        vgp_call_vgpRegionUnregister(m->shared.region); /* waits for copies that use it */
        vcu.transport.ops->unshare(&vcu.transport, &m->shared, !m->registered);
    } else if (!m->registered && m->shared.va != NULL) {
        munmap(m->shared.va, m->shared.length);
    }
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
        res = host_new("cuMemHostAlloc", bytesize, (Flags & CU_MEMHOSTALLOC_DEVICEMAP) == 0, &m);
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
    int rc;

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
        vcu.transport.why[0] = '\0';
        rc = pin_fault(end - start);
        if (rc == 0)
            rc = vcu.transport.ops->share(&vcu.transport, (void *)(uintptr_t)start, end - start, read_only,
                                          &m.shared);
        m.over_limit = is_over_limit(rc) && (Flags & CU_MEMHOSTREGISTER_DEVICEMAP) == 0;
        if (m.over_limit)
            say_staged("cuMemHostRegister", end - start);
        else if (rc != 0 && rc != -EOPNOTSUPP)
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
    if (!m.in_place)
        host_memory_describe(&m);
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

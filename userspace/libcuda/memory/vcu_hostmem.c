/* SPDX-License-Identifier: MIT */
/* Host memory as the worker and the provider see it: shared, mapped at one address, registered. */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "vgp_guest.h"

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
void vcu_hostmem_describe(struct vcu_memory *m)
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

    vcu_hostmem_describe(m);
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
    vcu_hostmem_describe(m);
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

CUresult vcu_hostmem_new(const char *call, uint64_t size, bool may_stage, struct vcu_memory *m)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), length = (size + page - 1) & ~(page - 1);
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

CUresult vcu_hostmem_share(const char *call, void *start, uint64_t length, bool read_only, bool may_stage,
                           struct vcu_memory *m)
{
    CUresult res;
    int rc;

    vcu.transport.why[0] = '\0';
    rc = pin_fault(length);
    if (rc == 0)
        rc = vcu.transport.ops->share(&vcu.transport, start, length, read_only, &m->shared);
    m->over_limit = is_over_limit(rc) && may_stage;
    if (m->over_limit)
        say_staged(call, length);
    else if (rc != 0 && rc != -EOPNOTSUPP)
        return result_of(call, rc);
    if (rc != 0)
        return CUDA_SUCCESS;
    res = register_region(m, read_only ? VGP_REGION_READONLY : 0);
    if (res != CUDA_SUCCESS)
        vcu.transport.ops->unshare(&vcu.transport, &m->shared, false);
    return res;
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

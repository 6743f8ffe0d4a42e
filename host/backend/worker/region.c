/* SPDX-License-Identifier: MIT */
/*
 * Memory of the guest process, mapped here at the same address where that is free: pinned guest
 * pages in a VM, a memfd of the client over the socket. The broker has checked that the runs lie in
 * guest memory; what is checked here protects this process's own mappings.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

#define VA_LIMIT (UINT64_C(1) << 47)

struct vgb_region *vgb_region_by_id(struct vgb_worker *w, uint32_t id)
{
    for (unsigned i = 0; i < w->regions.n; i++) {
        if (w->regions.list[i].id == id)
            return &w->regions.list[i];
    }
    return NULL;
}

static void forget(struct vgb_worker *w, struct vgb_region *r)
{
    if (r->base)
        munmap(r->base, r->length);
    *r = w->regions.list[--w->regions.n];
}

/* Address space for the whole region, inaccessible until its runs are mapped. */
static uint8_t *reserve(uint64_t va, uint64_t length)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *p = MAP_FAILED;

    if (va >= 0x10000 && va < VA_LIMIT && length <= VA_LIMIT - va) {
        p = mmap((void *)(uintptr_t)va, length, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
        if (p != MAP_FAILED && (uintptr_t)p != va) { /* kernel without FIXED_NOREPLACE */
            munmap(p, length);
            p = MAP_FAILED;
        }
    }
    if (p == MAP_FAILED)
        p = mmap(NULL, length, PROT_NONE, flags, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

static struct vgb_region *start(struct vgb_worker *w, const struct vgb_msg *m)
{
    struct vgb_regions *rs = &w->regions;

    if (rs->n == VGB_REGIONS_MAX || !m->length || m->length % VGP_PAGE || m->va % VGP_PAGE)
        return NULL;
    if (rs->n == rs->room) {
        unsigned room = rs->room ? rs->room * 2 : 64;
        struct vgb_region *list = realloc(rs->list, room * sizeof(*list));

        if (!list)
            return NULL;
        rs->list = list;
        rs->room = room;
    }
    struct vgb_region *r = &rs->list[rs->n++];
    *r = (struct vgb_region){
        .id = m->region, .flags = m->flags & VGB_MAP_READONLY, .guest_va = m->va};
    r->length = m->length;
    r->base = reserve(m->va, m->length);
    return r;
}

/* Maps the runs of one message behind what is mapped already. */
static bool map_runs(struct vgb_region *r, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    int prot = PROT_READ | (r->flags & VGB_MAP_READONLY ? 0 : PROT_WRITE);

    if (!r->base || m->nruns > VGB_MSG_RUNS || m->offset != r->mapped)
        return false;
    for (unsigned i = 0; i < m->nruns; i++) {
        const struct vgb_run *run = &m->runs[i];

        if (run->fd >= nfds || !run->length || run->length % VGP_PAGE || run->offset % VGP_PAGE ||
            !vgp_range_ok(r->mapped, run->length, r->length))
            return false;
        if (mmap(r->base + r->mapped, run->length, prot, MAP_SHARED | MAP_FIXED, fds[run->fd],
                 (off_t)run->offset) == MAP_FAILED) {
            vgb_log(VGB_WARN, "region %u: mmap of run %u: %s", r->id, i, strerror(errno));
            return false;
        }
        r->mapped += run->length;
    }
    return true;
}

bool vgb_region_map(struct vgb_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                    struct vgb_msg *answer)
{
    struct vgb_region *r = vgb_region_by_id(w, m->region);
    bool last = !(m->flags & VGB_MAP_MORE);

    if (!r)
        r = start(w, m);
    if (r && !map_runs(r, m, fds, nfds) && r->base) {
        munmap(r->base, r->length); /* failed: stays listed, without memory, until the last run */
        r->base = NULL;
    }
    vgb_close_all(fds, nfds);
    if (!last)
        return false;
    memset(answer, 0, sizeof(*answer));
    answer->type = VGB_M_MAPPED;
    answer->region = m->region;
    if (r && r->base && r->mapped == r->length) {
        answer->va = (uintptr_t)r->base;
    } else {
        answer->status = VGPU_S_NO_MEMORY;
        if (r)
            forget(w, r);
    }
    return true;
}

uint32_t vgb_region_unmap(struct vgb_worker *w, uint32_t id)
{
    struct vgb_region *r = vgb_region_by_id(w, id);

    if (!r)
        return VGPU_S_INVALID;
    /* Also when an unregistration is under way on a waiter: nothing may reach the pages after this. */
    if (r->registered_at && vgb_cu.MemHostUnregister) {
        CUcontext was = w->current; /* this may run in the middle of a call */

        vgb_set_context(w, r->ctx);
        vgb_cu.MemHostUnregister(r->registered_at);
        vgb_set_context(w, was);
    }
    forget(w, r);
    return VGPU_S_OK;
}

void *vgb_region_address(struct vgb_worker *w, uint64_t va, uint64_t size, bool write)
{
    for (unsigned i = 0; i < w->regions.n; i++) {
        struct vgb_region *r = &w->regions.list[i];

        if (!r->base || r->mapped != r->length || va < r->guest_va ||
            !vgp_range_ok(va - r->guest_va, size, r->length))
            continue;
        if (write && r->flags & VGB_MAP_READONLY)
            continue;
        return r->base + (va - r->guest_va);
    }
    return NULL;
}

uint64_t vgb_region_guest_address(struct vgb_worker *w, const void *p, uint64_t size)
{
    for (unsigned i = 0; i < w->regions.n; i++) {
        const struct vgb_region *r = &w->regions.list[i];
        uint64_t offset = (uint64_t)((const uint8_t *)p - r->base);

        if (r->base && r->mapped == r->length && (const uint8_t *)p >= r->base &&
            vgp_range_ok(offset, size, r->length))
            return r->guest_va + offset;
    }
    return 0;
}

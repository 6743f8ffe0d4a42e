/* SPDX-License-Identifier: MIT */
/*
 * Memory of the guest process, mapped here at the same address where wrk_layout.c lets it be: pinned
 * guest pages in a VM, a memfd of the client over the socket. The broker has checked that the runs
 * lie in guest memory; what is checked here protects this process's own mappings.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "vgb_fd.h"
#include <linux/types.h>

#include "vgpu_device.h"

#include "vgp_worker.h"

struct wrk_region *wrk_region_by_id(struct wrk_worker *w, uint32_t id)
{
    struct btr_item it;

    return btr_find(&w->memory->regions.by_id, id, &it) ? it.value : NULL;
}

#define PIECES_DEFAULT 65530u /* Linux's default */

/*
 * A process has at most vm.max_map_count mappings. The kernel joins neighbours, so that memory in
 * many pieces is what takes many. A provider that finds none left cannot start a thread or
 * allocate: an eighth is left to it, and the region that would take more is refused.
 */
void wrk_regions_init(struct wrk_worker *w)
{
    FILE *f = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned most = PIECES_DEFAULT;

    if (f && fscanf(f, "%u", &most) != 1)
        most = PIECES_DEFAULT;
    if (f)
        fclose(f);
    w->memory->regions.pieces_max = most - most / 8;
}

/* Accounts another mapping for r. */
static bool take_piece(struct wrk_regions *rs, struct wrk_region *r)
{
    if (rs->pieces + wrk_places() >= rs->pieces_max) {
        vgb_log(
            VGB_WARN,
            "region %u: memory of %llu KiB is in too many pieces: this client has %u mappings, the most that "
            "vm.max_map_count of the host leaves room for; huge pages in the guest, or a larger "
            "vm.max_map_count, help",
            r->id, (unsigned long long)r->length / 1024, rs->pieces + wrk_places());
        return false;
    }
    rs->pieces++;
    r->pieces++;
    return true;
}

/* Unmaps the memory. Its addresses stay reserved if the provider may still hold any of them. */
static void drop_memory(struct wrk_worker *w, struct wrk_region *r)
{
    wrk_region_index_remove(&w->memory->regions, r);
    if (r->place && !wrk_place_leave(r->place, r->place_length, r->guest_va, r->seen))
        wrk_die(w, VGPU_DEAD_EXITED, "no address space is left to take guest memory away");
    w->memory->regions.pieces -= r->pieces;
    r->pieces = 0;
    r->place = r->base = NULL;
    vgb_plan_drop(&r->plan);
}

static void forget_region(struct wrk_worker *w, struct wrk_region *r)
{
    struct wrk_regions *rs = &w->memory->regions;

    drop_memory(w, r);
    btr_remove(&rs->by_id, r->id, NULL);
    rs->list[r->at] = rs->list[--rs->n];
    rs->list[r->at]->at = r->at;
    free(r->job);
    free(r);
}

/*
 * Address space for the whole region, inaccessible until its runs are mapped. Of a file in huge
 * pages only whole ones can be mapped, at multiples of their size: the region begins within the
 * first one.
 */
static void region_reserve(struct wrk_region *r)
{
    uint64_t page = r->plan.page, phase = r->plan.phase;

    r->place_length = vgb_plan_place(&r->plan);
    /* more than the guest mapped at its address */
    if (page > VGP_PAGE && (phase || r->length % page))
        r->place = wrk_place_take(0, r->place_length, page, 0);
    else
        r->place = wrk_place_take(r->guest_va, r->place_length, page, 0);
    r->base = r->place ? r->place + phase : NULL;
}

static struct wrk_region *region_start(struct wrk_worker *w, const struct vgb_msg *m)
{
    struct wrk_regions *rs = &w->memory->regions;
    struct vgb_plan plan;

    if (rs->n == WRK_REGIONS_MAX || m->va % VGP_PAGE || m->length > UINT64_MAX - m->va || !m->nruns ||
        !vgb_plan_begin(&plan, m->length, &m->runs[0]))
        return NULL;
    if (rs->n == rs->room) {
        unsigned room = rs->room ? rs->room * 2 : 64;
        struct wrk_region **list = realloc(rs->list, room * sizeof(struct wrk_region *));

        if (!list)
            return NULL;
        rs->list = list;
        rs->room = room;
    }
    struct wrk_region *r = malloc(sizeof(*r));

    if (!r || btr_insert(&rs->by_id, m->region, 0, r)) {
        free(r);
        return NULL;
    }
    *r = (struct wrk_region){.id = m->region,
                             .at = rs->n,
                             .flags = m->flags & (VGB_MAP_READONLY | VGB_MAP_BY_MAPPER),
                             .guest_va = m->va,
                             .length = m->length,
                             .plan = plan};
    rs->list[rs->n++] = r;
    region_reserve(r);
    return r;
}

static bool in_huge_pages(const struct wrk_region *r)
{
    vgb_log(VGB_WARN,
            "region %u: the guest's memory is in huge pages of %llu KiB, and its parts do not lie in them as "
            "they do in the guest's program: pin memory that is aligned to such pages, or give the virtual "
            "machine a memory backend with pages of 4 KiB",
            r->id, (unsigned long long)r->plan.page / 1024);
    return false;
}

/* Plans the runs of a message after those planned already. */
static bool plan_runs(struct wrk_regions *rs, struct wrk_region *r, const struct vgb_msg *m)
{
    uint32_t prot = PROT_READ | (r->flags & VGB_MAP_READONLY ? 0 : PROT_WRITE);

    if (!r->base || m->nruns > VGB_MSG_RUNS || m->offset != r->plan.planned)
        return false;
    for (unsigned i = 0; i < m->nruns; i++) {
        uint32_t calls = r->plan.n;
        enum vgb_plan_result added = vgb_plan_add(&r->plan, &m->runs[i], prot);

        if (added == VGB_PLAN_PAGES)
            return in_huge_pages(r);
        if (added != VGB_PLAN_OK || (r->plan.n != calls && !take_piece(rs, r)))
            return false;
    }
    return true;
}

/* Without a mapper: makes the planned calls. */
static bool map_runs(struct wrk_region *r, const int *fds, unsigned nfds)
{
    for (uint32_t i = 0; i < r->plan.n; i++) {
        const struct vgb_call *c = &r->plan.list[i];

        if (c->file >= nfds)
            return false;
        if (mmap(r->place + c->at, c->length, (int)c->prot, MAP_SHARED | MAP_FIXED, fds[c->file],
                 (off_t)c->offset) == MAP_FAILED) {
            vgb_log(VGB_WARN, "region %u: mmap of run %u: %s", r->id, i, strerror(errno));
            return false;
        }
    }
    vgb_plan_drop(&r->plan);
    r->mapped = r->plan.planned;
    return true;
}

/* Job of the mapper: to map or unmap the region. Stays at its address until the broker has
 * answered. */
static uint64_t new_job(struct wrk_worker *w, struct wrk_region *r, bool take)
{
    struct vgb_job *job = calloc(1, sizeof(*job));

    if (!job)
        wrk_die(w, VGPU_DEAD_EXITED, "no memory to map guest memory");
    job->place = (uintptr_t)r->place;
    job->away = (struct vgb_call){.length = r->place_length, .file = VGB_CALL_NO_FILE, .prot = PROT_NONE};
    job->calls = take ? &job->away : r->plan.list;
    job->n = take ? 1 : r->plan.n;
    free(r->job);
    r->job = job;
    return (uintptr_t)job;
}

bool wrk_region_map(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                    struct vgb_msg *answer)
{
    struct wrk_regions *rs = &w->memory->regions;
    struct wrk_region *r = wrk_region_by_id(w, m->region);
    bool last = !(m->flags & VGB_MAP_MORE), by_mapper = m->flags & VGB_MAP_BY_MAPPER;

    if (!r)
        r = region_start(w, m);
    if (r && (!plan_runs(rs, r, m) || (!by_mapper && !map_runs(r, fds, nfds)) ||
              (r->mapped == r->length && !wrk_region_index_add(rs, r))))
        drop_memory(w, r); /* stays listed, without memory, until the last run */
    vgb_close_all(fds, nfds);
    if (!last)
        return false;
    memset(answer, 0, sizeof(*answer));
    answer->region = m->region;
    if (r && r->base && r->plan.planned == r->length) {
        answer->type = by_mapper ? VGB_M_PLACE : VGB_M_MAPPED;
        answer->va = by_mapper ? (uintptr_t)r->place : (uintptr_t)r->base;
        answer->value = by_mapper ? new_job(w, r, false) : 0;
    } else {
        answer->type = VGB_M_MAPPED;
        answer->status = VGPU_S_NO_MEMORY;
        if (r)
            forget_region(w, r);
    }
    return true;
}

bool wrk_region_placed(struct wrk_worker *w, uint32_t id, struct vgb_msg *answer)
{
    struct wrk_region *r = wrk_region_by_id(w, id);

    if (!r || !r->job)
        return false;
    *answer = (struct vgb_msg){.type = VGB_M_MAPPED, .region = id};
    if (r->job->result) {
        vgb_log(VGB_WARN, "region %u: mmap of run %u: %s", id, r->job->done, strerror((int)-r->job->result));
        answer->status = VGPU_S_NO_MEMORY;
        answer->value = new_job(w, r, true);
    } else if (!wrk_region_index_add(&w->memory->regions, r)) {
        answer->status = VGPU_S_NO_MEMORY;
        answer->value = new_job(w, r, true);
    } else {
        r->mapped = r->length;
        answer->va = (uintptr_t)r->base;
        free(r->job);
        r->job = NULL;
    }
    vgb_plan_drop(&r->plan);
    return true;
}

void wrk_region_taken(struct wrk_worker *w, uint32_t id)
{
    struct wrk_region *r = wrk_region_by_id(w, id);

    if (r)
        forget_region(w, r);
}

/* ---- registration with the provider: on waiters, because many pages take long ---- */

/* On a waiter, before memory is unregistered: work of other contexts may use it, too. An error:
 * what a context does with it is not known. */
static CUresult drain_others(const struct wrk_wait *wait)
{
    CUcontext *list = wait->buffer;
    CUresult first = CUDA_SUCCESS;

    for (; list && *list; list++) {
        CUresult r = wrk_provider.cuCtxSetCurrent(*list);

        if (r == CUDA_SUCCESS)
            r = wrk_await_context(&wrk_provider).result;
        if (first == CUDA_SUCCESS)
            first = r;
    }
    if (wait->buffer)
        wrk_provider.cuCtxSetCurrent(wait->ctx);
    return first;
}

static void note_context(struct wrk_handle_entry *e, uint64_t handle, void *arg)
{
    CUcontext **at = arg;

    (void)handle;
    if (e->object)
        *(*at)++ = e->object;
}

/* Makes the wait drain all contexts. False: no memory. */
static bool drain_all(struct wrk_worker *w, struct wrk_wait *wait)
{
    CUcontext *list = calloc(w->handles.live[VGP_H_CONTEXT] + 1, sizeof(*list)), *at = list;

    if (!list)
        return false;
    wrk_handles_each(&w->handles, VGP_H_CONTEXT, note_context, &at);
    wait->buffer = list;
    wrk_wait_use_all(wait); /* contexts that are not in the list any more wait for their work themselves */
    return true;
}

static CUresult finish_register(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    void *at = (void *)(uintptr_t)wait->arg[1];
    CUdeviceptr device = 0;

    (void)w;
    if (r == CUDA_SUCCESS)
        r = wrk_provider.cuMemHostRegister_v2(at, wait->arg[2], (unsigned)wait->arg[3]);
    /* The provider kept a registration of an earlier region at this address. */
    if (r == CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED &&
        wrk_provider.cuMemHostUnregister(at) == CUDA_SUCCESS)
        r = wrk_provider.cuMemHostRegister_v2(at, wait->arg[2], (unsigned)wait->arg[3]);
    if (r != CUDA_SUCCESS)
        return r;
    r = wrk_provider.cuMemHostGetDevicePointer_v2(&device, at, 0);
    if (r != CUDA_SUCCESS)
        wrk_provider.cuMemHostUnregister(at);
    wait->arg[3] = device;
    return r;
}

static void unmap_when_free(struct wrk_worker *w, struct wrk_region *r);

static CUresult land_register(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_region *g = wrk_region_by_id(w, (uint32_t)wait->arg[0]); /* exists: it is busy */
    struct vgp_ret_vgpRegionRegister *ret = wrk_bounce_result(w, wait->slot);

    g->busy = false;
    /* a registration ends with its context */
    if (r == CUDA_SUCCESS && (!wait->context_gone || g->ending))
        g->registered_at = (uint8_t *)(uintptr_t)wait->arg[1];
    if (r == CUDA_SUCCESS && ret) {
        ret->devicePointer = wait->arg[3];
        wait->buffer = ret;
        wait->payload = sizeof(*ret);
    }
    unmap_when_free(w, g);
    return r == CUDA_SUCCESS && wait->context_gone ? CUDA_ERROR_CONTEXT_IS_DESTROYED : r;
}

CUresult wrk_do_vgpRegionRegister(struct wrk_call *c, const struct vgp_args_vgpRegionRegister *a,
                                  struct vgp_ret_vgpRegionRegister *ret)
{
    struct wrk_region *g = wrk_region_by_id(c->w, a->region);
    unsigned flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP;
    struct wrk_wait *wait;

    (void)ret;
    if (!wrk_provider.cuMemHostRegister_v2 || !wrk_provider.cuMemHostGetDevicePointer_v2 ||
        !wrk_provider.cuMemHostUnregister)
        return wrk_missing(c, "cuMemHostRegister");
    if (!g || !g->base || g->mapped != g->length || g->registered_at || g->busy || g->ending ||
        g->unmapping || a->va < g->guest_va || !a->length ||
        !vgp_range_ok(a->va - g->guest_va, a->length, g->length))
        return CUDA_ERROR_INVALID_VALUE;
    if (a->flags & VGP_REGION_READONLY || g->flags & VGB_MAP_READONLY)
        flags |= CU_MEMHOSTREGISTER_READ_ONLY;
    wait = wrk_wait_long(c, finish_register, land_register);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->arg[0] = a->region;
    wait->arg[1] = (uintptr_t)(g->base + (a->va - g->guest_va));
    wait->arg[2] = a->length;
    wait->arg[3] = flags;
    g->busy = g->seen = true;
    g->ctx = wrk_base_context(wait->ctx);
    return wrk_wait_start(c, wait);
}

static CUresult finish_settle(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    CUresult drained = drain_others(wait);

    (void)w;
    if (wait->arg[3])
        drained = wrk_wait_context_whole(wait);
    return r == CUDA_SUCCESS ? drained : r;
}

/* A wait that may be given all contexts to drain; NULL: no memory. */
static struct wrk_wait *new_draining(struct wrk_call *c)
{
    struct wrk_wait *wait = wrk_wait_new(c);

    if (wait && (c->w->handles.live[VGP_H_CONTEXT] > 1 || wrk_contexts_ending()) && !drain_all(c->w, wait)) {
        wrk_wait_free(c->w, wait);
        return NULL;
    }
    return wait;
}

static CUresult finish_unregister(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    r = finish_settle(w, wait, r);
    /* A request of the client can fail: the memory stays registered until its context ends. A
     * request of the broker cannot; the provider decides when it has unregistered the memory. */
    if (r != CUDA_SUCCESS && !wait->arg[2])
        return r;
    if (!wait->arg[1])
        return CUDA_SUCCESS; /* its registration has ended with its context */
    return wrk_provider.cuMemHostUnregister((void *)(uintptr_t)wait->arg[1]);
}

static CUresult land_unregister(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    struct wrk_region *g = wrk_region_by_id(w, (uint32_t)wait->arg[0]);

    free(wait->buffer);
    wait->buffer = NULL;
    g->busy = false;
    g->used &= r != CUDA_SUCCESS;
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED || (!g->ctx && !g->ending))
        g->registered_at = NULL;
    else if (wait->arg[2] && !g->ending) /* otherwise when the context has ended */
        wrk_die(w, VGPU_DEAD_EXITED, "the driver keeps guest memory that is taken away: error %d", (int)r);
    unmap_when_free(w, g);
    return r;
}

CUresult wrk_do_vgpRegionUnregister(struct wrk_call *c, const struct vgp_args_vgpRegionUnregister *a)
{
    struct wrk_region *g = wrk_region_by_id(c->w, a->region);
    struct wrk_wait *wait;

    if (!g || !g->registered_at || g->busy || g->ending || !wrk_provider.cuMemHostUnregister)
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    wait = new_draining(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    g->busy = true;
    wait->finish = finish_unregister;
    wait->land = land_unregister;
    wait->arg[0] = a->region;
    wait->arg[1] = (uintptr_t)g->registered_at;
    if (!wait->blocking && wrk_captures) {
        /* waiting for the context would end a capture: the provider decides what is allowed */
        wait->blocking = true;
    } else if (!wait->blocking) {
        wrk_wait_add_context(c, wait);
        wait->arg[3] = wait->blocking;
    }
    return wrk_wait_start(c, wait);
}

static CUresult land_settle(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    (void)w;
    free(wait->buffer);
    wait->buffer = NULL;
    return r;
}

CUresult wrk_do_vgpSettle(struct wrk_call *c, const struct vgp_args_vgpSettle *a)
{
    struct wrk_wait *wait;

    (void)a;
    if (wrk_captures)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    wait = new_draining(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wait->finish = finish_settle;
    wait->land = land_settle;
    if (!wait->blocking) {
        CUresult r = wrk_wait_add_context(c, wait);

        if (r != CUDA_SUCCESS)
            return wrk_wait_fail(c, wait, r);
        wait->arg[3] = wait->blocking;
    }
    return wrk_wait_start(c, wait);
}

/* ---- the end of a region ---- */

static void unmap_now(struct wrk_worker *w, struct wrk_region *r)
{
    uint32_t id = r->id;

    if (r->registered_at || r->used) { /* the guest's driver removes the pages without asking libcuda */
        struct wrk_wait *wait = wrk_wait_internal(w, r->ctx);

        if (!wait || !drain_all(w, wait))
            wrk_die(w, VGPU_DEAD_EXITED, "no memory to take guest memory away");
        r->busy = true;
        wait->finish = finish_unregister;
        wait->land = land_unregister;
        wait->arg[0] = id;
        wait->arg[1] = (uintptr_t)r->registered_at;
        wait->arg[2] = true; /* it is being unmapped */
        wrk_wait_start_internal(w, wait);
        return;
    }
    if (r->flags & VGB_MAP_BY_MAPPER) { /* continued by TAKEN */
        wrk_control_unmapped(w, id, VGPU_S_OK, new_job(w, r, true));
        return;
    }
    forget_region(w, r);
    wrk_control_unmapped(w, id, VGPU_S_OK, 0);
}

/* Otherwise when its user has landed. */
static void unmap_when_free(struct wrk_worker *w, struct wrk_region *r)
{
    if (r->unmapping && !r->busy && !r->ending)
        unmap_now(w, r);
}

void wrk_region_unmap(struct wrk_worker *w, uint32_t id)
{
    struct wrk_region *r = wrk_region_by_id(w, id);

    if (!r || r->unmapping) {
        wrk_control_unmapped(w, id, VGPU_S_INVALID, 0);
        return;
    }
    r->unmapping = true;
    wrk_region_index_hide(&w->memory->regions, r);
    unmap_when_free(w, r);
}

void wrk_regions_context_ends(struct wrk_worker *w, CUcontext ctx, const struct wrk_wait *end)
{
    for (unsigned i = 0; i < w->memory->regions.n; i++) {
        struct wrk_region *r = w->memory->regions.list[i];

        if (r->ctx != ctx || !(r->registered_at || r->busy))
            continue;
        r->ctx = NULL;
        r->ending = end;
    }
}

bool wrk_regions_context_has(struct wrk_worker *w, const struct wrk_wait *end)
{
    for (unsigned i = 0; i < w->memory->regions.n; i++) {
        if (w->memory->regions.list[i]->ending == end)
            return true;
    }
    return false;
}

void wrk_regions_context_gone(struct wrk_worker *w, const struct wrk_wait *end)
{
    /* Downwards: the last entry replaces a removed entry. */
    for (unsigned i = w->memory->regions.n; i-- > 0;) {
        struct wrk_region *r = w->memory->regions.list[i];

        if (r->ending != end)
            continue;
        r->ending = NULL;
        r->used = true;
        if (!r->busy)
            r->registered_at = NULL;
        unmap_when_free(w, r);
    }
}

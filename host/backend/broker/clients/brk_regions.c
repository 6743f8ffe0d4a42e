/* SPDX-License-Identifier: MIT */
/* Client memory shared with its worker: regions, mapped and unmapped run by run. */
#define _GNU_SOURCE
#include "clients.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_fd.h"

/* Maximum pending mmap(2) calls of a client, waiting for the rest of their region or for the
 * mapper, which may never finish. The guest's driver pins a single region of a client at a time. */
#define CALLS_MAX 65536u
#define REGIONS_MAX 4096u /* regions of a client, as in the worker */
static struct brk_lines lines;

static void region_request_sent(struct brk_client *c)
{
    if (!c->asked++)
        c->asked_ns = vgb_now_ns();
}

static void region_request_answered(struct brk_client *c)
{
    if (c->asked)
        c->asked--;
    c->asked_ns = vgb_now_ns();
}

static struct brk_client_region *regions_find(struct brk_client *c, uint32_t id)
{
    for (struct brk_client_region *r = c->regions; r; r = r->next) {
        if (r->id == id)
            return r;
    }
    return NULL;
}

/* Drops the calls of a region after they were made or cancelled. */
static void calls_end(struct brk_client *c, struct brk_client_region *r)
{
    c->ncalls -= r->ncalls;
    r->ncalls = 0;
}

static void drop_region(struct brk_client *c, struct brk_client_region *r)
{
    for (struct brk_client_region **at = &c->regions; *at; at = &(*at)->next) {
        if (*at == r) {
            *at = r->next;
            c->nregions--;
            break;
        }
    }
    brk_quota_move(&brk_pins, c->pinned, c->pinned - r->length);
    c->pinned -= r->length;
    calls_end(c, r);
    vgb_plan_drop(&r->plan);
    free(r);
}

/* Plans the runs as the worker does, so that its mapper is allowed those calls. The worker itself
 * answers and logs regions that it refuses; here only the placement is denied. */
static uint32_t plan_runs(struct brk_client *c, struct brk_client_region *r, const struct brk_map *m)
{
    bool read_only = r->flags & VGB_MAP_READONLY;
    if (m->nruns > CALLS_MAX - c->ncalls) {
        vgb_log_limited(brk_lines_of(&lines, c->lines), VGB_WARN,
                        "client %u (%s): memory in more than %u pieces waits to be mapped: refused", c->slot,
                        c->label, CALLS_MAX);
        return VGPU_S_NO_MEMORY;
    }
    for (unsigned i = 0; i < m->nruns; i++) {
        if (brk_warden_file(c->proc->warden, m->runs[i].fd, read_only) < 0)
            return VGPU_S_NO_MEMORY;
    }
    for (unsigned i = 0; i < m->nruns; i++) {
        int file = brk_warden_file(c->proc->warden, m->runs[i].fd, read_only);
        struct vgb_run run = {.file = (uint32_t)file,
                              .page = vgb_fd_page_size(m->runs[i].fd),
                              .offset = m->runs[i].offset,
                              .length = m->runs[i].length};

        if (r->refused || (!r->plan.length && !vgb_plan_begin(&r->plan, r->length, &run)) ||
            vgb_plan_add(&r->plan, &run, PROT_READ | (read_only ? 0 : PROT_WRITE)) != VGB_PLAN_OK)
            r->refused = true;
    }
    c->ncalls += r->plan.n - r->ncalls;
    r->ncalls = r->plan.n;
    return VGPU_S_OK;
}

/* Bytes pinned by ending clients: mapped until the worker is reaped. Workers that cannot be ended
 * are not included. */
static uint64_t pins_leaving(void)
{
    uint64_t sum = 0;

    for (const struct brk_client *c = brk_client_first(); c; c = c->next)
        sum += c->state == BRK_C_ENDING && !c->stuck ? c->pinned : 0;
    return sum;
}

/* Pages of ending clients do not refuse a new program; the total is at most twice --pin-quota. */
static bool take_pins(struct brk_client *c, uint64_t bytes)
{
    const uint64_t limit = brk_pins.limit, used = brk_pins.used, leaving = pins_leaving();

    if (!brk_quota_move(&brk_pins, c->pinned, c->pinned + bytes)) {
        if (!leaving || leaving > limit || !vgp_range_ok(used - leaving, bytes, limit))
            return false;
        brk_quota_force(&brk_pins, c->pinned, c->pinned + bytes);
    }
    c->pinned += bytes;
    return true;
}

static uint32_t new_region(struct brk_client *c, const struct brk_map *m)
{
    struct brk_client_region *r;

    if (m->offset || !m->length || m->length % VGP_PAGE || m->va % VGP_PAGE || m->length > UINT64_MAX - m->va)
        return VGPU_S_INVALID;
    if (c->nregions == REGIONS_MAX || m->length > UINT64_MAX - c->pinned)
        return VGPU_S_QUOTA;
    r = calloc(1, sizeof(*r));
    if (!r)
        return VGPU_S_NO_MEMORY;
    if (!take_pins(c, m->length)) {
        free(r);
        vgb_log_limited(
            brk_lines_of(&lines, c->lines), VGB_WARN,
            "client %u (%s): %llu bytes of guest memory refused, %llu of all clients are shared: the "
            "limit is --pin-quota",
            c->slot, c->label, (unsigned long long)m->length, (unsigned long long)brk_pins.used);
        return VGPU_S_QUOTA;
    }
    r->id = m->region;
    r->va = m->va;
    r->length = m->length;
    r->flags = m->flags & VGB_MAP_READONLY;
    /* The file was created by a program of this host; in a VM it is all of the guest's memory. */
    r->by_mapper = c->slice && c->proc->warden;
    r->next = c->regions;
    c->regions = r;
    c->nregions++;
    return VGPU_S_OK;
}

/* Sends the runs in as many messages as it takes. */
static void send_runs(struct brk_client *c, const struct brk_client_region *r, const struct brk_map *m)
{
    struct vgb_msg msg;
    int fds[VGB_MSG_FDS];
    unsigned i = 0;
    uint64_t at = m->offset;

    while (i < m->nruns) {
        unsigned nfds = 0;

        memset(&msg, 0, sizeof(msg));
        msg.type = VGB_M_MAP;
        msg.region = m->region;
        msg.flags = m->flags | (r->by_mapper ? VGB_MAP_BY_MAPPER : 0);
        msg.va = m->va;
        msg.length = m->length;
        msg.offset = at;
        for (; i < m->nruns && msg.nruns < VGB_MSG_RUNS; i++) {
            const struct brk_map_run *run = &m->runs[i];
            unsigned f = 0;

            while (!r->by_mapper && f < nfds && fds[f] != run->fd)
                f++;
            if (f == VGB_MSG_FDS)
                break;
            if (r->by_mapper) /* known since plan_runs() */
                f = (unsigned)brk_warden_file(c->proc->warden, run->fd, r->flags & VGB_MAP_READONLY);
            else if (f == nfds)
                fds[nfds++] = run->fd;
            msg.runs[msg.nruns].file = f;
            msg.runs[msg.nruns].page = vgb_fd_page_size(run->fd);
            msg.runs[msg.nruns].offset = run->offset;
            msg.runs[msg.nruns++].length = run->length;
            at += run->length;
        }
        if (i < m->nruns)
            msg.flags |= VGB_MAP_MORE;
        brk_proc_send(c->proc, &msg, fds, nfds);
    }
}

/* Status for a client that is not served. A killed worker that has not exited may still map the
 * memory, while WORKER and NO_CLIENT tell the guest that the memory is free. */
static uint32_t region_refusal(const struct brk_client *c)
{
    if (c->stuck)
        return VGPU_S_STUCK;
    return c->state == BRK_C_DEAD ? VGPU_S_WORKER : VGPU_S_NO_CLIENT;
}

uint32_t brk_client_map(struct brk_client *c, const struct brk_map *m)
{
    struct brk_client_region *r = regions_find(c, m->region);
    uint64_t sum = 0;
    bool last = !(m->flags & VGB_MAP_MORE);

    if (c->state != BRK_C_SERVING)
        return region_refusal(c);
    if (!m->nruns)
        return VGPU_S_INVALID;
    for (unsigned i = 0; i < m->nruns; i++) {
        if (!m->runs[i].length || m->runs[i].length % VGP_PAGE || m->runs[i].offset % VGP_PAGE ||
            m->runs[i].length > UINT64_MAX - sum)
            return VGPU_S_INVALID;
        sum += m->runs[i].length;
    }
    if (!vgp_range_ok(m->offset, sum, m->length) || (last && m->offset + sum != m->length))
        return VGPU_S_INVALID;
    if (!r) {
        uint32_t status = new_region(c, m);

        if (status)
            return status;
        r = regions_find(c, m->region);
    } else if (r->complete || r->unmapping) {
        return VGPU_S_BUSY;
    } else if (r->va != m->va || r->length != m->length || r->done != m->offset ||
               r->flags != (m->flags & VGB_MAP_READONLY)) {
        return VGPU_S_INVALID;
    }
    if (r->by_mapper) {
        uint32_t status = plan_runs(c, r, m);

        if (status) {
            if (!r->done) /* the worker was never told */
                drop_region(c, r);
            return status;
        }
    }
    r->done += sum;
    r->complete = last;
    if (last) {
        r->state = BRK_R_ASKED;
        region_request_sent(c);
    }
    send_runs(c, r, m);
    return VGPU_S_OK;
}

static void send_about(struct brk_client *c, uint32_t type, uint32_t region)
{
    struct vgb_msg m = {.type = type, .region = region};

    brk_proc_send(c->proc, &m, NULL, 0);
}

uint32_t brk_client_unmap(struct brk_client *c, uint32_t region)
{
    struct brk_client_region *r = regions_find(c, region);

    if (c->state != BRK_C_SERVING)
        return region_refusal(c);
    if (!r || r->unmapping)
        return VGPU_S_INVALID;
    r->unmapping = true;
    region_request_sent(c);
    /* While the mapper is mapping it, the request to the worker is deferred. */
    if (!r->by_mapper || r->state == BRK_R_RUNS || r->state == BRK_R_MAPPED)
        send_about(c, VGB_M_UNMAP, region);
    return VGPU_S_OK;
}

void brk_regions_gone(struct brk_client *c)
{
    while (c->regions) {
        struct brk_client_region *r = c->regions;

        c->regions = r->next;
        vgb_plan_drop(&r->plan);
        free(r);
    }
    c->nregions = c->ncalls = 0;
}

/* ---- by the mapper ---- */

/* Nothing of it is mapped any more: answers pending requests. */
static void region_taken(struct brk_client *c, struct brk_client_region *r, bool failed)
{
    uint32_t id = r->id;
    bool unmapping = r->unmapping;

    /* first: the guest may use the number again when it is answered */
    send_about(c, VGB_M_TAKEN, id);
    drop_region(c, r);
    if (failed) {
        region_request_answered(c);
        c->ops->mapped(c, id, VGPU_S_NO_MEMORY, 0);
    }
    if (unmapping) {
        region_request_answered(c);
        c->ops->unmapped(c, id, VGPU_S_OK);
    }
}

static bool region_place(struct brk_client *c, struct brk_client_region *r, const struct vgb_msg *m)
{
    uint64_t length = vgb_plan_place(&r->plan);

    if (r->state != BRK_R_ASKED || r->refused || !m->va || m->va % r->plan.page ||
        m->va > UINT64_MAX - length)
        return false;
    r->place = m->va;
    r->state = BRK_R_PLACING;
    return brk_warden_place(c->proc->warden, r->id, m->value, r->place, &r->plan);
}

static bool region_take(struct brk_client *c, struct brk_client_region *r, uint64_t value, bool failed)
{
    r->state = failed ? BRK_R_FAILING : BRK_R_TAKING;
    return brk_warden_take(c->proc->warden, r->id, value, r->place, vgb_plan_place(&r->plan));
}

static bool region_mapped(struct brk_client *c, struct brk_client_region *r, const struct vgb_msg *m)
{
    uint32_t id = r->id;

    if (r->state == BRK_R_ASKED && m->status) { /* the worker has no place for it */
        region_taken(c, r, true);
        return true;
    }
    if (r->state != BRK_R_PLACED)
        return false;
    if (m->status)
        return region_take(c, r, m->value, true);
    r->state = BRK_R_MAPPED;
    region_request_answered(c);
    if (r->unmapping) /* requested meanwhile */
        send_about(c, VGB_M_UNMAP, id);
    c->ops->mapped(c, id, VGPU_S_OK, m->va);
    return true;
}

static bool mapper_message(struct brk_client *c, struct brk_client_region *r, const struct vgb_msg *m)
{
    if (m->type == VGB_M_PLACE)
        return region_place(c, r, m);
    if (m->type == VGB_M_MAPPED)
        return region_mapped(c, r, m);
    if (m->type != VGB_M_UNMAPPED || !r->unmapping)
        return false;
    if (r->state == BRK_R_RUNS) {
        region_taken(c, r, false);
        return true;
    }
    return r->state == BRK_R_MAPPED && region_take(c, r, m->value, false);
}

void brk_region_mapper_done(struct brk_client *c, uint32_t region, bool taken)
{
    struct brk_client_region *r = regions_find(c, region);

    if (!r || c->state != BRK_C_SERVING)
        return;
    if (taken) {
        region_taken(c, r, r->state == BRK_R_FAILING);
    } else if (r->state == BRK_R_PLACING) {
        calls_end(c, r);
        r->state = BRK_R_PLACED;
        send_about(c, VGB_M_PLACED, region);
    }
}

bool brk_region_message(struct brk_client *c, const struct vgb_msg *m)
{
    struct brk_client_region *r = regions_find(c, m->region);

    if (r && r->by_mapper)
        return mapper_message(c, r, m);
    if (m->type == VGB_M_MAPPED && r && r->state == BRK_R_ASKED) {
        uint32_t status = m->status ? VGPU_S_NO_MEMORY : VGPU_S_OK;

        r->state = BRK_R_MAPPED; /* otherwise the answer to UNMAP follows; sent once */
        region_request_answered(c);
        if (status && !r->unmapping)
            drop_region(c, r);
        c->ops->mapped(c, m->region, status, status ? 0 : m->va);
        return true;
    }
    if (m->type == VGB_M_UNMAPPED && r && r->unmapping) {
        region_request_answered(c);
        drop_region(c, r);
        c->ops->unmapped(c, m->region, VGPU_S_OK);
        return true;
    }
    return false;
}

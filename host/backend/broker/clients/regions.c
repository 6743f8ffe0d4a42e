/* SPDX-License-Identifier: MIT */
/* Memory of a client that is shared with its worker: regions, mapped and taken away run by run. */
#define _GNU_SOURCE
#include "clients.h"

#include <stdlib.h>
#include <string.h>

#include "vgb_fd.h"

#define REGIONS_MAX 4096u /* regions of one client, as in the worker */

static void asked(struct brk_client *c)
{
    if (!c->asked++)
        c->asked_ns = vgb_now_ns();
}

static void answered(struct brk_client *c)
{
    if (c->asked)
        c->asked--;
    c->asked_ns = vgb_now_ns();
}

static struct brk_client_region *find(struct brk_client *c, uint32_t id)
{
    for (struct brk_client_region *r = c->regions; r; r = r->next) {
        if (r->id == id)
            return r;
    }
    return NULL;
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
    free(r);
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
    if (!brk_quota_move(&brk_pins, c->pinned, c->pinned + m->length)) {
        free(r);
        return VGPU_S_QUOTA;
    }
    c->pinned += m->length;
    r->id = m->region;
    r->va = m->va;
    r->length = m->length;
    r->flags = m->flags & VGB_MAP_READONLY;
    r->next = c->regions;
    c->regions = r;
    c->nregions++;
    return VGPU_S_OK;
}

/* Sends the runs in as many messages as it takes. */
static void send_runs(struct brk_client *c, const struct brk_map *m)
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
        msg.flags = m->flags;
        msg.va = m->va;
        msg.length = m->length;
        msg.offset = at;
        for (; i < m->nruns && msg.nruns < VGB_MSG_RUNS; i++) {
            const struct brk_map_run *run = &m->runs[i];
            unsigned f = 0;

            while (f < nfds && fds[f] != run->fd)
                f++;
            if (f == VGB_MSG_FDS)
                break;
            if (f == nfds)
                fds[nfds++] = run->fd;
            msg.runs[msg.nruns].fd = f;
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

uint32_t brk_client_map(struct brk_client *c, const struct brk_map *m)
{
    struct brk_client_region *r = find(c, m->region);
    uint64_t sum = 0;
    bool last = !(m->flags & VGB_MAP_MORE);

    if (c->state != BRK_C_SERVING)
        return c->state == BRK_C_DEAD ? VGPU_S_WORKER : VGPU_S_NO_CLIENT;
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
        r = find(c, m->region);
    } else if (r->complete || r->unmapping) {
        return VGPU_S_BUSY;
    } else if (r->va != m->va || r->length != m->length || r->done != m->offset ||
               r->flags != (m->flags & VGB_MAP_READONLY)) {
        return VGPU_S_INVALID;
    }
    r->done += sum;
    r->complete = last;
    if (last)
        asked(c);
    send_runs(c, m);
    return VGPU_S_OK;
}

uint32_t brk_client_unmap(struct brk_client *c, uint32_t region)
{
    struct vgb_msg m = {.type = VGB_M_UNMAP, .region = region};
    struct brk_client_region *r = find(c, region);

    if (c->state != BRK_C_SERVING)
        return c->state == BRK_C_DEAD ? VGPU_S_WORKER : VGPU_S_NO_CLIENT;
    if (!r || r->unmapping)
        return VGPU_S_INVALID;
    r->unmapping = true;
    asked(c);
    brk_proc_send(c->proc, &m, NULL, 0);
    return VGPU_S_OK;
}

void brk_regions_gone(struct brk_client *c)
{
    while (c->regions) {
        struct brk_client_region *r = c->regions;

        c->regions = r->next;
        free(r);
    }
    c->nregions = 0;
}

bool brk_region_message(struct brk_client *c, const struct vgb_msg *m)
{
    struct brk_client_region *r = find(c, m->region);

    if (m->type == VGB_M_MAPPED && r && r->complete) {
        uint32_t status = m->status ? VGPU_S_NO_MEMORY : VGPU_S_OK;

        answered(c);
        if (status && !r->unmapping)
            drop_region(c, r);
        c->ops->mapped(c, m->region, status, status ? 0 : m->va);
        return true;
    }
    if (m->type == VGB_M_UNMAPPED && r && r->unmapping) {
        answered(c);
        drop_region(c, r);
        c->ops->unmapped(c, m->region, VGPU_S_OK);
        return true;
    }
    return false;
}

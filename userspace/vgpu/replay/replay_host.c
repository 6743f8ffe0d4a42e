/* SPDX-License-Identifier: MIT */
/* Memory registered by the recorded program: pages of this process, at the same address where that
 * is free, shared with the worker as libcuda does. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "replay/replay.h"
#include "base/vgpu_cli.h"

struct replay_region *replay_region_find(struct replay_run *r, uint32_t recorded)
{
    for (unsigned i = 0; i < REPLAY_REGIONS; i++) {
        if (r->regions[i].used && r->regions[i].recorded == recorded)
            return &r->regions[i];
    }
    return NULL;
}

bool replay_region_new(struct replay_run *r, struct vgp_args_vgpRegionRegister *a)
{
    struct replay_region *region = NULL;
    void *p;
    int rc;

    for (unsigned i = 0; i < REPLAY_REGIONS && region == NULL; i++) {
        if (!r->regions[i].used)
            region = &r->regions[i];
    }
    if (region == NULL)
        return false;
    /* Older kernels take the address as a hint, which is sufficient. */
    p = mmap((void *)(uintptr_t)a->va, a->length, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (p == MAP_FAILED)
        p = mmap(NULL, a->length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    rc = r->transport.ops->share(&r->transport, p, a->length, false, &region->memory);
    if (rc != 0) {
        vgpu_cli_say("registered memory of the recording: %s", r->transport.why);
        munmap(p, a->length);
        return false;
    }
    region->known = calloc(1, a->length);
    if (region->known == NULL)
        vgpu_cli_die("out of memory");
    region->used = true;
    region->recorded = a->region;
    region->recorded_va = a->va;
    replay_map_add(&r->map, a->va, a->length, (uintptr_t)p);
    a->region = region->memory.region;
    a->va = (uintptr_t)p;
    return true;
}

void replay_region_end(struct replay_run *r, uint32_t recorded)
{
    struct replay_region *region = replay_region_find(r, recorded);

    if (region == NULL)
        return;
    replay_map_free(&r->map, region->recorded_va);
    r->transport.ops->unshare(&r->transport, &region->memory, true);
    free(region->known);
    region->known = NULL;
    region->used = false;
}

uint8_t *replay_host_at(struct replay_run *r, uint64_t recorded, uint64_t size)
{
    for (unsigned i = 0; i < REPLAY_REGIONS; i++) {
        struct replay_region *region = &r->regions[i];

        if (region->used && recorded >= region->recorded_va &&
            vgp_range_ok(recorded - region->recorded_va, size, region->memory.length))
            return (uint8_t *)region->memory.va + (recorded - region->recorded_va);
    }
    return NULL;
}

void replay_host_known(struct replay_run *r, uint64_t recorded, uint64_t size)
{
    for (unsigned i = 0; i < REPLAY_REGIONS; i++) {
        struct replay_region *region = &r->regions[i];
        uint64_t offset = recorded - region->recorded_va;

        if (region->used && recorded >= region->recorded_va &&
            vgp_range_ok(offset, size, region->memory.length))
            memcpy(region->known + offset, (uint8_t *)region->memory.va + offset, size);
    }
}

/* ---- bytes of unknown writer ---- */

static void add_either(struct replay_run *r, const struct replay_event *e)
{
    struct replay_either *x = vgpu_cli_alloc(sizeof(*x) + e->data_size);

    x->next = r->either;
    x->region = e->host->region;
    x->offset = e->host->offset;
    x->size = e->data_size;
    memcpy(x->bytes, e->data, e->data_size);
    r->either = x;
}

/* Unchanged bytes get the values written by the recorded program. */
static void apply_recorded(struct replay_run *r, struct replay_either *x)
{
    struct replay_region *region = replay_region_find(r, x->region);
    uint8_t *here;

    if (region == NULL || !vgp_range_ok(x->offset, x->size, region->memory.length))
        return;
    here = (uint8_t *)region->memory.va + x->offset;
    for (uint32_t i = 0; i < x->size; i++) {
        if (here[i] == region->known[x->offset + i])
            here[i] = x->bytes[i];
    }
}

void replay_host_apply(struct replay_run *r)
{
    for (struct replay_either *x = r->either; x != NULL; x = x->next)
        apply_recorded(r, x);
}

/* The recording's RESULT is authoritative for these bytes, so pending entries adopt them. */
static void overrule_event(struct replay_run *r, const struct replay_event *e)
{
    struct replay_region *region = replay_region_find(r, e->host->region);
    uint64_t from = e->host->offset, to = from + e->data_size;

    for (struct replay_either *x = r->either; x != NULL && region != NULL; x = x->next) {
        uint64_t a = x->offset > from ? x->offset : from;
        uint64_t b = x->offset + x->size < to ? x->offset + x->size : to;

        if (x->region == e->host->region && a < b)
            memcpy(x->bytes + (a - x->offset), (uint8_t *)region->memory.va + a, b - a);
    }
}

void replay_host_settle(struct replay_run *r, uint64_t serial, uint16_t call)
{
    for (struct replay_either **pp = &r->either, *x; (x = *pp) != NULL;) {
        struct replay_region *region = replay_region_find(r, x->region);

        if (x->serial == 0) { /* written before this call */
            x->serial = serial;
            x->call = call;
            pp = &x->next;
            continue;
        }
        apply_recorded(r, x);
        if (region != NULL && vgp_range_ok(x->offset, x->size, region->memory.length)) {
            uint8_t *here = (uint8_t *)region->memory.va + x->offset;

            replay_compare_bytes(r, x->serial, x->call, "registered memory", x->bytes, here, x->size);
            memcpy(region->known + x->offset, here, x->size);
        }
        *pp = x->next;
        free(x);
    }
}

void replay_host_event(struct replay_run *r, const struct replay_event *e, uint64_t serial, uint16_t call)
{
    struct replay_region *region = replay_region_find(r, e->host->region);
    uint8_t *at, *known;

    if (region == NULL || !vgp_range_ok(e->host->offset, e->data_size, region->memory.length))
        return;
    at = (uint8_t *)region->memory.va + e->host->offset;
    known = region->known + e->host->offset;
    switch (e->type) {
    case VGP_EVENT_HOST_RESULT:
        r->totals.host_results++;
        replay_compare_bytes(r, serial, call, "registered memory after it", e->data, at, e->data_size);
        overrule_event(r, e);
        break;
    case VGP_EVENT_HOST_WRITE:
        memcpy(at, e->data, e->data_size);
        if (!r->options.keep_words)
            r->map.data_words +=
                replay_map_words(&r->map, at, e->data_size, (unsigned)(8 - e->host->offset % 8) % 8);
        break;
    default:
        add_either(r, e);
        return;
    }
    memcpy(known, at, e->data_size);
}

/* SPDX-License-Identifier: MIT */
/* Memory that the recorded program had registered: pages of this process, at the same address where
 * that is free, shared with the worker as libcuda does it. */
#include <string.h>
#include <sys/mman.h>

#include "replay.h"
#include "vgpu_cli.h"

struct rp_region *rp_region_find(struct rp_run *r, uint32_t recorded)
{
    for (unsigned i = 0; i < RP_REGIONS; i++) {
        if (r->regions[i].used && r->regions[i].recorded == recorded)
            return &r->regions[i];
    }
    return NULL;
}

bool rp_region_new(struct rp_run *r, struct vgp_args_vgpRegionRegister *a)
{
    struct rp_region *region = NULL;
    void *p;
    int rc;

    for (unsigned i = 0; i < RP_REGIONS && region == NULL; i++) {
        if (!r->regions[i].used)
            region = &r->regions[i];
    }
    if (region == NULL)
        return false;
    /* An older kernel takes the address for a hint, which is as good. */
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
    region->used = true;
    region->recorded = a->region;
    region->recorded_va = a->va;
    rp_map_add(&r->map, a->va, a->length, (uintptr_t)p);
    a->region = region->memory.region;
    a->va = (uintptr_t)p;
    return true;
}

void rp_region_end(struct rp_run *r, uint32_t recorded)
{
    struct rp_region *region = rp_region_find(r, recorded);

    if (region == NULL)
        return;
    rp_map_free(&r->map, region->recorded_va);
    r->transport.ops->unshare(&r->transport, &region->memory, true);
    region->used = false;
}

uint8_t *rp_host_at(struct rp_run *r, uint64_t recorded, uint64_t size)
{
    for (unsigned i = 0; i < RP_REGIONS; i++) {
        struct rp_region *region = &r->regions[i];

        if (region->used && recorded >= region->recorded_va &&
            vgp_range_ok(recorded - region->recorded_va, size, region->memory.length))
            return (uint8_t *)region->memory.va + (recorded - region->recorded_va);
    }
    return NULL;
}

/* SPDX-License-Identifier: MIT */
/* Index of complete regions by guest address and by address in this process. */
#include "memory.h"

#include <errno.h>

_Static_assert(WRK_REGIONS_MAX <= VGP_PAGE, "each region has a key within the page that it begins with");

void wrk_region_index_hide(struct wrk_regions *rs, struct wrk_region *r)
{
    if (r->va_key)
        btr_remove(&rs->by_va, r->va_key, NULL);
    r->va_key = 0;
}

/* Regions may begin at the same address: the low bits of the key, below a page address, number
 * them. */
static bool show_to_guest(struct wrk_regions *rs, struct wrk_region *r)
{
    if (r->va_key || r->unmapping)
        return true;
    for (uint32_t i = r->id, n = 0; n < WRK_REGIONS_MAX; i++, n++) {
        const uint64_t key = r->guest_va | i % VGP_PAGE;
        const int e = key ? btr_insert(&rs->by_va, key, r->guest_va + r->length, r) : EEXIST;

        if (e == EEXIST)
            continue;
        r->va_key = e ? 0 : key;
        return !e;
    }
    return false;
}

bool wrk_region_index_add(struct wrk_regions *rs, struct wrk_region *r)
{
    const int e = btr_insert(&rs->by_base, (uintptr_t)r->base, 0, r);

    return (!e || e == EEXIST) && show_to_guest(rs, r);
}

void wrk_region_index_remove(struct wrk_regions *rs, struct wrk_region *r)
{
    struct btr_item it;

    wrk_region_index_hide(rs, r);
    if (btr_find(&rs->by_base, (uintptr_t)r->base, &it) && it.value == r)
        btr_remove(&rs->by_base, it.key, NULL);
}

void *wrk_region_address(struct wrk_worker *w, uint64_t va, uint64_t size, bool write)
{
    struct btr_item it = {0};

    if (size > UINT64_MAX - va)
        return NULL;
    /* Regions that end beyond the range, ordered by start: the first begins lowest. */
    for (uint64_t key = 0; btr_first_of_weight(&w->memory->regions.by_va, key, va + size, &it);
         key = it.key + 1) {
        struct wrk_region *r = it.value;

        if (r->guest_va > va)
            return NULL;
        if (write && r->flags & VGB_MAP_READONLY)
            continue;
        r->seen = true;
        return r->base + (va - r->guest_va);
    }
    return NULL;
}

uint64_t wrk_region_guest_address(struct wrk_worker *w, const void *p, uint64_t size)
{
    struct btr_item it;

    if (!btr_floor(&w->memory->regions.by_base, (uintptr_t)p, &it))
        return 0;

    const struct wrk_region *r = it.value;
    const uint64_t offset = (uintptr_t)p - it.key;

    return vgp_range_ok(offset, size, r->length) ? r->guest_va + offset : 0;
}

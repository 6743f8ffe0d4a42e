/* SPDX-License-Identifier: MIT */
/*
 * The one place where host memory that the guest names becomes a pointer of this process. There are two kinds: an
 * offset in the staging area of the window, and an address inside a region. Nothing else that a guest says is a host
 * pointer; other addresses go to the provider as device addresses, and those reach nothing of this process's own.
 */
#include "memory.h"

void *wrk_host_pointer(struct wrk_worker *w, uint32_t kind, uint64_t address, uint64_t bytes, bool write)
{
    switch (kind) {
    case VGP_COPY_STAGING:
        return vgp_range_ok(address, bytes, w->win.staging_size)
                   ? w->win.base + w->win.staging_offset + address
                   : NULL;
    case VGP_COPY_HOST:
        return wrk_region_address(w, address, bytes, write);
    default:
        return NULL;
    }
}

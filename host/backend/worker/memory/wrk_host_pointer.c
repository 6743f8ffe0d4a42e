/* SPDX-License-Identifier: MIT */
/*
 * The only conversion of host memory named by the guest to a pointer of this process. It has two
 * forms: an offset in the window's staging area, and an address inside a region. No other value
 * from the guest is a host pointer; other addresses go to the provider as device addresses, which
 * reach no memory of this process.
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

/* SPDX-License-Identifier: MIT */
/*
 * Memory for results on their way into replies. This memory and the staging area are page-locked
 * with the provider, so that copies to them are asynchronous: copies to pageable memory would block
 * the dispatcher.
 *
 * Registered memory (cuMemHostRegister) is accessible to every kernel and copy of the guest, and
 * visible in pointer attributes. The software GPU has an entry point for memory reachable only by
 * host pointers of this process. Drivers have none; with them the worker is protected by location
 * and content: a random address in areas that contain only such memory (wrk_layout_private()), and
 * no data except this client's own, or data that this process would read back and trust.
 */
#define _GNU_SOURCE
#include "memory.h"

#include <sys/mman.h>

#define SLOTS_BYTES ((uint64_t)VGP_REPLY_SLOTS * WRK_BOUNCE_SLOT)

static bool ensure_bounce(struct wrk_bounce *b)
{
    if (b->base)
        return true;
    uint8_t *p = wrk_layout_private(SLOTS_BYTES);
    if (!p)
        return false;
    if (mprotect(p, SLOTS_BYTES, PROT_READ | PROT_WRITE)) {
        munmap(p, SLOTS_BYTES);
        return false;
    }
    b->base = p;
    return true;
}

/* Unregistered memory works, but more slowly: logged, not an error. */
static void pin_pages(const char *what, void *p, uint64_t bytes)
{
    CUresult r = wrk_provider.cuMemHostRegister_v2(p, bytes, CU_MEMHOSTREGISTER_PORTABLE);

    if (r != CUDA_SUCCESS)
        vgb_log(VGB_WARN,
                "%llu bytes of memory for %s are not pinned: cuMemHostRegister gives CUDA error %d: "
                "copies of pageable memory will wait",
                (unsigned long long)bytes, what, (int)r);
}

void wrk_bounce_init(struct wrk_worker *w)
{
    struct wrk_bounce *b = &w->memory->bounce;

    if (!wrk_provider.sg_host_register_private || !ensure_bounce(b))
        return;
    b->is_private = true;
    if (wrk_provider.sg_host_register_private(b->base, SLOTS_BYTES) != CUDA_SUCCESS ||
        wrk_provider.sg_host_register_private(w->win.base + w->win.staging_offset, w->win.staging_size) !=
            CUDA_SUCCESS)
        vgb_log(VGB_WARN, "memory for results or staging is not page-locked: copies will wait");
}

void wrk_bounce_register(struct wrk_worker *w)
{
    struct wrk_bounce *b = &w->memory->bounce;

    if (b->is_private || b->registered || !wrk_provider.cuMemHostRegister_v2 || !w->current ||
        !ensure_bounce(b))
        return;
    b->registered = wrk_base_context(w->current);
    pin_pages("results", b->base, SLOTS_BYTES);
    pin_pages("staging", w->win.base + w->win.staging_offset, w->win.staging_size);
}

void *wrk_bounce_result(struct wrk_worker *w, uint32_t slot)
{
    if (slot >= VGP_REPLY_SLOTS || !ensure_bounce(&w->memory->bounce))
        return NULL;
    return w->memory->bounce.base + (size_t)slot * WRK_BOUNCE_SLOT;
}

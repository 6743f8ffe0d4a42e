/* SPDX-License-Identifier: MIT */
/*
 * Memory for results on their way into replies. It and the staging area are registered with the
 * provider (pinned), so that copies to them are asynchronous: to pageable memory they would block
 * the dispatcher until they are done.
 */
#define _GNU_SOURCE
#include "worker.h"

#include <sys/mman.h>

#define SLOTS_BYTES ((uint64_t)VGP_REPLY_SLOTS * VGB_BOUNCE_SLOT)

static bool ensure(struct vgb_bounce *b)
{
    if (b->base)
        return true;
    void *p = mmap(NULL, SLOTS_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return false;
    b->base = p;
    return true;
}

void vgb_bounce_register(struct vgb_worker *w)
{
    struct vgb_bounce *b = &w->bounce;

    if (b->registered || !vgb_cu.MemHostRegister || !w->current || !ensure(b))
        return;
    b->registered = vgb_base_context(w->current);
    /* Not registered, they still work, more slowly: no error. */
    vgb_cu.MemHostRegister(b->base, SLOTS_BYTES, CU_MEMHOSTREGISTER_PORTABLE);
    vgb_cu.MemHostRegister(w->win.base + w->win.staging_offset, w->win.staging_size,
                           CU_MEMHOSTREGISTER_PORTABLE);
}

void *vgb_bounce_result(struct vgb_worker *w, uint32_t slot)
{
    if (slot >= VGP_REPLY_SLOTS || !ensure(&w->bounce))
        return NULL;
    return w->bounce.base + (size_t)slot * VGB_BOUNCE_SLOT;
}

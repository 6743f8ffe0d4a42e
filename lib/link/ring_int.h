/* SPDX-License-Identifier: MIT */
/* Shared by lnk_ring.c and lnk_notify.c. */
#ifndef LNK_RING_INT_H
#define LNK_RING_INT_H

#include <time.h>

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "ring.h"
#include "../clock/clock.h"

/* A sleeping thread checks the worker's state at least this often, in case a wake-up is lost. */
#define SLEEP_SLICE_NS 500000000

static inline uint32_t load32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t load64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Marks the worker dead, once, and tells the owner the reason. Returns the result of all further
   calls. */
CUresult lnk_ring_declare_dead(struct lnk_ring *r, uint32_t reason);

#endif

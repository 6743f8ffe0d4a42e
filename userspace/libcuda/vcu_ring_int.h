/* SPDX-License-Identifier: MIT */
/* What vcu_ring.c and vcu_notify.c share. */
#ifndef VCU_RING_INT_H
#define VCU_RING_INT_H

#include <time.h>

#include "../../kernel/vgpu_drv/uapi/vgpu_device.h"
#include "vcu_ring.h"

/* A sleeper looks at the worker's state at least this often, should a wake-up get lost. */
#define SLEEP_SLICE_NS 500000000

static inline uint64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static inline uint32_t load32(const uint32_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

static inline uint64_t load64(const uint64_t *p)
{
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}

/* Marks the worker dead, once, and tells the owner why. Returns what every call returns from now
 * on. */
CUresult vcu_ring_declare_dead(struct vcu_ring *r, uint32_t reason);
/* Announces a sleep: after this either the condition is seen or a wake-up will come. */
uint64_t vcu_ring_announce_sleep(struct vcu_ring *r);
/* One sleep in the transport; `seen` comes from vcu_ring_announce_sleep. */
void vcu_ring_sleep(struct vcu_ring *r, uint64_t seen, int64_t slice_ns);
/* Are there notifications that nobody has taken? */
bool vcu_ring_notified(const struct vcu_ring *r);

#endif

/* SPDX-License-Identifier: MIT */
#ifndef WRK_SLICE_H
#define WRK_SLICE_H

#include <stdbool.h>
#include <stdint.h>

/* The first version of the kernel's struct sched_attr (sched_setattr(2)), without utilisation limits:
 * <linux/sched/types.h> and <sched.h> cannot both be included. */
struct wrk_sched_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period; /* ns; runtime: the slice, in the fair class */
};

/* The shortest that Linux grants (sched(7); kernel/sched/syscalls.c). Nanoseconds. */
#define WRK_SLICE_NS UINT64_C(100000)

/*
 * Asks for short time slices for this thread and those that it creates. Since Linux 6.12 a thread
 * that is woken displaces one with longer slices at once, instead of after the rest of that slice
 * (milliseconds): a call of a client whose processors are busy otherwise waits for that rest in each
 * direction. The share of the processor does not change, and needs no privilege. Before 6.12 the
 * request is ignored. False: not a thread of the fair class, or refused; nothing depends on it.
 */
bool wrk_slice_short(void);

#endif

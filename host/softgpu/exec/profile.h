/* SPDX-License-Identifier: MIT */
/*
 * VGPU_SOFT_PROFILE: where the time of kernels goes. A file of lines of fixed width that are kept up to date while
 * the program runs, so that it is complete however the process ends (a worker is killed).
 */
#ifndef SG_PROFILE_H
#define SG_PROFILE_H

#include "exec/code.h"

/* Makes the file (once; before a sandbox forbids it). Nothing when the option is not set. */
void sg_profile_open(void);
bool sg_profile_on(void);
uint64_t sg_profile_now(void); /* ns */
uint64_t sg_profile_cpu(void); /* ns that this thread ran: another program on its processor does not count */
extern bool sg_native_on;      /* there is native code; set once by the compiler of it, before it compiles */
/* One launch of k has ended: its blocks, warp instructions and nanoseconds of all threads together. */
void sg_profile_launch(struct sg_kernel *k, uint64_t blocks, uint64_t insns, uint64_t ns);
/*
 * A counter, for ever at this address, of how often native code of the kernel called the handler of
 * that name; NULL: profiling is off, or there are too many.
 */
uint64_t *sg_profile_counter(const char *kernel, const char *op, const char *why);

#endif

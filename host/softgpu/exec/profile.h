/* SPDX-License-Identifier: MIT */
/*
 * VGPU_SOFT_PROFILE: time spent in kernels. The file consists of fixed-width lines that are updated
 * while the program runs, so it is complete however the process ends (a worker is killed).
 */
#ifndef SG_PROFILE_H
#define SG_PROFILE_H

#include "exec/code.h"

/* Creates the file, once, before a sandbox forbids it. Does nothing if the option is not set. */
void sg_profile_open(void);
bool sg_profile_on(void);
uint64_t sg_profile_now(void); /* current time, ns */
/* CPU time of this thread, ns; excludes time when it was not scheduled */
uint64_t sg_profile_cpu(void);
/* Native code is available; set once by the native-code compiler before it compiles. */
extern bool sg_native_on;
/* Called when a launch of this code ends: its blocks, its warp instructions, and the time of all threads
   together, ns. */
void sg_profile_launch(const struct sg_code *c, uint64_t blocks, uint64_t insns, uint64_t ns);
/*
 * A counter, at a permanent address, of the calls from the kernel's native code to the handler of
 * that name. NULL: profiling is off, or there are too many counters.
 */
uint64_t *sg_profile_counter(const char *kernel, const char *op, const char *why);

#endif

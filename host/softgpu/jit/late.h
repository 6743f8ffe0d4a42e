/* SPDX-License-Identifier: MIT */
/*
 * Versions of blocks for some of the lanes, each compiled when it first runs: most never do. Native code reaches them
 * through a table of addresses, in which a version that is missing has the address of JIT_MISSING.
 */
#ifndef SG_JIT_LATE_H
#define SG_JIT_LATE_H

#include "jit/state.h"

/* Counts the blocks of j->leader. NULL: no memory. */
struct sg_late *sg_jit_late_new(struct jit *j);
/* Emits the code for JIT_MASKED and JIT_MISSING. */
void sg_jit_late_common(struct jit *j, size_t at[JIT_COMMON]);
/*
 * The kernel's code now lies at `at`, its common places at these offsets. Takes over the data of j that later
 * compilations need: leader, kill, addresses.
 */
void sg_jit_late_begin(struct jit *j, const u8 *at, const size_t common[JIT_COMMON]);
u32 sg_jit_late_count(struct sg_late *l); /* of versions that are compiled */
void sg_jit_late_free(struct sg_late *l);

#endif

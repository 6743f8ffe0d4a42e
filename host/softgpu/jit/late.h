/* SPDX-License-Identifier: MIT */
/*
 * Versions of blocks for some of the lanes, each compiled when it first runs: most never do. Native code reaches them
 * through a table of addresses, in which a version that is missing has the address of JIT_MISSING.
 *
 * So are settled versions: of blocks for all lanes with loads from sums (jit/memory/sums.h), compiled when it is
 * known how the lanes of these lie. A settled version is for warps whose lanes lie so (w->lie). It has one path per
 * load, with constant distances. The other warps, and all until it is there, run the block's code as it was.
 */
#ifndef SG_JIT_LATE_H
#define SG_JIT_LATE_H

#include "jit/state.h"

/* Counts the blocks of j->leader. NULL: no memory. */
struct sg_late *sg_jit_late_new(struct jit *j);
/* Where a block for all lanes begins, with distances compared: its settled version runs in place of what follows. Returns
   the offset of the code that asks for it. */
size_t sg_jit_settled_ask(struct jit *j, u32 first);
/* The block is compiled; it asked at `at`, and there were `sites` loads from sums before it. */
void sg_jit_settled_note(struct jit *j, u32 first, size_t at, u32 sites);
/* Emits the code for JIT_MASKED and JIT_MISSING. */
void sg_jit_late_common(struct jit *j, size_t at[JIT_COMMON]);
/*
 * The kernel's code now lies at `at`, its common places at these offsets. Takes over the data of j that later
 * compilations need: leader, kill, addresses.
 */
void sg_jit_late_begin(struct jit *j, const u8 *at, const size_t common[JIT_COMMON]);
u32 sg_jit_late_count(struct sg_late *l);   /* of versions that are compiled */
u32 sg_jit_late_settled(struct sg_late *l); /* of settled versions */
void sg_jit_late_free(struct sg_late *l);

#endif

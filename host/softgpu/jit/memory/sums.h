/* SPDX-License-Identifier: MIT */
/* Sums of a uniform value and a hoisted one (jit/memory/sums.c), where all lanes run. */
#ifndef SG_JIT_SUMS_H
#define SG_JIT_SUMS_H

#include "jit/memory/windows.h"

/* What a warp knows of the lanes of a load from a sum (w->lie). It holds for a launch, or for a row of its blocks. */
enum { LIE_UNKNOWN, LIE_IN_WINDOWS, LIE_IN_ROW, LIE_APART };

/* The sum that register op is. NULL: it is none. */
struct sum *sg_jit_sum(struct jit *j, u32 op);
/* Chunk h of the sum to register v; the address of lane 0 to RAX. */
void sg_jit_sum_lanes(struct jit *j, const struct sum *x, u32 h, u32 v);
void sg_jit_sum_first(struct jit *j, const struct sum *x);
/* Writes the chunks that are nowhere else to the register file; clobbers register 7. */
void sg_jit_sums_save(struct jit *j, const struct sum *sums, u32 n);
/* Chunk h of register op gets another value, or is not wanted any more. */
void sg_jit_sums_changed(struct jit *j, u32 op, u32 h);
/* As sg_jit_window_learn(), and stores in w->lie how the lanes lie. */
void sg_jit_sum_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x);

#endif

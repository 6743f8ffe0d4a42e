/* SPDX-License-Identifier: MIT */
/* Sums of a uniform value and a hoisted one (jit/memory/sg_jit_sums.c, jit/memory/sg_jit_sum_ops.c), where all lanes run. */
#ifndef SG_JIT_SUMS_H
#define SG_JIT_SUMS_H

#include "jit/memory/windows.h"

/* Layout of the lanes of a load from a sum (w->lie), valid for a launch or for a row of its blocks. */
enum { LIE_UNKNOWN, LIE_IN_WINDOWS, LIE_IN_ROW, LIE_APART };

/* Offset in the warp of the number of a sum. */
#define SUM_NUMBER(x) ((s32)(offsetof(struct sg_warp, sums) + 8 * (x)->place))

/* A free index into w->sums. NO_KEY: as many sums exist as there may be. */
u32 sg_jit_sum_place(const struct jit *j);
/* The sum in register op. NULL: none. */
struct sum *sg_jit_sum(struct jit *j, u32 op);
/* True if the register, or constant, op has the same value in each block of a launch, as far as is known. */
bool sg_jit_is_fixed(struct jit *j, u32 op);
/* Loads chunk h of the sum into vector register v. */
void sg_jit_sum_lanes(struct jit *j, const struct sum *x, u32 h, u32 v);
/* Loads the sum of lane 0 into RAX. */
void sg_jit_sum_first(struct jit *j, const struct sum *x);
/* Writes chunks that exist only as sums to the register file; clobbers vector register 7. */
void sg_jit_sums_save(struct jit *j, const struct sum *sums, u32 n);
/* Called when chunk h of register op gets another value, or is dead. */
void sg_jit_sums_changed(struct jit *j, u32 op, u32 h);
/* As sg_jit_window_learn(), and stores the layout of the lanes in w->lie. */
void sg_jit_sum_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x);

#endif

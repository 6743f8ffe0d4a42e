/* SPDX-License-Identifier: MIT */
/* AVX2: operands of lowered instructions in memory, and results under a mask. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

struct rm sg_avx2_rm(struct buf *b, const struct vinsn *x, u32 h)
{
    if (!x->memory)
        return sg_avx2_operand(b, x->rm, h);
    if (!(x->flags & EV_B))
        return MEM_AT(x->rm, x->disp + (s32)(32 * h));
    if (!h) /* vpbroadcastd, vpbroadcastq */
        v256(b, OP(M38, P66, 0, x->scale == 8 ? 0x59 : 0x58), T3, 0, MEM_AT(x->rm, x->disp));
    return REG(T3);
}

void sg_avx2_merge(struct buf *b, const struct vinsn *x, u32 v, u32 h)
{
    const u32 size = x->o.w ? 8 : 4;
    u32 mask, old;

    sg_avx2_mask_lanes(b, x->k, size);
    mask = sg_avx2_get(b, AVX2_MASKS + x->k, h);
    if (x->flags & EV_Z) {
        v256(b, PAND, sg_avx2_put(b, v, h), T0, REG(mask));
        return;
    }
    old = sg_avx2_get(b, v, h);
    v256i(b, BLENDV(size), sg_avx2_put(b, v, h), old, REG(T0), mask << 4);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Sums (jit/memory/sums.h). Most addresses are the sum of a uniform value and a hoisted value, which
 * differs between lanes but not between blocks. Such a sum is not computed: its uniform part is a number
 * in the warp's memory, added to the lanes when an instruction reads them. The layout of the lanes of a
 * load from a sum is kept between runs of the warp.
 */
#include "jit/memory/sums.h"

#ifdef SG_JIT

struct sum *sg_jit_sum(struct jit *j, u32 op)
{
    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].key == op && j->sums[i].valid)
            return &j->sums[i];
    return NULL;
}

bool sg_jit_is_fixed(struct jit *j, u32 op)
{
    const struct sum *x = op & SG_OPND_CONST ? NULL : sg_jit_sum(j, op);

    if (!j->moves || (op & SG_OPND_CONST))
        return j->moves;
    return x ? x->fixed : op < j->code->slots_end && !j->moves[op >> 7];
}

u32 sg_jit_sum_place(const struct jit *j)
{
    u32 used = 0;

    for (u32 i = 0; i < j->nsums; i++)
        used |= 1u << j->sums[i].place;
    return j->nsums < SG_NATIVE_SUMS ? (u32)__builtin_ctz(~used) : NO_KEY;
}

/* Drops sums whose value is neither wanted nor still to be written. */
static void drop_unwanted(struct jit *j)
{
    u32 n = 0;

    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].valid || j->sums[i].unsaved)
            j->sums[n++] = j->sums[i];
    j->nsums = n;
}

void sg_jit_sums_changed(struct jit *j, u32 op, u32 h)
{
    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].key == op) {
            j->sums[i].valid = false;
            j->sums[i].unsaved &= (u8) ~(1u << h);
        }
    drop_unwanted(j);
}

void sg_jit_sum_lanes(struct jit *j, const struct sum *x, u32 h, u32 v)
{
    evm(B(j), x->narrow ? BCAST_M32 : BCAST_M64, v, 0, G_WARP, SUM_NUMBER(x), x->narrow ? 4 : 8, 0, 0);
    evm(B(j), x->narrow ? VPADDD : VPADDQ, v, v, G_REGS, (s32)(x->base + 64 * h), 64, 0, 0);
}

void sg_jit_sum_first(struct jit *j, const struct sum *x)
{
    alu_mem(B(j), true, 0x8b, RAX, G_WARP, SUM_NUMBER(x));
    alu_mem(B(j), true, 0x03, RAX, G_REGS, (s32)x->base);
}

void sg_jit_sums_save(struct jit *j, const struct sum *sums, u32 n)
{
    for (u32 i = 0; i < n; i++)
        for (u32 h = 0; h < 4; h++) {
            if (!(sums[i].unsaved >> h & 1))
                continue;
            sg_jit_sum_lanes(j, &sums[i], h, V_SCRATCH - 1);
            evm(B(j), (struct vop){M0F, P66, 1, 0x7f}, V_SCRATCH - 1, 0, G_REGS, (s32)(sums[i].key + 64 * h),
                64, 0, 0);
        }
}

#endif

/* SPDX-License-Identifier: MIT */
/* AVX2: loads, stores, broadcasts, moves of halves, gathers and scatters. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

static void lower_load(struct buf *b, const struct vinsn *x)
{
    for (u32 h = 0; h < 2; h++) {
        const struct rm m = sg_avx2_rm(b, x, h);

        v256(b, LOAD, x->k ? T0 : sg_avx2_put(b, x->reg, h), 0, m);
        if (x->k)
            sg_avx2_merge(b, x, x->reg, h);
        sg_avx2_unlock(b);
    }
}

/* Under a mask: only to the register file, which no other thread uses. */
static bool lower_store(struct buf *b, const struct vinsn *x)
{
    const u32 size = x->o.w ? 8 : 4;

    if (x->k && x->rm != RBX)
        return false;
    if (x->k)
        sg_avx2_mask_lanes(b, x->k, size);
    for (u32 h = 0; h < 2; h++) {
        const struct rm to = MEM_AT(x->rm, x->disp + (s32)(32 * h));
        u32 a = sg_avx2_get(b, x->reg, h);

        if (x->k) {
            v256(b, LOAD, T0, 0, to);
            v256i(b, BLENDV(size), T0, T0, REG(a), sg_avx2_get(b, AVX2_MASKS + x->k, h) << 4);
            a = T0;
        }
        v256(b, STORE_OP, a, 0, to);
        sg_avx2_unlock(b);
    }
    return true;
}

/* From a general register, from the first lane of a register, or from memory. */
static void lower_broadcast(struct buf *b, const struct vinsn *x, bool general, bool wide)
{
    const struct vop o = OP(M38, P66, 0, wide ? 0x59 : 0x58);

    if (general)
        sg_avx2_vex(b, OP(M0F, P66, wide, 0x6e), false, T0, 0, REG(x->rm)); /* movd, movq */
    v256(b, o, T0, 0, general ? REG(T0) : x->memory ? MEM_AT(x->rm, x->disp) : sg_avx2_operand(b, x->rm, 0));
    for (u32 h = 0; h < 2 && !x->k; h++)
        v256(b, LOAD, sg_avx2_put(b, x->reg, h), 0, REG(T0));
    for (u32 h = 0; h < 2 && x->k; h++)
        sg_avx2_merge(b, x, x->reg, h);
}

/* The first lane of reg to a general register or to memory. */
static bool first_lane(struct buf *b, const struct vinsn *x)
{
    const struct rm from = sg_avx2_operand(b, x->reg, 0);

    if (x->memory) {
        sg_avx2_vex(b, OP(M0F, P66, x->o.w, 0x7e), false, sg_avx2_get(b, x->reg, 0), 0,
                    MEM_AT(x->rm, x->disp));
        return true;
    }
    if (from.memory)
        sg_avx2_general(b, x->o.w, false, 0x8b, x->rm, from);
    else
        sg_avx2_vex(b, OP(M0F, P66, x->o.w, 0x7e), false, from.reg, 0, REG(x->rm));
    return true;
}

/* Parts of 128 bits within one register: the pairs, or the halves, in the other order. */
static bool swap_parts(struct buf *b, const struct vinsn *x)
{
    if (x->memory || x->k || x->vv != x->rm || (x->imm != 0xb1 && x->imm != 0x4e))
        return false;
    for (u32 h = 0; h < 2 && x->imm == 0xb1; h++) {
        const struct rm m = sg_avx2_operand(b, x->rm, h);

        v256i(b, PERMQ, sg_avx2_put(b, x->reg, h), 0, m, 0x4e);
    }
    if (x->imm == 0x4e) {
        v256(b, LOAD, T0, 0, sg_avx2_operand(b, x->rm, 0));
        v256(b, LOAD, T1, 0, sg_avx2_operand(b, x->rm, 1));
        v256(b, LOAD, sg_avx2_put(b, x->reg, 0), 0, REG(T1));
        v256(b, LOAD, sg_avx2_put(b, x->reg, 1), 0, REG(T0));
    }
    return true;
}

/* reg: vv with rm as its upper half; rm: the upper half of reg. */
static bool insert_half(struct buf *b, const struct vinsn *x)
{
    if (x->memory || x->k || x->imm != 1)
        return false;
    v256(b, LOAD, T1, 0, sg_avx2_operand(b, x->rm, 0));
    if (x->reg != x->vv) {
        const struct rm low = sg_avx2_operand(b, x->vv, 0);

        v256(b, LOAD, sg_avx2_put(b, x->reg, 0), 0, low);
    }
    v256(b, LOAD, sg_avx2_put(b, x->reg, 1), 0, REG(T1));
    return true;
}

static bool extract_half(struct buf *b, const struct vinsn *x)
{
    const struct rm m = sg_avx2_operand(b, x->reg, 1);

    if (x->memory || x->k || x->imm != 1)
        return false;
    v256(b, LOAD, sg_avx2_put(b, x->rm, 0), 0, m);
    return true;
}

/* The last four words of reg: the first of rm. */
static bool extract_quarter(struct buf *b, const struct vinsn *x)
{
    const u32 a = sg_avx2_get(b, x->reg, 1);

    if (x->memory || x->k || x->imm != 3)
        return false;
    v256i(b, UPPER128, a, 0, REG(sg_avx2_put(b, x->rm, 0)), 1);
    return true;
}

/* ---- gathers ---- */

/* Mask T1 of the lanes of half h; `quarter`: four lanes of 32 bits, for indices of 64. */
static void gather_mask(struct buf *b, const struct vinsn *x, u32 h, bool quarter)
{
    const u32 v = AVX2_MASKS + x->k;

    if (b->avx2->mask[x->k].state == AVX2_ONES) {
        sg_avx2_ones(b, T1);
        return;
    }
    if (!quarter) {
        v256(b, LOAD, T1, 0, sg_avx2_operand(b, v, h));
        return;
    }
    v256(b, LOAD, T1, 0, sg_avx2_operand(b, v, 0));
    if (h)
        v256i(b, UPPER128, T1, 0, REG(T1), 1);
}

/* 0x90 of 32-bit indices, 0x91 of 64-bit; o.w: elements of 64 bits. */
static bool lower_gather(struct buf *b, const struct vinsn *x)
{
    const bool quarter = x->o.op == 0x91 && !x->o.w;

    if (x->o.op == 0x90 && x->o.w)
        return false;
    if (b->avx2->mask[x->k].state != AVX2_ONES)
        sg_avx2_mask_lanes(b, x->k, x->o.w ? 8 : 4);
    for (u32 h = 0; h < 2; h++) {
        const u32 index = sg_avx2_get(b, x->vv, h), d = quarter && h ? T2 : T0;

        gather_mask(b, x, h, quarter);
        v256(b, PXOR, d, d, REG(d));
        sg_avx2_vsib(b, x->o, d, T1, x->rm, index, x->disp, x->no_base);
        if (!quarter)
            v256(b, LOAD, sg_avx2_put(b, x->reg, h), 0, REG(T0));
        sg_avx2_unlock(b);
    }
    if (quarter)
        v256i(b, INSERT128, sg_avx2_put(b, x->reg, 0), T0, REG(T2), 1);
    sg_avx2_mask_is(b, x->k, AVX2_ZERO, 0); /* as the instruction leaves it */
    return true;
}

/* 32 bits each, in ascending order. */
static bool lower_scatter(struct buf *b, const struct vinsn *x)
{
    const bool narrow = x->o.op == 0xa0, all = b->avx2->mask[x->k].state == AVX2_ONES;
    const u32 n = narrow ? 16 : 8;

    if (x->o.w)
        return false;
    if (!all) {
        sg_avx2_mask_bits(b, x->k);
        alu_reg(b, false, 0x89, R9, R10);
    }
    for (u32 i = 0; i < n; i++) {
        const u32 per = narrow ? 8 : 4;
        struct rm at = sg_avx2_in_memory(b, x->vv, i / per), from = sg_avx2_in_memory(b, x->reg, i / 8);
        size_t skip = 0;

        at.disp += (s32)((narrow ? 4 : 8) * (i % per));
        from.disp += (s32)(4 * (i % 8));
        if (!all)
            skip = sg_avx2_if_bit(b, R9, i);
        sg_avx2_general(b, true, false, narrow ? 0x63 : 0x8b, R10, at); /* movsxd, mov */
        sg_avx2_general(b, false, false, 0x8b, R11, from);
        if (!x->no_base)
            alu_reg(b, true, 0x01, R10, x->rm);
        sg_avx2_general(b, false, false, 0x89, R11, MEM_AT(R10, x->disp));
        if (skip)
            sg_avx2_bit_end(b, skip);
    }
    sg_avx2_mask_is(b, x->k, AVX2_ZERO, 0);
    return true;
}

/* ---- for the emitters ---- */

void sg_avx2_deinterleave(struct buf *b, u32 even, u32 odd, u32 a, u32 c)
{
    const u32 from[2] = {a, c};

    for (u32 h = 0; h < 2; h++) {
        sg_avx2_unlock(b);
        v256(b, LOAD, T0, 0, sg_avx2_operand(b, from[h], 0));
        v256i(b, OP(M0F, PNONE, 0, 0xc6), T1, T0, sg_avx2_operand(b, from[h], 1), 0x88);
        v256i(b, OP(M0F, PNONE, 0, 0xc6), T2, T0, sg_avx2_operand(b, from[h], 1), 0xdd);
        v256i(b, PERMQ, sg_avx2_put(b, even, h), 0, REG(T1), 0xd8);
        v256i(b, PERMQ, sg_avx2_put(b, odd, h), 0, REG(T2), 0xd8);
    }
    sg_avx2_unlock(b);
}

size_t sg_avx2_pattern(struct buf *b, u32 v)
{
    const u32 d = sg_avx2_put(b, v, 0), e = sg_avx2_put(b, v, 1);
    size_t at;

    put8(b, 0xc4); /* vbroadcasti128 d, [rip + distance] */
    put8(b, (u32)(!(d & 8)) << 7 | 0x60 | M38);
    put8(b, 0x7c | P66);
    put8(b, 0x5a);
    put8(b, (d & 7) << 3 | 5);
    at = b->n;
    put32(b, 0);
    v256(b, LOAD, e, 0, REG(d));
    sg_avx2_unlock(b);
    return at;
}

bool sg_avx2_move_op(struct buf *b, const struct vinsn *x)
{
    switch (sg_avx2_key(x->o)) {
    case IS(M0F, P66, 0x6f):
    case IS(M0F, PF3, 0x6f):
        lower_load(b, x);
        return !(x->flags & EV_XMM);
    case IS(M0F, P66, 0x7f):
    case IS(M0F, PF3, 0x7f):
        return x->memory && lower_store(b, x);
    case IS(M38, P66, 0x7c):
        lower_broadcast(b, x, true, x->o.w);
        return true;
    case IS(M38, P66, 0x58):
    case IS(M38, P66, 0x59):
        lower_broadcast(b, x, false, x->o.op == 0x59);
        return true;
    case IS(M0F, P66, 0x7e):
        return first_lane(b, x);
    case IS(M3A, P66, 0x43):
        return swap_parts(b, x);
    case IS(M3A, P66, 0x3a):
        return insert_half(b, x);
    case IS(M3A, P66, 0x3b):
        return extract_half(b, x);
    case IS(M3A, P66, 0x39):
        return extract_quarter(b, x);
    case IS(M3A, P66, 0x16): /* pextrd to memory */
        if (!x->memory)
            return false;
        sg_avx2_vex(b, OP(M3A, P66, 0, 0x16), false, sg_avx2_get(b, x->reg, 0), 0, MEM_AT(x->rm, x->disp));
        put8(b, (u32)x->imm);
        return true;
    case IS(M38, P66, 0x90):
    case IS(M38, P66, 0x91):
        return lower_gather(b, x);
    case IS(M38, P66, 0xa0):
    case IS(M38, P66, 0xa1):
        return lower_scatter(b, x);
    default:
        return false;
    }
}

#endif

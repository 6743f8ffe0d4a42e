/* SPDX-License-Identifier: MIT */
/*
 * AVX2: mask registers. A comparison makes a vector of all-ones lanes, which blends use directly; a mask
 * that is loaded, or combined with masks for another lane size, is a bit mask.
 */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

#define BITS4(i) 1u << (i), 2u << (i), 4u << (i), 8u << (i)
static const u32 bits_d[16] __attribute__((aligned(64))) = {BITS4(0), BITS4(4), BITS4(8), BITS4(12)};
static const u64 bits_q[8] __attribute__((aligned(64))) = {BITS4(0), BITS4(4)};

void sg_avx2_mask_is(struct buf *b, u32 k, enum avx2_mask state, u32 size)
{
    b->avx2->mask[k & 7].state = (u8)state;
    b->avx2->mask[k & 7].size = (u8)size;
}

static void bits_at(struct buf *b, u32 k, u32 size, u32 base, s32 disp)
{
    sg_avx2_mask_is(b, k, AVX2_BITS, size);
    b->avx2->mask[k & 7].at = (struct avx2_memory){base, disp};
}

/* The bits in R10 become mask k. */
static void from_r10(struct buf *b, u32 k)
{
    bits_at(b, k, 4, AVX2_FRAME, AVX2_BITS_AT(k));
    sg_avx2_general(b, false, false, 0x89, R10, MEM_AT(AVX2_FRAME, AVX2_BITS_AT(k)));
}

void sg_avx2_mask_bits(struct buf *b, u32 k)
{
    const u32 size = b->avx2->mask[k].size, v = AVX2_MASKS + k;
    const struct avx2_memory at = b->avx2->mask[k].at;

    switch (b->avx2->mask[k].state) {
    case AVX2_ZERO:
        mov_imm64(b, R10, 0);
        return;
    case AVX2_ONES:
        mov_imm64(b, R10, 0xffff);
        return;
    case AVX2_BITS: /* mov, movzx */
        sg_avx2_general(b, false, size < 4,
                        size == 4   ? 0x8b
                        : size == 2 ? 0xb7
                                    : 0xb6,
                        R10, MEM_AT(at.base, at.disp));
        return;
    case AVX2_LANES:
        if (size < 4)
            break;
        sg_avx2_unlock(b);
        /* vmovmskps, vmovmskpd */
        v256(b, OP(M0F, size == 8 ? P66 : PNONE, 0, 0x50), R10, 0, REG(sg_avx2_get(b, v, 0)));
        v256(b, OP(M0F, size == 8 ? P66 : PNONE, 0, 0x50), R11, 0, REG(sg_avx2_get(b, v, 1)));
        rex(b, false, 0, R11); /* shl r11d, number of lanes of a half */
        put8(b, 0xc1);
        put8(b, 0xe0 | (R11 & 7));
        put8(b, 32 / size);
        alu_reg(b, false, 0x09, R10, R11);
        return;
    default:
        break;
    }
    b->failed = true;
}

size_t sg_avx2_if_bit(struct buf *b, u32 reg, u32 i)
{
    sg_avx2_general(b, false, true, 0xba, 4, REG(reg)); /* bt reg, i */
    put8(b, i);
    put8(b, 0x73); /* jnc */
    put8(b, 0);
    return b->n;
}

void sg_avx2_bit_end(struct buf *b, size_t at)
{
    b->failed |= b->n - at > INT8_MAX;
    if (!b->failed)
        b->p[at - 1] = (u8)(b->n - at);
}

/* Bits in memory to lanes of `size` bytes. */
static void expand_mask(struct buf *b, u32 k, u32 size)
{
    const struct avx2_memory at = b->avx2->mask[k].at;
    const bool byte = b->avx2->mask[k].size == 1;

    /* vpbroadcastb, vpbroadcastw */
    v256(b, OP(M38, P66, 0, byte ? 0x78 : 0x79), T2, 0, MEM_AT(at.base, at.disp));
    sg_avx2_point(b, R11, size == 8 ? (const void *)bits_q : (const void *)bits_d);
    for (u32 h = 0; h < 2; h++) {
        const u32 d = sg_avx2_put(b, AVX2_MASKS + k, h);

        v256(b, PAND, d, T2, MEM_AT(R11, (s32)(32 * h)));
        v256(b, size == 8 ? PCMPEQQ : PCMPEQD, d, d, MEM_AT(R11, (s32)(32 * h)));
    }
    sg_avx2_mask_is(b, k, AVX2_LANES, size);
}

void sg_avx2_mask_lanes(struct buf *b, u32 k, u32 size)
{
    const u32 state = b->avx2->mask[k].state;

    if (state == AVX2_LANES && b->avx2->mask[k].size == size)
        return;
    if (size < 4) {
        b->failed = true;
        return;
    }
    if (state == AVX2_LANES) {
        sg_avx2_mask_bits(b, k);
        from_r10(b, k);
    }
    if (b->avx2->mask[k].state == AVX2_BITS) {
        expand_mask(b, k, size);
        return;
    }
    b->failed |= state != AVX2_ONES && state != AVX2_ZERO;
    for (u32 h = 0; h < 2; h++) {
        const u32 d = sg_avx2_put(b, AVX2_MASKS + k, h);

        v256(b, state == AVX2_ONES ? PCMPEQD : PXOR, d, d, REG(d));
    }
    sg_avx2_mask_is(b, k, AVX2_LANES, size);
}

/* k = x | y */
static void mask_or(struct buf *b, u32 k, u32 x, u32 y)
{
    struct avx2 *a = b->avx2;

    if (a->mask[x].state == AVX2_LANES && a->mask[y].state == AVX2_ZERO) {
        mask_or(b, k, y, x);
        return;
    }
    if (a->mask[y].state == AVX2_LANES && a->mask[y].size >= 4 &&
        (a->mask[x].state == AVX2_ZERO ||
         (a->mask[x].state == AVX2_LANES && a->mask[x].size == a->mask[y].size))) {
        const bool copy = a->mask[x].state == AVX2_ZERO;

        for (u32 h = 0; h < 2; h++) {
            const u32 from = sg_avx2_get(b, AVX2_MASKS + y, h),
                      with = copy ? from : sg_avx2_get(b, AVX2_MASKS + x, h);

            v256(b, POR, sg_avx2_put(b, AVX2_MASKS + k, h), with, REG(from));
        }
        sg_avx2_mask_is(b, k, AVX2_LANES, a->mask[y].size);
        return;
    }
    sg_avx2_mask_bits(b, x);
    alu_reg(b, false, 0x89, R9, R10);
    sg_avx2_mask_bits(b, y);
    alu_reg(b, false, 0x09, R10, R9);
    from_r10(b, k);
}

/* k = x, with n bits, above y */
static void unpack_masks(struct buf *b, u32 k, u32 x, u32 y, u32 n)
{
    sg_avx2_mask_bits(b, x);
    alu_reg(b, false, 0x89, R9, R10);
    rex(b, false, 0, R9); /* shl r9d, n */
    put8(b, 0xc1);
    put8(b, 0xe0 | (R9 & 7));
    put8(b, n);
    sg_avx2_mask_bits(b, y);
    alu_reg(b, false, 0x09, R10, R9);
    from_r10(b, k);
}

static bool mask_op(struct buf *b, u32 pp, bool w, u32 op, u32 reg, u32 vv, u32 rm)
{
    sg_avx2_unlock(b);
    switch (op) {
    case 0x46: /* kxnor, of a register with itself */
        sg_avx2_mask_is(b, reg, AVX2_ONES, 0);
        return vv == rm;
    case 0x47: /* kxor */
        sg_avx2_mask_is(b, reg, AVX2_ZERO, 0);
        return vv == rm;
    case 0x45: /* korw */
        mask_or(b, reg, vv, rm);
        return true;
    case 0x98: /* kortestw, kortestb */
        b->avx2->test.a = (u8)reg;
        b->avx2->test.b = (u8)rm;
        b->avx2->test.lanes = pp == P66 ? 8 : 16;
        return !w;
    case 0x4b: /* kunpckbw, kunpckwd */
        unpack_masks(b, reg, vv, rm, pp == P66 ? 8 : 16);
        return true;
    case 0x92: /* kmovw, kmovd from a general register */
        alu_reg(b, false, 0x89, R10, rm);
        from_r10(b, reg);
        return true;
    case 0x93: /* kmovd to a general register */
        sg_avx2_mask_bits(b, rm);
        alu_reg(b, false, 0x89, reg, R10);
        return true;
    default:
        return false;
    }
}

static bool mask_move(struct buf *b, u32 pp, bool w, u32 op, u32 k, u32 base, s32 disp)
{
    const u32 size = w ? pp == P66 ? 4 : 8 : pp == P66 ? 1 : 2;

    if (size == 8)
        return false;
    if (op == 0x90) {
        bits_at(b, k, size, base, disp);
        return true;
    }
    sg_avx2_unlock(b);
    sg_avx2_mask_bits(b, k);
    if (size == 2)
        put8(b, 0x66);
    sg_avx2_general(b, false, false, size == 1 ? 0x88 : 0x89, R10, MEM_AT(base, disp));
    return op == 0x91;
}

void sg_avx2_mask_insn(struct buf *b, u32 pp, bool w, u32 op, u32 reg, u32 vv, u32 rm)
{
    b->failed |= !mask_op(b, pp, w, op, reg, vv, rm);
}

void sg_avx2_mask_memory(struct buf *b, u32 pp, bool w, u32 op, u32 k, u32 base, s32 disp)
{
    b->failed |= !mask_move(b, pp, w, op, k, base, disp);
}

/* ---- jumps (jit/x86.h) ---- */

/* Flags of kortest: zero: no lane of a or b; carry: all lanes of a. Both are wanted as 0 lanes:
   as `test`, `cmp` set them. Returns the condition to jump on. */
static u32 test_masks(struct buf *b, u32 cond)
{
    struct avx2 *a = b->avx2;
    const u32 x = a->test.a, y = a->test.b, size = 64u / a->test.lanes;
    const bool all = cond == JAE || cond == JB;
    u32 lo, hi;

    b->failed |= !all && cond != JE && cond != JNE;
    b->failed |= all && x != y;
    if (a->mask[x].state == AVX2_LANES && a->mask[y].state == AVX2_LANES &&
        (!all || a->mask[x].size == size)) {
        sg_avx2_unlock(b);
        lo = sg_avx2_get(b, AVX2_MASKS + x, 0);
        hi = sg_avx2_get(b, AVX2_MASKS + x, 1);
        v256(b, all ? PAND : POR, T0, lo, REG(hi));
        for (u32 h = 0; h < 2 && x != y; h++)
            v256(b, POR, T0, T0, sg_avx2_operand(b, AVX2_MASKS + y, h));
        if (all)
            sg_avx2_ones(b, T1);
        v256(b, OP(M38, P66, 0, 0x17), T0, 0, REG(all ? T1 : T0)); /* vptest */
        return cond;
    }
    if (x != y) {
        sg_avx2_mask_bits(b, y);
        alu_reg(b, false, 0x89, R9, R10);
    }
    sg_avx2_mask_bits(b, x);
    if (x != y)
        alu_reg(b, false, 0x09, R10, R9);
    if (!all) {
        alu_reg(b, false, 0x85, R10, R10);
        return cond;
    }
    alu_imm(b, false, 7, R10, (1u << a->test.lanes) - 1);
    return cond == JAE ? JNE : JE;
}

u32 sg_avx2_test(struct buf *b, u32 cond)
{
    if (b->avx2->test.lanes) {
        cond = test_masks(b, cond);
        b->avx2->test.lanes = 0;
    }
    return cond;
}

u32 sg_avx2_jump(struct buf *b, u32 cond)
{
    sg_avx2_flush(b);
    return sg_avx2_test(b, cond);
}

#endif

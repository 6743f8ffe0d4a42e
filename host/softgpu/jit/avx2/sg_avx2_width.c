/* SPDX-License-Identifier: MIT */
/* AVX2: conversions between lanes of different widths, which move values between the halves. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

/* The lower half of rm, twice as wide: reg. */
static void lower_widen(struct buf *b, const struct vinsn *x, struct vop o)
{
    struct rm upper = sg_avx2_part(b, x->rm, 0, true, T0), lower = sg_avx2_part(b, x->rm, 0, false, T0);

    v256(b, o, T1, 0, upper);
    v256(b, o, sg_avx2_put(b, x->reg, 0), 0, lower);
    v256(b, LOAD, sg_avx2_put(b, x->reg, 1), 0, REG(T1));
}

/* The low words of lanes of 64 bits in T0 and T1: the lower half of register v. */
static void low_words(struct buf *b, u32 v)
{
    v256i(b, OP(M0F, PNONE, 0, 0xc6), T0, T0, REG(T1), 0x88); /* shufps */
    v256i(b, PERMQ, sg_avx2_put(b, v, 0), 0, REG(T0), 0xd8);
}

static void narrow64(struct buf *b, const struct vinsn *x, bool saturate)
{
    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_avx2_get(b, x->reg, h);

        if (!saturate) {
            v256(b, LOAD, T0 + h, 0, REG(a));
            continue;
        }
        v256(b, PXOR, T2, T2, REG(T2));
        v256i(b, SHIFT_QI, 2, T3, REG(a), 32);
        v256(b, PCMPEQQ, T2, T2, REG(T3));
        sg_avx2_ones(b, T3);
        v256(b, PXOR, T2, T2, REG(T3)); /* too large */
        v256(b, POR, T0 + h, a, REG(T2));
    }
    low_words(b, x->rm);
}

/* The low halves of 16 lanes of 32 bits: T0. */
static void low_halves(struct buf *b, const struct vinsn *x)
{
    sg_avx2_ones(b, T2);
    v256i(b, SHIFT_DI, 2, T2, REG(T2), 16);
    v256(b, PAND, T0, T2, sg_avx2_operand(b, x->reg, 0));
    v256(b, PAND, T1, T2, sg_avx2_operand(b, x->reg, 1));
    v256(b, OP(M38, P66, 0, 0x2b), T0, T0, REG(T1)); /* packusdw */
    v256i(b, PERMQ, T0, 0, REG(T0), 0xd8);
}

/* The low bytes of 16 lanes of 32 bits: the lower 16 bytes of T0. */
static void low_bytes(struct buf *b, const struct vinsn *x)
{
    low_halves(b, x);
    sg_avx2_ones(b, T2);
    v256i(b, OP(M0F, P66, 0, 0x71), 2, T2, REG(T2), 8); /* psrlw */
    v256(b, PAND, T0, T0, REG(T2));
    v256i(b, UPPER128, T0, 0, REG(T1), 1);
    sg_avx2_vex(b, OP(M0F, P66, 0, 0x67), false, T0, T0, REG(T1)); /* packuswb */
}

/* Elements of 8 or 16 bits in T0 to memory, in the lanes of x->k. */
static void store_small(struct buf *b, const struct vinsn *x, u32 size)
{
    if (!x->k) {
        sg_avx2_vex(b, STORE_OP, size == 2, T0, 0, MEM_AT(x->rm, x->disp));
        return;
    }
    sg_avx2_vex(b, STORE_OP, size == 2, T0, 0, MEM_AT(AVX2_FRAME, AVX2_WORDS_AT));
    sg_avx2_mask_bits(b, x->k);
    for (u32 i = 0; i < 16; i++) {
        const size_t skip = sg_avx2_if_bit(b, R10, i);

        sg_avx2_general(b, false, true, size == 2 ? 0xb7 : 0xb6, R11,
                        MEM_AT(AVX2_FRAME, AVX2_WORDS_AT + (s32)(size * i)));
        if (size == 2)
            put8(b, 0x66);
        sg_avx2_general(b, false, false, size == 2 ? 0x89 : 0x88, R11,
                        MEM_AT(x->rm, x->disp + (s32)(size * i)));
        sg_avx2_bit_end(b, skip);
    }
}

/* Halves of f32: the lower half of rm. */
static void to_half(struct buf *b, const struct vinsn *x)
{
    const struct vop cvt = OP(M3A, P66, 0, 0x1d);

    v256i(b, cvt, sg_avx2_get(b, x->reg, 0), 0, REG(T0), (u32)x->imm);
    v256i(b, cvt, sg_avx2_get(b, x->reg, 1), 0, REG(T1), (u32)x->imm);
    v256i(b, INSERT128, sg_avx2_put(b, x->rm, 0), T0, REG(T1), 1);
}

static void to_f32(struct buf *b, const struct vinsn *x)
{
    const struct vop cvt = OP(M0F, P66, 0, 0x5a);
    const struct rm lo = sg_avx2_rm(b, x, 0), hi = sg_avx2_rm(b, x, 1);

    v256(b, cvt, T0, 0, lo);
    v256(b, cvt, T1, 0, hi);
    v256i(b, INSERT128, sg_avx2_put(b, x->reg, 0), T0, REG(T1), 1);
}

/* ---- 32-bit integers and f64 ---- */

static const double two32 = 0x1p32, two52 = 0x1p52;

/* T3: a number in every lane. */
static void broadcast_number(struct buf *b, const double *number)
{
    sg_avx2_point(b, R11, number);
    v256(b, OP(M38, P66, 0, 0x59), T3, 0, MEM_AT(R11, 0)); /* vpbroadcastq */
}

/* Unsigned: as the fraction of 2^52, less 2^52. */
static void u32_to_f64(struct buf *b, const struct vinsn *x)
{
    lower_widen(b, x, OP(M38, P66, 0, 0x35));
    broadcast_number(b, &two52);
    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_avx2_get(b, x->reg, h), d = sg_avx2_put(b, x->reg, h);

        v256(b, POR, d, a, REG(T3));
        v256(b, OP(M0F, P66, 0, 0x5c), d, d, REG(T3)); /* subpd */
    }
}

/* Towards 0, signed; too large values become INT_MIN, as with AVX-512. */
static void f64_to_s32(struct buf *b, const struct vinsn *x)
{
    for (u32 h = 0; h < 2; h++) /* cvttpd2dq: 16 bytes */
        v256(b, OP(M0F, P66, 0, 0xe6), T0 + h, 0, sg_avx2_operand(b, x->rm, h));
    v256i(b, INSERT128, sg_avx2_put(b, x->reg, 0), T0, REG(T1), 1);
}

/* Towards 0, unsigned, for numbers from 0 on and NaN; too large values and NaN become all ones. */
static void f64_to_u32(struct buf *b, const struct vinsn *x)
{
    const struct vop roundpd = OP(M3A, P66, 0, 0x09), cmppd = OP(M0F, P66, 0, 0xc2),
                     addpd = OP(M0F, P66, 0, 0x58);

    for (u32 h = 0; h < 2; h++) {
        v256i(b, roundpd, T0 + h, 0, sg_avx2_operand(b, x->rm, h), 0x0b);
        broadcast_number(b, &two32);
        v256i(b, cmppd, T2, T0 + h, REG(T3), 0x15); /* not less */
        broadcast_number(b, &two52);
        v256(b, addpd, T0 + h, T0 + h, REG(T3));
        v256(b, POR, T0 + h, T0 + h, REG(T2));
    }
    low_words(b, x->reg);
}

bool sg_avx2_width_op(struct buf *b, const struct vinsn *x)
{
    const u32 key = sg_avx2_key(x->o);

    switch (key) {
    case IS(M38, P66, 0x35): /* pmovzxdq, pmovsxdq, pmovzxwd, cvtph2ps, cvtps2pd */
    case IS(M38, P66, 0x25):
    case IS(M38, P66, 0x33):
    case IS(M38, P66, 0x13):
    case IS(M0F, PNONE, 0x5a):
        if (x->memory || x->k)
            return false;
        lower_widen(b, x, OP(x->o.map, x->o.pp, 0, x->o.op));
        return true;
    case IS(M0F, PF3, 0xe6): /* cvtdq2pd, vcvtudq2pd */
    case IS(M0F, PF3, 0x7a):
        if (x->memory || x->k || x->o.w)
            return false;
        if (x->o.op == 0x7a)
            u32_to_f64(b, x);
        else
            lower_widen(b, x, x->o);
        return true;
    case IS(M0F, P66, 0xe6): /* cvttpd2dq, vcvttpd2udq */
    case IS(M0F, PNONE, 0x78):
        if (x->memory || x->k || (x->o.op == 0x78 && !x->o.w))
            return false;
        if (x->o.op == 0x78)
            f64_to_u32(b, x);
        else
            f64_to_s32(b, x);
        return true;
    case IS(M38, PF3, 0x35): /* vpmovqd, vpmovusqd */
    case IS(M38, PF3, 0x15):
        if (x->memory || x->k)
            return false;
        narrow64(b, x, x->o.op == 0x15);
        return true;
    case IS(M38, PF3, 0x33): /* vpmovdw */
        low_halves(b, x);
        if (x->memory)
            store_small(b, x, 2);
        else
            v256(b, LOAD, sg_avx2_put(b, x->rm, 0), 0, REG(T0));
        return x->memory || !x->k;
    case IS(M38, PF3, 0x31): /* vpmovdb */
        if (!x->memory)
            return false;
        low_bytes(b, x);
        store_small(b, x, 1);
        return true;
    case IS(M3A, P66, 0x1d):
        if (x->memory || x->k)
            return false;
        to_half(b, x);
        return true;
    case IS(M0F, P66, 0x5a):
        to_f32(b, x);
        return !x->k;
    default:
        return false;
    }
}

#endif

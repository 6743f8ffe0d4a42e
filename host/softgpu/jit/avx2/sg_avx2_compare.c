/* SPDX-License-Identifier: MIT */
/* AVX2: comparisons into masks, and blends by masks. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

/* Mask reg, half h, from T0, or (negated) its complement; under mask k: and k. `mask`: half h of k. */
static void put_mask(struct buf *b, const struct vinsn *x, u32 h, bool negated, u32 mask)
{
    const u32 v = AVX2_MASKS + (x->reg & 7);

    if (x->k) {
        if (negated)
            v256(b, PANDN, sg_avx2_put(b, v, h), T0, REG(mask));
        else
            v256(b, PAND, sg_avx2_put(b, v, h), T0, REG(mask));
        return;
    }
    if (!negated) {
        v256(b, LOAD, sg_avx2_put(b, v, h), 0, REG(T0));
        return;
    }
    sg_avx2_ones(b, T1);
    v256(b, PXOR, sg_avx2_put(b, v, h), T0, REG(T1));
}

/* T0: the lanes of integers for which the comparison holds, or (true is returned) does not. */
static bool compare_integers(struct buf *b, const struct vinsn *x, u32 h)
{
    const bool wide = x->o.w, without_sign = x->o.op == 0x1e;
    const struct vop greater = wide ? PCMPGTQ : PCMPGTD;
    const u32 how = (u32)x->imm & 7;
    struct rm m = sg_avx2_rm(b, x, h);
    u32 a = sg_avx2_get(b, x->vv, h);

    if (how == 0 || how == 4) {
        v256(b, wide ? PCMPEQQ : PCMPEQD, T0, a, m);
        return how == 4;
    }
    if (without_sign) {
        sg_avx2_ones(b, T2);
        v256i(b, wide ? SHIFT_QI : SHIFT_DI, 6, T2, REG(T2), wide ? 63 : 31);
        v256(b, PXOR, T0, a, REG(T2));
        v256(b, PXOR, T1, T2, m);
        m = REG(T1);
        a = T0;
    } else if (m.memory) {
        v256(b, LOAD, T1, 0, m);
        m = REG(T1);
    }
    if (how == 1 || how == 5) /* less, not less */
        v256(b, greater, T0, m.reg, REG(a));
    else
        v256(b, greater, T0, a, m);
    return how == 5 || how == 2;
}

static bool compare_half(struct buf *b, const struct vinsn *x, u32 h)
{
    struct rm m;
    u32 a;

    switch (sg_avx2_key(x->o)) {
    case IS(M3A, P66, 0x1e):
    case IS(M3A, P66, 0x1f):
        return compare_integers(b, x, h);
    case IS(M0F, PNONE, 0xc2):
        m = sg_avx2_rm(b, x, h);
        a = sg_avx2_get(b, x->vv, h);
        v256i(b, OP(M0F, PNONE, 0, 0xc2), T0, a, m, (u32)x->imm);
        return false;
    default: /* vptestm, vptestnm */
        m = sg_avx2_rm(b, x, h);
        a = sg_avx2_get(b, x->vv, h);
        v256(b, PAND, T0, a, m);
        v256(b, PXOR, T1, T1, REG(T1));
        v256(b, x->o.w ? PCMPEQQ : PCMPEQD, T0, T0, REG(T1));
        return x->o.pp == P66;
    }
}

static void lower_compare(struct buf *b, const struct vinsn *x)
{
    const u32 size = x->o.w ? 8 : 4;

    if (x->k)
        sg_avx2_mask_lanes(b, x->k, size);
    for (u32 h = 0; h < 2; h++) {
        const bool negated = compare_half(b, x, h);

        put_mask(b, x, h, negated, x->k ? sg_avx2_get(b, AVX2_MASKS + x->k, h) : 0);
        sg_avx2_unlock(b);
    }
    sg_avx2_mask_is(b, x->reg, AVX2_LANES, size);
}

static void lower_blend(struct buf *b, const struct vinsn *x)
{
    const u32 size = x->o.w ? 8 : 4;

    sg_avx2_mask_lanes(b, x->k, size);
    for (u32 h = 0; h < 2; h++) {
        const struct rm m = sg_avx2_rm(b, x, h);
        const u32 a = sg_avx2_get(b, x->vv, h), mask = sg_avx2_get(b, AVX2_MASKS + x->k, h);

        v256i(b, BLENDV(size), sg_avx2_put(b, x->reg, h), a, m, mask << 4);
        sg_avx2_unlock(b);
    }
}

/* The signs of bytes. */
static void byte_signs(struct buf *b, const struct vinsn *x)
{
    for (u32 h = 0; h < 2; h++) {
        const struct rm m = sg_avx2_rm(b, x, h);

        v256(b, PXOR, T0, T0, REG(T0));
        v256(b, OP(M0F, P66, 0, 0x64), sg_avx2_put(b, AVX2_MASKS + (x->reg & 7), h), T0, m); /* pcmpgtb */
        sg_avx2_unlock(b);
    }
    sg_avx2_mask_is(b, x->reg, AVX2_LANES, 1);
}

bool sg_avx2_compare_op(struct buf *b, const struct vinsn *x)
{
    switch (sg_avx2_key(x->o)) {
    case IS(M3A, P66, 0x1e):
    case IS(M3A, P66, 0x1f):
    case IS(M0F, PNONE, 0xc2):
    case IS(M38, P66, 0x27):
    case IS(M38, PF3, 0x27):
        lower_compare(b, x);
        return true;
    case IS(M38, P66, 0x64):
        lower_blend(b, x);
        return true;
    case IS(M38, PF3, 0x29): /* vpmovb2m */
        byte_signs(b, x);
        return true;
    default:
        return false;
    }
}

#endif

/* SPDX-License-Identifier: MIT */
/* AVX2: lowering of instructions that work lane by lane. */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

/* ---- operands ---- */

/* Operand rm in a register: ymm register t if it is in memory. */
static u32 in_register(struct buf *b, const struct vinsn *x, u32 h, u32 t)
{
    const struct rm m = sg_avx2_rm(b, x, h);

    if (!m.memory)
        return m.reg;
    v256(b, LOAD, t, 0, m);
    return t;
}

/* Where half h of the result is computed. */
static u32 result_place(struct buf *b, const struct vinsn *x, u32 v, u32 h)
{
    return x->k ? T0 : sg_avx2_put(b, v, h);
}

static void merge_result(struct buf *b, const struct vinsn *x, u32 v, u32 h)
{
    if (x->k)
        sg_avx2_merge(b, x, v, h);
    sg_avx2_unlock(b);
}

/* ---- instructions that exist ---- */

enum form { NOT = 0, BIN = 1, UN = 2, W = 4, IMM = 8 };

/* BIN: reg = vv op rm; UN: reg = op rm; W: o.w counts; IMM: with an immediate byte. */
static u32 form_of(struct vop o)
{
    switch (sg_avx2_key(o)) {
    case IS(M0F, P66, 0xfe): /* paddd, paddq, psubd, psubq */
    case IS(M0F, P66, 0xd4):
    case IS(M0F, P66, 0xfa):
    case IS(M0F, P66, 0xfb):
    case IS(M0F, P66, 0xdb): /* pand, pandn, por, pxor */
    case IS(M0F, P66, 0xdf):
    case IS(M0F, P66, 0xeb):
    case IS(M0F, P66, 0xef):
    case IS(M0F, P66, 0xf4): /* pmuludq, pmuldq */
    case IS(M38, P66, 0x28):
    case IS(M0F, P66, 0xf5): /* pmaddwd, pmaddubsw */
    case IS(M38, P66, 0x04):
    case IS(M38, P66, 0x00): /* pshufb */
    case IS(M0F, PNONE, 0x58):
    case IS(M0F, PNONE, 0x5c):
    case IS(M0F, PNONE, 0x59):
    case IS(M0F, PNONE, 0x5e):
    case IS(M0F, PNONE, 0x5d):
    case IS(M0F, PNONE, 0x5f):
    case IS(M0F, P66, 0x58): /* the same of f64 */
    case IS(M0F, P66, 0x5c):
    case IS(M0F, P66, 0x59):
    case IS(M0F, P66, 0x5e):
        return BIN;
    case IS(M38, P66, 0x40): /* pmulld, pminsd, pmaxsd, pminud, pmaxud */
    case IS(M38, P66, 0x39):
    case IS(M38, P66, 0x3d):
    case IS(M38, P66, 0x3b):
    case IS(M38, P66, 0x3f):
    case IS(M38, P66, 0x46): /* psravd */
        return o.w ? NOT : BIN;
    case IS(M38, P66, 0x45): /* psrlvd, psllvd, of 64 bits too */
    case IS(M38, P66, 0x47):
        return BIN | W;
    case IS(M38, P66, 0x1e): /* pabsd */
        return o.w ? NOT : UN;
    case IS(M0F, PNONE, 0x51): /* sqrtps, cvtdq2ps, cvttps2dq */
    case IS(M0F, PNONE, 0x5b):
    case IS(M0F, PF3, 0x5b):
        return o.w ? NOT : UN;
    case IS(M0F, P66, 0x70): /* pshufd, permilps */
    case IS(M3A, P66, 0x04):
    case IS(M3A, P66, 0x08): /* roundps for rndscaleps of integers */
        return UN | IMM;
    default:
        return NOT;
    }
}

static void lower_one(struct buf *b, const struct vinsn *x, u32 form)
{
    const struct vop o = OP(x->o.map, x->o.pp, form & W ? x->o.w : 0, x->o.op);

    for (u32 h = 0; h < 2; h++) {
        const struct rm m = sg_avx2_rm(b, x, h);
        const u32 a = form & BIN ? sg_avx2_get(b, x->vv, h) : 0;

        v256(b, o, result_place(b, x, x->reg, h), a, m);
        if (form & IMM)
            put8(b, (u32)x->imm);
        merge_result(b, x, x->reg, h);
    }
}

/* fmadd213 and fmadd231 of f32 and f64: reg is an operand, too. */
static void multiply_add(struct buf *b, const struct vinsn *x)
{
    for (u32 h = 0; h < 2; h++) {
        const struct rm m = sg_avx2_rm(b, x, h);
        const u32 a = sg_avx2_get(b, x->vv, h), d = sg_avx2_get(b, x->reg, h);

        if (x->k)
            v256(b, LOAD, T0, 0, REG(d));
        v256(b, x->o, x->k ? T0 : sg_avx2_put(b, x->reg, h), a, m);
        merge_result(b, x, x->reg, h);
    }
}

/* ---- shifts by an immediate: vv = rm shifted; reg: kind of shift ---- */

static void shift_half(struct buf *b, const struct vinsn *x, u32 d, u32 a)
{
    const u32 n = (u32)x->imm;

    if (x->o.op == 0x72 && x->o.w && x->reg == 4) { /* arithmetic, of 64 bits */
        v256(b, PXOR, T1, T1, REG(T1));
        v256(b, PCMPGTQ, T1, T1, REG(a));
        v256i(b, SHIFT_QI, 6, T1, REG(T1), 64 - n);
        v256i(b, SHIFT_QI, 2, T2, REG(a), n);
        v256(b, POR, d, T1, REG(T2));
    } else if (x->o.op == 0x72 && x->o.w) { /* rotation to the right, of 64 bits */
        v256i(b, SHIFT_QI, 6, T1, REG(a), 64 - n);
        v256i(b, SHIFT_QI, 2, T2, REG(a), n);
        v256(b, POR, d, T1, REG(T2));
    } else {
        v256i(b, OP(M0F, P66, 0, x->o.op), x->reg, d, REG(a), n);
    }
}

static bool lower_shift(struct buf *b, const struct vinsn *x)
{
    if (x->memory || (x->o.op == 0x72 && x->o.w && x->reg != 4 && x->reg != 0) ||
        (x->o.op == 0x72 && !x->o.w && !x->reg))
        return false;
    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_avx2_get(b, x->rm, h);

        shift_half(b, x, result_place(b, x, x->vv, h), a);
        merge_result(b, x, x->vv, h);
    }
    return true;
}

/* ---- sequences ---- */

/* The low 64 bits of products of 64 bits. */
static void mul64(struct buf *b, u32 d, u32 a, struct rm m)
{
    const struct vop pmuludq = OP(M0F, P66, 0, 0xf4), paddd = OP(M0F, P66, 0, 0xfe),
                     paddq = OP(M0F, P66, 0, 0xd4);

    v256i(b, OP(M0F, P66, 0, 0x70), T1, 0, m, 0xb1);
    v256(b, OP(M38, P66, 0, 0x40), T1, T1, REG(a)); /* pmulld: the cross products */
    v256i(b, SHIFT_QI, 2, T2, REG(T1), 32);
    v256(b, paddd, T1, T1, REG(T2));
    v256i(b, SHIFT_QI, 6, T1, REG(T1), 32);
    v256(b, pmuludq, T2, a, m);
    v256(b, paddq, d, T1, REG(T2));
}

/* Minimum and maximum of 64 bits. */
static void minmax64(struct buf *b, const struct vinsn *x, u32 d, u32 a, u32 m)
{
    const bool max = x->o.op & 4, without_sign = x->o.op & 2;

    if (without_sign) {
        sg_avx2_ones(b, T2);
        v256i(b, SHIFT_QI, 6, T2, REG(T2), 63);
        v256(b, PXOR, T0, a, REG(T2));
        v256(b, PXOR, T2, m, REG(T2));
        v256(b, PCMPGTQ, T2, T0, REG(T2));
    } else {
        v256(b, PCMPGTQ, T2, a, REG(m));
    }
    v256i(b, BLENDV(8), d, max ? m : a, REG(max ? a : m), T2 << 4);
}

/* To unsigned integers, of numbers from 0 on. */
static void to_u32(struct buf *b, u32 d, u32 a)
{
    static const u32 two31 = 0x4f000000u, two32 = 0x4f800000u;
    const struct vop cmpps = OP(M0F, PNONE, 0, 0xc2), bcast = OP(M38, P66, 0, 0x18);

    sg_avx2_point(b, R11, &two31);
    v256(b, bcast, T1, 0, MEM_AT(R11, 0));
    v256i(b, cmpps, T2, a, REG(T1), 0x1d);             /* from 2^31 on */
    v256(b, OP(M0F, PNONE, 0, 0x54), T1, T1, REG(T2)); /* andps */
    v256(b, OP(M0F, PNONE, 0, 0x5c), T1, a, REG(T1));  /* subps */
    v256(b, OP(M0F, PF3, 0, 0x5b), T1, 0, REG(T1));    /* cvttps2dq */
    v256i(b, SHIFT_DI, 6, T2, REG(T2), 31);
    v256(b, PXOR, T1, T1, REG(T2));
    sg_avx2_point(b, R11, &two32);
    v256(b, bcast, T2, 0, MEM_AT(R11, 0));
    v256i(b, cmpps, T2, a, REG(T2), 0x1d);
    v256(b, POR, d, T1, REG(T2));
}

/* reg, vv and rm by a table of 8 bits: the tables that are in use. */
static bool ternlog(struct buf *b, u32 imm, u32 d, u32 r, u32 v, struct rm m)
{
    switch (imm) {
    case 0x55: /* not rm */
        sg_avx2_ones(b, T1);
        v256(b, PXOR, d, T1, m);
        return true;
    case 0xf8: /* reg or (vv and rm) */
        v256(b, PAND, T1, v, m);
        v256(b, POR, d, r, REG(T1));
        return true;
    case 0xfe: /* or */
        v256(b, POR, T1, v, m);
        v256(b, POR, d, r, REG(T1));
        return true;
    case 0xb8: /* rm where vv is set, else reg */
        v256(b, PAND, T1, v, m);
        v256(b, PANDN, T2, v, REG(r));
        v256(b, POR, d, T1, REG(T2));
        return true;
    case 0xff:
        sg_avx2_ones(b, d);
        return true;
    case 0xca: /* vv where reg is set, else rm */
        v256(b, PAND, T1, r, REG(v));
        v256(b, PANDN, T2, r, m);
        v256(b, POR, d, T1, REG(T2));
        return true;
    default:
        return false;
    }
}

/* One half of an instruction that takes several. */
static bool lower_sequence(struct buf *b, const struct vinsn *x, u32 h)
{
    struct rm y;
    u32 a, m;

    switch (sg_avx2_key(x->o)) {
    case IS(M38, P66, 0x40):
        y = sg_avx2_rm(b, x, h);
        a = sg_avx2_get(b, x->vv, h);
        mul64(b, result_place(b, x, x->reg, h), a, y);
        return true;
    case IS(M38, P66, 0x39):
    case IS(M38, P66, 0x3d):
    case IS(M38, P66, 0x3b):
    case IS(M38, P66, 0x3f):
        a = sg_avx2_get(b, x->vv, h);
        m = in_register(b, x, h, T1);
        minmax64(b, x, result_place(b, x, x->reg, h), a, m);
        return true;
    case IS(M38, P66, 0x46): /* psravq */
        a = sg_avx2_get(b, x->vv, h);
        v256(b, PXOR, T1, T1, REG(T1));
        v256(b, PCMPGTQ, T1, T1, REG(a));
        v256(b, PXOR, T2, a, REG(T1));
        v256(b, OP(M38, P66, 1, 0x45), T2, T2, sg_avx2_rm(b, x, h));
        v256(b, PXOR, result_place(b, x, x->reg, h), T1, REG(T2));
        return true;
    case IS(M0F, PNONE, 0x78):
        m = in_register(b, x, h, T0);
        to_u32(b, result_place(b, x, x->reg, h), m);
        return true;
    case IS(M3A, P66, 0x25):
        y = sg_avx2_rm(b, x, h);
        a = sg_avx2_get(b, x->vv, h);
        m = sg_avx2_get(b, x->reg, h);
        return ternlog(b, (u32)x->imm, result_place(b, x, x->reg, h), m, a, y);
    case IS(M38, PF3, 0x28): /* vpmovm2b */
        b->failed |= b->avx2->mask[x->rm & 7].state != AVX2_LANES || b->avx2->mask[x->rm & 7].size != 1;
        a = sg_avx2_get(b, AVX2_MASKS + (x->rm & 7), h);
        v256(b, LOAD, sg_avx2_put(b, x->reg, h), 0, REG(a));
        return true;
    default:
        return false;
    }
}

bool sg_avx2_lanes_op(struct buf *b, const struct vinsn *x)
{
    const u32 form = form_of(x->o), key = sg_avx2_key(x->o);

    if (key == IS(M0F, P66, 0xef) && !x->memory && !x->k && x->vv == x->rm) { /* sets 0 */
        for (u32 h = 0; h < 2; h++) {
            const u32 d = sg_avx2_put(b, x->reg, h);

            v256(b, PXOR, d, d, REG(d));
        }
        return true;
    }
    if (form) {
        lower_one(b, x, form);
        return true;
    }
    if (key == IS(M38, P66, 0xa8) || key == IS(M38, P66, 0xb8)) {
        multiply_add(b, x);
        return true;
    }
    if (key == IS(M0F, P66, 0x72) || key == IS(M0F, P66, 0x73) || key == IS(M0F, P66, 0x71))
        return lower_shift(b, x);
    for (u32 h = 0; h < 2; h++) {
        if (!lower_sequence(b, x, h))
            return false;
        merge_result(b, x, x->reg, h);
    }
    return true;
}

void sg_avx2_insn(struct buf *b, const struct vinsn *x)
{
    sg_avx2_unlock(b);
    if ((x->flags & EV_ROUND(0)) || (!sg_avx2_compare_op(b, x) && !sg_avx2_width_op(b, x) &&
                                     !sg_avx2_move_op(b, x) && !sg_avx2_lanes_op(b, x)))
        b->failed = true;
    sg_avx2_unlock(b);
}

#endif

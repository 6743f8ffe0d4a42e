/* SPDX-License-Identifier: MIT */
/* Emitters: integer, logic, shift, compare, select, move (PTX ISA 9.7.1, 9.7.2, 9.7.6 - 9.7.9). */
#include "base/half.h"
#include "ptx/select/select.h"

static int need_type(struct sg_dec *d)
{
    if (sg_ty(d, 0) == SG_TY_NONE)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    return 0;
}

static int emit_addsub(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool c = d->oc.base[strlen(d->oc.base) - 1] == 'c' && strlen(d->oc.base) == 4; /* addc subc */
    bool cc = sg_mod(d, "cc");
    enum sg_op op;

    if (need_type(d))
        return d->err;
    if (sg_type_float(t))
        return sg_flt_arith(d);
    if (t == SG_TY_U16X2 || t == SG_TY_S16X2)
        op = sg_own_op(d, SG_V_PLAIN, SG_TY_U16X2);
    else if ((c || cc) && !sg_mod(d, "sat"))
        op = sg_own_op(d, cc ? SG_V_CC : SG_V_PLAIN, sg_bt(t));
    else if (c || sg_mod(d, "sat"))
        op = sg_own_op(d, SG_V_SAT, sg_su(t));
    else
        op = sg_own_op(d, SG_V_PLAIN, sg_bt32(t));
    return sg_op2(d, op, t, t, t);
}

/* mul.lo, mad.lo: without a sign; the 24-bit forms have a sign */
static enum sg_op low_product(const struct sg_dec *d, enum sg_type t)
{
    return sg_own_op(d, SG_V_LO, d->oc.base[3] == '2' ? sg_su(t) : sg_bt32(t));
}

static int emit_mul(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    enum sg_op op;

    if (need_type(d))
        return d->err;
    if (sg_type_float(t))
        return sg_flt_arith(d);
    if (sg_mod(d, "wide")) {
        if (sg_wider(t) == SG_TY_NONE)
            return sg_dec_syntax(d, "%s: no such type", d->oc.full);
        return sg_op2(d, sg_own_op(d, SG_V_WIDE, sg_su(t)), sg_wider(t), t, t);
    }
    if (sg_mod(d, "hi"))
        op = sg_own_op(d, SG_V_HI, sg_su(t));
    else if (sg_mod(d, "lo"))
        op = low_product(d, t);
    else
        return sg_dec_syntax(d, "%s: .hi, .lo or .wide expected", d->oc.full);
    return sg_op2(d, op, t, t, t);
}

static int emit_mad(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool c = !strcmp(d->oc.base, "madc"), cc = sg_mod(d, "cc"), sat;
    enum sg_op op;

    if (need_type(d))
        return d->err;
    if (sg_type_float(t))
        return sg_flt_arith(d);
    if (sg_mod(d, "wide")) {
        if (sg_wider(t) == SG_TY_NONE || c || cc)
            return sg_dec_syntax(d, "%s: no such form", d->oc.full);
        return sg_op3(d, sg_own_op(d, SG_V_WIDE, sg_su(t)), sg_wider(t), t, t, sg_wider(t));
    }
    if (sg_mod(d, "hi")) {
        sat = sg_mod(d, "sat");
        op = sat && cc ? SG_OP_NONE : sg_own_op(d, sat ? SG_V_HI_SAT : cc ? SG_V_HI_CC : SG_V_HI, sg_su(t));
    } else if (c || cc) {
        sg_mod(d, "lo");
        op = sg_own_op(d, cc ? SG_V_LO_CC : SG_V_LO, sg_bt(t));
    } else if (sg_mod(d, "lo")) {
        op = low_product(d, t);
    } else {
        return sg_dec_syntax(d, "%s: .hi, .lo or .wide expected", d->oc.full);
    }
    return sg_op3(d, op, t, t, t, t);
}

/* div rem min max abs neg sad: the sign matters, a single type */
static int emit_typed(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    enum sg_op op;

    if (need_type(d))
        return d->err;
    if (sg_type_float(t))
        return sg_flt_arith(d);
    op = sg_own_op(d, sg_mod(d, "relu") ? SG_V_RELU : SG_V_PLAIN,
                   t == SG_TY_U16X2 || t == SG_TY_S16X2 ? t : sg_su(t));
    if (d->nops == 2)
        return sg_op1(d, op, t, t);
    if (d->nops == 3)
        return sg_op2(d, op, t, t, t);
    return sg_op3(d, op, t, t, t, t);
}

/* and or xor not cnot */
static int emit_logic(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    enum sg_op op;

    if (need_type(d))
        return d->err;
    op = sg_own_op(d, SG_V_PLAIN, d->oc.base[0] == 'c' ? sg_bt(t) : sg_bt32(t));
    return d->nops == 2 ? sg_op1(d, op, t, t) : sg_op2(d, op, t, t, t);
}

static int emit_shift(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);

    if (need_type(d))
        return d->err;
    return sg_op2(d, sg_own_op(d, SG_V_PLAIN, d->oc.base[2] == 'l' ? sg_bt(t) : sg_su(t)), t, t, SG_TY_U32);
}

static int emit_shf(struct sg_dec *d)
{
    static const enum sg_op ops[2][2] = {{SG_OP_shf_r_wrap, SG_OP_shf_r_clamp},
                                         {SG_OP_shf_l_wrap, SG_OP_shf_l_clamp}};
    bool left = sg_mod(d, "l"), clamp = sg_mod(d, "clamp");

    if (!left && !sg_mod(d, "r"))
        return sg_dec_syntax(d, "%s: .l or .r expected", d->oc.full);
    sg_mod(d, "wrap");
    return sg_op3(d, ops[left][clamp], SG_TY_B32, SG_TY_B32, SG_TY_B32, SG_TY_U32);
}

/* popc clz brev: result type differs from source */
static int emit_count(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);

    if (need_type(d))
        return d->err;
    return sg_op1(d, sg_own_op(d, SG_V_PLAIN, sg_bt(t)), d->oc.base[0] == 'b' ? t : SG_TY_U32, t);
}

static int emit_bfind(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    const enum sg_variant v = sg_mod(d, "shiftamt") ? SG_V_SHIFTAMT : SG_V_PLAIN;

    if (need_type(d))
        return d->err;
    return sg_op1(d, sg_own_op(d, v, sg_su(t)), SG_TY_U32, t);
}

static int emit_bfe(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);

    if (need_type(d))
        return d->err;
    return sg_op3(d, sg_own_op(d, SG_V_PLAIN, sg_su(t)), t, t, SG_TY_U32, SG_TY_U32);
}

static int emit_bfi(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    uint32_t f[5];

    if (need_type(d))
        return d->err;
    f[1] = sg_src(d, 1, t);
    f[2] = sg_src(d, 2, t);
    f[3] = sg_src(d, 3, SG_TY_U32);
    f[4] = sg_src(d, 4, SG_TY_U32);
    f[0] = sg_dst(d, 0, t);
    sg_emit_x(d, sg_own_op(d, SG_V_PLAIN, sg_bt(t)), f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err;
}

static int emit_prmt(struct sg_dec *d)
{
    static const struct {
        const char *mode;
        enum sg_op op;
    } modes[] = {{"f4e", SG_OP_prmt_f4e}, {"b4e", SG_OP_prmt_b4e}, {"rc8", SG_OP_prmt_rc8},
                 {"ecl", SG_OP_prmt_ecl}, {"ecr", SG_OP_prmt_ecr}, {"rc16", SG_OP_prmt_rc16}};
    enum sg_op op = SG_OP_prmt_b32;

    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
        if (sg_mod(d, modes[i].mode))
            op = modes[i].op;
    return sg_op3(d, op, SG_TY_B32, SG_TY_B32, SG_TY_B32, SG_TY_B32);
}

static int emit_lop3(struct sg_dec *d)
{
    const enum sg_op bop = sg_mod(d, "and") ? SG_OP_and_pred : sg_mod(d, "or") ? SG_OP_or_pred : SG_OP_NONE;
    uint32_t a, b, c, i, dst, p = NONE, q = NONE, t;

    if (d->nops != (bop ? 6u : 5u) || !bop != !d->ops[0].has_pq)
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    if (d->ops[4].kind != SG_O_IMM)
        return sg_dec_syntax(d, "lop3: a constant expected");
    d->ops[4].imm &= 0xff; /* as ptxas does */
    a = sg_src(d, 1, SG_TY_B32);
    b = sg_src(d, 2, SG_TY_B32);
    c = sg_src(d, 3, SG_TY_B32);
    dst = sg_dst(d, 0, SG_TY_B32);
    if (bop) { /* d|p: p is whether d is not zero, combined with q */
        struct sg_opel e = {SG_O_REG, d->ops[0].pq, 0};

        p = sg_dst_el(d, &e, SG_TY_PRED);
        q = sg_src(d, 5, SG_TY_PRED);
    }
    i = sg_emit(d, SG_OP_lop3_b32, dst, a, b, c);
    if (!d->err)
        d->insns[i].imm = (int64_t)d->ops[4].imm;
    if (bop) {
        t = sg_temp(d, SG_TY_PRED);
        sg_emit(d, SG_OP_setp_ne_b32, t, dst, sg_const32(d, 0), NONE);
        sg_emit(d, bop, p, t, q, NONE);
    }
    return d->err;
}

static int emit_fns(struct sg_dec *d)
{
    return sg_op3(d, SG_OP_fns_b32, SG_TY_B32, SG_TY_B32, SG_TY_B32, SG_TY_S32);
}

static int emit_bmsk(struct sg_dec *d)
{
    const enum sg_op op = sg_mod(d, "clamp") ? SG_OP_bmsk_clamp : SG_OP_bmsk_wrap;

    sg_mod(d, "wrap");
    return sg_op2(d, op, SG_TY_B32, SG_TY_U32, SG_TY_U32);
}

static int emit_szext(struct sg_dec *d)
{
    const enum sg_variant v = sg_mod(d, "clamp") ? SG_V_CLAMP : SG_V_WRAP;

    sg_mod(d, "wrap");
    return sg_op2(d, sg_own_op(d, v, sg_su(sg_ty(d, 0))), SG_TY_B32, SG_TY_B32, SG_TY_U32);
}

static int emit_dp(struct sg_dec *d)
{
    const struct sg_paired_ops *ops = &sg_pairs_dp4a;

    if (d->oc.ntypes != 2)
        return sg_dec_syntax(d, "%s: two types expected", d->oc.full);
    if (!strcmp(d->oc.base, "dp2a")) {
        bool hi = sg_mod(d, "hi");

        if (!hi && !sg_mod(d, "lo"))
            return sg_dec_syntax(d, "dp2a: .lo or .hi expected");
        ops = hi ? &sg_pairs_dp2a_hi : &sg_pairs_dp2a_lo;
    }
    return sg_op3(d, sg_paired_op(ops, sg_su(sg_ty(d, 0)), sg_su(sg_ty(d, 1))), SG_TY_B32, SG_TY_B32,
                  SG_TY_B32, SG_TY_B32);
}

/* ---- comparison ---- */

/* SG_V_COUNT: not of these types */
static const struct {
    const char *name;
    enum sg_variant of_float, of_integer;
} comparisons[] = {
    {"eq", SG_V_EQ, SG_V_EQ},      {"ne", SG_V_NE, SG_V_NE},      {"lt", SG_V_LT, SG_V_LT},
    {"le", SG_V_LE, SG_V_LE},      {"gt", SG_V_GT, SG_V_GT},      {"ge", SG_V_GE, SG_V_GE},
    {"lo", SG_V_COUNT, SG_V_LT},   {"ls", SG_V_COUNT, SG_V_LE},   {"hi", SG_V_COUNT, SG_V_GT},
    {"hs", SG_V_COUNT, SG_V_GE},   {"equ", SG_V_EQU, SG_V_COUNT}, {"neu", SG_V_NEU, SG_V_COUNT},
    {"ltu", SG_V_LTU, SG_V_COUNT}, {"leu", SG_V_LEU, SG_V_COUNT}, {"gtu", SG_V_GTU, SG_V_COUNT},
    {"geu", SG_V_GEU, SG_V_COUNT}, {"num", SG_V_NUM, SG_V_COUNT}, {"nan", SG_V_NAN, SG_V_COUNT},
};

/* The comparison's operation as named by the instruction; *named: the instruction names an operation. */
static enum sg_op comparison_op(struct sg_dec *d, enum sg_type t, bool *named)
{
    enum sg_variant v;
    size_t k = 0;

    while (k < sizeof(comparisons) / sizeof(comparisons[0]) && !sg_mod(d, comparisons[k].name))
        k++;
    *named = k < sizeof(comparisons) / sizeof(comparisons[0]);
    if (!*named)
        return SG_OP_NONE;
    v = sg_type_float(t) ? comparisons[k].of_float : comparisons[k].of_integer;
    if (v == SG_V_COUNT)
        return SG_OP_NONE;
    if (!sg_type_float(t))
        t = v == SG_V_EQ || v == SG_V_NE ? sg_bt(t) : sg_su(t);
    return sg_family_op(&sg_fam_setp, v, t);
}

/* A half with subnormals flushed to a zero of their sign: compared as f32, they would be normal. */
static uint32_t flushed_half(struct sg_dec *d, uint32_t v)
{
    const uint32_t negated = sg_temp(d, SG_TY_B16), r = sg_temp(d, SG_TY_B16),
                   i = sg_emit(d, SG_OP_neg_f16, negated, v, NONE, NONE);

    if (!d->err)
        d->insns[i].imm = SG_H_FTZ;
    sg_emit(d, SG_OP_neg_f16, r, negated, NONE, NONE);
    return r;
}

/* Emits the bare comparison of operands i and i + 1 into a fresh or given predicate. */
static int emit_compare(struct sg_dec *d, enum sg_type t, uint32_t i, uint32_t dst)
{
    bool named;
    const enum sg_op op = comparison_op(d, t, &named);
    uint32_t a, b, s;

    if (!named)
        return sg_dec_syntax(d, "%s: a comparison expected", d->oc.full);
    a = sg_src(d, i, t);
    b = sg_src(d, i + 1, t);
    if (t == SG_TY_F16 && sg_mod(d, "ftz")) {
        a = flushed_half(d, a);
        b = flushed_half(d, b);
    }
    s = sg_type_float(t) ? sg_fp_begin(d, NULL, sg_mod(d, "ftz")) : UINT32_MAX;
    sg_emit(d, op, dst, a, b, NONE);
    sg_fp_end(d, s);
    return d->err;
}

/* Operands 1 and 2 are pairs: compares the low and the high halves. */
static int compare_halves(struct sg_dec *d, enum sg_type t, uint32_t lo, uint32_t hi)
{
    const enum sg_type half = t == SG_TY_F16X2 ? SG_TY_F16 : SG_TY_BF16;
    uint32_t a = sg_src(d, 1, t), b = sg_src(d, 2, t);
    struct sg_opnd save1 = d->ops[1], save2 = d->ops[2];

    for (uint32_t h = 0; h < 2 && !d->err; h++) {
        uint32_t x = sg_temp(d, SG_TY_B32), y = sg_temp(d, SG_TY_B32);

        sg_emit(d, SG_OP_shr_u32, x, a, sg_const32(d, h * 16), NONE);
        sg_emit(d, SG_OP_shr_u32, y, b, sg_const32(d, h * 16), NONE);
        d->ops[1].kind = d->ops[2].kind = SG_O_REG;
        d->ops[1].v = x;
        d->ops[2].v = y;
        emit_compare(d, half, 1, h ? hi : lo);
        d->ops[1] = save1;
        d->ops[2] = save2;
    }
    return d->err;
}

/* The optional .and .or .xor with a further predicate: its name or NULL. */
static enum sg_op bool_op(struct sg_dec *d)
{
    return sg_mod(d, "and")   ? SG_OP_and_pred
           : sg_mod(d, "or")  ? SG_OP_or_pred
           : sg_mod(d, "xor") ? SG_OP_xor_pred
                              : SG_OP_NONE;
}

/* setp of pairs: p of the low halves, q of the high ones; with .and .or .xor each combined with operand 3 */
static int setp_halves(struct sg_dec *d, enum sg_type t, enum sg_op bop)
{
    const bool two = d->ops[0].has_pq;
    uint32_t r[2] = {sg_temp(d, SG_TY_PRED), sg_temp(d, SG_TY_PRED)}, c = NONE, p, q;

    if (bop) {
        if (d->nops != 4)
            return sg_dec_syntax(d, "%s: 4 operands expected", d->oc.full);
        c = sg_src(d, 3, SG_TY_PRED);
    }
    p = sg_dst(d, 0, SG_TY_PRED);
    q = two ? d->ops[0].pq : NONE;
    if (compare_halves(d, t, r[0], r[1]))
        return d->err;
    for (int h = 0; h < 2 && bop; h++)
        sg_emit(d, bop, r[h], r[h], c, NONE);
    sg_emit(d, SG_OP_mov_pred, p, r[0], NONE, NONE);
    if (two)
        sg_emit(d, SG_OP_mov_pred, q, r[1], NONE, NONE);
    return d->err;
}

static int emit_setp(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    enum sg_op bop = bool_op(d);
    uint32_t p, q = NONE, c = NONE, cmp, ncmp;

    if (need_type(d))
        return d->err;
    if (t == SG_TY_F16X2 || t == SG_TY_BF16X2)
        return setp_halves(d, t, bop);
    if ((t == SG_TY_F16 || t == SG_TY_BF16) && d->ops[0].has_pq && !d->ops[0].pq_sink)
        return sg_dec_syntax(d, "%s: one predicate expected", d->oc.full);
    p = sg_dst(d, 0, SG_TY_PRED);
    if (d->ops[0].has_pq)
        q = d->ops[0].pq;
    if (bop) {
        if (d->nops != 4)
            return sg_dec_syntax(d, "%s: 4 operands expected", d->oc.full);
        c = sg_src(d, 3, SG_TY_PRED);
    } else if (d->nops != 3) {
        return sg_dec_syntax(d, "%s: 3 operands expected", d->oc.full);
    }
    if (!bop && q == NONE)
        return emit_compare(d, t, 1, p);
    cmp = sg_temp(d, SG_TY_PRED);
    if (emit_compare(d, t, 1, cmp))
        return d->err;
    ncmp = sg_temp(d, SG_TY_PRED);
    if (q != NONE) /* before p is written: c may be p */
        sg_emit(d, SG_OP_not_pred, ncmp, cmp, NONE, NONE);
    if (q != NONE && bop) {
        uint32_t tq = sg_temp(d, SG_TY_PRED);

        sg_emit(d, bop, tq, ncmp, c, NONE);
        sg_emit(d, bop, p, cmp, c, NONE);
        sg_emit(d, SG_OP_mov_pred, q, tq, NONE, NONE);
        return d->err;
    }
    if (bop)
        sg_emit(d, bop, p, cmp, c, NONE);
    else
        sg_emit(d, SG_OP_mov_pred, p, cmp, NONE, NONE);
    if (q != NONE)
        sg_emit(d, SG_OP_mov_pred, q, ncmp, NONE, NONE);
    return d->err;
}

/* set on pairs: 0xffff or 1.0 in each half; with .and .or .xor each comparison is combined with operand 3 */
static int set_halves(struct sg_dec *d, enum sg_type td, enum sg_type ts, enum sg_op bop)
{
    const uint32_t yes = td == SG_TY_F16X2 ? 0x3c00u : td == SG_TY_BF16X2 ? 0x3f80u : 0xffffu;
    uint32_t p[2] = {sg_temp(d, SG_TY_PRED), sg_temp(d, SG_TY_PRED)}, x[2];

    if (compare_halves(d, ts, p[0], p[1]))
        return d->err;
    if (bop) {
        uint32_t c = sg_src(d, 3, SG_TY_PRED);

        for (uint32_t h = 0; h < 2; h++)
            sg_emit(d, bop, p[h], p[h], c, NONE);
    }
    for (uint32_t h = 0; h < 2; h++) {
        x[h] = sg_temp(d, SG_TY_B32);
        sg_emit(d, SG_OP_selp_b32, x[h], sg_const32(d, yes << 16 * h), sg_const32(d, 0), p[h]);
    }
    sg_emit(d, SG_OP_or_b32, sg_dst(d, 0, td), x[0], x[1], NONE);
    return d->err;
}

/* set.CMP.dtype.stype: 0xffffffff or 1.0 */
static int emit_set(struct sg_dec *d)
{
    enum sg_type td = sg_ty(d, 0), ts = sg_ty(d, 1);
    enum sg_op bop = bool_op(d);
    uint32_t p = sg_temp(d, SG_TY_PRED), yes;

    if (d->oc.ntypes != 2)
        return sg_dec_syntax(d, "%s: two types expected", d->oc.full);
    if (ts == SG_TY_F16X2 || ts == SG_TY_BF16X2)
        return set_halves(d, td, ts, bop);
    if (sg_type_size(td) > 4 || td == SG_TY_F16X2 || td == SG_TY_BF16X2)
        return sg_dec_refuse(d, NULL);
    if (emit_compare(d, ts, 1, p))
        return d->err;
    if (bop) {
        uint32_t c = sg_src(d, 3, SG_TY_PRED), p2 = sg_temp(d, SG_TY_PRED);

        sg_emit(d, bop, p2, p, c, NONE);
        p = p2;
    }
    yes = td == SG_TY_F32    ? 0x3f800000u
          : td == SG_TY_F16  ? 0x3c00u
          : td == SG_TY_BF16 ? 0x3f80u
                             : 0xffffffffu;
    sg_emit(d, SG_OP_selp_b32, sg_dst(d, 0, td), sg_const32(d, yes), sg_const32(d, 0), p);
    return d->err;
}

static int emit_selp(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);

    if (need_type(d))
        return d->err;
    return sg_op3(d, sg_own_op(d, SG_V_PLAIN, sg_bt32(t)), t, t, t, SG_TY_PRED);
}

static int emit_slct(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0), tc = sg_ty(d, 1);
    uint32_t p = sg_temp(d, SG_TY_PRED), a, b, c, flushed;
    bool ftz;

    if (d->oc.ntypes != 2 || (tc != SG_TY_S32 && tc != SG_TY_F32))
        return sg_dec_syntax(d, "slct: .s32 or .f32 expected");
    ftz = sg_mod(d, "ftz");
    a = sg_src(d, 1, t);
    b = sg_src(d, 2, t);
    c = sg_src(d, 3, tc);
    if (ftz) { /* a negative denormal selects a, as -0.0 does */
        flushed = sg_temp(d, tc);
        sg_emit(d, SG_OP_flush_f32, flushed, c, NONE, NONE);
        c = flushed;
    }
    sg_emit(d, tc == SG_TY_S32 ? SG_OP_setp_ge_s32 : SG_OP_setp_ge_f32, p, c, sg_const32(d, 0), NONE);
    sg_emit(d, sg_own_op(d, SG_V_PLAIN, sg_bt32(t)), sg_dst(d, 0, t), a, b, p);
    return d->err;
}

const struct sg_family sg_families_int[] = {
    {"add", emit_addsub, 3, 3, 0, &sg_fam_add},
    {"sub", emit_addsub, 3, 3, 0, &sg_fam_sub},
    {"addc", emit_addsub, 3, 3, 0, &sg_fam_addc},
    {"subc", emit_addsub, 3, 3, 0, &sg_fam_subc},
    {"mul", emit_mul, 3, 3, 0, &sg_fam_mul},
    {"mul24", emit_mul, 3, 3, 0, &sg_fam_mul24},
    {"mad", emit_mad, 4, 4, 0, &sg_fam_mad},
    {"mad24", emit_mad, 4, 4, 0, &sg_fam_mad24},
    {"madc", emit_mad, 4, 4, 0, &sg_fam_madc},
    {"div", emit_typed, 3, 3, 0, &sg_fam_div},
    {"rem", emit_typed, 3, 3, 0, &sg_fam_rem},
    {"min", emit_typed, 3, 4, 0, &sg_fam_min},
    {"max", emit_typed, 3, 4, 0, &sg_fam_max},
    {"abs", emit_typed, 2, 2, 0, &sg_fam_abs},
    {"neg", emit_typed, 2, 2, 0, &sg_fam_neg},
    {"sad", emit_typed, 4, 4, 0, &sg_fam_sad},
    {"and", emit_logic, 3, 3, 0, &sg_fam_and},
    {"or", emit_logic, 3, 3, 0, &sg_fam_or},
    {"xor", emit_logic, 3, 3, 0, &sg_fam_xor},
    {"not", emit_logic, 2, 2, 0, &sg_fam_not},
    {"cnot", emit_logic, 2, 2, 0, &sg_fam_cnot},
    {"shl", emit_shift, 3, 3, 0, &sg_fam_shl},
    {"shr", emit_shift, 3, 3, 0, &sg_fam_shr},
    {"shf", emit_shf, 4, 4, 0, NULL},
    {"popc", emit_count, 2, 2, 0, &sg_fam_popc},
    {"clz", emit_count, 2, 2, 0, &sg_fam_clz},
    {"brev", emit_count, 2, 2, 0, &sg_fam_brev},
    {"bfind", emit_bfind, 2, 2, 0, &sg_fam_bfind},
    {"bfe", emit_bfe, 4, 4, 0, &sg_fam_bfe},
    {"bfi", emit_bfi, 5, 5, 0, &sg_fam_bfi},
    {"prmt", emit_prmt, 4, 4, 0, NULL},
    {"lop3", emit_lop3, 5, 6, 0, NULL},
    {"fns", emit_fns, 4, 4, 0, NULL},
    {"bmsk", emit_bmsk, 3, 3, 0, NULL},
    {"szext", emit_szext, 3, 3, 0, &sg_fam_szext},
    {"dp4a", emit_dp, 4, 4, 0, NULL},
    {"dp2a", emit_dp, 4, 4, 0, NULL},
    {"setp", emit_setp, 3, 4, 0, &sg_fam_setp},
    {"set", emit_set, 3, 4, 0, NULL},
    {"selp", emit_selp, 4, 4, 0, &sg_fam_selp},
    {"slct", emit_slct, 4, 4, 0, &sg_fam_selp},
    {"mov", sg_emit_mov, 2, 2, 0, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};

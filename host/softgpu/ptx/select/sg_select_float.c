/* SPDX-License-Identifier: MIT */
/* Emitters: floating point arithmetic and conversion (PTX ISA 9.7.3 - 9.7.5, cvt 9.7.9). */
#include "ptx/select/select.h"

/* imm of f16 and bf16 operations and of conversions to them */
#define H_FTZ 1
#define H_SAT 2
#define H_RELU 4
#define H_RZ 8
#define H_RM 16
#define H_RP 32
#define H_SATFINITE 64
#define H_RNA 128
#define H_OOB 256

/* Rounding to an integer: the last of the modifiers, or none. */
static const struct sg_paired_ops *integer_round_mod(struct sg_dec *d)
{
    static const struct {
        const char *mod;
        const struct sg_paired_ops *ops;
    } modes[] = {{"rni", &sg_pairs_cvt_rni},
                 {"rzi", &sg_pairs_cvt_rzi},
                 {"rmi", &sg_pairs_cvt_rmi},
                 {"rpi", &sg_pairs_cvt_rpi}};
    const struct sg_paired_ops *found = NULL;

    for (size_t k = 0; k < sizeof(modes) / sizeof(modes[0]); k++)
        if (sg_mod(d, modes[k].mod))
            found = modes[k].ops;
    return found;
}

static const char *round_mod(struct sg_dec *d)
{
    static const char *const r[] = {"rn", "rz", "rm", "rp"};

    for (int i = 0; i < 4; i++)
        if (sg_mod(d, r[i]))
            return r[i];
    return NULL;
}

static bool is_half(enum sg_type t)
{
    return t == SG_TY_F16 || t == SG_TY_BF16 || t == SG_TY_F16X2 || t == SG_TY_BF16X2;
}

static enum sg_variant minmax_variant(bool nan, bool xorsign)
{
    return nan ? (xorsign ? SG_V_NAN_XORSIGN : SG_V_NAN) : xorsign ? SG_V_XORSIGN : SG_V_PLAIN;
}

/* An operation on f16, bf16 or pairs of them; imm receives the flags. */
static int half_arith(struct sg_dec *d, enum sg_type t)
{
    uint32_t a, b = NONE, c = NONE, i, s;
    int64_t flags = 0;
    bool nan;
    enum sg_op op;

    round_mod(d); /* .rn; ptxas takes other modes for fma of bf16, and rounds to nearest as well */
    sg_mod(d, "approx");
    flags |= sg_mod(d, "ftz") ? H_FTZ : 0;
    flags |= sg_mod(d, "sat") ? H_SAT : 0;
    flags |= sg_mod(d, "relu") ? H_RELU : 0;
    flags |= sg_mod(d, "oob") ? H_OOB : 0;
    sg_mod(d, "abs"); /* part of "xorsign" */
    nan = sg_mod(d, "NaN");
    op = sg_own_op(d, minmax_variant(nan, sg_mod(d, "xorsign")), t);
    a = sg_src(d, 1, t);
    if (d->nops > 2)
        b = sg_src(d, 2, t);
    if (d->nops > 3)
        c = sg_src(d, 3, t);
    /* bf16 is computed as f32 and has the same denormals: they count, whatever the kernel's
       mode. */
    s = t == SG_TY_BF16 || t == SG_TY_BF16X2 ? sg_fp_begin(d, NULL, false) : UINT32_MAX;
    i = sg_emit(d, op, sg_dst(d, 0, t), a, b, c);
    if (!d->err)
        d->insns[i].imm = flags;
    sg_fp_end(d, s);
    return d->err;
}

/* An operand of a minimum or maximum of three. */
static uint32_t third_src(struct sg_dec *d, uint32_t i, enum sg_type t, bool absolute)
{
    uint32_t v = sg_src(d, i, t), x;

    if (!absolute)
        return v;
    x = sg_temp(d, t);
    sg_emit(d, SG_OP_abs_f32, x, v, NONE, NONE);
    return x;
}

static int select_minmax(struct sg_dec *d, enum sg_type t)
{
    bool ftz = sg_mod(d, "ftz"), nan = sg_mod(d, "NaN"), x = sg_mod(d, "xorsign"), three = d->nops == 4;
    bool absolute = sg_mod(d, "abs") && three;
    const enum sg_op op = sg_own_op(d, minmax_variant(nan, x), t);
    uint32_t a, b, c = NONE, dst, first, s;

    if ((x || three) && t != SG_TY_F32)
        return sg_dec_refuse(d, NULL);
    a = third_src(d, 1, t, absolute);
    b = third_src(d, 2, t, absolute);
    if (three)
        c = third_src(d, 3, t, absolute);
    dst = sg_dst(d, 0, t);
    first = three ? sg_temp(d, t) : dst;
    s = sg_fp_begin(d, NULL, ftz);
    sg_emit(d, op, first, a, b, NONE);
    if (three)
        sg_emit(d, op, dst, first, c, NONE);
    sg_fp_end(d, s);
    if (ftz)
        sg_emit(d, SG_OP_flush_f32, dst, dst, NONE, NONE);
    return d->err;
}

/* An operation on pairs of f32: on the low words, then on the high ones. */
static int f32x2_arith(struct sg_dec *d)
{
    const char *rnd = round_mod(d);
    bool ftz = sg_mod(d, "ftz");
    uint32_t src[3][2] = {{NONE, NONE}, {NONE, NONE}, {NONE, NONE}}, r[2], dst, s;
    const enum sg_op op = sg_own_op(d, SG_V_PLAIN, SG_TY_F32);

    for (uint32_t i = 1; i < d->nops; i++) {
        uint32_t v = sg_src(d, i, SG_TY_F32X2);

        src[i - 1][0] = sg_temp(d, SG_TY_B32);
        src[i - 1][1] = sg_temp(d, SG_TY_B32);
        sg_emit_x(d, SG_OP_mov_unpack_2x32, (uint32_t[5]){src[i - 1][0], v, src[i - 1][1], NONE, NONE},
                  SG_F_D | SG_F_B, SG_F_A);
    }
    for (int k = 0; k < 2; k++)
        r[k] = sg_temp(d, SG_TY_B32);
    dst = sg_dst(d, 0, SG_TY_F32X2);
    s = sg_fp_begin(d, rnd, ftz);
    for (int k = 0; k < 2; k++)
        sg_emit(d, op, r[k], src[0][k], src[1][k], src[2][k]);
    sg_fp_end(d, s);
    sg_emit_x(d, SG_OP_mov_pack_2x32, (uint32_t[5]){dst, r[0], r[1], NONE, NONE}, SG_F_D, SG_F_A | SG_F_B);
    return d->err;
}

/* to f32, from f16 or bf16, exactly */
static uint32_t half_to_f32(struct sg_dec *d, uint32_t a, enum sg_type ts)
{
    uint32_t x = sg_temp(d, SG_TY_F32);

    sg_emit(d, ts == SG_TY_F16 ? SG_OP_cvt_f32_f16 : SG_OP_cvt_f32_bf16, x, a, NONE, NONE);
    return x;
}

/* A source of type t; of an instruction with two types, all sources but the last are of the second. */
static uint32_t mixed_src(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    enum sg_type half = sg_ty(d, 1);

    if (!is_half(half) || i + 1 == d->nops)
        return sg_src(d, i, t);
    return half_to_f32(d, sg_src(d, i, half), half);
}

int sg_flt_arith(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    const char *base = !strcmp(d->oc.base, "mad") ? "fma" : d->oc.base, *rnd;
    bool flush, ftz, sat, approx;
    uint32_t s, a, b = NONE, c = NONE, dst, x;
    enum sg_op op;

    if (is_half(t))
        return half_arith(d, t);
    if (t == SG_TY_F32X2)
        return f32x2_arith(d);
    if (t != SG_TY_F32 && t != SG_TY_F64)
        return sg_dec_refuse(d, NULL);
    if (!strcmp(base, "min") || !strcmp(base, "max"))
        return select_minmax(d, t);
    rnd = round_mod(d);
    /* of .target sm_1x, mad without a rounding is fma.rn.ftz on later processors (PTX ISA, "mad") */
    flush = sg_mod(d, "ftz");
    ftz = (flush || (!rnd && d->m->target < 20 && !strcmp(d->oc.base, "mad"))) && t == SG_TY_F32;
    sat = sg_mod(d, "sat");
    /* of f64, with .ftz: the gross approximations, of high words only */
    approx = sg_mod(d, "approx") && (!strcmp(base, "div") || (t == SG_TY_F64 && flush));
    sg_mod(d, "full");
    op = sg_own_op(d, approx ? SG_V_APPROX : SG_V_PLAIN, t);
    a = mixed_src(d, 1, t);
    if (d->nops > 2)
        b = mixed_src(d, 2, t);
    if (d->nops > 3)
        c = mixed_src(d, 3, t);
    dst = sg_dst(d, 0, t);
    if (!strcmp(base, "neg") || !strcmp(base, "abs") || !strcmp(base, "copysign")) {
        sg_emit(d, op, dst, a, b, NONE);
        if (ftz)
            sg_emit(d, SG_OP_flush_f32, dst, dst, NONE, NONE);
        return d->err;
    }
    /* the result of "sat" is never NaN, and dst holds no other value */
    x = sat ? sg_temp(d, t) : dst;
    s = sg_fp_begin(d, rnd, ftz);
    sg_emit(d, op, x, a, b, c);
    if (sat)
        sg_emit(d, t == SG_TY_F32 ? SG_OP_sat_f32 : SG_OP_sat_f64, dst, x, NONE, NONE);
    sg_fp_end(d, s);
    return d->err;
}

static int emit_testp(struct sg_dec *d)
{
    static const struct {
        const char *name;
        enum sg_variant variant;
    } tests[] = {{"finite", SG_V_FINITE},         {"infinite", SG_V_INFINITE}, {"number", SG_V_NUMBER},
                 {"notanumber", SG_V_NOTANUMBER}, {"normal", SG_V_NORMAL},     {"subnormal", SG_V_SUBNORMAL}};
    enum sg_op op = SG_OP_NONE;

    for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
        if (sg_mod(d, tests[i].name))
            op = sg_own_op(d, tests[i].variant, sg_ty(d, 0));
    return sg_op1(d, op, SG_TY_PRED, sg_ty(d, 0));
}

/* ---- cvt ---- */

/* A source as a register of type t's class, for a source register of any class. */
static uint32_t cvt_src(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    const struct sg_opnd *o = &d->ops[i];
    uint32_t x;

    if (o->kind == SG_O_REG && d->vregs[o->v].cls == SG_C_64 && sg_class_of(t) == SG_C_32) {
        x = sg_temp(d, SG_TY_U32);
        sg_emit(d, SG_OP_cvt_u32_u64, x, o->v, NONE, NONE);
        return x;
    }
    return sg_src(d, i, t);
}

/* A destination; when the register is wider, a temporary that cvt_dst_end() widens. */
static uint32_t cvt_dst(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind == SG_O_REG && d->vregs[o->v].cls == SG_C_64 && sg_class_of(t) == SG_C_32)
        return sg_temp(d, t);
    return sg_dst(d, i, t);
}

static int cvt_dst_end(struct sg_dec *d, uint32_t i, enum sg_type t, uint32_t dst)
{
    const struct sg_opnd *o = &d->ops[i];

    if (!d->err && o->kind == SG_O_REG && o->v != dst)
        sg_emit(d, sg_paired_op(&sg_pairs_cvt, SG_TY_U64, sg_type_float(t) ? SG_TY_U32 : sg_su(t)), o->v, dst,
                NONE, NONE);
    return d->err;
}

/* The type of an integer destination: its sign only matters below 32 bits. */
static enum sg_type int_dst(enum sg_type t)
{
    return sg_type_size(t) == 4 ? SG_TY_U32 : sg_type_size(t) == 8 ? SG_TY_U64 : sg_su(t);
}

static int64_t half_flags(struct sg_dec *d, const char *rnd)
{
    int64_t f = 0;

    f |= sg_mod(d, "relu") ? H_RELU : 0;
    f |= sg_mod(d, "satfinite") ? H_SATFINITE : 0;
    f |= sg_mod(d, "rna") ? H_RNA : 0;
    if (rnd)
        f |= !strcmp(rnd, "rz") ? H_RZ : !strcmp(rnd, "rm") ? H_RM : !strcmp(rnd, "rp") ? H_RP : 0;
    return f;
}

static void set_imm(struct sg_dec *d, uint32_t i, int64_t v)
{
    if (!d->err)
        d->insns[i].imm = v;
}

/* cvt.rn.f16x2.f32 d, hi, lo and the like */
static int cvt_packed(struct sg_dec *d, enum sg_type td, enum sg_type ts)
{
    int64_t flags = half_flags(d, round_mod(d));
    uint32_t a, b = NONE, i, s;

    flags |= sg_mod(d, "ftz") ? H_FTZ : 0;
    a = sg_src(d, 1, ts);
    if (d->nops == 3)
        b = sg_src(d, 2, ts);
    /* Rounding to nearest alone is done with integers; otherwise f32 denormals matter. */
    s = flags & ~(int64_t)H_FTZ ? sg_fp_begin(d, NULL, false) : UINT32_MAX;
    i = sg_emit(d, sg_paired_op(&sg_pairs_cvt, td, ts), sg_dst(d, 0, td), a, b, NONE);
    set_imm(d, i, flags);
    sg_fp_end(d, s);
    return d->err;
}

/* cvt.rs.T.f32 d, a, b, rbits; of four results: d, {a, b, e, f}, rbits */
static int cvt_stochastic(struct sg_dec *d, enum sg_type td)
{
    static const struct {
        enum sg_type type;
        enum sg_op op;     /* of two results */
        uint32_t bits;     /* of two results */
        uint32_t bytes[2]; /* of rbits, for the upper and the lower two: as prmt selects them */
    } fours[] = {
        {SG_TY_E4M3X4, SG_OP_cvt_rs_e4m3x2_f32, 16, {0x3232, 0x1010}},
        {SG_TY_E5M2X4, SG_OP_cvt_rs_e5m2x2_f32, 16, {0x3232, 0x1010}},
        {SG_TY_E2M3X4, SG_OP_cvt_rs_e2m3x2_f32, 16, {0x3232, 0x1010}},
        {SG_TY_E3M2X4, SG_OP_cvt_rs_e3m2x2_f32, 16, {0x3232, 0x1010}},
        {SG_TY_E2M1X4, SG_OP_cvt_rs_e2m1x2_f32, 8, {0x3131, 0x2020}},
    };
    const struct sg_opnd *v = &d->ops[1];
    const int64_t flags = half_flags(d, NULL);
    uint32_t x[2], s, i, k = 0, rbits;

    while (k < sizeof(fours) / sizeof(fours[0]) && fours[k].type != td)
        k++;
    s = sg_fp_begin(d, NULL, false);
    if (k == sizeof(fours) / sizeof(fours[0])) {
        uint32_t a = sg_src(d, 1, SG_TY_F32), b = sg_src(d, 2, SG_TY_F32), c = sg_src(d, 3, SG_TY_B32);

        i = sg_emit(d, sg_paired_op(&sg_pairs_cvt_rs, td, SG_TY_F32), sg_dst(d, 0, td), a, b, c);
        set_imm(d, i, flags);
        sg_fp_end(d, s);
        return d->err;
    }
    if (v->kind != SG_O_VEC || v->nel != 4)
        return sg_dec_syntax(d, "%s: a vector of 4 values expected", d->oc.full);
    rbits = sg_src(d, 2, SG_TY_B32);
    for (uint32_t h = 0; h < 2; h++) {
        uint32_t c = sg_temp(d, SG_TY_B32), a = sg_src_el(d, &v->el[2 * h], SG_TY_F32),
                 b = sg_src_el(d, &v->el[2 * h + 1], SG_TY_F32);

        sg_emit(d, SG_OP_prmt_b32, c, rbits, rbits, sg_const32(d, fours[k].bytes[h]));
        x[h] = sg_temp(d, SG_TY_B32);
        i = sg_emit(d, fours[k].op, x[h], a, b, c);
        set_imm(d, i, flags);
    }
    sg_fp_end(d, s);
    sg_emit(d, SG_OP_shl_b32, x[0], x[0], sg_const32(d, fours[k].bits), NONE);
    sg_emit(d, SG_OP_or_b32, sg_dst(d, 0, td), x[0], x[1], NONE);
    return d->err;
}

static int cvt_to_half(struct sg_dec *d, enum sg_type td, enum sg_type ts)
{
    const char *rnd = round_mod(d);
    const struct sg_paired_ops *irnd;
    int64_t flags = half_flags(d, rnd) | (sg_mod(d, "sat") ? H_SAT : 0);
    bool ftz = sg_mod(d, "ftz");
    uint32_t a = cvt_src(d, 1, ts), x, i, dst, s;

    irnd = integer_round_mod(d);
    if (is_half(ts)) {
        if (irnd || ts != td || flags) {
            a = half_to_f32(d, a, ts);
            ts = SG_TY_F32;
        }
        if (irnd) {
            x = sg_temp(d, SG_TY_F32);
            sg_emit(d, sg_paired_op(irnd, SG_TY_F32, SG_TY_F32), x, a, NONE, NONE);
            a = x;
        }
    }
    dst = cvt_dst(d, 0, td);
    if (ts == td && !irnd) {
        if (ftz)
            return sg_dec_refuse(d, NULL);
        sg_emit(d, SG_OP_mov_b32, dst, a, NONE, NONE);
        return cvt_dst_end(d, 0, td, dst);
    }
    if (!sg_type_float(ts)) { /* an integer: exact as f64 up to 53 bits */
        x = sg_temp(d, SG_TY_F64);
        sg_emit(d, sg_paired_op(&sg_pairs_cvt, SG_TY_F64, sg_su(ts)), x, a, NONE, NONE);
        a = x;
        ts = SG_TY_F64;
    }
    if (ftz && ts == SG_TY_F32) {
        x = sg_temp(d, SG_TY_F32);
        sg_emit(d, SG_OP_flush_f32, x, a, NONE, NONE);
        a = x;
    }
    s = td == SG_TY_BF16 && flags ? sg_fp_begin(d, NULL, false) : UINT32_MAX; /* as in cvt_packed */
    i = sg_emit(d, sg_paired_op(&sg_pairs_cvt, td, ts), dst, a, NONE, NONE);
    set_imm(d, i, flags);
    sg_fp_end(d, s);
    return cvt_dst_end(d, 0, td, dst);
}

static int cvt_float_to_int(struct sg_dec *d, enum sg_type td, enum sg_type ts)
{
    const struct sg_paired_ops *mode = integer_round_mod(d);
    bool ftz = sg_mod(d, "ftz");
    uint32_t a = cvt_src(d, 1, ts), dst = cvt_dst(d, 0, td), s;

    if (!mode)
        mode = &sg_pairs_cvt_rzi;
    sg_mod(d, "sat"); /* the clamp is always there */
    if (is_half(ts)) {
        a = half_to_f32(d, a, ts);
        ts = SG_TY_F32;
    }
    s = sg_fp_begin(d, NULL, ftz);
    sg_emit(d, sg_paired_op(mode, sg_su(td), ts), dst, a, NONE, NONE);
    sg_fp_end(d, s);
    return cvt_dst_end(d, 0, td, dst);
}

/* to f32 or f64 */
static int cvt_to_float(struct sg_dec *d, enum sg_type td, enum sg_type ts)
{
    const char *rnd = round_mod(d);
    const struct sg_paired_ops *mode = integer_round_mod(d);
    bool ftz = sg_mod(d, "ftz"), sat = sg_mod(d, "sat");
    uint32_t a = cvt_src(d, 1, ts), dst = cvt_dst(d, 0, td), s;
    enum sg_op op;

    if (is_half(ts)) {
        if (td == SG_TY_F32 && !mode) {
            sg_emit(d, ts == SG_TY_F16 ? SG_OP_cvt_f32_f16 : SG_OP_cvt_f32_bf16, dst, a, NONE, NONE);
            goto finish;
        }
        a = half_to_f32(d, a, ts);
        ts = SG_TY_F32;
    }
    if (mode)
        op = sg_paired_op(mode, td, ts);
    else if (td == ts)
        op = sg_mov_op(td);
    else
        op = sg_paired_op(&sg_pairs_cvt, td, sg_type_float(ts) ? ts : sg_su(ts));
    if (mode && td != ts)
        return sg_dec_refuse(d, NULL);
    /* integers and their conversions are no denormals: the kernel's mode suffices, and no mode can be
       hoisted */
    s = sg_fp_begin(d, rnd, sg_type_float(ts) ? ftz : d->ftz);
    sg_emit(d, op, dst, a, NONE, NONE);
    sg_fp_end(d, s);
    if (ftz && td == SG_TY_F32 && ts == SG_TY_F32)
        sg_emit(d, SG_OP_flush_f32, dst, dst, NONE, NONE);
finish:
    if (sat) { /* a denormal stays denormal without .ftz */
        s = sg_fp_begin(d, NULL, ftz);
        sg_emit(d, td == SG_TY_F32 ? SG_OP_sat_f32 : SG_OP_sat_f64, dst, dst, NONE, NONE);
        sg_fp_end(d, s);
    }
    return cvt_dst_end(d, 0, td, dst);
}

static int cvt_pack(struct sg_dec *d)
{
    static const struct {
        const char *mod; /* registers have no such type */
        enum sg_variant to;
    } small[] = {{"u4", SG_V_U4}, {"s4", SG_V_S4}, {"u2", SG_V_U2}, {"s2", SG_V_S2}};
    enum sg_variant to = SG_V_COUNT;
    enum sg_op op;
    enum sg_type from = sg_ty(d, 0);
    uint32_t a = sg_src(d, 1, SG_TY_B32), b = sg_src(d, 2, SG_TY_B32), c;

    sg_mod(d, "sat");
    if (d->oc.ntypes < 2)
        return sg_dec_syntax(d, "%s: types expected", d->oc.full);
    for (size_t k = 0; k < sizeof(small) / sizeof(small[0]); k++)
        if (sg_mod(d, small[k].mod))
            to = small[k].to;
    if (to == SG_V_COUNT)
        op = sg_paired_op(&sg_pairs_cvt_pack, from, sg_su(sg_ty(d, 1)));
    else
        op = sg_family_op(&sg_fam_cvt_pack_small, to, sg_su(from));
    c = d->nops == 4 ? sg_src(d, 3, SG_TY_B32) : sg_const32(d, 0);
    sg_emit(d, op, sg_dst(d, 0, SG_TY_B32), a, b, c);
    return d->err;
}

static bool is_packed(enum sg_type t)
{
    return t == SG_TY_F16X2 || t == SG_TY_BF16X2 || t == SG_TY_E4M3X2 || t == SG_TY_E5M2X2 ||
           t == SG_TY_TF32 || (t >= SG_TY_E2M1X2 && t <= SG_TY_E3M2X4);
}

static int emit_cvt(struct sg_dec *d)
{
    enum sg_type td = sg_ty(d, 0), ts = sg_ty(d, 1);
    uint32_t a, dst;
    enum sg_op op;

    if (sg_mod(d, "pack"))
        return cvt_pack(d);
    if (d->oc.ntypes != 2 || d->nops < 2)
        return sg_dec_syntax(d, "%s: two types expected", d->oc.full);
    if (sg_mod(d, "rs"))
        return cvt_stochastic(d, td);
    if (is_packed(td) || is_packed(ts))
        return cvt_packed(d, td, ts);
    if (d->nops != 2)
        return sg_dec_syntax(d, "%s: 2 operands expected", d->oc.full);
    if (td == SG_TY_F16 || td == SG_TY_BF16)
        return cvt_to_half(d, td, ts);
    if (sg_type_float(td))
        return cvt_to_float(d, td, ts);
    if (sg_type_float(ts))
        return cvt_float_to_int(d, td, ts);
    a = cvt_src(d, 1, ts);
    dst = cvt_dst(d, 0, td);
    if (sg_mod(d, "sat"))
        op = sg_paired_op(&sg_pairs_cvt_sat, sg_su(td), sg_su(ts));
    else
        op = sg_paired_op(&sg_pairs_cvt, int_dst(td), sg_su(ts));
    sg_emit(d, op, dst, a, NONE, NONE);
    return cvt_dst_end(d, 0, td, dst);
}

const struct sg_family sg_families_flt[] = {
    {"fma", sg_flt_arith, 4, 4, 0, &sg_fam_fma},
    {"rcp", sg_flt_arith, 2, 2, 0, &sg_fam_rcp},
    {"sqrt", sg_flt_arith, 2, 2, 0, &sg_fam_sqrt},
    {"rsqrt", sg_flt_arith, 2, 2, 0, &sg_fam_rsqrt},
    {"ex2", sg_flt_arith, 2, 2, 0, &sg_fam_ex2},
    {"lg2", sg_flt_arith, 2, 2, 0, &sg_fam_lg2},
    {"sin", sg_flt_arith, 2, 2, 0, &sg_fam_sin},
    {"cos", sg_flt_arith, 2, 2, 0, &sg_fam_cos},
    {"tanh", sg_flt_arith, 2, 2, 0, &sg_fam_tanh},
    {"copysign", sg_flt_arith, 3, 3, 0, &sg_fam_copysign},
    {"testp", emit_testp, 2, 2, 0, &sg_fam_testp},
    {"cvt", emit_cvt, 2, 4, 0, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};

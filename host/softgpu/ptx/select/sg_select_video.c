/* SPDX-License-Identifier: MIT */
/* Emitters: the video instructions (PTX ISA 9.7.17, 9.7.18). */
#include "ptx/select/select.h"

#include <string.h>

/* The part of an operand: its first bit and number of bits. Returns false for an invalid part. */
static bool part_bits(const struct sg_opnd *o, uint32_t *at, uint32_t *bits)
{
    uint32_t size = o->part[0] == 'b' ? 8 : 16, n = (uint32_t)(o->part[1] - '0');

    *at = 0;
    *bits = 32;
    if (!o->part[0])
        return true;
    *at = n * size;
    *bits = size;
    return o->part[1] && !o->part[2] && n < 32 / size;
}

/* A part of an operand, extended according to its type. */
static uint32_t part_src(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    uint32_t v = sg_src(d, i, SG_TY_B32), at, bits, r;

    if (!part_bits(&d->ops[i], &at, &bits)) {
        sg_dec_syntax(d, "%s: part '.%s' of a register", d->oc.full, d->ops[i].part);
        return v;
    }
    if (bits == 32)
        return v;
    r = sg_temp(d, SG_TY_B32);
    sg_emit(d, sg_type_signed(t) ? SG_OP_bfe_s32 : SG_OP_bfe_u32, r, v, sg_const32(d, at),
            sg_const32(d, bits));
    return r;
}

/* Bytes or halves of operands 1 and 2 in the order given by a part such as .h10 or .b7610;
   without a part: unchanged. */
static uint32_t lanes_src(struct sg_dec *d, uint32_t i)
{
    const char *part = d->ops[i].part;
    uint32_t size = part[0] == 'b' ? 1 : 2, n = 4 / size, control = 0, r;

    if (!part[0])
        return sg_src(d, i, SG_TY_B32);
    for (uint32_t k = 0; k < n; k++) { /* the digit on the left is the highest lane */
        uint32_t from = (uint32_t)(part[n - k] - '0');

        if (strlen(part) != n + 1 || from >= 2 * n) {
            sg_dec_syntax(d, "%s: part '.%s' of a register", d->oc.full, part);
            return SG_OPND_NONE;
        }
        for (uint32_t byte = 0; byte < size; byte++)
            control |= (from * size + byte) << 4 * (k * size + byte);
    }
    r = sg_temp(d, SG_TY_B32);
    sg_emit(d, SG_OP_prmt_b32, r, sg_src(d, 1, SG_TY_B32), sg_src(d, 2, SG_TY_B32), sg_const32(d, control));
    return r;
}

/* Mask of the result bits that are written; the other bits are those of operand 3. */
static uint32_t lanes_written(struct sg_dec *d)
{
    const char *part = d->ops[0].part;
    uint32_t size = part[0] == 'b' ? 8 : 16, mask = 0;

    for (const char *p = part + 1; part[0] && *p; p++) {
        uint32_t lane = (uint32_t)(*p - '0');

        if (lane >= 32 / size)
            sg_dec_syntax(d, "%s: part '.%s' of a register", d->oc.full, part);
        else
            mask |= ((1u << size) - 1) << lane * size;
    }
    return part[0] ? mask : UINT32_MAX;
}

/* vadd4 vsub4 vabsdiff4 vavrg4 vmin4 vmax4 (and 2): bytes or halves of a register; with .add the
   sum of the results is added to c */
static int emit_simd(struct sg_dec *d)
{
    bool add = sg_mod(d, "add"), sat = sg_mod(d, "sat");
    const uint32_t bits = d->oc.base[strlen(d->oc.base) - 1] == '4' ? 8 : 16;
    uint32_t a, b, c, mask, r, i;

    if (d->oc.ntypes != 3)
        return sg_dec_refuse(d, NULL);
    a = lanes_src(d, 1);
    b = lanes_src(d, 2);
    c = sg_src(d, 3, SG_TY_B32);
    mask = lanes_written(d);
    r = add || mask == UINT32_MAX ? sg_dst(d, 0, SG_TY_B32) : sg_temp(d, SG_TY_B32);
    i = sg_emit(d, sg_own_op(d, SG_V_PLAIN, SG_TY_NONE), r, a, b, c);
    if (d->err)
        return d->err;
    d->insns[i].imm =
        (add ? SG_SIMD_ADD : 0) | (sat ? SG_SIMD_SAT : 0) | (sg_type_signed(sg_ty(d, 0)) ? SG_SIMD_SD : 0) |
        (sg_type_signed(sg_ty(d, 1)) ? SG_SIMD_SA : 0) | (sg_type_signed(sg_ty(d, 2)) ? SG_SIMD_SB : 0);
    for (uint32_t k = 0; k < 32 / bits; k++)
        d->insns[i].imm |= (mask >> k * bits & 1) << (8 + k);
    if (!add && mask != UINT32_MAX) {
        uint32_t kept = sg_temp(d, SG_TY_B32);

        sg_emit(d, SG_OP_and_b32, r, r, sg_const32(d, mask), NONE);
        sg_emit(d, SG_OP_and_b32, kept, c, sg_const32(d, ~mask), NONE);
        sg_emit(d, SG_OP_or_b32, sg_dst(d, 0, SG_TY_B32), r, kept, NONE);
    }
    return d->err;
}

/* The last step of a scalar video instruction: r into a part of c, or combined with it. */
static int finish_video(struct sg_dec *d, enum sg_op then, uint32_t r)
{
    uint32_t at, bits, f[5] = {0};

    if (!part_bits(&d->ops[0], &at, &bits))
        return sg_dec_syntax(d, "%s: part '.%s' of a register", d->oc.full, d->ops[0].part);
    if (then) {
        if (bits != 32)
            return sg_dec_syntax(d, "%s: a part of the result is not combined further", d->oc.full);
        sg_emit(d, then, sg_dst(d, 0, SG_TY_B32), r, sg_src(d, 3, SG_TY_B32), NONE);
        return d->err;
    }
    if (bits == 32) {
        sg_emit(d, SG_OP_mov_b32, sg_dst(d, 0, SG_TY_B32), r, NONE, NONE);
        return d->err;
    }
    f[0] = sg_dst(d, 0, SG_TY_B32);
    f[1] = r;
    f[2] = sg_src(d, 3, SG_TY_B32);
    f[3] = sg_const32(d, at);
    f[4] = sg_const32(d, bits);
    sg_emit_x(d, SG_OP_bfi_b32, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err;
}

/* True if operand 3 is present where the result is combined or merged; elsewhere it has no effect. */
static bool has_third(const struct sg_dec *d, enum sg_op then)
{
    return d->nops == 4 || (!then && !d->ops[0].part[0]);
}

/* The final operation of a scalar video instruction: sum, smaller, larger; SG_OP_NONE: none. */
static enum sg_op second_op(struct sg_dec *d, enum sg_type t)
{
    return sg_mod(d, "add")   ? SG_OP_add_b32
           : sg_mod(d, "min") ? (sg_type_signed(t) ? SG_OP_min_s32 : SG_OP_min_u32)
           : sg_mod(d, "max") ? (sg_type_signed(t) ? SG_OP_max_s32 : SG_OP_max_u32)
                              : SG_OP_NONE;
}

static uint32_t wide_src(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    uint32_t r = sg_temp(d, SG_TY_B64);

    sg_emit(d, sg_type_signed(t) ? SG_OP_cvt_u64_s32 : SG_OP_cvt_u64_u32, r, part_src(d, i, t), NONE, NONE);
    return r;
}

/* Clamps r to the range of the result's part. */
static void saturate_video(struct sg_dec *d, uint32_t r, enum sg_type t)
{
    uint32_t at, bits;
    int64_t most, least;

    if (!part_bits(&d->ops[0], &at, &bits))
        return; /* reported by finish_video() */
    most = sg_type_signed(t) ? (INT64_C(1) << (bits - 1)) - 1 : (INT64_C(1) << bits) - 1;
    least = sg_type_signed(t) ? -most - 1 : 0;
    sg_emit(d, SG_OP_min_s64, r, r, sg_const64(d, (uint64_t)most), NONE);
    sg_emit(d, SG_OP_max_s64, r, r, sg_const64(d, (uint64_t)least), NONE);
}

/* The low word of r, which is saturated if sat, into the result. */
static int finish_wide(struct sg_dec *d, enum sg_op then, uint32_t r, bool sat)
{
    uint32_t low = sg_temp(d, SG_TY_B32);

    if (sat)
        saturate_video(d, r, sg_ty(d, 0));
    sg_emit(d, SG_OP_cvt_u32_u64, low, r, NONE, NONE);
    return finish_video(d, then, low);
}

/* vshl, vshr: by at most 32 bits, or modulo 32 */
static int emit_vshift(struct sg_dec *d)
{
    bool left = d->oc.base[3] == 'l', wrap = sg_mod(d, "wrap"), sat = sg_mod(d, "sat");
    enum sg_op then = second_op(d, sg_ty(d, 0));
    uint32_t a, b, r;

    if (d->oc.ntypes != 3 || (!wrap && !sg_mod(d, "clamp")) || !has_third(d, then))
        return sg_dec_refuse(d, NULL);
    a = wide_src(d, 1, sg_ty(d, 1));
    b = sg_temp(d, SG_TY_B32);
    sg_emit(d, wrap ? SG_OP_and_b32 : SG_OP_min_u32, b, part_src(d, 2, SG_TY_U32),
            sg_const32(d, wrap ? 31 : 32), NONE);
    r = sg_temp(d, SG_TY_B64);
    sg_emit(d, left ? SG_OP_shl_b64 : SG_OP_shr_s64, r, a, b, NONE);
    if (left && sat && !sg_type_signed(sg_ty(d, 1))) /* 64 bits without a sign */
        sg_emit(d, SG_OP_min_u64, r, r, sg_const64(d, INT64_MAX), NONE);
    return finish_wide(d, then, r, sat);
}

/* vadd vsub vabsdiff vmin vmax: 64 bits hold the 34 of the manual's intermediate result. */
static int emit_vscalar(struct sg_dec *d)
{
    const enum sg_op op = sg_own_op(d, SG_V_PLAIN, SG_TY_NONE), then = second_op(d, sg_ty(d, 0));
    bool sat = sg_mod(d, "sat");
    uint32_t a, b, r, low;

    if (d->oc.ntypes != 3 || sg_type_size(sg_ty(d, 0)) != 4 || sg_type_size(sg_ty(d, 1)) != 4 ||
        sg_type_size(sg_ty(d, 2)) != 4 || !has_third(d, then))
        return sg_dec_refuse(d, NULL);
    a = wide_src(d, 1, sg_ty(d, 1));
    b = wide_src(d, 2, sg_ty(d, 2));
    r = sg_temp(d, SG_TY_B64);
    if (!op) { /* vabsdiff */
        low = sg_temp(d, SG_TY_B64);
        sg_emit(d, SG_OP_min_s64, low, a, b, NONE);
        sg_emit(d, SG_OP_max_s64, r, a, b, NONE);
        sg_emit(d, SG_OP_sub_b64, r, r, low, NONE);
    } else {
        sg_emit(d, op, r, a, b, NONE);
    }
    return finish_wide(d, then, r, sat);
}

/* vmad: a * b + c, or with either subtracted; .po adds 1; then a shift */
static int emit_vmad(struct sg_dec *d)
{
    const bool sa = sg_type_signed(sg_ty(d, 1)), sb = sg_type_signed(sg_ty(d, 2)), po = sg_mod(d, "po");
    const bool ab = d->ops[1].minus != d->ops[2].minus, c = d->ops[3].minus;
    const int64_t shift = sg_mod(d, "shr7") ? 7 : sg_mod(d, "shr15") ? 15 : 0;
    uint32_t src[3], i;

    if (po && (d->ops[1].minus || d->ops[2].minus || c))
        return sg_dec_syntax(d, "%s: .po and a negated operand", d->oc.full);
    if (c && (d->ops[1].minus || d->ops[2].minus))
        return sg_dec_syntax(d, "%s: a product or the summand is negated, not both", d->oc.full);
    if (d->ops[0].part[0] || d->ops[3].part[0])
        return sg_dec_syntax(d, "%s: a part of a factor only", d->oc.full);
    for (uint32_t k = 0; k < 3; k++)
        src[k] = part_src(d, k + 1, k < 2 ? sg_ty(d, k + 1) : SG_TY_B32);
    i = sg_emit(d, SG_OP_vmad, sg_dst(d, 0, SG_TY_B32), src[0], src[1], src[2]);
    if (!d->err)
        d->insns[i].imm = (sa ? SG_VMAD_SA : 0) | (sb ? SG_VMAD_SB : 0) |
                          (sa || sb || ab || c ? SG_VMAD_SD : 0) | (po ? SG_VMAD_PO : 0) |
                          (ab ? SG_VMAD_NEG_AB : 0) | (c ? SG_VMAD_NEG_C : 0) |
                          (sg_mod(d, "sat") ? SG_VMAD_SAT : 0) | shift << 8;
    return d->err;
}

/* 1 or 0 by comparing a with b, each extended by its own type to 64 bits. */
static uint32_t video_compare(struct sg_dec *d, uint32_t a, uint32_t b)
{
    static const struct {
        const char *name;
        enum sg_op op; /* equality has no sign */
    } comparisons[] = {{"eq", SG_OP_setp_eq_b64}, {"ne", SG_OP_setp_ne_b64}, {"lt", SG_OP_setp_lt_s64},
                       {"le", SG_OP_setp_le_s64}, {"gt", SG_OP_setp_gt_s64}, {"ge", SG_OP_setp_ge_s64}};
    uint32_t wide[2], p = sg_temp(d, SG_TY_PRED), r = sg_temp(d, SG_TY_B32);
    enum sg_op op = SG_OP_NONE;

    for (size_t i = 0; i < sizeof(comparisons) / sizeof(comparisons[0]); i++)
        if (sg_mod(d, comparisons[i].name))
            op = comparisons[i].op;
    if (!op) {
        sg_dec_refuse(d, NULL);
        return r;
    }
    for (uint32_t i = 0; i < 2; i++) {
        wide[i] = sg_temp(d, SG_TY_B64);
        sg_emit(d, sg_type_signed(sg_ty(d, i)) ? SG_OP_cvt_u64_s32 : SG_OP_cvt_u64_u32, wide[i], i ? b : a,
                NONE, NONE);
    }
    sg_emit(d, op, p, wide[0], wide[1], NONE);
    sg_emit(d, SG_OP_selp_b32, r, sg_const32(d, 1), sg_const32(d, 0), p);
    return r;
}

/* vset.atype.btype.cmp: 1 or 0, into a part of c or combined with it */
static int emit_vset(struct sg_dec *d)
{
    enum sg_op then = second_op(d, SG_TY_U32);

    if (!has_third(d, then))
        return sg_dec_refuse(d, NULL);
    return finish_video(d, then, video_compare(d, part_src(d, 1, sg_ty(d, 0)), part_src(d, 2, sg_ty(d, 1))));
}

/* vset2 vset4: 1 or 0 for each lane; with .add the number of ones is added to c */
static int emit_vset_simd(struct sg_dec *d)
{
    const uint32_t bits = d->oc.base[4] == '4' ? 8 : 16, size = sg_const32(d, bits);
    const uint32_t a = lanes_src(d, 1), b = lanes_src(d, 2), c = sg_src(d, 3, SG_TY_B32),
                   mask = lanes_written(d);
    const bool add = sg_mod(d, "add");
    uint32_t r = sg_temp(d, SG_TY_B32), kept = sg_temp(d, SG_TY_B32);

    sg_emit(d, add ? SG_OP_mov_b32 : SG_OP_and_b32, r, c, add ? NONE : sg_const32(d, ~mask), NONE);
    for (uint32_t at = 0; at < 32 && !d->err; at += bits) {
        uint32_t lane[2], one;

        if (!(mask >> at & 1))
            continue;
        for (uint32_t i = 0; i < 2; i++) {
            lane[i] = sg_temp(d, SG_TY_B32);
            sg_emit(d, sg_type_signed(sg_ty(d, i)) ? SG_OP_bfe_s32 : SG_OP_bfe_u32, lane[i], i ? b : a,
                    sg_const32(d, at), size);
        }
        one = video_compare(d, lane[0], lane[1]);
        if (add) {
            sg_emit(d, SG_OP_add_b32, r, r, one, NONE);
        } else {
            sg_emit(d, SG_OP_shl_b32, kept, one, sg_const32(d, at), NONE);
            sg_emit(d, SG_OP_or_b32, r, r, kept, NONE);
        }
    }
    sg_emit(d, SG_OP_mov_b32, sg_dst(d, 0, SG_TY_B32), r, NONE, NONE);
    return d->err;
}

const struct sg_family sg_families_video[] = {
    {"vset", emit_vset, 3, 4, SG_FAM_PARTS, NULL},
    {"vset2", emit_vset_simd, 4, 4, SG_FAM_PARTS, NULL},
    {"vset4", emit_vset_simd, 4, 4, SG_FAM_PARTS, NULL},
    {"vadd", emit_vscalar, 3, 4, SG_FAM_PARTS, &sg_fam_vadd},
    {"vsub", emit_vscalar, 3, 4, SG_FAM_PARTS, &sg_fam_vsub},
    {"vmin", emit_vscalar, 3, 4, SG_FAM_PARTS, &sg_fam_vmin},
    {"vmax", emit_vscalar, 3, 4, SG_FAM_PARTS, &sg_fam_vmax},
    {"vabsdiff", emit_vscalar, 3, 4, SG_FAM_PARTS, NULL},
    {"vshl", emit_vshift, 3, 4, SG_FAM_PARTS, NULL},
    {"vshr", emit_vshift, 3, 4, SG_FAM_PARTS, NULL},
    {"vmad", emit_vmad, 4, 4, SG_FAM_PARTS | SG_FAM_MINUS, NULL},
    {"vadd4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vadd4},
    {"vadd2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vadd2},
    {"vsub4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vsub4},
    {"vsub2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vsub2},
    {"vmin4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vmin4},
    {"vmin2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vmin2},
    {"vmax4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vmax4},
    {"vmax2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vmax2},
    {"vavrg4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vavrg4},
    {"vavrg2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vavrg2},
    {"vabsdiff4", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vabsdiff4},
    {"vabsdiff2", emit_simd, 4, 4, SG_FAM_PARTS, &sg_fam_vabsdiff2},
    {NULL, NULL, 0, 0, 0, NULL},
};

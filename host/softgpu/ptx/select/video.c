/* SPDX-License-Identifier: MIT */
/* Emitters: the video instructions that nvcc's SIMD intrinsics use (PTX ISA 9.7.17, 9.7.18). */
#include "ptx/select/select.h"

/* vadd4 vsub4 vabsdiff4 vavrg4 vmin4 vmax4 (and 2): bytes or halves of one register each; with .add
 * the sum of the results is added to c */
static int emit_simd(struct sg_dec *d)
{
    bool add = sg_mod(d, "add"), sat = sg_mod(d, "sat");
    uint32_t i;
    char op[40];

    if (d->oc.ntypes != 3 || sg_ty(d, 0) != sg_ty(d, 1) || sg_ty(d, 1) != sg_ty(d, 2) ||
        sg_type_size(sg_ty(d, 0)) != 4)
        return sg_dec_refuse(d, NULL);
    snprintf(op, sizeof(op), "%s.%s", d->oc.base, sg_su(sg_ty(d, 0)));
    i = sg_emit(d, op, sg_dst(d, 0, SG_TY_B32), sg_src(d, 1, SG_TY_B32), sg_src(d, 2, SG_TY_B32),
                sg_src(d, 3, SG_TY_B32));
    if (!d->err)
        d->insns[i].imm = (add ? 1 : 0) | (sat ? 2 : 0);
    return d->err;
}

/* vshl, vshr on whole registers: the shift, then with .add the sum with c */
static int emit_vshift(struct sg_dec *d)
{
    bool left = d->oc.base[3] == 'l', wrap = sg_mod(d, "wrap"), add = sg_mod(d, "add");
    enum sg_type t = sg_ty(d, 1);
    uint32_t a, b, r;

    if (d->oc.ntypes != 3 || sg_type_size(sg_ty(d, 0)) != 4 || sg_type_size(t) != 4 ||
        sg_ty(d, 2) != SG_TY_U32 || (!wrap && !sg_mod(d, "clamp")) || add != (d->nops == 4))
        return sg_dec_refuse(d, NULL);
    a = sg_src(d, 1, SG_TY_B32);
    b = sg_src(d, 2, SG_TY_U32);
    if (wrap) {
        r = sg_temp(d, SG_TY_B32);
        sg_emit(d, "and.b32", r, b, sg_const32(d, 31), NONE);
        b = r;
    }
    r = add ? sg_temp(d, SG_TY_B32) : sg_dst(d, 0, SG_TY_B32);
    sg_emit(d, left ? "shl.b32" : sg_type_signed(t) ? "shr.s32" : "shr.u32", r, a, b, NONE);
    if (add)
        sg_emit(d, "add.b32", sg_dst(d, 0, SG_TY_B32), r, sg_src(d, 3, SG_TY_B32), NONE);
    return d->err;
}

/* One of the two-operand operations by which a scalar video instruction ends: sum, smaller, larger. */
static const char *second_op(struct sg_dec *d, enum sg_type t)
{
    return sg_mod(d, "add")   ? "add.b32"
           : sg_mod(d, "min") ? (sg_type_signed(t) ? "min.s32" : "min.u32")
           : sg_mod(d, "max") ? (sg_type_signed(t) ? "max.s32" : "max.u32")
                              : NULL;
}

/*
 * vadd vsub vabsdiff vmin vmax on whole registers of one signedness, without saturation: so the 33 bits
 * of the manual's intermediate result end as 32. A fourth operand is combined with the result.
 */
static int emit_vscalar(struct sg_dec *d)
{
    const enum sg_type t = sg_ty(d, 1);
    const char *base = d->oc.base + 1, *then = second_op(d, sg_ty(d, 0));
    const bool sign = sg_type_signed(t);
    uint32_t a, b, r;

    if (d->oc.ntypes != 3 || sg_type_size(sg_ty(d, 0)) != 4 || sg_type_size(t) != 4 || t != sg_ty(d, 2) ||
        sg_mod(d, "sat") || (then != NULL) != (d->nops == 4))
        return sg_dec_refuse(d, NULL);
    a = sg_src(d, 1, t);
    b = sg_src(d, 2, t);
    r = then ? sg_temp(d, SG_TY_B32) : sg_dst(d, 0, SG_TY_B32);
    if (!strcmp(base, "absdiff")) {
        const uint32_t low = sg_temp(d, SG_TY_B32), high = sg_temp(d, SG_TY_B32);

        sg_emit(d, sign ? "min.s32" : "min.u32", low, a, b, NONE);
        sg_emit(d, sign ? "max.s32" : "max.u32", high, a, b, NONE);
        sg_emit(d, "sub.b32", r, high, low, NONE);
    } else {
        char op[16];

        snprintf(op, sizeof(op), "%s.%s", base, base[0] != 'm' ? "b32" : sign ? "s32" : "u32");
        sg_emit(d, op, r, a, b, NONE);
    }
    if (then)
        sg_emit(d, then, sg_dst(d, 0, SG_TY_B32), r, sg_src(d, 3, SG_TY_B32), NONE);
    return d->err;
}

const struct sg_family sg_families_video[] = {
    {"vadd", emit_vscalar, 3, 4, 0},     {"vsub", emit_vscalar, 3, 4, 0},
    {"vmin", emit_vscalar, 3, 4, 0},     {"vmax", emit_vscalar, 3, 4, 0},
    {"vabsdiff", emit_vscalar, 3, 4, 0}, {"vshl", emit_vshift, 3, 4, 0},
    {"vshr", emit_vshift, 3, 4, 0},      {"vadd4", emit_simd, 4, 4, 0},
    {"vadd2", emit_simd, 4, 4, 0},       {"vsub4", emit_simd, 4, 4, 0},
    {"vsub2", emit_simd, 4, 4, 0},       {"vmin4", emit_simd, 4, 4, 0},
    {"vmin2", emit_simd, 4, 4, 0},       {"vmax4", emit_simd, 4, 4, 0},
    {"vmax2", emit_simd, 4, 4, 0},       {"vavrg4", emit_simd, 4, 4, 0},
    {"vavrg2", emit_simd, 4, 4, 0},      {"vabsdiff4", emit_simd, 4, 4, 0},
    {"vabsdiff2", emit_simd, 4, 4, 0},   {NULL, NULL, 0, 0, 0},
};

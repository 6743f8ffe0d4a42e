/* SPDX-License-Identifier: MIT */
/* mov: registers, vectors, and values in parts (PTX ISA 9.7.9.5). */
#include "ptx/select/select.h"

#include <stdio.h>

/* Elements of size bytes each: registers of that size, at least one of them, or constants. */
static int check_parts(struct sg_dec *d, const struct sg_opnd *v, uint32_t size)
{
    bool any = false;

    for (uint32_t i = 0; i < v->nel; i++) {
        if (v->el[i].kind == SG_O_REG && sg_type_size((enum sg_type)d->vregs[v->el[i].v].type) != size)
            return sg_dec_syntax(d, "%s: elements of %u bits expected", d->oc.full, 8 * size);
        any |= v->el[i].kind != SG_O_SINK;
    }
    return any ? 0 : sg_dec_syntax(d, "%s: no element is kept", d->oc.full);
}

/* By elements of 1, 2, 4 bytes: two of them, and four. */
static const enum sg_op pack_ops[2][3] = {{SG_OP_mov_pack_2x8, SG_OP_mov_pack_2x16, SG_OP_mov_pack_2x32},
                                          {SG_OP_mov_pack_4x8, SG_OP_mov_pack_4x16, SG_OP_NONE}};
static const enum sg_op unpack_ops[2][3] = {
    {SG_OP_mov_unpack_2x8, SG_OP_mov_unpack_2x16, SG_OP_mov_unpack_2x32},
    {SG_OP_mov_unpack_4x8, SG_OP_mov_unpack_4x16, SG_OP_NONE}};

/* mov.b64 {a, b}, x; and back */
static int emit_pack(struct sg_dec *d, enum sg_type t)
{
    bool unpack = d->ops[0].kind == SG_O_VEC;
    const struct sg_opnd *v = &d->ops[unpack ? 0 : 1];
    uint32_t size = sg_type_size(t), f[5] = {NONE, NONE, NONE, NONE, NONE}, esize;
    enum sg_type te;
    enum sg_op op;

    if (v->nel != 2 && v->nel != 4)
        return sg_dec_syntax(d, "mov: 2 or 4 elements expected");
    esize = size / v->nel;
    te = esize == 1 ? SG_TY_B8 : esize == 2 ? SG_TY_B16 : SG_TY_B32;
    if (!esize || esize > 4 || size > 8)
        return sg_dec_refuse(d, NULL);
    if (check_parts(d, v, esize))
        return d->err;
    op = (unpack ? unpack_ops : pack_ops)[v->nel == 4][esize / 2];
    if (unpack) {
        /* d b c e are written, a is read */
        f[1] = sg_src(d, 1, t);
        f[0] = sg_dst_el(d, &v->el[0], te);
        f[2] = sg_dst_el(d, &v->el[1], te);
        if (v->nel == 4) {
            f[3] = sg_dst_el(d, &v->el[2], te);
            f[4] = sg_dst_el(d, &v->el[3], te);
        }
        sg_emit_x(d, op, f, SG_F_D | SG_F_B | (v->nel == 4 ? SG_F_C | SG_F_E : 0), SG_F_A);
        return d->err;
    }
    for (uint32_t i = 0; i < v->nel; i++)
        f[i + 1] = sg_src_el(d, &v->el[i], te);
    f[0] = sg_dst(d, 0, t);
    sg_emit_x(d, op, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    return d->err;
}

/* mov.b128 d, {a, b, c, e} of 32 bits; and back */
static int emit_pack128(struct sg_dec *d)
{
    const bool unpack = d->ops[0].kind == SG_O_VEC;
    const struct sg_opnd *v = &d->ops[unpack ? 0 : 1];
    struct sg_opel half[2];

    if (check_parts(d, v, 4) || sg_halves128(d, unpack ? 1 : 0, half))
        return d->err;
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};

        if (unpack) {
            f[1] = sg_src_el(d, &half[k], SG_TY_B64);
            f[0] = sg_dst_el(d, &v->el[2 * k], SG_TY_B32);
            f[2] = sg_dst_el(d, &v->el[2 * k + 1], SG_TY_B32);
            sg_emit_x(d, SG_OP_mov_unpack_2x32, f, SG_F_D | SG_F_B, SG_F_A);
        } else {
            f[1] = sg_src_el(d, &v->el[2 * k], SG_TY_B32);
            f[2] = sg_src_el(d, &v->el[2 * k + 1], SG_TY_B32);
            f[0] = sg_dst_el(d, &half[k], SG_TY_B64);
            sg_emit_x(d, SG_OP_mov_pack_2x32, f, SG_F_D, SG_F_A | SG_F_B);
        }
    }
    return d->err;
}

/* mov.b128 d, a; d, {low, high}; {low, high}, a */
static int emit_mov128(struct sg_dec *d)
{
    struct sg_opel to[2], from[2];
    uint32_t x[2];

    for (int k = 0; k < 2; k++)
        if (d->ops[k].kind == SG_O_VEC && d->ops[k].nel == 2 && check_parts(d, &d->ops[k], 8))
            return d->err;
    if ((d->ops[0].kind == SG_O_VEC && d->ops[0].nel == 4) ||
        (d->ops[1].kind == SG_O_VEC && d->ops[1].nel == 4))
        return emit_pack128(d);
    if (sg_halves128(d, 0, to) || sg_halves128(d, 1, from))
        return d->err;
    for (int k = 0; k < 2; k++)
        x[k] = sg_src_el(d, &from[k], SG_TY_B64);
    for (int k = 0; k < 2; k++)
        sg_emit(d, SG_OP_mov_b64, sg_dst_el(d, &to[k], SG_TY_B64), x[k], NONE, NONE);
    return d->err;
}

/* mov.v2.u32 v, {a, b}; element by element, all read before any is written. */
static int emit_mov_elements(struct sg_dec *d, enum sg_type t)
{
    const struct sg_opnd *to = &d->ops[0], *from = &d->ops[1];
    const uint32_t n = sg_mod(d, "v2") ? 2 : 4;
    const enum sg_op op = sg_mov_op(t);
    uint32_t x[4];

    if (to->kind != SG_O_VEC || from->kind != SG_O_VEC || to->nel != n || from->nel != n)
        return sg_dec_syntax(d, "mov: two vectors of %u elements expected", n);
    for (uint32_t i = 0; i < n; i++) {
        const struct sg_opel *e = &from->el[i];

        x[i] = sg_src_el(d, e, t);
        for (uint32_t k = 0; k < i && e->kind == SG_O_REG; k++) {
            if (to->el[k].kind == SG_O_REG && to->el[k].v == e->v) { /* elements change places */
                x[i] = sg_temp(d, t);
                sg_emit(d, op, x[i], e->v, NONE, NONE);
                break;
            }
        }
    }
    for (uint32_t i = 0; i < n; i++)
        sg_emit(d, op, sg_dst_el(d, &to->el[i], t), x[i], NONE, NONE);
    return d->err;
}

int sg_emit_mov(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);

    if (t == SG_TY_NONE)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    if (t == SG_TY_B128)
        return emit_mov128(d);
    if (sg_mod(d, "v2") || sg_mod(d, "v4"))
        return emit_mov_elements(d, t);
    if (d->ops[0].kind == SG_O_VEC || d->ops[1].kind == SG_O_VEC)
        return emit_pack(d, t);
    return sg_op1(d, sg_mov_op(t), t, t);
}

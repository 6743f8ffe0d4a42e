/* SPDX-License-Identifier: MIT */
/* Emitters: atomics (PTX ISA 9.7.13). */
#include "ptx/select/access.h"

/* atom.cas.b128 d, [a], b, c and atom.exch.b128 d, [a], b; the last halves go into an "ext" */
static int emit_atom128(struct sg_dec *d, enum sg_variant what, const struct sg_addr *x)
{
    struct sg_opel to[2], b[2], c[2] = {{SG_O_IMM, 0, 0}, {SG_O_IMM, 0, 0}};
    bool cas = what == SG_V_CAS;
    uint32_t f[5], g[5] = {NONE, NONE, NONE, NONE, NONE}, i;

    if (!cas && what != SG_V_EXCH)
        return sg_dec_refuse(d, NULL);
    if (sg_halves128(d, 0, to) || sg_halves128(d, 2, b) || (cas && sg_halves128(d, 3, c)))
        return d->err;
    f[1] = x->op;
    f[2] = sg_src_el(d, &b[0], SG_TY_B64);
    f[3] = sg_src_el(d, &b[1], SG_TY_B64);
    g[1] = sg_src_el(d, &c[0], SG_TY_B64);
    g[2] = sg_src_el(d, &c[1], SG_TY_B64);
    f[0] = sg_dst_el(d, &to[0], SG_TY_B64);
    f[4] = sg_dst_el(d, &to[1], SG_TY_B64);
    i = sg_emit_x(d, cas ? SG_OP_atom_cas_b128 : SG_OP_atom_exch_b128, f, SG_F_D | SG_F_E,
                  SG_F_A | SG_F_B | SG_F_C);
    sg_emit_x(d, SG_OP_ext, g, 0, SG_F_A | SG_F_B);
    if (d->err)
        return d->err;
    d->insns[i].imm = x->off;
    d->insns[i].aux = sg_access_aux(SG_TY_B64, 1, x, true, true);
    return 0;
}

/* atom d, [a], b{, c} and red [a], b */
int sg_emit_atom(struct sg_dec *d)
{
    static const struct {
        const char *mod;
        enum sg_variant what;
    } ops[] = {{"add", SG_V_ADD},   {"and", SG_V_AND}, {"or", SG_V_OR},   {"xor", SG_V_XOR},
               {"exch", SG_V_EXCH}, {"cas", SG_V_CAS}, {"min", SG_V_MIN}, {"max", SG_V_MAX},
               {"inc", SG_V_INC},   {"dec", SG_V_DEC}};
    bool red = d->oc.base[0] == 'r';
    enum sg_type t = sg_ty(d, 0);
    uint32_t at = red ? 0 : 1, i, vec, f[5] = {NONE, NONE, NONE, NONE, NONE};
    enum sg_space sp;
    enum sg_variant what = SG_V_COUNT;
    enum sg_op op;
    struct sg_opel el[2][SG_MAX_VEC];
    bool spin;
    struct sg_addr x;

    sg_take_hints(d);
    sp = sg_take_space(d);
    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
        if (sg_mod(d, ops[k].mod))
            what = ops[k].what;
    if (what == SG_V_COUNT || !sg_type_size(t))
        return sg_dec_syntax(d, "%s: an operation and a type expected", d->oc.full);
    vec = sg_take_vec(d);
    if (sp == SG_SP_LOCAL || sp == SG_SP_PARAM || sp == SG_SP_CONST || (vec > 1 && what == SG_V_CAS))
        return sg_dec_refuse(d, NULL);
    spin = what == SG_V_CAS || what == SG_V_EXCH;
    if (d->nops < at + (what == SG_V_CAS ? 3 : 2))
        return sg_dec_syntax(d, "%s: too few operands", d->oc.full);
    if (what == SG_V_MIN || what == SG_V_MAX)
        op = sg_family_op(&sg_fam_atom, what, sg_type_float(t) ? t : sg_su(t));
    else
        op = sg_family_op(&sg_fam_atom, what, sg_type_float(t) && what == SG_V_ADD ? t : sg_bt(t));
    if (sg_select_address(d, at, sp, &x))
        return d->err;
    if (t == SG_TY_B128)
        return vec > 1 || red ? sg_dec_refuse(d, NULL) : emit_atom128(d, what, &x);
    if (sg_type_float(t) && what == SG_V_ADD && x.space != SG_SP_SHARED)
        d->code->ordered = true; /* shared memory is accessed by a single thread here */
    f[1] = x.op;
    if (vec > 1) { /* element by element: CUDA promises no more */
        if (sg_vector_elements(d, at + 1, vec, el[1]) || (!red && sg_vector_elements(d, 0, vec, el[0])))
            return d->err;
        for (uint32_t k = 1; k < vec && !red; k++)
            if (el[1][k].kind == SG_O_REG)
                el[1][k].v = sg_unwritten_register(d, el[1][k].v, el[0], k);
        f[1] = sg_unwritten_register(d, f[1], el[0], red ? 0 : vec - 1);
        for (uint32_t k = 0; k < vec; k++) {
            f[2] = sg_src_el(d, &el[1][k], t);
            f[0] = red ? sg_temp(d, t) : sg_dst_el(d, &el[0][k], t);
            i = sg_emit_x(d, op, f, SG_F_D, SG_F_A | SG_F_B);
            if (d->err)
                return d->err;
            d->insns[i].imm = x.off + (int64_t)(k * sg_type_size(t));
            d->insns[i].aux = sg_access_aux(t, 1, &x, true, spin);
        }
        return d->err;
    }
    f[2] = sg_src(d, at + 1, t);
    if (what == SG_V_CAS)
        f[3] = sg_src(d, at + 2, t);
    f[0] = red ? sg_temp(d, t) : sg_dst(d, 0, t);
    i = sg_emit_x(d, op, f, SG_F_D, SG_F_A | SG_F_B | SG_F_C);
    if (d->err)
        return d->err;
    d->insns[i].imm = x.off;
    d->insns[i].aux = sg_access_aux(t, 1, &x, true, spin);
    return d->err;
}

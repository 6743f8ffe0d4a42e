/* SPDX-License-Identifier: MIT */
/* Arguments and results of calls: registers, and scalars in local memory. */
#include "ptx/select/select.h"

uint32_t sg_ldst_local(struct sg_dec *d, bool store, enum sg_type t, uint32_t reg, uint32_t offset)
{
    uint32_t size = sg_type_size(t), lg = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;
    bool framed = d->proc != 0;
    uint32_t f[5] = {reg, NONE, NONE, NONE, NONE}, i;
    enum sg_op op;

    if (size != 1u << lg) {
        sg_dec_syntax(d, "%s: no argument or result of type .%s", d->oc.full, sg_type_name(t));
        return 0;
    }
    f[1] = framed ? sg_sreg(d, SG_SR_FRAME) : sg_const32(d, offset);
    op = sg_family_op(store ? &sg_fam_st : &sg_fam_ld, SG_V_LOCAL,
                      size == 8   ? SG_TY_B64
                      : size == 4 ? SG_TY_B32
                      : size == 2 ? SG_TY_U16
                                  : SG_TY_U8);
    i = sg_emit_x(d, op, f, store ? 0 : SG_F_D, store ? SG_F_D | SG_F_A : SG_F_A);
    if (!d->err && framed)
        d->insns[i].imm = offset;
    if (!d->err)
        d->insns[i].aux = SG_SP_LOCAL | lg << 3 | 1u << 6 | (store ? SG_AUX_WRITE : 0) | SG_AUX_ADDR32;
    return i;
}

uint32_t sg_call_arg(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t)
{
    struct sg_opel el = {o->kind, o->v, o->imm};
    uint32_t r;

    if (o->kind == SG_O_SYM && o->symkind == SG_K_LOCAL && !d->lvars[o->v].shared) {
        if (d->lvars[o->v].size < sg_type_size(t)) {
            sg_dec_syntax(d, "call: argument '%.*s' is too small", (int)o->name_len, o->name);
            return SG_OPND_CONST;
        }
        r = sg_temp(d, t);
        sg_ldst_local(d, false, t, r, d->lvars[o->v].offset);
        return r;
    }
    if (o->kind == SG_O_SYM)
        return sg_sym_address(d, o, t);
    if (o->kind != SG_O_REG && o->kind != SG_O_IMM && o->kind != SG_O_F32 && o->kind != SG_O_F64) {
        sg_dec_syntax(d, "call: bad argument");
        return SG_OPND_CONST;
    }
    return sg_src_el(d, &el, t);
}

enum sg_op sg_call_mov(enum sg_type t)
{
    return sg_class_of(t) == SG_C_64     ? SG_OP_mov_b64
           : sg_class_of(t) == SG_C_PRED ? SG_OP_mov_pred
                                         : SG_OP_mov_b32;
}

int sg_call_ret(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t, uint32_t reg)
{
    struct sg_opel el = {o->kind, o->v, o->imm};

    if (o->kind == SG_O_SYM && o->symkind == SG_K_LOCAL && !d->lvars[o->v].shared) {
        if (d->lvars[o->v].size < sg_type_size(t))
            return sg_dec_syntax(d, "call: return value does not fit");
        sg_ldst_local(d, true, t, reg, d->lvars[o->v].offset);
    } else {
        sg_emit(d, sg_call_mov(t), sg_dst_el(d, &el, t), reg, NONE, NONE);
    }
    return d->err;
}

/* SPDX-License-Identifier: MIT */
/* Addresses and their spaces: cvta, isspacep. */
#include "ptx/select/select.h"

const char *const sg_bulk_reductions[SG_BULK_REDUCTIONS] = {"add", "min", "max", "inc",
                                                            "dec", "and", "or",  "xor"};

/* Whether a symbol lies in the space that cvta names. */
static bool lies_in(const struct sg_dec *d, const struct sg_opnd *o, enum sg_space sp)
{
    switch (o->symkind) {
    case SG_K_GLOBAL:
        return sp == (d->m->vars[o->v].is_const ? SG_SP_CONST : SG_SP_GLOBAL);
    case SG_K_SHARED:
        return sp == SG_SP_SHARED;
    case SG_K_LOCAL:
        return d->lvars[o->v].shared ? sp == SG_SP_SHARED : sp == SG_SP_LOCAL || sp == SG_SP_PARAM;
    case SG_K_PARAM:
        return sp == SG_SP_PARAM;
    default:
        return true;
    }
}

int sg_emit_cvta(struct sg_dec *d)
{
    bool to = sg_mod(d, "to");
    enum sg_space sp = sg_take_space(d);
    enum sg_type t = sg_ty(d, 0);
    uint64_t win;
    uint32_t a, dst;

    if (t != SG_TY_U64)
        return sg_dec_refuse(d, NULL);
    if (!to && d->ops[1].kind == SG_O_SYM && !lies_in(d, &d->ops[1], sp))
        return sg_dec_syntax(d, "%s: '%.*s' lies in another space", d->oc.full, (int)d->ops[1].name_len,
                             d->ops[1].name);
    win = sp == SG_SP_SHARED ? sg_win.shared : sp == SG_SP_LOCAL ? sg_win.local : 0;
    if (d->ops[1].kind == SG_O_SYM && d->ops[1].symkind == SG_K_LOCAL && sp == SG_SP_PARAM)
        win = sg_win.local; /* a parameter of a function lies in local memory */
    a = sg_src(d, 1, t);
    dst = sg_dst(d, 0, t);
    if (!win)
        sg_emit(d, SG_OP_mov_b64, dst, a, NONE, NONE);
    else
        sg_emit(d, to ? SG_OP_sub_b64 : SG_OP_add_b64, dst, a, sg_const64(d, win), NONE);
    return d->err;
}

int sg_emit_isspacep(struct sg_dec *d)
{
    const bool cluster = sg_mod(d, "shared::cluster");
    const struct sg_opnd *o = &d->ops[1];
    enum sg_space sp = sg_take_space(d);
    uint32_t i, a, dst;

    if (sp == SG_SP_GENERIC)
        return sg_dec_syntax(d, "isspacep: a state space expected");
    if (o->kind == SG_O_REG && d->vregs[o->v].cls == SG_C_32 &&
        sg_type_size((enum sg_type)d->vregs[o->v].type) == 4) {
        a = sg_temp(d, SG_TY_U64); /* 32 bits, as ptxas */
        sg_emit(d, SG_OP_cvt_u64_u32, a, o->v, NONE, NONE);
    } else {
        a = sg_src(d, 1, SG_TY_U64);
    }
    d->code->asks_const |= sp == SG_SP_CONST || sp == SG_SP_GLOBAL;
    dst = sg_dst(d, 0, SG_TY_PRED);
    i = sg_emit(d, sp == SG_SP_SHARED ? SG_OP_isspacep_cluster : SG_OP_isspacep, dst, a, NONE, NONE);
    if (!d->err)
        d->insns[i].imm = sp == SG_SP_SHARED ? cluster : (int64_t)sp;
    return d->err;
}

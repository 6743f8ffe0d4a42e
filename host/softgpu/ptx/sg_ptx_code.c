/* SPDX-License-Identifier: MIT */
/* Resolves the operands of an instruction: registers, constants of the pool, addresses of
   symbols. */
#include "ptx/decode.h"

#include <string.h>

static uint32_t const_of(struct sg_dec *d, uint8_t kind, uint64_t imm, enum sg_type t)
{
    double f64;
    float f32;
    uint32_t u;

    if (kind == SG_O_IMM) {
        if (t == SG_TY_F32 || t == SG_TY_F64) {
            if (imm) {
                sg_dec_syntax(d, "a floating point constant expected");
                return SG_OPND_CONST;
            }
        }
        if (t == SG_TY_PRED)
            return sg_const32(d, imm ? SG_FULL : 0);
        return sg_class_of(t) == SG_C_64 ? sg_const64(d, imm) : sg_const32(d, (uint32_t)imm);
    }
    if (kind == SG_O_F32) {
        u = (uint32_t)imm;
        memcpy(&f32, &u, 4);
        f64 = (double)f32;
    } else {
        memcpy(&f64, &imm, 8);
        f32 = (float)f64;
        memcpy(&u, &f32, 4);
    }
    if (t == SG_TY_F64 || sg_class_of(t) == SG_C_64) {
        memcpy(&imm, &f64, 8);
        return sg_const64(d, imm);
    }
    return sg_const32(d, u);
}

uint32_t sg_frame_address(struct sg_dec *d, uint64_t offset, bool wide)
{
    uint32_t t = sg_temp(d, SG_TY_U32), x;

    sg_emit(d, SG_OP_add_b32, t, sg_sreg(d, SG_SR_FRAME), sg_const32(d, (uint32_t)offset), SG_OPND_NONE);
    if (!wide)
        return t;
    x = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_cvt_u64_u32, x, t, SG_OPND_NONE, SG_OPND_NONE);
    return x;
}

static uint32_t symbol_base(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t)
{
    bool wide = sg_class_of(t) == SG_C_64;
    uint64_t v;

    switch (o->symkind) {
    case SG_K_GLOBAL:
        if (!wide) {
            sg_dec_syntax(d, "the address of '%.*s' needs 64 bits", (int)o->name_len, o->name);
            return SG_OPND_CONST;
        }
        return sg_const_sym(d, o->v, (int64_t)o->imm);
    case SG_K_LOCAL:
        v = d->lvars[o->v].offset + o->imm;
        if (d->proc && !d->lvars[o->v].shared)
            return sg_frame_address(d, v, wide);
        break;
    case SG_K_SHARED:
        if (d->m->shared[o->v].unsized || !d->m->shared[o->v].size)
            return sg_const_dyn(d, wide, (int64_t)o->imm);
        v = sg_shared_offset(d, o->v) + o->imm;
        break;
    case SG_K_PARAM:
        v = sg_win.param + d->m->funcs[d->k->func].params[o->v].offset + o->imm;
        break;
    case SG_K_FUNC:
    case SG_K_ENTRY:
        v = sg_func_address(o->v) + o->imm;
        break;
    case SG_K_OPAQUE: /* a handle, even where its address is written */
        if (wide && !o->imm)
            return sg_const_opaque(d, o->v);
        sg_dec_syntax(d, "'%.*s' is a handle of 64 bits", (int)o->name_len, o->name);
        return SG_OPND_CONST;
    default:
        sg_dec_syntax(d, "'%.*s' has no address", (int)o->name_len, o->name);
        return SG_OPND_CONST;
    }
    return wide ? sg_const64(d, v) : sg_const32(d, (uint32_t)v);
}

/* a[%r]: base + %r * scale */
static uint32_t indexed_address(struct sg_dec *d, const struct sg_opnd *o, uint32_t base, bool wide)
{
    uint32_t v = o->index - 1, sum = sg_temp(d, wide ? SG_TY_U64 : SG_TY_U32);
    bool is_wide = d->vregs[v].cls == SG_C_64, is_signed = sg_type_signed((enum sg_type)d->vregs[v].type);

    if (wide != is_wide) {
        uint32_t x = sg_temp(d, wide ? SG_TY_U64 : SG_TY_U32);

        sg_emit(d,
                !wide       ? SG_OP_cvt_u32_u64
                : is_signed ? SG_OP_cvt_u64_s32
                            : SG_OP_cvt_u64_u32,
                x, v, SG_OPND_NONE, SG_OPND_NONE);
        v = x;
    }
    if (wide)
        sg_emit(d, SG_OP_mad_lo_b64, sum, v, sg_const64(d, o->scale), base);
    else
        sg_emit(d, SG_OP_mad_lo_b32, sum, v, sg_const32(d, (uint32_t)o->scale), base);
    return sum;
}

/* Address of a symbol as an operand: absolute for globals, offset in its space otherwise. */
uint32_t sg_sym_address(struct sg_dec *d, const struct sg_opnd *o, enum sg_type t)
{
    uint32_t base = symbol_base(d, o, t);

    return o->index && !d->err ? indexed_address(d, o, base, sg_class_of(t) == SG_C_64) : base;
}

static uint32_t sreg_src(struct sg_dec *d, uint32_t sr, enum sg_type type)
{
    static const enum sg_op ops[] = {
        [SG_SR_CLOCK - SG_SR_CLOCK] = SG_OP_sreg_clock,
        [SG_SR_CLOCK_HI - SG_SR_CLOCK] = SG_OP_sreg_clock_hi,
        [SG_SR_CLOCK64 - SG_SR_CLOCK] = SG_OP_sreg_clock64,
        [SG_SR_GLOBALTIMER - SG_SR_CLOCK] = SG_OP_sreg_globaltimer,
        [SG_SR_GLOBALTIMER_LO - SG_SR_CLOCK] = SG_OP_sreg_globaltimer_lo,
        [SG_SR_GLOBALTIMER_HI - SG_SR_CLOCK] = SG_OP_sreg_globaltimer_hi,
        [SG_SR_GRAPH_EXEC - SG_SR_CLOCK] = SG_OP_sreg_current_graph_exec,
    };
    bool wide =
        sr == SG_SR_CLOCK64 || sr == SG_SR_GLOBALTIMER || sr == SG_SR_GRAPH_EXEC || sr == SG_SR_ZERO64;
    const int cls = sg_class_of(type);
    uint32_t t, x;

    if (sr == SG_SR_EXPLICIT_CLUSTER && cls == SG_C_PRED) {
        t = sg_temp(d, SG_TY_PRED);
        sg_emit(d, SG_OP_setp_ne_b32, t, sg_sreg(d, sr), sg_const32(d, 0), SG_OPND_NONE);
        return t;
    }
    if (sg_type_float(type) || cls == SG_C_PRED || (wide != (cls == SG_C_64) && sr != SG_SR_GRIDID)) {
        sg_dec_syntax(d, "%s: a special register of %u bits as .%s", d->oc.full, wide ? 64 : 32,
                      sg_type_name(type));
        return SG_OPND_CONST;
    }
    if (sr == SG_SR_ZERO64)
        return sg_const64(d, 0);
    if (sr >= SG_SR_CLOCK) {
        t = sg_temp(d, wide ? SG_TY_U64 : SG_TY_U32);
        sg_emit(d, ops[sr - SG_SR_CLOCK], t, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE);
        x = t;
    } else {
        wide = false;
        x = sg_sreg(d, sr);
    }
    if (wide == (cls == SG_C_64))
        return x;
    t = sg_temp(d, SG_TY_U64); /* %gridid */
    sg_emit(d, SG_OP_cvt_u64_u32, t, x, SG_OPND_NONE, SG_OPND_NONE);
    return t;
}

static uint32_t reg_src(struct sg_dec *d, uint32_t v, enum sg_type t, uint8_t kind)
{
    if (d->vregs[v].cls != sg_class_of(t)) {
        sg_dec_syntax(d, "%s: operand of type .%s where .%s is expected", d->oc.full,
                      sg_type_name((enum sg_type)d->vregs[v].type), sg_type_name(t));
        return SG_OPND_CONST;
    }
    (void)kind;
    return v;
}

int sg_halves128(struct sg_dec *d, uint32_t i, struct sg_opel el[2])
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind == SG_O_VEC && o->nel == 2) {
        memcpy(el, o->el, 2 * sizeof(el[0]));
        return d->err;
    }
    if (o->kind == SG_O_SINK || (o->kind == SG_O_REG && d->vregs[o->v].type == SG_TY_B128)) {
        el[0] = (struct sg_opel){o->kind, o->v + 1, 0};
        el[1] = (struct sg_opel){o->kind, o->v + 2, 0};
        return d->err;
    }
    return sg_dec_syntax(d, "%s: operand %u is no register of 128 bits", d->oc.full, i + 1);
}

uint32_t sg_src_el(struct sg_dec *d, const struct sg_opel *el, enum sg_type t)
{
    switch (el->kind) {
    case SG_O_REG:
        return reg_src(d, el->v, t, el->kind);
    case SG_O_SREG:
        return sreg_src(d, el->v, t);
    case SG_O_SINK:
        return sg_class_of(t) == SG_C_64 ? sg_const64(d, 0) : sg_const32(d, 0);
    default:
        return const_of(d, el->kind, el->imm, t);
    }
}

uint32_t sg_dst_el(struct sg_dec *d, const struct sg_opel *el, enum sg_type t)
{
    if (el->kind == SG_O_SINK)
        return sg_temp(d, t);
    if (el->kind != SG_O_REG) {
        sg_dec_syntax(d, "%s: a register expected as destination", d->oc.full);
        return sg_temp(d, t);
    }
    return reg_src(d, el->v, t, el->kind);
}

uint32_t sg_src(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    const struct sg_opnd *o = &d->ops[i];
    struct sg_opel el = {o->kind, o->v, o->imm};
    uint32_t x, y;

    if (i >= d->nops) {
        sg_dec_syntax(d, "%s: too few operands", d->oc.full);
        return SG_OPND_CONST;
    }
    if (o->kind == SG_O_SYM)
        return sg_sym_address(d, o, t);
    if (o->kind == SG_O_ADDR || o->kind == SG_O_VEC || o->kind == SG_O_LIST || o->kind == SG_O_NAME ||
        o->kind == SG_O_SINK) {
        sg_dec_syntax(d, "%s: operand %u is not a register or constant%s%.*s", d->oc.full, i + 1,
                      o->kind == SG_O_NAME ? ": unknown name " : "",
                      o->kind == SG_O_NAME ? (int)o->name_len : 0, o->name ? o->name : "");
        return SG_OPND_CONST;
    }
    x = sg_src_el(d, &el, t);
    if (o->neg) {
        if (t != SG_TY_PRED) {
            sg_dec_syntax(d, "%s: '!' needs a predicate", d->oc.full);
            return x;
        }
        y = sg_temp(d, SG_TY_PRED);
        sg_emit(d, SG_OP_not_pred, y, x, SG_OPND_NONE, SG_OPND_NONE);
        return y;
    }
    return x;
}

uint32_t sg_dst(struct sg_dec *d, uint32_t i, enum sg_type t)
{
    struct sg_opel el = {d->ops[i].kind, d->ops[i].v, 0};

    return sg_dst_el(d, &el, t);
}

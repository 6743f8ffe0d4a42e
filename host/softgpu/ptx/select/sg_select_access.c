/* SPDX-License-Identifier: MIT */
/* Parts of memory instructions: modifiers, addresses, loads and stores of elements. */
#include "ptx/select/access.h"

static const char *const hints[] = {
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "nc",
    "wb",
    "wt",
    "weak",
    "cta",
    "gpu",
    "sys",
    "cluster",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::evict_normal",
    "L2::evict_first",
    "L2::evict_last",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::cache_hint",
    "release",
    "acq_rel",
    "sc",
    "noftz",
};

bool sg_take_hints(struct sg_dec *d)
{
    bool spin;

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        sg_mod(d, hints[i]);
    spin = sg_mod(d, "volatile");
    spin |= sg_mod(d, "relaxed");
    spin |= sg_mod(d, "acquire");
    spin |= sg_mod(d, "mmio");
    return spin;
}

enum sg_space sg_take_space(struct sg_dec *d)
{
    if (sg_mod(d, "global"))
        return SG_SP_GLOBAL;
    if (sg_mod(d, "shared") || sg_mod(d, "shared::cta") || sg_mod(d, "shared::cluster"))
        return SG_SP_SHARED; /* one window for the block's and the cluster's shared memory */
    if (sg_mod(d, "local"))
        return SG_SP_LOCAL;
    if (sg_mod(d, "param") || sg_mod(d, "param::entry") || sg_mod(d, "param::func"))
        return SG_SP_PARAM;
    if (sg_mod(d, "const"))
        return SG_SP_CONST;
    return SG_SP_GENERIC;
}

int sg_select_address(struct sg_dec *d, uint32_t i, enum sg_space sp, struct sg_addr *x)
{
    struct sg_opnd o = d->ops[i];
    struct sg_pdecl *p;

    memset(x, 0, sizeof(*x));
    x->space = sp;
    if (o.kind == SG_O_SYM && o.element && (!strcmp(d->oc.base, "ld") || !strcmp(d->oc.base, "st"))) {
        o.kind = SG_O_ADDR;
        o.base = SG_O_SYM;
    }
    if (o.kind != SG_O_ADDR)
        return sg_dec_syntax(d, "%s: an address expected", d->oc.full);
    if (o.base == SG_O_SYM && o.symkind == SG_K_PARAM && sp == SG_SP_PARAM) {
        p = &d->m->funcs[d->k->func].params[o.v];
        if (o.index)
            return sg_dec_refuse(d, "parameters are not indexed by registers here");
        x->uniform_param = true;
        x->off = (int64_t)(p->offset + o.imm);
        return 0;
    }
    if (o.base == SG_O_SYM && o.symkind == SG_K_LOCAL && sp == SG_SP_PARAM)
        x->space = sp = SG_SP_LOCAL;
    x->narrow = sp == SG_SP_SHARED || sp == SG_SP_LOCAL;
    if (o.base == SG_O_SYM) {
        if (sp == SG_SP_GENERIC && (o.symkind == SG_K_SHARED || o.symkind == SG_K_LOCAL)) {
            bool shared = o.symkind == SG_K_SHARED || d->lvars[o.v].shared;

            x->narrow = true;
            x->space = shared ? SG_SP_SHARED : SG_SP_LOCAL;
        }
        x->op = sg_sym_address(d, &o, x->narrow ? SG_TY_U32 : SG_TY_U64);
        return d->err;
    }
    if (o.base == SG_O_NONE && !x->narrow && sp != SG_SP_PARAM)
        return sg_dec_syntax(d, "%s: a number is no address of this space", d->oc.full);
    if (o.base == SG_O_NONE) {
        x->op = x->narrow ? sg_const32(d, (uint32_t)o.imm) : sg_const64(d, o.imm);
        return d->err;
    }
    x->op = o.v;
    x->off = (int64_t)o.imm;
    if (d->vregs[o.v].cls != SG_C_32 && d->vregs[o.v].cls != SG_C_64)
        return sg_dec_syntax(d, "%s: a register of this type is no address", d->oc.full);
    if (x->narrow && d->vregs[o.v].cls == SG_C_64) {
        /* The sum must be inside: the register alone may point before the variable. */
        x->op = sg_temp(d, SG_TY_U32);
        if (x->off)
            sg_emit(d, SG_OP_add_sat_u32_u64, x->op, o.v, sg_const64(d, (uint64_t)x->off), NONE);
        else
            sg_emit(d, SG_OP_narrow_address, x->op, o.v, NONE, NONE);
        x->off = 0;
    } else if (!x->narrow && sg_type_size((enum sg_type)d->vregs[o.v].type) < 4) {
        x->op = sg_temp(d, SG_TY_U64); /* as ptxas, which takes 8 and 16 bits, and no 32 */
        sg_emit(d, sg_type_size((enum sg_type)d->vregs[o.v].type) == 1 ? SG_OP_cvt_u64_u8 : SG_OP_cvt_u64_u16,
                x->op, o.v, NONE, NONE);
    } else if (!x->narrow && d->vregs[o.v].cls == SG_C_32) {
        return sg_dec_syntax(d, "%s: an address of this space has 64 bits", d->oc.full);
    }
    return d->err;
}

/* The variant of an access to vec elements, 1, 2 or 4. */
static enum sg_variant access_variant(const struct sg_addr *x, uint32_t vec)
{
    static const enum sg_variant of[] = {[1] = SG_V_GLOBAL, [2] = SG_V_GLOBAL_V2, [4] = SG_V_GLOBAL_V4};
    const enum sg_variant space = x->uniform_param           ? SG_V_PARAM
                                  : x->space == SG_SP_SHARED ? SG_V_SHARED
                                  : x->space == SG_SP_LOCAL  ? SG_V_LOCAL
                                                             : SG_V_GLOBAL;

    return (enum sg_variant)(of[vec] + (space - SG_V_GLOBAL));
}

uint32_t sg_access_aux(enum sg_type t, uint32_t vec, const struct sg_addr *x, bool write, bool spin)
{
    uint32_t size = sg_type_size(t), lg = size == 8 ? 3 : size == 4 ? 2 : size == 2 ? 1 : 0;

    return (uint32_t)x->space | lg << 3 | (sg_type_signed(t) ? SG_AUX_SIGNED : 0) | vec << 6 |
           (write ? SG_AUX_WRITE : 0) | (spin ? SG_AUX_SPIN : 0) | (x->narrow ? SG_AUX_ADDR32 : 0);
}

static enum sg_type element_type(enum sg_type t, bool load)
{
    switch (sg_type_size(t)) {
    case 1:
        return load && t == SG_TY_S8 ? SG_TY_S8 : SG_TY_U8;
    case 2:
        return load && t == SG_TY_S16 ? SG_TY_S16 : SG_TY_U16;
    case 4:
        return SG_TY_B32;
    default:
        return SG_TY_B64;
    }
}

uint32_t sg_take_vec(struct sg_dec *d)
{
    return sg_mod(d, "v2") ? 2 : sg_mod(d, "v4") ? 4 : sg_mod(d, "v8") ? 8 : 1;
}

int sg_select_load(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   const struct sg_addr *x, bool spin)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, i, wide[4], size = sg_type_size(t);
    uint32_t *const dst[4] = {&f[0], &f[2], &f[3], &f[4]};
    struct sg_opel words[2];
    enum sg_op op;

    /* Each element is constant during the launch, which hoisting knows of this instruction. */
    if (x->uniform_param && vec > 1) {
        struct sg_addr part = *x;

        for (uint32_t k = 0; k < vec && !d->err; k++, part.off += size)
            sg_select_load(d, t, 1, &el[k], &part, spin);
        return d->err;
    }
    if (sg_pair_words(d, t, vec, el, words))
        return sg_select_load(d, SG_TY_B32, vec / 2, words, x, spin) ? d->err
                                                                     : sg_pair_split(d, t, vec, el, words);
    for (uint32_t k = 0; k < vec; k++) {
        wide[k] = NONE;
        if (el[k].kind == SG_O_REG && d->vregs[el[k].v].cls == SG_C_64 && size < 8) {
            wide[k] = el[k].v;
            *dst[k] = sg_temp(d, SG_TY_U32);
        } else {
            *dst[k] = sg_dst_el(d, &el[k], t);
        }
    }
    if (vec > 1 && (size < 4 || (vec == 4 && size == 8)))
        op = SG_OP_ld_slow;
    else
        op = sg_family_op(&sg_fam_ld, access_variant(x, vec), element_type(t, true));
    f[1] = x->uniform_param ? NONE : x->op;
    i = sg_emit_x(d, op, f, SG_F_D | SG_F_B | SG_F_C | SG_F_E, SG_F_A);
    if (d->err)
        return d->err;
    d->insns[i].imm = x->off;
    d->insns[i].aux = sg_access_aux(t, vec, x, false, spin);
    for (uint32_t k = 0; k < vec; k++)
        if (wide[k] != NONE)
            sg_emit(d, sg_paired_op(&sg_pairs_cvt, SG_TY_U64, sg_su(t)), wide[k], *dst[k], NONE, NONE);
    return d->err;
}

void sg_check_whole(struct sg_dec *d, enum sg_type t, const struct sg_addr *x, bool write)
{
    uint32_t i;

    if (x->uniform_param) /* an offset that is known */
        return;
    i = sg_emit(d, SG_OP_whole_aligned, NONE, x->op, NONE, NONE);
    if (d->err)
        return;
    d->insns[i].imm = x->off;
    d->insns[i].aux = sg_access_aux(t, 4, x, write, false);
}

int sg_vector_elements(struct sg_dec *d, uint32_t i, uint32_t vec, struct sg_opel el[SG_MAX_VEC])
{
    const struct sg_opnd *o = &d->ops[i];

    if (vec == 1 && o->kind != SG_O_VEC) {
        el[0] = (struct sg_opel){o->kind, o->v, o->imm};
        return 0;
    }
    if (o->kind != SG_O_VEC || o->nel != vec)
        return sg_dec_syntax(d, "%s: %u registers expected", d->oc.full, vec);
    memcpy(el, o->el, vec * sizeof(el[0]));
    return 0;
}

int sg_select_store(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                    const struct sg_addr *x, bool spin)
{
    uint32_t f[5] = {NONE, x->op, NONE, NONE, NONE}, i, size = sg_type_size(t);
    uint32_t *const src[4] = {&f[0], &f[2], &f[3], &f[4]};
    struct sg_opel words[2];
    enum sg_op op;

    if (sg_pair_words(d, t, vec, el, words))
        return sg_pair_join(d, t, vec, el, words) ? d->err
                                                  : sg_select_store(d, SG_TY_B32, vec / 2, words, x, spin);
    if (sg_bytes_join(d, t, vec, el, words))
        return d->err ? d->err : sg_select_store(d, vec == 4 ? SG_TY_B32 : SG_TY_B16, 1, words, x, spin);
    for (uint32_t k = 0; k < vec; k++) {
        if (el[k].kind == SG_O_REG && d->vregs[el[k].v].cls == SG_C_64 && size < 8) {
            *src[k] = sg_temp(d, SG_TY_U32);
            sg_emit(d, SG_OP_cvt_u32_u64, *src[k], el[k].v, NONE, NONE);
        } else if (vec == 1 && d->ops[1].kind == SG_O_SYM) {
            *src[k] = sg_src(d, 1, t);
        } else {
            *src[k] = sg_src_el(d, &el[k], t);
        }
    }
    op = vec > 1 && (size < 4 || (vec == 4 && size == 8))
             ? SG_OP_st_slow
             : sg_family_op(&sg_fam_st, access_variant(x, vec), element_type(t, false));
    i = sg_emit_x(d, op, f, 0, SG_F_D | SG_F_A | SG_F_B | SG_F_C | SG_F_E);
    if (d->err)
        return d->err;
    d->insns[i].imm = x->off;
    d->insns[i].aux = sg_access_aux(t, vec, x, true, spin);
    return d->err;
}

uint32_t sg_flat_address(struct sg_dec *d, uint32_t i, enum sg_space sp)
{
    struct sg_addr x;
    uint32_t r;

    if (sg_select_address(d, i, sp, &x))
        return SG_OPND_CONST;
    if (!x.off)
        return x.op;
    r = sg_temp(d, x.narrow ? SG_TY_U32 : SG_TY_U64);
    if (x.narrow)
        sg_emit(d, SG_OP_add_b32, r, x.op, sg_const32(d, (uint32_t)x.off), NONE);
    else
        sg_emit(d, SG_OP_add_b64, r, x.op, sg_const64(d, (uint64_t)x.off), NONE);
    return r;
}

int sg_mbar_op(struct sg_dec *d, enum sg_op op, uint32_t dst, uint32_t at, uint32_t value, enum sg_space sp)
{
    uint32_t f[5] = {dst, NONE, value, NONE, NONE}, i;
    struct sg_addr x;

    if (sg_select_address(d, at, sp, &x))
        return d->err;
    f[1] = x.op;
    i = sg_emit_x(d, op, f, dst == NONE ? 0 : SG_F_D, SG_F_A | SG_F_B);
    if (d->err)
        return d->err;
    d->insns[i].imm = x.off;
    d->insns[i].aux = sg_access_aux(SG_TY_B64, 1, &x, true, false);
    return 0;
}

int sg_store_shared(struct sg_dec *d, uint32_t to, uint32_t from, enum sg_type t, uint32_t vec)
{
    struct sg_opel el[SG_MAX_VEC];
    struct sg_addr x;

    if (sg_select_address(d, to, SG_SP_SHARED, &x) || sg_vector_elements(d, from, vec, el))
        return d->err;
    return sg_select_store(d, t, vec, el, &x, false);
}

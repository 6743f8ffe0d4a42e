/* SPDX-License-Identifier: MIT */
/* Emitters: loads, stores, atomics, address conversion (PTX ISA 9.7.9, 9.7.13). */
#include "ptx/select/select.h"

#include "ptx/constant.h"

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

/* Reads the modifiers that have no effect on accesses here. Returns true if the access may be
   part of a spin loop. */
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

struct addr {
    uint32_t op;
    int64_t off;
    enum sg_space space; /* space of the access: may differ from the written space */
    bool uniform_param;  /* kernel parameter at a constant offset */
    bool narrow;         /* 32-bit address */
};

static int select_address(struct sg_dec *d, uint32_t i, enum sg_space sp, struct addr *x)
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
static enum sg_variant access_variant(const struct addr *x, uint32_t vec)
{
    static const enum sg_variant of[] = {[1] = SG_V_GLOBAL, [2] = SG_V_GLOBAL_V2, [4] = SG_V_GLOBAL_V4};
    const enum sg_variant space = x->uniform_param           ? SG_V_PARAM
                                  : x->space == SG_SP_SHARED ? SG_V_SHARED
                                  : x->space == SG_SP_LOCAL  ? SG_V_LOCAL
                                                             : SG_V_GLOBAL;

    return (enum sg_variant)(of[vec] + (space - SG_V_GLOBAL));
}

static uint32_t make_aux(enum sg_type t, uint32_t vec, const struct addr *x, bool write, bool spin)
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

static uint32_t take_vec(struct sg_dec *d)
{
    return sg_mod(d, "v2") ? 2 : sg_mod(d, "v4") ? 4 : sg_mod(d, "v8") ? 8 : 1;
}

/* A load of up to 4 elements. */
static int select_load(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                       const struct addr *x, bool spin)
{
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, i, wide[4], size = sg_type_size(t);
    uint32_t *const dst[4] = {&f[0], &f[2], &f[3], &f[4]};
    struct sg_opel words[2];
    enum sg_op op;

    /* Each element is constant during the launch, which hoisting knows of this instruction. */
    if (x->uniform_param && vec > 1) {
        struct addr part = *x;

        for (uint32_t k = 0; k < vec && !d->err; k++, part.off += size)
            select_load(d, t, 1, &el[k], &part, spin);
        return d->err;
    }
    if (sg_pair_words(d, t, vec, el, words))
        return select_load(d, SG_TY_B32, vec / 2, words, x, spin) ? d->err
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
    d->insns[i].aux = make_aux(t, vec, x, false, spin);
    for (uint32_t k = 0; k < vec; k++)
        if (wide[k] != NONE)
            sg_emit(d, sg_paired_op(&sg_pairs_cvt, SG_TY_U64, sg_su(t)), wide[k], *dst[k], NONE, NONE);
    return d->err;
}

/* A vector of two halves: its address is aligned to both together. */
static void check_whole(struct sg_dec *d, enum sg_type t, const struct addr *x, bool write)
{
    uint32_t i;

    if (x->uniform_param) /* an offset that is known */
        return;
    i = sg_emit(d, SG_OP_whole_aligned, NONE, x->op, NONE, NONE);
    if (d->err)
        return;
    d->insns[i].imm = x->off;
    d->insns[i].aux = make_aux(t, 4, x, write, false);
}

/* The registers of a vector operand, or the single register. */
static int vector_elements(struct sg_dec *d, uint32_t i, uint32_t vec, struct sg_opel el[SG_MAX_VEC])
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

static int emit_ld(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool spin = sg_take_hints(d);
    enum sg_space sp = sg_take_space(d);
    uint32_t vec = take_vec(d), size = sg_type_size(t);
    struct sg_opel el[SG_MAX_VEC];
    struct addr x;

    if (!size)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    if (t == SG_TY_B128 && vec == 1) { /* its two halves, aligned to 16 bytes */
        if (select_address(d, 1, sp, &x) || sg_halves128(d, 0, el))
            return d->err;
        t = SG_TY_B64;
        vec = 2;
        size = 8;
    } else if (size > 8 || (vec == 8 && size != 4)) {
        return sg_dec_refuse(d, NULL);
    } else if (select_address(d, 1, sp, &x) || vector_elements(d, 0, vec, el)) {
        return d->err;
    }
    if (x.uniform_param && (x.off < 0 || (uint64_t)x.off + size * vec > d->k->param_bytes))
        return sg_dec_syntax(d, "%s: outside the parameters", d->oc.full);
    if (vec < 8)
        return select_load(d, t, vec, el, &x, spin);
    check_whole(d, t, &x, false);
    x.op = sg_unwritten_register(d, x.op, el, 4);
    select_load(d, t, 4, el, &x, spin); /* 32 bytes in two halves */
    x.off += 16;
    return select_load(d, t, 4, el + 4, &x, spin);
}

/* A store of up to 4 elements. */
static int select_store(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                        const struct addr *x, bool spin)
{
    uint32_t f[5] = {NONE, x->op, NONE, NONE, NONE}, i, size = sg_type_size(t);
    uint32_t *const src[4] = {&f[0], &f[2], &f[3], &f[4]};
    struct sg_opel words[2];
    enum sg_op op;

    if (sg_pair_words(d, t, vec, el, words))
        return sg_pair_join(d, t, vec, el, words) ? d->err
                                                  : select_store(d, SG_TY_B32, vec / 2, words, x, spin);
    if (sg_bytes_join(d, t, vec, el, words))
        return d->err ? d->err : select_store(d, vec == 4 ? SG_TY_B32 : SG_TY_B16, 1, words, x, spin);
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
    d->insns[i].aux = make_aux(t, vec, x, true, spin);
    return d->err;
}

static int emit_st(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool spin = sg_take_hints(d);
    enum sg_space sp;
    uint32_t vec, size = sg_type_size(t);
    struct sg_opel el[SG_MAX_VEC];
    struct addr x;

    for (uint32_t k = 0; k < d->oc.nmods; k++)
        if (!strcmp(d->oc.mods[k], "async"))
            return sg_emit_st_async(d);
    if (sg_mod(d, "bulk"))
        return sg_dec_refuse(d, NULL);
    sp = sg_take_space(d);
    vec = take_vec(d);
    if (!size)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    if (t == SG_TY_B128 && vec == 1 && sp != SG_SP_CONST) {
        if (select_address(d, 0, sp, &x) || sg_halves128(d, 1, el))
            return d->err;
        t = SG_TY_B64;
        vec = 2;
    } else if (size > 8 || (vec == 8 && size > 4) || sp == SG_SP_CONST) {
        return sg_dec_refuse(d, NULL);
    } else if (select_address(d, 0, sp, &x) || vector_elements(d, 1, vec, el)) {
        return d->err;
    }
    if (x.uniform_param)
        return sg_dec_syntax(d, "%s: kernel parameters cannot be written", d->oc.full);
    if (vec < 8)
        return select_store(d, t, vec, el, &x, spin);
    check_whole(d, t, &x, true);
    select_store(d, t, 4, el, &x, spin);
    x.off += 4 * size;
    return select_store(d, t, 4, el + 4, &x, spin);
}

/* atom.cas.b128 d, [a], b, c and atom.exch.b128 d, [a], b; the last halves go into an "ext" */
static int emit_atom128(struct sg_dec *d, enum sg_variant what, const struct addr *x)
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
    d->insns[i].aux = make_aux(SG_TY_B64, 1, x, true, true);
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
    struct addr x;

    sg_take_hints(d);
    sp = sg_take_space(d);
    for (size_t k = 0; k < sizeof(ops) / sizeof(ops[0]); k++)
        if (sg_mod(d, ops[k].mod))
            what = ops[k].what;
    if (what == SG_V_COUNT || !sg_type_size(t))
        return sg_dec_syntax(d, "%s: an operation and a type expected", d->oc.full);
    vec = take_vec(d);
    if (sp == SG_SP_LOCAL || sp == SG_SP_PARAM || sp == SG_SP_CONST || (vec > 1 && what == SG_V_CAS))
        return sg_dec_refuse(d, NULL);
    spin = what == SG_V_CAS || what == SG_V_EXCH;
    if (d->nops < at + (what == SG_V_CAS ? 3 : 2))
        return sg_dec_syntax(d, "%s: too few operands", d->oc.full);
    if (what == SG_V_MIN || what == SG_V_MAX)
        op = sg_family_op(&sg_fam_atom, what, sg_type_float(t) ? t : sg_su(t));
    else
        op = sg_family_op(&sg_fam_atom, what, sg_type_float(t) && what == SG_V_ADD ? t : sg_bt(t));
    if (select_address(d, at, sp, &x))
        return d->err;
    if (t == SG_TY_B128)
        return vec > 1 || red ? sg_dec_refuse(d, NULL) : emit_atom128(d, what, &x);
    if (sg_type_float(t) && what == SG_V_ADD && x.space != SG_SP_SHARED)
        d->code->ordered = true; /* shared memory is accessed by a single thread here */
    f[1] = x.op;
    if (vec > 1) { /* element by element: CUDA promises no more */
        if (vector_elements(d, at + 1, vec, el[1]) || (!red && vector_elements(d, 0, vec, el[0])))
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
            d->insns[i].aux = make_aux(t, 1, &x, true, spin);
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
    d->insns[i].aux = make_aux(t, 1, &x, true, spin);
    return d->err;
}

/* Hints that have nothing to do here: prefetch, discard, applypriority. */
static int emit_hint(struct sg_dec *d)
{
    sg_take_hints(d);
    sg_take_space(d);
    sg_mod(d, "L1");
    sg_mod(d, "L2");
    sg_mod(d, "tensormap");
    return d->err;
}

static int emit_createpolicy(struct sg_dec *d)
{
    for (uint32_t i = 0; i < d->oc.nmods; i++)
        d->oc.used[i] = true;
    if (sg_mod(d, "fractional") && d->nops > 1 && d->ops[1].kind != SG_O_REG) {
        const struct sg_const c = {d->ops[1].kind == SG_O_F32 ? SG_CONST_F32 : SG_CONST_F64, d->ops[1].imm};
        const double part = sg_const_double(&c);

        if ((d->ops[1].kind != SG_O_F32 && d->ops[1].kind != SG_O_F64) || !(part > 0 && part <= 1))
            return sg_dec_syntax(d, "%s: a part above 0 and up to 1 expected", d->oc.full);
    }
    sg_emit(d, SG_OP_mov_b64, sg_dst(d, 0, SG_TY_B64), sg_const64(d, 0), NONE, NONE);
    return d->err;
}

uint32_t sg_flat_address(struct sg_dec *d, uint32_t i, enum sg_space sp)
{
    struct addr x;
    uint32_t r;

    if (select_address(d, i, sp, &x))
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
    struct addr x;

    if (select_address(d, at, sp, &x))
        return d->err;
    f[1] = x.op;
    i = sg_emit_x(d, op, f, dst == NONE ? 0 : SG_F_D, SG_F_A | SG_F_B);
    if (d->err)
        return d->err;
    d->insns[i].imm = x.off;
    d->insns[i].aux = make_aux(SG_TY_B64, 1, &x, true, false);
    return 0;
}

int sg_store_shared(struct sg_dec *d, uint32_t to, uint32_t from, enum sg_type t, uint32_t vec)
{
    struct sg_opel el[SG_MAX_VEC];
    struct addr x;

    if (select_address(d, to, SG_SP_SHARED, &x) || vector_elements(d, from, vec, el))
        return d->err;
    return select_store(d, t, vec, el, &x, false);
}

/* cp.async: completes at once, so waiting for it does nothing. */
static int emit_cp(struct sg_dec *d)
{
    static const char *const ignore[] = {"shared", "shared::cta", "global"};
    struct addr x, y;
    uint32_t i, n = NONE, f[5] = {NONE, NONE, NONE, NONE, NONE};

    for (uint32_t k = 0; k < d->oc.nmods; k++) {
        if (!strcmp(d->oc.mods[k], "tensor"))
            return sg_dec_refuse(d, "tensor copies are not available");
        if (!strcmp(d->oc.mods[k], "bulk"))
            return sg_emit_bulk(d);
    }
    if (!sg_mod(d, "async"))
        return sg_dec_refuse(d, NULL);
    sg_take_hints(d);
    if (sg_mod(d, "mbarrier") && sg_mod(d, "arrive") && d->nops == 1) {
        enum sg_space sp = sg_take_space(d);

        if (d->ops[0].base == SG_O_REG && sg_type_size((enum sg_type)d->vregs[d->ops[0].v].type) == 4)
            sp = SG_SP_SHARED;  /* ptxas accepts 32 bits in every space */
        if (sg_mod(d, "noinc")) /* the copies are done: this is their arrival */
            return sg_mbar_op(d, SG_OP_mbar_arrive, sg_temp(d, SG_TY_B64), 0, sg_const32(d, 1), sp);
        return d->err; /* expects one more arrival, which has already happened */
    }
    if (sg_mod(d, "commit_group") || sg_mod(d, "wait_group") || sg_mod(d, "wait_all")) {
        sg_emit(d, SG_OP_fence, NONE, NONE, NONE, NONE);
        return d->err;
    }
    for (int k = 0; k < 3; k++)
        sg_mod(d, ignore[k]);
    if (d->nops < 3 || d->ops[2].kind != SG_O_IMM ||
        (d->ops[2].imm != 4 && d->ops[2].imm != 8 && d->ops[2].imm != 16))
        return sg_dec_syntax(d, "cp.async: a size of 4, 8 or 16 expected");
    if (select_address(d, 0, SG_SP_SHARED, &x) || select_address(d, 1, SG_SP_GLOBAL, &y))
        return d->err;
    if (d->nops > 3 && d->ops[3].kind == SG_O_REG && d->vregs[d->ops[3].v].cls == SG_C_PRED) {
        n = sg_temp(d, SG_TY_U32); /* ignore-src: nothing is read, all is zero */
        sg_emit(d, SG_OP_selp_b32, n, sg_const32(d, 0), sg_const32(d, (uint32_t)d->ops[2].imm),
                sg_src(d, 3, SG_TY_PRED));
    } else if (d->nops > 3 && !(d->ops[3].kind == SG_O_REG && d->vregs[d->ops[3].v].cls == SG_C_64)) {
        n = sg_src(d, 3, SG_TY_U32);
    }
    /* folds in the offsets: the handler supports only one */
    f[0] = sg_temp(d, SG_TY_U32);
    sg_emit(d, SG_OP_add_b32, f[0], x.op, sg_const32(d, (uint32_t)x.off), NONE);
    f[1] = y.op;
    f[2] = n == NONE ? sg_const32(d, (uint32_t)d->ops[2].imm) : n;
    i = sg_emit_x(d, SG_OP_cp_async, f, 0, SG_F_D | SG_F_A | SG_F_B);
    if (d->err)
        return d->err;
    d->insns[i].imm = y.off;
    d->insns[i].aux = (uint32_t)d->ops[2].imm;
    return d->err;
}

const struct sg_family sg_families_mem[] = {
    {"ld", emit_ld, 2, 3, 0, NULL},
    {"ldu", emit_ld, 2, 2, 0, NULL},
    {"st", emit_st, 2, 3, 0, NULL},
    {"atom", sg_emit_atom, 3, 5, 0, NULL},
    {"red", sg_emit_red, 2, 3, 0, NULL},
    {"cvta", sg_emit_cvta, 2, 2, 0, NULL},
    {"isspacep", sg_emit_isspacep, 2, 2, 0, NULL},
    {"prefetch", emit_hint, 1, 1, 0, NULL},
    {"prefetchu", emit_hint, 1, 1, 0, NULL},
    {"discard", emit_hint, 1, 2, 0, NULL},
    {"applypriority", emit_hint, 1, 2, 0, NULL},
    {"createpolicy", emit_createpolicy, 1, 5, 0, NULL},
    {"cp", emit_cp, 0, 5, 0, NULL},
    {"mbarrier", sg_emit_mbarrier, 1, 4, 0, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};

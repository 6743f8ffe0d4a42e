/* SPDX-License-Identifier: MIT */
/* Emitters: loads, stores, cp.async, hints (PTX ISA 9.7.9). */
#include "ptx/select/access.h"

#include "ptx/constant.h"

static int emit_ld(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool spin = sg_take_hints(d);
    enum sg_space sp = sg_take_space(d);
    uint32_t vec = sg_take_vec(d), size = sg_type_size(t);
    struct sg_opel el[SG_MAX_VEC];
    struct sg_addr x;

    if (!size)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    if (t == SG_TY_B128 && vec == 1) { /* its two halves, aligned to 16 bytes */
        if (sg_select_address(d, 1, sp, &x) || sg_halves128(d, 0, el))
            return d->err;
        t = SG_TY_B64;
        vec = 2;
        size = 8;
    } else if (size > 8 || (vec == 8 && size != 4)) {
        return sg_dec_refuse(d, NULL);
    } else if (sg_select_address(d, 1, sp, &x) || sg_vector_elements(d, 0, vec, el)) {
        return d->err;
    }
    if (x.uniform_param && (x.off < 0 || (uint64_t)x.off + size * vec > d->k->param_bytes))
        return sg_dec_syntax(d, "%s: outside the parameters", d->oc.full);
    if (vec < 8)
        return sg_select_load(d, t, vec, el, &x, spin);
    sg_check_whole(d, t, &x, false);
    x.op = sg_unwritten_register(d, x.op, el, 4);
    sg_select_load(d, t, 4, el, &x, spin); /* 32 bytes in two halves */
    x.off += 16;
    return sg_select_load(d, t, 4, el + 4, &x, spin);
}

static int emit_st(struct sg_dec *d)
{
    enum sg_type t = sg_ty(d, 0);
    bool spin = sg_take_hints(d);
    enum sg_space sp;
    uint32_t vec, size = sg_type_size(t);
    struct sg_opel el[SG_MAX_VEC];
    struct sg_addr x;

    for (uint32_t k = 0; k < d->oc.nmods; k++)
        if (!strcmp(d->oc.mods[k], "async"))
            return sg_emit_st_async(d);
    if (sg_mod(d, "bulk"))
        return sg_dec_refuse(d, NULL);
    sp = sg_take_space(d);
    vec = sg_take_vec(d);
    if (!size)
        return sg_dec_syntax(d, "%s: a type expected", d->oc.full);
    if (t == SG_TY_B128 && vec == 1 && sp != SG_SP_CONST) {
        if (sg_select_address(d, 0, sp, &x) || sg_halves128(d, 1, el))
            return d->err;
        t = SG_TY_B64;
        vec = 2;
    } else if (size > 8 || (vec == 8 && size > 4) || sp == SG_SP_CONST) {
        return sg_dec_refuse(d, NULL);
    } else if (sg_select_address(d, 0, sp, &x) || sg_vector_elements(d, 1, vec, el)) {
        return d->err;
    }
    if (x.uniform_param)
        return sg_dec_syntax(d, "%s: kernel parameters cannot be written", d->oc.full);
    if (vec < 8)
        return sg_select_store(d, t, vec, el, &x, spin);
    sg_check_whole(d, t, &x, true);
    sg_select_store(d, t, 4, el, &x, spin);
    x.off += 4 * size;
    return sg_select_store(d, t, 4, el + 4, &x, spin);
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

/* cp.async: completes at once, so waiting for it does nothing. */
static int emit_cp(struct sg_dec *d)
{
    static const char *const ignore[] = {"shared", "shared::cta", "global"};
    struct sg_addr x, y;
    uint32_t i, n = NONE, f[5] = {NONE, NONE, NONE, NONE, NONE};

    for (uint32_t k = 0; k < d->oc.nmods; k++) {
        if (!strcmp(d->oc.mods[k], "tensor"))
            return sg_emit_tensor(d);
    }
    for (uint32_t k = 0; k < d->nops; k++)
        if (d->ops[k].coords)
            return sg_dec_syntax(d, "%s: coordinates in an address", d->oc.full);
    for (uint32_t k = 0; k < d->oc.nmods; k++) {
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
    if (sg_select_address(d, 0, SG_SP_SHARED, &x) || sg_select_address(d, 1, SG_SP_GLOBAL, &y))
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
    {"cp", emit_cp, 0, 6, SG_FAM_COORDS, NULL},
    {"mbarrier", sg_emit_mbarrier, 1, 4, 0, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};

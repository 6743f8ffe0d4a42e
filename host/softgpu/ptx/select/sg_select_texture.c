/* SPDX-License-Identifier: MIT */
/*
 * Emitters: textures and surfaces (PTX ISA 9.7.10, 9.7.11). Coordinates and values go through the
 * block's scratch (struct sg_tex_scratch); a handle is a 64-bit number, in a register or of a
 * .texref or .surfref variable.
 */
#include "ptx/select/select.h"

/* ---- pieces ---- */

static int handle_of(struct sg_dec *d, uint32_t i, uint32_t *code)
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind != SG_O_ADDR || o->imm)
        return sg_dec_syntax(d, "%s: a texture or surface in brackets expected", d->oc.full);
    if (o->base == SG_O_SYM && o->symkind == SG_K_OPAQUE)
        *code = sg_const_opaque(d, o->v);
    else if (o->base == SG_O_REG && d->vregs[o->v].cls == SG_C_64)
        *code = o->v;
    else
        return sg_dec_syntax(d,
                             "%s: a texture or surface, or its handle in a register of 64 bits, "
                             "expected",
                             d->oc.full);
    return d->err;
}

static void put_arg(struct sg_dec *d, uint32_t slot, uint32_t code)
{
    uint32_t i = sg_emit(d, SG_OP_tex_arg, NONE, code, NONE, NONE);

    if (!d->err)
        d->insns[i].imm = slot;
}

/* The elements of an operand that is a vector or a single register. */
static uint32_t vector_elements(const struct sg_opnd *o, struct sg_opel el[SG_MAX_VEC])
{
    if (o->kind == SG_O_VEC) {
        memcpy(el, o->el, sizeof(o->el));
        return o->nel;
    }
    el[0] = (struct sg_opel){o->kind, o->v, o->imm};
    return o->kind == SG_O_ADDR || o->kind == SG_O_SYM || o->kind == SG_O_NAME ? 0 : 1;
}

static int put_vector(struct sg_dec *d, uint32_t i, uint32_t slot, uint32_t n, enum sg_type t)
{
    struct sg_opel el[SG_MAX_VEC];

    if (i >= d->nops || vector_elements(&d->ops[i], el) < n)
        return sg_dec_syntax(d, "%s: operand %u: %u elements expected", d->oc.full, i + 1, n);
    for (uint32_t k = 0; k < n; k++)
        put_arg(d, slot + k, sg_src_el(d, &el[k], t));
    return d->err;
}

struct geom {
    const char *name;
    uint8_t dims;
    bool layered, cube;
};
static const struct geom geoms[] = {
    {"1d", 1, false, false}, {"2d", 2, false, false},  {"3d", 3, false, false},  {"a1d", 1, true, false},
    {"a2d", 2, true, false}, {"cube", 3, false, true}, {"acube", 3, true, true}, {NULL, 0, false, false},
};

static const struct geom *geometry_of(struct sg_dec *d)
{
    for (const struct geom *g = geoms; g->name; g++)
        if (sg_mod(d, g->name))
            return g;
    sg_dec_refuse(d, NULL); /* 2dms, a2dms: no array has samples */
    return NULL;
}

static uint32_t geometry_aux(const struct geom *g)
{
    return g->dims | (g->layered ? SG_TX_LAYERED : 0) | (g->cube ? SG_TX_CUBE : 0);
}

static bool is_float(const struct sg_dec *d, const struct sg_opel *el)
{
    return el->kind == SG_O_REG && sg_type_float((enum sg_type)d->vregs[el->v].type);
}

static int put_coords(struct sg_dec *d, uint32_t i, const struct geom *g, enum sg_type t)
{
    const struct sg_opnd *o = &d->ops[i];
    uint32_t k = 0;

    if (!o->coords || o->nel < g->dims + (g->layered ? 1u : 0u))
        return sg_dec_syntax(d, "%s: too few coordinates", d->oc.full);
    if (o->nel == 3)
        return sg_dec_syntax(d, "%s: a vector of 3 coordinates: 4 expected", d->oc.full);
    if (g->layered && is_float(d, &o->el[0]))
        return sg_dec_syntax(d, "%s: a layer in an integer register expected", d->oc.full);
    for (uint32_t n = g->layered; n < o->nel && !sg_type_float(t); n++)
        if (is_float(d, &o->el[n]))
            return sg_dec_syntax(d, "%s: integer coordinates expected", d->oc.full);
    if (g->layered)
        put_arg(d, SG_TA_LAYER, sg_src_el(d, &o->el[k++], SG_TY_U32));
    for (uint32_t n = 0; n < g->dims; n++)
        put_arg(d, SG_TA_COORD + n, sg_src_el(d, &o->el[k + n], t));
    return d->err;
}

/* The results out of the scratch into the registers of operand 0. */
static int take_results(struct sg_dec *d, uint32_t n, enum sg_type t)
{
    const bool wide = sg_class_of(t) == SG_C_64;
    struct sg_opel el[SG_MAX_VEC];
    uint32_t i;

    if (vector_elements(&d->ops[0], el) != n)
        return sg_dec_syntax(d, "%s: %u destinations expected", d->oc.full, n);
    for (uint32_t k = 0; k < n && !d->err; k++) {
        if (el[k].kind == SG_O_SINK)
            continue;
        i = sg_emit(d, wide ? SG_OP_tex_res64 : SG_OP_tex_res32, sg_dst_el(d, &el[k], t), NONE, NONE, NONE);
        if (!d->err)
            d->insns[i].imm = k;
    }
    return d->err;
}

/* Everything is resident: |p is true. */
static void set_resident(struct sg_dec *d)
{
    if (d->ops[0].has_pq)
        sg_emit(d, SG_OP_mov_pred, d->ops[0].pq, sg_const32(d, SG_FULL), NONE, NONE);
}

static uint32_t sampler_of(struct sg_dec *d, uint32_t i, uint32_t handle)
{
    const struct sg_opnd *o = &d->ops[i];

    if (!o->has_sampler)
        return handle;
    if (!o->sampler_sym && d->vregs[o->sampler].cls == SG_C_64)
        return o->sampler;
    if (o->sampler_sym)
        return sg_const_opaque(d, o->sampler);
    sg_dec_syntax(d, "%s: a sampler in a register of 64 bits expected", d->oc.full);
    return handle;
}

/* After the other operands: element offsets (integers); a depth to compare with, of some forms, is refused. */
static int put_offset(struct sg_dec *d, uint32_t from, const struct geom *g, bool depth)
{
    struct sg_opel el[SG_MAX_VEC];
    uint32_t zero = sg_const32(d, 0);
    bool there = from < d->nops;

    if (there && vector_elements(&d->ops[from], el) == 1 &&
        (el[0].kind == SG_O_F32 || el[0].kind == SG_O_F64 ||
         (el[0].kind == SG_O_REG && d->vregs[el[0].v].type == SG_TY_F32)))
        return depth ? sg_dec_refuse(d, "depth textures are not available")
                     : sg_dec_syntax(d, "%s: compares with no depth", d->oc.full);
    if (there && g->cube)
        return sg_dec_syntax(d, "%s: offsets do not go with cube maps", d->oc.full);
    if (there && from + 1 < d->nops)
        return depth ? sg_dec_refuse(d, "depth textures are not available")
                     : sg_dec_syntax(d, "%s: compares with no depth", d->oc.full);
    if (there)
        return put_vector(d, from, SG_TA_OFFSET, g->dims, SG_TY_S32);
    for (uint32_t k = 0; k < g->dims; k++)
        put_arg(d, SG_TA_OFFSET + k, zero);
    return d->err;
}

static int finish_fetch(struct sg_dec *d, enum sg_op op, uint32_t handle, uint32_t aux)
{
    enum sg_type t = sg_ty(d, 0);
    bool pair = t == SG_TY_F16X2;
    uint32_t i;

    if (pair)
        aux |= SG_TX_F16X2;
    else if (t == SG_TY_F16)
        aux |= SG_TX_F16;
    else if (t != SG_TY_F32 && t != SG_TY_S32 && t != SG_TY_U32)
        return sg_dec_refuse(d, NULL);
    if (!sg_mod(d, pair ? "v2" : "v4"))
        return sg_dec_syntax(d, "%s: a vector of results expected", d->oc.full);
    i = sg_emit(d, op, NONE, handle, sampler_of(d, 1, handle), NONE);
    if (d->err)
        return d->err;
    d->insns[i].aux = aux;
    take_results(d, pair ? 2 : 4, t);
    set_resident(d);
    return d->err;
}

/* tex{.base,.level,.grad}.geom.v4.dtype.ctype d{|p}, [a, {b,} c] {, lod | dx, dy} {, e} */
static int emit_tex(struct sg_dec *d)
{
    const struct geom *g = geometry_of(d);
    enum sg_type ct = sg_ty(d, 1);
    bool level, grad;
    uint32_t handle, aux, next = 2;

    if (!g)
        return d->err;
    level = sg_mod(d, "level");
    grad = sg_mod(d, "grad");
    sg_mod(d, "base");
    if ((ct != SG_TY_F32 && ct != SG_TY_S32) || (ct == SG_TY_S32 && (g->cube || grad)))
        return sg_dec_refuse(d, NULL);
    aux = geometry_aux(g) | (ct == SG_TY_S32 ? SG_TX_INT : 0) | (grad ? SG_TX_GRAD : 0);
    if (handle_of(d, 1, &handle) || put_coords(d, 1, g, ct))
        return d->err;
    if (grad) {
        if (put_vector(d, 2, SG_TA_DX, g->dims, SG_TY_F32) || put_vector(d, 3, SG_TA_DY, g->dims, SG_TY_F32))
            return d->err;
        next = 4;
    } else if (level) {
        put_arg(d, SG_TA_LOD, sg_src(d, next++, ct));
    } else {
        put_arg(d, SG_TA_LOD, sg_const32(d, 0));
    }
    if (put_offset(d, next, g, ct == SG_TY_F32 && (g->dims != 3 || g->cube)))
        return d->err;
    return finish_fetch(d, SG_OP_tex_fetch, handle, aux);
}

/* tld4.comp.geom.v4.dtype.f32 d{|p}, [a, {b,} c] {, e} */
static int emit_tld4(struct sg_dec *d)
{
    static const char *const comps[] = {"r", "g", "b", "a"};
    const struct geom *g = geometry_of(d);
    uint32_t handle, comp = 4;

    if (!g)
        return d->err;
    for (uint32_t i = 0; i < 4; i++)
        if (sg_mod(d, comps[i]))
            comp = i;
    if (comp == 4 || (g->dims != 2 && !g->cube) || sg_ty(d, 1) != SG_TY_F32 ||
        sg_type_size(sg_ty(d, 0)) != 4 || sg_ty(d, 0) == SG_TY_F16X2)
        return sg_dec_refuse(d, NULL);
    if (handle_of(d, 1, &handle) || put_coords(d, 1, g, SG_TY_F32))
        return d->err;
    put_arg(d, SG_TA_LOD, sg_const32(d, 0));
    if (put_offset(d, 2, g, true))
        return d->err;
    return finish_fetch(d, SG_OP_tex_gather, handle, geometry_aux(g) | comp << 8);
}

/* ---- queries ---- */

static const struct {
    const char *name;
    uint8_t query;
    bool tex, surf;
} queries[] = {
    {"width", SG_TQ_WIDTH, true, true},
    {"height", SG_TQ_HEIGHT, true, true},
    {"depth", SG_TQ_DEPTH, true, true},
    {"channel_data_type", SG_TQ_CHANNEL_DATA_TYPE, true, true},
    {"channel_order", SG_TQ_CHANNEL_ORDER, true, true},
    {"normalized_coords", SG_TQ_NORMALIZED_COORDS, true, false},
    {"array_size", SG_TQ_ARRAY_SIZE, true, true},
    {"num_mipmap_levels", SG_TQ_NUM_MIPMAP_LEVELS, true, false},
    {"num_samples", SG_TQ_NUM_SAMPLES, true, false},
    {"force_unnormalized_coords", SG_TQ_FORCE_UNNORMALIZED_COORDS, true, false},
    {"filter_mode", SG_TQ_FILTER_MODE, true, false},
    {"addr_mode_0", SG_TQ_ADDR_MODE_0, true, false},
    {"addr_mode_1", SG_TQ_ADDR_MODE_1, true, false},
    {"addr_mode_2", SG_TQ_ADDR_MODE_2, true, false},
    {"memory_layout", SG_TQ_MEMORY_LAYOUT, false, true},
};

static int emit_query(struct sg_dec *d)
{
    const bool surf = d->oc.base[0] == 's';
    uint32_t handle, lod, i, q = UINT32_MAX;
    bool level;

    for (uint32_t k = 0; k < sizeof(queries) / sizeof(queries[0]); k++)
        if ((surf ? queries[k].surf : queries[k].tex) && sg_mod(d, queries[k].name))
            q = queries[k].query;
    level = !surf && sg_mod(d, "level");
    if (q == UINT32_MAX || sg_ty(d, 0) != SG_TY_B32 || d->nops != (level ? 3u : 2u))
        return sg_dec_refuse(d, NULL);
    if (handle_of(d, 1, &handle))
        return d->err;
    lod = level ? sg_src(d, 2, SG_TY_B32) : sg_const32(d, 0);
    i = sg_emit(d, SG_OP_tex_query, sg_dst(d, 0, SG_TY_B32), handle, lod, NONE);
    if (!d->err) {
        d->insns[i].imm = q;
        d->insns[i].aux = surf;
    }
    return d->err;
}

static int emit_istypep(struct sg_dec *d)
{
    static const char *const kinds[] = {"texref", "surfref", "samplerref"};
    uint32_t handle, i, kind = 3;

    for (uint32_t k = 0; k < 3; k++)
        if (sg_mod(d, kinds[k]))
            kind = k;
    if (kind == 3)
        return sg_dec_syntax(d, "istypep: .texref, .samplerref or .surfref expected");
    handle = sg_src(d, 1, SG_TY_B64);
    i = sg_emit(d, SG_OP_tex_is, sg_dst(d, 0, SG_TY_PRED), handle, NONE, NONE);
    if (!d->err)
        d->insns[i].imm = kind;
    return d->err;
}

/* ---- surfaces ---- */

static int surface_aux(struct sg_dec *d, const struct geom *g, uint32_t vec, enum sg_type t, uint32_t *aux)
{
    static const char *const hints[] = {"ca", "cg", "cs", "cv", "wb", "wt"};
    uint32_t mode = sg_mod(d, "trap")    ? SG_TX_TRAP
                    : sg_mod(d, "clamp") ? SG_TX_CLAMP
                    : sg_mod(d, "zero")  ? SG_TX_ZERO
                                         : 3,
             bytes = sg_type_size(t);

    for (size_t i = 0; i < sizeof(hints) / sizeof(hints[0]); i++)
        sg_mod(d, hints[i]);
    if (mode == 3 || !bytes || bytes > 8 || bytes * vec > 16 || g->cube)
        return sg_dec_refuse(d, NULL);
    *aux = geometry_aux(g) | SG_TX_INT | vec << 10 | (uint32_t)__builtin_ctz(bytes) << 13 | mode << 15;
    return 0;
}

static uint32_t vector_size(struct sg_dec *d)
{
    return sg_mod(d, "v4") ? 4 : sg_mod(d, "v2") ? 2 : 1;
}

static int put_values(struct sg_dec *d, uint32_t i, uint32_t n, enum sg_type t)
{
    struct sg_opel el[SG_MAX_VEC];

    if (vector_elements(&d->ops[i], el) != n)
        return sg_dec_syntax(d, "%s: %u values expected", d->oc.full, n);
    for (uint32_t k = 0; k < n && !d->err; k++) {
        uint32_t at = sg_emit(d, sg_class_of(t) == SG_C_64 ? SG_OP_tex_val64 : SG_OP_tex_val32, NONE,
                              sg_src_el(d, &el[k], t), NONE, NONE);

        if (!d->err)
            d->insns[at].imm = k;
    }
    return d->err;
}

/* suld.b.geom{.cop}.vec.dtype.clamp d, [a, b] */
static int emit_suld(struct sg_dec *d)
{
    const struct geom *g = geometry_of(d);
    enum sg_type t = sg_ty(d, 0);
    uint32_t vec = vector_size(d), handle, aux, i;

    if (!g)
        return d->err;
    if (!sg_mod(d, "b"))
        return sg_dec_refuse(d, NULL);
    if (surface_aux(d, g, vec, t, &aux) || handle_of(d, 1, &handle) || put_coords(d, 1, g, SG_TY_S32))
        return d->err;
    i = sg_emit(d, SG_OP_surf_load, NONE, handle, NONE, NONE);
    if (d->err)
        return d->err;
    d->insns[i].aux = aux;
    return take_results(d, vec, t);
}

/* sust.b.geom{.cop}.vec.ctype.clamp [a, b], c and sust.p */
static int emit_sust(struct sg_dec *d)
{
    const struct geom *g = geometry_of(d);
    enum sg_type t = sg_ty(d, 0);
    uint32_t vec = vector_size(d), handle, aux, i;
    bool formatted;

    if (!g)
        return d->err;
    formatted = sg_mod(d, "p");
    if (!formatted && !sg_mod(d, "b"))
        return sg_dec_refuse(d, NULL);
    if (surface_aux(d, g, vec, t, &aux) || handle_of(d, 0, &handle) || put_coords(d, 0, g, SG_TY_S32))
        return d->err;
    if (formatted && sg_type_size(t) != 4)
        return sg_dec_refuse(d, NULL);
    if (put_values(d, 1, vec, t))
        return d->err;
    i = sg_emit(d, formatted ? SG_OP_surf_store_p : SG_OP_surf_store, NONE, handle, NONE, NONE);
    if (!d->err)
        d->insns[i].aux = aux | (formatted ? SG_TX_FORMATTED : 0);
    return d->err;
}

/* sured.b.op.geom.ctype.clamp [a, b], c and sured.p */
static int emit_sured(struct sg_dec *d)
{
    static const char *const ops[] = {"add", "min", "max", "and", "or"};
    const struct geom *g = geometry_of(d);
    enum sg_type t = sg_ty(d, 0);
    uint32_t handle, aux, i, op = 5;
    bool formatted;

    if (!g)
        return d->err;
    formatted = sg_mod(d, "p");
    for (uint32_t k = 0; k < 5; k++)
        if (sg_mod(d, ops[k]))
            op = k;
    if ((!formatted && !sg_mod(d, "b")) || op == 5 || sg_type_size(t) < 4 || sg_type_float(t) ||
        (formatted && t != SG_TY_B32))
        return sg_dec_refuse(d, NULL);
    if (surface_aux(d, g, 1, t, &aux) || handle_of(d, 0, &handle) || put_coords(d, 0, g, SG_TY_S32) ||
        put_values(d, 1, 1, t))
        return d->err;
    i = sg_emit(d, SG_OP_surf_red, NONE, handle, NONE, NONE);
    if (!d->err)
        d->insns[i].aux =
            aux | op << 18 | (formatted ? SG_TX_FORMATTED : 0) | (sg_type_signed(t) ? SG_TX_SIGNED : 0);
    return d->err;
}

#define FLAGS SG_FAM_COORDS
const struct sg_family sg_families_tex[] = {
    {"tex", emit_tex, 2, 6, FLAGS, NULL},
    {"tld4", emit_tld4, 2, 4, FLAGS, NULL},
    {"txq", emit_query, 2, 3, 0, NULL},
    {"suq", emit_query, 2, 2, 0, NULL},
    {"istypep", emit_istypep, 2, 2, 0, NULL},
    {"suld", emit_suld, 2, 2, FLAGS, NULL},
    {"sust", emit_sust, 2, 2, FLAGS, NULL},
    {"sured", emit_sured, 2, 2, FLAGS, NULL},
    {NULL, NULL, 0, 0, 0, NULL},
};

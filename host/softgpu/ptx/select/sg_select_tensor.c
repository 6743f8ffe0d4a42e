/* SPDX-License-Identifier: MIT */
/*
 * Emitters: tensor copies and tensor maps (PTX ISA, "cp.async.bulk.tensor", "tensormap.replace"). Like bulk
 * copies they complete when they are issued. Coordinates and offsets go through the block's scratch, as those
 * of textures do (struct sg_tex_scratch).
 */
#include "ptx/select/select.h"

/* Puts the n elements of a vector, of that many bytes each, into the scratch from a slot on. */
static int put_elements(struct sg_dec *d, const struct sg_opnd *o, uint32_t n, uint32_t slot, uint32_t bytes)
{
    if (o->nel != n)
        return sg_dec_syntax(d, "%s: a vector of %u elements expected", d->oc.full, n);
    for (uint32_t k = 0; k < n && !d->err; k++) {
        const struct sg_opel *e = &o->el[k];
        const enum sg_type have = e->kind == SG_O_REG ? (enum sg_type)d->vregs[e->v].type : SG_TY_NONE;
        uint32_t i;

        if (e->kind != SG_O_IMM && (sg_type_size(have) != bytes || sg_type_float(have)))
            return sg_dec_syntax(d, "%s: integers of %u bits expected in a vector", d->oc.full, 8 * bytes);
        i = sg_emit(d, SG_OP_tex_arg, NONE, sg_src_el(d, e, bytes == 4 ? SG_TY_S32 : SG_TY_U16), NONE, NONE);
        if (!d->err)
            d->insns[i].imm = slot + k;
    }
    return d->err;
}

/* [map, {coordinates}]: the address of the map; the coordinates go into the scratch. */
static uint32_t map_operand(struct sg_dec *d, uint32_t i, uint32_t coordinates)
{
    struct sg_opnd *o = &d->ops[i];
    uint32_t wide;

    if (o->kind != SG_O_ADDR || !o->coords || o->bare || o->has_sampler || o->imm)
        sg_dec_syntax(d, "%s: a tensor map and its coordinates expected", d->oc.full);
    else if (o->base == SG_O_SYM && o->symkind != SG_K_GLOBAL)
        sg_dec_syntax(d, "%s: a tensor map has a generic address", d->oc.full);
    if (d->err || put_elements(d, o, coordinates, SG_TN_COORD, 4))
        return SG_OPND_CONST;
    if (o->base != SG_O_REG || d->vregs[o->v].cls != SG_C_32)
        return sg_flat_address(d, i, SG_SP_GENERIC);
    wide = sg_temp(d, SG_TY_U64); /* as ptxas, which takes a register of 32 bits */
    sg_emit(d, SG_OP_cvt_u64_u32, wide, o->v, NONE, NONE);
    return wide;
}

static bool has_coordinates(const struct sg_dec *d, uint32_t i)
{
    return i < d->nops && d->ops[i].coords;
}

struct form {
    uint32_t dims, mode, coordinates, offsets;
};

/* .1d to .5d and the mode. False: refused. */
static bool take_form(struct sg_dec *d, struct form *f)
{
    static const char *const dims[] = {"1d", "2d", "3d", "4d", "5d"};

    *f = (struct form){0, SG_TENSOR_TILE, 0, 0};
    for (uint32_t k = 0; k < 5; k++)
        if (sg_mod(d, dims[k]))
            f->dims = k + 1;
    f->coordinates = f->dims;
    if (sg_mod(d, "im2col::w") || sg_mod(d, "im2col::w::128")) {
        sg_dec_refuse(d, "wide im2col copies are not available");
        return false;
    }
    sg_mod(d, "tile");
    if (sg_mod(d, "tile::gather4") || sg_mod(d, "tile::scatter4")) {
        f->mode = SG_TENSOR_FOUR_ROWS;
        f->coordinates = 5;
    }
    if (sg_mod(d, "im2col_no_offs"))
        f->mode = SG_TENSOR_IM2COL;
    if (sg_mod(d, "im2col")) {
        f->mode = SG_TENSOR_IM2COL;
        f->offsets = f->dims - 2;
    }
    if (!f->dims || (f->mode == SG_TENSOR_IM2COL && f->dims < 3)) {
        sg_dec_syntax(d, "%s: a number of dimensions expected", d->oc.full);
        return false;
    }
    return true;
}

/* The im2col offsets of operand i; zeros where the form has none. Returns the number of operands read. */
static uint32_t take_offsets(struct sg_dec *d, const struct form *f, uint32_t i)
{
    static const struct sg_opnd none = {.nel = SG_TN_OFFSETS,
                                        .el = {{SG_O_IMM, 0, 0}, {SG_O_IMM, 0, 0}, {SG_O_IMM, 0, 0}}};

    if (f->mode != SG_TENSOR_IM2COL)
        return 0;
    if (!f->offsets) {
        put_elements(d, &none, SG_TN_OFFSETS, SG_TN_OFFSET, 2);
        return 0;
    }
    if (i >= d->nops || d->ops[i].kind != SG_O_VEC)
        sg_dec_syntax(d, "%s: operand %u: a vector of offsets expected", d->oc.full, i + 1);
    else
        put_elements(d, &d->ops[i], f->offsets, SG_TN_OFFSET, 2);
    return 1;
}

/* The mask of blocks, 16 bits. */
static uint32_t take_mask(struct sg_dec *d, uint32_t i)
{
    const struct sg_opnd *o = &d->ops[i];

    if (i >= d->nops || (o->kind != SG_O_IMM && o->kind != SG_O_REG) ||
        (o->kind == SG_O_REG && sg_type_size((enum sg_type)d->vregs[o->v].type) != 2)) {
        sg_dec_syntax(d, "%s: a mask of 16 bits expected", d->oc.full);
        return SG_OPND_CONST;
    }
    return sg_src(d, i, SG_TY_U16);
}

/* The operands end behind n of them and the cache policy. */
static int end_operands(struct sg_dec *d, uint32_t n)
{
    if (sg_mod(d, "L2::cache_hint"))
        n++;
    if (!d->err && d->nops != n)
        return sg_dec_syntax(d, "%s: %u operands expected", d->oc.full, n);
    return d->err;
}

static void set_form(struct sg_dec *d, uint32_t insn, const struct form *f, uint32_t flags)
{
    if (!d->err)
        d->insns[insn].imm = f->dims | f->mode << SG_TENSOR_MODE_SHIFT | flags;
}

/* [shared], [map, {coordinates}], [barrier] {, {offsets}} {, blocks} {, policy} */
static int emit_load(struct sg_dec *d, const struct form *f)
{
    const bool multicast = sg_mod(d, "multicast::cluster"), pair = sg_mod(d, "cta_group::2");
    uint32_t v[5] = {NONE, NONE, NONE, NONE, NONE}, n = 3;

    sg_mod(d, "cta_group::1");
    if (!sg_mod(d, "mbarrier::complete_tx::bytes") || d->nops < 3 || has_coordinates(d, 0) ||
        has_coordinates(d, 2))
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    v[1] = map_operand(d, 1, f->coordinates);
    v[0] = sg_flat_address(d, 0, SG_SP_SHARED);
    v[3] = sg_flat_address(d, 2, SG_SP_SHARED);
    n += take_offsets(d, f, n);
    if (multicast)
        v[2] = take_mask(d, n++);
    if (end_operands(d, n))
        return d->err;
    n = sg_emit_x(d, multicast ? SG_OP_tensor_load_multicast : SG_OP_tensor_load, v, 0,
                  SG_F_D | SG_F_A | SG_F_C | (multicast ? SG_F_B : 0));
    set_form(d, n, f, pair ? SG_TENSOR_PAIR : 0);
    return d->err;
}

/* [map, {coordinates}], [shared] {, policy} */
static int emit_store(struct sg_dec *d, const struct form *f, bool reduce)
{
    uint32_t map, from, i, op = 0;

    while (reduce && op < SG_BULK_REDUCTIONS && !sg_mod(d, sg_bulk_reductions[op]))
        op++;
    if (!sg_mod(d, "bulk_group") || d->nops < 2 || has_coordinates(d, 1) || op == SG_BULK_REDUCTIONS)
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    map = map_operand(d, 0, f->coordinates);
    take_offsets(d, f, 0);
    from = sg_flat_address(d, 1, SG_SP_SHARED);
    if (end_operands(d, 2))
        return d->err;
    i = sg_emit(d, reduce ? SG_OP_tensor_reduce : SG_OP_tensor_store, NONE, map, from, NONE);
    set_form(d, i, f, 0);
    if (reduce && !d->err)
        d->insns[i].aux = op;
    d->code->ordered |= reduce && !op; /* the map may say that the elements are floating point */
    return d->err;
}

/* cp{.reduce}.async.bulk{.prefetch}.tensor */
int sg_emit_tensor(struct sg_dec *d)
{
    const bool reduce = sg_mod(d, "reduce"), prefetch = sg_mod(d, "prefetch");
    bool shared = sg_mod(d, "shared::cluster");
    uint32_t map, n = 1;
    struct form f;

    sg_mod(d, "async");
    sg_mod(d, "bulk");
    sg_mod(d, "tensor");
    shared |= sg_mod(d, "shared::cta");
    sg_mod(d, "global");
    if (!take_form(d, &f))
        return d->err;
    if (!prefetch && !shared)
        return sg_dec_refuse(d, NULL);
    if (!prefetch)
        return has_coordinates(d, 0) ? emit_store(d, &f, reduce) : emit_load(d, &f);
    sg_mod(d, "L2");
    if (!d->nops)
        return sg_dec_syntax(d, "%s: wrong operands", d->oc.full);
    map = map_operand(d, 0, f.coordinates);
    n += take_offsets(d, &f, 1);
    if (end_operands(d, n))
        return d->err;
    set_form(d, sg_emit(d, SG_OP_tensor_prefetch, NONE, map, NONE, NONE), &f, 0);
    return d->err;
}

/* tensormap.cp_fenceproxy [global], [shared], 128: a copy; fences have no effect here */
static int emit_cp_fenceproxy(struct sg_dec *d)
{
    static const char *const words[] = {
        "global", "shared::cta", "tensormap::generic", "release", "cta", "cluster", "gpu", "sys",
        "sync",   "aligned"};
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, i;

    for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++)
        sg_mod(d, words[k]);
    f[0] = sg_flat_address(d, 0, SG_SP_GLOBAL);
    f[1] = sg_flat_address(d, 1, SG_SP_SHARED);
    f[2] = sg_const32(d, 128);
    i = sg_emit_x(d, SG_OP_bulk_copy, f, 0, SG_F_D | SG_F_A | SG_F_B);
    if (!d->err)
        d->insns[i].imm = SG_BULK_FROM_SHARED;
    return d->err;
}

/* The address of operand 0 as a generic one. */
static uint32_t generic_address(struct sg_dec *d, bool shared)
{
    uint32_t a, wide;

    if (!shared)
        return sg_flat_address(d, 0, SG_SP_GENERIC);
    a = sg_flat_address(d, 0, SG_SP_SHARED);
    wide = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_cvt_u64_u32, wide, a, NONE, NONE);
    a = sg_temp(d, SG_TY_U64);
    sg_emit(d, SG_OP_add_b64, a, wide, sg_const64(d, sg_win.shared), NONE);
    return a;
}

/* tensormap.replace.tile.field [map], {index,} value */
int sg_emit_tensormap(struct sg_dec *d)
{
    static const struct {
        const char *name;
        bool indexed, wide;
    } fields[] = {[SG_TF_GLOBAL_ADDRESS] = {"global_address", false, true},
                  [SG_TF_RANK] = {"rank", false, false},
                  [SG_TF_BOX_DIM] = {"box_dim", true, false},
                  [SG_TF_GLOBAL_DIM] = {"global_dim", true, false},
                  [SG_TF_GLOBAL_STRIDE] = {"global_stride", true, true},
                  [SG_TF_ELEMENT_STRIDE] = {"element_stride", true, false},
                  [SG_TF_ELEMTYPE] = {"elemtype", false, false},
                  [SG_TF_INTERLEAVE_LAYOUT] = {"interleave_layout", false, false},
                  [SG_TF_SWIZZLE_MODE] = {"swizzle_mode", false, false},
                  [SG_TF_SWIZZLE_ATOMICITY] = {"swizzle_atomicity", false, false},
                  [SG_TF_FILL_MODE] = {"fill_mode", false, false}};
    const uint32_t count = sizeof(fields) / sizeof(fields[0]);
    uint32_t field = 0, address, value, wide, i;
    uint64_t index = 0;

    if (sg_mod(d, "cp_fenceproxy"))
        return emit_cp_fenceproxy(d);
    sg_mod(d, "tile");
    sg_mod(d, "global");
    sg_mod(d, "b1024");
    while (field < count && !sg_mod(d, fields[field].name))
        field++;
    if (!sg_mod(d, "replace") || field == count || d->nops != 2u + fields[field].indexed)
        return sg_dec_refuse(d, NULL);
    if ((field == SG_TF_ELEMTYPE && d->ops[1].imm > 12 && d->m->target < 100) ||
        (field == SG_TF_SWIZZLE_MODE && d->ops[1].imm > 3 && d->m->target != 103))
        return sg_dec_syntax(d, "%s: this value needs another .target", d->oc.full);
    address = generic_address(d, sg_mod(d, "shared::cta"));
    if (fields[field].indexed)
        index = d->ops[1].imm;
    value = sg_src(d, d->nops - 1, fields[field].wide ? SG_TY_B64 : SG_TY_B32);
    if (!fields[field].wide) {
        wide = sg_temp(d, SG_TY_U64);
        sg_emit(d, SG_OP_cvt_u64_u32, wide, value, NONE, NONE);
        value = wide;
    }
    i = sg_emit(d, SG_OP_tensor_map_replace, NONE, address, value, NONE);
    if (!d->err)
        d->insns[i].imm = (int64_t)(field | (index & 255) << 8);
    return d->err;
}

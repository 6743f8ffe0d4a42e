/* SPDX-License-Identifier: MIT */
/* Emitters: matrix products with a sparse matrix, or with scales (PTX ISA 9.7.14.3, 9.7.14.6). */
#include "ptx/select/select.h"

/* True for a by rows, b by columns, and all lanes together. */
static bool has_layout(struct sg_dec *d)
{
    bool row = false;

    for (uint32_t i = 0; i < d->oc.nmods; i++) {
        if (!strcmp(d->oc.mods[i], "col"))
            break;
        row |= !strcmp(d->oc.mods[i], "row");
    }
    return sg_mod(d, "sync") && sg_mod(d, "aligned") && sg_mod(d, "row") && sg_mod(d, "col") && row;
}

/* Modifiers of an instruction besides its shape. */
struct wide {
    bool sparse, ordered, scaled;
    uint32_t scales; /* of a row, 0: none */
    bool ue4m3, packed;
};

/* PTX ISA, "Valid combinations of .scale_vec_size and .kind". */
static const struct scaling {
    const char *kind;
    uint32_t scales;
    bool implied; /* without .scale_vec:: */
    bool ue4m3;
    uint32_t version;
} scalings[] = {
    {"kind::mxf8f6f4", 1, true, false, 87},  {"kind::mxf4", 2, true, false, 87},
    {"kind::mxf4nvf4", 2, false, false, 87}, {"kind::mxf4nvf4", 4, false, true, 87},
    {"kind::mxf4nvf4", 4, false, false, 91},
};

static const struct scaling *find_scaling(struct sg_dec *d)
{
    const uint32_t scales = sg_mod(d, "scale_vec::1X")   ? 1
                            : sg_mod(d, "scale_vec::2X") ? 2
                            : sg_mod(d, "scale_vec::4X") ? 4
                                                         : 0;
    const bool ue4m3 = sg_mod(d, "ue4m3"), ue8m0 = sg_mod(d, "ue8m0");

    for (size_t i = 0; i < sizeof(scalings) / sizeof(scalings[0]); i++) {
        const struct scaling *s = &scalings[i];

        if (sg_mod(d, s->kind) && (scales == s->scales || (!scales && s->implied)) && ue4m3 == s->ue4m3 &&
            ue8m0 != ue4m3 && d->m->version >= s->version)
            return s;
    }
    return NULL;
}

/* The type of the elements of a (k is 0) or b; -1: none of a matrix. */
static int wide_type(struct sg_dec *d, uint32_t k, bool packed)
{
    const enum sg_type t = sg_ty(d, 1 + k);

    if (d->oc.ntypes == 4 && !packed)
        return sg_mma_type_of(t);
    if (d->oc.ntypes == 4)
        return t == SG_TY_E2M1 ? SG_MMA_E2M1_PACKED : -1;
    for (uint32_t i = 0; i < d->oc.nmods && d->oc.ntypes == 2; i++) {
        const bool s4 = !strcmp(d->oc.mods[i], "s4");

        if (!s4 && strcmp(d->oc.mods[i], "u4"))
            continue;
        d->oc.used[i] = true;
        if (!k--)
            return s4 ? SG_MMA_S4 : SG_MMA_U4;
    }
    return -1;
}

static bool is_eighth(uint8_t type)
{
    return type >= SG_MMA_E4M3 && type <= SG_MMA_E2M1;
}

/* True if the type-dependent modifiers fit the form's types. */
static bool goes_together(struct sg_dec *d, const struct sg_mma_wide *f, const struct wide *x)
{
    const bool kind = sg_mod(d, "kind::f8f6f4"), sat = sg_mod(d, "satfinite");
    const bool small = f->a > SG_MMA_E5M2 || f->b > SG_MMA_E5M2;

    if (sat && f->c != 'i')
        return false;
    if (x->scaled)
        return !kind && f->c == 'f' && (x->packed ? f->a == SG_MMA_E2M1_PACKED : is_eighth(f->a));
    if (!is_eighth(f->a))
        return !kind;
    /* forms introduced with sm_120 have only ordered metadata */
    return kind ? x->ordered : !small && (f->c == 'f' || x->ordered);
}

static const struct sg_mma_wide *find_wide(struct sg_dec *d, const struct wide *x)
{
    const int a = wide_type(d, 0, x->packed), b = wide_type(d, 1, x->packed);
    const enum sg_type t = sg_ty(d, 0);
    const uint8_t c = t == SG_TY_F32 ? 'f' : t == SG_TY_F16 ? 'h' : t == SG_TY_S32 ? 'i' : 0;

    if (a < 0 || b < 0 || sg_ty(d, d->oc.ntypes - 1) != t)
        return NULL;
    for (const struct sg_mma_wide *f = sg_mma_wide_forms; f->shape; f++)
        if (f->a == a && f->b == b && f->c == c && (f->lanes != 0) == x->sparse && sg_mod(d, f->shape))
            return goes_together(d, f, x) ? f : NULL;
    return NULL;
}

/* The register of 32 bits that operand i is, perhaps in braces; NULL: another operand. */
static const struct sg_opel *single_register(const struct sg_dec *d, uint32_t i, struct sg_opel *one)
{
    const struct sg_opnd *o = &d->ops[i];

    *one = (struct sg_opel){o->kind, o->v, o->imm};
    if (o->kind == SG_O_VEC && o->nel == 1)
        *one = o->el[0];
    return one->kind == SG_O_REG && sg_type_size((enum sg_type)d->vregs[one->v].type) == 4 &&
                   d->vregs[one->v].type != SG_TY_PRED
               ? one
               : NULL;
}

/* The metadata, a list of one register. */
static void emit_metadata(struct sg_dec *d, uint32_t i)
{
    struct sg_opel one;

    if (single_register(d, i, &one))
        sg_mma_registers(d, SG_OP_ext, i, 1, SG_TY_B32, false);
    else
        sg_dec_syntax(d, "%s: operand %u: a register of 32 bits expected", d->oc.full, i + 1);
}

/* A selector: a constant of at most high, in steps, or a register of 16 bits. */
static uint32_t selector_operand(struct sg_dec *d, const struct sg_opel *el, uint32_t high, uint32_t step)
{
    if (el->kind == SG_O_IMM && el->imm <= high && el->imm % step == 0)
        return sg_const32(d, (uint32_t)el->imm);
    if (el->kind == SG_O_REG && sg_type_size((enum sg_type)d->vregs[el->v].type) == 2)
        return sg_src_el(d, el, SG_TY_B16);
    sg_dec_syntax(d, "%s: a selector is a register of 16 bits or a constant up to %u in steps of %u",
                  d->oc.full, high, step);
    return SG_OPND_NONE;
}

/* Operands i and i + 1: scales, and where they are: {byte, lane}. */
static void emit_scales(struct sg_dec *d, uint32_t i, uint32_t scales, uint32_t last_lane)
{
    const struct sg_opnd *where = &d->ops[i + 1];
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE};
    struct sg_opel one;

    if (!single_register(d, i, &one) || where->kind != SG_O_VEC || where->nel != 2) {
        sg_dec_syntax(d, "%s: operands %u and %u: a register of 32 bits and two selectors expected",
                      d->oc.full, i + 1, i + 2);
        return;
    }
    f[0] = sg_src_el(d, &one, SG_TY_B32);
    f[1] = selector_operand(d, &where->el[0], 4 - scales, scales == 4 ? 1 : scales);
    f[2] = selector_operand(d, &where->el[1], last_lane, 1);
    sg_emit_x(d, SG_OP_ext, f, 0, SG_F_D | SG_F_A | SG_F_B);
}

/* The sparsity selector; for m16n8k32 of f16 ptxas takes the numbers of all four lanes. */
static uint32_t sparsity_selector(struct sg_dec *d, const struct sg_mma_wide *f)
{
    const uint32_t high = f->lanes == 1 || f->a == SG_MMA_F16 ? 3 : f->lanes == 2 ? 1 : 0;

    if (d->ops[5].kind != SG_O_IMM || d->ops[5].imm > high)
        sg_dec_syntax(d, "%s: operand 6: a constant of 0 to %u expected", d->oc.full, high);
    return (uint32_t)d->ops[5].imm & (f->lanes == 2 ? 1 : 3);
}

/* d, a, b, c {, e, selector} {, scales of a, {byte, lane}, scales of b, {byte, lane}} */
int sg_emit_mma_wide(struct sg_dec *d)
{
    struct wide x = {.ordered = sg_mod(d, "sp::ordered_metadata"), .scaled = sg_mod(d, "block_scale")};
    const struct scaling *s = x.scaled ? find_scaling(d) : NULL;
    const bool plain = sg_mod(d, "sp"), sat = sg_mod(d, "satfinite");
    const struct sg_mma_wide *f;
    uint32_t i, aux = 0;

    x.sparse = plain || x.ordered;
    if (!has_layout(d))
        return sg_dec_syntax(d, "%s: .sync.aligned and .row.col expected", d->oc.full);
    if ((x.scaled && !s) || (plain && (x.ordered || x.scaled)))
        return sg_dec_syntax(d, "%s: no such combination of kinds, scales and metadata", d->oc.full);
    x.packed = s && s->scales > 1;
    f = find_wide(d, &x);
    if (!f)
        return sg_dec_syntax(d, "%s: no such shape and types", d->oc.full);
    if (d->nops != 4 + (x.sparse ? 2u : 0u) + (x.scaled ? 4u : 0u))
        return sg_dec_syntax(d, "%s: %u operands", d->oc.full, d->nops);
    if (x.sparse)
        aux = sparsity_selector(d, f);
    aux = SG_WIDE_AUX(f - sg_mma_wide_forms, aux, s ? s->scales : 0, s && s->ue4m3);
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    i = sg_mma_registers(d, SG_OP_mma_wide, 1, f->na, SG_TY_B32, false);
    sg_mma_registers(d, SG_OP_ext, 2, f->nb, SG_TY_B32, false);
    sg_mma_registers(d, SG_OP_ext, 3, f->nc, SG_TY_B32, false);
    if (x.sparse)
        emit_metadata(d, 4);
    if (s) {
        emit_scales(d, d->nops - 4, s->scales, 1);
        emit_scales(d, d->nops - 2, s->scales, 3);
    }
    sg_mma_registers(d, SG_OP_ext, 0, f->nc, SG_TY_B32, true);
    if (!d->err) {
        d->insns[i].aux = aux;
        d->insns[i].imm = sat;
    }
    return d->err;
}

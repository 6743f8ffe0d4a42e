/* SPDX-License-Identifier: MIT */
/* Emitters: matrix products of a warpgroup (PTX ISA 9.7.15). */
#include "ptx/select/select.h"

/* The mma_async that is being decoded. */
struct wgmma {
    uint32_t aux;
    struct sg_wgmma f;
    uint32_t depth; /* K */
    bool sparse, b1;
    uint32_t next; /* operand */
};

/* .m64nNkK: sets N and K. Returns false if there is no shape, or several. */
static bool take_shape(struct sg_dec *d, uint32_t *n, uint32_t *k)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < d->oc.nmods; i++) {
        char rest;

        if (strncmp(d->oc.mods[i], "m64n", 4) || sscanf(d->oc.mods[i], "m64n%3uk%3u%c", n, k, &rest) != 2)
            continue;
        d->oc.used[i] = true;
        found++;
    }
    return found == 1;
}

/* Types of a, b and d. Returns false if they do not go together. */
static bool take_types(struct sg_dec *d, struct wgmma *x)
{
    static const char letters[] = "fhi";
    const enum sg_type td = sg_ty(d, 0);
    const uint32_t sum = td == SG_TY_F32 ? 0 : td == SG_TY_F16 ? 1 : 2;
    int a = SG_MMA_B1, b = SG_MMA_B1;
    uint32_t n = 0;

    for (uint32_t i = 0; i < d->oc.nmods; i++)
        n += !strcmp(d->oc.mods[i], "b1");
    x->b1 = sg_mod(d, "b1");
    if (x->b1 ? n != 2 || d->oc.ntypes != 1 || !sg_mod(d, "and") || !sg_mod(d, "popc") : d->oc.ntypes != 3)
        return false;
    if (!x->b1) {
        a = sg_mma_type_of(sg_ty(d, 1));
        b = sg_mma_type_of(sg_ty(d, 2));
    }
    if (a < 0 || b < 0 || (sum == 2 && td != SG_TY_S32) ||
        !sg_wgmma_types_fit((uint8_t)a, (uint8_t)b, (uint8_t)letters[sum]))
        return false;
    x->aux = SG_WGMMA_AUX(a, b, sum, 0);
    return true;
}

/* A constant operand, one of two values; sets flag if it is the second. */
static void take_constant(struct sg_dec *d, struct wgmma *x, int64_t plain, int64_t other, uint32_t flag)
{
    const struct sg_opnd *o = &d->ops[x->next];

    if (x->next >= d->nops || o->kind != SG_O_IMM || ((int64_t)o->imm != plain && (int64_t)o->imm != other))
        sg_dec_syntax(d, "%s: operand %u: %d or %d expected", d->oc.full, x->next + 1, (int)plain,
                      (int)other);
    else if ((int64_t)o->imm != plain)
        x->aux |= flag;
    x->next++;
}

/* True if a register of that type may hold elements of the type `of`. */
static bool register_fits(enum sg_type t, enum sg_type of)
{
    if (t == SG_TY_B32)
        return true;
    if (of == SG_TY_S32)
        return t == SG_TY_S32 || t == SG_TY_U32;
    return t == (of == SG_TY_F16 ? SG_TY_F16X2 : of);
}

static bool stands_twice(const struct sg_opel *el, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++)
            if (el[i].v == el[k].v)
                return true;
    return false;
}

/* Operand 0. */
static const struct sg_opel *sum_registers(struct sg_dec *d, const struct wgmma *x)
{
    const struct sg_opnd *o = &d->ops[0];
    const struct sg_opel *el = o->kind == SG_O_LIST ? d->list : o->el;

    if ((o->kind != SG_O_LIST && o->kind != SG_O_VEC) || o->nel != x->f.nd) {
        sg_dec_syntax(d, "%s: operand 1: %u registers expected", d->oc.full, x->f.nd);
        return NULL;
    }
    for (uint32_t i = 0; i < x->f.nd; i++)
        if (el[i].kind != SG_O_REG || !register_fits((enum sg_type)d->vregs[el[i].v].type, sg_ty(d, 0))) {
            sg_dec_syntax(d, "%s: operand 1: register %u has another type", d->oc.full, i + 1);
            return NULL;
        }
    return el;
}

/* a in registers: 32 bits each, or constants. ptxas wants a type of bits in one place at least. */
static bool check_a(struct sg_dec *d)
{
    const struct sg_opnd *o = &d->ops[1];
    bool bits = false;

    if (o->kind != SG_O_VEC || o->nel != SG_WGMMA_A_REGS)
        return false;
    for (uint32_t i = 0; i < o->nel; i++) {
        const bool reg = o->el[i].kind == SG_O_REG;

        if (reg ? d->vregs[o->el[i].v].cls != SG_C_32
                : o->el[i].kind != SG_O_IMM && o->el[i].kind != SG_O_F32)
            return false;
        bits |= reg && register_fits((enum sg_type)d->vregs[o->el[i].v].type, SG_TY_F16);
    }
    return bits;
}

/* A descriptor: an integer of 64 bits. */
static uint32_t descriptor_operand(struct sg_dec *d, uint32_t i)
{
    if (d->ops[i].kind == SG_O_REG && d->vregs[d->ops[i].v].type == SG_TY_F64)
        sg_dec_syntax(d, "%s: operand %u: a descriptor is an integer", d->oc.full, i + 1);
    return sg_src(d, i, SG_TY_B64);
}

/* The metadata of a sparse a, and which threads have them. */
static uint32_t metadata_operand(struct sg_dec *d, struct wgmma *x)
{
    const struct sg_opnd *o = &d->ops[3];
    const struct sg_opel el =
        o->kind == SG_O_VEC && o->nel == 1 ? o->el[0] : (struct sg_opel){o->kind, o->v, o->imm};

    x->next = 4;
    take_constant(d, x, 0, sg_wgmma_bits(x->f.a) >= 16 ? 1 : 0, SG_WGMMA_SELECTOR);
    if (el.kind != SG_O_REG || sg_type_size((enum sg_type)d->vregs[el.v].type) != 4) {
        sg_dec_syntax(d, "%s: operand 4: a register of 32 bits expected", d->oc.full);
        return NONE;
    }
    return sg_src_el(d, &el, SG_TY_B32);
}

/* The scale of d: a predicate, or 0 or 1. */
static uint32_t scale_of_d(struct sg_dec *d, uint32_t i)
{
    const struct sg_opnd *o = &d->ops[i];

    if (o->kind == SG_O_IMM ? o->imm > 1 : o->kind != SG_O_REG || d->vregs[o->v].cls != SG_C_PRED)
        sg_dec_syntax(d, "%s: operand %u: a predicate expected", d->oc.full, i + 1);
    return o->kind == SG_O_IMM ? sg_const32(d, o->imm ? SG_FULL : 0) : sg_src(d, i, SG_TY_PRED);
}

/* wgmma.mma_async{.sp} d, a, b{, metadata, selector}, scale of d{, signs of a and b}{, majors of a and b} */
static int emit_mma_async(struct sg_dec *d)
{
    struct wgmma x = {.sparse = sg_mod(d, "sp"), .next = 3};
    uint32_t f[5] = {NONE, NONE, NONE, NONE, NONE}, n = 0, i, bits;
    const bool registers = d->nops > 1 && d->ops[1].kind == SG_O_VEC;
    const struct sg_opel *sums;

    if (!take_types(d, &x) || !take_shape(d, &n, &x.depth))
        return sg_dec_syntax(d, "%s: no such shape and types", d->oc.full);
    if (sg_mod(d, "satfinite"))
        x.aux |= SG_WGMMA_SATURATE;
    x.aux |= n % 8 || n > 256 ? 0 : SG_WGMMA_AUX(0, 0, 0, n);
    x.aux |= x.sparse ? SG_WGMMA_SPARSE : 0;
    bits = sg_wgmma_bits(x.aux & 15);
    if (!sg_wgmma_of(x.aux, &x.f) || x.depth != (x.sparse ? 512 : 256) / bits)
        return sg_dec_syntax(d, "%s: no such shape and types", d->oc.full);
    i = 4 + (x.sparse ? 2u : 0u) + (x.f.d == 'i' ? 0u : 2u) + (bits == 16 ? registers ? 1u : 2u : 0u);
    if (d->nops != i)
        return sg_dec_syntax(d, "%s: %u operands, %u expected", d->oc.full, d->nops, i);
    sums = sum_registers(d, &x);
    if (registers && !check_a(d))
        return sg_dec_syntax(d, "%s: operand 2: four registers of 32 bits expected", d->oc.full);
    f[1] = descriptor_operand(d, 2);
    f[2] = registers ? NONE : descriptor_operand(d, 1);
    f[3] = x.sparse ? metadata_operand(d, &x) : NONE;
    f[0] = scale_of_d(d, x.next++);
    if (x.f.d != 'i') {
        take_constant(d, &x, 1, -1, SG_WGMMA_NEGATE_A);
        take_constant(d, &x, 1, -1, SG_WGMMA_NEGATE_B);
    }
    if (bits == 16 && !registers)
        take_constant(d, &x, 0, 1, SG_WGMMA_A_MN_MAJOR);
    if (bits == 16)
        take_constant(d, &x, 0, 1, SG_WGMMA_B_MN_MAJOR);
    if (d->err)
        return d->err;
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    i = sg_emit_x(d, SG_OP_wgmma, f, 0, SG_F_D | SG_F_A | (registers ? 0 : SG_F_B) | (x.sparse ? SG_F_C : 0));
    if (registers)
        sg_emit_list(d, d->ops[1].el, SG_WGMMA_A_REGS, false);
    sg_emit_list(d, sums, x.f.nd, false);
    sg_emit_list(d, sums, x.f.nd, true);
    if (stands_twice(sums, x.f.nd))
        x.aux |= SG_WGMMA_REPEATED;
    if (!d->err)
        d->insns[i].aux = x.aux | (registers ? SG_WGMMA_A_REGISTERS : 0);
    return d->err;
}

/* True if a modifier is unknown, or stands twice. */
static bool has_odd_modifier(const struct sg_dec *d)
{
    for (uint32_t i = 0; i < d->oc.nmods; i++) {
        if (!d->oc.used[i])
            return true;
        for (uint32_t k = 0; k < i; k++)
            if (!strcmp(d->oc.mods[i], d->oc.mods[k]) && strcmp(d->oc.mods[i], "b1"))
                return true;
    }
    return false;
}

/* fence and the groups: a product is complete when it is issued (exec/wgmma/sg_wgmma.c). */
int sg_emit_wgmma(struct sg_dec *d)
{
    const char *what = d->oc.nmods ? d->oc.mods[0] : "";
    const bool wait = !strcmp(what, "wait_group"), product = !strcmp(what, "mma_async");

    sg_mod(d, what);
    sg_mod(d, "aligned");
    if (!sg_mod(d, "sync"))
        return sg_dec_syntax(d, "%s: .sync expected", d->oc.full);
    if (product)
        emit_mma_async(d);
    if (!d->err && d->m->version <= 90 && has_odd_modifier(d)) /* else the caller refuses them by name */
        sg_dec_syntax(d, "%s: no such modifier", d->oc.full);
    if (d->err || product)
        return d->err;
    if (!wait && strcmp(what, "fence") && strcmp(what, "commit_group"))
        return sg_dec_syntax(d, "%s: no such instruction", d->oc.full);
    if (d->oc.ntypes || d->nops != (wait ? 1u : 0u) ||
        (wait && (d->ops[0].kind != SG_O_IMM || (int64_t)d->ops[0].imm < 0)))
        return sg_dec_syntax(d, wait ? "%s: a number of groups expected" : "%s: no operands expected",
                             d->oc.full);
    sg_emit(d, SG_OP_wsync, NONE, sg_const32(d, SG_FULL), NONE, NONE);
    return d->err;
}

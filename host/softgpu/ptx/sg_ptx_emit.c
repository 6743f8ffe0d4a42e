/* SPDX-License-Identifier: MIT */
/* Building blocks of the decoder: virtual registers, constants, instructions, labels. */
#include "jit/jit.h"
#include "ptx/decode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/hash/hash.h"

int sg_dec_syntax(struct sg_dec *d, const char *fmt, ...)
{
    char buf[SG_DIAG_MAX - 64];
    va_list ap;

    if (d->err)
        return d->err;
    va_start(ap, fmt);
    vsnprintf(buf, sizeof(buf), fmt, ap);
    va_end(ap);
    d->err = sg_diag_at(d->diag, SG_ERR_PTX, d->line, d->col, "syntax error: %s", buf);
    return d->err;
}

int sg_dec_refuse(struct sg_dec *d, const char *why)
{
    if (d->err)
        return d->err;
    d->err = sg_diag_at(d->diag, SG_ERR_UNSUPPORTED, d->line, d->col, "%s: %s (line %u, kernel %.200s)",
                        d->oc.full, why ? why : "this instruction is not available", d->line, d->code->name);
    return d->err;
}

int sg_dec_nomem(struct sg_dec *d)
{
    if (!d->err)
        d->err = sg_diag_at(d->diag, SG_ERR_NOMEM, d->line, d->col, "out of memory");
    return d->err;
}

int sg_class_of(enum sg_type t)
{
    if (t == SG_TY_PRED)
        return SG_C_PRED;
    if (t == SG_TY_B128)
        return SG_C_PAIR;
    return sg_type_size(t) == 8 ? SG_C_64 : SG_C_32;
}

uint32_t sg_new_vreg(struct sg_dec *d, enum sg_type type, bool temp)
{
    struct sg_vreg *v;

    if (d->nvregs >= SG_MAX_VREGS) {
        d->large = true;
        sg_dec_refuse(d, "the kernel has too many registers");
        return SG_OPND_NONE;
    }
    if (!sg_grow(&d->vregs, &d->cap_vregs, d->nvregs, sizeof(*d->vregs))) {
        sg_dec_nomem(d);
        return SG_OPND_NONE;
    }
    v = &d->vregs[d->nvregs];
    v->cls = (uint8_t)sg_class_of(type);
    v->type = (uint8_t)type;
    v->temp = temp;
    d->nvregs++;
    if (type != SG_TY_B128)
        return d->nvregs - 1;
    sg_new_vreg(d, SG_TY_B64, temp);
    return sg_new_vreg(d, SG_TY_B64, temp) == SG_OPND_NONE ? SG_OPND_NONE : d->nvregs - 3;
}

/* ---- constants: a slot of equal lanes per value ---- */

static uint32_t pool_alloc(struct sg_dec *d, uint32_t bytes)
{
    uint32_t off = d->code->pool_bytes;

    if (off + bytes > SG_MAX_POOL) {
        sg_dec_refuse(d, "the kernel has too many constants");
        return UINT32_MAX;
    }
    if (off + bytes > d->cap_pool) {
        uint32_t cap = d->cap_pool ? d->cap_pool * 2 : 8192;
        uint8_t *p = aligned_alloc(256, cap);

        if (!p) {
            sg_dec_nomem(d);
            return UINT32_MAX;
        }
        if (off)
            memcpy(p, d->code->pool, off);
        free(d->code->pool);
        d->code->pool = p;
        d->cap_pool = cap;
    }
    d->code->pool_bytes = off + bytes;
    return off;
}

static void pool_fill(struct sg_dec *d, uint32_t off, uint64_t v, bool wide)
{
    for (uint32_t i = 0; i < SG_LANES; i++)
        memcpy(d->code->pool + off + i * (wide ? 8 : 4), &v, wide ? 8 : 4);
}

static uint64_t pool_key(uint64_t v, bool wide)
{
    return hsh_number(wide, v);
}

/* hash entry: offset + 1, with bit 31 for a wide constant */
static uint32_t pool_get(struct sg_dec *d, uint64_t v, bool wide)
{
    uint32_t off, i;

    if (d->pool_count * 2 >= d->pool_hash_size) {
        uint32_t n = d->pool_hash_size ? d->pool_hash_size * 2 : 256;
        uint32_t *h = calloc(n, sizeof(*h));

        if (!h) {
            sg_dec_nomem(d);
            return SG_OPND_CONST;
        }
        for (i = 0; i < d->pool_hash_size; i++) {
            uint32_t x = d->pool_hash[i], j;
            uint64_t old = 0;

            if (!x)
                continue;
            memcpy(&old, d->code->pool + ((x & 0x7fffffffu) - 1), x >> 31 ? 8 : 4);
            for (j = (uint32_t)pool_key(old, x >> 31) & (n - 1); h[j]; j = (j + 1) & (n - 1))
                ;
            h[j] = x;
        }
        free(d->pool_hash);
        d->pool_hash = h;
        d->pool_hash_size = n;
    }
    for (i = (uint32_t)pool_key(v, wide) & (d->pool_hash_size - 1); d->pool_hash[i];
         i = (i + 1) & (d->pool_hash_size - 1)) {
        uint32_t x = d->pool_hash[i];

        if ((x >> 31) == wide && !memcmp(d->code->pool + ((x & 0x7fffffffu) - 1), &v, wide ? 8 : 4))
            return SG_OPND_CONST | ((x & 0x7fffffffu) - 1);
    }
    off = pool_alloc(d, wide ? 256 : 128);
    if (off == UINT32_MAX)
        return SG_OPND_CONST;
    pool_fill(d, off, v, wide);
    d->pool_hash[i] = (off + 1) | (wide ? 0x80000000u : 0);
    d->pool_count++;
    return SG_OPND_CONST | off;
}

uint32_t sg_const32(struct sg_dec *d, uint32_t v)
{
    return pool_get(d, v, false);
}

uint32_t sg_const64(struct sg_dec *d, uint64_t v)
{
    return pool_get(d, v, true);
}

uint32_t sg_const_sym(struct sg_dec *d, uint32_t global, int64_t addend)
{
    struct sg_code *c = d->code;
    uint32_t off;

    /* searches a few recent entries */
    for (uint32_t i = c->nrelocs; i-- > 0 && i + 8 > c->nrelocs;)
        if (c->relocs[i].global == global && c->relocs[i].addend == addend)
            return SG_OPND_CONST | c->relocs[i].offset;
    off = pool_alloc(d, 256);
    if (off == UINT32_MAX)
        return SG_OPND_CONST;
    if (!sg_grow(&c->relocs, &d->cap_relocs, c->nrelocs, sizeof(*c->relocs))) {
        sg_dec_nomem(d);
        return SG_OPND_CONST;
    }
    pool_fill(d, off, 0, true);
    c->relocs[c->nrelocs++] = (struct sg_reloc){off, global, addend};
    return SG_OPND_CONST | off;
}

uint32_t sg_const_opaque(struct sg_dec *d, uint32_t opaque)
{
    return sg_const_sym(d, SG_RELOC_OPAQUE | opaque, 0);
}

#define DYN32 UINT32_MAX /* as sg_reloc.global: not a variable */
#define DYN64 (UINT32_MAX - 1)

uint32_t sg_const_dyn(struct sg_dec *d, bool wide, int64_t addend)
{
    return sg_const_sym(d, wide ? DYN64 : DYN32, addend);
}

void sg_resolve_dyn(struct sg_dec *d)
{
    struct sg_code *c = d->code;
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->nrelocs; i++) {
        struct sg_reloc r = c->relocs[i];

        if (r.global >= DYN64)
            pool_fill(d, r.offset, c->dynamic_base + (uint64_t)r.addend, r.global == DYN64);
        else
            c->relocs[n++] = r;
    }
    c->nrelocs = n;
}

uint32_t sg_shared_offset(struct sg_dec *d, uint32_t var)
{
    const struct sg_var *v = &d->m->shared[var];
    uint32_t align = v->align ? v->align : 1;

    if (d->shared_offset[var] == UINT32_MAX) {
        if (!sg_size_place(&d->shared_bytes, align, v->size, SG_MAX_STATIC_SHARED, &d->shared_offset[var])) {
            sg_dec_refuse(d, "too much shared memory");
            return 0;
        }
    }
    return d->shared_offset[var];
}

uint64_t sg_reloc_value(const struct sg_module *m, const struct sg_reloc *r)
{
    return r->global & SG_RELOC_OPAQUE ? m->opaques[r->global & ~SG_RELOC_OPAQUE].handle
                                       : m->vars[r->global].address;
}

void sg_code_relocate(struct sg_module *m, struct sg_code *c)
{
    for (uint32_t i = 0; i < c->nrelocs; i++) {
        const struct sg_reloc *r = &c->relocs[i];
        uint64_t v = sg_reloc_value(m, r) + (uint64_t)r->addend;

        for (uint32_t k = 0; k < SG_LANES; k++)
            memcpy(c->pool + r->offset + k * 8, &v, 8);
    }
}

uint32_t sg_sreg(struct sg_dec *d, uint32_t sr)
{
    struct sg_code *c = d->code;

    if (!(c->sreg_used[sr / 32] >> (sr & 31) & 1)) {
        c->sreg_used[sr / 32] |= 1u << (sr & 31);
        c->sreg_offset[sr] = d->nsregs++ * 128;
    }
    return SG_OPND_FIXED | c->sreg_offset[sr];
}

/* ---- instructions ---- */

static const char *const class_names[SG_C_COUNT] = {"a predicate", "32 bits", "64 bits", "128 bits"};

/* The class of an operand that is no constant; special registers have 32 bits. */
static uint32_t operand_class(const struct sg_dec *d, uint32_t op)
{
    if (op & SG_OPND_FIXED)
        return SG_C_32;
    return op < d->nvregs ? d->vregs[op].cls : SG_C_COUNT;
}

/* Checks that field k of the operation accepts this operand; reports the reason if not. */
static bool field_fits(struct sg_dec *d, const struct sg_opdef *def, unsigned k, uint32_t op)
{
    static const uint8_t classes[] = {
        [SG_W_PRED] = 1u << SG_C_PRED,
        [SG_W_32] = 1u << SG_C_32,
        [SG_W_64] = 1u << SG_C_64,
        [SG_W_ADDRESS] = 1u << SG_C_32 | 1u << SG_C_64,
        [SG_W_VARIES] = 1u << SG_C_32 | 1u << SG_C_64,
    };
    const uint8_t w = def->field[k], kind = w & SG_W_KIND;
    uint32_t class;

    if (op == SG_OPND_NONE && (kind == SG_W_NONE || kind == SG_W_VARIES || (w & SG_W_OPTIONAL)))
        return true;
    if (op == SG_OPND_NONE || kind == SG_W_NONE) {
        sg_dec_syntax(d, "%s: '%s' %s operand %c", d->oc.full, def->name,
                      kind == SG_W_NONE ? "has no" : "needs", "dabce"[k]);
        return false;
    }
    if (op & SG_OPND_CONST) {
        if (w & SG_W_OUT)
            sg_dec_syntax(d, "%s: a register expected as destination", d->oc.full);
        return !(w & SG_W_OUT);
    }
    class = operand_class(d, op);
    if (class < SG_C_COUNT && (classes[kind] >> class & 1))
        return true;
    sg_dec_syntax(d, "%s: an operand of %s where '%s' takes %s", d->oc.full,
                  class < SG_C_COUNT ? class_names[class] : "no class", def->name,
                  kind == SG_W_PRED ? "a predicate"
                  : kind == SG_W_32 ? "32 bits"
                  : kind == SG_W_64 ? "64 bits"
                                    : "32 or 64 bits");
    return false;
}

uint32_t sg_emit_x(struct sg_dec *d, enum sg_op op, const uint32_t f[5], uint32_t def, uint32_t use)
{
    const struct sg_opdef *row;
    struct sg_insn *in;

    if (d->err)
        return 0;
    row = sg_op_row(op);
    if (!row) {
        sg_dec_refuse(d, NULL);
        return 0;
    }
    for (unsigned k = 0; k < SG_FIELDS; k++)
        if (!field_fits(d, row, k, f[k]))
            return 0;
    if (d->ninsns >= SG_MAX_INSNS) {
        d->large = true;
        sg_dec_refuse(d, "the kernel is too long");
        return 0;
    }
    if (!sg_grow(&d->insns, &d->cap_insns, d->ninsns, sizeof(*d->insns)) ||
        !sg_grow(&d->metas, &d->cap_metas, d->ninsns, sizeof(*d->metas))) {
        sg_dec_nomem(d);
        return 0;
    }
    in = &d->insns[d->ninsns];
    memset(in, 0, sizeof(*in));
    in->fn = row->fn;
    in->d = f[0];
    in->a = f[1];
    in->b = f[2];
    in->c = f[3];
    in->e = f[4];
    in->line = d->line;
    d->metas[d->ninsns] = (struct sg_meta){(uint8_t)def, (uint8_t)use, SG_CT_NONE, d->in_span};
    return d->ninsns++;
}

uint32_t sg_emit(struct sg_dec *d, enum sg_op op, uint32_t dd, uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t f[5] = {dd, a, b, c, SG_OPND_NONE};

    return sg_emit_x(d, op, f, dd == SG_OPND_NONE ? 0 : SG_F_D, SG_F_A | SG_F_B | SG_F_C);
}

uint32_t sg_new_label(struct sg_dec *d)
{
    if (!sg_grow(&d->labels, &d->cap_labels, d->nlabels, sizeof(*d->labels))) {
        sg_dec_nomem(d);
        return 0;
    }
    d->labels[d->nlabels] = (struct sg_label){UINT32_MAX, d->line, 0};
    return d->nlabels++;
}

void sg_place_label(struct sg_dec *d, uint32_t label)
{
    uint32_t i = sg_emit(d, SG_OP_join, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE);

    if (d->err)
        return;
    d->metas[i].ctl = SG_CT_LABEL;
    d->labels[label].insn = i;
}

void sg_emit_bra(struct sg_dec *d, uint32_t label, uint32_t pred, bool neg)
{
    const enum sg_op op = pred == SG_OPND_NONE ? SG_OP_bra : neg ? SG_OP_bra_not : SG_OP_bra_if;
    uint32_t i = sg_emit(d, op, SG_OPND_NONE, pred, SG_OPND_NONE, SG_OPND_NONE);

    if (d->err)
        return;
    d->metas[i].ctl = SG_CT_BRA;
    d->insns[i].imm = label;
}

/* ---- floating point mode ---- */

#define MXCSR_BASE 0x1f80u  /* all exceptions masked */
#define MXCSR_FLUSH 0x8040u /* FTZ and DAZ */

uint32_t sg_fp_begin(struct sg_dec *d, const char *round, bool ftz)
{
    uint32_t mode = MXCSR_BASE | (ftz ? MXCSR_FLUSH : 0), i;

    if (round && !strcmp(round, "rm"))
        mode |= 1u << 13;
    else if (round && !strcmp(round, "rp"))
        mode |= 2u << 13;
    else if (round && !strcmp(round, "rz"))
        mode |= 3u << 13;
    d->code->mxcsr = MXCSR_BASE | (d->ftz ? MXCSR_FLUSH : 0);
    if (mode == d->code->mxcsr)
        return UINT32_MAX;
    i = sg_emit(d, SG_OP_fpmode, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE, SG_OPND_NONE);
    if (!d->err)
        d->insns[i].imm = mode;
    return i;
}

void sg_fp_end(struct sg_dec *d, uint32_t begin)
{
    if (!d->err && begin != UINT32_MAX)
        d->insns[begin].aux = d->ninsns - begin - 1;
}

void sg_code_free(struct sg_code *c)
{
    free(c->insns);
    free(c->pool);
    free(c->relocs);
    free(c->targets);
    free(c->calls);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        free(c->ahead[k].insns);
    free(c->flat);
    sg_jit_free(c);
    memset(c, 0, sizeof(*c));
}

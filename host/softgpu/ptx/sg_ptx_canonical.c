/* SPDX-License-Identifier: MIT */
/*
 * The canonical NaN of PTX. An f32 operation with a NaN result returns 0x7fffffff (PTX ISA 9.7.3);
 * the processor returns the payload and sign of an operand, or its own NaN. Arithmetic does not
 * distinguish NaNs, so handlers and native code leave them as they are, and "canon.f32" is inserted
 * only where bits are inspected: stores, integer operations, and all other operands not marked
 * SG_W_F32 in the table of operations.
 *
 * A register is a number if all its definitions are arithmetic, or copies of numbers and of
 * constants that are not NaN: its NaN is made canonical before an instruction that sees its bits.
 * Other registers may hold loaded bits, whose payload a copy must keep; there the NaN is made
 * canonical after each arithmetic definition, if the bits are seen.
 */
#include "exec/bytecode.h"
#include "ptx/decode.h"

#include <stdlib.h>
#include <string.h>

#define SEEN 256u

/* Treatment of an f32 by the operation, by its name; the rest is in the table of operations. */
enum { PLAIN, COPY, SELECT, MMA, WMMA, WGMMA, EXT, SYNC, SPAN };

struct canonical {
    struct sg_dec *d;
    uint32_t nregs; /* excludes registers of inserted instructions */
    uint8_t *kind;  /* per instruction */
    uint8_t *bits;  /* per register: some definition is not a number */
    uint8_t *dirty; /* per register: some definition may produce a non-canonical NaN */
    uint8_t *seen;  /* ... its bits are inspected */
    /* Copies by the register that they read (forward) or set: lists through instructions. */
    uint32_t *readers, *next_a, *next_b, *setters, *next_d;
    uint32_t *todo, ntodo;
    uint8_t *queued;
    struct sg_insn *insns;
    struct sg_meta *metas;
    uint32_t n, cap;
    /* per original instruction: start of the code inserted before it; its new index */
    uint32_t *begin, *at;
    sg_fn canon;
    struct {
        sg_fn fn;
        const struct sg_opdef *def;
        uint8_t kind;
    } known[SEEN];
};

static uint32_t *canonical_field(struct sg_insn *in, unsigned k)
{
    return k == 0 ? &in->d : k == 1 ? &in->a : k == 2 ? &in->b : k == 3 ? &in->c : &in->e;
}

/* True for a virtual register of 32 bits. */
static bool canonical_is_reg(const struct canonical *x, uint32_t op)
{
    return op < x->nregs && x->d->vregs[op].cls == SG_C_32;
}

static uint8_t kind_of(enum sg_op op)
{
    switch (op) {
    case SG_OP_mov_b32:
    case SG_OP_shfl_up:
    case SG_OP_shfl_down:
    case SG_OP_shfl_bfly:
    case SG_OP_shfl_idx:
        return COPY;
    case SG_OP_selp_b32:
        return SELECT;
    case SG_OP_mma_float:
        return MMA;
    case SG_OP_wmma_mma:
        return WMMA;
    case SG_OP_wgmma:
        return WGMMA;
    case SG_OP_ext:
        return EXT;
    case SG_OP_wsync:
        return SYNC;
    case SG_OP_pred_if:
    case SG_OP_pred_not:
    case SG_OP_fpmode:
        return SPAN;
    default:
        return PLAIN;
    }
}

static const struct sg_opdef *row_of(struct canonical *x, sg_fn fn, uint8_t *kind)
{
    const uint32_t i = (uint32_t)((uintptr_t)fn >> 4) % SEEN;

    if (x->known[i].fn != fn) {
        x->known[i].fn = fn;
        x->known[i].def = sg_op_def_of(fn);
        x->known[i].kind = kind_of(sg_op_of(fn));
    }
    *kind = x->known[i].kind;
    return x->known[i].def;
}

/* The instruction that the operands of i belong to: "ext" stands behind it. */
static uint32_t head_of(const struct canonical *x, uint32_t i)
{
    while (i && x->kind[i] == EXT)
        i--;
    return i;
}

/* Tells whether field k of instruction i reads, or writes, an f32 that is a number. */
static uint8_t is_number(struct canonical *x, uint32_t i, unsigned k)
{
    const uint32_t head = head_of(x, i);
    const struct sg_insn *in = &x->d->insns[head];
    uint8_t kind;
    const struct sg_opdef *def;

    if (x->kind[head] == MMA)
        return sg_mma_forms[in->aux].c == 'f' ? SG_W_F32 : 0;
    if (x->kind[head] == WMMA) /* the handler gives the NaN of PTX */
        return (uint8_t)((uint64_t)in->imm >> 24) == 'f' ? SG_W_F32 | SG_W_CLEAN : 0;
    if (x->kind[head] == WGMMA && i > head + (in->aux & SG_WGMMA_A_REGISTERS ? 1 : 0)) { /* d */
        struct sg_wgmma f;

        return sg_wgmma_of(in->aux, &f) && f.d == 'f' ? SG_W_F32 | SG_W_CLEAN : 0;
    }
    def = row_of(x, x->d->insns[i].fn, &kind);
    return def ? def->field[k] & (SG_W_F32 | SG_W_CLEAN) : 0;
}

/* True for a NaN constant, whose bits a copy keeps. */
static bool constant_is_bits(const struct canonical *x, uint32_t op)
{
    uint32_t v;

    if (!(op & SG_OPND_CONST))
        return op != SG_OPND_NONE; /* a special register */
    memcpy(&v, x->d->code->pool + (op & ~SG_OPND_CONST), 4);
    return (v & 0x7fffffffu) > 0x7f800000u;
}

static bool is_copy(uint8_t kind)
{
    return kind == COPY || kind == SELECT;
}

static void mark_value(struct canonical *x, uint8_t *set, uint32_t v)
{
    if (set[v])
        return;
    set[v] = 1;
    if (!x->queued[v]) {
        x->queued[v] = 1;
        x->todo[x->ntodo++] = v;
    }
}

/* Propagates across a copy: its register is defined (1), or its bits are seen (2), like the
   other side's. */
static void copy_forward(struct canonical *x, uint32_t i)
{
    const struct sg_insn *in = &x->d->insns[i];
    const uint32_t from[2] = {in->a, in->b};

    for (unsigned k = 0; k < (x->kind[i] == SELECT ? 2u : 1u); k++)
        if (canonical_is_reg(x, from[k])) {
            if (x->bits[from[k]])
                mark_value(x, x->bits, in->d);
            if (x->dirty[from[k]])
                mark_value(x, x->dirty, in->d);
        } else if (constant_is_bits(x, from[k])) {
            mark_value(x, x->bits, in->d);
        }
}

static void copy_backward(struct canonical *x, uint32_t i)
{
    const struct sg_insn *in = &x->d->insns[i];

    if (!x->seen[in->d])
        return;
    if (canonical_is_reg(x, in->a))
        mark_value(x, x->seen, in->a);
    if (x->kind[i] == SELECT && canonical_is_reg(x, in->b))
        mark_value(x, x->seen, in->b);
}

static void link_copy(struct canonical *x, uint32_t i)
{
    const struct sg_insn *in = &x->d->insns[i];

    if (canonical_is_reg(x, in->a)) {
        x->next_a[i] = x->readers[in->a];
        x->readers[in->a] = 2 * i + 1;
    }
    if (x->kind[i] == SELECT && canonical_is_reg(x, in->b)) {
        x->next_b[i] = x->readers[in->b];
        x->readers[in->b] = 2 * i + 2;
    }
    x->next_d[i] = x->setters[in->d];
    x->setters[in->d] = i + 1;
}

static void look_at_fields(struct canonical *x, uint32_t i)
{
    const struct sg_meta *m = &x->d->metas[i];

    for (unsigned k = 0; k < SG_FIELDS; k++) {
        const uint32_t op = *canonical_field(&x->d->insns[i], k);
        const bool handed = is_copy(x->kind[i]) && (k < 2 || (k == 2 && x->kind[i] == SELECT));
        uint8_t w;

        if (handed || !canonical_is_reg(x, op) || !((m->def | m->use) >> k & 1))
            continue;
        w = is_number(x, i, k);
        if ((m->use >> k & 1) && !(w & SG_W_F32))
            mark_value(x, x->seen, op);
        if (!(m->def >> k & 1) || (w & SG_W_CLEAN))
            continue;
        mark_value(x, w & SG_W_F32 ? x->dirty : x->bits, op);
    }
}

static void find_numbers(struct canonical *x)
{
    const struct sg_dec *d = x->d;

    for (uint32_t i = 0; i < d->ninsns; i++) {
        const struct sg_insn *in = &d->insns[i];

        row_of(x, in->fn, &x->kind[i]);
        if (is_copy(x->kind[i]) && !canonical_is_reg(x, in->d))
            x->kind[i] = PLAIN; /* into nothing */
        if (is_copy(x->kind[i]))
            link_copy(x, i);
    }
    for (uint32_t i = 0; i < d->ninsns; i++) {
        look_at_fields(x, i);
        if (is_copy(x->kind[i]))
            copy_forward(x, i);
    }
    while (x->ntodo) {
        const uint32_t v = x->todo[--x->ntodo];

        x->queued[v] = 0;
        for (uint32_t r = x->readers[v]; r; r = r & 1 ? x->next_a[(r - 1) / 2] : x->next_b[(r - 1) / 2])
            copy_forward(x, (r - 1) / 2);
        for (uint32_t s = x->setters[v]; s; s = x->next_d[s - 1])
            copy_backward(x, s - 1);
    }
}

/* True if register v, read by instruction i in field k, must be made canonical first. */
static bool wanted_before(struct canonical *x, uint32_t i, unsigned k, uint32_t v)
{
    if (!(x->d->metas[i].use >> k & 1) || !canonical_is_reg(x, v) || x->bits[v] || !x->dirty[v])
        return false;
    if (is_copy(x->kind[i]) && (k == 1 || (k == 2 && x->kind[i] == SELECT))) {
        const uint32_t to = x->d->insns[i].d;

        return x->bits[to] && x->seen[to];
    }
    return !(is_number(x, i, k) & SG_W_F32);
}

/* True if instruction i writes a number to register v, which may also hold other bits and whose
   bits are seen. */
static bool wanted_behind(struct canonical *x, uint32_t i, unsigned k, uint32_t v)
{
    if (!(x->d->metas[i].def >> k & 1) || !canonical_is_reg(x, v) || !x->bits[v] || !x->seen[v] ||
        is_copy(x->kind[i]))
        return false;
    return (is_number(x, i, k) & (SG_W_F32 | SG_W_CLEAN)) == SG_W_F32;
}

static bool append_instruction(struct canonical *x, const struct sg_insn *in, const struct sg_meta *m)
{
    /* the two arrays are as long as each other */
    uint32_t cap = x->cap;

    if (!sg_grow(&x->insns, &cap, x->n, sizeof(*x->insns)) ||
        !sg_grow(&x->metas, &x->cap, x->n, sizeof(*x->metas)))
        return false;
    x->insns[x->n] = *in;
    x->metas[x->n++] = *m;
    return true;
}

static bool put_canon(struct canonical *x, uint32_t i, uint32_t to, uint32_t from)
{
    const struct sg_insn in = {.fn = x->canon,
                               .d = to,
                               .a = from,
                               .b = SG_OPND_NONE,
                               .c = SG_OPND_NONE,
                               .e = SG_OPND_NONE,
                               .line = x->d->insns[i].line};
    const struct sg_meta m = {SG_F_D, SG_F_A, SG_CT_NONE, x->d->metas[i].partial};

    return append_instruction(x, &in, &m);
}

/* Instruction i with its operands behind it, to *end; `first`: a wsync that belongs to it. */
static bool rewrite_group(struct canonical *x, uint32_t first, uint32_t i, uint32_t end)
{
    struct sg_dec *d = x->d;

    for (uint32_t k = first; k < end; k++)
        x->begin[k] = x->n;
    for (uint32_t g = i; g < end; g++)
        for (unsigned k = 0; k < SG_FIELDS; k++) {
            uint32_t *op = canonical_field(&d->insns[g], k), t;
            const uint32_t v = *op;

            if (!wanted_before(x, g, k, v))
                continue;
            t = d->metas[g].def >> k & 1 ? v : sg_temp(d, SG_TY_B32);
            if (t == SG_OPND_NONE || !put_canon(x, i, t, v))
                return false;
            for (unsigned j = k; j < SG_FIELDS; j++) /* all of the instruction that read it */
                if (*canonical_field(&d->insns[g], j) == v && wanted_before(x, g, j, v) &&
                    !(d->metas[g].def >> j & 1))
                    *canonical_field(&d->insns[g], j) = t;
        }
    for (uint32_t k = first; k < end; k++) {
        x->at[k] = x->n;
        if (!append_instruction(x, &d->insns[k], &d->metas[k]))
            return false;
    }
    for (uint32_t g = i; g < end; g++)
        for (unsigned k = 0; k < SG_FIELDS; k++) {
            const uint32_t v = *canonical_field(&d->insns[g], k);

            if (wanted_behind(x, g, k, v) && !put_canon(x, i, v, v))
                return false;
        }
    return true;
}

static bool rewrite_all(struct canonical *x)
{
    struct sg_dec *d = x->d;

    for (uint32_t i = 0; i < d->ninsns;) {
        const uint32_t first = i;
        uint32_t end;

        if (x->kind[i] == SYNC && i + 1 < d->ninsns && x->kind[i + 1] == PLAIN && !d->metas[i + 1].ctl &&
            d->metas[i].partial == d->metas[i + 1].partial)
            i++;
        for (end = i + 1; end < d->ninsns && x->kind[end] == EXT;)
            end++;
        if (!rewrite_group(x, first, i, end))
            return false;
        i = end;
    }
    x->begin[d->ninsns] = x->n;
    return true;
}

/* Updates the instruction numbers in spans, labels and calls. */
static void renumber_values(struct canonical *x)
{
    struct sg_dec *d = x->d;

    for (uint32_t i = 0; i < d->ninsns; i++)
        if (x->kind[i] == SPAN) {
            const uint32_t last = i + d->insns[i].aux;

            x->insns[x->at[i]].aux = x->begin[last + 1 <= d->ninsns ? last + 1 : d->ninsns] - x->at[i] - 1;
        }
    for (uint32_t k = 0; k < d->nlabels; k++)
        if (d->labels[k].insn != UINT32_MAX)
            d->labels[k].insn = x->begin[d->labels[k].insn];
    for (uint32_t k = 0; k < d->nsites; k++) {
        struct sg_site *s = &d->sites[k];

        s->insn = x->at[s->insn];
        if (s->callee != UINT32_MAX)
            s->room = x->at[s->room];
    }
}

/* True if the kernel needs canonical NaNs. Most kernels that only move data do not. */
static bool has_work(struct canonical *x)
{
    for (uint32_t i = 0; i < x->d->ninsns; i++)
        for (unsigned k = 0; k < SG_FIELDS; k++) {
            const uint32_t v = *canonical_field(&x->d->insns[i], k);

            if (wanted_before(x, i, k, v) || wanted_behind(x, i, k, v))
                return true;
        }
    return false;
}

static bool allocate_tables(struct canonical *x)
{
    const size_t regs = (size_t)x->d->nvregs + 1, insns = (size_t)x->d->ninsns + 1;

    x->kind = calloc(insns, 1);
    x->bits = calloc(regs, 1);
    x->dirty = calloc(regs, 1);
    x->seen = calloc(regs, 1);
    x->queued = calloc(regs, 1);
    x->todo = malloc(regs * sizeof(*x->todo));
    x->readers = calloc(regs, sizeof(*x->readers));
    x->setters = calloc(regs, sizeof(*x->setters));
    x->next_a = calloc(insns, sizeof(*x->next_a));
    x->next_b = calloc(insns, sizeof(*x->next_b));
    x->next_d = calloc(insns, sizeof(*x->next_d));
    x->begin = malloc(insns * sizeof(*x->begin));
    x->at = malloc(insns * sizeof(*x->at));
    return x->kind && x->bits && x->dirty && x->seen && x->queued && x->todo && x->readers && x->setters &&
           x->next_a && x->next_b && x->next_d && x->begin && x->at;
}

int sg_dec_canonical(struct sg_dec *d)
{
    struct canonical *x = calloc(1, sizeof(*x));
    bool ok = x != NULL;

    if (ok) {
        x->d = d;
        x->nregs = d->nvregs;
        x->canon = sg_op_fn(SG_OP_canon_f32);
        ok = allocate_tables(x);
    }
    if (ok) {
        find_numbers(x);
        if (has_work(x)) {
            ok = rewrite_all(x);
            if (ok) {
                renumber_values(x);
                free(d->insns);
                free(d->metas);
                d->insns = x->insns;
                d->metas = x->metas;
                d->ninsns = x->n;
                d->cap_insns = d->cap_metas = x->cap;
            } else {
                free(x->insns);
                free(x->metas);
            }
        }
    }
    if (x) {
        free(x->kind);
        free(x->bits);
        free(x->dirty);
        free(x->seen);
        free(x->queued);
        free(x->todo);
        free(x->readers);
        free(x->setters);
        free(x->next_a);
        free(x->next_b);
        free(x->next_d);
        free(x->begin);
        free(x->at);
        free(x);
    }
    return ok ? d->err : sg_dec_nomem(d);
}

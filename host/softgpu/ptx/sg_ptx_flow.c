/* SPDX-License-Identifier: MIT */
/*
 * From virtual registers to slots: basic blocks, liveness of the registers that cross blocks,
 * linear scan over live intervals, and branch targets.
 *
 * Liveness is computed for a thread. It is valid for a warp, too, because a lane's part of a slot
 * is written only when that lane executes.
 */
#include "ptx/decode.h"

#include <stdlib.h>
#include <string.h>

#define MAX_SWEEPS 200 /* then every crossing register counts as live everywhere */
#define SG_MAX_CALL_WORDS (16u << 20)
#define MAX_BITSET (256u << 20) /* bytes of a family of sets */
#define MAX_WAYS (1u << 30)     /* ... that are read in a sweep */
#define MAX_SWEPT (16ull << 30) /* bytes visited in all of them */

struct flow {
    struct sg_dec *d;
    uint32_t n; /* instructions */
    uint32_t *block_of;
    uint32_t *first; /* per block; first[nblocks] == n */
    uint32_t nblocks;
    uint32_t *gid;   /* vreg -> crossing register + 1 */
    uint32_t *gregs; /* the reverse */
    uint32_t ngregs;
    uint32_t words;
    uint64_t *gen, *kill, *in;
    uint32_t *start, *end; /* per vreg, in half positions: 2i use, 2i + 1 definition */
};

static uint32_t *operand_field(struct sg_insn *in, unsigned bit)
{
    switch (bit) {
    case 0:
        return &in->d;
    case 1:
        return &in->a;
    case 2:
        return &in->b;
    case 3:
        return &in->c;
    default:
        return &in->e;
    }
}

static inline bool is_vreg(uint32_t op)
{
    return op < SG_OPND_NONE;
}

static int find_blocks(struct flow *x)
{
    struct sg_dec *d = x->d;
    bool leader = true;

    x->block_of = malloc(((size_t)x->n + 1) * sizeof(uint32_t));
    x->first = malloc(((size_t)x->n + 2) * sizeof(uint32_t));
    if (!x->block_of || !x->first)
        return sg_dec_nomem(d);
    for (uint32_t i = 0; i < x->n; i++) {
        uint8_t ctl = d->metas[i].ctl;

        if (leader || ctl == SG_CT_LABEL)
            x->first[x->nblocks++] = i;
        x->block_of[i] = x->nblocks - 1;
        leader = ctl == SG_CT_BRA || ctl == SG_CT_BRX || ctl == SG_CT_EXIT || ctl == SG_CT_CALL;
    }
    x->first[x->nblocks] = x->n;
    return 0;
}

/* The instruction of a label, or of the enclosing scope's label that it resolves to. */
static uint32_t label_insn(const struct sg_dec *d, uint32_t label)
{
    return d->labels[sg_dec_label_meant(d, label)].insn;
}

/* Labels become instruction distances (bra) or a table (brx). */
static int resolve_branches(struct flow *x)
{
    struct sg_dec *d = x->d;
    uint32_t last = SG_OPND_NONE, key = 0;

    for (uint32_t i = 0; i < x->n; i++) {
        struct sg_insn *in = &d->insns[i];

        /* accesses through the same address register share an entry: most are to one allocation */
        if (in->aux && in->a != last) {
            last = in->a;
            key++;
        }
        in->idx = key;
        if (d->metas[i].ctl == SG_CT_BRA || d->metas[i].ctl == SG_CT_CALL) {
            uint32_t t = label_insn(d, (uint32_t)in->imm);

            if (t == UINT32_MAX) {
                d->line = in->line;
                d->col = 0;
                return sg_dec_syntax(d, "bra: label is not defined");
            }
            in->imm = (int64_t)t - i;
        }
    }
    d->code->nranges = key + 1;
    d->code->targets = malloc((d->nlists + 1) * sizeof(uint32_t));
    if (!d->code->targets)
        return sg_dec_nomem(d);
    for (uint32_t k = 0; k < d->nlists;) {
        uint32_t n = d->lists[k];

        d->code->targets[k++] = n;
        for (uint32_t e = k + n; k < e; k++) {
            uint32_t t = label_insn(d, d->lists[k]);

            if (t == UINT32_MAX) {
                d->line = d->labels[d->lists[k]].line;
                return sg_dec_syntax(d, ".branchtargets: label is not defined");
            }
            d->code->targets[k] = t;
        }
    }
    d->code->ntargets = d->nlists;
    return 0;
}

/*
 * Replaces a register whose only definition is a mov of a constant by that constant: compilers put
 * the constants of inline assembler into registers. (A register read before its definition has no
 * defined value.)
 */
static int fold_constants(struct flow *x)
{
    struct sg_dec *d = x->d;
    uint32_t *value = calloc((size_t)d->nvregs + 1, sizeof(uint32_t));
    uint8_t *defs = calloc((size_t)d->nvregs + 1, 1);
    const sg_fn mov32 = sg_op_fn(SG_OP_mov_b32), mov64 = sg_op_fn(SG_OP_mov_b64);

    if (!value || !defs) {
        free(value);
        free(defs);
        return sg_dec_nomem(d);
    }
    for (uint32_t i = 0; i < x->n; i++)
        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);

            if (is_vreg(v) && (d->metas[i].def >> k & 1) && defs[v] < 2)
                defs[v] = d->metas[i].partial ? 2 : defs[v] + 1;
        }
    for (uint32_t i = 0; i < x->n; i++) {
        struct sg_insn *in = &d->insns[i];

        for (unsigned k = 1; k < 4; k++) { /* a, b, c */
            uint32_t *op = operand_field(in, k);

            if (is_vreg(*op) && (d->metas[i].use >> k & 1) && !(d->metas[i].def >> k & 1) && value[*op])
                *op = value[*op];
        }
        if ((in->fn == mov32 || in->fn == mov64) && (in->a & SG_OPND_CONST) && is_vreg(in->d) &&
            defs[in->d] == 1)
            value[in->d] = in->a;
    }
    free(value);
    free(defs);
    return 0;
}

/* A register is crossing when some block reads it before writing it. */
static int find_crossing(struct flow *x)
{
    struct sg_dec *d = x->d;
    uint32_t *stamp = calloc((size_t)d->nvregs + 1, sizeof(uint32_t));

    x->gid = calloc((size_t)d->nvregs + 1, sizeof(uint32_t));
    x->gregs = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
    if (!stamp || !x->gid || !x->gregs) {
        free(stamp);
        return sg_dec_nomem(d);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sg_meta *m = &d->metas[i];

        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);
            bool use = m->use >> k & 1;

            if (!is_vreg(v))
                continue;
            if ((m->def >> k & 1) && m->partial && !d->vregs[v].temp)
                use = true;
            if (use && stamp[v] != x->block_of[i] + 1 && !x->gid[v]) {
                x->gregs[x->ngregs++] = v;
                x->gid[v] = x->ngregs;
            }
        }
        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);

            if (is_vreg(v) && (m->def >> k & 1))
                stamp[v] = x->block_of[i] + 1;
        }
    }
    free(stamp);
    return 0;
}

static inline void set_bit(uint64_t *s, uint32_t i)
{
    s[i >> 6] |= 1ull << (i & 63);
}

static inline bool get_bit(const uint64_t *s, uint32_t i)
{
    return s[i >> 6] >> (i & 63) & 1;
}

static void local_sets(struct flow *x)
{
    struct sg_dec *d = x->d;

    for (uint32_t i = 0; i < x->n; i++) {
        const struct sg_meta *m = &d->metas[i];
        uint64_t *gen = x->gen + (size_t)x->block_of[i] * x->words;
        uint64_t *kill = x->kill + (size_t)x->block_of[i] * x->words;

        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);

            if (!is_vreg(v) || !x->gid[v])
                continue;
            if (((m->use >> k & 1) || ((m->def >> k & 1) && m->partial)) && !get_bit(kill, x->gid[v] - 1))
                set_bit(gen, x->gid[v] - 1);
        }
        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);

            if (is_vreg(v) && x->gid[v] && (m->def >> k & 1) && !m->partial)
                set_bit(kill, x->gid[v] - 1);
        }
    }
}

/* Number of edges between blocks: two per block, and those of branch lists, each of which may be
   as long as the text. */
static uint64_t count_ways(const struct flow *x)
{
    uint64_t n = 2 * (uint64_t)x->nblocks;

    for (uint32_t i = 0; i < x->n; i++)
        if (x->d->metas[i].ctl == SG_CT_BRX)
            n += x->d->code->targets[x->d->insns[i].imm];
    return n;
}

/* Calls fn for each successor of block b. */
static void or_successors(struct flow *x, uint32_t b, uint64_t *out)
{
    struct sg_dec *d = x->d;
    uint32_t last = x->first[b + 1] - 1;
    const struct sg_insn *in = &d->insns[last];
    bool fall = true;

#define OR_BLOCK(t) \
    do { \
        const uint64_t *s_ = x->in + (size_t)(t)*x->words; \
        for (uint32_t w_ = 0; w_ < x->words; w_++) \
            out[w_] |= s_[w_]; \
    } while (0)
    switch (d->metas[last].ctl) {
    case SG_CT_BRA:
        OR_BLOCK(x->block_of[last + in->imm]);
        fall = in->a != SG_OPND_NONE;
        break;
    case SG_CT_BRX: {
        const uint32_t *t = d->code->targets + in->imm;

        for (uint32_t k = 1; k <= t[0]; k++)
            OR_BLOCK(x->block_of[t[k]]);
        fall = false;
        break;
    }
    case SG_CT_EXIT:
        fall = in->a != SG_OPND_NONE;
        break;
    default:
        break;
    }
    if (fall && b + 1 < x->nblocks)
        OR_BLOCK(b + 1);
#undef OR_BLOCK
}

static int compute_liveness(struct flow *x)
{
    size_t bytes;
    uint64_t *out, ways;
    uint32_t sweep;
    bool changed = true;

    x->words = (x->ngregs + 63) / 64;
    bytes = (size_t)x->nblocks * x->words * 8;
    ways = count_ways(x) * x->words * 8;
    if (!x->words || bytes > MAX_BITSET || ways > MAX_WAYS)
        return 0;
    x->gen = calloc(1, bytes);
    x->kill = calloc(1, bytes);
    x->in = calloc(1, bytes);
    out = malloc((size_t)x->words * 8);
    if (!x->gen || !x->kill || !x->in || !out) {
        free(out);
        return sg_dec_nomem(x->d);
    }
    local_sets(x);
    memcpy(x->in, x->gen, bytes);
    for (sweep = 0; changed && sweep < MAX_SWEEPS; sweep++) {
        changed = false;
        for (uint32_t b = x->nblocks; b-- > 0;) {
            uint64_t *in = x->in + (size_t)b * x->words;
            const uint64_t *kill = x->kill + (size_t)b * x->words;

            memset(out, 0, (size_t)x->words * 8);
            or_successors(x, b, out);
            for (uint32_t w = 0; w < x->words; w++) {
                uint64_t v = in[w] | (out[w] & ~kill[w]);

                if (v != in[w]) {
                    in[w] = v;
                    changed = true;
                }
            }
        }
        if ((sweep + 1) * ways > MAX_SWEPT)
            break;
    }
    free(out);
    if (changed) { /* too deep a flow graph: give up precision, not correctness */
        free(x->in);
        x->in = NULL;
    }
    return 0;
}

static void touch_interval(struct flow *x, uint32_t v, uint32_t pos)
{
    if (pos < x->start[v])
        x->start[v] = pos;
    if (pos > x->end[v] || x->end[v] == UINT32_MAX)
        x->end[v] = pos;
}

static int compute_intervals(struct flow *x)
{
    struct sg_dec *d = x->d;
    uint64_t *out;

    x->start = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
    x->end = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
    if (!x->start || !x->end)
        return sg_dec_nomem(d);
    memset(x->start, 0xff, ((size_t)d->nvregs + 1) * sizeof(uint32_t));
    memset(x->end, 0xff, ((size_t)d->nvregs + 1) * sizeof(uint32_t));
    for (uint32_t i = 0; i < x->n; i++) {
        const struct sg_meta *m = &d->metas[i];

        for (unsigned k = 0; k < 5; k++) {
            uint32_t v = *operand_field(&d->insns[i], k);

            if (!is_vreg(v))
                continue;
            if ((m->use >> k & 1) || (m->partial && (m->def >> k & 1)))
                touch_interval(x, v, 2 * i);
            if (m->def >> k & 1)
                touch_interval(x, v, 2 * i + 1);
        }
    }
    if (x->ngregs && !x->in) {
        for (uint32_t g = 0; g < x->ngregs; g++) {
            touch_interval(x, x->gregs[g], 0);
            touch_interval(x, x->gregs[g], 2 * x->n);
        }
        return 0;
    }
    if (!x->words)
        return 0;
    out = malloc((size_t)x->words * 8);
    if (!out)
        return sg_dec_nomem(d);
    for (uint32_t b = 0; b < x->nblocks; b++) {
        const uint64_t *in = x->in + (size_t)b * x->words;

        memset(out, 0, (size_t)x->words * 8);
        or_successors(x, b, out);
        for (uint32_t w = 0; w < x->words; w++) {
            for (uint64_t s = in[w]; s; s &= s - 1)
                touch_interval(x, x->gregs[w * 64 + (uint32_t)__builtin_ctzll(s)], 2 * x->first[b]);
            for (uint64_t s = out[w]; s; s &= s - 1)
                touch_interval(x, x->gregs[w * 64 + (uint32_t)__builtin_ctzll(s)], 2 * x->first[b + 1] - 1);
        }
    }
    free(out);
    return 0;
}

/* Assigns slots by linear scan; next[] chains registers that begin or end at the same position. */
static int assign_slots(struct flow *x, uint32_t nslots[SG_C_COUNT])
{
    struct sg_dec *d = x->d;
    uint32_t npos = 2 * x->n + 2;
    uint32_t *begins = calloc(npos, sizeof(uint32_t)), *ends = calloc(npos, sizeof(uint32_t));
    uint32_t *nb = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
    uint32_t *ne = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
    uint32_t *freel[SG_C_COUNT] = {0}, nfree[SG_C_COUNT] = {0};
    bool room = begins && ends && nb && ne;
    int r = 0;

    for (int c = 0; c < SG_C_COUNT && room; c++) {
        freel[c] = malloc(((size_t)d->nvregs + 1) * sizeof(uint32_t));
        room = freel[c] != NULL;
    }
    if (!room) {
        r = sg_dec_nomem(d);
        goto out;
    }
    for (uint32_t v = d->nvregs; v-- > 0;) {
        if (x->start[v] == UINT32_MAX)
            continue;
        if (d->vregs[v].cls >= SG_C_PAIR) { /* its halves have slots */
            r = sg_dec_refuse(d, "a register of 128 bits as an operand");
            goto out;
        }
        nb[v] = begins[x->start[v]];
        begins[x->start[v]] = v + 1;
        ne[v] = ends[x->end[v]];
        ends[x->end[v]] = v + 1;
    }
    for (uint32_t p = 0; p < npos; p++) {
        for (uint32_t v = begins[p]; v; v = nb[v - 1]) {
            int c = d->vregs[v - 1].cls;

            d->vregs[v - 1].slot = nfree[c] ? freel[c][--nfree[c]] : nslots[c]++;
        }
        for (uint32_t v = ends[p]; v; v = ne[v - 1]) {
            int c = d->vregs[v - 1].cls;

            freel[c][nfree[c]++] = d->vregs[v - 1].slot;
        }
    }
out:
    for (int c = 0; c < SG_C_COUNT; c++)
        free(freel[c]);
    free(begins);
    free(ends);
    free(nb);
    free(ne);
    return r;
}

/* True if register g (of gregs) is live at the beginning of block b. */
static bool live_at(const struct flow *x, uint32_t b, uint32_t g)
{
    return !x->in || get_bit(x->in + (size_t)b * x->words, g);
}

/*
 * The registers that are live across each real call: calls may be recursive, so they are saved
 * whichever function they belong to.
 */
static int call_table(struct flow *x, const uint64_t base[SG_C_COUNT])
{
    static const uint32_t size[SG_C_COUNT] = {[SG_C_64] = 256, [SG_C_32] = 128, [SG_C_PRED] = 4};
    struct sg_dec *d = x->d;
    struct sg_code *c = d->code;
    uint32_t cap = 0;

    for (uint32_t s = 0; s < d->nsites; s++) {
        const struct sg_site *site = &d->sites[s];
        uint32_t at = c->ncall_words, n = 0, words = 0, b;

        if (site->callee == UINT32_MAX)
            continue;
        b = x->block_of[site->insn] + 1;
        for (uint32_t g = 0; g <= x->ngregs + SG_CALL_REGS; g++)
            if (!sg_grow(&c->calls, &cap, at + g, sizeof(*c->calls)))
                return sg_dec_nomem(d);
        for (uint32_t g = 0; g < x->ngregs && b < x->nblocks; g++) {
            const struct sg_vreg *v = &d->vregs[x->gregs[g]];

            if (!live_at(x, b, g))
                continue;
            words += v->cls == SG_C_64 ? 2 : 1;
            c->calls[at + SG_CALL_REGS + n++] =
                (uint32_t)v->cls << 30 | (uint32_t)(base[v->cls] + (uint64_t)v->slot * size[v->cls]);
        }
        c->calls[at + SG_CALL_CALLER] = site->caller ? d->procs[site->caller - 1].frame_bytes : 0;
        c->calls[at + SG_CALL_CALLEE] = d->procs[site->callee].frame_bytes;
        c->calls[at + SG_CALL_NREGS] = n;
        c->calls[at + SG_CALL_WORDS] = words;
        d->insns[site->insn].aux = d->insns[site->room].aux = at;
        c->ncall_words += SG_CALL_REGS + n;
        if (c->ncall_words > SG_MAX_CALL_WORDS) {
            strcpy(d->oc.full, "call");
            d->large = true;
            return sg_dec_refuse(d, "too many registers live across calls");
        }
    }
    return 0;
}

static int rewrite_operands(struct flow *x, const uint32_t nslots[SG_C_COUNT])
{
    struct sg_dec *d = x->d;
    struct sg_code *c = d->code;
    uint64_t base64 = (uint64_t)d->nsregs * 128;
    uint64_t base32, basep, total;

    base64 = (base64 + 255) & ~255ull;
    base32 = base64 + (uint64_t)nslots[SG_C_64] * 256;
    basep = base32 + (uint64_t)nslots[SG_C_32] * 128;
    total = basep + (uint64_t)nslots[SG_C_PRED] * 4;
    total = (total + 255) & ~255ull;
    if (total > SG_MAX_REGFILE) {
        strcpy(d->oc.full, ".reg");
        d->large = true;
        return sg_dec_refuse(d, "the kernel needs too many registers at once");
    }
    c->regfile_bytes = (uint32_t)total;
    c->slots_begin = (uint32_t)base64;
    c->slots_end = (uint32_t)basep;
    c->slots32 = (uint32_t)base32;
    c->fields = malloc((size_t)x->n * 2 + 1);
    if (!c->fields)
        return sg_dec_nomem(d);
    for (uint32_t i = 0; i < x->n; i++) {
        c->fields[2 * i] = (uint8_t)(d->metas[i].def | (d->metas[i].partial ? 0x80 : 0));
        c->fields[2 * i + 1] = d->metas[i].use;
        for (unsigned k = 0; k < 5; k++) {
            uint32_t *op = operand_field(&d->insns[i], k);
            const struct sg_vreg *v;

            if (*op == SG_OPND_NONE) {
                *op = 0;
                c->fields[2 * i] &= (uint8_t) ~(1u << k);
                c->fields[2 * i + 1] &= (uint8_t) ~(1u << k);
                continue;
            }
            if (*op & SG_OPND_CONST)
                continue;
            if (*op & SG_OPND_FIXED) {
                *op &= ~SG_OPND_FIXED;
                continue;
            }
            v = &d->vregs[*op];
            *op = (uint32_t)(v->cls == SG_C_64   ? base64 + (uint64_t)v->slot * 256
                             : v->cls == SG_C_32 ? base32 + (uint64_t)v->slot * 128
                                                 : basep + (uint64_t)v->slot * 4);
        }
    }
    c->zero_regs = d->nprocs || (x->ngregs && !x->in);
    for (uint32_t w = 0; w < x->words && x->in; w++)
        c->zero_regs |= x->in[w] != 0; /* live at the start of the first block */
    c->num_regs = nslots[SG_C_32] + 2 * nslots[SG_C_64] + c->hoisted_regs;
    return call_table(
        x, (const uint64_t[SG_C_COUNT]){[SG_C_64] = base64, [SG_C_32] = base32, [SG_C_PRED] = basep});
}

int sg_dec_flow(struct sg_dec *d)
{
    struct flow x = {.d = d, .n = d->ninsns};
    uint32_t nslots[SG_C_COUNT] = {0};
    int r;

    r = fold_constants(&x);
    if (!r)
        r = sg_dec_canonical(d);
    if (!r)
        r = sg_dec_hoist(d);
    x.n = d->ninsns;
    if (!r && (find_blocks(&x) || resolve_branches(&x) || find_crossing(&x) || compute_liveness(&x) ||
               compute_intervals(&x)))
        r = d->err;
    if (!r)
        r = assign_slots(&x, nslots);
    if (!r)
        r = rewrite_operands(&x, nslots);
    free(x.block_of);
    free(x.first);
    free(x.gid);
    free(x.gregs);
    free(x.gen);
    free(x.kill);
    free(x.in);
    free(x.start);
    free(x.end);
    return r;
}

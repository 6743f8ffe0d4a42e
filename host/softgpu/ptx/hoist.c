/* SPDX-License-Identifier: MIT */
/*
 * Hoists launch-invariant values; half of the instructions of a small block qualify. A value with a
 * single definition, by an operation without side effects, from constants, parameters and special
 * registers other than the block's index, is the same in every block that a warp runs in a launch.
 * It is computed once per warp (exec/block.c) instead of once per block; values that also depend on
 * %ctaid.y and .z once per row of blocks, which run in sequence. These values have slots of their
 * own, beside those of the special registers, which are not used for anything else.
 *
 * A value that also depends on %ctaid.x and is uniform across lanes is not hoisted, but gets a slot
 * of its own and is always written for all lanes, so that native code needs only one part of it. It
 * may have several definitions, provided that no divergent branch precedes them.
 */
#include "jit/jit.h"
#include "ptx/decode.h"

#include <stdlib.h>
#include <string.h>

#define SEEN 256u
#define MAX_PASSES 8           /* definitions nearly always stand before uses */
#define MAX_WALKED (64u << 20) /* limit of instructions visited for single registers */

enum { VARIES, SEVERAL, UNKNOWN, HOISTED, OF_ROW, OF_BLOCK, ALIAS, ONE_OF };
/* SEVERAL: several definitions (ONE_OF: of an instruction that is one of them); OF_ROW: depends
   on %ctaid.y and .z; OF_BLOCK: the same in all lanes, depends on the block; ALIAS: of an
   instruction that only copies a value */

#define MANY UINT32_MAX

struct hoist {
    struct sg_dec *d;
    uint32_t *defs; /* per register: number of definitions (MANY: partial ones) */
    uint32_t *good; /* per register with several definitions: number of uniform definitions */
    uint8_t *even;  /* per register: the same in all lanes, without a slot of its own */
    uint8_t *mixed; /* per instruction: lanes may be elsewhere */
    uint8_t *seen_insn;
    uint32_t *todo;
    sg_fn bra;
    uint8_t *used;  /* per register: it is used */
    uint8_t *state; /* per register */
    uint8_t *kind;  /* per instruction */
    uint32_t *slot; /* per register: SG_OPND_FIXED | offset */
    uint32_t nblock;
    uint64_t walked; /* in always_set() */
    sg_fn mov32, mov64;
    struct {
        sg_fn fn;
        uint8_t class;
    } seen[SEEN]; /* operations by their handlers: comparing names takes time */
};

static uint32_t *field(struct sg_insn *in, unsigned k)
{
    return k == 0 ? &in->d : k == 1 ? &in->a : k == 2 ? &in->b : k == 3 ? &in->c : &in->e;
}

static bool is_vreg(uint32_t op)
{
    return op < SG_OPND_NONE;
}

/* Operations without side effects that compute a result from their operands, by the start of
   their names. */
static bool pure(const char *name)
{
    static const char *const begin[] = {
        "mov.b",  "mov.pack.", "mov.unpack.", "mov.pred", "cvt.",    "add.",    "sub.",  "mul.",
        "mad.",   "and.",      "or.",         "xor.",     "not.",    "neg.",    "abs.",  "min.",
        "canon.", "max.",      "shl.",        "shr.",     "setp.",   "selp.",   "bfe.",  "bfi.",
        "prmt.",  "clz.",      "popc.",       "fma.",     "div.u",   "div.s",   "rem.u", "rem.s",
        "lop3.",  "shf.",      "ld.p.b",      "ld.p.u",   "ld.p.s8", "ld.p.s16"};

    if (!name || strstr(name, ".cc"))
        return false;
    for (size_t i = 0; i < sizeof(begin) / sizeof(begin[0]); i++)
        if (!strncmp(name, begin[i], strlen(begin[i])))
            return true;
    return false;
}

/* Operations whose native form writes whole registers, or a single predicate word. */
static bool simple(const char *name)
{
    static const char *const names[] = {
        "mov.b32",      "mov.b64",      "add.b32",    "add.b64",    "sub.b32",      "sub.b64",
        "mul.lo.b32",   "mul.lo.b64",   "mad.lo.b32", "mad.lo.b64", "mul.wide.u32", "mul.wide.s32",
        "mad.wide.u32", "mad.wide.s32", "mul.hi.u32", "mul.hi.s32", "and.b32",      "and.b64",
        "or.b32",       "or.b64",       "xor.b32",    "xor.b64",    "shl.b32",      "shr.u32",
        "shr.s32",      "shl.b64",      "shr.u64",    "shr.s64",    "cvt.u64.u32",  "cvt.u64.s32",
        "cvt.u32.u64",  "cvt.u32.s64",  "min.s32",    "max.s32",    "min.u32",      "max.u32",
        "selp.b32",     "selp.b64"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

enum { PLAIN = 1, PURE, SIMPLE };
static uint8_t class_of(struct hoist *h, sg_fn fn)
{
    const uint32_t i = (uint32_t)((uintptr_t)fn >> 4) % SEEN;

    if (h->seen[i].fn != fn) {
        const char *name = sg_op_name(fn);

        h->seen[i].fn = fn;
        h->seen[i].class = !pure(name) ? PLAIN : simple(name) ? SIMPLE : PURE;
    }
    return h->seen[i].class;
}

/* The special register in this slot; SG_SR_COUNT: none (the slot of a hoisted value). */
static uint32_t sreg_at(const struct sg_code *c, uint32_t offset)
{
    for (uint32_t r = 0; r < SG_SR_COUNT; r++)
        if (sg_sreg_there(c, r) && c->sreg_offset[r] == offset)
            return r;
    return SG_SR_COUNT;
}

static uint8_t *flat_at(const struct sg_code *c, uint32_t op)
{
    return &c->flat[(op & ~SG_OPND_FIXED) >> 7];
}

/* The kind of an operand; *flat: uniform across lanes. */
static uint8_t operand(const struct hoist *h, uint32_t op, bool *flat)
{
    const struct sg_code *c = h->d->code;
    uint32_t r;

    *flat = true;
    if (op == SG_OPND_NONE || (op & SG_OPND_CONST))
        return HOISTED;
    if (op & SG_OPND_FIXED) {
        r = sreg_at(c, op & ~SG_OPND_FIXED);
        *flat = sg_sreg_flat(r);
        return r == SG_SR_FRAME || r == SG_SR_TOP                     ? VARIES
               : r == SG_SR_CTAID_X                                   ? OF_BLOCK
               : r >= SG_SR_CLUSTERID_X && r <= SG_SR_CLUSTER_CTARANK ? OF_BLOCK
               : r == SG_SR_CTAID_Y || r == SG_SR_CTAID_Z             ? OF_ROW
                                                                      : HOISTED;
    }
    *flat = h->even[op] || (h->slot[op] && *flat_at(c, h->slot[op]));
    return h->state[op];
}

/* Assigns a slot to register v. Returns false if no slots are left. */
static bool give_slot(struct hoist *h, uint32_t v, bool flat)
{
    struct sg_dec *d = h->d;
    const uint32_t units = d->vregs[v].cls == SG_C_64 ? 2 : 1;

    if (h->slot[v])
        return true;
    if (d->nsregs + units > SG_FLAT_UNITS)
        return false;
    h->slot[v] = SG_OPND_FIXED | d->nsregs * 128;
    if (flat && d->vregs[v].cls != SG_C_PRED)
        *flat_at(d->code, h->slot[v]) = (uint8_t)units;
    d->nsregs += units;
    d->code->hoisted_regs += units;
    return true;
}

static void count_defs(struct hoist *h)
{
    const struct sg_dec *d = h->d;

    for (uint32_t i = 0; i < d->ninsns; i++)
        for (unsigned k = 0; k < 5; k++) {
            const uint32_t v = *field(&d->insns[i], k);

            if (is_vreg(v) && (d->metas[i].use >> k & 1))
                h->used[v] = 1;
            if (!is_vreg(v) || !(d->metas[i].def >> k & 1))
                continue;
            if (h->defs[v] != MANY)
                h->defs[v] = d->metas[i].partial || (d->metas[i].use >> k & 1) ? MANY : h->defs[v] + 1;
        }
    for (uint32_t v = 0; v < d->nvregs; v++)
        h->state[v] = h->defs[v] == 1 ? UNKNOWN : h->defs[v] == MANY || !h->defs[v] ? VARIES : SEVERAL;
}

/* A mov from a value that has a slot is an alias of it. */
static bool is_alias(struct hoist *h, uint32_t i)
{
    const struct sg_insn *in = &h->d->insns[i];
    const uint32_t from = is_vreg(in->a) ? h->slot[in->a] : in->a;
    bool flat;

    if ((in->fn != h->mov32 && in->fn != h->mov64) || h->d->metas[i].partial || !is_vreg(in->d) ||
        h->state[in->d] != UNKNOWN)
        return false;
    if (!h->used[in->d]) { /* a constant that is in the instructions themselves by now */
        h->kind[i] = ALIAS;
        return true;
    }
    if ((from & SG_OPND_CONST) || !(from & SG_OPND_FIXED) || (is_vreg(in->a) && h->defs[in->a] != 1) ||
        operand(h, in->a, &flat) < HOISTED)
        return false;
    h->state[in->d] = operand(h, in->a, &flat);
    h->slot[in->d] = from;
    h->kind[i] = ALIAS;
    return true;
}

/* True if instruction i writes (def) or reads register v. */
static bool touches(const struct hoist *h, uint32_t i, uint32_t v, bool def)
{
    const struct sg_meta *m = &h->d->metas[i];

    for (unsigned k = 0; k < 5 && v != SG_OPND_NONE; k++)
        if (((def ? m->def : m->use) >> k & 1) && *field(&h->d->insns[i], k) == v)
            return true;
    return false;
}

/*
 * Marks in seen the instructions reachable from instruction `from` on paths that do not define
 * register v (or SG_OPND_NONE). Returns false if v is read there, or if the target of a branch is
 * unknown.
 */
static bool reach(const struct hoist *h, uint32_t from, uint8_t *seen, uint32_t v)
{
    const struct sg_dec *d = h->d;
    uint32_t n = 1;

    h->todo[0] = from;
    while (n) {
        for (uint32_t i = h->todo[--n]; i < d->ninsns && !seen[i]; i++) {
            uint32_t label = (uint32_t)d->insns[i].imm;

            if (d->metas[i].ctl == SG_CT_BRX || d->metas[i].ctl == SG_CT_CALL || touches(h, i, v, false))
                return false;
            if (touches(h, i, v, true))
                break;
            seen[i] = 1;
            if (d->metas[i].ctl != SG_CT_BRA)
                continue;
            label = sg_dec_label_meant(d, label);
            if (d->labels[label].insn == UINT32_MAX)
                return false;
            /* each branch is added at most once, so there is room */
            h->todo[n++] = d->labels[label].insn;
            if (d->insns[i].fn == h->bra)
                break;
        }
    }
    return true;
}

/* Finds the instructions reachable from a branch on which lanes may diverge. */
static void find_mixed(struct hoist *h)
{
    const struct sg_dec *d = h->d;
    bool known = true;

    memset(h->mixed, 0, d->ninsns);
    for (uint32_t i = 0; known && i < d->ninsns; i++) {
        const uint8_t ctl = d->metas[i].ctl;
        bool flat = true;

        if (ctl == SG_CT_BRX || ctl == SG_CT_CALL)
            known = false;
        if (ctl != SG_CT_BRA || d->insns[i].fn == h->bra || h->mixed[i])
            continue;
        operand(h, d->insns[i].a, &flat);
        if (!flat)
            known &= reach(h, i, h->mixed, SG_OPND_NONE);
    }
    if (!known)
        memset(h->mixed, 1, d->ninsns);
}

/* True if register v is defined on every path to its uses. */
static bool always_set(struct hoist *h, uint32_t v)
{
    if (h->walked > MAX_WALKED)
        return false;
    h->walked += h->d->ninsns;
    memset(h->seen_insn, 0, h->d->ninsns);
    return reach(h, 0, h->seen_insn, v);
}

/* Visits one of several definitions of a register; checks whether all of them are known to be
   flat. */
static bool look_at_one_of(struct hoist *h, uint32_t i, uint32_t v)
{
    if (h->mixed[i] || h->kind[i])
        return false;
    h->kind[i] = ONE_OF;
    if (++h->good[v] == h->defs[v] && always_set(h, v) && give_slot(h, v, true))
        h->state[v] = OF_BLOCK;
    return true;
}

/* True if instruction i can be hoisted; marks its results. */
static bool look_at(struct hoist *h, uint32_t i, bool blocks)
{
    struct sg_dec *d = h->d;
    struct sg_insn *in = &d->insns[i];
    const uint8_t class = class_of(h, in->fn);
    bool flat = true, any = false, pred = false, several = false;
    uint8_t worst = HOISTED;

    if (class == PLAIN || d->metas[i].partial || d->metas[i].ctl != SG_CT_NONE)
        return false;
    for (unsigned k = 0; k < 5; k++) {
        const uint32_t op = *field(in, k);
        bool f;

        if ((d->metas[i].def >> k & 1) && op != SG_OPND_NONE) {
            if (!is_vreg(op) || (h->state[op] != UNKNOWN && h->state[op] != SEVERAL) ||
                d->vregs[op].cls == SG_C_PAIR)
                return false;
            several |= h->state[op] == SEVERAL;
            pred |= d->vregs[op].cls == SG_C_PRED;
            any = true;
        } else if (d->metas[i].use >> k & 1) {
            const uint8_t s = operand(h, op, &f);

            if (s < HOISTED)
                return false;
            worst = s > worst ? s : worst;
            flat &= f;
        }
    }
    if (!any || ((worst == OF_BLOCK || several) && (!blocks || !flat)))
        return false;
    if (pred && flat && !several && is_vreg(in->d) && !h->even[in->d]) {
        h->even[in->d] = 1;
        if (worst == OF_BLOCK)
            return true;
    }
    if ((worst == OF_BLOCK || several) && (pred || class != SIMPLE))
        return false;
    if (several)
        return look_at_one_of(h, i, in->d);
    for (unsigned k = 0; k < 5; k++) {
        const uint32_t op = *field(in, k);

        if (!(d->metas[i].def >> k & 1) || op == SG_OPND_NONE)
            continue;
        if (!give_slot(h, op, flat))
            return false;
    }
    for (unsigned k = 0; k < 5; k++)
        if ((d->metas[i].def >> k & 1) && is_vreg(*field(in, k)))
            h->state[*field(in, k)] = worst;
    h->kind[i] = worst;
    return true;
}

static void add(struct sg_ahead *a, const struct sg_insn *in)
{
    a->insns[a->n++] = *in;
}

static void find(struct hoist *h)
{
    const sg_fn fpmode = sg_op_find("fpmode"), pif = sg_op_find("pred.if"), pnot = sg_op_find("pred.not");
    const bool blocks = sg_jit_available();
    const struct sg_dec *d = h->d;
    bool changed = true;

    for (uint32_t pass = 0; changed && pass < MAX_PASSES; pass++) {
        changed = false;
        find_mixed(h);
        for (uint32_t i = 0; i < d->ninsns; i++) {
            const struct sg_insn *in = &d->insns[i];

            if (in->fn == fpmode || in->fn == pif || in->fn == pnot) {
                i += in->aux;
                continue;
            }
            if (!h->kind[i] && is_alias(h, i)) {
                changed = true;
            } else if (!h->kind[i] && look_at(h, i, blocks)) {
                changed = true;
                if (h->kind[i] == HOISTED || h->kind[i] == OF_ROW)
                    add(&h->d->code->ahead[h->kind[i] == OF_ROW], in);
            }
        }
    }
    for (uint32_t i = 0; i < d->ninsns; i++) {
        if (h->kind[i] == ONE_OF)
            h->kind[i] = h->state[d->insns[i].d] == OF_BLOCK ? OF_BLOCK : VARIES;
        h->nblock += h->kind[i] == OF_BLOCK;
    }
}

/* The operands that are in slots of their own now. */
static void replace(const struct hoist *h, struct sg_insn *in)
{
    for (unsigned k = 0; k < 5; k++) {
        uint32_t *op = field(in, k);

        if (is_vreg(*op) && h->slot[*op] && h->state[*op] >= HOISTED)
            *op = h->slot[*op];
    }
}

/* Removes the hoisted instructions, and adds a mark before instructions that write every lane. */
static int compact(struct hoist *h)
{
    struct sg_dec *d = h->d;
    const uint32_t n = d->ninsns, most = n + h->nblock + 1;
    struct sg_insn *insns = calloc(most, sizeof(*insns));
    struct sg_meta *metas = calloc(most, sizeof(*metas));
    uint32_t *to = malloc(((size_t)n + 1) * sizeof(*to)), m = 0;

    if (!insns || !metas || !to) {
        free(insns);
        free(metas);
        free(to);
        return sg_dec_nomem(d);
    }
    for (uint32_t i = 0; i < n; i++) {
        to[i] = m;
        if (h->kind[i] == HOISTED || h->kind[i] == OF_ROW || h->kind[i] == ALIAS)
            continue;
        if (h->kind[i] == OF_BLOCK) {
            insns[m].fn = sg_op_find("flat");
            insns[m].line = d->insns[i].line;
            insns[m].d = insns[m].a = insns[m].b = insns[m].c = insns[m].e = SG_OPND_NONE;
            insns[m++].aux = 1;
        }
        insns[m] = d->insns[i];
        metas[m] = d->metas[i];
        replace(h, &insns[m]);
        m++;
    }
    for (uint32_t k = 0; k < d->nlabels; k++)
        if (d->labels[k].insn != UINT32_MAX)
            d->labels[k].insn = to[d->labels[k].insn];
    free(to);
    free(d->insns);
    free(d->metas);
    d->insns = insns;
    d->metas = metas;
    d->cap_insns = d->cap_metas = most;
    d->ninsns = m;
    return 0;
}

/* Hoisted instructions run unchanged: their operands are offsets, as written by ptx/flow.c. */
static void finish(struct hoist *h, struct sg_ahead *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (unsigned k = 0; k < 5; k++) {
            uint32_t *op = field(&a->insns[i], k);

            if (is_vreg(*op) && h->slot[*op])
                *op = h->slot[*op];
            if (*op == SG_OPND_NONE)
                *op = 0;
            else if (!(*op & SG_OPND_CONST))
                *op &= ~SG_OPND_FIXED;
        }
}

int sg_dec_hoist(struct sg_dec *d)
{
    struct sg_code *c = d->code;
    struct hoist h = {
        .d = d, .bra = sg_op_find("bra"), .mov32 = sg_op_find("mov.b32"), .mov64 = sg_op_find("mov.b64")};
    int r = 0;

    if (d->nprocs || d->nsites ||
        d->nsregs >= SG_FLAT_UNITS) /* functions that are called run in many frames */
        return 0;
    c->flat = calloc(SG_FLAT_UNITS, 1);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        c->ahead[k].insns = malloc(((size_t)d->ninsns + 1) * sizeof(*c->ahead[k].insns));
    h.defs = calloc((size_t)d->nvregs + 1, sizeof(*h.defs));
    h.good = calloc((size_t)d->nvregs + 1, sizeof(*h.good));
    h.even = calloc((size_t)d->nvregs + 1, 1);
    h.mixed = calloc((size_t)d->ninsns + 1, 1);
    h.seen_insn = calloc((size_t)d->ninsns + 1, 1);
    h.todo = malloc(((size_t)d->ninsns + 2) * sizeof(*h.todo));
    h.used = calloc((size_t)d->nvregs + 1, 1);
    h.state = calloc((size_t)d->nvregs + 1, 1);
    h.kind = calloc((size_t)d->ninsns + 1, 1);
    h.slot = calloc((size_t)d->nvregs + 1, sizeof(*h.slot));
    if (!c->flat || !c->ahead[0].insns || !c->ahead[1].insns || !h.defs || !h.good || !h.even || !h.mixed ||
        !h.seen_insn || !h.todo || !h.used || !h.state || !h.kind || !h.slot) {
        r = sg_dec_nomem(d);
    } else {
        for (uint32_t s = 0; s < SG_SR_COUNT; s++)
            if (sg_sreg_there(c, s) && sg_sreg_flat(s))
                *flat_at(c, c->sreg_offset[s]) = 1;
        count_defs(&h);
        find(&h);
        r = compact(&h);
        for (unsigned k = 0; !r && k < SG_AHEAD_COUNT; k++)
            finish(&h, &c->ahead[k]);
    }
    free(h.defs);
    free(h.good);
    free(h.even);
    free(h.mixed);
    free(h.seen_insn);
    free(h.todo);
    free(h.used);
    free(h.state);
    free(h.kind);
    free(h.slot);
    return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Hoists launch-invariant values; half of the instructions of a small block qualify. A value with a
 * single definition, by an operation without side effects, from constants, parameters and special
 * registers other than the block's index, is the same in every block that a warp runs in a launch.
 * It is computed once per warp (exec/sg_block.c) instead of once per block; values that also depend on
 * %ctaid.y and .z once per row of blocks, which run in sequence. These values have slots of their
 * own, beside those of the special registers, which are not used for anything else.
 *
 * A value that also depends on %ctaid.x and is uniform across lanes is not hoisted, but gets a slot
 * of its own and is always written for all lanes, so that native code needs only one part of it. It
 * may have several definitions, provided that no divergent branch precedes them.
 *
 * More values are uniform in blocks whose rows are whole warps (sg_block_in_rows()). Where that
 * helps (code->rows_help), such blocks run code that was decoded for them (code->rows). So do blocks that are one thread
 * wide (code->column), where %tid.x is 0.
 */
#include "jit/jit.h"
#include "ptx/hoist/hoist.h"

#include <stdlib.h>
#include <string.h>

#define MAX_PASSES 8 /* definitions nearly always stand before uses */

static void count_defs(struct hoist *h)
{
    const struct sg_dec *d = h->d;

    for (uint32_t i = 0; i < d->ninsns; i++)
        for (unsigned k = 0; k < 5; k++) {
            const uint32_t v = *sg_hoist_field(&d->insns[i], k);

            if (sg_hoist_is_vreg(v) && (d->metas[i].use >> k & 1))
                h->used[v] = 1;
            if (!sg_hoist_is_vreg(v) || !(d->metas[i].def >> k & 1))
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
    const uint32_t from = sg_hoist_is_vreg(in->a) ? h->slot[in->a] : in->a;
    bool flat;

    if ((in->fn != h->mov32 && in->fn != h->mov64) || h->d->metas[i].partial || !sg_hoist_is_vreg(in->d) ||
        h->state[in->d] != UNKNOWN)
        return false;
    if (!h->used[in->d]) { /* a constant that is in the instructions themselves by now */
        h->kind[i] = ALIAS;
        return true;
    }
    if ((from & SG_OPND_CONST) || !(from & SG_OPND_FIXED) ||
        (sg_hoist_is_vreg(in->a) && h->defs[in->a] != 1) || sg_hoist_operand(h, in->a, &flat) < HOISTED)
        return false;
    if (sg_hoist_is_vreg(in->a) &&
        h->changes[in->a]) { /* its next value may come before the copy's last use */
        if (!sg_hoist_set_before_use(h, h->changes[in->a], in->d))
            return false;
        h->changes[in->d] = h->changes[in->a];
    }
    h->state[in->d] = sg_hoist_operand(h, in->a, &flat);
    h->low[in->d] = sg_hoist_low_of(h, in->a, false);
    h->slot[in->d] = from;
    h->kind[i] = ALIAS;
    return true;
}

/* A load from an address that is the same in all lanes: its result is, too. */
static bool hoist_look_at_load(struct hoist *h, uint32_t i)
{
    struct sg_dec *d = h->d;
    const struct sg_insn *in = &d->insns[i];
    bool flat;

    if (!sg_hoist_is_vreg(in->d) || h->state[in->d] != UNKNOWN || !h->used[in->d] ||
        !sg_hoist_loads_once(h, i) || sg_hoist_operand(h, in->a, &flat) < HOISTED || !flat ||
        !sg_hoist_slot(h, in->d, true))
        return false;
    h->state[in->d] = OF_BLOCK;
    h->changes[in->d] = i + 1;
    h->low[in->d] = (struct sg_low){.bits = SG_LOW_ALL};
    h->kind[i] = LOADED;
    return true;
}

/* True if instruction i can be hoisted; marks its results. */
static bool hoist_look_at(struct hoist *h, uint32_t i, bool blocks)
{
    struct sg_dec *d = h->d;
    struct sg_insn *in = &d->insns[i];
    bool flat = true, any = false, pred = false, several = false, changes = false;
    uint8_t worst = HOISTED, rule;
    const uint8_t class = sg_hoist_class(in->fn, &rule);
    struct sg_low low;

    if (class == LOAD)
        return blocks && hoist_look_at_load(h, i);
    if (class == PLAIN || d->metas[i].partial || d->metas[i].ctl != SG_CT_NONE)
        return false;
    for (unsigned k = 0; k < 5; k++) {
        const uint32_t op = *sg_hoist_field(in, k);
        bool f;

        if ((d->metas[i].def >> k & 1) && op != SG_OPND_NONE) {
            if (!sg_hoist_is_vreg(op) || (h->state[op] != UNKNOWN && h->state[op] != SEVERAL) ||
                d->vregs[op].cls == SG_C_PAIR)
                return false;
            several |= h->state[op] == SEVERAL;
            pred |= d->vregs[op].cls == SG_C_PRED;
            any = true;
        } else if (d->metas[i].use >> k & 1) {
            const uint8_t s = sg_hoist_operand(h, op, &f);

            if (s < HOISTED)
                return false;
            worst = s > worst ? s : worst;
            changes |= sg_hoist_is_vreg(op) && h->changes[op];
            flat &= f;
        }
    }
    low = sg_hoist_low(h, i, rule, &flat);
    if (!any || several || (worst == OF_BLOCK && (!blocks || !flat)))
        return false;
    if (pred && flat && sg_hoist_is_vreg(in->d) && !h->even[in->d]) {
        h->even[in->d] = 1;
        if (worst == OF_BLOCK)
            return true;
    }
    if (worst == OF_BLOCK && (pred || class != SIMPLE))
        return false;
    for (unsigned k = 0; k < 5; k++) {
        const uint32_t op = *sg_hoist_field(in, k);

        if (!(d->metas[i].def >> k & 1) || op == SG_OPND_NONE)
            continue;
        if (!sg_hoist_slot(h, op, flat))
            return false;
    }
    for (unsigned k = 0; k < 5; k++)
        if ((d->metas[i].def >> k & 1) && sg_hoist_is_vreg(*sg_hoist_field(in, k))) {
            h->state[*sg_hoist_field(in, k)] = worst;
            h->changes[*sg_hoist_field(in, k)] = changes ? i + 1 : 0;
            h->low[*sg_hoist_field(in, k)] = low;
        }
    h->kind[i] = worst;
    return true;
}

static void hoist_add_ahead(struct sg_ahead *a, const struct sg_insn *in)
{
    a->insns[a->n++] = *in;
}

/* A pass over all instructions. Returns true if more is known after it. */
static bool hoist_pass(struct hoist *h, bool blocks)
{
    const struct sg_dec *d = h->d;
    bool changed = false;

    for (uint32_t i = 0; i < d->ninsns; i++) {
        const struct sg_insn *in = &d->insns[i];

        if (sg_hoist_is_span(h, i)) {
            i += in->aux;
            continue;
        }
        if (!h->kind[i] && is_alias(h, i)) {
            changed = true;
        } else if (!h->kind[i] && hoist_look_at(h, i, blocks)) {
            changed = true;
            if (h->kind[i] == HOISTED || h->kind[i] == OF_ROW)
                hoist_add_ahead(&h->d->code->ahead[h->kind[i] == OF_ROW], in);
        }
    }
    return changed;
}

static void hoist_find_values(struct hoist *h)
{
    const bool blocks = sg_jit_available();
    const struct sg_dec *d = h->d;
    bool changed = true;

    for (uint32_t n = 0; changed && n < MAX_PASSES; n++) {
        sg_hoist_find_mixed(h);
        changed = hoist_pass(h, blocks);
        if (!changed && blocks)
            changed = sg_hoist_several(h);
    }
    for (uint32_t i = 0; i < d->ninsns; i++)
        h->nblock += h->kind[i] == OF_BLOCK ? 1 : h->kind[i] == LOADED ? 2 : 0;
}

/* The operands that are in slots of their own now. */
static void hoist_replace_operands(const struct hoist *h, struct sg_insn *in)
{
    for (unsigned k = 0; k < 5; k++) {
        uint32_t *op = sg_hoist_field(in, k);

        if (sg_hoist_is_vreg(*op) && h->slot[*op] && h->state[*op] >= HOISTED)
            *op = h->slot[*op];
    }
}

/* The mark before an instruction that writes every lane. */
static void mark_flat(struct sg_insn *mark, const struct sg_insn *in)
{
    *mark = (struct sg_insn){.fn = sg_op_fn(SG_OP_flat),
                             .line = in->line,
                             .d = SG_OPND_NONE,
                             .a = SG_OPND_NONE,
                             .b = SG_OPND_NONE,
                             .c = SG_OPND_NONE,
                             .e = SG_OPND_NONE,
                             .aux = 1};
}

/* Removes the hoisted instructions, and adds a mark before instructions that write every lane. */
static int hoist_compact(struct hoist *h)
{
    struct sg_dec *d = h->d;
    const uint32_t n = d->ninsns, most = n + h->nblock + 1;
    struct sg_insn *insns = calloc(most, sizeof(*insns));
    struct sg_meta *metas = calloc(most, sizeof(*metas));
    uint32_t *to = malloc(((size_t)n + 1) * sizeof(*to)), m = 0;
    struct sg_insn first;
    bool wide;

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
        if (h->kind[i] == OF_BLOCK)
            mark_flat(&insns[m++], &d->insns[i]);
        insns[m] = d->insns[i];
        metas[m] = d->metas[i];
        hoist_replace_operands(h, &insns[m]);
        m++;
        if (h->kind[i] != LOADED)
            continue;
        /* The load writes running lanes of a register; "first" copies it from there to all lanes. */
        first = insns[m - 1];
        wide = d->vregs[d->insns[i].d].cls == SG_C_64;
        insns[m - 1].d = sg_new_vreg(d, wide ? SG_TY_B64 : SG_TY_B32, true);
        mark_flat(&insns[m++], &first);
        insns[m] = (struct sg_insn){.fn = wide ? h->first64 : h->first32,
                                    .line = first.line,
                                    .d = first.d,
                                    .a = insns[m - 2].d,
                                    .b = SG_OPND_NONE,
                                    .c = SG_OPND_NONE,
                                    .e = SG_OPND_NONE};
        metas[m++] = (struct sg_meta){.def = SG_F_D, .use = SG_F_A, .ctl = SG_CT_NONE};
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

/* Hoisted instructions run unchanged: their operands are offsets, as written by ptx/sg_ptx_flow.c. */
static void hoist_finish_ahead(struct hoist *h, struct sg_ahead *a)
{
    for (uint32_t i = 0; i < a->n; i++)
        for (unsigned k = 0; k < 5; k++) {
            uint32_t *op = sg_hoist_field(&a->insns[i], k);

            if (sg_hoist_is_vreg(*op) && h->slot[*op])
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
    struct hoist h = {.d = d,
                      .bra = sg_op_fn(SG_OP_bra),
                      .fpmode = sg_op_fn(SG_OP_fpmode),
                      .pred_if = sg_op_fn(SG_OP_pred_if),
                      .pred_not = sg_op_fn(SG_OP_pred_not),
                      .first32 = sg_op_fn(SG_OP_first_b32),
                      .first64 = sg_op_fn(SG_OP_first_b64),
                      .mov32 = sg_op_fn(SG_OP_mov_b32),
                      .mov64 = sg_op_fn(SG_OP_mov_b64)};
    int r = 0;

    if (d->nprocs || d->nsites ||
        d->nsregs >= SG_FLAT_UNITS) /* functions that are called run in many frames */
        return 0;
    c->flat = calloc(SG_FLAT_UNITS, 1);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        c->ahead[k].insns = malloc(((size_t)d->ninsns + 1) * sizeof(*c->ahead[k].insns));
    h.addresses = sg_code_addresses(c);
    h.defs = calloc((size_t)d->nvregs + 1, sizeof(*h.defs));
    h.maybe = calloc((size_t)d->nvregs + 1, 1);
    h.even = calloc((size_t)d->nvregs + 1, 1);
    h.mixed = calloc((size_t)d->ninsns + 1, 1);
    h.seen_insn = calloc((size_t)d->ninsns + 1, 1);
    h.todo = malloc(((size_t)d->ninsns + 2) * sizeof(*h.todo));
    h.used = calloc((size_t)d->nvregs + 1, 1);
    h.state = calloc((size_t)d->nvregs + 1, 1);
    h.kind = calloc((size_t)d->ninsns + 1, 1);
    h.slot = calloc((size_t)d->nvregs + 1, sizeof(*h.slot));
    h.changes = calloc((size_t)d->nvregs + 1, sizeof(*h.changes));
    h.low = calloc((size_t)d->nvregs + 1, sizeof(*h.low));
    if (!c->flat || !c->ahead[0].insns || !c->ahead[1].insns || !h.addresses || !h.defs || !h.maybe ||
        !h.even || !h.mixed || !h.seen_insn || !h.todo || !h.used || !h.state || !h.kind || !h.slot ||
        !h.changes || !h.low) {
        r = sg_dec_nomem(d);
    } else {
        for (uint32_t s = 0; s < SG_SR_COUNT; s++)
            if (sg_sreg_there(c, s) && sg_code_sreg_flat(c, s))
                *sg_hoist_flat_at(c, c->sreg_offset[s]) = 1;
        c->column_help = !c->column && sg_sreg_there(c, SG_SR_TID_X) && sg_jit_available();
        count_defs(&h);
        hoist_find_values(&h);
        r = hoist_compact(&h);
        for (unsigned k = 0; !r && k < SG_AHEAD_COUNT; k++)
            hoist_finish_ahead(&h, &c->ahead[k]);
    }
    free(h.addresses);
    free(h.defs);
    free(h.maybe);
    free(h.even);
    free(h.mixed);
    free(h.seen_insn);
    free(h.todo);
    free(h.used);
    free(h.state);
    free(h.kind);
    free(h.slot);
    free(h.changes);
    free(h.low);
    return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Registers with several definitions, such as loop counters, that have the same value in all lanes.
 * Such a counter often decides the loop's own branch, so registers count as uniform until a definition
 * is found not to be: it has an operand that differs between lanes, or stands behind a branch on which
 * lanes may have diverged. Diverged lanes would see such a definition too early, since a uniform
 * register is written for all lanes.
 */
#include "ptx/hoist/hoist.h"

#include <string.h>

#define MAX_SWEEPS 64          /* over all instructions, until nothing changes */
#define MAX_WALKED (64u << 20) /* limit of instructions visited for single registers */

/* True if instruction i writes (def) or reads register v. */
static bool uniform_touches(const struct hoist *h, uint32_t i, uint32_t v, bool def)
{
    const struct sg_meta *m = &h->d->metas[i];

    for (unsigned k = 0; k < 5 && v != SG_OPND_NONE; k++)
        if (((def ? m->def : m->use) >> k & 1) && *sg_hoist_field(&h->d->insns[i], k) == v)
            return true;
    return false;
}

/*
 * Marks in seen the instructions reachable from instruction `from` on paths that do not define
 * register v (or SG_OPND_NONE). Returns false if v is read there, or if the target of a branch is
 * unknown.
 */
static bool uniform_reach(const struct hoist *h, uint32_t from, uint8_t *seen, uint32_t v)
{
    const struct sg_dec *d = h->d;
    uint32_t n = 1;

    h->todo[0] = from;
    while (n) {
        for (uint32_t i = h->todo[--n]; i < d->ninsns && !seen[i]; i++) {
            uint32_t label = (uint32_t)d->insns[i].imm;

            if (d->metas[i].ctl == SG_CT_BRX || d->metas[i].ctl == SG_CT_CALL ||
                uniform_touches(h, i, v, false))
                return false;
            if (uniform_touches(h, i, v, true))
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

/* True if an operand is uniform, as far as is known. */
static bool may_be_flat(const struct hoist *h, uint32_t op, bool as_branch)
{
    bool flat;

    if (!sg_hoist_is_vreg(op) || h->state[op] >= HOISTED)
        return sg_hoist_operand(h, op, &flat) >= HOISTED && flat;
    if (h->d->vregs[op].cls == SG_C_PRED)
        return as_branch && (h->even[op] || h->maybe[op]);
    return h->maybe[op];
}

void sg_hoist_find_mixed(struct hoist *h)
{
    const struct sg_dec *d = h->d;
    bool known = true;

    memset(h->mixed, 0, d->ninsns);
    for (uint32_t i = 0; known && i < d->ninsns; i++) {
        const uint8_t ctl = d->metas[i].ctl;

        if (ctl == SG_CT_BRX || ctl == SG_CT_CALL)
            known = false;
        if (ctl != SG_CT_BRA || d->insns[i].fn == h->bra || h->mixed[i])
            continue;
        if (!may_be_flat(h, d->insns[i].a, true))
            known &= uniform_reach(h, i, h->mixed, SG_OPND_NONE);
    }
    if (!known)
        memset(h->mixed, 1, d->ninsns);
}

bool sg_hoist_set_before_use(struct hoist *h, uint32_t from, uint32_t v)
{
    if (h->walked > MAX_WALKED)
        return false;
    h->walked += h->d->ninsns;
    memset(h->seen_insn, 0, h->d->ninsns);
    return uniform_reach(h, from, h->seen_insn, v);
}

bool sg_hoist_loads_once(const struct hoist *h, uint32_t i)
{
    const struct sg_meta *m = &h->d->metas[i];
    const uint32_t aux = h->d->insns[i].aux;

    /* Each lane has local memory of its own; lanes that come at another time would load another value. */
    return !m->partial && m->ctl == SG_CT_NONE && !h->mixed[i] && !(aux & SG_AUX_SPIN) &&
           SG_AUX_SPACE(aux) == SG_SP_GLOBAL;
}

/* True if instruction i, outside of spans, may define a uniform register v. */
static bool may_define(struct hoist *h, uint32_t i, uint32_t v)
{
    const struct sg_dec *d = h->d;
    struct sg_insn *in = &d->insns[i];
    bool flat = true, hoisted = true, unused;
    uint8_t rule;
    const uint8_t class = sg_hoist_class(in->fn, &rule);

    if (class == LOAD)
        return sg_hoist_loads_once(h, i) && may_be_flat(h, in->a, false);
    if (class == PLAIN || d->metas[i].partial || d->metas[i].ctl != SG_CT_NONE ||
        (class != SIMPLE && d->vregs[v].cls != SG_C_PRED) || (h->state[v] == SEVERAL && h->mixed[i]))
        return false;
    for (unsigned k = 0; k < 5; k++) {
        const uint32_t op = *sg_hoist_field(in, k);

        if (!(d->metas[i].use >> k & 1))
            continue;
        flat &= may_be_flat(h, op, false);
        hoisted &= sg_hoist_operand(h, op, &unused) >= HOISTED;
    }
    if (!flat && hoisted)
        sg_hoist_low(h, i, rule, &flat);
    return flat;
}

/* Drops registers that a definition shows to differ. Returns true if there is one. */
static bool uniform_sweep(struct hoist *h)
{
    const struct sg_dec *d = h->d;
    uint32_t in_span = 0;
    bool changed = false;

    sg_hoist_find_mixed(h);
    for (uint32_t i = 0; i < d->ninsns; i++) {
        if (sg_hoist_is_span(h, i))
            in_span = d->insns[i].aux + 1;
        for (unsigned k = 0; k < 5; k++) {
            const uint32_t v = *sg_hoist_field(&d->insns[i], k);

            if (!(d->metas[i].def >> k & 1) || !sg_hoist_is_vreg(v) || !h->maybe[v])
                continue;
            if (!in_span && may_define(h, i, v))
                continue;
            h->maybe[v] = 0;
            changed = true;
        }
        in_span -= in_span > 0;
    }
    return changed;
}

/* The registers that remain when no more can be dropped; none if that takes too long. */
static void uniform_settle(struct hoist *h)
{
    for (uint32_t n = 0; n < MAX_SWEEPS; n++)
        if (!uniform_sweep(h))
            return;
    memset(h->maybe, 0, h->d->nvregs);
}

bool sg_hoist_several(struct hoist *h)
{
    struct sg_dec *d = h->d;
    uint32_t units = 0, n = 0;
    bool dropped = false;
    uint8_t unused;

    for (uint32_t v = 0; v < d->nvregs; v++) {
        const uint8_t cls = d->vregs[v].cls;

        h->maybe[v] = h->state[v] == UNKNOWN ? cls != SG_C_PAIR
                                             : h->state[v] == SEVERAL && (cls == SG_C_32 || cls == SG_C_64);
    }
    uniform_settle(h);
    for (uint32_t v = 0; v < d->nvregs; v++) {
        if (!h->maybe[v] || h->state[v] != SEVERAL)
            continue;
        if (!sg_hoist_set_before_use(h, 0, v)) {
            h->maybe[v] = 0;
            dropped = true;
        }
    }
    if (dropped)
        uniform_settle(h);
    for (uint32_t v = 0; v < d->nvregs; v++)
        if (h->maybe[v] && h->state[v] == SEVERAL)
            units += d->vregs[v].cls == SG_C_64 ? 2 : 1;
    if (!units || d->nsregs + units > SG_FLAT_UNITS)
        return false;
    for (uint32_t i = 0; i < d->ninsns; i++) {
        const uint32_t v = d->insns[i].d;

        if (!(d->metas[i].def & SG_F_D) || !sg_hoist_is_vreg(v) || !h->maybe[v] || h->defs[v] == 1)
            continue;
        n += sg_hoist_slot(h, v, true);
        h->state[v] = OF_BLOCK;
        h->changes[v] = i + 1;
        h->low[v] = (struct sg_low){.bits = SG_LOW_ALL};
        h->kind[i] = sg_hoist_class(d->insns[i].fn, &unused) == LOAD ? LOADED : OF_BLOCK;
    }
    return n > 0;
}

/* SPDX-License-Identifier: MIT */
/*
 * What is known of operations and operands while values are hoisted: the class of an operation, the
 * kind of an operand, the bits in which lanes can differ, and the slots of values.
 */
#include "jit/jit.h"
#include "ptx/hoist/hoist.h"

#include <string.h>

#define LANE_BITS 5
#define THREAD_BITS 10 /* of %tid: a block has 1024 threads at most */

/* Operations whose native form writes whole registers, or a single predicate word. */
static bool hoist_is_simple(enum sg_op op)
{
    switch (op) {
    case SG_OP_mov_b32:
    case SG_OP_mov_b64:
    case SG_OP_add_b32:
    case SG_OP_add_b64:
    case SG_OP_sub_b32:
    case SG_OP_sub_b64:
    case SG_OP_mul_lo_b32:
    case SG_OP_mul_lo_b64:
    case SG_OP_mad_lo_b32:
    case SG_OP_mad_lo_b64:
    case SG_OP_mul_wide_u32:
    case SG_OP_mul_wide_s32:
    case SG_OP_mad_wide_u32:
    case SG_OP_mad_wide_s32:
    case SG_OP_mul_hi_u32:
    case SG_OP_mul_hi_s32:
    case SG_OP_and_b32:
    case SG_OP_and_b64:
    case SG_OP_or_b32:
    case SG_OP_or_b64:
    case SG_OP_xor_b32:
    case SG_OP_xor_b64:
    case SG_OP_shl_b32:
    case SG_OP_shr_u32:
    case SG_OP_shr_s32:
    case SG_OP_shl_b64:
    case SG_OP_shr_u64:
    case SG_OP_shr_s64:
    case SG_OP_cvt_u64_u32:
    case SG_OP_cvt_u64_s32:
    case SG_OP_cvt_u32_u64:
    case SG_OP_cvt_u32_s64:
    case SG_OP_min_s32:
    case SG_OP_max_s32:
    case SG_OP_min_u32:
    case SG_OP_max_u32:
    case SG_OP_selp_b32:
    case SG_OP_selp_b64:
    case SG_OP_div_u32:
    case SG_OP_div_s32:
    case SG_OP_rem_u32:
    case SG_OP_rem_s32:
        return true;
    default:
        return false;
    }
}

/* Loads of one value of global memory. */
static bool hoist_is_load(enum sg_op op)
{
    return op == SG_OP_ld_g_b32 || op == SG_OP_ld_g_b64 || op == SG_OP_ld_g_u16 || op == SG_OP_ld_g_s16 ||
           op == SG_OP_ld_g_u8 || op == SG_OP_ld_g_s8;
}

uint8_t sg_hoist_class(sg_fn fn, uint8_t *rule)
{
    const struct sg_opdef *row = sg_op_def_of(fn);
    const enum sg_op op = row ? (enum sg_op)row->op : SG_OP_NONE;

    *rule = sg_low_bits_rule(op);
    return hoist_is_load(op)             ? LOAD
           : !row || !sg_op_is_pure(row) ? PLAIN
           : hoist_is_simple(op)         ? SIMPLE
                                         : PURE;
}

bool sg_hoist_is_span(const struct hoist *h, uint32_t i)
{
    const sg_fn fn = h->d->insns[i].fn;

    return fn == h->fpmode || fn == h->pred_if || fn == h->pred_not;
}

/* The special register in this slot; SG_SR_COUNT: none (the slot of a hoisted value). */
static uint32_t sreg_at(const struct sg_code *c, uint32_t offset)
{
    for (uint32_t r = 0; r < SG_SR_COUNT; r++)
        if (sg_sreg_there(c, r) && c->sreg_offset[r] == offset)
            return r;
    return SG_SR_COUNT;
}

uint8_t sg_hoist_operand(const struct hoist *h, uint32_t op, bool *flat)
{
    const struct sg_code *c = h->d->code;
    uint32_t r;

    *flat = true;
    if (op == SG_OPND_NONE || (op & SG_OPND_CONST))
        return HOISTED;
    if (op & SG_OPND_FIXED) {
        r = sreg_at(c, op & ~SG_OPND_FIXED);
        *flat = sg_code_sreg_flat(c, r);
        return r == SG_SR_FRAME || r == SG_SR_TOP                     ? VARIES
               : r == SG_SR_CTAID_X                                   ? OF_BLOCK
               : r >= SG_SR_CLUSTERID_X && r <= SG_SR_CLUSTER_CTARANK ? OF_BLOCK
               : r == SG_SR_CTAID_Y || r == SG_SR_CTAID_Z             ? OF_ROW
                                                                      : HOISTED;
    }
    *flat = h->even[op] || (h->slot[op] && *sg_hoist_flat_at(c, h->slot[op]));
    return h->state[op];
}

struct sg_low sg_hoist_low_of(const struct hoist *h, uint32_t op, bool wide)
{
    const struct sg_code *c = h->d->code;
    struct sg_low low = {.differ = SG_LOW_ALL, .bits = SG_LOW_ALL};
    uint32_t r;

    if (op == SG_OPND_NONE)
        return (struct sg_low){.bits = SG_LOW_ALL};
    if (op & SG_OPND_CONST) {
        low.differ = 0;
        low.known = !sg_addresses_have(h->addresses, op & ~SG_OPND_CONST); /* those have no value yet */
        if (low.known)
            memcpy(&low.value, c->pool + (op & ~SG_OPND_CONST), wide ? 8 : 4);
        low.bits = !low.known ? SG_LOW_ALL : low.value ? (uint8_t)(64 - __builtin_clzll(low.value)) : 0;
        low.zeros = !low.known ? 0 : low.value ? (uint8_t)__builtin_ctzll(low.value) : SG_LOW_ALL;
        return low;
    }
    if (sg_hoist_is_vreg(op) && h->state[op] >= HOISTED)
        low = h->low[op];
    r = op & SG_OPND_FIXED ? sreg_at(c, op & ~SG_OPND_FIXED) : SG_SR_COUNT;
    if (r == SG_SR_TID_X || r == SG_SR_LANEID)
        low.differ = LANE_BITS;
    else if (sg_sreg_flat(r) || r == SG_SR_TID_Y || r == SG_SR_TID_Z)
        low.differ = 0;
    if (r <= SG_SR_TID_Z)
        low.bits = THREAD_BITS;
    else if (r == SG_SR_LANEID)
        low.bits = LANE_BITS;
    return low;
}

struct sg_low sg_hoist_low(struct hoist *h, uint32_t i, uint8_t rule, bool *flat)
{
    const struct sg_insn *in = &h->d->insns[i];
    struct sg_low low = {.differ = *flat ? 0 : SG_LOW_ALL, .bits = SG_LOW_ALL};

    if (rule)
        low = sg_low_bits(rule, sg_hoist_low_of(h, in->a, sg_low_bits_wide(rule, 0)),
                          sg_hoist_low_of(h, in->b, sg_low_bits_wide(rule, 1)),
                          sg_hoist_low_of(h, in->c, sg_low_bits_wide(rule, 2)));
    if (*flat)
        low.differ = 0;
    if (low.differ || *flat || h->d->code->column)
        return low;
    *flat = h->d->code->rows;
    h->d->code->rows_help = !*flat && sg_jit_available();
    return low;
}

bool sg_hoist_slot(struct hoist *h, uint32_t v, bool flat)
{
    struct sg_dec *d = h->d;
    const uint32_t units = d->vregs[v].cls == SG_C_64 ? 2 : 1;

    if (h->slot[v])
        return true;
    if (d->nsregs + units > SG_FLAT_UNITS)
        return false;
    h->slot[v] = SG_OPND_FIXED | d->nsregs * 128;
    if (flat && d->vregs[v].cls != SG_C_PRED)
        *sg_hoist_flat_at(d->code, h->slot[v]) = (uint8_t)units;
    d->nsregs += units;
    d->code->hoisted_regs += units;
    return true;
}

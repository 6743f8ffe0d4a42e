/* SPDX-License-Identifier: MIT */
/*
 * In which bits the lanes of a warp can differ, where the warp is part of a row of its block
 * (sg_block_in_rows()): %tid.x is a multiple of 32 plus the lane, %tid.y and %tid.z are the same in
 * all lanes. So (%tid.y * 32 + %tid.x) >> 5 is the same in all lanes, for example.
 */
#include "ptx/hoist/low_bits.h"

#include <stddef.h>

enum { NONE, COPY, ZEROS, WIDEN, SHL, SHR, ADD, SUB, AND, OR, MUL, MAD };

static const struct {
    enum sg_op op;
    uint8_t rule, width;
} rules[] = {
    {SG_OP_mov_b32, COPY, 32},      {SG_OP_mov_b64, COPY, 64},     {SG_OP_cvt_u64_u32, ZEROS, 64},
    {SG_OP_cvt_u64_s32, WIDEN, 64}, {SG_OP_cvt_u32_u64, COPY, 32}, {SG_OP_cvt_u32_s64, COPY, 32},
    {SG_OP_shl_b32, SHL, 32},       {SG_OP_shl_b64, SHL, 64},      {SG_OP_shr_u32, SHR, 32},
    {SG_OP_shr_s32, SHR, 32},       {SG_OP_shr_u64, SHR, 64},      {SG_OP_shr_s64, SHR, 64},
    {SG_OP_add_b32, ADD, 32},       {SG_OP_add_b64, ADD, 64},      {SG_OP_sub_b32, SUB, 32},
    {SG_OP_sub_b64, SUB, 64},       {SG_OP_and_b32, AND, 32},      {SG_OP_and_b64, AND, 64},
    {SG_OP_or_b32, OR, 32},         {SG_OP_or_b64, OR, 64},        {SG_OP_xor_b32, OR, 32},
    {SG_OP_xor_b64, OR, 64},        {SG_OP_mul_lo_b32, MUL, 32},   {SG_OP_mul_lo_b64, MUL, 64},
    {SG_OP_mad_lo_b32, MAD, 32},    {SG_OP_mad_lo_b64, MAD, 64},
};

uint8_t sg_low_bits_rule(enum sg_op op)
{
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].op == op)
            return (uint8_t)(i + 1);
    return 0;
}

bool sg_low_bits_wide(uint8_t rule, unsigned operand)
{
    const uint8_t r = rules[rule - 1].rule;

    if (r == SHL || r == SHR) /* by 32 bits */
        return rules[rule - 1].width == 64 && !operand;
    return rules[rule - 1].width == 64 && r != ZEROS && r != WIDEN;
}

static uint8_t least_of(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/* The sum of two shifts or positions, at most SG_LOW_ALL. */
static uint8_t sum_of(uint32_t a, uint32_t b)
{
    return a + b < SG_LOW_ALL ? (uint8_t)(a + b) : SG_LOW_ALL;
}

/* A sum without a carry from differing bits: one operand is uniform, and zero in these bits. */
static uint8_t added_bits(struct sg_low a, struct sg_low b)
{
    if (!a.differ && !b.differ)
        return 0;
    if (!b.differ && b.zeros >= a.differ)
        return a.differ;
    return !a.differ && a.zeros >= b.differ ? b.differ : SG_LOW_ALL;
}

static struct sg_low product_bits(struct sg_low a, struct sg_low b)
{
    const bool power = b.known && b.value && !(b.value & (b.value - 1));
    struct sg_low r = {.zeros = sum_of(a.zeros, b.zeros), .bits = sum_of(a.bits, b.bits)};

    r.differ = !a.differ && !b.differ ? 0 : power ? sum_of(a.differ, b.zeros) : SG_LOW_ALL;
    return r;
}

static struct sg_low masked_bits(struct sg_low a, struct sg_low b)
{
    struct sg_low r = {.zeros = a.zeros > b.zeros ? a.zeros : b.zeros, .bits = least_of(a.bits, b.bits)};

    r.differ = a.differ > b.differ ? a.differ : b.differ;
    if (r.zeros >= r.differ)
        r.differ = 0; /* differing bits are masked out */
    return r;
}

static struct sg_low shifted_left(struct sg_low a, struct sg_low b)
{
    const uint32_t by = (uint32_t)b.value;

    return (struct sg_low){.differ = a.differ ? sum_of(a.differ, by) : 0,
                           .zeros = sum_of(a.zeros, by),
                           .bits = sum_of(a.bits, by)};
}

/* Copies of a sign that differs between lanes may enter at the top. */
static struct sg_low shifted_right(struct sg_low a, struct sg_low b, uint8_t width)
{
    const uint8_t by = (uint8_t)b.value;
    struct sg_low r = {.differ = SG_LOW_ALL, .bits = SG_LOW_ALL};

    if (a.differ < width)
        r.differ = a.differ > by ? (uint8_t)(a.differ - by) : 0;
    if (a.zeros > by && a.zeros < width)
        r.zeros = (uint8_t)(a.zeros - by);
    if (a.bits < width)
        r.bits = a.bits > by ? (uint8_t)(a.bits - by) : 0;
    return r;
}

static struct sg_low by_rule(uint8_t rule, uint8_t width, struct sg_low a, struct sg_low b, struct sg_low c)
{
    const uint8_t longer = a.bits > b.bits ? a.bits : b.bits;
    struct sg_low r = {.differ = SG_LOW_ALL, .bits = SG_LOW_ALL};

    switch (rule) {
    case WIDEN: /* copies of bit 31 */
        if (a.differ < 32)
            r = (struct sg_low){.differ = a.differ, .zeros = a.zeros < 32 ? a.zeros : 0, .bits = SG_LOW_ALL};
        if (a.bits < 32)
            r.bits = a.bits;
        return r;
    case COPY:
    case ZEROS:
        return (struct sg_low){.differ = a.differ, .zeros = a.zeros, .bits = a.bits};
    case SHL:
        return b.known && b.value < width ? shifted_left(a, b) : r;
    case SHR:
        return b.known && b.value < width ? shifted_right(a, b, width) : r;
    case ADD:
        return (struct sg_low){
            .differ = added_bits(a, b), .zeros = least_of(a.zeros, b.zeros), .bits = sum_of(longer, 1)};
    case SUB:
        r.differ = b.differ ? SG_LOW_ALL : added_bits(a, b);
        r.zeros = least_of(a.zeros, b.zeros);
        return r;
    case AND:
        return masked_bits(a, b);
    case OR:
        r.differ = a.differ > b.differ ? a.differ : b.differ;
        r.zeros = least_of(a.zeros, b.zeros);
        r.bits = longer;
        return r;
    case MUL:
        return product_bits(a, b);
    default: /* MAD */
        r = product_bits(a, b);
        return (struct sg_low){.differ = added_bits(r, c),
                               .zeros = least_of(r.zeros, c.zeros),
                               .bits = sum_of(r.bits > c.bits ? r.bits : c.bits, 1)};
    }
}

struct sg_low sg_low_bits(uint8_t rule, struct sg_low a, struct sg_low b, struct sg_low c)
{
    const uint8_t width = rules[rule - 1].width;
    struct sg_low r = by_rule(rules[rule - 1].rule, width, a, b, c);

    if (r.bits > width) /* some are missing */
        r.bits = SG_LOW_ALL;
    if (!r.bits) {
        r.zeros = SG_LOW_ALL;
        r.differ = 0;
    }
    if (r.differ >= width)
        r.differ = SG_LOW_ALL;
    return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * The rules of ptx/hoist/sg_ptx_low_bits.c against brute force: values of 32 lanes with known properties go
 * through chains of operations, and the properties derived for each result must hold for its 32 lanes.
 */
#include "exec/exec_test.h"
#include "ptx/hoist/low_bits.h"

#include <stdlib.h>
#include <string.h>

#define LANES 32
#define VALUES 10 /* of a chain: constants, values of lanes, results */
#define STARTS 5
#define CHAINS 400000u

enum op { MOV, WIDEN, NARROW, EXTEND, SHL, SHRU, SHRS, ADD, SUB, AND, OR, XOR, MUL, MAD };

static const struct {
    enum sg_op of;
    enum op op;
    uint8_t from, width, operands;
} ops[] = {
    {SG_OP_mov_b32, MOV, 32, 32, 1},        {SG_OP_mov_b64, MOV, 64, 64, 1},
    {SG_OP_cvt_u64_u32, WIDEN, 32, 64, 1},  {SG_OP_cvt_u64_s32, EXTEND, 32, 64, 1},
    {SG_OP_cvt_u32_u64, NARROW, 64, 32, 1}, {SG_OP_cvt_u32_s64, NARROW, 64, 32, 1},
    {SG_OP_shl_b32, SHL, 32, 32, 2},        {SG_OP_shl_b64, SHL, 64, 64, 2},
    {SG_OP_shr_u32, SHRU, 32, 32, 2},       {SG_OP_shr_s32, SHRS, 32, 32, 2},
    {SG_OP_shr_u64, SHRU, 64, 64, 2},       {SG_OP_shr_s64, SHRS, 64, 64, 2},
    {SG_OP_add_b32, ADD, 32, 32, 2},        {SG_OP_add_b64, ADD, 64, 64, 2},
    {SG_OP_sub_b32, SUB, 32, 32, 2},        {SG_OP_sub_b64, SUB, 64, 64, 2},
    {SG_OP_and_b32, AND, 32, 32, 2},        {SG_OP_and_b64, AND, 64, 64, 2},
    {SG_OP_or_b32, OR, 32, 32, 2},          {SG_OP_or_b64, OR, 64, 64, 2},
    {SG_OP_xor_b32, XOR, 32, 32, 2},        {SG_OP_xor_b64, XOR, 64, 64, 2},
    {SG_OP_mul_lo_b32, MUL, 32, 32, 2},     {SG_OP_mul_lo_b64, MUL, 64, 64, 2},
    {SG_OP_mad_lo_b32, MAD, 32, 32, 3},     {SG_OP_mad_lo_b64, MAD, 64, 64, 3},
};
#define OPS (sizeof(ops) / sizeof(ops[0]))

struct value {
    uint64_t lane[LANES];
    struct sg_low low;
    uint8_t width;
};

static uint64_t state = 0x1234567;

static uint64_t random64(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static uint32_t random_below(uint32_t n)
{
    return (uint32_t)(random64() >> 33) % n;
}

static uint64_t mask_of(unsigned bits)
{
    return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

/* Numbers near powers of two, masks, small and random numbers. */
static uint64_t some_number(void)
{
    const uint64_t one = 1ull << random_below(64);

    switch (random_below(6)) {
    case 0:
        return one;
    case 1:
        return 0 - one;
    case 2:
        return one - 1;
    case 3:
        return random_below(40);
    case 4:
        return random64() << random_below(64);
    default:
        return random64() >> random_below(64);
    }
}

/* A value with the given properties, as close to their limits as possible. */
static struct value some_value(void)
{
    struct value v = {.width = random_below(2) ? 32 : 64};
    const bool constant = random_below(3) == 0;
    const unsigned zeros = random_below(3) ? 0 : random_below(v.width);
    const unsigned bits = random_below(2) ? v.width : random_below(v.width + 1u);
    const unsigned differ =
        constant || !random_below(3) ? 0 : 1 + random_below(random_below(2) ? 12 : v.width);
    const uint64_t keep = mask_of(bits) & ~mask_of(zeros), base = some_number();

    for (unsigned i = 0; i < LANES; i++)
        v.lane[i] =
            ((base & ~mask_of(differ)) | ((random_below(3) ? random64() : i) & mask_of(differ))) & keep;
    for (unsigned i = 0; i < LANES && constant; i++)
        v.lane[i] = base & mask_of(v.width);
    v.low = (struct sg_low){.differ = differ >= v.width ? SG_LOW_ALL : (uint8_t)differ,
                            .zeros = zeros > bits ? SG_LOW_ALL : (uint8_t)zeros,
                            .bits = bits == v.width ? SG_LOW_ALL : (uint8_t)bits};
    if (constant) { /* as ptx/hoist/sg_ptx_hoist_operands.c describes a constant */
        const uint64_t x = v.lane[0];

        v.low = (struct sg_low){.known = true,
                                .value = x,
                                .bits = x ? (uint8_t)(64 - __builtin_clzll(x)) : 0,
                                .zeros = x ? (uint8_t)__builtin_ctzll(x) : SG_LOW_ALL};
    }
    return v;
}

static uint64_t compute(enum op op, unsigned width, uint64_t a, uint64_t b, uint64_t c)
{
    const uint32_t by = (uint32_t)b;
    const int64_t as = width == 32 ? (int32_t)a : (int64_t)a;

    switch (op) {
    case EXTEND:
        return (uint64_t)(int64_t)(int32_t)a;
    case SHL:
        return by < width ? a << by : 0;
    case SHRU:
        return by < width ? a >> by : 0;
    case SHRS:
        return (uint64_t)(as >> (by < width ? by : width - 1));
    case ADD:
        return a + b;
    case SUB:
        return a - b;
    case AND:
        return a & b;
    case OR:
        return a | b;
    case XOR:
        return a ^ b;
    case MUL:
        return a * b;
    case MAD:
        return a * b + c;
    default:
        return a;
    }
}

/* True if a value's properties hold for its lanes. */
static bool holds(const struct value *v)
{
    for (unsigned i = 0; i < LANES; i++)
        if ((v->low.differ < v->width && (v->lane[i] ^ v->lane[0]) & ~mask_of(v->low.differ)) ||
            v->lane[i] & mask_of(v->low.zeros) ||
            (v->low.bits < SG_LOW_ALL && v->lane[i] & ~mask_of(v->low.bits)))
            return false;
    return true;
}

/* An earlier value of the width. */
static const struct value *operand(const struct value *v, unsigned n, unsigned width)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        const struct value *x = &v[random_below(n)];

        if (x->width == width)
            return x;
    }
    return NULL;
}

/* A chain of operations. Returns the number of results that are not uniform in all bits; -1: a wrong
   result. */
static int chain(unsigned used[OPS])
{
    struct value v[VALUES];
    int some = 0;

    for (unsigned i = 0; i < STARTS; i++) {
        v[i] = some_value();
        if (!holds(&v[i])) {
            printf("a start is wrong\n");
            return -1;
        }
    }
    for (unsigned n = STARTS; n < VALUES;) {
        const unsigned k = random_below(OPS);
        const bool shift = ops[k].op == SHL || ops[k].op == SHRU || ops[k].op == SHRS;
        const struct value *a = operand(v, n, ops[k].from), *b = operand(v, n, shift ? 32 : ops[k].from),
                           *c = operand(v, n, ops[k].from);
        const uint8_t rule = sg_low_bits_rule(ops[k].of);
        const struct sg_low none = {.bits = SG_LOW_ALL};
        struct value by = {.width = 32}, *r = &v[n];

        if (!a || !b || !c || !rule) {
            if (rule)
                continue;
            printf("no rule for %s\n", sg_op_row(ops[k].of)->name);
            return -1;
        }
        if (shift && random_below(4)) { /* by a constant, mostly in range */
            const uint32_t x = random_below(random_below(4) ? ops[k].width : 80u);

            for (unsigned i = 0; i < LANES; i++)
                by.lane[i] = x;
            by.low = (struct sg_low){.known = true, .value = x, .bits = 7, .zeros = x ? 0 : SG_LOW_ALL};
            b = &by;
        }
        r->width = ops[k].width;
        for (unsigned i = 0; i < LANES; i++)
            r->lane[i] =
                compute(ops[k].op, ops[k].width, a->lane[i], b->lane[i], c->lane[i]) & mask_of(r->width);
        r->low = sg_low_bits(rule, a->low, ops[k].operands > 1 ? b->low : none,
                             ops[k].operands > 2 ? c->low : none);
        used[k] += r->low.differ && r->low.differ < r->width;
        if (!holds(r)) {
            printf(
                "%s: a %u %u %u %llx, b %u %u %u %llx, c %u %u %u %llx: said %u %u %u, lanes 0 and 1 %llx %llx\n",
                sg_op_row(ops[k].of)->name, a->low.differ, a->low.zeros, a->low.bits,
                (unsigned long long)a->lane[1], b->low.differ, b->low.zeros, b->low.bits,
                (unsigned long long)b->lane[1], c->low.differ, c->low.zeros, c->low.bits,
                (unsigned long long)c->lane[1], r->low.differ, r->low.zeros, r->low.bits,
                (unsigned long long)r->lane[0], (unsigned long long)r->lane[1]);
            return -1;
        }
        some += r->low.differ == 0;
        n++;
    }
    return some;
}

/* Values that compilers compute from %tid: the knowledge of them must not shrink. */
static void known_uniform(void)
{
    const struct sg_low tid = {.differ = 5, .bits = 10}, row = {.bits = 10}, none = {.bits = SG_LOW_ALL};
    const struct sg_low c5 = {.known = true, .value = 5, .bits = 3},
                        c31 = {.known = true, .value = 31, .bits = 5},
                        c27 = {.known = true, .value = 27, .bits = 5},
                        high = {.known = true, .value = 0xffffffe0, .zeros = 5, .bits = 32};
    const uint8_t shl = sg_low_bits_rule(SG_OP_shl_b32), shr = sg_low_bits_rule(SG_OP_shr_u32),
                  sar = sg_low_bits_rule(SG_OP_shr_s32), add = sg_low_bits_rule(SG_OP_add_b32),
                  mask = sg_low_bits_rule(SG_OP_and_b32);
    const struct sg_low index = sg_low_bits(add, sg_low_bits(shl, row, c5, none), tid, none);
    const struct sg_low round = sg_low_bits(shr, sg_low_bits(sar, index, c31, none), c27, none);

    t_result("a warp's index, unsigned", !sg_low_bits(shr, index, c5, none).differ, "it differs");
    t_result("a warp's index, signed",
             !sg_low_bits(sar, sg_low_bits(add, index, round, none), c5, none).differ, "it differs");
    t_result("a row's start", !sg_low_bits(mask, tid, high, none).differ, "it differs");
    t_result("no rule for others", !sg_low_bits_rule(SG_OP_shl_b16) && !sg_low_bits_rule(SG_OP_sub_sat_s32),
             "there is one");
}

int main(void)
{
    unsigned used[OPS] = {0}, n = 0;
    uint64_t uniform = 0;
    int some = 0;

    for (; n < CHAINS && some >= 0; n++) {
        some = chain(used);
        uniform += some > 0 ? (uint64_t)some : 0;
    }
    t_result("what is said of lanes holds", some >= 0, "chain %u", n);
    t_result("some results are uniform", uniform > CHAINS / 2, "%llu", (unsigned long long)uniform);
    for (size_t k = 0; k < OPS; k++)
        t_result(sg_op_row(ops[k].of)->name, used[k] > 200, "said something of %u results", used[k]);
    known_uniform();
    return t_end("softgpu low bits");
}

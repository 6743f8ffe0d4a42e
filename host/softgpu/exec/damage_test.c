/* SPDX-License-Identifier: MIT */
/* Damage to the finished instructions of a kernel, by chance: the same in each run. */
#include "exec/damage_test.h"
#include "memory/texture.h"

#include <stdio.h>
#include <string.h>

#define MAX_OPS 2048
static const struct sg_opdef *ops[MAX_OPS];
static unsigned nops;

static void add_op(const struct sg_opdef *def)
{
    if (nops < MAX_OPS)
        ops[nops++] = def;
}

static uint64_t rng = 0x9e3779b97f4a7c15ull;

uint32_t td_random(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % n;
}

/* Another operand: that of another instruction, a neighbour, the edge of a part, or a random number. */
static uint32_t other_operand(const struct sg_code *c, uint32_t op)
{
    const struct sg_insn *x = &c->insns[td_random(c->ninsns)];
    const uint32_t parts[] = {0, c->slots_begin, c->slots32, c->slots_end, c->regfile_bytes};
    const uint32_t pool[] = {SG_OPND_CONST, SG_OPND_CONST | c->pool_bytes, UINT32_MAX};
    const uint32_t steps[] = {4, 64, 128, 256, 1};

    switch (td_random(6)) {
    case 0:
        return x->d;
    case 1:
        return x->a;
    case 2:
        return x->b;
    case 3:
        return op + (td_random(2) ? 1 : UINT32_MAX) * steps[td_random(5)];
    case 4:
        return (td_random(2) ? parts[td_random(5)] : pool[td_random(3)]) + (td_random(3) - 1) * 128;
    default:
        return op ^ 1u << td_random(32);
    }
}

static int64_t other_number(const struct sg_code *c, int64_t n)
{
    switch (td_random(5)) {
    case 0:
        return n + (int64_t)td_random(9) - 4;
    case 1:
        return (int64_t)td_random(2 * c->ninsns) - c->ninsns;
    case 2:
        return c->insns[td_random(c->ninsns)].imm;
    case 3:
        return (int64_t)((uint64_t)n ^ 1ull << td_random(64));
    default:
        return td_random(2) ? INT64_MIN : INT64_MAX;
    }
}

static void damage_insn(const struct sg_code *c, struct sg_insn *in)
{
    switch (td_random(9)) {
    case 0: /* sometimes an operation of the kernel */
        in->fn = td_random(2) ? ops[td_random(nops)]->fn : c->insns[td_random(c->ninsns)].fn;
        break;
    case 1:
        in->d = other_operand(c, in->d);
        break;
    case 2:
        in->a = other_operand(c, in->a);
        break;
    case 3:
        in->b = other_operand(c, in->b);
        break;
    case 4:
        in->c = other_operand(c, in->c);
        break;
    case 5:
        in->e = other_operand(c, in->e);
        break;
    case 6:
        in->aux = td_random(2) ? in->aux ^ 1u << td_random(32) : c->insns[td_random(c->ninsns)].aux;
        break;
    case 7:
        in->imm = other_number(c, in->imm);
        break;
    default:
        *in = c->insns[td_random(c->ninsns)];
        break;
    }
}

void td_damage(struct sg_code *c)
{
    const struct sg_ahead *a;

    if (!nops)
        sg_op_each(add_op);
    a = &c->ahead[td_random(SG_AHEAD_COUNT)];

    switch (td_random(16)) {
    case 0:
        if (c->ntargets)
            c->targets[td_random(c->ntargets)] = td_random(c->ninsns + 2);
        break;
    case 1:
        if (c->ncall_words)
            c->calls[td_random(c->ncall_words)] ^= 1u << td_random(32);
        break;
    case 2:
        if (a->n)
            damage_insn(c, &a->insns[td_random(a->n)]);
        break;
    case 3:
        if (c->flat && c->slots_begin)
            c->flat[td_random(c->slots_begin / 128)] = (uint8_t)td_random(td_random(2) ? 3 : 256);
        break;
    case 4:
        if (c->fields)
            c->fields[td_random(2 * c->ninsns)] ^= (uint8_t)(1u << td_random(8));
        break;
    default:
        damage_insn(c, &c->insns[td_random(c->ninsns)]);
        break;
    }
}

/* ---- places ---- */

uint32_t td_flat_unit(const struct sg_code *c, uint8_t kind)
{
    uint32_t k = 0;

    while (k + 1 < c->slots_begin / 128 && c->flat[k] != kind)
        k++;
    return k;
}

uint32_t td_ahead_slot(const struct sg_code *c)
{
    const sg_fn add = sg_op_fn(SG_OP_add_b64);

    for (uint32_t i = 0; i < c->ninsns; i++)
        for (unsigned k = 0; k < 2 && c->insns[i].fn == add; k++) {
            const uint32_t op = k ? c->insns[i].b : c->insns[i].a;

            if (op < c->slots_begin && !c->flat[op / 128])
                return op;
        }
    return 0;
}

/* ---- textures ---- */

static float texels[8 * 8 * 4];

const struct sg_texture *td_texture(void *unused, uint64_t handle, bool surface)
{
    static struct sg_texture t = {
        .kind = SG_TEXEL_FLOAT, .bytes = 4, .channels = 4, .elem = 16, .dims = 2, .nlevels = 1};

    (void)unused;
    (void)handle;
    t.level[0] = (struct sg_tex_level){(uintptr_t)texels, 8, 8, 1, 8 * t.elem, 64 * t.elem};
    t.surface = surface;
    return &t;
}

/* ---- rows ---- */

/* Operations with an optional field that their handlers ignore. */
static bool not_looked_at(const char *name)
{
    static const char *const names[] = {"ext", "cvt.pack.u16.s32", "cvt.pack.s16.s32", "cdp.stream"};

    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        if (!strcmp(name, names[k]))
            return true;
    return false;
}

/* The rules that look at fields which vary or may be missing. */
static bool looks(uint8_t rule)
{
    return (rule >= SG_R_LOAD && rule <= SG_R_STORE) || rule == SG_R_BULK || rule == SG_R_BULK_REDUCE ||
           rule >= SG_R_MATRIX;
}

static unsigned odd_rows;

static void look_at_row(const struct sg_opdef *row)
{
    for (unsigned k = 0; k < SG_FIELDS; k++) {
        const uint8_t w = row->field[k], kind = w & SG_W_KIND;
        const bool open = kind == SG_W_VARIES || (w & SG_W_OPTIONAL);

        if ((kind == SG_W_ADDRESS && (w & SG_W_OUT)) || kind > SG_W_VARIES ||
            (open && !looks(row->rule) && !not_looked_at(row->name))) {
            printf("%s: nothing looks at field %u\n", row->name, k);
            odd_rows++;
        }
    }
}

unsigned td_odd_rows(void)
{
    odd_rows = 0;
    sg_op_each(look_at_row);
    return odd_rows;
}

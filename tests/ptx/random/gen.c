/* SPDX-License-Identifier: MIT */
#include "gen.h"

#include <string.h>

static u64 state;

void rnd_seed(u64 seed)
{
    state = seed * 0x9e3779b97f4a7c15ull ^ 0x2545f4914f6cdd1dull;
    for (int i = 0; i < 4; i++)
        rnd64();
}

u64 rnd64(void)
{
    u64 z = state += 0x9e3779b97f4a7c15ull;

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

u32 rnd(u32 n)
{
    return (u32)(rnd64() >> 33) % n;
}

int class_of(char letter)
{
    return (int)(strchr(CLASSES, letter == 's' ? 'w' : letter) - CLASSES);
}

u64 mask_of(char letter)
{
    switch (letter) {
    case 'p':
        return 1;
    case 'h':
    case 'e':
    case 'g':
        return 0xffff;
    case 'd':
    case 'F':
        return ~0ull;
    default:
        return 0xffffffff;
    }
}

u64 random_value(char letter)
{
    static const u32 ints[] = {0,          1,          2,          3,          31,        32,     33,
                               0x7f,       0x80,       0xff,       0x7fff,     0x8000,    0xffff, 0x10000,
                               0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff};
    static const u32 floats[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                                 0x7fc00000, 1,          0x807fffff, 0x00800000, 0x7f7fffff, 0x3f000000,
                                 0x40200000, 0xc0600000, 0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000,
                                 0x33800000, 0x477ff000, 0x33000001};
    static const u64 doubles[] = {0,
                                  1ull << 63,
                                  0x3ff0000000000000,
                                  0xbff0000000000000,
                                  0x7ff0000000000000,
                                  0xfff0000000000000,
                                  0x7ff8000000000000,
                                  1,
                                  0x000fffffffffffff,
                                  0x7fefffffffffffff,
                                  0x41dfffffffc00000,
                                  0xc1e0000000200000,
                                  0x43e0000000000000,
                                  0x3ff8000000000000,
                                  0x380fffffffffffff,
                                  0x36a0000000000000,
                                  0x47efffffffffffff};
    static const u16 halves[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00,
                                 0x7e00, 1,      0x83ff, 0x0400, 0x7bff, 0x3555};
    const bool edge = rnd(3) == 0;
    const u64 r = rnd64();

    switch (letter) {
    case 'p':
        return r & 1;
    case 's':
        return rnd(70);
    case 'h':
        return (edge ? ints[rnd(19)] : r) & 0xffff;
    case 'w':
        return edge ? ints[rnd(19)] : rnd(3) ? (u32)r : (u32)r >> rnd(32);
    case 'd':
        return edge ? (u64)(s64)(s32)ints[rnd(19)] << rnd(34) : r >> rnd(64);
    case 'f':
        return edge ? floats[rnd(21)] : rnd(4) ? ((u32)r & 0x83ffffffu) + 0x3e000000u : (u32)r;
    case 'F':
        return edge ? doubles[rnd(17)] : rnd(4) ? (r & 0x803fffffffffffffull) + 0x3fe0000000000000ull : r;
    case 'E':
        return random_value('e') | random_value('e') << 16;
    case 'g':
        return random_value('f') >> 16;
    default:
        return edge ? halves[rnd(12)] : r & 0xffff;
    }
}

/* Threads that reach a statement: all threads of the block, those of a mask, or an unknown set. */
enum where { ALL, MASKED, SOME, FLAT };
/* FLAT: as SOME, but in whole rows the lanes of a warp have not parted yet, unless the program is loose. */

static int block_of(struct program *p, int n, enum where w, int depth, int loops, bool may_break);

static int reserve(struct program *p)
{
    struct stmt *s = &p->s[p->n];

    memset(s, 0, sizeof(*s));
    s->guard = s->body = s->other = s->next = -1;
    s->dst = (u8)rnd(REGS);
    s->dst2 = (u8)rnd(REGS);
    return p->n++;
}

static struct operand operand(char letter, bool registers_only)
{
    struct operand o = {.cls = letter, .reg = (u8)rnd(REGS)};

    /* Only where constants denote the same bits: not for halves and predicates. */
    if (registers_only)
        return o;
    if (letter == 's' ? rnd(2) : strchr("hwdfF", letter) && rnd(5) == 0) {
        o.imm = true;
        o.value = random_value(letter);
    }
    return o;
}

/* Registers of which there is none yet are constants. */
static struct operand uniform_operand(void)
{
    struct operand o = {.cls = 'U', .reg = (u8)rnd(2 * UREGS)};

    o.imm = rnd(5) == 0;
    o.value = random_value(rnd(2) ? 's' : 'w');
    return o;
}

static void uniform(const struct program *p, struct stmt *s, bool set)
{
    s->kind = set ? ST_UNIFORM : ST_UNIFORM_OUT;
    s->op = (int)rnd(set ? INDICES + UNIFORMS : 4);
    for (int i = 0; i < 3; i++)
        s->src[i] = uniform_operand();
    if (!set || rnd(3) == 0) /* with itself */
        s->src[1].reg = set ? s->dst % UREGS : (u8)rnd(2 * UREGS);
    s->dst %= set ? UREGS : REGS;
    s->width = (u8)rnd(33);
    s->offset = (u8)rnd(33);
    if (p->loose && set && rnd(6) == 0) {
        s->guard = (int)rnd(REGS);
        s->guard_not = rnd(2);
    }
}

static void simple(struct stmt *s, enum where w)
{
    static const u8 widths[] = {1, 2, 4, 8};
    const u32 k = rnd(100);

    s->masked = w == MASKED;
    if (k < 84 || (w >= SOME && k >= 96)) {
        s->kind = ST_OP;
        s->op = (int)rnd((u32)nops);
        if (copies_bits(s->op) && is_number(s->dst))
            s->dst--;
        for (int i = 0; ops[s->op].sig[i + 1]; i++)
            s->src[i] = operand(ops[s->op].sig[i + 1],
                                strchr(ops[s->op].text, '%') || !strncmp(ops[s->op].text, "cvt", 3));
    } else if (k < 92) {
        s->kind = k < 88 ? ST_STORE : ST_LOAD;
        s->space = (u8)rnd(SPACES);
        s->width = widths[rnd(4)];
        s->offset = (u8)(rnd(SLOT / s->width) * s->width);
        s->op = (int)rnd(2); /* signed or not */
        s->src[0] = (struct operand){.cls = s->width < 4    ? 'h'
                                            : s->width == 4 ? 'w'
                                                            : 'd',
                                     .reg = (u8)rnd(REGS)};
    } else if (k < 94) {
        s->kind = ST_RED;
        s->space = (u8)rnd(2);
        s->op = (int)rnd(ACCS);
        s->src[0] = (struct operand){.cls = 'w', .reg = (u8)rnd(REGS)};
    } else if (k < 96) {
        s->kind = ST_ATOM;
        s->space = (u8)rnd(2);
        s->offset = (u8)(rnd(SLOT / 4) * 4);
        s->op = (int)rnd(10);
        s->src[0] = (struct operand){.cls = 'w', .reg = (u8)rnd(REGS)};
        s->src[1] = (struct operand){.cls = 'w', .reg = (u8)rnd(REGS)};
    } else {
        static const enum kind kinds[] = {ST_SHFL, ST_VOTE, ST_MATCH, ST_REDUX};

        s->kind = kinds[rnd(4)];
        s->op = (int)rnd(s->kind == ST_REDUX ? 8 : s->kind == ST_MATCH ? 2 : 4);
        if (s->kind == ST_SHFL && s->masked)
            s->op = SHFL_LOWEST;
        for (int i = 0; i < 3; i++)
            s->src[i] = operand(s->kind == ST_VOTE ? 'p' : 'w', false);
        s->src[0].imm = false;
        if (s->kind == ST_SHFL && s->src[1].imm)
            s->src[1].value &= 31;
        if (s->kind == ST_SHFL) { /* the third is a constant: clamp and segment */
            s->src[2].imm = true;
            s->src[2].value =
                (s->op == 1 ? 0 : 31) | (rnd(3) ? 0 : (u64)(0x1f & (0x1f << (2 + rnd(4)))) << 8);
            if (s->op == 1)
                s->src[2].value &= ~31ull;
        }
    }
    if ((s->kind == ST_OP && ops[s->op].text[0] != '{') || s->kind == ST_STORE || s->kind == ST_LOAD ||
        s->kind == ST_RED || s->kind == ST_ATOM) {
        if (rnd(5) == 0) {
            s->guard = (int)rnd(REGS);
            s->guard_not = rnd(2);
        }
    }
}

/* A statement after which the lanes of a row are still together. */
static void flat(struct program *p, struct stmt *s, u32 k, int depth, int loops, bool may_break)
{
    for (int i = 0; i < 2; i++)
        s->src[i] = uniform_operand();
    s->src[0].imm = false;
    s->guard_not = rnd(2);
    if (k < 8 && depth < 4) {
        s->kind = ST_UNIFORM_IF;
        s->op = (int)rnd(6);
        s->body = block_of(p, 1 + (int)rnd(6), FLAT, depth + 1, loops, may_break);
        if (rnd(2))
            s->other = block_of(p, 1 + (int)rnd(4), FLAT, depth + 1, loops, may_break);
    } else if (k < 17 && depth < 4 && loops < LOOPS) {
        s->kind = ST_LOOP;
        s->op = 3 * (int)rnd(2);
        s->depth = loops;
        s->body = block_of(p, 1 + (int)rnd(7), FLAT, depth + 1, loops + 1, true);
    } else if (k < 22 && may_break) {
        s->kind = rnd(2) ? ST_UNIFORM_BREAK : ST_UNIFORM_CONTINUE;
        s->op = (int)rnd(6);
        s->depth = loops - 1;
    } else {
        uniform(p, s, k < 60);
    }
}

static int one(struct program *p, enum where w, int depth, int loops, bool may_break)
{
    const int i = reserve(p);
    struct stmt *s = &p->s[i];
    const u32 k = rnd(100);

    if (w == FLAT && k < 70 && !(p->loose && rnd(4) == 0)) {
        flat(p, s, k, depth, loops, may_break);
    } else if (k >= 92 && rnd(2)) {
        uniform(p, s, p->loose && rnd(3) == 0);
    } else if (w == FLAT && !p->loose) {
        simple(s, w);
    } else if (k < 12 && depth < 4) {
        s->kind = ST_IF;
        s->src[0] = (struct operand){.cls = 'p', .reg = (u8)rnd(REGS)};
        s->masked = w == ALL; /* with a mask made by a vote that all take part in */
        s->body = block_of(p, 1 + (int)rnd(8), w == ALL ? MASKED : SOME, depth + 1, loops, may_break);
        if (rnd(2))
            s->other = block_of(p, 1 + (int)rnd(6), SOME, depth + 1, loops, may_break);
    } else if (k < 20 && depth < 4 && loops < LOOPS) {
        s->kind = ST_LOOP;
        s->depth = loops;
        s->src[0] = (struct operand){.cls = 'w', .reg = (u8)rnd(REGS)};
        s->op = (int)rnd(3); /* 0: as many for all, else by the register's lowest bits */
        /* Leaving a loop early would part threads that must stay together in a loop for all. */
        s->body = block_of(p, 1 + (int)rnd(7), s->op ? SOME : w, depth + 1, loops + 1, s->op != 0);
    } else if (k < 24 && may_break) {
        s->kind = k < 22 ? ST_BREAK : ST_CONTINUE;
        s->src[0] = (struct operand){.cls = 'p', .reg = (u8)rnd(REGS)};
        s->guard_not = rnd(2);
        s->depth = loops - 1;
    } else if (k < 26 && w == ALL) {
        s->kind = ST_EXCHANGE;
        s->op = 1 + (int)rnd(7);
        s->offset = (u8)rnd(40);
        s->src[0] = (struct operand){.cls = 'w', .reg = (u8)rnd(REGS)};
    } else {
        simple(s, w);
    }
    return i;
}

static int block_of(struct program *p, int n, enum where w, int depth, int loops, bool may_break)
{
    int first = -1, last = -1;

    while (n-- && p->n < STMTS - 40) {
        const int i = one(p, w, depth, loops, may_break);

        if (first < 0)
            first = i;
        else
            p->s[last].next = i;
        last = i;
    }
    return first;
}

void build(struct program *p, u64 seed)
{
    static const u8 shapes[][3] = {{32, 1, 1}, {64, 1, 1}, {96, 1, 1}, {128, 1, 1}, {17, 1, 1}, {80, 1, 1},
                                   {32, 4, 1}, {64, 2, 1}, {32, 1, 3}, {32, 2, 2},  {32, 3, 1}, {16, 8, 1},
                                   {33, 2, 1}, {48, 2, 1}, {8, 4, 3},  {64, 1, 2}};
    const u8 *shape;
    int last = -1;

    memset(p, 0, sizeof(*p));
    p->seed = seed;
    rnd_seed(seed);
    shape = shapes[rnd(16)];
    for (int i = 0; i < 3; i++)
        p->shape[i] = shape[i];
    p->block = p->shape[0] * p->shape[1] * p->shape[2];
    p->loose = rnd(4) == 0;
    for (int i = 0; i < UREGS; i++)
        p->once[i] = (int)rnd(INDICES + 2);
    p->blocks = 1 + rnd(2);
    if (rnd(4)) {
        p->first = block_of(p, 10 + (int)rnd(25), FLAT, 0, 0, false);
        for (last = p->first; last >= 0 && p->s[last].next >= 0;)
            last = p->s[last].next;
    }
    *(last >= 0 ? &p->s[last].next : &p->first) = block_of(p, 20 + (int)rnd(60), ALL, 0, 0, false);
    for (int i = 0; i < p->n; i++) /* lanes that do not exist must not be read */
        if (p->block % 32 && p->s[i].kind == ST_SHFL)
            p->s[i].op = SHFL_LOWEST;
}

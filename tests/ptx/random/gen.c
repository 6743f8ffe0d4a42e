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

/* Where a statement stands: do all threads of the block come here, those of a mask, or who knows. */
enum where { ALL, MASKED, SOME };

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

    /* Only where the syntax of constants says the same bits: not for halves and predicates. */
    if (registers_only)
        return o;
    if (letter == 's' ? rnd(2) : strchr("hwdfF", letter) && rnd(5) == 0) {
        o.imm = true;
        o.value = random_value(letter);
    }
    return o;
}

static void simple(struct stmt *s, enum where w)
{
    static const u8 widths[] = {1, 2, 4, 8};
    const u32 k = rnd(100);

    s->masked = w == MASKED;
    if (k < 84 || (w == SOME && k >= 96)) {
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

static int one(struct program *p, enum where w, int depth, int loops, bool may_break)
{
    const int i = reserve(p);
    struct stmt *s = &p->s[i];
    const u32 k = rnd(100);

    if (k < 12 && depth < 4) {
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
    } else if (k < 23 && may_break) {
        s->kind = ST_BREAK;
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
    static const u8 blocks[] = {32, 64, 96, 128, 17, 80};

    memset(p, 0, sizeof(*p));
    p->seed = seed;
    rnd_seed(seed);
    p->block = blocks[rnd(6)];
    p->blocks = 1 + rnd(2);
    p->first = block_of(p, 20 + (int)rnd(60), ALL, 0, 0, false);
    for (int i = 0; i < p->n; i++) /* lanes that do not exist must not be read */
        if (p->block % 32 && p->s[i].kind == ST_SHFL)
            p->s[i].op = SHFL_LOWEST;
}

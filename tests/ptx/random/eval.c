/* SPDX-License-Identifier: MIT */
/* The program computed statement by statement for all threads of a block, straight from its structure. */
#include "gen.h"

#include <math.h>
#include <string.h>

#define OP(sig, text, result) {sig, text},
const struct op ops[] = {
#include "ops.inc"
};
#undef OP
const int nops = sizeof(ops) / sizeof(ops[0]);

#define FIRST_OP (__COUNTER__ + 1)
enum { COUNTER_BASE = FIRST_OP };

u64 eval_op(int op, u64 a, u64 b, u64 c)
{
    switch (op + COUNTER_BASE) {
#define OP(sig, text, result) \
    case __COUNTER__: \
        return (u64)(result);
#include "ops.inc"
#undef OP
    default:
        return 0;
    }
}

bool copies_bits(int op)
{
    return ops[op].sig[0] == 'f' &&
           (!strncmp(ops[op].text, "mov.", 4) || !strncmp(ops[op].text, "selp.", 5) ||
            !strcmp(ops[op].text, "cvt.f32.bf16"));
}

/*
 * The result of an operation as held by a register: arithmetic of f32 yields the canonical NaN, copies keep
 * their bits.
 */
static u64 result_of(int op, u64 v)
{
    return ops[op].sig[0] == 'f' && !copies_bits(op) && isnan(f32(v)) ? 0x7fffffff : v;
}

/* Initial value of a register: an f32 that is a number is the sum of its input and -0. */
static u64 begin_of(char cls, int reg, u64 v)
{
    return cls == 'f' && is_number(reg) && isnan(f32(v)) ? 0x7fffffff : v;
}

struct thread {
    u64 r[NCLASS][REGS];
    u32 counter[LOOPS];
    u32 u[2 * UREGS];
    u32 tid[3];
    u8 slot[SPACES][SLOT];
};

/* Which threads take part. */
typedef bool mask[THREADS_MAX];

static const struct program *prog;
static struct thread t[THREADS_MAX];
static u32 *shared_acc, *global_acc, cta;

u32 red_start(int k)
{
    static const u32 start[ACCS] = {7, 0x7ffffff0, 0x80000010, 0xfffffff0, 5, 0xffffffff, 0, 0x1234};

    return start[k];
}

u32 red(int k, u32 x, u32 v)
{
    switch (k) {
    case 0:
        return x + v;
    case 1:
        return (s32)v < (s32)x ? v : x;
    case 2:
        return (s32)v > (s32)x ? v : x;
    case 3:
        return v < x ? v : x;
    case 4:
        return v > x ? v : x;
    case 5:
        return x & v;
    case 6:
        return x | v;
    default:
        return x ^ v;
    }
}

static u32 atom(int k, u32 x, u32 b, u32 c)
{
    switch (k) {
    case 0:
        return x + b;
    case 1:
        return b;
    case 2:
        return x == b ? c : x;
    case 3:
        return (s32)b < (s32)x ? b : x;
    case 4:
        return b > x ? b : x;
    case 5:
        return x & b;
    case 6:
        return x | b;
    case 7:
        return x ^ b;
    case 8:
        return x >= b ? 0 : x + 1;
    default:
        return x == 0 || x > b ? b : x - 1;
    }
}

static u64 value(const struct thread *x, const struct operand *o)
{
    return o->imm ? o->value & mask_of(o->cls) : x->r[class_of(o->cls)][o->reg];
}

static void set(struct thread *x, char cls, int reg, u64 v)
{
    x->r[class_of(cls)][reg] = v & mask_of(cls);
}

static void memory(const struct stmt *s, struct thread *x)
{
    u8 *at = x->slot[s->space] + s->offset;
    u64 v = value(x, &s->src[0]);

    if (s->kind == ST_STORE) {
        memcpy(at, &v, s->width);
        return;
    }
    v = 0;
    memcpy(&v, at, s->width);
    if (s->op && s->width < 8 && v >> (s->width * 8 - 1))
        v |= ~0ull << (s->width * 8);
    set(x,
        s->width == 1   ? "hwd"[s->dst2 % 3]
        : s->width == 2 ? "hw"[s->dst2 % 2]
        : s->width == 4 ? 'w'
                        : 'd',
        s->dst, v);
}

static u32 redux(int k, u32 x, u32 v)
{
    static const int as_red[] = {0, 1, 2, 3, 4, 5, 6, 7};

    return red(as_red[k], x, v);
}

u32 table_word(u32 i)
{
    return (i + 3) * 2654435761u ^ i << 9;
}

static u32 index_of(int what, const u32 tid[3])
{
    const u32 x = tid[0], y = tid[1];

    switch (what) {
    case 0:
        return y;
    case 1:
        return tid[2] * 100 + y;
    case 2:
        return x / 32;
    case 3:
        return x / 32 * 32;
    case 4:
    case 5:
        return (y * 32 + x) / 32;
    case 6:
        return (u32)((s32)(x - 64) >> 5);
    case 7:
        return x;
    case 8:
        return x / 16;
    case 9:
        return x / 16 * 16;
    case 10:
        return (y * 16 + x) / 32;
    case 11:
        return (u32)((s32)(x - 40) >> 5);
    case 12:
        return x * 3 / 32;
    default:
        return x % 32 + y * 32;
    }
}

static u32 uniform_value(const struct thread *x, const struct operand *o)
{
    return o->imm ? (u32)o->value : x->u[o->reg];
}

static bool uniform_compare(const struct stmt *s, const struct thread *x)
{
    const u32 a = uniform_value(x, &s->src[0]), b = uniform_value(x, &s->src[1]);

    switch (s->op) {
    case 0:
        return a < b;
    case 1:
        return (s32)a >= (s32)b;
    case 2:
        return a == b;
    case 3:
        return a != b;
    case 4:
        return (s32)a > (s32)b;
    default:
        return a <= b;
    }
}

static u32 uniform_result(const struct stmt *s, const struct thread *x)
{
    const u32 a = uniform_value(x, &s->src[0]), b = uniform_value(x, &s->src[1]),
              c = uniform_value(x, &s->src[2]);
    const u32 at = a & 60, k = s->width;
    u32 r;

    switch (s->op - INDICES) {
    case 0:
        return a;
    case 1:
        return a + b;
    case 2:
        return a - b;
    case 3:
        return a * b;
    case 4:
        return a * b + c;
    case 5:
        return a ^ b;
    case 6:
        return k < 32 ? b << k : 0;
    case 7:
        return (u32)((s32)b >> (k < 32 ? k : 31));
    case 8:
        return (u32)((((u64)a << s->offset) + (s->src[2].value << (s->offset & 31))) >> k);
    case 9:
        return (s32)a < (s32)b ? b : c;
    case 10:
        return table_word(at + 1);
    case 11:
        return (u32)(s32)(s16)(table_word(at + 1) >> 16);
    case 12:
        return (u32)((table_word(at + 2) | (u64)table_word(at + 3) << 32) >> k);
    case 13:
        return (table_word(at) >> 24) + b;
    case 14:
        r = (s32)a < (s32)b ? a : b;
        return r > c ? r : c;
    default:
        return (cta + a) & b;
    }
}

static void uniform(const struct stmt *s, struct thread *x)
{
    const u32 v = uniform_value(x, &s->src[1]), w = (u32)x->r[class_of('w')][s->dst];

    if (s->kind == ST_UNIFORM)
        x->u[s->dst] = s->op < INDICES ? index_of(s->op, x->tid) : uniform_result(s, x);
    else
        x->r[class_of('w')][s->dst] = s->op == 0 ? w ^ v : s->op == 1 ? w + v : s->op == 2 ? w * 7 + v : v;
}

/* One warp's threads from first on; in: participating threads. */
static void warp(const struct stmt *s, const bool *in, int first, int n)
{
    u32 source[32], pred[32], key[32], members = 0, ballot = 0, sum = 0;
    int lowest = -1;
    bool same = true;

    for (int l = 0; l < n; l++) {
        source[l] = (u32)value(&t[first + l], &s->src[0]);
        pred[l] = source[l] & 1;
        key[l] = source[l] & 3;
        if (!in[first + l])
            continue;
        members |= 1u << l;
        ballot |= pred[l] << l;
        sum = lowest < 0 ? source[l] : redux(s->op & 7, sum, source[l]);
        if (lowest < 0)
            lowest = l;
        same = same && key[l] == key[lowest];
    }
    for (int l = 0; l < n; l++) {
        struct thread *x = &t[first + l];
        u32 any = 0;

        if (!in[first + l])
            continue;
        switch (s->kind) {
        case ST_SHFL: {
            const int b = (int)value(x, &s->src[1]) & 31, c = (int)s->src[2].value;
            const int clip = c & 31, seg = c >> 8 & 31, max = (l & seg) | (clip & ~seg), min = l & seg;
            int j = l;
            bool p = true;

            switch (s->op) {
            case 0:
                j = min | (b & ~seg);
                p = j <= max;
                break;
            case 1:
                j = l - b;
                p = j >= max;
                break;
            case 2:
                j = l + b;
                p = j <= max;
                break;
            case 3:
                j = l ^ b;
                p = j <= max;
                break;
            default:
                j = lowest;
                break;
            }
            set(x, 'w', s->dst, source[p ? j : l]);
            set(x, 'p', s->dst2, p);
            break;
        }
        case ST_VOTE:
            if (s->op == 3)
                set(x, 'w', s->dst, ballot);
            else
                set(x, 'p', s->dst,
                    s->op == 0   ? ballot == members
                    : s->op == 1 ? ballot != 0
                                 : ballot == members || !ballot);
            break;
        case ST_MATCH:
            for (int k = 0; k < n; k++)
                any |= (u32)(in[first + k] && key[k] == key[l]) << k;
            if (s->op) {
                set(x, 'w', s->dst, same ? members : 0);
                set(x, 'p', s->dst2, same);
            } else {
                set(x, 'w', s->dst, any);
            }
            break;
        default:
            set(x, 'w', s->dst, sum);
            break;
        }
    }
}

static void exchange(const struct stmt *s)
{
    u32 v[THREADS_MAX];
    const u32 n = prog->block;

    for (u32 i = 0; i < n; i++)
        v[i] = (u32)value(&t[i], &s->src[0]);
    for (u32 i = 0; i < n; i++)
        set(&t[i], 'w', s->dst, v[(i * (u32)s->op + s->offset) % n]);
}

static void simple(const struct stmt *s, const mask in)
{
    for (unsigned i = 0; i < prog->block; i++) {
        struct thread *x = &t[i];
        u32 old, next;

        if (!in[i] || (s->guard >= 0 && (x->r[class_of('p')][s->guard] != 0) == s->guard_not))
            continue;
        switch (s->kind) {
        case ST_UNIFORM:
        case ST_UNIFORM_OUT:
            uniform(s, x);
            break;
        case ST_OP: {
            const char *sig = ops[s->op].sig;
            const size_t n = strlen(sig) - 1;

            set(x, sig[0], s->dst,
                result_of(s->op,
                          eval_op(s->op, n > 0 ? value(x, &s->src[0]) : 0, n > 1 ? value(x, &s->src[1]) : 0,
                                  n > 2 ? value(x, &s->src[2]) : 0)));
            break;
        }
        case ST_RED:
            old = (u32)value(x, &s->src[0]);
            if (s->space)
                global_acc[s->op] = red(s->op, global_acc[s->op], old);
            else
                shared_acc[s->op] = red(s->op, shared_acc[s->op], old);
            break;
        case ST_ATOM:
            memcpy(&old, x->slot[s->space] + s->offset, 4);
            next = atom(s->op, old, (u32)value(x, &s->src[0]), (u32)value(x, &s->src[1]));
            memcpy(x->slot[s->space] + s->offset, &next, 4);
            set(x, 'w', s->dst, old);
            break;
        default:
            memory(s, x);
            break;
        }
    }
}

/* in: participating threads; left: set for threads that leave the innermost loop; skip: set for threads
   that begin its next turn. */
static void list(int first, const mask in, bool *left, bool *skip)
{
    const unsigned n = prog->block;
    mask now;

    memcpy(now, in, sizeof(now));
    for (int i = first; i >= 0; i = prog->s[i].next) {
        const struct stmt *s = &prog->s[i];
        mask sub, rest, gone = {false}, next;

        if (s->off)
            continue;
        switch (s->kind) {
        case ST_IF:
        case ST_BREAK:
        case ST_CONTINUE:
        case ST_UNIFORM_IF:
        case ST_UNIFORM_BREAK:
        case ST_UNIFORM_CONTINUE:
            for (unsigned k = 0; k < n; k++) {
                const bool yes =
                    s->src[0].cls == 'U' ? uniform_compare(s, &t[k]) : value(&t[k], &s->src[0]) != 0;

                sub[k] = now[k] && yes != s->guard_not;
                rest[k] = now[k] && !sub[k];
            }
            if (s->kind == ST_IF || s->kind == ST_UNIFORM_IF) {
                list(s->body, sub, left, skip);
                list(s->other, rest, left, skip);
            } else {
                bool *out = s->kind == ST_BREAK || s->kind == ST_UNIFORM_BREAK ? left : skip;

                for (unsigned k = 0; k < n; k++)
                    out[k] = out[k] || sub[k];
            }
            for (unsigned k = 0; k < n; k++)
                now[k] = now[k] && !left[k] && !skip[k];
            break;
        case ST_LOOP:
            for (unsigned k = 0; k < n; k++)
                if (now[k])
                    t[k].counter[s->depth] = s->op == 3 ? uniform_value(&t[k], &s->src[0]) & 3
                                             : s->op    ? (u32)value(&t[k], &s->src[0]) & 3
                                                        : 3;
            for (;;) {
                bool any = false;

                for (unsigned k = 0; k < n; k++) {
                    sub[k] = now[k] && !gone[k] && t[k].counter[s->depth];
                    any = any || sub[k];
                    if (sub[k])
                        t[k].counter[s->depth]--;
                    else if (now[k])
                        gone[k] = true;
                }
                if (!any)
                    break;
                memset(next, 0, sizeof(next));
                list(s->body, sub, gone, next);
            }
            break;
        case ST_EXCHANGE:
            exchange(s);
            break;
        case ST_SHFL:
        case ST_VOTE:
        case ST_MATCH:
        case ST_REDUX:
            for (unsigned w = 0; w < n; w += 32)
                warp(s, now, (int)w, (int)(n - w < 32 ? n - w : 32));
            break;
        default:
            simple(s, now);
            break;
        }
    }
}

void evaluate(const struct program *p, const u64 *in, u64 *out, u32 *acc)
{
    prog = p;
    global_acc = acc;
    for (unsigned b = 0; b < p->blocks; b++) {
        mask all = {false}, left = {false}, skip = {false};

        shared_acc = acc + ACCS * (b + 1);
        memset(t, 0, sizeof(t));
        for (int k = 0; k < ACCS; k++)
            shared_acc[k] = red_start(k);
        for (unsigned i = 0; i < p->block; i++) {
            all[i] = true;
            t[i].tid[0] = i % p->shape[0];
            t[i].tid[1] = i / p->shape[0] % p->shape[1];
            t[i].tid[2] = i / p->shape[0] / p->shape[1];
            for (u32 k = 0; k < UREGS; k++) {
                t[i].u[k] = k * 3;
                t[i].u[UREGS + k] = p->once[k] < INDICES    ? index_of(p->once[k], t[i].tid)
                                    : p->once[k] == INDICES ? table_word(k)
                                                            : b * 5 + k;
            }
            for (int c = 0; c < NCLASS; c++)
                for (int r = 0; r < REGS; r++)
                    set(&t[i], CLASSES[c], r,
                        begin_of(CLASSES[c], r,
                                 in[((size_t)(b * p->block + i) * NCLASS + (size_t)c) * REGS + (size_t)r]));
        }
        cta = b;
        list(p->first, all, left, skip);
        for (unsigned i = 0; i < p->block; i++) {
            u64 *o = out + (size_t)(b * p->block + i) * WORDS_OUT;

            memcpy(o, t[i].r, sizeof(t[i].r));
            memcpy(o + NCLASS * REGS, t[i].slot, sizeof(t[i].slot));
        }
    }
}

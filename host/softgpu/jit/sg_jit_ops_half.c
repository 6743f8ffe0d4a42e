/* SPDX-License-Identifier: MIT */
/*
 * Native code of halves, and of 2^x. Halves are computed in f32 with a single rounding to half, as
 * in exec/ops/sg_op_half.c. NaN results are canonical. Only for operations without flags (SG_H_*); with
 * flags the handlers are called.
 */
#include "jit/ops.h"
#include "base/half.h"

#ifdef SG_JIT

static const struct vop VPORD = {M0F, P66, 0, 0xeb}, VPANDD = {M0F, P66, 0, 0xdb},
                        VPANDND = {M0F, P66, 0, 0xdf}, SHIFT_D = {M0F, P66, 0, 0x72},
                        BCAST_R32 = {M38, P66, 0, 0x7c}, CMPPS = {M0F, PNONE, 0, 0xc2},
                        MOVDW = {M38, PF3, 0, 0x33}, ZXWD = {M38, P66, 0, 0x33},
                        CVTPH2PS = {M38, P66, 0, 0x13}, MOVE = {M0F, P66, 0, 0x6f},
                        CVTPS2PH = {M3A, P66, 0, 0x1d}, EXTRACT4 = {M3A, P66, 1, 0x3b},
                        INSERT4 = {M3A, P66, 1, 0x3a};

/* The chunks of the result of in, once all of them are computed. */
static void bind_results(struct jit *j, const struct sg_insn *in, const u32 *d)
{
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        sg_jv_kill(j, in, 1u << h);
        sg_jv_bind(j, in->d, h, d[h]);
    }
    sg_jv_unpin(j);
}

/* The halves in the low words of the lanes of v, as f32. */
static void widen_half(struct jit *j, u32 to, u32 v)
{
    ev(B(j), MOVDW, v, 0, to, 0, 0);
    ev(B(j), CVTPH2PS, to, 0, to, 0, 0);
}

/* 16 of the 32 halves of v as f32, in the order of memory: the low and high words of 8 lanes alternate. */
static void widen_pairs(struct jit *j, u32 to, u32 v, bool upper)
{
    if (upper) {
        evi(B(j), EXTRACT4, v, 0, to, 0, 0, 1);
        v = to;
    }
    ev(B(j), CVTPH2PS, to, 0, v, 0, 0);
}

/* Rounds the f32 of register v to nearest: the low words of the lanes of register to, its canonical NaN as in PTX. Clobbers RAX, k1. */
static void narrow_half(struct jit *j, u32 to, u32 v)
{
    struct buf *b = B(j);

    evi(b, CMPPS, 1, v, v, 0, 0, 3); /* unordered */
    evi(b, CVTPS2PH, v, 0, 0, 0, 0, 0);
    ev(b, ZXWD, to, 0, 0, 0, 0);
    mov_imm64(b, RAX, 0x7fff);
    ev(b, BCAST_R32, to, 0, RAX, 1, 0);
}

/* Rounds to 16 halves in the order of memory: half of register to. Mask k becomes those that are NaN. */
static void narrow_pairs(struct jit *j, u32 to, u32 v, bool upper, u32 k)
{
    struct buf *b = B(j);

    evi(b, CMPPS, k, v, v, 0, 0, 3); /* unordered */
    evi(b, CVTPS2PH, v, 0, upper ? v : to, 0, 0, 0);
    if (upper)
        evi(b, INSERT4, to, to, v, 0, 0, 1);
}

/*
 * Makes NaN in the pairs d PTX's canonical NaN. Masks 1 and 2 (3 and 4 of chunk 1) are NaN in the lower and the upper half of a
 * chunk: rare, so that code for it is jumped over and nothing waits for the comparison.
 */
static void canonical_pairs(struct jit *j, const u32 *d)
{
    const u32 n = sg_jit_n(j, false);
    struct buf *x = B(j);
    size_t none;

    for (u32 h = 0; h < n; h++)
        KORW(x, 5 + h, 1 + 2 * h, 2 + 2 * h);
    vex(x, PNONE, 0, 0, 0x98, 5, 0, 4 + n); /* kortestw */
    none = fork_jcc(x, JE);
    sg_jit_broadcast(j, 2, 0xffff);
    sg_jit_broadcast(j, 3, 0x7fff7fff);
    for (u32 h = 0; h < n; h++) {
        for (u32 k = 0; k < 2; k++) {
            ev(x, VPANDD, k, 2, 2, 1 + 2 * h + k, EV_Z);
            ev(x, MOVDW, k, 0, k, 0, 0);
        }
        evi(x, INSERT4, 0, 0, 1, 0, 0, 1);
        ev(x, VPANDND, d[h], 0, d[h], 0, 0);
        ev(x, VPANDD, 0, 0, 3, 0, 0);
        ev(x, VPORD, d[h], d[h], 0, 0, 0);
    }
    sg_jit_join_at(j, none);
}

/*
 * Converts chunks a from f32 to f16 in the chunks d, which may be the same; b: if given, it becomes the low half. NaN, which
 * becomes PTX's canonical NaN, is rare: its code is jumped over, so that nothing waits for the comparison. Masks 1 and 2 (3 and
 * 4 of chunk 1): NaN in a, b.
 */
static void narrow_chunks(struct jit *j, const u32 *a, const u32 *b, const u32 *d)
{
    const u32 n = sg_jit_n(j, false), two = b != NULL;
    struct buf *x = B(j);
    size_t none;

    for (u32 h = 0; h < n; h++) {
        for (u32 k = 0; k <= two; k++) {
            const u32 from = k ? b[h] : a[h], to = k ? 1 : d[h];

            evi(x, CMPPS, 1 + 2 * h + k, from, from, 0, 0, 3); /* unordered */
            evi(x, CVTPS2PH, from, 0, 0, 0, 0, 0);
            ev(x, ZXWD, to, 0, 0, 0, 0);
        }
        if (two) {
            evi(x, SHIFT_D, 6, d[h], d[h], 0, 0, 16);
            ev(x, VPORD, d[h], d[h], 1, 0, 0);
            KORW(x, 5 + h, 1 + 2 * h, 2 + 2 * h);
        }
    }
    vex(x, PNONE, 0, 0, 0x98, two ? 5 : 1, 0, n == 1 ? (two ? 5 : 1) : two ? 6 : 3); /* kortestw */
    none = fork_jcc(x, JE);
    sg_jit_broadcast(j, 0, two ? 0x7fff0000u : 0x7fff);
    sg_jit_broadcast(j, 1, 0x7fff);
    sg_jit_broadcast(j, 2, 0xffff);
    for (u32 h = 0; h < n; h++) {
        if (!two)
            ev(x, VPORD, d[h], 0, 0, 1 + 2 * h, 0);
        for (u32 k = 0; k < 2 && two; k++) { /* keeps one half and replaces the other */
            ev(x, k ? VPANDND : VPANDD, d[h], 2, d[h], 1 + 2 * h + k, 0);
            ev(x, VPORD, d[h], d[h], k, 1 + 2 * h + k, 0);
        }
    }
    sg_jit_join_at(j, none);
}

/* cvt of f32 to f16; two: a pair, b becomes the low half */
static bool e_narrow(struct jit *j, const struct sg_insn *in, u32 two)
{
    u32 a[2], b[2], d[2];

    if (in->imm & ~(s64)SG_H_FTZ)
        return false;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        a[h] = sg_jv_get(j, in->a, h);
        b[h] = two ? sg_jv_get(j, in->b, h) : 0;
        d[h] = sg_jv_new(j);
    }
    narrow_chunks(j, a, two ? b : NULL, d);
    bind_results(j, in, d);
    return true;
}

/*
 * cvt of f64 to f16: in f64 already rounded to odd, to the 24 bits of f32, so that f32 is exact and the
 * rounding to half the only one. Values that are inexact in f32 are too large or too small for a half.
 */
static bool e_narrow_wide(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const struct vop PADDQ = {M0F, P66, 1, 0xd4}, PANDQ = {M0F, P66, 1, 0xdb},
                            PANDNQ = {M0F, P66, 1, 0xdf}, PORQ = {M0F, P66, 1, 0xeb},
                            CVTPD2PS = {M0F, P66, 1, 0x5a};
    struct buf *x = B(j);

    (void)arg;
    if (in->imm)
        return false;
    mov_imm64(x, RAX, (1u << 29) - 1); /* the bits of f64 that f32 does not have */
    ev(x, (struct vop){M38, P66, 1, 0x7c}, 7, 0, RAX, 0, 0);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        u32 d;

        for (u32 k = 0; k < 2; k++) {
            const u32 a = sg_jv_get(j, in->a, 2 * h + k), v = 1 + k;

            ev(x, PANDQ, v, a, 7, 0, 0);
            ev(x, PADDQ, v, v, 7, 0, 0); /* bit 29: some are set */
            ev(x, PORQ, v, v, a, 0, 0);
            ev(x, PANDNQ, v, 7, v, 0, 0);
            ev(x, CVTPD2PS, v, 0, v, 0, 0);
        }
        evi(x, INSERT4, 1, 1, 2, 0, 0, 1);
        d = sg_jv_new(j);
        narrow_half(j, d, 1);
        sg_jit_finish(j, in, h, 3u << (2 * h), d);
    }
    return true;
}

/* True if this instruction converts register `from`, whose value dies, to a half in register `to`. */
static bool narrows_half(const struct jit *j, const struct sg_insn *in, u32 from, u32 to)
{
    const struct jop *o = sg_jit_find(in->fn, NULL);

    return o && o->emit == e_narrow && !(o->arg & 1) && !(in->imm & ~(s64)SG_H_FTZ) && in->a == from &&
           in->d == to && (j->kill[in - j->code->insns] & F_A);
}

bool sg_jit_halves_follow(const struct jit *j, const struct sg_insn *in)
{
    const u32 i = j->cur, low = in->d, high = in->b;
    const struct sg_insn *x = in + 1, *pack = in + 3;

    if (j->masked || j->ahead_of || (in->aux & SG_AUX_SPIN) || low == high || i + 3 >= j->code->ninsns ||
        j->leader[i + 1] || j->leader[i + 2] || j->leader[i + 3] || (~j->kill[i + 3] & (F_A | F_B)) ||
        pack->a == pack->b || x[0].d == x[1].a || pack->fn != sg_op_fn(SG_OP_mov_pack_2x16))
        return false;
    return (narrows_half(j, &x[0], low, pack->a) && narrows_half(j, &x[1], high, pack->b)) ||
           (narrows_half(j, &x[0], high, pack->b) && narrows_half(j, &x[1], low, pack->a));
}

void sg_jit_halves_load(struct jit *j, const u32 *d, s32 disp)
{
    static const struct vop LOAD = {M0F, PF3, 1, 0x6f};

    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        for (u32 k = 0; k < 2; k++) {
            evm(B(j), LOAD, 0, 0, RAX, disp + (s32)(128 * h + 64 * k), 64, 0, 0);
            narrow_pairs(j, d[h], 0, k, 1 + 2 * h + k);
        }
    canonical_pairs(j, d);
}

void sg_jit_halves(struct jit *j, const u32 *high, const u32 *low)
{
    narrow_chunks(j, high, low, high);
}

#define PAIR (1u << 16)

/* Pairs, on processors with half-precision arithmetic: the same result, except for NaN, which is
   treated as in e_narrow(). op 0: fma. */
static void half_direct(struct jit *j, const struct sg_insn *in, u32 op)
{
    static const struct vop FMA231 = {6, P66, 0, 0xb8};
    const u32 n = sg_jit_n(j, false);
    struct buf *x = B(j);
    size_t none;
    u32 d[2];

    for (u32 h = 0; h < n; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h);
        const u32 c = op ? 0 : sg_jv_get(j, in->c, h);

        d[h] = sg_jv_new(j);
        if (op) {
            ev(x, (struct vop){5, PNONE, 0, (u8)op}, d[h], a, b, 0, 0);
        } else {
            ev(x, MOVE, d[h], 0, c, 0, 0);
            ev(x, FMA231, d[h], a, b, 0, 0);
        }
        evi(x, (struct vop){M3A, PNONE, 0, 0xc2}, 1 + h, d[h], d[h], 0, 0, 3); /* vcmpph: unordered */
    }
    vex(x, P66, 0, 1, 0x98, 1, 0, n); /* kortestd */
    none = fork_jcc(x, JE);
    sg_jit_broadcast(j, 0, 0x7fff7fffu);
    for (u32 h = 0; h < n; h++)
        ev(x, (struct vop){M38, P66, 1, 0x66}, d[h], d[h], 0, 1 + h, 0); /* vpblendmw */
    sg_jit_join_at(j, none);
    bind_results(j, in, d);
}

static bool e_half(struct jit *j, const struct sg_insn *in, u32 arg);

/* True if the next instruction adds the product of in, which nothing else reads. */
static bool added_next(const struct jit *j, const struct sg_insn *in)
{
    const u32 i = j->cur + 1;
    const struct sg_insn *x = in + 1;
    const struct jop *o;

    if (i >= j->code->ninsns || j->leader[i] || x->a == x->b || x->imm)
        return false;
    o = sg_jit_find(x->fn, NULL);
    return o && o->emit == e_half && o->arg == (ARG(M0F, PNONE, 0, 0x58) | PAIR) &&
           ((x->a == in->d && (j->kill[i] & F_A)) || (x->b == in->d && (j->kill[i] & F_B)));
}

/*
 * mul and the add that follows: the product is rounded where it is. Its NaN, which is not made canonical, makes a NaN of the
 * sum.
 */
static bool mul_add(struct jit *j, const struct sg_insn *in)
{
    static const struct vop ADD = {M0F, PNONE, 0, 0x58}, MUL = {M0F, PNONE, 0, 0x59};
    const u32 n = sg_jit_n(j, false), other = in[1].a == in->d ? in[1].b : in[1].a;
    struct buf *x = B(j);
    u32 d[2];

    for (u32 h = 0; h < n; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, other, h);

        d[h] = sg_jv_new(j);
        for (u32 k = 0; k < 2; k++) {
            widen_pairs(j, 0, a, k);
            widen_pairs(j, 1, b, k);
            ev(x, MUL, 0, 0, 1, 0, 0);
            widen_pairs(j, 1, c, k);
            evi(x, CVTPS2PH, 0, 0, 0, 0, 0, 0);
            ev(x, CVTPH2PS, 0, 0, 0, 0, 0);
            ev(x, ADD, 0, 0, 1, 0, 0);
            narrow_pairs(j, d[h], 0, k, 1 + 2 * h + k);
        }
    }
    canonical_pairs(j, d);
    sg_jv_kill(j, in, (1u << n) - 1);
    sg_jv_lose(j, in->d);
    j->skip = 1;
    j->cur++;
    bind_results(j, in + 1, d);
    return true;
}

static bool half_pairs(struct jit *j, const struct sg_insn *in, u32 arg)
{
    u32 d[2];

    if (arg == (ARG(M0F, PNONE, 0, 0x59) | PAIR) && added_next(j, in))
        return mul_add(j, in);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h);

        d[h] = sg_jv_new(j);
        for (u32 k = 0; k < 2; k++) {
            widen_pairs(j, 0, a, k);
            widen_pairs(j, 1, b, k);
            ev(B(j), sg_vop_of(arg), 0, 0, 1, 0, 0);
            narrow_pairs(j, d[h], 0, k, 1 + 2 * h + k);
        }
    }
    canonical_pairs(j, d);
    bind_results(j, in, d);
    return true;
}

/* add, sub, mul of halves or (PAIR) of two in each register */
static bool e_half(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *x = B(j);

    if (in->imm)
        return false;
    if ((arg & PAIR) && j->fp16) {
        half_direct(j, in, arg & 255);
        return true;
    }
    if (arg & PAIR)
        return half_pairs(j, in, arg);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        widen_half(j, 1, a);
        widen_half(j, 2, b);
        ev(x, sg_vop_of(arg), 1, 1, 2, 0, 0);
        narrow_half(j, d, 1);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/*
 * fma of the halves in registers 1, 2 and 3, as f32, into 4: the sum is rounded to odd, so that the rounding to half is the
 * only one; as fma_f16_odd() of exec/ops/sg_op_half.c. No step overflows or involves a denormal. Rounded down and up, an inexact sum
 * gives neighbours, of which one is odd; 0 is then rounded up, as to nearest. Clobbers mask 7. Register 7 is 1.
 */
static void fma_odd(struct jit *j)
{
    static const struct vop FMA231 = {M38, P66, 0, 0xb8}, TESTM = {M38, P66, 0, 0x27};
    struct buf *x = B(j);

    ev(x, MOVE, 4, 0, 3, 0, 0);
    ev(x, FMA231, 3, 1, 2, 0, EV_ROUND(1));
    ev(x, FMA231, 4, 1, 2, 0, EV_ROUND(2));
    ev(x, TESTM, 7, 3, 7, 0, 0);
    ev(x, MOVE, 4, 0, 3, 7, 0);
}

/*
 * The same without rounding in the instruction: the product is exact in f32, and the lost part of the sum tells how to round
 * (Knuth's two-sum). Register 6 is 0, 7 is 1; clobbers 5 and mask 7.
 */
static void fma_odd_avx2(struct jit *j)
{
    static const struct vop ADD = {M0F, PNONE, 0, 0x58}, SUB = {M0F, PNONE, 0, 0x5c},
                            MUL = {M0F, PNONE, 0, 0x59}, PADD = {M0F, P66, 0, 0xfe},
                            PXOR = {M0F, P66, 0, 0xef};
    struct buf *x = B(j);

    ev(x, MUL, 1, 1, 2, 0, 0);
    ev(x, ADD, 4, 1, 3, 0, 0); /* the sum */
    ev(x, SUB, 5, 4, 1, 0, 0);
    ev(x, SUB, 2, 4, 5, 0, 0);
    ev(x, SUB, 1, 1, 2, 0, 0);
    ev(x, SUB, 3, 3, 5, 0, 0);
    ev(x, ADD, 1, 1, 3, 0, 0);        /* the lost part: 0, or NaN if the sum is not finite */
    evi(x, CMPPS, 7, 1, 6, 0, 0, 12); /* ordered and not equal to register 6 */
    ev(x, PXOR, 1, 1, 4, 0, 0);
    evi(x, SHIFT_D, 4, 1, 1, 0, 0, 31); /* -1: the sum is too far from 0 */
    ev(x, PADD, 4, 4, 1, 7, 0);
    ev(x, VPORD, 4, 4, 7, 7, 0);
}

static bool e_fma_half(struct jit *j, const struct sg_insn *in, u32 pair)
{
    struct buf *x = B(j);
    void (*const odd)(struct jit *) = x->avx2 ? fma_odd_avx2 : fma_odd;
    u32 r[2];

    if (in->imm)
        return false;
    if (pair && j->fp16) {
        half_direct(j, in, 0);
        return true;
    }
    ev(x, (struct vop){M0F, P66, 0, 0xef}, 6, 6, 6, 0, 0); /* 0 */
    sg_jit_broadcast(j, 7, 1);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, in->c, h),
                  d = sg_jv_new(j);

        r[h] = d;
        for (u32 k = 0; k < 2 && pair; k++) {
            widen_pairs(j, 1, a, k);
            widen_pairs(j, 2, b, k);
            widen_pairs(j, 3, c, k);
            odd(j);
            narrow_pairs(j, d, 4, k, 1 + 2 * h + k);
        }
        if (pair)
            continue;
        widen_half(j, 1, a);
        widen_half(j, 2, b);
        widen_half(j, 3, c);
        odd(j);
        narrow_half(j, d, 4);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    if (pair) {
        canonical_pairs(j, r);
        bind_results(j, in, r);
    }
    return true;
}

/* ---- ex2: ex2_ptx() of exec/ops/sg_op_float.c, step by step ---- */

enum { C_MAX, C_MIN, C_MAGIC, C_P7, C_P0 = C_P7 + 7, C_BIAS };
static const union {
    float f;
    u32 u;
} ex2_const[] = {{200.0f},         {-200.0f},        {12582912.0f},    {1.52527338e-5f},
                 {1.54035304e-4f}, {1.33335581e-3f}, {9.61812911e-3f}, {5.55041087e-2f},
                 {2.40226507e-1f}, {6.93147181e-1f}, {1.0f},           {.u = 127}};

static bool e_ex2(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const struct vop ADD = {M0F, PNONE, 0, 0x58}, SUB = {M0F, PNONE, 0, 0x5c},
                            MUL = {M0F, PNONE, 0, 0x59}, MIN = {M0F, PNONE, 0, 0x5d},
                            MAX = {M0F, PNONE, 0, 0x5f}, TO_INT = {M0F, PF3, 0, 0x5b},
                            PADD = {M0F, P66, 0, 0xfe}, PSUB = {M0F, P66, 0, 0xfa},
                            BCAST = {M38, P66, 0, 0x58}, BLEND = {M38, P66, 0, 0x64};
    struct buf *b = B(j);

    (void)arg;
    mov_imm64(b, RSI, (u64)(uintptr_t)ex2_const);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        /* 0: x, within bounds or NaN; 1: n; 2: f; d: p; the constant is the first operand: NaN
           stays */
        evm(b, BCAST, 1, 0, RSI, 4 * C_MAX, 4, 0, 0);
        ev(b, MIN, 0, 1, a, 0, 0);
        evm(b, BCAST, 1, 0, RSI, 4 * C_MIN, 4, 0, 0);
        ev(b, MAX, 0, 1, 0, 0, 0);
        evm(b, ADD, 1, 0, RSI, 4 * C_MAGIC, 4, 0, EV_B);
        evm(b, SUB, 1, 1, RSI, 4 * C_MAGIC, 4, 0, EV_B);
        ev(b, SUB, 2, 0, 1, 0, 0);
        ev(b, TO_INT, 1, 0, 1, 0, 0);
        evm(b, BCAST, d, 0, RSI, 4 * C_P7, 4, 0, 0);
        for (u32 k = C_P7 + 1; k <= C_P0; k++) {
            ev(b, MUL, d, d, 2, 0, 0);
            evm(b, ADD, d, d, RSI, (s32)(4 * k), 4, 0, EV_B);
        }
        evi(b, SHIFT_D, 4, 0, 1, 0, 0, 1); /* half of n, towards minus infinity */
        ev(b, PSUB, 1, 1, 0, 0, 0);
        for (u32 k = 0; k < 2; k++) {
            evm(b, PADD, k, k, RSI, 4 * C_BIAS, 4, 0, EV_B);
            evi(b, SHIFT_D, 6, k, k, 0, 0, 23);
            ev(b, MUL, d, d, k, 0, 0);
        }
        evi(b, CMPPS, 1, a, a, 0, 0, 3);
        ev(b, BLEND, d, d, a, 1, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

NATIVE(ex2_f32, e_ex2, MODAL);
NATIVE(cvt_f16_f32, e_narrow, 0 | NO_MODE);
NATIVE(cvt_f16x2_f32, e_narrow, 1 | NO_MODE);
NATIVE(cvt_f16_f64, e_narrow_wide, 0 | NO_MODE);
NATIVE(add_f16, e_half, ARG(M0F, PNONE, 0, 0x58));
NATIVE(sub_f16, e_half, ARG(M0F, PNONE, 0, 0x5c));
NATIVE(mul_f16, e_half, ARG(M0F, PNONE, 0, 0x59));
NATIVE(add_f16x2, e_half, ARG(M0F, PNONE, 0, 0x58) | PAIR);
NATIVE(sub_f16x2, e_half, ARG(M0F, PNONE, 0, 0x5c) | PAIR);
NATIVE(fma_f16, e_fma_half, 0);
NATIVE(fma_f16x2, e_fma_half, 1);
NATIVE(mul_f16x2, e_half, ARG(M0F, PNONE, 0, 0x59) | PAIR);

#endif

/* SPDX-License-Identifier: MIT */
/* Native lg2, sin and cos of f32: lg2_ptx() and trig_ptx() of exec/ops/sg_op_float.c, step by step. */
#include "base/trig.h"
#include "jit/memory/memory_ops.h"
#include "jit/ops.h"

#include <string.h>

#ifdef SG_JIT

static const struct vop ADDS = {M0F, PNONE, 0, 0x58}, SUBS = {M0F, PNONE, 0, 0x5c},
                        MULS = {M0F, PNONE, 0, 0x59}, DIVS = {M0F, PNONE, 0, 0x5e},
                        ADDD = {M0F, P66, 1, 0x58}, SUBD = {M0F, P66, 1, 0x5c}, MULD = {M0F, P66, 1, 0x59},
                        CMPPS = {M0F, PNONE, 0, 0xc2}, CVTDQ2PS = {M0F, PNONE, 0, 0x5b},
                        CVTPS2PD = {M0F, PNONE, 0, 0x5a}, CVTPD2PS = {M0F, P66, 1, 0x5a},
                        VPANDD = {M0F, P66, 0, 0xdb}, VPXORQ = {M0F, P66, 1, 0xef},
                        BLEND_D = {M38, P66, 0, 0x64}, BLEND_Q = {M38, P66, 1, 0x64};

/* ---- lg2 ---- */

enum { L_DENORMAL, L_UP, L_ROOT, L_FRACTION, L_24, L_1, L_P9, L_INF = L_P9 + 5, L_0, L_NAN, L_MINUS_INF };
static const union {
    float f;
    u32 u;
} lg2_const[] = {{.u = 0x00800000},
                 {16777216.0f},
                 {.u = 0x3f3504f3},
                 {.u = 0x007fffff},
                 {24.0f},
                 {1.0f},
                 {0.320598898f},
                 {0.412198583f},
                 {0.577078016f},
                 {0.961796694f},
                 {2.88539008f},
                 {.u = 0x7f800000},
                 {0.0f},
                 {.u = 0x7fffffff},
                 {.u = 0xff800000}};

/* An instruction with constant c for every lane. */
static void lg2_with(struct jit *j, struct vop o, u32 reg, u32 v, u32 c, u32 k)
{
    evm(B(j), o, reg, v, RSI, (s32)(4 * c), 4, k, EV_B);
}

static void lg2_compare(struct jit *j, u32 mask, u32 a, struct vop o, u32 c, u32 how)
{
    evmi(B(j), o, mask, a, RSI, (s32)(4 * c), 4, 0, EV_B, how);
}

/* Sets register d to constant c in lanes where register a compares this way with constant
   `with`. Clobbers k2. */
static void lg2_case(struct jit *j, u32 d, u32 a, u32 with, u32 how, u32 c)
{
    lg2_compare(j, 2, a, CMPPS, with, how);
    evm(B(j), BCAST_M32, d, 0, RSI, (s32)(4 * c), 4, 2, 0);
}

/* Register 2: the exponent. Register 0: the fraction, between the roots of 0.5 and 2. */
static void lg2_split(struct jit *j, u32 a)
{
    struct buf *b = B(j);

    lg2_compare(j, 1, a, CMPUD, L_DENORMAL, 1); /* below */
    ev(b, VMOV, 0, 0, a, 0, 0);
    lg2_with(j, MULS, 0, a, L_UP, 1);
    lg2_with(j, VPSUBD, 0, 0, L_ROOT, 0);
    evi(b, SHIFT_D, 4, 1, 0, 0, 0, 23);
    ev(b, CVTDQ2PS, 2, 0, 1, 0, 0);
    lg2_with(j, SUBS, 2, 2, L_24, 1);
    lg2_with(j, VPANDD, 0, 0, L_FRACTION, 0);
    lg2_with(j, VPADDD, 0, 0, L_ROOT, 0);
}

static bool e_lg2(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *b = B(j);

    (void)arg;
    mov_imm64(b, RSI, (u64)(uintptr_t)lg2_const);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        lg2_split(j, a);
        lg2_with(j, SUBS, 1, 0, L_1, 0);
        lg2_with(j, ADDS, 0, 0, L_1, 0);
        ev(b, DIVS, 1, 1, 0, 0, 0);
        ev(b, MULS, 0, 1, 1, 0, 0);
        evm(b, BCAST_M32, d, 0, RSI, 4 * L_P9, 4, 0, 0);
        for (u32 k = L_P9 + 1; k < L_INF; k++) {
            ev(b, MULS, d, d, 0, 0, 0);
            lg2_with(j, ADDS, d, d, k, 0);
        }
        ev(b, MULS, d, d, 1, 0, 0);
        ev(b, ADDS, d, d, 2, 0, 0);
        lg2_case(j, d, a, L_INF, 0, L_INF); /* equal */
        evi(b, CMPPS, 3, a, a, 0, 0, 3);    /* unordered */
        ev(b, BLEND_D, d, d, a, 3, 0);
        lg2_case(j, d, a, L_0, 0x11, L_NAN); /* less */
        lg2_case(j, d, a, L_0, 0, L_MINUS_INF);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* ---- sin and cos ---- */

enum { T_PER_QUARTER, T_MAGIC, T_QUARTER, T_REST, T_1, T_SIN, T_COS = T_SIN + 5, T_BIT = T_COS + 5 };
static const union {
    double f;
    u64 u;
} trig_const[] = {
    {SG_TRIG_PER_QUARTER}, {0x1.8p52},   {SG_TRIG_QUARTER}, {SG_TRIG_REST}, {1.0},         {SG_TRIG_S11},
    {SG_TRIG_S9},          {SG_TRIG_S7}, {SG_TRIG_S5},      {SG_TRIG_S3},   {SG_TRIG_C10}, {SG_TRIG_C8},
    {SG_TRIG_C6},          {SG_TRIG_C4}, {SG_TRIG_C2},      {.u = 1}};

static void trig_with(struct jit *j, struct vop o, u32 reg, u32 v, u32 c)
{
    evm(B(j), o, reg, v, RSI, (s32)(8 * c), 8, 0, EV_B);
}

/* Register 3: the square of the distance of x to the nearest multiple of a quarter, which is register 0; register 1: the number
   of the quarter, in its low bits. Clobbers register 2. */
static void trig_reduce(struct jit *j, u32 x)
{
    struct buf *b = B(j);

    ev(b, CVTPS2PD, 0, 0, x, 0, 0);
    trig_with(j, MULD, 1, 0, T_PER_QUARTER);
    trig_with(j, ADDD, 1, 1, T_MAGIC);
    trig_with(j, SUBD, 2, 1, T_MAGIC);
    trig_with(j, MULD, 3, 2, T_QUARTER);
    ev(b, SUBD, 0, 0, 3, 0, 0);
    trig_with(j, MULD, 3, 2, T_REST);
    ev(b, SUBD, 0, 0, 3, 0, 0);
    ev(b, MULD, 3, 0, 0, 0, 0);
}

/* Register v with the sign of quarter 1: to f32. Clobbers register 0. */
static void trig_sign(struct jit *j, u32 d, u32 v)
{
    evi(B(j), SHIFT_Q, 2, 0, 1, 0, 0, 1);
    evi(B(j), SHIFT_Q, 6, 0, 0, 0, 0, 63);
    ev(B(j), VPXORQ, v, v, 0, 0, 0);
    ev(B(j), CVTPD2PS, d, 0, v, 0, 0);
}

/* Computes sin and cos of 8 lanes of f32 in register x, which may be 0. Clobbers registers 0 to 5. */
static void trig_sincos(struct jit *j, u32 sine, u32 cosine, u32 x)
{
    struct buf *b = B(j);

    trig_reduce(j, x);
    for (u32 k = 0; k < 5; k++)
        for (u32 c = 0; c < 2; c++) {
            trig_with(j, k ? ADDD : MULD, 4 + c, k ? 4 + c : 3, (c ? T_COS : T_SIN) + k);
            if (k)
                ev(b, MULD, 4 + c, 4 + c, 3, 0, 0);
        }
    trig_with(j, ADDD, 4, 4, T_1);
    trig_with(j, ADDD, 5, 5, T_1);
    ev(b, MULD, 4, 4, 0, 0, 0);
    trig_with(j, TESTMQ, 1, 1, T_BIT);
    ev(b, BLEND_Q, 2, 4, 5, 1, 0);
    ev(b, BLEND_Q, 3, 5, 4, 1, 0);
    trig_sign(j, sine, 2);
    trig_with(j, VPADDQ, 1, 1, T_BIT);
    trig_sign(j, cosine, 3);
}

/* Register v: coefficient k of cos in the lanes of mask 1, of sin in the others. */
static void trig_term(struct jit *j, u32 v, u32 k)
{
    evm(B(j), BCAST_M64, v, 0, RSI, (s32)(8 * (T_SIN + k)), 8, 0, 0);
    evm(B(j), BCAST_M64, v, 0, RSI, (s32)(8 * (T_COS + k)), 8, 1, 0);
}

/* Computes 8 lanes of f32 from register x, which may be 0, into register d as f32. Clobbers
   registers 0 to 5. */
static void trig_part(struct jit *j, u32 d, u32 x, u32 cosine)
{
    struct buf *b = B(j);

    trig_reduce(j, x);
    if (cosine)
        trig_with(j, VPADDQ, 1, 1, T_BIT);
    trig_with(j, TESTMQ, 1, 1, T_BIT);
    trig_with(j, TESTNMQ, 2, 1, T_BIT);
    trig_term(j, 4, 0);
    for (u32 k = 1; k < 5; k++) {
        ev(b, MULD, 4, 4, 3, 0, 0);
        trig_term(j, 5, k);
        ev(b, ADDD, 4, 4, 5, 0, 0);
    }
    ev(b, MULD, 4, 4, 3, 0, 0);
    trig_with(j, ADDD, 4, 4, T_1);
    ev(b, MULD, 4, 4, 0, 2, 0);
    evi(b, SHIFT_Q, 2, 1, 1, 0, 0, 1);
    evi(b, SHIFT_Q, 6, 1, 1, 0, 0, 63);
    ev(b, VPXORQ, 4, 4, 1, 0, 0);
    ev(b, CVTPD2PS, d, 0, 4, 0, 0);
}

#define PARTNER_WITHIN 8u

/* The other function (sin or cos) of the same value, which follows in the same mode. NO_KEY: none. The
   values of missing lanes may be within native code's range at one of the two only. */
static u32 trig_find_partner(const struct jit *j, const struct sg_insn *in, u32 cosine)
{
    const struct sg_code *c = j->code;
    const u32 last = j->cur + PARTNER_WITHIN < c->ninsns ? j->cur + PARTNER_WITHIN : c->ninsns - 1;
    bool pure = true;

    if (j->masked || j->leader[j->cur] == 2 || sg_jit_writes(j, j->cur, in->a))
        return NO_KEY;
    for (u32 i = j->cur + 1; i <= last && !j->leader[i] && pure; i++) {
        const struct sg_insn *x = &c->insns[i];

        if (x->a == in->a && sg_op_of(x->fn) == (cosine ? SG_OP_sin_f32 : SG_OP_cos_f32))
            return sg_jit_flat(j, x->d) ? NO_KEY : i;
        if (!sg_jit_find(x->fn, &pure) || sg_jit_writes(j, i, in->a))
            return NO_KEY;
    }
    return NO_KEY;
}

/* Remembers that the value of instruction i is computed now. Returns false if there is no place for it. */
static bool trig_expect(struct jit *j, u32 i)
{
    if (i == NO_KEY || (!j->sincos_at && j->native_bytes + 128 > SG_NATIVE_BYTES))
        return false;
    if (!j->sincos_at) {
        j->native_bytes += 128;
        j->sincos_at = -(s32)j->native_bytes;
    }
    j->sincos = i;
    return true;
}

/* The lanes of chunk h, in register a: register d; at j->sincos_at: those of the other function. */
static void trig_pair(struct jit *j, u32 d, u32 a, u32 h, u32 cosine)
{
    const u32 other = sg_jv_new(j);
    struct buf *b = B(j);

    trig_sincos(j, cosine ? other : d, cosine ? d : other, a);
    evi(b, EXTRACT4, a, 0, 0, 0, 0, 1);
    trig_sincos(j, cosine ? 7 : 6, cosine ? 6 : 7, 0);
    evi(b, INSERT4, d, d, 6, 0, 0, 1);
    evi(b, INSERT4, other, other, 7, 0, 0, 1);
    evm(b, VMOVU_STORE, other, 0, G_REGS, j->sincos_at + (s32)(64 * h), 64, 0, 0);
}

static void trig_alone(struct jit *j, u32 d, u32 a, u32 cosine)
{
    trig_part(j, d, a, cosine);
    evi(B(j), EXTRACT4, a, 0, 0, 0, 0, 1);
    trig_part(j, 6, 0, cosine);
    evi(B(j), INSERT4, d, d, 6, 0, 0, 1);
}

/* The handler calls libm for lanes beyond its range. */
static bool e_trig(struct jit *j, const struct sg_insn *in, u32 cosine)
{
    const u32 n = sg_jit_n(j, false);
    const bool known = j->sincos == j->cur;
    struct buf *b = B(j);
    struct stub *s;
    bool pair;
    u32 a[2];

    if (j->ahead_of || sg_jit_flat(j, in->d))
        return false;
    pair = !known && trig_expect(j, trig_find_partner(j, in, cosine));
    if (b->avx2 && !known && !pair) /* alone it is no faster than the handler */
        return false;
    for (u32 h = 0; h < n; h++)
        a[h] = sg_jv_get(j, in->a, h);
    s = sg_jit_stub(j);
    sg_jit_broadcast(j, 0, 0x7fffffffu);
    sg_jit_broadcast(j, 1, SG_TRIG_END);
    for (u32 h = 0; h < n; h++) {
        ev(b, VPANDD, 2, a[h], 0, 0, 0);
        evi(b, CMPUD, 1 + h, 2, 1, 0, 0, 5); /* not below */
    }
    vex(b, PNONE, 0, 0, 0x98, 1, 0, n); /* kortestw */
    sg_jit_slow(j, s, JNE);
    mov_imm64(b, RSI, (u64)(uintptr_t)trig_const);
    for (u32 h = 0; h < n; h++) {
        const u32 d = sg_jv_new(j);

        if (known)
            evm(b, VMOVU, d, 0, G_REGS, j->sincos_at + (s32)(64 * h), 64, 0, 0);
        else if (pair)
            trig_pair(j, d, a[h], h, cosine);
        else
            trig_alone(j, d, a[h], cosine);
        sg_jv_kill(j, in, 1u << h);
        sg_jv_bind(j, in->d, h, d);
    }
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

NATIVE(lg2_f32, e_lg2, MODAL);
NATIVE(sin_f32, e_trig, 0 | MODAL);
NATIVE(cos_f32, e_trig, 1 | MODAL);

#endif

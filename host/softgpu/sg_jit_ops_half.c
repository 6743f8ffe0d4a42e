/* SPDX-License-Identifier: MIT */
/*
 * Native code of halves: f32 computes, one rounding gives the half, as sg_exec_ops_half.c does it. A NaN
 * becomes the one of PTX. Only without flags (SG_H_*); with them the handlers are called.
 */
#include "sg_jit_ops.h"
#include "sg_half.h"

#ifdef SG_JIT

static const struct vop VPORD = {M0F, P66, 0, 0xeb}, SHIFT_D = {M0F, P66, 0, 0x72},
                        BCAST_R32 = {M38, P66, 0, 0x7c}, CMPPS = {M0F, PNONE, 0, 0xc2},
                        MOVDW = {M38, PF3, 0, 0x33}, ZXWD = {M38, P66, 0, 0x33},
                        CVTPH2PS = {M38, P66, 0, 0x13}, CVTPS2PH = {M3A, P66, 0, 0x1d};

/* The low or (high) upper halves of the 32-bit lanes of v as f32: register to. */
static void widen(struct jit *j, u32 to, u32 v, bool high)
{
    struct buf *b = B(j);

    if (high) {
        ev(b, SHIFT_D, 2, to, v, 0, 0);
        put8(b, 16);
        v = to;
    }
    ev(b, MOVDW, v, 0, to, 0, 0);
    ev(b, CVTPH2PS, to, 0, to, 0, 0);
}

/* f32 of register v, rounded to nearest, in the low half of the lanes of register to. Uses RAX, k1. */
static void narrow(struct jit *j, u32 to, u32 v)
{
    struct buf *b = B(j);

    ev(b, CMPPS, 1, v, v, 0, 0);
    put8(b, 3); /* unordered */
    ev(b, CVTPS2PH, v, 0, 0, 0, 0);
    put8(b, 0);
    ev(b, ZXWD, to, 0, 0, 0, 0);
    mov_imm64(b, RAX, 0x7fff);
    ev(b, BCAST_R32, to, 0, RAX, 1, 0);
}

/* a of f32 to f16; arg 1: and b, which is the low half */
static bool e_narrow(struct jit *j, const struct sg_insn *in, u32 two)
{
    if (in->imm & ~(s64)SG_H_FTZ)
        return false;
    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = two ? sg_jv_get(j, in->b, h) : 0, d = sg_jv_new(j);

        narrow(j, d, a);
        if (two) {
            ev(B(j), SHIFT_D, 6, d, d, 0, 0);
            put8(B(j), 16);
            narrow(j, 1, b);
            ev(B(j), VPORD, d, d, 1, 0, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

#define PAIR (1u << 16)

/* Pairs, where the processor computes with halves itself: the same, but for NaN. */
static void half_direct(struct jit *j, const struct sg_insn *in, u32 op)
{
    struct buf *x = B(j);

    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        ev(x, (struct vop){5, PNONE, 0, (u8)op}, d, a, b, 0, 0);
        ev(x, (struct vop){M3A, PNONE, 0, 0xc2}, 1, d, d, 0, 0); /* vcmpph */
        put8(x, 3);                                              /* unordered */
        sg_jit_broadcast(j, 0, 0x7fff7fffu);
        ev(x, (struct vop){M38, P66, 1, 0x66}, d, d, 0, 1, 0); /* vpblendmw */
        sg_jit_finish(j, in, h, 1u << h, d);
    }
}

/* add, sub, mul of halves or (PAIR) of two in each register */
static bool e_half(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *x = B(j);

    if (in->imm)
        return false;
    if ((arg & PAIR) && __builtin_cpu_supports("avx512fp16")) {
        half_direct(j, in, arg & 255);
        return true;
    }
    for (u32 h = 0; h < 2; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        for (u32 k = 0; k < (arg & PAIR ? 2u : 1u); k++) {
            widen(j, 1, a, k);
            widen(j, 2, b, k);
            ev(x, sg_vop_of(arg), 1, 1, 2, 0, 0);
            narrow(j, k ? 1 : d, 1);
        }
        if (arg & PAIR) {
            ev(x, SHIFT_D, 6, 1, 1, 0, 0);
            put8(x, 16);
            ev(x, VPORD, d, d, 1, 0, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

const struct jop sg_jit_ops_half[] = {
    {"cvt.f16.f32", e_narrow, 0 | NO_MODE},
    {"cvt.f16x2.f32", e_narrow, 1 | NO_MODE},
    {"add.f16", e_half, ARG(M0F, PNONE, 0, 0x58)},
    {"sub.f16", e_half, ARG(M0F, PNONE, 0, 0x5c)},
    {"mul.f16", e_half, ARG(M0F, PNONE, 0, 0x59)},
    {"add.f16x2", e_half, ARG(M0F, PNONE, 0, 0x58) | PAIR},
    {"sub.f16x2", e_half, ARG(M0F, PNONE, 0, 0x5c) | PAIR},
    {"mul.f16x2", e_half, ARG(M0F, PNONE, 0, 0x59) | PAIR},
    {NULL, NULL, 0},
};

#endif

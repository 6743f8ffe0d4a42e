/* SPDX-License-Identifier: MIT */
/*
 * Native code of f32: reciprocals, roundings, conversions from and to integers; like jit/sg_jit_ops.c. NaN
 * results match the handlers except for the payload ("canon.f32", ptx/sg_ptx_canonical.c).
 */
#include "jit/ops.h"

#ifdef SG_JIT

static const struct vop DIV = {M0F, PNONE, 0, 0x5e}, SQRT = {M0F, PNONE, 0, 0x51},
                        MAX = {M0F, PNONE, 0, 0x5f}, MIN = {M0F, PNONE, 0, 0x5d},
                        VPXORD = {M0F, P66, 0, 0xef}, RNDSCALE = {M3A, P66, 0, 0x08},
                        CMPPS = {M0F, PNONE, 0, 0xc2}, TO_S32 = {M0F, PF3, 0, 0x5b},
                        TO_U32 = {M0F, PNONE, 0, 0x78}, FROM_S32 = {M0F, PNONE, 0, 0x5b},
                        SHIFT_D = {M0F, P66, 0, 0x72}, MOV32 = {M0F, P66, 0, 0x6f},
                        BLEND_D = {M38, P66, 0, 0x64}, TERNLOGD = {M3A, P66, 0, 0x25};

/* 1 / a, or (root) 1 / sqrt(a), each rounded */
static bool e_rcp(struct jit *j, const struct sg_insn *in, u32 root)
{
    sg_jit_broadcast(j, 0, 0x3f800000u);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        u32 a = sg_jv_get(j, in->a, h);
        const u32 d = sg_jv_new(j);

        if (root) {
            ev(B(j), SQRT, d, 0, a, 0, j->round);
            a = d;
        }
        ev(B(j), DIV, d, 0, a, 0, j->round);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* Rounds to an integer; arg: the instruction's immediate byte, without the flag of an inexact
   result. */
static bool e_round(struct jit *j, const struct sg_insn *in, u32 arg)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        evi(B(j), RNDSCALE, d, 0, a, 0, 0, arg);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/*
 * to_s32() of exec/ops/sg_op_float.c: the processor returns INT32_MIN for values that are too small, and
 * also for values that are too large and for NaN, which must become INT32_MAX and 0. arg as for
 * e_round().
 */
static bool e_to_s32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *b = B(j);

    sg_jit_broadcast(j, 0, 0x4f000000u); /* 2^31 */
    sg_jit_broadcast(j, 1, 0x7fffffffu);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        evi(b, RNDSCALE, 2, 0, a, 0, 0, arg);
        evi(b, CMPPS, 1, 2, 0, 0, 0, 0x1d); /* not below */
        evi(b, CMPPS, 2, 2, 2, 0, 0, 7);    /* a number */
        ev(b, TO_S32, 2, 0, 2, 0, 0);
        ev(b, BLEND_D, 2, 2, 1, 1, 0);
        ev(b, MOV32, d, 0, 2, 2, EV_Z);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* to_u32() of exec/ops/sg_op_float.c: the processor returns UINT32_MAX for values that are too large;
   NaN is the first operand of max. */
static bool e_to_u32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    ev(B(j), VPXORD, 0, 0, 0, 0, 0);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), MAX, 1, a, 0, 0, 0);
        ev(B(j), TO_U32, d, 0, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* From the low 8 or 16 bits; arg: their number, bit 8: signed. */
static bool e_from_small(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 up = 32 - (arg & 255);

    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        evi(B(j), SHIFT_D, 6, 1, a, 0, 0, up);
        evi(B(j), SHIFT_D, arg & 256 ? 4 : 2, 1, 1, 0, 0, up);
        ev(B(j), FROM_S32, d, 0, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_wide_from_s32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const struct vop EXTRACT4 = {M3A, P66, 1, 0x3b}, CVTDQ2PD = {M0F, PF3, 0, 0xe6};

    (void)arg;
    for (u32 h = 0; h < sg_jit_chunks(j, in, true); h++) {
        const u32 a = sg_jv_get(j, in->a, h >> 1), d = sg_jv_new(j);
        const bool upper = (h & 1) && !sg_jit_flat(j, in->a);

        if (upper)
            evi(B(j), EXTRACT4, a, 0, 0, 0, 0, 1);
        ev(B(j), CVTDQ2PD, d, 0, upper ? 0 : a, 0, 0);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

/* Clamps to [0, 1]. NaN and -0 are the first operand of max, which then returns the second
   operand. */
static bool e_sat(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    ev(B(j), VPXORD, 0, 0, 0, 0, 0);
    sg_jit_broadcast(j, 1, 0x3f800000u);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), MAX, d, a, 0, 0, 0);
        ev(B(j), MIN, d, d, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* The sign of a, the rest of b */
static bool e_copysign(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    sg_jit_broadcast(j, 0, 0x80000000u);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        ev(B(j), MOV32, d, 0, 0, 0, 0);
        evi(B(j), TERNLOGD, d, a, b, 0, 0, 0xca); /* a in lanes where d is set, else b */
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* To the nearest or towards 0 denormals become 0 of their sign, whether they count or not. */
NATIVE(rcp_f32, e_rcp, FIXED);
NATIVE(rsqrt_f32, e_rcp, 1 | FIXED);
NATIVE(cvt_rni_f32_f32, e_round, 8 | NO_MODE | FIXED);
NATIVE(cvt_rzi_f32_f32, e_round, 11 | NO_MODE | FIXED);
NATIVE(cvt_rmi_f32_f32, e_round, 9 | FIXED);
NATIVE(cvt_rpi_f32_f32, e_round, 10 | FIXED);
NATIVE(cvt_rni_s32_f32, e_to_s32, 8 | NO_MODE | FIXED);
NATIVE(cvt_rzi_s32_f32, e_to_s32, 11 | NO_MODE | FIXED);
NATIVE(cvt_rmi_s32_f32, e_to_s32, 9 | FIXED);
NATIVE(cvt_rpi_s32_f32, e_to_s32, 10 | FIXED);
NATIVE(cvt_rzi_u32_f32, e_to_u32, 0 | NO_MODE | FIXED);
NATIVE(cvt_f32_u8, e_from_small, 8 | NO_MODE | FIXED);
NATIVE(cvt_f32_s8, e_from_small, 8 | 256 | NO_MODE | FIXED);
NATIVE(cvt_f32_u16, e_from_small, 16 | NO_MODE | FIXED);
NATIVE(cvt_f32_s16, e_from_small, 16 | 256 | NO_MODE | FIXED);
NATIVE(cvt_f64_s32, e_wide_from_s32, 0 | NO_MODE | FIXED);
NATIVE(sat_f32, e_sat, FIXED);
NATIVE(copysign_f32, e_copysign, FIXED);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Native code of integer arithmetic, moves and conversions, and of f32 and f64 operations that are
 * a single instruction. Results are bit-identical to those of the handlers with the same names. All
 * 32 lanes run. A 32-bit operand is 2 chunks, a 64-bit operand 4.
 */
#include "jit/ops.h"

#ifdef SG_JIT

static const struct vop VMOV = {M0F, P66, 1, 0x6f}, VPADDD = {M0F, P66, 0, 0xfe},
                        VPADDQ = {M0F, P66, 1, 0xd4}, VPSUBD = {M0F, P66, 0, 0xfa},
                        VPSUBQ = {M0F, P66, 1, 0xfb}, VPMULLD = {M38, P66, 0, 0x40},
                        VPMULLQ = {M38, P66, 1, 0x40}, VPANDD = {M0F, P66, 0, 0xdb},
                        VPXORD = {M0F, P66, 0, 0xef}, VPORQ = {M0F, P66, 1, 0xeb},
                        SHIFT_D = {M0F, P66, 0, 0x72}, SHIFT_Q = {M0F, P66, 1, 0x73},
                        SRA_Q = {M0F, P66, 1, 0x72}, ZX_DQ = {M38, P66, 0, 0x35}, SX_DQ = {M38, P66, 0, 0x25},
                        MULUDQ = {M0F, P66, 1, 0xf4}, MULDQ = {M38, P66, 1, 0x28},
                        EXTRACT4 = {M3A, P66, 1, 0x3b}, INSERT4 = {M3A, P66, 1, 0x3a},
                        MOVQD = {M38, PF3, 0, 0x35}, MOVUSQD = {M38, PF3, 0, 0x15},
                        BLEND_D = {M38, P66, 0, 0x64}, TERNLOGD = {M3A, P66, 0, 0x25},
                        DPBUSD = {M38, P66, 0, 0x50};

static bool e_bin(struct jit *j, const struct sg_insn *in, u32 arg)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, arg & WIDE); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        ev(B(j), sg_vop_of(arg), d, a, b, 0, j->round);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* An operand in the rm field. */
static bool e_add64(struct jit *j, const struct sg_insn *in, u32 arg)
{
    return sg_jit_add_sum(j, in) || e_bin(j, in, arg);
}

static bool e_un(struct jit *j, const struct sg_insn *in, u32 arg)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, arg & WIDE); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), sg_vop_of(arg), d, 0, a, 0, j->round);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_mov(struct jit *j, const struct sg_insn *in, u32 arg)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, arg & WIDE); h++) {
        u32 a = sg_jv_get(j, in->a, h), d = a;

        if (!sg_jit_dies(j, in, F_A)) {
            d = sg_jv_new(j);
            ev(B(j), VMOV, d, 0, a, 0, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* and, remembering results whose bytes are all below 128 (see e_dp4a) */
static bool e_and(struct jit *j, const struct sg_insn *in, u32 arg)
{
    u64 v;
    const bool low =
        (sg_jit_const(j, in->b, &v, false) || sg_jit_const(j, in->a, &v, false)) && !(v & 0x80808080u);

    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        (void)arg;
        ev(B(j), VPANDD, d, a, b, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
        if (low)
            j->v.low_bytes |= j->v.held & 1u << d;
    }
    return true;
}

/* ---- shifts: arg is the variable form; the immediate forms follow from it ---- */

enum { LEFT = 6, RIGHT = 2, ARITH = 4 }; /* fields of the immediate forms */

static void shift_imm(struct jit *j, bool wide, u32 kind, u32 d, u32 a, u32 n)
{
    evi(B(j), wide ? kind == ARITH ? SRA_Q : SHIFT_Q : SHIFT_D, kind, d, a, 0, 0, n);
}

/* 32 lanes of 32 bits as 64: half `half` of chunk v, in register to. */
static void extend_half(struct jit *j, u32 to, u32 v, u32 half, bool sign)
{
    if (half) {
        evi(B(j), EXTRACT4, v, 0, to, 0, 0, 1);
        v = to;
    }
    ev(B(j), sign ? SX_DQ : ZX_DQ, to, 0, v, 0, 0);
}

/* Chunk h of four, of a 32-bit operand that is extended. Uses register `to`. */
static u32 get_extended(struct jit *j, u32 op, u32 h, u32 to, bool sign)
{
    const u32 v = sg_jv_get(j, op, h >> 1);

    extend_half(j, to, v, sg_jit_flat(j, op) ? 0 : h & 1, sign);
    return to;
}

#define SHIFT(kind) ((u32)(kind) << 16)
static bool e_shift(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 wide = arg & WIDE, kind = arg >> 16 & 7, bits = wide ? 64 : 32;
    u64 n;
    const bool imm = sg_jit_const(j, in->b, &n, false);

    for (u32 h = 0; h < sg_jit_chunks(j, in, wide); h++) {
        const u32 a = sg_jv_get(j, in->a, h);
        u32 b = 0, d;

        if (!imm)
            b = wide ? get_extended(j, in->b, h, 0, false) : sg_jv_get(j, in->b, h);
        d = sg_jv_new(j);
        if (!imm)
            ev(B(j), sg_vop_of(arg), d, a, b, 0, 0);
        else if (n < bits || kind == ARITH)
            shift_imm(j, wide, kind, d, a, n < bits ? (u32)n : bits - 1);
        else
            ev(B(j), VPXORD, d, d, d, 0, 0);
        /* the 32-bit count of a 64-bit shift has half as many chunks */
        if (wide && !imm)
            sg_jv_kill(j,
                       &(struct sg_insn){.a = in->a,
                                         .b = SG_OPND_CONST,
                                         .d = SG_OPND_CONST,
                                         .c = SG_OPND_CONST,
                                         .e = SG_OPND_CONST},
                       1u << h);
        else
            sg_jv_kill(j, in, 1u << h);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

/* shr.u16 and shl.b16 by an immediate */
static bool e_shift16(struct jit *j, const struct sg_insn *in, u32 left)
{
    u64 n;

    if (!sg_jit_const(j, in->b, &n, false))
        return false;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        if (n > 15) {
            ev(B(j), VPXORD, d, d, d, 0, 0);
        } else if (left) {
            shift_imm(j, false, LEFT, d, a, (u32)n);
        } else {
            shift_imm(j, false, LEFT, d, a, 16);
            shift_imm(j, false, RIGHT, d, d, 16 + (u32)n);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static const u32 low16 = 0xffff, low8 = 0xff;

/* Points RSI at a word that the following instructions broadcast to every lane. */
static void point_at(struct jit *j, const u32 *word)
{
    mov_imm64(B(j), RSI, (u64)(uintptr_t)word);
}

/* The low bits of a lane, extended: arg is their number, bit 8 the sign. */
static bool e_low(struct jit *j, const struct sg_insn *in, u32 arg)
{
    point_at(j, arg & 16 ? &low16 : &low8);
    for (u32 h = 0; h < sg_jit_n(j, false) && !(arg & 256); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        evm(B(j), VPANDD, d, a, RSI, 0, 4, 0, EV_B);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    if (!(arg & 256))
        return true;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        shift_imm(j, false, LEFT, d, a, 32 - (arg & 255));
        shift_imm(j, false, ARITH, d, d, 32 - (arg & 255));
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* ---- multiplication ---- */

static bool e_mad(struct jit *j, const struct sg_insn *in, u32 wide)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, wide); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, in->c, h),
                  d = sg_jv_new(j);

        ev(B(j), wide ? VPMULLQ : VPMULLD, 0, a, b, 0, 0);
        ev(B(j), wide ? VPADDQ : VPADDD, d, 0, c, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* 32 times 32 bits to 64, and an addend: arg 1: signed, 2: with addend */
static bool e_wide(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const bool sign = arg & 1;

    for (u32 h = 0; h < sg_jit_chunks(j, in, true); h++) {
        u32 a = get_extended(j, in->a, h, 0, sign), b = get_extended(j, in->b, h, 1, sign);
        u32 c = arg & 2 ? sg_jv_get(j, in->c, h) : 0, d = sg_jv_new(j);

        ev(B(j), sign ? MULDQ : MULUDQ, d, a, b, 0, 0);
        if (arg & 2)
            ev(B(j), VPADDQ, d, d, c, 0, 0);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

static bool e_mul_hi(struct jit *j, const struct sg_insn *in, u32 sign)
{
    const struct vop mul = sign ? MULDQ : MULUDQ;

    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        ev(B(j), mul, 0, a, b, 0, 0);
        shift_imm(j, true, RIGHT, 0, 0, 32);
        shift_imm(j, true, RIGHT, 1, a, 32);
        shift_imm(j, true, RIGHT, 2, b, 32);
        ev(B(j), mul, 1, 1, 2, 0, 0);
        mov_imm64(B(j), RAX, 0xaaaa);
        vex(B(j), PNONE, 0, 0, 0x92, 1, 0, RAX); /* kmovw k1, eax */
        ev(B(j), BLEND_D, d, 0, 1, 1, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_mul_wide16(struct jit *j, const struct sg_insn *in, u32 sign)
{
    const u32 down = sign ? ARITH : RIGHT;

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        shift_imm(j, false, LEFT, 0, a, 16);
        shift_imm(j, false, LEFT, 1, b, 16);
        shift_imm(j, false, down, 0, 0, 16);
        shift_imm(j, false, down, 1, 1, 16);
        ev(B(j), VPMULLD, d, 0, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool low_bytes(const struct jit *j, u32 op, u32 v)
{
    u64 x;

    return sg_jit_const(j, op, &x, false) ? !(x & 0x80808080u) : j->v.low_bytes >> v & 1;
}

/* Products of even and of odd bytes as words, whose sums of two are exact; if one side is known to
   be below 128, pairs of products fit 16 bits. */
static void dp4a_avx2(struct jit *j, const struct sg_insn *in)
{
    static const struct vop SHIFT_W = {M0F, P66, 0, 0x71}, MADDWD = {M0F, P66, 0, 0xf5},
                            MADDUBSW = {M38, P66, 0, 0x04};

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, in->c, h),
                  d = sg_jv_new(j);
        const bool low = low_bytes(j, in->a, a);

        if (low || low_bytes(j, in->b, b)) {
            sg_jit_broadcast(j, 0, 0x00010001u);
            ev(B(j), MADDUBSW, 1, low ? a : b, low ? b : a, 0, 0);
            ev(B(j), MADDWD, 1, 1, 0, 0, 0);
        } else {
            evi(B(j), SHIFT_W, 4, 0, a, 0, 0, 8); /* odd bytes */
            evi(B(j), SHIFT_W, 4, 1, b, 0, 0, 8);
            ev(B(j), MADDWD, 0, 0, 1, 0, 0);
            evi(B(j), SHIFT_W, 6, 1, a, 0, 0, 8);
            evi(B(j), SHIFT_W, 4, 1, 1, 0, 0, 8); /* even bytes */
            evi(B(j), SHIFT_W, 6, 2, b, 0, 0, 8);
            evi(B(j), SHIFT_W, 4, 2, 2, 0, 0, 8);
            ev(B(j), MADDWD, 1, 1, 2, 0, 0);
            ev(B(j), VPADDD, 1, 1, 0, 0, 0);
        }
        ev(B(j), VPADDD, d, c, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
}

/*
 * Multiplies signed bytes by signed bytes with the instruction for unsigned by signed bytes. If one
 * side is known to be below 128, the result is the same; otherwise a + 128 is used, and 128 times
 * the sum of b is subtracted.
 */
static bool e_dp4a(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    if (j->b.avx2) {
        dp4a_avx2(j, in);
        return true;
    }
    if (!__builtin_cpu_supports("avx512vnni"))
        return false;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, in->c, h);
        u32 d = c;

        if (!sg_jit_dies(j, in, F_C)) {
            d = sg_jv_new(j);
            ev(B(j), VMOV, d, 0, c, 0, 0);
        }
        if (low_bytes(j, in->a, a)) {
            ev(B(j), DPBUSD, d, a, b, 0, 0);
        } else if (low_bytes(j, in->b, b)) {
            ev(B(j), DPBUSD, d, b, a, 0, 0);
        } else {
            sg_jit_broadcast(j, 0, 0x80808080u);
            ev(B(j), VPXORD, 1, 0, a, 0, 0);
            ev(B(j), VPXORD, 2, 2, 2, 0, 0);
            ev(B(j), DPBUSD, d, 1, b, 0, 0);
            ev(B(j), DPBUSD, 2, 0, b, 0, 0);
            ev(B(j), VPSUBD, d, d, 2, 0, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* ---- between widths ---- */

static bool e_widen(struct jit *j, const struct sg_insn *in, u32 sign)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, true); h++) {
        const u32 a = sg_jv_get(j, in->a, h >> 1), d = sg_jv_new(j);

        extend_half(j, d, a, sg_jit_flat(j, in->a) ? 0 : h & 1, sign);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

/* Narrows two chunks of 64-bit lanes to one chunk of 32-bit lanes: register d. */
static void join_low(struct jit *j, struct vop how, u32 d, u32 lo, u32 hi)
{
    ev(B(j), how, lo, 0, 0, 0, 0);
    ev(B(j), how, hi, 0, 1, 0, 0);
    evi(B(j), INSERT4, d, 0, 1, 0, 0, 1);
}

static bool e_narrow(struct jit *j, const struct sg_insn *in, u32 saturate)
{
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 lo = sg_jv_get(j, in->a, 2 * h), hi = sg_jv_get(j, in->a, 2 * h + 1), d = sg_jv_new(j);

        join_low(j, saturate ? MOVUSQD : MOVQD, d, lo, hi);
        sg_jit_finish(j, in, h, 3u << (2 * h), d);
    }
    return true;
}

/* An address of a window as an offset, or SG_NOWHERE: narrow.address and (sum) add.sat.u32.u64. */
static bool e_narrow_address(struct jit *j, const struct sg_insn *in, u32 sum)
{
    static const struct vop TESTMQ = {M38, P66, 1, 0x27}, BCAST_R32 = {M38, P66, 0, 0x7c};

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 d = sg_jv_new(j);

        for (u32 k = 0; k < 2; k++) {
            const u32 a = sg_jv_get(j, in->a, 2 * h + k), b = sum ? sg_jv_get(j, in->b, 2 * h + k) : 0;

            if (sum)
                ev(B(j), VPADDQ, 2 + k, a, b, 0, 0);
            else
                ev(B(j), VMOV, 2 + k, 0, a, 0, 0);
            shift_imm(j, true, RIGHT, 4 + k, 2 + k, 32);
            ev(B(j), TESTMQ, 1 + k, 4 + k, 4 + k, 0, 0);
        }
        join_low(j, MOVQD, d, 2, 3);
        vex(B(j), P66, 1, 0, 0x4b, 1, 2, 1); /* kunpckbw */
        mov_imm64(B(j), RAX, SG_NOWHERE);
        ev(B(j), BCAST_R32, d, 0, RAX, 1, 0);
        sg_jit_finish(j, in, h, 3u << (2 * h), d);
    }
    return true;
}

static bool e_unpack32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 lo = sg_jv_get(j, in->a, 2 * h), hi = sg_jv_get(j, in->a, 2 * h + 1), d = sg_jv_new(j),
                  e = sg_jv_new(j);

        join_low(j, MOVQD, d, lo, hi);
        shift_imm(j, true, RIGHT, 2, lo, 32);
        shift_imm(j, true, RIGHT, 3, hi, 32);
        join_low(j, MOVQD, e, 2, 3);
        sg_jv_kill(j, in, 3u << (2 * h));
        sg_jv_bind(j, in->d, h, d);
        sg_jv_bind(j, in->b, h, e);
        sg_jv_unpin(j);
    }
    return true;
}

static bool e_pack32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    for (u32 h = 0; h < sg_jit_n(j, true); h++) {
        u32 d;

        get_extended(j, in->a, h, 0, false);
        get_extended(j, in->b, h, 1, false);
        d = sg_jv_new(j);
        shift_imm(j, true, LEFT, 1, 1, 32);
        ev(B(j), VPORQ, d, 0, 1, 0, 0);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

static bool e_unpack16(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    point_at(j, &low16);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j), e = sg_jv_new(j);

        evm(B(j), VPANDD, d, a, RSI, 0, 4, 0, EV_B);
        shift_imm(j, false, RIGHT, e, a, 16);
        sg_jv_kill(j, in, 1u << h);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_bind(j, in->b, h, e);
        sg_jv_unpin(j);
    }
    return true;
}

static bool e_pack16(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    point_at(j, &low16);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        shift_imm(j, false, LEFT, d, b, 16);
        evmi(B(j), TERNLOGD, d, a, RSI, 0, 4, 0, EV_B, 0xf8); /* or: a and the word */
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_not(struct jit *j, const struct sg_insn *in, u32 wide)
{
    for (u32 h = 0; h < sg_jit_n(j, wide); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), VMOV, d, 0, a, 0, 0);
        evi(B(j), TERNLOGD, d, d, d, 0, 0, 0x55);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_neg(struct jit *j, const struct sg_insn *in, u32 wide)
{
    for (u32 h = 0; h < sg_jit_n(j, wide); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), VPXORD, 0, 0, 0, 0, 0);
        ev(B(j), wide ? VPSUBQ : VPSUBD, d, 0, a, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

NATIVE_MODELESS(mov32, e_mov, 0);
NATIVE_MODELESS(mov64, e_mov, WIDE);
NATIVE_MODELESS(add_b32, e_bin, ARG(M0F, P66, 0, 0xfe));
NATIVE_MODELESS(add_b64, e_add64, ARG(M0F, P66, 1, 0xd4) | WIDE);
NATIVE_MODELESS(sub_b32, e_bin, ARG(M0F, P66, 0, 0xfa));
NATIVE_MODELESS(sub_b64, e_bin, ARG(M0F, P66, 1, 0xfb) | WIDE);
NATIVE_MODELESS(mul_lo_b32, e_bin, ARG(M38, P66, 0, 0x40));
NATIVE_MODELESS(mul_lo_b64, e_bin, ARG(M38, P66, 1, 0x40) | WIDE);
NATIVE_MODELESS(and_b32, e_and, 0);
NATIVE_MODELESS(and_b64, e_bin, ARG(M0F, P66, 1, 0xdb) | WIDE);
NATIVE_MODELESS(or_b32, e_bin, ARG(M0F, P66, 0, 0xeb));
NATIVE_MODELESS(or_b64, e_bin, ARG(M0F, P66, 1, 0xeb) | WIDE);
NATIVE_MODELESS(xor_b32, e_bin, ARG(M0F, P66, 0, 0xef));
NATIVE_MODELESS(xor_b64, e_bin, ARG(M0F, P66, 1, 0xef) | WIDE);
NATIVE_MODELESS(min_s32, e_bin, ARG(M38, P66, 0, 0x39));
NATIVE_MODELESS(max_s32, e_bin, ARG(M38, P66, 0, 0x3d));
NATIVE_MODELESS(min_u32, e_bin, ARG(M38, P66, 0, 0x3b));
NATIVE_MODELESS(max_u32, e_bin, ARG(M38, P66, 0, 0x3f));
NATIVE_MODELESS(min_s64, e_bin, ARG(M38, P66, 1, 0x39) | WIDE);
NATIVE_MODELESS(max_s64, e_bin, ARG(M38, P66, 1, 0x3d) | WIDE);
NATIVE_MODELESS(min_u64, e_bin, ARG(M38, P66, 1, 0x3b) | WIDE);
NATIVE_MODELESS(max_u64, e_bin, ARG(M38, P66, 1, 0x3f) | WIDE);
NATIVE_MODELESS(abs_s32, e_un, ARG(M38, P66, 0, 0x1e));
NATIVE_MODELESS(not_b32, e_not, 0);
NATIVE_MODELESS(not_b64, e_not, 1);
NATIVE_MODELESS(neg_s32, e_neg, 0);
NATIVE_MODELESS(neg_s64, e_neg, 1);
NATIVE_MODELESS(shl_b32, e_shift, ARG(M38, P66, 0, 0x47) | SHIFT(LEFT));
NATIVE_MODELESS(shr_u32, e_shift, ARG(M38, P66, 0, 0x45) | SHIFT(RIGHT));
NATIVE_MODELESS(shr_s32, e_shift, ARG(M38, P66, 0, 0x46) | SHIFT(ARITH));
NATIVE_MODELESS(shl_b64, e_shift, ARG(M38, P66, 1, 0x47) | SHIFT(LEFT) | WIDE);
NATIVE_MODELESS(shr_u64, e_shift, ARG(M38, P66, 1, 0x45) | SHIFT(RIGHT) | WIDE);
NATIVE_MODELESS(shr_s64, e_shift, ARG(M38, P66, 1, 0x46) | SHIFT(ARITH) | WIDE);
NATIVE_MODELESS(shl_b16, e_shift16, 1);
NATIVE_MODELESS(shr_u16, e_shift16, 0);
NATIVE_MODELESS(low_u16, e_low, 16);
NATIVE_MODELESS(low_s16, e_low, 16 | 256);
NATIVE_MODELESS(low_u8, e_low, 8);
NATIVE_MODELESS(low_s8, e_low, 8 | 256);
NATIVE_MODELESS(mad_lo_b32, e_mad, 0);
NATIVE_MODELESS(mad_lo_b64, e_mad, 1);
NATIVE_MODELESS(mul_wide_u32, e_wide, 0);
NATIVE_MODELESS(mul_wide_s32, e_wide, 1);
NATIVE_MODELESS(mad_wide_u32, e_wide, 2);
NATIVE_MODELESS(mad_wide_s32, e_wide, 3);
NATIVE_MODELESS(mul_wide_u16, e_mul_wide16, 0);
NATIVE_MODELESS(mul_wide_s16, e_mul_wide16, 1);
NATIVE_MODELESS(mul_hi_u32, e_mul_hi, 0);
NATIVE_MODELESS(mul_hi_s32, e_mul_hi, 1);
NATIVE_MODELESS(dp4a_s32_s32, e_dp4a, 0);
NATIVE_MODELESS(cvt_u64_u32, e_widen, 0);
NATIVE_MODELESS(cvt_u64_s32, e_widen, 1);
NATIVE_MODELESS(low_u32, e_narrow, 0);
NATIVE_MODELESS(cvt_sat_u32_u64, e_narrow, 1);
NATIVE_MODELESS(narrow_address, e_narrow_address, 0);
NATIVE_MODELESS(add_sat_u32_u64, e_narrow_address, 1);
NATIVE_MODELESS(mov_unpack_2x32, e_unpack32, 0);
NATIVE_MODELESS(mov_pack_2x32, e_pack32, 0);
NATIVE_MODELESS(mov_unpack_2x16, e_unpack16, 0);
NATIVE_MODELESS(mov_pack_2x16, e_pack16, 0);
NATIVE_MODELESS(add_f32, e_bin, ARG(M0F, PNONE, 0, 0x58) | FIXED);
NATIVE_MODELESS(sub_f32, e_bin, ARG(M0F, PNONE, 0, 0x5c) | FIXED);
NATIVE_MODELESS(mul_f32, e_bin, ARG(M0F, PNONE, 0, 0x59) | FIXED);
NATIVE_MODELESS(div_f32, e_bin, ARG(M0F, PNONE, 0, 0x5e) | FIXED);
NATIVE_MODELESS(sqrt_f32, e_un, ARG(M0F, PNONE, 0, 0x51) | FIXED);
NATIVE_MODELESS(div_f64, e_bin, ARG(M0F, P66, 1, 0x5e) | WIDE | FIXED);
NATIVE_MODELESS(add_f64, e_bin, ARG(M0F, P66, 1, 0x58) | WIDE | FIXED);
NATIVE_MODELESS(sub_f64, e_bin, ARG(M0F, P66, 1, 0x5c) | WIDE | FIXED);
NATIVE_MODELESS(mul_f64, e_bin, ARG(M0F, P66, 1, 0x59) | WIDE | FIXED);
NATIVE_MODELESS(cvt_f32_s32, e_un, ARG(M0F, PNONE, 0, 0x5b) | NO_MODE | FIXED);

#endif

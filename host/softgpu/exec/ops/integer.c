/* SPDX-License-Identifier: MIT */
/* Handlers: integers, logic, shifts, selection, moves. */
#include "exec/ops/handler.h"

/* The replacement of an address beyond 32 bits: outside shared and local memory, and aligned. */
#define MULHI32U(a, b) ((u32)(((u64)(a) * (u64)(b)) >> 32))
#define MULHI32S(a, b) ((u32)(((s64)(a) * (s64)(b)) >> 32))
#define MULHI64U(a, b) ((u64)(((unsigned __int128)(a) * (b)) >> 64))
#define MULHI64S(a, b) ((u64)(((__int128)(a) * (b)) >> 64))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ABS(T, a) ((a) < 0 ? (T)(0 - (T)(a)) : (T)(a))

#define LIST1(X) \
    X(mov_b32, "mov.b32", u32, u32, a) \
    X(mov_b64, "mov.b64", u64, u64, a) \
    X(not_b32, "not.b32", u32, u32, ~a) \
    X(not_b64, "not.b64", u64, u64, ~a) \
    X(cnot_b16, "cnot.b16", u32, u16x, (u16)a == 0) \
    X(cnot_b32, "cnot.b32", u32, u32, a == 0) \
    X(cnot_b64, "cnot.b64", u64, u64, a == 0) \
    X(neg_s16, "neg.s16", u32, u32, 0 - a) \
    X(neg_s32, "neg.s32", u32, u32, 0 - a) \
    X(neg_s64, "neg.s64", u64, u64, 0 - a) \
    X(abs_s16, "abs.s16", u32, u32, ABS(u32, (s32)(s16)a)) \
    X(abs_s32, "abs.s32", u32, s32, ABS(u32, a)) \
    X(abs_s64, "abs.s64", u64, s64, ABS(u64, a)) \
    X(cvt_s8_u8, "cvt.s8.u8", u32, u32, (s32)(s8)a) \
    X(cvt_s8_s8, "cvt.s8.s8", u32, u32, (s32)(s8)a) \
    X(cvt_s8_u16, "cvt.s8.u16", u32, u32, (s32)(s8)a) \
    X(cvt_s8_s16, "cvt.s8.s16", u32, u32, (s32)(s8)a) \
    X(cvt_s8_u32, "cvt.s8.u32", u32, u32, (s32)(s8)a) \
    X(cvt_s8_s32, "cvt.s8.s32", u32, u32, (s32)(s8)a) \
    X(cvt_s8_u64, "cvt.s8.u64", u32, u64, (s32)(s8)a) \
    X(cvt_s8_s64, "cvt.s8.s64", u32, u64, (s32)(s8)a) \
    X(cvt_u8_u8, "cvt.u8.u8", u32, u32, (u8)a) \
    X(cvt_u8_s8, "cvt.u8.s8", u32, u32, (u8)a) \
    X(cvt_u8_u16, "cvt.u8.u16", u32, u32, (u8)a) \
    X(cvt_u8_s16, "cvt.u8.s16", u32, u32, (u8)a) \
    X(cvt_u8_u32, "cvt.u8.u32", u32, u32, (u8)a) \
    X(cvt_u8_s32, "cvt.u8.s32", u32, u32, (u8)a) \
    X(cvt_u8_u64, "cvt.u8.u64", u32, u64, (u8)a) \
    X(cvt_u8_s64, "cvt.u8.s64", u32, u64, (u8)a) \
    X(cvt_s16_u8, "cvt.s16.u8", u32, u32, (u8)a) \
    X(cvt_s16_s8, "cvt.s16.s8", u32, u32, (s32)(s8)a) \
    X(cvt_s16_u16, "cvt.s16.u16", u32, u32, (s32)(s16)a) \
    X(cvt_s16_s16, "cvt.s16.s16", u32, u32, (s32)(s16)a) \
    X(cvt_s16_u32, "cvt.s16.u32", u32, u32, (s32)(s16)a) \
    X(cvt_s16_s32, "cvt.s16.s32", u32, u32, (s32)(s16)a) \
    X(cvt_s16_u64, "cvt.s16.u64", u32, u64, (s32)(s16)a) \
    X(cvt_s16_s64, "cvt.s16.s64", u32, u64, (s32)(s16)a) \
    X(cvt_u16_u8, "cvt.u16.u8", u32, u32, (u8)a) \
    X(cvt_u16_s8, "cvt.u16.s8", u32, u32, (u16)(s8)a) \
    X(cvt_u16_u16, "cvt.u16.u16", u32, u32, (u16)a) \
    X(cvt_u16_s16, "cvt.u16.s16", u32, u32, (u16)a) \
    X(cvt_u16_u32, "cvt.u16.u32", u32, u32, (u16)a) \
    X(cvt_u16_s32, "cvt.u16.s32", u32, u32, (u16)a) \
    X(cvt_u16_u64, "cvt.u16.u64", u32, u64, (u16)a) \
    X(cvt_u16_s64, "cvt.u16.s64", u32, u64, (u16)a) \
    X(cvt_u32_u8, "cvt.u32.u8", u32, u32, (u8)a) \
    X(cvt_u32_s8, "cvt.u32.s8", u32, u32, (s32)(s8)a) \
    X(cvt_u32_u16, "cvt.u32.u16", u32, u32, (u16)a) \
    X(cvt_u32_s16, "cvt.u32.s16", u32, u32, (s32)(s16)a) \
    X(cvt_u32_u32, "cvt.u32.u32", u32, u32, a) \
    X(cvt_u32_s32, "cvt.u32.s32", u32, u32, a) \
    X(cvt_u32_u64, "cvt.u32.u64", u32, u64, (u32)a) \
    X(cvt_u32_s64, "cvt.u32.s64", u32, u64, (u32)a) \
    X(narrow_address, "narrow.address", u32, u64, a >> 32 ? SG_NOWHERE : (u32)a) \
    X(cvt_u64_u8, "cvt.u64.u8", u64, u32, (u64)(u8)a) \
    X(cvt_u64_s8, "cvt.u64.s8", u64, u32, (s64)(s8)a) \
    X(cvt_u64_u16, "cvt.u64.u16", u64, u32, (u64)(u16)a) \
    X(cvt_u64_s16, "cvt.u64.s16", u64, u32, (s64)(s16)a) \
    X(cvt_u64_u32, "cvt.u64.u32", u64, u32, (u64)a) \
    X(cvt_u64_s32, "cvt.u64.s32", u64, s32, (s64)a) \
    X(cvt_u64_u64, "cvt.u64.u64", u64, u64, a) \
    X(cvt_u64_s64, "cvt.u64.s64", u64, u64, a)

#define LIST2(X) \
    X(add_b32, "add.b32", u32, u32, u32, a + b) \
    X(add_b64, "add.b64", u64, u64, u64, a + b) \
    X(add_sat_u32_u64, "add.sat.u32.u64", u32, u64, u64, (a + b) >> 32 ? SG_NOWHERE : (u32)(a + b)) \
    X(sub_b32, "sub.b32", u32, u32, u32, a - b) \
    X(sub_b64, "sub.b64", u64, u64, u64, a - b) \
    X(mul_lo_b32, "mul.lo.b32", u32, u32, u32, a *b) \
    X(mul_lo_b64, "mul.lo.b64", u64, u64, u64, a *b) \
    X(mul_hi_u16, "mul.hi.u16", u32, u32, u32, ((u32)(u16)a * (u16)b) >> 16) \
    X(mul_hi_s16, "mul.hi.s16", u32, u32, u32, ((s32)(s16)a * (s16)b) >> 16) \
    X(mul_hi_u32, "mul.hi.u32", u32, u32, u32, MULHI32U(a, b)) \
    X(mul_hi_s32, "mul.hi.s32", u32, s32, s32, MULHI32S(a, b)) \
    X(mul_hi_u64, "mul.hi.u64", u64, u64, u64, MULHI64U(a, b)) \
    X(mul_hi_s64, "mul.hi.s64", u64, s64, s64, MULHI64S(a, b)) \
    X(mul_wide_u16, "mul.wide.u16", u32, u32, u32, (u32)(u16)a *(u16)b) \
    X(mul_wide_s16, "mul.wide.s16", u32, u32, u32, (s32)(s16)a *(s16)b) \
    X(mul_wide_u32, "mul.wide.u32", u64, u32, u32, (u64)a *b) \
    X(mul_wide_s32, "mul.wide.s32", u64, s32, s32, (s64)a *b) \
    X(and_b32, "and.b32", u32, u32, u32, a &b) \
    X(and_b64, "and.b64", u64, u64, u64, a &b) \
    X(or_b32, "or.b32", u32, u32, u32, a | b) \
    X(or_b64, "or.b64", u64, u64, u64, a | b) \
    X(xor_b32, "xor.b32", u32, u32, u32, a ^ b) \
    X(xor_b64, "xor.b64", u64, u64, u64, a ^ b) \
    X(shl_b16, "shl.b16", u32, u32, u32, b > 15 ? 0 : a << (b & 31)) \
    X(shl_b32, "shl.b32", u32, u32, u32, b > 31 ? 0 : a << (b & 31)) \
    X(shl_b64, "shl.b64", u64, u64, u32, b > 63 ? 0 : a << (b & 63)) \
    X(shr_u16, "shr.u16", u32, u32, u32, b > 15 ? 0 : (u32)(u16)a >> (b & 31)) \
    X(shr_s16, "shr.s16", u32, u32, u32, (s32)(s16)a >> (b > 15 ? 15 : b)) \
    X(shr_u32, "shr.u32", u32, u32, u32, b > 31 ? 0 : a >> (b & 31)) \
    X(shr_s32, "shr.s32", u32, s32, u32, a >> (b > 31 ? 31 : b)) \
    X(shr_u64, "shr.u64", u64, u64, u32, b > 63 ? 0 : a >> (b & 63)) \
    X(shr_s64, "shr.s64", u64, s64, u32, a >> (b > 63 ? 63 : b)) \
    X(min_u16, "min.u16", u32, u32, u32, MIN((u32)(u16)a, (u32)(u16)b)) \
    X(max_u16, "max.u16", u32, u32, u32, MAX((u32)(u16)a, (u32)(u16)b)) \
    X(min_s16, "min.s16", u32, u32, u32, MIN((s32)(s16)a, (s32)(s16)b)) \
    X(max_s16, "max.s16", u32, u32, u32, MAX((s32)(s16)a, (s32)(s16)b)) \
    X(min_u32, "min.u32", u32, u32, u32, MIN(a, b)) \
    X(max_u32, "max.u32", u32, u32, u32, MAX(a, b)) \
    X(min_s32, "min.s32", u32, s32, s32, MIN(a, b)) \
    X(max_s32, "max.s32", u32, s32, s32, MAX(a, b)) \
    X(min_u64, "min.u64", u64, u64, u64, MIN(a, b)) \
    X(max_u64, "max.u64", u64, u64, u64, MAX(a, b)) \
    X(min_s64, "min.s64", u64, s64, s64, MIN(a, b)) \
    X(max_s64, "max.s64", u64, s64, s64, MAX(a, b))

/* division: by zero gives all ones (as GPUs do), INT_MIN / -1 wraps; 32 bits exactly by f64 */
static inline u32 udiv32(u32 a, u32 b)
{
    const u32 q = (u32)(s64)((f64)a / (f64)(b ? b : 1u));

    return b ? q : SG_FULL;
}

static inline u32 urem32(u32 a, u32 b)
{
    return b ? a - udiv32(a, b) * b : a;
}

static inline u32 sdiv32(s32 a, s32 b)
{
    const s64 q = (s64)((f64)a / (f64)(b ? b : 1));

    return b ? (u32)q : SG_FULL;
}

static inline u32 srem32(s32 a, s32 b)
{
    return b ? (u32)a - sdiv32(a, b) * (u32)b : (u32)a;
}

static inline u64 sdiv64(s64 a, s64 b)
{
    return !b ? ~0ull : b == -1 ? 0 - (u64)a : (u64)(a / b);
}

static inline u64 srem64(s64 a, s64 b)
{
    return !b ? (u64)a : b == -1 ? 0 : (u64)(a % b);
}

#define LISTD(X) \
    X(div_u16, "div.u16", u32, u32, u32, udiv32((u16)a, (u16)b)) \
    X(div_s16, "div.s16", u32, u32, u32, sdiv32((s16)a, (s16)b)) \
    X(div_u32, "div.u32", u32, u32, u32, udiv32(a, b)) \
    X(div_s32, "div.s32", u32, s32, s32, sdiv32(a, b)) \
    X(div_u64, "div.u64", u64, u64, u64, b ? a / b : ~0ull) \
    X(div_s64, "div.s64", u64, s64, s64, sdiv64(a, b)) \
    X(rem_u16, "rem.u16", u32, u32, u32, urem32((u16)a, (u16)b)) \
    X(rem_s16, "rem.s16", u32, u32, u32, srem32((s16)a, (s16)b)) \
    X(rem_u32, "rem.u32", u32, u32, u32, urem32(a, b)) \
    X(rem_s32, "rem.s32", u32, s32, s32, srem32(a, b)) \
    X(rem_u64, "rem.u64", u64, u64, u64, b ? a % b : a) \
    X(rem_s64, "rem.s64", u64, s64, s64, srem64(a, b))

/* (a << n | b >> (32 - n)) with b the low part: shf works on the 64-bit value b:a */
#define FUNNEL(a, b) ((u64)(b) << 32 | (a))

#define LIST3(X) \
    X(mad_lo_b32, "mad.lo.b32", u32, u32, u32, u32, a *b + c) \
    X(mad_lo_b64, "mad.lo.b64", u64, u64, u64, u64, a *b + c) \
    X(mad_hi_u16, "mad.hi.u16", u32, u32, u32, u32, (((u32)(u16)a * (u16)b) >> 16) + c) \
    X(mad_hi_s16, "mad.hi.s16", u32, u32, u32, u32, (u32)(((s32)(s16)a * (s16)b) >> 16) + c) \
    X(mad_hi_u32, "mad.hi.u32", u32, u32, u32, u32, MULHI32U(a, b) + c) \
    X(mad_hi_s32, "mad.hi.s32", u32, s32, s32, u32, MULHI32S(a, b) + c) \
    X(mad_hi_u64, "mad.hi.u64", u64, u64, u64, u64, MULHI64U(a, b) + c) \
    X(mad_hi_s64, "mad.hi.s64", u64, s64, s64, u64, MULHI64S(a, b) + c) \
    X(mad_wide_u16, "mad.wide.u16", u32, u32, u32, u32, (u32)(u16)a *(u16)b + c) \
    X(mad_wide_s16, "mad.wide.s16", u32, u32, u32, u32, (u32)((s32)(s16)a * (s16)b) + c) \
    X(mad_wide_u32, "mad.wide.u32", u64, u32, u32, u64, (u64)a *b + c) \
    X(mad_wide_s32, "mad.wide.s32", u64, s32, s32, u64, (u64)((s64)a * b) + c) \
    X(shf_l_wrap, "shf.l.wrap", u32, u32, u32, u32, (FUNNEL(a, b) << (c & 31)) >> 32) \
    X(shf_r_wrap, "shf.r.wrap", u32, u32, u32, u32, FUNNEL(a, b) >> (c & 31)) \
    X(shf_l_clamp, "shf.l.clamp", u32, u32, u32, u32, (FUNNEL(a, b) << MIN(c, 32u)) >> 32) \
    X(shf_r_clamp, "shf.r.clamp", u32, u32, u32, u32, FUNNEL(a, b) >> MIN(c, 32u))

typedef u32 u16x; /* a 16-bit value in its slot */

LIST1(OP1)
LIST2(OP2)
LIST3(OP3)
LISTD(OP2)

/* ---- bits ---- */

static inline u32 popc32(u32 v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0fu;
    return v * 0x01010101u >> 24;
}

static inline u32 clz32(u32 v)
{
    return v ? (u32)__builtin_clz(v) : 32;
}

static inline u32 brev32(u32 v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

static inline u64 brev64(u64 v)
{
    return (u64)brev32((u32)v) << 32 | brev32((u32)(v >> 32));
}

/* bfe: position and length are bytes; bits beyond the top are copies of the sign (PTX ISA, bfe) */
static inline u32 ubfe32(u32 a, u32 pos, u32 len)
{
    const u32 v = pos > 31 ? 0 : a >> (pos & 31);

    return len > 31 ? v : v & ((1u << (len & 31)) - 1);
}

static inline u32 sbfe32(s32 a, u32 pos, u32 len)
{
    /* the bit after the last one in the register */
    const u32 end = pos + len, top = end > 32 ? 32 : end;
    const s32 v = pos > 31 ? a >> 31 : a >> (pos & 31);
    const u32 have = pos > 31 ? 0 : top - pos;
    const u32 shift = 32 - have;

    return !len ? 0 : !have ? (u32)(a >> 31) : (u32)((s32)((u32)v << (shift & 31)) >> (shift & 31));
}

static inline u64 ubfe64(u64 a, u32 pos, u32 len)
{
    const u64 v = pos > 63 ? 0 : a >> (pos & 63);

    return len > 63 ? v : v & ((1ull << (len & 63)) - 1);
}

static inline u64 sbfe64(s64 a, u32 pos, u32 len)
{
    const u32 end = pos + len, top = end > 64 ? 64 : end;
    const s64 v = pos > 63 ? a >> 63 : a >> (pos & 63);
    const u32 have = pos > 63 ? 0 : top - pos;
    const u32 shift = 64 - have;

    return !len ? 0 : !have ? (u64)(a >> 63) : (u64)((s64)((u64)v << (shift & 63)) >> (shift & 63));
}

/* prmt: each selector picks a byte of b:a, or copies its sign */
static inline u32 prmt(u32 a, u32 b, u32 sel)
{
    const u64 x = (u64)b << 32 | a;
    u32 r = 0;

    for (int k = 0; k < 4; k++) {
        const u32 s = sel >> (4 * k);
        u32 v = (u32)(x >> (8 * (s & 7))) & 255;

        v = (s & 8) ? (v & 128 ? 255u : 0) : v;
        r |= v << (8 * k);
    }
    return r;
}

#define LISTB1(X) \
    X(popc_b32, "popc.b32", u32, u32, popc32(a)) \
    X(popc_b64, "popc.b64", u32, u64, popc32((u32)a) + popc32((u32)(a >> 32))) \
    X(clz_b32, "clz.b32", u32, u32, clz32(a)) \
    X(clz_b64, "clz.b64", u32, u64, a ? (u32)__builtin_clzll(a) : 64) \
    X(brev_b32, "brev.b32", u32, u32, brev32(a)) \
    X(brev_b64, "brev.b64", u64, u64, brev64(a))
#define LISTB3(X) \
    X(bfe_u32, "bfe.u32", u32, u32, u32, u32, ubfe32(a, b & 255, c & 255)) \
    X(bfe_s32, "bfe.s32", u32, s32, u32, u32, sbfe32(a, b & 255, c & 255)) \
    X(bfe_u64, "bfe.u64", u64, u64, u32, u32, ubfe64(a, b & 255, c & 255)) \
    X(bfe_s64, "bfe.s64", u64, s64, u32, u32, sbfe64(a, b & 255, c & 255)) \
    X(prmt_b32, "prmt.b32", u32, u32, u32, u32, prmt(a, b, c))
LISTB1(OP1)
LISTB3(OP3)

HANDLER(lop3_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c);
    u32 t[8];

    for (int k = 0; k < 8; k++)
        t[k] = (in->imm >> k & 1) ? SG_FULL : 0;
    STORE(u32, ({
              const u32 a = pa[i], b = pb[i], c = pc[i];
              (~a & ~b & ~c & t[0]) | (~a & ~b & c & t[1]) | (~a & b & ~c & t[2]) | (~a & b & c & t[3]) |
                  (a & ~b & ~c & t[4]) | (a & ~b & c & t[5]) | (a & b & ~c & t[6]) | (a & b & c & t[7]);
          }));
    return SG_NEXT;
}

/* bfi: the low e bits of a go into b at position c */
HANDLER(bfi_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u32, ({
              const u32 pos = pc[i] & 255, len = pe[i] & 255;
              const u32 m = (len > 31 ? SG_FULL : (1u << (len & 31)) - 1);
              const u32 f = pos > 31 ? 0 : m << (pos & 31);
              (pb[i] & ~f) | ((pos > 31 ? 0 : pa[i] << (pos & 31)) & f);
          }));
    return SG_NEXT;
}

HANDLER(bfi_b64)
{
    const u64 *pa = SRC(u64, a), *pb = SRC(u64, b);
    const u32 *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u64, ({
              const u32 pos = pc[i] & 255, len = pe[i] & 255;
              const u64 m = (len > 63 ? ~0ull : (1ull << (len & 63)) - 1);
              const u64 f = pos > 63 ? 0 : m << (pos & 63);
              (pb[i] & ~f) | ((pos > 63 ? 0 : pa[i] << (pos & 63)) & f);
          }));
    return SG_NEXT;
}

/* ---- selection ---- */

HANDLER(selp_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);
    const u32 p = PREDV(c);

    STORE(u32, (p & sg_bit32[i]) ? pa[i] : pb[i]);
    return SG_NEXT;
}

HANDLER(selp_b64)
{
    const u64 *pa = SRC(u64, a), *pb = SRC(u64, b);
    const u64 p = PREDV(c);

    STORE(u64, (p & sg_bit64[i]) ? pa[i] : pb[i]);
    return SG_NEXT;
}

HANDLER(and_pred)
{
    sg_set_pred(w, in->d, PREDV(a) & PREDV(b));
    return SG_NEXT;
}

HANDLER(or_pred)
{
    sg_set_pred(w, in->d, PREDV(a) | PREDV(b));
    return SG_NEXT;
}

HANDLER(xor_pred)
{
    sg_set_pred(w, in->d, PREDV(a) ^ PREDV(b));
    return SG_NEXT;
}

HANDLER(not_pred)
{
    sg_set_pred(w, in->d, ~PREDV(a));
    return SG_NEXT;
}

HANDLER(mov_pred)
{
    sg_set_pred(w, in->d, PREDV(a));
    return SG_NEXT;
}

/* ---- comparison ---- */

#define CMP_ORDER(X, id, name, T) \
    X(setp_lt_##id, "setp.lt." name, T, a < b) \
    X(setp_le_##id, "setp.le." name, T, a <= b) \
    X(setp_gt_##id, "setp.gt." name, T, a > b) \
    X(setp_ge_##id, "setp.ge." name, T, a >= b)
#define LISTC(X) \
    X(setp_eq_b16, "setp.eq.b16", u32, (u16)a == (u16)b) \
    X(setp_ne_b16, "setp.ne.b16", u32, (u16)a != (u16)b) \
    X(setp_eq_b32, "setp.eq.b32", u32, a == b) \
    X(setp_ne_b32, "setp.ne.b32", u32, a != b) \
    X(setp_eq_b64, "setp.eq.b64", u64, a == b) \
    X(setp_ne_b64, "setp.ne.b64", u64, a != b) \
    X(setp_lt_u16, "setp.lt.u16", u32, (u16)a < (u16)b) \
    X(setp_le_u16, "setp.le.u16", u32, (u16)a <= (u16)b) \
    X(setp_gt_u16, "setp.gt.u16", u32, (u16)a > (u16)b) \
    X(setp_ge_u16, "setp.ge.u16", u32, (u16)a >= (u16)b) \
    X(setp_lt_s16, "setp.lt.s16", u32, (s16)a < (s16)b) \
    X(setp_le_s16, "setp.le.s16", u32, (s16)a <= (s16)b) \
    X(setp_gt_s16, "setp.gt.s16", u32, (s16)a > (s16)b) \
    X(setp_ge_s16, "setp.ge.s16", u32, (s16)a >= (s16)b) \
    CMP_ORDER(X, u32, "u32", u32) \
    CMP_ORDER(X, s32, "s32", s32) \
    CMP_ORDER(X, u64, "u64", u64) \
    CMP_ORDER(X, s64, "s64", s64)

LISTC(CMP)

/* ---- packing: every source is read before any destination is written ---- */

HANDLER(pack_2x32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u64, (u64)pb[i] << 32 | pa[i]);
    return SG_NEXT;
}

HANDLER(pack_2x16)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u32, pb[i] << 16 | (pa[i] & 0xffffu));
    return SG_NEXT;
}

HANDLER(unpack_2x32)
{
    const u64 *pa = SRC(u64, a);
    u32 *lo = DST(u32, d), *hi = DST(u32, b);
    const u32 m = w->wmask;

    if (LIKELY(m == SG_FULL)) {
        LANES lo[i] = (u32)pa[i];
        LANES hi[i] = (u32)(pa[i] >> 32);
    } else {
        LANES lo[i] = (m & sg_bit32[i]) ? (u32)pa[i] : lo[i];
        LANES hi[i] = (m & sg_bit32[i]) ? (u32)(pa[i] >> 32) : hi[i];
    }
    return SG_NEXT;
}

HANDLER(unpack_2x16)
{
    u32 tmp[SG_LANES];
    u32 *lo = DST(u32, d), *hi = DST(u32, b);
    const u32 m = w->wmask;

    memcpy(tmp, SRC(u32, a), sizeof(tmp));
    LANES lo[i] = (m & sg_bit32[i]) ? tmp[i] & 0xffffu : lo[i];
    LANES hi[i] = (m & sg_bit32[i]) ? tmp[i] >> 16 : hi[i];
    return SG_NEXT;
}

/* ---- dot products ---- */

static inline s32 dp4(u32 a, u32 b, bool sa, bool sb)
{
    s32 r = 0;

    for (int k = 0; k < 4; k++) {
        s32 x = sa ? (s32)(s8)(a >> (8 * k)) : (s32)(u8)(a >> (8 * k));
        s32 y = sb ? (s32)(s8)(b >> (8 * k)) : (s32)(u8)(b >> (8 * k));

        r += x * y;
    }
    return r;
}

static inline s32 dp2(u32 a, u32 b, bool sa, bool sb, int hi)
{
    s32 r = 0;

    for (int k = 0; k < 2; k++) {
        s32 x = sa ? (s32)(s16)(a >> (16 * k)) : (s32)(u16)(a >> (16 * k));
        s32 y = sb ? (s32)(s8)(b >> (8 * (k + hi))) : (s32)(u8)(b >> (8 * (k + hi)));

        r += x * y;
    }
    return r;
}

#define LISTDP(X) \
    X(dp4a_u_u, "dp4a.u32.u32", u32, u32, u32, u32, c + (u32)dp4(a, b, 0, 0)) \
    X(dp4a_u_s, "dp4a.u32.s32", u32, u32, u32, u32, c + (u32)dp4(a, b, 0, 1)) \
    X(dp4a_s_u, "dp4a.s32.u32", u32, u32, u32, u32, c + (u32)dp4(a, b, 1, 0)) \
    X(dp4a_s_s, "dp4a.s32.s32", u32, u32, u32, u32, c + (u32)dp4(a, b, 1, 1)) \
    X(dp2a_lo_uu, "dp2a.lo.u32.u32", u32, u32, u32, u32, c + (u32)dp2(a, b, 0, 0, 0)) \
    X(dp2a_lo_us, "dp2a.lo.u32.s32", u32, u32, u32, u32, c + (u32)dp2(a, b, 0, 1, 0)) \
    X(dp2a_lo_su, "dp2a.lo.s32.u32", u32, u32, u32, u32, c + (u32)dp2(a, b, 1, 0, 0)) \
    X(dp2a_lo_ss, "dp2a.lo.s32.s32", u32, u32, u32, u32, c + (u32)dp2(a, b, 1, 1, 0)) \
    X(dp2a_hi_uu, "dp2a.hi.u32.u32", u32, u32, u32, u32, c + (u32)dp2(a, b, 0, 0, 2)) \
    X(dp2a_hi_us, "dp2a.hi.u32.s32", u32, u32, u32, u32, c + (u32)dp2(a, b, 0, 1, 2)) \
    X(dp2a_hi_su, "dp2a.hi.s32.u32", u32, u32, u32, u32, c + (u32)dp2(a, b, 1, 0, 2)) \
    X(dp2a_hi_ss, "dp2a.hi.s32.s32", u32, u32, u32, u32, c + (u32)dp2(a, b, 1, 1, 2))

LISTDP(OP3)

const struct sg_opdef SG_TABLE(int)[] = {
    LISTB1(ROW1) LISTB3(ROW3) LISTD(ROW2) ROW(lop3_b32, "lop3.b32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(bfi_b32, "bfi.b32", OUT(u32), IN(u32), IN(u32), IN(u32), IN(u32)),
    ROW(bfi_b64, "bfi.b64", OUT(u64), IN(u64), IN(u64), IN(u32), IN(u32)),
    LIST1(ROW1) LIST2(ROW2) LIST3(ROW3) LISTC(ROWC) LISTDP(ROW3)
        ROW(selp_b32, "selp.b32", OUT(u32), IN(u32), IN(u32), IN_P),
    ROW(selp_b64, "selp.b64", OUT(u64), IN(u64), IN(u64), IN_P),
    ROW(and_pred, "and.pred", OUT_P, IN_P, IN_P),
    ROW(or_pred, "or.pred", OUT_P, IN_P, IN_P),
    ROW(xor_pred, "xor.pred", OUT_P, IN_P, IN_P),
    ROW(not_pred, "not.pred", OUT_P, IN_P),
    ROW(mov_pred, "mov.pred", OUT_P, IN_P),
    ROW(pack_2x32, "mov.pack.2x32", OUT(u64), IN(u32), IN(u32)),
    ROW(pack_2x16, "mov.pack.2x16", OUT(u32), IN(u32), IN(u32)),
    ROW(unpack_2x32, "mov.unpack.2x32", OUT(u32), IN(u64), OUT(u32)),
    ROW(unpack_2x16, "mov.unpack.2x16", OUT(u32), IN(u32), OUT(u32)),
    {0},
};

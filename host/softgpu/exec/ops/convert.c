/* SPDX-License-Identifier: MIT */
/* Handlers: less frequent conversions: saturating, to integers, small floats. */
#include "exec/ops/handler.h"
#include "base/half.h"

/* ---- integer to integer, saturating ---- */

typedef __int128 wide;

#define SAT(v, lo, hi) ((v) < (wide)(lo) ? (wide)(lo) : (v) > (wide)(hi) ? (wide)(hi) : (v))
#define CVT_SAT(dn, DR, lo, hi, sn, SR, ST) \
    static int h_sat_##dn##_##sn(struct sg_warp *w, const struct sg_insn *in) \
    { \
        const SR *pa = SRC(SR, a); \
        DR *d = DST(DR, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            const wide v = (wide)(ST)pa[i]; \
            d[i] = (DR)SAT(v, lo, hi); \
        } \
        return SG_NEXT; \
    }
#define SAT_FROM(X, dn, DR, lo, hi) \
    X(dn, DR, lo, hi, u8, u32, u8) \
    X(dn, DR, lo, hi, s8, u32, s8) \
    X(dn, DR, lo, hi, u16, u32, u16) \
    X(dn, DR, lo, hi, s16, u32, s16) \
    X(dn, DR, lo, hi, u32, u32, u32) \
    X(dn, DR, lo, hi, s32, u32, s32) \
    X(dn, DR, lo, hi, u64, u64, u64) \
    X(dn, DR, lo, hi, s64, u64, s64)
#define SATS(X) \
    SAT_FROM(X, u8, u32, 0, UINT8_MAX) \
    SAT_FROM(X, s8, u32, INT8_MIN, INT8_MAX) \
    SAT_FROM(X, u16, u32, 0, UINT16_MAX) \
    SAT_FROM(X, s16, u32, INT16_MIN, INT16_MAX) \
    SAT_FROM(X, u32, u32, 0, UINT32_MAX) \
    SAT_FROM(X, s32, u32, INT32_MIN, INT32_MAX) \
    SAT_FROM(X, u64, u64, 0, UINT64_MAX) \
    SAT_FROM(X, s64, u64, INT64_MIN, INT64_MAX)
SATS(CVT_SAT)
#define ROWS(dn, DR, lo, hi, sn, SR, ST) ROW(sat_##dn##_##sn, "cvt.sat." #dn "." #sn, OUT(DR), IN(SR)),

/* ---- float to integer: always clamped; NaN is 0 or the top bit (PTX ISA, cvt) ---- */

#define CVT_INT(mode, fn, dn, DR, DT, lo, hi, limit, nan, sn, ST) \
    static int h_##mode##_##dn##_##sn(struct sg_warp *w, const struct sg_insn *in) \
    { \
        const ST *pa = SRC(ST, a); \
        DR *d = DST(DR, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            const double v = fn((double)pa[i]); \
            DR r; \
            if (v != v) \
                r = (DR)(nan); \
            else if (v >= (limit)) \
                r = (DR)(hi); \
            else if (v < (double)(lo)) \
                r = (DR)(lo); \
            else \
                r = (DR)(DT)v; \
            d[i] = r; \
        } \
        return SG_NEXT; \
    }
#define TOP32(sn) (sizeof(#sn "") == 4 && #sn[1] == '6' ? 1u << 31 : 0)
#define INT_DSTS(X, mode, fn, sn, ST) \
    X(mode, fn, u8, u32, u8, 0, UINT8_MAX, 256.0, 0, sn, ST) \
    X(mode, fn, s8, u32, s8, INT8_MIN, INT8_MAX, 128.0, 0, sn, ST) \
    X(mode, fn, u16, u32, u16, 0, UINT16_MAX, 65536.0, 0, sn, ST) \
    X(mode, fn, s16, u32, s16, INT16_MIN, INT16_MAX, 32768.0, 0, sn, ST) \
    X(mode, fn, u32, u32, u32, 0, UINT32_MAX, 4294967296.0, TOP32(sn), sn, ST) \
    X(mode, fn, s32, u32, s32, INT32_MIN, INT32_MAX, 2147483648.0, TOP32(sn), sn, ST) \
    X(mode, fn, u64, u64, u64, 0, UINT64_MAX, 18446744073709551616.0, 1ull << 63, sn, ST) \
    X(mode, fn, s64, u64, s64, INT64_MIN, INT64_MAX, 9223372036854775808.0, 1ull << 63, sn, ST)
#define INTS(X) \
    INT_DSTS(X, rni, nearest, f32, f32) \
    INT_DSTS(X, rzi, trunc, f32, f32) \
    INT_DSTS(X, rmi, floor, f32, f32) \
    INT_DSTS(X, rpi, ceil, f32, f32) \
    INT_DSTS(X, rni, nearest, f64, f64) \
    INT_DSTS(X, rzi, trunc, f64, f64) \
    INT_DSTS(X, rmi, floor, f64, f64) \
    INT_DSTS(X, rpi, ceil, f64, f64)

/* Rounds ties to even regardless of MXCSR. */
static inline double nearest(double x)
{
    const double t = trunc(x), r = x - t;

    if (r == 0.5 || r == -0.5)
        return t + (fmod(t, 2.0) != 0.0 ? (r > 0 ? 1.0 : -1.0) : 0.0);
    if (r > 0.5)
        return t + 1.0;
    return r < -0.5 ? t - 1.0 : t;
}

INTS(CVT_INT)
#define ROWI(mode, fn, dn, DR, DT, lo, hi, limit, nan, sn, ST) \
    ROW(mode##_##dn##_##sn, "cvt." #mode "." #dn "." #sn, OUT(DR), IN(ST)),

/* ---- float to the same type, rounded to an integer: -0 stays -0 ---- */

#define CVT_FF(mode, fn, sn, ST) \
    static int h_##mode##_##sn(struct sg_warp *w, const struct sg_insn *in) \
    { \
        const ST *pa = SRC(ST, a); \
        ST *d = DST(ST, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            d[i] = (ST)copysign(fn((double)pa[i]), (double)pa[i]); \
        } \
        return SG_NEXT; \
    }
#define FFS(X) \
    X(rni, nearest, f32, f32) \
    X(rzi, trunc, f32, f32) \
    X(rmi, floor, f32, f32) \
    X(rpi, ceil, f32, f32) \
    X(rni, nearest, f64, f64) X(rzi, trunc, f64, f64) X(rmi, floor, f64, f64) X(rpi, ceil, f64, f64)
FFS(CVT_FF)
#define ROWF(mode, fn, sn, ST) ROW(mode##_##sn, "cvt." #mode "." #sn "." #sn, OUT(ST), IN(ST)),

/* ---- small floats ---- */

#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

HANDLER(cvt_f16_f64)
{
    const f64 *pa = SRC(f64, a);
    u32 *d = DST(u32, d);

    EACH(w->mask) d[i] = sg_f64_to_f16(pa[i], in->imm);
    return SG_NEXT;
}

HANDLER(cvt_bf16_f64)
{
    const f64 *pa = SRC(f64, a);
    u32 *d = DST(u32, d);

    EACH(w->mask) d[i] = sg_f64_to_bf16(pa[i], in->imm);
    return SG_NEXT;
}

/* tf32: f32 with 10 bits of mantissa */
HANDLER(cvt_tf32_f32)
{
    const u32 *pa = SRC(u32, a);
    u32 *d = DST(u32, d);

    EACH(w->mask)
    {
        u32 u = pa[i], r;

        if ((u & 0x7f800000u) == 0x7f800000u) {
            d[i] = (u & 0x7fffffu) ? 0x7fffffffu : u;
            continue;
        }
        if ((in->imm & SG_H_RELU) && u >> 31)
            u = 0;
        r = in->imm & SG_H_RZ ? u : in->imm & SG_H_RNA ? u + 0x1000u : u + 0xfffu + (u >> 13 & 1);
        d[i] = r & 0xffffe000u;
    }
    return SG_NEXT;
}

/* e4m3 has no infinity, its NaN is 0x7f; e5m2 is the upper byte of f16 */
static u32 to_e4m3(double x, int64_t flags)
{
    const u32 sign = signbit(x) ? 0x80u : 0;
    const double mag = fabs(x);

    if (x != x)
        return 0x7f;
    if ((flags & SG_H_RELU) && sign)
        return 0;
    if (mag >= 256.0) { /* the highest binade: 256 to 448 in steps of 32, then saturation */
        const double steps = mag >= 464.0 ? 14.0 : nearest(mag / 32.0);

        return sign | (0x78u + (u32)((steps > 14.0 ? 14.0 : steps) - 8.0));
    }
    return sg_f64_to_small(x, 4, 3, 0x7f, 0); /* overflow of the format means 256 here */
}

static u32 to_e5m2(double x, int64_t flags)
{
    return sg_f64_to_small(x, 5, 2, 0x7f, (flags & SG_H_RELU) | SG_H_SATFINITE);
}

static f32 from_e4m3(u32 v)
{
    const u32 e = v >> 3 & 15, m = v & 7;
    double r = e ? ldexp(1.0 + m / 8.0, (int)e - 7) : ldexp(m / 8.0, -6);

    if ((v & 0x7f) == 0x7f)
        return __builtin_nanf("");
    return (f32)(v & 0x80 ? -r : r);
}

#define F8(id, fn) \
    HANDLER(cvt_##id##_f32) \
    { \
        const f32 *pa = SRC(f32, a), *pb = SRC(f32, b); \
        u32 *d = DST(u32, d); \
        EACH(w->mask) d[i] = fn((double)pa[i], in->imm) << 8 | fn((double)pb[i], in->imm); \
        return SG_NEXT; \
    } \
    HANDLER(cvt_##id##_f16x2) \
    { \
        const u32 *pa = SRC(u32, a); \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        d[i] = fn((double)sg_f16_to_f32((u16)(pa[i] >> 16)), in->imm) << 8 | \
               fn((double)sg_f16_to_f32((u16)pa[i]), in->imm); \
        return SG_NEXT; \
    }
F8(e4m3x2, to_e4m3)
F8(e5m2x2, to_e5m2)

HANDLER(cvt_f16x2_e4m3x2)
{
    const u32 *pa = SRC(u32, a);
    u32 *d = DST(u32, d);

    EACH(w->mask)
    {
        const u32 v = pa[i];

        d[i] = (u32)sg_f32_to_f16(from_e4m3(v >> 8 & 255), in->imm) << 16 |
               sg_f32_to_f16(from_e4m3(v & 255), in->imm);
    }
    return SG_NEXT;
}

/* e5m2 is the upper byte of f16 */
static u32 from_e5m2(u32 v)
{
    return (v & 0x7f) > 0x7c ? 0x7fff : v << 8;
}

HANDLER(cvt_f16x2_e5m2x2)
{
    const u32 *pa = SRC(u32, a);
    u32 *d = DST(u32, d);

    EACH(w->mask)
    {
        const u32 v = pa[i];

        d[i] = from_e5m2(v >> 8 & 255) << 16 | from_e5m2(v & 255);
    }
    return SG_NEXT;
}

/* cvt.pack.sat.T.s32 d, a, b{, c}: a and b saturated, c shifted up behind them */
#define PACK(id, bits, lo, hi) \
    HANDLER(pack_##id) \
    { \
        const s32 *pa = SRC(s32, a), *pb = SRC(s32, b); \
        const u32 *pc = SRC(u32, c); \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        { \
            const u32 x = (u32)SAT((wide)pa[i], lo, hi), y = (u32)SAT((wide)pb[i], lo, hi); \
            const u32 mask = (1u << bits) - 1; \
            d[i] = (bits < 16 ? pc[i] << (2 * bits % 32) : 0) | (x & mask) << bits | (y & mask); \
        } \
        return SG_NEXT; \
    }
PACK(u8, 8, 0, 255)
PACK(s8, 8, -128, 127)
PACK(u16, 16, 0, 65535)
PACK(s16, 16, -32768, 32767)
PACK(u4, 4, 0, 15)
PACK(s4, 4, -8, 7)
PACK(u2, 2, 0, 3)
PACK(s2, 2, -2, 1)

const struct sg_opdef sg_ops_cvt[] = {
    SATS(ROWS) INTS(ROWI) FFS(ROWF) ROW(cvt_f16_f64, "cvt.f16.f64", OUT(u32), IN(u64)),
    ROW(cvt_bf16_f64, "cvt.bf16.f64", OUT(u32), IN(u64)),
    ROW(cvt_tf32_f32, "cvt.tf32.f32", OUT(u32), IN(f32)),
    ROW(cvt_e4m3x2_f32, "cvt.e4m3x2.f32", OUT(u32), IN(f32), IN(f32)),
    ROW(cvt_e5m2x2_f32, "cvt.e5m2x2.f32", OUT(u32), IN(f32), IN(f32)),
    ROW(cvt_e4m3x2_f16x2, "cvt.e4m3x2.f16x2", OUT(u32), IN(u32)),
    ROW(cvt_e5m2x2_f16x2, "cvt.e5m2x2.f16x2", OUT(u32), IN(u32)),
    ROW(cvt_f16x2_e4m3x2, "cvt.f16x2.e4m3x2", OUT(u32), IN(u32)),
    ROW(cvt_f16x2_e5m2x2, "cvt.f16x2.e5m2x2", OUT(u32), IN(u32)),
    ROW(pack_u8, "cvt.pack.u8.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_s8, "cvt.pack.s8.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_u4, "cvt.pack.u4.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_s4, "cvt.pack.s4.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_u2, "cvt.pack.u2.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_s2, "cvt.pack.s2.s32", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_u16, "cvt.pack.u16.s32", OUT(u32), IN(u32), IN(u32), OPT(IN(u32))),
    ROW(pack_s16, "cvt.pack.s16.s32", OUT(u32), IN(u32), IN(u32), OPT(IN(u32))),
    {0},
};

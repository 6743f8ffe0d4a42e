/* SPDX-License-Identifier: MIT */
/* Handlers: less frequent conversions: saturating, to integers, small floats. */
#include "exec/ops/handler.h"
#include "base/half.h"

#include <float.h>

/* ---- integer to integer, saturating ---- */

typedef __int128 wide;

#define SAT(v, lo, hi) ((v) < (wide)(lo) ? (wide)(lo) : (v) > (wide)(hi) ? (wide)(hi) : (v))
#define CVT_SAT(id, name, native, DR, lo, hi, SR, ST) \
    HANDLER(id) \
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

/* ---- float to integer: always clamped; NaN is 0 or the top bit (PTX ISA, cvt) ---- */

#define CVT_INT(id, name, native, fn, DR, DT, lo, hi, limit, nan, ST) \
    HANDLER(id) \
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

/* Rounds ties to even regardless of MXCSR. */
static inline double nearest_even(double x)
{
    const double t = trunc(x), r = x - t;

    if (r == 0.5 || r == -0.5)
        return t + (fmod(t, 2.0) != 0.0 ? (r > 0 ? 1.0 : -1.0) : 0.0);
    if (r > 0.5)
        return t + 1.0;
    return r < -0.5 ? t - 1.0 : t;
}

/* ---- float to the same type, rounded to an integer: -0 stays -0 ---- */

#define CVT_FF(id, name, native, fn, ST) \
    HANDLER(id) \
    { \
        const ST *pa = SRC(ST, a); \
        ST *d = DST(ST, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            d[i] = (ST)copysign(fn((double)pa[i]), (double)pa[i]); \
        } \
        return SG_NEXT; \
    }

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

        if ((u & 0x7fffffffu) > 0x7f800000u) {
            d[i] = 0x7fffffffu;
            continue;
        }
        if ((in->imm & SG_H_RELU) && u >> 31)
            u = 0;
        r = in->imm & SG_H_RZ ? u : in->imm & SG_H_RNA ? u + 0x1000u : u + 0xfffu + (u >> 13 & 1);
        if ((u & 0x7fffffffu) == 0x7f800000u)
            r = u;
        if ((in->imm & SG_H_SATFINITE) && (r & 0x7f800000u) == 0x7f800000u)
            r = (r & 0x80000000u) | 0x7f7fe000u;
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
        const double steps = mag >= 464.0 ? 14.0 : nearest_even(mag / 32.0);

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
static u32 from_e5m2(u32 v, int64_t flags)
{
    return (v & 0x7f) > 0x7c ? 0x7fff : (flags & SG_H_RELU) && v >> 7 ? 0 : v << 8;
}

HANDLER(cvt_f16x2_e5m2x2)
{
    const u32 *pa = SRC(u32, a);
    u32 *d = DST(u32, d);

    EACH(w->mask)
    {
        const u32 v = pa[i];

        d[i] = from_e5m2(v >> 8 & 255, in->imm) << 16 | from_e5m2(v & 255, in->imm);
    }
    return SG_NEXT;
}

/* ---- formats of 4 to 16 bits: stochastic rounding, and those without infinities ---- */

struct tiny {
    int ebits, mbits;
    u32 most, over, nan; /* codes: largest finite number, result of larger numbers, NaN */
};
static const struct tiny tiny_e2m1 = {2, 1, 7, 7, 7}, tiny_e2m3 = {2, 3, 31, 31, 31},
                         tiny_e3m2 = {3, 2, 31, 31, 31}, tiny_e4m3 = {4, 3, 0x7e, 0x7e, 0x7f},
                         tiny_e5m2 = {5, 2, 0x7b, 0x7b, 0x7f}, tiny_f16 = {5, 10, 0x7bff, 0x7c00, 0x7fff},
                         tiny_bf16 = {8, 7, 0x7f7f, 0x7f80, 0x7fff};

/*
 * The code of x in a format. up: fraction added to the magnitude, in units of the last place, before
 * the digits behind the last place are dropped; negative: round to nearest.
 */
static u32 to_tiny(double x, const struct tiny *f, double up, int64_t flags)
{
    const int least = 2 - (1 << (f->ebits - 1)); /* exponent of the smallest normal number */
    const u32 sign = signbit(x) ? 1u << (f->ebits + f->mbits) : 0;
    const double mag = fabs(x);
    u32 code = f->most + 1;

    if (x != x)
        return f->nan;
    if ((flags & SG_H_RELU) && sign)
        return 0;
    if (mag <= (double)FLT_MAX) {
        const int own = mag > 0 ? ilogb(mag) : least, e = own < least ? least : own;
        const double units = ldexp(mag, f->mbits - e);

        code = ((u32)(e - least) << f->mbits) + (u32)(up < 0 ? nearest_even(units) : floor(units + up));
    }
    if (code > f->most)
        code = flags & SG_H_SATFINITE ? f->most : f->over;
    return sign | code;
}

static f32 from_tiny(u32 v, const struct tiny *f, int64_t flags)
{
    const int least = 2 - (1 << (f->ebits - 1)), bits = f->ebits + f->mbits;
    const u32 e = (v >> f->mbits) & ((1u << f->ebits) - 1), m = v & ((1u << f->mbits) - 1);
    const double mag = e ? ldexp((double)(m | 1u << f->mbits), (int)e - 1 + least - f->mbits)
                         : ldexp((double)m, least - f->mbits);

    return (f32)(!(v >> bits & 1) ? mag : flags & SG_H_RELU ? 0.0 : -mag);
}

/* Pairs: the first operand lies above the second, shift bits higher. */
#define TINY2(id, format, shift) \
    HANDLER(cvt_##id##_f32) \
    { \
        const f32 *pa = SRC(f32, a), *pb = SRC(f32, b); \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        d[i] = to_tiny((double)pa[i], &format, -1.0, in->imm) << shift | \
               to_tiny((double)pb[i], &format, -1.0, in->imm); \
        return SG_NEXT; \
    } \
    HANDLER(cvt_f16x2_##id) \
    { \
        const u32 *pa = SRC(u32, a); \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        d[i] = (u32)sg_f32_to_f16(from_tiny(pa[i] >> shift, &format, in->imm), 0) << 16 | \
               sg_f32_to_f16(from_tiny(pa[i], &format, in->imm), 0); \
        return SG_NEXT; \
    }
TINY2(e2m1x2, tiny_e2m1, 4)
TINY2(e2m3x2, tiny_e2m3, 8)
TINY2(e3m2x2, tiny_e3m2, 8)

/* Stochastic rounding: the lower `bits` of each half of c, the upper half for a. */
#define STOCHASTIC2(id, format, shift, bits) \
    HANDLER(cvt_rs_##id##_f32) \
    { \
        const f32 *pa = SRC(f32, a), *pb = SRC(f32, b); \
        const u32 *pc = SRC(u32, c), mask = (1u << bits) - 1; \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        { \
            const u32 random = pc[i]; \
            d[i] = to_tiny((double)pa[i], &format, ldexp((double)(random >> 16 & mask), -bits), in->imm) \
                       << shift | \
                   to_tiny((double)pb[i], &format, ldexp((double)(random & mask), -bits), in->imm); \
        } \
        return SG_NEXT; \
    }
STOCHASTIC2(f16x2, tiny_f16, 16, 13)
STOCHASTIC2(bf16x2, tiny_bf16, 16, 16)
STOCHASTIC2(e4m3x2, tiny_e4m3, 8, 16)
STOCHASTIC2(e5m2x2, tiny_e5m2, 8, 16)
STOCHASTIC2(e2m1x2, tiny_e2m1, 4, 16)
STOCHASTIC2(e2m3x2, tiny_e2m3, 8, 16)
STOCHASTIC2(e3m2x2, tiny_e3m2, 8, 16)

/* ue8m0: the exponent of the magnitude; 0xff stands for NaN and, without .satfinite, for too large values. */
static u32 to_ue8m0(u32 bits, int64_t flags)
{
    const u32 mag = bits & 0x7fffffffu;
    u32 e = mag >> 23;

    if (mag > 0x7f800000u)
        return 0xff;
    if ((flags & SG_H_RP) && mag < 0x7f800000u && (mag & 0x7fffffu) && mag > 0x00400000u)
        e++; /* 0x00400000 is 2^-127, the smallest number */
    return e == 0xff && (flags & SG_H_SATFINITE) ? 0xfe : e;
}

static u32 from_ue8m0(u32 v)
{
    return v == 0xff ? 0x7fff : v ? v << 7 : 0x40;
}

HANDLER(cvt_ue8m0x2_f32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u32, to_ue8m0(pa[i], in->imm) << 8 | to_ue8m0(pb[i], in->imm));
    return SG_NEXT;
}

HANDLER(cvt_ue8m0x2_bf16x2)
{
    const u32 *pa = SRC(u32, a);

    STORE(u32, to_ue8m0(pa[i] & 0xffff0000u, in->imm) << 8 | to_ue8m0(pa[i] << 16, in->imm));
    return SG_NEXT;
}

HANDLER(cvt_bf16x2_ue8m0x2)
{
    const u32 *pa = SRC(u32, a);

    STORE(u32, from_ue8m0(pa[i] >> 8 & 255) << 16 | from_ue8m0(pa[i] & 255));
    return SG_NEXT;
}

/* cvt.pack.sat.T.s32 d, a, b{, c}: a and b saturated, c shifted up behind them */
#define PACK(id, bits, lo, hi) \
    HANDLER(cvt_pack_##id##_s32) \
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

#include "exec/ops/convert.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cvt[] = {
#include "exec/ops/convert.def"
    {0},
};

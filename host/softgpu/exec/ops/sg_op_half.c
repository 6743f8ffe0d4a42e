/* SPDX-License-Identifier: MIT */
/*
 * Handlers: f16 and bf16, alone or in pairs. Values are widened to f32, computed, and rounded once:
 * f32 has more than twice the digits of f16, so the second rounding changes nothing; fma goes
 * through f64 and a rounding to odd.
 */
#include "exec/ops/half_lanes.h"

static inline void widen_half(const u32 *src, int shift, f32 *dst, bool bf)
{
    if (bf)
        widen_bf16(src, shift, dst);
    else
        widen_f16(src, shift, dst);
}

static inline void narrow_half(const f32 *src, u32 *dst, bool bf)
{
    if (bf)
        narrow_bf16(src, dst);
    else
        narrow_f16(src, dst);
}

static inline void flush_f16(f32 *x, int64_t flags, bool bf)
{
    if ((flags & SG_H_FTZ) && !bf)
        LANES x[i] = (b32(x[i]) & 0x7fffffffu) < 0x38800000u ? f32b(b32(x[i]) & 0x80000000u) : x[i];
}

static inline void finish_half(f32 *r, int64_t flags, bool bf)
{
    if (flags & SG_H_SAT)
        LANES r[i] = !(r[i] > 0.0f) ? 0.0f : r[i] > 1.0f ? 1.0f : r[i];
    if (flags & SG_H_RELU)
        LANES r[i] = r[i] < 0.0f || b32(r[i]) == 0x80000000u ? 0.0f : r[i];
    (void)bf;
}

static inline void flush_result(u32 *h, int64_t flags, bool bf)
{
    if ((flags & SG_H_FTZ) && !bf)
        LANES h[i] = (h[i] & 0x7c00u) ? h[i] : h[i] & 0x8000u;
}

/* Converts f64 to f32, rounding inexact results to odd, so that a later rounding is the only
   one. */
static inline f32 to_odd(f64 s)
{
    const f32 f = (f32)s;
    const f64 back = (f64)f;
    u32 u = b32(f);
    const bool inexact = back != s && s == s && !(u << 1 >= 0xff000000u);
    const bool away = __builtin_fabs(back) > __builtin_fabs(s);

    return inexact && !(u & 1) ? f32b(away ? u - 1 : u + 1) : f;
}

/*
 * x * y + z with one rounding left to do. The product is exact in f64; the sum may be inexact and
 * is then rounded to odd, using the lost part (Knuth's two-sum).
 */
static inline f32 fma_to_odd(f32 x, f32 y, f32 z)
{
    const f64 p = (f64)x * (f64)y, s = p + (f64)z, back = s - p;
    const f64 lost = (p - (s - back)) + ((f64)z - back);
    u64 u;
    f64 odd;

    memcpy(&u, &s, 8);
    if (lost == 0.0 || lost != lost || (u & 1) || s - s != 0.0)
        return to_odd(s);
    u += (lost > 0.0) == (s > 0.0) ? 1 : -1ull;
    memcpy(&odd, &u, 8);
    return to_odd(odd);
}

static inline f32 hmin(f32 a, f32 b, bool nan)
{
    f32 r = a < b ? a : b;

    r = a == b ? f32b(b32(a) | b32(b)) : r;
    r = a != a ? (nan ? a : b) : r;
    return b != b ? (nan ? b : a) : r;
}

static inline f32 hmax(f32 a, f32 b, bool nan)
{
    f32 r = a > b ? a : b;

    r = a == b ? f32b(b32(a) & b32(b)) : r;
    r = a != a ? (nan ? a : b) : r;
    return b != b ? (nan ? b : a) : r;
}

/* r, which has no sign, with the product of the signs of a and b */
static inline f32 hxorsign(f32 r, f32 a, f32 b)
{
    return f32b(b32(r) | ((b32(a) ^ b32(b)) & 0x80000000u));
}

static inline f32 habs(f32 a)
{
    return f32b(b32(a) & 0x7fffffffu);
}

/* pair: both halves of each register; n: operands */
#define HALF_BODY(n, bf, pair, e) \
    { \
        const u32 *pa = SRC(u32, a), *pb = n > 1 ? SRC(u32, b) : pa, *pc = n > 2 ? SRC(u32, c) : pa; \
        const int64_t flags = in->imm; \
        u32 h[2][SG_LANES]; \
        for (int k = 0; k <= pair; k++) { \
            f32 x[SG_LANES], y[SG_LANES], z[SG_LANES], r[SG_LANES]; \
            widen_half(pa, k * 16, x, bf); \
            flush_f16(x, flags, bf); \
            if (n > 1) { \
                widen_half(pb, k * 16, y, bf); \
                flush_f16(y, flags, bf); \
            } \
            if (n > 2) { \
                widen_half(pc, k * 16, z, bf); \
                flush_f16(z, flags, bf); \
            } \
            LANES \
            { \
                const f32 a = x[i], b = n > 1 ? y[i] : a, c = n > 2 ? z[i] : a; \
                (void)b; \
                (void)c; \
                r[i] = (e); \
            } \
            finish_half(r, flags, bf); \
            narrow_half(r, h[k], bf); \
            flush_result(h[k], flags, bf); \
        } \
        if (pair) \
            STORE(u32, h[0][i] | h[1][i] << 16); \
        else \
            STORE(u32, h[0][i]); \
        return SG_NEXT; \
    }

#define HALF(id, name, native, n, bf, pair, e) HANDLER(id) HALF_BODY(n, bf, pair, e)

/*
 * fma of f16 with one rounding left to do: the product of halves is exact in f32, and the sum is
 * rounded to odd, using the lost part (Knuth's two-sum). f32 has enough range: nothing overflows or
 * becomes denormal.
 */
static inline f32 fma_f16_odd(f32 x, f32 y, f32 z)
{
    const f32 p = x * y, s = p + z, back = s - p;
    const f32 lost = (p - (s - back)) + (z - back);
    const u32 inexact = lost < 0.0f || lost > 0.0f, away = (b32(s) ^ b32(lost)) >> 31;

    return f32b((b32(s) - (inexact & away)) | inexact);
}

/*
 * fma of bf16: f32 does, unless its result lies in the middle between two (then the digits it lost
 * decide) or among the denormals.
 */
static inline void fma_half(const f32 *x, const f32 *y, const f32 *z, f32 *r, bool bf)
{
    u32 doubt = 0;

    if (!bf) {
        LANES r[i] = fma_f16_odd(x[i], y[i], z[i]);
        return;
    }

    LANES
    {
        const f32 v = __builtin_fmaf(x[i], y[i], z[i]);
        const u32 u = b32(v), mag = u & 0x7fffffffu;

        r[i] = v;
        doubt |= (u & 0xffffu) == 0x8000u || mag - 1 < 0x00800000u;
    }
    if (UNLIKELY(doubt))
        LANES r[i] = fma_to_odd(x[i], y[i], z[i]);
}

/* The NaN that tensor copies fill with, of either sign: with .oob the result is +0. Its bits are not in the PTX ISA;
   a GPU has them. */
#define OOB_NAN 0x7ff7u

static inline void clear_oob(const u32 *a, const u32 *b, int shift, u32 *r)
{
    LANES r[i] = (a[i] >> shift & 0x7fffu) == OOB_NAN || (b[i] >> shift & 0x7fffu) == OOB_NAN ? 0 : r[i];
}

static int fma_op(struct sg_warp *w, const struct sg_insn *in, bool bf, int pair)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c);
    const int64_t flags = in->imm;
    u32 h[2][SG_LANES];

    for (int k = 0; k <= pair; k++) {
        f32 x[SG_LANES], y[SG_LANES], z[SG_LANES], r[SG_LANES];

        widen_half(pa, k * 16, x, bf);
        widen_half(pb, k * 16, y, bf);
        widen_half(pc, k * 16, z, bf);
        flush_f16(x, flags, bf);
        flush_f16(y, flags, bf);
        flush_f16(z, flags, bf);
        fma_half(x, y, z, r, bf);
        finish_half(r, flags, bf);
        narrow_half(r, h[k], bf);
        flush_result(h[k], flags, bf);
        if (flags & SG_H_OOB)
            clear_oob(pa, pb, k * 16, h[k]);
    }
    if (pair)
        STORE(u32, h[0][i] | h[1][i] << 16);
    else
        STORE(u32, h[0][i]);
    return SG_NEXT;
}

HANDLER(fma_f16)
{
    return fma_op(w, in, false, 0);
}

HANDLER(fma_f16x2)
{
    return fma_op(w, in, false, 1);
}

HANDLER(fma_bf16)
{
    return fma_op(w, in, true, 0);
}

HANDLER(fma_bf16x2)
{
    return fma_op(w, in, true, 1);
}

/* sign bits only: NaN keeps its bits */
#define HALF_SIGN(id, name, native, T, e) \
    HANDLER(id) \
    { \
        const u32 *pa = SRC(u32, a); \
        const u32 z = in->imm & SG_H_FTZ; \
        STORE(u32, ({ \
                  u32 a = pa[i]; \
                  a = z && !(a & 0x7c00u) ? a & ~0x3ffu : a; \
                  a = z && !(a & 0x7c000000u) ? a & ~0x3ff0000u : a; \
                  (e); \
              })); \
        return SG_NEXT; \
    }

#define HALF_CMP(id, name, native, widen, e) \
    HANDLER(id) \
    { \
        f32 x[SG_LANES], y[SG_LANES]; \
        u32 r = 0; \
        widen(SRC(u32, a), 0, x); \
        widen(SRC(u32, b), 0, y); \
        SG_VECTOR for (int i = 0; i < SG_LANES; i++) \
        { \
            const f32 a = x[i], b = y[i]; \
            r |= (e) ? sg_bit32[i] : 0; \
        } \
        sg_set_pred(w, in->d, r); \
        return SG_NEXT; \
    }

/* ---- conversions ---- */

HANDLER(cvt_f32_f16)
{
    f32 x[SG_LANES];

    widen_f16(SRC(u32, a), 0, x);
    STORE(f32, x[i]);
    return SG_NEXT;
}

HANDLER(cvt_f32_bf16)
{
    const u32 *pa = SRC(u32, a);

    STORE(u32, pa[i] << 16);
    return SG_NEXT;
}

/* Converts an f32 to a half with the flags of in->imm. */
static inline u32 half_of(f32 x, int64_t flags, bool bf)
{
    return bf ? sg_f32_to_bf16(x, flags) : sg_f32_to_f16(x, flags);
}

static inline void to_half(const f32 *src, u32 *h, int64_t flags, bool bf)
{
    if (LIKELY(!(flags & ~(int64_t)SG_H_FTZ))) {
        narrow_half(src, h, bf);
    } else {
        for (int i = 0; i < SG_LANES; i++)
            h[i] = half_of(src[i], flags, bf);
    }
}

#define CVT_HALF(id, bf) \
    HANDLER(cvt_##id##_f32) \
    { \
        u32 h[SG_LANES]; \
        to_half(SRC(f32, a), h, in->imm, bf); \
        STORE(u32, h[i]); \
        return SG_NEXT; \
    } \
    HANDLER(cvt_##id##x2_f32) /* a: high, b: low */ \
    { \
        u32 hi[SG_LANES], lo[SG_LANES]; \
        to_half(SRC(f32, a), hi, in->imm, bf); \
        to_half(SRC(f32, b), lo, in->imm, bf); \
        STORE(u32, hi[i] << 16 | lo[i]); \
        return SG_NEXT; \
    }
CVT_HALF(f16, false)
CVT_HALF(bf16, true)

#include "exec/ops/half.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(half)[] = {
#include "exec/ops/half.def"
    {0},
};

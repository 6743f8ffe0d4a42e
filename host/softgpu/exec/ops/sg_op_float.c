/* SPDX-License-Identifier: MIT */
/*
 * Handlers: f32 and f64. Rounding and flushing of denormals come from MXCSR, which the run loop
 * and fpmode set; nothing here may be folded at compile time or contracted.
 */
#include "base/trig.h"
#include "exec/ops/handler.h"

static inline u32 bits32(f32 x)
{
    u32 u;

    memcpy(&u, &x, 4);
    return u;
}

static inline f32 float32(u32 u)
{
    f32 x;

    memcpy(&x, &u, 4);
    return x;
}

static inline u64 bits64(f64 x)
{
    u64 u;

    memcpy(&u, &x, 8);
    return u;
}

static inline f64 float64(u64 u)
{
    f64 x;

    memcpy(&x, &u, 8);
    return x;
}

/* min, max: a number wins over NaN, -0 is less than +0 (PTX ISA, min/max) */
static inline f32 fmin_ptx(f32 a, f32 b)
{
    f32 r = a < b ? a : b;

    r = a == b ? float32(bits32(a) | bits32(b)) : r;
    r = a != a ? b : r;
    r = b != b ? (a != a ? float32(0x7fffffffu) : a) : r;
    return r;
}

static inline f32 fmax_ptx(f32 a, f32 b)
{
    f32 r = a > b ? a : b;

    r = a == b ? float32(bits32(a) & bits32(b)) : r;
    r = a != a ? b : r;
    r = b != b ? (a != a ? float32(0x7fffffffu) : a) : r;
    return r;
}

static inline f64 dmin_ptx(f64 a, f64 b)
{
    f64 r = a < b ? a : b;

    r = a == b ? float64(bits64(a) | bits64(b)) : r;
    r = a != a ? b : r;
    return b != b ? a : r;
}

static inline f64 dmax_ptx(f64 a, f64 b)
{
    f64 r = a > b ? a : b;

    r = a == b ? float64(bits64(a) & bits64(b)) : r;
    r = a != a ? b : r;
    return b != b ? a : r;
}

#define NAN32(r) ((a != a || b != b) ? float32(0x7fffffffu) : (r))
/* with two NaNs the result has no sign */
#define XORSIGN(r) \
    float32((bits32(r) & 0x7fffffffu) | (a != a && b != b ? 0 : (bits32(a) ^ bits32(b)) & 0x80000000u))
#define FABS(x) float32(bits32(x) & 0x7fffffffu)
/* A conversion from unsigned, without the sign: compilers build 0 as x - x, which is -0 when rounding
   down. They assume a positive result and drop an absolute value, so the mask is hidden from them. */
#define FROM_U32(x) float32(bits32(x) & (u32)sg_without_sign)
#define FROM_U64(x) float64(bits64(x) & (sg_without_sign << 32 | UINT32_MAX))
#define FLUSH(x) ((bits32(x) & 0x7f800000u) ? (x) : float32(bits32(x) & 0x80000000u))

/* A divisor of div.approx: beyond 2^126 the quotient is 0, and NaN of infinity. */
static inline f32 far_to_inf(f32 b)
{
    return FABS(b) > 0x1p126f ? float32((bits32(b) & 0x80000000u) | 0x7f800000u) : b;
}

/*
 * rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 (PTX ISA) read the high word of their operand and write
 * that of their result; the low words count as zero, and denormals too.
 */
static inline f64 gross_in(f64 a)
{
    const u64 u = bits64(a);

    return float64(u & (u & 0x7ffull << 52 ? 0xffffffff00000000ull : 1ull << 63));
}

static inline f64 gross_out(f64 r)
{
    const u64 u = bits64(r);

    return r != r ? float64(u & 0xffffffff00000000ull) : gross_in(float64(u + 0x80000000u));
}

/* CUDA documents 1 ulp for rsqrt() of a double: the root and the quotient are rounded together. */
static inline f64 rsqrt_once(f64 a)
{
    return (f64)(1.0L / __builtin_sqrtl(a));
}

/* to an integer with a clamp; NaN gives 0 */
static inline s32 to_s32(f32 x)
{
    const f32 y = x != x ? 0.0f : x < -2147483648.0f ? -2147483648.0f : x;

    return y >= 2147483648.0f ? INT32_MAX : (s32)(y >= 2147483648.0f ? 0.0f : y);
}

static inline u32 to_u32(f32 x)
{
    const f32 y = x >= 0.0f ? x : 0.0f;

    return y >= 4294967296.0f ? UINT32_MAX : (u32)(s64)(y >= 4294967296.0f ? 0.0f : y);
}

#define UNORD (a != a || b != b)

/*
 * ex2: 2^x = 2^n * 2^f, f in [-0.5, 0.5], polynomial of degree 7 with an error below 1 ulp;
 * scaling in two steps so that denormal results come out right.
 */
static inline __attribute__((always_inline)) f32 ex2_ptx(f32 x)
{
    f32 n, f, p;
    s32 k, k1;

    x = x > 200.0f ? 200.0f : x;
    x = x < -200.0f ? -200.0f : x;
    n = x + 12582912.0f; /* 1.5 * 2^23: rounds to an integer */
    n = n - 12582912.0f;
    f = x - n;
    k = (s32)n;
    p = 1.52527338e-5f;
    p = p * f + 1.54035304e-4f;
    p = p * f + 1.33335581e-3f;
    p = p * f + 9.61812911e-3f;
    p = p * f + 5.55041087e-2f;
    p = p * f + 2.40226507e-1f;
    p = p * f + 6.93147181e-1f;
    p = p * f + 1.0f;
    k1 = k >> 1;
    p = p * float32((u32)(k1 + 127) << 23);
    return p * float32((u32)(k - k1 + 127) << 23);
}

HANDLER(ex2_f32)
{
    const f32 *pa = SRC(f32, a);

    STORE(f32, ({
              const f32 a = pa[i];
              const f32 r = ex2_ptx(a);
              a != a ? a : r;
          }));
    return SG_NEXT;
}

/*
 * lg2: x = 2^e * m, m in [0.707, 1.414); log2(m) by the series of atanh((m - 1) / (m + 1)), whose
 * terms beyond the 9th power are below 2^-30.
 */
static inline f32 lg2_ptx(f32 x)
{
    const bool small = bits32(x) < 0x00800000u; /* denormal, unless they count as 0 */
    const f32 y = small ? x * 16777216.0f : x;
    const u32 u = bits32(y) - 0x3f3504f3u; /* sqrt(0.5) becomes 0 */
    const s32 e = (s32)u >> 23;
    const f32 m = float32((u & 0x7fffffu) + 0x3f3504f3u);
    const f32 s = (m - 1.0f) / (m + 1.0f), s2 = s * s;
    f32 p = 0.320598898f;

    p = p * s2 + 0.412198583f;
    p = p * s2 + 0.577078016f;
    p = p * s2 + 0.961796694f;
    p = p * s2 + 2.88539008f;
    p = p * s + ((f32)e - (small ? 24.0f : 0.0f));
    p = x == float32(0x7f800000u) || x != x ? x : p;
    p = x < 0.0f ? float32(0x7fffffffu) : p;
    return x == 0.0f ? float32(0xff800000u) : p;
}

HANDLER(lg2_f32)
{
    const f32 *pa = SRC(f32, a);

    STORE(f32, lg2_ptx(pa[i]));
    return SG_NEXT;
}

/* One libm call per lane. */
#define LIBM(id, name, native, T, e) \
    HANDLER(id) \
    { \
        const T *pa = SRC(T, a); \
        T *pd = DST(T, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            int i = __builtin_ctz(m); \
            const T a = pa[i]; \
            pd[i] = (e); \
        } \
        return SG_NEXT; \
    }

/*
 * sin (quarter 0) and cos (1) below 2^20: x = n pi / 2 + r in f64, where n is the nearest integer;
 * its low bits select sine or cosine of r, and the sign. Including the rounding to f32 the error is
 * below 0.51 ulp.
 */
static inline f32 trig_ptx(f32 x, u64 quarter)
{
    const f64 y = (f64)x, t = y * SG_TRIG_PER_QUARTER + 0x1.8p52, n = t - 0x1.8p52;
    const f64 r = (y - n * SG_TRIG_QUARTER) - n * SG_TRIG_REST, r2 = r * r;
    const u64 q = bits64(t) + quarter;
    const bool c = q & 1;
    f64 p = c ? SG_TRIG_C10 : SG_TRIG_S11;

    p = p * r2 + (c ? SG_TRIG_C8 : SG_TRIG_S9);
    p = p * r2 + (c ? SG_TRIG_C6 : SG_TRIG_S7);
    p = p * r2 + (c ? SG_TRIG_C4 : SG_TRIG_S5);
    p = p * r2 + (c ? SG_TRIG_C2 : SG_TRIG_S3);
    p = p * r2 + 1.0;
    p = c ? p : p * r;
    return (f32)float64(bits64(p) ^ q >> 1 << 63);
}

#define TRIG(id, quarter, libm) \
    HANDLER(id) \
    { \
        const f32 *pa = SRC(f32, a); \
        f32 *pd = DST(f32, d), far[SG_LANES]; \
        u32 beyond = 0; \
        SG_VECTOR for (int i = 0; i < SG_LANES; i++) beyond |= \
            (bits32(pa[i]) & 0x7fffffffu) >= SG_TRIG_END ? sg_bit32[i] : 0; \
        beyond &= w->wmask; \
        for (u32 m = beyond; m; m &= m - 1) \
            far[__builtin_ctz(m)] = libm(pa[__builtin_ctz(m)]); /* d may be a */ \
        STORE(f32, trig_ptx(pa[i], quarter)); \
        for (u32 m = beyond; m; m &= m - 1) \
            pd[__builtin_ctz(m)] = far[__builtin_ctz(m)]; \
        return SG_NEXT; \
    }
TRIG(sin_f32, 0, sinf)
TRIG(cos_f32, 1, cosf)

#include "exec/ops/float.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(flt)[] = {
#include "exec/ops/float.def"
    {0},
};

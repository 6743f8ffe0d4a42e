/* SPDX-License-Identifier: MIT */
#include "ref.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

float f32(u64 bits)
{
    const u32 u = (u32)bits;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

double f64(u64 bits)
{
    double d;

    memcpy(&d, &bits, 8);
    return d;
}

u64 bits32(float f)
{
    u32 u;

    memcpy(&u, &f, 4);
    return u;
}

u64 bits64(double d)
{
    u64 u;

    memcpy(&u, &d, 8);
    return u;
}

static int fe_mode(int flags)
{
    static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

    return modes[flags & 3];
}

double ftz32(double x)
{
    return x != 0 && fabs(x) < 0x1p-126 ? copysign(0, x) : x;
}

/* min and max: a number before NaN (unless NANP); +0 is larger than -0. */
static double extreme(bool max, double a, double b, int flags)
{
    if (flags & XORSIGN) {
        const bool sign = signbit(a) != signbit(b);
        const double r = extreme(max, fabs(a), fabs(b), flags & ~XORSIGN);

        return isnan(r) ? r : copysign(r, sign ? -1 : 1);
    }
    if (isnan(a) || isnan(b))
        return (flags & NANP) || (isnan(a) && isnan(b)) ? NAN : isnan(a) ? b : a;
    if (a == b)
        return signbit(a) == max ? b : a;
    return (a < b) != max ? a : b;
}

static double finish(double x, int flags)
{
    if (flags & SAT)
        return isnan(x) || x <= 0 ? 0 : x > 1 ? 1 : x;
    if (flags & RELU)
        return isnan(x) ? x : x <= 0 ? 0 : x;
    return x;
}

u64 op32(char op, u64 ua, u64 ub, u64 uc, int flags)
{
    volatile float a = f32(ua), b = f32(ub), c = f32(uc), r = 0;

    if (flags & FTZ) {
        a = (float)ftz32((double)a);
        b = (float)ftz32((double)b);
        c = (float)ftz32((double)c);
    }
    fesetround(fe_mode(flags));
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 'f':
        r = fmaf(a, b, c);
        break;
    case 'q':
        r = sqrtf(a);
        break;
    default:
        r = (float)extreme(op == '>', (double)a, (double)b, flags);
        break;
    }
    fesetround(FE_TONEAREST);
    if (flags & FTZ)
        r = (float)ftz32((double)r);
    return bits32((float)finish((double)r, flags));
}

u64 op64(char op, u64 ua, u64 ub, u64 uc, int flags)
{
    volatile double a = f64(ua), b = f64(ub), c = f64(uc), r = 0;

    fesetround(fe_mode(flags));
    switch (op) {
    case '+':
        r = a + b;
        break;
    case '-':
        r = a - b;
        break;
    case '*':
        r = a * b;
        break;
    case '/':
        r = a / b;
        break;
    case 'f':
        r = fma(a, b, c);
        break;
    case 'q':
        r = sqrt(a);
        break;
    default:
        r = extreme(op == '>', a, b, flags);
        break;
    }
    fesetround(FE_TONEAREST);
    return bits64(r);
}

/* ---- small formats: any finite value as a 113-bit number, rounded once ---- */

static double small_value(u64 h, int fraction, int bias)
{
    const int top = (0x8000 >> fraction) - 1, e = (int)(h >> fraction) & top;
    const int f = (int)h & ((1 << fraction) - 1);
    double x;

    if (e == top)
        x = f ? NAN : INFINITY;
    else
        x = e ? ldexp(1 + ldexp(f, -fraction), e - bias) : ldexp(f, 1 - bias - fraction);
    return h & 0x8000 ? -x : x;
}

double from16(u64 h)
{
    return small_value(h, 10, 15);
}

double fromb16(u64 h)
{
    return small_value(h, 7, 127);
}

/*
 * Rounds exactly by counting units of the last place. flags: RN or RZ. tail: remainder of the number beyond
 * x, which 113 bits could not hold.
 */
static u64 small_bits(__float128 x, __float128 tail, bool negative, int fraction, int bias, int flags)
{
    const int top = (0x8000 >> fraction) - 1;
    const u64 sign = negative ? 0x8000 : 0;
    int e = 1 - bias; /* exponent of the smallest normal number */
    __float128 unit = 1, rest;
    u64 n;

    if (x < 0) {
        x = -x;
        tail = -tail;
    }
    for (int i = 0; i < bias - 1 + fraction; i++)
        unit /= 2;
    while (x >= unit * (2 << fraction) && e <= top) {
        unit *= 2;
        e++;
    }
    if (e > top - 1 - bias)
        return sign | (flags & RZ ? (u64)(top << fraction) - 1 : (u64)top << fraction);
    n = (u64)(x / unit);
    rest = x - (__float128)n * unit;
    if (!(flags & RZ) && (rest > unit / 2 || (rest == unit / 2 && (tail > 0 || (tail == 0 && (n & 1))))))
        n++;
    /* n counts units; the encoding of normal numbers continues that of denormals */
    n += (u64)(e + bias - 1) << fraction;
    return sign | n;
}

static u64 small_round(__float128 x, __float128 tail, double special, bool negative, int fraction, int bias,
                       int flags)
{
    const u64 top = ((0x8000u >> fraction) - 1u) << fraction;

    if (isnan(special))
        return flags & SAT ? 0 : 0x7fff;
    if (flags & SAT && (negative || x <= 0))
        return 0;
    if (flags & RELU && negative)
        return 0;
    if (isinf(special))
        return flags & SAT ? (u64)bias << fraction : (negative ? 0x8000 : 0) | top;
    if (flags & SAT && x > 1)
        return (u64)bias << fraction;
    return small_bits(x, tail, negative, fraction, bias, flags);
}

static u64 op_small(char op, u64 ua, u64 ub, u64 uc, int flags, int fraction, int bias)
{
    double a = small_value(ua, fraction, bias), b = small_value(ub, fraction, bias);
    double c = small_value(uc, fraction, bias), special, r;
    const double tiny = ldexp(1, 1 - bias);
    __float128 x, product, back, tail = 0;
    bool negative;
    u64 out;

    if (flags & FTZ) {
        a = fabs(a) < tiny ? copysign(0, a) : a;
        b = fabs(b) < tiny ? copysign(0, b) : b;
        c = fabs(c) < tiny ? copysign(0, c) : c;
    }
    switch (op) { /* in double the special cases and the sign of zero come out right */
    case '+':
        special = a + b;
        x = (__float128)a + b;
        break;
    case '-':
        special = a - b;
        x = (__float128)a - b;
        break;
    case '*':
        special = a * b;
        x = (__float128)a * b;
        break;
    case 'f':
        special = fma(a, b, c);
        product = (__float128)a * b;
        x = product + c;
        back = x - product;
        if (isfinite(special))
            tail = (product - (x - back)) + (c - back);
        break;
    default:
        r = extreme(op == '>', a, b, flags);
        special = r;
        x = isfinite(r) ? r : 0;
        break;
    }
    negative = isfinite(special) && x != 0 ? x < 0 : signbit(special);
    out = small_round(x, tail, special, negative, fraction, bias, flags & ~NANP);
    if (flags & FTZ && !(out >> fraction & ((0x8000u >> fraction) - 1)))
        out &= 0x8000;
    return out;
}

u64 op16(char op, u64 a, u64 b, u64 c, int flags)
{
    return op_small(op, a & 0xffff, b & 0xffff, c & 0xffff, flags, 10, 15);
}

u64 opb16(char op, u64 a, u64 b, u64 c, int flags)
{
    return op_small(op, a & 0xffff, b & 0xffff, c & 0xffff, flags, 7, 127);
}

u64 op16x2(char op, u64 a, u64 b, u64 c, int flags)
{
    return op16(op, a, b, c, flags) | op16(op, a >> 16, b >> 16, c >> 16, flags) << 16;
}

u64 to16(double x, int flags)
{
    return small_round(isfinite(x) ? x : 0, 0, x, signbit(x), 10, 15, flags);
}

u64 tob16(double x, int flags)
{
    return small_round(isfinite(x) ? x : 0, 0, x, signbit(x), 7, 127, flags);
}

bool cmpf(const char *cmp, double a, double b)
{
    const bool nan = isnan(a) || isnan(b);

    if (!strcmp(cmp, "num"))
        return !nan;
    if (!strcmp(cmp, "nan"))
        return nan;
    if (nan)
        return cmp[2] == 'u';
    switch (cmp[0] << 8 | cmp[1]) {
    case 'e' << 8 | 'q':
        return a == b;
    case 'n' << 8 | 'e':
        return a != b;
    case 'l' << 8 | 't':
        return a < b;
    case 'l' << 8 | 'e':
        return a <= b;
    case 'g' << 8 | 't':
        return a > b;
    default:
        return a >= b;
    }
}

/* ---- conversions ---- */

double round_to_integer(double x, int round)
{
    switch (round & 3) {
    case RZ:
        return trunc(x);
    case RM:
        return floor(x);
    case RP:
        return ceil(x);
    default:
        return rint(x);
    }
}

u64 to_int(double x, int round, int bits, bool sign, bool wide)
{
    const u64 all = bits == 64 ? ~0ull : (1ull << bits) - 1;
    const double top = ldexp(1, bits - (sign ? 1 : 0)), bottom = sign ? -top : 0;

    if (isnan(x))
        return wide ? 1ull << (bits - 1) : 0;
    x = round_to_integer(x, round);
    if (x >= top)
        return sign ? all >> 1 : all;
    if (x <= bottom)
        return sign ? 1ull << (bits - 1) : 0;
    return (x < 0 ? 0 - (u64)-x : (u64)x) & all;
}

float int_to_f32(s128 v, int round)
{
    volatile s64 s = (s64)v;
    volatile u64 u = (u64)v;
    volatile float f;

    fesetround(fe_mode(round));
    f = v < 0 ? (float)s : (float)u;
    fesetround(FE_TONEAREST);
    return f;
}

double int_to_f64(s128 v, int round)
{
    volatile s64 s = (s64)v;
    volatile u64 u = (u64)v;
    volatile double d;

    fesetround(fe_mode(round));
    d = v < 0 ? (double)s : (double)u;
    fesetround(FE_TONEAREST);
    return d;
}

float f64_to_f32(double x, int flags)
{
    volatile double d = x;
    volatile float f;

    fesetround(fe_mode(flags));
    f = (float)d;
    fesetround(FE_TONEAREST);
    if (flags & FTZ)
        f = (float)ftz32((double)f);
    return (float)finish((double)f, flags);
}

/* ---- bits ---- */

u64 clamp(s128 v, s128 lo, s128 hi)
{
    return (u64)(v < lo ? lo : v > hi ? hi : v);
}

u64 bfe(u64 a, u32 pos, u32 len, int bits, bool sign)
{
    const u32 msb = (u32)bits - 1;
    u64 r = 0, fill = 0;

    pos &= 0xff;
    len &= 0xff;
    if (sign && len)
        fill = a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1;
    for (u32 i = 0; i <= msb; i++)
        r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : fill) << i;
    return r;
}

u64 bfi(u64 a, u64 b, u32 pos, u32 len, int bits)
{
    pos &= 0xff;
    len &= 0xff;
    for (u32 i = 0; i < len && pos + i < (u32)bits; i++)
        b = (b & ~(1ull << (pos + i))) | (a >> i & 1) << (pos + i);
    return b;
}

u64 prmt(u32 a, u32 b, u32 c, const char *mode)
{
    const u64 all = (u64)b << 32 | a;
    const int n = (int)(c & 3);
    u32 r = 0;

    for (int i = 0; i < 4; i++) {
        int pick;
        u8 byte;

        if (!*mode)
            pick = (int)(c >> (4 * i) & 7);
        else if (!strcmp(mode, "f4e"))
            pick = n + i;
        else if (!strcmp(mode, "b4e"))
            pick = (n - i) & 7;
        else if (!strcmp(mode, "rc8"))
            pick = n;
        else if (!strcmp(mode, "ecl"))
            pick = i > n ? i : n;
        else if (!strcmp(mode, "ecr"))
            pick = i < n ? i : n;
        else /* rc16 */
            pick = (n & 1) * 2 + (i & 1);
        byte = (u8)(all >> (8 * pick));
        if (!*mode && c >> (4 * i) & 8)
            byte = byte & 0x80 ? 0xff : 0;
        r |= (u32)byte << (8 * i);
    }
    return r;
}

u64 lop3(u32 a, u32 b, u32 c, unsigned table)
{
    u32 r = 0;

    for (int i = 0; i < 32; i++)
        r |= (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | (c >> i & 1)) & 1u) << i;
    return r;
}

u64 reverse(u64 v, int bits)
{
    u64 r = 0;

    for (int i = 0; i < bits; i++)
        r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}

int leading_zeros(u64 v, int bits)
{
    int n = 0;

    while (n < bits && !(v >> (bits - 1 - n) & 1))
        n++;
    return n;
}

u64 dot4(u32 a, u32 b, u32 c, bool sa, bool sb)
{
    for (int i = 0; i < 32; i += 8)
        c += (u32)((sa ? (s8)(a >> i) : (u8)(a >> i)) * (sb ? (s8)(b >> i) : (u8)(b >> i)));
    return c;
}

u64 dot2(u32 a, u32 b, u32 c, bool sa, bool sb, bool high)
{
    for (int i = 0; i < 2; i++) {
        const s32 x = sa ? (s16)(a >> (16 * i)) : (u16)(a >> (16 * i));
        const int at = 8 * i + (high ? 16 : 0);

        c += (u32)(x * (sb ? (s8)(b >> at) : (u8)(b >> at)));
    }
    return c;
}

/* ---- approximate functions ---- */

/* 2^e times m, m between the roots of 0.5 and 2; the logarithm of m as a series of (m - 1) / (m + 1) */
static float lg2_steps(float x)
{
    static const float series[] = {0.412198583f, 0.577078016f, 0.961796694f, 2.88539008f};
    const bool small = x > 0 && x < 0x1p-126f;
    const int bits = (int)((u32)bits32(small ? x * 0x1p24f : x) - 0x3f3504f3u);
    const float m = f32(((u32)bits & 0x7fffffu) + 0x3f3504f3u), s = (m - 1) / (m + 1);
    float p = 0.320598898f;

    if (isnan(x) || x < 0)
        return NAN;
    if (x == 0 || isinf(x))
        return x == 0 ? -INFINITY : x;
    for (int k = 0; k < 4; k++)
        p = p * (s * s) + series[k];
    return p * s + (float)((bits >> 23) - (small ? 24 : 0));
}

/* The angle minus n right angles, then its Taylor series. From 2^20 on, the C library's function. */
static float sine_steps(float x, int right)
{
    static const double divisors[2][5] = {{-39916800, 362880, -5040, 120, -6},
                                          {-3628800, 40320, -720, 24, -2}};
    const double n = nearbyint((double)x * 0x1.45f306dc9c883p-1) + 0.0; /* no -0 */
    double r, p;
    long k;

    if (isnan(x) || isinf(x))
        return NAN;
    if (fabsf(x) >= 0x1p20f)
        return right ? cosf(x) : sinf(x);
    k = (long)n + right;
    r = (double)x - n * 0x1.921fb544p0 - n * 0x1.0b4611a626331p-34;
    p = 1 / divisors[k & 1][0];
    for (int i = 1; i < 5; i++)
        p = p * (r * r) + 1 / divisors[k & 1][i];
    p = p * (r * r) + 1;
    p = k & 1 ? p : p * r;
    return (float)(k & 2 ? -p : p);
}

u64 approx32(char what, u64 a, int flags)
{
    const double in = (double)f32(a);
    const float x = (float)(flags & FTZ ? ftz32(in) : in),
                r = what == 'l' ? lg2_steps(x) : sine_steps(x, what == 'c');

    return bits32((float)(flags & FTZ ? ftz32((double)r) : (double)r));
}

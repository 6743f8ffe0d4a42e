/* SPDX-License-Identifier: MIT */
/* Opcodes on floating point, and conversions; see exec/ops/op_test.h. */
#include "exec/ops/op_test.h"

static float ref_min(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static float ref_max(float a, float b)
{
    return isnan(a) ? b : isnan(b) ? a : a == b ? (signbit(a) ? b : a) : a > b ? a : b;
}

static float ftz(float x)
{
    return fpclassify(x) == FP_SUBNORMAL ? copysignf(0, x) : x;
}

#define RT(mode, sig, op, e) \
    do { \
        inputs(sig); \
        fesetround(mode); \
        for (int k_ = 0; k_ < N; k_++) { \
            const volatile u64 va = in[0][k_], vb = in[1][k_], vc = in[2][k_]; \
            const u64 a = va, b = vb, c = vc; \
            volatile u64 r_ = (u64)(e); \
            (void)b; \
            (void)c; \
            expect[k_] = r_; \
        } \
        fesetround(FE_TONEAREST); \
        run(sig, op); \
    } while (0)

static void test_float(void)
{
    static const struct {
        int mode;
        const char *name;
    } modes[] = {{FE_TONEAREST, "rn"}, {FE_TOWARDZERO, "rz"}, {FE_DOWNWARD, "rm"}, {FE_UPWARD, "rp"}};
    char op[64];

    for (int i = 0; i < 4; i++) {
#define M(sig, base, e) \
    do { \
        snprintf(op, sizeof(op), base, modes[i].name); \
        RT(modes[i].mode, sig, op, e); \
    } while (0)
        M("fff", "add.%s.f32", B32(F32(a) + F32(b)));
        M("fff", "mul.%s.f32", B32(F32(a) * F32(b)));
        M("ffff", "fma.%s.f32", B32(fmaf(F32(a), F32(b), F32(c))));
        M("fff", "div.%s.f32", B32(F32(a) / F32(b)));
        M("ff", "sqrt.%s.f32", B32(sqrtf(F32(a))));
        M("ff", "rcp.%s.f32", B32(1.0f / F32(a)));
        M("FFF", "sub.%s.f64", B64(F64(a) - F64(b)));
        M("FFF", "mul.%s.f64", B64(F64(a) * F64(b)));
        M("FFFF", "fma.%s.f64", B64(fma(F64(a), F64(b), F64(c))));
        M("FFF", "div.%s.f64", B64(F64(a) / F64(b)));
        M("fF", "cvt.%s.f32.f64", B32((float)F64(a)));
        M("fw", "cvt.%s.f32.s32", B32((float)SA));
        M("fw", "cvt.%s.f32.u32", B32((float)(double)UA));
        M("fd", "cvt.%s.f32.s64", B32((float)(s64)a));
        M("Fd", "cvt.%s.f64.s64", B64((double)(s64)a));
    }
    T("fff", "add.ftz.f32", B32(ftz(ftz(F32(a)) + ftz(F32(b)))));
    T("fff", "mul.ftz.f32", B32(ftz(ftz(F32(a)) * ftz(F32(b)))));
    T("fff", "add.sat.f32", B32(!(F32(a) + F32(b) > 0) ? 0 : F32(a) + F32(b) > 1 ? 1 : F32(a) + F32(b)));
    T("fff", "min.f32", B32(ref_min(F32(a), F32(b))));
    T("fff", "max.f32", B32(ref_max(F32(a), F32(b))));
    T("fff", "min.NaN.f32", isnan(F32(a)) || isnan(F32(b)) ? 0x7fffffff : B32(ref_min(F32(a), F32(b))));
    T("FFF", "max.f64",
      B64(isnan(F64(a))      ? F64(b)
          : isnan(F64(b))    ? F64(a)
          : F64(a) == F64(b) ? (signbit(F64(a)) ? F64(b) : F64(a))
          : F64(a) > F64(b)  ? F64(a)
                             : F64(b)));
    T("ff", "neg.f32", a ^ 0x80000000u);
    T("ff", "abs.f32", a & 0x7fffffffu);
    T("ff", "neg.ftz.f32", B32(ftz(F32(a ^ 0x80000000u))));
    T("FF", "abs.f64", a & ~(1ull << 63));
    T("fff", "copysign.f32", (b & 0x7fffffffu) | (a & 0x80000000u));
    tolerance = 4e-7;
    T("fff", "div.full.f32", B32(F32(a) / F32(b)));
    T("ff", "rsqrt.approx.f32", B32((float)(1.0 / sqrt((double)F32(a)))));
    T("ff", "ex2.approx.f32", B32((float)exp2((double)F32(a))));
    T("ff", "lg2.approx.f32", B32((float)log2((double)F32(a))));
    T("ff", "tanh.approx.f32", B32((float)tanh((double)F32(a))));
    T("ff", "sin.approx.f32", B32((float)sin((double)F32(a))));
    T("ff", "cos.approx.f32", B32((float)cos((double)F32(a))));
    T("ff", "sqrt.approx.ftz.f32", B32((float)sqrt((double)ftz(F32(a)))));
    T("ff", "rsqrt.approx.ftz.f32", B32((float)(1.0 / sqrt((double)ftz(F32(a))))));
    T("ff", "sin.approx.ftz.f32", B32((float)sin((double)ftz(F32(a)))));
    T("ff", "cos.approx.ftz.f32", B32((float)cos((double)ftz(F32(a)))));
    /* the divisor below 2: beyond 2^126 the result is 0 by the manual, or right */
    T("fff",
      "$ { .reg .b32 u; .reg .f32 t; mov.b32 u, %b; and.b32 u, u, 0xbfffffff; mov.b32 t, u; "
      "div.approx.ftz.f32 %d, %a, t; }",
      B32(ftz(ftz(F32(a)) / ftz(F32(b & 0xbfffffffu)))));
    tolerance = 0;
}

static u64 ref_f2i(double v, int bits, bool sign, bool f64src)
{
    const double lo = sign ? -ldexp(1, bits - 1) : 0, hi = ldexp(1, sign ? bits - 1 : bits);

    if (isnan(v))
        return bits == 64 || (bits == 32 && f64src) ? 1ull << (bits - 1) : 0;
    if (v < lo)
        return sign ? ~0ull << (bits - 1) : 0;
    if (v >= hi)
        return sign ? (1ull << (bits - 1)) - 1 : bits == 64 ? ~0ull : (1ull << bits) - 1;
    return sign ? (u64)(s64)v : (u64)v;
}

static void test_cvt(void)
{
    T("wh", "cvt.u32.u16", (u16)a);
    T("wh", "cvt.s32.s16", (s16)a);
    T("ww", "cvt.s32.s8", (s8)a);
    T("ww", "cvt.u32.u8", (u8)a);
    T("hw", "cvt.u16.u32", (u16)a);
    T("wd", "cvt.u32.u64", (u32)a);
    T("dw", "cvt.s64.s32", (s64)SA);
    T("dw", "cvt.u64.u32", UA);
    T("hw", "cvt.s8.s32", (s8)a);
    T("ww", "cvt.sat.u8.s32", clamp64(SA, 0, 255));
    T("ww", "cvt.sat.s8.u32", clamp64(UA, -128, 127));
    T("wd", "cvt.sat.u32.u64", a >> 32 ? 0xffffffffu : (u32)a); /* found by tests/ptx/random */
    T("wd", "cvt.sat.s32.s64", clamp64((s64)a, INT32_MIN, INT32_MAX));
    T("dd", "cvt.sat.u64.s64", clamp64((s64)a, 0, UINT64_MAX));
    T("wf", "cvt.rzi.s32.f32", ref_f2i(trunc((double)F32(a)), 32, true, false));
    T("wf", "cvt.rni.s32.f32", ref_f2i(nearbyint((double)F32(a)), 32, true, false));
    T("wf", "cvt.rmi.s32.f32", ref_f2i(floor((double)F32(a)), 32, true, false));
    T("wf", "cvt.rpi.s32.f32", ref_f2i(ceil((double)F32(a)), 32, true, false));
    T("wf", "cvt.rzi.u32.f32", ref_f2i(trunc((double)F32(a)), 32, false, false));
    T("wf", "cvt.rpi.u32.f32", ref_f2i(ceil((double)F32(a)), 32, false, false));
    T("df", "cvt.rzi.s64.f32", ref_f2i(trunc((double)F32(a)), 64, true, false));
    T("dF", "cvt.rzi.u64.f64", ref_f2i(trunc(F64(a)), 64, false, true));
    T("wF", "cvt.rni.s32.f64", ref_f2i(nearbyint(F64(a)), 32, true, true));
    T("hf", "cvt.rzi.u16.f32", ref_f2i(trunc((double)F32(a)), 16, false, false));
    T("hf", "cvt.rzi.s8.f32", ref_f2i(trunc((double)F32(a)), 8, true, false));
    T("ff", "cvt.rni.f32.f32", B32(nearbyintf(F32(a))));
    T("ff", "cvt.rmi.f32.f32", B32(floorf(F32(a))));
    T("FF", "cvt.rpi.f64.f64", B64(ceil(F64(a))));
    T("ff", "cvt.sat.f32.f32", B32(!(F32(a) > 0) ? 0 : F32(a) > 1 ? 1 : F32(a)));
    T("Ff", "cvt.f64.f32", B64((double)F32(a)));
    T("fe", "cvt.f32.f16", B32(sg_f16_to_f32((u16)a)));
    T("Fe", "cvt.f64.f16", B64((double)sg_f16_to_f32((u16)a)));
    T("fg", "cvt.f32.bf16", a << 16);
    T("we", "cvt.rni.s32.f16", ref_f2i(nearbyint((double)sg_f16_to_f32((u16)a)), 32, true, false));
    T("gf", "cvt.rn.bf16.f32", isnan(F32(a)) ? 0x7fff : (UA + 0x7fff + (UA >> 16 & 1)) >> 16);
    T("gf", "cvt.rz.bf16.f32", isnan(F32(a)) ? 0x7fff : UA >> 16);
    T("www", "$ cvt.pack.sat.u8.s32.b32 %d, %a, %b, 0x1234;",
      0x12340000u | (u32)clamp64(SA, 0, 255) << 8 | (u32)clamp64(SB, 0, 255));
}

/* f16 by search: the nearest of all 65536 values, ties to even */
static u16 ref_f16(double d)
{
    static double val[0x7c01];
    static bool have;
    u32 lo = 0, hi = 0x7c00;
    u16 s = signbit(d) ? 0x8000 : 0;

    if (!have) {
        for (u32 i = 0; i <= 0x7bff; i++)
            val[i] = i < 0x400 ? ldexp(i, -24) : ldexp(1024 + (i & 1023), (int)(i >> 10) - 25);
        val[0x7c00] = 65536.0;
        have = true;
    }
    if (isnan(d))
        return 0x7fff;
    d = fabs(d);
    if (d >= 65536.0)
        return s | 0x7c00;
    while (hi - lo > 1) {
        u32 mid = (lo + hi) / 2;

        if (val[mid] <= d)
            lo = mid;
        else
            hi = mid;
    }
    if (d - val[lo] > val[hi] - d || (d - val[lo] == val[hi] - d && (lo & 1)))
        lo = hi;
    return s | (u16)lo;
}

static double H(u64 v)
{
    return (double)sg_f16_to_f32((u16)v);
}

static void test_half(void)
{
    T("ef", "cvt.rn.f16.f32", ref_f16((double)F32(a)));
    T("eF", "cvt.rn.f16.f64", ref_f16(F64(a)));
    T("ew", "cvt.rn.f16.s32", ref_f16((double)SA));
    T("Eff", "cvt.rn.f16x2.f32", (u32)ref_f16((double)F32(a)) << 16 | ref_f16((double)F32(b)));
    T("eee", "add.f16", ref_f16(H(a) + H(b)));
    T("eee", "sub.rn.f16", ref_f16(H(a) - H(b)));
    T("eee", "mul.f16", ref_f16(H(a) * H(b)));
    T("eeee", "fma.rn.f16", ref_f16(fma(H(a), H(b), H(c))));
    T("EEE", "add.f16x2", (u32)ref_f16(H(a) + H(b)) | (u32)ref_f16(H(a >> 16) + H(b >> 16)) << 16);
    T("EEEE", "fma.rn.f16x2",
      (u32)ref_f16(fma(H(a), H(b), H(c))) | (u32)ref_f16(fma(H(a >> 16), H(b >> 16), H(c >> 16))) << 16);
    T("eee", "max.f16", ref_f16((double)ref_max((float)H(a), (float)H(b))));
    T("EE", "neg.f16x2", a ^ 0x80008000u);
    T("ee", "abs.f16", a & 0x7fff);
    T("eeee", "fma.rn.relu.f16", fma(H(a), H(b), H(c)) <= 0 ? 0 : ref_f16(fma(H(a), H(b), H(c))));
    T("ggg", "$ { .reg .f32 x, y; add.bf16 %d, %a, %b; }", ({
          u32 u = (u32)B32(sg_bf16_to_f32((u16)a) + sg_bf16_to_f32((u16)b));
          (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
      }));
}

/* f32 to a small float by looking for the nearest of all its values; fraction and bias of the
   format. */
static u64 ref_small(double x, int fraction, int bias, int last)
{
    const u64 sign = signbit(x) ? 0x80 : 0;
    int best = 0;

    if (isnan(x))
        return 0x7f;
    for (int c = 0; c <= last; c++) {
        const int e = c >> fraction, f = c & ((1 << fraction) - 1);
        const double v = e ? ldexp(1 + ldexp(f, -fraction), e - bias) : ldexp(f, 1 - bias - fraction);
        const int be = best >> fraction, bf = best & ((1 << fraction) - 1);
        const double w = be ? ldexp(1 + ldexp(bf, -fraction), be - bias) : ldexp(bf, 1 - bias - fraction);
        const double dv = fabs(fabs(x) - v), dw = fabs(fabs(x) - w);

        if (fabs(x) > 1e9 || dv < dw || (dv == dw && !(c & 1)))
            best = c;
    }
    return sign | (u64)best;
}

static u64 ref_from_small(u64 c, int fraction, int bias, bool ieee)
{
    const int e = (int)(c & 0x7f) >> fraction, f = (int)c & ((1 << fraction) - 1);
    const double s = c & 0x80 ? -1 : 1;

    if ((c & 0x7f) == 0x7f || (ieee && e == (0x80 >> fraction) - 1 && f))
        return 0x7fff;
    if (ieee && e == (0x80 >> fraction) - 1)
        return s < 0 ? 0xfc00 : 0x7c00;
    return ref_f16(s * (e ? ldexp(1 + ldexp(f, -fraction), e - bias) : ldexp(f, 1 - bias - fraction)));
}

static u64 ref_bf16(float x)
{
    const u32 u = (u32)B32(x);

    return (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16;
}

/* Less common instructions of ggml and cuBLAS: small floats, pairs of bf16, tf32, packing. */
static void test_rare(void)
{
    T("hff", "cvt.rn.satfinite.e4m3x2.f32",
      ref_small((double)F32(a), 3, 7, 0x7e) << 8 | ref_small((double)F32(b), 3, 7, 0x7e));
    T("hff", "cvt.rn.satfinite.e5m2x2.f32",
      ref_small((double)F32(a), 2, 15, 0x7b) << 8 | ref_small((double)F32(b), 2, 15, 0x7b));
    T("wh", "cvt.rn.f16x2.e4m3x2",
      ref_from_small(a >> 8 & 255, 3, 7, false) << 16 | ref_from_small(a & 255, 3, 7, false));
    T("Eh", "cvt.rn.f16x2.e5m2x2",
      ref_from_small(a >> 8 & 255, 2, 15, true) << 16 | ref_from_small(a & 255, 2, 15, true));
    T("wff", "cvt.rn.bf16x2.f32", ref_bf16(F32(a)) << 16 | ref_bf16(F32(b)));
    T("www", "add.bf16x2",
      ref_bf16(F32(a << 16) + F32(b << 16)) | ref_bf16(F32(a & 0xffff0000u) + F32(b & 0xffff0000u)) << 16);
    T("ff", "$ { .reg .b32 t; cvt.rn.tf32.f32 t, %a; mov.b32 %d, t; }",
      isfinite(F32(a)) ? (UA + 0xfff + (UA >> 13 & 1)) & ~0x1fffu : a);
    T("wwww", "cvt.pack.sat.s8.s32.b32",
      (UC << 16) | (clamp64(SA, -128, 127) & 255) << 8 | (clamp64(SB, -128, 127) & 255));
}

/* mad without a rounding, in the texts of early compilers: of a denormal number and 1, plus 0. */
static void test_first_mad(void)
{
    static const struct {
        const char *head;
        u32 want;
    } rows[] = {{".version 1.4\n.target sm_10\n", 0}, {".version 2.3\n.target sm_20\n", 0x00300000}};

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sg_fault f = {0};
        u32 *got = tm_alloc(4);
        char text[400];
        struct tk t;
        int r = -1;

        snprintf(
            text, sizeof(text),
            "%s.entry t(.param .u64 o)\n{\n.reg .f32 %%f<4>;\n.reg .u64 %%rd<2>;\nld.param.u64 %%rd1, [o];\n"
            "mov.f32 %%f1, 0f00300000;\nmov.f32 %%f2, 0f3f800000;\nmov.f32 %%f3, 0f00000000;\n"
            "mad.f32 %%f1, %%f1, %%f2, %%f3;\nst.global.f32 [%%rd1], %%f1;\nexit;\n}\n",
            rows[i].head);
        *got = 1;
        if (tk_open(&t, text, "t")) {
            r = tk_run(&t, 1, 1, &got, &f);
            tk_close(&t);
        }
        t_result("mad without a rounding", !r && *got == rows[i].want, "row %zu: result %d, %#x", i, r, *got);
    }
}

int main(int argc, char **argv)
{
    op_start(argc, argv);
    test_first_mad();
    test_float();
    test_cvt();
    test_half();
    test_rare();
    return t_end("softgpu float opcodes");
}

/* SPDX-License-Identifier: MIT */
/*
 * Every group of opcodes against a plain C reference, on edge values and pseudo-random ones. Each
 * instruction runs twice: for all lanes, and under a predicate that holds for odd lanes.
 *
 * Signature: result, then operands. w 32 bits, d 64 bits, h 16 bits, s a shift amount or small
 * number, p predicate, f f32, F f64, e f16, E f16x2, g bf16.
 */
#include "sg_exec_test.h"
#include "sg_exec_core.h"
#include "sg_half.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t s8;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;

#define N 500
#define SENTINEL 0x5a5a5a5a5a5a5a5aull

static u64 *in[3], *out, expect[N];

static const u32 edge32[] = {0, 1, 2, 3, 7, 31, 32, 33, 0xff, 0x7fff, 0x8000, 0xffff, 0x10000,
                             0x7fffffff, 0x80000000, 0x80000001, 0xfffffffe, 0xffffffff,
                             0x55555555, 0x12345678};
static const u32 edgef[] = {0, 0x80000000, 0x3f800000, 0xbf800000, 0x7f800000, 0xff800000,
                            0x7fc00000, 1, 0x807fffff, 0x00800000, 0x7f7fffff, 0x3f000000,
                            0x3fc00000, 0x40200000, 0xc0600000, 0x4f000000, 0xcf000000,
                            0x4f800000, 0x5f000000, 0x33800000};
static const u64 edgeF[] = {0, 1ull << 63, 0x3ff0000000000000, 0xbff0000000000000,
                            0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 1,
                            0x000fffffffffffff, 0x7fefffffffffffff, 0x3fe0000000000000,
                            0x41dfffffffc00000, 0xc1e0000000200000, 0x41f0000000000000,
                            0x43e0000000000000, 0x3ff8000000000000, 0x4004000000000000,
                            0xc00c000000000000, 0x380fffffffffffff, 0x47efffffffffffff};
static const u16 edgee[] = {0, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1, 0x83ff, 0x0400,
                            0x7bff, 0x3800, 0x3e00, 0x3555, 0x4248, 0xc500, 0x0001, 0x2e66, 0x6400,
                            0x1400};

static u64 rng = 88172645463325252ull;
static u64 rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static u64 value(char t, unsigned k, unsigned which)
{
    unsigned i = which == 0 ? k % 20 : which == 1 ? k / 20 % 20 : (k * 7 + k / 20) % 20;
    bool edge = k < 400;
    u64 r = rnd();

    switch (t) {
    case 'w': return edge ? edge32[i] : (u32)r;
    case 'd': return !edge ? r : i < 18 ? (u64)(s64)(s32)edge32[i] : (u64)edge32[i] << 33;
    case 'h': return edge ? (u16)(edge32[i] >> (i == 13 ? 8 : 0)) : (u16)r;
    case 's': return edge ? i * 4 + (k & 3) : r % 70;
    case 'p': return r & 1;
    case 'f': return edge ? edgef[i] : ((u32)r & 0x83ffffffu) + 0x3e000000u;
    case 'F': return edge ? edgeF[i] : (r & 0x803fffffffffffffull) + 0x3fe0000000000000ull;
    case 'e': return edge ? edgee[i] : (u16)r;
    case 'E': return edge ? edgee[i] | (u32)edgee[(i + 3) % 20] << 16 : (u32)r;
    case 'g': return edge ? edgef[i] >> 16 : (u16)((r & 0x83ff) + 0x3e00);
    default: return 0;
    }
}

static const char *ptx_type(char t)
{
    return t == 'd' ? "b64" : t == 'F' ? "f64" : t == 'f' ? "f32"
           : strchr("heg", t) ? "b16" : t == 'p' ? "pred" : "b32";
}

static int bytes(char t)
{
    return strchr("dF", t) ? 8 : strchr("heg", t) ? 2 : 4;
}

/* The text of a kernel that runs one instruction; $ in op stands for the operands. */
static void make_text(char *text, size_t size, const char *sig, const char *op, bool pred)
{
    size_t n = 0;
    const char *dt = ptx_type(sig[0]);

#define ADD(...) n += (size_t)snprintf(text + n, size - n, __VA_ARGS__)
    ADD(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p0, "
        ".param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4)\n{\n"
        ".reg .pred %%p<9>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<9>;\n.reg .%s %%d;\n", dt);
    for (int i = 1; sig[i]; i++)
        ADD(".reg .%s %%%c;\n", ptx_type(sig[i]), 'a' + i - 1 == 'd' ? 'e' : 'a' + i - 1);
    ADD("mov.u32 %%r1, %%ctaid.x;\nmov.u32 %%r2, %%ntid.x;\nmov.u32 %%r3, %%tid.x;\n"
        "mad.lo.s32 %%r4, %%r1, %%r2, %%r3;\nld.param.u32 %%r5, [p4];\n"
        "setp.ge.u32 %%p1, %%r4, %%r5;\n@%%p1 bra END;\nmul.wide.u32 %%rd5, %%r4, 8;\n"
        "and.b32 %%r6, %%r3, 1;\nsetp.eq.u32 %%p2, %%r6, 1;\nld.param.u64 %%rd4, [p3];\n"
        "add.s64 %%rd4, %%rd4, %%rd5;\n");
    if (sig[0] == 'p')
        ADD("setp.ne.b32 %%d, %%r3, %%r3;\n");
    else
        ADD("ld.global.%s %%d, [%%rd4];\n", dt);
    for (int i = 1; sig[i]; i++) {
        ADD("ld.param.u64 %%rd1, [p%d];\nadd.s64 %%rd1, %%rd1, %%rd5;\n", i - 1);
        if (sig[i] == 'p')
            ADD("ld.global.b32 %%r7, [%%rd1];\nsetp.ne.b32 %%%c, %%r7, 0;\n", 'a' + i - 1);
        else
            ADD("ld.global.%s %%%c, [%%rd1];\n", ptx_type(sig[i]), 'a' + i - 1);
    }
    if (pred && !strncmp(op, "$ {", 3))
        ADD("@!%%p2 bra SKIP;\n"); /* a block: skipped by a branch */
    else if (pred)
        ADD("@%%p2 ");
    if (strchr(op, '$')) {
        ADD("%.*s%s\n", (int)(strchr(op, '$') - op), op, strchr(op, '$') + 1);
    } else {
        ADD("%s %%d", op);
        for (int i = 1; sig[i]; i++)
            ADD(", %%%c", 'a' + i - 1);
        ADD(";\n");
    }
    ADD("SKIP:\n");
    if (sig[0] == 'p')
        ADD("selp.b32 %%r7, 1, 0, %%d;\nst.global.b32 [%%rd4], %%r7;\n");
    else
        ADD("st.global.%s [%%rd4], %%d;\n", dt);
    ADD("END:\nret;\n}\n");
}

static bool is_nan(char t, u64 v)
{
    switch (t) {
    case 'f': return (v & 0x7fffffff) > 0x7f800000;
    case 'F': return (v & ~(1ull << 63)) > 0x7ff0000000000000ull;
    case 'e': return (v & 0x7fff) > 0x7c00;
    case 'g': return (v & 0x7fff) > 0x7f80;
    default: return false;
    }
}

static bool same_one(char t, u64 x, u64 y, double tol)
{
    if (bytes(t) == 4) {
        x = (u32)x;
        y = (u32)y;
    } else if (bytes(t) == 2) {
        x = (u16)x;
        y = (u16)y;
    }
    if (x == y || (is_nan(t, x) && is_nan(t, y)))
        return true;
    if (tol > 0 && t == 'f') {
        float a, b;
        u32 ux = (u32)x, uy = (u32)y;

        memcpy(&a, &ux, 4);
        memcpy(&b, &uy, 4);
        return fabs((double)a - (double)b) <= tol * fabs((double)b) + (double)1e-37f;
    }
    if (tol > 0 && t == 'F') {
        double a, b;

        memcpy(&a, &x, 8);
        memcpy(&b, &y, 8);
        return fabs(a - b) <= tol * fabs(b) + 1e-300;
    }
    return false;
}

static bool same(char t, u64 x, u64 y, double tol)
{
    if (t == 'E')
        return same_one('e', x & 0xffff, y & 0xffff, 0) &&
               same_one('e', x >> 16 & 0xffff, y >> 16 & 0xffff, 0);
    return same_one(t, x, y, tol);
}

static double tolerance;

static void run(const char *sig, const char *op)
{
    char text[4096], name[200];
    struct { u64 *a, *b, *c, *o; u32 n; } prm = {in[0], in[1], in[2], out, N};

    for (int pred = 0; pred < 2; pred++) {
        struct sg_fault f = {0};
        struct tk t;
        bool ok = true;
        int r = -1, at = 0;

        snprintf(name, sizeof(name), "%s%s", pred ? "@p " : "", op);
        make_text(text, sizeof(text), sig, op, pred);
        for (int i = 0; i < N; i++)
            out[i] = SENTINEL;
        if (tk_open(&t, text, "t")) {
            r = tk_run(&t, (N + 127) / 128, 128, &prm, &f);
            tk_close(&t);
        } else {
            sg_module_free(t.m);
        }
        for (int i = 0; i < N && ok; i++) {
            u64 want = pred && !(i & 1) ? (sig[0] == 'p' ? 0 : SENTINEL) : expect[i];

            at = i;
            ok = same(sig[0], out[i], want, tolerance);
        }
        t_result(name, !r && ok,
                 "result %d %s; a=%llx b=%llx c=%llx gives %llx, expected %llx", r, f.message,
                 (unsigned long long)in[0][at], (unsigned long long)in[1][at],
                 (unsigned long long)in[2][at], (unsigned long long)out[at],
                 (unsigned long long)(pred && !(at & 1) ? SENTINEL : expect[at]));
    }
}

static void inputs(const char *sig)
{
    for (int i = 0; i < 3; i++)
        for (unsigned k = 0; k < N; k++)
            in[i][k] = (size_t)i + 1 < strlen(sig) ? value(sig[i + 1], k, (unsigned)i) : 0;
}

static float F32(u64 v)
{
    u32 u = (u32)v;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static double F64(u64 v)
{
    double d;

    memcpy(&d, &v, 8);
    return d;
}

static u64 B32(float f)
{
    u32 u;

    memcpy(&u, &f, 4);
    return u;
}

static u64 B64(double d)
{
    u64 u;

    memcpy(&u, &d, 8);
    return u;
}

/* e may use a, b, c (the raw operands) */
#define T(sig, op, e)                                                        \
    do {                                                                     \
        inputs(sig);                                                         \
        for (int k_ = 0; k_ < N; k_++) {                                     \
            const u64 a = in[0][k_], b = in[1][k_], c = in[2][k_];           \
            (void)a;                                                         \
            (void)b;                                                         \
            (void)c;                                                         \
            expect[k_] = (u64)(e);                                           \
        }                                                                    \
        run(sig, op);                                                        \
    } while (0)
#define SA ((s32)a)
#define SB ((s32)b)
#define UA ((u32)a)
#define UB ((u32)b)
#define UC ((u32)c)

static u64 clamp64(__int128 v, __int128 lo, __int128 hi)
{
    return (u64)(v < lo ? lo : v > hi ? hi : v);
}

static void test_int(void)
{
    T("www", "add.s32", UA + UB);
    T("hhh", "add.u16", a + b);
    T("ddd", "add.s64", a + b);
    T("www", "sub.s32", UA - UB);
    T("ddd", "sub.u64", a - b);
    T("www", "add.sat.s32", clamp64((__int128)SA + SB, INT32_MIN, INT32_MAX));
    T("www", "sub.sat.s32", clamp64((__int128)SA - SB, INT32_MIN, INT32_MAX));
    T("www", "mul.lo.s32", UA * UB);
    T("hhh", "mul.lo.u16", (u16)((u32)a * (u32)b));
    T("ddd", "mul.lo.u64", a * b);
    T("www", "mul.hi.u32", ((u64)UA * UB) >> 32);
    T("www", "mul.hi.s32", (u64)((s64)SA * SB) >> 32);
    T("ddd", "mul.hi.u64", ((unsigned __int128)a * b) >> 64);
    T("ddd", "mul.hi.s64", ((__int128)(s64)a * (s64)b) >> 64);
    T("hhh", "mul.hi.s16", ((s32)(s16)a * (s16)b) >> 16);
    T("dww", "mul.wide.u32", (u64)UA * UB);
    T("dww", "mul.wide.s32", (s64)SA * SB);
    T("whh", "mul.wide.s16", (s32)(s16)a * (s16)b);
    T("whh", "mul.wide.u16", (u32)(u16)a * (u16)b);
    T("wwww", "mad.lo.s32", UA * UB + UC);
    T("ddww", "$ mad.wide.u32 %d, %b, %c, %a;", a + (u64)UB * UC);
    T("wwww", "mad.hi.u32", (u32)(((u64)UA * UB) >> 32) + UC);
    T("wwww", "mad.hi.sat.s32", clamp64((((s64)SA * SB) >> 32) + (s32)c, INT32_MIN, INT32_MAX));
    T("www", "mul24.lo.s32", (s64)((s32)(UA << 8) >> 8) * ((s32)(UB << 8) >> 8));
    T("www", "mul24.hi.u32", ((u64)(UA & 0xffffff) * (UB & 0xffffff)) >> 16);
    T("www", "div.u32", UB ? UA / UB : 0xffffffffu);
    T("www", "div.s32", !UB ? ~0ull : UB == 0xffffffffu ? 0 - UA : (u32)(SA / SB));
    T("www", "rem.u32", UB ? UA % UB : UA);
    T("www", "rem.s32", !UB ? UA : UB == 0xffffffffu ? 0 : (u32)(SA % SB));
    T("ddd", "div.s64", !b ? ~0ull : b == ~0ull ? 0 - a : (u64)((s64)a / (s64)b));
    T("ddd", "rem.s64", !b ? a : b == ~0ull ? 0 : (u64)((s64)a % (s64)b));
    T("ddd", "div.u64", b ? a / b : ~0ull);
    T("ddd", "rem.u64", b ? a % b : a);
    T("www", "min.s32", SA < SB ? a : b);
    T("www", "max.s32", SA > SB ? a : b);
    T("www", "min.u32", UA < UB ? a : b);
    T("ddd", "max.s64", (s64)a > (s64)b ? a : b);
    T("ddd", "min.u64", a < b ? a : b);
    T("hhh", "min.s16", (s16)a < (s16)b ? a : b);
    T("ww", "abs.s32", SA < 0 ? 0 - UA : UA);
    T("dd", "abs.s64", (s64)a < 0 ? 0 - a : a);
    T("ww", "neg.s32", 0 - UA);
    T("dd", "neg.s64", 0 - a);
    T("wwww", "sad.s32", UC + (SA > SB ? UA - UB : UB - UA));
    T("wwww", "sad.u32", UC + (UA > UB ? UA - UB : UB - UA));
    T("www", "max.s16x2", ((s16)a > (s16)b ? a & 0xffff : b & 0xffff) |
                              ((s32)(UA & 0xffff0000) > (s32)(UB & 0xffff0000) ? UA & 0xffff0000
                                                                               : UB & 0xffff0000));
    T("www", "add.u16x2", ((a + b) & 0xffff) | (((UA >> 16) + (UB >> 16)) << 16));
}

static void test_carry(void)
{
    T("ddd", "$ { .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; "
      "add.cc.u32 l2, l0, l1; addc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }", a + b);
    T("ddd", "$ { .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; "
      "sub.cc.u32 l2, l0, l1; subc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }", a - b);
    T("dww", "$ { .reg .b32 x, y; mad.lo.cc.u32 x, %a, %b, %a; madc.hi.u32 y, %a, %b, 0; "
      "mov.b64 %d, {x, y}; }", (u64)UA * UB + UA);
    T("ddd", "$ { .reg .b64 x; add.cc.u64 x, %a, %b; addc.u64 %d, 0, 0; }", a + b < a);
    T("www", "$ { .reg .b32 x; mad.lo.cc.u32 x, %a, %b, -1; madc.hi.cc.s32 x, %a, %b, 0; "
      "mov.b32 %d, x; }", (u64)((s64)SA * SB) >> 32 == 0 && 0 ? 0
      : (u32)((u64)((s64)SA * SB) >> 32) + ((u32)(UA * UB) != 0));
}

static u32 ref_prmt(u32 a, u32 b, u32 s)
{
    u8 by[8];
    u32 r = 0;

    memcpy(by, &a, 4);
    memcpy(by + 4, &b, 4);
    for (int i = 0; i < 4; i++, s >>= 4)
        r |= (u32)(s & 8 ? (by[s & 7] & 0x80 ? 0xff : 0) : by[s & 7]) << (8 * i);
    return r;
}

static u64 ref_bfe(u64 a, u32 pos, u32 len, int bits, bool sign)
{
    const u64 top = a >> (bits - 1) & 1;
    u64 r = 0;
    u32 msb = (u32)bits - 1, sb;

    pos &= 255;
    len &= 255;
    if (!sign || !len)
        sb = 0;
    else
        sb = (u32)(a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1);
    (void)top;
    for (u32 i = 0; i <= msb; i++)
        r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : (u64)sb) << i;
    return r;
}

static u64 ref_bfi(u64 a, u64 b, u32 pos, u32 len, u32 bits)
{
    for (u32 i = 0; i < (len & 255) && (pos & 255) + i < bits; i++) {
        const u32 p = (pos & 255) + i;

        b = (b & ~(1ull << p)) | (a >> i & 1) << p;
    }
    return b;
}

static u64 ref_brev(u64 v, int bits)
{
    u64 r = 0;

    for (int i = 0; i < bits; i++)
        r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}

static void test_bits(void)
{
    T("www", "and.b32", a & b);
    T("ddd", "or.b64", a | b);
    T("hhh", "xor.b16", a ^ b);
    T("ww", "not.b32", ~a);
    T("dd", "cnot.b64", a == 0);
    T("ww", "cnot.b32", UA == 0);
    T("ppp", "and.pred", a & b);
    T("ppp", "xor.pred", a ^ b);
    T("pp", "not.pred", !a);
    T("www", "$ shl.b32 %d, %a, %b;", UB > 31 ? 0 : UA << UB);
    T("wws", "shl.b32", b > 31 ? 0 : UA << b);
    T("dds", "shl.b64", b > 63 ? 0 : a << b);
    T("hhs", "shl.b16", b > 15 ? 0 : (u16)(a << b));
    T("wws", "shr.u32", b > 31 ? 0 : UA >> b);
    T("wws", "shr.s32", SA >> (b > 31 ? 31 : b));
    T("dds", "shr.s64", (s64)a >> (b > 63 ? 63 : b));
    T("dds", "shr.u64", b > 63 ? 0 : a >> b);
    T("hhs", "shr.s16", (s16)a >> (b > 15 ? 15 : b));
    T("hhs", "shr.u16", b > 15 ? 0 : (u16)a >> b);
    T("wwws", "shf.l.wrap.b32", ((u64)UB << 32 | UA) << (c & 31) >> 32);
    T("wwws", "shf.r.wrap.b32", ((u64)UB << 32 | UA) >> (c & 31));
    T("wwws", "shf.l.clamp.b32", c > 31 ? UA : ((u64)UB << 32 | UA) << c >> 32);
    T("wwws", "shf.r.clamp.b32", c > 31 ? UB : ((u64)UB << 32 | UA) >> c);
    T("ww", "popc.b32", __builtin_popcount(UA));
    T("wd", "popc.b64", __builtin_popcountll(a));
    T("ww", "clz.b32", UA ? __builtin_clz(UA) : 32);
    T("wd", "clz.b64", a ? __builtin_clzll(a) : 64);
    T("ww", "brev.b32", ref_brev(UA, 32));
    T("dd", "brev.b64", ref_brev(a, 64));
    T("ww", "bfind.u32", UA ? 31 - __builtin_clz(UA) : -1);
    T("ww", "bfind.s32", (SA < 0 ? ~UA : UA) ? 31 - __builtin_clz(SA < 0 ? ~UA : UA) : -1);
    T("ww", "bfind.shiftamt.u32", UA ? __builtin_clz(UA) : -1);
    T("wd", "bfind.u64", a ? 63 - __builtin_clzll(a) : -1);
    T("wwss", "bfe.u32", ref_bfe(UA, UB, UC, 32, false));
    T("wwss", "bfe.s32", ref_bfe(UA, UB, UC, 32, true));
    T("ddss", "bfe.u64", ref_bfe(a, UB, UC, 64, false));
    T("ddss", "bfe.s64", ref_bfe(a, UB, UC, 64, true));
    T("wwss", "$ bfi.b32 %d, %a, 0x12345678, %b, %c;", ref_bfi(UA, 0x12345678, UB, UC, 32));
    T("ddss", "$ bfi.b64 %d, %a, 0x123456789abcdef0, %b, %c;",
      ref_bfi(a, 0x123456789abcdef0ull, UB, UC, 64));
    T("wwww", "prmt.b32", ref_prmt(UA, UB, UC));
    T("www", "$ prmt.b32 %d, %a, %b, 0x5410;", (UA & 0xffff) | UB << 16);
    T("www", "$ prmt.b32.rc16 %d, %a, %b, 1;", UA >> 16 | (UA & 0xffff0000u));
    T("www", "$ prmt.b32.f4e %d, %a, %b, 1;", UA >> 8 | UB << 24);
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0xe8;", (a & b) | (a & c) | (b & c));
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0x96;", a ^ b ^ c);
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0x1b;", (a & ~b & ~c) | (~a & ~b) | (~a & b & c) ? (u32)(
      (~a & ~b & ~c) | (~a & ~b & c) | (~a & b & c) | (a & ~b & ~c)) : 0);
    T("wwss", "$ { .reg .b32 x; and.b32 x, %b, 31; bmsk.clamp.b32 %d, x, %c; }",
      (u32)((UC > 31 ? 0xffffffffull : (1ull << UC) - 1) << (UB & 31)));
    T("wws", "szext.clamp.s32", b > 31 ? UA : !b ? 0 : (u32)((s32)(UA << (32 - b)) >> (32 - b)));
    T("ww", "$ fns.b32 %d, %a, 0, 1;", UA ? (u32)__builtin_ctz(UA) : 0xffffffffu);
    T("ww", "$ fns.b32 %d, %a, 31, -1;", UA ? 31u - (u32)__builtin_clz(UA) : 0xffffffffu);
    T("wwww", "dp4a.s32.s32", UC + (u32)((s8)a * (s8)b + (s8)(a >> 8) * (s8)(b >> 8) +
                                        (s8)(a >> 16) * (s8)(b >> 16) +
                                        (s8)(a >> 24) * (s8)(b >> 24)));
    T("wwww", "dp4a.u32.s32", UC + (u32)((u8)a * (s8)b + (u8)(a >> 8) * (s8)(b >> 8) +
                                        (u8)(a >> 16) * (s8)(b >> 16) +
                                        (u8)(a >> 24) * (s8)(b >> 24)));
    T("wwww", "dp2a.lo.s32.s32", UC + (u32)((s16)a * (s8)b + (s16)(a >> 16) * (s8)(b >> 8)));
    T("wwww", "dp2a.hi.u32.u32",
      UC + (u32)((u16)a * (u8)(b >> 16) + (u32)(u16)(a >> 16) * (u8)(b >> 24)));
}

static u64 ref_absdiff4(u32 a, u32 b, bool sum, u32 c)
{
    u32 r = 0;

    for (int k = 0; k < 32; k += 8) {
        const u32 x = a >> k & 255, y = b >> k & 255, v = x > y ? x - y : y - x;

        r |= v << k;
        c += v;
    }
    return sum ? c : r;
}

static u64 ref_set2(u32 a, u32 b, u32 yes)
{
    const float x = sg_f16_to_f32((u16)a), y = sg_f16_to_f32((u16)b);
    const float z = sg_f16_to_f32((u16)(a >> 16)), v = sg_f16_to_f32((u16)(b >> 16));

    return (x < y ? yes : 0) | (z < v ? yes << 16 : 0);
}

static void test_compare(void)
{
    T("wwww", "vabsdiff4.u32.u32.u32", ref_absdiff4(UA, UB, false, 0));
    T("wwww", "vabsdiff4.u32.u32.u32.add", ref_absdiff4(UA, UB, true, UC));
    T("wwsw", "vshr.u32.u32.u32.clamp.add", (UB > 31 ? 0 : UA >> UB) + UC);
    T("wws", "vshl.u32.u32.u32.wrap", UA << (UB & 31));
    T("wEE", "set.lt.u32.f16x2", ref_set2(UA, UB, 0xffff));
    T("EEE", "set.lt.f16x2.f16x2", ref_set2(UA, UB, 0x3c00));
    T("pww", "setp.lt.s32", SA < SB);
    T("pww", "setp.lo.u32", UA < UB);
    T("pww", "setp.hs.u32", UA >= UB);
    T("pww", "setp.eq.s32", UA == UB);
    T("pww", "setp.ne.u32", UA != UB);
    T("pdd", "setp.gt.s64", (s64)a > (s64)b);
    T("pdd", "setp.le.u64", a <= b);
    T("phh", "setp.ge.s16", (s16)a >= (s16)b);
    T("phh", "setp.lt.u16", (u16)a < (u16)b);
    T("phh", "setp.eq.s16", (u16)a == (u16)b);
    T("pff", "setp.eq.f32", F32(a) == F32(b));
    T("pff", "setp.ne.f32", F32(a) < F32(b) || F32(a) > F32(b));
    T("pff", "setp.lt.f32", F32(a) < F32(b));
    T("pff", "setp.geu.f32", !(F32(a) < F32(b)));
    T("pff", "setp.neu.f32", !(F32(a) == F32(b)));
    T("pff", "setp.num.f32", !isnan(F32(a)) && !isnan(F32(b)));
    T("pff", "setp.nan.f32", isnan(F32(a)) || isnan(F32(b)));
    T("pFF", "setp.gt.f64", F64(a) > F64(b));
    T("pFF", "setp.leu.f64", !(F64(a) > F64(b)));
    T("pee", "setp.lt.f16", sg_f16_to_f32((u16)a) < sg_f16_to_f32((u16)b));
    T("pgg", "setp.geu.bf16", !(sg_bf16_to_f32((u16)a) < sg_bf16_to_f32((u16)b)));
    T("pwwp", "setp.lt.and.s32", SA < SB && c);
    T("pwwp", "setp.ge.or.u32", UA >= UB || c);
    T("pwwp", "$ setp.eq.xor.s32 %d, %a, %b, !%c;", (UA == UB) ^ !c);
    T("www", "$ { .reg .pred p, q; setp.lt.s32 p|q, %a, %b; selp.b32 %d, 1, 0, q; }", !(SA < SB));
    T("wwwp", "$ { .reg .pred p, q; setp.lt.and.s32 p|q, %a, %b, %c; selp.b32 %d, 1, 0, q; }",
      !(SA < SB) && c);
    T("www", "set.lt.u32.s32", SA < SB ? 0xffffffffu : 0);
    T("fff", "set.gt.f32.f32", F32(a) > F32(b) ? 0x3f800000u : 0);
    T("wwwp", "selp.b32", c ? a : b);
    T("dddp", "selp.b64", c ? a : b);
    T("wwww", "slct.b32.s32", (s32)c >= 0 ? a : b);
    T("ddd", "$ slct.u64.f32 %d, %a, %b, 0fBF800000;", b);
    T("pf", "testp.finite.f32", isfinite(F32(a)));
    T("pf", "testp.subnormal.f32", fpclassify(F32(a)) == FP_SUBNORMAL);
    T("pF", "testp.notanumber.f64", isnan(F64(a)));
}

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

#define RT(mode, sig, op, e)                                                 \
    do {                                                                     \
        inputs(sig);                                                         \
        fesetround(mode);                                                    \
        for (int k_ = 0; k_ < N; k_++) {                                     \
            const volatile u64 va = in[0][k_], vb = in[1][k_], vc = in[2][k_]; \
            const u64 a = va, b = vb, c = vc;                                \
            volatile u64 r_ = (u64)(e);                                      \
            (void)b;                                                         \
            (void)c;                                                         \
            expect[k_] = r_;                                                 \
        }                                                                    \
        fesetround(FE_TONEAREST);                                            \
        run(sig, op);                                                        \
    } while (0)

static void test_float(void)
{
    static const struct { int mode; const char *name; } modes[] = {
        {FE_TONEAREST, "rn"}, {FE_TOWARDZERO, "rz"}, {FE_DOWNWARD, "rm"}, {FE_UPWARD, "rp"}};
    char op[64];

    for (int i = 0; i < 4; i++) {
#define M(sig, base, e)                                                      \
    do {                                                                     \
        snprintf(op, sizeof(op), base, modes[i].name);                       \
        RT(modes[i].mode, sig, op, e);                                       \
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
    T("fff", "add.sat.f32", B32(!(F32(a) + F32(b) > 0) ? 0 : F32(a) + F32(b) > 1 ? 1
                                                              : F32(a) + F32(b)));
    T("fff", "min.f32", B32(ref_min(F32(a), F32(b))));
    T("fff", "max.f32", B32(ref_max(F32(a), F32(b))));
    T("fff", "min.NaN.f32", isnan(F32(a)) || isnan(F32(b)) ? 0x7fffffff
                            : B32(ref_min(F32(a), F32(b))));
    T("FFF", "max.f64", B64(isnan(F64(a)) ? F64(b) : isnan(F64(b)) ? F64(a)
                            : F64(a) == F64(b) ? (signbit(F64(a)) ? F64(b) : F64(a))
                            : F64(a) > F64(b) ? F64(a) : F64(b)));
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
    T("gf", "cvt.rn.bf16.f32",
      isnan(F32(a)) ? 0x7fff : (UA + 0x7fff + (UA >> 16 & 1)) >> 16);
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
    T("EEEE", "fma.rn.f16x2", (u32)ref_f16(fma(H(a), H(b), H(c))) |
                                  (u32)ref_f16(fma(H(a >> 16), H(b >> 16), H(c >> 16))) << 16);
    T("eee", "max.f16", ref_f16((double)ref_max((float)H(a), (float)H(b))));
    T("EE", "neg.f16x2", a ^ 0x80008000u);
    T("ee", "abs.f16", a & 0x7fff);
    T("ee", "$ fma.rn.relu.f16 %d, %a, 0x3c00, 0x8000;", H(a) <= 0 ? 0 : ref_f16(H(a)));
    T("ggg", "$ { .reg .f32 x, y; add.bf16 %d, %a, %b; }", ({
          u32 u = (u32)B32(sg_bf16_to_f32((u16)a) + sg_bf16_to_f32((u16)b));
          (u & 0x7fffffff) > 0x7f800000 ? 0x7fff : (u + 0x7fff + (u >> 16 & 1)) >> 16; }));
}

static void test_mov(void)
{
    T("dww", "$ mov.b64 %d, {%a, %b};", (u64)UB << 32 | UA);
    T("wd", "$ { .reg .b32 x; mov.b64 {x, %d}, %a; }", a >> 32);
    T("wd", "$ { .reg .b32 x; mov.b64 {%d, _}, %a; }", UA);
    T("whh", "$ mov.b32 %d, {%a, %b};", (u16)a | (u32)(u16)b << 16);
    T("hw", "$ { .reg .b16 x; mov.b32 {x, %d}, %a; }", UA >> 16);
    T("dhhh", "$ mov.b64 %d, {%a, %b, %c, %a};", (u16)a | (u64)(u16)b << 16 |
                                                     (u64)(u16)c << 32 | (u64)(u16)a << 48);
    T("hd", "$ { .reg .b16 x, y, z; mov.b64 {x, y, z, %d}, %a; }", a >> 48);
    T("w", "$ mov.u32 %d, 0xdeadbeef;", 0xdeadbeefu);
    T("f", "$ mov.f32 %d, 0f40490FDB;", 0x40490fdbu);
    T("F", "$ mov.f64 %d, 1.5;", B64(1.5));
    T("w", "$ mov.u32 %d, WARP_SZ;", 32);
}

int main(int argc, char **argv)
{
    if (argc && strstr(argv[0], "base")) /* the same program, without vector instructions */
        setenv("SG_ISA", "base", 1);
    else if (argc && strstr(argv[0], "avx2"))
        setenv("SG_ISA", "avx2", 1);
    printf("instruction set: %s\n", sg_op_isa());
    for (int i = 0; i < 3; i++)
        in[i] = tm_alloc(N * 8);
    out = tm_alloc(N * 8);
    test_int();
    test_carry();
    test_bits();
    test_compare();
    test_float();
    test_cvt();
    test_half();
    test_mov();
    return t_end("softgpu opcodes");
}

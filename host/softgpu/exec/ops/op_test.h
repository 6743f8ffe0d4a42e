/* SPDX-License-Identifier: MIT */
/*
 * Shared by the opcode tests. Each group of opcodes is compared with a plain C reference, on edge
 * values and pseudo-random values. Each instruction runs for all lanes, under a predicate that
 * holds for odd lanes, and in warps of 16 and of 24 lanes.
 *
 * Signature: result, then operands. w 32 bits, d 64 bits, h 16 bits, s a shift amount or small
 * number, p predicate, f f32, F f64, e f16, E f16x2, g bf16.
 */
#ifndef SG_EXEC_OP_TEST_H
#define SG_EXEC_OP_TEST_H

#include "exec/exec_test.h"
#include "exec/core.h"
#include "base/half.h"

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

static const u32 edge32[] = {0,          1,          2,          3,          7,
                             31,         32,         33,         0xff,       0x7fff,
                             0x8000,     0xffff,     0x10000,    0x7fffffff, 0x80000000,
                             0x80000001, 0xfffffffe, 0xffffffff, 0x55555555, 0x12345678};
static const u32 edgef[] = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x7f800000,
                            0xff800000, 0x7fc00000, 1,          0x807fffff, 0x00800000,
                            0x7f7fffff, 0x3f000000, 0x3fc00000, 0x40200000, 0xc0600000,
                            0x4f000000, 0xcf000000, 0x4f800000, 0x5f000000, 0x33800000};
static const u64 edgeF[] = {0,
                            1ull << 63,
                            0x3ff0000000000000,
                            0xbff0000000000000,
                            0x7ff0000000000000,
                            0xfff0000000000000,
                            0x7ff8000000000000,
                            1,
                            0x000fffffffffffff,
                            0x7fefffffffffffff,
                            0x3fe0000000000000,
                            0x41dfffffffc00000,
                            0xc1e0000000200000,
                            0x41f0000000000000,
                            0x43e0000000000000,
                            0x3ff8000000000000,
                            0x4004000000000000,
                            0xc00c000000000000,
                            0x380fffffffffffff,
                            0x47efffffffffffff};
static const u16 edgee[] = {0,      0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 1,      0x83ff, 0x0400,
                            0x7bff, 0x3800, 0x3e00, 0x3555, 0x4248, 0xc500, 0x0001, 0x2e66, 0x6400, 0x1400};

static u64 rng = 88172645463325252ull;
static inline u64 rnd(void)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return rng;
}

static inline u64 value(char t, unsigned k, unsigned which)
{
    unsigned i = which == 0 ? k % 20 : which == 1 ? k / 20 % 20 : (k * 7 + k / 20) % 20;
    bool edge = k < 400;
    u64 r = rnd();

    switch (t) {
    case 'w':
        return edge ? edge32[i] : (u32)r;
    case 'd':
        return !edge ? r : i < 18 ? (u64)(s64)(s32)edge32[i] : (u64)edge32[i] << 33;
    case 'h':
        return edge ? (u16)(edge32[i] >> (i == 13 ? 8 : 0)) : (u16)r;
    case 's':
        return edge ? i * 4 + (k & 3) : r % 70;
    case 'p':
        return r & 1;
    case 'f':
        return edge ? edgef[i] : ((u32)r & 0x83ffffffu) + 0x3e000000u;
    case 'F':
        return edge ? edgeF[i] : (r & 0x803fffffffffffffull) + 0x3fe0000000000000ull;
    case 'e':
        return edge ? edgee[i] : (u16)r;
    case 'E':
        return edge ? edgee[i] | (u32)edgee[(i + 3) % 20] << 16 : (u32)r;
    case 'g':
        return edge ? edgef[i] >> 16 : (u16)((r & 0x83ff) + 0x3e00);
    default:
        return 0;
    }
}

static inline const char *ptx_type(char t)
{
    return t == 'd'           ? "b64"
           : t == 'F'         ? "f64"
           : t == 'f'         ? "f32"
           : strchr("heg", t) ? "b16"
           : t == 'p'         ? "pred"
                              : "b32";
}

static inline int bytes(char t)
{
    return strchr("dF", t) ? 8 : strchr("heg", t) ? 2 : 4;
}

/* The text of a kernel that runs one instruction; $ in op stands for the operands. */
static inline void make_text(char *text, size_t size, const char *sig, const char *op, bool pred)
{
    size_t n = 0;
    const char *dt = ptx_type(sig[0]);

#define ADD(...) n += (size_t)snprintf(text + n, size - n, __VA_ARGS__)
    ADD(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p0, "
        ".param .u64 p1, .param .u64 p2, .param .u64 p3, .param .u32 p4)\n{\n"
        ".reg .pred %%p<9>;\n.reg .b32 %%r<9>;\n.reg .b64 %%rd<9>;\n.reg .%s %%d;\n",
        dt);
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
        ADD("@!%%p2 bra SKIP;\n"); /* a basic block that a branch skips */
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

static inline bool is_nan(char t, u64 v)
{
    switch (t) {
    case 'f':
        return (v & 0x7fffffff) > 0x7f800000;
    case 'F':
        return (v & ~(1ull << 63)) > 0x7ff0000000000000ull;
    case 'e':
        return (v & 0x7fff) > 0x7c00;
    case 'g':
        return (v & 0x7fff) > 0x7f80;
    default:
        return false;
    }
}

static inline bool same_one(char t, u64 x, u64 y, double tol)
{
    if (bytes(t) == 4) {
        x = (u32)x;
        y = (u32)y;
    } else if (bytes(t) == 2) {
        x = (u16)x;
        y = (u16)y;
    }
    if (is_nan(t, x) && is_nan(t, y) &&
        x != y) /* f64 NaN payloads are unspecified; the other types have a single NaN */
        return t == 'F' || x == (bytes(t) == 4 ? 0x7fffffffu : 0x7fffu);
    if (x == y)
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

static inline bool same(char t, u64 x, u64 y, double tol)
{
    if (t == 'E')
        return same_one('e', x & 0xffff, y & 0xffff, 0) &&
               same_one('e', x >> 16 & 0xffff, y >> 16 & 0xffff, 0);
    return same_one(t, x, y, tol);
}

static double tolerance;

static inline void run(const char *sig, const char *op)
{
    char text[4096], name[200];
    struct {
        u64 *a, *b, *c, *o;
        u32 n;
    } prm = {in[0], in[1], in[2], out, N};

    for (int way = 0; way < 4; way++) {
        static const u32 threads[] = {128, 128, 16, 24};
        static const char *const label[] = {"", "@p ", "16 lanes: ", "24 lanes: "};
        const bool pred = way == 1;
        struct sg_fault f = {0};
        struct tk t;
        bool ok = true;
        int r = -1, at = 0;

        snprintf(name, sizeof(name), "%s%s", label[way], op);
        make_text(text, sizeof(text), sig, op, pred);
        for (int i = 0; i < N; i++)
            out[i] = SENTINEL;
        if (tk_open(&t, text, "t")) {
            r = tk_run(&t, (N + threads[way] - 1) / threads[way], threads[way], &prm, &f);
            tk_close(&t);
        } else {
            sg_module_free(t.m);
        }
        for (int i = 0; i < N && ok; i++) {
            u64 want = pred && !(i & 1) ? (sig[0] == 'p' ? 0 : SENTINEL) : expect[i];

            at = i;
            ok = same(sig[0], out[i], want, tolerance);
        }
        t_result(name, !r && ok, "result %d %s; a=%llx b=%llx c=%llx gives %llx, expected %llx", r, f.message,
                 (unsigned long long)in[0][at], (unsigned long long)in[1][at], (unsigned long long)in[2][at],
                 (unsigned long long)out[at],
                 (unsigned long long)(pred && !(at & 1) ? SENTINEL : expect[at]));
    }
}

static inline void inputs(const char *sig)
{
    for (int i = 0; i < 3; i++)
        for (unsigned k = 0; k < N; k++)
            in[i][k] = (size_t)i + 1 < strlen(sig) ? value(sig[i + 1], k, (unsigned)i) : 0;
}

static inline float F32(u64 v)
{
    u32 u = (u32)v;
    float f;

    memcpy(&f, &u, 4);
    return f;
}

static inline double F64(u64 v)
{
    double d;

    memcpy(&d, &v, 8);
    return d;
}

static inline u64 B32(float f)
{
    u32 u;

    memcpy(&u, &f, 4);
    return u;
}

static inline u64 B64(double d)
{
    u64 u;

    memcpy(&u, &d, 8);
    return u;
}

/* e may use a, b, c (the raw operands) */
#define T(sig, op, e) \
    do { \
        inputs(sig); \
        for (int k_ = 0; k_ < N; k_++) { \
            const u64 a = in[0][k_], b = in[1][k_], c = in[2][k_]; \
            (void)a; \
            (void)b; \
            (void)c; \
            expect[k_] = (u64)(e); \
        } \
        run(sig, op); \
    } while (0)
#define SA ((s32)a)
#define SB ((s32)b)
#define UA ((u32)a)
#define UB ((u32)b)
#define UC ((u32)c)

static inline u64 clamp64(__int128 v, __int128 lo, __int128 hi)
{
    return (u64)(v < lo ? lo : v > hi ? hi : v);
}

/* Selects the instruction set by the program's name; allocates the operands. */
static inline void op_start(int argc, char **argv)
{
    t_variant(argc, argv);
    printf("instruction set: %s\n", sg_op_isa());
    for (int i = 0; i < 3; i++)
        in[i] = tm_alloc(N * 8);
    out = tm_alloc(N * 8);
}

#endif

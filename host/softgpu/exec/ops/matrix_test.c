/* SPDX-License-Identifier: MIT */
/*
 * mma.sync, ldmatrix, movmatrix, wmma against plain products of whole numbers, which every type
 * here holds exactly, so that the order of sums does not matter. The lane and register of each element
 * follow the figures of the PTX manual (section 9.7.14); wmma's layout is free, so only the results of
 * loading, multiplying and storing are checked.
 */
#include "exec/exec_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { F16, BF16, TF32, F64, S8, U8, E4M3, E5M2, F32, S32 };

struct shape {
    const char *op;
    int m, n, k, ab, a_type, b_type, c_type; /* ab: bits of an element of A and B */
};

static uint64_t rng = 99;
static int rnd(int n)
{
    rng = rng * 6364136223846793005ull + 1442695040888963407ull;
    return (int)((rng >> 33) % (uint64_t)n);
}

/* Small floats by counting: fraction bits, bias. */
static uint64_t small(double x, int fraction, int bias, int sign_bit)
{
    int e;
    const double m = frexp(fabs(x), &e);

    if (x == 0)
        return 0;
    return (x < 0 ? 1ull << sign_bit : 0) | (uint64_t)(e - 1 + bias) << fraction |
           (uint64_t)ldexp(2 * m - 1, fraction);
}

static uint64_t encode(int type, double x)
{
    const float f = (float)x;
    uint64_t v = 0;

    switch (type) {
    case F16:
        return small(x, 10, 15, 15);
    case BF16:
        return small(x, 7, 127, 15);
    case E4M3:
        return small(x, 3, 7, 7);
    case E5M2:
        return small(x, 2, 15, 7);
    case F64:
        memcpy(&v, &x, 8);
        return v;
    case S8:
    case U8:
        return (uint8_t)(int)x;
    case S32:
        return (uint32_t)(int)x;
    default:
        memcpy(&v, &f, 4);
        return v; /* f32, tf32 */
    }
}

static int bits_of(int type)
{
    return type == F64 ? 64 : type == F16 || type == BF16 ? 16 : type >= S8 && type <= E5M2 ? 8 : 32;
}

static double number(int type)
{
    return type == U8 ? rnd(8) : rnd(9) - 4;
}

/* Registers of A, B, C of a lane; 64-bit ones count as one. */
struct regs {
    int a, b, c;
};

static struct regs count(const struct shape *s)
{
    const int rb = s->ab == 64 ? 64 : 32, cb = s->c_type == F64 ? 64 : 32;

    return (struct regs){s->m * s->k * s->ab / 32 / rb, s->k * s->n * s->ab / 32 / rb,
                         s->m * s->n * bits_of(s->c_type) / 32 / cb};
}

static void place_a(const struct shape *s, int lane, int reg, int sub, int *row, int *col)
{
    const int per = s->ab == 64 ? 1 : 32 / s->ab;

    *row = lane / 4 + (s->m == 16 ? 8 * (reg & 1) : 0);
    *col = lane % 4 * per + 4 * per * (s->m == 16 ? reg >> 1 : reg) + sub;
}

static void place_b(const struct shape *s, int lane, int reg, int sub, int *row, int *col)
{
    const int per = s->ab == 64 ? 1 : 32 / s->ab;

    *col = lane / 4;
    *row = lane % 4 * per + 4 * per * reg + sub;
}

static void place_c(const struct shape *s, int lane, int reg, int sub, int *row, int *col)
{
    if (s->c_type == F16) {
        *row = lane / 4 + 8 * reg;
        *col = lane % 4 * 2 + sub;
    } else {
        *row = lane / 4 + 8 * (reg >> 1);
        *col = lane % 4 * 2 + (reg & 1);
    }
}

typedef void (*place_fn)(const struct shape *s, int lane, int reg, int sub, int *row, int *col);

static uint64_t pack(const struct shape *s, place_fn place, int type, const double *x, int cols, int lane,
                     int reg)
{
    const int bits = bits_of(type), per = bits == 64 ? 1 : 32 / bits;
    uint64_t v = 0;

    for (int sub = 0; sub < per; sub++) {
        int r, c;

        place(s, lane, reg, sub, &r, &c);
        v |= encode(type, x[r * cols + c]) << (sub * bits);
    }
    return v;
}

static size_t list(char *t, size_t cap, char letter, int n)
{
    size_t at = (size_t)snprintf(t, cap, "{");

    for (int i = 0; i < n; i++)
        at += (size_t)snprintf(t + at, cap - at, "%s%%%c%d", i ? ", " : "", letter, i);
    return at + (size_t)snprintf(t + at, cap - at, "}");
}

#define ADD(...) n += (size_t)snprintf(t + n, cap - n, __VA_ARGS__)
static void mma_text(char *t, size_t cap, const struct shape *s)
{
    const struct regs r = count(s);
    const char *ta = s->ab == 64 ? "f64" : "b32";
    const char *tc = s->c_type == F64 ? "f64" : s->c_type == F32 ? "f32" : "b32";
    const int wa = s->ab == 64 ? 8 : 4, wc = s->c_type == F64 ? 8 : 4;
    size_t n = 0;

    ADD(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r<3>;\n"
        ".reg .b64 %%rd<4>;\n.reg .%s %%a<9>, %%b<9>;\n.reg .%s %%c<9>, %%d<9>;\nld.param.u64 %%rd1, [p];\n"
        "mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd2, %%r1, 256;\nadd.u64 %%rd1, %%rd1, %%rd2;\n",
        ta, tc);
    for (int i = 0; i < r.a; i++)
        ADD("ld.global.%s %%a%d, [%%rd1+%d];\n", ta, i, i * wa);
    for (int i = 0; i < r.b; i++)
        ADD("ld.global.%s %%b%d, [%%rd1+%d];\n", ta, i, 64 + i * wa);
    for (int i = 0; i < r.c; i++)
        ADD("ld.global.%s %%c%d, [%%rd1+%d];\n", tc, i, 128 + i * wc);
    ADD("%s ", s->op);
    n += list(t + n, cap - n, 'd', r.c);
    ADD(", ");
    n += list(t + n, cap - n, 'a', r.a);
    ADD(", ");
    n += list(t + n, cap - n, 'b', r.b);
    ADD(", ");
    n += list(t + n, cap - n, 'c', r.c);
    ADD(";\n");
    for (int i = 0; i < r.c; i++)
        ADD("st.global.%s [%%rd1+%d], %%d%d;\n", tc, 192 + i * wc, i);
    ADD("ret;\n}\n");
}

/* Opens and runs a text on one warp with one pointer; false on failure, with the reason printed. */
static bool launch(const char *name, const char *text, void *mem)
{
    const uint64_t params[] = {(uintptr_t)mem};
    struct sg_fault f = {.message = ""};
    struct tk t;
    int r;

    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "not decoded");
        return false;
    }
    r = tk_run(&t, 1, 32, params, &f);
    sg_module_free(t.m);
    if (r)
        t_result(name, false, "%s", f.message);
    return !r;
}

static void test_mma(const struct shape *s)
{
    static char text[16384];
    static double a[16 * 64], b[64 * 8], c[16 * 8], d[16 * 8];
    const struct regs r = count(s);
    const int wa = s->ab == 64 ? 8 : 4, wc = s->c_type == F64 ? 8 : 4;
    uint8_t *mem = tm_alloc(32 * 256);
    bool ok = true;

    for (int i = 0; i < s->m * s->k; i++)
        a[i] = number(s->a_type);
    for (int i = 0; i < s->k * s->n; i++)
        b[i] = number(s->b_type);
    for (int i = 0; i < s->m * s->n; i++)
        c[i] = number(S8);
    for (int i = 0; i < s->m; i++)
        for (int j = 0; j < s->n; j++) {
            d[i * s->n + j] = c[i * s->n + j];
            for (int k = 0; k < s->k; k++)
                d[i * s->n + j] += a[i * s->k + k] * b[k * s->n + j];
        }
    for (int lane = 0; lane < 32; lane++) {
        for (int i = 0; i < r.a; i++) {
            const uint64_t v = pack(s, place_a, s->a_type, a, s->k, lane, i);
            memcpy(mem + lane * 256 + i * wa, &v, (size_t)wa);
        }
        for (int i = 0; i < r.b; i++) {
            const uint64_t v = pack(s, place_b, s->b_type, b, s->n, lane, i);
            memcpy(mem + lane * 256 + 64 + i * wa, &v, (size_t)wa);
        }
        for (int i = 0; i < r.c; i++) {
            const uint64_t v = pack(s, place_c, s->c_type, c, s->n, lane, i);
            memcpy(mem + lane * 256 + 128 + i * wc, &v, (size_t)wc);
        }
    }
    mma_text(text, sizeof(text), s);
    if (launch(s->op, text, mem)) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < r.c; i++) {
                const uint64_t want = pack(s, place_c, s->c_type, d, s->n, lane, i);

                ok = ok && !memcmp(mem + lane * 256 + 192 + i * wc, &want, (size_t)wc);
            }
        t_result(s->op, ok, "a result differs");
    }
    tm_free_all();
}

/* ldmatrix: matrix i of 8 x 8 halves lies where lanes 8i..8i+7 point, a row each. */
static void test_ldmatrix(const char *op, int count_, bool trans, bool generic)
{
    char t[4096];
    const size_t cap = sizeof(t);
    size_t n = 0;
    uint8_t *mem = tm_alloc(32 * 16 + 32 * 16);
    uint16_t half[32 * 8];
    bool ok = true;

    for (int i = 0; i < 32 * 8; i++)
        half[i] = (uint16_t)(i * 257 + 3);
    memcpy(mem, half, sizeof(half));
    ADD(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r<9>, %%d<4>;\n"
        ".reg .b64 %%rd<5>;\n.shared .align 16 .b8 sh[512];\nld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%tid.x;\n"
        "mul.wide.u32 %%rd2, %%r1, 16;\nadd.u64 %%rd1, %%rd1, %%rd2;\nmov.u32 %%r2, sh;\nshl.b32 %%r3, %%r1, 4;\n"
        "add.u32 %%r2, %%r2, %%r3;\nld.global.v4.u32 {%%r4, %%r5, %%r6, %%r7}, [%%rd1];\n"
        "st.shared.v4.u32 [%%r2], {%%r4, %%r5, %%r6, %%r7};\nbar.sync 0;\ncvt.u64.u32 %%rd3, %%r2;\n"
        "cvta.shared.u64 %%rd3, %%rd3;\n%s ",
        op);
    n += list(t + n, cap - n, 'd', count_);
    ADD(", [%s];\n", generic ? "%rd3" : "%r2");
    for (int i = 0; i < count_; i++)
        ADD("st.global.u32 [%%rd1+%d], %%d%d;\n", 512 + 4 * i, i);
    ADD("ret;\n}\n");
    if (launch(op, t, mem)) {
        for (int lane = 0; lane < 32; lane++)
            for (int i = 0; i < count_; i++)
                for (int e = 0; e < 2; e++) {
                    const int row = trans ? lane % 4 * 2 + e : lane / 4,
                              col = trans ? lane / 4 : lane % 4 * 2 + e;
                    uint16_t got;

                    memcpy(&got, mem + 512 + lane * 16 + i * 4 + e * 2, 2);
                    ok = ok && got == half[(i * 8 + row) * 8 + col];
                }
        t_result(op, ok, "an element differs");
    }
    tm_free_all();
}

static void test_movmatrix(void)
{
    static const char op[] = "movmatrix.sync.aligned.m8n8.trans.b16";
    char t[1024];
    uint32_t *mem = tm_alloc(32 * 8);
    uint16_t x[8][8];
    bool ok = true;

    for (int i = 0; i < 64; i++)
        x[i / 8][i % 8] = (uint16_t)(i * 1021 + 7);
    for (int lane = 0; lane < 32; lane++)
        mem[lane * 2] = x[lane / 4][lane % 4 * 2] | (uint32_t)x[lane / 4][lane % 4 * 2 + 1] << 16;
    snprintf(
        t, sizeof(t),
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n"
        ".reg .b32 %%r<4>;\n.reg .b64 %%rd<3>;\nld.param.u64 %%rd1, [p];\nmov.u32 %%r1, %%tid.x;\n"
        "mul.wide.u32 %%rd2, %%r1, 8;\nadd.u64 %%rd1, %%rd1, %%rd2;\nld.global.u32 %%r2, [%%rd1];\n%s %%r3, %%r2;\n"
        "st.global.u32 [%%rd1+4], %%r3;\nret;\n}\n",
        op);
    if (launch(op, t, mem)) {
        for (int lane = 0; lane < 32; lane++)
            ok = ok && mem[lane * 2 + 1] ==
                           (x[lane % 4 * 2][lane / 4] | (uint32_t)x[lane % 4 * 2 + 1][lane / 4] << 16);
        t_result(op, ok, "an element differs");
    }
    tm_free_all();
}

/* D = A B + 0 by wmma through shared memory. */
static void test_wmma(const char *la, const char *lb, const char *mul, const char *st, bool s8, bool acol,
                      bool bcol, int m, int n_)
{
    static char t[8192];
    const size_t cap = sizeof(t);
    const int na = s8 ? 2 : 8, nb = na, nd = 8, es = s8 ? 1 : 2;
    const int lda = acol ? m : 16, ldb = bcol ? 16 : n_;
    uint8_t *mem = tm_alloc(4096);
    static double a[32 * 16], b[16 * 32];
    size_t n = 0;
    bool ok = true;

    for (int i = 0; i < m; i++)
        for (int k = 0; k < 16; k++) {
            const uint64_t v = encode(s8 ? S8 : F16, a[i * 16 + k] = number(S8));
            memcpy(mem + (acol ? k * lda + i : i * lda + k) * es, &v, (size_t)es);
        }
    for (int k = 0; k < 16; k++)
        for (int j = 0; j < n_; j++) {
            const uint64_t v = encode(s8 ? S8 : F16, b[k * n_ + j] = number(S8));
            memcpy(mem + 1024 + (bcol ? j * ldb + k : k * ldb + j) * es, &v, (size_t)es);
        }
    ADD(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n.reg .b32 %%r<9>, %%a<8>, %%b<8>;\n"
        ".reg .%s %%c<8>, %%d<8>;\n.reg .b64 %%rd<5>;\n.shared .align 32 .b8 sh[3072];\nld.param.u64 %%rd1, [p];\n"
        "mov.u32 %%r1, %%tid.x;\nmul.wide.u32 %%rd2, %%r1, 4;\nadd.u64 %%rd1, %%rd1, %%rd2;\nmov.u32 %%r2, sh;\n"
        "shl.b32 %%r3, %%r1, 2;\nadd.u32 %%r3, %%r3, %%r2;\n",
        s8 ? "b32" : "f32");
    for (int i = 0; i < 2048; i += 128)
        ADD("ld.global.u32 %%r4, [%%rd1+%d];\nst.shared.u32 [%%r3+%d], %%r4;\n", i, i);
    for (int i = 0; i < nd; i++)
        ADD("mov.b32 %%c%d, 0;\n", i);
    ADD("bar.sync 0;\nmov.u32 %%r5, %d;\nmov.u32 %%r6, %d;\nadd.u32 %%r7, %%r2, 1024;\nadd.u32 %%r8, %%r2, 2048;\n%s ",
        lda, ldb, la);
    n += list(t + n, cap - n, 'a', na);
    ADD(", [%%r2], %%r5;\n%s ", lb);
    n += list(t + n, cap - n, 'b', nb);
    ADD(", [%%r7], %%r6;\n%s ", mul);
    n += list(t + n, cap - n, 'd', nd);
    ADD(", ");
    n += list(t + n, cap - n, 'a', na);
    ADD(", ");
    n += list(t + n, cap - n, 'b', nb);
    ADD(", ");
    n += list(t + n, cap - n, 'c', nd);
    ADD(";\nmov.u32 %%r5, %d;\n%s [%%r8], ", n_, st);
    n += list(t + n, cap - n, 'd', nd);
    ADD(", %%r5;\nbar.sync 0;\n");
    for (int i = 0; i < 1024; i += 128)
        ADD("ld.shared.u32 %%r4, [%%r3+%d];\nst.global.u32 [%%rd1+%d], %%r4;\n", 2048 + i, 2048 + i);
    ADD("ret;\n}\n");
    if (launch(mul, t, mem)) {
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n_; j++) {
                double want = 0;
                uint64_t v;

                for (int k = 0; k < 16; k++)
                    want += a[i * 16 + k] * b[k * n_ + j];
                v = encode(s8 ? S32 : F32, want);
                ok = ok && !memcmp(mem + 2048 + (i * n_ + j) * 4, &v, 4);
            }
        t_result(mul, ok, "a result differs");
    }
    tm_free_all();
}

int main(int argc, char **argv)
{
#define MMA "mma.sync.aligned."
    static const struct shape shapes[] = {
        {MMA "m16n8k8.row.col.f32.f16.f16.f32", 16, 8, 8, 16, F16, F16, F32},
        {MMA "m16n8k8.row.col.f16.f16.f16.f16", 16, 8, 8, 16, F16, F16, F16},
        {MMA "m16n8k16.row.col.f32.f16.f16.f32", 16, 8, 16, 16, F16, F16, F32},
        {MMA "m16n8k16.row.col.f16.f16.f16.f16", 16, 8, 16, 16, F16, F16, F16},
        {MMA "m16n8k16.row.col.f32.bf16.bf16.f32", 16, 8, 16, 16, BF16, BF16, F32},
        {MMA "m16n8k8.row.col.f32.tf32.tf32.f32", 16, 8, 8, 32, TF32, TF32, F32},
        {MMA "m16n8k4.row.col.f32.tf32.tf32.f32", 16, 8, 4, 32, TF32, TF32, F32},
        {MMA "m16n8k16.row.col.s32.s8.s8.s32", 16, 8, 16, 8, S8, S8, S32},
        {MMA "m16n8k32.row.col.s32.s8.s8.s32", 16, 8, 32, 8, S8, S8, S32},
        {MMA "m16n8k32.row.col.s32.u8.s8.s32", 16, 8, 32, 8, U8, S8, S32},
        {MMA "m8n8k16.row.col.s32.s8.s8.s32", 8, 8, 16, 8, S8, S8, S32},
        {MMA "m16n8k32.row.col.f32.e4m3.e4m3.f32", 16, 8, 32, 8, E4M3, E4M3, F32},
        {MMA "m16n8k32.row.col.f32.e4m3.e5m2.f32", 16, 8, 32, 8, E4M3, E5M2, F32},
        {MMA "m16n8k32.row.col.f32.e5m2.e4m3.f32", 16, 8, 32, 8, E5M2, E4M3, F32},
        {MMA "m16n8k32.row.col.f32.e5m2.e5m2.f32", 16, 8, 32, 8, E5M2, E5M2, F32},
        {MMA "m8n8k4.row.col.f64.f64.f64.f64", 8, 8, 4, 64, F64, F64, F64},
    };
    static const char *const order[] = {"row", "col"};

    t_variant(argc, argv);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        test_mma(&shapes[i]);
#define LDM "ldmatrix.sync.aligned."
    test_ldmatrix(LDM "m8n8.x1.shared.b16", 1, false, false);
    test_ldmatrix(LDM "m8n8.x2.shared.b16", 2, false, false);
    test_ldmatrix(LDM "m8n8.x2.b16", 2, false, true);
    test_ldmatrix(LDM "m8n8.x4.b16", 4, false, true);
    test_ldmatrix(LDM "m8n8.x4.trans.b16", 4, true, true);
    test_ldmatrix(LDM "m8n8.x4.shared.b16", 4, false, false);
    test_ldmatrix(LDM "m8n8.x4.trans.shared.b16", 4, true, false);
    test_ldmatrix(LDM "x4.m8n8.shared.b16", 4, false, false);
    test_ldmatrix(LDM "x4.trans.m8n8.shared.b16", 4, true, false);
    test_movmatrix();
    for (int v = 0; v < 4; v++) {
        char la[80], lb[80], mul[96];

        snprintf(la, sizeof(la), "wmma.load.a.sync.aligned.%s.m16n16k16.shared.s8", order[v & 1]);
        snprintf(lb, sizeof(lb), "wmma.load.b.sync.aligned.%s.m16n16k16.shared.s8", order[v >> 1]);
        snprintf(mul, sizeof(mul), "wmma.mma.sync.aligned.%s.%s.m16n16k16.s32.s8.s8.s32.satfinite",
                 order[v & 1], order[v >> 1]);
        test_wmma(la, lb, mul, "wmma.store.d.sync.aligned.row.m16n16k16.shared.s32", true, v & 1, v >> 1, 16,
                  16);
    }
    test_wmma("wmma.load.a.sync.aligned.row.m8n32k16.shared.f16",
              "wmma.load.b.sync.aligned.col.m8n32k16.shared.f16",
              "wmma.mma.sync.aligned.row.col.m8n32k16.f32.f32",
              "wmma.store.d.sync.aligned.row.m8n32k16.shared.f32", false, false, true, 8, 32);
    return t_end("softgpu matrices");
}

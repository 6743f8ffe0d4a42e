/* SPDX-License-Identifier: MIT */
/* mma.sp and mma with .block_scale against plain loops over whole matrices in the PTX ISA's layout. */
#include "exec/exec_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum type {
    F16,
    BF16,
    TF32,
    S8,
    U8,
    S4,
    U4,
    E4M3,
    E5M2,
    E3M2,
    E2M3,
    E2M1,
    NIBBLE /* e2m1, eight to a register */
};

static const struct {
    const char *name;
    int bits;             /* in a register */
    int ebits, mbits;     /* 0: an integer */
    int shift, low, high; /* zeros behind it; limits of an integer */
} types[] = {
    [F16] = {"f16", 16, 5, 10, 0, 0, 0},    [BF16] = {"bf16", 16, 8, 7, 0, 0, 0},
    [TF32] = {"tf32", 32, 8, 10, 13, 0, 0}, [S8] = {"s8", 8, 0, 0, 0, -128, 127},
    [U8] = {"u8", 8, 0, 0, 0, 0, 255},      [S4] = {"s4", 4, 0, 0, 0, -8, 7},
    [U4] = {"u4", 4, 0, 0, 0, 0, 15},       [E4M3] = {"e4m3", 8, 4, 3, 0, 0, 0},
    [E5M2] = {"e5m2", 8, 5, 2, 0, 0, 0},    [E3M2] = {"e3m2", 8, 3, 2, 0, 0, 0},
    [E2M3] = {"e2m3", 8, 2, 3, 0, 0, 0},    [E2M1] = {"e2m1", 8, 2, 1, 2, 0, 0},
    [NIBBLE] = {"e2m1", 4, 2, 1, 0, 0, 0},
};

struct form {
    const char *sparse, *kind, *sum; /* ".sp" or "", kind and scales, type of c */
    enum type a, b;
    int k, selectors; /* 0: a is not sparse */
    int scales;
    const char *scale; /* their type, "" */
};

static uint32_t seed = 12345;

static uint32_t any(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

/* A number that every floating-point type has, or any integer of the type. */
static double number(enum type t, bool small)
{
    static const double all[] = {0.5, 1, 1.5, 2, 3, 4, 6};

    if (!types[t].ebits)
        return types[t].low + (double)any((uint32_t)(types[t].high - types[t].low + 1));
    return all[any(small ? 4 : 7)] * (any(2) ? 1 : -1);
}

/* The bits of a number that the format has. */
static uint32_t small_float(double v, int ebits, int mbits)
{
    const int bias = (1 << (ebits - 1)) - 1;
    const uint32_t sign = v < 0 ? 1u << (ebits + mbits) : 0;
    int e;
    double m;

    if (v == 0)
        return 0;
    m = frexp(fabs(v), &e) * 2; /* 1 to 2 */
    e += bias - 1;
    if (e <= 0)
        return sign | (uint32_t)ldexp(m, mbits + e - 1);
    return sign | (uint32_t)e << mbits | (uint32_t)ldexp(m - 1, mbits);
}

static uint32_t encode(double v, enum type t)
{
    const uint32_t mask = types[t].bits == 32 ? ~0u : (1u << types[t].bits) - 1;

    if (!types[t].ebits)
        return (uint32_t)(int32_t)v & mask;
    return small_float(v, types[t].ebits, types[t].mbits) << types[t].shift;
}

static uint32_t encode_sum(double v, char sum)
{
    float f = (float)v;
    uint32_t u;

    if (sum == 'i')
        return (uint32_t)(int32_t)v;
    if (sum == 'h')
        return small_float(v, 5, 10);
    memcpy(&u, &f, 4);
    return u;
}

/* ---- a matrix a of which half is zero ---- */

struct product {
    double a[16][128], b[128][8], c[16][8], sfa[16][4], sfb[4][8];
    double kept[16][64]; /* contents of the registers of a */
    uint32_t meta[32];
};

/* Bits of metadata at place `at` of those of a row. */
static void put_metadata(struct product *p, const struct form *f, int selector, int row, int at,
                         uint32_t bits)
{
    const int quad = 4 * (row % 8), below = row >= 8;
    int lane, shift;

    if (types[f->a].bits >= 16) { /* 16 bits of the upper row, 16 of the lower */
        lane = f->selectors == 4 ? selector : 2 * selector + at / 16;
        shift = 16 * below + at % 16;
    } else { /* a register for a row, another one for the lower row */
        lane = 2 * selector + 2 * (at / 32) + below;
        shift = at % 32;
    }
    p->meta[quad + lane] &= ~(3u << shift);
    p->meta[quad + lane] |= bits << shift;
}

/* Two of four elements, or pairs of elements, or one of two; ordered or not. */
static void make_sparse(struct product *p, const struct form *f, int selector)
{
    const int bits = types[f->a].bits, unit = bits == 4 ? 2 : 1;
    const bool ordered = strstr(f->sparse, "ordered") != NULL, small = f->sum[1] == '1';

    memset(p->a, 0, sizeof(p->a));
    for (int row = 0; row < 16; row++) {
        if (bits == 32) {
            for (int x = 0; x < f->k / 2; x++) {
                const int which = (int)any(2);

                p->kept[row][x] = p->a[row][2 * x + which] = number(f->a, small);
                put_metadata(p, f, selector, row, 4 * x, which ? 2 : 0);
                put_metadata(p, f, selector, row, 4 * x + 2, which ? 3 : 1);
            }
            continue;
        }
        for (int chunk = 0; chunk < f->k / (4 * unit); chunk++) {
            int index[2] = {(int)any(4), (int)any(4)};

            while (index[1] == index[0])
                index[1] = (int)any(4);
            if (ordered && index[0] > index[1]) {
                const int first = index[0];

                index[0] = index[1];
                index[1] = first;
            }
            for (int x = 0; x < 2; x++) {
                put_metadata(p, f, selector, row, 4 * chunk + 2 * x, (uint32_t)index[x]);
                for (int e = 0; e < unit; e++)
                    p->kept[row][(2 * chunk + x) * unit + e] = p->a[row][(4 * chunk + index[x]) * unit + e] =
                        number(f->a, small);
            }
        }
    }
}

/* ---- registers ---- */

struct lane {
    uint32_t a[4], b[4], c[4], meta, sfa, sfb, pad, d[4];
};

static void fill_lane(struct lane *l, const struct product *p, const struct form *f, int lane, char sum)
{
    const int g = lane / 4, t = lane % 4, bits = types[f->a].bits, per = 32 / bits;
    const int kept = f->selectors ? f->k / 2 : f->k;

    for (int row = 0; row < 16; row++)
        for (int c = 0; c < kept; c++)
            if (row % 8 == g && c / per % 4 == t) {
                const double v = f->selectors ? p->kept[row][c] : p->a[row][c];

                l->a[row / 8 + c / per / 4 * 2] |= encode(v, f->a) << (c % per * bits);
            }
    for (int k = 0; k < f->k; k++)
        if (k / per % 4 == t)
            l->b[k / per / 4] |= encode(p->b[k][g], f->b) << (k % per * bits);
    for (int i = 0; i < 4; i++) {
        const uint32_t v = encode_sum(p->c[g + i / 2 * 8][2 * t + i % 2], sum);

        if (sum == 'h')
            l->c[i / 2] |= v << (i % 2 * 16);
        else
            l->c[i] = v;
    }
}

static uint32_t scale_bits(double v, bool ue4m3)
{
    return ue4m3 ? small_float(v, 4, 3) : (uint32_t)(ilogb(v) + 127);
}

/* Scales of row (column) r lie in one lane of its four, from byte on. */
static void put_scales(struct lane *lanes, int lane, bool of_b, int byte, const double *v, int stride,
                       const struct form *f)
{
    uint32_t *to = of_b ? &lanes[lane].sfb : &lanes[lane].sfa;

    for (int s = 0; s < f->scales; s++) {
        *to &= ~(255u << (8 * (byte + s)));
        *to |= scale_bits(v[s * stride], !strcmp(f->scale, ".ue4m3")) << (8 * (byte + s));
    }
}

static void make_numbers(struct product *p, const struct form *f, int selector, struct lane *lanes,
                         const int where[4], char sum)
{
    const bool small = sum == 'h';

    for (int i = 0; i < 32; i++)
        p->meta[i] = any(1u << 24) * 257;
    for (int row = 0; row < 16; row++)
        for (int k = 0; k < f->k; k++)
            p->a[row][k] = number(f->a, small);
    if (f->selectors)
        make_sparse(p, f, selector);
    for (int k = 0; k < f->k; k++)
        for (int j = 0; j < 8; j++)
            p->b[k][j] = number(f->b, small);
    for (int row = 0; row < 16; row++)
        for (int j = 0; j < 8; j++)
            p->c[row][j] = (double)any(64) - 32;
    memset(lanes, 0, 32 * sizeof(*lanes));
    for (int i = 0; i < 32; i++) {
        fill_lane(&lanes[i], p, f, i, sum);
        lanes[i].meta = p->meta[i];
        lanes[i].sfa = any(1u << 24) * 257;
        lanes[i].sfb = any(1u << 24) * 257;
    }
    for (int s = 0; s < 4; s++) {
        for (int row = 0; row < 16; row++)
            p->sfa[row][s] = s < f->scales ? ldexp(1, (int)any(7) - 3) : 1;
        for (int j = 0; j < 8; j++)
            p->sfb[s][j] = s < f->scales ? ldexp(1, (int)any(7) - 3) : 1;
    }
    if (!f->scales)
        return;
    for (int row = 0; row < 16; row++)
        put_scales(lanes, 4 * (row % 8) + 2 * where[1] + row / 8, false, where[0], p->sfa[row], 1, f);
    for (int j = 0; j < 8; j++)
        put_scales(lanes, 4 * j + where[3], true, where[2], &p->sfb[0][j], 8, f);
}

static void make_text(char *t, size_t cap, const char *op, const struct form *f, int selector,
                      const int where[4], bool registers)
{
    const int na = 16 * (f->selectors ? f->k / 2 : f->k) * types[f->a].bits / 1024,
              nb = f->k * types[f->b].bits / 128, nc = f->sum[1] == '1' ? 2 : 4;
    static const char *const lists[] = {"", "%a0", "{%a0,%a1}", "", "{%a0,%a1,%a2,%a3}"};
    char tail[128] = "", list[3][32];
    size_t n;

    for (int i = 0; i < 3; i++) {
        snprintf(list[i], sizeof(list[i]), "%s", lists[i == 0 ? na : i == 1 ? nb : nc]);
        for (char *c = list[i]; *c; c++)
            *c = *c == 'a' ? "abc"[i] : *c;
    }
    n = 0;
    if (f->selectors)
        n += (size_t)snprintf(tail, sizeof(tail), ", %%e, %d", selector);
    if (f->scales && registers)
        snprintf(tail + n, sizeof(tail) - n, ", %%sa, {%%h0,%%h1}, %%sb, {%%h2,%%h3}");
    else if (f->scales)
        snprintf(tail + n, sizeof(tail) - n, ", %%sa, {%d,%d}, %%sb, {%d,%d}", where[0], where[1], where[2],
                 where[3]);
    n = (size_t)snprintf(
        t, cap,
        ".version 9.1\n.target sm_120a\n.address_size 64\n.visible .entry t(.param .u64 p)\n{\n"
        ".reg .b32 %%r, %%a<4>, %%b<4>, %%c<4>, %%e, %%sa, %%sb;\n.reg .b64 %%rd<3>;\n.reg .b16 %%h<4>;\n"
        "ld.param.u64 %%rd1, [p];\nmov.u32 %%r, %%tid.x;\nmul.wide.u32 %%rd2, %%r, 80;\n"
        "add.u64 %%rd1, %%rd1, %%rd2;\nld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%rd1];\n"
        "ld.global.v4.b32 {%%b0,%%b1,%%b2,%%b3}, [%%rd1+16];\n"
        "ld.global.v4.b32 {%%c0,%%c1,%%c2,%%c3}, [%%rd1+32];\nld.global.b32 %%e, [%%rd1+48];\n"
        "ld.global.b32 %%sa, [%%rd1+52];\nld.global.b32 %%sb, [%%rd1+56];\n");
    for (int i = 0; i < 4; i++)
        n += (size_t)snprintf(t + n, cap - n, "mov.b16 %%h%d, %d;\n", i, where[i]);
    snprintf(t + n, cap - n,
             "%s %s, %s, %s, %s%s;\nst.global.v4.b32 [%%rd1+64], {%%c0,%%c1,%%c2,%%c3};\nret;\n}\n", op,
             list[2], list[0], list[1], list[2], tail);
}

static bool same(const struct lane *lanes, const struct product *p, const struct form *f, char sum)
{
    bool ok = true;

    for (int row = 0; row < 16; row++)
        for (int j = 0; j < 8; j++) {
            const int lane = 4 * (row % 8) + j / 2, i = row / 8 * 2 + j % 2;
            double v = p->c[row][j];
            uint32_t got;

            for (int k = 0; k < f->k; k++) {
                const int s = f->scales ? k / (f->k / f->scales) : 0;

                v += p->a[row][k] * p->sfa[row][s] * p->b[k][j] * p->sfb[s][j];
            }
            got = sum == 'h' ? lanes[lane].d[i / 2] >> (i % 2 * 16) & 0xffff : lanes[lane].d[i];
            ok = ok && got == encode_sum(v, sum);
        }
    return ok;
}

static void check_form(const struct form *f, int selector, const int where[4], bool registers)
{
    static struct product p;
    const char sum = f->sum[0] == 's' ? 'i' : f->sum[1] == '1' ? 'h' : 'f';
    struct lane *lanes = tm_alloc(32 * sizeof(*lanes));
    const uint64_t params[] = {(uintptr_t)lanes};
    struct sg_fault fault = {.message = ""};
    char op[192], name[256], text[4096];
    struct tk t;
    int r;

    snprintf(op, sizeof(op), "mma%s.sync.aligned.m16n8k%d.row.col%s.%s.%s.%s.%s%s", f->sparse, f->k, f->kind,
             f->sum, types[f->a].name, types[f->b].name, f->sum, f->scale);
    snprintf(name, sizeof(name), "%s, %d {%d,%d} {%d,%d}%s", op, selector, where[0], where[1], where[2],
             where[3], registers ? " in registers" : "");
    make_numbers(&p, f, selector, lanes, where, sum);
    make_text(text, sizeof(text), op, f, selector, where, registers);
    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "%s", t.diag.message);
        sg_module_free(t.m);
        tm_free_all();
        return;
    }
    r = tk_run(&t, 1, 32, params, &fault);
    t_result(name, !r && same(lanes, &p, f, sum), "%d %s: a result differs", r, fault.message);
    tk_close(&t);
    tm_free_all();
}

static const struct form forms[] = {
    {".sp", "", "f32", F16, F16, 16, 4, 0, ""},
    {".sp", "", "f16", F16, F16, 16, 4, 0, ""},
    {".sp", "", "f32", F16, F16, 32, 2, 0, ""},
    {".sp", "", "f16", F16, F16, 32, 2, 0, ""},
    {".sp", "", "f32", BF16, BF16, 16, 4, 0, ""},
    {".sp", "", "f32", BF16, BF16, 32, 2, 0, ""},
    {".sp", "", "f32", TF32, TF32, 8, 4, 0, ""},
    {".sp", "", "f32", TF32, TF32, 16, 2, 0, ""},
    {".sp", "", "s32", S8, S8, 32, 2, 0, ""},
    {".sp", "", "s32", U8, S8, 32, 2, 0, ""},
    {".sp", "", "s32", S8, U8, 64, 1, 0, ""},
    {".sp", "", "s32", U8, U8, 64, 1, 0, ""},
    {".sp", "", "s32", S4, S4, 64, 2, 0, ""},
    {".sp", "", "s32", U4, S4, 64, 2, 0, ""},
    {".sp", "", "s32", S4, U4, 128, 1, 0, ""},
    {".sp", "", "s32", U4, U4, 128, 1, 0, ""},
    {".sp", "", "f32", E4M3, E5M2, 64, 1, 0, ""},
    {".sp", "", "f32", E5M2, E4M3, 64, 1, 0, ""},
#define OM ".sp::ordered_metadata"
#define F8 ".kind::f8f6f4"
    {OM, "", "f32", F16, F16, 32, 2, 0, ""},
    {OM, "", "f32", TF32, TF32, 8, 4, 0, ""},
    {OM, "", "s32", S8, S8, 64, 1, 0, ""},
    {OM, "", "s32", S4, S4, 128, 1, 0, ""},
    {OM, "", "f16", E4M3, E4M3, 64, 1, 0, ""},
    {OM, F8, "f16", E2M1, E3M2, 64, 1, 0, ""},
    {OM, F8, "f32", E3M2, E2M3, 64, 1, 0, ""},
    {OM, F8, "f32", E2M3, E2M1, 64, 1, 0, ""},
#define MX8 ".kind::mxf8f6f4.block_scale"
#define MX4 ".kind::mxf4.block_scale"
#define NV4 ".kind::mxf4nvf4.block_scale.scale_vec::"
    {"", MX8, "f32", E4M3, E5M2, 32, 0, 1, ".ue8m0"},
    {"", MX8 ".scale_vec::1X", "f32", E3M2, E2M1, 32, 0, 1, ".ue8m0"},
    {"", MX4, "f32", NIBBLE, NIBBLE, 64, 0, 2, ".ue8m0"},
    {"", NV4 "2X", "f32", NIBBLE, NIBBLE, 64, 0, 2, ".ue8m0"},
    {"", NV4 "4X", "f32", NIBBLE, NIBBLE, 64, 0, 4, ".ue4m3"},
    {"", NV4 "4X", "f32", NIBBLE, NIBBLE, 64, 0, 4, ".ue8m0"},
    {OM, MX8, "f32", E2M3, E4M3, 64, 1, 1, ".ue8m0"},
    {OM, MX4, "f32", NIBBLE, NIBBLE, 128, 1, 2, ".ue8m0"},
    {OM, NV4 "4X", "f32", NIBBLE, NIBBLE, 128, 1, 4, ".ue4m3"},
};

/* 1 + 2^-11 + 2^-24, which is halfway between numbers of f16 if it is rounded to f32 first. */
static void round_once(void)
{
    static const int where[4] = {0};
    const struct form f = {".sp", "", "f16", F16, F16, 16, 4, 0, ""};
    struct lane *lanes = tm_alloc(32 * sizeof(*lanes));
    const uint64_t params[] = {(uintptr_t)lanes};
    struct sg_fault fault = {.message = ""};
    static struct product p;
    char text[4096];
    struct tk t;
    int r = -1;

    memset(&p, 0, sizeof(p));
    for (int row = 0; row < 16; row++)
        for (int at = 0; at < 16; at += 4) {
            put_metadata(&p, &f, 0, row, at, 0);
            put_metadata(&p, &f, 0, row, at + 2, 1);
        }
    p.kept[0][0] = 1;
    p.kept[0][1] = ldexp(1, -11);
    p.kept[0][2] = ldexp(1, -12);
    p.b[0][0] = p.b[1][0] = 1;
    p.b[4][0] = ldexp(1, -12);
    memset(lanes, 0, 32 * sizeof(*lanes));
    for (int i = 0; i < 32; i++) {
        fill_lane(&lanes[i], &p, &f, i, 'h');
        lanes[i].meta = p.meta[i];
    }
    make_text(text, sizeof(text), "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", &f, 0, where,
              false);
    if (tk_open(&t, text, "t")) {
        r = tk_run(&t, 1, 32, params, &fault);
        tk_close(&t);
    }
    t_result("a sum of f16 is rounded once", !r && lanes[0].d[0] == 0x3c01, "%d %s: 0x%x", r, fault.message,
             lanes[0].d[0]);
    tm_free_all();
}

int main(void)
{
    round_once();
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        const struct form *f = &forms[i];
        const int step = f->scales ? f->scales : 4;

        for (int selector = 0; selector < (f->selectors ? f->selectors : 1); selector++)
            for (int byte = 0; byte < 4; byte += step)
                for (int lane = 0; lane < (f->scales ? 4 : 1); lane++) {
                    const int where[4] = {byte, lane / 2, byte ? byte - step : 4 - step, lane};

                    check_form(f, selector, where, f->scales && lane == 3);
                }
    }
    return t_end("softgpu sparse and scaled matrices");
}

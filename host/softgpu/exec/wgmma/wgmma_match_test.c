/* SPDX-License-Identifier: MIT */
/*
 * wgmma against mma.sync: with a in registers both have the same fragments, so one kernel computes a
 * product in both ways and the sums must have the same bits. Elements have random mantissas, so that
 * sums round; exponents at the ends of their range, denormals, infinities and NaNs. The software GPU has
 * one rule for both, which is more than the PTX ISA promises: dense sums are f32, ascending in k, rounded
 * to f16 once at the end; sums with a sparse a are f64, added to d and rounded once; integers are exact.
 * sm_90a has no sparse mma.sync of bytes with sums of f16.
 */
#include "exec/exec_test.h"

#include <stdarg.h>
#include <stddef.h>
#include <string.h>

enum type { F16, BF16, TF32, E4M3, E5M2, S8, U8, B1 };

static const struct {
    const char *name;
    uint32_t bits, ebits, mbits; /* ebits 0: any bits are an element */
    uint32_t inf, nan;           /* 0: the format has none */
} types[] = {
    [F16] = {"f16", 16, 5, 10, 0x7c00, 0x7e01},
    [BF16] = {"bf16", 16, 8, 7, 0x7f80, 0x7f81},
    [TF32] = {"tf32", 32, 8, 23, 0x7f800000, 0x7fc00001},
    [E4M3] = {"e4m3", 8, 4, 3, 0, 0x7f},
    [E5M2] = {"e5m2", 8, 5, 2, 0x7c, 0x7e},
    [S8] = {"s8", 8, 0, 0, 0, 0},
    [U8] = {"u8", 8, 0, 0, 0, 0},
    [B1] = {"b1", 1, 0, 0, 0, 0},
};

/* Where the exponents of random elements lie. */
enum range { MIDDLE, LOW, HIGH, SPECIAL, ANY, RANGES };
static const char *const ranges[] = {"rounded", "small", "large", "with infinities and NaNs", "any bits"};

#define N 96u /* one block of 64 columns and a half */
#define TILES (N / 8)
#define SPARSE_WORDS 16u

struct form {
    enum type a, b;
    const char *d; /* "f32", "f16", "s32" */
    bool sparse, saturate, negate_a, negate_b;
    int selector;
};

/* b of mma.sync: words of a fragment of each lane; b of wgmma: core matrices, side by side. */
struct memory {
    uint32_t a[128][4], a_mma[128][4], meta[128], d[128][N / 2], e[128][N / 2];
    uint32_t b_mma[32][TILES][4], b[TILES][SPARSE_WORDS / 4][8][4];
};

static uint32_t seed = 1;

static uint32_t any_bits(void)
{
    uint32_t v = 0;

    for (int i = 0; i < 2; i++) {
        seed = seed * 1664525u + 1013904223u;
        v = v << 16 | seed >> 16;
    }
    return v;
}

/* Products of f32's small and large exponents are at the ends of its range, not behind. */
static uint32_t any_exponent(uint32_t ebits, enum range range)
{
    const uint32_t top = (1u << ebits) - 1, bias = top >> 1;

    switch (range) {
    case LOW:
        return ebits == 8 ? 58 + any_bits() % 7 : any_bits() % 3;
    case HIGH:
        return ebits == 8 ? 188 + any_bits() % 4 : top - 1 - any_bits() % 3;
    case SPECIAL:
        if (any_bits() % 8 == 0)
            return any_bits() % 2 ? 0 : top - 1;
        return bias - 2 + any_bits() % 5;
    default:
        return bias - 2 + any_bits() % 5;
    }
}

static uint32_t any_float(enum type t, enum range range)
{
    const uint32_t sign = (any_bits() & 1) << (types[t].ebits + types[t].mbits);

    if (range == SPECIAL && any_bits() % 32 == 0)
        return sign | (types[t].inf && any_bits() % 4 ? types[t].inf : types[t].nan);
    return sign | any_exponent(types[t].ebits, range) << types[t].mbits |
           (any_bits() & ((1u << types[t].mbits) - 1));
}

/* A register of elements. */
static uint32_t any_word(enum type t, enum range range)
{
    uint32_t v = 0;

    if (range == ANY || !types[t].ebits)
        return any_bits();
    for (uint32_t at = 0; at < 32; at += types[t].bits)
        v |= any_float(t, range) << at;
    return v;
}

/* An f32 is of the size of a product. */
static uint32_t any_sum(const struct form *f, enum range range)
{
    const int bias_a = (1 << types[f->a].ebits) / 2 - 1, bias_b = (1 << types[f->b].ebits) / 2 - 1;
    int e;

    if (f->d[0] == 's')
        return f->saturate ? (any_bits() & 1 ? 0x7fff0000u : 0x80000000u) + any_bits() % 65536 : any_bits();
    if (f->d[1] == '1')
        return any_word(F16, range);
    if (range == ANY)
        return any_bits();
    if (range == SPECIAL)
        return any_float(TF32, range);
    e = 127 + (int)any_exponent(types[f->a].ebits, range) - bias_a +
        (int)any_exponent(types[f->b].ebits, range) - bias_b;
    e = e < 0 ? 0 : e > 254 ? 254 : e;
    return (any_bits() & 0x807fffff) | (uint32_t)e << 23;
}

static uint32_t signs_of(enum type t)
{
    return types[t].bits == 32 ? 0x80000000u : types[t].bits == 16 ? 0x80008000u : 0x80808080u;
}

static uint32_t words_of(const struct form *f)
{
    return f->sparse ? SPARSE_WORDS : SPARSE_WORDS / 2;
}

/* Two different indices in ascending order of each four elements; of tf32 one of two. */
static uint32_t any_metadata(enum type t)
{
    uint32_t v = 0;

    for (uint32_t at = 0; at < 32; at += 4) {
        const uint32_t low = any_bits() % 3, high = low + 1 + any_bits() % (3 - low);

        v |= (types[t].bits == 32 ? (any_bits() & 1 ? 0xe : 4) : low | high << 2) << at;
    }
    return v;
}

static void fill_memory(struct memory *m, const struct form *f, enum range range)
{
    const uint32_t half = f->d[1] == '1';

    for (uint32_t i = 0; i < 128; i++) {
        for (uint32_t r = 0; r < 4; r++) {
            m->a[i][r] = any_word(f->a, range);
            m->a_mma[i][r] = m->a[i][r] ^ (f->negate_a ? signs_of(f->a) : 0);
        }
        m->meta[i] = any_metadata(f->a);
        for (uint32_t r = 0; r < N / (half ? 4 : 2); r++)
            m->d[i][r] = m->e[i][r] = any_sum(f, range);
    }
    for (uint32_t q = 0; q < TILES; q++)
        for (uint32_t k = 0; k < words_of(f); k++)
            for (uint32_t g = 0; g < 8; g++) {
                const uint32_t v = any_word(f->b, range);

                m->b[q][k / 4][g][k % 4] = v;
                m->b_mma[4 * g + k % 4][q][k / 4] = v ^ (f->negate_b ? signs_of(f->b) : 0);
            }
}

/* ---- the kernel ---- */

static char text[65536];
static size_t text_len;

static void add_text(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void add_text(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    text_len += (size_t)vsnprintf(text + text_len, sizeof(text) - text_len, format, args);
    va_end(args);
}

static void add_list(const char *reg, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        add_text("%s%s%u", i ? "," : "{", reg, i);
    add_text("}");
}

static const char head[] =
    ".version 9.0\n.target sm_90a\n.address_size 64\n.shared .align 1024 .b8 sm[6144];\n"
    ".visible .entry t(.param .u64 p, .param .u64 db)\n{\n"
    ".reg .b32 %r<8>, %a<4>, %b<4>, %c<4>, %d<128>, %e;\n.reg .b64 %rd<8>, %db;\n.reg .pred %p<3>;\n"
    "ld.param.u64 %rd1, [p];\nld.param.u64 %db, [db];\nmov.u32 %r1, %tid.x;\n";

static void add_wgmma(const struct form *f, uint32_t nd)
{
    add_text("wgmma.fence.sync.aligned;\nwgmma.mma_async%s.sync.aligned.m64n%uk%u.%s.%s.%s%s ",
             f->sparse ? ".sp" : "", N, 32 * words_of(f) / types[f->a].bits, f->d, types[f->a].name,
             types[f->b].name,
             f->a == B1    ? ".and.popc"
             : f->saturate ? ".satfinite"
                           : "");
    add_list("%d", nd);
    add_text(", {%%a0,%%a1,%%a2,%%a3}, %%db");
    if (f->sparse)
        add_text(", %%e, %d", f->selector);
    add_text(", 1");
    if (f->d[0] == 'f')
        add_text(", %d, %d", f->negate_a ? -1 : 1, f->negate_b ? -1 : 1);
    if (types[f->a].bits == 16)
        add_text(", 0");
    add_text(";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
}

static void add_mma(const struct form *f, uint32_t nc)
{
    add_text("mma%s.sync.aligned.m16n8k%u.row.col%s.%s.%s.%s.%s%s ", f->sparse ? ".sp::ordered_metadata" : "",
             32 * words_of(f) / types[f->a].bits, f->saturate ? ".satfinite" : "", f->d, types[f->a].name,
             types[f->b].name, f->d, f->a == B1 ? ".and.popc" : "");
    add_list("%c", nc);
    add_text(", {%%a0,%%a1,%%a2,%%a3}, ");
    add_list("%b", words_of(f) / 4);
    add_text(", ");
    add_list("%c", nc);
    if (f->sparse)
        add_text(", %%e, %d", f->selector);
    add_text(";\n");
}

#define AT(field) ((unsigned)offsetof(struct memory, field))

static void make_text(const struct form *f)
{
    const uint32_t nc = f->d[1] == '1' ? 2 : 4, nd = nc * TILES;

    text_len = 0;
    add_text("%s", head);
    add_text("mul.lo.u32 %%r2, %%r1, 16;\nmov.u32 %%r3, sm;\n"
             "L: add.u32 %%r4, %%r3, %%r2;\ncvt.u64.u32 %%rd2, %%r2;\nadd.u64 %%rd2, %%rd1, %%rd2;\n"
             "ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%rd2+%u];\n"
             "st.shared.v4.b32 [%%r4], {%%a0,%%a1,%%a2,%%a3};\n"
             "add.u32 %%r2, %%r2, 2048;\nsetp.lt.u32 %%p2, %%r2, 6144;\n@%%p2 bra L;\nbar.sync 0;\n",
             AT(b));
    add_text("mul.wide.u32 %%rd3, %%r1, 16;\nadd.u64 %%rd3, %%rd1, %%rd3;\n"
             "mul.wide.u32 %%rd4, %%r1, 4;\nadd.u64 %%rd4, %%rd1, %%rd4;\nld.global.b32 %%e, [%%rd4+%u];\n"
             "mul.wide.u32 %%rd4, %%r1, %u;\nadd.u64 %%rd4, %%rd1, %%rd4;\n"
             "and.b32 %%r2, %%r1, 31;\nmul.wide.u32 %%rd5, %%r2, %u;\nadd.u64 %%rd5, %%rd1, %%rd5;\n",
             AT(meta), N * 2, TILES * 16);
    add_text("ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%rd3+%u];\n", AT(a));
    for (uint32_t i = 0; i < nd; i++)
        add_text("ld.global.b32 %%d%u, [%%rd4+%u];\n", i, AT(d) + 4 * i);
    add_wgmma(f, nd);
    for (uint32_t i = 0; i < nd; i++)
        add_text("st.global.b32 [%%rd4+%u], %%d%u;\n", AT(d) + 4 * i, i);
    add_text("ld.global.v4.b32 {%%a0,%%a1,%%a2,%%a3}, [%%rd3+%u];\n", AT(a_mma));
    for (uint32_t q = 0; q < TILES; q++) {
        for (uint32_t i = 0; i < nc; i++)
            add_text("ld.global.b32 %%c%u, [%%rd4+%u];\n", i, AT(e) + 4 * (nc * q + i));
        add_text("ld.global.v4.b32 {%%b0,%%b1,%%b2,%%b3}, [%%rd5+%u];\n", AT(b_mma) + 16 * q);
        add_mma(f, nc);
        for (uint32_t i = 0; i < nc; i++)
            add_text("st.global.b32 [%%rd4+%u], %%c%u;\n", AT(e) + 4 * (nc * q + i), i);
    }
    add_text("ret;\n}\n");
}

/* ---- forms ---- */

/* No swizzle: 128 bytes to the next core matrix of the depth, of columns as many as the depth has. */
static uint64_t descriptor_of(void)
{
    return (uint64_t)(128 >> 4) << 16 | (uint64_t)(SPARSE_WORDS / 4 * 128 >> 4) << 32;
}

static void check_range(struct tk *t, const struct form *f, enum range range, const char *op)
{
    struct memory *m = tm_alloc(sizeof(*m));
    const struct {
        const void *memory;
        uint64_t db;
    } params = {m, descriptor_of()};
    struct sg_fault fault = {.message = ""};
    char name[256];
    static uint32_t before[128][N / 2];
    bool same = true, changed = true;
    int r = 0;

    for (int k = 0; k < 8 && !r && same && changed; k++) {
        fill_memory(m, f, range);
        memcpy(before, m->d, sizeof(before));
        r = tk_run(t, 1, 128, &params, &fault);
        same = !memcmp(m->d, m->e, sizeof(m->d));
        changed = memcmp(m->d, before, sizeof(before)) != 0;
    }
    snprintf(name, sizeof(name), "%s%s%s: %s", op, f->selector ? ", other selector" : "",
             f->negate_a || f->negate_b ? ", negated" : "", ranges[range]);
    for (uint32_t i = 0; i < 128 * N / 2 && !same; i++)
        if (m->d[0][i] != m->e[0][i]) {
            t_result(name, false, "lane %u register %u: 0x%x, mma.sync 0x%x", i / (N / 2), i % (N / 2),
                     m->d[0][i], m->e[0][i]);
            break;
        }
    if (same)
        t_result(name, !r && changed, "%d %s", r, r ? fault.message : "no sum has changed");
    tm_free_all();
}

static void check_form(const struct form *f)
{
    char op[96];
    struct tk t;

    make_text(f);
    snprintf(op, sizeof(op), "%s%s of %s and %s%s", f->sparse ? "sparse " : "", f->d, types[f->a].name,
             types[f->b].name, f->saturate ? ", saturated" : "");
    if (!tk_open(&t, text, "t")) {
        t_result(op, false, "%s", t.diag.message);
        return;
    }
    for (enum range r = 0; r < RANGES; r++)
        if (r == ANY || types[f->a].ebits)
            check_range(&t, f, r, op);
    tk_close(&t);
}

static const struct form forms[] = {
    {.a = F16, .b = F16, .d = "f32"},
    {.a = F16, .b = F16, .d = "f16"},
    {.a = F16, .b = F16, .d = "f16", .negate_a = true},
    {.a = BF16, .b = BF16, .d = "f32"},
    {.a = BF16, .b = BF16, .d = "f32", .negate_b = true},
    {.a = TF32, .b = TF32, .d = "f32"},
    {.a = E4M3, .b = E4M3, .d = "f32"},
    {.a = E4M3, .b = E5M2, .d = "f32", .negate_a = true, .negate_b = true},
    {.a = E5M2, .b = E4M3, .d = "f32"},
    {.a = E5M2, .b = E5M2, .d = "f32"},
    {.a = E4M3, .b = E5M2, .d = "f16"},
    {.a = E5M2, .b = E5M2, .d = "f16"},
    {.a = S8, .b = S8, .d = "s32"},
    {.a = S8, .b = U8, .d = "s32", .saturate = true},
    {.a = U8, .b = S8, .d = "s32"},
    {.a = U8, .b = U8, .d = "s32", .saturate = true},
    {.a = B1, .b = B1, .d = "s32"},
    {.a = F16, .b = F16, .d = "f32", .sparse = true},
    {.a = F16, .b = F16, .d = "f16", .sparse = true, .selector = 1},
    {.a = BF16, .b = BF16, .d = "f32", .sparse = true},
    {.a = TF32, .b = TF32, .d = "f32", .sparse = true, .selector = 1},
    {.a = E4M3, .b = E5M2, .d = "f32", .sparse = true},
    {.a = S8, .b = U8, .d = "s32", .sparse = true, .saturate = true},
    {.a = U8, .b = U8, .d = "s32", .sparse = true},
};

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        check_form(&forms[i]);
    return t_end("softgpu wgmma and mma");
}

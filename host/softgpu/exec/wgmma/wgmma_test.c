/* SPDX-License-Identifier: MIT */
/*
 * wgmma against plain loops over whole matrices. The matrices are laid out in shared memory and in
 * registers by the tables of the PTX ISA, written here anew: a swizzled atom is a list of places.
 */
#include "exec/code.h"
#include "exec/exec_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum type { F16, BF16, TF32, E4M3, E5M2, S8, U8, B1 };

static const struct {
    const char *name;
    int bits, ebits, mbits, low, high; /* ebits 0: an integer */
} types[] = {
    [F16] = {"f16", 16, 5, 10, 0, 0}, [BF16] = {"bf16", 16, 8, 7, 0, 0}, [TF32] = {"tf32", 32, 8, 10, 0, 0},
    [E4M3] = {"e4m3", 8, 4, 3, 0, 0}, [E5M2] = {"e5m2", 8, 5, 2, 0, 0},  [S8] = {"s8", 8, 0, 0, -128, 127},
    [U8] = {"u8", 8, 0, 0, 0, 255},   [B1] = {"b1", 1, 0, 0, 0, 1},
};

enum { NONE, SW32, SW64, SW128 };
static const unsigned modes[] = {0, 3, 2, 1};
static const char *const mode_names[] = {"no swizzle", "32B", "64B", "128B"};

struct form {
    enum type a, b;
    const char *d; /* "f32", "f16", "s32" */
    int n;
    bool registers, sparse;
    int swizzle_a, swizzle_b;
    bool mn_a, mn_b, negate_a, negate_b, replace, saturate;
    int selector;
    int offset;  /* of b in depth: start address, in bytes, within an atom of a K-major layout */
    int pattern; /* of b: 128 bytes that the pattern begins behind 1024 */
};

#define ROWS 64
#define MAX_DEPTH 256
#define MAX_N 256
#define IMAGE 131072
#define B_AT 65536

struct product {
    double a[ROWS][MAX_DEPTH], b[MAX_N][MAX_DEPTH], c[ROWS][MAX_N];
    double kept[ROWS][MAX_DEPTH];
    uint32_t meta[128];
};

/* What the kernel reads and writes; d: 128 registers of a thread. */
struct memory {
    uint8_t image[IMAGE];
    uint32_t a[128][4], meta[128], d[128][128];
};

static uint32_t seed = 4711;

static uint32_t any(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static double number(enum type t)
{
    static const double all[] = {0.5, 1, 1.5, 2, 3};

    if (!types[t].ebits)
        return types[t].low + (double)any((uint32_t)(types[t].high - types[t].low + 1));
    return all[any(5)] * (any(2) ? 1 : -1);
}

/* The bits of a number that the format has, and whose exponent is not the lowest. */
static uint32_t small_float(double v, int ebits, int mbits)
{
    const uint32_t sign = v < 0 ? 1u << (ebits + mbits) : 0;
    int e;
    const double m = frexp(fabs(v), &e) * 2;

    if (v == 0)
        return 0;
    return sign | (uint32_t)(e - 1 + (1 << (ebits - 1)) - 1) << mbits | (uint32_t)ldexp(m - 1, mbits);
}

static uint32_t encode(double v, enum type t)
{
    const uint32_t mask = types[t].bits == 32 ? ~0u : (1u << types[t].bits) - 1;

    if (!types[t].ebits)
        return (uint32_t)(int32_t)v & mask;
    if (t == TF32) /* with low bits that do not count */
        return small_float(v, 8, 10) << 13 | any(1 << 13);
    return small_float(v, types[t].ebits, types[t].mbits);
}

/* Of the integers that encode() has made. */
static double value_of_f16(uint16_t v)
{
    const double m = v & 0x7fff ? ldexp(1 + (v & 1023) / 1024.0, (v >> 10 & 31) - 15) : 0;

    return v & 0x8000 ? -m : m;
}

static uint32_t encode_sum(double v, const char *d)
{
    float f = (float)v;
    uint32_t u;

    if (d[0] == 's')
        return (uint32_t)(int64_t)v;
    if (d[1] == '1')
        return small_float(v, 5, 10);
    memcpy(&u, &f, 4);
    return u;
}

/* ---- shared memory ---- */

/*
 * Places, in 16 bytes, of an atom's 8 rows (K-major: of the matrix; MN-major: of the depth) of 1, 2, 4
 * or 8 pieces: a row's pieces change places with each row of 128 bytes.
 */
static int place_in_atom(int swizzle, int row, int piece)
{
    static const int of_64[8][4] = {{0, 1, 2, 3},     {4, 5, 6, 7},     {9, 8, 11, 10},   {13, 12, 15, 14},
                                    {18, 19, 16, 17}, {22, 23, 20, 21}, {27, 26, 25, 24}, {31, 30, 29, 28}};
    static const int of_32[8][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {9, 8}, {11, 10}, {13, 12}, {15, 14}};

    switch (swizzle) {
    case NONE:
        return row;
    case SW32:
        return of_32[row][piece];
    case SW64:
        return of_64[row][piece];
    default:
        return 8 * row + (piece ^ row);
    }
}

/* Sizes of atoms, and the distances between them; both directions have room in between. */
struct layout {
    int swizzle, start; /* start: of the pattern */
    bool mn;
    int leading, stride;
    int bits, offset;
};

static struct layout layout_of(int swizzle, bool mn, int bits, int start, int mn_size)
{
    const int wide = 1 << swizzle, atom = 128 * wide;
    struct layout l = {.swizzle = swizzle, .start = start, .mn = mn, .bits = bits};

    if (!mn) {
        l.stride = swizzle == NONE ? 272 : atom;
        l.leading = swizzle == NONE ? 272 * mn_size / 8 : 16;
    } else if (swizzle == NONE) {
        l.stride = 144;
        l.leading = 144 * mn_size / 8;
    } else {
        l.leading = atom; /* to the next columns */
        l.stride = atom * ((mn_size * bits / 8 + 16 * wide - 1) / (16 * wide)) + 1024;
    }
    return l;
}

/* The byte in which bit 0 of the element lies, and the bit. */
static int place_of(const struct layout *l, int mn, int k, int *bit)
{
    const int wide = 1 << l->swizzle, per = 128 / l->bits, piece = (l->mn ? mn : k) / per;
    const int element = (l->mn ? mn : k) % per, across = l->mn ? k : mn;
    int at = l->start, skip = l->mn ? 0 : l->offset / 16;

    *bit = element * l->bits % 8;
    if (l->swizzle == NONE && !l->mn)
        at += across / 8 * l->stride + piece * l->leading + across % 8 * 16;
    else if (l->swizzle == NONE)
        at += piece * l->stride + across / 8 * l->leading + across % 8 * 16;
    else if (!l->mn)
        at += across / 8 * l->stride + 16 * place_in_atom(l->swizzle, across % 8, piece + skip);
    else
        at += across / 8 * l->stride + piece / wide * l->leading +
              16 * place_in_atom(l->swizzle, across % 8, piece % wide);
    return at + element * l->bits / 8;
}

static uint64_t descriptor_of(const struct layout *l)
{
    const uint64_t swizzled = l->swizzle != NONE;

    /* what a swizzled K-major layout does not use is not zero */
    return (uint64_t)((l->start + l->offset) >> 4) | (uint64_t)(l->leading >> 4 & 0x3fff) << 16 |
           (uint64_t)(l->stride >> 4 & 0x3fff) << 32 | (swizzled ? (uint64_t)(l->start >> 7 & 7) << 49 : 0) |
           (uint64_t)modes[l->swizzle] << 62;
}

static void put_bits(uint8_t *image, int at, int bit, int bits, uint32_t v)
{
    if (bits < 8)
        image[at] = (uint8_t)((image[at] & ~(1u << bit)) | v << bit);
    else
        memcpy(image + at, &v, (size_t)bits / 8);
}

/* ---- a product ---- */

static int depth_of(const struct form *f)
{
    return (f->sparse ? 512 : 256) / types[f->a].bits;
}

/* The metadata of mma.sp of 16 rows, in each warp. */
static void put_metadata(struct product *p, const struct form *f, int row, int at, uint32_t bits)
{
    const int first = row / 16 * 32 + row % 8 * 4, below = row % 16 >= 8;
    int lane, shift;

    if (types[f->a].bits >= 16) {
        lane = first + 2 * f->selector + at / 16;
        shift = 16 * below + at % 16;
    } else {
        lane = first + 2 * (at / 32) + below;
        shift = at % 32;
    }
    p->meta[lane] &= ~(3u << shift);
    p->meta[lane] |= bits << shift;
}

static void make_sparse(struct product *p, const struct form *f)
{
    memset(p->a, 0, sizeof(p->a));
    for (int row = 0; row < ROWS; row++) {
        for (int x = 0; types[f->a].bits == 32 && x < depth_of(f) / 2; x++) {
            const int which = (int)any(2);

            p->kept[row][x] = p->a[row][2 * x + which] = number(f->a);
            put_metadata(p, f, row, 4 * x, which ? 2 : 0);
            put_metadata(p, f, row, 4 * x + 2, which ? 3 : 1);
        }
        for (int x = 0; types[f->a].bits < 32 && x < depth_of(f) / 4; x++) {
            int lower = (int)any(3), upper = lower + 1 + (int)any((uint32_t)(3 - lower));

            put_metadata(p, f, row, 4 * x, (uint32_t)lower);
            put_metadata(p, f, row, 4 * x + 2, (uint32_t)upper);
            p->kept[row][2 * x] = p->a[row][4 * x + lower] = number(f->a);
            p->kept[row][2 * x + 1] = p->a[row][4 * x + upper] = number(f->a);
        }
    }
}

static void make_numbers(struct product *p, const struct form *f)
{
    const int depth = depth_of(f);

    for (int i = 0; i < 128; i++)
        p->meta[i] = any(1u << 24) * 257;
    for (int row = 0; row < ROWS; row++) {
        for (int k = 0; k < depth; k++)
            p->a[row][k] = p->kept[row][k] = number(f->a);
        for (int j = 0; j < f->n; j++) {
            p->c[row][j] = (double)any(64) - 32;
            if (f->saturate)
                p->c[row][j] += any(2) ? 2147400000.0 : -2147400000.0;
        }
    }
    for (int j = 0; j < f->n; j++)
        for (int k = 0; k < depth; k++)
            p->b[j][k] = number(f->b);
    if (f->sparse)
        make_sparse(p, f);
}

static void fill_memory(struct memory *m, const struct product *p, const struct form *f,
                        const struct layout *la, const struct layout *lb)
{
    const int bits = types[f->a].bits, per = bits < 32 ? 32 / bits : 1, kept = 256 / bits;
    int bit;

    for (int i = 0; i < IMAGE; i++)
        m->image[i] = (uint8_t)any(256);
    for (int row = 0; row < ROWS; row++)
        for (int k = 0; k < kept; k++) {
            const uint32_t v = encode(p->kept[row][k], f->a);
            const int lane = row / 16 * 32 + row % 8 * 4 + k / per % 4;

            if (!f->registers) {
                const int at = place_of(la, row, k, &bit);

                put_bits(m->image, at, bit, bits, v);
            } else {
                m->a[lane][row % 16 / 8 + k / per / 4 * 2] |= v << (k % per * bits);
            }
        }
    for (int j = 0; j < f->n; j++)
        for (int k = 0; k < depth_of(f); k++) {
            const int at = place_of(lb, j, k, &bit);

            put_bits(m->image, at, bit, types[f->b].bits, encode(p->b[j][k], f->b));
        }
    memcpy(m->meta, p->meta, sizeof(m->meta));
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < f->n; j++) {
            const int lane = row / 16 * 32 + row % 8 * 4 + j % 8 / 2, half = f->d[1] == '1';
            const int place = j / 8 * 4 + row % 16 / 8 * 2 + j % 2;
            const uint32_t v = encode_sum(p->c[row][j], f->d);

            if (half)
                m->d[lane][place / 2] |= v << (place % 2 * 16);
            else
                m->d[lane][place] = v;
        }
}

static bool same_sums(const struct memory *m, const struct product *p, const struct form *f)
{
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < f->n; j++) {
            const int lane = row / 16 * 32 + row % 8 * 4 + j % 8 / 2;
            const int place = j / 8 * 4 + row % 16 / 8 * 2 + j % 2;
            double v = f->replace ? 0 : p->c[row][j], sum = 0;
            uint32_t got = m->d[lane][place];

            for (int k = 0; k < depth_of(f); k++)
                sum += p->a[row][k] * p->b[j][k];
            v += f->negate_a != f->negate_b ? -sum : sum;
            if (f->saturate)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            if (f->d[1] == '1')
                got = m->d[lane][place / 2] >> (place % 2 * 16) & 0xffff;
            if (got != encode_sum(v, f->d))
                return false;
        }
    return true;
}

/* ---- the kernel ---- */

static size_t put_list(char *t, size_t cap, const char *reg, int n)
{
    size_t len = 0;

    for (int i = 0; i < n; i++)
        len += (size_t)snprintf(t + len, cap - len, "%s%s%d", i ? "," : "{", reg, i);
    return len + (size_t)snprintf(t + len, cap - len, "}");
}

static void make_opcode(char *t, size_t cap, const struct form *f)
{
    snprintf(t, cap, "wgmma.mma_async%s.sync.aligned.m64n%dk%d.%s.%s.%s%s", f->sparse ? ".sp" : "", f->n,
             depth_of(f), f->d, types[f->a].name, types[f->b].name,
             f->a == B1    ? ".and.popc"
             : f->saturate ? ".satfinite"
                           : "");
}

static const char head[] =
    ".version 8.4\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 sm[];\n"
    ".visible .entry t(.param .u64 p, .param .u64 da, .param .u64 db, .param .u32 add)\n{\n"
    ".reg .b32 %r<8>, %a<4>, %d<128>, %e;\n.reg .b64 %rd<8>, %da, %db;\n.reg .pred %p<3>;\n"
    "ld.param.u64 %rd1, [p];\nld.param.u64 %da, [da];\nld.param.u64 %db, [db];\nld.param.u32 %r1, [add];\n"
    "setp.ne.u32 %p1, %r1, 0;\nmov.u32 %r1, %tid.x;\nmul.lo.u32 %r2, %r1, 16;\nmov.u32 %r3, sm;\n"
    "L: add.u32 %r4, %r3, %r2;\ncvt.u64.u32 %rd2, %r2;\nadd.u64 %rd2, %rd1, %rd2;\n"
    "ld.global.v4.b32 {%a0,%a1,%a2,%a3}, [%rd2];\nst.shared.v4.b32 [%r4], {%a0,%a1,%a2,%a3};\n"
    "add.u32 %r2, %r2, 2048;\nsetp.lt.u32 %p2, %r2, 131072;\n@%p2 bra L;\nbar.sync 0;\n"
    "and.b32 %r1, %r1, 127;\nadd.u64 %rd2, %rd1, 131072;\nmul.wide.u32 %rd3, %r1, 16;\nadd.u64 %rd3, %rd2, %rd3;\n"
    "ld.global.v4.b32 {%a0,%a1,%a2,%a3}, [%rd3];\nmul.wide.u32 %rd3, %r1, 4;\nadd.u64 %rd3, %rd2, %rd3;\n"
    "ld.global.b32 %e, [%rd3+2048];\nmul.wide.u32 %rd3, %r1, 512;\nadd.u64 %rd3, %rd2, %rd3;\n"
    "add.u64 %rd3, %rd3, 2560;\n";

static void make_text(char *t, size_t cap, const struct form *f)
{
    const int nd = f->d[1] == '1' ? f->n / 4 : f->n / 2;
    size_t n = (size_t)snprintf(t, cap, "%s", head);
    char op[128];

    for (int i = 0; i < nd; i++)
        n += (size_t)snprintf(t + n, cap - n, "ld.global.b32 %%d%d, [%%rd3+%d];\n", i, 4 * i);
    make_opcode(op, sizeof(op), f);
    n += (size_t)snprintf(t + n, cap - n, "wgmma.fence.sync.aligned;\n%s ", op);
    n += put_list(t + n, cap - n, "%d", nd);
    n += (size_t)snprintf(t + n, cap - n, ", %s, %%db", f->registers ? "{%a0,%a1,%a2,%a3}" : "%da");
    if (f->sparse)
        n += (size_t)snprintf(t + n, cap - n, ", %%e, %d", f->selector);
    n += (size_t)snprintf(t + n, cap - n, ", %%p1");
    if (f->d[0] == 'f')
        n += (size_t)snprintf(t + n, cap - n, ", %d, %d", f->negate_a ? -1 : 1, f->negate_b ? -1 : 1);
    if (types[f->a].bits == 16 && !f->registers)
        n += (size_t)snprintf(t + n, cap - n, ", %d", f->mn_a);
    if (types[f->a].bits == 16)
        n += (size_t)snprintf(t + n, cap - n, ", %d", f->mn_b);
    n += (size_t)snprintf(t + n, cap - n,
                          ";\nwgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n");
    for (int i = 0; i < nd; i++)
        n += (size_t)snprintf(t + n, cap - n, "st.global.b32 [%%rd3+%d], %%d%d;\n", 4 * i, i);
    snprintf(t + n, cap - n, "ret;\n}\n");
}

struct params {
    const void *memory;
    uint64_t da, db;
    uint32_t add;
};

static char text[65536];

static bool open_form(struct tk *t, const struct form *f, const char *name)
{
    make_text(text, sizeof(text), f);
    if (tk_open(t, text, "t"))
        return true;
    t_result(name, false, "%s", t->diag.message);
    sg_module_free(t->m);
    return false;
}

static int run_form(struct tk *t, uint32_t threads, const struct params *p, struct sg_fault *fault)
{
    const uint32_t one[3] = {1, 1, 1}, block[3] = {threads, 1, 1};

    return tk_run3(t, one, block, IMAGE, p, fault);
}

static void check_form(const struct form *f)
{
    static struct product p;
    struct memory *m = tm_alloc(sizeof(*m));
    struct layout la = layout_of(f->swizzle_a, f->mn_a, types[f->a].bits, 0, ROWS);
    struct layout lb = layout_of(f->swizzle_b, f->mn_b, types[f->b].bits, B_AT + 128 * f->pattern, f->n);
    struct sg_fault fault = {.message = ""};
    struct params params;
    char op[128], name[256];
    struct tk t;
    int r;

    make_opcode(op, sizeof(op), f);
    lb.offset = f->offset;
    snprintf(name, sizeof(name), "%s, a %s%s, b %s%s%s%s%s%s", op,
             f->registers ? "in registers" : mode_names[f->swizzle_a], f->mn_a ? " by m" : "",
             mode_names[f->swizzle_b], f->mn_b ? " by n" : "", f->offset ? ", inside an atom" : "",
             f->pattern ? ", base offset" : "", f->replace ? ", replaced" : "",
             f->negate_a || f->negate_b ? ", negated" : "");
    make_numbers(&p, f);
    fill_memory(m, &p, f, &la, &lb);
    params = (struct params){m, descriptor_of(&la), descriptor_of(&lb), !f->replace};
    if (!open_form(&t, f, name)) {
        tm_free_all();
        return;
    }
    r = run_form(&t, 128, &params, &fault);
    t_result(name, !r && same_sums(m, &p, f), "%d %s: a sum differs", r, fault.message);
    tk_close(&t);
    tm_free_all();
}

static const struct form types_and_sizes[] = {
    {.a = F16, .b = F16, .d = "f32", .n = 8},
    {.a = F16, .b = F16, .d = "f32", .n = 40, .registers = true},
    {.a = F16, .b = F16, .d = "f32", .n = 72},
    {.a = F16, .b = F16, .d = "f32", .n = 256},
    {.a = F16, .b = F16, .d = "f16", .n = 8, .registers = true},
    {.a = F16, .b = F16, .d = "f16", .n = 136},
    {.a = F16, .b = F16, .d = "f16", .n = 256, .replace = true},
    {.a = BF16, .b = BF16, .d = "f32", .n = 128},
    {.a = BF16, .b = BF16, .d = "f32", .n = 248, .registers = true},
    {.a = TF32, .b = TF32, .d = "f32", .n = 64},
    {.a = TF32, .b = TF32, .d = "f32", .n = 24, .registers = true, .negate_a = true},
    {.a = E4M3, .b = E4M3, .d = "f32", .n = 96},
    {.a = E4M3, .b = E5M2, .d = "f16", .n = 16, .registers = true},
    {.a = E5M2, .b = E4M3, .d = "f16", .n = 104, .negate_b = true},
    {.a = E5M2, .b = E5M2, .d = "f32", .n = 48, .negate_a = true, .negate_b = true},
    {.a = S8, .b = S8, .d = "s32", .n = 8},
    {.a = S8, .b = U8, .d = "s32", .n = 24, .registers = true},
    {.a = U8, .b = S8, .d = "s32", .n = 240, .saturate = true},
    {.a = U8, .b = U8, .d = "s32", .n = 256, .replace = true},
    {.a = S8, .b = S8, .d = "s32", .n = 112, .saturate = true, .registers = true},
    {.a = B1, .b = B1, .d = "s32", .n = 8, .registers = true},
    {.a = B1, .b = B1, .d = "s32", .n = 176},
    {.a = F16, .b = F16, .d = "f32", .n = 64, .sparse = true, .selector = 1},
    {.a = F16, .b = F16, .d = "f16", .n = 32, .sparse = true, .registers = true},
    {.a = BF16, .b = BF16, .d = "f32", .n = 8, .sparse = true, .registers = true, .negate_a = true},
    {.a = TF32, .b = TF32, .d = "f32", .n = 128, .sparse = true},
    {.a = TF32, .b = TF32, .d = "f32", .n = 16, .sparse = true, .registers = true, .selector = 1},
    {.a = E4M3, .b = E5M2, .d = "f32", .n = 88, .sparse = true},
    {.a = E5M2, .b = E5M2, .d = "f16", .n = 8, .sparse = true, .registers = true},
    {.a = S8, .b = U8, .d = "s32", .n = 80, .sparse = true},
    {.a = U8, .b = U8, .d = "s32", .n = 256, .sparse = true, .saturate = true, .registers = true},
};

/* Each swizzle of a and b, K-major and MN-major. */
static void check_layouts(enum type type, const char *d, bool sparse)
{
    const bool both = types[type].bits == 16;

    for (int swizzle = NONE; swizzle <= SW128; swizzle++)
        for (int major = 0; major < (both ? 4 : 1); major++) {
            struct form f = {.a = type,
                             .b = type,
                             .d = d,
                             .n = major == 3 ? 192 : 80,
                             .sparse = sparse,
                             .swizzle_a = swizzle,
                             .swizzle_b = SW128 - swizzle,
                             .mn_a = major & 1,
                             .mn_b = major >> 1};

            if (sparse && f.swizzle_b == SW32 && !f.mn_b)
                continue; /* 64 bytes of depth are not in rows of 32 bytes */
            check_form(&f);
            if (f.swizzle_b == NONE || f.mn_b || sparse)
                continue;
            for (f.offset = 0; f.offset < 16 << f.swizzle_b; f.offset += 32)
                for (f.pattern = 0; f.pattern < 8; f.pattern += 3)
                    if (f.offset || f.pattern)
                        check_form(&f);
        }
}

/* Each sign of a and b, with a sparse a and without, for all types that have signs. */
static void check_signs(void)
{
    static const enum type signs[] = {F16, BF16, TF32, E4M3, E5M2};

    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        for (int k = 0; k < 8; k++) {
            const struct form f = {.a = signs[i],
                                   .b = signs[i],
                                   .d = "f32",
                                   .n = 24,
                                   .sparse = k & 1,
                                   .negate_a = k & 2,
                                   .negate_b = k & 4};

            check_form(&f);
        }
}

/* A loop of fewer turns than a time slice has, of large products: its launch is seen to take too long. */
static void time_slices(void)
{
    static const struct form f = {.a = F16, .b = F16, .d = "f32", .n = 256};
    struct memory *m = tm_alloc(sizeof(*m));
    const struct params params = {m, 0, 0, 1};
    struct sg_fault fault = {.message = ""};
    static char rest[sizeof(text)];
    char *at, *end;
    struct tk t;
    int r;

    make_text(text, sizeof(text), &f);
    at = strstr(text, "wgmma.mma_async");
    end = strchr(at, ';') + 1;
    snprintf(rest, sizeof(rest), "%s", end);
    snprintf(end, sizeof(text) - (size_t)(end - text),
             "\nadd.u32 %%turn, %%turn, 1;\nsetp.lt.u32 %%p2, %%turn, 300;\n@%%p2 bra TURN;\n%s", rest);
    snprintf(rest, sizeof(rest), "%s", at);
    snprintf(at, sizeof(text) - (size_t)(at - text), ".reg .b32 %%turn;\nmov.u32 %%turn, 0;\nTURN: %s", rest);
    if (!tk_open(&t, text, "t"))
        return t_result("a loop of products", false, "%s", t.diag.message);
    r = run_form(&t, 128, &params, &fault);
    t_result("a loop of products", !r, "%d %s", r, fault.message);
    t_watchdog = 200;
    r = run_form(&t, 128, &params, &fault);
    t_watchdog = 2000000000ull;
    t_result("a time slice counts products", r == SG_ERR_TIMEOUT, "%d %s", r, fault.message);
    tk_close(&t);
    tm_free_all();
}

/* ---- refusals ---- */

static void refuse_blocks(void)
{
    const struct form f = {.a = F16, .b = F16, .d = "f32", .n = 8};
    struct memory *m = tm_alloc(sizeof(*m));
    const struct params params = {m, 0, 0, 1};
    static const uint32_t threads[] = {32, 96, 127, 160};
    struct sg_fault fault = {.message = ""};
    struct tk t;

    if (!open_form(&t, &f, "blocks"))
        return;
    for (size_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        char name[64];
        const int r = run_form(&t, threads[i], &params, &fault);

        snprintf(name, sizeof(name), "wgmma in a block of %u threads", threads[i]);
        t_result(name, r == 715, "%d %s", r, fault.message);
    }
    t_result("wgmma in two warpgroups", !run_form(&t, 256, &params, &fault), "%s", fault.message);
    tk_close(&t);
    tm_free_all();
}

static void refuse_lanes(void)
{
    static const struct form f = {.a = F16, .b = F16, .d = "f32", .n = 8};
    struct memory *m = tm_alloc(sizeof(*m));
    const struct params params = {m, 0, 0, 1};
    struct sg_fault fault = {.message = ""};
    char *at, rest[4096];
    struct tk t;
    int r;

    make_text(text, sizeof(text), &f);
    at = strstr(text, "wgmma.mma_async");
    snprintf(rest, sizeof(rest), "%s", at);
    snprintf(at, sizeof(text) - (size_t)(at - text), "setp.ne.u32 %%p2, %%r1, 77;\n@%%p2 %s", rest);
    if (!tk_open(&t, text, "t"))
        return t_result("wgmma without a lane", false, "%s", t.diag.message);
    r = run_form(&t, 128, &params, &fault);
    t_result("wgmma without a lane", r == 715, "%d %s", r, fault.message);
    tk_close(&t);
    tm_free_all();
}

/* A descriptor may say anything: the first byte outside the block's memory is a fault. */
static void hostile_descriptors(void)
{
    static const struct form forms[] = {
        {.a = F16, .b = F16, .d = "f32", .n = 256},
        {.a = F16, .b = F16, .d = "f32", .n = 256, .mn_a = true, .mn_b = true},
        {.a = U8, .b = S8, .d = "s32", .n = 256, .sparse = true}};
    struct memory *m = tm_alloc(sizeof(*m));
    struct sg_fault fault = {.message = ""};
    struct params params = {m, 0, 0, 1};
    int faults = 0, ran = 0, others = 0;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        struct tk t;

        if (!open_form(&t, &forms[i], "hostile descriptors"))
            return;
        for (int k = 0; k < 400; k++) {
            uint64_t v[2];

            for (int j = 0; j < 2; j++)
                v[j] = (uint64_t)any(1 << 24) << 40 ^ (uint64_t)any(1 << 24) << 20 ^ any(1 << 24);
            params.da = k % 3 ? v[0] & 0xc00003ff00ff1fffu : v[0];
            params.db = k % 2 ? v[1] & 0xc00003ff00ff1fffu : v[1];
            const int r = run_form(&t, 128, &params, &fault);

            ran += !r;
            faults += r == 700 && strstr(fault.space, "shared") && fault.address >= IMAGE &&
                      fault.access_size == 16;
            others += r && r != 700;
        }
        params.da = params.db = (IMAGE - 16) >> 4; /* of the first row; the others lie behind */
        t_result("behind the last row of shared memory",
                 run_form(&t, 128, &params, &fault) == 700 && fault.address == IMAGE, "%s", fault.message);
        tk_close(&t);
    }
    t_result("descriptors of any value", faults && ran && !others && faults + ran == 1200,
             "%d faults, %d ran, %d others", faults, ran, others);
    tm_free_all();
}

/* NaNs of f32 and f16 are PTX's. */
static void canonical_nans(void)
{
    struct memory *m = tm_alloc(sizeof(*m));
    const struct params params = {m, 0, 0, 0};
    struct sg_fault fault = {.message = ""};

    for (int half = 0; half < 2; half++) {
        const struct form f = {.a = F16, .b = F16, .d = half ? "f16" : "f32", .n = 8, .registers = true};
        const uint32_t want = half ? 0x7fff7fff : 0x7fffffff;
        struct tk t;

        memset(m->image, 0, sizeof(m->image));
        for (int i = 0; i < 128; i++)
            m->a[i][0] = 0xfe01fe01u;
        if (!open_form(&t, &f, "NaNs"))
            return;
        const int r = run_form(&t, 128, &params, &fault);

        t_result(half ? "NaNs of f16" : "NaNs of f32", !r && m->d[5][0] == want, "%d %s: 0x%x", r,
                 fault.message, m->d[5][0]);
        tk_close(&t);
    }
    tm_free_all();
}

/* Registers of columns 0 to 7 that are those of columns 8 to 15, too: all are read before any is written. */
static void repeated_registers(void)
{
    static const struct form f = {.a = F16, .b = F16, .d = "f32", .n = 16};
    const char list[] = "{%d0,%d1,%d2,%d3,%d4,%d5,%d6,%d7}", twice[] = "{%d0,%d1,%d2,%d3,%d0,%d1,%d2,%d3}";
    static struct product p;
    struct layout la = layout_of(NONE, false, 16, 0, ROWS), lb = layout_of(NONE, false, 16, B_AT, 16);
    struct memory *m = tm_alloc(sizeof(*m));
    const struct params params = {m, descriptor_of(&la), descriptor_of(&lb), 1};
    struct sg_fault fault = {.message = ""};
    struct tk t;
    int r;

    make_numbers(&p, &f);
    fill_memory(m, &p, &f, &la, &lb);
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < 8; j++)
            p.c[row][j + 8] = p.c[row][j];
    make_text(text, sizeof(text), &f);
    memcpy(strstr(text, list), twice, sizeof(twice) - 1);
    if (!tk_open(&t, text, "t"))
        return t_result("registers that stand twice", false, "%s", t.diag.message);
    r = run_form(&t, 128, &params, &fault);
    for (int i = 0; i < 128; i++) /* the first four have the sums of the last columns */
        memcpy(m->d[i] + 4, m->d[i], 4 * sizeof(m->d[i][0]));
    for (int row = 0; row < ROWS; row++)
        for (int j = 0; j < 8; j++) {
            p.c[row][j] = p.c[row][j + 8];
            memcpy(p.b[j], p.b[j + 8], sizeof(p.b[j]));
        }
    t_result("registers that stand twice", !r && same_sums(m, &p, &f), "%d %s", r, fault.message);
    tk_close(&t);
    tm_free_all();
}

/* A product as nvcc compiles it (tests-ptx/warpgroup.cu): two warpgroups, depths of several tiles. */
static void compiled(const char *path)
{
    enum { K = 192 };
    FILE *in = fopen(path, "rb");
    char *code = calloc(1, 1 << 20);
    uint16_t *a = tm_alloc((128 + 64) * K * 2), *b = a + 128 * K;
    float *c = tm_alloc(128 * 64 * 4);
    const struct {
        const void *a, *b;
        float *c;
        int k;
    } params = {a, b, c, K};
    struct sg_fault fault = {.message = ""};
    bool ok = in && code && fread(code, 1, (1 << 20) - 1, in);
    struct tk t;

    if (in)
        fclose(in);
    for (int i = 0; i < (128 + 64) * K; i++)
        a[i] = (uint16_t)encode((double)any(5) - 2, F16);
    if (!ok) {
        t_skip("a product that nvcc compiled", "no nvcc when the tests were built");
    } else if (!tk_open(&t, code, "warpgroup")) {
        t_result("a product that nvcc compiled", false, "%s", t.diag.message);
    } else {
        const int r = tk_run(&t, 1, 256, &params, &fault);

        for (int row = 0; row < 128; row++)
            for (int j = 0; j < 64; j++) {
                double sum = 0;

                for (int k = 0; k < K; k++)
                    sum += value_of_f16(a[row * K + k]) * value_of_f16(b[j * K + k]);
                ok &= c[row * 64 + j] == (float)sum;
            }
        t_result("a product that nvcc compiled", ok && !r, "%d %s", r, fault.message);
        tk_close(&t);
    }
    free(code);
    tm_free_all();
}

int main(int argc, char **argv)
{
    const char *dir = argc ? strrchr(argv[0], '/') : NULL;
    char path[4096];

    t_variant(argc, argv);
    snprintf(path, sizeof(path), "%.*swarpgroup_90a.ptx", dir ? (int)(dir - argv[0] + 1) : 0,
             dir ? argv[0] : "");
    compiled(path);
    for (size_t i = 0; i < sizeof(types_and_sizes) / sizeof(types_and_sizes[0]); i++)
        check_form(&types_and_sizes[i]);
    check_layouts(F16, "f32", false);
    check_layouts(BF16, "f32", true);
    check_layouts(TF32, "f32", false);
    check_layouts(S8, "s32", false);
    check_layouts(E4M3, "f32", true);
    check_layouts(B1, "s32", false);
    check_signs();
    time_slices();
    refuse_blocks();
    refuse_lanes();
    hostile_descriptors();
    canonical_nans();
    repeated_registers();
    return t_end("softgpu wgmma");
}

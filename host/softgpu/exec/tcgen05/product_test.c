/* SPDX-License-Identifier: MIT */
/*
 * tcgen05.mma against plain loops over whole matrices, which are laid out in shared memory and in tensor
 * memory by the tables of the PTX ISA, written here anew.
 */
#include "exec/exec_test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum type { F16, BF16, TF32, E4M3, E5M2, E2M3, E3M2, E2M1, S8, U8 };
static const struct {
    const char *kind;
    int code, bits, ebits, mbits, low, high;
} types[] = {[F16] = {"f16", 0, 16, 5, 10, 0, 0},   [BF16] = {"f16", 1, 16, 8, 7, 0, 0},
             [TF32] = {"tf32", 2, 32, 8, 10, 0, 0}, [E4M3] = {"f8f6f4", 0, 8, 4, 3, 0, 0},
             [E5M2] = {"f8f6f4", 1, 8, 5, 2, 0, 0}, [E2M3] = {"f8f6f4", 3, 6, 2, 3, 0, 0},
             [E3M2] = {"f8f6f4", 4, 6, 3, 2, 0, 0}, [E2M1] = {"f8f6f4", 5, 4, 2, 1, 0, 0},
             [S8] = {"i8", 1, 8, 0, 0, -128, 127},  [U8] = {"i8", 0, 8, 0, 0, 0, 255}};

enum { PLAIN, WIDE128, SW128, SW64 = 4, SW32 = 6 }; /* as in a descriptor */

struct form {
    enum type a, b;
    char d; /* 'f': f32, 'h': f16, 'i': s32 */
    int m, n;
    int swizzle_a, swizzle_b;
    bool mn_a, mn_b, negate_a, negate_b, replace, saturate, tensor_a, keep, high;
    int scale;
};

#define LANES 128
#define COLUMNS 512
#define D_AT 8
#define A_AT 300
#define B_AT 32768

struct memory {
    uint8_t image[65536];
    uint32_t tensor[LANES][COLUMNS];
    uint64_t a, b;
    uint32_t d_at, a_at, instruction, added, keep[4];
};

static uint32_t seed = 99;

static uint32_t any(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static double number(enum type t)
{
    static const double all[] = {1, 1.5, 2, 3};

    if (!types[t].ebits)
        return types[t].low + (double)any((uint32_t)(types[t].high - types[t].low + 1));
    return all[any(4)] * (any(2) ? 1 : -1);
}

static uint32_t small_float(double v, int ebits, int mbits)
{
    int e;
    const double m = frexp(fabs(v), &e) * 2;

    if (v == 0)
        return 0;
    return (v < 0 ? 1u << (ebits + mbits) : 0) | (uint32_t)(e - 1 + (1 << (ebits - 1)) - 1) << mbits |
           (uint32_t)ldexp(m - 1, mbits);
}

static uint32_t encode(double v, enum type t)
{
    if (!types[t].ebits)
        return (uint32_t)(int32_t)v & 255;
    if (t == TF32) /* with low bits that do not count */
        return small_float(v, 8, 10) << 13 | any(1 << 13);
    return small_float(v, types[t].ebits, types[t].mbits);
}

static uint32_t encode_sum(double v, char d)
{
    const float f = (float)v;
    uint32_t u;

    if (d == 'i')
        return (uint32_t)(int64_t)v;
    if (d == 'h')
        return small_float(v, 5, 10);
    memcpy(&u, &f, 4);
    return u;
}

/* ---- places ---- */

static int depth_of(enum type t)
{
    return types[t].bits == 16 ? 16 : types[t].bits == 32 ? 8 : 32;
}

/* Strides without gaps, in bytes. Contiguous along M or N, atoms of a swizzled layout lie one behind the other in depth. */
static void strides(int swizzle, bool mn_major, int depth, uint32_t *leading, uint32_t *stride)
{
    const uint32_t rows = swizzle == SW64 ? 512 : swizzle == SW32 || swizzle == PLAIN ? 256 : 1024;

    *leading = 128;
    *stride = rows;
    if (mn_major) {
        *leading = swizzle == PLAIN ? 4096 : 128 * (uint32_t)depth;
        *stride = swizzle == PLAIN ? 128 : swizzle == WIDE128 ? 512 : 1024;
    }
}

/* Byte of the matrix at which the 16 bytes of row mn, or of depth k, begin: piece counts them. */
static uint32_t place(int swizzle, bool mn_major, int depth, int line, int piece)
{
    uint32_t leading, stride;
    const int width = swizzle == SW32 ? 2 : swizzle == SW64 ? 4 : 8, in8 = line % 8;
    const int turn = swizzle == SW32 ? in8 / 4 : swizzle == SW64 ? in8 / 2 : in8;

    strides(swizzle, mn_major, depth, &leading, &stride);
    if (swizzle == PLAIN)
        return mn_major ? (uint32_t)(piece * 128 + in8 * 16) + (uint32_t)(line / 8) * leading
                        : (uint32_t)(piece * 128 + in8 * 16) + (uint32_t)(line / 8) * stride;
    if (swizzle == WIDE128 && mn_major)
        return (uint32_t)(line / 4) * stride + (uint32_t)(piece / 8) * leading + (uint32_t)(line % 4 * 128) +
               (uint32_t)((piece % 8 / 2 ^ line % 4) * 32 + piece % 2 * 16);
    if (swizzle == WIDE128)
        return (uint32_t)(line / 8) * stride +
               (uint32_t)(in8 * 128 + (piece / 2 ^ line % 4) * 32 + piece % 2 * 16);
    return (uint32_t)(line / 8) * stride + (uint32_t)(mn_major ? piece / width : 0) * leading +
           (uint32_t)(in8 * width * 16 + (piece % width ^ turn) * 16);
}

static void put_bits(uint8_t *to, uint32_t at, uint32_t bits, uint32_t v)
{
    for (uint32_t b = 0; b < bits; b++)
        to[(at + b) / 8] |= (uint8_t)((v >> b & 1) << (at + b) % 8);
}

static void put_shared(uint8_t *to, enum type t, int swizzle, bool mn_major, int mn, int k, uint32_t v)
{
    const int bits = types[t].bits, per = bits < 8 ? 16 : 128 / bits, across = mn_major ? mn : k;
    uint8_t *piece = to + place(swizzle, mn_major, depth_of(t), mn_major ? k : mn, across / per);

    put_bits(piece, (uint32_t)(across % per * bits), (uint32_t)bits, v);
}

static uint64_t descriptor(uint32_t start, int swizzle, bool mn_major, int depth)
{
    uint32_t leading, stride;

    strides(swizzle, mn_major, depth, &leading, &stride);
    return (uint64_t)(start >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           1ull << 46 | (uint64_t)swizzle << 61;
}

static int lane_of(const struct form *f, int row)
{
    return f->m == 128 ? row : row / 16 * 32 + row % 16 + (f->high ? 16 : 0);
}

/* ---- the kernel ---- */

static const char *text_of(const struct form *f)
{
    static char text[8192];
    char scale[16] = "";

    if (f->scale)
        snprintf(scale, sizeof(scale), ", %d", f->scale);
    snprintf(
        text, sizeof(text),
        ".version 8.6\n.target sm_100a\n.address_size 64\n"
        ".visible .entry t(.param .u64 q0)\n{\n.shared .align 1024 .b8 s[65536];\n.shared .b32 where;\n.shared .b64 bar;\n"
        ".reg .pred %%p<4>;\n.reg .b32 %%r<30>;\n.reg .b64 %%rd<10>;\n"
        "ld.param.u64 %%rd0, [q0];\nmov.u32 %%r1, %%tid.x;\nshr.u32 %%r2, %%r1, 5;\nmov.u32 %%r5, where;\n"
        "setp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra ALLOCATED;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%r5], 512;\nALLOCATED:\nmov.u32 %%r6, %%r1;\n"
        "COPY: mul.wide.u32 %%rd5, %%r6, 4;\nadd.u64 %%rd5, %%rd5, %%rd0;\nld.global.u32 %%r7, [%%rd5];\n"
        "shl.b32 %%r8, %%r6, 2;\nmov.u32 %%r9, s;\nadd.u32 %%r8, %%r8, %%r9;\nst.shared.u32 [%%r8], %%r7;\n"
        "add.u32 %%r6, %%r6, 128;\nsetp.lt.u32 %%p1, %%r6, 16384;\n@%%p1 bra COPY;\nmbarrier.init.shared.b64 [bar], 1;\n"
        "bar.sync 0;\nld.shared.u32 %%r3, [where];\nshl.b32 %%r4, %%r2, 21;\nadd.u32 %%r4, %%r4, %%r3;\n"
        "mul.wide.u32 %%rd6, %%r1, 2048;\nadd.u64 %%rd6, %%rd6, %%rd0;\nadd.u64 %%rd6, %%rd6, 65536;\n"
        "mov.u32 %%r6, 0;\nmov.u64 %%rd5, %%rd6;\nFILL: ld.global.u32 %%r7, [%%rd5];\nadd.u32 %%r8, %%r4, %%r6;\n"
        "tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r8], {%%r7};\nadd.u64 %%rd5, %%rd5, 4;\nadd.u32 %%r6, %%r6, 1;\n"
        "setp.lt.u32 %%p1, %%r6, 512;\n@%%p1 bra FILL;\ntcgen05.wait::st.sync.aligned;\n"
        "tcgen05.fence::before_thread_sync;\nbar.sync 0;\nsetp.ne.u32 %%p1, %%r1, 0;\n@%%p1 bra WAIT;\n"
        "mov.u32 %%r9, s;\nshr.u32 %%r9, %%r9, 4;\ncvt.u64.u32 %%rd7, %%r9;\n"
        "ld.global.u64 %%rd3, [%%rd0+327680];\nadd.u64 %%rd3, %%rd3, %%rd7;\nld.global.u64 %%rd4, [%%rd0+327688];\n"
        "add.u64 %%rd4, %%rd4, %%rd7;\nld.global.v4.u32 {%%r10,%%r11,%%r12,%%r13}, [%%rd0+327696];\n"
        "ld.global.v4.u32 {%%r14,%%r15,%%r16,%%r17}, [%%rd0+327712];\nadd.u32 %%r10, %%r10, %%r3;\nadd.u32 %%r11, %%r11, %%r3;\n"
        "setp.ne.u32 %%p2, %%r13, 0;\n"
        "tcgen05.mma.cta_group::1.kind::%s [%%r10], %s, %%rd4, %%r12%s, %%p2%s;\n"
        "mov.u32 %%r18, bar;\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%%r18];\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %%p3, [bar], 0;\n@!%%p3 bra WAIT;\n"
        "mov.u32 %%r6, 0;\nmov.u64 %%rd5, %%rd6;\nDUMP: add.u32 %%r8, %%r4, %%r6;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%%r7}, [%%r8];\nst.global.u32 [%%rd5], %%r7;\nadd.u64 %%rd5, %%rd5, 4;\n"
        "add.u32 %%r6, %%r6, 1;\nsetp.lt.u32 %%p1, %%r6, 512;\n@%%p1 bra DUMP;\nret;\n}\n",
        types[f->a].kind, f->tensor_a ? "[%r11]" : "%rd3", f->keep ? ", {%r14,%r15,%r16,%r17}" : "", scale);
    return text;
}

_Static_assert(offsetof(struct memory, a) == 327680, "the kernel's addresses");

static uint32_t instruction(const struct form *f)
{
    return (f->d == 'h'   ? 0
            : f->d == 'f' ? 1u
                          : 2u)
               << 4 |
           (uint32_t)f->saturate << 3 | (uint32_t)types[f->a].code << 7 | (uint32_t)types[f->b].code << 10 |
           (uint32_t)f->negate_a << 13 | (uint32_t)f->negate_b << 14 | (uint32_t)f->mn_a << 15 |
           (uint32_t)f->mn_b << 16 | (uint32_t)f->n / 8 << 17 | (uint32_t)f->m / 16 << 24;
}

static double a[128][32], b[256][32];

static void lay_out(const struct form *f, struct memory *m, uint32_t (*want)[COLUMNS])
{
    const int depth = depth_of(f->a), size = 32 / depth;

    memset(m, 0, sizeof(*m));
    for (int i = 0; i < LANES; i++)
        for (int c = 0; c < COLUMNS; c++)
            m->tensor[i][c] = 0x3f000000u + any(1000);
    for (int i = 0; i < f->m; i++)
        for (int k = 0; k < depth; k++) {
            const uint32_t v = encode(a[i][k] = number(f->a), f->a);

            if (!f->tensor_a) {
                put_shared(m->image, f->a, f->swizzle_a, f->mn_a, i, k, v);
                continue;
            }
            memcpy((uint8_t *)&m->tensor[lane_of(f, i)][A_AT] + k * size,
                   &(uint32_t){f->a == E2M1 ? v << 2 : v}, (size_t)size);
        }
    for (int j = 0; j < f->n; j++)
        for (int k = 0; k < depth; k++)
            put_shared(m->image + B_AT, f->b, f->swizzle_b, f->mn_b, j, k,
                       encode(b[j][k] = number(f->b), f->b));
    m->a = descriptor(0, f->swizzle_a, f->mn_a, depth);
    m->b = descriptor(B_AT, f->swizzle_b, f->mn_b, depth);
    m->d_at = D_AT | (f->high ? 16u << 16 : 0);
    m->a_at = A_AT | (f->high ? 16u << 16 : 0);
    m->instruction = instruction(f);
    m->added = !f->replace;
    for (int i = 0; i < 4; i++)
        m->keep[i] = 0x80010f00u << i;
    for (int i = 0; i < f->m; i++)
        for (int j = 0; j < f->n; j++) {
            double sum = f->saturate ? 2147483000 : any(64);
            uint32_t *word = &m->tensor[lane_of(f, i)][D_AT + j];

            *word = encode_sum(sum, f->d) | (f->d == 'h' ? any(2) << 16 : 0);
            sum = f->replace ? 0 : ldexp(sum, -f->scale);
            for (int k = 0; k < depth; k++)
                sum += a[i][k] * b[j][k] * (f->negate_a != f->negate_b ? -1 : 1);
            want[lane_of(f, i)][D_AT + j] =
                encode_sum(f->saturate && sum > INT32_MAX ? INT32_MAX : sum, f->d);
        }
    for (int i = 0; i < LANES; i++)
        for (int c = 0; c < COLUMNS; c++)
            if (c < D_AT || c >= D_AT + f->n || (f->m == 64 && (i % 32 >= 16) != f->high) ||
                (f->keep && m->keep[i / 32] >> i % 32 & 1))
                want[i][c] = m->tensor[i][c];
}

static const char *name_of(const struct form *f)
{
    static char name[160];

    snprintf(name, sizeof(name), "%s %d by %d m%dn%d to %c, layouts %d%s %d%s%s%s%s%s%s%s%s scale %d",
             types[f->a].kind, types[f->a].code, types[f->b].code, f->m, f->n, f->d, f->swizzle_a,
             f->mn_a ? "mn" : "", f->swizzle_b, f->mn_b ? "mn" : "", f->tensor_a ? " tensor" : "",
             f->keep ? " keep" : "", f->high ? " high" : "", f->negate_a ? " -a" : "",
             f->negate_b ? " -b" : "", f->replace ? " replaced" : "", f->saturate ? " saturated" : "",
             f->scale);
    return name;
}

static void check_form(const struct form *f)
{
    static uint32_t want[LANES][COLUMNS];
    struct memory *m = tm_alloc(sizeof(*m));
    struct sg_fault fault = {.message = ""};
    struct tk t;
    int wrong = -1;

    lay_out(f, m, want);
    if (!tk_open(&t, text_of(f), "t")) {
        t_result(name_of(f), false, "%s", t.diag.message);
        return;
    }
    const int r = tk_run(&t, 1, 128, &(const void *){m}, &fault);

    for (int i = 0; i < LANES * COLUMNS && wrong < 0; i++)
        if (m->tensor[i / COLUMNS][i % COLUMNS] != want[i / COLUMNS][i % COLUMNS])
            wrong = i;
    t_result(name_of(f), !r && wrong < 0, "%d %s: lane %d column %d: 0x%x for 0x%x", r, fault.message,
             wrong / COLUMNS, wrong % COLUMNS, wrong < 0 ? 0 : m->tensor[wrong / COLUMNS][wrong % COLUMNS],
             wrong < 0 ? 0 : want[wrong / COLUMNS][wrong % COLUMNS]);
    tk_close(&t);
    tm_free_all();
}

static const struct form forms[] = {
    {.a = F16, .b = F16, .d = 'f', .m = 128, .n = 256},
    {.a = F16, .b = F16, .d = 'h', .m = 128, .n = 64},
    {.a = F16, .b = F16, .d = 'h', .m = 64, .n = 8, .replace = true},
    {.a = BF16, .b = BF16, .d = 'f', .m = 64, .n = 24, .negate_a = true},
    {.a = F16, .b = BF16, .d = 'f', .m = 128, .n = 16, .negate_b = true},
    {.a = F16, .b = F16, .d = 'f', .m = 64, .n = 40, .high = true, .tensor_a = true},
    {.a = F16, .b = F16, .d = 'f', .m = 128, .n = 40, .tensor_a = true, .keep = true},
    {.a = F16, .b = F16, .d = 'f', .m = 128, .n = 32, .scale = 3},
    {.a = TF32, .b = TF32, .d = 'f', .m = 128, .n = 128, .scale = 15},
    {.a = TF32, .b = TF32, .d = 'f', .m = 64, .n = 256, .tensor_a = true, .negate_a = true, .negate_b = true},
    {.a = E4M3, .b = E5M2, .d = 'f', .m = 128, .n = 128},
    {.a = E5M2, .b = E4M3, .d = 'h', .m = 64, .n = 16, .keep = true},
    {.a = E4M3, .b = E2M1, .d = 'f', .m = 128, .n = 48, .tensor_a = true},
    {.a = E2M3, .b = E3M2, .d = 'f', .m = 128, .n = 128},
    {.a = E2M1, .b = E2M3, .d = 'f', .m = 128, .n = 128},
    {.a = E2M1, .b = E2M1, .d = 'f', .m = 64, .n = 128, .tensor_a = true, .negate_b = true},
    {.a = E3M2, .b = E4M3, .d = 'f', .m = 64, .n = 128, .swizzle_a = SW128, .swizzle_b = SW64},
    {.a = S8, .b = S8, .d = 'i', .m = 128, .n = 256},
    {.a = S8, .b = U8, .d = 'i', .m = 64, .n = 24},
    {.a = U8, .b = S8, .d = 'i', .m = 128, .n = 8, .tensor_a = true, .keep = true},
    {.a = U8, .b = U8, .d = 'i', .m = 128, .n = 16, .saturate = true},
    {.a = U8, .b = U8, .d = 'i', .m = 128, .n = 16, .saturate = true, .replace = true},
};

static void layouts(enum type t, char d)
{
    static const int modes[] = {PLAIN, SW32, SW64, SW128, WIDE128};
    const bool flat = types[t].bits >= 8;

    for (size_t i = 0; i < 5; i++)
        for (int major = 0; major < (flat ? 4 : 1); major++) {
            const struct form f = {.a = t,
                                   .b = t,
                                   .d = d,
                                   .m = i % 2 ? 64 : 128,
                                   .n = 64,
                                   .swizzle_a = modes[i],
                                   .swizzle_b = modes[(i + 2) % 5],
                                   .mn_a = major & 1,
                                   .mn_b = major & 2};

            check_form(&f);
        }
}

/* An instruction's descriptor that says what there is not, and addresses that are not the block's. */
static void refusals(void)
{
    static const struct {
        const char *name;
        int want;
        uint32_t flip, d, a;
        uint64_t fa, fb;
    } cases[] = {{"sparse", 715, 4, 0, 0, 0, 0},
                 {"saturated floats", 715, 8, 0, 0, 0, 0},
                 {"a reserved bit", 715, 64, 0, 0, 0, 0},
                 {"type 3", 715, 3 << 7, 0, 0, 0, 0},
                 {"s32", 715, 3 << 4, 0, 0, 0, 0},
                 {"m 192", 715, 4 << 24, 0, 0, 0, 0},
                 {"n 0", 715, 8 << 17, 0, 0, 0, 0},
                 {"n 320", 715, 32 << 17, 0, 0, 0, 0},
                 {"a shift", 715, 1u << 30, 0, 0, 0, 0},
                 {"a column outside", 700, 0, 460, 0, 0, 0},
                 {"a lane outside", 700, 0, 0x10000, 0, 0, 0},
                 {"lanes of a half", 700, 0, 0x100000, 0, 0, 0},
                 {"a far address", 700, 0, 0xfff00000, 0, 0, 0},
                 {"a swizzle that there is not", 715, 0, 0, 0, 3ull << 61, 0},
                 {"a descriptor of wgmma", 715, 0, 0, 0, 0, 1ull << 46},
                 {"an absolute leading address", 715, 0, 0, 0, 0, 1ull << 52},
                 {"a behind shared memory", 700, 0, 0, 0, 0x3ff0, 0},
                 {"b behind shared memory", 700, 0, 0, 0, 0, 0x3fffull << 32}};
    static uint32_t want[LANES][COLUMNS];
    const struct form f = {.a = F16, .b = F16, .d = 'f', .m = 128, .n = 64};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct memory *m = tm_alloc(sizeof(*m));
        struct sg_fault fault = {.message = ""};
        struct tk t;

        lay_out(&f, m, want);
        m->instruction ^= cases[i].flip;
        m->d_at += cases[i].d;
        m->a ^= cases[i].fa;
        m->b ^= cases[i].fb;
        if (!tk_open(&t, text_of(&f), "t"))
            return;
        const int r = tk_run(&t, 1, 128, &(const void *){m}, &fault);

        t_result(cases[i].name, r == cases[i].want, "%d %s", r, fault.message);
        tk_close(&t);
        tm_free_all();
    }
}

/* Any descriptors: run or fault, nothing else. */
static void hostile(void)
{
    static uint32_t want[LANES][COLUMNS];
    const struct form f = {.a = E4M3, .b = E4M3, .d = 'f', .m = 128, .n = 256, .tensor_a = false};
    struct memory *m = tm_alloc(sizeof(*m));
    int ran = 0, faults = 0, others = 0;
    struct tk t;

    if (!tk_open(&t, text_of(&f), "t"))
        return;
    for (int i = 0; i < 200; i++) {
        struct sg_fault fault = {.message = ""};

        lay_out(&f, m, want);
        for (int k = 0; k < 8; k++) {
            m->a = i & 1 ? m->a << 8 ^ any(256) : m->a;
            m->b = i & 2 ? m->b << 8 ^ any(256) : m->b;
        }
        m->a = (m->a & 0xc0003fff3fff07ffull & ~(1ull << 52 | 7ull << 46)) | 1ull << 46;
        m->b = (m->b & 0xc0003fff3fff07ffull & ~(1ull << 52 | 7ull << 46)) | 1ull << 46;
        m->instruction ^= i % 3 ? 0 : 1u << any(32);
        m->d_at ^= i % 5 ? 0 : 1u << any(32);
        const int r = tk_run(&t, 1, 128, &(const void *){m}, &fault);

        ran += r == 0;
        faults += r == 700 || r == 715;
        others += r != 0 && r != 700 && r != 715;
    }
    t_result("descriptors of any value", ran && faults && !others, "%d ran, %d faults, %d others", ran,
             faults, others);
    tk_close(&t);
    tm_free_all();
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++)
        check_form(&forms[i]);
    layouts(F16, 'f');
    layouts(TF32, 'f');
    layouts(E4M3, 'f');
    layouts(S8, 'i');
    layouts(E2M1, 'f');
    refusals();
    hostile();
    return t_end("softgpu tcgen05 products");
}

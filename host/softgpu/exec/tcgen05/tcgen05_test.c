/* SPDX-License-Identifier: MIT */
/*
 * Tensor memory (tcgen05): allocation, moves and copies against the tables of the PTX ISA, written here
 * from the other side: which thread and register, or which place in shared memory, a word belongs to.
 */
#include "exec/exec_test.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define LANES 128
#define COLUMNS 512
#define REGISTERS 128

static char text[65536];
static size_t text_len;

static __attribute__((format(printf, 1, 2))) void put(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    text_len += (size_t)vsnprintf(text + text_len, sizeof(text) - text_len, fmt, ap);
    va_end(ap);
}

/* Parameters of all kernels: p0 and p1 are addresses, p2 and p3 numbers. */
struct params {
    const void *p0, *p1;
    uint64_t p2, p3;
};

#define ALLOC(columns) \
    "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%%r5], " columns ";\n" \
    "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n"

/* %r1 the thread, %r2 the warp, %r3 the address of the warp's lanes in tensor memory, allocated whole, %rd0 to
   %rd3 the parameters; each word of tensor memory is then its lane and column. */
static void begin(bool fill)
{
    text_len = 0;
    put(".version 8.6\n.target sm_100a\n.address_size 64\n.shared .align 1024 .b8 s[65536];\n"
        ".visible .entry t(.param .u64 q0, .param .u64 q1, .param .u64 q2, .param .u64 q3)\n{\n"
        ".reg .pred %%p<4>;\n.reg .b16 %%h<4>;\n.reg .b32 %%r<30>, %%v<%d>;\n.reg .b64 %%rd<10>;\n"
        ".shared .b32 where;\n.shared .b64 bar;\n"
        "ld.param.u64 %%rd0, [q0];\nld.param.u64 %%rd1, [q1];\nld.param.u64 %%rd2, [q2];\n"
        "ld.param.u64 %%rd3, [q3];\nmov.u32 %%r1, %%tid.x;\nshr.u32 %%r2, %%r1, 5;\nmov.u32 %%r5, where;\n"
        "setp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra ALLOCATED;\n" ALLOC(
            "512") "ALLOCATED:\nbar.sync 0;\n"
                   "ld.shared.u32 %%r3, [where];\nshl.b32 %%r4, %%r2, 21;\nadd.u32 %%r3, %%r3, %%r4;\n",
        REGISTERS);
    if (fill)
        put("mov.u32 %%r6, 0;\nFILL:\nshl.b32 %%r7, %%r1, 16;\nor.b32 %%r7, %%r7, %%r6;\nadd.u32 %%r8, %%r3, %%r6;\n"
            "tcgen05.st.sync.aligned.32x32b.x1.b32 [%%r8], {%%r7};\nadd.u32 %%r6, %%r6, 1;\n"
            "setp.lt.u32 %%p1, %%r6, 512;\n@%%p1 bra FILL;\ntcgen05.wait::st.sync.aligned;\nbar.sync 0;\n");
}

/* Writes all of tensor memory to p1. */
static void dump(void)
{
    put("bar.sync 0;\nmov.u32 %%r6, 0;\nmul.wide.u32 %%rd5, %%r1, 2048;\nadd.u64 %%rd5, %%rd5, %%rd1;\n"
        "DUMP:\nadd.u32 %%r8, %%r3, %%r6;\n"
        "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%%r7}, [%%r8];\ntcgen05.wait::ld.sync.aligned;\n"
        "st.global.u32 [%%rd5], %%r7;\nadd.u64 %%rd5, %%rd5, 4;\nadd.u32 %%r6, %%r6, 1;\n"
        "setp.lt.u32 %%p1, %%r6, 512;\n@%%p1 bra DUMP;\n");
}

static void end(void)
{
    put("bar.sync 0;\nsetp.ne.u32 %%p1, %%r2, 0;\n@%%p1 bra FREED;\n"
        "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %%r3, 512;\nFREED:\nret;\n}\n");
}

static void vector(int n)
{
    for (int i = 0; i < n; i++)
        put("%s%%v%d", i ? "," : "{", i);
    put("}");
}

static int run(uint32_t threads, const struct params *p, struct sg_fault *f)
{
    struct tk t;
    int r;

    memset(f, 0, sizeof(*f));
    if (!tk_open(&t, text, "t")) {
        printf("%s\n", t.diag.message);
        return -1;
    }
    r = tk_run(&t, 1, threads, p, f);
    tk_close(&t);
    return r;
}

/* ---- ld and st ---- */

static const struct shape {
    const char *name;
    int rows, columns, registers; /* of .x1 */
    int most;                     /* .num */
} shapes[] = {{"32x32b", 32, 1, 1, 128},
              {"16x64b", 16, 2, 1, 128},
              {"16x128b", 16, 4, 2, 64},
              {"16x256b", 16, 8, 4, 32},
              {"16x32bx2", 16, 1, 1, 128}};

/* Thread and register of a row and column of the shape. */
static void holder(const struct shape *s, int row, int column, int *thread, int *reg)
{
    const int group = row % 8 * 4, low = row / 8;

    switch (s->columns) {
    case 2: /* T0 has row 0, T1 row 8, T2 and T3 the next column of the same */
        *thread = group + column % 2 * 2 + low;
        *reg = column / 2;
        break;
    case 4:
        *thread = group + column % 4;
        *reg = column / 4 * 2 + low;
        break;
    case 8:
        *thread = group + column % 8 / 2;
        *reg = column / 8 * 4 + low * 2 + column % 2;
        break;
    default:
        *thread = row;
        *reg = column;
        break;
    }
}

static void move_text(const struct shape *s, int num, bool packed, int half, bool load)
{
    const int n = s->registers * num;
    const char *tail = s->rows == 16 && s->columns == 1 ? ", " : NULL;

    begin(true);
    put("mul.wide.u32 %%rd5, %%r1, 512;\nadd.u64 %%rd5, %%rd5, %%rd%d;\n", load ? 1 : 0);
    put("cvt.u32.u64 %%r9, %%rd2;\nadd.u32 %%r9, %%r9, %%r3;\n");
    for (int i = 0; i < n && !load; i++)
        put("ld.global.u32 %%v%d, [%%rd5+%d];\n", i, 4 * i);
    put("tcgen05.%s.sync.aligned.%s.x%d%s.b32 ", load ? "ld" : "st", s->name, num,
        !packed ? ""
        : load  ? ".pack::16b"
                : ".unpack::16b");
    if (load) {
        vector(n);
        put(", [%%r9]");
        if (tail)
            put(", %d", half);
    } else {
        put("[%%r9], ");
        if (tail)
            put("%d, ", half);
        vector(n);
    }
    put(";\ntcgen05.wait::%s.sync.aligned;\n", load ? "ld" : "st");
    for (int i = 0; i < n && load; i++)
        put("st.global.u32 [%%rd5+%d], %%v%d;\n", 4 * i, i);
    if (!load)
        dump();
    end();
}

/* The word that a lane and column have at first. */
static uint32_t first_word(int lane, int column)
{
    return (uint32_t)lane << 16 | (uint32_t)column;
}

static bool check_move(const struct shape *s, int num, bool packed, int lane, int column, int half, bool load)
{
    static uint32_t want[LANES * COLUMNS];
    uint32_t *in = tm_alloc(LANES * REGISTERS * 4), *out = tm_alloc(LANES * COLUMNS * 4);
    const struct params p = {in, out, (uint64_t)lane << 16 | (uint64_t)column, 0};
    const bool two = s->rows == 16 && s->columns == 1;
    const int wide = packed ? 2 : 1;
    struct sg_fault f;
    int r;

    move_text(s, num, packed, half, load);
    for (int i = 0; i < LANES * REGISTERS; i++)
        in[i] = 0x9e3779b9u * (uint32_t)(i + 1);
    for (int i = 0; i < LANES * COLUMNS; i++)
        want[i] = load ? 0 : first_word(i / COLUMNS, i % COLUMNS);
    memset(out, 0, LANES * COLUMNS * 4);
    for (int warp = 0; warp < 4; warp++)
        for (int part = 0; part < (two ? 2 : 1); part++)
            for (int row = 0; row < s->rows; row++)
                for (int c = 0; c < s->columns * num; c++) {
                    const int l = 32 * warp + lane + row, at = column + c * wide + part * half;
                    uint32_t *word = &want[l * COLUMNS + at];
                    int thread, reg;

                    holder(s, row, c, &thread, &reg);
                    thread += 32 * warp + 16 * part;
                    if (load)
                        want[thread * REGISTERS + reg] =
                            packed ? (first_word(l, at) & 0xffff) | first_word(l, at + 1) << 16
                                   : first_word(l, at);
                    else if (packed) {
                        word[0] = in[thread * REGISTERS + reg] & 0xffff;
                        word[1] = in[thread * REGISTERS + reg] >> 16;
                    } else {
                        word[0] = in[thread * REGISTERS + reg];
                    }
                }
    r = run(LANES, &p, &f);
    if (r || memcmp(out, want, sizeof(want) / (load ? COLUMNS / REGISTERS : 1))) {
        printf("  %s.x%d%s %s lane %d column %d: %d %s\n", s->name, num, packed ? " packed" : "",
               load ? "ld" : "st", lane, column, r, f.message);
        tm_free_all();
        return false;
    }
    tm_free_all();
    return true;
}

static void moves(void)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        const struct shape *s = &shapes[i];
        const bool two = s->rows == 16 && s->columns == 1;
        bool ok = true;

        for (int num = 1; num <= s->most; num *= 2)
            for (int load = 0; load < 2; load++) {
                const int whole = num * s->columns;

                ok &= check_move(s, num, false, 0, 0, two ? whole : 0, load);
                ok &= check_move(s, num, false, s->rows == 16 ? 16 : 0, two ? 3 : COLUMNS - whole,
                                 two ? whole + 5 : 0, load);
                if (whole * 2 * (two ? 2 : 1) <= COLUMNS)
                    ok &= check_move(s, num, true, 0, two ? 0 : 6 % (COLUMNS - 2 * whole + 1),
                                     two ? 2 * whole : 0, load);
            }
        t_result(s->name, ok, "words in other places");
    }
}

/* ---- cp ---- */

static uint64_t descriptor(uint32_t start, uint32_t leading, uint32_t stride, int mode)
{
    return (uint64_t)(start >> 4) | (uint64_t)(leading >> 4) << 16 | (uint64_t)(stride >> 4) << 32 |
           1ull << 46 | (uint64_t)mode << 61;
}

/* Copies shared memory, filled from p0, by the descriptor p2 to column p3. */
static void cp_text(const char *form)
{
    begin(true);
    put("mov.u32 %%r6, %%r1;\nCOPY:\nmul.wide.u32 %%rd5, %%r6, 4;\nadd.u64 %%rd5, %%rd5, %%rd0;\n"
        "ld.global.u32 %%r7, [%%rd5];\nshl.b32 %%r8, %%r6, 2;\nmov.u32 %%r9, s;\nadd.u32 %%r8, %%r8, %%r9;\n"
        "st.shared.u32 [%%r8], %%r7;\nadd.u32 %%r6, %%r6, 128;\nsetp.lt.u32 %%p1, %%r6, 16384;\n@%%p1 bra COPY;\n"
        "mbarrier.init.shared.b64 [bar], 1;\nbar.sync 0;\nsetp.ne.u32 %%p1, %%r1, 0;\n@%%p1 bra WAIT;\n"
        "cvt.u32.u64 %%r9, %%rd3;\ncvt.u64.u32 %%rd6, %%r10;\nmov.u32 %%r10, s;\nshr.u32 %%r10, %%r10, 4;\n"
        "cvt.u64.u32 %%rd6, %%r10;\nadd.u64 %%rd6, %%rd6, %%rd2;\n"
        "tcgen05.cp.cta_group::1.%s [%%r9], %%rd6;\n"
        "mov.u32 %%r11, bar;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%%r11];\nWAIT:\n"
        "mbarrier.try_wait.parity.shared.b64 %%p2, [bar], 0;\n@!%%p2 bra WAIT;\n"
        "tcgen05.fence::after_thread_sync;\n",
        form);
    dump();
    end();
}

static const struct copy {
    const char *form;
    int rows, pieces, bits;
    int lanes[4]; /* of row 0 */
    int split;    /* rows from 32 on are so many lanes further */
} copies[] = {{"128x256b", 128, 2, 8, {0, -1}, 0},
              {"128x128b", 128, 1, 8, {0, -1}, 0},
              {"4x256b", 4, 2, 8, {0, -1}, 0},
              {"64x128b.warpx2::02_13", 64, 1, 8, {0, 64, -1}, 0},
              {"64x128b.warpx2::01_23", 64, 1, 8, {0, 32, -1}, 32},
              {"32x128b.warpx4", 32, 1, 8, {0, 32, 64, 96}, 0},
              {"128x256b.b8x16.b6x16_p32", 128, 2, 6, {0, -1}, 0},
              {"32x128b.warpx4.b8x16.b4x16_p64", 32, 1, 4, {0, 32, 64, 96}, 0}};

/* Element i of 16 bytes, of so many bits, as it stands in a byte. */
static uint8_t element(const uint8_t *p, int bits, int i)
{
    uint32_t v = 0;

    for (int b = 0; b < bits; b++)
        v |= (uint32_t)(p[(i * bits + b) / 8] >> (i * bits + b) % 8 & 1) << b;
    return (uint8_t)(bits == 4 ? v << 2 : v);
}

static void copy_shapes(void)
{
    for (size_t i = 0; i < sizeof(copies) / sizeof(copies[0]); i++) {
        const struct copy *c = &copies[i];
        static uint32_t want[LANES * COLUMNS];
        uint8_t *in = tm_alloc(65536);
        uint32_t *out = tm_alloc(sizeof(want));
        const int lane = c->rows == 4 ? 31 : 0, column = 9;
        /* core matrices of 128 bytes: those of a row of pieces, then the next 8 rows */
        const struct params p = {in, out, descriptor(512, 128, 256, 0),
                                 (uint64_t)lane << 16 | (uint64_t)column};
        struct sg_fault f;
        int r;

        for (int k = 0; k < 65536; k++)
            in[k] = (uint8_t)((unsigned)k * 2654435761u >> 13);
        for (int k = 0; k < LANES * COLUMNS; k++)
            want[k] = first_word(k / COLUMNS, k % COLUMNS);
        for (int row = 0; row < c->rows; row++)
            for (int piece = 0; piece < c->pieces; piece++)
                for (int k = 0; k < 4 && c->lanes[k] >= 0; k++) {
                    const int l = c->rows == 4 ? 32 * row + lane : c->lanes[k] + row + row / 32 * c->split;
                    uint8_t *to = (uint8_t *)&want[l * COLUMNS + column + 4 * piece];
                    const uint8_t *from = in + 512 + row / 8 * 256 + row % 8 * 16 + piece * 128;

                    for (int e = 0; e < 16; e++)
                        to[e] = c->bits == 8 ? from[e] : element(from, c->bits, e);
                }
        cp_text(c->form);
        r = run(LANES, &p, &f);
        t_result(c->form, !r && !memcmp(out, want, sizeof(want)), "%d %s", r, f.message);
        tm_free_all();
    }
}

/* A descriptor may say anything: bytes outside the block's memory, and columns it has not, are faults. */
static void hostile_copies(void)
{
    uint8_t *in = tm_alloc(65536);
    uint32_t *out = tm_alloc(LANES * COLUMNS * 4), seed = 1;
    int count[3] = {0, 0, 0};
    struct tk t;

    cp_text("128x256b");
    if (!tk_open(&t, text, "t")) {
        t_result("hostile copies", false, "%s", t.diag.message);
        return;
    }
    for (int i = 0; i < 300; i++) {
        struct params p = {in, out, 0, 0};
        struct sg_fault f;
        int r;

        for (int k = 0; k < 8; k++) {
            seed = seed * 1664525u + 1013904223u;
            p.p2 = p.p2 << 8 | seed >> 24;
        }
        p.p2 = (p.p2 & (i % 2 ? 0x3f00ff01ffull : ~(7ull << 46 | 1ull << 52))) | (i % 7 ? 1ull << 46 : 0);
        p.p3 = i % 3 ? 0 : seed & (i % 2 ? 0x1ff : 0xffffffffu);
        r = tk_run(&t, 1, LANES, &p, &f);
        count[r == 0 ? 0 : r == 700 || r == 715 ? 1 : 2]++;
    }
    tk_close(&t);
    t_result("copies of any descriptor", count[0] && count[1] && !count[2], "%d ran, %d faults, %d others",
             count[0], count[1], count[2]);
    tm_free_all();
}

/* ---- allocation ---- */

/* A block of one warp, or two, with this body; p0 gets results. */
static void body_text(const char *body)
{
    text_len = 0;
    put(".version 8.6\n.target sm_100a\n.address_size 64\n"
        ".visible .entry t(.param .u64 q0, .param .u64 q1, .param .u64 q2, .param .u64 q3)\n{\n"
        ".reg .pred %%p<4>;\n.reg .b16 %%h<4>;\n.reg .b32 %%r<30>;\n.reg .b64 %%rd<10>;\n"
        ".shared .b32 a[16];\n.shared .b64 bar;\n"
        "ld.param.u64 %%rd0, [q0];\nmov.u32 %%r1, %%tid.x;\nshr.u32 %%r2, %%r1, 5;\n%s\nret;\n}\n",
        body);
}

#define ALLOCATE(at, n) "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [a+" at "], " n ";\n"
#define FREE(reg, n) "tcgen05.dealloc.cta_group::1.sync.aligned.b32 " reg ", " n ";\n"

static void result_of(const char *name, const char *body, uint32_t threads, int want, const char *message)
{
    uint32_t *out = tm_alloc(64);
    const struct params p = {out, NULL, 0, 0};
    struct sg_fault f;
    int r;

    body_text(body);
    r = run(threads, &p, &f);
    t_result(name, r == want && strstr(f.message, message), "%d %s", r, f.message);
    tm_free_all();
}

static void allocations(void)
{
    uint32_t *out = tm_alloc(64);
    const struct params p = {out, NULL, 0, 0};
    struct sg_fault f;
    int r;

    body_text(
        ALLOCATE("0", "32") ALLOCATE("4", "128") ALLOCATE("8", "64") "ld.shared.u32 %r3, [a+4];\n" FREE("%r3",
                                                                                                        "128")
            ALLOCATE("12", "32") ALLOCATE(
                "16",
                "256") "ld.shared.v4.u32 {%r4,%r5,%r6,%r7}, [a];\n"
                       "ld.shared.u32 %r8, [a+16];\nst.global.v4.u32 [%rd0], {%r4,%r5,%r6,%r7};\nst.global.u32 [%rd0+16], %r8;\n");
    r = run(32, &p, &f);
    t_result("columns of allocations",
             !r && !out[0] && out[1] == 32 && out[2] == 160 && out[3] == 32 && out[4] == 224,
             "%d %s: %u %u %u %u %u", r, f.message, out[0], out[1], out[2], out[3], out[4]);
    /* warp 1 waits until warp 0, which spins a while, has freed */
    body_text("setp.ne.u32 %p1, %r2, 0;\n@%p1 bra SECOND;\n" ALLOCATE(
        "0",
        "512") "bar.sync 0;\nmov.u32 %r9, 0;\nLOOP: add.u32 %r9, %r9, 1;\nsetp.lt.u32 %p2, %r9, 5000;\n@%p2 bra LOOP;\n"
               "st.global.u32 [%rd0], 7;\nld.shared.u32 %r3, [a];\n" FREE("%r3", "512") "bra.uni END;\nSECOND:\nbar.sync 0;\n" ALLOCATE(
                   "4", "256") "ld.global.u32 %r4, [%rd0];\nst.global.u32 [%rd0+4], %r4;\nEND:\n");
    out[0] = out[1] = 0;
    r = run(64, &p, &f);
    t_result("an allocation waits", !r && out[1] == 7, "%d %s: %u", r, f.message, out[1]);
    tm_free_all();
    result_of("columns that are no power of two", "mov.u32 %r3, 48;\n" ALLOCATE("0", "%r3"), 32, 715,
              "so many columns");
    result_of("no columns", "mov.u32 %r3, 0;\n" ALLOCATE("0", "%r3"), 32, 715, "so many columns");
    result_of("more columns than there are", "mov.u32 %r3, 1024;\n" ALLOCATE("0", "%r3"), 32, 715,
              "so many columns");
    result_of("an allocation after the permit",
              "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;\n" ALLOCATE("0", "32"), 32, 715,
              "relinquish");
    result_of("an address behind shared memory", ALLOCATE("4096", "32"), 32, 700, "");
    result_of("an address in global memory", "tcgen05.alloc.cta_group::1.sync.aligned.b32 [%rd0], 32;\n", 32,
              700, "");
    result_of("columns that are free already", "mov.u32 %r3, 0;\n" FREE("%r3", "32"), 32, 715,
              "not allocated");
    result_of("half of an allocation", ALLOCATE("0", "64") "mov.u32 %r3, 0;\n" FREE("%r3", "32"), 32, 715,
              "a part");
    result_of("the other half", ALLOCATE("0", "64") "mov.u32 %r3, 32;\n" FREE("%r3", "32"), 32, 715,
              "a part");
    result_of("two allocations",
              ALLOCATE("0", "32") ALLOCATE("0", "32") "mov.u32 %r3, 0;\n" FREE("%r3", "64"), 32, 715,
              "a part");
    result_of("any address", ALLOCATE("0", "64") "mov.u32 %r3, 0xffffffe0;\n" FREE("%r3", "32"), 32, 715,
              "not allocated");
#define LOAD "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r4,%r5}, [%r3];\n"
    result_of("a load without an allocation", "mov.u32 %r3, 0;\n" LOAD, 32, 700, "has not allocated");
    result_of("a load across the end", ALLOCATE("0", "64") "mov.u32 %r3, 63;\n" LOAD, 32, 700,
              "has not allocated");
    result_of("a load behind all columns", ALLOCATE("0", "512") "mov.u32 %r3, 511;\n" LOAD, 32, 700,
              "has not allocated");
    result_of("a load of other lanes", ALLOCATE("0", "32") "mov.u32 %r3, 0x200000;\n" LOAD, 32, 715,
              "does not reach");
    result_of("a load of lanes that are none", ALLOCATE("0", "32") "mov.u32 %r3, 0x800000;\n" LOAD, 32, 715,
              "does not reach");
    result_of("a load of lanes in between", ALLOCATE("0", "32") "mov.u32 %r3, 0x10000;\n" LOAD, 32, 715,
              "does not reach");
    result_of(
        "a second half outside",
        ALLOCATE("0",
                 "32") "mov.u32 %r3, 0;\ntcgen05.st.sync.aligned.16x32bx2.x2.b32 [%r3], 31, {%r4,%r5};\n",
        32, 700, "has not allocated");
    result_of(
        "a second half in front",
        ALLOCATE("0",
                 "32") "mov.u32 %r3, 4;\ntcgen05.st.sync.aligned.16x32bx2.x2.b32 [%r3], -4, {%r4,%r5};\n",
        32, 0, "");
}

/* ---- commit ---- */

static void commits(void)
{
    uint32_t *out = tm_alloc(64);
    const struct params p = {out, NULL, 0, 0};
    struct sg_fault f;
    struct tk t;
    int r = -1;

    /* block 0 arrives at the barriers of both blocks */
    body_text(
        "mbarrier.init.shared.b64 [bar], 1;\nbarrier.cluster.arrive;\nbarrier.cluster.wait;\n"
        "mov.u32 %r4, %cluster_ctarank;\nsetp.ne.u32 %p1, %r4, 0;\nmov.b16 %h1, 3;\nmov.u32 %r5, bar;\n"
        "@!%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;\n"
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0;\n@!%p2 bra WAIT;\n"
        "mul.wide.u32 %rd4, %r4, 4;\nadd.u64 %rd4, %rd4, %rd0;\nst.global.u32 [%rd4], 5;\n"
        "barrier.cluster.arrive;\nbarrier.cluster.wait;\n");
    t_cluster[0] = 2;
    t_cluster[1] = t_cluster[2] = 1;
    if (tk_open(&t, text, "t")) {
        r = tk_run(&t, 2, 1, &p, &f);
        tk_close(&t);
    } else {
        printf("%s\n", t.diag.message);
    }
    t_result("a commit to two blocks", !r && out[0] == 5 && out[1] == 5, "%d: %u %u", r, out[0], out[1]);
    t_cluster[0] = t_cluster[1] = t_cluster[2] = 0;
    tm_free_all();
    result_of(
        "a commit outside shared memory",
        "mov.u32 %r5, 0x10000;\ntcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r5];\n",
        1, 700, "");
    result_of(
        "a commit to a block that is not there",
        "mov.u32 %r5, bar;\nmov.b16 %h1, 0x8000;\n"
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r5], %h1;\n",
        1, 700, "");
}

/* ---- what is not there ---- */

static void refuse(const char *body, const char *message)
{
    struct tk t = {0};
    bool opened;

    body_text(body);
    opened = tk_open(&t, text, "t");
    t_result(body, !opened && strstr(t.diag.message, message), "%s", opened ? "accepted" : t.diag.message);
    if (opened)
        tk_close(&t);
    else
        sg_module_free(t.m);
}

static void refusals(void)
{
    refuse("tcgen05.shift.cta_group::1.down [%r3];", "tcgen05.shift.cta_group::1.down");
    refuse("tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;", "pairs of blocks");
    refuse("tcgen05.mma.ws.cta_group::1.kind::f16 [%r3], %rd3, %rd3, %r4, %p1;", "not available");
    refuse("tcgen05.mma.sp.cta_group::1.kind::f16 [%r3], %rd3, %rd3, [%r5], %r4, %p1;", "not available");
    refuse("tcgen05.mma.cta_group::2.kind::f16 [%r3], %rd3, %rd3, %r4, %p1;", "pairs of blocks");
    refuse(
        "tcgen05.mma.cta_group::1.kind::mxf4.block_scale.scale_vec::2X [%r3], %rd3, %rd3, %r4, [%r5], [%r6], %p1;",
        "not available");
    refuse("tcgen05.mma.cta_group::1.kind::f16.ashift.collector::a::discard [%r3], [%r4], %rd3, %r4, %p1;",
           "not available");
    refuse("tcgen05.cp.cta_group::2.128x256b [%r3], %rd3;", "pairs of blocks");
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    allocations();
    moves();
    copy_shapes();
    hostile_copies();
    commits();
    refusals();
    return t_end("softgpu tcgen05");
}

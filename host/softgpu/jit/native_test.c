/* SPDX-License-Identifier: MIT */
/*
 * Native operations without a call of the handler. ldmatrix: rows in any order, at the end of
 * shared memory and beyond it.
 */
#define _GNU_SOURCE
#include "exec/exec_test.h"
#include "exec/profile.h"
#include "jit/jit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BYTES 1024u /* shared memory */

/* Each lane loads from off[lane], shared memory is the same words as data; d registers of each
   lane go to out. */
static const char ldmatrix_text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 16 .b8 s[1024];\n"
    ".visible .entry t(.param .u64 data, .param .u64 off, .param .u64 out)\n{\n"
    ".reg .b32 %%r<20>, %%d<4>; .reg .b64 %%a<6>; .reg .pred %%p;\n"
    "ld.param.u64 %%a0, [data]; ld.param.u64 %%a1, [off]; ld.param.u64 %%a2, [out]; mov.u32 %%r2, %%tid.x;\n"
    "mul.wide.u32 %%a3, %%r2, 4; add.u64 %%a0, %%a0, %%a3; add.u64 %%a1, %%a1, %%a3;\n"
    "mul.wide.u32 %%a3, %%r2, 16; add.u64 %%a2, %%a2, %%a3; mov.u32 %%r0, s; mad.lo.u32 %%r1, %%r2, 4, %%r0; mov.u32 %%r3, 8;\n"
    "COPY:\nld.global.u32 %%r4, [%%a0]; st.shared.u32 [%%r1], %%r4;\nadd.u64 %%a0, %%a0, 128; add.u32 %%r1, %%r1, 128;\n"
    "sub.u32 %%r3, %%r3, 1; setp.ne.u32 %%p, %%r3, 0;\n@%%p bra COPY;\nbar.sync 0;\n"
    "mov.u32 %%d0, 0; mov.u32 %%d1, 0; mov.u32 %%d2, 0; mov.u32 %%d3, 0; ld.global.u32 %%r5, [%%a1]; add.u32 %%r6, %%r5, %%r0;\n"
    "%s\nst.global.v4.u32 [%%a2], {%%d0, %%d1, %%d2, %%d3};\nret;\n}\n";

static uint8_t data[BYTES], *from;
static uint32_t *off, *out;

struct rows {
    int n;
    bool trans;
    int imm;   /* the instruction's offset */
    bool same; /* the last load overwrites the register of addresses */
};

static bool ldmatrix_open(struct tk *t, const struct rows *x)
{
    static const char *const list[5] = {"", "%d0", "%d0, %d1", "", "%d0, %d1, %d2, %d3"};
    static char op[256], text[4096];

    snprintf(op, sizeof(op),
             "mov.u32 %%d%d, %%r6; ldmatrix.sync.aligned.m8n8.x%d%s.shared.b16 {%s}, [%s+%d];", x->n - 1,
             x->n, x->trans ? ".trans" : "", list[x->n],
             !x->same    ? "%r6"
             : x->n == 1 ? "%d0"
             : x->n == 2 ? "%d1"
                         : "%d3",
             x->imm);
    snprintf(text, sizeof(text), ldmatrix_text, op);
    return tk_open(t, text, "t");
}

/* Lane i's place of its row in pattern p. */
static uint32_t row_at(unsigned p, uint32_t i)
{
    switch (p) {
    case 0:
        return 16 * i;
    case 1: /* the other way round */
        return 16 * (31 - i);
    case 2: /* all the same */
        return 48;
    case 3: /* a tile whose rows are swizzled */
        return i / 8 * 128 + (i % 8 ^ i / 8) * 16;
    default:
        return i * 7 % 64 * 16;
    }
}
#define PATTERNS 5u

/* Without AVX-512 these have no native form. */
static bool by_handler(const char *op, const char *text)
{
    return !strcmp(sg_op_isa(), "avx2") &&
           (!strcmp(op, "mma.float") || !strcmp(op, "mma.int") || !strcmp(op, "ldmatrix") ||
            ((!strcmp(op, "sin.f32") || !strcmp(op, "cos.f32")) && !strstr(text, "/* sincos */")));
}

static uint64_t calls(const char *op)
{
    const uint64_t *n = sg_profile_counter("t", op, "");

    return n ? *n : 1;
}

static int run(struct tk *t, struct sg_fault *f)
{
    const uint64_t params[] = {(uintptr_t)from, (uintptr_t)off, (uintptr_t)out};

    memcpy(from, data, BYTES);
    memset(out, 0x55, 32 * 16);
    return tk_run(t, 1, 32, params, f);
}

static bool rows_are(const struct rows *x)
{
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t m = 0; m < (uint32_t)x->n; m++) {
            uint16_t v[2];

            for (uint32_t e = 0; e < 2; e++) {
                const uint32_t row = x->trans ? lane % 4 * 2 + e : lane / 4,
                               col = x->trans ? lane / 4 : lane % 4 * 2 + e;

                memcpy(&v[e], data + (uint32_t)(off[8 * m + row] + (uint32_t)x->imm + 2 * col), 2);
            }
            if (memcmp(&out[4 * lane + m], v, 4))
                return false;
        }
    return true;
}

static void ldmatrix(const struct rows *x)
{
    const uint64_t before = calls("ldmatrix");
    char name[64];
    struct sg_fault f;
    struct tk t;
    bool ok = ldmatrix_open(&t, x);
    unsigned bad = 0;

    for (unsigned p = 0; p < PATTERNS && ok; p++) {
        for (uint32_t i = 0; i < 32; i++)
            off[i] = row_at(p, i) - (uint32_t)x->imm;
        for (uint32_t i = 8 * (uint32_t)x->n; i < 32; i++)
            off[i] = 0xfffffff1u; /* never loaded */
        bad += run(&t, &f) || !rows_are(x);
    }
    snprintf(name, sizeof(name), "ldmatrix.x%d%s, offset %d%s", x->n, x->trans ? ".trans" : "", x->imm,
             x->same ? ", over its address" : "");
    t_result(name, ok && !bad && (by_handler("ldmatrix", "") || calls("ldmatrix") == before),
             "%u patterns are wrong, %llu calls of the handler", bad,
             (unsigned long long)(calls("ldmatrix") - before));
    tk_close(&t);
}

/* All rows at the end of shared memory; one lane's lies `beyond` bytes further. */
static void ldmatrix_edge(int n, uint32_t lane, int beyond)
{
    const struct rows x = {n, n == 2, n == 1 ? 32 : 0, false};
    const bool used = lane < 8 * (uint32_t)n;
    const int want = !used ? 0 : beyond & 15 ? SG_ERR_MISALIGNED : beyond > 0 ? SG_ERR_ADDRESS : 0;
    struct sg_fault f = {.message = ""};
    char name[64];
    struct tk t;
    bool ok = ldmatrix_open(&t, &x);
    int r;

    for (uint32_t i = 0; i < 32; i++)
        off[i] = BYTES - 16 - (uint32_t)x.imm;
    off[lane] += (uint32_t)beyond;
    r = ok ? run(&t, &f) : -1;
    ok = r == want &&
         (want ? f.thread[0] == lane && f.access_size == 16 && f.address == BYTES - 16 + (uint32_t)beyond
               : rows_are(&x));
    snprintf(name, sizeof(name), "ldmatrix.x%d, lane %u %d bytes behind the last row", n, lane, beyond);
    t_result(name, ok, "%d, lane %u: %s", r, f.thread[0], f.message);
    tk_close(&t);
}

static void ldmatrix_all(void)
{
    for (int n = 1; n <= 4; n *= 2) {
        for (int k = 0; k < 8; k++)
            ldmatrix(&(struct rows){n, k & 1, k & 2 ? 64 : 0, k & 4});
        for (int beyond = -16; beyond <= 16; beyond += 4)
            for (unsigned k = 0; k < 4; k++)
                ldmatrix_edge(n, (const uint32_t[]){0, 7, 16, 31}[k], beyond);
    }
}

#define MODE " in a mode or under a predicate"
#define MMA(shape, type) "mma.sync.aligned." shape ".row.col.f32." type "." type ".f32"
#define IMMA(shape, a, b) "mma.sync.aligned." shape ".row.col.s32." a "." b ".s32"
/* Operations on registers: the results equal the handlers', which other tests compare with
   references. */
static const struct {
    const char *handler, *text;
} ops[] = {
    {"rcp.f32", "rcp.rn.f32 %d0, %x0;"},
    {"rcp.f32", "rcp.approx.f32 %d0, %x0;"},
    {"rcp.f32", "rcp.approx.ftz.f32 %d0, %x0;"},
    {"rsqrt.f32", "rsqrt.approx.f32 %d0, %x0;"},
    {"rsqrt.f32", "rsqrt.approx.ftz.f32 %d0, %x0;"},
    {"cvt.rni.f32.f32", "cvt.rni.f32.f32 %d0, %x0;"},
    {"cvt.rzi.f32.f32", "cvt.rzi.f32.f32 %d0, %x0;"},
    /* in a mode: other instructions of the kernel take denormals as 0 */
    {"cvt.rzi.f32.f32 in a mode or under a predicate",
     "add.ftz.f32 %x1, %x1, %x2; cvt.rzi.f32.f32 %x4, %x0; add.ftz.f32 %d0, %x4, %x2; mul.ftz.f32 %d2, %x1, %x3; cvt.rni.f32.f32 %x5, %x0; mul.ftz.f32 %d3, %x5, %x3;"},
    {"cvt.rni.s32.f32 in a mode or under a predicate",
     "add.ftz.f32 %x1, %x1, %x2; cvt.rni.s32.f32 %d0, %x0; add.ftz.f32 %d1, %x1, %x2; mul.ftz.f32 %d2, %x1, %x3; cvt.rzi.u32.f32 %d3, %x0;"},
    {"cvt.rmi.f32.f32", "cvt.rmi.f32.f32 %d0, %x0;"},
    {"cvt.rpi.f32.f32", "cvt.rpi.ftz.f32.f32 %d0, %x0;"},
    {"cvt.rni.s32.f32", "cvt.rni.s32.f32 %d0, %x0;"},
    {"cvt.rzi.s32.f32", "cvt.rzi.ftz.s32.f32 %d0, %x0;"},
    {"cvt.rmi.s32.f32", "cvt.rmi.s32.f32 %d0, %x0;"},
    {"cvt.rpi.s32.f32", "cvt.rpi.s32.f32 %d0, %x0;"},
    {"cvt.rzi.u32.f32", "cvt.rzi.u32.f32 %d0, %x0;"},
    {"cvt.f32.u8", "cvt.rn.f32.u8 %d0, %x0;"},
    {"cvt.f32.s8", "cvt.rn.f32.s8 %d0, %x0;"},
    {"cvt.f32.u16", "cvt.rn.f32.u16 %d0, %h;"},
    {"cvt.f32.s16", "cvt.rn.f32.s16 %d0, %h;"},
    {"sat.f32", "cvt.sat.f32.f32 %d0, %x0;"},
    {"copysign.f32", "copysign.f32 %d0, %x0, %x1;"},
    {"lg2.f32", "lg2.approx.f32 %d0, %x0; abs.f32 %x1, %x1; lg2.approx.f32 %d1, %x1;"},
    {"lg2.f32", "lg2.approx.ftz.f32 %d0, %x0; add.ftz.f32 %d1, %x0, %x1;"},
    {"sin.f32", "sin.approx.f32 %d0, %x0; mul.f32 %x1, %x1, 0f3dcccccd; sin.approx.f32 %d1, %x1;"},
    {"sin.f32", "sin.approx.ftz.f32 %x0, %x0; mov.b32 %d0, %x0; add.ftz.f32 %d1, %x2, %x1;"},
    {"cos.f32",
     "cos.approx.f32 %d0, %x0; and.b32 %x1, %x1, 0xc9ffffff; cos.approx.f32 %d1, %x1; sin.approx.f32 %d2, %x1;"},
    {"cos.f32", "cos.approx.ftz.f32 %x0, %x0; mov.b32 %d0, %x0; add.ftz.f32 %d1, %x2, %x1;"},
    /* random numbers; by 0 and -1; a multiple minus 1 */
    {"div.u32",
     "div.u32 %d0, %x0, %x1; div.u32 %d1, %x2, 7; and.b32 %x3, %x3, 255; div.u32 %d2, %x4, %x3; div.u32 %d3, %x0, %x0;"},
    {"div.s32",
     "div.s32 %d0, %x0, %x1; div.s32 %d1, %x2, -7; or.b32 %x3, %x3, -16; div.s32 %d2, %x4, %x3; div.s32 %d3, %x0, %x0;"},
    {"rem.u32",
     "rem.u32 %d0, %x0, %x1; and.b32 %x3, %x3, 255; rem.u32 %d1, %x4, %x3; rem.u32 %d2, %x3, %x4;"},
    {"rem.s32", "rem.s32 %d0, %x0, %x1; or.b32 %x3, %x3, -16; rem.s32 %d1, %x4, %x3; rem.s32 %d2, %x3, %x4;"},
    {"div.u32",
     "shr.u32 %x4, %x0, 16; shr.u32 %x5, %x1, 16; mul.lo.u32 %x6, %x4, %x5; sub.u32 %x6, %x6, 1; div.u32 %d0, %x6, %x5;"
     "sub.rp.f32 %d1, %x0, %x1; div.u32 %d2, %x6, %x4; sub.rz.f32 %d3, %x0, %x1; div.u32 %x7, %x6, %x5; add.u32 %d3, %d3, %x7;"},
    {"div.s32",
     "mov.u32 %x4, %ctaid.x; add.s32 %x5, %x4, -9; div.s32 %d0, %x4, 3; div.s32 %d1, -77, %x5; rem.s32 %d2, %x5, 4; rem.u32 %d3, %x5, %x4;"},
    {"sin.f32",
     "sin.approx.ftz.f32 %d0, %x0; cos.approx.ftz.f32 %d1, %x0; add.ftz.f32 %d2, %d0, %d1; /* sincos */"},
    {"cos.f32",
     "cos.approx.f32 %d0, %x0; mul.f32 %x2, %x1, %d0; sin.approx.f32 %x0, %x0; mul.f32 %d1, %x0, %x2; /* sincos */"},
    {"sin.f32",
     "and.b32 %x0, %x0, 0xc9ffffff; sin.approx.f32 %x1, %x0; cos.approx.f32 %d0, %x0; mov.b32 %d1, %x1; add.f32 %x0, %d0, %x2; "
     "cos.approx.f32 %d2, %x0; mul.f32 %d0, %d2, %d0; sin.approx.f32 %d3, %x0; /* sincos */"},
    /* the value has changed by then, or the rounding in between, or only some lanes run */
    {"sin.f32",
     "sin.approx.f32 %d0, %x0; add.f32 %x0, %x0, %x1; cos.approx.f32 %d1, %x0; cos.approx.f32 %x2, %x2; sin.approx.f32 %d2, %x2;"},
    {"sin.f32",
     "sin.approx.ftz.f32 %d0, %x0; cos.approx.f32 %d1, %x0; sin.approx.f32 %d2, %x1; add.rz.f32 %x2, %x2, %x1; cos.approx.ftz.f32 %d3, %x1;"},
    {"cos.f32",
     "cos.approx.f32 %d0, %x0; setp.lt.f32 %q, %x0, %x1; @%q sin.approx.f32 %d1, %x0; @%q bra E; sin.approx.f32 %d2, %x1; "
     "cos.approx.f32 %d3, %x1; E:"},
    {"add.f32" MODE, "add.rz.f32 %d0, %x0, %x1; add.rm.f32 %d1, %x0, %x1; add.rp.f32 %d2, %x0, %x1;"},
    {"sub.f32" MODE, "sub.rz.f32 %d0, %x0, %x1; sub.rm.f32 %d1, %x0, %x1; sub.rp.f32 %d2, %x0, %x1;"},
    {"mul.f32" MODE, "mul.rz.f32 %d0, %x0, %x1; mul.rm.f32 %d1, %x0, %x1; mul.rp.sat.f32 %d2, %x0, %x1;"},
    {"fma.f32" MODE,
     "fma.rz.f32 %d0, %x0, %x1, %x2; fma.rm.f32 %x3, %x0, %x1, %x2; fma.rp.f32 %d2, %x0, %x1, %x3; mov.b32 %d1, %x3;"},
    {"div.f32" MODE, "div.rz.f32 %d0, %x0, %x1; div.rm.f32 %d1, %x0, %x1; div.rp.f32 %d2, %x0, %x1;"},
    {"sqrt.f32" MODE,
     "sqrt.rz.f32 %d0, %x0; sqrt.rm.f32 %d1, %x0; rcp.rp.f32 %d2, %x0; rcp.rz.f32 %d3, %x0;"},
    {"rcp.f32" MODE, "rcp.rz.f32 %d0, %x0; rcp.rm.f32 %d1, %x0; rcp.rp.f32 %d2, %x0;"},
    {"fma.f32" MODE,
     "fma.rn.ftz.f32 %d0, %x0, %x1, %x2; fma.rm.ftz.f32 %d1, %x0, %x1, %x2; mul.f32 %d2, %x0, %x1; mul.rz.ftz.f32 %d3, %x1, %x2;"},
    {"ex2.f32" MODE,
     "ex2.approx.ftz.f32 %d0, %x0; ex2.approx.f32 %d1, %x1; div.approx.ftz.f32 %d2, %x1, %x2;"},
    {"setp.lt.f32" MODE,
     "setp.lt.ftz.f32 %q, %x0, %x1; selp.b32 %d0, %x0, %x1, %q; min.ftz.f32 %d1, %x0, %x1; max.f32 %d2, %x0, %x1;"},
    {"add.f64" MODE,
     "add.rz.f64 %w0, %w0, %w1; add.rm.f64 %w1, %w1, %w2; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    {"sub.f64" MODE,
     "sub.rz.f64 %w0, %w0, %w1; sub.rp.f64 %w1, %w1, %w2; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    {"mul.f64" MODE,
     "mul.rm.f64 %w0, %w0, %w1; mul.rp.f64 %w1, %w1, %w2; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    {"fma.f16x2",
     "fma.rn.f16x2 %d0, %x0, %x1, %x2; fma.rn.f16x2 %d1, %x3, %x4, %x5; fma.rn.f16x2 %d2, %x6, %x7, %x7; fma.rn.f16x2 %d3, %x8, %x8, %x9;"},
    {"fma.f16", "fma.rn.f16 %h, %h, %h, %h; cvt.u32.u16 %d0, %h;"},
    {"add.f16x2",
     "add.f16x2 %d0, %x0, %x1; sub.f16x2 %d1, %x2, %x3; mul.f16x2 %d2, %x4, %x5; mul.f16x2 %d3, %x6, %d0;"},
    /* an added product: without other readers, read again, added to itself */
    {"add.f16x2",
     "mul.f16x2 %x9, %x0, %x1; add.f16x2 %d0, %x9, %x2; mul.f16x2 %x0, %x3, %x4; add.f16x2 %d1, %x5, %x0;"
     "mul.f16x2 %d2, %x6, %x7; add.f16x2 %d2, %d2, %x6;"},
    {"mul.f16x2",
     "mul.f16x2 %d0, %x0, %x1; add.f16x2 %d1, %d0, %x2; mul.f16x2 %d2, %x3, %x4; add.f16x2 %d2, %d2, %d2;"
     "mul.f16x2 %x5, %x6, %x7; add.f16x2 %x7, %x6, %x8; add.f16x2 %d3, %x5, %x7;"},
    {"max.f32",
     "max.f32 %d0, %x0, %x1; min.f32 %d1, %x1, %x2; max.ftz.f32 %d2, %x2, %x3; min.ftz.f32 %d3, %x4, %x5;"},
    {"max.f32",
     "neg.f32 %x1, %x0; max.f32 %d0, %x0, %x1; min.f32 %d1, %x1, %x0; max.f32 %d2, %x2, %x2; min.ftz.f32 %d3, %x0, %x1;"},
    /* flushed, where all of the kernel flushes */
    {"flush.f32",
     "max.ftz.f32 %d0, %x0, %x1; min.ftz.f32 %d1, %x1, %x2; max.ftz.f32 %x3, %x2, %x2; max.ftz.f32 %d2, %x3, %x4; min.ftz.f32 %d3, %x4, %d0;"},
    {"flush.f32",
     "max.ftz.f32 %d0, %x0, %x1; add.rz.ftz.f32 %d1, %x1, %x2; max.ftz.f32 %x3, %d1, %x2; min.f32 %d2, %x3, %x4; abs.ftz.f32 %d3, %x4; "
     "setp.lt.ftz.f32 %q, %x0, %x1; @%q max.ftz.f32 %d2, %x5, %x6;"},
    {"fma.f64",
     "fma.rn.f64 %w0, %w0, %w1, %w2; fma.rn.f64 %w1, %w1, %w2, %w0; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    {"fma.f64" MODE,
     "fma.rz.f64 %w0, %w0, %w1, %w2; fma.rp.f64 %w1, %w1, %w2, %w0; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    /* f64 has denormals where f32 has none */
    {"fma.f64" MODE,
     "add.ftz.f32 %d2, %x0, %x1; mul.ftz.f32 %d3, %x1, %x2; add.ftz.f32 %x4, %x4, %x5; fma.rn.f64 %w0, %w0, %w1, %w2; mov.b64 {%d0, %d1}, %w0; "
     "add.ftz.f32 %d3, %d3, %x4;"},
    /* a persistent mode does not apply to the instructions behind it */
    {"cvt.rni.f32.f32",
     "add.ftz.f32 %x4, %x2, %x1; rcp.rm.f32 %d3, %x4; sub.rz.ftz.f32 %d2, %x2, %x3; cvt.rni.ftz.f32.f32 %d0, %x0; cvt.rni.ftz.s32.f32 %d1, %x1;"},
    {"mma.float",
     MMA("m16n8k16", "f16") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7, %x8, %x9};"},
    {"mma.float",
     MMA("m16n8k16",
         "bf16") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7, %x8, %x9};"},
    {"mma.float", MMA("m16n8k8", "f16") " {%d0, %d1, %d2, %d3}, {%x0, %x1}, {%x4}, {%x6, %x7, %x8, %x9};"},
    {"mma.float", MMA("m16n8k8", "bf16") " {%d0, %d1, %d2, %d3}, {%x0, %x1}, {%x4}, {%x6, %x7, %x8, %x9};"},
    {"mma.float",
     "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%d0, %d1}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7};"},
    {"mma.float",
     "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%d0, %d1}, {%x0, %x1}, {%x4}, {%x6, %x7};"},
    {"mma.float",
     "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%x0, %d1}, {%x0, %x1, %x2, %x3}, {%x0, %x5}, {%x5, %x5};\n"
     "mov.b32 %d0, %x0; mov.b32 %d2, %x5; mov.b32 %d3, %x1;"},
    /* registers that are several operands, or read again, and constants */
    {"mma.float",
     "mov.f32 %d0, 0f3f800000; mov.f32 %d1, %d0; mov.f32 %d2, 0f80000000; mov.f32 %d3, %d2;\n" MMA(
         "m16n8k16",
         "f16") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x0, %x1}, {%x0, %x0}, {%d0, %d1, %d2, %d3};\n" MMA("m16n8k16",
                                                                                                       "bf16") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%d0, %d1, %d2, %d3};"},
    {"mma.float",
     MMA("m16n8k16",
         "f16") " {%x0, %x1, %x2, %x3}, {%x0, %x1, %x2, %x3}, {%x2, %x3}, {%x6, %x6, %x0, %x6};\n"
                "add.u32 %d0, %x0, %x1; add.u32 %d1, %x2, %x3; add.u32 %d2, %x4, %x5; add.u32 %d3, %x6, %x7;"},
    {"mma.float",
     MMA("m16n8k16", "bf16") " {%x0, %x1, %x2, %x3}, {%x4, %x5, %x6, %x7}, {%x8, %x9}, {%x0, %x1, %x2, %x3};\n" MMA(
         "m16n8k8", "f16") " {%d3, %d2, %d1, %d0}, {%x4, %x5}, {%x6}, {%x0, %x1, %x2, %x3};"},
    {"st.slow",
     "st.global.v4.u8 [%p1], {%x0, %x1, %x2, %x3}; ld.global.u32 %d0, [%p1]; st.global.v2.u8 [%p1], {%x4, %x4}; "
     "st.global.v2.u8 [%p1+2], {7, %x5}; ld.global.u32 %d1, [%p1];"},
    {"cvt.f64.s32",
     "cvt.rn.f64.s32 %w0, %x0; cvt.rn.f64.s32 %w1, %x1; mov.b64 {%d0, %d1}, %w0; mov.b64 {%d2, %d3}, %w1;"},
    /* random bits; halves and values between them, off by an ulp of f64 and by much more */
    {"cvt.f16.f64",
     "cvt.rn.f16.f64 %h, %w0; cvt.u32.u16 %d0, %h; cvt.rn.f64.s32 %w1, %x2; cvt.rn.f16.f64 %h, %w1; cvt.u32.u16 %d1, %h;"},
    {"cvt.f16.f64",
     "cvt.f32.f16 %x1, %h; cvt.f64.f32 %w0, %x1; add.f64 %w1, %w0, 0d3E70000000000000; cvt.rn.f16.f64 %h, %w1; cvt.u32.u16 %d0, %h; "
     "mov.b64 {%x2, %x3}, %w0; add.u32 %x2, %x2, 1; mov.b64 %w1, {%x2, %x3}; cvt.rn.f16.f64 %h, %w1; cvt.u32.u16 %d1, %h; "
     "shr.u32 %x4, %x0, 19; shl.b32 %x4, %x4, 19; and.b32 %x5, %x0, 1; and.b32 %x4, %x4, 0xbfffffff; cvt.f64.f32 %w2, %x4; mov.b64 {%x6, %x7}, %w2; "
     "or.b32 %x6, %x6, %x5; mov.b64 %w2, {%x6, %x7}; cvt.rn.f16.f64 %h, %w2; cvt.u32.u16 %d2, %h;"},
    /* bytes: some of them -128, which has no opposite */
    {"mma.int", IMMA("m16n8k32", "s8",
                     "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7, %x8, %x9};"},
    {"mma.int", IMMA("m16n8k32", "u8",
                     "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7, %x8, %x9};"},
    {"mma.int",
     IMMA("m16n8k16", "s8", "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1}, {%x4}, {%x6, %x7, %x8, %x9};"},
    {"mma.int",
     IMMA("m16n8k16", "u8", "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1}, {%x4}, {%x6, %x7, %x8, %x9};"},
    {"mma.int", IMMA("m8n8k16", "s8", "s8") " {%d0, %d1}, {%x0}, {%x4}, {%x6, %x7};\n" IMMA(
                    "m8n8k16", "u8", "s8") " {%d2, %d3}, {%x1}, {%x4}, {%x8, %x9};"},
    {"mma.int",
     "or.b32 %x0, %x0, 0x80808080; or.b32 %x4, %x4, 0x80808080; and.b32 %x1, %x1, 0x80808080; and.b32 %x5, %x5, 0x80808080;\n" IMMA(
         "m16n8k32", "s8",
         "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1, %x2, %x3}, {%x4, %x5}, {%x6, %x7, %x8, %x9};"},
    {"mma.int",
     "mov.u32 %d0, 0x80808080; mov.u32 %d1, %d0; mov.u32 %d2, -1; mov.u32 %d3, %d2;\n" IMMA(
         "m16n8k32", "s8",
         "s8") " {%d0, %d1, %d2, %d3}, {%d0, %x1, %d0, %x1}, {%d0, %x0}, {%d0, %d1, %d2, %d3};\n" IMMA("m16n8k16",
                                                                                                       "s8",
                                                                                                       "s8") " {%d0, %d1, %d2, %d3}, {%x0, %x1}, {%x0}, {%d3, %d2, %d1, %d0};"},
    {"mma.int",
     IMMA(
         "m16n8k32", "s8",
         "s8") " {%x0, %x1, %x2, %x3}, {%x0, %x1, %x2, %x3}, {%x2, %x3}, {%x6, %x6, %x0, %x6};\n"
               "add.u32 %d0, %x0, %x1; add.u32 %d1, %x2, %x3; add.u32 %d2, %x4, %x5; add.u32 %d3, %x6, %x7;"},
};
#define NOPS (sizeof(ops) / sizeof(ops[0]))
#define BLOCKS 64u

#define WORDS 10u /* that a lane reads; it writes 4 */

static const char ops_text[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 in, .param .u64 out)\n{\n"
    ".reg .b32 %%r<4>, %%x<10>, %%d<4>; .reg .b64 %%p<4>, %%w<3>; .reg .b16 %%h; .reg .pred %%q;\n"
    "ld.param.u64 %%p0, [in]; ld.param.u64 %%p1, [out]; mov.u32 %%r0, %%tid.x; mov.u32 %%r1, %%ctaid.x;\n"
    "mad.lo.u32 %%r0, %%r1, 32, %%r0; mul.wide.u32 %%p2, %%r0, 40; add.u64 %%p0, %%p0, %%p2; mul.wide.u32 %%p2, %%r0, 16;\n"
    "add.u64 %%p1, %%p1, %%p2; ld.global.v2.u32 {%%x0, %%x1}, [%%p0]; ld.global.v2.u32 {%%x2, %%x3}, [%%p0+8];\n"
    "ld.global.v2.u32 {%%x4, %%x5}, [%%p0+16]; ld.global.v2.u32 {%%x6, %%x7}, [%%p0+24];\n"
    "ld.global.v2.u32 {%%x8, %%x9}, [%%p0+32]; mov.u32 %%d0, %%r1; mov.u32 %%d1, %%r1; mov.u32 %%d2, %%r1; mov.u32 %%d3, %%r1;\n"
    "cvt.u16.u32 %%h, %%x0; mov.b64 %%w0, {%%x0, %%x1}; mov.b64 %%w1, {%%x2, %%x3}; mov.b64 %%w2, {%%x4, %%x5};\n%s\nst.global.v4.u32 [%%p1], {%%d0, %%d1, %%d2, %%d3};\nret;\n}\n";

/* All kinds of floats: zeroes, denormals, around 1 and halves, limits of integers, NaN; and random
   bits. */
static uint32_t some_bits(uint32_t i)
{
    static const uint32_t special[] = {0,          1,          0x007fffff, 0x00800000, 0x3effffff,
                                       0x3f000000, 0x3f000001, 0x3f7fffff, 0x3f800000, 0x3fc00000,
                                       0x40200000, 0x4b000000, 0x4effffff, 0x4f000000, 0x4f7fffff,
                                       0x4f800000, 0x7e800000, 0x7f000000, 0x7f7fffff, 0x7f800000,
                                       0x7f800001, 0x7fc00000, 0x7fffffff, 0x4affffff, 0x4afffffe};
    const uint32_t n = 2 * sizeof(special) / sizeof(special[0]);

    return i < n ? special[i / 2] | i << 31 : (i * 2654435761u) ^ (i * 40503u << 9);
}

static void operation(size_t k, uint32_t *in, uint32_t *got)
{
    const uint64_t params[] = {(uintptr_t)in, (uintptr_t)got}, before = calls(ops[k].handler);
    static uint32_t want[BLOCKS * 32 * 4];
    char text[4096], name[96];
    struct sg_fault f;
    struct tk t;
    bool ok;

    snprintf(text, sizeof(text), ops_text, ops[k].text);
    ok = tk_open(&t, text, "t") && !tk_run(&t, BLOCKS, 32, params, &f) && t.k->code.handlers;
    memcpy(want, got, sizeof(want));
    for (uint32_t i = 0; ok && i < t.k->code.ninsns; i++)
        t.k->code.insns[i].fn = t.k->code.handlers[i];
    memset(got, 0, sizeof(want));
    ok = ok && (by_handler(ops[k].handler, ops[k].text) || calls(ops[k].handler) == before) &&
         !tk_run(&t, BLOCKS, 32, params, &f);
    snprintf(name, sizeof(name), "%s: %.64s", ops[k].handler, ops[k].text);
    t_result(name, ok && !memcmp(want, got, sizeof(want)), "%llu calls of the handler, results %s",
             (unsigned long long)(calls(ops[k].handler) - before),
             memcmp(want, got, sizeof(want)) ? "differ" : "as there");
    tk_close(&t);
}

static void operations(void)
{
    uint32_t *in = tm_alloc(BLOCKS * 32 * WORDS * 4), *got = tm_alloc(BLOCKS * 32 * 16);

    for (uint32_t i = 0; i < BLOCKS * 32; i++)
        for (uint32_t k = 0; k < WORDS; k++) /* in every second block below 2, as f32 and as two halves */
            in[WORDS * i + k] =
                some_bits(i * (2 * k + 1) % (BLOCKS * 32)) & (i & 32 ? 0xbfffbfffu : 0xffffffffu);
    for (size_t k = 0; k < NOPS; k++)
        operation(k, in, got);
}

int main(int argc, char **argv)
{
    char path[] = "/tmp/native_test.XXXXXX", file[64];

    t_variant(argc, argv);
    if (!sg_jit_available()) {
        t_skip("operations", "no native code on this machine");
        return t_end("softgpu native operations");
    }
    if (!mkdtemp(path))
        abort();
    snprintf(file, sizeof(file), "%s/profile", path);
    setenv("VGPU_SOFT_PROFILE", file, 1);
    sg_profile_open(); /* counts the calls of handlers */
    unlink(file);
    rmdir(path);
    off = tm_alloc(32 * 4);
    out = tm_alloc(32 * 16);
    from = tm_alloc(BYTES);
    for (uint32_t i = 0; i < BYTES; i++)
        data[i] = (uint8_t)(i * 167 + i / 256 * 13);
    ldmatrix_all();
    operations();
    tm_free_all();
    return t_end("softgpu native operations");
}

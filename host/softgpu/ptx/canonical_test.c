/* SPDX-License-Identifier: MIT */
/*
 * The NaN of PTX: results of each operation on f32, f16 and bf16 for NaN with a payload or a sign,
 * invalid operands, infinities and zeros, bit by bit, with each instruction set and with native code.
 * A copy of bits keeps a payload, and a loop of arithmetic gets no instructions beyond those of its
 * text.
 */
#include "exec/code.h"
#include "exec/exec_test.h"
#include "ptx/decode.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.7\n.target sm_90\n.address_size 64\n"
#define LANES 32u

#define PN 0x7fc12345u /* NaN with a payload, the same with a sign, a signalling NaN */
#define NN 0xffc54321u
#define SN 0x7f812345u
#define INF 0x7f800000u
#define NINF 0xff800000u
#define ONE 0x3f800000u
#define MZERO 0x80000000u
#define NAN32 0x7fffffffu
#define NAN16 0x7fffu
#define TWICE 0x7fff7fffu /* two halves */

static const struct row {
    const char *
        op; /* %d is set from %a, %b, %c, which are .b32; %h, %x, %y, %z are .b16, the last three low halves */
    uint32_t a, b, c, want;
} rows[] = {
    {"add.f32 %d, %a, %b;", INF, NINF, 0, NAN32},
    {"add.f32 %d, %a, %b;", PN, ONE, 0, NAN32},
    {"add.f32 %d, %a, %b;", ONE, NN, 0, NAN32},
    {"add.f32 %d, %a, %b;", SN, NN, 0, NAN32},
    {"add.rz.f32 %d, %a, %b;", NN, ONE, 0, NAN32},
    {"add.ftz.f32 %d, %a, %b;", NN, ONE, 0, NAN32},
    {"add.rm.ftz.f32 %d, %a, %b;", INF, NINF, 0, NAN32},
    {"add.sat.f32 %d, %a, %b;", NN, ONE, 0, 0},
    {"sub.f32 %d, %a, %b;", INF, INF, 0, NAN32},
    {"sub.rp.f32 %d, %a, %b;", SN, ONE, 0, NAN32},
    {"mul.f32 %d, %a, %b;", INF, MZERO, 0, NAN32},
    {"mul.f32 %d, %a, %b;", NN, ONE, 0, NAN32},
    {"mul.rp.ftz.f32 %d, %a, %b;", INF, 1, 0, NAN32}, /* a denormal is 0 */
    {"fma.rn.f32 %d, %a, %b, %c;", INF, 0, ONE, NAN32},
    {"fma.rn.f32 %d, %a, %b, %c;", ONE, ONE, NN, NAN32},
    {"fma.rz.f32 %d, %a, %b, %c;", PN, ONE, NN, NAN32},
    {"mad.rn.f32 %d, %a, %b, %c;", INF, ONE, NINF, NAN32},
    {"div.rn.f32 %d, %a, %b;", 0, 0, 0, NAN32},
    {"div.rn.f32 %d, %a, %b;", INF, NINF, 0, NAN32},
    {"div.rm.f32 %d, %a, %b;", PN, ONE, 0, NAN32},
    {"div.full.f32 %d, %a, %b;", 0, MZERO, 0, NAN32},
    {"div.full.f32 %d, %a, %b;", ONE, 0x7f000000u, 0, 0x00400000u}, /* 1 / 2^127 */
    {"div.approx.f32 %d, %a, %b;", 0, 0, 0, NAN32},
    {"div.approx.f32 %d, %a, %b;", ONE, NN, 0, NAN32},
    {"div.approx.f32 %d, %a, %b;", ONE, 0x7e800000u, 0, 0x00800000u}, /* 2^126: not beyond it */
    {"div.approx.f32 %d, %a, %b;", ONE, 0x7e800001u, 0, 0},
    {"div.approx.f32 %d, %a, %b;", 0x7f7fffffu, 0x7f7fffffu, 0, 0},
    {"div.approx.f32 %d, %a, %b;", ONE, 0xff000000u, 0, MZERO},
    {"div.approx.f32 %d, %a, %b;", INF, 0x7f000000u, 0, NAN32},
    {"div.approx.f32 %d, %a, %b;", INF, 0x7e800000u, 0, INF},
    {"div.approx.f32 %d, %a, %b;", ONE, NINF, 0, MZERO},
    {"div.approx.ftz.f32 %d, %a, %b;", 0x40800000u, 0x7e800001u, 0, 0},
    {"div.approx.ftz.f32 %d, %a, %b;", INF, 0x7f000000u, 0, NAN32},
    {"rcp.rn.f32 %d, %a;", PN, 0, 0, NAN32},
    {"rcp.approx.ftz.f32 %d, %a;", NN, 0, 0, NAN32},
    {"rcp.approx.ftz.f32 %d, %a;", 0x80000001u, 0, 0, NINF},
    {"sqrt.rn.f32 %d, %a;", 0xbf800000u, 0, 0, NAN32},
    {"sqrt.rz.f32 %d, %a;", NN, 0, 0, NAN32},
    {"sqrt.rn.f32 %d, %a;", MZERO, 0, 0, MZERO},
    {"sqrt.approx.f32 %d, %a;", NINF, 0, 0, NAN32},
    {"rsqrt.approx.f32 %d, %a;", 0xbf800000u, 0, 0, NAN32},
    {"rsqrt.approx.f32 %d, %a;", MZERO, 0, 0, NINF},
    {"rsqrt.approx.f32 %d, %a;", INF, 0, 0, 0},
    {"lg2.approx.f32 %d, %a;", 0xbf800000u, 0, 0, NAN32},
    {"lg2.approx.f32 %d, %a;", NN, 0, 0, NAN32},
    {"lg2.approx.f32 %d, %a;", MZERO, 0, 0, NINF},
    {"lg2.approx.f32 %d, %a;", INF, 0, 0, INF},
    {"sin.approx.f32 %d, %a;", INF, 0, 0, NAN32},
    {"sin.approx.f32 %d, %a;", MZERO, 0, 0, MZERO},
    {"cos.approx.f32 %d, %a;", NINF, 0, 0, NAN32},
    {"cos.approx.f32 %d, %a;", NN, 0, 0, NAN32},
    {"ex2.approx.f32 %d, %a;", NN, 0, 0, NAN32},
    {"ex2.approx.f32 %d, %a;", NINF, 0, 0, 0},
    {"ex2.approx.f32 %d, %a;", INF, 0, 0, INF},
    {"tanh.approx.f32 %d, %a;", NN, 0, 0, NAN32},
    {"tanh.approx.f32 %d, %a;", NINF, 0, 0, 0xbf800000u},
    {"neg.f32 %d, %a;", NN, 0, 0, NAN32},
    {"neg.ftz.f32 %d, %a;", PN, 0, 0, NAN32},
    {"neg.f32 %d, %a;", 0, 0, 0, MZERO},
    {"abs.f32 %d, %a;", NN, 0, 0, NAN32},
    {"abs.ftz.f32 %d, %a;", 0x80000001u, 0, 0, 0},
    {"min.f32 %d, %a, %b;", NN, PN, 0, NAN32},
    {"min.f32 %d, %a, %b;", NN, ONE, 0, ONE},
    {"max.f32 %d, %a, %b;", ONE, SN, 0, ONE},
    {"max.NaN.f32 %d, %a, %b;", NN, ONE, 0, NAN32},
    {"min.NaN.ftz.f32 %d, %a, %b;", ONE, SN, 0, NAN32},
    {"min.f32 %d, %a, %b;", 0, MZERO, 0, MZERO},
    {"min.f32 %d, %a, %b;", MZERO, 0, 0, MZERO},
    {"max.f32 %d, %a, %b;", 0, MZERO, 0, 0},
    {"max.f32 %d, %a, %b;", MZERO, 0, 0, 0},
    {"max.ftz.f32 %d, %a, %b;", 0x80000001u, 0x807fffffu, 0, MZERO},
    {"min.xorsign.abs.f32 %d, %a, %b;", NN, PN, 0, NAN32},
    {"max.xorsign.abs.f32 %d, %a, %b;", NN, PN, 0, NAN32},
    {"min.xorsign.abs.f32 %d, %a, %b;", NN, ONE, 0, 0xbf800000u},
    {"min.NaN.xorsign.abs.f32 %d, %a, %b;", NN, ONE, 0, NAN32},
    {"cvt.rni.f32.f32 %d, %a;", NN, 0, 0, NAN32},
    {"cvt.rzi.f32.f32 %d, %a;", SN, 0, 0, NAN32},
    {"cvt.rmi.f32.f32 %d, %a;", NN, 0, 0, NAN32},
    {"cvt.rpi.ftz.f32.f32 %d, %a;", NN, 0, 0, NAN32},
    {"cvt.rpi.f32.f32 %d, %a;", 0xbf000000u, 0, 0, MZERO}, /* -0.5 */
    {"cvt.rni.f32.f32 %d, %a;", NINF, 0, 0, NINF},
    {"cvt.sat.f32.f32 %d, %a;", NN, 0, 0, 0},
    {"{ .reg .f64 t; cvt.f64.f32 t, %a; cvt.rn.f32.f64 %d, t; }", NN, 0, 0, NAN32},
    {"{ .reg .f64 t; mov.b64 t, {%a, %b}; cvt.rn.f32.f64 %d, t; }", 1, 0xfff81234u, 0, NAN32},
    {"cvt.f32.f16 %d, %x;", 0xfe01u, 0, 0, NAN32},
    {"cvt.f32.f16 %d, %x;", 0x7d01u, 0, 0, NAN32},
    {"cvt.f32.f16 %d, %x;", 0xfc00u, 0, 0, NINF},
    {"cvt.rn.f16.f32 %h, %a;", NN, 0, 0, NAN16},
    {"cvt.rz.f16.f32 %h, %a;", SN, 0, 0, NAN16},
    {"cvt.rn.relu.f16.f32 %h, %a;", NN, 0, 0, NAN16},
    {"cvt.rn.satfinite.f16.f32 %h, %a;", NN, 0, 0, NAN16},
    {"cvt.rn.bf16.f32 %h, %a;", NN, 0, 0, NAN16},
    {"cvt.rz.bf16.f32 %h, %a;", SN, 0, 0, NAN16},
    {"cvt.rn.relu.bf16.f32 %h, %a;", NN, 0, 0, NAN16},
    {"cvt.rn.f16x2.f32 %d, %a, %b;", NN, SN, 0, TWICE},
    {"cvt.rn.f16x2.f32 %d, %a, %b;", ONE, NN, 0, 0x3c007fffu},
    {"cvt.rn.bf16x2.f32 %d, %a, %b;", NN, ONE, 0, 0x7fff3f80u},
    {"cvt.rna.tf32.f32 %d, %a;", NN, 0, 0, NAN32},
    {"cvt.rn.satfinite.e4m3x2.f32 %h, %a, %b;", NN, PN, 0, 0x7f7fu},
    {"cvt.rn.satfinite.e5m2x2.f32 %h, %a, %b;", NN, INF, 0, 0x7f7bu},
    {"cvt.rn.f16x2.e4m3x2 %d, %x;", 0xff7fu, 0, 0, TWICE},
    {"cvt.rn.f16x2.e5m2x2 %d, %x;", 0xfe7du, 0, 0, TWICE},
    {"cvt.rn.f16x2.e5m2x2 %d, %x;", 0xfc7cu, 0, 0, 0xfc007c00u},
    {"add.f16 %h, %x, %y;", 0xfe01u, 0x3c00u, 0, NAN16},
    {"sub.f16 %h, %x, %y;", 0x7c00u, 0x7c00u, 0, NAN16},
    {"mul.f16 %h, %x, %y;", 0x7c00u, 0x8000u, 0, NAN16},
    {"fma.rn.f16 %h, %x, %y, %z;", 0x3c00u, 0x3c00u, 0xfe01u, NAN16},
    {"fma.rn.relu.f16 %h, %x, %y, %z;", 0x3c00u, 0x3c00u, 0xfe01u, NAN16},
    {"fma.rn.sat.f16 %h, %x, %y, %z;", 0x3c00u, 0x3c00u, 0xfe01u, 0},
    {"min.f16 %h, %x, %y;", 0xfe01u, 0xfd01u, 0, NAN16},
    {"max.NaN.f16 %h, %x, %y;", 0x3c00u, 0xfd01u, 0, NAN16},
    {"max.f16 %h, %x, %y;", 0x8000u, 0, 0, 0},
    {"min.f16 %h, %x, %y;", 0, 0x8000u, 0, 0x8000u},
    {"ex2.approx.f16 %h, %x;", 0xfe01u, 0, 0, NAN16},
    {"tanh.approx.f16 %h, %x;", 0xfe01u, 0, 0, NAN16},
    {"add.f16x2 %d, %a, %b;", 0xfe017c00u, 0x3c00fc00u, 0, TWICE},
    {"mul.f16x2 %d, %a, %b;", 0x7c003c00u, 0x00003c00u, 0, 0x7fff3c00u},
    {"sub.f16x2 %d, %a, %b;", 0x3c00fd01u, 0, 0, 0x3c007fffu},
    {"fma.rn.f16x2 %d, %a, %b, %c;", 0x3c007c00u, 0x3c000000u, 0xfe010000u, TWICE},
    {"min.f16x2 %d, %a, %b;", 0xfe018000u, 0xfd010000u, 0, 0x7fff8000u},
    {"add.bf16 %h, %x, %y;", 0xffc1u, 0x3f80u, 0, NAN16},
    {"mul.bf16 %h, %x, %y;", 0x7f80u, 0, 0, NAN16},
    {"fma.rn.bf16 %h, %x, %y, %z;", 0x3f80u, 0x3f80u, 0xff81u, NAN16},
    {"max.bf16 %h, %x, %y;", 0xffc1u, 0xff81u, 0, NAN16},
    {"min.NaN.bf16 %h, %x, %y;", 0xffc1u, 0x3f80u, 0, NAN16},
    {"ex2.approx.ftz.bf16 %h, %x;", 0xffc1u, 0, 0, NAN16},
    {"add.bf16x2 %d, %a, %b;", 0xffc17f80u, 0x3f80ff80u, 0, TWICE},
    {"fma.rn.bf16x2 %d, %a, %b, %c;", 0x3f807f80u, 0x3f800000u, 0xff810000u, TWICE},
    /* to integers: of infinity the end of the range, of NaN 0, or the top bit of 64 bits */
    {"cvt.rzi.s32.f32 %d, %a;", INF, 0, 0, 0x7fffffffu},
    {"cvt.rzi.s32.f32 %d, %a;", NINF, 0, 0, 0x80000000u},
    {"cvt.rzi.u32.f32 %d, %a;", INF, 0, 0, 0xffffffffu},
    {"cvt.rni.u32.f32 %d, %a;", NINF, 0, 0, 0},
    {"cvt.rzi.s32.f32 %d, %a;", NN, 0, 0, 0},
    {"cvt.rpi.u32.f32 %d, %a;", SN, 0, 0, 0},
    {"cvt.rzi.s16.f32 %h, %a;", INF, 0, 0, 0x7fffu},
    {"cvt.rzi.u8.f32 %d, %a;", INF, 0, 0, 0xffu},
    {"cvt.rni.s32.f16 %d, %x;", 0xfc00u, 0, 0, 0x80000000u},
    {"{ .reg .b64 t; cvt.rzi.s64.f32 t, %a; cvt.u32.u64 %d, t; }", INF, 0, 0, 0xffffffffu},
    {"{ .reg .b64 t; cvt.rzi.s64.f32 t, %a; shr.u64 t, t, 32; cvt.u32.u64 %d, t; }", NINF, 0, 0, 0x80000000u},
    /* Operations other than arithmetic keep the bits of their operand. */
    {"mov.f32 %d, %a;", NN, 0, 0, NN},
    {"mov.b32 %d, %a;", SN, 0, 0, SN},
    {"{ .reg .pred t; setp.eq.f32 t, %b, %b; selp.f32 %d, %a, %b, t; }", NN, ONE, 0, NN},
    {"copysign.f32 %d, %a, %b;", MZERO, PN, 0, PN | MZERO},
    {"{ .reg .b32 t; shfl.sync.bfly.b32 t, %a, 1, 31, -1; mov.b32 %d, t; }", NN, 0, 0, NN},
    {"cvt.f32.bf16 %d, %x;", 0xffc1u, 0, 0, 0xffc10000u},
    {"{ .reg .f32 t; .reg .b32 u; add.f32 t, %a, %b; mov.b32 u, t; xor.b32 %d, u, -1; }", NN, ONE, 0,
     0x80000000u},
    /* Operations that see the bits of a result: copies, integers, f64, other lanes. */
    {"{ .reg .f32 t; add.f32 t, %a, %b; and.b32 %d, t, 0x00ffffff; }", NN, ONE, 0, 0x00ffffffu},
    {"{ .reg .f32 t, u; add.f32 t, %a, %b; mov.f32 u, t; mov.b32 %d, u; }", NN, ONE, 0, NAN32},
    {"{ .reg .f32 t, u; add.f32 t, %a, %b; abs.f32 u, t; neg.f32 %d, u; }", NN, ONE, 0, NAN32},
    {"{ .reg .f32 t; add.f32 t, %a, %b; copysign.f32 %d, %b, t; }", NN, ONE, 0, NAN32},
    {"{ .reg .f32 t; .reg .f64 u; .reg .b32 v; mul.f32 t, %a, %b; cvt.f64.f32 u, t; mov.b64 {v, %d}, u; }",
     NN, ONE, 0, 0x7fffffffu},
    {"{ .reg .f32 t; add.f32 t, %a, %b; shfl.sync.idx.b32 %d, t, 3, 31, -1; }", NN, ONE, 0, NAN32},
    {"{ .reg .f32 t; .reg .b32 m; add.f32 t, %a, %b; mov.b32 m, t; match.any.sync.b32 m, m, -1; popc.b32 %d, m; }",
     NN, ONE, 0, 32},
    {"{ .reg .f32 t; .reg .b64 u; .reg .b32 v; sub.f32 t, %a, %a; mov.b64 u, {t, t}; mov.b64 {v, %d}, u; }",
     INF, 0, 0, NAN32},
    {"{ .reg .f32 t; .reg .b16 u, v; add.f32 t, %a, %b; mov.b32 {u, v}, t; cvt.u32.u16 %d, v; }", NN, ONE, 0,
     0x7fffu},
    {"{ .reg .f32 t; add.f32 t, %a, %b; prmt.b32 %d, t, 0, 0x0123; }", NN, ONE, 0, 0xffffff7fu},
    {"{ .reg .f32 t; add.f32 t, %a, %b; shl.b32 %d, t, 1; }", INF, NINF, 0, 0xfffffffeu},
};

static uint32_t *in, *out;

/* How the result gets to memory. */
enum way { FRESH, MIXED, GUARDED, LOOP, WAYS };
static const char *const ways[WAYS] = {"", "into what was loaded: ", "under a predicate: ", "in a loop: "};

static void row_text(char *text, size_t size, const struct row *r, enum way way)
{
    size_t n = 0;

#define ADD(...) n += (size_t)snprintf(text + n, size - n, __VA_ARGS__)
    ADD(HEAD
        ".visible .entry t(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<3>;\n.reg .b32 %%a, %%b, %%c, %%d, %%t<5>;\n"
        ".reg .b16 %%h, %%x, %%y, %%z, %%u<5>;\n.reg .b64 %%rd<5>;\nld.param.u64 %%rd1, [in];\n"
        "ld.param.u64 %%rd2, [out];\nmov.u32 %%t1, %%tid.x;\nmul.wide.u32 %%rd3, %%t1, 4;\nadd.u64 %%rd2, %%rd2, %%rd3;\n"
        "ld.global.b32 %%a, [%%rd1];\nld.global.b32 %%b, [%%rd1+4];\nld.global.b32 %%c, [%%rd1+8];\n"
        "mov.b32 {%%x, %%u1}, %%a;\nmov.b32 {%%y, %%u1}, %%b;\nmov.b32 {%%z, %%u1}, %%c;\n"
        "and.b32 %%t2, %%t1, 1;\nsetp.ne.u32 %%p1, %%t2, 0;\n");
    if (way != FRESH)
        ADD("ld.global.b32 %%d, [%%rd2];\nmov.b32 {%%h, %%u2}, %%d;\n");
    if (way == LOOP)
        ADD("mov.u32 %%t3, 3;\nL:\n");
    /* lanes of a block may diverge, except at a lane's access to other lanes */
    ADD(way == GUARDED && r->op[0] != '{' ? "@%%p1 " : "");
    ADD("%s\n", r->op);
    if (way == LOOP)
        ADD("sub.u32 %%t3, %%t3, 1;\nsetp.ne.u32 %%p2, %%t3, 0;\n@%%p2 bra L;\n");
    if (strstr(r->op, " %h,"))
        ADD("cvt.u32.u16 %%d, %%h;\n");
    ADD("st.global.b32 [%%rd2], %%d;\nret;\n}\n");
}

static void run_row(const struct row *r, enum way way)
{
    const struct {
        uint32_t *in, *out;
    } prm = {in, out};
    const bool half = strstr(r->op, " %h,"), some = way == GUARDED && r->op[0] != '{';
    char text[4096], name[300];
    struct sg_fault f = {0};
    struct tk t;
    int result = -1;
    uint32_t wrong = LANES;

    snprintf(name, sizeof(name), "%s%s %08x %08x %08x", ways[way], r->op, r->a, r->b, r->c);
    row_text(text, sizeof(text), r, way);
    in[0] = r->a;
    in[1] = r->b;
    in[2] = r->c;
    for (uint32_t i = 0; i < LANES; i++)
        out[i] = SN;
    if (tk_open(&t, text, "t")) {
        result = tk_run(&t, 1, LANES, &prm, &f);
        tk_close(&t);
    } else {
        sg_module_free(t.m);
    }
    for (uint32_t i = LANES; i-- > 0;)
        if (out[i] != (!some || (i & 1) ? r->want : half ? SN & 0xffff : SN))
            wrong = i;
    t_result(name, !result && wrong == LANES, "result %d %s; lane %u has %08x, expected %08x", result,
             f.message, wrong, out[wrong % LANES], r->want);
}

/* ---- whole kernels ---- */

static void whole(const char *name, const char *body, const uint32_t *words, uint32_t nwords,
                  const uint32_t *want, uint32_t nwant)
{
    const struct {
        uint32_t *in, *out;
    } prm = {in, out};
    char text[4096];
    struct sg_fault f = {0};
    struct tk t;
    int result = -1;
    uint32_t wrong = nwant;

    snprintf(text, sizeof(text),
             HEAD
             ".visible .entry t(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<9>;\n"
             ".reg .f32 %%f<9>;\n.reg .b64 %%rd<5>;\n.reg .b16 %%h<4>;\nld.param.u64 %%rd1, [in];\n"
             "ld.param.u64 %%rd2, [out];\n%s\nret;\n}\n",
             body);
    memcpy(in, words, nwords * sizeof(*words));
    for (uint32_t i = 0; i < nwant; i++)
        out[i] = 0x5a5a5a5au;
    if (tk_open(&t, text, "t")) {
        result = tk_run(&t, 1, LANES, &prm, &f);
        tk_close(&t);
    } else {
        sg_module_free(t.m);
    }
    for (uint32_t i = nwant; i-- > 0;)
        if (out[i] != want[i])
            wrong = i;
    t_result(name, !result && wrong == nwant, "result %d %s; word %u is %08x, expected %08x", result,
             f.message, wrong, out[wrong % nwant], want[wrong % nwant]);
}

#define WHOLE(name, body, words, want) \
    whole(name, body, (const uint32_t[])words, sizeof((const uint32_t[])words) / 4, (const uint32_t[])want, \
          sizeof((const uint32_t[])want) / 4)
#define LIST(...) \
    { \
        __VA_ARGS__ \
    }

static void kernels(void)
{
    WHOLE("a copy as f32 keeps a payload",
          "ld.global.f32 %f1, [%rd1]; ld.global.v2.f32 {%f2, %f3}, [%rd1+8]; st.global.f32 [%rd2], %f1;"
          "st.global.v2.f32 [%rd2+8], {%f2, %f3}; mov.f32 %f4, %f1; st.global.f32 [%rd2+4], %f4;",
          LIST(NN, 0, SN, PN), LIST(NN, NN, SN, PN));
    WHOLE("a vector of results and of loaded bits",
          "ld.global.v2.f32 {%f1, %f2}, [%rd1]; add.f32 %f3, %f1, %f2; mul.f32 %f4, %f2, %f1;"
          "st.global.v4.f32 [%rd2], {%f3, %f1, %f4, %f2};",
          LIST(NN, ONE, 0, 0), LIST(NAN32, NN, NAN32, ONE));
    WHOLE(
        "an accumulator that begins with what was loaded, in no, one and two rounds",
        "mov.u32 %r1, 0; add.u64 %rd3, %rd2, 0; N: ld.global.f32 %f1, [%rd1]; ld.global.f32 %f2, [%rd1+4]; mov.u32 %r2, "
        "%r1; L: setp.eq.u32 %p1, %r2, 0; @%p1 bra E; fma.rn.f32 %f1, %f1, %f2, %f2; sub.u32 %r2, %r2, 1; bra L; E:"
        "st.global.f32 [%rd3], %f1; add.u64 %rd3, %rd3, 4; add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 3; @%p2 bra N;",
        LIST(NN, ONE), LIST(NN, NAN32, NAN32));
    WHOLE(
        "one of two ways",
        "ld.global.f32 %f1, [%rd1]; mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra A;"
        "mov.f32 %f2, %f1; bra B; A: add.f32 %f3, %f1, %f1; mov.f32 %f2, %f3; B: mul.wide.u32 %rd3, %r1, 4;"
        "add.u64 %rd3, %rd3, %rd2; st.global.f32 [%rd3], %f2;",
        LIST(NN), LIST(NAN32, NN, NAN32, NN));
    WHOLE(
        "a store under a predicate",
        "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 5; setp.ne.u32 "
        "%p2, %r1, 5; @%p1 st.global.f32 [%rd2], %f2; @!%p2 st.global.f32 [%rd2+4], %f2; @%p1 st.global.b32 [%rd2+8], "
        "%r1;",
        LIST(NN), LIST(NAN32, NAN32, 5));
    WHOLE("the same result more than once in a store",
          "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; st.global.v4.f32 [%rd2], {%f2, %f2, %f2, %f1};",
          LIST(PN), LIST(NAN32, NAN32, NAN32, PN));
    WHOLE("a launch-invariant result",
          "ld.global.f32 %f1, [%rd1]; mov.f32 %f2, 0fFF800000; mov.f32 %f4, 0f7F800000;"
          "add.f32 %f3, %f2, %f4; st.global.f32 [%rd2], %f3;",
          LIST(0), LIST(NAN32));
    WHOLE("denormals stay",
          "ld.global.v2.f32 {%f1, %f2}, [%rd1]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;",
          LIST(1, 2), LIST(3));
    WHOLE("denormals stay where others are flushed",
          "ld.global.v2.f32 {%f1, %f2}, [%rd1]; add.f32 %f3, %f1, %f2; st.global.f32 [%rd2], %f3;"
          "add.ftz.f32 %f4, %f1, %f2; st.global.f32 [%rd2+4], %f4;",
          LIST(1, 2), LIST(3, 0));
    WHOLE("constants that are NaN",
          "mov.f32 %f1, 0fFFC54321; st.global.f32 [%rd2], %f1; add.f32 %f2, %f1, %f1;"
          "st.global.f32 [%rd2+4], %f2;",
          LIST(0), LIST(NN, NAN32));
    WHOLE("an atomic addition",
          "mov.u32 %r1, %tid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra E; ld.global.f32 %f1, [%rd1];"
          "ld.global.f32 %f3, [%rd1+4]; st.global.f32 [%rd2], %f1; atom.global.add.f32 %f2, [%rd2], %f3;"
          "st.global.f32 [%rd2+4], %f2; red.global.add.f32 [%rd2+8], %f1; add.f32 %f4, %f1, %f1;"
          "atom.global.exch.b32 %r2, [%rd2+12], %f4; E:",
          LIST(NN, ONE), LIST(NAN32, NN, NAN32, NAN32));
    WHOLE(
        "an operand of a function",
        "ld.global.f32 %f1, [%rd1]; add.f32 %f2, %f1, %f1; { .param .b32 a; .param .b32 r; st.param.f32 [a], %f2;"
        "ld.param.f32 %f3, [a]; } st.global.f32 [%rd2], %f3;",
        LIST(NN), LIST(NAN32));
    WHOLE(
        "mma into registers that arithmetic alone sets",
        "ld.global.b32 %r1, [%rd1]; mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;"
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {%f1, %f2, %f3, %f4};"
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {%f1, %f2, %f3, %f4};"
        "st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};",
        LIST(0xfe013c00u), LIST(NAN32, NAN32, NAN32, NAN32));
    WHOLE(
        "mma into what was loaded",
        "ld.global.b32 %r1, [%rd1]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+16];"
        "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1}, {%f1, %f2, %f3, %f4};"
        "st.global.v4.f32 [%rd2], {%f1, %f2, %f3, %f4};",
        LIST(0x3c003c00u, 0, 0, 0, NN, PN, SN, ONE), LIST(NAN32, NAN32, NAN32, 0x41100000u));
    WHOLE("mma of halves",
          "ld.global.b32 %r1, [%rd1]; mov.b32 %r2, 0; mov.b32 %r3, 0;"
          "mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r2, %r3}, {%r1, %r1}, {%r1}, {%r2, %r3};"
          "st.global.v2.b32 [%rd2], {%r2, %r3};",
          LIST(0xfe013c00u), LIST(TWICE, TWICE));
}

/* ---- cost ---- */

/* Numbers of an operation's instructions inside and around a loop. */
static void cost_of(enum sg_op op, const char *name, const char *body, uint32_t inside, uint32_t outside)
{
    const sg_fn fn = sg_op_fn(op), bra = sg_op_fn(SG_OP_bra_if);
    uint32_t in_loop = 0, elsewhere = 0, first = 0, last = 0;
    char text[4096];
    struct tk t;

    snprintf(
        text, sizeof(text),
        HEAD
        ".visible .entry t(.param .u64 in, .param .u64 out)\n{\n.reg .pred %%p<4>;\n.reg .b32 %%r<9>;\n"
        ".reg .f32 %%f<9>;\n.reg .b64 %%rd<5>;\n.reg .b16 %%h<4>;\nld.param.u64 %%rd1, [in];\n"
        "ld.param.u64 %%rd2, [out];\nld.global.f32 %%f8, [%%rd1];\nld.global.u32 %%r8, [%%rd1];\n%s\nret;\n}\n",
        body);
    if (!tk_open(&t, text, "t")) {
        t_result(name, false, "%s", t.diag.message);
        return;
    }
    for (uint32_t i = 0; i < t.k->code.ninsns; i++)
        if (sg_code_handler(&t.k->code, &t.k->code.insns[i]) == bra) {
            last = i;
            first = (uint32_t)((int64_t)i + t.k->code.insns[i].imm);
        }
    for (uint32_t i = 0; i < t.k->code.ninsns; i++)
        if (sg_code_handler(&t.k->code, &t.k->code.insns[i]) == fn)
            *(i >= first && i < last ? &in_loop : &elsewhere) += 1;
    t_result(name, last > first && in_loop == inside && elsewhere == outside, "%u in the loop, %u elsewhere",
             in_loop, elsewhere);
    tk_close(&t);
}

static void cost(const char *name, const char *body, uint32_t inside, uint32_t outside)
{
    cost_of(SG_OP_canon_f32, name, body, inside, outside);
}

#define LOOP "sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra L; st.global.f32 [%rd2], %f1;"

/* The kernel runs in the mode of most of its operations; operations independent of it do not count. */
static void modes(void)
{
    cost_of(SG_OP_fpmode, "most keep denormals",
            "L: fma.rn.f32 %f1, %f8, %f8, %f8; mul.f32 %f2, %f1, %f8; add.f32 %f3, %f2, %f1; "
            "ex2.approx.ftz.f32 %f4, %f3; add.f32 %f1, %f4, %f1; " LOOP,
            1, 0);
    cost_of(SG_OP_fpmode, "most flush denormals",
            "L: fma.rn.ftz.f32 %f1, %f8, %f8, %f8; mul.ftz.f32 %f2, %f1, %f8; add.f32 %f3, %f2, %f1; "
            "ld.global.f32 %f5, [%rd1]; ld.global.f32 %f6, [%rd1]; mov.f32 %f7, %f6; " LOOP,
            1, 0);
}

static void costs(void)
{
    cost(
        "a sum: once, where it is stored",
        "mov.f32 %f1, 0f00000000; L: fma.rn.f32 %f1, %f8, %f8, %f1; max.f32 %f2, %f1, %f8; ex2.approx.f32 %f3, %f2; "
        "neg.f32 %f4, %f3; add.f32 %f1, %f1, %f4; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra L; "
        "st.global.f32 [%rd2], %f1;",
        0, 1);
    cost(
        "a sum over lanes",
        "mov.f32 %f1, 0f00000000; L: shfl.sync.bfly.b32 %f2, %f1, 1, 31, -1; add.f32 %f1, %f1, %f2; "
        "setp.gt.f32 %p2, %f1, %f8; selp.f32 %f1, %f1, %f2, %p2; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; "
        "@%p1 bra L; cvt.rn.f16.f32 %h1, %f1; st.global.b16 [%rd2], %h1;",
        0, 0);
    cost(
        "matrices",
        "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; "
        "L: mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r8, %r8}, {%r8}, {%f1, %f2, %f3, "
        "%f4}; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra L; st.global.v2.f32 [%rd2], {%f1, %f2}; "
        "mul.f32 %f3, %f3, %f4; cvt.rn.bf16.f32 %h1, %f3; st.global.b16 [%rd2], %h1;",
        0, 2);
    cost(
        "an accumulator that is loaded, and whose bits nothing sees",
        "ld.global.f32 %f1, [%rd1+4]; L: fma.rn.f32 %f1, %f8, %f8, %f1; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; "
        "@%p1 bra L; mul.f32 %f2, %f1, %f8; st.global.f32 [%rd2], %f2;",
        0, 1);
    cost(
        "a copy",
        "L: ld.global.f32 %f1, [%rd1]; st.global.f32 [%rd2], %f1; sub.u32 %r8, %r8, 1; setp.ne.u32 %p1, %r8, 0; "
        "@%p1 bra L;",
        0, 0);
    cost("a conversion of integers",
         "L: cvt.rn.f32.s32 %f1, %r8; st.global.f32 [%rd2], %f1; sub.u32 %r8, %r8, 1; "
         "setp.ne.u32 %p1, %r8, 0; @%p1 bra L;",
         0, 0);
    cost("each result is stored",
         "L: add.f32 %f1, %f8, %f8; st.global.f32 [%rd2], %f1; sub.u32 %r8, %r8, 1; "
         "setp.ne.u32 %p1, %r8, 0; @%p1 bra L;",
         1, 0);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    printf("instruction set: %s\n", sg_op_isa());
    in = tm_alloc(4096);
    out = tm_alloc(4096);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (enum way w = FRESH; w < WAYS; w++)
            run_row(&rows[i], w);
    kernels();
    costs();
    modes();
    return t_end("softgpu NaN");
}

/* SPDX-License-Identifier: MIT */
/*
 * Registers of one class where another is expected: refused with a reason, wherever they stand. A
 * .b128 register has no slot; as an operand it once read a slot's number from beside an array.
 */
#include "exec/bytecode.h"
#include "exec/exec_test.h"

#include <string.h>

/* The whole programs that were used against a worker. */
static const char matrix[] = ".version 8.3\n.target sm_80\n.address_size 64\n"
                             ".visible .entry t(.param .u64 out)\n{\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n"
                             ".reg .b128 %q;\n.reg .b128 %z<16>;\nld.param.u64 %rd1, [out];\n"
                             "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%q];\n"
                             "st.global.u32 [%rd1], %r0;\nret;\n}\n";
static const char fragment[] =
    ".version 8.3\n.target sm_80\n.address_size 64\n.visible .entry t(.param .u64 out)\n{\n"
    ".reg .f32 %f<9>;\n.reg .b32 %r<8>;\n.reg .b64 %rd<4>;\n.reg .b128 %q;\nld.param.u64 %rd1, [out];\n"
    "wmma.load.c.sync.aligned.row.m16n16k16.f32 {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, [%q];\n"
    "st.global.f32 [%rd1], %f0;\nret;\n}\n";

/* Every place where an emitter once took a register as it came, and some where it did not. */
static const char *const lines[][2] = {
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%q1];", "128 bits"},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%p1];", "a predicate"},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%q1}, [%r1];", ".b128"},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%rd1}, [%r1];", ".b64"},
    {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%q1], {%r1};", "128 bits"},
    {"stmatrix.sync.aligned.m8n8.x1.shared.b16 [%p1], {%r1};", "a predicate"},
    {"wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4}, [%q1];", "128 bits"},
    {"wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4}, [%p1];", "a predicate"},
    {"wmma.store.d.sync.aligned.row.m16n16k16.f16 [%q1], {%r1,%r2,%r3,%r4};", "128 bits"},
    {"wmma.store.d.sync.aligned.row.m16n16k16.f16 [%p1], {%r1,%r2,%r3,%r4};", "a predicate"},
    {"wmma.store.d.sync.aligned.row.m16n16k16.f16 [%rd1], {%r1,%r2,%r3,%q1};", ".b128"},
    {"call (%q1), ff, (%r1);", "b128"},
    {"call (%r1), ff, (%q1);", "b128"},
    {"call (%rd1), ff, (%r1);", ".b64"},
    {"call (%r1), ff, (%p1);", ".pred"},
    {"call (%r1), ff, (%clock64);", "argument"},
    {"add.u32 %r1, %r1, %clock64;", "special register"},
    {"add.u64 %rd1, %rd1, %clock;", "special register"},
    {"mov.u32 %r1, %clock64;", "special register of 64 bits"},
    {"mov.u64 %rd1, %clock;", "special register of 32 bits"},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r1}, [%clock64];", "unknown"},
    {"wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r1,%r2,%r3,%r4}, [%clock];", "unknown"},
    {"ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%clock}, [%r1];", "destination"},
    {"add.u32 %clock, %r1, 1;", "destination"},
    {"call (%q1), fq, (%q2);", "128 bits"},
    {"call (%r1), fq, (%r2);", ""},
    {"call (%p1), fp, (%p2);", NULL},
    {"call (%q1), fm, (%q2);", ""},
    {"call (%r1), fm, (%r2);", ""},
    {"call (%q1), fm, (7);", ""},
    {"{ .param .b32 a; .param .b32 b; st.param.b32 [a], %q1; call (b), ff, (a); }", ".b128"},
    {"{ .param .b32 a; ld.param.b32 %q1, [a]; }", ".b128"},
    {"{ .param .b32 a; ld.param.b32 %p1, [a]; }", ".pred"},
    {"ld.param.u64 %q1, [p];", ".b128"},
    {"ld.param.u64 %p1, [p];", ".pred"},
    {"shfl.sync.idx.b32 %r1|%r2, %r1, 0, 31, -1;", "predicate"},
    {"shfl.sync.idx.b32 %r1|%q1, %r1, 0, 31, -1;", "predicate"},
    {"match.all.sync.b32 %r1|%q1, %r2, -1;", "predicate"},
    {"match.any.sync.b32 %r1|%p1, %r2, -1;", "predicate"},
    {"elect.sync %r1|%rd1, -1;", "predicate"},
    {"setp.lt.u32 %p1|%q1, %r1, %r2;", "predicate"},
    {"setp.lt.u32 %p1|%r1, %r1, %r2;", "predicate"},
    {"lop3.or.b32 %r1|%q1, %r1, %r2, 0, 1, %p1;", "predicate"},
    {"@%q1 add.u32 %r1, %r1, 1;", ""},
    {"@%r1 bra L;", ""},
    {"mov.b32 %r1, %q1;", ".b128"},
    {"mov.b64 %rd1, {%q1, %r1};", "32 bits"},
    {"mov.b128 %q1, {%q1, %q2};", ".b128"},
    {"mov.b128 %q1, {%r1, %rd2};", "64 bits"},
    {"add.u32 %q1, %q1, %q1;", ".b128"},
    {"cvt.u64.u32 %rd1, %q1;", ".b128"},
    {"atom.global.add.u32 %r1, [%q1], 1;", "address"},
    {"atom.global.exch.b128 %q1, [%rd1], %rd2;", ".b128 is expected"},
    {"cp.async.ca.shared.global [%q1], [%rd1], 4;", "address"},
    {"cp.async.ca.shared.global [%r1], [%rd1], 4, %q1;", ".b128"},
    {"cp.async.ca.shared.global [%r1], [%rd1], 4, %rd1;", NULL}, /* a cache policy */
    {"mbarrier.init.shared.b64 [%q1], 1;", "address"},
    {"mbarrier.arrive.shared.b64 %q1, [%r1];", ".b128"},
    {"tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}, [%q1, {%r1}];", "64 bits"},
    {"tex.1d.v4.f32.s32 {%f1,%f2,%f3,%f4}|%q1, [%rd1, {%r1}];", "predicate"},
    {"tex.1d.v4.f32.s32 {%f1,%f2,%f3,%q1}, [%rd1, {%r1}];", ".b128"},
    {"sust.b.1d.b32.zero [%rd1, {%r1}], %q1;", ""},
    {"mapa.shared::cluster.u32 %r1, %q1, %r2;", ".b128"},
    {"getctarank.u64 %r1, %q1;", ".b128"},
    {"call %q1, (%r1);", "64 bits"},
    {"call %p1, (%r1);", "64 bits"},
    {"alloca.u64 %q1, %rd1;", ".b128"},
    {"stacksave.u64 %q1;", ".b128"},
    {"stackrestore.u64 %q1;", ".b128"},
    {"bar.red.popc.u32 %r1, 0, %r2;", ".b32"},
    {"bar.sync %q1;", ".b128"},
    {"nanosleep.u32 %q1;", ".b128"},
    {"brx.idx %q1, ts;", ".b128"},
    {"isspacep.global %q1, %rd1;", ".b128"},
    /* All digits at the end of a name are its number in a range, as ptxas reads them. */
    {".reg .b32 %w2<4>;\nmov.b32 %w21, 0;", "unknown register '%w21'"},
    {".reg .b32 %w<30>, %w2<4>;\nmov.b32 %w21, %w29;", NULL},
    {".reg .b64 %w<30>;\n.reg .b32 %w2<4>;\nmov.b32 %w21, 0;", "32"},
    {".reg .b32 %w<30>;\n{\n.reg .b64 %w21;\nmov.b64 %w21, 0;\n}", NULL},
    {".reg .b32 %w<30>;\n.reg .b64 %w21;", "defined twice"},
    {".reg .b32 %w<20>;\n.reg .b64 %w21;\nmov.b64 %w21, 0;", NULL},
};

static bool open_line(struct tk *t, const char *line)
{
    char text[4096];

    snprintf(text, sizeof(text),
             ".version 9.0\n.target sm_90\n.address_size 64\n"
             ".func (.reg .b32 z) ff(.reg .b32 x)\n{\nmov.b32 z, x;\nret;\n}\n"
             ".func (.reg .b128 z) fq(.reg .b128 x)\n{\nmov.b128 z, x;\nret;\n}\n"
             ".func (.reg .pred z) fp(.reg .pred x)\n{\nmov.pred z, x;\nret;\n}\n"
             ".func (.param .b128 z) fm(.param .b128 x)\n{\nret;\n}\n"
             ".visible .entry t(.param .u64 p)\n{\n.reg .b16 %%h<4>;\n.reg .b32 %%r<5>;\n.reg .f32 %%f<5>;\n"
             ".reg .b64 %%rd<3>;\n.reg .b128 %%q<3>;\n.reg .pred %%p<3>;\nts: .branchtargets L;\n%s\n"
             "L:\nret;\n}\n",
             line);
    return tk_open(t, text, "t");
}

static void whole(const char *name, const char *text)
{
    struct tk t;
    const bool open = tk_open(&t, text, "t");

    t_result(name, !open && strstr(t.diag.message, "128 bits"), "%s", open ? "accepted" : t.diag.message);
    if (open)
        tk_close(&t);
}

static void each_line(void)
{
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        const char *want = lines[i][1];
        struct tk t;
        const bool open = open_line(&t, lines[i][0]);

        t_result(lines[i][0], want ? !open && t.diag.message[0] && strstr(t.diag.message, want) : open, "%s",
                 open ? "accepted" : t.diag.message);
        if (open)
            tk_close(&t);
    }
}

static unsigned rows, wrong;

/* A handler has the same operand classes under all its names; a rule resolves optional and varying
   operands. */
static void look_at_row(const struct sg_opdef *def)
{
    const struct sg_opdef *same = sg_op_def_of(def->fn);
    bool ok = same && same->rule == def->rule && !memcmp(same->field, def->field, sizeof(def->field));

    rows++;
    for (unsigned k = 0; k < SG_FIELDS; k++) {
        const uint8_t w = def->field[k];

        ok &= (w & SG_W_KIND) <= SG_W_VARIES &&
              !(w & ~(SG_W_KIND | SG_W_OUT | SG_W_OPTIONAL | SG_W_F32 | SG_W_CLEAN));
    }
    if (!ok) {
        printf("    %s\n", def->name);
        wrong++;
    }
}

/* Each operation has a row, whose name is that of its number. */
static void numbers(void)
{
    static const char *const ids[] = {
        "",
#define SG_ID(id, name, native) #id,
#include "exec/table/ids.h"
    };
    uint32_t bad = 0;

    for (uint32_t op = SG_OP_NONE + 1; op < SG_OP_COUNT; op++) {
        const struct sg_opdef *row = sg_op_row(op);
        const char *name = row ? row->name : "no row", *id = ids[op];

        while (*name && (*name == '.' ? '_' : *name) == *id)
            name++, id++;
        if (*name || *id || row->op != op || !row->fn) {
            printf("    %s: %s\n", ids[op], row ? row->name : "no row");
            bad++;
        }
    }
    t_result("names and numbers of operations",
             !bad && rows == SG_OP_COUNT - 1 && !sg_op_row(SG_OP_NONE) && !sg_op_row(SG_OP_COUNT), "%u bad",
             bad);
}

/* Hoisting runs an operation ahead of blocks if its row has no effects. */
static void hoisted(void)
{
    static const enum sg_op pure[] = {SG_OP_add_b32, SG_OP_dp4a_u32_u32, SG_OP_tanh_f32, SG_OP_ld_p_s8,
                                      SG_OP_testp_finite_f64},
                            others[] = {SG_OP_add_cc_b32, SG_OP_addc_b32,   SG_OP_madc_hi_sat_s32,
                                        SG_OP_ld_g_b32,   SG_OP_st_s_b32,   SG_OP_atom_add_b32,
                                        SG_OP_shfl_up,    SG_OP_activemask, SG_OP_sreg_clock,
                                        SG_OP_wsync,      SG_OP_fpmode,     SG_OP_bra,
                                        SG_OP_trap};
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry t(.param .u64 out, .param .u32 n)\n{\n"
        ".reg .b32 %r<8>;\n.reg .b64 %rd<2>;\nld.param.u64 %rd1, [out];\nld.param.u32 %r1, [n];\n"
        "dp4a.u32.u32 %r2, %r1, %r1, %r1;\nadd.cc.u32 %r3, %r1, %r1;\naddc.u32 %r4, %r1, %r1;\n"
        "add.u32 %r5, %r2, %r3;\nadd.u32 %r5, %r5, %r4;\nst.global.u32 [%rd1], %r5;\nret;\n}\n";
    uint32_t bad = 0, dot = 0, carry = 0;
    const struct sg_code *c;
    struct tk t;

    for (size_t i = 0; i < sizeof(pure) / sizeof(pure[0]); i++)
        bad += !sg_op_is_pure(sg_op_row(pure[i]));
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        bad += sg_op_is_pure(sg_op_row(others[i]));
    t_result("operations without effects", !bad, "%u wrong", bad);
    if (!tk_open(&t, text, "t"))
        return;
    c = &t.k->code;
    for (uint32_t i = 0; i < c->ahead[SG_AHEAD_LAUNCH].n; i++) {
        const enum sg_op op = sg_op_of(c->ahead[SG_AHEAD_LAUNCH].insns[i].fn);

        dot += op == SG_OP_dp4a_u32_u32;
        carry += op == SG_OP_add_cc_b32 || op == SG_OP_addc_b32;
    }
    t_result("they alone run ahead of blocks", dot == 1 && !carry, "%u dot products, %u carries", dot, carry);
    tk_close(&t);
}

int main(void)
{
    whole("ldmatrix through 128 bits", matrix);
    whole("wmma.load through 128 bits", fragment);
    each_line();
    sg_op_each(look_at_row);
    t_result("the table of operations", rows > 800 && !wrong, "%u rows, %u wrong", rows, wrong);
    numbers();
    hoisted();
    return t_end("softgpu classes");
}

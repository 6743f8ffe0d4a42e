/* SPDX-License-Identifier: MIT */
/*
 * The verifier against damaged code. First each kind of refusal, by its reason. Then instructions of whole
 * kernels get other operations, operands and numbers by chance: what the verifier accepts runs, as handlers
 * and as native code, into nothing worse than a fault. Only with AddressSanitizer (make san) does the second
 * part see all that it could.
 *
 * verify_test [rounds]. Started as verify_native_test it compiles, else it does not.
 */
#include "exec/bytecode.h"
#include "exec/exec_test.h"
#include "jit/jit.h"
#include "memory/texture.h"

#include <stdlib.h>
#include <string.h>

#define HEAD ".version 9.0\n.target sm_90\n.address_size 64\n"
#define REGS \
    ".reg .pred %p<4>;\n.reg .b16 %h<4>;\n.reg .b32 %r<24>;\n.reg .b64 %rd<10>;\n.reg .f32 %f<12>;\n" \
    ".reg .f64 %d<20>;\n.reg .b128 %q<4>;\n"

/* Loads, stores, branches, modes, a list of targets, a function that is expanded. */
static const char plain[] = HEAD
    ".func (.reg .b32 z) ff(.reg .b32 x)\n{\nadd.u32 z, x, 1;\nret;\n}\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".shared .align 16 .b8 s[512];\n.local .align 16 .b8 l[64];\nld.param.u64 %rd1, [p];\n"
    "mov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\nmov.u64 %rd3, l;\nshl.b32 %r20, %r1, 2;\n"
    "add.u32 %r21, %r2, %r20;\nmul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd2, %rd1, %rd2;\n"
    "ld.global.u32 %r3, [%rd2];\nld.global.u32 %r4, [%rd2+256];\nld.global.v4.u32 {%r5,%r6,%r7,%r8}, [%rd1];\n"
    "ld.global.u64 %rd4, [%rd1+8];\nld.global.u16 %h1, [%rd2];\nld.global.u16 %h2, [%rd2+2];\n"
    "ld.global.s8 %r9, [%rd1];\nst.global.u32 [%rd2], %r3;\nst.shared.u32 [%r21], %r4;\nbar.sync 0;\n"
    "ld.shared.u32 %r10, [%r21];\nld.shared.v2.u32 {%r11,%r12}, [%r2];\nst.local.u64 [%rd3], %rd2;\n"
    "ld.local.u64 %rd5, [%rd3];\nld.u32 %r13, [%rd2];\nsetp.lt.u32 %p1|%p2, %r1, 7;\n"
    "@%p1 add.u32 %r13, %r13, %r3;\n@%p1 st.global.u32 [%rd2+4], %r13;\nmov.u32 %r14, 0;\n"
    "L1: add.u32 %r14, %r14, 1;\nadd.rz.f32 %f1, %f1, %f2;\nfma.rn.ftz.f32 %f3, %f1, %f2, %f3;\n"
    "setp.lt.u32 %p3, %r14, 3;\n@%p3 bra L1;\n@%p1 bra L2;\ncall (%r15), ff, (%r14);\n"
    "xor.b32 %r15, %r15, %r3;\nL2: and.b32 %r16, %r1, 1;\nts: .branchtargets L3, L4;\n"
    "brx.idx %r16, ts;\nL3: atom.global.add.u32 %r17, [%rd1], 1;\nL4: add.u32 %r17, %r17, %r16;\n"
    "vote.sync.ballot.b32 %r18, %p1, -1;\nshfl.sync.bfly.b32 %r19|%p2, %r1, 1, 0x1f, -1;\n"
    "cp.async.ca.shared.global [%r2], [%rd1], 16;\ncp.async.wait_all;\nmov.u32 %r20, %clock;\n"
    "cvt.rn.f16.f32 %h3, %f3;\nmov.b32 %r22, {%h1, %h3};\nmov.b64 {%r22, %r23}, %rd5;\n"
    "st.global.v2.u32 [%rd1+128], {%r19, %r22};\nbar.red.popc.u32 %r9, 1, %p1;\n"
    "st.global.u32 [%rd1+64], %r9;\n@%p2 exit;\nst.global.u32 [%rd1+96], %r17;\nret;\n}\n";

/* Operands in more than one instruction. */
static const char wide[] = HEAD
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    ".shared .align 16 .b8 s[1024];\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmov.u32 %r2, s;\n"
    "mov.u32 %r20, 16;\nldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r3,%r4,%r5,%r6}, [%r2];\n"
    "stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r2], {%r3,%r4};\n"
    "wmma.load.c.sync.aligned.row.m16n16k16.f16 {%r3,%r4,%r5,%r6}, [%rd1], %r20;\n"
    "wmma.load.a.sync.aligned.row.m16n16k16.f16 {%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, [%rd1], %r20;\n"
    "wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16 {%r3,%r4,%r5,%r6}, "
    "{%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, {%r7,%r8,%r9,%r10,%r11,%r12,%r13,%r14}, {%r3,%r4,%r5,%r6};\n"
    "wmma.store.d.sync.aligned.row.m16n16k16.f16 [%rd1], {%r3,%r4,%r5,%r6}, %r20;\n"
    "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r3,%r4}, {%r5}, {%f1,%f2,%f3,%f4};\n"
    "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r7,%r8}, {%r3,%r4,%r5,%r6}, {%r5,%r6}, {%r7,%r8};\n"
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r7,%r8,%r9,%r10}, {%r3,%r4,%r5,%r6}, {%r5,%r6}, {%r7,%r8,%r9,%r10};\n"
    "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1,%d2}, {%d3}, {%d1}, {%d1,%d2};\n"
    "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%d1,%d2,%d3,%d4}, {%d5,%d6,%d7,%d8}, {%d9,%d10}, {%d1,%d2,%d3,%d4};\n"
    "mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {%r7,%r8,%r9,%r10}, {%r3,%r4}, {%r5}, {%r7,%r8,%r9,%r10};\n"
    "wmma.load.c.sync.aligned.row.m8n8k4.f64 {%d1,%d2}, [%rd1], %r20;\n"
    "mov.b128 %q1, {%rd1, %rd2};\natom.global.exch.b128 %q2, [%rd1], %q1;\natom.global.cas.b128 %q2, [%rd1], %q1, %q2;\n"
    "mbarrier.init.shared.b64 [%r2+512], 1;\nmbarrier.arrive.shared.b64 %rd4, [%r2+512];\n"
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], %r20, [%r2+512];\n"
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], %r20;\n"
    "mapa.shared::cluster.u32 %r11, %r2, 0;\nmov.b64 %rd5, 0;\n"
    "tex.2d.v4.f32.f32 {%f5,%f6,%f7,%f8}, [%rd5, {%f1,%f2}];\nsuld.b.2d.v2.b32.clamp {%r7,%r8}, [%rd5, {%r20,%r1}];\n"
    "sust.b.2d.v4.b32.zero [%rd5, {%r20,%r1}], {%r3,%r4,%r5,%r6};\nmov.u32 %r21, %envreg1;\n"
    "alloca.u64 %rd6, %rd5, 16;\nstacksave.u64 %rd7;\nstackrestore.u64 %rd7;\n"
    "st.global.u32 [%rd1], %r3;\nst.global.u32 [%rd1+4], %r7;\nst.global.f64 [%rd1+8], %d1;\nret;\n}\n";

/* Calls that are not expanded. */
static const char calls[] = HEAD
    ".func (.param .b32 z) fac(.param .b32 x)\n{\n.reg .b32 %r<6>;\n.reg .pred %p;\n.reg .b64 %rd<3>;\n"
    ".local .align 8 .b8 l[16];\nld.param.b32 %r1, [x];\nmov.u32 %r4, 1;\nsetp.lt.u32 %p, %r1, 2;\n"
    "@%p bra E;\nsub.u32 %r2, %r1, 1;\nmov.u64 %rd1, l;\nst.local.u32 [%rd1], %r1;\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r2; call (b), fac, (a); ld.param.b32 %r3, [b]; }\n"
    "ld.local.u32 %r5, [%rd1];\nmul.lo.u32 %r4, %r3, %r5;\nE: st.param.b32 [z], %r4;\nret;\n}\n"
    ".visible .entry t(.param .u64 p, .param .u32 n)\n{\n" REGS
    "ld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nand.b32 %r1, %r1, 7;\n"
    "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call (b), fac, (a); ld.param.b32 %r3, [b]; }\n"
    "setp.lt.u32 %p1, %r1, 3;\n@%p1 bra L;\nst.global.u32 [%rd1], %r3;\nL: st.global.u32 [%rd1+4], %r1;\nret;\n}\n";

static const struct {
    const char *name, *text;
} kernels[] = {{"plain", plain}, {"wide", wide}, {"calls", calls}};
#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

#define MAX_OPS 2048
static const struct sg_opdef *ops[MAX_OPS];
static unsigned nops;

static void add_op(const struct sg_opdef *def)
{
    if (nops < MAX_OPS)
        ops[nops++] = def;
}

/* A kernel whose code can be changed: without native code, which is made anew of what is accepted. */
struct victim {
    struct tk t;
    struct sg_code code; /* as it was, with copies of the arrays: */
    struct sg_insn *insns, *ahead[SG_AHEAD_COUNT];
    uint8_t *fields;
    uint32_t *targets, *calls;
};

static void *copy_of(const void *p, size_t n)
{
    void *c = malloc(n + 1);

    if (!c)
        abort();
    if (n)
        memcpy(c, p, n);
    return c;
}

static void back(void *to, const void *from, size_t n)
{
    if (to && n)
        memcpy(to, from, n);
}

/* Everything as it was, with the handlers and what native code is made from. */
static void restore(struct victim *v)
{
    struct sg_code *c = &v->t.k->code;

    sg_jit_free(c);
    *c = v->code;
    c->fields = copy_of(v->fields, 2 * (size_t)c->ninsns);
    back(c->insns, v->insns, c->ninsns * sizeof(*c->insns));
    back(c->targets, v->targets, c->ntargets * sizeof(*c->targets));
    back(c->calls, v->calls, c->ncall_words * sizeof(*c->calls));
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        back(c->ahead[k].insns, v->ahead[k], c->ahead[k].n * sizeof(*c->insns));
}

static bool victim_open(struct victim *v, const char *text)
{
    struct sg_code *c;

    memset(v, 0, sizeof(*v));
    if (!tk_open(&v->t, text, "t"))
        return false;
    c = &v->t.k->code;
    for (uint32_t i = 0; i < c->ninsns; i++)
        c->insns[i].fn = sg_code_handler(c, &c->insns[i]);
    v->fields = copy_of(c->fields, 2 * (size_t)c->ninsns);
    v->insns = copy_of(c->insns, c->ninsns * sizeof(*c->insns));
    v->targets = copy_of(c->targets, c->ntargets * sizeof(*c->targets));
    v->calls = copy_of(c->calls, c->ncall_words * sizeof(*c->calls));
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        v->ahead[k] = copy_of(c->ahead[k].insns, c->ahead[k].n * sizeof(*c->insns));
    sg_jit_free(c);
    v->code = *c;
    restore(v);
    return true;
}

static void victim_close(struct victim *v)
{
    restore(v);
    free(v->insns);
    free(v->fields);
    free(v->targets);
    free(v->calls);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        free(v->ahead[k]);
    tk_close(&v->t);
}

/* What the front end asks, in between (linked with --wrap). */
int __real_sg_code_verify(const struct sg_code *c, uint32_t param_bytes, char *why, size_t size);
int __wrap_sg_code_verify(const struct sg_code *c, uint32_t param_bytes, char *why, size_t size);
static bool refuse_all;

int __wrap_sg_code_verify(const struct sg_code *c, uint32_t param_bytes, char *why, size_t size)
{
    if (!refuse_all)
        return __real_sg_code_verify(c, param_bytes, why, size);
    snprintf(why, size, "this is a test");
    return SG_ERR_PTX;
}

/* A kernel that does not verify is refused, with the reason, and has no code. */
static void every_kernel_is_asked(void)
{
    struct victim v;
    bool open;

    refuse_all = true;
    memset(&v, 0, sizeof(v));
    open = tk_open(&v.t, plain, "t");
    t_result("every kernel is verified",
             !open && v.t.k && !v.t.k->code.insns &&
                 strstr(v.t.diag.message, "does not verify and is refused: this is a test"),
             "%s", open ? "accepted" : v.t.diag.message);
    refuse_all = false;
    tk_close(&v.t);
    tm_free_all();
}

static int verify(const struct victim *v, char why[160])
{
    why[0] = 0;
    return sg_code_verify(&v->t.k->code, v->t.k->param_bytes, why, 160);
}

/* ---- each kind of refusal ---- */

#define DAMAGE(id, body) \
    static void damage_##id(struct sg_code *c, struct sg_insn *in) \
    { \
        (void)c; \
        (void)in; \
        body; \
    }
/* A place that is aligned as registers are, behind the last one; the registers of 32 bits. */
#define BEHIND (c->regfile_bytes + 256)
DAMAGE(no_operation, in->fn = NULL)
DAMAGE(d, in->d = BEHIND)
DAMAGE(d_const, in->d = SG_OPND_CONST)
DAMAGE(d_narrow, in->d = c->slots32)
DAMAGE(a, in->a = BEHIND)
DAMAGE(a_odd, in->a = in->a + 4)
DAMAGE(a_pool, in->a = SG_OPND_CONST | c->pool_bytes)
DAMAGE(a_pred, in->a = c->slots_end)
DAMAGE(b, in->b = BEHIND)
DAMAGE(c, in->c = BEHIND)
DAMAGE(e, in->e = BEHIND)
DAMAGE(defines, c->fields[2 * (in - c->insns)] = 0)
DAMAGE(next_d, in[1].d = BEHIND)
DAMAGE(ext, in[1].fn = sg_op_find("join"))
DAMAGE(vector, in->aux = (in->aux & ~(15u << 6)) | 3u << 6; in->fn = sg_op_find("ld.slow"))
DAMAGE(width, in->aux = (in->aux & ~(15u << 6)) | 1u << 6)
DAMAGE(elements, in->aux ^= 0x08)
DAMAGE(address, in->aux |= SG_AUX_ADDR32)
DAMAGE(space, in->aux |= 7)
DAMAGE(parameter, in->imm = 12)
DAMAGE(parameter_low, in->imm = -1)
DAMAGE(form, in->aux = 25)
DAMAGE(form_int, in->aux = 0)
DAMAGE(depth, in->aux = 6)
DAMAGE(shape, in->aux = (in->aux & ~15u) | 4)
DAMAGE(type, in->imm = (in->imm & ~(int64_t)255) | 'i')
DAMAGE(reduce, in->aux = (uint32_t)SG_TY_B128 << 8)
DAMAGE(target_high, in->imm = c->ninsns)
DAMAGE(target_low, in->imm = -(int64_t)(in - c->insns) - 1)
DAMAGE(target_wraps, in->imm = INT64_MIN)
DAMAGE(span_long, in->aux = c->ninsns)
DAMAGE(span_branch, in[1].fn = sg_op_find("bra.if"))
DAMAGE(span_target, c->targets[1] = (uint32_t)(in - c->insns) + 1)
DAMAGE(list_long, c->targets[0] = c->ntargets)
DAMAGE(list_target, c->targets[1] = c->ninsns)
DAMAGE(list_none, in->imm = 1)
DAMAGE(list_behind, in->imm = c->ntargets)
DAMAGE(end, c->insns[c->ninsns - 1].fn = sg_op_find("join"))
DAMAGE(return, in->fn = sg_op_find("return"))
DAMAGE(mode, in->imm = 0)
DAMAGE(mode_flags, in->imm |= 0x3f)
DAMAGE(cp, in->aux = 32)
DAMAGE(launches, in->fn = sg_op_find("cdp.error"))
DAMAGE(surface, in->aux = (in->aux & ~(7u << 10)) | 5u << 10)
DAMAGE(number, in->imm = 13)
DAMAGE(number_low, in->imm = -1)
DAMAGE(frame_align, in->aux = 24)
DAMAGE(frame_size, in->imm = SG_MAX_LOCAL + 1)
DAMAGE(frame_none, c->sreg_used[SG_SR_TOP / 32] &= ~(1u << SG_SR_TOP % 32))
DAMAGE(entry, in->aux = c->ncall_words)
DAMAGE(entry_long, c->calls[in->aux + SG_CALL_NREGS] = c->ncall_words)
DAMAGE(saved, c->calls[in->aux + SG_CALL_REGS] = SG_CALL_64 << 30 | c->slots32)
DAMAGE(words, c->calls[in->aux + SG_CALL_WORDS]++)
DAMAGE(frame, c->calls[in->aux + SG_CALL_CALLEE] = SG_MAX_LOCAL + 1)
DAMAGE(no_frame, c->sreg_used[SG_SR_FRAME / 32] &= ~(1u << SG_SR_FRAME % 32))
DAMAGE(no_room, in->fn = sg_op_find("join"))
DAMAGE(other_function, in->imm = (int64_t)c->ninsns - 1 - (in - c->insns))
DAMAGE(fall_in, in->imm++)
DAMAGE(sizes, c->slots32 = c->slots_end + 128)
DAMAGE(sizes_file, c->regfile_bytes = c->slots_end - 128)
DAMAGE(local, c->local_bytes = SG_WIN_LOCAL_SIZE + 1)
DAMAGE(mxcsr, c->mxcsr = 0)
DAMAGE(special, c->sreg_offset[SG_SR_TID_X] = c->slots_begin)
DAMAGE(ahead, c->ahead[0].insns[0].fn = sg_op_find("ld.g.b32"))
DAMAGE(ahead_effect, c->ahead[0].insns[0].fn = sg_op_find("trap"))
DAMAGE(ahead_place, c->ahead[0].insns[0].d = BEHIND)
DAMAGE(empty, c->ninsns = 0)
DAMAGE(flat, in->fn = sg_op_find("flat"); in->aux = 2)

static const struct {
    unsigned kernel; /* of kernels[] */
    const char *op;  /* the first one that is called so */
    void (*damage)(struct sg_code *c, struct sg_insn *in);
    const char *want;
} refusals[] = {
#define R(k, op, id, want) {k, op, damage_##id, want},
    /* clang-format off */
    R(0, "add.b32", no_operation, "no operation")
    R(0, "add.b32", d, "operand d is outside")
    R(0, "add.b32", d_const, "operand d is outside")
    R(0, "mul.wide.u32", d_narrow, "operand d is outside")
    R(0, "add.b32", a, "operand a is outside")
    R(0, "add.b32", a_odd, "operand a is outside")
    R(0, "add.b32", a_pool, "operand a is outside")
    R(0, "add.b32", a_pred, "operand a is outside")
    R(0, "bra.if", a, "operand a is outside")
    R(0, "add.b32", b, "operand b is outside")
    R(0, "ld.g.v4.b32", c, "operand c is outside")
    R(0, "ld.g.v4.b32", e, "operand e is outside")
    R(0, "add.b32", defines, "not said to define")
    R(0, "ld.g.v4.b32", defines, "not said to define")
    R(1, "mma.float", next_d, "operand d is outside")
    R(1, "mma.float", ext, "the operands behind are missing")
    R(1, "atom.exch.b128", ext, "the operands behind are missing")
    R(1, "wmma.load", ext, "the operands behind are missing")
    R(0, "ld.g.v4.b32", vector, "so many elements")
    R(0, "ld.g.v4.b32", width, "its elements are others")
    R(0, "ld.g.b32", elements, "its elements are others")
    R(0, "ld.g.b32", address, "its address is another")
    R(0, "ld.g.b32", space, "its address is another")
    R(0, "ld.p.b64", parameter, "outside the parameters")
    R(0, "ld.p.b64", parameter_low, "outside the parameters")
    R(1, "mma.float", form, "no form of the operation")
    R(1, "mma.int", form_int, "no form of the operation")
    R(1, "mma.f64.m16", depth, "no form of the operation")
    R(1, "wmma.load", shape, "no matrix that there is")
    R(1, "wmma.mma", type, "no matrix that there is")
    R(1, "bulk.reduce", reduce, "no type that can be added")
    R(0, "bra.if", target_high, "its target is outside")
    R(0, "bra.if", target_low, "its target is outside")
    R(0, "bra.if", target_wraps, "its target is outside")
    R(0, "pred.if", span_long, "a span that goes too far")
    R(0, "add.b32", flat, "a span that goes too far")
    R(0, "pred.if", span_branch, "inside of a span")
    R(0, "pred.if", span_target, "a target inside of a span")
    R(0, "brx", list_long, "a list of targets goes too far")
    R(0, "brx", list_target, "a target of a list is outside")
    R(0, "brx", list_none, "no such list")
    R(0, "brx", list_behind, "no such list")
    R(0, "exit", end, "goes on behind its end")
    R(0, "exit", return, "a return from the kernel")
    R(0, "fpmode", mode, "no mode of floating point")
    R(0, "fpmode", mode_flags, "no mode of floating point")
    R(0, "cp.async", cp, "a size that there is not")
    R(0, "add.b32", launches, "")
    R(1, "tex.arg", number, "its number is too high")
    R(1, "tex.arg", number_low, "its number is too high")
    R(1, "surf.load", surface, "so many elements")
    R(1, "alloca", frame_align, "no size or alignment")
    R(1, "alloca", frame_size, "no size or alignment")
    R(1, "alloca", frame_none, "alloca without a frame")
    R(2, "call.room", entry, "no such entry")
    R(2, "call", entry_long, "no such entry")
    R(2, "call", saved, "a saved register is outside")
    R(2, "call", words, "has wrong sizes")
    R(2, "call", frame, "has wrong sizes")
    R(2, "call", no_frame, "a call without a frame")
    R(2, "call.room", no_room, "no room was asked for")
    R(2, "bra.if", other_function, "to another function")
    R(2, "call", fall_in, "also reached from in front")
    R(0, "exit", empty, "do not go together")
    R(0, "exit", sizes, "do not go together")
    R(0, "exit", sizes_file, "do not go together")
    R(0, "exit", local, "do not go together")
    R(0, "exit", mxcsr, "do not go together")
    R(0, "exit", special, "a special register is outside")
    R(0, "exit", ahead, "computed ahead")
    R(0, "exit", ahead_effect, "computed ahead")
    R(0, "exit", ahead_place, "operand d is outside")
    /* clang-format on */
};

static struct sg_insn *first_of(const struct sg_code *c, const char *op)
{
    for (uint32_t i = 0; i < c->ninsns; i++)
        if (!strcmp(sg_op_name(c->insns[i].fn), op))
            return &c->insns[i];
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        for (uint32_t i = 0; i < c->ahead[k].n; i++)
            if (!strcmp(sg_op_name(c->ahead[k].insns[i].fn), op))
                return &c->ahead[k].insns[i];
    return NULL;
}

static void each_refusal(void)
{
    for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
        struct sg_insn *in;
        struct victim v;
        char why[160], name[96];
        int r;

        if (!victim_open(&v, kernels[refusals[i].kernel].text)) {
            t_result(kernels[refusals[i].kernel].name, false, "refused");
            return;
        }
        snprintf(name, sizeof(name), "%s, %zu: %s", refusals[i].op, i, refusals[i].want);
        in = first_of(&v.t.k->code, refusals[i].op);
        r = verify(&v, why);
        if (in && !r) {
            refusals[i].damage(&v.t.k->code, in);
            r = verify(&v, why);
            t_result(name, r && strstr(why, refusals[i].want), "%s", r ? why : "accepted");
        } else {
            t_result(name, false, "%s", r ? why : "there is no such instruction");
        }
        victim_close(&v);
        tm_free_all();
    }
}

/* ---- by chance ---- */

static float texels[8 * 8 * 4];

/* Any handle is a picture of 8 x 8. */
static const struct sg_texture *some_texture(void *unused, uint64_t handle, bool surface)
{
    static struct sg_texture t = {
        .kind = SG_TEXEL_FLOAT, .bytes = 4, .channels = 4, .elem = 16, .dims = 2, .nlevels = 1};

    (void)unused;
    (void)handle;
    t.level[0] = (struct sg_tex_level){(uintptr_t)texels, 8, 8, 1, 8 * t.elem, 64 * t.elem};
    t.surface = surface;
    return &t;
}

static uint64_t rng = 0x9e3779b97f4a7c15ull;
static uint32_t rnd(uint32_t n)
{
    rng ^= rng << 13;
    rng ^= rng >> 7;
    rng ^= rng << 17;
    return (uint32_t)(rng >> 32) % n;
}

/* Another operand: one of another instruction, a neighbour, the edge of a part, anything. */
static uint32_t other_operand(const struct sg_code *c, uint32_t op)
{
    const struct sg_insn *x = &c->insns[rnd(c->ninsns)];
    const uint32_t parts[] = {0, c->slots_begin, c->slots32, c->slots_end, c->regfile_bytes};
    const uint32_t pool[] = {SG_OPND_CONST, SG_OPND_CONST | c->pool_bytes, UINT32_MAX};
    const uint32_t steps[] = {4, 64, 128, 256, 1};

    switch (rnd(6)) {
    case 0:
        return x->d;
    case 1:
        return x->a;
    case 2:
        return x->b;
    case 3:
        return op + (rnd(2) ? 1 : UINT32_MAX) * steps[rnd(5)];
    case 4:
        return (rnd(2) ? parts[rnd(5)] : pool[rnd(3)]) + (rnd(3) - 1) * 128;
    default:
        return op ^ 1u << rnd(32);
    }
}

static int64_t other_number(const struct sg_code *c, int64_t n)
{
    switch (rnd(5)) {
    case 0:
        return n + (int64_t)rnd(9) - 4;
    case 1:
        return (int64_t)rnd(2 * c->ninsns) - c->ninsns;
    case 2:
        return c->insns[rnd(c->ninsns)].imm;
    case 3:
        return (int64_t)((uint64_t)n ^ 1ull << rnd(64));
    default:
        return rnd(2) ? INT64_MIN : INT64_MAX;
    }
}

static void damage_insn(const struct sg_code *c, struct sg_insn *in)
{
    switch (rnd(9)) {
    case 0: /* now and then one that is in the kernel */
        in->fn = rnd(2) ? ops[rnd(nops)]->fn : c->insns[rnd(c->ninsns)].fn;
        break;
    case 1:
        in->d = other_operand(c, in->d);
        break;
    case 2:
        in->a = other_operand(c, in->a);
        break;
    case 3:
        in->b = other_operand(c, in->b);
        break;
    case 4:
        in->c = other_operand(c, in->c);
        break;
    case 5:
        in->e = other_operand(c, in->e);
        break;
    case 6:
        in->aux = rnd(2) ? in->aux ^ 1u << rnd(32) : c->insns[rnd(c->ninsns)].aux;
        break;
    case 7:
        in->imm = other_number(c, in->imm);
        break;
    default:
        *in = c->insns[rnd(c->ninsns)];
        break;
    }
}

static void damage(struct sg_code *c)
{
    const struct sg_ahead *a = &c->ahead[rnd(SG_AHEAD_COUNT)];

    switch (rnd(16)) {
    case 0:
        if (c->ntargets)
            c->targets[rnd(c->ntargets)] = rnd(c->ninsns + 2);
        break;
    case 1:
        if (c->ncall_words)
            c->calls[rnd(c->ncall_words)] ^= 1u << rnd(32);
        break;
    case 2:
        if (a->n)
            damage_insn(c, &a->insns[rnd(a->n)]);
        break;
    default:
        damage_insn(c, &c->insns[rnd(c->ninsns)]);
        break;
    }
}

static void by_chance(const char *name, const char *text, unsigned rounds, bool native)
{
    unsigned accepted = 0, compiled = 0, faults = 0;
    struct victim v;
    uint64_t *room, params[2];
    struct sg_fault f;
    char why[160], label[64];

    snprintf(label, sizeof(label), "damaged code, %s, %s", name, native ? "native" : "handlers");
    if (!victim_open(&v, text)) {
        t_result(label, false, "refused");
        return;
    }
    room = tm_alloc(8192);
    params[0] = params[1] = (uintptr_t)room;
    if (tk_run(&v.t, 2, 48, params, &f)) {
        t_result(label, false, "as it is: %s", f.message);
        return;
    }
    for (unsigned i = 0; i < rounds; i++) {

        restore(&v);
        for (uint32_t k = 1 + rnd(3); k; k--)
            damage(&v.t.k->code);
        if (verify(&v, why))
            continue;
        accepted++;
        sg_jit_compile(&v.t.k->code);
        compiled += v.t.k->code.jit != NULL;
        faults += tk_run(&v.t, 2, 48, params, &f) != SG_OK;
    }
    printf("%s: %u of %u accepted, %u compiled, %u ended by a fault\n", label, accepted, rounds, compiled,
           faults);
    t_result(label, accepted && accepted < rounds && (compiled != 0) == (native && !v.code.calls),
             "%u of %u accepted, %u compiled", accepted, rounds, compiled);
    victim_close(&v);
    tm_free_all();
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    const bool native = t_started_as(argc, argv, "native");

    if (!native)
        setenv("VGPU_SOFT_JIT", "0", 1);
    t_watchdog = 20000;
    t_texture = some_texture;
    sg_op_each(add_op);
    every_kernel_is_asked();
    each_refusal();
    if (native && !sg_jit_available()) {
        t_skip("damaged code, native", "no native code on this machine");
        return t_end("softgpu verifier");
    }
    for (size_t k = 0; k < KERNELS; k++)
        by_chance(kernels[k].name, kernels[k].text, rounds, native);
    return t_end("softgpu verifier");
}

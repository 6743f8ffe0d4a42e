/* SPDX-License-Identifier: MIT */
/*
 * The verifier against damaged code. First each kind of refusal, by its reason. Then instructions of
 * whole kernels get random operations, operands and numbers: code that the verifier accepts must run,
 * as handlers and as native code, into nothing worse than a fault. Accesses outside are detected
 * independently of the verifier's tables: code, constants, registers, local memory and stacks lie
 * between inaccessible pages (guard_test.h), whose detection is tested first.
 *
 * verify_test [rounds]. Started as verify_native_test it compiles, else it does not.
 */
#include "exec/bytecode.h"
#include "exec/damage_test.h"
#include "exec/exec_test.h"
#include "exec/guard_test.h"
#include "exec/verify_units.h"
#include "exec/verify_texts.h"
#include "jit/jit.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct {
    const char *name, *text;
    bool rows; /* the code for blocks of whole rows: if there is native code */
} kernels[] = {{"plain", plain, false},         {"wide", wide, false},    {"calls", calls, false},
               {"rows", in_rows, true},         {"sums", sums, false},    {"affine", affine, false},
               {"warpgroup", warpgroup, false}, {"tensor", tensor, false}};
/* Blocks for handlers and for native code. */
static const uint32_t ROWS[3] = {32, 2, 1}, SOME[3] = {48, 1, 1}, GROUP[3] = {128, 1, 1};
#define KERNELS (sizeof(kernels) / sizeof(kernels[0]))

/* A kernel whose code can be changed: without native code, which is compiled again from accepted
   code. */
struct victim {
    struct tk t;
    bool group;          /* runs in blocks of a warpgroup */
    struct sg_code *now; /* the code that runs: the kernel's, or its code for whole rows */
    struct sg_code open; /* freed by tk_close() */
    struct sg_code code; /* as it was, with copies of the arrays: */
    struct sg_insn *insns, *ahead[SG_AHEAD_COUNT];
    uint8_t *fields, *flat;
    uint32_t *targets, *calls;
};

static size_t units_of(const struct sg_code *c)
{
    return c->flat ? c->slots_begin / 128 : 0;
}

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

/* The original code, with the handlers and the input of native code. */
static void restore(struct victim *v)
{
    struct sg_code *c = v->now;

    sg_jit_free(c);
    *c = v->code;
    c->fields = copy_of(v->fields, 2 * (size_t)c->ninsns);
    back(c->insns, v->insns, c->ninsns * sizeof(*c->insns));
    back(c->targets, v->targets, c->ntargets * sizeof(*c->targets));
    back(c->calls, v->calls, c->ncall_words * sizeof(*c->calls));
    back(c->flat, v->flat, units_of(c));
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        back(c->ahead[k].insns, v->ahead[k], c->ahead[k].n * sizeof(*c->insns));
}

/* The same bytes in a room of their own. */
static void *moved(const void *p, size_t n, size_t align)
{
    void *room = tg_room(n, align);

    back(room, p, n);
    return p ? room : NULL;
}

static void move(struct sg_code *c)
{
    c->insns = moved(c->insns, c->ninsns * sizeof(*c->insns), 8);
    c->pool = moved(c->pool, c->pool_bytes, 128);
    c->targets = moved(c->targets, c->ntargets * sizeof(*c->targets), 4);
    c->calls = moved(c->calls, c->ncall_words * sizeof(*c->calls), 4);
    c->flat = moved(c->flat, units_of(c), 1);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        c->ahead[k].insns = moved(c->ahead[k].insns, c->ahead[k].n * sizeof(*c->insns), 8);
}

static bool victim_open(struct victim *v, const char *text, bool rows)
{
    struct sg_code *c;

    memset(v, 0, sizeof(*v));
    if (!tk_open(&v->t, text, "t"))
        return false;
    v->group = text == warpgroup || text == tensor;
    v->now = &v->t.k->code;
    if (rows) {
        sg_kernel_code(v->t.k, v->group ? GROUP : ROWS);
        v->now = v->t.k->rows;
    }
    if (!v->now || v->now->rows != rows)
        return false;
    c = v->now;
    for (uint32_t i = 0; i < c->ninsns; i++)
        c->insns[i].fn = sg_code_handler(c, &c->insns[i]);
    v->fields = copy_of(c->fields, 2 * (size_t)c->ninsns);
    sg_jit_free(c);
    v->open = *c;
    move(c);
    v->insns = copy_of(c->insns, c->ninsns * sizeof(*c->insns));
    v->targets = copy_of(c->targets, c->ntargets * sizeof(*c->targets));
    v->calls = copy_of(c->calls, c->ncall_words * sizeof(*c->calls));
    v->flat = copy_of(c->flat, units_of(c));
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        v->ahead[k] = copy_of(c->ahead[k].insns, c->ahead[k].n * sizeof(*c->insns));
    v->code = *c;
    restore(v);
    return true;
}

static void victim_close(struct victim *v)
{
    restore(v);
    sg_jit_free(v->now);
    *v->now = v->open;
    free(v->insns);
    free(v->fields);
    free(v->flat);
    free(v->targets);
    free(v->calls);
    for (unsigned k = 0; k < SG_AHEAD_COUNT; k++)
        free(v->ahead[k]);
    tk_close(&v->t);
}

/* Intercepts the front end's call of the verifier (linked with --wrap). */
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
    return sg_code_verify(v->now, v->t.k->param_bytes, why, 160);
}

/* ---- the rows ---- */

/* No row leaves a field to a rule that does not know it. */
static void every_field_is_looked_at(void)
{
    const unsigned odd_rows = td_odd_rows();

    t_result("every field is looked at", !odd_rows, "%u are not", odd_rows);
}

/* ---- each kind of refusal ---- */

#define DAMAGE(id, body) \
    static void damage_##id(struct sg_code *c, struct sg_insn *in) \
    { \
        (void)c; \
        (void)in; \
        body; \
    }
/* A place with a register's alignment behind the last register; the registers of 32 bits. */
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
DAMAGE(uses, c->fields[2 * (in - c->insns) + 1] = 0)
DAMAGE(next_d, in[1].d = BEHIND)
DAMAGE(columns, in->aux |= 63u << 10)
DAMAGE(a_in_memory, in->aux &= ~SG_WGMMA_A_REGISTERS; in->b = BEHIND)
DAMAGE(more_columns, in->aux += 8u << 10)
DAMAGE(sums_written, in[6].d = BEHIND)
DAMAGE(tensor_none, c->tensor = false)
DAMAGE(tensor_shape, in->imm |= 7)
DAMAGE(tensor_kind, in->aux |= 7)
DAMAGE(tensor_scale, in->aux = SG_TK_I8 | 1u << 5)
DAMAGE(tensor_more, in->imm += 1 << 3)
DAMAGE(metadata, in->aux |= SG_WGMMA_SPARSE; in->c = BEHIND)
DAMAGE(scale, in[5].b = BEHIND)
DAMAGE(ext, in[1].fn = sg_op_fn(SG_OP_join))
DAMAGE(vector, in->aux = (in->aux & ~(15u << 6)) | 3u << 6; in->fn = sg_op_fn(SG_OP_ld_slow))
DAMAGE(width, in->aux = (in->aux & ~(15u << 6)) | 1u << 6)
DAMAGE(elements, in->aux ^= 0x08)
DAMAGE(address, in->aux |= SG_AUX_ADDR32)
DAMAGE(space, in->aux |= 7)
DAMAGE(parameter, in->imm = 12)
DAMAGE(parameter_low, in->imm = -1)
DAMAGE(form, in->aux = 1000)
DAMAGE(form_int, in->aux = 0)
DAMAGE(depth, in->aux = 6)
DAMAGE(shape, in->aux = (in->aux & ~15u) | 4)
DAMAGE(type, in->imm = (in->imm & ~(int64_t)255) | 'i')
DAMAGE(reduce, in->aux = (uint32_t)SG_TY_B128 << 8)
DAMAGE(target_high, in->imm = c->ninsns)
DAMAGE(target_low, in->imm = -(int64_t)(in - c->insns) - 1)
DAMAGE(target_wraps, in->imm = INT64_MIN)
DAMAGE(span_long, in->aux = c->ninsns)
DAMAGE(span_branch, in[1].fn = sg_op_fn(SG_OP_bra_if))
DAMAGE(span_target, c->targets[1] = (uint32_t)(in - c->insns) + 1)
DAMAGE(list_long, c->targets[0] = c->ntargets)
DAMAGE(list_target, c->targets[1] = c->ninsns)
DAMAGE(list_none, in->imm = 1)
DAMAGE(list_behind, in->imm = c->ntargets)
DAMAGE(end, c->insns[c->ninsns - 1].fn = sg_op_fn(SG_OP_join))
DAMAGE(return, in->fn = sg_op_fn(SG_OP_return))
DAMAGE(mode, in->imm = 0)
DAMAGE(mode_flags, in->imm |= 0x3f)
DAMAGE(cp, in->aux = 32)
DAMAGE(launches, in->fn = sg_op_fn(SG_OP_cdp_error))
DAMAGE(surface, in->aux = (in->aux & ~(7u << 10)) | 5u << 10)
DAMAGE(reduced_byte, in->aux &= ~(3u << 13))
DAMAGE(reduced_vector, in->aux = (in->aux & ~(7u << 10)) | 2u << 10)
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
DAMAGE(no_room, in->fn = sg_op_fn(SG_OP_join))
DAMAGE(other_function, in->imm = (int64_t)c->ninsns - 1 - (in - c->insns))
DAMAGE(fall_in, in->imm++)
DAMAGE(sizes, c->slots32 = c->slots_end + 128)
DAMAGE(sizes_file, c->regfile_bytes = c->slots_end - 128)
DAMAGE(sizes_odd, c->regfile_bytes += 32)
DAMAGE(local, c->local_bytes = SG_WIN_LOCAL_SIZE + 4)
DAMAGE(local_odd, c->local_bytes += 2)
DAMAGE(shared, c->static_shared = c->dynamic_base + 128)
DAMAGE(mxcsr, c->mxcsr = 0)
DAMAGE(special, c->sreg_offset[SG_SR_TID_X] = c->slots_begin)
DAMAGE(ahead, c->ahead[0].insns[0].fn = sg_op_fn(SG_OP_ld_g_b32))
DAMAGE(ahead_effect, c->ahead[0].insns[0].fn = sg_op_fn(SG_OP_addc_b32)) /* the carry */
DAMAGE(ahead_place, c->ahead[0].insns[0].d = BEHIND)
DAMAGE(empty, c->ninsns = 0)
DAMAGE(flat, in->fn = sg_op_fn(SG_OP_flat); in->aux = 2)
DAMAGE(units_much, c->flat[td_flat_unit(c, 1)] = 250)
DAMAGE(units_wide, c->flat[td_flat_unit(c, 1)] = 2)
DAMAGE(units_narrow, c->flat[td_flat_unit(c, 2)] = 1)
DAMAGE(units_inside, c->flat[td_flat_unit(c, 2) + 1] = 1)
DAMAGE(units_last, c->flat[c->slots_begin / 128 - 1] = 2)
DAMAGE(units_lanes, c->flat[c->sreg_offset[SG_SR_TID_X] / 128] = 1)
DAMAGE(units_rows, c->rows = false)
DAMAGE(units_row, c->flat[c->sreg_offset[SG_SR_TID_X] / 128] = 1)
DAMAGE(overlap_above, in->a = 128 * (td_flat_unit(c, 2) + 1))
DAMAGE(overlap_below, in->a = 128 * (td_flat_unit(c, 2) - 1))
DAMAGE(ahead_written, in->d = td_ahead_slot(c))
DAMAGE(special_written, in->d = c->sreg_offset[SG_SR_TID_X])

static const struct {
    unsigned kernel; /* of kernels[] */
    const char *op;  /* the first operation of that name */
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
    R(0, "add.b32", uses, "not said to use")
    R(0, "ld.g.b32", uses, "not said to use")
    R(0, "bra.if", uses, "not said to use")
    R(1, "mma.float", uses, "not said to use")
    R(1, "mma.float", next_d, "operand d is outside")
    R(1, "mma.float", ext, "the operands behind are missing")
    R(1, "atom.exch.b128", ext, "the operands behind are missing")
    R(1, "wmma.load", ext, "the operands behind are missing")
    R(0, "ld.g.v4.b32", vector, "so many elements")
    R(0, "ld.g.v4.b32", width, "its elements are others")
    R(0, "ld.g.b32", elements, "its elements are others")
    R(0, "ld.g.b32", address, "its address is another")
    R(0, "ld.g.b32", space, "its address is another")
    R(1, "atom.exch.b128", space, "its address is in no space")
    R(1, "mbar.init", space, "its address is in no space")
    R(0, "ld.p.b64", parameter, "outside the parameters")
    R(0, "ld.p.b64", parameter_low, "outside the parameters")
    R(1, "mma.float", form, "no form of the operation")
    R(1, "mma.int", form_int, "no form of the operation")
    R(1, "mma.f64.m16", depth, "no form of the operation")
    R(1, "mma.wide", form, "no form of the operation")
    R(1, "mma.wide", scale, "operand b is outside")
    R(1, "wmma.load", shape, "no matrix that there is")
    R(1, "wmma.mma", type, "no matrix that there is")
    R(6, "wgmma", form, "no form of the operation")
    R(6, "wgmma", columns, "no form of the operation")
    R(6, "wgmma", a_in_memory, "operand b is outside")
    R(6, "wgmma", more_columns, "it reads what it is not said to use")
    R(6, "wgmma", next_d, "operand d is outside")
    R(6, "wgmma", sums_written, "operand d is outside")
    R(6, "wgmma", metadata, "operand c is outside")
    R(6, "wgmma", a, "operand a is outside")
    R(6, "wgmma", d, "operand d is outside")
    R(7, "tcgen05.alloc", a, "operand a is outside")
    R(7, "tcgen05.alloc", tensor_none, "without tensor memory")
    R(7, "tcgen05.ld", tensor_none, "without tensor memory")
    R(7, "tcgen05.ld", tensor_shape, "no form of the operation")
    R(7, "tcgen05.ld", tensor_more, "the operands behind are missing")
    R(7, "tcgen05.ld", next_d, "operand d is outside")
    R(7, "tcgen05.ld", a, "operand a is outside")
    R(7, "tcgen05.mma", d, "operand d is outside")
    R(7, "tcgen05.mma", a, "operand a is outside")
    R(7, "tcgen05.mma", b, "operand b is outside")
    R(7, "tcgen05.mma", e, "operand e is outside")
    R(7, "tcgen05.mma", next_d, "operand d is outside")
    R(7, "tcgen05.mma", tensor_kind, "no form of the operation")
    R(7, "tcgen05.mma", tensor_scale, "no form of the operation")
    R(7, "tcgen05.mma", tensor_none, "without tensor memory")
    R(7, "tcgen05.st", tensor_shape, "no form of the operation")
    R(7, "tcgen05.st", next_d, "operand d is outside")
    R(7, "tcgen05.cp", tensor_shape, "no form of the operation")
    R(7, "tcgen05.cp", b, "operand b is outside")
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
    R(1, "surf.red", reduced_byte, "so many elements")
    R(1, "surf.red", reduced_vector, "so many elements")
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
    R(0, "exit", sizes_odd, "do not go together")
    R(0, "exit", local, "do not go together")
    R(0, "exit", local_odd, "do not go together")
    R(0, "exit", shared, "do not go together")
    R(0, "exit", mxcsr, "do not go together")
    R(0, "exit", special, "a special register is outside")
    R(0, "exit", ahead, "computed ahead")
    R(0, "exit", ahead_effect, "computed ahead")
    R(0, "exit", ahead_place, "operand d is outside")
    R(0, "exit", units_much, "the same in all lanes")
    R(0, "exit", units_wide, "the same in all lanes")
    R(0, "exit", units_narrow, "the same in all lanes")
    R(0, "exit", units_inside, "the same in all lanes")
    R(0, "exit", units_last, "the same in all lanes")
    R(0, "exit", units_lanes, "the same in all lanes")
    R(3, "exit", units_rows, "the same in all lanes")
    R(3, "exit", units_row, "the same in all lanes")
    R(3, "first.b32", a, "operand a is outside")
    R(3, "first.b32", d, "operand d is outside")
    R(3, "first.b64", d_narrow, "operand d is outside")
    R(3, "first.b64", uses, "not said to use")
    R(3, "flat", flat, "a span that goes too far")
    R(0, "add.b32", overlap_above, "overlaps another value")
    R(0, "ld.g.b32", overlap_below, "overlaps another value")
    R(0, "add.b32", special_written, "overlaps another value")
    R(4, "shl.b64", ahead_written, "computed ahead")
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

        if (kernels[refusals[i].kernel].rows && !sg_jit_available())
            continue;
        if (!victim_open(&v, kernels[refusals[i].kernel].text, kernels[refusals[i].kernel].rows)) {
            t_result(kernels[refusals[i].kernel].name, false, "refused");
            return;
        }
        snprintf(name, sizeof(name), "%s, %zu: %s", refusals[i].op, i, refusals[i].want);
        in = first_of(v.now, refusals[i].op);
        r = verify(&v, why);
        if (in && !r) {
            refusals[i].damage(v.now, in);
            r = verify(&v, why);
            t_result(name, r && strstr(why, refusals[i].want), "%s", r ? why : "accepted");
        } else {
            t_result(name, false, "%s", r ? why : "there is no such instruction");
        }
        victim_close(&v);
        tm_free_all();
    }
}

/* Native code asks flat[] of every unit: more than it has are refused before it is read. */
static void units_have_a_bound(void)
{
    struct sg_code c = {.slots_begin = 128 * SG_FLAT_UNITS, .flat = tg_room(SG_FLAT_UNITS, 1)};
    uint8_t *units = tg_room(SG_FLAT_UNITS + 1, 1);
    const bool most = sg_verify_units_flat(&c, units);

    c.slots_begin += 128;
    t_result("more units than there is room for", most && !sg_verify_units_flat(&c, units), "%s",
             most ? "one more was accepted" : "refused");
}

/* ---- by chance ---- */

/* Runs the victim's present code: 0, or a fault. The parameters end at the end of memory. */
static int run(struct victim *v, uint64_t address, bool native, unsigned *warps)
{
    static uint64_t *params;
    struct sg_fault f;
    int r;

    params = params ? params : tg_room(sizeof(params[0]) + 8, 8);
    params[0] = address;
    memcpy(&params[1], &address, v->t.k->param_bytes - 8);
    if (native)
        sg_jit_compile(v->now);
    tg_arm(v->now);
    r = tk_run3(&v->t, (uint32_t[3]){2, 1, 1}, v->group ? GROUP : v->now->rows ? ROWS : SOME, 0, params, &f);
    *warps += tg_moved();
    return r;
}

static void by_chance(const char *name, const char *text, bool rows, unsigned rounds, bool native)
{
    unsigned accepted = 0, compiled = 0, faults = 0, warps = 0;
    struct victim v;
    uint64_t room;
    char why[160], label[64];

    snprintf(label, sizeof(label), "damaged code, %s, %s", name, native ? "native" : "handlers");
    rows |=
        native && text == tensor; /* a warpgroup is a whole row, for which there is code of its own then */
    if (!victim_open(&v, text, rows)) {
        t_result(label, false, "refused");
        return;
    }
    room = (uintptr_t)tm_alloc(8192);
    if (run(&v, room, native, &warps)) {
        t_result(label, false, "as it is: a fault");
        return;
    }
    for (unsigned i = 0; i < rounds; i++) {
        restore(&v);
        for (uint32_t k = 1 + td_random(3); k; k--)
            td_damage(v.now);
        if (verify(&v, why))
            continue;
        accepted++;
        faults += run(&v, room, native, &warps) != SG_OK;
        compiled += v.now->jit != NULL;
    }
    printf("%s: %u of %u accepted, %u warps in rooms, %u compiled, %u ended by a fault\n", label, accepted,
           rounds, warps, compiled, faults);
    t_result(label,
             accepted > rounds / 100 && accepted < rounds && warps > accepted &&
                 (compiled != 0) == (native && !v.code.calls),
             "%u of %u accepted, %u warps, %u compiled", accepted, rounds, warps, compiled);
    victim_close(&v);
    tm_free_all();
}

/* ---- accesses outside are detected ---- */

DAMAGE(pool_end, in->a = SG_OPND_CONST | ((c->pool_bytes + 127) & ~127u))
DAMAGE(far, in->a = 0x7fffff80)
DAMAGE(code_end, in->imm = c->ninsns - (in - c->insns))
DAMAGE(parameter_behind, in->imm = 16)
DAMAGE(flat_much, c->flat[in[1].d / 128] = 250)

/* In a separate process, without the verifier. 0: the run ended without a fault. */
static int without_verifier(const char *text, const char *op,
                            void (*hurt)(struct sg_code *c, struct sg_insn *in), bool native)
{
    int status = 0;
    pid_t pid;

    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        struct victim v;
        unsigned warps = 0;

        if (!freopen("/dev/null", "w", stderr) || !freopen("/dev/null", "w", stdout) ||
            !victim_open(&v, text, false))
            _exit(0);
        hurt(v.now, first_of(v.now, op));
        run(&v, (uintptr_t)tm_alloc(8192), native, &warps);
        _exit(0);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : 0;
}

static void rooms_see(bool native)
{
    static const struct {
        const char *text, *name, *op;
        void (*hurt)(struct sg_code *c, struct sg_insn *in);
    } outside[] = {{plain, "a register is written", "add.b32", damage_d},
                   {plain, "a register is read", "add.b32", damage_a},
                   {plain, "a register far away is read", "add.b32", damage_far},
                   {plain, "a constant is read", "add.b32", damage_pool_end},
                   {plain, "a predicate is read", "bra.if", damage_a},
                   {plain, "a target", "bra.if", damage_code_end},
                   {plain, "a parameter is read", "ld.p.b64", damage_parameter_behind},
                   {plain, "a value of all lanes is written", "flat", damage_flat_much},
                   {sums, "a value that is computed ahead is written", "shl.b64",
                    damage_ahead_written}}; /* the last two: native */

    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]) - (native ? 0 : 2); i++) {
        char label[96];

        snprintf(label, sizeof(label), "seen outside, %s: %s", native ? "native" : "handlers",
                 outside[i].name);
        t_result(label, without_verifier(outside[i].text, outside[i].op, outside[i].hurt, native),
                 "it was not seen");
    }
}

int main(int argc, char **argv)
{
    const unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 20000;
    const bool native = t_started_as(argc, argv, "native");

    if (!native)
        setenv("VGPU_SOFT_JIT", "0", 1);
    t_watchdog = 20000;
    t_texture = td_texture;
    every_kernel_is_asked();
    every_field_is_looked_at();
    each_refusal();
    units_have_a_bound();
    if (native && !sg_jit_available()) {
        t_skip("damaged code, native", "no native code on this machine");
        return t_end("softgpu verifier");
    }
    rooms_see(native);
    for (size_t k = 0; k < KERNELS; k++)
        if (!kernels[k].rows || native) /* code that no block runs elsewhere */
            by_chance(kernels[k].name, kernels[k].text, kernels[k].rows, rounds, native);
    return t_end("softgpu verifier");
}

/* SPDX-License-Identifier: MIT */
/*
 * CBMC proofs about the verifier (sg_verify.c). Proved of the functions that all of its checks use:
 * for any layout of a kernel, any instruction and any tables, accepted accesses lie inside. The
 * properties are stated independently, from a handler's point of view. CBMC's own checks show that
 * nothing reads beyond its arrays and nothing overflows.
 *
 *   place      an operand is inside the register file or the constant pool; no constant is written
 *   target     a branch or call leads to an instruction
 *   parameter  a parameter is inside the parameters
 *   entry      a call's entry, and each register that it saves, is inside
 *   values     two special registers or hoisted values do not overlap; flat[] is inside and has
 *              their widths (of four units)
 *
 * Proved of their combination, for instructions with any contents and for any two operations, with
 * any operands and rule:
 *
 *   rule_R      an accepted instruction of this rule accesses nothing outside (if its target is)
 *   targets     find_targets(): targets, lists and spans are inside; all instructions are known
 *   layout      check_layout(): special registers, local and shared memory are inside
 *   functions   find_functions(): no target is inside a span, and code does not run past its end
 *
 * Not covered: code that runs ahead of blocks, whose instructions take the same path, and matrix
 * operations with tables of their own; exec/verify_test.c damages these.
 */
#include <stdio.h>
#undef snprintf
#define snprintf(...) ((void)0)
#include "exec/sg_verify.c"
#include "exec/sg_verify_units.c"

#define N 4
#define CALL_WORDS 6

uint8_t nondet_u8(void);
uint32_t nondet_u32(void);
uint64_t nondet_u64(void);
bool nondet_bool(void);
struct sg_insn nondet_insn(void);
struct sg_code nondet_code(void);
void *malloc(size_t n);

/* The operations, identified by their handlers, which are never called; the second is "ext". */
struct sg_opdef nondet_op(void);
static struct sg_opdef op_1, op_2;
extern __typeof__(*(sg_fn)0) handler_1, handler_2;

const struct sg_opdef *sg_op_def_of(sg_fn fn)
{
    return fn == handler_1 ? &op_1 : fn == handler_2 ? &op_2 : NULL;
}

sg_fn sg_op_fn(enum sg_op op)
{
    (void)op;
    return handler_2;
}

const char *sg_op_name(sg_fn fn)
{
    (void)fn;
    return "";
}

uint32_t sg_type_size(enum sg_type t)
{
    (void)t;
    return nondet_u32();
}

const struct sg_mma_form sg_mma_forms[1]; /* CBMC wants to know how many: none */

static struct sg_insn insns[N];
static uint8_t marks[N];
static uint32_t calls[CALL_WORDS];
static char why[1];

/* A layout accepted by check_layout(). */
static struct sg_code any_layout(void)
{
    struct sg_code c = nondet_code();

    __CPROVER_assume(c.slots_begin <= c.slots32 && c.slots32 <= c.slots_end &&
                     c.slots_end <= c.regfile_bytes);
    return c;
}

/* State of the units of this layout gathered from earlier operands. */
static uint8_t *any_units(const struct sg_code *c)
{
    uint8_t *units = malloc((c->slots_begin >> 7) + 1);

    __CPROVER_assume(units != NULL);
    return units;
}

/* A handler adds an operand to the address of the register file or, if marked, of the pool. */
void prove_verify_place(void)
{
    const struct sg_code c = any_layout();
    const uint32_t op = nondet_u32();
    const uint8_t w = nondet_u8(), kind = w & SG_W_KIND;
    const uint64_t bytes = kind == SG_W_PRED ? 4 : kind == SG_W_32 ? 128 : 256;

    __CPROVER_assume(kind == SG_W_PRED || kind == SG_W_32 || kind == SG_W_64);
    if (!check_place(&c, op, w))
        return;
    if (op & SG_OPND_CONST) {
        __CPROVER_assert(!(w & SG_W_OUT), "no constant is written");
        __CPROVER_assert((uint64_t)(op & ~SG_OPND_CONST) + bytes <= c.pool_bytes, "inside the pool");
    } else {
        __CPROVER_assert((uint64_t)op + bytes <= c.regfile_bytes, "inside the register file");
    }
}

void prove_verify_target(void)
{
    struct verify v = {
        .insns = insns, .n = N, .at = nondet_u32(), .marks = marks, .why = why, .size = sizeof(why)};

    __CPROVER_assume(v.at < N);
    insns[v.at] = nondet_insn();
    if (!check_target(&v, M_TARGET))
        return;
    const __int128 to = (__int128)v.at + insns[v.at].imm;

    __CPROVER_assert(to >= 0 && to < N, "a target is an instruction");
    __CPROVER_assert(marks[to] & M_TARGET, "and marked");
}

void prove_verify_parameter(void)
{
    struct verify v = {.insns = insns, .n = N, .param_bytes = nondet_u32(), .why = why, .size = sizeof(why)};
    const uint32_t bytes = nondet_u32();

    insns[0] = nondet_insn();
    if (check_parameter(&v, bytes))
        __CPROVER_assert(insns[0].imm >= 0 && (__int128)insns[0].imm + bytes <= v.param_bytes,
                         "a parameter is inside");
}

void prove_verify_entry(void)
{
    struct sg_code c = any_layout();
    struct verify v = {
        .c = &c, .insns = insns, .n = N, .units = any_units(&c), .why = why, .size = sizeof(why)};
    const uint32_t at = nondet_u32();

    c.calls = nondet_bool() ? calls : NULL;
    c.ncall_words = CALL_WORDS;
    for (unsigned k = 0; k < CALL_WORDS; k++)
        calls[k] = nondet_u32();
    if (!call_entry(&v, at))
        return;
    __CPROVER_assert(c.calls && (uint64_t)at + SG_CALL_REGS <= CALL_WORDS, "an entry is in the table");
    __CPROVER_assert((uint64_t)at + SG_CALL_REGS + calls[at + SG_CALL_NREGS] <= CALL_WORDS,
                     "with its registers");
    for (uint32_t k = at + SG_CALL_REGS; k < CALL_WORDS && k < at + SG_CALL_REGS + calls[at + SG_CALL_NREGS];
         k++) {
        const uint64_t bytes = calls[k] >> 30 == SG_CALL_PRED ? 4 : calls[k] >> 30 == SG_CALL_32 ? 128 : 256;

        __CPROVER_assert((uint64_t)(calls[k] & 0x3fffffffu) + bytes <= c.regfile_bytes,
                         "a saved register is inside");
    }
    __CPROVER_assert(calls[at + SG_CALL_CALLER] <= SG_MAX_LOCAL && calls[at + SG_CALL_CALLEE] <= SG_MAX_LOCAL,
                     "frames have bounds");
}

#define UNITS 4

static uint32_t first_unit(uint32_t op)
{
    return op >> 7;
}

static uint32_t units_of(uint8_t w)
{
    return (w & SG_W_KIND) == SG_W_64 ? 2 : 1;
}

/* Any two values below slots_begin, in the order in which their operands come. */
void prove_verify_values(void)
{
    const uint32_t op[2] = {nondet_u32(), nondet_u32()};
    const uint8_t w[2] = {nondet_u8(), nondet_u8()};
    struct sg_code c = any_layout();
    uint8_t units[UNITS + 1] = {0}, flat[UNITS];

    __CPROVER_assume(c.slots_begin <= 128 * UNITS && !(c.slots_begin & 127));
    c.flat = nondet_bool() ? flat : NULL;
    c.sreg_used[0] = c.sreg_used[1] = 0;
    for (uint32_t k = 0; k < UNITS; k++)
        flat[k] = nondet_u8();
    for (uint32_t k = 0; k < 2; k++) {
        const uint8_t kind = w[k] & SG_W_KIND;

        __CPROVER_assume(kind == SG_W_PRED || kind == SG_W_32 || kind == SG_W_64);
        if (op[k] >= c.slots_begin || !check_place(&c, op[k], w[k]) ||
            !sg_verify_units_claim(&c, units, op[k], w[k]))
            return;
    }
    __CPROVER_assert(op[0] != op[1] || (w[0] & SG_W_KIND) == (w[1] & SG_W_KIND), "one place, one width");
    __CPROVER_assert(op[0] == op[1] || first_unit(op[0]) >= first_unit(op[1]) + units_of(w[1]) ||
                         first_unit(op[1]) >= first_unit(op[0]) + units_of(w[0]),
                     "values do not overlap");
    if (!sg_verify_units_flat(&c, units) || !c.flat)
        return;
    __CPROVER_assert(!flat[first_unit(op[1])] ||
                         ((w[1] & SG_W_KIND) != SG_W_PRED && flat[first_unit(op[1])] == units_of(w[1])),
                     "as wide as the operand");
    for (uint32_t k = 0; k < c.slots_begin / 128; k++)
        __CPROVER_assert(k + flat[k] <= c.slots_begin / 128, "inside of what lies below slots_begin");
}

/* ---- the whole ---- */

#define TARGETS 3
#define MOST 4 /* instructions */

static struct sg_insn kernel[MOST];
static uint8_t fields_of[2 * MOST];
static uint32_t targets[TARGETS], list[TARGETS + 1], function[MOST + 1];
static uint8_t marks_of[MOST + 1];

/* A register or constant of this kind, as a handler takes it. */
static void inside(const struct sg_code *c, uint32_t op, uint8_t w)
{
    const uint32_t kind = w & SG_W_KIND;
    const uint64_t bytes = kind == SG_W_PRED ? 4 : kind == SG_W_32 ? 128 : 256;

    if (op & SG_OPND_CONST)
        __CPROVER_assert(!(w & SG_W_OUT) && (uint64_t)(op & ~SG_OPND_CONST) + bytes <= c->pool_bytes,
                         "a constant is inside the pool, and not written");
    else
        __CPROVER_assert((uint64_t)op + bytes <= c->regfile_bytes, "a register is inside the register file");
}

static void elements_inside(const struct sg_code *c, const struct sg_insn *in, uint32_t n, uint8_t w)
{
    __CPROVER_assert(n == 1 || n == 2 || n == 4, "elements that there are");
    inside(c, in->d, w);
    if (n > 1)
        inside(c, in->b, w);
    if (n > 2) {
        inside(c, in->c, w);
        inside(c, in->e, w);
    }
}

static void target_inside(const struct sg_insn *in, uint32_t i, uint32_t n)
{
    const __int128 to = (__int128)i + in->imm;

    __CPROVER_assert(to >= 0 && to < n, "a target is an instruction");
}

static void list_inside(const struct sg_code *c, const struct sg_insn *in, uint32_t n)
{
    __CPROVER_assert(in->imm >= 0 && in->imm < c->ntargets, "a list of targets is inside");
    const uint32_t length = c->targets[in->imm];

    __CPROVER_assert((uint64_t)in->imm + 1 + length <= c->ntargets, "to its end");
    for (uint32_t k = 0; k < TARGETS; k++) {
        if (k < length)
            __CPROVER_assert(c->targets[in->imm + 1 + k] < n, "with targets that are instructions");
    }
}

static bool spans(uint8_t rule)
{
    return rule == SG_R_SPAN || rule == SG_R_FPMODE || rule == SG_R_FLAT;
}

static bool branches(uint8_t rule)
{
    return rule == SG_R_BRA || rule == SG_R_BRA_IF || rule == SG_R_CALL;
}

/* The targets of an instruction. */
static void way_inside(uint8_t rule, const struct sg_insn *in, uint32_t i, uint32_t n)
{
    if (branches(rule))
        target_inside(in, i, n);
    if (spans(rule))
        __CPROVER_assert((uint64_t)i + 1 + in->aux < n, "a span ends in front of the last instruction");
}

/* Addresses in two windows; a barrier object; the blocks of a cluster. */
static void bulk_inside(const struct sg_code *c, const struct sg_insn *in, bool multicast)
{
    inside(c, in->d, multicast || (in->imm & SG_BULK_TO_SHARED) ? SG_W_32 : SG_W_64);
    inside(c, in->a, in->imm & SG_BULK_FROM_SHARED ? SG_W_32 : SG_W_64);
    if (multicast || (in->imm & SG_BULK_BARRIER))
        inside(c, in->c, SG_W_32);
    if (multicast)
        inside(c, in->e, SG_W_32);
}

/* Accesses of its handler beyond the operands named by the row. */
static void rest_inside(const struct sg_code *c, const struct sg_opdef *row, const struct sg_insn *in,
                        uint32_t n, uint32_t param_bytes)
{
    switch (row->rule) {
    case SG_R_BRX:
        __CPROVER_assert(in->imm >= 0 && in->imm < c->ntargets && list[in->imm] != NO_LIST, "a list is one");
        break;
    case SG_R_CALL:
    case SG_R_ROOM:
        __CPROVER_assert(c->calls && (uint64_t)in->aux + SG_CALL_REGS <= c->ncall_words,
                         "an entry is in the table of calls");
        break;
    case SG_R_ALLOCA:
        __CPROVER_assert(in->imm >= 0 && in->imm <= SG_MAX_LOCAL, "a frame has a bound");
        break;
    case SG_R_LOAD:
    case SG_R_STORE:
        inside(c, in->a, in->aux & SG_AUX_ADDR32 ? SG_W_32 : SG_W_64);
        elements_inside(c, in, SG_AUX_VEC(in->aux),
                        (SG_AUX_ELEM(in->aux) == 8 ? SG_W_64 : SG_W_32) |
                            (row->rule == SG_R_LOAD ? SG_W_OUT : 0));
        break;
    case SG_R_LOAD_P:
        __CPROVER_assert(in->imm >= 0 && (__int128)in->imm + row->arg <= param_bytes,
                         "a parameter is inside");
        break;
    case SG_R_MATRIX:
        elements_inside(c, in, in->aux & 15, row->field[0]);
        break;
    case SG_R_BULK:
    case SG_R_BULK_REDUCE:
        bulk_inside(c, in, row->rule == SG_R_BULK && (in->imm & SG_BULK_MULTICAST));
        break;
    case SG_R_ATOM128:
        __CPROVER_assert(n > 1, "it has its second half");
        inside(c, kernel[1].a, SG_W_64);
        inside(c, kernel[1].b, SG_W_64);
        break;
    case SG_R_INDEX:
        __CPROVER_assert(in->imm >= 0 && in->imm < row->arg, "a number is below its bound");
        break;
    default:
        break;
    }
}

/* All that a handler of this instruction takes by offsets. */
static void instruction_inside(const struct sg_code *c, const struct sg_insn *in, uint32_t n,
                               uint32_t param_bytes)
{
    const struct sg_opdef *row = sg_op_def_of(in->fn);
    const uint32_t at[SG_FIELDS] = {in->d, in->a, in->b, in->c, in->e};
    const uint32_t k = nondet_u32(); /* an arbitrary entry */

    __CPROVER_assert(row != NULL, "each instruction is an operation");
    __CPROVER_assume(k < SG_FIELDS);
    const uint8_t w = row->field[k], kind = w & SG_W_KIND;

    if (!(w & SG_W_OPTIONAL)) {
        if (kind == SG_W_PRED || kind == SG_W_32 || kind == SG_W_64)
            inside(c, at[k], w);
        if (kind == SG_W_ADDRESS)
            inside(c, at[k], (in->aux & SG_AUX_ADDR32 ? SG_W_32 : SG_W_64) | (w & SG_W_OUT));
    }
    rest_inside(c, row, in, n, param_bytes);
}

static bool in_proof(const struct sg_opdef *op)
{
    for (unsigned k = 0; k < SG_FIELDS; k++) {
        if ((op->field[k] & SG_W_KIND) > SG_W_VARIES)
            return false;
    }
    return op->rule <= SG_R_ATOM128;
}

static void any_tables(struct sg_code *c, uint32_t n)
{
    c->insns = kernel;
    c->ninsns = n;
    c->nrelocs = 0;
    c->ahead[SG_AHEAD_LAUNCH].n = c->ahead[SG_AHEAD_ROW].n = 0;
    c->targets = targets;
    __CPROVER_assume(c->ntargets <= TARGETS);
    c->calls = nondet_bool() ? calls : NULL;
    c->ncall_words = CALL_WORDS;
    c->fields = nondet_bool() ? fields_of : NULL;
    c->flat = nondet_bool() ? malloc(SG_FLAT_UNITS) : NULL;
    for (unsigned k = 0; k < TARGETS; k++)
        targets[k] = nondet_u32();
    for (unsigned k = 0; k < CALL_WORDS; k++)
        calls[k] = nondet_u32();
    for (unsigned k = 0; k < 2 * n; k++)
        fields_of[k] = nondet_u8();
}

/* Arbitrary code of n instructions, with the verifier's state for it. */
static struct verify any_code(struct sg_code *c, uint32_t n)
{
    struct verify v = {.c = c,
                       .insns = kernel,
                       .n = n,
                       .param_bytes = nondet_u32(),
                       .marks = marks_of,
                       .units = any_units(c),
                       .function = function,
                       .list = list,
                       .ext = handler_2,
                       .why = why,
                       .size = sizeof(why)};

    any_tables(c, n);
    op_1 = nondet_op();
    op_2 = nondet_op();
    __CPROVER_assume(in_proof(&op_1) && in_proof(&op_2));
    for (uint32_t i = 0; i < n; i++) {
        kernel[i] = nondet_insn();
        kernel[i].fn = nondet_bool() ? handler_1 : nondet_bool() ? handler_2 : NULL;
    }
    return v;
}

/*
 * The first of n instructions, with an operation of this rule, after find_targets() and
 * find_functions(): these guarantee only that its target and span are inside.
 */
static void first_of(uint32_t n, uint8_t rule)
{
    struct sg_code c = any_layout();
    struct verify v = any_code(&c, n);
    struct sg_insn *in = &kernel[0];
    uint64_t room = nondet_u64();

    in->fn = handler_1;
    kernel[1].fn = handler_2;
    op_1.rule = rule;
    v.at = 0;
    for (uint32_t i = 0; i < n; i++) {
        marks_of[i] = nondet_u8();
        function[i] = nondet_u32();
    }
    for (uint32_t k = 0; k < TARGETS; k++)
        list[k] = nondet_u32();
    __CPROVER_assume(!branches(rule) || (in->imm >= 0 && in->imm < n));
    __CPROVER_assume(!spans(rule) || (n == 2 && in->aux == 0));
    if (check_instruction(&v, &op_1) && check_control(&v, &op_1, &room))
        instruction_inside(&c, in, n, v.param_bytes);
}

#ifndef RULE /* run separately: memory/prove.sh */
#define RULE SG_R_PLAIN
#endif
void prove_verify_rule(void)
{
    first_of(2, RULE);
    if (RULE == SG_R_ATOM128)
        first_of(1, RULE);
}

void prove_verify_targets(void)
{
    struct sg_code c = nondet_code();
    struct verify v = any_code(&c, MOST);
    const uint32_t i = nondet_u32(), k = nondet_u32();

    for (uint32_t m = 0; m < MOST; m++)
        marks_of[m] = 0;
    if (!find_targets(&v))
        return;
    __CPROVER_assume(i < MOST);
    __CPROVER_assert(kernel[i].fn != NULL, "each instruction is an operation");
    way_inside(sg_op_def_of(kernel[i].fn)->rule, &kernel[i], i, MOST);
    if (k < c.ntargets && list[k] != NO_LIST) {
        const struct sg_insn brx = {.imm = k};

        list_inside(&c, &brx, MOST);
    }
}

void prove_verify_functions(void)
{
    struct sg_code c = nondet_code();
    struct verify v = any_code(&c, MOST);
    const uint32_t i = nondet_u32();

    for (uint32_t m = 0; m < MOST; m++)
        marks_of[m] = 0;
    if (!find_targets(&v) || !find_functions(&v))
        return;
    __CPROVER_assert(rule_ends(sg_op_def_of(kernel[MOST - 1].fn)->rule), "nothing goes on behind the end");
    __CPROVER_assume(i < MOST);
    const struct sg_opdef *row = sg_op_def_of(kernel[i].fn);

    if (branches(row->rule))
        __CPROVER_assert(!(marks_of[i + kernel[i].imm] & M_INSIDE), "no target is inside of a span");
    if (spans(row->rule) && i + 1 < MOST && kernel[i].aux)
        __CPROVER_assert(!rule_controls(sg_op_def_of(kernel[i + 1].fn)->rule), "a span runs as one");
    if (row->rule == SG_R_CALL)
        __CPROVER_assert(i + kernel[i].imm > 0, "the kernel is not called");
}

void prove_verify_layout(void)
{
    struct sg_code c = nondet_code();
    struct verify v = any_code(&c, 1);
    const uint32_t r = nondet_u32();

    if (!check_layout(&v))
        return;
    __CPROVER_assert(c.slots_begin <= c.slots32 && c.slots32 <= c.slots_end && c.slots_end <= c.regfile_bytes,
                     "the parts of the register file are inside, in their order");
    __CPROVER_assert(!((c.slots_begin | c.regfile_bytes) & 127) && !(c.local_bytes & 3),
                     "register files are whole units, local memory whole words");
    __CPROVER_assert(c.local_bytes <= SG_WIN_LOCAL_SIZE && c.static_shared <= c.dynamic_base &&
                         c.dynamic_base <= SG_WIN_SHARED_SIZE,
                     "local and shared memory are inside their windows");
    if (r < SG_SR_COUNT && sg_sreg_there(&c, r))
        __CPROVER_assert((uint64_t)c.sreg_offset[r] + 128 <= c.regfile_bytes, "a special register is inside");
}

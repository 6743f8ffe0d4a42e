/* SPDX-License-Identifier: MIT */
/*
 * Proof about the verifier (verify.c), by CBMC, of the functions that all of its checks go through: for any layout of a
 * kernel, any instruction and any tables, what they accept lies inside. Said in other words than theirs, as a handler
 * takes it. They read nothing beyond their arrays and nothing overflows: CBMC's own checks.
 *
 *   place      an operand is inside the register file or the constant pool, and what is written in no constant
 *   target     a branch or call leads to an instruction
 *   parameter  a parameter is inside the parameters
 *   entry      a call's entry, and each register that it saves, is inside
 */
#include <stdio.h>
#undef snprintf
#define snprintf(...) ((void)0)
#include "exec/verify.c"

#define N 4
#define CALL_WORDS 6

uint8_t nondet_u8(void);
uint32_t nondet_u32(void);
bool nondet_bool(void);
struct sg_insn nondet_insn(void);
struct sg_code nondet_code(void);

const struct sg_opdef *sg_op_def_of(sg_fn fn)
{
    (void)fn;
    return NULL;
}

const char *sg_op_name(sg_fn fn)
{
    (void)fn;
    return "";
}

static struct sg_insn insns[N];
static uint8_t marks[N];
static uint32_t calls[CALL_WORDS];
static char why[1];

/* What layout() has accepted. */
static struct sg_code any_layout(void)
{
    struct sg_code c = nondet_code();

    __CPROVER_assume(c.slots_begin <= c.slots32 && c.slots32 <= c.slots_end &&
                     c.slots_end <= c.regfile_bytes);
    return c;
}

/* A handler adds an operand to the register file's address, or to the pool's when its mark says so. */
void prove_verify_place(void)
{
    const struct sg_code c = any_layout();
    const uint32_t op = nondet_u32();
    const uint8_t w = nondet_u8(), kind = w & SG_W_KIND;
    const uint64_t bytes = kind == SG_W_PRED ? 4 : kind == SG_W_32 ? 128 : 256;

    __CPROVER_assume(kind == SG_W_PRED || kind == SG_W_32 || kind == SG_W_64);
    if (!place(&c, op, w))
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
    if (!target(&v, M_TARGET))
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
    if (parameter(&v, bytes))
        __CPROVER_assert(insns[0].imm >= 0 && (__int128)insns[0].imm + bytes <= v.param_bytes,
                         "a parameter is inside");
}

void prove_verify_entry(void)
{
    struct sg_code c = any_layout();
    struct verify v = {.c = &c, .insns = insns, .n = N, .why = why, .size = sizeof(why)};
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

/* SPDX-License-Identifier: MIT */
/* The affine values of the block being compiled; for jit/memory/affine*.c. */
#ifndef SG_JIT_AFFINE_BLOCK_H
#define SG_JIT_AFFINE_BLOCK_H

#include "jit/memory/affine.h"

#define AFFINE_VALUES 512u
#define AFFINE_NONE UINT32_MAX

enum affine_kind {
    AFFINE_ADD, /* a + b */
    AFFINE_SUB,
    AFFINE_MUL,  /* a times a constant */
    AFFINE_SHL,  /* the same by a power of two */
    AFFINE_WIDE, /* the 64-bit product of a, 32 bits wide, and a constant */
    AFFINE_MAD,  /* the same plus c */
    AFFINE_CVT   /* a, 32 bits wide, as 64 bits */
};

/* An instruction whose result can be affine. */
struct sg_affine_op {
    enum sg_op op;
    enum affine_kind kind;
    bool wide; /* the result has 64 bits */
    bool sign; /* a 32-bit operand is extended with its sign */
};
/* NULL: fn is not such an instruction. */
const struct sg_affine_op *sg_affine_op_of(sg_fn fn);

/* The value of a register from an instruction of the block on. */
struct affine_value {
    u32 op, insn;               /* insn: AFFINE_NONE: from the block's beginning */
    u32 from[2];                /* affine values that it is computed from; AFFINE_NONE: none */
    u32 loads;                  /* loads from this address */
    u64 times;                  /* the constant of a multiplication */
    bool wanted;                /* leads to an address */
    struct sg_affine_form form; /* n == 0: the value is not affine */
};

void sg_jit_affine_drop(struct jit *j, struct affine_block *x);

struct affine_block {
    struct sg_affine *a;
    u32 nvalues;
    bool full;   /* a value was not recorded, so nothing is known */
    u16 *latest; /* per 128 bytes of registers: index + 1 of the last value there; 0: none yet */
    size_t jumps[2 * SG_AFFINE_ROOTS + 1]; /* to where distances are learnt */
    u32 njumps;
    size_t body; /* where the block's code begins */
    struct affine_value value[AFFINE_VALUES];
};

#endif

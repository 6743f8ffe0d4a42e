/* SPDX-License-Identifier: MIT */
/* In which bits lanes can differ (ptx/hoist/sg_ptx_low_bits.c); for ptx/hoist/sg_ptx_hoist_operands.c. */
#ifndef SG_PTX_LOW_BITS_H
#define SG_PTX_LOW_BITS_H

#include <stdbool.h>
#include <stdint.h>

#include "exec/bytecode.h"

#define SG_LOW_ALL 64 /* all bits may differ */

struct sg_low {
    uint8_t differ; /* bits from this one on are the same in all lanes; 0: the value is */
    uint8_t zeros;  /* number of low bits that are zero */
    uint8_t bits;   /* the value is below 1 << bits; SG_LOW_ALL: unknown */
    bool known;     /* a constant */
    uint64_t value; /* if known */
};

/* The number of the rule for an operation. 0: there is none. */
uint8_t sg_low_bits_rule(enum sg_op op);
/* True if a constant as operand a, b or c (0, 1, 2) has 64 bits. */
bool sg_low_bits_wide(uint8_t rule, unsigned operand);
/* Knowledge of an operation's result, from its operands in the order of struct sg_insn. */
struct sg_low sg_low_bits(uint8_t rule, struct sg_low a, struct sg_low b, struct sg_low c);

#endif

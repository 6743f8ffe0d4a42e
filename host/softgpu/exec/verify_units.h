/* SPDX-License-Identifier: MIT */
/*
 * Part of the verifier (exec/sg_verify.c): the 128-byte units below slots_begin, which hold special
 * registers and hoisted values. Unlike the units behind them they have mixed widths, so the start
 * of each value is derived from the operands. No two values may overlap, or a write through one
 * would change the other between the check of an address and its use.
 */
#ifndef SG_VERIFY_UNITS_H
#define SG_VERIFY_UNITS_H

#include "exec/code.h"

/* True if the sizes of the kernel's memory go together, as sg_block.c and native code take them. */
bool sg_verify_sizes(const struct sg_code *c);
/* One byte for each unit of an accepted layout, and one more. NULL: out of memory. */
uint8_t *sg_verify_units_new(const struct sg_code *c);
/*
 * Claims an operand of kind and direction w (SG_W_*) at an accepted place. Returns false if it
 * overlaps another value or writes a special register.
 */
bool sg_verify_units_claim(const struct sg_code *c, uint8_t *units, uint32_t op, uint8_t w);
/* True if blocks only read this place: a value computed ahead of them, or a special register. Native
   code keeps its knowledge of the value between uses. */
bool sg_verify_units_ahead(const struct sg_code *c, uint32_t op);
/* After all operands are claimed: true if flat[] agrees with them. Native code reads and writes
   registers according to it. */
bool sg_verify_units_flat(const struct sg_code *c, const uint8_t *units);

#endif

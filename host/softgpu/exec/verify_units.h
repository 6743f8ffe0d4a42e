/* SPDX-License-Identifier: MIT */
/*
 * Part of the verifier (exec/verify.c): the units of 128 bytes below slots_begin, where special registers and
 * hoisted values are. Unlike those behind them they are of mixed widths, so which values begin where is
 * gathered from the operands: no two may overlap, or a write through one would change the other between the
 * check of an address and its use.
 */
#ifndef SG_VERIFY_UNITS_H
#define SG_VERIFY_UNITS_H

#include "exec/code.h"

/* One byte for each unit of a layout that has been accepted, and one more; NULL: out of memory. */
uint8_t *sg_verify_units_new(const struct sg_code *c);
/*
 * An operand of kind and direction w (SG_W_*) at a place that has been accepted. False: it overlaps another value, or
 * writes a special register.
 */
bool sg_verify_units_claim(const struct sg_code *c, uint8_t *units, uint32_t op, uint8_t w);
/* After all operands: does flat[] fit what they say? Native code reads and writes registers by it. */
bool sg_verify_units_flat(const struct sg_code *c, const uint8_t *units);

#endif

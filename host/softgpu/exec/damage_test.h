/* SPDX-License-Identifier: MIT */
/* Random damage to kernels, for exec/verify_test.c. */
#ifndef SG_DAMAGE_TEST_H
#define SG_DAMAGE_TEST_H

#include "exec/bytecode.h"

/* A random number from 0 to n - 1. */
uint32_t td_random(uint32_t n);
/* Changes an instruction, a target list, or an entry of the call table, of flat[] or of
   fields[]. */
void td_damage(struct sg_code *c);
/* Prints and counts fields in operation rows that depend on a rule that does not check them. */
unsigned td_odd_rows(void);

/* The first unit with this value in flat[]; the last unit if there is none. */
uint32_t td_flat_unit(const struct sg_code *c, uint8_t kind);
/* The part of the first sum of 64 bits that is computed ahead for each lane; 0: there is none. */
uint32_t td_ahead_slot(const struct sg_code *c);

/* A texture lookup for which every handle is an image of 8 x 8. */
const struct sg_texture *td_texture(void *unused, uint64_t handle, bool surface);

#endif

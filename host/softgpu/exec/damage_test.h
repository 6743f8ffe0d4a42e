/* SPDX-License-Identifier: MIT */
/* Damage by chance, for exec/verify_test.c. */
#ifndef SG_DAMAGE_TEST_H
#define SG_DAMAGE_TEST_H

#include "exec/bytecode.h"

/* 0 to n - 1. */
uint32_t td_random(uint32_t n);
/* Gives an instruction, a list of targets, or an entry of the table of calls, of flat[] or of fields[] something else. */
void td_damage(struct sg_code *c);
/* Fields of the operations' rows that are left to a rule which does not look at them; printed. */
unsigned td_odd_rows(void);

#endif

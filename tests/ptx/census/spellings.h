/* SPDX-License-Identifier: MIT */
/* Instruction spellings in PTX text, such as "add.s32" or "ld.global.nc.v4.u32". */
#ifndef CENSUS_SPELLINGS_H
#define CENSUS_SPELLINGS_H

#include <stddef.h>
#include <stdio.h>

/* Counts the instructions of one text under its architecture. */
void spell_count(const char *text, size_t len, unsigned arch);
/* Writes "NAME ARCH SPELLING COUNT" lines and forgets the counts. */
void spell_write(FILE *out, const char *name);

#endif

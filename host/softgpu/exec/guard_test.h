/* SPDX-License-Identifier: MIT */
/* Kernels whose code, constants, registers, local memory and stacks lie between pages that cannot be accessed. */
#ifndef SG_GUARD_TEST_H
#define SG_GUARD_TEST_H

#include "exec/bytecode.h"

/*
 * So many bytes that end (but for `align`) where 4 GiB begin that cannot be accessed, behind as many: whatever offset of
 * 32 bits is added, what is outside ends the process. Never freed.
 */
void *tg_room(size_t size, size_t align);
/* Before each launch of the kernel, after native code was made of it: its warps get registers, local memory and stack of
 * that kind when they come to its first instruction. */
void tg_arm(struct sg_code *c);
/* How many warps have since tg_arm(). */
unsigned tg_moved(void);

#endif

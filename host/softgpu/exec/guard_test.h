/* SPDX-License-Identifier: MIT */
/* Kernels whose code, constants, registers, local memory and stacks lie between inaccessible
   pages. */
#ifndef SG_GUARD_TEST_H
#define SG_GUARD_TEST_H

#include "exec/bytecode.h"

/*
 * Allocates size bytes that end (up to `align`) at the start of 4 GiB of inaccessible pages, with
 * as many in front: an access outside, at any 32-bit offset, ends the process. Never freed.
 */
void *tg_room(size_t size, size_t align);
/* Call before each launch of the kernel, after its native code was made: warps move to guarded
   registers, local memory and stack when they reach its first instruction. */
void tg_arm(struct sg_code *c);
/* Number of warps that have moved since tg_arm(). */
unsigned tg_moved(void);

#endif

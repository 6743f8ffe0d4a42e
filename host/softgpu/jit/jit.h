/* SPDX-License-Identifier: MIT */
/*
 * Native code for decoded kernels (x86-64 with AVX-512). The bytecode stays: where a run of
 * instructions without a branch into it begins, the handler of the first one is replaced by native
 * code for the run, so nothing else knows about it. There are three versions of each: for all 32 lanes,
 * for some of them, and for some of the lower 16, where only half of each register is looked at.
 */
#ifndef SG_JIT_H
#define SG_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sg_code;

#if defined(__x86_64__) && defined(SG_HAVE_AVX512)
#define SG_JIT 1
#endif

/*
 * Reserves the memory for code (once; what comes later uses none of the rights a sandbox takes
 * away). Does nothing when VGPU_SOFT_JIT is 0, the handlers in use are not those for AVX-512, or the
 * system does not give executable memory.
 */
void sg_jit_init(void);
bool sg_jit_available(void);
/* After decoding and relocation; fails silently, as the bytecode is complete without it. */
void sg_jit_compile(struct sg_code *c);
void sg_jit_free(struct sg_code *c);

/* ---- memory for code (jit/code_memory.c) ---- */
bool sg_jit_mem_init(void);
/* Copies n bytes of code to where they can run; NULL: no room. */
void *sg_jit_mem_put(const uint8_t *code, size_t n);
void sg_jit_mem_free(void *p, size_t n);

#endif

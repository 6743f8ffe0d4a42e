/* SPDX-License-Identifier: MIT */
/*
 * Native code for decoded kernels (x86-64 with AVX-512 or AVX2). The bytecode stays: for a run of
 * instructions that no branch enters, native code replaces the handler of the first instruction, so
 * nothing else has to know about it. There are three versions of each run: for all 32 lanes, for
 * some of them, and for some of the lower 16, which processes only half of each register. The last
 * two are compiled when they first run.
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
 * Reserves the memory for code, once; everything later works without the rights that a sandbox
 * takes away. Does nothing if VGPU_SOFT_JIT is 0, the processor has neither AVX-512 nor AVX2, or the
 * system provides no executable memory.
 */
void sg_jit_init(void);
bool sg_jit_available(void);
/* Call after decoding and relocation. Fails silently: the bytecode is complete without native
   code. */
void sg_jit_compile(struct sg_code *c);
void sg_jit_free(struct sg_code *c);

/* ---- memory for code (jit/sg_jit_code_memory.c) ---- */
bool sg_jit_mem_init(void);
/* Reserves n bytes of executable memory, which sg_jit_mem_free() frees. NULL: no room. */
void *sg_jit_mem_claim(size_t n);
/* Copies code there. False: the system refuses another mapping. */
bool sg_jit_mem_fill(void *p, const uint8_t *code, size_t n);
/* Both. NULL: one of them fails. */
void *sg_jit_mem_put(const uint8_t *code, size_t n);
void sg_jit_mem_free(void *p, size_t n);

#endif

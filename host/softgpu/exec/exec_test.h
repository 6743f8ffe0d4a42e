/* SPDX-License-Identifier: MIT */
/* Shared by the interpreter's tests: memory with bounds, launching a text, counting results. */
#ifndef SG_EXEC_TEST_H
#define SG_EXEC_TEST_H

#include "ptx/ptx.h"

#include <stdio.h>

/* Device memory: a separate allocation each time, with a live entry in the checked table. */
void *tm_alloc(size_t size);
/* The same without touching it, for gigabytes. */
void *tm_reserve(size_t size);
void tm_free_last(void); /* the latest allocation */
void tm_free_all(void);

struct tk {
    struct sg_module *m;
    struct sg_kernel *k;
    struct sg_diag diag;
};

/* Parses and prepares a kernel; allocates and initialises globals. On failure prints the reason
   and returns false. */
bool tk_open(struct tk *t, const char *text, const char *kernel);
void tk_close(struct tk *t);
/* Launches with a parameter buffer; returns the result and leaves the fault in *f. */
int tk_run(struct tk *t, uint32_t grid, uint32_t block, const void *params, struct sg_fault *f);
int tk_run3(struct tk *t, const uint32_t grid[3], const uint32_t block[3], uint32_t dyn, const void *params,
            struct sg_fault *f);

extern int t_passed, t_failed, t_skipped;
/* One line per test. */
void t_result(const char *name, bool ok, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void t_skip(const char *name, const char *why);
/* True if the base name of argv[0] contains word. */
bool t_started_as(int argc, char **argv, const char *word);
/*
 * Selects what executes by the program's name, a link to the plain one: base, avx2, avx512: the
 * handlers with these instructions; native_avx2, native_avx512: native code without AVX-512, without
 * AVX512-FP16. Call it first.
 */
void t_variant(int argc, char **argv);
int t_end(const char *suite); /* prints the totals; returns the exit status */

/* Device printf output of the last launches. */
extern char t_output[65536];
extern size_t t_output_len;
extern uint64_t t_watchdog;
extern uint32_t t_stack; /* CU_LIMIT_STACK_SIZE of the next launches; 0: the default */
extern volatile int t_abort;
extern bool t_cooperative;
extern uint32_t t_cluster[3]; /* of the next launches; 0,0,0: as the kernel says */
/* Textures of the next launches; NULL: there are none. */
extern const struct sg_texture *(*t_texture)(void *textures, uint64_t handle, bool surface);

#endif

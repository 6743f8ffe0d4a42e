/* SPDX-License-Identifier: MIT */
/*
 * Framework of the conformance suite: named cases, checks, and a line of output per check.
 *
 * A line is `case.check result`; a failed check ends in ` FAIL want ...`. Lines must not depend on
 * addresses, times or the provider, so that the outputs of two ways of running the suite can be
 * compared with diff.
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum cf_flags {
    CF_CTX = 1 << 0,   /* cuInit, primary context of device 0 retained and current */
    CF_ALONE = 1 << 1, /* separate process (sticky errors, no cuInit yet, fork, exit) */
    CF_TWO = 1 << 3,   /* needs two devices: run alone, and only if CONFORM_DEVICES is set */
    CF_UB = 1 << 2,    /* undefined on a physical GPU's own driver: not run with CONFORM_REAL=1 */
};

struct cf_case {
    const char *name;
    void (*run)(void);
    unsigned flags;
};

/* CASE(memory_free, CF_CTX) { ... } defines and registers the case "memory_free". */
#define CASE(ident, case_flags) \
    static void cf_run_##ident(void); \
    static const struct cf_case cf_case_##ident = {#ident, cf_run_##ident, case_flags}; \
    static const struct cf_case *const cf_entry_##ident __attribute__((used, section("cf_cases"))) = \
        &cf_case_##ident; \
    static void cf_run_##ident(void)

/* Print a line each and return whether the check passed. `check` is a short name. */
bool cf_rc(const char *check, CUresult got, CUresult want);
/*
 * Like cf_rc with several allowed results (where CUDA's documentation leaves the choice open); the
 * list ends in -1.
 */
bool cf_rc_in(const char *check, CUresult got, ...);
bool cf_u64(const char *check, uint64_t got, uint64_t want);
bool cf_true(const char *check, bool got);
bool cf_str(const char *check, const char *got, const char *want);
/* Skips a case that cannot run here; does not return. */
void cf_skip(const char *why) __attribute__((noreturn));
/* Ends the case if a preparatory call fails. */
void cf_need(const char *what, CUresult r);
void cf_need_true(const char *what, bool ok);
/* Name of a result as printed by the cases, "CUDA_SUCCESS" etc.; never asks the library. */
const char *cf_result_name(CUresult r);
/* Enumerates the result codes of cuda.h; false at the end. */
bool cf_result_at(unsigned i, CUresult *code, const char **name);

#define RC(check, call, want) cf_rc(check, (call), (want))
#define OK(check, call) cf_rc(check, (call), CUDA_SUCCESS)
#define RC_IN(check, call, ...) cf_rc_in(check, (call), __VA_ARGS__, -1)
#define NEED(call) cf_need(#call, (call))

/* True when the suite runs directly against a physical GPU's driver. */
bool cf_real(void);

/* ---- images (blobs.S) ---- */
extern const char cf_ptx[];                                /* kernels.cu as PTX text, NUL-terminated */
extern const unsigned char cf_fatbin[], cf_fatbin_end[];   /* the same in a fatbin, PTX only */
extern const unsigned char cf_object[], cf_object_end[];   /* a host object with PTX of a function */
extern const unsigned char cf_archive[], cf_archive_end[]; /* an archive of it */
extern const unsigned char cf_sass[], cf_sass_end[];       /* fatbin with SASS of sm_75 only */
extern const unsigned char cf_cubin[], cf_cubin_end[];     /* ELF, sm_75 */

/* ---- small helpers shared by the cases (helpers.c) ---- */
CUmodule cf_module(void); /* cf_ptx loaded, once per context */
void cf_module_forget(void);
CUfunction cf_func(const char *name);
/* Launches with one-dimensional sizes on a stream; params as for cuLaunchKernel. */
CUresult cf_launch(CUfunction f, unsigned grid, unsigned block, unsigned shared, CUstream s, void **params);
/* k_fill on a stream: p[i] = v + i. */
CUresult cf_fill(CUdeviceptr p, unsigned n, unsigned v, CUstream s);
/* True if n words at p are v + i; reads them with cuMemcpyDtoH. */
bool cf_filled(CUdeviceptr p, unsigned n, unsigned v);
/* Deterministic bytes. */
void cf_pattern(void *p, size_t n, unsigned seed);
bool cf_is_pattern(const void *p, size_t n, unsigned seed);

/* A gate: a host function that keeps a stream busy until it is opened. */
struct cf_gate;
struct cf_gate *cf_gate_put(CUstream s);
void cf_gate_open(struct cf_gate *g); /* also frees it, after the function has ended */

/* Waits for a child despite signals (CONFORM_ALARM). Wait status; -1: `pid` is not a child. */
int cf_child_status(pid_t pid);

/* Runs this program again with one hidden mode (`modes` in process.c); returns its wait status. */
int cf_spawn(const char *mode, const char *arg, char *out, size_t out_size);

#endif

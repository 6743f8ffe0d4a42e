/* SPDX-License-Identifier: MIT */
/* CUDA operations of a program, in steps that can fail at any call. */
#ifndef STEPS_H
#define STEPS_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>

#define STEPS_WRONG ((CUresult)-1) /* success, but a wrong result */

/*
 * A step: returns the first error after releasing all objects that it created, whichever call
 * failed.
 */
struct step {
    const char *name;
    CUresult (*run)(void);
    bool keeps; /* libcuda keeps a block of memory each time, by design */
};

/* Lists end with a NULL name. */
extern const struct step steps_memory[], steps_work[];

extern CUmodule steps_module; /* has the kernel `add(u64 p, u32 n)`, which increments n words */
extern CUfunction steps_add;
extern const char steps_ptx[];

/*
 * Handle the first error of a step: TRY jumps to `out`. ALSO keeps the error of clean-up, and tries
 * again: an injected failure occurs once, so a failed release may then succeed.
 */
#define TRY(call) \
    do { \
        r = (call); \
        if (r != CUDA_SUCCESS) \
            goto out; \
    } while (0)
#define ALSO(call) \
    do { \
        CUresult also_ = (call); \
        if (also_ != CUDA_SUCCESS && (call) == CUDA_ERROR_OUT_OF_MEMORY) \
            also_ = STEPS_WRONG; \
        if (r == CUDA_SUCCESS) \
            r = also_; \
    } while (0)

#endif

/* SPDX-License-Identifier: MIT */
/* Shared code of the programs of this folder: a program per library, a run per case. */
#ifndef LIBS_H
#define LIBS_H

#include <cuda_runtime.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct libs_case {
    const char *name;
    void (*run)(void);
};
/* Cases of a program, terminated by an entry without a name; and the name of its library. */
extern const struct libs_case libs_cases[];
extern const char libs_name[];

/* Ends the run if a call fails. */
#define CALL(e) \
    do { \
        int libs_r_ = (int)(e); \
        if (libs_r_ != 0) \
            libs_end("refused", "%s = %d", #e, libs_r_); \
    } while (0)

__attribute__((noreturn, format(printf, 2, 3))) void libs_end(const char *result, const char *fmt, ...);
/* Ends the run: `right` if the largest error is within the tolerance, else `wrong`. */
__attribute__((noreturn)) void libs_judge(double worst, double tolerated);
/*
 * Allocates device memory with a copy of n bytes from `from`; NULL: zeroes. Ends the run on
 * failure.
 */
void *libs_device(const void *from, size_t n);
void libs_read(void *to, const void *from, size_t n);
double libs_random(void); /* [-1, 1), the same in each run */

#endif

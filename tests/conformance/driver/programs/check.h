/* SPDX-License-Identifier: MIT */
/* Checks for programs run by guest tests: exit status 0 passed, 1 failed, 77 not run. */
#ifndef CHECK_H
#define CHECK_H

#include <cuda.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("FAIL: line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)
#define OK(call) check_result((call), CUDA_SUCCESS, #call, __LINE__)
#define RC(call, want) check_result((call), (want), #call, __LINE__)

/* Ends the program with status 1 unless the result is as expected. */
void check_result(CUresult got, CUresult want, const char *call, int line);
/* Ends the program with status 77; the reason is in errno. */
void check_not_run(const char *why) __attribute__((noreturn));

#endif

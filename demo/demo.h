/* SPDX-License-Identifier: MIT */
/*
 * Shared by the demo programs. Each checks its result against the CPU, prints one clear line
 * ("name: what was done: PASS" or "...: FAIL: why") and exits with 0 or 1.
 */
#ifndef DEMO_H
#define DEMO_H

#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the runtime's own words when a call fails. */
#define CHECK(call) \
    do { \
        cudaError_t check_err_ = (call); \
        if (check_err_ != cudaSuccess) { \
            printf("%s:%d: %s: %s (%s): FAIL\n", __FILE__, __LINE__, #call, cudaGetErrorName(check_err_), \
                   cudaGetErrorString(check_err_)); \
            exit(1); \
        } \
    } while (0)

/* The last line of a demo: returns its exit status. */
static inline int demo_result(const char *name, const char *what, bool ok, const char *why)
{
    if (ok)
        printf("%s: %s: PASS\n", name, what);
    else
        printf("%s: %s: FAIL: %s\n", name, what, why);
    return ok ? 0 : 1;
}

#define DEMO_SIDE_MAX 8192

/* PROGRAM [PATH [WIDTH HEIGHT]]: the sides of a picture, which keep their values when none are given; false: not 1 to
 * DEMO_SIDE_MAX, or one without the other. */
static inline bool demo_sides(int argc, char **argv, int *width, int *height)
{
    if (argc == 3)
        return false;
    if (argc > 3) {
        *width = atoi(argv[2]);
        *height = atoi(argv[3]);
    }
    return *width >= 1 && *height >= 1 && *width <= DEMO_SIDE_MAX && *height <= DEMO_SIDE_MAX;
}
#define DEMO_SIDES_WRONG "two sides, each 1 to 8192"

/* A small generator with the same numbers everywhere (xorshift32). */
static inline unsigned demo_random(unsigned *state)
{
    unsigned x = *state;

    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

#endif

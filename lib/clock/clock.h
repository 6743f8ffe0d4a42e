/* SPDX-License-Identifier: MIT */
/* The clock of all processes. */
#ifndef CLK_CLOCK_H
#define CLK_CLOCK_H

#include <stdint.h>
#include <time.h>

#define CLK_NS_IN_MS 1000000u

/* CLOCK_MONOTONIC, nanoseconds. */
static inline uint64_t clk_now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* The same in milliseconds, rounded down. */
static inline int64_t clk_now_ms(void)
{
    return (int64_t)(clk_now_ns() / CLK_NS_IN_MS);
}

#endif

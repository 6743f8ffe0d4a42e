/* SPDX-License-Identifier: MIT */
/*
 * CPU time instead of wall time: on a shared machine only CPU time measures the cost of code. For
 * the software GPU: the time of all kernels, from the file of VGPU_SOFT_PROFILE (exec/profile.h),
 * which is inherited by the processes that run them. For this process: its own clock.
 */
#ifndef PERF_CPU_TIME_H
#define PERF_CPU_TIME_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CPU_TIME_FILES 1000 /* PATH, PATH.1, ...: a file per process */

/*
 * Seconds used by kernels so far; below 0: VGPU_SOFT_PROFILE is not set, or no profile was written.
 */
static inline double cpu_time_kernels(void)
{
    const char *base = getenv("VGPU_SOFT_PROFILE");
    double ns = -1e9;

    for (int i = 0; base && i < CPU_TIME_FILES; i++) {
        unsigned long long n[4];
        char path[4096], line[4096];
        FILE *f;

        snprintf(path, sizeof(path), i ? "%s.%d" : "%s", base, i);
        f = fopen(path, "r");
        if (!f)
            break;
        ns = ns < 0 ? 0 : ns;
        /* lines of handlers start with a fraction */
        while (fgets(line, sizeof(line), f))
            if (sscanf(line, "%llu %llu %llu %llu", &n[0], &n[1], &n[2], &n[3]) == 4)
                ns += (double)n[0];
        fclose(f);
    }
    return ns * 1e-9;
}

/* Seconds used by this process. */
static inline double cpu_time_own(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

#endif

// SPDX-License-Identifier: MIT
/*
 * OpenMP on the GPU, as compiled by GCC: each result is compared with the processor's. Each program has a
 * single region (-DCASE=), except for the last case: GCC's kernels reach every region of a program, so with
 * many regions the software GPU calls functions instead of expanding them.
 */
#include <math.h>
#include <omp.h>
#include <stdio.h>

#define N 2000

static float a[N], b[N];
static int count[16];

#if CASE == 1
static int run(void)
{
    int host = 1;

    printf("%d device, ", omp_get_num_devices());
#pragma omp target map(from : host)
    host = omp_is_initial_device();
    return !host;
}
#elif CASE == 2
static int run(void)
{
    int wrong = 0;

#pragma omp target teams distribute parallel for map(to : a) map(from : b)
    for (int i = 0; i < N; i++)
        b[i] = 2 * a[i] + 1;
    for (int i = 0; i < N; i++)
        wrong += b[i] != 2 * a[i] + 1;
    return wrong == 0;
}
#elif CASE == 3
static int run(void)
{
    double sum = 0, want = 0;

#pragma omp target teams distribute parallel for reduction(+ : sum) map(tofrom : sum) map(to : a)
    for (int i = 0; i < N; i++)
        sum += 0.5 * a[i];
    for (int i = 0; i < N; i++)
        want += 0.5 * a[i];
    return fabs(sum - want) < 1e-9 * want;
}
#elif CASE == 5
#define REGION(k) \
    _Pragma("omp target teams distribute parallel for map(to : a) map(from : b)") for (int i = 0; i < N; \
                                                                                       i++) b[i] = \
        (k)*a[i] + 1; \
    for (int i = 0; i < N; i++) \
        wrong += b[i] != (k)*a[i] + 1; \
    _Pragma("omp target parallel for map(tofrom : count)") for (int i = 0; i < N; i++) \
    { \
        _Pragma("omp atomic") count[i % 16] += k; \
    }

static int run(void)
{
    int wrong = 0, total = 0;

    REGION(1)
    REGION(2)
    REGION(3)
    REGION(4)
    REGION(5)
    REGION(6)
    for (int i = 0; i < 16; i++)
        total += count[i];
    return wrong == 0 && total == 21 * N;
}
#else
static int run(void)
{
    int total = 0;

#pragma omp target parallel for map(tofrom : count)
    for (int i = 0; i < N; i++) {
#pragma omp atomic
        count[i % 16]++;
    }
    for (int i = 0; i < 16; i++)
        total += count[i];
    return total == N && count[3] == N / 16;
}
#endif

int main(void)
{
    int ok;

    for (int i = 0; i < N; i++)
        a[i] = (float)i;
    ok = run();
    printf("%s\n", ok ? "right" : "wrong");
    return !ok;
}

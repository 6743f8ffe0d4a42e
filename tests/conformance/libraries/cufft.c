/* SPDX-License-Identifier: MIT */
/* cuFFT, compared with the definition in double. */
#include "libs.h"

#include <complex.h>
#include <cufft.h>

const char libs_name[] = "cuFFT";

#define MAX 4096
static double complex in[MAX], want[MAX];
static const double turn = 6.283185307179586476925;

/* Transforms a dimension of n elements with stride `step` of an array of `whole` elements. */
static void dft(double complex *x, size_t whole, size_t n, size_t step, int sign)
{
    double complex *t = malloc(n * sizeof(*t));

    for (size_t first = 0; first < whole; first++) {
        if (first / step % n)
            continue;
        for (size_t k = 0; k < n; k++) {
            t[k] = 0;
            for (size_t i = 0; i < n; i++)
                t[k] += x[first + i * step] * cexp(I * sign * turn * (double)(i * k % n) / (double)n);
        }
        for (size_t k = 0; k < n; k++)
            x[first + k * step] = t[k];
    }
    free(t);
}

/* n[rank] elements, `batch` times, forward; type: 0 C2C, 1 Z2Z, 2 R2C, 3 D2Z. */
static void transform(int rank, int *n, int batch, int type)
{
    static const cufftType types[] = {CUFFT_C2C, CUFFT_Z2Z, CUFFT_R2C, CUFFT_D2Z};
    size_t whole = 1, last = (size_t)n[rank - 1], step = 1, half = last / 2 + 1;
    bool real = type >= 2, wide = type & 1;
    double worst = 0, largest = 0;
    cufftHandle plan;

    for (int i = 0; i < rank; i++)
        whole *= (size_t)n[i];
    for (size_t i = 0; i < whole * (size_t)batch; i++)
        want[i] = in[i] = libs_random() + (real ? 0 : I * libs_random());
    for (int b = 0; b < batch; b++, step = 1)
        for (int d = rank; d-- > 0; step *= (size_t)n[d])
            dft(want + (size_t)b * whole, whole, (size_t)n[d], step, -1);

    size_t item = (wide ? 8 : 4) * (real ? 1u : 2u), items = whole * (size_t)batch;
    size_t out_items = real ? items / last * half : items;
    char *raw = malloc(items * 16);
    for (size_t i = 0; i < items; i++) {
        double part[2] = {creal(in[i]), cimag(in[i])};
        for (size_t k = 0; k < (real ? 1u : 2u); k++) {
            float f = (float)part[k];
            memcpy(raw + i * item + k * (wide ? 8 : 4), wide ? (void *)&part[k] : (void *)&f, wide ? 8 : 4);
        }
    }
    void *from = libs_device(raw, items * item), *to = libs_device(NULL, items * 16 + 64 * (size_t)batch);
    CALL(cufftPlanMany(&plan, rank, n, NULL, 1, 0, NULL, 1, 0, types[type], batch));
    if (type == 0)
        CALL(cufftExecC2C(plan, from, to, CUFFT_FORWARD));
    else if (type == 1)
        CALL(cufftExecZ2Z(plan, from, to, CUFFT_FORWARD));
    else if (type == 2)
        CALL(cufftExecR2C(plan, from, to));
    else
        CALL(cufftExecD2Z(plan, from, to));
    char *got = malloc(out_items * 16);
    libs_read(got, to, out_items * (wide ? 16 : 8));
    for (size_t i = 0; i < out_items; i++) {
        size_t at = real ? i / half * last + i % half : i;
        double complex v = wide ? ((double *)got)[2 * i] + I * ((double *)got)[2 * i + 1]
                                : ((float *)got)[2 * i] + I * ((float *)got)[2 * i + 1];
        worst = fmax(worst, cabs(v - want[at]));
        largest = fmax(largest, cabs(want[at]));
    }
    libs_judge(worst / largest, (wide ? 1e-15 : 6e-7) * (3 + log2((double)whole)));
}

#define ONE(name, type, batch, rank, ...) \
    static void name(void) \
    { \
        int n[] = {__VA_ARGS__}; \
        transform(rank, n, batch, type); \
    }
ONE(c2c_256, 0, 1, 1, 256)
ONE(c2c_4096, 0, 1, 1, 4096)
ONE(c2c_105, 0, 5, 1, 105)
ONE(c2c_prime, 0, 3, 1, 127)
ONE(c2c_large_prime, 0, 1, 1, 2003)
ONE(z2z_1000, 1, 2, 1, 1000)
ONE(r2c_512, 2, 4, 1, 512)
ONE(d2z_90, 3, 3, 1, 90)
ONE(c2c_2d, 0, 1, 2, 32, 48)
ONE(r2c_2d, 2, 2, 2, 30, 16)
ONE(z2z_3d, 1, 1, 3, 8, 12, 16)

static void there_and_back(void)
{
    enum { N = 60 };
    float x[N], y[N];
    double worst = 0;
    cufftHandle to, back;
    void *d, *f;

    for (int i = 0; i < N; i++)
        x[i] = (float)libs_random();
    d = libs_device(x, sizeof(x));
    f = libs_device(NULL, (N / 2 + 1) * 8);
    CALL(cufftPlan1d(&to, N, CUFFT_R2C, 1));
    CALL(cufftPlan1d(&back, N, CUFFT_C2R, 1));
    CALL(cufftExecR2C(to, d, f));
    CALL(cufftExecC2R(back, f, d));
    libs_read(y, d, sizeof(y));
    for (int i = 0; i < N; i++)
        worst = fmax(worst, fabs(y[i] / N - x[i]));
    libs_judge(worst, 1e-6);
}

const struct libs_case libs_cases[] = {
    {"c2c-256", c2c_256},
    {"c2c-4096", c2c_4096},
    {"c2c-105-batch", c2c_105},
    {"c2c-127", c2c_prime},
    {"c2c-2003", c2c_large_prime},
    {"z2z-1000", z2z_1000},
    {"r2c-512", r2c_512},
    {"d2z-90", d2z_90},
    {"c2c-2d", c2c_2d},
    {"r2c-2d-batch", r2c_2d},
    {"z2z-3d", z2z_3d},
    {"r2c-c2r", there_and_back},
    {NULL, NULL},
};

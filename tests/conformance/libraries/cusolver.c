/* SPDX-License-Identifier: MIT */
/* cuSOLVER, dense: solutions are substituted into the equation, in double. */
#include "libs.h"

#include <cusolverDn.h>

const char libs_name[] = "cuSOLVER";

enum { N = 65 };
static double a[N * N], b[N], x[N], f[N * N], w[N];
static cusolverDnHandle_t h;
static int *info;

/* Column-major; symmetric, and also positive definite on request. */
static void make(bool symmetric, double diagonal)
{
    for (int j = 0; j < N; j++)
        for (int i = 0; i < N; i++)
            a[i + j * N] = symmetric && i < j ? 0 : libs_random();
    for (int j = 0; symmetric && j < N; j++)
        for (int i = 0; i < j; i++)
            a[i + j * N] = a[j + i * N];
    for (int i = 0; i < N; i++) {
        a[i + i * N] += diagonal;
        b[i] = libs_random();
    }
    CALL(cusolverDnCreate(&h));
    info = libs_device(NULL, 64);
}

static void solved(const double *dx)
{
    double worst = 0;
    int bad;

    libs_read(&bad, info, sizeof(bad));
    if (bad)
        libs_end("wrong", "info %d", bad);
    libs_read(x, dx, sizeof(x));
    for (int i = 0; i < N; i++) {
        double s = -b[i];
        for (int j = 0; j < N; j++)
            s += a[i + j * N] * x[j];
        worst = fmax(worst, fabs(s));
    }
    libs_judge(worst, 1e-11);
}

static void lu(void)
{
    int n;

    make(false, 0);
    double *da = libs_device(a, sizeof(a)), *db = libs_device(b, sizeof(b));
    int *pivot = libs_device(NULL, N * 4);
    CALL(cusolverDnDgetrf_bufferSize(h, N, N, da, N, &n));
    double *work = libs_device(NULL, (size_t)n * 8);
    CALL(cusolverDnDgetrf(h, N, N, da, N, work, pivot, info));
    CALL(cusolverDnDgetrs(h, CUBLAS_OP_N, N, 1, da, N, pivot, db, N, info));
    solved(db);
}

static void cholesky(void)
{
    int n;

    make(true, N);
    double *da = libs_device(a, sizeof(a)), *db = libs_device(b, sizeof(b));
    CALL(cusolverDnDpotrf_bufferSize(h, CUBLAS_FILL_MODE_LOWER, N, da, N, &n));
    double *work = libs_device(NULL, (size_t)n * 8);
    CALL(cusolverDnDpotrf(h, CUBLAS_FILL_MODE_LOWER, N, da, N, work, n, info));
    CALL(cusolverDnDpotrs(h, CUBLAS_FILL_MODE_LOWER, N, 1, da, N, db, N, info));
    solved(db);
}

/* |R'R - A'A|: Q is orthogonal. */
static void qr(void)
{
    double worst = 0;
    int n;

    make(false, 0);
    double *da = libs_device(a, sizeof(a)), *tau = libs_device(NULL, N * 8);
    CALL(cusolverDnDgeqrf_bufferSize(h, N, N, da, N, &n));
    double *work = libs_device(NULL, (size_t)n * 8);
    CALL(cusolverDnDgeqrf(h, N, N, da, N, tau, work, n, info));
    libs_read(f, da, sizeof(f));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double s = 0;
            for (int k = 0; k < N; k++)
                s += a[k + i * N] * a[k + j * N];
            for (int k = 0; k <= (i < j ? i : j); k++)
                s -= f[k + i * N] * f[k + j * N];
            worst = fmax(worst, fabs(s));
        }
    libs_judge(worst, 1e-11);
}

/* |A v - w v| of each eigenvector. */
static void eigen(void)
{
    double worst = 0;
    int n;

    make(true, 0);
    double *da = libs_device(a, sizeof(a)), *dw = libs_device(NULL, sizeof(w));
    CALL(cusolverDnDsyevd_bufferSize(h, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, da, N, dw, &n));
    double *work = libs_device(NULL, (size_t)n * 8);
    CALL(cusolverDnDsyevd(h, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_LOWER, N, da, N, dw, work, n, info));
    libs_read(f, da, sizeof(f));
    libs_read(w, dw, sizeof(w));
    for (int k = 0; k < N; k++)
        for (int i = 0; i < N; i++) {
            double s = -w[k] * f[i + k * N];
            for (int j = 0; j < N; j++)
                s += a[i + j * N] * f[j + k * N];
            worst = fmax(worst, fabs(s));
        }
    libs_judge(worst, 1e-11);
}

/* |U S V' - A| */
static void svd(void)
{
    static double u[N * N], vt[N * N];
    double worst = 0;
    int n;

    make(false, 0);
    double *da = libs_device(a, sizeof(a)), *ds = libs_device(NULL, sizeof(w));
    double *du = libs_device(NULL, sizeof(u)), *dv = libs_device(NULL, sizeof(vt));
    CALL(cusolverDnDgesvd_bufferSize(h, N, N, &n));
    double *work = libs_device(NULL, (size_t)n * 8);
    CALL(cusolverDnDgesvd(h, 'A', 'A', N, N, da, N, ds, du, N, dv, N, work, n, NULL, info));
    libs_read(w, ds, sizeof(w));
    libs_read(u, du, sizeof(u));
    libs_read(vt, dv, sizeof(vt));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double s = -a[i + j * N];
            for (int k = 0; k < N; k++)
                s += u[i + k * N] * w[k] * vt[k + j * N];
            worst = fmax(worst, fabs(s));
        }
    libs_judge(worst, 1e-11);
}

const struct libs_case libs_cases[] = {
    {"getrf-getrs", lu}, {"potrf-potrs", cholesky}, {"geqrf", qr}, {"syevd", eigen}, {"gesvd", svd},
    {NULL, NULL},
};

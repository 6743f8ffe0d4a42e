/* SPDX-License-Identifier: MIT */
/* Level 1 and 2, triangular solves and rank-k updates. */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define E32 0x1p-24
#define E64 0x1p-53

static const int lengths[] = {1, 5, 96, 1000, 20001};
#define LENGTHS (sizeof(lengths) / sizeof(lengths[0]))

static void gemv(bool dbl)
{
    static const int sizes[][2] = {{1, 1}, {33, 17}, {96, 96}, {5, 300}, {257, 64}};

    for (int s = 0; s < 5; s++)
        for (int t = 0; t < 2; t++) {
            const int m = sizes[s][0], n = sizes[s][1], lda = m + s % 2, ix = 1 + s % 3, iy = 1 + t;
            const int nx = t ? m : n, ny = t ? n : m;
            const double alpha = 1.5, beta = s % 2 ? -0.5 : 0;
            const float fa = (float)alpha, fb = (float)beta;
            const cublasOperation_t op = t ? CUBLAS_OP_T : CUBLAS_OP_N;
            const cudaDataType_t type = dbl ? CUDA_R_64F : CUDA_R_32F;
            struct array a = array_new(type, (size_t)lda * (size_t)n), x = array_new(type, (size_t)(nx * ix)),
                         y = array_new(type, (size_t)(ny * iy));
            double *got = malloc(y.n * sizeof(double));

            if (!got)
                abort();
            if (dbl)
                good(cublasDgemv(blas, op, m, n, &alpha, a.d, lda, x.d, ix, &beta, y.d, iy), "cublasDgemv");
            else
                good(cublasSgemv(blas, op, m, n, &fa, a.d, lda, x.d, ix, &fb, y.d, iy), "cublasSgemv");
            array_download(&y, got);
            for (int i = 0; i < ny; i++) {
                double want = 0, size = 0;

                for (int k = 0; k < nx; k++) {
                    const double p = (t ? a.h[i * lda + k] : a.h[k * lda + i]) * x.h[k * ix];

                    want += p;
                    size += fabs(p);
                }
                compare(got[i * iy], alpha * want + beta * y.h[i * iy],
                        (nx + 4) * (dbl ? E64 : E32) * (alpha * size + fabs(beta * y.h[i * iy])) + 1e-300);
            }
            finished();
            free(got);
            array_free(&a);
            array_free(&x);
            array_free(&y);
        }
}
static void c_sgemv(void)
{
    gemv(false);
}
static void c_dgemv(void)
{
    gemv(true);
}

/* Routines that return a number; all use the same vectors. */
static void scalars(int which, bool dbl)
{
    const double e = dbl ? E64 : E32;

    for (size_t l = 0; l < LENGTHS; l++) {
        const int n = lengths[l], inc = 1 + (int)l % 2;
        const cudaDataType_t type = dbl ? CUDA_R_64F : CUDA_R_32F;
        struct array x = array_new(type, (size_t)n * (size_t)inc),
                     y = array_new(type, (size_t)n * (size_t)inc);
        double dot = 0, size = 0, sum = 0, squares = 0, d = 0;
        int most = 0, at = -1;
        float f = 0;

        x.h[(size_t)(n / 2) * (size_t)inc] = -4; /* the largest, once */
        array_upload(&x);
        for (int i = 0; i < n; i++) {
            const double v = x.h[i * inc], w = y.h[i * inc];

            dot += v * w;
            size += fabs(v * w);
            sum += fabs(v);
            squares += v * v;
            if (fabs(v) > fabs(x.h[most * inc]))
                most = i;
        }
        switch (which) {
        case 0:
            good(dbl ? cublasDdot(blas, n, x.d, inc, y.d, inc, &d)
                     : cublasSdot(blas, n, x.d, inc, y.d, inc, &f),
                 "cublas?dot");
            compare(dbl ? d : (double)f, dot, (n + 2) * e * size + 1e-300);
            break;
        case 1:
            good(dbl ? cublasDnrm2(blas, n, x.d, inc, &d) : cublasSnrm2(blas, n, x.d, inc, &f),
                 "cublas?nrm2");
            compare(dbl ? d : (double)f, sqrt(squares), (n + 4) * e * sqrt(squares));
            break;
        case 2:
            good(dbl ? cublasDasum(blas, n, x.d, inc, &d) : cublasSasum(blas, n, x.d, inc, &f),
                 "cublas?asum");
            compare(dbl ? d : (double)f, sum, (n + 2) * e * sum);
            break;
        default:
            good(dbl ? cublasIdamax(blas, n, x.d, inc, &at) : cublasIsamax(blas, n, x.d, inc, &at),
                 "cublasI?amax");
            compare(at, most + 1, 0);
            break;
        }
        finished();
        array_free(&x);
        array_free(&y);
    }
}
static void c_sdot(void)
{
    scalars(0, false);
}
static void c_ddot(void)
{
    scalars(0, true);
}
static void c_snrm2(void)
{
    scalars(1, false);
}
static void c_dnrm2(void)
{
    scalars(1, true);
}
static void c_sasum(void)
{
    scalars(2, false);
}
static void c_isamax(void)
{
    scalars(3, false);
}
static void c_idamax(void)
{
    scalars(3, true);
}

/* y = a x + y (axpy) or x = a x (scal). */
static void update(bool axpy, bool dbl)
{
    const double alpha = -1.25;
    const float fa = -1.25f;

    for (size_t l = 0; l < LENGTHS; l++) {
        const int n = lengths[l], inc = 1 + (int)l % 2;
        const cudaDataType_t type = dbl ? CUDA_R_64F : CUDA_R_32F;
        struct array x = array_new(type, (size_t)n * (size_t)inc),
                     y = array_new(type, (size_t)n * (size_t)inc);
        double *got = malloc(y.n * sizeof(double));

        if (!got)
            abort();
        if (axpy)
            good(dbl ? cublasDaxpy(blas, n, &alpha, x.d, inc, y.d, inc)
                     : cublasSaxpy(blas, n, &fa, x.d, inc, y.d, inc),
                 "cublas?axpy");
        else
            good(dbl ? cublasDscal(blas, n, &alpha, y.d, inc) : cublasSscal(blas, n, &fa, y.d, inc),
                 "cublas?scal");
        array_download(&y, got);
        for (int i = 0; i < n * inc; i++) { /* memory between the elements is unchanged */
            const double want = i % inc ? y.h[i] : axpy ? alpha * x.h[i] + y.h[i] : alpha * y.h[i];
            const double size = fabs(alpha * x.h[i]) + fabs(alpha * y.h[i]);

            compare(got[i], want, i % inc ? 0 : 3 * (dbl ? E64 : E32) * size);
        }
        finished();
        free(got);
        array_free(&x);
        array_free(&y);
    }
}
static void c_saxpy(void)
{
    update(true, false);
}
static void c_daxpy(void)
{
    update(true, true);
}
static void c_sscal(void)
{
    update(false, false);
}
static void c_dscal(void)
{
    update(false, true);
}

/*
 * A X = alpha B or X A = alpha B with triangular A: the solution is substituted into the equation.
 */
static void trsm(bool dbl)
{
    static const int sizes[][2] = {{1, 1}, {17, 5}, {64, 33}, {100, 20}};

    for (int s = 0; s < 4; s++)
        for (int v = 0; v < 16; v++) {
            const bool right = v & 1, upper = v & 2, trans = v & 4, unit = v & 8;
            const int m = sizes[s][0], n = sizes[s][1], k = right ? n : m, lda = k + v % 2, ldb = m;
            const double alpha = 0.5;
            const float fa = 0.5f;
            const cudaDataType_t type = dbl ? CUDA_R_64F : CUDA_R_32F;
            struct array a = array_new(type, (size_t)lda * (size_t)k),
                         b = array_new(type, (size_t)ldb * (size_t)n);
            double *got = malloc(b.n * sizeof(double));
            const cublasSideMode_t side = right ? CUBLAS_SIDE_RIGHT : CUBLAS_SIDE_LEFT;
            const cublasFillMode_t fill = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
            const cublasOperation_t op = trans ? CUBLAS_OP_T : CUBLAS_OP_N;
            const cublasDiagType_t diag = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;

            if (!got)
                abort();
            for (int j = 0; j < k; j++)
                for (int i = 0; i < k; i++) /* well conditioned */
                    a.h[j * lda + i] = i == j ? 2 : rint(a.h[j * lda + i] * 8) / (8.0 * (k < 8 ? 8 : 128));
            array_upload(&a);
            if (dbl)
                good(cublasDtrsm(blas, side, fill, op, diag, m, n, &alpha, a.d, lda, b.d, ldb),
                     "cublasDtrsm");
            else
                good(cublasStrsm(blas, side, fill, op, diag, m, n, &fa, a.d, lda, b.d, ldb), "cublasStrsm");
            array_download(&b, got);
            for (int j = 0; j < n; j++)
                for (int i = 0; i < m; i++) {
                    const int row = right ? j : i;
                    double sum = 0, size = 0;

                    for (int c = 0; c < k; c++) {
                        /* element (row, c) of op(A), or (c, row) for the right side */
                        const int r0 = right ? c : row, c0 = right ? row : c;
                        const int r = trans ? c0 : r0, q = trans ? r0 : c0;
                        const double x = right ? got[c * ldb + i] : got[j * ldb + c];
                        double e = a.h[q * lda + r];

                        if (r == q)
                            e = unit ? 1 : e;
                        else if ((r < q) != upper)
                            e = 0;
                        sum += e * x;
                        size += fabs(e * x);
                    }
                    compare(sum, alpha * b.h[j * ldb + i], (k + 8) * 4 * (dbl ? E64 : E32) * (size + 1));
                }
            finished();
            free(got);
            array_free(&a);
            array_free(&b);
        }
}
static void c_strsm(void)
{
    trsm(false);
}
static void c_dtrsm(void)
{
    trsm(true);
}

static void c_ssyrk(void)
{
    static const int sizes[][2] = {{1, 1}, {17, 33}, {96, 40}, {65, 128}};

    for (int s = 0; s < 4; s++)
        for (int v = 0; v < 4; v++) {
            const bool upper = v & 1, trans = v & 2;
            const int n = sizes[s][0], k = sizes[s][1], lda = (trans ? k : n) + v % 2, ldc = n + 1;
            const float alpha = 2, beta = v ? -1 : 0;
            struct array a = array_new(CUDA_R_32F, (size_t)lda * (size_t)(trans ? n : k)),
                         c = array_new(CUDA_R_32F, (size_t)ldc * (size_t)n);
            double *got = malloc(c.n * sizeof(double));

            if (!got)
                abort();
            good(cublasSsyrk(blas, upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER,
                             trans ? CUBLAS_OP_T : CUBLAS_OP_N, n, k, &alpha, a.d, lda, &beta, c.d, ldc),
                 "cublasSsyrk");
            array_download(&c, got);
            for (int j = 0; j < n; j++)
                for (int i = 0; i < ldc; i++) {
                    const int at = j * ldc + i;
                    double want = 0, size = 0;

                    if (i >= n || (upper ? i > j : i < j)) {
                        compare(got[at], c.h[at], 0);
                        continue;
                    }
                    for (int p = 0; p < k; p++) {
                        const double x =
                            trans ? a.h[i * lda + p] * a.h[j * lda + p] : a.h[p * lda + i] * a.h[p * lda + j];

                        want += x;
                        size += fabs(x);
                    }
                    compare(got[at], (double)alpha * want + (double)beta * c.h[at],
                            (k + 4) * E32 * ((double)alpha * size + fabs(c.h[at])) + 1e-300);
                }
            finished();
            free(got);
            array_free(&a);
            array_free(&c);
        }
}

const struct blas_case vector_cases[] = {
    {"sgemv", c_sgemv, false}, {"dgemv", c_dgemv, false},   {"sdot", c_sdot, false},
    {"ddot", c_ddot, false},   {"snrm2", c_snrm2, false},   {"dnrm2", c_dnrm2, false},
    {"sasum", c_sasum, false}, {"isamax", c_isamax, false}, {"idamax", c_idamax, false},
    {"saxpy", c_saxpy, false}, {"daxpy", c_daxpy, false},   {"sscal", c_sscal, false},
    {"dscal", c_dscal, false}, {"strsm", c_strsm, false},   {"dtrsm", c_dtrsm, false},
    {"ssyrk", c_ssyrk, false}, {NULL, NULL, false},
};

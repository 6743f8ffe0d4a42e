/* SPDX-License-Identifier: MIT */
/* Shared code of the cases of tests/conformance/blas. Matrices are column-major, as in BLAS. */
#ifndef BLAS_H
#define BLAS_H

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An array: host copy in double, device copy in its own type. */
struct array {
    double *h;
    void *d;
    cudaDataType_t type;
    size_t n;
};

/*
 * n values from -1 to 1 that are exact in the type: 53 or 24 bits, multiples of 1/64 for half
 * types; whole numbers from -8 to 7 for integers.
 */
struct array array_new(cudaDataType_t type, size_t n);
void array_free(struct array *a);
void array_upload(const struct array *a); /* copies h to d */
void array_download(const struct array *a, double *out);
size_t type_size(cudaDataType_t type);
/* Relative error of a single rounding to the type. */
double type_epsilon(cudaDataType_t type);

extern cublasHandle_t blas;

/* Findings of a case. */
extern int calls, wrong;
extern double worst; /* largest error seen, as a share of the tolerance */
extern char refused[400];

/* True if the call succeeded, on the host and on the device; otherwise ends the case. */
bool good(cublasStatus_t status, const char *what);
/* Compares a result with its reference; scale: sum of the magnitudes of its terms. */
void compare(double got, double want, double tolerated);
void finished(void); /* counts a call whose results were compared */

/* A gemm by any entry point: op(A) is m x k, op(B) k x n. */
struct gemm {
    cublasOperation_t ta, tb;
    int m, n, k, lda, ldb, ldc, batch;
    double alpha, beta;
    struct array a, b, c;
    size_t sa, sb, sc; /* elements between consecutive matrices */
};
typedef cublasStatus_t (*gemm_fn)(const struct gemm *g);
/* Runs all shapes, transposes and factors; compute: type of the accumulated sums. */
void run_gemm(const char *name, cudaDataType_t ab, cudaDataType_t c, cudaDataType_t compute, int batch,
              gemm_fn fn);

struct blas_case {
    const char *name;
    void (*run)(void);
    bool known_refused; /* cuBLAS has no PTX for it: a refusal passes, a wrong result fails */
};
extern const struct blas_case gemm_cases[], vector_cases[], lt_cases[];

#endif

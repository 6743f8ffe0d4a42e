/* SPDX-License-Identifier: MIT */
/* Matrix products by all entry points. */
#include "blas.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The toolkit's header declares it for C++ only, because of __half. */
cublasStatus_t cublasHgemm(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                           const void *alpha, const void *a, int lda, const void *b, int ldb,
                           const void *beta, void *c, int ldc);

static const int shapes[][3] = {{1, 1, 1},   {17, 5, 33},   {96, 96, 96}, {64, 1, 128},
                                {1, 40, 31}, {128, 64, 40}, {7, 65, 129}};
static const double factors[][2] = {{1, 0}, {-0.5, 2}, {2, 1}, {0, 0.5}};

static double element(const struct array *x, size_t base, int ld, bool t, int row, int col)
{
    return x->h[base + (t ? (size_t)row * (size_t)ld + (size_t)col : (size_t)col * (size_t)ld + (size_t)row)];
}

static void check_gemm(const struct gemm *g, cudaDataType_t compute, const double *got)
{
    const double out = type_epsilon(g->c.type), sum = type_epsilon(compute);

    for (int b = 0; b < g->batch; b++)
        for (int j = 0; j < g->n; j++)
            for (int i = 0; i < g->m; i++) {
                const size_t at = (size_t)b * g->sc + (size_t)j * (size_t)g->ldc + (size_t)i;
                const double old = g->beta * g->c.h[at];
                double want = 0, size = 0;

                for (int k = 0; k < g->k; k++) {
                    const double p = element(&g->a, (size_t)b * g->sa, g->lda, g->ta != CUBLAS_OP_N, i, k) *
                                     element(&g->b, (size_t)b * g->sb, g->ldb, g->tb != CUBLAS_OP_N, k, j);

                    want += p;
                    size += fabs(p);
                }
                want = g->alpha * want + old;
                size = fabs(g->alpha) * size + fabs(old);
                /*
                 * One rounding of the sum per product, in any order, and one rounding of the
                 * result.
                 */
                compare(got[at], want, (2 + g->k) * sum * size + 2 * out * fabs(want) + 1e-30);
            }
    /* Memory between columns must be unchanged. */
    for (int j = 0; j < g->n; j++)
        for (int i = g->m; i < g->ldc; i++) {
            const size_t at = (size_t)j * (size_t)g->ldc + (size_t)i;

            if (got[at] != g->c.h[at])
                worst = INFINITY;
        }
}

void run_gemm(const char *name, cudaDataType_t ab, cudaDataType_t c, cudaDataType_t compute, int batch,
              gemm_fn fn)
{
    const bool whole = ab == CUDA_R_8I;
    int turn = 0;

    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++)
        for (int t = 0; t < 4; t++, turn++) {
            struct gemm g = {.m = shapes[s][0],
                             .n = shapes[s][1],
                             .k = shapes[s][2],
                             .batch = batch,
                             .ta = t & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                             .tb = t & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                             .alpha = factors[turn % 4][0],
                             .beta = factors[turn % 4][1]};
            const int pad = whole ? 0 : turn % 3;
            double *got;

            if (whole) { /* integer products require multiples of 4 and whole factors */
                g.m = (g.m + 3) & ~3;
                g.n = (g.n + 3) & ~3;
                g.k = (g.k + 3) & ~3;
                g.alpha = 1;
                g.beta = turn & 1;
            }
            g.lda = (g.ta ? g.k : g.m) + pad;
            g.ldb = (g.tb ? g.n : g.k) + pad;
            g.ldc = g.m + pad;
            g.sa = (size_t)g.lda * (size_t)(g.ta ? g.m : g.k);
            g.sb = (size_t)g.ldb * (size_t)(g.tb ? g.k : g.n);
            g.sc = (size_t)g.ldc * (size_t)g.n;
            g.a = array_new(ab, g.sa * (size_t)batch);
            g.b = array_new(ab, g.sb * (size_t)batch);
            g.c = array_new(c, g.sc * (size_t)batch);
            got = malloc(g.c.n * sizeof(double));
            if (!got)
                abort();
            if (good(fn(&g), name)) {
                array_download(&g.c, got);
                check_gemm(&g, compute, got);
                finished();
            }
            free(got);
            array_free(&g.a);
            array_free(&g.b);
            array_free(&g.c);
        }
}

static cublasStatus_t sgemm(const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;

    return cublasSgemm(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, g->lda, g->b.d, g->ldb, &beta,
                       g->c.d, g->ldc);
}
static cublasStatus_t dgemm(const struct gemm *g)
{
    return cublasDgemm(blas, g->ta, g->tb, g->m, g->n, g->k, &g->alpha, g->a.d, g->lda, g->b.d, g->ldb,
                       &g->beta, g->c.d, g->ldc);
}

/* cublasGemmEx and its batched forms with f32 factors. */
static cublasStatus_t ex(const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;

    return cublasGemmEx(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, g->a.type, g->lda, g->b.d,
                        g->b.type, g->ldb, &beta, g->c.d, g->c.type, g->ldc, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
}
static uint16_t half_factor(double x)
{
    return x == 0 ? 0 : x == 1 ? 0x3c00 : x == 2 ? 0x4000 : x == 0.5 ? 0x3800 : 0xb800; /* -0.5 */
}
static cublasStatus_t ex16(const struct gemm *g)
{
    const uint16_t alpha = half_factor(g->alpha), beta = half_factor(g->beta);

    return cublasGemmEx(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, CUDA_R_16F, g->lda, g->b.d,
                        CUDA_R_16F, g->ldb, &beta, g->c.d, CUDA_R_16F, g->ldc, CUBLAS_COMPUTE_16F,
                        CUBLAS_GEMM_DEFAULT);
}
static cublasStatus_t hgemm(const struct gemm *g)
{
    const uint16_t alpha = half_factor(g->alpha), beta = half_factor(g->beta);

    return cublasHgemm(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, g->lda, g->b.d, g->ldb, &beta,
                       g->c.d, g->ldc);
}
static cublasStatus_t ex8(const struct gemm *g)
{
    const int alpha = (int)g->alpha, beta = (int)g->beta;

    return cublasGemmEx(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, CUDA_R_8I, g->lda, g->b.d,
                        CUDA_R_8I, g->ldb, &beta, g->c.d, CUDA_R_32I, g->ldc, CUBLAS_COMPUTE_32I,
                        CUBLAS_GEMM_DEFAULT);
}
static cublasStatus_t strided(const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;

    return cublasSgemmStridedBatched(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, g->lda,
                                     (long long)g->sa, g->b.d, g->ldb, (long long)g->sb, &beta, g->c.d,
                                     g->ldc, (long long)g->sc, g->batch);
}
static cublasStatus_t strided_ex(const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;

    return cublasGemmStridedBatchedEx(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, g->a.d, g->a.type, g->lda,
                                      (long long)g->sa, g->b.d, g->b.type, g->ldb, (long long)g->sb, &beta,
                                      g->c.d, g->c.type, g->ldc, (long long)g->sc, g->batch,
                                      CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

/* Arrays of pointers in device memory. */
static cublasStatus_t pointers(const struct gemm *g)
{
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    const void *host[3][8];
    void **p;
    cublasStatus_t r;

    for (int b = 0; b < g->batch; b++) {
        host[0][b] = (char *)g->a.d + (size_t)b * g->sa * type_size(g->a.type);
        host[1][b] = (char *)g->b.d + (size_t)b * g->sb * type_size(g->b.type);
        host[2][b] = (char *)g->c.d + (size_t)b * g->sc * type_size(g->c.type);
    }
    if (cudaMalloc((void **)&p, sizeof(host)) || cudaMemcpy(p, host, sizeof(host), cudaMemcpyHostToDevice))
        return CUBLAS_STATUS_ALLOC_FAILED;
    if (g->a.type == CUDA_R_32F)
        r = cublasSgemmBatched(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, (const float *const *)p, g->lda,
                               (const float *const *)(p + 8), g->ldb, &beta, (float *const *)(p + 16), g->ldc,
                               g->batch);
    else
        r = cublasGemmBatchedEx(blas, g->ta, g->tb, g->m, g->n, g->k, &alpha, (const void *const *)p,
                                g->a.type, g->lda, (const void *const *)(p + 8), g->b.type, g->ldb, &beta,
                                (void *const *)(p + 16), g->c.type, g->ldc, g->batch, CUBLAS_COMPUTE_32F,
                                CUBLAS_GEMM_DEFAULT);
    if (!r)
        cudaDeviceSynchronize();
    cudaFree(p);
    return r;
}

#define F64 CUDA_R_64F
#define F32 CUDA_R_32F
#define F16 CUDA_R_16F
#define BF16 CUDA_R_16BF
static void c_sgemm(void)
{
    run_gemm("cublasSgemm", F32, F32, F32, 1, sgemm);
}
static void c_dgemm(void)
{
    run_gemm("cublasDgemm", F64, F64, F64, 1, dgemm);
}
static void c_hgemm(void)
{
    run_gemm("cublasHgemm", F16, F16, F16, 1, hgemm);
}
static void c_ex32(void)
{
    run_gemm("cublasGemmEx", F32, F32, F32, 1, ex);
}
static void c_ex16_32(void)
{
    run_gemm("cublasGemmEx", F16, F32, F32, 1, ex);
}
static void c_ex16_16(void)
{
    run_gemm("cublasGemmEx", F16, F16, F32, 1, ex);
}
static void c_ex16c16(void)
{
    run_gemm("cublasGemmEx", F16, F16, F16, 1, ex16);
}
static void c_exb_32(void)
{
    run_gemm("cublasGemmEx", BF16, F32, F32, 1, ex);
}
static void c_exb_b(void)
{
    run_gemm("cublasGemmEx", BF16, BF16, F32, 1, ex);
}
static void c_ex8(void)
{
    run_gemm("cublasGemmEx", CUDA_R_8I, CUDA_R_32I, CUDA_R_32I, 1, ex8);
}
static void c_strided(void)
{
    run_gemm("cublasSgemmStridedBatched", F32, F32, F32, 3, strided);
}
static void c_strided16(void)
{
    run_gemm("cublasGemmStridedBatchedEx", F16, F32, F32, 3, strided_ex);
}
static void c_stridedb(void)
{
    run_gemm("cublasGemmStridedBatchedEx", BF16, F32, F32, 3, strided_ex);
}
static void c_batched(void)
{
    run_gemm("cublasSgemmBatched", F32, F32, F32, 3, pointers);
}
static void c_batched16(void)
{
    run_gemm("cublasGemmBatchedEx", F16, F16, F32, 3, pointers);
}

const struct blas_case gemm_cases[] = {
    {"sgemm", c_sgemm, false},
    {"dgemm", c_dgemm, false},
    {"hgemm", c_hgemm, false},
    {"gemmEx-f32", c_ex32, false},
    {"gemmEx-f16-out-f32", c_ex16_32, false},
    {"gemmEx-f16", c_ex16_16, false},
    {"gemmEx-f16-compute-f16", c_ex16c16, false},
    {"gemmEx-bf16-out-f32", c_exb_32, false},
    {"gemmEx-bf16", c_exb_b, false},
    {"gemmEx-s8", c_ex8, true},
    {"sgemmStridedBatched", c_strided, false},
    {"gemmStridedBatchedEx-f16", c_strided16, false},
    {"gemmStridedBatchedEx-bf16", c_stridedb, false},
    {"sgemmBatched", c_batched, false},
    {"gemmBatchedEx-f16", c_batched16, false},
    {NULL, NULL, false},
};

/* SPDX-License-Identifier: MIT */
/* cublasLtMatmul with the algorithm chosen by its heuristic, also with bias and activation. */
#include "blas.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORKSPACE (4u << 20)

static cublasLtHandle_t lt;
static cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
static void *bias;

static cublasStatus_t layout(cublasLtMatrixLayout_t *l, const struct array *x, int rows, int cols, int ld,
                             int batch, size_t stride)
{
    const int64_t s = (int64_t)stride;
    cublasStatus_t r = cublasLtMatrixLayoutCreate(l, x->type, (uint64_t)rows, (uint64_t)cols, ld);

    if (!r && batch > 1)
        r = cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch));
    if (!r && batch > 1)
        r = cublasLtMatrixLayoutSetAttribute(*l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &s, sizeof(s));
    return r;
}

#define TRY(call) \
    do { \
        r = (call); \
        if (r) \
            return r; \
    } while (0)

static cublasStatus_t matmul(const struct gemm *g)
{
    const bool dbl = g->c.type == CUDA_R_64F;
    const float alpha = (float)g->alpha, beta = (float)g->beta;
    const size_t room = WORKSPACE;
    cublasLtMatmulDesc_t d;
    cublasLtMatrixLayout_t a, b, c;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t found;
    void *workspace;
    int n = 0;
    cublasStatus_t r;

    if (!lt)
        TRY(cublasLtCreate(&lt));
    TRY(cublasLtMatmulDescCreate(&d, dbl ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 dbl ? CUDA_R_64F : CUDA_R_32F));
    TRY(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &g->ta, sizeof(g->ta)));
    TRY(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &g->tb, sizeof(g->tb)));
    TRY(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof(epilogue)));
    if (bias)
        TRY(cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(bias)));
    TRY(layout(&a, &g->a, g->ta ? g->k : g->m, g->ta ? g->m : g->k, g->lda, g->batch, g->sa));
    TRY(layout(&b, &g->b, g->tb ? g->n : g->k, g->tb ? g->k : g->n, g->ldb, g->batch, g->sb));
    TRY(layout(&c, &g->c, g->m, g->n, g->ldc, g->batch, g->sc));
    TRY(cublasLtMatmulPreferenceCreate(&preference));
    TRY(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room,
                                             sizeof(room)));
    TRY(cublasLtMatmulAlgoGetHeuristic(lt, d, a, b, c, c, preference, 1, &found, &n));
    if (!n)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (cudaMalloc(&workspace, WORKSPACE))
        return CUBLAS_STATUS_ALLOC_FAILED;
    r = cublasLtMatmul(lt, d, dbl ? (const void *)&g->alpha : &alpha, g->a.d, a, g->b.d, b,
                       dbl ? (const void *)&g->beta : &beta, g->c.d, c, g->c.d, c, &found.algo, workspace,
                       WORKSPACE, 0);
    if (!r)
        cudaDeviceSynchronize();
    cudaFree(workspace);
    cublasLtMatmulPreferenceDestroy(preference);
    cublasLtMatrixLayoutDestroy(a);
    cublasLtMatrixLayoutDestroy(b);
    cublasLtMatrixLayoutDestroy(c);
    cublasLtMatmulDescDestroy(d);
    return r;
}

#define F32 CUDA_R_32F
#define F16 CUDA_R_16F
#define BF16 CUDA_R_16BF
static void c_f32(void)
{
    run_gemm("cublasLtMatmul", F32, F32, F32, 1, matmul);
}
static void c_f64(void)
{
    run_gemm("cublasLtMatmul", CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, 1, matmul);
}
static void c_f16(void)
{
    run_gemm("cublasLtMatmul", F16, F16, F32, 1, matmul);
}
static void c_f16_f32(void)
{
    run_gemm("cublasLtMatmul", F16, F32, F32, 1, matmul);
}
static void c_bf16(void)
{
    run_gemm("cublasLtMatmul", BF16, BF16, F32, 1, matmul);
}
static void c_batch(void)
{
    run_gemm("cublasLtMatmul", F32, F32, F32, 3, matmul);
}

/* max(0, A B + bias): one shape, aligned as the epilogues require. */
static void c_relu_bias(void)
{
    struct gemm g = {.m = 64, .n = 40, .k = 32, .lda = 64, .ldb = 32, .ldc = 64, .batch = 1, .alpha = 1};
    struct array v = array_new(F32, 64);
    double *got = malloc(64 * 40 * sizeof(double));

    if (!got)
        abort();
    g.a = array_new(F32, 64 * 32);
    g.b = array_new(F32, 32 * 40);
    g.c = array_new(F32, 64 * 40);
    epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    bias = v.d;
    good(matmul(&g), "cublasLtMatmul");
    array_download(&g.c, got);
    for (int j = 0; j < g.n; j++)
        for (int i = 0; i < g.m; i++) {
            double want = v.h[i];

            for (int k = 0; k < g.k; k++)
                want += g.a.h[k * g.lda + i] * g.b.h[j * g.ldb + k];
            compare(got[j * g.ldc + i], fmax(want, 0), 64 * 0x1p-24 * g.k);
        }
    finished();
    free(got);
    array_free(&v);
    array_free(&g.a);
    array_free(&g.b);
    array_free(&g.c);
}

const struct blas_case lt_cases[] = {
    {"ltMatmul-f32", c_f32, false},
    {"ltMatmul-f64", c_f64, false},
    {"ltMatmul-f16", c_f16, false},
    {"ltMatmul-f16-out-f32", c_f16_f32, false},
    {"ltMatmul-bf16", c_bf16, false},
    {"ltMatmul-batched", c_batch, false},
    {"ltMatmul-relu-bias", c_relu_bias, false},
    {NULL, NULL, false},
};

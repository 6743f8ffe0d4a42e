/* SPDX-License-Identifier: MIT */
/* cuSPARSE, compared with sums in double. */
#include "libs.h"

#include <cusparse.h>

const char libs_name[] = "cuSPARSE";

enum { ROWS = 300, COLS = 200, MOST = ROWS * 12, WIDE = 7 };
static int row[ROWS + 1], row_of[MOST], col[MOST];
static float value[MOST], x[COLS * WIDE], y[ROWS * WIDE];
static int count;
static cusparseHandle_t h;

static void make(void)
{
    for (int i = 0; i < ROWS; i++) {
        int last = -1;

        row[i] = count;
        for (int k = 0; k < i % 12; k++) {
            last += 1 + (int)((libs_random() + 1) * 7);
            row_of[count] = i;
            col[count] = last;
            value[count++] = (float)libs_random();
        }
    }
    row[ROWS] = count;
    for (int i = 0; i < COLS * WIDE; i++)
        x[i] = (float)libs_random();
    CALL(cusparseCreate(&h));
}

/* y = A x, for `wide` consecutive columns of x. */
static void judge(const float *dy, int wide)
{
    double worst = 0;

    libs_read(y, dy, (size_t)(ROWS * wide) * 4);
    for (int c = 0; c < wide; c++)
        for (int i = 0; i < ROWS; i++) {
            double s = -y[i + c * ROWS];
            for (int k = row[i]; k < row[i + 1]; k++)
                s += (double)value[k] * x[col[k] + c * COLS];
            worst = fmax(worst, fabs(s));
        }
    libs_judge(worst, 2e-6);
}

static cusparseSpMatDescr_t matrix(bool csr)
{
    cusparseSpMatDescr_t m;
    void *r = csr ? libs_device(row, sizeof(row)) : libs_device(row_of, (size_t)count * 4);
    void *c = libs_device(col, (size_t)count * 4), *v = libs_device(value, (size_t)count * 4);

    if (csr)
        CALL(cusparseCreateCsr(&m, ROWS, COLS, count, r, c, v, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_32I,
                               CUSPARSE_INDEX_BASE_ZERO, CUDA_R_32F));
    else
        CALL(cusparseCreateCoo(&m, ROWS, COLS, count, r, c, v, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_BASE_ZERO,
                               CUDA_R_32F));
    return m;
}

static void times_vector(bool csr)
{
    float one = 1, zero = 0;
    cusparseDnVecDescr_t vx, vy;
    size_t bytes;

    make();
    cusparseSpMatDescr_t m = matrix(csr);
    float *dy = libs_device(NULL, ROWS * 4);
    CALL(cusparseCreateDnVec(&vx, COLS, libs_device(x, COLS * 4), CUDA_R_32F));
    CALL(cusparseCreateDnVec(&vy, ROWS, dy, CUDA_R_32F));
    CALL(cusparseSpMV_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m, vx, &zero, vy, CUDA_R_32F,
                                 CUSPARSE_SPMV_ALG_DEFAULT, &bytes));
    CALL(cusparseSpMV(h, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m, vx, &zero, vy, CUDA_R_32F,
                      CUSPARSE_SPMV_ALG_DEFAULT, libs_device(NULL, bytes + 8)));
    judge(dy, 1);
}

static void csr_vector(void)
{
    times_vector(true);
}
static void coo_vector(void)
{
    times_vector(false);
}

static void csr_matrix(void)
{
    float one = 1, zero = 0;
    cusparseDnMatDescr_t mx, my;
    size_t bytes;

    make();
    cusparseSpMatDescr_t m = matrix(true);
    float *dy = libs_device(NULL, sizeof(y));
    CALL(cusparseCreateDnMat(&mx, COLS, WIDE, COLS, libs_device(x, sizeof(x)), CUDA_R_32F,
                             CUSPARSE_ORDER_COL));
    CALL(cusparseCreateDnMat(&my, ROWS, WIDE, ROWS, dy, CUDA_R_32F, CUSPARSE_ORDER_COL));
    CALL(cusparseSpMM_bufferSize(h, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one,
                                 m, mx, &zero, my, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, &bytes));
    CALL(cusparseSpMM(h, CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_OPERATION_NON_TRANSPOSE, &one, m, mx,
                      &zero, my, CUDA_R_32F, CUSPARSE_SPMM_ALG_DEFAULT, libs_device(NULL, bytes + 8)));
    judge(dy, WIDE);
}

static void to_dense(void)
{
    static float dense[ROWS * COLS];
    cusparseDnMatDescr_t d;
    double worst = 0;
    size_t bytes;

    make();
    cusparseSpMatDescr_t m = matrix(true);
    float *dd = libs_device(NULL, sizeof(dense));
    CALL(cusparseCreateDnMat(&d, ROWS, COLS, ROWS, dd, CUDA_R_32F, CUSPARSE_ORDER_COL));
    CALL(cusparseSparseToDense_bufferSize(h, m, d, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, &bytes));
    CALL(cusparseSparseToDense(h, m, d, CUSPARSE_SPARSETODENSE_ALG_DEFAULT, libs_device(NULL, bytes + 8)));
    libs_read(dense, dd, sizeof(dense));
    for (int k = 0; k < count; k++)
        dense[row_of[k] + col[k] * ROWS] -= value[k];
    for (int i = 0; i < ROWS * COLS; i++)
        worst = fmax(worst, fabs(dense[i]));
    libs_judge(worst, 0);
}

const struct libs_case libs_cases[] = {
    {"csr-vector", csr_vector},
    {"coo-vector", coo_vector},
    {"csr-matrix", csr_matrix},
    {"csr-to-dense", to_dense},
    {NULL, NULL},
};

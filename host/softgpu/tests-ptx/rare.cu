// SPDX-License-Identifier: MIT
// Matrix instructions that are rare (sg_exec_mma2_test.c): f64 by wmma and mma, 4 bits, 1 bit.
#include <mma.h>
using namespace nvcuda;

// d = a * b + c, 8 x 8 x 4
extern "C" __global__ void wmma_f64(double *p)
{
    wmma::fragment<wmma::matrix_a, 8, 8, 4, double, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 8, 8, 4, double, wmma::col_major> b;
    wmma::fragment<wmma::accumulator, 8, 8, 4, double> c;
    __shared__ double shared[32];
    shared[threadIdx.x] = p[threadIdx.x];
    __syncthreads();
    wmma::load_matrix_sync(a, shared, 4);
    wmma::load_matrix_sync(b, p + 32, 4);
    wmma::load_matrix_sync(c, p + 64, 8, wmma::mem_row_major);
    wmma::mma_sync(c, a, b, c);
    wmma::store_matrix_sync(p + 128, c, 8, wmma::mem_col_major);
}

// 16 x 8 x 16: a at p, b (by columns) at p + 256, the result at p + 384
extern "C" __global__ void mma_f64(double *p)
{
    int l = threadIdx.x, g = l / 4, t = l % 4;
    double a[8], b[4], d[4] = {1, 2, 3, 4};
    for (int r = 0; r < 8; r++)
        a[r] = p[(g + r % 2 * 8) * 16 + t + r / 2 * 4];
    for (int r = 0; r < 4; r++)
        b[r] = p[256 + g * 16 + t + r * 4];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7,%8,%9,%10,%11}, {%12,%13,%14,%15}, {%0,%1,%2,%3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
                   "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
    for (int r = 0; r < 4; r++)
        p[384 + (g + r / 2 * 8) * 8 + t * 2 + r % 2] = d[r];
}

// 16 x 8 x 64 of s4 and u4, 16 x 8 x 256 of bits; rows of 8 words of a, columns of 8 words of b
extern "C" __global__ void mma_bits(unsigned *a, unsigned *b, int *d)
{
    int l = threadIdx.x, g = l / 4, t = l % 4;
    int c[3][4] = {};
    unsigned x[4], y[2];
    for (int r = 0; r < 4; r++)
        x[r] = a[(g + r % 2 * 8) * 8 + t + r / 2 * 4];
    for (int r = 0; r < 2; r++)
        y[r] = b[g * 8 + t + r * 4];
#define MMA(i, text)                                                                               \
    asm volatile("mma.sync.aligned." text " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
                 : "+r"(c[i][0]), "+r"(c[i][1]), "+r"(c[i][2]), "+r"(c[i][3])                      \
                 : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]))
    MMA(0, "m16n8k64.row.col.s32.s4.u4.s32");
    MMA(1, "m16n8k256.row.col.s32.b1.b1.s32.xor.popc");
    MMA(2, "m16n8k256.row.col.s32.b1.b1.s32.and.popc");
    for (int i = 0; i < 3; i++)
        for (int r = 0; r < 4; r++)
            d[i * 128 + (g + r / 2 * 8) * 8 + t * 2 + r % 2] = c[i][r];
}

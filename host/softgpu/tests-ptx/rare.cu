// SPDX-License-Identifier: MIT
// Matrix instructions that are rare (exec/ops/mma_rare_test.c): f64 by wmma and mma, 4 bits, 1 bit.
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

// 8 x 8 x 32 of 4 bits (rows of 4 words), 8 x 8 x 128 of bits: each d[64] of its own.
using wmma::experimental::precision::b1;
using wmma::experimental::precision::s4;
using wmma::experimental::precision::u4;

extern "C" __global__ void wmma_bits(unsigned *a, unsigned *b, int *d)
{
    __shared__ unsigned copy[32];
    copy[threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    {
        wmma::fragment<wmma::matrix_a, 8, 8, 32, s4, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 8, 8, 32, s4, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 8, 8, 32, int> c;
        wmma::load_matrix_sync(c, d, 8, wmma::mem_row_major);
        wmma::load_matrix_sync(x, a, 32);
        wmma::load_matrix_sync(y, b, 32);
        wmma::mma_sync(c, x, y, c);
        wmma::store_matrix_sync(d, c, 8, wmma::mem_row_major);
    }
    {
        wmma::fragment<wmma::matrix_a, 8, 8, 32, u4, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 8, 8, 32, u4, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 8, 8, 32, int> c;
        wmma::load_matrix_sync(c, d + 64, 8, wmma::mem_col_major);
        wmma::load_matrix_sync(x, copy, 32);
        wmma::load_matrix_sync(y, b, 32);
        wmma::mma_sync(c, x, y, c, true);
        wmma::store_matrix_sync(d + 64, c, 8, wmma::mem_col_major);
    }
    {
        wmma::fragment<wmma::matrix_a, 8, 8, 128, b1, wmma::row_major> x;
        wmma::fragment<wmma::matrix_b, 8, 8, 128, b1, wmma::col_major> y;
        wmma::fragment<wmma::accumulator, 8, 8, 128, int> c;
        wmma::fill_fragment(c, 7);
        wmma::load_matrix_sync(x, a, 128);
        wmma::load_matrix_sync(y, b, 128);
        wmma::bmma_sync(c, x, y, c);
        wmma::bmma_sync(c, x, y, c, wmma::experimental::bmmaBitOpAND);
        wmma::store_matrix_sync(d + 128, c, 8, wmma::mem_row_major);
    }
}

// Sixteen bytes at once: each thread adds 1 to the high and 3 to the low half, under one name.
extern "C" __global__ void wide(unsigned __int128 *p, unsigned __int128 *old)
{
#if __CUDA_ARCH__ >= 900
    unsigned __int128 seen, next;
    __nv_atomic_load(p, &seen, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    do
        next = seen + (((unsigned __int128)1 << 64) | 3);
    while (!__nv_atomic_compare_exchange_n(p, &seen, next, false, __NV_ATOMIC_RELAXED,
                                           __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE));
    next = (unsigned __int128)threadIdx.x << 64 | blockIdx.x;
    old[blockIdx.x * blockDim.x + threadIdx.x] =
        __nv_atomic_exchange_n(p + 1, next, __NV_ATOMIC_RELAXED, __NV_THREAD_SCOPE_DEVICE);
    __nv_atomic_store(p + 2, &next, __NV_ATOMIC_RELEASE, __NV_THREAD_SCOPE_SYSTEM);
#endif
}

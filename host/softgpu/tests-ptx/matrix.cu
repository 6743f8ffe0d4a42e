/* SPDX-License-Identifier: MIT */
/* Matrix instructions as libraries use them: ldmatrix, then mma.sync (exec/nvcc_test.c). */
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

static __device__ unsigned addr(const void *p)
{
    return (unsigned)__cvta_generic_to_shared(p);
}

/* d = a * b + c: a 16 x 16 row by row, b given as 8 columns of 16, c and d 16 x 8 */
extern "C" __global__ void mma_f16(const __half *a, const __half *b, const float *c, float *d)
{
    __shared__ __align__(16) __half sa[16][16], sb[8][16];
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned ra[4], rb[2];
    float acc[4];
    for (int i = lane; i < 256; i += 32)
        sa[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32)
        sb[i / 16][i % 16] = b[i];
    __syncwarp();
    for (int i = 0; i < 4; i++)
        acc[i] = c[(g + i / 2 * 8) * 8 + t * 2 + i % 2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(addr(&sa[lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1])
                 : "r"(addr(&sb[lane % 8][lane / 8 % 2 * 8])));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = acc[i];
}

/* The same with b row by row, brought in by ldmatrix.trans, and halves for c and d. */
extern "C" __global__ void mma_f16_trans(const __half *a, const __half *b, const __half *c, __half *d)
{
    __shared__ __align__(16) __half sa[16][16], sb[16][8];
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    unsigned ra[4], rb[2], acc[2];
    for (int i = lane; i < 256; i += 32)
        sa[i / 16][i % 16] = a[i];
    for (int i = lane; i < 128; i += 32)
        sb[i / 8][i % 8] = b[i];
    __syncwarp();
    for (int i = 0; i < 2; i++)
        acc[i] = *(const unsigned *)&c[(g + i * 8) * 8 + t * 2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
                 : "r"(addr(&sa[lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.b16 {%0,%1}, [%2];"
                 : "=r"(rb[0]), "=r"(rb[1])
                 : "l"(&sb[lane % 16][0]));
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3,%4,%5}, "
                 "{%6,%7}, {%0,%1};"
                 : "+r"(acc[0]), "+r"(acc[1])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 2; i++)
        *(unsigned *)&d[(g + i * 8) * 8 + t * 2] = acc[i];
}

/* s8: a 16 x 32, b as 8 columns of 32 */
extern "C" __global__ void mma_s8(const signed char *a, const signed char *b, int *d)
{
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    int ra[4], rb[2], acc[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++)
        ra[i] = *(const int *)&a[(g + i % 2 * 8) * 32 + i / 2 * 16 + t * 4];
    for (int i = 0; i < 2; i++)
        rb[i] = *(const int *)&b[g * 32 + i * 16 + t * 4];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+r"(acc[0]), "+r"(acc[1]), "+r"(acc[2]), "+r"(acc[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = acc[i];
}

/* tf32: a 16 x 8, b as 8 columns of 8 */
extern "C" __global__ void mma_tf32(const float *a, const float *b, float *d)
{
    int lane = threadIdx.x, g = lane / 4, t = lane % 4;
    float acc[4] = {0, 0, 0, 0};
    unsigned ra[4], rb[2];
    for (int i = 0; i < 4; i++)
        ra[i] = __float_as_uint(a[(g + i % 2 * 8) * 8 + t + i / 2 * 4]);
    for (int i = 0; i < 2; i++)
        rb[i] = __float_as_uint(b[g * 8 + t + i * 4]);
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3])
                 : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    for (int i = 0; i < 4; i++)
        d[(g + i / 2 * 8) * 8 + t * 2 + i % 2] = acc[i];
}

/* wmma: 16 x 16 x 16, a row by row, b column by column */
extern "C" __global__ void wmma_f16(const __half *a, const __half *b, const float *c, float *d)
{
    using namespace nvcuda;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::load_matrix_sync(fc, c, 16, wmma::mem_row_major);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int i = 0; i < fc.num_elements; i++)
        fc.x[i] *= 2.0f;
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_row_major);
}

/* wmma from shared memory: b row by row, halves as results, stored column by column */
extern "C" __global__ void wmma_f16_shared(const __half *a, const __half *b, __half *d)
{
    using namespace nvcuda;
    __shared__ __half sa[16 * 24], sb[16 * 24];
    for (int i = threadIdx.x; i < 256; i += 32) {
        sa[i / 16 * 24 + i % 16] = a[i];
        sb[i / 16 * 24 + i % 16] = b[i];
    }
    __syncthreads();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, __half> fc;
    wmma::load_matrix_sync(fa, sa, 24);
    wmma::load_matrix_sync(fb, sb, 24);
    wmma::fill_fragment(fc, __float2half(1.0f));
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(d, fc, 16, wmma::mem_col_major);
}

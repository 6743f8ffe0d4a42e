/* SPDX-License-Identifier: MIT */
/* C = A B with square tiles in shared memory and a barrier on each side of their use. */
#include <cuda_runtime.h>

#include <cmath>
#include <vector>

#include "demo.h"

#define TILE 16

__global__ void matrix_mul(const float *a, const float *b, float *c, int m, int n, int k)
{
    __shared__ float ta[TILE][TILE], tb[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float sum = 0;

    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        int ka = t * TILE + threadIdx.x, kb = t * TILE + threadIdx.y;

        ta[threadIdx.y][threadIdx.x] = row < m && ka < k ? a[row * k + ka] : 0;
        tb[threadIdx.y][threadIdx.x] = kb < k && col < n ? b[kb * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < TILE; i++)
            sum += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && col < n)
        c[row * n + col] = sum;
}

int main()
{
    const int m = 70, n = 50, k = 90;
    std::vector<float> a(m * k), b(k * n), c(m * n);
    float *da, *db, *dc;
    double worst = 0;
    unsigned seed = 12345;

    for (auto &x : a)
        x = (int)(demo_random(&seed) % 200) * 0.01f - 1.0f;
    for (auto &x : b)
        x = (int)(demo_random(&seed) % 200) * 0.01f - 1.0f;
    CHECK(cudaMalloc(&da, a.size() * sizeof(float)));
    CHECK(cudaMalloc(&db, b.size() * sizeof(float)));
    CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
    CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(float), cudaMemcpyHostToDevice));
    matrix_mul<<<dim3((n + TILE - 1) / TILE, (m + TILE - 1) / TILE), dim3(TILE, TILE)>>>(da, db, dc,
                                                                                         m, n, k);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            double sum = 0;

            for (int l = 0; l < k; l++)
                sum += (double)a[i * k + l] * b[l * n + j];
            worst = fmax(worst, fabs(sum - c[i * n + j]));
        }
    }
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
    return demo_result("matrixMul", "70 x 90 times 90 x 50, tiles in shared memory", worst < 1e-4,
                       "the product differs from the CPU's");
}

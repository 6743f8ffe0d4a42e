/* SPDX-License-Identifier: MIT */
/* c = a + b over a size that is no multiple of the block. */
#include <cuda_runtime.h>

#include <vector>

#include "demo.h"

__global__ void vector_add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        c[i] = a[i] + b[i];
}

int main()
{
    const int n = 50021;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n), b(n), c(n);
    float *da, *db, *dc;
    int wrong = 0;

    for (int i = 0; i < n; i++) {
        a[i] = i * 0.5f;
        b[i] = 1000.0f - i;
    }
    CHECK(cudaMalloc(&da, bytes));
    CHECK(cudaMalloc(&db, bytes));
    CHECK(cudaMalloc(&dc, bytes));
    CHECK(cudaMemcpy(da, a.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(db, b.data(), bytes, cudaMemcpyHostToDevice));
    vector_add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpy(c.data(), dc, bytes, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        wrong += c[i] != a[i] + b[i];
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dc));
    return demo_result("vectorAdd", "50021 elements", wrong == 0, "sums differ from the CPU's");
}

/* SPDX-License-Identifier: MIT */
/* Two streams with work of their own, one waiting for the other's event, timed with events. */
#include <cuda_runtime.h>

#include <vector>

#include "demo.h"

__global__ void scale_add(float *x, int n, float scale, float add, int rounds)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i >= n)
        return;
    for (int r = 0; r < rounds; r++)
        x[i] = x[i] * scale + add;
}

__global__ void combine(const float *a, const float *b, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        out[i] = a[i] - b[i];
}

int main()
{
    const int n = 4096, rounds = 20, blocks = n / 256;
    const size_t bytes = n * sizeof(float);
    std::vector<float> a(n, 1.0f), b(n, 2.0f), out(n);
    float *da, *db, *dout, ms = -1, xa = 1.0f, xb = 2.0f;
    cudaStream_t s[2];
    cudaEvent_t start, second_done, end;
    int wrong = 0;

    CHECK(cudaStreamCreate(&s[0]));
    CHECK(cudaStreamCreateWithFlags(&s[1], cudaStreamNonBlocking));
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreateWithFlags(&second_done, cudaEventDisableTiming));
    CHECK(cudaEventCreate(&end));
    CHECK(cudaMalloc(&da, bytes));
    CHECK(cudaMalloc(&db, bytes));
    CHECK(cudaMalloc(&dout, bytes));

    CHECK(cudaEventRecord(start, s[0]));
    CHECK(cudaMemcpyAsync(da, a.data(), bytes, cudaMemcpyHostToDevice, s[0]));
    CHECK(cudaMemcpyAsync(db, b.data(), bytes, cudaMemcpyHostToDevice, s[1]));
    scale_add<<<blocks, 256, 0, s[0]>>>(da, n, 0.5f, 3.0f, rounds);
    scale_add<<<blocks, 256, 0, s[1]>>>(db, n, 0.25f, 1.0f, rounds);
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(second_done, s[1]));
    CHECK(cudaStreamWaitEvent(s[0], second_done, 0));
    combine<<<blocks, 256, 0, s[0]>>>(da, db, dout, n);
    CHECK(cudaGetLastError());
    CHECK(cudaMemcpyAsync(out.data(), dout, bytes, cudaMemcpyDeviceToHost, s[0]));
    CHECK(cudaEventRecord(end, s[0]));
    CHECK(cudaEventSynchronize(end));
    CHECK(cudaEventElapsedTime(&ms, start, end));
    CHECK(cudaStreamSynchronize(s[0]));
    CHECK(cudaStreamQuery(s[1]));

    for (int r = 0; r < rounds; r++) {
        xa = xa * 0.5f + 3.0f;
        xb = xb * 0.25f + 1.0f;
    }
    for (int i = 0; i < n; i++)
        wrong += out[i] != xa - xb;
    CHECK(cudaEventDestroy(start));
    CHECK(cudaEventDestroy(second_done));
    CHECK(cudaEventDestroy(end));
    CHECK(cudaStreamDestroy(s[0]));
    CHECK(cudaStreamDestroy(s[1]));
    CHECK(cudaFree(da));
    CHECK(cudaFree(db));
    CHECK(cudaFree(dout));
    printf("two streams took %.3f ms between the events\n", ms);
    return demo_result("streams", "two streams, events, timing", wrong == 0 && ms > 0,
                       wrong ? "results differ from the CPU's" : "no time passed");
}

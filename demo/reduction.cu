/* SPDX-License-Identifier: MIT */
/*
 * A sum by warp shuffles, a count by votes, and a histogram by atomics in shared, then in global
 * memory. All in integers, so that the CPU's answer must be met exactly.
 */
#include <cuda_runtime.h>

#include <vector>

#include "demo.h"

#define BINS 64

__global__ void reduce(const unsigned *in, int n, unsigned long long *sum, unsigned *odd)
{
    __shared__ unsigned long long warp_sum[32];
    unsigned long long s = 0;
    unsigned odd_here = 0;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;

    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i - lane < n; i += gridDim.x * blockDim.x) {
        unsigned v = i < n ? in[i] : 0;

        s += v;
        odd_here += __popc(__ballot_sync(0xffffffffu, v & 1));
    }
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) {
        warp_sum[warp] = s;
        atomicAdd(odd, odd_here);
    }
    __syncthreads();
    if (warp == 0) {
        s = lane < blockDim.x / 32 ? warp_sum[lane] : 0;
        for (int d = 16; d > 0; d /= 2)
            s += __shfl_xor_sync(0xffffffffu, s, d);
        if (lane == 0)
            atomicAdd(sum, s);
    }
}

__global__ void histogram(const unsigned *in, int n, unsigned *bins)
{
    __shared__ unsigned local[BINS];

    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        local[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i] % BINS], 1u);
    __syncthreads();
    for (int i = threadIdx.x; i < BINS; i += blockDim.x)
        atomicAdd(&bins[i], local[i]);
}

int main()
{
    const int n = 30011;
    std::vector<unsigned> in(n), bins(BINS), want_bins(BINS);
    unsigned long long *dsum, sum = 0, want_sum = 0;
    unsigned *din, *dodd, *dbins, odd = 0, want_odd = 0, seed = 99;

    for (auto &x : in) {
        x = demo_random(&seed);
        want_sum += x;
        want_odd += x & 1;
        want_bins[x % BINS]++;
    }
    CHECK(cudaMalloc(&din, n * sizeof(unsigned)));
    CHECK(cudaMalloc(&dsum, sizeof(*dsum)));
    CHECK(cudaMalloc(&dodd, sizeof(*dodd)));
    CHECK(cudaMalloc(&dbins, BINS * sizeof(unsigned)));
    CHECK(cudaMemcpy(din, in.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice));
    CHECK(cudaMemset(dsum, 0, sizeof(*dsum)));
    CHECK(cudaMemset(dodd, 0, sizeof(*dodd)));
    CHECK(cudaMemset(dbins, 0, BINS * sizeof(unsigned)));
    reduce<<<8, 128>>>(din, n, dsum, dodd);
    CHECK(cudaGetLastError());
    histogram<<<8, 128>>>(din, n, dbins);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaMemcpy(&sum, dsum, sizeof(sum), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(&odd, dodd, sizeof(odd), cudaMemcpyDeviceToHost));
    CHECK(cudaMemcpy(bins.data(), dbins, BINS * sizeof(unsigned), cudaMemcpyDeviceToHost));
    CHECK(cudaFree(din));
    CHECK(cudaFree(dsum));
    CHECK(cudaFree(dodd));
    CHECK(cudaFree(dbins));
    printf("sum %llu (CPU %llu), odd numbers %u (CPU %u)\n", sum, want_sum, odd, want_odd);
    return demo_result("reduction", "shuffles, votes, histogram with shared and global atomics",
                       sum == want_sum && odd == want_odd && bins == want_bins,
                       sum != want_sum ? "wrong sum" : odd != want_odd ? "wrong count" : "wrong bins");
}

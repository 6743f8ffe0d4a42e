// SPDX-License-Identifier: MIT
// What nvcc emits from sm_90 on for ordinary CUDA C++ (exec/ops/bulk_test.c).
#include <cooperative_groups.h>
#include <cuda/barrier>

namespace cg = cooperative_groups;
namespace cde = cuda::device::experimental;
using barrier = cuda::barrier<cuda::thread_scope_block>;

// Copies in and out by the bulk engine; the barrier counts bytes.
extern "C" __global__ void bulk(int *in, int *out)
{
    __shared__ alignas(16) int buf[1024];
    __shared__ barrier bar;
    if (threadIdx.x == 0) {
        init(&bar, blockDim.x);
        cde::fence_proxy_async_shared_cta();
    }
    __syncthreads();
    for (int round = 0; round < 3; round++) {
        barrier::arrival_token token;
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_global_to_shared(buf, in + blockIdx.x * 1024, sizeof(buf), bar);
            token = cuda::device::barrier_arrive_tx(bar, 1, sizeof(buf));
        } else {
            token = bar.arrive();
        }
        bar.wait(std::move(token));
        for (int i = threadIdx.x; i < 1024; i += blockDim.x)
            buf[i] += round + 1;
        cde::fence_proxy_async_shared_cta();
        __syncthreads();
        if (threadIdx.x == 0) {
            cde::cp_async_bulk_shared_to_global(out + blockIdx.x * 1024, buf, sizeof(buf));
            cde::cp_async_bulk_commit_group();
            cde::cp_async_bulk_wait_group_read<0>();
        }
        __syncthreads();
    }
}

extern "C" __global__ void copies(int *in, int *out)
{
    __shared__ alignas(128) int buf[256];
    __shared__ barrier bar;
    if (threadIdx.x == 0)
        init(&bar, blockDim.x);
    __syncthreads();
    cuda::memcpy_async(cg::this_thread_block(), buf, in, cuda::aligned_size_t<16>(1024), bar);
    bar.arrive_and_wait();
    out[threadIdx.x] = buf[255 - threadIdx.x];
}

// Clusters of one block: the barrier in two halves, the memory by rank.
extern "C" __global__ void cluster(int *out)
{
    auto c = cg::this_cluster();
    out += blockIdx.x * 64;
    __shared__ int v[64];
    v[threadIdx.x] = threadIdx.x;
    c.sync();
    int *r = c.map_shared_rank(v, 0);
    out[threadIdx.x] = r[63 - threadIdx.x] + 100 * c.block_rank() + 1000 * c.num_blocks();
    if (threadIdx.x == 5)
        return; // the others must not wait for it
    auto token = c.barrier_arrive();
    out[threadIdx.x] += 1;
    c.barrier_wait(std::move(token));
}

extern "C" __global__ void vectors(float *o)
{
    atomicAdd((float4 *)o, float4{1, 2, 3, 4});
    float2 old = atomicAdd((float2 *)(o + 4), float2{0.5f, 0.25f});
    if (old.x < 0)
        o[6] = 1;
}

// Clusters of several blocks: each block's sum by distributed shared memory, in both directions.
extern "C" __global__ void __cluster_dims__(4, 1, 1) sums(int *out)
{
    auto c = cg::this_cluster();
    __shared__ int own, all;
    if (threadIdx.x == 0)
        own = all = 0;
    c.sync();
    atomicAdd(&own, (int)(blockIdx.x * blockDim.x + threadIdx.x));
    c.sync();
    if (threadIdx.x < c.num_blocks())
        atomicAdd(&all, *c.map_shared_rank(&own, threadIdx.x));
    c.sync();
    if (threadIdx.x == 32)
        atomicAdd(c.map_shared_rank(&own, (c.block_rank() + 1) % c.num_blocks()), 1000000);
    c.sync();
    if (threadIdx.x == 0) {
        out[3 * blockIdx.x] = all;
        out[3 * blockIdx.x + 1] = own;
        out[3 * blockIdx.x + 2] =
            c.block_rank() + 10 * c.dim_blocks().x + 100 * c.query_shared_rank(c.map_shared_rank(&own, 2));
    }
}

/* SPDX-License-Identifier: MIT */
/*
 * Cooperative groups (tiles, coalesced groups, labelled partitions, grid), and CUB's block and warp
 * primitives inside kernels of our own.
 */
#include "check.h"

#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cub/block/block_load.cuh>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>
#include <cub/warp/warp_scan.cuh>
#include <algorithm>
#include <numeric>

namespace cg = cooperative_groups;

#define BLOCK 128

template <int SIZE> __global__ void k_tile(const int *in, int *sum, int *rank_sum, int *most)
{
    const auto tile = cg::tiled_partition<SIZE>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    sum[i] = cg::reduce(tile, in[i], cg::plus<int>());
    rank_sum[i] = cg::exclusive_scan(tile, in[i], cg::plus<int>());
    most[i] = cg::reduce(tile, in[i], cg::greater<int>());
}

__global__ void k_coalesced(const int *in, int *count, int *rank)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;

    count[i] = -1;
    rank[i] = -1;
    if (in[i] % 3 == 0) {
        const auto g = cg::coalesced_threads();

        count[i] = (int)g.size();
        rank[i] = (int)g.thread_rank();
    }
}

__global__ void k_labelled(const int *in, int *sum)
{
    const auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const auto same = cg::labeled_partition(warp, in[i] & 3);

    sum[i] = cg::reduce(same, in[i], cg::plus<int>());
}

/* Each round every block reads what its neighbour wrote in the round before. */
__global__ void k_grid(int *a, int *b, int rounds)
{
    const auto grid = cg::this_grid();
    const int n = (int)grid.size(), i = (int)grid.thread_rank();

    for (int k = 0; k < rounds; k++) {
        b[i] = a[(i + (int)blockDim.x) % n] + 1;
        grid.sync();
        a[i] = b[i];
        grid.sync();
    }
}

__global__ void k_block(const int *in, int *sorted, int *scanned, int *sum)
{
    typedef cub::BlockRadixSort<int, BLOCK, 4> Sort;
    typedef cub::BlockScan<int, BLOCK> Scan;
    typedef cub::BlockReduce<int, BLOCK> Reduce;
    __shared__ union {
        Sort::TempStorage sort;
        Scan::TempStorage scan;
        Reduce::TempStorage reduce;
    } s;
    const int base = (blockIdx.x * BLOCK + threadIdx.x) * 4;
    int v[4], w[4];

    for (int k = 0; k < 4; k++)
        v[k] = in[base + k];
    Scan(s.scan).InclusiveSum(v, w);
    __syncthreads();
    const int total = Reduce(s.reduce).Sum(v);
    __syncthreads();
    Sort(s.sort).Sort(v);
    for (int k = 0; k < 4; k++) {
        sorted[base + k] = v[k];
        scanned[base + k] = w[k];
    }
    if (threadIdx.x == 0)
        sum[blockIdx.x] = total;
}

__global__ void k_warp(const int *in, int *sum, int *scanned)
{
    typedef cub::WarpReduce<int> Reduce;
    typedef cub::WarpScan<int> Scan;
    __shared__ typename Reduce::TempStorage r[BLOCK / 32];
    __shared__ typename Scan::TempStorage c[BLOCK / 32];
    const int i = blockIdx.x * blockDim.x + threadIdx.x, w = threadIdx.x / 32;
    int out;

    const int total = Reduce(r[w]).Sum(in[i]);
    Scan(c[w]).InclusiveSum(in[i], out);
    scanned[i] = out;
    if (threadIdx.x % 32 == 0)
        sum[i / 32] = total;
}

template <int SIZE> static void tiles(const std::vector<int> &in, const Device<int> &a)
{
    const size_t n = in.size();
    Device<int> s(n), r(n), m(n);
    bool ok = true;

    k_tile<SIZE><<<(unsigned)(n / BLOCK), BLOCK>>>(a.p, s.p, r.p, m.p);
    const auto hs = s.host(), hr = r.host(), hm = m.host();
    for (size_t i = 0; i < n; i++) {
        const size_t first = i / SIZE * SIZE;

        ok = ok && hs[i] == std::accumulate(&in[first], &in[first] + SIZE, 0);
        ok = ok && hr[i] == std::accumulate(&in[first], &in[i], 0);
        ok = ok && hm[i] == *std::max_element(&in[first], &in[first] + SIZE);
    }
    check("tile_reduce_scan", SIZE, ok);
}

int main()
{
    const size_t n = BLOCK * 8;
    std::vector<int> in(n);
    Random rnd(3);
    bool ok = true;

    for (auto &x : in)
        x = (int)(rnd.next() % 1000);
    Device<int> a(in), b(n), c(n), d(n);

    tiles<2>(in, a);
    tiles<8>(in, a);
    tiles<32>(in, a);

    k_coalesced<<<n / BLOCK, BLOCK>>>(a.p, b.p, c.p);
    auto hb = b.host(), hc = c.host();
    for (size_t w = 0; w < n; w += 32) {
        int count = 0;

        for (size_t i = w; i < w + 32; i++) {
            ok = ok && hc[i] == (in[i] % 3 ? -1 : count);
            count += in[i] % 3 == 0;
        }
        for (size_t i = w; i < w + 32; i++)
            ok = ok && hb[i] == (in[i] % 3 ? -1 : count);
    }
    check("coalesced_threads", n, ok);

    k_labelled<<<n / BLOCK, BLOCK>>>(a.p, b.p);
    hb = b.host();
    ok = true;
    for (size_t i = 0; i < n; i++) {
        int want = 0;

        for (size_t k = i / 32 * 32; k < i / 32 * 32 + 32; k++)
            want += (in[k] & 3) == (in[i] & 3) ? in[k] : 0;
        ok = ok && hb[i] == want;
    }
    check("labeled_partition", n, ok);

    int rounds = 5, blocks = 4;
    Device<int> x(in), y(n);
    void *args[] = {&x.p, &y.p, &rounds};
    NEED(cudaLaunchCooperativeKernel((void *)k_grid, dim3(blocks), dim3(BLOCK), args, 0, nullptr));
    const auto hx = x.host();
    ok = true;
    for (int i = 0; i < blocks * BLOCK; i++)
        ok = ok && hx[i] == in[(i + rounds * BLOCK) % (blocks * BLOCK)] + rounds;
    check("grid_sync", blocks * BLOCK, ok);

    k_block<<<n / (BLOCK * 4), BLOCK>>>(a.p, b.p, c.p, d.p);
    hb = b.host();
    hc = c.host();
    const auto hd = d.host(n / (BLOCK * 4));
    ok = true;
    for (size_t f = 0; f < n; f += BLOCK * 4) {
        std::vector<int> part(in.begin() + (long)f, in.begin() + (long)f + BLOCK * 4), sums(BLOCK * 4);

        std::partial_sum(part.begin(), part.end(), sums.begin());
        std::sort(part.begin(), part.end());
        ok = ok && std::equal(part.begin(), part.end(), hb.begin() + (long)f) &&
             std::equal(sums.begin(), sums.end(), hc.begin() + (long)f) && hd[f / (BLOCK * 4)] == sums.back();
    }
    check("block_sort_scan_reduce", n, ok);

    k_warp<<<n / BLOCK, BLOCK>>>(a.p, b.p, c.p);
    hb = b.host(n / 32);
    hc = c.host();
    ok = true;
    for (size_t w = 0; w < n; w += 32) {
        int sum = 0;

        for (size_t i = w; i < w + 32; i++) {
            sum += in[i];
            ok = ok && hc[i] == sum;
        }
        ok = ok && hb[w / 32] == sum;
    }
    check("warp_reduce_scan", n, ok);
    return finish("groups");
}

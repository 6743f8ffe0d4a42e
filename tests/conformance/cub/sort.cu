/* SPDX-License-Identifier: MIT */
/* CUB: radix sort of keys and pairs, merge sort, segmented sort; against std::stable_sort. */
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_segmented_sort.cuh>
#include <numeric>

static std::vector<uint32_t> keys_of(size_t n, uint32_t mask)
{
    Random r(n);
    std::vector<uint32_t> v(n);

    for (auto &x : v)
        x = r.next() & mask;
    return v;
}

static void keys(size_t n)
{
    auto in = keys_of(n, 0xffffffffu);
    Device<uint32_t> a(in), b(n);

    CUB_RUN(cub::DeviceRadixSort::SortKeys, a.p, b.p, (int)n);
    std::sort(in.begin(), in.end());
    check("radix_sort_keys", n, b.host() == in);
}

static void keys_descending(size_t n)
{
    const auto raw = keys_of(n, 0xffffffffu);
    std::vector<float> in(n);

    for (size_t i = 0; i < n; i++)
        in[i] = (float)(int32_t)raw[i] / 1024.0f;
    Device<float> a(in), b(n);

    CUB_RUN(cub::DeviceRadixSort::SortKeysDescending, a.p, b.p, (int)n);
    std::sort(in.begin(), in.end(), std::greater<float>());
    check("radix_sort_keys_descending_float", n, b.host() == in);
}

/* Few different keys: the order of equal ones shows. */
static void pairs(size_t n)
{
    const auto in = keys_of(n, 0xff);
    std::vector<uint32_t> value(n), order(n), sorted(n);

    std::iota(value.begin(), value.end(), 0u);
    order = value;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return in[x] < in[y]; });
    for (size_t i = 0; i < n; i++)
        sorted[i] = in[order[i]];
    Device<uint32_t> a(in), b(n), v(value), w(n);

    CUB_RUN(cub::DeviceRadixSort::SortPairs, a.p, b.p, v.p, w.p, (int)n);
    check("radix_sort_pairs", n, b.host() == sorted && w.host() == order);
    CUB_RUN(cub::DeviceRadixSort::SortPairs, a.p, b.p, v.p, w.p, (int)n, 0, 8);
    check("radix_sort_pairs_bits", n, b.host() == sorted && w.host() == order);
}

struct ByHighHalf {
    __host__ __device__ bool operator()(uint32_t x, uint32_t y) const { return x >> 16 < y >> 16; }
};

static void merge(size_t n)
{
    auto in = keys_of(n, 0x000fffffu);
    Device<uint32_t> a(in);

    CUB_RUN(cub::DeviceMergeSort::StableSortKeys, a.p, (int)n, ByHighHalf());
    std::stable_sort(in.begin(), in.end(), ByHighHalf());
    check("merge_sort_stable", n, a.host() == in);
}

static void segments(size_t n, size_t count)
{
    auto in = keys_of(n, 0xffffffffu);
    std::vector<int> offset(count + 1);
    Random r(count);

    for (size_t i = 1; i < count; i++)
        offset[i] = (int)(r.next() % (n + 1));
    offset[count] = (int)n;
    std::sort(offset.begin(), offset.end());
    Device<uint32_t> a(in), b(n);
    Device<int> o(offset);

    CUB_RUN(cub::DeviceSegmentedSort::SortKeys, a.p, b.p, (int)n, (int)count, o.p, o.p + 1);
    for (size_t i = 0; i < count; i++)
        std::sort(in.begin() + offset[i], in.begin() + offset[i + 1]);
    check("segmented_sort_keys", n, b.host() == in);
}

int main()
{
    for (size_t n : {size_t(1), size_t(31), size_t(1000), size_t(100003)}) {
        keys(n);
        keys_descending(n);
        pairs(n);
        merge(n);
    }
    segments(5000, 40);
    segments(50000, 7);
    return finish("cub_sort");
}

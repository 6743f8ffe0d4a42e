/* SPDX-License-Identifier: MIT */
/* CUB: scan, reduce, by key, segmented reduce, select, partition, unique, run lengths, histogram. */
#include "check.h"

#include <algorithm>
#include <cmath>
#include <cub/device/device_histogram.cuh>
#include <cub/device/device_partition.cuh>
#include <cub/device/device_reduce.cuh>
#include <cub/device/device_run_length_encode.cuh>
#include <cub/device/device_scan.cuh>
#include <cub/device/device_segmented_reduce.cuh>
#include <cub/device/device_select.cuh>
#include <numeric>

struct Even {
    __host__ __device__ bool operator()(int x) const { return (x & 1) == 0; }
};
struct Larger {
    __host__ __device__ int operator()(int x, int y) const { return x > y ? x : y; }
};

static std::vector<int> numbers(size_t n, uint32_t range)
{
    Random r(n + range);
    std::vector<int> v(n);

    for (auto &x : v)
        x = (int)(r.next() % range);
    return v;
}

static void scans(size_t n)
{
    const auto in = numbers(n, 1000);
    std::vector<int> want(n);
    Device<int> a(in), b(n);

    CUB_RUN(cub::DeviceScan::InclusiveSum, a.p, b.p, (int)n);
    std::partial_sum(in.begin(), in.end(), want.begin());
    check("inclusive_sum", n, b.host() == want);
    CUB_RUN(cub::DeviceScan::ExclusiveSum, a.p, b.p, (int)n);
    want.insert(want.begin(), 0);
    want.pop_back();
    check("exclusive_sum", n, b.host() == want);
    CUB_RUN(cub::DeviceScan::ExclusiveScan, a.p, b.p, Larger(), 7, (int)n);
    for (size_t i = 0, m = 7; i < n; i++) {
        want[i] = (int)m;
        m = std::max((int)m, in[i]);
    }
    check("exclusive_scan_max", n, b.host() == want);
}

static void reductions(size_t n)
{
    const auto in = numbers(n, 1u << 20);
    std::vector<double> real(n);
    Device<int> a(in), r(1);
    Device<cub::KeyValuePair<int, int>> arg(1);

    for (size_t i = 0; i < n; i++)
        real[i] = in[i] / 3.0;
    CUB_RUN(cub::DeviceReduce::Max, a.p, r.p, (int)n);
    check("reduce_max", n, r.first() == *std::max_element(in.begin(), in.end()));
    CUB_RUN(cub::DeviceReduce::Min, a.p, r.p, (int)n);
    check("reduce_min", n, r.first() == *std::min_element(in.begin(), in.end()));
    CUB_RUN(cub::DeviceReduce::Sum, a.p, r.p, (int)n);
    check("reduce_sum", n, r.first() == (int)std::accumulate(in.begin(), in.end(), 0u));

    Device<double> x(real), s(1);
    CUB_RUN(cub::DeviceReduce::Sum, x.p, s.p, (int)n);
    const double sum = std::accumulate(real.begin(), real.end(), 0.0);
    check("reduce_sum_double", n, std::fabs(s.first() - sum) <= 1e-12 * sum);

    Device<int> value(1);
    Device<long long> index(1);
    CUB_RUN(cub::DeviceReduce::ArgMin, a.p, value.p, index.p, (long long)n);
    const auto least = std::min_element(in.begin(), in.end());
    check("reduce_argmin", n, value.first() == *least && index.first() == least - in.begin());
}

static void by_key(size_t n)
{
    auto key = numbers(n, 5);
    const auto in = numbers(n, 100);
    std::vector<int> want_key, want_sum, want_count, starts, lengths;

    for (size_t i = 0; i < n; i++) {
        if (i && key[i] == key[i - 1]) {
            want_sum.back() += in[i];
            want_count.back()++;
        } else {
            want_key.push_back(key[i]);
            want_sum.push_back(in[i]);
            want_count.push_back(1);
        }
    }
    const size_t runs = want_key.size();
    Device<int> k(key), v(in), uk(n), us(n), count(1);

    CUB_RUN(cub::DeviceReduce::ReduceByKey, k.p, uk.p, v.p, us.p, count.p, cuda::std::plus<>(), (int)n);
    check("reduce_by_key", n, count.first() == (int)runs && uk.host(runs) == want_key &&
                                  us.host(runs) == want_sum);
    CUB_RUN(cub::DeviceRunLengthEncode::Encode, k.p, uk.p, us.p, count.p, (int)n);
    check("run_length_encode", n, count.first() == (int)runs && uk.host(runs) == want_key &&
                                      us.host(runs) == want_count);
    CUB_RUN(cub::DeviceSelect::Unique, k.p, uk.p, count.p, (int)n);
    check("select_unique", n, count.first() == (int)runs && uk.host(runs) == want_key);

    std::vector<int> sums(n);
    CUB_RUN(cub::DeviceScan::InclusiveSumByKey, k.p, v.p, us.p, (int)n);
    for (size_t i = 0; i < n; i++)
        sums[i] = in[i] + (i && key[i] == key[i - 1] ? sums[i - 1] : 0);
    check("inclusive_sum_by_key", n, us.host() == sums);
}

static void choose(size_t n)
{
    const auto in = numbers(n, 1u << 30);
    std::vector<int> even, odd;
    std::vector<char> flag(n);
    Device<int> a(in), b(n), count(1);

    for (size_t i = 0; i < n; i++) {
        (Even()(in[i]) ? even : odd).push_back(in[i]);
        flag[i] = Even()(in[i]);
    }
    Device<char> f(flag);

    CUB_RUN(cub::DeviceSelect::If, a.p, b.p, count.p, (int)n, Even());
    check("select_if", n, count.first() == (int)even.size() && b.host(even.size()) == even);
    CUB_RUN(cub::DeviceSelect::Flagged, a.p, f.p, b.p, count.p, (int)n);
    check("select_flagged", n, count.first() == (int)even.size() && b.host(even.size()) == even);
    CUB_RUN(cub::DevicePartition::If, a.p, b.p, count.p, (int)n, Even());
    std::vector<int> all = even;
    all.insert(all.end(), odd.rbegin(), odd.rend()); /* the rest is written from the end */
    check("partition_if", n, count.first() == (int)even.size() && b.host() == all);
}

static void histogram(size_t n, int bins)
{
    const auto in = numbers(n, 1000);
    std::vector<float> level(n);
    std::vector<int> want(bins), want_range(3);
    const std::vector<int> borders = {0, 100, 500, 900};

    for (size_t i = 0; i < n; i++) {
        level[i] = in[i] + 0.5f;
        want[in[i] * bins / 1000]++;
        for (int b = 0; b < 3; b++)
            want_range[b] += in[i] >= borders[b] && in[i] < borders[b + 1];
    }
    Device<float> a(level);
    Device<int> h(bins), x(in), b(borders), hr(3);

    CUB_RUN(cub::DeviceHistogram::HistogramEven, a.p, h.p, bins + 1, 0.0f, 1000.0f, (int)n);
    check("histogram_even", n, h.host() == want);
    CUB_RUN(cub::DeviceHistogram::HistogramRange, x.p, hr.p, 4, b.p, (int)n);
    check("histogram_range", n, hr.host() == want_range);
}

static void segmented(size_t n, size_t count)
{
    const auto in = numbers(n, 1u << 20);
    std::vector<int> offset(count + 1), sum(count), most(count);
    Random r(n);

    for (size_t i = 1; i < count; i++)
        offset[i] = (int)(r.next() % (n + 1));
    offset[count] = (int)n;
    std::sort(offset.begin(), offset.end());
    for (size_t i = 0; i < count; i++) {
        most[i] = INT32_MIN;
        for (int k = offset[i]; k < offset[i + 1]; k++) {
            sum[i] += in[k];
            most[i] = std::max(most[i], in[k]);
        }
    }
    Device<int> a(in), o(offset), s(count);

    CUB_RUN(cub::DeviceSegmentedReduce::Sum, a.p, s.p, (int)count, o.p, o.p + 1);
    check("segmented_sum", n, s.host() == sum);
    CUB_RUN(cub::DeviceSegmentedReduce::Max, a.p, s.p, (int)count, o.p, o.p + 1);
    check("segmented_max", n, s.host() == most);
}

int main()
{
    for (size_t n : {size_t(1), size_t(33), size_t(2049), size_t(100003)}) {
        scans(n);
        reductions(n);
        by_key(n);
        choose(n);
        histogram(n, 50);
    }
    segmented(60000, 37);
    return finish("cub_scan");
}

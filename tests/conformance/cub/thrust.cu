/* SPDX-License-Identifier: MIT */
/* Thrust on device vectors; against the standard library. */
#include "check.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/count.h>
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>
#include <thrust/extrema.h>
#include <thrust/gather.h>
#include <thrust/host_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/set_operations.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/transform_reduce.h>
#include <thrust/unique.h>

struct Square {
    __host__ __device__ double operator()(int x) const { return (double)x * x; }
};
struct Saxpy {
    float a;
    __host__ __device__ float operator()(float x, float y) const { return a * x + y; }
};
struct Odd {
    __host__ __device__ bool operator()(int x) const { return x & 1; }
};
struct Pair {
    int a, b;
    __host__ __device__ bool operator<(const Pair &o) const { return a != o.a ? a < o.a : b < o.b; }
    bool operator==(const Pair &o) const { return a == o.a && b == o.b; }
};

template <typename T> static std::vector<T> host(const thrust::device_vector<T> &v)
{
    std::vector<T> h(v.size());

    thrust::copy(v.begin(), v.end(), h.begin());
    return h;
}

static void run(size_t n)
{
    Random r(n);
    std::vector<int> in(n);

    for (auto &x : in)
        x = (int)(r.next() % 10000);
    auto sorted = in;
    std::sort(sorted.begin(), sorted.end());

    thrust::device_vector<int> d(in.begin(), in.end()), k = d, v(n);
    thrust::sort(d.begin(), d.end());
    check("thrust_sort", n, host(d) == sorted);

    thrust::sequence(v.begin(), v.end());
    thrust::stable_sort_by_key(k.begin(), k.end(), v.begin());
    std::vector<int> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int x, int y) { return in[x] < in[y]; });
    check("thrust_stable_sort_by_key", n, host(k) == sorted && host(v) == order);

    thrust::device_vector<int> g(n);
    thrust::device_vector<int> source(in.begin(), in.end());
    thrust::gather(v.begin(), v.end(), source.begin(), g.begin());
    check("thrust_gather", n, host(g) == sorted);

    std::vector<Pair> pairs(n);
    for (size_t i = 0; i < n; i++)
        pairs[i] = {in[i] % 7, (int)(r.next() % 1000)};
    thrust::device_vector<Pair> dp(pairs.begin(), pairs.end());
    thrust::sort(dp.begin(), dp.end());
    std::sort(pairs.begin(), pairs.end());
    check("thrust_sort_structures", n, host(dp) == pairs);

    const double sum = thrust::transform_reduce(source.begin(), source.end(), Square(), 0.0,
                                                cuda::std::plus<double>());
    double want = 0;
    for (int x : in)
        want += Square()(x);
    check("thrust_transform_reduce", n, sum == want); /* whole numbers below 2^53 */

    thrust::device_vector<float> x(n), y(n, 1.5f);
    thrust::sequence(x.begin(), x.end());
    thrust::transform(x.begin(), x.end(), y.begin(), y.begin(), Saxpy{2.0f});
    bool ok = true;
    const auto hy = host(y);
    for (size_t i = 0; i < n; i++)
        ok = ok && hy[i] == 2.0f * (float)i + 1.5f;
    check("thrust_transform", n, ok);

    thrust::device_vector<int> scanned(n);
    thrust::inclusive_scan(source.begin(), source.end(), scanned.begin());
    std::vector<int> sums(n);
    std::partial_sum(in.begin(), in.end(), sums.begin());
    check("thrust_inclusive_scan", n, host(scanned) == sums);

    check("thrust_count_if", n, thrust::count_if(source.begin(), source.end(), Odd()) ==
                                    std::count_if(in.begin(), in.end(), Odd()));
    check("thrust_max_element", n,
          thrust::max_element(source.begin(), source.end()) - source.begin() ==
              std::max_element(in.begin(), in.end()) - in.begin());

    thrust::device_vector<int> odd(n);
    const auto end = thrust::copy_if(source.begin(), source.end(), odd.begin(), Odd());
    odd.resize(end - odd.begin());
    std::vector<int> want_odd;
    std::copy_if(in.begin(), in.end(), std::back_inserter(want_odd), Odd());
    check("thrust_copy_if", n, host(odd) == want_odd);

    thrust::device_vector<int> u = d;
    u.erase(thrust::unique(u.begin(), u.end()), u.end());
    auto unique = sorted;
    unique.erase(std::unique(unique.begin(), unique.end()), unique.end());
    check("thrust_unique", n, host(u) == unique);

    thrust::device_vector<int> at(n);
    thrust::lower_bound(d.begin(), d.end(), source.begin(), source.end(), at.begin());
    const auto hat = host(at);
    ok = true;
    for (size_t i = 0; i < n; i++)
        ok = ok && hat[i] == std::lower_bound(sorted.begin(), sorted.end(), in[i]) - sorted.begin();
    check("thrust_lower_bound", n, ok);

    thrust::device_vector<int> ok_out(u.size()), third(u.size());
    const auto half = u.begin() + (std::ptrdiff_t)(u.size() / 2);
    const auto e2 = thrust::set_difference(u.begin(), u.end(), u.begin(), half, third.begin());
    third.resize(e2 - third.begin());
    check("thrust_set_difference", n,
          host(third) == std::vector<int>(unique.begin() + (std::ptrdiff_t)(unique.size() / 2), unique.end()));

    thrust::device_vector<int> keys_out(n), sums_out(n);
    const auto ends = thrust::reduce_by_key(k.begin(), k.end(), thrust::constant_iterator<int>(1),
                                            keys_out.begin(), sums_out.begin());
    keys_out.resize(ends.first - keys_out.begin());
    check("thrust_reduce_by_key", n, host(keys_out) == unique);
}

int main()
{
    run(100);
    run(50021);
    return finish("thrust");
}

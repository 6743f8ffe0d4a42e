/* SPDX-License-Identifier: MIT */
/* Shared code of the programs of tests/conformance/cub: input, device arrays, counting. */
#ifndef CUB_CHECK_H
#define CUB_CHECK_H

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static int t_passed, t_failed;

/* Prints a line for a check; `name` is a single word. */
static inline void check(const char *name, size_t n, bool ok)
{
    const cudaError_t e = cudaGetLastError();

    if (e != cudaSuccess)
        ok = false;
    printf("%s %s n=%zu%s%s\n", ok ? "ok" : "FAIL:", name, n, e ? ": " : "", e ? cudaGetErrorString(e) : "");
    fflush(stdout);
    (ok ? t_passed : t_failed)++;
}

#define NEED(call) \
    do { \
        const cudaError_t e_ = (call); \
        if (e_ != cudaSuccess) { \
            printf("FAIL: %s:%d: %s: %s\n", __FILE__, __LINE__, #call, cudaGetErrorString(e_)); \
            exit(1); \
        } \
    } while (0)

static inline int finish(const char *suite)
{
    printf("%s: %d passed, %d failed, 0 skipped\n", suite, t_passed, t_failed);
    return t_failed ? 1 : 0;
}

/* Random numbers, the same in each run. */
struct Random {
    uint64_t s;
    explicit Random(uint64_t seed) : s(seed * 0x9e3779b97f4a7c15ull + 1)
    {
    }
    uint32_t next()
    {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        return (uint32_t)(s >> 32);
    }
};

template <typename T> struct Device {
    T *p = nullptr;
    size_t n;
    explicit Device(size_t count) : n(count)
    {
        NEED(cudaMalloc(&p, (count ? count : 1) * sizeof(T)));
    }
    explicit Device(const std::vector<T> &v) : Device(v.size())
    {
        NEED(cudaMemcpy(p, v.data(), n * sizeof(T), cudaMemcpyHostToDevice));
    }
    ~Device()
    {
        cudaFree(p);
    }
    Device(const Device &) = delete;
    std::vector<T> host() const
    {
        return host(n);
    }
    std::vector<T> host(size_t count) const
    {
        std::vector<T> v(count);
        NEED(cudaMemcpy(v.data(), p, count * sizeof(T), cudaMemcpyDeviceToHost));
        return v;
    }
    T first() const
    {
        return host(1)[0];
    }
};

/* CUB's two-step calls: query the size of the temporary storage, then run. */
#define CUB_RUN(call, ...) \
    do { \
        size_t bytes_ = 0; \
        NEED(call(nullptr, bytes_, __VA_ARGS__)); \
        Device<char> temp_(bytes_); \
        NEED(call(temp_.p, bytes_, __VA_ARGS__)); \
        NEED(cudaDeviceSynchronize()); \
    } while (0)

#endif

// SPDX-License-Identifier: MIT
// Small programs after public bug reports of other implementations (ZLUDA, SCALE, HIP-CPU, chipStar) and of programs
// (llama.cpp, PyTorch), each with the answer of NVIDIA's manual. Prints a line per check.
#include "rt.h"

#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cstring>
#include <cuda_fp16.h>
#include <vector>

namespace cg = cooperative_groups;

static unsigned passed, failed;
static const char *part = "";

static void line(const char *check, bool ok, const char *what)
{
    printf("%s.%s %s%s\n", part, check, what, ok ? "" : " FAIL");
    (ok ? passed : failed)++;
}

void rc(const char *check, cudaError_t got, cudaError_t want)
{
    line(check, got == want, cudaGetErrorName(got));
}

void yes(const char *check, bool ok)
{
    line(check, ok, ok ? "yes" : "no");
}

__global__ void add_to(int *p, int n, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;

    if (i < n)
        p[i] += v;
}

static bool all_are(const int *device, int n, int v)
{
    std::vector<int> h(n);
    bool ok = cudaMemcpy(h.data(), device, n * sizeof(int), cudaMemcpyDeviceToHost) == cudaSuccess;

    for (int x : h)
        ok &= x == v;
    return ok;
}

// ---- a grid that waits for itself ----

__global__ void grid_sum(const int *in, int *partial, int *out, int n)
{
    cg::grid_group grid = cg::this_grid();
    cg::thread_block_tile<32> tile = cg::tiled_partition<32>(cg::this_thread_block());
    int sum = 0;

    for (unsigned i = grid.thread_rank(); i < (unsigned)n; i += grid.size())
        sum += in[i];
    sum = cg::reduce(tile, sum, cg::plus<int>());
    if (tile.thread_rank() == 0)
        atomicAdd(&partial[blockIdx.x], sum);
    grid.sync();
    if (grid.thread_rank() == 0)
        for (unsigned b = 0; b < gridDim.x; b++)
            *out += partial[b];
}

static void cooperative()
{
    int n = 10000, blocks = 0, sms = 0, sum = -1, *in, *partial, *out;
    std::vector<int> ones(n, 3);
    void *args[] = {&in, &partial, &out, &n};

    part = "report_cooperative";
    rc("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, grid_sum, 128, 0));
    rc("sms", cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0));
    rc("alloc", cudaMalloc(&in, n * 4));
    rc("alloc_partial", cudaMalloc(&partial, 4096));
    rc("alloc_out", cudaMalloc(&out, 4));
    cudaMemset(partial, 0, 4096);
    cudaMemset(out, 0, 4);
    rc("copy", cudaMemcpy(in, ones.data(), n * 4, cudaMemcpyHostToDevice));
    rc("launch", cudaLaunchCooperativeKernel((void *)grid_sum, sms, 128, args, 0, nullptr));
    rc("read", cudaMemcpy(&sum, out, 4, cudaMemcpyDeviceToHost));
    yes("sum", sum == 3 * n);
    rc("too_large", cudaLaunchCooperativeKernel((void *)grid_sum, blocks * sms + 1, 128, args, 0, nullptr),
       cudaErrorCooperativeLaunchTooLarge);
    rc("last", cudaGetLastError(), cudaErrorCooperativeLaunchTooLarge);
    rc("last_taken", cudaGetLastError());
    cudaFree(in);
    cudaFree(partial);
    cudaFree(out);
}

// ---- the pool that a stream allocates from, also while it is captured ----

static void pools()
{
    cudaMemPool_t pool;
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    unsigned long long used = 1, all = ~0ull;
    int n = 1000, *p, *q, *result;

    part = "report_pools";
    rc("pool", cudaDeviceGetDefaultMemPool(&pool, 0));
    rc("keep", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
    rc("stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    rc("result", cudaMalloc(&result, n * 4));
    rc("alloc", cudaMallocAsync((void **)&p, n * 4, s));
    rc("memset", cudaMemsetAsync(p, 0, n * 4, s));
    add_to<<<8, 128, 0, s>>>(p, n, 5);
    rc("copy", cudaMemcpyAsync(result, p, n * 4, cudaMemcpyDeviceToDevice, s));
    rc("free", cudaFreeAsync(p, s));
    rc("sync", cudaStreamSynchronize(s));
    yes("right", all_are(result, n, 5));
    rc("used", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    yes("used_none", used == 0);
    rc("begin", cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    rc("captured_alloc", cudaMallocAsync((void **)&q, n * 4, s));
    rc("captured_memset", cudaMemsetAsync(q, 0, n * 4, s));
    add_to<<<8, 128, 0, s>>>(q, n, 7);
    add_to<<<8, 128, 0, s>>>(q, n, 1);
    rc("captured_copy", cudaMemcpyAsync(result, q, n * 4, cudaMemcpyDeviceToDevice, s));
    rc("captured_free", cudaFreeAsync(q, s));
    rc("end", cudaStreamEndCapture(s, &graph));
    rc("instantiate", cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        rc("run", cudaGraphLaunch(exec, s));
    rc("run_sync", cudaStreamSynchronize(s));
    yes("run_right", all_are(result, n, 8));
    rc("graph_trim", cudaDeviceGraphMemTrim(0));
    rc("destroy_exec", cudaGraphExecDestroy(exec));
    rc("destroy_graph", cudaGraphDestroy(graph));
    used = 0;
    rc("back", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &used));
    rc("destroy", cudaStreamDestroy(s));
    cudaFree(result);
}

// ---- a graph that is captured again and again into one executable graph, as llama.cpp does ----

static void updates()
{
    cudaStream_t s;
    cudaGraphExec_t exec = nullptr;
    cudaGraphExecUpdateResultInfo info;
    int n = 500, *p, sum = 0;

    part = "report_updates";
    rc("stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    rc("alloc", cudaMalloc(&p, n * 4));
    rc("clear", cudaMemset(p, 0, n * 4));
    for (int i = 1; i <= 4; i++) {
        cudaGraph_t g;

        cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
        add_to<<<4, 128, 0, s>>>(p, n, i);
        add_to<<<4, 128, 0, s>>>(p, n, 10 * i);
        cudaStreamEndCapture(s, &g);
        if (!exec)
            rc("instantiate", cudaGraphInstantiate(&exec, g, 0));
        else
            rc("update", cudaGraphExecUpdate(exec, g, &info));
        rc("launch", cudaGraphLaunch(exec, s));
        sum += 11 * i;
        cudaGraphDestroy(g);
    }
    rc("sync", cudaStreamSynchronize(s));
    yes("right", all_are(p, n, sum));
    cudaGraph_t other;
    cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed);
    add_to<<<4, 128, 0, s>>>(p, n, 1);
    cudaStreamEndCapture(s, &other);
    rc("other_shape", cudaGraphExecUpdate(exec, other, &info), cudaErrorGraphExecUpdateFailure);
    yes("why", info.result == cudaGraphExecUpdateErrorTopologyChanged);
    rc("last", cudaGetLastError(), cudaErrorGraphExecUpdateFailure);
    rc("still", cudaGraphLaunch(exec, s));
    rc("still_sync", cudaStreamSynchronize(s));
    yes("still_right", all_are(p, n, sum + 44));
    cudaGraphDestroy(other);
    cudaGraphExecDestroy(exec);
    cudaStreamDestroy(s);
    cudaFree(p);
}

// ---- managed memory in turn ----

static void managed()
{
    int n = 300, *p;
    bool right = true;

    part = "report_managed";
    rc("alloc", cudaMallocManaged(&p, n * 4));
    for (int i = 0; i < n; i++)
        p[i] = i;
    for (int round = 0; round < 3; round++) {
        add_to<<<3, 128>>>(p, n, 1);
        rc("sync", cudaDeviceSynchronize());
        for (int i = 0; i < n; i++) {
            right &= p[i] == i + 2 * round + 1;
            p[i]++;
        }
    }
    yes("right", right);
    rc("free", cudaFree(p));
}

// ---- the last error: told once, looked at often, kept by nothing that succeeds ----

static void last_error()
{
    int *p;

    part = "report_last_error";
    add_to<<<1, 2048>>>(nullptr, 0, 0);
    rc("peek", cudaPeekAtLastError(), cudaErrorInvalidConfiguration);
    rc("good_call", cudaMalloc(&p, 16));
    rc("still", cudaGetLastError(), cudaErrorInvalidConfiguration);
    rc("taken", cudaGetLastError());
    rc("free_null", cudaFree(nullptr));
    rc("free_wild", cudaFree((char *)p + 4), cudaErrorInvalidValue);
    rc("free_wild_last", cudaGetLastError(), cudaErrorInvalidValue);
    add_to<<<dim3(1, 65536), 1>>>(nullptr, 0, 0);
    rc("grid_y", cudaGetLastError(), cudaErrorInvalidConfiguration);
    add_to<<<0, 1>>>(nullptr, 0, 0);
    rc("no_grid", cudaGetLastError(), cudaErrorInvalidConfiguration);
    add_to<<<1, 32, 1 << 20>>>(nullptr, 0, 0);
    rc("shared", cudaGetLastError(), cudaErrorInvalidValue);
    rc("device", cudaSetDevice(99), cudaErrorInvalidDevice);
    rc("device_last", cudaGetLastError(), cudaErrorInvalidDevice);
    rc("direction", cudaMemcpy(p, p, 16, (cudaMemcpyKind)9), cudaErrorInvalidMemcpyDirection);
    rc("direction_last", cudaGetLastError(), cudaErrorInvalidMemcpyDirection);
    rc("free", cudaFree(p));
}

// ---- variables of the device ----

__device__ int d_counts[64];
__constant__ float c_scale[4];

__global__ void use_symbols(float *out)
{
    out[threadIdx.x] = c_scale[threadIdx.x % 4] * d_counts[threadIdx.x];
    d_counts[threadIdx.x] += 1;
}

static void variables()
{
    int counts[64];
    float scale[4] = {1, 2, 3, 4}, h[64], *out;
    size_t size = 0;
    void *at = nullptr;
    bool right = true;

    part = "report_variables";
    for (int i = 0; i < 64; i++)
        counts[i] = i;
    rc("alloc", cudaMalloc(&out, sizeof(h)));
    rc("to", cudaMemcpyToSymbol(d_counts, counts, sizeof(counts)));
    rc("to_constant", cudaMemcpyToSymbol(c_scale, scale, sizeof(scale)));
    use_symbols<<<1, 64>>>(out);
    scale[1] = 20;
    rc("change", cudaMemcpyToSymbol(c_scale, &scale[1], 4, 4)); // one element, at its offset
    rc("size", cudaGetSymbolSize(&size, d_counts));
    yes("size_right", size == sizeof(counts));
    rc("address", cudaGetSymbolAddress(&at, d_counts));
    rc("read", cudaMemcpy(h, out, sizeof(h), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        right &= h[i] == (i % 4 + 1) * (float)i;
    yes("before", right);
    use_symbols<<<1, 64>>>(out);
    rc("read_again", cudaMemcpy(h, out, sizeof(h), cudaMemcpyDeviceToHost));
    yes("after", h[5] == 20 * 6.0f && h[6] == 3 * 7.0f);
    rc("from", cudaMemcpyFromSymbol(counts, d_counts, 8, 16));
    yes("from_right", counts[0] == 6 && counts[1] == 7);
    rc("past_the_end", cudaMemcpyToSymbol(d_counts, counts, 8, sizeof(counts) - 4), cudaErrorInvalidValue);
    cudaGetLastError();
    rc("free", cudaFree(out));
}

// ---- calls inside of kernels: virtual functions, pointers to functions, recursion, memory ----

struct shape {
    __device__ virtual int area() const { return 0; }
    __device__ virtual ~shape() {}
};
struct square : shape {
    int side;
    __device__ square(int s) : side(s) {}
    __device__ int area() const override { return side * side; }
};
struct oblong : square {
    int other;
    __device__ oblong(int a, int b) : square(a), other(b) {}
    __device__ int area() const override { return side * other; }
};

__device__ __noinline__ int fib(int n)
{
    return n < 2 ? n : fib(n - 1) + fib(n - 2);
}
__device__ int twice(int x) { return 2 * x; }
__device__ int thrice(int x) { return 3 * x; }
__device__ int (*const d_functions[2])(int) = {twice, thrice};

__global__ void inside(int *out)
{
    unsigned i = threadIdx.x;
    shape *s = i % 2 ? new oblong(i, 3) : new square(i);
    int *m = (int *)malloc(16 * sizeof(int));

    for (int k = 0; k < 16; k++)
        m[k] = i + k;
    out[i] = s->area() + fib(i % 12) + d_functions[i % 2](i) + m[15];
    free(m);
    delete s;
}

static int fib_host(int n)
{
    return n < 2 ? n : fib_host(n - 1) + fib_host(n - 2);
}

static void calls()
{
    int h[64], *out;
    bool right = true;

    part = "report_calls";
    rc("alloc", cudaMalloc(&out, sizeof(h)));
    rc("heap", cudaDeviceSetLimit(cudaLimitMallocHeapSize, 8 << 20));
    inside<<<1, 64>>>(out);
    rc("read", cudaMemcpy(h, out, sizeof(h), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        right &= h[i] == (i % 2 ? 3 * i : i * i) + fib_host(i % 12) + (i % 2 ? 3 : 2) * i + i + 15;
    yes("right", right);
    rc("free", cudaFree(out));
}

// ---- lanes ----

__global__ void lanes(unsigned *out)
{
    unsigned lane = threadIdx.x, odd = lane & 1;
    unsigned half = __ballot_sync(~0u, odd);

    out[lane] = odd ? __shfl_xor_sync(half, lane, 2) : __shfl_sync(~half, lane, 30);
    out[32 + lane] = __popc(__activemask()) + __any_sync(~0u, lane == 7) + 2 * __all_sync(~0u, lane < 31);
    cg::coalesced_group g = cg::coalesced_threads();
    out[64 + lane] = g.shfl_down(lane, 3);
    if (lane % 3 == 0) {
        cg::coalesced_group third = cg::coalesced_threads();
        out[96 + lane] = third.size() * 100 + third.thread_rank();
    } else {
        out[96 + lane] = 0;
    }
    cg::thread_block_tile<8> tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[128 + lane] = cg::reduce(tile, lane, cg::greater<unsigned>());
}

static void warps()
{
    unsigned h[160], *out;
    bool a = true, b = true, c = true, d = true, e = true;

    part = "report_lanes";
    rc("alloc", cudaMalloc(&out, sizeof(h)));
    lanes<<<1, 32>>>(out);
    rc("read", cudaMemcpy(h, out, sizeof(h), cudaMemcpyDeviceToHost));
    for (unsigned i = 0; i < 32; i++) {
        a &= h[i] == (i & 1 ? (i ^ 2) : 30);
        b &= h[32 + i] == 33;
        c &= i >= 29 || h[64 + i] == i + 3;
        d &= h[96 + i] == (i % 3 == 0 ? 1100 + i / 3 : 0);
        e &= h[128 + i] == i / 8 * 8 + 7;
    }
    yes("halves", a);
    yes("votes", b);
    yes("down", c);
    yes("thirds", d);
    yes("tiles", e);
    rc("free", cudaFree(out));
}

// ---- asynchronous copies to shared memory, and more of it than 48 KiB ----

__global__ void stage(const int *in, int *out, int n)
{
    extern __shared__ int buffer[];
    cg::thread_block block = cg::this_thread_block();

    cg::memcpy_async(block, buffer, in, sizeof(int) * n);
    cg::wait(block);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[i] = buffer[n - 1 - i];
}

static void shared_memory()
{
    const int n = 15000; // 60000 bytes
    std::vector<int> h(n);
    int *in, *out;
    bool right = true;

    part = "report_shared";
    for (int i = 0; i < n; i++)
        h[i] = i;
    rc("alloc", cudaMalloc(&in, n * 4));
    rc("alloc_out", cudaMalloc(&out, n * 4));
    rc("copy", cudaMemcpy(in, h.data(), n * 4, cudaMemcpyHostToDevice));
    rc("attribute", cudaFuncSetAttribute(stage, cudaFuncAttributeMaxDynamicSharedMemorySize, n * 4));
    stage<<<1, 256, n * 4>>>(in, out, n);
    rc("launch", cudaGetLastError());
    rc("read", cudaMemcpy(h.data(), out, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        right &= h[i] == n - 1 - i;
    yes("right", right);
    rc("too_much", cudaFuncSetAttribute(stage, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 24),
       cudaErrorInvalidValue);
    cudaGetLastError();
    cudaFree(in);
    cudaFree(out);
}

// ---- order: host functions and events between kernels ----

static void host_function(void *user)
{
    int *seen = (int *)user;

    seen[1] = seen[0] == 4 ? 1 : 2;
}

static void order()
{
    int *p, *seen;
    cudaEvent_t a, b, plain;
    cudaStream_t s;
    float ms = -1;

    part = "report_order";
    rc("stream", cudaStreamCreate(&s));
    rc("alloc", cudaMalloc(&p, 4));
    rc("pinned", cudaMallocHost(&seen, 8));
    seen[0] = seen[1] = 0;
    rc("event", cudaEventCreate(&a));
    rc("event_2", cudaEventCreate(&b));
    rc("event_plain", cudaEventCreateWithFlags(&plain, cudaEventDisableTiming));
    rc("unrecorded", cudaEventQuery(a));
    rc("unrecorded_time", cudaEventElapsedTime(&ms, a, b), cudaErrorInvalidResourceHandle);
    rc("record", cudaEventRecord(a, s));
    rc("clear", cudaMemsetAsync(p, 0, 4, s));
    add_to<<<1, 1, 0, s>>>(p, 1, 4);
    rc("copy", cudaMemcpyAsync(seen, p, 4, cudaMemcpyDeviceToHost, s));
    rc("function", cudaLaunchHostFunc(s, host_function, seen));
    rc("record_2", cudaEventRecord(b, s));
    rc("record_plain", cudaEventRecord(plain, s));
    rc("wait", cudaEventSynchronize(b));
    yes("seen", seen[1] == 1);
    rc("time", cudaEventElapsedTime(&ms, a, b));
    yes("time_right", ms >= 0);
    rc("time_plain", cudaEventElapsedTime(&ms, a, plain), cudaErrorInvalidResourceHandle);
    cudaGetLastError();
    cudaEventDestroy(a);
    cudaEventDestroy(b);
    cudaEventDestroy(plain);
    cudaStreamDestroy(s);
    cudaFreeHost(seen);
    cudaFree(p);
}

// ---- atomics of all widths ----

__global__ void atomics(double *d, unsigned short *h, __half2 *h2, unsigned long long *m)
{
    unsigned short old = *h, was;

    atomicAdd(d, 0.5);
    atomicAdd(h2, __floats2half2_rn(1, 2));
    atomicMax(m, (unsigned long long)threadIdx.x << 33);
    do {
        was = old;
        old = atomicCAS(h, was, (unsigned short)(was + 3));
    } while (old != was);
}

static void atomic_widths()
{
    unsigned char *p;
    struct {
        double d;
        unsigned long long m;
        __half2 h2;
        unsigned short h;
    } v;

    part = "report_atomics";
    rc("alloc", cudaMalloc(&p, 24));
    rc("clear", cudaMemset(p, 0, 24));
    atomics<<<2, 64>>>((double *)p, (unsigned short *)(p + 20), (__half2 *)(p + 16), (unsigned long long *)(p + 8));
    rc("read", cudaMemcpy(&v, p, 24, cudaMemcpyDeviceToHost));
    yes("double", v.d == 64);
    yes("max", v.m == 63ull << 33);
    yes("half2", __low2float(v.h2) == 128 && __high2float(v.h2) == 256);
    yes("cas16", v.h == 384);
    rc("free", cudaFree(p));
}

// ---- memory of the host in kernels ----

static void host_memory()
{
    int n = 2048, *p = nullptr, *d = nullptr;
    std::vector<int> plain(n + 2048, 1);
    cudaPointerAttributes a;
    unsigned flags = 0;

    part = "report_host_memory";
    rc("alloc", cudaHostAlloc(&p, n * 4, cudaHostAllocMapped | cudaHostAllocPortable));
    rc("flags", cudaHostGetFlags(&flags, p));
    yes("flags_right", (flags & (cudaHostAllocMapped | cudaHostAllocPortable)) == 3);
    rc("pointer", cudaHostGetDevicePointer(&d, p, 0));
    memset(p, 0, n * 4);
    add_to<<<16, 128>>>(d, n, 9);
    rc("sync", cudaDeviceSynchronize());
    yes("right", p[0] == 9 && p[n - 1] == 9);
    rc("attributes", cudaPointerGetAttributes(&a, p + 7));
    yes("attributes_right", a.type == cudaMemoryTypeHost && a.hostPointer == p + 7);
    rc("attributes_plain", cudaPointerGetAttributes(&a, plain.data()));
    yes("attributes_plain_right", a.type == cudaMemoryTypeUnregistered);
    rc("unregister", cudaHostUnregister(p), cudaErrorInvalidValue); // allocated, not registered
    rc("free", cudaFreeHost(p));
    cudaGetLastError();
}

int main()
{
    cooperative();
    pools();
    updates();
    managed();
    last_error();
    variables();
    calls();
    warps();
    shared_memory();
    order();
    atomic_widths();
    host_memory();
    printf("rt_reports: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}

// SPDX-License-Identifier: MIT
// The runtime API through NVIDIA's own libcudart (built three times: see the Makefile). Same lines as
// conform: `rt.check result`.
#include "rt.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <thread>
#include <unistd.h>
#include <vector>

static unsigned passed, failed;

static void line(bool ok, const char *check, const char *got, const char *want)
{
    ok ? passed++ : failed++;
    printf(ok ? "rt.%s %s\n" : "rt.%s %s FAIL want %s\n", check, got, want);
    fflush(stdout);
}
void rc(const char *check, cudaError_t got, cudaError_t want)
{
    line(got == want, check, cudaGetErrorName(got), cudaGetErrorName(want));
}
void yes(const char *check, bool ok) { line(ok, check, ok ? "yes" : "no", "yes"); }

__device__ int counter = 5;
__constant__ float scale[2] = {2.0f, 0.5f};

__global__ void add(const float *a, const float *b, float *c, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] * scale[0] + b[i] * scale[1];
}
__managed__ int shared_counter = 7;
__managed__ struct {
    int in, out[1000];
} shared_box;
__global__ void count_shared() { shared_counter += shared_box.in; shared_box.out[999] = shared_counter; }
__global__ void count_up(int by) { atomicAdd(&counter, by); }
__global__ void sum_block(const int *in, int *out, int n)
{
    extern __shared__ int s[];
    int v = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        v += in[i];
    s[threadIdx.x] = v;
    __syncthreads();
    for (int k = blockDim.x / 2; k; k /= 2) {
        if (threadIdx.x < k)
            s[threadIdx.x] += s[threadIdx.x + k];
        __syncthreads();
    }
    if (!threadIdx.x)
        *out = s[0];
}
template <typename T> __global__ void square(T *p, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        p[i] *= p[i];
}

static void basics()
{
    int n = 0, d = -1, v = 0;
    cudaDeviceProp prop;
    size_t free_mem = 0, total = 0;

    rc("count", cudaGetDeviceCount(&n));
    yes("count_positive", n >= 1);
    rc("get", cudaGetDevice(&d));
    rc("set", cudaSetDevice(0));
    rc("set_past", cudaSetDevice(n), cudaErrorInvalidDevice);
    rc("last_error", cudaGetLastError(), cudaErrorInvalidDevice);
    rc("last_error_cleared", cudaGetLastError());
    rc("properties", cudaGetDeviceProperties(&prop, 0));
    yes("properties_right", prop.name[0] && prop.warpSize == 32 && prop.maxThreadsPerBlock == 1024 &&
                                prop.major * 10 + prop.minor >= 75);
    rc("driver", cudaDriverGetVersion(&v));
    yes("driver_13", v >= 13000);
    rc("info", cudaMemGetInfo(&free_mem, &total));
    yes("info_right", free_mem && free_mem <= total);
    rc("free_null", cudaFree(nullptr));
}

static void vectors()
{
    const int n = 100000;
    std::vector<float> a(n), b(n), c(n);
    float *da, *db, *dc;
    bool ok = true;
    cudaPointerAttributes attr;

    for (int i = 0; i < n; i++)
        a[i] = i * 0.5f, b[i] = i * 3.0f;
    rc("malloc", cudaMalloc(&da, n * 4));
    rc("malloc_2", cudaMalloc(&db, n * 4));
    rc("malloc_3", cudaMalloc(&dc, n * 4));
    rc("copy", cudaMemcpy(da, a.data(), n * 4, cudaMemcpyHostToDevice));
    rc("copy_default", cudaMemcpy(db, b.data(), n * 4, cudaMemcpyDefault));
    add<<<(n + 255) / 256, 256>>>(da, db, dc, n);
    rc("launch", cudaGetLastError());
    rc("copy_back", cudaMemcpy(c.data(), dc, n * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        ok &= c[i] == a[i] * 2.0f + b[i] * 0.5f;
    yes("result", ok);
    rc("attributes", cudaPointerGetAttributes(&attr, dc));
    yes("attributes_right", attr.type == cudaMemoryTypeDevice && attr.device == 0 &&
                                attr.devicePointer == dc);
    rc("attributes_host", cudaPointerGetAttributes(&attr, a.data()));
    yes("attributes_host_right", attr.type == cudaMemoryTypeUnregistered);
    rc("memset", cudaMemset(dc, 0, n * 4));
    square<<<(n + 255) / 256, 256>>>(da, n);
    rc("template", cudaDeviceSynchronize());
    rc("copy_2", cudaMemcpy(c.data(), da, n * 4, cudaMemcpyDeviceToHost));
    yes("template_result", c[2000] == 1000.0f * 1000.0f);
    rc("free", cudaFree(da));
    rc("free_2", cudaFree(db));
    rc("free_3", cudaFree(dc));
    rc("free_twice", cudaFree(dc), cudaErrorInvalidValue);
    cudaGetLastError();
}

static void symbols()
{
    int v = 0;
    float f[2] = {3.0f, 4.0f};
    void *p = nullptr;
    size_t size = 0;

    rc("symbol_read", cudaMemcpyFromSymbol(&v, counter, 4));
    yes("symbol_value", v == 5);
    count_up<<<4, 32>>>(2);
    rc("symbol_read_2", cudaMemcpyFromSymbol(&v, counter, 4));
    yes("symbol_value_2", v == 5 + 256);
    rc("symbol_write", cudaMemcpyToSymbol(scale, f, 8));
    rc("symbol_address", cudaGetSymbolAddress(&p, counter));
    rc("symbol_size", cudaGetSymbolSize(&size, scale));
    yes("symbol_size_value", size == 8);
    f[0] = 2.0f, f[1] = 0.5f;
    rc("symbol_restore", cudaMemcpyToSymbol(scale, f, 8));
}

static void streams()
{
    const int n = 1 << 18;
    cudaStream_t s[2];
    cudaEvent_t e[2];
    int *h = nullptr, *d = nullptr, *out = nullptr, sum = 0, want = 0;
    float ms = -1;

    for (int i = 0; i < 2; i++) {
        rc("stream", cudaStreamCreateWithFlags(&s[i], cudaStreamNonBlocking));
        rc("event", cudaEventCreate(&e[i]));
    }
    rc("host", cudaMallocHost(&h, n * 4));
    rc("device", cudaMalloc(&d, n * 4));
    rc("device_2", cudaMalloc(&out, 4));
    if (!h || !d || !out)
        return;
    for (int i = 0; i < n; i++)
        h[i] = i % 1000, want += h[i];
    rc("record", cudaEventRecord(e[0], s[0]));
    rc("async", cudaMemcpyAsync(d, h, n * 4, cudaMemcpyHostToDevice, s[0]));
    rc("record_2", cudaEventRecord(e[1], s[0]));
    rc("wait", cudaStreamWaitEvent(s[1], e[1], 0));
    sum_block<<<1, 256, 1024, s[1]>>>(d, out, n);
    rc("launch_stream", cudaGetLastError());
    rc("async_back", cudaMemcpyAsync(&sum, out, 4, cudaMemcpyDeviceToHost, s[1]));
    rc("sync", cudaStreamSynchronize(s[1]));
    yes("sum", sum == want);
    rc("elapsed", cudaEventElapsedTime(&ms, e[0], e[1]));
    yes("elapsed_right", ms >= 0);
    rc("query", cudaStreamQuery(s[0]));
    for (int i = 0; i < 2; i++) {
        rc("event_end", cudaEventDestroy(e[i]));
        rc("stream_end", cudaStreamDestroy(s[i]));
    }
    rc("host_free", cudaFreeHost(h));
    rc("device_free", cudaFree(d));
    rc("device_free_2", cudaFree(out));
}

static void CUDART_CB host_fn(void *p) { *(int *)p += 1; }

static void more()
{
    cudaFuncAttributes attr;
    int called = 0, blocks = 0;
    char a[64 * 8], b[64 * 8] = {0};
    void *d = nullptr;
    size_t pitch = 0;
    bool ok = true;

    rc("func", cudaFuncGetAttributes(&attr, sum_block));
    yes("func_right", attr.maxThreadsPerBlock >= 256 && attr.sharedSizeBytes == 0);
    rc("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum_block, 256, 1024));
    yes("occupancy_right", blocks >= 1);
    rc("host_func", cudaLaunchHostFunc(nullptr, host_fn, &called));
    rc("host_func_sync", cudaDeviceSynchronize());
    yes("host_func_called", called == 1);
    for (size_t i = 0; i < sizeof(a); i++)
        a[i] = (char)(i * 13);
    rc("pitch", cudaMallocPitch(&d, &pitch, 40, 8));
    rc("copy_2d", cudaMemcpy2D(d, pitch, a, 64, 40, 8, cudaMemcpyHostToDevice));
    rc("copy_2d_back", cudaMemcpy2D(b, 64, d, pitch, 40, 8, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 8; y++)
        ok &= !memcmp(a + y * 64, b + y * 64, 40) && !b[y * 64 + 40];
    yes("copy_2d_right", ok);
    rc("host_to_host", cudaMemcpy(b, a, sizeof(a), cudaMemcpyHostToHost));
    yes("host_to_host_right", !memcmp(a, b, sizeof(a)));
    rc("pitch_free", cudaFree(d));
    add<<<0, 1>>>(nullptr, nullptr, nullptr, 0);
    rc("grid_zero", cudaGetLastError(), cudaErrorInvalidConfiguration);
    add<<<1, 2048>>>(nullptr, nullptr, nullptr, 0);
    rc("block_large", cudaGetLastError(), cudaErrorInvalidConfiguration);
    sum_block<<<1, 32, 1 << 28>>>(nullptr, nullptr, 0);
    rc("shared_large", cudaGetLastError(), cudaErrorInvalidValue);
    rc("out_of_memory", cudaMalloc(&d, (size_t)1 << 50), cudaErrorMemoryAllocation);
    rc("out_of_memory_last", cudaGetLastError(), cudaErrorMemoryAllocation);
    rc("after", cudaMalloc(&d, 100));
    rc("after_free", cudaFree(d));
}

static void memory()
{
    int *p = nullptr, *q = nullptr, h[256];
    cudaStream_t s;
    bool ok = true;

    rc("managed", cudaMallocManaged(&p, 1024));
    if (p) {
        for (int i = 0; i < 256; i++)
            p[i] = i;
        square<<<2, 128>>>(p, 256);
        rc("managed_sync", cudaDeviceSynchronize());
        for (int i = 0; i < 256; i++)
            ok &= p[i] == i * i;
        yes("managed_right", ok);
        rc("managed_free", cudaFree(p));
    }
    /* __managed__ variables: used before and after kernels, without a copy. */
    yes("managed_initial", shared_counter == 7);
    shared_box.in = 5;
    for (int i = 0; i < 3; i++) {
        shared_counter++;
        count_shared<<<1, 1>>>();
        rc("managed_variable", cudaDeviceSynchronize());
    }
    yes("managed_variable_right", shared_counter == 25 && shared_box.out[999] == 25);
    rc("pool_stream", cudaStreamCreate(&s));
    rc("pool", cudaMallocAsync(&q, 1024, s));
    rc("pool_set", cudaMemsetAsync(q, 1, 1024, s));
    square<<<2, 128, 0, s>>>(q, 256);
    rc("pool_copy", cudaMemcpyAsync(h, q, 1024, cudaMemcpyDeviceToHost, s));
    rc("pool_free", cudaFreeAsync(q, s));
    rc("pool_sync", cudaStreamSynchronize(s));
    yes("pool_right", h[0] == (int)(0x01010101u * 0x01010101u) && h[255] == h[0]);
    rc("pool_stream_end", cudaStreamDestroy(s));
    alignas(4096) static int plain[4096]; // whole pages: all that the socket transport maps
    rc("register", cudaHostRegister(plain, sizeof(plain), cudaHostRegisterMapped));
    rc("register_pointer", cudaHostGetDevicePointer(&p, plain, 0));
    plain[7] = 12;
    square<<<32, 128>>>(p, 4096);
    rc("register_sync", cudaDeviceSynchronize());
    yes("register_right", plain[7] == 144);
    rc("unregister", cudaHostUnregister(plain));
}

/* What ggml and cuBLAS do with graphs: capture, instantiate, update, launch again and again. */
static void graphs()
{
    const int n = 512;
    cudaStream_t s;
    cudaGraph_t g = nullptr, g2 = nullptr;
    cudaGraphExec_t x = nullptr;
    cudaStreamCaptureStatus status;
    cudaGraphExecUpdateResultInfo info;
    size_t nodes = 0;
    int *d = nullptr, *h = nullptr, called = 0;
    bool ok = true;

    rc("graph_stream", cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking));
    rc("graph_alloc", cudaMalloc(&d, n * 4));
    rc("graph_host", cudaMallocHost(&h, n * 4));
    rc("graph_begin", cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    rc("graph_copy", cudaMemcpyAsync(d, h, n * 4, cudaMemcpyHostToDevice, s));
    square<<<n / 128, 128, 0, s>>>(d, n);
    rc("graph_kernel", cudaGetLastError());
    rc("graph_status", cudaStreamIsCapturing(s, &status));
    yes("graph_active", status == cudaStreamCaptureStatusActive);
    rc("graph_host_func", cudaLaunchHostFunc(s, host_fn, &called));
    rc("graph_copy_back", cudaMemcpyAsync(h, d, n * 4, cudaMemcpyDeviceToHost, s));
    rc("graph_end", cudaStreamEndCapture(s, &g));
    rc("graph_nodes", cudaGraphGetNodes(g, nullptr, &nodes));
    yes("graph_four", nodes == 4);
    rc("graph_instantiate", cudaGraphInstantiate(&x, g, 0));
    for (int i = 0; i < n; i++)
        h[i] = i % 7;
    for (int i = 0; i < 2; i++)
        rc("graph_launch", cudaGraphLaunch(x, s));
    rc("graph_sync", cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++) {
        int v = i % 7;
        ok &= h[i] == v * v * v * v;
    }
    yes("graph_right", ok && called == 2);
    rc("graph_begin_2", cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    rc("graph_copy_2", cudaMemcpyAsync(d, h, n * 4, cudaMemcpyHostToDevice, s));
    square<<<1, 128, 0, s>>>(d, 1);
    rc("graph_host_func_2", cudaLaunchHostFunc(s, host_fn, &called));
    rc("graph_copy_back_2", cudaMemcpyAsync(h, d, n * 4, cudaMemcpyDeviceToHost, s));
    rc("graph_end_2", cudaStreamEndCapture(s, &g2));
    rc("graph_update", cudaGraphExecUpdate(x, g2, &info));
    yes("graph_updated", info.result == cudaGraphExecUpdateSuccess);
    for (int i = 0; i < n; i++)
        h[i] = 3;
    rc("graph_launch_2", cudaGraphLaunch(x, s));
    rc("graph_sync_2", cudaStreamSynchronize(s));
    yes("graph_right_2", h[0] == 9 && h[1] == 3 && h[n - 1] == 3 && called == 3);
    rc("graph_exec_end", cudaGraphExecDestroy(x));
    rc("graph_destroy", cudaGraphDestroy(g));
    rc("graph_destroy_2", cudaGraphDestroy(g2));
    rc("graph_begin_3", cudaStreamBeginCapture(s, cudaStreamCaptureModeRelaxed));
    rc("graph_wrong", cudaStreamSynchronize(s), cudaErrorStreamCaptureUnsupported);
    rc("graph_end_3", cudaStreamEndCapture(s, &g), cudaErrorStreamCaptureInvalidated);
    rc("graph_last", cudaGetLastError(), cudaErrorStreamCaptureInvalidated);
    rc("graph_free", cudaFree(d));
    rc("graph_host_free", cudaFreeHost(h));
    rc("graph_stream_end", cudaStreamDestroy(s));
}

/* All kinds of kernel arguments through <<<>>>. */
struct many { char c; double d; short s[3]; };
__global__ void take(many m, unsigned char b, const long long l, float3 f, double *out)
{
    out[0] = m.c + m.d + m.s[2];
    out[1] = b + (double)l;
    out[2] = f.x + f.y * 2 + f.z * 4;
}

static void arguments()
{
    many m = {5, 0.5, {1, 2, 300}};
    double *d = nullptr, h[3] = {0};

    rc("arguments_alloc", cudaMalloc(&d, 24));
    take<<<1, 1>>>(m, 200, 1LL << 40, make_float3(1, 2, 3), d);
    rc("arguments_copy", cudaMemcpy(h, d, 24, cudaMemcpyDeviceToHost));
    yes("arguments_right", h[0] == 305.5 && h[1] == 200 + (double)(1LL << 40) && h[2] == 17);
    rc("arguments_free", cudaFree(d));
}

static void threads()
{
    std::vector<std::thread> t;
    int bad[4] = {0};
    for (int id = 0; id < 4; id++)
        t.emplace_back([id, &bad] {
            const int n = 4096;
            std::vector<int> h(n);
            int *d = nullptr;
            bad[id] += cudaMalloc(&d, n * 4) != cudaSuccess;
            for (int i = 0; i < n; i++)
                h[i] = i % 100 + id;
            bad[id] += cudaMemcpyAsync(d, h.data(), n * 4, cudaMemcpyHostToDevice, cudaStreamPerThread) != 0;
            square<<<n / 128, 128, 0, cudaStreamPerThread>>>(d, n);
            bad[id] += cudaMemcpyAsync(h.data(), d, n * 4, cudaMemcpyDeviceToHost, cudaStreamPerThread) != 0;
            bad[id] += cudaStreamSynchronize(cudaStreamPerThread) != cudaSuccess;
            for (int i = 0; i < n; i++)
                bad[id] += h[i] != (i % 100 + id) * (i % 100 + id);
            cudaFree(d);
        });
    for (auto &x : t)
        x.join();
    yes("threads", !bad[0] && !bad[1] && !bad[2] && !bad[3]);
}

__global__ void for_ever(volatile int *began)
{
    *began = 1;
    while (*began)
        ;
}

/* A kernel runs that never ends: the process ends all the same, by main's return. */
static void leave_busy(void)
{
    volatile int *began = nullptr;

    rc("busy_alloc", cudaHostAlloc((void **)&began, sizeof(*began), cudaHostAllocMapped));
    if (!began)
        return;
    *began = 0;
    for_ever<<<1, 1>>>(began);
    rc("busy_launch", cudaGetLastError());
    while (!*began)
        ;
    rc("busy_query", cudaStreamQuery(nullptr), cudaErrorNotReady);
}

template <typename F> static F *driver(const char *name)
{
    void *fn = nullptr;
    cudaDriverEntryPointQueryResult found;

    return cudaGetDriverEntryPointByVersion(name, &fn, 13000, cudaEnableDefault, &found) ? nullptr : (F *)fn;
}
#define DRIVER(name) driver<decltype(name)>(#name)

// Green contexts come from the driver API: the runtime works in their streams, and while one is current.
static void green()
{
    CUdevResource all, part;
    CUdevResourceDesc desc;
    CUgreenCtx g = nullptr, of = nullptr;
    CUcontext c, primary;
    CUstream s = nullptr;
    cudaStream_t t = nullptr;
    int *p = nullptr, *q = nullptr, v[4] = {1, 2, 3, 4};
    unsigned n = 1;

    rc("green_alloc", cudaMalloc(&p, sizeof(v)));
    rc("green_up", cudaMemcpy(p, v, sizeof(v), cudaMemcpyHostToDevice));
    yes("green_split", !DRIVER(cuDeviceGetDevResource)(0, &all, CU_DEV_RESOURCE_TYPE_SM) &&
                           !DRIVER(cuDevSmResourceSplitByCount)(&part, &n, &all, nullptr,
                                CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING, 1));
    yes("green_create", !DRIVER(cuDevResourceGenerateDesc)(&desc, &part, 1) &&
                            !DRIVER(cuGreenCtxCreate)(&g, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    yes("green_stream", !DRIVER(cuGreenCtxStreamCreate)(&s, g, CU_STREAM_NON_BLOCKING, 0));
    square<<<1, 4, 0, (cudaStream_t)s>>>(p, 4);
    rc("green_launch", cudaGetLastError());
    rc("green_sync", cudaStreamSynchronize((cudaStream_t)s));

    yes("green_current", !DRIVER(cuCtxGetCurrent)(&primary) && !DRIVER(cuCtxFromGreenCtx)(&c, g) &&
                             !DRIVER(cuCtxSetCurrent)(c));
    rc("green_alloc_2", cudaMalloc(&q, sizeof(v)));
    rc("green_stream_2", cudaStreamCreateWithFlags(&t, cudaStreamNonBlocking));
    yes("green_of_stream", !DRIVER(cuStreamGetGreenCtx)((CUstream)t, &of) && of == g);
    rc("green_copy", cudaMemcpyAsync(q, p, sizeof(v), cudaMemcpyDeviceToDevice, t));
    square<<<1, 4, 0, t>>>(q, 4);
    rc("green_launch_2", cudaGetLastError());
    rc("green_down", cudaMemcpyAsync(v, q, sizeof(v), cudaMemcpyDeviceToHost, t));
    rc("green_sync_2", cudaStreamSynchronize(t));
    yes("green_values", v[0] == 1 && v[1] == 16 && v[3] == 256);
    rc("green_stream_end", cudaStreamDestroy(t));
    yes("green_back", !DRIVER(cuCtxSetCurrent)(primary));
    rc("green_free", cudaFree(q));
    rc("green_free_2", cudaFree(p));
    yes("green_end", !DRIVER(cuStreamDestroy)(s) && !DRIVER(cuGreenCtxDestroy)(g));
}

// --sticky: an illegal address and what follows; --busy: the end with a kernel under way; else: everything else.
int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--busy")) {
        leave_busy();
    } else if (argc > 1 && !strcmp(argv[1], "--sticky")) {
        int *d = nullptr;
        rc("sticky_alloc", cudaMalloc(&d, 4));
        square<<<1, 1>>>((int *)16, 1);
        rc("sticky_sync", cudaDeviceSynchronize(), cudaErrorIllegalAddress);
        rc("sticky_alloc_2", cudaMalloc(&d, 4), cudaErrorIllegalAddress);
        rc("sticky_last", cudaGetLastError(), cudaErrorIllegalAddress);
        rc("sticky_last_2", cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    } else {
        basics();
        vectors();
        symbols();
        streams();
        more();
        memory();
        graphs();
        arguments();
        textures();
        green();
        threads();
        rc("reset", cudaDeviceReset());
        vectors();
    }
    printf("conform_rt: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}

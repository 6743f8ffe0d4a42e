/* SPDX-License-Identifier: MIT */
/* Ordinary kernels, compiled by nvcc -ptx in the tests (exec/nvcc_test.c). */
#include <stdio.h>
#include <assert.h>

extern "C" __global__ void vectorAdd(const float *a, const float *b, float *c, int n)
{
    int i = blockDim.x * blockIdx.x + threadIdx.x;
    if (i < n)
        c[i] = a[i] + b[i];
}

extern "C" __global__ void matmul(const float *a, const float *b, float *c, int n)
{
    __shared__ float sa[16][16], sb[16][16];
    int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
    float s = 0;
    for (int k = 0; k < n; k += 16) {
        sa[threadIdx.y][threadIdx.x] = a[y * n + k + threadIdx.x];
        sb[threadIdx.y][threadIdx.x] = b[(k + threadIdx.y) * n + x];
        __syncthreads();
        for (int j = 0; j < 16; j++)
            s += sa[threadIdx.y][j] * sb[j][threadIdx.x];
        __syncthreads();
    }
    c[y * n + x] = s;
}

extern "C" __global__ void reduce(const int *a, int *out, int n)
{
    __shared__ int part[32];
    int s = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        s += a[i];
    for (int o = 16; o; o >>= 1)
        s += __shfl_down_sync(0xffffffffu, s, o);
    if (!(threadIdx.x & 31))
        part[threadIdx.x >> 5] = s;
    __syncthreads();
    if (threadIdx.x < 32) {
        s = threadIdx.x < blockDim.x / 32 ? part[threadIdx.x] : 0;
        for (int o = 16; o; o >>= 1)
            s += __shfl_down_sync(0xffffffffu, s, o);
        if (!threadIdx.x)
            atomicAdd(out, s);
    }
}

extern "C" __global__ void histogram(const unsigned char *a, unsigned *h, int n)
{
    __shared__ unsigned s[256];
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        s[i] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[a[i]], 1);
    __syncthreads();
    for (int i = threadIdx.x; i < 256; i += blockDim.x)
        atomicAdd(&h[i], s[i]);
}

template <typename T> __device__ int mandel(T cx, T cy)
{
    T x = 0, y = 0;
    int k = 0;
    while (k < 200 && x * x + y * y < T(4)) {
        T t = x * x - y * y + cx;
        y = T(2) * x * y + cy;
        x = t;
        k++;
    }
    return k;
}

extern "C" __global__ void mandelF(int *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h)
        out[y * w + x] = mandel<float>(-2.0f + 3.0f * x / w, -1.5f + 3.0f * y / h);
}

extern "C" __global__ void mandelD(int *out, int w, int h)
{
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h)
        out[y * w + x] = mandel<double>(-2.0 + 3.0 * x / w, -1.5 + 3.0 * y / h);
}

/* One pass: each block scans its part and waits for the sum of those before it (look-back). */
extern "C" __global__ void scan(const int *in, int *out, volatile int *sum, volatile int *flag, int n)
{
    __shared__ int warp[32], before;
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, w = threadIdx.x >> 5;
    int v = i < n ? in[i] : 0, x = v;
    for (int o = 1; o < 32; o <<= 1) {
        int y = __shfl_up_sync(0xffffffffu, x, o);
        if (lane >= o)
            x += y;
    }
    if (lane == 31)
        warp[w] = x;
    __syncthreads();
    if (w == 0) {
        int s = lane < blockDim.x / 32 ? warp[lane] : 0;
        for (int o = 1; o < 32; o <<= 1) {
            int y = __shfl_up_sync(0xffffffffu, s, o);
            if (lane >= o)
                s += y;
        }
        warp[lane] = s;
    }
    __syncthreads();
    if (w)
        x += warp[w - 1];
    if (threadIdx.x == blockDim.x - 1) {
        int b = 0;
        if (blockIdx.x) {
            while (!flag[blockIdx.x - 1])
                ;
            __threadfence();
            b = sum[blockIdx.x - 1];
        }
        sum[blockIdx.x] = b + x;
        __threadfence();
        flag[blockIdx.x] = 1;
        before = b;
    }
    __syncthreads();
    if (i < n)
        out[i] = x + before - v;
}

struct particle {
    float pos[3];
    double mass;
    short kind;
};

__device__ __noinline__ double energy(particle p, const double *table)
{
    return 0.5 * p.mass * (p.pos[0] * p.pos[0] + p.pos[1] * p.pos[1] + p.pos[2] * p.pos[2]) +
           table[p.kind & 3];
}

__constant__ double kinds[4] = {0.5, 1.25, -3.0, 100.0};

extern "C" __global__ void structs(particle base, double *out, float step)
{
    particle p = base;
    int local[8];
    int t = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 8; k++)
        local[k] = (t * 7 + k * 3) & 7;
    p.pos[local[t & 7] % 3] += step * t;
    p.kind = (short)t;
    out[t] = energy(p, kinds) + local[local[3]];
}

extern "C" __global__ void maths(const float *in, float *out, double *dout, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float x = in[i];
    out[i] = sinf(x) + expf(-x) * logf(x + 1.5f) + powf(x + 1.0f, 1.7f) + tanhf(x) + atan2f(x, 2.0f) +
             fmodf(x * 10.0f, 0.7f) + erff(x) + sinf(x * 100000.0f);
    dout[i] = sin((double)x) + exp(-(double)x) + log(x + 1.5) + pow(x + 1.0, 1.7) + tanh((double)x) +
              cbrt((double)x + 2.0) + rint(x * 1000.0) + cos(x * 1e9);
}

__global__ void printing(int n)
{
    if (threadIdx.x == 3)
        printf("block %d thread %u n=%d %.3f %s\n", blockIdx.x, threadIdx.x, n, 2.5, "text");
    assert(n < 1000);
}

#if __CUDA_ARCH__ >= 700 || !defined(__CUDA_ARCH__)
#include <cooperative_groups.h>

/* Each round, every block adds what its neighbour wrote in the round before. */
extern "C" __global__ void gridsync(unsigned *v, int rounds)
{
    cooperative_groups::grid_group grid = cooperative_groups::this_grid();
    unsigned n = gridDim.x;
    for (int k = 0; k < rounds; k++) {
        if (threadIdx.x == 0)
            v[((k + 1) & 1) * n + blockIdx.x] =
                v[(k & 1) * n + blockIdx.x] + v[(k & 1) * n + (blockIdx.x + 1) % n];
        grid.sync();
    }
}
#endif

/* Virtual functions: calls through pointers in global memory. */
struct shape {
    __device__ virtual int area(int k) const = 0;
};
struct square : shape {
    __device__ __noinline__ int area(int k) const override { return k * k; }
};
struct line : shape {
    int w;
    __device__ line(int n) : w(n) {}
    __device__ __noinline__ int area(int k) const override { return k + w; }
};

extern "C" __global__ void virtuals(int *out)
{
    square s;
    line l(100);
    const shape *p = threadIdx.x & 1 ? (const shape *)&s : (const shape *)&l;
    out[threadIdx.x] = p->area(threadIdx.x);
}

#include <cuda/barrier>

/* Two halves of a block pass a buffer back and forth with cuda::barrier (mbarrier from sm_80 on). */
extern "C" __global__ void pingpong(int *out, int rounds)
{
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ int buf[32];
    __shared__ barrier ready, used;
    if (threadIdx.x == 0) {
        init(&ready, 64);
        init(&used, 64);
    }
    __syncthreads();
    int lane = threadIdx.x & 31, sum = 0;
    if (threadIdx.x < 32) {
        for (int k = 0; k < rounds; k++) {
            buf[lane] = lane * k;
            (void)ready.arrive();
            used.arrive_and_wait();
        }
    } else {
        for (int k = 0; k < rounds; k++) {
            ready.arrive_and_wait();
            sum += buf[31 - lane];
            (void)used.arrive();
        }
        out[lane] = sum;
    }
}

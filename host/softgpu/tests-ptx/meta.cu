// SPDX-License-Identifier: MIT
// Compiled to SASS only: what is read out of cubins (ptx/cubin_test.c, api/code/module_test.c).
__device__ int filled[4] = {1, 2, 3, 4};
__device__ float zero[100];
__constant__ int constant[3] = {7, 8, 9};
__managed__ int managed = 5;
__device__ int *pointer = &filled[2];

struct mixed_struct {
    char a;
    double b;
    char c;
};
struct large_struct {
    char x[5000];
};

extern "C" __global__ void mixed(int *p, float f, mixed_struct s, char c)
{
    __shared__ int sh[64];
    extern __shared__ int dyn[];

    sh[threadIdx.x] = filled[p[0] & 3] + constant[p[1] % 3] + (int)zero[p[2] & 63] + *pointer;
    __syncthreads();
    p[threadIdx.x] = sh[63 - threadIdx.x] + (int)f + (int)s.b + c + dyn[3] + managed;
}

extern "C" __global__ void __launch_bounds__(128, 2) bounded()
{
    filled[0] = 1;
}

extern "C" __global__ void large(int *p, large_struct b, int q)
{
    p[0] = b.x[q];
}

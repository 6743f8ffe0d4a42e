// SPDX-License-Identifier: MIT
// Every form of texture fetch and surface access that nvcc emits, for api/code/texture_fetch_test.c. A sample is
// (x, y, z, w); what w is depends on the kernel: a layer or a level of detail.
#include <cuda_runtime.h>

#define SAMPLE(name, T, expr)                                                                      \
    extern "C" __global__ void name(cudaTextureObject_t t, const float4 *c, T *o, int n)           \
    {                                                                                              \
        int i = blockIdx.x * blockDim.x + threadIdx.x;                                             \
        if (i < n) {                                                                               \
            float4 s = c[i];                                                                       \
            o[i] = expr;                                                                           \
        }                                                                                          \
    }

SAMPLE(t1, float4, tex1D<float4>(t, s.x))
SAMPLE(t1_lod, float4, tex1DLod<float4>(t, s.x, s.w))
SAMPLE(t1_grad, float4, tex1DGrad<float4>(t, s.x, s.y, s.z))
SAMPLE(t1_fetch, float4, tex1Dfetch<float4>(t, (int)s.x))
SAMPLE(t1_fetch_i, int4, tex1Dfetch<int4>(t, (int)s.x))
SAMPLE(t2, float4, tex2D<float4>(t, s.x, s.y))
SAMPLE(t2_i, int4, tex2D<int4>(t, s.x, s.y))
SAMPLE(t2_u, uint4, tex2D<uint4>(t, s.x, s.y))
SAMPLE(t2_lod, float4, tex2DLod<float4>(t, s.x, s.y, s.w))
SAMPLE(t2_grad, float4, tex2DGrad<float4>(t, s.x, s.y, make_float2(s.z, 0), make_float2(0, s.w)))
SAMPLE(t3, float4, tex3D<float4>(t, s.x, s.y, s.z))
SAMPLE(t3_lod, float4, tex3DLod<float4>(t, s.x, s.y, s.z, s.w))
SAMPLE(ta1, float4, tex1DLayered<float4>(t, s.x, (int)s.w))
SAMPLE(ta2, float4, tex2DLayered<float4>(t, s.x, s.y, (int)s.w))
SAMPLE(ta2_lod, float4, tex2DLayeredLod<float4>(t, s.x, s.y, 1, s.w))
SAMPLE(tcube, float4, texCubemap<float4>(t, s.x, s.y, s.z))
SAMPLE(tcube_lod, float4, texCubemapLod<float4>(t, s.x, s.y, s.z, s.w))
SAMPLE(tacube, float4, texCubemapLayered<float4>(t, s.x, s.y, s.z, (int)s.w))
SAMPLE(g0, float4, tex2Dgather<float4>(t, s.x, s.y, 0))
SAMPLE(g3, float4, tex2Dgather<float4>(t, s.x, s.y, 3))

static __device__ float4 resident(cudaTextureObject_t t, float4 s)
{
    bool in;
    float4 v = tex2D<float4>(t, s.x, s.y, &in);

    return in ? v : make_float4(-1, -1, -1, -1);
}
SAMPLE(t2_resident, float4, resident(t, s))

/* Each element of a surface becomes 3 * itself + 1, through every width and geometry. */
extern "C" __global__ void s2_f4(cudaSurfaceObject_t s, int w, int h)
{
    int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y;

    if (x < w && y < h) {
        float4 v = surf2Dread<float4>(s, x * 16, y);
        surf2Dwrite(make_float4(3 * v.x + 1, 3 * v.y + 1, 3 * v.z + 1, 3 * v.w + 1), s, x * 16, y);
    }
}

#define SURFACE(name, T, READ, WRITE)                                                              \
    extern "C" __global__ void name(cudaSurfaceObject_t s, int w, int h)                           \
    {                                                                                              \
        int x = threadIdx.x + blockIdx.x * blockDim.x, y = blockIdx.y, z = blockIdx.z;             \
        (void)y, (void)z;                                                                          \
        if (x < w) {                                                                               \
            T v = READ;                                                                            \
            v = 3 * v + 1;                                                                         \
            WRITE;                                                                                 \
        }                                                                                          \
    }
SURFACE(s1_u32, unsigned, surf1Dread<unsigned>(s, x * 4), surf1Dwrite(v, s, x * 4))
SURFACE(s2_u8, unsigned char, surf2Dread<unsigned char>(s, x, y), surf2Dwrite(v, s, x, y))
SURFACE(s2_u16, unsigned short, surf2Dread<unsigned short>(s, x * 2, y),
        surf2Dwrite(v, s, x * 2, y))
SURFACE(s3_u32, unsigned, surf3Dread<unsigned>(s, x * 4, y, z), surf3Dwrite(v, s, x * 4, y, z))
SURFACE(sa1_u32, unsigned, surf1DLayeredread<unsigned>(s, x * 4, z),
        surf1DLayeredwrite(v, s, x * 4, z))
SURFACE(sa2_u32, unsigned, surf2DLayeredread<unsigned>(s, x * 4, y, z),
        surf2DLayeredwrite(v, s, x * 4, y, z))
SURFACE(sc_u32, unsigned, surfCubemapread<unsigned>(s, x * 4, y, z),
        surfCubemapwrite(v, s, x * 4, y, z))
SURFACE(s2_u64, unsigned long long, surf2Dread<unsigned long long>(s, x * 8, y),
        surf2Dwrite(v, s, x * 8, y))

/* One access at (x, y) in each boundary mode. */
extern "C" __global__ void bounds(cudaSurfaceObject_t s, unsigned *o, int x, int y, int mode)
{
    if (mode == 0) {
        *o = surf2Dread<unsigned>(s, x, y, cudaBoundaryModeTrap);
    } else if (mode == 1) {
        *o = surf2Dread<unsigned>(s, x, y, cudaBoundaryModeClamp);
        surf2Dwrite(1000u, s, x, y, cudaBoundaryModeClamp);
    } else {
        *o = surf2Dread<unsigned>(s, x, y, cudaBoundaryModeZero);
        surf2Dwrite(2000u, s, x, y, cudaBoundaryModeZero);
    }
}

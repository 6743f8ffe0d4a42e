// SPDX-License-Identifier: MIT
// Texture and surface objects of the runtime API, over memory of every geometry.
#include "rt.h"

#include <string>
#include <vector>

/* Each texel is 1000 slice + 100 row + column; a kernel reads all of them through every geometry. */
enum geometry { G1, G2, G3, GA1, GA2, GCUBE, GMIP, GLINEAR, GPITCH };

__global__ void read_texels(cudaTextureObject_t t, float *out, int g, int w, int h, int d)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, x = i % w, y = i / w % h, z = i / w / h;
    float u = x + 0.5f, v = y + 0.5f, r = 0;

    if (z >= d)
        return;
    if (g == G1)
        r = tex1D<float>(t, u);
    else if (g == G2 || g == GPITCH)
        r = tex2D<float>(t, u, v);
    else if (g == G3)
        r = tex3D<float>(t, u, v, z + 0.5f);
    else if (g == GA1)
        r = tex1DLayered<float>(t, u, z);
    else if (g == GA2)
        r = tex2DLayered<float>(t, u, v, z);
    else if (g == GLINEAR)
        r = tex1Dfetch<float>(t, x);
    else if (g == GMIP)
        r = tex2DLod<float>(t, u / w, v / h, 1);
    else { /* the middle of each texel, as a direction */
        float a = 2 * u / w - 1, b = 2 * v / h - 1;

        r = z == 0   ? texCubemap<float>(t, 1, -b, -a)
            : z == 1 ? texCubemap<float>(t, -1, -b, a)
            : z == 2 ? texCubemap<float>(t, a, 1, b)
            : z == 3 ? texCubemap<float>(t, a, -1, -b)
            : z == 4 ? texCubemap<float>(t, a, -b, 1)
                     : texCubemap<float>(t, -a, -b, -1);
    }
    out[i] = r;
}

__global__ void double_surface(cudaSurfaceObject_t s, int w)
{
    int x = threadIdx.x % w, y = threadIdx.x / w;

    surf2Dwrite(2 * surf2Dread<float>(s, x * 4, y), s, x * 4, y);
}

static std::vector<float> texels(int w, int h, int d)
{
    std::vector<float> v(w * h * d);

    for (int i = 0; i < w * h * d; i++)
        v[i] = 1000.0f * (i / w / h) + 100.0f * (i / w % h) + i % w;
    return v;
}

static void read_back(const char *check, const cudaResourceDesc &r, int g, int w, int h, int d)
{
    std::vector<float> want = texels(w, h, d), got(w * h * d, -1.0f);
    cudaTextureDesc t = {};
    cudaTextureObject_t o = 0;
    float *out = nullptr;
    cudaError_t e;

    t.addressMode[0] = t.addressMode[1] = t.addressMode[2] = cudaAddressModeClamp;
    t.normalizedCoords = g == GMIP || g == GCUBE;
    t.maxMipmapLevelClamp = 8;
    e = cudaCreateTextureObject(&o, &r, &t, nullptr);
    if (!e)
        e = cudaMalloc(&out, got.size() * 4);
    read_texels<<<(unsigned)(got.size() + 63) / 64, 64>>>(o, out, g, w, h, d);
    if (!e)
        e = cudaMemcpy(got.data(), out, got.size() * 4, cudaMemcpyDeviceToHost);
    rc(check, e);
    yes((std::string(check) + "_values").c_str(), got == want);
    cudaFree(out);
    rc((std::string(check) + "_destroy").c_str(), cudaDestroyTextureObject(o));
}

static void array_texture(const char *check, int g, int w, int h, int d, unsigned flags)
{
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    cudaExtent extent = make_cudaExtent(w, g == G1 || g == GA1 ? 0 : h, d > 1 ? d : 0);
    std::vector<float> v = texels(w, h, d);
    cudaArray_t a = nullptr;
    cudaMemcpy3DParms p = {};
    cudaResourceDesc r = {};

    rc((std::string(check) + "_array").c_str(), cudaMalloc3DArray(&a, &f, extent, flags));
    p.srcPtr = make_cudaPitchedPtr(v.data(), w * 4, w, h);
    p.dstArray = a;
    p.extent = make_cudaExtent(w, h, d);
    p.kind = cudaMemcpyHostToDevice;
    rc((std::string(check) + "_copy").c_str(), cudaMemcpy3D(&p));
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    read_back(check, r, g, w, h, d);
    rc((std::string(check) + "_free").c_str(), cudaFreeArray(a));
}

void textures()
{
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>(), ff;
    std::vector<float> v = texels(16, 8, 1), back(16 * 8);
    cudaMipmappedArray_t m = nullptr;
    cudaArray_t a = nullptr;
    cudaResourceDesc r = {};
    cudaSurfaceObject_t s = 0;
    cudaExtent e;
    unsigned flags;
    float *p = nullptr;
    size_t pitch = 0;
    bool doubled = true;

    array_texture("texture_1d", G1, 300, 1, 1, 0);
    array_texture("texture_2d", G2, 33, 7, 1, 0);
    array_texture("texture_3d", G3, 17, 6, 5, 0);
    array_texture("texture_1d_layered", GA1, 31, 1, 4, cudaArrayLayered);
    array_texture("texture_2d_layered", GA2, 12, 9, 3, cudaArrayLayered);
    array_texture("texture_cube", GCUBE, 8, 8, 6, cudaArrayCubemap);

    rc("mipmap", cudaMallocMipmappedArray(&m, &f, make_cudaExtent(32, 16, 0), 3));
    rc("mipmap_level", cudaGetMipmappedArrayLevel(&a, m, 1));
    rc("mipmap_copy", cudaMemcpy2DToArray(a, 0, 0, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    r.resType = cudaResourceTypeMipmappedArray;
    r.res.mipmap.mipmap = m;
    read_back("mipmap_texture", r, GMIP, 16, 8, 1);
    rc("mipmap_free", cudaFreeMipmappedArray(m));

    rc("pitch", cudaMallocPitch(&p, &pitch, 64, 8));
    rc("pitch_copy", cudaMemcpy2D(p, pitch, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    r = {};
    r.resType = cudaResourceTypePitch2D;
    r.res.pitch2D.devPtr = p;
    r.res.pitch2D.desc = f;
    r.res.pitch2D.width = 16;
    r.res.pitch2D.height = 8;
    r.res.pitch2D.pitchInBytes = pitch;
    read_back("pitch_texture", r, GPITCH, 16, 8, 1);
    r = {};
    r.resType = cudaResourceTypeLinear;
    r.res.linear.devPtr = p;
    r.res.linear.desc = f;
    r.res.linear.sizeInBytes = 64;
    read_back("linear_texture", r, GLINEAR, 16, 1, 1);
    cudaFree(p);

    rc("surface_array", cudaMallocArray(&a, &f, 16, 8, cudaArraySurfaceLoadStore));
    rc("surface_info", cudaArrayGetInfo(&ff, &e, &flags, a));
    yes("surface_extent", e.width == 16 && e.height == 8 && ff.x == 32 &&
                              flags == cudaArraySurfaceLoadStore);
    rc("surface_up", cudaMemcpy2DToArray(a, 0, 0, v.data(), 64, 64, 8, cudaMemcpyHostToDevice));
    r = {};
    r.resType = cudaResourceTypeArray;
    r.res.array.array = a;
    rc("surface", cudaCreateSurfaceObject(&s, &r));
    double_surface<<<1, 128>>>(s, 16);
    rc("surface_down", cudaMemcpy2DFromArray(back.data(), 64, a, 0, 0, 64, 8, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 128; i++)
        doubled = doubled && back[i] == 2 * v[i];
    yes("surface_values", doubled);
    rc("surface_destroy", cudaDestroySurfaceObject(s));
    rc("surface_free", cudaFreeArray(a));
}

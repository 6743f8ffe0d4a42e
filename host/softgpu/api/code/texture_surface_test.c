/* SPDX-License-Identifier: MIT */
/* Surfaces as kernels see them; part of texture_fetch_test. */
#include "api/code/texture_model_test.h"

static void surface(const char *kernel, CUDA_ARRAY3D_DESCRIPTOR d, size_t eb)
{
    size_t h = d.Height ? d.Height : 1, z = d.Depth ? d.Depth : 1, n = d.Width * h * z;
    uint8_t *in = calloc(n, eb * d.NumChannels), *out = calloc(n, eb * d.NumChannels);
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    int w = (int)d.Width, hh = (int)h;
    CUsurfObject s;
    CUfunction f;
    void *args[] = {&s, &w, &hh};

    d.Flags |= CUDA_ARRAY3D_SURFACE_LDST;
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    for (size_t i = 0; i < n * eb * d.NumChannels; i++)
        in[i] = (uint8_t)ref_rnd();
    CUDA_MEMCPY3D m = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = in,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = res.res.array.hArray,
                       .WidthInBytes = d.Width * eb * d.NumChannels,
                       .Height = h,
                       .Depth = z};
    OK(cuMemcpy3D_v2(&m));
    OK(cuSurfObjectCreate(&s, &res));
    OK(cuModuleGetFunction(&f, module, kernel));
    OK(cuLaunchKernel(f, (unsigned)(d.Width + 31) / 32, (unsigned)h, (unsigned)z, 32, 1, 1, 0, NULL, args,
                      NULL));
    CUDA_MEMCPY3D b = {.dstMemoryType = CU_MEMORYTYPE_HOST,
                       .dstHost = out,
                       .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                       .srcArray = res.res.array.hArray,
                       .WidthInBytes = m.WidthInBytes,
                       .Height = h,
                       .Depth = z};
    OK(cuMemcpy3D_v2(&b));
    for (size_t i = 0; i < n; i++) {
        uint64_t v = 0, got = 0, mask = eb * d.NumChannels == 8 ? ~0ull : (1ull << 8 * eb) - 1;

        memcpy(&v, in + i * eb * d.NumChannels, eb * d.NumChannels);
        memcpy(&got, out + i * eb * d.NumChannels, eb * d.NumChannels);
        assert_int_equal(got, (3 * v + 1) & mask);
    }
    OK(cuSurfObjectDestroy(s));
    OK(cuArrayDestroy(res.res.array.hArray));
    free(in);
    free(out);
}

void test_surfaces(void **state)
{
    const CUarray_format u32 = CU_AD_FORMAT_UNSIGNED_INT32;

    (void)state;
    surface("s1_u32", (CUDA_ARRAY3D_DESCRIPTOR){77, 0, 0, u32, 1, 0}, 4);
    surface("s2_u8", (CUDA_ARRAY3D_DESCRIPTOR){77, 5, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, 1);
    surface("s2_u16", (CUDA_ARRAY3D_DESCRIPTOR){77, 5, 0, CU_AD_FORMAT_UNSIGNED_INT16, 1, 0}, 2);
    surface("s3_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 3, u32, 1, 0}, 4);
    surface("sa1_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 0, 3, u32, 1, CUDA_ARRAY3D_LAYERED}, 4);
    surface("sa2_u32", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 3, u32, 1, CUDA_ARRAY3D_LAYERED}, 4);
    surface("sc_u32", (CUDA_ARRAY3D_DESCRIPTOR){12, 12, 6, u32, 1, CUDA_ARRAY3D_CUBEMAP}, 4);
    surface("s2_u64", (CUDA_ARRAY3D_DESCRIPTOR){33, 5, 0, u32, 2, 0}, 4);
}

/* What happens out of bounds; a context of its own, for one of the modes ends it. */
void test_surface_bounds(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, CUDA_ARRAY3D_SURFACE_LDST};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUcontext c = ctx_begin();
    uint32_t data[12], got;
    CUdeviceptr o;
    CUsurfObject s;
    CUmodule m;
    CUfunction f;
    int x, y, mode;
    void *args[] = {&s, &o, &x, &y, &mode};

    (void)state;
    for (uint32_t i = 0; i < 12; i++)
        data[i] = 100 + i;
    OK(cuModuleLoad(&m, ptx_path));
    OK(cuModuleGetFunction(&f, m, "bounds"));
    OK(cuMemAlloc_v2(&o, 4));
    OK(cuArray3DCreate_v2(&res.res.array.hArray, &d));
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = data,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = res.res.array.hArray,
                        .WidthInBytes = 16,
                        .Height = 3};
    OK(cuMemcpy2D_v2(&up));
    OK(cuSurfObjectCreate(&s, &res));
    mode = 2;
    x = 16;
    y = 1;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, o, 4));
    assert_int_equal(got, 0);
    mode = 1;
    y = 7; /* the last element */
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, o, 4));
    assert_int_equal(got, 111);
    CUDA_MEMCPY2D down = {.dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = data,
                          .srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = res.res.array.hArray,
                          .WidthInBytes = 16,
                          .Height = 3};
    OK(cuMemcpy2D_v2(&down));
    for (uint32_t i = 0; i < 12; i++)
        assert_int_equal(data[i], i == 11 ? 1000 : 100 + i);
    mode = 0;
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    IS(cuCtxSynchronize(), LAUNCH_FAILED);
    cuCtxDestroy_v2(c);
    OK(cuCtxSetCurrent(context));
}

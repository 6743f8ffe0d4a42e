// SPDX-License-Identifier: MIT
/*
 * Entry points of CUDA 2 and 3, still exported by libcuda: 32-bit sizes and device addresses,
 * launches prepared step by step. On a 64-bit system device memory may be out of their range.
 * CF_UB: driver 580 refuses the memory calls in a context created by a newer call.
 */
#define __CUDA_API_VERSION_INTERNAL 1
#include "conform.h"

CASE(old_memory, CF_CTX | CF_UB)
{
    CUdeviceptr_v1 p = 7;
    CUdeviceptr wide = 0;
    unsigned pitch = 0, n = 0, t = 0;
    size_t before = 0, after = 0, all = 0;
    void *h = NULL;

    NEED(cuMemGetInfo_v2(&before, &all));
    /* A driver with memory below 4 GiB returns some; on a 64-bit system no driver does. */
    RC("alloc", cuMemAlloc(&p, 1000), CUDA_ERROR_OUT_OF_MEMORY);
    cf_u64("untouched", p, 7);
    RC("alloc_pitch", cuMemAllocPitch(&p, &pitch, 100, 10, 4), CUDA_ERROR_OUT_OF_MEMORY);
    NEED(cuMemGetInfo_v2(&after, &all));
    cf_true("given_back", before == after);
    RC("alloc_null", cuMemAlloc(NULL, 1000), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_nothing", cuMemAlloc(&p, 0), CUDA_ERROR_INVALID_VALUE);
    OK("free_null", cuMemFree(0));
    RC("free", cuMemFree(64), CUDA_ERROR_INVALID_VALUE);
    RC_IN("range", cuMemGetAddressRange(&p, &n, 64), CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_VALUE);
    OK("info", cuMemGetInfo(&n, &t));
    cf_true("info_value", n != 0 && t >= n);
    OK("host", cuMemAllocHost(&h, 4096));
    RC("host_device", cuMemHostGetDevicePointer(&p, h, 0), CUDA_ERROR_INVALID_VALUE);
    RC("host_null", cuMemHostGetDevicePointer(NULL, h, 0), CUDA_ERROR_INVALID_VALUE);
    OK("host_free", cuMemFreeHost(h));
    OK("total", cuDeviceTotalMem(&n, 0));
    cf_true("total_value", n != 0);
    n = 0;
    RC("global", cuModuleGetGlobal(&p, &n, cf_module(), "g_counter"), CUDA_ERROR_INVALID_VALUE);
    OK("global_size", cuModuleGetGlobal(NULL, &n, cf_module(), "g_counter"));
    cf_true("global_bytes", n != 0);
    NEED(cuModuleGetGlobal_v2(&wide, NULL, cf_module(), "g_counter"));
    cf_true("global_far", wide > UINT32_MAX);
}

CASE(old_memset, CF_CTX | CF_UB)
{
    RC("d8", cuMemsetD8(64, 1, 4), CUDA_ERROR_INVALID_VALUE);
    RC("d16", cuMemsetD16(64, 1, 4), CUDA_ERROR_INVALID_VALUE);
    RC("d32", cuMemsetD32(64, 1, 4), CUDA_ERROR_INVALID_VALUE);
    RC("d2d8", cuMemsetD2D8(64, 16, 1, 4, 2), CUDA_ERROR_INVALID_VALUE);
    RC("d2d16", cuMemsetD2D16(64, 16, 1, 4, 2), CUDA_ERROR_INVALID_VALUE);
    RC("d2d32", cuMemsetD2D32(64, 16, 1, 4, 2), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemsetD8(64, 1, 0));
}

CASE(old_copies, CF_CTX | CF_UB)
{
    char h[64] = {0};

    RC("hd", cuMemcpyHtoD(64, h, 4), CUDA_ERROR_INVALID_VALUE);
    RC("dh", cuMemcpyDtoH(h, 64, 4), CUDA_ERROR_INVALID_VALUE);
    RC("dd", cuMemcpyDtoD(64, 128, 4), CUDA_ERROR_INVALID_VALUE);
    RC("hd_async", cuMemcpyHtoDAsync(64, h, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("dh_async", cuMemcpyDtoHAsync(h, 64, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("dd_async", cuMemcpyDtoDAsync(64, 128, 4, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemcpyHtoD(64, h, 0));
    RC("2d_null", cuMemcpy2D(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("2d_async_null", cuMemcpy2DAsync(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("2d_unaligned_null", cuMemcpy2DUnaligned(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("3d_null", cuMemcpy3D(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("3d_async_null", cuMemcpy3DAsync(NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuCtxSynchronize());
}

/* Arrays are handles, so they work on any system. */
CASE(old_arrays, CF_CTX | CF_UB)
{
    CUDA_ARRAY_DESCRIPTOR_v1 d = {16, 4, CU_AD_FORMAT_UNSIGNED_INT8, 4}, got = {0};
    CUDA_ARRAY3D_DESCRIPTOR_v1 d3 = {8, 4, 2, CU_AD_FORMAT_FLOAT, 1, 0}, got3 = {0};
    CUarray a = NULL, b = NULL, c = NULL;
    unsigned char in[256], out[256];
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, 0));
    cf_pattern(in, sizeof(in), 5);
    OK("create", cuArrayCreate(&a, &d));
    OK("create_2", cuArrayCreate(&b, &d));
    RC("create_null", cuArrayCreate(&b, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("create_null_2", cuArrayCreate(NULL, &d), CUDA_ERROR_INVALID_VALUE);
    OK("describe", cuArrayGetDescriptor(&got, a));
    cf_true("described", got.Width == 16 && got.Height == 4 && got.NumChannels == 4 &&
                             got.Format == CU_AD_FORMAT_UNSIGNED_INT8);
    RC("describe_null", cuArrayGetDescriptor(NULL, a), CUDA_ERROR_INVALID_VALUE);
    OK("create_3d", cuArray3DCreate(&c, &d3));
    RC("create_3d_null", cuArray3DCreate(&c, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("describe_3d", cuArray3DGetDescriptor(&got3, c));
    cf_true("described_3d", got3.Width == 8 && got3.Height == 4 && got3.Depth == 2 &&
                                got3.Format == CU_AD_FORMAT_FLOAT && got3.Flags == 0);
    RC("describe_3d_null", cuArray3DGetDescriptor(NULL, c), CUDA_ERROR_INVALID_VALUE);

    OK("ha", cuMemcpyHtoA(a, 8, in, 32));
    OK("aa", cuMemcpyAtoA(b, 16, a, 8, 32));
    OK("ah", cuMemcpyAtoH(out, b, 16, 32));
    cf_true("row", !memcmp(in, out, 32));
    OK("ha_async", cuMemcpyHtoAAsync(a, 0, in + 64, 64, s));
    OK("ah_async", cuMemcpyAtoHAsync(out, a, 0, 64, s));
    OK("wait", cuStreamSynchronize(s));
    cf_true("row_async", !memcmp(in + 64, out, 64));
    RC("da", cuMemcpyDtoA(a, 0, 64, 32), CUDA_ERROR_INVALID_VALUE);
    RC("ad", cuMemcpyAtoD(64, a, 0, 32), CUDA_ERROR_INVALID_VALUE);

    CUDA_MEMCPY2D_v1 up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = in,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = a,
                           .WidthInBytes = 64,
                           .Height = 4};
    CUDA_MEMCPY2D_v1 down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                             .srcArray = a,
                             .srcXInBytes = 4,
                             .srcY = 1,
                             .dstMemoryType = CU_MEMORYTYPE_HOST,
                             .dstHost = out,
                             .dstPitch = 20,
                             .WidthInBytes = 20,
                             .Height = 3};
    OK("2d", cuMemcpy2D(&up));
    OK("2d_async", cuMemcpy2DAsync(&down, s));
    OK("wait_2", cuStreamSynchronize(s));
    cf_true("2d_value", !memcmp(out, in + 68, 20) && !memcmp(out + 40, in + 196, 20));
    memset(out, 0, sizeof(out));
    OK("2d_unaligned", cuMemcpy2DUnaligned(&down));
    cf_true("2d_unaligned_value", !memcmp(out + 20, in + 132, 20));
    CUDA_MEMCPY3D_v1 up3 = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                            .srcHost = in,
                            .srcPitch = 32,
                            .srcHeight = 4,
                            .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                            .dstArray = c,
                            .WidthInBytes = 32,
                            .Height = 4,
                            .Depth = 2};
    CUDA_MEMCPY3D_v1 down3 = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                              .srcArray = c,
                              .srcZ = 1,
                              .dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = out,
                              .dstPitch = 32,
                              .dstHeight = 4,
                              .WidthInBytes = 32,
                              .Height = 4,
                              .Depth = 1};
    OK("3d", cuMemcpy3D(&up3));
    OK("3d_async", cuMemcpy3DAsync(&down3, s));
    OK("wait_3", cuStreamSynchronize(s));
    cf_true("3d_value", !memcmp(out, in + 128, 128));
    NEED(cuArrayDestroy(a));
    NEED(cuArrayDestroy(b));
    NEED(cuArrayDestroy(c));
    NEED(cuStreamDestroy_v2(s));
}

/* k_fill(p, n, v): a pointer and two words. */
CASE(old_launch, CF_CTX)
{
    CUfunction f = cf_func("k_fill"), g = cf_func("k_nop");
    CUdeviceptr p = 0;
    CUstream s = NULL;

    NEED(cuMemAlloc_v2(&p, 4096));
    NEED(cuStreamCreate(&s, 0));
    if (!cf_real()) /* a physical GPU's driver launches one-thread blocks, with stale parameters */
        RC("nothing_set", cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
    OK("block", cuFuncSetBlockShape(f, 64, 1, 1));
    RC("block_zero", cuFuncSetBlockShape(f, 64, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_function", cuFuncSetBlockShape(NULL, 64, 1, 1), CUDA_ERROR_INVALID_HANDLE);
    OK("shared", cuFuncSetSharedSize(f, 0));
    OK("pointer", cuParamSetv(f, 0, &p, sizeof(p)));
    OK("count", cuParamSeti(f, 8, 64));
    OK("value", cuParamSeti(f, 12, 40));
    if (!cf_real()) { /* a physical GPU's driver writes to any address given */
        RC("past", cuParamSeti(f, 16, 40), CUDA_ERROR_INVALID_VALUE);
        RC("below", cuParamSeti(f, -4, 40), CUDA_ERROR_INVALID_VALUE);
        RC("null", cuParamSetv(f, 0, NULL, 4), CUDA_ERROR_INVALID_VALUE);
        RC("float_past", cuParamSetf(f, 14, 1.0f), CUDA_ERROR_INVALID_VALUE);
        RC("no_size", cuLaunch(f), CUDA_ERROR_INVALID_VALUE);
        RC("size_past", cuParamSetSize(f, 17), CUDA_ERROR_INVALID_VALUE);
    }
    OK("size", cuParamSetSize(f, 16));
    OK("launch", cuLaunch(f));
    cf_true("filled", cf_filled(p, 64, 40));
    OK("more", cuParamSeti(f, 8, 256));
    OK("other", cuParamSeti(f, 12, 90));
    OK("grid", cuLaunchGrid(f, 2, 2));
    OK("sync", cuCtxSynchronize());
    cf_true("filled_half", cf_filled(p, 128, 90));
    OK("other_2", cuParamSeti(f, 12, 7));
    OK("grid_async", cuLaunchGridAsync(f, 4, 1, s));
    OK("wait", cuStreamSynchronize(s));
    cf_true("filled_all", cf_filled(p, 256, 7));
    RC("grid_zero", cuLaunchGrid(f, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_negative", cuLaunchGridAsync(f, 1, -1, s), CUDA_ERROR_INVALID_VALUE);
    OK("block_large", cuFuncSetBlockShape(g, 4096, 1, 1));
    RC("too_large", cuLaunch(g), CUDA_ERROR_INVALID_VALUE);
    OK("block_2", cuFuncSetBlockShape(g, 1, 1, 1));
    OK("no_parameters", cuLaunch(g));
    OK("end", cuCtxSynchronize());
    NEED(cuStreamDestroy_v2(s));
    NEED(cuMemFree_v2(p));
}

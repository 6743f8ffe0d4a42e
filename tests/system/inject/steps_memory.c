// SPDX-License-Identifier: MIT
/* Steps with memory: allocations, copies of each way, pools, address ranges, sharing, textures. */
#include "steps.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIG (1u << 20)

static unsigned char from[BIG], to[BIG];

static void fill(unsigned seed)
{
    for (unsigned i = 0; i < BIG; i++)
        from[i] = (unsigned char)(i * 2654435761u >> 24 ^ seed);
    memset(to, 0, sizeof(to));
}

static CUresult same(size_t n)
{
    return memcmp(from, to, n) ? STEPS_WRONG : CUDA_SUCCESS;
}

static CUresult copies(void)
{
    CUdeviceptr p = 0;
    CUresult r;

    fill(1);
    TRY(cuMemAlloc(&p, BIG));
    TRY(cuMemcpyHtoD(p, from, BIG));
    TRY(cuMemcpyDtoH(to, p, BIG));
    TRY(same(BIG));
    TRY(cuMemsetD8(p, 9, 300));
    TRY(cuMemcpyDtoH(to, p, 300));
    r = to[299] == 9 ? CUDA_SUCCESS : STEPS_WRONG;
out:
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

static CUresult asynchronous(void)
{
    CUdeviceptr p = 0;
    CUstream s = NULL;
    CUresult r;

    fill(2);
    TRY(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    TRY(cuMemAllocAsync(&p, BIG, s));
    TRY(cuMemcpyHtoDAsync(p, from, BIG, s));
    TRY(cuMemcpyDtoHAsync(to, p, BIG, s));
    TRY(cuStreamSynchronize(s));
    r = same(BIG);
out:
    if (p)
        ALSO(cuMemFreeAsync(p, s));
    if (s) {
        ALSO(cuStreamSynchronize(s));
        ALSO(cuStreamDestroy(s));
    }
    return r;
}

static CUresult pinned(void)
{
    CUdeviceptr p = 0;
    unsigned char *h = NULL;
    CUresult r;

    TRY(cuMemHostAlloc((void **)&h, BIG, 0));
    TRY(cuMemAlloc(&p, BIG));
    fill(3);
    memcpy(h, from, BIG);
    TRY(cuMemcpyHtoDAsync(p, h, BIG, NULL));
    TRY(cuMemcpyDtoH(to, p, BIG));
    r = same(BIG);
out:
    if (p)
        ALSO(cuMemFree(p));
    if (h)
        ALSO(cuMemFreeHost(h));
    return r;
}

static CUresult managed(void)
{
    CUdeviceptr p = 0;
    uint32_t n = 64;
    void *args[] = {&p, &n};
    CUresult r;

    TRY(cuMemAllocManaged(&p, 4 * 64, CU_MEM_ATTACH_GLOBAL));
    for (unsigned i = 0; i < n; i++)
        ((uint32_t *)(uintptr_t)p)[i] = i;
    TRY(cuLaunchKernel(steps_add, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    TRY(cuCtxSynchronize());
    r = ((uint32_t *)(uintptr_t)p)[63] == 64 ? CUDA_SUCCESS : STEPS_WRONG;
out:
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

static CUresult pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    cuuint64_t used;
    CUresult r;

    TRY(cuMemPoolCreate(&pool, &props));
    TRY(cuMemAllocFromPoolAsync(&p, BIG, pool, NULL));
    TRY(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    TRY(cuStreamSynchronize(NULL));
out:
    if (p)
        ALSO(cuMemFreeAsync(p, NULL));
    if (pool) {
        ALSO(cuStreamSynchronize(NULL));
        ALSO(cuMemPoolDestroy(pool));
    }
    return r;
}

static CUresult ranges(void)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h = 0, again = 0;
    CUdeviceptr p = 0;
    bool mapped = false;
    int fd = -1;
    size_t n;
    CUresult r;

    TRY(cuMemGetAllocationGranularity(&n, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    TRY(cuMemAddressReserve(&p, n, 0, 0, 0));
    TRY(cuMemCreate(&h, n, &prop, 0));
    TRY(cuMemMap(p, n, 0, h, 0));
    mapped = true;
    TRY(cuMemSetAccess(p, n, &access, 1));
    fill(4);
    TRY(cuMemcpyHtoD(p, from, 4096));
    TRY(cuMemcpyDtoH(to, p, 4096));
    TRY(same(4096));
    TRY(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    TRY(cuMemImportFromShareableHandle(&again, (void *)(intptr_t)fd,
                                       CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
out:
    if (again)
        ALSO(cuMemRelease(again));
    if (fd >= 0)
        close(fd);
    if (mapped)
        ALSO(cuMemUnmap(p, n));
    if (h)
        ALSO(cuMemRelease(h));
    if (p)
        ALSO(cuMemAddressFree(p, n));
    return r;
}

static CUresult shared(void)
{
    CUipcMemHandle m;
    CUipcEventHandle h;
    CUevent e = NULL;
    CUdeviceptr p = 0;
    CUresult r;

    TRY(cuMemAlloc(&p, 2 * BIG));
    TRY(cuIpcGetMemHandle(&m, p));
    TRY(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    TRY(cuIpcGetEventHandle(&h, e));
out:
    if (e)
        ALSO(cuEventDestroy(e));
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

static CUresult texture(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 64, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC tex = {.filterMode = CU_TR_FILTER_MODE_POINT};
    CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 256,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .WidthInBytes = 256,
                        .Height = 64};
    CUtexObject t = 0;
    CUmipmappedArray mip = NULL;
    CUarray level;
    CUresult r;

    TRY(cuArray3DCreate(&res.res.array.hArray, &d));
    up.dstArray = res.res.array.hArray;
    TRY(cuMemcpy2D(&up));
    TRY(cuTexObjectCreate(&t, &res, &tex, NULL));
    TRY(cuMipmappedArrayCreate(&mip, &d, 3));
    TRY(cuMipmappedArrayGetLevel(&level, mip, 1));
out:
    if (mip)
        ALSO(cuMipmappedArrayDestroy(mip));
    if (t)
        ALSO(cuTexObjectDestroy(t));
    if (res.res.array.hArray)
        ALSO(cuArrayDestroy(res.res.array.hArray));
    return r;
}

static CUresult questions(void)
{
    CUdeviceptr p = 0, base;
    size_t n, whole;
    int a = 0;
    void *f;
    CUresult r;

    TRY(cuMemAlloc(&p, 8192));
    TRY(cuMemGetAddressRange(&base, &n, p + 5));
    TRY(cuPointerGetAttribute(&a, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    TRY(cuMemGetInfo(&n, &whole));
    TRY(cuGetProcAddress("cuMemFree", &f, 12000, 0, NULL));
    r = base == p && a == CU_MEMORYTYPE_DEVICE ? CUDA_SUCCESS : STEPS_WRONG;
out:
    if (p)
        ALSO(cuMemFree(p));
    return r;
}

const struct step steps_memory[] = {{"copies", copies},       {"asynchronous", asynchronous},
                                    {"pinned", pinned},       {"managed", managed},
                                    {"pool", pool},           {"ranges", ranges},
                                    {"shared", shared},       {"texture", texture},
                                    {"questions", questions}, {NULL, NULL}};

/* SPDX-License-Identifier: MIT */
/* Memory: allocations, pools, page-locked and physical memory, arrays, textures. */
#include "sequences.h"

#include <string.h>

CUdeviceptr seq_memory(void)
{
    return seq_random(2) ? seq.memory[0] : SEQ_ANY(memory);
}

static CUmemAllocationProp memory_properties(void)
{
    return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                 .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
}

static CUresult memory_keep(CUresult r, CUdeviceptr p)
{
    if (r == CUDA_SUCCESS)
        SEQ_PUT(memory, p);
    return r;
}

static CUresult alloc(void)
{
    CUdeviceptr p = 0;

    if (seq_random(4))
        return memory_keep(cuMemAlloc_v2(&p, SEQ_BYTES), p);
    CUresult r = cuMemAllocManaged(&p, SEQ_BYTES, CU_MEM_ATTACH_GLOBAL);

    if (r == CUDA_SUCCESS)
        SEQ_PUT(managed, p);
    return memory_keep(r, p);
}
/* Never the first allocation, which kernels write to. */
static CUresult release(void)
{
    return cuMemFree_v2(seq.memory[1 + seq_random(seq_slots - 1)]);
}
static CUresult alloc_async(void)
{
    CUdeviceptr p = 0;

    return memory_keep(seq_random(2) ? cuMemAllocAsync(&p, SEQ_BYTES, SEQ_ANY(stream))
                                     : cuMemAllocFromPoolAsync(&p, SEQ_BYTES, SEQ_ANY(pool), SEQ_ANY(stream)),
                       p);
}
static CUresult free_async(void)
{
    return cuMemFreeAsync(seq.memory[1 + seq_random(seq_slots - 1)], SEQ_ANY(stream));
}
static CUresult pool_create(void)
{
    CUmemPoolProps p;

    memset(&p, 0, sizeof(p));
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    if (seq_random(2))
        p.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return cuMemPoolCreate(SEQ_SLOT(pool), &p);
}
static CUresult pool_destroy(void)
{
    return cuMemPoolDestroy(SEQ_ANY(pool));
}
static CUresult pool_trim(void)
{
    return cuMemPoolTrimTo(SEQ_ANY(pool), 0);
}
static CUresult fill(void)
{
    return cuMemsetD8Async(seq_memory(), 1, 64, SEQ_ANY(stream));
}
static CUresult copy(void)
{
    return cuMemcpyDtoDAsync_v2(seq_memory(), seq_memory(), 64, SEQ_ANY(stream));
}
static CUresult copy_host(void)
{
    /* Page-locked memory may have ended with its context. */
    return seq_random(2) ? cuMemcpyHtoDAsync_v2(seq_memory(), seq_host, 64, SEQ_ANY(stream))
                         : cuMemcpyDtoHAsync_v2(seq_host, seq_memory(), 64, SEQ_ANY(stream));
}
static CUresult host_alloc(void)
{
    return cuMemHostAlloc(SEQ_SLOT(host), SEQ_BYTES, 0);
}
static CUresult host_free(void)
{
    return cuMemFreeHost(SEQ_ANY(host));
}

static CUresult physical_create(void)
{
    CUmemAllocationProp p = memory_properties();

    if (seq_random(2))
        p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return cuMemCreate(SEQ_SLOT(physical), SEQ_GRANULE, &p, 0);
}
static CUresult physical_release(void)
{
    return cuMemRelease(SEQ_ANY(physical));
}
static CUresult reserve(void)
{
    return cuMemAddressReserve(SEQ_SLOT(reserved), SEQ_GRANULE, 0, seq_random(3) ? 0 : SEQ_ANY(reserved), 0);
}
static CUresult unreserve(void)
{
    return cuMemAddressFree(SEQ_ANY(reserved), SEQ_GRANULE);
}
static CUresult map(void)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at = SEQ_ANY(reserved);
    CUresult r = cuMemMap(at, SEQ_GRANULE, 0, SEQ_ANY(physical), 0);

    if (r == CUDA_SUCCESS && cuMemSetAccess(at, SEQ_GRANULE, &d, 1) == CUDA_SUCCESS)
        seq.memory[1 + seq_random(seq_slots - 1)] = at;
    return r;
}
static CUresult unmap(void)
{
    return cuMemUnmap(SEQ_ANY(reserved), SEQ_GRANULE);
}
static CUresult access(void)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};

    return cuMemSetAccess(SEQ_ANY(reserved), SEQ_GRANULE, &d, 1);
}

static CUresult array_create(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16,
                                 .Height = 16,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1,
                                 .Flags = CUDA_ARRAY3D_SURFACE_LDST};

    return cuArray3DCreate_v2(SEQ_SLOT(array), &d);
}
static CUresult array_destroy(void)
{
    return cuArrayDestroy(SEQ_ANY(array));
}
static CUresult array_copy(void)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = seq_memory(),
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = SEQ_ANY(array),
                       .WidthInBytes = 64,
                       .Height = 16};

    return cuMemcpy2DAsync_v2(&p, SEQ_ANY(stream));
}
static CUresult mipmap_create(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16, .Height = 16, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};

    return cuMipmappedArrayCreate(SEQ_SLOT(mipmap), &d, 3);
}
static CUresult mipmap_level(void)
{
    return cuMipmappedArrayGetLevel(SEQ_SLOT(array), SEQ_ANY(mipmap), seq_random(3));
}
static CUresult mipmap_destroy(void)
{
    return cuMipmappedArrayDestroy(SEQ_ANY(mipmap));
}
static CUresult texture_create(void)
{
    CUDA_RESOURCE_DESC d;
    CUDA_TEXTURE_DESC t;

    memset(&d, 0, sizeof(d));
    memset(&t, 0, sizeof(t));
    d.resType = CU_RESOURCE_TYPE_ARRAY;
    d.res.array.hArray = SEQ_ANY(array);
    if (seq_random(3) == 0) {
        d.resType = CU_RESOURCE_TYPE_LINEAR;
        d.res.linear.devPtr = seq_memory();
        d.res.linear.format = CU_AD_FORMAT_FLOAT;
        d.res.linear.numChannels = 1;
        d.res.linear.sizeInBytes = 64;
    }
    return seq_random(2) ? cuTexObjectCreate(SEQ_SLOT(texture), &d, &t, NULL)
                         : cuSurfObjectCreate(SEQ_SLOT(surface), &d);
}
static CUresult texture_destroy(void)
{
    return seq_random(2) ? cuTexObjectDestroy(SEQ_ANY(texture)) : cuSurfObjectDestroy(SEQ_ANY(surface));
}

const struct seq_step seq_memory_steps[] = {
    {"cuMemAlloc", alloc, 2},
    {"cuMemFree", release, 1},
    {"cuMemAlloc...Async", alloc_async, 2},
    {"cuMemFreeAsync", free_async, 2},
    {"cuMemPoolCreate", pool_create, 1},
    {"cuMemPoolDestroy", pool_destroy, 1},
    {"cuMemPoolTrimTo", pool_trim, 1},
    {"cuMemsetD8Async", fill, 3},
    {"cuMemcpyDtoDAsync", copy, 2},
    {"cuMemcpyHtoDAsync, DtoH", copy_host, 2},
    {"cuMemHostAlloc", host_alloc, 1},
    {"cuMemFreeHost", host_free, 1},
    {"cuMemCreate", physical_create, 1},
    {"cuMemRelease", physical_release, 1},
    {"cuMemAddressReserve", reserve, 1},
    {"cuMemAddressFree", unreserve, 1},
    {"cuMemMap", map, 2},
    {"cuMemUnmap", unmap, 1},
    {"cuMemSetAccess", access, 1},
    {"cuArray3DCreate", array_create, 1},
    {"cuArrayDestroy", array_destroy, 1},
    {"cuMemcpy2DAsync to an array", array_copy, 1},
    {"cuMipmappedArrayCreate", mipmap_create, 1},
    {"cuMipmappedArrayGetLevel", mipmap_level, 1},
    {"cuMipmappedArrayDestroy", mipmap_destroy, 1},
    {"cuTexObjectCreate, cuSurf...", texture_create, 2},
    {"cuTexObjectDestroy, cuSurf...", texture_destroy, 1},
    {NULL, NULL, 0},
};

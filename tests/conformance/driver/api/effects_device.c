// SPDX-License-Identifier: MIT
/*
 * Attributes of a device compared with the behaviour of calls: at a limit and beyond it, with the
 * flag of a feature and without it.
 */
#include "effects.h"

/* ---- launches ---- */

static CUresult launch(unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz)
{
    return cuLaunchKernel(cf_func("k_nop"), gx, gy, gz, bx, by, bz, 0, NULL, NULL, NULL);
}

CASE(effect_launch_limits, CF_CTX)
{
    const unsigned x = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
                   y = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
                   z = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
                   gy = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
                   gz = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
                   all = (unsigned)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    const CUresult no = CUDA_ERROR_INVALID_VALUE;

    ends("block_x", launch(1, 1, 1, x, 1, 1), launch(1, 1, 1, x + 1, 1, 1), no);
    ends("block_y", launch(1, 1, 1, 1, y, 1), launch(1, 1, 1, 1, y + 1, 1), no);
    ends("block_z", launch(1, 1, 1, 1, 1, z), launch(1, 1, 1, 1, 1, z + 1), no);
    ends("threads", launch(1, 1, 1, all / 2, 2, 1), launch(1, 1, 1, all / 2 + 1, 2, 1), no);
    ends("grid_y", launch(1, gy, 1, 1, 1, 1), launch(1, gy + 1, 1, 1, 1, 1), no);
    ends("grid_z", launch(1, 1, gz, 1, 1, 1), launch(1, 1, gz + 1, 1, 1, 1), no);
    OK("sync", cuCtxSynchronize());
    cf_true("warp", device_attribute(CU_DEVICE_ATTRIBUTE_WARP_SIZE) == 32);
}

/* ---- arrays and textures ---- */

#define D(name) CU_DEVICE_ATTRIBUTE_MAXIMUM_##name
#define LAYERED CUDA_ARRAY3D_LAYERED
#define CUBE CUDA_ARRAY3D_CUBEMAP
#define SURFACE CUDA_ARRAY3D_SURFACE_LDST
#define GATHER CUDA_ARRAY3D_TEXTURE_GATHER

/* Each extent, with the others at their minimum. */
static const struct extent {
    const char *name;
    CUdevice_attribute limit;
    char axis; /* c: width and height of a cube map, too large to be created */
    unsigned height, depth, flags;
    bool mipmapped;
} extents[] = {
    {"1d", D(TEXTURE1D_WIDTH), 'w', 0, 0, 0, false},
    {"2d_w", D(TEXTURE2D_WIDTH), 'w', 1, 0, 0, false},
    {"2d_h", D(TEXTURE2D_HEIGHT), 'h', 1, 0, 0, false},
    {"3d_w", D(TEXTURE3D_WIDTH), 'w', 1, 1, 0, false},
    {"3d_h", D(TEXTURE3D_HEIGHT), 'h', 1, 1, 0, false},
    {"3d_d", D(TEXTURE3D_DEPTH_ALTERNATE), 'd', 1, 1, 0, false},
    {"1d_layered_w", D(TEXTURE1D_LAYERED_WIDTH), 'w', 0, 1, LAYERED, false},
    {"1d_layers", D(TEXTURE1D_LAYERED_LAYERS), 'd', 0, 1, LAYERED, false},
    {"2d_layered_w", D(TEXTURE2D_LAYERED_WIDTH), 'w', 1, 1, LAYERED, false},
    {"2d_layered_h", D(TEXTURE2D_LAYERED_HEIGHT), 'h', 1, 1, LAYERED, false},
    {"2d_layers", D(TEXTURE2D_LAYERED_LAYERS), 'd', 1, 1, LAYERED, false},
    {"cube_w", D(TEXTURECUBEMAP_WIDTH), 'c', 1, 6, CUBE, false},
    {"cube_layered_w", D(TEXTURECUBEMAP_LAYERED_WIDTH), 'c', 1, 6, CUBE | LAYERED, false},
    {"cube_layers", D(TEXTURECUBEMAP_LAYERED_LAYERS), 'l', 1, 6, CUBE | LAYERED, false},
    {"gather_w", D(TEXTURE2D_GATHER_WIDTH), 'w', 1, 0, GATHER, false},
    {"gather_h", D(TEXTURE2D_GATHER_HEIGHT), 'h', 1, 0, GATHER, false},
    {"1d_mipmapped_w", D(TEXTURE1D_MIPMAPPED_WIDTH), 'w', 0, 0, 0, true},
    {"2d_mipmapped_w", D(TEXTURE2D_MIPMAPPED_WIDTH), 'w', 1, 0, 0, true},
    {"2d_mipmapped_h", D(TEXTURE2D_MIPMAPPED_HEIGHT), 'h', 1, 0, 0, true},
    {"surface_1d", D(SURFACE1D_WIDTH), 'w', 0, 0, SURFACE, false},
    {"surface_2d_w", D(SURFACE2D_WIDTH), 'w', 1, 0, SURFACE, false},
    {"surface_2d_h", D(SURFACE2D_HEIGHT), 'h', 1, 0, SURFACE, false},
    {"surface_3d_w", D(SURFACE3D_WIDTH), 'w', 1, 1, SURFACE, false},
    {"surface_3d_h", D(SURFACE3D_HEIGHT), 'h', 1, 1, SURFACE, false},
    {"surface_3d_d", D(SURFACE3D_DEPTH), 'd', 1, 1, SURFACE, false},
    {"surface_1d_layered_w", D(SURFACE1D_LAYERED_WIDTH), 'w', 0, 1, SURFACE | LAYERED, false},
    {"surface_1d_layers", D(SURFACE1D_LAYERED_LAYERS), 'd', 0, 1, SURFACE | LAYERED, false},
    {"surface_2d_layered_w", D(SURFACE2D_LAYERED_WIDTH), 'w', 1, 1, SURFACE | LAYERED, false},
    {"surface_2d_layered_h", D(SURFACE2D_LAYERED_HEIGHT), 'h', 1, 1, SURFACE | LAYERED, false},
    {"surface_2d_layers", D(SURFACE2D_LAYERED_LAYERS), 'd', 1, 1, SURFACE | LAYERED, false},
    {"surface_cube_w", D(SURFACECUBEMAP_WIDTH), 'c', 1, 6, SURFACE | CUBE, false},
    {"surface_cube_layered_w", D(SURFACECUBEMAP_LAYERED_WIDTH), 'c', 1, 6, SURFACE | CUBE | LAYERED, false},
    {"surface_cube_layers", D(SURFACECUBEMAP_LAYERED_LAYERS), 'l', 1, 6, SURFACE | CUBE | LAYERED, false},
};

static CUresult make_array(const struct extent *e, size_t n)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 1,
                                 .Height = e->height,
                                 .Depth = e->depth,
                                 .Format = CU_AD_FORMAT_UNSIGNED_INT8,
                                 .NumChannels = 1,
                                 .Flags = e->flags};
    CUmipmappedArray m = NULL;
    CUarray a = NULL;
    CUresult r;

    if (e->axis == 'w' || e->axis == 'c')
        d.Width = n;
    if (e->axis == 'h' || e->axis == 'c')
        d.Height = n;
    if (e->axis == 'd' || e->axis == 'l')
        d.Depth = n;
    r = e->mipmapped ? cuMipmappedArrayCreate(&m, &d, 2) : cuArray3DCreate(&a, &d);
    if (m)
        cuMipmappedArrayDestroy(m);
    if (a)
        cuArrayDestroy(a);
    return r;
}

CASE(effect_array_limits, CF_CTX)
{
    for (unsigned i = 0; i < sizeof(extents) / sizeof(extents[0]); i++) {
        const struct extent *e = &extents[i];
        const size_t n = (size_t)device_attribute(e->limit);

        ends(e->name, e->axis == 'c' ? CUDA_SUCCESS : make_array(e, n),
             make_array(e, n + (e->axis == 'l' ? 6 : 1)), CUDA_ERROR_INVALID_VALUE);
    }
}

static CUresult make_texture(const CUDA_RESOURCE_DESC *r)
{
    const CUDA_TEXTURE_DESC t = {0};
    CUtexObject o = 0;
    CUresult result = cuTexObjectCreate(&o, r, &t, NULL);

    if (result == CUDA_SUCCESS)
        cuTexObjectDestroy(o);
    return result;
}

static CUresult linear(CUdeviceptr p, size_t bytes)
{
    const CUDA_RESOURCE_DESC r = {
        .resType = CU_RESOURCE_TYPE_LINEAR,
        .res.linear = {
            .devPtr = p, .format = CU_AD_FORMAT_UNSIGNED_INT8, .numChannels = 1, .sizeInBytes = bytes}};

    return make_texture(&r);
}

static CUresult pitched(CUdeviceptr p, size_t width, size_t height, size_t pitch)
{
    const CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_PITCH2D,
                                  .res.pitch2D = {.devPtr = p,
                                                  .format = CU_AD_FORMAT_UNSIGNED_INT8,
                                                  .numChannels = 1,
                                                  .width = width,
                                                  .height = height,
                                                  .pitchInBytes = pitch}};

    return make_texture(&r);
}

CASE(effect_texture_limits, CF_CTX)
{
    const size_t align = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
                 step = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
                 line = (size_t)device_attribute(D(TEXTURE1D_LINEAR_WIDTH)),
                 w = (size_t)device_attribute(D(TEXTURE2D_LINEAR_WIDTH)),
                 h = (size_t)device_attribute(D(TEXTURE2D_LINEAR_HEIGHT)),
                 pitch = (size_t)device_attribute(D(TEXTURE2D_LINEAR_PITCH));
    const CUresult no = CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr p = 0;

    NEED(cuMemAlloc(&p, (h + 1) * step + align));
    ends("aligned", linear(p + align, 64), linear(p + align / 2, 64), no);
    ends("line", linear(p, line), linear(p, line + 1), CUDA_SUCCESS); /* not enforced as a limit */
    ends("pitch_aligned", pitched(p, 8, 2, step), pitched(p, 8, 2, step + step / 2), no);
    ends("width", pitched(p, w, 1, w), pitched(p, w + 1, 1, w + step), no);
    ends("height", pitched(p, 1, h, step), pitched(p, 1, h + 1, step), no);
    ends("pitch", pitched(p, 1, 1, pitch), pitched(p, 1, 1, pitch + step), no);
    NEED(cuMemFree(p));
}

CASE(effect_pitch_limit, CF_CTX)
{
    const size_t max = (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .WidthInBytes = 16,
                       .Height = 1};
    CUdeviceptr p = 0;

    NEED(cuMemAlloc(&p, max + 64));
    c.srcDevice = p;
    c.dstDevice = p + 32;
    c.dstPitch = 32;
    c.srcPitch = max + 1;
    OK("source_of_one_row", cuMemcpy2D(&c)); /* the pitch is not used (driver 580) */
    c.srcPitch = 32;
    c.dstPitch = max + 1;
    OK("destination_of_one_row", cuMemcpy2D(&c));
    if (!cf_real()) { /* unknown to such drivers */
        c.Height = 2;
        c.dstPitch = max;
        CUresult at = cuMemcpy2D(&c);
        c.dstPitch = max + 1;
        ends("destination", at, cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
        c.dstPitch = 32;
        c.srcPitch = max;
        at = cuMemcpy2D(&c);
        c.srcPitch = max + 1;
        ends("source", at, cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    }
    NEED(cuMemFree(p));
}

/* ---- features ---- */

static CUresult create_physical(CUmemLocationType where, CUmemAllocationHandleType type)
{
    const CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED, .requestedHandleTypes = type, .location = {.type = where}};
    CUmemGenericAllocationHandle h = 0;
    CUresult r = cuMemCreate(&h, 2u << 20, &prop, 0);

    if (r == CUDA_SUCCESS)
        cuMemRelease(h);
    return r;
}
static CUresult physical(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_NONE);
}
static CUresult descriptor(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
}
static CUresult fabric(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_FABRIC);
}
static CUresult win32(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_WIN32);
}
static CUresult win32_kmt(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_DEVICE, CU_MEM_HANDLE_TYPE_WIN32_KMT);
}
static CUresult host_physical(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_HOST, CU_MEM_HANDLE_TYPE_NONE);
}
static CUresult numa_physical(void)
{
    return create_physical(CU_MEM_LOCATION_TYPE_HOST_NUMA, CU_MEM_HANDLE_TYPE_NONE);
}
static CUresult create_pool(CUmemLocationType where)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {.type = where}};
    CUmemoryPool pool = NULL;
    CUresult r = cuMemPoolCreate(&pool, &props);

    if (r == CUDA_SUCCESS)
        cuMemPoolDestroy(pool);
    return r;
}
static CUresult device_pool(void)
{
    return create_pool(CU_MEM_LOCATION_TYPE_DEVICE);
}
static CUresult host_pool(void)
{
    return create_pool(CU_MEM_LOCATION_TYPE_HOST);
}
static CUresult numa_pool(void)
{
    return create_pool(CU_MEM_LOCATION_TYPE_HOST_NUMA);
}
static CUresult managed(void)
{
    CUdeviceptr p = 0;
    CUresult r = cuMemAllocManaged(&p, 64, CU_MEM_ATTACH_GLOBAL);

    if (r == CUDA_SUCCESS)
        cuMemFree(p);
    return r;
}
static CUresult register_host(unsigned flags)
{
    void *p = aligned_alloc(4096, 4096);
    CUresult r = p ? cuMemHostRegister(p, 4096, flags) : CUDA_ERROR_OUT_OF_MEMORY;

    if (r == CUDA_SUCCESS)
        cuMemHostUnregister(p);
    free(p);
    return r;
}
static CUresult registered(void)
{
    return register_host(CU_MEMHOSTREGISTER_DEVICEMAP);
}
static CUresult registered_read_only(void)
{
    return register_host(CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY);
}
static CUresult create_array(unsigned flags)
{
    const struct extent e = {"", 0, 'w', 1, 0, flags, false};

    return make_array(&e, 256);
}
static CUresult sparse(void)
{
    return create_array(CUDA_ARRAY3D_SPARSE);
}
static CUresult deferred(void)
{
    return create_array(CUDA_ARRAY3D_DEFERRED_MAPPING);
}
static CUresult wait_value(unsigned flags, bool wide)
{
    CUdeviceptr p = 0;
    CUresult r;

    NEED(cuMemAlloc(&p, 8));
    NEED(cuMemsetD8(p, 0, 8));
    r = wide ? cuStreamWaitValue64(NULL, p, 0, flags) : cuStreamWaitValue32(NULL, p, 0, flags);
    NEED(cuCtxSynchronize());
    NEED(cuMemFree(p));
    return r;
}
static CUresult wait_wide(void)
{
    return wait_value(CU_STREAM_WAIT_VALUE_EQ, true);
}
static CUresult wait_nor(void)
{
    return wait_value(CU_STREAM_WAIT_VALUE_NOR, false);
}
static CUresult wait_flush(void)
{
    return wait_value(CU_STREAM_WAIT_VALUE_EQ | CU_STREAM_WAIT_VALUE_FLUSH, false);
}
static CUresult gather(void)
{
    return create_array(GATHER);
}

static const struct feature {
    CUdevice_attribute attribute;
    CUresult (*use)(void);
} features[] = {
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, physical},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, descriptor},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, fabric},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, win32},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, win32_kmt},
    {CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, host_physical},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, numa_physical},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, device_pool},
    {CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED, host_pool},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED, numa_pool},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, managed},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, registered},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, registered_read_only},
    {CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, sparse},
    {CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, deferred},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, wait_wide},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, wait_nor},
    {CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES, wait_flush},
    {CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, gather},
};

/* A feature works if and only if its attribute is set. */
CASE(effect_features, CF_CTX)
{
    for (unsigned i = 0; i < sizeof(features) / sizeof(features[0]); i++) {
        char check[40];

        snprintf(check, sizeof(check), "attribute_%d", (int)features[i].attribute);
        bool works = features[i].use() == CUDA_SUCCESS, has = device_attribute(features[i].attribute) != 0;

        /* The device may support it while the system lacks the required service. */
        if (has && !works && features[i].attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED)
            works = cf_real();
        cf_true(check, works == has);
    }
}

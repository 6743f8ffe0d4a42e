/* SPDX-License-Identifier: MIT */
/* Driver API: devices and their properties. They differ in their compute capability only. */
#include <stdio.h>
#include <string.h>

#include "sg_int.h"

/* Stable and ours: the text is what the 16 bytes spell. The last byte counts devices. */
static const char device_uuid[16] = {'v', 'g', 'p', 'u', '-', 'c', 'u', 'd',
                                     'a', '-', 's', 'o', 'f', 't', '0', '0'};
/* A domain that firmware does not give to real devices on common machines. */
#define SG_PCI_DOMAIN 0
#define SG_PCI_BUS 0xf0

struct attr {
    int id, value;
};

/* What follows from the compute capability: CUDA C++ Programming Guide, "Compute Capabilities". */
struct cc_limits {
    int major, minor;
    int threads_per_sm, blocks_per_sm;
    int shared_sm, shared_optin, shared_reserved; /* bytes */
    int l2_persist, window_max, cluster, f64_ratio;
};

static const struct cc_limits cc_table[] = {
    {7, 5, 1024, 16, 65536, 65536, 0, 0, 0, 0, 32},
    {8, 0, 2048, 32, 167936, 166912, 1024, 3 << 20, 128 << 20, 0, 2},
    {9, 0, 2048, 32, 233472, 232448, 1024, 3 << 20, 128 << 20, 0, 2},
    {12, 0, 1536, 24, 102400, 101376, 1024, 3 << 20, 128 << 20, 0, 64},
    /* No GPU has it: what ships code for known ones falls back to the PTX it carries (cuBLAS). */
    {13, 0, 1536, 24, 102400, 101376, 1024, 3 << 20, 128 << 20, 0, 64},
};

/* The same for every capability. */
static const struct attr fixed_attrs[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, SG_PCI_BUS},
    {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, SG_PCI_DOMAIN},
    {CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 1000000},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 4 << 20},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES,
     CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 1},
    {CU_DEVICE_ATTRIBUTE_NUMA_ID, -1},
    {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1},
    /* Arrays, textures and surfaces: CUDA C++ Programming Guide, "Technical Specifications". */
    {CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 8192},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 8192},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, 65536},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, 16384},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, 2048},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 2046},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 268435456},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 131072},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 65000},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, 2097120},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 32768},
};

int sg_cc(int device)
{
    return 10 * sg_config.cc[device].major + sg_config.cc[device].minor;
}

int sg_same_cc(int device)
{
    int first = 0;

    while (sg_cc(first) != sg_cc(device))
        first++;
    return first;
}

static const struct cc_limits *limits(int device)
{
    for (size_t i = 0; i < sizeof(cc_table) / sizeof(cc_table[0]); i++) {
        if (cc_table[i].major == sg_config.cc[device].major &&
            cc_table[i].minor == sg_config.cc[device].minor)
            return &cc_table[i];
    }
    return &cc_table[1];
}

int sg_attr(int device, CUdevice_attribute a)
{
    const struct cc_limits *l = limits(device);

    switch (a) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        return l->major;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        return l->minor;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
        return device;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return (int)sg_config.threads;
    case CU_DEVICE_ATTRIBUTE_KERNEL_EXEC_TIMEOUT:
        return sg_config.watchdog != 0;
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
        return l->threads_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
        return l->blocks_per_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
        return l->shared_sm;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
        return l->shared_optin;
    case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
        return l->shared_reserved;
    case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
        return l->l2_persist;
    case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
        return l->window_max;
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        return l->cluster;
    case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
        return l->f64_ratio;
    default:
        break;
    }
    for (size_t i = 0; i < sizeof(fixed_attrs) / sizeof(fixed_attrs[0]); i++) {
        if (fixed_attrs[i].id == (int)a)
            return fixed_attrs[i].value;
    }
    return 0;
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
    SG_INIT();
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(ordinal);
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetCount(int *count)
{
    SG_INIT();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = (int)sg_config.ndevices;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetName(char *name, int len, CUdevice dev)
{
    SG_INIT();
    if (!name || len < 1)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    snprintf(name, (size_t)len, "%s", SG_DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    SG_INIT();
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    memcpy(uuid->bytes, device_uuid, sizeof(device_uuid));
    uuid->bytes[15] = (char)('0' + dev);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
    return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult CUDAAPI cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    SG_INIT();
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    *bytes = sg_config.memory;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    SG_INIT();
    bool ours = (int)attrib == SG_ATTR_LIBRARY_CC && sg_config.library_cc;
    if (!pi || (int)attrib <= 0 || (attrib >= CU_DEVICE_ATTRIBUTE_MAX && !ours))
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    if (ours) {
        *pi = sg_config.library_cc;
        return CUDA_SUCCESS;
    }
    *pi = sg_attr(dev, attrib);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    SG_INIT();
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    *major = sg_config.cc[dev].major;
    *minor = sg_config.cc[dev].minor;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    SG_INIT();
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    memset(prop, 0, sizeof(*prop));
    prop->maxThreadsPerBlock = sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; i++) {
        prop->maxThreadsDim[i] =
            sg_attr(dev, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
        prop->maxGridSize[i] =
            sg_attr(dev, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
    }
    prop->sharedMemPerBlock = sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
    prop->totalConstantMemory = sg_attr(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
    prop->SIMDWidth = sg_attr(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
    prop->memPitch = sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
    prop->regsPerBlock = sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
    prop->clockRate = sg_attr(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
    prop->textureAlign = sg_attr(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    SG_INIT();
    if (!pciBusId || len < 1)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", SG_PCI_DOMAIN, SG_PCI_BUS,
             (unsigned)dev);
    return CUDA_SUCCESS;
}

/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function], hex. */
CUresult CUDAAPI cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus, device, function = 0;
    int n = 0;

    SG_INIT();
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    bool ok = (sscanf(pciBusId, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &n) == 4 &&
               !pciBusId[n]) ||
              (function = 0, sscanf(pciBusId, "%x:%x:%x%n", &domain, &bus, &device, &n) == 3 &&
                                 !pciBusId[n]) ||
              (domain = 0, sscanf(pciBusId, "%x:%x.%x%n", &bus, &device, &function, &n) == 3 &&
                               !pciBusId[n]);

    if (!ok)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != SG_PCI_DOMAIN || bus != SG_PCI_BUS || device >= sg_config.ndevices ||
        function)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (int)device;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    SG_INIT();
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    SG_CHECK_DEVICE(peerDev);
    *canAccessPeer = dev != peerDev; /* all memory is the processor's */
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib,
                                         CUdevice srcDevice, CUdevice dstDevice)
{
    SG_INIT();
    if (!value || (int)attrib < CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(srcDevice);
    SG_CHECK_DEVICE(dstDevice);
    if (srcDevice == dstDevice)
        return CUDA_ERROR_INVALID_DEVICE; /* documented */
    /* Arrays have no address, and a texture or surface is one of its context. */
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    SG_INIT();
    if (!pi || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    *pi = 0;
    return CUDA_SUCCESS;
}

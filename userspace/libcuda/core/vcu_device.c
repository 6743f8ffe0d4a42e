/* SPDX-License-Identifier: MIT */
/* Devices and their attributes, answered from the reply to vgpDeviceInfo. */
#include "core.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "vgp_entry.h"
#include "vgp_guest.h"

/* Features that this version does not support must not be reported, regardless of the host's
 * GPU. */
void vcu_device_limit_attributes(struct vcu_device *d)
{
    static const short not_served[] = {
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS,
        CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES,
        CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST,
        CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
        CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_HANDLE_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GENERIC_COMPRESSION_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
        CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS,
        CU_DEVICE_ATTRIBUTE_D3D12_CIG_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_VULKAN_CIG_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_MEMORY_POOLS_SUPPORTED,
        CU_DEVICE_ATTRIBUTE_HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
        /* Of later cuda.h: atomic reductions in batches, streams of graphics, descriptors that can be mapped, logical
           endpoints, classes of tensor maps, RDMA of localized memory. */
        148,
        151,
        152,
        153,
        154,
        155,
        156,
        158,
        159,
        160,
        161,
    };

    for (size_t i = 0; i < sizeof(not_served) / sizeof(not_served[0]); i++)
        d->attributes[not_served[i]] = 0;
    /* Pinned memory has pages of the guest on any GPU; device memory has none (attribute 124). */
    d->attributes[CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED] = vcu.transport.dmabuf;
    /* Semaphores belong to this machine on any GPU. */
    d->attributes[CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED] = vcu.worker_minor >= 2;
    if (vcu.worker_minor < 1)
        d->attributes[CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED] = 0;
}

CUresult vcu_device_get(CUdevice ordinal, struct vcu_device **device)
{
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (ordinal < 0 || ordinal >= vcu.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *device = &vcu.devices[ordinal];
    return CUDA_SUCCESS;
}

CUresult vcu_check_device(CUdevice ordinal)
{
    struct vcu_device *d;

    return vcu_device_get(ordinal, &d);
}

CUresult vcu_text_give(char *out, int room, const char *text, int cleared)
{
    memset(out, 0, (size_t)(room < cleared ? room : cleared));
    snprintf(out, (size_t)room, "%s", text); /* cut to what fits, as the driver does */
    return CUDA_SUCCESS;
}

CUresult vcu_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    struct vcu_device *d;
    CUresult res;

    if (pi == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    if ((int)attrib <= 0 || (int)attrib >= VGP_DEVICE_ATTRIBUTE_END)
        return CUDA_ERROR_INVALID_VALUE;
    if (vcu_fault_spec != NULL) {
        char number[16];

        snprintf(number, sizeof(number), "%d", (int)attrib);
        VCU_FAULT("attribute", number);
    }
    res = vcu_device_get(dev, &d);
    if (res != CUDA_SUCCESS)
        return res;
    if (attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ||
        attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR) {
        int major, minor;

        vcu_caller_cc(d, &major, &minor);
        *pi = attrib == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? major : minor;
        return CUDA_SUCCESS;
    }
    *pi = d->attributes[attrib]; /* 0 where an older host driver lacks it */
    return CUDA_SUCCESS;
}

CUresult vcu_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus, slot, function;
    int n;
    CUresult res = vcu_check_init();

    if (res != CUDA_SUCCESS)
        return res;
    if (dev == NULL || pciBusId == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* [domain:]bus:device.function or domain:bus:device, as the documentation says. */
    n = sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function);
    if (n < 3) {
        domain = 0;
        if (sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) != 3)
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (int i = 0; i < vcu.device_count; i++) {
        const int *a = vcu.devices[i].attributes;

        if (a[CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID] == (int)domain &&
            a[CU_DEVICE_ATTRIBUTE_PCI_BUS_ID] == (int)bus &&
            a[CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID] == (int)slot) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult vcu_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    struct vcu_device *d;
    const int *a;
    CUresult res = vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    if (prop == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    a = d->attributes;
    *prop = (CUdevprop){
        .maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
        .maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
                          a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
        .maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X], a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
                        a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
        .sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
        .totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
        .SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
        .memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
        .regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
        .clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
        .textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT],
    };
    return CUDA_SUCCESS;
}

bool vcu_texel_ok(CUarray_format format, unsigned channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_HALF:
    case CU_AD_FORMAT_FLOAT:
        return channels == 1 || channels == 2 || channels == 4;
    default: /* formats whose channels are part of them */
        return (unsigned)format > CU_AD_FORMAT_FLOAT && (unsigned)format <= CU_AD_FORMAT_SNORM_INT16X4 &&
               channels >= 1 && channels <= 4;
    }
}

CUresult vcu_device_atomics(unsigned int *capabilities, const CUatomicOperation *operations,
                            unsigned int count, CUdevice dev, CUdevice peer)
{
    uint32_t ids[64], n = count;
    CUresult res;

    if (capabilities == NULL || operations == NULL || count == 0 || count > 64)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++)
        ids[i] = operations[i];
    res = vgp_call_vgpDeviceAtomicCapabilities(dev, peer, ids, count, capabilities, &n);
    return res == CUDA_SUCCESS && n != count ? CUDA_ERROR_UNKNOWN : res;
}

bool vcu_loads_eagerly(void)
{
    const char *v = getenv("CUDA_MODULE_LOADING");

    return v != NULL && strcasecmp(v, "EAGER") == 0;
}

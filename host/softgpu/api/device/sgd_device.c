/* SPDX-License-Identifier: MIT */
/* Driver API: devices and their properties. The devices differ in their compute capability only. */
#include <stdio.h>
#include <string.h>

#include "api/api.h"

/* A stable identifier of this implementation: the 16 bytes spell a text. The last byte numbers
   the devices. */
static const char device_uuid[16] = {'v', 'g', 'p', 'u', '-', 'c', 'u', 'd',
                                     'a', '-', 's', 'o', 'f', 't', '0', '0'};
/* A domain that firmware does not give to real devices on common machines. */
#define SG_PCI_DOMAIN 0
#define SG_PCI_BUS 0xf0

CUresult CUDAAPI cuInit(unsigned int Flags)
{
    return Flags ? CUDA_ERROR_INVALID_VALUE : sg_init(&sg_graph_hooks);
}

CUresult sgd_cuDeviceGetName(char *name, int len)
{
    memset(name, 0, len < 64 ? (size_t)len : 64); /* all of the driver's text (580) */
    snprintf(name, (size_t)len, "%s", SG_DEVICE_NAME);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    memcpy(uuid->bytes, device_uuid, sizeof(device_uuid));
    uuid->bytes[15] = (char)('0' + dev);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    bool ours = (int)attrib == SG_ATTR_LIBRARY_CC && sg_config.library_cc;
    if (!pi || (int)attrib <= 0 || ((int)attrib >= VGP_DEVICE_ATTRIBUTE_END && !ours))
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    if (ours) {
        sg_image_library_asked();
        *pi = sg_config.library_cc;
        return CUDA_SUCCESS;
    }
    *pi = sg_attr(dev, attrib);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    *major = sg_config.cc[dev].major;
    *minor = sg_config.cc[dev].minor;
    return CUDA_SUCCESS;
}

/* Memory of the host is the device's own (HOST_NATIVE_ATOMIC_SUPPORTED): what kernels do there is what they do anywhere. */
CUresult sgd_cuDeviceGetHostAtomicCapabilities(unsigned int *capabilities,
                                               const CUatomicOperation *operations, unsigned int count)
{
    const unsigned sizes = CU_ATOMIC_CAPABILITY_SCALAR_32 | CU_ATOMIC_CAPABILITY_SCALAR_64,
                   bits = sizes | CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_UNSIGNED;

    for (unsigned i = 0; i < count; i++)
        if ((unsigned)operations[i] >= CU_ATOMIC_OPERATION_MAX)
            return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count; i++) {
        switch (operations[i]) {
        case CU_ATOMIC_OPERATION_INTEGER_ADD:
        case CU_ATOMIC_OPERATION_INTEGER_MIN:
        case CU_ATOMIC_OPERATION_INTEGER_MAX:
            capabilities[i] = bits | CU_ATOMIC_CAPABILITY_SIGNED;
            break;
        case CU_ATOMIC_OPERATION_INTEGER_INCREMENT:
        case CU_ATOMIC_OPERATION_INTEGER_DECREMENT:
            capabilities[i] = bits & ~(unsigned)CU_ATOMIC_CAPABILITY_SCALAR_64;
            break;
        case CU_ATOMIC_OPERATION_EXCHANGE:
        case CU_ATOMIC_OPERATION_CAS:
            capabilities[i] = sizes;
            break;
        case CU_ATOMIC_OPERATION_FLOAT_ADD:
            capabilities[i] = sizes | CU_ATOMIC_CAPABILITY_REDUCTION;
            break;
        case CU_ATOMIC_OPERATION_FLOAT_MIN:
        case CU_ATOMIC_OPERATION_FLOAT_MAX:
            capabilities[i] = 0;
            break;
        default: /* of bits */
            capabilities[i] = bits;
        }
    }
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    memset(prop, 0, sizeof(*prop));
    prop->maxThreadsPerBlock = sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
    for (int i = 0; i < 3; i++) {
        prop->maxThreadsDim[i] = sg_attr(dev, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
        prop->maxGridSize[i] = sg_attr(dev, (CUdevice_attribute)(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
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

CUresult sgd_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", SG_PCI_DOMAIN, SG_PCI_BUS, (unsigned)dev);
    return CUDA_SUCCESS;
}

/* [domain]:[bus]:[device].[function], [domain]:[bus]:[device] or [bus]:[device].[function], hex. */
CUresult sgd_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus, device, function = 0;
    int n = 0;

    bool ok =
        (sscanf(pciBusId, "%x:%x:%x.%x%n", &domain, &bus, &device, &function, &n) == 4 && !pciBusId[n]) ||
        (function = 0, sscanf(pciBusId, "%x:%x:%x%n", &domain, &bus, &device, &n) == 3 && !pciBusId[n]) ||
        (domain = 0, sscanf(pciBusId, "%x:%x.%x%n", &bus, &device, &function, &n) == 3 && !pciBusId[n]);

    if (!ok)
        return CUDA_ERROR_INVALID_VALUE;
    if (domain != SG_PCI_DOMAIN || bus != SG_PCI_BUS || device >= sg_config.ndevices || function)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (int)device;
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    *canAccessPeer = dev != peerDev; /* all memory is the processor's */
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib)
{
    /* Arrays have no address, and a texture or surface belongs to its context. */
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

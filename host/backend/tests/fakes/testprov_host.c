/* SPDX-License-Identifier: MIT */
/*
 * The test provider's host memory, stream-ordered allocation, stream memory operations, which do not make a stream wait, the device,
 * and NVML.
 */
#include <cuda.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "testprov.h"

unsigned long long testprov_nvml_bytes = 1u << 20;

CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags)
{
    (void)flags;
    if (getenv("VGPU_TEST_NO_PIN"))
        return CUDA_ERROR_OPERATING_SYSTEM;
    if (n == LONG_BYTES)
        testprov_long();
    return p && n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n);
CUresult cuMemFree_v2(CUdeviceptr p);

CUresult cuMemAllocAsync(CUdeviceptr *p, size_t n, CUstream s)
{
    (void)s;
    return cuMemAlloc_v2(p, n);
}

CUresult cuMemFreeAsync(CUdeviceptr p, CUstream s)
{
    (void)s;
    return cuMemFree_v2(p);
}

CUresult cuMemHostUnregister(void *p)
{
    if (!testprov_current())
        abort(); /* the driver says so, and the worker would take the memory for unregistered */
    return p ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *at, void *p, unsigned flags)
{
    *at = (CUdeviceptr)(unsigned long)p;
    return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream s, unsigned n, CUstreamBatchMemOpParams *ops, unsigned flags)
{
    (void)s;
    (void)ops;
    return n && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuInit(unsigned flags)
{
    (void)flags;
    const char *code = getenv("VGPU_TEST_BROKEN");
    return code ? (CUresult)atoi(code) : CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *v)
{
    const char *version = getenv("VGPU_TEST_VERSION"); /* an older or newer driver */

    *v = version ? atoi(version) : 13000;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *n)
{
    *n = getenv("VGPU_TEST_TWO") ? 2 : 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *d, int ordinal)
{
    int n;

    cuDeviceGetCount(&n);
    *d = ordinal;
    return ordinal >= n ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice d)
{
    (void)d;
    snprintf(name, (size_t)len, "Test GPU");
    return CUDA_SUCCESS;
}

/* $VGPU_TEST_MEMORY MiB. */
CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice d)
{
    const char *mib = getenv("VGPU_TEST_MEMORY");

    (void)d;
    *bytes = mib ? (size_t)atoi(mib) << 20 : (size_t)1 << 30;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int room, CUdevice d)
{
    snprintf(text, (size_t)room, "0000:%02x:00.0", d + 1);
    return CUDA_SUCCESS;
}

int nvmlInit_v2(void)
{
    return getenv("VGPU_TEST_NVML") ? 0 : 9; /* driver not loaded */
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
    *device = (void *)(unsigned long)pci[6]; /* any that is not NULL */
    return 0;
}

struct process { /* nvmlProcessInfo_t */
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
};

int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *n, struct process *list)
{
    (void)device;
    list[0] = (struct process){.pid = 1, .used = 1ull << 40};
    list[1] = (struct process){.pid = (unsigned)getpid(), .used = testprov_nvml_bytes};
    *n = 2;
    return 0;
}

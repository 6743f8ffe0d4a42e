/* SPDX-License-Identifier: MIT */
/*
 * Driver API: features that the device does not offer, as its attributes say. Each entry point
 * checks its arguments and answers as NVIDIA's driver does on a device without the feature.
 */
#include "api/api.h"
#include "lib/cudaapi/cudaapi.h"

#include <cudaProfiler.h>

static CUresult no(const char *call, const char *why)
{
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "%s: %s", call, why);
}

static CUresult told(const char *call, CUresult r, const char *why)
{
    return r == CUDA_ERROR_NOT_SUPPORTED ? no(call, why) : r;
}

static bool known_device(CUdevice dev)
{
    return (unsigned)dev < sg_config.ndevices;
}

CUresult CUDAAPI cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    r = cua_device_luid(known_device(dev), luid, deviceNodeMask, &why);
    return told("cuDeviceGetLuid", r, why);
}

CUresult CUDAAPI cuProfilerInitialize(const char *configFile, const char *outputFile,
                                      CUoutput_mode outputMode)
{
    const char *why;
    CUresult r = cua_profiler_initialize(&why);

    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return told("cuProfilerInitialize", r, why);
}

CUresult CUDAAPI cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                            CUflushGPUDirectRDMAWritesScope scope)
{
    const char *why = NULL;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    r = cua_flush_rdma_writes(target, scope, &why);
    return told("cuFlushGPUDirectRDMAWrites", r, why);
}

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                      unsigned int numDevices, unsigned int flags)
{
    const char *why = NULL;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    r = cua_launch_multi_device(launchParamsList, numDevices, flags, &why);
    return told("cuLaunchCooperativeKernelMultiDevice", r, why);
}

/* Documented for systems where no device has attribute 129. */
CUresult CUDAAPI cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    SG_INIT();
    if (!fptr || !symbol)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_obj *lib = SG_LOOKUP(library, SG_T_LIB);

    return lib ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_INVALID_HANDLE;
}

CUresult CUDAAPI cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
                                           unsigned int flags, size_t *errorIndex, CUstream stream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (errorIndex)
        *errorIndex = SIZE_MAX;
    if (!paramsArray || count == 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_stream_get(ctx, stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    return no("cuMemBatchDecompressAsync", "no hardware decompression (device attribute 136 is 0)");
}

/* ---- multicast: no object was ever made, so no handle is one ---- */

static CUresult check_multicast(const void *out, const CUmulticastObjectProp *prop)
{
    if (!out || !prop || prop->numDevices == 0 || prop->size == 0 || prop->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle, const CUmulticastObjectProp *prop)
{
    SG_INIT();
    if (check_multicast(mcHandle, prop) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuMulticastCreate", "no multicast objects (device attribute 132 is 0)");
}

CUresult CUDAAPI cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                           CUmulticastGranularity_flags option)
{
    SG_INIT();
    if (check_multicast(granularity, prop) != CUDA_SUCCESS ||
        (unsigned)option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuMulticastGetGranularity", "no multicast objects (device attribute 132 is 0)");
}

CUresult CUDAAPI cuMulticastAddDevice(CUmemGenericAllocationHandle mcHandle, CUdevice dev)
{
    SG_INIT();
    (void)mcHandle;
    return known_device(dev) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuMulticastBindMem(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                    CUmemGenericAllocationHandle memHandle, size_t memOffset, size_t size,
                                    unsigned long long flags)
{
    SG_INIT();
    (void)mcHandle;
    (void)mcOffset;
    (void)memHandle;
    (void)memOffset;
    (void)size;
    (void)flags;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMulticastBindAddr(CUmemGenericAllocationHandle mcHandle, size_t mcOffset,
                                     CUdeviceptr memptr, size_t size, unsigned long long flags)
{
    SG_INIT();
    (void)mcHandle;
    (void)mcOffset;
    (void)memptr;
    (void)size;
    (void)flags;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset,
                                   size_t size)
{
    SG_INIT();
    (void)mcHandle;
    (void)mcOffset;
    (void)size;
    return known_device(dev) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
}

CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                   void *userData, CUasyncCallbackHandle *callback)
{
    SG_INIT();
    (void)userData;
    return cua_notification_register(known_device(device), device, callbackFunc, callback);
}

CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
    SG_INIT();
    return cua_notification_unregister(known_device(device), device, callback);
}

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    r = cua_checkpoint_state(pid, state, &why);
    return told("cuCheckpointProcessGetState", r, why);
}

CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    (void)args;
    r = cua_checkpoint_lock(pid, &why);
    return told("cuCheckpointProcessLock", r, why);
}

CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    (void)args;
    r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessCheckpoint", r, why);
}

CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    (void)args;
    r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessRestore", r, why);
}

CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    (void)args;
    r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessUnlock", r, why);
}

CUresult CUDAAPI cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    const char *why = NULL;
    CUresult r;

    SG_INIT();
    r = cua_checkpoint_restore_thread(pid, tid, &why);
    return told("cuCheckpointProcessGetRestoreThreadId", r, why);
}

/* SPDX-License-Identifier: MIT */
/*
 * Driver API: what the device does not offer, as its attributes say. Each entry point checks its
 * arguments and answers as NVIDIA's driver does on a device without it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <cudaProfiler.h>

#include "sg_int.h"

static CUresult no(const char *call, const char *why)
{
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "%s: %s", call, why);
}

static bool known_device(CUdevice dev)
{
    return (unsigned)dev < sg_config.ndevices;
}

CUresult CUDAAPI cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    SG_INIT();
    if (!known_device(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!luid || !deviceNodeMask)
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuDeviceGetLuid", "locally unique identifiers exist on Windows only");
}

/* Documented: since CUDA 12 this is always the answer. */
CUresult CUDAAPI cuProfilerInitialize(const char *configFile, const char *outputFile,
                                      CUoutput_mode outputMode)
{
    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return no("cuProfilerInitialize", "removed in CUDA 12");
}

CUresult CUDAAPI cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                            CUflushGPUDirectRDMAWritesScope scope)
{
    SG_CTX(ctx);
    (void)ctx;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuFlushGPUDirectRDMAWrites", "no GPUDirect RDMA (device attribute 116 is 0)");
}

CUresult CUDAAPI cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                      unsigned int numDevices, unsigned int flags)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!launchParamsList || numDevices == 0 ||
        (flags & ~(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                   CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)))
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuLaunchCooperativeKernelMultiDevice", "device attribute 96 is 0");
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

CUresult CUDAAPI cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *paramsArray, size_t count,
                                                unsigned int flags, size_t *errorIndex,
                                                CUstream stream)
{
    return cuMemBatchDecompressAsync(paramsArray, count, flags, errorIndex, SG_PTSZ(stream));
}

/* ---- multicast: no object was ever made, so no handle is one ---- */

static CUresult check_multicast(const void *out, const CUmulticastObjectProp *prop)
{
    if (!out || !prop || prop->numDevices == 0 || prop->size == 0 || prop->flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMulticastCreate(CUmemGenericAllocationHandle *mcHandle,
                                   const CUmulticastObjectProp *prop)
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
                                    CUmemGenericAllocationHandle memHandle, size_t memOffset,
                                    size_t size, unsigned long long flags)
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

CUresult CUDAAPI cuMulticastUnbind(CUmemGenericAllocationHandle mcHandle, CUdevice dev,
                                   size_t mcOffset, size_t size)
{
    SG_INIT();
    (void)mcHandle;
    (void)mcOffset;
    (void)size;
    return known_device(dev) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
}

/* ---- notifications ----
 * There is one, of a budget of device memory that was exceeded. A quota refuses the allocation here,
 * so it cannot happen: who registers is remembered, and never called. */

struct CUasyncCallbackEntry_st {
    struct CUasyncCallbackEntry_st *next;
    CUdevice device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct CUasyncCallbackEntry_st *registered;

CUresult CUDAAPI cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                                   void *userData, CUasyncCallbackHandle *callback)
{
    struct CUasyncCallbackEntry_st *e;
    SG_INIT();
    (void)userData;
    if (!known_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!callbackFunc || !callback)
        return CUDA_ERROR_INVALID_VALUE;
    e = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->device = device;
    pthread_mutex_lock(&lock);
    e->next = registered;
    registered = e;
    pthread_mutex_unlock(&lock);
    *callback = e;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuDeviceUnregisterAsyncNotification(CUdevice device,
                                                     CUasyncCallbackHandle callback)
{
    struct CUasyncCallbackEntry_st **p, *e;
    SG_INIT();
    if (!known_device(device))
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    for (p = &registered; *p && (*p != callback || (*p)->device != device);)
        p = &(*p)->next;
    e = *p;
    if (e)
        *p = e->next;
    pthread_mutex_unlock(&lock);
    free(e);
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- checkpoints: a process of ours runs, always ---- */

static const char no_checkpoint[] = "no checkpoints";

static CUresult own_process(const char *call, int pid)
{
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return CUDA_ERROR_INVALID_VALUE;
    return pid == getpid() ? CUDA_SUCCESS : no(call, "only the calling process is known");
}

CUresult CUDAAPI cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    CUresult r;

    SG_INIT();
    r = state ? own_process("cuCheckpointProcessGetState", pid) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *state = CU_PROCESS_STATE_RUNNING;
    return r;
}

CUresult CUDAAPI cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    CUresult r;

    SG_INIT();
    (void)args;
    r = own_process("cuCheckpointProcessLock", pid);
    return r == CUDA_SUCCESS ? no("cuCheckpointProcessLock", no_checkpoint) : r;
}

/* Documented for a process that is not locked or checkpointed. */
CUresult CUDAAPI cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
    CUresult r;

    SG_INIT();
    (void)args;
    r = own_process("cuCheckpointProcessCheckpoint", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult CUDAAPI cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    CUresult r;

    SG_INIT();
    (void)args;
    r = own_process("cuCheckpointProcessRestore", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult CUDAAPI cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
    CUresult r;

    SG_INIT();
    (void)args;
    r = own_process("cuCheckpointProcessUnlock", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult CUDAAPI cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    CUresult r;

    SG_INIT();
    if (!tid)
        return CUDA_ERROR_INVALID_VALUE;
    r = own_process("cuCheckpointProcessGetRestoreThreadId", pid);
    return r == CUDA_SUCCESS ? no("cuCheckpointProcessGetRestoreThreadId", no_checkpoint)
                             : r;
}

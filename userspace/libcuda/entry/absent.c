/* SPDX-License-Identifier: MIT */
/*
 * Entry points of features that the device does not offer, as its attributes say: each checks its
 * arguments and answers as the driver does on a device without the feature (lib/cudaapi/absent.h).
 */
#include "../code/code.h"

#include "../../../protocol/generated/vgp_entry.h"
#include "../../../protocol/vgp_guest_rt.h"

/* why: for the trace, where the result is a refusal. */
static CUresult told(const char *call, CUresult r, const char *why)
{
    return r == CUDA_ERROR_NOT_SUPPORTED ? VCU_REFUSE(r, call, "%s", why) : r;
}

static bool known_device(CUdevice dev)
{
    struct vcu_device *d;

    return vcu_device_get(dev, &d) == CUDA_SUCCESS;
}

CUresult vcu_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS)
        r = cua_device_luid(known_device(dev), luid, deviceNodeMask, &why);
    return told("cuDeviceGetLuid", r, why);
}

CUresult vcu_cuProfilerInitialize(const char *configFile, const char *outputFile,
                                  CUoutput_mode outputMode)
{
    const char *why;
    CUresult r = cua_profiler_initialize(&why);

    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return told("cuProfilerInitialize", r, why);
}

CUresult vcu_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                        CUflushGPUDirectRDMAWritesScope scope)
{
    const char *why = NULL;
    CUresult r = vcu_check_context();

    if (r == CUDA_SUCCESS)
        r = cua_flush_rdma_writes(target, scope, &why);
    return told("cuFlushGPUDirectRDMAWrites", r, why);
}

CUresult vcu_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                  unsigned int numDevices, unsigned int flags)
{
    const char *why = NULL;
    CUresult r = vcu_check_context();

    if (r == CUDA_SUCCESS)
        r = cua_launch_multi_device(launchParamsList, numDevices, flags, &why);
    return told("cuLaunchCooperativeKernelMultiDevice", r, why);
}

/* Documented for systems where no device has attribute 129. */
CUresult vcu_cuLibraryGetUnifiedFunction(void **fptr, CUlibrary library, const char *symbol)
{
    CUresult r = vcu_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    if (!fptr || !symbol)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgp_handle_live((uintptr_t)library, VGP_H_LIBRARY))
        return CUDA_ERROR_INVALID_HANDLE;
    return VCU_REFUSE(CUDA_ERROR_NOT_FOUND, "cuLibraryGetUnifiedFunction",
                      "no unified functions (device attribute 129 is 0)");
}

CUresult vcu_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                               void *userData, CUasyncCallbackHandle *callback)
{
    CUresult r = vcu_check_init();

    (void)userData;
    return r == CUDA_SUCCESS ? cua_notification_register(known_device(device), device, callbackFunc,
                                                         callback)
                             : r;
}

CUresult vcu_cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
    CUresult r = vcu_check_init();

    return r == CUDA_SUCCESS ? cua_notification_unregister(known_device(device), device, callback) : r;
}

CUresult vcu_cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_state(pid, state, &why);
    return told("cuCheckpointProcessGetState", r, why);
}

CUresult vcu_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_lock(pid, &why);
    return told("cuCheckpointProcessLock", r, why);
}

CUresult vcu_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessCheckpoint", r, why);
}

CUresult vcu_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessRestore", r, why);
}

CUresult vcu_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_other(pid, &why);
    return told("cuCheckpointProcessUnlock", r, why);
}

CUresult vcu_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    const char *why = NULL;
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS)
        r = cua_checkpoint_restore_thread(pid, tid, &why);
    return told("cuCheckpointProcessGetRestoreThreadId", r, why);
}

/* SPDX-License-Identifier: MIT */
/*
 * Entry points of what is not offered here, as the device attributes say: each checks its arguments
 * and answers as the driver does on a device without it.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "vcu_module.h"

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/vgp_guest_rt.h"

static CUresult no(const char *call, const char *why)
{
    return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "%s", why);
}

static bool known_device(CUdevice dev)
{
    struct vcu_device *d;

    return vcu_device_get(dev, &d) == CUDA_SUCCESS;
}

CUresult vcu_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    CUresult r = vcu_check_init();

    if (r != CUDA_SUCCESS)
        return r;
    if (!known_device(dev))
        return CUDA_ERROR_INVALID_DEVICE;
    if (!luid || !deviceNodeMask)
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuDeviceGetLuid", "locally unique identifiers exist on Windows only");
}

/* Documented: since CUDA 12 this is always the answer. */
CUresult vcu_cuProfilerInitialize(const char *configFile, const char *outputFile,
                                  CUoutput_mode outputMode)
{
    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return no("cuProfilerInitialize", "removed in CUDA 12");
}

CUresult vcu_cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                        CUflushGPUDirectRDMAWritesScope scope)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuFlushGPUDirectRDMAWrites", "no GPUDirect RDMA (device attribute 116 is 0)");
}

CUresult vcu_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                                  unsigned int numDevices, unsigned int flags)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    if (!launchParamsList || numDevices == 0 ||
        (flags & ~(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                   CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)))
        return CUDA_ERROR_INVALID_VALUE;
    return no("cuLaunchCooperativeKernelMultiDevice", "device attribute 96 is 0");
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

/* ---- notifications ----
 * There is one, of a budget of device memory that was exceeded. A quota refuses the allocation here,
 * so it cannot happen: who registers is remembered, and never called. */

struct CUasyncCallbackEntry_st {
    struct CUasyncCallbackEntry_st *next;
    CUdevice device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct CUasyncCallbackEntry_st *registered;

CUresult vcu_cuDeviceRegisterAsyncNotification(CUdevice device, CUasyncCallback callbackFunc,
                                               void *userData, CUasyncCallbackHandle *callback)
{
    struct CUasyncCallbackEntry_st *e;
    CUresult r = vcu_check_init();

    if (r != CUDA_SUCCESS)
        return r;
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

CUresult vcu_cuDeviceUnregisterAsyncNotification(CUdevice device, CUasyncCallbackHandle callback)
{
    struct CUasyncCallbackEntry_st **p, *e;
    CUresult r = vcu_check_init();

    if (r != CUDA_SUCCESS)
        return r;
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

static const char no_checkpoint[] = "a checkpoint would have to include the worker on the host";

static CUresult own_process(const char *call, int pid)
{
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return CUDA_ERROR_INVALID_VALUE;
    return pid == getpid() ? CUDA_SUCCESS : no(call, "only the calling process is known");
}

CUresult vcu_cuCheckpointProcessGetState(int pid, CUprocessState *state)
{
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS && state == NULL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessGetState", pid);
    if (r == CUDA_SUCCESS)
        *state = CU_PROCESS_STATE_RUNNING;
    return r;
}

CUresult vcu_cuCheckpointProcessLock(int pid, CUcheckpointLockArgs *args)
{
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessLock", pid);
    return r == CUDA_SUCCESS ? no("cuCheckpointProcessLock", no_checkpoint) : r;
}

/* Documented for a process that is not locked or checkpointed. */
CUresult vcu_cuCheckpointProcessCheckpoint(int pid, CUcheckpointCheckpointArgs *args)
{
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessCheckpoint", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult vcu_cuCheckpointProcessRestore(int pid, CUcheckpointRestoreArgs *args)
{
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessRestore", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult vcu_cuCheckpointProcessUnlock(int pid, CUcheckpointUnlockArgs *args)
{
    CUresult r = vcu_check_init();

    (void)args;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessUnlock", pid);
    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult vcu_cuCheckpointProcessGetRestoreThreadId(int pid, int *tid)
{
    CUresult r = vcu_check_init();

    if (r == CUDA_SUCCESS && tid == NULL)
        r = CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        r = own_process("cuCheckpointProcessGetRestoreThreadId", pid);
    return r == CUDA_SUCCESS ? no("cuCheckpointProcessGetRestoreThreadId", no_checkpoint)
                             : r;
}

/* SPDX-License-Identifier: MIT */
/* Answers of entry points whose feature is not offered. */
#include "absent.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static CUresult refuse_with(const char *reason, const char **why)
{
    *why = reason;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cua_device_luid(bool known, const char *luid, const unsigned *mask, const char **why)
{
    if (!known)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!luid || !mask)
        return CUDA_ERROR_INVALID_VALUE;
    return refuse_with("locally unique identifiers exist on Windows only", why);
}

/* The order of driver 580, which also answers so where the attributes' library is missing. */
CUresult cua_device_nvscisync(bool known, const void *list, int flags, const char **why)
{
    if (!list)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!known)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!flags || flags & ~(CUDA_NVSCISYNC_ATTR_SIGNAL | CUDA_NVSCISYNC_ATTR_WAIT))
        return CUDA_ERROR_INVALID_VALUE;
    return refuse_with("no NvSciSync, which is a library of other platforms", why);
}

CUresult cua_library_tables(unsigned n, const CUlibraryOption *options, void *const *values)
{
    for (unsigned i = 0; values && i < n; i++) {
        const CUlibraryHostUniversalFunctionAndDataTable *table = values[i];

        if (options[i] == CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE && table &&
            !table->functionWindowSize && !table->dataWindowSize)
            return CUDA_ERROR_INVALID_IMAGE;
    }
    return CUDA_SUCCESS;
}

CUresult cua_flush_rdma_writes(CUflushGPUDirectRDMAWritesTarget target, CUflushGPUDirectRDMAWritesScope scope,
                               const char **why)
{
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    return refuse_with("no GPUDirect RDMA (device attribute 116 is 0)", why);
}

CUresult cua_launch_multi_device(const CUDA_LAUNCH_PARAMS *list, unsigned n, unsigned flags, const char **why)
{
    if (!list || n == 0 ||
        (flags & ~(CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC |
                   CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_POST_LAUNCH_SYNC)))
        return CUDA_ERROR_INVALID_VALUE;
    return refuse_with("device attribute 96 is 0", why);
}

CUresult cua_profiler_initialize(const char **why)
{
    return refuse_with("removed in CUDA 12", why);
}

/* ---- notifications ---- */

struct CUasyncCallbackEntry_st {
    struct CUasyncCallbackEntry_st *next;
    CUdevice device;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list */
static struct CUasyncCallbackEntry_st *registered;

CUresult cua_notification_register(bool known, CUdevice device, CUasyncCallback fn,
                                   CUasyncCallbackHandle *out)
{
    struct CUasyncCallbackEntry_st *e;

    if (!known)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!fn || !out)
        return CUDA_ERROR_INVALID_VALUE;
    e = calloc(1, sizeof(*e));
    if (!e)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e->device = device;
    pthread_mutex_lock(&lock);
    e->next = registered;
    registered = e;
    pthread_mutex_unlock(&lock);
    *out = e;
    return CUDA_SUCCESS;
}

CUresult cua_notification_unregister(bool known, CUdevice device, CUasyncCallbackHandle handle)
{
    struct CUasyncCallbackEntry_st **p, *e;

    if (!known)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&lock);
    for (p = &registered; *p && (*p != handle || (*p)->device != device);)
        p = &(*p)->next;
    e = *p;
    if (e)
        *p = e->next;
    pthread_mutex_unlock(&lock);
    free(e);
    return e ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- checkpoints ---- */

static const char no_checkpoint[] = "no checkpoints: one would have to include the driver's state";

static CUresult own_process(int pid, const char **why)
{
    if (pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH))
        return CUDA_ERROR_INVALID_VALUE;
    return pid == getpid() ? CUDA_SUCCESS : refuse_with("only the calling process is known", why);
}

CUresult cua_checkpoint_state(int pid, CUprocessState *state, const char **why)
{
    CUresult r;

    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    r = own_process(pid, why);
    if (r == CUDA_ERROR_INVALID_VALUE)
        return CUDA_ERROR_OPERATING_SYSTEM; /* driver 580 */
    if (r == CUDA_SUCCESS)
        *state = CU_PROCESS_STATE_RUNNING;
    return r;
}

CUresult cua_checkpoint_lock(int pid, const char **why)
{
    CUresult r = own_process(pid, why);

    return r == CUDA_SUCCESS ? refuse_with(no_checkpoint, why) : r;
}

CUresult cua_checkpoint_other(int pid, const char **why)
{
    CUresult r = own_process(pid, why);

    return r == CUDA_SUCCESS ? CUDA_ERROR_ILLEGAL_STATE : r;
}

CUresult cua_checkpoint_restore_thread(int pid, const int *tid, const char **why)
{
    CUresult r = tid ? own_process(pid, why) : CUDA_ERROR_INVALID_VALUE;

    return r == CUDA_SUCCESS ? refuse_with(no_checkpoint, why) : r;
}

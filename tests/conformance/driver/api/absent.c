// SPDX-License-Identifier: MIT
/*
 * Features that a device may lack: the arguments are checked, then the documented error is
 * returned.
 */
#define CUDA_ENABLE_DEPRECATED 1 /* names that are still exported */
#include "conform.h"

#include <cudaProfiler.h>
#include <unistd.h>

static int has(CUdevice_attribute a)
{
    int v = 0;

    NEED(cuDeviceGetAttribute(&v, a, 0));
    return v;
}

CASE(absent_luid, CF_CTX)
{
    unsigned mask = 0;
    char luid[8];

    RC("device", cuDeviceGetLuid(luid, &mask, 99), CUDA_ERROR_INVALID_DEVICE);
    RC("null", cuDeviceGetLuid(NULL, &mask, 0), CUDA_ERROR_INVALID_VALUE);
    RC("mask_null", cuDeviceGetLuid(luid, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    RC("linux", cuDeviceGetLuid(luid, &mask, 0), CUDA_ERROR_NOT_SUPPORTED);
}

/* The first three answers are those of driver 580 on an H200. */
CASE(absent_nvscisync, CF_CTX)
{
    char list[64] = {0};

    RC("null", cuDeviceGetNvSciSyncAttributes(NULL, 0, CUDA_NVSCISYNC_ATTR_SIGNAL),
       CUDA_ERROR_INVALID_HANDLE);
    RC("device", cuDeviceGetNvSciSyncAttributes(list, 99, 0), CUDA_ERROR_INVALID_DEVICE);
    RC("flags", cuDeviceGetNvSciSyncAttributes(list, 0, 0), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a driver may read the list */
        RC("linux", cuDeviceGetNvSciSyncAttributes(list, 0, CUDA_NVSCISYNC_ATTR_WAIT),
           CUDA_ERROR_NOT_SUPPORTED);
}

CASE(absent_features, CF_CTX)
{
    CUDA_LAUNCH_PARAMS launch = {.function = cf_func("k_nop"),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUmemDecompressParams work = {0};
    CUlibrary lib = NULL;
    size_t at = 7;
    void *p = NULL;

    RC("rdma_target", cuFlushGPUDirectRDMAWrites(7, CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
       CUDA_ERROR_INVALID_VALUE);
    RC("rdma_scope", cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX, 7),
       CUDA_ERROR_INVALID_VALUE);
    if (!has(CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED))
        RC("rdma",
           cuFlushGPUDirectRDMAWrites(CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX,
                                      CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER),
           CUDA_ERROR_NOT_SUPPORTED);
    RC("devices_null", cuLaunchCooperativeKernelMultiDevice(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("devices_none", cuLaunchCooperativeKernelMultiDevice(&launch, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("devices_flags", cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0x80), CUDA_ERROR_INVALID_VALUE);
    if (!has(CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH))
        RC("devices", cuLaunchCooperativeKernelMultiDevice(&launch, 1, 0), CUDA_ERROR_NOT_SUPPORTED);
    NEED(cuLibraryLoadData(&lib, cf_ptx, NULL, NULL, 0, NULL, NULL, 0));
    RC("profiler", cuProfilerInitialize("", "", CU_OUT_CSV), CUDA_ERROR_NOT_SUPPORTED);
    RC("unified_null", cuLibraryGetUnifiedFunction(NULL, lib, "k_nop"), CUDA_ERROR_INVALID_VALUE);
    RC("unified_name", cuLibraryGetUnifiedFunction(&p, lib, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("unified", cuLibraryGetUnifiedFunction(&p, lib, "k_nop"), CUDA_ERROR_INVALID_VALUE);
    NEED(cuLibraryUnload(lib));
    if (has(CU_DEVICE_ATTRIBUTE_MEM_DECOMPRESS_ALGORITHM_MASK))
        return;
    /* Without the engine no argument is checked. */
    RC("decompress_none", cuMemBatchDecompressAsync(&work, 0, 0, &at, NULL), CUDA_ERROR_NOT_SUPPORTED);
    RC("decompress_null", cuMemBatchDecompressAsync(NULL, 1, 0, NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
    RC("decompress_flags", cuMemBatchDecompressAsync(&work, 1, 4, &at, NULL), CUDA_ERROR_NOT_SUPPORTED);
    RC("decompress", cuMemBatchDecompressAsync(&work, 1, 0, &at, NULL), CUDA_ERROR_NOT_SUPPORTED);
    cf_u64("decompress_index", at, 7);
}

CASE(absent_multicast, CF_CTX)
{
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 2 << 20};
    CUmemGenericAllocationHandle h = 0;
    size_t n = 0;

    if (has(CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED))
        return;
    /* No argument is checked. */
    RC("null", cuMulticastCreate(NULL, &prop), CUDA_ERROR_NOT_SUPPORTED);
    RC("prop_null", cuMulticastCreate(&h, NULL), CUDA_ERROR_NOT_SUPPORTED);
    RC("granularity_null", cuMulticastGetGranularity(NULL, &prop, CU_MULTICAST_GRANULARITY_MINIMUM),
       CUDA_ERROR_NOT_SUPPORTED);
    RC("create", cuMulticastCreate(&h, &prop), CUDA_ERROR_NOT_SUPPORTED);
    RC("granularity", cuMulticastGetGranularity(&n, &prop, CU_MULTICAST_GRANULARITY_MINIMUM),
       CUDA_ERROR_NOT_SUPPORTED);
    RC("add", cuMulticastAddDevice(0, 0), CUDA_ERROR_NOT_SUPPORTED);
    RC("add_device", cuMulticastAddDevice(0, 99), CUDA_ERROR_NOT_SUPPORTED);
    RC("bind", cuMulticastBindMem(0, 0, 0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    RC("bind_address", cuMulticastBindAddr(0, 0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
    RC("unbind", cuMulticastUnbind(0, 0, 0, 0), CUDA_ERROR_NOT_SUPPORTED);
}

CASE(absent_process, CF_CTX)
{
    CUprocessState state = 9;
    int tid = 0;

    OK("state", cuCheckpointProcessGetState((int)getpid(), &state));
    cf_u64("running", state, CU_PROCESS_STATE_RUNNING);
    RC("state_null", cuCheckpointProcessGetState((int)getpid(), NULL), CUDA_ERROR_INVALID_VALUE);
    RC("state_nobody", cuCheckpointProcessGetState(-5, &state), CUDA_ERROR_OPERATING_SYSTEM);
    RC("unlock", cuCheckpointProcessUnlock((int)getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
    RC("checkpoint", cuCheckpointProcessCheckpoint((int)getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
    RC("restore", cuCheckpointProcessRestore((int)getpid(), NULL), CUDA_ERROR_ILLEGAL_STATE);
    RC("thread_null", cuCheckpointProcessGetRestoreThreadId((int)getpid(), NULL), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) { /* a physical GPU's driver would succeed, and suspend this process */
        RC("lock", cuCheckpointProcessLock((int)getpid(), NULL), CUDA_ERROR_NOT_SUPPORTED);
        RC("thread", cuCheckpointProcessGetRestoreThreadId((int)getpid(), &tid), CUDA_ERROR_NOT_SUPPORTED);
    }
}

static void notified(CUasyncNotificationInfo *info, void *user, CUasyncCallbackHandle h)
{
    (void)info;
    (void)user;
    (void)h;
}

CASE(absent_notification, CF_CTX)
{
    CUasyncCallbackHandle h = NULL, h2 = NULL;

    RC("device", cuDeviceRegisterAsyncNotification(99, notified, NULL, &h), CUDA_ERROR_INVALID_DEVICE);
    RC("function", cuDeviceRegisterAsyncNotification(0, NULL, NULL, &h), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a physical GPU's driver writes there (driver 580) */
        RC("null", cuDeviceRegisterAsyncNotification(0, notified, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    CUresult r = cuDeviceRegisterAsyncNotification(0, notified, NULL, &h);
    if (r == CUDA_ERROR_NOT_SUPPORTED && cf_real())
        return;
    OK("register", r);
    OK("register_2", cuDeviceRegisterAsyncNotification(0, notified, &h, &h2));
    cf_true("handles", h && h2 && h != h2);
    OK("unregister", cuDeviceUnregisterAsyncNotification(0, h));
    RC("unregister_again", cuDeviceUnregisterAsyncNotification(0, h), CUDA_ERROR_INVALID_VALUE);
    OK("unregister_2", cuDeviceUnregisterAsyncNotification(0, h2));
}

/* Events recorded for a whole context, and contexts that wait for an event. */
CASE(context_event, CF_CTX | CF_UB)
{
    CUcontext c = NULL;
    CUstream s[2] = {NULL, NULL};
    CUevent e = NULL;
    struct cf_gate *g;
    CUdeviceptr p = 0;
    const uint32_t one = 1;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++)
        NEED(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    RC("record_context", cuCtxRecordEvent((CUcontext)&c, e), CUDA_ERROR_INVALID_CONTEXT);
    RC("record_event", cuCtxRecordEvent(c, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("wait_context", cuCtxWaitEvent((CUcontext)&c, e), CUDA_ERROR_INVALID_CONTEXT);
    RC("wait_event", cuCtxWaitEvent(c, NULL), CUDA_ERROR_INVALID_HANDLE);
    /*
     * Not with two gates: host functions of independent streams may run one after the other, in any
     * order.
     */
    OK("zero", cuMemsetD32(p, 0, 2));
    for (unsigned i = 0; i < 2; i++)
        OK("hold", cuStreamWaitValue32(s[i], p + 4 * i, 1, CU_STREAM_WAIT_VALUE_GEQ));
    OK("record", cuCtxRecordEvent(c, e));
    RC("both_busy", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK("let_one_go", cuMemcpyHtoD(p, &one, 4));
    OK("one_ready", cuStreamSynchronize(s[0]));
    RC("other_busy", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK("let_other_go", cuMemcpyHtoD(p + 4, &one, 4));
    OK("all_ready", cuEventSynchronize(e));

    g = cf_gate_put(s[0]);
    OK("record_one", cuEventRecord(e, s[0]));
    OK("wait", cuCtxWaitEvent(c, e));
    OK("behind", cuMemsetD32Async(p, 5, 1024, s[1]));
    RC("waits", cuStreamQuery(s[1]), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("after", cuStreamSynchronize(s[1]));
    for (int i = 0; i < 2; i++)
        NEED(cuStreamDestroy(s[i]));
    NEED(cuEventDestroy(e));
    NEED(cuMemFree(p));
}

/* Streams that end meanwhile, including the implementation's own, block no call. */
CASE(context_event_again, CF_CTX | CF_UB)
{
    CUcontext c = NULL;
    CUstream s = NULL, brief;
    CUevent e = NULL, all = NULL;
    CUdeviceptr p = 0;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&all, CU_EVENT_DISABLE_TIMING));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 300; i++) {
        NEED(cuStreamCreate(&brief, CU_STREAM_NON_BLOCKING));
        NEED(cuMemsetD32Async(p, i, 1024, brief));
        NEED(cuCtxRecordEvent(c, all));
        NEED(cuStreamDestroy(brief));
        NEED(cuEventSynchronize(all));
        struct cf_gate *g = cf_gate_put(s);
        NEED(cuEventRecord(e, s));
        NEED(cuCtxWaitEvent(c, e));
        cf_gate_open(g);
        NEED(cuStreamSynchronize(s));
    }
    NEED(cuStreamDestroy(s));
    NEED(cuEventDestroy(e));
    NEED(cuEventDestroy(all));
    NEED(cuMemFree(p));
}

/* Usage count of a context other than the primary context. */
CASE(context_attach, CF_CTX | CF_UB)
{
    CUcontext c = NULL, same = NULL, now = NULL;

    OK("primary", cuCtxAttach(&c, 0));
    OK("primary_detach", cuCtxDetach(c));
    OK("primary_still_there", cuCtxSynchronize());
    NEED(cuCtxCreate(&c, NULL, 0, 0));
    RC("flags", cuCtxAttach(&same, 1), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuCtxAttach(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("attach", cuCtxAttach(&same, 0));
    cf_true("same", same == c);
    OK("detach", cuCtxDetach(c));
    OK("still_there", cuCtxSynchronize());
    OK("detach_last", cuCtxDetach(c));
    OK("current", cuCtxGetCurrent(&now));
    cf_true("primary_again", now != NULL && now != c);
    RC("gone", cuCtxDetach(c), CUDA_ERROR_INVALID_CONTEXT);
}

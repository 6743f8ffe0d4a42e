// SPDX-License-Identifier: MIT
/* The remaining implemented calls, each with a check of its result. */
#include "conform.h"

#include <cudaProfiler.h>
#include <unistd.h>

static size_t CUDA_CB no_shared(int block)
{
    (void)block;
    return 0;
}

CASE(rest_context, CF_CTX)
{
    CUcontext c = NULL;
    unsigned long long id = 0, id2 = 1;
    unsigned flags = 0;
    CUfunc_cache cache = CU_FUNC_CACHE_PREFER_L1;
    CUmoduleLoadingMode mode = 0;
    int v = -1;

    NEED(cuCtxGetCurrent(&c));
    OK("id", cuCtxGetId(c, &id));
    OK("id_current", cuCtxGetId(NULL, &id2));
    cf_true("id_same", id == id2);
    RC("id_null", cuCtxGetId(c, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("flags", cuCtxGetFlags(&flags));
    OK("set_flags", cuCtxSetFlags(CU_CTX_SCHED_BLOCKING_SYNC));
    OK("flags_2", cuCtxGetFlags(&flags));
    cf_u64("flags_2_value", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
    RC("set_flags_wrong", cuCtxSetFlags(0x7000), CUDA_ERROR_INVALID_VALUE);
    OK("set_flags_back", cuCtxSetFlags(CU_CTX_SCHED_AUTO));
    OK("cache", cuCtxGetCacheConfig(&cache));
    OK("set_cache", cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_NONE));
    RC("cache_null", cuCtxGetCacheConfig(NULL), CUDA_ERROR_INVALID_VALUE);
    CUexecAffinityParam affinity = {0};
    NEED(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK("affinity", cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
    cf_true("affinity_value",
            affinity.type == CU_EXEC_AFFINITY_TYPE_SM_COUNT && affinity.param.smCount.val == (unsigned)v);
    RC("affinity_other", cuCtxGetExecAffinity(&affinity, (CUexecAffinityType)9),
       CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    RC("push_null", cuCtxPushCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("destroy_null", cuCtxDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    OK("loading_mode", cuModuleGetLoadingMode(&mode));
    cf_true("loading_mode_value", mode == CU_MODULE_EAGER_LOADING || mode == CU_MODULE_LAZY_LOADING);
    if (!cf_real()) /* a physical GPU's driver writes there (driver 580) */
        RC("loading_mode_null", cuModuleGetLoadingMode(NULL), CUDA_ERROR_INVALID_VALUE);
    RC_IN("peer_self", cuCtxEnablePeerAccess(c, 0), CUDA_ERROR_INVALID_DEVICE, CUDA_ERROR_INVALID_CONTEXT,
          CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, CUDA_ERROR_INVALID_VALUE);
    RC("p2p_device", cuDeviceGetP2PAttribute(&v, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 77),
       CUDA_ERROR_INVALID_DEVICE);
    OK("profiler_start", cuProfilerStart());
    OK("profiler_stop", cuProfilerStop());
    OK("limit", cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
    size_t limit = 0;
    OK("limit_get", cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE));
    cf_true("limit_value", limit >= 4096);
}

CASE(rest_host_atomics, CF_CTX)
{
    const CUatomicOperation ops[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS},
                            bad = CU_ATOMIC_OPERATION_MAX;
    unsigned can[2] = {0x1000, 0x1000};
    int native = 0;

    NEED(cuDeviceGetAttribute(&native, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 0));
    OK("capabilities", cuDeviceGetHostAtomicCapabilities(can, ops, 2, 0));
    cf_true("known", can[0] < 0x80 && can[1] < 0x80);
    cf_true("integers", !native || (can[0] & CU_ATOMIC_CAPABILITY_SCALAR_32));
    RC("null", cuDeviceGetHostAtomicCapabilities(NULL, ops, 2, 0), CUDA_ERROR_INVALID_VALUE);
    RC("operations_null", cuDeviceGetHostAtomicCapabilities(can, NULL, 2, 0), CUDA_ERROR_INVALID_VALUE);
    RC("none", cuDeviceGetHostAtomicCapabilities(can, ops, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("unknown", cuDeviceGetHostAtomicCapabilities(can, &bad, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("device", cuDeviceGetHostAtomicCapabilities(can, ops, 2, 99), CUDA_ERROR_INVALID_DEVICE);
}

CASE(rest_primary_flags, CF_ALONE)
{
    unsigned flags = 99;
    int active = 99;

    NEED(cuInit(0));
    OK("set", cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
    OK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("value", flags, CU_CTX_SCHED_YIELD);
    cf_u64("active", (uint64_t)active, 0);
    RC("wrong", cuDevicePrimaryCtxSetFlags(0, 0x7000), CUDA_ERROR_INVALID_VALUE);
    RC("device", cuDevicePrimaryCtxSetFlags(77, 0), CUDA_ERROR_INVALID_DEVICE);
    RC("state_device", cuDevicePrimaryCtxGetState(77, &flags, &active), CUDA_ERROR_INVALID_DEVICE);
    RC("reset_device", cuDevicePrimaryCtxReset(77), CUDA_ERROR_INVALID_DEVICE);
}

CASE(rest_function, CF_CTX)
{
    CUfunction f = cf_func("k_work"), all[64] = {0};
    CUfunctionLoadingState state = 9;
    CUmodule m = cf_module(), loaded = NULL;
    unsigned count = 0, named = 0;
    int grid = 0, block = 0, blocks = 0;
    size_t dynamic = 0;
    char path[] = "/tmp/conform-XXXXXX";

    OK("load", cuFuncLoad(f));
    OK("is_loaded", cuFuncIsLoaded(&state, f));
    cf_u64("is_loaded_value", state, CU_FUNCTION_LOADING_STATE_LOADED);
    OK("cache", cuFuncSetCacheConfig(f, CU_FUNC_CACHE_PREFER_SHARED));
    OK("count", cuModuleGetFunctionCount(&count, m));
    OK("enumerate", cuModuleEnumerateFunctions(all, 64, m));
    for (unsigned i = 0; i < count && i < 64; i++) {
        const char *name = NULL;
        named += all[i] && cuFuncGetName(&name, all[i]) == CUDA_SUCCESS && !strncmp(name, "k_", 2);
    }
    cf_true("all_named", named == count);
    OK("potential", cuOccupancyMaxPotentialBlockSize(&grid, &block, f, no_shared, 0, 0));
    cf_true("potential_value", grid >= 1 && block >= 32 && block <= 1024);
    OK("potential_limit", cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, f, NULL, 0, 128, 0));
    cf_true("potential_limit_value", block >= 1 && block <= 128);
    OK("blocks_flags", cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, f, 128, 0, 0));
    cf_true("blocks_value", blocks >= 1);
    OK("available", cuOccupancyAvailableDynamicSMemPerBlock(&dynamic, f, 1, 128));
    cf_true("available_value", dynamic > 0);

    int fd = mkstemp(path);
    size_t n = strlen(cf_ptx);
    cf_need_true("file", fd >= 0 && write(fd, cf_ptx, n) == (ssize_t)n);
    close(fd);
    OK("module_file", cuModuleLoad(&loaded, path));
    CUlibrary lib = NULL;
    OK("library_file", cuLibraryLoadFromFile(&lib, path, NULL, NULL, 0, NULL, NULL, 0));
    unlink(path);
    OK("module_file_function", cuModuleGetFunction(&f, loaded, "k_nop"));
    OK("module_file_run", cf_launch(f, 1, 1, 0, NULL, NULL));
    CUkernel k = NULL;
    OK("library_file_kernel", cuLibraryGetKernel(&k, lib, "k_nop"));
    OK("kernel_cache", cuKernelSetCacheConfig(k, CU_FUNC_CACHE_PREFER_L1, 0));
    k = NULL;
    NEED(cuLibraryGetKernel(&k, lib, "k_reverse"));
    int v = 0;
    OK("kernel_set", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 40000, k, 0));
    OK("kernel_get", cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, k, 0));
    cf_u64("kernel_value", (uint64_t)v, 40000);
    CUdeviceptr managed = 0;
    RC("no_managed", cuLibraryGetManaged(&managed, NULL, lib, "g_counter"), CUDA_ERROR_NOT_FOUND);
    OK("module_unload", cuModuleUnload(loaded));
    OK("library_unload", cuLibraryUnload(lib));
    RC("module_no_file", cuModuleLoad(&loaded, "/nowhere/at/all.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    RC("library_no_file", cuLibraryLoadFromFile(&lib, "/nowhere/at/all.ptx", NULL, NULL, 0, NULL, NULL, 0),
       CUDA_ERROR_FILE_NOT_FOUND);
}

CASE(rest_cooperative, CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned n = 100, v = 6;
    void *params[] = {&p, &n, &v};

    NEED(cuMemAlloc(&p, 400));
    OK("launch", cuLaunchCooperativeKernel(cf_func("k_fill"), 1, 1, 1, 128, 1, 1, 0, NULL, params));
    cf_true("result", cf_filled(p, 100, 6));
    RC("too_large", cuLaunchCooperativeKernel(cf_func("k_fill"), 1 << 20, 1, 1, 1024, 1, 1, 0, NULL, params),
       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    RC("zero", cuLaunchCooperativeKernel(cf_func("k_fill"), 0, 1, 1, 128, 1, 1, 0, NULL, params),
       CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuCtxSynchronize());
    OK("free", cuMemFree(p));
}

CASE(rest_memset, CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned char h[1024];
    bool ok = true;

    NEED(cuMemAlloc(&p, 1024));
    NEED(cuMemsetD8(p, 0, 1024));
    OK("d16_async", cuMemsetD16Async(p, 0x1122, 10, NULL));
    OK("d2d16", cuMemsetD2D16(p + 64, 32, 0x3344, 5, 4));
    OK("d2d8_async", cuMemsetD2D8Async(p + 256, 32, 0x55, 7, 3, NULL));
    OK("d2d16_async", cuMemsetD2D16Async(p + 512, 64, 0x6677, 3, 2, NULL));
    OK("d2d32_async", cuMemsetD2D32Async(p + 768, 64, 0x8899aabb, 2, 2, NULL));
    OK("read", cuMemcpyDtoH(h, p, 1024));
    for (int i = 0; i < 20; i++)
        ok &= h[i] == (i & 1 ? 0x11 : 0x22);
    for (int y = 0; y < 4; y++)
        for (int x = 0; x < 32; x++)
            ok &= h[64 + y * 32 + x] == (x < 10 ? (x & 1 ? 0x33 : 0x44) : 0);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 32; x++)
            ok &= h[256 + y * 32 + x] == (x < 7 ? 0x55 : 0);
    ok &= h[512] == 0x77 && h[512 + 64 + 5] == 0x66 && h[512 + 6] == 0;
    ok &= h[768] == 0xbb && h[768 + 64 + 7] == 0x88 && h[768 + 8] == 0;
    cf_true("content", ok);
    RC("pitch", cuMemsetD2D8(p, 4, 1, 8, 2), CUDA_ERROR_INVALID_VALUE);
    RC("past", cuMemsetD2D8(p, 512, 1, 8, 1000), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree(p));
}

CASE(rest_copy, CF_CTX)
{
    CUdeviceptr p = 0, q = 0;
    CUcontext c = NULL;
    uint32_t h[64];
    CUstream s = NULL;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuMemAlloc(&p, 256));
    NEED(cuMemAlloc(&q, 256));
    NEED(cuStreamCreate(&s, 0));
    NEED(cf_fill(p, 64, 10, NULL));
    OK("peer", cuMemcpyPeer(q, c, p, c, 256));
    cf_true("peer_right", cf_filled(q, 64, 10));
    NEED(cf_fill(p, 64, 15, NULL));
    OK("peer_to_current", cuMemcpyPeer(q, NULL, p, c, 256));
    cf_true("peer_to_current_right", cf_filled(q, 64, 15));
    OK("peer_nothing", cuMemcpyPeer(0, NULL, 0, NULL, 0));
    OK("row_of_nothing", cuMemcpyAtoD(0, NULL, 0, 0));
    CUDA_MEMCPY2D nothing = {.Height = 0};
    OK("2d_nothing", cuMemcpy2D(&nothing));
    NEED(cf_fill(p, 64, 20, s));
    OK("peer_async", cuMemcpyPeerAsync(q, c, p, c, 256, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("peer_async_right", cf_filled(q, 64, 20));
    CUDA_MEMCPY3D d = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = q,
        .srcPitch = 64,
        .srcHeight = 4,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = h,
        .dstPitch = 64,
        .dstHeight = 4,
        .WidthInBytes = 64,
        .Height = 2,
        .Depth = 1,
    };
    memset(h, 0, sizeof(h));
    OK("async_3d", cuMemcpy3DAsync(&d, s));
    OK("sync_2", cuStreamSynchronize(s));
    cf_true("async_3d_right", h[0] == 20 && h[31] == 51 && h[32] == 0);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
    OK("free_2", cuMemFree(q));
}

CASE(rest_stream, CF_CTX)
{
    CUstream s = NULL;
    CUevent e = NULL;
    CUdevice d = -1;
    CUstreamCaptureStatus status = 9;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr p = 0;
    uint32_t v = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, 0));
    OK("device", cuStreamGetDevice(s, &d));
    cf_u64("device_value", (uint64_t)d, 0);
    OK("capturing", cuStreamIsCapturing(s, &status));
    cf_u64("capturing_value", status, CU_STREAM_CAPTURE_STATUS_NONE);
    status = 9;
    OK("capture_info", cuStreamGetCaptureInfo(s, &status, NULL, NULL, NULL, NULL, NULL));
    cf_u64("capture_info_value", status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK("mode", cuThreadExchangeStreamCaptureMode(&mode));
    cf_u64("mode_value", mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK("mode_back", cuThreadExchangeStreamCaptureMode(&mode));
    cf_u64("mode_back_value", mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK("record_flags", cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_DEFAULT));
    OK("event_sync", cuEventSynchronize(e));
    RC("record_flags_wrong", cuEventRecordWithFlags(e, s, 0x80), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAlloc(&p, 64));
    NEED(cuMemsetD8(p, 0, 64));
    OK("write_value", cuStreamWriteValue32(s, p, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK("wait_value", cuStreamWaitValue32(s, p, 77, CU_STREAM_WAIT_VALUE_EQ));
    OK("write_value_64", cuStreamWriteValue64(s, p + 8, 1ull << 40, CU_STREAM_WRITE_VALUE_DEFAULT));
    OK("wait_value_64", cuStreamWaitValue64(s, p + 8, 1ull << 39, CU_STREAM_WAIT_VALUE_GEQ));
    OK("values_sync", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(&v, p, 4));
    cf_u64("written", v, 77);
    OK("wait_open", cuStreamWaitValue32(s, p + 16, 5, CU_STREAM_WAIT_VALUE_EQ));
    usleep(10000);
    RC("waits", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    OK("release", cuStreamWriteValue32(CU_STREAM_PER_THREAD, p + 16, 5, 0));
    OK("released", cuStreamSynchronize(s));
    OK("event_destroy", cuEventDestroy(e));
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

CASE(rest_pool, CF_CTX)
{
    CUmemoryPool pool = NULL, other = NULL;
    cuuint64_t keep = 1 << 20, got = 0;
    CUdeviceptr p = 0;

    OK("default", cuDeviceGetDefaultMemPool(&pool, 0));
    OK("current", cuDeviceGetMemPool(&other, 0));
    cf_true("same", pool && pool == other);
    OK("set", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK("get", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &got));
    cf_u64("value", got, keep);
    OK("alloc", cuMemAllocFromPoolAsync(&p, 4000, pool, NULL));
    OK("fill", cf_fill(p, 1000, 9, NULL));
    cf_true("filled", cf_filled(p, 1000, 9));
    OK("free", cuMemFreeAsync(p, NULL));
    OK("sync", cuCtxSynchronize());
    OK("trim", cuMemPoolTrimTo(pool, 0));
    RC("attribute", cuMemPoolGetAttribute(pool, (CUmemPool_attribute)999, &got), CUDA_ERROR_INVALID_VALUE);
}

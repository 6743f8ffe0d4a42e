// SPDX-License-Identifier: MIT
/*
 * Failures of other implementations in launches, functions, contexts and look-ups, from public
 * reports, with the answers of NVIDIA's manual.
 */
#include "conform.h"

#include <dlfcn.h>

/* More than 48 KiB of shared memory must be requested first, up to the device's maximum. */
CASE(report_dynamic_shared, CF_CTX)
{
    CUfunction f = cf_func("k_reverse");
    int most = 0, v = 0, blocks = 9;
    unsigned n = 12800; /* 50 KiB */
    CUdeviceptr p = 0;
    void *params[] = {&p, &n};
    size_t room = 0;

    NEED(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    NEED(cuMemAlloc(&p, 4 * n));
    NEED(cf_fill(p, n, 0, NULL));
    RC("not_asked_for", cf_launch(f, 1, 256, 4 * n, NULL, params), CUDA_ERROR_INVALID_VALUE);
    RC("too_much", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most + 1),
       CUDA_ERROR_INVALID_VALUE);
    OK("set", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)(4 * n)));
    OK("get", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    cf_u64("value", (unsigned)v, 4 * n);
    OK("launch", cf_launch(f, 1, 256, 4 * n, NULL, params));
    OK("sync", cuCtxSynchronize());
    OK("set_most", cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, most));
    OK("occupancy_most", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, (size_t)most));
    cf_true("one_fits", blocks >= 1);
    OK("available", cuOccupancyAvailableDynamicSMemPerBlock(&room, f, 1, 256));
    OK("occupancy_available", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 256, room));
    cf_true("as_promised", blocks >= 1);
    RC("no_threads", cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, 0, 0), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
}

/*
 * A cooperative grid that cannot be resident has its own error, from both calls, and no further
 * effect.
 */
CASE(report_cooperative_too_large, CF_CTX)
{
    CUlaunchAttribute cooperative = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    CUlaunchConfig config = {.gridDimX = 1u << 20,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1024,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .attrs = &cooperative,
                             .numAttrs = 1};
    CUfunction f = cf_func("k_nop");

    RC("call", cuLaunchCooperativeKernel(f, 1u << 20, 1, 1, 1024, 1, 1, 0, NULL, NULL),
       CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    RC("attribute", cuLaunchKernelEx(&config, f, NULL, NULL), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    config.gridDimX = 1;
    OK("one", cuLaunchKernelEx(&config, f, NULL, NULL));
    cooperative.id = CU_LAUNCH_ATTRIBUTE_IGNORE;
    config.gridDimX = 1u << 10;
    OK("ignored", cuLaunchKernelEx(&config, f, NULL, NULL));
    OK("sync", cuCtxSynchronize());
}

static void *by_version(const char *name, int version, cuuint64_t flags, CUdriverProcAddressQueryResult *how)
{
    void *fn = NULL;

    *how = (CUdriverProcAddressQueryResult)9;
    return cuGetProcAddress(name, &fn, version, flags, how) == CUDA_SUCCESS ? fn : NULL;
}

/*
 * The requested version selects the function of a name; a version too old and an unknown name give
 * different results.
 */
CASE(report_proc_address, CF_CTX)
{
    static const struct {
        const char *name;
        int version;
        const char *symbol;
    } rows[] = {
        {"cuMemAlloc", 2000, "cuMemAlloc"},
        {"cuMemAlloc", 3020, "cuMemAlloc_v2"},
        {"cuMemAlloc", 13000, "cuMemAlloc_v2"},
        {"cuCtxCreate", 3020, "cuCtxCreate_v2"},
        {"cuCtxCreate", 11040, "cuCtxCreate_v3"},
        {"cuCtxCreate", 13000, "cuCtxCreate_v4"},
        {"cuStreamBeginCapture", 10000, "cuStreamBeginCapture"},
        {"cuStreamBeginCapture", 10010, "cuStreamBeginCapture_v2"},
        {"cuStreamGetCaptureInfo", 11030, "cuStreamGetCaptureInfo_v2"},
        {"cuStreamGetCaptureInfo", 12030, "cuStreamGetCaptureInfo_v3"},
        {"cuGraphAddKernelNode", 10000, "cuGraphAddKernelNode"},
        {"cuGraphAddKernelNode", 12000, "cuGraphAddKernelNode_v2"},
        {"cuEventElapsedTime", 12080, "cuEventElapsedTime_v2"},
        {"cuStreamDestroy", 4000, "cuStreamDestroy_v2"},
    };
    CUdriverProcAddressQueryResult how;
    void *fn = &how;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        fn = by_version(rows[i].name, rows[i].version, CU_GET_PROC_ADDRESS_DEFAULT, &how);
        cf_true(rows[i].symbol, fn != NULL && fn == dlsym(RTLD_DEFAULT, rows[i].symbol) &&
                                    how == CU_GET_PROC_ADDRESS_SUCCESS);
    }
    cf_true("too_old", by_version("cuLaunchKernelEx", 11000, 0, &how) == NULL);
    cf_u64("too_old_how", how, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    cf_true("unknown", by_version("cuNoSuchCall", 13000, 0, &how) == NULL);
    cf_u64("unknown_how", how, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    fn = by_version("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &how);
    cf_true("per_thread", fn != NULL && fn == dlsym(RTLD_DEFAULT, "cuLaunchKernel_ptsz"));
    RC("flags", cuGetProcAddress("cuInit", &fn, 13000, 1u << 7, &how), CUDA_ERROR_INVALID_VALUE);
}

/* Flags of contexts: a single scheduling flag is set; the primary context returns its own. */
CASE(report_context_flags, CF_CTX)
{
    CUcontext ctx = NULL, first = NULL;
    unsigned flags = 99;
    int active = 9;

    NEED(cuCtxGetCurrent(&first));
    RC("two_ways",
       cuCtxCreate(&ctx, NULL, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD | CU_CTX_SCHED_BLOCKING_SYNC, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("unknown", cuCtxCreate(&ctx, NULL, 0x4000, 0), CUDA_ERROR_INVALID_VALUE);
    OK("create", cuCtxCreate(&ctx, NULL, CU_CTX_SCHED_BLOCKING_SYNC | CU_CTX_LMEM_RESIZE_TO_MAX, 0));
    OK("flags", cuCtxGetFlags(&flags));
    cf_u64("schedule", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
    OK("destroy", cuCtxDestroy(ctx));
    if (!cf_real()) /* a physical GPU's driver makes it current and fails later */
        RC("destroyed", cuCtxSetCurrent(ctx), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxSetCurrent(first));
    OK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("active", (unsigned)active, 1);
}

/* Reference count of the primary context: the second release ends it, and all its objects. */
CASE(report_primary_count, CF_ALONE)
{
    CUcontext a = NULL, b = NULL;
    CUdeviceptr p = 0;
    unsigned flags = 0;
    int active = 9;

    NEED(cuInit(0));
    OK("state_before", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("inactive", (unsigned)active, 0);
    RC("release_none", cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    OK("retain", cuDevicePrimaryCtxRetain(&a, 0));
    OK("retain_again", cuDevicePrimaryCtxRetain(&b, 0));
    cf_true("same", a == b);
    NEED(cuCtxSetCurrent(a));
    NEED(cuMemAlloc(&p, 64));
    OK("release", cuDevicePrimaryCtxRelease(0));
    OK("still_there", cuMemsetD8(p, 0, 64));
    OK("release_last", cuDevicePrimaryCtxRelease(0));
    OK("state_after", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("inactive_again", (unsigned)active, 0);
    cf_true("memory_gone", cuMemsetD8(p, 0, 64) != CUDA_SUCCESS);
}

/* A kernel of a library in two contexts: one handle, a function per context. */
CASE(report_library_contexts, CF_CTX)
{
    CUcontext first = NULL, second = NULL;
    CUfunction f = NULL, g = NULL;
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    CUdeviceptr p = 0;
    unsigned n = 100, v = 4;
    void *params[] = {&p, &n, &v};

    NEED(cuCtxGetCurrent(&first));
    OK("load", cuLibraryLoadData(&lib, cf_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK("kernel", cuLibraryGetKernel(&k, lib, "k_fill"));
    OK("function", cuKernelGetFunction(&f, k));
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    OK("function_2", cuKernelGetFunction(&g, k));
    cf_true("another", f != g);
    NEED(cuMemAlloc(&p, 400));
    OK("launch", cuLaunchKernel((CUfunction)k, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    cf_true("right", cf_filled(p, 100, 4));
    RC("of_first", cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK("destroy", cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    NEED(cuMemAlloc(&p, 400));
    OK("launch_first", cuLaunchKernel((CUfunction)k, 1, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
    cf_true("right_first", cf_filled(p, 100, 4));
    NEED(cuMemFree(p));
    OK("unload", cuLibraryUnload(lib));
    if (!cf_real()) /* a physical GPU's driver follows it */
        RC("unloaded", cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_HANDLE);
}

/*
 * The size of a packed buffer is that of the parameters up to the end of the last one: `sizeof` of a
 * struct with padding behind its last member is refused, and so is a shorter buffer, with an error
 * of resources (LLVM's offload runtime, ILGPU).
 */
CASE(report_packed_parameters, CF_CTX)
{
    struct {
        CUdeviceptr p;
        unsigned n, v, padding[2];
    } packed = {0, 8, 3, {0}};
    size_t size = 16;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUfunction f = cf_func("k_fill");
    CUDA_KERNEL_NODE_PARAMS params = {.func = f,
                                      .gridDimX = 1,
                                      .gridDimY = 1,
                                      .gridDimZ = 1,
                                      .blockDimX = 8,
                                      .blockDimY = 1,
                                      .blockDimZ = 1,
                                      .extra = extra};
    CUgraphNode node = NULL;
    CUgraph g = NULL;

    NEED(cuMemAlloc(&packed.p, 64));
    NEED(cuGraphCreate(&g, 0));
    OK("exact", cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, extra));
    cf_true("right", cf_filled(packed.p, 8, 3));
    size = sizeof(packed);
    RC("padded", cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, extra),
       CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    size = 12;
    RC("short", cuLaunchKernel(f, 1, 1, 1, 8, 1, 1, 0, NULL, NULL, extra),
       CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    if (!cf_real()) /* not in the reports */
        RC("node", cuGraphAddKernelNode(&node, g, NULL, 0, &params), CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
    size = 16;
    OK("node_exact", cuGraphAddKernelNode(&node, g, NULL, 0, &params));
    OK("sync", cuCtxSynchronize());
    NEED(cuGraphDestroy(g));
    NEED(cuMemFree(packed.p));
}

/* A refused launch is reported by its own call and no later call. */
CASE(report_refused_launch, CF_CTX)
{
    CUfunction f = cf_func("k_nop");

    RC("block", cuLaunchKernel(f, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("product", cuLaunchKernel(f, 1, 1, 1, 64, 64, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("depth", cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("grid_y", cuLaunchKernel(f, 1, 65536, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("nothing", cuLaunchKernel(f, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuCtxSynchronize());
    OK("largest", cuLaunchKernel(f, 1, 1, 1, 1024, 1, 1, 0, NULL, NULL, NULL));
    OK("sync_again", cuCtxSynchronize());
}

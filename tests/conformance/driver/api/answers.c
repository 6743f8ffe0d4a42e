// SPDX-License-Identifier: MIT
/* Results that programs rely on, from reports of NVIDIA's driver and from the manual. */
#include "conform.h"

#include <sys/mman.h>

/* Outputs that may be NULL. */
CASE(answers_null, CF_CTX)
{
    size_t free_bytes = 0, total = 0;
    const char *name = "";
    CUfunction f = cf_func("k_fill");
    void *p = &p;

    OK("total_alone", cuMemGetInfo(NULL, &total));
    cf_true("total", total > 0);
    OK("free_alone", cuMemGetInfo(&free_bytes, NULL));
    cf_true("free", free_bytes > 0 && free_bytes <= total);
    OK("neither", cuMemGetInfo(NULL, NULL));
    RC("name_of_none", cuFuncGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("name_of_no_kernel", cuKernelGetName(&name, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("name_to_none", cuFuncGetName(NULL, f), CUDA_ERROR_INVALID_VALUE);
    OK("no_bytes", cuMemHostAlloc(&p, 0, 0));
    cf_true("no_memory", p == NULL);
    OK("no_bytes_old", cuMemAllocHost(&p, 0));
    OK("free_none", cuMemFreeHost(p));
}

/* lupinemachines/lupine#605: probed on driver 590.48. */
CASE(answers_unregister, CF_CTX)
{
    char *m = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr p = 0;
    void *h = NULL;

    cf_need_true("mmap", m != MAP_FAILED);
    NEED(cuMemHostRegister(m, 16384, 0));
    RC("inside", cuMemHostUnregister(m + 4096), CUDA_ERROR_INVALID_VALUE);
    RC("outside", cuMemHostUnregister(m + 65536), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK("begin", cuMemHostUnregister(m));
    RC("again", cuMemHostUnregister(m), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    NEED(cuMemAlloc(&p, 16384));
    NEED(cuMemHostRegister(m + 4096, 8192, 0));
    OK("copy_whole", cuMemcpyHtoD(p, m + 4096, 8192));
    RC("copy_out_of", cuMemcpyHtoD(p, m + 4096 + 8000, 400), CUDA_ERROR_INVALID_VALUE);
    OK("copy_into", cuMemcpyHtoD(p, m + 4096 - 100, 200)); /* only its start counts (580) */
    RC("back_out_of", cuMemcpyDtoH(m + 4096 + 8000, p, 400), CUDA_ERROR_INVALID_VALUE);
    OK("copy_before", cuMemcpyHtoD(p, m, 4096));
    OK("copy_behind", cuMemcpyHtoD(p, m + 4096 + 8192, 4096));
    OK("unregister", cuMemHostUnregister(m + 4096));
    OK("copy_any", cuMemcpyHtoD(p, m + 4000, 400));
    OK("free_device", cuMemFree(p));
    NEED(cuMemHostAlloc(&h, 4096, 0));
    RC("allocated", cuMemHostUnregister(h), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFreeHost(h));
    munmap(m, 1 << 20);
}

/* A released primary context is invalid, although it stays current (driver 590.48). */
CASE(answers_reset, CF_ALONE)
{
    CUcontext before = NULL, after = NULL;
    unsigned version = 0;

    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&before, 0));
    NEED(cuCtxSetCurrent(before));
    OK("version", cuCtxGetApiVersion(before, &version));
    OK("reset", cuDevicePrimaryCtxReset(0));
    RC("version_after", cuCtxGetApiVersion(before, &version), CUDA_ERROR_INVALID_CONTEXT);
    OK("current", cuCtxGetCurrent(&after));
    cf_true("stays_current", after == before);
    OK("again", cuDevicePrimaryCtxRetain(&after, 0));
    OK("version_again", cuCtxGetApiVersion(after, &version));
}

/* A copy into an executable graph keeps the memory types of the node. */
CASE(answers_exec_copy, CF_CTX)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .WidthInBytes = 64,
                       .Height = 1,
                       .Depth = 1};
    char bytes[128] = {0};
    CUcontext ctx = NULL;
    CUgraphExec x = NULL;
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    CUgraphNode n;

    NEED(cuCtxGetCurrent(&ctx));
    NEED(cuMemAlloc(&p, 256));
    c.srcHost = bytes;
    c.dstDevice = p;
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, ctx));
    NEED(cuGraphInstantiate(&x, g, 0));
    c.srcHost = bytes + 64;
    c.dstDevice = p + 64;
    OK("same", cuGraphExecMemcpyNodeSetParams(x, n, &c, ctx));
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = p + 128;
    RC("from_device", cuGraphExecMemcpyNodeSetParams(x, n, &c, ctx), CUDA_ERROR_INVALID_VALUE);
    c.srcMemoryType = CU_MEMORYTYPE_HOST;
    c.dstMemoryType = CU_MEMORYTYPE_HOST;
    c.dstHost = bytes;
    RC("to_host", cuGraphExecMemcpyNodeSetParams(x, n, &c, ctx), CUDA_ERROR_INVALID_VALUE);
    OK("launch", cuGraphLaunch(x, NULL));
    OK("sync", cuCtxSynchronize());
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
    OK("free", cuMemFree(p));
}

/* Calls forbidden during a capture invalidate it. */
CASE(answers_capture, CF_CTX)
{
    CUmemcpyAttributes at = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    CUdeviceptr p = 0, from;
    size_t n = 16, first = 0;
    CUgraph g = NULL;
    CUstream s;
    CUevent e;

    NEED(cuMemAlloc(&p, 64));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    from = p + 32;
    OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("batch", cuMemcpyBatchAsync(&p, &from, &n, 1, &at, &first, 1, s),
       CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    OK("batch_end", cuStreamEndCapture(s, &g)); /* the capture continues */
    OK("destroy_graph", cuGraphDestroy(g));
    for (int wait = 0; wait < 2; wait++) {
        OK("begin_event", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK("record", cuEventRecord(e, s));
        RC(wait ? "wait" : "query", wait ? cuEventSynchronize(e) : cuEventQuery(e),
           CUDA_ERROR_CAPTURED_EVENT);
        RC("end_event", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    OK("after", cuMemcpyBatchAsync(&p, &from, &n, 1, &at, &first, 1, s));
    OK("sync", cuStreamSynchronize(s));
    OK("destroy_event", cuEventDestroy(e));
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(p));
}

static uint64_t reserved(CUmemoryPool pool)
{
    cuuint64_t v = 0;

    NEED(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &v));
    return v;
}

/* Freed memory stays with the pool until the next wait, and beyond that up to the threshold. */
CASE(answers_threshold, CF_CTX)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    cuuint64_t threshold = UINT64_MAX;
    CUmemoryPool pool = NULL;
    CUdeviceptr p = 0;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemPoolCreate(&pool, &props));
    for (int kept = 0; kept < 2; kept++) {
        if (kept)
            OK("threshold", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
        OK("alloc", cuMemAllocFromPoolAsync(&p, 4 << 20, pool, s));
        OK("alloc_sync", cuStreamSynchronize(s));
        cf_true("reserved", reserved(pool) >= 4 << 20);
        OK("free", cuMemFreeAsync(p, s));
        OK("free_sync", cuStreamSynchronize(s));
        cf_true(kept ? "kept" : "released", kept ? reserved(pool) >= 4 << 20 : reserved(pool) == 0);
    }
    OK("trim", cuMemPoolTrimTo(pool, 0));
    cf_u64("trimmed", reserved(pool), 0);
    OK("pool_destroy", cuMemPoolDestroy(pool));
    OK("destroy", cuStreamDestroy(s));
}

/*
 * Invalid images and PTX with an error give different results, and the linker reports an invalid
 * input at once.
 */
CASE(answers_images, CF_CTX)
{
#define TOP ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry k()\n{\n"
    static const char bad[] = TOP "bogus;\nret;\n}\n";
    char log[256] = "";
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)sizeof(log)};
    CUlinkState l = NULL;
    CUmodule m;

    RC("target_first", cuModuleLoadData(&m, ".target sm_75\n.version 7.0\n.address_size 64\n"),
       CUDA_ERROR_INVALID_IMAGE);
    RC("blank", cuModuleLoadData(&m, " \n"), CUDA_ERROR_INVALID_IMAGE);
    RC("error", cuModuleLoadData(&m, TOP "ret }\n"), CUDA_ERROR_INVALID_PTX);
    OK("comment_first", cuModuleLoadData(&m, "// text\n" TOP "ret;\n}\n"));
    OK("unload", cuModuleUnload(m));
    NEED(cuLinkCreate(2, option, value, &l));
    RC("input", cuLinkAddData(l, CU_JIT_INPUT_PTX, (void *)(uintptr_t)bad, sizeof(bad), "bad", 0, NULL, NULL),
       CUDA_ERROR_INVALID_PTX);
    cf_true("log", strstr(log, "bogus") != NULL);
    OK("end", cuLinkDestroy(l));
}

// SPDX-License-Identifier: MIT
/*
 * Settings of functions, nodes, streams, events and pools compared with the behaviour of later
 * calls. attributes.tsv lists every attribute of cuda.h with the case that observes its effect.
 */
#include "effects.h"

/* ---- launches ---- */

/* A launch of a kernel, and of the function obtained from it, uses the attributes of the kernel. */
CASE(effect_kernel_shared, CF_CTX)
{
    const int optin = device_attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    CUlibrary lib = NULL;
    CUkernel k = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    unsigned n = 64;
    void *params[] = {&p, &n};

    NEED(cuMemAlloc(&p, 256));
    NEED(cuLibraryLoadData(&lib, cf_fatbin, NULL, NULL, 0, NULL, NULL, 0));
    NEED(cuLibraryGetKernel(&k, lib, "k_reverse"));
    NEED(cuKernelGetFunction(&f, k));
    RC("kernel_before", cf_launch((CUfunction)(void *)k, 1, 64, (unsigned)optin, NULL, params),
       CUDA_ERROR_INVALID_VALUE);
    RC("function_before", cf_launch(f, 1, 64, (unsigned)optin, NULL, params), CUDA_ERROR_INVALID_VALUE);
    OK("set", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin, k, 0));
    OK("kernel_after", cf_launch((CUfunction)(void *)k, 1, 64, (unsigned)optin, NULL, params));
    OK("function_after", cf_launch(f, 1, 64, (unsigned)optin, NULL, params));
    OK("sync", cuCtxSynchronize());
    NEED(cuLibraryUnload(lib));
    NEED(cuMemFree(p));
}

static const char limits_text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                                  ".visible .entry few() .maxntid 64, 1, 1 { ret; }\n"
                                  ".visible .entry exact() .reqntid 32, 2, 1 { ret; }\n";

/* Block limits in a kernel's PTX apply to every launch. */
CASE(effect_function_threads, CF_CTX)
{
    CUfunction few = NULL, exact = NULL;
    CUmodule m = NULL;
    int v = 0;

    NEED(cuModuleLoadData(&m, limits_text));
    NEED(cuModuleGetFunction(&few, m, "few"));
    NEED(cuModuleGetFunction(&exact, m, "exact"));
    OK("get", cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, few));
    cf_u64("value", (uint64_t)v, 64);
    OK("at", cf_launch(few, 1, 64, 0, NULL, NULL));
    RC("over", cf_launch(few, 1, 65, 0, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("exact", cuLaunchKernel(exact, 1, 1, 1, 32, 2, 1, 0, NULL, NULL, NULL));
    OK("sync", cuCtxSynchronize());
    NEED(cuModuleUnload(m));
}

/* ---- nodes and streams ---- */

static CUresult set_cooperative(CUgraphNode node, int on)
{
    const CUkernelNodeAttrValue v = {.cooperative = on};

    return cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v);
}

static CUresult launch_cooperative(unsigned grid)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value.cooperative = 1};
    const CUlaunchConfig c = {.gridDimX = grid,
                              .gridDimY = 1,
                              .gridDimZ = 1,
                              .blockDimX = 64,
                              .blockDimY = 1,
                              .blockDimZ = 1,
                              .attrs = &a,
                              .numAttrs = 1};

    return cuLaunchKernelEx(&c, cf_func("k_nop"), NULL, NULL);
}

/* A grid that cannot run all at once is refused by every way to make it cooperative. */
CASE(effect_cooperative, CF_CTX)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = cf_func("k_nop"),
                                 .gridDimX = 100000,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 64,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUkernelNodeAttrValue v = {.cooperative = 9};
    CUgraphNode large = NULL, small = NULL;
    CUgraph g = NULL;

    cf_true("attribute", device_attribute(CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH) == 1);
    OK("launch", launch_cooperative(1));
    RC("launch_large", launch_cooperative(100000), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&large, g, NULL, 0, &p));
    p.gridDimX = 1;
    NEED(cuGraphAddKernelNode(&small, g, NULL, 0, &p));
    RC("node_large", set_cooperative(large, 1), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK("node", set_cooperative(small, 1));
    OK("get_large", cuGraphKernelNodeGetAttribute(large, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    cf_u64("large_value", (uint64_t)v.cooperative, 0);
    OK("get", cuGraphKernelNodeGetAttribute(small, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &v));
    cf_u64("value", (uint64_t)v.cooperative, 1);
    RC("copied", cuGraphKernelNodeCopyAttributes(large, small), CUDA_ERROR_INVALID_VALUE);
    p.gridDimX = 100000;
    RC("grown", cuGraphKernelNodeSetParams(small, &p), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK("sync", cuCtxSynchronize());
    NEED(cuGraphDestroy(g));
}

/* Hints read back as set, from nodes and from copies. */
CASE(effect_node_hints, CF_CTX)
{
    CUDA_KERNEL_NODE_PARAMS p = {.func = cf_func("k_nop"),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 1,
                                 .blockDimY = 1,
                                 .blockDimZ = 1};
    CUkernelNodeAttrValue v = {.priority = -1}, got;
    CUgraphNode a = NULL, b = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddKernelNode(&a, g, NULL, 0, &p));
    NEED(cuGraphAddKernelNode(&b, g, NULL, 0, &p));
    OK("set", cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    v.sharedMemCarveout = 50;
    OK("carveout",
       cuGraphKernelNodeSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &v));
    OK("copy", cuGraphKernelNodeCopyAttributes(b, a));
    OK("get", cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
    cf_true("value", got.priority == -1);
    OK("get_2", cuGraphKernelNodeGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &got));
    cf_true("value_2", got.sharedMemCarveout == 50);
    NEED(cuGraphDestroy(g));
}

CASE(effect_stream_attributes, CF_CTX)
{
    CUstreamAttrValue v = {.priority = -1}, got;
    CUstream a = NULL, b = NULL;
    int priority = 9, least = 9, greatest = 9;

    NEED(cuCtxGetStreamPriorityRange(&least, &greatest));
    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK("set", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK("get", cuStreamGetPriority(a, &priority));
    cf_true("seen", priority == -1);
    OK("copy", cuStreamCopyAttributes(b, a));
    OK("get_copy", cuStreamGetPriority(b, &priority));
    cf_true("copy_seen", priority == -1);
    v.priority = greatest - 1;
    OK("too_great", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v)); /* clamped */
    v.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    OK("policy", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    OK("get_policy", cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    cf_true("policy_value", got.syncPolicy == CU_SYNC_POLICY_BLOCKING_SYNC);
    v.syncPolicy = (CUsynchronizationPolicy)99;
    RC("policy_wrong", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v),
       CUDA_ERROR_INVALID_VALUE);
    memset(&v, 0, sizeof(v));
    v.accessPolicyWindow.num_bytes =
        (size_t)device_attribute(CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE) + 1;
    RC("window_over", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &v),
       CUDA_ERROR_INVALID_VALUE);
    v.accessPolicyWindow.num_bytes--;
    OK("window_at", cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, &v));
    NEED(cuStreamDestroy(a));
    NEED(cuStreamDestroy(b));
}

/* In a capture an external record is a node of the graph, an ordinary record is not. */
CASE(effect_event_external, CF_CTX)
{
    CUstream s = NULL;
    CUevent e = NULL;
    CUgraph g = NULL;
    size_t n = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    for (unsigned external = 0; external < 2; external++) {
        /* An event for a captured record cannot be waited for otherwise. */
        NEED(cuEventRecord(e, s));
        NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
        OK("record",
           cuEventRecordWithFlags(e, s, external ? CU_EVENT_RECORD_EXTERNAL : CU_EVENT_RECORD_DEFAULT));
        OK("wait", cuStreamWaitEvent(s, e, external ? CU_EVENT_WAIT_EXTERNAL : CU_EVENT_WAIT_DEFAULT));
        NEED(cuStreamEndCapture(s, &g));
        OK("nodes", cuGraphGetNodes(g, NULL, &n));
        cf_u64("nodes_value", n, external ? 2 : 0);
        NEED(cuGraphDestroy(g));
    }
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("captured", cuEventRecord(e, s));
    NEED(cuStreamEndCapture(s, &g));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("captured_record", cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL));
    RC("captured_wait", cuStreamWaitEvent(s, e, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    RC("captured_end", cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    /* Outside of a capture the flags are refused by the call itself, not by a later call. */
    RC("record_outside", cuEventRecordWithFlags(e, s, CU_EVENT_RECORD_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    OK("record_outside_sync", cuStreamSynchronize(s));
    RC("wait_outside", cuStreamWaitEvent(s, e, CU_EVENT_WAIT_EXTERNAL), CUDA_ERROR_INVALID_VALUE);
    OK("wait_outside_sync", cuStreamSynchronize(s));
    RC("record_flags", cuEventRecordWithFlags(e, s, 2), CUDA_ERROR_INVALID_VALUE);
    RC("wait_flags", cuStreamWaitEvent(s, e, 2), CUDA_ERROR_INVALID_VALUE);
    NEED(cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
}

/* ---- memory ---- */

static uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute a)
{
    cuuint64_t v = 99;

    NEED(cuMemPoolGetAttribute(pool, a, &v));
    return v;
}

/* Freed memory stays with the pool up to the threshold; the high-water marks follow. */
CASE(effect_pool_threshold, CF_CTX)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemoryPool pool = NULL;
    cuuint64_t threshold = UINT64_MAX, zero = 0;
    CUdeviceptr p = 0;

    NEED(cuMemPoolCreate(&pool, &props));
    for (unsigned keep = 0; keep < 2; keep++) {
        threshold = keep ? UINT64_MAX : 0;
        OK("set", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
        NEED(cuMemAllocFromPoolAsync(&p, 4u << 20, pool, NULL));
        NEED(cuMemFreeAsync(p, NULL));
        NEED(cuStreamSynchronize(NULL));
        cf_u64("used", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
        cf_true("reserved",
                (pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 4u << 20) == (keep == 1));
        cf_true("high", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH) >= 4u << 20);
    }
    OK("trim", cuMemPoolTrimTo(pool, 0));
    cf_u64("trimmed", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK("reset", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &zero));
    cf_u64("high_reset", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), 0);
    OK("reset_used", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    cf_u64("used_reset", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    for (int a = CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES;
         a <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES; a++) {
        int off = 0, got = 9;

        OK("reuse", cuMemPoolSetAttribute(pool, (CUmemPool_attribute)a, &off));
        NEED(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)a, &got));
        cf_u64("reuse_value", (uint64_t)got, 0);
    }
    NEED(cuMemPoolDestroy(pool));
}

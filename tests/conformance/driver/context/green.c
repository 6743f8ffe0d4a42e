// SPDX-License-Identifier: MIT
/* Multiprocessors as a resource, and green contexts that own some of them. */
#include "conform.h"

#define SM CU_DEV_RESOURCE_TYPE_SM
#define FINE CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
#define DEFAULT CU_GREEN_CTX_DEFAULT_STREAM
#define BLOCKS 64u

static CUdevResource all_sms(void)
{
    CUdevResource r;

    NEED(cuDeviceGetDevResource(0, &r, SM));
    return r;
}

/* Creates a green context with the smallest possible group of multiprocessors. */
static CUgreenCtx green_new(CUdevResource *part)
{
    CUdevResource all = all_sms(), one;
    CUdevResourceDesc d;
    CUgreenCtx g = NULL;
    unsigned n = 1;

    NEED(cuDevSmResourceSplitByCount(&one, &n, &all, NULL, FINE, 1));
    NEED(cuDevResourceGenerateDesc(&d, &one, 1));
    NEED(cuGreenCtxCreate(&g, d, 0, DEFAULT));
    if (part)
        *part = one;
    return g;
}

static CUcontext converted(CUgreenCtx g)
{
    CUcontext c = NULL;

    NEED(cuCtxFromGreenCtx(&c, g));
    return c;
}

CASE(green_resource, CF_CTX)
{
    CUdevResource r, again;
    CUcontext c = NULL;
    int sms = 0;

    RC("device", cuDeviceGetDevResource(99, &r, SM), CUDA_ERROR_INVALID_DEVICE);
    RC("null", cuDeviceGetDevResource(0, NULL, SM), CUDA_ERROR_INVALID_VALUE);
    RC("type", cuDeviceGetDevResource(0, &r, (CUdevResourceType)77), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    RC("context_null", cuCtxGetDevResource(NULL, NULL, SM), CUDA_ERROR_INVALID_VALUE);
    RC("context_type", cuCtxGetDevResource(NULL, &r, CU_DEV_RESOURCE_TYPE_INVALID),
       CUDA_ERROR_INVALID_RESOURCE_TYPE);
    NEED(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    OK("of_device", cuDeviceGetDevResource(0, &r, SM));
    cf_u64("kind", r.type, SM);
    cf_true("count", r.sm.smCount == (unsigned)sms);
    cf_true("minimum", r.sm.minSmPartitionSize > 0 && r.sm.minSmPartitionSize <= r.sm.smCount);
    cf_true("alignment", r.sm.smCoscheduledAlignment > 0);
    RC("of_no_context", cuCtxGetDevResource(NULL, &again, SM), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxGetCurrent(&c));
    OK("of_context", cuCtxGetDevResource(c, &again, SM));
    cf_true("of_context_count", again.sm.smCount == r.sm.smCount);
}

/*
 * Memory freed in the default stream of a green context is not reused in that of the primary
 * context: neither stream waits for the other.
 */
CASE(green_pool, CF_CTX)
{
    CUgreenCtx g = green_new(NULL);
    CUcontext primary = NULL;
    CUstream other = NULL;
    CUdeviceptr flag = 0, p = 0, q = 0;

    NEED(cuCtxGetCurrent(&primary));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&flag, 4));
    NEED(cuMemsetD32(flag, 0, 1));
    NEED(cuCtxSetCurrent(converted(g)));
    NEED(cuMemAllocAsync(&p, 4096, NULL));
    NEED(cf_fill(p, 1024, 2, NULL)); /* a kernel's first launch waits for streams that wait */
    NEED(cuCtxSynchronize());
    OK("wait", cuStreamWaitValue32(NULL, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK("fill", cf_fill(p, 1024, 3, NULL));
    OK("free", cuMemFreeAsync(p, NULL));
    NEED(cuCtxSetCurrent(primary));
    OK("alloc", cuMemAllocAsync(&q, 4096, NULL));
    cf_true("another", p != q);
    OK("go", cuStreamWriteValue32(other, flag, 1, 0));
    OK("free_q", cuMemFreeAsync(q, NULL));
    OK("complete", cuCtxSynchronize());
    OK("destroy", cuGreenCtxDestroy(g));
    OK("free_flag", cuMemFree(flag));
    OK("destroy_other", cuStreamDestroy(other));
}

CASE(green_split, CF_CTX)
{
    CUdevResource all = all_sms(), part[2], left, zero = {0};
    unsigned n = 0, whole, size;

    OK("how_many", cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, 0, 0));
    cf_true("how_many_fit", n >= 1 && n * all.sm.minSmPartitionSize <= all.sm.smCount);
    n = 1;
    OK("one", cuDevSmResourceSplitByCount(part, &n, &all, &left, 0, 0));
    cf_u64("one_group", n, 1);
    cf_u64("kind", part[0].type, SM);
    size = part[0].sm.smCount;
    cf_true("size", size >= all.sm.minSmPartitionSize && size % all.sm.smCoscheduledAlignment == 0);
    cf_true("rest", size == all.sm.smCount ? left.type == CU_DEV_RESOURCE_TYPE_INVALID
                                           : left.sm.smCount == all.sm.smCount - size);
    n = 1;
    OK("all", cuDevSmResourceSplitByCount(part, &n, &all, NULL, FINE, all.sm.smCount));
    cf_true("all_count", n == 1 && part[0].sm.smCount == all.sm.smCount);
    n = 1;
    RC("too_many", cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, all.sm.smCount + 1),
       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    n = 0;
    RC("no_room", cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, 1), CUDA_ERROR_INVALID_VALUE);
    n = 1;
    RC("null", cuDevSmResourceSplitByCount(part, NULL, &all, NULL, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RC("input_null", cuDevSmResourceSplitByCount(part, &n, NULL, NULL, 0, 1), CUDA_ERROR_INVALID_VALUE);
    OK("flags", cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0x80, 1)); /* ignored */
    RC("type", cuDevSmResourceSplitByCount(part, &n, &zero, NULL, 0, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    n = 1;
    OK("part", cuDevSmResourceSplitByCount(part, &n, &all, NULL, FINE, 1));
    n = 1;
    RC("again", cuDevSmResourceSplitByCount(&part[1], &n, &part[0], NULL, FINE, 1),
       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    whole = 0;
    OK("how_many_fine", cuDevSmResourceSplitByCount(NULL, &whole, &all, NULL, FINE, 1));
    if (whole < 2)
        return; /* there is only a single group */
    n = 2;
    OK("two", cuDevSmResourceSplitByCount(part, &n, &all, NULL, FINE, 1));
    cf_u64("two_groups", n, 2);
    cf_true("symmetrical", part[0].sm.smCount == part[1].sm.smCount);
}

CASE(green_describe, CF_CTX)
{
    CUdevResource all = all_sms(), a[2], b, zero = {0};
    CUdevResourceDesc d = NULL, e = NULL;
    unsigned n = 2;

    RC("null", cuDevResourceGenerateDesc(NULL, &all, 1), CUDA_ERROR_INVALID_VALUE);
    RC("resources_null", cuDevResourceGenerateDesc(&d, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a physical GPU's driver reads a group all the same */
        RC("none", cuDevResourceGenerateDesc(&d, &all, 0), CUDA_ERROR_INVALID_VALUE);
    RC("type", cuDevResourceGenerateDesc(&d, &zero, 1), CUDA_ERROR_INVALID_RESOURCE_TYPE);
    OK("all", cuDevResourceGenerateDesc(&d, &all, 1));
    OK("again", cuDevResourceGenerateDesc(&e, &all, 1));
    cf_true("own", d != e);
    NEED(cuDevSmResourceSplitByCount(a, &n, &all, NULL, FINE, 1));
    if (n < 2)
        return;
    OK("both", cuDevResourceGenerateDesc(&d, a, 2));
    n = 1;
    NEED(cuDevSmResourceSplitByCount(&b, &n, &all, NULL, FINE, 1));
    a[1] = b;
    RC("different_splits", cuDevResourceGenerateDesc(&d, a, 2), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
}

/* Forged: a driver dereferences the pointers in it. */
CASE(green_forged, CF_CTX | CF_UB)
{
    CUdevResource all = all_sms(), r, part;
    CUdevResourceDesc d = NULL;
    CUgreenCtx g = NULL;
    unsigned n = 1;

    r = all;
    memset(r._internal_padding, 0, sizeof(r._internal_padding));
    RC("split", cuDevSmResourceSplitByCount(&part, &n, &r, NULL, 0, 1),
       CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    RC("describe", cuDevResourceGenerateDesc(&d, &r, 1), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    r = all;
    r.sm.smCount += 2;
    RC("larger", cuDevResourceGenerateDesc(&d, &r, 1), CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    RC("create", cuGreenCtxCreate(&g, (CUdevResourceDesc)&r, 0, DEFAULT), CUDA_ERROR_INVALID_VALUE);
}

CASE(green_create, CF_CTX | CF_UB)
{
    CUdevResource all = all_sms(), r;
    unsigned long long id = 0, other = 0, of_context = 0;
    CUdevResourceDesc d = NULL;
    CUgreenCtx g = NULL, h = NULL, bad = (CUgreenCtx)&all;
    CUcontext c = NULL;
    CUstream s = NULL;
    CUevent e = NULL;
    CUdevice dev = 9;

    NEED(cuEventCreate(&e, 0));
    NEED(cuDevResourceGenerateDesc(&d, &all, 1));
    RC("null", cuGreenCtxCreate(NULL, d, 0, DEFAULT), CUDA_ERROR_INVALID_VALUE);
    RC("no_descriptor", cuGreenCtxCreate(&g, NULL, 0, DEFAULT), CUDA_ERROR_INVALID_VALUE);
    RC("device", cuGreenCtxCreate(&g, d, 99, DEFAULT), CUDA_ERROR_INVALID_DEVICE);
    RC("flags", cuGreenCtxCreate(&g, d, 0, 0), CUDA_ERROR_INVALID_VALUE);
    OK("create", cuGreenCtxCreate(&g, d, 0, DEFAULT));
    OK("create_2", cuGreenCtxCreate(&h, d, 0, DEFAULT));
    cf_true("two", g && h && g != h);
    OK("convert", cuCtxFromGreenCtx(&c, g));
    cf_true("another", c != NULL && c != converted(h));
    cf_true("the_same", c == converted(g));
    OK("resource", cuGreenCtxGetDevResource(g, &r, SM));
    cf_true("resource_count", r.sm.smCount == all.sm.smCount);
    OK("context_resource", cuCtxGetDevResource(c, &r, SM));
    cf_true("context_resource_count", r.sm.smCount == all.sm.smCount);
    OK("id", cuGreenCtxGetId(g, &id));
    OK("id_2", cuGreenCtxGetId(h, &other));
    OK("id_context", cuCtxGetId(NULL, &of_context));
    cf_true("ids", id != other && id != of_context);
    OK("context_device", cuCtxGetDevice_v2(&dev, c));
    cf_u64("context_device_0", (uint64_t)dev, 0);
    RC("not_current", cuGreenCtxGetId(NULL, &id), CUDA_ERROR_INVALID_CONTEXT);
    RC("unconverted", cuCtxPushCurrent((CUcontext)g), CUDA_ERROR_INVALID_CONTEXT);
    RC("destroy_context", cuCtxDestroy(c), CUDA_ERROR_INVALID_CONTEXT);

    RC("convert_null", cuCtxFromGreenCtx(NULL, g), CUDA_ERROR_INVALID_VALUE);
    RC("convert_bad", cuCtxFromGreenCtx(&c, bad), CUDA_ERROR_INVALID_CONTEXT);
    RC("resource_null", cuGreenCtxGetDevResource(g, NULL, SM), CUDA_ERROR_INVALID_VALUE);
    RC("resource_type", cuGreenCtxGetDevResource(g, &r, (CUdevResourceType)9),
       CUDA_ERROR_INVALID_RESOURCE_TYPE);
    RC("resource_bad", cuGreenCtxGetDevResource(bad, &r, SM), CUDA_ERROR_INVALID_CONTEXT);
    RC("record_bad", cuGreenCtxRecordEvent(bad, e), CUDA_ERROR_INVALID_CONTEXT);
    RC("record_event", cuGreenCtxRecordEvent(g, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("wait_bad", cuGreenCtxWaitEvent(bad, e), CUDA_ERROR_INVALID_CONTEXT);
    RC("wait_event", cuGreenCtxWaitEvent(g, NULL), CUDA_ERROR_INVALID_HANDLE);
    RC("stream_bad", cuGreenCtxStreamCreate(&s, bad, CU_STREAM_NON_BLOCKING, 0), CUDA_ERROR_INVALID_CONTEXT);
    RC("stream_null", cuGreenCtxStreamCreate(NULL, g, CU_STREAM_NON_BLOCKING, 0), CUDA_ERROR_INVALID_VALUE);
    RC("stream_flags", cuGreenCtxStreamCreate(&s, g, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("id_bad", cuGreenCtxGetId(bad, &id), CUDA_ERROR_INVALID_CONTEXT);
    RC("id_null", cuGreenCtxGetId(g, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("destroy_bad", cuGreenCtxDestroy(bad), CUDA_ERROR_INVALID_CONTEXT);
    OK("destroy", cuGreenCtxDestroy(g));
    RC("destroy_again", cuGreenCtxDestroy(g), CUDA_ERROR_INVALID_CONTEXT);
    OK("destroy_2", cuGreenCtxDestroy(h));
    NEED(cuEventDestroy(e));
}

/* Memory, modules and events belong to the primary context; streams to the green context. */
CASE(green_current, CF_CTX)
{
    unsigned long long id = 0, now_id = 0, ctx_id = 0;
    CUgreenCtx g = green_new(NULL), of = NULL;
    CUcontext primary = NULL, c = converted(g), now = NULL;
    CUstream s = NULL, plain = NULL, own = NULL;
    CUdeviceptr p = 0, q = 0;
    CUevent e = NULL;
    CUfunction fill = cf_func("k_fill");

    NEED(cuCtxGetCurrent(&primary));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    OK("push", cuCtxPushCurrent(c));
    OK("current", cuCtxGetCurrent(&now));
    cf_true("current_is", now == c && now != primary);
    OK("id", cuGreenCtxGetId(NULL, &now_id));
    OK("id_green", cuGreenCtxGetId(g, &id));
    cf_true("id_same", id == now_id);
    OK("context_id", cuCtxGetId(NULL, &ctx_id));
    OK("alloc", cuMemAlloc(&q, 4096));
    OK("event", cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("stream", cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
    OK("function", cf_launch(fill, 1, 256, 0, own, (void *[]){&p, &(unsigned){1024}, &(unsigned){5}}));
    OK("record", cuEventRecord(e, own));
    OK("default_stream", cf_fill(q, 1024, 9, NULL));
    OK("synchronize", cuCtxSynchronize());
    OK("query", cuEventQuery(e));
    OK("of_stream", cuStreamGetGreenCtx(own, &of));
    cf_true("of_stream_is", of == g);
    OK("of_default", cuStreamGetGreenCtx(NULL, &of));
    cf_true("of_default_is", of == g);
    OK("contexts", cuStreamGetCtx_v2(own, &now, &of));
    cf_true("contexts_are", now == primary && of == g);
    OK("context", cuStreamGetCtx(own, &now));
    cf_true("context_is", now == c);
    OK("of_plain", cuStreamGetGreenCtx(plain, &of));
    cf_true("of_plain_none", of == NULL);
    RC("per_thread", cuStreamGetCtx_v2(CU_STREAM_PER_THREAD, &now, &of), CUDA_ERROR_INVALID_HANDLE);
    OK("pop", cuCtxPopCurrent(&now));
    cf_true("pop_is", now == c);

    cf_true("memory_is_shared", cf_filled(q, 1024, 9));
    OK("create", cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    OK("launch", cf_fill(q, 1024, 3, s));
    OK("wait", cuStreamWaitEvent(s, e, 0));
    OK("stream_synchronize", cuStreamSynchronize(s));
    cf_true("ran", cf_filled(q, 1024, 3));
    OK("stream_contexts", cuStreamGetCtx_v2(s, &now, &of));
    cf_true("stream_contexts_are", now == primary && of == g);
    OK("destroy_stream", cuStreamDestroy(s));
    OK("destroy_own", cuStreamDestroy(own));
    OK("destroy", cuGreenCtxDestroy(g));
    OK("free", cuMemFree(q));
    OK("event_destroy", cuEventDestroy(e));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(plain));
}

/*
 * Blocks run only on multiprocessors of the green context, on all of them and at most that many at
 * once.
 */
CASE(green_where, CF_CTX)
{
    CUdevResource all = all_sms(), part;
    CUgreenCtx g = green_new(&part);
    CUcontext c = converted(g);
    unsigned at[BLOCKS + 1], places = 0, outside = 0;
    unsigned n = part.sm.smCount;
    int per_sm = 0, grid = 0, block = 0, whole = 0;
    bool seen[4096] = {false};
    CUfunction where = cf_func("k_where"), nop = cf_func("k_nop");
    CUdeviceptr p = 0;
    CUstream s = NULL;

    NEED(cuMemAlloc(&p, sizeof(at)));
    NEED(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    OK("launch", cf_launch(where, BLOCKS, 32, 0, s, (void *[]){&p}));
    OK("synchronize", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(at, p, sizeof(at)));
    for (unsigned i = 0; i < BLOCKS; i++) {
        outside += at[i] >= at[BLOCKS];
        if (at[i] < 4096 && !seen[at[i]]) {
            seen[at[i]] = true;
            places++;
        }
    }
    cf_u64("below_nsmid", outside, 0);
    cf_true("places", places >= 1 && places <= n);

    NEED(cuOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, nop, 1024, 0));
    OK("cooperative", cuLaunchCooperativeKernel(nop, (unsigned)per_sm * n, 1, 1, 1024, 1, 1, 0, s, NULL));
    if (n < all.sm.smCount)
        RC("cooperative_more",
           cuLaunchCooperativeKernel(nop, (unsigned)per_sm * n + 1, 1, 1, 1024, 1, 1, 0, s, NULL),
           CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    OK("cooperative_end", cuStreamSynchronize(s));
    NEED(cuOccupancyMaxPotentialBlockSize(&whole, &block, nop, NULL, 0, 0));
    NEED(cuCtxPushCurrent(c));
    OK("grid", cuOccupancyMaxPotentialBlockSize(&grid, &block, nop, NULL, 0, 0));
    NEED(cuCtxPopCurrent(&c));
    cf_true("grid_of_part", (unsigned)grid * all.sm.smCount == (unsigned)whole * n);
    NEED(cuStreamDestroy(s));
    NEED(cuGreenCtxDestroy(g));
    NEED(cuMemFree(p));
}

/* Events recorded for a whole green context, and for the whole primary context. */
CASE(green_event, CF_CTX)
{
    CUgreenCtx g = green_new(NULL), h = green_new(NULL);
    CUcontext primary = NULL, c = converted(g);
    CUstream s = NULL, other = NULL, late = NULL;
    struct cf_gate *gate;
    CUdeviceptr p = 0;
    CUevent e = NULL, f = NULL;

    NEED(cuCtxGetCurrent(&primary));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuEventCreate(&f, CU_EVENT_DISABLE_TIMING));
    NEED(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    NEED(cuGreenCtxStreamCreate(&other, h, CU_STREAM_NON_BLOCKING, 0));
    gate = cf_gate_put(s);
    OK("record", cuGreenCtxRecordEvent(g, e));
    RC("busy", cuEventQuery(e), CUDA_ERROR_NOT_READY);
    OK("record_other", cuGreenCtxRecordEvent(h, f));
    OK("not_the_other", cuEventSynchronize(f));
    OK("record_primary", cuCtxRecordEvent(primary, f));
    RC("primary_has_both", cuEventQuery(f), CUDA_ERROR_NOT_READY);
    NEED(cuCtxPushCurrent(converted(h)));
    OK("other_is_idle", cuCtxSynchronize());
    NEED(cuCtxPopCurrent(NULL));
    OK("wait", cuGreenCtxWaitEvent(h, e));
    OK("behind", cf_fill(p, 1024, 7, other));
    RC("waits", cuStreamQuery(other), CUDA_ERROR_NOT_READY);
    OK("new_stream", cuGreenCtxStreamCreate(&late, h, CU_STREAM_NON_BLOCKING, 0));
    OK("new_behind", cf_fill(p, 16, 7, late));
    RC("new_waits", cuStreamQuery(late), CUDA_ERROR_NOT_READY);
    cf_gate_open(gate);
    OK("synchronize", cuCtxSynchronize());
    OK("done", cuEventQuery(e));
    OK("done_primary", cuEventQuery(f));
    cf_true("filled", cf_filled(p, 1024, 7));
    OK("record_converted", cuCtxRecordEvent(c, e));
    OK("wait_converted", cuCtxWaitEvent(c, e));
    OK("ready", cuEventSynchronize(e));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(other));
    NEED(cuStreamDestroy(late));
    NEED(cuGreenCtxDestroy(g));
    NEED(cuGreenCtxDestroy(h));
    NEED(cuEventDestroy(e));
    NEED(cuEventDestroy(f));
    NEED(cuMemFree(p));
}

/*
 * The default stream of a green context synchronises with its blocking streams, not with those of
 * the primary context.
 */
CASE(green_default_stream, CF_CTX | CF_UB)
{
    CUgreenCtx g = green_new(NULL);
    CUcontext c = converted(g);
    CUstream blocking = NULL, plain = NULL;
    struct cf_gate *gate;
    CUdeviceptr p = 0;

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuStreamCreate(&plain, 0));
    NEED(cuCtxPushCurrent(c));
    NEED(cuStreamCreate(&blocking, 0));
    gate = cf_gate_put(blocking);
    OK("behind", cuMemsetD32Async(p, 5, 1024, NULL));
    RC("waits", cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    NEED(cuCtxPopCurrent(NULL));
    OK("primary", cuMemsetD32Async(p, 6, 16, plain));
    OK("primary_default", cuMemsetD32Async(p, 6, 16, NULL));
    OK("primary_is_free", cuStreamSynchronize(NULL));
    cf_gate_open(gate);
    NEED(cuCtxPushCurrent(c));
    OK("after", cuStreamSynchronize(NULL));
    NEED(cuStreamDestroy(blocking));
    NEED(cuCtxPopCurrent(NULL));
    NEED(cuStreamDestroy(plain));
    NEED(cuGreenCtxDestroy(g));
    NEED(cuMemFree(p));
}

CASE(green_graph, CF_CTX)
{
    CUdevResource part;
    CUgreenCtx g = green_new(&part);
    unsigned at[BLOCKS + 1], places = 0;
    bool seen[4096] = {false};
    CUdeviceptr p = 0;
    CUstream s = NULL, plain = NULL;
    CUgraph graph = NULL;
    CUgraphExec x = NULL;
    CUevent e = NULL;

    NEED(cuMemAlloc(&p, sizeof(at)));
    NEED(cuStreamCreate(&plain, CU_STREAM_NON_BLOCKING));
    NEED(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK("launch", cf_launch(cf_func("k_where"), BLOCKS, 32, 0, s, (void *[]){&p}));
    OK("end", cuStreamEndCapture(s, &graph));
    OK("instantiate", cuGraphInstantiate(&x, graph, 0));
    OK("run", cuGraphLaunch(x, s));
    OK("run_elsewhere", cuGraphLaunch(x, plain));
    OK("synchronize", cuStreamSynchronize(s));
    OK("synchronize_2", cuStreamSynchronize(plain));
    OK("read", cuMemcpyDtoH(at, p, sizeof(at)));
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (at[i] < 4096 && !seen[at[i]]) {
            seen[at[i]] = true;
            places++;
        }
    }
    cf_true("places", places >= 1 && places <= part.sm.smCount);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(graph));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("begin_again", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    RC("record", cuGreenCtxRecordEvent(g, e), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    RC("lost", cuStreamEndCapture(s, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    NEED(cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
    NEED(cuStreamDestroy(plain));
    NEED(cuGreenCtxDestroy(g));
    NEED(cuMemFree(p));
}

/* Streams of a destroyed green context are left as handles only. */
CASE(green_destroyed, CF_CTX | CF_UB)
{
    CUgreenCtx g = green_new(NULL), of = NULL;
    CUcontext c = converted(g), now = NULL;
    CUdeviceptr p = 0, q = 0;
    CUstream s = NULL;

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    NEED(cf_fill(p, 1024, 4, s));
    NEED(cuCtxPushCurrent(c));
    NEED(cuMemAlloc(&q, 4096));
    OK("destroy", cuGreenCtxDestroy(g));
    RC("current", cuMemAlloc(&q, 4096), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK("pop", cuCtxPopCurrent(&now));
    RC("push", cuCtxPushCurrent(c), CUDA_ERROR_INVALID_CONTEXT);
    RC("launch", cf_fill(p, 1024, 4, s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("copy", cuMemcpyDtoDAsync(p, p + 64, 64, s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("query", cuStreamQuery(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("synchronize", cuStreamSynchronize(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("of", cuStreamGetGreenCtx(s, &of), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("stream", cuStreamDestroy(s), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    cf_true("work_was_done", cf_filled(p, 1024, 4));
    OK("memory_stays", cuMemFree(q));
    NEED(cuMemFree(p));
}

/* A green context retains the primary context, but a reset ignores that. */
CASE(green_primary, CF_ALONE | CF_UB)
{
    CUcontext primary = NULL, c;
    CUdevResource all, r;
    CUdevResourceDesc d;
    unsigned flags = 0;
    int active = 0;
    CUgreenCtx g = NULL;
    CUstream s = NULL;

    NEED(cuInit(0));
    NEED(cuDeviceGetDevResource(0, &all, SM));
    NEED(cuDevResourceGenerateDesc(&d, &all, 1));
    OK("create", cuGreenCtxCreate(&g, d, 0, DEFAULT));
    OK("state", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("active", (uint64_t)active, 1);
    OK("retain", cuDevicePrimaryCtxRetain(&primary, 0));
    OK("release", cuDevicePrimaryCtxRelease(0));
    OK("still", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("still_active", (uint64_t)active, 1);
    OK("destroy", cuGreenCtxDestroy(g));
    OK("after", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("inactive", (uint64_t)active, 0);

    NEED(cuGreenCtxCreate(&g, d, 0, DEFAULT));
    c = converted(g);
    NEED(cuCtxPushCurrent(c));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("reset", cuDevicePrimaryCtxReset(0));
    RC("use", cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("resource", cuGreenCtxGetDevResource(g, &r, SM), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    NEED(cuDevicePrimaryCtxRetain(&primary, 0));
    RC("use_again", cuCtxSynchronize(), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    RC("gone", cuGreenCtxDestroy(g), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK("retained", cuDevicePrimaryCtxGetState(0, &flags, &active));
    cf_u64("retained_active", (uint64_t)active, 1);
    NEED(cuDevicePrimaryCtxRelease(0));
    NEED(cuCtxPopCurrent(&c));
}

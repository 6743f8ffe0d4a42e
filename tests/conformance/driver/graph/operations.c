// SPDX-License-Identifier: MIT
/*
 * Nodes of semaphores, of memory operations, and of copies of arrays: the refusals of each
 * addition, without effect on the graph.
 */
#include "graph/graph.h"
#include "stream/other_api.h"

/* A node of another graph, on which nodes of this graph cannot depend. */
static CUgraphNode foreign(CUgraph *other)
{
    CUgraphNode n = NULL;

    NEED(cuGraphCreate(other, 0));
    NEED(cuGraphAddEmptyNode(&n, *other, NULL, 0));
    return n;
}

CASE(gnode_semaphore, CF_CTX | CF_UB)
{
    CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS signal = {.params.fence.value = 1};
    CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS wait = {.params.fence.value = 1};
    CUDA_EXT_SEM_SIGNAL_NODE_PARAMS s = {.paramsArray = &signal, .numExtSems = 1}, bad, back;
    CUDA_EXT_SEM_WAIT_NODE_PARAMS w = {.paramsArray = &wait, .numExtSems = 1};
    CUgraphNode signals = UNTOUCHED, waits = UNTOUCHED, out = UNTOUCHED, child = UNTOUCHED;
    CUexternalSemaphore none = NULL;
    CUgraph g = NULL, other = NULL, outer = NULL;
    CUstream stream = new_stream();
    struct cf_sem sem;

    cf_sem_counter(&sem);
    s.extSemArray = w.extSemArray = &sem.cuda;
    CUgraphNode strange = foreign(&other);
    NEED(cuGraphCreate(&g, 0));
    refused("null", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE,
            &out);
    refused("no_graph", cuGraphAddExternalSemaphoresWaitNode(&out, NULL, NULL, 0, &w),
            CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddExternalSemaphoresWaitNode(&out, g, NULL, 1, &w), CUDA_ERROR_INVALID_VALUE,
            &out);
    refused("strange", cuGraphAddExternalSemaphoresWaitNode(&out, g, &strange, 1, &w),
            CUDA_ERROR_INVALID_VALUE, &out);
    bad = s;
    bad.numExtSems = 0;
    refused("empty", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
            &out);
    bad = s;
    bad.extSemArray = &none;
    refused("none", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
            &out);
    signal.flags = 1;
    refused("flags", cuGraphAddExternalSemaphoresSignalNode(&out, g, NULL, 0, &s), CUDA_ERROR_INVALID_VALUE,
            &out);
    signal.flags = 0;
    cf_u64("none_added", nodes_of(g), 0);
    OK("signal", cuGraphAddExternalSemaphoresSignalNode(&signals, g, NULL, 0, &s));
    OK("wait", cuGraphAddExternalSemaphoresWaitNode(&waits, g, &signals, 1, &w));
    /* The parameters are read by the call. */
    signal.params.fence.value = wait.params.fence.value = 99;
    edges_and_end(g, signals);
    edges_and_end(g, waits);
    OK("get", cuGraphExternalSemaphoresSignalNodeGetParams(signals, &back));
    cf_true("get_right", back.numExtSems == 1 && back.extSemArray[0] == sem.cuda &&
                             back.paramsArray[0].params.fence.value == 1);
    OK("again", cuGraphAddExternalSemaphoresWaitNode(&out, g, &waits, 1, &w));
    OK("end", cuGraphDestroyNode(out));
    NEED(cuGraphCreate(&outer, 0));
    OK("child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
    OK("run", run(g, stream, 1));
    cf_u64("value", cf_sem_value(&sem), 1);
    OK("destroy", cuGraphDestroy(g));
    OK("run_child", run(outer, stream, 2));
    cf_u64("value_left", cf_sem_value(&sem), 1);
    NEED(cuGraphDestroy(outer));
    NEED(cuGraphDestroy(other));
    cf_sem_end(&sem);
    NEED(cuStreamDestroy(stream));
}

static CUstreamBatchMemOpParams write32(CUdeviceptr p, uint32_t value)
{
    return (CUstreamBatchMemOpParams){
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = p, .value = value}};
}

static CUstreamBatchMemOpParams wait32(CUdeviceptr p, uint32_t value, unsigned flags)
{
    return (CUstreamBatchMemOpParams){
        .waitValue = {
            .operation = CU_STREAM_MEM_OP_WAIT_VALUE_32, .address = p, .value = value, .flags = flags}};
}

CASE(gnode_memop, CF_CTX | CF_UB)
{
    CUstream s = new_stream();
    CUdeviceptr p = words(N), managed = 0;
    uint32_t *pinned = NULL, word[4] = {0};
    CUstreamBatchMemOpParams list[3], one;
    CUgraph clone = NULL;
    CUgraphNode cloned = NULL;
    CUDA_BATCH_MEM_OP_NODE_PARAMS b = {.ctx = current(), .count = 1, .paramArray = &one}, bad, back;
    CUgraphNode n[5] = {UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED, UNTOUCHED}, out = UNTOUCHED, child;
    CUgraph g = NULL, other = NULL, outer = NULL;
    CUgraphNode strange = foreign(&other);

    NEED(cuMemHostAlloc((void **)&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemAllocManaged(&managed, 64, CU_MEM_ATTACH_GLOBAL));
    memset(pinned, 0, 64);
    NEED(cuGraphCreate(&g, 0));
    one = write32(p, 5);
    refused("null", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_graph", cuGraphAddBatchMemOpNode(&out, NULL, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    refused("no_deps", cuGraphAddBatchMemOpNode(&out, g, NULL, 1, &b), CUDA_ERROR_INVALID_VALUE, &out);
    refused("strange", cuGraphAddBatchMemOpNode(&out, g, &strange, 1, &b), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.ctx = NULL;
    refused("no_context", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_CONTEXT, &out);
    bad = b;
    bad.flags = 1;
    refused("flags", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.count = 257;
    refused("many", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    bad = b;
    bad.paramArray = NULL;
    refused("no_list", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + 2, 5);
    refused("between", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + N * 4, 5);
    refused("behind", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = write32(p + N * 4 - 4, 5);
    one.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64;
    refused("half", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(0, 5, 0);
    refused("nowhere", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(p, 5, 8);
    refused("wait_flags", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    one = wait32(p, 5, 0);
    one.operation = 77;
    refused("type", cuGraphAddBatchMemOpNode(&out, g, NULL, 0, &b), CUDA_ERROR_INVALID_VALUE, &out);
    cf_u64("none_added", nodes_of(g), 0);
    /* The device, then the host, then managed memory; the list is read by the call. */
    one = write32(p, 5);
    OK("write", cuGraphAddBatchMemOpNode(&n[0], g, NULL, 0, &b));
    one = write32(p, 99);
    list[0] = wait32(p, 5, CU_STREAM_WAIT_VALUE_EQ);
    list[1] = write32((uintptr_t)pinned, 6);
    list[2] = wait32((uintptr_t)pinned, 6, CU_STREAM_WAIT_VALUE_EQ);
    b.paramArray = list;
    b.count = 3;
    OK("three", cuGraphAddBatchMemOpNode(&n[1], g, &n[0], 1, &b));
    b.paramArray = &one;
    b.count = 1;
    one = write32(managed, 7);
    OK("managed", cuGraphAddBatchMemOpNode(&n[2], g, &n[1], 1, &b));
    one = wait32(p, ~5u, CU_STREAM_WAIT_VALUE_NOR);
    OK("nor", cuGraphAddBatchMemOpNode(&n[3], g, &n[2], 1, &b));
    one = (CUstreamBatchMemOpParams){.operation = CU_STREAM_MEM_OP_BARRIER};
    OK("barrier", cuGraphAddBatchMemOpNode(&n[4], g, &n[3], 1, &b));
    edges_and_end(g, n[0]);
    edges_and_end(g, n[1]);
    OK("get", cuGraphBatchMemOpNodeGetParams(n[1], &back));
    cf_true("get_context", back.ctx == b.ctx);
    cf_true("get_right", back.count == 3 && back.paramArray[1].writeValue.value == 6 &&
                             back.paramArray[2].waitValue.address == (uintptr_t)pinned);
    NEED(cuGraphClone(&clone, g));
    NEED(cuGraphNodeFindInClone(&cloned, n[1], clone));
    OK("get_clone", cuGraphBatchMemOpNodeGetParams(cloned, &back));
    cf_true("get_clone_context", back.ctx == b.ctx && back.count == 3);
    NEED(cuGraphDestroy(clone));
    one = write32(p + 4, 8);
    OK("extra", cuGraphAddBatchMemOpNode(&out, g, &n[0], 1, &b));
    OK("end", cuGraphDestroyNode(out));
    OK("end_nor", cuGraphDestroyNode(n[3]));
    NEED(cuGraphCreate(&outer, 0));
    OK("child", cuGraphAddChildGraphNode(&child, outer, NULL, 0, g));
    OK("set", cuGraphBatchMemOpNodeSetParams(n[4], &b));
    OK("run_child", run(outer, s, 1));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("child_right", word[0] == 5 && word[1] == 0 && pinned[0] == 6 && *(uint32_t *)managed == 7);
    OK("run", run(g, s, 2));
    NEED(cuMemcpyDtoH(word, p, sizeof(word)));
    cf_true("right", word[0] == 5 && word[1] == 8);
    NEED(cuGraphDestroy(outer));
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(other));
    NEED(cuMemFree(managed));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

#define ARRAY CU_MEMORYTYPE_ARRAY

static CUarray array_of(size_t width, size_t height, size_t depth, unsigned channels, unsigned flags)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = {.Width = width,
                                       .Height = height,
                                       .Depth = depth,
                                       .Format = CU_AD_FORMAT_UNSIGNED_INT32,
                                       .NumChannels = channels,
                                       .Flags = flags};
    CUarray a = NULL;

    NEED(cuArray3DCreate(&a, &d));
    return a;
}

/* A side in memory has rows of 64 bytes, eight per plane. */
static CUDA_MEMCPY3D block(size_t width, size_t height, size_t depth)
{
    return (CUDA_MEMCPY3D){.srcPitch = 64,
                           .srcHeight = 8,
                           .dstPitch = 64,
                           .dstHeight = 8,
                           .WidthInBytes = width,
                           .Height = height,
                           .Depth = depth};
}

static CUDA_MEMCPY3D to_array(CUarray a, CUDA_MEMCPY3D c, CUdeviceptr from)
{
    c.dstMemoryType = ARRAY;
    c.dstArray = a;
    c.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    c.srcDevice = from;
    return c;
}

static CUDA_MEMCPY3D from_array(CUarray a, CUDA_MEMCPY3D c, CUmemorytype type, CUdeviceptr to)
{
    c.srcMemoryType = ARRAY;
    c.srcArray = a;
    c.dstMemoryType = type;
    c.dstDevice = type == CU_MEMORYTYPE_DEVICE ? to : 0;
    c.dstHost = type == CU_MEMORYTYPE_HOST ? (void *)to : NULL;
    return c;
}

/* Arrays of 16 x 8 elements of 4 and of 8 bytes. */
CASE(gnode_array_refused, CF_CTX | CF_UB)
{
    CUdeviceptr p = words(N);
    CUarray narrow = array_of(16, 8, 0, 1, 0), wide = array_of(16, 8, 0, 2, 0),
            gone = array_of(16, 8, 0, 1, 0);
    CUarray none = NULL, line = array_of(16, 0, 0, 1, 0), cube = array_of(16, 8, 4, 1, 0);
    CUgraphNode n = UNTOUCHED, out = UNTOUCHED;
    CUgraph g = NULL, other = NULL;
    CUgraphNode strange = foreign(&other);
    CUDA_MEMCPY3D c;

    NEED(cuArrayDestroy(gone));
    NEED(cuGraphCreate(&g, 0));
#define REFUSED(check, params) \
    (c = (params), \
     refused(check, cuGraphAddMemcpyNode(&out, g, NULL, 0, &c, current()), CUDA_ERROR_INVALID_VALUE, &out))
    REFUSED("none", to_array(none, block(16, 1, 1), p));
    REFUSED("gone", to_array(gone, block(16, 1, 1), p));
    REFUSED("width", to_array(narrow, block(68, 1, 1), p));
    REFUSED("height", to_array(narrow, block(16, 9, 1), p));
    REFUSED("depth", to_array(narrow, block(16, 1, 2), p));
    REFUSED("line_height", to_array(line, block(16, 2, 1), p));
    REFUSED("cube_depth", to_array(cube, block(16, 1, 5), p));
    REFUSED("empty", to_array(narrow, block(0, 1, 1), p));
    c = to_array(narrow, block(16, 1, 1), p);
    c.dstXInBytes = 52;
    REFUSED("x", c);
    c.dstXInBytes = 2;
    REFUSED("x_part", c);
    c.dstXInBytes = 0;
    c.dstY = 8;
    REFUSED("y", c);
    c.dstY = 0;
    c.dstZ = 1;
    REFUSED("z", c);
    c = from_array(wide, block(16, 1, 1), CU_MEMORYTYPE_DEVICE, p);
    c.srcXInBytes = 4;
    REFUSED("src_x_part", c);
    c.srcXInBytes = (size_t)-16;
    REFUSED("src_x_wraps", c);
    c.srcXInBytes = 0;
    c.srcY = 8;
    REFUSED("src_y", c);
    c.srcY = 0;
    c.dstDevice = 0;
    REFUSED("nowhere", c);
    c.dstDevice = p + N * 4 - 8;
    REFUSED("behind", c);
    c = to_array(narrow, block(16, 1, 1), p);
    c.srcMemoryType = ARRAY;
    c.srcArray = wide;
    REFUSED("elements", c);
    cf_u64("none_added", nodes_of(g), 0);
    c = to_array(narrow, block(16, 1, 1), p);
    refused("strange", cuGraphAddMemcpyNode(&out, g, &strange, 1, &c, current()), CUDA_ERROR_INVALID_VALUE,
            &out);
    c.dstXInBytes = 48;
    c.dstY = 7;
    OK("last", cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, current()));
    edges_and_end(g, n);
    NEED(cuGraphDestroy(g));
    NEED(cuGraphDestroy(other));
    NEED(cuArrayDestroy(narrow));
    NEED(cuArrayDestroy(wide));
    NEED(cuArrayDestroy(line));
    NEED(cuArrayDestroy(cube));
    NEED(cuMemFree(p));
}

/* From memory through an array to memory, for each kind of array. */
CASE(gnode_array, CF_CTX)
{
    static uint32_t host[N], want[3][256];
    const CUDA_ARRAY3D_DESCRIPTOR m = {
        .Width = 16, .Height = 16, .Format = CU_AD_FORMAT_UNSIGNED_INT32, .NumChannels = 1};
    CUstream s = new_stream();
    CUdeviceptr p = words(N), q = words(N);
    CUmipmappedArray mip = NULL;
    CUarray level = NULL;
    uint32_t *pinned = NULL;
    CUgraph g = NULL;
    CUgraphNode last = NULL, n = UNTOUCHED;
    CUDA_MEMCPY3D back;

    memset(want, 0, sizeof(want));
    for (unsigned i = 0; i < N; i++)
        host[i] = i + 1;
    NEED(cuMemcpyHtoD(p, host, sizeof(host)));
    memset(host, 0, sizeof(host));
    NEED(cuMemHostAlloc((void **)&pinned, N * 4, 0));
    memset(pinned, 0, N * 4);
    NEED(cuMipmappedArrayCreate(&mip, &m, 2));
    NEED(cuMipmappedArrayGetLevel(&level, mip, 1));
    const struct {
        const char *name;
        CUarray a;
        CUDA_MEMCPY3D c;
    } way[] = {
        {"line", array_of(16, 0, 0, 1, 0), block(40, 1, 1)},
        {"plane", array_of(16, 8, 0, 1, CUDA_ARRAY3D_SURFACE_LDST), block(64, 8, 1)},
        {"pairs", array_of(8, 8, 0, 2, 0), block(24, 5, 1)},
        {"part", array_of(8, 8, 0, 2, 0), block(20, 5, 1)},
        {"volume", array_of(16, 8, 2, 1, 0), block(64, 8, 2)},
        {"layers", array_of(16, 8, 2, 1, CUDA_ARRAY3D_LAYERED), block(32, 2, 2)},
        {"level", level, block(32, 8, 1)},
    };
    const unsigned ways = sizeof(way) / sizeof(way[0]);

    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < ways; i++) {
        CUDA_MEMCPY3D c = to_array(way[i].a, way[i].c, p);

        OK(way[i].name, cuGraphAddMemcpyNode(&n, g, &last, i != 0, &c, current()));
        last = n;
        OK("get", cuGraphMemcpyNodeGetParams(n, &back));
        cf_true("get_right", back.dstArray == way[i].a && back.WidthInBytes == c.WidthInBytes);
        c = from_array(way[i].a, way[i].c, i % 3 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                       i % 3 == 2   ? (CUdeviceptr)host
                       : i % 3 == 1 ? (CUdeviceptr)pinned
                                    : q);
        OK("out", cuGraphAddMemcpyNode(&n, g, &last, 1, &c, current()));
        last = n;
    }
    OK("run", run(g, s, 2));
    NEED(cuMemcpyDtoH(host + 512, q, 1024));
    for (unsigned i = 0; i < ways; i++) { /* to the original position of the bytes */
        const CUDA_MEMCPY3D *c = &way[i].c;

        for (unsigned z = 0; z < c->Depth; z++)
            for (unsigned y = 0; y < c->Height; y++)
                for (unsigned x = 0; x < c->WidthInBytes / 4; x++)
                    want[i % 3][(z * 8 + y) * 16 + x] = (z * 8 + y) * 16 + x + 1;
    }
    cf_true("device", memcmp(host + 512, want[0], sizeof(want[0])) == 0);
    cf_true("pinned", memcmp(pinned, want[1], sizeof(want[1])) == 0);
    cf_true("host", memcmp(host, want[2], sizeof(want[2])) == 0);
    NEED(cuGraphDestroy(g));
    for (unsigned i = 0; i + 1 < ways; i++)
        NEED(cuArrayDestroy(way[i].a));
    NEED(cuMipmappedArrayDestroy(mip));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(q));
    NEED(cuMemFree(p));
    NEED(cuStreamDestroy(s));
}

/* Arrays of a context other than the primary, and of an ended context. */
CASE(gnode_array_context, CF_CTX | CF_UB)
{
    CUgraphNode n = UNTOUCHED, out = UNTOUCHED;
    CUcontext first = current(), second = NULL;
    CUgraph g = NULL;
    CUarray a, b;
    CUDA_MEMCPY3D c;
    CUdeviceptr p;

    a = array_of(16, 8, 0, 1, 0);
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    b = array_of(16, 8, 0, 1, 0);
    p = words(N);
    NEED(cuGraphCreate(&g, 0));
    c = to_array(b, block(64, 8, 1), p);
    OK("add", cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, second));
    NEED(cuGraphDestroy(g));
    NEED(cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    p = words(N);
    NEED(cuGraphCreate(&g, 0));
    c = to_array(b, block(64, 8, 1), p);
    refused("ended", cuGraphAddMemcpyNode(&out, g, NULL, 0, &c, first), CUDA_ERROR_INVALID_VALUE, &out);
    NEED(cuGraphDestroy(g));
    OK("reset", cuDevicePrimaryCtxReset(0));
    NEED(cuDevicePrimaryCtxRetain(&first, 0));
    NEED(cuCtxSetCurrent(first));
    p = words(N);
    NEED(cuGraphCreate(&g, 0));
    c = to_array(a, block(64, 8, 1), p);
    refused("reset_ended", cuGraphAddMemcpyNode(&out, g, NULL, 0, &c, first), CUDA_ERROR_INVALID_VALUE, &out);
    a = array_of(16, 8, 0, 1, 0);
    c = to_array(a, block(64, 8, 1), p);
    OK("reset_new", cuGraphAddMemcpyNode(&n, g, NULL, 0, &c, first));
    NEED(cuGraphDestroy(g));
}

/* Only cuGraphInstantiateWithParams uploads; the executable graph does not have that flag (cuda.h). */
CASE(graph_upload_flag, CF_CTX)
{
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                                  CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    cuuint64_t flags = 0;
    CUgraphExec x = NULL;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    RC("plain", cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD), CUDA_ERROR_INVALID_VALUE);
    OK("params", cuGraphInstantiateWithParams(&x, g, &how));
    OK("flags", cuGraphExecGetFlags(x, &flags));
    cf_u64("flags_value", flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    NEED(cuGraphExecDestroy(x));
    NEED(cuGraphDestroy(g));
}

/* A new node's dependencies have no duplicates. */
CASE(graph_duplicates, CF_CTX)
{
    CUgraphNode n[3] = {NULL}, out = NULL;
    CUgraph g = NULL;
    size_t count = 0;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddEmptyNode(&n[0], g, NULL, 0));
    NEED(cuGraphAddEmptyNode(&n[1], g, NULL, 0));
    n[2] = n[0];
    RC("twice", cuGraphAddEmptyNode(&out, g, n, 3), CUDA_ERROR_INVALID_VALUE);
    OK("nodes", cuGraphGetNodes(g, NULL, &count));
    cf_u64("nodes_value", count, 2);
    OK("once", cuGraphAddEmptyNode(&out, g, n, 2));
    NEED(cuGraphDestroy(g));
}

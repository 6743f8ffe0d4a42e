// SPDX-License-Identifier: MIT
/* Graphs that allocate and free memory. */
#include "conform.h"

#define N 1000u
#define BYTES (N * 4)

static CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static CUDA_MEM_ALLOC_NODE_PARAMS alloc_params(size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = {.bytesize = bytes};
    p.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}

static CUgraphNode add_alloc(CUgraph g, CUdeviceptr *p, size_t bytes)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a = alloc_params(bytes);
    CUgraphNode n = NULL;
    NEED(cuGraphAddMemAllocNode(&n, g, NULL, 0, &a));
    *p = a.dptr;
    return n;
}

static CUgraphNode add_kernel(CUgraph g, const CUgraphNode *after, const char *name, CUdeviceptr p,
                              unsigned v)
{
    unsigned n = N;
    void *params[] = {&p, &n, &v};
    CUDA_KERNEL_NODE_PARAMS k = {.func = cf_func(name),
                                 .gridDimX = (N + 127) / 128,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = 128,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    CUgraphNode node = NULL;
    NEED(cuGraphAddKernelNode(&node, g, after, after ? 1 : 0, &k));
    return node;
}

static CUgraphNode add_copy(CUgraph g, const CUgraphNode *after, CUdeviceptr to, CUdeviceptr from)
{
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = from,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = to,
                       .WidthInBytes = BYTES,
                       .Height = 1,
                       .Depth = 1};
    CUgraphNode node = NULL;
    CUcontext ctx = NULL;
    NEED(cuCtxGetCurrent(&ctx));
    NEED(cuGraphAddMemcpyNode(&node, g, after, 1, &c, ctx));
    return node;
}

static uint64_t attribute(CUgraphMem_attribute a)
{
    cuuint64_t v = 0;
    NEED(cuDeviceGetGraphMemAttribute(0, a, &v));
    return v;
}

CASE(gmem_params, CF_CTX)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a = alloc_params(BYTES), back, bad;
    CUmemAccessDesc access = {.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUgraphNode node = NULL, free_node = NULL, empty = NULL;
    CUgraphNodeType type = -1;
    CUdeviceptr told = 0;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    a.accessDescs = &access;
    a.accessDescCount = 1;
    OK("alloc", cuGraphAddMemAllocNode(&node, g, NULL, 0, &a));
    cf_true("alloc_address", a.dptr != 0);
    OK("alloc_type", cuGraphNodeGetType(node, &type));
    cf_u64("alloc_type_value", type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    OK("alloc_get", cuGraphMemAllocNodeGetParams(node, &back));
    cf_true("alloc_get_right", back.dptr == a.dptr && back.bytesize == BYTES &&
                                   back.poolProps.allocType == CU_MEM_ALLOCATION_TYPE_PINNED &&
                                   back.poolProps.location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
                                   back.poolProps.location.id == 0 && back.accessDescCount == 1 &&
                                   back.accessDescs &&
                                   back.accessDescs[0].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    RC("alloc_get_null", cuGraphMemAllocNodeGetParams(node, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_get_no_node", cuGraphMemAllocNodeGetParams(NULL, &back), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_null", cuGraphAddMemAllocNode(&empty, g, NULL, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_no_out", cuGraphAddMemAllocNode(NULL, g, NULL, 0, &a), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_no_graph", cuGraphAddMemAllocNode(&empty, NULL, NULL, 0, &a), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_no_deps", cuGraphAddMemAllocNode(&empty, g, NULL, 1, &a), CUDA_ERROR_INVALID_VALUE);
    bad = alloc_params(0);
    RC("alloc_nothing", cuGraphAddMemAllocNode(&empty, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);
    bad = alloc_params(4);
    bad.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
    RC("alloc_kind", cuGraphAddMemAllocNode(&empty, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);
    bad = alloc_params(4);
    bad.poolProps.location.id = 1000;
    RC_IN("alloc_device", cuGraphAddMemAllocNode(&empty, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_INVALID_DEVICE);
    bad = alloc_params(4);
    bad.poolProps.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    RC_IN("alloc_shared", cuGraphAddMemAllocNode(&empty, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_NOT_SUPPORTED);
    bad = alloc_params(4);
    bad.accessDescCount = 1;
    if (!cf_real()) /* a GPU's driver crashes */
        RC("alloc_access", cuGraphAddMemAllocNode(&empty, g, NULL, 0, &bad), CUDA_ERROR_INVALID_VALUE);

    OK("free", cuGraphAddMemFreeNode(&free_node, g, &node, 1, a.dptr));
    OK("free_type", cuGraphNodeGetType(free_node, &type));
    cf_u64("free_type_value", type, CU_GRAPH_NODE_TYPE_MEM_FREE);
    OK("free_get", cuGraphMemFreeNodeGetParams(free_node, &told));
    cf_true("free_get_right", told == a.dptr);
    RC("free_get_null", cuGraphMemFreeNodeGetParams(free_node, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("free_get_other", cuGraphMemFreeNodeGetParams(node, &told), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_get_other", cuGraphMemAllocNodeGetParams(free_node, &back), CUDA_ERROR_INVALID_VALUE);
    RC("free_twice", cuGraphAddMemFreeNode(&empty, g, &node, 1, a.dptr), CUDA_ERROR_INVALID_VALUE);
    RC("free_nothing", cuGraphAddMemFreeNode(&empty, g, &node, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("free_no_out", cuGraphAddMemFreeNode(NULL, g, &node, 1, a.dptr), CUDA_ERROR_INVALID_VALUE);
    CUdeviceptr plain = 0;
    NEED(cuMemAlloc(&plain, 64));
    RC("free_plain", cuGraphAddMemFreeNode(&empty, g, &node, 1, plain), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuGraphDestroy(g));
}

CASE(gmem_rules, CF_CTX)
{
    CUgraph g = NULL, other = NULL, parent = NULL, copy = NULL;
    CUgraphNode alloc, node, free_node;
    CUgraphExec x = NULL, y = NULL;
    CUdeviceptr p = 0;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&other, 0));
    NEED(cuGraphCreate(&parent, 0));
    alloc = add_alloc(g, &p, BYTES);
    node = add_kernel(g, &alloc, "k_fill", p, 1);
    OK("free", cuGraphAddMemFreeNode(&free_node, g, &node, 1, p));
    RC("freed_here_and_there", cuGraphAddMemFreeNode(&free_node, other, NULL, 0, p),
       CUDA_ERROR_INVALID_VALUE);
    RC_IN("clone", cuGraphClone(&copy, g), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
    RC_IN("child", cuGraphAddChildGraphNode(&node, parent, NULL, 0, g), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    RC_IN("destroy_node", cuGraphDestroyNode(alloc), CUDA_ERROR_NOT_SUPPORTED, CUDA_ERROR_INVALID_VALUE);
    RC_IN("remove_edge", cuGraphRemoveDependencies(g, &alloc, &node, NULL, 1), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    RC_IN("instantiate_twice", cuGraphInstantiate(&y, g, 0), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_INVALID_VALUE);
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("instantiate_again", cuGraphInstantiate(&x, g, 0));
    CUdeviceptr q = 0;
    alloc = add_alloc(other, &q, BYTES);
    OK("freed_there", cuGraphAddMemFreeNode(&free_node, parent, NULL, 0, q));
    RC("freed_there_and_here", cuGraphAddMemFreeNode(&free_node, other, &alloc, 1, q),
       CUDA_ERROR_INVALID_VALUE);
    OK("exec_destroy_2", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
    OK("destroy_2", cuGraphDestroy(other));
    OK("destroy_3", cuGraphDestroy(parent));
}

CASE(gmem_inside, CF_CTX)
{
    CUstream s = new_stream(), t = new_stream();
    CUgraphNode alloc, fill, add, copy, free_node = NULL;
    CUdeviceptr p = 0, out = 0;
    CUgraphExec x = NULL;
    CUgraph g = NULL;

    NEED(cuMemAlloc(&out, BYTES));
    NEED(cuGraphCreate(&g, 0));
    alloc = add_alloc(g, &p, BYTES);
    fill = add_kernel(g, &alloc, "k_fill", p, 5);
    add = add_kernel(g, &fill, "k_add", p, 2);
    copy = add_copy(g, &add, out, p);
    OK("free", cuGraphAddMemFreeNode(&free_node, g, &copy, 1, p));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    for (int i = 0; i < 3; i++) {
        NEED(cuMemsetD32(out, 0, N));
        NEED(cuCtxSynchronize());
        OK("launch", cuGraphLaunch(x, i & 1 ? t : s));
        OK("sync", cuStreamSynchronize(i & 1 ? t : s));
        cf_true("result", cf_filled(out, N, 7));
    }
    OK("launch_1", cuGraphLaunch(x, s)); /* and in sequence, in any stream */
    OK("launch_2", cuGraphLaunch(x, t));
    OK("launch_3", cuGraphLaunch(x, s));
    OK("sync_1", cuStreamSynchronize(s));
    OK("sync_2", cuStreamSynchronize(t));
    RC("free_outside", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    RC("free_outside_async", cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    OK("sync_3", cuStreamSynchronize(s));
    OK("upload", cuGraphUpload(x, s));
    OK("sync_4", cuStreamSynchronize(s));
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

CASE(gmem_outside, CF_CTX)
{
    CUstream s = new_stream();
    CUgraphNode alloc, fill, free_node = NULL;
    CUgraphExec x = NULL, y = NULL;
    CUgraph g = NULL, freeing = NULL;
    CUmemorytype type = 0;
    CUdeviceptr p = 0;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&freeing, 0));
    alloc = add_alloc(g, &p, BYTES);
    fill = add_kernel(g, &alloc, "k_fill", p, 5);
    (void)fill;
    OK("free_node", cuGraphAddMemFreeNode(&free_node, freeing, NULL, 0, p));
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    OK("instantiate_2", cuGraphInstantiate(&y, freeing, 0));
    RC("free_before", cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    OK("launch", cuGraphLaunch(x, s));
    OK("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p));
    cf_u64("type_value", type, CU_MEMORYTYPE_DEVICE);
    OK("sync", cuStreamSynchronize(s));
    cf_true("result", cf_filled(p, N, 5));
    RC("launch_unfreed", cuGraphLaunch(x, s), CUDA_ERROR_INVALID_VALUE);
    OK("free_async", cuMemFreeAsync(p, s));
    RC("free_async_twice", cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    OK("launch_again", cuGraphLaunch(x, s));
    OK("sync_2", cuStreamSynchronize(s));
    cf_true("result_2", cf_filled(p, N, 5));
    OK("free", cuMemFree(p));
    RC("free_twice", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK("launch_third", cuGraphLaunch(x, s));
    OK("launch_free", cuGraphLaunch(y, s));
    RC("freed_by_graph", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK("launch_fourth", cuGraphLaunch(x, s));
    OK("sync_3", cuStreamSynchronize(s));
    cf_true("result_3", cf_filled(p, N, 5));
    /* Memory that is not freed outlives the graph that allocated it. */
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
    cf_true("result_4", cf_filled(p, N, 5));
    OK("launch_free_2", cuGraphLaunch(y, s));
    OK("sync_4", cuStreamSynchronize(s));
    OK("exec_destroy_2", cuGraphExecDestroy(y));
    OK("destroy_2", cuGraphDestroy(freeing));
}

CASE(gmem_auto_free, CF_CTX)
{
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    cuuint64_t flags = 0;
    CUdeviceptr p = 0;
    CUgraph g = NULL;

    NEED(cuGraphCreate(&g, 0));
    CUgraphNode alloc = add_alloc(g, &p, BYTES);
    add_kernel(g, &alloc, "k_fill", p, 9);
    RC("device_launch_too",
       cuGraphInstantiate(&x, g,
                          CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                              CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
       CUDA_ERROR_INVALID_VALUE);
    OK("instantiate", cuGraphInstantiate(&x, g, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK("flags", cuGraphExecGetFlags(x, &flags));
    cf_u64("flags_value", flags, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH);
    for (int i = 0; i < 4; i++)
        OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("result", cf_filled(p, N, 9));
    OK("free", cuMemFree(p));
    OK("launch_again", cuGraphLaunch(x, s));
    OK("free_async", cuMemFreeAsync(p, s));
    OK("sync_2", cuStreamSynchronize(s));
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

CASE(gmem_attributes, CF_CTX)
{
    CUstream s = new_stream();
    CUgraphExec x = NULL;
    cuuint64_t v = 0;
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    size_t free_before = 0, free_after = 0, total = 0;
    const size_t big = 8u << 20;

    OK("trim", cuDeviceGraphMemTrim(0));
    RC("trim_device", cuDeviceGraphMemTrim(1000), CUDA_ERROR_INVALID_DEVICE);
    RC("get_device", cuDeviceGetGraphMemAttribute(1000, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v),
       CUDA_ERROR_INVALID_DEVICE);
    RC("get_null", cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("get_unknown", cuDeviceGetGraphMemAttribute(0, (CUgraphMem_attribute)99, &v),
       CUDA_ERROR_INVALID_VALUE);
    RC("set_device", cuDeviceSetGraphMemAttribute(1000, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v),
       CUDA_ERROR_INVALID_DEVICE);
    RC("set_null", cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, NULL),
       CUDA_ERROR_INVALID_VALUE);
    RC("set_current", cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &v),
       CUDA_ERROR_INVALID_VALUE);
    v = 1;
    RC("set_high_other", cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v),
       CUDA_ERROR_INVALID_VALUE);
    v = 0;
    OK("set_high", cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &v));
    OK("set_high_2", cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH, &v));
    cf_u64("used", attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    NEED(cuGraphCreate(&g, 0));
    CUgraphNode alloc = add_alloc(g, &p, big);
    add_kernel(g, &alloc, "k_fill", p, 9);
    NEED(cuGraphInstantiate(&x, g, 0));
    NEED(cuMemGetInfo(&free_before, &total));
    OK("launch", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    NEED(cuMemGetInfo(&free_after, &total));
    cf_true("counts", free_before >= free_after + big);
    cf_true("used_now", attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT) >= big);
    cf_true("reserved_now", attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= big);
    OK("trim_in_use", cuDeviceGraphMemTrim(0));
    cf_true("in_use", attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT) >= big);
    cf_true("result", cf_filled(p, N, 9));
    OK("free", cuMemFree(p));
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
    NEED(cuCtxSynchronize());
    OK("trim_after", cuDeviceGraphMemTrim(0));
    cf_u64("used_after", attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    cf_u64("reserved_after", attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    cf_true("used_high", attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH) >= big);
    cf_true("reserved_high", attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) >= big);
    NEED(cuMemGetInfo(&free_after, &total));
    cf_true("counts_after", free_after >= free_before);
}

CASE(gmem_capture, CF_CTX)
{
    CUstream s = new_stream();
    CUdeviceptr p = 0, q = 0, out = 0, plain = 0;
    CUmemoryPool pool = NULL;
    CUgraphExec x = NULL;
    CUgraph g = NULL;
    CUgraphNode nodes[16];
    CUgraphNodeType type;
    size_t n = 16;
    unsigned allocs = 0, frees = 0;

    NEED(cuMemAlloc(&out, BYTES));
    NEED(cuMemAllocAsync(&plain, 64, s));
    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    OK("begin", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK("alloc", cuMemAllocAsync(&p, BYTES, s));
    OK("alloc_pool", cuMemAllocFromPoolAsync(&q, BYTES, pool, s));
    OK("fill", cf_fill(p, N, 3, s));
    OK("copy", cuMemcpyDtoDAsync(q, p, BYTES, s));
    OK("set", cuMemsetD32Async(q, 77, 1, s));
    OK("copy_out", cuMemcpyDtoDAsync(out, q, BYTES, s));
    OK("free", cuMemFreeAsync(p, s));
    RC("free_twice", cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
    RC("free_plain", cuMemFreeAsync(plain, s), CUDA_ERROR_INVALID_VALUE);
    OK("end", cuStreamEndCapture(s, &g));
    OK("nodes", cuGraphGetNodes(g, nodes, &n));
    for (size_t i = 0; i < n; i++) {
        NEED(cuGraphNodeGetType(nodes[i], &type));
        allocs += type == CU_GRAPH_NODE_TYPE_MEM_ALLOC;
        frees += type == CU_GRAPH_NODE_TYPE_MEM_FREE;
    }
    cf_u64("node_count", n, 7);
    cf_u64("alloc_count", allocs, 2);
    cf_u64("free_count", frees, 1);
    OK("instantiate", cuGraphInstantiate(&x, g, 0));
    for (int i = 0; i < 2; i++) {
        NEED(cuMemsetD32(out, 0, N));
        NEED(cuCtxSynchronize());
        OK("launch", cuGraphLaunch(x, s));
        OK("sync", cuStreamSynchronize(s));
        uint32_t word[3] = {0};
        NEED(cuMemcpyDtoH(word, out, 12));
        cf_true("result", word[0] == 77 && word[1] == 4 && word[2] == 5);
        OK("second_free", cuMemFreeAsync(q, s));
    }
    OK("plain_free", cuMemFreeAsync(plain, s));
    OK("begin_2", cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    CUgraph h = NULL;
    RC_IN("launch_captured", cuGraphLaunch(x, s), CUDA_ERROR_NOT_SUPPORTED,
          CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, CUDA_ERROR_INVALID_VALUE);
    cuStreamEndCapture(s, &h);
    if (h)
        cuGraphDestroy(h);
    OK("sync_2", cuStreamSynchronize(s));
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(g));
}

CASE(gmem_any, CF_CTX)
{
    CUstream s = new_stream();
    CUgraphNodeParams a = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC}, f = {.type = CU_GRAPH_NODE_TYPE_MEM_FREE},
                      c = {.type = CU_GRAPH_NODE_TYPE_GRAPH};
    CUgraph g = NULL, parent = NULL, other = NULL, same = NULL;
    CUgraphNode an = NULL, fn = NULL, cn = NULL, kn;
    CUgraphExecUpdateResultInfo info;
    CUgraphExec x = NULL;
    CUdeviceptr p = 0;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphCreate(&parent, 0));
    NEED(cuGraphCreate(&other, 0));
    a.alloc.bytesize = BYTES;
    a.alloc.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    a.alloc.poolProps.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK("alloc", cuGraphAddNode(&an, g, NULL, NULL, 0, &a));
    cf_true("alloc_address", a.alloc.dptr != 0);
    kn = add_kernel(g, &an, "k_fill", a.alloc.dptr, 1);
    f.free.dptr = a.alloc.dptr;
    OK("free", cuGraphAddNode(&fn, g, &kn, NULL, 1, &f));
    RC("set", cuGraphNodeSetParams(an, &a), CUDA_ERROR_NOT_SUPPORTED);
    /* A graph with memory can be a child if its ownership is moved. */
    c.graph.graph = g;
    c.graph.ownership = CU_GRAPH_CHILD_GRAPH_OWNERSHIP_MOVE;
    OK("move", cuGraphAddNode(&cn, parent, NULL, NULL, 0, &c));
    OK("moved_graph", cuGraphChildGraphNodeGetGraph(cn, &same));
    cf_true("moved_graph_same", same == g);
    RC("moved_destroy", cuGraphDestroy(g), CUDA_ERROR_INVALID_VALUE);
    RC_IN("moved_instantiate", cuGraphInstantiate(&x, g, 0), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_NOT_SUPPORTED);
    RC_IN("moved_again", cuGraphAddNode(&cn, other, NULL, NULL, 0, &c), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_NOT_SUPPORTED);
    RC_IN("moved_more", cuGraphAddNode(&cn, g, NULL, NULL, 0, &a), CUDA_ERROR_INVALID_VALUE,
          CUDA_ERROR_NOT_SUPPORTED);
    OK("instantiate", cuGraphInstantiate(&x, parent, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("launch_2", cuGraphLaunch(x, s));
    OK("sync", cuStreamSynchronize(s));
    OK("update_same", cuGraphExecUpdate(x, parent, &info));
    cf_u64("update_same_result", info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK("launch_3", cuGraphLaunch(x, s));
    OK("sync_2", cuStreamSynchronize(s));
    (void)p;
    OK("exec_destroy", cuGraphExecDestroy(x));
    OK("destroy", cuGraphDestroy(parent));
    OK("destroy_2", cuGraphDestroy(other));
}

/* An executable graph ends with its context. */
CASE(gmem_context, CF_CTX | CF_ALONE)
{
    CUcontext first = NULL, second = NULL;
    CUgraphExec x = NULL, kept = NULL;
    CUstream s = NULL;
    CUgraphNode node;
    CUgraph g = NULL;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddEmptyNode(&node, g, NULL, 0));
    OK("instantiate", cuGraphInstantiate(&kept, g, 0));
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    OK("instantiate_2", cuGraphInstantiate(&x, g, 0));
    NEED(cuStreamCreate(&s, 0));
    OK("launch", cuGraphLaunch(x, s));
    OK("destroy_context", cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    s = new_stream();
    if (!cf_real()) { /* the behaviour of a driver for such a handle is undocumented */
        RC("launch_gone", cuGraphLaunch(x, s), CUDA_ERROR_INVALID_VALUE);
        RC("destroy_gone", cuGraphExecDestroy(x), CUDA_ERROR_INVALID_VALUE);
    }
    OK("launch_kept", cuGraphLaunch(kept, s));
    OK("sync", cuStreamSynchronize(s));
    OK("destroy_kept", cuGraphExecDestroy(kept));
    OK("destroy", cuGraphDestroy(g));
}

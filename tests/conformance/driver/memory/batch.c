// SPDX-License-Identifier: MIT
/* Batches of copies, 3D copies between contexts, attributes of streams and pointers, JIT options. */
#include "conform.h"

CASE(batch_copies, CF_CTX)
{
    enum { N = 6, SIZE = 3000 };
    CUdeviceptr d[N], dsts[2 * N], srcs[2 * N];
    size_t sizes[2 * N], first[2] = {0, 3};
    uint8_t *host[N], *back[N], *pinned = NULL;
    CUmemcpyAttributes attrs[2];
    CUstream s = NULL;
    bool ok = true;

    memset(attrs, 0, sizeof(attrs));
    attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    attrs[1].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemHostAlloc((void **)&pinned, SIZE, 0));
    for (int i = 0; i < N; i++) {
        NEED(cuMemAlloc(&d[i], SIZE));
        host[i] = i == 4 ? pinned : malloc(SIZE);
        back[i] = calloc(1, SIZE);
        cf_pattern(host[i], SIZE, i + 1);
        dsts[i] = d[i];
        srcs[i] = (CUdeviceptr)(uintptr_t)host[i];
        sizes[i] = SIZE;
    }
    OK("up", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 2, s));
    memset(pinned, 0, SIZE); /* its source was read during the call */
    for (int i = 0; i < N; i++) {
        srcs[i] = d[i];
        dsts[i] = (CUdeviceptr)(uintptr_t)back[i];
    }
    attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    attrs[0].flags = CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE;
    OK("down", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 1, s));
    OK("sync", cuStreamSynchronize(s));
    for (int i = 0; i < N; i++)
        ok &= cf_is_pattern(back[i], SIZE, i + 1);
    cf_true("content", ok);
    RC("none", cuMemcpyBatchAsync(dsts, srcs, sizes, 0, attrs, first, 1, s), CUDA_ERROR_INVALID_VALUE);
    RC("no_attributes", cuMemcpyBatchAsync(dsts, srcs, sizes, N, NULL, first, 1, s),
       CUDA_ERROR_INVALID_VALUE);
    RC("too_many_attributes", cuMemcpyBatchAsync(dsts, srcs, sizes, 1, attrs, first, 2, s),
       CUDA_ERROR_INVALID_VALUE);
    first[0] = 1;
    RC("first_index", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 2, s), CUDA_ERROR_INVALID_VALUE);
    first[0] = 0;
    first[1] = N;
    RC("index_past", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 2, s), CUDA_ERROR_INVALID_VALUE);
    attrs[0].srcAccessOrder = 0;
    RC("order", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 1, s), CUDA_ERROR_INVALID_VALUE);
    attrs[0].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    RC("legacy", cuMemcpyBatchAsync(dsts, srcs, sizes, N, attrs, first, 1, NULL), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < N; i++) {
        NEED(cuMemFree(d[i]));
        free(back[i]);
        if (i != 4)
            free(host[i]);
    }
    NEED(cuMemFreeHost(pinned));
    NEED(cuStreamDestroy(s));
}

/* The source of a copy in stream order is read after earlier work of the stream. */
static void CUDA_CB write_seven(void *p)
{
    *(volatile uint32_t *)p = 7;
}

CASE(batch_order, CF_CTX)
{
    uint32_t *src = calloc(1, 4), got = 0;
    CUdeviceptr d = 0, dst, from = (CUdeviceptr)(uintptr_t)src;
    CUmemcpyAttributes attr;
    size_t n = 4, zero = 0;
    CUstream s = NULL;

    memset(&attr, 0, sizeof(attr));
    attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&d, 4));
    dst = d;
    NEED(cuLaunchHostFunc(s, write_seven, src));
    OK("copy", cuMemcpyBatchAsync(&dst, &from, &n, 1, &attr, &zero, 1, s));
    OK("sync", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(&got, d, 4));
    cf_u64("value", got, 7);
    NEED(cuMemFree(d));
    NEED(cuStreamDestroy(s));
    free(src);
}

typedef CUresult batch_12080(CUdeviceptr *, CUdeviceptr *, size_t *, size_t, CUmemcpyAttributes *, size_t *,
                             size_t, size_t *, CUstream);
typedef CUresult batch_3d_12080(size_t, CUDA_MEMCPY3D_BATCH_OP *, size_t *, unsigned long long, CUstream);

/*
 * The calls of CUDA 12.8 report the failed copy, and write its index unless the stream is refused.
 */
CASE(batch_failed_index, CF_CTX)
{
    CUDA_MEMCPY3D_BATCH_OP op[2];
    CUdeviceptr d = 0, dsts[2], srcs[2];
    size_t sizes[2] = {16, 16}, first = 0, failed;
    CUdriverProcAddressQueryResult how;
    void *linear = NULL, *three = NULL;
    CUmemcpyAttributes attr;
    CUstream s = NULL;

    NEED(cuGetProcAddress("cuMemcpyBatchAsync", &linear, 12080, 0, &how));
    NEED(cuGetProcAddress("cuMemcpy3DBatchAsync", &three, 12080, 0, &how));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&d, 64));
    memset(&attr, 0, sizeof(attr));
    attr.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    srcs[0] = srcs[1] = d;
    dsts[0] = d + 16;
    dsts[1] = d + 32;
    memset(&failed, 0xee, sizeof(failed));
    OK("good", ((batch_12080 *)linear)(dsts, srcs, sizes, 2, &attr, &first, 1, &failed, s));
    cf_u64("good_index", failed, SIZE_MAX);
    memset(&failed, 0xee, sizeof(failed));
    sizes[1] = 64; /* beyond the destination */
    RC("past", ((batch_12080 *)linear)(dsts, srcs, sizes, 2, &attr, &first, 1, &failed, s),
       CUDA_ERROR_INVALID_VALUE);
    cf_u64("past_index", failed, 1);
    memset(&failed, 0xee, sizeof(failed));
    RC("list", ((batch_12080 *)linear)(dsts, srcs, sizes, 2, &attr, &first, 3, &failed, s),
       CUDA_ERROR_INVALID_VALUE);
    cf_u64("list_index", failed, SIZE_MAX);
    memset(&failed, 0xee, sizeof(failed));
    RC("legacy", ((batch_12080 *)linear)(dsts, srcs, sizes, 2, &attr, &first, 1, &failed, NULL),
       CUDA_ERROR_INVALID_VALUE);
    cf_u64("legacy_index", failed, 0xeeeeeeeeeeeeeeee); /* not written */
    memset(op, 0, sizeof(op));
    for (int i = 0; i < 2; i++) {
        op[i].src.type = op[i].dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
        op[i].src.op.ptr.ptr = d;
        op[i].dst.op.ptr.ptr = d + 32;
        op[i].extent = (CUextent3D){.width = 4, .height = 2, .depth = 2};
        op[i].srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
    }
    op[1].extent.depth = 0;
    memset(&failed, 0xee, sizeof(failed));
    RC("empty_3d", ((batch_3d_12080 *)three)(2, op, &failed, 0, s), CUDA_ERROR_INVALID_VALUE);
    cf_u64("empty_3d_index", failed, 1);
    memset(&failed, 0xee, sizeof(failed));
    RC("flags_3d", ((batch_3d_12080 *)three)(2, op, &failed, 1, s), CUDA_ERROR_INVALID_VALUE);
    cf_u64("flags_3d_index", failed, SIZE_MAX);
    NEED(cuStreamSynchronize(s));
    NEED(cuMemFree(d));
    NEED(cuStreamDestroy(s));
}

CASE(batch_3d, CF_CTX)
{
    CUDA_MEMCPY3D_BATCH_OP op;
    CUDA_MEMCPY3D_PEER peer;
    CUcontext c = NULL;
    CUdeviceptr d = 0, e = 0;
    uint8_t host[4 * 8 * 16], back[4 * 8 * 16];
    CUstream s = NULL;
    bool ok = true;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&d, 32 * 16 * 4));
    NEED(cuMemAlloc(&e, 32 * 16 * 4));
    cf_pattern(host, sizeof(host), 9);
    memset(&op, 0, sizeof(op));
    op.src.type = op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.ptr = (CUdeviceptr)(uintptr_t)host;
    op.dst.op.ptr.ptr = d;
    op.dst.op.ptr.rowLength = 32;
    op.dst.op.ptr.layerHeight = 16;
    op.extent = (CUextent3D){.width = 16, .height = 8, .depth = 4};
    op.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM;
    OK("up", cuMemcpy3DBatchAsync(1, &op, 0, s));
    OK("sync", cuStreamSynchronize(s));
    memset(&peer, 0, sizeof(peer));
    peer.srcMemoryType = peer.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    peer.srcContext = peer.dstContext = c;
    peer.srcDevice = d;
    peer.dstDevice = e;
    peer.srcPitch = peer.dstPitch = 32;
    peer.srcHeight = peer.dstHeight = 16;
    peer.WidthInBytes = 16;
    peer.Height = 8;
    peer.Depth = 4;
    OK("peer", cuMemcpy3DPeer(&peer));
    OK("peer_async", cuMemcpy3DPeerAsync(&peer, s));
    op.src = op.dst;
    op.src.op.ptr.ptr = e;
    memset(&op.dst, 0, sizeof(op.dst));
    op.dst.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.dst.op.ptr.ptr = (CUdeviceptr)(uintptr_t)back;
    OK("down", cuMemcpy3DBatchAsync(1, &op, 0, s));
    OK("sync_2", cuStreamSynchronize(s));
    ok = !memcmp(host, back, sizeof(host));
    cf_true("content", ok);
    RC("flags", cuMemcpy3DBatchAsync(1, &op, 1, s), CUDA_ERROR_INVALID_VALUE);
    RC("none", cuMemcpy3DBatchAsync(0, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    RC("legacy", cuMemcpy3DBatchAsync(1, &op, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    op.extent.depth = 0;
    RC("extent", cuMemcpy3DBatchAsync(1, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    op.extent.depth = 4;
    op.src.type = (CUmemcpy3DOperandType)77;
    RC("operand", cuMemcpy3DBatchAsync(1, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    op.src.type = CU_MEMCPY_OPERAND_TYPE_POINTER;
    op.src.op.ptr.layerHeight = 4;
    RC("layer", cuMemcpy3DBatchAsync(1, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    op.src.op.ptr.layerHeight = 0;
    op.src.op.ptr.rowLength = 4;
    RC("row", cuMemcpy3DBatchAsync(1, &op, 0, s), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) { /* a GPU's driver crashes */
        RC("peer_null", cuMemcpy3DPeer(NULL), CUDA_ERROR_INVALID_VALUE);
        peer.srcContext = (CUcontext)0x123456;
        RC("peer_context", cuMemcpy3DPeer(&peer), CUDA_ERROR_INVALID_CONTEXT);
    }
    NEED(cuMemFree(d));
    NEED(cuMemFree(e));
    NEED(cuStreamDestroy(s));
}

CASE(stream_attributes, CF_CTX)
{
    CUstream s = NULL, t = NULL;
    CUstreamAttrValue v, got;
    CUcontext c = NULL, now = NULL;
    CUgreenCtx green = (CUgreenCtx)1;
    int least = 0, greatest = 0, p = 9;

    NEED(cuStreamCreate(&s, 0));
    NEED(cuStreamCreate(&t, 0));
    NEED(cuCtxGetCurrent(&now));
    NEED(cuCtxGetStreamPriorityRange(&least, &greatest));
    memset(&v, 0, sizeof(v));
    v.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    OK("set", cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &v));
    OK("get", cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    cf_u64("value", got.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
    OK("copy", cuStreamCopyAttributes(t, s));
    memset(&got, 0, sizeof(got));
    OK("get_copy", cuStreamGetAttribute(t, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    cf_u64("value_copy", got.syncPolicy, CU_SYNC_POLICY_BLOCKING_SYNC);
    v.priority = greatest;
    OK("set_priority", cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, &v));
    OK("get_priority", cuStreamGetPriority(s, &p));
    cf_true("priority", p == greatest);
    RC("unknown", cuStreamSetAttribute(s, (CUstreamAttrID)99, &v), CUDA_ERROR_INVALID_VALUE);
    RC("not_of_streams", cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got),
       CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) { /* a GPU's driver accesses that memory */
        RC("null", cuStreamSetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL), CUDA_ERROR_INVALID_VALUE);
        RC("get_null", cuStreamGetAttribute(s, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL), CUDA_ERROR_INVALID_VALUE);
    }
    OK("ctx", cuStreamGetCtx_v2(s, &c, &green));
    cf_true("ctx_value", c == now && !green);
    NEED(cuStreamDestroy(t));
    if (!cf_real())
        RC("destroyed", cuStreamCopyAttributes(t, s), CUDA_ERROR_INVALID_HANDLE);
    NEED(cuStreamDestroy(s));
}

/* Name of a check for a query: the result, and the bytes written out of 16. */
static void pointer_written(const char *where, bool list, CUpointer_attribute attribute, CUdeviceptr p)
{
    uint8_t a[16], b[16];
    void *to_a = a, *to_b = b;
    char name[80];
    uint64_t mask = 0;
    CUresult r;

    memset(a, 0xee, sizeof(a));
    memset(b, 0x11, sizeof(b));
    r = list ? cuPointerGetAttributes(1, &attribute, &to_a, p) : cuPointerGetAttribute(a, attribute, p);
    if (list)
        cuPointerGetAttributes(1, &attribute, &to_b, p);
    else
        cuPointerGetAttribute(b, attribute, p);
    for (unsigned i = 0; i < sizeof(a); i++)
        mask |= (uint64_t)(a[i] == b[i]) << i;
    snprintf(name, sizeof(name), "%s_%s_%d_%d", where, list ? "list" : "single", (int)attribute, (int)r);
    /*
     * For memory without an address on one side, nothing is written although that is an error
     * (driver 580).
     */
    const bool address =
        attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER || attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER;
    cf_u64(name, mask, r == CUDA_SUCCESS || list || (address && mask == 0xff) ? mask : 0);
}

/* Bytes written by each pointer attribute for each kind of memory; none when refused. */
CASE(pointer_bytes, CF_CTX)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p = 0, m = 0, a = 0, v = 0;
    CUmemGenericAllocationHandle h = 0;
    size_t grain = 0;
    void *host = NULL;
    int plain = 0;

    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAllocAsync(&a, 4096, NULL));
    NEED(cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemGetAllocationGranularity(&grain, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&v, 3 * grain, 0, 0, 0));
    NEED(cuMemCreate(&h, grain, &prop, 0));
    NEED(cuMemMap(v, grain, 0, h, 0));
    NEED(cuMemMap(v + grain, grain, 0, h, 0));
    NEED(cuMemSetAccess(v, grain, &access, 1));
    for (int list = 0; list < 2; list++) {
        for (int i = 0; i <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE + 1; i++) {
            if (i == CU_POINTER_ATTRIBUTE_P2P_TOKENS)
                continue;
            pointer_written("device", list, i, p + 8);
            pointer_written("managed", list, i, m);
            pointer_written("pool", list, i, a);
            pointer_written("pinned", list, i, (CUdeviceptr)(uintptr_t)host + 8);
            pointer_written("mapped", list, i, v);
            pointer_written("no_access", list, i, v + grain);
            pointer_written("reserved", list, i, v + 2 * grain);
            pointer_written("plain", list, i, (CUdeviceptr)(uintptr_t)&plain);
        }
    }
    NEED(cuMemUnmap(v, grain));
    NEED(cuMemUnmap(v + grain, grain));
    NEED(cuMemRelease(h));
    NEED(cuMemAddressFree(v, 3 * grain));
    NEED(cuMemFreeHost(host));
    NEED(cuMemFree(a));
    NEED(cuMemFree(m));
    NEED(cuMemFree(p));
}

CASE(pointer_sync, CF_CTX)
{
    CUdeviceptr p = 0, m = 0;
    unsigned on = 1;
    unsigned got = 0;
    CUstream s = NULL;

    NEED(cuMemAlloc(&p, 256));
    OK("get", cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    cf_u64("off", got & 1, 0);
    OK("set", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    OK("get_2", cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p + 8));
    cf_u64("on", got & 1, 1);
    RC("other", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuPointerSetAttribute(NULL, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p), CUDA_ERROR_INVALID_VALUE);
    RC("unknown", cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, 0x1000),
       CUDA_ERROR_INVALID_VALUE);
    /* Managed memory: advice, which is only a hint, and attachment. */
    NEED(cuMemAllocManaged(&m, 8192, CU_MEM_ATTACH_GLOBAL));
    NEED(cuStreamCreate(&s, 0));
    CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    OK("advise", cuMemAdvise(m, 8192, CU_MEM_ADVISE_SET_READ_MOSTLY, here));
    OK("unadvise", cuMemAdvise(m, 8192, CU_MEM_ADVISE_UNSET_READ_MOSTLY, here));
    RC("advise_past", cuMemAdvise(m, 8193, CU_MEM_ADVISE_SET_READ_MOSTLY, here), CUDA_ERROR_INVALID_VALUE);
    RC("advise_device_memory", cuMemAdvise(p, 256, CU_MEM_ADVISE_SET_READ_MOSTLY, here),
       CUDA_ERROR_INVALID_VALUE);
    RC("advise_unknown", cuMemAdvise(m, 8192, (CUmem_advise)99, here), CUDA_ERROR_INVALID_VALUE);
    OK("attach", cuStreamAttachMemAsync(s, m, 0, CU_MEM_ATTACH_SINGLE));
    OK("attach_whole", cuStreamAttachMemAsync(s, m, 8192, CU_MEM_ATTACH_GLOBAL));
    RC("attach_part", cuStreamAttachMemAsync(s, m, 4096, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_INVALID_VALUE);
    RC("attach_flags", cuStreamAttachMemAsync(s, m, 0, 0x40), CUDA_ERROR_INVALID_VALUE);
    RC("attach_device_memory", cuStreamAttachMemAsync(s, p, 0, CU_MEM_ATTACH_GLOBAL),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(m));
    NEED(cuMemFree(p));
}

CASE(jit_options, CF_CTX)
{
    char info[100] = "x", *error = calloc(1, 20000);
    CUjit_option opt[] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                          CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                          CU_JIT_MAX_REGISTERS,    CU_JIT_OPTIMIZATION_LEVEL,
                          CU_JIT_WALL_TIME};
    void *val[] = {info, (void *)sizeof(info), error, (void *)20000, (void *)64, (void *)3, NULL};
    CUjit_option unknown = (CUjit_option)999;
    CUmodule m = NULL;
    CUlibrary lib = NULL;
    char wrong[] = ".version 7.0\n.target sm_70\n.address_size 64\n"
                   ".visible .entry k() { this is no instruction; }\n";

    OK("module", cuModuleLoadDataEx(&m, cf_ptx, 7, opt, val));
    cf_true("no_error", error[0] == 0);
    OK("unload", cuModuleUnload(m));
    val[1] = (void *)sizeof(info);
    val[3] = (void *)20000;
    OK("library", cuLibraryLoadData(&lib, cf_ptx, opt, val, 7, NULL, NULL, 0));
    OK("library_unload", cuLibraryUnload(lib));
    val[1] = (void *)sizeof(info);
    val[3] = (void *)20000;
    CUresult r = cuModuleLoadDataEx(&m, wrong, 7, opt, val);
    RC_IN("wrong", r, CUDA_ERROR_INVALID_PTX, CUDA_SUCCESS);
    cf_true("wrong_log", r == CUDA_SUCCESS || error[0]);
    cf_true("wrong_size", r == CUDA_SUCCESS || (size_t)val[3] >= strlen(error));
    RC("unknown", cuModuleLoadDataEx(&m, cf_ptx, 1, &unknown, val), CUDA_ERROR_INVALID_VALUE);
    RC("unknown_library", cuLibraryLoadData(&lib, cf_ptx, &unknown, val, 1, NULL, NULL, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("null", cuModuleLoadDataEx(&m, cf_ptx, 1, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
    free(error);
}

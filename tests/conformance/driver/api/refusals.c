/* SPDX-License-Identifier: MIT */
/*
 * Calls that create or query an object: refused twice, then called correctly. Each byte of the
 * output is 0xee before each call; a refusal leaves it unchanged, or zeroes it where NVIDIA's
 * driver does.
 */
#include "conform.h"

#define FILL 0xee
#define NOWHERE ((CUdeviceptr)0x10)

static const CUmemAllocationProp device_memory = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemPoolProps device_pool = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                           .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
static const CUmemAllocationProp no_memory = {.type = 99};
static const CUmemPoolProps no_pool = {.allocType = 99};

static CUstream stream;
static CUevent event;
static CUdeviceptr memory;
static void *pinned;
static CUmemoryPool pool;
static CUgraph graph;
static CUgraphNode node;
static CUfunction function;
static size_t grain;

struct row {
    const char *name;
    size_t size;                          /* size of the output, bytes */
    CUresult (*call)(void *out, bool ok); /* with valid arguments, or with an invalid one */
    CUresult (*undo)(void *out);          /* undoes the successful call; NULL: a query */
    bool zeroed;                          /* true if a refusal zeroes the output */
};

#define CALL(name) static CUresult name(void *out, bool ok)
#define UNDO(name) static CUresult name(void *out)

/* ---- memory ---- */

CALL(alloc)
{
    return cuMemAlloc(out, ok ? 64 : SIZE_MAX);
}
CALL(alloc_async)
{
    return cuMemAllocAsync(out, 64, ok ? stream : (CUstream)(uintptr_t)0x1234567);
}
CALL(alloc_of_pool)
{
    return cuMemAllocFromPoolAsync(out, 64, ok ? pool : NULL, stream);
}
CALL(alloc_managed)
{
    return cuMemAllocManaged(out, 64, ok ? CU_MEM_ATTACH_GLOBAL : CU_MEM_ATTACH_SINGLE);
}
CALL(alloc_host)
{
    return cuMemHostAlloc(out, 64, ok ? 0 : 0x80);
}
CALL(create)
{
    return cuMemCreate(out, grain, ok ? &device_memory : &no_memory, 0);
}
CALL(reserve)
{
    return cuMemAddressReserve(out, ok ? grain : grain - 1, 0, 0, 0);
}
CALL(pool_create)
{
    return cuMemPoolCreate(out, ok ? &device_pool : &no_pool);
}
CALL(device_pointer)
{
    return cuMemHostGetDevicePointer(out, pinned, ok ? 0 : 1);
}
CALL(host_flags)
{
    return cuMemHostGetFlags(out, ok ? pinned : (void *)(uintptr_t)NOWHERE);
}
CALL(range_base)
{
    return cuMemGetAddressRange(out, NULL, ok ? memory : NOWHERE);
}
CALL(range_size)
{
    return cuMemGetAddressRange(NULL, out, ok ? memory : NOWHERE);
}
CALL(granularity)
{
    return cuMemGetAllocationGranularity(out, ok ? &device_memory : NULL, 0);
}
CALL(pool_used)
{
    return cuMemPoolGetAttribute(pool, ok ? CU_MEMPOOL_ATTR_USED_MEM_HIGH : (CUmemPool_attribute)99, out);
}
CALL(pool_of_device)
{
    return cuDeviceGetMemPool(out, ok ? 0 : 77);
}
CALL(pointer_id)
{
    return cuPointerGetAttribute(out, ok ? CU_POINTER_ATTRIBUTE_BUFFER_ID : (CUpointer_attribute)0, memory);
}

UNDO(free_device)
{
    return cuMemFree(*(CUdeviceptr *)out);
}
UNDO(free_async)
{
    return cuMemFreeAsync(*(CUdeviceptr *)out, stream);
}
UNDO(free_host)
{
    return cuMemFreeHost(*(void **)out);
}
UNDO(release)
{
    return cuMemRelease(*(CUmemGenericAllocationHandle *)out);
}
UNDO(unreserve)
{
    return cuMemAddressFree(*(CUdeviceptr *)out, grain);
}
UNDO(pool_destroy)
{
    return cuMemPoolDestroy(*(CUmemoryPool *)out);
}

/* ---- streams, events, graphs ---- */

CALL(stream_create)
{
    return cuStreamCreate(out, ok ? CU_STREAM_NON_BLOCKING : 0x80);
}
CALL(stream_priority)
{
    return cuStreamCreateWithPriority(out, ok ? CU_STREAM_NON_BLOCKING : 0x80, 0);
}
CALL(event_create)
{
    return cuEventCreate(out, ok ? CU_EVENT_DISABLE_TIMING : CU_EVENT_INTERPROCESS);
}
CALL(elapsed)
{
    return cuEventElapsedTime(out, event, ok ? event : NULL);
}
CALL(stream_flags)
{
    return cuStreamGetFlags(ok ? stream : (CUstream)(uintptr_t)0x1234567, out);
}
CALL(stream_level)
{
    return cuStreamGetPriority(ok ? stream : (CUstream)(uintptr_t)0x1234567, out);
}
CALL(stream_id)
{
    return cuStreamGetId(ok ? stream : (CUstream)(uintptr_t)0x1234567, out);
}
CALL(capturing)
{
    return cuStreamIsCapturing(ok ? stream : (CUstream)(uintptr_t)0x1234567, out);
}
CALL(graph_create)
{
    return cuGraphCreate(out, ok ? 0 : 1);
}
CALL(graph_clone)
{
    return cuGraphClone(out, ok ? graph : NULL);
}
CALL(instantiate)
{
    return cuGraphInstantiate(out, ok ? graph : NULL, 0);
}
CALL(empty_node)
{
    return cuGraphAddEmptyNode(out, ok ? graph : NULL, NULL, 0);
}
CALL(node_type)
{
    return cuGraphNodeGetType(ok ? node : NULL, out);
}

UNDO(stream_destroy)
{
    return cuStreamDestroy(*(CUstream *)out);
}
UNDO(event_destroy)
{
    return cuEventDestroy(*(CUevent *)out);
}
UNDO(graph_destroy)
{
    return cuGraphDestroy(*(CUgraph *)out);
}
UNDO(exec_destroy)
{
    return cuGraphExecDestroy(*(CUgraphExec *)out);
}
UNDO(node_destroy)
{
    return cuGraphDestroyNode(*(CUgraphNode *)out);
}

/* ---- code, devices, contexts ---- */

CALL(module_load)
{
    return cuModuleLoadData(out, ok ? cf_ptx : "no image");
}
CALL(library_load)
{
    return cuLibraryLoadData(out, ok ? cf_ptx : "no image", NULL, NULL, 0, NULL, NULL, 0);
}
CALL(module_function)
{
    return cuModuleGetFunction(out, cf_module(), ok ? "k_nop" : "k_none");
}
CALL(global_address)
{
    return cuModuleGetGlobal(out, NULL, cf_module(), ok ? "g_counter" : "g_none");
}
CALL(global_size)
{
    return cuModuleGetGlobal(NULL, out, cf_module(), ok ? "g_counter" : "g_none");
}
CALL(function_name)
{
    return cuFuncGetName(out, ok ? function : NULL);
}
CALL(function_value)
{
    return cuFuncGetAttribute(out, ok ? CU_FUNC_ATTRIBUTE_NUM_REGS : (CUfunction_attribute)99, function);
}
CALL(function_module)
{
    return cuFuncGetModule(out, ok ? function : NULL);
}
CALL(parameter)
{
    return cuFuncGetParamInfo(function, ok ? 0 : 99, out, NULL);
}
CALL(blocks)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(out, function, ok ? 64 : 0, 0);
}
CALL(shared)
{
    return cuOccupancyAvailableDynamicSMemPerBlock(out, function, ok ? 1 : 0, 64);
}
CALL(device_value)
{
    return cuDeviceGetAttribute(out, ok ? 1 : (CUdevice_attribute)0, 0);
}
CALL(device_memory_size)
{
    return cuDeviceTotalMem(out, ok ? 0 : 77);
}
CALL(device_uuid)
{
    return cuDeviceGetUuid(out, ok ? 0 : 77);
}
CALL(retain)
{
    return cuDevicePrimaryCtxRetain(out, ok ? 0 : 77);
}
CALL(limit)
{
    return cuCtxGetLimit(out, ok ? CU_LIMIT_MALLOC_HEAP_SIZE : (CUlimit)99);
}
CALL(version)
{
    return cuCtxGetApiVersion(ok ? NULL : (CUcontext)(uintptr_t)0x1234567, out);
}
CALL(array_create)
{
    const CUDA_ARRAY_DESCRIPTOR d = {
        .Width = ok ? 16 : 0, .Format = CU_AD_FORMAT_UNSIGNED_INT8, .NumChannels = 1};

    return cuArrayCreate(out, &d);
}
CALL(texture_create)
{
    const CUDA_TEXTURE_DESC how = {.flags = CU_TRSF_READ_AS_INTEGER};
    CUDA_RESOURCE_DESC r = {
        .resType = ok ? CU_RESOURCE_TYPE_LINEAR : (CUresourcetype)(CU_RESOURCE_TYPE_PITCH2D + 1),
        .res.linear = {
            .devPtr = memory, .format = CU_AD_FORMAT_UNSIGNED_INT8, .numChannels = 1, .sizeInBytes = 64}};

    return cuTexObjectCreate(out, &r, &how, NULL);
}

UNDO(module_unload)
{
    return cuModuleUnload(*(CUmodule *)out);
}
UNDO(library_unload)
{
    return cuLibraryUnload(*(CUlibrary *)out);
}
UNDO(array_destroy)
{
    return cuArrayDestroy(*(CUarray *)out);
}
UNDO(texture_destroy)
{
    return cuTexObjectDestroy(*(CUtexObject *)out);
}
UNDO(let_go)
{
    (void)out;
    return cuDevicePrimaryCtxRelease(0);
}

#define ROW(name, type, undo, zeroed) \
    { \
#name, sizeof(type), name, undo, zeroed \
    }
static const struct row rows[] = {
    ROW(alloc, CUdeviceptr, free_device, true),
    ROW(alloc_async, CUdeviceptr, free_async, false),
    ROW(alloc_of_pool, CUdeviceptr, free_async, false),
    ROW(alloc_managed, CUdeviceptr, free_device, true),
    ROW(alloc_host, void *, free_host, true),
    ROW(create, CUmemGenericAllocationHandle, release, false),
    ROW(reserve, CUdeviceptr, unreserve, false),
    ROW(pool_create, CUmemoryPool, pool_destroy, false),
    ROW(device_pointer, CUdeviceptr, NULL, false),
    ROW(host_flags, unsigned, NULL, false),
    ROW(range_base, CUdeviceptr, NULL, true),
    ROW(range_size, size_t, NULL, true),
    ROW(granularity, size_t, NULL, false),
    ROW(pool_used, cuuint64_t, NULL, false),
    ROW(pool_of_device, CUmemoryPool, NULL, false),
    ROW(pointer_id, uint64_t, NULL, false),
    ROW(stream_create, CUstream, stream_destroy, false),
    ROW(stream_priority, CUstream, stream_destroy, false),
    ROW(event_create, CUevent, event_destroy, false),
    ROW(elapsed, float, NULL, false),
    ROW(stream_flags, unsigned, NULL, false),
    ROW(stream_level, int, NULL, false),
    ROW(stream_id, unsigned long long, NULL, false),
    ROW(capturing, CUstreamCaptureStatus, NULL, false),
    ROW(graph_create, CUgraph, graph_destroy, false),
    ROW(graph_clone, CUgraph, graph_destroy, false),
    ROW(instantiate, CUgraphExec, exec_destroy, false),
    ROW(empty_node, CUgraphNode, node_destroy, false),
    ROW(node_type, CUgraphNodeType, NULL, false),
    ROW(module_load, CUmodule, module_unload, false),
    ROW(library_load, CUlibrary, library_unload, false),
    ROW(module_function, CUfunction, NULL, true),
    ROW(global_address, CUdeviceptr, NULL, true),
    ROW(global_size, size_t, NULL, true),
    ROW(function_name, const char *, NULL, false),
    ROW(function_value, int, NULL, false),
    ROW(function_module, CUmodule, NULL, false),
    ROW(parameter, size_t, NULL, false),
    ROW(blocks, int, NULL, false),
    ROW(shared, size_t, NULL, false),
    ROW(device_value, int, NULL, false),
    ROW(device_memory_size, size_t, NULL, true),
    ROW(device_uuid, CUuuid, NULL, false),
    ROW(retain, CUcontext, let_go, false),
    ROW(limit, size_t, NULL, false),
    ROW(version, unsigned, NULL, false),
    ROW(array_create, CUarray, array_destroy, false),
    ROW(texture_create, CUtexObject, texture_destroy, false),
};

static char label[80];

static const char *check_name(const struct row *r, const char *what)
{
    snprintf(label, sizeof(label), "%s_%s", r->name, what);
    return label;
}

static bool each_byte_is(const unsigned char *p, size_t from, size_t to, unsigned char value)
{
    while (from < to && p[from] == value)
        from++;
    return from == to;
}

static void refuse_twice(const struct row *r)
{
    _Alignas(16) unsigned char out[64];
    unsigned as_said = 0;
    CUresult first = CUDA_SUCCESS, again;

    for (int i = 0; i < 2; i++) {
        memset(out, FILL, sizeof(out));
        again = r->call(out, false);
        first = i == 0 ? again : first;
        as_said += again == first && each_byte_is(out, 0, r->size, r->zeroed ? 0 : FILL) &&
                   each_byte_is(out, r->size, sizeof(out), FILL);
    }
    cf_true(check_name(r, "refused"), first != CUDA_SUCCESS);
    cf_str(check_name(r, "code"), cf_result_name(first), cf_result_name(first));
    cf_u64(check_name(r, "output"), as_said, 2);
    memset(out, FILL, sizeof(out));
    if (!OK(check_name(r, "right"), r->call(out, true)))
        return;
    cf_true(check_name(r, "given"), !each_byte_is(out, 0, r->size, FILL));
    cf_true(check_name(r, "behind"), each_byte_is(out, r->size, sizeof(out), FILL));
    if (r->undo != NULL)
        OK(check_name(r, "undone"), r->undo(out));
}

CASE(refusals_outputs, CF_CTX | CF_UB)
{
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&event, 0));
    NEED(cuEventRecord(event, stream));
    NEED(cuStreamSynchronize(stream));
    NEED(cuMemAlloc(&memory, 64));
    NEED(cuMemAllocHost(&pinned, 64));
    NEED(cuMemPoolCreate(&pool, &device_pool));
    NEED(cuMemGetAllocationGranularity(&grain, &device_memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuGraphCreate(&graph, 0));
    NEED(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    function = cf_func("k_fill");
    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        refuse_twice(&rows[i]);
    NEED(cuStreamSynchronize(stream));
    NEED(cuGraphDestroy(graph));
    NEED(cuMemPoolDestroy(pool));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(memory));
    NEED(cuEventDestroy(event));
    NEED(cuStreamDestroy(stream));
}

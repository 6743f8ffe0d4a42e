/* SPDX-License-Identifier: MIT */
/*
 * Valid arguments: objects of every kind, memory, callbacks; and the check that the library still
 * works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "walk.h"

#define MEMORY (64u << 10)
#define ARENA (256u << 20)

/* k_none does nothing; k_fill writes p[i] = i + v. */
const char wk_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                      ".global .align 4 .b8 g_words[64];\n"
                      ".global .texref t_ref;\n"
                      ".global .surfref s_ref;\n"
                      ".visible .entry k_none()\n{\n    ret;\n}\n"
                      ".visible .entry k_fill(.param .u64 p, .param .u32 v)\n{\n"
                      "    .reg .b32 %r<6>;\n    .reg .b64 %rd<4>;\n"
                      "    ld.param.u64 %rd1, [p];\n    ld.param.u32 %r1, [v];\n"
                      "    mov.u32 %r2, %tid.x;\n    add.u32 %r3, %r2, %r1;\n"
                      "    mul.wide.u32 %rd2, %r2, 4;\n    add.u64 %rd3, %rd1, %rd2;\n"
                      "    st.global.u32 [%rd3], %r3;\n    ret;\n}\n";

static CUcontext context;
static CUmodule module;
static CUlibrary library;
static struct foreign {
    CUcontext context;
    CUmodule module;
} foreign; /* objects of another context are created in it */
static CUdeviceptr ones;
static unsigned char *arena;
static size_t arena_used;

void *wk_arena(size_t bytes)
{
    void *p;

    bytes = (bytes + 4095) & ~(size_t)4095;
    if (arena == NULL) {
        arena = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED)
            abort();
    }
    if (arena_used + bytes > ARENA)
        abort();
    p = arena + arena_used;
    arena_used += bytes;
    return p;
}

void wk_arena_reset(void)
{
    /* Pages are released and read as zeroes again; the addresses stay mapped. */
    if (arena != NULL && arena_used > 0)
        madvise(arena, arena_used, MADV_DONTNEED);
    arena_used = 0;
}

bool wk_arena_holds(uint64_t address)
{
    return address - (uint64_t)(uintptr_t)arena < arena_used;
}

static void nothing(void *user)
{
    (void)user;
}

/* Returns 0, so it serves as CUoccupancyB2DSize as well. */
static size_t nothing_at_all(void *a, void *b, void *c, void *d)
{
    (void)a;
    (void)b;
    (void)c;
    (void)d;
    return 0;
}

uint64_t wk_callback(void)
{
    return (uint64_t)(uintptr_t)nothing_at_all;
}

bool wk_live_start(void)
{
    CUcontext now = NULL;

    if (context != NULL && cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == context &&
        cuCtxSynchronize() == CUDA_SUCCESS && cuMemsetD32(ones, 1, MEMORY / 4) == CUDA_SUCCESS)
        return true;
    module = NULL;
    library = NULL;
    ones = 0;
    return cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
           cuCtxSetCurrent(context) == CUDA_SUCCESS && cuMemAlloc(&ones, MEMORY) == CUDA_SUCCESS &&
           cuMemsetD32(ones, 1, MEMORY / 4) == CUDA_SUCCESS &&
           cuModuleLoadData(&module, wk_ptx) == CUDA_SUCCESS &&
           cuLibraryLoadData(&library, wk_ptx, NULL, NULL, 0, NULL, NULL, 0) == CUDA_SUCCESS;
}

void wk_live_enter(void)
{
    cuCtxSetCurrent(context);
}

static const char *entry = "";

static bool entry_has(const char *part)
{
    return strstr(entry, part) != NULL;
}

/* Returns an address of cuMemAddressReserve, with memory behind it unless the call is to map it. */
static CUdeviceptr mapping(void)
{
    CUmemAccessDesc rw = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                          .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle h;
    CUdeviceptr p = 0;

    if (cuMemAddressReserve(&p, WK_MAPPING, 0, 0, 0) != CUDA_SUCCESS)
        return 0;
    if (!entry_has("cuMemMap") && !entry_has("AddressFree") &&
        cuMemCreate(&h, WK_MAPPING, &prop, 0) == CUDA_SUCCESS) {
        cuMemMap(p, WK_MAPPING, 0, h, 0);
        cuMemSetAccess(p, WK_MAPPING, &rw, 1);
        cuMemRelease(h);
    }
    return p;
}

uint64_t wk_pinned_memory(bool registered)
{
    void *p = NULL;

    if (!registered)
        return cuMemHostAlloc(&p, MEMORY, 0) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)p : 0;
    p = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && cuMemHostRegister(p, MEMORY, 0) == CUDA_SUCCESS ? (uint64_t)(uintptr_t)p : 0;
}

const char *wk_bus_id(void)
{
    static char id[32];

    return cuDeviceGetPCIBusId(id, sizeof(id), 0) == CUDA_SUCCESS ? id : "";
}

uint64_t wk_live_memory(void)
{
    CUdeviceptr p = 0;

    if (entry_has("cuMemMap") || entry_has("cuMemUnmap") || entry_has("cuMemSetAccess") ||
        entry_has("cuMemGetAccess") || entry_has("cuMemAddress"))
        return mapping();
    if ((entry_has("Advise") || entry_has("Prefetch") || entry_has("RangeGet") || entry_has("AttachMem") ||
         entry_has("Discard")) &&
        cuMemAllocManaged(&p, MEMORY, CU_MEM_ATTACH_GLOBAL) == CUDA_SUCCESS)
        return p;

    /* Separate memory each time, as the call may free it. */
    if (cuMemAlloc(&p, MEMORY) != CUDA_SUCCESS)
        return ones;
    cuMemsetD32(p, 1, MEMORY / 4);
    return p;
}

uint64_t wk_freed_memory(void)
{
    CUdeviceptr p = 0;

    if (cuMemAlloc(&p, MEMORY) == CUDA_SUCCESS)
        cuMemFree(p);
    return p;
}

/* ---- one function per kind of object ---- */

typedef bool (*make_fn)(uint64_t *out);

#define MAKE(kind, type, call) \
    static bool make_##kind(uint64_t *out) \
    { \
        type made = 0; \
        if ((call) != CUDA_SUCCESS) \
            return false; \
        *out = (uint64_t)(uintptr_t)made; \
        return true; \
    }

static const CUDA_ARRAY_DESCRIPTOR small_array = {256, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
static const CUDA_ARRAY3D_DESCRIPTOR small_mipmap = {16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0};

/* Graph of one call: nodes and executable graphs belong to it. */
static CUgraph call_graph;
static CUgraphNode call_node;

static CUgraph the_graph(void)
{
    if (call_graph == NULL)
        cuGraphCreate(&call_graph, 0);
    return call_graph;
}

/* Creates a node of the type that the entry point handles. */
static CUresult make_typed(CUgraphNode *node, CUgraph g)
{
    CUDA_KERNEL_NODE_PARAMS kernel = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1, .blockDimZ = 1};
    CUDA_MEMSET_NODE_PARAMS set = {.dst = ones, .elementSize = 4, .width = 1, .height = 1, .value = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = ones,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = ones + 4096,
                          .WidthInBytes = 64,
                          .Height = 1,
                          .Depth = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing};
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = 4096};
    CUstreamBatchMemOpParams op = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = ones, .value = 1}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.ctx = context, .count = 1, .paramArray = &op};
    CUgraph child;
    CUevent event;

    if (entry_has("KernelNode") || entry_has("NodeSetParams") || entry_has("NodeSetEnabled") ||
        entry_has("NodeGetEnabled"))
        if (!entry_has("Memset") && !entry_has("Memcpy") && !entry_has("Host") && !entry_has("ChildGraph") &&
            !entry_has("BatchMem"))
            return cuModuleGetFunction(&kernel.func, module, "k_none") == CUDA_SUCCESS
                       ? cuGraphAddKernelNode(node, g, NULL, 0, &kernel)
                       : CUDA_ERROR_UNKNOWN;
    if (entry_has("MemsetNode"))
        return cuGraphAddMemsetNode(node, g, NULL, 0, &set, context);
    if (entry_has("MemcpyNode"))
        return cuGraphAddMemcpyNode(node, g, NULL, 0, &copy, context);
    if (entry_has("HostNode"))
        return cuGraphAddHostNode(node, g, NULL, 0, &host);
    if (entry_has("BatchMemOpNode"))
        return cuGraphAddBatchMemOpNode(node, g, NULL, 0, &batch);
    if (entry_has("MemAllocNode"))
        return cuGraphAddMemAllocNode(node, g, NULL, 0, &alloc);
    if (entry_has("ChildGraphNode"))
        return cuGraphCreate(&child, 0) == CUDA_SUCCESS ? cuGraphAddChildGraphNode(node, g, NULL, 0, child)
                                                        : CUDA_ERROR_UNKNOWN;
    if (entry_has("EventRecordNode") || entry_has("EventWaitNode")) {
        if (cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS)
            return CUDA_ERROR_UNKNOWN;
        return entry_has("Wait") ? cuGraphAddEventWaitNode(node, g, NULL, 0, event)
                                 : cuGraphAddEventRecordNode(node, g, NULL, 0, event);
    }
    return cuGraphAddEmptyNode(node, g, NULL, 0);
}

/*
 * The first node is for the call; further nodes (for lists, and to be destroyed) are empty nodes.
 */
static CUresult make_node(CUgraphNode *node)
{
    if (call_node != NULL)
        return cuGraphAddEmptyNode(node, the_graph(), NULL, 0);
    if (make_typed(&call_node, the_graph()) != CUDA_SUCCESS &&
        cuGraphAddEmptyNode(&call_node, the_graph(), NULL, 0) != CUDA_SUCCESS)
        call_node = NULL;
    *node = call_node;
    return call_node != NULL ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

void wk_live_begin(const char *name)
{
    entry = name;
    call_graph = NULL;
    call_node = NULL;
}

static CUresult make_pool(CUmemoryPool *pool)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

    return cuMemPoolCreate(pool, &props);
}

static CUresult make_physical(CUmemGenericAllocationHandle *handle)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    size_t size = 0;
    CUresult r = cuMemGetAllocationGranularity(&size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

    return r == CUDA_SUCCESS ? cuMemCreate(handle, size, &prop, 0) : r;
}

static CUresult view_of_array(CUtexObject *texture, CUsurfObject *surface)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC view = {.filterMode = CU_TR_FILTER_MODE_POINT};
    CUDA_ARRAY3D_DESCRIPTOR shape = {16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1, CUDA_ARRAY3D_SURFACE_LDST};
    CUresult r = cuArray3DCreate(&resource.res.array.hArray, &shape);

    if (r != CUDA_SUCCESS)
        return r;
    return texture != NULL ? cuTexObjectCreate(texture, &resource, &view, NULL)
                           : cuSurfObjectCreate(surface, &resource);
}

void wk_resource(void *out)
{
    cuDeviceGetDevResource(0, out, CU_DEV_RESOURCE_TYPE_SM);
}

static CUresult make_desc(CUdevResourceDesc *desc)
{
    CUdevResource all;
    CUresult r = cuDeviceGetDevResource(0, &all, CU_DEV_RESOURCE_TYPE_SM);

    return r == CUDA_SUCCESS ? cuDevResourceGenerateDesc(desc, &all, 1) : r;
}

static CUresult make_green_context(CUgreenCtx *green)
{
    CUdevResourceDesc desc;
    CUresult r = make_desc(&desc);

    return r == CUDA_SUCCESS ? cuGreenCtxCreate(green, desc, 0, CU_GREEN_CTX_DEFAULT_STREAM) : r;
}

MAKE(desc_handle, CUdevResourceDesc, make_desc(&made))
MAKE(green, CUgreenCtx, make_green_context(&made))
MAKE(stream, CUstream, cuStreamCreate(&made, CU_STREAM_NON_BLOCKING))
MAKE(event, CUevent, cuEventCreate(&made, CU_EVENT_DEFAULT))
MAKE(module, CUmodule, cuModuleLoadData(&made, wk_ptx))
MAKE(library, CUlibrary, cuLibraryLoadData(&made, wk_ptx, NULL, NULL, 0, NULL, NULL, 0))
MAKE(function, CUfunction, cuModuleGetFunction(&made, module, "k_none"))
MAKE(kernel, CUkernel, cuLibraryGetKernel(&made, library, "k_none"))
MAKE(array, CUarray, cuArrayCreate(&made, &small_array))
MAKE(mipmap, CUmipmappedArray, cuMipmappedArrayCreate(&made, &small_mipmap, 2))
MAKE(texref, CUtexref, cuModuleGetTexRef(&made, module, "t_ref"))
MAKE(surfref, CUsurfref, cuModuleGetSurfRef(&made, module, "s_ref"))
MAKE(texture, CUtexObject, view_of_array(&made, NULL))
MAKE(surface, CUsurfObject, view_of_array(NULL, &made))
MAKE(node_of_graph, CUgraphNode, make_node(&made))
MAKE(pool_handle, CUmemoryPool, make_pool(&made))
MAKE(object, CUuserObject, cuUserObjectCreate(&made, NULL, nothing, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
MAKE(link, CUlinkState, cuLinkCreate(0, NULL, NULL, &made))
MAKE(physical_handle, CUmemGenericAllocationHandle, make_physical(&made))

static bool make_context(uint64_t *out)
{
    *out = (uint64_t)(uintptr_t)context;
    return true;
}

static bool make_graph(uint64_t *out)
{
    *out = (uint64_t)(uintptr_t)the_graph();
    return *out != 0;
}

static bool make_dead_graph(uint64_t *out)
{
    CUgraph g;

    if (cuGraphCreate(&g, 0) != CUDA_SUCCESS || cuGraphDestroy(g) != CUDA_SUCCESS)
        return false;
    *out = (uint64_t)(uintptr_t)g;
    return true;
}

static bool make_exec(uint64_t *out)
{
    CUgraphNode node;
    CUgraphExec exec = NULL;

    if ((call_node == NULL && make_node(&node) != CUDA_SUCCESS) ||
        cuGraphInstantiate(&exec, the_graph(), 0) != CUDA_SUCCESS)
        return false;
    *out = (uint64_t)(uintptr_t)exec;
    return true;
}

/* ---- one function per kind to destroy it ---- */

#define END(kind, call) \
    static void end_##kind(uint64_t h) \
    { \
        (void)(call); \
    }

#define AS(type) ((type)(uintptr_t)h)
END(green, cuGreenCtxDestroy(AS(CUgreenCtx)))
END(stream, cuStreamDestroy(AS(CUstream)))
END(event, cuEventDestroy(AS(CUevent)))
END(module, cuModuleUnload(AS(CUmodule)))
END(library, cuLibraryUnload(AS(CUlibrary)))
END(array, cuArrayDestroy(AS(CUarray)))
END(mipmap, cuMipmappedArrayDestroy(AS(CUmipmappedArray)))
END(texture, cuTexObjectDestroy(h))
END(surface, cuSurfObjectDestroy(h))
END(node, cuGraphDestroyNode(AS(CUgraphNode)))
END(exec, cuGraphExecDestroy(AS(CUgraphExec)))
END(pool, cuMemPoolDestroy(AS(CUmemoryPool)))
END(object, cuUserObjectRelease(AS(CUuserObject), 1))
END(link, cuLinkDestroy(AS(CUlinkState)))
END(physical, cuMemRelease(h))

/* A function or kernel ends with its module. */
static bool make_dead_function(uint64_t *out)
{
    CUmodule m;
    CUfunction f;

    if (cuModuleLoadData(&m, wk_ptx) != CUDA_SUCCESS ||
        cuModuleGetFunction(&f, m, "k_none") != CUDA_SUCCESS || cuModuleUnload(m) != CUDA_SUCCESS)
        return false;
    *out = (uint64_t)(uintptr_t)f;
    return true;
}

static bool make_dead_kernel(uint64_t *out)
{
    CUlibrary l;
    CUkernel k;

    if (cuLibraryLoadData(&l, wk_ptx, NULL, NULL, 0, NULL, NULL, 0) != CUDA_SUCCESS ||
        cuLibraryGetKernel(&k, l, "k_none") != CUDA_SUCCESS || cuLibraryUnload(l) != CUDA_SUCCESS)
        return false;
    *out = (uint64_t)(uintptr_t)k;
    return true;
}

static bool make_dead_context(uint64_t *out)
{
    CUcontext c;

    if (cuCtxCreate(&c, NULL, 0, 0) != CUDA_SUCCESS || cuCtxDestroy(c) != CUDA_SUCCESS)
        return false;
    *out = (uint64_t)(uintptr_t)c;
    return cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

static const struct {
    const char *kind;
    make_fn make, make_dead;
    void (*end)(uint64_t);
} objects[] = {
    {"CUcontext", make_context, make_dead_context, NULL},
    {"CUstream", make_stream, NULL, end_stream},
    {"CUevent", make_event, NULL, end_event},
    {"CUmodule", make_module, NULL, end_module},
    {"CUlibrary", make_library, NULL, end_library},
    {"CUfunction", make_function, make_dead_function, NULL},
    {"CUkernel", make_kernel, make_dead_kernel, NULL},
    {"CUarray", make_array, NULL, end_array},
    {"CUmipmappedArray", make_mipmap, NULL, end_mipmap},
    {"CUtexref", make_texref, NULL, NULL},
    {"CUsurfref", make_surfref, NULL, NULL},
    {"CUtexObject", make_texture, NULL, end_texture},
    {"CUsurfObject", make_surface, NULL, end_surface},
    {"CUgraph", make_graph, make_dead_graph, NULL},
    {"CUgraphNode", make_node_of_graph, NULL, end_node},
    {"CUgraphExec", make_exec, NULL, end_exec},
    {"CUmemoryPool", make_pool_handle, NULL, end_pool},
    {"CUgreenCtx", make_green, NULL, end_green},
    {"CUdevResourceDesc", make_desc_handle, NULL, NULL},
    {"CUuserObject", make_object, NULL, end_object},
    {"CUlinkState", make_link, NULL, end_link},
    {"CUmemGenericAllocationHandle", make_physical_handle, NULL, end_physical},
};

#define OBJECTS (sizeof(objects) / sizeof(objects[0]))

static int find(unsigned kind)
{
    for (unsigned i = 0; i < OBJECTS; i++) {
        if (strcmp(objects[i].kind, wk_kinds[kind]) == 0)
            return (int)i;
    }
    return -1;
}

uint64_t wk_live_handle(unsigned kind)
{
    int i = find(kind);
    uint64_t h = 0;

    return i >= 0 && objects[i].make(&h) ? h : 0;
}

uint64_t wk_destroyed_handle(unsigned kind)
{
    int i = find(kind);
    uint64_t h = 0;

    if (i < 0)
        return 0;
    if (objects[i].make_dead != NULL)
        return objects[i].make_dead(&h) ? h : 0;
    if (objects[i].end == NULL || !objects[i].make(&h))
        return 0;
    objects[i].end(h);
    return h;
}

uint64_t wk_other_handle(unsigned kind)
{
    uint64_t h = 0;

    /* An event, and for events a stream; functions and kernels are used for each other. */
    if (strcmp(wk_kinds[kind], "CUevent") == 0)
        make_stream(&h);
    else
        make_event(&h);
    return h;
}

/* Makes the second context current; false if there is none. */
static bool enter_foreign(void)
{
    if (foreign.context != NULL && cuCtxPushCurrent(foreign.context) == CUDA_SUCCESS)
        return true;
    foreign.context = NULL;
    if (cuCtxCreate(&foreign.context, NULL, 0, 0) != CUDA_SUCCESS)
        return false;
    return cuModuleLoadData(&foreign.module, wk_ptx) == CUDA_SUCCESS;
}

uint64_t wk_foreign_handle(unsigned kind)
{
    const CUmodule own_module = module;
    const CUgraph own_graph = call_graph;
    const CUgraphNode own_node = call_node;
    CUcontext now;
    uint64_t h = 0;

    if (!enter_foreign())
        return 0;
    if (strcmp(wk_kinds[kind], "CUcontext") == 0) {
        h = (uint64_t)(uintptr_t)foreign.context;
    } else {
        module = foreign.module;
        call_graph = NULL;
        call_node = NULL;
        h = wk_live_handle(kind);
    }
    module = own_module;
    call_graph = own_graph;
    call_node = own_node;
    cuCtxPopCurrent(&now);
    return h;
}

bool wk_of_context(unsigned kind)
{
    static const char *const free_kinds[] = {
        "CUlibrary",         "CUkernel",     "CUgraph",
        "CUgraphNode",       "CUmemoryPool", "CUgreenCtx",
        "CUdevResourceDesc", "CUuserObject", "CUmemGenericAllocationHandle"};

    for (unsigned i = 0; i < sizeof(free_kinds) / sizeof(free_kinds[0]); i++) {
        if (strcmp(wk_kinds[kind], free_kinds[i]) == 0)
            return false;
    }
    return find(kind) >= 0;
}

bool wk_works(void)
{
    uint32_t words[64], v = 7;
    CUdeviceptr p = 0;
    CUfunction f;
    void *params[] = {&p, &v};
    bool ok;

    if (!wk_live_start() || cuModuleGetFunction(&f, module, "k_fill") != CUDA_SUCCESS ||
        cuMemAlloc(&p, sizeof(words)) != CUDA_SUCCESS)
        return false;
    ok = cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL) == CUDA_SUCCESS &&
         cuMemcpyDtoH(words, p, sizeof(words)) == CUDA_SUCCESS;
    for (uint32_t i = 0; ok && i < 64; i++)
        ok = words[i] == i + v;
    return cuMemFree(p) == CUDA_SUCCESS && ok;
}

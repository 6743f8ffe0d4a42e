// SPDX-License-Identifier: MIT
/*
 * Structures filled in by calls: each byte, including padding, is unchanged or depends on the
 * object alone, never on old contents of the stack.
 */
#include "conform.h"

#define ROOM 1024u
#define STACK (24u << 10)

static CUarray array;
static CUtexObject texture;
static CUsurfObject surface;
static CUmemGenericAllocationHandle physical;
static CUgraph graph;
static CUgraphNode copy_node, set_node, kernel_node, host_node, alloc_node;
static CUstream stream;
static CUmemoryPool pool;
static CUdeviceptr memory;
static CUfunction function;
static CUcontext context;

static __attribute__((noinline)) void dirty(uint8_t v)
{
    uint8_t room[STACK];

    memset(room, v, sizeof(room));
    __asm__ volatile("" : : "r"(room) : "memory");
}

/*
 * True if `get` succeeds, and returns the same bytes for different old contents of stack and
 * structure.
 */
static void given(const char *name, CUresult (*get)(void *out), size_t size)
{
    static const uint8_t stack[3] = {0x11, 0x77, 0xee}, before[3] = {0xa5, 0x5a, 0xa5};
    static uint8_t out[3][ROOM] __attribute__((aligned(16)));
    unsigned odd = 0, beyond = 0;
    char check[64];

    for (unsigned i = 0; i < 3; i++) {
        memset(out[i], before[i], ROOM);
        dirty(stack[i]);
        snprintf(check, sizeof(check), "%s_call", name);
        if (!OK(check, get(out[i])))
            return;
    }
    for (size_t at = 0; at < ROOM; at++) {
        const bool left = out[0][at] == before[0] && out[1][at] == before[1] && out[2][at] == before[2];
        const bool same = out[0][at] == out[1][at] && out[1][at] == out[2][at];

        odd += at < size && !left && !same;
        beyond += at >= size && !left;
    }
    snprintf(check, sizeof(check), "%s_bytes", name);
    cf_u64(check, odd, 0);
    snprintf(check, sizeof(check), "%s_beyond", name);
    cf_u64(check, beyond, 0);
}

#define GET(ident, type, call) \
    static CUresult get_##ident(void *out) \
    { \
        type *p = out; \
        return call; \
    }

GET(array, CUDA_ARRAY_DESCRIPTOR, cuArrayGetDescriptor(p, array))
GET(array3d, CUDA_ARRAY3D_DESCRIPTOR, cuArray3DGetDescriptor(p, array))
GET(resource, CUDA_RESOURCE_DESC, cuTexObjectGetResourceDesc(p, texture))
GET(sampler, CUDA_TEXTURE_DESC, cuTexObjectGetTextureDesc(p, texture))
GET(view, CUDA_RESOURCE_VIEW_DESC, cuTexObjectGetResourceViewDesc(p, texture))
GET(surface, CUDA_RESOURCE_DESC, cuSurfObjectGetResourceDesc(p, surface))
GET(physical, CUmemAllocationProp, cuMemGetAllocationPropertiesFromHandle(p, physical))
GET(copy_node, CUDA_MEMCPY3D, cuGraphMemcpyNodeGetParams(copy_node, p))
GET(set_node, CUDA_MEMSET_NODE_PARAMS, cuGraphMemsetNodeGetParams(set_node, p))
static CUresult get_kernel_node(void *out)
{
    CUDA_KERNEL_NODE_PARAMS *p = out;
    CUresult r = cuGraphKernelNodeGetParams(kernel_node, p);

    p->kernelParams = NULL; /* may be a different copy each time */
    return r;
}

GET(host_node, CUDA_HOST_NODE_PARAMS, cuGraphHostNodeGetParams(host_node, p))
GET(alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS, cuGraphMemAllocNodeGetParams(alloc_node, p))
GET(kernel_value, CUlaunchAttributeValue,
    cuGraphKernelNodeGetAttribute(kernel_node, CU_LAUNCH_ATTRIBUTE_PRIORITY, p))
GET(stream_value, CUlaunchAttributeValue,
    cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, p))
GET(window, CUlaunchAttributeValue, cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW, p))
GET(uuid, CUuuid, cuDeviceGetUuid(p, 0))
GET(sms, CUdevResource, cuDeviceGetDevResource(0, p, CU_DEV_RESOURCE_TYPE_SM))
GET(context_sms, CUdevResource, cuCtxGetDevResource(context, p, CU_DEV_RESOURCE_TYPE_SM))
GET(affinity, CUexecAffinityParam, cuCtxGetExecAffinity(p, CU_EXEC_AFFINITY_TYPE_SM_COUNT))
GET(ipc_memory, CUipcMemHandle, cuIpcGetMemHandle(p, memory))
GET(threshold, cuuint64_t, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, p))
GET(reuse, int, cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES, p))
GET(memory_type, unsigned, cuPointerGetAttribute(p, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory))
GET(managed, unsigned, cuPointerGetAttribute(p, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory))
GET(size, size_t, cuPointerGetAttribute(p, CU_POINTER_ATTRIBUTE_RANGE_SIZE, memory))
GET(function, int, cuFuncGetAttribute(p, CU_FUNC_ATTRIBUTE_NUM_REGS, function))

static void CUDA_CB nothing(void *p)
{
    (void)p;
}

/* The texture has a view; the nodes have no default parameters. */
static void make(void)
{
    const CUDA_ARRAY3D_DESCRIPTOR d = {16, 4, 0, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_SURFACE_LDST};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUDA_TEXTURE_DESC sampler = {.addressMode = {CU_TR_ADDRESS_MODE_CLAMP}, .maxAnisotropy = 3};
    const CUDA_RESOURCE_VIEW_DESC view = {.format = CU_RES_VIEW_FORMAT_FLOAT_1X32, .width = 16, .height = 4};
    static uint32_t bytes[64];
    CUDA_RESOURCE_DESC r = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = bytes,
                          .srcPitch = 64,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .WidthInBytes = 64,
                          .Height = 1,
                          .Depth = 1};
    CUDA_MEMSET_NODE_PARAMS set = {.value = 3, .elementSize = 4, .width = 5, .height = 1};
    CUDA_HOST_NODE_PARAMS host = {.fn = nothing, .userData = bytes};
    CUDA_MEM_ALLOC_NODE_PARAMS alloc = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}},
                                        .bytesize = 4096};
    CUDA_KERNEL_NODE_PARAMS k = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
    unsigned n = 8, v = 1;
    void *params[] = {&memory, &n, &v};
    size_t g;

    NEED(cuCtxGetCurrent(&context));
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    NEED(cuMemAlloc(&memory, 4096));
    NEED(cuArray3DCreate(&array, &d));
    r.res.array.hArray = array;
    NEED(cuTexObjectCreate(&texture, &r, &sampler, &view));
    NEED(cuSurfObjectCreate(&surface, &r));
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemCreate(&physical, g, &prop, 0));
    NEED(cuGraphCreate(&graph, 0));
    copy.dstDevice = set.dst = memory;
    NEED(cuGraphAddMemcpyNode(&copy_node, graph, NULL, 0, &copy, context));
    NEED(cuGraphAddMemsetNode(&set_node, graph, NULL, 0, &set, context));
    function = k.func = cf_func("k_fill");
    k.kernelParams = params;
    NEED(cuGraphAddKernelNode(&kernel_node, graph, NULL, 0, &k));
    NEED(cuGraphAddHostNode(&host_node, graph, NULL, 0, &host));
    NEED(cuGraphAddMemAllocNode(&alloc_node, graph, NULL, 0, &alloc));
}

CASE(given_bytes, CF_CTX)
{
    make();
#define GIVEN(ident, type) given(#ident, get_##ident, sizeof(type))
    GIVEN(array, CUDA_ARRAY_DESCRIPTOR);
    GIVEN(array3d, CUDA_ARRAY3D_DESCRIPTOR);
    GIVEN(resource, CUDA_RESOURCE_DESC);
    GIVEN(sampler, CUDA_TEXTURE_DESC);
    GIVEN(view, CUDA_RESOURCE_VIEW_DESC);
    GIVEN(surface, CUDA_RESOURCE_DESC);
    GIVEN(physical, CUmemAllocationProp);
    GIVEN(copy_node, CUDA_MEMCPY3D);
    GIVEN(set_node, CUDA_MEMSET_NODE_PARAMS);
    GIVEN(kernel_node, CUDA_KERNEL_NODE_PARAMS);
    GIVEN(host_node, CUDA_HOST_NODE_PARAMS);
    GIVEN(alloc_node, CUDA_MEM_ALLOC_NODE_PARAMS);
    GIVEN(kernel_value, CUlaunchAttributeValue);
    GIVEN(stream_value, CUlaunchAttributeValue);
    GIVEN(window, CUlaunchAttributeValue);
    GIVEN(uuid, CUuuid);
    GIVEN(sms, CUdevResource);
    GIVEN(context_sms, CUdevResource);
    GIVEN(affinity, CUexecAffinityParam);
    GIVEN(ipc_memory, CUipcMemHandle);
    GIVEN(threshold, cuuint64_t);
    GIVEN(reuse, int);
    GIVEN(memory_type, unsigned);
    GIVEN(managed, unsigned);
    GIVEN(size, size_t);
    GIVEN(function, int);
    NEED(cuGraphDestroy(graph));
    NEED(cuTexObjectDestroy(texture));
    NEED(cuSurfObjectDestroy(surface));
    NEED(cuArrayDestroy(array));
    NEED(cuMemRelease(physical));
    NEED(cuMemFree(memory));
    NEED(cuStreamDestroy(stream));
}

/* Queries of an ended object return an error and write nothing. */
CASE(given_after_the_end, CF_CTX | CF_UB)
{
    static const struct {
        const char *name;
        CUresult (*get)(void *out);
    } gets[] = {
        {"resource", get_resource}, {"sampler", get_sampler}, {"view", get_view}, {"surface", get_surface}};
    static uint8_t out[ROOM];

    make();
    NEED(cuTexObjectDestroy(texture));
    NEED(cuSurfObjectDestroy(surface));
    for (unsigned i = 0; i < sizeof(gets) / sizeof(gets[0]); i++) {
        unsigned written = 0;

        memset(out, 0xa5, ROOM);
        RC(gets[i].name, gets[i].get(out), CUDA_ERROR_INVALID_VALUE);
        for (unsigned at = 0; at < ROOM; at++)
            written += out[at] != 0xa5;
        cf_u64("written", written, 0);
    }
    NEED(cuGraphDestroy(graph));
    NEED(cuArrayDestroy(array));
    NEED(cuMemRelease(physical));
    NEED(cuMemFree(memory));
    NEED(cuStreamDestroy(stream));
}

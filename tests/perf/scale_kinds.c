// SPDX-License-Identifier: MIT
/* The kinds of objects of scale-bench. Object i of a kind is in slot i; slots are reused. */
#include "scale.h"

#include <stdlib.h>
#include <sys/mman.h>

#define PAGE 4096u
#define GRANULE (2u << 20)
#define api scale_api

const char scale_ptx[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                         ".visible .entry e(.param .u64 p) { ret; }\n";

static uint64_t *slot;

static CUresult slots(unsigned n)
{
    slot = mmap(NULL, (size_t)n * sizeof(*slot), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return slot == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult alloc_make(unsigned i)
{
    return api.cuMemAlloc((CUdeviceptr *)&slot[i], 256);
}

/* Touches all pages, so that freeing the memory is not charged with first accesses. */
static CUresult alloc_warm(unsigned i)
{
    return api.cuMemsetD8(slot[i], 1, 256);
}

static CUresult alloc_use(unsigned i)
{
    CUdeviceptr start;

    return api.cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, slot[i] + 16);
}

static CUresult alloc_drop(unsigned i)
{
    return api.cuMemFree(slot[i]);
}

static CUresult pool_make(unsigned i)
{
    return api.cuMemAllocAsync((CUdeviceptr *)&slot[i], 256, NULL);
}

static CUresult pool_drop(unsigned i)
{
    return api.cuMemFreeAsync(slot[i], NULL);
}

static CUresult pinned_make(unsigned i)
{
    return api.cuMemHostAlloc((void **)&slot[i], PAGE, 0);
}

static CUresult pinned_drop(unsigned i)
{
    return api.cuMemFreeHost((void *)(uintptr_t)slot[i]);
}

static char *buffer;

/* Every other page, so that neighbours do not merge. */
static CUresult register_setup(unsigned n)
{
    buffer = mmap(NULL, (size_t)n * 2 * PAGE, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return buffer == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

static CUresult register_make(unsigned i)
{
    return api.cuMemHostRegister(buffer + (size_t)i * 2 * PAGE, PAGE, 0);
}

static CUresult register_drop(unsigned i)
{
    return api.cuMemHostUnregister(buffer + (size_t)i * 2 * PAGE);
}

static CUdeviceptr range;
static CUmemGenericAllocationHandle physical;

static CUresult map_setup(unsigned n)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUresult r = api.cuMemAddressReserve(&range, (size_t)n * GRANULE, 0, 0, 0);

    return r ? r : api.cuMemCreate(&physical, GRANULE, &prop, 0);
}

static CUresult map_make(unsigned i)
{
    return api.cuMemMap(range + (CUdeviceptr)i * GRANULE, GRANULE, 0, physical, 0);
}

static CUresult map_use(unsigned i)
{
    const CUmemAccessDesc desc = {{.type = CU_MEM_LOCATION_TYPE_DEVICE}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    return api.cuMemSetAccess(range + (CUdeviceptr)i * GRANULE, GRANULE, &desc, 1);
}

static CUresult map_drop(unsigned i)
{
    return api.cuMemUnmap(range + (CUdeviceptr)i * GRANULE, GRANULE);
}

/* ---- streams, events ---- */

static CUresult event_make(unsigned i)
{
    return api.cuEventCreate((CUevent *)&slot[i], CU_EVENT_DISABLE_TIMING);
}

static CUresult event_use(unsigned i)
{
    return api.cuEventRecord((CUevent)(uintptr_t)slot[i], NULL);
}

static CUresult event_drop(unsigned i)
{
    return api.cuEventDestroy((CUevent)(uintptr_t)slot[i]);
}

static CUresult launch(CUstream s)
{
    uint64_t p = 0;
    void *params[] = {&p};

    return api.cuLaunchKernel(api.kernel, 1, 1, 1, 32, 1, 1, 0, s, params, NULL);
}

static CUresult stream_make(unsigned i)
{
    return api.cuStreamCreate((CUstream *)&slot[i], CU_STREAM_NON_BLOCKING);
}

static CUresult stream_use(unsigned i)
{
    CUresult r = launch((CUstream)(uintptr_t)slot[i]);

    return r ? r : api.cuStreamSynchronize((CUstream)(uintptr_t)slot[i]);
}

static CUresult stream_drop(unsigned i)
{
    return api.cuStreamDestroy((CUstream)(uintptr_t)slot[i]);
}

/* ---- code ---- */

static CUresult module_make(unsigned i)
{
    return api.cuModuleLoadData((CUmodule *)&slot[i], scale_ptx);
}

static CUresult module_use(unsigned i)
{
    CUfunction f;

    return api.cuModuleGetFunction(&f, (CUmodule)(uintptr_t)slot[i], "e");
}

static CUresult module_drop(unsigned i)
{
    return api.cuModuleUnload((CUmodule)(uintptr_t)slot[i]);
}

static CUresult library_make(unsigned i)
{
    return api.cuLibraryLoadData((CUlibrary *)&slot[i], scale_ptx, NULL, NULL, 0, NULL, NULL, 0);
}

static CUresult library_use(unsigned i)
{
    CUkernel k;

    return api.cuLibraryGetKernel(&k, (CUlibrary)(uintptr_t)slot[i], "e");
}

static CUresult library_drop(unsigned i)
{
    return api.cuLibraryUnload((CUlibrary)(uintptr_t)slot[i]);
}

static CUresult texture_setup(unsigned n)
{
    CUresult r = slots(n);

    return r ? r : api.cuMemAlloc(&range, PAGE);
}

static CUresult texture_make(unsigned i)
{
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
    const CUDA_TEXTURE_DESC texture = {.filterMode = CU_TR_FILTER_MODE_POINT};

    resource.res.linear.devPtr = range;
    resource.res.linear.format = CU_AD_FORMAT_FLOAT;
    resource.res.linear.numChannels = 1;
    resource.res.linear.sizeInBytes = PAGE;
    return api.cuTexObjectCreate((CUtexObject *)&slot[i], &resource, &texture, NULL);
}

static CUresult texture_drop(unsigned i)
{
    return api.cuTexObjectDestroy(slot[i]);
}

/* ---- graphs: n nodes of one graph ---- */

enum { ADD, INSTANTIATE, UPDATE, SET, LAUNCH, CAPTURE, REMOVE, LIST, DESTROY };

static CUgraphExec executable;

static CUDA_KERNEL_NODE_PARAMS node_params(void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = api.kernel,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 32,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static double since(double *t, unsigned n)
{
    double now = scale_cpu_us(), each = (now - *t) / n;

    *t = now;
    return each;
}

static CUresult graph_build(unsigned n, CUgraph *g, struct scale_result *r)
{
    uint64_t p = 0;
    void *params[] = {&p};
    const CUDA_KERNEL_NODE_PARAMS np = node_params(params);
    CUgraphNode before = NULL, node;
    CUresult e = api.cuGraphCreate(g, 0);
    double t = scale_cpu_us();

    for (unsigned i = 0; !e && i < n; i++, before = node) {
        e = api.cuGraphAddKernelNode(&node, *g, before ? &before : NULL, before != NULL, &np);
        slot[i] = (uint64_t)(uintptr_t)node;
        r->at = i;
    }
    r->us[ADD] = since(&t, n);
    return e;
}

static CUresult node_set(unsigned i)
{
    uint64_t p = 1;
    void *params[] = {&p};
    const CUDA_KERNEL_NODE_PARAMS np = node_params(params);

    return api.cuGraphExecKernelNodeSetParams(executable, (CUgraphNode)(uintptr_t)slot[i], &np);
}

static CUresult node_remove(unsigned i)
{
    return api.cuGraphDestroyNode((CUgraphNode)(uintptr_t)slot[i]);
}

/* Runs the operation on `times` nodes spread over the graph. */
static CUresult graph_nodes(CUresult (*run)(unsigned), unsigned n, unsigned times, double *us)
{
    const unsigned step = n / (2 * times);
    CUresult e = CUDA_SUCCESS;
    double cold = 0, t = scale_cpu_us();

    for (unsigned i = 0; !e && i < 2 * times; i += 2) {
        const unsigned at = (unsigned)((uint64_t)i * 7919 % (2 * times)) * step;

        if (scale_cold())
            cold += scale_cold_us(run, at + step, at, &e) / times;
        else
            e = run(at);
    }
    *us = scale_cold() ? cold : since(&t, times);
    return e;
}

static CUresult graph_list(CUgraph g, unsigned n)
{
    CUgraphNode *nodes = calloc(n, sizeof(CUgraphNode));
    size_t count = n;
    CUresult e = nodes ? api.cuGraphGetNodes(g, nodes, &count) : CUDA_ERROR_OUT_OF_MEMORY;

    free(nodes);
    return e ? e : count == n ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static CUresult graph_capture(unsigned n)
{
    CUstream s;
    CUgraph g = NULL;
    CUresult e = api.cuStreamCreate(&s, CU_STREAM_NON_BLOCKING);

    e = e ? e : api.cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED);
    for (unsigned i = 0; !e && i < n; i++)
        e = launch(s);
    e = e ? e : api.cuStreamEndCapture(s, &g);
    e = e ? e : api.cuGraphDestroy(g);
    return e ? e : api.cuStreamDestroy(s);
}

static void graph_run(unsigned n, struct scale_result *r)
{
    CUgraphExecUpdateResultInfo info;
    CUgraph g;
    CUresult e = slots(n);
    double was = scale_resident(), t;

    e = e ? e : graph_capture(1); /* starts the processes */
    e = e ? e : api.cuCtxSynchronize();
    e = e ? e : graph_build(n, &g, r);
    t = scale_cpu_us();
    e = e ? e : api.cuGraphInstantiate(&executable, g, 0);
    r->us[INSTANTIATE] = since(&t, n);
    e = e ? e : api.cuGraphExecUpdate(executable, g, &info);
    r->us[UPDATE] = since(&t, n);
    e = e ? e : node_set(0); /* the first may build an index */
    e = e ? e : graph_nodes(node_set, n, 250, &r->us[SET]);
    t = scale_cpu_us();
    e = e ? e : graph_list(g, n);
    r->us[LIST] = since(&t, n);
    e = e ? e : api.cuGraphLaunch(executable, NULL);
    e = e ? e : api.cuCtxSynchronize();
    r->us[LAUNCH] = since(&t, n);
    r->bytes = (scale_resident() - was) / n;
    e = e ? e : graph_nodes(node_remove, n, 250, &r->us[REMOVE]);
    t = scale_cpu_us();
    e = e ? e : api.cuGraphExecDestroy(executable);
    e = e ? e : api.cuGraphDestroy(g);
    e = e ? e : api.cuCtxSynchronize();
    r->us[DESTROY] = since(&t, n);
    e = e ? e : graph_capture(n);
    r->us[CAPTURE] = since(&t, n);
    r->error = e;
}

/* ---- the table ---- */

#define ALL \
    { \
        1000, 10000, 100000 \
    }
#define MAPS "fewer: one mapping of the system each, of which a process has 65,530"

const struct scale_kind scale_kinds[] = {
    {"allocations",
     ALL,
     NULL,
     {"cuMemAlloc", "cuPointerGetAttribute", "cuMemFree"},
     slots,
     alloc_make,
     alloc_warm,
     alloc_use,
     alloc_drop,
     NULL},
    {"pool",
     ALL,
     NULL,
     {"cuMemAllocAsync", "cuPointerGetAttribute", "cuMemFreeAsync"},
     slots,
     pool_make,
     alloc_warm,
     alloc_use,
     pool_drop,
     NULL},
    {"pinned",
     {400, 1200, 4000},
     "fewer: a client has at most 4,096 or 8,192 regions",
     {"cuMemHostAlloc", NULL, "cuMemFreeHost"},
     slots,
     pinned_make,
     NULL,
     NULL,
     pinned_drop,
     NULL},
    {"registered",
     {400, 1200, 4000},
     "fewer: a client has at most 4,096 or 8,192 regions",
     {"cuMemHostRegister", NULL, "cuMemHostUnregister"},
     register_setup,
     register_make,
     NULL,
     NULL,
     register_drop,
     NULL},
    {"mappings",
     {1000, 5000, 20000},
     MAPS,
     {"cuMemMap", "cuMemSetAccess", "cuMemUnmap"},
     map_setup,
     map_make,
     NULL,
     map_use,
     map_drop,
     NULL},
    {"events",
     ALL,
     NULL,
     {"cuEventCreate", "cuEventRecord", "cuEventDestroy"},
     slots,
     event_make,
     NULL,
     event_use,
     event_drop,
     NULL},
    {"streams",
     {100, 300, 1000},
     "fewer: a thread each",
     {"cuStreamCreate", "launch and wait", "cuStreamDestroy"},
     slots,
     stream_make,
     NULL,
     stream_use,
     stream_drop,
     NULL},
    {"modules",
     {500, 1500, 5000},
     "fewer: 100 KiB each",
     {"cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload"},
     slots,
     module_make,
     NULL,
     module_use,
     module_drop,
     NULL},
    {"libraries",
     {500, 1500, 5000},
     "fewer: 100 KiB each",
     {"cuLibraryLoadData", "cuLibraryGetKernel", "cuLibraryUnload"},
     slots,
     library_make,
     NULL,
     library_use,
     library_drop,
     NULL},
    {"textures",
     ALL,
     NULL,
     {"cuTexObjectCreate", NULL, "cuTexObjectDestroy"},
     texture_setup,
     texture_make,
     NULL,
     NULL,
     texture_drop,
     NULL},
    {"graph",
     ALL,
     NULL,
     {[ADD] = "add a node",
      [INSTANTIATE] = "instantiate, a node",
      [UPDATE] = "update, a node",
      [SET] = "set parameters",
      [LAUNCH] = "launch, a node",
      [CAPTURE] = "capture a launch",
      [REMOVE] = "remove a node",
      [LIST] = "list the nodes, a node",
      [DESTROY] = "destroy, a node"},
     NULL,
     NULL,
     NULL,
     NULL,
     NULL,
     graph_run},
};
const size_t scale_nkinds = sizeof(scale_kinds) / sizeof(scale_kinds[0]);

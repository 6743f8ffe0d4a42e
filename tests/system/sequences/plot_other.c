/* SPDX-License-Identifier: MIT */
/* Plots about streams, code and memory, and acts of all plots. */
#include "plot.h"

#include <string.h>

/* ---- acts of several plots ---- */

CUresult seq_act_hold(void)
{
    seq_hold(true);
    return CUDA_SUCCESS;
}

CUresult seq_act_release(void)
{
    seq_hold(false);
    return CUDA_SUCCESS;
}

CUresult seq_act_synchronize(void)
{
    return seq_random(2) ? cuStreamSynchronize(CAST_ANY(stream)) : cuEventSynchronize(CAST_ANY(event));
}

CUresult seq_act_fault(void)
{
    CUdeviceptr at = 0;
    void *arguments[] = {&at};

    if (!seq_cast.fault)
        return CUDA_ERROR_NOT_FOUND;
    return cuLaunchKernel(seq_cast.fault, 1, 1, 1, 1, 1, 1, 0, CAST_ANY(stream), arguments, NULL);
}

CUresult seq_act_destroy_context(void)
{
    CUcontext c = seq_cast.own;

    seq_cast.own = NULL;
    return c ? cuCtxDestroy_v2(c) : CUDA_ERROR_INVALID_CONTEXT;
}

static CUresult run_host(void)
{
    return cuLaunchHostFunc(CAST_ANY(stream), seq_host_function, NULL);
}
static CUresult record(void)
{
    return cuEventRecord(CAST_ANY(event), CAST_ANY(stream));
}
static CUresult wait(void)
{
    return cuStreamWaitEvent(CAST_ANY(stream), CAST_ANY(event), 0);
}
static CUresult destroy_event(void)
{
    return cuEventDestroy_v2(CAST_ANY(event));
}
static CUresult destroy_stream(void)
{
    return cuStreamDestroy_v2(CAST_ANY(stream));
}
static CUresult launch(void)
{
    void *arguments[] = {&seq_cast.memory};

    return cuLaunchKernel(seq_cast.function, 1, 1, 1, 32, 1, 1, 0, CAST_ANY(stream), arguments, NULL);
}
static CUresult query(void)
{
    return seq_random(2) ? cuStreamQuery(CAST_ANY(stream)) : cuEventQuery(CAST_ANY(event));
}

/* Waits for an object that ends meanwhile. */
static const struct seq_act of_streams[] = {
    {"plot stream: hold", seq_act_hold},
    {"plot stream: host function", run_host},
    {"plot stream: record", record},
    {"plot stream: wait", wait},
    {"plot stream: launch", launch},
    {"plot stream: fault", seq_act_fault},
    {"plot stream: destroy an event", destroy_event},
    {"plot stream: query", query},
    {"plot stream: destroy a stream", destroy_stream},
    {"plot stream: host function 2", run_host},
    {"plot stream: record 2", record},
    {"plot stream: destroy the context", seq_act_destroy_context},
    {"plot stream: release", seq_act_release},
    {"plot stream: synchronize", seq_act_synchronize},
};

/* ---- code ---- */

static CUresult load(void)
{
    return cuModuleLoadData(CAST_SLOT(module), seq_ptx);
}
static CUresult load_library(void)
{
    return cuLibraryLoadData(CAST_SLOT(library), seq_ptx, NULL, NULL, 0, NULL, NULL, 0);
}
static CUresult function_of(void)
{
    CUfunction f;
    CUkernel k;
    CUresult r;

    if (seq_random(2)) {
        r = cuModuleGetFunction(&f, CAST_ANY(module), "store");
    } else {
        r = cuLibraryGetKernel(&k, CAST_ANY(library), "store");
        if (r == CUDA_SUCCESS)
            r = cuKernelGetFunction(&f, k);
    }
    if (r == CUDA_SUCCESS)
        seq_cast.function = f;
    return r;
}
static CUresult kernel_graph(void)
{
    void *arguments[] = {&seq_cast.memory};
    CUDA_KERNEL_NODE_PARAMS p = seq_graph_kernel();
    const unsigned i = seq_random(SEQ_CAST);
    CUresult r = cuGraphCreate(&seq_cast.graph[i], 0);

    p.func = seq_cast.function;
    p.kernelParams = arguments;
    return r == CUDA_SUCCESS ? cuGraphAddKernelNode_v2(&seq_cast.node[i][0], seq_cast.graph[i], NULL, 0, &p)
                             : r;
}
static CUresult attribute(void)
{
    const char *name;
    int value;

    return seq_random(2) ? cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, seq_cast.function)
                         : cuFuncGetName(&name, seq_cast.function);
}
static CUresult unload(void)
{
    return seq_random(2) ? cuModuleUnload(CAST_ANY(module)) : cuLibraryUnload(CAST_ANY(library));
}

static const struct seq_act of_code[] = {
    {"plot code: load", load},
    {"plot code: load a library", load_library},
    {"plot code: function", function_of},
    {"plot code: graph", kernel_graph},
    {"plot code: instantiate", seq_act_instantiate},
    {"plot code: function 2", function_of},
    {"plot code: hold", seq_act_hold},
    {"plot code: host function", run_host},
    {"plot code: launch", launch},
    {"plot code: launch a graph", seq_act_launch_graph},
    {"plot code: unload", unload},
    {"plot code: unload 2", unload},
    {"plot code: release", seq_act_release},
    {"plot code: launch 2", launch},
    {"plot code: attribute", attribute},
    {"plot code: launch a graph 2", seq_act_launch_graph},
};

/* ---- memory ---- */

static CUresult make_pool(void)
{
    CUmemPoolProps p;

    memset(&p, 0, sizeof(p));
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return cuMemPoolCreate(CAST_SLOT(pool), &p);
}
static CUresult allocate(void)
{
    return seq_random(4)
               ? cuMemAllocFromPoolAsync(CAST_SLOT(allocated), SEQ_BYTES, CAST_ANY(pool), CAST_ANY(stream))
               : cuMemAlloc_v2(CAST_SLOT(allocated), SEQ_BYTES);
}
static CUresult use_allocated(void)
{
    return seq_random(2)
               ? cuMemsetD8Async(CAST_ANY(allocated), 1, 64, CAST_ANY(stream))
               : cuMemcpyDtoDAsync_v2(CAST_ANY(allocated), CAST_ANY(allocated), 64, CAST_ANY(stream));
}
static CUresult give_back(void)
{
    return seq_random(4) ? cuMemFreeAsync(CAST_ANY(allocated), CAST_ANY(stream))
                         : cuMemFree_v2(CAST_ANY(allocated));
}
static CUresult destroy_pool(void)
{
    return cuMemPoolDestroy(CAST_ANY(pool));
}
static CUresult trim_pool(void)
{
    return cuMemPoolTrimTo(CAST_ANY(pool), 0);
}

static const struct seq_act of_pools[] = {
    {"plot pool: make", make_pool},          {"plot pool: hold", seq_act_hold},
    {"plot pool: host function", run_host},  {"plot pool: allocate", allocate},
    {"plot pool: use", use_allocated},       {"plot pool: allocate 2", allocate},
    {"plot pool: give back", give_back},     {"plot pool: destroy", destroy_pool},
    {"plot pool: use 2", use_allocated},     {"plot pool: trim", trim_pool},
    {"plot pool: release", seq_act_release}, {"plot pool: give back 2", give_back},
    {"plot pool: allocate 3", allocate},     {"plot pool: synchronize", seq_act_synchronize},
};

static CUresult make_physical(void)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};

    return cuMemCreate(CAST_SLOT(physical), SEQ_GRANULE, &p, 0);
}
static CUresult reserve(void)
{
    return cuMemAddressReserve(CAST_SLOT(reserved), SEQ_GRANULE, 0, seq_random(2) ? 0 : CAST_ANY(reserved),
                               0);
}
static CUresult map(void)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    const CUdeviceptr at = CAST_ANY(reserved);
    CUresult r = cuMemMap(at, SEQ_GRANULE, 0, CAST_ANY(physical), 0);

    if (r == CUDA_SUCCESS && seq_random(8))
        r = cuMemSetAccess(at, SEQ_GRANULE, &d, 1);
    if (r == CUDA_SUCCESS)
        *CAST_SLOT(allocated) = at;
    return r;
}
static CUresult release_physical(void)
{
    return cuMemRelease(CAST_ANY(physical));
}
static CUresult unmap(void)
{
    return cuMemUnmap(CAST_ANY(reserved), SEQ_GRANULE);
}
static CUresult unreserve(void)
{
    return cuMemAddressFree(CAST_ANY(reserved), SEQ_GRANULE);
}

static const struct seq_act of_mappings[] = {
    {"plot mapping: make", make_physical},
    {"plot mapping: reserve", reserve},
    {"plot mapping: reserve 2", reserve},
    {"plot mapping: map", map},
    {"plot mapping: map 2", map},
    {"plot mapping: hold", seq_act_hold},
    {"plot mapping: host function", run_host},
    {"plot mapping: use", use_allocated},
    {"plot mapping: give up", release_physical},
    {"plot mapping: unmap", unmap},
    {"plot mapping: unreserve", unreserve},
    {"plot mapping: reserve 3", reserve},
    {"plot mapping: map 3", map},
    {"plot mapping: release", seq_act_release},
    {"plot mapping: use 2", use_allocated},
    {"plot mapping: unmap 2", unmap},
    {"plot mapping: unreserve 2", unreserve},
};

static CUresult make_array(void)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = 16,
                                 .Height = 16,
                                 .Format = CU_AD_FORMAT_FLOAT,
                                 .NumChannels = 1,
                                 .Flags = CUDA_ARRAY3D_SURFACE_LDST};

    return cuArray3DCreate_v2(CAST_SLOT(array), &d);
}
static CUresult make_texture(void)
{
    CUDA_RESOURCE_DESC d;
    CUDA_TEXTURE_DESC t;

    memset(&d, 0, sizeof(d));
    memset(&t, 0, sizeof(t));
    d.resType = CU_RESOURCE_TYPE_ARRAY;
    d.res.array.hArray = CAST_ANY(array);
    return cuTexObjectCreate(CAST_SLOT(texture), &d, &t, NULL);
}
static CUresult copy_array(void)
{
    CUDA_MEMCPY2D p = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = seq_cast.memory,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                       .dstArray = CAST_ANY(array),
                       .WidthInBytes = 64,
                       .Height = 16};

    return cuMemcpy2DAsync_v2(&p, CAST_ANY(stream));
}
static CUresult destroy_array(void)
{
    return cuArrayDestroy(CAST_ANY(array));
}
static CUresult destroy_texture(void)
{
    return cuTexObjectDestroy(CAST_ANY(texture));
}
static CUresult describe_texture(void)
{
    CUDA_RESOURCE_DESC d;

    return cuTexObjectGetResourceDesc(&d, CAST_ANY(texture));
}

static const struct seq_act of_arrays[] = {
    {"plot array: make", make_array},
    {"plot array: make 2", make_array},
    {"plot array: texture", make_texture},
    {"plot array: hold", seq_act_hold},
    {"plot array: host function", run_host},
    {"plot array: copy", copy_array},
    {"plot array: destroy", destroy_array},
    {"plot array: describe", describe_texture},
    {"plot array: destroy a texture", destroy_texture},
    {"plot array: release", seq_act_release},
    {"plot array: copy 2", copy_array},
    {"plot array: destroy 2", destroy_array},
};

const struct seq_plot seq_other_plots[] = {
    SEQ_PLOT("stream", true, of_streams), SEQ_PLOT("code", false, of_code),
    SEQ_PLOT("pool", false, of_pools),    SEQ_PLOT("mapping", false, of_mappings),
    SEQ_PLOT("array", false, of_arrays),  {NULL, false, 0, NULL},
};

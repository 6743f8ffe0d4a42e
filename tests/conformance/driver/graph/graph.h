/* SPDX-License-Identifier: MIT */
/* Shared code of the cases about graphs. */
#ifndef GRAPH_H
#define GRAPH_H

#include "conform.h"

#define N 1000u

static inline CUcontext current(void)
{
    CUcontext c = NULL;
    NEED(cuCtxGetCurrent(&c));
    return c;
}

static inline CUstream new_stream(void)
{
    CUstream s = NULL;
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    return s;
}

static inline CUdeviceptr words(unsigned n)
{
    CUdeviceptr p = 0;
    NEED(cuMemAlloc(&p, n * 4));
    NEED(cuMemsetD32(p, 0, n));
    return p;
}

static inline CUresult run(CUgraph g, CUstream s, unsigned times)
{
    CUgraphExec x = NULL;
    CUresult r = cuGraphInstantiate(&x, g, 0);
    for (unsigned i = 0; r == CUDA_SUCCESS && i < times; i++)
        r = cuGraphLaunch(x, s);
    if (r == CUDA_SUCCESS)
        r = cuStreamSynchronize(s);
    if (x)
        cuGraphExecDestroy(x);
    return r;
}

static inline CUDA_KERNEL_NODE_PARAMS kernel(const char *name, void **params)
{
    CUDA_KERNEL_NODE_PARAMS k = {
        .func = cf_func(name),
        .gridDimX = (N + 127) / 128,
        .gridDimY = 1,
        .gridDimZ = 1,
        .blockDimX = 128,
        .blockDimY = 1,
        .blockDimZ = 1,
        .kernelParams = params,
    };
    return k;
}

static inline CUDA_MEMCPY3D copy(CUmemorytype to, CUdeviceptr dst, CUmemorytype from, CUdeviceptr src,
                                 size_t n)
{
    CUDA_MEMCPY3D c = {
        .srcMemoryType = from, .dstMemoryType = to, .WidthInBytes = n, .Height = 1, .Depth = 1};
    if (from == CU_MEMORYTYPE_HOST)
        c.srcHost = (void *)src;
    else
        c.srcDevice = src;
    if (to == CU_MEMORYTYPE_HOST)
        c.dstHost = (void *)dst;
    else
        c.dstDevice = dst;
    return c;
}

/* Content of the output of a failed call. */
#define UNTOUCHED ((CUgraphNode)(uintptr_t)0xEEEEEEEEEEEEEEEEull)

/* Checks a refused addition: the output is unchanged. */
static inline void refused(const char *check, CUresult r, CUresult want, CUgraphNode *out)
{
    RC(check, r, want);
    if (*out != UNTOUCHED)
        cf_true(check, false);
    *out = UNTOUCHED;
}

static inline size_t nodes_of(CUgraph g)
{
    size_t n = 0xEEEE;

    NEED(cuGraphGetNodes(g, NULL, &n));
    return n;
}

static inline size_t edges_of(CUgraph g)
{
    size_t n = 0xEEEE;

    NEED(cuGraphGetEdges(g, NULL, NULL, NULL, &n));
    return n;
}

/* Adds nodes of other types before and after the node: it takes edges, and it can be destroyed. */
static inline void edges_and_end(CUgraph g, CUgraphNode n)
{
    CUgraphNode before = UNTOUCHED, after = UNTOUCHED;
    const size_t nodes = nodes_of(g), edges = edges_of(g);

    OK("before", cuGraphAddEmptyNode(&before, g, NULL, 0));
    OK("after", cuGraphAddEmptyNode(&after, g, &n, 1));
    OK("edge", cuGraphAddDependencies(g, &before, &after, NULL, 1));
    RC("edge_twice", cuGraphAddDependencies(g, &n, &after, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    OK("edge_back", cuGraphAddDependencies(g, &before, &n, NULL, 1));
    cf_u64("edges", edges_of(g), edges + 3);
    OK("end_before", cuGraphDestroyNode(before));
    OK("end_after", cuGraphDestroyNode(after));
    cf_u64("nodes", nodes_of(g), nodes);
    cf_u64("edges_left", edges_of(g), edges);
}

#endif

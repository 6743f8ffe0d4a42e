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

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Calls that name a context, their own or another: the current context and the stack below it are
 * unchanged.
 */
#include "conform.h"

static CUevent event_of_other;
static CUcontext other;
static CUdeviceptr mine, of_other;

static CUresult synchronize(CUcontext c)
{
    return cuCtxSynchronize_v2(c);
}

static CUresult id(CUcontext c)
{
    unsigned long long n;

    return cuCtxGetId(c, &n);
}

static CUresult api_version(CUcontext c)
{
    unsigned n;

    return cuCtxGetApiVersion(c, &n);
}

static CUresult device(CUcontext c)
{
    CUdevice d;

    return cuCtxGetDevice_v2(&d, c);
}

static CUresult resource(CUcontext c)
{
    CUdevResource r;

    return cuCtxGetDevResource(c, &r, CU_DEV_RESOURCE_TYPE_SM);
}

static CUresult record(CUcontext c)
{
    return c == other ? cuCtxRecordEvent(c, event_of_other) : CUDA_SUCCESS;
}

static CUresult await(CUcontext c)
{
    return c == other ? cuCtxWaitEvent(c, event_of_other) : CUDA_SUCCESS;
}

static CUresult copy_peer(CUcontext c)
{
    CUcontext now;
    CUresult r = cuCtxGetCurrent(&now);

    return r != CUDA_SUCCESS ? r : cuMemcpyPeer(c == other ? of_other : mine, c, mine, now, 64);
}

static CUresult node_of(CUcontext c)
{
    CUDA_MEMSET_NODE_PARAMS p = {
        .dst = c == other ? of_other : mine, .elementSize = 1, .width = 8, .height = 1};
    CUgraphNode n;
    CUgraph g;
    CUresult r = cuGraphCreate(&g, 0);

    if (r != CUDA_SUCCESS)
        return r;
    r = cuGraphAddMemsetNode(&n, g, NULL, 0, &p, c);
    return cuGraphDestroy(g) == CUDA_SUCCESS ? r : CUDA_ERROR_UNKNOWN;
}

static CUresult enable_peer(CUcontext c)
{
    CUresult r = cuCtxEnablePeerAccess(c, 0);

    if (r == CUDA_SUCCESS)
        cuCtxDisablePeerAccess(c);
    return CUDA_SUCCESS; /* devices.c checks whether it is refused */
}

static const struct {
    const char *name;
    CUresult (*call)(CUcontext c);
} calls[] = {{"synchronize", synchronize},
             {"id", id},
             {"api_version", api_version},
             {"device", device},
             {"resource", resource},
             {"record", record},
             {"await", await},
             {"copy_peer", copy_peer},
             {"node", node_of},
             {"enable_peer", enable_peer}};
#define CALLS (sizeof(calls) / sizeof(calls[0]))

CASE(current_stays, CF_ALONE)
{
    CUcontext below, top, now;
    unsigned stays = 0, works = 0;

    NEED(cuInit(0));
    NEED(cuCtxCreate(&other, NULL, 0, 0));
    NEED(cuMemAlloc(&of_other, 64));
    NEED(cuEventCreate(&event_of_other, CU_EVENT_DISABLE_TIMING));
    NEED(cuCtxPopCurrent(NULL));
    NEED(cuCtxCreate(&below, NULL, 0, 0));
    NEED(cuCtxCreate(&top, NULL, 0, 0));
    NEED(cuMemAlloc(&mine, 64));
    for (unsigned i = 0; i < CALLS; i++) {
        for (int k = 0; k < 3; k++) {
            works += calls[i].call(k == 2 ? top : other) == CUDA_SUCCESS;
            stays += cuCtxGetCurrent(&now) == CUDA_SUCCESS && now == top;
        }
        if (cuMemsetD8(mine, (unsigned char)i, 64) != CUDA_SUCCESS)
            cf_true(calls[i].name, false);
    }
    cf_u64("works", works, 3 * CALLS);
    cf_u64("stays", stays, 3 * CALLS);
    OK("pop_top", cuCtxPopCurrent(&now));
    cf_true("top", now == top);
    OK("pop_below", cuCtxPopCurrent(&now));
    cf_true("below", now == below);
    RC("pop_none", cuCtxPopCurrent(&now), CUDA_ERROR_INVALID_CONTEXT);
    NEED(cuCtxDestroy(top));
    NEED(cuCtxDestroy(below));
    NEED(cuCtxDestroy(other));
}

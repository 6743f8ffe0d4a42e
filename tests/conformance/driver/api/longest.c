/* SPDX-License-Identifier: MIT */
/*
 * Lists: the longest that fits in a record, and lengths around it, for each call that takes a list.
 */
#include "conform.h"

#include <stdlib.h>

#define ACCESS_MAX 64u
#define DEPENDENCIES_MAX 2048u

static const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

/* All entries but the last are overridden by the last. */
static void describe(CUmemAccessDesc *d, unsigned n, CUmemAccess_flags before, CUmemAccess_flags last)
{
    for (unsigned i = 0; i < n; i++)
        d[i] = (CUmemAccessDesc){.location = here, .flags = i + 1 < n ? before : last};
}

CASE(longest_access, CF_CTX)
{
    static const unsigned lengths[] = {1, 2, 3, ACCESS_MAX - 1, ACCESS_MAX};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemAccessDesc d[ACCESS_MAX + 1];
    CUmemGenericAllocationHandle h;
    CUmemoryPool pool;
    unsigned long long flags;
    CUmemAccess_flags of_pool;
    unsigned mapped = 0, usable = 0, told = 0, pooled = 0;
    CUdeviceptr p;
    size_t g = 0;

    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemCreate(&h, g, &prop, 0));
    NEED(cuMemAddressReserve(&p, g, 0, 0, 0));
    NEED(cuMemMap(p, g, 0, h, 0));
    NEED(cuMemPoolCreate(&pool, &props));
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const unsigned n = lengths[i];

        describe(d, n, CU_MEM_ACCESS_FLAGS_PROT_READ, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        flags = 99;
        mapped += cuMemSetAccess(p, g, d, n) == CUDA_SUCCESS &&
                  cuMemGetAccess(&flags, &here, p) == CUDA_SUCCESS &&
                  flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        usable += cuMemsetD8(p, 1, g) == CUDA_SUCCESS;
        flags = 99;
        told += cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p) == CUDA_SUCCESS &&
                (unsigned)flags == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
        describe(d, n, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
        of_pool = CU_MEM_ACCESS_FLAGS_PROT_NONE;
        pooled += cuMemPoolSetAccess(pool, d, n) == CUDA_SUCCESS &&
                  cuMemPoolGetAccess(&of_pool, pool, (CUmemLocation *)&here) == CUDA_SUCCESS &&
                  of_pool == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    }
    cf_u64("mapped", mapped, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("usable", usable, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("told", told, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("pool", pooled, sizeof(lengths) / sizeof(lengths[0]));
    NEED(cuMemPoolDestroy(pool));
    NEED(cuMemUnmap(p, g));
    NEED(cuMemAddressFree(p, g));
    NEED(cuMemRelease(h));
}

/* Number of edges that end at the node, or that start at the first node of a captured stream. */
static uint64_t edges_of(CUgraphNode node)
{
    size_t n = 0;

    return cuGraphNodeGetDependencies(node, NULL, NULL, &n) == CUDA_SUCCESS ? n : UINT64_MAX;
}

CASE(longest_dependencies, CF_CTX)
{
    static const unsigned lengths[] = {1, 239, 240, 241, DEPENDENCIES_MAX - 1, DEPENDENCIES_MAX};
    CUgraphNode *nodes = calloc(DEPENDENCIES_MAX, sizeof(*nodes)), joined;
    unsigned added = 0, begun = 0, told = 0;
    CUgraph g, ended;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < DEPENDENCIES_MAX; i++)
        NEED(cuGraphAddEmptyNode(&nodes[i], g, NULL, 0));
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const CUgraphNode *pending = NULL;
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        const unsigned n = lengths[i];
        bool same;
        size_t got = 0;

        joined = NULL;
        added += cuGraphAddEmptyNode(&joined, g, nodes, n) == CUDA_SUCCESS && edges_of(joined) == n;
        if (cuStreamBeginCaptureToGraph(s, g, nodes, NULL, n, CU_STREAM_CAPTURE_MODE_RELAXED) != CUDA_SUCCESS)
            continue;
        begun++;
        NEED(cuStreamGetCaptureInfo(s, &status, NULL, NULL, &pending, NULL, &got));
        same = status == CU_STREAM_CAPTURE_STATUS_ACTIVE && got == n;
        for (unsigned k = 0; same && k < n; k++)
            same = pending[k] == nodes[k];
        told += same;
        NEED(cuStreamEndCapture(s, &ended));
    }
    cf_u64("added", added, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("begun", begun, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("told", told, sizeof(lengths) / sizeof(lengths[0]));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
    free(nodes);
}

/*
 * Lists longer than a record, which the guest sends in parts: all entries are taken, and replace
 * the old ones.
 */
CASE(longest_update, CF_CTX)
{
    static const unsigned lengths[] = {1,
                                       DEPENDENCIES_MAX - 1,
                                       DEPENDENCIES_MAX,
                                       DEPENDENCIES_MAX + 1,
                                       2 * DEPENDENCIES_MAX,
                                       2 * DEPENDENCIES_MAX + 1};
    const unsigned most = 2 * DEPENDENCIES_MAX + 1;
    CUgraphNode *nodes = calloc(most, sizeof(*nodes));
    unsigned set = 0, told = 0;
    CUgraph g, ended;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuGraphCreate(&g, 0));
    for (unsigned i = 0; i < most; i++)
        NEED(cuGraphAddEmptyNode(&nodes[i], g, NULL, 0));
    NEED(cuStreamBeginCaptureToGraph(s, g, nodes, NULL, 1, CU_STREAM_CAPTURE_MODE_RELAXED));
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        const CUgraphNode *pending = NULL;
        CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
        const unsigned n = lengths[i];
        bool same;
        size_t got = 0;

        set += cuStreamUpdateCaptureDependencies(s, nodes, NULL, n, CU_STREAM_SET_CAPTURE_DEPENDENCIES) ==
               CUDA_SUCCESS;
        NEED(cuStreamGetCaptureInfo(s, &status, NULL, NULL, &pending, NULL, &got));
        same = status == CU_STREAM_CAPTURE_STATUS_ACTIVE && got == n;
        for (unsigned k = 0; same && k < n; k++)
            same = pending[k] == nodes[k];
        told += same;
    }
    cf_u64("set", set, sizeof(lengths) / sizeof(lengths[0]));
    cf_u64("told", told, sizeof(lengths) / sizeof(lengths[0]));
    NEED(cuStreamUpdateCaptureDependencies(s, NULL, NULL, 0, CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    NEED(cuStreamEndCapture(s, &ended));
    NEED(cuGraphDestroy(g));
    NEED(cuStreamDestroy(s));
    free(nodes);
}

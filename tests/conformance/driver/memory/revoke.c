// SPDX-License-Identifier: MIT
/*
 * Every way to revoke access to memory, each with a kernel that has used the memory often before
 * (so cached data about it is warm) and with one that has not: the kernel must end with
 * CUDA_ERROR_ILLEGAL_ADDRESS, and a copy and a memset must be refused or end that way. Errors are
 * sticky, so each case is a process of its own. run.sh repeats them with VGPU_SOFT_JIT=0.
 */
#include "conform.h"

#define N 1024u
#define BYTES ((size_t)N * 4)
#define WARM 24

struct right {
    CUdeviceptr p;
    CUcontext second; /* of device 1 */
    CUmemoryPool pool;
    CUmodule module;
    CUgraph graph;
    CUgraphExec exec;
    void *host;
    size_t size;
    bool readable;     /* only write access was revoked */
    CUdeviceptr alias; /* another mapping of the memory, still writable */
};

struct way {
    void (*give)(struct right *);
    CUresult (*take)(struct right *);
};

static const CUmemLocation here = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0};

/* ---- freed ---- */

static void give_alloc(struct right *r)
{
    NEED(cuMemAlloc(&r->p, BYTES));
}
static CUresult take_free(struct right *r)
{
    return cuMemFree(r->p);
}
static void give_managed(struct right *r)
{
    NEED(cuMemAllocManaged(&r->p, BYTES, CU_MEM_ATTACH_GLOBAL));
}
static void give_pitch(struct right *r)
{
    NEED(cuMemAllocPitch(&r->p, &r->size, BYTES, 2, 4));
}
static void give_pinned(struct right *r)
{
    NEED(cuMemAllocHost(&r->host, 4u << 20)); /* small ones share a region that is reused */
    NEED(cuMemHostGetDevicePointer(&r->p, r->host, 0));
}
static CUresult take_pinned(struct right *r)
{
    return cuMemFreeHost(r->host);
}
static void give_registered(struct right *r)
{
    r->host = aligned_alloc(65536, 65536);
    cf_need_true("memory", r->host != NULL);
    memset(r->host, 0, 65536);
    NEED(cuMemHostRegister(r->host, 65536, CU_MEMHOSTREGISTER_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&r->p, r->host, 0));
}
static CUresult take_registered(struct right *r)
{
    return cuMemHostUnregister(r->host);
}

/* ---- pools ---- */

static void give_async(struct right *r)
{
    NEED(cuMemAllocAsync(&r->p, BYTES, NULL));
}
static CUresult take_async(struct right *r)
{
    return cuMemFreeAsync(r->p, NULL);
}
static void make_pool(struct right *r, cuuint64_t threshold)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};

    NEED(cuMemPoolCreate(&r->pool, &props));
    NEED(cuMemPoolSetAttribute(r->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    NEED(cuMemAllocFromPoolAsync(&r->p, BYTES, r->pool, NULL));
}
static void give_pool(struct right *r)
{
    make_pool(r, UINT64_MAX); /* freed memory stays with the pool */
}
static CUresult take_trim(struct right *r)
{
    NEED(cuMemFreeAsync(r->p, NULL));
    NEED(cuStreamSynchronize(NULL));
    return cuMemPoolTrimTo(r->pool, 0);
}
static CUresult take_pool(struct right *r)
{
    NEED(cuMemFreeAsync(r->p, NULL));
    return cuMemPoolDestroy(r->pool);
}
static void give_graph(struct right *r)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here}, .bytesize = BYTES};
    CUgraphNode node;

    NEED(cuGraphCreate(&r->graph, 0));
    NEED(cuGraphAddMemAllocNode(&node, r->graph, NULL, 0, &a));
    NEED(cuGraphInstantiate(&r->exec, r->graph, 0));
    NEED(cuGraphLaunch(r->exec, NULL));
    NEED(cuCtxSynchronize());
    r->p = a.dptr;
}
static CUresult take_graph(struct right *r)
{
    NEED(cuMemFree(r->p));
    NEED(cuGraphExecDestroy(r->exec));
    NEED(cuGraphDestroy(r->graph));
    return cuDeviceGraphMemTrim(0);
}

/* ---- mappings ---- */

static CUresult set_access(CUdeviceptr p, size_t size, int device, CUmemAccess_flags flags)
{
    const CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                               .flags = flags};

    return cuMemSetAccess(p, size, &d, 1);
}
static void give_mapped(struct right *r)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = here};
    CUmemGenericAllocationHandle h = 0;

    NEED(cuMemGetAllocationGranularity(&r->size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&r->p, 2 * r->size, 0, 0, 0));
    NEED(cuMemCreate(&h, r->size, &prop, 0));
    r->alias = r->p + r->size;
    NEED(cuMemMap(r->p, r->size, 0, h, 0));
    NEED(cuMemMap(r->alias, r->size, 0, h, 0));
    NEED(cuMemRelease(h));
    NEED(set_access(r->p, 2 * r->size, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}
static CUresult take_unmap(struct right *r)
{
    return cuMemUnmap(r->p, r->size);
}
static CUresult take_access(struct right *r)
{
    return set_access(r->p, r->size, 0, CU_MEM_ACCESS_FLAGS_PROT_NONE);
}
static CUresult take_write(struct right *r)
{
    r->readable = true;
    return set_access(r->p, r->size, 0, CU_MEM_ACCESS_FLAGS_PROT_READ);
}

/* ---- objects with memory ---- */

static void give_global(struct right *r)
{
    static const char text[] =
        ".version 7.0\n.target sm_75\n.address_size 64\n.visible .global .align 4 .b8 room[4096];\n";

    NEED(cuModuleLoadData(&r->module, text));
    NEED(cuModuleGetGlobal(&r->p, &r->size, r->module, "room"));
}
static CUresult take_module(struct right *r)
{
    return cuModuleUnload(r->module);
}

/* ---- memory of another device ---- */

static void give_peer(struct right *r)
{
    CUcontext first;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuCtxCreate(&r->second, NULL, 0, 1));
    NEED(cuMemAlloc(&r->p, BYTES));
    NEED(cuCtxSetCurrent(first));
    NEED(cuCtxEnablePeerAccess(r->second, 0));
}
static CUresult take_peer(struct right *r)
{
    return cuCtxDisablePeerAccess(r->second);
}
static CUresult take_peer_free(struct right *r)
{
    CUcontext first;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuCtxSetCurrent(r->second));
    CUresult result = cuMemFree(r->p);
    NEED(cuCtxSetCurrent(first));
    return result;
}
static CUresult take_context(struct right *r)
{
    return cuCtxDestroy(r->second);
}
/* Device 0 uses memory of device 1. */
static void give_far_mapped(struct right *r)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1}};
    CUmemGenericAllocationHandle h = 0;

    NEED(cuMemGetAllocationGranularity(&r->size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&r->p, r->size, 0, 0, 0));
    NEED(cuMemCreate(&h, r->size, &prop, 0));
    NEED(cuMemMap(r->p, r->size, 0, h, 0));
    NEED(cuMemRelease(h));
    NEED(set_access(r->p, r->size, 0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    NEED(set_access(r->p, r->size, 1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
}
static void give_far_pool(struct right *r)
{
    const CUmemLocation there = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .location = there};
    const CUmemAccessDesc rw = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUcontext first;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuCtxCreate(&r->second, NULL, 0, 1));
    NEED(cuMemPoolCreate(&r->pool, &props));
    NEED(cuMemPoolSetAccess(r->pool, &rw, 1));
    NEED(cuMemAllocFromPoolAsync(&r->p, BYTES, r->pool, NULL));
    NEED(cuCtxSynchronize());
    NEED(cuCtxSetCurrent(first));
}
static CUresult take_pool_access(struct right *r)
{
    const CUmemAccessDesc none = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_NONE};

    return cuMemPoolSetAccess(r->pool, &none, 1);
}

/* ---- the test ---- */

static bool refused(CUresult r)
{
    return r == CUDA_ERROR_INVALID_VALUE || r == CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void use_often(CUdeviceptr p)
{
    for (unsigned i = 0; i < WARM; i++) { /* with one block, and with several */
        NEED(cf_fill(p, i & 1 ? N : 64, i, NULL));
        NEED(cuCtxSynchronize());
    }
}

/* Launches a kernel whose access was revoked. */
static void launch_again(const struct right *r)
{
    CUresult result = cf_fill(r->p, 64, 77, NULL);

    cf_true("launch", result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
}

/*
 * Makes requests by the host only, which may be refused at once, or end the context like a kernel.
 */
static void copy_again(const struct right *r)
{
    static uint32_t words[N];
    CUresult result = cuMemcpyHtoD(r->p, words, BYTES);

    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    cf_true("copy_refused", refused(result));
    if (result == CUDA_ERROR_ILLEGAL_ADDRESS)
        return;
    result = cuMemsetD32(r->p, 9, N);
    if (result == CUDA_SUCCESS)
        result = cuCtxSynchronize();
    cf_true("memset_refused", refused(result));
}

/* Releases memory that the end of the context does not; fails if that has an error. */
static void give_back(const struct right *r)
{
    if (r->alias) {
        cuMemUnmap(r->p, r->size);
        cuMemUnmap(r->alias, r->size);
        cuMemAddressFree(r->p, 2 * r->size);
    }
    if (r->pool)
        cuMemPoolDestroy(r->pool);
}

static void revoke(const struct way *w, bool warm, bool copies)
{
    struct right r = {0};
    CUcontext c;

    if (getenv("CONFORM_DEVICES")) { /* CF_TWO */
        NEED(cuInit(0));
        NEED(cuDevicePrimaryCtxRetain(&c, 0));
        NEED(cuCtxSetCurrent(c));
    }
    cf_module();
    w->give(&r);
    if (warm) {
        use_often(r.p);
        cf_true("filled", cf_filled(r.p, N, WARM - 1));
    }
    if (r.alias)
        OK("alias", cf_fill(r.alias, N, 5, NULL));
    NEED(cuCtxSynchronize());
    OK("take", w->take(&r));
    NEED(cuCtxSynchronize());
    if (r.readable && warm)
        cf_true("still_readable", cf_filled(r.p, N, r.alias ? 5 : WARM - 1));
    if (r.alias)
        cf_true("twin_kept", cf_filled(r.alias, N, 5));
    if (copies)
        copy_again(&r);
    else
        launch_again(&r);
    give_back(&r);
}

#define REVOKE_KERNEL(name, give, take, flags) \
    static const struct way way_##name = {give, take}; \
    CASE(revoke_##name##_warm, CF_ALONE | CF_UB | (flags)) \
    { \
        revoke(&way_##name, true, false); \
    } \
    CASE(revoke_##name##_cold, CF_ALONE | CF_UB | (flags)) \
    { \
        revoke(&way_##name, false, false); \
    }
#define REVOKE_OF(name, give, take, flags) \
    REVOKE_KERNEL(name, give, take, flags) \
    CASE(revoke_##name##_copy, CF_ALONE | CF_UB | (flags)) \
    { \
        revoke(&way_##name, true, true); \
    }

REVOKE_OF(free, give_alloc, take_free, CF_CTX)
REVOKE_OF(pitch, give_pitch, take_free, CF_CTX)
REVOKE_OF(managed, give_managed, take_free, CF_CTX)
REVOKE_OF(pinned, give_pinned, take_pinned, CF_CTX)
REVOKE_OF(registered, give_registered, take_registered, CF_CTX)
REVOKE_OF(async, give_async, take_async, CF_CTX)
REVOKE_OF(pool_trim, give_pool, take_trim, CF_CTX)
REVOKE_OF(pool_destroy, give_pool, take_pool, CF_CTX)
REVOKE_OF(graph, give_graph, take_graph, CF_CTX)
REVOKE_OF(unmap, give_mapped, take_unmap, CF_CTX)
REVOKE_OF(access, give_mapped, take_access, CF_CTX)
REVOKE_OF(write, give_mapped, take_write, CF_CTX)
REVOKE_OF(module, give_global, take_module, CF_CTX)
REVOKE_KERNEL(peer, give_peer, take_peer, CF_TWO) /* copies between devices need no such access */
REVOKE_OF(peer_free, give_peer, take_peer_free, CF_TWO)
REVOKE_OF(context, give_peer, take_context, CF_TWO)
REVOKE_OF(far_access, give_far_mapped, take_access, CF_TWO)
REVOKE_OF(far_write, give_far_mapped, take_write, CF_TWO)
REVOKE_OF(far_unmap, give_far_mapped, take_unmap, CF_TWO)
REVOKE_OF(far_pool, give_far_pool, take_pool_access, CF_TWO)

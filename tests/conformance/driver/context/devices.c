// SPDX-License-Identifier: MIT
/*
 * Two devices in one process: access rights between them (CF_TWO; run.sh gives the software GPU
 * two).
 */
#include "conform.h"

static CUcontext contexts[2];

static void start(void)
{
    NEED(cuInit(0));
    for (int i = 0; i < 2; i++)
        NEED(cuDevicePrimaryCtxRetain(&contexts[i], i));
    NEED(cuCtxSetCurrent(contexts[0]));
}

static void on(int device)
{
    NEED(cuCtxSetCurrent(contexts[device]));
    cf_module_forget(); /* each context has its own module */
}

static CUmemAccessDesc allow(int device, CUmemAccess_flags flags)
{
    return (CUmemAccessDesc){.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device}, .flags = flags};
}

/* Maps a granule of device 0's memory, without access rights. */
static CUdeviceptr map(size_t *size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemGenericAllocationHandle h = 0;
    CUdeviceptr p = 0;

    NEED(cuMemGetAllocationGranularity(size, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&p, *size, 0, 0, 0));
    NEED(cuMemCreate(&h, *size, &prop, 0));
    NEED(cuMemMap(p, *size, 0, h, 0));
    NEED(cuMemRelease(h));
    return p;
}

static void access_is(const char *check, CUdeviceptr p, int device, unsigned want)
{
    CUmemLocation l = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
    unsigned long long flags = 99;

    NEED(cuMemGetAccess(&flags, &l, p));
    cf_u64(check, flags, want);
}

/* Host memory belongs to the device whose context was current. */
CASE(devices_host_memory, CF_ALONE | CF_TWO)
{
    int device = 99;
    void *p = NULL;

    start();
    for (int i = 1; i >= 0; i--) {
        on(i);
        OK("alloc", cuMemHostAlloc(&p, 4096, 0));
        OK("ordinal",
           cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, (CUdeviceptr)(uintptr_t)p));
        cf_u64("device", (uint64_t)device, (uint64_t)i);
        OK("free", cuMemFreeHost(p));
    }
}

/* The memory stays that of the first device, whichever device may access it. */
static void belongs_to_first(CUdeviceptr p)
{
    int device = 99;

    OK("ordinal", cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    cf_u64("owner", (uint64_t)device, 0);
}

CASE(devices_vmm_access, CF_ALONE | CF_TWO)
{
    const CUmemAccess_flags no = CU_MEM_ACCESS_FLAGS_PROT_NONE, ro = CU_MEM_ACCESS_FLAGS_PROT_READ,
                            rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccessDesc both[2] = {allow(0, rw), allow(1, ro)}, one;
    CUdeviceptr p, q = 0;
    size_t g;

    start();
    p = map(&g);
    access_is("none_0", p, 0, no);
    access_is("none_1", p, 1, no);
    OK("both", cuMemSetAccess(p, g, both, 2));
    access_is("both_0", p, 0, rw);
    access_is("both_1", p, 1, ro);
    belongs_to_first(p);
    OK("fill_0", cf_fill(p, 1000, 3, NULL));
    cf_true("filled_0", cf_filled(p, 1000, 3));
    /* The second device may read; memory not named for it is unchanged. */
    on(1);
    NEED(cuMemAlloc(&q, 4096));
    OK("copy_read", cuMemcpyDtoD(q, p, 4000));
    cf_true("copy_read_value", cf_filled(q, 1000, 3));
    one = allow(1, rw);
    OK("one", cuMemSetAccess(p, g, &one, 1));
    access_is("one_0", p, 0, rw);
    access_is("one_1", p, 1, rw);
    belongs_to_first(p);
    OK("fill_1", cf_fill(p, 1000, 5, NULL));
    cf_true("filled_1", cf_filled(p, 1000, 5));
    one = allow(1, no);
    OK("taken", cuMemSetAccess(p, g, &one, 1));
    access_is("taken_0", p, 0, rw);
    access_is("taken_1", p, 1, no);
    belongs_to_first(p);
    /* Between contexts each device accesses its own side. */
    OK("peer", cuMemcpyPeer(q, contexts[1], p, contexts[0], 4000));
    OK("sync", cuCtxSynchronize());
    cf_true("peer_value", cf_filled(q, 1000, 5));
    OK("fill_denied", cf_fill(p, 1000, 7, NULL));
    RC("fill_denied_sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    on(0); /* the other device is not affected */
    cf_true("unharmed", cf_filled(p, 1000, 5));
}

/* The value of ACCESS_FLAGS, and whether the pointer may be used, by the device of each context. */
static void pointer_access_is(const char *check, CUdeviceptr p, unsigned first, unsigned second)
{
    const unsigned want[] = {first, second};

    for (int i = 0; i < 2; i++) {
        CUdeviceptr at = 0;
        unsigned flags = 99;
        char name[64];

        on(i);
        NEED(cuPointerGetAttribute(&flags, CU_POINTER_ATTRIBUTE_ACCESS_FLAGS, p));
        snprintf(name, sizeof(name), "%s_%d", check, i);
        cf_u64(name, flags, want[i]);
        snprintf(name, sizeof(name), "%s_pointer_%d", check, i);
        RC(name, cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p),
           want[i] == CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
    }
    on(0);
}

/* Pointer attributes show the access rights of the current context's device, for each order of
   descriptors. */
CASE(devices_vmm_pointer, CF_ALONE | CF_TWO)
{
    const CUmemAccess_flags no = CU_MEM_ACCESS_FLAGS_PROT_NONE, ro = CU_MEM_ACCESS_FLAGS_PROT_READ,
                            rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    CUmemAccessDesc both[2] = {allow(0, rw), allow(1, ro)}, turned[2] = {allow(1, rw), allow(0, ro)},
                    one = allow(0, no);
    CUdeviceptr p, base = 0;
    size_t g, bytes = 0;
    uint32_t word = 0;

    start();
    p = map(&g);
    pointer_access_is("mapped", p, no, no);
    OK("both", cuMemSetAccess(p, g, both, 2));
    pointer_access_is("both", p, rw, ro);
    OK("turned", cuMemSetAccess(p, g, turned, 2));
    pointer_access_is("turned", p, ro, rw);
    OK("taken", cuMemSetAccess(p, g, &one, 1));
    pointer_access_is("taken", p, no, rw);
    on(1);
    OK("range", cuMemGetAddressRange(&base, &bytes, p));
    cf_true("range_right", base == p && bytes == g);
    OK("fill", cf_fill(p, 1000, 3, NULL));
    OK("read", cuMemcpyDtoH(&word, p, sizeof(word)));
    cf_u64("word", word, 3);
    one = allow(1, no);
    OK("none", cuMemSetAccess(p, g, &one, 1));
    pointer_access_is("none", p, no, no);
}

/* Mapped memory belongs to the device of its allocation, also without its handle and for each order of access. */
CASE(devices_vmm_owner, CF_ALONE | CF_TWO)
{
    const CUmemAccess_flags rw = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

    start();
    for (int i = 1; i >= 0; i--) {
        CUmemAllocationProp props = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                     .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = i}};
        CUmemGenericAllocationHandle h;
        CUdeviceptr p = 0;
        size_t g = 0;

        NEED(cuMemGetAllocationGranularity(&g, &props, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
        NEED(cuMemCreate(&h, g, &props, 0));
        NEED(cuMemAddressReserve(&p, g, 0, 0, 0));
        NEED(cuMemMap(p, g, 0, h, 0));
        NEED(cuMemRelease(h));
        for (int k = 0; k < 4; k++) {
            CUmemAccessDesc one = allow(k == 1 || k == 2 ? !i : i, rw);
            int device = 99;

            OK("access", cuMemSetAccess(p, g, &one, 1));
            OK("ordinal", cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
            cf_u64("device", (uint64_t)device, (uint64_t)i);
        }
        NEED(cuMemUnmap(p, g));
        NEED(cuMemAddressFree(p, g));
    }
}

/* Operations of the second device on memory that it may only read. */
static void denied(CUresult (*work)(CUdeviceptr p, CUdeviceptr q))
{
    CUmemAccessDesc both[2] = {allow(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                               allow(1, CU_MEM_ACCESS_FLAGS_PROT_READ)};
    CUdeviceptr p, q = 0;
    size_t g;

    start();
    p = map(&g);
    NEED(cuMemSetAccess(p, g, both, 2));
    NEED(cf_fill(p, 1000, 3, NULL));
    NEED(cuCtxSynchronize());
    on(1);
    NEED(cuMemAlloc(&q, 4096));
    NEED(cuMemsetD8(q, 0, 4096));
    NEED(cuCtxSynchronize());
    CUresult r = work(p, q);
    cf_true("call", r == CUDA_SUCCESS || r == CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    RC("sticky", cuMemAlloc(&q, 4096), CUDA_ERROR_ILLEGAL_ADDRESS);
    on(0);
    OK("other_device", cuCtxSynchronize());
    cf_true("unharmed", cf_filled(p, 1000, 3));
}

static CUresult copy(CUdeviceptr p, CUdeviceptr q)
{
    return cuMemcpyDtoDAsync(p, q, 4000, NULL);
}

static CUresult fill(CUdeviceptr p, CUdeviceptr q)
{
    (void)q;
    return cuMemsetD32Async(p, 9, 1000, NULL);
}

static CUresult write_value(CUdeviceptr p, CUdeviceptr q)
{
    (void)q;
    return cuStreamWriteValue32(NULL, p, 9, 0);
}

static CUresult rows(CUdeviceptr p, CUdeviceptr q)
{
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = q,
                       .srcPitch = 64,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = p,
                       .dstPitch = 128,
                       .WidthInBytes = 32,
                       .Height = 8};

    return cuMemcpy2DAsync(&c, NULL);
}

CASE(devices_denied_copy, CF_ALONE | CF_TWO)
{
    denied(copy);
}
CASE(devices_denied_rows, CF_ALONE | CF_TWO)
{
    denied(rows);
}
CASE(devices_denied_memset, CF_ALONE | CF_TWO)
{
    denied(fill);
}
CASE(devices_denied_write_value, CF_ALONE | CF_TWO)
{
    denied(write_value);
}

CASE(devices_pool_access, CF_ALONE | CF_TWO)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc rw = allow(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    CUmemAccessDesc none = allow(1, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    CUmemAccessDesc ro = allow(1, CU_MEM_ACCESS_FLAGS_PROT_READ);
    CUmemLocation l = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUmemAccess_flags flags = 99;
    CUdeviceptr before = 0, after = 0, q = 0;
    CUmemoryPool pool = NULL;

    start();
    NEED(cuMemPoolCreate(&pool, &props));
    OK("alloc_before", cuMemAllocFromPoolAsync(&before, 4096, pool, NULL));
    OK("get", cuMemPoolGetAccess(&flags, pool, &l));
    cf_u64("get_value", flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    RC("read_only", cuMemPoolSetAccess(pool, &ro, 1), CUDA_ERROR_INVALID_VALUE);
    OK("set", cuMemPoolSetAccess(pool, &rw, 1));
    OK("alloc_after", cuMemAllocFromPoolAsync(&after, 4096, pool, NULL));
    OK("sync", cuCtxSynchronize());
    on(1);
    OK("get_2", cuMemPoolGetAccess(&flags, pool, &l));
    cf_u64("get_2_value", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK("fill_before", cf_fill(before, 1000, 1, NULL)); /* also applies to existing memory */
    cf_true("filled_before", cf_filled(before, 1000, 1));
    OK("fill_after", cf_fill(after, 1000, 2, NULL));
    cf_true("filled_after", cf_filled(after, 1000, 2));
    OK("unset", cuMemPoolSetAccess(pool, &none, 1));
    NEED(cuMemAlloc(&q, 4096));
    OK("peer", cuMemcpyPeerAsync(q, contexts[1], after, contexts[0], 4000, NULL));
    OK("peer_sync", cuCtxSynchronize());
    cf_true("peer_value", cf_filled(q, 1000, 2));
    OK("denied", cf_fill(after, 1000, 7, NULL));
    RC("denied_sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    on(0);
    cf_true("unharmed", cf_filled(after, 1000, 2));
    OK("free", cuMemFreeAsync(after, NULL));
    OK("free_2", cuMemFreeAsync(before, NULL));
    OK("sync_2", cuCtxSynchronize());
}

/* A graph's memory is accessible to its own device and to the devices named by the node. */
static CUdeviceptr graph_memory(const CUmemAccessDesc *access, size_t n, CUgraphExec *exec)
{
    CUDA_MEM_ALLOC_NODE_PARAMS a = {.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                  .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                    .accessDescs = access,
                                    .accessDescCount = n,
                                    .bytesize = 4096};
    CUgraph graph = NULL;
    CUgraphNode node;

    NEED(cuGraphCreate(&graph, 0));
    NEED(cuGraphAddMemAllocNode(&node, graph, NULL, 0, &a));
    NEED(cuGraphInstantiate(exec, graph, 0));
    NEED(cuGraphLaunch(*exec, NULL));
    NEED(cuCtxSynchronize());
    return a.dptr;
}

CASE(devices_graph_access, CF_ALONE | CF_TWO)
{
    CUmemAccessDesc both[2] = {allow(0, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
                               allow(1, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)};
    CUgraphExec a = NULL, b = NULL;
    CUdeviceptr shared, own;

    start();
    shared = graph_memory(both, 2, &a);
    own = graph_memory(NULL, 0, &b);
    on(1);
    OK("fill", cf_fill(shared, 1000, 4, NULL));
    cf_true("filled", cf_filled(shared, 1000, 4));
    OK("denied", cf_fill(own, 1000, 4, NULL));
    RC("denied_sync", cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    on(0);
    OK("own", cf_fill(own, 1000, 5, NULL));
    cf_true("own_filled", cf_filled(own, 1000, 5));
}

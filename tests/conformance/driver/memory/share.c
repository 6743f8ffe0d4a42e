// SPDX-License-Identifier: MIT
/* Physical memory and pools passed to another process by descriptor. */
#include "peer.h"

#include <fcntl.h>
#include <unistd.h>

#define FD CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
#define WORDS 10000u

static CUmemAllocationProp shareable(void)
{
    CUmemAllocationProp p = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                             .requestedHandleTypes = FD,
                             .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};

    return p;
}

/* As in ipc.c: starts the second process before cuInit. */
static void begin(struct peer *p)
{
    CUcontext c;
    int yes = 0;

    peer_start(p);
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&c, 0));
    NEED(cuCtxSetCurrent(c));
    NEED(cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 0));
    if (!yes) {
        peer_end(p, false);
        cf_skip("the device exports no memory by descriptor");
    }
}

static CUdeviceptr map_here(CUmemGenericAllocationHandle h, size_t size)
{
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p = 0;

    NEED(cuMemAddressReserve(&p, size, 0, 0, 0));
    NEED(cuMemMap(p, size, 0, h, 0));
    NEED(cuMemSetAccess(p, size, &d, 1));
    return p;
}

static CUresult send_fd(struct peer *p, enum peer_op op, int fd, uint64_t *value)
{
    struct peer_msg m = {.op = op};
    CUresult r = peer_ask(p, &m, fd);

    *value = m.value;
    return r;
}

static bool filled_there(struct peer *p, uint64_t addr, unsigned v)
{
    uint64_t yes = 0;

    return peer_do(p, P_FILLED, addr, WORDS, v, &yes) == CUDA_SUCCESS && yes;
}

static void fill_there(struct peer *p, uint64_t addr, unsigned v)
{
    NEED(peer_do(p, P_FILL, addr, WORDS, v, NULL));
    NEED(peer_do(p, P_STREAM_SYNC, 0, 0, 0, NULL));
}

CASE(share_physical, CF_ALONE)
{
    CUmemAllocationProp prop = shareable(), back;
    CUmemGenericAllocationHandle h, again;
    struct peer peer;
    size_t g = 0;
    uint64_t theirs = 0, q = 0;
    int fd = -1, fd2 = -1;

    begin(&peer);
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    OK("create", cuMemCreate(&h, 2 * g, &prop, 0));
    OK("props", cuMemGetAllocationPropertiesFromHandle(&back, h));
    cf_true("handle_type", back.requestedHandleTypes == FD);
    CUdeviceptr p = map_here(h, 2 * g);
    NEED(cf_fill(p, WORDS, 3, NULL));
    NEED(cuCtxSynchronize());
    OK("export", cuMemExportToShareableHandle(&fd, h, FD, 0));
    OK("export_again", cuMemExportToShareableHandle(&fd2, h, FD, 0));
    cf_true("descriptor", fcntl(fd, F_GETFD) >= 0 && fcntl(fd2, F_GETFD) >= 0 && fd != fd2);
    close(fd2);
    OK("import", send_fd(&peer, P_IMPORT, fd, &theirs));
    OK("map", peer_do(&peer, P_MAP, theirs, 2 * g, 0, &q));
    cf_true("seen_there", filled_there(&peer, q, 3));
    fill_there(&peer, q, 800);
    cf_true("seen_here", cf_filled(p, WORDS, 800));
    OK("release_there", peer_do(&peer, P_RELEASE, theirs, 0, 0, NULL));
    cf_true("mapping_stays", filled_there(&peer, q, 800));
    OK("unmap_there", peer_do(&peer, P_UNMAP, q, 2 * g, 0, NULL));
    OK("import_again", send_fd(&peer, P_IMPORT, fd, &theirs));
    OK("map_again", peer_do(&peer, P_MAP, theirs, 2 * g, 0, &q));
    cf_true("seen_again", filled_there(&peer, q, 800));
    OK("import_here", cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)fd, FD));
    OK("props_of_imported", cuMemGetAllocationPropertiesFromHandle(&back, again));
    /* Imported memory cannot be exported again (driver 580). */
    cf_true("same_type", back.requestedHandleTypes == 0 && back.type == prop.type);
    RC("export_imported", cuMemExportToShareableHandle(&fd2, again, FD, 0), CUDA_ERROR_INVALID_VALUE);
    OK("release_imported", cuMemRelease(again));
    /* The creator releases it; the other process keeps it. */
    OK("unmap", cuMemUnmap(p, 2 * g));
    OK("release", cuMemRelease(h));
    cf_true("kept", filled_there(&peer, q, 800));
    OK("import_back", cuMemImportFromShareableHandle(&again, (void *)(uintptr_t)fd, FD));
    close(fd);
    NEED(cuMemMap(p, 2 * g, 0, again, 0));
    CUmemAccessDesc d = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE},
                         .flags = CU_MEM_ACCESS_FLAGS_PROT_READ};
    NEED(cuMemSetAccess(p, 2 * g, &d, 1));
    cf_true("seen_back", cf_filled(p, WORDS, 800));
    peer_end(&peer, true);
    cf_true("kept_here", cf_filled(p, WORDS, 800));
    OK("unmap_last", cuMemUnmap(p, 2 * g));
    OK("release_last", cuMemRelease(again));
    NEED(cuMemAddressFree(p, 2 * g));
}

CASE(share_physical_errors, CF_ALONE | CF_UB)
{
    CUmemAllocationProp prop = shareable(), plain = shareable();
    CUmemGenericAllocationHandle h, other;
    struct peer peer;
    size_t g = 0, total, before = 0, after = 0;
    int fd = -1, null = open("/dev/null", O_RDWR);

    begin(&peer);
    peer_end(&peer, false);
    plain.requestedHandleTypes = CU_MEM_HANDLE_TYPE_NONE;
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
    RC("fabric", cuMemCreate(&h, g, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
    NEED(cuMemCreate(&other, g, &plain, 0));
    RC("export_plain", cuMemExportToShareableHandle(&fd, other, FD, 0), CUDA_ERROR_INVALID_VALUE);
    prop = shareable();
    NEED(cuMemGetInfo(&before, &total));
    NEED(cuMemCreate(&h, g, &prop, 0));
    RC("export_null", cuMemExportToShareableHandle(NULL, h, FD, 0), CUDA_ERROR_INVALID_VALUE);
    RC("export_flags", cuMemExportToShareableHandle(&fd, h, FD, 1), CUDA_ERROR_INVALID_VALUE);
    RC("export_no_type", cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_NONE, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("export_nothing", cuMemExportToShareableHandle(&fd, 0, FD, 0), CUDA_ERROR_INVALID_VALUE);
    RC("import_null", cuMemImportFromShareableHandle(NULL, (void *)(uintptr_t)null, FD),
       CUDA_ERROR_INVALID_VALUE);
    RC("import_device", cuMemImportFromShareableHandle(&other, (void *)(uintptr_t)null, FD),
       CUDA_ERROR_INVALID_VALUE);
    RC("import_minus_1", cuMemImportFromShareableHandle(&other, (void *)-1, FD), CUDA_ERROR_INVALID_VALUE);
    RC("import_closed", cuMemImportFromShareableHandle(&other, (void *)(uintptr_t)900, FD),
       CUDA_ERROR_INVALID_VALUE);
    OK("release", cuMemRelease(h));
    NEED(cuMemGetInfo(&after, &total));
    cf_true("memory_back", before == after);
    NEED(cuMemRelease(other));
    close(null);
}

CASE(share_pool, CF_ALONE)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = FD,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemPoolPtrExportData data;
    CUmemoryPool pool = NULL, imported;
    CUdeviceptr p = 0, p2 = 0;
    struct peer peer;
    struct peer_msg m = {.op = P_IMPORT_POINTER};
    uint64_t theirs = 0;
    int fd = -1, types = 0;

    begin(&peer);
    NEED(cuDeviceGetAttribute(&types, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 0));
    cf_true("types", (types & FD) != 0);
    OK("create", cuMemPoolCreate(&pool, &props));
    OK("alloc", cuMemAllocFromPoolAsync(&p, WORDS * 4, pool, NULL));
    NEED(cuMemAllocFromPoolAsync(&p2, 100, pool, NULL));
    NEED(cf_fill(p, WORDS, 40, NULL));
    NEED(cuCtxSynchronize());
    OK("export", cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
    OK("import", send_fd(&peer, P_IMPORT_POOL, fd, &theirs));
    OK("export_pointer", cuMemPoolExportPointer(&data, p));
    m.a = theirs;
    memcpy(m.data, &data, sizeof(data));
    OK("import_pointer", peer_ask(&peer, &m, -1));
    uint64_t q = m.value;
    cf_true("seen_there", filled_there(&peer, q, 40));
    fill_there(&peer, q, 500);
    cf_true("seen_here", cf_filled(p, WORDS, 500));
    OK("free_there", peer_do(&peer, P_FREE_ASYNC, q, 0, 0, NULL));
    cf_true("still_here", cf_filled(p, WORDS, 500));
    NEED(cuMemPoolExportPointer(&data, p2));
    NEED(cf_fill(p2, 25, 9, NULL));
    NEED(cuCtxSynchronize());
    m = (struct peer_msg){.op = P_IMPORT_POINTER, .a = theirs};
    memcpy(m.data, &data, sizeof(data));
    OK("import_second", peer_ask(&peer, &m, -1));
    uint64_t yes = 0;
    NEED(peer_do(&peer, P_FILLED, m.value, 25, 9, &yes));
    cf_true("seen_second", yes);
    OK("free_second", peer_do(&peer, P_FREE, m.value, 0, 0, NULL));
    OK("end_there", peer_do(&peer, P_END_POOL, theirs, 0, 0, NULL));
    OK("import_here", cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, FD, 0));
    OK("end_imported", cuMemPoolDestroy(imported));
    close(fd);
    OK("free", cuMemFreeAsync(p, NULL));
    OK("free_2", cuMemFreeAsync(p2, NULL));
    OK("sync", cuStreamSynchronize(NULL));
    OK("end", cuMemPoolDestroy(pool));
    peer_end(&peer, false);
}

CASE(share_pool_errors, CF_ALONE | CF_UB)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemPoolPtrExportData data, bad;
    CUmemoryPool pool = NULL, plain = NULL, imported;
    CUdeviceptr p = 0, q = 0, other = 0;
    struct peer peer;
    struct peer_msg m = {.op = P_IMPORT_POINTER};
    uint64_t theirs = 0;
    int fd = -1, phys = -1;
    CUmemAllocationProp prop = shareable();
    CUmemGenericAllocationHandle h;
    size_t g = 0;

    begin(&peer);
    NEED(cuMemPoolCreate(&plain, &props));
    props.handleTypes = CU_MEM_HANDLE_TYPE_WIN32;
    RC("win32", cuMemPoolCreate(&pool, &props), CUDA_ERROR_NOT_SUPPORTED);
    props.handleTypes = FD;
    NEED(cuMemPoolCreate(&pool, &props));
    RC("export_plain", cuMemPoolExportToShareableHandle(&fd, plain, FD, 0), CUDA_ERROR_INVALID_VALUE);
    RC("export_null", cuMemPoolExportToShareableHandle(NULL, pool, FD, 0), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemPoolExportToShareableHandle(&fd, pool, FD, 0));
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    NEED(cuMemCreate(&h, g, &prop, 0));
    NEED(cuMemExportToShareableHandle(&phys, h, FD, 0));
    RC("memory_as_pool", cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)phys, FD, 0),
       CUDA_ERROR_INVALID_VALUE);
    RC("pool_as_memory", cuMemImportFromShareableHandle(&h, (void *)(uintptr_t)fd, FD),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemAllocFromPoolAsync(&other, 4096, plain, NULL));
    NEED(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL));
    RC("export_pointer_plain", cuMemPoolExportPointer(&data, other), CUDA_ERROR_INVALID_VALUE);
    RC("export_pointer_inside", cuMemPoolExportPointer(&data, p + 256), CUDA_ERROR_INVALID_VALUE);
    RC("export_pointer_null", cuMemPoolExportPointer(NULL, p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemPoolExportPointer(&data, p));
    RC("import_own_pool", cuMemPoolImportPointer(&q, pool, &data), CUDA_ERROR_INVALID_VALUE);
    NEED(send_fd(&peer, P_IMPORT_POOL, fd, &theirs));
    memset(&bad, 0x33, sizeof(bad));
    m.a = theirs;
    memcpy(m.data, &bad, sizeof(bad));
    RC("import_invented", peer_ask(&peer, &m, -1), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd, FD, 0));
    RC("alloc_imported", cuMemAllocFromPoolAsync(&q, 64, imported, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("set_imported", cuDeviceSetMemPool(0, imported), CUDA_ERROR_INVALID_VALUE);
    m = (struct peer_msg){.op = P_IMPORT_POINTER, .a = theirs};
    memcpy(m.data, &data, sizeof(data));
    OK("import", peer_ask(&peer, &m, -1));
    peer_end(&peer, true);
    OK("free", cuMemFreeAsync(p, NULL));
    OK("free_other", cuMemFreeAsync(other, NULL));
    OK("sync", cuStreamSynchronize(NULL));
    NEED(cuMemPoolDestroy(imported));
    NEED(cuMemPoolDestroy(pool));
    NEED(cuMemPoolDestroy(plain));
    NEED(cuMemRelease(h));
}

static CUresult range(int *fd, CUdeviceptr p, size_t size, unsigned long long flags)
{
    return cuMemGetHandleForAddressRange(fd, p, size, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, flags);
}

/* Device memory has no dma-buf; pinned memory has one in a guest (programs/dmabuf.c). */
CASE(share_address_range, CF_CTX | CF_UB)
{
    CUdeviceptr p = 0;
    void *host = NULL;
    int fd = -1, yes = 1;
    CUresult r;

    NEED(cuMemAlloc(&p, 4096));
    OK("attribute", cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, 0));
    cf_u64("dma_buf", (uint64_t)yes, 0);
    RC("range", range(&fd, p, 4096, 0), CUDA_ERROR_NOT_SUPPORTED);
    NEED(cuMemFree(p));
    OK("host_attribute", cuDeviceGetAttribute(&yes, CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED, 0));
    NEED(cuMemHostAlloc(&host, 8192, 0));
    p = (uintptr_t)host;
    r = range(&fd, p, 8192, 0);
    cf_true("as_the_attribute", r == (yes ? CUDA_SUCCESS : CUDA_ERROR_NOT_SUPPORTED));
    if (r == CUDA_SUCCESS)
        close(fd);
    RC("part_of_page", range(&fd, p, 4095, 0), CUDA_ERROR_INVALID_VALUE);
    RC("inside_page", range(&fd, p + 1, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    RC("nothing", range(&fd, p, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("outside", range(&fd, p, 12288, 0), CUDA_ERROR_INVALID_VALUE);
    RC("wraps", range(&fd, p + 4096, (size_t)0 - 4096, 0), CUDA_ERROR_INVALID_VALUE);
    RC("no_room", range(NULL, p, 8192, 0), CUDA_ERROR_INVALID_VALUE);
    RC("flags", range(&fd, p, 8192, 2), CUDA_ERROR_INVALID_VALUE);
    RC("bar", range(&fd, p, 8192, CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE), CUDA_ERROR_NOT_SUPPORTED);
    RC("type", cuMemGetHandleForAddressRange(&fd, p, 8192, (CUmemRangeHandleType)2, 0),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFreeHost(host));
    RC("freed", range(&fd, p, 8192, 0), CUDA_ERROR_INVALID_VALUE);
}

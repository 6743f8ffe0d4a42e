/* SPDX-License-Identifier: MIT */
/*
 * Memory after a refused free: unchanged for queries and use; the correct call then frees it, once.
 */
#include "peer.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4096u
#define ADDRESSES 2

struct memory {
    const char *name;
    CUdeviceptr p;
    uint64_t size;
    CUmemGenericAllocationHandle h;
    CUresult (*end)(struct memory *m);
};

static CUstream s;
static uint64_t grain;

static const CUpointer_attribute asked[] = {
    CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
    CU_POINTER_ATTRIBUTE_BUFFER_ID,      CU_POINTER_ATTRIBUTE_IS_MANAGED,
    CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR,
    CU_POINTER_ATTRIBUTE_RANGE_SIZE,     CU_POINTER_ATTRIBUTE_MAPPED,
    CU_POINTER_ATTRIBUTE_ACCESS_FLAGS,   CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE,
    CU_POINTER_ATTRIBUTE_MAPPING_SIZE,   CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR,
    CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID};
#define ASKED (sizeof(asked) / sizeof(asked[0]))

struct known {
    CUresult r[ADDRESSES][ASKED];
    uint64_t v[ADDRESSES][ASKED];
};

static void look(const struct memory *m, struct known *k)
{
    const CUdeviceptr at[ADDRESSES] = {m->p, m->p + m->size - 1};

    memset(k, 0, sizeof(*k));
    for (unsigned i = 0; i < ADDRESSES; i++) {
        for (unsigned a = 0; a < ASKED; a++)
            k->r[i][a] = cuPointerGetAttribute(&k->v[i][a], asked[a], at[i]);
    }
}

static CUresult end_registered(struct memory *m)
{
    return cuMemHostUnregister((void *)(uintptr_t)m->p);
}

static bool usable(const struct memory *m)
{
    CUdeviceptr p = m->p;
    uint8_t byte = 0;

    /* Registered memory may have a different address on the device. */
    if (m->end == end_registered && cuMemHostGetDevicePointer(&p, (void *)(uintptr_t)m->p, 0) != CUDA_SUCCESS)
        return false;
    return cuMemsetD8(p, 0x5a, m->size) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
           cuMemcpyDtoH(&byte, p + m->size - 1, 1) == CUDA_SUCCESS && byte == 0x5a;
}

static CUresult end_alloc(struct memory *m)
{
    return cuMemFree(m->p);
}

static CUresult end_async(struct memory *m)
{
    return cuMemFreeAsync(m->p, s);
}

static CUresult end_host(struct memory *m)
{
    return cuMemFreeHost((void *)(uintptr_t)m->p);
}

static CUresult end_mapped(struct memory *m)
{
    CUresult r = cuMemUnmap(m->p, m->size);

    return r != CUDA_SUCCESS ? r : cuMemAddressFree(m->p, 2 * m->size);
}

static CUresult unmap_part(struct memory *m)
{
    return cuMemUnmap(m->p, m->size / 4);
}

static CUresult unmap_beyond(struct memory *m)
{
    return cuMemUnmap(m->p, m->size + 3 * grain); /* beyond the end of the reservation, too */
}

static CUresult free_reserved(struct memory *m)
{
    return cuMemAddressFree(m->p, 2 * m->size);
}

static CUresult free_inside(struct memory *m)
{
    return cuMemFree(m->p + 256);
}

static CUresult free_async_inside(struct memory *m)
{
    return cuMemFreeAsync(m->p + 256, s);
}

static CUresult free_host_inside(struct memory *m)
{
    return cuMemFreeHost((void *)(uintptr_t)(m->p + 256));
}

static CUresult unregister_inside(struct memory *m)
{
    return cuMemHostUnregister((void *)(uintptr_t)(m->p + 256));
}

static CUresult close_as_ipc(struct memory *m)
{
    return cuIpcCloseMemHandle(m->p);
}

static CUresult free_async_nowhere(struct memory *m)
{
    return cuMemFreeAsync(m->p, (CUstream)(uintptr_t)0x1234567);
}

static CUresult (*const ways[])(struct memory *m) = {
    end_alloc,         end_async,     end_host,          end_registered,    unmap_part,
    unmap_beyond,      free_reserved, free_inside,       free_async_inside, free_host_inside,
    unregister_inside, close_as_ipc,  free_async_nowhere};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

/* True if the call is the correct one to end that memory. */
static bool right(const struct memory *m, CUresult (*way)(struct memory *m))
{
    const bool pool_or_alloc = m->end == end_alloc || m->end == end_async;

    return way == m->end || (pool_or_alloc && (way == end_alloc || way == end_async));
}

static void refused(struct memory *m)
{
    unsigned wrong = 0, refusals = 0, same = 0, used = 0;
    struct known before, after;
    char check[64];

    for (unsigned w = 0; w < WAYS; w++) {
        if (right(m, ways[w]) || (ways[w] == free_async_nowhere && cf_real()))
            continue;
        wrong++;
        look(m, &before);
        refusals += ways[w](m) != CUDA_SUCCESS;
        look(m, &after);
        same += memcmp(&before, &after, sizeof(before)) == 0;
        used += usable(m);
    }
    snprintf(check, sizeof(check), "%s_refused", m->name);
    cf_u64(check, refusals, wrong);
    snprintf(check, sizeof(check), "%s_same", m->name);
    cf_u64(check, same, wrong);
    snprintf(check, sizeof(check), "%s_usable", m->name);
    cf_u64(check, used, wrong);
    snprintf(check, sizeof(check), "%s_end", m->name);
    OK(check, m->end(m));
    snprintf(check, sizeof(check), "%s_once", m->name);
    cf_true(check, m->end(m) != CUDA_SUCCESS);
}

CASE(refused_end, CF_CTX)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    struct memory alloc = {"alloc", .size = SIZE, .end = end_alloc},
                  pool = {"pool", .size = SIZE, .end = end_async},
                  managed = {"managed", .size = SIZE, .end = end_alloc},
                  host = {"host", .size = SIZE, .end = end_host},
                  registered = {"registered", .size = SIZE, .end = end_registered},
                  mapped = {"mapped", .end = end_mapped};
    void *p;
    size_t g;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    grain = g;
    NEED(cuMemAlloc(&alloc.p, SIZE));
    refused(&alloc);
    NEED(cuMemAllocAsync(&pool.p, SIZE, s));
    NEED(cuStreamSynchronize(s));
    refused(&pool);
    NEED(cuMemAllocManaged(&managed.p, SIZE, CU_MEM_ATTACH_GLOBAL));
    refused(&managed);
    NEED(cuMemAllocHost(&p, SIZE));
    host.p = (uintptr_t)p;
    refused(&host);
    p = aligned_alloc(4096, SIZE);
    NEED(cuMemHostRegister(p, SIZE, 0));
    registered.p = (uintptr_t)p;
    refused(&registered);
    free(p);
    mapped.size = 2 * g;
    NEED(cuMemAddressReserve(&mapped.p, 4 * g, 0, 0, 0));
    for (unsigned i = 0; i < 2; i++) {
        NEED(cuMemCreate(&mapped.h, g, &prop, 0));
        NEED(cuMemMap(mapped.p + i * g, g, 0, mapped.h, 0));
        NEED(cuMemRelease(mapped.h));
    }
    NEED(cuMemSetAccess(mapped.p, 2 * g, &rw, 1));
    refused(&mapped);
    NEED(cuStreamDestroy(s));
}

/* Memory of another process: opened by a handle, once or twice, and from its pool. */
CASE(refused_opened_memory, CF_ALONE | CF_UB)
{
    struct peer_msg m = {.op = P_ALLOC, .a = SIZE};
    struct memory opened = {"opened", .size = SIZE, .end = close_as_ipc};
    CUdeviceptr again;
    CUipcMemHandle h;
    struct known before, after;
    struct peer peer;
    CUcontext c;

    peer_start(&peer);
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&c, 0));
    NEED(cuCtxSetCurrent(c));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(peer_ask(&peer, &m, -1));
    m = (struct peer_msg){.op = P_GET_MEM, .a = m.value};
    NEED(peer_ask(&peer, &m, -1));
    memcpy(&h, m.data, sizeof(h));
    NEED(cuIpcOpenMemHandle(&opened.p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    refused(&opened);
    NEED(cuIpcOpenMemHandle(&opened.p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    NEED(cuIpcOpenMemHandle(&again, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    OK("opened_less", cuIpcCloseMemHandle(again));
    opened.name = "opened_twice";
    refused(&opened);
    /* Each opening requires one closing; an address inside the memory cannot be closed. */
    for (int i = 0; i < 2; i++)
        NEED(cuIpcOpenMemHandle(&opened.p, h, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    look(&opened, &before);
    for (int i = 0; i < 3; i++)
        RC("close_inside", cuIpcCloseMemHandle(opened.p + 256), CUDA_ERROR_INVALID_VALUE);
    OK("close", cuIpcCloseMemHandle(opened.p));
    look(&opened, &after);
    cf_true("still_known", memcmp(&before, &after, sizeof(before)) == 0);
    cf_true("still_usable", usable(&opened));
    OK("close_last", cuIpcCloseMemHandle(opened.p));
    RC("close_once_more", cuIpcCloseMemHandle(opened.p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
    peer_end(&peer, false);
}

/* Allocated there, so that the pool of that process keeps it. */
CASE(refused_imported_memory, CF_ALONE | CF_UB)
{
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    struct peer_msg m = {.op = P_IMPORT_POOL};
    CUmemPoolPtrExportData data;
    uint64_t yes = 0, there;
    CUmemoryPool pool;
    struct peer peer;
    CUdeviceptr p;
    CUcontext c;
    int fd;

    peer_start(&peer);
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&c, 0));
    NEED(cuCtxSetCurrent(c));
    NEED(cuMemPoolCreate(&pool, &props));
    NEED(cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL));
    NEED(cf_fill(p, SIZE / 4, 6, NULL));
    NEED(cuStreamSynchronize(NULL));
    NEED(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    NEED(cuMemPoolExportPointer(&data, p));
    NEED(peer_ask(&peer, &m, fd));
    m = (struct peer_msg){.op = P_IMPORT_POINTER, .a = m.value};
    memcpy(m.data, &data, sizeof(data));
    NEED(peer_ask(&peer, &m, -1));
    there = m.value;
    for (int i = 0; i < 3; i++)
        RC("close_as_ipc", peer_do(&peer, P_CLOSE_MEM, there, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("inside", peer_do(&peer, P_FREE_ASYNC, there + 256, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("free_inside", peer_do(&peer, P_FREE, there + 256, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("look", peer_do(&peer, P_FILLED, there, SIZE / 4, 6, &yes));
    cf_u64("kept", yes, 1);
    OK("end", peer_do(&peer, P_FREE_ASYNC, there, 0, 0, NULL));
    RC("once", peer_do(&peer, P_FREE_ASYNC, there, 0, 0, NULL), CUDA_ERROR_INVALID_VALUE);
    peer_end(&peer, false);
    close(fd);
    NEED(cuMemFreeAsync(p, NULL));
    NEED(cuStreamSynchronize(NULL));
    NEED(cuMemPoolDestroy(pool));
}

/* Each retain requires one release, in any number; handles of a mapping are the same object. */
CASE(refused_retained, CF_CTX)
{
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle h, k, first;
    CUmemAllocationProp out;
    unsigned live = 0, same = 0, dead = 0;
    CUdeviceptr p;
    size_t g;

    NEED(cuMemGetAllocationGranularity(&g, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
    NEED(cuMemAddressReserve(&p, g, 0, 0, 0));
    NEED(cuMemCreate(&h, g, &prop, 0));
    NEED(cuMemMap(p, g, 0, h, 0));
    for (unsigned more = 0; more < 5; more++) {
        first = h;
        if (more != 0) /* the last round has released every handle of the mapping */
            NEED(cuMemRetainAllocationHandle(&first, (void *)(uintptr_t)p));
        for (unsigned i = 0; i < more; i++)
            same += cuMemRetainAllocationHandle(&k, (void *)(uintptr_t)p) == CUDA_SUCCESS && k == first;
        for (unsigned i = 0; i < more; i++)
            live += cuMemRelease(first) == CUDA_SUCCESS &&
                    cuMemGetAllocationPropertiesFromHandle(&out, first) == CUDA_SUCCESS;
        NEED(cuMemRelease(first));
        dead += cf_real() || cuMemRelease(first) != CUDA_SUCCESS;
    }
    cf_u64("one_object", same, 10);
    cf_u64("live", live, 10);
    cf_u64("dead", dead, 5);
    NEED(cuMemUnmap(p, g));
    NEED(cuMemAddressFree(p, g));
}

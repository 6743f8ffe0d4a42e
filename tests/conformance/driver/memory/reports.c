// SPDX-License-Identifier: MIT
/*
 * Failures of other implementations with memory, from public reports (llama.cpp, PyTorch, ZLUDA,
 * SCALE, chipStar), with the answers of NVIDIA's manual: memory pools, growing mappings, attributes
 * of pointers, alignment.
 */
#include "conform.h"

#define MIB ((size_t)1 << 20)

static uint64_t pool_value(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t v = 0;

    NEED(cuMemPoolGetAttribute(pool, attribute, &v));
    return v;
}

static CUmemoryPool new_pool(void)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool pool = NULL;

    NEED(cuMemPoolCreate(&pool, &props));
    return pool;
}

/* PyTorch reads and resets the peaks of the pool; only zero may be set. */
CASE(report_pool_peaks, CF_CTX)
{
    CUmemoryPool pool = new_pool();
    CUdeviceptr p = 0, q = 0;
    cuuint64_t zero = 0, other = 4096;
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("first", cuMemAllocFromPoolAsync(&p, 3 * MIB, pool, s));
    OK("second", cuMemAllocFromPoolAsync(&q, MIB, pool, s));
    OK("sync", cuStreamSynchronize(s));
    cf_true("used", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) >= 4 * MIB);
    cf_true("reserved", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >=
                            pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    OK("free", cuMemFreeAsync(p, s));
    OK("free_sync", cuStreamSynchronize(s));
    cf_true("used_less", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) < 4 * MIB);
    cf_true("high", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH) >= 4 * MIB);
    OK("reset", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    cf_u64("high_again", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH),
           pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
    RC("set_other", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &other),
       CUDA_ERROR_INVALID_VALUE);
    RC("set_current", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero),
       CUDA_ERROR_INVALID_VALUE);
    OK("free_2", cuMemFreeAsync(q, s));
    OK("free_2_sync", cuStreamSynchronize(s));
    cf_u64("none", pool_value(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    OK("destroy", cuMemPoolDestroy(pool));
}

/*
 * A pool keeps memory up to its threshold at a synchronisation; a trim releases memory down to the
 * requested size.
 */
CASE(report_pool_trim, CF_CTX)
{
    CUmemoryPool pool = new_pool();
    cuuint64_t all = UINT64_MAX;
    CUdeviceptr p = 0;

    OK("threshold", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK("alloc", cuMemAllocFromPoolAsync(&p, 8 * MIB, pool, NULL));
    OK("free", cuMemFreeAsync(p, NULL));
    OK("sync", cuCtxSynchronize());
    cf_true("kept", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * MIB);
    OK("again", cuMemAllocFromPoolAsync(&p, 8 * MIB, pool, NULL));
    OK("trim_used", cuMemPoolTrimTo(pool, 0));
    cf_true("used_stays", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 8 * MIB);
    OK("free_again", cuMemFreeAsync(p, NULL));
    OK("sync_again", cuCtxSynchronize());
    OK("trim", cuMemPoolTrimTo(pool, 0));
    cf_u64("empty", pool_value(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK("destroy", cuMemPoolDestroy(pool));
}

/*
 * Memory of a stream, used and freed in another stream after an event; then used from the host at
 * once.
 */
CASE(report_async_other_stream, CF_CTX)
{
    CUstream a = NULL, b = NULL;
    CUdeviceptr p = 0, q = 0;
    CUevent e = NULL;

    NEED(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    NEED(cuMemAlloc(&q, 4000));
    OK("alloc", cuMemAllocAsync(&p, 4000, a));
    OK("fill", cf_fill(p, 1000, 5, a));
    OK("record", cuEventRecord(e, a));
    OK("wait", cuStreamWaitEvent(b, e, 0));
    OK("copy", cuMemcpyDtoDAsync(q, p, 4000, b));
    OK("free", cuMemFreeAsync(p, b));
    OK("sync", cuStreamSynchronize(b));
    cf_true("right", cf_filled(q, 1000, 5));
    OK("nothing", cuMemAllocAsync(&p, 0, a));
    OK("alloc_again", cuMemAllocAsync(&p, 4000, a));
    OK("sync_again", cuStreamSynchronize(a));
    OK("plain_free", cuMemFree(p)); /* documented: with a synchronisation */
    RC("twice", cuMemFreeAsync(p, a), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(q));
}

static void map_at(CUdeviceptr p, size_t size)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h = 0;

    NEED(cuMemCreate(&h, size, &prop, 0));
    NEED(cuMemMap(p, size, 0, h, 0));
    NEED(cuMemRelease(h));
    NEED(cuMemSetAccess(p, size, &rw, 1));
}

/* Growing pools of llama.cpp, expandable segments of PyTorch: one range, mapped in steps. */
CASE(report_growing_mapping, CF_CTX)
{
    const size_t step = 2 * MIB;
    CUdeviceptr base = 0, copy = 0, start = 0;
    size_t size = 0;

    NEED(cuMemAddressReserve(&base, 64 * step, 0, 0, 0));
    NEED(cuMemAlloc(&copy, 4 * step));
    for (unsigned i = 0; i < 4; i++)
        map_at(base + i * step, step);
    OK("memset", cuMemsetD32(base, 7, step)); /* all four words */
    OK("fill", cf_fill(base + step - 2000, 1000, 3, NULL));
    cf_true("across", cf_filled(base + step - 2000, 1000, 3));
    OK("copy", cuMemcpyDtoD(copy, base, 4 * step));
    cf_true("copied", cf_filled(copy + step - 2000, 1000, 3));
    RC("past_the_end", cuMemsetD8(base + 4 * step - 8, 0, 16), CUDA_ERROR_INVALID_VALUE);
    RC("mapped_twice", cuMemMap(base, step, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("unmap_part", cuMemUnmap(base, step / 2), CUDA_ERROR_INVALID_VALUE);
    OK("unmap_two", cuMemUnmap(base + 2 * step, 2 * step));
    RC("gone", cuMemsetD8(base + 2 * step, 0, 16), CUDA_ERROR_INVALID_VALUE);
    OK("still", cuMemsetD8(base + step, 0, step));
    OK("attribute", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, base + step + 100));
    OK("size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, base + step + 100));
    cf_true("range", start <= base + step && start + size >= base + 2 * step);
    RC("free_mapped", cuMemAddressFree(base, 64 * step), CUDA_ERROR_INVALID_VALUE);
    OK("unmap", cuMemUnmap(base, 2 * step));
    OK("free", cuMemAddressFree(base, 64 * step));
    NEED(cuMemFree(copy));
}

/* Pointer queries of ZLUDA's and other reports: for all kinds of memory, and past its end. */
CASE(report_pointer_attributes, CF_CTX)
{
    unsigned type = 0, managed = 0, mapped = 9;
    CUmemoryPool pool = NULL, own = NULL;
    CUdeviceptr p = 0, m = 0, a = 0;
    int device = 9, plain = 0;
    CUcontext ctx = NULL, now = NULL;
    void *host = NULL;

    NEED(cuCtxGetCurrent(&now));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemAllocManaged(&m, 4096, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAllocAsync(&a, 4096, NULL));
    NEED(cuMemHostAlloc(&host, 4096, 0));
    NEED(cuDeviceGetDefaultMemPool(&own, 0));
    OK("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 4095));
    cf_u64("type_value", type, CU_MEMORYTYPE_DEVICE);
    OK("host_type",
       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)host));
    cf_u64("host_type_value", type, CU_MEMORYTYPE_HOST);
    OK("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, m));
    cf_u64("managed_value", managed, 1);
    OK("not_managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    cf_u64("not_managed_value", managed, 0);
    OK("ordinal", cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    cf_u64("ordinal_value", (unsigned)device, 0);
    OK("context", cuPointerGetAttribute(&ctx, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cf_true("context_value", ctx == now);
    OK("pool", cuPointerGetAttribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    cf_true("pool_value", pool == own);
    OK("mapped", cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, p));
    cf_u64("mapped_value", mapped, 1);
    RC("plain",
       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&plain),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
    RC("freed", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(m));
    NEED(cuMemFree(a));
    NEED(cuMemFreeHost(host));
}

/* Misaligned by two bytes in an address, by four in a pitch. */
CASE(report_memset_alignment, CF_CTX)
{
    CUdeviceptr p = 0;

    NEED(cuMemAlloc(&p, 4096));
    RC("d32", cuMemsetD32(p + 2, 0, 4), CUDA_ERROR_INVALID_VALUE);
    RC("d16", cuMemsetD16(p + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
    OK("d16_at_2", cuMemsetD16(p + 2, 0, 4));
    RC("d2d32_pitch", cuMemsetD2D32(p, 10, 0, 2, 2), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemsetD32(p, 0, 0));
    OK("all", cuMemsetD8(p, 1, 4096));
    RC("too_many", cuMemsetD8(p, 1, 4097), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
}

/*
 * A second context of the device: its memory can be copied, and its kernels' access needs no peer
 * rights.
 */
CASE(report_second_context, CF_CTX)
{
    CUcontext first = NULL, second = NULL;
    CUdeviceptr p = 0, q = 0;
    int can = 9;

    NEED(cuCtxGetCurrent(&first));
    NEED(cuMemAlloc(&p, 4000));
    NEED(cf_fill(p, 1000, 9, NULL));
    NEED(cuCtxCreate(&second, NULL, 0, 0));
    OK("can", cuDeviceCanAccessPeer(&can, 0, 0));
    cf_u64("can_value", (unsigned)can, 0);
    RC("enable", cuCtxEnablePeerAccess(first, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    RC("enable_self", cuCtxEnablePeerAccess(second, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    RC("disable", cuCtxDisablePeerAccess(first), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK("alloc", cuMemAlloc(&q, 4000));
    OK("copy", cuMemcpyPeer(q, second, p, first, 4000));
    cf_true("right", cf_filled(q, 1000, 9));
    OK("copy_by_address", cuMemcpyDtoD(q, p, 4000));
    OK("destroy", cuCtxDestroy(second));
    NEED(cuCtxSetCurrent(first));
    RC("gone", cuMemsetD8(q, 0, 1), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
}

/* Rows with a pitch, a box out of a box, and refused shapes. */
CASE(report_copy_shapes, CF_CTX)
{
    static unsigned char from[64 * 48], to[64 * 48];
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = from,
                       .srcPitch = 64,
                       .srcXInBytes = 8,
                       .srcY = 4,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .WidthInBytes = 40,
                       .Height = 20};
    size_t pitch = 0;
    bool right = true;
    CUdeviceptr p = 0;

    cf_pattern(from, sizeof(from), 3);
    NEED(cuMemAllocPitch(&p, &pitch, 40, 20, 4));
    c.dstDevice = p;
    c.dstPitch = pitch;
    OK("to_device", cuMemcpy2D(&c));
    c = (CUDA_MEMCPY2D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = p,
                        .srcPitch = pitch,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = to,
                        .dstPitch = 48,
                        .WidthInBytes = 40,
                        .Height = 20};
    OK("to_host", cuMemcpy2D(&c));
    for (unsigned y = 0; y < 20; y++)
        right &= !memcmp(to + y * 48, from + (y + 4) * 64 + 8, 40);
    cf_true("right", right);
    c.srcPitch = 39;
    RC("pitch_below_width", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcPitch = pitch;
    c.dstPitch = 39;
    RC("dst_pitch_below_width", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstPitch = 48;
    c.Height = 0;
    OK("no_rows", cuMemcpy2D(&c));
    NEED(cuMemFree(p));
}

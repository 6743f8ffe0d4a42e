// SPDX-License-Identifier: MIT
/* Memory pools created by the program. */
#include "conform.h"

#include <pthread.h>

static CUmemPoolProps pool_props(void)
{
    CUmemPoolProps p;

    memset(&p, 0, sizeof(p));
    p.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    return p;
}

CASE(pool_own, CF_CTX)
{
    CUmemPoolProps props = pool_props();
    CUmemoryPool pool = NULL, def = NULL, now = NULL, of = NULL;
    CUmemLocation here = props.location;
    CUmemAccessDesc rw = {.location = here, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemAccess_flags flags = 9;
    CUdeviceptr p = 0, q = 0;
    cuuint64_t used = 9, high = 0, zero = 0;
    int reuse = 0;

    OK("create", cuMemPoolCreate(&pool, &props));
    OK("default", cuDeviceGetDefaultMemPool(&def, 0));
    cf_true("another", pool != def);
    OK("alloc", cuMemAllocFromPoolAsync(&p, 1 << 20, pool, NULL));
    OK("fill", cf_fill(p, 1000, 4, NULL));
    cf_true("filled", cf_filled(p, 1000, 4));
    OK("of", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    cf_true("of_value", of == pool);
    OK("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cf_true("used_value", used >= 1 << 20);
    OK("access", cuMemPoolSetAccess(pool, &rw, 1));
    OK("get_access", cuMemPoolGetAccess(&flags, pool, &here));
    cf_u64("get_access_value", flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK("reuse_off", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
    reuse = 7;
    OK("reuse", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &reuse));
    cf_u64("reuse_value", (uint64_t)reuse, 0);
    /* As the current pool of the device it serves cuMemAllocAsync. */
    OK("set_current", cuDeviceSetMemPool(0, pool));
    OK("get_current", cuDeviceGetMemPool(&now, 0));
    cf_true("current", now == pool);
    OK("alloc_current", cuMemAllocAsync(&q, 4096, NULL));
    OK("of_current", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
    cf_true("of_current_value", of == pool);
    OK("set_location", cuMemSetMemPool(&here, CU_MEM_ALLOCATION_TYPE_PINNED, def));
    OK("get_location", cuMemGetMemPool(&now, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    cf_true("back", now == def);
    OK("default_location", cuMemGetDefaultMemPool(&now, &here, CU_MEM_ALLOCATION_TYPE_PINNED));
    cf_true("default_location_value", now == def);
    OK("free", cuMemFreeAsync(p, NULL));
    OK("free_2", cuMemFreeAsync(q, NULL));
    OK("sync", cuCtxSynchronize());
    OK("used_2", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cf_u64("used_2_value", used, 0);
    OK("high", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high));
    cf_true("high_value", high >= 1 << 20);
    OK("high_reset", cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    OK("trim", cuMemPoolTrimTo(pool, 0));
    /* The default pool replaces a current pool that is destroyed. */
    OK("set_current_again", cuDeviceSetMemPool(0, pool));
    OK("destroy", cuMemPoolDestroy(pool));
    OK("get_after", cuDeviceGetMemPool(&now, 0));
    cf_true("default_after", now == def);
    OK("alloc_after", cuMemAllocAsync(&q, 4096, NULL));
    OK("of_after", cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
    cf_true("of_after_value", of == def);
    OK("free_after", cuMemFreeAsync(q, NULL));
    RC("destroyed", cuMemAllocFromPoolAsync(&p, 4096, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("destroyed_trim", cuMemPoolTrimTo(pool, 0), CUDA_ERROR_INVALID_VALUE);
    RC("destroyed_attribute", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &high),
       CUDA_ERROR_INVALID_VALUE);
    RC("destroy_again", cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
}

CASE(pool_arguments, CF_CTX)
{
    CUmemPoolProps props = pool_props(), bad = props;
    CUmemoryPool pool = NULL, def = NULL;
    CUmemAccessDesc rw = {.location = props.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation there = props.location;
    CUmemAccess_flags flags;
    CUdeviceptr p = 0, q = 0;

    RC("create_null", cuMemPoolCreate(NULL, &props), CUDA_ERROR_INVALID_VALUE);
    RC("create_props", cuMemPoolCreate(&pool, NULL), CUDA_ERROR_INVALID_VALUE);
    bad.allocType = 99;
    RC("create_type", cuMemPoolCreate(&pool, &bad), CUDA_ERROR_INVALID_VALUE);
    bad = props;
    bad.location.id = 77;
    RC("create_device", cuMemPoolCreate(&pool, &bad), CUDA_ERROR_INVALID_VALUE);
    NEED(cuDeviceGetDefaultMemPool(&def, 0));
    RC("destroy_default", cuMemPoolDestroy(def), CUDA_ERROR_INVALID_VALUE);
    RC("destroy_null", cuMemPoolDestroy(NULL), CUDA_ERROR_INVALID_VALUE);
    RC("set_null", cuDeviceSetMemPool(0, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("set_device", cuDeviceSetMemPool(77, def), CUDA_ERROR_INVALID_VALUE);
    /*
     * A pool with a limit, which a driver rounds up to its reservation unit (32 MiB, driver 580).
     */
    props.maxSize = 4 << 20;
    NEED(cuMemPoolCreate(&pool, &props));
    OK("limit_fits", cuMemAllocFromPoolAsync(&p, 3 << 20, pool, NULL));
    OK("limit_rounded", cuMemAllocFromPoolAsync(&q, 3 << 20, pool, NULL));
    OK("free_rounded", cuMemFreeAsync(q, NULL));
    RC("limit_over", cuMemAllocFromPoolAsync(&q, (size_t)1 << 30, pool, NULL), CUDA_ERROR_OUT_OF_MEMORY);
    q = 0;
    OK("alloc_zero", cuMemAllocFromPoolAsync(&q, 0, pool, NULL)); /* documented to be refused (driver 580) */
    OK("free_zero", cuMemFreeAsync(q, NULL));
    RC("alloc_null", cuMemAllocFromPoolAsync(NULL, 4, pool, NULL), CUDA_ERROR_INVALID_VALUE);
    rw.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    RC("access_own_none", cuMemPoolSetAccess(pool, &rw, 1), CUDA_ERROR_INVALID_DEVICE);
    RC("access_null", cuMemPoolSetAccess(pool, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    RC("get_access_null", cuMemPoolGetAccess(NULL, pool, &there), CUDA_ERROR_INVALID_VALUE);
    there.id = 77;
    RC("get_access_device", cuMemPoolGetAccess(&flags, pool, &there), CUDA_ERROR_INVALID_VALUE);
    /* Destroyed with memory in use: the memory stays valid. */
    OK("destroy", cuMemPoolDestroy(pool));
    OK("still_there", cuMemsetD8(p, 1, 3 << 20));
    OK("free", cuMemFreeAsync(p, NULL));
    OK("sync", cuCtxSynchronize());
    RC("location_null", cuMemGetMemPool(&pool, NULL, CU_MEM_ALLOCATION_TYPE_PINNED),
       CUDA_ERROR_INVALID_VALUE);
    there.type = 99;
    RC("location_unknown", cuMemGetMemPool(&pool, &there, CU_MEM_ALLOCATION_TYPE_PINNED),
       CUDA_ERROR_NOT_SUPPORTED);
}

/*
 * Memory freed in a stream and allocated again in it: whether reused or not, queries are as if it
 * had been freed.
 */
CASE(pool_again, CF_CTX)
{
    CUmemoryPool pool = NULL;
    CUstream s = NULL, other = NULL;
    CUdeviceptr a = 0, b = 0, c = 0, base = 0;
    cuuint64_t used = 0, id[2] = {0, 0};
    uint32_t v = 0;
    size_t size = 0;

    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; i++) {
        OK("alloc", cuMemAllocAsync(&a, 4096, s));
        OK("fill", cf_fill(a, 1024, 7 + i, s));
        OK("id", cuPointerGetAttribute(&id[i % 2], CU_POINTER_ATTRIBUTE_BUFFER_ID, a));
        OK("free", cuMemFreeAsync(a, s));
        RC("free_twice", cuMemFreeAsync(a, s), CUDA_ERROR_INVALID_VALUE);
    }
    RC("free_twice_now", cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
    cf_true("another_id", id[0] != id[1]);
    OK("freed", cuStreamSynchronize(s));
    OK("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cf_u64("used_value", used, 0);
    /* Another size or another stream does not get it before it is free there, too. */
    OK("alloc_first", cuMemAllocAsync(&a, 8192, s));
    OK("fill_first", cf_fill(a, 2048, 40, s));
    OK("free_first", cuMemFreeAsync(a, s));
    OK("alloc_size", cuMemAllocAsync(&b, 4096, s));
    OK("alloc_other", cuMemAllocAsync(&c, 8192, other));
    OK("fill_other", cf_fill(c, 2048, 90, other));
    OK("range_size", cuMemGetAddressRange(&base, &size, b));
    cf_u64("size", size, 4096);
    OK("sync", cuStreamSynchronize(s));
    OK("sync_other", cuStreamSynchronize(other));
    OK("read", cuMemcpyDtoH(&v, c + 400, 4));
    cf_u64("value", v, 190);
    OK("free_size", cuMemFreeAsync(b, s));
    OK("free_other", cuMemFreeAsync(c, other));
    /* To the end of the stream, and to the wait, the freed memory is gone. */
    OK("destroy", cuStreamDestroy(s));
    OK("destroy_other", cuStreamDestroy(other));
    OK("complete", cuCtxSynchronize());
    OK("reserved", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &used));
    cf_u64("reserved_value", used, 0);
}

/*
 * A free in the legacy stream is ordered after the work of blocking streams, and before their later
 * work.
 */
CASE(pool_legacy_order, CF_CTX)
{
    CUstream before = NULL, after = NULL, other = NULL;
    CUdeviceptr flag = 0, p = 0, q = 0;
    unsigned early = 0;

    NEED(cuStreamCreate(&before, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&after, CU_STREAM_DEFAULT));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&flag, 4));
    NEED(cuMemsetD32(flag, 0, 1));
    NEED(cuMemAllocAsync(&p, 4096, NULL));
    NEED(cf_fill(p, 1024, 1, NULL)); /* loads the function, which may wait for all streams */
    NEED(cuCtxSynchronize());
    OK("wait", cuStreamWaitValue32(before, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK("fill", cf_fill(p, 1024, 3, before));
    OK("free", cuMemFreeAsync(p, NULL));
    OK("alloc", cuMemAllocAsync(&q, 4096, NULL));
    OK("fill_after", cf_fill(q, 1024, 9, after));
    for (unsigned i = 0; i < 2000; i++)
        early += cuStreamQuery(after) != CUDA_ERROR_NOT_READY;
    cf_u64("early", early, 0);
    OK("go", cuStreamWriteValue32(other, flag, 1, 0));
    OK("complete", cuCtxSynchronize());
    cf_true("filled", cf_filled(q, 1024, 9));
    OK("free_q", cuMemFreeAsync(q, NULL));
    OK("free_flag", cuMemFree(flag));
    OK("destroy", cuStreamDestroy(before));
    OK("destroy_after", cuStreamDestroy(after));
    OK("destroy_other", cuStreamDestroy(other));
}

/*
 * Memory freed in a context's stream is free after the end of the context: the pool belongs to the
 * device.
 */
CASE(pool_context_end, CF_CTX)
{
    CUmemoryPool pool = NULL;
    CUcontext c = NULL;
    CUstream s = NULL;
    CUdeviceptr p = 0;
    cuuint64_t used = 0;

    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    NEED(cuCtxCreate(&c, NULL, 0, 0));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAllocAsync(&p, 4096, s));
    OK("free", cuMemFreeAsync(p, s));
    OK("destroy", cuCtxDestroy(c));
    OK("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cf_u64("used_value", used, 0);
}

static _Atomic bool ended;

static void *ask_for_memory(void *context)
{
    size_t n, total;

    cuCtxSetCurrent(context);
    while (!ended)
        cuMemGetInfo(&n, &total);
    return NULL;
}

/* A stream ends while another thread's call has just sent its pending frees: none is lost. */
CASE(pool_stream_ends, CF_ALONE | CF_CTX)
{
    const uint32_t rounds = cf_real() ? 400 : 4000; /* a GPU takes ms to create a stream */
    CUmemoryPool pool = NULL;
    CUcontext context = NULL;
    CUdeviceptr small = 0, p = 0;
    cuuint64_t all = UINT64_MAX, used = 0;
    bool ok = true;
    pthread_t t;

    NEED(cuCtxGetCurrent(&context));
    NEED(cuDeviceGetDefaultMemPool(&pool, 0));
    NEED(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    NEED(cuMemAlloc(&small, 4));
    cf_need_true("thread", pthread_create(&t, NULL, ask_for_memory, context) == 0);
    for (uint32_t i = 0; i < rounds; i++) {
        CUstream s = NULL;

        ok &= cuStreamCreate(&s, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
              cuMemAllocAsync(&p, 4096, s) == CUDA_SUCCESS && cuCtxSynchronize() == CUDA_SUCCESS &&
              cuMemcpyHtoD(small, &i, 4) == CUDA_SUCCESS && cuMemFreeAsync(p, s) == CUDA_SUCCESS;
        for (volatile uint32_t k = 0; k < i % 64 * 1500; k++)
            ;
        ok &= cuStreamDestroy(s) == CUDA_SUCCESS;
    }
    ended = true;
    pthread_join(t, NULL);
    cf_true("calls", ok);
    OK("complete", cuCtxSynchronize());
    OK("used", cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    cf_u64("used_value", used, 0);
    OK("free_small", cuMemFree(small));
}

/*
 * Several blocks of a size are outstanding; an allocation without free memory finds memory freed
 * before.
 */
CASE(pool_many, CF_CTX)
{
    CUdeviceptr p[80] = {0}, big = 0;
    size_t free_bytes = 0, total = 0;
    bool distinct = true;

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 80; i++)
            NEED(cuMemAllocAsync(&p[i], 4096 + 4096 * (i % 2), NULL));
        for (unsigned i = 0; i < 80; i++) {
            for (unsigned k = 0; k < i; k++)
                distinct &= p[i] != p[k];
        }
        for (unsigned i = 0; i < 80; i++)
            NEED(cuMemFreeAsync(p[(i * 7) % 80], NULL));
    }
    cf_true("distinct", distinct);
    OK("complete", cuCtxSynchronize());
    NEED(cuMemGetInfo(&free_bytes, &total));
    OK("most", cuMemAllocAsync(&big, 48 << 20, NULL));
    OK("free_most", cuMemFreeAsync(big, NULL));
    OK("complete_2", cuCtxSynchronize());
}

static cuuint64_t used_of(CUmemoryPool pool)
{
    cuuint64_t used = 99;

    NEED(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    return used;
}

/* Freed memory is reused by its own pool only, for each pair of pools and both calls. */
CASE(pool_apart, CF_CTX)
{
    enum { POOLS = 3 };
    const CUmemPoolProps props = pool_props();
    cuuint64_t all = UINT64_MAX;
    CUmemoryPool pool[POOLS];
    CUdeviceptr p = 0, q = 0;
    unsigned pairs = 0, apart = 0;
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuDeviceGetDefaultMemPool(&pool[0], 0));
    for (unsigned i = 1; i < POOLS; i++) {
        NEED(cuMemPoolCreate(&pool[i], &props));
        NEED(cuMemPoolSetAttribute(pool[i], CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    }
    for (unsigned from = 0; from < POOLS; from++) {
        for (unsigned to = 0; to < POOLS; to++) {
            CUmemoryPool of = NULL;

            NEED(cuMemAllocFromPoolAsync(&p, 4096, pool[from], s));
            NEED(cuMemFreeAsync(p, s));
            if (to == 0)
                NEED(cuMemAllocAsync(&q, 4096, s));
            else
                NEED(cuMemAllocFromPoolAsync(&q, 4096, pool[to], s));
            NEED(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, q));
            NEED(cuStreamSynchronize(s));
            pairs++;
            apart += of == pool[to] && used_of(pool[to]) >= 4096 && (from == to || used_of(pool[from]) == 0);
            NEED(cuMemFreeAsync(q, s));
            NEED(cuStreamSynchronize(s));
            apart -= used_of(pool[to]) != 0;
        }
    }
    cf_u64("apart", apart, pairs);
    for (unsigned i = 1; i < POOLS; i++)
        NEED(cuMemPoolDestroy(pool[i]));
    NEED(cuStreamDestroy(s));
}

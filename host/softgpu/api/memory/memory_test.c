/* SPDX-License-Identifier: MIT */
/* Memory of every kind: allocation, copies, memset, page-locked and managed memory, pools. */
#include <fcntl.h>
#include <unistd.h>

#include "api/api_test.h"
#include "lib/testing/range.h"

static void test_memory(void **state)
{
    CUcontext c = ctx_begin();
    char src[1000], dst[1000];
    size_t f0, f1, total, n;
    CUdeviceptr p, base;

    (void)state;
    OK(cuMemGetInfo_v2(&f0, &total));
    OK(cuMemAlloc_v2(&p, 1000));
    assert_int_equal(p % 256, 0);
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_true(f1 < f0);
    for (int i = 0; i < 1000; i++)
        src[i] = (char)i;
    OK(cuMemcpyHtoD_v2(p, src, 1000));
    memset(dst, 0, 1000);
    OK(cuMemcpyDtoH_v2(dst, p, 1000));
    assert_memory_equal(src, dst, 1000);
    IS(cuMemcpyHtoD_v2(p, src, 1001), INVALID_VALUE);
    IS(cuMemcpyHtoD_v2(p + 1, src, 1000), INVALID_VALUE);
    IS(cuMemcpyHtoD_v2(0, src, 4), INVALID_VALUE);
    IS(cuMemcpyHtoD_v2(p, NULL, 4), INVALID_VALUE);
    IS(cuMemcpyDtoH_v2(NULL, p, 4), INVALID_VALUE);
    IS(cuMemcpyDtoH_v2(dst, 0x1234, 4), INVALID_VALUE);
    IS(cuMemcpyHtoD_v2((CUdeviceptr)(uintptr_t)dst, src, 4), INVALID_VALUE);
    IS(cuMemcpyHtoD_v2(p, (void *)(uintptr_t)(p + 4096), 4), INVALID_VALUE);
    OK(cuMemcpyHtoD_v2(0, NULL, 0));
    OK(cuMemcpyDtoD_v2(p + 500, p, 500));
    OK(cuMemcpy((CUdeviceptr)(uintptr_t)dst, p + 500, 500));
    assert_memory_equal(src, dst, 500);
    OK(cuMemGetAddressRange_v2(&base, &n, p + 999));
    assert_int_equal(base, p);
    assert_int_equal(n, 1000);
    OK(cuMemGetAddressRange_v2(NULL, NULL, p));
    IS(cuMemGetAddressRange_v2(&base, &n, p + 1000), NOT_FOUND);
    IS(cuMemFree_v2(p + 256), INVALID_VALUE);
    OK(cuMemFree_v2(p));
    IS(cuMemFree_v2(p), INVALID_VALUE);
    OK(cuMemFree_v2(0));
    IS(cuMemcpyHtoD_v2(p, src, 4), INVALID_VALUE);
    IS(cuMemAlloc_v2(&p, 0), INVALID_VALUE);
    IS(cuMemAlloc_v2(NULL, 4), INVALID_VALUE);
    IS(cuMemAlloc_v2(&p, total + 1), OUT_OF_MEMORY);
    IS(cuMemAlloc_v2(&p, SIZE_MAX), OUT_OF_MEMORY);
    OK(cuMemAlloc_v2(&p, 1 << 20)); /* not sticky */
    OK(cuMemFree_v2(p));
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_int_equal(f0, f1);
    ctx_end(c);
}

static void test_memset(void **state)
{
    CUcontext c = ctx_begin();
    uint32_t w[64];
    uint16_t h[128];
    uint8_t b[256];
    CUdeviceptr p;
    size_t pitch;

    (void)state;
    OK(cuMemAlloc_v2(&p, 256));
    OK(cuMemsetD8_v2(p, 0xab, 256));
    OK(cuMemsetD16_v2(p + 2, 0x1234, 3));
    OK(cuMemsetD32Async(p + 8, 0xdeadbeef, 2, NULL));
    OK(cuMemcpyDtoH_v2(b, p, 256));
    assert_int_equal(b[0], 0xab);
    assert_int_equal(b[255], 0xab);
    memcpy(h, b, 256);
    assert_int_equal(h[1], 0x1234);
    assert_int_equal(h[3], 0x1234);
    memcpy(w, b, 256);
    assert_int_equal(w[2], 0xdeadbeef);
    assert_int_equal(w[3], 0xdeadbeef);
    assert_int_equal(w[4], 0xabababab);
    OK(cuMemsetD2D8_v2(p, 64, 7, 3, 4));
    OK(cuMemcpyDtoH_v2(b, p, 256));
    assert_true(b[64] == 7 && b[66] == 7 && b[67] == 0xab && b[192] == 7);
    IS(cuMemsetD32_v2(p + 2, 1, 1), INVALID_VALUE);
    IS(cuMemsetD16_v2(p + 1, 1, 1), INVALID_VALUE);
    IS(cuMemsetD8_v2(p, 1, 257), INVALID_VALUE);
    IS(cuMemsetD2D8_v2(p, 64, 1, 65, 2), INVALID_VALUE);
    IS(cuMemsetD2D32_v2(p, 64, 1, 16, 5), INVALID_VALUE);
    IS(cuMemsetD32_v2(p, 1, SIZE_MAX / 2), INVALID_VALUE);
    OK(cuMemsetD8_v2(0, 1, 0));
    OK(cuMemFree_v2(p));
    OK(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 4));
    assert_int_equal(pitch, 512);
    OK(cuMemsetD2D32_v2(p, pitch, 5, 25, 10));
    OK(cuMemFree_v2(p));
    IS(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 3), INVALID_VALUE);
    ctx_end(c);
}

static void test_copy_2d_3d(void **state)
{
    CUcontext c = ctx_begin();
    uint8_t src[8 * 16], dst[8 * 16];
    CUDA_MEMCPY2D m = {0};
    CUDA_MEMCPY3D t = {0};
    CUdeviceptr p;

    (void)state;
    for (int i = 0; i < 128; i++)
        src[i] = (uint8_t)i;
    OK(cuMemAlloc_v2(&p, 1024));
    OK(cuMemsetD8_v2(p, 0, 1024));
    m.srcMemoryType = CU_MEMORYTYPE_HOST;
    m.srcHost = src;
    m.srcPitch = 16;
    m.srcXInBytes = 2;
    m.srcY = 1;
    m.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    m.dstDevice = p;
    m.dstPitch = 32;
    m.dstXInBytes = 4;
    m.dstY = 3;
    m.WidthInBytes = 5;
    m.Height = 6;
    OK(cuMemcpy2D_v2(&m));
    m.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    m.srcDevice = p;
    m.srcPitch = 32;
    m.srcXInBytes = 4;
    m.srcY = 3;
    m.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    m.dstDevice = (CUdeviceptr)(uintptr_t)dst;
    m.dstPitch = 16;
    m.dstXInBytes = 2;
    m.dstY = 1;
    memset(dst, 0xff, sizeof(dst));
    OK(cuMemcpy2DUnaligned_v2(&m));
    for (int y = 0; y < 8; y++) {
        for (int x = 0; x < 16; x++) {
            bool in = x >= 2 && x < 7 && y >= 1 && y < 7;

            assert_int_equal(dst[y * 16 + x], in ? src[y * 16 + x] : 0xff);
        }
    }
    m.srcPitch = 8; /* smaller than x + width */
    IS(cuMemcpy2D_v2(&m), INVALID_VALUE);
    m.srcPitch = SIZE_MAX / 2;
    IS(cuMemcpy2D_v2(&m), INVALID_VALUE);
    IS(cuMemcpy2DUnaligned_v2(&m), INVALID_VALUE);
    m.srcPitch = 32;
    m.Height = 30; /* leaves the allocation */
    IS(cuMemcpy2D_v2(&m), INVALID_VALUE);
    m.Height = 6;
    m.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    IS(cuMemcpy2D_v2(&m), INVALID_VALUE);
    m.srcMemoryType = (CUmemorytype)9;
    IS(cuMemcpy2D_v2(&m), INVALID_VALUE);
    IS(cuMemcpy2D_v2(NULL), INVALID_VALUE);

    t.srcMemoryType = CU_MEMORYTYPE_HOST;
    t.srcHost = src;
    t.srcPitch = 4;
    t.srcHeight = 4; /* slices of 4 x 4 */
    t.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    t.dstDevice = p;
    t.dstPitch = 8;
    t.dstHeight = 8; /* slices of 8 x 8 */
    t.dstZ = 1;
    t.WidthInBytes = 3;
    t.Height = 2;
    t.Depth = 4;
    OK(cuMemsetD8_v2(p, 0, 1024));
    OK(cuMemcpy3D_v2(&t));
    uint8_t out[1024];

    OK(cuMemcpyDtoH_v2(out, p, 1024));
    for (int z = 0; z < 4; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 3; x++)
                assert_int_equal(out[(z + 1) * 64 + y * 8 + x], src[z * 16 + y * 4 + x]);
    t.Depth = 16;
    IS(cuMemcpy3D_v2(&t), INVALID_VALUE);
    OK(cuMemFree_v2(p));
    ctx_end(c);
}

static void test_host_memory(void **state)
{
    static char buf[8192];
    CUcontext c = ctx_begin();
    CUdeviceptr d;
    unsigned flags;
    void *p;

    (void)state;
    OK(cuMemHostAlloc(&p, 100000, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cuMemHostGetDevicePointer_v2(&d, (char *)p + 10, 0));
    assert_int_equal(d, (uintptr_t)p + 10);
    OK(cuMemHostGetFlags(&flags, p));
    assert_int_equal(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
    OK(cuMemsetD8_v2(d, 3, 5));
    assert_int_equal(((char *)p)[12], 3);
    IS(cuMemFree_v2((CUdeviceptr)(uintptr_t)p), INVALID_VALUE);
    OK(cuMemFreeHost(p));
    IS(cuMemFreeHost(p), INVALID_VALUE);
    OK(cuMemFreeHost(NULL));
    OK(cuMemHostAlloc(&p, 4096, 0));
    IS(cuMemHostRegister_v2(p, 4096, 0), INVALID_VALUE);
    OK(cuMemFreeHost(p));
    OK(cuMemHostAlloc(&p, 0, 0));
    assert_null(p);
    IS(cuMemHostAlloc(&p, 4, 0x80), INVALID_VALUE);
    IS(cuMemHostGetDevicePointer_v2(&d, buf, 0), INVALID_VALUE);
    OK(cuMemHostRegister_v2(buf, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
    IS(cuMemHostGetFlags(&flags, buf), INVALID_VALUE); /* only of allocations */
    IS(cuMemHostRegister_v2(buf + 4000, 4096, 0), HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostGetDevicePointer_v2(&d, buf, 0));
    OK(cuMemcpyHtoD_v2(d, "hello", 6));
    assert_string_equal(buf, "hello");
    IS(cuMemFreeHost(buf), INVALID_VALUE);
    OK(cuMemHostUnregister(buf));
    IS(cuMemHostUnregister(buf), HOST_MEMORY_NOT_REGISTERED);
    IS(cuMemHostRegister_v2(NULL, 4096, 0), INVALID_VALUE);
    IS(cuMemHostRegister_v2(buf, 0, 0), INVALID_VALUE);
    IS(cuMemHostRegister_v2(buf, 4096, 0x100), INVALID_VALUE);
    OK(cuMemHostRegister_v2(buf, 4096, CU_MEMHOSTREGISTER_READ_ONLY));
    IS(cuMemsetD8_v2((CUdeviceptr)(uintptr_t)buf, 0, 4), INVALID_VALUE);
    OK(cuMemHostUnregister(buf));
    OK(cuMemAllocManaged(&d, 64, CU_MEM_ATTACH_GLOBAL));
    *(int *)d = 5;
    OK(cuMemPrefetchAsync(d, 64, 0, NULL));
    OK(cuMemAdvise(d, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    OK(cuMemFree_v2(d));
    IS(cuMemAllocManaged(&d, 64, 0), INVALID_VALUE);
    ctx_end(c);
}

static void test_pointer_attributes(void **state)
{
    CUcontext c = ctx_begin(), got;
    CUpointer_attribute attrs[] = {CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
                                   CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    CUdeviceptr p, dptr;
    void *hptr;
    unsigned type, managed;
    int ordinal;
    void *data[] = {&got, &type, &dptr, &hptr, &managed, &ordinal};

    (void)state;
    OK(cuMemAlloc_v2(&p, 100));
    OK(cuPointerGetAttributes(6, attrs, data, p + 4));
    assert_ptr_equal(got, c);
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    assert_int_equal(dptr, p + 4);
    assert_null(hptr);
    assert_int_equal(ordinal, 0);
    IS(cuPointerGetAttribute(&hptr, CU_POINTER_ATTRIBUTE_HOST_POINTER, p), INVALID_VALUE);
    OK(cuPointerGetAttributes(6, attrs, data, (CUdeviceptr)(uintptr_t)&ordinal));
    assert_null(got);
    assert_int_equal(type, 0);
    assert_int_equal(ordinal, -2);
    IS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 0x40), INVALID_VALUE);
    IS(cuPointerGetAttribute(&type, (CUpointer_attribute)999, p), INVALID_VALUE);
    type = 1;
    OK(cuPointerSetAttribute(&type, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, p));
    assert_int_equal(managed, 1);
    OK(cuMemFree_v2(p));
    ctx_end(c);
}

static void test_pools(void **state)
{
    CUcontext c = ctx_begin();
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemoryPool def, pool;
    uint64_t v;
    CUdeviceptr p;

    (void)state;
    OK(cuDeviceGetDefaultMemPool(&def, 0));
    OK(cuMemAllocAsync(&p, 1000, NULL));
    OK(cuMemPoolGetAttribute(def, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    assert_int_equal(v, 1000);
    OK(cuMemsetD8Async(p, 1, 1000, NULL));
    OK(cuMemFreeAsync(p, NULL));
    IS(cuMemFreeAsync(p, NULL), INVALID_VALUE);
    OK(cuCtxSynchronize());
    OK(cuMemPoolGetAttribute(def, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &v));
    assert_int_equal(v, 0);
    OK(cuMemPoolCreate(&pool, &props));
    p = 7;
    OK(cuMemAllocFromPoolAsync(&p, 0, pool, NULL));
    assert_int_equal(p, 0);
    OK(cuMemAllocFromPoolAsync(&p, 64, pool, NULL));
    OK(cuMemFree_v2(p));
    OK(cuMemPoolTrimTo(pool, 0));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuMemPoolDestroy(pool));
    IS(cuMemPoolDestroy(pool), INVALID_VALUE);
    IS(cuMemPoolDestroy(def), INVALID_VALUE);
    IS(cuMemAllocFromPoolAsync(&p, 64, pool, NULL), INVALID_VALUE);
    OK(cuMemAlloc_v2(&p, 4));
    OK(cuMemFreeAsync(p, NULL)); /* also of cuMemAlloc, as the programming guide has it */
    OK(cuCtxSynchronize());
    IS(cuMemFree_v2(p), INVALID_VALUE);
    ctx_end(c);
}

/* Lines of /proc/self/maps. */
static unsigned mappings_of_process(void)
{
    FILE *f = fopen("/proc/self/maps", "r");
    unsigned n = 0;
    int c;

    assert_non_null(f);
    while ((c = getc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* Descriptors of this process. */
static unsigned descriptors(void)
{
    unsigned n = 0;

    for (int fd = 0; fd < 1024; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

/* Memory exported or imported as a descriptor closes its own descriptors, and not the caller's. */
static void test_descriptors(void **state)
{
    CUcontext c = ctx_begin();
    const CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                  .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                  .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    const CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle memory, same;
    CUmemoryPool pool, imported;
    unsigned before = descriptors();
    int fd;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        OK(cuMemPoolCreate(&pool, &props));
        OK(cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        OK(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)fd,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        assert_int_equal(close(fd), 0);
        IS(cuMemPoolImportFromShareableHandle(&imported, (void *)(uintptr_t)0,
                                              CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
           INVALID_VALUE);
        OK(cuMemPoolDestroy(imported));
        OK(cuMemPoolDestroy(pool));
        assert_int_equal(descriptors(), before);
        OK(cuMemCreate(&memory, 2 << 20, &prop, 0));
        OK(cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        OK(cuMemImportFromShareableHandle(&same, (void *)(uintptr_t)fd,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
        assert_int_equal(close(fd), 0);
        OK(cuMemRelease(same));
        OK(cuMemRelease(memory));
        assert_int_equal(descriptors(), before);
    }
    ctx_end(c);
}

/* Physical memory that was released, mapped before or not, is the process's no more. */
static void test_released_physical_memory(void **state)
{
    enum { G = 2 << 20, TIMES = 64 };
    CUcontext c = ctx_begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;
    unsigned before = 0;

    (void)state;
    OK(cuMemAddressReserve(&va, G, 0, 0, 0));
    for (int i = 0; i < TIMES; i++) {
        OK(cuMemCreate(&h, G, &prop, 0));
        if (i % 2)
            OK(cuMemMap(va, G, 0, h, 0));
        OK(cuMemRelease(h));
        if (i % 2)
            OK(cuMemUnmap(va, G));
        if (i == 1)
            before = mappings_of_process();
    }
    assert_uint_in_range(mappings_of_process(), 0, before + TIMES / 4);
    OK(cuMemAddressFree(va, G));
    ctx_end(c);
}

/* The next owner of physical memory finds zeroes, at both addresses of it the same, and pages
   come only when touched. */
static void test_fresh_physical_memory(void **state)
{
    enum { G = 2 << 20 };
    CUcontext c = ctx_begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle h;
    CUdeviceptr va;
    uint32_t v;

    (void)state;
    OK(cuMemAddressReserve(&va, 2 * G, 0, 0, 0));
    for (int i = 0; i < 3; i++) {
        OK(cuMemCreate(&h, G, &prop, 0));
        OK(cuMemMap(va, G, 0, h, 0));
        OK(cuMemMap(va + G, G, 0, h, 0));
        OK(cuMemRelease(h));
        OK(cuMemSetAccess(va, 2 * G, &rw, 1));
        OK(cuMemcpyDtoH_v2(&v, va + G + 4096, 4));
        assert_int_equal(v, 0);
        OK(cuMemsetD32_v2(va + 4096, 0x5ec4e7, 1));
        OK(cuMemcpyDtoH_v2(&v, va + G + 4096, 4));
        assert_int_equal(v, 0x5ec4e7);
        OK(cuMemUnmap(va, G));
        OK(cuMemcpyDtoH_v2(&v, va + G + 4096, 4));
        assert_int_equal(v, 0x5ec4e7);
        OK(cuMemUnmap(va + G, G));
    }
    OK(cuMemAddressFree(va, 2 * G));
    ctx_end(c);
}

static void test_virtual_memory(void **state)
{
    enum { G = 2 << 20 };
    CUcontext c = ctx_begin();
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemGenericAllocationHandle a, b;
    CUmodule m = NULL;
    CUfunction fill = get_kernel(&m, "fill");
    unsigned long long flags;
    size_t gran, f0, f1, total;
    CUdeviceptr va;
    uint32_t v;

    (void)state;
    OK(cuMemGetInfo_v2(&f0, &total));
    OK(cuMemGetAllocationGranularity(&gran, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
    assert_int_equal(gran, G);
    OK(cuMemAddressReserve(&va, 32ull << 30, 0, 0, 0));
    IS(cuMemAddressReserve(&va, 4096, 0, 0, 0), INVALID_VALUE);
    OK(cuMemCreate(&a, G, &prop, 0));
    OK(cuMemCreate(&b, G, &prop, 0));
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_int_equal(f0 - f1, 2 * G);
    IS(cuMemCreate(&b, 4096, &prop, 0), INVALID_VALUE);
    IS(cuMemCreate(&b, total + G, &prop, 0), OUT_OF_MEMORY);
    OK(cuMemMap(va, G, 0, a, 0));
    IS(cuMemMap(va, G, 0, b, 0), INVALID_VALUE);     /* taken */
    IS(cuMemMap(va - G, G, 0, b, 0), INVALID_VALUE); /* not reserved */
    OK(cuMemMap(va + G, G, 0, b, 0));
    OK(cuMemRelease(a));
    OK(cuMemRelease(b));
    IS(cuMemRelease(b), INVALID_VALUE);
    IS(cuMemsetD8_v2(va, 1, 16), INVALID_VALUE); /* no access yet */
    OK(cuMemSetAccess(va, 2 * G, &rw, 1));
    OK(cuMemGetAccess(&flags, &rw.location, va + G));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cuMemsetD8_v2(va, 1, 2 * G)); /* across both */
    IS(cuMemsetD8_v2(va, 1, 2 * G + 1), INVALID_VALUE);
    launch_fill(fill, va + G - 400, 42, 200, NULL);
    OK(cuMemcpyDtoH_v2(&v, va + G + 396, 4));
    assert_int_equal(v, 42);
    OK(cuMemcpyDtoH_v2(&v, va + G + 400, 4));
    assert_int_equal(v, 0x01010101);
    IS(cuMemFree_v2(va), INVALID_VALUE);
    IS(cuMemAddressFree(va, 32ull << 30), INVALID_VALUE); /* still mapped */
    /* The memory of b once more, though its handle was released; and what pointers say. */
    CUdeviceptr at;
    unsigned mapped;
    size_t size;

    IS(cuMemRetainAllocationHandle(&b, (void *)(va + 2 * G)), INVALID_VALUE);
    OK(cuMemRetainAllocationHandle(&b, (void *)(va + G + 8)));
    OK(cuMemMap(va + 4 * G, G, 0, b, 0));
    OK(cuMemSetAccess(va + 4 * G, G, &rw, 1));
    OK(cuMemRelease(b));
    IS(cuMemRelease(b), INVALID_VALUE);
    OK(cuMemcpyDtoH_v2(&v, va + 4 * G + 396, 4));
    assert_int_equal(v, 42);
    OK(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, va + G));
    assert_true(at == va);
    OK(cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_MAPPING_SIZE, va + G));
    assert_int_equal(size, G);
    OK(cuPointerGetAttribute(&at, CU_POINTER_ATTRIBUTE_CONTEXT, va + G));
    assert_true(at == 0); /* of the device, of no context */
    OK(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, va + G));
    assert_int_equal(mapped, 1);
    IS(cuPointerGetAttribute(&mapped, CU_POINTER_ATTRIBUTE_MAPPED, va + 3 * G), INVALID_VALUE);
    OK(cuMemUnmap(va + 4 * G, G));
    IS(cuMemUnmap(va, G / 2), INVALID_VALUE);
    IS(cuMemUnmap(va + 3 * G, 2 * G), INVALID_VALUE); /* nothing is mapped there */
    OK(cuMemUnmap(va, G));
    IS(cuMemcpyDtoH_v2(&v, va, 4), INVALID_VALUE);
    OK(cuMemUnmap(va + G, G));
    OK(cuMemAddressFree(va, 32ull << 30));
    IS(cuMemAddressFree(va, 32ull << 30), INVALID_VALUE);
    OK(cuMemGetInfo_v2(&f1, &total));
    assert_true(f1 <= f0 && f0 - f1 < G); /* the module's variables apart */
    ctx_end(c);
}

/* A context's memory of a pool ends with it, and leaves room in the pool. */
static void test_pool_of_ended(void **state)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED, .maxSize = 32u << 20};
    CUcontext c = ctx_begin(), other;
    CUmemoryPool pool;
    CUdeviceptr p;
    uint64_t used;

    (void)state;
    props.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    OK(cuMemPoolCreate(&pool, &props));
    for (int i = 0; i < 3; i++) {
        OK(cuCtxCreate_v2(&other, 0, 0));
        OK(cuMemAllocFromPoolAsync(&p, 32u << 20, pool, NULL));
        IS(cuMemAllocFromPoolAsync(&p, 4096, pool, NULL), OUT_OF_MEMORY);
        OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        assert_int_equal(used, 32u << 20);
        OK(cuCtxDestroy_v2(other));
        OK(cuCtxSetCurrent(c));
        OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
        assert_int_equal(used, 0);
    }
    OK(cuMemPoolDestroy(pool));
    ctx_end(c);
}

const struct CMUnitTest memory_tests[] = {
    cmocka_unit_test(test_memory),
    cmocka_unit_test(test_memset),
    cmocka_unit_test(test_copy_2d_3d),
    cmocka_unit_test(test_host_memory),
    cmocka_unit_test(test_pointer_attributes),
    cmocka_unit_test(test_pools),
    cmocka_unit_test(test_pool_of_ended),
    cmocka_unit_test(test_descriptors),
    cmocka_unit_test(test_virtual_memory),
    cmocka_unit_test(test_released_physical_memory),
    cmocka_unit_test(test_fresh_physical_memory),
};
const size_t n_memory_tests = sizeof(memory_tests) / sizeof(memory_tests[0]);

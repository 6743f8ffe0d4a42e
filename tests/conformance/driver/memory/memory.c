// SPDX-License-Identifier: MIT
/* Allocation, pointer attributes, pinned memory. */
#include "conform.h"

#include <pthread.h>
#include <sched.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

CASE(mem_alloc, CF_CTX)
{
    CUdeviceptr p = 0, q = 0;

    OK("alloc", cuMemAlloc(&p, 1000));
    cf_true("aligned", p && p % 256 == 0);
    RC("zero", cuMemAlloc(&q, 0), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuMemAlloc(NULL, 16), CUDA_ERROR_INVALID_VALUE);
    RC("free_inside", cuMemFree(p + 4), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree(p));
    RC("free_twice", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    OK("free_null", cuMemFree(0));
    RC("free_never", cuMemFree(0x123456700), CUDA_ERROR_INVALID_VALUE);
    for (int i = 0; i < 50; i++) {
        NEED(cuMemAlloc(&p, (size_t)1 << (i % 20)));
        NEED(cuMemFree(p));
    }
    OK("one_byte", cuMemAlloc(&p, 1));
    OK("one_byte_set", cuMemsetD8(p, 7, 1));
    OK("one_byte_free", cuMemFree(p));
}

/* Exhausted device memory is an ordinary error: nothing is lost and the next call works. */
CASE(mem_out_of_memory, CF_CTX)
{
    size_t total = 0, free_mem = 0, before = 0;
    CUdeviceptr p = 0, q = 0;

    NEED(cuMemAlloc(&q, 4096));
    NEED(cuMemGetInfo(&before, &total));
    RC("more_than_all", cuMemAlloc(&p, total + 4096), CUDA_ERROR_OUT_OF_MEMORY);
    RC("huge", cuMemAlloc(&p, (size_t)1 << 50), CUDA_ERROR_OUT_OF_MEMORY);
    RC("largest", cuMemAlloc(&p, ~(size_t)0), CUDA_ERROR_OUT_OF_MEMORY);
    NEED(cuMemGetInfo(&free_mem, &total));
    cf_true("nothing_lost", free_mem >= before - (2 << 20));
    OK("still_works", cuMemsetD8(q, 1, 4096));
    OK("alloc_after", cuMemAlloc(&p, 4096));
    OK("sync", cuCtxSynchronize());
    OK("free", cuMemFree(p));
    OK("free_2", cuMemFree(q));
}

CASE(mem_info, CF_CTX)
{
    size_t total = 0, a = 0, b = 0, c = 0;
    CUdeviceptr p = 0;

    OK("info", cuMemGetInfo(&a, &total));
    OK("alloc", cuMemAlloc(&p, 64 << 20));
    OK("info_2", cuMemGetInfo(&b, &total));
    cf_true("less", a - b >= 60u << 20);
    OK("free", cuMemFree(p));
    OK("info_3", cuMemGetInfo(&c, &total));
    cf_true("back", c >= a - (2 << 20));
}

CASE(mem_range, CF_CTX)
{
    CUdeviceptr p = 0, base = 0;
    size_t size = 0;

    NEED(cuMemAlloc(&p, 5000));
    OK("inside", cuMemGetAddressRange(&base, &size, p + 100));
    cf_true("base", base == p);
    cf_u64("size", size, 5000);
    OK("only_size", cuMemGetAddressRange(NULL, &size, p));
    OK("only_base", cuMemGetAddressRange(&base, NULL, p + 4999));
    RC_IN("unknown", cuMemGetAddressRange(&base, &size, 0x500), CUDA_ERROR_NOT_FOUND,
          CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
    RC_IN("freed", cuMemGetAddressRange(&base, &size, p), CUDA_ERROR_NOT_FOUND, CUDA_ERROR_INVALID_VALUE);
}

CASE(mem_pitch, CF_CTX)
{
    CUdeviceptr p = 0;
    size_t pitch = 0;

    OK("alloc", cuMemAllocPitch(&p, &pitch, 100, 10, 4));
    cf_true("pitch", pitch >= 100 && pitch % 32 == 0);
    OK("use", cuMemsetD8(p, 0, pitch * 10));
    OK("free", cuMemFree(p));
    RC("element", cuMemAllocPitch(&p, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
    RC_IN("zero", cuMemAllocPitch(&p, &pitch, 0, 10, 4), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuMemAllocPitch(NULL, &pitch, 4, 10, 4), CUDA_ERROR_INVALID_VALUE);
    RC("pitch_null", cuMemAllocPitch(&p, NULL, 4, 10, 4), CUDA_ERROR_INVALID_VALUE);
}

CASE(mem_attributes, CF_CTX)
{
    CUdeviceptr p = 0, dp = 0, start = 0;
    CUcontext c = NULL, prim = NULL;
    CUmemorytype type = 0;
    unsigned managed = 9;
    int ordinal = -1, on_heap = 0;
    size_t size = 0;
    void *hp = &on_heap;
    unsigned long long id = 0, id2 = 0;

    NEED(cuCtxGetCurrent(&prim));
    NEED(cuMemAlloc(&p, 4096));
    OK("context", cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cf_true("context_value", c == prim);
    OK("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 8));
    cf_u64("type_value", type, CU_MEMORYTYPE_DEVICE);
    OK("device_pointer", cuPointerGetAttribute(&dp, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, p + 8));
    cf_true("device_pointer_value", dp == p + 8);
    RC("host_pointer", cuPointerGetAttribute(&hp, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
       CUDA_ERROR_INVALID_VALUE);
    OK("managed", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    cf_u64("managed_value", managed & 1, 0);
    OK("ordinal", cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    cf_u64("ordinal_value", (uint64_t)ordinal, 0);
    OK("start", cuPointerGetAttribute(&start, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, p + 9));
    cf_true("start_value", start == p);
    OK("size", cuPointerGetAttribute(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 9));
    cf_u64("size_value", size, 4096);
    OK("id", cuPointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    RC("unknown_attribute", cuPointerGetAttribute(&size, (CUpointer_attribute)999, p),
       CUDA_ERROR_INVALID_VALUE);
    RC("null", cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), CUDA_ERROR_INVALID_VALUE);
    RC("heap",
       cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)&on_heap),
       CUDA_ERROR_INVALID_VALUE);

    /* The six attributes queried by cudaPointerGetAttributes. */
    CUpointer_attribute six[6] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,        CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_DEVICE_POINTER, CU_POINTER_ATTRIBUTE_HOST_POINTER,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,     CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
    };
    void *out[6] = {&c, &type, &dp, &hp, &managed, &ordinal};
    OK("six", cuPointerGetAttributes(6, six, out, p));
    cf_true("six_values", c == prim && type == CU_MEMORYTYPE_DEVICE && dp == p && !hp && !ordinal);
    type = 77;
    OK("six_heap", cuPointerGetAttributes(6, six, out, (CUdeviceptr)(uintptr_t)&on_heap));
    cf_true("six_heap_values", c == NULL && type == 0 && dp == 0);
    NEED(cuMemFree(p));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuPointerGetAttribute(&id2, CU_POINTER_ATTRIBUTE_BUFFER_ID, p));
    cf_true("id_new", id != id2);
    NEED(cuMemFree(p));
}

/* Queries of the runtime in a thread without a current context. */
CASE(mem_attributes_without_context, CF_CTX)
{
    CUpointer_attribute asked[2] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_CONTEXT};
    CUmemorytype type = 0;
    CUcontext c = NULL, mine = NULL;
    void *out[2] = {&type, &c};
    void *pinned = NULL;
    CUdeviceptr p = 0;
    int on_heap = 0;

    NEED(cuCtxGetCurrent(&mine));
    NEED(cuMemAlloc(&p, 4096));
    NEED(cuMemAllocHost(&pinned, 4096));
    NEED(cuCtxSetCurrent(NULL));
    OK("device", cuPointerGetAttributes(2, asked, out, p));
    cf_true("device_values", type == CU_MEMORYTYPE_DEVICE && c == mine);
    OK("pinned", cuPointerGetAttributes(2, asked, out, (CUdeviceptr)(uintptr_t)pinned));
    cf_true("pinned_values", type == CU_MEMORYTYPE_HOST && c == mine);
    OK("heap", cuPointerGetAttributes(2, asked, out, (CUdeviceptr)(uintptr_t)&on_heap));
    cf_true("heap_values", type == 0 && c == NULL);
    OK("one", cuPointerGetAttribute(&c, CU_POINTER_ATTRIBUTE_CONTEXT, p));
    cf_true("one_value", c == mine);
    NEED(cuCtxSetCurrent(mine));
    NEED(cuMemFreeHost(pinned));
    NEED(cuMemFree(p));
}

CASE(pinned_alloc, CF_CTX)
{
    uint32_t *h = NULL, *h2 = NULL;
    CUdeviceptr d = 0, none = 0;
    CUmemorytype type = 0;
    unsigned flags = 99;

    OK("alloc", cuMemHostAlloc((void **)&h, 1 << 20, CU_MEMHOSTALLOC_DEVICEMAP));
    cf_need_true("pointer", h != NULL);
    memset(h, 0x5a, 1 << 20);
    OK("device_pointer", cuMemHostGetDevicePointer(&d, h, 0));
    OK("kernel", cf_fill(d, 1 << 18, 3, NULL));
    OK("sync", cuCtxSynchronize());
    cf_u64("seen_first", h[0], 3);
    cf_u64("seen_last", h[(1 << 18) - 1], 3 + (1 << 18) - 1);
    OK("flags", cuMemHostGetFlags(&flags, h));
    cf_true("flags_value", flags & CU_MEMHOSTALLOC_DEVICEMAP);
    OK("type", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)h));
    cf_u64("type_value", type, CU_MEMORYTYPE_HOST);
    RC("pointer_flags", cuMemHostGetDevicePointer(&none, h, 5), CUDA_ERROR_INVALID_VALUE);
    RC("pointer_heap", cuMemHostGetDevicePointer(&none, &flags, 0), CUDA_ERROR_INVALID_VALUE);
    RC("flags_heap", cuMemHostGetFlags(&flags, &type), CUDA_ERROR_INVALID_VALUE);
    OK("alloc_plain", cuMemAllocHost((void **)&h2, 100));
    OK("copy_to_plain", cuMemcpyDtoH(h2, d, 100));
    cf_u64("copied", h2[24], 3 + 24);
    OK("free_plain", cuMemFreeHost(h2));
    OK("free", cuMemFreeHost(h));
    RC("free_twice", cuMemFreeHost(h), CUDA_ERROR_INVALID_VALUE);
    OK("free_null", cuMemFreeHost(NULL));
    RC("alloc_flags", cuMemHostAlloc((void **)&h, 100, 0x800), CUDA_ERROR_INVALID_VALUE);
    RC("alloc_null", cuMemHostAlloc(NULL, 100, 0), CUDA_ERROR_INVALID_VALUE);
}

CASE(pinned_register, CF_CTX)
{
    size_t n = 64 * 4096;
    uint32_t *h = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr d = 0, dev = 0;

    cf_need_true("mmap", h != MAP_FAILED);
    cf_pattern(h, n, 5);
    OK("register", cuMemHostRegister(h, n, CU_MEMHOSTREGISTER_DEVICEMAP));
    cf_true("unchanged", cf_is_pattern(h, n, 5));
    RC("again", cuMemHostRegister(h, n, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK("device_pointer", cuMemHostGetDevicePointer(&d, h, 0));
    OK("kernel", cf_fill(d + 4096, 1024, 9, NULL));
    OK("sync", cuCtxSynchronize());
    cf_u64("seen", h[1024 + 1000], 1009);
    NEED(cuMemAlloc(&dev, n));
    OK("copy", cuMemcpyHtoD(dev, h, n));
    memset(h, 0, n);
    OK("copy_back", cuMemcpyDtoH(h, dev, n));
    cf_u64("copied", h[1024 + 1000], 1009);
    OK("unregister", cuMemHostUnregister(h));
    RC("unregister_twice", cuMemHostUnregister(h), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    cf_u64("content_stays", h[1024 + 1000], 1009);
    h[0] = 1; /* still ordinary memory */
    RC("null", cuMemHostRegister(NULL, 4096, 0), CUDA_ERROR_INVALID_VALUE);
    RC("zero", cuMemHostRegister(h, 0, 0), CUDA_ERROR_INVALID_VALUE);
    RC("flags", cuMemHostRegister(h, 4096, 0x100), CUDA_ERROR_INVALID_VALUE);
    OK("part", cuMemHostRegister((char *)h + 100, 5000, 0));
    OK("part_end", cuMemHostUnregister((char *)h + 100));
    OK("free", cuMemFree(dev));
    munmap(h, n);
}

/*
 * A malloc() block with pages of its own, which begins and ends inside of pages, is mapped like
 * whole pages.
 */
CASE(register_malloc, CF_ALONE | CF_CTX)
{
    const size_t n = 300000;
    CUdeviceptr d = 0;
    uint32_t *h;

    cf_need_true("threshold", mallopt(M_MMAP_THRESHOLD, 128 << 10) == 1);
    h = malloc(n);
    cf_need_true("malloc", h != NULL);
    cf_pattern(h, n, 5);
    OK("register", cuMemHostRegister(h, n, CU_MEMHOSTREGISTER_DEVICEMAP));
    cf_true("unchanged", cf_is_pattern(h, n, 5));
    OK("device_pointer", cuMemHostGetDevicePointer(&d, h, 0));
    OK("kernel", cf_fill(d, (unsigned)(n / 4), 9, NULL));
    OK("sync", cuCtxSynchronize());
    cf_u64("first", h[0], 9);
    cf_u64("last", h[n / 4 - 1], 9 + n / 4 - 1);
    OK("unregister", cuMemHostUnregister(h));
    cf_u64("content_stays", h[100], 109);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = h[100] == 109;

        free(h);
        _exit(ok ? 0 : 1);
    }
    cf_u64("child", (uint64_t)cf_child_status(pid), 0);
    h = realloc(h, 2 * n); /* as before, managed by the allocator */
    cf_need_true("realloc", h != NULL);
    cf_u64("content_moves", h[100], 109);
    free(h);
}

/*
 * A small block shares its pages with others: it is pinned, but mapped only if these pages can be
 * shared.
 */
CASE(register_malloc_small, CF_ALONE | CF_CTX)
{
    unsigned char *h[3];
    CUdeviceptr d = 0;
    CUresult r;

    for (unsigned i = 0; i < 3; i++) {
        h[i] = malloc(5000);
        cf_need_true("malloc", h[i] != NULL);
        cf_pattern(h[i], 5000, i);
    }
    OK("register", cuMemHostRegister(h[1], 5000, CU_MEMHOSTREGISTER_DEVICEMAP));
    r = cuMemHostGetDevicePointer(&d, h[1], 0);
    cf_true("device_pointer", r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED);
    for (unsigned i = 0; i < 3; i++)
        cf_true("unchanged", cf_is_pattern(h[i], 5000, i));
    OK("unregister", cuMemHostUnregister(h[1]));
    for (unsigned i = 0; i < 3; i++)
        free(h[i]);
}

/* Registered shared memory stays shared with its other mappings, and with other processes. */
CASE(register_shared, CF_ALONE | CF_CTX)
{
    int fd = memfd_create("shared", MFD_CLOEXEC);
    uint32_t *a, *b, *one;
    CUdeviceptr d = 0, on_device = 0;

    cf_need_true("file", fd >= 0 && ftruncate(fd, 16384) == 0);
    a = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    b = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    one = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    cf_need_true("mmap", a != MAP_FAILED && b != MAP_FAILED && one != MAP_FAILED);
    NEED(cuMemAlloc(&d, 16384));
    OK("register", cuMemHostRegister(a, 16384, 0));
    OK("register_anonymous", cuMemHostRegister(one, 4096, 0));
    CUresult r = cuMemHostGetDevicePointer(&on_device, a, 0);
    cf_true("device_pointer", r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED); /* see run.sh */
    cf_pattern(b, 16384, 3);
    cf_true("seen", cf_is_pattern(a, 16384, 3));
    OK("up", cuMemcpyHtoD(d, a, 16384));
    memset(b, 0, 16384);
    OK("down", cuMemcpyDtoHAsync(a, d, 16384, NULL));
    OK("sync", cuCtxSynchronize());
    cf_true("down_seen", cf_is_pattern(b, 16384, 3));
    OK("unregister", cuMemHostUnregister(a));
    OK("unregister_anonymous", cuMemHostUnregister(one));
    b[5] = 77;
    cf_u64("seen_after", a[5], 77);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        one[0] = 78;
        _exit(0);
    }
    cf_u64("child", (uint64_t)cf_child_status(pid), 0);
    cf_u64("child_seen", one[0], 78);
    NEED(cuMemFree(d));
    munmap(a, 16384);
    munmap(b, 16384);
    munmap(one, 4096);
    close(fd);
}

static _Atomic int counting;
static volatile uint64_t counted;

static void *count_up(void *arg)
{
    volatile uint64_t *word = arg;

    while (counting != 0) {
        if (counting == 1)
            counting = 2; /* running */
        (*word)++;
        counted++;
    }
    return NULL;
}

/*
 * Memory that was registered is private to the process again: also in a child, and for threads that
 * write to it.
 */
CASE(register_undone, CF_ALONE | CF_CTX)
{
    uint64_t *h = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t start = 0;
    unsigned lost = 0, failed = 0;
    pthread_t thread;

    cf_need_true("mmap", h != MAP_FAILED);
    for (unsigned i = 0; i < 30; i++) {
        failed += cuMemHostRegister(h, 8 * 4096, 0) != CUDA_SUCCESS;
        start = h[i * 100];
        counted = 0;
        counting = 1;
        cf_need_true("thread", pthread_create(&thread, NULL, count_up, &h[i * 100]) == 0);
        while (counting == 1)
            sched_yield();
        failed += cuMemHostUnregister(h) != CUDA_SUCCESS;
        counting = 0;
        pthread_join(thread, NULL);
        lost += h[i * 100] != start + counted;
    }
    cf_u64("failed", failed, 0);
    cf_u64("writes_lost", lost, 0);
    h[0] = 5;
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        bool ok = h[0] == 5;

        h[0] = 6;
        _exit(ok ? 0 : 1);
    }
    cf_u64("child", (uint64_t)cf_child_status(pid), 0);
    cf_u64("parent", h[0], 5);
    OK("again", cuMemHostRegister(h, 4096, 0));
    cf_u64("content", h[0], 5);
    OK("again_end", cuMemHostUnregister(h));
    munmap(h, 8 * 4096);
}

/* The CPU writes pinned memory while a kernel polls it. */
CASE(pinned_live, CF_CTX)
{
    volatile uint32_t *flag = NULL;
    CUdeviceptr dflag = 0, out = 0;
    unsigned limit = 0, got = 0;
    CUstream s = NULL;

    NEED(cuMemHostAlloc((void **)&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    NEED(cuMemHostGetDevicePointer(&dflag, (void *)flag, 0));
    NEED(cuMemAlloc(&out, 4));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    *flag = 0;
    void *params[] = {&dflag, &out, &limit};
    OK("launch", cf_launch(cf_func("k_wait"), 1, 1, 0, s, params));
    RC("busy", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    *flag = 42;
    OK("sync", cuStreamSynchronize(s));
    OK("read", cuMemcpyDtoH(&got, out, 4));
    cf_u64("seen", got, 42);
    OK("destroy", cuStreamDestroy(s));
    OK("free", cuMemFree(out));
    OK("free_host", cuMemFreeHost((void *)flag));
}

CASE(memset, CF_CTX)
{
    CUdeviceptr p = 0;
    uint8_t h[4096];
    bool good = true;

    NEED(cuMemAlloc(&p, 4096));
    OK("d8", cuMemsetD8(p, 0x11, 4096));
    OK("d16", cuMemsetD16(p + 2, 0x2233, 100));
    OK("d32", cuMemsetD32(p + 1024, 0x44556677, 100));
    OK("d8_odd", cuMemsetD8(p + 2001, 0x88, 3));
    OK("read", cuMemcpyDtoH(h, p, 4096));
    for (int i = 0; i < 4096; i++) {
        uint8_t want = 0x11;
        if (i >= 2 && i < 202)
            want = i & 1 ? 0x22 : 0x33;
        if (i >= 1024 && i < 1424)
            want = (uint8_t)(0x44556677u >> (8 * (i & 3)));
        if (i >= 2001 && i < 2004)
            want = 0x88;
        good &= h[i] == want;
    }
    cf_true("content", good);
    RC("d16_unaligned", cuMemsetD16(p + 1, 0, 4), CUDA_ERROR_INVALID_VALUE);
    RC("d32_unaligned", cuMemsetD32(p + 2, 0, 4), CUDA_ERROR_INVALID_VALUE);
    RC("past", cuMemsetD8(p, 0, (size_t)1 << 40), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) /* a GPU's driver wraps the number of bytes to 4 */
        RC("d32_overflow", cuMemsetD32(p, 0, ~(size_t)0 / 4 + 2), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuMemsetD8(0, 0, 16), CUDA_ERROR_INVALID_VALUE);
    OK("zero", cuMemsetD8(p, 0, 0));
    OK("d2d8", cuMemsetD2D8(p, 64, 0xee, 10, 20));
    OK("d2d32", cuMemsetD2D32(p + 2048, 64, 0x01020304, 5, 8));
    OK("async", cuMemsetD8Async(p + 4000, 0x99, 10, NULL));
    OK("async_32", cuMemsetD32Async(p + 4012, 0xabcdef01, 1, NULL));
    OK("read_2", cuMemcpyDtoH(h, p, 4096));
    good = true;
    for (int y = 0; y < 20; y++)
        for (int x = 0; x < 64; x++)
            good &= x >= 10 || h[y * 64 + x] == 0xee;
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 20; x++)
            good &= h[2048 + y * 64 + x] == 4 - (x & 3);
    good &= h[4000] == 0x99 && h[4009] == 0x99 && h[4012] == 1 && h[4015] == 0xab;
    cf_true("content_2", good);
    OK("free", cuMemFree(p));
}

/*
 * As by cuSOLVER when the program passes no devInfo: address 0 is invalid, and the stream
 * continues.
 */
CASE(memset_null, CF_CTX)
{
    CUdeviceptr p;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 64));
    RC("async", cuMemsetD8Async(0, 0, 4, s), CUDA_ERROR_INVALID_VALUE);
    RC("sync", cuMemsetD8(0, 0, 4), CUDA_ERROR_INVALID_VALUE);
    RC("words", cuMemsetD32Async(0, 0, 1, s), CUDA_ERROR_INVALID_VALUE);
    OK("nothing", cuMemsetD8Async(0, 0, 0, s));
    OK("query", cuStreamQuery(s));
    OK("next", cf_fill(p, 16, 3, s));
    OK("wait", cuStreamSynchronize(s));
    cf_true("filled", cf_filled(p, 16, 3));
    OK("free", cuMemFree(p));
    OK("destroy", cuStreamDestroy(s));
}

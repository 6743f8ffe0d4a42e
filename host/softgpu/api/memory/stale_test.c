/* SPDX-License-Identifier: MIT */
/*
 * Work that is still to run when its memory is unregistered, freed or unmapped through another
 * context, or before a graph is launched. The addresses are at once used for something else here,
 * as the system may do: it must stay as it is, and the work must end with
 * CUDA_ERROR_ILLEGAL_ADDRESS.
 */
#define _GNU_SOURCE
#include "api/api_test.h"

#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"

#define SIZE (64u << 10)
#define ROW 256u

enum kind { COPY_TO, COPY_FROM, COPY_2D, MEMSET, WRITE_VALUE, WAIT_VALUE, KINDS };

static uint8_t *pages(void *at)
{
    uint8_t *p =
        mmap(at, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);

    assert_true(p != MAP_FAILED);
    return p;
}

/* The memory at p is freed and allocated anew. */
static void victim(void *p)
{
    memset(pages(p), 0x5a, SIZE);
}

static void untouched(const uint8_t *p)
{
    for (uint32_t i = 0; i < SIZE; i++)
        assert_int_equal(p[i], 0x5a);
}

static void issue(enum kind kind, uint8_t *host, CUdeviceptr device, CUstream s)
{
    const CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = device,
                                .srcPitch = ROW,
                                .dstMemoryType = CU_MEMORYTYPE_HOST,
                                .dstHost = host,
                                .dstPitch = ROW,
                                .WidthInBytes = ROW / 2,
                                .Height = SIZE / ROW};
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)host;

    switch (kind) {
    case COPY_TO:
        OK(cuMemcpyDtoHAsync_v2(host, device, SIZE, s));
        break;
    case COPY_FROM:
        OK(cuMemcpyHtoDAsync_v2(device, host, SIZE, s));
        break;
    case COPY_2D:
        OK(cuMemcpy2DAsync_v2(&rows, s));
        break;
    case MEMSET:
        OK(cuMemsetD32Async(at, 7, SIZE / 4, s));
        break;
    case WRITE_VALUE:
        OK(cuStreamWriteValue32_v2(s, at, 7, 0));
        break;
    default:
        OK(cuStreamWaitValue32_v2(s, at, 7, CU_STREAM_WAIT_VALUE_EQ));
        break;
    }
}

/* own: memory of cuMemHostAlloc, which is freed; else registered memory. */
static void pending(enum kind kind, bool own)
{
    struct gate g = GATE_INIT;
    CUcontext a = ctx_begin(), b;
    CUdeviceptr device;
    uint8_t *host;
    CUstream s;

    if (own) {
        OK(cuMemHostAlloc((void **)&host, SIZE, CU_MEMHOSTALLOC_PORTABLE));
    } else {
        host = pages(NULL);
        OK(cuMemHostRegister_v2(host, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
    }
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuMemAlloc_v2(&device, SIZE));
    OK(cuMemsetD8_v2(device, 0x11, SIZE));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(s, gate_wait, &g));
    issue(kind, host, device, s);
    gate_await(&g);
    OK(cuCtxSetCurrent(a));
    if (own)
        OK(cuMemFreeHost(host));
    else
        OK(cuMemHostUnregister(host));
    victim(host);
    gate_open(&g);
    OK(cuCtxSetCurrent(b));
    IS(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    untouched(host);
    munmap(host, SIZE);
    cuCtxDestroy_v2(b);
    OK(cuCtxSetCurrent(a));
    ctx_end(a);
}

static void test_pending_work(void **state)
{
    (void)state;
    for (int k = 0; k < KINDS; k++) {
        pending((enum kind)k, false);
        pending((enum kind)k, true);
    }
}

/* A kernel of another context that writes for ever is at it when the memory is unregistered. */
static void test_kernel_at_work(void **state)
{
    static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>;\n"
        ".reg .b64 %rd<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\nmul.wide.u32 %rd2, %r1, 4;\n"
        "add.u64 %rd1, %rd1, %rd2;\nmov.u32 %r2, 1;\nL: st.global.u32 [%rd1], %r2;\nadd.u32 %r2, %r2, 1;\n"
        "bra L;\n}\n";
    CUcontext a = ctx_begin(), b;
    uint8_t *host = pages(NULL);
    CUdeviceptr at = (CUdeviceptr)(uintptr_t)host;
    void *args[] = {&at};
    CUfunction f;
    CUmodule m;
    CUstream s;

    (void)state;
    OK(cuMemHostRegister_v2(host, SIZE, CU_MEMHOSTREGISTER_PORTABLE));
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, args, NULL));
    while (!*(volatile uint32_t *)(void *)host)
        ;
    OK(cuCtxSetCurrent(a));
    OK(cuMemHostUnregister(host));
    victim(host);
    OK(cuCtxSetCurrent(b));
    IS(cuStreamSynchronize(s), ILLEGAL_ADDRESS);
    untouched(host);
    munmap(host, SIZE);
    cuCtxDestroy_v2(b);
    OK(cuCtxSetCurrent(a));
    ctx_end(a);
}

struct freeing {
    CUcontext of; /* current to the thread */
    CUdeviceptr p;
    pid_t tid;
    CUresult result;
};

static void *freeing_main(void *arg)
{
    struct freeing *f = arg;

    OK(cuCtxSetCurrent(f->of));
    __atomic_store_n(&f->tid, gettid(), __ATOMIC_RELEASE);
    f->result = cuMemFree_v2(f->p);
    return NULL;
}

/* Until the thread is in its call, and waits there. */
static void await_sleep(const struct freeing *f)
{
    char path[64], state = 0;

    while (state != 'S') {
        const pid_t tid = __atomic_load_n(&f->tid, __ATOMIC_ACQUIRE);
        FILE *stat;

        sched_yield();
        snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)tid);
        if (!tid || !(stat = fopen(path, "re")))
            continue;
        assert_true(fscanf(stat, "%*d (%*[^)]) %c", &state) == 1);
        fclose(stat);
    }
}

/* Memory is freed under another context, whose work is waited for; meanwhile the memory's own
   context ends. */
static void test_owner_ends(void **state)
{
    struct gate g = GATE_INIT;
    struct freeing f = {0};
    CUcontext b = ctx_begin(), a;
    pthread_t t;
    CUstream s;

    (void)state;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(s, gate_wait, &g));
    gate_await(&g);
    OK(cuCtxCreate_v2(&a, 0, 0));
    OK(cuMemAlloc_v2(&f.p, SIZE));
    f.of = b;
    assert_int_equal(pthread_create(&t, NULL, freeing_main, &f), 0);
    await_sleep(&f);
    mallopt(M_PERTURB, 0xa5); /* what is freed is no more what it was */
    OK(cuCtxDestroy_v2(a));
    mallopt(M_PERTURB, 0);
    gate_open(&g);
    pthread_join(t, NULL);
    assert_int_equal(f.result, CUDA_ERROR_INVALID_VALUE); /* it went with its context */
    ctx_end(b);
}

/* Memory is to be freed by a stream of another context; its own context ends before, and the address is another's. */
static void test_free_of_another(void **state)
{
    struct gate g = GATE_INIT;
    CUcontext a = ctx_begin(), b;
    CUdeviceptr p, q, base;
    size_t bytes;
    CUstream s;

    (void)state;
    OK(cuMemAllocAsync(&p, SIZE, NULL));
    OK(cuCtxCreate_v2(&b, 0, 0));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchHostFunc(s, gate_wait, &g));
    OK(cuMemFreeAsync(p, s));
    gate_await(&g);
    OK(cuCtxDestroy_v2(a));
    OK(cuMemAllocAsync(&q, SIZE, CU_STREAM_PER_THREAD));
    assert_int_equal(q, p);
    gate_open(&g);
    OK(cuStreamSynchronize(s));
    OK(cuMemGetAddressRange_v2(&base, &bytes, q));
    assert_int_equal(bytes, SIZE);
    OK(cuMemFree_v2(q));
    OK(cuCtxDestroy_v2(b));
}

/* Nodes of a graph that is launched when its memory was unmapped, and its addresses given back. */
static void test_graph_of_unmapped_memory(void **state)
{
    const size_t bytes = 2u << 20;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc rw = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

    (void)state;
    for (int set = 0; set < 2; set++) {
        CUcontext c = ctx_begin();
        CUmemGenericAllocationHandle h;
        CUdeviceptr va, device;
        CUgraphExec exec;
        CUgraphNode n;
        CUgraph g;

        OK(cuMemCreate(&h, bytes, &prop, 0));
        OK(cuMemAddressReserve(&va, bytes, 0, 0, 0));
        OK(cuMemMap(va, bytes, 0, h, 0));
        OK(cuMemSetAccess(va, bytes, &rw, 1));
        OK(cuMemAlloc_v2(&device, SIZE));
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = device,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = va,
                              .WidthInBytes = SIZE,
                              .Height = 1,
                              .Depth = 1};
        CUDA_MEMSET_NODE_PARAMS fill = {.dst = va, .value = 7, .elementSize = 1, .width = SIZE, .height = 1};

        OK(cuGraphCreate(&g, 0));
        if (set)
            OK(cuGraphAddMemsetNode(&n, g, NULL, 0, &fill, c));
        else
            OK(cuGraphAddMemcpyNode(&n, g, NULL, 0, &copy, c));
        OK(cuGraphInstantiateWithFlags(&exec, g, 0));
        OK(cuGraphLaunch(exec, NULL)); /* as long as it is there */
        OK(cuCtxSynchronize());
        OK(cuMemUnmap(va, bytes));
        OK(cuMemAddressFree(va, bytes));
        victim((void *)va);
        OK(cuGraphLaunch(exec, NULL));
        IS(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        untouched((const uint8_t *)va);
        /* As it was: no hole among the reserved addresses. */
        assert_true(mmap((void *)va, SIZE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
                    (void *)va);
        cuGraphExecDestroy(exec);
        cuGraphDestroy(g);
        cuMemRelease(h);
        cuCtxDestroy_v2(c);
    }
}

/* Memory that was made read-only after a graph was made that writes to it. */
static void test_read_only_since(void **state)
{
    const size_t bytes = 2u << 20;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemAccessDesc access = {.location = prop.location};

    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        CUcontext c = ctx_begin();
        CUmemGenericAllocationHandle h;
        CUdeviceptr va, device;
        CUgraphExec exec;
        CUgraphNode n;
        CUgraph g;

        OK(cuMemCreate(&h, bytes, &prop, 0));
        OK(cuMemAddressReserve(&va, bytes, 0, 0, 0));
        OK(cuMemMap(va, bytes, 0, h, 0));
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        OK(cuMemSetAccess(va, bytes, &access, 1));
        OK(cuMemAlloc_v2(&device, SIZE));
        OK(cuMemsetD8_v2(device, 0x11, SIZE));
        CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                              .srcDevice = device,
                              .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                              .dstDevice = va,
                              .WidthInBytes = SIZE,
                              .Height = 1,
                              .Depth = 1};
        CUDA_MEMSET_NODE_PARAMS fill = {.dst = va, .value = 7, .elementSize = 1, .width = SIZE, .height = 1};
        CUstreamBatchMemOpParams store = {
            .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = va, .value = 7}};
        CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {.ctx = c, .count = 1, .paramArray = &store};

        OK(cuGraphCreate(&g, 0));
        OK(kind == 0   ? cuGraphAddMemsetNode(&n, g, NULL, 0, &fill, c)
           : kind == 1 ? cuGraphAddMemcpyNode(&n, g, NULL, 0, &copy, c)
                       : cuGraphAddBatchMemOpNode(&n, g, NULL, 0, &batch));
        OK(cuGraphInstantiateWithFlags(&exec, g, 0));
        access.flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
        OK(cuMemSetAccess(va, bytes, &access, 1));
        OK(cuGraphLaunch(exec, NULL));
        IS(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        assert_int_equal(*(volatile uint32_t *)va, 0);
        cuGraphExecDestroy(exec);
        cuGraphDestroy(g);
        cuCtxDestroy_v2(c);
        c = ctx_begin();
        OK(cuMemUnmap(va, bytes));
        OK(cuMemAddressFree(va, bytes));
        OK(cuMemRelease(h));
        ctx_end(c);
    }
}

#define RESERVED (2u << 20) /* bytes of a reservation below */

/* The address that a hint leads to. */
static CUdeviceptr reserved_for(CUdeviceptr hint, size_t alignment)
{
    CUdeviceptr va;

    OK(cuMemAddressReserve(&va, RESERVED, alignment, hint, 0));
    OK(cuMemAddressFree(va, RESERVED));
    return va;
}

/* A hint has an effect among reserved addresses only, and there one that depends on reservations
   alone. */
static void test_reserved_addresses(void **state)
{
    CUcontext c = ctx_begin();
    const CUdeviceptr first = reserved_for(0, 0), want = first + 64 * RESERVED;
    CUdeviceptr va, other;

    (void)state;
    assert_true(reserved_for(want, 0) == want);
    OK(cuMemAddressReserve(&va, RESERVED, 0, want, 0));
    assert_true(va == want);
    assert_true(reserved_for(want, 0) == first);                          /* the program has it */
    OK(cuMemAddressReserve(&other, 2 * RESERVED, 0, want - RESERVED, 0)); /* a part of it */
    assert_true(other == first);
    OK(cuMemAddressFree(other, 2 * RESERVED));
    OK(cuMemAddressFree(va, RESERVED));
    assert_true(reserved_for(want, 0) == want); /* again */
    va = reserved_for(want + RESERVED, 64ull << 20);
    assert_true(va % (64ull << 20) == 0 && va >= want);
    assert_true(reserved_for(~(CUdeviceptr)(RESERVED - 1), 64ull << 20) % (64ull << 20) == 0);
    ctx_end(c);
}

/* Beside each of the process's own mappings a hint does the same as where there has never been
   one: nothing. */
static void test_reserved_at_edges(void **state)
{
    CUcontext c = ctx_begin();
    const CUdeviceptr first = reserved_for(0, 0);
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long edges[2];
    unsigned asked = 0;
    char line[600];

    (void)state;
    assert_non_null(f);
    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx", &edges[0], &edges[1]) != 2 || edges[0] >> 47 ||
            (first >= edges[0] && first < edges[1]))
            continue; /* of the last one the reservations come */
        for (unsigned e = 0; e < 2; e++) {
            for (int step = -2; step <= 2; step++) {
                CUdeviceptr hint = (edges[e] & ~(RESERVED - 1ull)) + (CUdeviceptr)(int64_t)step * RESERVED;

                if (hint >= first && hint < first + (1ull << 44))
                    continue; /* beside the reservations: theirs */
                assert_true(reserved_for(hint, 0) == first);
                asked++;
            }
        }
    }
    fclose(f);
    assert_true(asked > 100);
    for (CUdeviceptr far = RESERVED; far >> 48 == 0; far += 0x10000000000ull) { /* never mapped */
        if (far < first - RESERVED || far >= first + (1ull << 44))
            assert_true(reserved_for(far, 0) == first);
    }
    ctx_end(c);
}

/* What is asked of an address is answered for `p` as for one where nothing is. */
static void as_nothing(const uint8_t *p, CUdeviceptr device)
{
    const CUdeviceptr at = (CUdeviceptr)(uintptr_t)p;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MAPPED};
    CUstreamBatchMemOpParams op = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at}};
    CUDA_MEMCPY2D rows = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = device,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = at,
                          .WidthInBytes = 8,
                          .Height = 2};
    unsigned type = 7, mapped = 1, flags;
    void *answers[] = {&type, &mapped};
    CUdeviceptr base;

    assert_int_equal(cuMemcpyDtoD_v2(at, device, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpyDtoD_v2(device, at, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy(at, device, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemcpy2D_v2(&rows), CUDA_ERROR_INVALID_VALUE);
    rows.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
    assert_int_equal(cuMemcpy2D_v2(&rows), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD8_v2(at, 1, 8), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemsetD32Async(at, 1, 2, NULL), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuStreamBatchMemOp_v2(NULL, 1, &op, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuPointerGetAttribute(&type, which[0], at), CUDA_ERROR_INVALID_VALUE);
    OK(cuPointerGetAttributes(2, which, answers, at));
    assert_int_equal(type, 0);
    assert_false(mapped);
    assert_int_equal(cuMemGetAddressRange_v2(&base, NULL, at), CUDA_ERROR_NOT_FOUND);
    assert_int_equal(cuMemHostGetDevicePointer_v2(&base, (void *)(uintptr_t)p, 0), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostGetFlags(&flags, (void *)(uintptr_t)p), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(cuMemHostUnregister((void *)(uintptr_t)p), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

/* Memory of the loading program's own: for copies that name it as host memory, page-locked; else
   nothing. */
static void test_private_memory(void **state)
{
    static const unsigned char pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    CUcontext c = ctx_begin();
    uint8_t *p = pages(NULL);
    CUdeviceptr device;

    (void)state;
    OK(sg_host_register_private(p, SIZE));
    OK(cuMemAlloc_v2(&device, SIZE));
    memcpy(p, pattern, sizeof(pattern));
    OK(cuMemcpyHtoDAsync_v2(device, p, sizeof(pattern), NULL));
    OK(cuMemcpyDtoHAsync_v2(p + SIZE - 8, device, 8, NULL));
    OK(cuCtxSynchronize());
    assert_memory_equal(p + SIZE - 8, pattern, 8);
    for (unsigned i = 0; i < 3; i++)
        as_nothing(p + (const unsigned[]){0, SIZE / 2, SIZE - 16}[i], device);
    assert_memory_equal(p, pattern, sizeof(pattern)); /* none of it wrote */
    assert_memory_equal(p + SIZE - 8, pattern, 8);
    OK(cuMemFree_v2(device));
    ctx_end(c); /* the memory stays private: it belongs to no context */
    c = ctx_begin();
    OK(cuMemAlloc_v2(&device, SIZE));
    as_nothing(p, device);
    OK(cuMemFree_v2(device));
    ctx_end(c);
}

/* A copy to it that waits for its turn leaves the caller alone, as one to memory that is
   registered. */
static void test_private_is_page_locked(void **state)
{
    CUcontext c = ctx_begin();
    uint8_t *p = pages(NULL);
    CUdeviceptr device, flag;
    CUstream s;

    (void)state;
    OK(sg_host_register_private(p, SIZE));
    OK(cuMemAlloc_v2(&device, SIZE));
    OK(cuMemAlloc_v2(&flag, 4));
    OK(cuMemsetD32_v2(flag, 0, 1));
    OK(cuMemsetD8_v2(device, 9, SIZE));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK(cuStreamWaitValue32_v2(s, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuMemcpyDtoHAsync_v2(p, device, SIZE, s));
    assert_int_equal(cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    assert_int_equal(p[0], 0);
    OK(cuMemsetD32_v2(flag, 1, 1));
    OK(cuStreamSynchronize(s));
    assert_int_equal(p[SIZE - 1], 9);
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(device));
    OK(cuMemFree_v2(flag));
    ctx_end(c);
}

const struct CMUnitTest stale_tests[] = {
    cmocka_unit_test(test_private_memory),
    cmocka_unit_test(test_private_is_page_locked),
    cmocka_unit_test(test_reserved_addresses),
    cmocka_unit_test(test_reserved_at_edges),
    cmocka_unit_test(test_pending_work),
    cmocka_unit_test(test_kernel_at_work),
    cmocka_unit_test(test_owner_ends),
    cmocka_unit_test(test_free_of_another),
    cmocka_unit_test(test_graph_of_unmapped_memory),
    cmocka_unit_test(test_read_only_since),
};
const size_t n_stale_tests = sizeof(stale_tests) / sizeof(stale_tests[0]);

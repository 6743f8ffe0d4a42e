// SPDX-License-Identifier: MIT
/* Mistakes of other implementations of the driver API; README.md has the table. */
#include "conform.h"

#include <pthread.h>
#include <sys/mman.h>

/* An address that is neither device memory nor mapped by the process is refused, not accessed. */
CASE(trap_wild_address, CF_CTX | CF_UB)
{
    CUdeviceptr p = 0, gone = 0;
    void *host = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CUdeviceptr wild = (CUdeviceptr)(uintptr_t)host, mapped;

    NEED(cuMemAlloc(&p, 1 << 16));
    NEED(cuMemAlloc(&gone, 1 << 16));
    NEED(cuMemFree(gone));
    cf_need_true("mmap", host != MAP_FAILED);
    mapped = wild;
    OK("mapped", cuMemcpy(p, mapped, 1 << 16));
    munmap(host, 1 << 16);
    RC("unmapped_source", cuMemcpy(p, wild, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    RC("unmapped_destination", cuMemcpy(wild, p, 1 << 16), CUDA_ERROR_INVALID_VALUE);
    RC("unmapped_async", cuMemcpyAsync(p, wild, 1 << 16, NULL), CUDA_ERROR_INVALID_VALUE);
    RC("freed_source", cuMemcpy(p, gone, 64), CUDA_ERROR_INVALID_VALUE);
    RC("freed_destination", cuMemcpy(gone, p, 64), CUDA_ERROR_INVALID_VALUE);
    RC("wild_size", cuMemcpyHtoDAsync(p, &gone, (size_t)1 << 40, NULL), CUDA_ERROR_INVALID_VALUE);
    OK("after", cf_fill(p, 100, 3, NULL));
    cf_true("after_value", cf_filled(p, 100, 3));
    OK("free", cuMemFree(p));
}

/* Offsets, pitches and heights of row copies that wrap or exceed the memory. */
CASE(trap_wild_rows, CF_CTX)
{
    uint32_t h[1024] = {0};
    CUdeviceptr p = 0;
    CUDA_MEMCPY2D c = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                       .srcHost = h,
                       .srcPitch = 256,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstPitch = 256,
                       .WidthInBytes = 64,
                       .Height = 4};

    NEED(cuMemAlloc(&p, 4096));
    c.dstDevice = p;
    OK("as_it_should_be", cuMemcpy2D(&c));
    c.srcXInBytes = (size_t)-64; /* wraps to memory before the start */
    RC("x_wraps", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcXInBytes = 0;
    c.srcY = (size_t)-1;
    RC("y_wraps", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.srcY = 0;
    c.dstXInBytes = 200; /* 64 bytes at this offset do not fit the pitch */
    RC("x_past_pitch", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.dstXInBytes = 192;
    OK("x_up_to_pitch", cuMemcpy2D(&c));
    c.dstXInBytes = 0;
    c.Height = 1;
    c.dstPitch = (size_t)1 << 40;
    OK("pitch_of_one_row", cuMemcpy2D(&c)); /* the limit is for several rows only (driver 580) */
    c.Height = 2;
    RC("pitch_too_large", cuMemcpy2D(&c), CUDA_ERROR_INVALID_VALUE);
    c.Height = 1;
    OK("pitch_unaligned", cuMemcpy2DUnaligned(&c)); /* has no limit */
    OK("free", cuMemFree(p));
}

/* Memory of cuMemAlloc may be freed in stream order, but only once. */
CASE(trap_free_async_of_plain_memory, CF_CTX)
{
    CUdeviceptr p = 0;
    CUstream s;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("alloc", cuMemAlloc(&p, 4096));
    OK("fill", cf_fill(p, 1000, 5, s));
    OK("free_async", cuMemFreeAsync(p, s));
    OK("sync", cuStreamSynchronize(s));
    RC("free_again", cuMemFree(p), CUDA_ERROR_INVALID_VALUE);
    NEED(cuStreamDestroy(s));
}

/* Pinned memory has to exist, even if never accessed. */
CASE(trap_pinned_memory_that_nobody_has, CF_CTX)
{
    void *p = NULL;

    RC("alloc", cuMemHostAlloc(&p, (size_t)1 << 44, 0), CUDA_ERROR_OUT_OF_MEMORY);
    /* Driver 580 fails to allocate its list of pages before it checks whether they are mapped. */
    RC_IN("register", cuMemHostRegister((void *)(uintptr_t)0x10000, (size_t)1 << 44, 0),
          CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_OUT_OF_MEMORY);
}

/* Counts beyond any possible array are refused before the array is read. */
CASE(trap_counts, CF_CTX)
{
    CUgraph g;
    CUgraphNode n[2] = {0}, more;

    NEED(cuGraphCreate(&g, 0));
    NEED(cuGraphAddEmptyNode(&n[0], g, NULL, 0));
    RC("dependencies", cuGraphAddEmptyNode(&more, g, n, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    RC("edges", cuGraphAddDependencies(g, n, n, NULL, SIZE_MAX / 4), CUDA_ERROR_INVALID_VALUE);
    NEED(cuGraphDestroy(g));
}

/* Outputs may be NULL where cuda.h says so. */
CASE(trap_optional_outputs, CF_CTX)
{
    CUdeviceptr p = 0, base = 0;
    size_t size = 0, bytes = 0;
    CUmodule m = cf_module();

    NEED(cuMemAlloc(&p, 1 << 16));
    OK("range_no_base", cuMemGetAddressRange(NULL, &size, p + 5));
    cf_u64("range_size", size, 1 << 16);
    OK("range_no_size", cuMemGetAddressRange(&base, NULL, p + 5));
    cf_true("range_base", base == p);
    OK("range_none", cuMemGetAddressRange(NULL, NULL, p));
    OK("global_no_pointer", cuModuleGetGlobal(NULL, &bytes, m, "g_counter"));
    cf_true("global_bytes", bytes > 0);
    OK("global_no_bytes", cuModuleGetGlobal(&base, NULL, m, "g_counter"));
    RC("global_neither", cuModuleGetGlobal(NULL, NULL, m, "g_counter"), CUDA_ERROR_INVALID_VALUE);
    OK("info_no_free", cuMemGetInfo(NULL, &size));
    OK("after", cf_fill(p, 100, 9, NULL));
    cf_true("after_value", cf_filled(p, 100, 9));
    OK("free", cuMemFree(p));
}

/* (CUcontext)-1 stands for the current context, as NULL does. */
CASE(trap_context_minus_one, CF_CTX | CF_UB)
{
    CUcontext all_ones = (CUcontext)UINTPTR_MAX, c = NULL;
    unsigned version = 0, again = 1;
    unsigned long long id = 0, same = 1;

    OK("current", cuCtxGetCurrent(&c));
    OK("version", cuCtxGetApiVersion(c, &version));
    OK("version_minus_one", cuCtxGetApiVersion(all_ones, &again));
    cf_true("version_same", version == again);
    OK("id", cuCtxGetId(c, &id));
    OK("id_minus_one", cuCtxGetId(all_ones, &same));
    cf_true("id_same", id == same);
    OK("none", cuCtxSetCurrent(NULL));
    RC("without_current", cuCtxGetApiVersion(all_ones, &again), CUDA_ERROR_INVALID_CONTEXT);
    OK("back", cuCtxSetCurrent(c));
}

typedef CUresult(CUDAAPI *create_v2)(CUcontext *, unsigned, CUdevice);
typedef CUresult(CUDAAPI *create_v3)(CUcontext *, CUexecAffinityParam *, int, unsigned, CUdevice);
typedef CUresult(CUDAAPI *create_v4)(CUcontext *, CUctxCreateParams *, unsigned, CUdevice);

/* cuCtxCreate has three signatures; the requested version selects one. */
CASE(trap_context_create_shapes, CF_CTX)
{
    void *f[3] = {0};
    CUcontext c[3] = {0};
    CUctxCreateParams none;
    unsigned flags = 0;

    memset(&none, 0, sizeof(none));
    OK("of_3020", cuGetProcAddress_v2("cuCtxCreate", &f[0], 3020, 0, NULL));
    OK("of_11040", cuGetProcAddress_v2("cuCtxCreate", &f[1], 11040, 0, NULL));
    OK("of_13000", cuGetProcAddress_v2("cuCtxCreate", &f[2], 13000, 0, NULL));
    OK("v2", ((create_v2)f[0])(&c[0], CU_CTX_SCHED_BLOCKING_SYNC, 0));
    OK("v2_flags", cuCtxGetFlags(&flags));
    cf_u64("v2_scheduling", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
    OK("v3", ((create_v3)f[1])(&c[1], NULL, 0, CU_CTX_SCHED_YIELD, 0));
    OK("v3_flags", cuCtxGetFlags(&flags));
    cf_u64("v3_scheduling", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_YIELD);
    OK("v4", ((create_v4)f[2])(&c[2], &none, CU_CTX_SCHED_SPIN, 0));
    OK("v4_flags", cuCtxGetFlags(&flags));
    cf_u64("v4_scheduling", flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_SPIN);
    for (int i = 2; i >= 0; i--)
        OK("destroy", cuCtxDestroy(c[i]));
}

static void *late_context(void *arg)
{
    CUcontext now = (CUcontext)1;
    uintptr_t bad = 0;
    CUdeviceptr p;

    bad |= (uintptr_t)(cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != NULL) << 0;
    bad |= (uintptr_t)(cuMemAlloc(&p, 64) != CUDA_ERROR_INVALID_CONTEXT) << 1;
    bad |= (uintptr_t)(cuCtxSetCurrent(arg) != CUDA_SUCCESS) << 2;
    bad |= (uintptr_t)(cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != arg) << 3;
    bad |= (uintptr_t)(cuMemAlloc(&p, 64) != CUDA_SUCCESS || cuMemFree(p) != CUDA_SUCCESS) << 4;
    bad |= (uintptr_t)(cuCtxSetCurrent(NULL) != CUDA_SUCCESS) << 5;
    bad |= (uintptr_t)(cuCtxGetCurrent(&now) != CUDA_SUCCESS || now != NULL) << 6;
    return (void *)bad;
}

/* The absence of a current context is not cached. */
CASE(trap_no_context_is_not_kept, CF_CTX)
{
    CUcontext c;
    pthread_t t;
    void *bad;

    NEED(cuCtxGetCurrent(&c));
    cf_need_true("thread", pthread_create(&t, NULL, late_context, c) == 0);
    pthread_join(t, &bad);
    cf_u64("bad", (uintptr_t)bad, 0);
}

#define PTX_HEAD ".version 7.0\n.target sm_75\n.address_size 64\n"
/* One name, three layouts: cached data of a function ends with its module. */
static const char *const layouts[] = {
    PTX_HEAD ".visible .entry k_same(.param .u64 p, .param .u32 v)\n{\n"
             "    .reg .b32 %r<2>; .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [p];\n"
             "    ld.param.u32 %r1, [v];\n    st.global.u32 [%rd1], %r1;\n    ret;\n}\n",
    PTX_HEAD ".visible .entry k_same(.param .u32 v, .param .u64 p)\n{\n"
             "    .reg .b32 %r<2>; .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [p];\n"
             "    ld.param.u32 %r1, [v];\n    st.global.u32 [%rd1], %r1;\n    ret;\n}\n",
    PTX_HEAD ".visible .entry k_same(.param .align 8 .b8 pad[24], .param .u32 v, .param .u64 p)\n{\n"
             "    .reg .b32 %r<2>; .reg .b64 %rd<2>;\n    ld.param.u64 %rd1, [p];\n"
             "    ld.param.u32 %r1, [v];\n    st.global.u32 [%rd1], %r1;\n    ret;\n}\n",
};

CASE(trap_layout_ends_with_module, CF_CTX)
{
    CUdeviceptr p = 0;
    bool ok = true;

    NEED(cuMemAlloc(&p, 4));
    for (unsigned i = 0; i < 30; i++) {
        uint32_t v = 100 + i, back = 0;
        uint64_t pad[3] = {0};
        void *shapes[3][3] = {{&p, &v, NULL}, {&v, &p, NULL}, {pad, &v, &p}};
        CUmodule m;
        CUfunction f;

        NEED(cuModuleLoadData(&m, layouts[i % 3]));
        NEED(cuModuleGetFunction(&f, m, "k_same"));
        ok &= cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, shapes[i % 3], NULL) == CUDA_SUCCESS &&
              cuMemcpyDtoH(&back, p, 4) == CUDA_SUCCESS && back == v;
        NEED(cuModuleUnload(m));
    }
    cf_true("each_time_its_own", ok);
    OK("free", cuMemFree(p));
}

/* Like a program with many source files: many libraries, each used first after all are loaded. */
CASE(trap_many_libraries, CF_CTX)
{
    CUlibrary l[64];
    CUdeviceptr p = 0;
    bool ok = true;

    NEED(cuMemAlloc(&p, 4));
    for (unsigned i = 0; i < 64; i++)
        NEED(cuLibraryLoadData(&l[i], layouts[i % 3], NULL, NULL, 0, NULL, NULL, 0));
    for (unsigned i = 64; i-- > 0;) {
        uint32_t v = 7 * i, back = 0;
        uint64_t pad[3] = {0};
        void *shapes[3][3] = {{&p, &v, NULL}, {&v, &p, NULL}, {pad, &v, &p}};
        CUkernel k;

        ok &= cuLibraryGetKernel(&k, l[i], "k_same") == CUDA_SUCCESS &&
              cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, shapes[i % 3], NULL) == CUDA_SUCCESS &&
              cuMemcpyDtoH(&back, p, 4) == CUDA_SUCCESS && back == v;
    }
    cf_true("all_right", ok);
    for (unsigned i = 0; i < 64; i++)
        NEED(cuLibraryUnload(l[i]));
    OK("free", cuMemFree(p));
}

/* Copies to the host on the default stream, with events before and after them. */
CASE(trap_copies_and_events_in_order, CF_CTX)
{
    enum { N = 1000, ROUNDS = 20 };
    static uint32_t pageable[ROUNDS][N];
    uint32_t *pinned = NULL;
    CUdeviceptr p = 0;
    CUevent before, behind;
    bool ok = true;

    NEED(cuMemAlloc(&p, N * 4));
    NEED(cuMemHostAlloc((void **)&pinned, (size_t)ROUNDS * N * 4, 0));
    NEED(cuEventCreate(&before, 0));
    NEED(cuEventCreate(&behind, CU_EVENT_DISABLE_TIMING));
    for (unsigned i = 0; i < ROUNDS; i++) {
        NEED(cuEventRecord(before, NULL));
        NEED(cf_fill(p, N, 1000 * i, NULL));
        NEED(cuMemcpyDtoHAsync(pinned + i * N, p, N * 4, NULL));
        NEED(cuMemcpyDtoHAsync(pageable[i], p, N * 4, NULL));
        NEED(cuEventRecord(behind, NULL));
        NEED(cuMemsetD8Async(p, 0xee, N * 4, NULL)); /* must not be visible to earlier copies */
    }
    OK("wait", cuEventSynchronize(behind));
    for (unsigned i = 0; i < ROUNDS; i++)
        for (unsigned k = 0; k < N; k++)
            ok &= pinned[i * N + k] == 1000 * i + k && pageable[i][k] == 1000 * i + k;
    cf_true("all_in_order", ok);
    OK("before_is_over", cuEventQuery(before));
    OK("destroy", cuEventDestroy(before));
    OK("destroy_2", cuEventDestroy(behind));
    OK("free_host", cuMemFreeHost(pinned));
    OK("free", cuMemFree(p));
}

/* Waiting for a stream neither completes nor loses copies of another stream. */
CASE(trap_copies_of_two_streams, CF_CTX)
{
    enum { N = 1 << 20 }; /* words, 4 MiB per copy */
    CUstream s[4];
    CUdeviceptr d[4];
    uint32_t *h[4];
    bool ok = true;

    for (unsigned i = 0; i < 4; i++) {
        NEED(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
        NEED(cuMemAlloc(&d[i], N * 4));
        NEED(cuMemHostAlloc((void **)&h[i], N * 4, 0));
    }
    /*
     * A GPU may have a single queue for all copies in a direction: the second would wait for the
     * first.
     */
    struct cf_gate *g = cf_real() ? NULL : cf_gate_put(s[0]);
    for (unsigned i = 0; i < 4; i++) {
        memset(h[i], 0x55, N * 4);
        NEED(cf_fill(d[i], N, i << 24, s[i]));
        NEED(cuMemcpyDtoHAsync(h[i], d[i], N * 4, s[i]));
    }
    OK("second", cuStreamSynchronize(s[1]));
    for (unsigned k = 0; k < N; k++)
        ok &= h[1][k] == (1u << 24) + k;
    cf_true("second_is_there", ok);
    if (g) {
        cf_true("first_is_not", h[0][0] == 0x55555555 && h[0][N - 1] == 0x55555555);
        RC("first_waits", cuStreamQuery(s[0]), CUDA_ERROR_NOT_READY);
        cf_gate_open(g);
    }
    for (unsigned i = 0; i < 4; i++) {
        ok &= cuStreamSynchronize(s[i]) == CUDA_SUCCESS;
        for (unsigned k = 0; k < N; k++)
            ok &= h[i][k] == (i << 24) + k;
    }
    cf_true("all_are_there", ok);
    for (unsigned i = 0; i < 4; i++) {
        NEED(cuStreamDestroy(s[i]));
        NEED(cuMemFree(d[i]));
        NEED(cuMemFreeHost(h[i]));
    }
}

/* A new event has no state, even if it reuses the slot of an event destroyed with work pending. */
CASE(trap_destroyed_event, CF_CTX)
{
    CUstream s;
    CUevent old, e;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    struct cf_gate *g = cf_gate_put(s);
    for (unsigned i = 0; i < 200; i++) {
        NEED(cuEventCreate(&old, CU_EVENT_DISABLE_TIMING));
        NEED(cuEventRecord(old, s));
        if (cuEventQuery(old) != CUDA_ERROR_NOT_READY)
            RC("recorded", cuEventQuery(old), CUDA_ERROR_NOT_READY);
        NEED(cuEventDestroy(old));
    }
    NEED(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK("never_recorded", cuEventQuery(e));
    OK("never_recorded_wait", cuEventSynchronize(e));
    cf_gate_open(g);
    OK("sync", cuStreamSynchronize(s));
    OK("destroy", cuEventDestroy(e));
    NEED(cuStreamDestroy(s));
}

/* Refused copies release their resources: many of them have no effect. */
CASE(trap_refused_copies_leave_nothing, CF_CTX)
{
    enum { BYTES = 1 << 20 };
    unsigned char *h = malloc(BYTES);
    CUdeviceptr p = 0, gone = 0;
    unsigned refused = 0;

    cf_need_true("malloc", h != NULL);
    NEED(cuMemAlloc(&p, BYTES));
    NEED(cuMemAlloc(&gone, BYTES));
    NEED(cuMemFree(gone));
    cf_pattern(h, BYTES, 3);
    for (unsigned i = 0; i < 300; i++)
        refused += cuMemcpyHtoDAsync(p + 1, h, BYTES, NULL) == CUDA_ERROR_INVALID_VALUE;
    cf_u64("too_long", refused, 300);
    OK("copy", cuMemcpyHtoDAsync(p, h, BYTES, NULL));
    memset(h, 0, BYTES); /* pageable memory was read when the call returned */
    OK("back", cuMemcpyDtoH(h, p, BYTES));
    cf_true("right", cf_is_pattern(h, BYTES, 3));
    free(h);
    OK("free", cuMemFree(p));
}

static void count(void *user)
{
    __atomic_add_fetch((int *)user, 1, __ATOMIC_SEQ_CST);
}

/* Host functions are distinguished by their calls, not by function and argument. */
CASE(trap_same_user_data, CF_CTX)
{
    CUstream s[3];
    int called = 0;

    for (unsigned i = 0; i < 3; i++)
        NEED(cuStreamCreate(&s[i], CU_STREAM_NON_BLOCKING));
    for (unsigned k = 0; k < 50; k++)
        for (unsigned i = 0; i < 3; i++)
            NEED(cuLaunchHostFunc(s[i], count, &called));
    for (unsigned i = 0; i < 3; i++)
        NEED(cuStreamSynchronize(s[i]));
    cf_u64("called", (unsigned)called, 150);
    for (unsigned i = 0; i < 3; i++)
        NEED(cuStreamDestroy(s[i]));
}

/* Registering part of a page pins exactly those bytes, and none beside them. */
CASE(trap_register_part_of_pages, CF_CTX)
{
    unsigned char *h = mmap(NULL, 8 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *part = h + 100;
    size_t bytes = 3 * 4096 + 17;
    CUdeviceptr d = 0, on_device = 0;
    unsigned type = 0;

    cf_need_true("mmap", h != MAP_FAILED);
    NEED(cuMemAlloc(&d, bytes));
    cf_pattern(h, 8 * 4096, 11);
    OK("register", cuMemHostRegister(part, bytes, 0));
    OK("first", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, (CUdeviceptr)(uintptr_t)part));
    cf_u64("first_type", type, CU_MEMORYTYPE_HOST);
    OK("last", cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                     (CUdeviceptr)(uintptr_t)(part + bytes - 1)));
    CUresult r = cuMemHostGetDevicePointer(&on_device, part, 0);
    cf_true("device_pointer", r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_SUPPORTED); /* see run.sh */
    RC("again", cuMemHostRegister(part, bytes, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    RC("inside", cuMemHostRegister(part + 4096, 64, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK("up", cuMemcpyHtoDAsync(d, part, bytes, NULL));
    OK("sync", cuCtxSynchronize());
    memset(part, 0, bytes);
    OK("down", cuMemcpyDtoHAsync(part, d, bytes, NULL));
    OK("sync_2", cuCtxSynchronize());
    cf_true("right", cf_is_pattern(h, 8 * 4096, 11)); /* including the bytes around it */
    OK("unregister", cuMemHostUnregister(part));
    RC("unregister_again", cuMemHostUnregister(part), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    munmap(h, 8 * 4096);
    OK("free", cuMemFree(d));
}

struct list {
    struct list *next;
    uint32_t value;
};

/* Pointers in managed memory to managed memory are valid on both sides. */
CASE(trap_managed_pointers, CF_CTX)
{
    CUdeviceptr out = 0, first = 0;
    struct list *l[10];
    uint32_t sum = 0;
    void *params[] = {&first, &out};

    for (unsigned i = 0; i < 10; i++) {
        CUdeviceptr p = 0;

        NEED(cuMemAllocManaged(&p, sizeof(struct list), CU_MEM_ATTACH_GLOBAL));
        l[i] = (struct list *)(uintptr_t)p;
        l[i]->value = 1u << i;
        l[i]->next = i == 0 ? NULL : l[i - 1];
    }
    first = (CUdeviceptr)(uintptr_t)l[9];
    NEED(cuMemAlloc(&out, 4));
    OK("launch", cf_launch(cf_func("k_list"), 1, 1, 0, NULL, params));
    OK("sync", cuCtxSynchronize());
    OK("copy", cuMemcpyDtoH(&sum, out, 4));
    cf_u64("sum", sum, 1023);
    cf_u64("each_doubled", l[3]->value, 16);
    for (unsigned i = 0; i < 10; i++)
        NEED(cuMemFree((CUdeviceptr)(uintptr_t)l[i]));
    OK("free", cuMemFree(out));
}

static void *link_and_drop(void *arg)
{
    uintptr_t bad = 0;

    if (cuCtxSetCurrent(arg) != CUDA_SUCCESS)
        return (void *)1000;
    for (unsigned i = 0; i < 20; i++) {
        CUlinkState s;
        CUmodule m;
        void *image;
        size_t size;

        bad += cuLinkCreate(0, NULL, NULL, &s) != CUDA_SUCCESS;
        bad += cuLinkAddData(s, CU_JIT_INPUT_PTX, (void *)(uintptr_t)layouts[i % 3],
                             strlen(layouts[i % 3]) + 1, "k", 0, NULL, NULL) != CUDA_SUCCESS;
        if (i % 2 == 0)
            bad += cuLinkComplete(s, &image, &size) != CUDA_SUCCESS ||
                   cuModuleLoadData(&m, image) != CUDA_SUCCESS || cuModuleUnload(m) != CUDA_SUCCESS;
        bad += cuLinkDestroy(s) != CUDA_SUCCESS;
    }
    return (void *)bad;
}

/* Links of several threads begin and end concurrently. */
CASE(trap_links_of_threads, CF_CTX)
{
    pthread_t t[4];
    CUcontext c;
    uintptr_t bad = 0;

    NEED(cuCtxGetCurrent(&c));
    for (unsigned i = 0; i < 4; i++)
        cf_need_true("thread", pthread_create(&t[i], NULL, link_and_drop, c) == 0);
    for (unsigned i = 0; i < 4; i++) {
        void *r;

        pthread_join(t[i], &r);
        bad += (uintptr_t)r;
    }
    cf_u64("bad", bad, 0);
}

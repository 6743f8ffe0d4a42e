// SPDX-License-Identifier: MIT
/*
 * Volume and variety: full rings, large images, many objects, pools, 3D copies, per-thread
 * variants.
 */
#include "conform.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

/* More launches than any ring or queue holds; each runs exactly once. */
CASE(launch_many, CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned n = 32, one = 1, bad = 0;
    void *params[] = {&p, &n, &one};
    CUfunction add = cf_func("k_add");
    uint32_t h[32];

    NEED(cuMemAlloc(&p, 128));
    NEED(cuMemsetD8(p, 0, 128));
    for (int i = 0; i < 20000; i++)
        bad += cf_launch(add, 1, 32, 0, NULL, params) != CUDA_SUCCESS;
    cf_u64("refused", bad, 0);
    OK("read", cuMemcpyDtoH(h, p, 128));
    cf_u64("first", h[0], 20000);
    cf_u64("last", h[31], 20000);
    OK("free", cuMemFree(p));
}

/* Records of all sizes in turn, so that every way to reach the end of a ring occurs. */
CASE(launch_sizes, CF_CTX)
{
    CUdeviceptr p = 0, back = 0;
    unsigned char src[600], h[600];
    unsigned bad = 0;

    NEED(cuMemAlloc(&p, 600));
    NEED(cuMemAlloc(&back, 600));
    for (unsigned i = 1; i < 600; i++) {
        cf_pattern(src, i, i);
        bad += cuMemcpyHtoDAsync(p, src, i, NULL) != CUDA_SUCCESS;
        bad += cuMemcpyDtoDAsync(back, p, i, NULL) != CUDA_SUCCESS;
        bad += cuMemcpyDtoH(h, back, i) != CUDA_SUCCESS;
        bad += !cf_is_pattern(h, i, i);
    }
    cf_u64("bad", bad, 0);
    OK("free", cuMemFree(p));
    OK("free_2", cuMemFree(back));
}

CASE(stream_many, CF_CTX)
{
    enum { N = 100 };
    static CUstream s[N];
    CUevent e[N];
    CUdeviceptr p = 0;
    unsigned bad = 0;

    NEED(cuMemAlloc(&p, N * 256));
    for (unsigned i = 0; i < N; i++) {
        bad += cuStreamCreate(&s[i], i & 1) != CUDA_SUCCESS;
        bad += cuEventCreate(&e[i], 0) != CUDA_SUCCESS;
    }
    for (unsigned i = 0; i < N; i++) {
        bad += cf_fill(p + i * 256, 64, i * 100, s[i]) != CUDA_SUCCESS;
        bad += cuEventRecord(e[i], s[i]) != CUDA_SUCCESS;
    }
    for (unsigned i = N; i-- > 0;)
        bad += cuEventSynchronize(e[i]) != CUDA_SUCCESS || !cf_filled(p + i * 256, 64, i * 100);
    for (unsigned i = 0; i < N; i++)
        bad += cuStreamDestroy(s[i]) != CUDA_SUCCESS || cuEventDestroy(e[i]) != CUDA_SUCCESS;
    cf_u64("bad", bad, 0);
    OK("free", cuMemFree(p));
}

/* An image far larger than a record: the same kernels after three megabytes of comment. */
CASE(module_large, CF_CTX)
{
    size_t comment = 3u << 20, n = strlen(cf_ptx);
    char *text = malloc(comment + n + 1);
    CUmodule m = NULL;
    CUfunction f = NULL;
    CUdeviceptr p = 0;
    unsigned count = 100, v = 4;
    void *params[] = {&p, &count, &v};

    cf_need_true("memory", text != NULL);
    memset(text, 'x', comment);
    for (size_t i = 0; i < comment; i += 64)
        memcpy(text + i, "//", 2), text[i + 63] = '\n';
    memcpy(text + comment, cf_ptx, n + 1);
    OK("load", cuModuleLoadData(&m, text));
    memset(text, 0, comment + n);
    free(text);
    OK("function", cuModuleGetFunction(&f, m, "k_fill"));
    NEED(cuMemAlloc(&p, 400));
    OK("launch", cf_launch(f, 1, 128, 0, NULL, params));
    cf_true("result", cf_filled(p, 100, 4));
    OK("unload", cuModuleUnload(m));
    OK("free", cuMemFree(p));
}

static void *synchroniser(void *arg)
{
    void **a = arg;
    cuCtxSetCurrent(a[0]);
    return (void *)(uintptr_t)cuStreamSynchronize(a[1]);
}

/* A waiting thread does not block the others. */
CASE(threads_blocked, CF_CTX)
{
    if (cf_real())
        cf_skip("a GPU's own driver waits for no stream while a thread waits behind a host function");
    CUcontext c = NULL;
    CUstream s = NULL, other = NULL;
    CUdeviceptr p = 0;
    pthread_t t;
    void *r = NULL;

    NEED(cuCtxGetCurrent(&c));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 4096));
    struct cf_gate *g = cf_gate_put(s);
    void *args[] = {c, s};
    cf_need_true("thread", !pthread_create(&t, NULL, synchroniser, args));
    usleep(20000);
    OK("launch", cf_fill(p, 1000, 1, other));
    OK("sync_other", cuStreamSynchronize(other));
    cf_true("copy", cf_filled(p, 1000, 1));
    OK("memset", cuMemsetD8Async(p, 0, 64, other));
    OK("sync_again", cuStreamSynchronize(other));
    RC("first_still_waits", cuStreamQuery(s), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    pthread_join(t, &r);
    OK("woken", (CUresult)(uintptr_t)r);
    OK("destroy", cuStreamDestroy(s));
    OK("destroy_2", cuStreamDestroy(other));
    OK("free", cuMemFree(p));
}

typedef CUresult(CUDAAPI *launch_fn)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                     unsigned, CUstream, void **, void **);
typedef CUresult(CUDAAPI *query_fn)(CUstream);
typedef CUresult(CUDAAPI *dtoh_fn)(void *, CUdeviceptr, size_t);

/* The variants of `--default-stream per-thread`: stream 0 means the thread's own stream. */
CASE(per_thread_forms, CF_CTX)
{
    void *launch = NULL, *query = NULL, *dtoh = NULL;
    CUdeviceptr p = 0;
    unsigned n = 64, v = 5;
    uint32_t h[64];
    void *params[] = {&p, &n, &v};
    CUfunction fill = cf_func("k_fill");

    OK("launch_form", cuGetProcAddress_v2("cuLaunchKernel", &launch, 13000, 2, NULL));
    OK("query_form", cuGetProcAddress_v2("cuStreamQuery", &query, 13000, 2, NULL));
    OK("copy_form", cuGetProcAddress_v2("cuMemcpyDtoH", &dtoh, 13000, 2, NULL));
    cf_need_true("forms", launch && query && dtoh);
    NEED(cuMemAlloc(&p, 256));
    struct cf_gate *g = cf_gate_put(CU_STREAM_PER_THREAD);
    OK("launch", ((launch_fn)launch)(fill, 1, 1, 1, 64, 1, 1, 0, NULL, params, NULL));
    RC("own_stream_busy", ((query_fn)query)(NULL), CUDA_ERROR_NOT_READY);
    cf_gate_open(g);
    OK("copy", ((dtoh_fn)dtoh)(h, p, 256));
    cf_true("result", h[0] == 5 && h[63] == 68);
    OK("own_stream_idle", ((query_fn)query)(NULL));
    OK("free", cuMemFree(p));
}

static void *per_thread_form(const char *name)
{
    void *form = NULL;

    cf_need_true(name, cuGetProcAddress_v2(name, &form, 13000, 2, NULL) == CUDA_SUCCESS && form);
    return form;
}

typedef CUresult(CUDAAPI *set8_fn)(CUdeviceptr, unsigned char, size_t, CUstream);
typedef CUresult(CUDAAPI *set16_fn)(CUdeviceptr, unsigned short, size_t, CUstream);
typedef CUresult(CUDAAPI *set32_fn)(CUdeviceptr, unsigned, size_t, CUstream);
typedef CUresult(CUDAAPI *set8_2d_fn)(CUdeviceptr, size_t, unsigned char, size_t, size_t, CUstream);
typedef CUresult(CUDAAPI *set16_2d_fn)(CUdeviceptr, size_t, unsigned short, size_t, size_t, CUstream);
typedef CUresult(CUDAAPI *set32_2d_fn)(CUdeviceptr, size_t, unsigned, size_t, size_t, CUstream);
typedef CUresult(CUDAAPI *id_fn)(CUstream, unsigned long long *);

/* Calls without state of their own in the library: stream 0 of their variants is captured as the thread's own. */
CASE(per_thread_streams, CF_CTX)
{
    CUdeviceptr p = 0;
    CUgraph g = NULL;
    size_t n = 0;
    unsigned long long id = 0, own = 0, legacy = 0;

    NEED(cuMemAlloc(&p, 256));
    NEED(cuStreamBeginCapture(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK("d8", ((set8_fn)per_thread_form("cuMemsetD8Async"))(p, 1, 16, NULL));
    OK("d16", ((set16_fn)per_thread_form("cuMemsetD16Async"))(p, 2, 16, NULL));
    OK("d32", ((set32_fn)per_thread_form("cuMemsetD32Async"))(p, 3, 16, NULL));
    OK("d2d8", ((set8_2d_fn)per_thread_form("cuMemsetD2D8Async"))(p, 64, 4, 16, 2, NULL));
    OK("d2d16", ((set16_2d_fn)per_thread_form("cuMemsetD2D16Async"))(p, 64, 5, 16, 2, NULL));
    OK("d2d32", ((set32_2d_fn)per_thread_form("cuMemsetD2D32Async"))(p, 64, 6, 16, 2, NULL));
    OK("end", cuStreamEndCapture(CU_STREAM_PER_THREAD, &g));
    OK("nodes", cuGraphGetNodes(g, NULL, &n));
    cf_true("captured", n == 6);
    OK("destroy", cuGraphDestroy(g));
    OK("id", ((id_fn)per_thread_form("cuStreamGetId"))(NULL, &id));
    OK("id_own", cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    OK("id_legacy", cuStreamGetId(NULL, &legacy));
    cf_true("id_of_the_thread", id == own && id != legacy);
    OK("free", cuMemFree(p));
}

CASE(mem_pool, CF_CTX)
{
    CUstream s = NULL;
    CUdeviceptr p = 0, q = 0;

    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    OK("alloc", cuMemAllocAsync(&p, 4000, s));
    OK("fill", cf_fill(p, 1000, 3, s));
    OK("alloc_2", cuMemAllocAsync(&q, 1 << 20, s));
    cf_true("apart", q >= p + 4000 || p >= q + (1 << 20));
    OK("sync", cuStreamSynchronize(s));
    cf_true("result", cf_filled(p, 1000, 3));
    OK("free", cuMemFreeAsync(p, s));
    OK("free_2", cuMemFreeAsync(q, s));
    OK("sync_2", cuStreamSynchronize(s));
    p = 0;
    OK("zero", cuMemAllocAsync(&p, 0, s)); /* documented to be refused (driver 580) */
    OK("zero_free", cuMemFreeAsync(p, s));
    RC("too_much", cuMemAllocAsync(&p, (size_t)1 << 50, s), CUDA_ERROR_OUT_OF_MEMORY);
    OK("destroy", cuStreamDestroy(s));
}

CASE(mem_managed, CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned managed = 0;

    OK("alloc", cuMemAllocManaged(&p, 4096, CU_MEM_ATTACH_GLOBAL));
    cf_need_true("pointer", p != 0);
    uint32_t *h = (uint32_t *)(uintptr_t)p;
    for (unsigned i = 0; i < 1024; i++)
        h[i] = i;
    unsigned n = 1024, v = 7;
    void *params[] = {&p, &n, &v};
    OK("launch", cf_launch(cf_func("k_add"), 8, 128, 0, NULL, params));
    OK("sync", cuCtxSynchronize());
    cf_true("result", h[0] == 7 && h[1023] == 1030);
    OK("attribute", cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, p));
    cf_u64("attribute_value", managed & 1, 1);
    RC("flags", cuMemAllocManaged(&p, 4096, 0x77), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree((CUdeviceptr)(uintptr_t)h));
}

CASE(copy_3d, CF_CTX)
{
    enum { W = 40, H = 6, D = 5, HP = 50, HH = 8, DP = 64, DH = 7 };
    static unsigned char a[HP * HH * D], b[HP * HH * D];
    CUdeviceptr p = 0;
    bool ok = true;
    CUDA_MEMCPY3D c = {
        .srcMemoryType = CU_MEMORYTYPE_HOST,
        .srcHost = a,
        .srcPitch = HP,
        .srcHeight = HH,
        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
        .dstPitch = DP,
        .dstHeight = DH,
        .WidthInBytes = W,
        .Height = H,
        .Depth = D,
    };

    NEED(cuMemAlloc(&p, DP * DH * D));
    cf_pattern(a, sizeof(a), 8);
    memset(b, 0xee, sizeof(b));
    c.dstDevice = p;
    OK("to_device", cuMemcpy3D(&c));
    CUDA_MEMCPY3D r = {
        .srcMemoryType = CU_MEMORYTYPE_DEVICE,
        .srcDevice = p,
        .srcPitch = DP,
        .srcHeight = DH,
        .dstMemoryType = CU_MEMORYTYPE_HOST,
        .dstHost = b,
        .dstPitch = HP,
        .dstHeight = HH,
        .WidthInBytes = W,
        .Height = H,
        .Depth = D,
    };
    OK("to_host", cuMemcpy3D(&r));
    for (unsigned z = 0; z < D; z++)
        for (unsigned y = 0; y < HH; y++)
            for (unsigned x = 0; x < HP; x++) {
                size_t i = (z * HH + y) * HP + x;
                ok &= b[i] == (x < W && y < H ? a[i] : 0xee);
            }
    cf_true("content", ok);
    OK("free", cuMemFree(p));
}

CASE(ctx_create, CF_ALONE)
{
    CUcontext c = NULL, d = NULL, prim = NULL;
    CUdeviceptr p = 0;
    unsigned version = 0;

    NEED(cuInit(0));
    OK("create", cuCtxCreate(&c, NULL, CU_CTX_SCHED_AUTO, 0));
    OK("current", cuCtxGetCurrent(&d));
    cf_true("is_current", c && c == d);
    OK("version", cuCtxGetApiVersion(c, &version));
    OK("alloc", cuMemAlloc(&p, 4096));
    OK("set", cuMemsetD8(p, 1, 4096));
    OK("retain", cuDevicePrimaryCtxRetain(&prim, 0));
    cf_true("apart", prim != c);
    OK("destroy", cuCtxDestroy(c));
    OK("current_2", cuCtxGetCurrent(&d));
    cf_true("popped", d == NULL);
    RC("alloc_2", cuMemAlloc(&p, 4096), CUDA_ERROR_INVALID_CONTEXT);
    OK("set_primary", cuCtxSetCurrent(prim));
    OK("alloc_3", cuMemAlloc(&p, 4096));
    RC_IN("destroy_primary", cuCtxDestroy(prim), CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) {
        RC_IN("destroy_twice", cuCtxDestroy(c), CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE);
        RC_IN("set_destroyed", cuCtxSetCurrent(c), CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_INVALID_VALUE,
              CUDA_ERROR_CONTEXT_IS_DESTROYED);
    }
    RC("create_device", cuCtxCreate(&c, NULL, 0, 77), CUDA_ERROR_INVALID_DEVICE);
    RC("create_flags", cuCtxCreate(&c, NULL, 0x1000000, 0), CUDA_ERROR_INVALID_VALUE);
    RC("create_null", cuCtxCreate(NULL, NULL, 0, 0), CUDA_ERROR_INVALID_VALUE);
}

static atomic_uint callback_n;
static CUresult callback_status = CUDA_ERROR_UNKNOWN;

static void CUDA_CB callback(CUstream s, CUresult status, void *p)
{
    (void)s;
    callback_status = status;
    atomic_fetch_add(&callback_n, (unsigned)(uintptr_t)p);
}

CASE(stream_callback, CF_CTX)
{
    CUstream s = NULL;

    NEED(cuStreamCreate(&s, 0));
    callback_n = 0;
    OK("add", cuStreamAddCallback(s, callback, (void *)3, 0));
    OK("add_2", cuStreamAddCallback(s, callback, (void *)4, 0));
    OK("sync", cuStreamSynchronize(s));
    cf_u64("called", callback_n, 7);
    OK("status", callback_status);
    RC("flags", cuStreamAddCallback(s, callback, NULL, 1), CUDA_ERROR_INVALID_VALUE);
    RC("null", cuStreamAddCallback(s, NULL, NULL, 0), CUDA_ERROR_INVALID_VALUE);
    OK("destroy", cuStreamDestroy(s));
}

/* Much text from the device: complete, in the order of the launches. */
CASE(device_printf_many, CF_CTX)
{
    FILE *f = tmpfile();
    CUfunction k = cf_func("k_print");
    int v = 0, saved;
    void *params[] = {&v};
    unsigned lines = 0, wrong = 0, bad = 0;
    char text[256], want[64];

    cf_need_true("tmpfile", f != NULL);
    fflush(stdout);
    saved = dup(1);
    dup2(fileno(f), 1);
    for (v = 0; v < 500; v++)
        bad += cf_launch(k, 1, 8, 0, NULL, params) != CUDA_SUCCESS;
    CUresult sync = cuCtxSynchronize();
    fflush(stdout);
    dup2(saved, 1);
    close(saved);
    rewind(f);
    while (fgets(text, sizeof(text), f)) {
        snprintf(want, sizeof(want), "thread %u: %u 0xff text", lines % 8, lines / 8);
        wrong += strncmp(text, want, strlen(want)) != 0;
        lines++;
    }
    fclose(f);
    OK("sync", sync);
    cf_u64("refused", bad, 0);
    cf_u64("lines", lines, 4000);
    cf_u64("wrong", wrong, 0);
}

// SPDX-License-Identifier: MIT
/* Launches: immediate refusals, and all ways to pass parameters. */
#include "conform.h"

#include <math.h>

CASE(launch_limits, CF_CTX)
{
    CUfunction nop = cf_func("k_nop"), rev = cf_func("k_reverse"), red = cf_func("k_reduce");
    int block_shared = 0, optin = 0, grid_x = 0;
    CUdeviceptr p = 0;
    unsigned n = 8;
    void *params[] = {&p, &n};

    NEED(cuDeviceGetAttribute(&block_shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 0));
    NEED(cuDeviceGetAttribute(&optin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    NEED(cuDeviceGetAttribute(&grid_x, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 0));
    cf_u64("grid_x_limit", (uint64_t)grid_x, 2147483647);
    NEED(cuMemAlloc(&p, 4096));
#define L(gx, gy, gz, bx, by, bz) cuLaunchKernel(nop, gx, gy, gz, bx, by, bz, 0, NULL, NULL, NULL)
    OK("good", L(1, 1, 1, 1, 1, 1));
    OK("good_1024", L(1, 1, 1, 1024, 1, 1));
    OK("good_3d", L(2, 3, 4, 8, 8, 16));
    RC("grid_x_zero", L(0, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_y_zero", L(1, 0, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_z_zero", L(1, 1, 0, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_x_zero", L(1, 1, 1, 0, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_y_zero", L(1, 1, 1, 1, 0, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_z_zero", L(1, 1, 1, 1, 1, 0), CUDA_ERROR_INVALID_VALUE);
    RC("block_1025", L(1, 1, 1, 1025, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_product", L(1, 1, 1, 64, 32, 1), CUDA_ERROR_INVALID_VALUE);
    RC("block_z_65", L(1, 1, 1, 1, 1, 65), CUDA_ERROR_INVALID_VALUE);
    RC("block_wraps", L(1, 1, 1, 65536, 65536, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_y_65536", L(1, 65536, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_z_65536", L(1, 1, 65536, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
    RC("grid_x_past", L(0x80000000u, 1, 1, 1, 1, 1), CUDA_ERROR_INVALID_VALUE);
#undef L
    OK("shared_max", cf_launch(rev, 1, 32, (unsigned)block_shared, NULL, params));
    RC("shared_past", cf_launch(rev, 1, 32, (unsigned)block_shared + 4, NULL, params),
       CUDA_ERROR_INVALID_VALUE);
    RC("shared_static_counts", cf_launch(red, 1, 256, (unsigned)block_shared - 1020, NULL, params),
       CUDA_ERROR_INVALID_VALUE);
    NEED(cuFuncSetAttribute(rev, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, optin));
    OK("shared_optin", cf_launch(rev, 1, 32, (unsigned)optin, NULL, params));
    RC("shared_optin_past", cf_launch(rev, 1, 32, (unsigned)optin + 4, NULL, params),
       CUDA_ERROR_INVALID_VALUE);
    RC("function_null", cf_launch(NULL, 1, 1, 0, NULL, NULL), CUDA_ERROR_INVALID_HANDLE);
    OK("nothing_broke", cuCtxSynchronize());
    NEED(cuMemFree(p));
}

/* Result of a launch for each attribute, off and on; the number after the last is no attribute. */
CASE(launch_attribute_each, CF_CTX)
{
    CUlaunchAttribute a;
    CUlaunchConfig c = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1};
    char name[32];

    c.blockDimZ = 1;
    c.attrs = &a;
    c.numAttrs = 1;
    for (unsigned on = 0; on < 2; on++) {
        for (unsigned id = 0; id < 18; id++) {
            CUresult want = CUDA_SUCCESS;

            if (id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION || id == 11) /* see effects.c */
                continue;
            if (id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == 15 || id > 16)
                want = CUDA_ERROR_INVALID_VALUE; /* for streams only, and invalid */
            if (id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ||
                id == CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT)
                want = CUDA_ERROR_INVALID_HANDLE; /* invalid event */
            if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE && on)
                want = CUDA_ERROR_NOT_SUPPORTED;
            memset(&a, 0, sizeof(a));
            a.id = (CUlaunchAttributeID)id;
            if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
                a.value.deviceUpdatableKernelNode.deviceUpdatable = (int)on;
            else if (id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
                a.value.cooperative = (int)on;
            snprintf(name, sizeof(name), "%s_%u", on ? "on" : "off", id);
            CUresult r = cuLaunchKernelEx(&c, cf_func("k_nop"), NULL, NULL);

            /* For a GPU's driver a stream has no nodes. */
            if (id == CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE)
                RC_IN(name, r, want, CUDA_ERROR_NOT_SUPPORTED);
            else
                RC(name, r, want);
        }
    }
    OK("sync", cuCtxSynchronize());
}

/* An event of a launch is recorded once the kernel has begun, at the latest behind it; PROGRAMMATIC_EVENT
 * is of compute capability 9.0 on (cuda.h, CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT). */
static void launch_event(CUlaunchAttributeID id, const char *of)
{
    const unsigned flags[] = {CU_EVENT_DEFAULT, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS};
    CUlaunchAttribute a = {.id = id};
    CUlaunchConfig c = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 64, .blockDimY = 1};
    CUevent good = NULL, bad = NULL;
    CUevent *event = id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ? &a.value.programmaticEvent.event
                                                                  : &a.value.launchCompletionEvent.event;
    int *record = id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT ? &a.value.programmaticEvent.flags
                                                               : &a.value.launchCompletionEvent.flags;
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    CUdeviceptr p = 0;
    CUstream other = NULL;
    CUgraph g = NULL;
    unsigned n = 64, v = 7, out = 0;
    void *params[] = {&p, &n, &v};
    size_t nodes = 0;
    char name[64];

#define NAMED(what) (snprintf(name, sizeof(name), "%s_%s", of, what), name)
    c.blockDimZ = 1;
    c.attrs = &a;
    c.numAttrs = 1;
    NEED(cuStreamCreate(&c.hStream, CU_STREAM_NON_BLOCKING));
    NEED(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    NEED(cuMemAlloc(&p, 256));
    NEED(cuEventCreate(&good, CU_EVENT_DISABLE_TIMING));
    for (int i = 0; i < 2; i++) {
        NEED(cuEventCreate(&bad, flags[i]));
        *event = bad;
        /* the manual names no result */
        RC_IN(NAMED(i ? "interprocess" : "timing"), cuLaunchKernelEx(&c, cf_func("k_fill"), params, NULL),
              CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_HANDLE);
        NEED(cuEventDestroy(bad));
    }
    *event = good;
    *record = CU_EVENT_RECORD_EXTERNAL;
    RC(NAMED("external"), cuLaunchKernelEx(&c, cf_func("k_fill"), params, NULL), CUDA_ERROR_INVALID_VALUE);
    *record = 0;
    OK(NAMED("launch"), cuLaunchKernelEx(&c, cf_func("k_fill"), params, NULL));
    OK(NAMED("wait"), cuStreamWaitEvent(other, good, 0));
    OK(NAMED("sync"), cuEventSynchronize(good));
    NEED(cuStreamSynchronize(c.hStream));
    OK(NAMED("query"), cuEventQuery(good));
    NEED(cuMemcpyDtoH(&out, p + 252, 4));
    snprintf(name, sizeof(name), "%s_ran", of);
    cf_u64(name, out, v + 63);
    /* In a capture the event joins another stream. */
    NEED(cuStreamBeginCapture(c.hStream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(NAMED("captured"), cuLaunchKernelEx(&c, cf_func("k_fill"), params, NULL));
    OK(NAMED("captured_wait"), cuStreamWaitEvent(other, good, 0));
    NEED(cuStreamIsCapturing(other, &status));
    snprintf(name, sizeof(name), "%s_joined", of);
    cf_u64(name, status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(NAMED("captured_join"), cuEventRecord(good, other));
    OK(NAMED("captured_back"), cuStreamWaitEvent(c.hStream, good, 0));
    OK(NAMED("captured_end"), cuStreamEndCapture(c.hStream, &g));
    NEED(cuGraphGetNodes(g, NULL, &nodes));
    snprintf(name, sizeof(name), "%s_nodes", of);
    cf_u64(name, nodes, 1);
    NEED(cuGraphDestroy(g));
    NEED(cuEventDestroy(good));
    NEED(cuStreamDestroy(other));
    NEED(cuStreamDestroy(c.hStream));
    NEED(cuMemFree(p));
#undef NAMED
}

CASE(launch_events, CF_CTX)
{
    CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    CUlaunchConfig c = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1};
    CUdevice dev;
    int major = 0;

    launch_event(CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT, "completion");
    NEED(cuCtxGetDevice(&dev));
    NEED(cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, dev));
    if (major >= 9) {
        launch_event(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT, "programmatic");
        return;
    }
    c.blockDimZ = 1;
    c.attrs = &a;
    c.numAttrs = 1;
    NEED(cuEventCreate(&a.value.programmaticEvent.event, CU_EVENT_DISABLE_TIMING));
    RC("programmatic_early", cuLaunchKernelEx(&c, cf_func("k_nop"), NULL, NULL), CUDA_ERROR_NOT_SUPPORTED);
    NEED(cuEventDestroy(a.value.programmaticEvent.event));
}

/* A launch with a block other than .reqntid's fails at the launch itself, also behind valid launches. */
CASE(launch_required_block, CF_CTX)
{
    static const char ptx[] = ".version 8.0\n.target sm_80\n.address_size 64\n"
                              ".visible .entry k_required() .reqntid 64, 2, 1 { ret; }\n"
                              ".visible .entry k_bounded() .maxntid 128, 1, 1 { ret; }\n";
    CUmodule m = NULL;
    CUfunction f = NULL, bounded = NULL;
    CUDA_KERNEL_NODE_PARAMS node = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimY = 2, .blockDimZ = 1};
    CUgraphNode n = NULL;
    CUgraph g = NULL;
    size_t nodes = 0;

    NEED(cuModuleLoadData(&m, ptx));
    NEED(cuModuleGetFunction(&f, m, "k_required"));
    NEED(cuModuleGetFunction(&bounded, m, "k_bounded"));
    node.func = f;
    for (int i = 0; i < 3; i++) {
        OK("right", cuLaunchKernel(f, 1, 1, 1, 64, 2, 1, 0, NULL, NULL, NULL));
        RC("fewer", cuLaunchKernel(f, 1, 1, 1, 32, 2, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
        RC("turned", cuLaunchKernel(f, 1, 1, 1, 2, 64, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
        RC("flat", cuLaunchKernel(f, 1, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
        OK("bounded", cuLaunchKernel(bounded, 1, 1, 1, 128, 1, 1, 0, NULL, NULL, NULL));
        OK("bounded_fewer", cuLaunchKernel(bounded, 1, 1, 1, 32 + (unsigned)i, 2, 1, 0, NULL, NULL, NULL));
        RC("bounded_more", cuLaunchKernel(bounded, 1, 1, 1, 129, 1, 1, 0, NULL, NULL, NULL),
           CUDA_ERROR_INVALID_VALUE);
    }
    OK("sync", cuCtxSynchronize());
    /* The same for nodes. */
    NEED(cuGraphCreate(&g, 0));
    for (int i = 0; i < 2; i++) {
        node.blockDimX = 64;
        OK("node", cuGraphAddKernelNode(&n, g, NULL, 0, &node));
        node.blockDimX = 32;
        RC("node_fewer", cuGraphAddKernelNode(&n, g, NULL, 0, &node), CUDA_ERROR_INVALID_VALUE);
    }
    NEED(cuGraphGetNodes(g, NULL, &nodes));
    cf_u64("nodes", nodes, 2);
    NEED(cuGraphDestroy(g));
    NEED(cuModuleUnload(m));
}

CASE(launch_params_wrong, CF_CTX)
{
    CUfunction fill = cf_func("k_fill");
    CUdeviceptr p = 0;
    unsigned n = 4, v = 1;
    void *params[] = {&p, &n, &v};
    char packed[16] = {0};
    size_t size = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};

    NEED(cuMemAlloc(&p, 64));
    memcpy(packed, &p, 8);
    memcpy(packed + 8, &n, 4);
    RC("both", cuLaunchKernel(fill, 1, 1, 1, 4, 1, 1, 0, NULL, params, extra), CUDA_ERROR_INVALID_VALUE);
    if (!cf_real()) {
        void *bad[] = {(void *)(uintptr_t)77, packed, CU_LAUNCH_PARAM_END};
        RC("neither", cuLaunchKernel(fill, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
        RC("extra_unknown", cuLaunchKernel(fill, 1, 1, 1, 4, 1, 1, 0, NULL, NULL, bad),
           CUDA_ERROR_INVALID_VALUE);
    }
    OK("sync", cuCtxSynchronize());
    NEED(cuMemFree(p));
}

CASE(launch_extra, CF_CTX)
{
    CUfunction fill = cf_func("k_fill");
    CUdeviceptr p = 0;
    unsigned n = 64, v = 77;
    char packed[16];
    size_t size = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};

    NEED(cuMemAlloc(&p, 256));
    memcpy(packed, &p, 8);
    memcpy(packed + 8, &n, 4);
    memcpy(packed + 12, &v, 4);
    OK("launch", cuLaunchKernel(fill, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    memset(packed, 0xff, sizeof(packed)); /* read by the call */
    cf_true("result", cf_filled(p, 64, 77));
    NEED(cuMemFree(p));
}

struct mixed {
    char a;
    double b;
    int c[3];
    short d;
};

CASE(launch_params, CF_CTX)
{
    CUdeviceptr out = 0;
    uint64_t h[8];
    unsigned char a = 0xfe;
    unsigned short b = 0xbeef;
    unsigned c = 0xcafebabe;
    uint64_t d = 0x0123456789abcdefULL, bits;
    float e = 1.25f;
    double f = -3.5;
    uint32_t ebits;
    struct mixed s = {'q', 2.75, {-1, 2, 300000}, -7};

    NEED(cuMemAlloc(&out, 4096));
    void *params[] = {&a, &b, &out, &c, &d, &e, &f};
    OK("scalars", cf_launch(cf_func("k_scalars"), 1, 1, 0, NULL, params));
    a = 0, b = 0, c = 0, d = 0; /* read by the call */
    OK("scalars_read", cuMemcpyDtoH(h, out, 48));
    memcpy(&ebits, &e, 4);
    memcpy(&bits, &f, 8);
    cf_true("scalars_right", h[0] == 0xfe && h[1] == 0xbeef && h[2] == 0xcafebabe &&
                                 h[3] == 0x0123456789abcdefULL && h[4] == ebits && h[5] == bits);
    void *params2[] = {&s, &out};
    OK("struct", cf_launch(cf_func("k_mixed"), 1, 1, 0, NULL, params2));
    OK("struct_read", cuMemcpyDtoH(h, out, 48));
    memcpy(&bits, &s.b, 8);
    cf_true("struct_right", h[0] == 'q' && h[1] == bits && h[2] == 0xffffffff && h[3] == 2 &&
                                h[4] == 300000 && h[5] == 0xfff9);
    uint32_t *big = malloc(998 * 4), *back = calloc(998, 4);
    cf_pattern(big, 998 * 4, 11);
    void *params3[] = {big, &out};
    OK("big", cf_launch(cf_func("k_big"), 1, 128, 0, NULL, params3));
    OK("big_read", cuMemcpyDtoH(back, out, 998 * 4));
    cf_true("big_right", !memcmp(big, back, 998 * 4));
    free(big);
    free(back);
    NEED(cuMemFree(out));
}

CASE(launch_dims, CF_CTX)
{
    CUdeviceptr out = 0;
    uint32_t *h = malloc(24 * 1024 * 4);
    void *params[] = {&out};
    bool ok = true;

    NEED(cuMemAlloc(&out, 24 * 1024 * 4));
    OK("launch", cuLaunchKernel(cf_func("k_dims"), 2, 3, 4, 5, 6, 7, 0, NULL, params, NULL));
    OK("read", cuMemcpyDtoH(h, out, 24 * 210 * 4));
    for (uint32_t i = 0; i < 24 * 210; i++)
        ok &= h[i] == (i / 210 << 16 | i % 210);
    cf_true("right", ok);
    free(h);
    NEED(cuMemFree(out));
}

CASE(launch_ex, CF_CTX)
{
    CUdeviceptr p = 0;
    unsigned n = 100, v = 3;
    void *params[] = {&p, &n, &v};
    CUlaunchConfig cfg = {
        .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 128, .blockDimY = 1, .blockDimZ = 1};

    NEED(cuMemAlloc(&p, 400));
    OK("launch", cuLaunchKernelEx(&cfg, cf_func("k_fill"), params, NULL));
    cf_true("result", cf_filled(p, 100, 3));
    RC("config_null", cuLaunchKernelEx(NULL, cf_func("k_fill"), params, NULL), CUDA_ERROR_INVALID_VALUE);
    cfg.blockDimX = 2048;
    RC("too_many_threads", cuLaunchKernelEx(&cfg, cf_func("k_fill"), params, NULL), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(p));
}

CASE(device_shared, CF_CTX)
{
    CUdeviceptr p = 0, out = 0;
    uint32_t *h = malloc(100000 * 4), sum = 0, got = 0, n = 1000, total = 100000;
    void *params[] = {&p, &n}, *params2[] = {&p, &out, &total};
    bool ok = true;

    NEED(cuMemAlloc(&p, 100000 * 4));
    NEED(cuMemAlloc(&out, 4));
    NEED(cf_fill(p, 1000, 50, NULL));
    OK("reverse", cf_launch(cf_func("k_reverse"), 1, 1024, 4000, NULL, params));
    OK("reverse_read", cuMemcpyDtoH(h, p, 4000));
    for (uint32_t i = 0; i < 1000; i++)
        ok &= h[i] == 50 + 999 - i;
    cf_true("reverse_right", ok);
    cf_pattern(h, 100000 * 4, 9);
    for (uint32_t i = 0; i < 100000; i++)
        sum += h[i];
    NEED(cuMemcpyHtoD(p, h, 100000 * 4));
    NEED(cuMemsetD32(out, 0, 1));
    OK("reduce", cf_launch(cf_func("k_reduce"), 7, 256, 0, NULL, params2));
    OK("reduce_read", cuMemcpyDtoH(&got, out, 4));
    cf_true("reduce_right", got == sum);
    free(h);
    NEED(cuMemFree(p));
    NEED(cuMemFree(out));
}

CASE(device_atomics, CF_CTX)
{
    CUdeviceptr p = 0, q = 0, f = 0, slot = 0;
    uint32_t init[16] = {5, 9000, 77, 0, 0, ~0u, 0, 0, 100, 1}, h[16], two[2] = {0, 0};
    uint64_t big = 0, want = 0;
    float count = 0;
    uint32_t xor = 0;
    void *params[] = {&p, &q, &f};

    NEED(cuMemAlloc(&p, 64));
    NEED(cuMemAlloc(&q, 8));
    NEED(cuMemAlloc(&f, 4));
    NEED(cuMemAlloc(&slot, 8));
    NEED(cuMemcpyHtoD(p, init, 64));
    NEED(cuMemsetD8(q, 0, 8));
    NEED(cuMemsetD8(f, 0, 4));
    OK("run", cf_launch(cf_func("k_atomics"), 10, 96, 0, NULL, params));
    OK("read", cuMemcpyDtoH(h, p, 64));
    OK("read_64", cuMemcpyDtoH(&big, q, 8));
    OK("read_float", cuMemcpyDtoH(&count, f, 4));
    for (uint32_t i = 0; i < 960; i++) {
        xor ^= i;
        want += (uint64_t)i << 20;
    }
    cf_u64("add", h[0], 965);
    cf_u64("sub", h[1], 9000 - 960);
    cf_u64("min", h[2], 0);
    cf_u64("max", h[3], 959);
    cf_u64("or", h[4], 0xffffffff);
    cf_u64("and", h[5], 0);
    cf_u64("xor", h[6], xor);
    cf_u64("inc", h[7], 0);
    cf_u64("min_signed", h[8], (uint32_t)-959);
    cf_u64("cas", h[9], 1 + 3 * 960);
    cf_u64("add_64", big, want);
    cf_true("add_float", count == 960.0f);
    NEED(cuMemsetD8(slot, 0, 8));
    CUdeviceptr sum = slot + 4;
    void *params2[] = {&slot, &sum};
    OK("exchange", cf_launch(cf_func("k_exchange"), 1, 64, 0, NULL, params2));
    OK("exchange_read", cuMemcpyDtoH(two, slot, 8));
    cf_u64("exchange_sum", two[0] + two[1], 64 * 65 / 2);
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    NEED(cuMemFree(f));
    NEED(cuMemFree(slot));
}

CASE(device_warp, CF_CTX)
{
    CUdeviceptr out = 0;
    uint32_t h[8][32];
    void *params[] = {&out};
    unsigned bad[8] = {0};
    static const char *const names[] = {"shfl", "up", "down", "xor", "width", "ballot", "vote", "mask"};

    NEED(cuMemAlloc(&out, sizeof(h)));
    OK("run", cf_launch(cf_func("k_warp"), 1, 32, 0, NULL, params));
    OK("read", cuMemcpyDtoH(h, out, sizeof(h)));
    for (uint32_t l = 0; l < 32; l++) {
        uint32_t up = l < 3 ? l : l - 3, down = l + 7 > 31 ? l : l + 7, x = l ^ 9;
        uint32_t w = (l & ~7u) + 3;
        bad[0] += h[0][l] != 25;
        bad[1] += h[1][l] != up * up;
        bad[2] += h[2][l] != down * down;
        bad[3] += h[3][l] != x * x;
        bad[4] += h[4][l] != w * w;
        bad[5] += h[5][l] != 0x49249249;
        bad[6] += h[6][l] != 2;
        bad[7] += h[7][l] != 0xffffffff;
    }
    for (int i = 0; i < 8; i++)
        cf_u64(names[i], bad[i], 0);
    NEED(cuMemFree(out));
}

static uint32_t reversed(uint32_t v)
{
    uint32_t r = 0;
    for (int i = 0; i < 32; i++)
        r |= (v >> i & 1) << (31 - i);
    return r;
}

CASE(device_diverge, CF_CTX)
{
    CUdeviceptr out = 0;
    uint32_t h[96], k = 13;
    void *params[] = {&out}, *params2[] = {&out, &k};
    bool ok = true;

    NEED(cuMemAlloc(&out, sizeof(h)));
    OK("run", cf_launch(cf_func("k_diverge"), 1, 96, 0, NULL, params));
    OK("read", cuMemcpyDtoH(h, out, sizeof(h)));
    for (uint32_t i = 0; i < 96; i++) {
        uint32_t r = i & 1 ? i * (i - 1) / 2 : i * 3;
        r += (uint32_t)__builtin_popcount(i) + (i ? (uint32_t)__builtin_clz(i) : 32) + reversed(i);
        ok &= h[i] == r;
    }
    cf_true("right", ok);
    OK("local", cf_launch(cf_func("k_local"), 1, 96, 0, NULL, params2));
    OK("local_read", cuMemcpyDtoH(h, out, sizeof(h)));
    ok = true;
    for (uint32_t t = 0; t < 96; t++) {
        uint32_t a[32], s = 0;
        for (uint32_t i = 0; i < 32; i++)
            a[i] = i * k + t;
        for (uint32_t i = 0; i < 32; i++)
            a[(i * 7) & 31] ^= a[(i * 11 + k) & 31];
        for (uint32_t i = 0; i < 32; i++)
            s = s * 31 + a[i];
        ok &= h[t] == s;
    }
    cf_true("local_right", ok);
    NEED(cuMemFree(out));
}

/* Operations with a single correctly rounded result in IEEE 754 are exact to the last bit. */
CASE(device_float, CF_CTX)
{
    float a[64], b[64], h[384];
    CUdeviceptr p = 0, q = 0, out = 0;
    void *params[] = {&p, &q, &out};
    unsigned bad[6] = {0};
    static const char *const names[] = {"add", "mul", "fma", "div", "sqrt", "convert"};

    for (int i = 0; i < 64; i++) {
        a[i] = (float)(i - 30) * 1.37e3f + 0.123f;
        b[i] = (float)(i + 1) * -0.731f;
    }
    NEED(cuMemAlloc(&p, sizeof(a)));
    NEED(cuMemAlloc(&q, sizeof(b)));
    NEED(cuMemAlloc(&out, sizeof(h)));
    NEED(cuMemcpyHtoD(p, a, sizeof(a)));
    NEED(cuMemcpyHtoD(q, b, sizeof(b)));
    OK("run", cf_launch(cf_func("k_float"), 1, 64, 0, NULL, params));
    OK("read", cuMemcpyDtoH(h, out, sizeof(h)));
    for (int i = 0; i < 64; i++) {
        volatile float sum = a[i] + b[i], product = a[i] * b[i], quotient = a[i] / b[i];
        bad[0] += h[i] != sum;
        bad[1] += h[64 + i] != product;
        bad[2] += h[128 + i] != fmaf(a[i], b[i], a[i]);
        bad[3] += h[192 + i] != quotient;
        bad[4] += h[256 + i] != sqrtf(fabsf(a[i]));
        bad[5] += h[320 + i] != (float)(int)a[i];
    }
    for (int i = 0; i < 6; i++)
        cf_u64(names[i], bad[i], 0);
    NEED(cuMemFree(p));
    NEED(cuMemFree(q));
    NEED(cuMemFree(out));
}

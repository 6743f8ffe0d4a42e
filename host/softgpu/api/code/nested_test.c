/* SPDX-License-Identifier: MIT */
/* What kernels learn from the device runtime: the same as the host's calls of these names. */
#include "api/api_test.h"

#define CALL(name, args) "call.uni (q), __cudaCDP2" name ", (" args "); ld.param.b32 %r1, [q];\n"
/* Stores the error at [%rd1 + 4 n] of the caller. */
#define ERROR_TO(n) "st.global.u32 [%rd1+" n "], %r1;\n"

static const char nested_ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) __cudaCDP2GetDevice(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2GetDeviceCount(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2RuntimeGetVersion(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2DeviceGetAttribute(.param .b64 p, .param .b32 a, .param .b32 d);\n"
    ".extern .func (.param .b32 r) __cudaCDP2DeviceGetLimit(.param .b64 p, .param .b32 l);\n"
    ".extern .func (.param .b32 r) __cudaCDP2DeviceGetCacheConfig(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2DeviceGetSharedMemConfig(.param .b64 p);\n"
    ".extern .func (.param .b32 r) __cudaCDP2FuncGetAttributes(.param .b64 p, .param .b64 f);\n"
    ".extern .func (.param .b32 r) __cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessor(.param .b64 p,"
    " .param .b64 f, .param .b32 b, .param .b64 n);\n"
    ".extern .func (.param .b32 r) __cudaCDP2OccupancyMaxActiveBlocksPerMultiprocessorWithFlags(.param .b64 p,"
    " .param .b64 f, .param .b32 b, .param .b64 n, .param .b32 g);\n"
    ".visible .entry child(.param .u64 p)\n.maxntid 256, 1, 1\n{\n.shared .align 4 .b8 own[5000];\n"
    ".reg .b64 %rd<4>;\n.reg .b32 %r<4>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
    "st.shared.u32 [own], %r1;\nld.shared.u32 %r2, [own];\nst.global.u32 [%rd1], %r2;\nret;\n}\n"
    ".visible .entry parent(.param .u64 out)\n{\n.reg .b64 %rd<8>;\n.reg .b32 %r<8>;\n"
    ".local .align 8 .b8 l[8];\n"
    ".param .b64 p; .param .b64 f; .param .b64 n; .param .b32 a; .param .b32 b; .param .b32 q;\n"
    "ld.param.u64 %rd1, [out];\nadd.u64 %rd2, %rd1, 256;\n"
    /* through a pointer to local memory */
    "mov.u64 %rd3, l;\ncvta.local.u64 %rd3, %rd3;\nst.param.b64 [p], %rd3;\n" CALL("GetDevice", "p") ERROR_TO(
        "0") "ld.local.u32 %r2, [l];\nst.global.u32 [%rd2], %r2;\n"
             "add.u64 %rd3, %rd2, 4;\nst.param.b64 [p], %rd3;\n" CALL("GetDeviceCount", "p") ERROR_TO(
                 "4") "add.u64 %rd3, %rd2, 8;\nst.param.b64 [p], %rd3;\n" CALL("RuntimeGetVersion", "p")
                 ERROR_TO(
                     "8") "add.u64 %rd3, %rd2, 12;\nst.param.b64 [p], %rd3;\n"
                          "st.param.b32 [a], 8; st.param.b32 [b], 0;\n" CALL(
                              "DeviceGetAttribute",
                              "p, a, b") ERROR_TO("12") "st.param.b32 [a], 0;\n" CALL("DeviceGetAttribute",
                                                                                      "p, a, b")
                              ERROR_TO("16") "st.param.b32 [a], 8; st.param.b32 [b], 77;\n" CALL(
                                  "DeviceGetAttribute", "p, a, b")
                                  ERROR_TO("20") "add.u64 %rd3, %rd2, 16;\nst.param.b64 [p], %rd3; st.param.b32 [a], 2;\n" CALL(
                                      "DeviceGetLimit",
                                      "p, a") ERROR_TO("24") "st.param.b32 [a], 999;\n" CALL("DeviceGetLimit",
                                                                                             "p, a")
                                      ERROR_TO(
                                          "28") "add.u64 %rd3, %rd2, 32;\nst.param.b64 [p], %rd3;\nmov.u64 %rd4, child;\n"
                                                "st.param.b64 [f], %rd4;\n" CALL("FuncGetAttributes", "p, f") ERROR_TO(
                                                    "32") "st.param.b64 [f], %rd1;\n" CALL("FuncGetAttributes",
                                                                                           "p, f")
                                                    ERROR_TO(
                                                        "36") "st.param.b64 [f], %rd4; add.u64 %rd3, %rd2, 24;\nst.param.b64 [p], %rd3;\n"
                                                              "st.param.b32 [a], 64; mov.u64 %rd5, 1000;\nst.param.b64 [n], %rd5;\n" CALL(
                                                                  "OccupancyMaxActiveBlocksPerMultiprocessor",
                                                                  "p, f, a, n")
                                                                  ERROR_TO("40") "add.u64 %rd3, %rd2, 28;\nst.param.b64 [p], %rd3; st.param.b32 [b], 0;\n" CALL(
                                                                      "OccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
                                                                      "p, f, a, n, b")
                                                                      ERROR_TO("44") "mov.u64 %rd3, 0; st.param.b64 [p], %rd3;\n" CALL(
                                                                          "GetDevice", "p")
                                                                          ERROR_TO("48") "add.u64 %rd3, %rd2, 176;\nst.param.b64 [p], %rd3;\n" CALL(
                                                                              "DeviceGetCacheConfig", "p")
                                                                              ERROR_TO("52") "add.u64 %rd3, %rd2, 180;\nst.param.b64 [p], %rd3;\n" CALL(
                                                                                  "DeviceGetSharedMemConfig",
                                                                                  "p")
                                                                                  ERROR_TO("56") "ret;\n}\n";

static int function_attribute(CUfunction f, CUfunction_attribute a)
{
    int v = -1;

    OK(cuFuncGetAttribute(&v, a, f));
    return v;
}

static void test_queries(void **state)
{
    static const int errors[] = {0, 0, 0, 0, 1, 101, 0, 1, 0, 98, 0, 0, 1, 0, 0};
    struct {
        int32_t error[64];
        int32_t device, devices, version, attribute;
        uint64_t limit;
        int32_t blocks, blocks_flags;
        uint64_t shared, constant, local;
        int32_t of[13], reserved[17];
        int32_t cache, bank;
    } got;
    CUcontext c = ctx_begin();
    CUfunction parent, child;
    CUdeviceptr out;
    CUmodule m;
    void *args[] = {&out};
    CUsharedconfig bank;
    size_t heap;
    int v;

    (void)state;
    OK(cuModuleLoadData(&m, nested_ptx));
    OK(cuModuleGetFunction(&parent, m, "parent"));
    OK(cuModuleGetFunction(&child, m, "child"));
    OK(cuFuncSetAttribute(child, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 12345));
    OK(cuMemAlloc_v2(&out, sizeof(got)));
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    OK(cuMemsetD8_v2(out, 0xee, sizeof(got)));
    OK(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, out, sizeof(got)));
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (got.error[i] != errors[i])
            fail_msg("call %u: error %d, not %d", i, got.error[i], errors[i]);
    assert_int_equal(got.device, 0);
    OK(cuDeviceGetCount(&v));
    assert_int_equal(got.devices, v);
    assert_int_equal(got.version, CUDA_VERSION);
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 0));
    assert_int_equal(got.attribute, v);
    OK(cuCtxGetLimit(&heap, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(got.limit, heap);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, child, 64, 1000));
    assert_int_equal(got.blocks, v);
    assert_int_equal(got.blocks_flags, v);
    assert_int_equal(got.shared, 5000);
    assert_int_equal(got.constant, function_attribute(child, CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES));
    assert_int_equal(got.local, 0);
    assert_int_equal(got.of[0], 256);
    assert_int_equal(got.of[1], function_attribute(child, CU_FUNC_ATTRIBUTE_NUM_REGS));
    assert_int_equal(got.of[2], function_attribute(child, CU_FUNC_ATTRIBUTE_PTX_VERSION));
    assert_int_equal(got.of[5], 12345);
    assert_int_equal(got.of[6], -1);
    assert_int_equal(got.reserved[16], 0);
    assert_int_equal(got.cache, CU_FUNC_CACHE_PREFER_L1);
    OK(cuCtxGetSharedMemConfig(&bank));
    assert_int_equal(got.bank, bank);
    OK(cuMemFree_v2(out));
    OK(cuModuleUnload(m));
    ctx_end(c);
}

static const char limits_ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b64 r) __cudaCDP2GetParameterBufferV2(.param .b64 f,"
    " .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2(.param .b64 p, .param .b64 s);\n"
    ".extern .func (.param .b32 r) __cudaCDP2GetLastError();\n"
    ".visible .entry most(.param .u64 p)\n.maxntid 64, 1, 1\n{\n"
    ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nred.global.add.u32 [%rd1], 1;\nret;\n}\n"
    ".visible .entry exact(.param .u64 p)\n.reqntid 32, 2, 1\n{\n"
    ".reg .b64 %rd<2>;\nld.param.u64 %rd1, [p];\nred.global.add.u32 [%rd1], 1;\nret;\n}\n"
    /* launches kernel %r3 (0: most) with blocks of %r4 x %r5 threads: its error, or that of the buffer */
    ".visible .entry parent(.param .u64 out, .param .u32 k, .param .u32 x, .param .u32 y, .param .u32 n)\n{\n"
    ".reg .b64 %rd<8>;\n.reg .b32 %r<8>;\n.reg .pred %p<2>;\n"
    ".param .b64 f; .param .align 4 .b8 g[12]; .param .align 4 .b8 b[12]; .param .b32 s; .param .b64 r;\n"
    ".param .b64 t; .param .b32 q;\nld.param.u64 %rd1, [out];\nld.param.u32 %r3, [k];\n"
    "ld.param.u32 %r4, [x];\nld.param.u32 %r5, [y];\nld.param.u32 %r6, [n];\n"
    "mov.u64 %rd2, most;\nmov.u64 %rd3, exact;\nsetp.eq.u32 %p1, %r3, 0;\nselp.b64 %rd2, %rd2, %rd3, %p1;\n"
    "st.param.b64 [f], %rd2;\nst.param.b32 [g], 1; st.param.b32 [g+4], 1; st.param.b32 [g+8], 1;\n"
    "st.param.b32 [b], %r4; st.param.b32 [b+4], %r5; st.param.b32 [b+8], 1;\nst.param.b32 [s], %r6;\n"
    "call.uni (r), __cudaCDP2GetParameterBufferV2, (f, g, b, s);\nld.param.b64 %rd4, [r];\n"
    "setp.eq.u64 %p1, %rd4, 0;\n@%p1 bra NONE;\nst.global.u64 [%rd4], %rd1;\n"
    "st.param.b64 [r], %rd4; st.param.b64 [t], 0;\ncall.uni (q), __cudaCDP2LaunchDeviceV2, (r, t);\nNONE:\n"
    "call.uni (q), __cudaCDP2GetLastError, ();\nld.param.b32 %r1, [q];\nst.global.u32 [%rd1+4], %r1;\n"
    "ret;\n}\n";

/* A launch by a kernel has the limits of one by the host: .maxntid, .reqntid, dynamic shared memory. */
static void test_launch_limits(void **state)
{
    static const struct {
        unsigned kernel, x, y, dynamic, error;
    } launches[] = {{0, 64, 1, 0, 0},    {0, 65, 1, 0, 1},     {0, 32, 3, 0, 1},    {0, 8, 8, 0, 0},
                    {1, 32, 2, 0, 0},    {1, 64, 1, 0, 1},     {1, 32, 1, 0, 1},    {0, 1, 1, 2000, 0},
                    {0, 1, 1, 49152, 1}, {1, 32, 2, 49152, 0}, {1, 32, 2, 49153, 1}};
    CUcontext c = ctx_begin();
    CUfunction parent, most;
    CUdeviceptr out;
    CUmodule m;

    (void)state;
    OK(cuModuleLoadData(&m, limits_ptx));
    OK(cuModuleGetFunction(&parent, m, "parent"));
    OK(cuModuleGetFunction(&most, m, "most"));
    OK(cuFuncSetAttribute(most, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 2000));
    OK(cuMemAlloc_v2(&out, 8));
    for (unsigned i = 0; i < sizeof(launches) / sizeof(launches[0]); i++) {
        unsigned k = launches[i].kernel, x = launches[i].x, y = launches[i].y, n = launches[i].dynamic,
                 got[2];
        void *args[] = {&out, &k, &x, &y, &n};

        OK(cuMemsetD32_v2(out, 0, 2));
        OK(cuLaunchKernel(parent, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        OK(cuMemcpyDtoH_v2(got, out, sizeof(got)));
        if (got[1] != launches[i].error || got[0] != (got[1] ? 0 : x * y))
            fail_msg("launch %u: error %u, %u threads", i, got[1], got[0]);
    }
    OK(cuMemFree_v2(out));
    OK(cuModuleUnload(m));
    ctx_end(c);
}

static const char printing_ptx[] =
    ".version 8.0\n.target sm_75\n.address_size 64\n"
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n"
    ".extern .func free(.param .b64 p);\n"
    ".visible .entry prints()\n{\n.param .b64 f; .param .b64 a; .param .b32 q; .reg .pred %p;\n"
    ".reg .b32 %r<2>;\nmov.u32 %r1, %tid.x;\nsetp.ge.u32 %p, %r1, 0;\n@%p ret;\n"
    "st.param.b64 [f], 0; st.param.b64 [a], 0;\ncall.uni (q), vprintf, (f, a);\nret;\n}\n"
    ".visible .entry frees()\n{\n.param .b64 p;\nst.param.b64 [p], 0;\ncall.uni free, (p);\nret;\n}\n";

/* cuda.h: these limits are set before a kernel that uses printf(), or malloc() or free(), is launched. */
static void test_fixed_limits(void **state)
{
    static const struct {
        const char *name;
        CUlimit limit, other;
    } kernels[] = {{"prints", CU_LIMIT_PRINTF_FIFO_SIZE, CU_LIMIT_MALLOC_HEAP_SIZE},
                   {"frees", CU_LIMIT_MALLOC_HEAP_SIZE, CU_LIMIT_PRINTF_FIFO_SIZE}};

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        CUcontext c = ctx_begin();
        CUgraphExec x;
        CUfunction f;
        CUstream s;
        CUgraph g;
        CUmodule m;

        OK(cuModuleLoadData(&m, printing_ptx));
        OK(cuModuleGetFunction(&f, m, kernels[i % 2].name));
        OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
        OK(cuCtxSetLimit(kernels[i % 2].limit, 2 << 20));
        if (i < 2) {
            OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
        } else {
            OK(cuStreamBeginCapture_v2(s, CU_STREAM_CAPTURE_MODE_RELAXED));
            OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, NULL, NULL));
            OK(cuStreamEndCapture(s, &g));
            OK(cuGraphInstantiateWithFlags(&x, g, 0));
            OK(cuCtxSetLimit(kernels[i % 2].limit, 3 << 20)); /* it was not launched yet */
            OK(cuGraphLaunch(x, s));
            OK(cuStreamSynchronize(s));
            OK(cuGraphExecDestroy(x));
            OK(cuGraphDestroy(g));
        }
        IS(cuCtxSetLimit(kernels[i % 2].limit, 4 << 20), INVALID_VALUE);
        OK(cuCtxSetLimit(kernels[i % 2].other, 4 << 20));
        OK(cuStreamDestroy_v2(s));
        OK(cuModuleUnload(m));
        ctx_end(c);
    }
}

const struct CMUnitTest nested_tests[] = {cmocka_unit_test(test_queries),
                                          cmocka_unit_test(test_launch_limits),
                                          cmocka_unit_test(test_fixed_limits)};
const size_t n_nested_tests = sizeof(nested_tests) / sizeof(nested_tests[0]);

/* SPDX-License-Identifier: MIT */
/* Modules, libraries, functions and launches, device-side errors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <unistd.h>
#include <zstd.h>

#include "api/api_test.h"
#include "lib/testing/range.h"

static const char *detail(void)
{
    static const char *(*fn)(void);

    if (!fn)
        fn = (const char *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "sg_last_error_detail");
    return fn();
}

/* The test PTX as nvcc would pack it: wrapper, container, one zstd entry. */
static const void *fatbin(void)
{
    static uint8_t blob[8192] __attribute__((aligned(8)));
    static struct {
        uint32_t magic, version;
        const void *data;
        void *more;
    } wrapper = {0x466243b1u, 1, blob, NULL};
    size_t n = strlen(test_ptx) + 1;
    uint32_t packed = (uint32_t)ZSTD_compress(blob + 80, sizeof(blob) - 80, test_ptx, n, 3);
    uint64_t payload = (packed + 7u) & ~7u, rest = 64 + payload, full = n, flags = 0x8011;
    uint32_t magic = 0xBA55ED50u, header = 64, arch = 80, v = 0x00100001, kind = 0x01010001;

    memcpy(blob, &magic, 4);
    memcpy(blob + 4, &v, 4);
    memcpy(blob + 8, &rest, 8);
    memcpy(blob + 16, &kind, 4);
    memcpy(blob + 20, &header, 4);
    memcpy(blob + 24, &payload, 8);
    memcpy(blob + 32, &packed, 4);
    memcpy(blob + 44, &arch, 4);
    memcpy(blob + 56, &flags, 8);
    memcpy(blob + 72, &full, 8);
    return &wrapper;
}

static void test_module(void **state)
{
    CUcontext c = ctx_begin();
    CUfunction f, all[16], fill;
    CUmodule m = NULL, got;
    size_t bytes, off, size;
    const char *name;
    CUdeviceptr p;
    unsigned n;
    uint32_t v[4];

    (void)state;
    f = get_kernel(&m, "fill");
    OK(cuModuleGetFunction(&fill, m, "fill"));
    assert_ptr_equal(f, fill); /* one function, one handle */
    IS(cuModuleGetFunction(&f, m, "nothing"), NOT_FOUND);
    IS(cuModuleGetFunction(&f, (CUmodule)0x999, "fill"), INVALID_HANDLE);
    IS(cuModuleGetFunction(NULL, m, "fill"), INVALID_VALUE);
    OK(cuModuleGetFunctionCount(&n, m));
    assert_int_equal(n, 8);
    OK(cuModuleEnumerateFunctions(all, 16, m));
    OK(cuFuncGetName(&name, all[0]));
    assert_string_equal(name, "fill");
    OK(cuFuncGetModule(&got, all[3]));
    assert_ptr_equal(got, m);
    OK(cuFuncGetParamInfo(fill, 0, &off, &size));
    assert_true(off == 0 && size == 8);
    OK(cuFuncGetParamInfo(fill, 2, &off, &size));
    assert_true(off == 12 && size == 4);
    OK(cuFuncGetParamInfo(fill, 1, &off, NULL));
    IS(cuFuncGetParamInfo(fill, 3, &off, &size), INVALID_VALUE);
    OK(cuModuleGetGlobal_v2(&p, &bytes, m, "counter"));
    assert_int_equal(bytes, 4);
    OK(cuMemcpyDtoH_v2(v, p, 4));
    assert_int_equal(v[0], 7); /* its initialiser */
    IS(cuMemFree_v2(p), INVALID_VALUE);
    OK(cuModuleGetGlobal_v2(&p, NULL, m, "table"));
    OK(cuMemcpyDtoH_v2(v, p, 8));
    assert_int_equal(v[1], 2);
    OK(cuModuleGetGlobal_v2(NULL, &bytes, m, "table"));
    assert_int_equal(bytes, 8);
    IS(cuModuleGetGlobal_v2(NULL, NULL, m, "table"), INVALID_VALUE);
    IS(cuModuleGetGlobal_v2(&p, &bytes, m, "fill"), INVALID_VALUE);
    OK(cuModuleUnload(m));
    IS(cuModuleUnload(m), INVALID_HANDLE);
    IS(cuFuncGetName(&name, fill), INVALID_HANDLE);
    IS(cuMemcpyDtoH_v2(v, p, 8), INVALID_VALUE);
    IS(cuModuleLoad(&m, "/nonexistent/file"), FILE_NOT_FOUND);
    IS(cuModuleLoadData(NULL, test_ptx), INVALID_VALUE);
    IS(cuModuleLoadData(&m, NULL), INVALID_VALUE);
    ctx_end(c);
}

static void test_bad_images(void **state)
{
    static const char bad_ptx[] = ".version 7.0\n.target sm_80\n.address_size 64\n"
                                  ".visible .entry k(\n!!!\n";
    CUcontext c = ctx_begin();
    static const char elf[64] = "\177ELF"; /* the API has no size: a header must be there */
    char log[512] = "untouched";
    CUjit_option opts[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUmodule m;

    (void)state;
    IS(cuModuleLoadData(&m, "not an image"), INVALID_IMAGE);
    IS(cuModuleLoadData(&m, ""), INVALID_IMAGE);
    IS(cuModuleLoadData(&m, elf), INVALID_IMAGE);
    IS(cuModuleLoadDataEx(&m, bad_ptx, 2, opts, values), INVALID_PTX);
    assert_non_null(strstr(log, "line 5"));
    assert_int_equal((uintptr_t)values[1], strlen(log));
    assert_non_null(strstr(detail(), "line 5"));
    IS(cuModuleLoadData(&m, ".version 7.0\n.target sm_80\n.address_size 64\n"
                            ".visible .entry k() {\n  this is none;\n}\n"),
       INVALID_PTX);
    assert_non_null(strstr(detail(), "line 5"));
    opts[0] = (CUjit_option)1000;
    IS(cuModuleLoadDataEx(&m, test_ptx, 1, opts, values), INVALID_VALUE);
    IS(cuModuleLoadDataEx(&m, test_ptx, 1, NULL, values), INVALID_VALUE);
    ctx_end(c);
}

/* Loads with what it says about itself; the launch is refused, once and without harm. */
static void sass_only(const char *path)
{
    void *params[] = {&(CUdeviceptr){0}, &(short){0}};
    CUlinkState link;
    CUlibrary lib;
    CUkernel kern;
    CUmodule m;
    CUfunction f;
    CUdeviceptr v;
    size_t bytes, off;
    int n = 0, value = 0;

    OK(cuModuleLoad(&m, path));
    IS(cuModuleGetFunction(&f, m, "v"), NOT_FOUND);
    assert_null(f);
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuFuncGetParamInfo(f, 1, &off, &bytes));
    assert_int_equal(off, 8);
    assert_int_equal(bytes, 2);
    IS(cuFuncGetParamInfo(f, 2, &off, &bytes), INVALID_VALUE);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_BINARY_VERSION, f));
    assert_int_equal(n, 90);
    OK(cuFuncGetAttribute(&n, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, f));
    assert_int_equal(n, 0);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 128, 0));
    assert_true(n > 0);
    OK(cuModuleGetGlobal_v2(&v, &bytes, m, "v"));
    assert_int_equal(bytes, 4);
    OK(cuMemcpyDtoH_v2(&value, v, 4));
    assert_int_equal(value, 77);
    IS(cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), NO_BINARY_FOR_GPU);
    assert_non_null(strstr(detail(), "kernel k "));
    assert_non_null(strstr(detail(), "SASS 90"));
    IS(cuFuncLoad(f), NO_BINARY_FOR_GPU);
    OK(cuCtxSynchronize());
    OK(cuModuleUnload(m));
    OK(cuLibraryLoadFromFile(&lib, path, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&kern, lib, "k"));
    OK(cuKernelGetParamInfo(kern, 0, &off, &bytes));
    assert_int_equal(bytes, 8);
    IS(cuLaunchKernel((CUfunction)kern, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL), NO_BINARY_FOR_GPU);
    OK(cuLibraryUnload(lib));
    OK(cuLinkCreate_v2(0, NULL, NULL, &link));
    IS(cuLinkAddFile_v2(link, CU_JIT_INPUT_FATBINARY, path, 0, NULL, NULL), NO_BINARY_FOR_GPU);
    OK(cuLinkDestroy(link));
}

static void test_sass(void **state)
{
    const char *home = getenv("CUDA_HOME");
    char dir[] = "/tmp/sg_api_test_XXXXXX", cmd[512], path[64];
    CUcontext c = ctx_begin();
    CUmodule m;

    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(
        cmd, sizeof(cmd),
        "cd %s && printf '.version 7.0\\n.target sm_80\\n.address_size 64\\n"
        ".visible .global .u32 v = 77;\\n"
        ".visible .entry k(.param .u64 p, .param .u16 q) { ret; }\\n' > k.ptx && %s/bin/ptxas -arch=sm_90 k.ptx -o "
        "k.cubin 2>/dev/null",
        dir, home ? home : "/usr/local/cuda");
    bool made = system(cmd) == 0;

    if (made) {
        snprintf(path, sizeof(path), "%s/k.cubin", dir);
        sass_only(path);
        snprintf(path, sizeof(path), "%s/k.ptx", dir);
        OK(cuModuleLoad(&m, path));
    }
    snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
    assert_int_equal(system(cmd), 0);
    ctx_end(c);
    if (!made) {
        print_message("not run: test_sass: ptxas is not there\n");
        skip();
    }
}

static void test_library(void **state)
{
    CUlibraryOption lopts[] = {CU_LIBRARY_BINARY_IS_PRESERVED};
    CUkernel k, all[16];
    CUcontext a, b;
    CUlibrary lib, got;
    CUfunction f;
    CUdeviceptr pa, pb, buf;
    const char *name;
    size_t bytes, off, size;
    CUmodule m;
    uint32_t v;
    unsigned n;
    int x;

    (void)state;
    IS(cuLibraryLoadData(NULL, fatbin(), NULL, NULL, 0, NULL, NULL, 0), INVALID_VALUE);
    OK(cuLibraryLoadData(&lib, fatbin(), NULL, NULL, 0, lopts, NULL, 1)); /* needs no context */
    OK(cuLibraryGetKernelCount(&n, lib));
    assert_int_equal(n, 8);
    OK(cuLibraryEnumerateKernels(all, 16, lib));
    OK(cuKernelGetName(&name, all[0]));
    assert_string_equal(name, "fill");
    OK(cuLibraryGetKernel(&k, lib, "fill"));
    assert_ptr_equal(k, all[0]);
    IS(cuLibraryGetKernel(&k, lib, "nothing"), NOT_FOUND);
    IS(cuKernelGetParamInfo(k, 1, &off, &size), INVALID_CONTEXT); /* driver 580 */
    IS(cuKernelGetParamInfo(k, 1, NULL, &size), INVALID_VALUE);
    IS(cuLibraryGetManaged(&pb, NULL, lib, "counter"), NOT_FOUND);
    OK(cuKernelGetLibrary(&got, k));
    assert_ptr_equal(got, lib);
    OK(cuKernelGetAttribute(&x, CU_FUNC_ATTRIBUTE_PTX_VERSION, k, 0));
    assert_int_equal(x, 80);
    OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 65536, k, 0));
    IS(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 1, k, 0), INVALID_VALUE);
    IS(cuKernelGetFunction(&f, k), INVALID_CONTEXT);

    a = ctx_begin();
    OK(cuKernelGetParamInfo(k, 1, &off, &size));
    assert_true(off == 8 && size == 4);
    IS(cuKernelGetParamInfo(k, 3, &off, &size), INVALID_VALUE);
    OK(cuLibraryGetGlobal(&pa, &bytes, lib, "counter"));
    assert_int_equal(bytes, 4);
    OK(cuLibraryGetGlobal(&pa, NULL, lib, "counter"));
    IS(cuLibraryGetManaged(&pb, NULL, lib, "counter"), NOT_FOUND);
    OK(cuKernelGetFunction(&f, k));
    OK(cuFuncGetAttribute(&x, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
    assert_int_equal(x, 65536);
    OK(cuLibraryGetModule(&m, lib));
    IS(cuModuleUnload(m), NOT_PERMITTED);
    OK(cuMemAlloc_v2(&buf, 4000));
    launch_fill((CUfunction)k, buf, 42, 1000, NULL); /* a CUkernel in place of a CUfunction */
    OK(cuMemcpyDtoH_v2(&v, buf + 3996, 4));
    assert_int_equal(v, 42);
    v = 9;
    OK(cuMemcpyHtoD_v2(pa, &v, 4));

    b = ctx_begin(); /* the library's variables exist once per context */
    OK(cuLibraryGetGlobal(&pb, NULL, lib, "counter"));
    assert_true(pa != pb);
    OK(cuMemcpyDtoH_v2(&v, pb, 4));
    assert_int_equal(v, 7);
    OK(cuCtxPopCurrent_v2(NULL));
    OK(cuCtxDestroy_v2(b));
    OK(cuLibraryUnload(lib));
    IS(cuLibraryUnload(lib), INVALID_HANDLE);
    IS(cuKernelGetName(&name, k), INVALID_HANDLE);
    IS(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), INVALID_HANDLE);
    IS(cuMemcpyDtoH_v2(&v, pa, 4), INVALID_VALUE);
    IS(cuLibraryGetModule(&m, lib), INVALID_HANDLE);
    ctx_end(a);
}

/* cudaDeviceReset and then more work: a library must come up again in the new primary context. */
static void test_library_survives_reset(void **state)
{
    CUlibrary lib;
    CUkernel k;
    CUdeviceptr p;
    CUcontext c;
    uint32_t v;

    (void)state;
    OK(cuLibraryLoadData(&lib, test_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&k, lib, "late"));
    for (int i = 0; i < 3; i++) {
        OK(cuDevicePrimaryCtxRetain(&c, 0));
        OK(cuCtxSetCurrent(c));
        for (uint32_t j = 0; j < 3; j++) {
            void *args[] = {&p};

            OK(cuMemAlloc_v2(&p, 4));
            OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
            OK(cuMemcpyDtoH_v2(&v, p, 4));
            assert_int_equal(v, 7 + j); /* the variable starts afresh */
        }
        OK(cuDevicePrimaryCtxReset_v2(0));
        OK(cuCtxSetCurrent(NULL));
    }
    OK(cuLibraryUnload(lib));
}

static void test_launch_forms(void **state)
{
    CUcontext c = ctx_begin();
    struct {
        CUdeviceptr p;
        uint32_t v, n;
    } packed;
    size_t size = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    CUlaunchAttribute attrs[2] = {{.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                   .value.programmaticStreamSerializationAllowed = 1},
                                  {.id = CU_LAUNCH_ATTRIBUTE_PRIORITY, .value.priority = -1}};
    CUlaunchConfig cfg = {.gridDimX = 1,
                          .gridDimY = 1,
                          .gridDimZ = 1,
                          .blockDimX = 64,
                          .blockDimY = 1,
                          .blockDimZ = 1,
                          .attrs = attrs,
                          .numAttrs = 2};
    CUmodule m = NULL;
    CUfunction f = get_kernel(&m, "fill");
    CUdeviceptr p;
    uint32_t out[64], v = 3, n = 64;
    void *args[] = {&p, &v, &n};

    (void)state;
    OK(cuMemAlloc_v2(&p, 256));
    packed.p = p;
    packed.v = 5;
    packed.n = 64;
    OK(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra));
    OK(cuMemcpyDtoH_v2(out, p, 256));
    assert_int_equal(out[63], 5);
    OK(cuLaunchKernelEx(&cfg, f, args, NULL));
    OK(cuMemcpyDtoH_v2(out, p, 256));
    assert_int_equal(out[63], 3);
    v = 4;
    OK(cuLaunchKernel_ptsz(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, NULL));
    v = 0;                            /* parameters were taken at the launch */
    OK(cuMemcpyDtoH_v2(out, p, 256)); /* the per-thread stream is a blocking one */
    assert_int_equal(out[0], 4);
    v = 6;
    OK(cuLaunchCooperativeKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, args));
    OK(cuMemcpyDtoH_v2(out, p, 256));
    assert_int_equal(out[0], 6);
    IS(cuLaunchCooperativeKernel(f, 1u << 30, 1, 1, 64, 1, 1, 0, NULL, args), COOPERATIVE_LAUNCH_TOO_LARGE);
    IS(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, args, extra), INVALID_VALUE);
    IS(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, NULL), INVALID_VALUE);
    for (size = 15; size <= 17; size += 2)
        IS(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra), LAUNCH_OUT_OF_RESOURCES);
    attrs[1] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, .value.clusterDim = {2, 1, 1}};
    IS(cuLaunchKernelEx(&cfg, f, args, NULL), INVALID_CLUSTER_SIZE);
    attrs[1] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT};
    IS(cuLaunchKernelEx(&cfg, f, args, NULL), INVALID_HANDLE);
    OK(cuEventCreate(&attrs[1].value.programmaticEvent.event, CU_EVENT_DISABLE_TIMING));
    IS(cuLaunchKernelEx(&cfg, f, args, NULL), NOT_SUPPORTED); /* before 9.0 */
    assert_non_null(strstr(detail(), "PROGRAMMATIC_EVENT"));
    attrs[1].id = (CUlaunchAttributeID)77;
    IS(cuLaunchKernelEx(&cfg, f, args, NULL), INVALID_VALUE);
    IS(cuLaunchKernelEx(NULL, f, args, NULL), INVALID_VALUE);
    ctx_end(c);
}

static void test_launch_limits(void **state)
{
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUfunction dyn = get_kernel(&m, "dynsh"), bounded = get_kernel(&m, "bounded"),
               exact = get_kernel(&m, "exact");
    CUstream gone;
    size_t room;
    int v, grid;

    (void)state;
#define LAUNCH(f, gx, gy, gz, bx, by, bz, sh) cuLaunchKernel(f, gx, gy, gz, bx, by, bz, sh, NULL, NULL, NULL)
    IS(LAUNCH(dyn, 0, 1, 1, 1, 1, 1, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 1, 1, 1, 0, 1, 1, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 1, 65536, 1, 1, 1, 1, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 0x80000000u, 1, 1, 1, 1, 1, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 1, 1, 1, 1025, 1, 1, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 1, 1, 1, 1, 1, 65, 64), INVALID_VALUE);
    IS(LAUNCH(dyn, 1, 1, 1, 64, 64, 1, 64), INVALID_VALUE);
    OK(LAUNCH(dyn, 1, 1, 1, 1024, 1, 1, 64));
    OK(LAUNCH(dyn, 1, 1, 1, 1, 1, 1, 49152));
    IS(LAUNCH(dyn, 1, 1, 1, 1, 1, 1, 49153), INVALID_VALUE);
    OK(cuFuncSetAttribute(dyn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000));
    OK(LAUNCH(dyn, 1, 1, 1, 1, 1, 1, 100000));
    IS(LAUNCH(dyn, 1, 1, 1, 1, 1, 1, 100001), INVALID_VALUE);
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0));
    OK(cuFuncSetAttribute(dyn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, v));
    IS(cuFuncSetAttribute(dyn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, v + 1), INVALID_VALUE);
    IS(cuFuncSetAttribute(dyn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1), INVALID_VALUE);
    IS(cuFuncSetAttribute(dyn, CU_FUNC_ATTRIBUTE_NUM_REGS, 4), INVALID_VALUE);
    OK(LAUNCH(bounded, 1, 1, 1, 64, 1, 1, 0));
    IS(LAUNCH(bounded, 1, 1, 1, 65, 1, 1, 0), INVALID_VALUE);
    OK(LAUNCH(exact, 1, 1, 1, 32, 1, 1, 0));
    IS(LAUNCH(exact, 1, 1, 1, 64, 1, 1, 0), INVALID_VALUE);
    IS(LAUNCH(NULL, 1, 1, 1, 1, 1, 1, 0), INVALID_HANDLE);
    IS(LAUNCH((CUfunction)m, 1, 1, 1, 1, 1, 1, 0), INVALID_HANDLE);
    OK(cuStreamCreate(&gone, 0));
    OK(cuStreamDestroy_v2(gone));
    IS(cuLaunchKernel(dyn, 1, 1, 1, 1, 1, 1, 64, gone, NULL, NULL), INVALID_HANDLE);
    OK(cuCtxSynchronize());
    OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, bounded));
    assert_int_equal(v, 64);
    IS(cuFuncGetAttribute(&v, (CUfunction_attribute)99, bounded), INVALID_VALUE);
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, dyn, 1024, 0));
    assert_int_equal(v, 2); /* 2048 threads per multiprocessor */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, dyn, 128, 100000));
    assert_int_equal(v, 1); /* 164 KiB of shared memory */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, bounded, 128, 0));
    assert_int_equal(v, 0);
    IS(cuOccupancyMaxActiveBlocksPerMultiprocessor(&v, dyn, 0, 0), INVALID_VALUE);
    OK(cuOccupancyMaxPotentialBlockSize(&grid, &v, bounded, NULL, 0, 0));
    assert_int_equal(v, 64);
    OK(cuOccupancyAvailableDynamicSMemPerBlock(&room, dyn, 1, 128));
    assert_int_equal(room, 166912);
    OK(cuFuncLoad(dyn));
    ctx_end(c);
}

/* Whatever a kernel needs: a block as large as it says it takes fits, as a compiler sees to. */
static void test_registers_fit(void **state)
{
    static const char head
        [] = ".version 7.0\n.target sm_75\n.address_size 64\n",
    one[] =
        ".visible .entry k%u(.param .u64 p)\n.maxntid %u, 1, 1\n{\n.reg .b32 %%r<301>; .reg .b64 %%d<2>;\n"
        "ld.param.u64 %%d1, [p];\n";
    CUcontext c = ctx_begin();
    char *text = malloc(32 * 32768), *at = text, name[8];
    CUmodule m;
    CUfunction f;
    int n, regs;

    (void)state;
    at += sprintf(at, "%s", head);
    for (unsigned threads = 32; threads <= 1024; threads += 32) {
        at += sprintf(at, one, threads, threads);
        for (int i = 0; i < 300; i++)
            at += sprintf(at, "ld.global.u32 %%r%d, [%%d1+%d];\n", i, 4 * i);
        for (int i = 299; i >= 0; i--)
            at += sprintf(at, "st.global.u32 [%%d1+%d], %%r%d;\n", 4 * i, i);
        at += sprintf(at, "ret;\n}\n");
    }
    OK(cuModuleLoadData(&m, text));
    for (unsigned threads = 32; threads <= 1024; threads += 32) {
        sprintf(name, "k%u", threads);
        OK(cuModuleGetFunction(&f, m, name));
        OK(cuFuncGetAttribute(&regs, CU_FUNC_ATTRIBUTE_NUM_REGS, f));
        assert_uint_in_range(regs, 64, 255);
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, (int)threads, 0));
        assert_uint_in_range(n, 1, 32);
    }
    OK(cuModuleUnload(m));
    free(text);
    ctx_end(c);
}

static void test_launch_is_async(void **state)
{
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUfunction spin = get_kernel(&m, "spin"), fill = get_kernel(&m, "fill");
    volatile uint32_t *flag;
    CUdeviceptr p, q;
    void *args[] = {&p};
    CUstream a, b;
    uint32_t v = 0;

    (void)state;
    OK(cuMemHostAlloc((void **)&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
    *flag = 0;
    OK(cuMemHostGetDevicePointer_v2(&p, (void *)flag, 0));
    OK(cuMemAlloc_v2(&q, 4000));
    OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, a, args, NULL));
    launch_fill(fill, q, 11, 1000, a);
    IS(cuStreamQuery(a), NOT_READY);
    launch_fill(fill, q, 10, 1000, b); /* two streams at once */
    OK(cuStreamSynchronize(b));
    OK(cuMemcpyDtoH_v2(&v, q, 4));
    assert_int_equal(v, 10);
    IS(cuStreamQuery(a), NOT_READY);
    *flag = 1;
    OK(cuStreamSynchronize(a));
    OK(cuMemcpyDtoH_v2(&v, q + 3996, 4));
    assert_int_equal(v, 11);
    OK(cuMemFreeHost((void *)flag));
    ctx_end(c);
}

static void fault(CUresult want, const char *kernel, CUdeviceptr p, const char *says)
{
    CUcontext bad = ctx_begin(), good;
    CUmodule m = NULL;
    CUfunction f = get_kernel(&m, kernel);
    void *args[] = {&p};
    CUevent e;
    CUdeviceptr q;
    const char *s;
    int v;

    OK(cuEventCreate(&e, 0));
    OK(cuMemAlloc_v2(&q, 64));
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL)); /* the error comes later */
    usleep(5000);
    OK(cuMemsetD8Async(q, 1, 64, NULL)); /* until something waits, however late that is */
    OK(cuEventRecord(e, NULL));
    assert_int_equal(cuCtxSynchronize(), want);
    assert_non_null(strstr(detail(), says));
    assert_int_equal(cuMemAlloc_v2(&q, 64), want);
    assert_int_equal(cuMemcpyDtoH_v2(&v, q, 4), want);
    assert_int_equal(cuStreamSynchronize(NULL), want);
    assert_int_equal(cuStreamQuery(NULL), want);
    assert_int_equal(cuEventRecord(e, NULL), want);
    assert_int_equal(cuModuleUnload(m), want);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL), want);
    assert_int_equal(cuCtxSynchronize(), want);
    OK(cuGetErrorString(want, &s));
    OK(cuDriverGetVersion(&v));
    OK(cuDeviceGetCount(&v));
    OK(cuCtxGetCurrent(&good));
    good = ctx_begin(); /* another context is not concerned */
    OK(cuMemAlloc_v2(&q, 64));
    OK(cuMemsetD8_v2(q, 1, 64));
    OK(cuCtxSynchronize());
    OK(cuCtxDestroy_v2(good));
    ctx_end(bad);
}

static void test_device_errors(void **state)
{
    (void)state;
    fault(CUDA_ERROR_ILLEGAL_ADDRESS, "oob", 0x10, "oob");
    fault(CUDA_ERROR_ILLEGAL_ADDRESS, "oob", 0x200010000000ull + (1u << 20), "oob");
    fault(CUDA_ERROR_MISALIGNED_ADDRESS, "oob", 0x200010000001ull, "oob");
    fault(CUDA_ERROR_LAUNCH_FAILED, "trapped", 0, "trapped");
}

/* Behind the end of an allocation, and into freed memory. */
static void test_bounds_in_kernels(void **state)
{
    CUcontext c;
    CUmodule m = NULL;
    CUdeviceptr p, behind;
    void *args[] = {&behind};

    (void)state;
    for (int i = 0; i < 2; i++) {
        c = ctx_begin();
        m = NULL;
        CUfunction f = get_kernel(&m, "oob");

        OK(cuMemAlloc_v2(&p, 100));
        behind = p + 96;
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        OK(cuCtxSynchronize());
        behind = i ? p : p + 100;
        if (i)
            OK(cuMemFree_v2(p));
        OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
        IS(cuCtxSynchronize(), ILLEGAL_ADDRESS);
        ctx_end(c);
    }
}

const struct CMUnitTest module_tests[] = {
    cmocka_unit_test(test_module),
    cmocka_unit_test(test_bad_images),
    cmocka_unit_test(test_sass),
    cmocka_unit_test(test_library),
    cmocka_unit_test(test_library_survives_reset),
    cmocka_unit_test(test_launch_forms),
    cmocka_unit_test(test_launch_limits),
    cmocka_unit_test(test_registers_fit),
    cmocka_unit_test(test_launch_is_async),
    cmocka_unit_test(test_device_errors),
    cmocka_unit_test(test_bounds_in_kernels),
    cmocka_unit_test(test_linker),
    cmocka_unit_test(test_linker_inputs),
    cmocka_unit_test(test_linker_sum),
};
const size_t n_module_tests = sizeof(module_tests) / sizeof(module_tests[0]);

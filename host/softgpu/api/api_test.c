/* SPDX-License-Identifier: MIT */
/*
 * The driver API through the built library: initialisation, devices, contexts, options, errors.
 * Memory, streams and modules are in the other files of this program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/api_test.h"
#include "softgpu/newer.h"

/* ---- before cuInit ---- */

static void test_before_init(void **state)
{
    CUdeviceptr p;
    CUcontext c;
    const char *s;
    int v;

    (void)state;
    IS(cuDeviceGetCount(&v), NOT_INITIALIZED);
    IS(cuDeviceGet(&v, 0), NOT_INITIALIZED);
    IS(cuDeviceGetCount(NULL), NOT_INITIALIZED);
    IS(cuCtxGetCurrent(&c), NOT_INITIALIZED);
    IS(cuCtxCreate_v2(&c, 0, 0), NOT_INITIALIZED);
    p = 7;
    IS(cuMemAlloc_v2(&p, 4), NOT_INITIALIZED);
    assert_int_equal(p, 0);                     /* what allocates sets its output in any case */
    OK(cuMemGetAddressRange_v2(NULL, NULL, 0)); /* nothing is asked for */
    IS(cuStreamSynchronize(NULL), NOT_INITIALIZED);
    IS(cuEventQuery(NULL), NOT_INITIALIZED);
    IS(cuGraphCreate(NULL, 0), NOT_INITIALIZED);
    IS(cuTexObjectDestroy(0), NOT_INITIALIZED);
    /* These look at NULL first (driver 580). */
    IS(cuCtxGetFlags(NULL), INVALID_VALUE);
    IS(cuLibraryGetKernelCount(NULL, NULL), INVALID_VALUE);
    IS(cuLibraryUnload(NULL), INVALID_HANDLE);
    IS(cuLinkDestroy(NULL), INVALID_HANDLE);
    OK(cuDriverGetVersion(&v));
    assert_int_equal(v, VGP_API_VERSION);
    IS(cuDriverGetVersion(NULL), INVALID_VALUE);
    OK(cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &s));
    assert_string_equal(s, "CUDA_ERROR_ILLEGAL_ADDRESS");
    IS(cuInit(1), INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
}

/* ---- exports ---- */

/* Every function that cuda.h declares must be there; the names come from the preprocessor. */
static void test_exports_complete(void **state)
{
    const char *home = getenv("CUDA_HOME"), *cc = getenv("CC");
    char cmd[1024], name[256];
    int n = 0, missing = 0;

    (void)state;
    snprintf(cmd, sizeof(cmd),
             "printf '#define __CUDA_API_VERSION_INTERNAL\\n#include <cuda.h>\\n"
             "#include <cudaProfiler.h>\\n' | %s -I%s/include -E -P - | tr -s '\\n\\t ' '   ' | "
             "grep -oE 'CUresult +cu[A-Z][A-Za-z0-9_]* ?\\(' | tr -d '(' | awk '{print $2}' | "
             "sort -u",
             cc ? cc : "cc", home ? home : "/usr/local/cuda");
    FILE *p = popen(cmd, "r");

    assert_non_null(p);
    while (fgets(name, sizeof(name), p)) {
        name[strcspn(name, "\n")] = '\0';
        n++;
        if (!dlsym(RTLD_DEFAULT, name)) {
            print_error("not exported: %s\n", name);
            missing++;
        }
    }
    pclose(p);
    assert_true(n > 500);
    assert_int_equal(missing, 0);
}

static void test_unsupported_says_so(void **state)
{
    const char *(*detail)(void) =
        (const char *(*)(void))(uintptr_t)dlsym(RTLD_DEFAULT, "sg_last_error_detail");

    (void)state;
    assert_non_null(detail);
    IS(cuGraphicsUnregisterResource(NULL), NOT_SUPPORTED);
    assert_string_equal(detail(), "cuGraphicsUnregisterResource: not supported by this device");
}

static void test_proc_address(void **state)
{
    CUdriverProcAddressQueryResult q;
    void *p, *want;

    (void)state;
    OK(cuGetProcAddress_v2("cuMemcpyHtoD", &p, 13000, 0, &q));
    assert_ptr_equal(p, cuMemcpyHtoD_v2);
    assert_int_equal(q, CU_GET_PROC_ADDRESS_SUCCESS);
    OK(cuGetProcAddress_v2("cuMemcpyHtoD", &p, 13000, 2, NULL));
    assert_ptr_equal(p, cuMemcpyHtoD_v2_ptds);
    OK(cuGetProcAddress_v2("cuMemcpyHtoD", &p, 2000, 0, NULL));
    assert_ptr_equal(p, cuMemcpyHtoD);
    OK(cuGetProcAddress_v2("cuDeviceGetUuid", &p, 9020, 0, NULL));
    assert_ptr_equal(p, cuDeviceGetUuid);
    OK(cuGetProcAddress_v2("cuStreamGetCaptureInfo", &p, 11030, 0, NULL));
    assert_ptr_equal(p, cuStreamGetCaptureInfo_v2);
    OK(cuGetProcAddress_v2("cuStreamGetCaptureInfo", &p, 12030, 2, NULL));
    assert_ptr_equal(p, cuStreamGetCaptureInfo_v3_ptsz);
    OK(cuGetProcAddress_v2("cuGetProcAddress", &p, 12000, 0, NULL));
    assert_ptr_equal(p, cuGetProcAddress_v2);
    OK(cuGetProcAddress("cuInit", &p, 13000, 0));
    want = dlsym(RTLD_DEFAULT, "cuInit");
    assert_ptr_equal(p, want);
    OK(cuGetProcAddress_v2("cuNoSuchThing", &p, 13000, 0, &q)); /* the status says it */
    assert_int_equal(q, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    assert_null(p);
    OK(cuGetProcAddress_v2("cuCtxGetDevice", &p, 1000, 0, &q));
    assert_int_equal(q, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    IS(cuGetProcAddress_v2("", &p, 0, 0, NULL), NOT_FOUND);
    IS(cuGetProcAddress_v2(NULL, &p, 13000, 0, NULL), INVALID_VALUE);
    IS(cuGetProcAddress_v2("cuInit", NULL, 13000, 0, NULL), INVALID_VALUE);
    IS(cuGetProcAddress_v2("cuInit", &p, 13000, 64, NULL), INVALID_VALUE);
}

static void test_error_names(void **state)
{
    const char *s = "";
    int named = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        const char *a, *b;
        CUresult r = cuGetErrorName((CUresult)i, &a);

        assert_int_equal(cuGetErrorString((CUresult)i, &b), r);
        assert_true((r == CUDA_SUCCESS) == (a != NULL && b != NULL));
        named += r == CUDA_SUCCESS;
    }
    assert_int_equal(named, 106); /* as many as cuda.h 13.5 has */
    OK(cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &s));
    assert_string_equal(s, "out of memory");
    IS(cuGetErrorName((CUresult)12345, &s), INVALID_VALUE);
    assert_null(s);
    IS(cuGetErrorName(CUDA_SUCCESS, NULL), INVALID_VALUE);
}

/* ---- devices ---- */

static void test_device(void **state)
{
    static const int asked[] = {
        /* what NVIDIA's runtime asks, all of which must succeed */
        75,  76,  40,  16,  18,  19,  21,  77,  22,  23,  73,  74,  70,  71,  72,  45,  46,  24,  25,
        26,  47,  48,  49,  52,  42,  43,  27,  28,  29,  53,  54,  55,  56,  57,  58,  59,  60,  61,
        62,  63,  64,  65,  66,  67,  68,  31,  32,  33,  34,  50,  35,  41,  37,  38,  108, 39,  30,
        51,  8,   97,  81,  12,  82,  10,  11,  1,   2,   3,   4,   5,   6,   7,   9,   14,  78,  79,
        80,  83,  84,  85,  86,  88,  89,  90,  91,  95,  100, 101, 106, 109, 111, 99,  112, 113, 114,
        115, 116, 117, 118, 119, 120, 121, 125, 129, 130, 131, 133, 134, 139, 140, 143, 102, 13,  36};
    char name[256], bus[32];
    size_t bytes;
    CUdevice d;
    CUuuid u;
    int v;

    (void)state;
    OK(cuDeviceGetCount(&v));
    assert_int_equal(v, 1);
    IS(cuDeviceGetCount(NULL), INVALID_VALUE);
    OK(cuDeviceGet(&d, 0));
    IS(cuDeviceGet(&d, 1), INVALID_DEVICE);
    IS(cuDeviceGet(&d, -1), INVALID_DEVICE);
    IS(cuDeviceGet(NULL, 0), INVALID_VALUE);
    memset(name, 'x', sizeof(name));
    OK(cuDeviceGetName(name, sizeof(name), d));
    assert_true(name[strlen(name) + 1] == 0 && name[63] == 0 && name[64] == 'x');
    assert_non_null(strstr(name, "software"));
    OK(cuDeviceGetName(name, 5, d));
    assert_string_equal(name, "vgpu");
    IS(cuDeviceGetName(name, 5, 7), INVALID_DEVICE);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++)
        OK(cuDeviceGetAttribute(&v, (CUdevice_attribute)asked[i], d));
    OK(cuDeviceGetAttribute(&v, (CUdevice_attribute)0x76677001, d)); /* SG_ATTR_LIBRARY_CC */
    assert_int_equal(v, 130);
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d));
    assert_int_equal(v, 8);
    OK(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d));
    assert_true(v >= 1);
    IS(cuDeviceGetAttribute(&v, (CUdevice_attribute)100000, d), INVALID_VALUE);
    IS(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 3), INVALID_DEVICE);
    OK(cuDeviceTotalMem_v2(&bytes, d));
    assert_true(bytes >= 16u << 20);
    OK(cuDeviceGetUuid_v2(&u, d));
    OK(cuDeviceGetPCIBusId(bus, sizeof(bus), d));
    OK(cuDeviceGetByPCIBusId(&d, bus));
    OK(cuDeviceGetByPCIBusId(&d, "f0:00.0"));
    IS(cuDeviceGetByPCIBusId(&d, "01:00.0"), INVALID_DEVICE);
    IS(cuDeviceGetByPCIBusId(&d, "nonsense"), INVALID_VALUE);
    OK(cuDeviceCanAccessPeer(&v, 0, 0));
    assert_int_equal(v, 0);
    IS(cuDeviceCanAccessPeer(&v, 0, 1), INVALID_DEVICE);
}

/* ---- contexts ---- */

static void test_no_context(void **state)
{
    CUdeviceptr p;
    CUstream s;
    CUmodule m;
    CUevent e;
    CUdevice d;
    size_t n;

    (void)state;
    IS(cuCtxGetDevice(&d), INVALID_CONTEXT);
    IS(cuCtxGetDevice_v2(&d, NULL), INVALID_CONTEXT);
    IS(cuMemAlloc_v2(&p, 4), INVALID_CONTEXT);
    IS(cuMemFree_v2(0), INVALID_CONTEXT);
    IS(cuMemGetInfo_v2(&n, &n), INVALID_CONTEXT);
    IS(cuStreamCreate(&s, 0), INVALID_CONTEXT);
    IS(cuStreamSynchronize(NULL), INVALID_CONTEXT);
    IS(cuEventCreate(&e, 0), INVALID_CONTEXT);
    IS(cuModuleLoadData(&m, test_ptx), INVALID_CONTEXT);
    IS(cuCtxSynchronize(), INVALID_CONTEXT);
    IS(cuCtxPopCurrent_v2(NULL), INVALID_CONTEXT);
    IS(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL), INVALID_CONTEXT);
}

static void test_context_stack(void **state)
{
    CUcontext a, b, c;
    unsigned long long ia, ib;
    unsigned v;

    (void)state;
    OK(cuCtxGetCurrent(&c));
    assert_null(c);
    OK(cuCtxCreate_v2(&a, CU_CTX_SCHED_BLOCKING_SYNC, 0));
    OK(cuCtxCreate_v4(&b, NULL, 0, 0));
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, b);
    OK(cuCtxPopCurrent_v2(&c));
    assert_ptr_equal(c, b);
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, a);
    OK(cuCtxGetFlags(&v));
    assert_int_equal(v, CU_CTX_SCHED_BLOCKING_SYNC);
    OK(cuCtxPushCurrent_v2(b));
    OK(cuCtxSetCurrent(a));
    OK(cuCtxGetCurrent(&c));
    assert_ptr_equal(c, a);
    OK(cuCtxGetId(a, &ia));
    OK(cuCtxGetId(b, &ib));
    assert_true(ia != ib);
    OK(cuCtxGetApiVersion(b, &v));
    assert_int_equal(v, 3020);
    OK(cuCtxDestroy_v2(b));
    IS(cuCtxDestroy_v2(b), INVALID_CONTEXT);
    IS(cuCtxSetCurrent(b), INVALID_CONTEXT);
    IS(cuCtxPushCurrent_v2((CUcontext)0x1234), INVALID_CONTEXT);
    IS(cuCtxPushCurrent_v2(NULL), INVALID_VALUE);
    IS(cuCtxGetId((CUcontext)(uintptr_t)-16, &ib), INVALID_CONTEXT);
    IS(cuCtxCreate_v2(&c, 0x3, 0), INVALID_VALUE);
    IS(cuCtxCreate_v2(&c, 0x1000, 0), INVALID_VALUE);
    IS(cuCtxCreate_v2(NULL, 0, 0), INVALID_VALUE);
    IS(cuCtxCreate_v2(&c, 0, 1), INVALID_DEVICE);
    ctx_end(a);
    OK(cuCtxGetCurrent(&c));
    assert_null(c);
}

static void *use_destroyed(void *arg)
{
    struct gate *g = ((void **)arg)[1];
    CUdeviceptr p;

    cuCtxSetCurrent(((void **)arg)[0]);
    gate_wait(g);
    return (void *)(intptr_t)cuMemAlloc_v2(&p, 4);
}

static void test_destroyed_elsewhere(void **state)
{
    struct gate g = GATE_INIT;
    CUcontext a = ctx_begin();
    void *arg[] = {a, &g}, *r;
    pthread_t t;

    (void)state;
    pthread_create(&t, NULL, use_destroyed, arg);
    gate_await(&g);
    ctx_end(a);
    gate_open(&g);
    pthread_join(t, &r);
    assert_int_equal((intptr_t)r, CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

static void test_primary(void **state)
{
    CUcontext p, q;
    CUdeviceptr d;
    unsigned flags;
    int active;

    (void)state;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    IS(cuDevicePrimaryCtxRelease_v2(0), INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, CU_CTX_SCHED_SPIN));
    OK(cuDevicePrimaryCtxRetain(&p, 0));
    OK(cuDevicePrimaryCtxRetain(&q, 0));
    assert_ptr_equal(p, q);
    IS(cuCtxDestroy_v2(p), INVALID_CONTEXT);
    OK(cuCtxSetCurrent(p));
    OK(cuMemAlloc_v2(&d, 100));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 1);
    assert_int_equal(flags, CU_CTX_SCHED_SPIN);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuMemsetD8_v2(d, 0, 100));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    IS(cuMemAlloc_v2(&d, 100), CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&q, 0)); /* the same handle, alive again, empty */
    assert_ptr_equal(p, q);
    IS(cuMemsetD8_v2(d, 0, 100), INVALID_VALUE);
    OK(cuMemAlloc_v2(&d, 100));
    OK(cuDevicePrimaryCtxReset_v2(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    assert_int_equal(active, 0);
    IS(cuMemFree_v2(d), CONTEXT_IS_DESTROYED);
    IS(cuDevicePrimaryCtxRetain(&q, 1), INVALID_DEVICE);
    IS(cuDevicePrimaryCtxRetain(NULL, 0), INVALID_VALUE);
    IS(cuDevicePrimaryCtxSetFlags_v2(0, 0x3), INVALID_VALUE);
    OK(cuDevicePrimaryCtxSetFlags_v2(0, 0));
    OK(cuCtxSetCurrent(NULL));
}

static void test_limits(void **state)
{
    CUcontext c = ctx_begin();
    CUfunc_cache cfg;
    size_t v;
    int lo, hi;

    (void)state;
    OK(cuCtxGetLimit(&v, CU_LIMIT_PRINTF_FIFO_SIZE));
    assert_int_equal(v, 1 << 20);
    OK(cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 123456));
    OK(cuCtxGetLimit(&v, CU_LIMIT_MALLOC_HEAP_SIZE));
    assert_int_equal(v, 123456);
    OK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT, (size_t)1 << 40));
    OK(cuCtxGetLimit(&v, CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT));
    assert_int_equal(v, 65536);
    OK(cuCtxGetLimit(&v, CU_LIMIT_CIG_ENABLED));
    assert_int_equal(v, 0);
    IS(cuCtxSetLimit(CU_LIMIT_CIG_ENABLED, 1), INVALID_VALUE);
    IS(cuCtxSetLimit((CUlimit)99, 1), INVALID_VALUE);
    IS(cuCtxGetLimit(&v, (CUlimit)99), INVALID_VALUE);
    IS(cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), INVALID_VALUE);
    OK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1));
    OK(cuCtxGetCacheConfig(&cfg));
    assert_int_equal(cfg, CU_FUNC_CACHE_PREFER_L1);
    OK(cuCtxGetStreamPriorityRange(&lo, &hi));
    assert_true(hi < lo);
    OK(cuCtxGetStreamPriorityRange(NULL, NULL));
    IS(cuCtxEnablePeerAccess(c, 0), PEER_ACCESS_UNSUPPORTED);
    IS(cuCtxEnablePeerAccess(c, 1), INVALID_VALUE);
    IS(cuCtxDisablePeerAccess(c), PEER_ACCESS_NOT_ENABLED);
    IS(cuCtxEnablePeerAccess(NULL, 0), INVALID_CONTEXT);
    ctx_end(c);
}

/* ---- options: each set in a process of its own ---- */

static int report(void)
{
    int major, minor, sms, shared;
    size_t bytes;
    CUdevice d;
    CUresult r = cuInit(0);

    if (r != CUDA_SUCCESS) {
        printf("init %d\n", r);
        return 0;
    }
    cuDeviceGet(&d, 0);
    cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d);
    cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d);
    cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, d);
    cuDeviceGetAttribute(&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, d);
    cuDeviceTotalMem_v2(&bytes, d);
    printf("%d.%d %d %zu %d\n", major, minor, shared, bytes, sms);
    return 0;
}

/* A kernel that never ends, under the watchdog of the environment. */
static int spin_for_ever(void)
{
    CUcontext c;
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    void *args[] = {&p};

    if (cuInit(0) || cuCtxCreate_v2(&c, 0, 0) || cuModuleLoadData(&m, test_ptx) ||
        cuModuleGetFunction(&f, m, "spin") || cuMemAlloc_v2(&p, 4) ||
        cuLaunchKernel(f, 4, 1, 1, 64, 1, 1, 0, NULL, args, NULL))
        return 1;
    printf("%d\n", cuCtxSynchronize());
    return 0;
}

static void test_options(void **state)
{
    static const struct {
        const char *env, *says;
    } cases[] = {
        {"VGPU_SOFT_CC=7.5 VGPU_SOFT_THREADS=3", "7.5 65536 4294967296 3\n"},
        {"VGPU_SOFT_CC=9.0 VGPU_SOFT_THREADS=1", "9.0 232448 4294967296 1\n"},
        {"VGPU_SOFT_CC=12.0 VGPU_SOFT_THREADS=256", "12.0 101376 4294967296 256\n"},
        {"VGPU_SOFT_CC=13.0 VGPU_SOFT_THREADS=2", "13.0 101376 4294967296 2\n"},
        {"VGPU_SOFT_MEMORY=16M VGPU_SOFT_THREADS=2", "8.0 166912 16777216 2\n"},
        {"VGPU_SOFT_MEMORY=4096G VGPU_SOFT_THREADS=2", "8.0 166912 4398046511104 2\n"},
        {"VGPU_SOFT_CC=8.0, VGPU_SOFT_THREADS=2", "init 1\n"},
        {"VGPU_SOFT_CC=8.0,8.0,8.0,8.0,8.0,8.0,8.0,8.0,8.0", "init 1\n"},
        {"VGPU_SOFT_CC=9.0,8.0,8.0,8.0,8.0,8.0,8.0,8.0 VGPU_SOFT_THREADS=1", "9.0 232448 4294967296 1\n"},
        {"VGPU_SOFT_CC=8.6 VGPU_SOFT_THREADS=2", "8.6 101376 4294967296 2\n"},
        {"VGPU_SOFT_CC=8.9 VGPU_SOFT_THREADS=2", "8.9 101376 4294967296 2\n"},
        {"VGPU_SOFT_CC=8.7", "init 1\n"},
        {"VGPU_SOFT_ATOMICS=relaxed VGPU_SOFT_THREADS=2", "8.0 166912 4294967296 2\n"},
        {"VGPU_SOFT_ATOMICS=wild", "init 1\n"},
        {"VGPU_SOFT_LIBRARY_CC=12.0x", "init 1\n"},
        {"VGPU_SOFT_LIBRARY_CC=4.9", "init 1\n"},
        {"VGPU_SOFT_LIBRARY_CC=13", "init 1\n"},
        {"VGPU_SOFT_LIBRARY_CC=on", "init 1\n"},
        {"VGPU_SOFT_MEMORY=15M", "init 1\n"},
        {"VGPU_SOFT_MEMORY=4097G", "init 1\n"},
        {"VGPU_SOFT_MEMORY=lots", "init 1\n"},
        {"VGPU_SOFT_MEMORY=99999999999999999999", "init 1\n"},
        {"VGPU_SOFT_THREADS=0", "init 1\n"},
        {"VGPU_SOFT_THREADS=257", "init 1\n"},
        {"VGPU_SOFT_WATCHDOG=-1", "init 1\n"},
        {"VGPU_SOFT_WATCHDOG=1M", "702\n"}, /* CUDA_ERROR_LAUNCH_TIMEOUT */
    };
    char self[256], cmd[512], line[128];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

    (void)state;
    assert_true(n > 0);
    self[n] = '\0';
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        snprintf(cmd, sizeof(cmd), "%s %s --%s 2>/dev/null", cases[i].env, self,
                 strlen(cases[i].says) == 4 ? "spin" : "report");
        FILE *p = popen(cmd, "r");

        assert_non_null(p);
        assert_non_null(fgets(line, sizeof(line), p));
        assert_int_equal(pclose(p), 0);
        assert_string_equal(line, cases[i].says);
    }
}

/* ---- fork ---- */

static void test_fork(void **state)
{
    int status;
    pid_t pid;

    (void)state;
    fflush(stdout);
    pid = fork();
    if (!pid) {
        int n;

        _exit(cuDeviceGetCount(&n) == CUDA_ERROR_NOT_INITIALIZED && cuInit(0) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static const struct CMUnitTest base_tests[] = {
    cmocka_unit_test(test_before_init),
    cmocka_unit_test(test_exports_complete),
    cmocka_unit_test(test_unsupported_says_so),
    cmocka_unit_test(test_proc_address),
    cmocka_unit_test(test_error_names),
    cmocka_unit_test(test_device),
    cmocka_unit_test(test_no_context),
    cmocka_unit_test(test_context_stack),
    cmocka_unit_test(test_destroyed_elsewhere),
    cmocka_unit_test(test_primary),
    cmocka_unit_test(test_limits),
    cmocka_unit_test(test_fork),
    cmocka_unit_test(test_options),
    cmocka_unit_test(test_devices),
    cmocka_unit_test(test_green),
    cmocka_unit_test(test_green_ends),
    cmocka_unit_test(test_ends_during_load),
};

int main(int argc, char **argv)
{
    int failed = 0;

    if (argc == 2 && !strcmp(argv[1], "--report"))
        return report();
    if (argc == 2 && !strcmp(argv[1], "--spin"))
        return spin_for_ever();
    if (argc == 2 && !strcmp(argv[1], "--devices"))
        return devices_main();
    if (argc == 2 && !strcmp(argv[1], "--newer"))
        return newer_main();
    if (argc == 2 && !strcmp(argv[1], "--clusters"))
        return clusters_main();
    if (argc == 2 && !strcmp(argv[1], "--green"))
        return green_main();
    if (argc == 2 && !strcmp(argv[1], "--branch"))
        return branch_main();

    setvbuf(stdout, NULL, _IOLBF, 0);
    failed += cmocka_run_group_tests(base_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("memory", memory_tests, n_memory_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("stale memory", stale_tests, n_stale_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("freed at once", at_once_tests, n_at_once_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("staged copies", staged_tests, n_staged_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("arrays", array_tests, n_array_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("textures", tex_tests, n_tex_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("nested", nested_tests, n_nested_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("occupancy", occupancy_tests, n_occupancy_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("streams", stream_tests, n_stream_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("thread", thread_tests, n_thread_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("watch", watch_tests, n_watch_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("graphs", graph_tests, n_graph_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("graph nodes", gnode_tests, n_gnode_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("graph branches", gbranch_tests, n_gbranch_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("graph lifetimes", glifetime_tests, n_glifetime_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("user objects", guser_tests, n_guser_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("work of graphs", gwork_tests, n_gwork_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("modules", module_tests, n_module_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("libraries", library_tests, n_library_tests, NULL, NULL);
    failed += _cmocka_run_group_tests("targets", target_tests, n_target_tests, NULL, NULL);
    return failed != 0;
}

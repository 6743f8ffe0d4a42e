/* SPDX-License-Identifier: MIT */
/*
 * Several devices in one process. They come from the environment, which cuInit reads once: so the
 * checks run in a process of their own, which says "right" or which line is wrong.
 */
#include <unistd.h>

#include "api/api_test.h"

#define NEED(cond) \
    do { \
        if (!(cond)) \
            return __LINE__; \
    } while (0)

/* Writes the capability that it was translated for: two texts in one image. */
#define TEXT(sm) \
    ".version 9.0\n.target sm_" #sm "\n.address_size 64\n.visible .entry tell(.param .u64 p) {\n" \
    ".reg .b64 %rd1; .reg .b32 %r1;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, " #sm ";\n" \
    "st.global.u32 [%rd1], %r1;\nret;\n}\n"

static size_t entry(uint8_t *at, uint32_t arch, const char *text)
{
    uint64_t n = (strlen(text) + 8) & ~7ull;
    uint32_t kind = 0x01010001, header = 64;

    memset(at, 0, 64 + n);
    memcpy(at, &kind, 4);
    memcpy(at + 4, &header, 4);
    memcpy(at + 8, &n, 8);
    memcpy(at + 28, &arch, 4);
    memcpy(at + 64, text, strlen(text));
    return 64 + n;
}

static const void *two_texts(void)
{
    static uint8_t blob[4096] __attribute__((aligned(8)));
    uint32_t magic = 0xBA55ED50u, v = 0x00100001;
    uint64_t n = entry(blob + 16, 80, TEXT(80));

    n += entry(blob + 16 + n, 120, TEXT(120));
    memcpy(blob, &magic, 4);
    memcpy(blob + 4, &v, 4);
    memcpy(blob + 8, &n, 8);
    return blob;
}

static int run(CUfunction f, CUdeviceptr p, uint32_t want)
{
    void *args[] = {&p};
    uint32_t v = 0;

    NEED(!cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    NEED(!cuMemcpyDtoH_v2(&v, p, 4) && v == want);
    return 0;
}

static int properties(void)
{
    static const int major[] = {8, 13, 8};
    CUuuid u[3];
    char bus[32];
    CUdevice d;
    int n;

    NEED(!cuDeviceGetCount(&n) && n == 3);
    NEED(cuDeviceGet(&d, 3) == CUDA_ERROR_INVALID_DEVICE);
    for (int i = 0; i < 3; i++) {
        NEED(!cuDeviceGet(&d, i) && d == i);
        NEED(!cuDeviceGetAttribute(&n, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d) && n == major[i]);
        NEED(!cuDeviceGetUuid_v2(&u[i], d));
        NEED(!cuDeviceGetPCIBusId(bus, sizeof(bus), d));
        d = 9;
        NEED(!cuDeviceGetByPCIBusId(&d, bus) && d == i);
        NEED(!cuDeviceCanAccessPeer(&n, i, (i + 1) % 3) && n == 1);
        NEED(!cuDeviceCanAccessPeer(&n, i, i) && n == 0);
        NEED(!cuDeviceGetP2PAttribute(&n, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, i, (i + 1) % 3) &&
             n == 1);
    }
    NEED(memcmp(&u[0], &u[1], sizeof(u[0])) && memcmp(&u[0], &u[2], sizeof(u[0])));
    return 0;
}

static int memory(CUcontext c[3], CUdeviceptr p[3])
{
    size_t free0, free1, total;
    CUmemoryPool pool[2];
    CUdeviceptr q;
    uint32_t v;
    int n;

    NEED(!cuCtxSetCurrent(c[1]) && !cuMemGetInfo_v2(&free1, &total) && total == 64u << 20);
    NEED(!cuCtxSetCurrent(c[0]) && !cuMemGetInfo_v2(&free0, &total));
    NEED(!cuMemAlloc_v2(&q, 60u << 20)); /* each has its own memory */
    NEED(cuMemAlloc_v2(&p[0], 60u << 20) == CUDA_ERROR_OUT_OF_MEMORY);
    NEED(!cuCtxSetCurrent(c[1]) && !cuMemGetInfo_v2(&free0, &total) && free0 == free1);
    NEED(!cuMemAlloc_v2(&p[1], 60u << 20) && !cuMemFree_v2(p[1]));
    NEED(!cuCtxSetCurrent(c[0]) && !cuMemFree_v2(q));
    for (int i = 0; i < 3; i++) {
        NEED(!cuCtxSetCurrent(c[i]) && !cuMemAlloc_v2(&p[i], 64));
        NEED(!cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[i]) && n == i);
        NEED(!cuMemsetD32_v2(p[i], 100 + (unsigned)i, 16));
    }
    NEED(!cuMemcpyPeer(p[0], c[0], p[1], c[1], 32)); /* copies cross; kernels do not yet */
    NEED(!cuMemcpyDtoH_v2(&v, p[0], 4) && v == 101);
    NEED(!cuDeviceGetDefaultMemPool(&pool[0], 0) && !cuDeviceGetDefaultMemPool(&pool[1], 1) &&
         pool[0] != pool[1]);
    NEED(cuDeviceSetMemPool(0, pool[1]) == CUDA_ERROR_INVALID_VALUE);
    NEED(!cuCtxSetCurrent(c[1]) && !cuMemAllocAsync(&q, 64, NULL));
    NEED(!cuPointerGetAttribute(&n, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q) && n == 1);
    NEED(!cuMemFreeAsync(q, NULL));
    NEED(cuMemAllocFromPoolAsync(&q, 64, pool[0], NULL) == CUDA_ERROR_INVALID_VALUE);
    return 0;
}

/* Each device runs what was written for it, by module and by library. */
static int code(CUcontext c[3], CUdeviceptr p[3])
{
    static const uint32_t want[] = {80, 120, 80};
    CUlibrary lib;
    CUkernel k;
    int line;

    NEED(!cuLibraryLoadData(&lib, two_texts(), NULL, NULL, 0, NULL, NULL, 0));
    NEED(!cuLibraryGetKernel(&k, lib, "tell"));
    for (int i = 2; i >= 0; i--) {
        CUfunction f, g;
        CUmodule m;

        NEED(!cuCtxSetCurrent(c[i]) && !cuModuleLoadData(&m, two_texts()));
        NEED(!cuModuleGetFunction(&f, m, "tell") && !cuKernelGetFunction(&g, k));
        line = run(f, p[i], want[i]);
        if (!line)
            line = run(g, p[i], want[i]);
        if (!line)
            line = run((CUfunction)k, p[i], want[i]);
        if (line)
            return line;
        NEED(!cuCtxSetCurrent(c[(i + 1) % 3]));
        NEED(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p[i]}, NULL) ==
             CUDA_ERROR_INVALID_HANDLE);
    }
    NEED(!cuLibraryUnload(lib));
    return 0;
}

/* Kernels reach the memory of a context that they were allowed to, one way. */
static int peers(CUcontext c[3], CUdeviceptr p[3])
{
    CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                              .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUmemLocation one = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1};
    CUmemAccess_flags flags;
    CUmemoryPool pool;
    CUfunction f;
    CUmodule m;

    NEED(!cuCtxSetCurrent(c[0]) && !cuModuleLoadData(&m, two_texts()));
    NEED(!cuModuleGetFunction(&f, m, "tell"));
    NEED(cuCtxDisablePeerAccess(c[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    NEED(cuCtxEnablePeerAccess(c[0], 0) == CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    NEED(cuCtxEnablePeerAccess(c[1], 1) == CUDA_ERROR_INVALID_VALUE);
    NEED(!cuCtxEnablePeerAccess(c[1], 0));
    NEED(cuCtxEnablePeerAccess(c[1], 0) == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    NEED(!cuMemsetD32_v2(p[1], 7, 1) && !run(f, p[1], 80)); /* device 0 writes where 1's memory is */
    NEED(!cuCtxDisablePeerAccess(c[1]));
    NEED(cuCtxDisablePeerAccess(c[1]) == CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    NEED(!cuDeviceGetDefaultMemPool(&pool, 0));
    NEED(!cuMemPoolGetAccess(&flags, pool, &one) && !flags);
    NEED(!cuMemPoolSetAccess(pool, &access, 1));
    NEED(!cuMemPoolGetAccess(&flags, pool, &one) && flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    NEED(!cuMemPoolSetAccess(pool, &access, 1));
    NEED(!cuMemPoolGetAccess(&flags, pool, &one) && !flags);
    access.location.id = 0;
    NEED(cuMemPoolSetAccess(pool, &access, 1) == CUDA_ERROR_INVALID_DEVICE);
    return 0;
}

/* A failed kernel concerns its own device; memory of another is out of reach. */
static int failure(CUcontext c[3], CUdeviceptr p[3])
{
    CUfunction f;
    CUmodule m;

    NEED(!cuCtxSetCurrent(c[2]) && !cuModuleLoadData(&m, two_texts()));
    NEED(!cuModuleGetFunction(&f, m, "tell"));
    NEED(!cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, (void *[]){&p[0]}, NULL));
    NEED(cuCtxSynchronize() == CUDA_ERROR_ILLEGAL_ADDRESS);
    NEED(!cuCtxSetCurrent(c[0]) && !cuMemsetD32_v2(p[0], 1, 16) && !cuCtxSynchronize());
    return 0;
}

int devices_main(void)
{
    CUcontext c[3];
    CUdeviceptr p[3];
    CUdevice d;
    int line = cuInit(0) ? __LINE__ : properties();

    for (int i = 0; i < 3 && !line; i++) {
        if (cuDevicePrimaryCtxRetain(&c[i], i) || cuCtxSetCurrent(c[i]) || cuCtxGetDevice(&d) || d != i)
            line = __LINE__;
    }
    if (!line)
        line = memory(c, p);
    if (!line)
        line = code(c, p);
    if (!line)
        line = peers(c, p);
    if (!line)
        line = failure(c, p);
    if (line)
        printf("line %d\n", line);
    else
        printf("right\n");
    return 0;
}

void test_alone(const char *options, const char *argument)
{
    char self[256], cmd[512], line[128];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    FILE *p;

    assert_true(n > 0);
    self[n] = '\0';
    snprintf(cmd, sizeof(cmd), "%s %s %s", options, self, argument);
    p = popen(cmd, "r");
    assert_non_null(p);
    assert_non_null(fgets(line, sizeof(line), p));
    assert_int_equal(pclose(p), 0);
    assert_string_equal(line, "right\n");
}

void test_devices(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_CC=8.0,13.0,8.0 VGPU_SOFT_MEMORY=64M", "--devices");
}

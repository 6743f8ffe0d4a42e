/* SPDX-License-Identifier: MIT */
/*
 * Multiprocessors as a resource, where there are enough of them: the guideline of cuda.h for each
 * architecture, what is left over, and kernels that stay where they belong. In a process of its
 * own, which says "right" or which line is wrong (api/device/devices_test.c).
 */
#include "api/api_test.h"
#include "softgpu/newer.h"

#include <stdatomic.h>
#include <unistd.h>

#define NEED(cond) \
    do { \
        if (!(cond)) \
            return __LINE__; \
    } while (0)
#define SM CU_DEV_RESOURCE_TYPE_SM
#define FINE CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING
#define CLUSTER CU_DEV_SM_RESOURCE_SPLIT_MAX_POTENTIAL_CLUSTER_SIZE
#define BLOCKS 200u

/* p[block] = %smid, p[number of blocks] = %nsmid. */
static const char where_ptx[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry where(.param .u64 p) {\n"
    ".reg .b64 %rd<4>; .reg .b32 %r<5>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %ctaid.x;\n"
    "mov.u32 %r2, %smid;\nmul.wide.u32 %rd2, %r1, 4;\nadd.u64 %rd3, %rd1, %rd2;\n"
    "st.global.u32 [%rd3], %r2;\nmov.u32 %r3, %nctaid.x;\nmov.u32 %r4, %nsmid;\n"
    "mul.wide.u32 %rd2, %r3, 4;\nadd.u64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r4;\nret;\n}\n";

static int guideline(CUdevice d, unsigned min, unsigned align, unsigned ask, unsigned size)
{
    CUdevResource all, part[32], left;
    unsigned n = 32;

    NEED(!cuDeviceGetDevResource(d, &all, SM) && all.sm.smCount == 24);
    NEED(all.sm.minSmPartitionSize == min && all.sm.smCoscheduledAlignment == align);
    NEED(!cuDevSmResourceSplitByCount(part, &n, &all, &left, 0, ask) && n == 24 / size);
    for (unsigned i = 0; i < n; i++)
        NEED(part[i].sm.smCount == size);
    NEED(24 % size ? left.sm.smCount == 24 % size : left.type == CU_DEV_RESOURCE_TYPE_INVALID);
    n = 1;
    NEED(!cuDevSmResourceSplitByCount(part, &n, &all, &left, FINE, 3) && n == 1);
    NEED(part[0].sm.smCount == 3 && left.sm.smCount == 21 && left.sm.smCoscheduledAlignment == 1);
    n = 7;
    NEED(!cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, FINE, 0) && n == 24);
    NEED(cuDevSmResourceSplitByCount(NULL, &n, &all, NULL, CLUSTER, 0) ==
         (min == 8 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE));
    return 0;
}

/* What a green context has can be divided further, and its parts are parts of it. */
static int nested(void)
{
    CUdevResource all, part[3], own, small[2], mixed[2], other;
    CUdevResourceDesc d;
    CUgreenCtx g, h;
    unsigned n = 3;

    NEED(!cuDeviceGetDevResource(0, &all, SM));
    NEED(!cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, 8) && n == 3);
    NEED(!cuDevResourceGenerateDesc(&d, &part[1], 2) && !cuGreenCtxCreate(&g, d, 0, 1));
    NEED(!cuGreenCtxGetDevResource(g, &own, SM) && own.sm.smCount == 16);
    n = 2;
    NEED(!cuDevSmResourceSplitByCount(small, &n, &own, NULL, 0, 8) && n == 2);
    mixed[0] = small[0];
    mixed[1] = part[0];
    NEED(cuDevResourceGenerateDesc(&d, mixed, 2) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    mixed[1] = small[0]; /* twice the same */
    NEED(cuDevResourceGenerateDesc(&d, mixed, 2) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    NEED(!cuDeviceGetDevResource(1, &other, SM) && !cuDevResourceGenerateDesc(&d, &other, 1));
    NEED(cuGreenCtxCreate(&h, d, 0, 1) == CUDA_ERROR_INVALID_VALUE); /* of another device */
    NEED(!cuGreenCtxDestroy(g));
    return 0;
}

/* smCount, coscheduledSmCount, preferredCoscheduledSmCount, flags, localityDomainId */
#define GROUP(...) group((const unsigned[16]){__VA_ARGS__})
#define WRONG(g) (cuDevSmResourceSplit(part, 1, &all, NULL, 0, &(g)) == CUDA_ERROR_INVALID_VALUE)
#define NO_ROOM(n, g) \
    (cuDevSmResourceSplit(part, n, &all, NULL, 0, g) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION)

static CU_DEV_SM_RESOURCE_GROUP_PARAMS group(const unsigned *members)
{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS g;

    memcpy(&g, members, sizeof(g));
    return g;
}

/* Groups of different sizes. `most`: that may be scheduled together; `usual`: that are, where
   nothing is said. */
static int groups(CUdevice d, unsigned most, unsigned usual)
{
    CU_DEV_SM_RESOURCE_GROUP_PARAMS g[3], bad[10];
    CUdevResource all, part[3], left, again;
    CUdevResourceDesc desc;

    NEED(!cuDeviceGetDevResource(d, &all, SM) && all.sm.smCount == 24);
    g[0] = GROUP(10, 2);
    g[1] = GROUP(0);
    NEED(!cuDevSmResourceSplit(part, 2, &all, &left, 0, g));
    NEED(part[0].sm.smCount == 10 && g[0].smCount == 10 && g[0].coscheduledSmCount == 2);
    NEED(part[1].sm.smCount == 14 / usual * usual && g[1].smCount == part[1].sm.smCount);
    NEED(14 % usual ? left.sm.smCount == 14 % usual : left.type == CU_DEV_RESOURCE_TYPE_INVALID);
    NEED(!cuDevResourceGenerateDesc(&desc, part, 2));
    /* One by one: what is left is split again, a group is not. */
    g[0] = GROUP(6, 2);
    NEED(!cuDevSmResourceSplit(part, 1, &all, &left, 0, g) && left.sm.smCount == 18);
    NEED(!cuDevSmResourceSplit(&part[1], 1, &left, &again, 0, g) && again.sm.smCount == 12);
    NEED(cuDevSmResourceSplit(&part[1], 1, &part[0], NULL, 0, g) ==
         CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    NEED(cuDevResourceGenerateDesc(&desc, part, 2) == CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION);
    /* Everything else, and how much it would be. */
    g[0] = GROUP(18, 2);
    g[1] = GROUP(0, 2, 0, 1);
    g[2] = GROUP(0, 2);
    NEED(!cuDevSmResourceSplit(part, 2, &all, &left, 0, g) && g[1].smCount == 6);
    NEED(left.type == CU_DEV_RESOURCE_TYPE_INVALID);
    g[1] = GROUP(0, 2, 0, 1);
    NEED(!cuDevSmResourceSplit(NULL, 3, &all, NULL, 0, g) && g[1].smCount == 6 && g[2].smCount == 0);
    /* Refused whole: nothing of it is written. */
    g[1] = GROUP(0, 2, 0, 1);
    NEED(NO_ROOM(3, g) && g[1].smCount == 0);
    g[1] = GROUP(8, 2);
    NEED(NO_ROOM(2, g));
    bad[0] = GROUP(7, 0);
    bad[1] = GROUP(26, 0);
    bad[2] = GROUP(8, 1);
    bad[3] = GROUP(8, most + 2);
    bad[4] = GROUP(8, 2, 3);
    bad[5] = GROUP(8, 2, 0, 8);
    bad[6] = GROUP(8, 2, 0, 0, 1);
    bad[7] = GROUP(8);
    bad[7].reserved[10] = 1;
    bad[8] = GROUP(1, 0);
    bad[9] = GROUP(UINT32_MAX, 0);
    for (unsigned i = 0; i < 10; i++)
        NEED(WRONG(bad[i]));
    bad[0] = GROUP(8, 2, 0, 2); /* a locality domain */
    NEED(NO_ROOM(1, bad));
    return 0;
}

/* The places of blocks in a green context with the multiprocessors from `first` on. */
static int places(CUfunction f, CUgreenCtx g, unsigned first, unsigned count)
{
    unsigned at[BLOCKS + 1];
    CUdeviceptr p;
    CUstream s;

    NEED(!cuMemAlloc_v2(&p, sizeof(at)));
    NEED(!cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    NEED(!cuLaunchKernel(f, BLOCKS, 1, 1, 1, 1, 1, 0, s, (void *[]){&p}, NULL));
    NEED(!cuStreamSynchronize(s) && !cuMemcpyDtoH_v2(at, p, sizeof(at)) && at[BLOCKS] == 24);
    for (unsigned i = 0; i < BLOCKS; i++)
        NEED(at[i] >= first && at[i] < first + count);
    NEED(!cuStreamDestroy_v2(s) && !cuMemFree_v2(p));
    return 0;
}

static int kernels(void)
{
    CUdevResource all, part[3];
    CUdevResourceDesc d;
    CUgreenCtx g[3];
    CUcontext c;
    CUfunction f;
    CUmodule m;
    unsigned n = 3;
    int line = 0;

    NEED(!cuDevicePrimaryCtxRetain(&c, 0) && !cuCtxSetCurrent(c));
    NEED(!cuModuleLoadData(&m, where_ptx) && !cuModuleGetFunction(&f, m, "where"));
    NEED(!cuDeviceGetDevResource(0, &all, SM));
    NEED(!cuDevSmResourceSplitByCount(part, &n, &all, NULL, 0, 8) && n == 3);
    for (unsigned i = 0; i < 3; i++)
        NEED(!cuDevResourceGenerateDesc(&d, &part[i], 1) && !cuGreenCtxCreate(&g[i], d, 0, 1));
    for (unsigned i = 0; i < 3 && !line; i++)
        line = places(f, g[i], 8 * i, 8);
    for (unsigned i = 0; i < 3 && !line; i++)
        NEED(!cuGreenCtxDestroy(g[i]));
    return line;
}

int green_main(void)
{
    int line = cuInit(0) ? __LINE__ : guideline(0, 4, 2, 5, 6);

    if (!line)
        line = guideline(1, 8, 8, 0, 8);
    if (!line)
        line = guideline(2, 2, 2, 1, 2);
    if (!line)
        line = guideline(0, 4, 2, 15, 16);
    if (!line)
        line = nested();
    if (!line)
        line = groups(0, 2, 2);
    if (!line)
        line = groups(1, 32, 8);
    if (!line)
        line = kernels();
    if (line)
        printf("line %d\n", line);
    else
        printf("right\n");
    return 0;
}

void test_green(void **state)
{
    (void)state;
    test_alone("VGPU_SOFT_CC=8.0,9.0,7.5 VGPU_SOFT_THREADS=24 VGPU_SOFT_MEMORY=64M", "--green");
}

static void CUDA_CB wait_for(void *go)
{
    while (!atomic_load((_Atomic bool *)go))
        usleep(100);
}

/* Work in a green context's default stream goes on after the context's last other reference is
   gone. */
void test_green_ends(void **state)
{
    static _Atomic bool go;
    CUdevResource all;
    CUdevResourceDesc d;
    CUstream busy, s;
    CUcontext c;
    CUgreenCtx g;
    CUevent e, held;

    (void)state;
    OK(cuDevicePrimaryCtxRetain(&c, 0));
    OK(cuCtxSetCurrent(c));
    OK(cuDeviceGetDevResource(0, &all, SM));
    OK(cuDevResourceGenerateDesc(&d, &all, 1));
    OK(cuGreenCtxCreate(&g, d, 0, CU_GREEN_CTX_DEFAULT_STREAM));
    OK(cuGreenCtxStreamCreate(&s, g, CU_STREAM_NON_BLOCKING, 0));
    OK(cuEventCreate(&held, CU_EVENT_DISABLE_TIMING));
    OK(cuEventRecord(held, s)); /* names the stream, which names the context */
    OK(cuStreamDestroy_v2(s));
    OK(cuGreenCtxDestroy(g));
    OK(cuStreamCreate(&busy, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&e, CU_EVENT_DISABLE_TIMING));
    OK(cuLaunchHostFunc(busy, wait_for, &go));
    OK(cuEventRecord(e, busy));
    OK(cuCtxWaitEvent(c, e)); /* in every stream of the primary context, those of green ones among them */
    OK(cuEventDestroy_v2(held));
    atomic_store(&go, true);
    OK(cuStreamSynchronize(busy));
    OK(cuCtxSynchronize());
    OK(cuEventDestroy_v2(e));
    OK(cuStreamDestroy_v2(busy));
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuCtxSetCurrent(NULL));
}

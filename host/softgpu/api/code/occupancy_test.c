/* SPDX-License-Identifier: MIT */
/* What fits on a multiprocessor, compared with NVIDIA's calculator (cuda_occupancy.h), and which blocks are launched. */
#include "api/api_test.h"

#include <cuda_occupancy.h>

#define ATTRIBUTE(a) attribute(CU_DEVICE_ATTRIBUTE_##a)

static int attribute(CUdevice_attribute a)
{
    int v;

    OK(cuDeviceGetAttribute(&v, a, 0));
    return v;
}

static cudaOccDeviceProp device_properties(void)
{
    return (cudaOccDeviceProp){
        .computeMajor = ATTRIBUTE(COMPUTE_CAPABILITY_MAJOR),
        .computeMinor = ATTRIBUTE(COMPUTE_CAPABILITY_MINOR),
        .maxThreadsPerBlock = ATTRIBUTE(MAX_THREADS_PER_BLOCK),
        .maxThreadsPerMultiprocessor = ATTRIBUTE(MAX_THREADS_PER_MULTIPROCESSOR),
        .regsPerBlock = ATTRIBUTE(MAX_REGISTERS_PER_BLOCK),
        .regsPerMultiprocessor = ATTRIBUTE(MAX_REGISTERS_PER_MULTIPROCESSOR),
        .warpSize = ATTRIBUTE(WARP_SIZE),
        .sharedMemPerBlock = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK),
        .sharedMemPerMultiprocessor = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
        .numSms = ATTRIBUTE(MULTIPROCESSOR_COUNT),
        .sharedMemPerBlockOptin = (size_t)ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        .reservedSharedMemPerBlock = (size_t)ATTRIBUTE(RESERVED_SHARED_MEMORY_PER_BLOCK),
    };
}

static int of(CUfunction f, CUfunction_attribute a)
{
    int v;

    OK(cuFuncGetAttribute(&v, a, f));
    return v;
}

static cudaOccFuncAttributes function_attributes(CUfunction f)
{
    return (cudaOccFuncAttributes){
        .maxThreadsPerBlock = of(f, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
        .numRegs = of(f, CU_FUNC_ATTRIBUTE_NUM_REGS),
        .sharedSizeBytes = (size_t)of(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        .partitionedGCConfig = PARTITIONED_GC_OFF,
        .shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN,
        .maxDynamicSharedSizeBytes = (size_t)of(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES),
        .numBlockBarriers = 1,
    };
}

static void compare(CUfunction f)
{
    static const size_t dynamic[] = {0, 1, 1000, 5000, 20000, 49152, 70000, 100000};
    const cudaOccDeviceProp p = device_properties();
    const cudaOccDeviceState state = {.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED};

    for (unsigned d = 0; d < sizeof(dynamic) / sizeof(dynamic[0]); d++) {
        const cudaOccFuncAttributes a = function_attributes(f);

        for (int block = 1; block <= a.maxThreadsPerBlock; block += block % 32 == 1 ? 30 : 1) {
            cudaOccResult want = {0};
            int got;

            assert_int_equal(
                cudaOccMaxActiveBlocksPerMultiprocessor(&want, &p, &a, &state, block, dynamic[d]), 0);
            OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&got, f, block, dynamic[d]));
            if (got != want.activeBlocksPerMultiprocessor)
                fail_msg("%d registers, blocks of %d, %zu bytes: %d blocks, the calculator says %d",
                         a.numRegs, block, dynamic[d], got, want.activeBlocksPerMultiprocessor);
        }
    }
}

/* With what is said to be left so many blocks fit, with more they do not. The function may use all. */
static void check_available(CUfunction f)
{
    const int most = of(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);

    for (int blocks = 1; blocks <= 16; blocks++) {
        size_t left;
        int fit, without;

        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&without, f, 32, 0));
        OK(cuOccupancyAvailableDynamicSMemPerBlock(&left, f, blocks, 32));
        if (blocks > without)
            continue; /* so many do not fit for other reasons */
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, f, 32, left));
        if (fit < blocks)
            fail_msg("%zu bytes are left with %d blocks, but %d fit", left, blocks, fit);
        if (left == (size_t)most)
            continue;
        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&fit, f, 32, left + 1));
        if (fit >= blocks)
            fail_msg("%zu bytes are left with %d blocks, but with more %d fit", left, blocks, fit);
    }
}

/* Of kernels with few and many registers, with and without shared memory of their own. */
static void test_calculator(void **state)
{
    static const int registers[] = {0, 20, 27, 36, 44, 60, 75, 90, 120, 160, 200, 240};
    static char text[64 << 10];
    CUcontext c = ctx_begin();

    (void)state;
    for (unsigned i = 0; i < sizeof(registers) / sizeof(registers[0]); i++) {
        char *at = text;
        CUmodule m;
        CUfunction f;

        at += sprintf(at, ".version 7.0\n.target sm_75\n.address_size 64\n"
                          ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<301>; .reg .b64 %%d<2>;\n");
        if (i % 2)
            at += sprintf(at, ".shared .align 4 .b8 own[%d];\n", 700 * (int)i);
        at += sprintf(at, "ld.param.u64 %%d1, [p];\n");
        for (int r = 0; r < registers[i]; r++)
            at += sprintf(at, "ld.global.u32 %%r%d, [%%d1+%d];\n", r, 4 * r);
        for (int r = registers[i] - 1; r >= 0; r--)
            at += sprintf(at, "st.global.u32 [%%d1+%d], %%r%d;\n", 4 * r, r);
        sprintf(at, "ret;\n}\n");
        OK(cuModuleLoadData(&m, text));
        OK(cuModuleGetFunction(&f, m, "k"));
        compare(f);
        OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              ATTRIBUTE(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                                  of(f, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)));
        compare(f);
        check_available(f);
        OK(cuModuleUnload(m));
    }
    ctx_end(c);
}

/* A required block is required in each dimension, also of blocks with as many threads. */
static void test_required_block(void **state)
{
    static const char text[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
                               ".visible .entry shape() .reqntid 4, 3, 2 { ret; }\n"
                               ".visible .entry row() .reqntid 24 { ret; }\n";
    static const struct {
        const char *name;
        unsigned right[3];
    } kinds[] = {{"shape", {4, 3, 2}}, {"row", {24, 1, 1}}};
    CUcontext c = ctx_begin();
    CUmodule m;
    CUfunction f;

    (void)state;
    OK(cuModuleLoadData(&m, text));
    for (unsigned k = 0; k < 2; k++) {
        const unsigned *right = kinds[k].right;

        OK(cuModuleGetFunction(&f, m, kinds[k].name));
        for (unsigned x = 1; x <= 24; x++) {
            for (unsigned y = 1; y <= 6; y++) {
                for (unsigned z = 1; z <= 4; z++) {
                    const bool ok = x == right[0] && y == right[1] && z == right[2];

                    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, x, y, z, 0, NULL, NULL, NULL),
                                     ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
                }
            }
        }
    }
    ctx_end(c);
}

const struct CMUnitTest occupancy_tests[] = {cmocka_unit_test(test_calculator),
                                             cmocka_unit_test(test_required_block)};
const size_t n_occupancy_tests = sizeof(occupancy_tests) / sizeof(occupancy_tests[0]);

// SPDX-License-Identifier: MIT
/*
 * Advice about managed memory, prefetching, discarding, and results of cuMemRangeGetAttribute. A
 * device whose attribute 89 is 0 has no migration: requests that concern a GPU are then
 * INVALID_DEVICE.
 */
#include "conform.h"

#include <unistd.h>

#define PAGE 4096u

static bool migrates(void)
{
    int v = 0;

    NEED(cuDeviceGetAttribute(&v, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 0));
    return v != 0;
}

static int attribute(CUmem_range_attribute a, CUdeviceptr p, size_t n)
{
    int v = -77;

    return cuMemRangeGetAttribute(&v, sizeof(v), a, p, n) == CUDA_SUCCESS ? v : -78;
}

#define READ_MOSTLY(p, n) attribute(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, n)
#define PREFERRED(p, n) attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, n)
#define LAST(p, n) attribute(CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p, n)

CASE(advice_read_mostly, CF_CTX)
{
    CUmemLocation none = {0}, host = {.type = CU_MEM_LOCATION_TYPE_HOST};
    CUdeviceptr m = 0;

    NEED(cuMemAllocManaged(&m, 8 * PAGE, CU_MEM_ATTACH_GLOBAL));
    cf_u64("at_first", (uint64_t)READ_MOSTLY(m, 8 * PAGE), 0);
    /* Documented to be ignored, but it must be a location (driver 580). */
    RC("set_nowhere", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, none), CUDA_ERROR_INVALID_VALUE);
    OK("set", cuMemAdvise(m + PAGE + 5, 2 * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    cf_u64("whole", (uint64_t)READ_MOSTLY(m, 8 * PAGE), 0);
    cf_u64("first", (uint64_t)READ_MOSTLY(m, 1), 0);
    cf_u64("inside", (uint64_t)READ_MOSTLY(m + PAGE, 3 * PAGE), 1); /* rounded to pages */
    cf_u64("behind", (uint64_t)READ_MOSTLY(m + 4 * PAGE, PAGE), 0);
    OK("set_more", cuMemAdvise(m + 4 * PAGE, 4 * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    cf_u64("joined", (uint64_t)READ_MOSTLY(m + PAGE, 7 * PAGE), 1);
    OK("unset", cuMemAdvise(m + 3 * PAGE, 1, CU_MEM_ADVISE_UNSET_READ_MOSTLY, host));
    cf_u64("left", (uint64_t)READ_MOSTLY(m + PAGE, 2 * PAGE), 1);
    cf_u64("hole", (uint64_t)READ_MOSTLY(m + PAGE, 3 * PAGE), 0);
    cf_u64("right", (uint64_t)READ_MOSTLY(m + 4 * PAGE, 4 * PAGE), 1);
    OK("free", cuMemFree(m));
    /* A new allocation, perhaps at the same address, starts without advice. */
    NEED(cuMemAllocManaged(&m, 8 * PAGE, CU_MEM_ATTACH_GLOBAL));
    cf_u64("new", (uint64_t)READ_MOSTLY(m + 4 * PAGE, PAGE), 0);
    OK("free_2", cuMemFree(m));
}

CASE(advice_places, CF_CTX)
{
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST},
                  gpu = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                  wrong = {.type = (CUmemLocationType)77},
                  numa = {.type = CU_MEM_LOCATION_TYPE_HOST_NUMA, .id = 0};
    CUresult device = migrates() ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    CUdeviceptr m = 0;
    int by[3] = {7, 7, 7};

    NEED(cuMemAllocManaged(&m, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
    cf_true("no_preferred", PREFERRED(m, 4 * PAGE) == CU_DEVICE_INVALID);
    cf_true("no_last", LAST(m, 4 * PAGE) == CU_DEVICE_INVALID);
    cf_u64("no_type", (uint64_t)attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, m, 1), 0);
    OK("host", cuMemAdvise(m, 4 * PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    cf_true("host_read", PREFERRED(m, 4 * PAGE) == CU_DEVICE_CPU);
    cf_u64("host_type", (uint64_t)attribute(CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE, m, 1),
           CU_MEM_LOCATION_TYPE_HOST);
    RC_IN("numa", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, numa), CUDA_SUCCESS,
          CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_INVALID_DEVICE);
    OK("host_again", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    cf_true("device", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu) == device);
    cf_true("device_read", PREFERRED(m, PAGE) == (device == CUDA_SUCCESS ? 0 : CU_DEVICE_CPU));
    cf_true("mixed", PREFERRED(m, 4 * PAGE) == (device == CUDA_SUCCESS ? CU_DEVICE_INVALID : CU_DEVICE_CPU));
    RC("none_wrong", cuMemAdvise(m, 4 * PAGE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, wrong),
       CUDA_ERROR_INVALID_VALUE);
    OK("none", cuMemAdvise(m, 4 * PAGE, CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION, host));
    cf_true("none_read", PREFERRED(m, 4 * PAGE) == CU_DEVICE_INVALID);
    RC("wrong", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, wrong), CUDA_ERROR_INVALID_VALUE);
    gpu.id = 77;
    RC("no_device", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, gpu),
       CUDA_ERROR_INVALID_VALUE);
    gpu.id = 0;

    OK("by_host", cuMemAdvise(m, 4 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
    cf_true("by_device", cuMemAdvise(m, 2 * PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu) == device);
    RC("by_numa", cuMemAdvise(m, PAGE, CU_MEM_ADVISE_SET_ACCESSED_BY, numa), CUDA_ERROR_INVALID_VALUE);
    OK("by", cuMemRangeGetAttribute(by, sizeof(by), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, m, 4 * PAGE));
    cf_true("by_all", by[0] == CU_DEVICE_CPU && by[1] == CU_DEVICE_INVALID && by[2] == CU_DEVICE_INVALID);
    OK("by_some", cuMemRangeGetAttribute(by, sizeof(by), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, m, PAGE));
    cf_u64("by_count",
           (uint64_t)((by[0] != CU_DEVICE_INVALID) + (by[1] != CU_DEVICE_INVALID)) - (device == CUDA_SUCCESS),
           1);
    OK("by_unset", cuMemAdvise(m, 4 * PAGE, CU_MEM_ADVISE_UNSET_ACCESSED_BY, host));
    OK("by_2", cuMemRangeGetAttribute(by, sizeof(by), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, m, 4 * PAGE));
    cf_true("by_nobody", by[0] == CU_DEVICE_INVALID);

    int mostly = 9, type = 9;
    void *data[] = {&mostly, &type};
    size_t sizes[] = {4, 4};
    CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                     CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE};
    OK("several", cuMemRangeGetAttributes(data, sizes, which, 2, m, 4 * PAGE));
    cf_true("several_read", mostly == 0 && type == 0);
    RC("several_none", cuMemRangeGetAttributes(data, sizes, which, 0, m, PAGE), CUDA_ERROR_INVALID_VALUE);
    RC("several_null", cuMemRangeGetAttributes(NULL, sizes, which, 2, m, PAGE), CUDA_ERROR_INVALID_VALUE);
    RC("size", cuMemRangeGetAttribute(by, 8, which[0], m, PAGE), CUDA_ERROR_INVALID_VALUE);
    RC("by_size", cuMemRangeGetAttribute(by, 6, CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, m, PAGE),
       CUDA_ERROR_INVALID_VALUE);
    RC("null", cuMemRangeGetAttribute(NULL, 4, which[0], m, PAGE), CUDA_ERROR_INVALID_VALUE);
    RC("unknown", cuMemRangeGetAttribute(by, 4, (CUmem_range_attribute)99, m, PAGE),
       CUDA_ERROR_INVALID_VALUE);
    RC("past", cuMemRangeGetAttribute(by, 4, which[0], m, 4 * PAGE + 1), CUDA_ERROR_INVALID_VALUE);
    RC("nothing", cuMemRangeGetAttribute(by, 4, which[0], m, 0), CUDA_ERROR_INVALID_VALUE);
    OK("free", cuMemFree(m));
    NEED(cuMemAlloc(&m, PAGE));
    RC("device_memory", cuMemRangeGetAttribute(by, 4, which[0], m, PAGE), CUDA_ERROR_INVALID_VALUE);
    NEED(cuMemFree(m));
}

CASE(advice_prefetch, CF_CTX)
{
    CUmemLocation host = {.type = CU_MEM_LOCATION_TYPE_HOST},
                  gpu = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}, both[] = {gpu, host};
    bool can = migrates();
    CUresult want = can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    CUdeviceptr m = 0, at[3], d = 0;
    size_t sizes[] = {PAGE, PAGE, PAGE}, from[] = {0, 2};
    CUstream s = NULL;

    NEED(cuMemAllocManaged(&m, 4 * PAGE, CU_MEM_ATTACH_GLOBAL));
    NEED(cuMemAlloc(&d, PAGE));
    NEED(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    for (unsigned i = 0; i < 3; i++)
        at[i] = m + i * PAGE;
    cf_true("to_gpu", cuMemPrefetchAsync(m, 4 * PAGE, gpu, 0, s) == want);
    cf_true("to_gpu_read", LAST(m, 4 * PAGE) == (can ? 0 : CU_DEVICE_INVALID));
    cf_true("to_host", cuMemPrefetchAsync(m, PAGE, host, 0, s) == want);
    cf_true("to_host_read", LAST(m, PAGE) == (can ? CU_DEVICE_CPU : CU_DEVICE_INVALID));
    cf_true("mixed_read", LAST(m, 4 * PAGE) == CU_DEVICE_INVALID);
    RC("flags", cuMemPrefetchAsync(m, PAGE, gpu, 1, s), CUDA_ERROR_INVALID_VALUE);
    RC("device_memory", cuMemPrefetchAsync(d, PAGE, gpu, 0, s), CUDA_ERROR_INVALID_VALUE);
    cf_true("batch", cuMemPrefetchBatchAsync(at, sizes, 3, both, from, 2, 0, s) == want);
    cf_true("batch_read", LAST(m, 2 * PAGE) == (can ? 0 : CU_DEVICE_INVALID) &&
                              LAST(m + 2 * PAGE, 1) == (can ? CU_DEVICE_CPU : CU_DEVICE_INVALID));
    RC("batch_none", cuMemPrefetchBatchAsync(at, sizes, 0, both, from, 1, 0, s), CUDA_ERROR_INVALID_VALUE);
    RC("batch_flags", cuMemPrefetchBatchAsync(at, sizes, 3, both, from, 2, 1, s), CUDA_ERROR_INVALID_VALUE);
    RC("batch_legacy", cuMemPrefetchBatchAsync(at, sizes, 3, both, from, 2, 0, CU_STREAM_LEGACY),
       CUDA_ERROR_INVALID_VALUE);
    from[1] = 3;
    RC("batch_index", cuMemPrefetchBatchAsync(at, sizes, 3, both, from, 2, 0, s), CUDA_ERROR_INVALID_VALUE);
    from[1] = 2;
    cf_true("discard", cuMemDiscardBatchAsync(at, sizes, 3, 0, s) == want);
    RC("discard_legacy", cuMemDiscardBatchAsync(at, sizes, 3, 0, CU_STREAM_LEGACY), CUDA_ERROR_INVALID_VALUE);
    RC("discard_null", cuMemDiscardBatchAsync(NULL, sizes, 3, 0, s), CUDA_ERROR_INVALID_VALUE);
    cf_true("both", cuMemDiscardAndPrefetchBatchAsync(at, sizes, 3, both, from, 2, 0, s) == want);
    RC("both_flags", cuMemDiscardAndPrefetchBatchAsync(at, sizes, 3, both, from, 2, 2, s),
       CUDA_ERROR_INVALID_VALUE);
    at[1] = d;
    RC("batch_memory", cuMemPrefetchBatchAsync(at, sizes, 3, both, from, 2, 0, s), CUDA_ERROR_INVALID_VALUE);
    RC("discard_memory", cuMemDiscardBatchAsync(at, sizes, 3, 0, s), CUDA_ERROR_INVALID_VALUE);
    OK("sync", cuStreamSynchronize(s));
    NEED(cuStreamDestroy(s));
    NEED(cuMemFree(d));
    NEED(cuMemFree(m));
}

/* SPDX-License-Identifier: MIT */
/*
 * Occupancy. The provider computes it, from the function and its settings; an answered query is not
 * sent again (code/recall.h), since programs query before each launch.
 */
#include "code.h"
#include "recall.h"

#include "vgp_calls.h"
#include "vgp_entry.h"
#include "vgp_guest.h"

static CUresult occupancy_function(CUfunction func, struct vcu_func **f)
{
    *f = vcu_func_find(func);
    return *f == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

/* Blocks of `threads` threads with `shared` bytes of dynamic shared memory that fit on a multiprocessor. */
static CUresult occupancy_blocks(int *blocks, struct vcu_func *f, int threads, size_t shared, unsigned flags)
{
    struct vcu_question q = {.call = VGP_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags,
                             .object = f->handle,
                             .inputs = {(unsigned)threads, shared, flags}};
    uint64_t answer[2] = {0};
    CUresult res = CUDA_SUCCESS;

    if (!vcu_recall(&q, answer)) {
        int n = 0;

        res = vgp_call_cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
            &n, (CUfunction)(uintptr_t)f->handle, threads, shared, flags);
        answer[0] = (unsigned)n;
        if (res == CUDA_SUCCESS)
            vcu_recall_keep(&q, answer);
    }
    if (res == CUDA_SUCCESS)
        *blocks = (int)answer[0];
    return res;
}

CUresult vcu_occupancy_ask(int *blocks, CUfunction func, int threads, size_t shared, unsigned flags)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = blocks == NULL ? CUDA_ERROR_INVALID_VALUE : occupancy_function(func, &f);

    return res != CUDA_SUCCESS ? res : occupancy_blocks(blocks, f, threads, shared, flags);
}

CUresult vcu_occupancy_shared(size_t *shared, CUfunction func, int blocks, int threads)
{
    struct vcu_question q = {.call = VGP_cuOccupancyAvailableDynamicSMemPerBlock,
                             .inputs = {(unsigned)blocks, (unsigned)threads}};
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    uint64_t answer[2] = {0};
    CUresult res = shared == NULL ? CUDA_ERROR_INVALID_VALUE : occupancy_function(func, &f);

    if (res != CUDA_SUCCESS)
        return res;
    q.object = f->handle;
    if (!vcu_recall(&q, answer)) {
        res = vgp_call_cuOccupancyAvailableDynamicSMemPerBlock(&answer[0], (CUfunction)(uintptr_t)f->handle,
                                                               blocks, threads);
        if (res == CUDA_SUCCESS)
            vcu_recall_keep(&q, answer);
    }
    if (res == CUDA_SUCCESS)
        *shared = answer[0];
    return res;
}

/* The block size with the most resident threads, found as the documentation describes it. */
CUresult vcu_cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize, CUfunction func,
                                                       CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                       size_t dynamicSMemSize, int blockSizeLimit,
                                                       unsigned int flags)
{
    const int *a;
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    int most = 0, best_size = 0, best_blocks = 0, limit, warp, sms;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = occupancy_function(func, &f);
    if (res != CUDA_SUCCESS)
        return res;
    if (minGridSize == NULL || blockSize == NULL || blockSizeLimit < 0 ||
        (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    a = vcu.devices[vcu_context_find(NULL)->device].attributes;
    warp = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE] > 0 ? a[CU_DEVICE_ATTRIBUTE_WARP_SIZE] : 32;
    limit = f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (limit <= 0 || limit > a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        limit = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
    if (blockSizeLimit != 0 && blockSizeLimit < limit)
        limit = blockSizeLimit;
    for (int size = (limit + warp - 1) / warp * warp; size > 0; size -= warp) {
        int threads = size < limit ? size : limit;
        size_t shared =
            blockSizeToDynamicSMemSize != NULL ? blockSizeToDynamicSMemSize(threads) : dynamicSMemSize;
        int blocks = 0;

        res = occupancy_blocks(&blocks, f, threads, shared, flags);
        if (res != CUDA_SUCCESS)
            return res;
        if (blocks * threads > most) {
            most = blocks * threads;
            best_size = threads;
            best_blocks = blocks;
        }
        if (most >= a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR])
            break;
    }
    *blockSize = best_size;
    sms = vcu_context_find(NULL)->sm_count;
    *minGridSize = best_blocks * (sms != 0 ? sms : a[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT]);
    return CUDA_SUCCESS;
}

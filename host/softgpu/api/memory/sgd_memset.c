/* SPDX-License-Identifier: MIT */
/* Driver API: memset, in rows of 8, 16 or 32 bit elements. */
#include "api/api.h"

static CUresult set_memory(CUdeviceptr dst, size_t pitch, unsigned elem, uint32_t value, size_t width,
                           size_t height, CUstream stream, bool async)
{
    CUDA_MEMSET_NODE_PARAMS p = {
        .dst = dst, .pitch = pitch, .elementSize = elem, .value = value, .width = width, .height = height};

    SG_CTX(ctx);
    return width && height ? sg_set_issue(ctx, stream, &p, async) : CUDA_SUCCESS;
}

/* For each width: sync, its per-thread variant, Async; the same in two dimensions. */
#define SG_MEMSET(BITS, TYPE) \
    CUresult CUDAAPI cuMemsetD##BITS##_v2(CUdeviceptr d, TYPE v, size_t n) \
    { \
        return set_memory(d, 0, BITS / 8, v, n, 1, SG_LEGACY, false); \
    } \
    CUresult CUDAAPI cuMemsetD##BITS##_v2_ptds(CUdeviceptr d, TYPE v, size_t n) \
    { \
        return set_memory(d, 0, BITS / 8, v, n, 1, SG_PER_THREAD, false); \
    } \
    CUresult CUDAAPI cuMemsetD##BITS##Async(CUdeviceptr d, TYPE v, size_t n, CUstream s) \
    { \
        return set_memory(d, 0, BITS / 8, v, n, 1, s, true); \
    } \
    CUresult CUDAAPI cuMemsetD2D##BITS##_v2(CUdeviceptr d, size_t p, TYPE v, size_t w, size_t h) \
    { \
        return set_memory(d, p, BITS / 8, v, w, h, SG_LEGACY, false); \
    } \
    CUresult CUDAAPI cuMemsetD2D##BITS##_v2_ptds(CUdeviceptr d, size_t p, TYPE v, size_t w, size_t h) \
    { \
        return set_memory(d, p, BITS / 8, v, w, h, SG_PER_THREAD, false); \
    } \
    CUresult CUDAAPI cuMemsetD2D##BITS##Async(CUdeviceptr d, size_t p, TYPE v, size_t w, size_t h, \
                                              CUstream s) \
    { \
        return set_memory(d, p, BITS / 8, v, w, h, s, true); \
    }

SG_MEMSET(8, unsigned char)
SG_MEMSET(16, unsigned short)
SG_MEMSET(32, unsigned int)

/* SPDX-License-Identifier: MIT */
/* The memory operations, decompressions and stream attributes that are passed on. */
#include "../calls.h"

#include <string.h>

#include "lib/driver/memory_operation.h"

CUresult wrk_memory_operations_known(const CUstreamBatchMemOpParams *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (!cua_memory_operation_known(list[i].operation))
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUmemDecompressParams wrk_decompression(uint64_t src, uint64_t src_bytes, uint64_t dst, uint64_t dst_bytes,
                                        uint64_t actual, uint32_t algorithm)
{
    return (CUmemDecompressParams){.srcNumBytes = src_bytes,
                                   .dstNumBytes = dst_bytes,
                                   .dstActBytes = (cuuint32_t *)(uintptr_t)actual,
                                   .src = (const void *)(uintptr_t)src,
                                   .dst = (void *)(uintptr_t)dst,
                                   .algo = (CUmemDecompressAlgorithm)algorithm};
}

bool wrk_stream_attribute(uint32_t id)
{
    return id == CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW ||
           id == CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY || id == CU_LAUNCH_ATTRIBUTE_PRIORITY ||
           id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP || id == CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN;
}

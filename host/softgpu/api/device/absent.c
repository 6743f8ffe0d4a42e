/* SPDX-License-Identifier: MIT */
/* Driver API: the decompression engine, which the device lacks. Other absent features:
   api/entries.def. */
#include "api/api.h"

CUresult CUDAAPI cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
                                           unsigned int flags, size_t *errorIndex, CUstream stream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (errorIndex)
        *errorIndex = SIZE_MAX;
    if (!paramsArray || count == 0 || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_stream_get(ctx, stream, &s);
    if (r != CUDA_SUCCESS)
        return r;
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                   "cuMemBatchDecompressAsync: no hardware decompression (device attribute 136 is 0)");
}

/* SPDX-License-Identifier: MIT */
/* Driver API: the decompression engine, which the device lacks. Other absent features:
   api/entries.def. */
#include "api/api.h"

CUresult CUDAAPI cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray, size_t count,
                                           unsigned int flags, size_t *errorIndex, CUstream stream)
{
    SG_CTX(ctx);
    (void)ctx;
    (void)paramsArray; /* a driver looks at no argument (driver 580) */
    (void)count;
    (void)flags;
    (void)errorIndex;
    (void)stream;
    return sg_fail(CUDA_ERROR_NOT_SUPPORTED,
                   "cuMemBatchDecompressAsync: no hardware decompression (device attribute 136 is 0)");
}

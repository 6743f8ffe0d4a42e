/* SPDX-License-Identifier: MIT */
/* Driver API: names and descriptions of results. */
#include "api/api.h"

#include "lib/cudaapi/cudaapi.h"

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = cua_error_name(error); /* NULL for an unknown one: documented */
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **pStr)
{
    if (!pStr)
        return CUDA_ERROR_INVALID_VALUE;
    *pStr = cua_error_text(error); /* NULL for an unknown one: documented */
    return *pStr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

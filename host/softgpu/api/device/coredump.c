/* SPDX-License-Identifier: MIT */
/*
 * Driver API: settings of GPU core dumps, stored and read back as documented. No dump is ever
 * written, so enabling one is refused.
 */
#include "api/api.h"

#include "lib/cudaapi/cudaapi.h"

static CUresult told(const char *call, CUresult r)
{
    return r == CUDA_ERROR_NOT_SUPPORTED ? sg_fail(r, "%s: no GPU core dump is written", call) : r;
}

CUresult CUDAAPI cuCoredumpGetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
    SG_CTX(ctx);
    return cua_coredump_get(&ctx->coredump, attrib, value, size);
}

CUresult CUDAAPI cuCoredumpGetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
    SG_INIT();
    return cua_coredump_get(NULL, attrib, value, size);
}

CUresult CUDAAPI cuCoredumpSetAttribute(CUcoredumpSettings attrib, void *value, size_t *size)
{
    SG_CTX(ctx);
    return told("cuCoredumpSetAttribute", cua_coredump_set(&ctx->coredump, attrib, value, size));
}

CUresult CUDAAPI cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
    SG_INIT();
    return told("cuCoredumpSetAttributeGlobal", cua_coredump_set(NULL, attrib, value, size));
}

/* SPDX-License-Identifier: MIT */
/*
 * Driver API: settings of GPU core dumps, stored and returned as documented. No dump is ever
 * written, so enabling dumps is refused.
 */
#include "api/api.h"

#include "lib/driver/driver.h"

static CUresult log_refusal(const char *call, CUresult r)
{
    return r == CUDA_ERROR_NOT_SUPPORTED ? sg_fail(r, "%s: no GPU core dump is written", call) : r;
}

CUresult sgd_cuCoredumpSetAttribute(struct sg_ctx *ctx, CUcoredumpSettings attrib, void *value, size_t *size)
{
    return log_refusal("cuCoredumpSetAttribute", cua_coredump_set(&ctx->coredump, attrib, value, size));
}

CUresult sgd_cuCoredumpSetAttributeGlobal(CUcoredumpSettings attrib, void *value, size_t *size)
{
    return log_refusal("cuCoredumpSetAttributeGlobal", cua_coredump_set(NULL, attrib, value, size));
}

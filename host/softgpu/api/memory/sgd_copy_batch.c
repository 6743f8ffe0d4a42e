/* SPDX-License-Identifier: MIT */
/* Driver API: batches of copies; lib/driver/copy_batch.h. */
#include "api/api.h"

#include "lib/driver/driver.h"

/* Batches are documented not to run on the legacy default stream. */
static CUresult batch_check_stream(const char *call, CUstream h)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_stream_get(ctx, h, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (h == NULL || h == SG_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    if (sg_hooks->front_captured(s->front)) /* the capture goes on (driver 580) */
        return sg_fail(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "%s: no batch can be captured", call);
    return CUDA_SUCCESS;
}

static bool batch_source_in_order(CUdeviceptr src, size_t bytes)
{
    struct sg_mem_info info;

    (void)bytes;
    return sg_mem_find(src, &info);
}

static CUresult batch_copy(const char *call, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                           bool async)
{
    (void)call;
    (void)async;
    return cuMemcpyAsync(dst, src, bytes, stream);
}

static CUresult batch_element(const char *call, CUarray array, size_t *bytes)
{
    SG_AUTO struct sg_array *a = SG_LOOKUP(array, SG_T_ARRAY);

    if (!a)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "%s: copy to or from an array: no CUDA array", call);
    *bytes = a->elem;
    return CUDA_SUCCESS;
}

static const struct cua_batch_ops batch_ops = {
    .check_stream = batch_check_stream,
    .source_in_order = batch_source_in_order,
    .copy = batch_copy,
    .copy_3d = cuMemcpy3DAsync_v2,
    .synchronize = cuStreamSynchronize,
    .element = batch_element,
};

/* ---- entry points: the first ABI tells which copy failed ---- */

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *d, CUdeviceptr *s, size_t *n, size_t count,
                                       CUmemcpyAttributes *attrs, size_t *idx, size_t nattrs, CUstream h)
{
    return cua_copy_batch(&batch_ops, d, s, n, count, attrs, idx, nattrs, NULL, h);
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *d, CUdeviceptr *s, size_t *n, size_t count,
                                    CUmemcpyAttributes *attrs, size_t *idx, size_t nattrs, size_t *failIdx,
                                    CUstream h)
{
    return cua_copy_batch(&batch_ops, d, s, n, count, attrs, idx, nattrs, failIdx, h);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags,
                                         CUstream h)
{
    return cua_copy_batch_3d(&batch_ops, n, list, NULL, flags, h);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failIdx,
                                      unsigned long long flags, CUstream h)
{
    return cua_copy_batch_3d(&batch_ops, n, list, failIdx, flags, h);
}

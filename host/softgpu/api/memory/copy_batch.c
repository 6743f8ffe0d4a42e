/* SPDX-License-Identifier: MIT */
/*
 * Driver API: batches of copies. A batch keeps stream order as a whole and has no order inside, so
 * executing its copies in sequence is valid.
 */
#include "api/api.h"

static bool order_ok(CUmemcpySrcAccessOrder order)
{
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* Batches are documented not to run on the legacy default stream. */
static CUresult check_stream(CUstream h)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_stream_get(ctx, h, &s);
    if (r != CUDA_SUCCESS)
        return r;
    if (h == NULL || h == SG_LEGACY)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_capture_check_wait(s); /* no batch can be captured, and the capture is lost */
}

/* Pageable memory is read when the copy is issued: too early when the stream's order counts. */
static CUresult before(CUmemcpySrcAccessOrder order, uint64_t src, CUstream s)
{
    struct sg_mem_info info;

    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && !sg_mem_find(src, &info) ? cuStreamSynchronize(s)
                                                                                  : CUDA_SUCCESS;
}

/* A source that is good during the call only has been read when the call returns. */
static CUresult after(CUmemcpySrcAccessOrder order, CUstream s)
{
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL ? cuStreamSynchronize(s) : CUDA_SUCCESS;
}

static CUresult batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                      const CUmemcpyAttributes *attrs, const size_t *first, size_t nattrs, size_t *failed,
                      CUstream s)
{
    CUresult r = check_stream(s);
    size_t k = 0;

    *failed = SIZE_MAX; /* documented: not the fault of one copy */
    if (r != CUDA_SUCCESS)
        return r;
    if (!count || !dsts || !srcs || !sizes || !attrs || !first || !nattrs || nattrs > count || first[0])
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nattrs; i++) {
        if (!order_ok(attrs[i].srcAccessOrder) || first[i] >= count ||
            attrs[i].flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE ||
            (i && first[i] <= first[i - 1]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (k + 1 < nattrs && first[k + 1] == i)
            k++;
        r = before(attrs[k].srcAccessOrder, srcs[i], s);
        if (r == CUDA_SUCCESS)
            r = cuMemcpyAsync(dsts[i], srcs[i], sizes[i], s);
        if (r == CUDA_SUCCESS)
            r = after(attrs[k].srcAccessOrder, s);
        if (r != CUDA_SUCCESS)
            *failed = i;
    }
    return r;
}

/* Bytes of an element of the arrays among the operands, whose extents are in elements; else 1. */
static CUresult element(const CUDA_MEMCPY3D_BATCH_OP *op, size_t *elem)
{
    const CUmemcpy3DOperand *o[] = {&op->src, &op->dst};

    *elem = 1;
    for (int i = 0; i < 2; i++) {
        if (o[i]->type != CU_MEMCPY_OPERAND_TYPE_ARRAY)
            continue;
        SG_AUTO struct sg_array *a = SG_LOOKUP(o[i]->op.array.array, SG_T_ARRAY);

        if (!a)
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "copy to or from an array: no CUDA array");
        *elem = a->elem;
    }
    return op->extent.width > SIZE_MAX / *elem ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* One side of a copy; what lies between source and destination in CUDA_MEMCPY3D differs by name. */
struct batch_side {
    CUmemorytype type;
    CUdeviceptr at;
    CUarray array;
    size_t x, y, z, pitch, height;
};

static CUresult operand(const CUmemcpy3DOperand *o, const CUextent3D *e, size_t elem, struct batch_side *out)
{
    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        if (o->op.array.offset.x > SIZE_MAX / elem)
            return CUDA_ERROR_INVALID_VALUE;
        *out = (struct batch_side){.type = CU_MEMORYTYPE_ARRAY,
                                   .array = o->op.array.array,
                                   .x = o->op.array.offset.x * elem,
                                   .y = o->op.array.offset.y,
                                   .z = o->op.array.offset.z};
        return CUDA_SUCCESS;
    }
    size_t length = o->op.ptr.rowLength ? o->op.ptr.rowLength : e->width;

    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER || length < e->width || length > SIZE_MAX / elem ||
        (o->op.ptr.layerHeight && o->op.ptr.layerHeight < e->height))
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct batch_side){.type = CU_MEMORYTYPE_UNIFIED,
                               .at = o->op.ptr.ptr,
                               .pitch = length * elem,
                               .height = o->op.ptr.layerHeight ? o->op.ptr.layerHeight : e->height};
    return CUDA_SUCCESS;
}

static CUresult one_3d(const CUDA_MEMCPY3D_BATCH_OP *op, CUstream s)
{
    struct batch_side src, dst;
    size_t elem;
    CUresult r;

    if (!order_ok(op->srcAccessOrder) || !op->extent.width || !op->extent.height || !op->extent.depth ||
        op->flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE)
        return CUDA_ERROR_INVALID_VALUE;
    r = element(op, &elem);
    if (r == CUDA_SUCCESS)
        r = operand(&op->src, &op->extent, elem, &src);
    if (r == CUDA_SUCCESS)
        r = operand(&op->dst, &op->extent, elem, &dst);
    if (r != CUDA_SUCCESS)
        return r;
    CUDA_MEMCPY3D p = {
        .srcMemoryType = src.type,
        .srcDevice = src.at,
        .srcArray = src.array,
        .srcXInBytes = src.x,
        .srcY = src.y,
        .srcZ = src.z,
        .srcPitch = src.pitch,
        .srcHeight = src.height,
        .dstMemoryType = dst.type,
        .dstDevice = dst.at,
        .dstArray = dst.array,
        .dstXInBytes = dst.x,
        .dstY = dst.y,
        .dstZ = dst.z,
        .dstPitch = dst.pitch,
        .dstHeight = dst.height,
        .WidthInBytes = op->extent.width * elem,
        .Height = op->extent.height,
        .Depth = op->extent.depth,
    };

    if (src.type != CU_MEMORYTYPE_ARRAY)
        r = before(op->srcAccessOrder, p.srcDevice, s);
    if (r == CUDA_SUCCESS)
        r = cuMemcpy3DAsync_v2(&p, s);
    return r == CUDA_SUCCESS ? after(op->srcAccessOrder, s) : r;
}

static CUresult batch_3d(size_t n, const CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                         unsigned long long flags, CUstream s)
{
    CUresult r = check_stream(s);

    *failed = SIZE_MAX;
    if (r != CUDA_SUCCESS)
        return r;
    if (!n || !list || flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        r = one_3d(&list[i], s);
        if (r != CUDA_SUCCESS)
            *failed = i;
    }
    return r;
}

/* ---- entry points: the first ABI tells which copy failed ---- */

CUresult CUDAAPI cuMemcpyBatchAsync_v2(CUdeviceptr *d, CUdeviceptr *s, size_t *n, size_t count,
                                       CUmemcpyAttributes *attrs, size_t *idx, size_t nattrs, CUstream h)
{
    size_t failed;

    return batch(d, s, n, count, attrs, idx, nattrs, &failed, h);
}

CUresult CUDAAPI cuMemcpyBatchAsync(CUdeviceptr *d, CUdeviceptr *s, size_t *n, size_t count,
                                    CUmemcpyAttributes *attrs, size_t *idx, size_t nattrs, size_t *failIdx,
                                    CUstream h)
{
    size_t failed;
    CUresult r = batch(d, s, n, count, attrs, idx, nattrs, &failed, h);

    if (failIdx)
        *failIdx = failed;
    return r;
}

CUresult CUDAAPI cuMemcpy3DBatchAsync_v2(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, unsigned long long flags,
                                         CUstream h)
{
    size_t failed;

    return batch_3d(n, list, &failed, flags, h);
}

CUresult CUDAAPI cuMemcpy3DBatchAsync(size_t n, CUDA_MEMCPY3D_BATCH_OP *list, size_t *failIdx,
                                      unsigned long long flags, CUstream h)
{
    size_t failed;
    CUresult r = batch_3d(n, list, &failed, flags, h);

    if (failIdx)
        *failIdx = failed;
    return r;
}

/* SPDX-License-Identifier: MIT */
#include "copy_batch.h"

#include <stdint.h>

/*
 * A source that is valid only during the call would be read too late in stream order; a pageable
 * source with stream order would be read too early.
 */
struct batch_order {
    bool before, after; /* the stream is synchronized before, or after the copy */
};

static bool batch_attributes_ok(CUmemcpySrcAccessOrder order, unsigned flags)
{
    return order >= CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && order <= CU_MEMCPY_SRC_ACCESS_ORDER_ANY &&
           (flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) == 0;
}

static struct batch_order batch_order_of(CUmemcpySrcAccessOrder order, bool in_order)
{
    return (struct batch_order){.before = order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && !in_order,
                                .after = order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && in_order};
}

static void batch_failed_at(size_t *failed, size_t i)
{
    if (failed != NULL)
        *failed = i;
}

static bool batch_list_ok(size_t count, const CUmemcpyAttributes *attrs, const size_t *first, size_t nattrs)
{
    if (attrs == NULL || first == NULL || nattrs == 0 || nattrs > count || first[0] != 0)
        return false;
    for (size_t i = 0; i < nattrs; i++) {
        if (!batch_attributes_ok(attrs[i].srcAccessOrder, attrs[i].flags) || first[i] >= count ||
            (i > 0 && first[i] <= first[i - 1]))
            return false;
    }
    return true;
}

static CUresult batch_copy_linear(const struct cua_batch_ops *ops, const char *call, CUdeviceptr dst,
                                  CUdeviceptr src, size_t bytes, CUmemcpySrcAccessOrder access,
                                  CUstream stream)
{
    struct batch_order order = batch_order_of(access, ops->source_in_order(src, bytes));
    CUresult r = order.before ? ops->synchronize(stream) : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS)
        r = ops->copy(call, dst, src, bytes, stream, !order.after);
    return r == CUDA_SUCCESS && order.after ? ops->synchronize(stream) : r;
}

CUresult cua_copy_batch(const struct cua_batch_ops *ops, const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                        const size_t *sizes, size_t count, const CUmemcpyAttributes *attrs,
                        const size_t *first, size_t nattrs, size_t *failed, CUstream stream)
{
    static const char call[] = "cuMemcpyBatchAsync";
    size_t k = 0;
    CUresult r = ops->check_stream(call, stream);

    if (r != CUDA_SUCCESS)
        return r;
    batch_failed_at(failed, SIZE_MAX); /* documented: not attributed to a single copy */
    if (count == 0 || dsts == NULL || srcs == NULL || sizes == NULL ||
        !batch_list_ok(count, attrs, first, nattrs))
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count && r == CUDA_SUCCESS; i++) {
        if (k + 1 < nattrs && first[k + 1] == i)
            k++;
        r = batch_copy_linear(ops, call, dsts[i], srcs[i], sizes[i], attrs[k].srcAccessOrder, stream);
        if (r != CUDA_SUCCESS)
            batch_failed_at(failed, i);
    }
    return r;
}

/* ---- 3D ---- */

/* Extents, lengths and offsets are in elements of the arrays among the operands, else in bytes. */
static CUresult batch_element(const struct cua_batch_ops *ops, const char *call,
                              const CUDA_MEMCPY3D_BATCH_OP *op, size_t *elem)
{
    const CUmemcpy3DOperand *o[] = {&op->src, &op->dst};

    *elem = 1;
    for (int i = 0; i < 2; i++) {
        CUresult r = o[i]->type == CU_MEMCPY_OPERAND_TYPE_ARRAY
                         ? ops->element(call, o[i]->op.array.array, elem)
                         : CUDA_SUCCESS;

        if (r != CUDA_SUCCESS)
            return r;
    }
    return *elem == 0 || op->extent.width > SIZE_MAX / *elem ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* An operand; the fields of CUDA_MEMCPY3D for source and destination differ by name and order. */
struct batch_side {
    CUmemorytype type;
    CUdeviceptr at;
    CUarray array;
    size_t x, y, z, pitch, height;
};

static CUresult batch_side_of(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t elem,
                              struct batch_side *side)
{
    size_t length = o->op.ptr.rowLength == 0 ? extent->width : o->op.ptr.rowLength;

    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        if (o->op.array.offset.x > SIZE_MAX / elem)
            return CUDA_ERROR_INVALID_VALUE;
        *side = (struct batch_side){.type = CU_MEMORYTYPE_ARRAY,
                                    .array = o->op.array.array,
                                    .x = o->op.array.offset.x * elem,
                                    .y = o->op.array.offset.y,
                                    .z = o->op.array.offset.z};
        return CUDA_SUCCESS;
    }
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER || length < extent->width || length > SIZE_MAX / elem ||
        (o->op.ptr.layerHeight != 0 && o->op.ptr.layerHeight < extent->height))
        return CUDA_ERROR_INVALID_VALUE;
    *side =
        (struct batch_side){.type = CU_MEMORYTYPE_UNIFIED,
                            .at = o->op.ptr.ptr,
                            .pitch = length * elem,
                            .height = o->op.ptr.layerHeight == 0 ? extent->height : o->op.ptr.layerHeight};
    return CUDA_SUCCESS;
}

/* A 3D copy as the ordinary calls describe it. The index of a failed operation is that of one which has no
   such description; an address that the copy refuses is not attributed (driver 580). */
static CUresult batch_plain_3d(const struct cua_batch_ops *ops, const char *call,
                               const CUDA_MEMCPY3D_BATCH_OP *op, CUDA_MEMCPY3D *plain)
{
    struct batch_side src, dst;
    size_t elem;
    CUresult r;

    if (!batch_attributes_ok(op->srcAccessOrder, op->flags) || op->extent.width == 0 ||
        op->extent.height == 0 || op->extent.depth == 0)
        return CUDA_ERROR_INVALID_VALUE;
    r = batch_element(ops, call, op, &elem);
    if (r == CUDA_SUCCESS)
        r = batch_side_of(&op->src, &op->extent, elem, &src);
    if (r == CUDA_SUCCESS)
        r = batch_side_of(&op->dst, &op->extent, elem, &dst);
    if (r != CUDA_SUCCESS)
        return r;
    *plain = (CUDA_MEMCPY3D){
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
    return CUDA_SUCCESS;
}

static CUresult batch_copy_3d(const struct cua_batch_ops *ops, const CUDA_MEMCPY3D *p,
                              CUmemcpySrcAccessOrder access, CUstream stream)
{
    struct batch_order order = batch_order_of(access, p->srcMemoryType == CU_MEMORYTYPE_ARRAY ||
                                                          ops->source_in_order(p->srcDevice, 1));
    CUresult r = order.before ? ops->synchronize(stream) : CUDA_SUCCESS;

    if (r == CUDA_SUCCESS)
        r = ops->copy_3d(p, stream);
    return r == CUDA_SUCCESS && order.after ? ops->synchronize(stream) : r;
}

CUresult cua_copy_batch_3d(const struct cua_batch_ops *ops, size_t n, const CUDA_MEMCPY3D_BATCH_OP *list,
                           size_t *failed, unsigned long long flags, CUstream stream)
{
    static const char call[] = "cuMemcpy3DBatchAsync";
    CUresult r = ops->check_stream(call, stream);

    if (r != CUDA_SUCCESS)
        return r;
    batch_failed_at(failed, SIZE_MAX);
    if (n == 0 || list == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && r == CUDA_SUCCESS; i++) {
        CUDA_MEMCPY3D p;

        r = batch_plain_3d(ops, call, &list[i], &p);
        if (r != CUDA_SUCCESS)
            batch_failed_at(failed, i);
        else
            r = batch_copy_3d(ops, &p, list[i].srcAccessOrder, stream);
    }
    return r;
}

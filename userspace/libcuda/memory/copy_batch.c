/* SPDX-License-Identifier: MIT */
/*
 * Batches of copies, and 3D copies between contexts, built from the other copies. A batch keeps
 * stream order as a whole and has no order inside, so executing its copies in sequence is valid.
 */
#include "copy.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

static bool order_ok(CUmemcpySrcAccessOrder order)
{
    return order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM ||
           order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL || order == CU_MEMCPY_SRC_ACCESS_ORDER_ANY;
}

/* The checks of a batch's stream: the legacy stream does not accept batches. */
static CUresult check_stream(const char *call, CUstream stream)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (!vcu_stream_ok(stream))
        return VCU_REFUSE(vcu_stream_error(stream), call, "the stream handle is not live");
    if (!vcu_stream_own(stream))
        return VCU_REFUSE(CUDA_ERROR_INVALID_HANDLE, call, "the stream belongs to another context");
    if (stream == NULL || stream == CU_STREAM_LEGACY)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "not on the legacy default stream");
    if (vcu_stream_captured(stream))
        return vcu_capture_spoil(call, stream);
    return CUDA_SUCCESS;
}

/*
 * Brings one copy in line with its access order. Pageable memory is read before the call returns,
 * which is too early when the order is that of the stream; pinned memory is read in stream order,
 * which is too late when the source is only good during the call. *async: how to copy.
 */
static CUresult obey_order(CUmemcpySrcAccessOrder order, uint64_t src, uint64_t bytes, CUstream stream,
                           bool *async)
{
    bool device = vcu_memory_is_device(src, 0), pinned = vcu_memory_in_place(src, bytes);

    *async = true;
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_STREAM && !device && !pinned)
        return vgp_call_cuStreamSynchronize(stream);
    if (order == CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL && (device || pinned))
        *async = false;
    return CUDA_SUCCESS;
}

static void give_index(size_t *failed, size_t i)
{
    if (failed != NULL)
        *failed = i;
}

CUresult vcu_copy_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs, const size_t *sizes, size_t count,
                        const CUmemcpyAttributes *attrs, const size_t *first, size_t nattrs, size_t *failed,
                        CUstream stream)
{
    static const char call[] = "cuMemcpyBatchAsync";
    size_t k = 0;
    CUresult res = check_stream(call, stream);

    give_index(failed, SIZE_MAX); /* documented: not the fault of one copy */
    if (res != CUDA_SUCCESS)
        return res;
    if (count == 0 || dsts == NULL || srcs == NULL || sizes == NULL || attrs == NULL || first == NULL ||
        nattrs == 0 || nattrs > count || first[0] != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nattrs; i++) {
        if (!order_ok(attrs[i].srcAccessOrder) || first[i] >= count ||
            (attrs[i].flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) != 0 ||
            (i > 0 && first[i] <= first[i - 1]))
            return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count && res == CUDA_SUCCESS; i++) {
        bool async;

        if (k + 1 < nattrs && first[k + 1] == i)
            k++;
        res = obey_order(attrs[k].srcAccessOrder, srcs[i], sizes[i], stream, &async);
        if (res == CUDA_SUCCESS)
            res = vcu_copy_unified(call, dsts[i], srcs[i], sizes[i], stream, async);
        if (res == CUDA_SUCCESS && !async)
            res = vgp_call_cuStreamSynchronize(stream); /* also where both sides are device memory */
        if (res != CUDA_SUCCESS)
            give_index(failed, i);
    }
    return res;
}

/* ---- 3D ------------------------------------------------------------------------------------- */

/* Bytes of an element of an array, from its descriptor. */
static CUresult element_of(const char *call, CUarray array, size_t *elem)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult res;

    if (!vgp_handle_live((uintptr_t)array, VGP_H_ARRAY))
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, call, "the array handle is not live");
    res = vgp_call_cuArray3DGetDescriptor_v2(&d, array);
    if (res != CUDA_SUCCESS)
        return res;
    switch (d.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        *elem = d.NumChannels;
        return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        *elem = 2 * (size_t)d.NumChannels;
        return CUDA_SUCCESS;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        *elem = 4 * (size_t)d.NumChannels;
        return CUDA_SUCCESS;
    default:
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "batches with arrays of this format");
    }
}

/* Extents, lengths and places are in elements: those of the arrays among the operands, else bytes. */
static CUresult element(const char *call, const CUDA_MEMCPY3D_BATCH_OP *op, size_t *elem)
{
    const CUmemcpy3DOperand *o[] = {&op->src, &op->dst};
    CUresult res = CUDA_SUCCESS;

    *elem = 1;
    for (int i = 0; i < 2 && res == CUDA_SUCCESS; i++) {
        if (o[i]->type == CU_MEMCPY_OPERAND_TYPE_ARRAY)
            res = element_of(call, o[i]->op.array.array, elem);
    }
    return res;
}

struct side {
    CUmemorytype type;
    CUdeviceptr at;
    CUarray array;
    size_t x, y, z, pitch, height;
};

static CUresult operand(const CUmemcpy3DOperand *o, const CUextent3D *extent, size_t elem, struct side *s)
{
    size_t length = o->op.ptr.rowLength == 0 ? extent->width : o->op.ptr.rowLength;

    if (o->type == CU_MEMCPY_OPERAND_TYPE_ARRAY) {
        if (o->op.array.offset.x > SIZE_MAX / elem)
            return CUDA_ERROR_INVALID_VALUE;
        *s = (struct side){.type = CU_MEMORYTYPE_ARRAY,
                           .array = o->op.array.array,
                           .x = o->op.array.offset.x * elem,
                           .y = o->op.array.offset.y,
                           .z = o->op.array.offset.z};
        return CUDA_SUCCESS;
    }
    if (o->type != CU_MEMCPY_OPERAND_TYPE_POINTER || length < extent->width || length > SIZE_MAX / elem ||
        (o->op.ptr.layerHeight != 0 && o->op.ptr.layerHeight < extent->height))
        return CUDA_ERROR_INVALID_VALUE;
    *s = (struct side){.type = CU_MEMORYTYPE_UNIFIED,
                       .at = o->op.ptr.ptr,
                       .pitch = length * elem,
                       .height = o->op.ptr.layerHeight == 0 ? extent->height : o->op.ptr.layerHeight};
    return CUDA_SUCCESS;
}

static CUresult one_3d(const char *call, const CUDA_MEMCPY3D_BATCH_OP *op, CUstream stream)
{
    struct side src, dst;
    bool async = op->srcAccessOrder != CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL; /* of arrays */
    size_t elem;
    CUresult res;

    if (!order_ok(op->srcAccessOrder) || op->extent.width == 0 || op->extent.height == 0 ||
        op->extent.depth == 0 || (op->flags & ~(unsigned)CU_MEMCPY_FLAG_PREFER_OVERLAP_WITH_COMPUTE) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    res = element(call, op, &elem);
    if (res == CUDA_SUCCESS && op->extent.width > SIZE_MAX / elem)
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = operand(&op->src, &op->extent, elem, &src);
    if (res == CUDA_SUCCESS)
        res = operand(&op->dst, &op->extent, elem, &dst);
    if (res != CUDA_SUCCESS)
        return res;
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
        res = obey_order(op->srcAccessOrder, p.srcDevice, 1, stream, &async);
    if (res == CUDA_SUCCESS)
        res = vcu_copy_3d("cuMemcpy3DAsync", &p, NULL, NULL, stream, true);
    if (res == CUDA_SUCCESS && !async)
        res = vgp_call_cuStreamSynchronize(stream);
    return res;
}

CUresult vcu_copy_batch_3d(size_t n, const CUDA_MEMCPY3D_BATCH_OP *list, size_t *failed,
                           unsigned long long flags, CUstream stream)
{
    static const char call[] = "cuMemcpy3DBatchAsync";
    CUresult res = check_stream(call, stream);

    give_index(failed, SIZE_MAX);
    if (res != CUDA_SUCCESS)
        return res;
    if (n == 0 || list == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < n && res == CUDA_SUCCESS; i++) {
        res = one_3d(call, &list[i], stream);
        if (res != CUDA_SUCCESS)
            give_index(failed, i);
    }
    return res;
}

/* ---- between contexts: one worker has them all ---------------------------------------------- */

CUresult vcu_peer_3d(const char *call, const CUDA_MEMCPY3D_PEER *p, CUDA_MEMCPY3D *plain)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    /* Contexts count where the memory type does not say where the memory is. */
    if ((p->srcMemoryType == CU_MEMORYTYPE_DEVICE && vcu_context_find(p->srcContext) == NULL) ||
        (p->dstMemoryType == CU_MEMORYTYPE_DEVICE && vcu_context_find(p->dstContext) == NULL))
        return VCU_REFUSE(CUDA_ERROR_INVALID_CONTEXT, call, "a context handle is not live");
    *plain = (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcZ = p->srcZ,
        .srcLOD = p->srcLOD,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .srcHeight = p->srcHeight,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstZ = p->dstZ,
        .dstLOD = p->dstLOD,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = p->Depth,
    };
    return CUDA_SUCCESS;
}

/* SPDX-License-Identifier: MIT */
/*
 * Batches of copies (lib/driver/copy_batch.h), and 3D copies between contexts, built from the other
 * copies.
 */
#include "copy.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

/* The checks of a batch's stream: the legacy stream does not accept batches. */
static CUresult batch_check_stream(const char *call, CUstream stream)
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
    if (vcu_stream_captured(stream)) /* the capture goes on (driver 580) */
        return VCU_REFUSE(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, call, "no batch can be captured");
    return CUDA_SUCCESS;
}

static bool batch_source_in_order(CUdeviceptr src, size_t bytes)
{
    return vcu_memory_is_device(src, 0) || vcu_memory_in_place(src, bytes);
}

static CUresult batch_copy(const char *call, CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream,
                           bool async)
{
    return vcu_copy_unified(call, dst, src, bytes, stream, async);
}

static CUresult batch_copy_3d(const CUDA_MEMCPY3D *p, CUstream stream)
{
    return vcu_copy_3d("cuMemcpy3DAsync", p, NULL, NULL, stream, true);
}

/* Bytes of an element of an array, from its descriptor. */
static CUresult batch_element(const char *call, CUarray array, size_t *elem)
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

const struct cua_batch_ops vcu_batch_ops = {
    .check_stream = batch_check_stream,
    .source_in_order = batch_source_in_order,
    .copy = batch_copy,
    .copy_3d = batch_copy_3d,
    .synchronize = vgp_call_cuStreamSynchronize,
    .element = batch_element,
};

/* ---- between contexts: one worker has them all ---------------------------------------------- */

CUresult vcu_peer_3d(const char *call, const CUDA_MEMCPY3D_PEER *p, CUDA_MEMCPY3D *plain)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (p->WidthInBytes == 0 || p->Height == 0 || p->Depth == 0) {
        *plain = (CUDA_MEMCPY3D){.srcLOD = p->srcLOD, .dstLOD = p->dstLOD};
        return CUDA_SUCCESS;
    }
    /* Contexts matter where the memory type does not determine the location. */
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

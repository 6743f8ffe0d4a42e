/* SPDX-License-Identifier: MIT */
/* The copy entry points: each brings its parameters into the normal form of vcu_copy.h. */
#include "vcu_copy.h"

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/vgp_guest_rt.h"

static uint64_t address(const void *p)
{
    return (uintptr_t)p;
}

/* Unified addressing: what is not known as device memory is memory of this process. */
static bool on_device(uint64_t addr)
{
    return vcu_memory_is_device(addr, 0);
}

CUresult vcu_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return vcu_copy_linear("cuMemcpyHtoD", true, dstDevice, false, address(srcHost), ByteCount,
                           NULL, false);
}

CUresult vcu_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return vcu_copy_linear("cuMemcpyDtoH", false, address(dstHost), true, srcDevice, ByteCount,
                           NULL, false);
}

CUresult vcu_cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return vcu_copy_linear("cuMemcpyDtoD", true, dstDevice, true, srcDevice, ByteCount, NULL,
                           false);
}

CUresult vcu_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                  CUstream hStream)
{
    return vcu_copy_linear("cuMemcpyHtoDAsync", true, dstDevice, false, address(srcHost), ByteCount,
                           hStream, true);
}

CUresult vcu_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream)
{
    return vcu_copy_linear("cuMemcpyDtoHAsync", false, address(dstHost), true, srcDevice, ByteCount,
                           hStream, true);
}

CUresult vcu_cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                                  CUstream hStream)
{
    return vcu_copy_linear("cuMemcpyDtoDAsync", true, dstDevice, true, srcDevice, ByteCount,
                           hStream, true);
}

CUresult vcu_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return vcu_copy_linear("cuMemcpy", on_device(dst), dst, on_device(src), src, ByteCount, NULL,
                           false);
}

CUresult vcu_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    return vcu_copy_linear("cuMemcpyAsync", on_device(dst), dst, on_device(src), src, ByteCount,
                           hStream, true);
}

/* One worker has all devices of the process in one address space: a peer copy is a device copy. */
static CUresult peer(const char *call, CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src,
                     CUcontext src_context, size_t n, CUstream stream, bool async)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (vcu_context_find(dst_context) == NULL || vcu_context_find(src_context) == NULL)
        return VCU_REFUSE(CUDA_ERROR_INVALID_CONTEXT, call, "a context handle is not live");
    return vcu_copy_linear(call, true, dst, true, src, n, stream, async);
}

CUresult vcu_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                          CUcontext srcContext, size_t ByteCount)
{
    return peer("cuMemcpyPeer", dstDevice, dstContext, srcDevice, srcContext, ByteCount, NULL,
                false);
}

CUresult vcu_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                               CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    return peer("cuMemcpyPeerAsync", dstDevice, dstContext, srcDevice, srcContext, ByteCount,
                hStream, true);
}

/* Where one side of a strided copy is. `first` = bytes before the first copied byte of a row. */
static CUresult resolve(const char *call, CUmemorytype type, const void *host, CUdeviceptr device,
                        struct vcu_copy_end *end)
{
    switch (type) {
    case CU_MEMORYTYPE_HOST:
        end->device = false;
        end->addr = address(host);
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_DEVICE:
        end->device = true;
        end->addr = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_UNIFIED:
        end->device = on_device(device);
        end->addr = device;
        return CUDA_SUCCESS;
    case CU_MEMORYTYPE_ARRAY:
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call, "copies with arrays are not served");
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult copy_2d(const char *call, const CUDA_MEMCPY2D *p, CUstream stream, bool async)
{
    struct vcu_copy c = { .depth = 1, .stream = vcu_stream(stream), .async = async };
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    if (p == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = resolve(call, p->srcMemoryType, p->srcHost, p->srcDevice, &c.src);
    if (res == CUDA_SUCCESS)
        res = resolve(call, p->dstMemoryType, p->dstHost, p->dstDevice, &c.dst);
    if (res != CUDA_SUCCESS)
        return res;
    c.width = p->WidthInBytes;
    c.height = p->Height;
    c.src.pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
    c.dst.pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
    c.src.height = c.dst.height = p->Height;
    if (c.src.addr == 0 || c.dst.addr == 0)
        return c.width == 0 || c.height == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    c.src.addr += p->srcY * c.src.pitch + p->srcXInBytes;
    c.dst.addr += p->dstY * c.dst.pitch + p->dstXInBytes;
    return vcu_copy_run(call, &c);
}

CUresult vcu_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d("cuMemcpy2D", pCopy, NULL, false);
}

CUresult vcu_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d("cuMemcpy2DUnaligned", pCopy, NULL, false);
}

CUresult vcu_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return copy_2d("cuMemcpy2DAsync", pCopy, hStream, true);
}

CUresult vcu_copy_from_3d(const char *call, const CUDA_MEMCPY3D *p, struct vcu_copy *c)
{
    CUresult res;

    if (p == NULL || p->srcLOD != 0 || p->dstLOD != 0 || p->reserved0 != NULL ||
        p->reserved1 != NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = resolve(call, p->srcMemoryType, p->srcHost, p->srcDevice, &c->src);
    if (res == CUDA_SUCCESS)
        res = resolve(call, p->dstMemoryType, p->dstHost, p->dstDevice, &c->dst);
    if (res != CUDA_SUCCESS)
        return res;
    c->width = p->WidthInBytes;
    c->height = p->Height;
    c->depth = p->Depth;
    c->src.pitch = p->srcPitch != 0 ? p->srcPitch : p->WidthInBytes;
    c->dst.pitch = p->dstPitch != 0 ? p->dstPitch : p->WidthInBytes;
    c->src.height = p->srcHeight != 0 ? p->srcHeight : p->Height;
    c->dst.height = p->dstHeight != 0 ? p->dstHeight : p->Height;
    if (c->src.addr == 0 || c->dst.addr == 0) {
        bool nothing = c->width == 0 || c->height == 0 || c->depth == 0;

        return nothing ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    c->src.addr += (p->srcZ * c->src.height + p->srcY) * c->src.pitch + p->srcXInBytes;
    c->dst.addr += (p->dstZ * c->dst.height + p->dstY) * c->dst.pitch + p->dstXInBytes;
    return CUDA_SUCCESS;
}

static CUresult copy_3d(const char *call, const CUDA_MEMCPY3D *p, CUstream stream, bool async)
{
    struct vcu_copy c = { .stream = vcu_stream(stream), .async = async };
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = vcu_copy_from_3d(call, p, &c);
    if (res != CUDA_SUCCESS)
        return res;
    if (c.width == 0 || c.height == 0 || c.depth == 0)
        return CUDA_SUCCESS;
    return vcu_copy_run(call, &c);
}

CUresult vcu_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return copy_3d("cuMemcpy3D", pCopy, NULL, false);
}

CUresult vcu_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return copy_3d("cuMemcpy3DAsync", pCopy, hStream, true);
}

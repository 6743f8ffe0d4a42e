/* SPDX-License-Identifier: MIT */
/*
 * The entry points of CUDA 2 and 3 that still are exported: device addresses and sizes of 32 bits
 * (CUdeviceptr_v1, the _v1 structures of cuda.h). Each is the present call with wider arguments. An
 * address that does not fit 32 bits cannot be told: new memory is given back, and the answer is
 * CUDA_ERROR_OUT_OF_MEMORY; where an address would only be reported it is CUDA_ERROR_INVALID_VALUE.
 */
#include "vcu_copy.h"

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/generated/vgp_guest.h"

static CUresult too_far(const char *call, CUresult r)
{
    return VCU_REFUSE(r, call, "the device address does not fit 32 bits: use the present version");
}

/* A size as 32 bits can say it. */
static unsigned int clamped(size_t n)
{
    return n > UINT32_MAX ? UINT32_MAX : (unsigned int)n;
}

/* ---- memory ---- */

/* What a new allocation's address becomes, r: the result of the allocation. */
static CUresult given(const char *call, CUresult r, CUdeviceptr at, CUdeviceptr_v1 *dptr)
{
    if (r != CUDA_SUCCESS)
        return r;
    if (at > UINT32_MAX) {
        r = vcu_cuMemFree_v2(at);
        return r == CUDA_SUCCESS ? too_far(call, CUDA_ERROR_OUT_OF_MEMORY) : r;
    }
    *dptr = (CUdeviceptr_v1)at;
    return CUDA_SUCCESS;
}

CUresult vcu_cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    CUdeviceptr at = 0;
    CUresult r = vcu_cuMemAlloc_v2(dptr ? &at : NULL, bytesize);

    return given("cuMemAlloc", r, at, dptr);
}

CUresult vcu_cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    CUdeviceptr at = 0;
    size_t pitch = 0;
    CUresult r = vcu_cuMemAllocPitch_v2(dptr ? &at : NULL, pPitch ? &pitch : NULL, WidthInBytes,
                                        Height, ElementSizeBytes);

    r = given("cuMemAllocPitch", r, at, dptr);
    if (r == CUDA_SUCCESS)
        *pPitch = clamped(pitch);
    return r;
}

CUresult vcu_cuMemFree(CUdeviceptr_v1 dptr)
{
    return vcu_cuMemFree_v2(dptr);
}

CUresult vcu_cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult r = vcu_cuMemGetAddressRange_v2(pbase ? &base : NULL, psize ? &size : NULL, dptr);

    if (r == CUDA_SUCCESS && base > UINT32_MAX)
        return too_far("cuMemGetAddressRange", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS && pbase)
        *pbase = (CUdeviceptr_v1)base;
    if (r == CUDA_SUCCESS && psize)
        *psize = clamped(size);
    return r;
}

CUresult vcu_cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
    CUdeviceptr at = 0;
    CUresult r = vcu_cuMemHostGetDevicePointer_v2(pdptr ? &at : NULL, p, Flags);

    if (r == CUDA_SUCCESS && at > UINT32_MAX)
        return too_far("cuMemHostGetDevicePointer", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS)
        *pdptr = (CUdeviceptr_v1)at;
    return r;
}

CUresult vcu_cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod,
                           const char *name)
{
    CUdeviceptr at = 0;
    size_t size = 0;
    CUresult r = vcu_cuModuleGetGlobal_v2(&at, &size, hmod, name);

    if (r == CUDA_SUCCESS && dptr && at > UINT32_MAX)
        return too_far("cuModuleGetGlobal", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS && dptr)
        *dptr = (CUdeviceptr_v1)at;
    if (r == CUDA_SUCCESS && bytes)
        *bytes = clamped(size);
    return r;
}

/* ---- copies ---- */

CUresult vcu_cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount)
{
    return vcu_cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}

CUresult vcu_cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return vcu_cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}

CUresult vcu_cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                          unsigned int ByteCount)
{
    return vcu_cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult vcu_cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice,
                          unsigned int ByteCount)
{
    return vcu_cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}

CUresult vcu_cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset,
                          unsigned int ByteCount)
{
    return vcu_cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}

CUresult vcu_cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                          unsigned int ByteCount)
{
    return vcu_cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}

CUresult vcu_cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                          unsigned int ByteCount)
{
    return vcu_cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}

CUresult vcu_cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
                          unsigned int srcOffset, unsigned int ByteCount)
{
    return vcu_cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}

CUresult vcu_cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                               unsigned int ByteCount, CUstream hStream)
{
    return vcu_cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}

CUresult vcu_cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                               unsigned int ByteCount, CUstream hStream)
{
    return vcu_cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

CUresult vcu_cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost,
                               unsigned int ByteCount, CUstream hStream)
{
    return vcu_cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}

CUresult vcu_cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                               CUstream hStream)
{
    return vcu_cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}

CUresult vcu_cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                               unsigned int ByteCount, CUstream hStream)
{
    return vcu_cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

static CUDA_MEMCPY2D wide_2d(const CUDA_MEMCPY2D_v1 *p)
{
    return (CUDA_MEMCPY2D){
        .srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost, .srcDevice = p->srcDevice, .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost, .dstDevice = p->dstDevice, .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes, .Height = p->Height,
    };
}

static CUDA_MEMCPY3D wide_3d(const CUDA_MEMCPY3D_v1 *p)
{
    return (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes, .srcY = p->srcY, .srcZ = p->srcZ, .srcLOD = p->srcLOD,
        .srcMemoryType = p->srcMemoryType, .srcHost = p->srcHost, .srcDevice = p->srcDevice,
        .srcArray = p->srcArray, .reserved0 = p->reserved0,
        .srcPitch = p->srcPitch, .srcHeight = p->srcHeight,
        .dstXInBytes = p->dstXInBytes, .dstY = p->dstY, .dstZ = p->dstZ, .dstLOD = p->dstLOD,
        .dstMemoryType = p->dstMemoryType, .dstHost = p->dstHost, .dstDevice = p->dstDevice,
        .dstArray = p->dstArray, .reserved1 = p->reserved1,
        .dstPitch = p->dstPitch, .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes, .Height = p->Height, .Depth = p->Depth,
    };
}

CUresult vcu_cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy)
{
    CUDA_MEMCPY2D wide = pCopy ? wide_2d(pCopy) : (CUDA_MEMCPY2D){0};

    return vcu_cuMemcpy2D_v2(pCopy ? &wide : NULL);
}

CUresult vcu_cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy)
{
    CUDA_MEMCPY2D wide = pCopy ? wide_2d(pCopy) : (CUDA_MEMCPY2D){0};

    return vcu_cuMemcpy2DUnaligned_v2(pCopy ? &wide : NULL);
}

CUresult vcu_cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy)
{
    CUDA_MEMCPY3D wide = pCopy ? wide_3d(pCopy) : (CUDA_MEMCPY3D){0};

    return vcu_cuMemcpy3D_v2(pCopy ? &wide : NULL);
}

CUresult vcu_cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
    CUDA_MEMCPY2D wide = pCopy ? wide_2d(pCopy) : (CUDA_MEMCPY2D){0};

    return vcu_cuMemcpy2DAsync_v2(pCopy ? &wide : NULL, hStream);
}

CUresult vcu_cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
    CUDA_MEMCPY3D wide = pCopy ? wide_3d(pCopy) : (CUDA_MEMCPY3D){0};

    return vcu_cuMemcpy3DAsync_v2(pCopy ? &wide : NULL, hStream);
}

/* ---- memsets ---- */

CUresult vcu_cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD8_v2(dstDevice, uc, N) : r;
}

CUresult vcu_cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD16_v2(dstDevice, us, N) : r;
}

CUresult vcu_cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD32_v2(dstDevice, ui, N) : r;
}

CUresult vcu_cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc,
                          unsigned int Width, unsigned int Height)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height) : r;
}

CUresult vcu_cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us,
                           unsigned int Width, unsigned int Height)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height)
                             : r;
}

CUresult vcu_cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui,
                           unsigned int Width, unsigned int Height)
{
    CUresult r = vcu_check_context();

    return r == CUDA_SUCCESS ? vgp_call_cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height)
                             : r;
}

/* ---- arrays ---- */

CUresult vcu_cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    CUDA_ARRAY_DESCRIPTOR wide = {0};

    if (pAllocateArray)
        wide = (CUDA_ARRAY_DESCRIPTOR){ pAllocateArray->Width, pAllocateArray->Height,
                                        pAllocateArray->Format, pAllocateArray->NumChannels };
    return vcu_cuArrayCreate_v2(pHandle, pAllocateArray ? &wide : NULL);
}

CUresult vcu_cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY_DESCRIPTOR wide;
    CUresult r = vcu_cuArrayGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR_v1){ clamped(wide.Width), clamped(wide.Height),
                                                        wide.Format, wide.NumChannels };
    return r;
}

CUresult vcu_cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    CUDA_ARRAY3D_DESCRIPTOR wide = {0};

    if (pAllocateArray)
        wide = (CUDA_ARRAY3D_DESCRIPTOR){ pAllocateArray->Width, pAllocateArray->Height,
                                          pAllocateArray->Depth, pAllocateArray->Format,
                                          pAllocateArray->NumChannels, pAllocateArray->Flags };
    return cuArray3DCreate_v2(pHandle, pAllocateArray ? &wide : NULL);
}

CUresult vcu_cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR wide;
    CUresult r = cuArray3DGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = (CUDA_ARRAY3D_DESCRIPTOR_v1){
            clamped(wide.Width), clamped(wide.Height), clamped(wide.Depth),
            wide.Format, wide.NumChannels, wide.Flags };
    return r;
}

/* ---- texture references ---- */

CUresult vcu_cuTexRefSetAddress(unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                                unsigned int bytes)
{
    size_t offset = 0;
    CUresult r = vcu_cuTexRefSetAddress_v2(ByteOffset ? &offset : NULL, hTexRef, dptr, bytes);

    if (r == CUDA_SUCCESS && ByteOffset)
        *ByteOffset = (unsigned int)offset;
    return r;
}

CUresult vcu_cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
                                  CUdeviceptr_v1 dptr, unsigned int Pitch)
{
    CUDA_ARRAY_DESCRIPTOR wide = {0};

    if (desc)
        wide = (CUDA_ARRAY_DESCRIPTOR){ desc->Width, desc->Height, desc->Format, desc->NumChannels };
    return vcu_cuTexRefSetAddress2D_v2(hTexRef, desc ? &wide : NULL, dptr, Pitch);
}

CUresult vcu_cuTexRefGetAddress(CUdeviceptr_v1 *pdptr, CUtexref hTexRef)
{
    CUdeviceptr at = 0;
    CUresult r = cuTexRefGetAddress_v2(pdptr ? &at : NULL, hTexRef);

    if (r == CUDA_SUCCESS && at > UINT32_MAX)
        return too_far("cuTexRefGetAddress", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS)
        *pdptr = (CUdeviceptr_v1)at;
    return r;
}

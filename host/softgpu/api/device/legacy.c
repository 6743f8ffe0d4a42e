/* SPDX-License-Identifier: MIT */
/*
 * The entry points of CUDA 2 and 3 that still are exported: device addresses and sizes of 32 bits
 * (CUdeviceptr_v1, the _v1 structures of cuda.h). Each is the present call with wider arguments. An
 * address that does not fit 32 bits cannot be told: new memory is given back, and the answer is
 * CUDA_ERROR_OUT_OF_MEMORY; where an address would only be reported it is CUDA_ERROR_INVALID_VALUE.
 */
#include "api/api.h"

#include "lib/cudaapi/cudaapi.h"

static CUresult too_far(const char *call, CUresult r)
{
    return sg_fail(r, "%s: the device address does not fit 32 bits", call);
}

/* ---- memory ---- */

/* Converts the address of a new allocation; r: the result of the allocation. */
static CUresult given(const char *call, CUresult r, CUdeviceptr at, CUdeviceptr_v1 *dptr)
{
    if (r != CUDA_SUCCESS)
        return r;
    if (at > UINT32_MAX) {
        r = cuMemFree_v2(at);
        return r == CUDA_SUCCESS ? too_far(call, CUDA_ERROR_OUT_OF_MEMORY) : r;
    }
    *dptr = (CUdeviceptr_v1)at;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    CUdeviceptr at = 0;
    CUresult r = cuMemAlloc_v2(dptr ? &at : NULL, bytesize);

    return given("cuMemAlloc", r, at, dptr);
}

CUresult CUDAAPI cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch,
                                 unsigned int WidthInBytes, unsigned int Height,
                                 unsigned int ElementSizeBytes)
{
    CUdeviceptr at = 0;
    size_t pitch = 0;
    CUresult r = cuMemAllocPitch_v2(dptr ? &at : NULL, pPitch ? &pitch : NULL, WidthInBytes,
                                    Height, ElementSizeBytes);

    r = given("cuMemAllocPitch", r, at, dptr);
    if (r == CUDA_SUCCESS)
        *pPitch = cua_clamped(pitch);
    return r;
}

CUresult CUDAAPI cuMemFree(CUdeviceptr_v1 dptr)
{
    return cuMemFree_v2(dptr);
}

CUresult CUDAAPI cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize,
                                      CUdeviceptr_v1 dptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult r = cuMemGetAddressRange_v2(pbase ? &base : NULL, psize ? &size : NULL, dptr);

    if (r == CUDA_SUCCESS && base > UINT32_MAX)
        return too_far("cuMemGetAddressRange", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS && pbase)
        *pbase = (CUdeviceptr_v1)base;
    if (r == CUDA_SUCCESS && psize)
        *psize = cua_clamped(size);
    return r;
}

CUresult CUDAAPI cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
    CUdeviceptr at = 0;
    CUresult r = cuMemHostGetDevicePointer_v2(pdptr ? &at : NULL, p, Flags);

    if (r == CUDA_SUCCESS && at > UINT32_MAX)
        return too_far("cuMemHostGetDevicePointer", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS)
        *pdptr = (CUdeviceptr_v1)at;
    return r;
}

CUresult CUDAAPI cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod,
                           const char *name)
{
    CUdeviceptr at = 0;
    size_t size = 0;
    CUresult r = cuModuleGetGlobal_v2(&at, &size, hmod, name);

    if (r == CUDA_SUCCESS && dptr && at > UINT32_MAX)
        return too_far("cuModuleGetGlobal", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS && dptr)
        *dptr = (CUdeviceptr_v1)at;
    if (r == CUDA_SUCCESS && bytes)
        *bytes = cua_clamped(size);
    return r;
}

CUresult CUDAAPI cuMemGetInfo(unsigned int *free_bytes, unsigned int *total)
{
    size_t f = 0, t = 0;
    CUresult r = cuMemGetInfo_v2(&f, &t);

    if (r == CUDA_SUCCESS && free_bytes)
        *free_bytes = cua_clamped(f);
    if (r == CUDA_SUCCESS && total)
        *total = cua_clamped(t);
    return r;
}

CUresult CUDAAPI cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return cuMemAllocHost_v2(pp, bytesize);
}

CUresult CUDAAPI cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t all = 0;
    CUresult r = cuDeviceTotalMem_v2(bytes ? &all : NULL, dev);

    if (r == CUDA_SUCCESS)
        *bytes = cua_clamped(all);
    return r;
}

/* ---- copies ---- */

CUresult CUDAAPI cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount)
{
    return cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                              unsigned int ByteCount)
{
    return cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice,
                              unsigned int ByteCount)
{
    return cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}

CUresult CUDAAPI cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset,
                              unsigned int ByteCount)
{
    return cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}

CUresult CUDAAPI cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                              unsigned int ByteCount)
{
    return cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}

CUresult CUDAAPI cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                              unsigned int ByteCount)
{
    return cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}

CUresult CUDAAPI cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
                              unsigned int srcOffset, unsigned int ByteCount)
{
    return cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}

CUresult CUDAAPI cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                                   unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                                   unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost,
                                   unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                                   CUstream hStream)
{
    return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                                   unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult CUDAAPI cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy)
{
    CUDA_MEMCPY2D wide = cua_wide_2d(pCopy);

    return cuMemcpy2D_v2(pCopy ? &wide : NULL);
}

CUresult CUDAAPI cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy)
{
    CUDA_MEMCPY2D wide = cua_wide_2d(pCopy);

    return cuMemcpy2DUnaligned_v2(pCopy ? &wide : NULL);
}

CUresult CUDAAPI cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy)
{
    CUDA_MEMCPY3D wide = cua_wide_3d(pCopy);

    return cuMemcpy3D_v2(pCopy ? &wide : NULL);
}

CUresult CUDAAPI cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
    CUDA_MEMCPY2D wide = cua_wide_2d(pCopy);

    return cuMemcpy2DAsync_v2(pCopy ? &wide : NULL, hStream);
}

CUresult CUDAAPI cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
    CUDA_MEMCPY3D wide = cua_wide_3d(pCopy);

    return cuMemcpy3DAsync_v2(pCopy ? &wide : NULL, hStream);
}

/* ---- memsets ---- */

CUresult CUDAAPI cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
    return cuMemsetD8_v2(dstDevice, uc, N);
}

CUresult CUDAAPI cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N)
{
    return cuMemsetD16_v2(dstDevice, us, N);
}

CUresult CUDAAPI cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
    return cuMemsetD32_v2(dstDevice, ui, N);
}

CUresult CUDAAPI cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc,
                              unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height);
}

CUresult CUDAAPI cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us,
                               unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height);
}

CUresult CUDAAPI cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui,
                               unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height);
}

/* ---- arrays ---- */

CUresult CUDAAPI cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    CUDA_ARRAY_DESCRIPTOR wide = cua_wide_array(pAllocateArray);

    return cuArrayCreate_v2(pHandle, pAllocateArray ? &wide : NULL);
}

CUresult CUDAAPI cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY_DESCRIPTOR wide;
    CUresult r = cuArrayGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = cua_narrow_array(&wide);
    return r;
}

CUresult CUDAAPI cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    CUDA_ARRAY3D_DESCRIPTOR wide = cua_wide_array3d(pAllocateArray);

    return cuArray3DCreate_v2(pHandle, pAllocateArray ? &wide : NULL);
}

CUresult CUDAAPI cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor,
                                        CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR wide;
    CUresult r = cuArray3DGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = cua_narrow_array3d(&wide);
    return r;
}

/* ---- texture references ---- */

CUresult CUDAAPI cuTexRefSetAddress(unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                                    unsigned int bytes)
{
    size_t offset = 0;
    CUresult r = cuTexRefSetAddress_v2(ByteOffset ? &offset : NULL, hTexRef, dptr, bytes);

    if (r == CUDA_SUCCESS && ByteOffset)
        *ByteOffset = (unsigned int)offset;
    return r;
}

CUresult CUDAAPI cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
                                      CUdeviceptr_v1 dptr, unsigned int Pitch)
{
    CUDA_ARRAY_DESCRIPTOR wide = cua_wide_array(desc);

    return cuTexRefSetAddress2D_v2(hTexRef, desc ? &wide : NULL, dptr, Pitch);
}

CUresult CUDAAPI cuTexRefGetAddress(CUdeviceptr_v1 *pdptr, CUtexref hTexRef)
{
    CUdeviceptr at = 0;
    CUresult r = cuTexRefGetAddress_v2(pdptr ? &at : NULL, hTexRef);

    if (r == CUDA_SUCCESS && at > UINT32_MAX)
        return too_far("cuTexRefGetAddress", CUDA_ERROR_INVALID_VALUE);
    if (r == CUDA_SUCCESS)
        *pdptr = (CUdeviceptr_v1)at;
    return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * The entry points of CUDA 2 and 3 that still are exported: device addresses and sizes of 32 bits
 * (CUdeviceptr_v1, the _v1 structures of cuda.h). Each is the present call with wider arguments. An
 * address that does not fit 32 bits cannot be told: new memory is given back, and the answer is
 * CUDA_ERROR_OUT_OF_MEMORY; where an address would only be reported it is CUDA_ERROR_INVALID_VALUE.
 */
#include "../memory/memory.h"

#include "../../../protocol/generated/vgp_entry.h"
#include "../../../protocol/generated/vgp_guest.h"

static CUresult too_far(const char *call, CUresult r)
{
    return VCU_REFUSE(r, call, "the device address does not fit 32 bits: use the present version");
}

/* ---- memory ---- */

/* Converts the address of a new allocation; r: the result of the allocation. */
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
        *pPitch = cua_clamped(pitch);
    return r;
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
        *psize = cua_clamped(size);
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
        *bytes = cua_clamped(size);
    return r;
}

/* ---- copies ---- */

/* ---- memsets ---- */

/* ---- arrays ---- */

CUresult vcu_cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY_DESCRIPTOR wide;
    CUresult r = vcu_cuArrayGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = cua_narrow_array(&wide);
    return r;
}

CUresult vcu_cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR wide;
    CUresult r = cuArray3DGetDescriptor_v2(pArrayDescriptor ? &wide : NULL, hArray);

    if (r == CUDA_SUCCESS)
        *pArrayDescriptor = cua_narrow_array3d(&wide);
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

/* SPDX-License-Identifier: MIT */
/* Structures of CUDA 2 and 3 in their present form, and back. */
#include "legacy.h"

#include <stddef.h>
#include <string.h>

const char cua_too_far[] = "the device address does not fit 32 bits: use the present version";

unsigned int cua_clamped(size_t n)
{
    return n > UINT32_MAX ? UINT32_MAX : (unsigned int)n;
}

CUDA_MEMCPY2D cua_wide_2d(const CUDA_MEMCPY2D_v1 *p)
{
    if (p == NULL)
        return (CUDA_MEMCPY2D){0};
    return (CUDA_MEMCPY2D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .srcPitch = p->srcPitch,
        .dstXInBytes = p->dstXInBytes,
        .dstY = p->dstY,
        .dstMemoryType = p->dstMemoryType,
        .dstHost = p->dstHost,
        .dstDevice = p->dstDevice,
        .dstArray = p->dstArray,
        .dstPitch = p->dstPitch,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
    };
}

CUDA_MEMCPY3D cua_wide_3d(const CUDA_MEMCPY3D_v1 *p)
{
    if (p == NULL)
        return (CUDA_MEMCPY3D){0};
    return (CUDA_MEMCPY3D){
        .srcXInBytes = p->srcXInBytes,
        .srcY = p->srcY,
        .srcZ = p->srcZ,
        .srcLOD = p->srcLOD,
        .srcMemoryType = p->srcMemoryType,
        .srcHost = p->srcHost,
        .srcDevice = p->srcDevice,
        .srcArray = p->srcArray,
        .reserved0 = p->reserved0,
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
        .reserved1 = p->reserved1,
        .dstPitch = p->dstPitch,
        .dstHeight = p->dstHeight,
        .WidthInBytes = p->WidthInBytes,
        .Height = p->Height,
        .Depth = p->Depth,
    };
}

CUDA_ARRAY_DESCRIPTOR cua_wide_array(const CUDA_ARRAY_DESCRIPTOR_v1 *p)
{
    if (p == NULL)
        return (CUDA_ARRAY_DESCRIPTOR){0};
    return (CUDA_ARRAY_DESCRIPTOR){p->Width, p->Height, p->Format, p->NumChannels};
}

CUDA_ARRAY3D_DESCRIPTOR cua_wide_array3d(const CUDA_ARRAY3D_DESCRIPTOR_v1 *p)
{
    if (p == NULL)
        return (CUDA_ARRAY3D_DESCRIPTOR){0};
    return (CUDA_ARRAY3D_DESCRIPTOR){p->Width, p->Height, p->Depth, p->Format, p->NumChannels, p->Flags};
}

CUDA_ARRAY3D_DESCRIPTOR cua_deep_array(const CUDA_ARRAY_DESCRIPTOR *p)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){
        .Width = p->Width, .Height = p->Height, .Format = p->Format, .NumChannels = p->NumChannels};
}

/* The second version appends the fields of kernels. */
CUDA_KERNEL_NODE_PARAMS cua_wide_kernel(const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
    CUDA_KERNEL_NODE_PARAMS wide = {0};

    if (p != NULL)
        memcpy(&wide, p, sizeof(*p));
    return wide;
}

CUDA_KERNEL_NODE_PARAMS_v1 cua_narrow_kernel(const CUDA_KERNEL_NODE_PARAMS *p)
{
    CUDA_KERNEL_NODE_PARAMS_v1 narrow;

    memcpy(&narrow, p, sizeof(narrow));
    return narrow;
}

CUDA_ARRAY_DESCRIPTOR_v1 cua_narrow_array(const CUDA_ARRAY_DESCRIPTOR *p)
{
    return (CUDA_ARRAY_DESCRIPTOR_v1){cua_clamped(p->Width), cua_clamped(p->Height), p->Format,
                                      p->NumChannels};
}

CUDA_ARRAY3D_DESCRIPTOR_v1 cua_narrow_array3d(const CUDA_ARRAY3D_DESCRIPTOR *p)
{
    return (CUDA_ARRAY3D_DESCRIPTOR_v1){cua_clamped(p->Width), cua_clamped(p->Height),
                                        cua_clamped(p->Depth), p->Format,
                                        p->NumChannels,        p->Flags};
}

/* SPDX-License-Identifier: MIT */
/* Driver API: CUDA arrays and mipmapped arrays. */
#include <string.h>

#include "api/api.h"

#define SG_ARRAY(var, h) \
    SG_AUTO struct sg_array *var = NULL; \
    do { \
        struct sg_ctx *sg_cur_ = NULL; \
        CUresult sg_rc_ = sg_current(&sg_cur_); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = SG_LOOKUP((h), SG_T_ARRAY); \
        if (!var) \
            return sg_fail(CUDA_ERROR_INVALID_HANDLE, "no CUDA array"); \
    } while (0)

CUresult sgd_cuArray3DCreate_v2(struct sg_ctx *ctx, CUarray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    SG_AUTO struct sg_array *a = NULL;
    CUresult r = sg_array_new(ctx, pAllocateArray, &a);

    if (r == CUDA_SUCCESS)
        *pHandle = SG_HANDLE(CUarray, a);
    return r;
}

CUresult sgd_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, struct sg_array *a)
{
    *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){.Width = a->desc.Width,
                                                .Height = a->desc.Height,
                                                .Format = a->desc.Format,
                                                .NumChannels = a->desc.NumChannels};
    return CUDA_SUCCESS;
}

/* Copies, textures and surfaces that still use an array keep its memory: nothing is waited for. */
CUresult sgd_cuArrayDestroy(struct sg_array *a)
{
    if (a->is_level)
        return sg_fail(CUDA_ERROR_INVALID_HANDLE, "a level goes with its mipmapped array");
    return sg_obj_unregister(&a->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult sgd_cuArrayGetPlane(CUarray *pPlaneArray, unsigned int planeIdx)
{
    (void)pPlaneArray;
    /* Documented for each format that is not planar; planar formats are not supported. */
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "plane %u of an array that is not planar", planeIdx);
}

/* Documented for arrays created without CUDA_ARRAY3D_SPARSE; sparse arrays are not supported. */
CUresult CUDAAPI cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)
{
    SG_ARRAY(a, array);
    (void)sparseProperties;
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "the array is not sparse");
}

CUresult sgd_cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties)
{
    (void)sparseProperties;
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "the array is not sparse");
}

/* Documented for arrays that were not made with CUDA_ARRAY3D_DEFERRED_MAPPING. */
CUresult CUDAAPI cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                              CUarray array, CUdevice device)
{
    SG_ARRAY(a, array);
    SG_CHECK_DEVICE(device);
    (void)memoryRequirements;
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "the array has its memory: no deferred mapping");
}

CUresult sgd_cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements)
{
    (void)memoryRequirements;
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "the array has its memory: no deferred mapping");
}

/* ---- mipmapped arrays ---- */

CUresult sgd_cuMipmappedArrayCreate(struct sg_ctx *ctx, CUmipmappedArray *pHandle,
                                    const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                    unsigned int numMipmapLevels)
{
    SG_AUTO struct sg_mipmap *m = NULL;
    CUresult r = sg_mipmap_new(ctx, pMipmappedArrayDesc, numMipmapLevels, &m);

    if (r == CUDA_SUCCESS)
        *pHandle = SG_HANDLE(CUmipmappedArray, m);
    return r;
}

CUresult sgd_cuMipmappedArrayDestroy(struct sg_mipmap *m)
{
    if (!sg_obj_unregister(&m->obj))
        return CUDA_ERROR_INVALID_HANDLE;
    for (unsigned i = 0; i < m->nlevels; i++)
        sg_obj_unregister(&m->level[i]->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                                unsigned numChannels, CUdevice dev)
{
    uint32_t bytes;
    CUresult r = sg_format_element(format, numChannels, &bytes);

    if (r == CUDA_SUCCESS)
        *maxWidthInElements = (size_t)sg_attr(dev, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
    return r;
}

/* ---- copies of a row: documented for 1D arrays ---- */

static void end_array(CUDA_MEMCPY3D *p, bool dst, CUarray a, size_t offset)
{
    if (dst) {
        p->dstMemoryType = CU_MEMORYTYPE_ARRAY;
        p->dstArray = a;
        p->dstXInBytes = offset;
    } else {
        p->srcMemoryType = CU_MEMORYTYPE_ARRAY;
        p->srcArray = a;
        p->srcXInBytes = offset;
    }
}

static CUDA_MEMCPY3D copy_of_row(size_t n)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = n, .Height = 1, .Depth = 1};
}

static CUDA_MEMCPY3D d_to_a(CUarray a, size_t offset, CUdeviceptr d, size_t n)
{
    CUDA_MEMCPY3D p = copy_of_row(n);

    end_array(&p, true, a, offset);
    p.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    p.srcDevice = d;
    return p;
}

static CUDA_MEMCPY3D a_to_d(CUdeviceptr d, CUarray a, size_t offset, size_t n)
{
    CUDA_MEMCPY3D p = copy_of_row(n);

    end_array(&p, false, a, offset);
    p.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    p.dstDevice = d;
    return p;
}

static CUDA_MEMCPY3D h_to_a(CUarray a, size_t offset, const void *h, size_t n)
{
    CUDA_MEMCPY3D p = copy_of_row(n);

    end_array(&p, true, a, offset);
    p.srcMemoryType = CU_MEMORYTYPE_HOST;
    p.srcHost = h;
    return p;
}

static CUDA_MEMCPY3D a_to_h(void *h, CUarray a, size_t offset, size_t n)
{
    CUDA_MEMCPY3D p = copy_of_row(n);

    end_array(&p, false, a, offset);
    p.dstMemoryType = CU_MEMORYTYPE_HOST;
    p.dstHost = h;
    return p;
}

static CUDA_MEMCPY3D a_to_a(CUarray d, size_t doffset, CUarray s, size_t soffset, size_t n)
{
    CUDA_MEMCPY3D p = copy_of_row(n);

    end_array(&p, true, d, doffset);
    end_array(&p, false, s, soffset);
    return p;
}

/* Arrays are not looked at where no byte is copied (driver 580). */
static CUresult row_check(const CUDA_MEMCPY3D *p)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!p->WidthInBytes)
        return CUDA_SUCCESS;
    SG_AUTO struct sg_array *d = SG_LOOKUP(p->dstArray, SG_T_ARRAY);
    SG_AUTO struct sg_array *s = SG_LOOKUP(p->srcArray, SG_T_ARRAY);

    return (p->dstMemoryType == CU_MEMORYTYPE_ARRAY && !d) || (p->srcMemoryType == CU_MEMORYTYPE_ARRAY && !s)
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

/* Each with its per-thread default stream variant (_ptds, _ptsz). */
#define SG_ROW_COPY(NAME, PARAMS, BUILD) \
    CUresult CUDAAPI NAME##_v2 PARAMS \
    { \
        CUDA_MEMCPY3D p = BUILD; \
        CUresult r = row_check(&p); \
        if (r != CUDA_SUCCESS) \
            return r; \
        return cuMemcpy3D_v2(&p); \
    } \
    CUresult CUDAAPI NAME##_v2_ptds PARAMS \
    { \
        CUDA_MEMCPY3D p = BUILD; \
        CUresult r = row_check(&p); \
        if (r != CUDA_SUCCESS) \
            return r; \
        return cuMemcpy3D_v2_ptds(&p); \
    }
#define SG_ROW_COPY_ASYNC(NAME, PARAMS, BUILD) \
    CUresult CUDAAPI NAME##_v2 PARAMS \
    { \
        CUDA_MEMCPY3D p = BUILD; \
        CUresult r = row_check(&p); \
        if (r != CUDA_SUCCESS) \
            return r; \
        return cuMemcpy3DAsync_v2(&p, stream); \
    } \
    CUresult CUDAAPI NAME##_v2_ptsz PARAMS \
    { \
        CUDA_MEMCPY3D p = BUILD; \
        CUresult r = row_check(&p); \
        if (r != CUDA_SUCCESS) \
            return r; \
        return cuMemcpy3DAsync_v2(&p, SG_PTSZ(stream)); \
    }

SG_ROW_COPY(cuMemcpyDtoA, (CUarray a, size_t off, CUdeviceptr d, size_t n), d_to_a(a, off, d, n))
SG_ROW_COPY(cuMemcpyAtoD, (CUdeviceptr d, CUarray a, size_t off, size_t n), a_to_d(d, a, off, n))
SG_ROW_COPY(cuMemcpyHtoA, (CUarray a, size_t off, const void *h, size_t n), h_to_a(a, off, h, n))
SG_ROW_COPY(cuMemcpyAtoH, (void *h, CUarray a, size_t off, size_t n), a_to_h(h, a, off, n))
SG_ROW_COPY(cuMemcpyAtoA, (CUarray d, size_t doff, CUarray s, size_t soff, size_t n),
            a_to_a(d, doff, s, soff, n))
SG_ROW_COPY_ASYNC(cuMemcpyHtoAAsync, (CUarray a, size_t off, const void *h, size_t n, CUstream stream),
                  h_to_a(a, off, h, n))
SG_ROW_COPY_ASYNC(cuMemcpyAtoHAsync, (void *h, CUarray a, size_t off, size_t n, CUstream stream),
                  a_to_h(h, a, off, n))

CUresult sgd_cuMemMapArrayAsync(struct sg_ctx *ctx, CUstream hStream)
{
    SG_AUTO struct sg_stream *s = NULL;
    CUresult r = sg_stream_get(ctx, hStream, &s);

    return r == CUDA_SUCCESS ? sg_fail(CUDA_ERROR_NOT_SUPPORTED, "no sparse arrays") : r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Driver API: texture and surface references, which CUDA keeps for old programs. A reference holds
 * descriptors; a launch creates the texture from them as they are at that time.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

#define SG_TEXREF_OF(var, h, type) \
    SG_AUTO struct sg_texref *var = NULL; \
    do { \
        struct sg_ctx *sg_cur_ = NULL; \
        CUresult sg_rc_ = sg_current(&sg_cur_); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = SG_LOOKUP((h), (type)); \
        if (!var) \
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "no such reference"); \
    } while (0)
#define SG_TEXREF(var, h) SG_TEXREF_OF(var, h, SG_T_TEXREF)

/* Sets a field under the lock; reads one. */
#define SG_SET(t, field, value) \
    do { \
        pthread_mutex_lock(&(t)->lock); \
        (t)->field = (value); \
        pthread_mutex_unlock(&(t)->lock); \
    } while (0)
#define SG_GET(out, t, field) \
    do { \
        pthread_mutex_lock(&(t)->lock); \
        (out) = (t)->field; \
        pthread_mutex_unlock(&(t)->lock); \
    } while (0)

/* ---- of modules ---- */

static CUresult module_ref(CUmodule hmod, const char *name, bool surface, uint64_t *handle)
{
    SG_CTX(ctx);
    (void)ctx;
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return CUDA_ERROR_INVALID_HANDLE;
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    return sg_mod_texref(mod, name, surface, handle);
}

CUresult CUDAAPI cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
    uint64_t h;
    CUresult r;

    SG_INIT();
    r = pTexRef ? module_ref(hmod, name, false, &h) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *pTexRef = (CUtexref)(uintptr_t)h;
    return r;
}

CUresult CUDAAPI cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
    uint64_t h;
    CUresult r;

    SG_INIT();
    r = pSurfRef ? module_ref(hmod, name, true, &h) : CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *pSurfRef = (CUsurfref)(uintptr_t)h;
    return r;
}

CUresult CUDAAPI cuTexRefCreate(CUtexref *pTexRef)
{
    struct sg_texref *t;

    SG_CTX(ctx);
    if (!pTexRef)
        return CUDA_ERROR_INVALID_VALUE;
    t = sg_texref_new(ctx, false);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pTexRef = SG_HANDLE(CUtexref, t);
    sg_obj_put(&t->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefDestroy(CUtexref hTexRef)
{
    SG_TEXREF(t, hTexRef);
    if (t->of_module)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "the reference is a module's and goes with it");
    return sg_obj_unregister(&t->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* What is bound to a module's reference is what a launch fetches through: nothing is left to do. */
CUresult CUDAAPI cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_TEXREF(t, hTexRef);
    r = sg_func_get(t->ctx, hfunc, &f);
    if (r != CUDA_SUCCESS)
        return r;
    /* Documented: the reference is a module's, the unit is the default one. */
    return t->of_module && texunit == CU_PARAM_TR_DEFAULT ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- binding ---- */

/* Binds res when an object could be made of it. */
static CUresult bind(struct sg_texref *t, const CUDA_RESOURCE_DESC *res, CUdeviceptr address)
{
    SG_AUTO struct sg_texobj *o = NULL;
    CUDA_TEXTURE_DESC plain = {.flags = CU_TRSF_NORMALIZED_COORDINATES};
    CUresult r = t->obj.type == SG_T_SURFREF ? sg_surfobj_new(t->ctx, res, &o)
                                             : sg_texobj_new(t->ctx, res, &plain, NULL, &o);

    if (r != CUDA_SUCCESS)
        return r;
    /* A surface object has no such condition, and programs make them of arrays without the flag. */
    if (t->obj.type == SG_T_SURFREF && !(o->array->desc.Flags & CUDA_ARRAY3D_SURFACE_LDST))
        return sg_fail(CUDA_ERROR_INVALID_VALUE,
                       "cuSurfRefSetArray of an array without CUDA_ARRAY3D_SURFACE_LDST");
    pthread_mutex_lock(&t->lock);
    t->res = *res;
    t->address = address;
    t->bound = true;
    if (o->array || o->mipmap) { /* documented: the array's format is the reference's */
        const CUDA_ARRAY3D_DESCRIPTOR *d = o->array ? &o->array->desc : &o->mipmap->desc;

        t->format = d->Format;
        t->channels = d->NumChannels;
    }
    pthread_mutex_unlock(&t->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};

    SG_TEXREF(t, hTexRef);
    return Flags == CU_TRSA_OVERRIDE_FORMAT ? bind(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                           unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                              .res.mipmap.hMipmappedArray = hMipmappedArray};

    SG_TEXREF(t, hTexRef);
    return Flags == CU_TRSA_OVERRIDE_FORMAT ? bind(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_LINEAR};
    const CUdeviceptr align = (CUdeviceptr)sg_attr(0, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    CUresult r;

    SG_TEXREF(t, hTexRef);
    /* What is not aligned is bound from the aligned address below; the caller adds the offset. */
    if ((dptr % align && !ByteOffset) || bytes > SIZE_MAX - align)
        return CUDA_ERROR_INVALID_VALUE;
    res.res.linear.devPtr = dptr - dptr % align;
    res.res.linear.sizeInBytes = bytes + dptr % align;
    SG_GET(res.res.linear.format, t, format);
    SG_GET(res.res.linear.numChannels, t, channels);
    r = bind(t, &res, dptr);
    if (r == CUDA_SUCCESS && ByteOffset)
        *ByteOffset = dptr % align;
    return r;
}

CUresult CUDAAPI cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                         CUdeviceptr dptr, size_t Pitch)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_PITCH2D};

    SG_TEXREF(t, hTexRef);
    if (!desc)
        return CUDA_ERROR_INVALID_VALUE;
    res.res.pitch2D.devPtr = dptr;
    res.res.pitch2D.format = desc->Format;
    res.res.pitch2D.numChannels = desc->NumChannels;
    res.res.pitch2D.width = desc->Width;
    res.res.pitch2D.height = desc->Height;
    res.res.pitch2D.pitchInBytes = Pitch;
    CUresult r = bind(t, &res, dptr);

    if (r == CUDA_SUCCESS) {
        SG_SET(t, format, desc->Format);
        SG_SET(t, channels, desc->NumChannels);
    }
    return r;
}

CUresult CUDAAPI cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef)
{
    CUdeviceptr address;

    SG_TEXREF(t, hTexRef);
    SG_GET(address, t, address);
    if (!pdptr || !address)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = address;
    return CUDA_SUCCESS;
}

static CUresult bound_resource(struct sg_texref *t, CUresourcetype type, CUDA_RESOURCE_DESC *res)
{
    bool bound;

    SG_GET(*res, t, res);
    SG_GET(bound, t, bound);
    return bound && res->resType == type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
    CUDA_RESOURCE_DESC res;

    SG_TEXREF(t, hTexRef);
    if (!phArray || bound_resource(t, CU_RESOURCE_TYPE_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = res.res.array.hArray;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
    CUDA_RESOURCE_DESC res;

    SG_TEXREF(t, hTexRef);
    if (!phMipmappedArray || bound_resource(t, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phMipmappedArray = res.res.mipmap.hMipmappedArray;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};

    SG_TEXREF_OF(t, hSurfRef, SG_T_SURFREF);
    return Flags == 0 ? bind(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
    CUDA_RESOURCE_DESC res;

    SG_TEXREF_OF(t, hSurfRef, SG_T_SURFREF);
    if (!phArray || bound_resource(t, CU_RESOURCE_TYPE_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = res.res.array.hArray;
    return CUDA_SUCCESS;
}

/* ---- the sampler ---- */

CUresult CUDAAPI cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
    uint32_t bytes;
    CUresult r;

    SG_TEXREF(t, hTexRef);
    r = NumPackedComponents < 0 ? CUDA_ERROR_INVALID_VALUE
                                : sg_format_element(fmt, (unsigned)NumPackedComponents, &bytes);
    if (r != CUDA_SUCCESS)
        return r;
    SG_SET(t, format, fmt);
    SG_SET(t, channels, (unsigned)NumPackedComponents);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
    SG_TEXREF(t, hTexRef);
    if (pFormat)
        SG_GET(*pFormat, t, format);
    if (pNumChannels)
        SG_GET(*pNumChannels, t, channels);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
    SG_TEXREF(t, hTexRef);
    if (dim < 0 || dim > 2 || (unsigned)am > CU_TR_ADDRESS_MODE_BORDER)
        return CUDA_ERROR_INVALID_VALUE;
    SG_SET(t, desc.addressMode[dim], am);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
    SG_TEXREF(t, hTexRef);
    if (!pam || dim < 0 || dim > 2)
        return CUDA_ERROR_INVALID_VALUE;
    SG_GET(*pam, t, desc.addressMode[dim]);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                             float maxMipmapLevelClamp)
{
    SG_TEXREF(t, hTexRef);
    SG_SET(t, desc.minMipmapLevelClamp, minMipmapLevelClamp);
    SG_SET(t, desc.maxMipmapLevelClamp, maxMipmapLevelClamp);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                             CUtexref hTexRef)
{
    SG_TEXREF(t, hTexRef);
    if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp)
        return CUDA_ERROR_INVALID_VALUE;
    SG_GET(*pminMipmapLevelClamp, t, desc.minMipmapLevelClamp);
    SG_GET(*pmaxMipmapLevelClamp, t, desc.maxMipmapLevelClamp);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
    SG_TEXREF(t, hTexRef);
    if (!pBorderColor)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&t->lock);
    memcpy(t->desc.borderColor, pBorderColor, sizeof(t->desc.borderColor));
    pthread_mutex_unlock(&t->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
    SG_TEXREF(t, hTexRef);
    if (!pBorderColor)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&t->lock);
    memcpy(pBorderColor, t->desc.borderColor, sizeof(t->desc.borderColor));
    pthread_mutex_unlock(&t->lock);
    return CUDA_SUCCESS;
}

/* One value that is set when OK(v), and read. */
#define SG_PROPERTY(NAME, TYPE, GETTYPE, FIELD, OK) \
    CUresult CUDAAPI cuTexRefSet##NAME(CUtexref hTexRef, TYPE v) \
    { \
        SG_TEXREF(t, hTexRef); \
        if (!(OK)) \
            return CUDA_ERROR_INVALID_VALUE; \
        SG_SET(t, desc.FIELD, v); \
        return CUDA_SUCCESS; \
    } \
    CUresult CUDAAPI cuTexRefGet##NAME(GETTYPE *p, CUtexref hTexRef) \
    { \
        SG_TEXREF(t, hTexRef); \
        if (!p) \
            return CUDA_ERROR_INVALID_VALUE; \
        SG_GET(*p, t, desc.FIELD); \
        return CUDA_SUCCESS; \
    }

SG_PROPERTY(FilterMode, CUfilter_mode, CUfilter_mode, filterMode, (unsigned)v <= CU_TR_FILTER_MODE_LINEAR)
SG_PROPERTY(MipmapFilterMode, CUfilter_mode, CUfilter_mode, mipmapFilterMode,
            (unsigned)v <= CU_TR_FILTER_MODE_LINEAR)
SG_PROPERTY(MipmapLevelBias, float, float, mipmapLevelBias, v == v)
SG_PROPERTY(MaxAnisotropy, unsigned, int, maxAnisotropy, true)
SG_PROPERTY(Flags, unsigned, unsigned, flags,
            !(v & ~(unsigned)(CU_TRSF_READ_AS_INTEGER | CU_TRSF_NORMALIZED_COORDINATES | CU_TRSF_SRGB |
                              CU_TRSF_DISABLE_TRILINEAR_OPTIMIZATION)))

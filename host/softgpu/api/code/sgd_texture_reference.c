/* SPDX-License-Identifier: MIT */
/*
 * Driver API: texture and surface references, which CUDA keeps for old programs. A reference holds
 * descriptors; a launch creates the texture from them as they are at that time.
 */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"

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

CUresult sgd_cuModuleGetTexRef(CUtexref *pTexRef, struct sg_mod *mod, const char *name)
{
    uint64_t h;
    CUresult r = sg_mod_texref(mod, name, false, &h);

    if (r == CUDA_SUCCESS)
        *pTexRef = (CUtexref)(uintptr_t)h;
    return r;
}

CUresult sgd_cuModuleGetSurfRef(CUsurfref *pSurfRef, struct sg_mod *mod, const char *name)
{
    uint64_t h;
    CUresult r = sg_mod_texref(mod, name, true, &h);

    if (r == CUDA_SUCCESS)
        *pSurfRef = (CUsurfref)(uintptr_t)h;
    return r;
}

CUresult sgd_cuTexRefCreate(struct sg_ctx *ctx, CUtexref *pTexRef)
{
    struct sg_texref *t;

    t = sg_texref_new(ctx, false);
    if (!t)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *pTexRef = SG_HANDLE(CUtexref, t);
    sg_obj_put(&t->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefDestroy(struct sg_texref *t)
{
    if (t->of_module)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "the reference is a module's and goes with it");
    return sg_obj_unregister(&t->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* A launch fetches through the object bound to the module's reference: nothing is left to do. */
CUresult sgd_cuParamSetTexRef(CUfunction hfunc, int texunit, struct sg_texref *t)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r = sg_func_get(t->ctx, hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    (void)texunit; /* documented as the default one; none is refused (driver 580) */
    /* Documented: the reference belongs to a module. */
    return t->of_module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- binding ---- */

/* Binds res if an object can be created from it. */
static CUresult bind_reference(struct sg_texref *t, const CUDA_RESOURCE_DESC *res, CUdeviceptr address)
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

CUresult sgd_cuTexRefSetArray(struct sg_texref *t, CUarray hArray, unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};

    /* Documented as necessary; a driver takes 0, too (driver 580). */
    return Flags == CU_TRSA_OVERRIDE_FORMAT || !Flags ? bind_reference(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuTexRefSetMipmappedArray(struct sg_texref *t, CUmipmappedArray hMipmappedArray,
                                       unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                              .res.mipmap.hMipmappedArray = hMipmappedArray};

    return Flags == CU_TRSA_OVERRIDE_FORMAT ? bind_reference(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuTexRefSetAddress_v2(size_t *ByteOffset, struct sg_texref *t, CUdeviceptr dptr, size_t bytes)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_LINEAR};
    const CUdeviceptr align = (CUdeviceptr)sg_attr(0, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
    CUresult r;

    /* A misaligned address is bound from the aligned address below it; the caller adds the
       offset. */
    if ((dptr % align && !ByteOffset) || bytes > SIZE_MAX - align)
        return CUDA_ERROR_INVALID_VALUE;
    res.res.linear.devPtr = dptr - dptr % align;
    res.res.linear.sizeInBytes = bytes + dptr % align;
    SG_GET(res.res.linear.format, t, format);
    SG_GET(res.res.linear.numChannels, t, channels);
    r = bind_reference(t, &res, dptr);
    if (r == CUDA_SUCCESS && ByteOffset)
        *ByteOffset = dptr % align;
    return r;
}

CUresult sgd_cuTexRefSetAddress2D_v3(struct sg_texref *t, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr,
                                     size_t Pitch)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_PITCH2D};

    res.res.pitch2D.devPtr = dptr;
    res.res.pitch2D.format = desc->Format;
    res.res.pitch2D.numChannels = desc->NumChannels;
    res.res.pitch2D.width = desc->Width;
    res.res.pitch2D.height = desc->Height;
    res.res.pitch2D.pitchInBytes = Pitch;
    CUresult r = bind_reference(t, &res, dptr);

    if (r == CUDA_SUCCESS) {
        SG_SET(t, format, desc->Format);
        SG_SET(t, channels, desc->NumChannels);
    }
    return r;
}

CUresult sgd_cuTexRefGetAddress_v2(CUdeviceptr *pdptr, struct sg_texref *t)
{
    CUdeviceptr address;

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

CUresult sgd_cuTexRefGetArray(CUarray *phArray, struct sg_texref *t)
{
    CUDA_RESOURCE_DESC res;

    if (!phArray || bound_resource(t, CU_RESOURCE_TYPE_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = res.res.array.hArray;
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, struct sg_texref *t)
{
    CUDA_RESOURCE_DESC res;

    if (!phMipmappedArray || bound_resource(t, CU_RESOURCE_TYPE_MIPMAPPED_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phMipmappedArray = res.res.mipmap.hMipmappedArray;
    return CUDA_SUCCESS;
}

CUresult sgd_cuSurfRefSetArray(struct sg_texref *t, CUarray hArray, unsigned int Flags)
{
    CUDA_RESOURCE_DESC res = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};

    return Flags == 0 ? bind_reference(t, &res, 0) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sgd_cuSurfRefGetArray(CUarray *phArray, struct sg_texref *t)
{
    CUDA_RESOURCE_DESC res;

    if (!phArray || bound_resource(t, CU_RESOURCE_TYPE_ARRAY, &res) != CUDA_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = res.res.array.hArray;
    return CUDA_SUCCESS;
}

/* ---- the sampler ---- */

CUresult sgd_cuTexRefSetFormat(struct sg_texref *t, CUarray_format fmt, int NumPackedComponents)
{
    uint32_t bytes;
    CUresult r = NumPackedComponents < 0 ? CUDA_ERROR_INVALID_VALUE
                                         : sg_format_element(fmt, (unsigned)NumPackedComponents, &bytes);

    if (r != CUDA_SUCCESS)
        return r;
    SG_SET(t, format, fmt);
    SG_SET(t, channels, (unsigned)NumPackedComponents);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, struct sg_texref *t)
{
    if (pFormat)
        SG_GET(*pFormat, t, format);
    if (pNumChannels)
        SG_GET(*pNumChannels, t, channels);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefSetAddressMode(struct sg_texref *t, int dim, CUaddress_mode am)
{
    SG_SET(t, desc.addressMode[dim], am);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefGetAddressMode(CUaddress_mode *pam, struct sg_texref *t, int dim)
{
    SG_GET(*pam, t, desc.addressMode[dim]);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefSetMipmapLevelClamp(struct sg_texref *t, float minMipmapLevelClamp,
                                         float maxMipmapLevelClamp)
{
    SG_SET(t, desc.minMipmapLevelClamp, minMipmapLevelClamp);
    SG_SET(t, desc.maxMipmapLevelClamp, maxMipmapLevelClamp);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                         struct sg_texref *t)
{
    SG_GET(*pminMipmapLevelClamp, t, desc.minMipmapLevelClamp);
    SG_GET(*pmaxMipmapLevelClamp, t, desc.maxMipmapLevelClamp);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefSetBorderColor(struct sg_texref *t, float *pBorderColor)
{
    pthread_mutex_lock(&t->lock);
    memcpy(t->desc.borderColor, pBorderColor, sizeof(t->desc.borderColor));
    pthread_mutex_unlock(&t->lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuTexRefGetBorderColor(float *pBorderColor, struct sg_texref *t)
{
    pthread_mutex_lock(&t->lock);
    memcpy(pBorderColor, t->desc.borderColor, sizeof(t->desc.borderColor));
    pthread_mutex_unlock(&t->lock);
    return CUDA_SUCCESS;
}

/* A value that is set and read. */
#define SG_PROPERTY(NAME, TYPE, GETTYPE, FIELD) \
    CUresult sgd_cuTexRefSet##NAME(struct sg_texref *t, TYPE v) \
    { \
        SG_SET(t, desc.FIELD, v); \
        return CUDA_SUCCESS; \
    } \
    CUresult sgd_cuTexRefGet##NAME(GETTYPE *p, struct sg_texref *t) \
    { \
        SG_GET(*p, t, desc.FIELD); \
        return CUDA_SUCCESS; \
    }

SG_PROPERTY(FilterMode, CUfilter_mode, CUfilter_mode, filterMode)
SG_PROPERTY(MipmapFilterMode, CUfilter_mode, CUfilter_mode, mipmapFilterMode)
SG_PROPERTY(MipmapLevelBias, float, float, mipmapLevelBias)
SG_PROPERTY(MaxAnisotropy, unsigned, int, maxAnisotropy)
SG_PROPERTY(Flags, unsigned, unsigned, flags)

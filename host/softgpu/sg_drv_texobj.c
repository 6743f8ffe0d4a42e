/* SPDX-License-Identifier: MIT */
/* Driver API: texture and surface objects. */
#include "sg_array.h"

/* The object behind a handle of one of the two types; documented: CUDA_ERROR_INVALID_VALUE. */
#define SG_TEXOBJ(var, h, type)                                                                    \
    SG_AUTO struct sg_texobj *var = NULL;                                                          \
    do {                                                                                           \
        struct sg_ctx *sg_cur_ = NULL;                                                             \
        CUresult sg_rc_ = sg_current(&sg_cur_);                                                    \
        if (sg_rc_ != CUDA_SUCCESS)                                                                \
            return sg_rc_;                                                                         \
        var = sg_lookup((h), (type));                                                              \
        if (!var)                                                                                  \
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "0x%llx: no such object",                     \
                           (unsigned long long)(h));                                               \
    } while (0)

static CUresult publish(struct sg_texobj *o, unsigned long long *handle)
{
    CUresult r = sg_obj_register(&o->obj) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;

    if (r == CUDA_SUCCESS)
        *handle = o->obj.handle;
    sg_obj_put(&o->obj);
    return r;
}

CUresult CUDAAPI cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                                   const CUDA_TEXTURE_DESC *pTexDesc,
                                   const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    struct sg_texobj *o;
    CUresult r;

    SG_CTX(ctx);
    if (!pTexObject || !pResDesc || !pTexDesc)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_texobj_new(ctx, pResDesc, pTexDesc, pResViewDesc, &o);
    return r == CUDA_SUCCESS ? publish(o, pTexObject) : r;
}

CUresult CUDAAPI cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
    struct sg_texobj *o;
    CUresult r;

    SG_CTX(ctx);
    if (!pSurfObject || !pResDesc)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_surfobj_new(ctx, pResDesc, &o);
    return r == CUDA_SUCCESS ? publish(o, pSurfObject) : r;
}

/* Work that may still use the object ends before it does. */
static CUresult withdraw(struct sg_texobj *o)
{
    SG_CTX(ctx);
    sg_ctx_drain(ctx);
    if (o->ctx != ctx && atomic_load(&o->ctx->alive))
        sg_ctx_drain(o->ctx);
    return sg_obj_unregister(&o->obj) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject)
{
    SG_TEXOBJ(o, texObject, SG_T_TEXOBJ);
    return withdraw(o);
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surfObject)
{
    SG_TEXOBJ(o, surfObject, SG_T_SURFOBJ);
    return withdraw(o);
}

CUresult CUDAAPI cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    SG_TEXOBJ(o, texObject, SG_T_TEXOBJ);
    if (!pResDesc)
        return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = o->res;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    SG_TEXOBJ(o, texObject, SG_T_TEXOBJ);
    if (!pTexDesc)
        return CUDA_ERROR_INVALID_VALUE;
    *pTexDesc = o->desc;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                                CUtexObject texObject)
{
    SG_TEXOBJ(o, texObject, SG_T_TEXOBJ);
    /* Documented: an error when none was specified. */
    if (!pResViewDesc || !o->has_view)
        return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = o->view;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
    SG_TEXOBJ(o, surfObject, SG_T_SURFOBJ);
    if (!pResDesc)
        return CUDA_ERROR_INVALID_VALUE;
    *pResDesc = o->res;
    return CUDA_SUCCESS;
}

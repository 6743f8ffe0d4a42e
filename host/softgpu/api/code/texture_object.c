/* SPDX-License-Identifier: MIT */
/* Driver API: texture and surface objects. */
#include <stdlib.h>

#include "api/api.h"

/* The object behind a handle of one of the two types; documented: CUDA_ERROR_INVALID_VALUE. */
#define SG_TEXOBJ(var, h, type) \
    SG_AUTO struct sg_texobj *var = NULL; \
    do { \
        struct sg_ctx *sg_cur_ = NULL; \
        CUresult sg_rc_ = sg_current(&sg_cur_); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
        var = sg_lookup((h), (type)); \
        if (!var || atomic_load(&var->dying)) \
            return sg_fail(CUDA_ERROR_INVALID_VALUE, "0x%llx: no such object", (unsigned long long)(h)); \
    } while (0)

/* Objects that were destroyed while work was queued that may use them: handles. Made with the object: taking away
   must not fail. */
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;
static struct retired {
    SG_OWNED struct retired *next;
    uint64_t handle;
    enum sg_type type;
} * retired;

static void sweep(void);

static CUresult publish(struct sg_texobj *o, unsigned long long *handle)
{
    sweep();
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    atomic_store(&o->retired, calloc(1, sizeof(struct retired)));
    if (atomic_load(&o->retired) && sg_obj_register(&o->obj))
        r = CUDA_SUCCESS;

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

static void sweep(void)
{
    pthread_mutex_lock(&retired_lock);
    for (struct retired **p = &retired; *p;) {
        struct retired *r = *p;
        SG_AUTO struct sg_texobj *o = sg_lookup(r->handle, r->type);

        if (o && atomic_load(&o->ctx->alive) && !sg_ctx_idle(o->ctx)) {
            p = &r->next;
            continue;
        }
        if (o)
            sg_obj_unregister(&o->obj);
        *p = r->next;
        free(r);
    }
    pthread_mutex_unlock(&retired_lock);
}

/* Nothing is waited for: a launch that was issued before finds the object, calls do not. */
static CUresult withdraw(struct sg_texobj *o)
{
    struct retired *r;

    if (atomic_exchange(&o->dying, true)) /* another thread was first */
        return CUDA_ERROR_INVALID_VALUE;
    r = atomic_exchange(&o->retired, NULL);
    pthread_mutex_lock(&retired_lock);
    *r = (struct retired){retired, o->obj.handle, (enum sg_type)o->obj.type};
    retired = r;
    pthread_mutex_unlock(&retired_lock);
    sweep();
    return CUDA_SUCCESS;
}

/* 0 is no object; NVIDIA's samples destroy it, and ask whether that went well. */
CUresult CUDAAPI cuTexObjectDestroy(CUtexObject texObject)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!texObject)
        return CUDA_SUCCESS;
    SG_TEXOBJ(o, texObject, SG_T_TEXOBJ);
    return withdraw(o);
}

CUresult CUDAAPI cuSurfObjectDestroy(CUsurfObject surfObject)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!surfObject)
        return CUDA_SUCCESS;
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

CUresult CUDAAPI cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, CUtexObject texObject)
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

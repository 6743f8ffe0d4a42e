/* SPDX-License-Identifier: MIT */
/* Driver API: texture and surface objects. */
#include <stdlib.h>

#include "api/api.h"

/* The object behind a handle of the given type; documented: CUDA_ERROR_INVALID_VALUE. */
CUresult sg_texobj_get(uint64_t h, enum sg_type type, struct sg_texobj **out)
{
    *out = sg_lookup(h, type);
    if (*out && !atomic_load(&(*out)->dying))
        return CUDA_SUCCESS;
    return sg_fail(CUDA_ERROR_INVALID_VALUE, "0x%llx: no such object", (unsigned long long)h);
}

/* Handles of objects that were destroyed while queued work may use them. The entry is allocated
   together with the object, because destroying must not fail. */
static pthread_mutex_t retired_lock = PTHREAD_MUTEX_INITIALIZER;
static struct retired {
    SG_OWNED struct retired *next;
    uint64_t handle;
    enum sg_type type;
} * retired, **retired_end = &retired;

/* Maximum number of busy entries examined per call: as long as a kernel runs, all may be busy. */
#define SWEEP_BUSY 4u

static void sweep_retired(void);

static CUresult publish_texture(struct sg_texobj *o, unsigned long long *handle)
{
    sweep_retired();
    CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

    atomic_store(&o->retired, calloc(1, sizeof(struct retired)));
    if (atomic_load(&o->retired) && sg_obj_register(&o->obj))
        r = CUDA_SUCCESS;

    if (r == CUDA_SUCCESS)
        *handle = o->obj.handle;
    sg_obj_put(&o->obj);
    return r;
}

CUresult sgd_cuTexObjectCreate(struct sg_ctx *ctx, CUtexObject *pTexObject,
                               const CUDA_RESOURCE_DESC *pResDesc, const CUDA_TEXTURE_DESC *pTexDesc,
                               const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    struct sg_texobj *o;
    CUresult r = sg_texobj_new(ctx, pResDesc, pTexDesc, pResViewDesc, &o);

    return r == CUDA_SUCCESS ? publish_texture(o, pTexObject) : r;
}

CUresult sgd_cuSurfObjectCreate(struct sg_ctx *ctx, CUsurfObject *pSurfObject,
                                const CUDA_RESOURCE_DESC *pResDesc)
{
    struct sg_texobj *o;
    CUresult r = sg_surfobj_new(ctx, pResDesc, &o);

    return r == CUDA_SUCCESS ? publish_texture(o, pSurfObject) : r;
}

/* With the lock held. */
static void enter_first(struct retired *r)
{
    r->next = retired;
    if (!retired)
        retired_end = &r->next;
    retired = r;
}

static void first_to_last(void)
{
    struct retired *r = retired;

    if (!r->next)
        return;
    retired = r->next;
    r->next = NULL;
    *retired_end = r;
    retired_end = &r->next;
}

/* Ends the object unless work may use it. */
static bool end_retired(const struct retired *r)
{
    SG_AUTO struct sg_texobj *o = sg_lookup(r->handle, r->type);

    if (o && atomic_load(&o->ctx->alive) && !sg_ctx_idle(o->ctx))
        return false;
    if (o)
        sg_obj_unregister(&o->obj);
    return true;
}

/*
 * Examines the newest entry first and moves busy entries to the end, so that the cost of a call does
 * not depend on the length of the list and every entry is reached.
 */
static void sweep_retired(void)
{
    pthread_mutex_lock(&retired_lock);
    for (unsigned busy = 0; retired && busy < SWEEP_BUSY;) {
        struct retired *r = retired;

        if (!end_retired(r)) {
            first_to_last();
            busy++;
            continue;
        }
        retired = r->next;
        if (!retired)
            retired_end = &retired;
        free(r);
    }
    pthread_mutex_unlock(&retired_lock);
}

/* Nothing is waited for: a launch that was issued before finds the object, calls do not. */
static CUresult withdraw_texture(struct sg_texobj *o)
{
    struct retired *r;

    if (atomic_exchange(&o->dying, true)) /* another thread was first */
        return CUDA_ERROR_INVALID_VALUE;
    r = atomic_exchange(&o->retired, NULL);
    pthread_mutex_lock(&retired_lock);
    *r = (struct retired){NULL, o->obj.handle, (enum sg_type)o->obj.type};
    enter_first(r);
    pthread_mutex_unlock(&retired_lock);
    sweep_retired();
    return CUDA_SUCCESS;
}

/* 0 is no object; NVIDIA's samples destroy it, and ask whether that went well. */
CUresult sgd_cuTexObjectDestroy(CUtexObject texObject)
{
    if (!texObject)
        return CUDA_SUCCESS;
    SG_OBJECT(struct sg_texobj, o, sg_texobj_get(texObject, SG_T_TEXOBJ, &o));
    return withdraw_texture(o);
}

CUresult sgd_cuSurfObjectDestroy(CUsurfObject surfObject)
{
    if (!surfObject)
        return CUDA_SUCCESS;
    SG_OBJECT(struct sg_texobj, o, sg_texobj_get(surfObject, SG_T_SURFOBJ, &o));
    return withdraw_texture(o);
}

CUresult sgd_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc, struct sg_texobj *o)
{
    /* Documented: an error when none was specified. */
    if (!pResViewDesc || !o->has_view)
        return CUDA_ERROR_INVALID_VALUE;
    *pResViewDesc = o->view;
    return CUDA_SUCCESS;
}

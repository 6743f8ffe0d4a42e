/* SPDX-License-Identifier: MIT */
/* Texture and surface references: each launch creates its textures from their descriptors. */
#include <stdlib.h>

#include "module/module.h"

static void texref_destroy(struct sg_obj *obj)
{
    struct sg_texref *t = (struct sg_texref *)obj;

    pthread_mutex_destroy(&t->lock);
    sg_obj_put(&t->ctx->obj);
    free(t);
}

struct sg_texref *sg_texref_new(struct sg_ctx *ctx, bool surface)
{
    struct sg_texref *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    sg_obj_init(&t->obj, surface ? SG_T_SURFREF : SG_T_TEXREF, ctx, texref_destroy);
    sg_obj_get(&ctx->obj);
    t->ctx = ctx;
    t->format = CU_AD_FORMAT_UNSIGNED_INT8;
    t->channels = 1;
    pthread_mutex_init(&t->lock, NULL);
    if (sg_obj_register(&t->obj))
        return t;
    sg_obj_put(&t->obj);
    return NULL;
}

CUresult sg_texref_object(struct sg_texref *t, struct sg_texobj **out)
{
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC desc;
    bool bound;

    if (t->sampler)
        return sg_sampler_new(t->ctx, &t->desc, out);
    pthread_mutex_lock(&t->lock);
    bound = t->bound;
    res = t->res;
    desc = t->desc;
    if (res.resType == CU_RESOURCE_TYPE_LINEAR) {
        res.res.linear.format = t->format;
        res.res.linear.numChannels = t->channels;
    }
    pthread_mutex_unlock(&t->lock);
    if (!bound)
        return sg_fail(CUDA_ERROR_INVALID_VALUE, "nothing is bound to a texture or surface reference");
    return t->obj.type == SG_T_SURFREF ? sg_surfobj_new(t->ctx, &res, out)
                                       : sg_texobj_new(t->ctx, &res, &desc, NULL, out);
}

/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface objects. Kernels get an object's number as a parameter, so the guest has the
 * provider's number; only numbers that this client was given are passed back to the provider.
 */
#include "../calls.h"

#include <stdlib.h>
#include <string.h>

#include "lib/btree/btree.h"

#define OBJECTS_MAX (1u << 20) /* of a client; bounds the worker's memory */

/* The objects that end with one context. */
struct owner {
    VGB_OWNED struct texture *first;
    uint64_t context;
};

struct texture {
    VGB_OWNED struct texture *next; /* of the owner */
    VGB_LISTED struct texture **at; /* what names it in that list */
    VGB_LENT struct owner *owner;
    uint64_t number;
    bool surface;
};

/* Objects of this process's client by number, textures and surfaces; owners with objects by context. */
static struct btr_tree objects[2], owners;

static void texture_free(struct texture *t)
{
    struct owner *o = t->owner;

    free(t);
    if (o->first)
        return;
    btr_remove(&owners, o->context, NULL);
    free(o);
}

static struct owner *owner_of(uint64_t context)
{
    struct btr_item it;
    struct owner *o;

    if (btr_find(&owners, context, &it))
        return it.value;
    o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->context = context;
    if (btr_insert(&owners, context, 0, o) == 0)
        return o;
    free(o);
    return NULL;
}

/* A record for an object of the current context, which texture_enter() or texture_free() then takes. */
static struct texture *texture_new(struct wrk_call *c, bool surface)
{
    struct texture *t = NULL;

    if (objects[0].count + objects[1].count < OBJECTS_MAX && wrk_limits_unnamed(&c->w->handles) &&
        btr_reserve(&objects[surface]))
        t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->surface = surface;
    t->owner = owner_of(wrk_base_handle(c->w, c->rec->context));
    if (t->owner)
        return t;
    free(t);
    return NULL;
}

static void texture_leave(struct wrk_worker *w, uint64_t number, bool surface)
{
    struct btr_item it;
    struct texture *t;

    if (!btr_remove(&objects[surface], number, &it))
        return;
    w->handles.unnamed--;
    t = it.value;
    *t->at = t->next;
    if (t->next)
        t->next->at = t->at;
    texture_free(t);
}

static void texture_enter(struct wrk_worker *w, struct texture *t, uint64_t number)
{
    t->number = number;
    t->at = &t->owner->first;
    t->next = *t->at;
    if (t->next)
        t->next->at = &t->next;
    *t->at = t;                           /* first: the owner stays when the object before is its last */
    texture_leave(w, number, t->surface); /* the provider has ended it, and given its number out again */
    btr_insert(&objects[t->surface], number, 0, t);
    w->handles.unnamed++;
}

static CUresult texture_describe(struct wrk_call *c, const struct vgp_args_vgpTexObjectCreate *a,
                                 CUDA_RESOURCE_DESC *r)
{
    memset(r, 0, sizeof(*r));
    r->resType = (CUresourcetype)a->type;
    r->flags = a->flags;
    switch (a->type) {
    case CU_RESOURCE_TYPE_ARRAY:
        return wrk_handle_get(c, a->array, VGP_H_ARRAY, false, (void **)&r->res.array.hArray);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return wrk_handle_get(c, a->mipmap, VGP_H_MIPMAPPED_ARRAY, false,
                              (void **)&r->res.mipmap.hMipmappedArray);
    case CU_RESOURCE_TYPE_LINEAR:
        r->res.linear.devPtr = a->address;
        r->res.linear.format = (CUarray_format)a->format;
        r->res.linear.numChannels = a->channels;
        r->res.linear.sizeInBytes = a->width;
        return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_PITCH2D:
        r->res.pitch2D.devPtr = a->address;
        r->res.pitch2D.format = (CUarray_format)a->format;
        r->res.pitch2D.numChannels = a->channels;
        r->res.pitch2D.width = a->width;
        r->res.pitch2D.height = a->height;
        r->res.pitch2D.pitchInBytes = a->pitch;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult wrk_do_vgpTexObjectCreate(struct wrk_call *c, const struct vgp_args_vgpTexObjectCreate *a,
                                   const void *desc, const void *view, struct vgp_ret_vgpTexObjectCreate *r)
{
    CUDA_RESOURCE_VIEW_DESC v;
    CUDA_RESOURCE_DESC res;
    CUDA_TEXTURE_DESC t;
    unsigned long long number = 0;
    struct texture *o;
    CUresult e;

    if (a->surface > 1 || (a->surface ? a->desc_len || a->view_len : a->desc_len != sizeof(t)) ||
        (a->view_len && a->view_len != sizeof(v)))
        return wrk_malformed(c, "descriptors of %u and %u bytes", a->desc_len, a->view_len);
    if (!wrk_provider.cuTexObjectCreate || !wrk_provider.cuSurfObjectCreate ||
        !wrk_provider.cuTexObjectDestroy || !wrk_provider.cuSurfObjectDestroy)
        return wrk_missing(c, "cuTexObjectCreate and its kin");
    e = texture_describe(c, a, &res);
    if (e != CUDA_SUCCESS)
        return e;
    o = texture_new(c, a->surface);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (a->surface) {
        e = wrk_provider.cuSurfObjectCreate(&number, &res);
    } else {
        memcpy(&t, desc, sizeof(t));
        if (a->view_len)
            memcpy(&v, view, sizeof(v));
        e = wrk_provider.cuTexObjectCreate(&number, &res, &t, a->view_len ? &v : NULL);
    }
    if (e != CUDA_SUCCESS) {
        texture_free(o);
        return e;
    }
    texture_enter(c->w, o, number);
    r->object = number;
    return CUDA_SUCCESS;
}

void wrk_textures_end(struct wrk_worker *w, uint64_t context)
{
    struct btr_item it;

    if (!btr_find(&owners, context, &it))
        return;
    for (struct texture *t = ((struct owner *)it.value)->first, *next; t; t = next) {
        next = t->next;
        texture_leave(w, t->number, t->surface); /* with the last one the owner */
    }
}

bool wrk_texture_known(uint64_t object, uint32_t surface)
{
    return btr_find(&objects[surface], object, NULL);
}

CUresult wrk_texture_destroyed(struct wrk_worker *w, uint64_t object, uint32_t surface)
{
    texture_leave(w, object, surface);
    return CUDA_SUCCESS;
}

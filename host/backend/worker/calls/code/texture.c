/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface objects. Kernels get an object's number as a parameter, so the guest has the
 * provider's number; only numbers that this client was given are passed back to the provider.
 */
#include "../calls.h"

#include <string.h>

#include "lib/btree/btree.h"

#define OBJECTS_MAX (1u << 20) /* of a client; bounds the worker's memory */

/* Objects of this process's client, textures and surfaces: the context that each ends with, as weight, by number. */
static struct btr_tree objects[2];

/* Room for one more, which texture_enter() then takes. */
static bool texture_room(struct wrk_call *c, bool surface)
{
    return objects[0].count + objects[1].count < OBJECTS_MAX && wrk_limits_unnamed(&c->w->handles) &&
           btr_reserve(&objects[surface]);
}

static void texture_leave(struct wrk_worker *w, uint64_t number, bool surface)
{
    w->handles.unnamed -= btr_remove(&objects[surface], number, NULL);
}

static void texture_enter(struct wrk_call *c, uint64_t number, bool surface)
{
    texture_leave(c->w, number, surface); /* the provider has ended it, and given its number out again */
    btr_insert(&objects[surface], number, wrk_base_handle(c->w, c->rec->context), NULL);
    c->w->handles.unnamed++;
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
    if (!texture_room(c, a->surface))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (a->surface) {
        e = wrk_provider.cuSurfObjectCreate(&number, &res);
    } else {
        memcpy(&t, desc, sizeof(t));
        if (a->view_len)
            memcpy(&v, view, sizeof(v));
        e = wrk_provider.cuTexObjectCreate(&number, &res, &t, a->view_len ? &v : NULL);
    }
    if (e == CUDA_SUCCESS) {
        texture_enter(c, number, a->surface);
        r->object = number;
    }
    return e;
}

void wrk_textures_end(struct wrk_worker *w, uint64_t context)
{
    for (unsigned surface = 0; surface < 2; surface++) {
        struct btr_item it;

        /* Those with a greater weight are of other contexts. */
        for (uint64_t from = 0; btr_first_of_weight(&objects[surface], from, context, &it);
             from = it.key + 1) {
            if (it.weight == context)
                texture_leave(w, it.key, surface);
            if (it.key == UINT64_MAX)
                break;
        }
    }
}

CUresult wrk_do_vgpTexObjectDestroy(struct wrk_call *c, const struct vgp_args_vgpTexObjectDestroy *a)
{
    struct btr_item it;
    CUresult e;

    if (a->surface > 1)
        return wrk_malformed(c, "neither a texture nor a surface");
    if (!btr_find(&objects[a->surface], a->object, &it))
        return CUDA_ERROR_INVALID_VALUE;
    e = a->surface ? wrk_provider.cuSurfObjectDestroy(a->object) : wrk_provider.cuTexObjectDestroy(a->object);
    if (e == CUDA_SUCCESS)
        texture_leave(c->w, a->object, a->surface);
    return e;
}

/* SPDX-License-Identifier: MIT */
/*
 * Arrays, texture and surface objects, except for calls that are only forwarded. An object's number
 * is the one of the worker's driver, because kernels get it as a parameter. The descriptors that an
 * object was created from are kept here, with the handles as the program knows them.
 */
#include "code.h"

#include <stdlib.h>
#include <string.h>

#include "../memory/memory.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards both trees */
static struct btr_tree objects[2]; /* textures, surfaces: struct vcu_texture_object by number */

CUresult vcu_array_check(const char *call, const void *out, const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    CUresult r = vcu_check_uncaptured(call);

    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || d == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Flags >= 2u * CUDA_ARRAY3D_VIDEO_ENCODE_DECODE) /* the last one that cuda.h names */
        return CUDA_ERROR_INVALID_VALUE;
    if (d->Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING))
        return VCU_REFUSE(CUDA_ERROR_NOT_SUPPORTED, call,
                          "sparse arrays and deferred mapping are not offered");
    return CUDA_SUCCESS;
}

CUresult vcu_array_about(uint64_t handle, enum vgp_handle_type type)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    return vgp_handle_live(handle, type) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult vcu_array_requirements(uint64_t handle, enum vgp_handle_type type, CUdevice device)
{
    struct vcu_device *d;
    CUresult r = vcu_array_about(handle, type), known = vcu_device_get(device, &d);

    return r == CUDA_ERROR_INVALID_VALUE && known != CUDA_SUCCESS ? known : r;
}

/* ---- objects -------------------------------------------------------------------------------- */

static CUresult texture_send(const struct vcu_texture_object *o, uint64_t *number)
{
    const CUDA_RESOURCE_DESC *r = &o->res;
    CUarray array = NULL;
    CUmipmappedArray mipmap = NULL;
    uint64_t address = 0, width = 0, height = 0, pitch = 0;
    uint32_t format = 0, channels = 0;

    switch (r->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        array = r->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        mipmap = r->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        address = r->res.linear.devPtr;
        format = r->res.linear.format;
        channels = r->res.linear.numChannels;
        width = r->res.linear.sizeInBytes;
        break;
    case CU_RESOURCE_TYPE_PITCH2D:
        address = r->res.pitch2D.devPtr;
        format = r->res.pitch2D.format;
        channels = r->res.pitch2D.numChannels;
        width = r->res.pitch2D.width;
        height = r->res.pitch2D.height;
        pitch = r->res.pitch2D.pitchInBytes;
        break;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    if ((r->resType == CU_RESOURCE_TYPE_ARRAY && !vgp_handle_live((uintptr_t)array, VGP_H_ARRAY)) ||
        (r->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY &&
         !vgp_handle_live((uintptr_t)mipmap, VGP_H_MIPMAPPED_ARRAY)))
        return CUDA_ERROR_INVALID_VALUE;
    return vgp_call_vgpTexObjectCreate(o->surface, r->resType, array, mipmap, address, format, channels,
                                       width, height, pitch, r->flags, o->surface ? NULL : &o->desc,
                                       o->surface ? 0 : sizeof(o->desc), o->has_view ? &o->view : NULL,
                                       o->has_view ? sizeof(o->view) : 0, number);
}

/* False, with o freed: no memory. */
static bool remember_object(struct vcu_texture_object *o)
{
    struct btr_item old = {0, 0, NULL};
    bool ok;

    pthread_mutex_lock(&lock);
    btr_remove(&objects[o->surface], o->number, &old); /* of a context that ended with it */
    ok = btr_insert(&objects[o->surface], o->number, 0, o) == 0;
    pthread_mutex_unlock(&lock);
    free(old.value);
    if (!ok)
        free(o);
    return ok;
}

CUresult vcu_texture_create(unsigned long long *number, bool surface, const CUDA_RESOURCE_DESC *res,
                            const CUDA_TEXTURE_DESC *desc, const CUDA_RESOURCE_VIEW_DESC *view)
{
    CUresult r = vcu_check_context();
    struct vcu_texture_object *o;

    if (r != CUDA_SUCCESS)
        return r;
    if (number == NULL || res == NULL || (!surface && desc == NULL))
        return CUDA_ERROR_INVALID_VALUE;
    o = calloc(1, sizeof(*o));
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->surface = surface;
    o->res = *res;
    if (desc != NULL)
        o->desc = *desc;
    if (view != NULL) {
        o->has_view = true;
        o->view = *view;
    }
    r = texture_send(o, &o->number);
    if (r != CUDA_SUCCESS) {
        free(o);
        return r;
    }
    const uint64_t made = o->number;

    if (!remember_object(o)) {
        vgp_call_vgpTexObjectDestroy(surface, made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *number = made;
    return CUDA_SUCCESS;
}

CUresult vcu_texture_destroy(uint64_t number, bool surface)
{
    CUresult res = vcu_check_context();
    struct btr_item item;
    bool known;

    if (res != CUDA_SUCCESS || number == 0) /* 0 is no object; NVIDIA's samples destroy it */
        return res;
    pthread_mutex_lock(&lock);
    known = btr_remove(&objects[surface], number, &item);
    pthread_mutex_unlock(&lock);
    if (!known)
        return CUDA_ERROR_INVALID_VALUE;
    free(item.value);
    return vgp_call_vgpTexObjectDestroy(surface, number);
}

CUresult vcu_texture_look(uint64_t number, bool surface, struct vcu_texture_object *out)
{
    CUresult res = vcu_check_context();
    struct btr_item item;
    bool known;

    if (res != CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&lock);
    known = btr_find(&objects[surface], number, &item);
    if (known)
        *out = *(const struct vcu_texture_object *)item.value;
    pthread_mutex_unlock(&lock);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

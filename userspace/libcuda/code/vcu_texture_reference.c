/* SPDX-License-Identifier: MIT */
/*
 * Texture and surface references, except for calls that are only forwarded. A reference lives in
 * the worker's driver. This file records its module and the array bound to it, whose handle only
 * the guest knows. A reference of a module ends with the module, one of cuTexRefCreate with its
 * context.
 */
#include <stdlib.h>
#include <string.h>

#include "code.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

/* A record with a new handle; NULL: out of memory or of handles. */
static struct vcu_texref *ref_new(const char *name, bool surface)
{
    struct vcu_texref *t = calloc(1, sizeof(*t) + strlen(name) + 1);

    if (t == NULL)
        return NULL;
    atomic_init(&t->users, 1);
    strcpy(t->name, name);
    t->surface = surface;
    t->handle = vgp_handle_mint(surface ? VGP_H_SURFACE : VGP_H_TEXTURE);
    if (t->handle != 0)
        return t;
    free(t);
    return NULL;
}

static void forget_ref(uint64_t handle, void *unused, void *arg)
{
    VCU_TEXREF_HELD struct vcu_texref *t = vcu_texref_find(handle, VGP_H_TEXTURE);

    (void)unused;
    if (t != NULL && t->context == *(uint64_t *)arg)
        vcu_texref_end(t);
}

void vcu_texrefs_forget(uint64_t context)
{
    vcu_handle_each(VGP_H_TEXTURE, forget_ref, &context);
}

/* ---- of modules ----------------------------------------------------------------------------- */

/* The same name gives the same reference. */
static CUresult of_module(struct vcu_code_record *u, const char *name, bool surface, uint64_t *handle)
{
    struct vcu_texref *t;
    CUresult r;

    for (t = u->refs; t != NULL; t = t->next) {
        if (t->surface == surface && strcmp(t->name, name) == 0) {
            *handle = t->handle;
            return CUDA_SUCCESS;
        }
    }
    t = ref_new(name, surface);
    if (t == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r = surface ? vgp_call_vgpModuleGetSurfRef((CUsurfref)(uintptr_t)t->handle,
                                               (CUmodule)(uintptr_t)u->handle, name)
                : vgp_call_vgpModuleGetTexRef((CUtexref)(uintptr_t)t->handle, (CUmodule)(uintptr_t)u->handle,
                                              name);
    if (r != CUDA_SUCCESS) {
        vcu_texref_end(t);
        return r;
    }
    t->next = u->refs;
    u->refs = t;
    vcu_handle_set_data(t->handle, surface ? VGP_H_SURFACE : VGP_H_TEXTURE, t);
    *handle = t->handle;
    return CUDA_SUCCESS;
}

CUresult vcu_module_ref(void *out, CUmodule hmod, const char *name, bool surface, uint64_t *handle)
{
    VCU_CODE_RECORD_HELD struct vcu_code_record *u = NULL;
    bool borrowed;
    CUresult r = vcu_module_enter(hmod, &u, &borrowed);

    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || name == NULL || *name == '\0')
        r = CUDA_ERROR_INVALID_VALUE;
    else
        r = vcu_name_sent(surface ? "cuModuleGetSurfRef" : "cuModuleGetTexRef", name);
    if (r == CUDA_SUCCESS) {
        pthread_mutex_lock(&u->lock);
        r = u->gone ? CUDA_ERROR_INVALID_HANDLE : of_module(u, name, surface, handle);
        pthread_mutex_unlock(&u->lock);
    }
    vcu_context_return(borrowed);
    return r;
}

/* ---- without a module --------------------------------------------------------------------------- */

CUresult vcu_cuTexRefCreate(CUtexref *pTexRef)
{
    CUresult r = vcu_check_context();
    struct vcu_texref *t;
    CUtexref h;

    if (r != CUDA_SUCCESS)
        return r;
    if (pTexRef == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    r = vgp_call_cuTexRefCreate(&h);
    if (r != CUDA_SUCCESS)
        return r;
    t = calloc(1, sizeof(*t) + 1);
    if (t == NULL) {
        vgp_call_cuTexRefDestroy(h);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_init(&t->users, 1);
    t->handle = (uintptr_t)h;
    t->context = vcu_owner_context();
    vcu_handle_set_data(t->handle, VGP_H_TEXTURE, t);
    *pTexRef = h;
    return CUDA_SUCCESS;
}

/* ---- binding -------------------------------------------------------------------------------- */

void vcu_texref_bind(struct vcu_texref *t, uint64_t array, uint64_t mipmap)
{
    t->array = array;
    t->mipmap = mipmap;
}

bool vcu_texture_unaligned(CUdeviceptr address)
{
    const int *attributes = vcu.devices[vcu_context_find(NULL)->device].attributes;
    const int alignment = attributes[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT];

    return alignment > 0 && address % (unsigned)alignment != 0;
}

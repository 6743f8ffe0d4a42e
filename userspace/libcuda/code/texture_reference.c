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

struct vcu_texref {
    struct vcu_texref *next; /* of the same module */
    atomic_uint users;       /* the handle table, calls */
    atomic_bool ended;       /* its handle has gone, and the table's reference with it */
    uint64_t handle;
    uint64_t context; /* owner of a reference without a module */
    bool surface;
    _Atomic uint64_t array, mipmap; /* the bound array, 0: another kind of memory or none */
    char name[];
};

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

static void ref_let_go(struct vcu_texref **t)
{
    if (*t != NULL && atomic_fetch_sub_explicit(&(*t)->users, 1, memory_order_acq_rel) == 1)
        free(*t);
}
/* A variable, initially NULL, whose reference is dropped at the end of its block. */
#define REF_HELD __attribute__((cleanup(ref_let_go)))

static struct vcu_texref *ref_find(uint64_t handle, enum vgp_handle_type type)
{
    return vcu_record_find(handle, type, offsetof(struct vcu_texref, users));
}

static void ref_end(struct vcu_texref *t)
{
    if (vcu_record_end(t->handle, &t->ended))
        ref_let_go(&t);
}

void vcu_texrefs_free(struct vcu_texref *first)
{
    while (first != NULL) {
        struct vcu_texref *t = first;

        first = t->next;
        ref_end(t);
    }
}

static void forget_ref(uint64_t handle, void *unused, void *arg)
{
    REF_HELD struct vcu_texref *t = ref_find(handle, VGP_H_TEXTURE);

    (void)unused;
    if (t != NULL && t->context == *(uint64_t *)arg)
        ref_end(t);
}

void vcu_texrefs_forget(uint64_t context)
{
    vcu_handle_each(VGP_H_TEXTURE, forget_ref, &context);
}

static CUresult find_texture(CUtexref h, struct vcu_texref **t)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    *t = ref_find((uintptr_t)h, VGP_H_TEXTURE);
    return *t != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult vcu_check_texref(CUtexref ref)
{
    REF_HELD struct vcu_texref *t = NULL;

    return find_texture(ref, &t);
}

static CUresult find_surface(CUsurfref h, struct vcu_texref **t)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    *t = ref_find((uintptr_t)h, VGP_H_SURFACE);
    return *t != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- of modules ----------------------------------------------------------------------------- */

/* The same name gives the same reference. */
static CUresult of_module(struct vcu_unit *u, const char *name, bool surface, uint64_t *handle)
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
        ref_end(t);
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
    VCU_UNIT_HELD struct vcu_unit *u = NULL;
    bool borrowed;
    CUresult r = vcu_module_enter(hmod, &u, &borrowed);

    if (r != CUDA_SUCCESS)
        return r;
    if (out == NULL || name == NULL || *name == '\0')
        r = CUDA_ERROR_INVALID_VALUE;
    else if (strlen(name) > 4095)
        r = CUDA_ERROR_NOT_FOUND;
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

CUresult vcu_cuTexRefDestroy(CUtexref hTexRef)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    if (t->context == 0)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuTexRefDestroy",
                          "the reference is a module's and goes with it");
    r = vgp_call_cuTexRefDestroy(hTexRef);
    if (r == CUDA_SUCCESS)
        ref_end(t);
    return r;
}

/* ---- binding -------------------------------------------------------------------------------- */

static void bound(struct vcu_texref *t, uint64_t array, uint64_t mipmap)
{
    t->array = array;
    t->mipmap = mipmap;
}

CUresult vcu_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgp_handle_live((uintptr_t)hArray, VGP_H_ARRAY))
        return CUDA_ERROR_INVALID_VALUE;
    r = vgp_call_cuTexRefSetArray(hTexRef, hArray, Flags);
    if (r == CUDA_SUCCESS)
        bound(t, (uintptr_t)hArray, 0);
    return r;
}

CUresult vcu_cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray, unsigned int Flags)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgp_handle_live((uintptr_t)hMipmappedArray, VGP_H_MIPMAPPED_ARRAY))
        return CUDA_ERROR_INVALID_VALUE;
    r = vgp_call_cuTexRefSetMipmappedArray(hTexRef, hMipmappedArray, Flags);
    if (r == CUDA_SUCCESS)
        bound(t, 0, (uintptr_t)hMipmappedArray);
    return r;
}

CUresult vcu_cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
    const int *attributes;
    uint64_t offset = 0;
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    attributes = vcu.devices[vcu_context_find(NULL)->device].attributes;
    if (ByteOffset == NULL && attributes[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] > 0 &&
        dptr % (unsigned)attributes[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT] != 0)
        return VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuTexRefSetAddress",
                          "the address is not aligned and there is nowhere to put the offset");
    r = vgp_call_cuTexRefSetAddress_v2(&offset, hTexRef, dptr, bytes);
    if (r != CUDA_SUCCESS)
        return r;
    bound(t, 0, 0);
    if (ByteOffset != NULL)
        *ByteOffset = offset;
    return CUDA_SUCCESS;
}

CUresult vcu_cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc, CUdeviceptr dptr,
                                     size_t Pitch)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    if (desc == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    r = vgp_call_cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
    if (r == CUDA_SUCCESS)
        bound(t, 0, 0);
    return r;
}

CUresult vcu_cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r == CUDA_SUCCESS && (phArray == NULL || t->array == 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *phArray = (CUarray)(uintptr_t)t->array;
    return r;
}

CUresult vcu_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r == CUDA_SUCCESS && (phMipmappedArray == NULL || t->mipmap == 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *phMipmappedArray = (CUmipmappedArray)(uintptr_t)t->mipmap;
    return r;
}

CUresult vcu_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_surface(hSurfRef, &t);

    if (r != CUDA_SUCCESS)
        return r;
    if (!vgp_handle_live((uintptr_t)hArray, VGP_H_ARRAY))
        return CUDA_ERROR_INVALID_VALUE;
    r = vgp_call_cuSurfRefSetArray(hSurfRef, hArray, Flags);
    if (r == CUDA_SUCCESS)
        bound(t, (uintptr_t)hArray, 0);
    return r;
}

CUresult vcu_cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_surface(hSurfRef, &t);

    if (r == CUDA_SUCCESS && (phArray == NULL || t->array == 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (r == CUDA_SUCCESS)
        *phArray = (CUarray)(uintptr_t)t->array;
    return r;
}

/* ---- the rest ------------------------------------------------------------------------------- */

/* A launch fetches through the memory bound to a module's reference: no further work. */
CUresult vcu_cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    REF_HELD struct vcu_texref *t = NULL;
    CUresult r = find_texture(hTexRef, &t);

    if (r != CUDA_SUCCESS)
        return hTexRef == NULL && r == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_INVALID_HANDLE : r;
    f = vcu_func_find(hfunc);
    if (f == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    (void)texunit; /* documented as the default one; none is refused (driver 580) */
    /* Documented: the reference belongs to a module. */
    return t->context == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* SPDX-License-Identifier: MIT */
/*
 * The reference-counted records of modules, libraries, functions, and texture and surface
 * references: a thread may unload a record that another thread's call uses. The handle table has a
 * reference to each record, which is dropped with the handle; a call that found a record has a
 * reference until it returns.
 */
#include "code.h"

#include <stdlib.h>

#include "vgp_guest.h"
#include "../memory/memory.h"

pthread_mutex_t vcu_module_lock = PTHREAD_MUTEX_INITIALIZER;

/* A record must not end between "found in the table" and "counted": the lock of its handle covers
 * both. Launches of several threads mostly take different locks. */
#define LOCKS 16u
static pthread_mutex_t record_locks[LOCKS] = {[0 ... LOCKS - 1] = PTHREAD_MUTEX_INITIALIZER};

static pthread_mutex_t *record_lock(uint64_t handle)
{
    return &record_locks[VGP_HANDLE_INDEX(handle) % LOCKS];
}

void *vcu_record_find(uint64_t handle, enum vgp_handle_type type, size_t users)
{
    pthread_mutex_t *lock = record_lock(handle);
    char *record;

    pthread_mutex_lock(lock);
    record = vcu_handle_data(handle, type);
    if (record != NULL)
        atomic_fetch_add_explicit((atomic_uint *)(void *)(record + users), 1, memory_order_relaxed);
    pthread_mutex_unlock(lock);
    return record;
}

bool vcu_record_end(uint64_t handle, atomic_bool *ended)
{
    pthread_mutex_t *lock = record_lock(handle);

    if (atomic_exchange(ended, true))
        return false;
    /* The call that ended the object at the worker may have dropped the handle: a call that found
     * the record before has counted itself when the lock is free. */
    pthread_mutex_lock(lock);
    vgp_handle_drop(handle);
    pthread_mutex_unlock(lock);
    return true;
}

/* ---- functions ------------------------------------------------------------------------------ */

struct vcu_func *vcu_func_get(uint64_t handle, enum vgp_handle_type type)
{
    return vcu_record_find(handle, type, offsetof(struct vcu_func, users));
}

void vcu_func_put(struct vcu_func *f)
{
    if (f == NULL || atomic_fetch_sub_explicit(&f->users, 1, memory_order_acq_rel) != 1)
        return;
    vcu_func_put(f->kernel);
    free(f->params);
    free(f->old);
    free(f);
}

void vcu_func_let_go(struct vcu_func **f)
{
    vcu_func_put(*f);
}

struct vcu_func *vcu_func_find(CUfunction func)
{
    uint64_t context;

    return vcu_func_find_in(func, &context);
}

struct vcu_func *vcu_func_find_in(CUfunction func, uint64_t *context)
{
    const uint64_t h = (uintptr_t)func;
    const bool free_of_context = VGP_HANDLE_TYPE(h) == VGP_H_KERNEL;
    struct vcu_func *f = vcu_func_get(h, free_of_context ? VGP_H_KERNEL : VGP_H_FUNCTION);
    struct vcu_func *kernel = f != NULL ? f->kernel : NULL;

    *context = f == NULL || free_of_context ? 0 : f->context;
    if (kernel == NULL)
        return f;
    atomic_fetch_add_explicit(&kernel->users, 1, memory_order_relaxed); /* f has a reference to it */
    vcu_func_put(f);
    return kernel;
}

void vcu_func_end(struct vcu_func *f)
{
    uint64_t h, older;

    if (!vcu_record_end(f->handle, &f->ended))
        return;
    /* A kernel takes its functions, one per context, with it. */
    for (h = atomic_load(&f->function); h != 0; h = older) {
        VCU_FUNC_HELD struct vcu_func *function = vcu_func_get(h, VGP_H_FUNCTION);

        older = function != NULL ? function->older : 0;
        if (function != NULL)
            vcu_func_end(function);
    }
    vcu_func_put(f);
}

/* ---- texture and surface references ---------------------------------------------------------- */

void vcu_texref_let_go(struct vcu_texref **t)
{
    if (*t != NULL && atomic_fetch_sub_explicit(&(*t)->users, 1, memory_order_acq_rel) == 1)
        free(*t);
}

struct vcu_texref *vcu_texref_find(uint64_t handle, enum vgp_handle_type type)
{
    return vcu_record_find(handle, type, offsetof(struct vcu_texref, users));
}

void vcu_texref_end(struct vcu_texref *t)
{
    if (vcu_record_end(t->handle, &t->ended))
        vcu_texref_let_go(&t);
}

static void texrefs_end(struct vcu_texref *first)
{
    while (first != NULL) {
        struct vcu_texref *t = first;

        first = t->next;
        vcu_texref_end(t);
    }
}

/* ---- modules and libraries ------------------------------------------------------------------ */

struct vcu_code_record *vcu_code_record_new(enum vgp_handle_type type)
{
    struct vcu_code_record *u = calloc(1, sizeof(*u));

    if (u == NULL)
        return NULL;
    u->handle = vgp_handle_mint(type);
    if (u->handle == 0) {
        free(u);
        return NULL;
    }
    atomic_init(&u->users, 1);
    pthread_mutex_init(&u->lock, NULL);
    if (type == VGP_H_MODULE)
        u->context = vcu_owner_context();
    return u;
}

struct vcu_code_record *vcu_code_record_find(uint64_t handle, enum vgp_handle_type type)
{
    return vcu_record_find(handle, type, offsetof(struct vcu_code_record, users));
}

void vcu_code_record_put(struct vcu_code_record *u)
{
    if (u == NULL || atomic_fetch_sub_explicit(&u->users, 1, memory_order_acq_rel) != 1)
        return;
    pthread_mutex_destroy(&u->lock);
    free(u);
}

void vcu_code_record_let_go(struct vcu_code_record **u)
{
    vcu_code_record_put(*u);
}

void vcu_code_record_drop(struct vcu_code_record *u)
{
    vgp_handle_drop(u->handle);
    vcu_code_record_put(u);
}

void vcu_code_record_end(struct vcu_code_record *u)
{
    struct vcu_func *funcs;
    struct vcu_texref *refs;

    if (!vcu_record_end(u->handle, &u->ended))
        return;
    vcu_memory_forget_owner(u->handle);
    vcu_managed_forget(u->handle, 0);
    pthread_mutex_lock(&u->lock);
    u->gone = true;
    funcs = u->funcs;
    refs = u->refs;
    u->funcs = NULL;
    u->refs = NULL;
    pthread_mutex_unlock(&u->lock);
    while (funcs != NULL) {
        struct vcu_func *f = funcs;

        funcs = f->next; /* the list's own reference: the record is no longer in it */
        vcu_func_end(f);
    }
    texrefs_end(refs);
    vcu_code_record_put(u);
}

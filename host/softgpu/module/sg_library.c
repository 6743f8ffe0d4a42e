/* SPDX-License-Identifier: MIT */
/*
 * Libraries: code that belongs to no context and becomes a module in each context at its first use
 * there. Lock order: library, then module, then the table of handles.
 */
#include <stdlib.h>
#include <string.h>

#include "module/module.h"

CUresult sg_lib_module(struct sg_lib *lib, struct sg_ctx *ctx, struct sg_mod **out)
{
    struct sg_lib_inst **pp, *inst;
    const uint32_t incarnation = ctx->id;
    struct sg_mod *mod = NULL;
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&lib->lock);
    if (lib->unloaded) /* the unloading thread may already have passed the list of instances */
        r = CUDA_ERROR_INVALID_HANDLE;
    for (pp = &lib->insts; r == CUDA_SUCCESS && (inst = *pp);) {
        if (inst->mod->ctx == ctx && inst->mod->ctx_id == ctx->id) {
            mod = inst->mod;
            break;
        }
        if (!atomic_load(&inst->mod->ctx->alive) || inst->mod->ctx->id != inst->mod->ctx_id) {
            *pp = inst->next; /* its context has ended */
            sg_obj_put(&inst->mod->obj);
            free(inst);
        } else {
            pp = &inst->next;
        }
    }
    if (!mod && r == CUDA_SUCCESS) {
        int same = sg_same_cc(ctx->device);
        struct sg_module *ptx = lib->meta_taken || same ? NULL : lib->meta;

        inst = calloc(1, sizeof(*inst));
        r = inst ? sg_mod_new(ctx, incarnation, &lib->image[same], ptx, lib, NULL, &mod)
                 : CUDA_ERROR_OUT_OF_MEMORY;
        if (r == CUDA_SUCCESS) {
            lib->meta_taken |= ptx != NULL;
            inst->mod = mod;
            inst->next = lib->insts;
            lib->insts = inst;
        } else {
            free(inst);
        }
    }
    if (r == CUDA_SUCCESS) {
        sg_obj_get(&mod->obj);
        *out = mod;
    }
    pthread_mutex_unlock(&lib->lock);
    return r;
}

/* The attributes of a kernel. Computing them decodes the body, so that is not done at load. */
const struct sg_kernel_info *sg_kern_info_locked(struct sg_kern *k)
{
    if (!k->info.name)
        sg_kernel_get_info(k->kernel, &k->info);
    return &k->info;
}

const struct sg_kernel_info *sg_kern_info(struct sg_kern *k)
{
    pthread_mutex_lock(&k->lib->lock);
    sg_kern_info_locked(k);
    pthread_mutex_unlock(&k->lib->lock);
    return &k->info; /* constant once computed */
}

static void kern_free(struct sg_obj *obj)
{
    struct sg_kern *k = (struct sg_kern *)obj;

    sg_obj_put((struct sg_obj *)k->cached);
    sg_obj_put(&k->lib->obj);
    free(k);
}

static void lib_free(struct sg_obj *obj)
{
    struct sg_lib *lib = (struct sg_lib *)obj;

    free(lib->kerns);
    if (lib->meta)
        sg_module_free(lib->meta);
    for (int i = 0; i < SG_MAX_DEVICES; i++)
        sg_image_free(&lib->image[i]);
    pthread_mutex_destroy(&lib->lock);
    free(lib);
}

/* Undoes the cycles: kernels and modules hold the library, which lists them. */
void sg_lib_unload(struct sg_lib *lib)
{
    struct sg_lib_inst *inst;
    uint32_t n;

    sg_obj_unregister(&lib->obj);
    pthread_mutex_lock(&lib->lock);
    lib->unloaded = true;
    n = lib->nkerns;
    lib->nkerns = 0; /* unreachable from here on; this thread owns the entries */
    pthread_mutex_unlock(&lib->lock);
    for (uint32_t i = 0; i < n; i++) {
        struct sg_kern *k = lib->kerns[i];
        struct sg_func *cached;

        pthread_mutex_lock(&lib->lock);
        cached = k->cached;
        k->cached = NULL;
        pthread_mutex_unlock(&lib->lock);
        sg_obj_put((struct sg_obj *)cached);
        sg_obj_unregister(&k->obj);
        sg_obj_put(&k->obj);
    }
    for (;;) {
        pthread_mutex_lock(&lib->lock);
        inst = lib->insts;
        if (inst)
            lib->insts = inst->next;
        pthread_mutex_unlock(&lib->lock);
        if (!inst)
            break;
        sg_mod_unload(inst->mod);
        sg_obj_put(&inst->mod->obj);
        free(inst);
    }
}

static CUresult make_kernels(struct sg_lib *lib)
{
    uint32_t n = sg_module_kernel_count(lib->meta);

    lib->kerns = calloc(n ? n : 1, sizeof(*lib->kerns));
    if (!lib->kerns)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (; lib->nkerns < n; lib->nkerns++) {
        struct sg_kern *k = calloc(1, sizeof(*k));

        if (!k)
            return CUDA_ERROR_OUT_OF_MEMORY;
        sg_obj_init(&k->obj, SG_T_KERN, NULL, kern_free);
        sg_obj_get(&lib->obj);
        k->lib = lib;
        k->kernel = sg_module_kernel(lib->meta, lib->nkerns);
        k->set = (struct sg_func_settings)SG_FUNC_INITIAL;
        if (!sg_obj_register(&k->obj)) {
            sg_obj_put(&k->obj);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        lib->kerns[lib->nkerns] = k;
    }
    return CUDA_SUCCESS;
}

CUresult sg_lib_new(const void *code, struct sg_jit *jit, struct sg_lib **out)
{
    struct sg_lib *lib = calloc(1, sizeof(*lib));
    int newest = 0;
    CUresult r;

    if (!lib)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&lib->obj, SG_T_LIB, NULL, lib_free);
    pthread_mutex_init(&lib->lock, NULL);
    r = CUDA_SUCCESS;
    for (int i = 0; i < (int)sg_config.ndevices && r == CUDA_SUCCESS; i++) {
        newest = sg_cc(i) > newest ? sg_cc(i) : newest;
        if (sg_same_cc(i) == i)
            r = sg_image_load(code, SIZE_MAX, sg_cc(i), &lib->image[i]);
    }
    /* a library is for all devices: a single device that can run it suffices */
    if (r == CUDA_SUCCESS)
        r = sg_image_check_target(&lib->image[0], newest);
    if (r == CUDA_SUCCESS)
        r = sg_ptx_parse(&lib->image[0], false, jit, &lib->meta);
    else
        sg_jit_error(jit, sg_last_error_detail());
    if (r == CUDA_SUCCESS)
        r = make_kernels(lib);
    if (r == CUDA_SUCCESS && !sg_obj_register(&lib->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        sg_lib_unload(lib);
        sg_obj_put(&lib->obj);
        return r;
    }
    *out = lib;
    return CUDA_SUCCESS;
}

/* ---- kernels ---- */

CUresult sg_kern_func(struct sg_kern *k, struct sg_ctx *ctx, struct sg_func **out)
{
    SG_AUTO struct sg_mod *mod = NULL;
    struct sg_func *f = NULL, *old;
    CUresult r;

    pthread_mutex_lock(&k->lib->lock);
    if (k->cached && k->cached->mod->ctx == ctx && k->cached->mod->ctx_id == ctx->id) {
        f = k->cached;
        sg_obj_get(&f->obj);
        f->set = k->set;
    }
    pthread_mutex_unlock(&k->lib->lock);
    if (!f) {
        r = sg_lib_module(k->lib, ctx, &mod);
        if (r != CUDA_SUCCESS) {
            mod = NULL;
            return r;
        }
        struct sg_kernel *kernel = sg_module_find_kernel(mod->ptx, sg_kern_info(k)->name);

        if (!kernel)
            return CUDA_ERROR_NOT_FOUND;
        r = sg_mod_func(mod, kernel, &f);
        if (r != CUDA_SUCCESS)
            return r;
        sg_obj_get(&f->obj);
        pthread_mutex_lock(&k->lib->lock);
        old = k->cached;
        if (!k->lib->unloaded)
            k->cached = f;
        else
            old = f; /* unloaded meanwhile */
        f->set = k->set;
        pthread_mutex_unlock(&k->lib->lock);
        sg_obj_put((struct sg_obj *)old);
    }
    *out = f;
    return CUDA_SUCCESS;
}

/* The kernel of a library that a function of its module runs; NULL once it is unloaded. */
static struct sg_kern *kern_of_locked(struct sg_lib *lib, const struct sg_func *f)
{
    const uint32_t i = lib->nkerns ? sg_module_kernel_index(lib->meta, f->info.name) : UINT32_MAX;

    return i < lib->nkerns ? lib->kerns[i] : NULL;
}

void sg_func_adopt_settings(struct sg_func *f)
{
    struct sg_lib *lib = f->mod->lib;
    struct sg_kern *k;

    if (!lib)
        return;
    pthread_mutex_lock(&lib->lock);
    k = kern_of_locked(lib, f);
    if (k)
        f->set = k->set;
    pthread_mutex_unlock(&lib->lock);
}

static CUresult set_attribute_locked(struct sg_kern *k, int device, int attrib, int value)
{
    const struct sg_kernel_info *info = sg_kern_info_locked(k);
    const CUresult r = sg_func_set_attribute(device, info, &k->set, attrib, value);

    for (struct sg_lib_inst *i = r == CUDA_SUCCESS ? k->lib->insts : NULL; i; i = i->next) {
        pthread_mutex_lock(&i->mod->lock);
        for (struct sg_func *f = i->mod->funcs; f; f = f->next) {
            if (!strcmp(f->info.name, info->name))
                f->set = k->set;
        }
        pthread_mutex_unlock(&i->mod->lock);
    }
    return r;
}

CUresult sg_kern_set_attribute(struct sg_kern *k, int device, int attrib, int value)
{
    CUresult r;

    pthread_mutex_lock(&k->lib->lock);
    r = set_attribute_locked(k, device, attrib, value);
    pthread_mutex_unlock(&k->lib->lock);
    return r;
}

CUresult sg_func_set_own_attribute(struct sg_func *f, int device, int attrib, int value)
{
    struct sg_lib *lib = f->mod->lib;
    struct sg_kern *k;
    CUresult r;

    if (!lib)
        return sg_func_set_attribute(device, &f->info, &f->set, attrib, value);
    pthread_mutex_lock(&lib->lock);
    k = kern_of_locked(lib, f);
    r = k ? set_attribute_locked(k, device, attrib, value) : CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_unlock(&lib->lock);
    return r;
}

CUresult sg_func_get(struct sg_ctx *ctx, CUfunction h, struct sg_func **out)
{
    *out = SG_LOOKUP(h, SG_T_FUNC);
    if (*out)
        return CUDA_SUCCESS;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(h, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult r = sg_kern_func(k, ctx, out);

    if (r != CUDA_SUCCESS)
        *out = NULL;
    return r;
}

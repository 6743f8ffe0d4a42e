/* SPDX-License-Identifier: MIT */
/*
 * Libraries: code that belongs to no context, becomes a module in each context at first use there.
 * Lock order: library, then module, then the table of handles.
 */
#include <stdlib.h>
#include <string.h>

#include "sg_int.h"

CUresult sg_lib_module(struct sg_lib *lib, struct sg_ctx *ctx, struct sg_mod **out)
{
    struct sg_lib_inst **pp, *inst;
    struct sg_mod *mod = NULL;
    CUresult r = CUDA_SUCCESS;

    pthread_mutex_lock(&lib->lock);
    for (pp = &lib->insts; (inst = *pp);) {
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
    if (!mod) {
        int same = sg_same_cc(ctx->device);
        struct sg_module *ptx = lib->meta_taken || same ? NULL : lib->meta;

        inst = calloc(1, sizeof(*inst));
        r = inst ? sg_mod_new(ctx, &lib->image[same], ptx, lib, NULL, &mod)
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

/* What is known about a kernel. Asking for it translates the body, so it is not asked at load. */
static const struct sg_kernel_info *kern_info_locked(struct sg_kern *k)
{
    if (!k->info.name)
        sg_kernel_get_info(k->kernel, &k->info);
    return &k->info;
}

static const struct sg_kernel_info *kern_info(struct sg_kern *k)
{
    pthread_mutex_lock(&k->lib->lock);
    kern_info_locked(k);
    pthread_mutex_unlock(&k->lib->lock);
    return &k->info; /* does not change once it is there */
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
static void lib_unload(struct sg_lib *lib)
{
    struct sg_lib_inst *inst;
    uint32_t n;

    sg_obj_unregister(&lib->obj);
    pthread_mutex_lock(&lib->lock);
    n = lib->nkerns;
    lib->nkerns = 0; /* from here on nobody finds them; each entry is ours */
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
        k->set = (struct sg_func_settings){-1, -1, 0, 0};
        if (!sg_obj_register(&k->obj)) {
            sg_obj_put(&k->obj);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        lib->kerns[lib->nkerns] = k;
    }
    return CUDA_SUCCESS;
}

static CUresult lib_new(const void *code, struct sg_jit *jit, struct sg_lib **out)
{
    struct sg_lib *lib = calloc(1, sizeof(*lib));
    CUresult r;

    if (!lib)
        return CUDA_ERROR_OUT_OF_MEMORY;
    sg_obj_init(&lib->obj, SG_T_LIB, NULL, lib_free);
    pthread_mutex_init(&lib->lock, NULL);
    r = CUDA_SUCCESS;
    for (int i = 0; i < (int)sg_config.ndevices && r == CUDA_SUCCESS; i++) {
        if (sg_same_cc(i) == i)
            r = sg_image_load(code, SIZE_MAX, sg_cc(i), &lib->image[i]);
    }
    if (r == CUDA_SUCCESS)
        r = sg_ptx_parse(&lib->image[0], jit, &lib->meta);
    else
        sg_jit_error(jit, sg_last_error_detail());
    if (r == CUDA_SUCCESS)
        r = make_kernels(lib);
    if (r == CUDA_SUCCESS && !sg_obj_register(&lib->obj))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    if (r != CUDA_SUCCESS) {
        lib_unload(lib);
        sg_obj_put(&lib->obj);
        return r;
    }
    *out = lib;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    struct sg_lib *lib;
    struct sg_jit jit;
    CUresult r;

    (void)libraryOptionValues; /* BINARY_IS_PRESERVED comes with NULL values from cublasLt */
    SG_INIT();
    if (!library || !code || (numLibraryOptions && !libraryOptions))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numLibraryOptions; i++) {
        if ((unsigned)libraryOptions[i] >= CU_LIBRARY_NUM_OPTIONS)
            return CUDA_ERROR_INVALID_VALUE;
    }
    r = sg_jit_parse(numJitOptions, jitOptions, jitOptionsValues, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    r = lib_new(code, &jit, &lib);
    sg_jit_done(&jit);
    if (r != CUDA_SUCCESS)
        return r;
    *library = SG_HANDLE(CUlibrary, lib);
    sg_obj_put(&lib->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *fileName,
                                       CUjit_option *jitOptions, void **jitOptionsValues,
                                       unsigned int numJitOptions, CUlibraryOption *libraryOptions,
                                       void **libraryOptionValues, unsigned int numLibraryOptions)
{
    size_t size;
    CUresult r;
    void *data;

    SG_INIT();
    if (!library || !fileName)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_file_read(fileName, &data, &size);
    if (r != CUDA_SUCCESS)
        return r;
    r = cuLibraryLoadData(library, data, jitOptions, jitOptionsValues, numJitOptions,
                          libraryOptions, libraryOptionValues, numLibraryOptions);
    free(data);
    return r;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    SG_INIT();
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    lib_unload(lib);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetKernel(CUkernel *pKernel, CUlibrary library, const char *name)
{
    SG_INIT();
    if (!pKernel || !name)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_kernel *k = sg_module_find_kernel(lib->meta, name);
    CUresult r = CUDA_ERROR_NOT_FOUND;

    pthread_mutex_lock(&lib->lock);
    for (uint32_t i = 0; k && i < lib->nkerns; i++) {
        if (lib->kerns[i]->kernel == k) {
            *pKernel = SG_HANDLE(CUkernel, lib->kerns[i]);
            r = CUDA_SUCCESS;
            break;
        }
    }
    pthread_mutex_unlock(&lib->lock);
    return r;
}

CUresult CUDAAPI cuLibraryGetKernelCount(unsigned int *count, CUlibrary library)
{
    SG_INIT();
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = lib->nkerns;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels,
                                           CUlibrary library)
{
    SG_INIT();
    if (!kernels)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&lib->lock);
    for (uint32_t i = 0; i < lib->nkerns && i < numKernels; i++)
        kernels[i] = SG_HANDLE(CUkernel, lib->kerns[i]);
    pthread_mutex_unlock(&lib->lock);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryGetModule(CUmodule *pMod, CUlibrary library)
{
    SG_AUTO struct sg_mod *mod = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (!pMod)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    r = sg_lib_module(lib, ctx, &mod);
    if (r == CUDA_SUCCESS)
        *pMod = SG_HANDLE(CUmodule, mod);
    return r;
}

static CUresult lib_global(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name,
                           bool managed_only)
{
    SG_AUTO struct sg_mod *mod = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    r = sg_lib_module(lib, ctx, &mod);
    return r == CUDA_SUCCESS ? sg_mod_global(mod, name, managed_only, dptr, bytes) : r;
}

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                    const char *name)
{
    return lib_global(dptr, bytes, library, name, false);
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library,
                                     const char *name)
{
    return lib_global(dptr, bytes, library, name, true);
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
        struct sg_kernel *kernel = sg_module_find_kernel(mod->ptx, kern_info(k)->name);

        if (!kernel)
            return CUDA_ERROR_NOT_FOUND;
        r = sg_mod_func(mod, kernel, &f);
        if (r != CUDA_SUCCESS)
            return r;
        sg_obj_get(&f->obj);
        pthread_mutex_lock(&k->lib->lock);
        old = k->cached;
        if (k->obj.handle)
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

CUresult CUDAAPI cuKernelGetFunction(CUfunction *pFunc, CUkernel kernel)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    if (!pFunc)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    r = sg_kern_func(k, ctx, &f);
    if (r == CUDA_SUCCESS)
        *pFunc = SG_HANDLE(CUfunction, f);
    return r;
}

CUresult CUDAAPI cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    SG_INIT();
    if (!pLib)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    *pLib = SG_HANDLE(CUlibrary, k->lib);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel,
                                      CUdevice dev)
{
    CUresult r;

    SG_INIT();
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    SG_CHECK_DEVICE(dev);
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&k->lib->lock);
    r = sg_func_attribute(kern_info_locked(k), &k->set, 0, attrib, pi);
    pthread_mutex_unlock(&k->lib->lock);
    return r;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel,
                                      CUdevice dev)
{
    CUresult r;

    SG_INIT();
    SG_CHECK_DEVICE(dev);
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&k->lib->lock);
    r = sg_func_set_attribute(dev, kern_info_locked(k), &k->set, attrib, val);
    pthread_mutex_unlock(&k->lib->lock);
    return r;
}

CUresult CUDAAPI cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    SG_INIT();
    SG_CHECK_DEVICE(dev);
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    return k ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; /* a preference without effect here */
}

CUresult CUDAAPI cuKernelGetName(const char **name, CUkernel hfunc)
{
    SG_INIT();
    if (!name)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(hfunc, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = kern_info(k)->name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuKernelGetParamInfo(CUkernel kernel, size_t paramIndex, size_t *paramOffset,
                                      size_t *paramSize)
{
    SG_INIT();
    if (!paramOffset)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    const struct sg_kernel_info *info = kern_info(k);

    if (paramIndex >= info->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = info->params[paramIndex].offset;
    if (paramSize)
        *paramSize = info->params[paramIndex].size;
    return CUDA_SUCCESS;
}

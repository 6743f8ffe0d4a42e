/* SPDX-License-Identifier: MIT */
/* Driver API: libraries and kernels, which belong to no context. */
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "lib/driver/driver.h"

CUresult CUDAAPI cuLibraryLoadData(CUlibrary *library, const void *code, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    struct sg_lib *lib;
    struct sg_jit jit;
    CUresult r;

    if (!library || !code)
        return CUDA_ERROR_INVALID_VALUE;
    SG_INIT();
    if (numLibraryOptions && !libraryOptions)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numLibraryOptions; i++) {
        if ((unsigned)libraryOptions[i] >= CU_LIBRARY_NUM_OPTIONS)
            return CUDA_ERROR_INVALID_VALUE;
    }
    r = sg_jit_parse(numJitOptions, jitOptions, jitOptionsValues, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    r = cua_library_tables(numLibraryOptions, libraryOptions, libraryOptionValues);
    if (r == CUDA_SUCCESS)
        r = sg_lib_new(code, &jit, &lib);
    sg_jit_done(&jit);
    if (r != CUDA_SUCCESS)
        return r;
    *library = SG_HANDLE(CUlibrary, lib);
    sg_obj_put(&lib->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                   void **jitOptionsValues, unsigned int numJitOptions,
                                   CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                   unsigned int numLibraryOptions)
{
    struct sg_jit jit;
    size_t size;
    void *data;
    CUresult r = sg_jit_parse(numJitOptions, jitOptions, jitOptionsValues, &jit);

    if (r == CUDA_SUCCESS)
        r = sg_file_read(fileName, &data, &size);
    if (r != CUDA_SUCCESS)
        return r;
    r = cuLibraryLoadData(library, data, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                          libraryOptionValues, numLibraryOptions);
    free(data);
    return r;
}

CUresult sgd_cuLibraryUnload(struct sg_lib *lib)
{
    sg_lib_unload(lib);
    return CUDA_SUCCESS;
}

CUresult sgd_cuLibraryGetKernel(CUkernel *pKernel, struct sg_lib *lib, const char *name)
{
    const uint32_t i = sg_module_kernel_index(lib->meta, name);
    CUresult r = CUDA_ERROR_NOT_FOUND;

    pthread_mutex_lock(&lib->lock);
    if (i < lib->nkerns) {
        *pKernel = SG_HANDLE(CUkernel, lib->kerns[i]);
        r = CUDA_SUCCESS;
    }
    pthread_mutex_unlock(&lib->lock);
    return r;
}

CUresult sgd_cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, struct sg_lib *lib)
{
    pthread_mutex_lock(&lib->lock);
    for (uint32_t i = 0; i < lib->nkerns && i < numKernels; i++)
        kernels[i] = SG_HANDLE(CUkernel, lib->kerns[i]);
    pthread_mutex_unlock(&lib->lock);
    return CUDA_SUCCESS;
}

CUresult sgd_cuLibraryGetModule(struct sg_ctx *ctx, CUmodule *pMod, struct sg_lib *lib)
{
    SG_AUTO struct sg_mod *mod = NULL;
    CUresult r = sg_lib_module(lib, ctx, &mod);

    if (r == CUDA_SUCCESS)
        *pMod = SG_HANDLE(CUmodule, mod);
    return r;
}

static CUresult lib_global(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t *bytes, struct sg_lib *lib,
                           const char *name, bool managed_only)
{
    SG_AUTO struct sg_mod *mod = NULL;
    CUresult r = sg_lib_module(lib, ctx, &mod);

    return r == CUDA_SUCCESS ? sg_mod_global(mod, name, managed_only, dptr, bytes) : r;
}

CUresult sgd_cuLibraryGetGlobal(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t *bytes, struct sg_lib *lib,
                                const char *name)
{
    return lib_global(ctx, dptr, bytes, lib, name, false);
}

static bool lib_has_managed(const struct sg_lib *lib, const char *name)
{
    struct sg_global_info g;

    for (uint32_t i = 0; i < sg_module_global_count(lib->meta); i++) {
        sg_module_get_global(lib->meta, i, &g);
        if (g.is_managed && !strcmp(g.name, name))
            return true;
    }
    return false;
}

CUresult sgd_cuLibraryGetManaged(struct sg_ctx *ctx, CUdeviceptr *dptr, size_t *bytes, struct sg_lib *lib,
                                 const char *name)
{
    if (!ctx)
        return lib_has_managed(lib, name) ? sg_current(&ctx) : CUDA_ERROR_NOT_FOUND;
    return lib_global(ctx, dptr, bytes, lib, name, true);
}

/* ---- kernels ---- */

CUresult sgd_cuKernelGetFunction(struct sg_ctx *ctx, CUfunction *pFunc, struct sg_kern *k)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r = sg_kern_func(k, ctx, &f);

    if (r == CUDA_SUCCESS)
        *pFunc = SG_HANDLE(CUfunction, f);
    return r;
}

static uint32_t lib_const_bytes(const struct sg_lib *lib)
{
    struct sg_global_info g;
    uint32_t bytes = 0;

    for (uint32_t i = 0; i < sg_module_global_count(lib->meta); i++) {
        sg_module_get_global(lib->meta, i, &g);
        if (g.is_const)
            bytes += (uint32_t)g.size;
    }
    return bytes;
}

CUresult sgd_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, struct sg_kern *k)
{
    CUresult r;

    pthread_mutex_lock(&k->lib->lock);
    r = sg_func_attribute(sg_kern_info_locked(k), &k->set, lib_const_bytes(k->lib), attrib, pi);
    pthread_mutex_unlock(&k->lib->lock);
    return r;
}

CUresult sgd_cuKernelSetAttribute(CUfunction_attribute attrib, int val, struct sg_kern *k, CUdevice dev)
{
    return sg_kern_set_attribute(k, dev, attrib, val);
}

CUresult sgd_cuKernelGetParamInfo(struct sg_kern *k, size_t paramIndex, size_t *paramOffset,
                                  size_t *paramSize)
{
    const struct sg_kernel_info *info = sg_kern_info(k);

    if (paramIndex >= info->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = info->params[paramIndex].offset;
    if (paramSize)
        *paramSize = info->params[paramIndex].size;
    return CUDA_SUCCESS;
}

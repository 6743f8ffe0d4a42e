/* SPDX-License-Identifier: MIT */
/* Driver API: libraries and kernels, which belong to no context. */
#include <stdlib.h>

#include "api/api.h"

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
    r = sg_lib_new(code, &jit, &lib);
    sg_jit_done(&jit);
    if (r != CUDA_SUCCESS)
        return r;
    *library = SG_HANDLE(CUlibrary, lib);
    sg_obj_put(&lib->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuLibraryLoadFromFile(CUlibrary *library, const char *fileName, CUjit_option *jitOptions,
                                       void **jitOptionsValues, unsigned int numJitOptions,
                                       CUlibraryOption *libraryOptions, void **libraryOptionValues,
                                       unsigned int numLibraryOptions)
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
    r = cuLibraryLoadData(library, data, jitOptions, jitOptionsValues, numJitOptions, libraryOptions,
                          libraryOptionValues, numLibraryOptions);
    free(data);
    return r;
}

CUresult CUDAAPI cuLibraryUnload(CUlibrary library)
{
    SG_INIT();
    SG_AUTO struct sg_lib *lib = SG_LOOKUP(library, SG_T_LIB);

    if (!lib)
        return CUDA_ERROR_INVALID_HANDLE;
    sg_lib_unload(lib);
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

CUresult CUDAAPI cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int numKernels, CUlibrary library)
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

CUresult CUDAAPI cuLibraryGetGlobal(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return lib_global(dptr, bytes, library, name, false);
}

CUresult CUDAAPI cuLibraryGetManaged(CUdeviceptr *dptr, size_t *bytes, CUlibrary library, const char *name)
{
    return lib_global(dptr, bytes, library, name, true);
}

/* ---- kernels ---- */

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

CUresult CUDAAPI cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
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
    r = sg_func_attribute(sg_kern_info_locked(k), &k->set, 0, attrib, pi);
    pthread_mutex_unlock(&k->lib->lock);
    return r;
}

CUresult CUDAAPI cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    CUresult r;

    SG_INIT();
    SG_CHECK_DEVICE(dev);
    SG_AUTO struct sg_kern *k = SG_LOOKUP(kernel, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    pthread_mutex_lock(&k->lib->lock);
    r = sg_func_set_attribute(dev, sg_kern_info_locked(k), &k->set, attrib, val);
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
    if (!name || !hfunc)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(hfunc, SG_T_KERN);

    if (!k)
        return CUDA_ERROR_INVALID_HANDLE;
    *name = sg_kern_info(k)->name;
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
    const struct sg_kernel_info *info = sg_kern_info(k);

    if (paramIndex >= info->nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = info->params[paramIndex].offset;
    if (paramSize)
        *paramSize = info->params[paramIndex].size;
    return CUDA_SUCCESS;
}

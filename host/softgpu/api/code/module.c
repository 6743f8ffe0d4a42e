/* SPDX-License-Identifier: MIT */
/* Driver API: modules and functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"

static CUresult load(CUmodule *module, const void *image, struct sg_jit *jit)
{
    struct sg_image img;
    struct sg_mod *mod;
    CUresult r;

    SG_CTX(ctx);
    SG_NOT_CAPTURING();
    if (!module || !image)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_image_load(image, SIZE_MAX, sg_cc(ctx->device), &img);
    if (r == CUDA_SUCCESS)
        r = sg_image_check_target(&img, sg_cc(ctx->device));
    if (r != CUDA_SUCCESS) {
        sg_jit_error(jit, sg_last_error_detail());
        sg_image_free(&img);
        return r;
    }
    r = sg_mod_new(ctx, &img, NULL, NULL, jit, &mod);
    sg_image_free(&img);
    if (r != CUDA_SUCCESS)
        return r;
    *module = SG_HANDLE(CUmodule, mod);
    sg_obj_put(&mod->obj);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *module, const void *image)
{
    return load(module, image, NULL);
}

CUresult CUDAAPI cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                    CUjit_option *options, void **optionValues)
{
    struct sg_jit jit;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    r = sg_jit_parse(numOptions, options, optionValues, &jit);
    if (r != CUDA_SUCCESS)
        return r;
    r = load(module, image, &jit);
    sg_jit_done(&jit);
    return r;
}

CUresult CUDAAPI cuModuleLoadFatBinary(CUmodule *module, const void *fatCubin)
{
    return load(module, fatCubin, NULL);
}

CUresult CUDAAPI cuModuleLoad(CUmodule *module, const char *fname)
{
    size_t size;
    CUresult r;
    void *data;

    SG_CTX(ctx);
    (void)ctx;
    SG_NOT_CAPTURING();
    if (!module || !fname)
        return CUDA_ERROR_INVALID_VALUE;
    r = sg_file_read(fname, &data, &size);
    if (r != CUDA_SUCCESS)
        return r;
    r = load(module, data, NULL);
    free(data);
    return r;
}

CUresult CUDAAPI cuModuleUnload(CUmodule hmod)
{
    SG_CTX_OR_NONE(ctx);
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return ctx ? CUDA_ERROR_INVALID_HANDLE : sg_current(&ctx);
    if (mod->lib)
        return CUDA_ERROR_NOT_PERMITTED; /* it goes with its library, as documented */
    sg_mod_unload(mod);
    return CUDA_SUCCESS;
}

/* Kernels are translated when first used. */
CUresult CUDAAPI cuModuleGetLoadingMode(CUmoduleLoadingMode *mode)
{
    SG_INIT();
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *hfunc, CUmodule hmod, const char *name)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    (void)ctx;
    if (!hfunc || !name)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return CUDA_ERROR_INVALID_HANDLE;
    struct sg_kernel *k = sg_module_find_kernel(mod->ptx, name);

    if (!k)
        return CUDA_ERROR_NOT_FOUND;
    r = sg_mod_func(mod, k, &f);
    if (r == CUDA_SUCCESS)
        *hfunc = SG_HANDLE(CUfunction, f);
    return r;
}

CUresult CUDAAPI cuModuleGetFunctionCount(unsigned int *count, CUmodule hmod)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return CUDA_ERROR_INVALID_HANDLE;
    *count = sg_module_kernel_count(mod->ptx);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, CUmodule hmod)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!functions)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 0; i < numFunctions && i < sg_module_kernel_count(mod->ptx); i++) {
        SG_AUTO struct sg_func *f = NULL;
        CUresult r = sg_mod_func(mod, sg_module_kernel(mod->ptx, i), &f);

        if (r != CUDA_SUCCESS)
            return r;
        functions[i] = SG_HANDLE(CUfunction, f);
    }
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuModuleGetGlobal_v2(CUdeviceptr *dptr, size_t *bytes, CUmodule hmod, const char *name)
{
    SG_CTX(ctx);
    (void)ctx;
    if (!name || (!dptr && !bytes))
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return CUDA_ERROR_INVALID_HANDLE;
    return sg_mod_global(mod, name, false, dptr, bytes);
}

/* ---- functions; each accepts a CUkernel too ---- */

#define SG_FUNC(var, h) \
    SG_AUTO struct sg_func *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_func_get(ctx, (h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

CUresult CUDAAPI cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    SG_CTX(ctx);
    if (!pi)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, hfunc);
    return sg_func_attribute(&f->info, &f->set, f->mod->const_bytes, attrib, pi);
}

CUresult CUDAAPI cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    SG_CTX(ctx);
    SG_AUTO struct sg_kern *k = SG_LOOKUP(hfunc, SG_T_KERN);

    if (k)
        return cuKernelSetAttribute(attrib, value, SG_HANDLE(CUkernel, k), ctx->device);
    SG_FUNC(f, hfunc);
    return sg_func_set_attribute(ctx->device, &f->info, &f->set, attrib, value);
}

CUresult CUDAAPI cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    SG_CTX(ctx);
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, hfunc);
    return CUDA_SUCCESS; /* a preference without effect here */
}

CUresult CUDAAPI cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    SG_CTX(ctx);
    if ((unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, hfunc);
    return CUDA_SUCCESS; /* no effect on devices with fixed bank size, as documented */
}

CUresult CUDAAPI cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    SG_CTX(ctx);
    if (!hmod)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, hfunc);
    *hmod = SG_HANDLE(CUmodule, f->mod);
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc)
{
    struct sg_ctx *ctx = NULL; /* none is needed: kernels, which would need one, are asked directly */

    SG_INIT();
    if (!name || !hfunc)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(hfunc, SG_T_KERN);

    if (k)
        return cuKernelGetName(name, (CUkernel)hfunc);
    SG_FUNC(f, hfunc);
    *name = f->info.name;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset,
                                    size_t *paramSize)
{
    struct sg_ctx *ctx = NULL;

    SG_INIT();
    if (!paramOffset)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(func, SG_T_KERN);

    if (k)
        return cuKernelGetParamInfo((CUkernel)func, paramIndex, paramOffset, paramSize);
    SG_FUNC(f, func);
    if (paramIndex >= f->info.nparams)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = f->info.params[paramIndex].offset;
    if (paramSize)
        *paramSize = f->info.params[paramIndex].size;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncGetParamCount(CUfunction func, size_t *paramCount)
{
    struct sg_ctx *ctx = NULL;

    SG_INIT();
    if (!paramCount)
        return CUDA_ERROR_INVALID_VALUE;
    SG_AUTO struct sg_kern *k = SG_LOOKUP(func, SG_T_KERN);

    if (k) {
        *paramCount = sg_kern_info(k)->nparams;
        return CUDA_SUCCESS;
    }
    SG_FUNC(f, func);
    *paramCount = f->info.nparams;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    SG_CTX(ctx);
    if (!state)
        return CUDA_ERROR_INVALID_VALUE;
    SG_FUNC(f, function);
    *state =
        atomic_load(&f->prepared) ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

CUresult CUDAAPI cuFuncLoad(CUfunction function)
{
    SG_CTX(ctx);
    SG_FUNC(f, function);
    return sg_func_prepare(f);
}

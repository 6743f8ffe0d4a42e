/* SPDX-License-Identifier: MIT */
/* Driver API: modules and functions. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/api.h"

static CUresult load_module(CUmodule *module, const void *image, struct sg_jit *jit)
{
    struct sg_image img;
    struct sg_mod *mod;
    CUresult r;

    SG_CTX(ctx);
    const uint32_t incarnation = ctx->id;

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
    r = sg_mod_new(ctx, incarnation, &img, NULL, NULL, jit, &mod);
    sg_image_free(&img);
    if (r != CUDA_SUCCESS)
        return r;
    *module = SG_HANDLE(CUmodule, mod);
    sg_obj_put(&mod->obj);
    return CUDA_SUCCESS;
}

CUresult sgd_cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned int numOptions,
                                CUjit_option *options, void **optionValues)
{
    struct sg_jit jit;
    CUresult r = sg_jit_parse(numOptions, options, optionValues, &jit);

    if (r != CUDA_SUCCESS)
        return r;
    r = load_module(module, image, &jit);
    sg_jit_done(&jit);
    return r;
}

CUresult sgd_cuModuleLoad(CUmodule *module, const char *fname)
{
    size_t size;
    void *data;
    CUresult r = sg_file_read(fname, &data, &size);

    if (r != CUDA_SUCCESS)
        return r;
    r = load_module(module, data, NULL);
    free(data);
    return r;
}

CUresult sgd_cuModuleUnload(struct sg_ctx *ctx, CUmodule hmod)
{
    SG_AUTO struct sg_mod *mod = SG_LOOKUP(hmod, SG_T_MODULE);

    if (!mod)
        return ctx ? CUDA_ERROR_INVALID_HANDLE : sg_current(&ctx);
    if (mod->lib)
        return CUDA_ERROR_NOT_PERMITTED; /* it goes with its library, as documented */
    SG_NOT_CAPTURING();
    sg_mod_unload(mod);
    return CUDA_SUCCESS;
}

CUresult sgd_cuModuleGetFunction(CUfunction *hfunc, struct sg_mod *mod, const char *name)
{
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    struct sg_kernel *k = sg_module_find_kernel(mod->ptx, name);

    *hfunc = NULL;
    if (!k)
        return CUDA_ERROR_NOT_FOUND;
    r = sg_mod_func(mod, k, &f);
    if (r == CUDA_SUCCESS) {
        sg_func_adopt_settings(f);
        *hfunc = SG_HANDLE(CUfunction, f);
    }
    return r;
}

CUresult sgd_cuModuleEnumerateFunctions(CUfunction *functions, unsigned int numFunctions, struct sg_mod *mod)
{
    for (uint32_t i = 0; i < numFunctions && i < sg_module_kernel_count(mod->ptx); i++) {
        SG_AUTO struct sg_func *f = NULL;
        CUresult r = sg_mod_func(mod, sg_module_kernel(mod->ptx, i), &f);

        if (r != CUDA_SUCCESS)
            return r;
        sg_func_adopt_settings(f);
        functions[i] = SG_HANDLE(CUfunction, f);
    }
    return CUDA_SUCCESS;
}

/* ---- functions; each accepts a CUkernel too ---- */

#define SG_FUNC(var, h) \
    SG_AUTO struct sg_func *var = NULL; \
    do { \
        CUresult sg_rc_ = sg_func_get(ctx, (h), &(var)); \
        if (sg_rc_ != CUDA_SUCCESS) \
            return sg_rc_; \
    } while (0)

CUresult sgd_cuFuncSetAttribute(struct sg_ctx *ctx, CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    SG_AUTO struct sg_kern *k = SG_LOOKUP(hfunc, SG_T_KERN);

    if (k)
        return cuKernelSetAttribute(attrib, value, SG_HANDLE(CUkernel, k), ctx->device);
    SG_FUNC(f, hfunc);
    return sg_func_set_own_attribute(f, ctx->device, attrib, value);
}

CUresult CUDAAPI cuFuncGetName(const char **name, CUfunction hfunc)
{
    /* no context is needed: kernels, which would need one, are queried directly */
    struct sg_ctx *ctx = NULL;

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
        return sgd_cuKernelGetParamInfo(k, paramIndex, paramOffset, paramSize);
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

CUresult sgd_cuFuncIsLoaded(CUfunctionLoadingState *state, struct sg_func *f)
{
    *state =
        atomic_load(&f->prepared) ? CU_FUNCTION_LOADING_STATE_LOADED : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
}

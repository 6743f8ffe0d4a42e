/* SPDX-License-Identifier: MIT */
/* Handlers of modules, libraries, functions and kernels. */
#include "../calls.h"

#include <stdlib.h>
#include <string.h>

static CUresult finish_module(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    CUresult f = wrk_provider.cuModuleUnload((CUmodule)(uintptr_t)wait->arg[0]);

    (void)w;
    return r != CUDA_SUCCESS ? r : f;
}

static CUresult finish_library(struct wrk_worker *w, struct wrk_wait *wait, CUresult r)
{
    CUresult f = wrk_provider.cuLibraryUnload((CUlibrary)(uintptr_t)wait->arg[0]);

    (void)w;
    return r != CUDA_SUCCESS ? r : f;
}

CUresult wrk_do_cuModuleUnload(struct wrk_call *c, const struct vgp_args_cuModuleUnload *a)
{
    struct wrk_wait *wait;
    CUmodule module;
    CUresult r = wrk_handle_get(c, a->hmod, VGP_H_MODULE, false, (void **)&module);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuModuleUnload)
        return wrk_missing(c, "cuModuleUnload");
    if (wrk_handles_find(&c->w->handles, a->hmod, VGP_H_MODULE)->parent)
        return CUDA_ERROR_NOT_PERMITTED; /* documented: it goes with its library */
    if (wrk_name_keep_long(c, a->hmod, VGP_H_MODULE))
        return CUDA_SUCCESS;
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_handle_drop(c, a->hmod, VGP_H_MODULE);
    wait->finish = finish_module;
    wait->arg[0] = (uintptr_t)module;
    wrk_wait_add_context(c, wait);
    wait->blocking |= c->other[0] != NULL; /* the provider waits for the work of the module's context */
    return wrk_wait_start(c, wait);
}

CUresult wrk_do_cuLibraryUnload(struct wrk_call *c, const struct vgp_args_cuLibraryUnload *a)
{
    struct wrk_wait *wait;
    CUlibrary library;
    CUresult r = wrk_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (r != CUDA_SUCCESS)
        return r;
    if (!wrk_provider.cuLibraryUnload)
        return wrk_missing(c, "cuLibraryUnload");
    if (wrk_name_keep_long(c, a->library, VGP_H_LIBRARY))
        return CUDA_SUCCESS;
    wait = wrk_wait_new(c);
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    wrk_handle_drop(c, a->library, VGP_H_LIBRARY);
    wait->finish = finish_library;
    wait->arg[0] = (uintptr_t)library;
    if (c->rec->context)
        wrk_wait_add_context(c, wait);
    wrk_wait_use_all(wait); /* any context may have loaded it: the provider waits for their work */
    return wrk_wait_start(c, wait);
}

/* ---- what is told of a function with it; exactly one of f and k ---- */

_Static_assert(VGP_MAX_vgpModuleGetFunction_attributes == VGP_MAX_vgpLibraryGetKernel_attributes &&
                   VGP_MAX_vgpModuleGetFunction_paramLayout == VGP_MAX_vgpLibraryGetKernel_paramLayout,
               "one form");

/* Provider's attributes of the function or kernel being looked up. */
static __thread struct {
    uint32_t nattributes, nparams;
    int32_t attributes[VGP_MAX_vgpModuleGetFunction_attributes];
    uint32_t params[VGP_MAX_vgpModuleGetFunction_paramLayout];
} described;

static CUresult module_describe(CUfunction f, CUkernel k, int device)
{
    const uint32_t room = VGP_MAX_vgpModuleGetFunction_attributes;
    uint32_t n = CU_FUNC_ATTRIBUTE_MAX < room ? CU_FUNC_ATTRIBUTE_MAX : room;
    CUresult r = CUDA_SUCCESS;

    memset(described.attributes, 0, sizeof(described.attributes));
    described.nattributes = n;
    /* A provider may lack attributes, but a failure for lack of memory must not be stored
     * permanently. */
    for (uint32_t i = 0; i < n && r != CUDA_ERROR_OUT_OF_MEMORY; i++)
        r = k ? wrk_provider.cuKernelGetAttribute(&described.attributes[i], (CUfunction_attribute)i, k,
                                                  device)
              : wrk_provider.cuFuncGetAttribute(&described.attributes[i], (CUfunction_attribute)i, f);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return r;
    /* Parameter i -> offset << 16 | size, while the provider reports parameters. */
    for (n = 0; n < VGP_MAX_vgpModuleGetFunction_paramLayout; n++) {
        size_t offset = 0, size = 0;

        r = k ? wrk_provider.cuKernelGetParamInfo(k, n, &offset, &size)
              : wrk_provider.cuFuncGetParamInfo(f, n, &offset, &size);
        if (r == CUDA_ERROR_INVALID_VALUE || offset > 0xffff || size > 0xffff)
            break;
        if (r != CUDA_SUCCESS)
            return r; /* not known: a launch would go without its parameters */
        described.params[n] = (uint32_t)offset << 16 | (uint32_t)size;
    }
    described.nparams = n;
    return CUDA_SUCCESS;
}

CUresult wrk_function_describe(CUfunction f)
{
    return module_describe(f, NULL, 0);
}

CUresult wrk_kernel_describe(struct wrk_call *c, CUkernel k, int device)
{
    struct wrk_lent_context lent;
    CUresult r;

    if (c->w->current)
        return module_describe(NULL, k, device);
    r = wrk_context_lend(c->w, device, &lent);
    if (r == CUDA_SUCCESS)
        r = module_describe(NULL, k, device);
    wrk_context_return(c->w, &lent);
    return r;
}

uint32_t wrk_function_attributes(int32_t *out)
{
    memcpy(out, described.attributes, described.nattributes * sizeof(*out));
    return described.nattributes;
}

uint32_t wrk_param_layout(uint32_t *out)
{
    memcpy(out, described.params, described.nparams * sizeof(*out));
    return described.nparams;
}

/* SPDX-License-Identifier: MIT */
/* Handlers of look-ups by name, and of function attributes. */
#include "../calls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Copies a name into the reply, truncated, with its NUL; returns the bytes used. */
static uint32_t put_name(char *to, size_t room, const char *name)
{
    snprintf(to, room, "%s", name ? name : "");
    return (uint32_t)strlen(to) + 1;
}

CUresult wrk_do_vgpModuleFunctionName(struct wrk_call *c, const struct vgp_args_vgpModuleFunctionName *a,
                                      struct vgp_ret_vgpModuleFunctionName *r,
                                      struct vgp_outs_vgpModuleFunctionName *o)
{
    CUmodule module;
    const char *name = NULL;
    unsigned n = 0;
    CUresult e = wrk_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e != CUDA_SUCCESS)
        return e;
    if (!wrk_provider.cuModuleGetFunctionCount || !wrk_provider.cuModuleEnumerateFunctions ||
        !wrk_provider.cuFuncGetName)
        return wrk_missing(c, "cuModuleEnumerateFunctions");
    e = wrk_provider.cuModuleGetFunctionCount(&n, module);
    if (e != CUDA_SUCCESS)
        return e;
    r->count = n;
    r->name_len = put_name(o->name, sizeof(o->name), NULL);
    if (a->index >= n)
        return CUDA_SUCCESS;
    CUfunction *list = calloc(n, sizeof(CUfunction));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e = wrk_provider.cuModuleEnumerateFunctions(list, n, module);
    if (e == CUDA_SUCCESS)
        e = wrk_provider.cuFuncGetName(&name, list[a->index]);
    free(list);
    if (e == CUDA_SUCCESS)
        r->name_len = put_name(o->name, sizeof(o->name), name);
    return e;
}

CUresult wrk_do_vgpLibraryKernelName(struct wrk_call *c, const struct vgp_args_vgpLibraryKernelName *a,
                                     struct vgp_ret_vgpLibraryKernelName *r,
                                     struct vgp_outs_vgpLibraryKernelName *o)
{
    CUlibrary library;
    const char *name = NULL;
    unsigned n = 0;
    CUresult e = wrk_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (e != CUDA_SUCCESS)
        return e;
    if (!wrk_provider.cuLibraryGetKernelCount || !wrk_provider.cuLibraryEnumerateKernels ||
        !wrk_provider.cuKernelGetName)
        return wrk_missing(c, "cuLibraryEnumerateKernels");
    e = wrk_provider.cuLibraryGetKernelCount(&n, library);
    if (e != CUDA_SUCCESS)
        return e;
    r->count = n;
    r->name_len = put_name(o->name, sizeof(o->name), NULL);
    if (a->index >= n)
        return CUDA_SUCCESS;
    CUkernel *list = calloc(n, sizeof(CUkernel));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e = wrk_provider.cuLibraryEnumerateKernels(list, n, library);
    if (e == CUDA_SUCCESS)
        e = wrk_provider.cuKernelGetName(&name, list[a->index]);
    free(list);
    if (e == CUDA_SUCCESS)
        r->name_len = put_name(o->name, sizeof(o->name), name);
    return e;
}

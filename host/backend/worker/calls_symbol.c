/* SPDX-License-Identifier: MIT */
/* Handlers that look things up by name, and function attributes. */
#include "worker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgp_worker.h"

/* A name for the reply: what fits, with its NUL; the bytes that it takes. */
static uint32_t put_name(char *to, size_t room, const char *name)
{
    snprintf(to, room, "%s", name ? name : "");
    return (uint32_t)strlen(to) + 1;
}

/* cuLibraryGetGlobal and cuLibraryGetManaged: the same but for the provider's function. */
static CUresult library_symbol(struct vgb_call *c, uint64_t handle, const char *name,
                               const char *call, __typeof__(&cuLibraryGetGlobal) look_up,
                               uint64_t *dptr, uint64_t *bytes)
{
    CUlibrary library;
    CUdeviceptr p = 0;
    size_t n = 0;
    CUresult e = vgb_handle_get(c, handle, VGP_H_LIBRARY, false, (void **)&library);

    if (e != CUDA_SUCCESS)
        return e;
    if (!look_up)
        return vgb_missing(c, call);
    e = look_up(&p, &n, library, name);
    *dptr = p;
    *bytes = n;
    return e;
}

CUresult vgb_do_vgpModuleGetGlobal(struct vgb_call *c, const struct vgp_args_vgpModuleGetGlobal *a,
                                   const char *name, struct vgp_ret_vgpModuleGetGlobal *r)
{
    CUmodule module;
    CUdeviceptr p = 0;
    size_t n = 0;
    CUresult e = vgb_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleGetGlobal_v2)
        return vgb_missing(c, "cuModuleGetGlobal");
    e = vgb_provider.cuModuleGetGlobal_v2(&p, &n, module, name);
    r->dptr = p;
    r->bytes = n;
    return e;
}

CUresult vgb_do_vgpLibraryGetGlobal(struct vgb_call *c,
                                    const struct vgp_args_vgpLibraryGetGlobal *a, const char *name,
                                    struct vgp_ret_vgpLibraryGetGlobal *r)
{
    return library_symbol(c, a->library, name, "cuLibraryGetGlobal", vgb_provider.cuLibraryGetGlobal, &r->dptr,
                          &r->bytes);
}

CUresult vgb_do_vgpLibraryGetManaged(struct vgb_call *c,
                                     const struct vgp_args_vgpLibraryGetManaged *a,
                                     const char *name, struct vgp_ret_vgpLibraryGetManaged *r)
{
    return library_symbol(c, a->library, name, "cuLibraryGetManaged", vgb_provider.cuLibraryGetManaged, &r->dptr,
                          &r->bytes);
}

CUresult vgb_do_vgpModuleFunctionName(struct vgb_call *c,
                                      const struct vgp_args_vgpModuleFunctionName *a,
                                      struct vgp_ret_vgpModuleFunctionName *r,
                                      struct vgp_outs_vgpModuleFunctionName *o)
{
    CUmodule module;
    const char *name = NULL;
    unsigned n = 0;
    CUresult e = vgb_handle_get(c, a->module, VGP_H_MODULE, false, (void **)&module);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuModuleGetFunctionCount || !vgb_provider.cuModuleEnumerateFunctions ||
        !vgb_provider.cuFuncGetName)
        return vgb_missing(c, "cuModuleEnumerateFunctions");
    e = vgb_provider.cuModuleGetFunctionCount(&n, module);
    if (e != CUDA_SUCCESS)
        return e;
    r->count = n;
    r->name_len = put_name(o->name, sizeof(o->name), NULL);
    if (a->index >= n)
        return CUDA_SUCCESS;
    CUfunction *list = calloc(n, sizeof(CUfunction));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e = vgb_provider.cuModuleEnumerateFunctions(list, n, module);
    if (e == CUDA_SUCCESS)
        e = vgb_provider.cuFuncGetName(&name, list[a->index]);
    free(list);
    if (e == CUDA_SUCCESS)
        r->name_len = put_name(o->name, sizeof(o->name), name);
    return e;
}

CUresult vgb_do_vgpLibraryKernelName(struct vgb_call *c,
                                     const struct vgp_args_vgpLibraryKernelName *a,
                                     struct vgp_ret_vgpLibraryKernelName *r,
                                     struct vgp_outs_vgpLibraryKernelName *o)
{
    CUlibrary library;
    const char *name = NULL;
    unsigned n = 0;
    CUresult e = vgb_handle_get(c, a->library, VGP_H_LIBRARY, false, (void **)&library);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuLibraryGetKernelCount || !vgb_provider.cuLibraryEnumerateKernels ||
        !vgb_provider.cuKernelGetName)
        return vgb_missing(c, "cuLibraryEnumerateKernels");
    e = vgb_provider.cuLibraryGetKernelCount(&n, library);
    if (e != CUDA_SUCCESS)
        return e;
    r->count = n;
    r->name_len = put_name(o->name, sizeof(o->name), NULL);
    if (a->index >= n)
        return CUDA_SUCCESS;
    CUkernel *list = calloc(n, sizeof(CUkernel));
    if (!list)
        return CUDA_ERROR_OUT_OF_MEMORY;
    e = vgb_provider.cuLibraryEnumerateKernels(list, n, library);
    if (e == CUDA_SUCCESS)
        e = vgb_provider.cuKernelGetName(&name, list[a->index]);
    free(list);
    if (e == CUDA_SUCCESS)
        r->name_len = put_name(o->name, sizeof(o->name), name);
    return e;
}

CUresult vgb_do_vgpFuncSetAttribute(struct vgb_call *c,
                                    const struct vgp_args_vgpFuncSetAttribute *a)
{
    CUfunction f;
    CUresult e = vgb_func_get(c, a->func, &f);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuFuncSetAttribute || !vgb_provider.cuKernelSetAttribute)
        return vgb_missing(c, "cuKernelSetAttribute");
    if (VGP_HANDLE_TYPE(a->func) == VGP_H_KERNEL)
        return vgb_provider.cuKernelSetAttribute((CUfunction_attribute)a->attribute, a->value,
                                                 (CUkernel)f, a->device);
    return vgb_provider.cuFuncSetAttribute(f, (CUfunction_attribute)a->attribute, a->value);
}

CUresult vgb_do_vgpFuncGetAttribute(struct vgb_call *c,
                                    const struct vgp_args_vgpFuncGetAttribute *a,
                                    struct vgp_ret_vgpFuncGetAttribute *r)
{
    CUfunction f;
    CUresult e = vgb_func_get(c, a->func, &f);

    if (e != CUDA_SUCCESS)
        return e;
    if (!vgb_provider.cuFuncGetAttribute || !vgb_provider.cuKernelGetAttribute)
        return vgb_missing(c, "cuKernelGetAttribute");
    if (VGP_HANDLE_TYPE(a->func) == VGP_H_KERNEL)
        return vgb_provider.cuKernelGetAttribute(&r->value, (CUfunction_attribute)a->attribute,
                                                 (CUkernel)f, a->device);
    return vgb_provider.cuFuncGetAttribute(&r->value, (CUfunction_attribute)a->attribute, f);
}

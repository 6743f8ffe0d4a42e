/* SPDX-License-Identifier: MIT */
/* Queries of functions and kernels: attributes, names, parameter layout. */
#include "code.h"
#include "recall.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

/* Checks the handle and the attribute number; a CUfunction may be a CUkernel. */
static CUresult find_function(CUfunction hfunc, struct vcu_func **f)
{
    *f = vcu_func_find(hfunc);
    return *f == NULL ? CUDA_ERROR_INVALID_HANDLE : CUDA_SUCCESS;
}

static CUresult get_attribute(struct vcu_func *f, int *pi, CUfunction_attribute attrib, int device)
{
    int32_t value = 0;
    CUresult res;

    if (pi == NULL || (int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (device == f->device && (uint32_t)attrib < f->attribute_count) {
        *pi = f->attributes[attrib];
        return CUDA_SUCCESS;
    }
    res = vgp_call_vgpFuncGetAttribute((CUfunction)(uintptr_t)f->handle, attrib, device, &value);
    if (res == CUDA_SUCCESS)
        *pi = value;
    return res;
}

/* Attributes valid for any function on any device: programs set them before each launch. */
static bool has_value(const struct vcu_func *f, CUfunction_attribute attrib, int value, int device)
{
    return (attrib == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
            attrib == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT) &&
           device == f->device && (uint32_t)attrib < f->attribute_count && f->attributes[attrib] == value &&
           vcu_recall_on();
}

static CUresult set_attribute(struct vcu_func *f, CUfunction_attribute attrib, int value, int device)
{
    CUresult res;

    if ((int)attrib < 0 || attrib >= CU_FUNC_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if (has_value(f, attrib, value, device))
        return CUDA_SUCCESS;
    res = vgp_call_vgpFuncSetAttribute((CUfunction)(uintptr_t)f->handle, attrib, value, device);
    vcu_recall_forget();
    if (res == CUDA_SUCCESS && device == f->device && (uint32_t)attrib < f->attribute_count)
        f->attributes[attrib] = value;
    return res;
}

CUresult vcu_cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = find_function(hfunc, &f);
    return res != CUDA_SUCCESS ? res : get_attribute(f, pi, attrib, vcu_context_find(NULL)->device);
}

CUresult vcu_cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = find_function(hfunc, &f);
    return res != CUDA_SUCCESS ? res : set_attribute(f, attrib, value, vcu_context_find(NULL)->device);
}

static CUresult find_kernel(CUkernel kernel, CUdevice dev, struct vcu_func **f)
{
    struct vcu_device *d;
    CUresult res = kernel == NULL ? CUDA_ERROR_INVALID_HANDLE : vcu_device_get(dev, &d);

    if (res != CUDA_SUCCESS)
        return res;
    return find_function((CUfunction)(void *)kernel, f);
}

CUresult vcu_cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = find_kernel(kernel, dev, &f);

    return res != CUDA_SUCCESS ? res : get_attribute(f, pi, attrib, dev);
}

CUresult vcu_cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = find_kernel(kernel, dev, &f);

    return res != CUDA_SUCCESS ? res : set_attribute(f, attrib, val, dev);
}

CUresult vcu_cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = find_kernel(kernel, dev, &f);

    if (res != CUDA_SUCCESS)
        return res;
    if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    return vgp_call_cuFuncSetCacheConfig((CUfunction)(void *)kernel, config);
}

CUresult vcu_cuKernelGetLibrary(CUlibrary *pLib, CUkernel kernel)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res;

    if (pLib == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    res = vcu_check_init();
    if (res != CUDA_SUCCESS)
        return res;
    f = vcu_func_get((uintptr_t)kernel, VGP_H_KERNEL);
    if (f == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    *pLib = (CUlibrary)(uintptr_t)f->parent;
    return CUDA_SUCCESS;
}

/* The name lives as long as the kernel's library, as documented. */
CUresult vcu_cuFuncGetName(const char **name, CUfunction hfunc)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS && (name == NULL || hfunc == NULL)) /* documented for cuFuncGetName */
        res = CUDA_ERROR_INVALID_VALUE;
    if (res == CUDA_SUCCESS)
        res = find_function(hfunc, &f);
    if (res != CUDA_SUCCESS)
        return res;
    *name = f->name;
    return CUDA_SUCCESS;
}

CUresult vcu_cuFuncGetParamInfo(CUfunction func, size_t paramIndex, size_t *paramOffset, size_t *paramSize)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_init();

    if (res == CUDA_SUCCESS)
        res = find_function(func, &f);
    if (res != CUDA_SUCCESS)
        return res;
    if (paramOffset == NULL || paramIndex >= f->param_count)
        return CUDA_ERROR_INVALID_VALUE;
    *paramOffset = f->params[paramIndex].offset;
    if (paramSize != NULL)
        *paramSize = f->params[paramIndex].size;
    return CUDA_SUCCESS;
}

CUresult vcu_cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = find_function(hfunc, &f);
    if (res != CUDA_SUCCESS)
        return res;
    if (hmod == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    if (VGP_HANDLE_TYPE(f->parent) == VGP_H_LIBRARY)
        return vcu_cuLibraryGetModule(hmod, (CUlibrary)(uintptr_t)f->parent);
    *hmod = (CUmodule)(uintptr_t)f->parent;
    return CUDA_SUCCESS;
}

CUresult vcu_function_load(CUfunction function, bool load, CUfunctionLoadingState *state)
{
    uint32_t is = CU_FUNCTION_LOADING_STATE_LOADED;
    CUresult res = CUDA_SUCCESS;

    if (vcu.worker_minor >= 9) /* an older one does not say */
        res = vgp_call_vgpFuncLoad(function, load, &is);
    *state = (CUfunctionLoadingState)is;
    return res;
}

CUresult vcu_cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = find_function(function, &f);
    if (res != CUDA_SUCCESS)
        return res;
    return state == NULL ? CUDA_ERROR_INVALID_VALUE : vcu_function_load(function, false, state);
}

CUresult vcu_cuFuncLoad(CUfunction function)
{
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUfunctionLoadingState state;
    CUresult res = vcu_check_context();

    if (res == CUDA_SUCCESS)
        res = find_function(function, &f);
    return res != CUDA_SUCCESS ? res : vcu_function_load(function, true, &state);
}

/* SPDX-License-Identifier: MIT */
/* Queries of functions and kernels: attributes, names, parameter layout. */
#include "code.h"
#include "recall.h"

#include "vgp_entry.h"
#include "vgp_guest.h"

CUresult vcu_function_attribute(struct vcu_func *f, int *pi, CUfunction_attribute attrib, int device)
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

CUresult vcu_function_set_attribute(struct vcu_func *f, CUfunction_attribute attrib, int value, int device)
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

CUresult vcu_function_load(CUfunction function, bool load, CUfunctionLoadingState *state)
{
    uint32_t is = CU_FUNCTION_LOADING_STATE_LOADED;
    CUresult res = CUDA_SUCCESS;

    if (vcu.worker_minor >= 9) /* an older one does not say */
        res = vgp_call_vgpFuncLoad(function, load, &is);
    *state = (CUfunctionLoadingState)is;
    return res;
}

/* SPDX-License-Identifier: MIT */
/*
 * Launches as before CUDA 4: a function keeps its block shape, shared memory and parameters, which
 * are set one by one. cuLaunch, cuLaunchGrid and cuLaunchGridAsync are one cuLaunchKernel with them.
 */
#include "code.h"

#include <stdlib.h>

#include "vgp_entry.h"

/* The function, with the checks that all these calls begin with. */
static CUresult legacy_launch_enter(CUfunction hfunc, struct vcu_func **f)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    *f = vcu_func_find(hfunc);
    return *f != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* A launch with the settings made. */
CUresult vcu_launch_old(CUfunction hfunc, int width, int height, CUstream stream)
{
    struct cua_old_args a;
    VCU_FUNC_HELD struct vcu_func *f = NULL;
    CUresult r = legacy_launch_enter(hfunc, &f);

    if (r == CUDA_SUCCESS)
        r = cua_old_get(&f->old, f->param_bytes, width, height, &a);
    if (r != CUDA_SUCCESS)
        return r;
    if (a.size < f->param_bytes) {
        r = VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLaunch", "%s: cuParamSetSize: %zu of %u bytes", f->name,
                       a.size, f->param_bytes);
    } else {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a.params, CU_LAUNCH_PARAM_BUFFER_SIZE, &a.size,
                         CU_LAUNCH_PARAM_END};

        r = vcu_cuLaunchKernel(hfunc, (unsigned)width, (unsigned)height, 1, a.block[0], a.block[1],
                               a.block[2], a.shared, stream, NULL, extra);
    }
    free(a.params);
    return r;
}

/* SPDX-License-Identifier: MIT */
/*
 * Launches as before CUDA 4: a function stores its block shape, shared memory and parameters, which
 * are set one by one. cuLaunch, cuLaunchGrid and cuLaunchGridAsync are equivalent to a
 * cuLaunchKernel with these values.
 */
#include <stdlib.h>

#include "api/api.h"

#include "lib/driver/driver.h"

/* Launches with the stored values. */
static CUresult launch_legacy(CUfunction hfunc, int width, int height, CUstream stream)
{
    SG_AUTO struct sg_func *f = NULL;
    struct cua_old_args a;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
    if (r == CUDA_SUCCESS)
        r = cua_old_get(&f->old, f->info.param_bytes, width, height, &a);
    if (r != CUDA_SUCCESS)
        return r;
    if (a.size < f->info.param_bytes) {
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: cuParamSetSize: %zu of %u bytes", f->info.name,
                    a.size, f->info.param_bytes);
    } else {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, a.params, CU_LAUNCH_PARAM_BUFFER_SIZE, &a.size,
                         CU_LAUNCH_PARAM_END};

        r = cuLaunchKernel(hfunc, (unsigned)width, (unsigned)height, 1, a.block[0], a.block[1], a.block[2],
                           a.shared, stream, NULL, extra);
    }
    free(a.params);
    return r;
}

CUresult CUDAAPI cuLaunch(CUfunction f)
{
    return launch_legacy(f, 1, 1, NULL);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return launch_legacy(f, grid_width, grid_height, NULL);
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    return launch_legacy(f, grid_width, grid_height, hStream);
}

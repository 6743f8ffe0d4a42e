/* SPDX-License-Identifier: MIT */
/*
 * Launches as before CUDA 4: a function keeps its block shape, shared memory and parameters, which
 * are set one by one. cuLaunch, cuLaunchGrid and cuLaunchGridAsync are one cuLaunchKernel with them.
 */
#include <stdlib.h>
#include <string.h>

#include "vcu_module.h"

#include "../../protocol/generated/vgp_entry.h"

struct vcu_old_launch {
    int block[3];
    unsigned shared;
    unsigned size; /* cuParamSetSize */
    unsigned char params[]; /* as many bytes as the function declares */
};

/* Guards the `old` of all functions and what it points to. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Its record, made when first used; NULL: out of memory. Under the lock. */
static struct vcu_old_launch *record(struct vcu_func *f)
{
    if (f->old == NULL)
        f->old = calloc(1, sizeof(*f->old) + f->param_bytes);
    return f->old;
}

/* The function, with the checks that all these calls begin with. */
static CUresult enter(CUfunction hfunc, struct vcu_func **f)
{
    CUresult r = vcu_check_context();

    if (r != CUDA_SUCCESS)
        return r;
    *f = vcu_func_find(hfunc);
    return *f != NULL ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult vcu_cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    struct vcu_old_launch *o;
    struct vcu_func *f;
    CUresult r = enter(hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    o = record(f);
    if (o != NULL) {
        o->block[0] = x;
        o->block[1] = y;
        o->block[2] = z;
    }
    pthread_mutex_unlock(&lock);
    return o != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcu_cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    struct vcu_old_launch *o;
    struct vcu_func *f;
    CUresult r = enter(hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&lock);
    o = record(f);
    if (o != NULL) {
        o->shared = bytes;
    }
    pthread_mutex_unlock(&lock);
    return o != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcu_cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    struct vcu_old_launch *o;
    struct vcu_func *f;
    CUresult r = enter(hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (numbytes > f->param_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    o = record(f);
    if (o != NULL) {
        o->size = numbytes;
    }
    pthread_mutex_unlock(&lock);
    return o != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcu_cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    struct vcu_old_launch *o;
    struct vcu_func *f;
    CUresult r = enter(hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (offset < 0 || numbytes > f->param_bytes || (unsigned)offset > f->param_bytes - numbytes ||
        (ptr == NULL && numbytes != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (numbytes == 0)
        return CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    o = record(f);
    if (o != NULL) {
        memcpy(o->params + offset, ptr, numbytes);
    }
    pthread_mutex_unlock(&lock);
    return o != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult vcu_cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    return vcu_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult vcu_cuParamSetf(CUfunction hfunc, int offset, float value)
{
    return vcu_cuParamSetv(hfunc, offset, &value, sizeof(value));
}

/* One launch with what was set; what was not set is what a new function has: a block of nothing. */
static CUresult launch(CUfunction hfunc, int width, int height, CUstream stream)
{
    size_t size = 0;
    unsigned block[3] = {0}, shared = 0;
    unsigned char *params;
    struct vcu_func *f;
    CUresult r = enter(hfunc, &f);

    if (r != CUDA_SUCCESS)
        return r;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    params = calloc(1, f->param_bytes + 1);
    if (params == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    if (f->old != NULL) {
        for (int i = 0; i < 3; i++)
            block[i] = (unsigned)f->old->block[i];
        shared = f->old->shared;
        size = f->old->size;
        memcpy(params, f->old->params, f->param_bytes);
    }
    pthread_mutex_unlock(&lock);
    if (size < f->param_bytes) {
        r = VCU_REFUSE(CUDA_ERROR_INVALID_VALUE, "cuLaunch", "%s: cuParamSetSize: %zu of %u bytes",
                       f->name, size, f->param_bytes);
    } else {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};

        r = vcu_cuLaunchKernel(hfunc, (unsigned)width, (unsigned)height, 1, block[0], block[1],
                               block[2], shared, stream, NULL, extra);
    }
    free(params);
    return r;
}

CUresult vcu_cuLaunch(CUfunction f)
{
    return launch(f, 1, 1, NULL);
}

CUresult vcu_cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return launch(f, grid_width, grid_height, NULL);
}

CUresult vcu_cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    return launch(f, grid_width, grid_height, hStream);
}

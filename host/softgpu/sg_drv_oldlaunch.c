/* SPDX-License-Identifier: MIT */
/*
 * Launches as before CUDA 4: a function keeps its block shape, shared memory and parameters, which
 * are set one by one. cuLaunch, cuLaunchGrid and cuLaunchGridAsync are one cuLaunchKernel with them.
 */
#include <stdlib.h>
#include <string.h>

#include "sg_array.h"

struct sg_old_launch {
    int block[3];
    unsigned shared;
    unsigned size; /* cuParamSetSize */
    unsigned char params[]; /* as many bytes as the function declares */
};

/* Guards the `old` of all functions and what it points to. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Its record, made when first used; NULL: out of memory. Under the lock. */
static struct sg_old_launch *record(struct sg_func *f)
{
    if (f->old == NULL)
        f->old = calloc(1, sizeof(*f->old) + f->info.param_bytes);
    return f->old;
}

CUresult CUDAAPI cuFuncSetBlockShape(CUfunction hfunc, int x, int y, int z)
{
    struct sg_old_launch *o;
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
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

CUresult CUDAAPI cuFuncSetSharedSize(CUfunction hfunc, unsigned int bytes)
{
    struct sg_old_launch *o;
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
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

CUresult CUDAAPI cuParamSetSize(CUfunction hfunc, unsigned int numbytes)
{
    struct sg_old_launch *o;
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
    if (r != CUDA_SUCCESS)
        return r;
    if (numbytes > f->info.param_bytes)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    o = record(f);
    if (o != NULL) {
        o->size = numbytes;
    }
    pthread_mutex_unlock(&lock);
    return o != NULL ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult CUDAAPI cuParamSetv(CUfunction hfunc, int offset, void *ptr, unsigned int numbytes)
{
    struct sg_old_launch *o;
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
    if (r != CUDA_SUCCESS)
        return r;
    if (offset < 0 || numbytes > f->info.param_bytes ||
        (unsigned)offset > f->info.param_bytes - numbytes || (ptr == NULL && numbytes != 0))
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

CUresult CUDAAPI cuParamSeti(CUfunction hfunc, int offset, unsigned int value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

CUresult CUDAAPI cuParamSetf(CUfunction hfunc, int offset, float value)
{
    return cuParamSetv(hfunc, offset, &value, sizeof(value));
}

/* One launch with what was set; what was not set is what a new function has: a block of nothing. */
static CUresult launch(CUfunction hfunc, int width, int height, CUstream stream)
{
    size_t size = 0;
    unsigned block[3] = {0}, shared = 0;
    unsigned char *params;
    SG_AUTO struct sg_func *f = NULL;
    CUresult r;

    SG_CTX(ctx);
    r = sg_func_get(ctx, hfunc, &f);
    if (r != CUDA_SUCCESS)
        return r;
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    params = calloc(1, f->info.param_bytes + 1);
    if (params == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    if (f->old != NULL) {
        for (int i = 0; i < 3; i++)
            block[i] = (unsigned)f->old->block[i];
        shared = f->old->shared;
        size = f->old->size;
        memcpy(params, f->old->params, f->info.param_bytes);
    }
    pthread_mutex_unlock(&lock);
    if (size < f->info.param_bytes) {
        r = sg_fail(CUDA_ERROR_INVALID_VALUE, "launch of %s: cuParamSetSize: %zu of %u bytes",
                    f->info.name, size, f->info.param_bytes);
    } else {
        void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, params, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                         CU_LAUNCH_PARAM_END};

        r = cuLaunchKernel(hfunc, (unsigned)width, (unsigned)height, 1, block[0], block[1],
                           block[2], shared, stream, NULL, extra);
    }
    free(params);
    return r;
}

CUresult CUDAAPI cuLaunch(CUfunction f)
{
    return launch(f, 1, 1, NULL);
}

CUresult CUDAAPI cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
    return launch(f, grid_width, grid_height, NULL);
}

CUresult CUDAAPI cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height, CUstream hStream)
{
    return launch(f, grid_width, grid_height, hStream);
}

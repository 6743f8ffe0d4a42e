/* SPDX-License-Identifier: MIT */
/*
 * Launches as before CUDA 4: a function stores its block shape, shared memory and parameters, which
 * are set one by one.
 */
#include "legacy.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cua_old_launch {
    int block[3];
    unsigned shared;
    unsigned size;          /* cuParamSetSize */
    unsigned char params[]; /* as many bytes as the function declares */
};

/* Guards the records of all functions. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Locks; the record, made when first used. NULL: no memory, and not locked. */
static struct cua_old_launch *enter_launch(struct cua_old_launch **old, unsigned bytes)
{
    struct cua_old_launch *o;

    pthread_mutex_lock(&lock);
    if (*old == NULL)
        *old = calloc(1, sizeof(**old) + bytes);
    o = *old;
    if (o == NULL)
        pthread_mutex_unlock(&lock);
    return o;
}

CUresult cua_old_set_block(struct cua_old_launch **old, unsigned bytes, int x, int y, int z)
{
    struct cua_old_launch *o;

    if (x <= 0 || y <= 0 || z <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    o = enter_launch(old, bytes);
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->block[0] = x;
    o->block[1] = y;
    o->block[2] = z;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cua_old_set_shared(struct cua_old_launch **old, unsigned bytes, unsigned shared)
{
    struct cua_old_launch *o = enter_launch(old, bytes);

    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->shared = shared;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cua_old_set_size(struct cua_old_launch **old, unsigned bytes, unsigned size)
{
    struct cua_old_launch *o;

    if (size > bytes)
        return CUDA_ERROR_INVALID_VALUE;
    o = enter_launch(old, bytes);
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    o->size = size;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cua_old_set_param(struct cua_old_launch **old, unsigned bytes, int offset, const void *value,
                           unsigned n)
{
    struct cua_old_launch *o;

    if (offset < 0 || n > bytes || (unsigned)offset > bytes - n || (value == NULL && n != 0))
        return CUDA_ERROR_INVALID_VALUE;
    if (n == 0)
        return CUDA_SUCCESS;
    o = enter_launch(old, bytes);
    if (o == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(o->params + offset, value, n);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cua_old_get(struct cua_old_launch *const *old, unsigned bytes, int width, int height,
                     struct cua_old_args *out)
{
    if (width <= 0 || height <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *out = (struct cua_old_args){.params = calloc(1, bytes + 1)};
    if (out->params == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    if (*old != NULL) {
        for (int i = 0; i < 3; i++)
            out->block[i] = (unsigned)(*old)->block[i];
        out->shared = (*old)->shared;
        out->size = (*old)->size;
        memcpy(out->params, (*old)->params, bytes);
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

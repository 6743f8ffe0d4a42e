/* SPDX-License-Identifier: MIT */
/* The list of imported external semaphores. */
#include "external_semaphore.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

struct CUextSemaphore_st {
    struct CUextSemaphore_st *next;
    struct vgp_extsem *sem; /* a reference */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; a leaf */
static struct CUextSemaphore_st *imported;

/* The place in the list that points to it, or to NULL. Under the lock. */
static struct CUextSemaphore_st **find_semaphore(CUexternalSemaphore s)
{
    struct CUextSemaphore_st **p = &imported;

    while (*p != NULL && *p != s)
        p = &(*p)->next;
    return p;
}

static CUresult result_of(int rc)
{
    switch (rc) {
    case -EBADF:
        return CUDA_ERROR_INVALID_VALUE;
    case -EINVAL:
        return CUDA_ERROR_INVALID_HANDLE;
    case -EOPNOTSUPP:
        return CUDA_ERROR_NOT_SUPPORTED;
    case -ENOMEM:
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
}

CUresult cua_semaphore_check(const CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                             const char **why)
{
    if (out == NULL || desc == NULL || desc->flags != 0 ||
        desc->type < CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD ||
        desc->type > CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_WIN32)
        return CUDA_ERROR_INVALID_VALUE;
    if (desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD &&
        desc->type != CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_OPAQUE_FD) {
        *why = "semaphores of this type are not Linux's";
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

CUresult cua_semaphore_import(CUexternalSemaphore *out, const CUDA_EXTERNAL_SEMAPHORE_HANDLE_DESC *desc,
                              const char **why)
{
    bool timeline = desc->type == CU_EXTERNAL_SEMAPHORE_HANDLE_TYPE_TIMELINE_SEMAPHORE_FD;
    struct CUextSemaphore_st *s = calloc(1, sizeof(*s));
    int rc;

    *why = NULL;
    if (s == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    rc = vgp_extsem_import(desc->handle.fd, timeline, &s->sem, why);
    if (rc != 0) {
        free(s);
        return result_of(rc);
    }
    pthread_mutex_lock(&lock);
    s->next = imported;
    imported = s;
    pthread_mutex_unlock(&lock);
    *out = s;
    return CUDA_SUCCESS;
}

CUresult cua_semaphore_destroy(CUexternalSemaphore semaphore)
{
    struct CUextSemaphore_st **p, *s;

    pthread_mutex_lock(&lock);
    p = find_semaphore(semaphore);
    s = *p;
    if (s != NULL)
        *p = s->next;
    pthread_mutex_unlock(&lock);
    if (s == NULL)
        return CUDA_ERROR_INVALID_HANDLE;
    vgp_extsem_put(s->sem);
    free(s);
    return CUDA_SUCCESS;
}

CUresult cua_semaphores_check(bool wait, const CUexternalSemaphore *handles, const void *params, unsigned n)
{
    const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *s = params;
    const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *w = params;

    if (handles == NULL || params == NULL || n == 0 || n > CUA_SEMAPHORES_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < n; i++) {
        if (wait ? w[i].flags : s[i].flags) /* they are NvSciSync's */
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cua_semaphores_get(bool wait, const CUexternalSemaphore *handles, unsigned n,
                            struct vgp_extsem **out, const char **why)
{
    CUresult res = CUDA_SUCCESS;

    pthread_mutex_lock(&lock);
    for (unsigned i = 0; i < n && res == CUDA_SUCCESS; i++) {
        struct CUextSemaphore_st *s = *find_semaphore(handles[i]);

        if (s == NULL) {
            res = CUDA_ERROR_INVALID_HANDLE;
        } else if (!wait && !vgp_extsem_can_signal(s->sem)) {
            *why = "a sync_file's fence is its maker's to signal";
            res = CUDA_ERROR_NOT_SUPPORTED;
        } else {
            vgp_extsem_get(s->sem);
            out[i] = s->sem;
        }
    }
    pthread_mutex_unlock(&lock);
    return res;
}

/* SPDX-License-Identifier: MIT */
/* Virtual memory of the test provider: nothing is behind the addresses; what is mapped where is kept. */
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "testprov.h"

CUresult cuMemCreate(CUmemGenericAllocationHandle *h, size_t n, const CUmemAllocationProp *prop,
                     unsigned long long flags)
{
    (void)prop;
    (void)flags;
    *h = (CUmemGenericAllocationHandle)(uintptr_t)malloc(1);
    return n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle h)
{
    (void)h;
    return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *h, void *addr)
{
    *h = (CUmemGenericAllocationHandle)(uintptr_t)addr;
    return CUDA_SUCCESS;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct mapped {
    struct mapped *next;
    CUdeviceptr at;
    size_t size;
} * mappings;

static bool within(const struct mapped *m, CUdeviceptr p, size_t n)
{
    return m->at >= p && m->at - p < n && m->size <= n - (m->at - p);
}

CUresult cuMemMap(CUdeviceptr p, size_t n, size_t offset, CUmemGenericAllocationHandle h,
                  unsigned long long flags)
{
    struct mapped *m = flags ? NULL : calloc(1, sizeof(*m));

    (void)offset;
    (void)h;
    if (!m)
        return CUDA_ERROR_INVALID_VALUE;
    m->at = p;
    m->size = n;
    pthread_mutex_lock(&lock);
    m->next = mappings;
    mappings = m;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* All of it must be mapped, as whole mappings. */
CUresult cuMemUnmap(CUdeviceptr p, size_t n)
{
    size_t there = 0;

    if (n == LONG_BYTES)
        testprov_long();
    pthread_mutex_lock(&lock);
    for (struct mapped *m = mappings; m; m = m->next)
        there += within(m, p, n) ? m->size : 0;
    for (struct mapped **at = &mappings; there == n && *at;) {
        struct mapped *m = *at;

        if (!within(m, p, n)) {
            at = &m->next;
            continue;
        }
        *at = m->next;
        free(m);
    }
    pthread_mutex_unlock(&lock);
    return there == n ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

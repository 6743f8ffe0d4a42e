/* SPDX-License-Identifier: MIT */
/*
 * Calls of the test provider that take as long as the test wants: an image that begins with "slow", a
 * memory registration of LONG_BYTES, and so on, do not return before VALUE_RELEASE (testprov.h) comes from
 * another thread, or after 20 s.
 */
#define _GNU_SOURCE
#include <cuda.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "testprov.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned inside, let_go;

void testprov_long(void)
{
    struct timespec until;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&lock);
    unsigned mine = ++inside;
    while (let_go < mine && !pthread_cond_timedwait(&changed, &lock, &until))
        continue;
    pthread_mutex_unlock(&lock);
}

/* All that are inside now. How many there were. */
unsigned testprov_release(void)
{
    pthread_mutex_lock(&lock);
    unsigned n = inside - let_go;
    let_go = inside;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return n;
}

static CUcontext ending; /* made with SAME_CONTEXT, and nobody's address any more */
static bool same_made;

static CUcontext take_ending(void)
{
    pthread_mutex_lock(&lock);
    CUcontext c = ending;
    ending = NULL;
    pthread_mutex_unlock(&lock);
    return c;
}

CUcontext testprov_context(unsigned flags)
{
    if (flags & SAME_CONTEXT && same_made)
        return take_ending();
    unsigned *made = malloc(sizeof(*made));

    if (made)
        *made = flags;
    same_made |= (flags & SAME_CONTEXT) != 0;
    return (CUcontext)made;
}

bool testprov_context_kept(CUcontext c)
{
    return *(const unsigned *)c & KEPT_CONTEXT;
}

void testprov_context_long(CUcontext c)
{
    const unsigned flags = *(const unsigned *)c;

    if (flags & SAME_CONTEXT) {
        pthread_mutex_lock(&lock);
        ending = c;
        pthread_mutex_unlock(&lock);
    }
    if (flags & LONG_CONTEXT)
        testprov_long();
}

/* A log of as many bytes as the text says, "// log N", whose lines tell their place; otherwise one line. */
static void write_log(char *log, const char *text)
{
    const unsigned long size = strncmp(text, "// log ", 7) ? 0 : strtoul(text + 7, NULL, 10);

    strcpy(log, "a line of the compiler");
    for (unsigned long at = 0; at < size; at++)
        log[at] = at % 64 == 63 ? '\n' : (char)('a' + (at + at / 64) % 26);
    if (size)
        log[size] = '\0';
}

CUresult cuModuleLoadDataEx(CUmodule *m, const void *image, unsigned n, CUjit_option *o, void **values)
{
    const char *text = image;

    if (!strncmp(text, "slow", 4))
        testprov_long();
    /* A compiler that does not end, or at least not soon. */
    for (volatile unsigned long i = 0; !strncmp(text, "burns", 5) && i < 100000000000ul; i++)
        continue;
    for (unsigned i = 0; i < n; i++) {
        if (o[i] == CU_JIT_ERROR_LOG_BUFFER)
            write_log(values[i], text);
    }
    *m = testprov_module();
    if (!strncmp(text, "stays", 5))
        testprov_module_slow(*m);
    return strstr(text, "bad") ? CUDA_ERROR_INVALID_PTX : CUDA_SUCCESS;
}

CUresult cuModuleLoadData(CUmodule *m, const void *image)
{
    return cuModuleLoadDataEx(m, image, 0, NULL, NULL);
}

CUresult cuLibraryLoadData(CUlibrary *l, const void *image, CUjit_option *o, void **values, unsigned n,
                           CUlibraryOption *lo, void **lv, unsigned ln)
{
    (void)lo;
    (void)lv;
    (void)ln;
    return cuModuleLoadDataEx((CUmodule *)l, image, n, o, values);
}

CUresult cuLinkCreate_v2(unsigned n, CUjit_option *o, void **values, CUlinkState *s)
{
    char **link = calloc(1, 16); /* how it ends, and its log */

    for (unsigned i = 0; link && i < n; i++) {
        if (o[i] == CU_JIT_ERROR_LOG_BUFFER)
            link[1] = values[i];
    }
    *s = (CUlinkState)link;
    return CUDA_SUCCESS;
}

CUresult cuLinkAddData_v2(CUlinkState s, CUjitInputType t, void *data, size_t size, const char *name,
                          unsigned n, CUjit_option *o, void **values)
{
    (void)t;
    (void)size;
    (void)name;
    (void)n;
    (void)o;
    (void)values;
    memcpy(s, data, 4);
    if (((char **)s)[1])
        write_log(((char **)s)[1], data);
    return CUDA_SUCCESS;
}

CUresult cuLinkComplete(CUlinkState s, void **image, size_t *size)
{
    if (!memcmp(s, "slow", 4))
        testprov_long();
    *image = s;
    *size = 4;
    return CUDA_SUCCESS;
}

CUresult cuLinkDestroy(CUlinkState s)
{
    free(s);
    return CUDA_SUCCESS;
}

static size_t limits[CU_LIMIT_MAX];

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    if ((unsigned)limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if (value == LONG_BYTES)
        testprov_long();
    if (value == BAD_LIMIT)
        return CUDA_ERROR_INVALID_VALUE;
    limits[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    *value = (unsigned)limit < CU_LIMIT_MAX ? limits[limit] : 0;
    return *value ? CUDA_SUCCESS : CUDA_ERROR_UNSUPPORTED_LIMIT;
}

/* Operations are counted as by the software GPU, so that as many as a test likes are let through; none is ever said to
 * be under way, so that the time limit is the dispatcher's. */
void sg_operations(uint64_t *issued, uint64_t *ended)
{
    *issued = *ended = 0;
}

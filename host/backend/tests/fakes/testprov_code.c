/* SPDX-License-Identifier: MIT */
/* The test provider's modules, libraries, functions and kernels; testprov_long.c loads them. */
#include <cuda.h>
#include <stdlib.h>

#include "testprov.h"

struct module {
    bool ended; /* its memory is kept, so that a stale use is seen for sure */
    bool library;
    bool slow; /* its end takes long */
    struct module *next;
};
/* Of one module; a function is its address. */
struct function {
    struct module *of;
};

static struct module *all; /* loads are made one after the other in tests that end contexts */

CUmodule testprov_module(void)
{
    struct module *m = calloc(1, sizeof(*m));

    if (m) {
        m->next = __atomic_load_n(&all, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&all, &m->next, m, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED))
            ;
    }
    return (CUmodule)m;
}

void testprov_module_slow(CUmodule m)
{
    ((struct module *)m)->slow = true;
}

static CUresult unload(struct module *m)
{
    if (m->slow)
        testprov_long();
    m->ended = true;
    return CUDA_SUCCESS;
}

static struct module *module_of(void *m)
{
    if (((struct module *)m)->ended)
        abort();
    return m;
}

void testprov_modules_end(void)
{
    for (struct module *m = __atomic_load_n(&all, __ATOMIC_ACQUIRE); m; m = m->next)
        m->ended |= !m->library;
}

bool testprov_function_live(const void *f)
{
    return !((const struct function *)f)->of->ended;
}

CUresult cuModuleUnload(CUmodule m)
{
    return unload(module_of(m));
}

CUresult cuLibraryUnload(CUlibrary l)
{
    return unload(module_of(l));
}

static CUresult function_of(struct function **f, void *m)
{
    *f = calloc(1, sizeof(**f));
    if (!*f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    (*f)->of = module_of(m);
    return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name)
{
    (void)name;
    return function_of((struct function **)f, m);
}

CUresult cuLibraryGetKernel(CUkernel *k, CUlibrary l, const char *name)
{
    (void)name;
    module_of(l)->library = true;
    return function_of((struct function **)k, l);
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size)
{
    (void)f, (void)i, (void)offset, (void)size;
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncGetAttribute(int *v, CUfunction_attribute a, CUfunction f)
{
    (void)a, (void)f;
    *v = 0;
    return CUDA_SUCCESS;
}

CUresult cuKernelGetParamInfo(CUkernel k, size_t i, size_t *offset, size_t *size)
{
    return cuFuncGetParamInfo((CUfunction)k, i, offset, size);
}

CUresult cuKernelGetAttribute(int *v, CUfunction_attribute a, CUkernel k, CUdevice d)
{
    (void)d;
    return cuFuncGetAttribute(v, a, (CUfunction)k);
}

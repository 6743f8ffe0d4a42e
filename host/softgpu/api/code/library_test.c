/* SPDX-License-Identifier: MIT */
/* Libraries that one thread unloads while others use them: nothing of theirs is left. */
#include "api/api_test.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define ROUNDS 120
#define THREADS 4

static const char one_kernel[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";

struct race {
    CUcontext ctx;
    CUkernel k;
    _Atomic unsigned ready;
    _Atomic bool go;
};

static void *use(void *arg)
{
    struct race *r = arg;
    CUfunction f;

    cuCtxSetCurrent(r->ctx);
    atomic_fetch_add(&r->ready, 1);
    while (!r->go)
        ;
    while (cuKernelGetFunction(&f, r->k) != CUDA_ERROR_INVALID_HANDLE)
        ;
    return NULL;
}

static void unload_while_used(struct race *r, unsigned delay)
{
    pthread_t t[THREADS];
    CUlibrary lib;

    OK(cuLibraryLoadData(&lib, one_kernel, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetKernel(&r->k, lib, "k"));
    r->ready = 0;
    r->go = false;
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&t[i], NULL, use, r), 0);
    while (r->ready < THREADS)
        sched_yield();
    r->go = true;
    for (volatile unsigned i = 0; i < delay; i++)
        ;
    OK(cuLibraryUnload(lib));
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(t[i], NULL);
}

static void unload_often(void *race)
{
    for (unsigned i = 0; i < ROUNDS; i++)
        unload_while_used(race, i % 40 * 50);
}

static void test_unloaded_while_used(void **state)
{
    struct race r = {.ctx = ctx_begin()};

    (void)state;
    books_kept(unload_often, &r);
    ctx_end(r.ctx);
}

/* Blocks that fit by their shared memory: each has what the device keeps for itself beside its own, in units of 128 bytes. */
static void test_occupancy_of_shared(void **state)
{
    CUcontext c = ctx_begin();
    CUmodule m = NULL;
    CUfunction f = get_kernel(&m, "fill");
    int reserved, all, most, without, n;

    (void)state;
    OK(cuDeviceGetAttribute(&reserved, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 0));
    OK(cuDeviceGetAttribute(&all, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 0));
    OK(cuDeviceGetAttribute(&most, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 0));
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&without, f, 32, 0));
    for (int dynamic = 0; dynamic <= most; dynamic += 61) {
        const int fit = all / ((dynamic + reserved + 127) / 128 * 128);

        OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, f, 32, (size_t)dynamic));
        if (n != (fit < without ? fit : without))
            fail_msg("%d bytes: %d blocks, %d fit", dynamic, n, fit);
    }
    ctx_end(c);
}

#define CONSTANTS 300

static unsigned spaces_of(CUfunction f, CUdeviceptr out, CUdeviceptr a)
{
    void *args[] = {&out, &a};
    uint32_t got = 9;

    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    OK(cuMemcpyDtoH_v2(&got, out, sizeof(got)));
    return got;
}

/* isspacep.const and .global of the first and the last byte of many constant variables, and of what is around them. */
static void test_constant_space(void **state)
{
    static char text[32768];
    enum { CONST = 1, GLOBAL = 2 };
    int n = snprintf(text, sizeof(text), "%s",
                     ".version 8.0\n.target sm_80\n.address_size 64\n.global .b32 g;\n");
    CUcontext c = ctx_begin();
    CUdeviceptr out, a;
    CUfunction f;
    CUmodule m;
    size_t size;

    (void)state;
    for (int i = 0; i < CONSTANTS; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, ".const .align 8 .b8 c%d[%d];\n", i, 1 + i % 9);
    snprintf(text + n, sizeof(text) - (size_t)n, "%s",
             ".visible .entry k(.param .u64 o, .param .u64 a)\n{\n.reg .b64 %rd<2>;\n.reg .b32 %r<3>;\n"
             ".reg .pred %p<2>;\nld.param.u64 %rd0, [o];\nld.param.u64 %rd1, [a];\n"
             "isspacep.const %p0, %rd1;\nisspacep.global %p1, %rd1;\nselp.u32 %r0, 1, 0, %p0;\n"
             "selp.u32 %r1, 2, 0, %p1;\nadd.u32 %r2, %r0, %r1;\nst.global.u32 [%rd0], %r2;\nret;\n}\n");
    OK(cuModuleLoadData(&m, text));
    OK(cuModuleGetFunction(&f, m, "k"));
    OK(cuMemAlloc_v2(&out, 4));
    for (int i = 0; i < CONSTANTS; i += 23) {
        char name[16];

        snprintf(name, sizeof(name), "c%d", i);
        OK(cuModuleGetGlobal_v2(&a, &size, m, name));
        assert_int_equal(size, 1 + i % 9);
        assert_int_equal(spaces_of(f, out, a), CONST);
        assert_int_equal(spaces_of(f, out, a + size - 1), CONST);
        if (size % 8) /* up to the alignment of what may follow */
            assert_int_equal(spaces_of(f, out, a + size), GLOBAL);
    }
    OK(cuModuleGetGlobal_v2(&a, &size, m, "g"));
    assert_int_equal(spaces_of(f, out, a), GLOBAL);
    assert_int_equal(spaces_of(f, out, out), GLOBAL);
    OK(cuMemFree_v2(out));
    OK(cuModuleUnload(m));
    ctx_end(c);
}

/* Processor time of the enumeration of all functions of a module, seconds. */
static double enumeration(CUmodule mod, unsigned n)
{
    CUfunction *f = calloc(n, sizeof(*f));
    struct timespec a, b;

    assert_non_null(f);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    OK(cuModuleEnumerateFunctions(f, n, mod));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    for (unsigned i = 0; i < n; i++)
        assert_non_null(f[i]);
    free(f);
    return (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
}

/* The functions of a module, and those of a library's, are found without a walk among all: a call for all of them
   takes less time than to read their text. */
static void test_many_functions(void **state)
{
    enum { KERNELS = 40000 };
    CUcontext c = ctx_begin();
    char *text = malloc(64 + KERNELS * 40ul), *at = text;
    struct timespec a, b;
    CUfunction first, again;
    CUlibrary lib;
    CUmodule mod;
    double load;

    (void)state;
    assert_non_null(text);
    at += sprintf(at, ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (unsigned i = 0; i < KERNELS; i++)
        at += sprintf(at, ".entry k%u(){ret;}\n", i);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    OK(cuModuleLoadData(&mod, text));
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    load = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    OK(cuModuleGetFunction(&first, mod, "k0"));
    assert_true(enumeration(mod, KERNELS) < load);
    OK(cuModuleGetFunction(&again, mod, "k0"));
    assert_ptr_equal(first, again);
    OK(cuModuleUnload(mod));
    OK(cuLibraryLoadData(&lib, text, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuLibraryGetModule(&mod, lib));
    assert_true(enumeration(mod, KERNELS) < load);
    OK(cuLibraryUnload(lib));
    free(text);
    ctx_end(c);
}

const struct CMUnitTest library_tests[] = {
    cmocka_unit_test(test_unloaded_while_used), cmocka_unit_test(test_many_functions),
    cmocka_unit_test(test_constant_space), cmocka_unit_test(test_occupancy_of_shared)};
const size_t n_library_tests = sizeof(library_tests) / sizeof(library_tests[0]);

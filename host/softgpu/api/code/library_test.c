/* SPDX-License-Identifier: MIT */
/* Libraries that one thread unloads while others use them: nothing of theirs is left. */
#include "api/api_test.h"

#include <sched.h>
#include <stdatomic.h>

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

const struct CMUnitTest library_tests[] = {cmocka_unit_test(test_unloaded_while_used),
                                           cmocka_unit_test(test_occupancy_of_shared)};
const size_t n_library_tests = sizeof(library_tests) / sizeof(library_tests[0]);

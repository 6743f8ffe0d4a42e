/* SPDX-License-Identifier: MIT */
/* Streams whose thread cannot be started. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>

#include "api/api_test.h"

static _Atomic int count;

static void CUDA_CB add_one(void *arg)
{
    (void)arg;
    count++;
}

static _Atomic bool no_threads;
static _Atomic unsigned refused;

/* In place of the C library's, also for the library under test. */
int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

    if (no_threads) {
        refused++;
        return EAGAIN;
    }
    if (!real)
        real = (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    return real(t, attr, fn, arg);
}

static void work_without_thread(void *arg)
{
    const CUdeviceptr p = *(CUdeviceptr *)arg;
    static uint32_t value;
    uint32_t word = 0;
    CUstream s;

    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    count = 0;
    refused = 0;
    no_threads = true;
    OK(cuMemsetD32Async(p, ++value, 1024, s));
    OK(cuLaunchHostFunc(s, add_one, NULL));
    OK(cuStreamSynchronize(s));
    no_threads = false;
    assert_true(refused > 0);
    assert_int_equal(count, 1);
    OK(cuMemcpyDtoH_v2(&word, p + 4092, 4));
    assert_int_equal(word, value);
    OK(cuStreamDestroy_v2(s));
}

/* Work of a stream whose thread cannot be started is done all the same, and nothing of the stream is left. */
static void test_no_thread(void **state)
{
    CUcontext c = ctx_begin();
    CUdeviceptr p;
    CUstream s;

    (void)state;
    OK(cuMemAlloc_v2(&p, 4096));
    books_kept(work_without_thread, &p);
    /* One that had none has a thread again as soon as it can be started. */
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    no_threads = true;
    OK(cuLaunchHostFunc(s, add_one, NULL));
    no_threads = false;
    OK(cuLaunchHostFunc(s, add_one, NULL));
    OK(cuStreamSynchronize(s));
    assert_int_equal(count, 3);
    OK(cuStreamDestroy_v2(s));
    OK(cuMemFree_v2(p));
    ctx_end(c);
}

const struct CMUnitTest thread_tests[] = {cmocka_unit_test(test_no_thread)};
const size_t n_thread_tests = sizeof(thread_tests) / sizeof(thread_tests[0]);

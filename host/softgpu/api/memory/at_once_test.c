/* SPDX-License-Identifier: MIT */
/* Memory that another thread frees as soon as it is there, before the call that allocates it has returned. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <semaphore.h>
#include <time.h>

#include "api/api_test.h"

#define SIZE (64u << 10)
#define WAIT_NS 20000000 /* for a thread that may have to wait for this one */

static struct {
    CUcontext context;
    CUdeviceptr address;
    sem_t go, done;
    _Atomic bool over;
    _Atomic unsigned freed;
} other;

static _Thread_local bool shared_with; /* the other thread runs whenever this one lets a lock go */

/* In place of the C library's, also for the library under test. */
int pthread_mutex_unlock(pthread_mutex_t *m)
{
    static int (*real)(pthread_mutex_t *);

    if (!real)
        real = (int (*)(pthread_mutex_t *))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
    const int r = real(m);

    if (shared_with) {
        struct timespec until;

        shared_with = false;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_NS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        sem_post(&other.go);
        sem_timedwait(&other.done, &until);
        shared_with = true;
    }
    return r;
}

static void *other_main(void *arg)
{
    (void)arg;
    OK(cuCtxSetCurrent(other.context));
    for (;;) {
        sem_wait(&other.go);
        if (other.over)
            return NULL;
        other.freed += cuMemFree_v2(other.address) == CUDA_SUCCESS;
        sem_post(&other.done);
    }
}

static CUdeviceptr allocate(CUmemoryPool pool)
{
    CUdeviceptr p = 0;

    OK(pool ? cuMemAllocFromPoolAsync(&p, SIZE, pool, NULL) : cuMemAlloc_v2(&p, SIZE));
    return p;
}

static void freed_at_once(CUmemoryPool pool)
{
    pthread_t t;

    other.address = allocate(pool); /* what comes next is there, too */
    OK(cuMemFree_v2(other.address));
    other.over = false;
    other.freed = 0;
    sem_init(&other.go, 0, 0);
    sem_init(&other.done, 0, 0);
    assert_int_equal(pthread_create(&t, NULL, other_main, NULL), 0);
    mallopt(M_PERTURB, 0xa5); /* what is freed is no more what it was */
    shared_with = true;
    const CUdeviceptr p = allocate(pool);

    shared_with = false;
    mallopt(M_PERTURB, 0);
    other.over = true;
    sem_post(&other.go);
    pthread_join(t, NULL);
    assert_int_equal(p, other.address);
    assert_int_equal(other.freed, 1);
    IS(cuMemFree_v2(p), INVALID_VALUE);
}

static void test_freed_at_once(void **state)
{
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location.type = CU_MEM_LOCATION_TYPE_DEVICE};
    CUmemoryPool pool;

    (void)state;
    other.context = ctx_begin();
    freed_at_once(NULL);
    OK(cuMemPoolCreate(&pool, &props));
    freed_at_once(pool);
    OK(cuMemPoolDestroy(pool));
    props.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    OK(cuMemPoolCreate(&pool, &props));
    freed_at_once(pool);
    OK(cuMemPoolDestroy(pool));
    ctx_end(other.context);
}

const struct CMUnitTest at_once_tests[] = {cmocka_unit_test(test_freed_at_once)};
const size_t n_at_once_tests = sizeof(at_once_tests) / sizeof(at_once_tests[0]);

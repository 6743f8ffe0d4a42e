/* SPDX-License-Identifier: MIT */
/* Threads are counted, whoever starts them, and counted off however they end. */
#define _GNU_SOURCE
#include "core.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"

static sem_t leave;

static void *wait_to_leave(void *how)
{
    sem_wait(&leave);
    if (how)
        pthread_exit(how);
    return NULL;
}

static void test_threads(void **state)
{
    pthread_t t[20], more;

    (void)state;
    sem_init(&leave, 0, 0);
    wrk_client_limits.threads = 16;
    for (int round = 0; round < 3; round++) {
        for (unsigned i = 0; i < 15; i++)
            assert_int_equal(pthread_create(&t[i], NULL, wait_to_leave, i % 2 ? t : NULL), 0);
        assert_int_equal(pthread_create(&more, NULL, wait_to_leave, NULL), EAGAIN);
        /* A library finds the same function: it is what the dynamic linker knows by that name. */
        int (*found)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
            (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(RTLD_DEFAULT,
                                                                                           "pthread_create");
        assert_non_null(found);
        assert_int_equal(found(&more, NULL, wait_to_leave, NULL), EAGAIN);
        /* One that is cancelled leaves too; gone before the first post, it cannot take that of another. */
        assert_int_equal(pthread_cancel(t[0]), 0);
        assert_int_equal(pthread_join(t[0], NULL), 0);
        for (unsigned i = 1; i < 15; i++)
            sem_post(&leave);
        for (unsigned i = 1; i < 15; i++)
            assert_int_equal(pthread_join(t[i], NULL), 0);
    }
    wrk_client_limits.threads = 0;
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(pthread_create(&t[i], NULL, wait_to_leave, NULL), 0);
    for (unsigned i = 0; i < 20; i++)
        sem_post(&leave);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(pthread_join(t[i], NULL), 0);
}

/* Threads that the kernel refuses, or that have no stack, are not counted: afterwards there are as many as before. */
static void test_threads_refused(void **state)
{
    pthread_t t[15], more;
    pthread_attr_t attr;

    (void)state;
    sem_init(&leave, 0, 0);
    wrk_client_limits.threads = 16;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, (size_t)1 << 50),
                     0); /* more than there is of addresses */
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 40; i++)
            assert_int_equal(pthread_create(&more, &attr, wait_to_leave, NULL), EAGAIN);
        for (unsigned i = 0; i < 15; i++)
            assert_int_equal(pthread_create(&t[i], NULL, wait_to_leave, NULL), 0);
        assert_int_equal(pthread_create(&more, NULL, wait_to_leave, NULL), EAGAIN);
        for (unsigned i = 0; i < 15; i++)
            sem_post(&leave);
        for (unsigned i = 0; i < 15; i++)
            assert_int_equal(pthread_join(t[i], NULL), 0);
    }
    pthread_attr_destroy(&attr);
    wrk_client_limits.threads = 0;
}

static void test_handles(void **state)
{
    struct wrk_handles t = {0};
    int object;

    (void)state;
    wrk_client_limits.handles = 3;
    wrk_client_limits.streams = 1;
    assert_int_equal(wrk_handles_reserve(&t, VGP_HANDLE(VGP_H_STREAM, 1, 1), VGP_H_STREAM), 0);
    wrk_handles_put(&t, VGP_HANDLE(VGP_H_STREAM, 1, 1), VGP_H_STREAM, &object, 0);
    assert_int_equal(wrk_handles_reserve(&t, VGP_HANDLE(VGP_H_STREAM, 1, 2), VGP_H_STREAM),
                     CUDA_ERROR_OUT_OF_MEMORY);
    uint64_t a = wrk_handles_mint(&t, VGP_H_GRAPH, &object);
    assert_true(a && wrk_handles_mint(&t, VGP_H_GRAPH, &object));
    assert_int_equal(wrk_handles_mint(&t, VGP_H_GRAPH, &object), 0);
    assert_true(wrk_handles_remove(&t, a, VGP_H_GRAPH));
    assert_true(wrk_handles_mint(&t, VGP_H_GRAPH, &object));
    wrk_client_limits.handles = wrk_client_limits.streams = 0;
    wrk_handles_fini(&t);
}

/* Times that the other threads of this process have gone to sleep. */
static unsigned long sleeps(void)
{
    unsigned long sum = 0, n;
    char path[300], line[200];
    struct dirent *e;
    DIR *d = opendir("/proc/self/task");

    assert_non_null(d);
    while ((e = readdir(d))) {
        if (e->d_name[0] == '.' || atoi(e->d_name) == getpid())
            continue;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", e->d_name);
        FILE *f = fopen(path, "r");

        while (f && fgets(line, sizeof(line), f))
            sum += sscanf(line, "voluntary_ctxt_switches: %lu", &n) == 1 ? n : 0;
        if (f)
            fclose(f);
    }
    closedir(d);
    return sum;
}

/* Short compilations in a row do not wake the thread that watches them each time. */
static void test_compilations(void **state)
{
    struct wrk_worker w = {0};

    (void)state;
    wrk_client_limits.compile_s = 600;
    wrk_compile_begin(&w);
    wrk_compile_end();
    usleep(300000); /* longer than it looks once */
    const unsigned long before = sleeps();

    for (int i = 0; i < 50; i++) {
        wrk_compile_begin(&w);
        wrk_compile_end();
        usleep(1000);
    }
    assert_uint_in_range(sleeps() - before, 0, 10);
}

/* All limits change, each to its own value. */
static void test_change(void **state)
{
    const struct vgb_limits was = wrk_client_limits;
    const struct vgb_limits want = {.memory = 101,
                                    .blobs = 102,
                                    .printf_fifo = 103,
                                    .threads = 104,
                                    .streams = 105,
                                    .handles = 106,
                                    .compile_s = 107,
                                    .queue = 108,
                                    .time_s = 109,
                                    .image = 110};

    (void)state;
    wrk_limits_change(&want);
    assert_memory_equal(&wrk_client_limits, &want, sizeof(want));
    assert_null(wrk_image_refused(110));
    assert_non_null(strstr(wrk_image_refused(111), "--client-image"));
    wrk_limits_change(&was);
    assert_memory_equal(&wrk_client_limits, &was, sizeof(was));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_threads_refused),
                                       cmocka_unit_test(test_handles), cmocka_unit_test(test_change),
                                       cmocka_unit_test(test_compilations)};

    return cmocka_run_group_tests_name("client limits", tests, NULL, NULL);
}

/* SPDX-License-Identifier: MIT */
/* A worker with very many threads: what the broker looks at is bounded, for one worker and for all. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/testing/range.h"
#include "clients/clients.h"

#define THREADS 700u

static pthread_mutex_t stay = PTHREAD_MUTEX_INITIALIZER;

static void *thread(void *arg)
{
    pthread_mutex_lock(&stay);
    pthread_mutex_unlock(&stay);
    return arg;
}

static void test_threads(void **state)
{
    static pthread_t threads[THREADS];
    unsigned most = 3;

    (void)state;
    brk_waited(getpid(), &most);
    assert_int_equal(most, 1); /* this one */
    pthread_mutex_lock(&stay);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread, NULL), 0);
    for (unsigned workers = 1; workers <= 300; workers++) {
        unsigned looked = most = brk_waited_most(workers);

        brk_waited(getpid(), &looked);
        assert_int_equal(looked, most);
    }
    pthread_mutex_unlock(&stay);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Rounds are (1 + workers / 8) windows apart: the threads of a window are as many for one worker as for all there are. */
static void test_round(void **state)
{
    (void)state;
    for (unsigned workers = 1; workers <= 300; workers++)
        assert_uint_in_range(brk_waited_most(workers) * workers / (1 + workers / 8), 32, 512);
    assert_int_equal(brk_waited_most(0), brk_waited_most(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_round),
    };

    return cmocka_run_group_tests_name("waited", tests, NULL, NULL);
}

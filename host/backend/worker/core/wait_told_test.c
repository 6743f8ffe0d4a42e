/* SPDX-License-Identifier: MIT */
/* Waits that the provider's own thread completes (sg_event_when()), and those that need a waiter. */
#include "core.h"

#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#define CONTEXT(n) ((CUcontext)(uintptr_t)(0x1000 + (n)))
#define STREAM ((CUstream)(uintptr_t)0x2000)
#define BORROWED ((CUevent)(uintptr_t)0x4000)

static struct wrk_worker *w; /* another for each test: a waiter of the last one still uses that */
static _Atomic int on_event, synchronized;
static _Thread_local CUcontext current;
static unsigned created;
static struct vgp_window_shared shared;
static sem_t done; /* where waiters sleep */
/* What the provider was asked to call. */
static bool refuse;
static unsigned asked;
static CUevent asked_for;
static void (*fn)(void *, CUresult);
static CUresult told; /* and with what result it calls it */
static void *fn_arg;

static CUresult query(CUstream s)
{
    (void)s;
    return CUDA_ERROR_NOT_READY;
}

static CUresult create(CUevent *e, unsigned flags)
{
    (void)flags;
    *e = (CUevent)(uintptr_t)(0x3000 + created++);
    return CUDA_SUCCESS;
}

static CUresult record(CUevent e, CUstream s)
{
    (void)e;
    (void)s;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUevent e)
{
    (void)e;
    return CUDA_SUCCESS;
}

static CUresult event_query(CUevent e)
{
    (void)e;
    return (CUresult)on_event;
}

static CUresult event_synchronize(CUevent e)
{
    (void)e;
    if (on_event == CUDA_ERROR_NOT_READY)
        sem_wait(&done);
    assert_ptr_equal(current, CONTEXT(0));
    synchronized++;
    return on_event == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : (CUresult)on_event;
}

static CUresult set_current(CUcontext c)
{
    current = c;
    return CUDA_SUCCESS;
}

static bool when(CUevent event, void (*f)(void *, CUresult), void *arg)
{
    asked++;
    asked_for = event;
    fn = f;
    fn_arg = arg;
    return !refuse;
}

static int setup(void **state)
{
    (void)state;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -1;
    wrk_waits_init(&w->waits);
    memset(&wrk_provider, 0, sizeof(wrk_provider));
    wrk_provider.cuStreamQuery = query;
    wrk_provider.cuEventCreate = create;
    wrk_provider.cuEventRecord = record;
    wrk_provider.cuEventDestroy_v2 = destroy;
    wrk_provider.cuEventQuery = event_query;
    wrk_provider.cuEventSynchronize = event_synchronize;
    wrk_provider.cuCtxSetCurrent = set_current;
    wrk_provider.sg_event_when = when;
    w->quota.dispatcher = pthread_self();
    w->doorbell = eventfd(0, EFD_NONBLOCK);
    on_event = CUDA_ERROR_NOT_READY;
    asked = created = 0;
    synchronized = 0;
    refuse = false;
    fn = NULL;
    told = CUDA_SUCCESS;
    w->win.shared = &shared;
    sem_init(&done, 0, 0);
    return w->doorbell < 0 ? -1 : 0;
}

/* A wait as those of calls that synchronise. */
static struct wrk_wait *start(unsigned events, bool borrows)
{
    struct wrk_wait *wait = wrk_wait_internal(w, CONTEXT(0));

    assert_non_null(wait);
    wait->blocking = false;
    for (unsigned i = 0; i < events; i++)
        assert_int_equal(wrk_wait_add_stream(w, wait, STREAM), CUDA_SUCCESS);
    if (borrows)
        wrk_wait_borrow(w, wait, BORROWED, CONTEXT(0));
    wrk_wait_start_internal(w, wait);
    return wait;
}

static void *call(void *arg)
{
    (void)arg;
    fn(fn_arg, told);
    return current;
}

/*
 * On another thread, as the provider does; returns the context that is left current there. The event is busy
 * again: a call that waited for it would sleep for ever on the thread that has to complete it.
 */
static void *called(void)
{
    void *left = NULL;
    pthread_t t;

    assert_non_null(fn);
    assert_int_equal(pthread_create(&t, NULL, call, NULL), 0);
    pthread_join(t, &left);
    return left;
}

static void test_told(void **state)
{
    (void)state;
    for (int borrows = 0; borrows < 2; borrows++) {
        on_event = CUDA_ERROR_NOT_READY;
        start(!borrows, borrows);
        wrk_waits_hand_over(w);
        assert_int_equal(asked, borrows + 1);
        if (borrows)
            assert_ptr_equal(asked_for, BORROWED);
        assert_non_null(w->waits.flight); /* a context that ends waits for it */
        assert_null(called());
        assert_int_equal(synchronized, 0);
        assert_null(w->waits.flight);
        assert_int_equal(w->waits.threads, 0);
    }
}

/* The result of the wait is the one that the provider has. */
static void test_told_failure(void **state)
{
    (void)state;
    told = CUDA_ERROR_ILLEGAL_ADDRESS;
    start(0, true);
    wrk_waits_hand_over(w);
    assert_null(called());
    assert_int_equal(atomic_load(&w->sticky), CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(shared.sticky_result, CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* An event of the client that is destroyed meanwhile is there until the wait is over. */
static void test_destroyed(void **state)
{
    (void)state;
    start(0, true);
    wrk_waits_hand_over(w);
    assert_int_equal(wrk_event_destroy(w, BORROWED), CUDA_SUCCESS);
    assert_int_equal(atomic_load(&w->waits.to_land), 0);
    called();
    assert_int_equal(atomic_load(&w->waits.to_land), 1); /* the dispatcher destroys it, */
    uint64_t rung = 0;
    assert_int_equal(read(w->doorbell, &rung, sizeof(rung)), sizeof(rung)); /* and was woken */
}

static void let_waiters_end(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        sem_post(&done);
    for (unsigned ms = 0; ms < 20000; ms++) {
        pthread_mutex_lock(&w->waits.lock);
        bool left = w->waits.flight != NULL;
        pthread_mutex_unlock(&w->waits.lock);
        if (!left)
            return;
        usleep(1000);
    }
    fail_msg("a wait has not ended");
}

/* What the provider cannot do, and waits for more than one event, take a waiter. */
static void test_waiter(void **state)
{
    (void)state;
    refuse = true;
    start(1, false);
    wrk_waits_hand_over(w);
    assert_int_equal(asked, 1);
    let_waiters_end(1);
    refuse = false;
    start(2, false);
    wrk_waits_hand_over(w);
    start(1, true);
    wrk_waits_hand_over(w);
    assert_int_equal(asked, 1);
    let_waiters_end(4);
    assert_int_equal(synchronized, 5);
    assert_true(w->waits.threads >= 1);
}

static CUresult finish(struct wrk_worker *ww, struct wrk_wait *wait, CUresult r)
{
    (void)ww;
    (void)wait;
    return r;
}

/* Whatever may block must not block the provider's thread. */
static void test_blocking(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        struct wrk_wait *wait = start(i, false);

        wait->blocking = !i;
        wait->finish = finish;
        wrk_waits_hand_over(w);
        if (i)
            sem_post(&done);
        let_waiters_end(0);
    }
    assert_int_equal(asked, 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {T(test_told), T(test_told_failure), T(test_destroyed), T(test_waiter),
                                       T(test_blocking)};

    return cmocka_run_group_tests_name("waits told", tests, NULL, NULL);
}

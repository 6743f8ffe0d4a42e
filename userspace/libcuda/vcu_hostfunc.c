/* SPDX-License-Identifier: MIT */
/*
 * Host functions (cuLaunchHostFunc, cuStreamAddCallback). The worker asks for one with a
 * notification; a thread of this file runs it and answers vgpHostFuncDone. Any thread that waits for
 * a reply may be the one that reads the notification, so the runner sleeps on a condition, which
 * whoever reads it signals; a second thread, the listener, sleeps in the transport for the case
 * that no other thread does. Both are started by the first use, and sleep without any CPU while
 * nothing is outstanding.
 */
#define _GNU_SOURCE
#include "vcu.h"

#include <signal.h>
#include <stdlib.h>

#include "../../protocol/generated/vgp_entry.h"
#include "../../protocol/generated/vgp_guest.h"

struct callback {
    struct callback *next;
    uint64_t cookie;
    CUhostFn fn;
    CUstreamCallback stream_fn; /* set: cuStreamAddCallback */
    CUstream stream;
    void *user;
    uint32_t status;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER;
static struct callback *waiting; /* launched, not yet asked for */
static struct callback *ready, **ready_end = &ready;
static unsigned outstanding; /* launched, not yet run */
static unsigned started; /* of the two threads */
static uint64_t next_cookie;

/* How long the listener sleeps in the transport before it looks whether anything is outstanding. */
#define WAIT_NS 1000000000ll

static int64_t soon(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000ll + ts.tv_nsec + WAIT_NS;
}

void vcu_hostfunc_post(uint64_t cookie, uint32_t status)
{
    pthread_mutex_lock(&lock);
    for (struct callback **p = &waiting; *p != NULL; p = &(*p)->next) {
        struct callback *c = *p;

        if (c->cookie != cookie)
            continue;
        *p = c->next;
        c->next = NULL;
        c->status = status;
        *ready_end = c;
        ready_end = &c->next;
        pthread_cond_broadcast(&wake);
        break;
    }
    pthread_mutex_unlock(&lock); /* an unknown cookie is the worker's mistake: ignored */
}

static void run(struct callback *c)
{
    struct vcu_thread *t = vcu_thread();

    t->in_callback = true; /* CUDA calls inside are refused with NOT_PERMITTED */
    if (c->stream_fn != NULL)
        c->stream_fn(c->stream, (CUresult)c->status, c->user);
    else if (c->status == 0) /* a failed stream runs no host functions */
        c->fn(c->user);
    t->in_callback = false;
    vgp_call_vgpHostFuncDone(c->cookie);
}

/* The runner: one callback after another. */
static void *serve(void *arg)
{
    (void)arg;
    for (;;) {
        struct callback *c;

        pthread_mutex_lock(&lock);
        while (ready == NULL)
            pthread_cond_wait(&wake, &lock);
        c = ready;
        ready = c->next;
        if (ready == NULL)
            ready_end = &ready;
        pthread_mutex_unlock(&lock);
        run(c);
        free(c);
        pthread_mutex_lock(&lock);
        if (outstanding > 0)
            outstanding--;
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

/* The listener: reads notifications while a callback is outstanding. */
static void *hear(void *arg)
{
    (void)arg;
    for (;;) {
        pthread_mutex_lock(&lock);
        while (outstanding == 0)
            pthread_cond_wait(&wake, &lock);
        pthread_mutex_unlock(&lock);
        if (vcu_ring_wait_notify(&vcu.ring, soon()))
            vcu_ring_drain(&vcu.ring);
        if (vcu_ring_dead(&vcu.ring) != CUDA_SUCCESS) {
            pthread_mutex_lock(&lock);
            outstanding = 0; /* nobody will ask for the others any more */
            pthread_mutex_unlock(&lock);
        }
    }
    return NULL;
}

static CUresult start_locked(void)
{
    static void *(*const bodies[])(void *) = { serve, hear };
    static const char *const names[] = { "vgpu-callbacks", "vgpu-listener" };
    sigset_t all, old;
    pthread_t thread;
    int rc = 0;

    sigfillset(&all); /* signals belong to the application's threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (started < 2 && rc == 0) {
        rc = pthread_create(&thread, NULL, bodies[started], NULL);
        if (rc != 0)
            break;
        pthread_setname_np(thread, names[started++]);
        pthread_detach(thread);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc == 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult launch(struct callback init)
{
    struct callback *c;
    CUresult res;

    c = malloc(sizeof(*c));
    if (c == NULL)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *c = init;
    pthread_mutex_lock(&lock);
    res = start_locked();
    if (res == CUDA_SUCCESS) {
        c->cookie = ++next_cookie;
        init.cookie = c->cookie;
        c->next = waiting;
        waiting = c;
        outstanding++;
        pthread_cond_broadcast(&wake);
    }
    pthread_mutex_unlock(&lock);
    if (res != CUDA_SUCCESS) {
        free(c);
        return res;
    }
    res = vgp_call_vgpLaunchHostFunc(init.stream, init.cookie);
    if (res == CUDA_SUCCESS)
        return res;
    pthread_mutex_lock(&lock);
    for (struct callback **p = &waiting; *p != NULL; p = &(*p)->next) {
        if (*p == c) {
            *p = c->next;
            if (outstanding > 0)
                outstanding--;
            free(c);
            break;
        }
    }
    pthread_mutex_unlock(&lock);
    return res;
}

CUresult vcu_cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (fn == NULL)
        return CUDA_ERROR_INVALID_VALUE;
    return launch((struct callback){ .fn = fn, .stream = hStream, .user = userData });
}

CUresult vcu_cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                                 unsigned int flags)
{
    CUresult res = vcu_check_context();

    if (res != CUDA_SUCCESS)
        return res;
    hStream = vcu_stream(hStream);
    if (!vcu_stream_ok(hStream))
        return CUDA_ERROR_INVALID_HANDLE;
    if (callback == NULL || flags != 0)
        return CUDA_ERROR_INVALID_VALUE;
    return launch((struct callback){ .stream_fn = callback, .stream = hStream, .user = userData });
}

/* SPDX-License-Identifier: MIT */
/*
 * The state of the process's connection and of its threads, which all files of the library read.
 * vcu_client.c connects and ends it.
 */
#include "../core.h"

#include <stdlib.h>
#include <string.h>

struct vcu_client vcu = {.init_lock = PTHREAD_MUTEX_INITIALIZER};
__thread int vcu_per_thread;
const struct vcu_ahead_ops *vcu_ahead;

CUresult vcu_check_init(void)
{
    switch (atomic_load_explicit(&vcu.state, memory_order_acquire)) {
    case VCU_READY:
        return CUDA_SUCCESS;
    case VCU_EXITED:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_NOT_INITIALIZED;
    }
}

/* ---- threads -------------------------------------------------------------------------------- */

__thread struct vcu_thread vcu_thread_state;
static pthread_key_t thread_key;
static pthread_once_t thread_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t number_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers_used[64]; /* 4096 threads at a time have dense numbers */
static uint32_t numbers_beyond = 64 * 64;

static uint32_t number_take(void)
{
    uint32_t n = 0;

    pthread_mutex_lock(&number_lock);
    for (unsigned w = 0; w < 64; w++) {
        if (~numbers_used[w] != 0) {
            unsigned bit = (unsigned)__builtin_ctzll(~numbers_used[w]);

            numbers_used[w] |= 1ull << bit;
            n = w * 64 + bit;
            pthread_mutex_unlock(&number_lock);
            return n;
        }
    }
    n = numbers_beyond++;
    pthread_mutex_unlock(&number_lock);
    return n;
}

static void thread_ended(void *arg)
{
    struct vcu_thread *t = arg;

    if (t->number < 64 * 64) {
        pthread_mutex_lock(&number_lock);
        numbers_used[t->number / 64] &= ~(1ull << (t->number % 64));
        pthread_mutex_unlock(&number_lock);
    }
    free(t->heap);
    free(t->payload);
    free(t->lent.nodes);
    free(t->lent.edges);
    memset(t, 0, sizeof(*t)); /* not registered: a later destructor of the thread may make calls again */
}

static void make_thread_key(void)
{
    pthread_key_create(&thread_key, thread_ended);
}

struct vcu_thread *vcu_thread_register(void)
{
    struct vcu_thread *t = &vcu_thread_state;

    pthread_once(&thread_once, make_thread_key);
    t->registered = true;
    t->number = number_take();
    pthread_setspecific(thread_key, t);
    return t;
}

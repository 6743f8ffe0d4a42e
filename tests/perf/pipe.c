// SPDX-License-Identifier: MIT
/*
 * A copy by two threads through pieces of shared memory only: no records, checks or provider. Upper
 * bound for a copy of pageable memory through the staging area on the current machine.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 4u
#define PIECE_MAX ((size_t)128 << 10)
#define PIECE_MIN ((size_t)16 << 10)

static struct {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool started, awake;
    unsigned char *stage, *to;
    const unsigned char *from;
    size_t n, piece;
    bool fills;                           /* the thread fills the pieces, the caller empties them */
    _Alignas(64) _Atomic uint64_t copies; /* number started by the caller */
    _Alignas(64) _Atomic size_t filled;
    _Alignas(64) _Atomic size_t emptied;
} pipe_ = {.lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER};

static void wait_above(_Atomic size_t *word, size_t value)
{
    for (unsigned i = 1; atomic_load_explicit(word, memory_order_acquire) <= value; i++)
        if (i % 1024 == 0)
            sched_yield(); /* the other thread may need this processor */
}

static size_t length(size_t i)
{
    const size_t at = i * pipe_.piece;

    return pipe_.n - at < pipe_.piece ? pipe_.n - at : pipe_.piece;
}

static void fill(void)
{
    for (size_t i = 0; i * pipe_.piece < pipe_.n; i++) {
        if (i >= SLOTS)
            wait_above(&pipe_.emptied, i - SLOTS);
        memcpy(pipe_.stage + i % SLOTS * PIECE_MAX, pipe_.from + i * pipe_.piece, length(i));
        atomic_store_explicit(&pipe_.filled, i + 1, memory_order_release);
    }
}

static void drain(void)
{
    for (size_t i = 0; i * pipe_.piece < pipe_.n; i++) {
        wait_above(&pipe_.filled, i);
        memcpy(pipe_.to + i * pipe_.piece, pipe_.stage + i % SLOTS * PIECE_MAX, length(i));
        atomic_store_explicit(&pipe_.emptied, i + 1, memory_order_release);
    }
}

static void *other_thread(void *arg)
{
    (void)arg;
    for (uint64_t done = 0;;) {
        pthread_mutex_lock(&pipe_.lock);
        while (!pipe_.awake)
            pthread_cond_wait(&pipe_.wake, &pipe_.lock);
        pthread_mutex_unlock(&pipe_.lock);
        for (unsigned i = 1; atomic_load_explicit(&pipe_.copies, memory_order_acquire) == done; i++)
            if (i % 1024 == 0) {
                sched_yield();
                if (!__atomic_load_n(&pipe_.awake, __ATOMIC_RELAXED))
                    break;
            }
        if (atomic_load_explicit(&pipe_.copies, memory_order_acquire) == done)
            continue;
        done++;
        if (pipe_.fills)
            fill();
        else
            drain();
    }
    return NULL;
}

void pipe_bind(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((unsigned)cpu, &set);
    pthread_setaffinity_np(pipe_.thread, sizeof(set), &set);
}

void pipe_wake(bool awake)
{
    if (!pipe_.started) {
        pipe_.stage = aligned_alloc(4096, SLOTS * PIECE_MAX);
        if (!pipe_.stage || pthread_create(&pipe_.thread, NULL, other_thread, NULL))
            abort();
        memset(pipe_.stage, 0, SLOTS * PIECE_MAX);
        pipe_.started = true;
    }
    pthread_mutex_lock(&pipe_.lock);
    __atomic_store_n(&pipe_.awake, awake, __ATOMIC_RELAXED);
    pthread_cond_signal(&pipe_.wake);
    pthread_mutex_unlock(&pipe_.lock);
}

double pipe_once(void *to, const void *from, size_t n, bool back)
{
    const uint64_t t0 = now_ns();
    size_t pieces;

    pipe_.to = to;
    pipe_.from = from;
    pipe_.n = n;
    /* Smaller pieces for small copies, so that the two threads overlap. */
    pipe_.piece = n / 4 < PIECE_MIN ? PIECE_MIN : n / 4 < PIECE_MAX ? n / 4 : PIECE_MAX;
    pipe_.fills = back;
    atomic_store_explicit(&pipe_.filled, 0, memory_order_relaxed);
    atomic_store_explicit(&pipe_.emptied, 0, memory_order_relaxed);
    atomic_fetch_add_explicit(&pipe_.copies, 1, memory_order_release);
    pieces = (n + pipe_.piece - 1) / pipe_.piece;
    if (back)
        drain();
    else
        fill();
    wait_above(&pipe_.emptied, pieces - 1);
    return (double)(now_ns() - t0);
}

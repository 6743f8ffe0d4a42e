/* SPDX-License-Identifier: MIT */
/* See memory/grace.h. A reader publishes the number of the period in which it began; 0: outside. */
#include "memory/grace.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

struct reader {
    _Atomic uint64_t since;
    struct reader *next; /* constant once it is in the list */
    atomic_bool taken;
};

static struct reader *_Atomic readers; /* only grows: records of ended threads are reused */
static _Atomic uint64_t period = 1;
static _Atomic uint32_t waiters;
static _Atomic uint32_t nameless; /* threads inside for which there was no memory */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static _Thread_local struct reader *me;
static _Thread_local unsigned depth;

static void thread_end(void *p)
{
    struct reader *r = p;

    me = NULL;
    atomic_store(&r->taken, false);
}

static void make_key(void)
{
    pthread_key_create(&key, thread_end);
}

static struct reader *own_record(void)
{
    struct reader *r = readers;
    bool no = false;

    pthread_once(&once, make_key);
    while (r && !atomic_compare_exchange_strong(&r->taken, &no, true)) {
        no = false;
        r = r->next;
    }
    if (!r && (r = calloc(1, sizeof(*r))) != NULL) {
        struct reader *head = readers;

        atomic_store(&r->taken, true);
        do {
            r->next = head;
        } while (!atomic_compare_exchange_weak(&readers, &head, r));
    }
    if (r && pthread_setspecific(key, r)) { /* otherwise it would never be freed */
        atomic_store(&r->taken, false);
        r = NULL;
    }
    return r;
}

static void wake_waiters(void)
{
    if (!atomic_load(&waiters))
        return;
    pthread_mutex_lock(&lock);
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

void sg_grace_enter(void)
{
    if (depth++)
        return;
    if (!me)
        me = own_record();
    if (me)
        atomic_store_explicit(&me->since, atomic_load(&period),
                              memory_order_relaxed); /* the fence orders it */
    else
        atomic_fetch_add(&nameless, 1);
    /* Look-ups from here on see at least the state that a waiter sees of this thread:
       sg_grace_wait(). */
    atomic_thread_fence(memory_order_seq_cst);
}

void sg_grace_leave(void)
{
    if (--depth)
        return;
    if (me)
        atomic_store(&me->since, 0);
    else
        atomic_fetch_sub(&nameless, 1);
    wake_waiters();
}

void sg_grace_pass(void)
{
    const uint64_t now = atomic_load_explicit(&period, memory_order_relaxed);

    if (depth != 1 || (me && atomic_load_explicit(&me->since, memory_order_relaxed) == now))
        return;
    sg_grace_leave();
    sg_grace_enter();
}

/* True if a reader entered before the period. A reader without a record counts always. */
static bool someone_before(uint64_t before)
{
    const uint32_t own = depth && !me;

    for (const struct reader *r = readers; r; r = r->next) {
        const uint64_t since = atomic_load(&r->since);

        if (r != me && since && since < before)
            return true;
    }
    return atomic_load(&nameless) > own;
}

void sg_grace_wait(void)
{
    const uint64_t next = atomic_fetch_add(&period, 1) + 1;

    atomic_thread_fence(memory_order_seq_cst);
    if (!someone_before(next))
        return;
    pthread_mutex_lock(&lock);
    /* before the deciding check: wake_waiters() comes after a reader's store */
    atomic_fetch_add(&waiters, 1);
    while (someone_before(next))
        pthread_cond_wait(&changed, &lock);
    atomic_fetch_sub(&waiters, 1);
    pthread_mutex_unlock(&lock);
}

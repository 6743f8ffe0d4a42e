/* SPDX-License-Identifier: MIT */
#include "link_thread.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

struct wrk_link_thread {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    void (*fn)(void *arg); /* to be run; NULL: nothing */
    void *arg;
    bool over;
};

static void *link_thread_serve(void *arg)
{
    struct wrk_link_thread *t = arg;

    pthread_mutex_lock(&t->lock);
    while (!t->over) {
        if (!t->fn) {
            pthread_cond_wait(&t->changed, &t->lock);
            continue;
        }
        pthread_mutex_unlock(&t->lock);
        t->fn(t->arg);
        pthread_mutex_lock(&t->lock);
        t->fn = NULL;
        pthread_cond_broadcast(&t->changed);
    }
    pthread_mutex_unlock(&t->lock);
    return NULL;
}

struct wrk_link_thread *wrk_link_thread_start(void)
{
    struct wrk_link_thread *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    pthread_mutex_init(&t->lock, NULL);
    pthread_cond_init(&t->changed, NULL);
    if (pthread_create(&t->thread, NULL, link_thread_serve, t)) {
        free(t);
        return NULL;
    }
    return t;
}

void wrk_link_thread_run(struct wrk_link_thread *t, void (*fn)(void *arg), void *arg)
{
    if (!t) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&t->lock);
    t->arg = arg;
    t->fn = fn;
    pthread_cond_broadcast(&t->changed);
    while (t->fn)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void wrk_link_thread_end(struct wrk_link_thread *t)
{
    if (!t)
        return;
    pthread_mutex_lock(&t->lock);
    t->over = true;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    pthread_join(t->thread, NULL);
    free(t);
}

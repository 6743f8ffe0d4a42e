/* SPDX-License-Identifier: MIT */
/* Threads for what would hold up the loop. */
#define _GNU_SOURCE
#include "base.h"

#include <pthread.h>
#include <signal.h>

#define STACK_BYTES (64u << 10)

bool brk_thread_start(void *(*fn)(void *), void *arg)
{
    sigset_t all, was;
    pthread_attr_t at;
    pthread_t t;
    bool ok;

    if (pthread_attr_init(&at))
        return false;
    pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&at, STACK_BYTES);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are handled by the loop */
    ok = !pthread_create(&t, &at, fn, arg);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&at);
    return ok;
}

/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that others have sent. The last close of one can wait for as long as its sender likes: a TCP socket with
 * SO_LINGER and bytes that nobody takes, a file of a FUSE whose server does not answer. So none that may do so is
 * closed by the loop, neither one that was received nor one that lies in the queue of a connection that is closed.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vgb_fd.h"

#define THREADS_MAX 64u  /* each has one descriptor whose close waits */
#define QUEUED_MAX 4096u /* messages: more than a socket holds */
#define STACK_BYTES (64u << 10)

static unsigned threads;

static void *close_one(void *arg)
{
    close((int)(intptr_t)arg);
    __atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED);
    return NULL;
}

static bool close_in_thread(int fd)
{
    sigset_t all, was;
    pthread_attr_t at;
    pthread_t t;
    bool ok;

    if (__atomic_load_n(&threads, __ATOMIC_RELAXED) >= THREADS_MAX || pthread_attr_init(&at))
        return false;
    pthread_attr_setdetachstate(&at, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&at, STACK_BYTES);
    __atomic_fetch_add(&threads, 1, __ATOMIC_RELAXED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are the loop's */
    ok = !pthread_create(&t, &at, close_one, (void *)(intptr_t)fd);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&at);
    if (!ok)
        __atomic_fetch_sub(&threads, 1, __ATOMIC_RELAXED);
    return ok;
}

void brk_foreign_close(int fd)
{
    const struct linger now = {.l_onoff = 1};

    /* A file in memory, which is what clients share, is closed at once. */
    if (fcntl(fd, F_GET_SEALS) >= 0) {
        close(fd);
        return;
    }
    /* A sender that has a duplicate may set it again: hence the thread all the same. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    if (!close_in_thread(fd))
        close(fd);
}

void brk_foreign_close_all(const int *fds, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        brk_foreign_close(fds[i]);
}

void brk_foreign_end(int *sock)
{
    char byte[1];
    int fds[VGB_FD_MAX];

    if (*sock < 0)
        return;
    shutdown(*sock, SHUT_RDWR); /* nothing more is queued after this */
    for (unsigned i = 0; i < QUEUED_MAX; i++) {
        unsigned n = VGB_FD_MAX;
        ssize_t got = vgb_recv_fds(*sock, byte, sizeof(byte), fds, &n, MSG_DONTWAIT);

        if (got <= 0 && got != -EPROTO)
            break;
        if (got > 0)
            brk_foreign_close_all(fds, n);
    }
    vgb_close(sock);
}

/* SPDX-License-Identifier: MIT */
/*
 * Descriptors that others have sent. The last close of one can wait for as long as its sender likes: a TCP socket with
 * SO_LINGER and bytes that nobody takes, a file of a FUSE whose server does not answer. So none that may do so is
 * closed by the loop, neither one that was received nor one that lies in the queue of a connection that is closed.
 * A few threads close them; while each of those waits, further ones stay open in a list. Where that gets long, a
 * connection that ends goes into it as it is, with what is queued in it, and whoever may be anybody is not accepted.
 *
 * A file in memory waits for nobody, but its pages go with its last close, a third of a second for each GiB. One with
 * more than a few is for a thread that closes nothing else: what clients share is given up whatever the others wait for.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define THREADS_MAX 64u  /* each has one descriptor whose close waits */
#define QUEUED_MAX 4096u /* messages: more than a socket holds */
#define CROWD 256u       /* descriptors in the list */
#define STACK_BYTES (64u << 10)
#define PAGES_FEW \
    (256u << 10) /* bytes of a file in memory that are given up as fast as a thread is asked to */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing {
    const unsigned most; /* threads */
    unsigned threads;
    int *list; /* to be closed when a thread is free */
    size_t listed, room;
} waiting = {.most = THREADS_MAX}, memory = {.most = 1};

/* -1: nothing is left, and the thread that has asked does not count any more. */
static int next_of_list(struct closing *c)
{
    int fd = -1;

    pthread_mutex_lock(&lock);
    if (c->listed)
        fd = c->list[--c->listed];
    else
        c->threads--;
    pthread_mutex_unlock(&lock);
    return fd;
}

static void *close_list(void *arg)
{
    int fd;

    while ((fd = next_of_list(arg)) >= 0)
        close(fd);
    return NULL;
}

static bool start_thread(struct closing *c)
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
    pthread_sigmask(SIG_SETMASK, &all, &was); /* signals are the loop's */
    ok = !pthread_create(&t, &at, close_list, c);
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    pthread_attr_destroy(&at);
    return ok;
}

/* What cannot be put anywhere stays open: that costs a descriptor, not the broker's time. */
static void close_later(struct closing *c, int fd)
{
    bool start;

    pthread_mutex_lock(&lock);
    if (c->listed == c->room) {
        size_t more = c->room ? 2 * c->room : CROWD;
        int *longer = realloc(c->list, more * sizeof(*c->list));

        c->list = longer ? longer : c->list;
        c->room = longer ? more : c->room;
    }
    if (c->listed < c->room)
        c->list[c->listed++] = fd;
    start = c->threads < c->most;
    c->threads += start;
    pthread_mutex_unlock(&lock);
    if (start && !start_thread(c)) {
        pthread_mutex_lock(&lock);
        c->threads--; /* the list is for another thread, or for the next that is started */
        pthread_mutex_unlock(&lock);
    }
}

bool brk_foreign_crowded(void)
{
    bool crowded;

    pthread_mutex_lock(&lock);
    crowded = waiting.listed >= CROWD || memory.listed >= CROWD;
    pthread_mutex_unlock(&lock);
    return crowded;
}

void brk_foreign_close(int fd)
{
    const struct linger now = {.l_onoff = 1};
    struct stat st;

    if (fcntl(fd, F_GET_SEALS) >= 0) {
        if (fstat(fd, &st) || (uint64_t)st.st_blocks * 512 > PAGES_FEW)
            close_later(&memory, fd);
        else
            close(fd);
        return;
    }
    /* A sender that has a duplicate may set it again: hence the thread all the same. */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    close_later(&waiting, fd);
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
    if (brk_foreign_crowded()) {
        close_later(&waiting, *sock);
        *sock = -1;
        return;
    }
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

/* SPDX-License-Identifier: MIT */
/*
 * Closing of received descriptors. The last close of a descriptor can block as long as its sender
 * likes: a TCP socket with SO_LINGER and unread bytes, a file on a FUSE whose server does not
 * answer. The loop therefore closes no such descriptor, whether received or still queued in a
 * connection being closed. A few threads close them; while all of these block, further descriptors
 * stay open in a list. When the list gets long, an ending connection is added to it as a whole,
 * with its queued descriptors, and connections from arbitrary users are not accepted.
 *
 * The same applies to every system call that takes a lock of the file: a sender's sendmsg(2) keeps
 * the lock of a TCP socket while its source pages fault (userfaultfd, FUSE), and setsockopt(2) waits
 * for that lock. fcntl(2) with F_GET_SEALS and fstat(2) of an in-memory file take none.
 *
 * Such a call can outlast SIGKILL; what makes it is not the broker's process (brk_thread.c). Sockets that
 * any user may connect to and that take no descriptors refuse them, where the kernel can.
 *
 * Closing an in-memory file does not block, but the last close frees its pages, a third of a second
 * for each GiB. Files with more than a few pages go to a thread that closes nothing else, so that
 * memory of clients is freed even if the other threads block.
 */
#define _GNU_SOURCE
#include "base.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define THREADS_MAX 64u  /* each closes a descriptor that may block */
#define QUEUED_MAX 4096u /* messages drained from a socket: more than it can hold */
#define CROWD 256u       /* length of the list at which it is crowded */
#define FULL_PART 4u     /* the list is full with this part of the descriptors that the broker may have */
/* size of an in-memory file that is closed as fast as handed to a thread */
#define PAGES_FEW (256u << 10)

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct closing {
    const unsigned most; /* threads */
    unsigned threads;
    int *list; /* descriptors to be closed when a thread is free */
    size_t listed, room;
} waiting = {.most = THREADS_MAX}, memory = {.most = 1};

/* -1: the list is empty, and the calling thread is no longer counted. */
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
    const struct linger now = {.l_onoff = 1};
    int fd;

    while ((fd = next_of_list(arg)) >= 0) {
        if (arg == &waiting) /* a sender with a duplicate may set it again */
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
        close(fd);
    }
    return NULL;
}

/* A descriptor that cannot be queued stays open, which costs a descriptor but no time. */
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
    if (start && !brk_thread_start(close_list, c)) {
        pthread_mutex_lock(&lock);
        c->threads--; /* another or the next thread takes over the list */
        pthread_mutex_unlock(&lock);
    }
}

bool brk_foreign_refuse(int sock)
{
    const int no = 0;

    return !setsockopt(sock, SOL_SOCKET, SO_PASSRIGHTS, &no, sizeof(no));
}

bool brk_foreign_crowded(void)
{
    bool crowded;

    pthread_mutex_lock(&lock);
    crowded = waiting.listed >= CROWD || memory.listed >= CROWD;
    pthread_mutex_unlock(&lock);
    return crowded;
}

bool brk_foreign_full(void)
{
    struct rlimit r;
    bool full;

    if (getrlimit(RLIMIT_NOFILE, &r))
        return false;
    pthread_mutex_lock(&lock);
    full = waiting.listed + memory.listed >= r.rlim_cur / FULL_PART;
    pthread_mutex_unlock(&lock);
    return full;
}

bool brk_foreign_is_memory(int fd)
{
    return fcntl(fd, F_GET_SEALS) >= 0;
}

void brk_foreign_close(int fd)
{
    struct stat st;

    if (brk_foreign_is_memory(fd)) {
        if (fstat(fd, &st) || (uint64_t)st.st_blocks * 512 > PAGES_FEW)
            close_later(&memory, fd);
        else
            close(fd);
        return;
    }
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

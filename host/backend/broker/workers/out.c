/* SPDX-License-Identifier: MIT */
/*
 * Messages to workers that did not fit into their sockets. A worker that does not read would make
 * the broker keep them for ever, so they are bounded: per worker, and for all together. Descriptors
 * too: messages about the same file share one duplicate.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define OUT_MAX 4096u     /* messages of one worker: pages of 1 GiB one by one */
#define OUT_ALL_MAX 8192u /* of all workers; a message has 2 KiB */
#define OUT_FDS_MAX 32u   /* files of one worker: its table of memory, windows, doorbells */

struct brk_out_fd {
    struct brk_out_fd *next;
    dev_t dev;
    ino_t ino;
    int fd, flags;
    bool shared; /* a file of its own number: eventfds all have the same */
    unsigned refs;
};

struct brk_out {
    struct brk_out *next;
    struct vgb_msg m;
    struct brk_out_fd *fds[VGB_MSG_FDS];
    unsigned nfds;
};

static unsigned all;

static void put_fd(struct brk_proc *p, struct brk_out_fd *f)
{
    if (--f->refs)
        return;
    for (struct brk_out_fd **at = &p->out_fds; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            break;
        }
    }
    p->nout_fds--;
    brk_foreign_close(f->fd); /* a client's file: all of its pages may go with it */
    free(f);
}

/* A duplicate of the descriptor, an earlier one of the same file if there is one. NULL: no more. */
static struct brk_out_fd *get_fd(struct brk_proc *p, int fd)
{
    int flags = fcntl(fd, F_GETFL);
    struct brk_out_fd *f;
    struct stat st;

    if (flags < 0 || fstat(fd, &st))
        return NULL;
    for (f = S_ISREG(st.st_mode) ? p->out_fds : NULL; f; f = f->next) {
        if (f->shared && f->dev == st.st_dev && f->ino == st.st_ino && f->flags == flags) {
            f->refs++;
            return f;
        }
    }
    f = p->nout_fds < OUT_FDS_MAX ? calloc(1, sizeof(*f)) : NULL;
    if (!f)
        return NULL;
    f->fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (f->fd < 0) {
        free(f);
        return NULL;
    }
    f->shared = S_ISREG(st.st_mode);
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    f->flags = flags;
    f->refs = 1;
    f->next = p->out_fds;
    p->out_fds = f;
    p->nout_fds++;
    return f;
}

static void free_one(struct brk_proc *p, struct brk_out *o)
{
    for (unsigned i = 0; i < o->nfds; i++)
        put_fd(p, o->fds[i]);
    free(o);
    p->nout--;
    all--;
}

const char *brk_out_push(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    struct brk_out *o;

    if (p->nout >= OUT_MAX)
        return "does not read its messages";
    o = calloc(1, sizeof(*o));
    if (!o)
        return "cannot be sent a message: no memory";
    p->nout++;
    all++;
    o->m = *m;
    for (unsigned i = 0; i < nfds; i++) {
        o->fds[i] = get_fd(p, fds[i]);
        if (!o->fds[i]) {
            free_one(p, o);
            return "has too many descriptors waiting in messages that it does not read";
        }
        o->nfds++;
    }
    if (!p->out)
        p->out_tail = &p->out;
    *p->out_tail = o;
    p->out_tail = &o->next;
    return NULL;
}

bool brk_out_over(void)
{
    return all > OUT_ALL_MAX;
}

bool brk_out_flush(struct brk_proc *p)
{
    while (p->out) {
        struct brk_out *o = p->out;
        int fds[VGB_MSG_FDS];

        for (unsigned i = 0; i < o->nfds; i++)
            fds[i] = o->fds[i]->fd;
        if (vgb_msg_send(p->sock.fd, &o->m, fds, o->nfds, MSG_DONTWAIT) == -EAGAIN)
            return false;
        p->out = o->next;
        free_one(p, o);
    }
    return true;
}

void brk_out_drop(struct brk_proc *p)
{
    while (p->out) {
        struct brk_out *o = p->out;

        p->out = o->next;
        free_one(p, o);
    }
}

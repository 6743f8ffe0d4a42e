/* SPDX-License-Identifier: MIT */
/*
 * Queues of messages to workers. A worker that does not read would make the broker keep its
 * messages indefinitely, so they are bounded, per worker and for all workers together. So are
 * descriptors: messages about the same file share a duplicate.
 *
 * The kernel counts the descriptors in all sockets of a user and refuses further ones
 * (ETOOMANYREFS) beyond RLIMIT_NOFILE. So that workers that do not read cannot exhaust that, each
 * gets a share of half of it. A worker that leaves descriptors unread is ended like an unresponsive
 * worker (brk_pool_users.silent), and messages that cannot be sent now wait.
 */
#define _GNU_SOURCE
#include "workers.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vgb_fd.h"

#define OUT_MAX 4096u     /* messages of a worker: 1 GiB mapped page by page */
#define OUT_ALL_MAX 8192u /* messages of all workers, of 2 KiB each */
#define OUT_FDS_MAX 32u   /* files of a worker: memory table, windows, doorbells */
#define FLYING_MAX 64u    /* descriptors in the socket of a worker, if RLIMIT_NOFILE allows */

struct brk_out_fd {
    struct brk_out_fd *next;
    dev_t dev;
    ino_t ino;
    int fd, flags;
    bool shared; /* its inode number identifies the file; eventfds share an inode */
    unsigned refs;
};

struct brk_out {
    struct brk_out *next;
    struct vgb_msg m;
    struct brk_out_fd *fds[VGB_MSG_FDS];
    unsigned nfds;
};

static unsigned all;

/* ---- what is in the socket ---- */

bool brk_out_holds(const struct brk_proc *p)
{
    return p->flying || p->nout_fds;
}

/* Maximum number of descriptors in the socket of a worker; a single message is always allowed. */
static unsigned most_flying(void)
{
    const unsigned clients = brk_opt.max_clients ? brk_opt.max_clients : 1;
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) || r.rlim_cur / 2 / clients >= FLYING_MAX)
        return FLYING_MAX;
    return r.rlim_cur / 2 / clients > VGB_MSG_FDS ? (unsigned)(r.rlim_cur / 2 / clients) : VGB_MSG_FDS;
}

/* A message takes more socket memory than its own bytes, so a smaller amount means that a message
 * was read. */
void brk_out_look(struct brk_proc *p, uint64_t now_ns)
{
    int bytes = 0;

    if (!brk_out_holds(p) || ioctl(p->sock.fd, SIOCOUTQ, &bytes))
        return;
    if (bytes <= 0)
        p->flying = 0;
    if (bytes <= 0 || (unsigned)bytes < p->unread)
        p->unread_ns = now_ns;
    p->unread = bytes <= 0 ? 0 : (unsigned)bytes;
}

/* Called before the first descriptor waits for the worker. */
static void begin_to_hold(struct brk_proc *p)
{
    if (brk_out_holds(p))
        return;
    p->unread = 0;
    p->unread_ns = vgb_now_ns();
}

int brk_out_send(struct brk_proc *p, const struct vgb_msg *m, const int *fds, unsigned nfds)
{
    int r;

    if (nfds && p->flying + nfds > most_flying()) {
        brk_out_look(p, vgb_now_ns());
        if (p->flying + nfds > most_flying())
            return -ETOOMANYREFS;
    }
    r = vgb_msg_send(p->sock.fd, m, fds, nfds, MSG_DONTWAIT);
    if (r)
        return r;
    if (nfds)
        begin_to_hold(p);
    p->flying += nfds;
    p->unread += brk_out_holds(p) ? (unsigned)sizeof(*m) : 0;
    return 0;
}

bool brk_out_waits(int error)
{
    return error == -EAGAIN || error == -ETOOMANYREFS || error == -ENOBUFS || error == -ENOMEM;
}

/* ---- what waits ---- */

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
    brk_foreign_close(f->fd); /* a client's file: may free all of its pages */
    free(f);
}

/* Duplicate of the descriptor, reusing one of the same file. NULL: limit reached. */
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
        begin_to_hold(p);
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

int brk_out_flush(struct brk_proc *p)
{
    while (p->out) {
        struct brk_out *o = p->out;
        int fds[VGB_MSG_FDS], r;

        for (unsigned i = 0; i < o->nfds; i++)
            fds[i] = o->fds[i]->fd;
        r = brk_out_send(p, &o->m, fds, o->nfds);
        if (r)
            return r;
        p->out = o->next;
        free_one(p, o);
    }
    return 0;
}

void brk_out_drop(struct brk_proc *p)
{
    p->out_later = false;
    while (p->out) {
        struct brk_out *o = p->out;

        p->out = o->next;
        free_one(p, o);
    }
}

int brk_out_sent(struct brk_proc *p, int error)
{
    const bool waits = brk_out_waits(error), closed = error == -EPIPE || error == -ECONNRESET;

    p->out_later = waits && error != -EAGAIN;
    if (closed) /* its exit event is pending */
        brk_out_drop(p);
    brk_loop_change(&p->sock, EPOLLIN | (error == -EAGAIN ? EPOLLOUT : 0));
    return waits || closed ? 0 : error;
}

/* SPDX-License-Identifier: MIT */
/*
 * Clearing of windows. QEMU also has a descriptor of a VM's window file. fallocate(2) needs the
 * inode lock, which a writer keeps while its source pages fault (userfaultfd, FUSE), and a slice of
 * 1 GiB takes 0.3 s. Each clearing therefore runs in its own thread; its caller is told
 * from the loop. The client owns the descriptor and is freed after that call.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "vgb_fd.h"

struct clearing {
    struct clearing *next;
    struct brk_client *client;
    void (*done)(struct brk_client *c, bool ok);
    int fd;
    off_t offset, size;
    bool ok;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clearing *done_list;
static struct brk_source done_event = {.fd = -1}; /* eventfd of this process alone */

static void *clear_slice(void *arg)
{
    struct clearing *w = arg;

    w->ok = !fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, w->offset, w->size);
    pthread_mutex_lock(&lock);
    w->next = done_list;
    done_list = w;
    pthread_mutex_unlock(&lock);
    vgb_eventfd_signal(done_event.fd);
    return NULL;
}

static struct clearing *next_done(void)
{
    struct clearing *w;

    pthread_mutex_lock(&lock);
    w = done_list;
    if (w)
        done_list = w->next;
    pthread_mutex_unlock(&lock);
    return w;
}

static void on_done(struct brk_source *s, uint32_t events)
{
    struct clearing *w;

    (void)events;
    vgb_eventfd_clear(s->fd);
    while ((w = next_done())) {
        w->client->clearing = false;
        w->done(w->client, w->ok);
        free(w);
    }
}

bool brk_window_init(void)
{
    if (done_event.fd >= 0)
        return true;
    done_event.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    done_event.ready = on_done;
    if (done_event.fd >= 0 && !brk_loop_add(&done_event, EPOLLIN))
        return true;
    vgb_close(&done_event.fd);
    return false;
}

bool brk_window_clear(struct brk_client *c, void (*done)(struct brk_client *c, bool ok))
{
    struct clearing *w = brk_window_init() ? malloc(sizeof(*w)) : NULL;

    if (!w)
        return false;
    *w = (struct clearing){.client = c,
                           .done = done,
                           .fd = c->window_fd,
                           .offset = (off_t)c->window_offset,
                           .size = (off_t)c->window_size};
    c->clearing = true;
    c->clearing_ns = vgb_now_ns();
    if (brk_thread_start(clear_slice, w))
        return true;
    c->clearing = false;
    free(w);
    return false;
}

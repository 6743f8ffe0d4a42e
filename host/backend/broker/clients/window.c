/* SPDX-License-Identifier: MIT */
/*
 * Clearing of windows. A VM's windows are slices of a file to which QEMU has a descriptor too, and
 * fallocate(2) waits for the inode's lock: a writer whose pages are not there (userfaultfd, a file
 * of its own file system) keeps that as long as it likes, and a slice of 1 GiB takes a third of a
 * second. The loop therefore waits for neither: each clearing has a thread, and
 * brk_client_cleared() is called from the loop when it is done. The client owns the descriptor, and
 * is not freed before.
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
        brk_client_cleared(w->client, w->ok);
        free(w);
    }
}

static bool watch_done(void)
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

bool brk_window_clear(struct brk_client *c)
{
    struct clearing *w = watch_done() ? malloc(sizeof(*w)) : NULL;

    if (!w)
        return false;
    *w = (struct clearing){
        .client = c, .fd = c->window_fd, .offset = (off_t)c->window_offset, .size = (off_t)c->window_size};
    c->clearing = true;
    if (brk_thread_start(clear_slice, w))
        return true;
    c->clearing = false;
    free(w);
    return false;
}

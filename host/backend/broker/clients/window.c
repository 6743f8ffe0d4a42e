/* SPDX-License-Identifier: MIT */
/*
 * Clearing of windows. QEMU also has a descriptor of a VM's window file. fallocate(2) needs the
 * inode lock, which a writer keeps while its source pages fault (userfaultfd, FUSE), and a slice of
 * 1 GiB takes 0.3 s, during which the other slices of the file wait. Each clearing therefore runs in
 * its own thread, and its end is reported from the loop.
 *
 * A new client waits for the clearing of its window. The end of a client does not: its window gives
 * its memory back later, through the client's descriptor. Clearings of the same bytes run in the
 * order of their calls, so that a late one never meets the next client of the slot.
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
    struct clearing *next;      /* of all, the oldest first; the loop's */
    struct clearing *next_done; /* under the lock */
    struct brk_client *client;  /* waits for it, and owns the descriptor; NULL: has ended */
    void (*done)(struct brk_client *c, bool ok);
    int fd;
    uint64_t offset, size;
    bool started, ok;
};

static struct clearing *clearings, **clearings_tail = &clearings;
static uint32_t clearings_without_client;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct clearing *done_list;
static struct brk_source done_event = {.fd = -1}; /* eventfd of this process alone */

static void *clear_slice(void *arg)
{
    struct clearing *w = arg;

    w->ok = !fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)w->offset, (off_t)w->size);
    pthread_mutex_lock(&lock);
    w->next_done = done_list;
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
        done_list = w->next_done;
    pthread_mutex_unlock(&lock);
    return w;
}

/* True if an earlier clearing has some of these bytes, in whichever file: QEMU may have given another one. */
static bool clearing_waits(const struct clearing *w)
{
    for (const struct clearing *e = clearings; e != w; e = e->next) {
        if (w->offset < e->offset + e->size && e->offset < w->offset + w->size)
            return true;
    }
    return false;
}

static bool clearing_start(struct clearing *w)
{
    w->started = brk_thread_start(clear_slice, w);
    return w->started;
}

static void clearing_leave(struct clearing *w)
{
    struct clearing **at = &clearings;

    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (!*at)
        clearings_tail = at;
}

static void clearing_end(struct clearing *w)
{
    clearing_leave(w);
    if (w->client) {
        w->client->clearing = false;
        w->done(w->client, w->ok);
    } else {
        brk_foreign_close(w->fd);
        clearings_without_client--;
    }
    free(w);
}

/* Starts a clearing that waited for those that have ended. False: there is none. */
static bool start_next(void)
{
    struct clearing *w = clearings;

    while (w && (w->started || clearing_waits(w)))
        w = w->next;
    if (w && !clearing_start(w))
        clearing_end(w);
    return w != NULL;
}

static void on_done(struct brk_source *s, uint32_t events)
{
    struct clearing *w;

    (void)events;
    vgb_eventfd_clear(s->fd);
    while ((w = next_done()))
        clearing_end(w);
    while (start_next())
        continue;
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

static bool clearing_begin(const struct clearing *init)
{
    struct clearing *w = brk_window_init() ? malloc(sizeof(*w)) : NULL;

    if (!w)
        return false;
    *w = *init;
    *clearings_tail = w;
    clearings_tail = &w->next;
    if (clearing_waits(w) || clearing_start(w))
        return true;
    clearing_leave(w);
    free(w);
    return false;
}

bool brk_window_clear(struct brk_client *c, void (*done)(struct brk_client *c, bool ok))
{
    const struct clearing w = {
        .client = c, .done = done, .fd = c->window_fd, .offset = c->window_offset, .size = c->window_size};

    c->clearing = clearing_begin(&w);
    return c->clearing;
}

void brk_window_give_back(struct brk_client *c)
{
    const struct clearing w = {.fd = c->window_fd, .offset = c->window_offset, .size = c->window_size};

    /* Each has a thread and a descriptor, for as long as the file does not let it be cleared, and no
     * client counts for it any more. */
    if (clearings_without_client >= brk_opt.max_clients || !clearing_begin(&w))
        return;
    c->window_fd = -1;
    clearings_without_client++;
}

/* SPDX-License-Identifier: MIT */
/*
 * Clearing of windows. QEMU also has a descriptor of a VM's window file. fallocate(2) needs the
 * inode lock, which a writer keeps while its source pages fault (userfaultfd, FUSE), and a slice of
 * 1 GiB takes 0.3 s, during which the other slices of the file wait. Each clearing therefore runs in
 * its own task (base/brk_task.c).
 *
 * A new client waits for the clearing of its window. The end of a client does not: its window gives
 * its memory back later, through the client's descriptor. Clearings of the same bytes run in the
 * order of their calls, so that a late one never meets the next client of the slot.
 */
#define _GNU_SOURCE
#include "clients.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "vgb_fd.h"

struct clearing {
    struct brk_task task;
    struct clearing *next;     /* of all, the oldest first; the loop's */
    struct brk_client *client; /* waits for it, and owns the descriptor; NULL: has ended */
    void (*done)(struct brk_client *c, bool ok);
    int fd;
    uint64_t offset, size;
    bool started, ok;
};

static struct clearing *clearings, **clearings_tail = &clearings;
static uint32_t clearings_without_client;

static void clear_slice(struct brk_task *t)
{
    struct clearing *w = (struct clearing *)t; /* its first member */

    w->ok = !fallocate(w->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)w->offset, (off_t)w->size);
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
    w->started = brk_task_start(&w->task);
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

static void clearing_done(struct brk_task *t)
{
    clearing_end((struct clearing *)t);
    while (start_next())
        continue;
}

bool brk_window_init(void)
{
    return brk_task_init();
}

static bool clearing_begin(const struct clearing *init)
{
    struct clearing *w = brk_window_init() ? malloc(sizeof(*w)) : NULL;

    if (!w)
        return false;
    *w = *init;
    w->task = (struct brk_task){.run = clear_slice, .done = clearing_done};
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

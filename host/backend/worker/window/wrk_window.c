/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "window.h"

#include <string.h>
#include <sys/mman.h>

bool wrk_window_plan(struct wrk_window *win, uint64_t size)
{
    uint64_t at = VGP_PAGE;

    if (size < VGP_WINDOW_MIN || size % VGP_PAGE || size > (UINT64_C(1) << 40))
        return false;
    win->size = size;
    win->ring_offset = (uint32_t)at;
    win->ring_size = VGP_RING_SIZE;
    at += VGP_RING_SIZE;
    win->reply_offset = (uint32_t)at;
    at += (uint64_t)VGP_REPLY_SLOTS * VGP_REPLY_SLOT_SIZE;
    win->notify_offset = (uint32_t)at;
    win->notify_size = VGP_NOTIFY_SIZE;
    at += VGP_NOTIFY_SIZE;
    win->staging_offset = at;
    win->staging_size = size - at;
    return true;
}

void wrk_window_publish(struct wrk_window *win, unsigned minor)
{
    struct vgp_window_shared *s = win->shared;

    s->version_major = VGP_VERSION_MAJOR;
    s->version_minor = (uint16_t)minor;
    s->features = 0;
    s->window_size = win->size;
    s->ring_offset = win->ring_offset;
    s->ring_size = win->ring_size;
    s->reply_offset = win->reply_offset;
    s->reply_slot_size = VGP_REPLY_SLOT_SIZE;
    s->reply_slots = VGP_REPLY_SLOTS;
    s->notify_offset = win->notify_offset;
    s->notify_size = win->notify_size;
    s->staging_offset = win->staging_offset;
    s->staging_size = win->staging_size;
    s->staging_piece = win->staging_piece;
    __atomic_store_n(&s->worker_state, VGP_WORKER_RUNNING, __ATOMIC_RELAXED);
    __atomic_store_n(&s->magic, VGP_MAGIC, __ATOMIC_RELEASE);
}

void *wrk_window_alias_take(struct wrk_window *win)
{
    for (uint32_t i = 0; win->aliases && i < WRK_WINDOW_ALIASES; i++) {
        if (win->aliases_taken & 1u << i)
            continue;
        win->aliases_taken |= 1u << i;
        return win->aliases + (size_t)i * VGP_PAGE;
    }
    return NULL;
}

void wrk_window_alias_give(struct wrk_window *win, void *alias)
{
    win->aliases_taken &= ~(1u << ((size_t)((uint8_t *)alias - win->aliases) / VGP_PAGE));
}

void wrk_window_map_aliases(struct wrk_window *win, uint8_t *p, int fd, uint64_t offset)
{
    const size_t size = WRK_WINDOW_ALIASES * (size_t)VGP_PAGE;

    if (!p)
        return;
    for (size_t at = 0; at < size; at += VGP_PAGE) {
        if (mmap(p + at, VGP_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
            MAP_FAILED) {
            munmap(p, size);
            return;
        }
    }
    win->aliases = p;
}

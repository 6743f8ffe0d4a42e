/* SPDX-License-Identifier: MIT */
#include "window.h"

#include <stdlib.h>
#include <string.h>

bool wrk_ring_init(struct wrk_ring *r)
{
    memset(r, 0, sizeof(*r));
    r->args = malloc(VGP_RECORD_MAX);
    return r->args != NULL;
}

void wrk_ring_fini(struct wrk_ring *r)
{
    free(r->args);
    r->args = NULL;
}

bool wrk_ring_pending(const struct wrk_ring *r, const struct wrk_window *win)
{
    return __atomic_load_n(&win->shared->ring_tail, __ATOMIC_ACQUIRE) != r->head;
}

static enum wrk_ring_state ring_malformed(struct wrk_ring *r, const char *what)
{
    r->error = what;
    return WRK_RING_MALFORMED;
}

/* Checks of the header alone; `avail` = bytes published, `room` = bytes to the ring's end. */
static const char *check_header(const struct vgp_record *rec, uint64_t avail, uint64_t room)
{
    if (rec->size < sizeof(*rec) || rec->size % 16)
        return "record size is not a multiple of 16 of at least the header";
    if (rec->size > avail)
        return "record is longer than what was published";
    if (rec->size > room)
        return "record crosses the end of the ring";
    if (rec->call == VGP_CALL_PAD)
        return rec->size == room ? NULL : "padding record does not end at the end of the ring";
    if (rec->size > VGP_RECORD_MAX)
        return "record is longer than VGP_RECORD_MAX";
    if (rec->flags)
        return "record flags are not zero";
    if (rec->padding)
        return "record padding is not zero";
    if (rec->reply_slot != VGP_NO_REPLY && rec->reply_slot >= VGP_REPLY_SLOTS)
        return "reply slot does not exist";
    return NULL;
}

/*
 * A pad smaller than a record header: the space before the end of the ring may be only 16 bytes,
 * so its header may be cut short there; size and call are always inside.
 */
static enum wrk_ring_state skip_short_pad(struct wrk_ring *r, const struct wrk_window *win, const uint8_t *at,
                                          uint64_t room)
{
    struct {
        uint32_t size;
        uint16_t call, flags;
    } pad;

    memcpy(&pad, at, sizeof(pad));
    if (pad.call != VGP_CALL_PAD || pad.size != room)
        return ring_malformed(r, "record header crosses the end of the ring");
    r->head += room;
    __atomic_store_n(&win->shared->ring_head, r->head, __ATOMIC_RELEASE);
    return WRK_RING_RECORD;
}

enum wrk_ring_state wrk_ring_next(struct wrk_ring *r, const struct wrk_window *win)
{
    for (;;) {
        uint64_t tail = __atomic_load_n(&win->shared->ring_tail, __ATOMIC_ACQUIRE);
        uint64_t avail = tail - r->head;

        if (!avail)
            return WRK_RING_EMPTY;
        if (avail > win->ring_size || avail % 16)
            return ring_malformed(r, "ring tail is out of range");
        uint64_t pos = r->head & (win->ring_size - 1);
        uint64_t room = win->ring_size - pos;
        const uint8_t *at = win->base + win->ring_offset + pos;
        if (room < sizeof(r->rec)) {
            if (skip_short_pad(r, win, at, room) == WRK_RING_MALFORMED)
                return WRK_RING_MALFORMED;
            continue;
        }
        if (avail < sizeof(r->rec))
            return ring_malformed(r, "less than a record header was published");
        /* The only read of the header; the guest may be changing it. */
        memcpy(&r->rec, at, sizeof(r->rec));
        __asm__ volatile("" ::: "memory");
        const char *bad = check_header(&r->rec, avail, room);
        if (bad)
            return ring_malformed(r, bad);
        bool pad = r->rec.call == VGP_CALL_PAD;
        if (!pad) {
            r->args_size = r->rec.size - (uint32_t)sizeof(r->rec);
            memcpy(r->args, at + sizeof(r->rec), r->args_size);
        }
        r->head += r->rec.size;
        /* All data was copied: the guest may overwrite it. */
        __atomic_store_n(&win->shared->ring_head, r->head, __ATOMIC_RELEASE);
        if (!pad)
            return WRK_RING_RECORD;
    }
}

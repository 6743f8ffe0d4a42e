/* SPDX-License-Identifier: MIT */
/* The window shared with the guest: its layout, and reading of records. */
#ifndef WRK_WINDOW_H
#define WRK_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"
#include "vgp_ring.h"
#include "vgp_worker_rt.h"

/* ---- wrk_window.c: the layout, known privately, and the shared header ---- */

struct wrk_window {
    uint8_t *base; /* mapping of the slice; the guest may change its bytes at any time */
    VGB_OWNED struct vgp_window_shared *shared;
    uint64_t size;
    uint32_t ring_offset, ring_size;
    uint32_t reply_offset;
    uint32_t notify_offset, notify_size;
    uint64_t staging_offset, staging_size;
    /* the provider's preferred piece size: see VGP_PIECE_DEFAULT; 0: unspecified */
    uint32_t staging_piece;
    /* WRK_WINDOW_ALIASES adjacent further mappings of the first page; NULL: none */
    uint8_t *aliases;
    uint32_t aliases_taken; /* bitmap of aliases in use */
};

/*
 * The window's descriptor also gives access to other clients' windows, so it is closed once the
 * window is mapped. Further mappings of the first page, one for each context that waits by it, are
 * therefore made in advance.
 */
#define WRK_WINDOW_ALIASES 16u

/* Plans the layout of a window of `size` bytes; false if it is too small or not a power-of-two
 * multiple of the page size. Touches no memory. */
bool wrk_window_plan(struct wrk_window *win, uint64_t size);
/* Writes the header into an all-zero window, magic last. */
void wrk_window_publish(struct wrk_window *win, unsigned minor);

/* Creates the aliases at p (reserved address space; NULL: none) from the window's file, where this
 * window starts at `offset`. Without aliases streams wait by threads. */
void wrk_window_map_aliases(struct wrk_window *win, uint8_t *p, int fd, uint64_t offset);
/* Takes an unused alias; NULL: none left. The caller serialises calls. */
void *wrk_window_alias_take(struct wrk_window *win);
void wrk_window_alias_give(struct wrk_window *win, void *alias);

/* ---- wrk_ring.c: records out of shared memory, once, into private memory ---- */

struct wrk_ring {
    uint64_t head;         /* private position consumed so far; shared memory only gets a copy */
    struct vgp_record rec; /* private copy of the current record's header */
    uint8_t *args;         /* private copy of the arguments, VGP_RECORD_MAX bytes */
    uint32_t args_size;
    const char *error; /* description of a malformed record */
};

enum wrk_ring_state { WRK_RING_EMPTY, WRK_RING_RECORD, WRK_RING_MALFORMED };

bool wrk_ring_init(struct wrk_ring *r);
void wrk_ring_fini(struct wrk_ring *r);
/* Takes the next record: copies, validates the copy, publishes the new head. Pads are skipped. */
enum wrk_ring_state wrk_ring_next(struct wrk_ring *r, const struct wrk_window *win);
/* True if the shared tail differs from the consumed position. */
bool wrk_ring_pending(const struct wrk_ring *r, const struct wrk_window *win);

#endif

/* SPDX-License-Identifier: MIT */
/* The memory that is shared with the guest: its layout, and records taken out of it. */
#ifndef WRK_WINDOW_H
#define WRK_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "vgb_holds.h"
#include "vgp_ring.h"

/* ---- window.c: the layout, known privately, and the shared header ---- */

struct wrk_window {
    uint8_t *base; /* mapping of the slice; bytes inside change under us */
    VGB_OWNED struct vgp_window_shared *shared;
    uint64_t size;
    uint32_t ring_offset, ring_size;
    uint32_t reply_offset;
    uint32_t notify_offset, notify_size;
    uint64_t staging_offset, staging_size;
    uint32_t staging_piece; /* what suits the provider: see VGP_PIECE_DEFAULT; 0: not said */
    uint8_t
        *aliases; /* WRK_WINDOW_ALIASES more mappings of the first page, one behind the other; NULL: none */
    uint32_t aliases_taken; /* a bit each */
};

/* The descriptor of the window shows what other clients have, too: it is closed once the window is mapped. So mappings
 * of the first page that are needed later, one for each context that waits by it, are made before. */
#define WRK_WINDOW_ALIASES 16u

/* Plans the layout of a window of `size` bytes; false when it is too small or not a power of two
 * multiple of pages. Touches no memory. */
bool wrk_window_plan(struct wrk_window *win, uint64_t size);
/* Writes the header into an all-zero window, magic last. */
void wrk_window_publish(struct wrk_window *win, unsigned minor);

/* Makes them at p (address space that is reserved; NULL: none), of the file of the window, where it has this one at `offset`. Without them streams wait by threads. */
void wrk_window_map_aliases(struct wrk_window *win, uint8_t *p, int fd, uint64_t offset);
/* A further mapping of the first page that nobody uses, NULL: there is none. The caller sees to one at a time. */
void *wrk_window_alias_take(struct wrk_window *win);
void wrk_window_alias_give(struct wrk_window *win, void *alias);

/* ---- ring.c: records out of shared memory, once, into private memory ---- */

struct wrk_ring {
    uint64_t head;         /* private: what was consumed; shared memory only gets a copy */
    struct vgp_record rec; /* private copy of the current record's header */
    uint8_t *args;         /* private copy of what follows it, VGP_RECORD_MAX bytes */
    uint32_t args_size;
    const char *error; /* what was malformed */
};

enum wrk_ring_state { WRK_RING_EMPTY, WRK_RING_RECORD, WRK_RING_MALFORMED };

bool wrk_ring_init(struct wrk_ring *r);
void wrk_ring_fini(struct wrk_ring *r);
/* Takes the next record: copies, validates the copy, publishes the new head. Pads are skipped. */
enum wrk_ring_state wrk_ring_next(struct wrk_ring *r, const struct wrk_window *win);
/* True when the shared tail differs from what was consumed. */
bool wrk_ring_pending(const struct wrk_ring *r, const struct wrk_window *win);

#endif

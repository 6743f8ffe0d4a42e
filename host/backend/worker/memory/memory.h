/* SPDX-License-Identifier: MIT */
/*
 * Memory of the guest in this process, and what is on its way: regions, images sent ahead, results of
 * copies. All of it belongs to the dispatcher.
 */
#ifndef WRK_MEMORY_H
#define WRK_MEMORY_H

#include "core/core.h"
#include "lib/btree/btree.h"
#include "vgb_plan.h"

/* ---- region.c: memory of the guest that is mapped here ---- */

#define WRK_REGIONS_MAX 4096
struct wrk_region {
    uint32_t id;
    uint32_t flags; /* VGB_MAP_READONLY, VGB_MAP_BY_MAPPER */
    unsigned at;    /* index in the list of all */
    uint64_t guest_va, length;
    uint64_t va_key;               /* in the tree of guest addresses; 0: not in it */
    uint8_t *base;                 /* where it is mapped here */
    uint8_t *place;                /* whole pages of the file around it, ... */
    uint64_t place_length;         /* ... in bytes */
    struct vgb_plan plan;          /* the calls that map it */
    VGB_OWNED struct vgb_job *job; /* for the mapper; until the broker has said that it is done */
    uint64_t mapped;               /* bytes mapped so far; == length when complete */
    uint32_t pieces;               /* mappings of the kernel's that this takes */
    bool seen;                     /* the provider may have an address of it */
    bool busy;                     /* being registered or unregistered on a waiter */
    bool unmapping;                /* the broker wants it back */
    uint8_t *registered_at;        /* with the provider, from here; NULL: it is not */
    CUcontext ctx;                 /* in which context; NULL: that is ending or has ended */
    /* What ends that context; till it has landed, the provider may have the registration, and work use it. */
    VGB_LENT const struct wrk_wait *ending;
};
struct wrk_regions {
    VGB_OWNED struct wrk_region **list;
    unsigned n, room;
    struct btr_tree by_id;
    struct btr_tree by_va;       /* complete ones that nobody takes back; weight: the end */
    struct btr_tree by_base;     /* complete ones; they do not overlap */
    uint32_t pieces, pieces_max; /* of all regions; none fits before wrk_regions_init() */
};
/* How many mappings the kernel lets a process have; while /proc can be read. */
void wrk_regions_init(struct wrk_worker *w);
/* Executes MAP; takes the descriptors over. *answer is filled unless more runs follow (returns
 * false then). */
bool wrk_region_map(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                    struct vgb_msg *answer);
/* Executes PLACED: the mapper has done what it could. *answer is filled; false: there is no such region. */
bool wrk_region_placed(struct wrk_worker *w, uint32_t id, struct vgb_msg *answer);
/* Takes the memory away and tells the broker, at once or when the provider has let go of it. */
void wrk_region_unmap(struct wrk_worker *w, uint32_t id);
/* Executes TAKEN: the broker has seen that nothing is mapped there. */
void wrk_region_taken(struct wrk_worker *w, uint32_t id);
/* The context ends, in `end`: the registrations that were made in it count no more. Until it has ended, its work may
 * still use the memory. */
void wrk_regions_context_ends(struct wrk_worker *w, CUcontext ctx, const struct wrk_wait *end);
/* `end` has landed. */
void wrk_regions_context_gone(struct wrk_worker *w, const struct wrk_wait *end);
struct wrk_region *wrk_region_by_id(struct wrk_worker *w, uint32_t id);
/* The host address of guest range [va, va + size), or NULL when no complete region holds all of it
 * (or it is read-only and `write`). Handlers ask wrk_host_pointer(). */
void *wrk_region_address(struct wrk_worker *w, uint64_t va, uint64_t size, bool write);

/* The guest's address of host memory at [p, p + size), 0 when it is in no complete region. */
uint64_t wrk_region_guest_address(struct wrk_worker *w, const void *p, uint64_t size);

/* ---- region_index.c: complete regions by address; wrk_region_address() and wrk_region_guest_address(), too ---- */

/* The region is complete: copies may use it. False: no memory. */
bool wrk_region_index_add(struct wrk_regions *rs, struct wrk_region *r);
/* The broker takes the region back: the guest's address leads to it no longer. */
void wrk_region_index_hide(struct wrk_regions *rs, struct wrk_region *r);
void wrk_region_index_remove(struct wrk_regions *rs, struct wrk_region *r);

/* ---- host_pointer.c ---- */

/* Host memory as the guest names it (VGP_COPY_STAGING, VGP_COPY_HOST), for the provider; NULL: it is not all the
 * guest's, or is read-only and `write`. */
void *wrk_host_pointer(struct wrk_worker *w, uint32_t kind, uint64_t address, uint64_t bytes, bool write);

/* ---- place.c: where memory of the guest is mapped ---- */

#define WRK_PLACES_MAX 16384u /* separate ranges that are kept reserved */

/* Reserves `length` bytes, inaccessible: at `va` when that is possible and `va` lies `phase` bytes behind
 * a multiple of `align`, else at another such address. NULL: no address space. */
uint8_t *wrk_place_take(uint64_t va, uint64_t length, uint64_t align, uint64_t phase);
/* Takes the memory there away. `seen`: the provider may have an address of it, so the range stays
 * reserved for memory of the guest. `va`: what the guest calls it. False: the kernel refused. */
bool wrk_place_leave(uint8_t *base, uint64_t length, uint64_t va, bool seen);
/* Separate ranges that stay reserved: a mapping each. */
unsigned wrk_places(void);

/* ---- layout.c ---- */

/* Notes what this process has mapped; with the provider loaded, before the first region. False: that
 * cannot be found out. */
bool wrk_layout_init(void);
/* May memory of the guest be at its own address? */
bool wrk_layout_may_keep(uint64_t va, uint64_t length);
/* Inaccessible address space just there, if it is free; else NULL. */
uint8_t *wrk_layout_reserve_at(uint64_t va, uint64_t length);
/* Address space for `length` bytes of the guest, inaccessible: at `va` where that may be, else at a
 * random place. NULL: there is none. The caller unmaps it. */
uint8_t *wrk_layout_reserve(uint64_t va, uint64_t length);
/* The same for memory of this process's own of which a provider or the client has the address: at a random
 * place of areas that memory of the guest is never in. */
uint8_t *wrk_layout_private(uint64_t length);

/* ---- blob.c ---- */

#define WRK_BLOBS_MAX 16                                       /* unfinished blobs of one client */
#define WRK_BLOB_TOTAL ((uint64_t)VGP_BLOB_MAX + (256u << 20)) /* bytes of all of them */
#define WRK_BLOB_IDLE_NS UINT64_C(60000000000) /* without a piece, then another client may want the room */
struct wrk_blob {
    uint32_t id;
    bool used;
    uint64_t total, filled;
    uint64_t moved_ns; /* when its last piece came */
    uint8_t *data;
    bool mapped;      /* a file of the broker's, else from malloc() */
    bool given;       /* ... the image itself, read-only: nobody counts it */
    bool given_up;    /* it has no bytes any more: the call that names it gets an error */
    uint64_t filling; /* the broker's number of that file, of which it wants to hear; 0: none */
};
struct wrk_blobs {
    struct wrk_blob list[WRK_BLOBS_MAX];
    uint64_t bytes, reserved;          /* reserved: what the broker has granted */
    VGB_LISTED struct wrk_blob *taken; /* freed after the current call */
    uint32_t refused;                  /* id + 1 of a blob that found no memory: its call gets that error */
};
CUresult wrk_blob_append(struct wrk_worker *w, uint32_t id, uint64_t total, const void *data, uint32_t size);
void wrk_blob_drop(struct wrk_worker *w, uint32_t id);
/* If another client was refused room: gives up what no piece came for in WRK_BLOB_IDLE_NS, and no call has named. */
void wrk_blobs_make_room(struct wrk_worker *w, uint64_t now_ns);
void wrk_blob_call_done(struct wrk_worker *w);
/* The blob of this call stays after it, and counts until it is released; !kept->used: the call has none. */
void wrk_blob_keep(struct wrk_worker *w, struct wrk_blob *kept);
void wrk_blob_release(struct wrk_worker *w, const struct wrk_blob *kept);
/* Begins a blob in memory of the broker's, which it will then keep as an image: `fd` is closed. False: there is no room. */
bool wrk_blob_fill(struct wrk_worker *w, uint32_t id, uint64_t total, int fd, uint64_t number);
/* A complete one, that is mapped at `data`. False: there is no room, or there is such a blob. */
bool wrk_blob_given(struct wrk_worker *w, uint32_t id, uint64_t total, uint8_t *data);
bool wrk_blob_known(struct wrk_worker *w, uint32_t id);

/* ---- bounce.c ---- */

/* Results of copies on their way into replies; page-locked with the provider, as staging is. */
#define WRK_BOUNCE_SLOT 4096u
struct wrk_bounce {
    uint8_t *base;        /* VGP_REPLY_SLOTS slots */
    bool is_private;      /* base and staging are known to the provider as this process's own */
    CUcontext registered; /* else: context in which they were registered */
};
/* Tells a provider that can keep a secret of base and staging; before the first call of the guest. */
void wrk_bounce_init(struct wrk_worker *w);
/* Registers them with one that cannot, for true DMA, once per context that needs it. */
void wrk_bounce_register(struct wrk_worker *w);
/* WRK_BOUNCE_SLOT bytes for the result of the call with this reply slot. */
void *wrk_bounce_result(struct wrk_worker *w, uint32_t slot);

/* What this floor keeps for a worker. */
struct wrk_memory {
    struct wrk_bounce bounce;
    struct wrk_regions regions;
    struct wrk_blobs blobs;
};

/* ---- span.c ---- */

/* Bytes from the first to the last one that a copy of size width x height x depth touches, with
 * `pitch` bytes from row to row and `height` rows from plane to plane. False: the numbers make no
 * sense, or overflow. */
bool wrk_copy_span(const uint64_t size[3], uint64_t pitch, uint64_t height, uint64_t *bytes);

#endif

/* SPDX-License-Identifier: MIT */
/* Guest memory in this process: mapped regions, images sent ahead, results of copies in transit.
 * Dispatcher only. */
#ifndef WRK_MEMORY_H
#define WRK_MEMORY_H

#include "core/core.h"
#include "lib/btree/btree.h"
#include "vgb_plan.h"

/* ---- wrk_region.c: memory of the guest that is mapped here ---- */

#define WRK_REGIONS_MAX 4096
struct wrk_region {
    uint32_t id;
    uint32_t flags; /* VGB_MAP_READONLY, VGB_MAP_BY_MAPPER */
    unsigned at;    /* index in wrk_regions.list */
    uint64_t guest_va, length;
    uint64_t va_key;       /* key in the tree of guest addresses; 0: not in it */
    uint8_t *base;         /* address in this process */
    uint8_t *place;        /* reserved range: whole file pages around the region, ... */
    uint64_t place_length; /* ... in bytes */
    struct vgb_plan plan;  /* the calls that map it */
    /* job of the mapper, until the broker reports its completion */
    VGB_OWNED struct vgb_job *job;
    uint64_t mapped; /* bytes mapped so far; == length when complete */
    uint32_t pieces; /* number of kernel mappings used */
    bool seen;       /* the provider may hold an address in it */
    bool busy;       /* being registered or unregistered on a waiter */
    bool unmapping;  /* unmapping was requested by the broker */
    /* start of the range registered with the provider; NULL: not registered */
    uint8_t *registered_at;
    CUcontext ctx; /* context of the registration; NULL: ending or ended */
    /* Wait that ends that context; until it lands, the provider may keep the registration and work
     * may use the memory. */
    VGB_LENT const struct wrk_wait *ending;
    /* Was registered in a context that has ended; work of other contexts may use the memory until it has been waited
     * for. */
    bool used;
};
struct wrk_regions {
    VGB_OWNED struct wrk_region **list;
    unsigned n, room;
    struct btr_tree by_id;
    struct btr_tree by_va;   /* complete regions not being unmapped; weight: the end address */
    struct btr_tree by_base; /* complete regions, which do not overlap */
    /* kernel mappings of all regions, and their limit; 0 before wrk_regions_init() */
    uint32_t pieces, pieces_max;
};
/* Reads the kernel's limit of mappings per process; to be called while /proc is readable. */
void wrk_regions_init(struct wrk_worker *w);
/* Executes MAP; takes the descriptors over. True: *answer is filled; false: more runs follow. */
bool wrk_region_map(struct wrk_worker *w, const struct vgb_msg *m, const int *fds, unsigned nfds,
                    struct vgb_msg *answer);
/* Executes PLACED: the mapper has finished or failed. *answer is filled; false: no such region. */
bool wrk_region_placed(struct wrk_worker *w, uint32_t id, struct vgb_msg *answer);
/* Unmaps the region and tells the broker, at once or after the provider has unregistered it. */
void wrk_region_unmap(struct wrk_worker *w, uint32_t id);
/* Executes TAKEN: the broker has verified that nothing is mapped there. */
void wrk_region_taken(struct wrk_worker *w, uint32_t id);
/* The context is ended by `end`: its registrations are no longer valid, but its work may use the
 * memory until it has ended. */
void wrk_regions_context_ends(struct wrk_worker *w, CUcontext ctx, const struct wrk_wait *end);
/* To be called when `end` has landed. */
void wrk_regions_context_gone(struct wrk_worker *w, const struct wrk_wait *end);
/* True if memory is registered in the context that `end` ends. */
bool wrk_regions_context_has(struct wrk_worker *w, const struct wrk_wait *end);
struct wrk_region *wrk_region_by_id(struct wrk_worker *w, uint32_t id);
/* Host address of guest range [va, va + size); NULL if no complete region contains it, or if it is
 * read-only and `write`. Handlers use wrk_host_pointer() instead. */
void *wrk_region_address(struct wrk_worker *w, uint64_t va, uint64_t size, bool write);

/* Guest address of host range [p, p + size); 0 if no complete region contains it. */
uint64_t wrk_region_guest_address(struct wrk_worker *w, const void *p, uint64_t size);

/* ---- wrk_region_index.c: complete regions by address (wrk_region_address() too) ---- */

/* Makes a complete region available to copies. False: no memory. */
bool wrk_region_index_add(struct wrk_regions *rs, struct wrk_region *r);
/* Removes a region being unmapped from the tree of guest addresses. */
void wrk_region_index_hide(struct wrk_regions *rs, struct wrk_region *r);
void wrk_region_index_remove(struct wrk_regions *rs, struct wrk_region *r);

/* ---- wrk_host_pointer.c ---- */

/* Converts host memory as named by the guest (VGP_COPY_STAGING, VGP_COPY_HOST) to a pointer for the
 * provider. NULL: not entirely the guest's, or read-only and `write`. */
void *wrk_host_pointer(struct wrk_worker *w, uint32_t kind, uint64_t address, uint64_t bytes, bool write);

/* ---- wrk_places.c: where memory of the guest is mapped ---- */

#define WRK_PLACES_MAX 16384u /* maximum number of separate ranges kept reserved */

/*
 * Reserves `length` bytes of inaccessible address space, at an address `phase` bytes past a
 * multiple of `align`: `va` if it qualifies and is available, else any other. NULL: no address
 * space.
 */
uint8_t *wrk_place_take(uint64_t va, uint64_t length, uint64_t align, uint64_t phase);
/* Unmaps memory. `seen`: the provider may hold an address in it, so the range stays reserved for
 * guest memory. `va`: guest address. False: the kernel refused. */
bool wrk_place_leave(uint8_t *base, uint64_t length, uint64_t va, bool seen);
/* Number of separate reserved ranges, a kernel mapping each. */
unsigned wrk_places(void);

/* ---- wrk_layout.c ---- */

/* Records the mappings of this process, after the provider is loaded and before the first region.
 * False: they cannot be determined. */
bool wrk_layout_init(void);
/* True if guest memory may be mapped at its own address. */
bool wrk_layout_may_keep(uint64_t va, uint64_t length);
/* Reserves inaccessible address space at exactly this address; NULL if not free. */
uint8_t *wrk_layout_reserve_at(uint64_t va, uint64_t length);
/* Reserves inaccessible address space for `length` bytes of guest memory: at `va` where allowed,
 * else at a random address. NULL: none available. The caller unmaps it. */
uint8_t *wrk_layout_reserve(uint64_t va, uint64_t length);
/* The same for this process's own memory whose address the provider or the client learns: at a
 * random address in areas never used for guest memory. */
uint8_t *wrk_layout_private(uint64_t length);

/* ---- wrk_blob.c ---- */

#define WRK_BLOBS_MAX 16     /* unfinished blobs of one client */
#define WRK_BLOBS_REFUSED 64 /* refused blobs that are remembered: threads of a client send at a time */
/* total bytes of unfinished blobs */
#define WRK_BLOB_TOTAL ((uint64_t)VGP_BLOB_MAX + (256u << 20))
/* time without a new piece after which another client may claim the room, ns */
#define WRK_BLOB_IDLE_NS UINT64_C(60000000000)
struct wrk_blob {
    uint32_t id;
    bool used;
    uint64_t total, filled;
    uint64_t moved_ns; /* arrival of its last piece */
    uint8_t *data;
    bool mapped;   /* maps a file of the broker; else from malloc() */
    bool given;    /* ... the finished image, read-only, not charged */
    bool given_up; /* its bytes were dropped: the call that uses it fails */
    /* the broker's number of that file, to be reported when filled; 0: none */
    uint64_t filling;
};
struct wrk_blobs {
    struct wrk_blob list[WRK_BLOBS_MAX];
    uint64_t bytes, reserved;          /* reserved: bytes granted by the broker */
    VGB_LISTED struct wrk_blob *taken; /* blob in use by the current call, freed after it */
    /* id + 1 of each blob that found no room and whose call, which fails, is yet to come; 0: free */
    uint64_t refused[WRK_BLOBS_REFUSED];
    bool refused_more; /* there was no entry for one: any unknown blob may be it */
};
CUresult wrk_blob_append(struct wrk_worker *w, uint32_t id, uint64_t total, const void *data, uint32_t size);
void wrk_blob_drop(struct wrk_worker *w, uint32_t id);
/* If another client was refused room: drops blobs without a new piece for WRK_BLOB_IDLE_NS and not
 * used by a call. */
void wrk_blobs_make_room(struct wrk_worker *w, uint64_t now_ns);
void wrk_blob_call_done(struct wrk_worker *w);
/* Keeps the blob of this call beyond its end; charged until released. !kept->used: the call has
 * none. */
void wrk_blob_keep(struct wrk_worker *w, struct wrk_blob *kept);
void wrk_blob_release(struct wrk_worker *w, const struct wrk_blob *kept);
/* Begins a blob in the broker's memory, to be kept as an image; closes `fd`. False: no room. */
bool wrk_blob_fill(struct wrk_worker *w, uint32_t id, uint64_t total, int fd, uint64_t number);
/* Adds a complete blob, mapped at `data`. False: no room, or the id exists. */
bool wrk_blob_given(struct wrk_worker *w, uint32_t id, uint64_t total, uint8_t *data);
bool wrk_blob_known(struct wrk_worker *w, uint32_t id);

/* ---- wrk_bounce.c ---- */

/* Results of copies on their way into replies; page-locked with the provider like staging. */
#define WRK_BOUNCE_SLOT 4096u
struct wrk_bounce {
    uint8_t *base;        /* VGP_REPLY_SLOTS slots of WRK_BOUNCE_SLOT bytes */
    bool is_private;      /* base and staging are hidden from the guest by the provider */
    CUcontext registered; /* otherwise: context in which they are registered */
};
/* Has the provider hide base and staging from the guest if it can; to be called before the guest's
 * first call. */
void wrk_bounce_init(struct wrk_worker *w);
/* Registers them with other providers, for true DMA, once per context that needs it. */
void wrk_bounce_register(struct wrk_worker *w);
/* WRK_BOUNCE_SLOT bytes for the result of the call with this reply slot. */
void *wrk_bounce_result(struct wrk_worker *w, uint32_t slot);

/* State of memory/ for a worker. */
struct wrk_memory {
    struct wrk_bounce bounce;
    struct wrk_regions regions;
    struct wrk_blobs blobs;
};

/* ---- wrk_span.c ---- */

/*
 * Span in bytes from the first to the last byte touched by a copy of width x height x depth, with
 * `pitch` bytes between rows and `height` rows between planes. False: inconsistent numbers or
 * overflow.
 */
bool wrk_copy_span(const uint64_t size[3], uint64_t pitch, uint64_t height, uint64_t *bytes);

#endif

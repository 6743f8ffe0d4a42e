/* SPDX-License-Identifier: MIT */
/*
 * Device memory: allocations and their addresses, access rights, sharing with other processes;
 * arrays.
 */
#ifndef SG_MEMORY_H
#define SG_MEMORY_H

#include "base/base.h"
#include "memory/access.h"
#include "memory/array.h"
#include "memory/share.h"

struct sg_graph_memory;

/* ---- device memory (memory/sg_memory.c) ---- */

enum sg_mem_kind {
    SG_MEM_DEVICE = 1,
    SG_MEM_MANAGED,
    SG_MEM_HOST,       /* cuMemHostAlloc */
    SG_MEM_REGISTERED, /* cuMemHostRegister */
    SG_MEM_MAPPED,     /* cuMemMap */
    SG_MEM_PRIVATE,    /* sg_host_register_private(); never appears in a struct sg_mem_info */
};

/* A live allocation, as copied out of the table. */
struct sg_mem_info {
    uint64_t base, size; /* size in bytes, as requested */
    uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process */
    enum sg_mem_kind kind;
    const void *ctx;  /* owning context; may be stale: compare only, hence an untyped pointer */
    uint64_t context; /* the owner's handle, for sg_lookup() */
    uint32_t owner;   /* context id of the owner */
    int device;       /* ordinal of the device */
    uint32_t flags;   /* cuMemHostAlloc / cuMemHostRegister flags */
    bool writable;
    bool async;       /* allocated from a memory pool */
    bool internal;    /* variable of a module: the caller must not free it */
    bool freeing;     /* cuMemFreeAsync was called */
    bool sync_memops; /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    uint64_t pool;    /* handle of the pool */
    bool imported;    /* memory of another process: not charged to this quota */
    /* set if the pages are shared with other processes; NULL: private pages */
    struct sg_share *share;
    /* allocation node of a graph; valid under sg_graph_lock, else NULL */
    struct sg_graph_memory *graph;
    /* graph memory that no launch has allocated, or that was freed again */
    bool dormant;
    uint32_t access; /* SG_ACCESS_* while not dormant */
};

/* Access rights, two bits per device. */
#define SG_ACCESS_ALL UINT32_MAX
#define SG_ACCESS_READ 0x55555555u
#define SG_ACCESS_WRITE 0xAAAAAAAAu
#define SG_ACCESS_OF(device) (3u << 2 * (device)) /* both bits of one device */

#define SG_ALIGN 512ull /* cuMemAlloc: at least 256; drivers give 512 */

/*
 * The part of a context that this floor knows: struct sg_ctx (runtime/runtime.h) begins with these
 * fields.
 */
#define SG_MAX_PEERS 64
#define SG_SPACE_FIELDS \
    struct sg_obj obj; \
    uint32_t id;       /* starts at 1, never reused */ \
    uint32_t released; /* latest incarnation (id) whose memory was released; under sg_mem_lock */ \
    int device;        /* ordinal of the device */ \
    _Atomic uint32_t peers[SG_MAX_PEERS] /* contexts whose memory its kernels access (ids) */
struct sg_space {
    SG_SPACE_FIELDS;
};
static inline struct sg_space *sg_space(const struct sg_ctx *ctx)
{
    return (struct sg_space *)(uintptr_t)ctx;
}

CUresult sg_mem_init(void);
/* Allocates device or managed memory; 2 if over the quota. align is a power of two. */
CUresult sg_mem_alloc(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size, uint64_t align,
                      uint64_t *out);
/* As above for a pool, given by its handle, with the pool's current access rights. */
CUresult sg_mem_alloc_pool(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access, uint64_t *out);
/* As above for a module's variable, which cuMemFree refuses to free. incarnation: the module's, of ctx. */
CUresult sg_mem_alloc_internal(struct sg_ctx *ctx, uint32_t incarnation, enum sg_mem_kind kind, uint64_t size,
                               uint64_t align, uint64_t *out);
/*
 * As sg_mem_alloc(), backed by the pages of a descriptor that stays the caller's. share is passed
 * to its end() when the memory is released. imported: not charged to the quota. pool 0: no
 * pool.
 */
CUresult sg_mem_alloc_shared(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access,
                             struct sg_share *share, bool imported, int fd, uint64_t *out);
/*
 * Moves a cuMemAlloc allocation onto the pages of fd. move() does the work and tolerates concurrent
 * access to the memory. 1: the allocation is gone, already shared, or not from cuMemAlloc; 2: out
 * of memory.
 */
CUresult sg_mem_share(const struct sg_mem_info *info, struct sg_share *share, int fd,
                      bool (*move)(uint64_t base, uint64_t len, int fd));
/* Reserves addresses for a graph's allocation node: dormant, and not charged to the quota. */
CUresult sg_mem_alloc_graph(struct sg_ctx *ctx, struct sg_graph_memory *graph, uint64_t size, uint64_t *out);
/* Wakes the graph memory that starts at base, or makes it dormant, which discards its content. */
void sg_mem_set_dormant(uint64_t base, bool dormant);
/* Enters host memory into the table; 712 if it overlaps memory that is already there. */
CUresult sg_mem_add_host(struct sg_ctx *ctx, enum sg_mem_kind kind, void *p, uint64_t size, uint32_t flags,
                         bool writable);
/*
 * Registers the loading program's own memory until the process ends: page-locked for copies that
 * name it as host memory (sg_mem_is_private()). It is invisible to everything else: kernels fault,
 * and no lookup below finds it.
 */
CUresult sg_host_register_private(void *p, size_t size);
bool sg_mem_is_private(uint64_t addr, uint64_t size);
/* True if every byte of [addr, addr+size) is mapped in this process, according to the kernel. */
bool sg_host_mapped(uint64_t addr, uint64_t size);
/* Enters memory mapped by cuMemMap once cuMemSetAccess has granted some device access. */
CUresult sg_mem_add_mapped(struct sg_ctx *ctx, uint64_t base, uint64_t size, uint32_t access);
/* Changes the access rights of the allocation that starts at base; of all live allocations of a
   pool. */
void sg_mem_set_access(uint64_t base, uint32_t access);
void sg_mem_set_pool_access(uint64_t pool, uint32_t access);
/*
 * True if a copy issued by this device may access [addr, addr+size). False only where access was
 * granted to other devices alone (cuMemSetAccess, pools, graphs): the driver copies cuMemAlloc
 * memory between devices even without peer access.
 */
bool sg_mem_reachable(int device, uint64_t addr, uint64_t size, bool write);
/* Removes the allocation that starts at base and releases its memory. Returns false if there is
   none. */
bool sg_mem_release(uint64_t base);
/* The same for the allocation with that id only: since the caller found it another thread may have released it, and the
   address may be another allocation's. */
bool sg_mem_release_same(uint64_t base, uint64_t id);
/* The same for a module's variable, of that incarnation of its context. */
void sg_mem_release_internal(uint64_t base, uint32_t incarnation);
void sg_mem_release_owned(struct sg_ctx *ctx); /* at the end of a context */
/* Called with the change of a pool's bytes in use when the end of a context frees memory of it; NULL: no pool exists yet. */
extern void (*_Atomic sg_mem_pool_account)(uint64_t pool, int64_t delta);
/* The live allocation around addr. */
bool sg_mem_find(uint64_t addr, struct sg_mem_info *out);
/* Lets kernels of ctx access memory owned by the context with that id. 0, 704 (already enabled),
   711 (SG_MAX_PEERS). */
CUresult sg_mem_add_peer(struct sg_ctx *ctx, uint32_t id);
bool sg_mem_drop_peer(struct sg_ctx *ctx, uint32_t id); /* false: access was not enabled */
/*
 * True if [addr, addr+size) lies inside one live allocation of any context, or inside adjacent
 * mappings of cuMemMap. size may be 0. If addr is inside an allocation, *out is filled in any case.
 */
bool sg_mem_covers(uint64_t addr, uint64_t size, struct sg_mem_info *out);
/*
 * Reserves addresses for programs (memory/sg_reserve.c), aligned to align, a power of two >=
 * SG_RESERVE_ALIGN; at `want` if that is free and inside the range used for reservations. Returns
 * false if none are left. The addresses are inaccessible until memory is mapped over them.
 */
#define SG_RESERVE_ALIGN (2ull << 20)
bool sg_mem_reserve_init(void);
bool sg_mem_reserve(uint64_t want, uint64_t size, uint64_t align, uint64_t *out);
void sg_mem_unreserve(uint64_t base, uint64_t size);
uint64_t sg_mem_reserved(void); /* reserved addresses, bytes */
/* Removes the memory mapped over reserved addresses; the addresses stay reserved. */
bool sg_mem_reserve_clear(uint64_t base, uint64_t size);
/* True if addr lies in the range that device memory is allocated from, whether live or not. */
bool sg_mem_in_arena(uint64_t addr);
void sg_mem_usage(int device, uint64_t *free_bytes, uint64_t *total_bytes);
uint64_t sg_mem_in_use(void); /* bytes of allocations, of all devices */
/* Number of ranges that kernels or copies may access, on all devices. */
uint64_t sg_mem_ranges(void);
/* Marks the device memory (from a pool or cuMemAlloc) with that start and id as about to be freed.
   Returns false if it is gone or already marked. */
bool sg_mem_begin_free(uint64_t base, uint64_t id);
/* Sets SYNC_MEMOPS for the allocation around addr. */
void sg_mem_set_sync(uint64_t addr, bool on);
/* Charges the quota for memory not allocated by sg_mem_alloc (cuMemCreate). */
bool sg_mem_charge(int device, uint64_t size);
void sg_mem_uncharge(int device, uint64_t size);

/* ---- memory shared with other processes (memory/sg_shared.c) ---- */

/* A piece of memory that is, or can be, shared with another process. */
struct sg_share {
    struct sg_share *next, **pprev; /* list of all pieces */
    uint8_t token[32];
    uint64_t size;   /* size in bytes, as requested */
    uint64_t base;   /* local address; 0: not placed */
    unsigned opens;  /* cuIpcOpenMemHandle calls minus cuIpcCloseMemHandle calls; 0: created here */
    const void *ctx; /* context that opened it; compare only */
    uint32_t ctx_id;
    void (*end)(struct sg_share *share); /* called when the memory has left this process */
};
/* Allocates memory of a pool on pages that other processes can open. 2. */
CUresult sg_share_alloc(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access, uint64_t *addr);
/* The token of a piece. Returns false if the piece has ended meanwhile (share is compared, never
   followed). */
bool sg_share_token(const struct sg_share *share, uint8_t *token);
/*
 * Makes an allocation, as copied out of the table, openable by other processes and updates *info.
 * token receives the name to open it by. 1: gone, or owned by another process; 2.
 */
CUresult sg_share_export(struct sg_mem_info *info, uint8_t *token);
/* cuIpcOpenMemHandle: the local address of another process's memory, on that device. 201, 400,
   205, 2. */
CUresult sg_share_open_memory(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, int device,
                              uint64_t *addr);
/* Undoes one sg_share_open_memory(); the last call releases the memory. Returns false if it was
   not open. */
bool sg_share_close_memory(uint64_t addr);
/* Imports memory of another process into ctx, as part of a pool (0: none). 400: no such memory;
   205: out of memory. */
CUresult sg_share_import(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, uint64_t pool,
                         uint32_t access, uint64_t *addr);

/* ---- physical memory, mappable at several addresses (memory/sg_store.c); sizes in whole pages
   ---- */

/* Call before a sandbox forbids it; without it no physical memory is available. */
bool sg_store_init(void);
/* Allocates a zeroed piece of that size. Returns false if there is none. */
bool sg_store_take(uint64_t size, uint64_t *at);
/* Maps the piece at `at`, or its start, over whatever is mapped at `where`; NULL: at any
   address. Returns MAP_FAILED on failure. */
void *sg_store_map(void *where, uint64_t size, uint64_t at);
/* Clears the piece, which is mapped at `pages` (NULL: never mapped), and frees it. No thread
   accesses it any more. */
void sg_store_give(void *pages, uint64_t size, uint64_t at);

#endif

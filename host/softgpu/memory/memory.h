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

/* ---- device memory (memory/memory.c) ---- */

enum sg_mem_kind {
    SG_MEM_DEVICE = 1,
    SG_MEM_MANAGED,
    SG_MEM_HOST,       /* cuMemHostAlloc */
    SG_MEM_REGISTERED, /* cuMemHostRegister */
    SG_MEM_MAPPED,     /* cuMemMap */
    SG_MEM_PRIVATE,    /* sg_host_register_private(); never in a struct sg_mem_info */
};

/* One live allocation, as copied out of the table. */
struct sg_mem_info {
    uint64_t base, size; /* as asked for, in bytes */
    uint64_t id;         /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique in the process */
    enum sg_mem_kind kind;
    const void *ctx;  /* owner, which may be gone: to compare, of no type that could be followed */
    uint64_t context; /* its handle, for who has to do with it: sg_lookup() */
    uint32_t owner;   /* id of the owner */
    int device;       /* ordinal */
    uint32_t flags;   /* cuMemHostAlloc / cuMemHostRegister flags */
    bool writable;
    bool async;                    /* from a memory pool */
    bool internal;                 /* a module's variable: not the caller's to free */
    bool freeing;                  /* cuMemFreeAsync was called */
    bool sync_memops;              /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    uint64_t pool;                 /* handle of that pool */
    bool imported;                 /* memory of another process: not counted here */
    struct sg_share *share;        /* its pages are shared with other processes; NULL: they are ours */
    struct sg_graph_memory *graph; /* of a graph's allocation node; valid under sg_graph_lock, else NULL */
    bool dormant;                  /* graph: no launch has allocated it, or it was freed again */
    uint32_t access;               /* SG_ACCESS_*, while it is not dormant */
};

/* Access rights of the devices: two bits for each. */
#define SG_ACCESS_ALL UINT32_MAX
#define SG_ACCESS_READ 0x55555555u
#define SG_ACCESS_WRITE 0xAAAAAAAAu
#define SG_ACCESS_OF(device) (3u << 2 * (device)) /* both bits of one */

/*
 * What this floor knows of a context: struct sg_ctx (runtime/runtime.h) begins with these fields.
 */
#define SG_MAX_PEERS 64
#define SG_SPACE_FIELDS \
    struct sg_obj obj; \
    uint32_t id;                         /* from 1, never reused */ \
    int device;                          /* ordinal */ \
    _Atomic uint32_t peers[SG_MAX_PEERS] /* ids of contexts whose memory its kernels reach */
struct sg_space {
    SG_SPACE_FIELDS;
};
static inline struct sg_space *sg_space(const struct sg_ctx *ctx)
{
    return (struct sg_space *)(uintptr_t)ctx;
}

CUresult sg_mem_init(void);
/* Allocates device (or managed) memory; 2 when over the quota. align: power of two. */
CUresult sg_mem_alloc(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size, uint64_t align,
                      uint64_t *out);
/* As above for a pool, whose handle is given, with the access rights that the pool has now. */
CUresult sg_mem_alloc_pool(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access, uint64_t *out);
/* As above for a module's variable, which cuMemFree refuses. */
CUresult sg_mem_alloc_internal(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size, uint64_t align,
                               uint64_t *out);
/*
 * As sg_mem_alloc() on the pages of a descriptor, which stays the caller's; share is given to
 * sg_share_end() when the memory is released. imported: it is not counted. pool 0: of no pool.
 */
CUresult sg_mem_alloc_shared(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access,
                             struct sg_share *share, bool imported, int fd, uint64_t *out);
/*
 * Gives memory of cuMemAlloc the pages of fd: move() does it, whatever is going on with the memory
 * meanwhile. 1: it is gone, is shared already, or is not of cuMemAlloc; 2: no memory.
 */
CUresult sg_mem_share(const struct sg_mem_info *info, struct sg_share *share, int fd,
                      bool (*move)(uint64_t base, uint64_t len, int fd));
/* Addresses for a graph's allocation node: dormant, and without counting against the quota. */
CUresult sg_mem_alloc_graph(struct sg_ctx *ctx, struct sg_graph_memory *graph, uint64_t size, uint64_t *out);
/* Wakes memory of a graph that starts at base, or makes it dormant: then its content is gone. */
void sg_mem_set_dormant(uint64_t base, bool dormant);
/* Enters host memory into the table; 712 when it overlaps memory that is in it. */
CUresult sg_mem_add_host(struct sg_ctx *ctx, enum sg_mem_kind kind, void *p, uint64_t size, uint32_t flags,
                         bool writable);
/*
 * The loading program's own memory, until the process ends: page-locked for copies that name it as host memory
 * (sg_mem_is_private()). For all else there is nothing: kernels fault, and no lookup below finds it.
 */
CUresult sg_host_register_private(void *p, size_t size);
bool sg_mem_is_private(uint64_t addr, uint64_t size);
/* True when the kernel knows memory of this process at every byte of [addr, addr+size). */
bool sg_host_mapped(uint64_t addr, uint64_t size);
/* Enters memory mapped by cuMemMap, once cuMemSetAccess allows some device to touch it. */
CUresult sg_mem_add_mapped(struct sg_ctx *ctx, uint64_t base, uint64_t size, uint32_t access);
/* Changes who may touch the allocation that starts at base; all that is in use of a pool. */
void sg_mem_set_access(uint64_t base, uint32_t access);
void sg_mem_set_pool_access(uint64_t pool, uint32_t access);
/*
 * Whether a copy that this device makes may touch [addr, addr+size). False only where access was given to
 * other devices alone (cuMemSetAccess, pools, graphs): between devices the driver copies what cuMemAlloc
 * gave without peer access too.
 */
bool sg_mem_reachable(int device, uint64_t addr, uint64_t size, bool write);
/* Takes the allocation that starts at base away and gives its memory back. False: none there. */
bool sg_mem_release(uint64_t base);
void sg_mem_release_owned(struct sg_ctx *ctx); /* a context's end */
/* The live allocation around addr. */
bool sg_mem_find(uint64_t addr, struct sg_mem_info *out);
/* Lets ctx's kernels reach what the context of that id owns. 0, 704 (they do), 711 (SG_MAX_PEERS). */
CUresult sg_mem_add_peer(struct sg_ctx *ctx, uint32_t id);
bool sg_mem_drop_peer(struct sg_ctx *ctx, uint32_t id); /* false: they did not */
/*
 * True when [addr, addr+size) lies inside one live allocation of any context, or inside adjacent
 * mappings of cuMemMap. size may be 0. When addr is in an allocation *out is filled in any case.
 */
bool sg_mem_covers(uint64_t addr, uint64_t size, struct sg_mem_info *out);
/*
 * Addresses that are reserved for programs (memory/reserve.c): multiples of align, a power of two from
 * SG_RESERVE_ALIGN on; at want when it is in the range that they come from and free there. False: there are
 * none. Nothing may be touched there until memory is mapped over it.
 */
#define SG_RESERVE_ALIGN (2ull << 20)
bool sg_mem_reserve_init(void);
bool sg_mem_reserve(uint64_t want, uint64_t size, uint64_t align, uint64_t *out);
void sg_mem_unreserve(uint64_t base, uint64_t size);
uint64_t sg_mem_reserved(void); /* bytes */
/* Takes memory that was mapped over reserved addresses away; they stay reserved. */
bool sg_mem_reserve_clear(uint64_t base, uint64_t size);
/* True when addr lies in the address range that device memory comes from, live or not. */
bool sg_mem_in_arena(uint64_t addr);
void sg_mem_usage(int device, uint64_t *free_bytes, uint64_t *total_bytes);
uint64_t sg_mem_ranges(void); /* ranges that kernels or copies may access, on all devices */
/* Marks device memory, of a pool or of cuMemAlloc, that starts at base as about to be freed; false: none,
 * or marked before. */
bool sg_mem_begin_free(uint64_t base);
/* Sets SYNC_MEMOPS of the allocation around addr. */
void sg_mem_set_sync(uint64_t addr, bool on);
/* Charges the quota for memory that does not come from sg_mem_alloc (cuMemCreate). */
bool sg_mem_charge(int device, uint64_t size);
void sg_mem_uncharge(int device, uint64_t size);

/* ---- memory shared with other processes (memory/shared.c) ---- */

/* One piece of memory that another process has too, or may have. */
struct sg_share {
    struct sg_share *next, **pprev; /* in the list of all */
    uint8_t token[32];
    uint64_t size;   /* bytes, as asked for */
    uint64_t base;   /* where it is here, 0: not placed */
    unsigned opens;  /* cuIpcOpenMemHandle less cuIpcCloseMemHandle; 0: made here */
    const void *ctx; /* that opened it; compare only */
    uint32_t ctx_id;
};
/* The memory behind it has left this process. */
void sg_share_end(struct sg_share *share);
/* Enters a piece that was placed elsewhere than by cuIpc*. */
void sg_share_link(struct sg_share *share);
/* The token of a piece; false when it has ended meanwhile (share is compared, never followed). */
bool sg_share_token(const struct sg_share *share, uint8_t *token);
/*
 * Makes an allocation, as copied out of the table, one that other processes can open; *info is what it is then.
 * token: by which they open it. 1: it is gone or of another process, 2.
 */
CUresult sg_share_export(struct sg_mem_info *info, uint8_t *token);
/* cuIpcOpenMemHandle: the address here of memory of another process, on that device. 201, 400, 205, 2. */
CUresult sg_share_open_memory(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, int device,
                              uint64_t *addr);
/* Takes back one sg_share_open_memory(), the last of which releases the memory; false: it was not opened. */
bool sg_share_close_memory(uint64_t addr);
/* Memory of another process, for ctx, as part of a pool (0: none); 400: no such, 205: no memory. */
CUresult sg_share_import(struct sg_ctx *ctx, const uint8_t *token, uint64_t size, uint64_t pool,
                         uint32_t access, uint64_t *addr);

/* ---- physical memory, which can be mapped at several addresses (memory/store.c); sizes are multiples of pages ---- */

/* Before a sandbox forbids it; without it there is no physical memory. */
bool sg_store_init(void);
/* A piece of that size, zeroes; false: there is none. */
bool sg_store_take(uint64_t size, uint64_t *at);
/* Maps the piece at `at`, or its beginning: at `where`, in the place of what is there; NULL: anywhere. MAP_FAILED. */
void *sg_store_map(void *where, uint64_t size, uint64_t at);
/* Empties the piece, which is mapped at `pages` (NULL: it never was), and takes it back. Nobody touches it any more. */
void sg_store_give(void *pages, uint64_t size, uint64_t at);

#endif

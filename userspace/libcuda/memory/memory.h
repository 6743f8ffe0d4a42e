/* SPDX-License-Identifier: MIT */
/*
 * The guest's tables of known addresses: device allocations and variables, and pinned host memory.
 * Pointer attributes, copy directions and in-place copies are decided from them.
 */
#ifndef VCU_MEMORY_H
#define VCU_MEMORY_H

#include "../core/core.h"

enum vcu_memory_kind {
    VCU_MEM_DEVICE = 1,   /* cuMemAlloc and friends */
    VCU_MEM_VARIABLE = 2, /* a module's variable */
    VCU_MEM_MANAGED = 3,  /* cuMemAllocManaged: host memory at the same address on both sides */
    VCU_MEM_HOST = 4,     /* cuMemHostAlloc, cuMemHostRegister */
    VCU_MEM_MAPPED = 5,   /* cuMemMap */
    VCU_MEM_SHADOW = 6,   /* a __managed__ variable: device memory, plus pages of this process */
};

/* Describes one range; never freed while it is in a set. */
struct vcu_memory {
    enum vcu_memory_kind kind;
    uint64_t context;
    uint64_t owner; /* variable: its module or library */
    int device;
    uint64_t buffer_id;              /* CU_POINTER_ATTRIBUTE_BUFFER_ID: unique, never reused */
    unsigned flags;                  /* host: CU_MEMHOSTALLOC_* or CU_MEMHOSTREGISTER_* */
    uint64_t readers, writers;       /* mapped: devices that cuMemSetAccess allows it, a bit each */
    bool registered;                 /* host: by cuMemHostRegister: the memory is the application's */
    bool sync_memops;                /* CU_POINTER_ATTRIBUTE_SYNC_MEMOPS */
    bool in_place;                   /* host: mapped by the worker, copies need no staging */
    bool over_limit;                 /* host: not in place because of the driver's pin_limit_mib */
    uint64_t device_ptr;             /* host, managed: address of the range's start on the device, 0 = none */
    uint64_t pool;                   /* device: its pool, 0 = none */
    bool graph;                      /* device: of a graph's allocation node, allocated by launches */
    uint64_t allocation;             /* mapped: handle of its physical memory, possibly ended */
    unsigned opened;                 /* device: number of times opened, for memory of another process */
    bool exported;                   /* device: other processes may open it; host: a dma-buf has its pages */
    bool imported;                   /* device: memory of a dma-buf */
    struct lnk_shared_memory shared; /* host, managed; of a slab: the whole slab */
    struct vcu_slab *slab;           /* host: the slab that contains it (vcu_slab.c), NULL = none */
    uint64_t slab_offset;            /* offset in the slab, bytes */
};

/* A found range with a copy of its description. */
struct vcu_place {
    uint64_t start, size;
    struct vcu_memory m;
};

/* The range around an address; device memory first, then host memory. */
bool vcu_memory_find(uint64_t addr, struct vcu_place *place);
/* The first range of device memory that overlaps [start, start + size), which does not wrap. */
bool vcu_memory_next(uint64_t start, uint64_t size, struct vcu_place *place);
/* The range of pinned host memory around an address of this process. */
bool vcu_memory_find_host(uint64_t addr, struct vcu_place *place);
/* True when [addr, addr + n) lies inside one known range of device memory (or managed memory), or
   inside mappings of cuMemMap side by side that may be written. */
bool vcu_memory_is_device(uint64_t addr, uint64_t n);
/* True when [addr, addr + n) lies inside one range of device memory that only work of this
 * process's streams can read: not managed, not of a pool, a graph or a mapping, not shared with
 * other processes. */
bool vcu_memory_is_private(uint64_t addr, uint64_t n);
/* Notes that the range around an address may be shared from now on, with processes or holders of a
 * dma-buf. */
void vcu_memory_set_exported(uint64_t addr);
/* True when [addr, addr + n) lies inside one host range that the worker maps. */
bool vcu_memory_in_place(uint64_t addr, uint64_t n);
/* True if the bytes begin or end in pinned host memory that does not contain all of them. n is not
 * 0. */
bool vcu_memory_host_crossed(uint64_t addr, uint64_t n);
/* Adds a variable of a module or library, removed together with it. */
void vcu_memory_note_variable(uint64_t owner, uint64_t addr, uint64_t size);
void vcu_memory_forget_owner(uint64_t owner);
/* Removes the device memory and the variables of a context; memory of graphs stays. */
void vcu_memory_forget_context(uint64_t context);
/* Adds a range; false when memory is short (the caller then undoes the allocation). */
bool vcu_memory_add(uint64_t start, uint64_t size, const struct vcu_memory *m);
/* Removes the range of that kind that starts at the address from the table. */
bool vcu_memory_take(uint64_t start, enum vcu_memory_kind kind, struct vcu_place *place);
uint64_t vcu_memory_new_id(void);
/* Sets SYNC_MEMOPS of the range around an address; false when there is none. */
bool vcu_memory_set_sync(uint64_t addr, bool on);
/* Sets the access of the adjacent mappings of [start, start + size). */
void vcu_memory_set_access(uint64_t start, uint64_t size, const CUmemAccessDesc *desc, size_t count);
/* What the device of the current context may do with memory of kind VCU_MEM_MAPPED; without a
 * context, the device of the memory. */
CUmemAccess_flags vcu_memory_access(const struct vcu_memory *m);
/* Enters a range that the worker reports as new, replacing stale ranges in the table. False when
 * memory is short. */
bool vcu_memory_put(uint64_t start, uint64_t size, const struct vcu_memory *m);

/* Enter a new allocation of the current context; the second function, an allocation from a pool in
 * the order of a stream. When memory is short the allocation is freed, and the call returns
 * OUT_OF_MEMORY. */
CUresult vcu_memory_note(uint64_t dptr, uint64_t size);
CUresult vcu_memory_note_pool(uint64_t dptr, uint64_t size, uint64_t pool, CUstream stream);

/* Enters memory of a graph: it stays in the table, because the graph keeps the address permanently.
 * Dropped when the worker assigns the address to another allocation. */
void vcu_graph_memory_note(uint64_t dptr, uint64_t size, int device);
/* True once graphs have allocated memory in this process. */
bool vcu_graph_memory_known(void);

/* Enters memory of another process, or counts a further opening; closes it when memory is short. */
CUresult vcu_memory_note_opened(uint64_t dptr, uint64_t size, uint64_t pool);
/* Counts one closing; true: it was the last, and the removed table entry is in *place. */
bool vcu_memory_close(uint64_t dptr, struct vcu_place *place);

/* vcu_decompress.c: CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE, from the worker's driver. */
CUresult vcu_decompress_capable(int device, uint64_t address, bool *out);

/* vcu_multicast.c: waits until all devices were added, if it is a multicast object. */
void vcu_multicast_await(uint64_t handle);
/* The handle was released. */
void vcu_multicast_forget(uint64_t handle);

/* A context takes its allocations and slabs with it; the staging area is divided once it exists. */
extern const struct vcu_unit_ops vcu_memory_unit, vcu_staging_unit, vcu_slab_unit;

/* vcu_external_memory.c: ends a mapped buffer of external memory; false: there is none at ptr. */
bool vcu_external_free(CUdeviceptr ptr, CUresult *r);

/* vcu_dmabuf.c: shares `size` bytes of a dma-buf with the worker, for the current device at *ptr; and
 * ends the sharing. */
CUresult vcu_dmabuf_import(void **object, CUdeviceptr *ptr, int fd, size_t size);
CUresult vcu_dmabuf_release(void *object);

/* vcu_vmm.c: a reserved address: the reservation and the mapping in it; map_size 0: none. */
bool vcu_vmm_find(uint64_t addr, struct cua_reserved *out);

/* ---- vcu_hostmem.c ---- */

/* Chooses a different address for memory that the worker could not map at another. */
void *vcu_far_address(void);
/* Fills in what of the description does not depend on sharing. */
void vcu_hostmem_describe(struct vcu_memory *m);
/* Shares new host memory and registers it with the provider. may_stage: beyond the limit of pinned
 * memory it is this process's alone. call: the call whose refusal is traced; NULL: not traced. */
CUresult vcu_hostmem_new(const char *call, uint64_t size, bool may_stage, struct vcu_memory *m);
/* Same for existing memory, whole pages. CUDA_SUCCESS with !m->in_place: it cannot be shared, or
 * (may_stage) is beyond the limit of pinned memory. */
CUresult vcu_hostmem_share(const char *call, void *start, uint64_t length, bool read_only, bool may_stage,
                           struct vcu_memory *m);
void vcu_hostmem_end(struct vcu_memory *m);

/* vcu_staging.c: one piece of the staging area. */
struct vcu_chunk;
/* Bytes in one piece. */
uint64_t vcu_chunk_size(void);
/* A free piece; waits for one unless `try` (then NULL when none is free). NULL also when dead. */
struct vcu_chunk *vcu_chunk_take(bool try);
uint8_t *vcu_chunk_data(struct vcu_chunk *c);
uint64_t vcu_chunk_offset(struct vcu_chunk *c); /* in the staging area */
struct vgp_submit *vcu_chunk_submit(struct vcu_chunk *c);
/* Returns the piece to the free list. */
void vcu_chunk_give(struct vcu_chunk *c);
/* Returns the piece to the free list as soon as its published submission is answered. An error of
 * the submission becomes the asynchronous error that the next synchronising call returns. */
void vcu_chunk_give_later(struct vcu_chunk *c);

#include "copy.h"

/* ---- vcu_advice.c ---- */

/* Checks a batch of n ranges, with or without locations. */
CUresult vcu_advice_batch(const char *call, CUdeviceptr *dptrs, size_t *sizes, size_t n, size_t *idxs,
                          size_t nlocs, unsigned long long flags, CUstream stream);

/* ---- vcu_host_memory.c ---- */

/* Ends memory that is `registered` or allocated; no context need be current. */
CUresult vcu_host_memory_end(void *p, bool registered, const char *call);

/* ---- vcu_multicast.c ---- */

/* Checks of calls with an object of the process; the worker checks that it is a multicast object,
 * not memory. */
CUresult vcu_multicast_check(const char *call, uint64_t handle);

/* ---- vcu_pool.c ---- */

/* The documentation's code for a bad pool is INVALID_VALUE, everywhere. */
CUresult vcu_pool_check(CUmemoryPool pool);
/* The calls of 13.0 name a location and a type; only device memory exists. */
CUresult vcu_pool_location(const char *call, const CUmemLocation *location, CUmemAllocationType type);
/* The device's default pool, or (current) the one that its allocations come from. */
CUresult vcu_pool_of_device(CUmemoryPool *pool, CUdevice dev, bool current);

/* Tells the worker of a pool whose handle is minted. */
CUresult vcu_pool_create(uint64_t handle, const CUmemPoolProps *p);

/* ---- vcu_pointer.c ---- */

/* The known range around a pointer, if the device may touch it. */
bool vcu_pointer_range(CUdeviceptr ptr, struct vcu_place *p);
/* The device's address of a pointer into that range. */
CUdeviceptr vcu_pointer_on_device(const struct vcu_place *p, CUdeviceptr ptr);
/* Known data about an address. */
struct cua_pointer vcu_pointer_about(CUdeviceptr ptr);

/* ---- vcu_vmm.c ---- */

/* Tells the worker of physical memory whose handle is minted. */
CUresult vcu_allocation_create(uint64_t handle, size_t size, const CUmemAllocationProp *p,
                               unsigned long long flags);

/* ---- vcu_external_memory.c ---- */

/* How lib/driver/external_memory.h maps and unmaps. */
extern const struct cua_memory_ops vcu_memory_ops;

/* Checks that a launch in the stream may record the event: it measures no time, and other processes
 * do not have it. */
CUresult vcu_event_launch_ok(CUevent event, CUstream stream);

/* ---- vcu_slab.c: small pinned allocations ---- */

/* Maximum size in bytes; larger allocations have their own region. */
#define VCU_SLAB_LARGEST (64u << 10)

/*
 * Takes `size` bytes of pinned memory of the current context out of a slab: describes them in *m,
 * whose `flags` stay; they begin at m->shared.va + m->slab_offset. False: the caller allocates by
 * other means, also to report an error.
 */
bool vcu_slab_take(uint64_t size, struct vcu_memory *m);
/* Returns memory of vcu_slab_take() of `size` bytes to its slab, after waiting for work that may
 * use it. */
void vcu_slab_give(const struct vcu_memory *m, uint64_t size);

/* ---- vcu_managed.c: __managed__ variables; the guarantees are described there ---- */

/* Gives a variable of the current context its pages in this process and its present content.
 * NOT_SUPPORTED: its address is in use in this process. Known variables are left unchanged. */
CUresult vcu_managed_add(const char *call, uint64_t owner, uint64_t addr, uint64_t size);
/* Forgets the variables of a module or library, or of a context (0: ignored). */
void vcu_managed_forget(uint64_t owner, uint64_t context);
/* Called before work is sent: copies the program's writes to the device; and after a wait: copies
 * the device's writes back. */
extern const struct vcu_unit_ops vcu_managed_unit;

#endif

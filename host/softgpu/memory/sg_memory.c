/* SPDX-License-Identifier: MIT */
/*
 * Device memory: a reserved range of addresses (the arena) and the allocations inside it, with gaps
 * between them; memory/sg_table.c has the access rights. Arena memory is never unmapped, so a racing
 * stale access reads zeroes instead of raising a signal.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memory/arena.h"
#include "memory/grace.h"
#include "memory/table.h"

/* Preferred start of device addresses: far from the kernel's own choices, so that a guest's
   mappings and our device addresses do not collide; and without addresses whose lower half is a
   small number: beside stale bytes of an earlier stack, a 32-bit parameter would look like such
   an address. */
#define SG_ARENA_HINT 0x200010000000ull
#define SG_ARENA_FACTOR 4 /* address space per byte of quota: room for gaps */
#define SG_ARENA_MIN (16ull << 30)
#define SG_HUGE (2ull << 20)
#define SG_PAGE 4096ull          /* sg_mem_init() compares it with the system's page size */
#define SG_SIZE_MAX (1ull << 46) /* keeps every sum of sizes and addresses below 2^48 */

static uint64_t arena, arena_len, next_id;
static struct sg_arena device_space;  /* under sg_mem_lock */
static uint64_t used[SG_MAX_DEVICES]; /* bytes, by device; under sg_mem_lock, as the two above */

static inline uint64_t align_up(uint64_t v, uint64_t a)
{
    return (v + a - 1) & ~(a - 1);
}

bool sg_mem_in_arena(uint64_t addr)
{
    return addr >= arena && addr - arena < arena_len;
}

/* ---- the arena ---- */

CUresult sg_mem_init(void)
{
    uint64_t all = sg_config.memory * sg_config.ndevices, want = all * SG_ARENA_FACTOR;

    if (arena)
        return CUDA_SUCCESS;
    if (sysconf(_SC_PAGESIZE) != (long)SG_PAGE)
        return sg_fail(CUDA_ERROR_NOT_SUPPORTED, "pages of this system are not %llu bytes", SG_PAGE);
    if (want < SG_ARENA_MIN)
        want = SG_ARENA_MIN;
    /* An address-space limit may allow less; the quota itself must fit. */
    for (; want >= all; want /= 2) {
        void *p = mmap((void *)SG_ARENA_HINT, want, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (p == MAP_FAILED)
            continue;
        if (!sg_table_reserve() || !sg_mem_reserve_init() ||
            !sg_arena_init(&device_space, (uint64_t)(uintptr_t)p, want)) {
            munmap(p, want);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        arena = (uint64_t)(uintptr_t)p;
        arena_len = want;
        return CUDA_SUCCESS;
    }
    return sg_fail(CUDA_ERROR_OUT_OF_MEMORY, "cannot reserve %llu bytes of address space",
                   (unsigned long long)all);
}

/* The gap after an allocation: overruns of up to this length hit no other allocation. */
static uint64_t guard_for(uint64_t size)
{
    return size <= 4096 ? 512 : size <= (1u << 20) ? 4096 : 65536;
}

/* Makes freed memory read as zeroes; returns whole pages to the system if that is worthwhile. */
static void scrub_memory(uint64_t base, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = align_up(base, page), last = (base + size) & ~(page - 1);

    if (size < (256u << 10) || madvise((void *)first, last - first, MADV_DONTNEED) != 0) {
        memset((void *)base, 0, size);
        return;
    }
    memset((void *)base, 0, first - base);
    memset((void *)last, 0, base + size - last);
}

static CUresult insert_entry(struct sg_rec *r, uint32_t visible_to, uint32_t access)
{
    const struct sg_entry e = {.base = r->info.base,
                               .end = r->info.base + r->info.size,
                               .owner = visible_to,
                               .access = access,
                               .rec = r};
    bool overlap;

    r->info.id = ++next_id;
    if (sg_table_insert(&e, &overlap))
        return CUDA_SUCCESS;
    return overlap ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED : CUDA_ERROR_OUT_OF_MEMORY;
}

/* cuMemAlloc is page-granular: allocations are shared with other processes by page, so two
   allocations never use the same page. */
static bool whole_pages(const struct sg_mem_info *info)
{
    return info->share || (info->kind == SG_MEM_DEVICE && !info->internal && !info->async);
}

/* Bytes that an allocation is counted with: imported memory is elsewhere, that of graphs while
 * launches have it. */
static uint64_t counted_bytes(const struct sg_mem_info *info)
{
    return info->imported || info->graph ? 0 : align_up(info->size, SG_ALIGN);
}

/* Another thread has ended the context since the caller found it: nothing would release the memory. */
static bool ended_locked(const struct sg_rec *r)
{
    return r->info.owner && sg_space(r->info.ctx)->released >= r->info.owner;
}

static CUresult alloc_locked(struct sg_rec *r, uint64_t align)
{
    uint64_t size = r->info.size, rounded = align_up(size, SG_ALIGN);
    uint64_t charge = counted_bytes(&r->info);
    CUresult rc;

    if (charge > sg_config.memory - used[r->info.device])
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->block_len = align_up(rounded + guard_for(size), whole_pages(&r->info) ? SG_PAGE : SG_ALIGN);
    if (!sg_arena_take(&device_space, r->block_len, align, &r->block))
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->info.base = r->block;
    /* Pools and managed memory belong to the device, the rest to its context. */
    rc =
        insert_entry(r, r->info.kind == SG_MEM_DEVICE && !r->info.async && !r->info.graph ? r->info.owner : 0,
                     r->info.dormant ? 0 : r->info.access);
    if (rc != CUDA_SUCCESS) {
        sg_arena_give(&device_space, r->block, r->block_len);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    used[r->info.device] += charge;
    return CUDA_SUCCESS;
}

/* Replaces the pages of [base, base + size), which belong to no other allocation, by private
   zeroed pages. Returns false if the addresses must not be used again. */
static bool own_pages(uint64_t base, uint64_t size)
{
    return mmap((void *)base, align_up(size, SG_PAGE), PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
}

static bool shared_pages(uint64_t base, uint64_t size, int fd)
{
    return mmap((void *)base, align_up(size, SG_PAGE), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
                0) != MAP_FAILED;
}

/* fd: the memory to use, with the length represented by info->share; -1: private memory. */
static CUresult alloc_memory(struct sg_ctx *ctx, const struct sg_mem_info *want, uint64_t align, int fd,
                             uint64_t *out)
{
    struct sg_rec *r;
    CUresult rc;

    if (want->size == 0 || want->size > SG_SIZE_MAX)
        return want->size ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    r = calloc(1, sizeof(*r));
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->info = *want;
    r->info.ctx = ctx; /* for graph memory: the primary context, which is never freed */
    r->info.context = sg_space(ctx)->obj.handle;
    if (!want->owner)
        r->info.owner = want->graph ? 0 : sg_space(ctx)->id; /* memory of graphs outlives contexts */
    r->info.device = sg_space(ctx)->device;
    r->info.writable = true;
    if (!want->access)
        r->info.access = SG_ACCESS_ALL;
    if (align < SG_ALIGN)
        align = SG_ALIGN;
    if (whole_pages(want) && align < SG_PAGE)
        align = SG_PAGE;
    if (want->size >= SG_HUGE && align < SG_HUGE)
        align = SG_HUGE; /* lets the kernel back it with huge pages */

    pthread_mutex_lock(&sg_mem_lock);
    rc = ended_locked(r) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : alloc_locked(r, align);
    if (rc == CUDA_SUCCESS && fd >= 0 && !shared_pages(r->info.base, want->size, fd)) {
        sg_table_remove(sg_table_find(r->info.base));
        if (own_pages(r->info.base, want->size)) /* the failed attempt may have left a hole */
            sg_arena_give(&device_space, r->block, r->block_len);
        used[sg_space(ctx)->device] -= want->imported ? 0 : align_up(want->size, SG_ALIGN);
        rc = CUDA_ERROR_OUT_OF_MEMORY;
    }
    const uint64_t left = sg_config.memory - used[sg_space(ctx)->device], base = r->info.base;

    if (rc == CUDA_SUCCESS)
        *out = base;
    /* From here on another thread can find the memory and release it, and with it r and the share. */
    pthread_mutex_unlock(&sg_mem_lock);
    if (rc == CUDA_ERROR_CONTEXT_IS_DESTROYED) {
        free(r);
        return rc;
    }
    if (rc != CUDA_SUCCESS) {
        free(r);
        return sg_fail(rc, "out of device memory: %llu bytes asked for, %llu of %llu left",
                       (unsigned long long)want->size, (unsigned long long)left,
                       (unsigned long long)sg_config.memory);
    }
    if (fd >= 0)
        return CUDA_SUCCESS;
    if (want->size >= 2 * SG_HUGE)
        madvise((void *)base, want->size, MADV_HUGEPAGE); /* a hint: failure changes nothing */
    if (sg_config.poison && !want->internal && !want->dormant)
        memset((void *)base, 0xCD, want->size);
    return CUDA_SUCCESS;
}

CUresult sg_mem_alloc(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t size, uint64_t align, uint64_t *out)
{
    struct sg_mem_info want = {.size = size, .kind = kind};

    return alloc_memory(ctx, &want, align, -1, out);
}

CUresult sg_mem_alloc_pool(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access, uint64_t *out)
{
    struct sg_mem_info want = {
        .size = size, .kind = SG_MEM_DEVICE, .pool = pool, .async = true, .access = access};

    return alloc_memory(ctx, &want, 0, -1, out);
}

CUresult sg_mem_alloc_internal(struct sg_ctx *ctx, uint32_t incarnation, enum sg_mem_kind kind, uint64_t size,
                               uint64_t align, uint64_t *out)
{
    struct sg_mem_info want = {.size = size, .kind = kind, .owner = incarnation, .internal = true};

    return alloc_memory(ctx, &want, align, -1, out);
}

CUresult sg_mem_alloc_shared(struct sg_ctx *ctx, uint64_t size, uint64_t pool, uint32_t access,
                             struct sg_share *share, bool imported, int fd, uint64_t *out)
{
    struct sg_mem_info want = {.size = size,
                               .kind = SG_MEM_DEVICE,
                               .pool = pool,
                               .async = pool != 0,
                               .access = access,
                               .share = share,
                               .imported = imported};

    return alloc_memory(ctx, &want, 0, fd, out);
}

CUresult sg_mem_share(const struct sg_mem_info *info, struct sg_share *share, int fd,
                      bool (*move)(uint64_t base, uint64_t len, int fd))
{
    struct sg_entry *e;
    CUresult rc = CUDA_ERROR_INVALID_VALUE;

    /* Under the lock, so that it is not freed meanwhile. */
    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(info->base);
    if (e && e->rec->info.id == info->id && !e->rec->info.share && !e->rec->info.graph &&
        whole_pages(&e->rec->info)) {
        rc = move(info->base, align_up(info->size, SG_PAGE), fd) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        if (rc == CUDA_SUCCESS)
            e->rec->info.share = share;
    }
    pthread_mutex_unlock(&sg_mem_lock);
    return rc;
}

CUresult sg_mem_alloc_graph(struct sg_ctx *ctx, struct sg_graph_memory *graph, uint64_t size, uint64_t *out)
{
    struct sg_mem_info want = {.size = size, .kind = SG_MEM_DEVICE, .graph = graph, .dormant = true};

    return alloc_memory(ctx, &want, 0, -1, out);
}

void sg_mem_set_dormant(uint64_t base, bool dormant)
{
    struct sg_entry *e;
    uint64_t size = 0;

    if (!dormant && sg_config.poison) {
        struct sg_mem_info info;

        if (sg_mem_find(base, &info))
            memset((void *)base, 0xCD, info.size);
    }
    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(base);
    if (e && e->base == base && e->rec->info.graph) {
        e->rec->info.dormant = dormant;
        size = e->rec->info.size;
        sg_table_set_access(e, dormant ? 0 : e->rec->info.access);
    }
    pthread_mutex_unlock(&sg_mem_lock);
    if (dormant && size)
        scrub_memory(base, size);
}

static CUresult add_range(struct sg_ctx *ctx, enum sg_mem_kind kind, uint64_t base, uint64_t size,
                          uint32_t flags, uint32_t access)
{
    struct sg_rec *r;
    CUresult rc;

    if (size == 0 || base + size < base)
        return CUDA_ERROR_INVALID_VALUE;
    r = calloc(1, sizeof(*r));
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->info = (struct sg_mem_info){.base = base,
                                   .size = size,
                                   .kind = kind,
                                   .ctx = ctx,
                                   .context = sg_space(ctx)->obj.handle,
                                   /* memory mapped by cuMemMap belongs to the device */
                                   .owner = kind == SG_MEM_MAPPED ? 0 : sg_space(ctx)->id,
                                   .device = sg_space(ctx)->device,
                                   .flags = flags,
                                   .access = access,
                                   .writable = access & SG_ACCESS_WRITE};
    pthread_mutex_lock(&sg_mem_lock);
    rc = ended_locked(r) ? CUDA_ERROR_CONTEXT_IS_DESTROYED : insert_entry(r, 0, access);
    pthread_mutex_unlock(&sg_mem_lock);
    if (rc != CUDA_SUCCESS)
        free(r);
    return rc;
}

CUresult sg_mem_add_host(struct sg_ctx *ctx, enum sg_mem_kind kind, void *p, uint64_t size, uint32_t flags,
                         bool writable)
{
    return add_range(ctx, kind, (uint64_t)(uintptr_t)p, size, flags,
                     writable ? SG_ACCESS_ALL : SG_ACCESS_READ);
}

CUresult sg_host_register_private(void *p, size_t size)
{
    const uint64_t base = (uint64_t)(uintptr_t)p;
    CUresult rc = CUDA_ERROR_OUT_OF_MEMORY;
    struct sg_rec *r;

    if (!base || !size || size > UINT64_MAX - base)
        return CUDA_ERROR_INVALID_VALUE;
    r = calloc(1, sizeof(*r));
    if (!r)
        return CUDA_ERROR_OUT_OF_MEMORY;
    r->info = (struct sg_mem_info){.base = base, .size = size, .kind = SG_MEM_PRIVATE};
    pthread_mutex_lock(&sg_mem_lock);
    if (sg_table_reserve())
        rc = insert_entry(r, 0, 0);
    pthread_mutex_unlock(&sg_mem_lock);
    if (rc != CUDA_SUCCESS)
        free(r);
    return rc;
}

CUresult sg_mem_add_mapped(struct sg_ctx *ctx, uint64_t base, uint64_t size, uint32_t access)
{
    return add_range(ctx, SG_MEM_MAPPED, base, size, 0, access);
}

/*
 * Releases the memory of a removed record. Needs no lock except for arena and quota. Memory outside
 * the arena returns to the caller or the system, which may reuse it at once, so this first waits
 * for copies, memsets and kernels of any context that looked it up before the removal.
 */
static void rec_free(struct sg_rec *r)
{
    if (!r->block_len)
        sg_grace_wait();
    if (r->block_len) {
        bool usable = true;

        if (r->info.share) {
            usable = own_pages(r->info.base, r->info.size);
            r->info.share->end(r->info.share);
        } else {
            scrub_memory(r->info.base, r->info.size);
        }
        pthread_mutex_lock(&sg_mem_lock);
        if (usable)
            sg_arena_give(&device_space, r->block, r->block_len);
        used[r->info.device] -= counted_bytes(&r->info);
        pthread_mutex_unlock(&sg_mem_lock);
    } else if (r->info.kind == SG_MEM_HOST) {
        munmap((void *)r->info.base, align_up(r->info.size, (uint64_t)sysconf(_SC_PAGESIZE)));
    }
    free(r);
}

/* The entry that starts at base; id: only of that allocation, 0: of any. */
static struct sg_entry *entry_locked(uint64_t base, uint64_t id)
{
    struct sg_entry *e = sg_table_find(base);

    return e && e->base == base && (!id || e->rec->info.id == id) ? e : NULL;
}

static bool release_range(uint64_t base, uint64_t id, uint32_t internal_to)
{
    struct sg_entry *e;
    struct sg_rec *r = NULL;

    pthread_mutex_lock(&sg_mem_lock);
    e = entry_locked(base, id);
    if (e && (!internal_to || (e->rec->info.internal && e->rec->info.owner == internal_to))) {
        r = e->rec;
        sg_table_remove(e);
    }
    pthread_mutex_unlock(&sg_mem_lock);
    if (r)
        rec_free(r);
    return r != NULL;
}

bool sg_mem_release(uint64_t base)
{
    return release_range(base, 0, 0);
}

bool sg_mem_release_same(uint64_t base, uint64_t id)
{
    return release_range(base, id, 0);
}

void sg_mem_release_internal(uint64_t base, uint32_t incarnation)
{
    release_range(base, 0, incarnation);
}

/* Removes ctx's next allocation at or after *from, which advances. NULL: none. */
static struct sg_rec *take_owned(const struct sg_ctx *ctx, uint64_t *from)
{
    struct sg_rec *r = NULL;

    pthread_mutex_lock(&sg_mem_lock);
    for (struct sg_entry *e = sg_table_from(*from); !r && e; e = sg_table_from(*from)) {
        *from = e->end;
        if (e->rec->info.ctx == ctx && e->rec->info.owner == sg_space(ctx)->id) {
            r = e->rec;
            sg_table_remove(e);
        }
    }
    pthread_mutex_unlock(&sg_mem_lock);
    return r;
}

void (*_Atomic sg_mem_pool_account)(uint64_t pool, int64_t delta);

void sg_mem_release_owned(struct sg_ctx *ctx)
{
    struct sg_rec *r;
    uint64_t from = 0;

    pthread_mutex_lock(&sg_mem_lock);
    sg_space(ctx)->released = sg_space(ctx)->id; /* nothing is added from here on */
    pthread_mutex_unlock(&sg_mem_lock);
    while ((r = take_owned(ctx, &from)) != NULL) {
        if (r->info.async && !r->info.imported && sg_mem_pool_account)
            sg_mem_pool_account(r->info.pool, -(int64_t)r->info.size);
        rec_free(r);
    }
}

void sg_mem_usage(int device, uint64_t *free_bytes, uint64_t *total_bytes)
{
    pthread_mutex_lock(&sg_mem_lock);
    *total_bytes = sg_config.memory;
    *free_bytes = sg_config.memory - used[device];
    pthread_mutex_unlock(&sg_mem_lock);
}

uint64_t sg_mem_in_use(void)
{
    uint64_t bytes = 0;

    pthread_mutex_lock(&sg_mem_lock);
    for (unsigned i = 0; i < sg_config.ndevices; i++)
        bytes += used[i];
    pthread_mutex_unlock(&sg_mem_lock);
    return bytes;
}

uint64_t sg_mem_ranges(void)
{
    pthread_mutex_lock(&sg_mem_lock);
    uint64_t n = sg_table_count();

    pthread_mutex_unlock(&sg_mem_lock);
    return n;
}

bool sg_mem_charge(int device, uint64_t size)
{
    bool ok;

    pthread_mutex_lock(&sg_mem_lock);
    ok = size <= sg_config.memory - used[device];
    if (ok)
        used[device] += size;
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

void sg_mem_uncharge(int device, uint64_t size)
{
    pthread_mutex_lock(&sg_mem_lock);
    used[device] -= size;
    pthread_mutex_unlock(&sg_mem_lock);
}

bool sg_host_mapped(uint64_t addr, uint64_t size)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);

    if (size > UINT64_MAX - addr)
        return false;
    /* MS_ASYNC starts nothing; the purpose is the ENOMEM error for unmapped pages. */
    return msync((void *)(uintptr_t)start, addr + size - start, MS_ASYNC) == 0 || errno != ENOMEM;
}

bool sg_mem_begin_free(uint64_t base, uint64_t id)
{
    struct sg_entry *e;
    bool ok;

    pthread_mutex_lock(&sg_mem_lock);
    e = entry_locked(base, id);
    ok = e && !e->rec->info.freeing && !e->rec->info.internal &&
         (e->rec->info.async || (e->rec->info.kind == SG_MEM_DEVICE && !e->rec->info.imported));
    if (ok)
        e->rec->info.freeing = true;
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

void sg_mem_set_sync(uint64_t addr, bool on)
{
    struct sg_entry *e;

    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(addr);
    if (e)
        e->rec->info.sync_memops = on;
    pthread_mutex_unlock(&sg_mem_lock);
}

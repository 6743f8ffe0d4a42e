/* SPDX-License-Identifier: MIT */
/*
 * The table of all memory that kernels and copies may access, with the access rights: a tree of
 * entries by address.
 *
 * The table is written under a mutex and read by executing threads without it: readers validate
 * their reads with the tree's sequence counter, and fall back to the mutex if writers keep
 * interfering. Removed entries are kept for reuse, so that a late reader still reads an entry.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "lib/btree/btree.h"
#include "memory/bounds.h"
#include "memory/table.h"

#define SG_RANGES_MAX (1u << 20) /* live allocations: bounds the library's own memory and time */

volatile uint64_t sg_mem_generation = 1;
pthread_mutex_t sg_mem_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below for writing */

static struct btr_tree table = {.peeked = true};
static struct sg_entry *spare; /* entries for later insertions, by their `next` */

/* Number of entries that only some devices may access. */
static _Atomic uint32_t uneven;

static bool is_uneven(uint32_t access)
{
    return access != 0 && access != SG_ACCESS_ALL && access != SG_ACCESS_READ;
}

/* Gives absent devices the rights of the first device, so that a single device counts as all
   devices. */
static uint32_t normal_rights(uint32_t access)
{
    for (unsigned d = sg_config.ndevices; d < 16; d++)
        access = (access & ~SG_ACCESS_OF(d)) | (access & SG_ACCESS_OF(0)) << 2 * d;
    return access;
}

static void entry_store(struct sg_entry *dst, const struct sg_entry *src)
{
    __atomic_store_n(&dst->base, src->base, __ATOMIC_RELAXED);
    __atomic_store_n(&dst->end, src->end, __ATOMIC_RELAXED);
    __atomic_store_n(&dst->owner, src->owner, __ATOMIC_RELAXED);
    __atomic_store_n(&dst->access, src->access, __ATOMIC_RELAXED);
    dst->rec = src->rec; /* read under the mutex only */
}

struct sg_entry *sg_table_find(uint64_t addr)
{
    struct btr_item item;
    struct sg_entry *e = btr_floor(&table, addr, &item) ? item.value : NULL;

    return e && addr < e->end ? e : NULL;
}

struct sg_entry *sg_table_from(uint64_t addr)
{
    struct btr_item item;
    struct sg_entry *e = sg_table_find(addr);

    if (!e && btr_ceiling(&table, addr, &item))
        e = item.value;
    return e;
}

bool sg_table_reserve(void)
{
    if (!spare)
        spare = calloc(1, sizeof(*spare));
    return spare && btr_reserve(&table);
}

/* Returns false if the range overlaps an existing entry, or if out of memory. */
bool sg_table_insert(const struct sg_entry *want, bool *overlap)
{
    const struct sg_entry *behind = sg_table_from(want->base);
    struct sg_entry mine = *want, *e;

    mine.access = normal_rights(want->access);
    *overlap = behind && behind->base < want->end;
    if (*overlap || table.count >= SG_RANGES_MAX || !sg_table_reserve())
        return false;
    e = spare;
    spare = e->next;
    entry_store(e, &mine);
    if (btr_insert(&table, mine.base, mine.end - mine.base, e) != 0)
        return false; /* impossible: the place is free, and memory is reserved */
    uneven += is_uneven(mine.access);
    return true;
}

uint64_t sg_table_count(void)
{
    return table.count;
}

void sg_table_remove(struct sg_entry *e)
{
    uneven -= is_uneven(e->access);
    btr_remove(&table, e->base, NULL);
    e->next = spare;
    spare = e;
    __atomic_fetch_add(&sg_mem_generation, 1, __ATOMIC_SEQ_CST);
}

void sg_table_set_access(struct sg_entry *e, uint32_t access)
{
    struct sg_entry changed = *e;

    changed.access = normal_rights(access);
    uneven += is_uneven(changed.access);
    uneven -= is_uneven(e->access);
    btr_change_begin(&table);
    entry_store(e, &changed);
    btr_change_end(&table);
    /* Invalidates the ranges that kernels have cached. */
    __atomic_fetch_add(&sg_mem_generation, 1, __ATOMIC_SEQ_CST);
}

static bool is_peer(const struct sg_ctx *ctx, uint32_t owner)
{
    for (unsigned i = 0; i < SG_MAX_PEERS; i++)
        if (atomic_load_explicit(&sg_space(ctx)->peers[i], memory_order_relaxed) == owner)
            return true;
    return false;
}

static bool entry_permits(const struct sg_entry *e, const struct sg_ctx *ctx, bool write)
{
    uint32_t bits = write ? SG_ACCESS_WRITE : SG_ACCESS_READ;

    return e->access & (ctx ? bits & SG_ACCESS_OF(sg_space(ctx)->device) : bits);
}

static bool entry_allows(const struct sg_entry *e, const struct sg_ctx *ctx, uint64_t addr, uint64_t size,
                         bool write)
{
    if (addr >= e->end || !sg_span_has(e->base, e->end - e->base, addr, size))
        return false;
    if (e->owner && ctx && e->owner != sg_space(ctx)->id && !is_peer(ctx, e->owner))
        return false;
    return entry_permits(e, ctx, write);
}

static bool check_done(const struct sg_entry *e, const struct sg_ctx *ctx, uint64_t addr, uint64_t size,
                       bool write, uint64_t generation, struct sg_mem_range *hit)
{
    if (!entry_allows(e, ctx, addr, size, write))
        return false;
    hit->base = e->base;
    hit->end = e->end;
    hit->generation = generation;
    hit->writable = entry_permits(e, ctx, true);
    return true;
}

bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit)
{
    const struct sg_ctx *ctx = mem;
    uint64_t generation, ticket;
    bool ok;

    for (int tries = 0; tries < 64; tries++) {
        struct sg_entry copy = {0};
        struct btr_item item;

        generation = __atomic_load_n(&sg_mem_generation, __ATOMIC_ACQUIRE);
        const enum btr_peek there = btr_peek(&table, addr, &item, &ticket);

        if (there == BTR_NONE)
            return false;
        if (there == BTR_FOUND) {
            const struct sg_entry *e = item.value;

            copy.base = __atomic_load_n(&e->base, __ATOMIC_RELAXED);
            copy.end = __atomic_load_n(&e->end, __ATOMIC_RELAXED);
            copy.owner = __atomic_load_n(&e->owner, __ATOMIC_RELAXED);
            copy.access = __atomic_load_n(&e->access, __ATOMIC_RELAXED);
            if (btr_unchanged(&table, ticket))
                return check_done(&copy, ctx, addr, size, write, generation, hit);
        }
        __builtin_ia32_pause();
    }

    pthread_mutex_lock(&sg_mem_lock);
    generation = __atomic_load_n(&sg_mem_generation, __ATOMIC_ACQUIRE);
    struct sg_entry *e = sg_table_find(addr);

    ok = e && check_done(e, ctx, addr, size, write, generation, hit);
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

CUresult sg_mem_add_peer(struct sg_ctx *ctx, uint32_t id)
{
    CUresult r = CUDA_ERROR_TOO_MANY_PEERS;

    pthread_mutex_lock(&sg_mem_lock);
    if (is_peer(ctx, id)) {
        r = CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    } else {
        for (unsigned i = 0; i < SG_MAX_PEERS && r != CUDA_SUCCESS; i++) {
            if (!atomic_load(&sg_space(ctx)->peers[i])) {
                atomic_store(&sg_space(ctx)->peers[i], id);
                r = CUDA_SUCCESS;
            }
        }
    }
    pthread_mutex_unlock(&sg_mem_lock);
    return r;
}

bool sg_mem_drop_peer(struct sg_ctx *ctx, uint32_t id)
{
    bool found = false;

    pthread_mutex_lock(&sg_mem_lock);
    for (unsigned i = 0; i < SG_MAX_PEERS; i++) {
        if (atomic_load(&sg_space(ctx)->peers[i]) == id) {
            atomic_store(&sg_space(ctx)->peers[i], 0);
            found = true;
        }
    }
    /* The ranges that kernels have cached are stale. */
    __atomic_fetch_add(&sg_mem_generation, 1, __ATOMIC_SEQ_CST);
    pthread_mutex_unlock(&sg_mem_lock);
    return found;
}

/* Only this look-up distinguishes private memory from unmapped addresses. */
static bool is_private(const struct sg_entry *e)
{
    return e->rec->info.kind == SG_MEM_PRIVATE;
}

bool sg_mem_is_private(uint64_t addr, uint64_t size)
{
    struct sg_entry *e;
    bool ok;

    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(addr);
    ok = e && is_private(e) && sg_span_has(e->base, e->end - e->base, addr, size);
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

bool sg_mem_find(uint64_t addr, struct sg_mem_info *out)
{
    struct sg_entry *e;

    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(addr);
    if (e && is_private(e))
        e = NULL;
    if (e)
        *out = e->rec->info;
    pthread_mutex_unlock(&sg_mem_lock);
    return e != NULL;
}

bool sg_mem_covers(uint64_t addr, uint64_t size, struct sg_mem_info *out)
{
    bool ok = false;

    pthread_mutex_lock(&sg_mem_lock);
    const struct sg_entry *e = sg_table_find(addr);

    if (e && !is_private(e)) {
        uint64_t end = e->end;

        *out = e->rec->info;
        /* Adjacent mappings count as one allocation. */
        for (; size > end - addr && out->kind == SG_MEM_MAPPED; end = e->end) {
            e = sg_table_find(end);
            if (!e || e->base != end || e->rec->info.kind != SG_MEM_MAPPED)
                break;
            out->writable &= e->rec->info.writable;
        }
        ok = size <= end - addr;
    }
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

bool sg_mem_reachable(int device, uint64_t addr, uint64_t size, bool write)
{
    uint32_t need = (write ? SG_ACCESS_WRITE : SG_ACCESS_READ) & SG_ACCESS_OF(device);
    bool ok = true;

    if (!uneven || !size)
        return true;
    pthread_mutex_lock(&sg_mem_lock);
    const struct sg_entry *e = sg_table_from(addr);

    for (; ok && e && e->base <= addr + (size - 1); e = sg_table_from(e->end))
        ok = !is_uneven(e->access) || (e->access & need);
    pthread_mutex_unlock(&sg_mem_lock);
    return ok;
}

void sg_mem_set_access(uint64_t base, uint32_t access)
{
    struct sg_entry *e;

    pthread_mutex_lock(&sg_mem_lock);
    e = sg_table_find(base);
    if (e && e->base == base) {
        e->rec->info.access = access;
        e->rec->info.writable = access & SG_ACCESS_WRITE;
        if (!e->rec->info.dormant)
            sg_table_set_access(e, access);
    }
    pthread_mutex_unlock(&sg_mem_lock);
}

void sg_mem_set_pool_access(uint64_t pool, uint32_t access)
{
    struct sg_entry *e;

    pthread_mutex_lock(&sg_mem_lock);
    for (e = sg_table_from(0); e; e = sg_table_from(e->end)) {
        if (e->rec->info.async && e->rec->info.pool == pool) {
            e->rec->info.access = access;
            sg_table_set_access(e, access);
        }
    }
    pthread_mutex_unlock(&sg_mem_lock);
}

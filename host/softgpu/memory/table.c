/* SPDX-License-Identifier: MIT */
/*
 * One sorted table of all memory that kernels and copies may access, with the access rights. The
 * table is written under a mutex and read by executing threads without one: readers validate what
 * they read with a sequence counter, and fall back to the mutex if writers keep interfering.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memory/bounds.h"
#include "memory/table.h"

#define SG_RANGES_MAX (1u << 20) /* live allocations: bounds our own memory and time */

struct sg_table {
    struct sg_table *retired; /* smaller tables that readers may still be looking at */
    uint32_t cap;
    uint32_t n;
    struct sg_entry e[];
};

volatile uint64_t sg_mem_generation = 1;
pthread_mutex_t sg_mem_lock = PTHREAD_MUTEX_INITIALIZER; /* guards all below for writing */

static struct sg_table *table;
static uint64_t sequence; /* odd while the table changes */

/* Entries that some devices reach and others do not. */
static _Atomic uint32_t uneven;

static bool is_uneven(uint32_t access)
{
    return access != 0 && access != SG_ACCESS_ALL && access != SG_ACCESS_READ;
}

/* The devices that there are not are as the first one: so one device alone is all devices. */
static uint32_t normal(uint32_t access)
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

static void change_begin(void)
{
    __atomic_store_n(&sequence, sequence + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void change_end(void)
{
    __atomic_store_n(&sequence, sequence + 1, __ATOMIC_RELEASE);
}

/* Index of the first entry whose end lies above addr. */
static uint32_t table_search(const struct sg_table *t, uint32_t n, uint64_t addr)
{
    uint32_t lo = 0, hi = n;

    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;

        if (__atomic_load_n(&t->e[mid].end, __ATOMIC_RELAXED) <= addr)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

struct sg_entry *sg_table_find(uint64_t addr)
{
    uint32_t i = table ? table_search(table, table->n, addr) : 0;

    return table && i < table->n && table->e[i].base <= addr ? &table->e[i] : NULL;
}

bool sg_table_reserve(void)
{
    struct sg_table *grown;

    if (table && table->n < table->cap)
        return true;
    uint32_t cap = table ? table->cap * 2 : 256;

    grown = calloc(1, sizeof(*grown) + (size_t)cap * sizeof(struct sg_entry));
    if (!grown)
        return false;
    grown->cap = cap;
    if (table) {
        grown->n = table->n;
        memcpy(grown->e, table->e, (size_t)table->n * sizeof(struct sg_entry));
        grown->retired = table;
    }
    __atomic_store_n(&table, grown, __ATOMIC_RELEASE);
    return true;
}

/* False when the range overlaps one that is there, or without memory. */
bool sg_table_insert(const struct sg_entry *e, bool *overlap)
{
    struct sg_entry mine = *e;
    uint32_t i;

    mine.access = normal(e->access);
    *overlap = false;
    if (table->n >= SG_RANGES_MAX || !sg_table_reserve())
        return false;
    i = table_search(table, table->n, e->base);
    if (i < table->n && table->e[i].base < e->end) {
        *overlap = true;
        return false;
    }
    change_begin();
    for (uint32_t k = table->n; k > i; k--)
        entry_store(&table->e[k], &table->e[k - 1]);
    entry_store(&table->e[i], &mine);
    uneven += is_uneven(mine.access);
    __atomic_store_n(&table->n, table->n + 1, __ATOMIC_RELAXED);
    change_end();
    return true;
}

void sg_table_remove(struct sg_entry *e)
{
    uint32_t i = (uint32_t)(e - table->e);

    uneven -= is_uneven(e->access);
    change_begin();
    for (uint32_t k = i; k + 1 < table->n; k++)
        entry_store(&table->e[k], &table->e[k + 1]);
    __atomic_store_n(&table->n, table->n - 1, __ATOMIC_RELAXED);
    change_end();
    __atomic_fetch_add(&sg_mem_generation, 1, __ATOMIC_SEQ_CST);
}

void sg_table_set_access(struct sg_entry *e, uint32_t access)
{
    struct sg_entry changed = *e;

    changed.access = normal(access);
    uneven += is_uneven(changed.access);
    uneven -= is_uneven(e->access);
    change_begin();
    entry_store(e, &changed);
    change_end();
    /* The ranges that kernels have cached may be stale. */
    __atomic_fetch_add(&sg_mem_generation, 1, __ATOMIC_SEQ_CST);
}

struct sg_entry *sg_table_at(uint32_t i)
{
    return table && i < table->n ? &table->e[i] : NULL;
}

static bool is_peer(const struct sg_ctx *ctx, uint32_t owner)
{
    for (unsigned i = 0; i < SG_MAX_PEERS; i++)
        if (atomic_load_explicit(&sg_space(ctx)->peers[i], memory_order_relaxed) == owner)
            return true;
    return false;
}

static bool may(const struct sg_entry *e, const struct sg_ctx *ctx, bool write)
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
    return may(e, ctx, write);
}

static bool check_done(const struct sg_entry *e, const struct sg_ctx *ctx, uint64_t addr, uint64_t size,
                       bool write, uint64_t generation, struct sg_mem_range *hit)
{
    if (!entry_allows(e, ctx, addr, size, write))
        return false;
    hit->base = e->base;
    hit->end = e->end;
    hit->generation = generation;
    hit->writable = may(e, ctx, true);
    return true;
}

bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit)
{
    const struct sg_ctx *ctx = mem;
    struct sg_entry copy;
    uint64_t generation;
    bool ok;

    for (int tries = 0; tries < 64; tries++) {
        uint64_t before = __atomic_load_n(&sequence, __ATOMIC_ACQUIRE);
        const struct sg_table *t = __atomic_load_n(&table, __ATOMIC_ACQUIRE);

        if (before & 1) {
            __builtin_ia32_pause();
            continue;
        }
        if (!t)
            return false;
        generation = __atomic_load_n(&sg_mem_generation, __ATOMIC_ACQUIRE);
        uint32_t n = __atomic_load_n(&t->n, __ATOMIC_RELAXED);

        if (n > t->cap)
            n = t->cap;
        uint32_t i = table_search(t, n, addr);

        memset(&copy, 0, sizeof(copy));
        if (i < n) {
            copy.base = __atomic_load_n(&t->e[i].base, __ATOMIC_RELAXED);
            copy.end = __atomic_load_n(&t->e[i].end, __ATOMIC_RELAXED);
            copy.owner = __atomic_load_n(&t->e[i].owner, __ATOMIC_RELAXED);
            copy.access = __atomic_load_n(&t->e[i].access, __ATOMIC_RELAXED);
        }
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (__atomic_load_n(&sequence, __ATOMIC_RELAXED) == before)
            return check_done(&copy, ctx, addr, size, write, generation, hit);
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

/* No lookup but this one tells private memory from addresses where nothing is. */
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
    uint32_t i = table ? table_search(table, table->n, addr) : 0;

    if (table && i < table->n && table->e[i].base <= addr && !is_private(&table->e[i])) {
        const struct sg_entry *e = &table->e[i];
        uint64_t end = e->end;

        *out = e->rec->info;
        /* Mappings side by side are one allocation to those who use them. */
        for (; size > end - addr && out->kind == SG_MEM_MAPPED && ++i < table->n; end = e->end) {
            e = &table->e[i];
            if (e->base != end || e->rec->info.kind != SG_MEM_MAPPED)
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
    for (uint32_t i = table_search(table, table->n, addr); ok && i < table->n; i++) {
        const struct sg_entry *e = &table->e[i];

        if (e->base > addr + (size - 1))
            break;
        ok = !is_uneven(e->access) || (e->access & need);
    }
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
    for (uint32_t i = 0; (e = sg_table_at(i)) != NULL; i++) {
        if (e->rec->info.async && e->rec->info.pool == pool) {
            e->rec->info.access = access;
            sg_table_set_access(e, access);
        }
    }
    pthread_mutex_unlock(&sg_mem_lock);
}

/* SPDX-License-Identifier: MIT */
/* Addresses for kernels, and their heap (exec/heap.h): first fit over a table with an entry per granule. */
#define _GNU_SOURCE
#include "exec/core.h"
#include "exec/heap.h"

#include <pthread.h>
#include <sys/mman.h>

/* Below the addresses of device memory (memory/sg_memory.c), far from the kernel's own choices. */
#define GUEST_HINT 0x1f0010000000ull
#define GUEST_STEP (1ull << 36)
#define GUEST_TRIES 64

#define GRANULE 64u
#define GRANULES_MAX (SG_HEAP_MAX / GRANULE)
#define USED 0x80000000u

_Static_assert(GRANULES_MAX < USED, "a length needs all bits but the highest");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t heap;                  /* 0: not yet made; written once, under the lock */
static uint64_t wanted = SG_HEAP_SIZE; /* bytes, a multiple of GRANULE */
static uint32_t granules;              /* size of the heap that is made; written under the lock */
/* At the first granule of a block: its length in granules, with USED if it is live. */
static uint32_t *table;
static uint32_t rover; /* end of the last search: the first granule of some block */

void *sg_guest_reserve(size_t size, int prot)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

    for (uint64_t i = 0; i < GUEST_TRIES; i++) {
        void *at = (void *)(uintptr_t)(GUEST_HINT + i * GUEST_STEP);
        void *p = mmap(at, size, prot, flags | MAP_FIXED_NOREPLACE, -1, 0);

        if (p == at)
            return p;
        if (p != MAP_FAILED)
            munmap(p, size); /* a sanitizer uses this range, or a kernel lacks the flag */
    }
    return mmap(NULL, size, prot, flags, -1, 0);
}

static bool heap_make(void)
{
    void *p, *t;

    if (heap)
        return true;
    t = mmap(NULL, GRANULES_MAX * sizeof(*table), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
             0);
    if (t == MAP_FAILED)
        return false;
    p = sg_guest_reserve(SG_HEAP_MAX, PROT_NONE);
    if (p == MAP_FAILED) {
        munmap(t, GRANULES_MAX * sizeof(*table));
        return false;
    }
    table = t;
    rover = 0;
    __atomic_store_n(&heap, (uint64_t)(uintptr_t)p, __ATOMIC_RELEASE);
    return true;
}

/* Joins the free blocks that follow a free block. */
static void merge_following(uint32_t i)
{
    while (i + table[i] < granules && !(table[i + table[i]] & USED)) {
        const uint32_t next = i + table[i];

        table[i] += table[next];
        table[next] = 0;
        if (rover == next)
            rover = i;
    }
}

/* The first free block of n granules that begins in [from, to); granules: none. Adds the blocks that it read. */
static uint32_t search_free(uint32_t from, uint32_t to, uint32_t n, uint32_t *blocks)
{
    uint32_t i = from;

    for (; i < to; ++*blocks) {
        if (!(table[i] & USED)) {
            merge_following(i);
            if (table[i] >= n)
                return i;
        }
        i += table[i] & ~USED;
    }
    return granules;
}

/* Appends a free block for the part of the wanted size that the heap does not have yet. */
static bool heap_grow(void)
{
    const uint64_t have = (uint64_t)granules * GRANULE;

    if (!heap_make())
        return false;
    if (wanted <= have)
        return true;
    if (mprotect(table, wanted / GRANULE * sizeof(*table), PROT_READ | PROT_WRITE) ||
        mprotect((void *)(uintptr_t)heap, wanted, PROT_READ | PROT_WRITE))
        return have != 0;
    table[granules] = (uint32_t)((wanted - have) / GRANULE);
    __atomic_store_n(&granules, (uint32_t)(wanted / GRANULE), __ATOMIC_RELEASE);
    return true;
}

void sg_exec_heap_size(uint64_t size)
{
    if (size > SG_HEAP_MAX)
        size = SG_HEAP_MAX;
    pthread_mutex_lock(&lock);
    wanted = (size + GRANULE - 1) / GRANULE * GRANULE;
    pthread_mutex_unlock(&lock);
}

uint64_t sg_exec_heap_beyond(void)
{
    uint64_t bytes;

    pthread_mutex_lock(&lock);
    bytes = (uint64_t)granules * GRANULE;
    bytes = wanted > bytes ? wanted : bytes;
    pthread_mutex_unlock(&lock);
    return bytes > SG_HEAP_SIZE ? bytes - SG_HEAP_SIZE : 0;
}

uint64_t sg_heap_alloc(uint64_t size)
{
    uint32_t blocks;

    return sg_heap_search(size, &blocks);
}

uint64_t sg_heap_search(uint64_t size, uint32_t *blocks)
{
    const uint32_t n = size > SG_HEAP_MAX ? 0 : (uint32_t)((size + GRANULE - 1) / GRANULE);
    uint64_t addr = 0;
    uint32_t i;

    *blocks = 0;
    if (!n)
        return 0;
    pthread_mutex_lock(&lock);
    if (heap_grow()) {
        i = search_free(rover, granules, n, blocks);
        if (i == granules)
            i = search_free(0, granules, n, blocks);
        if (i < granules) {
            if (table[i] > n)
                table[i + n] = table[i] - n;
            table[i] = n | USED;
            rover = i;
            addr = heap + (uint64_t)i * GRANULE;
        }
    }
    pthread_mutex_unlock(&lock);
    return addr;
}

bool sg_heap_free(uint64_t addr)
{
    uint64_t off;
    bool ok = false;

    if (!addr)
        return true;
    pthread_mutex_lock(&lock);
    off = addr - heap;
    if (heap && off < (uint64_t)granules * GRANULE && !(off % GRANULE) && (table[off / GRANULE] & USED)) {
        table[off / GRANULE] &= ~USED;
        merge_following((uint32_t)(off / GRANULE));
        ok = true;
    }
    pthread_mutex_unlock(&lock);
    return ok;
}

void sg_heap_range(uint64_t *base, uint64_t *end)
{
    *base = __atomic_load_n(&heap, __ATOMIC_ACQUIRE);
    *end = *base ? *base + (uint64_t)__atomic_load_n(&granules, __ATOMIC_ACQUIRE) * GRANULE : 0;
}

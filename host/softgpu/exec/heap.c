/* SPDX-License-Identifier: MIT */
/* See exec/heap.h. First fit over a table with an entry per granule. */
#include "exec/core.h"
#include "exec/heap.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>

#define GRANULE 64u
#define GRANULES (SG_HEAP_SIZE / GRANULE)
#define USED 0x80000000u

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t heap; /* 0: not yet made; written once, under the lock */
/* At the first granule of a block: its length in granules, with USED if it is live. */
static uint32_t *table;
static uint32_t rover; /* end of the last search: the first granule of some block */

static bool heap_make(void)
{
    void *p;

    if (heap)
        return true;
    table = calloc(GRANULES, sizeof(*table));
    if (!table)
        return false;
    p = sg_guest_reserve(SG_HEAP_SIZE, PROT_READ | PROT_WRITE);
    if (p == MAP_FAILED) {
        free(table);
        table = NULL;
        return false;
    }
    table[0] = GRANULES;
    rover = 0;
    __atomic_store_n(&heap, (uint64_t)(uintptr_t)p, __ATOMIC_RELEASE);
    return true;
}

/* Joins the free blocks that follow a free block. */
static void merge_following(uint32_t i)
{
    while (i + table[i] < GRANULES && !(table[i + table[i]] & USED)) {
        const uint32_t next = i + table[i];

        table[i] += table[next];
        table[next] = 0;
        if (rover == next)
            rover = i;
    }
}

/* The first free block of n granules that begins in [from, to); GRANULES: none. */
static uint32_t search_free(uint32_t from, uint32_t to, uint32_t n)
{
    uint32_t i = from;

    while (i < to) {
        if (!(table[i] & USED)) {
            merge_following(i);
            if (table[i] >= n)
                return i;
        }
        i += table[i] & ~USED;
    }
    return GRANULES;
}

uint64_t sg_heap_alloc(uint64_t size)
{
    const uint32_t n = size > SG_HEAP_SIZE ? 0 : (uint32_t)((size + GRANULE - 1) / GRANULE);
    uint64_t addr = 0;
    uint32_t i;

    if (!n)
        return 0;
    pthread_mutex_lock(&lock);
    if (heap_make()) {
        i = search_free(rover, GRANULES, n);
        if (i == GRANULES)
            i = search_free(0, GRANULES, n);
        if (i < GRANULES) {
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
    if (heap && off < SG_HEAP_SIZE && !(off % GRANULE) && (table[off / GRANULE] & USED)) {
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
    *end = *base ? *base + SG_HEAP_SIZE : 0;
}

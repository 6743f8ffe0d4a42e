/* SPDX-License-Identifier: MIT */
/*
 * Addresses reserved by programs (cuMemAddressReserve), from a range that is reserved as a whole
 * when the library starts and contains nothing else. A table of this file tracks its free parts.
 * The kernel is never asked: its answer would depend on the other mappings of the process, so a
 * program could find these by trying addresses. A hint outside the range has no effect, whatever
 * lies there.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/mman.h>

#include "memory/arena.h"
#include "memory/memory.h"

/*
 * A fixed range in which neither address-space layout of Linux places mappings by itself: on x86-64
 * between the legacy layout's mappings (from a third of the address space on) and the executable
 * (two thirds), on arm64 below the legacy layout's mappings; both with the largest
 * vm.mmap_rnd_bits. Fixed, so that processes can agree on an address.
 */
#if defined(__x86_64__)
#define SG_RESERVE_START 0x400000000000ull
#else
#define SG_RESERVE_START 0x300000000000ull
#endif
#define SG_RESERVE_SIZE (1ull << 44)
#define SG_RESERVE_SIZE_MIN (1ull << 32) /* under RLIMIT_AS, or if a sanitizer uses the range */

static pthread_mutex_t reserve_lock = PTHREAD_MUTEX_INITIALIZER;
static struct sg_arena reserve_space;
static uint64_t reserved; /* bytes */

/* Not writable: the range is empty and must not count as memory of this process (RLIMIT_DATA). */
static void *reserve_map(uint64_t at, uint64_t size, int flags)
{
    return mmap((void *)at, size, PROT_READ, flags | MAP_NORESERVE | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

bool sg_mem_reserve_init(void)
{
    for (uint64_t size = SG_RESERVE_SIZE; size >= SG_RESERVE_SIZE_MIN; size /= 2) {
        void *p = reserve_map(SG_RESERVE_START, size, MAP_FIXED_NOREPLACE);

        if (p == MAP_FAILED)
            p = reserve_map(SG_RESERVE_START, size, 0);
        if (p == MAP_FAILED)
            continue;
        uint64_t start = ((uint64_t)(uintptr_t)p + SG_RESERVE_ALIGN - 1) & ~(SG_RESERVE_ALIGN - 1);

        if (sg_arena_init(&reserve_space, start, size - (start - (uint64_t)(uintptr_t)p)))
            return true;
        munmap(p, size);
        return false;
    }
    return true; /* as if the whole range were in use */
}

bool sg_mem_reserve(uint64_t want, uint64_t size, uint64_t align, uint64_t *out)
{
    bool ok;

    if (want > UINT64_MAX - align)
        want = 0;
    want = (want + align - 1) & ~(align - 1);
    pthread_mutex_lock(&reserve_lock);
    ok = want && sg_arena_take_at(&reserve_space, want, size);
    if (ok)
        *out = want;
    else
        ok = sg_arena_take(&reserve_space, size, align, out);
    reserved += ok ? size : 0;
    pthread_mutex_unlock(&reserve_lock);
    return ok;
}

void sg_mem_unreserve(uint64_t base, uint64_t size)
{
    /* First of all empty again: memory that was mapped there must not stay. */
    if (!sg_mem_reserve_clear(base, size))
        return; /* lost */
    pthread_mutex_lock(&reserve_lock);
    sg_arena_give(&reserve_space, base, size);
    reserved -= size;
    pthread_mutex_unlock(&reserve_lock);
}

uint64_t sg_mem_reserved(void)
{
    pthread_mutex_lock(&reserve_lock);
    uint64_t n = reserved;

    pthread_mutex_unlock(&reserve_lock);
    return n;
}

bool sg_mem_reserve_clear(uint64_t base, uint64_t size)
{
    return reserve_map(base, size, MAP_FIXED) == (void *)base;
}

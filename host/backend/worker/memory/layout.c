/* SPDX-License-Identifier: MIT */
/*
 * Where memory of the guest is mapped: at the guest's own address, except near what this process
 * itself has. Those places are random, and an answer of "taken" must not tell a guest where they are:
 * each has a margin of random size, in which a guest's address is never used although it is free.
 * Memory that is moved goes to a random place that says nothing about the others.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "vgp_ring.h"
#include "memory.h"

#define VA_LOW UINT64_C(0x10000)
#define VA_LIMIT (UINT64_C(1) << 47)
#define MARGIN (UINT64_C(1) << 33)     /* on each side of own mappings: 1 to 2 times that */
#define ROOM_ABOVE (UINT64_C(1) << 36) /* where the kernel puts what this process maps later */
#define BLOCKS_MAX 32u

/* Moved regions: between what the kernel gives to processes of the usual and of the old layout. */
#define MOVED_LOW (UINT64_C(1) << 44)
#define MOVED_SIZE (UINT64_C(1) << 44)
#define MOVED_TRIES 16

static struct block {
    uint64_t low, high;
} blocks[BLOCKS_MAX];
static unsigned nblocks;

static uint64_t random_pages(uint64_t below)
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return 0;
    return r % below & ~(uint64_t)(VGP_PAGE - 1);
}

/* Mappings with less than two margins between them are one block. */
static bool note(uint64_t low, uint64_t high)
{
    struct block *last = nblocks ? &blocks[nblocks - 1] : NULL;

    if (last && low - last->high < 4 * MARGIN) {
        last->high = high;
        return true;
    }
    if (nblocks == BLOCKS_MAX)
        return false;
    blocks[nblocks++] = (struct block){low, high};
    return true;
}

bool wrk_layout_init(void)
{
    const uint64_t here = (uintptr_t)mmap(NULL, VGP_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *f = fopen("/proc/self/maps", "re");
    unsigned long long low, high;
    char line[600];
    bool ok = f != NULL;

    nblocks = 0;
    while (ok && fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx", &low, &high) == 2 && low < VA_LIMIT)
            ok = note(low, high);
    }
    if (f)
        fclose(f);
    for (unsigned i = 0; i < nblocks; i++) {
        struct block *b = &blocks[i];
        const bool grows = here >= b->low && here < b->high;
        const uint64_t below = MARGIN + random_pages(MARGIN), above = MARGIN + random_pages(MARGIN);

        b->low = b->low > below ? b->low - below : 0;
        b->high += above + (grows ? ROOM_ABOVE : 0);
    }
    munmap((void *)(uintptr_t)here, VGP_PAGE);
    return ok;
}

bool wrk_layout_may_keep(uint64_t va, uint64_t length)
{
    if (va < VA_LOW || va >= VA_LIMIT || length > VA_LIMIT - va)
        return false;
    for (unsigned i = 0; i < nblocks; i++) {
        if (va < blocks[i].high && va + length > blocks[i].low)
            return false;
    }
    return true;
}

uint8_t *wrk_layout_reserve_at(uint64_t va, uint64_t length)
{
    void *p = mmap((void *)(uintptr_t)va, length, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);

    if (p != MAP_FAILED && (uintptr_t)p != va) { /* kernel without FIXED_NOREPLACE */
        munmap(p, length);
        p = MAP_FAILED;
    }
    return p == MAP_FAILED ? NULL : p;
}

uint8_t *wrk_layout_reserve(uint64_t va, uint64_t length)
{
    uint8_t *p = wrk_layout_may_keep(va, length) ? wrk_layout_reserve_at(va, length) : NULL;

    for (int i = 0; !p && i < MOVED_TRIES && length < MOVED_SIZE; i++) {
        const uint64_t at = MOVED_LOW + random_pages(MOVED_SIZE - length);

        p = wrk_layout_may_keep(at, length) ? wrk_layout_reserve_at(at, length) : NULL;
    }
#ifdef __SANITIZE_THREAD__ /* has most addresses for itself: where it likes (scripts/san.sh) */
    if (!p && length < MOVED_SIZE) {
        void *any = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        p = any == MAP_FAILED ? NULL : any;
    }
#endif
    return p;
}

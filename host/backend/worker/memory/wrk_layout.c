/* SPDX-License-Identifier: MIT */
/*
 * Where memory of the guest is mapped: at the guest's own address, except in ranges where this
 * process has something of its own. Those things are at random places, and an answer of "taken"
 * must not tell a guest where they are. So it depends on nothing finer than areas of 32 GiB: in an
 * area that is this process's no address is the guest's, free or not, and outside of them there is
 * nothing but memory of the guest and what the provider gives out. The same function decides for
 * regions, for memory that is moved and for the hint of a reservation.
 *
 * Areas are this process's by the kernel's rules, whatever is in them: all of what the old layout
 * maps upwards from (wrk_main.c starts this process so) and the stack's. The executable is where a
 * guest's executable is, too: its area and the next one, for the heap behind it, are all that
 * depends on chance.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "vgp_ring.h"
#include "memory.h"

#define VA_LOW UINT64_C(0x10000)
#define VA_BITS 47
#define VA_LIMIT (UINT64_C(1) << VA_BITS)
#define AREA_BITS 35
#define AREAS (1u << (VA_BITS - AREA_BITS))

/*
 * From TASK_UNMAPPED_BASE on, which is moved up by at most 2^32 pages on x86-64 and 2^33 on arm64
 * (vm.mmap_rnd_bits); on x86-64 that leaves at least 5 TiB for what is mapped later.
 */
#if defined(__x86_64__)
#define OLD_LAYOUT UINT64_C(0x2aaaaaaaa000)
#define OLD_LAYOUT_END UINT64_C(0x400000000000)
#else
#define OLD_LAYOUT UINT64_C(0x400000000000)
#define OLD_LAYOUT_END VA_LIMIT
#endif

/* Moved regions: below what the kernel gives to processes of the usual and of the old layout, and
 * below what kernels of the software GPU see as other memory (from 0x1f0000000000 on). */
#define MOVED_LOW (UINT64_C(1) << 44)
#define MOVED_SIZE (UINT64_C(14) << 40)
/*
 * What this process shares with the provider or the client: areas of this process's, each thing at
 * a random place, so that where one is says nothing about another, nor about the rest of the
 * process.
 */
#define PRIVATE_LOW (MOVED_LOW + MOVED_SIZE)
#define PRIVATE_SIZE (UINT64_C(1) << 40)
/*
 * Behind them, up to its device memory, the software GPU maps what kernels see besides (its
 * exec/sg_access.c): were a guest's memory there first, it would map that among the rest of the
 * process, and kernels see where.
 */
#define KEPT_END (UINT64_C(1) << 45)
#define PLACE_TRIES 16

static uint64_t random_pages(uint64_t below)
{
    uint64_t r = 0;

    if (getrandom(&r, sizeof(r), 0) != (ssize_t)sizeof(r))
        return 0;
    return r % below & ~(uint64_t)(VGP_PAGE - 1);
}

static uint64_t own[AREAS / 64]; /* bitmap of areas */

static bool area_is_own(uint64_t area)
{
    return own[area / 64] >> area % 64 & 1;
}

/* The areas of [low, high), and at least `least` of them. */
static void areas_take(uint64_t low, uint64_t high, unsigned least)
{
    const uint64_t first = low >> AREA_BITS, end = ((high - 1) >> AREA_BITS) + 1;

    for (uint64_t a = first; a < AREAS && (a < end || a < first + least); a++)
        own[a / 64] |= UINT64_C(1) << a % 64;
}

/* By the kernel's rules, regardless of actual mappings. */
static bool in_fixed_areas(uint64_t va)
{
    return (va >= OLD_LAYOUT && va < OLD_LAYOUT_END) || (va >= PRIVATE_LOW && va < KEPT_END) ||
           va >> AREA_BITS == AREAS - 1;
}

/*
 * Mappings with less than an area between them are one thing, as the executable and its heap. It
 * has the area in which it begins and the next one, so that it does not show whether it reaches
 * into that, and it may grow.
 */
static bool areas_take_mappings(FILE *f)
{
    unsigned long long low, high;
    uint64_t from = 0, to = 0;
    char line[600];

    while (fgets(line, sizeof(line), f)) {
        if (sscanf(line, "%llx-%llx", &low, &high) != 2 || low >= VA_LIMIT || in_fixed_areas(low))
            continue;
        if (to && low - to >= UINT64_C(1) << AREA_BITS) {
            areas_take(from, to, 2);
            to = 0;
        }
        if (!to)
            from = low;
        to = high;
    }
    if (to)
        areas_take(from, to, 2);
    return !ferror(f);
}

bool wrk_layout_init(void)
{
    /* not the legacy layout: room to map downwards */
    const uint64_t below = UINT64_C(2) << AREA_BITS;
    const uint64_t here = (uintptr_t)mmap(NULL, VGP_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *f = fopen("/proc/self/maps", "re");
    bool ok = f && here < VA_LIMIT;

    memset(own, 0, sizeof(own));
    areas_take(OLD_LAYOUT, OLD_LAYOUT_END, 0);
    areas_take(PRIVATE_LOW, KEPT_END, 0);
    /* the stack: at most 16 GiB and its limit below the end */
    areas_take(VA_LIMIT - 1, VA_LIMIT, 0);
    ok = ok && areas_take_mappings(f);
    if (f)
        fclose(f);
    if (!in_fixed_areas(here))
        areas_take(here > below ? here - below : 0, here + 1, 0);
    munmap((void *)(uintptr_t)here, VGP_PAGE);
    return ok;
}

bool wrk_layout_may_keep(uint64_t va, uint64_t length)
{
    if (va < VA_LOW || va >= VA_LIMIT || !length || length > VA_LIMIT - va)
        return false;
    for (uint64_t a = va >> AREA_BITS; a <= (va + length - 1) >> AREA_BITS; a++) {
        if (area_is_own(a))
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

/* Any address: only where ThreadSanitizer occupies most addresses (scripts/san.sh). */
static uint8_t *reserve_anywhere(uint64_t length)
{
#ifdef __SANITIZE_THREAD__
    void *any = mmap(NULL, length, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return any == MAP_FAILED ? NULL : any;
#else
    (void)length;
    return NULL;
#endif
}

uint8_t *wrk_layout_reserve(uint64_t va, uint64_t length)
{
    uint8_t *p = wrk_layout_may_keep(va, length) ? wrk_layout_reserve_at(va, length) : NULL;

    for (int i = 0; !p && i < PLACE_TRIES && length < MOVED_SIZE; i++) {
        const uint64_t at = MOVED_LOW + random_pages(MOVED_SIZE - length);

        p = wrk_layout_may_keep(at, length) ? wrk_layout_reserve_at(at, length) : NULL;
    }
    return !p && length < MOVED_SIZE ? reserve_anywhere(length) : p;
}

uint8_t *wrk_layout_private(uint64_t length)
{
    uint8_t *p = NULL;

    for (int i = 0; !p && i < PLACE_TRIES && length < PRIVATE_SIZE; i++)
        p = wrk_layout_reserve_at(PRIVATE_LOW + random_pages(PRIVATE_SIZE - length), length);
    return p || length >= PRIVATE_SIZE ? p : reserve_anywhere(length);
}

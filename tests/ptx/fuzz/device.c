/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALLOCS 4096 /* the longest input cannot declare as many globals */

volatile uint64_t sg_mem_generation = 1;
static struct {
    uint8_t *p, *map, *heap; /* map: what to unmap, NULL: from the heap, at heap */
    size_t size, mapped;
} allocs[ALLOCS];
static unsigned nallocs;

#define PAGE 4096u
#define ALIGN 256u

/*
 * FZ_GUARD=1: each block ends (except for its alignment) at an inaccessible page, and begins behind one.
 * Detects accesses by native code, which AddressSanitizer does not instrument.
 */
static uint8_t *guarded(size_t size, size_t *mapped, uint8_t **map)
{
    const size_t room = (size + ALIGN - 1) & ~(size_t)(ALIGN - 1),
                 pages = (room + PAGE - 1) & ~(size_t)(PAGE - 1);
    uint8_t *p;

    *mapped = pages + 2 * PAGE;
    p = mmap(NULL, *mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + PAGE, pages, PROT_READ | PROT_WRITE))
        abort();
    *map = p;
    return p + PAGE + pages - room;
}

void *fz_alloc(size_t size)
{
    void *p = NULL;
    static int guard = -1;

    if (guard < 0)
        guard = getenv("FZ_GUARD") != NULL;
    if (nallocs == ALLOCS)
        abort();
    allocs[nallocs].map = NULL;
    if (guard)
        p = guarded(size, &allocs[nallocs].mapped, &allocs[nallocs].map);
    else if (posix_memalign(&p, ALIGN, size)) /* AddressSanitizer's guard begins at the next byte */
        abort();
    memset(p, 0, size);
    allocs[nallocs].p = allocs[nallocs].heap = p;
    allocs[nallocs++].size = size;
    return p;
}

void *fz_alloc_between(size_t size, size_t margin, uint8_t fill)
{
    uint8_t *whole = fz_alloc(size + 2 * margin);

    memset(whole, fill, size + 2 * margin);
    allocs[nallocs - 1].p = whole + margin;
    allocs[nallocs - 1].size = size;
    return whole + margin;
}

void fz_free_all(void)
{
    while (nallocs--) {
        if (allocs[nallocs].map)
            munmap(allocs[nallocs].map, allocs[nallocs].mapped);
        else
            free(allocs[nallocs].heap);
    }
    nallocs = 0;
    sg_mem_generation++;
}

void fz_no_print(void *ctx, const char *text, size_t len)
{
    volatile char last;

    (void)ctx;
    if (len)
        last = text[len - 1]; /* it must be readable */
    (void)last;
}

bool sg_mem_check(void *mem, uint64_t addr, uint64_t size, bool write, struct sg_mem_range *hit)
{
    (void)mem;
    (void)write;
    for (unsigned i = 0; i < nallocs; i++) {
        uint64_t b = (uintptr_t)allocs[i].p;

        if (addr >= b && addr - b <= allocs[i].size && size <= allocs[i].size - (addr - b)) {
            *hit = (struct sg_mem_range){b, b + allocs[i].size, sg_mem_generation, true};
            return true;
        }
    }
    return false;
}

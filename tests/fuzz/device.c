/* SPDX-License-Identifier: MIT */
#include "device.h"

#include <stdlib.h>
#include <string.h>

#define ALLOCS 4096 /* the longest input cannot declare as many globals */

volatile uint64_t sg_mem_generation = 1;
static struct {
    uint8_t *p;
    size_t size;
} allocs[ALLOCS];
static unsigned nallocs;

void *fz_alloc(size_t size)
{
    /* A size that is no multiple of the alignment: the guard begins at the very next byte. */
    void *p = NULL;

    if (nallocs == ALLOCS || posix_memalign(&p, 256, size))
        abort();
    memset(p, 0, size);
    allocs[nallocs].p = p;
    allocs[nallocs++].size = size;
    return p;
}

void fz_free_all(void)
{
    while (nallocs)
        free(allocs[--nallocs].p);
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

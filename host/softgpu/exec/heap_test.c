/* SPDX-License-Identifier: MIT */
/* The heap of device code against a model: blocks of all sizes, freed in any order, and invalid addresses. */
#include "exec/exec_test.h"
#include "exec/heap.h"

#include <stdlib.h>
#include <string.h>

#define BLOCKS 200u
#define STEPS 20000u

static struct block {
    uint64_t addr, size;
    uint8_t fill;
} blocks[BLOCKS];

static bool holds(const struct block *b)
{
    const uint8_t *p = (const uint8_t *)(uintptr_t)b->addr;

    for (uint64_t i = 0; i < b->size; i++) {
        if (p[i] != b->fill)
            return false;
    }
    return true;
}

/* Only the start of a block can be freed; attempts with other addresses leave the block alone. */
static void test_inside(void)
{
    const uint64_t size = 1000, a = sg_heap_alloc(size), after = sg_heap_alloc(1);
    unsigned freed = 0;

    for (uint64_t at = a + 1; at < after; at++)
        freed += sg_heap_free(at);
    t_result("an address inside of a block is not freed", a && after > a && !freed, "%u were", freed);
    t_result("the block is there still", sg_heap_free(a) && !sg_heap_free(a) && sg_heap_free(after), "no");
}

/* Blocks never overlap, after any frees, and keep their contents. */
static void test_model(void)
{
    unsigned lost = 0, refused = 0;
    uint64_t all;

    srand(1);
    for (unsigned step = 0; step < STEPS; step++) {
        struct block *b = &blocks[(unsigned)rand() % BLOCKS];

        if (b->addr) {
            lost += !holds(b);
            refused += !sg_heap_free(b->addr);
            *b = (struct block){0};
            continue;
        }
        b->size = 1 + (uint64_t)rand() % (rand() % 8 ? 300 : 60000);
        b->fill = (uint8_t)(1 + rand() % 255);
        b->addr = sg_heap_alloc(b->size);
        if (b->addr)
            memset((void *)(uintptr_t)b->addr, b->fill, b->size);
        refused += !b->addr || b->addr % 16;
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (blocks[i].addr) {
            lost += !holds(&blocks[i]);
            refused += !sg_heap_free(blocks[i].addr);
        }
    }
    t_result("blocks keep what was written", !lost, "%u did not", lost);
    t_result("blocks are given and freed", !refused, "%u were refused", refused);
    all = sg_heap_alloc(SG_HEAP_SIZE);
    t_result("all of the heap is free in the end", all && sg_heap_free(all), "no");
}

/* A larger size takes effect while blocks are live; they stay where they are. */
static void test_growth(void)
{
    const uint64_t a = sg_heap_alloc(100), none = sg_heap_alloc(SG_HEAP_SIZE);
    uint64_t base, end, large, second;

    memset((void *)(uintptr_t)a, 7, 100);
    sg_exec_heap_size(4ull * SG_HEAP_SIZE + 1);
    large = sg_heap_alloc(2ull * SG_HEAP_SIZE);
    sg_heap_range(&base, &end);
    t_result("the heap grows to the size that is set",
             a && !none && large && end - base == 4ull * SG_HEAP_SIZE + 64, "%llx %llx, %llu bytes",
             (unsigned long long)none, (unsigned long long)large, (unsigned long long)(end - base));
    if (large)
        memset((void *)(uintptr_t)large, 9, 2ull * SG_HEAP_SIZE);
    t_result("earlier blocks stay", holds(&(struct block){a, 100, 7}), "no");
    sg_exec_heap_size(SG_HEAP_SIZE);
    second = sg_heap_alloc(SG_HEAP_SIZE);
    t_result("a heap in use does not shrink",
             second && sg_heap_free(second) && sg_heap_free(large) && sg_heap_free(a), "%llx",
             (unsigned long long)second);
    sg_exec_heap_size(UINT64_MAX);
    second = sg_heap_alloc(SG_HEAP_MAX + 1);
    t_result("the largest size", !second && !sg_heap_alloc(UINT64_MAX), "%llx", (unsigned long long)second);
}

int main(int argc, char **argv)
{
    t_variant(argc, argv);
    test_inside();
    test_model();
    test_growth();
    return t_end("softgpu heap");
}

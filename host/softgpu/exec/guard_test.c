/* SPDX-License-Identifier: MIT */
/* Implementation of guard_test.h. Register files of a block are adjacent, so an index beyond the last
   register reaches the next warp. */
#define _GNU_SOURCE
#include "exec/guard_test.h"
#include "exec/core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define REACH (1ull << 32)
#define PAGE ((size_t)4096)
#define WARPS 16

static struct {
    uint8_t *regs, *local, *stack;
    size_t regs_size, local_size, stack_size; /* there was room for */
} warps[WARPS];
static unsigned used;
static const struct sg_code *code;
static sg_fn first;

void *tg_room(size_t size, size_t align)
{
    const size_t room = (size + align - 1) & ~(align - 1), pages = (room + PAGE - 1) & ~(PAGE - 1);
    uint8_t *p = mmap(NULL, 2 * REACH + pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (p == MAP_FAILED || (pages && mprotect(p + REACH, pages, PROT_READ | PROT_WRITE)))
        abort();
    return p + REACH + pages - room;
}

/* Memory of this size: the previous allocation if of the same size, or a new one. */
static uint8_t *again(uint8_t **at, size_t *had, size_t size)
{
    if (!*at || *had != size)
        *at = tg_room(size, 128);
    *had = size;
    return *at;
}

static void move(struct sg_warp *w)
{
    /* one allocation, including any space that native code needs before the registers */
    const size_t before = code->native_bytes, regs = code->regfile_bytes + SG_NATIVE_BYTES,
                 local = (size_t)w->cta->local_bytes * SG_LANES,
                 stack = (size_t)w->cta->stack_words * 4 * SG_LANES;
    const unsigned k = __atomic_fetch_add(&used, 1, __ATOMIC_RELAXED);

    if (k >= WARPS)
        abort();
    again(&warps[k].regs, &warps[k].regs_size, regs);
    memcpy(warps[k].regs + SG_NATIVE_BYTES - before, w->base[0] - before, before + code->regfile_bytes);
    w->base[0] = warps[k].regs + SG_NATIVE_BYTES;
    w->local = memcpy(again(&warps[k].local, &warps[k].local_size, local), w->local, local);
    w->stack = memcpy(again(&warps[k].stack, &warps[k].stack_size, stack), w->stack, stack);
}

static bool has_moved(const struct sg_warp *w)
{
    for (unsigned k = 0; k < WARPS; k++)
        if (w->base[0] - SG_NATIVE_BYTES == warps[k].regs)
            return true;
    return false;
}

static int enter(struct sg_warp *w, const struct sg_insn *in)
{
    if (!has_moved(w))
        move(w);
    return first(w, in);
}

void tg_arm(struct sg_code *c)
{
    used = 0;
    code = c;
    first = c->insns[0].fn;
    c->insns[0].fn = enter;
}

unsigned tg_moved(void)
{
    return used;
}

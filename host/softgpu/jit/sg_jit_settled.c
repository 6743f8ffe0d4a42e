/* SPDX-License-Identifier: MIT */
/* Settled versions of blocks (jit/late.h): the question for one, when to compile it, and the comparison that it begins with. */
#include "jit/late.h"
#include "jit/late_state.h"
#include "jit/memory/affine.h"
#include "jit/memory/sums.h"

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>

#define SETTLE_AFTER 4u     /* runs of a block with known lanes, then its settled version is compiled */
#define SETTLE_ALONE 64u    /* the same, where only one block of a launch has come there */
#define SETTLE_PASSES 4096u /* runs without it, then there will be none */

size_t sg_jit_settled_ask(struct jit *j, u32 first)
{
    struct sg_late *l = j->late;
    const u32 k = LATE_MASKED * l->nblocks + sg_late_block(l, first);
    const size_t at = here(B(j));

    mov_imm64(B(j), RCX, k);
    mov_imm64(B(j), RDX, (u64)(uintptr_t)&l->entry[k]);
    put8(B(j), 0xff); /* jmp [rdx] */
    put8(B(j), 0x22);
    l->settle[sg_late_block(l, first)].usual = here(B(j));
    return at;
}

void sg_jit_settled_note(struct jit *j, u32 first, size_t at, u32 sites)
{
    struct late_settle *s = &j->late->settle[sg_late_block(j->late, first)];

    s->sites = sites;
    s->nsites = j->nsites - sites;
    s->affine = j->affine ? sg_jit_affine_of(j) : NULL;
    if (s->nsites || j->b.failed)
        return;
    j->b.p[at] = 0xeb; /* jmp: over the question */
    j->b.p[at + 1] = (u8)(s->usual - at - 2);
}

#define SETTLE_REACH (1 << 28) /* bytes: of displacements, whose sums must fit 32 bits */

/* True if a load's lanes lie as its settled code may assume. */
static bool lies_as_known(const struct sg_late *l, const struct site *x, u8 lie)
{
    const s64 imm = l->code->insns[x->insn].imm;
    const struct sg_window *w = x->window;

    if (lie == LIE_IN_WINDOWS)
        return w->low > -SETTLE_REACH && w->span < SETTLE_REACH && imm > -SETTLE_REACH && imm < SETTLE_REACH;
    return lie != LIE_UNKNOWN;
}

void sg_jit_settled_watch(const struct sg_late *l, struct late_settle *s, const struct sg_warp *w)
{
    const u32 n = (l->code->slots_end + 127) >> 7;

    if (w->index || (s->first && s->block == w->cta->block))
        return;
    if (!s->first) {
        s->first = calloc(n, sizeof(*s->first) + sizeof(*s->moves));
        if (!s->first)
            return;
        s->moves = (u8 *)(s->first + n);
        s->block = w->cta->block;
        for (u32 i = 0; i < n; i++)
            memcpy(&s->first[i], w->base[0] + (size_t)128 * i, sizeof(*s->first));
    }
    s->others |= s->block != w->cta->block;
    for (u32 i = 0; i < n; i++)
        s->moves[i] |= memcmp(&s->first[i], w->base[0] + (size_t)128 * i, sizeof(*s->first)) != 0;
    s->block = w->cta->block;
}

bool sg_jit_settled_may(const struct sg_late *l, struct late_settle *s, const struct sg_warp *w, bool *never)
{
    u32 known = 0, apart = 0;

    for (u32 k = s->sites + 1; k <= s->sites + s->nsites; k++) {
        known += lies_as_known(l, &l->sites[k], w->lie[k]);
        apart += w->lie[k] == LIE_APART;
    }
    *never = s->passes++ >= SETTLE_PASSES;
    if (*never || known != s->nsites || apart == s->nsites)
        return false;
    return ++s->known >= (s->others ? SETTLE_AFTER : SETTLE_ALONE);
}

void sg_jit_settled_compare(struct jit *j, const struct late_settle *s)
{
    const u8 *lie = j->settled + s->sites + 1;
    const s32 at = (s32)(offsetof(struct sg_warp, lie) + s->sites + 1);
    struct buf *b = B(j);

    for (u32 k = 0, n; k < s->nsites; k += n) {
        size_t same;
        u64 v = 0;

        n = s->nsites - k >= 8 ? 8 : s->nsites - k >= 4 ? 4 : 1;
        memcpy(&v, lie + k, n);
        if (n == 1) {
            alu_mem_imm8(b, true, 7, G_WARP, at + (s32)k, (u32)v);
        } else {
            mov_imm64(b, RAX, v);
            alu_mem(b, n == 8, 0x3b, RAX, G_WARP, at + (s32)k);
        }
        same = jcc(b, JE);
        mov_imm64(b, RAX, s->usual);
        put8(b, 0xff); /* jmp rax */
        put8(b, 0xe0);
        land(b, same);
    }
}

#endif

/* SPDX-License-Identifier: MIT */
/* Parts of loads and stores, of global and of shared memory: the way out of line, rows of lanes, the upper half. */
#include "jit/avx2/avx2.h"
#include "jit/memory/memory_ops.h"
#include <string.h>

#ifdef SG_JIT

void sg_jit_slow(struct jit *j, struct stub *s, u32 cond)
{
    if (!s)
        return; /* out of memory: failed is set */
    if (s->njumps == sizeof(s->jumps) / sizeof(s->jumps[0])) {
        j->b.failed = true; /* without this check the access would not be checked */
        return;
    }
    /* a register written back from here on would be saved again, from a place that it has left */
    if (!s->njumps) {
        s->v = j->v;
        s->nsums = j->nsums;
        memcpy(s->sums, j->sums, sizeof(s->sums));
    }
    j->b.failed |= s->v.dirty != j->v.dirty || s->nsums != j->nsums ||
                   memcmp(s->sums, j->sums, j->nsums * sizeof(j->sums[0])) != 0;
    if (j->b.avx2) {
        cond = sg_avx2_test(B(j), cond);
        sg_avx2_unsaved(B(j), s->unsaved[s->njumps]);
    }
    s->jumps[s->njumps++] = put_jcc(B(j), cond);
}

void sg_jit_joined(struct jit *j, struct stub *s)
{
    if (!s)
        return;
    s = &j->stubs[j->nstubs - 1];
    s->back = B(j)->n;
    s->after = j->v;
    if (!j->b.avx2)
        return;
    s->aliases = sg_avx2_aliases(B(j));
    sg_avx2_kept(B(j), s->kept);
}

void sg_jit_spin(struct jit *j, const struct sg_insn *in)
{
    if (!(in->aux & SG_AUX_SPIN))
        return;
    store_imm8(B(j), G_WARP, offsetof(struct sg_warp, spin), 1);
}

/* Distances of consecutive lanes, for elements of 4 and of 8 bytes. */
static const u64 in_row[2][SG_LANES] __attribute__((aligned(64))) = {
    {0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,
     64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124},
    {0,   8,   16,  24,  32,  40,  48,  56,  64,  72,  80,  88,  96,  104, 112, 120,
     128, 136, 144, 152, 160, 168, 176, 184, 192, 200, 208, 216, 224, 232, 240, 248}};

size_t sg_jit_row_test(struct jit *j, const u32 ad[4], u32 n)
{
    struct buf *b = B(j);

    mov_imm64(b, RSI, (u64)(uintptr_t)in_row[n - 1]);
    ev(b, BCAST_M64, 0, 0, ad[0], 0, 0);
    for (u32 h = 0; h < sg_jit_n(j, true); h++) {
        evm(b, VPADDQ, 2 + (h & 1), 0, RSI, (s32)(64 * h), 64, 0, 0);
        evi(b, CMPUQ, 1, ad[h], 2 + (h & 1), h ? 1 : 0, 0, 0);
    }
    KORTESTB(b, 1);
    return fork_jcc(b, JAE);
}

size_t sg_jit_skip_upper(struct jit *j, u32 h)
{
    if (!j->masked || !h)
        return 0;
    sg_jit_cmp_upper(j);
    return fork_jcc(B(j), JE);
}

void sg_jit_skipped(struct jit *j, size_t at)
{
    sg_jit_join_at(j, at);
}

void sg_jit_cut(struct jit *j, u32 v, u32 size, bool sign)
{
    if (size == 4)
        return;
    evi(B(j), SHIFT_D, 6, v, v, 0, 0, 32 - 8 * size);
    evi(B(j), SHIFT_D, sign ? 4 : 2, v, v, 0, 0, 32 - 8 * size);
}

void sg_jit_place_shared(struct jit *j, struct stub *s, const struct sg_insn *in, u32 ad, u32 bytes,
                         u32 align)
{
    struct buf *b = B(j);

    ev(b, MOVD_R, ad, 0, RAX, 0, EV_XMM);
    if (in->imm)
        alu_imm(b, false, 0, RAX, (u32)in->imm);
    if (align > 1) {
        put8(b, 0xa8); /* test al, align - 1 */
        put8(b, align - 1);
        sg_jit_slow(j, s, JNE);
    }
    alu_mem(b, false, 0x8b, RCX, G_CTA, offsetof(struct sg_cta, shared_bytes));
    alu_imm(b, false, 5, RCX, bytes);
    sg_jit_slow(j, s, JB);
    alu_reg(b, false, 0x39, RAX, RCX);
    sg_jit_slow(j, s, JA);
    alu_mem(b, true, 0x03, RAX, G_CTA, offsetof(struct sg_cta, shared));
}

#endif

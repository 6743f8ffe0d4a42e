/* SPDX-License-Identifier: MIT */
/* Native checks of global memory: all addresses are compared with the allocation last used by
   the instruction, as in the handlers. */
#include "jit/memory/sums.h"

#ifdef SG_JIT

/*
 * Checks the running lanes only and collects errors in k1. Register 0: lower bound of an address, a
 * multiple of align; 1: maximum distance above it, in units of align. The rotation turns a
 * misaligned address into a large number.
 */
static void check_lanes64(struct jit *j, struct stub *s, const u32 ad[4], u32 align)
{
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_n(j, true); h++) {
        sg_jit_lanes(j, 2, h, true);
        ev(b, VPSUBQ, 3, ad[h], 0, 0, 0);
        if (align > 1) {
            evi(b, ROTATE_Q, 0, 3, 3, 0, 0, (u32)__builtin_ctz(align)); /* to the right */
        }
        evi(b, CMPUQ, h ? 3 : 1, 3, 1, 2, 0, 6); /* above */
        if (h)
            KORW(b, 1, 1, 3);
    }
    KORTESTW(b, 1);
    sg_jit_slow(j, s, JNE);
}

/* RCX: lower bound of an address; RDX: distance from it to the last valid address. */
static void range_of(struct jit *j, struct stub *s, const struct check *k)
{
    const s32 r =
        (s32)(offsetof(struct sg_cta, cache) + (k->idx & (SG_RANGE_CACHE - 1)) * sizeof(struct sg_mem_range));
    struct buf *b = B(j);

    alu_mem(b, true, 0x8b, RAX, G_GEN, 0);
    alu_mem(b, true, 0x3b, RAX, G_CTA, r + (s32)offsetof(struct sg_mem_range, generation));
    sg_jit_slow(j, s, JNE);
    if (k->write) {
        alu_mem_imm8(b, true, 7, G_CTA, r + (s32)offsetof(struct sg_mem_range, writable), 0);
        sg_jit_slow(j, s, JE);
    }
    alu_mem(b, true, 0x8b, RCX, G_CTA, r + (s32)offsetof(struct sg_mem_range, base));
    alu_mem(b, true, 0x8b, RDX, G_CTA, r + (s32)offsetof(struct sg_mem_range, end));
    alu_reg(b, true, 0x29, RDX, RCX);
    alu_imm(b, true, 5, RDX, (u32)(k->high - k->low));
    sg_jit_slow(j, s, JB);
    if (k->low)
        alu_imm(b, true, 5, RCX, (u32)k->low);
}

void sg_jit_check_global(struct jit *j, struct stub *s, const struct check *k, const u32 ad[4])
{
    const u32 align = k->align;
    struct buf *b = B(j);

    range_of(j, s, k);
    if (j->masked && align > 1) {
        put8(b, 0x48); /* shr rdx, ... */
        put8(b, 0xc1);
        put8(b, 0xea);
        put8(b, (u32)__builtin_ctz(align));
    }
    ev(b, BCAST_R64, 0, 0, RCX, 0, 0);
    ev(b, BCAST_R64, 1, 0, RDX, 0, 0);
    if (j->masked) {
        check_lanes64(j, s, ad, align);
        return;
    }
    if (align > 1) {
        ev(b, VPORQ, 2, ad[0], ad[1], 0, 0);
        evi(b, TERNLOGQ, 2, ad[2], ad[3], 0, 0, 0xfe);
        evi(b, SHIFT_Q, 6, 2, 2, 0, 0, (u32)(64 - __builtin_ctz(align)));
        ev(b, TESTNMQ, 1, 2, 2, 0, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, true); h++) {
        ev(b, VPSUBQ, 3 + (h & 1), ad[h], 0, 0, 0);
        evi(b, CMPUQ, 1, 3 + (h & 1), 1, h || align > 1 ? 1 : 0, 0, 2);
    }
    KORTESTB(b, 1);
    sg_jit_slow(j, s, JAE); /* carry: all ones */
}

/* The address of lane 0 to RAX. */
static void first_address(struct jit *j, const struct check *k, u32 ad)
{
    if (k->sum)
        sg_jit_sum_first(j, k->sum);
    else
        ev(B(j), MOVQ_R, ad, 0, RAX, 0, EV_XMM);
}

void sg_jit_check_flat(struct jit *j, struct stub *s, const struct check *k, u32 ad)
{
    struct buf *b = B(j);

    range_of(j, s, k);
    first_address(j, k, ad);
    if (k->align > 1) {
        put8(b, 0xa8); /* test al, align - 1 */
        put8(b, k->align - 1);
        sg_jit_slow(j, s, JNE);
    }
    alu_reg(b, true, 0x89, RSI, RAX);
    alu_reg(b, true, 0x29, RSI, RCX);
    alu_reg(b, true, 0x39, RSI, RDX);
    sg_jit_slow(j, s, JA);
}

void sg_jit_check_window(struct jit *j, struct stub *s, const struct check *k, u32 ad)
{
    const s64 more = k->high - k->low - s->window->size; /* beyond the window's own load */
    const bool settled = sg_jit_window_settled(j, s->window);
    struct buf *b = B(j);

    range_of(j, s, &(struct check){.idx = k->idx, .high = settled ? (s64)s->window->span + more : 0});
    if (!settled) {
        alu_mem(b, true, 0x2b, RDX, RSI, offsetof(struct sg_window, span));
        sg_jit_slow(j, s, JB);
    }
    if (more && !settled) {
        alu_imm(b, true, 5, RDX, (u32)more);
        sg_jit_slow(j, s, JB);
    }
    first_address(j, k, ad);
    if (k->align > 1) {
        put8(b, 0xa8); /* test al, align - 1 */
        put8(b, k->align - 1);
        sg_jit_slow(j, s, JNE);
    }
    if (settled) {
        alu_mem(b, true, 0x8d, RDI, RAX, (s32)(s->window->low + k->low)); /* lea */
    } else {
        alu_mem(b, true, 0x8b, RDI, RSI, offsetof(struct sg_window, low));
        alu_reg(b, true, 0x01, RDI, RAX);
        if (k->low)
            alu_imm(b, true, 0, RDI, (u32)k->low);
    }
    alu_reg(b, true, 0x29, RDI, RCX);
    alu_reg(b, true, 0x39, RDI, RDX);
    sg_jit_slow(j, s, JA);
}

#endif

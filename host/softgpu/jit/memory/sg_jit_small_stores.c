/* SPDX-License-Identifier: MIT */
/*
 * Native stores of 8 and 16 bits. There is no scatter instruction for these sizes: consecutive
 * elements of the running lanes are stored together, others by the handler.
 */
#include "jit/memory/memory_ops.h"

#ifdef SG_JIT

static const struct vop TO_WORDS = {M38, PF3, 0, 0x33}, TO_BYTES = {M38, PF3, 0, 0x31};

/* Distances of lanes in a row, of 64 and of 32 bits. */
#define ROW(n) \
    { \
        0, n, 2 * n, 3 * n, 4 * n, 5 * n, 6 * n, 7 * n, 8 * n, 9 * n, 10 * n, 11 * n, 12 * n, 13 * n, \
            14 * n, 15 * n, 16 * n, 17 * n, 18 * n, 19 * n, 20 * n, 21 * n, 22 * n, 23 * n, 24 * n, 25 * n, \
            26 * n, 27 * n, 28 * n, 29 * n, 30 * n, 31 * n \
    }
static const u64 row64[2][SG_LANES] __attribute__((aligned(64))) = {ROW(1), ROW(2)};
static const u32 row32[2][SG_LANES] __attribute__((aligned(64))) = {ROW(1), ROW(2)};

/* Jumps out unless the running lanes are in a row from lane 0 on, whether that runs or not. */
static void test_row(struct jit *j, struct stub *s, const u32 *ad, u32 size, bool wide)
{
    struct buf *b = B(j);

    mov_imm64(b, RSI, (u64)(uintptr_t)(wide ? (const void *)row64[size - 1] : (const void *)row32[size - 1]));
    ev(b, wide ? BCAST_M64 : BCAST_M32, 0, 0, ad[0], 0, 0);
    KZERO(b, 1);
    for (u32 h = 0; h < sg_jit_n(j, wide); h++) {
        sg_jit_lanes(j, 2, h, wide);
        evm(b, wide ? VPADDQ : VPADDD, 1, 0, RSI, (s32)(64 * h), 64, 0, 0);
        evi(b, wide ? CMPUQ : CMPUD, 3, ad[h], 1, 2, 0, 4); /* not equal */
        KORW(b, 1, 1, 3);
    }
    KORTESTW(b, 1);
    sg_jit_slow(j, s, JNE);
}

/* The low bits of v to [RAX + disp]. */
static void store_row(struct jit *j, const u32 v[2], u32 size, s32 disp)
{
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        if (j->masked)
            sg_jit_lanes(j, 1, h, false);
        evm(B(j), size == 2 ? TO_WORDS : TO_BYTES, v[h], 0, RAX, disp + (s32)(16 * size * h),
            (s32)(16 * size), j->masked ? 1 : 0, 0);
    }
}

bool sg_jit_store_small(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 size = arg & 15;
    const bool wide = !(arg & NARROW);
    struct stub *s;
    u32 ad[4], v[2];

    if ((in->a & SG_OPND_CONST) || in->imm < INT32_MIN / 2 || in->imm > INT32_MAX / 2 ||
        (in->imm & (size - 1)))
        return false;
    for (u32 h = 0; h < sg_jit_n(j, wide); h++)
        ad[h] = sg_jv_get(j, in->a, h);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        v[h] = sg_jv_get(j, in->d, h);
    s = sg_jit_stub(j);
    test_row(j, s, ad, size, wide);
    if (wide)
        sg_jit_check_flat(j, s,
                          &(struct check){.idx = in->idx,
                                          .align = size,
                                          .low = in->imm,
                                          .high = in->imm + (s64)(SG_LANES * size),
                                          .write = true},
                          ad[0]);
    else
        sg_jit_place_shared(j, s, in, ad[0], SG_LANES * size, size);
    store_row(j, v, size, wide ? (s32)in->imm : 0);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * AVX2: windows (jit/memory/windows.h). Groups of 8 (or 4) lanes whose words lie within 32 bytes are a
 * masked load and a permutation of words; bytes and halves that are the same for a group, one
 * broadcast. Nothing is read but bytes that lanes asked for.
 */
#include "jit/avx2/avx2.h"
#include "jit/memory/windows.h"

#ifdef SG_JIT

#include <string.h>

#define AT(field) ((s32)offsetof(struct sg_window, field))

bool sg_avx2_window_fit(struct sg_window *x, const u64 *a, u32 each)
{
    for (u32 first = 0; first < SG_LANES; first += each) {
        const u32 g = first / each, running = x->lanes >> first & ((1u << each) - 1);
        u64 low = UINT64_MAX, high = 0;

        x->base[g] = 0;
        memset(x->wanted[g], 0, sizeof(x->wanted[g]));
        for (u32 i = first; i < first + each; i++) {
            x->word[i] = 0;
            low = (x->lanes >> i & 1) && a[i] < low ? a[i] : low;
            high = (x->lanes >> i & 1) && a[i] > high ? a[i] : high;
        }
        if (!running)
            continue;
        if (x->size < 4 ? high != low : x->size & 3 || high - low > 32 - x->size)
            return false;
        x->base[g] = (s64)(low - a[0]);
        for (u32 i = first; i < first + each; i++) {
            if (!(x->lanes >> i & 1))
                continue;
            if ((a[i] - low) & 3)
                return false;
            x->word[i] = (u32)(a[i] - low) / 4;
        }
        for (u32 i = 0; i < (u32)(high - low + x->size) / 4; i++)
            x->wanted[g][i] = UINT32_MAX;
    }
    return true;
}

/* RCX: where group g begins. */
static void begin_of(struct buf *b, u32 g)
{
    sg_avx2_general(b, true, false, 0x8b, RCX, MEM_AT(RSI, AT(base) + (s32)(8 * g)));
    alu_reg(b, true, 0x01, RCX, RAX);
}

static void prefetch_window(struct buf *b, s32 disp)
{
    sg_avx2_general(b, false, true, 0x18, 1, MEM_AT(RCX, disp + SG_WINDOW_AHEAD)); /* prefetcht0 */
}

/* 8 lanes of words: half h of registers d[0] to d[n - 1], from group g. */
static void eight_words(struct buf *b, const u32 d[4], u32 n, u32 h, u32 g, s32 disp, bool ahead)
{
    begin_of(b, g);
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(wanted) + (s32)(32 * g)));
    v256(b, OP(M38, P66, 0, 0x8c), T1, T0, MEM_AT(RCX, disp)); /* vpmaskmovd */
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(word) + (s32)(32 * g)));
    for (u32 k = 0; k < n; k++) {
        if (k) {
            sg_avx2_ones(b, T2);
            v256(b, OP(M0F, P66, 0, 0xfa), T0, T0, REG(T2)); /* psubd: the next word */
        }
        v256(b, OP(M38, P66, 0, 0x36), sg_avx2_put(b, d[k], h), T0, REG(T1)); /* vpermd */
    }
    if (ahead)
        prefetch_window(b, disp);
}

/* The same of two groups of 4 lanes. */
static void twice_four(struct buf *b, const u32 d[4], u32 n, u32 h, u32 g, s32 disp, bool ahead)
{
    for (u32 q = 0; q < 2; q++) {
        begin_of(b, g + q);
        v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(wanted) + (s32)(32 * (g + q))));
        v256(b, OP(M38, P66, 0, 0x8c), q ? T3 : T2, T0, MEM_AT(RCX, disp));
        if (ahead)
            prefetch_window(b, disp);
    }
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(word) + (s32)(16 * g)));
    for (u32 k = 0; k < n; k++) {
        const u32 y = sg_avx2_put(b, d[k], h);

        if (k) {
            sg_avx2_ones(b, T1);
            v256(b, OP(M0F, P66, 0, 0xfa), T0, T0, REG(T1));
        }
        v256(b, OP(M38, P66, 0, 0x36), y, T0, REG(T2));
        v256(b, OP(M38, P66, 0, 0x36), T1, T0, REG(T3));
        v256i(b, OP(M3A, P66, 0, 0x02), y, y, REG(T1), 0xf0); /* vpblendd */
    }
}

/* An element of 8 or 16 bits for each of the groups of a half, in the low bits of its lanes. */
static void small_elements(struct buf *b, u32 d, u32 each, u32 size, u32 h, u32 g, s32 disp)
{
    const struct vop bcast = OP(M38, P66, 0, size == 1 ? 0x78 : 0x79);
    const u32 y = sg_avx2_put(b, d, h);

    begin_of(b, g);
    v256(b, bcast, y, 0, MEM_AT(RCX, disp));
    if (each == 8)
        return;
    begin_of(b, g + 1);
    v256(b, bcast, T0, 0, MEM_AT(RCX, disp));
    v256i(b, OP(M3A, P66, 0, 0x02), y, y, REG(T0), 0xf0); /* vpblendd */
}

static void one_way(struct jit *j, u32 d[4][4], u32 n, u32 size, u32 each, s32 disp, bool ahead)
{
    struct buf *b = B(j);

    for (u32 c = 0; c < sg_jit_n(j, false); c++)
        for (u32 h = 0; h < 2; h++) {
            const u32 g = (2 * c + h) * (8 / each);
            u32 v[4] = {0};

            for (u32 k = 0; k < n; k++)
                v[k] = d[k][c];
            sg_avx2_unlock(b);
            if (size < 4)
                small_elements(b, v[0], each, size, h, g, disp);
            else if (each == 8)
                eight_words(b, v, n, h, g, disp, ahead);
            else
                twice_four(b, v, n, h, g, disp, ahead);
        }
    sg_avx2_unlock(b);
}

void sg_avx2_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool ahead)
{
    struct buf *b = B(j);
    size_t four, end;

    alu_mem_imm8(b, false, 7, RSI, AT(state), SG_WINDOW_4);
    four = jcc(b, JE);
    one_way(j, d, n, size, 8, disp, ahead);
    end = jmp(b);
    land(b, four);
    one_way(j, d, n, size, 4, disp, ahead);
    land(b, end);
}

#endif

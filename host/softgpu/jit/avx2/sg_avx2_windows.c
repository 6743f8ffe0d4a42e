/* SPDX-License-Identifier: MIT */
/*
 * AVX2: windows (jit/memory/windows.h). Groups of 8 (or 4) lanes whose words lie within 32 bytes, or pairs
 * within 16, are a load and a permutation of words; bytes and halves that are the same for a group, one broadcast. Of a
 * window's bytes more are read than lanes ask for, all of them between the lowest and the highest
 * element of all lanes; where these are less than 32 bytes, the load has a mask.
 */
#include "jit/avx2/avx2.h"
#include "jit/memory/windows.h"

#ifdef SG_JIT

#include <string.h>

#define AT(field) ((s32)offsetof(struct sg_window, field))

/* Where a window begins that has the words from `low` on, within the bytes that lanes ask for. False: nowhere. */
static bool place_window(const struct sg_window *x, const u64 *a, u32 bytes, u64 low, u64 *begin)
{
    const u64 lowest = a[0] + (u64)x->low, end = lowest + x->span;

    *begin = low;
    if (end - low >= bytes)
        return true;
    *begin -= (bytes - (end - low) + 3) & ~3ull; /* a multiple of words */
    return *begin - lowest <= x->span;
}

/* The words of the lanes from `first` on, in their window, which begins at `begin`. */
static bool place_words(struct sg_window *x, const u64 *a, u32 first, u32 each, u32 bytes, u64 begin)
{
    for (u32 i = first; i < first + each; i++) {
        if (!(x->lanes >> i & 1))
            continue;
        if ((a[i] - begin) & 3 || a[i] - begin + x->size > bytes)
            return false;
        x->word[i] = (u32)(a[i] - begin) / 4;
    }
    return true;
}

bool sg_avx2_window_fit(struct sg_window *x, const u64 *a, enum sg_window_state state, u32 each, u32 bytes)
{
    const bool small = x->size < 4, few = state == SG_WINDOW_FEW;

    if (small ? few : x->size & 3 || x->size > bytes || few != (x->span < 32))
        return false;
    for (u32 first = 0; first < SG_LANES; first += each) {
        const u32 g = first / each, running = x->lanes >> first & ((1u << each) - 1);
        u64 low = UINT64_MAX, high = 0, begin;

        for (u32 i = first; i < first + each; i++) {
            x->word[i] = 0;
            low = (x->lanes >> i & 1) && a[i] < low ? a[i] : low;
            high = (x->lanes >> i & 1) && a[i] > high ? a[i] : high;
        }
        if (!running) /* any bytes will do */
            low = high = a[0] + (u64)x->low;
        begin = low;
        if (small ? high != low : high - low > bytes - x->size)
            return false;
        if (!small && !few && !place_window(x, a, bytes, low, &begin))
            return false;
        x->base[g] = (s64)(begin - a[0]);
        if (!small && !place_words(x, a, first, each, bytes, begin))
            return false;
        if (!few)
            continue;
        memset(x->wanted[g], 0, sizeof(x->wanted[g]));
        for (u32 i = 0; i < (u32)(high - low + x->size) / 4 && running; i++)
            x->wanted[g][i] = UINT32_MAX;
    }
    return true;
}

/* A load by windows, `disp` from RAX on. */
struct by_groups {
    u32 n; /* words per lane */
    s32 disp;
    bool ahead; /* the data of the next warps, too */
    const struct sg_window *settled;
};

/* Where the load from group g begins; ahead: the data of the next warps is prefetched. */
static struct rm begin_of(struct buf *b, const struct by_groups *l, u32 g, bool ahead)
{
    u32 reg = RCX;
    s32 disp = l->disp;

    if (l->settled) {
        reg = RAX;
        disp += (s32)l->settled->base[g];
    } else {
        sg_avx2_general(b, true, false, 0x8b, RCX, MEM_AT(RSI, AT(base) + (s32)(8 * g)));
        alu_reg(b, true, 0x01, RCX, RAX);
    }
    if (ahead && l->ahead)
        sg_avx2_general(b, false, true, 0x18, 1, MEM_AT(reg, disp + SG_WINDOW_AHEAD)); /* prefetcht0 */
    return MEM_AT(reg, disp);
}

/* The indices of the next word. */
static void next_words(struct buf *b)
{
    sg_avx2_ones(b, T1);
    v256(b, OP(M0F, P66, 0, 0xfa), T0, T0, REG(T1)); /* psubd */
}

/* 8 lanes of words: half h of registers d[0] to d[n - 1], from group g. few: with a mask. */
static void eight_words(struct buf *b, const struct by_groups *l, const u32 d[4], u32 h, u32 g, bool few)
{
    struct rm from = begin_of(b, l, g, true);

    if (few) {
        v256(b, LOAD, T2, 0, MEM_AT(RSI, AT(wanted) + (s32)(32 * g)));
        v256(b, OP(M38, P66, 0, 0x8c), T2, T2, from); /* vpmaskmovd */
        from = REG(T2);
    } else if (l->n > 1) {
        v256(b, LOAD, T2, 0, from);
        from = REG(T2);
    }
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(word) + (s32)(32 * g)));
    for (u32 k = 0; k < l->n; k++) {
        if (k)
            next_words(b);
        v256(b, OP(M38, P66, 0, 0x36), sg_avx2_put(b, d[k], h), T0, from); /* vpermd */
    }
}

/* The same of two groups of 4 lanes. */
static void twice_four(struct buf *b, const struct by_groups *l, const u32 d[4], u32 h, u32 g)
{
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(word) + (s32)(16 * g)));
    for (u32 q = 0; q < 2; q++) {
        const struct rm from = begin_of(b, l, g + q, true);

        if (l->n > 1)
            v256(b, LOAD, q ? T3 : T2, 0, from);
        else
            v256(b, OP(M38, P66, 0, 0x36), q ? T3 : T2, T0, from); /* vpermd */
    }
    if (l->n == 1) {
        v256i(b, OP(M3A, P66, 0, 0x02), sg_avx2_put(b, d[0], h), T2, REG(T3), 0xf0); /* vpblendd */
        return;
    }
    for (u32 k = 0; k < l->n; k++) {
        const u32 y = sg_avx2_put(b, d[k], h);

        if (k)
            next_words(b);
        v256(b, OP(M38, P66, 0, 0x36), y, T0, REG(T2));
        v256(b, OP(M38, P66, 0, 0x36), T1, T0, REG(T3));
        v256i(b, OP(M3A, P66, 0, 0x02), y, y, REG(T1), 0xf0);
    }
}

/* The same of four groups of 2 lanes: groups g and g + 2 in T2, the others in T3. */
static void four_pairs(struct buf *b, const struct by_groups *l, const u32 d[4], u32 h, u32 g)
{
    const struct vop permilps = OP(M38, P66, 0, 0x0c);

    for (u32 q = 0; q < 4; q++) {
        const struct rm from = begin_of(b, l, g + q, !(q & 1));
        const u32 t = q & 1 ? T3 : T2;

        if (q < 2)
            sg_avx2_vex(b, LOAD, false, t, 0, from);
        else
            v256i(b, INSERT128, t, t, from, 1);
    }
    v256(b, LOAD, T0, 0, MEM_AT(RSI, AT(word) + (s32)(8 * g)));
    for (u32 k = 0; k < l->n; k++) {
        const u32 y = sg_avx2_put(b, d[k], h);

        if (k)
            next_words(b);
        v256(b, permilps, y, T2, REG(T0));
        v256(b, permilps, T1, T3, REG(T0));
        v256i(b, OP(M3A, P66, 0, 0x02), y, y, REG(T1), 0xcc); /* vpblendd */
    }
}

/* Elements of 8 or 16 bits of four groups of 2 lanes. */
static void small_pairs(struct buf *b, const struct by_groups *l, u32 y, struct vop bcast, u32 g)
{
    for (u32 q = 0; q < 4; q++)
        sg_avx2_vex(b, bcast, false, T0 + q, 0, begin_of(b, l, g + q, false));
    sg_avx2_vex(b, OP(M0F, P66, 0, 0x6c), false, T0, T0, REG(T1)); /* vpunpcklqdq */
    sg_avx2_vex(b, OP(M0F, P66, 0, 0x6c), false, T2, T2, REG(T3));
    v256i(b, INSERT128, y, T0, REG(T2), 1);
}

/* An element of 8 or 16 bits for each of the groups of a half, in the low bits of its lanes. */
static void small_elements(struct buf *b, const struct by_groups *l, u32 d, u32 each, u32 size, u32 h, u32 g)
{
    const struct vop bcast = OP(M38, P66, 0, size == 1 ? 0x78 : 0x79);
    const u32 y = sg_avx2_put(b, d, h);

    if (each == 2) {
        small_pairs(b, l, y, bcast, g);
        return;
    }
    v256(b, bcast, y, 0, begin_of(b, l, g, false));
    if (each == 8)
        return;
    v256(b, bcast, T0, 0, begin_of(b, l, g + 1, false));
    v256i(b, OP(M3A, P66, 0, 0x02), y, y, REG(T0), 0xf0); /* vpblendd */
}

/* The load in the form `state`; size: bytes per lane. */
static void by_form(struct jit *j, const struct by_groups *l, u32 d[4][4], u32 size, u32 state)
{
    const u32 each = state == SG_WINDOW_2 ? 2 : state == SG_WINDOW_4 ? 4 : 8;
    struct buf *b = B(j);

    for (u32 c = 0; c < sg_jit_n(j, false); c++)
        for (u32 h = 0; h < 2; h++) {
            const u32 g = (2 * c + h) * (8 / each);
            u32 v[4] = {0};

            for (u32 k = 0; k < l->n; k++)
                v[k] = d[k][c];
            sg_avx2_unlock(b);
            if (size < 4)
                small_elements(b, l, v[0], each, size, h, g);
            else if (each == 8)
                eight_words(b, l, v, h, g, state == SG_WINDOW_FEW);
            else if (each == 4)
                twice_four(b, l, v, h, g);
            else
                four_pairs(b, l, v, h, g);
        }
    sg_avx2_unlock(b);
}

void sg_avx2_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool ahead,
                         const struct sg_window *settled)
{
    const struct by_groups l = {n, disp, ahead, settled};
    struct buf *b = B(j);
    size_t four, pairs, few = 0, end[3] = {0};

    if (settled) {
        by_form(j, &l, d, size, settled->state);
        return;
    }
    alu_mem_imm8(b, false, 7, RSI, AT(state), SG_WINDOW_8);
    four = fork_jcc(b, JB);
    if (size >= 4)
        few = fork_jcc(b, JA);
    by_form(j, &l, d, size, SG_WINDOW_8);
    end[0] = fork_jmp(b);
    sg_jit_join_at(j, four);
    alu_mem_imm8(b, false, 7, RSI, AT(state), SG_WINDOW_4);
    pairs = fork_jcc(b, JB);
    by_form(j, &l, d, size, SG_WINDOW_4);
    end[1] = fork_jmp(b);
    sg_jit_join_at(j, pairs);
    by_form(j, &l, d, size, SG_WINDOW_2);
    if (size >= 4) {
        end[2] = fork_jmp(b);
        sg_jit_join_at(j, few);
        by_form(j, &l, d, size, SG_WINDOW_FEW);
    }
    sg_jit_join(j, end, 3);
}

#endif

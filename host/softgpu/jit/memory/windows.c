/* SPDX-License-Identifier: MIT */
/*
 * Windows (jit/memory/windows.h). A gather takes 32 accesses. If groups of 8 (or 4) lanes lie within 64
 * bytes, a masked load per group and byte permutations have the same result. The permutations are
 * computed when the load first runs; every later run compares the distances of the lanes, and
 * gathers if they differ. Only bytes between the lowest and the highest element are read, and the
 * caller has checked all of them.
 */
#include "jit/memory/windows.h"

#ifdef SG_JIT

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) ((s32)offsetof(struct sg_window, field))

static const struct vop VMOVU8 = {M0F, PF2, 0, 0x6f}, PERMI2B = {M38, P66, 0, 0x75},
                        SHUF128 = {M3A, P66, 1, 0x43};

struct sg_window *sg_jit_window(struct jit *j, const struct sg_insn *in, u32 size, u32 align, u32 row)
{
    struct sg_window *x;

    if ((in->aux & SG_AUX_SPIN) || (!j->b.avx2 && !__builtin_cpu_supports("avx512vbmi")))
        return NULL;
    x = sg_jit_claim(j, sizeof(*x)) ? aligned_alloc(64, (sizeof(*x) + 63) & ~(size_t)63) : NULL;
    if (!x)
        return NULL;
    memset(x, 0, sizeof(*x));
    x->size = size;
    x->align = align;
    x->row = row;
    x->narrow = in->aux & SG_AUX_ADDR32;
    x->avx2 = j->b.avx2;
    x->next = j->windows;
    j->windows = x;
    return x;
}

void sg_jit_windows_free(struct sg_window *x)
{
    while (x) {
        struct sg_window *next = x->next;

        free(x);
        x = next;
    }
}

/* Windows of `each` lanes. False: some do not lie within 64 bytes. */
static bool fit(struct sg_window *x, const u64 *a, u32 each)
{
    if (x->avx2)
        return sg_avx2_window_fit(x, a, each);
    for (u32 g = 0; g < SG_LANES / each; g++) {
        const u32 first = g * each, running = x->lanes >> first & ((1u << each) - 1);
        u64 low = UINT64_MAX, high = 0;

        x->mask[g] = 0;
        x->base[g] = 0;
        if (!running)
            continue;
        for (u32 i = first; i < first + each; i++) {
            low = (x->lanes >> i & 1) && a[i] < low ? a[i] : low;
            high = (x->lanes >> i & 1) && a[i] > high ? a[i] : high;
        }
        if (high - low > 64 - x->size)
            return false;
        x->base[g] = (s64)(low - a[0]);
        x->mask[g] = ~0ull >> (64 - (high - low + x->size));
        for (u32 i = first; i < first + each; i++)
            for (u32 k = 0; k < x->size && k < 4 && (x->lanes >> i & 1); k++)
                x->index[i / 16][i % 16 * 4 + k] = (u8)(a[i] - low + k) | (u8)((g & 1) << 6);
    }
    return true;
}

/* The distances of all running lanes. False: they are not multiples of the alignment. */
static bool distances(struct sg_window *x, const u64 *a)
{
    u64 low = UINT64_MAX, high = 0;

    for (u32 i = 0; i < SG_LANES; i++) {
        if (!(x->lanes >> i & 1))
            continue;
        low = a[i] < low ? a[i] : low;
        high = a[i] > high ? a[i] : high;
        x->offset[i] = a[i] - a[0];
        if (x->offset[i] & (x->align - 1))
            return false;
    }
    x->low = (s64)(low - a[0]);
    x->span = high - low + x->size;
    return x->span >= x->size && x->span <= INT32_MAX;
}

/* Lanes in a row, which the code has a better way for. */
static bool in_row(const struct sg_window *x)
{
    for (u32 i = 0; i < SG_LANES; i++)
        if (x->offset[i] != (u64)x->row * i)
            return false;
    return x->row && x->lanes == SG_FULL;
}

void sg_jit_window_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    u32 state = SG_WINDOW_NONE;
    u64 a[SG_LANES];

    if (__atomic_load_n(&x->state, __ATOMIC_ACQUIRE) != SG_WINDOW_NEW)
        return;
    pthread_mutex_lock(&lock);
    if (x->state == SG_WINDOW_NEW) {
        const void *at = w->base[in->a >> 31] + (in->a & ~SG_OPND_CONST);

        for (u32 i = 0; i < SG_LANES; i++)
            a[i] = x->narrow ? ((const u32 *)at)[i] : ((const u64 *)at)[i];
        x->lanes = w->mask;
        if ((x->lanes & 1) && distances(x, a))
            state = in_row(x)      ? SG_WINDOW_NEW
                    : fit(x, a, 8) ? SG_WINDOW_8
                    : fit(x, a, 4) ? SG_WINDOW_4
                                   : SG_WINDOW_NONE;
        for (u32 i = 0; i < SG_LANES && x->narrow; i++)
            x->offset32[i] = (u32)x->offset[i];
        __atomic_store_n(&x->state, state, __ATOMIC_RELEASE);
        if (state >= SG_WINDOW_8 && x->first && x->first->state >= SG_WINDOW_8 &&
            x->first->lanes == x->lanes &&
            !memcmp(x->narrow ? (const void *)x->first->offset32 : x->first->offset,
                    x->narrow ? (const void *)x->offset32 : x->offset,
                    x->narrow ? sizeof(x->offset32) : sizeof(x->offset)))
            __atomic_store_n(&x->as_first, true, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&lock);
}

static void cmp_state(struct buf *b, u32 value)
{
    alu_mem_imm8(b, false, 7, RSI, AT(state), value);
}

void sg_jit_window_known(struct jit *j, struct stub *s, const struct sg_window *x)
{
    mov_imm64(B(j), RSI, (u64)(uintptr_t)x);
    cmp_state(B(j), SG_WINDOW_NEW);
    sg_jit_slow(j, s, JE);
}

void sg_jit_window_test(struct jit *j, const u32 *ad, const struct sg_window *x, struct window_misses *m)
{
    struct buf *b = B(j);

    m->n = 0;
    mov_imm64(b, RSI, (u64)(uintptr_t)x);
    cmp_state(b, SG_WINDOW_8);
    m->at[m->n++] = jcc(b, JB);
    if (j->masked) {
        alu_mem(b, false, 0x8b, RAX, G_WARP, offsetof(struct sg_warp, mask));
        alu_mem(b, false, 0x3b, RAX, RSI, AT(lanes));
        m->at[m->n++] = jcc(b, JNE);
    }
    ev(b, x->narrow ? BCAST_M32 : BCAST_M64, 0, 0, ad[0], 0, 0);
    for (u32 h = 0; h < sg_jit_n(j, !x->narrow); h++) {
        const struct vop cmp = x->narrow ? CMPUD : CMPUQ;

        ev(b, x->narrow ? VPSUBD : VPSUBQ, 1 + (h & 1), ad[h], 0, 0, 0);
        if (j->masked) { /* lanes that run and differ */
            sg_jit_lanes(j, 2, h, !x->narrow);
            evmi(b, cmp, h ? 3 : 1, 1 + (h & 1), RSI, AT(offset) + (s32)(64 * h), 64, 2, 0, 4);
            if (h)
                KORW(b, 1, 1, 3);
        } else {
            evmi(b, cmp, 1, 1 + (h & 1), RSI, AT(offset) + (s32)(64 * h), 64, h ? 1 : 0, 0, 0);
        }
    }
    /* without masks the upper bits of k1 are undefined for 64-bit lanes */
    if (x->narrow || j->masked)
        KORTESTW(b, 1);
    else
        KORTESTB(b, 1);
    m->at[m->n++] = jcc(b, j->masked ? JNE : JAE);
}

void sg_jit_window_missed(struct jit *j, const struct window_misses *m)
{
    for (u32 i = 0; i < m->n; i++)
        land(B(j), m->at[i]);
}

/* Window g to register v. */
static void load(struct jit *j, u32 g, u32 v, s32 disp, bool prefetch)
{
    struct buf *b = B(j);
    const u32 k = 2 + (g & 1);

    vexm(b, PNONE, 0, 1, 0x90, k, RSI, AT(mask) + (s32)(8 * g)); /* kmovq */
    alu_mem(b, true, 0x8b, RCX, RSI, AT(base) + (s32)(8 * g));
    alu_reg(b, true, 0x01, RCX, RAX);
    evm(b, VMOVU8, v, 0, RCX, disp, 64, k, EV_Z);
    if (!prefetch)
        return;
    rex(b, false, 0, RCX);
    put8(b, 0x0f); /* prefetcht0 [rcx + disp] */
    put8(b, 0x18);
    mem_operand(b, 1, RCX, disp + SG_WINDOW_AHEAD, 1);
}

/* Moves word k of the lanes of chunk h, which are in registers 0 and 1, or (four) 0 to 3, to
   register d. */
static void pick(struct jit *j, u32 d, u32 k, u32 h, bool four)
{
    struct buf *b = B(j);

    evm(b, VMOV, d, 0, RSI, AT(index) + (s32)(64 * h), 64, 0, 0);
    if (k) {
        mov_imm64(b, RCX, 0x04040404u * k);
        ev(b, BCAST_R32, 4, 0, RCX, 0, 0);
        ev(b, VPADDD, d, d, 4, 0, 0); /* no byte carries: all of a lane is in 64 bytes */
    }
    if (four)
        ev(b, VMOV, 4, 0, d, 0, 0);
    ev(b, PERMI2B, d, 0, 1, 0, 0);
    if (!four)
        return;
    ev(b, PERMI2B, 4, 2, 3, 0, 0);
    evi(b, SHUF128, d, d, 4, 0, 0, 0xe4); /* the lower half, and the upper half of register 4 */
}

void sg_jit_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool prefetch)
{
    struct buf *b = B(j);
    size_t jump = 0, end = 0;

    if (b->avx2) {
        sg_avx2_window_load(j, d, n, size, disp, prefetch);
        return;
    }
    cmp_state(b, SG_WINDOW_4);
    jump = jcc(b, JE);
    for (u32 each = 2; each <= 4; each += 2) {
        for (u32 h = 0; h < sg_jit_n(j, false); h++) {
            for (u32 q = 0; q < each; q++)
                load(j, each * h + q, q, disp, prefetch && (each == 2 || !(q & 1)));
            for (u32 k = 0; k < n; k++)
                pick(j, d[k][h], k, h, each == 4);
        }
        if (each == 2) {
            end = jmp(b);
            land(b, jump);
        }
    }
    land(b, end);
}

#endif

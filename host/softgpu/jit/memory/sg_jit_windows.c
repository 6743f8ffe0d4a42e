/* SPDX-License-Identifier: MIT */
/*
 * Windows (jit/memory/windows.h). A gather takes 32 accesses. If groups of 32, 16, 8 or 4 lanes lie within
 * 64 bytes, a load per group and byte permutations have the same result. The permutations are
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
                        PERMB = {M38, P66, 0, 0x8d}, SHUF128 = {M3A, P66, 1, 0x43};

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

/* The ways to load, the best first. Of a window's bytes more are read than lanes ask for, all of them
   between the lowest and the highest element; SG_WINDOW_32 alone has a mask. */
static const struct form {
    u32 state, each, bytes; /* lanes and bytes of a window */
} forms[] = {{SG_WINDOW_32, 32, 64},
             {SG_WINDOW_16, 16, 64},
             {SG_WINDOW_8, 8, 64},
             {SG_WINDOW_4, 4, 32},
             {SG_WINDOW_4_WIDE, 4, 64}},
  avx2_forms[] = {{SG_WINDOW_8, 8, 32}, {SG_WINDOW_4, 4, 32}, {SG_WINDOW_FEW, 8, 32}, {SG_WINDOW_2, 2, 16}};

/* The byte of the two registers that the form permutes in which window g begins. */
static u32 begin_of(const struct form *f, u32 g)
{
    return f->each >= 16 ? 0 : f->bytes * g & 127;
}

/* False: some lanes of a window do not lie within its bytes. */
static bool windows_fit(struct sg_window *x, const u64 *a, const struct form *f)
{
    const u64 lowest = a[0] + (u64)x->low;

    if (x->avx2)
        return sg_avx2_window_fit(x, a, f->state, f->each, f->bytes);
    if (f->state != SG_WINDOW_32 && x->span < f->bytes)
        return false;
    for (u32 first = 0; first < SG_LANES; first += f->each) {
        u64 low = UINT64_MAX, high = lowest;

        for (u32 i = first; i < first + f->each; i++) {
            low = (x->lanes >> i & 1) && a[i] < low ? a[i] : low;
            high = (x->lanes >> i & 1) && a[i] > high ? a[i] : high;
        }
        if (low == UINT64_MAX) /* none runs: any bytes will do */
            low = lowest;
        else if (high - low + x->size > f->bytes)
            return false;
        if (f->state != SG_WINDOW_32 && low - lowest > x->span - f->bytes)
            low = lowest + x->span - f->bytes;
        x->base[first / f->each] = (s64)(low - a[0]);
        for (u32 i = first; i < first + f->each; i++)
            for (u32 k = 0; k < x->size && k < 4 && (x->lanes >> i & 1); k++)
                x->index[i / 16][i % 16 * 4 + k] = (u8)(a[i] - low + k + begin_of(f, first / f->each));
    }
    x->mask = f->state == SG_WINDOW_32 ? ~0ull >> (64 - x->span) : 0;
    return true;
}

static u32 best_form(struct sg_window *x, const u64 *a)
{
    const struct form *f = x->avx2 ? avx2_forms : forms;
    const u32 n = x->avx2 ? sizeof(avx2_forms) / sizeof(*f) : sizeof(forms) / sizeof(*f);

    for (u32 i = 0; i < n; i++)
        if (windows_fit(x, a, &f[i]))
            return f[i].state;
    return SG_WINDOW_NONE;
}

/* The distances of all running lanes. False: they are not multiples of the alignment. */
static bool lane_distances(struct sg_window *x, const u64 *a)
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
        if ((x->lanes & 1) && lane_distances(x, a))
            state = in_row(x) ? SG_WINDOW_NEW : best_form(x, a);
        for (u32 i = 0; i < SG_LANES && x->narrow; i++)
            x->offset32[i] = (u32)x->offset[i];
        __atomic_store_n(&x->state, state, __ATOMIC_RELEASE);
        if (state >= SG_WINDOW_FIRST && x->first && x->first->state >= SG_WINDOW_FIRST &&
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
    cmp_state(b, SG_WINDOW_FIRST);
    m->at[m->n++] = fork_jcc(b, JB);
    if (j->masked) {
        alu_mem(b, false, 0x8b, RAX, G_WARP, offsetof(struct sg_warp, mask));
        alu_mem(b, false, 0x3b, RAX, RSI, AT(lanes));
        m->at[m->n++] = fork_jcc(b, JNE);
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
    m->at[m->n++] = fork_jcc(b, j->masked ? JNE : JAE);
}

void sg_jit_window_missed(struct jit *j, const struct window_misses *m)
{
    sg_jit_join(j, m->at, m->n);
}

/* A load by windows. */
struct by_windows {
    u32 (*d)[4], n; /* results and their number, see sg_jit_window_load() */
    s32 disp;
    bool prefetch;
    const struct sg_window *settled;
};

/* A place in memory. */
struct place {
    u32 reg;
    s32 disp;
};

/* Where the load from window g begins; the data of the next warps is prefetched. */
static struct place window_begin(struct jit *j, const struct by_windows *l, u32 g, bool prefetch)
{
    struct place at = {RCX, l->disp};
    struct buf *b = B(j);

    if (l->settled) {
        at = (struct place){RAX, l->disp + (s32)l->settled->base[g]};
    } else {
        alu_mem(b, true, 0x8b, RCX, RSI, AT(base) + (s32)(8 * g));
        alu_reg(b, true, 0x01, RCX, RAX);
    }
    if (l->prefetch && prefetch) {
        rex(b, false, 0, at.reg);
        put8(b, 0x0f); /* prefetcht0 [reg + disp] */
        put8(b, 0x18);
        mem_operand(b, 1, at.reg, at.disp + SG_WINDOW_AHEAD, 1);
    }
    return at;
}

/* The index of word k of the lanes of chunk h to register d. */
static void index_of(struct jit *j, u32 d, u32 k, u32 h)
{
    struct buf *b = B(j);

    evm(b, VMOV, d, 0, RSI, AT(index) + (s32)(64 * h), 64, 0, 0);
    if (!k)
        return;
    mov_imm64(b, RCX, 0x04040404u * k);
    ev(b, BCAST_R32, 4, 0, RCX, 0, 0);
    ev(b, VPADDD, d, d, 4, 0, 0); /* no byte carries: all of a lane is in its window */
}

/* The words of the lanes of chunk h from register 0, or (two) 0 and 1. */
static void pick_words(struct jit *j, const struct by_windows *l, u32 h, bool two)
{
    for (u32 k = 0; k < l->n; k++) {
        const u32 d = l->d[k][h];

        index_of(j, d, k, h);
        if (two)
            ev(B(j), PERMI2B, d, 0, 1, 0, 0);
        else
            ev(B(j), PERMB, d, d, 0, 0, 0);
    }
}

static void all_in_one(struct jit *j, const struct by_windows *l)
{
    struct buf *b = B(j);

    const struct place at = window_begin(j, l, 0, true);

    vexm(b, PNONE, 0, 1, 0x90, 2, RSI, AT(mask)); /* kmovq */
    evm(b, VMOVU8, 0, 0, at.reg, at.disp, 64, 2, EV_Z);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        pick_words(j, l, h, false);
}

static void load_sixteen(struct jit *j, const struct by_windows *l)
{
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const struct place at = window_begin(j, l, h, true);

        evm(b, VMOVU, 0, 0, at.reg, at.disp, 64, 0, 0);
        pick_words(j, l, h, false);
    }
}

static void load_eight(struct jit *j, const struct by_windows *l)
{
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        for (u32 q = 0; q < 2; q++) {
            const struct place at = window_begin(j, l, 2 * h + q, true);

            evm(b, VMOVU, q, 0, at.reg, at.disp, 64, 0, 0);
        }
        pick_words(j, l, h, true);
    }
}

/* Two windows a register. */
static void load_four(struct jit *j, const struct by_windows *l)
{
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        for (u32 q = 0; q < 4; q++) {
            const struct place at = window_begin(j, l, 4 * h + q, !(q & 1));

            if (q & 1)
                evmi(b, INSERT4, q / 2, q / 2, at.reg, at.disp, 32, 0, 0, 1);
            else
                evm(b, VMOVU, q / 2, 0, at.reg, at.disp, 32, 0, EV_YMM);
        }
        pick_words(j, l, h, true);
    }
}

static void four_wide(struct jit *j, const struct by_windows *l)
{
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        for (u32 q = 0; q < 4; q++) {
            const struct place at = window_begin(j, l, 4 * h + q, !(q & 1));

            evm(b, VMOVU, q, 0, at.reg, at.disp, 64, 0, 0);
        }
        for (u32 k = 0; k < l->n; k++) {
            const u32 d = l->d[k][h];

            index_of(j, d, k, h);
            ev(b, VMOV, 4, 0, d, 0, 0);
            ev(b, PERMI2B, d, 0, 1, 0, 0);
            ev(b, PERMI2B, 4, 2, 3, 0, 0);
            evi(b, SHUF128, d, d, 4, 0, 0, 0xe4); /* the lower half, and the upper half of register 4 */
        }
    }
}

void sg_jit_window_load(struct jit *j, u32 d[4][4], u32 n, u32 size, s32 disp, bool prefetch,
                        const struct sg_window *settled)
{
    static const struct {
        u32 state;
        void (*load)(struct jit *j, const struct by_windows *l);
    } ways[] = {{SG_WINDOW_8, load_eight},
                {SG_WINDOW_4, load_four},
                {SG_WINDOW_16, load_sixteen},
                {SG_WINDOW_32, all_in_one},
                {SG_WINDOW_4_WIDE, four_wide}};
    const u32 last = sizeof(ways) / sizeof(*ways) - 1;
    const struct by_windows l = {d, n, disp, prefetch, settled};
    size_t end[sizeof(ways) / sizeof(*ways)];
    struct buf *b = B(j);

    if (b->avx2) {
        sg_avx2_window_load(j, d, n, size, disp, prefetch, settled);
        return;
    }
    for (u32 i = 0; i <= last && settled; i++)
        if (ways[i].state == settled->state)
            ways[i].load(j, &l);
    for (u32 i = 0; i <= last && !settled; i++) {
        size_t other = 0;

        if (i < last) {
            cmp_state(b, ways[i].state);
            other = jcc(b, JNE);
        }
        ways[i].load(j, &l);
        if (i == last)
            break;
        end[i] = jmp(b);
        land(b, other);
    }
    for (u32 i = 0; i < last && !settled; i++)
        land(b, end[i]);
}

#endif

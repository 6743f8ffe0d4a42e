/* SPDX-License-Identifier: MIT */
/*
 * AVX2: paths that split and meet again within an instruction of the kernel, without writing the ymm registers back. The state at
 * a forward jump is kept until its target is emitted. There, the path of the first jump keeps its registers; the
 * others get code that moves their values to the same places.
 */
#include "jit/avx2/avx2.h"

#ifdef SG_JIT

#define HALVES_BEGIN (2 * AVX2_SCRATCH) /* of the registers that live across labels */
#define HALVES_END (2 * AVX2_MASKS)

/* Scratch registers and masks do not live across a label that several paths reach. */
static void drop_scratch(struct avx2 *a)
{
    for (u32 i = 0; i < AVX2_YMM; i++)
        if ((a->held >> i & 1) && sg_avx2_is_scratch(a->half[i] >> 1)) {
            a->in[a->half[i]] = 0;
            a->held &= ~(1u << i);
            a->dirty &= ~(1u << i);
        }
    a->valid[0] = a->valid[1] = 0;
    for (u32 k = 0; k < 8; k++)
        a->mask[k].state = AVX2_NONE;
}

void sg_avx2_fork(struct buf *b, size_t at, bool always)
{
    struct avx2 *a = b->avx2;
    struct avx2_fork *f = a->forks;

    while (f < a->forks + AVX2_FORKS && f->at)
        f++;
    if (b->failed || f == a->forks + AVX2_FORKS) {
        b->failed = true;
        return;
    }
    f->at = at;
    f->state = *a;
    if (always)
        a->dead_at = b->n;
}

/* Takes the state at the jump whose displacement is at `at`. */
static bool take_fork(struct buf *b, size_t at, struct avx2 *state)
{
    struct avx2_fork *f = b->avx2->forks;

    while (f < b->avx2->forks + AVX2_FORKS && (f->at != at || !at))
        f++;
    if (b->failed || f == b->avx2->forks + AVX2_FORKS) {
        b->failed = true;
        return false;
    }
    *state = f->state;
    f->at = 0;
    return true;
}

/* True if both states have the half in the same ymm register. */
static bool is_same_place(const struct avx2 *a, const struct avx2 *to, u32 half)
{
    return a->in[half] && a->in[half] == to->in[half];
}

static bool is_same_alias(const struct avx2 *a, const struct avx2 *x, u32 half)
{
    const struct avx2_memory *p = &a->at[half >> 1], *q = &x->at[half >> 1];

    return sg_avx2_half_bit(a->alias, half) == sg_avx2_half_bit(x->alias, half) &&
           (!sg_avx2_half_bit(a->alias, half) || (p->base == q->base && p->disp == q->disp));
}

/*
 * Emits code that turns the state `a` at a path's end into the state `to`. emit: false only counts the
 * instructions. held: a bit per vector register whose value is needed.
 */
static u32 adjust_path(struct buf *b, const struct avx2 *a, const struct avx2 *to, u32 held, bool emit)
{
    u32 n = 0;

    for (u32 i = 0; i < AVX2_YMM; i++) { /* to memory */
        const u32 half = a->half[i];

        if (!(a->dirty >> i & 1) || is_same_place(a, to, half))
            continue;
        n++;
        if (emit)
            v256(b, STORE_OP, i, 0, MEM_AT(AVX2_FRAME, AVX2_SLOT(half)));
    }
    for (u32 half = HALVES_BEGIN; half < HALVES_END; half++) { /* values in other places */
        if (to->in[half] || !(held >> (half >> 1) & 1) || !sg_avx2_half_bit(a->alias, half) ||
            sg_avx2_half_bit(to->alias, half))
            continue;
        n++;
        if (!emit)
            continue;
        v256(b, LOAD, T0, 0, sg_avx2_place_of(a, half));
        v256(b, STORE_OP, T0, 0, MEM_AT(AVX2_FRAME, AVX2_SLOT(half)));
    }
    for (u32 i = 0; i < AVX2_YMM; i++) {
        if (!(to->held >> i & 1) || is_same_place(a, to, to->half[i]))
            continue;
        n++;
        if (emit)
            v256(b, LOAD, i, 0, sg_avx2_place_of(a, to->half[i]));
    }
    return n;
}

/* Restricts `to`, the state of the first path, to a state that the path with state `a` can reach. */
static void meet_path(struct buf *b, struct avx2 *to, const struct avx2 *a, u32 held)
{
    for (u32 half = HALVES_BEGIN; half < HALVES_END; half++) {
        const u32 ymm = to->in[half];

        if (a->in[half] && ymm && (a->dirty >> (a->in[half] - 1u) & 1))
            to->dirty |= 1u << (ymm - 1u);
        if (is_same_alias(a, to, half))
            continue;
        if (ymm)
            to->dirty |= 1u << (ymm - 1u);
        else if (sg_avx2_half_bit(to->alias, half) && (held >> (half >> 1) & 1))
            b->failed = true; /* no path of an instruction stores a register that it does not write */
        to->alias[half >> 6 & 1] &= ~(1ull << (half & 63));
    }
}

/* The state at a label that one jump reaches. */
static void become_state(struct avx2 *a, const struct avx2 *state)
{
    struct avx2_fork *forks = a->forks;
    const u32 clock = a->clock;

    *a = *state;
    a->forks = forks;
    a->clock = clock;
    a->locked = 0;
    a->test.lanes = 0;
}

void sg_avx2_join(struct buf *b, u32 held, const size_t *at, u32 n)
{
    struct avx2 *a = b->avx2, state[AVX2_FORKS], here_state = *a, to;
    const bool falls = b->n != a->dead_at;
    size_t ends[AVX2_FORKS];
    u32 nends = 0;

    if (n > AVX2_FORKS || !n) {
        b->failed |= n != 0;
        return;
    }
    for (u32 k = 0; k < n; k++)
        if (!take_fork(b, at[k], &state[k]))
            return;
    if (!falls && n == 1) {
        become_state(a, &state[0]);
        patch(b, at[0], b->n);
        return;
    }
    for (u32 k = 0; k < n; k++)
        drop_scratch(&state[k]);
    drop_scratch(&here_state);
    to = state[0];
    for (u32 k = 1; k < n; k++)
        meet_path(b, &to, &state[k], held);
    if (falls)
        meet_path(b, &to, &here_state, held);
    if (falls)
        (void)adjust_path(b, &here_state, &to, held, true);
    for (u32 k = 1, open = falls; k < n; k++) {
        if (!adjust_path(b, &state[k], &to, held, false))
            continue;
        if (open) {
            put8(b, 0xe9);
            put32(b, 0);
            ends[nends++] = b->n - 4;
        }
        patch(b, at[k], b->n);
        (void)adjust_path(b, &state[k], &to, held, true);
        open = true;
    }
    patch(b, at[0], b->n);
    for (u32 k = 1; k < n; k++)
        if (!adjust_path(b, &state[k], &to, held, false))
            patch(b, at[k], b->n);
    for (u32 k = 0; k < nends; k++)
        patch(b, ends[k], b->n);
    become_state(a, &to);
}

void sg_avx2_unsaved(const struct buf *b, u8 halves[AVX2_YMM])
{
    const struct avx2 *a = b->avx2;

    for (u32 i = 0; i < AVX2_YMM; i++)
        halves[i] = (a->dirty >> i & 1) && !sg_avx2_is_scratch(a->half[i] >> 1) ? (u8)(a->half[i] + 1) : 0;
}

void sg_avx2_save(struct buf *b, const u8 halves[AVX2_YMM])
{
    for (u32 i = 0; i < AVX2_YMM; i++)
        if (halves[i])
            v256(b, STORE_OP, i, 0, MEM_AT(AVX2_FRAME, AVX2_SLOT(halves[i] - 1)));
}

void sg_avx2_kept(struct buf *b, u8 halves[AVX2_YMM])
{
    struct avx2 *a = b->avx2;

    drop_scratch(a);
    for (u32 i = 0; i < AVX2_YMM; i++)
        halves[i] = a->held >> i & 1 ? (u8)(a->half[i] + 1) : 0;
}

void sg_avx2_fill(struct buf *b, u32 ymm, u32 half, bool alias, u32 base, s32 disp)
{
    v256(b, LOAD, ymm, 0,
         alias ? MEM_AT(base, disp + (s32)(32 * (half & 1))) : MEM_AT(AVX2_FRAME, AVX2_SLOT(half)));
}

#endif

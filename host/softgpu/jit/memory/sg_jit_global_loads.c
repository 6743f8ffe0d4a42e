/* SPDX-License-Identifier: MIT */
/*
 * Native loads of global memory (see jit/memory/sg_jit_memory_ops.c): from one address for all lanes, from lanes in
 * a row, by windows (jit/memory/windows.h), or lane by lane.
 */
#include "jit/avx2/avx2.h"
#include "jit/memory/affine.h"
#include "jit/memory/sums.h"
#include "jit/ops.h"

#ifdef SG_JIT

#include <stdlib.h>
#include <string.h>

/* Even and odd words of two registers. */
static const u32 every_second[2][16]
    __attribute__((aligned(64))) = {{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30},
                                    {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31}};

/* Instructions compiled together with a load: none, the load of the following 16 bits, or the conversion
   of the two loaded f32 to a pair of halves (sg_jit_halves_follow()), which goes to d[1]. */
enum also { ALONE, TWO, HALVES };

#define AHEAD 8192 /* bytes: data of the next warps is prefetched at this distance */

/* When a warp loads a row, other warps load the following rows: prefetches those. */
static void prefetch_rows(struct jit *j, u32 n, s32 ahead, s32 disp)
{
    struct buf *b = B(j);

    for (u32 k = 0; k < 2 * n; k++) {
        rex(b, false, 0, RAX);
        put8(b, 0x0f); /* prefetcht0 [rax + disp] */
        put8(b, 0x18);
        mem_operand(b, 1, RAX, disp + ahead + (s32)(64 * k), 1);
    }
}

/* Loads from [RAX + disp] on, n words for each lane. */
static void row_load(struct jit *j, u32 d[4][4], u32 n, s32 disp)
{
    struct buf *b = B(j);

    if (n == 2 && !j->b.avx2) {
        mov_imm64(b, RSI, (u64)(uintptr_t)every_second);
        evm(b, VMOV, 0, 0, RSI, 0, 64, 0, 0);
        evm(b, VMOV, 1, 0, RSI, 64, 64, 0, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const s32 at = disp + (s32)(64 * n * h);

        for (u32 k = 0; k < n; k++)
            evm(b, VMOVU, d[k][h], 0, RAX, at, 64, 0, 0);
        if (n == 1)
            continue;
        evm(b, VMOVU, 2, 0, RAX, at + 64, 64, 0, 0);
        if (b->avx2) {
            sg_avx2_deinterleave(b, d[0][h], d[1][h], d[0][h], 2);
            continue;
        }
        ev(b, PERMT2D, d[0][h], 0, 2, 0, 0);
        ev(b, PERMT2D, d[1][h], 1, 2, 0, 0);
    }
}

/* The 32-bit lanes at ad + disp, chunk h of the result: register to. */
static void gather32(struct jit *j, u32 to, const u32 ad[4], u32 h, s32 disp)
{
    const size_t skip = sg_jit_skip_upper(j, h);
    struct buf *b = B(j);

    sg_jit_lanes(j, 1, 2 * h, true);
    sg_jit_lanes(j, 2, 2 * h + 1, true);
    evsib0(b, GATHERQD, to, ad[2 * h], disp, 1, 0);
    evsib0(b, GATHERQD, 2, ad[2 * h + 1], disp, 2, 0);
    evi(b, INSERT4, to, to, 2, 0, 0, 1);
    sg_jit_skipped(j, skip);
}

/* Pairs of words: two chunks of each half of a chunk of 64-bit lanes. */
static void gather64(struct jit *j, u32 lo, u32 hi, const u32 ad[4], u32 h, s32 disp)
{
    const size_t skip = sg_jit_skip_upper(j, h);
    struct buf *b = B(j);

    sg_jit_lanes(j, 1, 2 * h, true);
    sg_jit_lanes(j, 2, 2 * h + 1, true);
    evsib0(b, GATHERQQ, 2, ad[2 * h], disp, 1, 0);
    evsib0(b, GATHERQQ, 3, ad[2 * h + 1], disp, 2, 0);
    ev(b, MOVQD, 2, 0, 4, 0, 0);
    ev(b, MOVQD, 3, 0, 5, 0, 0);
    evi(b, INSERT4, lo, 4, 5, 0, 0, 1);
    evi(b, SHIFT_Q, 2, 2, 2, 0, 0, 32);
    evi(b, SHIFT_Q, 2, 3, 3, 0, 0, 32);
    ev(b, MOVQD, 2, 0, 4, 0, 0);
    ev(b, MOVQD, 3, 0, 5, 0, 0);
    evi(b, INSERT4, hi, 4, 5, 0, 0, 1);
    sg_jit_skipped(j, skip);
}

static u32 span_of(u32 arg)
{
    const u32 bytes = (arg & 15) * (arg >> 8 & 15);

    return bytes < 4 ? 4 : bytes;
}

/* True if the check of the load in can be merged with the checks of other loads. *arg: its kind. */
static bool may_group(const struct sg_insn *in, u32 *arg)
{
    const struct jop *o = sg_jit_find(in->fn, NULL);

    if (!o || !o->load || (in->aux & SG_AUX_SPIN) || !sg_jit_fits(in, (o->arg & 15) * (o->arg >> 8 & 15)))
        return false;
    *arg = o->arg;
    return true;
}

/*
 * Collects the loads from here on through the same register, until the register changes or a
 * handler is called. All are inside an allocation if the first and the last byte of all are.
 * Returns false if there is only one.
 */
static bool open_group(struct jit *j, const struct sg_insn *in, struct group *g)
{
    const struct sg_code *c = j->code;
    u32 n = 0, arg;

    if (j->ngroups == SG_NATIVE_GROUPS || j->walked >= JIT_WALK_MAX || !may_group(in, &arg))
        return false;
    *g = (struct group){.a = in->a, .low = INT32_MAX, .high = INT32_MIN, .align = 1, .flag = j->ngroups};
    for (u32 i = j->cur; i < c->ninsns && (i == j->cur || j->leader[i] != 1); i++) {
        const struct sg_insn *x = &c->insns[i];

        j->walked++;
        if (i > j->cur && !sg_jit_find(x->fn, NULL) && x->fn != sg_jit_ctl.join && x->fn != sg_jit_ctl.flat)
            break; /* it may add lanes */
        if (x->a == in->a && may_group(x, &arg)) {
            const u32 bytes = (arg & 15) * (arg >> 8 & 15);

            if (x->imm > INT32_MAX / 4 || x->imm < INT32_MIN / 4)
                break;
            g->low = x->imm < g->low ? (s32)x->imm : g->low;
            g->high = (s32)x->imm + (s32)span_of(arg) > g->high ? (s32)x->imm + (s32)span_of(arg) : g->high;
            g->align = bytes > g->align ? bytes : g->align;
            g->last = i;
            n++;
        }
        if (sg_jit_writes(j, i, in->a))
            break;
    }
    return n > 1;
}

static void set_flag(struct jit *j, const struct group *g, u32 value)
{
    store_imm8(B(j), G_WARP, (s32)(offsetof(struct sg_warp, native_ok) + g->flag), value);
}

/* Compares the flag of a group. */
static void cmp_flag(struct jit *j, const struct group *g, u32 value)
{
    alu_mem_imm8(B(j), true, 7, G_WARP, (s32)(offsetof(struct sg_warp, native_ok) + g->flag), value);
}

static bool group_covers(const struct group *g, const struct sg_insn *in, u32 arg)
{
    return in->imm >= g->low && in->imm + span_of(arg) <= g->high && (arg & 15) * (arg >> 8 & 15) <= g->align;
}

/* The group of loads that are checked together with this one; *fresh: it is the first. Returns NULL,
   with nothing emitted, if the load is alone. */
static struct group *group_of(struct jit *j, struct stub *s, const struct sg_insn *in, bool *fresh)
{
    struct group *g = NULL, opened;
    u32 arg;

    *fresh = false;
    if (!may_group(in, &arg)) /* it may stand between loads of a group, whose check omits it */
        return NULL;
    for (u32 i = 0; i < j->ngroups; i++)
        if (j->groups[i].a == in->a && j->cur <= j->groups[i].last && group_covers(&j->groups[i], in, arg))
            g = &j->groups[i];
    if (g) {
        cmp_flag(j, g, GROUP_UNCHECKED);
        sg_jit_slow(j, s, JE);
        return g;
    }
    if (!open_group(j, in, &opened))
        return NULL;
    *fresh = true;
    g = &j->groups[j->ngroups++];
    *g = opened;
    g->window = s->window;
    /* Before any run: a match tells that all lanes are as aligned as the first. */
    if (s->window && s->window->align != g->align)
        s->window->align = g->align;
    set_flag(j, g, GROUP_UNCHECKED);
    return g;
}

/* Bytes that a group accesses in each lane. */
static struct check whole_group(const struct sg_insn *in, const struct group *g)
{
    return (struct check){
        .idx = in->idx,
        .low = g->low & ~((s64)g->align - 1), /* aligned like allocations: the same result */
        .high = g->high,
        .align = g->align,
    };
}

static void check_group(struct jit *j, struct stub *s, const struct sg_insn *in, struct group *g,
                        const u32 ad[4])
{
    const struct check k = whole_group(in, g);

    sg_jit_check_global(j, s, &k, ad);
    set_flag(j, g, GROUP_CHECKED);
}

/*
 * As sg_jit_window_test(), for a later load of a group. The addresses of its loads differ by a
 * constant, so the result for the first load holds for each whose windows were learnt from the same
 * distances.
 */
static void window_of_group(struct jit *j, struct stub *s, const struct group *g, const u32 ad[4],
                            struct window_misses *misses)
{
    size_t differs = 0, known = 0;

    if (g->window) {
        s->window->first = g->window;
        mov_imm64(B(j), RSI, (u64)(uintptr_t)s->window);
        cmp_flag(j, g, GROUP_MATCHES);
        differs = fork_jcc(B(j), JNE);
        alu_mem_imm8(B(j), true, 7, RSI, (s32)offsetof(struct sg_window, as_first), 0);
        known = fork_jcc(B(j), JNE);
        sg_jit_join_at(j, differs);
    }
    sg_jit_window_test(j, ad, s->window, misses);
    sg_jit_join_at(j, known);
}

/* True if the next instruction loads the 16 bits that follow this instruction's. */
static bool is_half_pair(const struct jit *j, const struct sg_insn *in, u32 arg)
{
    const struct sg_insn *x = in + 1;
    const u32 i = j->cur + 1;

    return arg == MEM(2, 1) && i < j->code->ninsns && !j->leader[i] && x->fn == in->fn && x->a == in->a &&
           x->imm == in->imm + 2 && in->d != in->a && in->d != x->d && x->aux == in->aux &&
           !(in->aux & SG_AUX_SPIN) && sg_jit_fits(x, 2);
}

/* An address for all lanes: loaded once. */
static bool load_flat(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 size = arg & 15, n = arg >> 8 & 15;
    const struct check k = {
        .idx = in->idx, .align = size * n, .low = in->imm, .high = in->imm + span_of(arg)};
    const u32 ad = sg_jv_get(j, in->a, 0);
    struct stub *s = sg_jit_stub(j);
    u32 d[4][4];

    sg_jit_spin(j, in);
    sg_jit_check_flat(j, s, &k, ad);
    for (u32 i = 0; i < n; i++)
        for (u32 h = 0; h < sg_jit_n(j, size == 8); h++) {
            d[i][h] = sg_jv_new(j);
            evm(B(j), size == 8 ? BCAST_M64 : BCAST_M32, d[i][h], 0, RAX, (s32)in->imm + (s32)(i * size),
                size == 8 ? 8 : 4, 0, 0);
            if (size < 4)
                sg_jit_cut(j, d[i][h], size, arg & SIGN);
        }
    for (u32 i = 0; i < n; i++)
        for (u32 h = 0; h < sg_jit_n(j, size == 8); h++)
            sg_jv_bind(j, dest(in, i), h, d[i][h]);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

/* Two 16-bit values that lie in each lane of d[0][h]: the second one to d[1][h]. */
static void split_halves(struct jit *j, u32 d[4][4], u32 h, u32 arg)
{
    evi(B(j), SHIFT_D, 2, d[1][h], d[0][h], 0, 0, 16);
    sg_jit_cut(j, d[0][h], 2, arg & SIGN);
}

/* The result of a load, lane by lane. */
static void gather_loads(struct jit *j, const struct sg_insn *in, u32 arg, const u32 ad[4], u32 d[4][4],
                         enum also also)
{
    const u32 size = arg & 15, n = arg >> 8 & 15;

    for (u32 h = 0; h < sg_jit_n(j, true) && size == 8; h++) {
        sg_jit_lanes(j, 1, h, true);
        evsib0(B(j), GATHERQQ, d[0][h], ad[h], (s32)in->imm, 1, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, false) && size < 8 && n == 1; h++) {
        gather32(j, d[0][h], ad, h, (s32)in->imm);
        if (also == TWO)
            split_halves(j, d, h, arg);
        else
            sg_jit_cut(j, d[0][h], size, arg & SIGN);
    }
    for (u32 k = 0; k < n && n > 1; k += 2)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            gather64(j, d[k][h], d[k + 1][h], ad, h, (s32)(in->imm + 4 * k));
    if (also == HALVES)
        sg_jit_halves(j, d[1], d[0]);
}

/* True unless an earlier load of the group has prefetched the lines of this one. */
static bool needs_prefetch(struct group *g, const struct sg_insn *in)
{
    const u64 line = g ? (u64)(in->imm - g->low) / 64 : 64;
    const bool first = line > 63 || !(g->fetched >> line & 1);

    if (line < 64)
        g->fetched |= 1ull << line;
    return first;
}

/* Prefetches what lies at `at` from RAX on, for the next warps. */
static void prefetch_ahead(struct jit *j, s32 at)
{
    struct buf *b = B(j);

    put8(b, 0x0f); /* prefetcht0 [rax + disp] */
    put8(b, 0x18);
    mem_operand(b, 1, RAX, at + SG_WINDOW_AHEAD, 1);
}

/*
 * Prefetches the line of the byte at `at`, relative to the addresses of the load's group, unless two bytes around it with
 * at most a line between them are prefetched. How lines lie is not known.
 */
static void prefetch_byte(struct jit *j, u32 root, s32 at)
{
    s64 below = INT64_MIN, above = INT64_MAX;

    for (u32 i = 0; i < j->nfetched; i++) {
        const struct fetched *f = &j->fetched[i];

        if (f->root == root && f->at <= at && f->at > below)
            below = f->at;
        if (f->root == root && f->at >= at && f->at < above)
            above = f->at;
    }
    if (below != INT64_MIN && above != INT64_MAX && above - below <= 64)
        return;
    prefetch_ahead(j, at);
    if (j->nfetched < sizeof(j->fetched) / sizeof(*j->fetched))
        j->fetched[j->nfetched++] = (struct fetched){root, at};
}

static int compare_offsets(const void *a, const void *b)
{
    const s64 x = *(const s64 *)a, y = *(const s64 *)b;

    return x < y ? -1 : x > y;
}

/* RAX: the address of lane 0. Prefetches all lines of a load whose lanes lie as in the window x. */
static void prefetch_settled(struct jit *j, const struct sg_window *x, const struct sg_insn *in,
                             const struct group *g)
{
    const u32 root = g ? g->flag : SG_NATIVE_GROUPS + j->cur;
    s64 at[SG_LANES];

    memcpy(at, x->offset, sizeof(at));
    qsort(at, SG_LANES, sizeof(*at), compare_offsets);
    for (u32 i = 0, k; i < SG_LANES; i = k) {
        s64 end = at[i];

        for (k = i; k < SG_LANES && at[k] <= end + 64; k++)
            end = at[k] + x->size;
        for (s64 to = at[i]; to < end - 1; to += 64)
            prefetch_byte(j, root, (s32)(in->imm + to));
        prefetch_byte(j, root, (s32)(in->imm + end - 1));
    }
}

/* RSI: the window, RAX: the address of lane 0. The result of a load by windows; fixed: each block loads the same, so that
   nothing is prefetched. */
static void windows_to(struct jit *j, const struct stub *s, const struct sg_insn *in, u32 arg, u32 d[4][4],
                       enum also also, struct group *g, bool fixed)
{
    const bool settled = sg_jit_window_settled(j, s->window);

    if (settled && !fixed)
        prefetch_settled(j, s->window, in, g);
    sg_jit_window_load(j, d, arg >> 8 & 15, s->window->size, (s32)in->imm, !settled && needs_prefetch(g, in),
                       settled ? s->window : NULL);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        if (also == TWO)
            split_halves(j, d, h, arg);
        else
            sg_jit_cut(j, d[0][h], arg & 15, arg & SIGN);
    if (also == HALVES)
        sg_jit_halves(j, d[1], d[0]);
}

/* RAX: the address of lane 0. The result of a load of a row. */
static void row_to(struct jit *j, const struct sg_insn *in, u32 arg, u32 d[4][4], enum also also)
{
    const u32 n = arg >> 8 & 15;

    if (also == HALVES) {
        sg_jit_halves_load(j, d[1], (s32)in->imm);
        return;
    }
    row_load(j, d, n, (s32)in->imm);
    for (u32 h = 0; h < sg_jit_n(j, false) && also == TWO; h++)
        split_halves(j, d, h, arg);
    if (n == 1)
        prefetch_rows(j, n, also == TWO ? SG_WINDOW_AHEAD : AHEAD, (s32)in->imm);
}

/*
 * The path for lanes in windows. Returns the jump at its end to be patched; the other paths follow.
 * Matching lanes have known distances, so only the address of lane 0 is compared with the allocation.
 */
static size_t window_load(struct jit *j, struct stub *s, const struct sg_insn *in, u32 arg, const u32 ad[4],
                          u32 d[4][4], enum also also, struct group *g, bool fresh)
{
    const u32 bytes = (arg & 15) * (arg >> 8 & 15);
    const struct check alone = {
        .idx = in->idx, .low = in->imm, .high = in->imm + s->window->size, .align = bytes};
    const struct check all = fresh ? whole_group(in, g) : alone;
    struct window_misses misses;
    size_t end;

    if (g && !fresh) {
        window_of_group(j, s, g, ad, &misses);
        ev(B(j), MOVQ_R, ad[0], 0, RAX, 0, EV_XMM);
    } else {
        sg_jit_window_test(j, ad, s->window, &misses);
        sg_jit_check_window(j, s, &all, ad[0]);
    }
    if (fresh)
        set_flag(j, g, GROUP_MATCHES);
    windows_to(j, s, in, arg, d, also, g, false);
    end = fork_jmp(B(j));
    sg_jit_window_missed(j, &misses);
    return end;
}

/* The path for lanes in a row. Returns the jump at its end. The first lane's address is checked,
   unless the group was checked before. */
static size_t load_row(struct jit *j, struct stub *s, const struct sg_insn *in, u32 arg, u32 ad, u32 d[4][4],
                       enum also also, struct group *g, bool checked)
{
    const u32 n = arg >> 8 & 15, stride = also == TWO ? 4 : 4 * n;
    struct check k = {
        .idx = in->idx, .align = (arg & 15) * n, .low = in->imm, .high = in->imm + SG_LANES * stride};

    if (checked) {
        ev(B(j), MOVQ_R, ad, 0, RAX, 0, EV_XMM);
    } else {
        if (g) {
            k = whole_group(in, g);
            k.high += (SG_LANES - 1) * stride;
        }
        sg_jit_check_flat(j, s, &k, ad);
        if (g)
            set_flag(j, g, GROUP_IN_ROW);
    }
    row_to(j, in, arg, d, also);
    return fork_jmp(B(j));
}

/* True if there is a faster way for lanes in a row. */
static bool lies_in_row(const struct jit *j, u32 arg, enum also also)
{
    return (also == TWO || ((arg & 15) == 4 && (arg >> 8 & 15) < 3)) && !j->masked;
}

/* Jumps unless w->lie of the load has this value (jit/memory/sums.h). */
static size_t unless_lie(struct jit *j, const struct stub *s, u32 how)
{
    alu_mem_imm8(B(j), true, 7, G_WARP, (s32)(offsetof(struct sg_warp, lie) + s->window->site), how);
    return fork_jcc(B(j), JNE);
}

/* A load from a sum. */
struct from_sum {
    struct stub *s;
    const struct sg_insn *in;
    u32 arg;
    const struct sum *sum;
    const u32 *ad; /* registers that get the addresses if lanes are neither in a row nor in windows */
    u32 (*d)[4];
    enum also also;
    struct group *g;
    bool fresh;
};

/* What to check: `bytes` from an address on; for the first load of a group, of which that many lanes are in a row,
   all that the group accesses. */
static struct check sum_check(const struct from_sum *l, u32 bytes, u32 lanes)
{
    struct check k = {.idx = l->in->idx,
                      .align = (l->arg & 15) * (l->arg >> 8 & 15),
                      .low = l->in->imm,
                      .high = l->in->imm + bytes};

    if (l->fresh) {
        k = whole_group(l->in, l->g);
        k.high += (lanes - 1) * l->s->window->row;
    }
    k.sum = l->sum;
    return k;
}

/* RAX: the address of lane 0, checked unless the group was. */
static void sum_first(struct jit *j, const struct from_sum *l, const struct check *k, bool windows)
{
    if (l->g && !l->fresh)
        sg_jit_sum_first(j, l->sum);
    else if (windows)
        sg_jit_check_window(j, l->s, k, 0);
    else
        sg_jit_check_flat(j, l->s, k, 0);
    if (l->fresh)
        set_flag(j, l->g, GROUP_CHECKED);
}

static void sum_in_windows(struct jit *j, const struct from_sum *l)
{
    const struct check k = sum_check(l, l->s->window->size, 1);

    mov_imm64(B(j), RSI, (u64)(uintptr_t)l->s->window);
    sum_first(j, l, &k, true);
    windows_to(j, l->s, l->in, l->arg, l->d, l->also, l->g, l->sum->fixed);
}

static void sum_in_row(struct jit *j, const struct from_sum *l)
{
    const struct check k = sum_check(l, SG_LANES * l->s->window->row, SG_LANES);

    sum_first(j, l, &k, false);
    row_to(j, l->in, l->arg, l->d, l->also);
}

static void sum_apart(struct jit *j, const struct from_sum *l)
{
    const struct check one = sum_check(l, span_of(l->arg), 1);

    for (u32 h = 0; h < 4; h++)
        sg_jit_sum_lanes(j, l->sum, h, l->ad[h]);
    if (l->fresh)
        check_group(j, l->s, l->in, l->g, l->ad);
    else if (!l->g)
        sg_jit_check_global(j, l->s, &one, l->ad);
    gather_loads(j, l->in, l->arg, l->ad, l->d, l->also);
}

/*
 * The distances of the lanes depend on a hoisted value alone and are found once (sg_jit_sum_learn()). A
 * settled version of the block is compiled when they are known.
 */
static void load_sum(struct jit *j, const struct from_sum *l)
{
    size_t other, end[2] = {0};

    if (j->settled) {
        const u8 lie = j->settled[j->nsites];

        (lie == LIE_IN_WINDOWS ? sum_in_windows : lie == LIE_IN_ROW ? sum_in_row : sum_apart)(j, l);
        return;
    }
    other = unless_lie(j, l->s, LIE_IN_WINDOWS);
    sum_in_windows(j, l);
    end[0] = fork_jmp(B(j));
    sg_jit_join_at(j, other);
    if (l->s->window->row) {
        other = unless_lie(j, l->s, LIE_IN_ROW);
        sum_in_row(j, l);
        end[1] = fork_jmp(B(j));
        sg_jit_join_at(j, other);
    }
    alu_mem_imm8(B(j), true, 7, G_WARP, (s32)(offsetof(struct sg_warp, lie) + l->s->window->site), LIE_APART);
    sg_jit_slow(j, l->s, JNE);
    sum_apart(j, l);
    sg_jit_join(j, end, 2);
}

/* The window of a load of a settled block, which is known if the load is one from a sum. NULL: it is not. */
static struct sg_window *settled_window(const struct jit *j)
{
    const struct site *x = &j->sites[j->nsites + 1];

    return j->nsites + 1 < SG_NATIVE_SITES && x->insn == j->cur && !j->masked ? x->window : NULL;
}

/* The window of a load from the sum becomes one of a site. */
static void new_site(struct jit *j, const struct sum *sum, struct sg_window *x)
{
    x->site = ++j->nsites;
    if (j->sites)
        j->sites[x->site] = (struct site){x, j->cur};
    if (j->affine)
        sg_jit_affine_site(j, sum, x);
}

/* A load from addresses in the registers ad. */
static void load_lanes(struct jit *j, struct stub *s, const struct sg_insn *in, u32 arg, const u32 ad[4],
                       u32 d[4][4], enum also also, struct group *g, bool fresh)
{
    const u32 size = arg & 15, n = arg >> 8 & 15, bytes = size * n, stride = also == TWO ? 4 : bytes;
    const struct check k = {.idx = in->idx, .align = bytes, .low = in->imm, .high = in->imm + span_of(arg)};
    const bool row = lies_in_row(j, arg, also);
    size_t others = 0, end = 0, end_window = 0, known = 0;
    bool checked = g && !fresh;

    if (fresh)
        g->row = row ? stride : 0;
    else if (row && g && g->row == stride) {
        cmp_flag(j, g, GROUP_IN_ROW);
        known = fork_jcc(B(j), JE);
    }
    if (s->window)
        end_window = window_load(j, s, in, arg, ad, d, also, g, fresh);
    /* Lanes in a row are all as aligned as the first, but for less than a group may ask. */
    if (fresh && !(row && stride >= g->align)) {
        check_group(j, s, in, g, ad);
        checked = true;
    }
    if (row) {
        others = sg_jit_row_test(j, ad, n);
        sg_jit_join_at(j, known);
        end = load_row(j, s, in, arg, ad[0], d, also, g, checked);
        sg_jit_join_at(j, others);
        if (fresh && !checked)
            check_group(j, s, in, g, ad);
    }
    if (s->window)
        sg_jit_window_known(j, s, s->window);
    if (!g)
        sg_jit_check_global(j, s, &k, ad);
    gather_loads(j, in, arg, ad, d, also);
    sg_jit_join(j, (const size_t[]){end_window, end}, 2);
}

bool sg_jit_load_global(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 size = arg & 15, n = arg >> 8 & 15, bytes = size * n, chunks = sg_jit_n(j, size == 8);
    const enum also also = is_half_pair(j, in, arg)                          ? TWO
                           : arg == MEM(4, 2) && sg_jit_halves_follow(j, in) ? HALVES
                                                                             : ALONE;
    const u32 stride = also == TWO ? 4 : bytes; /* of lanes in a row */
    const struct sum *sum;
    struct group *g;
    struct stub *s;
    struct sum copy; /* later register contents no longer belong to the original */
    u32 ad[4], d[4][4];
    bool fresh, settled;

    if (!sg_jit_fits(in, bytes) || (in->a & SG_OPND_CONST))
        return false;
    if (bytes > 8 && (in->aux & SG_AUX_SPIN))
        return false; /* spin loops need a single access: sg_read_whole */
    if (sg_jit_flat(j, in->a))
        return load_flat(j, in, arg);
    s = sg_jit_stub(j);
    if (!s)
        return true; /* no memory: failed is set */
    s->n = also == TWO ? 2 : also == HALVES ? 4 : 1;
    s->window = j->settled ? settled_window(j) : NULL;
    settled = s->window;
    if (size <= 4 && !settled)
        s->window = sg_jit_window(j, in, stride, bytes, lies_in_row(j, arg, also) ? stride : 0);
    sum = s->window && j->nsites + 1 < SG_NATIVE_SITES ? sg_jit_sum(j, in->a) : NULL;
    if (j->settled && settled != (sum != NULL)) {
        /* Not as in the first compilation, which may have left too few steps (JIT_WALK_MAX). Neither way to load has all
           that it needs. */
        j->b.failed = true;
        return true;
    }
    if (sum)
        copy = *sum;
    for (u32 h = 0; h < sg_jit_n(j, true) && !(settled && j->settled[j->nsites + 1] != LIE_APART); h++)
        ad[h] = sum ? sg_jv_new(j) : sg_jv_get(j, in->a, h);
    /* before the paths split: this may write registers back */
    for (u32 i = 0; i < (also == TWO ? 2 : n); i++)
        for (u32 h = 0; h < chunks; h++)
            d[i][h] = sg_jv_new(j);
    sg_jit_spin(j, in);
    g = group_of(j, s, in, &fresh);
    if (sum) {
        if (!settled && fresh && stride < g->align) /* other lanes may be less aligned than the first */
            s->window->row = 0;
        if (settled)
            j->nsites++;
        else
            new_site(j, &copy, s->window);
        load_sum(j, &(struct from_sum){s, in, arg, &copy, ad, d, also, g, fresh});
    } else {
        load_lanes(j, s, in, arg, ad, d, also, g, fresh);
    }
    if (also == TWO) {
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            sg_jv_bind(j, in->d, h, d[0][h]);
        j->skip = 1;
        j->cur++;
        in++;
    }
    sg_jv_kill(
        j,
        &(struct sg_insn){
            .a = in->a, .d = SG_OPND_CONST, .b = SG_OPND_CONST, .c = SG_OPND_CONST, .e = SG_OPND_CONST},
        15);
    if (also == HALVES) {
        sg_jv_lose(j, in->b);
        for (u32 k = 0; k < 3; k++) /* values without further readers */
            sg_jv_lose(j, in[k].d);
        j->skip = 3;
        j->cur += 3;
    }
    for (u32 i = 0; i < (also == HALVES ? 1 : n); i++)
        for (u32 h = 0; h < chunks; h++)
            sg_jv_bind(j, also == HALVES ? in[3].d : dest(in, i), h, d[also == ALONE ? i : 1][h]);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

#endif

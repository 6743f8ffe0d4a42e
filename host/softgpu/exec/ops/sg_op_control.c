/* SPDX-License-Identifier: MIT */
/* Handlers: branches, predicates, modes, barriers, timers, traps, printf. */
#include "exec/ops/handler.h"
#include "exec/heap.h"
#include "exec/printf.h"
#include "exec/code.h"

#include <stdio.h>
#include <time.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static inline int jump_to(struct sg_warp *w, const struct sg_insn *in, const struct sg_insn *to)
{
    w->ip = to;
    if (to <= in && --w->budget <= 0)
        return SG_YIELD;
    return UNLIKELY(to >= w->min_wait) ? SG_RESCHED : SG_JUMP;
}

static inline int branch_lanes(struct sg_warp *w, const struct sg_insn *in, u32 taken)
{
    const struct sg_insn *target = in + in->imm, *next = in + 1;
    u32 rest;

    taken &= w->mask;
    if (!taken) {
        if (UNLIKELY(next >= w->min_wait)) {
            w->ip = next;
            return SG_RESCHED;
        }
        return SG_NEXT;
    }
    rest = w->mask & ~taken;
    if (!rest)
        return jump_to(w, in, target);
    if (target > in) { /* run the lower target first */
        sg_warp_push(w, target, taken, SG_G_RUN);
        sg_warp_set_mask(w, rest);
        w->ip = next;
        return UNLIKELY(next >= w->min_wait) ? SG_RESCHED : SG_JUMP;
    }
    sg_warp_push(w, next, rest, SG_G_RUN);
    sg_warp_set_mask(w, taken);
    return jump_to(w, in, target);
}

HANDLER(bra)
{
    return jump_to(w, in, in + in->imm);
}

HANDLER(bra_if)
{
    return branch_lanes(w, in, PREDV(a));
}

HANDLER(bra_not)
{
    return branch_lanes(w, in, ~PREDV(a));
}

/* A point where lanes may meet: only here can straight-line execution reach a waiting group. */
HANDLER(join)
{
    if (UNLIKELY(in >= w->min_wait)) {
        w->ip = in;
        return SG_RESCHED;
    }
    return SG_NEXT;
}

HANDLER(brx)
{
    const struct sg_code *c = w->cta->code;
    const u32 *list = c->targets + in->imm, *pa = SRC(u32, a);
    const u32 n = list[0];

    for (u32 m = w->mask; m; m &= m - 1) {
        const int i = __builtin_ctz(m);

        if (pa[i] >= n)
            return sg_fault_set(w, in, (u32)i, 718, "brx.idx: index is outside the list");
        sg_warp_push(w, c->insns + list[1 + pa[i]], 1u << i, SG_G_RUN);
    }
    sg_warp_pick(w); /* everything is in the list of groups now */
    return --w->budget <= 0 ? SG_YIELD : SG_JUMP;
}

static int leave_lanes(struct sg_warp *w, const struct sg_insn *in, u32 gone)
{
    const u32 rest = w->mask & ~gone;

    gone &= w->mask;
    if (!gone)
        return SG_NEXT;
    w->alive &= ~gone;
    if (UNLIKELY(gone & w->cluster_in))
        sg_cluster_leave(w->cta, (u32)__builtin_popcount(gone & w->cluster_in));
    w->cluster_in &= ~gone;
    if (rest) {
        sg_warp_set_mask(w, rest);
        sg_bar_exit(w->cta, (u32)__builtin_popcount(gone));
        w->ip = in + 1;
        return SG_JUMP;
    }
    w->mask = 0;
    sg_bar_exit(w->cta, (u32)__builtin_popcount(gone));
    return SG_BLOCKED;
}

HANDLER(exit)
{
    return leave_lanes(w, in, SG_FULL);
}

HANDLER(exit_if)
{
    return leave_lanes(w, in, PREDV(a));
}

HANDLER(exit_not)
{
    return leave_lanes(w, in, ~PREDV(a));
}

/* @p in front of the next aux instructions */
static int branch_predicated(struct sg_warp *w, const struct sg_insn *in, u32 p)
{
    const u32 mask = w->mask, run = mask & p;
    int r = SG_NEXT;

    if (run) {
        if (run != mask)
            sg_warp_set_mask(w, run);
        r = sg_run_span(w, in + 1, in + 1 + in->aux);
        sg_warp_set_mask(w, mask);
    }
    w->ip = in + 1 + in->aux;
    return r == SG_NEXT ? SG_JUMP : r;
}

HANDLER(pred_if)
{
    return branch_predicated(w, in, PREDV(a));
}

HANDLER(pred_not)
{
    return branch_predicated(w, in, ~PREDV(a));
}

/* Another rounding or denormal mode for the next aux instructions */
HANDLER(fpmode)
{
    int r;
#if defined(__x86_64__)
    const unsigned save = _mm_getcsr();

    _mm_setcsr((unsigned)in->imm);
#endif
    r = sg_run_span(w, in + 1, in + 1 + in->aux);
#if defined(__x86_64__)
    _mm_setcsr(save);
#endif
    w->ip = in + 1 + in->aux;
    return r == SG_NEXT ? SG_JUMP : r;
}

/* The next instruction writes every lane: its value is the same in all lanes (ptx/hoist/sg_ptx_hoist.c). */
HANDLER(flat)
{
    const u32 save = w->wmask;
    int r;

    w->wmask = SG_FULL;
    r = in[1].fn(w, in + 1);
    w->wmask = save;
    w->ip = in + 2;
    return r == SG_NEXT ? SG_JUMP : r;
}

HANDLER(wsync)
{
    const u32 *pa = SRC(u32, a);
    u32 want = 0;

    if (LIKELY(w->mask == w->alive))
        return SG_NEXT;
    for (u32 m = w->mask; m; m &= m - 1)
        want |= pa[__builtin_ctz(m)];
    return sg_warp_sync(w, in, want);
}

/* ---- barriers ---- */

static int arrive_at_barrier(struct sg_warp *w, const struct sg_insn *in, enum sg_bar_kind kind)
{
    const int lane = __builtin_ctz(w->mask);

    return sg_bar_arrive(w, in, SRC(u32, a)[lane], SRC(u32, b)[lane], kind);
}

HANDLER(bar_sync)
{
    return arrive_at_barrier(w, in, SG_BAR_SYNC);
}

HANDLER(bar_arrive)
{
    return arrive_at_barrier(w, in, SG_BAR_ARRIVE);
}

HANDLER(bar_red_popc)
{
    return arrive_at_barrier(w, in, SG_BAR_POPC);
}

HANDLER(bar_red_and)
{
    return arrive_at_barrier(w, in, SG_BAR_AND);
}

HANDLER(bar_red_or)
{
    return arrive_at_barrier(w, in, SG_BAR_OR);
}

HANDLER(fence)
{
    (void)in;
    (void)w;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return SG_NEXT;
}

HANDLER(nanosleep)
{
    w->spin = true;
    w->ip = in + 1;
    return SG_YIELD;
}

/* ---- time ---- */

static u64 now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

static u64 real_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (u64)t.tv_sec * 1000000000ull + (u64)t.tv_nsec;
}

#define TIMER(id, TD, e) \
    HANDLER(id) \
    { \
        const u64 t = (e); \
        w->spin = true; \
        STORE(TD, t); \
        return SG_NEXT; \
    }
TIMER(sreg_clock, u32, now_ns())
TIMER(sreg_clock_hi, u32, now_ns() >> 32)
TIMER(sreg_clock64, u64, now_ns())
TIMER(sreg_globaltimer, u64, real_ns())
TIMER(sreg_globaltimer_lo, u32, real_ns())
TIMER(sreg_globaltimer_hi, u32, real_ns() >> 32)

/* ---- ends ---- */

HANDLER(trap)
{
    return sg_fault_set(w, in, (u32)__builtin_ctz(w->mask), SG_ERR_FAILED, "trap");
}

HANDLER(badcall)
{
    return sg_fault_set(w, in, (u32)__builtin_ctz(w->mask), 718,
                        "call through a pointer to no function that could be called here");
}

/* ---- calls of functions that are not expanded in place: see ptx/sg_ptx_calls.c ---- */

static inline u32 *stack_word(const struct sg_warp *w, u32 lane, u32 at)
{
    return w->stack + (size_t)at * SG_LANES + lane;
}

/* Copies the registers of a lane between the register file and the lane's stack. */
static void move_saved(struct sg_warp *w, const u32 *call, u32 lane, u32 at, bool save)
{
    for (u32 k = 0; k < call[SG_CALL_NREGS]; k++) {
        const u32 r = call[SG_CALL_REGS + k], cls = r >> 30;
        u32 *p = (u32 *)(void *)(w->base[0] + (r & 0x3fffffffu)), *s = stack_word(w, lane, at);

        if (cls == SG_CALL_PRED) {
            if (save)
                *s = *p >> lane & 1;
            else
                *p = (*p & ~(1u << lane)) | *s << lane;
            at++;
        } else {
            const u32 n = cls == SG_CALL_64 ? 2 : 1;

            for (u32 j = 0; j < n; j++, at++) {
                s = stack_word(w, lane, at);
                if (save)
                    *s = p[lane * n + j];
                else
                    p[lane * n + j] = *s;
            }
        }
    }
}

static inline u32 *lane_frames(const struct sg_warp *w)
{
    return (u32 *)(void *)(w->base[0] + w->cta->code->sreg_offset[SG_SR_FRAME]);
}

/* Start of each lane's alloca memory. NULL: the kernel has none. Used only by handlers. */
static inline u32 *alloca_starts(const struct sg_warp *w)
{
    const struct sg_code *c = w->cta->code;

    return sg_code_has_top(c) ? (u32 *)(void *)(w->base[0] + c->sreg_offset[SG_SR_TOP]) : NULL;
}

#define SAVED_WORDS 3 /* behind the registers: frame, index of the call, top */

/* Precedes the arguments of each call, which are written to the callee's future frame. */
HANDLER(call_room)
{
    const struct sg_cta *c = w->cta;
    const u32 *call = c->code->calls + in->aux, *frame = lane_frames(w), *top = alloca_starts(w);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (w->sp[i] + call[SG_CALL_WORDS] + SAVED_WORDS > c->stack_words ||
            (u64)frame[i] + call[SG_CALL_CALLER] + call[SG_CALL_CALLEE] > (top ? top[i] : c->local_bytes))
            return sg_fault_set(w, in, i, SG_ERR_STACK,
                                "call stack overflow: the recursion is deeper than "
                                "CU_LIMIT_STACK_SIZE allows");
    }
    return SG_NEXT;
}

HANDLER(call)
{
    const u32 *call = w->cta->code->calls + in->aux;
    u32 *frame = lane_frames(w);
    const u32 *limit = alloca_starts(w);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), sp = w->sp[i], top = sp + call[SG_CALL_WORDS];

        move_saved(w, call, i, sp, true);
        *stack_word(w, i, top) = frame[i];
        *stack_word(w, i, top + 1) = (u32)(in - w->cta->code->insns);
        *stack_word(w, i, top + 2) = limit ? limit[i] : 0;
        w->sp[i] = top + SAVED_WORDS;
        frame[i] += call[SG_CALL_CALLER];
    }
    w->ip = in + in->imm;
    if (--w->budget <= 0)
        return SG_YIELD;
    return UNLIKELY(w->ip >= w->min_wait) ? SG_RESCHED : SG_JUMP;
}

HANDLER(return )
{
    const struct sg_code *code = w->cta->code;
    const struct sg_insn *to = NULL;
    bool same = true;
    u32 *frame = lane_frames(w), *limit = alloca_starts(w);

    (void)in;
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), top = w->sp[i] - SAVED_WORDS;
        const struct sg_insn *at = code->insns + *stack_word(w, i, top + 1);
        const u32 *call = code->calls + at->aux;

        frame[i] = *stack_word(w, i, top);
        if (limit)
            limit[i] = *stack_word(w, i, top + 2);
        w->sp[i] = top - call[SG_CALL_WORDS];
        move_saved(w, call, i, w->sp[i], false);
        same &= !to || to == at + 1;
        to = at + 1;
        w->lane_ip[i] = to;
    }
    if (same) {
        w->ip = to;
        if (--w->budget <= 0)
            return SG_YIELD;
        return UNLIKELY(to >= w->min_wait) ? SG_RESCHED : SG_JUMP;
    }
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        sg_warp_push(w, w->lane_ip[i], 1u << i, SG_G_RUN);
    }
    sg_warp_pick(w);
    return --w->budget <= 0 ? SG_YIELD : SG_JUMP;
}

/* d: address; a: size; aux: alignment; imm: frame size of the running function */
HANDLER(alloca)
{
    u32 *top = alloca_starts(w);
    const u32 *frame = lane_frames(w);
    const u64 *pa = SRC(u64, a);
    u64 *d = DST(u64, d);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 low = frame[i] + (u64)in->imm, room = top[i] > low ? top[i] - low : 0;

        if (pa[i] > room || ((top[i] - (u32)pa[i]) & ~(in->aux - 1)) < low)
            return sg_fault_set(w, in, i, SG_ERR_STACK,
                                "stack overflow: alloca of more than CU_LIMIT_STACK_SIZE allows");
        d[i] = top[i] = (top[i] - (u32)pa[i]) & ~(in->aux - 1);
    }
    return SG_NEXT;
}

HANDLER(stacksave)
{
    const u32 *top = alloca_starts(w);

    for (u32 m = w->mask; m; m &= m - 1)
        DST(u64, d)[__builtin_ctz(m)] = top[__builtin_ctz(m)];
    return SG_NEXT;
}

HANDLER(stackrestore)
{
    u32 *top = alloca_starts(w);
    const u64 *pa = SRC(u64, a);

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (pa[i] < top[i] || pa[i] > w->cta->local_bytes)
            return sg_fault_set(w, in, i, SG_ERR_STACK, "stackrestore of what stacksave did not give");
        top[i] = (u32)pa[i];
    }
    return SG_NEXT;
}

HANDLER(malloc)
{
    u64 *d = DST(u64, d), cost = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        u32 blocks;

        d[i] = sg_heap_search(SRC(u64, a)[i], &blocks);
        cost += (u64)blocks * SG_HEAP_BLOCK_COST;
    }
    return sg_charge(w, in, cost);
}

HANDLER(free)
{
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (!sg_heap_free(SRC(u64, a)[i]))
            return sg_fault_set(w, in, i, SG_ERR_FAILED, "free() of something that malloc() did not return");
    }
    return SG_NEXT;
}

HANDLER(setcond)
{
    const struct sg_launch *l = w->cta->launch;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (!l->set_conditional || !l->set_conditional(l->mem, SRC(u64, a)[i], SRC(u32, b)[i]))
            return sg_fault_set(w, in, i, SG_ERR_ADDRESS,
                                "cudaGraphSetConditional: no handle of this context");
    }
    return SG_NEXT;
}

HANDLER(vprintf)
{
    return sg_vprintf(w, in);
}

HANDLER(assertfail)
{
    return sg_assertfail(w, in);
}

#include "exec/ops/control.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_ctl[] = {
#include "exec/ops/control.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/*
 * Compiles a block: its instructions, and the branch at its end. A branch over a few instructions, and
 * instructions under a predicate or in a mode, are compiled again with it.
 */
#include "jit/avx2/avx2.h"
#include "jit/late.h"
#include "jit/memory/affine.h"
#include "jit/ops.h"

#ifdef SG_JIT

/* ---- instructions ---- */

/* Compiles "fpmode" at i and its instructions. Returns false, with nothing emitted, if an instruction does not
   support modes natively. */
static bool compile_mode(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const u32 own = j->mode;

    for (u32 k = 1; k <= in->aux; k++) {
        const struct jop *o = sg_jit_find(in[k].fn, NULL);

        if (!o || !(o->arg & MODAL))
            return false;
    }
    j->mode = (u32)in->imm;
    for (u32 k = 1; k <= in->aux; k++)
        sg_jit_insn(j, i + k);
    j->mode = own;
    return true;
}

/* cvt of f16 or an integer to f32 neither takes nor gives denormals: only rounding matters. */
static bool harmless_mode(const struct sg_insn *in)
{
    return in->aux == 1 && (in->imm & 0x6000) == 0;
}

static u32 one_insn(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const struct jop *o;
    bool pure = false;

    j->cur = i;
    if (j->affine && sg_jit_affine_insn(j, i))
        return 1;
    if (in->fn == sg_jit_ctl.join || in->fn == sg_jit_ctl.ext || (in->fn == sg_jit_ctl.wsync && !j->masked))
        return 1; /* all lanes are here */
    if (in->fn == sg_jit_ctl.fpmode && harmless_mode(in)) {
        o = sg_jit_find(in[1].fn, &pure);
        if (o && (o->arg & NO_MODE))
            return 1;
    }
    if (in->fn == sg_jit_ctl.fpmode && compile_mode(j, i))
        return 1 + in->aux;
    if (in->fn == sg_jit_ctl.flat) {
        o = sg_jit_find(in[1].fn, &pure);
        j->cur = i + 1;
        if (o && sg_jit_emit(j, &in[1], o)) {
            sg_jv_kill_flat(j);
            sg_jv_unpin(j);
            return 2;
        }
    }
    if (sg_jit_is_span(in->fn)) {
        sg_jit_generic(j, i, SG_JUMP);
        sg_jit_still_low(j, i + 1 + in->aux);
        return 1 + in->aux;
    }
    o = sg_jit_find(in->fn, &pure);
    if (o && pure && (j->kill[i] & F_DEAD)) /* its result is never read */
        return 1;
    j->skip = 0;
    if (!o || !sg_jit_emit(j, in, o))
        sg_jit_generic(j, i, SG_NEXT);
    else
        sg_jv_kill_flat(j);
    if (!o)
        sg_jit_still_low(j, i + 1);
    sg_jv_unpin(j);
    return 1 + j->skip;
}

u32 sg_jit_insn(struct jit *j, u32 i)
{
    const u32 n = one_insn(j, i);

    if (j->b.avx2)
        sg_avx2_done(B(j), j->v.held);
    return n;
}

/* ---- conditional branches ---- */

/* True if the branch at i skips a single block of plain operations, which is then executed under
   a mask instead of splitting the warp. */
static bool jumps_over_little(const struct jit *j, u32 i, u32 to)
{
    const struct sg_code *c = j->code;

    if (to <= i + 1 || to - i > JIT_SPAN_MAX)
        return false;
    for (u32 k = i + 1; k < to; k++) {
        const struct sg_insn *x = &c->insns[k];

        if (k > i + 1 && j->leader[k] == 1)
            return false;
        if (x->fn == sg_jit_ctl.flat) {
            k++;
            continue;
        }
        if (sg_jit_is_branch(x->fn) || (!sg_jit_find(x->fn, NULL) && x->fn != sg_jit_ctl.join))
            return false;
    }
    return true;
}

/* Sets w->mask and the state derived from it; RAX holds the lanes. */
static void set_mask(struct jit *j)
{
    struct buf *b = B(j);

    alu_mem(b, false, 0x89, RAX, G_WARP, offsetof(struct sg_warp, mask));
    alu_mem(b, false, 0x8b, RCX, G_WARP, offsetof(struct sg_warp, alive));
    put8(b, 0xf7); /* not ecx */
    put8(b, 0xd1);
    alu_reg(b, false, 0x09, RAX, RCX);
    alu_mem(b, false, 0x89, RAX, G_WARP, offsetof(struct sg_warp, wmask));
}

/* Compiles the code between i and `to` for the lanes of w->mask; `restore`: those of native_mask run
   again behind it. */
static void run_between(struct jit *j, u32 i, u32 to, u8 version, bool restore)
{
    const u8 before = j->masked;
    struct buf *b = B(j);

    j->masked = version;
    sg_jv_forget(j);
    j->ngroups = 0;
    for (u32 k = i + 1; k < to;)
        k += sg_jit_insn(j, k);
    sg_jv_flush(j);
    sg_jv_forget(j);
    if (restore) {
        alu_mem(b, false, 0x8b, RAX, G_WARP, offsetof(struct sg_warp, native_mask));
        set_mask(j);
    }
    j->masked = before;
    sg_jit_jump_to(j, jmp(b), to);
}

/*
 * The lanes in EAX jump to `to`; the other lanes run the code in between, then all continue at
 * `to`. Only valid while no lanes wait at or before `to`.
 */
static void run_over(struct jit *j, u32 i, u32 to)
{
    const u8 masked = j->masked;
    struct buf *b = B(j);
    size_t waiting = 0, low;

    if (masked) {
        mov_imm64(b, RDX, sg_jit_place(j, to));
        alu_mem(b, true, 0x3b, RDX, G_WARP, offsetof(struct sg_warp, min_wait));
        waiting = jcc(b, JAE);
    }
    alu_mem(b, false, 0x8b, RCX, G_WARP, offsetof(struct sg_warp, mask));
    alu_mem(b, false, 0x89, RCX, G_WARP, offsetof(struct sg_warp, native_mask));
    put8(b, 0xf7); /* not eax */
    put8(b, 0xd0);
    alu_reg(b, false, 0x21, RAX, RCX);
    set_mask(j);
    sg_jit_count(j, to - i - 1);
    if (masked == JIT_LOW) {
        run_between(j, i, to, JIT_LOW, true);
    } else {
        sg_jit_cmp_upper(j);
        low = jcc(b, JE);
        run_between(j, i, to, JIT_SOME, true);
        land(b, low);
        run_between(j, i, to, JIT_LOW, true);
    }
    j->masked = masked;
    if (waiting)
        land(b, waiting);
}

/* The conditional branch at the end of a block. */
static void compile_branch(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const u32 to = (u32)((s64)i + in->imm);
    struct buf *b = B(j);
    const bool negated = in->fn == sg_jit_ctl.bra_not, over = jumps_over_little(j, i, to);
    size_t none, all;

    alu_mem(b, false, 0x8b, RAX, in->a >> 31 ? G_POOL : G_REGS, (s32)(in->a & 0x7fffffffu));
    if (j->masked) {
        alu_mem(b, false, 0x8b, RCX, G_WARP, offsetof(struct sg_warp, mask));
        alu_reg(b, false, 0x21, RAX, RCX);
    } else {
        alu_reg(b, false, 0x85, RAX, RAX);
    }
    none = jcc(b, JE);
    if (j->masked)
        alu_reg(b, false, 0x39, RAX, RCX);
    else
        alu_imm(b, false, 7, RAX, SG_FULL);
    all = jcc(b, JE);
    if (over) {
        if (negated) { /* the lanes in EAX stay */
            put8(b, 0xf7);
            put8(b, 0xd0);
        }
        run_over(j, i, to);
    }
    if (!over || j->masked) {
        sg_jit_call_handler(j, i, ": lanes part"); /* some wait now */
        alu_imm(b, false, 7, RAX, SG_JUMP);
        sg_jit_jump_to(j, jcc(b, JE), JIT_RESUME);
        alu_imm(b, false, 7, RAX, SG_RESCHED);
        sg_jit_jump_to(j, jcc(b, JE), JIT_RESCHED);
        sg_jit_jump_to(j, jmp(b), JIT_EXIT);
    }
    land(b, negated ? none : all);
    sg_jit_go_to(j, i, to);
    land(b, negated ? all : none);
    sg_jit_check_waiting(j, i + 1);
    sg_jit_jump_to(j, jmp(b), i + 1);
}

/* ---- instructions under a predicate ---- */

static void compile_predicated(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const u32 to = i + 1 + in->aux;
    struct buf *b = B(j);
    size_t none, all = 0;

    alu_mem(b, false, 0x8b, RAX, in->a >> 31 ? G_POOL : G_REGS, (s32)(in->a & 0x7fffffffu));
    if (in->fn == sg_jit_ctl.pred_not) {
        put8(b, 0xf7); /* not eax */
        put8(b, 0xd0);
    }
    alu_mem(b, false, 0x8b, RCX, G_WARP, offsetof(struct sg_warp, mask));
    alu_reg(b, false, 0x21, RAX, RCX);
    none = jcc(b, JE);
    if (!j->masked) {
        alu_reg(b, false, 0x39, RAX, RCX);
        all = jcc(b, JE);
    }
    alu_mem(b, false, 0x89, RCX, G_WARP, offsetof(struct sg_warp, native_mask));
    set_mask(j);
    run_between(j, i, to, j->masked == JIT_LOW ? JIT_LOW : JIT_SOME, true);
    if (!j->masked) {
        land(b, all);
        run_between(j, i, to, JIT_ALL, false);
    }
    land(b, none);
    sg_jit_jump_to(j, jmp(b), to);
}

/* ---- blocks ---- */

bool sg_jit_is_bar(sg_fn fn)
{
    for (u32 k = 0; k < 5; k++)
        if (fn == sg_jit_ctl.bar[k])
            return true;
    return false;
}

static void compile_block(struct jit *j, u32 first)
{
    const struct sg_code *c = j->code;
    struct buf *b = B(j);
    u32 i = first;

    sg_jv_forget(j);
    j->ngroups = 0;
    j->begin = first;
    j->sincos = NO_KEY;
    if (j->affine)
        sg_jit_affine_begin(j);
    while (i < c->ninsns && (i == first || j->leader[i] != 1) && !j->b.failed) {
        const struct sg_insn *in = &c->insns[i];

        if (sg_jit_is_branch(in->fn) || sg_jit_is_bar(in->fn) || in->fn == sg_jit_ctl.exit ||
            in->fn == sg_jit_ctl.brx || (in->fn == sg_jit_ctl.join && j->masked))
            sg_jit_set_mode(j, c->mxcsr);
        if (sg_jit_is_branch(in->fn)) {
            sg_jv_flush(j);
            sg_jit_count(j, i + 1 - first);
            if (in->fn == sg_jit_ctl.bra)
                sg_jit_go_to(j, i, (u32)((s64)i + in->imm));
            else
                compile_branch(j, i);
            return;
        }
        if (sg_jit_is_bar(in->fn) || in->fn == sg_jit_ctl.exit) {
            sg_jv_flush(j);
            sg_jit_count(j, i + 1 - first);
            if (in->fn == sg_jit_ctl.exit)
                sg_jit_exit(j, i);
            else
                sg_jit_barrier(j, i);
            return;
        }
        if (sg_jit_is_native_span(c, i)) {
            sg_jit_set_mode(j, c->mxcsr);
            sg_jv_flush(j);
            sg_jit_count(j, i + 1 + in->aux - first);
            compile_predicated(j, i);
            return;
        }
        if (in->fn == sg_jit_ctl.brx) { /* never comes back here */
            sg_jit_count(j, i - first);
            sg_jit_generic(j, i, SG_NEXT);
            return;
        }
        if (in->fn == sg_jit_ctl.join && j->masked) {
            sg_jv_flush(j);
            sg_jit_check_waiting(j, i);
        }
        i += sg_jit_insn(j, i);
    }
    sg_jit_set_mode(j, c->mxcsr);
    sg_jv_flush(j);
    sg_jit_count(j, i - first);
    if (i < c->ninsns)
        sg_jit_jump_to(j, jmp(b), i);
    else
        sg_jit_leave_at(j, c->ninsns - 1, SG_JUMP);
}

/* True if the block may have loads from sums. */
static bool may_settle(const struct jit *j, u32 first)
{
    const struct sg_code *c = j->code;

    for (u32 i = first; i < c->ninsns && (i == first || j->leader[i] != 1) && !j->masked; i++) {
        const struct jop *o = sg_jit_find(c->insns[i].fn, NULL);

        if (o && o->load && !sg_jit_flat(j, c->insns[i].a))
            return true;
    }
    return false;
}

/* The block's code that a settled version may take the place of. */
static void settling_block(struct jit *j, u32 first)
{
    const u32 sites = j->nsites;
    size_t at;

    if (!may_settle(j, first)) {
        compile_block(j, first);
        return;
    }
    at = sg_jit_settled_ask(j, first);
    compile_block(j, first);
    sg_jit_settled_note(j, first, at, sites);
}

void sg_jit_block(struct jit *j, u32 first)
{
    if (!j->masked && sg_jit_affine_find(j, first)) {
        sg_jit_affine_enter(j);
        settling_block(j, first);
        sg_jit_affine_leave(j, first);
        compile_block(j, first);
        return;
    }
    settling_block(j, first);
}

void sg_jit_block_settled(struct jit *j, u32 first, struct sg_affine *affine)
{
    if (affine && !sg_jit_affine_again(j, first, affine)) {
        j->b.failed = true;
        return;
    }
    compile_block(j, first);
    if (affine)
        sg_jit_affine_end(j);
}

void sg_jit_patterns(struct jit *j)
{
    for (u32 k = 0; k < j->npatterns; k++) {
        patch(B(j), j->patterns[k].at, j->b.n);
        for (u32 i = 0; i < 16; i++)
            put8(B(j), j->patterns[k].bytes[i]);
    }
}

#endif

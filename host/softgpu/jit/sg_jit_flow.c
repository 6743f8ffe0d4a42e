/* SPDX-License-Identifier: MIT */
/* Native code: calls of handlers, instruction counting, branches, and the return to the run
   loop. */
#include "jit/avx2/avx2.h"
#include "jit/ops.h"

#ifdef SG_JIT

#define MXCSR_DENORMALS 0x8040u
#define MXCSR_RC 13

/* ---- calls of handlers and ways out ---- */

bool sg_jit_is_span(sg_fn fn)
{
    return fn == sg_jit_ctl.pred_if || fn == sg_jit_ctl.pred_not || fn == sg_jit_ctl.fpmode ||
           fn == sg_jit_ctl.flat;
}

void sg_jit_jump_to(struct jit *j, size_t at, u32 insn)
{
    if (!sg_jit_claim(j, sizeof(*j->jumps)) ||
        !sg_grow(&j->jumps, &j->cap_jumps, j->njumps, sizeof(*j->jumps))) {
        j->b.failed = true;
        return;
    }
    j->jumps[j->njumps++] = (struct jump){at, insn, j->masked};
}

void sg_jit_fall_through(struct jit *j, u32 insn)
{
    const struct jump *last = j->njumps ? &j->jumps[j->njumps - 1] : NULL;

    if (last && last->insn == insn && last->masked == j->masked && last->at + 4 == j->b.n &&
        j->b.p[last->at - 1] == 0xe9) {
        j->b.n = last->at - 1;
        j->njumps--;
    }
}

/* Callees are compiled code that uses SSE: with the upper halves of the vector registers in use,
   their first SSE instruction would take hundreds of cycles. No register contents are kept
   across a call. */
void sg_jit_call_begin(struct jit *j, u32 insn)
{
    static const u8 vzeroupper[] = {0xc5, 0xf8, 0x77};
    struct buf *b = B(j);

    for (size_t k = 0; k < sizeof(vzeroupper); k++)
        put8(b, vzeroupper[k]);
    if (b->avx2)
        sg_avx2_lost(b);
    alu_reg(b, true, 0x89, RDI, G_WARP);
    mov_imm64(b, RSI, sg_jit_place(j, insn));
}

void sg_jit_call_end(struct jit *j, u64 fn)
{
    struct buf *b = B(j);

    mov_imm64(b, RAX, fn);
    put8(b, 0xff);
    put8(b, 0xd0); /* call rax */
}

void sg_jit_call_handler(struct jit *j, u32 insn, const char *why)
{
    const struct sg_insn *in = &j->code->insns[insn];
    struct buf *b = B(j);
    u64 *count =
        sg_profile_counter(j->code->name, sg_op_name(in[sg_jit_is_span(in->fn)].fn),
                           sg_jit_is_span(in->fn) && !*why ? " in a mode or under a predicate" : why);

    if (count) {
        mov_imm64(b, RAX, (u64)(uintptr_t)count);
        put8(b, 0xf0); /* lock inc qword [rax]: all threads of the pool count here */
        put8(b, 0x48);
        put8(b, 0xff);
        put8(b, 0x00);
    }

    sg_jit_call_begin(j, insn);
    sg_jit_call_end(j, (u64)(uintptr_t)in->fn);
}

static void set_ip(struct jit *j, u32 insn)
{
    mov_imm64(B(j), RAX, sg_jit_place(j, insn));
    alu_mem(B(j), true, 0x89, RAX, G_WARP, offsetof(struct sg_warp, ip));
}

/* Returns step with w->ip at an instruction. */
void sg_jit_leave_at(struct jit *j, u32 insn, u32 step)
{
    struct buf *b = B(j);

    set_ip(j, insn);
    mov_imm64(b, RAX, step);
    sg_jit_jump_to(j, jmp(b), JIT_EXIT);
}

void sg_jit_generic(struct jit *j, u32 i, u32 good)
{
    struct buf *b = B(j);

    sg_jit_set_mode(j, j->mode);
    sg_jv_flush(j);
    sg_jv_forget(j);
    sg_jit_call_handler(j, i, "");
    if (good)
        alu_imm(b, false, 7, RAX, good);
    else
        alu_reg(b, false, 0x85, RAX, RAX);
    sg_jit_jump_to(j, jcc(b, JNE), JIT_EXIT);
}

void sg_jit_set_mode(struct jit *j, u32 mode)
{
    static const u32 modes[2][4] = {{0x1f80, 0x3f80, 0x5f80, 0x7f80}, {0x9fc0, 0xbfc0, 0xdfc0, 0xffc0}};
    struct buf *b = B(j);

    if (j->mxcsr == mode)
        return;
    j->mxcsr = mode;
    mov_imm64(b, RCX, (u64)(uintptr_t)&modes[(mode & MXCSR_DENORMALS) != 0][mode >> MXCSR_RC & 3]);
    put8(b, 0x0f); /* ldmxcsr [rcx] */
    put8(b, 0xae);
    mem_operand(b, 2, RCX, 0, 1);
}

/* If only the rounding differs, it is encoded in the instruction; changing MXCSR costs more. */
bool sg_jit_emit(struct jit *j, const struct sg_insn *in, const struct jop *o)
{
    const u32 differs = j->mxcsr ^ j->mode;
    bool done;

    if (!o->modeless) {
        if ((o->arg & FIXED) == FIXED && !(differs & MXCSR_DENORMALS) && (!differs || !j->b.avx2))
            j->round = differs ? EV_ROUND(j->mode >> MXCSR_RC & 3) : 0;
        else
            sg_jit_set_mode(j, j->mode);
    }
    done = !(o->avx512 && j->b.avx2) && o->emit(j, in, o->arg & ARG_MASK);
    j->round = 0;
    return done;
}

bool sg_jit_mode(struct jit *j, u32 i)
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

void sg_jit_count(struct jit *j, u32 n)
{
    alu_mem(B(j), true, 0x8b, RAX, G_CTA, offsetof(struct sg_cta, icount));
    alu_imm(B(j), true, 0, RAX, n);
    alu_mem(B(j), true, 0x89, RAX, G_CTA, offsetof(struct sg_cta, icount));
}

void sg_jit_still_low(struct jit *j, u32 insn)
{
    size_t skip;

    if (j->masked != JIT_LOW)
        return;
    sg_jit_cmp_upper(j);
    skip = jcc(B(j), JE);
    set_ip(j, insn);
    sg_jit_jump_to(j, jmp(B(j)), JIT_RESUME);
    land(B(j), skip);
}

/* With lanes waiting elsewhere: switches to lanes that wait below insn. */
void sg_jit_check_waiting(struct jit *j, u32 insn)
{
    struct buf *b = B(j);
    size_t skip;

    if (!j->masked)
        return;
    mov_imm64(b, RAX, sg_jit_place(j, insn));
    alu_mem(b, true, 0x3b, RAX, G_WARP, offsetof(struct sg_warp, min_wait));
    skip = jcc(b, JB);
    set_ip(j, insn);
    sg_jit_jump_to(j, jmp(b), JIT_RESCHED);
    land(b, skip);
}

/* To a block, over its budget when it lies behind. */
void sg_jit_go_to(struct jit *j, u32 from, u32 to)
{
    struct buf *b = B(j);
    size_t skip;

    if (to <= from) {
        alu_mem(b, false, 0x8b, RAX, G_WARP, offsetof(struct sg_warp, budget));
        alu_imm(b, false, 5, RAX, 1);
        alu_mem(b, false, 0x89, RAX, G_WARP, offsetof(struct sg_warp, budget));
        skip = jcc(b, 15); /* jg */
        sg_jit_leave_at(j, to, SG_YIELD);
        land(b, skip);
    }
    sg_jit_check_waiting(j, to);
    sg_jit_jump_to(j, jmp(b), to);
}

/* ---- conditional branches ---- */

#define SMALL 96 /* instructions that are compiled again at a branch over them */

/* True if the branch at i skips a single block of plain operations, which is then executed under
   a mask instead of splitting the warp. */
static bool jumps_over_little(const struct jit *j, u32 i, u32 to)
{
    const struct sg_code *c = j->code;

    if (to <= i + 1 || to - i > SMALL)
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

/* ---- instructions under a predicate ---- */

bool sg_jit_is_native_span(const struct sg_code *c, u32 i)
{
    const struct sg_insn *in = &c->insns[i];

    if ((in->fn != sg_jit_ctl.pred_if && in->fn != sg_jit_ctl.pred_not) || !in->aux || in->aux > SMALL ||
        i + 1 + in->aux >= c->ninsns)
        return false;
    for (u32 k = 1; k <= in->aux; k++)
        if (!sg_jit_find(in[k].fn, NULL))
            return false;
    return true;
}

void sg_jit_predicated(struct jit *j, u32 i)
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

void sg_jit_branch(struct jit *j, u32 i)
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

#endif

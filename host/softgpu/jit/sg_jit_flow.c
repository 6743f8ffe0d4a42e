/* SPDX-License-Identifier: MIT */
/* Native code: calls of handlers, instruction counting, jumps, and the return to the run loop. */
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

bool sg_jit_is_native_span(const struct sg_code *c, u32 i)
{
    const struct sg_insn *in = &c->insns[i];

    if ((in->fn != sg_jit_ctl.pred_if && in->fn != sg_jit_ctl.pred_not) || !in->aux ||
        in->aux > JIT_SPAN_MAX || i + 1 + in->aux >= c->ninsns)
        return false;
    for (u32 k = 1; k <= in->aux; k++)
        if (!sg_jit_find(in[k].fn, NULL))
            return false;
    return true;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Warp scheduling in native code: when all 32 threads of a warp reach barrier 0 or exit, the code
 * continues with the next runnable warp of the block, without returning to the run loop. The order
 * is the run loop's (sg_cta_slice). The handlers process all other cases.
 */
#include "jit/state.h"

#ifdef SG_JIT

#include <stddef.h>

#define WARP(f) ((s32)offsetof(struct sg_warp, f))
#define CTA(f) ((s32)offsetof(struct sg_cta, f))

static void store_imm32(struct buf *b, u32 base, s32 disp, u32 imm)
{
    rex(b, false, 0, base);
    put8(b, 0xc7);
    mem_operand(b, 0, base, disp, 1);
    put32(b, imm);
}

static void store_imm16(struct buf *b, u32 base, s32 disp, u32 imm)
{
    put8(b, 0x66);
    rex(b, false, 0, base);
    put8(b, 0xc7);
    mem_operand(b, 0, base, disp, 1);
    put8(b, imm);
    put8(b, imm >> 8);
}

/* With registers written back: calls the handler, then acts on its return value. */
static void by_handler(struct jit *j, u32 i)
{
    struct buf *b = B(j);

    sg_jit_call_handler(j, i, "");
    alu_imm(b, false, 7, RAX, SG_PARKED);
    sg_jit_jump_to(j, jcc(b, JE), JIT_TURN);
    alu_imm(b, false, 7, RAX, SG_BLOCKED);
    sg_jit_jump_to(j, jcc(b, JE), JIT_BLOCKED);
    alu_reg(b, false, 0x85, RAX, RAX);
    sg_jit_jump_to(j, jcc(b, JNE), JIT_EXIT);
}

void sg_jit_barrier(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    struct buf *b = B(j);
    size_t other, last;
    u64 id, count;

    if (j->masked || in->fn != sg_jit_ctl.bar[0] || !sg_jit_const(j, in->a, &id, false) || id ||
        !sg_jit_const(j, in->b, &count, false) || count) {
        by_handler(j, i);
        sg_jit_jump_to(j, jmp(b), i + 1);
        return;
    }
    alu_mem_imm8(b, false, 7, G_CTA, CTA(bars),
                 0); /* no warp waits at another barrier, or with lanes missing */
    other = jcc(b, JNE);
    alu_mem(b, false, 0x8b, RAX, G_CTA, CTA(parked));
    alu_imm(b, false, 0, RAX, 1);
    alu_reg(b, false, 0x89, RCX, RAX);
    put8(b, 0xc1); /* shl ecx, 5 */
    put8(b, 0xe1);
    put8(b, 5);
    alu_mem(b, false, 0x3b, RCX, G_CTA, CTA(alive));
    last = jcc(b, JAE);
    alu_mem(b, false, 0x89, RAX, G_CTA, CTA(parked));
    store_imm16(b, G_WARP, WARP(at_bar), 1 | SG_BAR_SYNC << 8);
    mov_imm64(b, RAX, sg_jit_place(j, i));
    alu_mem(b, true, 0x89, RAX, G_WARP, WARP(ip));
    sg_jit_jump_to(j, jmp(b), JIT_TURN);
    land(b, other);
    by_handler(j, i);
    sg_jit_jump_to(j, jmp(b), i + 1);
    land(b, last);
    put8(b, 0xe8); /* call */
    put32(b, 0);
    sg_jit_jump_to(j, b->n - 4, JIT_RELEASE);
    sg_jit_jump_to(j, jmp(b), i + 1);
}

void sg_jit_exit(struct jit *j, u32 i)
{
    struct buf *b = B(j);
    size_t in_cluster = 0, waited = 0;

    if (!j->masked) {
        alu_mem_imm8(b, false, 7, G_WARP, WARP(cluster_in), 0);
        in_cluster = jcc(b, JNE);
        alu_mem(b, false, 0x8b, RAX, G_CTA, CTA(bars));
        alu_mem(b, false, 0x0b, RAX, G_CTA, CTA(parked));
        alu_mem(b, false, 0x0b, RAX, G_CTA, CTA(cluster_arrived));
        /* other warps may wait only for this warp */
        waited = jcc(b, JNE);
        alu_mem(b, false, 0x89, RAX, G_WARP, WARP(alive)); /* 0 */
        alu_mem(b, false, 0x89, RAX, G_WARP, WARP(mask));
        alu_mem_imm8(b, false, 5, G_CTA, CTA(alive), SG_LANES);
        sg_jit_jump_to(j, jmp(b), JIT_TURN);
        land(b, in_cluster);
        land(b, waited);
    }
    by_handler(j, i);
    sg_jit_leave_at(j, i, SG_JUMP); /* an exit never returns SG_NEXT */
}

void sg_jit_call_function(struct jit *j, u32 arg, u64 fn)
{
    static const u8 vzeroupper[] = {0xc5, 0xf8, 0x77};
    struct buf *b = B(j);

    for (size_t k = 0; k < sizeof(vzeroupper); k++)
        put8(b, vzeroupper[k]);
    alu_reg(b, true, 0x89, RDI, arg);
    if (fn)
        mov_imm64(b, RAX, fn);
    put8(b, 0xff);
    put8(b, 0xd0);
}

static void test_al(struct buf *b)
{
    put8(b, 0x84);
    put8(b, 0xc0);
}

/* lea reg, [w + sizeof] */
static void address_behind(struct buf *b, u32 reg)
{
    rex(b, true, reg, G_WARP);
    put8(b, 0x8d);
    mem_operand(b, reg, G_WARP, sizeof(struct sg_warp), 1);
}

/*
 * Finds in RDI to RDX the next warp that can run, in RDI. Jumps to *leave if the run loop must
 * decide. Returns the jump taken when a warp was found; the code after it runs if there is none.
 */
static size_t find_warp(struct buf *b, size_t *leave)
{
    const size_t loop = b->n;
    size_t out, odd, found, waits;

    alu_reg(b, true, 0x39, RDI, RDX);
    out = jcc(b, JAE);
    alu_mem_imm8(b, false, 7, RDI, WARP(mask), 0);
    odd = jcc(b, JE);
    alu_mem_imm8(b, true, 7, RDI, WARP(at_bar), 0);
    found = jcc(b, JE);
    waits = b->n;
    alu_imm(b, true, 0, RDI, sizeof(struct sg_warp));
    patch(b, jmp(b), loop);
    land(b, odd);
    alu_mem_imm8(b, false, 7, RDI, WARP(ngroups), 0);
    patch(b, jcc(b, JE), waits);
    *leave = jmp(b);
    land(b, out);
    return found;
}

/* Continues with the warp in RDI (at *resume: the current warp) at its w->ip. */
static void go_on(struct jit *j, size_t *resume)
{
    struct buf *b = B(j);
    size_t none, begin;

    alu_mem(b, true, 0x89, RDI, G_CTA, CTA(cur));
    store_imm8(b, RDI, WARP(spin), 0);
    begin = jmp(b);
    *resume = b->n;
    alu_reg(b, true, 0x89, RDI, G_WARP);
    land(b, begin);
    alu_mem(b, true, 0x8b, RSI, RDI, WARP(ip));
    alu_mem(b, true, 0x8b, RAX, RSI, (s32)offsetof(struct sg_insn, fn));
    rex(b, true, RCX, 0); /* lea rcx, [rip - here]: start of the code */
    put8(b, 0x8d);
    put8(b, 0x05 | RCX << 3);
    put32(b, 0);
    patch(b, b->n - 4, 0);
    alu_reg(b, true, 0x89, RDX, RAX);
    alu_reg(b, true, 0x29, RDX, RCX);
    put8(b, 0x48); /* cmp rdx, imm32: end of its entries */
    put8(b, 0x81);
    put8(b, 0xf8 | RDX);
    put32(b, (u32)b->n);
    none = jcc(b, JAE);
    alu_imm(b, true, 0, RAX, j->prologue);
    put8(b, 0xff); /* jmp rax */
    put8(b, 0xe0);
    land(b, none);
    mov_imm64(b, RAX, SG_JUMP);
    sg_jit_jump_to(j, jmp(b), JIT_EXIT);
}

/*
 * Switches to the next warp of the block that can run, cyclically up to the current warp; when all
 * have ended, to the first warp of the next block. This does not renew a warp's time slice: a warp
 * that loops returns to the run loop in the end.
 */
static void next_warp(struct jit *j, size_t *resume)
{
    struct buf *b = B(j);
    size_t leave[4], found[3], some;

    address_behind(b, RDI);
    alu_mem(b, true, 0x8b, RDX, G_CTA, CTA(warps_end));
    found[0] = find_warp(b, &leave[0]);
    alu_mem(b, true, 0x8b, RAX, G_CTA, CTA(next_block));
    alu_reg(b, true, 0x85, RAX, RAX);
    leave[1] = jcc(b, JE);
    alu_mem_imm8(b, false, 7, G_CTA, CTA(alive), 0);
    some = jcc(b, JNE);
    sg_jit_call_function(j, G_CTA, 0);
    test_al(b);
    leave[2] = jcc(b, JE);
    alu_mem(b, true, 0x8b, RDI, G_CTA, CTA(warps));
    found[1] = jmp(b);
    land(b, some);
    alu_mem(b, true, 0x8b, RDI, G_CTA, CTA(warps));
    address_behind(b, RDX);
    found[2] = find_warp(b, &leave[3]);
    for (u32 k = 0; k < 4; k++)
        land(b, leave[k]);
    mov_imm64(b, RAX, SG_PARKED);
    sg_jit_jump_to(j, jmp(b), JIT_EXIT);
    for (u32 k = 0; k < 3; k++)
        land(b, found[k]);
    go_on(j, resume);
}

/* Releases every waiting warp. */
static void release_warps(struct jit *j)
{
    struct buf *b = B(j);
    size_t loop, runs;

    store_imm32(b, G_CTA, CTA(parked), 0);
    alu_mem(b, true, 0x8b, RDX, G_CTA, CTA(warps));
    loop = b->n;
    alu_mem_imm8(b, true, 7, RDX, WARP(at_bar), 0);
    runs = jcc(b, JE);
    rex(b, true, 0, RDX);
    put8(b, 0x83); /* add qword [ip], imm8 */
    mem_operand(b, 0, RDX, WARP(ip), 1);
    put8(b, sizeof(struct sg_insn));
    store_imm8(b, RDX, WARP(at_bar), 0);
    land(b, runs);
    alu_imm(b, true, 0, RDX, sizeof(struct sg_warp));
    alu_mem(b, true, 0x3b, RDX, G_CTA, CTA(warps_end));
    patch(b, jcc(b, JB), loop);
    put8(b, 0xc3);
}

static void emit_reschedule(struct jit *j)
{
    sg_jit_call_function(j, G_WARP, (u64)(uintptr_t)sg_warp_resched);
    sg_jit_jump_to(j, jmp(B(j)), JIT_RESUME);
}

static void mark_blocked(struct jit *j)
{
    struct buf *b = B(j);

    sg_jit_call_function(j, G_WARP, (u64)(uintptr_t)sg_warp_blocked);
    test_al(b);
    sg_jit_jump_to(j, jcc(b, JNE), JIT_RESUME);
    sg_jit_jump_to(j, jmp(b), JIT_TURN);
}

void sg_jit_common(struct jit *j, size_t at[JIT_COMMON])
{
    at[UINT32_MAX - JIT_TURN] = B(j)->n;
    next_warp(j, &at[UINT32_MAX - JIT_RESUME]);
    at[UINT32_MAX - JIT_RELEASE] = B(j)->n;
    release_warps(j);
    at[UINT32_MAX - JIT_RESCHED] = B(j)->n;
    emit_reschedule(j);
    at[UINT32_MAX - JIT_BLOCKED] = B(j)->n;
    mark_blocked(j);
}

#endif

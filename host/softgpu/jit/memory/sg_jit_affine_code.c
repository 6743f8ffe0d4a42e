/* SPDX-License-Identifier: MIT */
/*
 * Code for affine values (jit/memory/affine.h): compares the distances of a block's roots when it begins, and
 * computes numbers in place of lanes. Where a value of 32 bits becomes one of 64, its lanes must not have
 * wrapped around; if one has, the block goes on in the interpreter.
 */
#include "jit/memory/affine_block.h"
#include "jit/memory/memory_ops.h"
#include "jit/memory/sums.h"
#include "jit/ops.h"

#ifdef SG_JIT

#define STATE(x) ((s32)(offsetof(struct sg_warp, affine) + (x)->a->number))
#define NUMBER(k) ((s32)(offsetof(struct sg_warp, sums) + 8 * (k)))
#define LOW ((s32)offsetof(struct sg_distances, low))
#define HIGH ((s32)offsetof(struct sg_distances, high))

/* ---- the way in ---- */

static void note_miss(struct affine_block *x, size_t jump)
{
    x->jumps[x->njumps++] = jump;
}

/* Compares the distances of a root's lanes. */
static void compare_root(struct jit *j, const struct sg_affine_form *root)
{
    const bool wide = root->wide;
    const s32 op = root->term[0].op;
    struct buf *b = B(j);

    evm(b, wide ? BCAST_M64 : BCAST_M32, 0, 0, G_REGS, op, wide ? 8 : 4, 0, 0);
    for (u32 h = 0; h < (wide ? 4u : 2u); h++) {
        evm(b, wide ? VPADDQ : VPADDD, 1 + (h & 1), 0, G_REGS, root->at + (s32)(64 * h), 64, 0, 0);
        evmi(b, wide ? CMPUQ : CMPUD, 1, 1 + (h & 1), G_REGS, op + (s32)(64 * h), 64, h ? 1 : 0, 0, 0);
    }
    if (wide) /* the upper bits of k1 are undefined */
        KORTESTB(b, 1);
    else
        KORTESTW(b, 1);
}

void sg_jit_affine_enter(struct jit *j)
{
    struct affine_block *x = j->affine;
    struct buf *b = B(j);

    alu_mem_imm8(b, true, 7, G_WARP, STATE(x), AFFINE_KNOWN);
    note_miss(x, jcc(b, JNE));
    for (u32 i = 0; i < x->a->nroots; i++) {
        compare_root(j, &x->a->form[i]);
        note_miss(x, jcc(b, JAE)); /* no carry: not all ones */
    }
    x->body = here(b);
}

void sg_jit_affine_leave(struct jit *j, u32 first)
{
    struct affine_block *x = j->affine;
    struct buf *b = B(j);
    size_t off;

    for (u32 i = 0; i < x->njumps; i++)
        land(b, x->jumps[i]);
    alu_mem_imm8(b, true, 7, G_WARP, STATE(x), AFFINE_OFF);
    off = jcc(b, JE);
    sg_jit_call_begin(j, first);
    mov_imm64(b, RDX, (u64)(uintptr_t)x->a);
    sg_jit_call_end(j, (u64)(uintptr_t)sg_jit_affine_learn);
    alu_reg(b, false, 0x85, RAX, RAX);
    patch(b, jcc(b, JNE), x->body);
    land(b, off);
    sg_jit_affine_drop(j, x);
}

void sg_jit_affine_site(struct jit *j, const struct sum *x, const struct sg_window *window)
{
    struct sg_affine *a = j->affine->a;

    if (x->base < j->code->regfile_bytes) /* a hoisted register: unchanged */
        return;
    if (!sg_jit_claim(j, sizeof(*a->site)) ||
        !sg_grow(&a->site, &a->cap_sites, a->nsites, sizeof(*a->site))) {
        j->b.failed = true;
        return;
    }
    a->site[a->nsites++] = (struct sg_affine_site){window, j->nsites, (s32)x->base};
}

/* ---- numbers ---- */

void sg_jit_affine_begin(struct jit *j)
{
    const struct sg_affine *a = j->affine->a;
    struct buf *b = B(j);

    for (u32 i = 0; i < a->nroots; i++) {
        const struct sg_affine_form *f = &a->form[i];

        alu_mem(b, f->wide, 0x8b, RAX, G_REGS, f->term[0].op);
        alu_mem(b, true, 0x89, RAX, G_WARP, NUMBER(i));
        j->sums[j->nsums++] = (struct sum){.key = (u32)f->term[0].op,
                                           .base = (u32)f->at,
                                           .place = i,
                                           .valid = true,
                                           .narrow = !f->wide,
                                           .fixed = j->moves && !j->moves[f->term[0].op >> 7]};
    }
}

/* MOVSXD: 32 bits in memory or a register, with their sign, to a general register. */
static void sign_memory(struct buf *b, u32 to, u32 base, s32 disp)
{
    alu_mem(b, true, 0x63, to, base, disp);
}

static void sign_register(struct buf *b, u32 to, u32 from)
{
    alu_reg(b, true, 0x63, from, to);
}

/* Multiplies RAX. */
static void multiply_rax(struct buf *b, u64 by)
{
    static const u8 imul[] = {0x48, 0x0f, 0xaf, 0xc1}; /* imul rax, rcx */

    if (by == 1)
        return;
    mov_imm64(b, RCX, by);
    for (u32 k = 0; k < sizeof(imul); k++)
        put8(b, imul[k]);
}

/* True if operand op can be read as a number. */
static bool is_readable(struct jit *j, u32 op)
{
    return (op & SG_OPND_CONST) || op < j->code->slots_begin || sg_jit_flat(j, op) || sg_jit_sum(j, op);
}

/* The value of operand op in lane 0 to a general register; wide: 64 bits, otherwise the upper ones are 0. */
static void read_number(struct jit *j, u32 op, bool wide, u32 to)
{
    const struct sum *x = op & SG_OPND_CONST ? NULL : sg_jit_sum(j, op);
    struct buf *b = B(j);
    u32 v;
    u64 value;

    if (sg_jit_const(j, op, &value, wide)) {
        mov_imm64(b, to, value);
    } else if (x) {
        alu_mem(b, wide, 0x8b, to, G_WARP, NUMBER(x->place));
        if (x->base < j->code->regfile_bytes) /* a hoisted register, not distances from lane 0 */
            alu_mem(b, wide, 0x03, to, G_REGS, (s32)x->base);
    } else if ((v = sg_jv_held(j, op, 0))) {
        ev(b, wide ? MOVQ_R : MOVD_R, v, 0, to, 0, EV_XMM);
    } else {
        alu_mem(b, wide, 0x8b, to, op & SG_OPND_CONST ? G_POOL : G_REGS, (s32)(op & ~SG_OPND_CONST));
    }
}

/*
 * RAX: the sum x, of 32 bits, as a number of 64. The way out of line is taken unless the same holds for each
 * lane: its number is the first's plus the distance.
 */
static void widen_sum(struct jit *j, const struct sum *x, bool sign)
{
    const s32 bound[2] = {LOW, HIGH};
    struct stub *s = sg_jit_stub(j);
    struct buf *b = B(j);

    if (!s)
        return;
    s->n = 0;
    s->leave = true;
    for (u32 k = 0; k < 2; k++) {
        sign_memory(b, RCX, G_REGS, (s32)x->base + bound[k]);
        alu_reg(b, true, 0x01, RCX, RAX);
        if (sign)
            sign_register(b, RDX, RCX);
        else
            alu_reg(b, false, 0x89, RDX, RCX);
        alu_reg(b, true, 0x39, RCX, RDX);
        sg_jit_slow(j, s, JNE);
    }
    s->back = b->n; /* the way out does not come back */
}

/* The number of the result to RAX. */
static void compute_number(struct jit *j, const struct sg_insn *in, const struct sg_affine_op *o, u64 times)
{
    struct buf *b = B(j);

    if (o->kind == AFFINE_ADD || o->kind == AFFINE_SUB) {
        read_number(j, in->a, o->wide, RAX);
        read_number(j, in->b, o->wide, RCX);
        alu_reg(b, true, o->kind == AFFINE_ADD ? 0x01 : 0x29, RAX, RCX);
        return;
    }
    if (o->kind == AFFINE_MUL || o->kind == AFFINE_SHL) {
        read_number(j, in->a, o->wide, RAX);
    } else {
        read_number(j, in->a, false, RAX);
        if (o->sign)
            sign_register(b, RAX, RAX);
        widen_sum(j, sg_jit_sum(j, in->a), o->sign);
    }
    multiply_rax(b, times);
    if (o->kind == AFFINE_MAD) {
        read_number(j, in->c, true, RCX);
        alu_reg(b, true, 0x01, RAX, RCX);
    }
}

static const struct affine_value *value_at(const struct affine_block *x, u32 i)
{
    for (u32 k = 0; k < x->nvalues; k++)
        if (x->value[k].insn == i && x->value[k].wanted)
            return &x->value[k];
    return NULL;
}

bool sg_jit_affine_insn(struct jit *j, u32 i)
{
    const struct sg_insn *in = &j->code->insns[i];
    const struct affine_value *v = value_at(j->affine, i);
    const struct sg_affine_op *o = v ? sg_affine_op_of(in->fn) : NULL;
    const u32 place = sg_jit_sum_place(j);
    bool fixed;
    u32 other;

    if (!o || place == NO_KEY || j->masked) /* numbers are of all lanes */
        return false;
    other = o->kind == AFFINE_ADD || o->kind == AFFINE_SUB ? in->b : o->kind == AFFINE_MAD ? in->c : in->a;
    /* a 32-bit value that is widened needs its distances */
    if (!is_readable(j, in->a) || !is_readable(j, other) || (o->kind >= AFFINE_WIDE && !sg_jit_sum(j, in->a)))
        return false;
    fixed = sg_jit_is_fixed(j, in->a) && sg_jit_is_fixed(j, other);
    sg_jit_set_mode(j, j->mode);
    compute_number(j, in, o, v->times);
    alu_mem(B(j), true, 0x89, RAX, G_WARP, NUMBER(place));
    sg_jv_kill(j, in, 15);
    sg_jv_lose(j, in->d);
    j->sums[j->nsums++] = (struct sum){.key = in->d,
                                       .base = (u32)v->form.at,
                                       .place = place,
                                       .valid = true,
                                       .fixed = fixed,
                                       .unsaved = j->kill[i] & F_DEAD ? 0
                                                  : v->form.wide      ? 15
                                                                      : 3,
                                       .narrow = !v->form.wide};
    sg_jv_unpin(j);
    return true;
}

#endif

/* SPDX-License-Identifier: MIT */
/* Additions that become sums (jit/memory/sg_jit_sums.c), and how the lanes of a load from a sum lie. */
#include "jit/ops.h"
#include "jit/memory/sums.h"

#ifdef SG_JIT

static bool is_hoisted(const struct jit *j, u32 op)
{
    return op < j->code->slots_begin && !sg_jit_flat(j, op);
}

/* True if the block uses the result, before it changes, as a load's address, or adds to it once more. */
static bool leads_to_address(struct jit *j, const struct sg_insn *in)
{
    const struct sg_code *c = j->code;

    for (u32 i = j->cur + 1; i < c->ninsns && j->leader[i] != 1 && j->walked < JIT_WALK_MAX; i++) {
        const struct sg_insn *x = &c->insns[i];
        const struct jop *o = sg_jit_find(x->fn, NULL);

        j->walked++;
        if (o && o->load && x->a == in->d)
            return true;
        if (x->fn == in->fn && (x->a == in->d || x->b == in->d) &&
            (sg_jit_flat(j, x->a) || sg_jit_flat(j, x->b)))
            return true;
        if (sg_jit_writes(j, i, in->d))
            return false;
    }
    return false;
}

/* Adds the uniform operand to RAX, or moves it there. */
static void operand_to_rax(struct jit *j, u32 op, bool move)
{
    struct buf *b = B(j);
    u64 v;

    if (sg_jit_const(j, op, &v, true)) {
        mov_imm64(b, move ? RAX : RCX, v);
    } else {
        const u32 r = sg_jv_get(j, op, 0);

        ev(b, MOVQ_R, r, 0, move ? RAX : RCX, 0, EV_XMM);
    }
    if (!move)
        alu_reg(b, true, 0x01, RAX, RCX);
}

bool sg_jit_add_sum(struct jit *j, const struct sg_insn *in)
{
    struct buf *b = B(j);
    const struct sum *from;
    u32 base, flat, key, place;
    bool fixed;

    if (j->masked || j->ahead_of || sg_jit_flat(j, in->d) || sg_jit_flat(j, in->a) == sg_jit_flat(j, in->b) ||
        j->nsums == SG_NATIVE_SUMS)
        return false;
    flat = sg_jit_flat(j, in->a) ? in->a : in->b;
    key = flat == in->a ? in->b : in->a;
    from = sg_jit_sum(j, key);
    if ((!from && !is_hoisted(j, key)) || !leads_to_address(j, in))
        return false;
    base = from ? from->base : key;
    place = sg_jit_sum_place(j);
    fixed = sg_jit_is_fixed(j, flat) && sg_jit_is_fixed(j, key);
    if (from)
        alu_mem(b, true, 0x8b, RAX, G_WARP, SUM_NUMBER(from));
    operand_to_rax(j, flat, !from);
    alu_mem(b, true, 0x89, RAX, G_WARP, (s32)(offsetof(struct sg_warp, sums) + 8 * place));
    sg_jv_kill(j, in, 15);
    sg_jv_lose(j, in->d);
    j->sums[j->nsums++] = (struct sum){.key = in->d,
                                       .base = base,
                                       .place = place,
                                       .valid = true,
                                       .fixed = fixed,
                                       .unsaved = j->kill[j->cur] & F_DEAD ? 0 : 15};
    sg_jv_unpin(j);
    return true;
}

/* Called by native code before the load runs: its lanes' addresses are in memory. */
void sg_jit_sum_learn(struct sg_warp *w, const struct sg_insn *in, struct sg_window *x)
{
    const u64 *a = (const u64 *)(const void *)(w->base[0] + in->a);
    bool row = x->row, same;

    for (u32 i = 0; i < SG_LANES; i++)
        row &= a[i] - a[0] == (u64)x->row * i;
    if (row) { /* no window learns from it: another warp's window may be learning */
        w->lie[x->site] = LIE_IN_ROW;
        return;
    }
    sg_jit_window_learn(w, in, x);
    same = __atomic_load_n(&x->state, __ATOMIC_ACQUIRE) >= SG_WINDOW_FIRST && x->lanes == SG_FULL;
    for (u32 i = 0; i < SG_LANES; i++)
        same = same && a[i] - a[0] == x->offset[i];
    w->lie[x->site] = same ? LIE_IN_WINDOWS : LIE_APART;
}

#endif

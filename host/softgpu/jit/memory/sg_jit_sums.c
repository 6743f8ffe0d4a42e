/* SPDX-License-Identifier: MIT */
/*
 * Sums (jit/memory/sums.h). Most addresses are the sum of a uniform value and a hoisted value, which
 * differs between lanes but not between blocks. Such a sum is not computed: its uniform part is a number
 * in the warp's memory, added to the lanes when an instruction reads them. The layout of the lanes of a
 * load from a sum is kept between runs of the warp.
 */
#include "jit/ops.h"
#include "jit/memory/sums.h"

#ifdef SG_JIT

#define NUMBER(x) ((s32)(offsetof(struct sg_warp, sums) + 8 * (x)->place))

struct sum *sg_jit_sum(struct jit *j, u32 op)
{
    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].key == op && j->sums[i].valid)
            return &j->sums[i];
    return NULL;
}

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
        if (o && o->emit == sg_jit_load_global && x->a == in->d)
            return true;
        if (x->fn == in->fn && (x->a == in->d || x->b == in->d) &&
            (sg_jit_flat(j, x->a) || sg_jit_flat(j, x->b)))
            return true;
        if (sg_jit_writes(j, i, in->d))
            return false;
    }
    return false;
}

u32 sg_jit_sum_place(const struct jit *j)
{
    u32 used = 0;

    for (u32 i = 0; i < j->nsums; i++)
        used |= 1u << j->sums[i].place;
    return j->nsums < SG_NATIVE_SUMS ? (u32)__builtin_ctz(~used) : NO_KEY;
}

/* Drops sums whose value is neither wanted nor still to be written. */
static void drop_unwanted(struct jit *j)
{
    u32 n = 0;

    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].valid || j->sums[i].unsaved)
            j->sums[n++] = j->sums[i];
    j->nsums = n;
}

void sg_jit_sums_changed(struct jit *j, u32 op, u32 h)
{
    for (u32 i = 0; i < j->nsums; i++)
        if (j->sums[i].key == op) {
            j->sums[i].valid = false;
            j->sums[i].unsaved &= (u8) ~(1u << h);
        }
    drop_unwanted(j);
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
    if (from)
        alu_mem(b, true, 0x8b, RAX, G_WARP, NUMBER(from));
    operand_to_rax(j, flat, !from);
    alu_mem(b, true, 0x89, RAX, G_WARP, (s32)(offsetof(struct sg_warp, sums) + 8 * place));
    sg_jv_kill(j, in, 15);
    sg_jv_lose(j, in->d);
    j->sums[j->nsums++] = (struct sum){.key = in->d,
                                       .base = base,
                                       .place = place,
                                       .valid = true,
                                       .unsaved = j->kill[j->cur] & F_DEAD ? 0 : 15};
    sg_jv_unpin(j);
    return true;
}

void sg_jit_sum_lanes(struct jit *j, const struct sum *x, u32 h, u32 v)
{
    evm(B(j), x->narrow ? BCAST_M32 : BCAST_M64, v, 0, G_WARP, NUMBER(x), x->narrow ? 4 : 8, 0, 0);
    evm(B(j), x->narrow ? VPADDD : VPADDQ, v, v, G_REGS, (s32)(x->base + 64 * h), 64, 0, 0);
}

void sg_jit_sum_first(struct jit *j, const struct sum *x)
{
    alu_mem(B(j), true, 0x8b, RAX, G_WARP, NUMBER(x));
    alu_mem(B(j), true, 0x03, RAX, G_REGS, (s32)x->base);
}

void sg_jit_sums_save(struct jit *j, const struct sum *sums, u32 n)
{
    for (u32 i = 0; i < n; i++)
        for (u32 h = 0; h < 4; h++) {
            if (!(sums[i].unsaved >> h & 1))
                continue;
            sg_jit_sum_lanes(j, &sums[i], h, V_SCRATCH - 1);
            evm(B(j), (struct vop){M0F, P66, 1, 0x7f}, V_SCRATCH - 1, 0, G_REGS, (s32)(sums[i].key + 64 * h),
                64, 0, 0);
        }
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

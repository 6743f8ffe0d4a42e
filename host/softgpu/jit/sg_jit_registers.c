/* SPDX-License-Identifier: MIT */
/*
 * Tracks which chunks of the register file are in vector registers while a block is compiled:
 * loads, write-backs, invalidation, and the out-of-line code that depends on it.
 */
#include "jit/avx2/avx2.h"
#include "jit/memory/sums.h"

#ifdef SG_JIT

#include <string.h>

static const struct vop MOV_LOAD = {M0F, P66, 1, 0x6f}, MOV_STORE = {M0F, P66, 1, 0x7f};

void sg_jv_load(struct jit *j, u32 v, u32 key)
{
    if (j->b.avx2) {
        sg_avx2_alias(B(j), v, key >> 31 ? G_POOL : G_REGS, (s32)(key & 0x7fffffffu));
        return;
    }
    evm(B(j), MOV_LOAD, v, 0, key >> 31 ? G_POOL : G_REGS, (s32)(key & 0x7fffffffu), 64, 0, 0);
}

void sg_jit_lanes(struct jit *j, u32 k, u32 h, bool wide)
{
    if (!j->masked)
        KONES(B(j), k);
    else if (wide)
        KMOVB_LOAD(B(j), k, G_WARP, (s32)(offsetof(struct sg_warp, mask) + h));
    else
        KMOVW_LOAD(B(j), k, G_WARP, (s32)(offsetof(struct sg_warp, mask) + 2 * h));
}

void sg_jit_cmp_upper(struct jit *j)
{
    put8(B(j), 0x66); /* cmp word [w + mask + 2], 0 */
    rex(B(j), false, 0, G_WARP);
    put8(B(j), 0x83);
    mem_operand(B(j), 7, G_WARP, offsetof(struct sg_warp, mask) + 2, 1);
    put8(B(j), 0);
}

/* Inactive lanes keep their values, which are only in memory. */
void sg_jv_store(struct jit *j, u32 v, u32 key)
{
    const bool wide = key < j->code->slots32;
    struct vop o = MOV_STORE;

    if (sg_jit_flat(j, key)) { /* a value of the block, the same in every lane */
        for (u32 h = 0; h < 2u * j->code->flat[key >> 7]; h++)
            evm(B(j), o, v, 0, G_REGS, (s32)(key + 64 * h), 64, 0, 0);
    } else if (j->masked) {
        sg_jit_lanes(j, 7, wide ? key >> 6 & 3 : key >> 6 & 1, wide);
        o.w = wide;
        if (j->b.avx2) {
            evm(B(j), o, v, 0, G_REGS, (s32)key, 64, 7, 0);
        } else { /* the whole of it: a load cannot be forwarded from a masked store */
            vex(B(j), wide ? P66 : PNONE, 0, 0, 0x44, 7, 0, 7); /* knotb, knotw */
            evm(B(j), (struct vop){M0F, P66, wide, 0x6f}, v, 0, G_REGS, (s32)key, 64, 7, 0);
            evm(B(j), o, v, 0, G_REGS, (s32)key, 64, 0, 0);
        }
    } else {
        evm(B(j), o, v, 0, G_REGS, (s32)key, 64, 0, 0);
    }
    if (j->b.avx2 && j->masked) /* the ymm registers have other values in the other lanes */
        sg_avx2_alias(B(j), v, G_REGS, (s32)key);
    else if (j->b.avx2)
        sg_avx2_stored(B(j), v, G_REGS, (s32)key);
}

void sg_jit_put_pred(struct jit *j, u32 d)
{
    struct buf *b = B(j);

    if (j->masked) { /* d ^ ((d ^ new) & mask) */
        alu_mem(b, false, 0x8b, RCX, G_REGS, (s32)d);
        alu_reg(b, false, 0x31, RAX, RCX);
        alu_mem(b, false, 0x23, RAX, G_WARP, offsetof(struct sg_warp, mask));
        alu_reg(b, false, 0x31, RAX, RCX);
    }
    alu_mem(b, false, 0x89, RAX, G_REGS, (s32)d);
}

static u32 key_of(const struct jit *j, u32 op, u32 h)
{
    return sg_jit_flat(j, op) ? op : op + 64 * h;
}

/* A register of `some`, not 0. The mask bounds the index for the compiler. */
static u32 lowest_bit(u32 some)
{
    return (u32)__builtin_ctz(some) & (V_COUNT - 1);
}

/* Where a chunk is looked for first. */
static u8 *guess_of(struct jit *j, u32 key)
{
    return &j->guess[key >> 6 & (sizeof(j->guess) - 1)];
}

static u32 find_chunk(struct jit *j, u32 key)
{
    const u32 first = *guess_of(j, key) & (V_COUNT - 1);

    if (j->v.held >> first & 1 && j->v.key[first] == key)
        return first;
    for (u32 left = j->v.held; left; left &= left - 1) {
        const u32 i = lowest_bit(left);

        if (j->v.key[i] == key)
            return i;
    }
    return 0;
}

static void drop_vector(struct jit *j, u32 i)
{
    j->v.held &= ~(1u << i);
    j->v.dirty &= ~(1u << i);
    j->v.low_bytes &= ~(1u << i);
}

static void pin_vector(struct jit *j, u32 i)
{
    j->pinned |= 1u << i;
    j->used[i] = ++j->clock;
}

static void hold_chunk(struct jit *j, u32 i, u32 key)
{
    j->v.key[i] = key;
    j->v.held |= 1u << i;
    *guess_of(j, key) = (u8)i;
}

/* The register of `some`, not 0, that was used longest ago. */
static u32 oldest_vector(const struct jit *j, u32 some)
{
    u32 best = lowest_bit(some);

    while (some &= some - 1) {
        const u32 i = lowest_bit(some);

        if (j->used[i] < j->used[best])
            best = i;
    }
    return best;
}

u32 sg_jv_new(struct jit *j)
{
    const u32 some = V_CACHES & ~j->pinned, empty = some & ~j->v.held;
    u32 i;

    if (!some) {
        j->b.failed = true;
        return 0;
    }
    i = empty ? lowest_bit(empty) : oldest_vector(j, some);
    if (j->v.dirty >> i & 1)
        sg_jv_store(j, i, j->v.key[i]);
    sg_jv_take(j, i);
    return i;
}

void sg_jv_take(struct jit *j, u32 v)
{
    drop_vector(j, v);
    pin_vector(j, v);
}

/* Moves a chunk that only a sum stands for to register v. */
static bool take_from_sum(struct jit *j, u32 op, u32 h, u32 v)
{
    for (u32 i = 0; i < j->nsums; i++) {
        struct sum *x = &j->sums[i];

        if (x->key != op || !(x->unsaved >> h & 1))
            continue;
        sg_jit_sum_lanes(j, x, h, v);
        x->unsaved &= (u8) ~(1u << h);
        j->v.dirty |= 1u << v;
        return true;
    }
    return false;
}

u32 sg_jv_get(struct jit *j, u32 op, u32 h)
{
    const u32 key = key_of(j, op, h);
    u32 v = find_chunk(j, key);

    if (!v) {
        v = sg_jv_new(j);
        if (!take_from_sum(j, op, h, v))
            sg_jv_load(j, v, key);
        hold_chunk(j, v, key);
    }
    pin_vector(j, v);
    return v;
}

void sg_jv_bind(struct jit *j, u32 op, u32 h, u32 v)
{
    const u32 key = key_of(j, op, h), old = find_chunk(j, key);

    if (old)
        drop_vector(j, old);
    sg_jit_sums_changed(j, op, h);
    if (j->kill[j->cur] & F_DEAD)
        return;
    if (j->b.avx2)
        sg_avx2_own(B(j), v);
    hold_chunk(j, v, key);
    j->v.dirty |= 1u << v;
    j->v.low_bytes &= ~(1u << v);
}

void sg_jv_unpin(struct jit *j)
{
    j->pinned = 0;
}

void sg_jv_kill(struct jit *j, const struct sg_insn *in, u32 h_mask)
{
    const u32 kill = j->kill[j->cur];

    for (u32 k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k);

        if (!(kill >> k & 1) || (op & SG_OPND_CONST) || sg_jit_flat(j, op))
            continue;
        for (u32 h = 0; h < (op < j->code->slots32 ? 4u : 2u); h++) { /* behind them is another register */
            u32 v = h_mask >> h & 1 ? find_chunk(j, op + 64 * h) : 0;

            if (v)
                drop_vector(j, v);
            if (h_mask >> h & 1)
                sg_jit_sums_changed(j, op, h);
        }
    }
}

u32 sg_jv_held(struct jit *j, u32 op, u32 h)
{
    return find_chunk(j, key_of(j, op, h));
}

void sg_jv_lose(struct jit *j, u32 op)
{
    for (u32 h = 0; h < (op < j->code->slots32 ? 4u : 2u); h++) {
        const u32 v = find_chunk(j, op + 64 * h);

        if (v)
            drop_vector(j, v);
        sg_jit_sums_changed(j, op, h);
    }
}

/* For values of one chunk for all lanes, the last use of a result's parts is known only at the
   end. */
void sg_jv_kill_flat(struct jit *j)
{
    const struct sg_insn *in = &j->code->insns[j->cur];

    for (u32 k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k);
        u32 v;

        if (!(j->kill[j->cur] >> k & 1) || (op & SG_OPND_CONST) || !sg_jit_flat(j, op) ||
            sg_jit_writes(j, j->cur, op))
            continue;
        v = find_chunk(j, op);
        if (v)
            drop_vector(j, v);
    }
}

void sg_jv_settle(struct jit *j, u32 v)
{
    if (!j->masked || !(j->v.dirty >> v & 1))
        return;
    sg_jv_store(j, v, j->v.key[v]);
    j->v.dirty &= ~(1u << v);
}

void sg_jv_flush(struct jit *j)
{
    for (; j->v.dirty; j->v.dirty &= j->v.dirty - 1) {
        const u32 i = lowest_bit(j->v.dirty);

        sg_jv_store(j, i, j->v.key[i]);
    }
    sg_jit_sums_save(j, j->sums, j->nsums);
    for (u32 i = 0; i < j->nsums; i++)
        j->sums[i].unsaved = 0;
}

void sg_jv_forget(struct jit *j)
{
    j->v.held = j->v.dirty = j->v.low_bytes = 0;
    j->nsums = 0;
    j->pinned = 0;
    if (j->b.avx2)
        sg_avx2_done(B(j), 0);
}

bool sg_jit_const(const struct jit *j, u32 op, u64 *v, bool wide)
{
    const struct sg_code *c = j->code;
    const u32 off = op & 0x7fffffffu;

    if (!(op & SG_OPND_CONST))
        return false;
    if (sg_addresses_have(j->addresses, off))
        return false;
    *v = 0;
    memcpy(v, c->pool + off, wide ? 8 : 4);
    return true;
}

void sg_jit_join(struct jit *j, const size_t *at, u32 n)
{
    size_t jumps[16] = {0};
    u32 count = 0;

    for (u32 k = 0; k < n && count < 16; k++)
        if (at[k])
            jumps[count++] = at[k];
    join(B(j), j->v.held, jumps, count);
}

struct stub *sg_jit_stub(struct jit *j)
{
    struct stub *s;

    if (!sg_jit_claim(j, sizeof(*j->stubs)) ||
        !sg_grow(&j->stubs, &j->cap_stubs, j->nstubs, sizeof(*j->stubs))) {
        j->b.failed = true;
        return NULL;
    }
    s = &j->stubs[j->nstubs++];
    s->njumps = 0;
    s->back = 0;
    s->insn = j->cur;
    s->n = 1;
    s->leave = false;
    s->begin = j->begin;
    s->window = NULL;
    s->nsums = 0;
    s->masked = j->masked;
    return s;
}

u32 sg_jit_pattern(struct jit *j, u32 v, u32 bytes)
{
    struct buf *b = B(j);
    struct pattern *p;

    size_t at;

    if (b->avx2) {
        at = sg_avx2_pattern(b, v);
    } else {
        evex_head(b, (struct vop){M38, P66, 0, 0x5a}, v, 0, true, true, 0, 0, false);
        put8(b, (v & 7) << 3 | 5); /* vbroadcasti32x4 v, [rip + distance] */
        at = b->n;
        put32(b, 0);
    }
    if (!sg_jit_claim(j, sizeof(*j->patterns)) ||
        !sg_grow(&j->patterns, &j->cap_patterns, j->npatterns, sizeof(*j->patterns))) {
        b->failed = true;
        return v;
    }
    p = &j->patterns[j->npatterns++];
    p->at = at;
    for (u32 i = 0; i < 16; i++) {
        const u32 x = bytes >> (8 * (i & 3)) & 255;

        p->bytes[i] = (u8)(x & 0x80 ? x : x + (i & ~3u));
    }
    return v;
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Tracks which chunks of the register file are in vector registers while a block is compiled:
 * loads, write-backs, invalidation, and the out-of-line code that depends on it.
 */
#include "jit/state.h"

#ifdef SG_JIT

#include <string.h>

static const struct vop MOV_LOAD = {M0F, P66, 1, 0x6f}, MOV_STORE = {M0F, P66, 1, 0x7f};

void sg_jv_load(struct jit *j, u32 v, u32 key)
{
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
        return;
    }
    if (j->masked) {
        sg_jit_lanes(j, 7, wide ? key >> 6 & 3 : key >> 6 & 1, wide);
        o.w = wide;
    }
    evm(B(j), o, v, 0, G_REGS, (s32)key, 64, j->masked ? 7 : 0, 0);
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

static u32 find(const struct jit *j, u32 key)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (j->v[i].key == key)
            return i;
    return 0;
}

static void drop(struct jit *j, u32 i)
{
    j->v[i].key = NO_KEY;
    j->v[i].dirty = false;
    j->v[i].low_bytes = false;
}

u32 sg_jv_new(struct jit *j)
{
    u32 best = 0;

    for (u32 i = V_SCRATCH; i < V_COUNT; i++) {
        const struct vreg *v = &j->v[i];

        if (v->pinned)
            continue;
        if (v->key == NO_KEY) {
            best = i;
            break;
        }
        if (!best || v->used < j->v[best].used)
            best = i;
    }
    if (!best) { /* all are pinned */
        j->b.failed = true;
        return 0;
    }
    if (j->v[best].key != NO_KEY && j->v[best].dirty)
        sg_jv_store(j, best, j->v[best].key);
    drop(j, best);
    j->v[best].pinned = true;
    j->v[best].used = ++j->clock;
    return best;
}

u32 sg_jv_get(struct jit *j, u32 op, u32 h)
{
    const u32 key = key_of(j, op, h);
    u32 v = find(j, key);

    if (!v) {
        v = sg_jv_new(j);
        sg_jv_load(j, v, key);
        j->v[v].key = key;
    }
    j->v[v].pinned = true;
    j->v[v].used = ++j->clock;
    return v;
}

void sg_jv_bind(struct jit *j, u32 op, u32 h, u32 v)
{
    u32 old = find(j, key_of(j, op, h));

    if (old)
        drop(j, old);
    if (j->kill[j->cur] & F_DEAD)
        return;
    j->v[v].key = key_of(j, op, h);
    j->v[v].dirty = true;
    j->v[v].low_bytes = false;
}

void sg_jv_unpin(struct jit *j)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        j->v[i].pinned = false;
}

void sg_jv_kill(struct jit *j, const struct sg_insn *in, u32 h_mask)
{
    const u32 kill = j->kill[j->cur];

    for (u32 k = 0; k < 5; k++) {
        const u32 op = *sg_jit_field(in, k);

        if (!(kill >> k & 1) || (op & SG_OPND_CONST) || sg_jit_flat(j, op))
            continue;
        for (u32 h = 0; h < 4; h++) {
            u32 v = h_mask >> h & 1 ? find(j, op + 64 * h) : 0;

            if (v)
                drop(j, v);
        }
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

        if (!(j->kill[j->cur] >> k & 1) || (op & SG_OPND_CONST) || !sg_jit_flat(j, op))
            continue;
        v = find(j, op);
        if (v)
            drop(j, v);
    }
}

void sg_jv_flush(struct jit *j)
{
    for (u32 i = V_SCRATCH; i < V_COUNT; i++)
        if (j->v[i].key != NO_KEY && j->v[i].dirty) {
            sg_jv_store(j, i, j->v[i].key);
            j->v[i].dirty = false;
        }
}

void sg_jv_forget(struct jit *j)
{
    for (u32 i = 0; i < V_COUNT; i++)
        j->v[i] = (struct vreg){.key = NO_KEY};
}

bool sg_jit_const(const struct jit *j, u32 op, u64 *v, bool wide)
{
    const struct sg_code *c = j->code;
    const u32 off = op & 0x7fffffffu;

    if (!(op & SG_OPND_CONST))
        return false;
    if (j->addresses[off >> 10] >> (off >> 7 & 7) & 1)
        return false;
    *v = 0;
    memcpy(v, c->pool + off, wide ? 8 : 4);
    return true;
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
    s->window = NULL;
    s->masked = j->masked;
    memcpy(s->v, j->v, sizeof(s->v));
    return s;
}

u32 sg_jit_pattern(struct jit *j, u32 v, u32 bytes)
{
    struct buf *b = B(j);
    struct pattern *p;

    evex_head(b, (struct vop){M38, P66, 0, 0x5a}, v, 0, true, true, 0, 0, false);
    put8(b, (v & 7) << 3 | 5); /* vbroadcasti32x4 v, [rip + distance] */
    if (!sg_jit_claim(j, sizeof(*j->patterns)) ||
        !sg_grow(&j->patterns, &j->cap_patterns, j->npatterns, sizeof(*j->patterns))) {
        b->failed = true;
        return v;
    }
    p = &j->patterns[j->npatterns++];
    p->at = b->n;
    put32(b, 0);
    for (u32 i = 0; i < 16; i++) {
        const u32 x = bytes >> (8 * (i & 3)) & 255;

        p->bytes[i] = (u8)(x & 0x80 ? x : x + (i & ~3u));
    }
    return v;
}

#endif

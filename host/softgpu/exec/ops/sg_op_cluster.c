/* SPDX-License-Identifier: MIT */
/*
 * Handlers: clusters. Their barrier has separate arrive and wait instructions, so waiting polls.
 * Addresses in another block's shared memory are resolved by sg_resolve() (exec/sg_access.c) on every
 * access. One thread runs all blocks of a cluster (exec/sg_together.c): nothing here is atomic.
 */
#include "exec/ops/bulk.h"
#include "exec/run.h"

HANDLER(cluster_arrive)
{
    const u32 fresh = w->mask & ~w->cluster_in;

    (void)in;
    w->cluster_in |= fresh;
    sg_cluster_arrive(w->cta, (u32)__builtin_popcount(fresh));
    sg_cluster_check(w->cta);
    return SG_NEXT;
}

HANDLER(cluster_wait)
{
    if (!(w->mask & w->cluster_in))
        return SG_NEXT;
    w->spin = true;
    w->ip = in;
    return SG_YIELD;
}

uint64_t sg_cluster_map(const struct sg_cta *c, uint64_t at, uint32_t rank)
{
    const u64 off = at < SG_WIN_CLUSTER_SIZE ? at % SG_WIN_SHARED_SIZE : 0;

    if (at >= SG_WIN_CLUSTER_SIZE || rank >= c->cluster_size)
        return (SG_WIN_CLUSTER_SLOTS - 1) * (u64)SG_WIN_SHARED_SIZE + off;
    return c->cluster_size == 1 ? off : (rank + 1) * (u64)SG_WIN_SHARED_SIZE + off;
}

/* The rank of the block at this offset; the running block's if no other block is there. */
static u32 rank_of(const struct sg_cta *c, u64 at)
{
    const u64 slot = at / SG_WIN_SHARED_SIZE;

    return slot && slot <= c->cluster_size ? (u32)slot - 1 : c->cluster_rank;
}

HANDLER(mapa_shared)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u32, sg_cluster_map(w->cta, pa[i], pb[i]));
    return SG_NEXT;
}

HANDLER(mapa)
{
    const u64 *pa = SRC(u64, a);
    const u32 *pb = SRC(u32, b);

    STORE(u64, sg_win.shared + sg_cluster_map(w->cta, pa[i] - sg_win.shared, pb[i]));
    return SG_NEXT;
}

HANDLER(ctarank_shared)
{
    const u32 *pa = SRC(u32, a);

    STORE(u32, rank_of(w->cta, pa[i]));
    return SG_NEXT;
}

HANDLER(ctarank)
{
    const u64 *pa = SRC(u64, a);

    STORE(u32, rank_of(w->cta, pa[i] - sg_win.shared));
    return SG_NEXT;
}

/* ---- clusterlaunchcontrol.try_cancel ---- */

/* One of the 16 bytes that query_cancel reads (SG_CANCEL_WORDS), and the barrier object that counts them. */
static bool cancel_respond(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 to, u64 barrier,
                           const u32 response[SG_CANCEL_WORDS])
{
    const u32 bytes = SG_CANCEL_WORDS * sizeof(u32);
    u32 local;
    u8 *p = sg_resolve(w, in, lane, SG_SP_SHARED, to, bytes, bytes, true, &local);

    if (!p)
        return false;
    memcpy(p, response, bytes);
    return sg_bulk_count_at(w, in, lane, barrier, bytes);
}

/* to, barrier: offsets in the window of the block. imm: 1: to all blocks of the cluster. False: faulted. */
static bool cancel_once(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 to, u64 barrier)
{
    u32 response[SG_CANCEL_WORDS] = {0};

    response[SG_CANCEL_DONE] = sg_block_cancel(w->cta, response);
    if (!in->imm)
        return cancel_respond(w, in, lane, to, barrier, response);
    for (u32 rank = 0; rank < w->cta->cluster_size; rank++)
        if (!cancel_respond(w, in, lane, sg_cluster_map(w->cta, to, rank),
                            sg_cluster_map(w->cta, barrier, rank), response))
            return false;
    return true;
}

HANDLER(cluster_cancel)
{
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (!cancel_once(w, in, i, SRC(u32, a)[i], SRC(u32, b)[i]))
            return SG_FAULTED;
    }
    return SG_NEXT;
}

HANDLER(cluster_cancel_generic)
{
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 at[2] = {SRC(u64, a)[i], SRC(u64, b)[i]};

        for (int k = 0; k < 2; k++)
            if (at[k] - sg_win.shared >= SG_WIN_CLUSTER_SIZE)
                return sg_fault_addr(w, in, i, SG_ERR_ADDRESS_SPACE, SG_SP_GENERIC, at[k], k ? 8 : 16, true);
        if (!cancel_once(w, in, i, at[0] - sg_win.shared, at[1] - sg_win.shared))
            return SG_FAULTED;
    }
    return SG_NEXT;
}

/* isspacep.shared::cta (imm: 0) and .shared::cluster (1) */
HANDLER(isspacep_cluster)
{
    const u64 *pa = SRC(u64, a);
    const struct sg_cta *c = w->cta;
    u32 r = 0;

    for (int i = 0; i < SG_LANES; i++) {
        const u64 at = pa[i] - sg_win.shared;
        const bool inside = at < (1 + (u64)(c->cluster_size > 1 ? c->cluster_size : 0)) * SG_WIN_SHARED_SIZE;

        if (inside && (in->imm || rank_of(c, at) == c->cluster_rank))
            r |= 1u << i;
    }
    sg_set_pred(w, in->d, r);
    return SG_NEXT;
}

static bool in_const_space(const struct sg_const_space *c, u64 a)
{
    uint32_t low = 0, high = c ? c->n : 0;

    while (low < high) {
        const uint32_t at = low + (high - low) / 2;

        if (a < c->at[at].start)
            high = at;
        else if (a - c->at[at].start >= c->at[at].size)
            low = at + 1;
        else
            return true;
    }
    return false;
}

HANDLER(isspacep)
{
    const struct sg_const_space *consts = w->cta->run->code->const_space;
    const u64 *pa = SRC(u64, a);
    u32 r = 0;

    for (int i = 0; i < SG_LANES; i++) {
        const u64 a = pa[i];
        const bool sh = a - sg_win.shared < SG_WIN_CLUSTER_SIZE; /* block for isspacep.cluster */
        const bool lo = a - sg_win.local < SG_WIN_LOCAL_SIZE;
        const bool pa_ = a - sg_win.param < SG_WIN_PARAM_SIZE;
        bool yes = false;

        switch ((int)in->imm) {
        case SG_SP_LOCAL:
            yes = lo;
            break;
        case SG_SP_PARAM:
            yes = pa_;
            break;
        case SG_SP_GLOBAL:
            yes = !sh && !lo && !in_const_space(consts, a); /* parameters, too */
            break;
        case SG_SP_CONST:
            yes = in_const_space(consts, a);
            break;
        default:
            break;
        }
        r |= yes ? 1u << i : 0;
    }
    sg_set_pred(w, in->d, r);
    return SG_NEXT;
}

#include "exec/ops/cluster.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cluster[] = {
#include "exec/ops/cluster.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/* Handlers: bulk copies and reductions. */
#include "exec/ops/bulk.h"

static u64 lane_address(const struct sg_warp *w, u32 lane, bool shared, u32 field)
{
    return shared ? ((const u32 *)sg_src_ptr(w, field))[lane] : ((const u64 *)sg_src_ptr(w, field))[lane];
}

/* n bytes at an address, both multiples of 16; NULL after a fault. */
static u8 *bulk_at(struct sg_warp *w, const struct sg_insn *in, u32 lane, bool shared, u64 at, u32 n,
                   bool write)
{
    u32 local;

    if (n & 15) {
        sg_fault_addr(w, in, lane, SG_ERR_MISALIGNED, shared ? SG_SP_SHARED : SG_SP_GLOBAL, at, n, write);
        return NULL;
    }
    return sg_resolve(w, in, lane, shared ? SG_SP_SHARED : SG_SP_GLOBAL, at, n, 16, write, &local);
}

static u8 *bulk_ptr(struct sg_warp *w, const struct sg_insn *in, u32 lane, bool shared, u32 field, u32 n,
                    bool write)
{
    return bulk_at(w, in, lane, shared, lane_address(w, lane, shared, field), n, write);
}

static bool bulk_count(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 n)
{
    return !(in->imm & SG_BULK_BARRIER) || sg_bulk_count_at(w, in, lane, SRC(u32, c)[lane], n);
}

/* Copies to the same offset in several blocks, each with its own barrier object. Returns false
   on a fault. */
static bool bulk_multicast(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 n)
{
    u8 *s = bulk_ptr(w, in, lane, in->imm & SG_BULK_FROM_SHARED, in->a, n, false), *d;

    if (!s)
        return false;
    for (u32 m = SRC(u32, e)[lane] & 0xffff; m; m &= m - 1) {
        const u32 rank = (u32)__builtin_ctz(m);

        d = bulk_at(w, in, lane, true, sg_cluster_map(w->cta, SRC(u32, d)[lane], rank), n, true);
        if (!d)
            return false;
        memmove(d, s, n);
        if (!sg_bulk_count_at(w, in, lane, sg_cluster_map(w->cta, SRC(u32, c)[lane], rank), n))
            return false;
    }
    return true;
}

HANDLER(bulk_copy)
{
    const bool to = in->imm & SG_BULK_TO_SHARED, from = in->imm & SG_BULK_FROM_SHARED;
    u64 bytes = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), n = SRC(u32, b)[i];
        u8 *d, *s;

        bytes += n;
        if (in->imm & SG_BULK_MULTICAST) {
            if (!bulk_multicast(w, in, i, n))
                return SG_FAULTED;
            bytes += (u64)n * (u32)__builtin_popcount(SRC(u32, e)[i] & 0xffff);
            continue;
        }
        d = bulk_ptr(w, in, i, to, in->d, n, true);
        if (!d)
            return SG_FAULTED;
        s = bulk_ptr(w, in, i, from, in->a, n, false);
        if (!s)
            return SG_FAULTED;
        memmove(d, s, n);
        if (!bulk_count(w, in, i, n))
            return SG_FAULTED;
    }
    return sg_charge(w, in, bytes);
}

HANDLER(bulk_reduce)
{
    const bool to = in->imm & SG_BULK_TO_SHARED, from = in->imm & SG_BULK_FROM_SHARED;
    const u32 op = in->aux & 255;
    const enum sg_type t = (enum sg_type)(in->aux >> 8);
    u64 bytes = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), n = SRC(u32, b)[i];
        u8 *d = bulk_ptr(w, in, i, to, in->d, n, true), *s;

        if (!d)
            return SG_FAULTED;
        s = bulk_ptr(w, in, i, from, in->a, n, false);
        if (!s)
            return SG_FAULTED;
        sg_bulk_reduce(d, s, n, op, t);
        if (!bulk_count(w, in, i, n))
            return SG_FAULTED;
        bytes += (u64)n * SG_BULK_REDUCE_COST;
    }
    return sg_charge(w, in, bytes);
}

#include "exec/ops/bulk.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_bulk[] = {
#include "exec/ops/bulk.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/* Handlers: bulk copies and reductions. */
#include "exec/ops/handler.h"
#include "base/half.h"
#include "exec/code.h"

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

/* Counts the bytes at the barrier object. False: faulted. */
static bool bulk_count_at(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 at, u32 n)
{
    u32 local;
    u64 *p;

    p = sg_resolve(w, in, lane, SG_SP_SHARED, at, 8, 8, true, &local);
    if (p)
        *p = sg_mbar_step(*p, 0, -(s32)n);
    return p != NULL;
}

static bool bulk_count(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 n)
{
    return !(in->imm & SG_BULK_BARRIER) || bulk_count_at(w, in, lane, SRC(u32, c)[lane], n);
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
        if (!bulk_count_at(w, in, lane, sg_cluster_map(w->cta, SRC(u32, c)[lane], rank), n))
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

static f64 float_of(u64 v, enum sg_type t)
{
    f32 f;
    f64 g;

    switch (t) {
    case SG_TY_F16:
        return sg_f16_to_f32((u16)v);
    case SG_TY_BF16:
        return sg_bf16_to_f32((u16)v);
    case SG_TY_F32:
        memcpy(&f, &v, 4);
        return f;
    default:
        memcpy(&g, &v, 8);
        return g;
    }
}

/* A subnormal f32 becomes zero with its sign. */
static u64 flush_subnormal(u64 v)
{
    return v & 0x7f800000u ? v : v & 0x80000000u;
}

/* Sums of f32 flush operands and result (PTX ISA, "cp.reduce.async.bulk"). */
static u64 add_float(u64 a, u64 b, enum sg_type t)
{
    const f64 sum = float_of(a, t) + float_of(b, t);
    u64 r = 0;
    f32 f;

    if (t == SG_TY_F32) {
        a = flush_subnormal(a);
        b = flush_subnormal(b);
    }
    f = (f32)float_of(a, t) + (f32)float_of(b, t);

    switch (t) {
    case SG_TY_F16:
        return sg_f32_to_f16(f, 0) & 0xffff;
    case SG_TY_BF16:
        return sg_f32_to_bf16(f, 0) & 0xffff;
    case SG_TY_F32:
        memcpy(&r, &f, 4);
        return f != f ? 0x7fffffffu : flush_subnormal(r);
    default:
        memcpy(&r, &sum, 8);
        return r;
    }
}

/* ops[] of sg_emit_bulk(), on values that fill the low bytes. */
static u64 combine_values(u32 op, enum sg_type t, u64 a, u64 b)
{
    const bool wide = sg_type_size(t) == 8;
    bool less;

    if (sg_type_float(t)) {
        if (!op)
            return add_float(a, b, t);
        less = float_of(b, t) < float_of(a, t);
        return (op == 1) == less ? b : a;
    }
    less = sg_type_signed(t) ? wide ? (s64)b < (s64)a : (s32)b < (s32)a : wide ? b < a : (u32)b < (u32)a;
    switch (op) {
    case 0:
        return a + b;
    case 1:
        return less ? b : a;
    case 2:
        return less ? a : b;
    case 3:
        return a >= b ? 0 : a + 1;
    case 4:
        return a == 0 || a > b ? b : a - 1;
    case 5:
        return a & b;
    case 6:
        return a | b;
    default:
        return a ^ b;
    }
}

#define REDUCE(U) \
    for (u32 k = 0; k < n; k += sizeof(U)) { \
        U *p = (U *)(void *)(d + k), old = __atomic_load_n(p, __ATOMIC_RELAXED), b; \
        memcpy(&b, s + k, sizeof(b)); \
        while (!__atomic_compare_exchange_n(p, &old, (U)combine_values(op, t, old, b), true, \
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) \
            ; \
    }

#define REDUCE_COST 16 /* an atomic operation on an element, in bytes copied for each of its own */

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
        switch (sg_type_size(t)) {
        case 2:
            REDUCE(u16) break;
        case 4:
            REDUCE(u32) break;
        default:
            REDUCE(u64) break;
        }
        if (!bulk_count(w, in, i, n))
            return SG_FAULTED;
        bytes += (u64)n * REDUCE_COST;
    }
    return sg_charge(w, in, bytes);
}

#include "exec/ops/bulk.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_bulk[] = {
#include "exec/ops/bulk.def"
    {0},
};

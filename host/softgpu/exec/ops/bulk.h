/* SPDX-License-Identifier: MIT */
/* Parts that bulk copies and tensor copies share: counted bytes, reductions. */
#ifndef SG_EXEC_OPS_BULK_H
#define SG_EXEC_OPS_BULK_H

#include "base/half.h"
#include "exec/code.h"
#include "exec/ops/handler.h"

#define SG_BULK_REDUCE_COST 16 /* an atomic operation on an element, in bytes copied for each of its own */

/* Counts the bytes at the barrier object. False: faulted. */
static inline bool sg_bulk_count_at(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 at, u32 n)
{
    u32 local;
    u64 *p;

    p = sg_resolve(w, in, lane, SG_SP_SHARED, at, 8, 8, true, &local);
    if (p)
        *p = sg_mbar_step(*p, 0, -(s32)n);
    return p != NULL;
}

static inline f64 sg_bulk_float(u64 v, enum sg_type t)
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
static inline u64 sg_bulk_flush(u64 v)
{
    return v & 0x7f800000u ? v : v & 0x80000000u;
}

/* Sums of f32 flush operands and result (PTX ISA, "cp.reduce.async.bulk"). */
static inline u64 sg_bulk_add_float(u64 a, u64 b, enum sg_type t)
{
    const f64 sum = sg_bulk_float(a, t) + sg_bulk_float(b, t);
    u64 r = 0;
    f32 f;

    if (t == SG_TY_F32) {
        a = sg_bulk_flush(a);
        b = sg_bulk_flush(b);
    }
    f = (f32)sg_bulk_float(a, t) + (f32)sg_bulk_float(b, t);

    switch (t) {
    case SG_TY_F16:
        return sg_f32_to_f16(f, 0) & 0xffff;
    case SG_TY_BF16:
        return sg_f32_to_bf16(f, 0) & 0xffff;
    case SG_TY_F32:
        memcpy(&r, &f, 4);
        return f != f ? 0x7fffffffu : sg_bulk_flush(r);
    default:
        memcpy(&r, &sum, 8);
        return r;
    }
}

/* op: the number in sg_bulk_reductions[], of values that fill the low bytes. */
static inline u64 sg_bulk_combine(u32 op, enum sg_type t, u64 a, u64 b)
{
    const bool wide = sg_type_size(t) == 8;
    bool less;

    if (sg_type_float(t)) {
        if (!op)
            return sg_bulk_add_float(a, b, t);
        less = sg_bulk_float(b, t) < sg_bulk_float(a, t);
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

#define SG_BULK_REDUCE(U) \
    for (u32 k = 0; k < n; k += sizeof(U)) { \
        U *p = (U *)(void *)(d + k), old = __atomic_load_n(p, __ATOMIC_RELAXED), b; \
        memcpy(&b, s + k, sizeof(b)); \
        while (!__atomic_compare_exchange_n(p, &old, (U)sg_bulk_combine(op, t, old, b), true, \
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) \
            ; \
    }

/* n bytes of elements at s are combined with those at d, each atomically. */
static inline void sg_bulk_reduce(u8 *d, const u8 *s, u32 n, u32 op, enum sg_type t)
{
    switch (sg_type_size(t)) {
    case 2:
        SG_BULK_REDUCE(u16) break;
    case 4:
        SG_BULK_REDUCE(u32) break;
    default:
        SG_BULK_REDUCE(u64) break;
    }
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * Handlers: atomics, lane by lane in ascending order. Global memory is shared with
 * other threads of the pool, so every operation is a host atomic; floating point and min/max go
 * through compare and exchange.
 */
#include "exec/ops/handler.h"
#include "base/half.h"
#include "exec/code.h"

/* Address of the operand of a lane; NULL after a fault. Local memory has no atomics. */
static void *atom_slow(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 size, u64 addr)
{
    u32 local;
    void *p = sg_resolve(w, in, lane, (enum sg_space)SG_AUX_SPACE(in->aux), addr, size, size, true, &local);

    if (p && local) {
        sg_fault_addr(w, in, lane, SG_ERR_ADDRESS_SPACE, SG_SP_LOCAL, addr, size, true);
        return NULL;
    }
    return p;
}

static inline void *atom_ptr(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 size)
{
    struct sg_cta *c = w->cta;
    u64 addr;

    if (in->aux & SG_AUX_ADDR32) {
        const u32 off = SRC(u32, a)[lane] + (u32)in->imm;

        if (LIKELY(sg_bytes_have(c->shared_bytes, off, size) && !(off & (size - 1))))
            return c->shared + off;
        addr = off;
    } else {
        const struct sg_mem_range *r = &c->cache[in->idx & (SG_RANGE_CACHE - 1)];

        addr = SRC(u64, a)[lane] + (u64)in->imm;
        if (LIKELY(r->generation == SG_GENERATION() && r->writable &&
                   sg_span_has(r->base, r->end - r->base, addr, size) && !(addr & (size - 1))))
            return (void *)(uintptr_t)addr;
    }
    return atom_slow(w, in, lane, size, addr);
}

/* Only the thread that runs a block accesses its shared memory, so no lock is needed there. */
#define IS_SHARED(in) (((in)->aux & SG_AUX_ADDR32) != 0)

/* U: the unsigned type stored; B: of the operand; old and b in scope; e: the new value */
#define ATOM(id, name, native, U, B, e) \
    HANDLER(id) \
    { \
        const U *pb = SRC(U, b); \
        U *d = DST(U, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            U *p = atom_ptr(w, in, i, sizeof(U)); \
            const U b = pb[i]; \
            U old, next; \
            if (!p) \
                return SG_FAULTED; \
            old = __atomic_load_n(p, __ATOMIC_RELAXED); \
            if (IS_SHARED(in)) { \
                *p = (U)(e); \
                d[i] = old; \
                continue; \
            } \
            do { \
                next = (U)(e); \
            } while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
            d[i] = old; \
        } \
        return SG_NEXT; \
    }

#define FETCH(id, name, native, U, fn, op) \
    HANDLER(id) \
    { \
        const U *pb = SRC(U, b); \
        U *d = DST(U, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            U *p = atom_ptr(w, in, i, sizeof(U)); \
            const U b = pb[i]; \
            if (!p) \
                return SG_FAULTED; \
            if (IS_SHARED(in)) { \
                const U old = *p; \
                *p = old op b; \
                d[i] = old; \
            } else { \
                d[i] = fn(p, b, __ATOMIC_SEQ_CST); \
            } \
        } \
        return SG_NEXT; \
    }

#define EXCH(id, name, native, U) \
    HANDLER(id) \
    { \
        const U *pb = SRC(U, b); \
        U *d = DST(U, d); \
        w->spin = true; \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            U *p = atom_ptr(w, in, i, sizeof(U)); \
            const U b = pb[i]; \
            if (!p) \
                return SG_FAULTED; \
            d[i] = __atomic_exchange_n(p, b, __ATOMIC_SEQ_CST); \
        } \
        return SG_NEXT; \
    }

/* T: memory, R: register */
#define CAS(id, name, native, T, R) \
    HANDLER(id) \
    { \
        const R *pb = SRC(R, b), *pc = SRC(R, c); \
        R *d = DST(R, d); \
        w->spin = true; \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            T *p = atom_ptr(w, in, i, sizeof(T)), old = (T)pb[i]; \
            const T next = (T)pc[i]; \
            if (!p) \
                return SG_FAULTED; \
            __atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
            d[i] = old; \
        } \
        return SG_NEXT; \
    }

/* A 16-byte compare-and-swap; *old receives the previous value. Processors without such an
   instruction use a lock, which makes these operations atomic among themselves. */
static bool cas128(u64 *p, u64 old[2], const u64 next[2])
{
#ifdef __x86_64__
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(done), "+m"(*(unsigned __int128 *)(void *)p), "+a"(old[0]), "+d"(old[1])
                     : "b"(next[0]), "c"(next[1])
                     : "memory");
    return done;
#else
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    bool done;

    pthread_mutex_lock(&lock);
    done = p[0] == old[0] && p[1] == old[1];
    old[0] = p[0];
    old[1] = p[1];
    if (done)
        memcpy(p, next, 16);
    pthread_mutex_unlock(&lock);
    return done;
#endif
}

/* d and e: the old value; b and c: compared with it, or stored; a and b of the "ext": stored */
static int atom128(struct sg_warp *w, const struct sg_insn *in, bool cas)
{
    const u64 *lo = SRC(u64, b), *hi = SRC(u64, c);
    const u64 *nlo = cas ? sg_src_ptr(w, in[1].a) : lo, *nhi = cas ? sg_src_ptr(w, in[1].b) : hi;
    u64 *dlo = DST(u64, d), *dhi = DST(u64, e);

    w->spin = true;
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        u64 *p = atom_ptr(w, in, i, 16), old[2] = {lo[i], hi[i]};
        const u64 next[2] = {nlo[i], nhi[i]};

        if (!p)
            return SG_FAULTED;
        while (!cas128(p, old, next) && !cas)
            ;
        dlo[i] = old[0];
        dhi[i] = old[1];
    }
    return SG_NEXT;
}

HANDLER(atom_cas_b128)
{
    return atom128(w, in, true);
}

HANDLER(atom_exch_b128)
{
    return atom128(w, in, false);
}

/* A subnormal number becomes zero with its sign. */
static inline u32 flush_f32(u32 v, bool flush)
{
    return flush && !(v & 0x7f800000u) ? v & 0x80000000u : v;
}

/* PTX ISA, "atom": the sum of f32 in global memory flushes operands and result, that in shared memory does not. */
static inline u32 add_f32(u32 a, u32 b, bool flush)
{
    f32 x, y;

    a = flush_f32(a, flush);
    b = flush_f32(b, flush);
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&a, &x, 4);
    return x != x ? 0x7fffffffu : flush_f32(a, flush);
}

/* The operand of a lane, accessible memory, is not in shared memory. */
static inline bool is_global(const struct sg_warp *w, const struct sg_insn *in, u32 lane)
{
    return !IS_SHARED(in) && (SG_AUX_SPACE(in->aux) != SG_SP_GENERIC ||
                              SRC(u64, a)[lane] + (u64)in->imm - sg_win.shared >= SG_WIN_CLUSTER_SIZE);
}

static inline u64 add_f64(u64 a, u64 b)
{
    f64 x, y;

    memcpy(&x, &a, 8);
    memcpy(&y, &b, 8);
    x += y;
    memcpy(&a, &x, 8);
    return a;
}

static inline u32 add_f16(u32 a, u32 b)
{
    return sg_f32_to_f16(sg_f16_to_f32((u16)a) + sg_f16_to_f32((u16)b), 0);
}

static inline u32 add_bf16(u32 a, u32 b)
{
    return sg_f32_to_bf16(sg_bf16_to_f32((u16)a) + sg_bf16_to_f32((u16)b), 0);
}

/* Minimum or maximum of two halves: of a NaN and a number the number, and -0.0 is below +0.0. */
static inline u32 extreme_half(u32 a, u32 b, bool bf, bool max)
{
    const f32 x = bf ? sg_bf16_to_f32((u16)a) : sg_f16_to_f32((u16)a);
    const f32 y = bf ? sg_bf16_to_f32((u16)b) : sg_f16_to_f32((u16)b);
    const bool second = x == y ? !(b & 0x8000u) == max : x != x || (max ? y > x : y < x);

    return x != x && y != y ? 0x7fffu : (second ? b : a) & 0xffffu;
}

#define EXTREME2(bf, max) extreme_half(old, b, bf, max) | extreme_half(old >> 16, b >> 16, bf, max) << 16

/* 16-bit values: memory is narrower than the register */
#define ATOM16(id, name, native, e) \
    HANDLER(id) \
    { \
        const u32 *pb = SRC(u32, b); \
        u32 *d = DST(u32, d); \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m), b = pb[i]; \
            u16 *p = atom_ptr(w, in, i, 2), old, next; \
            if (!p) \
                return SG_FAULTED; \
            old = __atomic_load_n(p, __ATOMIC_RELAXED); \
            do { \
                next = (u16)(e); \
            } while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)); \
            d[i] = old; \
        } \
        return SG_NEXT; \
    }

/*
 * Barrier objects of 64 bits: pending arrivals in bits 0-19, arrivals per phase in bits 20-39,
 * announced bytes that are not yet transferred in bits 40-60 (signed: the transfer may come first),
 * the phase number above. The state returned by arrive is the previous value of the object.
 */
#define MBAR_COUNT 0xfffffu
#define MBAR_TX 0x1fffffu
#define MBAR_PHASE(v) ((v) >> 61)

static u64 mbar_make(u64 pending, u64 expected, u64 tx, u64 phase)
{
    if (!pending && !(tx & MBAR_TX)) {
        pending = expected;
        phase++;
    }
    return pending | expected << 20 | (tx & MBAR_TX) << 40 | phase << 61;
}

u64 sg_mbar_step(u64 v, u32 n, s32 tx)
{
    const u64 pending = v & MBAR_COUNT;

    return mbar_make(pending > n ? pending - n : 0, v >> 20 & MBAR_COUNT, (v >> 40) + (u64)(s64)tx,
                     MBAR_PHASE(v));
}

static u64 mbar_arrive(u64 v, u32 n, bool drop)
{
    const u64 expected = v >> 20 & MBAR_COUNT, pending = v & MBAR_COUNT;

    if (!drop)
        return sg_mbar_step(v, n, 0);
    return mbar_make(pending > n ? pending - n : 0, expected ? expected - 1 : 0, v >> 40, MBAR_PHASE(v));
}

#define MBAR(id, body) \
    HANDLER(mbar_##id) \
    { \
        for (u32 m = w->mask; m; m &= m - 1) { \
            const u32 i = (u32)__builtin_ctz(m); \
            u64 *p = atom_ptr(w, in, i, 8); \
            if (!p) \
                return SG_FAULTED; \
            body \
        } \
        return SG_NEXT; \
    }
#define MBAR_SET_PRED(yes) \
    { \
        u32 *d = DST(u32, d); \
        *d = (yes) ? *d | 1u << i : *d & ~(1u << i); \
        w->spin = true; \
    }
#define LOAD(p) __atomic_load_n(p, __ATOMIC_ACQUIRE)
MBAR(init, {
    const u64 n = SRC(u32, b)[i] & MBAR_COUNT;
    __atomic_store_n(p, n | n << 20, __ATOMIC_RELEASE);
})
MBAR(arrive, {
    u64 old = LOAD(p);
    while (!__atomic_compare_exchange_n(p, &old, mbar_arrive(old, SRC(u32, b)[i], false), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    DST(u64, d)[i] = old;
})
MBAR(drop, {
    u64 old = LOAD(p);
    while (!__atomic_compare_exchange_n(p, &old, mbar_arrive(old, SRC(u32, b)[i], true), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
        ;
    DST(u64, d)[i] = old;
})
MBAR(expect, { *p = sg_mbar_step(LOAD(p), 0, (s32)SRC(u32, b)[i]); })
MBAR(complete, { *p = sg_mbar_step(LOAD(p), 0, -(s32)SRC(u32, b)[i]); })
MBAR(test, MBAR_SET_PRED(MBAR_PHASE(LOAD(p)) != MBAR_PHASE(SRC(u64, b)[i])))
MBAR(parity, MBAR_SET_PRED((MBAR_PHASE(LOAD(p)) & 1) != (SRC(u32, b)[i] & 1)))

HANDLER(mbar_pending)
{
    const u64 *pa = SRC(u64, a);
    u32 *d = DST(u32, d);

    for (u32 m = w->mask; m; m &= m - 1)
        d[__builtin_ctz(m)] = (u32)pa[__builtin_ctz(m)] & MBAR_COUNT;
    return SG_NEXT;
}

#include "exec/ops/atom.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_atom[] = {
#include "exec/ops/atom.def"
    {0},
};

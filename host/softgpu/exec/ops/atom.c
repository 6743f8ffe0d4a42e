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

/* U: the unsigned type stored; old and b in scope; e: the new value */
#define ATOM(id, U, e) \
    HANDLER(atom_##id) \
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

#define FETCH(id, U, fn, op) \
    HANDLER(atom_##id) \
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

#define EXCH(id, U) \
    HANDLER(atom_exch_##id) \
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
#define CAS(id, T, R) \
    HANDLER(atom_cas_##id) \
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

static inline u32 add_f32(u32 a, u32 b)
{
    f32 x, y;

    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&a, &x, 4);
    return x != x ? 0x7fffffffu : a;
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

FETCH(add_b32, u32, __atomic_fetch_add, +)
FETCH(add_b64, u64, __atomic_fetch_add, +)
FETCH(and_b32, u32, __atomic_fetch_and, &)
FETCH(and_b64, u64, __atomic_fetch_and, &)
FETCH(or_b32, u32, __atomic_fetch_or, |)
FETCH(or_b64, u64, __atomic_fetch_or, |)
FETCH(xor_b32, u32, __atomic_fetch_xor, ^)
FETCH(xor_b64, u64, __atomic_fetch_xor, ^)
EXCH(b32, u32)
EXCH(b64, u64)
CAS(b16, u16, u32)
CAS(b32, u32, u32)
CAS(b64, u64, u64)
ATOM(min_u32, u32, b < old ? b : old)
ATOM(max_u32, u32, b > old ? b : old)
ATOM(min_s32, u32, (s32)b < (s32)old ? b : old)
ATOM(max_s32, u32, (s32)b > (s32)old ? b : old)
ATOM(min_u64, u64, b < old ? b : old)
ATOM(max_u64, u64, b > old ? b : old)
ATOM(min_s64, u64, (s64)b < (s64)old ? b : old)
ATOM(max_s64, u64, (s64)b > (s64)old ? b : old)
ATOM(inc_b32, u32, old >= b ? 0 : old + 1)
ATOM(dec_b32, u32, old == 0 || old > b ? b : old - 1)
ATOM(add_f32, u32, add_f32(old, b))
ATOM(add_f64, u64, add_f64(old, b))
ATOM(add_f16x2, u32, add_f16(old, b) | add_f16(old >> 16, b >> 16) << 16)
ATOM(add_bf16x2, u32, add_bf16(old, b) | add_bf16(old >> 16, b >> 16) << 16)
#define EXTREME2(bf, max) extreme_half(old, b, bf, max) | extreme_half(old >> 16, b >> 16, bf, max) << 16
ATOM(min_f16x2, u32, EXTREME2(false, false))
ATOM(max_f16x2, u32, EXTREME2(false, true))
ATOM(min_bf16x2, u32, EXTREME2(true, false))
ATOM(max_bf16x2, u32, EXTREME2(true, true))

/* 16-bit values: memory is narrower than the register */
#define ATOM16(id, e) \
    HANDLER(atom_##id) \
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
ATOM16(add_f16, add_f16(old, b))
ATOM16(add_bf16, add_bf16(old, b))
ATOM16(min_f16, extreme_half(old, b, false, false))
ATOM16(max_f16, extreme_half(old, b, false, true))
ATOM16(min_bf16, extreme_half(old, b, true, false))
ATOM16(max_bf16, extreme_half(old, b, true, true))

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

const struct sg_opdef sg_ops_atom[] = {
    ROWE(atom_add_b32, "atom.add.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_add_b64, "atom.add.b64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_and_b32, "atom.and.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_and_b64, "atom.and.b64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_or_b32, "atom.or.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_or_b64, "atom.or.b64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_xor_b32, "atom.xor.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_xor_b64, "atom.xor.b64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_exch_b32, "atom.exch.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_exch_b64, "atom.exch.b64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_cas_b16, "atom.cas.b16", OUT(u32), ADR, IN(u32), IN(u32)),
    ROWE(atom_cas_b32, "atom.cas.b32", OUT(u32), ADR, IN(u32), IN(u32)),
    ROWE(atom_cas_b64, "atom.cas.b64", OUT(u64), ADR, IN(u64), IN(u64)),
    ROWE(atom_min_u32, "atom.min.u32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_u32, "atom.max.u32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_s32, "atom.min.s32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_s32, "atom.max.s32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_u64, "atom.min.u64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_max_u64, "atom.max.u64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_min_s64, "atom.min.s64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_max_s64, "atom.max.s64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_inc_b32, "atom.inc.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_dec_b32, "atom.dec.b32", OUT(u32), ADR, IN(u32)),
    ROWE(atom_add_f32, "atom.add.f32", OUT(u32), ADR, IN(f32)),
    ROWE(atom_add_f64, "atom.add.f64", OUT(u64), ADR, IN(u64)),
    ROWE(atom_add_f16x2, "atom.add.f16x2", OUT(u32), ADR, IN(u32)),
    ROWE(atom_add_bf16x2, "atom.add.bf16x2", OUT(u32), ADR, IN(u32)),
    ROWE(atom_add_f16, "atom.add.f16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_add_bf16, "atom.add.bf16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_f16, "atom.min.f16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_f16, "atom.max.f16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_bf16, "atom.min.bf16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_bf16, "atom.max.bf16", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_f16x2, "atom.min.f16x2", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_f16x2, "atom.max.f16x2", OUT(u32), ADR, IN(u32)),
    ROWE(atom_min_bf16x2, "atom.min.bf16x2", OUT(u32), ADR, IN(u32)),
    ROWE(atom_max_bf16x2, "atom.max.bf16x2", OUT(u32), ADR, IN(u32)),
    ROWR(atom_cas_b128, "atom.cas.b128", SG_R_ATOM128, 0, OUT(u64), ADR, IN(u64), IN(u64), OUT(u64)),
    ROWR(atom_exch_b128, "atom.exch.b128", SG_R_ATOM128, 0, OUT(u64), ADR, IN(u64), IN(u64), OUT(u64)),
    ROWE(mbar_init, "mbar.init", NO, ADR, IN(u32)),
    ROWE(mbar_arrive, "mbar.arrive", OUT(u64), ADR, IN(u32)),
    ROWE(mbar_drop, "mbar.drop", OUT(u64), ADR, IN(u32)),
    ROWE(mbar_expect, "mbar.expect", NO, ADR, IN(u32)),
    ROWE(mbar_complete, "mbar.complete", NO, ADR, IN(u32)),
    ROWE(mbar_test, "mbar.test", OUT_P, ADR, IN(u64)),
    ROWE(mbar_parity, "mbar.parity", OUT_P, ADR, IN(u32)),
    ROWE(mbar_pending, "mbar.pending", OUT(u32), IN(u64)),
    {0},
};

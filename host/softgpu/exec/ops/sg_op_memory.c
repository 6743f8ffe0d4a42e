/* SPDX-License-Identifier: MIT */
/*
 * Handlers: the fast path of loads and stores. All lanes are checked together against the
 * allocation last used by this instruction; all other cases go to sg_ld_slow / sg_st_slow, which
 * check lane by lane and report the fault.
 */
#include "exec/ops/address.h"

#define LD_G(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u64 ad[SG_LANES]; \
        const u32 m = w->mask; \
        TD *d = DST(TD, d); \
        if (in->aux & SG_AUX_SPIN) \
            w->spin = true; \
        if (LIKELY(m == SG_FULL)) { \
            const u64 *pa = SRC(u64, a), first = pa[0] + (u64)in->imm; \
            const enum shape sh = shape64(pa, sizeof(T)); \
            if (sh == CONSECUTIVE && range_has(w, in, first, sizeof(T) * SG_LANES, sizeof(T), false)) { \
                const T *src = (const T *)(uintptr_t)first; \
                if (sizeof(T) == sizeof(TD)) \
                    memcpy(d, src, sizeof(T) * SG_LANES); \
                else \
                    LANES d[i] = (TD)src[i]; \
                return SG_NEXT; \
            } \
            if (sh == UNIFORM && range_has(w, in, first, sizeof(T), sizeof(T), false)) { \
                const T v = AT(T, first); \
                LANES d[i] = (TD)v; \
                return SG_NEXT; \
            } \
        } \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!global_again(w, in, ad, sizeof(T), false))) \
                return sg_ld_slow(w, in); \
        } else if (global_addresses(w, in, ad), UNLIKELY(!global_ok(w, in, ad, sizeof(T), false))) \
            return sg_ld_slow(w, in); \
        if (LIKELY(m == SG_FULL)) { \
            if (sizeof(T) == 4) \
                gather_g32(ad, (u32 *)(void *)d); \
            else \
                for (int i = 0; i < SG_LANES; i++) \
                    d[i] = (TD)AT(T, ad[i]); \
        } else { \
            EACH(m) d[i] = (TD)AT(T, ad[i]); \
        } \
        return SG_NEXT; \
    }

#define ST_G(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u64 ad[SG_LANES]; \
        const u32 m = w->mask; \
        const TD *s = SRC(TD, d); \
        if (LIKELY(m == SG_FULL)) { \
            const u64 *pa = SRC(u64, a), first = pa[0] + (u64)in->imm; \
            if (shape64(pa, sizeof(T)) == CONSECUTIVE && \
                range_has(w, in, first, sizeof(T) * SG_LANES, sizeof(T), true)) { \
                T *to = (T *)(uintptr_t)first; \
                if (sizeof(T) == sizeof(TD)) \
                    memcpy(to, s, sizeof(T) * SG_LANES); \
                else \
                    LANES to[i] = (T)s[i]; \
                return SG_NEXT; \
            } \
        } \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!global_again(w, in, ad, sizeof(T), true))) \
                return sg_st_slow(w, in); \
        } else if (global_addresses(w, in, ad), UNLIKELY(!global_ok(w, in, ad, sizeof(T), true))) \
            return sg_st_slow(w, in); \
        if (LIKELY(m == SG_FULL)) { \
            for (int i = 0; i < SG_LANES; i++) \
                PUT(T, ad[i]) = (T)s[i]; \
        } else { \
            EACH(m) PUT(T, ad[i]) = (T)s[i]; \
        } \
        return SG_NEXT; \
    }

/* Vectors: N elements of T, each to its own register. */
#define LD_GV(id, name, native, T, N) \
    HANDLER(id) \
    { \
        u64 ad[SG_LANES]; \
        const u32 m = w->mask; \
        T *const d[4] = {DST(T, d), DST(T, b), DST(T, c), DST(T, e)}; \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!global_again(w, in, ad, sizeof(T) * N, false))) \
                return sg_ld_slow(w, in); \
        } else if (global_addresses(w, in, ad), UNLIKELY(!global_ok(w, in, ad, sizeof(T) * N, false))) \
            return sg_ld_slow(w, in); \
        if (in->aux & SG_AUX_SPIN) \
            w->spin = true; \
        EACH(m) \
        { \
            T v[N]; \
            sg_read_whole(v, (const void *)(uintptr_t)ad[i], sizeof(v)); \
            for (int k = 0; k < N; k++) \
                d[k][i] = v[k]; \
        } \
        return SG_NEXT; \
    }

#define ST_GV(id, name, native, T, N) \
    HANDLER(id) \
    { \
        u64 ad[SG_LANES]; \
        const u32 m = w->mask; \
        const T *const s[4] = {SRC(T, d), SRC(T, b), N > 2 ? SRC(T, c) : NULL, N > 2 ? SRC(T, e) : NULL}; \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!global_again(w, in, ad, sizeof(T) * N, true))) \
                return sg_st_slow(w, in); \
        } else if (global_addresses(w, in, ad), UNLIKELY(!global_ok(w, in, ad, sizeof(T) * N, true))) \
            return sg_st_slow(w, in); \
        EACH(m) \
        { \
            T v[N]; \
            for (int k = 0; k < N; k++) \
                v[k] = s[k][i]; \
            sg_write_whole((void *)(uintptr_t)ad[i], v, sizeof(v)); \
        } \
        return SG_NEXT; \
    }

/* ---- shared memory ---- */

#define LD_S(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        const u32 m = w->mask, bytes = w->cta->shared_bytes; \
        const u8 *sh = w->cta->shared; \
        TD *d = DST(TD, d); \
        if (in->aux & SG_AUX_SPIN) \
            w->spin = true; \
        if (LIKELY(m == SG_FULL)) { \
            const u32 *pa = SRC(u32, a), first = pa[0] + (u32)in->imm; \
            const enum shape shp = shape32(pa, sizeof(T)); \
            const T *src = (const T *)(const void *)(sh + first); \
            if (shp == CONSECUTIVE && small_has(first, sizeof(T) * SG_LANES, sizeof(T), bytes)) { \
                if (sizeof(T) == sizeof(TD)) \
                    memcpy(d, src, sizeof(T) * SG_LANES); \
                else \
                    LANES d[i] = (TD)src[i]; \
                return SG_NEXT; \
            } \
            if (shp == UNIFORM && small_has(first, sizeof(T), sizeof(T), bytes)) { \
                const T v = *src; \
                LANES d[i] = (TD)v; \
                return SG_NEXT; \
            } \
        } \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!small_full(w, in, ad, bytes, sizeof(T)))) \
                return sg_ld_slow(w, in); \
        } else if (small_addresses(w, in, ad), UNLIKELY(!small_ok(ad, bytes, sizeof(T)))) \
            return sg_ld_slow(w, in); \
        if (LIKELY(m == SG_FULL)) { \
            if (sizeof(T) == 4) \
                gather_s32(sh, ad, (u32 *)(void *)d); \
            else \
                for (int i = 0; i < SG_LANES; i++) \
                    d[i] = (TD) * (const T *)(const void *)(sh + ad[i]); \
        } else { \
            EACH(m) d[i] = (TD) * (const T *)(const void *)(sh + ad[i]); \
        } \
        return SG_NEXT; \
    }

#define ST_S(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        const u32 m = w->mask, bytes = w->cta->shared_bytes; \
        u8 *sh = w->cta->shared; \
        const TD *s = SRC(TD, d); \
        if (LIKELY(m == SG_FULL)) { \
            const u32 *pa = SRC(u32, a), first = pa[0] + (u32)in->imm; \
            if (shape32(pa, sizeof(T)) == CONSECUTIVE && \
                small_has(first, sizeof(T) * SG_LANES, sizeof(T), bytes)) { \
                T *to = (T *)(void *)(sh + first); \
                if (sizeof(T) == sizeof(TD)) \
                    memcpy(to, s, sizeof(T) * SG_LANES); \
                else \
                    LANES to[i] = (T)s[i]; \
                return SG_NEXT; \
            } \
        } \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!small_full(w, in, ad, bytes, sizeof(T)))) \
                return sg_st_slow(w, in); \
        } else if (small_addresses(w, in, ad), UNLIKELY(!small_ok(ad, bytes, sizeof(T)))) \
            return sg_st_slow(w, in); \
        if (LIKELY(m == SG_FULL)) { \
            for (int i = 0; i < SG_LANES; i++) \
                *(T *)(void *)(sh + ad[i]) = (T)s[i]; \
        } else { \
            EACH(m) * (T *)(void *)(sh + ad[i]) = (T)s[i]; \
        } \
        return SG_NEXT; \
    }

#define LD_SV(id, name, native, T, N) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        const u32 m = w->mask; \
        const u8 *sh = w->cta->shared; \
        T *const d[4] = {DST(T, d), DST(T, b), DST(T, c), DST(T, e)}; \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!small_full(w, in, ad, w->cta->shared_bytes, sizeof(T) * N))) \
                return sg_ld_slow(w, in); \
        } else if (small_addresses(w, in, ad), UNLIKELY(!small_ok(ad, w->cta->shared_bytes, sizeof(T) * N))) \
            return sg_ld_slow(w, in); \
        EACH(m) for (int k = 0; k < N; k++) d[k][i] = ((const T *)(const void *)(sh + ad[i]))[k]; \
        return SG_NEXT; \
    }

#define ST_SV(id, name, native, T, N) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        const u32 m = w->mask; \
        u8 *sh = w->cta->shared; \
        const T *const s[4] = {SRC(T, d), SRC(T, b), N > 2 ? SRC(T, c) : NULL, N > 2 ? SRC(T, e) : NULL}; \
        if (LIKELY(m == SG_FULL)) { \
            if (UNLIKELY(!small_full(w, in, ad, w->cta->shared_bytes, sizeof(T) * N))) \
                return sg_st_slow(w, in); \
        } else if (small_addresses(w, in, ad), UNLIKELY(!small_ok(ad, w->cta->shared_bytes, sizeof(T) * N))) \
            return sg_st_slow(w, in); \
        EACH(m) for (int k = 0; k < N; k++)((T *)(void *)(sh + ad[i]))[k] = s[k][i]; \
        return SG_NEXT; \
    }

/* ---- local memory: words interleaved by lane, so equal offsets are consecutive ---- */

static inline bool local_ok(const struct sg_warp *w, const u32 *ad, u32 size, bool *same)
{
    const u32 bytes = w->cta->local_bytes, last = bytes - size, first = ad[0];
    u32 bad = 0, low = 0, diff = 0;

    if (UNLIKELY(bytes < size))
        return false;
    LANES
    {
        bad |= sg_lane_bad32(ad[i], last);
        low |= ad[i];
        diff |= ad[i] ^ first;
    }
    *same = !diff;
    return LIKELY(!(bad >> 31) && !(low & (size - 1)));
}

#define WORD(i, off) ((u32 *)(void *)(w->local + (u64)((off) >> 2) * (4 * SG_LANES) + (u32)(i)*4))

#define LD_L(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        bool same; \
        const u32 m = small_addresses(w, in, ad); \
        TD *d = DST(TD, d); \
        if (UNLIKELY(!local_ok(w, ad, sizeof(T), &same))) \
            return sg_ld_slow(w, in); \
        if (sizeof(T) == 4 && same && LIKELY(m == SG_FULL)) { \
            memcpy(d, WORD(0, ad[0]), 4 * SG_LANES); \
        } else if (sizeof(T) == 8) { \
            EACH(m) d[i] = (TD)(*WORD(i, ad[i]) | (u64)*WORD(i, ad[i] + 4) << 32); \
        } else { \
            EACH(m) d[i] = (TD) * (const T *)(const void *)sg_local_word(w, i, ad[i]); \
        } \
        return SG_NEXT; \
    }

#define ST_L(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        u32 ad[SG_LANES]; \
        bool same; \
        const u32 m = small_addresses(w, in, ad); \
        const TD *s = SRC(TD, d); \
        if (UNLIKELY(!local_ok(w, ad, sizeof(T), &same))) \
            return sg_st_slow(w, in); \
        if (sizeof(T) == 4 && same && LIKELY(m == SG_FULL)) { \
            memcpy(WORD(0, ad[0]), s, 4 * SG_LANES); \
        } else if (sizeof(T) == 8) { \
            EACH(m) \
            { \
                *WORD(i, ad[i]) = (u32)s[i]; \
                *WORD(i, ad[i] + 4) = (u32)((u64)s[i] >> 32); \
            } \
        } else { \
            EACH(m) * (T *)(void *)sg_local_word(w, i, ad[i]) = (T)s[i]; \
        } \
        return SG_NEXT; \
    }

/* ---- kernel parameters at a constant offset, checked by the decoder ---- */

#define LD_P(id, name, native, TD, T) \
    HANDLER(id) \
    { \
        T v; \
        memcpy(&v, w->cta->params + in->imm, sizeof(v)); \
        STORE(TD, v); \
        return SG_NEXT; \
    }

HANDLER(ld_slow)
{
    return sg_ld_slow(w, in);
}

HANDLER(st_slow)
{
    return sg_st_slow(w, in);
}

/* Faults where a vector, accessed in two halves, is not aligned to its whole size. imm, aux: of the first half. */
HANDLER(whole_aligned)
{
    const u32 whole = 2 * SG_AUX_ELEM(in->aux) * SG_AUX_VEC(in->aux);

    EACH(w->mask)
    {
        const u64 addr =
            in->aux & SG_AUX_ADDR32 ? (u32)(SRC(u32, a)[i] + (u32)in->imm) : SRC(u64, a)[i] + (u64)in->imm;
        u32 local;

        if (addr & (whole - 1)) {
            sg_resolve(w, in, i, (enum sg_space)SG_AUX_SPACE(in->aux), addr, whole, whole,
                       (in->aux & SG_AUX_WRITE) != 0, &local);
            return SG_FAULTED;
        }
    }
    return SG_NEXT;
}

/* True if all lanes copy 16 bytes from the cached allocation; the copy is done then. */
static bool cp_async_whole(const struct sg_warp *w, const struct sg_insn *in)
{
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];
    const u32 *pd = SRC(u32, d), *pn = SRC(u32, b), bytes = w->cta->shared_bytes;
    const u64 *pa = SRC(u64, a), base = r->base, off = (u64)in->imm, room = r->end - r->base;
    u8 *const shared = w->cta->shared;
    u64 bad = 0, odd = 0;
    u32 bad_to = 0, least = 16;

    if (w->mask != SG_FULL || in->aux != 16 || bytes < 16 || room < 16 || r->generation != SG_GENERATION())
        return false;
    LANES
    {
        bad |= sg_lane_bad64(pa[i] + off, base, base + (room - 16));
        odd |= pa[i];
    }
    LANES
    {
        bad_to |= sg_lane_bad32(pd[i], bytes - 16) >> 31 | (pd[i] & 15);
        least = pn[i] < least ? pn[i] : least;
    }
    if (bad >> 63 || ((odd | (u64)in->imm) & 3) || bad_to || least < 16)
        return false;
    LANES memcpy(shared + pd[i], (const void *)(uintptr_t)(pa[i] + (u64)in->imm), 16);
    return true;
}

/* cp.async shared [d], global [a], size aux, source bytes b: the rest is zero */
HANDLER(cp_async)
{
    const u32 *pd = SRC(u32, d), *pn = SRC(u32, b), size = in->aux;
    struct sg_cta *c = w->cta;
    u8 *const shared = c->shared;

    if (LIKELY(cp_async_whole(w, in)))
        return SG_NEXT;
    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m), n = pn[i] < size ? pn[i] : size;
        const struct sg_mem_range *r = &c->cache[in->idx & (SG_RANGE_CACHE - 1)];
        const u64 from = SRC(u64, a)[i] + (u64)in->imm;
        const void *src = (const void *)(uintptr_t)from;
        u8 *to = shared + pd[i];
        u32 local;

        if (UNLIKELY(!small_has(pd[i], size, size, c->shared_bytes))) {
            to = sg_resolve(w, in, i, SG_SP_SHARED, pd[i], size, size, true, &local);
            if (!to)
                return SG_FAULTED;
        }
        if (UNLIKELY(n && (r->generation != SG_GENERATION() || (from & 3) ||
                           !sg_span_has(r->base, r->end - r->base, from, n)))) {
            src = sg_resolve(w, in, i, SG_SP_GLOBAL, from, n, 4, false, &local);
            if (!src)
                return SG_FAULTED;
        }
        if (LIKELY(n == 16 && size == 16)) {
            memcpy(to, src, 16);
        } else {
            if (n)
                memcpy(to, src, n);
            memset(to + n, 0, size - n);
        }
    }
    return SG_NEXT;
}

#include "exec/ops/memory.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(mem)[] = {
#include "exec/ops/memory.def"
    {0},
};

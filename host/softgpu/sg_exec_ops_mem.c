/* SPDX-License-Identifier: MIT */
/*
 * Handlers: loads and stores, the fast way. All lanes are checked at once against the allocation
 * that this instruction touched last; whatever does not fit goes to sg_ld_slow / sg_st_slow, which
 * check lane by lane and find the fault.
 */
#include "sg_exec_op.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* How the addresses of 32 running lanes lie. */
enum shape { SCATTERED, CONSECUTIVE, UNIFORM };

static inline enum shape shape64(const u64 *pa, u32 size)
{
#ifdef __AVX2__
    const __m256i first = _mm256_set1_epi64x((long long)pa[0]);
    const __m256i step = _mm256_set1_epi64x((long long)(4 * size));
    __m256i expect = _mm256_add_epi64(first, _mm256_set_epi64x((long long)(3 * size),
                                                               (long long)(2 * size),
                                                               (long long)size, 0));
    __m256i cons = _mm256_setzero_si256(), same = cons;

    for (int k = 0; k < SG_LANES; k += 4) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(pa + k));

        cons = _mm256_or_si256(cons, _mm256_xor_si256(v, expect));
        same = _mm256_or_si256(same, _mm256_xor_si256(v, first));
        expect = _mm256_add_epi64(expect, step);
    }
    return _mm256_testz_si256(cons, cons) ? CONSECUTIVE
           : _mm256_testz_si256(same, same) ? UNIFORM : SCATTERED;
#else
    const u64 first = pa[0];
    u64 cons = 0, same = 0;

    LANES {
        cons |= pa[i] ^ (first + (u64)i * size);
        same |= pa[i] ^ first;
    }
    return !cons ? CONSECUTIVE : !same ? UNIFORM : SCATTERED;
#endif
}

static inline enum shape shape32(const u32 *pa, u32 size)
{
#ifdef __AVX2__
    const __m256i first = _mm256_set1_epi32((int)pa[0]);
    const __m256i step = _mm256_set1_epi32((int)(8 * size));
    const __m256i iota = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
    __m256i expect = _mm256_add_epi32(first, _mm256_mullo_epi32(iota, _mm256_set1_epi32((int)size)));
    __m256i cons = _mm256_setzero_si256(), same = cons;

    for (int k = 0; k < SG_LANES; k += 8) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(pa + k));

        cons = _mm256_or_si256(cons, _mm256_xor_si256(v, expect));
        same = _mm256_or_si256(same, _mm256_xor_si256(v, first));
        expect = _mm256_add_epi32(expect, step);
    }
    return _mm256_testz_si256(cons, cons) ? CONSECUTIVE
           : _mm256_testz_si256(same, same) ? UNIFORM : SCATTERED;
#else
    const u32 first = pa[0];
    u32 cons = 0, same = 0;

    LANES {
        cons |= pa[i] ^ (first + (u32)i * size);
        same |= pa[i] ^ first;
    }
    return !cons ? CONSECUTIVE : !same ? UNIFORM : SCATTERED;
#endif
}

/* Is [ad, ad + size) inside the cached allocation, and aligned to al? */
static inline bool range_has(const struct sg_warp *w, const struct sg_insn *in, u64 ad, u32 size,
                             u32 al, bool write)
{
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];

    return LIKELY(r->generation == SG_GENERATION() && (!write || r->writable) && ad >= r->base &&
                  ad <= r->end && size <= r->end - ad && !(ad & (al - 1)));
}

/* Addresses of all lanes; lanes that do not run get the address of one that does. */
static inline u32 global_addresses(const struct sg_warp *w, const struct sg_insn *in, u64 *ad)
{
    const u64 *pa = SRC(u64, a);
    const u64 off = (u64)in->imm;
    const u32 m = w->mask;

    if (LIKELY(m == SG_FULL)) {
        LANES ad[i] = pa[i] + off;
    } else {
        const u64 first = pa[__builtin_ctz(m)] + off;

        LANES ad[i] = (m & sg_bit64[i]) ? pa[i] + off : first;
    }
    return m;
}

/* All lanes inside the cached range and aligned? */
static inline bool global_ok(const struct sg_warp *w, const struct sg_insn *in, const u64 *ad,
                             u32 size, bool write)
{
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];
    const u64 base = r->base, last = r->end - size;
    u64 bad = 0, low = 0;

    if (UNLIKELY(r->generation != SG_GENERATION() || (write && !r->writable) ||
                 r->end - r->base < size))
        return false;
    LANES {
        bad |= (ad[i] - base) | (last - ad[i]);
        low |= ad[i];
    }
    return LIKELY(!(bad >> 63) && !(low & (size - 1)));
}

#define AT(T, x) (*(const volatile T *)(uintptr_t)(x))
#define PUT(T, x) (*(volatile T *)(uintptr_t)(x))
#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/*
 * 32 checked addresses that are neither all consecutive nor all equal: by groups of 8, which often
 * are (rows of 16 threads, for example).
 */
static inline void gather_g32(const u64 *ad, u32 *d)
{
#ifdef __AVX2__
    const __m256i low = _mm256_set_epi64x(12, 8, 4, 0), high = _mm256_set_epi64x(28, 24, 20, 16);

    for (int k = 0; k < SG_LANES; k += 8) {
        const __m256i f = _mm256_set1_epi64x((long long)ad[k]);
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(ad + k));
        const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(ad + k + 4));
        const __m256i xa = _mm256_xor_si256(a, f), xb = _mm256_xor_si256(b, f);
        const __m256i same = _mm256_or_si256(xa, xb);
        const __m256i cons = _mm256_or_si256(_mm256_xor_si256(a, _mm256_add_epi64(f, low)),
                                             _mm256_xor_si256(b, _mm256_add_epi64(f, high)));
        const u32 *p = (const u32 *)(uintptr_t)ad[k];

        if (_mm256_testz_si256(cons, cons)) {
            memcpy(d + k, p, 32);
        } else if (_mm256_testz_si256(same, same)) {
            _mm256_storeu_si256((__m256i *)(void *)(d + k), _mm256_set1_epi32((int)*p));
        } else {
            for (int i = k; i < k + 8; i++)
                d[i] = AT(u32, ad[i]);
        }
    }
#else
    for (int i = 0; i < SG_LANES; i++)
        d[i] = AT(u32, ad[i]);
#endif
}

static inline void gather_s32(const u8 *sh, const u32 *ad, u32 *d)
{
#ifdef __AVX2__
    const __m256i step = _mm256_set_epi32(28, 24, 20, 16, 12, 8, 4, 0);

    for (int k = 0; k < SG_LANES; k += 8) {
        const __m256i f = _mm256_set1_epi32((int)ad[k]);
        const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(ad + k));
        const __m256i same = _mm256_xor_si256(a, f);
        const __m256i cons = _mm256_xor_si256(a, _mm256_add_epi32(f, step));

        if (_mm256_testz_si256(cons, cons))
            memcpy(d + k, sh + ad[k], 32);
        else if (_mm256_testz_si256(same, same))
            _mm256_storeu_si256((__m256i *)(void *)(d + k),
                                _mm256_set1_epi32(*(const s32 *)(const void *)(sh + ad[k])));
        else
            _mm256_storeu_si256((__m256i *)(void *)(d + k),
                                _mm256_i32gather_epi32((const int *)(const void *)sh, a, 1));
    }
#else
    for (int i = 0; i < SG_LANES; i++)
        d[i] = *(const u32 *)(const void *)(sh + ad[i]);
#endif
}

static inline bool global_full(const struct sg_warp *w, const struct sg_insn *in, u64 *ad, u32 size,
                               bool write);

#define LD_G(id, name, TD, T)                                                \
    HANDLER(ld_g_##id)                                                       \
    {                                                                        \
        u64 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                               \
        TD *d = DST(TD, d);                                                  \
        if (in->aux & SG_AUX_SPIN)                                           \
            w->spin = true;                                                  \
        if (LIKELY(m == SG_FULL)) {                                          \
            const u64 *pa = SRC(u64, a), first = pa[0] + (u64)in->imm;       \
            const enum shape sh = shape64(pa, sizeof(T));                    \
            if (sh == CONSECUTIVE &&                                         \
                range_has(w, in, first, sizeof(T) * SG_LANES, sizeof(T), false)) { \
                const T *src = (const T *)(uintptr_t)first;                  \
                if (sizeof(T) == sizeof(TD))                                 \
                    memcpy(d, src, sizeof(T) * SG_LANES);                    \
                else                                                         \
                    LANES d[i] = (TD)src[i];                                 \
                return SG_NEXT;                                              \
            }                                                                \
            if (sh == UNIFORM && range_has(w, in, first, sizeof(T), sizeof(T), false)) { \
                const T v = AT(T, first);                                    \
                LANES d[i] = (TD)v;                                          \
                return SG_NEXT;                                              \
            }                                                                \
        }                                                                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!global_full(w, in, ad, sizeof(T), false)))         \
                return sg_ld_slow(w, in);                                    \
        } else if (global_addresses(w, in, ad),                              \
                   UNLIKELY(!global_ok(w, in, ad, sizeof(T), false)))        \
            return sg_ld_slow(w, in);                                        \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (sizeof(T) == 4)                                              \
                gather_g32(ad, (u32 *)(void *)d);                            \
            else                                                             \
                for (int i = 0; i < SG_LANES; i++)                           \
                    d[i] = (TD)AT(T, ad[i]);                                 \
        } else {                                                             \
            EACH(m) d[i] = (TD)AT(T, ad[i]);                                 \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

#define ST_G(id, name, TD, T)                                                \
    HANDLER(st_g_##id)                                                       \
    {                                                                        \
        u64 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                               \
        const TD *s = SRC(TD, d);                                            \
        if (LIKELY(m == SG_FULL)) {                                          \
            const u64 *pa = SRC(u64, a), first = pa[0] + (u64)in->imm;       \
            if (shape64(pa, sizeof(T)) == CONSECUTIVE &&                     \
                range_has(w, in, first, sizeof(T) * SG_LANES, sizeof(T), true)) { \
                T *to = (T *)(uintptr_t)first;                               \
                if (sizeof(T) == sizeof(TD))                                 \
                    memcpy(to, s, sizeof(T) * SG_LANES);                     \
                else                                                         \
                    LANES to[i] = (T)s[i];                                   \
                return SG_NEXT;                                              \
            }                                                                \
        }                                                                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!global_full(w, in, ad, sizeof(T), true)))          \
                return sg_st_slow(w, in);                                    \
        } else if (global_addresses(w, in, ad),                              \
                   UNLIKELY(!global_ok(w, in, ad, sizeof(T), true)))         \
            return sg_st_slow(w, in);                                        \
        if (LIKELY(m == SG_FULL)) {                                          \
            for (int i = 0; i < SG_LANES; i++)                               \
                PUT(T, ad[i]) = (T)s[i];                                     \
        } else {                                                             \
            EACH(m) PUT(T, ad[i]) = (T)s[i];                                 \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

/* Vectors: N elements of T, each to its own register. */
#define LD_GV(id, name, T, N)                                                \
    HANDLER(ld_g_##id)                                                       \
    {                                                                        \
        u64 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                              \
        T *const d[4] = {DST(T, d), DST(T, b), DST(T, c), DST(T, e)};        \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!global_full(w, in, ad, sizeof(T) * N, false)))     \
                return sg_ld_slow(w, in);                                    \
        } else if (global_addresses(w, in, ad),                              \
                   UNLIKELY(!global_ok(w, in, ad, sizeof(T) * N, false)))    \
            return sg_ld_slow(w, in);                                        \
        if (in->aux & SG_AUX_SPIN)                                           \
            w->spin = true;                                                  \
        EACH(m) for (int k = 0; k < N; k++)                                  \
            d[k][i] = AT(T, ad[i] + (u64)k * sizeof(T));                     \
        return SG_NEXT;                                                      \
    }

#define ST_GV(id, name, T, N)                                                \
    HANDLER(st_g_##id)                                                       \
    {                                                                        \
        u64 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                              \
        const T *const s[4] = {SRC(T, d), SRC(T, b), N > 2 ? SRC(T, c) : NULL, \
                               N > 2 ? SRC(T, e) : NULL};                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!global_full(w, in, ad, sizeof(T) * N, true)))      \
                return sg_st_slow(w, in);                                    \
        } else if (global_addresses(w, in, ad),                              \
                   UNLIKELY(!global_ok(w, in, ad, sizeof(T) * N, true)))     \
            return sg_st_slow(w, in);                                        \
        EACH(m) for (int k = 0; k < N; k++)                                  \
            PUT(T, ad[i] + (u64)k * sizeof(T)) = s[k][i];                    \
        return SG_NEXT;                                                      \
    }

#define LOADS(X)                                                             \
    X(u8, "u8", u32, u8)                                                     \
    X(s8, "s8", s32, s8)                                                     \
    X(u16, "u16", u32, u16)                                                  \
    X(s16, "s16", s32, s16)                                                  \
    X(b32, "b32", u32, u32)                                                  \
    X(b64, "b64", u64, u64)
#define STORES(X)                                                            \
    X(u8, "u8", u32, u8)                                                     \
    X(u16, "u16", u32, u16)                                                  \
    X(b32, "b32", u32, u32)                                                  \
    X(b64, "b64", u64, u64)
#define VECTORS(X)                                                           \
    X(v2_b32, "v2.b32", u32, 2)                                              \
    X(v4_b32, "v4.b32", u32, 4)                                              \
    X(v2_b64, "v2.b64", u64, 2)

LOADS(LD_G)
STORES(ST_G)
VECTORS(LD_GV)
VECTORS(ST_GV)

/* ---- shared memory: 32-bit offsets into the buffer of the CTA ---- */

static inline u32 small_addresses(const struct sg_warp *w, const struct sg_insn *in, u32 *ad)
{
    const u32 *pa = SRC(u32, a);
    const u32 off = (u32)in->imm, m = w->mask;

    if (LIKELY(m == SG_FULL)) {
        LANES ad[i] = pa[i] + off;
    } else {
        const u32 first = pa[__builtin_ctz(m)] + off;

        LANES ad[i] = (m & sg_bit32[i]) ? pa[i] + off : first;
    }
    return m;
}

static inline bool small_has(u32 ad, u32 size, u32 al, u32 bytes)
{
    return LIKELY(ad <= bytes && size <= bytes - ad && !(ad & (al - 1)));
}

static inline bool small_ok(const u32 *ad, u32 bytes, u32 size)
{
    const u32 last = bytes - size;
    u32 bad = 0, low = 0;

    if (UNLIKELY(bytes < size))
        return false;
    LANES {
        bad |= ad[i] | (last - ad[i]);
        low |= ad[i];
    }
    return LIKELY(!(bad >> 31) && !(low & (size - 1)));
}

/* small_addresses and small_ok for a whole warp, in one pass */
static inline bool small_full(const struct sg_warp *w, const struct sg_insn *in, u32 *ad, u32 bytes,
                              u32 size)
{
#ifdef __AVX2__
    const u32 *pa = SRC(u32, a);
    const __m256i off = _mm256_set1_epi32((int)in->imm), last = _mm256_set1_epi32((int)(bytes - size));
    __m256i bad = _mm256_setzero_si256(), low = bad;

    if (UNLIKELY(bytes < size))
        return false;
    for (int k = 0; k < SG_LANES; k += 8) {
        const __m256i v = _mm256_add_epi32(
            _mm256_loadu_si256((const __m256i *)(const void *)(pa + k)), off);

        bad = _mm256_or_si256(bad, _mm256_or_si256(v, _mm256_sub_epi32(last, v)));
        low = _mm256_or_si256(low, v);
        _mm256_storeu_si256((__m256i *)(void *)(ad + k), v);
    }
    return LIKELY(!_mm256_movemask_ps(_mm256_castsi256_ps(bad)) &&
                  _mm256_testz_si256(low, _mm256_set1_epi32((int)(size - 1))));
#else
    small_addresses(w, in, ad);
    return small_ok(ad, bytes, size);
#endif
}

/* The same for global addresses, against the cached allocation. */
static inline bool global_full(const struct sg_warp *w, const struct sg_insn *in, u64 *ad, u32 size,
                               bool write)
{
#ifdef __AVX2__
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];
    const u64 *pa = SRC(u64, a);
    const __m256i off = _mm256_set1_epi64x(in->imm), base = _mm256_set1_epi64x((long long)r->base);
    const __m256i last = _mm256_set1_epi64x((long long)(r->end - size));
    __m256i bad = _mm256_setzero_si256(), low = bad;

    if (UNLIKELY(r->generation != SG_GENERATION() || (write && !r->writable) ||
                 r->end - r->base < size))
        return false;
    for (int k = 0; k < SG_LANES; k += 4) {
        const __m256i v = _mm256_add_epi64(
            _mm256_loadu_si256((const __m256i *)(const void *)(pa + k)), off);

        bad = _mm256_or_si256(bad, _mm256_or_si256(_mm256_sub_epi64(v, base),
                                                   _mm256_sub_epi64(last, v)));
        low = _mm256_or_si256(low, v);
        _mm256_storeu_si256((__m256i *)(void *)(ad + k), v);
    }
    return LIKELY(!_mm256_movemask_pd(_mm256_castsi256_pd(bad)) &&
                  _mm256_testz_si256(low, _mm256_set1_epi64x(size - 1)));
#else
    global_addresses(w, in, ad);
    return global_ok(w, in, ad, size, write);
#endif
}

#define LD_S(id, name, TD, T)                                                \
    HANDLER(ld_s_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        const u32 m = w->mask, bytes = w->cta->shared_bytes;                 \
        const u8 *sh = w->cta->shared;                                       \
        TD *d = DST(TD, d);                                                  \
        if (in->aux & SG_AUX_SPIN)                                           \
            w->spin = true;                                                  \
        if (LIKELY(m == SG_FULL)) {                                          \
            const u32 *pa = SRC(u32, a), first = pa[0] + (u32)in->imm;       \
            const enum shape shp = shape32(pa, sizeof(T));                   \
            const T *src = (const T *)(const void *)(sh + first);            \
            if (shp == CONSECUTIVE &&                                        \
                small_has(first, sizeof(T) * SG_LANES, sizeof(T), bytes)) {  \
                if (sizeof(T) == sizeof(TD))                                 \
                    memcpy(d, src, sizeof(T) * SG_LANES);                    \
                else                                                         \
                    LANES d[i] = (TD)src[i];                                 \
                return SG_NEXT;                                              \
            }                                                                \
            if (shp == UNIFORM && small_has(first, sizeof(T), sizeof(T), bytes)) { \
                const T v = *src;                                            \
                LANES d[i] = (TD)v;                                          \
                return SG_NEXT;                                              \
            }                                                                \
        }                                                                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!small_full(w, in, ad, bytes, sizeof(T))))          \
                return sg_ld_slow(w, in);                                    \
        } else if (small_addresses(w, in, ad),                               \
                   UNLIKELY(!small_ok(ad, bytes, sizeof(T))))                \
            return sg_ld_slow(w, in);                                        \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (sizeof(T) == 4)                                              \
                gather_s32(sh, ad, (u32 *)(void *)d);                        \
            else                                                             \
                for (int i = 0; i < SG_LANES; i++)                           \
                    d[i] = (TD)*(const T *)(const void *)(sh + ad[i]);       \
        } else {                                                             \
            EACH(m) d[i] = (TD)*(const T *)(const void *)(sh + ad[i]);       \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

#define ST_S(id, name, TD, T)                                                \
    HANDLER(st_s_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        const u32 m = w->mask, bytes = w->cta->shared_bytes;                 \
        u8 *sh = w->cta->shared;                                             \
        const TD *s = SRC(TD, d);                                            \
        if (LIKELY(m == SG_FULL)) {                                          \
            const u32 *pa = SRC(u32, a), first = pa[0] + (u32)in->imm;       \
            if (shape32(pa, sizeof(T)) == CONSECUTIVE &&                     \
                small_has(first, sizeof(T) * SG_LANES, sizeof(T), bytes)) {  \
                T *to = (T *)(void *)(sh + first);                           \
                if (sizeof(T) == sizeof(TD))                                 \
                    memcpy(to, s, sizeof(T) * SG_LANES);                     \
                else                                                         \
                    LANES to[i] = (T)s[i];                                   \
                return SG_NEXT;                                              \
            }                                                                \
        }                                                                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!small_full(w, in, ad, bytes, sizeof(T))))          \
                return sg_st_slow(w, in);                                    \
        } else if (small_addresses(w, in, ad),                               \
                   UNLIKELY(!small_ok(ad, bytes, sizeof(T))))                \
            return sg_st_slow(w, in);                                        \
        if (LIKELY(m == SG_FULL)) {                                          \
            for (int i = 0; i < SG_LANES; i++)                               \
                *(T *)(void *)(sh + ad[i]) = (T)s[i];                        \
        } else {                                                             \
            EACH(m) *(T *)(void *)(sh + ad[i]) = (T)s[i];                    \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

#define LD_SV(id, name, T, N)                                                \
    HANDLER(ld_s_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                              \
        const u8 *sh = w->cta->shared;                                       \
        T *const d[4] = {DST(T, d), DST(T, b), DST(T, c), DST(T, e)};        \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!small_full(w, in, ad, w->cta->shared_bytes, sizeof(T) * N)))\
                return sg_ld_slow(w, in);                                    \
        } else if (small_addresses(w, in, ad),                               \
                   UNLIKELY(!small_ok(ad, w->cta->shared_bytes, sizeof(T) * N)))\
            return sg_ld_slow(w, in);                                        \
        EACH(m) for (int k = 0; k < N; k++)                                  \
            d[k][i] = ((const T *)(const void *)(sh + ad[i]))[k];            \
        return SG_NEXT;                                                      \
    }

#define ST_SV(id, name, T, N)                                                \
    HANDLER(st_s_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        const u32 m = w->mask;                                              \
        u8 *sh = w->cta->shared;                                             \
        const T *const s[4] = {SRC(T, d), SRC(T, b), N > 2 ? SRC(T, c) : NULL, \
                               N > 2 ? SRC(T, e) : NULL};                    \
        if (LIKELY(m == SG_FULL)) {                                          \
            if (UNLIKELY(!small_full(w, in, ad, w->cta->shared_bytes, sizeof(T) * N)))\
                return sg_st_slow(w, in);                                    \
        } else if (small_addresses(w, in, ad),                               \
                   UNLIKELY(!small_ok(ad, w->cta->shared_bytes, sizeof(T) * N)))\
            return sg_st_slow(w, in);                                        \
        EACH(m) for (int k = 0; k < N; k++)                                  \
            ((T *)(void *)(sh + ad[i]))[k] = s[k][i];                        \
        return SG_NEXT;                                                      \
    }

LOADS(LD_S)
STORES(ST_S)
VECTORS(LD_SV)
VECTORS(ST_SV)

/* ---- local memory: words interleaved by lane, so equal offsets are consecutive ---- */

static inline bool local_ok(const struct sg_warp *w, const u32 *ad, u32 size, bool *same)
{
    const u32 bytes = w->cta->local_bytes, last = bytes - size, first = ad[0];
    u32 bad = 0, low = 0, diff = 0;

    if (UNLIKELY(bytes < size))
        return false;
    LANES {
        bad |= ad[i] | (last - ad[i]);
        low |= ad[i];
        diff |= ad[i] ^ first;
    }
    *same = !diff;
    return LIKELY(!(bad >> 31) && !(low & (size - 1)));
}

#define WORD(i, off) ((u32 *)(void *)(w->local + (u64)((off) >> 2) * (4 * SG_LANES) + (u32)(i) * 4))

#define LD_L(id, name, TD, T)                                                \
    HANDLER(ld_l_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        bool same;                                                           \
        const u32 m = small_addresses(w, in, ad);                            \
        TD *d = DST(TD, d);                                                  \
        if (UNLIKELY(!local_ok(w, ad, sizeof(T), &same)))                    \
            return sg_ld_slow(w, in);                                        \
        if (sizeof(T) == 4 && same && LIKELY(m == SG_FULL)) {                \
            memcpy(d, WORD(0, ad[0]), 4 * SG_LANES);                         \
        } else if (sizeof(T) == 8) {                                         \
            EACH(m) d[i] = (TD)(*WORD(i, ad[i]) | (u64)*WORD(i, ad[i] + 4) << 32); \
        } else {                                                             \
            EACH(m) d[i] = (TD)*(const T *)(const void *)sg_local_word(w, i, ad[i]); \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

#define ST_L(id, name, TD, T)                                                \
    HANDLER(st_l_##id)                                                       \
    {                                                                        \
        u32 ad[SG_LANES];                                                    \
        bool same;                                                           \
        const u32 m = small_addresses(w, in, ad);                            \
        const TD *s = SRC(TD, d);                                            \
        if (UNLIKELY(!local_ok(w, ad, sizeof(T), &same)))                    \
            return sg_st_slow(w, in);                                        \
        if (sizeof(T) == 4 && same && LIKELY(m == SG_FULL)) {                \
            memcpy(WORD(0, ad[0]), s, 4 * SG_LANES);                         \
        } else if (sizeof(T) == 8) {                                         \
            EACH(m) {                                                        \
                *WORD(i, ad[i]) = (u32)s[i];                                 \
                *WORD(i, ad[i] + 4) = (u32)((u64)s[i] >> 32);                \
            }                                                                \
        } else {                                                             \
            EACH(m) *(T *)(void *)sg_local_word(w, i, ad[i]) = (T)s[i];      \
        }                                                                    \
        return SG_NEXT;                                                      \
    }

LOADS(LD_L)
STORES(ST_L)

/* ---- kernel parameters at a constant offset, checked by the decoder ---- */

#define LD_P(id, name, TD, T)                                                \
    HANDLER(ld_p_##id)                                                       \
    {                                                                        \
        T v;                                                                 \
        memcpy(&v, w->cta->params + in->imm, sizeof(v));                     \
        STORE(TD, v);                                                        \
        return SG_NEXT;                                                      \
    }
LOADS(LD_P)

HANDLER(ld_p_slow)
{
    const u32 size = SG_AUX_ELEM(in->aux), n = SG_AUX_VEC(in->aux);
    const u32 dst[4] = {in->d, in->b, in->c, in->e};

    for (u32 k = 0; k < n && k < 4; k++) {
        u64 v = 0;

        memcpy(&v, w->cta->params + in->imm + k * size, size);
        EACH(w->mask) {
            if (size == 8)
                ((u64 *)(void *)(w->base[0] + dst[k]))[i] = v;
            else
                ((u32 *)(void *)(w->base[0] + dst[k]))[i] = (u32)v;
        }
    }
    return SG_NEXT;
}

HANDLER(ld_slow)
{
    return sg_ld_slow(w, in);
}

HANDLER(st_slow)
{
    return sg_st_slow(w, in);
}

#define ROW_LD(id, name, TD, T) {"ld.g." name, h_ld_g_##id}, {"ld.s." name, h_ld_s_##id},          \
                                {"ld.l." name, h_ld_l_##id}, {"ld.p." name, h_ld_p_##id},
#define ROW_ST(id, name, TD, T) {"st.g." name, h_st_g_##id}, {"st.s." name, h_st_s_##id},          \
                                {"st.l." name, h_st_l_##id},
#define ROW_V(id, name, T, N) {"ld.g." name, h_ld_g_##id}, {"ld.s." name, h_ld_s_##id},            \
                              {"ld.l." name, h_ld_slow}, {"st.g." name, h_st_g_##id},              \
                              {"st.s." name, h_st_s_##id}, {"st.l." name, h_st_slow},

const struct sg_opdef SG_TABLE(mem)[] = {
    LOADS(ROW_LD) STORES(ROW_ST) VECTORS(ROW_V)
    ROW(ld_slow, "ld.slow") ROW(st_slow, "st.slow") ROW(ld_p_slow, "ld.p.slow")
    {NULL, NULL},
};

/* SPDX-License-Identifier: MIT */
/*
 * Addresses of a warp: their pattern, whether all are inside the allocation last used by the
 * instruction (or inside shared memory), and gathers. For handler files.
 */
#ifndef SG_EXEC_ADDR_H
#define SG_EXEC_ADDR_H

#include "exec/ops/handler.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

/* The pattern of the addresses of 32 running lanes. */
enum shape { SCATTERED, CONSECUTIVE, UNIFORM };

static inline enum shape shape64(const u64 *pa, u32 size)
{
#ifdef __AVX2__
    const __m256i first = _mm256_set1_epi64x((long long)pa[0]);
    const __m256i step = _mm256_set1_epi64x((long long)(4 * size));
    __m256i expect = _mm256_add_epi64(
        first, _mm256_set_epi64x((long long)(3 * size), (long long)(2 * size), (long long)size, 0));
    __m256i cons = _mm256_setzero_si256(), same = cons;

    for (int k = 0; k < SG_LANES; k += 4) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(pa + k));

        cons = _mm256_or_si256(cons, _mm256_xor_si256(v, expect));
        same = _mm256_or_si256(same, _mm256_xor_si256(v, first));
        expect = _mm256_add_epi64(expect, step);
    }
    return _mm256_testz_si256(cons, cons)   ? CONSECUTIVE
           : _mm256_testz_si256(same, same) ? UNIFORM
                                            : SCATTERED;
#else
    const u64 first = pa[0];
    u64 cons = 0, same = 0;

    LANES
    {
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
    return _mm256_testz_si256(cons, cons)   ? CONSECUTIVE
           : _mm256_testz_si256(same, same) ? UNIFORM
                                            : SCATTERED;
#else
    const u32 first = pa[0];
    u32 cons = 0, same = 0;

    LANES
    {
        cons |= pa[i] ^ (first + (u32)i * size);
        same |= pa[i] ^ first;
    }
    return !cons ? CONSECUTIVE : !same ? UNIFORM : SCATTERED;
#endif
}

/* True if [ad, ad + size) is inside the cached allocation and aligned to al. */
static inline bool range_has(const struct sg_warp *w, const struct sg_insn *in, u64 ad, u32 size, u32 al,
                             bool write)
{
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];

    return LIKELY(r->generation == SG_GENERATION() && (!write || r->writable) &&
                  sg_span_has(r->base, r->end - r->base, ad, size) && !(ad & (al - 1)));
}

/* Addresses of all lanes; inactive lanes get the address of an active lane. */
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

/* True if all lanes are inside the cached range and aligned. */
static inline bool global_ok(const struct sg_warp *w, const struct sg_insn *in, const u64 *ad, u32 size,
                             bool write)
{
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];
    const u64 base = r->base, last = r->end - size;
    u64 bad = 0, low = 0;

    if (UNLIKELY(r->generation != SG_GENERATION() || (write && !r->writable) || r->end - r->base < size))
        return false;
    LANES
    {
        bad |= sg_lane_bad64(ad[i], base, last);
        low |= ad[i];
    }
    return LIKELY(!(bad >> 63) && !(low & (size - 1)));
}

#define AT(T, x) (*(const volatile T *)(uintptr_t)(x))
#define PUT(T, x) (*(volatile T *)(uintptr_t)(x))

/*
 * An access to 8 or 16 aligned bytes is one read or write, as on a GPU: CUB publishes a value and
 * its status that way. On x86 processors with AVX, 16 bytes are one access; in assembler, because
 * the compiler splits vector accesses, volatile or not.
 */
typedef u64 sg_two_words __attribute__((vector_size(16), may_alias));
#if defined(__AVX__)
#define SG_MOVE_16 "vmovdqa %1, %0"
#elif defined(__SSE2__)
#define SG_MOVE_16 "movdqa %1, %0"
#endif
static inline void sg_read_whole(void *to, const void *at, size_t size)
{
    if (size == 16) {
        sg_two_words v;

#ifdef SG_MOVE_16
        __asm__ volatile(SG_MOVE_16 : "=x"(v) : "m"(*(const sg_two_words *)at));
#else
        v = *(const volatile sg_two_words *)at;
#endif
        memcpy(to, &v, 16);
    } else {
        const u64 v = *(const volatile u64 *)at;

        memcpy(to, &v, 8);
    }
}

static inline void sg_write_whole(void *at, const void *from, size_t size)
{
    if (size == 16) {
        sg_two_words v;

        memcpy(&v, from, 16);
#ifdef SG_MOVE_16
        __asm__ volatile(SG_MOVE_16 : "=m"(*(sg_two_words *)at) : "x"(v));
#else
        *(volatile sg_two_words *)at = v;
#endif
    } else {
        u64 v;

        memcpy(&v, from, 8);
        *(volatile u64 *)at = v;
    }
}
#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/*
 * Gathers 32 checked addresses that are neither all consecutive nor all equal, in groups of 8,
 * which are often consecutive or equal (rows of 16 threads, for example).
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
    return LIKELY(sg_bytes_have(bytes, ad, size) && !(ad & (al - 1)));
}

static inline bool small_ok(const u32 *ad, u32 bytes, u32 size)
{
    const u32 last = bytes - size;
    u32 bad = 0, low = 0;

    if (UNLIKELY(bytes < size))
        return false;
    LANES
    {
        bad |= sg_lane_bad32(ad[i], last);
        low |= ad[i];
    }
    return LIKELY(!(bad >> 31) && !(low & (size - 1)));
}

/* small_addresses() and small_ok() for a full warp, in one pass. */
static inline bool small_full(const struct sg_warp *w, const struct sg_insn *in, u32 *ad, u32 bytes, u32 size)
{
#ifdef __AVX2__
    const u32 *pa = SRC(u32, a);
    const __m256i off = _mm256_set1_epi32((int)in->imm);
    const __m256i last = _mm256_set1_epi32((int)(bytes - size));
    __m256i bad = _mm256_setzero_si256(), low = bad;

    if (UNLIKELY(bytes < size))
        return false;
    for (int k = 0; k < SG_LANES; k += 8) {
        const __m256i v = _mm256_add_epi32(_mm256_loadu_si256((const __m256i *)(const void *)(pa + k)), off);

        bad = _mm256_or_si256(bad, _mm256_or_si256(v, _mm256_sub_epi32(last, v))); /* sg_lane_bad32() */
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

/* The same for global addresses, checked against the cached allocation. */
static inline bool global_full(const struct sg_warp *w, const struct sg_insn *in, u64 *ad, u32 size,
                               bool write)
{
#ifdef __AVX2__
    const struct sg_mem_range *r = &w->cta->cache[in->idx & (SG_RANGE_CACHE - 1)];
    const u64 *pa = SRC(u64, a);
    const __m256i off = _mm256_set1_epi64x(in->imm), base = _mm256_set1_epi64x((long long)r->base);
    const __m256i last = _mm256_set1_epi64x((long long)(r->end - size));
    __m256i bad = _mm256_setzero_si256(), low = bad;

    if (UNLIKELY(r->generation != SG_GENERATION() || (write && !r->writable) || r->end - r->base < size))
        return false;
    for (int k = 0; k < SG_LANES; k += 4) {
        const __m256i v = _mm256_add_epi64(_mm256_loadu_si256((const __m256i *)(const void *)(pa + k)), off);

        bad = _mm256_or_si256(bad, _mm256_or_si256(_mm256_sub_epi64(v, base), /* sg_lane_bad64() */
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

/* The same after a table look-up, if the cached allocation does not match. */
static inline bool global_again(struct sg_warp *w, const struct sg_insn *in, u64 *ad, u32 size, bool write)
{
    return LIKELY(global_full(w, in, ad, size, write)) ||
           (sg_range_refill(w, in, size, write) && global_full(w, in, ad, size, write));
}

#endif

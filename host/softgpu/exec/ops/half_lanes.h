/* SPDX-License-Identifier: MIT */
/* Conversions between f16, bf16 and f32 for 32 lanes at once; for handler files only. */
#ifndef SG_EXEC_HALF_H
#define SG_EXEC_HALF_H

#include "exec/ops/handler.h"
#include "base/half.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

static inline u32 b32(f32 x)
{
    u32 u;

    memcpy(&u, &x, 4);
    return u;
}

static inline f32 f32b(u32 u)
{
    f32 x;

    memcpy(&x, &u, 4);
    return x;
}

/* shift 0: low halves, 16: high halves */
static inline void widen_f16(const u32 *src, int shift, f32 *dst)
{
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    for (int k = 0; k < SG_LANES; k += 16) {
        __m512i v = _mm512_loadu_si512(src + k);

        if (shift)
            v = _mm512_srli_epi32(v, 16);
        _mm512_storeu_ps(dst + k, _mm512_cvtph_ps(_mm512_cvtepi32_epi16(v)));
    }
#elif defined(__F16C__) && defined(__AVX2__)
    for (int k = 0; k < SG_LANES; k += 8) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(src + k));
        __m128i h;

        v = shift ? _mm256_srli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
        h = _mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
        _mm256_storeu_ps(dst + k, _mm256_cvtph_ps(h));
    }
#else
    for (int i = 0; i < SG_LANES; i++)
        dst[i] = sg_f16_to_f32((u16)(src[i] >> shift));
#endif
}

static inline void narrow_f16(const f32 *src, u32 *dst)
{
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    /* Loads and stores whole registers: partial accesses would stall on store forwarding. */
    for (int k = 0; k < SG_LANES; k += 16) {
        const __m512 x = _mm512_loadu_ps(src + k);
        const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
        const __m512i h = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));

        /* the canonical NaN of PTX */
        _mm512_storeu_si512(dst + k, _mm512_mask_mov_epi32(h, nan, _mm512_set1_epi32(0x7fff)));
    }
#elif defined(__F16C__) && defined(__AVX2__)
    for (int k = 0; k < SG_LANES; k += 8) {
        __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(src + k), _MM_FROUND_TO_NEAREST_INT);

        _mm256_storeu_si256((__m256i *)(void *)(dst + k), _mm256_cvtepu16_epi32(h));
    }
    /* the canonical NaN of PTX */
    LANES dst[i] = (dst[i] & 0x7fffu) > 0x7c00u ? 0x7fffu : dst[i];
#else
    for (int i = 0; i < SG_LANES; i++)
        dst[i] = sg_f32_to_f16(src[i], 0);
#endif
}

static inline void widen_bf16(const u32 *src, int shift, f32 *dst)
{
    LANES dst[i] = f32b(shift ? src[i] & 0xffff0000u : src[i] << 16);
}

static inline void narrow_bf16(const f32 *src, u32 *dst)
{
    LANES
    {
        const u32 u = b32(src[i]), r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;

        dst[i] = (u & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : r;
    }
}

#endif

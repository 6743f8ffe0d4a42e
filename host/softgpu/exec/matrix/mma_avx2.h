/* SPDX-License-Identifier: MIT */
/*
 * mma with AVX2, for exec/ops/sg_op_mma.c; on processors with AVX-512, the products of bytes that VNNI
 * does not have. A vector holds 8 lanes, lane = 4 * group + t: two rows of a. Registers of b are spread once, so
 * that the columns of a step of k are a load; the four vectors of a row's lanes follow one after
 * the other. Additions follow the order of the plain code: ascending in k, in f32.
 */
#ifndef SG_EXEC_MMA256_H
#define SG_EXEC_MMA256_H

#include <immintrin.h>

#define MMA256 __attribute__((always_inline)) static inline

/* Columns of b for each t, the same in both halves: even columns, then odd ones. */
struct mma256_b {
    __m256i of[4][2];
};

MMA256 __m256i mma256_load(const u32 *p)
{
    return _mm256_loadu_si256((const void *)p);
}

/* Spreads 32 lanes of 32 bits, lane = 4 * column + t. */
MMA256 void mma256_spread(const __m256i v[4], struct mma256_b *x)
{
    /* lower halves: even columns, upper halves: odd ones; transposed */
    const __m256i a = _mm256_unpacklo_epi32(v[0], v[1]), b = _mm256_unpackhi_epi32(v[0], v[1]),
                  c = _mm256_unpacklo_epi32(v[2], v[3]), d = _mm256_unpackhi_epi32(v[2], v[3]);
    const __m256i t[4] = {_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c),
                          _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)};

#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        x->of[i][0] = _mm256_permute2x128_si256(t[i], t[i], 0x00);
        x->of[i][1] = _mm256_permute2x128_si256(t[i], t[i], 0x11);
    }
}

/* ---- halves, bf16, tf32 ---- */

/* Part p of 8 registers as f32. */
MMA256 __m256 mma256_part(__m256i v, u8 type, int p)
{
    switch (type) {
    case SG_MMA_F16:
        v = p ? _mm256_srli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
        return _mm256_cvtph_ps(_mm_packus_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
    case SG_MMA_BF16:
        return _mm256_castsi256_ps(p ? _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000))
                                     : _mm256_slli_epi32(v, 16));
    default: /* tf32 */
        return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffffe000)));
    }
}

#define MMA256_STEP(t) \
    do { \
        const __m256 b0 = _mm256_castsi256_ps(b->of[t][0]), b1 = _mm256_castsi256_ps(b->of[t][1]); \
        _Pragma("GCC unroll 2") for (int q = 0; q < 2; q++) \
        { \
            const __m256 u = _mm256_permute_ps(up[p][q], (t)*0x55); \
            const __m256 v = _mm256_permute_ps(down[p][q], (t)*0x55); \
            c[0][q] = _mm256_fmadd_ps(u, b0, c[0][q]); \
            c[1][q] = _mm256_fmadd_ps(u, b1, c[1][q]); \
            c[2][q] = _mm256_fmadd_ps(v, b0, c[2][q]); \
            c[3][q] = _mm256_fmadd_ps(v, b1, c[3][q]); \
        } \
    } while (0)

/* c += one register of b, spread by parts, times two of a, for 16 lanes. */
MMA256 void mma256_reg(const u32 *ra_up, const u32 *ra_down, const struct mma256_b *parts, u8 type,
                       __m256 c[4][2])
{
    const int n = type == SG_MMA_TF32 ? 1 : 2;
    __m256 up[2][2], down[2][2];

#pragma GCC unroll 2
    for (int p = 0; p < n; p++)
#pragma GCC unroll 2
        for (int q = 0; q < 2; q++) {
            up[p][q] = mma256_part(mma256_load(ra_up + 8 * q), type, p);
            down[p][q] = mma256_part(mma256_load(ra_down + 8 * q), type, p);
        }
#define MMA256_QUAD(t) \
    _Pragma("GCC unroll 2") for (int p = 0; p < n; p++) \
    { \
        const struct mma256_b *b = &parts[p]; \
        MMA256_STEP(t); \
    }
    MMA256_QUAD(0)
    MMA256_QUAD(1)
    MMA256_QUAD(2)
    MMA256_QUAD(3)
#undef MMA256_QUAD
}

/* Both parts of a register of b. */
MMA256 void mma256_b_of(const u32 *rb, u8 type, struct mma256_b parts[2])
{
#pragma GCC unroll 2
    for (int p = 0; p < (type == SG_MMA_TF32 ? 1 : 2); p++) {
        __m256i v[4];

#pragma GCC unroll 4
        for (int i = 0; i < 4; i++)
            v[i] = _mm256_castps_si256(mma256_part(mma256_load(rb + 8 * i), type, p));
        mma256_spread(v, &parts[p]);
    }
}

/* 8 lanes of f32 as halves in the low 16 bits, as narrow_f16() does it. */
MMA256 __m256i mma256_half(__m256 x)
{
    const __m256i h = _mm256_cvtepu16_epi32(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));

    return _mm256_blendv_epi8(h, _mm256_set1_epi32(0x7fff),
                              _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

/* The operands of one mma, 16 rows of a. d may be any of the others: lanes are read before they
   are written, b before all. */
struct mma_regs {
    const u32 *a[4], *b[2], *c[4];
    u32 *d[4];
};

/* A complete mma for all lanes. half: c and d are pairs of halves, in two registers; nb:
   registers of b. */
MMA256 void mma256_all(const struct mma_regs *x, u8 type, bool half, int nb)
{
    struct mma256_b b[2][2];

    for (int k = 0; k < nb; k++)
        mma256_b_of(x->b[k], type, b[k]);
    for (int i = 0; i < SG_LANES; i += 16) {
        __m256 c[4][2];

#pragma GCC unroll 4
        for (int r = 0; r < 4; r++)
            for (int q = 0; q < 2; q++)
                c[r][q] = half ? mma256_part(mma256_load(x->c[r / 2] + i + 8 * q), SG_MMA_F16, r & 1)
                               : _mm256_loadu_ps((const f32 *)(const void *)(x->c[r] + i + 8 * q));
        for (int k = 0; k < nb; k++)
            mma256_reg(x->a[2 * k] + i, x->a[2 * k + 1] + i, b[k], type, c);
#pragma GCC unroll 4
        for (int r = 0; r < (half ? 2 : 4); r++)
            for (int q = 0; q < 2; q++)
                _mm256_storeu_si256((void *)(x->d[r] + i + 8 * q),
                                    half
                                        ? _mm256_or_si256(mma256_half(c[2 * r][q]),
                                                          _mm256_slli_epi32(mma256_half(c[2 * r + 1][q]), 16))
                                        : _mm256_castps_si256(c[r][q]));
    }
}

/* True if the functions of this file support the form. */
static inline bool mma_float_form(const struct sg_mma_form *f)
{
    return f->m == 16 && f->a == f->b && (f->a == SG_MMA_F16 || f->a == SG_MMA_BF16 || f->a == SG_MMA_TF32);
}

/* ---- bytes: as words, whose products are summed by pairs without loss ---- */

/* Even (part 0) or odd bytes of each lane as words. */
MMA256 __m256i mma256_words(__m256i v, bool sign, int part)
{
    if (part)
        return sign ? _mm256_srai_epi16(v, 8) : _mm256_srli_epi16(v, 8);
    return sign ? _mm256_srai_epi16(_mm256_slli_epi16(v, 8), 8)
                : _mm256_and_si256(v, _mm256_set1_epi16(0xff));
}

#define MMA256_INT_STEP(t) \
    _Pragma("GCC unroll 2") for (int p = 0; p < 2; p++) \
    { \
        const __m256i b0 = words[k][p].of[t][0], b1 = words[k][p].of[t][1]; \
        _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++) \
        { \
            const __m256i u = _mm256_shuffle_epi32(va[r][p], (t)*0x55); \
            s[2 * r] = _mm256_add_epi32(s[2 * r], _mm256_madd_epi16(u, b0)); \
            s[2 * r + 1] = _mm256_add_epi32(s[2 * r + 1], _mm256_madd_epi16(u, b1)); \
        } \
    }

/* The registers of one mma of bytes; c[r] NULL: 0. d as in struct mma_regs. */
struct mma_bytes {
    const u32 *a[4], *b[4], *c[4];
    u32 *d[4];
};

/* rows: of 8; nb: registers of b. Sums wrap. */
MMA256 void mma256_bytes_of(const struct mma_bytes *x, int rows, int nb, bool signed_a, bool signed_b)
{
    struct mma256_b words[2][2];

    for (int k = 0; k < nb; k++)
#pragma GCC unroll 2
        for (int p = 0; p < 2; p++) {
            __m256i v[4];

#pragma GCC unroll 4
            for (int i = 0; i < 4; i++)
                v[i] = mma256_words(mma256_load(x->b[k] + 8 * i), signed_b, p);
            mma256_spread(v, &words[k][p]);
        }
    for (int i = 0; i < SG_LANES; i += 8) {
        __m256i s[4];

#pragma GCC unroll 4
        for (int r = 0; r < 2 * rows; r++)
            s[r] = x->c[r] ? mma256_load(x->c[r] + i) : _mm256_setzero_si256();
        for (int k = 0; k < nb; k++) {
            __m256i va[2][2];

#pragma GCC unroll 2
            for (int r = 0; r < rows; r++)
#pragma GCC unroll 2
                for (int p = 0; p < 2; p++)
                    va[r][p] = mma256_words(mma256_load(x->a[k * rows + r] + i), signed_a, p);
            MMA256_INT_STEP(0)
            MMA256_INT_STEP(1)
            MMA256_INT_STEP(2)
            MMA256_INT_STEP(3)
        }
#pragma GCC unroll 4
        for (int r = 0; r < 2 * rows; r++)
            _mm256_storeu_si256((void *)(x->d[r] + i), s[r]);
    }
}

static void mma256_bytes(const struct sg_mma_form *f, const struct mma_bytes *x)
{
    if (f->m == 16 && f->nb == 2 && f->a == SG_MMA_S8 && f->b == SG_MMA_S8)
        mma256_bytes_of(x, 2, 2, true, true); /* the main operation of quantised matrix products */
    else
        mma256_bytes_of(x, f->m / 8, f->nb, f->a == SG_MMA_S8, f->b == SG_MMA_S8);
}

#endif

/* SPDX-License-Identifier: MIT */
/*
 * mma with AVX-512, for exec/ops/sg_op_mma.c. A vector holds 16 lanes, lane = 4 * group + t. For each k,
 * a lane's row of a is in its own quad (a shuffle within 128 bits) and its columns of b are in
 * lanes 8 t + ... of all 32 (a permutation of two vectors), so nothing goes through memory.
 * Additions follow the order of the plain code: ascending in k, in f32; products of these types are
 * exact in f32.
 */
#ifndef SG_EXEC_MMA512_H
#define SG_EXEC_MMA512_H

#include <immintrin.h>

/* With a constant type all branches fold, and no vector goes through memory. */
#define MMA_INLINE __attribute__((always_inline)) static inline

struct mma_vec {
    __m512 lo, hi; /* lanes 0 to 15, 16 to 31 */
};

static inline __m512i mma_load(const u32 *p)
{
    return _mm512_loadu_si512((const void *)p);
}

/* Part p of 16 registers as f32. */
MMA_INLINE __m512 mma_part(__m512i v, u8 type, int p)
{
    switch (type) {
    case SG_MMA_F16:
        return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(p ? _mm512_srli_epi32(v, 16) : v));
    case SG_MMA_BF16:
        return _mm512_castsi512_ps(p ? _mm512_and_si512(v, _mm512_set1_epi32((int)0xffff0000))
                                     : _mm512_slli_epi32(v, 16));
    default: /* tf32 */
        return _mm512_castsi512_ps(_mm512_and_si512(v, _mm512_set1_epi32((int)0xffffe000)));
    }
}

/* Lanes 8 t + add of b's 32 lanes, for t = 0 to 3, repeated four times. */
static inline __m512i mma_columns(int add)
{
    return _mm512_add_epi32(_mm512_set4_epi32(24, 16, 8, 0), _mm512_set1_epi32(add));
}

#define MMA_STEP(t) \
    do { \
        const __m512 b0 = _mm512_permutex2var_ps(b.lo, mma_columns(t), b.hi); \
        const __m512 b1 = _mm512_permutex2var_ps(b.lo, mma_columns(4 + (t)), b.hi); \
        const __m512 u0 = _mm512_permute_ps(up.lo, (t)*0x55); \
        const __m512 u1 = _mm512_permute_ps(up.hi, (t)*0x55); \
        const __m512 d0 = _mm512_permute_ps(down.lo, (t)*0x55); \
        const __m512 d1 = _mm512_permute_ps(down.hi, (t)*0x55); \
        c[0].lo = _mm512_fmadd_ps(u0, b0, c[0].lo); \
        c[0].hi = _mm512_fmadd_ps(u1, b0, c[0].hi); \
        c[1].lo = _mm512_fmadd_ps(u0, b1, c[1].lo); \
        c[1].hi = _mm512_fmadd_ps(u1, b1, c[1].hi); \
        c[2].lo = _mm512_fmadd_ps(d0, b0, c[2].lo); \
        c[2].hi = _mm512_fmadd_ps(d1, b0, c[2].hi); \
        c[3].lo = _mm512_fmadd_ps(d0, b1, c[3].lo); \
        c[3].hi = _mm512_fmadd_ps(d1, b1, c[3].hi); \
    } while (0)

/* Multiplies one register of b with two of a (upper and lower rows): 4 or 8 steps of k. */
MMA_INLINE void mma_float_reg(const u32 *ra_up, const u32 *ra_down, const u32 *rb, u8 type,
                              struct mma_vec c[4])
{
    const __m512i vu0 = mma_load(ra_up), vu1 = mma_load(ra_up + 16);
    const __m512i vd0 = mma_load(ra_down), vd1 = mma_load(ra_down + 16);
    const __m512i vb0 = mma_load(rb), vb1 = mma_load(rb + 16);
    struct mma_vec u[2], d[2], bb[2];
    const int n = type == SG_MMA_TF32 ? 1 : 2;

#pragma GCC unroll 2
    for (int p = 0; p < n; p++) {
        u[p] = (struct mma_vec){mma_part(vu0, type, p), mma_part(vu1, type, p)};
        d[p] = (struct mma_vec){mma_part(vd0, type, p), mma_part(vd1, type, p)};
        bb[p] = (struct mma_vec){mma_part(vb0, type, p), mma_part(vb1, type, p)};
    }
#define MMA_QUAD(t) \
    _Pragma("GCC unroll 2") for (int p = 0; p < n; p++) \
    { \
        const struct mma_vec up = u[p], down = d[p], b = bb[p]; \
        MMA_STEP(t); \
    }
    MMA_QUAD(0)
    MMA_QUAD(1)
    MMA_QUAD(2)
    MMA_QUAD(3)
#undef MMA_QUAD
}

/* 16 lanes of f32 as halves in the low 16 bits, as narrow_f16() does it. */
MMA_INLINE __m512i mma_half(__m512 x)
{
    const __m512i h = _mm512_cvtepu16_epi32(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));

    return _mm512_mask_mov_epi32(h, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), _mm512_set1_epi32(0x7fff));
}

/* A complete mma for all lanes. half: c and d are pairs of halves, in two registers; nb:
   registers of b. */
MMA_INLINE void mma512_all(const struct mma_regs *x, u8 type, bool half, int nb)
{
    struct mma_vec v[4];

#pragma GCC unroll 4
    for (int r = 0; r < 4; r++) {
        const u32 *c = x->c[half ? r / 2 : r];

        v[r] = half ? (struct mma_vec){mma_part(mma_load(c), SG_MMA_F16, r & 1),
                                       mma_part(mma_load(c + 16), SG_MMA_F16, r & 1)}
                    : (struct mma_vec){_mm512_loadu_ps(c), _mm512_loadu_ps(c + 16)};
    }
    mma_float_reg(x->a[0], x->a[1], x->b[0], type, v);
    if (nb > 1)
        mma_float_reg(x->a[2], x->a[3], x->b[1], type, v);
#pragma GCC unroll 4
    for (int r = 0; r < (half ? 2 : 4); r++) {
        __m512i lo = _mm512_castps_si512(v[r].lo), hi = _mm512_castps_si512(v[r].hi);

        if (half) {
            lo = _mm512_or_si512(mma_half(v[2 * r].lo), _mm512_slli_epi32(mma_half(v[2 * r + 1].lo), 16));
            hi = _mm512_or_si512(mma_half(v[2 * r].hi), _mm512_slli_epi32(mma_half(v[2 * r + 1].hi), 16));
        }
        _mm512_storeu_si512((void *)x->d[r], lo);
        _mm512_storeu_si512((void *)(x->d[r] + 16), hi);
    }
}

/* ---- bytes: unsigned by signed ones are one instruction; signed a is taken as a + 128 ---- */

#define MMA_VNNI __attribute__((target("avx512vnni")))

/* Multiplies one register of b with one (8 rows) or two of a. s[r]: the r-th register of a lane;
   off: the excess caused by adding 128 to a. */
#define MMA_INT_STEP(t) \
    do { \
        const __m512i b0 = _mm512_permutex2var_epi32(vb0, mma_columns(t), vb1); \
        const __m512i b1 = _mm512_permutex2var_epi32(vb0, mma_columns(4 + (t)), vb1); \
        off0 = _mm512_dpbusd_epi32(off0, bias, b0); \
        off1 = _mm512_dpbusd_epi32(off1, bias, b1); \
        _Pragma("GCC unroll 2") for (int r = 0; r < rows; r++) \
        { \
            const __m512i a0 = _mm512_shuffle_epi32(va[r][0], (_MM_PERM_ENUM)((t)*0x55)); \
            const __m512i a1 = _mm512_shuffle_epi32(va[r][1], (_MM_PERM_ENUM)((t)*0x55)); \
            s[2 * r][0] = _mm512_dpbusd_epi32(s[2 * r][0], a0, b0); \
            s[2 * r][1] = _mm512_dpbusd_epi32(s[2 * r][1], a1, b0); \
            s[2 * r + 1][0] = _mm512_dpbusd_epi32(s[2 * r + 1][0], a0, b1); \
            s[2 * r + 1][1] = _mm512_dpbusd_epi32(s[2 * r + 1][1], a1, b1); \
        } \
    } while (0)

/* If all arguments but x are constants, no vector goes through memory. */
MMA_VNNI __attribute__((always_inline)) static inline void mma512_bytes_of(const struct mma_bytes *x,
                                                                           int rows, int nb, bool signed_a)
{
    const __m512i bias = _mm512_set1_epi32(signed_a ? (int)0x80808080 : 0);
    __m512i s[4][2], va[2][2], off0 = _mm512_setzero_si512(), off1 = off0;

#pragma GCC unroll 4
    for (int r = 0; r < 2 * rows; r++) {
        s[r][0] = x->c[r] ? mma_load(x->c[r]) : _mm512_setzero_si512();
        s[r][1] = x->c[r] ? mma_load(x->c[r] + 16) : _mm512_setzero_si512();
    }
#pragma GCC unroll 4
    for (int k = 0; k < nb; k++) {
        const __m512i vb0 = mma_load(x->b[k]), vb1 = mma_load(x->b[k] + 16);

#pragma GCC unroll 2
        for (int r = 0; r < rows; r++) {
            va[r][0] = _mm512_xor_si512(mma_load(x->a[k * rows + r]), bias);
            va[r][1] = _mm512_xor_si512(mma_load(x->a[k * rows + r] + 16), bias);
        }
        MMA_INT_STEP(0);
        MMA_INT_STEP(1);
        MMA_INT_STEP(2);
        MMA_INT_STEP(3);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 2 * rows; r++)
        for (int h = 0; h < 2; h++)
            _mm512_storeu_si512((void *)(x->d[r] + 16 * h), _mm512_sub_epi32(s[r][h], r & 1 ? off1 : off0));
}

/* m16n8k32 of signed bytes, the main operation of quantised matrix products. */
MMA_VNNI static void mma512_s8_k32(const struct mma_bytes *x)
{
    mma512_bytes_of(x, 2, 2, true);
}

/* b must be signed. */
MMA_VNNI static void mma512_bytes(const struct sg_mma_form *f, const struct mma_bytes *x)
{
    if (f->m == 16 && f->nb == 2 && f->a == SG_MMA_S8)
        mma512_s8_k32(x);
    else
        mma512_bytes_of(x, f->m / 8, f->nb, f->a == SG_MMA_S8);
}

#endif

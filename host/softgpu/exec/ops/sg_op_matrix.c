/* SPDX-License-Identifier: MIT */
/* Handlers: ldmatrix, stmatrix, movmatrix. Layouts: the PTX ISA (lane = 4 * group + t). */
#include "exec/ops/handler.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define GROUP(lane) ((lane) >> 2)
#define T(lane) ((lane)&3)

/* 16 bytes of shared memory, the address of lane i. */
static inline void *matrix_row(struct sg_warp *w, const struct sg_insn *in, u32 i, u32 addr, bool write)
{
    struct sg_cta *c = w->cta;
    u32 local;

    if (LIKELY(!(addr & 15) && sg_bytes_have(c->shared_bytes, addr, 16)))
        return c->shared + addr;
    return sg_resolve(w, in, i, SG_SP_SHARED, addr, 16, 16, write, &local);
}

#ifdef __AVX512BW__
/* Source index of word k, 0 to 31, of a transposed 8 by 8 matrix of halves (upper: 32 to 63). */
static inline __m512i transposed_index(bool upper)
{
    u16 from[32];

    for (int k = 0; k < 32; k++) {
        const int i = (k + (upper ? 32 : 0)) >> 1;

        from[k] = (u16)(((i & 3) * 2 + (k & 1)) * 8 + (i >> 2));
    }
    return _mm512_loadu_si512((const void *)from);
}

static inline void transpose_tile(const void *m, void *d)
{
    const __m512i a = _mm512_loadu_si512(m), b = _mm512_loadu_si512((const u8 *)m + 64);

    _mm512_storeu_si512(d, _mm512_permutex2var_epi16(a, transposed_index(false), b));
    _mm512_storeu_si512((u8 *)d + 64, _mm512_permutex2var_epi16(a, transposed_index(true), b));
}
#elif defined(__SSE2__)
/* Rows k and k + 4 of x are woven into rows 2k and 2k + 1 of y; three times is the transposition. */
static inline void weave_rows(const __m128i x[8], __m128i y[8])
{
    for (int k = 0; k < 4; k++) {
        y[2 * k] = _mm_unpacklo_epi16(x[k], x[k + 4]);
        y[2 * k + 1] = _mm_unpackhi_epi16(x[k], x[k + 4]);
    }
}

static inline void transpose_tile(const void *m, void *d)
{
    __m128i x[8], y[8];

    for (int k = 0; k < 8; k++)
        x[k] = _mm_loadu_si128((const __m128i *)m + k);
    weave_rows(x, y);
    weave_rows(y, x);
    weave_rows(x, y);
    for (int k = 0; k < 8; k++)
        _mm_storeu_si128((__m128i *)d + k, y[k]);
}
#endif

/* Fast path: all rows are inside shared memory, for every lane. Returns false, with nothing
   done, otherwise. */
static inline bool ldmatrix_fast(struct sg_warp *w, const struct sg_insn *in, u32 n, const u32 dst[4])
{
    const struct sg_cta *c = w->cta;
    const u32 *pa = SRC(u32, a), last = c->shared_bytes - 16;
    u32 at[SG_LANES], bad = 0;

    if (w->wmask != SG_FULL || c->shared_bytes < 16)
        return false;
    for (u32 i = 0; i < n * 8; i++) {
        at[i] = pa[i] + (u32)in->imm;
        bad |= (at[i] & 15) | sg_lane_bad32(at[i], last) >> 31;
    }
    if (bad)
        return false;
    for (u32 j = 0; j < n; j++) {
        u8 *d = w->base[0] + dst[j];
#ifdef __SSE2__
        u8 m[128] __attribute__((aligned(64)));

        if (in->aux & 16) {
            for (u32 i = 0; i < 8; i++)
                memcpy(m + 16 * i, c->shared + at[j * 8 + i], 16);
            transpose_tile(m, d);
            continue;
        }
#else
        if (in->aux & 16)
            return false;
#endif
        for (u32 i = 0; i < 8; i++) /* rows lie as the lanes do */
            memcpy(d + 16 * i, c->shared + at[j * 8 + i], 16);
    }
    return true;
}

/* Lane i of matrix j holds two 16-bit elements of row i / 4, or of column i / 4 when transposed. */
HANDLER(ldmatrix)
{
    const u32 n = in->aux & 15, dst[4] = {in->d, in->b, in->c, in->e};
    const u32 *pa = SRC(u32, a);
    u16 m[4][8][8];

    if (LIKELY(ldmatrix_fast(w, in, n, dst)))
        return SG_NEXT;
    for (u32 i = 0; i < n * 8; i++) {
        const void *p = matrix_row(w, in, i, pa[i] + (u32)in->imm, false);

        if (!p)
            return SG_FAULTED;
        memcpy(m[i / 8][i % 8], p, 16);
    }
    for (u32 j = 0; j < n; j++) {
        u32 *d = (u32 *)(void *)(w->base[0] + dst[j]);

        for (int i = 0; i < SG_LANES; i++) {
            const int g = GROUP(i), t = T(i) * 2;
            const u32 v = in->aux & 16 ? (u32)m[j][t][g] | (u32)m[j][t + 1][g] << 16
                                       : (u32)m[j][g][t] | (u32)m[j][g][t + 1] << 16;

            if (w->wmask >> i & 1)
                d[i] = v;
        }
    }
    return SG_NEXT;
}

HANDLER(stmatrix)
{
    const u32 n = in->aux & 15, src[4] = {in->d, in->b, in->c, in->e};
    const u32 *pa = SRC(u32, a);
    u16 m[4][8][8];

    for (u32 j = 0; j < n; j++) {
        const u32 *s = sg_src_ptr(w, src[j]);

        for (int i = 0; i < SG_LANES; i++) {
            const int g = GROUP(i), t = T(i) * 2;

            m[j][in->aux & 16 ? t : g][in->aux & 16 ? g : t] = (u16)s[i];
            m[j][in->aux & 16 ? t + 1 : g][in->aux & 16 ? g : t + 1] = (u16)(s[i] >> 16);
        }
    }
    for (u32 i = 0; i < n * 8; i++) {
        void *p = matrix_row(w, in, i, pa[i] + (u32)in->imm, true);

        if (!p)
            return SG_FAULTED;
        memcpy(p, m[i / 8][i % 8], 16);
    }
    return SG_NEXT;
}

/* A row of 16 elements of 8 bits; in shared memory they may have 4 or 6 bits, without gaps. */
static void unpack_row(u8 row[16], const void *p, u32 aux)
{
    const u32 bits = aux & SG_MATRIX_4BIT ? 4 : aux & SG_MATRIX_6BIT ? 6 : 8;
    u8 bytes[17] = {0};

    memcpy(bytes, p, 16);
    for (u32 k = 0; k < 16; k++) {
        const u32 at = k * bits, two = bytes[at / 8] | (u32)bytes[at / 8 + 1] << 8;

        row[k] = (u8)(two >> at % 8 & ((1u << bits) - 1));
    }
}

/*
 * Elements of 8 bits. Lane i of a matrix of 8 rows holds four elements of row i / 4; of one of 16
 * rows, transposed, those of rows 4 (i % 4) and following in the columns i / 4 and i / 4 + 8.
 */
HANDLER(ldmatrix_b8)
{
    const u32 n = in->aux & 15, dst[4] = {in->d, in->b, in->c, in->e};
    const u32 *pa = SRC(u32, a);
    u8 m[32][16];

    for (u32 i = 0; i < n * 8; i++) {
        const void *p = matrix_row(w, in, i, pa[i] + (u32)in->imm, false);

        if (!p)
            return SG_FAULTED;
        unpack_row(m[i], p, in->aux);
    }
    for (u32 j = 0; j < n; j++) {
        u32 *d = (u32 *)(void *)(w->base[0] + dst[j]);

        for (u32 i = 0; i < SG_LANES; i++) {
            const u32 t = T(i) * 4, g = GROUP(i), column = g + (j & 1) * 8;
            u32 v;

            if (in->aux & 16) {
                const u8(*r)[16] = m + (j & ~1u) * 8 + t;

                v = (u32)r[0][column] | (u32)r[1][column] << 8 | (u32)r[2][column] << 16 |
                    (u32)r[3][column] << 24;
            } else {
                memcpy(&v, m[j * 8 + g] + t, 4);
            }
            if (w->wmask >> i & 1)
                d[i] = v;
        }
    }
    return SG_NEXT;
}

/* Matrices of 16 rows and 8 columns, stored by columns. */
HANDLER(stmatrix_b8)
{
    const u32 n = in->aux & 15, src[4] = {in->d, in->b, in->c, in->e};
    const u32 *pa = SRC(u32, a);
    u8 m[32][16];

    for (u32 j = 0; j < n; j++) {
        const u32 *s = sg_src_ptr(w, src[j]);

        for (u32 i = 0; i < SG_LANES; i++)
            for (u32 k = 0; k < 4; k++)
                m[j * 8 + T(i) * 2 + (k & 1)][GROUP(i) + (k >> 1) * 8] = (u8)(s[i] >> 8 * k);
    }
    for (u32 i = 0; i < n * 8; i++) {
        void *p = matrix_row(w, in, i, pa[i] + (u32)in->imm, true);

        if (!p)
            return SG_FAULTED;
        memcpy(p, m[i], 16);
    }
    return SG_NEXT;
}

HANDLER(movmatrix)
{
    const u32 *pa = SRC(u32, a);
    u16 m[8][8];

#ifdef __SSE2__
    if (LIKELY(w->wmask == SG_FULL)) {
        transpose_tile(pa, w->base[0] + in->d);
        return SG_NEXT;
    }
#endif
    for (int i = 0; i < SG_LANES; i++) {
        m[GROUP(i)][T(i) * 2] = (u16)pa[i];
        m[GROUP(i)][T(i) * 2 + 1] = (u16)(pa[i] >> 16);
    }
    STORE(u32, (u32)m[(i & 3) * 2][i >> 2] | (u32)m[(i & 3) * 2 + 1][i >> 2] << 16);
    return SG_NEXT;
}

#include "exec/ops/matrix.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(matrix)[] = {
#include "exec/ops/matrix.def"
    {0},
};

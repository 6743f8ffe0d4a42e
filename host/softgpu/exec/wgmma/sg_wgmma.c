/* SPDX-License-Identifier: MIT */
/*
 * Handler: wgmma.mma_async. Four warps execute it, each for its own 16 rows of a and d. No warp needs
 * anything of another, so there is no rendezvous: a warp computes its rows when it arrives. Reading
 * shared memory and writing d at issue is allowed, as the PTX ISA forbids a program to change the one,
 * and to look at the other, before wgmma.wait_group; fence, commit_group and wait_group have nothing to do.
 *
 * Roundings are those of mma.sync: sums ascend in k, in f32, from d on; with a sparse a they are exact
 * and rounded once.
 *
 * d stays as its registers have it, lane = 4 * group + t: 8 columns are four registers, of which register
 * 2 * low + p has row group + 8 * low and column 2 * t + p. An element of a is in four lanes for it, and
 * b has the even columns of 8 before the odd ones (COLUMN_PLACE), so four of them are a part of a vector.
 */
#include "exec/wgmma/wgmma.h"
#include "exec/matrix/mma_element.h"
#include "exec/matrix/mma_sparse.h"
#include "exec/wgmma/descriptor.h"
#include "exec/code.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifdef __AVX2__
/* Two rows of 16 bytes, in the halves of a vector. */
#define LOAD_PAIR(low, high) \
    _mm256_loadu2_m128((const f32 *)(const void *)(high), (const f32 *)(const void *)(low))
#endif

#define GROUP(lane) ((lane) >> 2)
#define T(lane) ((lane)&3)
#define ROWS 16u
#define BLOCK 64u  /* columns at a time */
#define WORDS_A 8u /* 32-bit words of a row of a */
#define DEPTH 64u  /* elements of a column, at most; b1 are not spread */

/* Of 8 rows of a (columns of b): the even ones, then the odd ones. */
#define COLUMN_PLACE(c) (((c) & ~7u) | ((c) >> 1 & 3) | ((c)&1) << 2)
/* The column of the word that a lane of d is multiplied with, and its register; of 8 columns from q on. */
#define SUM(d, row, place) ((d)[2 * ((row) >> 3) + ((place) >> 2 & 1)][4 * ((row)&7) + ((place)&3)])

/* Register r of the list that begins at in, four to an instruction. */
static inline u32 *list_register(const struct sg_warp *w, const struct sg_insn *in, u32 r)
{
    const struct sg_insn *x = in + r / 4;

    r &= 3;
    return sg_src_ptr(w, r == 0 ? x->d : r == 1 ? x->a : r == 2 ? x->b : x->c);
}

/* ---- operands ---- */

/* 16 bytes of a matrix; NULL after a fault. */
static const u8 *matrix_bytes(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                              u32 mn, u32 k)
{
    const u32 at = sg_matrix_offset(m, mn, k);

    if (UNLIKELY(!sg_bytes_have(w->cta->shared_bytes, at, SG_MATRIX_ROW))) {
        sg_fault_addr(w, in, 0, SG_ERR_ADDRESS, SG_SP_SHARED, at, SG_MATRIX_ROW, false);
        return NULL;
    }
    return w->cta->shared + at;
}

/*
 * True if all rows of 16 bytes lie in shared memory, so that none needs a check; false may be wrong by the 128
 * bytes in which a swizzle moves a row. across, along: rows as in sg_matrix_linear().
 */
static bool matrix_lies_inside(const struct sg_warp *w, const struct sg_matrix_layout *m, u32 across,
                               u32 along)
{
    const u32 mn = m->mn_major ? along : across, k = m->mn_major ? across : along, pieces = 1u << m->swizzle;
    u32 last = sg_matrix_linear(m, mn, k);

    if (m->swizzle)
        last = (last + (m->mn_major ? (pieces - 1) * SG_MATRIX_ROW : 0)) | (SG_MATRIX_ATOM_ROW - 1);
    return sg_bytes_have(w->cta->shared_bytes, last & ~(SG_MATRIX_ROW - 1), SG_MATRIX_ROW);
}

/* The same for the 8 rows of a core matrix. Returns false after a fault. */
static bool core_matrix_checked(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                                u32 mn, u32 k, const u8 *row[8])
{
    for (u32 i = 0; i < 8; i++) {
        row[i] = matrix_bytes(w, in, m, mn + (m->mn_major ? 0 : i), k + (m->mn_major ? i : 0));
        if (!row[i])
            return false;
    }
    return true;
}

/* The same of a matrix that lies in shared memory; m by value: nothing that is stored changes it. */
__attribute__((always_inline)) static inline void
core_matrix(const u8 *shared, const struct sg_matrix_layout m, u32 mn, u32 k, const u8 *row[8])
{
    const u32 first = sg_matrix_linear(&m, mn, k), step = SG_MATRIX_ROW << m.swizzle;
    u32 at[8];

    SG_VECTOR for (u32 i = 0; i < 8; i++) at[i] = sg_matrix_swizzled(&m, first + i * step);
    for (u32 i = 0; i < 8; i++)
        row[i] = shared + at[i];
}

/* words[k][place of column]: 32 bits of the depth of `n` rows of a (columns of b) from `first` on, a multiple
   of 8. Returns false after a fault. */
static bool read_k_major(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                         bool inside, u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    const struct sg_matrix_layout layout = *m;
    const u8 *shared = w->cta->shared;

    for (u32 k = 0; k < nwords; k += 4)
        for (u32 c = 0; c < n; c += 8) {
            const u8 *row[8];

            if (inside)
                core_matrix(shared, layout, first + c, k / 4, row);
            else if (!core_matrix_checked(w, in, m, first + c, k / 4, row))
                return false;
#ifdef __AVX2__
            const __m256 r0 = LOAD_PAIR(row[0], row[1]), r1 = LOAD_PAIR(row[2], row[3]),
                         r2 = LOAD_PAIR(row[4], row[5]), r3 = LOAD_PAIR(row[6], row[7]);
            const __m256 t0 = _mm256_unpacklo_ps(r0, r1), t1 = _mm256_unpacklo_ps(r2, r3),
                         t2 = _mm256_unpackhi_ps(r0, r1), t3 = _mm256_unpackhi_ps(r2, r3);

            _mm256_storeu_ps((f32 *)(void *)&words[k][c], _mm256_shuffle_ps(t0, t1, 0x44));
            _mm256_storeu_ps((f32 *)(void *)&words[k + 1][c], _mm256_shuffle_ps(t0, t1, 0xee));
            _mm256_storeu_ps((f32 *)(void *)&words[k + 2][c], _mm256_shuffle_ps(t2, t3, 0x44));
            _mm256_storeu_ps((f32 *)(void *)&words[k + 3][c], _mm256_shuffle_ps(t2, t3, 0xee));
#else
            for (u32 i = 0; i < 8; i++) {
                u32 v[4];

                memcpy(v, row[i], sizeof(v));
                for (u32 j = 0; j < 4; j++)
                    words[k + j][c + COLUMN_PLACE(i)] = v[j];
            }
#endif
        }
    return true;
}

/* The same for 16-bit elements that are contiguous along M or N. */
static bool read_mn_major(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                          bool inside, u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    const struct sg_matrix_layout layout = *m;
    const u8 *shared = w->cta->shared;

    for (u32 k = 0; k < nwords; k += 4)
        for (u32 c = 0; c < n; c += 8) {
            const u8 *row[8];

            if (inside)
                core_matrix(shared, layout, (first + c) / 8, 2 * k, row);
            else if (!core_matrix_checked(w, in, m, (first + c) / 8, 2 * k, row))
                return false;
            for (u32 j = 0; j < 4; j++) {
#ifdef __SSE2__
                const __m128i even = _mm_loadu_si128((const __m128i *)(const void *)row[2 * j]),
                              odd = _mm_loadu_si128((const __m128i *)(const void *)row[2 * j + 1]);
                const __m128 lo = _mm_castsi128_ps(_mm_unpacklo_epi16(even, odd)),
                             hi = _mm_castsi128_ps(_mm_unpackhi_epi16(even, odd));

                _mm_storeu_ps((f32 *)(void *)&words[k + j][c], _mm_shuffle_ps(lo, hi, 0x88));
                _mm_storeu_ps((f32 *)(void *)&words[k + j][c + 4], _mm_shuffle_ps(lo, hi, 0xdd));
#else
                u16 lo[8], hi[8];

                memcpy(lo, row[2 * j], sizeof(lo));
                memcpy(hi, row[2 * j + 1], sizeof(hi));
                for (u32 i = 0; i < 8; i++)
                    words[k + j][c + COLUMN_PLACE(i)] = lo[i] | (u32)hi[i] << 16;
#endif
            }
        }
    return true;
}

static bool read_matrix(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                        u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    const bool inside = m->mn_major ? matrix_lies_inside(w, m, 2 * nwords - 1, (first + n) / 8 - 1)
                                    : matrix_lies_inside(w, m, first + n - 1, nwords / 4 - 1);

    for (u32 k = 0; k < nwords && n % SG_LANES; k++) /* the rest of 32 columns is computed too */
        memset(&words[k][n], 0, (SG_LANES - n % SG_LANES) * sizeof(u32));
    return m->mn_major ? read_mn_major(w, in, m, inside, first, n, nwords, words)
                       : read_k_major(w, in, m, inside, first, n, nwords, words);
}

/* The 16 rows of a of this warp. */
static bool read_a(struct sg_warp *w, const struct sg_insn *in, u32 (*words)[BLOCK])
{
    const u32 first = w->index % 4 * ROWS;

    if (!(in->aux & SG_WGMMA_A_REGISTERS)) {
        const struct sg_matrix_layout m = sg_matrix_of_wgmma(SRC(u64, b)[0], in->aux & SG_WGMMA_A_MN_MAJOR);

        return read_matrix(w, in, &m, first, ROWS, WORDS_A, words);
    }
    for (u32 k = 0; k < WORDS_A; k++)
        memset(words[k], 0, SG_LANES * sizeof(u32));
    for (u32 r = 0; r < SG_WGMMA_A_REGS; r++) {
        const u32 *v = list_register(w, in + 1, r);

        for (u32 i = 0; i < SG_LANES; i++)
            words[T(i) + (r >> 1) * 4][COLUMN_PLACE(GROUP(i)) + (r & 1) * 8] = v[i];
    }
    return true;
}

/* ---- elements ---- */

static void negate_words(u8 type, u32 nwords, u32 (*words)[BLOCK])
{
    const u32 signs = type == SG_MMA_TF32         ? 0x80000000u
                      : sg_wgmma_bits(type) == 16 ? 0x80008000u
                                                  : 0x80808080u;

    for (u32 k = 0; k < nwords; k++)
        SG_VECTOR for (u32 c = 0; c < BLOCK; c++) words[k][c] ^= signs;
}

/*
 * The bytes of words as f16, two to a word. An e5m2 is the upper byte of an f16; an e4m3 shifted into one has the
 * value times 2^-8, but for its NaN. Loops over columns and not over lanes: they become vector code.
 */
static inline void halves_of_bytes(const u32 *words, u8 type, u32 part, u32 n, u32 *to)
{
    if (type == SG_MMA_E5M2)
        SG_VECTOR for (u32 c = 0; c < n; c++)
        {
            const u32 v = words[c] >> 16 * part;

            to[c] = (v & 0xff) << 8 | (v & 0xff00) << 16;
        }
    else
        SG_VECTOR for (u32 c = 0; c < n; c++)
        {
            const u32 v = words[c] >> 16 * part, pair = (v & 0xff) | (v & 0xff00) << 8;
            const u32 nan = ((pair & 0x7f007f) + 0x10001) & 0x800080;

            to[c] = (pair & 0x800080) << 8 | (pair & 0x7f007f) << 7 | ((nan << 8) - (nan >> 7));
        }
}

static void spread_bytes(const u32 *words, u8 type, u32 n, f32 (*to)[BLOCK])
{
    u32 halves[BLOCK];

    for (u32 part = 0; part < 2; part++) {
        halves_of_bytes(words, type, part, n, halves);
        for (u32 c = 0; c < n; c += SG_LANES) {
            widen_f16(&halves[c], 0, &to[2 * part][c]);
            widen_f16(&halves[c], 16, &to[2 * part + 1][c]);
        }
    }
    for (u32 p = 0; p < 4 && type == SG_MMA_E4M3; p++)
        SG_VECTOR for (u32 c = 0; c < n; c++) to[p][c] *= 256;
}

/* The elements of words, as f32, which holds all types exactly. n: a multiple of 32. */
static void spread_words(const u32 *words, u8 type, u32 n, f32 (*to)[BLOCK])
{
    switch (type) {
    case SG_MMA_F16:
        for (u32 c = 0; c < n; c += SG_LANES) {
            widen_f16(&words[c], 0, &to[0][c]);
            widen_f16(&words[c], 16, &to[1][c]);
        }
        break;
    case SG_MMA_BF16:
        SG_VECTOR for (u32 c = 0; c < n; c++)
        {
            to[0][c] = f32b(words[c] << 16);
            to[1][c] = f32b(words[c] & 0xffff0000u);
        }
        break;
    case SG_MMA_TF32: /* the low bits are ignored */
        SG_VECTOR for (u32 c = 0; c < n; c++) to[0][c] = f32b(words[c] & 0xffffe000u);
        break;
    case SG_MMA_E4M3:
    case SG_MMA_E5M2:
        spread_bytes(words, type, n, to);
        break;
    default:
        for (u32 p = 0; p < 4; p++)
            SG_VECTOR for (u32 c = 0; c < n; c++)
            {
                const u32 v = words[c] >> 8 * p;

                to[p][c] = type == SG_MMA_S8 ? (f32)(s32)(s8)v : (f32)(s32)(u8)v;
            }
        break;
    }
}

static void spread_matrix(u32 (*words)[BLOCK], u8 type, u32 nwords, u32 n, f32 (*to)[BLOCK])
{
    const u32 per = 32 / sg_wgmma_bits(type);

    for (u32 k = 0; k < nwords; k++)
        spread_words(words[k], type, n, &to[k * per]);
}

/* Two bytes of each word as two 16-bit integers: part 0 the lower ones, 1 the upper ones. */
static inline u32 pair_of(u32 word, u8 type, u32 part)
{
    const u32 v = word >> 16 * part;

    return type == SG_MMA_S8 ? ((u32)(s32)(s8)v & 0xffff) | (u32)(s32)(s8)(v >> 8) << 16
                             : (v & 0xff) | (v & 0xff00) << 8;
}

/* ---- sums of 8 columns: four registers of d ---- */

typedef f32 quads[2][SG_LANES]; /* elements of a of one k: of the rows of registers 0 and 1, 2 and 3 */

#if defined(__AVX512F__)
#define VEC __m512
#define VEC_LANES 16u
#define VECS 2u /* vectors of a register of d, and halves of the rows: 8 sums at a time */
#define LOWS 2u
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_COLUMNS(p) _mm512_broadcast_f32x4(_mm_loadu_ps(p))
#define VEC_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define VEC_DOT(a, b, c) \
    _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(c), \
                                         _mm512_madd_epi16(_mm512_castps_si512(a), _mm512_castps_si512(b))))
#define VEC_BITS(v) (v)
#define VEC_NAN(v) \
    _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), \
                       _mm512_castsi512_ps(_mm512_set1_epi32(0x7fffffff)))
#elif defined(__AVX2__)
#define VEC __m256
#define VEC_LANES 8u
#define VECS 4u
#define LOWS 1u
#define VEC_LOAD(p) _mm256_loadu_ps(p)
#define VEC_STORE(p, v) _mm256_storeu_ps(p, v)
#define VEC_COLUMNS(p) _mm256_broadcast_ps((const __m128 *)(const void *)(p))
#define VEC_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VEC_DOT(a, b, c) \
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(c), \
                                         _mm256_madd_epi16(_mm256_castps_si256(a), _mm256_castps_si256(b))))
#define VEC_BITS(v) (v)
#define VEC_NAN(v) \
    _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), _mm256_cmp_ps(v, v, _CMP_UNORD_Q))
#elif defined(__SSE2__)
#define VEC __m128
#define VEC_LANES 4u
#define VECS 4u
#define LOWS 1u
#define VEC_LOAD(p) _mm_loadu_ps(p)
#define VEC_STORE(p, v) _mm_storeu_ps(p, v)
#define VEC_COLUMNS(p) _mm_loadu_ps(p)
#define VEC_FMA(a, b, c) _mm_add_ps(_mm_mul_ps(a, b), c)
#define VEC_DOT(a, b, c) \
    _mm_castsi128_ps( \
        _mm_add_epi32(_mm_castps_si128(c), _mm_madd_epi16(_mm_castps_si128(a), _mm_castps_si128(b))))
#define VEC_BITS(v) (v)
#define VEC_NAN(v) \
    _mm_or_ps(_mm_andnot_ps(_mm_cmpunord_ps(v, v), v), \
              _mm_and_ps(_mm_cmpunord_ps(v, v), _mm_castsi128_ps(_mm_set1_epi32(0x7fffffff))))
#endif

#ifdef VEC
/* step: VEC_FMA or VEC_DOT; end: VEC_NAN or VEC_BITS. */
#define TILE(step, end) \
    for (u32 low = 0; low < 2; low += LOWS) \
        for (u32 lane = 0; lane < SG_LANES; lane += VECS * VEC_LANES) { \
            VEC s[2 * LOWS][VECS]; \
            _Pragma("GCC unroll 4") for (u32 r = 0; r < 2 * LOWS; r++) \
                _Pragma("GCC unroll 4") for (u32 h = 0; h < VECS; h++) s[r][h] = \
                    VEC_LOAD(c[2 * low + r] + lane + h * VEC_LANES); \
            for (u32 k = 0; k < depth; k++) { \
                const VEC b0 = VEC_COLUMNS(b[k]), b1 = VEC_COLUMNS(b[k] + 4); \
                _Pragma("GCC unroll 4") for (u32 r = 0; r < LOWS; r++) \
                    _Pragma("GCC unroll 4") for (u32 h = 0; h < VECS; h++) \
                { \
                    const VEC v = VEC_LOAD(a[k][low + r] + lane + h * VEC_LANES); \
                    s[2 * r][h] = step(v, b0, s[2 * r][h]); \
                    s[2 * r + 1][h] = step(v, b1, s[2 * r + 1][h]); \
                } \
            } \
            _Pragma("GCC unroll 4") for (u32 r = 0; r < 2 * LOWS; r++) \
                _Pragma("GCC unroll 4") for (u32 h = 0; h < VECS; h++) \
                    VEC_STORE(d[2 * low + r] + lane + h * VEC_LANES, end(s[r][h])); \
        }
#endif

#if defined(__AVX512BW__)
#define VEC_I __m512i
#define VEC_CALL(f) _mm512_##f
#define VEC_TABLE(t) _mm512_broadcast_i32x4(t)
#define VEC_AND(a, b) _mm512_and_si512(a, b)
#define VEC_BITS_OF(v) _mm512_castps_si512(v)
#define VEC_OF_BITS(v) _mm512_castsi512_ps(v)
#elif defined(__AVX2__)
#define VEC_I __m256i
#define VEC_CALL(f) _mm256_##f
#define VEC_TABLE(t) _mm256_broadcastsi128_si256(t)
#define VEC_AND(a, b) _mm256_and_si256(a, b)
#define VEC_BITS_OF(v) _mm256_castps_si256(v)
#define VEC_OF_BITS(v) _mm256_castsi256_ps(v)
#endif

#ifdef VEC_I
/* c plus the number of bits of a & b: of halves of bytes by a table, then the bytes of a word are added. */
static inline VEC vec_count(VEC a, VEC b, VEC c)
{
    const VEC_I table = VEC_TABLE(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    const VEC_I low = VEC_CALL(set1_epi8)(15), both = VEC_AND(VEC_BITS_OF(a), VEC_BITS_OF(b));
    const VEC_I n =
        VEC_CALL(add_epi8)(VEC_CALL(shuffle_epi8)(table, VEC_AND(both, low)),
                           VEC_CALL(shuffle_epi8)(table, VEC_AND(VEC_CALL(srli_epi16)(both, 4), low)));
    const VEC_I pairs = VEC_CALL(maddubs_epi16)(n, VEC_CALL(set1_epi8)(1));

    return VEC_OF_BITS(
        VEC_CALL(add_epi32)(VEC_BITS_OF(c), VEC_CALL(madd_epi16)(pairs, VEC_CALL(set1_epi16)(1))));
}
#else
/* Four columns, repeated for each group of lanes. */
static inline void columns_to_lanes(const void *columns, void *lanes)
{
    for (u32 g = 0; g < SG_LANES / 4; g++)
        memcpy((u32 *)lanes + 4 * g, columns, 4 * sizeof(u32));
}

/* Registers p and 2 + p of d, without vectors of a known width. step: of s[low], x: a, y: b, in lane i. */
#define LANE_TILE(type, step) \
    for (u32 p = 0; p < 2; p++) { \
        type s[2][SG_LANES], x[2][SG_LANES], y[SG_LANES]; \
\
        memcpy(s[0], c[p], sizeof(s[0])); \
        memcpy(s[1], c[2 + p], sizeof(s[1])); \
        for (u32 k = 0; k < depth; k++) { \
            columns_to_lanes(b[k] + 4 * p, y); \
            memcpy(x, a[k], sizeof(x)); \
            for (u32 low = 0; low < 2; low++) \
                SG_VECTOR for (u32 i = 0; i < SG_LANES; i++) s[low][i] += step; \
        } \
        memcpy(d[p], s[0], sizeof(s[0])); \
        memcpy(d[2 + p], s[1], sizeof(s[1])); \
    }
#endif

/* d = c + a * b, of which NaNs are PTX's; d and c may be the same. */
static void float_tile(const quads *a, const f32 (*b)[BLOCK], u32 depth, const f32 *const c[4],
                       f32 *const d[4])
{
#ifdef VEC
    TILE(VEC_FMA, VEC_NAN)
#else
    LANE_TILE(f32, x[low][i] * y[i])
    for (u32 r = 0; r < 4; r++)
        LANES d[r][i] = d[r][i] != d[r][i] ? f32b(0x7fffffffu) : d[r][i];
#endif
}

/* a, b: pairs of 16-bit integers, as the bits of an f32. c, d: s32, likewise. */
static void pair_tile(const quads *a, const f32 (*b)[BLOCK], u32 depth, const f32 *const c[4],
                      f32 *const d[4])
{
#ifdef VEC
    TILE(VEC_DOT, VEC_BITS)
#else
    LANE_TILE(u32, (u32)((s16)x[low][i] * (s16)y[i]) + (u32)((s16)(x[low][i] >> 16) * (s16)(y[i] >> 16)))
#endif
}

/* a, b: 32 elements of one bit. c, d: s32, likewise. */
static void bit_tile(const quads *a, const f32 (*b)[BLOCK], u32 depth, const f32 *const c[4], f32 *const d[4])
{
#ifdef VEC_I
    TILE(vec_count, VEC_BITS)
#else
    LANE_TILE(u32, (u32)__builtin_popcount(x[low][i] & y[i]))
#endif
}

/* ---- a block of columns ---- */

struct product {
    struct sg_wgmma f;
    u32 aux;
    bool add; /* d is added to, else replaced */
    bool sparse;
    u32 (*was)[SG_LANES]; /* d before the product; NULL: as its registers, none of which stands twice */
    u32 meta[SG_LANES];
    u32 a_words[WORDS_A][BLOCK];
    _Alignas(64) f32 a[DEPTH / 2][BLOCK]; /* spread; of integers: pairs */
    _Alignas(64) quads quads[DEPTH / 2];  /* the same, or words of b1 */
    _Alignas(64) u32 words[SG_WGMMA_MAX_WORDS_K][BLOCK];
    _Alignas(64) f32 b[DEPTH][BLOCK]; /* spread; of integers: pairs */
};

static const f32 zeros[SG_LANES];

static void add_saturated(const f32 *const c[4], f32 (*sum)[SG_LANES], f32 *const d[4])
{
    for (u32 r = 0; r < 4; r++)
        for (u32 i = 0; i < SG_LANES; i++) {
            const s64 v = (s64)(s32)b32(c[r][i]) + (s32)b32(sum[r][i]);

            d[r][i] = f32b((u32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v));
        }
}

static void byte_tile(const struct product *x, const f32 (*b)[BLOCK], const f32 *const c[4], f32 *const d[4])
{
    static const f32 *const from[4] = {zeros, zeros, zeros, zeros};
    f32 sum[4][SG_LANES];

    if (!(x->aux & SG_WGMMA_SATURATE)) {
        pair_tile(x->quads, b, 2 * WORDS_A, c, d);
        return;
    }
    pair_tile(x->quads, b, 2 * WORDS_A, from, (f32 *const[4]){sum[0], sum[1], sum[2], sum[3]});
    add_saturated(c, sum, d);
}

/* b has twice the depth of a; the metadata say which of its rows an element of a is multiplied with. */
static void sparse_tile(const struct product *x, const f32 (*b)[BLOCK], const f32 *const c[4],
                        f32 *const d[4])
{
    const u32 bits = sg_wgmma_bits(x->f.a), kept = WORDS_A * 32 / bits, lanes = bits == 8 ? 4 : 2;
    const u32 selector = x->aux & SG_WGMMA_SELECTOR ? 1 : 0;

    for (u32 row = 0; row < ROWS; row++) {
        f64 sum[8] = {0};

        for (u32 k = 0; k < kept; k++) {
            const f32 *from = b[sparse_column(bits, lanes, x->meta, selector, row, k)];
            const f64 v = (f64)x->a[k][COLUMN_PLACE(row)];

            SG_VECTOR for (u32 j = 0; j < 8; j++) sum[j] += v * (f64)from[j];
        }
        for (u32 j = 0; j < 8; j++) {
            const f32 was = SUM(c, row, j);
            const f64 v = (f64)was + sum[j];
            f32 now;

            if (x->f.d == 'i')
                now = f32b(sparse_integer(b32(was), sum[j], x->aux & SG_WGMMA_SATURATE));
            else
                now = x->f.d == 'h' ? sg_f16_to_f32(sg_f64_to_f16(v, 0)) : (f32)v;
            SUM(d, row, j) = x->f.d == 'f' && now != now ? f32b(0x7fffffffu) : now;
        }
    }
}

/* d = c + a * b, of the 8 columns of a block from `at` on; d and c may be the same. */
static void multiply_tile(const struct product *x, u32 at, const f32 *const c[4], f32 *const d[4])
{
    const f32(*b)[BLOCK] = (const f32(*)[BLOCK])(const void *)&x->b[0][at];

    if (x->sparse)
        sparse_tile(x, b, c, d);
    else if (x->f.a == SG_MMA_B1)
        bit_tile(x->quads, (const f32(*)[BLOCK])(const void *)&x->words[0][at], WORDS_A, c, d);
    else if (x->f.d == 'i')
        byte_tile(x, b, c, d);
    else
        float_tile(x->quads, b, WORDS_A * 32 / sg_wgmma_bits(x->f.b), c, d);
}

static const u32 *register_before(const struct product *x, const struct sg_warp *w,
                                  const struct sg_insn *from, u32 r)
{
    return x->was ? x->was[r] : list_register(w, from, r);
}

/* The registers of d of 8 columns. from, to: the list as it is read, and as it is written. */
static void multiply_columns(const struct product *x, const struct sg_warp *w, const struct sg_insn *from,
                             const struct sg_insn *to, u32 q)
{
    const f32 *c[4] = {zeros, zeros, zeros, zeros};
    f32 half[4][SG_LANES], *d[4] = {half[0], half[1], half[2], half[3]};

    if (x->f.d != 'h') {
        for (u32 r = 0; r < 4; r++) {
            if (x->add)
                c[r] = (const f32 *)(const void *)register_before(x, w, from, 4 * q + r);
            d[r] = (f32 *)(void *)list_register(w, to, 4 * q + r);
        }
        multiply_tile(x, q * 8 % BLOCK, c, d);
        return;
    }
    for (u32 r = 0; r < 4 && x->add; r++) {
        widen_f16(register_before(x, w, from, 2 * q + r / 2), r % 2 * 16, half[r]);
        c[r] = half[r];
    }
    multiply_tile(x, q * 8 % BLOCK, c, d);
    for (u32 low = 0; low < 2; low++) {
        u32 lo[SG_LANES], hi[SG_LANES], *v = list_register(w, to, 2 * q + low);

        narrow_f16(half[2 * low], lo);
        narrow_f16(half[2 * low + 1], hi);
        LANES v[i] = lo[i] | hi[i] << 16;
    }
}

/* Bytes of words as two pairs each. */
static void pair_words(u32 (*words)[BLOCK], u8 type, u32 n, f32 (*to)[BLOCK])
{
    for (u32 k = 0; k < WORDS_A; k++)
        for (u32 part = 0; part < 2; part++)
            SG_VECTOR for (u32 c = 0; c < n; c++) to[2 * k + part][c] =
                f32b(pair_of(words[k][c], type, part));
}

/* 16 rows of one k: each to the four lanes of its group. */
static inline void spread_quads(const f32 *rows, quads to)
{
#if defined(__AVX512F__)
    const __m512i even = _mm512_set_epi32(5, 5, 5, 5, 1, 1, 1, 1, 4, 4, 4, 4, 0, 0, 0, 0);
    const __m512 all = _mm512_loadu_ps(rows);

    for (int v = 0; v < 4; v++) /* rows 0 to 3 have the places 0 4 1 5 */
        _mm512_storeu_ps(
            &to[0][0] + 16 * v,
            _mm512_permutexvar_ps(_mm512_add_epi32(even, _mm512_set1_epi32(v / 2 * 8 + v % 2 * 2)), all));
#else
    for (u32 row = 0; row < ROWS; row++)
        for (u32 t = 0; t < 4; t++)
            to[row >> 3][4 * (row & 7) + t] = rows[COLUMN_PLACE(row)];
#endif
}

/* Reads a in the forms that the tile functions want. Returns false after a fault. */
static bool prepare_a(struct sg_warp *w, const struct sg_insn *in, struct product *x)
{
    u32 depth = WORDS_A * 32 / sg_wgmma_bits(x->f.a);

    if (!read_a(w, in, x->a_words))
        return false;
    if (x->aux & SG_WGMMA_NEGATE_A)
        negate_words(x->f.a, WORDS_A, x->a_words);
    if (x->f.a == SG_MMA_B1) {
        depth = WORDS_A;
        memcpy(x->a, x->a_words, sizeof(x->a_words));
    } else if (!x->sparse && x->f.d == 'i') {
        depth = 2 * WORDS_A;
        pair_words(x->a_words, x->f.a, SG_LANES, x->a);
    } else {
        spread_matrix(x->a_words, x->f.a, WORDS_A, SG_LANES, x->a);
    }
    for (u32 k = 0; k < depth && !x->sparse; k++)
        spread_quads(x->a[k], x->quads[k]);
    return true;
}

/* The same for n columns of b from `first` on, which are rounded up to 32. */
static bool prepare_b(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                      struct product *x, u32 first, u32 n)
{
    const u32 nwords = x->sparse ? SG_WGMMA_MAX_WORDS_K : WORDS_A;

    if (!read_matrix(w, in, m, first, n, nwords, x->words))
        return false;
    n = (n + SG_LANES - 1) & ~(SG_LANES - 1u);
    if (x->aux & SG_WGMMA_NEGATE_B)
        negate_words(x->f.b, nwords, x->words);
    if (!x->sparse && x->f.d == 'i' && x->f.a != SG_MMA_B1)
        pair_words(x->words, x->f.b, n, x->b);
    else if (x->f.a != SG_MMA_B1)
        spread_matrix(x->words, x->f.b, nwords, n, x->b);
    return true;
}

/* True if all 128 threads of the warpgroup exist and the warp runs all its lanes. */
static bool is_warpgroup(const struct sg_warp *w)
{
    return w->mask == SG_FULL && ((w->index | 3) + 1) * SG_LANES <= w->cta->nthreads;
}

HANDLER(wgmma)
{
    const struct sg_matrix_layout mb = sg_matrix_of_wgmma(SRC(u64, a)[0], in->aux & SG_WGMMA_B_MN_MAJOR);
    const struct sg_insn *from = in + 1 + (in->aux & SG_WGMMA_A_REGISTERS ? 1 : 0), *to;
    struct product x; /* most of its 40 KiB stays unused */
    u32 was[SG_WGMMA_MAX_REGS][SG_LANES];

    if (!is_warpgroup(w))
        return sg_fault_set(w, in, (u32)__builtin_ctz(w->mask), SG_ERR_ILLEGAL_INSN,
                            "wgmma without the 128 threads of a warpgroup");
    x.aux = in->aux;
    x.add = PREDV(d) & 1;
    x.sparse = in->aux & SG_WGMMA_SPARSE;
    sg_wgmma_of(in->aux, &x.f);
    to = from + (x.f.nd + 3) / 4;
    x.was = in->aux & SG_WGMMA_REPEATED ? was : NULL;
    for (u32 r = 0; r < x.f.nd && x.was; r++)
        memcpy(was[r], list_register(w, from, r), sizeof(was[r]));
    if (x.sparse)
        memcpy(x.meta, SRC(u32, c), sizeof(x.meta));
    if (!prepare_a(w, in, &x))
        return SG_FAULTED;
    for (u32 first = 0; first < x.f.n; first += BLOCK) {
        const u32 n = x.f.n - first < BLOCK ? x.f.n - first : BLOCK;

        if (!prepare_b(w, in, &mb, &x, first, n))
            return SG_FAULTED;
        for (u32 q = first / 8; q < (first + n) / 8; q++)
            multiply_columns(&x, w, from, to, q);
    }
    return sg_charge(w, in, (u64)x.f.n * 64);
}

#include "exec/wgmma/wgmma.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(wgmma)[] = {
#include "exec/wgmma/wgmma.def"
    {0},
};

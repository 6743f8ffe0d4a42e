/* SPDX-License-Identifier: MIT */
/*
 * Handler: wgmma.mma_async. Four warps execute it, each for its own 16 rows of a and d. No warp needs
 * anything of another, so there is no rendezvous: a warp computes its rows when it arrives. Reading
 * shared memory and writing d at issue is allowed, as the PTX ISA forbids a program to change the one,
 * and to look at the other, before wgmma.wait_group; fence, commit_group and wait_group have nothing to do.
 *
 * Roundings are those of mma.sync: sums ascend in k, in f32, from d on; with a sparse a they are exact
 * and rounded once.
 */
#include "exec/wgmma/wgmma.h"
#include "exec/matrix/mma_element.h"
#include "exec/matrix/mma_sparse.h"
#include "exec/wgmma/descriptor.h"
#include "exec/code.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

#define GROUP(lane) ((lane) >> 2)
#define T(lane) ((lane)&3)
#define ROWS 16u
#define BLOCK 64u  /* columns at a time */
#define WORDS_A 8u /* 32-bit words of a row of a */
#define DEPTH 64u  /* elements of a column, at most; b1 are not spread */

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

/* words[k][column]: 32 bits of the depth of `n` rows of a (columns of b) from `first` on, a multiple of 8.
   Returns false after a fault. */
static bool read_k_major(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                         u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    for (u32 k = 0; k < nwords; k += 4)
        for (u32 c = 0; c < n; c += 4) {
            u32 v[4][4];

            for (u32 i = 0; i < 4; i++) {
                const u8 *p = matrix_bytes(w, in, m, first + c + i, k / 4);

                if (!p)
                    return false;
                memcpy(v[i], p, sizeof(v[i]));
            }
#ifdef __SSE2__
            __m128 a = _mm_loadu_ps((const f32 *)(const void *)v[0]),
                   b = _mm_loadu_ps((const f32 *)(const void *)v[1]);
            __m128 d = _mm_loadu_ps((const f32 *)(const void *)v[2]),
                   e = _mm_loadu_ps((const f32 *)(const void *)v[3]);

            _MM_TRANSPOSE4_PS(a, b, d, e);
            _mm_storeu_ps((f32 *)(void *)&words[k][c], a);
            _mm_storeu_ps((f32 *)(void *)&words[k + 1][c], b);
            _mm_storeu_ps((f32 *)(void *)&words[k + 2][c], d);
            _mm_storeu_ps((f32 *)(void *)&words[k + 3][c], e);
#else
            for (u32 j = 0; j < 4; j++)
                for (u32 i = 0; i < 4; i++)
                    words[k + j][c + i] = v[i][j];
#endif
        }
    return true;
}

/* The same for 16-bit elements that are contiguous along M or N. */
static bool read_mn_major(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                          u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    for (u32 k = 0; k < nwords; k++)
        for (u32 c = 0; c < n; c += 8) {
            const u8 *even = matrix_bytes(w, in, m, (first + c) / 8, 2 * k),
                     *odd = even ? matrix_bytes(w, in, m, (first + c) / 8, 2 * k + 1) : NULL;
            u16 lo[8], hi[8];

            if (!odd)
                return false;
            memcpy(lo, even, sizeof(lo));
            memcpy(hi, odd, sizeof(hi));
            for (u32 i = 0; i < 8; i++)
                words[k][c + i] = lo[i] | (u32)hi[i] << 16;
        }
    return true;
}

static bool read_matrix(struct sg_warp *w, const struct sg_insn *in, const struct sg_matrix_layout *m,
                        u32 first, u32 n, u32 nwords, u32 (*words)[BLOCK])
{
    for (u32 k = 0; k < nwords && n % SG_LANES; k++) /* the rest of 32 columns is computed too */
        memset(&words[k][n], 0, (SG_LANES - n % SG_LANES) * sizeof(u32));
    return m->mn_major ? read_mn_major(w, in, m, first, n, nwords, words)
                       : read_k_major(w, in, m, first, n, nwords, words);
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
            words[T(i) + (r >> 1) * 4][GROUP(i) + (r & 1) * 8] = v[i];
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

/* e4m3 shifted into an f16 has the value times 2^-8. */
static inline void widen_e4m3(const u32 *v, int shift, f32 *dst)
{
    u32 h[SG_LANES];

    LANES h[i] = (v[i] >> shift & 0x80) << 8 | (v[i] >> shift & 0x7f) << 7;
    widen_f16(h, 0, dst);
    LANES dst[i] = (v[i] >> shift & 0x7f) == 0x7f ? f32b(0x7fffffffu) : dst[i] * 256;
}

static inline void widen_e5m2(const u32 *v, int shift, f32 *dst)
{
    u32 h[SG_LANES];

    LANES h[i] = (v[i] >> shift & 0xff) << 8;
    widen_f16(h, 0, dst);
}

/* The elements in a word of each of 32 columns, as f32, which holds all types exactly. */
static void spread_word(const u32 *v, u8 type, f32 (*to)[BLOCK])
{
    switch (type) {
    case SG_MMA_F16:
        widen_f16(v, 0, to[0]);
        widen_f16(v, 16, to[1]);
        break;
    case SG_MMA_BF16:
        widen_bf16(v, 0, to[0]);
        widen_bf16(v, 16, to[1]);
        break;
    case SG_MMA_TF32: /* the low bits are ignored */
        LANES to[0][i] = f32b(v[i] & 0xffffe000u);
        break;
    default:
        for (int p = 0; p < 4; p++)
            switch (type) {
            case SG_MMA_E4M3:
                widen_e4m3(v, 8 * p, to[p]);
                break;
            case SG_MMA_E5M2:
                widen_e5m2(v, 8 * p, to[p]);
                break;
            case SG_MMA_S8:
                LANES to[p][i] = (f32)(s32)(s8)(v[i] >> 8 * p);
                break;
            default:
                LANES to[p][i] = (f32)(s32)(u8)(v[i] >> 8 * p);
                break;
            }
        break;
    }
}

static void spread_matrix(u32 (*words)[BLOCK], u8 type, u32 nwords, u32 n, f32 (*to)[BLOCK])
{
    const u32 per = 32 / sg_wgmma_bits(type);

    for (u32 k = 0; k < nwords; k++)
        for (u32 c = 0; c < n; c += SG_LANES)
            spread_word(&words[k][c], type, (f32(*)[BLOCK])(void *)&to[k * per][c]);
}

/* Two bytes of each word as two 16-bit integers: part 0 the lower ones, 1 the upper ones. */
static inline u32 pair_of(u32 word, u8 type, u32 part)
{
    const u32 v = word >> 16 * part;

    return type == SG_MMA_S8 ? ((u32)(s32)(s8)v & 0xffff) | (u32)(s32)(s8)(v >> 8) << 16
                             : (v & 0xff) | (v & 0xff00) << 8;
}

/* ---- products; d[row][column] of 16 rows and a block of n columns, rounded up to 32 ---- */

#if defined(__AVX512F__)
#define VEC __m512
#define VEC_LANES 16u
#define VEC_LOAD(p) _mm512_loadu_ps(p)
#define VEC_STORE(p, v) _mm512_storeu_ps(p, v)
#define VEC_ONE(x) _mm512_set1_ps(x)
#define VEC_FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define VEC_DOT(a, b, c) \
    _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(c), \
                                         _mm512_madd_epi16(_mm512_castps_si512(a), _mm512_castps_si512(b))))
#elif defined(__AVX2__)
#define VEC __m256
#define VEC_LANES 8u
#define VEC_LOAD(p) _mm256_loadu_ps(p)
#define VEC_STORE(p, v) _mm256_storeu_ps(p, v)
#define VEC_ONE(x) _mm256_set1_ps(x)
#define VEC_FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define VEC_DOT(a, b, c) \
    _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(c), \
                                         _mm256_madd_epi16(_mm256_castps_si256(a), _mm256_castps_si256(b))))
#endif

#ifdef VEC
/* 4 rows and 2 vectors of columns at a time: 8 sums in registers. step: VEC_FMA or VEC_DOT. */
#define PRODUCTS(step) \
    for (u32 c = 0; c < n; c += 2 * VEC_LANES) \
        for (u32 r = 0; r < ROWS; r += 4) { \
            VEC s[4][2]; \
            _Pragma("GCC unroll 4") for (u32 i = 0; i < 4; i++) \
            { \
                s[i][0] = VEC_LOAD(d[r + i] + c); \
                s[i][1] = VEC_LOAD(d[r + i] + c + VEC_LANES); \
            } \
            for (u32 k = 0; k < depth; k++) { \
                const VEC b0 = VEC_LOAD(b[k] + c), b1 = VEC_LOAD(b[k] + c + VEC_LANES); \
                _Pragma("GCC unroll 4") for (u32 i = 0; i < 4; i++) \
                { \
                    const VEC v = VEC_ONE(a[k][r + i]); \
                    s[i][0] = step(v, b0, s[i][0]); \
                    s[i][1] = step(v, b1, s[i][1]); \
                } \
            } \
            _Pragma("GCC unroll 4") for (u32 i = 0; i < 4; i++) \
            { \
                VEC_STORE(d[r + i] + c, s[i][0]); \
                VEC_STORE(d[r + i] + c + VEC_LANES, s[i][1]); \
            } \
        }
#endif

static void float_products(const f32 (*a)[BLOCK], const f32 (*b)[BLOCK], u32 depth, u32 n, f32 (*d)[BLOCK])
{
#ifdef VEC
    PRODUCTS(VEC_FMA)
#else
    for (u32 r = 0; r < ROWS; r++)
        for (u32 k = 0; k < depth; k++)
            SG_VECTOR for (u32 c = 0; c < n; c++) d[r][c] += a[k][r] * b[k][c];
#endif
}

/* a, b: pairs of 16-bit integers, as the bits of an f32. d: s32, likewise. */
static void pair_products(const f32 (*a)[BLOCK], const f32 (*b)[BLOCK], u32 depth, u32 n, f32 (*d)[BLOCK])
{
#ifdef VEC
    PRODUCTS(VEC_DOT)
#else
    for (u32 r = 0; r < ROWS; r++)
        for (u32 k = 0; k < depth; k++)
            SG_VECTOR for (u32 c = 0; c < n; c++)
            {
                const u32 x = b32(a[k][r]), y = b32(b[k][c]);

                d[r][c] =
                    f32b(b32(d[r][c]) + (u32)((s16)x * (s16)y) + (u32)((s16)(x >> 16) * (s16)(y >> 16)));
            }
#endif
}

/* ---- d in registers ---- */

/* d0, d1: the registers of a row, of columns 2 t and 2 t + 1 */
static inline void row_from_lanes(const u32 *d0, const u32 *d1, u32 *row)
{
#ifdef __SSE2__
    const __m128 a = _mm_loadu_ps((const f32 *)(const void *)d0),
                 b = _mm_loadu_ps((const f32 *)(const void *)d1);

    _mm_storeu_ps((f32 *)(void *)row, _mm_unpacklo_ps(a, b));
    _mm_storeu_ps((f32 *)(void *)(row + 4), _mm_unpackhi_ps(a, b));
#else
    for (u32 t = 0; t < 4; t++) {
        row[2 * t] = d0[t];
        row[2 * t + 1] = d1[t];
    }
#endif
}

static inline void row_to_lanes(const u32 *row, u32 *d0, u32 *d1)
{
#ifdef __SSE2__
    const __m128 a = _mm_loadu_ps((const f32 *)(const void *)row),
                 b = _mm_loadu_ps((const f32 *)(const void *)(row + 4));

    _mm_storeu_ps((f32 *)(void *)d0, _mm_shuffle_ps(a, b, 0x88));
    _mm_storeu_ps((f32 *)(void *)d1, _mm_shuffle_ps(a, b, 0xdd));
#else
    for (u32 t = 0; t < 4; t++) {
        d0[t] = row[2 * t];
        d1[t] = row[2 * t + 1];
    }
#endif
}

/* Columns from 8 q on, of all of d; half: f16, which become f32. */
static void read_d(const struct sg_warp *w, const struct sg_insn *list, bool half, u32 q, f32 (*d)[BLOCK])
{
    for (u32 low = 0; low < 2; low++) {
        u32 x[2][SG_LANES];

        if (half) {
            const u32 *v = list_register(w, list, 2 * q + low);

            widen_f16(v, 0, (f32 *)(void *)x[0]);
            widen_f16(v, 16, (f32 *)(void *)x[1]);
        } else {
            memcpy(x[0], list_register(w, list, 4 * q + 2 * low), sizeof(x[0]));
            memcpy(x[1], list_register(w, list, 4 * q + 2 * low + 1), sizeof(x[1]));
        }
        for (u32 g = 0; g < 8; g++)
            row_from_lanes(x[0] + 4 * g, x[1] + 4 * g, (u32 *)(void *)&d[g + 8 * low][q * 8 % BLOCK]);
    }
}

/* type: 'f' and 'h': f32, of which NaNs become PTX's; else bits. */
static void write_d(const struct sg_warp *w, const struct sg_insn *list, u8 type, u32 q, f32 (*d)[BLOCK])
{
    for (u32 low = 0; low < 2; low++) {
        u32 x[2][SG_LANES], lo[SG_LANES], hi[SG_LANES], *v;

        for (u32 g = 0; g < 8; g++)
            row_to_lanes((const u32 *)(const void *)&d[g + 8 * low][q * 8 % BLOCK], x[0] + 4 * g,
                         x[1] + 4 * g);
        if (type == 'h') {
            v = list_register(w, list, 2 * q + low);
            narrow_f16((const f32 *)(const void *)x[0], lo);
            narrow_f16((const f32 *)(const void *)x[1], hi);
            LANES v[i] = lo[i] | hi[i] << 16;
            continue;
        }
        for (u32 p = 0; p < 2; p++) {
            v = list_register(w, list, 4 * q + 2 * low + p);
            if (type == 'f')
                LANES v[i] = (x[p][i] & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : x[p][i];
            else
                LANES v[i] = x[p][i];
        }
    }
}

/* ---- a block of columns ---- */

struct product {
    struct sg_wgmma f;
    u32 aux;
    bool add; /* d is added to, else replaced */
    u32 a_words[WORDS_A][BLOCK];
    f32 a[DEPTH / 2][BLOCK]; /* spread; of integers: pairs */
    const u32 *meta;         /* NULL: a is not sparse */
};

static void float_block(const struct product *x, u32 (*words)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    f32 b[DEPTH / 2][BLOCK];

    spread_matrix(words, x->f.b, WORDS_A, n, b);
    float_products(x->a, (const f32(*)[BLOCK])b, WORDS_A * 32 / sg_wgmma_bits(x->f.b), n, d);
}

static void add_saturated(const struct product *x, f32 (*sum)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    for (u32 r = 0; r < ROWS; r++)
        for (u32 c = 0; c < n; c++) {
            const s64 v = (s64)(s32)b32(d[r][c]) + (s32)b32(sum[r][c]);
            const s64 v1 = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;

            d[r][c] = f32b((u32)(x->aux & SG_WGMMA_SATURATE ? v1 : v));
        }
}

static void byte_block(const struct product *x, u32 (*words)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    const bool saturate = x->aux & SG_WGMMA_SATURATE;
    f32 b[2 * WORDS_A][BLOCK], sum[ROWS][BLOCK];

    for (u32 k = 0; k < WORDS_A; k++)
        for (u32 part = 0; part < 2; part++)
            SG_VECTOR for (u32 c = 0; c < n; c++) b[2 * k + part][c] =
                f32b(pair_of(words[k][c], x->f.b, part));
    if (saturate)
        memset(sum, 0, sizeof(sum));
    pair_products(x->a, (const f32(*)[BLOCK])b, 2 * WORDS_A, n, saturate ? sum : d);
    if (saturate)
        add_saturated(x, sum, n, d);
}

static void bit_block(const struct product *x, u32 (*words)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    for (u32 r = 0; r < ROWS; r++)
        for (u32 k = 0; k < WORDS_A; k++)
            for (u32 c = 0; c < n; c++)
                d[r][c] = f32b(b32(d[r][c]) + (u32)__builtin_popcount(x->a_words[k][r] & words[k][c]));
}

/* b has twice the depth of a; the metadata say which of its rows an element of a is multiplied with. */
static void sparse_block(const struct product *x, u32 (*words)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    const u32 bits = sg_wgmma_bits(x->f.a), kept = WORDS_A * 32 / bits, lanes = bits == 8 ? 4 : 2;
    const u32 selector = x->aux & SG_WGMMA_SELECTOR ? 1 : 0;
    f32 b[DEPTH][BLOCK];

    spread_matrix(words, x->f.b, 2 * WORDS_A, n, b);
    for (u32 r = 0; r < ROWS; r++) {
        f64 sum[BLOCK] = {0};

        for (u32 k = 0; k < kept; k++) {
            const f32 *row = b[sparse_column(bits, lanes, x->meta, selector, r, k)];
            const f64 v = (f64)x->a[k][r];

            SG_VECTOR for (u32 c = 0; c < n; c++) sum[c] += v * (f64)row[c];
        }
        for (u32 c = 0; c < n; c++) {
            const f64 v = (f64)d[r][c] + sum[c];

            if (x->f.d == 'i')
                d[r][c] = f32b(sparse_integer(b32(d[r][c]), sum[c], x->aux & SG_WGMMA_SATURATE));
            else
                d[r][c] = x->f.d == 'h' ? sg_f16_to_f32(sg_f64_to_f16(v, 0)) : (f32)v;
        }
    }
}

static void multiply_block(const struct product *x, u32 (*words)[BLOCK], u32 n, f32 (*d)[BLOCK])
{
    if (x->meta)
        sparse_block(x, words, n, d);
    else if (x->f.a == SG_MMA_B1)
        bit_block(x, words, n, d);
    else if (x->f.d == 'i')
        byte_block(x, words, n, d);
    else
        float_block(x, words, n, d);
}

/* Reads a in the form that the block functions want. Returns false after a fault. */
static bool prepare_a(struct sg_warp *w, const struct sg_insn *in, struct product *x)
{
    if (!read_a(w, in, x->a_words))
        return false;
    if (x->aux & SG_WGMMA_NEGATE_A)
        negate_words(x->f.a, WORDS_A, x->a_words);
    if (x->f.a == SG_MMA_B1)
        return true;
    if (x->meta || x->f.d != 'i') {
        spread_matrix(x->a_words, x->f.a, WORDS_A, SG_LANES, x->a);
        return true;
    }
    for (u32 k = 0; k < WORDS_A; k++)
        for (u32 r = 0; r < ROWS; r++)
            for (u32 part = 0; part < 2; part++)
                x->a[2 * k + part][r] = f32b(pair_of(x->a_words[k][r], x->f.a, part));
    return true;
}

/* True if all 128 threads of the warpgroup exist and the warp runs all its lanes. */
static bool is_warpgroup(const struct sg_warp *w)
{
    return w->mask == SG_FULL && ((w->index | 3) + 1) * SG_LANES <= w->cta->nthreads;
}

HANDLER(wgmma)
{
    const bool sparse = in->aux & SG_WGMMA_SPARSE;
    const u32 nwords = sparse ? SG_WGMMA_MAX_WORDS_K : WORDS_A;
    const struct sg_matrix_layout mb = sg_matrix_of_wgmma(SRC(u64, a)[0], in->aux & SG_WGMMA_B_MN_MAJOR);
    const struct sg_insn *from = in + 1 + (in->aux & SG_WGMMA_A_REGISTERS ? 1 : 0), *to;
    struct product x = {.aux = in->aux, .add = PREDV(d) & 1, .meta = sparse ? SRC(u32, c) : NULL};
    u32 words[SG_WGMMA_MAX_WORDS_K][BLOCK];
    f32 d[256 / BLOCK][ROWS][BLOCK];

    if (!is_warpgroup(w))
        return sg_fault_set(w, in, (u32)__builtin_ctz(w->mask), SG_ERR_ILLEGAL_INSN,
                            "wgmma without the 128 threads of a warpgroup");
    sg_wgmma_of(in->aux, &x.f);
    to = from + (x.f.nd + 3) / 4;
    if (!prepare_a(w, in, &x))
        return SG_FAULTED;
    for (u32 first = 0; first < x.f.n; first += BLOCK) {
        const u32 n = x.f.n - first < BLOCK ? x.f.n - first : BLOCK,
                  whole = (n + SG_LANES - 1) & ~(SG_LANES - 1u);
        f32(*block)[BLOCK] = d[first / BLOCK];

        if (!read_matrix(w, in, &mb, first, n, nwords, words))
            return SG_FAULTED;
        if (in->aux & SG_WGMMA_NEGATE_B)
            negate_words(x.f.b, nwords, words);
        if (!x.add || n < whole)
            memset(block, 0, sizeof(d[0]));
        for (u32 q = first / 8; x.add && q < (first + n) / 8; q++)
            read_d(w, from, x.f.d == 'h', q, block);
        multiply_block(&x, words, whole, block);
    }
    for (u32 q = 0; q < x.f.n / 8; q++)
        write_d(w, to, x.f.d, q, d[q * 8 / BLOCK]);
    return sg_charge(w, in, (u64)x.f.n * 64);
}

#include "exec/wgmma/wgmma.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(wgmma)[] = {
#include "exec/wgmma/wgmma.def"
    {0},
};

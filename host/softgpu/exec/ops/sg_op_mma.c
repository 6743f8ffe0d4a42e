/* SPDX-License-Identifier: MIT */
/*
 * Handlers: mma.sync and wmma. Fragments are expanded to plain matrices by the layouts of the PTX
 * ISA (lane = 4 * group + t), multiplied, and packed again. CUDA leaves the order of additions
 * unspecified; here it is ascending in k, in f32.
 */
#include "exec/matrix/mma_element.h"

#ifdef __AVX2__
#include "exec/matrix/mma_avx2.h"
#ifdef __AVX512F__
#include "exec/matrix/mma_avx512.h"
#define MMA_ALL mma512_all
#else
#define MMA_ALL mma256_all
#endif
#endif

#define GROUP(lane) ((lane) >> 2)
#define T(lane) ((lane)&3)

/* The r-th register of a lane, from the fields d a b c. */
static inline const u32 *fragment_register(const struct sg_warp *w, const struct sg_insn *in, int r)
{
    const u32 op = r == 0 ? in->d : r == 1 ? in->a : r == 2 ? in->b : in->c;

    return sg_src_ptr(w, op);
}

static inline int per_reg(u8 type)
{
    return type == SG_MMA_F16 || type == SG_MMA_BF16 ? 2 : type == SG_MMA_TF32 ? 1 : 4;
}

/*
 * Position of part p of register r of a lane. a: registers alternate between the upper and lower 8
 * rows, then advance in k; b: registers advance in k.
 */
#define A_ROW(f, lane, r) (GROUP(lane) + ((f)->m == 16 && ((r)&1) ? 8 : 0))
#define A_COL(f, lane, r, p, n) (T(lane) * (n) + (p) + ((f)->m == 16 ? (r) >> 1 : (r)) * 4 * (n))
#define B_ROW(lane, r, p, n) (T(lane) * (n) + (p) + (r)*4 * (n))
#define C_ROW(lane, r) (GROUP(lane) + ((r) >> 1) * 8)
#define C_COL(lane, r) (T(lane) * 2 + ((r)&1))

/* The parts of a register, as f32, for all lanes. */
static inline void spread_fragment(const u32 *v, u8 type, f32 part[4][SG_LANES])
{
    switch (type) {
    case SG_MMA_F16:
        widen_f16(v, 0, part[0]);
        widen_f16(v, 16, part[1]);
        break;
    case SG_MMA_BF16:
        widen_bf16(v, 0, part[0]);
        widen_bf16(v, 16, part[1]);
        break;
    case SG_MMA_S8:
        for (int p = 0; p < 4; p++)
            LANES part[p][i] = (f32)(s32)(s8)(v[i] >> (8 * p));
        break;
    case SG_MMA_U8:
        for (int p = 0; p < 4; p++)
            LANES part[p][i] = (f32)(s32)(u8)(v[i] >> (8 * p));
        break;
    default:
        for (int p = 0; p < per_reg(type); p++)
            for (int i = 0; i < SG_LANES; i++)
                part[p][i] = fragment_element(v[i], p, type);
        break;
    }
}

#ifdef __FMA__
#define MAC(a, b, c) __builtin_fmaf(a, b, c)
#else
#define MAC(a, b, c) ((a) * (b) + (c))
#endif

/* c += a * b. Sums of products of bytes stay below 2^24: f32 holds them exactly. */
static inline void multiply_tiles(const struct sg_warp *w, const struct sg_insn *in,
                                  const struct sg_mma_form *f, f32 c[16][8])
{
    const int na = per_reg(f->a), nb = per_reg(f->b), depth = f->k;
    f32 a[16][32], b[32][8], part[4][SG_LANES];

    for (int r = 0; r < f->na; r++) {
        spread_fragment(fragment_register(w, in, r), f->a, part);
        for (int p = 0; p < na; p++)
            for (int i = 0; i < SG_LANES; i++)
                a[A_ROW(f, i, r)][A_COL(f, i, r, p, na)] = part[p][i];
    }
    for (int r = 0; r < f->nb; r++) {
        spread_fragment(fragment_register(w, in + 1, r), f->b, part);
        for (int p = 0; p < nb; p++)
            for (int i = 0; i < SG_LANES; i++)
                b[B_ROW(i, r, p, nb)][GROUP(i)] = part[p][i];
    }
    for (int i = 0; i < f->m; i++) {
        f32 sum[8];

        memcpy(sum, c[i], sizeof(sum));
        for (int k = 0; k < depth; k++)
            SG_VECTOR for (int j = 0; j < 8; j++) sum[j] = MAC(a[i][k], b[k][j], sum[j]);
        memcpy(c[i], sum, sizeof(sum));
    }
}

#ifdef __AVX2__
static void mma_all(const struct mma_regs *x, u8 type, bool half, int nb)
{
    if (half)
        MMA_ALL(x, SG_MMA_F16, true, nb);
    else if (type == SG_MMA_F16)
        MMA_ALL(x, SG_MMA_F16, false, nb);
    else if (type == SG_MMA_BF16)
        MMA_ALL(x, SG_MMA_BF16, false, nb);
    else
        MMA_ALL(x, SG_MMA_TF32, false, nb);
}

static struct mma_regs regs_ab(const struct sg_warp *w, const struct sg_insn *in)
{
    struct mma_regs x;

    for (int r = 0; r < 4; r++)
        x.a[r] = fragment_register(w, in, r);
    for (int r = 0; r < 2; r++)
        x.b[r] = fragment_register(w, in + 1, r);
    return x;
}

/* The whole mma at once, if all lanes run and the processor has the instructions. */
static bool mma_whole(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_form *f)
{
    const bool half = f->c == 'h';
    struct mma_regs x = regs_ab(w, in);

    if (w->wmask != SG_FULL || !mma_float_form(f) || (half ? f->a != SG_MMA_F16 : f->c != 'f'))
        return false;
    for (int r = 0; r < 4; r++) {
        x.c[r] = fragment_register(w, in + 2, r);
        x.d[r] = (u32 *)(uintptr_t)fragment_register(w, in + 3, r);
    }
    mma_all(&x, f->a, half, f->nb);
    return true;
}
#endif

/* The registers of c, as f32, plus a * b. */
static inline void float_tile(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_form *f,
                              f32 x[4][SG_LANES])
{
    f32 c[16][8];

#ifdef __AVX2__
    if (mma_float_form(f)) { /* some lanes get nothing */
        struct mma_regs all = regs_ab(w, in);

        for (int r = 0; r < 4; r++)
            all.c[r] = all.d[r] = (u32 *)(void *)x[r];
        mma_all(&all, f->a, false, f->nb);
        return;
    }
#endif
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < SG_LANES; i++)
            c[C_ROW(i, r)][C_COL(i, r)] = x[r][i];
    multiply_tiles(w, in, f, c);
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < SG_LANES; i++)
            x[r][i] = c[C_ROW(i, r)][C_COL(i, r)];
}

/* Columns t * 2 and t * 2 + 1 of a row form one f16 register or two f32 registers. */
HANDLER(mma_float)
{
    const struct sg_mma_form *f = &sg_mma_forms[in->aux];
    const bool full = f->c == 'f';
    f32 x[4][SG_LANES];
    u32 lo[SG_LANES], hi[SG_LANES];

#ifdef __AVX2__
    if (mma_whole(w, in, f))
        return SG_NEXT;
#endif
    for (int r = 0; r < f->nc; r++) {
        if (full) {
            memcpy(x[r], fragment_register(w, in + 2, r), sizeof(x[r]));
        } else {
            widen_f16(fragment_register(w, in + 2, r), 0, x[2 * r]);
            widen_f16(fragment_register(w, in + 2, r), 16, x[2 * r + 1]);
        }
    }
    float_tile(w, in, f, x);
    for (int r = 0; r < f->nc; r++) {
        u32 *d = (u32 *)(uintptr_t)fragment_register(w, in + 3, r);
        const u32 m = w->wmask;

        if (full) {
            memcpy(lo, x[r], sizeof(lo));
        } else {
            narrow_f16(x[2 * r], lo);
            narrow_f16(x[2 * r + 1], hi);
            LANES lo[i] |= hi[i] << 16;
        }
        LANES d[i] = LANE_ON(u32, m, i) ? lo[i] : d[i];
    }
    return SG_NEXT;
}

#ifdef __AVX2__
__attribute__((always_inline)) static inline void bytes(const struct sg_mma_form *f,
                                                        const struct mma_bytes *x)
{
#ifdef __AVX512F__
    if (f->b == SG_MMA_S8 && __builtin_cpu_supports("avx512vnni")) {
        mma512_bytes(f, x);
        return;
    }
#endif
    mma256_bytes(f, x);
}

static inline void bytes_ab(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_form *f,
                            struct mma_bytes *x)
{
    for (int r = 0; r < f->na; r++)
        x->a[r] = fragment_register(w, in, r);
    for (int r = 0; r < f->nb; r++)
        x->b[r] = fragment_register(w, in + 1, r);
}

/* The whole mma at once, if all lanes run and sums wrap. */
static bool bytes_whole(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_form *f)
{
    struct mma_bytes x;

    if (w->wmask != SG_FULL || in->imm)
        return false;
    bytes_ab(w, in, f, &x);
    for (int r = 0; r < f->nc; r++) {
        x.c[r] = fragment_register(w, in + 2, r);
        x.d[r] = (u32 *)(uintptr_t)fragment_register(w, in + 3, r);
    }
    bytes(f, &x);
    return true;
}
#endif

/* Increments of the registers of c: sums of products of bytes. */
static inline void int_tile(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_form *f,
                            s32 sum[4][SG_LANES])
{
#ifdef __AVX2__
    struct mma_bytes x = {.d = {(u32 *)sum[0], (u32 *)sum[1], (u32 *)sum[2], (u32 *)sum[3]}};

    bytes_ab(w, in, f, &x);
    bytes(f, &x);
#else
    f32 c[16][8];

    memset(c, 0, sizeof(c));
    multiply_tiles(w, in, f, c);
    for (int r = 0; r < f->nc; r++)
        for (int i = 0; i < SG_LANES; i++)
            sum[r][i] = (s32)c[C_ROW(i, r)][C_COL(i, r)];
#endif
}

HANDLER(mma_int)
{
    const struct sg_mma_form *f = &sg_mma_forms[in->aux];
    s32 sum[4][SG_LANES];

#ifdef __AVX2__
    if (bytes_whole(w, in, f))
        return SG_NEXT;
#endif
    int_tile(w, in, f, sum);
    if (in->imm)
        for (int r = 0; r < f->nc; r++) {
            const u32 *pc = fragment_register(w, in + 2, r);

            for (int i = 0; i < SG_LANES; i++) {
                const s64 v = (s64)(s32)pc[i] + sum[r][i];

                sum[r][i] = (s32)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
            }
        }
    else
        for (int r = 0; r < f->nc; r++) {
            const u32 *pc = fragment_register(w, in + 2, r);

            LANES sum[r][i] = (s32)(pc[i] + (u32)sum[r][i]);
        }
    for (int r = 0; r < f->nc; r++) {
        u32 *d = (u32 *)(uintptr_t)fragment_register(w, in + 3, r);
        const u32 m = w->wmask;

        LANES d[i] = LANE_ON(u32, m, i) ? (u32)sum[r][i] : d[i];
    }
    return SG_NEXT;
}

/* m8n8k4 */
HANDLER(mma_f64)
{
    const f64 *pa = sg_src_ptr(w, in->d), *pb = sg_src_ptr(w, in[1].d);
    const f64 *pc[2] = {sg_src_ptr(w, in[2].d), sg_src_ptr(w, in[2].a)};
    f64 *pd[2] = {(f64 *)(void *)(w->base[0] + in[3].d), (f64 *)(void *)(w->base[0] + in[3].a)};
    f64 c[8][8];

    for (int i = 0; i < SG_LANES; i++)
        for (int r = 0; r < 2; r++) {
            const int row = GROUP(i), col = T(i) * 2 + r;
            f64 v = pc[r][i];

            for (int k = 0; k < 4; k++)
                v = __builtin_fma(pa[row * 4 + k], pb[col * 4 + k], v);
            c[row][col] = v;
        }
    for (int i = 0; i < SG_LANES; i++)
        for (int r = 0; r < 2; r++)
            if (w->wmask >> i & 1)
                pd[r][i] = c[GROUP(i)][T(i) * 2 + r];
    return SG_NEXT;
}

/* ---- wmma ---- */

/* Register r of operand list that begins with the ext at in. */
static inline u32 *wmma_register(const struct sg_warp *w, const struct sg_insn *in, u32 r)
{
    return (u32 *)(uintptr_t)fragment_register(w, in + r / 4, (int)(r % 4));
}

static inline u32 wmma_next_count(const struct sg_wmma *x)
{
    return (x->nregs + 3) / 4;
}

/* Bits of element j of a lane. */
static u32 frag_get(const struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 j, u32 bytes)
{
    const u32 per = 4 / bytes, v = wmma_register(w, in, j / per)[lane];

    return bytes == 4 ? v : v >> (8 * bytes * (j % per)) & ((1u << 8 * bytes) - 1);
}

static void frag_put(const struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 j, u32 bytes, u32 v)
{
    const u32 per = 4 / bytes, shift = 8 * bytes * (j % per);
    u32 *p = &wmma_register(w, in, j / per)[lane];
    const u32 mask = bytes == 4 ? SG_FULL : ((1u << 8 * bytes) - 1) << shift;

    *p = (*p & ~mask) | (v << shift & mask);
}

static int wmma_move(struct sg_warp *w, const struct sg_insn *in, bool load)
{
    const u32 aux = in->aux;
    const struct sg_wmma x = sg_wmma_of(SG_WMMA_SHAPE(aux), SG_WMMA_WHICH(aux), SG_WMMA_TYPE(aux));
    const u32 bytes = sg_wmma_bytes(x.type), each = x.rows * x.cols / SG_LANES;
    const u32 room = x.nregs * 4 / bytes;

    for (u32 lane = 0; lane < SG_LANES; lane++) {
        const u64 base = SRC(u64, a)[lane] + (u64)in->imm;
        const u32 stride = SRC(u32, b)[lane];

        if (!(w->mask >> lane & 1))
            continue;
        for (u32 j = 0; j < each; j++) {
            const u32 e = lane * each + j, row = e / x.cols, col = e % x.cols;
            const u64 at = SG_WMMA_COL(aux) ? (u64)col * stride + row : (u64)row * stride + col;
            u32 local, v = 0;
            void *p = sg_resolve(w, in, lane, (enum sg_space)SG_WMMA_SPACE(aux), base + at * bytes, bytes,
                                 bytes, !load, &local);

            if (!p)
                return SG_FAULTED;
            if (local)
                return sg_fault_addr(w, in, lane, 717, SG_SP_LOCAL, base, bytes, !load);
            if (load) {
                memcpy(&v, p, bytes);
                for (u32 k = j; k < room; k += each)
                    frag_put(w, in + 1, lane, k, bytes, v);
            } else {
                v = frag_get(w, in + 1, lane, j, bytes);
                memcpy(p, &v, bytes);
            }
        }
    }
    return SG_NEXT;
}

HANDLER(wmma_load)
{
    return wmma_move(w, in, true);
}

HANDLER(wmma_store)
{
    return wmma_move(w, in, false);
}

static f64 wmma_value(u32 v, u8 type)
{
    f32 f;

    switch (type) {
    case SG_MMA_S8:
        return (f64)(s8)v;
    case SG_MMA_U8:
        return (f64)(u8)v;
    case 'i':
        return (f64)(s32)v;
    case 'h':
        return (f64)sg_f16_to_f32((u16)v);
    case 'f':
        memcpy(&f, &v, 4);
        return (f64)f;
    default:
        return (f64)fragment_element(v, 0, type);
    }
}

HANDLER(wmma_mma)
{
    const u32 shape = in->aux & 15;
    const struct sg_wmma a = sg_wmma_of(shape, 'a', (u8)in->imm);
    const struct sg_wmma b = sg_wmma_of(shape, 'b', (u8)(in->imm >> 8));
    const struct sg_wmma c = sg_wmma_of(shape, 'c', (u8)(in->imm >> 16));
    const struct sg_wmma d = sg_wmma_of(shape, 'c', (u8)(in->imm >> 24));
    const struct sg_insn *ia = in + 1, *ib = ia + wmma_next_count(&a), *ic = ib + wmma_next_count(&b),
                         *id = ic + wmma_next_count(&c);
    f32 ma[32 * 16], mb[16 * 32];
    u32 out[SG_LANES * 8];

    /* bytes and halves are exact in f32, and so are sums of products of bytes in f64 */
    for (u32 e = 0; e < a.rows * a.cols; e++) {
        const u32 each = a.rows * a.cols / SG_LANES;

        ma[e] = (f32)wmma_value(frag_get(w, ia, e / each, e % each, sg_wmma_bytes(a.type)), a.type);
    }
    for (u32 e = 0; e < b.rows * b.cols; e++) {
        const u32 each = b.rows * b.cols / SG_LANES;

        mb[e] = (f32)wmma_value(frag_get(w, ib, e / each, e % each, sg_wmma_bytes(b.type)), b.type);
    }
    for (u32 e = 0; e < c.rows * c.cols; e++) {
        const u32 each = c.rows * c.cols / SG_LANES, row = e / c.cols, col = e % c.cols;
        f64 v = wmma_value(frag_get(w, ic, e / each, e % each, sg_wmma_bytes(c.type)), c.type);
        f32 f;

        for (u32 k = 0; k < a.cols; k++)
            v += (f64)ma[row * a.cols + k] * (f64)mb[k * b.cols + col];
        if (d.type == 'i') {
            if (in->aux & 16)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            out[e] = (u32)(s64)v;
        } else if (d.type == 'h') {
            out[e] = sg_f64_to_f16(v, 0);
        } else {
            f = (f32)v;
            memcpy(&out[e], &f, 4);
            out[e] = f != f ? 0x7fffffffu : out[e];
        }
    }
    for (u32 e = 0; e < d.rows * d.cols; e++) {
        const u32 each = d.rows * d.cols / SG_LANES, lane = e / each;

        if (w->wmask >> lane & 1)
            frag_put(w, id, lane, e % each, sg_wmma_bytes(d.type), out[e]);
    }
    return SG_NEXT;
}

/* The operands of the instruction before; nothing to do. */
HANDLER(ext)
{
    (void)w;
    (void)in;
    return SG_NEXT;
}

#include "exec/ops/mma.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(mma)[] = {
#include "exec/ops/mma.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/*
 * Handlers: matrix instructions that are rare: f64 with 16 rows, f64 fragments of wmma in memory,
 * elements of 4 and 1 bits, a sparse a, and scales. Layouts: PTX ISA 9.7.14 (lane = 4 * group + t).
 */
#include "exec/matrix/mma_element.h"
#include "exec/matrix/mma_sparse.h"
#include "exec/code.h"

#define GROUP(lane) ((lane) >> 2)
#define T(lane) ((lane)&3)

/* Register r of the operand whose registers begin at in, four to an instruction: d a b c. */
static inline const void *fragment_register(const struct sg_warp *w, const struct sg_insn *in, u32 r)
{
    const struct sg_insn *x = in + r / 4;

    r &= 3;
    return sg_src_ptr(w, r == 0 ? x->d : r == 1 ? x->a : r == 2 ? x->b : x->c);
}

/* m16n8k4, k8, k16: aux is k. a: k / 2 registers, b: k / 4, c and d: 4 */
HANDLER(mma_f64_m16)
{
    const u32 k = in->aux;
    const struct sg_insn *ib = in + (k / 2 + 3) / 4, *ic = ib + 1, *id = ic + 1;
    f64 a[16][16], b[16][8], out[4][SG_LANES];

    for (int i = 0; i < SG_LANES; i++) {
        for (u32 r = 0; r < k / 2; r++)
            a[GROUP(i) + (r & 1 ? 8 : 0)][T(i) + r / 2 * 4] = ((const f64 *)fragment_register(w, in, r))[i];
        for (u32 r = 0; r < k / 4; r++)
            b[T(i) + r * 4][GROUP(i)] = ((const f64 *)fragment_register(w, ib, r))[i];
    }
    for (int i = 0; i < SG_LANES; i++)
        for (u32 r = 0; r < 4; r++) {
            f64 v = ((const f64 *)fragment_register(w, ic, r))[i];

            for (u32 x = 0; x < k; x++)
                v = __builtin_fma(a[GROUP(i) + (r & 2 ? 8 : 0)][x], b[x][T(i) * 2 + (int)(r & 1)], v);
            out[r][i] = v;
        }
    for (u32 r = 0; r < 4; r++) {
        f64 *d = (f64 *)(uintptr_t)fragment_register(w, id, r);

        for (int i = 0; i < SG_LANES; i++)
            if (w->wmask >> i & 1)
                d[i] = out[r][i];
    }
    return SG_NEXT;
}

/* m8n8k4 in memory, in the layout of mma: a, address; b, stride; c and e, the registers. */
static int f64_move(struct sg_warp *w, const struct sg_insn *in, bool load)
{
    const char which = SG_WMMA_WHICH(in->aux);
    const u32 n = which == 'c' ? 2 : 1, field[2] = {in->c, in->e};

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 lane = (u32)__builtin_ctz(m);
        const u64 base = SRC(u64, a)[lane] + (u64)in->imm, stride = SRC(u32, b)[lane];

        for (u32 r = 0; r < n; r++) {
            const u64 row = which == 'b' ? T(lane) : GROUP(lane);
            const u64 col = which == 'a' ? T(lane) : which == 'b' ? GROUP(lane) : T(lane) * 2 + r;
            const u64 at = base + 8 * (SG_WMMA_COL(in->aux) ? col * stride + row : row * stride + col);
            u32 local;
            f64 *x = (f64 *)(uintptr_t)sg_src_ptr(w, field[r]) + lane;
            f64 *p = sg_resolve(w, in, lane, (enum sg_space)SG_WMMA_SPACE(in->aux), at, 8, 8, !load, &local);

            if (!p)
                return SG_FAULTED;
            if (local)
                return sg_fault_addr(w, in, lane, SG_ERR_ADDRESS_SPACE, SG_SP_LOCAL, at, 8, !load);
            if (load)
                *x = *p;
            else
                *p = *x;
        }
    }
    return SG_NEXT;
}

HANDLER(wmma_load_f64)
{
    return f64_move(w, in, true);
}

HANDLER(wmma_store_f64)
{
    return f64_move(w, in, false);
}

/* m8n8k32 and m8n8k128 in memory: 32 bits of a row of a (column of b), or two numbers of c. */
static int sub_move(struct sg_warp *w, const struct sg_insn *in, bool load)
{
    const char which = SG_WMMA_WHICH(in->aux);
    const u32 n = which == 'c' ? 2 : 1, field[2] = {in->c, in->e};
    const u32 bits = SG_WMMA_TYPE(in->aux) ? 1 : 4; /* type: 1 for one-bit elements */

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 lane = (u32)__builtin_ctz(m);
        const u64 base = SRC(u64, a)[lane], stride = SRC(u32, b)[lane];

        for (u32 r = 0; r < n; r++) {
            const u64 row = GROUP(lane), col = T(lane) * 2 + r;
            const u64 at = base + (which != 'c'           ? row * stride * bits / 8 + T(lane) * 4
                                   : SG_WMMA_COL(in->aux) ? 4 * (col * stride + row)
                                                          : 4 * (row * stride + col));
            u32 local;
            u32 *x = (u32 *)(uintptr_t)sg_src_ptr(w, field[r]) + lane;
            u32 *p = sg_resolve(w, in, lane, (enum sg_space)SG_WMMA_SPACE(in->aux), at, 4, 4, !load, &local);

            if (!p)
                return SG_FAULTED;
            if (local)
                return sg_fault_addr(w, in, lane, SG_ERR_ADDRESS_SPACE, SG_SP_LOCAL, at, 4, !load);
            if (load)
                *x = *p;
            else
                *p = *x;
        }
    }
    return SG_NEXT;
}

HANDLER(wmma_load_sub)
{
    return sub_move(w, in, true);
}

HANDLER(wmma_store_sub)
{
    return sub_move(w, in, false);
}

/* Product of 8 elements of 4 bits, or of 32 of 1 bit. */
static s32 dot_product(u32 a, u32 b, u32 aux)
{
    s32 sum = 0;

    if (aux & SG_SUB_B1)
        return __builtin_popcount(aux & SG_SUB_XOR ? a ^ b : a & b);
    for (u32 k = 0; k < 32; k += 4) {
        const s32 x = (s32)(a >> k & 15), y = (s32)(b >> k & 15);

        sum += (aux & SG_SUB_A_SIGNED && x > 7 ? x - 16 : x) * (aux & SG_SUB_B_SIGNED && y > 7 ? y - 16 : y);
    }
    return sum;
}

/* a: one register per 8 rows and 32 bits of depth, in each lane */
HANDLER(mma_sub)
{
    const u32 aux = in->aux, tall = aux & SG_SUB_TALL ? 2 : 1, depth = aux & SG_SUB_DEEP ? 2 : 1;
    u32 out[4][SG_LANES];

    for (int i = 0; i < SG_LANES; i++)
        for (u32 r = 0; r < 2 * tall; r++) {
            const u32 row = (u32)GROUP(i), col = (u32)T(i) * 2 + (r & 1), half = r >> 1;
            s64 v = (s32)((const u32 *)fragment_register(w, in + 2, r))[i];

            for (u32 h = 0; h < depth; h++) {
                const u32 *a = fragment_register(w, in, h * tall + half),
                          *b = fragment_register(w, in + 1, h);

                for (u32 t = 0; t < 4; t++)
                    v += dot_product(a[row * 4 + t], b[col * 4 + t], aux);
            }
            if (in->imm)
                v = v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v;
            out[r][i] = (u32)v;
        }
    for (u32 r = 0; r < 2 * tall; r++) {
        u32 *d = (u32 *)(uintptr_t)fragment_register(w, in + 3, r);

        for (int i = 0; i < SG_LANES; i++)
            if (w->wmask >> i & 1)
                d[i] = out[r][i];
    }
    return SG_NEXT;
}

/* ---- a sparse a, scales ---- */

static u32 wide_bits(u8 type)
{
    switch (type) {
    case SG_MMA_F16:
    case SG_MMA_BF16:
        return 16;
    case SG_MMA_TF32:
        return 32;
    case SG_MMA_S4:
    case SG_MMA_U4:
    case SG_MMA_E2M1_PACKED:
        return 4;
    default:
        return 8;
    }
}

static f64 wide_element(u32 v, u32 part, u8 type)
{
    const u32 four = v >> (part * 4 & 31) & 15;

    switch (type) {
    case SG_MMA_S8:
        return (s8)(v >> part * 8);
    case SG_MMA_U8:
        return (u8)(v >> part * 8);
    case SG_MMA_S4:
        return four > 7 ? (f64)four - 16 : (f64)four;
    case SG_MMA_U4:
        return (f64)four;
    case SG_MMA_E2M1_PACKED: /* e2m3 with two zeros behind */
        return (f64)from_six_bits(four << 2, 3, 1);
    default:
        return (f64)fragment_element(v, (int)part, type);
    }
}

/* The n scales of a row of a (column of b) that lane has in the registers of list x: scale, byte and lane selector. */
static void wide_scales(const struct sg_warp *w, const struct sg_insn *x, u32 lane, u32 n, bool ue4m3,
                        f64 scale[4])
{
    const u32 byte = ((const u32 *)fragment_register(w, x, 1))[lane];

    for (u32 s = 0; s < n; s++) {
        const u32 v = ((const u32 *)fragment_register(w, x, 0))[lane] >> ((byte + s) % 4 * 8) & 255;

        scale[s] = ue4m3 ? (f64)from_e4m3(v & 127) : v == 255 ? __builtin_nan("") : ldexp(1.0, (int)v - 127);
    }
}

/* The lane with the scales of a row (column) of those four lanes that have its elements. */
static u32 scale_lane(const struct sg_warp *w, const struct sg_insn *x, u32 quad, u32 step, u32 low)
{
    const u32 selector = ((const u32 *)fragment_register(w, x, 2))[4 * quad];

    return 4 * quad + ((selector * step + low) & 3);
}

/* Matrices of a product, in f64, where all products and scaled elements are exact. */
struct wide_product {
    f64 a[16][64], b[128][8];
    u8 column[16][64]; /* of an element of a: its row of b */
    u32 kept;          /* elements of a row of a */
};

static void wide_spread(const struct sg_warp *w, const struct sg_insn *in, const struct sg_mma_wide *f,
                        struct wide_product *p)
{
    const struct sg_insn *next = in + 3;
    const u32 *meta = f->lanes ? fragment_register(w, next++, 0) : NULL;
    const u32 per = 32 / wide_bits(f->a), scales = SG_WIDE_SCALES(in->aux);
    const bool ue4m3 = SG_WIDE_UE4M3(in->aux);
    f64 scale[4];

    p->kept = f->lanes ? f->k / 2u : f->k;
    for (u32 i = 0; i < SG_LANES; i++) {
        for (u32 r = 0; r < f->na; r++)
            for (u32 e = 0; e < per; e++)
                p->a[GROUP(i) + (r & 1) * 8][(T(i) + (r >> 1) * 4) * per + e] =
                    wide_element(((const u32 *)fragment_register(w, in, r))[i], e, f->a);
        for (u32 r = 0; r < f->nb; r++)
            for (u32 e = 0; e < per; e++)
                p->b[(T(i) + r * 4) * per + e][GROUP(i)] =
                    wide_element(((const u32 *)fragment_register(w, in + 1, r))[i], e, f->b);
    }
    for (u32 row = 0; row < 16; row++)
        for (u32 c = 0; c < p->kept; c++)
            p->column[row][c] =
                (u8)(meta ? sparse_column(wide_bits(f->a), f->lanes, meta, SG_WIDE_SELECTOR(in->aux), row, c)
                          : c);
    if (!scales)
        return;
    for (u32 row = 0; row < 16; row++) {
        wide_scales(w, next, scale_lane(w, next, row & 7, 2, row >> 3), scales, ue4m3, scale);
        for (u32 c = 0; c < p->kept; c++)
            p->a[row][c] *= scale[p->column[row][c] / (f->k / scales)];
    }
    next++;
    for (u32 col = 0; col < 8; col++) {
        wide_scales(w, next, scale_lane(w, next, col, 1, 0), scales, ue4m3, scale);
        for (u32 k = 0; k < f->k; k++)
            p->b[k][col] *= scale[k / (f->k / scales)];
    }
}

/* The number that replaces c: c plus sum, rounded once. */
static u32 wide_result(u32 c, f64 sum, u8 type, bool saturate)
{
    f32 f;

    if (type == 'i')
        return sparse_integer(c, sum, saturate);
    if (type == 'h')
        return sg_f64_to_f16((f64)sg_f16_to_f32((u16)c) + sum, 0);
    f = (f32)((f64)f32b(c) + sum);
    return f != f ? 0x7fffffffu : b32(f);
}

HANDLER(mma_wide)
{
    const struct sg_mma_wide *f = &sg_mma_wide_forms[in->aux & 255];
    const struct sg_insn *ic = in + 2, *id = in + 3 + (f->lanes != 0) + (SG_WIDE_SCALES(in->aux) ? 2 : 0);
    u32 out[4][SG_LANES];
    struct wide_product p;

    wide_spread(w, in, f, &p);
    for (u32 i = 0; i < SG_LANES; i++) {
        u32 v[4];

        for (u32 r = 0; r < 4; r++) {
            const u32 row = GROUP(i) + (r & 2 ? 8 : 0), col = T(i) * 2 + (r & 1);
            const u32 reg = f->c == 'h' ? r / 2 : r, shift = f->c == 'h' ? r % 2 * 16 : 0;
            f64 sum = 0.0;

            for (u32 c = 0; c < p.kept; c++)
                sum += p.a[row][c] * p.b[p.column[row][c]][col];
            v[r] = wide_result(((const u32 *)fragment_register(w, ic, reg))[i] >> shift, sum, f->c,
                               in->imm != 0);
        }
        for (u32 r = 0; r < f->nc; r++)
            out[r][i] = f->c == 'h' ? v[2 * r] | v[2 * r + 1] << 16 : v[r];
    }
    for (u32 r = 0; r < f->nc; r++) {
        u32 *d = (u32 *)(uintptr_t)fragment_register(w, id, r);

        for (int i = 0; i < SG_LANES; i++)
            if (w->wmask >> i & 1)
                d[i] = out[r][i];
    }
    return SG_NEXT;
}

#include "exec/ops/mma_rare.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_mma2[] = {
#include "exec/ops/mma_rare.def"
    {0},
};

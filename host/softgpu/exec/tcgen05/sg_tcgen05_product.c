/* SPDX-License-Identifier: MIT */
/*
 * Handler: tcgen05.mma of one block. A single thread issues it for the block, so that it is computed whole, at once
 * (sg_tcgen05_memory.c says why that is allowed). Roundings are those of mma.sync: sums ascend in k, in
 * f32, from d on.
 */
#include "exec/tcgen05/memory.h"
#include "exec/matrix/mma_element.h"

#define ROWS 128u
#define COLUMNS 256u
#define BYTES 32u /* of the depth of a row */

struct operand {
    u8 type;
    bool mn_major, negate;
    u32 n;                  /* rows of a, columns of b */
    u8 raw[COLUMNS][BYTES]; /* elements of 4 and 6 bits in bytes */
    f32 v[BYTES][COLUMNS];  /* by depth; of i8: the bits of an s32 */
};

struct product {
    struct sg_tensor_product p;
    struct operand a, b;
};

/* ---- the descriptor of the instruction ---- */

/* Elements' type by its number in the descriptor; false: none. */
static bool type_of(u32 kind, u32 number, u8 *type)
{
    static const u8 types[SG_TK_COUNT][8] = {[SG_TK_F16] = {SG_MMA_F16 + 1, SG_MMA_BF16 + 1},
                                             [SG_TK_TF32] = {0, 0, SG_MMA_TF32 + 1},
                                             [SG_TK_F8F6F4] = {SG_MMA_E4M3 + 1, SG_MMA_E5M2 + 1, 0,
                                                               SG_MMA_E2M3 + 1, SG_MMA_E3M2 + 1,
                                                               SG_MMA_E2M1 + 1},
                                             [SG_TK_I8] = {SG_MMA_U8 + 1, SG_MMA_S8 + 1}};

    *type = (u8)(types[kind][number] - 1);
    return types[kind][number] != 0;
}

/* Bits of an element in shared memory. */
static u32 bits_of(u8 type)
{
    switch (type) {
    case SG_MMA_F16:
    case SG_MMA_BF16:
        return 16;
    case SG_MMA_TF32:
        return 32;
    case SG_MMA_E2M3:
    case SG_MMA_E3M2:
        return 6;
    case SG_MMA_E2M1:
        return 4;
    default:
        return 8;
    }
}

static bool product_of(u32 kind, u32 v, struct sg_tensor_product *p)
{
    static const char sums[] = "hfi?";
    const bool integer = kind == SG_TK_I8;

    *p = (struct sg_tensor_product){.m = (v >> 24 & 31) * 16,
                                    .n = (v >> 17 & 63) * 8,
                                    .d = (u8)sums[v >> 4 & 3],
                                    .mn_a = v >> 15 & 1,
                                    .mn_b = v >> 16 & 1,
                                    .negate_a = v >> 13 & 1,
                                    .negate_b = v >> 14 & 1,
                                    .saturate = v >> 3 & 1};
    if (!type_of(kind, v >> 7 & 7, &p->a) || !type_of(kind, v >> 10 & 7, &p->b))
        return false;
    if (p->d == 'h' ? kind == SG_TK_TF32 || p->a == SG_MMA_BF16 || p->b == SG_MMA_BF16 : p->d == '?')
        return false;
    /* sparse, reserved, shifts of .ws */
    if ((v & 0xe0800047u) || (p->d == 'i') != integer || (integer ? p->negate_a || p->negate_b : p->saturate))
        return false;
    if ((p->mn_a && bits_of(p->a) < 8) || (p->mn_b && bits_of(p->b) < 8))
        return false;
    return (p->m == 64 || p->m == 128) && p->n >= 8 && p->n <= COLUMNS &&
           (!integer || p->n % 16 == 0 || p->n == 8 || p->n == 24);
}

/* ---- operands ---- */

/* False: faulted. */
static bool read_shared(struct sg_warp *w, const struct sg_insn *in, u32 lane, u64 descriptor,
                        struct operand *x)
{
    const u32 bits = bits_of(x->type), size = bits < 8 ? 1 : bits / 8, per = SG_MATRIX_ROW / size;
    struct sg_tensor_layout l;

    if (!sg_matrix_of_tcgen05(descriptor, x->mn_major, &l)) {
        sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN, "tcgen05.mma: no descriptor of a matrix");
        return false;
    }
    for (u32 i = 0; i < x->n && !x->mn_major; i++)
        for (u32 k = 0; k < BYTES / SG_MATRIX_ROW; k++) {
            const u8 *from = tensor_shared(w, in, lane, sg_tensor_offset(&l, i, k));

            if (!from)
                return false;
            if (bits < 8)
                tensor_unpack(from, bits, x->raw[i] + k * SG_MATRIX_ROW);
            else
                memcpy(x->raw[i] + k * SG_MATRIX_ROW, from, SG_MATRIX_ROW);
        }
    for (u32 k = 0; k < BYTES / size && x->mn_major; k++)
        for (u32 i = 0; i < x->n; i += per) {
            const u8 *from = tensor_shared(w, in, lane, sg_tensor_offset(&l, i / per, k));

            if (!from)
                return false;
            for (u32 e = 0; e < per && i + e < x->n; e++)
                memcpy(x->raw[i + e] + k * size, from + e * size, size);
        }
    return true;
}

/* Lane of row r of a matrix that begins at lane `first`: 64 rows are 16 in each quarter. */
static inline u32 lane_of(u32 m, u32 first, u32 r)
{
    return first + (m == 64 ? r / 16 * 32 + r % 16 : r);
}

/* Checks the place of a matrix of m rows in tensor memory. False: faulted. */
static bool place_fits(struct sg_warp *w, const struct sg_insn *in, u32 lane, u32 at, u32 m, u32 columns)
{
    const u32 first = TENSOR_LANE(at);

    if ((first == 0 || (first == 16 && m == 64)) && tensor_has(w->cta, TENSOR_COLUMN(at), columns))
        return true;
    tensor_fault(w, in, lane);
    return false;
}

/* The elements of 32 rows, of which word j of the depth is in v, as f32. */
static void spread_words(const struct operand *x, const f32 *table, const u32 *v, u32 j, u32 row,
                         struct operand *to)
{
    switch (x->type) {
    case SG_MMA_F16:
        widen_f16(v, 0, &to->v[2 * j][row]);
        widen_f16(v, 16, &to->v[2 * j + 1][row]);
        break;
    case SG_MMA_BF16:
        widen_bf16(v, 0, &to->v[2 * j][row]);
        widen_bf16(v, 16, &to->v[2 * j + 1][row]);
        break;
    case SG_MMA_TF32: /* the low bits are ignored */
        LANES to->v[j][row + (u32)i] = f32b(v[i] & 0xffffe000u);
        break;
    default:
        for (u32 p = 0; p < 4; p++)
            LANES to->v[4 * j + p][row + (u32)i] = table[v[i] >> 8 * p & 255];
        break;
    }
}

/* raw as numbers by depth. Returns the depth. */
static u32 spread_operand(struct operand *x)
{
    const bool integer = x->type == SG_MMA_S8 || x->type == SG_MMA_U8;
    const u32 bits = bits_of(x->type), depth = bits <= 8 ? BYTES : BYTES * 8 / bits;
    f32 table[256];

    for (u32 b = 0; b < 256 && bits <= 8; b++)
        table[b] =
            integer ? f32b(x->type == SG_MMA_S8 ? (u32)(s32)(s8)b : b) : fragment_element(b, 0, x->type);
    for (u32 row = 0; row < x->n; row += SG_LANES)
        for (u32 j = 0; j < BYTES / 4; j++) {
            u32 v[SG_LANES];

            for (u32 i = 0; i < SG_LANES; i++)
                memcpy(&v[i], x->raw[row + i] + 4 * j, 4);
            spread_words(x, table, v, j, row, x);
        }
    for (u32 k = 0; k < depth && x->negate; k++)
        SG_VECTOR for (u32 i = 0; i < COLUMNS; i++) x->v[k][i] = -x->v[k][i];
    return depth;
}

/* ---- products of 4 rows ---- */

typedef f32 floats __attribute__((vector_size(32), aligned(4), may_alias));
typedef u32 words __attribute__((vector_size(32), aligned(4), may_alias));

#define PRODUCT_ROWS(name, V, T, bits) \
    static void name(const struct product *x, u32 first, u32 depth, u32(*d)[COLUMNS]) \
    { \
        for (u32 c = 0; c < x->p.n; c += 8) { \
            V s[4]; \
            for (u32 i = 0; i < 4; i++) \
                s[i] = *(const V *)(const void *)&d[i][c]; \
            for (u32 k = 0; k < depth; k++) { \
                const V b = *(const V *)(const void *)&x->b.v[k][c]; \
                for (u32 i = 0; i < 4; i++) \
                    s[i] += b * bits(x->a.v[k][first + i]); \
            } \
            for (u32 i = 0; i < 4; i++) \
                *(V *)(void *)&d[i][c] = s[i]; \
        } \
    }
#define ITSELF(x) (x)
PRODUCT_ROWS(float_rows, floats, f32, ITSELF)
PRODUCT_ROWS(integer_rows, words, u32, b32)

/* d as it is before; false: it begins at 0. scale: what it is multiplied with. */
static void read_row(const struct product *x, bool added, f32 scale, const u32 *from, u32 *d)
{
    if (!added || (x->p.saturate && x->p.d == 'i'))
        memset(d, 0, x->p.n * sizeof(*d));
    else if (x->p.d == 'i')
        memcpy(d, from, x->p.n * sizeof(*d));
    else
        for (u32 c = 0; c < x->p.n; c++)
            d[c] = b32((x->p.d == 'h' ? sg_f16_to_f32((u16)from[c]) : f32b(from[c])) * scale);
}

static void write_row(const struct product *x, bool added, const u32 *d, u32 *to)
{
    for (u32 c = 0; c < x->p.n; c++) {
        const s64 sum = (s64)(s32)d[c] + (added ? (s32)to[c] : 0);

        if (x->p.d == 'i')
            to[c] = !x->p.saturate ? d[c]
                                   : (u32)(sum > INT32_MAX   ? INT32_MAX
                                           : sum < INT32_MIN ? INT32_MIN
                                                             : sum);
        else if (x->p.d == 'h')
            to[c] = sg_f32_to_f16(f32b(d[c]), 0) & 0xffff;
        else
            to[c] = (d[c] & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : d[c];
    }
}

/* One thread's product. False: faulted. */
static bool product_run(struct sg_warp *w, const struct sg_insn *in, u32 lane, struct product *x)
{
    const u32 at = SRC(u32, d)[lane], first = TENSOR_LANE(at);
    const bool added = PREDV(e) >> lane & 1;
    const f32 scale = ldexpf(1, -(int)SG_TENSOR_SCALE(in->aux));
    u32 keep[4] = {0, 0, 0, 0}, depth;

    if (!product_of(SG_TENSOR_KIND(in->aux), SRC(u32, c)[lane], &x->p)) {
        sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN,
                     "tcgen05.mma: no descriptor of this kind of instruction");
        return false;
    }
    x->a.type = x->p.a;
    x->a.mn_major = x->p.mn_a;
    x->a.negate = x->p.negate_a;
    x->a.n = x->p.m;
    x->b.type = x->p.b;
    x->b.mn_major = x->p.mn_b;
    x->b.negate = x->p.negate_b;
    x->b.n = x->p.n;
    if (!place_fits(w, in, lane, at, x->p.m, x->p.n))
        return false;
    if (in->aux & SG_TENSOR_A) {
        const u32 from = SRC(u32, a)[lane];

        if (!place_fits(w, in, lane, from, x->p.m, BYTES / 4))
            return false;
        for (u32 r = 0; r < x->p.m; r++)
            memcpy(x->a.raw[r],
                   tensor_word(w->cta, lane_of(x->p.m, TENSOR_LANE(from), r), TENSOR_COLUMN(from)), BYTES);
    } else if (!read_shared(w, in, lane, SRC(u64, a)[lane], &x->a)) {
        return false;
    }
    if (!read_shared(w, in, lane, SRC(u64, b)[lane], &x->b))
        return false;
    if (in->aux & SG_TENSOR_KEEP) {
        const struct sg_insn *e = in + 1;

        keep[0] = ((const u32 *)sg_src_ptr(w, e->d))[lane];
        keep[1] = ((const u32 *)sg_src_ptr(w, e->a))[lane];
        keep[2] = ((const u32 *)sg_src_ptr(w, e->b))[lane];
        keep[3] = ((const u32 *)sg_src_ptr(w, e->c))[lane];
    }
    depth = spread_operand(&x->a);
    spread_operand(&x->b);
    for (u32 r = 0; r < x->p.m; r += 4) {
        u32 d[4][COLUMNS], *rows[4];

        for (u32 i = 0; i < 4; i++) {
            rows[i] = tensor_word(w->cta, lane_of(x->p.m, first, r + i), TENSOR_COLUMN(at));
            read_row(x, added, scale, rows[i], d[i]);
        }
        if (x->p.d == 'i')
            integer_rows(x, r, depth, d);
        else
            float_rows(x, r, depth, d);
        for (u32 i = 0; i < 4; i++) {
            const u32 l = lane_of(x->p.m, first, r + i);

            if (!(keep[l / 32] >> l % 32 & 1))
                write_row(x, added, d[i], rows[i]);
        }
    }
    return true;
}

HANDLER(tcgen05_mma)
{
    struct product x;
    u64 work = 0;

    memset(x.a.raw, 0, sizeof(x.a.raw)); /* of rows that there are not, 32 at a time are spread */
    memset(x.b.raw, 0, sizeof(x.b.raw));
    for (u32 m = w->mask; m; m &= m - 1) {
        if (!product_run(w, in, (u32)__builtin_ctz(m), &x))
            return SG_FAULTED;
        work += (u64)x.p.m * x.p.n * 4;
    }
    return sg_charge(w, in, work);
}

#include "exec/tcgen05/product.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(product)[] = {
#include "exec/tcgen05/product.def"
    {0},
};

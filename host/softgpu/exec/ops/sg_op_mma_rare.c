/* SPDX-License-Identifier: MIT */
/*
 * Handlers: matrix instructions that are rare: f64 with 16 rows, f64 fragments of wmma in memory,
 * and elements of 4 and 1 bits. Layouts: PTX ISA 9.7.14 (lane = 4 * group + t).
 */
#include "exec/ops/handler.h"
#include "exec/mma.h"
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

#include "exec/ops/mma_rare.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_mma2[] = {
#include "exec/ops/mma_rare.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/*
 * Handlers: tensor memory (tcgen05). It is part of a block's memory (exec/sg_block.c). Each instruction is
 * complete when it is issued: the PTX ISA forbids a program to look at a result, and to change an
 * operand, before the wait or the barrier object of a commit, so that fences and waits have nothing to do.
 */
#include "exec/tcgen05/memory.h"
#include "exec/code.h"
#include "exec/run.h"

/* ---- allocation ---- */

static u32 first_lane(const struct sg_warp *w)
{
    return (u32)__builtin_ctz(w->mask);
}

/* Number of units, a power of two up to all; 0: no such number of columns. */
static u32 units_of(u32 columns)
{
    const bool power = columns && !(columns & (columns - 1));

    return power && columns >= SG_TENSOR_UNIT && columns <= SG_TENSOR_COLUMNS ? columns / SG_TENSOR_UNIT : 0;
}

static u32 units_mask(u32 first, u32 n)
{
    return ((1u << n) - 1) << first;
}

/* First of n free units; 16: there are none. */
static u32 units_free(const struct sg_cta *c, u32 n)
{
    const u32 all = SG_TENSOR_COLUMNS / SG_TENSOR_UNIT;

    for (u32 i = 0; i + n <= all; i++)
        if (!(c->tensor_used & units_mask(i, n)))
            return i;
    return all;
}

HANDLER(tcgen05_alloc)
{
    struct sg_cta *c = w->cta;
    const u32 lane = first_lane(w), n = units_of(SRC(u32, b)[lane]);
    const bool narrow = in->aux & SG_AUX_ADDR32;
    const u64 address = narrow ? SRC(u32, a)[lane] + (u32)in->imm : SRC(u64, a)[lane] + (u64)in->imm;
    u32 first, local, *to;

    if (!n)
        return sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN, "tcgen05.alloc of so many columns");
    if (c->tensor_closed)
        return sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN,
                            "tcgen05.alloc after tcgen05.relinquish_alloc_permit");
    if (!narrow && address - sg_win.shared >= SG_WIN_SHARED_SIZE)
        return sg_fault_addr(w, in, lane, SG_ERR_ADDRESS, SG_SP_GENERIC, address, 4, true);
    to =
        sg_resolve(w, in, lane, SG_SP_SHARED, narrow ? address : address - sg_win.shared, 4, 4, true, &local);
    if (!to)
        return SG_FAULTED;
    first = units_free(c, n);
    if (first * SG_TENSOR_UNIT == SG_TENSOR_COLUMNS) { /* another warp may deallocate */
        w->spin = true;
        w->ip = in;
        return SG_YIELD;
    }
    c->tensor_used |= (uint16_t)units_mask(first, n);
    c->tensor_starts |= (uint16_t)(1u << first);
    for (u32 k = 0; k < SG_TENSOR_LANES; k++)
        memset(tensor_word(c, k, first * SG_TENSOR_UNIT), 0, n * SG_TENSOR_UNIT * sizeof(u32));
    *to = first * SG_TENSOR_UNIT;
    return sg_charge(w, in, (u64)n * SG_TENSOR_UNIT * SG_TENSOR_LANES * sizeof(u32));
}

HANDLER(tcgen05_dealloc)
{
    struct sg_cta *c = w->cta;
    const u32 lane = first_lane(w), at = SRC(u32, a)[lane], n = units_of(SRC(u32, b)[lane]),
              first = at / SG_TENSOR_UNIT;
    u32 starts;

    if (!n || at % SG_TENSOR_UNIT || !tensor_has(c, at, n * SG_TENSOR_UNIT))
        return sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN, "tcgen05.dealloc of what is not allocated");
    /* no other allocation begins inside, and this one ends there */
    starts = c->tensor_starts & units_mask(first, n);
    if (starts != 1u << first || (c->tensor_used & ~(u32)c->tensor_starts & 1u << (first + n)))
        return sg_fault_set(w, in, lane, SG_ERR_ILLEGAL_INSN, "tcgen05.dealloc of a part of an allocation");
    c->tensor_used &= (uint16_t)~units_mask(first, n);
    c->tensor_starts &= (uint16_t) ~(1u << first);
    return SG_NEXT;
}

HANDLER(tcgen05_relinquish)
{
    (void)in;
    w->cta->tensor_closed = true;
    return SG_NEXT;
}

/* ---- ld and st ---- */

/* Lane and column, within the shape, of register r of thread t. */
static inline void move_place(u32 shape, u32 t, u32 r, u32 *lane, u32 *column)
{
    switch (shape) {
    case SG_TS_32X32B:
        *lane = t;
        *column = r;
        break;
    case SG_TS_16X64B:
        *lane = t / 4 + t % 2 * 8;
        *column = 2 * r + t / 2 % 2;
        break;
    case SG_TS_16X128B:
        *lane = t / 4 + r % 2 * 8;
        *column = r / 2 * 4 + t % 4;
        break;
    case SG_TS_16X256B:
        *lane = t / 4 + r / 2 % 2 * 8;
        *column = r / 4 * 8 + t % 4 * 2 + r % 2;
        break;
    default:
        *lane = t % 16;
        *column = r;
        break;
    }
}

/* Register r of the list behind in, four to an instruction. */
static inline u32 *list_register(const struct sg_warp *w, const struct sg_insn *in, u32 r)
{
    const struct sg_insn *x = in + 1 + r / 4;

    r &= 3;
    return sg_src_ptr(w, r == 0 ? x->d : r == 1 ? x->a : r == 2 ? x->b : x->c);
}

/* Checks the address of a ld or st; its lanes are of the warp's quarter. False: faulted. */
static bool move_fits(struct sg_warp *w, const struct sg_insn *in, u32 at)
{
    const u32 shape = SG_TENSOR_SHAPE(in->imm), packed = SG_TENSOR_PACKED(in->imm),
              half = SG_TENSOR_HALF(in->imm);
    const u32 rows = shape == SG_TS_32X32B ? 32 : 16, lane = TENSOR_LANE(at), first = TENSOR_COLUMN(at);
    const u32 n = sg_tensor_move_registers(in->imm);
    const u32 columns = (shape == SG_TS_16X32BX2 || shape == SG_TS_32X32B ? n : 2 * n) << packed;

    if (lane % rows || lane / 32 != w->index % 4) {
        sg_fault_set(w, in, first_lane(w), SG_ERR_ILLEGAL_INSN,
                     "a lane of tensor memory that the warp does not reach");
        return false;
    }
    if (tensor_has(w->cta, first, columns) &&
        (shape != SG_TS_16X32BX2 || tensor_has(w->cta, (first + half) & 0xffff, columns)))
        return true;
    tensor_fault(w, in, first_lane(w));
    return false;
}

/* Words of tensor memory that register r of thread t is, with the halves of a register in two if packed. */
static inline u32 *move_word(const struct sg_warp *w, const struct sg_insn *in, u32 at, u32 t, u32 r)
{
    const u32 packed = SG_TENSOR_PACKED(in->imm);
    u32 lane, column;

    move_place(SG_TENSOR_SHAPE(in->imm), t, r, &lane, &column);
    column = (column << packed) + TENSOR_COLUMN(at);
    /* the distance of the second half is in columns of tensor memory, packed or not */
    if (SG_TENSOR_SHAPE(in->imm) == SG_TS_16X32BX2 && t >= 16)
        column = (column + SG_TENSOR_HALF(in->imm)) & 0xffff;
    return tensor_word(w->cta, TENSOR_LANE(at) + lane, column);
}

HANDLER(tcgen05_ld)
{
    const u32 at = SRC(u32, a)[first_lane(w)], n = sg_tensor_move_registers(in->imm), mask = w->mask;

    if (!move_fits(w, in, at))
        return SG_FAULTED;
    for (u32 r = 0; r < n; r++) {
        u32 *d = list_register(w, in, r);

        for (u32 t = 0; t < SG_LANES; t++) {
            const u32 *v = move_word(w, in, at, t, r);
            const u32 word = SG_TENSOR_PACKED(in->imm) ? (v[0] & 0xffff) | v[1] << 16 : v[0];

            d[t] = mask >> t & 1 ? word : d[t];
        }
    }
    return sg_charge(w, in, (u64)n * SG_LANES * sizeof(u32));
}

HANDLER(tcgen05_st)
{
    const u32 at = SRC(u32, a)[first_lane(w)], n = sg_tensor_move_registers(in->imm);

    if (!move_fits(w, in, at))
        return SG_FAULTED;
    for (u32 r = 0; r < n; r++) {
        const u32 *s = list_register(w, in, r);

        for (u32 m = w->mask; m; m &= m - 1) {
            const u32 t = (u32)__builtin_ctz(m);
            u32 *v = move_word(w, in, at, t, r);

            if (SG_TENSOR_PACKED(in->imm)) {
                v[0] = s[t] & 0xffff;
                v[1] = s[t] >> 16;
            } else {
                v[0] = s[t];
            }
        }
    }
    return sg_charge(w, in, (u64)n * SG_LANES * sizeof(u32));
}

/* ---- cp ---- */

/* The rows of shared memory, their pieces of 16 bytes, and the rows that lie one below the other. */
static const struct cp_shape {
    uint8_t rows, pieces;
} cp_shapes[] = {
    [SG_TC_128X256B] = {128, 2},     [SG_TC_4X256B] = {4, 2},         [SG_TC_128X128B] = {128, 1},
    [SG_TC_64X128B_02_13] = {64, 1}, [SG_TC_64X128B_01_23] = {64, 1}, [SG_TC_32X128B] = {32, 1}};

/* Lanes of row r: *n of them, *step apart; returns the first. */
static u32 cp_lanes(u32 shape, u32 r, u32 *n, u32 *step)
{
    *n = 1;
    *step = 0;
    switch (shape) {
    case SG_TC_4X256B: /* a lane of each quarter */
        return r * 32;
    case SG_TC_64X128B_02_13:
        *n = 2;
        *step = 64;
        return r;
    case SG_TC_64X128B_01_23:
        *n = 2;
        *step = 32;
        return r % 32 + r / 32 * 64;
    case SG_TC_32X128B:
        *n = 4;
        *step = 32;
        return r;
    default:
        return r;
    }
}

/* One thread's copy. False: faulted. */
static bool cp_copy(struct sg_warp *w, const struct sg_insn *in, u32 thread, u32 at, u64 descriptor)
{
    const u32 shape = SG_TC_SHAPE(in->imm), lane = TENSOR_LANE(at), column = TENSOR_COLUMN(at);
    const struct cp_shape *s = &cp_shapes[shape];
    struct sg_tensor_layout l;

    if (!sg_matrix_of_tcgen05(descriptor, false, &l)) {
        sg_fault_set(w, in, thread, SG_ERR_ILLEGAL_INSN, "tcgen05.cp: no descriptor of a matrix");
        return false;
    }
    if (lane >= (shape == SG_TC_4X256B ? 32 : 1) || !tensor_has(w->cta, column, s->pieces * 4u)) {
        tensor_fault(w, in, thread);
        return false;
    }
    for (u32 r = 0; r < s->rows; r++)
        for (u32 k = 0; k < s->pieces; k++) {
            const u8 *from = tensor_shared(w, in, thread, sg_tensor_offset(&l, r, k));
            u32 n, step, to = lane + cp_lanes(shape, r, &n, &step);
            u8 bytes[SG_MATRIX_ROW];

            if (!from)
                return false;
            if (in->imm & (SG_TC_4BIT | SG_TC_6BIT))
                tensor_unpack(from, in->imm & SG_TC_4BIT ? 4 : 6, bytes);
            else
                memcpy(bytes, from, sizeof(bytes));
            for (; n; n--, to += step)
                memcpy(tensor_word(w->cta, to, column + 4 * k), bytes, sizeof(bytes));
        }
    return true;
}

HANDLER(tcgen05_cp)
{
    u64 bytes = 0;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);

        if (!cp_copy(w, in, i, SRC(u32, a)[i], SRC(u64, b)[i]))
            return SG_FAULTED;
        bytes += SG_TENSOR_LANES * 32;
    }
    return sg_charge(w, in, bytes);
}

/* ---- commit ---- */

/* An arrival at the barrier object of each block of the cluster that the mask names. */
HANDLER(tcgen05_commit)
{
    const bool narrow = in->aux & SG_AUX_ADDR32;

    for (u32 m = w->mask; m; m &= m - 1) {
        const u32 i = (u32)__builtin_ctz(m);
        const u64 address = narrow ? SRC(u32, a)[i] + (u32)in->imm : SRC(u64, a)[i] + (u64)in->imm;

        for (u32 ranks = SRC(u32, b)[i] & 0xffff; ranks; ranks &= ranks - 1) {
            const u32 rank = (u32)__builtin_ctz(ranks);
            const u64 at = sg_cluster_map(w->cta, narrow ? address : address - sg_win.shared, rank);
            u32 local;
            u64 *p = sg_resolve(w, in, i, SG_SP_SHARED, at, 8, 8, true, &local);

            if (!p)
                return SG_FAULTED;
            *p = sg_mbar_step(*p, 1, 0);
        }
    }
    return SG_NEXT;
}

#include "exec/tcgen05/tcgen05.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_tcgen05[] = {
#include "exec/tcgen05/tcgen05.def"
    {0},
};

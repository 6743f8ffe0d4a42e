/* SPDX-License-Identifier: MIT */
/*
 * Native ldmatrix, mma of halves and bf16 with sums in f32, and mma of bytes, with the results of
 * exec/ops/sg_op_matrix.c and exec/ops/sg_op_mma.c, for all lanes; the handlers process all other cases.
 */
#include "jit/memory/memory_ops.h"
#include "jit/ops.h"

#ifdef SG_JIT

static const struct vop PERMI2W = {M38, P66, 1, 0x75}, PERMI2D = {M38, P66, 0, 0x76},
                        BCAST4 = {M38, P66, 0, 0x5a};

/* Source index of word k of a transposed 8 by 8 matrix of halves, which lies in two registers. */
#define PAIR_OF(i) (u16)(((i)&3) * 16 + ((i) >> 2)), (u16)(((i)&3) * 16 + 8 + ((i) >> 2))
#define PAIRS_OF(i) PAIR_OF(i), PAIR_OF((i) + 1), PAIR_OF((i) + 2), PAIR_OF((i) + 3)
static const u16 transposed[2][32]
    __attribute__((aligned(64))) = {{PAIRS_OF(0), PAIRS_OF(4), PAIRS_OF(8), PAIRS_OF(12)},
                                    {PAIRS_OF(16), PAIRS_OF(20), PAIRS_OF(24), PAIRS_OF(28)}};

/*
 * Sets registers 4 and 5, or (without an offset) those of a, to the offsets in shared memory of the
 * rows of n matrices, one row for each of the lower 8 n lanes. Jumps to the slow path unless all
 * rows are inside and aligned. Clobbers registers 0 to 3.
 */
static void place_rows(struct jit *j, struct stub *s, const struct sg_insn *in, u32 n, u32 at[2])
{
    const u32 chunks = n == 4 ? 2 : 1;
    struct buf *b = B(j);

    alu_mem(b, false, 0x8b, RCX, G_CTA, offsetof(struct sg_cta, shared_bytes));
    alu_imm(b, false, 5, RCX, 16);
    sg_jit_slow(j, s, JB);
    ev(b, BCAST_R32, 1, 0, RCX, 0, 0);
    mov_imm64(b, RAX, 15);
    ev(b, BCAST_R32, 3, 0, RAX, 0, 0);
    if ((u32)in->imm) {
        mov_imm64(b, RAX, (u32)in->imm);
        ev(b, BCAST_R32, 0, 0, RAX, 0, 0);
    }
    for (u32 h = 0; h < chunks && (u32)in->imm; h++) {
        ev(b, VPADDD, 4 + h, at[h], 0, 0, 0);
        at[h] = 4 + h;
    }
    ev(b, VPORD, 2, at[0], at[chunks - 1], 0, 0);
    ev(b, TESTNMD, 1, 2, 3, 0, 0);
    for (u32 h = 0; h < chunks; h++) {
        evi(b, CMPUD, 1, at[h], 1, 1, 0, 2); /* not beyond */
    }
    if (n == 1)
        KORTESTB(b, 1);
    else
        KORTESTW(b, 1);
    sg_jit_slow(j, s, JAE);
}

/*
 * Loads the rows `first` to first + 3, whose offsets are at [RCX - 128], to register v. RDX: shared
 * memory; masks 2 to 4: four lanes each, from the fifth lane on.
 */
static void load_rows(struct jit *j, u32 first, u32 v)
{
    struct buf *b = B(j);

    for (u32 q = 0; q < 4; q++) {
        alu_mem(b, false, 0x8b, RAX, RCX, (s32)(4 * (first + q)) - 128);
        evx(b, q ? BCAST4 : VMOVU, v, 0, RDX, RAX, q ? 1 + q : 0, q ? 0 : EV_XMM);
    }
}

static bool e_ldmatrix(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 n = in->aux & 15;
    struct buf *b = B(j);
    u32 at[2], d[4][2];
    struct stub *s;

    (void)arg;
    if (j->masked)
        return false;
    for (u32 h = 0; h < (n == 4 ? 2u : 1u); h++)
        at[h] = sg_jv_get(j, in->a, h);
    s = sg_jit_stub(j);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < 2; h++)
            d[k][h] = sg_jv_new(j);
    place_rows(j, s, in, n, at);
    alu_reg(b, true, 0x89, RCX, RSP); /* the 128 bytes below RSP are unused */
    for (u32 h = 0; h < (n == 4 ? 2u : 1u); h++)
        evm(b, VMOVU_STORE, at[h], 0, RCX, (s32)(64 * h) - 128, 64, 0, 0);
    alu_mem(b, true, 0x8b, RDX, G_CTA, offsetof(struct sg_cta, shared));
    for (u32 q = 1; q < 4; q++) {
        mov_imm64(b, RAX, 15u << (4 * q));
        vex(b, PNONE, 0, 0, 0x92, 1 + q, 0, RAX); /* kmovw k, eax */
    }
    if (in->aux & 16)
        mov_imm64(b, RSI, (u64)(uintptr_t)transposed);
    for (u32 k = 0; k < n; k++) {
        for (u32 h = 0; h < 2; h++)
            load_rows(j, 8 * k + 4 * h, in->aux & 16 ? h : d[k][h]);
        for (u32 h = 0; h < 2 && (in->aux & 16); h++) {
            evm(b, VMOV, d[k][h], 0, RSI, (s32)(64 * h), 64, 0, 0);
            ev(b, PERMI2W, d[k][h], 0, 1, 0, 0);
        }
    }
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < 2; h++)
            sg_jv_bind(j, dest(in, k), h, d[k][h]);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

/*
 * ---- mma, 16 rows of a: as exec/matrix/mma_avx512.h, except for the source of b ----
 *
 * The four lanes of a row need, for each k, an element of a, obtained by a shuffle, and four of b's
 * columns: 16 bytes that are the same for all rows. b is stored in that order, so that these are
 * loads.
 */

#define MMA_ROOM 512   /* bytes: 8 by 16 floats */
#define MMA_NATIVE 256 /* per kernel, 1.9 KB each; further mma call the handler, a tenth slower */
#define LANE(t, c) 8 * ((c)&3) + 4 * ((c) >> 2) + (t)
#define TURN(x, c) (u16)(2 * (LANE((x)&3, c)) + ((x) >> 2))
#define WIDE_LANE(x, c) 0, (u16)(2 * (LANE((x)&3, c)) + ((x) >> 2))
#define PART(x, c) (u16)(2 * (8 * ((x)&1) + (c)) + ((x) >> 1))
#define QUAD(t) (t), 8 + (t), 16 + (t), 24 + (t)
#define QUADS(t) QUAD(t), QUAD((t) + 1), QUAD((t) + 2), QUAD((t) + 3)
#define EIGHT(m, x) m(x, 0), m(x, 1), m(x, 2), m(x, 3), m(x, 4), m(x, 5), m(x, 6), m(x, 7)

/* Permutations of 32 words (a) or of the words of two registers (b); x: the lane's number in a
   row, and 4 for the upper part. */
static const struct {
    u16 part[32];     /* a: the lower parts of all lanes, then the upper parts */
    u16 turn[2][32];  /* b: the lower and the upper parts, of even and odd columns */
    u16 wide[4][32];  /* the same, half each, for bf16 as f32 */
    u32 bytes[2][16]; /* b of bytes: the registers of even and of odd columns, by t */
    u32 high, nan;
} from __attribute__((aligned(64))) = {{EIGHT(PART, 0), EIGHT(PART, 1), EIGHT(PART, 2), EIGHT(PART, 3)},
                                       {{EIGHT(TURN, 0), EIGHT(TURN, 1), EIGHT(TURN, 2), EIGHT(TURN, 3)},
                                        {EIGHT(TURN, 4), EIGHT(TURN, 5), EIGHT(TURN, 6), EIGHT(TURN, 7)}},
                                       {{EIGHT(WIDE_LANE, 0), EIGHT(WIDE_LANE, 1)},
                                        {EIGHT(WIDE_LANE, 2), EIGHT(WIDE_LANE, 3)},
                                        {EIGHT(WIDE_LANE, 4), EIGHT(WIDE_LANE, 5)},
                                        {EIGHT(WIDE_LANE, 6), EIGHT(WIDE_LANE, 7)}},
                                       {{QUADS(0)}, {QUADS(4)}},
                                       0xffff0000u,
                                       0x7fffu};
#define FROM(field) ((s32)((const u8 *)&from.field - (const u8 *)&from))

static const struct vop PERMW = {M38, P66, 1, 0x8d}, CVTPH2PS = {M38, P66, 0, 0x13},
                        FMA231 = {M38, P66, 0, 0xb8}, VPANDD = {M0F, P66, 0, 0xdb},
                        PERMILPS = {M3A, P66, 0, 0x04};

/* Loads both chunks of register r of a list in d a b c; the next call may evict them. */
static void mma_get(struct jit *j, const struct sg_insn *in, u32 r, u32 v[2])
{
    for (u32 h = 0; h < 2; h++)
        v[h] = sg_jv_get(j, *sg_jit_field(in, r), h);
    for (u32 h = 0; h < 2; h++)
        j->pinned &= ~(1u << v[h]);
}

/* Halves of register v as f32: registers lo and hi. */
static void mma_widen(struct jit *j, u32 lo, u32 hi, u32 v)
{
    evi(B(j), EXTRACT4, v, 0, hi, 0, 0, 1);
    ev(B(j), CVTPH2PS, lo, 0, v, 0, 0);
    ev(B(j), CVTPH2PS, hi, 0, hi, 0, 0);
}

/* Stores register r of b at [RCX + 256 r]: for each k of one parity, then of the other, 8
   columns, even columns first. */
static void mma_b(struct jit *j, const struct sg_insn *in, u32 r, bool bf)
{
    struct buf *b = B(j);
    u32 v[2];

    mma_get(j, in, r, v);
    for (u32 p = 0; p < 2; p++) {
        for (u32 q = 0; q < (bf ? 2u : 1u); q++) {
            evm(b, VMOV, 2 * p + q, 0, RSI, bf ? FROM(wide[2 * p + q]) : FROM(turn[p]), 64, 0, 0);
            ev(b, PERMI2W, 2 * p + q, v[0], v[1], bf ? 1 : 0, bf ? EV_Z : 0);
        }
        if (!bf)
            mma_widen(j, 4, 2 * p + 1, 2 * p);
        evm(b, VMOVU_STORE, bf ? 2 * p : 4, 0, RCX, (s32)(256 * r + 128 * p), 64, 0, 0);
        evm(b, VMOVU_STORE, 2 * p + 1, 0, RCX, (s32)(256 * r + 128 * p + 64), 64, 0, 0);
    }
}

/* Loads register r of a, or of c of halves: both parts of all lanes as f32, in the registers
   part[0][h] and part[1][h]. */
static void mma_a(struct jit *j, const struct sg_insn *in, u32 r, bool bf, u32 part[2][2])
{
    struct buf *b = B(j);
    u32 v[2];

    mma_get(j, in, r, v);
    for (u32 h = 0; h < 2; h++) {
        if (bf) {
            evi(b, SHIFT_D, 6, part[0][h], v[h], 0, 0, 16);
            evm(b, VPANDD, part[1][h], v[h], RSI, FROM(high), 4, 0, EV_B);
        } else {
            ev(b, PERMW, 2 + h, 7, v[h], 0, 0);
            mma_widen(j, part[0][h], part[1][h], 2 + h);
        }
    }
}

/* sum += columns 8 r to 8 r + 7 of a times these rows of b, ascending. Register 7: from.part. */
static void mma_step(struct jit *j, const struct sg_insn *in, u32 r, bool bf, u32 sum[4][2],
                     u32 part[2][2][2])
{
    struct buf *b = B(j);

    for (u32 down = 0; down < 2; down++)
        mma_a(j, in, 2 * r + down, bf, part[down]);
    for (u32 k = 0; k < 8; k++) {
        const u32 t = k >> 1, p = k & 1;

        for (u32 e = 0; e < 2; e++)
            evm(b, BCAST4, e, 0, RCX, (s32)(256 * r + 128 * p + 32 * t + 16 * e), 16, 0, 0);
        for (u32 down = 0; down < 2; down++)
            for (u32 h = 0; h < 2; h++) {
                const u32 a = 2 + 2 * down + h;

                evi(b, PERMILPS, a, 0, part[down][p][h], 0, 0, 0x55 * t);
                for (u32 e = 0; e < 2; e++)
                    ev(b, FMA231, sum[2 * down + e][h], a, e, 0, 0);
            }
    }
}

/* True if register r of c is read neither after the mma nor a second time by it. */
static bool mma_last(const struct jit *j, const struct sg_insn *in, u32 r)
{
    const u32 op = *sg_jit_field(in + 2, r);
    u32 n = 0;

    for (u32 list = 0; list < 3; list++)
        for (u32 k = 0; k < 4; k++)
            n += *sg_jit_field(in + list, k) == op;
    return n == 1 && (j->kill[j->cur + 2] >> r & 1) && !sg_jit_flat(j, op) && !j->leader[j->cur + 1] &&
           !j->leader[j->cur + 2];
}

/* Registers for the sums, with c of f32. */
static void mma_c(struct jit *j, const struct sg_insn *in, u32 sum[4][2])
{
    for (u32 r = 0; r < 4; r++)
        for (u32 h = 0; h < 2; h++) {
            const u32 v = sg_jv_get(j, *sg_jit_field(in + 2, r), h);

            sum[r][h] = v;
            if (mma_last(j, in, r)) {
                sg_jv_take(j, v);
                continue;
            }
            sum[r][h] = sg_jv_new(j);
            ev(B(j), VMOV, sum[r][h], 0, v, 0, 0);
            j->pinned &= ~(1u << v);
        }
}

/* Register `to`: v as a half in the lower bits. A NaN becomes that of PTX. */
static void mma_narrow(struct jit *j, u32 to, u32 v)
{
    static const struct vop CMPPS = {M0F, PNONE, 0, 0xc2}, CVTPS2PH = {M3A, P66, 0, 0x1d},
                            ZXWD = {M38, P66, 0, 0x33};
    struct buf *b = B(j);

    evi(b, CMPPS, 1, v, v, 0, 0, 3); /* unordered */
    evi(b, CVTPS2PH, v, 0, to, 0, 0, 0);
    ev(b, ZXWD, to, 0, to, 0, 0);
    evm(b, BCAST_M32, to, 0, RSI, FROM(nan), 4, 1, 0);
}

/* The results, of f32 or (half) two halves a register, to the registers behind in. */
static void mma_d(struct jit *j, const struct sg_insn *in, bool half, u32 sum[4][2])
{
    for (u32 r = 0; r < (half ? 2u : 4u); r++)
        for (u32 h = 0; h < 2; h++) {
            const u32 v = sum[half ? 2 * r : r][h];

            if (half) {
                mma_narrow(j, 0, v);
                mma_narrow(j, 1, sum[2 * r + 1][h]);
                evi(B(j), SHIFT_D, 6, 1, 1, 0, 0, 16);
                ev(B(j), VPORD, v, 0, 1, 0, 0);
            }
            sg_jv_bind(j, *sg_jit_field(in + 3, r), h, v);
        }
}

/* Frees the registers of values that are not read any more. */
static void mma_kill(struct jit *j, const struct sg_insn *in)
{
    const u32 at = j->cur;

    for (u32 k = 0; k < 3 && !(k && j->leader[at + k]); k++) {
        j->cur = at + k;
        sg_jv_kill(j, in + k, 3);
    }
    j->cur = at;
}

static bool e_mma(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const struct sg_mma_form *f = &sg_mma_forms[in->aux];
    const bool bf = f->a == SG_MMA_BF16, half = f->c == 'h';
    u32 sum[4][2], part[2][2][2];
    struct buf *b = B(j);

    (void)arg;
    if (j->masked || (f->c != 'f' && !half) || (f->a != SG_MMA_F16 && !bf) || j->nmma == MMA_NATIVE)
        return false;
    j->nmma++;
    mov_imm64(b, RSI, (u64)(uintptr_t)&from);
    alu_imm(b, true, 5, RSP, MMA_ROOM);
    alu_reg(b, true, 0x89, RCX, RSP);
    alu_imm(b, true, 4, RCX, (u32)-64); /* the memory below RSP is unused */
    if (bf) {
        mov_imm64(b, RAX, 0xaaaaaaaa);
        vex(b, PF2, 0, 0, 0x92, 1, 0, RAX); /* kmovd k1, eax */
    }
    for (u32 r = 0; r < f->nb; r++)
        mma_b(j, in + 1, r, bf);
    if (!bf)
        evm(b, VMOV, 7, 0, RSI, FROM(part), 64, 0, 0);
    for (u32 k = 0; k < 8 && half; k++)
        sum[k >> 1][k & 1] = sg_jv_new(j);
    for (u32 r = 0; r < 2 && half; r++)
        mma_a(j, in + 2, r, false, &sum[2 * r]);
    if (!half)
        mma_c(j, in, sum);
    for (u32 k = 0; k < 8; k++)
        part[k >> 2][k >> 1 & 1][k & 1] = sg_jv_new(j);
    for (u32 r = 0; r < f->nb; r++)
        mma_step(j, in, r, bf, sum, part);
    mma_kill(j, in);
    mma_d(j, in, half, sum);
    alu_imm(b, true, 0, RSP, MMA_ROOM);
    sg_jv_unpin(j);
    return true;
}

/*
 * ---- mma of bytes: as exec/matrix/mma_avx512.h, except for the source of b ----
 *
 * The instruction multiplies unsigned by signed bytes: signed a is taken as a + 128, and what that
 * adds, 128 times the sum of a column of b, is subtracted from c.
 */

enum { BYTES_BIAS = 5, BYTES_EXCESS = 6 }; /* registers; the excess of even and of odd columns */

static const struct vop DPBUSD = {M38, P66, 0, 0x50}, VPXORD = {M0F, P66, 0, 0xef},
                        SWAP_PARTS = {M3A, P66, 1, 0x43}, SHUFFLE_D = {M0F, P66, 0, 0x70};

/* Stores register r of b at [RCX + 128 r]: for each t, the four lanes of even columns, then all of odd ones. */
static void bytes_b(struct jit *j, const struct sg_insn *in, u32 r)
{
    struct buf *b = B(j);
    u32 v[2];

    mma_get(j, in, r, v);
    for (u32 e = 0; e < 2; e++) {
        evm(b, VMOV, e, 0, RSI, FROM(bytes[e]), 64, 0, 0);
        ev(b, PERMI2D, e, v[0], v[1], 0, 0);
        evm(b, VMOVU_STORE, e, 0, RCX, (s32)(128 * r + 64 * e), 64, 0, 0);
        ev(b, DPBUSD, BYTES_EXCESS + e, BYTES_BIAS, e, 0, 0);
    }
}

/* The sums of each column, which lie in the four parts of the registers, in all parts. */
static void bytes_excess(struct jit *j)
{
    for (u32 e = BYTES_EXCESS; e < BYTES_EXCESS + 2; e++)
        for (u32 k = 0; k < 2; k++) {
            evi(B(j), SWAP_PARTS, 0, e, e, 0, 0, k ? 0xb1 : 0x4e);
            ev(B(j), VPADDD, e, e, 0, 0, 0);
        }
}

/* sum += register r of b times `rows` registers of a. */
static void bytes_step(struct jit *j, const struct sg_insn *in, u32 r, u32 rows, u32 sum[4][2])
{
    struct buf *b = B(j);
    u32 v[2];

    for (u32 row = 0; row < rows; row++) {
        mma_get(j, in, rows * r + row, v);
        for (u32 h = 0; h < 2; h++)
            ev(b, VPXORD, 1 + 2 * row + h, v[h], BYTES_BIAS, 0, 0);
    }
    for (u32 t = 0; t < 4; t++) {
        for (u32 e = 0; e < 2; e++)
            evm(b, BCAST4, 6 + e, 0, RCX, (s32)(128 * r + 64 * e + 16 * t), 16, 0, 0);
        for (u32 row = 0; row < rows; row++)
            for (u32 h = 0; h < 2; h++) {
                evi(b, SHUFFLE_D, 0, 0, 1 + 2 * row + h, 0, 0, 0x55 * t);
                for (u32 e = 0; e < 2; e++)
                    ev(b, DPBUSD, sum[2 * row + e][h], 0, 6 + e, 0, 0);
            }
    }
}

/* Registers for the sums: c less the excess. */
static void bytes_c(struct jit *j, const struct sg_insn *in, u32 n, u32 sum[4][2])
{
    for (u32 r = 0; r < n; r++)
        for (u32 h = 0; h < 2; h++) {
            const u32 v = sg_jv_get(j, *sg_jit_field(in + 2, r), h);
            const bool last = mma_last(j, in, r);

            if (last)
                sg_jv_take(j, v);
            sum[r][h] = last ? v : sg_jv_new(j);
            ev(B(j), VPSUBD, sum[r][h], v, BYTES_EXCESS + (r & 1), 0, 0);
            if (!last)
                j->pinned &= ~(1u << v);
        }
}

static bool e_mma_bytes(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const struct sg_mma_form *f = &sg_mma_forms[in->aux];
    const u32 rows = f->m / 8;
    struct buf *b = B(j);
    u32 sum[4][2];

    (void)arg;
    if (j->masked || in->imm || f->c != 'i' || (f->a != SG_MMA_S8 && f->a != SG_MMA_U8) ||
        f->b != SG_MMA_S8 || !__builtin_cpu_supports("avx512vnni") || j->nmma == MMA_NATIVE)
        return false;
    j->nmma++;
    mov_imm64(b, RSI, (u64)(uintptr_t)&from);
    alu_imm(b, true, 5, RSP, MMA_ROOM);
    alu_reg(b, true, 0x89, RCX, RSP);
    alu_imm(b, true, 4, RCX, (u32)-64); /* the memory below RSP is unused */
    mov_imm64(b, RAX, f->a == SG_MMA_S8 ? 0x80808080u : 0);
    ev(b, BCAST_R32, BYTES_BIAS, 0, RAX, 0, 0);
    for (u32 e = BYTES_EXCESS; e < BYTES_EXCESS + 2; e++)
        ev(b, VPXORD, e, e, e, 0, 0);
    for (u32 r = 0; r < f->nb; r++)
        bytes_b(j, in + 1, r);
    if (f->a == SG_MMA_S8)
        bytes_excess(j);
    bytes_c(j, in, f->nc, sum);
    for (u32 r = 0; r < f->nb; r++)
        bytes_step(j, in, r, rows, sum);
    mma_kill(j, in);
    for (u32 r = 0; r < f->nc; r++)
        for (u32 h = 0; h < 2; h++)
            sg_jv_bind(j, *sg_jit_field(in + 3, r), h, sum[r][h]);
    alu_imm(b, true, 0, RSP, MMA_ROOM);
    sg_jv_unpin(j);
    return true;
}

NATIVE_AVX512(ldmatrix, e_ldmatrix, 0);
NATIVE_AVX512(mma_float, e_mma, 0);
NATIVE_AVX512(mma_int, e_mma_bytes, 0);

#endif

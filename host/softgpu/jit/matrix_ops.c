/* SPDX-License-Identifier: MIT */
/* Native ldmatrix, as exec/ops/matrix.c does it, with all lanes; the handler does the rest. */
#include "jit/memory_ops.h"

#ifdef SG_JIT

/* Word k of a transposed matrix of 8 by 8 halves, which lies in two registers: where it was. */
#define PAIR_OF(i) (u16)(((i)&3) * 16 + ((i) >> 2)), (u16)(((i)&3) * 16 + 8 + ((i) >> 2))
#define PAIRS_OF(i) PAIR_OF(i), PAIR_OF((i) + 1), PAIR_OF((i) + 2), PAIR_OF((i) + 3)
static const u16 transposed[2][32]
    __attribute__((aligned(64))) = {{PAIRS_OF(0), PAIRS_OF(4), PAIRS_OF(8), PAIRS_OF(12)},
                                    {PAIRS_OF(16), PAIRS_OF(20), PAIRS_OF(24), PAIRS_OF(28)}};

/*
 * Registers 4 and 5, or (without an offset) those of a: where in shared memory the rows of n matrices lie, one for each of
 * the lower 8 n lanes. Jumps out unless all of them are there and aligned. Uses registers 0 to 3.
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
        ev(b, CMPUD, 1, at[h], 1, 1, 0);
        put8(b, 2); /* not beyond */
    }
    if (n == 1)
        KORTESTB(b, 1);
    else
        KORTESTW(b, 1);
    sg_jit_slow(j, s, JAE);
}

/*
 * The rows `first` to first + 3, whose places lie at [RCX - 128], to register v. RDX: shared memory; masks 2 to 4: four lanes
 * each, from the fifth lane on.
 */
static void load_rows(struct jit *j, u32 first, u32 v)
{
    static const struct vop BCAST4 = {M38, P66, 0, 0x5a};
    struct buf *b = B(j);

    for (u32 q = 0; q < 4; q++) {
        alu_mem(b, false, 0x8b, RAX, RCX, (s32)(4 * (first + q)) - 128);
        evx(b, q ? BCAST4 : VMOVU, v, 0, RDX, RAX, q ? 1 + q : 0, q ? 0 : EV_XMM);
    }
}

static bool e_ldmatrix(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const struct vop PERMI2W = {M38, P66, 1, 0x75};
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
    alu_reg(b, true, 0x89, RCX, RSP); /* the 128 bytes below are nobody's */
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

const struct jop sg_jit_ops_matrix[] = {
    {"ldmatrix", e_ldmatrix, 0},
    {NULL, NULL, 0},
};

#endif

/* SPDX-License-Identifier: MIT */
/* Native loads and stores of shared memory, and of parameters; as jit/memory/sg_jit_memory_ops.c. */
#include "jit/memory/windows.h"
#include "jit/ops.h"

#ifdef SG_JIT

/* Checks the running lanes only and collects errors in k1. */
static void check_lanes32(struct jit *j, struct stub *s, u32 align)
{
    struct buf *b = B(j);

    KZERO(b, 1);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        sg_jit_lanes(j, 2, h, false);
        evi(b, CMPUD, 3, 4 + h, 1, 2, 0, 6);
        KORW(b, 1, 1, 3);
        if (align > 1) {
            evi(b, SHIFT_D, 6, 2, 4 + h, 0, 0, (u32)(32 - __builtin_ctz(align)));
            ev(b, TESTMD, 3, 2, 2, 2, 0);
            KORW(b, 1, 1, 3);
        }
    }
    KORTESTW(b, 1);
    sg_jit_slow(j, s, JNE);
}

/* ---- shared memory: offsets of 32 bits into the buffer of the block ---- */

/* Registers 4 and 5: the offsets with imm; RAX: the buffer. */
static void check_shared(struct jit *j, struct stub *s, const struct sg_insn *in, const u32 ad[2], u32 touch,
                         u32 align)
{
    struct buf *b = B(j);

    alu_mem(b, false, 0x8b, RCX, G_CTA, offsetof(struct sg_cta, shared_bytes));
    alu_imm(b, false, 5, RCX, touch);
    sg_jit_slow(j, s, JB);
    ev(b, BCAST_R32, 1, 0, RCX, 0, 0);
    if (in->imm) {
        mov_imm64(b, RAX, (u32)in->imm);
        ev(b, BCAST_R32, 0, 0, RAX, 0, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        if (in->imm)
            ev(b, VPADDD, 4 + h, ad[h], 0, 0, 0);
        else
            ev(b, VMOV, 4 + h, 0, ad[h], 0, 0);
    }
    if (j->masked) {
        check_lanes32(j, s, align);
        alu_mem(b, true, 0x8b, RAX, G_CTA, offsetof(struct sg_cta, shared));
        return;
    }
    if (align > 1) {
        ev(b, VPORD, 2, 4, 5, 0, 0);
        evi(b, SHIFT_D, 6, 2, 2, 0, 0, (u32)(32 - __builtin_ctz(align)));
        ev(b, TESTNMD, 1, 2, 2, 0, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        evi(b, CMPUD, 1, 4 + h, 1, h || align > 1 ? 1 : 0, 0, 2);
    }
    KORTESTW(b, 1);
    sg_jit_slow(j, s, JAE);
    alu_mem(b, true, 0x8b, RAX, G_CTA, offsetof(struct sg_cta, shared));
}

static const u32 in_row[SG_LANES]
    __attribute__((aligned(64))) = {0,  4,  8,  12, 16, 20, 24, 28, 32, 36,  40,  44,  48,  52,  56,  60,
                                    64, 68, 72, 76, 80, 84, 88, 92, 96, 100, 104, 108, 112, 116, 120, 124};

/*
 * The path for 32 consecutive words: afterwards RAX points to them; *others is the jump to patch
 * for other addresses.
 */
static void row_shared(struct jit *j, struct stub *s, const struct sg_insn *in, const u32 ad[2],
                       size_t *others)
{
    struct buf *b = B(j);

    mov_imm64(b, RSI, (u64)(uintptr_t)in_row);
    ev(b, BCAST_M32, 0, 0, ad[0], 0, 0);
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        evm(b, VPADDD, 1 + h, 0, RSI, (s32)(64 * h), 64, 0, 0);
        evi(b, CMPUD, 1, ad[h], 1 + h, h ? 1 : 0, 0, 0);
    }
    KORTESTW(b, 1);
    *others = fork_jcc(b, JAE);
    sg_jit_place_shared(j, s, in, ad[0], 4 * SG_LANES, 4);
}

/* RSI: the window, which matches. Checks the bytes that all lanes load; RAX: the address loaded
   by lane 0, from register ad. */
static void check_window(struct jit *j, struct stub *s, const struct sg_insn *in, u32 ad, u32 align)
{
    struct buf *b = B(j);

    ev(b, MOVD_R, ad, 0, RAX, 0, EV_XMM);
    if (in->imm)
        alu_imm(b, false, 0, RAX, (u32)in->imm);
    if (align > 1) {
        put8(b, 0xa8); /* test al, align - 1 */
        put8(b, align - 1);
        sg_jit_slow(j, s, JNE);
    }
    alu_mem(b, false, 0x8b, RCX, G_CTA, offsetof(struct sg_cta, shared_bytes));
    alu_mem(b, false, 0x2b, RCX, RSI, offsetof(struct sg_window, span));
    sg_jit_slow(j, s, JB);
    alu_mem(b, false, 0x8b, RDX, RSI, offsetof(struct sg_window, low));
    alu_reg(b, false, 0x01, RDX, RAX);
    alu_reg(b, false, 0x39, RDX, RCX);
    sg_jit_slow(j, s, JA);
    alu_mem(b, true, 0x03, RAX, G_CTA, offsetof(struct sg_cta, shared));
}

/* The path for lanes in windows. Returns the jump at its end to be patched; the other paths
   follow. */
static size_t window_shared(struct jit *j, struct stub *s, const struct sg_insn *in, u32 arg, const u32 ad[2],
                            u32 d[4][4])
{
    const u32 size = arg & 15, n = arg >> 8 & 15;
    struct window_misses misses;
    size_t end;

    sg_jit_window_test(j, ad, s->window, &misses);
    check_window(j, s, in, ad[0], size * n);
    sg_jit_window_load(j, d, n, s->window->size, 0, false, NULL);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        sg_jit_cut(j, d[0][h], size, arg & SIGN);
    end = fork_jmp(B(j));
    sg_jit_window_missed(j, &misses);
    return end;
}

/* An address for all lanes: loaded once. */
static bool load_shared_flat(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 size = arg & 15, n = arg >> 8 & 15, bytes = size * n, ad = sg_jv_get(j, in->a, 0);
    struct stub *s = sg_jit_stub(j);
    u32 d[4][2];

    sg_jit_spin(j, in);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            d[k][h] = sg_jv_new(j);
    sg_jit_place_shared(j, s, in, ad, bytes < 4 ? 4 : bytes, bytes);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++) {
            evm(B(j), BCAST_M32, d[k][h], 0, RAX, (s32)(4 * k), 4, 0, 0);
            sg_jit_cut(j, d[k][h], size, arg & SIGN);
        }
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            sg_jv_bind(j, dest(in, k), h, d[k][h]);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

static bool e_ld_s(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 size = arg & 15, n = arg >> 8 & 15, bytes = size * n;
    struct buf *b = B(j);
    size_t others, end = 0, end_window = 0;
    struct stub *s;
    u32 ad[2], d[4][4];

    if (sg_jit_flat(j, in->a))
        return load_shared_flat(j, in, arg);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        ad[h] = sg_jv_get(j, in->a, h);
    s = sg_jit_stub(j);
    if (!s)
        return true; /* no memory: failed is set */
    s->window = sg_jit_window(j, in, bytes, bytes, bytes == 4 && !j->masked ? 4 : 0);
    for (u32 k = 0; k < n; k++) /* before the paths split: this may write registers back */
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            d[k][h] = sg_jv_new(j);
    sg_jit_spin(j, in);
    if (s->window)
        end_window = window_shared(j, s, in, arg, ad, d);
    if (bytes == 4 && !j->masked) {
        row_shared(j, s, in, ad, &others);
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            evm(b, VMOVU, d[0][h], 0, RAX, (s32)(64 * h), 64, 0, 0);
        end = fork_jmp(b);
        sg_jit_join_at(j, others);
    }
    if (s->window)
        sg_jit_window_known(j, s, s->window);
    check_shared(j, s, in, ad, bytes < 4 ? 4 : bytes, bytes);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++) {
            sg_jit_lanes(j, 1, h, false);
            evsib(b, GATHERDD, d[k][h], RAX, 4 + h, (s32)(4 * k), 1, 0);
            sg_jit_cut(j, d[k][h], size, arg & SIGN);
        }
    sg_jit_join(j, (const size_t[]){end_window, end}, 2);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            sg_jv_bind(j, dest(in, k), h, d[k][h]);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

/*
 * The path for one address in all lanes, after row_shared(): the word of the last lane stays.
 * Returns the jump to the slow path; *others as there.
 */
static size_t same_shared(struct jit *j, struct stub *s, const struct sg_insn *in, const u32 ad[2], u32 v,
                          size_t *others)
{
    struct buf *b = B(j);

    if (b->avx2) /* register 0 does not live across the label */
        ev(b, BCAST_M32, 0, 0, ad[0], 0, 0);
    for (u32 h = 0; h < 2; h++) {
        evi(b, CMPUD, 1, ad[h], 0, h ? 1 : 0, 0, 0);
    }
    KORTESTW(b, 1);
    *others = fork_jcc(b, JAE);
    sg_jit_place_shared(j, s, in, ad[0], 4, 4);
    evi(b, EXTRACT2, v, 0, 2, 0, 0, 3);
    evmi(b, EXTRACTD, 2, 0, RAX, 0, 4, 0, EV_XMM, 3);
    return fork_jmp(b);
}

static bool e_st_s(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 n = arg >> 8 & 15;
    struct buf *b = B(j);
    size_t others, end = 0, same = 0;
    struct stub *s;
    u32 ad[2], v[4][2];

    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        ad[h] = sg_jv_get(j, in->a, h);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            v[k][h] = sg_jv_get(j, dest(in, k), h);
    s = sg_jit_stub(j);
    if (n == 1 && !j->masked) {
        row_shared(j, s, in, ad, &others);
        for (u32 h = 0; h < sg_jit_n(j, false); h++)
            evm(b, VMOVU_STORE, v[0][h], 0, RAX, (s32)(64 * h), 64, 0, 0);
        end = fork_jmp(b);
        sg_jit_join_at(j, others);
        same = same_shared(j, s, in, ad, v[0][1], &others);
        sg_jit_join_at(j, others);
    }
    check_shared(j, s, in, ad, 4 * n, 4 * n);
    for (u32 k = 0; k < n; k++)
        for (u32 h = 0; h < sg_jit_n(j, false); h++) {
            sg_jit_lanes(j, 1, h, false);
            evsib(b, SCATTERDD, v[k][h], RAX, 4 + h, (s32)(4 * k), 1, 0);
        }
    sg_jit_join(j, (const size_t[]){end, same}, 2);
    sg_jv_unpin(j);
    sg_jit_joined(j, s);
    return true;
}

/* ---- kernel parameters at a constant offset, checked by the decoder ---- */

static bool e_ld_p(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const bool wide = (arg & 15) == 8;
    struct buf *b = B(j);

    alu_mem(b, true, 0x8b, RAX, G_CTA, offsetof(struct sg_cta, params));
    for (u32 h = 0; h < sg_jit_n(j, wide); h++) {
        const u32 d = sg_jv_new(j);

        evm(b, wide ? BCAST_M64 : BCAST_M32, d, 0, RAX, (s32)in->imm, wide ? 8 : 4, 0, 0);
        sg_jv_bind(j, in->d, h, d);
        sg_jv_unpin(j);
    }
    return true;
}

NATIVE(ld_s_b32, e_ld_s, MEM(4, 1));
NATIVE(ld_s_u16, e_ld_s, MEM(2, 1));
NATIVE(ld_s_u8, e_ld_s, MEM(1, 1));
NATIVE(ld_s_v2_b32, e_ld_s, MEM(4, 2));
NATIVE(ld_s_v4_b32, e_ld_s, MEM(4, 4));
NATIVE(st_s_b32, e_st_s, MEM(4, 1) | STORE);
NATIVE(st_s_v2_b32, e_st_s, MEM(4, 2) | STORE);
NATIVE(st_s_v4_b32, e_st_s, MEM(4, 4) | STORE);
NATIVE(st_s_u16, sg_jit_store_small, MEM(2, 1) | STORE | NARROW);
NATIVE(st_s_u8, sg_jit_store_small, MEM(1, 1) | STORE | NARROW);
NATIVE(ld_p_b32, e_ld_p, MEM(4, 1));
NATIVE(ld_p_b64, e_ld_p, MEM(8, 1));

#endif

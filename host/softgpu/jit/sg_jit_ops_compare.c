/* SPDX-License-Identifier: MIT */
/*
 * Native code of comparisons, predicates, selections, permutations and divisions, and of f32
 * operations that take several instructions; like jit/sg_jit_ops.c.
 */
#include "jit/ops.h"

#include <string.h>

#ifdef SG_JIT

#define MXCSR_DAZ 0x40u /* denormal operands are 0 */

static const struct vop VMOV = {M0F, P66, 1, 0x6f}, VPANDD = {M0F, P66, 0, 0xdb}, VPORD = {M0F, P66, 0, 0xeb},
                        VPXORD = {M0F, P66, 0, 0xef}, BCAST_R32 = {M38, P66, 0, 0x7c},
                        FIRST32 = {M38, P66, 0, 0x58}, FIRST64 = {M38, P66, 1, 0x59},
                        BLEND_D = {M38, P66, 0, 0x64}, BLEND_Q = {M38, P66, 1, 0x64},
                        CMPPS = {M0F, PNONE, 0, 0xc2}, TESTMD = {M38, P66, 0, 0x27},
                        MOVDW = {M38, PF3, 0, 0x33}, CVTPH2PS = {M38, P66, 0, 0x13},
                        PSHUFD = {M0F, P66, 0, 0x70}, SHUF4 = {M3A, P66, 1, 0x43},
                        PSHUFB = {M38, P66, 0, 0x00};

/* True if operand a is the result of min or max just before, whose only NaN is PTX's, and denormals are 0
   at this point: a multiplication by 1 then only flushes. */
static bool flushed_by_product(const struct jit *j, const struct sg_insn *in)
{
    const enum sg_op before =
        j->cur > j->begin && !j->ahead_of && !j->leader[j->cur] ? sg_op_of(in[-1].fn) : SG_OP_NONE;

    return before && in[-1].d == in->a && (j->mxcsr & MXCSR_DAZ) &&
           (before == SG_OP_max_f32 || before == SG_OP_min_f32);
}

/* ---- bit operations with a fixed mask: arg 0 neg.f32, 1 abs.f32, 2 flush.f32 ---- */
static bool e_mask(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const u32 words[3] = {0x80000000u, 0x7f800000u, 0x3f800000u};
    const bool product = arg == 2 && flushed_by_product(j, in);

    if (product) {
        mov_imm64(B(j), RSI, (u64)(uintptr_t)words);
    } else if (arg < 2) {
        sg_jit_broadcast(j, 0, arg ? 0x7fffffffu : words[0]);
    } else { /* from memory: the port that moves general registers also compares and permutes */
        mov_imm64(B(j), RSI, (u64)(uintptr_t)words);
        evm(B(j), FIRST32, 0, 0, RSI, 0, 4, 0, 0);
        evm(B(j), FIRST32, 1, 0, RSI, 4, 4, 0, 0);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        if (product)
            evm(B(j), (struct vop){M0F, PNONE, 0, 0x59}, d, a, RSI, 8, 4, 0, EV_B); /* vmulps */
        else
            ev(B(j), arg == 0 ? VPXORD : VPANDD, d, a, 0, 0, 0);
        if (arg == 2 && !product) {
            ev(B(j), TESTMD, 1, a, 1, 0, 0);
            ev(B(j), BLEND_D, d, d, a, 1, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* ---- f32 ---- */

/*
 * Replaces NaNs by PTX's canonical NaN. With denormals enabled, a single vfixupimm suffices: the
 * register keeps its value if the operand is a NaN and takes the operand otherwise. Otherwise it
 * would flush denormals.
 */
static bool e_canon(struct jit *j, const struct sg_insn *in, u32 arg)
{
    static const struct vop FIXUP = {M3A, P66, 0, 0x54}, BCAST = {M38, P66, 0, 0x58};
    /* 8 classes, NaN first: 0: keep, 1: take */
    static const u32 words[2] = {0x7fffffffu, 0x11111100u};
    struct buf *x = B(j);

    (void)arg;
    mov_imm64(x, RSI, (u64)(uintptr_t)words);
    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        if ((j->mxcsr & MXCSR_DAZ) || x->avx2) {
            evi(x, CMPPS, 1, a, a, 0, 0, 3); /* unordered */
            evm(x, BLEND_D, d, a, RSI, 0, 4, 1, EV_B);
        } else {
            evm(x, BCAST, d, 0, RSI, 0, 4, 0, 0);
            evmi(x, FIXUP, d, a, RSI, 4, 4, 0, EV_B, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* far_to_inf() of exec/ops/sg_op_float.c, then the division */
static bool e_div_approx(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *x = B(j);

    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        sg_jit_broadcast(j, 0, 0x7fffffffu);
        ev(x, VPANDD, 1, b, 0, 0, 0);
        sg_jit_broadcast(j, 0, 0x7e800000u); /* 2^126 */
        evi(x, CMPPS, 1, 1, 0, 0, 0, 0x1e);  /* greater */
        ev(x, VMOV, 1, 0, b, 0, 0);
        sg_jit_broadcast(j, 0, 0xff800000u); /* all of b's exponent and none of its fraction */
        sg_jit_broadcast(j, 2, 0x7f800000u);
        ev(x, VPORD, 1, 1, 2, 1, 0);
        ev(x, VPANDD, 1, 1, 0, 1, 0);
        ev(x, sg_vop_of(arg), d, a, 1, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_fma(struct jit *j, const struct sg_insn *in, u32 arg)
{
    for (u32 h = 0; h < sg_jit_n(j, arg & WIDE); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), c = sg_jv_get(j, in->c, h);
        u32 d = c;

        if (sg_jit_dies(j, in, F_C)) {
            ev(B(j), sg_vop_of(arg + 0x10), d, a, b, 0, j->round); /* 231: d = a * b + d */
        } else {
            d = sg_jv_new(j);
            ev(B(j), VMOV, d, 0, a, 0, 0);
            ev(B(j), sg_vop_of(arg), d, b, c, 0, j->round); /* 213: d = b * d + c */
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_f16_f32(struct jit *j, const struct sg_insn *in, u32 arg)
{
    (void)arg;
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), d = sg_jv_new(j);

        ev(B(j), MOVDW, a, 0, 0, 0, 0);
        ev(B(j), CVTPH2PS, d, 0, 0, 0, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* Chunk d of e_minmax() where a or b is NaN: the other one, or PTX's canonical NaN. */
static void minmax_nan(struct buf *x, u32 d, u32 a, u32 b)
{
    evi(x, CMPPS, 3, a, a, 0, 0, 3);
    evi(x, CMPPS, 4, b, b, 0, 0, 3);
    ev(x, BLEND_D, d, d, b, 3, 0);
    ev(x, BLEND_D, d, d, a, 4, 0);
    evi(x, CMPPS, 3, a, a, 4, 0, 3);
    mov_imm64(x, RAX, 0x7fffffffu);
    ev(x, BCAST_R32, d, 0, RAX, 3, 0);
}

/*
 * fmin_ptx and fmax_ptx. The two comparisons are also true where they are not ordered, so that both are true there and nowhere
 * else: rare, its code is jumped over.
 */
static bool e_minmax(struct jit *j, const struct sg_insn *in, u32 max)
{
    const u32 n = sg_jit_n(j, false);
    struct buf *x = B(j);
    u32 a[2], b[2], d[2];
    size_t none;

    for (u32 h = 0; h < n; h++) {
        const u32 k = 1 + 2 * h;

        a[h] = sg_jv_get(j, in->a, h);
        b[h] = sg_jv_get(j, in->b, h);
        d[h] = sg_jv_new(j);
        evi(x, CMPPS, k, a[h], b[h], 0, 0, max ? 0x16 : 0x19); /* not less or equal, not greater or equal */
        evi(x, CMPPS, k + 1, a[h], b[h], 0, 0, 8);             /* equal */
        ev(x, BLEND_D, d[h], b[h], a[h], k, 0);
        ev(x, max ? VPANDD : VPORD, d[h], a[h], b[h], k + 1, 0);
        if (x->avx2)
            evi(x, CMPPS, 5 + h, a[h], b[h], 0, 0, 3);
        else
            vex(x, PNONE, 1, 0, 0x41, 5 + h, k, k + 1); /* kandw */
    }
    vex(x, PNONE, 0, 0, 0x98, 5, 0, 4 + n); /* kortestw */
    none = fork_jcc(x, JE);
    for (u32 h = 0; h < n; h++)
        minmax_nan(x, d[h], a[h], b[h]);
    sg_jit_join_at(j, none);
    for (u32 h = 0; h < n; h++) {
        sg_jv_kill(j, in, 1u << h);
        sg_jv_bind(j, in->d, h, d[h]);
    }
    sg_jv_unpin(j);
    return true;
}

/* ---- predicates ---- */

/* Stores masks 1 and up, one per chunk, to the predicate d. */
static void put_pred(struct jit *j, u32 d, bool wide)
{
    struct buf *b = B(j);

    if (j->masked == JIT_LOW) {
        if (wide)
            vex(b, P66, 1, 0, 0x4b, 1, 2, 1); /* kunpckbw */
    } else if (wide) {
        vex(b, P66, 1, 0, 0x4b, 1, 2, 1);
        vex(b, P66, 1, 0, 0x4b, 3, 4, 3);
        vex(b, PNONE, 1, 0, 0x4b, 1, 3, 1); /* kunpckwd */
    } else {
        vex(b, PNONE, 1, 0, 0x4b, 1, 2, 1);
    }
    if (j->masked) {
        vex(b, PF2, 0, 0, 0x93, RAX, 0, 1); /* kmovd eax, k1 */
        sg_jit_put_pred(j, d);
    } else {
        KMOVD_STORE(b, 1, G_REGS, (s32)d);
    }
}

static bool e_setp(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const u32 n = sg_jit_n(j, arg & WIDE);

    for (u32 h = 0; h < n; h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h);

        evi(B(j), sg_vop_of(arg), 1 + h, a, b, 0, 0, arg >> 16 & 255);
        sg_jv_unpin(j);
    }
    put_pred(j, in->d, arg & WIDE);
    sg_jv_kill(j, in, (1u << n) - 1);
    return true;
}

static bool e_selp(struct jit *j, const struct sg_insn *in, u32 wide)
{
    if (in->c & SG_OPND_CONST)
        return false;
    for (u32 h = 0; h < sg_jit_chunks(j, in, wide); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        if (wide)
            KMOVB_LOAD(B(j), 1, G_REGS, (s32)(in->c + h));
        else
            KMOVW_LOAD(B(j), 1, G_REGS, (s32)(in->c + 2 * h));
        ev(B(j), wide ? BLEND_Q : BLEND_D, d, b, a, 1, 0);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_pred(struct jit *j, const struct sg_insn *in, u32 op)
{
    struct buf *b = B(j);

    alu_mem(b, false, 0x8b, RAX, in->a >> 31 ? G_POOL : G_REGS, (s32)(in->a & 0x7fffffffu));
    if (op == 1) { /* not */
        put8(b, 0xf7);
        put8(b, 0xd0);
    } else if (op) {
        alu_mem(b, false, op, RAX, in->b >> 31 ? G_POOL : G_REGS, (s32)(in->b & 0x7fffffffu));
    }
    sg_jit_put_pred(j, in->d);
    return true;
}

/* ---- permutations ---- */

/* Replaces the bytes of register v for which `signs` has 0xff by their sign, eight times.
   Clobbers register 0, RAX, k1. */
static void byte_signs(struct jit *j, u32 v, u32 signs)
{
    ev(B(j), (struct vop){M38, PF3, 0, 0x29}, 1, 0, v, 0, 0); /* vpmovb2m */
    if (signs == 0xffffffffu) {
        ev(B(j), (struct vop){M38, PF3, 0, 0x28}, v, 0, 1, 0, 0); /* vpmovm2b */
        return;
    }
    ev(B(j), (struct vop){M38, PF3, 0, 0x28}, 0, 0, 1, 0, 0);
    sg_jit_broadcast(j, 1, signs);
    /* vpternlogd: 0 in lanes where register 1 is set, else v */
    evi(B(j), (struct vop){M3A, P66, 0, 0x25}, v, 1, 0, 0, 0, 0xb8);
}

/* prmt with an immediate: shuffles within 16 bytes, then signs */
static bool e_prmt(struct jit *j, const struct sg_insn *in, u32 arg)
{
    u32 from_a = 0, from_b = 0, signs = 0;
    u64 sel;

    (void)arg;
    if (!sg_jit_const(j, in->c, &sel, false))
        return false;
    for (u32 k = 0; k < 4; k++) {
        const u32 s = (u32)(sel >> (4 * k)) & 7;

        signs |= (sel >> (4 * k) & 8 ? 0xffu : 0) << (8 * k);

        from_a |= (s < 4 ? s : 0x80) << (8 * k);
        from_b |= (s < 4 ? 0x80 : s - 4) << (8 * k);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), b = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        /* the bytes of lane i of 4 are 4 * i further; 0x80 gives 0 */
        if (from_a != 0x80808080u)
            ev(B(j), PSHUFB, d, a, sg_jit_pattern(j, 2, from_a), 0, 0);
        if (from_b != 0x80808080u)
            ev(B(j), PSHUFB, from_a == 0x80808080u ? d : 0, b, sg_jit_pattern(j, 3, from_b), 0, 0);
        if (from_a != 0x80808080u && from_b != 0x80808080u)
            ev(B(j), VPORD, d, d, 0, 0, 0);
        if (signs)
            byte_signs(j, d, signs);
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

static bool e_bfly(struct jit *j, const struct sg_insn *in, u32 arg)
{
    struct buf *x = B(j);
    u32 v[2], d[2], order;
    u64 n, c;

    (void)arg;
    if (!sg_jit_const(j, in->b, &n, false) || !sg_jit_const(j, in->c, &c, false) || (n & 31) != n || !n ||
        (n & (n - 1)) || (in->e & SG_OPND_CONST))
        return false;
    if ((c >> 8 & n) || ((c | c >> 8) & 31) != 31) /* else every lane has a partner */
        return false;
    order = n & 5 ? 0xb1 : 0x4e;  /* 1 and 4: adjacent lanes; 2 and 8: adjacent pairs */
    for (u32 h = 0; h < 2; h++) { /* also for inactive lanes, which may be partners */
        v[h] = sg_jv_get(j, in->a, h);
        sg_jv_settle(j, v[h]);
    }
    for (u32 h = 0; h < sg_jit_n(j, false); h++) {
        d[h] = sg_jv_new(j);
        if (n == 16)
            ev(x, VMOV, d[h], 0, v[h ^ 1], 0, 0);
        else if (n < 4)
            evi(x, PSHUFD, d[h], 0, v[h], 0, 0, order);
        else
            evi(x, SHUF4, d[h], v[h], v[h], 0, 0, order);
    }
    sg_jv_kill(j, in, 3);
    for (u32 h = 0; h < sg_jit_n(j, false); h++)
        sg_jv_bind(j, in->d, h, d[h]);
    sg_jv_unpin(j);
    mov_imm64(x, RAX, SG_FULL);
    sg_jit_put_pred(j, in->e);
    return true;
}

#define SETP(name, w, op, imm) \
    NATIVE_MODELESS(setp_##name, e_setp, ARG(M3A, P66, w, op) | ((w) ? WIDE : 0) | IMM(imm))
#define SETP_ORDER(t, w, op) \
    SETP(lt_##t, w, op, 1); \
    SETP(le_##t, w, op, 2); \
    SETP(gt_##t, w, op, 6); \
    SETP(ge_##t, w, op, 5)
#define SETP_F(name, imm) \
    NATIVE_MODELESS(setp_##name##_f32, e_setp, ARG(M0F, PNONE, 0, 0xc2) | IMM(imm) | FIXED)

enum { DIV_SIGNED = 1, DIV_REST = 2 };

/* Half of the lanes of register v (EV_XMM: the first two lanes) as f64 to register d. */
static void half_to_f64(struct jit *j, u32 d, u32 v, bool upper, bool sign, u32 size)
{
    struct buf *b = B(j);

    if (upper) {
        evi(b, (struct vop){M3A, P66, 1, 0x3b}, v, 0, d, 0, 0, 1); /* vextracti64x4 */
        v = d;
    }
    ev(b, (struct vop){M0F, PF3, 0, sign ? 0xe6 : 0x7a}, d, 0, v, 0, size);
}

/*
 * Divides 32-bit integers in f64, which is exact (exec/ops/sg_op_integer.c). A divisor of 0 gives all ones,
 * as the conversion of an f64 infinity or NaN to unsigned does. Whichever way MXCSR rounds: a quotient that is no integer is
 * further from the next one than half a unit in the last place, as 2^-32 is to 2^32.
 */
static bool e_div(struct jit *j, const struct sg_insn *in, u32 arg)
{
    const bool sign = arg & DIV_SIGNED, flat = sg_jit_flat(j, in->d);
    const u32 size = flat && !B(j)->avx2 ? EV_XMM : 0;
    struct buf *b = B(j);

    for (u32 h = 0; h < sg_jit_chunks(j, in, false); h++) {
        const u32 a = sg_jv_get(j, in->a, h), by = sg_jv_get(j, in->b, h), d = sg_jv_new(j);

        for (u32 k = 0; k < (flat ? 1 : 2); k++) {
            half_to_f64(j, 2 * k, a, k, sign, size);
            half_to_f64(j, 2 * k + 1, by, k, sign, size);
            ev(b, (struct vop){M0F, P66, 1, 0x5e}, 2 * k, 2 * k, 2 * k + 1, 0, size); /* vdivpd */
            ev(b, (struct vop){M0F, sign ? P66 : PNONE, 1, sign ? 0xe6 : 0x78}, 2 * k, 0, 2 * k, 0, size);
        }
        if (flat)
            ev(b, (struct vop){M38, P66, 0, 0x58}, 0, 0, 0, 0, 0); /* vpbroadcastd */
        else
            evi(b, (struct vop){M3A, P66, 1, 0x3a}, 0, 0, 2, 0, 0, 1); /* vinserti64x4 */
        if (sign && !(arg & DIV_REST)) {
            ev(b, (struct vop){M38, PF3, 0, 0x27}, 1, by, by, 0, 0); /* vptestnmd */
            evi(b, (struct vop){M3A, P66, 0, 0x25}, 0, 0, 0, 1, 0, 0xff);
        }
        if (arg & DIV_REST) {
            ev(b, (struct vop){M38, P66, 0, 0x40}, 0, 0, by, 0, 0); /* vpmulld */
            ev(b, (struct vop){M0F, P66, 0, 0xfa}, d, a, 0, 0, 0);  /* vpsubd */
        } else {
            ev(b, VMOV, d, 0, 0, 0, 0);
        }
        sg_jit_finish(j, in, h, 1u << h, d);
    }
    return true;
}

/* The value of the first running lane, for every lane. */
static bool e_first(struct jit *j, const struct sg_insn *in, u32 arg)
{
    u32 a, d;

    if (j->masked || !sg_jit_flat(j, in->d))
        return false;
    a = sg_jv_get(j, in->a, 0);
    d = sg_jv_new(j);
    ev(B(j), arg & WIDE ? FIRST64 : FIRST32, d, 0, a, 0, 0);
    sg_jit_finish(j, in, 0, 15, d);
    return true;
}

NATIVE_MODELESS(div_u32, e_div, 0);
NATIVE_MODELESS(div_s32, e_div, DIV_SIGNED);
NATIVE_MODELESS(rem_u32, e_div, DIV_REST);
NATIVE_MODELESS(rem_s32, e_div, DIV_REST | DIV_SIGNED);
NATIVE_MODELESS(first_b32, e_first, 0);
NATIVE_MODELESS(first_b64, e_first, WIDE);
NATIVE_MODELESS(neg_f32, e_mask, 0);
NATIVE_MODELESS(abs_f32, e_mask, 1);
NATIVE_MODELESS(flush_f32, e_mask, 2);
NATIVE_MODELESS(canon_f32, e_canon, 0 | FIXED);
NATIVE_MODELESS(div_approx_f32, e_div_approx, ARG(M0F, PNONE, 0, 0x5e) | MODAL);
NATIVE_MODELESS(fma_f32, e_fma, ARG(M38, P66, 0, 0xa8) | FIXED);
NATIVE_MODELESS(fma_f64, e_fma, ARG(M38, P66, 1, 0xa8) | WIDE | FIXED);
NATIVE_MODELESS(min_f32, e_minmax, 0 | FIXED);
NATIVE_MODELESS(max_f32, e_minmax, 1 | FIXED);
NATIVE_MODELESS(cvt_f32_f16, e_f16_f32, NO_MODE | FIXED);
NATIVE_MODELESS(setp_eq_b32, e_setp, ARG(M3A, P66, 0, 0x1f) | IMM(0));
NATIVE_MODELESS(setp_ne_b32, e_setp, ARG(M3A, P66, 0, 0x1f) | IMM(4));
SETP(eq_b64, 1, 0x1f, 0);
SETP(ne_b64, 1, 0x1f, 4);
SETP_ORDER(s32, 0, 0x1f);
SETP_ORDER(u32, 0, 0x1e);
SETP_ORDER(s64, 1, 0x1f);
SETP_ORDER(u64, 1, 0x1e);
SETP_F(eq, 0x00);
SETP_F(ne, 0x0c);
SETP_F(lt, 0x11);
SETP_F(le, 0x12);
SETP_F(gt, 0x1e);
SETP_F(ge, 0x1d);
SETP_F(equ, 0x08);
SETP_F(neu, 0x04);
SETP_F(ltu, 0x19);
SETP_F(leu, 0x1a);
SETP_F(gtu, 0x16);
SETP_F(geu, 0x15);
SETP_F(num, 0x07);
SETP_F(nan, 0x03);
NATIVE_MODELESS(selp_b32, e_selp, 0);
NATIVE_MODELESS(selp_b64, e_selp, 1);
NATIVE_MODELESS(and_pred, e_pred, 0x23);
NATIVE_MODELESS(or_pred, e_pred, 0x0b);
NATIVE_MODELESS(xor_pred, e_pred, 0x33);
NATIVE_MODELESS(not_pred, e_pred, 1);
NATIVE_MODELESS(mov_pred, e_pred, 0);
NATIVE_MODELESS(prmt_b32, e_prmt, 0);
NATIVE_MODELESS(shfl_bfly, e_bfly, 0);

#endif

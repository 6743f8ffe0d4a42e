/* SPDX-License-Identifier: MIT */
/* Handlers: rare integer instructions: carry chains, 24-bit products, bit manipulation, packing. */
#include "exec/ops/handler.h"

#define S24(x) ((s32)((u32)(x) << 8) >> 8)
#define U24(x) ((u32)(x)&0xffffffu)
#define CLAMP32(x) ((x) > INT32_MAX ? INT32_MAX : (x) < INT32_MIN ? INT32_MIN : (x))
#define ABSDIFF(a, b) ((a) > (b) ? (a) - (b) : (b) - (a))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))

/* two 16-bit lanes of a 32-bit register */
#define PAIR(lo, hi) (((u32)(lo)&0xffffu) | (u32)(hi) << 16)
#define LO(x) ((x)&0xffffu)
#define HI(x) ((x) >> 16)

static inline u32 bfind32(u32 v)
{
    return v ? 31 - (u32)__builtin_clz(v) : SG_FULL;
}

static inline u32 bfind64(u64 v)
{
    return v ? 63 - (u32)__builtin_clzll(v) : SG_FULL;
}

static inline u32 shiftamt(u32 r, u32 top)
{
    return r == SG_FULL ? r : top - r;
}

/* the n-th set bit from base: up for n > 0, down for n < 0, base itself for 0 (PTX ISA, fns) */
static inline u32 fns(u32 mask, u32 base, s32 n)
{
    const int step = n < 0 ? -1 : 1;
    s32 left = n < 0 ? -n : n;

    if (base > 31)
        return SG_FULL;
    if (!n)
        return mask >> base & 1 ? base : SG_FULL;
    for (int p = (int)base; p >= 0 && p < 32; p += step)
        if ((mask >> p & 1) && !--left)
            return (u32)p;
    return SG_FULL;
}

static inline u32 bmsk(u32 a, u32 b, bool clamp)
{
    if (!clamp) {
        a &= 31;
        b &= 31;
    } else {
        a = a > 32 ? 32 : a;
        b = b > 32 ? 32 : b;
    }
    return (u32)((((1ull << b) - 1) << a));
}

static inline u32 szext(u32 a, u32 n, bool clamp, bool sign)
{
    if (!clamp)
        n &= 31;
    if (n > 31)
        return a;
    if (!n)
        return 0;
    return sign ? (u32)((s32)(a << (32 - n)) >> (32 - n)) : a & ((1u << n) - 1);
}

/* the fixed modes of prmt: c chooses among the bytes 0-3 of a and 4-7 of b */
static inline u32 prmt_mode(u32 a, u32 b, u32 c, int mode)
{
    const u64 x = (u64)b << 32 | a;
    const u32 k = c & 3;
    u32 r = 0;

    for (u32 i = 0; i < 4; i++) {
        u32 s = 0;

        switch (mode) {
        case 0:
            s = i + k;
            break; /* f4e */
        case 1:
            s = (k - i) & 7;
            break; /* b4e */
        case 2:
            s = k;
            break; /* rc8 */
        case 3:
            s = i > k ? i : k;
            break; /* ecl */
        case 4:
            s = i < k ? i : k;
            break; /* ecr */
        default:
            s = (k & 1) * 2 + (i & 1);
            break; /* rc16 */
        }
        r |= ((u32)(x >> (8 * (s & 7))) & 255) << (8 * i);
    }
    return r;
}

#define LIST1(X) \
    X(bfind_u32, "bfind.u32", u32, u32, bfind32(a)) \
    X(bfind_s32, "bfind.s32", u32, s32, bfind32((u32)(a < 0 ? ~a : a))) \
    X(bfind_u64, "bfind.u64", u32, u64, bfind64(a)) \
    X(bfind_s64, "bfind.s64", u32, s64, bfind64((u64)(a < 0 ? ~a : a))) \
    X(bfinds_u32, "bfind.shiftamt.u32", u32, u32, shiftamt(bfind32(a), 31)) \
    X(bfinds_s32, "bfind.shiftamt.s32", u32, s32, shiftamt(bfind32((u32)(a < 0 ? ~a : a)), 31)) \
    X(bfinds_u64, "bfind.shiftamt.u64", u32, u64, shiftamt(bfind64(a), 63)) \
    X(bfinds_s64, "bfind.shiftamt.s64", u32, s64, shiftamt(bfind64((u64)(a < 0 ? ~a : a)), 63))

#define LIST2(X) \
    X(add_sat, "add.sat.s32", u32, s32, s32, CLAMP32((s64)a + b)) \
    X(sub_sat, "sub.sat.s32", u32, s32, s32, CLAMP32((s64)a - b)) \
    X(add_u16x2, "add.u16x2", u32, u32, u32, PAIR(a + b, HI(a) + HI(b))) \
    X(sub_u16x2, "sub.u16x2", u32, u32, u32, PAIR(a - b, HI(a) - HI(b))) \
    X(min_u16x2, "min.u16x2", u32, u32, u32, PAIR(MIN(LO(a), LO(b)), MIN(HI(a), HI(b)))) \
    X(max_u16x2, "max.u16x2", u32, u32, u32, PAIR(MAX(LO(a), LO(b)), MAX(HI(a), HI(b)))) \
    X(min_s16x2, "min.s16x2", u32, u32, u32, PAIR(MIN((s16)a, (s16)b), MIN((s16)HI(a), (s16)HI(b)))) \
    X(max_s16x2, "max.s16x2", u32, u32, u32, PAIR(MAX((s16)a, (s16)b), MAX((s16)HI(a), (s16)HI(b)))) \
    X(min_relu_s16x2, "min.relu.s16x2", u32, u32, u32, \
      PAIR(MAX(MIN((s16)a, (s16)b), 0), MAX(MIN((s16)HI(a), (s16)HI(b)), 0))) \
    X(max_relu_s16x2, "max.relu.s16x2", u32, u32, u32, \
      PAIR(MAX(MAX((s16)a, (s16)b), 0), MAX(MAX((s16)HI(a), (s16)HI(b)), 0))) \
    X(min_relu_s32, "min.relu.s32", u32, s32, s32, MAX(MIN(a, b), 0)) \
    X(max_relu_s32, "max.relu.s32", u32, s32, s32, MAX(MAX(a, b), 0)) \
    X(mul24lo_s, "mul24.lo.s32", u32, u32, u32, (s64)S24(a) * S24(b)) \
    X(mul24lo_u, "mul24.lo.u32", u32, u32, u32, (u64)U24(a) * U24(b)) \
    X(mul24hi_s, "mul24.hi.s32", u32, u32, u32, ((s64)S24(a) * S24(b)) >> 16) \
    X(mul24hi_u, "mul24.hi.u32", u32, u32, u32, ((u64)U24(a) * U24(b)) >> 16) \
    X(bmsk_clamp, "bmsk.clamp", u32, u32, u32, bmsk(a, b, true)) \
    X(bmsk_wrap, "bmsk.wrap", u32, u32, u32, bmsk(a, b, false)) \
    X(szext_cu, "szext.clamp.u32", u32, u32, u32, szext(a, b, true, false)) \
    X(szext_cs, "szext.clamp.s32", u32, u32, u32, szext(a, b, true, true)) \
    X(szext_wu, "szext.wrap.u32", u32, u32, u32, szext(a, b, false, false)) \
    X(szext_ws, "szext.wrap.s32", u32, u32, u32, szext(a, b, false, true)) \
    X(pack_2x8, "mov.pack.2x8", u32, u32, u32, (a & 255) | (b & 255) << 8)

#define LIST3(X) \
    X(sad_u16, "sad.u16", u32, u32, u32, u32, c + ABSDIFF((s32)(u16)a, (s32)(u16)b)) \
    X(sad_s16, "sad.s16", u32, u32, u32, u32, c + ABSDIFF((s32)(s16)a, (s32)(s16)b)) \
    X(sad_u32, "sad.u32", u32, u32, u32, u32, c + ABSDIFF(a, b)) \
    X(sad_s32, "sad.s32", u32, s32, s32, u32, c + (u32)ABSDIFF((s64)a, (s64)b)) \
    X(sad_u64, "sad.u64", u64, u64, u64, u64, c + ABSDIFF(a, b)) \
    X(sad_s64, "sad.s64", u64, s64, s64, u64, c + (a > b ? (u64)a - (u64)b : (u64)b - (u64)a)) \
    X(mad_hi_sat, "mad.hi.sat.s32", u32, s32, s32, s32, CLAMP32((((s64)a * b) >> 32) + c)) \
    X(mad24lo_s, "mad24.lo.s32", u32, u32, u32, u32, (u32)((s64)S24(a) * S24(b)) + c) \
    X(mad24lo_u, "mad24.lo.u32", u32, u32, u32, u32, (u32)((u64)U24(a) * U24(b)) + c) \
    X(mad24hi_s, "mad24.hi.s32", u32, u32, u32, u32, (u32)(((s64)S24(a) * S24(b)) >> 16) + c) \
    X(mad24hi_u, "mad24.hi.u32", u32, u32, u32, u32, (u32)(((u64)U24(a) * U24(b)) >> 16) + c) \
    X(mad24hi_sat, "mad24.hi.sat.s32", u32, u32, u32, s32, CLAMP32((((s64)S24(a) * S24(b)) >> 16) + c)) \
    X(fns_b32, "fns.b32", u32, u32, u32, s32, fns(a, b, c)) \
    X(prmt_f4e, "prmt.f4e", u32, u32, u32, u32, prmt_mode(a, b, c, 0)) \
    X(prmt_b4e, "prmt.b4e", u32, u32, u32, u32, prmt_mode(a, b, c, 1)) \
    X(prmt_rc8, "prmt.rc8", u32, u32, u32, u32, prmt_mode(a, b, c, 2)) \
    X(prmt_ecl, "prmt.ecl", u32, u32, u32, u32, prmt_mode(a, b, c, 3)) \
    X(prmt_ecr, "prmt.ecr", u32, u32, u32, u32, prmt_mode(a, b, c, 4)) \
    X(prmt_rc16, "prmt.rc16", u32, u32, u32, u32, prmt_mode(a, b, c, 5))

LIST1(OP1)
LIST2(OP2)
LIST3(OP3)

/* ---- carry: one bit per lane in w->cc ---- */

#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* carry in and out as the low bits of cin and cout; W holds the full result */
#define CARRY(id, name, T, W, n, e, out, set) \
    HANDLER(id) \
    { \
        const T *pa = SRC(T, a), *pb = SRC(T, b), *pc = n > 2 ? SRC(T, c) : pa; \
        T *d = DST(T, d); \
        EACH(w->mask) \
        { \
            const W a = pa[i], b = pb[i], c = pc[i], cin = w->cc >> i & 1; \
            const W r = (e); \
            (void)c; \
            (void)cin; \
            d[i] = (T)r; \
            if (set) \
                w->cc = (w->cc & ~(1u << i)) | ((out) ? 1u << i : 0); \
        } \
        return SG_NEXT; \
    }
#define ROWY(id, name, T, W, n, e, out, set) ROW(id, name, OUT(T), IN(T), IN(T), n > 2 ? IN(T) : NO),
#define CARRIED(T) (r >> (8 * sizeof(T)) & 1)

typedef unsigned __int128 u128;
typedef __int128 s128;

#define MUL_HI(T, ST, W, SW, sign) \
    ((sign) ? (W)(T)(((SW)(ST)a * (SW)(ST)b) >> (8 * sizeof(T))) : (W)(T)((W)(a * b) >> (8 * sizeof(T))))
#define CARRIES(X, n, T, ST, W, SW) \
    X(add_cc_##n, "add.cc." #n, T, W, 2, a + b, CARRIED(T), 1) \
    X(addc_##n, "addc." #n, T, W, 2, a + b + cin, CARRIED(T), 0) \
    X(addc_cc_##n, "addc.cc." #n, T, W, 2, a + b + cin, CARRIED(T), 1) \
    X(sub_cc_##n, "sub.cc." #n, T, W, 2, a - b, CARRIED(T), 1) \
    X(subc_##n, "subc." #n, T, W, 2, a - b - cin, CARRIED(T), 0) \
    X(subc_cc_##n, "subc.cc." #n, T, W, 2, a - b - cin, CARRIED(T), 1) \
    X(madlo_cc_##n, "mad.lo.cc." #n, T, W, 3, (W)(T)(a * b) + c, CARRIED(T), 1) \
    X(madclo_##n, "madc.lo." #n, T, W, 3, (W)(T)(a * b) + c + cin, CARRIED(T), 0) \
    X(madclo_cc_##n, "madc.lo.cc." #n, T, W, 3, (W)(T)(a * b) + c + cin, CARRIED(T), 1)
#define CARRIES_HI(X, n, T, ST, W, SW, sign) \
    X(madhi_cc_##n, "mad.hi.cc." #n, T, W, 3, MUL_HI(T, ST, W, SW, sign) + c, CARRIED(T), 1) \
    X(madchi_##n, "madc.hi." #n, T, W, 3, MUL_HI(T, ST, W, SW, sign) + c + cin, CARRIED(T), 0) \
    X(madchi_cc_##n, "madc.hi.cc." #n, T, W, 3, MUL_HI(T, ST, W, SW, sign) + c + cin, CARRIED(T), 1)
#define LISTY(X) \
    CARRIES(X, b32, u32, s32, u64, s64) \
    CARRIES(X, b64, u64, s64, u128, s128) \
    CARRIES_HI(X, u32, u32, s32, u64, s64, 0) \
    CARRIES_HI(X, s32, u32, s32, u64, s64, 1) \
    CARRIES_HI(X, u64, u64, s64, u128, s128, 0) \
    CARRIES_HI(X, s64, u64, s64, u128, s128, 1)
LISTY(CARRY)

/* With saturation, which ptxas has for .s32: of the sum, carry included. */
#define CARRY_SAT(id, name, n, e) \
    HANDLER(id) \
    { \
        const s32 *pa = SRC(s32, a), *pb = SRC(s32, b), *pc = n > 2 ? SRC(s32, c) : pa; \
        u32 *d = DST(u32, d); \
        EACH(w->mask) \
        { \
            const s64 a = pa[i], b = pb[i], c = pc[i], cin = w->cc >> i & 1; \
            const s64 r = (e); \
            (void)c; \
            d[i] = (u32)CLAMP32(r); \
        } \
        return SG_NEXT; \
    }
#define ROWS(id, name, n, e) ROW(id, name, OUT(u32), IN(u32), IN(u32), n > 2 ? IN(u32) : NO),
#define LISTS(X) \
    X(addc_sat, "addc.sat.s32", 2, a + b + cin) \
    X(subc_sat, "subc.sat.s32", 2, a - b - cin) \
    X(madchi_sat, "madc.hi.sat.s32", 3, ((a * b) >> 32) + c + cin)
LISTS(CARRY_SAT)

/* ---- video instructions ---- */

enum simd_op { V_ADD, V_SUB, V_MIN, V_MAX, V_AVRG, V_ABSDIFF };

static inline s32 simd_lane(u32 x, int at, int bits, bool sign)
{
    x = x << (32 - bits - at);
    return sign ? (s32)x >> (32 - bits) : (s32)(x >> (32 - bits));
}

static u32 simd_video(u32 a, u32 b, u32 c, enum simd_op op, int bits, s64 flags)
{
    const u32 mask = (1u << bits) - 1;
    const bool sign = flags & SG_SIMD_SD;
    const s32 lo = sign ? -(1 << (bits - 1)) : 0, hi = sign ? (1 << (bits - 1)) - 1 : (s32)mask;
    u32 r = 0, sum = c;

    for (int k = 0; k < 32; k += bits) {
        const s32 x = simd_lane(a, k, bits, flags & SG_SIMD_SA),
                  y = simd_lane(b, k, bits, flags & SG_SIMD_SB);
        s32 v = 0;

        switch (op) {
        case V_ADD:
            v = x + y;
            break;
        case V_SUB:
            v = x - y;
            break;
        case V_MIN:
            v = MIN(x, y);
            break;
        case V_MAX:
            v = MAX(x, y);
            break;
        case V_AVRG:
            v = (x + y + (x + y >= 0)) >> 1;
            break;
        case V_ABSDIFF:
            v = ABSDIFF(x, y);
            break;
        }
        if (flags & SG_SIMD_SAT)
            v = v < lo ? lo : v > hi ? hi : v;
        r |= ((u32)v & mask) << k;
        sum += flags >> (8 + k / bits) & 1 ? (u32)v : 0;
    }
    return flags & SG_SIMD_ADD ? sum : r;
}

#define SIMD(id, name, op, bits) \
    HANDLER(id) \
    { \
        const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c); \
        STORE(u32, simd_video(pa[i], pb[i], pc[i], op, bits, in->imm)); \
        return SG_NEXT; \
    }
#define ROWV(id, name, op, bits) ROW(id, name, OUT(u32), IN(u32), IN(u32), IN(u32)),
#define SIMD4(X, n, op) X(v##n##4, "v" #n "4", op, 8) X(v##n##2, "v" #n "2", op, 16)
#define LISTV(X) \
    SIMD4(X, add, V_ADD) \
    SIMD4(X, sub, V_SUB) \
    SIMD4(X, min, V_MIN) SIMD4(X, max, V_MAX) SIMD4(X, avrg, V_AVRG) SIMD4(X, absdiff, V_ABSDIFF)
LISTV(SIMD)

/* PTX ISA, "vmad": the intermediate result has 128 bits. */
static u32 vmad(u32 a, u32 b, u32 c, s64 flags)
{
    const s128 x = flags & SG_VMAD_SA ? (s128)(s32)a : (s128)a,
               y = flags & SG_VMAD_SB ? (s128)(s32)b : (s128)b;
    const s128 lo = flags & SG_VMAD_SD ? INT32_MIN : 0, hi = flags & SG_VMAD_SD ? INT32_MAX : UINT32_MAX;
    s128 r = flags & SG_VMAD_NEG_AB ? ~(x * y) : x * y;

    c = flags & SG_VMAD_NEG_C ? ~c : c;
    r += (flags & SG_VMAD_SD ? (s128)(s32)c : (s128)c) +
         ((flags & (SG_VMAD_PO | SG_VMAD_NEG_AB | SG_VMAD_NEG_C)) != 0);
    r >>= flags >> 8 & 63;
    if (flags & SG_VMAD_SAT)
        r = r < lo ? lo : r > hi ? hi : r;
    return (u32)r;
}

HANDLER(vmad)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c);

    STORE(u32, vmad(pa[i], pb[i], pc[i], in->imm));
    return SG_NEXT;
}

/* ---- packing of four ---- */

HANDLER(pack_4x16)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u64, (u64)LO(pa[i]) | (u64)LO(pb[i]) << 16 | (u64)LO(pc[i]) << 32 | (u64)LO(pe[i]) << 48);
    return SG_NEXT;
}

HANDLER(pack_4x8)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u32, (pa[i] & 255) | (pb[i] & 255) << 8 | (pc[i] & 255) << 16 | pe[i] << 24);
    return SG_NEXT;
}

/* destinations d b c e; the source is copied first, as it may share a slot with a destination */
static int unpack_elements(struct sg_warp *w, const struct sg_insn *in, int n, int bits, bool is64)
{
    const u32 dst[4] = {in->d, in->b, in->c, in->e};
    u64 v[SG_LANES];

    for (int i = 0; i < SG_LANES; i++)
        v[i] = is64 ? SRC(u64, a)[i] : SRC(u32, a)[i];
    for (int k = 0; k < n; k++) {
        u32 *d = (u32 *)(void *)(w->base[0] + dst[k]);

        EACH(w->wmask) d[i] = (u32)(v[i] >> (k * bits)) & ((1u << bits) - 1);
    }
    return SG_NEXT;
}

HANDLER(unpack_4x16)
{
    return unpack_elements(w, in, 4, 16, true);
}

HANDLER(unpack_4x8)
{
    return unpack_elements(w, in, 4, 8, false);
}

HANDLER(unpack_2x8)
{
    return unpack_elements(w, in, 2, 8, false);
}

/* ---- testp ---- */

#define EXP32(x) ((x) >> 23 & 255)
#define MAN32(x) ((x)&0x7fffffu)
#define EXP64(x) ((x) >> 52 & 2047)
#define MAN64(x) ((x)&0xfffffffffffffull)
/* Zeroes are normal numbers (PTX ISA, "testp"). */
#define LISTC(X) \
    X(fin32, "testp.finite.f32", u32, (EXP32(a) != 255)) \
    X(inf32, "testp.infinite.f32", u32, (EXP32(a) == 255 && !MAN32(a))) \
    X(num32, "testp.number.f32", u32, (EXP32(a) != 255 || !MAN32(a))) \
    X(nan32, "testp.notanumber.f32", u32, (EXP32(a) == 255 && MAN32(a))) \
    X(nrm32, "testp.normal.f32", u32, (EXP32(a) ? EXP32(a) != 255 : !MAN32(a))) \
    X(sub32, "testp.subnormal.f32", u32, (!EXP32(a) && MAN32(a))) \
    X(fin64, "testp.finite.f64", u64, (EXP64(a) != 2047)) \
    X(inf64, "testp.infinite.f64", u64, (EXP64(a) == 2047 && !MAN64(a))) \
    X(num64, "testp.number.f64", u64, (EXP64(a) != 2047 || !MAN64(a))) \
    X(nan64, "testp.notanumber.f64", u64, (EXP64(a) == 2047 && MAN64(a))) \
    X(nrm64, "testp.normal.f64", u64, (EXP64(a) ? EXP64(a) != 2047 : !MAN64(a))) \
    X(sub64, "testp.subnormal.f64", u64, (!EXP64(a) && MAN64(a)))
/* Tests with one operand; the second is ignored. */
#define TEST(id, name, TA, e) \
    HANDLER(id) \
    { \
        const TA *pa_ = SRC(TA, a); \
        u32 r_ = 0; \
        SG_VECTOR for (int i = 0; i < SG_LANES; i++) \
        { \
            const TA a = pa_[i]; \
            r_ |= (e) ? sg_bit32[i] : 0; \
        } \
        sg_set_pred(w, in->d, r_); \
        return SG_NEXT; \
    }
#define ROWT(id, name, TA, e) ROW(id, name, OUT_P, IN(TA)),
LISTC(TEST)

const struct sg_opdef sg_ops_cold[] = {
    LIST1(ROW1) LIST2(ROW2) LIST3(ROW3) LISTY(ROWY) LISTS(ROWS) LISTC(ROWT) LISTV(ROWV)
        ROW(vmad, "vmad", OUT(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_4x16, "mov.pack.4x16", OUT(u64), IN(u32), IN(u32), IN(u32), IN(u32)),
    ROW(pack_4x8, "mov.pack.4x8", OUT(u32), IN(u32), IN(u32), IN(u32), IN(u32)),
    ROW(unpack_4x16, "mov.unpack.4x16", OUT(u32), IN(u64), OUT(u32), OUT(u32), OUT(u32)),
    ROW(unpack_4x8, "mov.unpack.4x8", OUT(u32), IN(u32), OUT(u32), OUT(u32), OUT(u32)),
    ROW(unpack_2x8, "mov.unpack.2x8", OUT(u32), IN(u32), OUT(u32)),
    {0},
};

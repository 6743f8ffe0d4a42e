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

/* ---- carry: one bit per lane in w->cc ---- */

#define EACH(m) for (u32 m_ = (m), i; m_ && (i = (u32)__builtin_ctz(m_), 1); m_ &= m_ - 1)

/* carry in and out as the low bits of cin and cout; W holds the full result */
#define CARRY(id, name, native, T, W, n, e, out, set) \
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
#define CARRIED(T) (r >> (8 * sizeof(T)) & 1)

typedef unsigned __int128 u128;
typedef __int128 s128;

#define MUL_HI(T, ST, W, SW, sign) \
    ((sign) ? (W)(T)(((SW)(ST)a * (SW)(ST)b) >> (8 * sizeof(T))) : (W)(T)((W)(a * b) >> (8 * sizeof(T))))

/* With saturation, which ptxas has for .s32: of the sum, carry included. */
#define CARRY_SAT(id, name, native, n, e) \
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

#define SIMD(id, name, native, op, bits) \
    HANDLER(id) \
    { \
        const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c); \
        STORE(u32, simd_video(pa[i], pb[i], pc[i], op, bits, in->imm)); \
        return SG_NEXT; \
    }

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

HANDLER(mov_pack_4x16)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u64, (u64)LO(pa[i]) | (u64)LO(pb[i]) << 16 | (u64)LO(pc[i]) << 32 | (u64)LO(pe[i]) << 48);
    return SG_NEXT;
}

HANDLER(mov_pack_4x8)
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

HANDLER(mov_unpack_4x16)
{
    return unpack_elements(w, in, 4, 16, true);
}

HANDLER(mov_unpack_4x8)
{
    return unpack_elements(w, in, 4, 8, false);
}

HANDLER(mov_unpack_2x8)
{
    return unpack_elements(w, in, 2, 8, false);
}

/* ---- testp ---- */

#define EXP32(x) ((x) >> 23 & 255)
#define MAN32(x) ((x)&0x7fffffu)
#define EXP64(x) ((x) >> 52 & 2047)
#define MAN64(x) ((x)&0xfffffffffffffull)
/* Tests with one operand; the second is ignored. */
#define TEST(id, name, native, TA, e) \
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

#include "exec/ops/rare.def"

#include "exec/table/rows.h"

const struct sg_opdef sg_ops_cold[] = {
#include "exec/ops/rare.def"
    {0},
};

/* SPDX-License-Identifier: MIT */
/* Handlers: integers, logic, shifts, selection, moves. */
#include "exec/ops/handler.h"

/* The replacement of an address beyond 32 bits: outside shared and local memory, and aligned. */
#define MULHI32U(a, b) ((u32)(((u64)(a) * (u64)(b)) >> 32))
#define MULHI32S(a, b) ((u32)(((s64)(a) * (s64)(b)) >> 32))
#define MULHI64U(a, b) ((u64)(((unsigned __int128)(a) * (b)) >> 64))
#define MULHI64S(a, b) ((u64)(((__int128)(a) * (b)) >> 64))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ABS(T, a) ((a) < 0 ? (T)(0 - (T)(a)) : (T)(a))

/* division: by zero gives all ones (as GPUs do), INT_MIN / -1 wraps; 32 bits exactly by f64 */
static inline u32 udiv32(u32 a, u32 b)
{
    const u32 q = (u32)(s64)((f64)a / (f64)(b ? b : 1u));

    return b ? q : SG_FULL;
}

static inline u32 urem32(u32 a, u32 b)
{
    return b ? a - udiv32(a, b) * b : a;
}

static inline u32 sdiv32(s32 a, s32 b)
{
    const s64 q = (s64)((f64)a / (f64)(b ? b : 1));

    return b ? (u32)q : SG_FULL;
}

static inline u32 srem32(s32 a, s32 b)
{
    return b ? (u32)a - sdiv32(a, b) * (u32)b : (u32)a;
}

static inline u64 sdiv64(s64 a, s64 b)
{
    return !b ? ~0ull : b == -1 ? 0 - (u64)a : (u64)(a / b);
}

static inline u64 srem64(s64 a, s64 b)
{
    return !b ? (u64)a : b == -1 ? 0 : (u64)(a % b);
}

/* (a << n | b >> (32 - n)) with b the low part: shf works on the 64-bit value b:a */
#define FUNNEL(a, b) ((u64)(b) << 32 | (a))

typedef u32 u16x; /* a 16-bit value in its slot */

/* ---- bits ---- */

static inline u32 popc32(u32 v)
{
    v -= v >> 1 & 0x55555555u;
    v = (v & 0x33333333u) + (v >> 2 & 0x33333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0fu;
    return v * 0x01010101u >> 24;
}

static inline u32 clz32(u32 v)
{
    return v ? (u32)__builtin_clz(v) : 32;
}

static inline u32 brev32(u32 v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    return __builtin_bswap32(v);
}

static inline u64 brev64(u64 v)
{
    return (u64)brev32((u32)v) << 32 | brev32((u32)(v >> 32));
}

/* bfe: position and length are bytes; bits beyond the top are copies of the sign (PTX ISA, bfe) */
static inline u32 ubfe32(u32 a, u32 pos, u32 len)
{
    const u32 v = pos > 31 ? 0 : a >> (pos & 31);

    return len > 31 ? v : v & ((1u << (len & 31)) - 1);
}

static inline u32 sbfe32(s32 a, u32 pos, u32 len)
{
    /* the bit after the last one in the register */
    const u32 end = pos + len, top = end > 32 ? 32 : end;
    const s32 v = pos > 31 ? a >> 31 : a >> (pos & 31);
    const u32 have = pos > 31 ? 0 : top - pos;
    const u32 shift = 32 - have;

    return !len ? 0 : !have ? (u32)(a >> 31) : (u32)((s32)((u32)v << (shift & 31)) >> (shift & 31));
}

static inline u64 ubfe64(u64 a, u32 pos, u32 len)
{
    const u64 v = pos > 63 ? 0 : a >> (pos & 63);

    return len > 63 ? v : v & ((1ull << (len & 63)) - 1);
}

static inline u64 sbfe64(s64 a, u32 pos, u32 len)
{
    const u32 end = pos + len, top = end > 64 ? 64 : end;
    const s64 v = pos > 63 ? a >> 63 : a >> (pos & 63);
    const u32 have = pos > 63 ? 0 : top - pos;
    const u32 shift = 64 - have;

    return !len ? 0 : !have ? (u64)(a >> 63) : (u64)((s64)((u64)v << (shift & 63)) >> (shift & 63));
}

/* prmt: each selector picks a byte of b:a, or copies its sign */
static inline u32 prmt(u32 a, u32 b, u32 sel)
{
    const u64 x = (u64)b << 32 | a;
    u32 r = 0;

    for (int k = 0; k < 4; k++) {
        const u32 s = sel >> (4 * k);
        u32 v = (u32)(x >> (8 * (s & 7))) & 255;

        v = (s & 8) ? (v & 128 ? 255u : 0) : v;
        r |= v << (8 * k);
    }
    return r;
}

HANDLER(lop3_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c);
    u32 t[8];

    for (int k = 0; k < 8; k++)
        t[k] = (in->imm >> k & 1) ? SG_FULL : 0;
    STORE(u32, ({
              const u32 a = pa[i], b = pb[i], c = pc[i];
              (~a & ~b & ~c & t[0]) | (~a & ~b & c & t[1]) | (~a & b & ~c & t[2]) | (~a & b & c & t[3]) |
                  (a & ~b & ~c & t[4]) | (a & ~b & c & t[5]) | (a & b & ~c & t[6]) | (a & b & c & t[7]);
          }));
    return SG_NEXT;
}

/* bfi: the low e bits of a go into b at position c */
HANDLER(bfi_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b), *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u32, ({
              const u32 pos = pc[i] & 255, len = pe[i] & 255;
              const u32 m = (len > 31 ? SG_FULL : (1u << (len & 31)) - 1);
              const u32 f = pos > 31 ? 0 : m << (pos & 31);
              (pb[i] & ~f) | ((pos > 31 ? 0 : pa[i] << (pos & 31)) & f);
          }));
    return SG_NEXT;
}

HANDLER(bfi_b64)
{
    const u64 *pa = SRC(u64, a), *pb = SRC(u64, b);
    const u32 *pc = SRC(u32, c), *pe = SRC(u32, e);

    STORE(u64, ({
              const u32 pos = pc[i] & 255, len = pe[i] & 255;
              const u64 m = (len > 63 ? ~0ull : (1ull << (len & 63)) - 1);
              const u64 f = pos > 63 ? 0 : m << (pos & 63);
              (pb[i] & ~f) | ((pos > 63 ? 0 : pa[i] << (pos & 63)) & f);
          }));
    return SG_NEXT;
}

/* ---- selection ---- */

HANDLER(selp_b32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);
    const u32 p = PREDV(c);

    STORE(u32, (p & sg_bit32[i]) ? pa[i] : pb[i]);
    return SG_NEXT;
}

HANDLER(selp_b64)
{
    const u64 *pa = SRC(u64, a), *pb = SRC(u64, b);
    const u64 p = PREDV(c);

    STORE(u64, (p & sg_bit64[i]) ? pa[i] : pb[i]);
    return SG_NEXT;
}

HANDLER(and_pred)
{
    sg_set_pred(w, in->d, PREDV(a) & PREDV(b));
    return SG_NEXT;
}

HANDLER(or_pred)
{
    sg_set_pred(w, in->d, PREDV(a) | PREDV(b));
    return SG_NEXT;
}

HANDLER(xor_pred)
{
    sg_set_pred(w, in->d, PREDV(a) ^ PREDV(b));
    return SG_NEXT;
}

HANDLER(not_pred)
{
    sg_set_pred(w, in->d, ~PREDV(a));
    return SG_NEXT;
}

HANDLER(mov_pred)
{
    sg_set_pred(w, in->d, PREDV(a));
    return SG_NEXT;
}

/* ---- comparison ---- */

/* ---- packing: every source is read before any destination is written ---- */

HANDLER(mov_pack_2x32)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u64, (u64)pb[i] << 32 | pa[i]);
    return SG_NEXT;
}

HANDLER(mov_pack_2x16)
{
    const u32 *pa = SRC(u32, a), *pb = SRC(u32, b);

    STORE(u32, pb[i] << 16 | (pa[i] & 0xffffu));
    return SG_NEXT;
}

HANDLER(mov_unpack_2x32)
{
    const u64 *pa = SRC(u64, a);
    u32 *lo = DST(u32, d), *hi = DST(u32, b);
    const u32 m = w->wmask;

    if (LIKELY(m == SG_FULL)) {
        LANES lo[i] = (u32)pa[i];
        LANES hi[i] = (u32)(pa[i] >> 32);
    } else {
        LANES lo[i] = (m & sg_bit32[i]) ? (u32)pa[i] : lo[i];
        LANES hi[i] = (m & sg_bit32[i]) ? (u32)(pa[i] >> 32) : hi[i];
    }
    return SG_NEXT;
}

HANDLER(mov_unpack_2x16)
{
    u32 tmp[SG_LANES];
    u32 *lo = DST(u32, d), *hi = DST(u32, b);
    const u32 m = w->wmask;

    memcpy(tmp, SRC(u32, a), sizeof(tmp));
    LANES lo[i] = (m & sg_bit32[i]) ? tmp[i] & 0xffffu : lo[i];
    LANES hi[i] = (m & sg_bit32[i]) ? tmp[i] >> 16 : hi[i];
    return SG_NEXT;
}

/* ---- dot products ---- */

static inline s32 dp4(u32 a, u32 b, bool sa, bool sb)
{
    s32 r = 0;

    for (int k = 0; k < 4; k++) {
        s32 x = sa ? (s32)(s8)(a >> (8 * k)) : (s32)(u8)(a >> (8 * k));
        s32 y = sb ? (s32)(s8)(b >> (8 * k)) : (s32)(u8)(b >> (8 * k));

        r += x * y;
    }
    return r;
}

static inline s32 dp2(u32 a, u32 b, bool sa, bool sb, int hi)
{
    s32 r = 0;

    for (int k = 0; k < 2; k++) {
        s32 x = sa ? (s32)(s16)(a >> (16 * k)) : (s32)(u16)(a >> (16 * k));
        s32 y = sb ? (s32)(s8)(b >> (8 * (k + hi))) : (s32)(u8)(b >> (8 * (k + hi)));

        r += x * y;
    }
    return r;
}

#include "exec/ops/integer.def"

#include "exec/table/rows.h"

const struct sg_opdef SG_TABLE(int)[] = {
#include "exec/ops/integer.def"
    {0},
};

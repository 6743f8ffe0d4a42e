/* SPDX-License-Identifier: MIT */
/* Opcodes on integers, bits, predicates, moves; see exec/ops/op_test.h. */
#include "exec/ops/op_test.h"

static u32 ref_relu2(u32 a, u32 b, bool max)
{
    u32 r = 0;

    for (int k = 0; k < 32; k += 16) {
        const s16 x = (s16)(a >> k), y = (s16)(b >> k), v = (x > y) == max ? x : y;

        r |= (u32)(v < 0 ? 0 : v) << k;
    }
    return r;
}

static void test_int(void)
{
    T("www", "add.s32", UA + UB);
    T("hhh", "add.u16", a + b);
    T("ddd", "add.s64", a + b);
    T("www", "sub.s32", UA - UB);
    T("ddd", "sub.u64", a - b);
    T("www", "add.sat.s32", clamp64((__int128)SA + SB, INT32_MIN, INT32_MAX));
    T("www", "sub.sat.s32", clamp64((__int128)SA - SB, INT32_MIN, INT32_MAX));
    T("www", "mul.lo.s32", UA * UB);
    T("hhh", "mul.lo.u16", (u16)((u32)a * (u32)b));
    T("ddd", "mul.lo.u64", a * b);
    T("www", "mul.hi.u32", ((u64)UA * UB) >> 32);
    T("www", "mul.hi.s32", (u64)((s64)SA * SB) >> 32);
    T("ddd", "mul.hi.u64", ((unsigned __int128)a * b) >> 64);
    T("ddd", "mul.hi.s64", ((__int128)(s64)a * (s64)b) >> 64);
    T("hhh", "mul.hi.s16", ((s32)(s16)a * (s16)b) >> 16);
    T("dww", "mul.wide.u32", (u64)UA * UB);
    T("dww", "mul.wide.s32", (s64)SA * SB);
    T("whh", "mul.wide.s16", (s32)(s16)a * (s16)b);
    T("whh", "mul.wide.u16", (u32)(u16)a * (u16)b);
    T("wwww", "mad.lo.s32", UA * UB + UC);
    T("ddww", "$ mad.wide.u32 %d, %b, %c, %a;", a + (u64)UB * UC);
    T("wwww", "mad.hi.u32", (u32)(((u64)UA * UB) >> 32) + UC);
    T("wwww", "mad.hi.sat.s32", clamp64((((s64)SA * SB) >> 32) + (s32)c, INT32_MIN, INT32_MAX));
    T("www", "mul24.lo.s32", (s64)((s32)(UA << 8) >> 8) * ((s32)(UB << 8) >> 8));
    T("www", "mul24.hi.u32", ((u64)(UA & 0xffffff) * (UB & 0xffffff)) >> 16);
    T("www", "div.u32", UB ? UA / UB : 0xffffffffu);
    T("www", "div.s32", !UB ? ~0ull : UB == 0xffffffffu ? 0 - UA : (u32)(SA / SB));
    T("www", "rem.u32", UB ? UA % UB : UA);
    T("www", "rem.s32", !UB ? UA : UB == 0xffffffffu ? 0 : (u32)(SA % SB));
    T("ddd", "div.s64", !b ? ~0ull : b == ~0ull ? 0 - a : (u64)((s64)a / (s64)b));
    T("ddd", "rem.s64", !b ? a : b == ~0ull ? 0 : (u64)((s64)a % (s64)b));
    T("ddd", "div.u64", b ? a / b : ~0ull);
    T("ddd", "rem.u64", b ? a % b : a);
    T("www", "min.s32", SA < SB ? a : b);
    T("www", "max.s32", SA > SB ? a : b);
    T("www", "min.u32", UA < UB ? a : b);
    T("ddd", "max.s64", (s64)a > (s64)b ? a : b);
    T("ddd", "min.u64", a < b ? a : b);
    T("hhh", "min.s16", (s16)a < (s16)b ? a : b);
    T("ww", "abs.s32", SA < 0 ? 0 - UA : UA);
    T("dd", "abs.s64", (s64)a < 0 ? 0 - a : a);
    T("ww", "neg.s32", 0 - UA);
    T("dd", "neg.s64", 0 - a);
    T("wwww", "sad.s32", UC + (SA > SB ? UA - UB : UB - UA));
    T("wwww", "sad.u32", UC + (UA > UB ? UA - UB : UB - UA));
    T("www", "max.s16x2",
      ((s16)a > (s16)b ? a & 0xffff : b & 0xffff) |
          ((s32)(UA & 0xffff0000) > (s32)(UB & 0xffff0000) ? UA & 0xffff0000 : UB & 0xffff0000));
    T("www", "min.s16x2.relu", ref_relu2(UA, UB, false));
    T("www", "max.s16x2.relu", ref_relu2(UA, UB, true));
    T("www", "add.u16x2", ((a + b) & 0xffff) | (((UA >> 16) + (UB >> 16)) << 16));
}

static void test_carry(void)
{
    T("ddd",
      "$ { .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; "
      "add.cc.u32 l2, l0, l1; addc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }",
      a + b);
    T("ddd",
      "$ { .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; "
      "sub.cc.u32 l2, l0, l1; subc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }",
      a - b);
    T("dww",
      "$ { .reg .b32 x, y; mad.lo.cc.u32 x, %a, %b, %a; madc.hi.u32 y, %a, %b, 0; "
      "mov.b64 %d, {x, y}; }",
      (u64)UA * UB + UA);
    T("ddd", "$ { .reg .b64 x; add.cc.u64 x, %a, %b; addc.u64 %d, 0, 0; }", a + b < a);
    T("www",
      "$ { .reg .b32 x; mad.lo.cc.u32 x, %a, %b, -1; madc.hi.cc.s32 x, %a, %b, 0; "
      "mov.b32 %d, x; }",
      (u64)((s64)SA * SB) >> 32 == 0 && 0 ? 0 : (u32)((u64)((s64)SA * SB) >> 32) + ((u32)(UA * UB) != 0));
}

static u32 ref_prmt(u32 a, u32 b, u32 s)
{
    u8 by[8];
    u32 r = 0;

    memcpy(by, &a, 4);
    memcpy(by + 4, &b, 4);
    for (int i = 0; i < 4; i++, s >>= 4)
        r |= (u32)(s & 8 ? (by[s & 7] & 0x80 ? 0xff : 0) : by[s & 7]) << (8 * i);
    return r;
}

static u64 ref_bfe(u64 a, u32 pos, u32 len, int bits, bool sign)
{
    const u64 top = a >> (bits - 1) & 1;
    u64 r = 0;
    u32 msb = (u32)bits - 1, sb;

    pos &= 255;
    len &= 255;
    if (!sign || !len)
        sb = 0;
    else
        sb = (u32)(a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1);
    (void)top;
    for (u32 i = 0; i <= msb; i++)
        r |= (i < len && pos + i <= msb ? a >> (pos + i) & 1 : (u64)sb) << i;
    return r;
}

static u64 ref_bfi(u64 a, u64 b, u32 pos, u32 len, u32 bits)
{
    for (u32 i = 0; i < (len & 255) && (pos & 255) + i < bits; i++) {
        const u32 p = (pos & 255) + i;

        b = (b & ~(1ull << p)) | (a >> i & 1) << p;
    }
    return b;
}

static u64 ref_brev(u64 v, int bits)
{
    u64 r = 0;

    for (int i = 0; i < bits; i++)
        r |= (v >> i & 1) << (bits - 1 - i);
    return r;
}

static void test_bits(void)
{
    T("www", "and.b32", a & b);
    T("ddd", "or.b64", a | b);
    T("hhh", "xor.b16", a ^ b);
    T("ww", "not.b32", ~a);
    T("dd", "cnot.b64", a == 0);
    T("ww", "cnot.b32", UA == 0);
    T("ppp", "and.pred", a & b);
    T("ppp", "xor.pred", a ^ b);
    T("pp", "not.pred", !a);
    T("www", "$ shl.b32 %d, %a, %b;", UB > 31 ? 0 : UA << UB);
    T("wws", "shl.b32", b > 31 ? 0 : UA << b);
    T("dds", "shl.b64", b > 63 ? 0 : a << b);
    T("hhs", "shl.b16", b > 15 ? 0 : (u16)(a << b));
    T("wws", "shr.u32", b > 31 ? 0 : UA >> b);
    T("wws", "shr.s32", SA >> (b > 31 ? 31 : b));
    T("dds", "shr.s64", (s64)a >> (b > 63 ? 63 : b));
    T("dds", "shr.u64", b > 63 ? 0 : a >> b);
    T("hhs", "shr.s16", (s16)a >> (b > 15 ? 15 : b));
    T("hhs", "shr.u16", b > 15 ? 0 : (u16)a >> b);
    T("wwws", "shf.l.wrap.b32", ((u64)UB << 32 | UA) << (c & 31) >> 32);
    T("wwws", "shf.r.wrap.b32", ((u64)UB << 32 | UA) >> (c & 31));
    T("wwws", "shf.l.clamp.b32", c > 31 ? UA : ((u64)UB << 32 | UA) << c >> 32);
    T("wwws", "shf.r.clamp.b32", c > 31 ? UB : ((u64)UB << 32 | UA) >> c);
    T("ww", "popc.b32", __builtin_popcount(UA));
    T("wd", "popc.b64", __builtin_popcountll(a));
    T("ww", "clz.b32", UA ? __builtin_clz(UA) : 32);
    T("wd", "clz.b64", a ? __builtin_clzll(a) : 64);
    T("ww", "brev.b32", ref_brev(UA, 32));
    T("dd", "brev.b64", ref_brev(a, 64));
    T("ww", "bfind.u32", UA ? 31 - __builtin_clz(UA) : -1);
    T("ww", "bfind.s32", (SA < 0 ? ~UA : UA) ? 31 - __builtin_clz(SA < 0 ? ~UA : UA) : -1);
    T("ww", "bfind.shiftamt.u32", UA ? __builtin_clz(UA) : -1);
    T("wd", "bfind.u64", a ? 63 - __builtin_clzll(a) : -1);
    T("wwss", "bfe.u32", ref_bfe(UA, UB, UC, 32, false));
    T("wwss", "bfe.s32", ref_bfe(UA, UB, UC, 32, true));
    T("ddss", "bfe.u64", ref_bfe(a, UB, UC, 64, false));
    T("ddss", "bfe.s64", ref_bfe(a, UB, UC, 64, true));
    T("wwss", "$ bfi.b32 %d, %a, 0x12345678, %b, %c;", ref_bfi(UA, 0x12345678, UB, UC, 32));
    T("ddss", "$ bfi.b64 %d, %a, 0x123456789abcdef0, %b, %c;", ref_bfi(a, 0x123456789abcdef0ull, UB, UC, 64));
    T("wwww", "prmt.b32", ref_prmt(UA, UB, UC));
    T("www", "$ prmt.b32 %d, %a, %b, 0x5410;", (UA & 0xffff) | UB << 16);
    T("www", "$ prmt.b32 %d, %a, %b, 0xba98;", ref_prmt(UA, UB, 0xba98));
    T("www", "$ prmt.b32 %d, %a, %b, 0x9d42;", ref_prmt(UA, UB, 0x9d42));
    T("www", "$ prmt.b32 %d, %a, %b, 0x7f0c;", ref_prmt(UA, UB, 0x7f0c));
    T("www", "$ prmt.b32 %d, %a, %b, 0xfedc;", ref_prmt(UA, UB, 0xfedc));
    T("www", "$ prmt.b32.rc16 %d, %a, %b, 1;", UA >> 16 | (UA & 0xffff0000u));
    T("www", "$ prmt.b32.f4e %d, %a, %b, 1;", UA >> 8 | UB << 24);
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0xe8;", (a & b) | (a & c) | (b & c));
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0x96;", a ^ b ^ c);
    T("wwww", "$ lop3.b32 %d, %a, %b, %c, 0x1b;",
      (a & ~b & ~c) | (~a & ~b) | (~a & b & c)
          ? (u32)((~a & ~b & ~c) | (~a & ~b & c) | (~a & b & c) | (a & ~b & ~c))
          : 0);
    T("wwwp", "$ { .reg .pred p; lop3.or.b32 %d|p, %a, %b, 0, 0xc0, %c; selp.b32 %d, %d, -1, p; }",
      (UA & UB) || c ? UA & UB : 0xffffffffu);
    T("pwwp", "$ lop3.and.b32 _|%d, %a, %b, 0, 0xc0, %c;", (UA & UB) && c);
    T("dd", "$ { .reg .b128 q, r; mov.b128 q, {%a, 7}; mov.b128 r, q; mov.b128 {_, %d}, r; }", 7);
    T("ddd",
      "$ { .reg .b128 q<3>; .reg .b64 x; mov.b128 q1, {%a, %b}; mov.b128 {%d, x}, q1; "
      "sub.s64 %d, x, %d; }",
      b - a);
    T("wwss", "$ { .reg .b32 x; and.b32 x, %b, 31; bmsk.clamp.b32 %d, x, %c; }",
      (u32)((UC > 31 ? 0xffffffffull : (1ull << UC) - 1) << (UB & 31)));
    T("wws", "szext.clamp.s32", b > 31 ? UA : !b ? 0 : (u32)((s32)(UA << (32 - b)) >> (32 - b)));
    T("ww", "$ fns.b32 %d, %a, 0, 1;", UA ? (u32)__builtin_ctz(UA) : 0xffffffffu);
    T("ww", "$ fns.b32 %d, %a, 31, -1;", UA ? 31u - (u32)__builtin_clz(UA) : 0xffffffffu);
    T("wwww", "dp4a.s32.s32",
      UC + (u32)((s8)a * (s8)b + (s8)(a >> 8) * (s8)(b >> 8) + (s8)(a >> 16) * (s8)(b >> 16) +
                 (s8)(a >> 24) * (s8)(b >> 24)));
    T("wwww", "dp4a.u32.s32",
      UC + (u32)((u8)a * (s8)b + (u8)(a >> 8) * (s8)(b >> 8) + (u8)(a >> 16) * (s8)(b >> 16) +
                 (u8)(a >> 24) * (s8)(b >> 24)));
    T("wwww", "dp2a.lo.s32.s32", UC + (u32)((s16)a * (s8)b + (s16)(a >> 16) * (s8)(b >> 8)));
    T("wwww", "dp2a.hi.u32.u32", UC + (u32)((u16)a * (u8)(b >> 16) + (u32)(u16)(a >> 16) * (u8)(b >> 24)));
}

static s64 ref_clamp(s64 v, s64 least, s64 most)
{
    return v < least ? least : v > most ? most : v;
}

static u64 ref_absdiff4(u32 a, u32 b, bool sum, u32 c)
{
    u32 r = 0;

    for (int k = 0; k < 32; k += 8) {
        const u32 x = a >> k & 255, y = b >> k & 255, v = x > y ? x - y : y - x;

        r |= v << k;
        c += v;
    }
    return sum ? c : r;
}

static u64 ref_set2(u32 a, u32 b, u32 yes)
{
    const float x = sg_f16_to_f32((u16)a), y = sg_f16_to_f32((u16)b);
    const float z = sg_f16_to_f32((u16)(a >> 16)), v = sg_f16_to_f32((u16)(b >> 16));

    return (x < y ? yes : 0) | (z < v ? yes << 16 : 0);
}

static void test_compare(void)
{
    T("wwww", "vabsdiff4.u32.u32.u32", ref_absdiff4(UA, UB, false, 0));
    T("wwww", "vabsdiff4.u32.u32.u32.add", ref_absdiff4(UA, UB, true, UC));
    T("wwsw", "vshr.u32.u32.u32.clamp.add", (UB > 31 ? 0 : UA >> UB) + UC);
    T("wws", "vshl.u32.u32.u32.wrap", UA << (UB & 31));
    T("www", "vsub.u32.u32.u32", UA - UB);
    T("wwww", "vsub.u32.u32.u32.add", UA - UB + UC);
    T("wwww", "vadd.s32.s32.s32.max", (s32)(UA + UB) > (s32)UC ? UA + UB : UC);
    T("wwww", "vadd.u32.u32.u32.min", UA + UB < UC ? UA + UB : UC);
    T("www", "vmin.s32.s32.s32", (s32)UA < (s32)UB ? UA : UB);
    T("www", "vmax.u32.u32.u32", UA > UB ? UA : UB);
    T("wwww", "vabsdiff.u32.u32.u32.add", (UA > UB ? UA - UB : UB - UA) + UC);
    T("www", "vabsdiff.s32.s32.s32", (s32)UA > (s32)UB ? UA - UB : UB - UA);
    /* Parts of registers (PTX ISA, "Video Instructions"). */
    T("www", "$ vadd.s32.u32.s32 %d, %a.b0, %b.h1;", (UA & 0xff) + (u32)(s16)(UB >> 16));
    T("www", "$ vsub.s32.s32.u32 %d, %a.b3, %b;", (u32)(s64)((s8)(UA >> 24) - (s64)UB));
    T("www", "$ vadd.s32.s32.s32.sat %d, %a, %b;",
      (u32)ref_clamp((s64)(s32)UA + (s32)UB, INT32_MIN, INT32_MAX));
    T("www", "$ vadd.u32.u32.s32.sat %d, %a, %b;", (u32)ref_clamp((s64)UA + (s32)UB, 0, UINT32_MAX));
    T("wwww", "$ vsub.s32.s32.s32 %d.h0, %a, %b, %c;", (UC & 0xffff0000u) | ((UA - UB) & 0xffff));
    T("wwww", "$ vadd.u32.u32.u32.sat %d.b2, %a, %b, %c;",
      (UC & 0xff00ffffu) | (u32)ref_clamp((s64)UA + UB, 0, 255) << 16);
    T("wwww", "$ vmin.s32.u32.s32.max %d, %a.h0, %b, %c;", ({
          s64 least = (s64)(UA & 0xffff) < (s32)UB ? (s64)(UA & 0xffff) : (s32)UB;
          (s32) least > (s32)UC ? (u32)least : UC;
      }));
    T("www", "$ vshr.s32.s32.u32.wrap %d, %a.h1, %b;", (u32)((s32)(s16)(UA >> 16) >> (UB & 31)));
    T("wwww", "$ vadd2.u32.u32.u32 %d, %a.h30, %b, %c;",
      (((UB >> 16) + (UB >> 16)) << 16) | (((UA & 0xffff) + (UB & 0xffff)) & 0xffff));
    T("wwww", "$ vsub2.s32.s32.s32 %d.h1, %a, %b, %c;", ((UA >> 16) - (UB >> 16)) << 16 | (UC & 0xffff));
    T("wwww", "$ vmax4.u32.u32.u32 %d.b20, %a.b0000, %b.b4444, %c;", ({
          u32 most = (UA & 0xff) > (UB & 0xff) ? UA & 0xff : UB & 0xff;
          (UC & 0xff00ff00u) | most | most << 16;
      }));
    T("wEE", "set.lt.u32.f16x2", ref_set2(UA, UB, 0xffff));
    T("EEE", "set.lt.f16x2.f16x2", ref_set2(UA, UB, 0x3c00));
    T("pww", "setp.lt.s32", SA < SB);
    T("pww", "setp.lo.u32", UA < UB);
    T("pww", "setp.hs.u32", UA >= UB);
    T("pww", "setp.eq.s32", UA == UB);
    T("pww", "setp.ne.u32", UA != UB);
    T("pdd", "setp.gt.s64", (s64)a > (s64)b);
    T("pdd", "setp.le.u64", a <= b);
    T("phh", "setp.ge.s16", (s16)a >= (s16)b);
    T("phh", "setp.lt.u16", (u16)a < (u16)b);
    T("phh", "setp.eq.s16", (u16)a == (u16)b);
    T("pff", "setp.eq.f32", F32(a) == F32(b));
    T("pff", "setp.ne.f32", F32(a) < F32(b) || F32(a) > F32(b));
    T("pff", "setp.lt.f32", F32(a) < F32(b));
    T("pff", "setp.geu.f32", !(F32(a) < F32(b)));
    T("pff", "setp.neu.f32", !(F32(a) == F32(b)));
    T("pff", "setp.num.f32", !isnan(F32(a)) && !isnan(F32(b)));
    T("pff", "setp.nan.f32", isnan(F32(a)) || isnan(F32(b)));
    T("pFF", "setp.gt.f64", F64(a) > F64(b));
    T("pFF", "setp.leu.f64", !(F64(a) > F64(b)));
    T("pee", "setp.lt.f16", sg_f16_to_f32((u16)a) < sg_f16_to_f32((u16)b));
    T("pgg", "setp.geu.bf16", !(sg_bf16_to_f32((u16)a) < sg_bf16_to_f32((u16)b)));
    T("pwwp", "setp.lt.and.s32", SA < SB && c);
    T("pwwp", "setp.ge.or.u32", UA >= UB || c);
    T("pwwp", "$ setp.eq.xor.s32 %d, %a, %b, !%c;", (UA == UB) ^ !c);
    T("www", "$ { .reg .pred p, q; setp.lt.s32 p|q, %a, %b; selp.b32 %d, 1, 0, q; }", !(SA < SB));
    T("wwwp", "$ { .reg .pred p, q; setp.lt.and.s32 p|q, %a, %b, %c; selp.b32 %d, 1, 0, q; }",
      !(SA < SB) && c);
    T("www", "set.lt.u32.s32", SA < SB ? 0xffffffffu : 0);
    T("fff", "set.gt.f32.f32", F32(a) > F32(b) ? 0x3f800000u : 0);
    T("wwwp", "selp.b32", c ? a : b);
    T("dddp", "selp.b64", c ? a : b);
    T("wwww", "slct.b32.s32", (s32)c >= 0 ? a : b);
    T("ddd", "$ slct.u64.f32 %d, %a, %b, 0fBF800000;", b);
    T("pf", "testp.finite.f32", isfinite(F32(a)));
    T("pf", "testp.subnormal.f32", fpclassify(F32(a)) == FP_SUBNORMAL);
    T("pF", "testp.notanumber.f64", isnan(F64(a)));
}

static void test_mov(void)
{
    T("dww", "$ mov.b64 %d, {%a, %b};", (u64)UB << 32 | UA);
    T("wd", "$ { .reg .b32 x; mov.b64 {x, %d}, %a; }", a >> 32);
    T("wd", "$ { .reg .b32 x; mov.b64 {%d, _}, %a; }", UA);
    T("whh", "$ mov.b32 %d, {%a, %b};", (u16)a | (u32)(u16)b << 16);
    T("hw", "$ { .reg .b16 x; mov.b32 {x, %d}, %a; }", UA >> 16);
    T("dhhh", "$ mov.b64 %d, {%a, %b, %c, %a};",
      (u16)a | (u64)(u16)b << 16 | (u64)(u16)c << 32 | (u64)(u16)a << 48);
    T("hd", "$ { .reg .b16 x, y, z; mov.b64 {x, y, z, %d}, %a; }", a >> 48);
    T("w", "$ mov.u32 %d, 0xdeadbeef;", 0xdeadbeefu);
    T("f", "$ mov.f32 %d, 0f40490FDB;", 0x40490fdbu);
    T("F", "$ mov.f64 %d, 1.5;", B64(1.5));
    T("w", "$ mov.u32 %d, WARP_SZ;", 32);
}

int main(int argc, char **argv)
{
    op_start(argc, argv);
    test_int();
    test_carry();
    test_bits();
    test_compare();
    test_mov();
    return t_end("softgpu opcodes");
}

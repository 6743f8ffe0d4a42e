#!/usr/bin/python3
# SPDX-License-Identifier: MIT
"""Writes ops.inc: one OP(signature, text, result) line per instruction that the generator knows.

The result is a C expression of a, b, c (the sources' bits) by the functions of ref.h. Letters of a
signature, destination first: h w d 16, 32, 64 bits; p predicate; f F f32, f64; e E f16, f16x2; g bf16;
s a small number (32 bits).
"""

out = []


def op(sig, text, expr):
    out.append('OP("%s", "%s", %s)' % (sig, text, expr))


INT = {"16": ("h", "(u16)", "(s16)"), "32": ("w", "(u32)", "(s32)"), "64": ("d", "(u64)", "(s64)")}
for n, (r, u, s) in INT.items():
    three, two = r * 3, r * 2
    for t in "us":
        c = u if t == "u" else s
        ty = t + n
        op(three, "add." + ty, "a + b")
        op(three, "sub." + ty, "a - b")
        op(three, "mul.lo." + ty, "a * b")
        op(three, "mul.hi." + ty, "(u64)((s128)%sa * %sb >> %s)" % (c, c, n) if t == "s" else
           "(u64)((unsigned __int128)%sa * %sb >> %s)" % (c, c, n))
        op(r * 4, "mad.lo." + ty, "a * b + c")
        op(r * 4, "mad.hi." + ty, "(u64)((%s)%sa * %sb >> %s) + c" %
           ("s128" if t == "s" else "unsigned __int128", c, c, n))
        op(three, "min." + ty, "%sa < %sb ? a : b" % (c, c))
        op(three, "max." + ty, "%sa > %sb ? a : b" % (c, c))
        op(r * 4, "sad." + ty, "c + (%sa < %sb ? b - a : a - b)" % (c, c))
        op(r + r + "s", "shr." + ty, "(u64)(%sa >> ((u32)b > %d ? %d : (u32)b))" % (c, int(n) - 1, int(n) - 1)
           if t == "s" else "(u32)b > %d ? 0 : %sa >> (u32)b" % (int(n) - 1, c))
        for cmp_, o in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">="), ("eq", "=="), ("ne", "!=")):
            op("p" + two, "setp.%s.%s" % (cmp_, ty), "%sa %s %sb" % (c, o, c))
        op("w" + two, "set.lt.u32." + ty, "%sa < %sb ? 0xffffffffu : 0" % (c, c))
        op(three, "{ .reg .b%s t; or.b%s t, %%b, 1; and.b%s t, t, 0x7f; div.%s %%d, %%a, t; }" % (n, n, n, ty),
           "(u64)(%sa / %s((b | 1) & 0x7f))" % (c, c))
        op(three, "{ .reg .b%s t; or.b%s t, %%b, 1; and.b%s t, t, 0x7ff; rem.%s %%d, %%a, t; }" % (n, n, n, ty),
           "(u64)(%sa %% %s((b | 1) & 0x7ff))" % (c, c))
    op(two, "abs.s" + n, "%sa < 0 ? 0 - a : a" % s)
    op(two, "neg.s" + n, "0 - a")
    for name, o in (("and", "&"), ("or", "|"), ("xor", "^")):
        op(three, "%s.b%s" % (name, n), "a %s b" % o)
    op(two, "not.b" + n, "~a")
    op(two, "cnot.b" + n, "%sa == 0" % u)
    op(r + r + "s", "shl.b" + n, "(u32)b > %d ? 0 : a << (u32)b" % (int(n) - 1))
    op(r + two + "p", "selp.b" + n, "c ? a : b")
    op(r + two + "w", "slct.b%s.s32" % n, "(s32)c >= 0 ? a : b")
    op("p" + two + "p", "setp.lt.and.s" + n, "%sa < %sb && c" % (s, s))
    op("p" + two + "p", "setp.ge.or.u" + n, "%sa >= %sb || c" % (u, u))
    op("p" + two + "p", "setp.eq.xor.s%s %%d, %%a, %%b, !%%c;" % n, "(%sa == %sb) ^ !c" % (u, u))
    if n != "16":
        op("w" + r, "popc.b" + n, "__builtin_popcountll(%sa)" % u)
        op("w" + r, "clz.b" + n, "leading_zeros(a, %s)" % n)
        op(two, "brev.b" + n, "reverse(a, %s)" % n)
        op("w" + r, "bfind.u" + n, "%sa ? %d - leading_zeros(a, %s) : -1" % (u, int(n) - 1, n))
        op("w" + r, "bfind.s" + n, "%s(%sa < 0 ? ~a : a) ? %d - leading_zeros(%sa < 0 ? ~a : a, %s) : -1" %
           (u, s, int(n) - 1, s, n))
        op("w" + r, "bfind.shiftamt.u" + n, "%sa ? leading_zeros(a, %s) : -1" % (u, n))
        op(two + "ss", "bfe.u" + n, "bfe(a, (u32)b, (u32)c, %s, false)" % n)
        op(two + "ss", "bfe.s" + n, "bfe(a, (u32)b, (u32)c, %s, true)" % n)
        op(three + "s", "bfi.b%s %%d, %%a, %%b, %%c, 9;" % n, "bfi(a, b, (u32)c, 9, %s)" % n)
        op(three + "s", "bfi.b%s %%d, %%a, %%b, 5, %%c;" % n, "bfi(a, b, 5, (u32)c, %s)" % n)

op("www", "add.sat.s32", "clamp((s128)(s32)a + (s32)b, INT32_MIN, INT32_MAX)")
op("www", "sub.sat.s32", "clamp((s128)(s32)a - (s32)b, INT32_MIN, INT32_MAX)")
op("wwww", "mad.hi.sat.s32", "clamp(((s64)(s32)a * (s32)b >> 32) + (s32)c, INT32_MIN, INT32_MAX)")
for hi, shift in (("lo", 0), ("hi", 16)):
    op("www", "mul24.%s.u32" % hi, "(a & 0xffffff) * (b & 0xffffff) >> %d" % shift)
    op("www", "mul24.%s.s32" % hi, "(s64)((s32)((u32)a << 8) >> 8) * ((s32)((u32)b << 8) >> 8) >> %d" % shift)
    op("wwww", "mad24.%s.s32" % hi,
       "((s64)((s32)((u32)a << 8) >> 8) * ((s32)((u32)b << 8) >> 8) >> %d) + (s64)c" % shift)
for w, n, d in (("16", "h", "w"), ("32", "w", "d")):
    for t in "us":
        op(d + n + n, "mul.wide.%s%s" % (t, w), "(u64)((s64)(%s%s)a * (s64)(%s%s)b)" % (t, w, t, w))
        op(d + n + n + d, "mad.wide.%s%s" % (t, w), "(u64)((s64)(%s%s)a * (s64)(%s%s)b) + c" % (t, w, t, w))
op("wwww", "prmt.b32", 'prmt((u32)a, (u32)b, (u32)c, "")')
for m in ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16"):
    op("wwww", "prmt.b32." + m, 'prmt((u32)a, (u32)b, (u32)c, "%s")' % m)
for table in (0x01, 0x1b, 0x96, 0xca, 0xe8, 0xfe, 0x7f, 0x3c):
    op("wwww", "lop3.b32 %%d, %%a, %%b, %%c, 0x%02x;" % table, "lop3((u32)a, (u32)b, (u32)c, 0x%02x)" % table)
op("wwws", "shf.l.wrap.b32", "((b << 32 | (u32)a) << (c & 31)) >> 32")
op("wwws", "shf.r.wrap.b32", "(b << 32 | (u32)a) >> (c & 31)")
op("wwws", "shf.l.clamp.b32", "(u32)c > 31 ? a : ((b << 32 | (u32)a) << (u32)c) >> 32")
op("wwws", "shf.r.clamp.b32", "(u32)c > 31 ? b : (b << 32 | (u32)a) >> (u32)c")
for x in "us":
    for y in "us":
        op("wwww", "dp4a.%s32.%s32" % (x, y), "dot4((u32)a, (u32)b, (u32)c, %d, %d)" % (x == "s", y == "s"))
        for h in ("lo", "hi"):
            op("wwww", "dp2a.%s.%s32.%s32" % (h, x, y),
               "dot2((u32)a, (u32)b, (u32)c, %d, %d, %d)" % (x == "s", y == "s", h == "hi"))
op("dww", "mov.b64 %d, {%a, %b};", "(u32)a | b << 32")
op("whh", "mov.b32 %d, {%a, %b};", "(u16)a | (u32)b << 16")
op("wd", "{ .reg .b32 t; mov.b64 {t, %d}, %a; }", "a >> 32")
op("wd", "mov.b64 {%d, _}, %a;", "a")
op("hw", "mov.b32 {_, %d}, %a;", "a >> 16")
op("hd", "{ .reg .b16 t, u, v; mov.b64 {t, u, v, %d}, %a; }", "a >> 48")
op("pp", "not.pred", "!a")
for name, o in (("and", "&"), ("or", "|"), ("xor", "^")):
    op("ppp", name + ".pred", "a %s b" % o)
op("www", "{ .reg .pred t, u; setp.lt.s32 t|u, %a, %b; selp.b32 %d, 3, 5, u; }", "(s32)a < (s32)b ? 5 : 3")
op("ddd", "{ .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; add.cc.u32 l2, l0, l1; "
   "addc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }", "a + b")
op("ddd", "{ .reg .b32 l<3>, h<3>; mov.b64 {l0, h0}, %a; mov.b64 {l1, h1}, %b; sub.cc.u32 l2, l0, l1; "
   "subc.u32 h2, h0, h1; mov.b64 %d, {l2, h2}; }", "a - b")

# Integer conversions: the register may be wider than the type.
REG = {8: "h", 16: "h", 32: "w", 64: "d"}
for fn in (8, 16, 32, 64):
    for ft in "us":
        for tn in (8, 16, 32, 64):
            for tt in "us":
                src = "(%s%d)a" % (ft, fn)
                lo, hi = ("0", "(((s128)1 << %d) - 1)" % tn) if tt == "u" else \
                    ("-((s128)1 << %d)" % (tn - 1), "(((s128)1 << %d) - 1)" % (tn - 1))
                # in a wider register the result is extended by its own sign
                op(REG[tn] + REG[fn], "cvt.%s%d.%s%d" % (tt, tn, ft, fn), "(u64)(%s%d)%s" % (tt, tn, src))
                if (tt == ft and tn >= fn) or (tt == "s" and tn > fn):
                    continue  # PTX has .sat only where something can be clamped
                op(REG[tn] + REG[fn], "cvt.sat.%s%d.%s%d" % (tt, tn, ft, fn), "clamp((s128)%s, %s, %s)" % (src, lo, hi))

ROUND = ("rn", "rz", "rm", "rp")
for i, rm in enumerate(ROUND):
    for name, o in (("add", "+"), ("sub", "-"), ("mul", "*")):
        op("fff", "%s.%s.f32" % (name, rm), "op32('%s', a, b, c, %d)" % (o, i))
        op("fff", "%s.%s.ftz.f32" % (name, rm), "op32('%s', a, b, c, %d | FTZ)" % (o, i))
        op("fff", "%s.%s.sat.f32" % (name, rm), "op32('%s', a, b, c, %d | SAT)" % (o, i))
        op("FFF", "%s.%s.f64" % (name, rm), "op64('%s', a, b, c, %d)" % (o, i))
    op("ffff", "fma.%s.f32" % rm, "op32('f', a, b, c, %d)" % i)
    op("ffff", "fma.%s.ftz.f32" % rm, "op32('f', a, b, c, %d | FTZ)" % i)
    op("ffff", "fma.%s.ftz.sat.f32" % rm, "op32('f', a, b, c, %d | FTZ | SAT)" % i)
    op("FFFF", "fma.%s.f64" % rm, "op64('f', a, b, c, %d)" % i)
    op("fff", "div.%s.f32" % rm, "op32('/', a, b, c, %d)" % i)
    op("fff", "div.%s.ftz.f32" % rm, "op32('/', a, b, c, %d | FTZ)" % i)
    op("FFF", "div.%s.f64" % rm, "op64('/', a, b, c, %d)" % i)
    op("ff", "sqrt.%s.f32" % rm, "op32('q', a, b, c, %d)" % i)
    op("ff", "rcp.%s.f32" % rm, "op32('/', 0x3f800000, a, c, %d)" % i)
    op("FF", "sqrt.%s.f64" % rm, "op64('q', a, b, c, %d)" % i)
    op("FF", "rcp.%s.f64" % rm, "op64('/', 0x3ff0000000000000, a, c, %d)" % i)
    for n, r in ((32, "w"), (64, "d")):
        for t in "us":
            op("f" + r, "cvt.%s.f32.%s%d" % (rm, t, n), "bits32(int_to_f32((%s%d)a, %d))" % (t, n, i))
            op("F" + r, "cvt.%s.f64.%s%d" % (rm, t, n), "bits64(int_to_f64((%s%d)a, %d))" % (t, n, i))
    op("fF", "cvt.%s.f32.f64" % rm, "bits32(f64_to_f32(f64(a), %d))" % i)
    op("fF", "cvt.%s.ftz.f32.f64" % rm, "bits32(f64_to_f32(f64(a), %d | FTZ))" % i)
    op("ff", "cvt.%si.f32.f32" % rm, "bits32((float)round_to_integer((double)f32(a), %d))" % i)
    op("FF", "cvt.%si.f64.f64" % rm, "bits64(round_to_integer(f64(a), %d))" % i)
    for n, r in ((8, "h"), (16, "h"), (32, "w"), (64, "d")):
        for t in "us":
            wide = "true" if n == 64 else "false"
            ext = "(u64)(%s%d)" % (t, n)
            op(r + "f", "cvt.%si.%s%d.f32" % (rm, t, n),
               "%sto_int((double)f32(a), %d, %d, %d, %s)" % (ext, i, n, t == "s", wide))
            op(r + "f", "cvt.%si.ftz.%s%d.f32" % (rm, t, n),
               "%sto_int(ftz32((double)f32(a)), %d, %d, %d, %s)" % (ext, i, n, t == "s", wide))
            if n >= 32:
                op(r + "F", "cvt.%si.%s%d.f64" % (rm, t, n), "to_int(f64(a), %d, %d, %d, true)" % (i, n, t == "s"))
for name, o in (("min", "<"), ("max", ">")):
    op("fff", name + ".f32", "op32('%s', a, b, c, 0)" % o)
    op("fff", name + ".ftz.f32", "op32('%s', a, b, c, FTZ)" % o)
    op("fff", name + ".NaN.f32", "op32('%s', a, b, c, NANP)" % o)
    op("FFF", name + ".f64", "op64('%s', a, b, c, 0)" % o)
    op("eee", name + ".f16", "op16('%s', a, b, c, 0)" % o)
    op("eee", name + ".NaN.f16", "op16('%s', a, b, c, NANP)" % o)
    op("EEE", name + ".f16x2", "op16x2('%s', a, b, c, 0)" % o)
    op("ggg", name + ".bf16", "opb16('%s', a, b, c, 0)" % o)
for t, r, sign, conv in (("f32", "f", "0x80000000u", "(double)f32"), ("f64", "F", "(1ull << 63)", "f64"),
                         ("f16", "e", "0x8000u", "from16"), ("bf16", "g", "0x8000u", "fromb16")):
    op(r + r, "neg." + t, "a ^ " + sign)
    op(r + r, "abs." + t, "a & ~(u64)" + sign)
    for cmp_ in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        op("p" + r + r, "setp.%s.%s" % (cmp_, t), 'cmpf("%s", %s(a), %s(b))' % (cmp_, conv, conv))
    op(r + r + r + "p", "selp.%s" % (t if t in ("f32", "f64") else "b16"), "c ? a : b")
for cmp_ in ("eq", "ne", "lt", "le", "gt", "ge", "equ", "neu", "ltu", "leu", "gtu", "geu"):
    op("pff", "setp.%s.ftz.f32" % cmp_, 'cmpf("%s", ftz32((double)f32(a)), ftz32((double)f32(b)))' % cmp_)
for name, o in (("add", "+"), ("sub", "-"), ("mul", "*")):
    op("fff", name + ".ftz.f32", "op32('%s', a, b, c, FTZ)" % o)
    op("fff", name + ".f32", "op32('%s', a, b, c, 0)" % o)
    op("FFF", name + ".f64", "op64('%s', a, b, c, 0)" % o)
op("ff", "abs.ftz.f32", "bits32((float)ftz32((double)f32(a))) & 0x7fffffff")
op("ff", "neg.ftz.f32", "bits32((float)ftz32((double)f32(a))) ^ 0x80000000u")
op("ff", "rcp.rn.ftz.f32", "op32('/', 0x3f800000, a, c, FTZ)")
op("ff", "sqrt.rn.ftz.f32", "op32('q', a, b, c, FTZ)")
for name, c in (("lg2", "l"), ("sin", "s"), ("cos", "c")):
    op("ff", name + ".approx.f32", "approx32('%s', a, 0)" % c)
    op("ff", name + ".approx.ftz.f32", "approx32('%s', a, FTZ)" % c)
for i, rm in enumerate(ROUND):
    op("ff", "cvt.%si.ftz.f32.f32" % rm, "bits32((float)round_to_integer(ftz32((double)f32(a)), %d))" % i)
for t in "us":
    op("fh", "cvt.rn.f32.%s16" % t, "bits32((float)(%s16)a)" % t)
    op("fh", "cvt.rn.f32.%s8" % t, "bits32((float)(%s8)a)" % t)
    op("Fh", "cvt.rn.f64.%s16" % t, "bits64((double)(%s16)a)" % t)
    for n, r in (("16", "h"), ("32", "w"), ("64", "d")):
        op(r * 3 + "p", "selp.%s%s" % (t, n), "c ? a : b")
        op(r * 2, "mov.%s%s" % (t, n), "a")
for n, r, top in (("16", "h", 15), ("32", "w", 31), ("64", "d", 63)):
    op(r + r + "s", "shr.b" + n, "(u32)b > %d ? 0 : (u%s)a >> (u32)b" % (top, n))
    op("p" + r + r, "setp.eq.b" + n, "(u%s)a == (u%s)b" % (n, n))
    op("p" + r + r, "setp.ne.b" + n, "(u%s)a != (u%s)b" % (n, n))
op("EEE", "{ .reg .b32 t, u; .reg .pred q; add.f16x2 %d, %a, %b; }", "op16x2('+', a, b, c, 0)")
op("pffp", "setp.gtu.or.f32", 'cmpf("gtu", (double)f32(a), (double)f32(b)) || c')
op("wff", "set.le.u32.f32", 'cmpf("le", (double)f32(a), (double)f32(b)) ? 0xffffffffu : 0')
op("fff", "set.neu.f32.f32", 'cmpf("neu", (double)f32(a), (double)f32(b)) ? 0x3f800000u : 0')
op("pf", "testp.finite.f32", "(a >> 23 & 255) != 255")
op("pf", "testp.subnormal.f32", "!(a >> 23 & 255) && (a & 0x7fffff)")
op("EE", "neg.f16x2", "a ^ 0x80008000u")
op("EE", "abs.f16x2", "a & 0x7fff7fffu")
for name, o, n in (("add", "+", 3), ("sub", "-", 3), ("mul", "*", 3), ("fma.rn", "f", 4)):
    op("e" * n, name + ".f16", "op16('%s', a, b, c, 0)" % o)
    op("e" * n, name + ".ftz.f16", "op16('%s', a, b, c, FTZ)" % o)
    op("e" * n, name + ".sat.f16", "op16('%s', a, b, c, SAT)" % o)
    op("E" * n, name + ".f16x2", "op16x2('%s', a, b, c, 0)" % o)
    if n == 4:
        op("e" * n, name + ".relu.f16", "op16('%s', a, b, c, RELU)" % o)
        op("E" * n, name + ".relu.f16x2", "op16x2('%s', a, b, c, RELU)" % o)
        op("g" * n, name + ".bf16", "opb16('%s', a, b, c, 0)" % o)
        op("g" * n, name + ".relu.bf16", "opb16('%s', a, b, c, RELU)" % o)
        for r, h, f in (("e", "f16", "op16"), ("g", "bf16", "opb16")):
            for relu, flag in (("", "0"), (".relu", "RELU")):  # one in eight has the NaN that gives 0
                op(r + "hhh", "{ .reg .pred q; .reg .b16 t; and.b16 t, %%a, 7; setp.eq.u16 q, t, 7; "
                   "selp.b16 t, 0x7ff7, %%a, q; fma.rn.oob%s.%s %%d, t, %%b, %%c; }" % (relu, h),
                   "(a & 7) == 7 || (b & 0x7fff) == 0x7ff7 ? 0 : %s('f', a, b, c, %s)" % (f, flag))
    else:
        op("g" * n, name + ".bf16", "opb16('%s', a, b, c, 0)" % o)
op("ef", "cvt.rn.f16.f32", "to16((double)f32(a), RN)")
op("ef", "cvt.rz.f16.f32", "to16((double)f32(a), RZ)")
op("ef", "cvt.rn.relu.f16.f32", "to16((double)f32(a), RN | RELU)")
op("eF", "cvt.rn.f16.f64", "to16(f64(a), RN)")
op("ew", "cvt.rn.f16.s32", "to16((double)(s32)a, RN)")
op("ew", "cvt.rz.f16.u32", "to16((double)(u32)a, RZ)")
op("fe", "cvt.f32.f16", "bits32((float)from16(a))")
op("Fe", "cvt.f64.f16", "bits64(from16(a))")
op("we", "cvt.rzi.s32.f16", "to_int(from16(a), RZ, 32, 1, false)")
op("he", "cvt.rni.u16.f16", "to_int(from16(a), RN, 16, 0, false)")
op("Eff", "cvt.rn.f16x2.f32", "to16((double)f32(a), RN) << 16 | to16((double)f32(b), RN)")
op("gf", "cvt.rn.bf16.f32", "tob16((double)f32(a), RN)")
op("gf", "cvt.rz.bf16.f32", "tob16((double)f32(a), RZ)")
op("gf", "cvt.rn.relu.bf16.f32", "tob16((double)f32(a), RN | RELU)")
op("fg", "cvt.f32.bf16", "a << 16")
op("Ff", "cvt.f64.f32", "bits64((double)f32(a))")
op("Ff", "cvt.ftz.f64.f32", "bits64(ftz32((double)f32(a)))")
op("ff", "cvt.sat.f32.f32", "bits32(f64_to_f32((double)f32(a), SAT))")
# From bits and back. The payload of an f32 NaN is defined (eval.c); NaNs of the other types are output as a fixed pattern.
op("fw", "mov.b32", "a")
op("Fd", "mov.b64", "a")
op("eh", "mov.b16", "a")
op("gh", "mov.b16", "a")
op("Ew", "mov.b32", "a")
op("wf", "mov.b32", "a")
op("dF", "{ .reg .pred t; .reg .b64 u; mov.b64 u, %a; setp.nan.f64 t, %a, %a; selp.b64 %d, 0x7fffffffffffffff, u, t; }",
   "f64(a) != f64(a) ? 0x7fffffffffffffff : a")
op("he", "{ .reg .pred t; setp.nan.f16 t, %a, %a; selp.b16 %d, 0x7fff, %a, t; }", "from16(a) != from16(a) ? 0x7fff : a")
op("hg", "{ .reg .pred t; setp.nan.bf16 t, %a, %a; selp.b16 %d, 0x7fff, %a, t; }",
   "fromb16(a) != fromb16(a) ? 0x7fff : a")
op("wE", "{ .reg .pred t; .reg .b16 u, v; mov.b32 {u, v}, %a; setp.nan.f16 t, u, u; selp.b16 u, 0x7fff, u, t; "
   "setp.nan.f16 t, v, v; selp.b16 v, 0x7fff, v, t; mov.b32 %d, {u, v}; }",
   "(from16(a) != from16(a) ? 0x7fff : a & 0xffff) | "
   "(from16(a >> 16) != from16(a >> 16) ? 0x7fff : a >> 16 & 0xffff) << 16")

print("/* SPDX-License-" "Identifier: MIT */")
print("/* Written by ops.py. */")
print("\n".join(out))

/* SPDX-License-Identifier: MIT */
/* The program as PTX. */
#include "gen.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const reg_names[] = {"h", "w", "d", "p", "f", "fd", "e", "ee", "g"};
static const char *const reg_types[] = {"b16", "b32", "b64", "pred", "f32", "f64", "b16", "b32", "b16"};
const char *const red_names[ACCS] = {"add.u32", "min.s32", "max.s32", "min.u32",
                                     "max.u32", "and.b32", "or.b32",  "xor.b32"};
const char *const atom_names[10] = {"add.u32", "exch.b32", "cas.b32", "min.s32", "max.u32",
                                    "and.b32", "or.b32",   "xor.b32", "inc.u32", "dec.u32"};
const char *const vote_names[4] = {"all", "any", "uni", "ballot"};
const char *const shfl_names[4] = {"idx", "up", "down", "bfly"};
const char *const redux_names[8] = {"add.s32", "min.s32", "max.s32", "min.u32",
                                    "max.u32", "and.b32", "or.b32",  "xor.b32"};
static const char *const spaces[SPACES] = {"shared", "global", "local"};

static char *out;
static size_t len;

static void __attribute__((format(printf, 1, 2))) add(const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    len += (size_t)vsnprintf(out + len, len < TEXT_MAX ? TEXT_MAX - len : 0, fmt, ap);
    va_end(ap);
}

static void reg(char cls, int n)
{
    add("%%%s%d", reg_names[class_of(cls)], n);
}

static void operand(const struct operand *o)
{
    if (!o->imm)
        reg(o->cls, o->reg);
    else if (o->cls == 'f')
        add("0f%08X", (u32)o->value);
    else if (o->cls == 'F')
        add("0d%016llX", (unsigned long long)o->value);
    else
        add("%lld", o->cls == 'h'   ? (long long)(s16)o->value
                    : o->cls == 'd' ? (long long)o->value
                                    : (long long)(s32)o->value);
}

static void guard(const struct stmt *s)
{
    if (s->guard >= 0)
        add("@%s%%p%d ", s->guard_not ? "!" : "", s->guard);
}

static void instruction(const struct stmt *s)
{
    const struct op *o = &ops[s->op];

    guard(s);
    if (!strchr(o->text, '%')) {
        add("%s ", o->text);
        reg(o->sig[0], s->dst);
        for (int i = 0; o->sig[i + 1]; i++) {
            add(", ");
            operand(&s->src[i]);
        }
        add(";\n");
        return;
    }
    for (const char *c = o->text; *c; c++) {
        if (*c == '%' && c[1] == 'd')
            reg(o->sig[0], s->dst);
        else if (*c == '%' && c[1] >= 'a' && c[1] <= 'c')
            operand(&s->src[c[1] - 'a']);
        else {
            add("%c", *c);
            continue;
        }
        c++;
    }
    add("\n");
}

/* The word of memory of this thread in a space. */
static void slot(const struct stmt *s)
{
    static const char *const base[SPACES] = {"%slot", "%gslot", "loc"};

    add("[%s+%u]", base[s->space], s->offset);
}

static void memory(const struct stmt *s)
{
    static const char sign[] = "us";
    const u8 n = s->src[0].reg;

    guard(s);
    if (s->kind == ST_STORE) {
        add("st.%s.b%d ", spaces[s->space], s->width * 8);
        slot(s);
        add(", ");
        reg(s->src[0].cls, n);
    } else {
        /* small types go into 16, 32 and 64 bits, extended */
        const char cls = s->width == 1   ? "hwd"[s->dst2 % 3]
                         : s->width == 2 ? "hw"[s->dst2 % 2]
                         : s->width == 4 ? 'w'
                                         : 'd';

        add("ld.%s.%c%d ", spaces[s->space], sign[s->op], s->width * 8);
        reg(cls, s->dst);
        add(", ");
        slot(s);
    }
    add(";\n");
}

static void warp(const struct stmt *s)
{
    const char *m = s->masked ? "%mk" : "%wm";

    switch (s->kind) {
    case ST_SHFL:
        if (s->op == SHFL_LOWEST) {
            add("brev.b32 %%t, %s;\nclz.b32 %%t, %%t;\nshfl.sync.idx.b32 %%w%d|%%p%d, %%w%d, %%t, 31, %s;\n",
                m, s->dst, s->dst2, s->src[0].reg, m);
            return;
        }
        add("shfl.sync.%s.b32 %%w%d|%%p%d, %%w%d, ", shfl_names[s->op], s->dst, s->dst2, s->src[0].reg);
        operand(&s->src[1]);
        add(", %llu, %%wm;\n", (unsigned long long)s->src[2].value);
        return;
    case ST_VOTE:
        if (s->op == 3)
            add("vote.sync.ballot.b32 %%w%d, %%p%d, %s;\n", s->dst, s->src[0].reg, m);
        else
            add("vote.sync.%s.pred %%p%d, %%p%d, %s;\n", vote_names[s->op], s->dst, s->src[0].reg, m);
        return;
    case ST_MATCH:
        if (s->op)
            add("and.b32 %%t, %%w%d, 3;\nmatch.all.sync.b32 %%w%d|%%p%d, %%t, %s;\n", s->src[0].reg, s->dst,
                s->dst2, m);
        else
            add("and.b32 %%t, %%w%d, 3;\nmatch.any.sync.b32 %%w%d, %%t, %s;\n", s->src[0].reg, s->dst, m);
        return;
    default:
        add("redux.sync.%s %%w%d, %%w%d, %s;\n", redux_names[s->op], s->dst, s->src[0].reg, m);
        return;
    }
}

/* Uniform in blocks whose rows are whole warps, except for the last seven. */
const char *const index_texts[INDICES] = {
    "mov.u32 %d, %ty;",
    "mad.lo.u32 %d, %tz, 100, %ty;",
    "shr.u32 %d, %tx, 5;",
    "and.b32 %d, %tx, -32;",
    "{ .reg .b32 a; mad.lo.u32 a, %ty, 32, %tx; shr.u32 %d, a, 5; }",
    "{ .reg .b32 a, b, c; mad.lo.s32 a, %ty, 32, %tx; shr.s32 b, a, 31; shr.u32 b, b, 27; add.s32 c, a, b; shr.s32 %d, c, 5; }",
    "{ .reg .b32 a; sub.u32 a, %tx, 64; shr.s32 %d, a, 5; }",
    "mov.u32 %d, %tx;",
    "shr.u32 %d, %tx, 4;",
    "and.b32 %d, %tx, -16;",
    "{ .reg .b32 a, b; shl.b32 a, %ty, 4; add.u32 b, a, %tx; shr.u32 %d, b, 5; }",
    "{ .reg .b32 a; sub.u32 a, %tx, 40; shr.s32 %d, a, 5; }",
    "{ .reg .b32 a; mul.lo.u32 a, %tx, 3; shr.u32 %d, a, 5; }",
    "{ .reg .b32 a, b; and.b32 a, %tx, 31; shl.b32 b, %ty, 5; or.b32 %d, a, b; }"};

static void uniform_operand(const struct operand *o)
{
    if (o->imm)
        add("%d", (s32)o->value);
    else
        add("%%%s%d", o->reg < UREGS ? "uu" : "uv", o->reg % UREGS);
}

/* text with %d: the register that is set, %a to %c: operands, %k and %n: small numbers, %q: a large one. */
static void uniform_text(const struct stmt *s, const char *guard_text, const char *text, const char *to,
                         int n)
{
    for (const char *c = text; *c; c++) {
        if (*c == '@') {
            add("%s", guard_text);
        } else if (*c == '%' && c[1] == 'd') {
            add("%%%s%d", to, n);
            c++;
        } else if (*c == '%' && c[1] >= 'a' && c[1] <= 'c') {
            uniform_operand(&s->src[*++c - 'a']);
        } else if (*c == '%' && c[1] == 'k') {
            add("%u", s->width);
            c++;
        } else if (*c == '%' && c[1] == 'n') {
            add("%u", s->offset);
            c++;
        } else if (*c == '%' && c[1] == 'q') {
            add("%llu", (unsigned long long)s->src[2].value << (s->offset & 31));
            c++;
        } else {
            add("%c", *c);
        }
    }
    add("\n");
}

#define FROM_TABLE \
    "{ .reg .b32 t; .reg .b64 e; and.b32 t, %a, 60; mul.wide.u32 e, t, 4; add.u64 e, e, %table; "
static const char *const uniform_texts[UNIFORMS] = {
    "@mov.b32 %d, %a;",
    "@add.u32 %d, %a, %b;",
    "@sub.u32 %d, %a, %b;",
    "@mul.lo.u32 %d, %a, %b;",
    "@mad.lo.u32 %d, %a, %b, %c;",
    "@xor.b32 %d, %a, %b;",
    "@shl.b32 %d, %b, %k;",
    "@shr.s32 %d, %b, %k;",
    "{ .reg .b64 t; cvt.u64.u32 t, %a; shl.b64 t, t, %n; add.u64 t, t, %q; shr.u64 t, t, %k; @cvt.u32.u64 %d, t; }",
    "{ .reg .pred t; .reg .b32 m; setp.lt.s32 t, %a, %b; selp.b32 m, %b, %c, t; @mov.b32 %d, m; }",
    FROM_TABLE "@ld.global.u32 %d, [e+4]; }",
    FROM_TABLE "@ld.global.s16 %d, [e+6]; }",
    FROM_TABLE ".reg .b64 r; ld.global.u64 r, [e+8]; shr.u64 r, r, %k; @cvt.u32.u64 %d, r; }",
    FROM_TABLE "ld.global.u8 t, [e+3]; @add.u32 %d, t, %b; }",
    "{ .reg .b32 t, r; mov.b32 t, %a; min.s32 r, t, %b; @max.u32 %d, r, %c; }",
    "{ .reg .b32 t, r; add.u32 t, %xcta, %a; mov.b32 r, t; @and.b32 %d, r, %b; }"};

static void uniform(const struct program *p, const struct stmt *s)
{
    char by[16] = "";

    (void)p;
    if (s->guard >= 0)
        snprintf(by, sizeof(by), "@%s%%p%d ", s->guard_not ? "!" : "", s->guard);
    if (s->kind == ST_UNIFORM_OUT) {
        static const char *const outs[4] = {"xor.b32 %d, %d, %b;", "add.u32 %d, %d, %b;",
                                            "mad.lo.u32 %d, %d, 7, %b;", "mov.b32 %d, %b;"};

        uniform_text(s, by, outs[s->op], "w", s->dst);
    } else if (s->op >= INDICES) {
        uniform_text(s, by, uniform_texts[s->op - INDICES], "uu", s->dst);
    } else if (by[0]) {
        uniform_text(s, by, index_texts[s->op], "ut", 0);
        uniform_text(s, by, "@mov.b32 %d, %ut0;", "uu", s->dst);
    } else {
        uniform_text(s, by, index_texts[s->op], "uu", s->dst);
    }
}

static void uniform_compare(const struct stmt *s)
{
    static const char *const compares[6] = {"lt.u32", "ge.s32", "eq.u32", "ne.u32", "gt.s32", "le.u32"};

    add("setp.%s %%uq, ", compares[s->op]);
    uniform_operand(&s->src[0]);
    add(", ");
    uniform_operand(&s->src[1]);
    add(";\n");
}

static void list(const struct program *p, int i, const char *loop, const char *loop_end)
{
    for (; i >= 0; i = p->s[i].next) {
        const struct stmt *s = &p->s[i];
        char end[24], start[24];

        if (s->off)
            continue;
        snprintf(end, sizeof(end), "E%d", i);
        snprintf(start, sizeof(start), "L%d", i);
        switch (s->kind) {
        case ST_OP:
            instruction(s);
            break;
        case ST_IF:
        case ST_UNIFORM_IF:
            if (s->masked)
                add("vote.sync.ballot.b32 %%mk, %%p%d, %%wm;\n", s->src[0].reg);
            if (s->kind == ST_UNIFORM_IF) {
                uniform_compare(s);
                add("@%s%%uq bra L%d;\n", s->guard_not ? "" : "!", i);
            } else {
                add("@!%%p%d bra L%d;\n", s->src[0].reg, i);
            }
            list(p, s->body, loop, loop_end);
            if (s->other >= 0)
                add("bra %s;\n", end);
            add("L%d:\n", i);
            if (s->other >= 0) {
                list(p, s->other, loop, loop_end);
                add("%s:\n", end);
            }
            if (s->masked)
                add("bar.warp.sync %%wm;\n");
            break;
        case ST_LOOP:
            if (s->op == 3) {
                add("and.b32 %%n%d, ", s->depth);
                uniform_operand(&s->src[0]);
                add(", 3;\n");
            } else if (s->op)
                add("and.b32 %%n%d, %%w%d, 3;\n", s->depth, s->src[0].reg);
            else
                add("mov.u32 %%n%d, 3;\n", s->depth);
            add("L%d:\nsetp.eq.u32 %%q, %%n%d, 0;\n@%%q bra %s;\nsub.u32 %%n%d, %%n%d, 1;\n", i, s->depth,
                end, s->depth, s->depth);
            list(p, s->body, start, end);
            add("bra L%d;\n%s:\n", i, end);
            break;
        case ST_BREAK:
        case ST_CONTINUE:
            add("@%s%%p%d bra %s;\n", s->guard_not ? "!" : "", s->src[0].reg,
                s->kind == ST_BREAK ? loop_end : loop);
            break;
        case ST_UNIFORM_BREAK:
        case ST_UNIFORM_CONTINUE:
            uniform_compare(s);
            add("@%s%%uq bra %s;\n", s->guard_not ? "!" : "", s->kind == ST_UNIFORM_BREAK ? loop_end : loop);
            break;
        case ST_UNIFORM:
        case ST_UNIFORM_OUT:
            uniform(p, s);
            break;
        case ST_STORE:
        case ST_LOAD:
            memory(s);
            break;
        case ST_EXCHANGE:
            add("bar.sync 0;\nst.shared.b32 [%%xs], %%w%d;\nbar.sync 0;\n", s->src[0].reg);
            add("mad.lo.u32 %%t, %%tidx, %d, %u;\nrem.u32 %%t, %%t, %%size;\nshl.b32 %%t, %%t, 2;\nmov.u32 %%u, xs;\n",
                s->op, s->offset);
            add("add.u32 %%t, %%t, %%u;\nld.shared.b32 %%w%d, [%%t];\n", s->dst);
            break;
        case ST_RED:
            guard(s);
            add("red.%s.%s [%s+%d], %%w%d;\n", spaces[s->space], red_names[s->op], s->space ? "%gacc" : "acc",
                s->op * 4, s->src[0].reg);
            break;
        case ST_ATOM:
            guard(s);
            add("atom.%s.%s %%w%d, ", spaces[s->space], atom_names[s->op], s->dst);
            slot(s);
            add(", %%w%d", s->src[0].reg);
            if (s->op == 2)
                add(", %%w%d", s->src[1].reg);
            add(";\n");
            break;
        default:
            warp(s);
            break;
        }
    }
}

static void prologue(const struct program *p)
{
    add(".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry t(.param .u64 in, .param .u64 out, .param .u64 slots,\n"
        ".param .u64 accs, .param .u64 tab)\n{\n.reg .pred %%q, %%uq;\n.reg .b32 %%tx, %%ty, %%tz, %%xcta, %%ut0, %%t, %%u, %%tidx, %%size, %%wm, %%mk, %%slot, %%xs, %%at;\n"
        ".reg .f32 %%ft;\n.reg .b32 %%n<%d>;\n.reg .b64 %%in, %%out, %%gslot, %%gacc, %%big;\n.shared .align 16 .b8 sslots[%d];\n"
        ".shared .align 4 .b8 xs[%d];\n.shared .align 4 .b32 acc[%d];\n.local .align 16 .b8 loc[%d];\n",
        LOOPS, THREADS_MAX * SLOT, THREADS_MAX * 4, ACCS, SLOT);
    for (int c = 0; c < NCLASS; c++)
        add(".reg .%s %%%s<%d>;\n", reg_types[c], reg_names[c], REGS);
    add(".reg .b32 %%uu<%d>, %%uv<%d>;\n.reg .b64 %%table;\nld.param.u64 %%table, [tab];\n", UREGS, UREGS);
    add("mov.u32 %%tx, %%tid.x;\nmov.u32 %%ty, %%tid.y;\nmov.u32 %%tz, %%tid.z;\nmov.u32 %%xcta, %%ctaid.x;\n"
        "mov.u32 %%t, %%ntid.y;\nmad.lo.u32 %%t, %%t, %%tz, %%ty;\nmov.u32 %%u, %%ntid.x;\nmad.lo.u32 %%tidx, %%t, %%u, %%tx;\n"
        "mov.u32 %%size, %u;\nmov.u32 %%t, %%ctaid.x;\nmad.lo.u32 %%at, %%t, %%size, %%tidx;\n",
        p->block);
    add("ld.param.u64 %%in, [in];\nmul.wide.u32 %%big, %%at, %d;\nadd.u64 %%in, %%in, %%big;\n",
        NCLASS * REGS * 8);
    add("ld.param.u64 %%out, [out];\nmul.wide.u32 %%big, %%at, %d;\nadd.u64 %%out, %%out, %%big;\n",
        WORDS_OUT * 8);
    add("ld.param.u64 %%gslot, [slots];\nmul.wide.u32 %%big, %%at, %d;\nadd.u64 %%gslot, %%gslot, %%big;\n",
        SLOT);
    add("ld.param.u64 %%gacc, [accs];\nmov.u32 %%t, sslots;\nmad.lo.u32 %%slot, %%tidx, %d, %%t;\n", SLOT);
    add("mov.u32 %%t, xs;\nmad.lo.u32 %%xs, %%tidx, 4, %%t;\n");
    /* The lanes of this warp that exist. */
    add("and.b32 %%t, %%tidx, -32;\nsub.u32 %%t, %%size, %%t;\nmin.u32 %%t, %%t, 32;\nmov.u32 %%u, 32;\nsub.u32 %%t, %%u, %%t;\n"
        "mov.u32 %%wm, -1;\nshr.u32 %%wm, %%wm, %%t;\nmov.u32 %%mk, %%wm;\n");
    for (int i = 0; i < SLOT; i += 8)
        add("mov.u64 %%big, 0;\nst.shared.u64 [%%slot+%d], %%big;\nst.local.u64 [loc+%d], %%big;\n", i, i);
    /* without a branch: behind it no register with several definitions would count as uniform */
    add("setp.eq.u32 %%q, %%tidx, 0;\n");
    for (int k = 0; k < ACCS; k++)
        add("mov.u32 %%t, %d;\n@%%q st.shared.u32 [acc+%d], %%t;\n", (s32)red_start(k), k * 4);
    for (int k = 0; k < UREGS; k++) {
        const struct stmt none = {.kind = ST_UNIFORM};

        add("mov.u32 %%uu%d, %d;\n", k, k * 3);
        if (p->once[k] < INDICES)
            uniform_text(&none, "", index_texts[p->once[k]], "uv", k);
        else if (p->once[k] == INDICES)
            add("ld.global.u32 %%uv%d, [%%table+%d];\n", k, 4 * k);
        else
            add("mad.lo.u32 %%uv%d, %%xcta, 5, %d;\n", k, k);
    }
    add("START:\nbar.sync 0;\n");
    for (int c = 0; c < NCLASS; c++)
        for (int r = 0; r < REGS; r++) {
            const int at = (c * REGS + r) * 8;

            if (CLASSES[c] == 'p')
                add("ld.global.b32 %%t, [%%in+%d];\nsetp.ne.u32 %%p%d, %%t, 0;\n", at, r);
            else if (CLASSES[c] == 'f' && is_number(r))
                add("ld.global.f32 %%ft, [%%in+%d];\nadd.f32 %%f%d, %%ft, 0f80000000;\n", at, r);
            else
                add("ld.global.%s %%%s%d, [%%in+%d];\n", reg_types[c], reg_names[c], r, at);
        }
}

/* Writes out all results; NaN as one pattern, except for f32. */
static void epilogue(void)
{
    static const char *const nan_types[] = {"", "", "", "", "", "f64", "f16", "", "bf16"};
    static const char *const nans[] = {"", "", "", "", "", "0d7FFFFFFFFFFFFFFF", "%nh", "", "%nh"};

    add(".reg .b16 %%nh, %%lo, %%hi;\nmov.u16 %%nh, 0x7fff;\n");
    for (int c = 0; c < NCLASS; c++)
        for (int r = 0; r < REGS; r++) {
            const int at = (c * REGS + r) * 8;

            if (CLASSES[c] == 'p') {
                add("selp.b32 %%t, 1, 0, %%p%d;\nst.global.u32 [%%out+%d], %%t;\n", r, at);
                continue;
            }
            if (nan_types[c][0])
                add("setp.nan.%s %%q, %%%s%d, %%%s%d;\nselp.%s %%%s%d, %s, %%%s%d, %%q;\n", nan_types[c],
                    reg_names[c], r, reg_names[c], r, reg_types[c], reg_names[c], r, nans[c], reg_names[c],
                    r);
            if (CLASSES[c] == 'E')
                add("mov.b32 {%%lo, %%hi}, %%ee%d;\nsetp.nan.f16 %%q, %%lo, %%lo;\nselp.b16 %%lo, %%nh, %%lo, %%q;\n"
                    "setp.nan.f16 %%q, %%hi, %%hi;\nselp.b16 %%hi, %%nh, %%hi, %%q;\nmov.b32 %%ee%d, {%%lo, %%hi};\n",
                    r, r);
            add("st.global.%s [%%out+%d], %%%s%d;\n", reg_types[c], at, reg_names[c], r);
        }
    for (int s = 0; s < SPACES; s++)
        for (int i = 0; i < SLOT; i += 8)
            add("ld.%s.u64 %%big, [%s+%d];\nst.global.u64 [%%out+%d], %%big;\n", spaces[s],
                s == 0   ? "%slot"
                : s == 1 ? "%gslot"
                         : "loc",
                i, (NCLASS * REGS + s * SLOT / 8) * 8 + i);
    add("bar.sync 0;\nsetp.ne.u32 %%q, %%tidx, 0;\n@%%q bra DONE;\nmov.u32 %%t, %%ctaid.x;\nmul.wide.u32 %%big, %%t, %d;\n"
        "add.u64 %%gacc, %%gacc, %%big;\n",
        ACCS * 4);
    for (int k = 0; k < ACCS; k++)
        add("ld.shared.u32 %%t, [acc+%d];\nst.global.u32 [%%gacc+%d], %%t;\n", k * 4, (ACCS + k) * 4);
    add("DONE:\nret;\n}\n");
}

size_t write_text(const struct program *p, char *text)
{
    out = text;
    len = 0;
    prologue(p);
    list(p, p->first, "DONE", "DONE");
    epilogue();
    return len < TEXT_MAX ? len : 0;
}

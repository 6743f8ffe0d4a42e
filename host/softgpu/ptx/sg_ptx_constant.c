/* SPDX-License-Identifier: MIT */
/* The evaluator of constant expressions (PTX ISA, "Constant Expressions"), used for
   initialisers, dimensions, operands and offsets. */
#include "ptx/constant.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 100 /* maximum nesting of parentheses, signs and conditions */

struct reader {
    struct sg_lex *l;
    struct sg_diag *diag;
    uint32_t depth;
};

/* Two-character operators first: an operator is the first row that fits. */
static const struct const_op {
    char text[3];
    uint8_t level; /* enum sg_const_level */
} operators[] = {
    {"||", SG_CONST_OR},     {"&&", SG_CONST_AND},    {"==", SG_CONST_EQUAL}, {"!=", SG_CONST_EQUAL},
    {"<=", SG_CONST_LESS},   {">=", SG_CONST_LESS},   {"<<", SG_CONST_SHIFT}, {">>", SG_CONST_SHIFT},
    {"<", SG_CONST_LESS},    {">", SG_CONST_LESS},    {"|", SG_CONST_BIT_OR}, {"^", SG_CONST_BIT_XOR},
    {"&", SG_CONST_BIT_AND}, {"+", SG_CONST_SUM},     {"-", SG_CONST_SUM},    {"*", SG_CONST_PRODUCT},
    {"/", SG_CONST_PRODUCT}, {"%", SG_CONST_PRODUCT},
};

static int read_level(struct reader *r, unsigned level, struct sg_const *v);

static int constant_bad(struct reader *r, const char *what)
{
    return sg_lex_bad(r->l, r->diag, what);
}

static bool is_integer(const struct sg_const *v)
{
    return v->kind == SG_CONST_S64 || v->kind == SG_CONST_U64;
}

static void set_integer(struct sg_const *v, enum sg_const_kind kind, uint64_t bits)
{
    v->kind = kind;
    v->bits = bits;
}

double sg_const_double(const struct sg_const *v)
{
    uint32_t word = (uint32_t)v->bits;
    float single;
    double d;

    if (v->kind == SG_CONST_F32) {
        memcpy(&single, &word, sizeof(single));
        return (double)single;
    }
    memcpy(&d, &v->bits, sizeof(d));
    return d;
}

static void set_double(struct sg_const *v, double d)
{
    v->kind = SG_CONST_F64;
    memcpy(&v->bits, &d, sizeof(d));
}

static int apply_float(struct reader *r, const char *op, struct sg_const *a, const struct sg_const *b)
{
    double x = sg_const_double(a), y = sg_const_double(b);

    switch (op[0]) {
    case '+':
        set_double(a, x + y);
        return 0;
    case '-':
        set_double(a, x - y);
        return 0;
    case '*':
        set_double(a, x * y);
        return 0;
    case '/':
        set_double(a, x / y);
        return 0;
    case '<':
        if (op[1] == '<')
            break;
        set_integer(a, SG_CONST_S64, op[1] == '=' ? x <= y : x < y);
        return 0;
    case '>':
        if (op[1] == '>')
            break;
        set_integer(a, SG_CONST_S64, op[1] == '=' ? x >= y : x > y);
        return 0;
    case '=':
        set_integer(a, SG_CONST_S64, x == y);
        return 0;
    case '!':
        set_integer(a, SG_CONST_S64, x != y);
        return 0;
    default:
        break;
    }
    return constant_bad(r, "an integer expected in a constant expression");
}

static uint64_t divide_constants(uint64_t x, uint64_t y, bool is_signed, bool rest)
{
    if (!is_signed)
        return rest ? x % y : x / y;
    if (y == UINT64_MAX) /* INT64_MIN / -1 wraps */
        return rest ? 0 : 0 - x;
    return rest ? (uint64_t)((int64_t)x % (int64_t)y) : (uint64_t)((int64_t)x / (int64_t)y);
}

static uint64_t compare_constants(const char *op, uint64_t x, uint64_t y, bool is_signed)
{
    bool less = is_signed ? (int64_t)x < (int64_t)y : x < y;

    if (op[0] == '<')
        return less || (op[1] == '=' && x == y);
    return !less && (op[1] == '=' || x != y);
}

static uint64_t shift_constant(const char *op, uint64_t x, uint64_t by, bool is_signed)
{
    by &= 63; /* as ptxas: C leaves other distances open */
    if (op[0] == '<')
        return x << by;
    return is_signed ? (uint64_t)((int64_t)x >> by) : x >> by;
}

/* a = a op b. Types of operands and results: PTX ISA, "Summary of Constant Expression Evaluation
   Rules". */
static int apply_operator(struct reader *r, const struct const_op *o, struct sg_const *a,
                          const struct sg_const *b)
{
    bool is_signed = a->kind == SG_CONST_S64 && b->kind == SG_CONST_S64;
    enum sg_const_kind kind = is_signed ? SG_CONST_S64 : SG_CONST_U64;
    uint64_t x = a->bits, y = b->bits;

    if (is_integer(a) != is_integer(b))
        return constant_bad(r, "the operands of an operator are of different types");
    if (!is_integer(a))
        return apply_float(r, o->text, a, b);
    switch (o->level) {
    case SG_CONST_OR:
        set_integer(a, SG_CONST_S64, x || y);
        break;
    case SG_CONST_AND:
        set_integer(a, SG_CONST_S64, x && y);
        break;
    case SG_CONST_BIT_OR:
        set_integer(a, SG_CONST_U64, x | y);
        break;
    case SG_CONST_BIT_XOR:
        set_integer(a, SG_CONST_U64, x ^ y);
        break;
    case SG_CONST_BIT_AND:
        set_integer(a, SG_CONST_U64, x & y);
        break;
    case SG_CONST_EQUAL:
        set_integer(a, SG_CONST_S64, (x == y) == (o->text[0] == '='));
        break;
    case SG_CONST_LESS:
        set_integer(a, SG_CONST_S64, compare_constants(o->text, x, y, is_signed));
        break;
    case SG_CONST_SHIFT: /* the type is that of the first operand */
        set_integer(a, a->kind, shift_constant(o->text, x, y, a->kind == SG_CONST_S64));
        break;
    case SG_CONST_SUM:
        set_integer(a, kind, o->text[0] == '+' ? x + y : x - y);
        break;
    default:
        if (o->text[0] != '*' && !y)
            return constant_bad(r, "division by zero in a constant expression");
        set_integer(a, kind,
                    o->text[0] == '*' ? x * y : divide_constants(x, y, is_signed, o->text[0] == '%'));
        break;
    }
    return 0;
}

static bool has_suffix(const struct sg_tok *t)
{
    return t->s[t->len - 1] == 'U';
}

static int read_literal(struct reader *r, struct sg_const *v)
{
    const struct sg_tok *t = &r->l->tok;

    v->bits = t->ival;
    if (t->kind == SG_T_INT)
        v->kind = has_suffix(t) || t->ival > INT64_MAX ? SG_CONST_U64 : SG_CONST_S64;
    else if (t->kind == SG_T_F32)
        v->kind = SG_CONST_F32;
    else if (t->kind == SG_T_F64)
        v->kind = SG_CONST_F64;
    else if (t->kind == SG_T_ID && sg_tok_eq(t, "WARP_SZ"))
        set_integer(v, SG_CONST_S64, SG_LANES);
    else
        return constant_bad(r, "a constant expected");
    sg_lex_next(r->l);
    return 0;
}

/* Behind '(': .s64 or .u64 and a value, or an expression. */
static int read_parenthesis(struct reader *r, struct sg_const *v)
{
    const struct sg_tok *t = &r->l->tok;
    int err;

    sg_lex_next(r->l);
    if (t->kind == SG_T_DIR) {
        bool to_signed = sg_tok_eq(t, ".s64");

        if (!to_signed && !sg_tok_eq(t, ".u64"))
            return constant_bad(r, ".s64 or .u64 expected in a cast");
        sg_lex_next(r->l);
        if (!sg_tok_is(r->l, ')'))
            return constant_bad(r, "')' expected");
        sg_lex_next(r->l);
        err = read_level(r, SG_CONST_UNARY, v);
        if (err)
            return err;
        if (!is_integer(v))
            return constant_bad(r, "an integer expected in a constant expression");
        v->kind = to_signed ? SG_CONST_S64 : SG_CONST_U64;
        return 0;
    }
    err = read_level(r, SG_CONST_ANY, v);
    if (err)
        return err;
    if (!sg_tok_is(r->l, ')'))
        return constant_bad(r, "')' expected");
    sg_lex_next(r->l);
    return 0;
}

static int read_unary(struct reader *r, struct sg_const *v)
{
    char sign = r->l->tok.ch;
    int err;

    if (r->l->tok.kind != SG_T_PUNCT)
        return read_literal(r, v);
    if (sign == '(')
        return read_parenthesis(r, v);
    if (sign != '-' && sign != '+' && sign != '!' && sign != '~')
        return constant_bad(r, "a constant expected");
    sg_lex_next(r->l);
    if (r->l->tok.kind == SG_T_F32)
        return constant_bad(r, "a sign before a number of the form 0f00000000");
    err = read_level(r, SG_CONST_UNARY, v);
    if (err)
        return err;
    if (!is_integer(v) && (sign == '!' || sign == '~'))
        return constant_bad(r, "an integer expected in a constant expression");
    if (sign == '!')
        set_integer(v, SG_CONST_S64, !v->bits);
    else if (sign == '~')
        set_integer(v, SG_CONST_U64, ~v->bits);
    else if (sign == '-' && is_integer(v))
        v->bits = 0 - v->bits;
    else if (sign == '-')
        v->bits ^= v->kind == SG_CONST_F32 ? 1ull << 31 : 1ull << 63;
    return 0;
}

/* The binary operator that begins at the current token, NULL: none. */
static const struct const_op *operator_here(const struct sg_lex *l)
{
    char second = l->p < l->end ? *l->p : 0;

    if (l->tok.kind != SG_T_PUNCT)
        return NULL;
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++) {
        const char *text = operators[i].text;

        if (text[0] == l->tok.ch && (!text[1] || text[1] == second))
            return &operators[i];
    }
    return NULL;
}

/* ? a : b after a condition */
static int read_choice(struct reader *r, struct sg_const *v)
{
    struct sg_const yes, no;
    bool first = v->bits != 0;
    int err;

    if (!is_integer(v))
        return constant_bad(r, "an integer expected in a constant expression");
    sg_lex_next(r->l);
    err = read_level(r, SG_CONST_ANY, &yes);
    if (err)
        return err;
    if (!sg_tok_is(r->l, ':'))
        return constant_bad(r, "':' expected");
    sg_lex_next(r->l);
    err = read_level(r, SG_CONST_ANY, &no);
    if (err)
        return err;
    if (is_integer(&yes) != is_integer(&no))
        return constant_bad(r, "the operands of an operator are of different types");
    *v = first ? yes : no;
    if (is_integer(v) && yes.kind != no.kind)
        v->kind = SG_CONST_U64;
    return 0;
}

static int read_binary(struct reader *r, unsigned level, struct sg_const *v)
{
    const struct const_op *o;
    int err = read_unary(r, v);

    while (!err && (o = operator_here(r->l)) && o->level >= level) {
        struct sg_const right;

        sg_lex_next(r->l);
        if (o->text[1])
            sg_lex_next(r->l);
        err = read_level(r, o->level + 1u, &right);
        if (!err)
            err = apply_operator(r, o, v, &right);
    }
    return err;
}

static int read_level(struct reader *r, unsigned level, struct sg_const *v)
{
    int err;

    if (r->depth == DEPTH_MAX)
        return constant_bad(r, "a constant expression is nested too deeply");
    r->depth++;
    err = level >= SG_CONST_UNARY ? read_unary(r, v) : read_binary(r, level, v);
    if (!err && level == SG_CONST_ANY && sg_tok_is(r->l, '?'))
        err = read_choice(r, v);
    r->depth--;
    return err;
}

int sg_const_read(struct sg_lex *l, enum sg_const_level level, struct sg_const *v, struct sg_diag *diag)
{
    struct reader r = {l, diag, 0};

    return read_level(&r, level, v);
}

int sg_const_read_integer(struct sg_lex *l, enum sg_const_level level, uint64_t *v, struct sg_diag *diag)
{
    struct reader r = {l, diag, 0};
    struct sg_const c;
    int err = read_level(&r, level, &c);

    if (err)
        return err;
    if (!is_integer(&c))
        return constant_bad(&r, "an integer expected");
    *v = c.bits;
    return 0;
}

int sg_const_read_sum(struct sg_lex *l, uint64_t *v, struct sg_diag *diag)
{
    uint64_t n;
    int err;

    if (!sg_tok_is(l, '+')) /* not '-': a+-4, as ptxas */
        return 0;
    sg_lex_next(l);
    err = sg_const_read_integer(l, SG_CONST_SUM, &n, diag);
    if (!err)
        *v += n;
    return err;
}

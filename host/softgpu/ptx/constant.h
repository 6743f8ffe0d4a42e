/* SPDX-License-Identifier: MIT */
/* Constant expressions (PTX ISA, "Constant Expressions"). */
#ifndef SG_PTX_CONSTANT_H
#define SG_PTX_CONSTANT_H

#include "ptx/module.h"

enum sg_const_kind { SG_CONST_S64, SG_CONST_U64, SG_CONST_F32, SG_CONST_F64 };

struct sg_const {
    enum sg_const_kind kind;
    uint64_t
        bits; /* of the value; F32 in the low half. F32 is a literal (0f3f800000), perhaps with a sign. */
};

/* Which operators an expression may have outside parentheses: those that bind at least as tightly. */
enum sg_const_level {
    SG_CONST_ANY,
    SG_CONST_OR,
    SG_CONST_AND,
    SG_CONST_BIT_OR,
    SG_CONST_BIT_XOR,
    SG_CONST_BIT_AND,
    SG_CONST_EQUAL,
    SG_CONST_LESS,
    SG_CONST_SHIFT,
    SG_CONST_SUM,
    SG_CONST_PRODUCT,
    SG_CONST_UNARY,
};

/*
 * Reads the expression that begins at the current token; the token behind it is the current one afterwards.
 * Returns 0, or SG_ERR_PTX with diag filled: syntax, operands of types that do not go together, a division by zero,
 * more than 100 levels.
 */
int sg_const_read(struct sg_lex *l, enum sg_const_level level, struct sg_const *v, struct sg_diag *diag);
/* The same; any other value than an integer is an error. */
int sg_const_read_integer(struct sg_lex *l, enum sg_const_level level, uint64_t *v, struct sg_diag *diag);
/* Behind a symbol or register: adds the terms that follow, each with a sign, to *v. None: 0. */
int sg_const_read_sum(struct sg_lex *l, uint64_t *v, struct sg_diag *diag);
/* The value of a F32 or F64. */
double sg_const_double(const struct sg_const *v);

#endif

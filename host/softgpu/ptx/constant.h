/* SPDX-License-Identifier: MIT */
/* Constant expressions (PTX ISA, "Constant Expressions"). */
#ifndef SG_PTX_CONSTANT_H
#define SG_PTX_CONSTANT_H

#include "ptx/module.h"

enum sg_const_kind { SG_CONST_S64, SG_CONST_U64, SG_CONST_F32, SG_CONST_F64 };

struct sg_const {
    enum sg_const_kind kind;
    uint64_t bits; /* F32: in the low half; a literal (0f3f800000), possibly signed */
};

/* Operators allowed outside parentheses, by precedence: this level and tighter. */
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
 * Reads the expression at the current token and moves to the token after it. Returns 0, or
 * SG_ERR_PTX with diag filled: syntax, incompatible operand types, division by zero, more than 100
 * levels.
 */
int sg_const_read(struct sg_lex *l, enum sg_const_level level, struct sg_const *v, struct sg_diag *diag);
/* The same; a value other than an integer is an error. */
int sg_const_read_integer(struct sg_lex *l, enum sg_const_level level, uint64_t *v, struct sg_diag *diag);
/* After a symbol or register: adds the signed terms that follow to *v. No terms: adds 0. */
int sg_const_read_sum(struct sg_lex *l, uint64_t *v, struct sg_diag *diag);
/* The value of an F32 or F64 constant. */
double sg_const_double(const struct sg_const *v);

#endif

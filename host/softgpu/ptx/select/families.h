/* SPDX-License-Identifier: MIT */
/*
 * The operations of a family of instructions by variant and type: tables made of families.def, so
 * that selection is an index and a misspelt operation does not compile.
 */
#ifndef SG_PTX_FAMILIES_H
#define SG_PTX_FAMILIES_H

#include "exec/bytecode.h"

/* A modifier that selects an operation; each family has some of them. */
enum sg_variant {
    SG_V_PLAIN,
    SG_V_CC,
    SG_V_SAT,
    SG_V_LO,
    SG_V_HI,
    SG_V_WIDE,
    SG_V_HI_SAT,
    SG_V_LO_CC,
    SG_V_HI_CC,
    SG_V_RELU,
    SG_V_NAN, /* also the comparison */
    SG_V_XORSIGN,
    SG_V_NAN_XORSIGN,
    SG_V_APPROX,
    SG_V_SHIFTAMT,
    SG_V_CLAMP,
    SG_V_WRAP,
    /* comparisons */
    SG_V_EQ,
    SG_V_NE,
    SG_V_LT,
    SG_V_LE,
    SG_V_GT,
    SG_V_GE,
    SG_V_EQU,
    SG_V_NEU,
    SG_V_LTU,
    SG_V_LEU,
    SG_V_GTU,
    SG_V_GEU,
    SG_V_NUM,
    /* properties of a float */
    SG_V_FINITE,
    SG_V_INFINITE,
    SG_V_NUMBER,
    SG_V_NOTANUMBER,
    SG_V_NORMAL,
    SG_V_SUBNORMAL,
    /* types of cvt.pack that registers do not have */
    SG_V_U4,
    SG_V_S4,
    SG_V_U2,
    SG_V_S2,
    /* state spaces of an access; then of vectors, in the same order */
    SG_V_GLOBAL,
    SG_V_SHARED,
    SG_V_LOCAL,
    SG_V_PARAM,
    SG_V_GLOBAL_V2,
    SG_V_SHARED_V2,
    SG_V_LOCAL_V2,
    SG_V_PARAM_V2,
    SG_V_GLOBAL_V4,
    SG_V_SHARED_V4,
    SG_V_LOCAL_V4,
    SG_V_PARAM_V4,
    /* read-modify-write, and reductions of a warp */
    SG_V_ADD,
    SG_V_AND,
    SG_V_OR,
    SG_V_XOR,
    SG_V_EXCH,
    SG_V_CAS,
    SG_V_MIN,
    SG_V_MAX,
    SG_V_INC,
    SG_V_DEC,
    SG_V_MIN_NAN,
    SG_V_MAX_NAN,
    SG_V_ANY,
    SG_V_ALL,
    SG_V_COUNT
};

/* enum sg_op by type, SG_OP_NONE where there is none. Operations without a type: SG_TY_NONE. */
struct sg_typed_ops {
    uint16_t op[SG_TY_COUNT];
};

/* NULL: no such variant */
struct sg_family_ops {
    const struct sg_typed_ops *of[SG_V_COUNT];
};

/* By two types, such as those of a conversion. */
struct sg_paired_ops {
    const struct sg_typed_ops *to[SG_TY_COUNT];
};

#define FAMILY(name, ...) extern const struct sg_family_ops sg_fam_##name;
#define PAIRS(name, ...) extern const struct sg_paired_ops sg_pairs_##name;
#include "ptx/select/families.def"
#undef FAMILY
#undef PAIRS

/* SG_OP_NONE: no such operation; f may be NULL. */
static inline enum sg_op sg_family_op(const struct sg_family_ops *f, enum sg_variant v, enum sg_type t)
{
    return f && f->of[v] ? (enum sg_op)f->of[v]->op[t] : SG_OP_NONE;
}

static inline enum sg_op sg_paired_op(const struct sg_paired_ops *p, enum sg_type to, enum sg_type from)
{
    return p->to[to] ? (enum sg_op)p->to[to]->op[from] : SG_OP_NONE;
}

#endif

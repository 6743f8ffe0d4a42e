/* SPDX-License-Identifier: MIT */
/* Helpers of the emitters in this folder. */
#ifndef SG_PTX_SEL_H
#define SG_PTX_SEL_H

#include "ptx/decode.h"
#include "ptx/select/families.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE SG_OPND_NONE

/* The untyped type of the same width: SG_TY_B16, SG_TY_B32, ... */
static inline enum sg_type sg_bt(enum sg_type t)
{
    switch (sg_type_size(t)) {
    case 1:
        return SG_TY_B8;
    case 2:
        return SG_TY_B16;
    case 4:
        return SG_TY_B32;
    case 8:
        return SG_TY_B64;
    default:
        return t == SG_TY_PRED ? SG_TY_PRED : SG_TY_B128;
    }
}

/* The same where the high bits of a 16-bit register are irrelevant. */
static inline enum sg_type sg_bt32(enum sg_type t)
{
    return sg_type_size(t) <= 4 && t != SG_TY_PRED ? SG_TY_B32 : sg_bt(t);
}

/* The integer type of the same width: SG_TY_S16, SG_TY_U32, ...; untyped operands count as unsigned */
static inline enum sg_type sg_su(enum sg_type t)
{
    const bool is_signed = sg_type_signed(t);

    switch (sg_type_size(t)) {
    case 2:
        return is_signed ? SG_TY_S16 : SG_TY_U16;
    case 4:
        return is_signed ? SG_TY_S32 : SG_TY_U32;
    case 8:
        return is_signed ? SG_TY_S64 : SG_TY_U64;
    default:
        return is_signed ? SG_TY_S8 : SG_TY_U8;
    }
}

/* The operation of the current instruction's family. SG_OP_NONE: no such combination; sg_emit()
   refuses the instruction. */
static inline enum sg_op sg_own_op(const struct sg_dec *d, enum sg_variant v, enum sg_type t)
{
    return sg_family_op(d->family->ops, v, t);
}

static inline enum sg_op sg_mov_op(enum sg_type t)
{
    return sg_family_op(&sg_fam_mov, SG_V_PLAIN, sg_bt32(t));
}

static inline int sg_op1(struct sg_dec *d, enum sg_op op, enum sg_type td, enum sg_type ta)
{
    uint32_t a = sg_src(d, 1, ta);

    sg_emit(d, op, sg_dst(d, 0, td), a, NONE, NONE);
    return d->err;
}

static inline int sg_op2(struct sg_dec *d, enum sg_op op, enum sg_type td, enum sg_type ta, enum sg_type tb)
{
    uint32_t a = sg_src(d, 1, ta), b = sg_src(d, 2, tb);

    sg_emit(d, op, sg_dst(d, 0, td), a, b, NONE);
    return d->err;
}

static inline int sg_op3(struct sg_dec *d, enum sg_op op, enum sg_type td, enum sg_type ta, enum sg_type tb,
                         enum sg_type tc)
{
    uint32_t a = sg_src(d, 1, ta), b = sg_src(d, 2, tb), c = sg_src(d, 3, tc);

    sg_emit(d, op, sg_dst(d, 0, td), a, b, c);
    return d->err;
}

/* The type with twice the width. */
static inline enum sg_type sg_wider(enum sg_type t)
{
    switch (t) {
    case SG_TY_U16:
        return SG_TY_U32;
    case SG_TY_S16:
        return SG_TY_S32;
    case SG_TY_U32:
        return SG_TY_U64;
    case SG_TY_S32:
        return SG_TY_S64;
    default:
        return SG_TY_NONE;
    }
}

int sg_flt_arith(struct sg_dec *d); /* add sub mul fma mad min max neg abs div ... on floats */

/*
 * ptx/select/sg_select_pair.c: true for a vector of 16-bit elements that are processed in pairs. Then words
 * holds a register per pair: loads are split after the load, stores are joined before the store.
 */
bool sg_pair_words(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   struct sg_opel words[2]);
int sg_pair_split(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                  const struct sg_opel *words);
int sg_pair_join(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                 const struct sg_opel *words);
/* True for a vector of bytes that is stored as a single element of 16 or 32 bits, in `word`. */
bool sg_bytes_join(struct sg_dec *d, enum sg_type t, uint32_t vec, const struct sg_opel *el,
                   struct sg_opel *word);
/* For an operation of several instructions: registers written by an earlier instruction are read from a
   copy. */
uint32_t sg_unwritten_register(struct sg_dec *d, uint32_t v, const struct sg_opel *written, uint32_t n);

/* The address of operand i, offset included, in a register: 32 bits in shared memory, else 64. */
uint32_t sg_flat_address(struct sg_dec *d, uint32_t i, enum sg_space sp);
/* The state space named by the modifiers; generic if none. Also skips cache hints, which have no
   effect here. */
enum sg_space sg_take_space(struct sg_dec *d);
/* Reads the modifiers that have no effect on accesses here. Returns true if the access may be part of a spin
   loop. */
bool sg_take_hints(struct sg_dec *d);
/* ptx/select/matrix/sg_select_mma_operands.c: an element type as the handlers of matrix products know it (exec/mma.h); -1: none. */
int sg_mma_type_of(enum sg_type t);
/* Puts the n registers of operand i into the fields of an instruction; a single register needs no braces. */
uint32_t sg_mma_registers(struct sg_dec *d, enum sg_op op, uint32_t i, uint32_t n, enum sg_type t, bool dst);
/* n registers, four to an "ext", which follow their instruction; out: it writes them. */
void sg_emit_list(struct sg_dec *d, const struct sg_opel *el, uint32_t n, bool out);
int sg_emit_mma_wide(struct sg_dec *d); /* ptx/select/matrix/sg_select_mma_wide.c */
int sg_emit_wgmma(struct sg_dec *d);    /* ptx/select/matrix/sg_select_wgmma.c */
int sg_emit_tcgen05(struct sg_dec *d);  /* ptx/select/matrix/sg_select_tcgen05.c */
int sg_emit_mbarrier(struct sg_dec *d); /* ptx/select/sg_select_mbarrier.c */
int sg_emit_mov(struct sg_dec *d);      /* ptx/select/sg_select_move.c */
int sg_emit_cvta(struct sg_dec *d);     /* ptx/select/sg_select_space.c */
int sg_emit_isspacep(struct sg_dec *d);
/* An operation of a barrier object: dst, operand with the address, third operand. */
int sg_mbar_op(struct sg_dec *d, enum sg_op op, uint32_t dst, uint32_t at, uint32_t value, enum sg_space sp);
/* Stores vec elements of operand `from` at the shared address of operand `to`. */
int sg_store_shared(struct sg_dec *d, uint32_t to, uint32_t from, enum sg_type t, uint32_t vec);
/* ptx/select/sg_select_bulk.c: parts of the families cp, st and barrier. */
int sg_emit_bulk(struct sg_dec *d);
int sg_emit_st_async(struct sg_dec *d);
#define SG_BULK_REDUCTIONS 8
extern const char
    *const sg_bulk_reductions[SG_BULK_REDUCTIONS]; /* add, min, ...: their numbers in handlers */
int sg_emit_tensor(struct sg_dec *d);              /* ptx/select/sg_select_tensor.c */
int sg_emit_tensormap(struct sg_dec *d);
int sg_emit_red(struct sg_dec *d);
int sg_emit_atom(struct sg_dec *d); /* ptx/select/sg_select_atom.c */
int sg_emit_cluster_barrier(struct sg_dec *d);

#endif

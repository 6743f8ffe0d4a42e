/* SPDX-License-Identifier: MIT */
/* State of hoisting, shared by the files of this folder. */
#ifndef SG_PTX_HOIST_H
#define SG_PTX_HOIST_H

#include "ptx/decode.h"
#include "ptx/hoist/low_bits.h"

/* Kinds of values and instructions. Values from HOISTED on have slots of their own. */
enum {
    VARIES,
    SEVERAL, /* has several definitions */
    UNKNOWN,
    HOISTED,  /* the same in every block of a launch */
    OF_ROW,   /* depends on %ctaid.y and .z */
    OF_BLOCK, /* depends on the block, the same in all lanes */
    ALIAS,    /* an instruction that only copies a value */
    LOADED,   /* a load whose result is the same in all lanes */
};

/* Classes of operations: by their rows (sg_op_is_pure()) and by hoist_is_simple() in sg_ptx_hoist_operands.c. */
enum {
    PLAIN = 1, /* has side effects */
    PURE,
    SIMPLE,
    LOAD, /* loads one value of global memory */
};

#define MANY UINT32_MAX

struct hoist {
    struct sg_dec *d;
    uint32_t *defs;     /* per register: number of definitions (MANY: partial ones) */
    uint8_t *even;      /* per register: the same in all lanes, without a slot of its own */
    uint8_t *mixed;     /* per instruction: lanes may be elsewhere */
    uint8_t *maybe;     /* per register: not known to differ between lanes */
    uint8_t *addresses; /* constants that a symbol's address will replace: sg_code_addresses() */
    uint8_t *seen_insn; /* scratch of sg_hoist_set_before_use() */
    uint32_t *todo;     /* scratch: instructions from which paths are yet to be followed */
    sg_fn bra, fpmode, pred_if, pred_not;
    uint8_t *used;      /* per register: it is used */
    uint8_t *state;     /* per register */
    uint8_t *kind;      /* per instruction */
    uint32_t *slot;     /* per register: SG_OPND_FIXED | offset */
    uint32_t *changes;  /* per register: 1 + its definition if it changes while a block runs; else 0 */
    struct sg_low *low; /* per register that can be hoisted: in blocks of whole rows */
    uint32_t nblock;    /* number of instructions that hoist_compact() adds */
    uint64_t walked;    /* instructions visited by sg_hoist_set_before_use() */
    sg_fn mov32, mov64, first32, first64;
};

static inline uint32_t *sg_hoist_field(struct sg_insn *in, unsigned k)
{
    return k == 0 ? &in->d : k == 1 ? &in->a : k == 2 ? &in->b : k == 3 ? &in->c : &in->e;
}

static inline bool sg_hoist_is_vreg(uint32_t op)
{
    return op < SG_OPND_NONE;
}

/* Number of units of the value in that slot if it is uniform across lanes; 0: it is not. */
static inline uint8_t *sg_hoist_flat_at(const struct sg_code *c, uint32_t op)
{
    return &c->flat[(op & ~SG_OPND_FIXED) >> 7];
}

/* ---- operations and operands (ptx/hoist/sg_ptx_hoist_operands.c) ---- */

/* The class of an operation; *rule: its rule for sg_low_bits(). */
uint8_t sg_hoist_class(sg_fn fn, uint8_t *rule);
/* The kind of an operand; *flat: uniform across lanes. */
uint8_t sg_hoist_operand(const struct hoist *h, uint32_t op, bool *flat);
/* In which bits of an operand lanes can differ in a block of whole rows. wide: a constant has 64 bits. */
struct sg_low sg_hoist_low_of(const struct hoist *h, uint32_t op, bool wide);
/*
 * In which bits the result of instruction i can differ. *flat: whether all operands are uniform; set
 * if the result is nevertheless.
 */
struct sg_low sg_hoist_low(struct hoist *h, uint32_t i, uint8_t rule, bool *flat);
/* Assigns a slot to register v. Returns false if no slots are left. */
bool sg_hoist_slot(struct hoist *h, uint32_t v, bool flat);
/* True if i begins instructions that run under a predicate or in a mode. */
bool sg_hoist_is_span(const struct hoist *h, uint32_t i);

/*
 * Finds registers with several definitions that are uniform, and assigns slots to them
 * (ptx/hoist/sg_ptx_uniform.c). Returns true if it found one.
 */
bool sg_hoist_several(struct hoist *h);
/* True if register v is defined on every path from instruction `from` to its uses. Also false if
   that takes too long to find out. */
bool sg_hoist_set_before_use(struct hoist *h, uint32_t from, uint32_t v);
/* Finds the instructions that are reachable from a branch on which lanes may part (h->mixed). */
void sg_hoist_find_mixed(struct hoist *h);
/* True if instruction i, of class LOAD, has the same result in all lanes when they agree on its address. */
bool sg_hoist_loads_once(const struct hoist *h, uint32_t i);

#endif

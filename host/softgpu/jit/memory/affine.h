/* SPDX-License-Identifier: MIT */
/*
 * Affine values (jit/memory/sg_jit_affine.c): registers whose lanes keep their distances from lane 0 while a block
 * runs, however often it runs, since they are sums and multiples of such registers, of hoisted
 * values and of uniform ones. In a block for all lanes each is a number, its value in lane 0, in
 * w->sums; where lanes are needed, the distances are added.
 */
#ifndef SG_JIT_AFFINE_H
#define SG_JIT_AFFINE_H

#include "jit/state.h"

#define SG_AFFINE_ROOTS 8u
#define SG_AFFINE_FORMS 16u
#define SG_AFFINE_TERMS 4u
#define SG_AFFINE_MISSES 8u /* number of times that a warp learns new distances in a launch */

/* w->affine of a block: the distances of its roots, and of all forms, are not known, are those in the
   warp's memory, or change too often. */
enum { AFFINE_UNKNOWN, AFFINE_KNOWN, AFFINE_OFF };

/* Distances from lane 0 in the warp's memory before its registers. */
struct sg_distances {
    union {
        u64 wide[SG_LANES];
        struct {
            s32 narrow[SG_LANES];
            s32 low, high; /* the least and the greatest of them */
        };
    };
};

/* A form: the sum of multiples of the distances of roots and hoisted registers. */
struct sg_affine_form {
    s32 at; /* where its struct sg_distances lies relative to the warp's registers: before them */
    u32 n;
    bool wide;
    struct sg_affine_term {
        s32 op; /* a root's or a hoisted register, or where other distances lie */
        bool wide;
        u64 times;
    } term[SG_AFFINE_TERMS];
};

/* A block's learnt distances. The first forms are its roots: registers that it reads and does not compute. */
struct sg_affine {
    u32 number; /* index into w->affine */
    u32 nroots, nforms;
    struct sg_affine_form form[SG_AFFINE_FORMS];
    /* loads whose w->lie depends on it, with the places of their addresses' distances */
    struct sg_affine_site {
        const struct sg_window *window; /* NULL: none */
        u32 site;
        s32 at;
    } * site;
    u32 nsites, cap_sites;
    struct sg_affine *next;
};

/*
 * Looks for affine addresses in the block that begins at instruction `first`. True if code for them is
 * worth while: then sg_jit_affine_enter() begins it, and the instructions for which
 * sg_jit_affine_insn() is true are no longer to be emitted, until sg_jit_affine_leave(), behind which
 * the block's other code follows, for distances that do not stay the same.
 */
bool sg_jit_affine_find(struct jit *j, u32 first);
/* The same for the settled version of such a block, whose distances are those of a. False: it is not as before. */
bool sg_jit_affine_again(struct jit *j, u32 first, struct sg_affine *a);
void sg_jit_affine_enter(struct jit *j);
void sg_jit_affine_begin(struct jit *j); /* at the beginning of the block's code */
bool sg_jit_affine_insn(struct jit *j, u32 i);
/* The load of that window, whose address is the sum x, is one of the block. */
void sg_jit_affine_site(struct jit *j, const struct sum *x, const struct sg_window *window);
void sg_jit_affine_leave(struct jit *j, u32 first);
void sg_jit_affine_end(struct jit *j); /* in place of it, of a settled version */
struct sg_affine *
sg_jit_affine_of(const struct jit *j); /* of the block being compiled, which has affine values */
void sg_jit_affine_free(struct sg_affine *a);
/* Called by native code: stores the distances that lanes have now. False: they change too often. */
u32 sg_jit_affine_learn(struct sg_warp *w, const struct sg_insn *in, const struct sg_affine *a);

#endif

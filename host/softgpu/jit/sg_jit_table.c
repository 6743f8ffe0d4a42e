/* SPDX-License-Identifier: MIT */
/* The native implementations of operations, by their numbers. */
#include "jit/ops.h"

#ifdef SG_JIT

static struct {
    const struct jop *op;
    bool pure; /* nothing but its result */
} table[SG_OP_COUNT];

static void table_add(const struct jop *o, bool pure)
{
    for (; o->op; o++) {
        table[o->op].op = o;
        table[o->op].pure = pure;
    }
}

const struct jop *sg_jit_find(sg_fn fn, bool *pure)
{
    const enum sg_op op = sg_op_of(fn);

    if (pure && table[op].op)
        *pure = table[op].pure;
    return table[op].op;
}

void sg_jit_find_init(void)
{
    table_add(sg_jit_ops_alu, true);
    table_add(sg_jit_ops_cmp, true);
    table_add(sg_jit_ops_half, true);
    table_add(sg_jit_ops_float, true);
    table_add(sg_jit_ops_approx, true);
    table_add(sg_jit_ops_mem, false);
    table_add(sg_jit_ops_shm, false);
    table_add(sg_jit_ops_matrix, false);
}

bool sg_jit_modeless(const struct jop *o)
{
    const struct jop *const tables[] = {sg_jit_ops_alu, sg_jit_ops_cmp};

    if (o->arg & (MODAL | NO_MODE))
        return false;
    for (u32 k = 0; k < 2; k++)
        for (const struct jop *p = tables[k]; p->op; p++)
            if (p == o)
                return true;
    return false;
}

#endif

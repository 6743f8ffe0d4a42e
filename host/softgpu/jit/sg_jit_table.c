/* SPDX-License-Identifier: MIT */
/* The native implementations of operations, by their numbers. */
#include "jit/ops.h"

#ifdef SG_JIT

static const struct jop *table[SG_OP_COUNT];

static void table_add(const struct jop *o)
{
    for (; o->op; o++)
        table[o->op] = o;
}

const struct jop *sg_jit_find(sg_fn fn, bool *pure)
{
    const struct sg_opdef *row = sg_op_def_of(fn);
    const struct jop *o = row ? table[row->op] : NULL;

    if (pure && o)
        *pure = sg_op_is_pure(row);
    return o;
}

void sg_jit_find_init(void)
{
    table_add(sg_jit_ops_alu);
    table_add(sg_jit_ops_cmp);
    table_add(sg_jit_ops_half);
    table_add(sg_jit_ops_float);
    table_add(sg_jit_ops_approx);
    table_add(sg_jit_ops_mem);
    table_add(sg_jit_ops_shm);
    table_add(sg_jit_ops_matrix);
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

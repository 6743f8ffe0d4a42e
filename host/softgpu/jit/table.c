/* SPDX-License-Identifier: MIT */
/* The native implementations of handlers, by the handler. */
#include "jit/ops.h"

#ifdef SG_JIT

#define HASH 1024

static struct {
    sg_fn fn;
    const struct jop *op;
    bool pure; /* nothing but its result */
} table[HASH];

static u32 hash_function(sg_fn fn)
{
    return (u32)(((u64)(uintptr_t)fn * 0x9e3779b97f4a7c15ull) >> 54);
}

static void table_add(const struct jop *o, bool pure)
{
    for (; o->op; o++) {
        const sg_fn fn = sg_op_fn(o->op);
        u32 i;

        for (i = hash_function(fn); table[i].fn && table[i].fn != fn; i = (i + 1) & (HASH - 1))
            ;
        table[i].fn = fn;
        table[i].op = o;
        table[i].pure = pure;
    }
}

const struct jop *sg_jit_find(sg_fn fn, bool *pure)
{
    for (u32 i = hash_function(fn); table[i].fn; i = (i + 1) & (HASH - 1))
        if (table[i].fn == fn) {
            if (pure)
                *pure = table[i].pure;
            return table[i].op;
        }
    return NULL;
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

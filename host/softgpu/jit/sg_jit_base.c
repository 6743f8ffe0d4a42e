/* SPDX-License-Identifier: MIT */
/* What all files of the compiler stand on: room for code, the handlers of control flow, native code by handler. */
#include "jit/state.h"
#include <stdlib.h>

#ifdef SG_JIT

struct jit_ctl sg_jit_ctl;
const struct jop *const *sg_jit_table;

bool sg_jit_room(struct buf *b)
{
    const size_t twice = b->cap ? b->cap * 2 : 65536, cap = twice < b->max ? twice : b->max;
    u8 *p = b->failed || cap <= b->cap ? NULL : realloc(b->p, cap);

    if (!p) {
        b->failed = true;
        return false;
    }
    b->p = p;
    b->cap = cap;
    return true;
}

bool sg_jit_claim(struct jit *j, size_t bytes)
{
    if (!j->b.failed && bytes <= j->table_room)
        j->table_room -= bytes;
    else
        j->b.failed = true;
    return !j->b.failed;
}

const struct jop *sg_jit_find(sg_fn fn, bool *pure)
{
    const struct sg_opdef *row = sg_op_def_of(fn);
    const struct jop *o = row ? sg_jit_table[row->op] : NULL;

    if (!o || !o->emit)
        return NULL;
    if (pure)
        *pure = sg_op_is_pure(row);
    return o;
}

#endif

/* SPDX-License-Identifier: MIT */
/* The addresses of a module's constant variables, which isspacep asks for. */
#include <stdatomic.h>
#include <stdlib.h>

#include "ptx/module.h"
#include "exec/code.h"

static int by_start(const void *a, const void *b)
{
    const struct sg_const_range *x = a, *y = b;

    return (x->start > y->start) - (x->start < y->start);
}

static bool is_const(const struct sg_var *v)
{
    return v->is_const && v->size;
}

int sg_const_space(struct sg_module *m, const struct sg_const_space **out)
{
    struct sg_const_space *c = atomic_load(&m->const_space), *other = NULL;
    uint32_t n = 0;

    *out = c;
    if (c)
        return 0;
    for (uint32_t i = 0; i < m->nvars; i++) {
        if (is_const(&m->vars[i]) && !m->vars[i].address)
            return 0;
        n += is_const(&m->vars[i]);
    }
    c = malloc(sizeof(*c) + n * sizeof(c->at[0]));
    if (!c)
        return SG_ERR_NOMEM;
    c->n = 0;
    for (uint32_t i = 0; i < m->nvars; i++) {
        if (is_const(&m->vars[i]))
            c->at[c->n++] = (struct sg_const_range){m->vars[i].address, m->vars[i].size};
    }
    qsort(c->at, c->n, sizeof(c->at[0]), by_start);
    if (!atomic_compare_exchange_strong(&m->const_space, &other, c)) {
        free(c); /* of another kernel of the module, made meanwhile */
        c = other;
    }
    *out = c;
    return 0;
}

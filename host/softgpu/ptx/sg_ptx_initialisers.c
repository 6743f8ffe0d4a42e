/* SPDX-License-Identifier: MIT */
/* A module as the driver half sees it: kernels, globals, and the initialisers of variables. */
#define _GNU_SOURCE /* memmem */
#include "base/half.h"
#include "memory/bounds.h"
#include "ptx/constant.h"

#include <stdlib.h>
#include <string.h>

#define INIT_DEPTH 9 /* nesting of braces: the maximum number of array dimensions, and a vector */

uint32_t sg_module_kernel_count(const struct sg_module *m)
{
    return m->nkernels;
}

struct sg_kernel *sg_module_kernel(const struct sg_module *m, uint32_t i)
{
    return i < m->nkernels ? m->kernels[i] : NULL;
}

uint32_t sg_module_kernel_index(const struct sg_module *m, const char *name)
{
    const struct sg_sym *y = sg_sym_find(&m->symtab, 0, name, (uint32_t)strlen(name));

    return y && y->kind == SG_K_ENTRY && m->funcs[y->index].kernel ? m->funcs[y->index].kernel - 1
                                                                   : UINT32_MAX;
}

struct sg_kernel *sg_module_find_kernel(const struct sg_module *m, const char *name)
{
    return sg_module_kernel(m, sg_module_kernel_index(m, name));
}

uint32_t sg_module_global_count(const struct sg_module *m)
{
    return m->nvars;
}

void sg_module_get_global(const struct sg_module *m, uint32_t i, struct sg_global_info *info)
{
    const struct sg_var *v = &m->vars[i];

    info->name = v->name;
    info->size = v->size;
    info->align = v->align ? v->align : 1;
    info->is_const = v->is_const;
    info->is_managed = v->is_managed;
    info->is_extern = v->is_extern;
}

uint32_t sg_module_opaque_count(const struct sg_module *m)
{
    return m->nopaques;
}

const char *sg_module_get_opaque(const struct sg_module *m, uint32_t i, enum sg_opaque_kind *kind)
{
    *kind = m->opaques[i].kind;
    return m->opaques[i].name;
}

static int sampler_value(struct sg_sampler_init *s, const struct sg_tok *name, const struct sg_tok *value)
{
    static const char *const modes[] = {"wrap", "clamp_to_edge", "mirror", "clamp_to_border", "clamp_ogl"};
    static const char *const names[] = {"addr_mode_0", "addr_mode_1", "addr_mode_2"};

    for (int k = 0; k < 3; k++) {
        for (int m = 0; sg_tok_eq(name, names[k]) && m < 5; m++) {
            if (sg_tok_eq(value, modes[m])) {
                s->address[k] = m == 4 ? 1 : m; /* clamp_ogl: to the edge, as of these textures */
                return 0;
            }
        }
    }
    if (sg_tok_eq(name, "filter_mode") && (sg_tok_eq(value, "linear") || sg_tok_eq(value, "nearest")))
        s->linear = sg_tok_eq(value, "linear");
    else if (sg_tok_eq(name, "force_unnormalized_coords") && value->kind == SG_T_INT)
        s->unnormalized = value->ival != 0;
    else
        return 1;
    return 0;
}

/* { name = value, ... } */
int sg_module_get_sampler(const struct sg_module *m, uint32_t i, struct sg_sampler_init *out,
                          struct sg_diag *diag)
{
    const struct sg_opaque *o = &m->opaques[i];
    struct sg_tok name;
    struct sg_lex l;

    memset(out, 0, sizeof(*out));
    if (!o->init)
        return 0;
    sg_lex_init(&l, o->init, m->text + m->len, o->init_line);
    if (!sg_tok_is(&l, '{'))
        return sg_lex_bad(&l, diag, "'{' expected");
    do {
        sg_lex_next(&l);
        name = l.tok;
        sg_lex_next(&l);
        if (name.kind != SG_T_ID || !sg_tok_is(&l, '='))
            return sg_lex_bad(&l, diag, "name = value expected");
        sg_lex_next(&l);
        if (sampler_value(out, &name, &l.tok))
            return sg_lex_bad(&l, diag, "unknown property or value of a sampler");
        sg_lex_next(&l);
    } while (sg_tok_is(&l, ','));
    return sg_tok_is(&l, '}') ? 0 : sg_lex_bad(&l, diag, "'}' expected");
}

void sg_module_set_opaque_handle(struct sg_module *m, uint32_t i, uint64_t handle)
{
    if (i < m->nopaques)
        m->opaques[i].handle = handle;
}

void sg_module_set_global_address(struct sg_module *m, uint32_t i, uint64_t device_address)
{
    if (i < m->nvars)
        m->vars[i].address = device_address;
}

/* Counts the values or braces in the outermost braces of an initialiser. */
int sg_init_count(struct sg_lex *l, uint64_t *n, struct sg_diag *diag)
{
    uint32_t depth = 0, paren = 0;
    bool in = false; /* a value or brace of the outermost braces */

    *n = 0;
    if (!sg_tok_is(l, '{'))
        return sg_lex_bad(l, diag, "'{' expected");
    do {
        if (l->tok.kind == SG_T_EOF)
            return sg_lex_bad(l, diag, "unfinished initialiser");
        if (depth == 1 && !in && !sg_tok_is(l, '}')) {
            in = true;
            ++*n;
        }
        if (sg_tok_is(l, '{')) {
            if (++depth > INIT_DEPTH)
                return sg_lex_bad(l, diag, "too many braces");
        } else if (sg_tok_is(l, '}')) {
            depth--;
        } else if (sg_tok_is(l, '(')) {
            paren++;
        } else if (sg_tok_is(l, ')')) {
            if (!paren--)
                return sg_lex_bad(l, diag, "')' not expected");
        } else if (sg_tok_is(l, ',') && depth == 1 && !paren) {
            in = false;
        }
        sg_lex_next(l);
    } while (depth);
    return *n ? 0 : sg_lex_bad(l, diag, "an array without a size has no initial values");
}

struct init {
    struct sg_module *m;
    struct sg_var *v;
    struct sg_lex l;
    struct sg_diag *diag;
    uint8_t *at;  /* address of the variable */
    uint64_t pos; /* bytes */
    uint32_t esize;
};

/* sym, generic(sym), sym+4 */
static int init_symbol(struct init *x, uint64_t *v)
{
    struct sg_sym *y;
    bool generic = x->l.tok.kind == SG_T_ID && sg_tok_eq(&x->l.tok, "generic");

    if (generic) {
        sg_lex_next(&x->l);
        if (!sg_tok_is(&x->l, '('))
            return sg_lex_bad(&x->l, x->diag, "'(' expected");
        sg_lex_next(&x->l);
    }
    if (x->l.tok.kind != SG_T_ID)
        return sg_lex_bad(&x->l, x->diag, "a symbol expected");
    y = sg_sym_find(&x->m->symtab, 0, x->l.tok.s, x->l.tok.len);
    if (!y || y->name > x->v->init)
        return sg_lex_bad(&x->l, x->diag, "a name that is declared before expected");
    if (y->kind == SG_K_FUNC || y->kind == SG_K_ENTRY) {
        *v = sg_windows_init() ? sg_func_address(y->index) : 0;
        goto found;
    }
    if (y->kind != SG_K_GLOBAL)
        return sg_diag_at(x->diag, SG_ERR_UNSUPPORTED, x->l.tok.line, x->l.tok.col,
                          "initialiser of '%s': the address of '%.*s' is not available (only "
                          ".global and .const variables)",
                          x->v->name, (int)x->l.tok.len, x->l.tok.s);
    if (&x->m->vars[y->index] == x->v)
        return sg_lex_bad(&x->l, x->diag, "the variable's own address");
    *v = x->m->vars[y->index].address;
found:
    sg_lex_next(&x->l);
    if (generic) {
        if (!sg_tok_is(&x->l, ')'))
            return sg_lex_bad(&x->l, x->diag, "')' expected");
        sg_lex_next(&x->l);
    }
    return sg_const_read_sum(&x->l, v, x->diag);
}

/* The bits of a floating-point value in a variable of this type; false: the type has none. */
static bool float_bits(enum sg_type type, const struct sg_const *c, uint64_t *bits)
{
    double d = sg_const_double(c);
    float f = (float)d;
    uint32_t word;

    switch (type) {
    case SG_TY_F64:
    case SG_TY_B64:
        memcpy(bits, &d, sizeof(d));
        return true;
    case SG_TY_F32:
    case SG_TY_B32:
        memcpy(&word, &f, sizeof(f));
        *bits = c->kind == SG_CONST_F32 ? (uint32_t)c->bits : word;
        return true;
    case SG_TY_B16:
        *bits = sg_f64_to_f16(d, 0);
        return true;
    default:
        return false;
    }
}

/* 0xff00(sym): one byte of an address */
static int init_masked(struct init *x, uint64_t mask, uint64_t *v)
{
    int r;

    if (!mask || mask >> __builtin_ctzll(mask) != 0xff || __builtin_ctzll(mask) % 8)
        return sg_lex_bad(&x->l, x->diag, "a mask of one byte expected");
    sg_lex_next(&x->l);
    r = init_symbol(x, v);
    if (r)
        return r;
    if (!sg_tok_is(&x->l, ')'))
        return sg_lex_bad(&x->l, x->diag, "')' expected");
    sg_lex_next(&x->l);
    *v &= mask;
    while (mask && !(mask & 1)) {
        mask >>= 1;
        *v >>= 1;
    }
    return 0;
}

static int init_constant(struct init *x, uint64_t *v)
{
    struct sg_lex begin = x->l;
    struct sg_const c;
    int r;

    if (x->l.tok.kind == SG_T_INT) {
        sg_lex_next(&x->l);
        if (sg_tok_is(&x->l, '('))
            return init_masked(x, begin.tok.ival, v);
        x->l = begin;
    }
    r = sg_const_read(&x->l, SG_CONST_ANY, &c, x->diag);
    if (r)
        return r;
    *v = c.bits;
    if (c.kind == SG_CONST_F32 || c.kind == SG_CONST_F64)
        return float_bits(x->v->type, &c, v) ? 0 : sg_lex_bad(&begin, x->diag, "an integer expected");
    return x->v->type == SG_TY_F32 || x->v->type == SG_TY_F64
               ? sg_lex_bad(&begin, x->diag, "a floating-point value expected")
               : 0;
}

static int init_element(struct init *x)
{
    uint64_t v = 0;
    int r;

    if (!sg_bytes_have(x->v->size, x->pos, x->esize))
        return sg_lex_bad(&x->l, x->diag, "more initial values than the variable has elements");
    if (x->l.tok.kind == SG_T_ID && !sg_tok_eq(&x->l.tok, "WARP_SZ"))
        r = init_symbol(x, &v);
    else
        r = init_constant(x, &v);
    if (r)
        return r;
    memcpy(x->at + x->pos, &v, x->esize > 8 ? 8 : x->esize);
    x->pos += x->esize;
    return 0;
}

/* Elements of a part of the variable `level` braces deep; false: more than a variable has. */
static bool part_elements(const struct sg_var *v, uint32_t level, uint64_t *n)
{
    *n = v->vec;
    for (uint32_t i = level; i < v->ndims; i++)
        if (!sg_size_mul(n, v->dims[i], v->size))
            return false;
    return true;
}

/* An element, or a list of parts in braces: fewer than the dimension has, but a vector has all. */
static int init_part(struct init *x, uint32_t level)
{
    uint32_t levels = x->v->ndims + (x->v->vec > 1), n = 0;
    uint32_t room = level < x->v->ndims ? x->v->dims[level] : x->v->vec;
    uint64_t end = x->pos, bytes;
    int r;

    if (level == levels)
        return init_element(x);
    if (!sg_tok_is(&x->l, '{'))
        return sg_lex_bad(&x->l, x->diag, "'{' expected");
    sg_lex_next(&x->l);
    while (!sg_tok_is(&x->l, '}')) {
        if (n && !sg_tok_is(&x->l, ','))
            return sg_lex_bad(&x->l, x->diag, "',' or '}' expected");
        if (n)
            sg_lex_next(&x->l);
        if (n == room)
            return sg_lex_bad(&x->l, x->diag, "more initial values than the variable has elements");
        r = init_part(x, level + 1);
        if (r)
            return r;
        n++;
    }
    if (level == x->v->ndims && n != room)
        return sg_lex_bad(&x->l, x->diag, "a value for each element of the vector expected");
    if (!part_elements(x->v, level, &bytes) || !sg_size_mul(&bytes, x->esize, x->v->size) ||
        !sg_size_add(&end, bytes, x->v->size))
        return sg_lex_bad(&x->l, x->diag, "more initial values than the variable has elements");
    x->pos = end;
    sg_lex_next(&x->l);
    return 0;
}

int sg_module_init_globals(struct sg_module *m, struct sg_diag *diag)
{
    if (diag)
        memset(diag, 0, sizeof(*diag));
    for (uint32_t i = 0; i < m->nvars; i++) {
        struct sg_var *v = &m->vars[i];
        struct init x = {.m = m, .v = v, .diag = diag};
        int r;

        if (v->is_extern || !v->address)
            continue;
        memset((void *)(uintptr_t)v->address, 0, v->size);
        if (!v->init)
            continue;
        x.at = (uint8_t *)(uintptr_t)v->address;
        x.esize = sg_type_size(v->type);
        if (!x.esize)
            continue;
        sg_lex_init(&x.l, v->init, m->text + m->len, v->init_line);
        r = init_part(&x, 0);
        if (!r && !sg_tok_is(&x.l, ';') && !sg_tok_is(&x.l, ','))
            r = sg_lex_bad(&x.l, diag, "';' or ',' expected");
        if (r)
            return r;
    }
    sg_sass_init_globals(m);
    return 0;
}

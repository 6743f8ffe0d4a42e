/* SPDX-License-Identifier: MIT */
/* A module as the driver half sees it: kernels, globals, and the initialisers of variables. */
#define _GNU_SOURCE /* memmem */
#include "memory/bounds.h"
#include "ptx/module.h"

#include <stdlib.h>
#include <string.h>

#define INIT_DEPTH 8 /* as many levels of braces as an array may have dimensions */

uint32_t sg_module_kernel_count(const struct sg_module *m)
{
    return m->nkernels;
}

struct sg_kernel *sg_module_kernel(const struct sg_module *m, uint32_t i)
{
    return i < m->nkernels ? m->kernels[i] : NULL;
}

struct sg_kernel *sg_module_find_kernel(const struct sg_module *m, const char *name)
{
    struct sg_sym *y = sg_sym_find(&m->symtab, 0, name, (uint32_t)strlen(name));

    if (!y || y->kind != SG_K_ENTRY || !m->funcs[y->index].kernel)
        return NULL;
    return m->kernels[m->funcs[y->index].kernel - 1];
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

static int bad(struct sg_lex *l, struct sg_diag *diag, const char *what)
{
    return sg_diag_at(diag, SG_ERR_PTX, l->tok.line, l->tok.col, "syntax error: %s near '%.*s'", what,
                      (int)(l->tok.len > 40 ? 40 : l->tok.len), l->tok.s);
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
        return bad(&l, diag, "'{' expected");
    do {
        sg_lex_next(&l);
        name = l.tok;
        sg_lex_next(&l);
        if (name.kind != SG_T_ID || !sg_tok_is(&l, '='))
            return bad(&l, diag, "name = value expected");
        sg_lex_next(&l);
        if (sampler_value(out, &name, &l.tok))
            return bad(&l, diag, "unknown property or value of a sampler");
        sg_lex_next(&l);
    } while (sg_tok_is(&l, ','));
    return sg_tok_is(&l, '}') ? 0 : bad(&l, diag, "'}' expected");
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

/* Counts the leaf elements of an initialiser (a mask such as 0xff(sym) is one). */
int sg_init_count(struct sg_lex *l, uint64_t *n, struct sg_diag *diag)
{
    uint32_t depth = 0, paren = 0;
    bool in = false;

    *n = 0;
    if (!sg_tok_is(l, '{'))
        return bad(l, diag, "'{' expected");
    do {
        if (l->tok.kind == SG_T_EOF)
            return bad(l, diag, "unfinished initialiser");
        if (sg_tok_is(l, '{')) {
            if (++depth > INIT_DEPTH)
                return bad(l, diag, "too many braces");
            in = false;
        } else if (sg_tok_is(l, '}')) {
            depth--;
            in = false;
        } else if (sg_tok_is(l, '(')) {
            paren++;
        } else if (sg_tok_is(l, ')')) {
            if (!paren--)
                return bad(l, diag, "')' not expected");
        } else if (sg_tok_is(l, ',') && !paren) {
            in = false;
        } else if (!in) {
            in = true;
            ++*n;
        }
        sg_lex_next(l);
    } while (depth);
    return 0;
}

struct init {
    struct sg_module *m;
    struct sg_var *v;
    struct sg_lex l;
    struct sg_diag *diag;
    uint8_t *at;  /* where the variable lies */
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
            return bad(&x->l, x->diag, "'(' expected");
        sg_lex_next(&x->l);
    }
    if (x->l.tok.kind != SG_T_ID)
        return bad(&x->l, x->diag, "a symbol expected");
    y = sg_sym_find(&x->m->symtab, 0, x->l.tok.s, x->l.tok.len);
    if (!y)
        return bad(&x->l, x->diag, "unknown symbol");
    if (y->kind == SG_K_FUNC || y->kind == SG_K_ENTRY) {
        *v = sg_windows_init() ? sg_func_address(y->index) : 0;
        goto found;
    }
    if (y->kind != SG_K_GLOBAL)
        return sg_diag_at(x->diag, SG_ERR_UNSUPPORTED, x->l.tok.line, x->l.tok.col,
                          "initialiser of '%s': the address of '%.*s' is not available (only "
                          ".global and .const variables)",
                          x->v->name, (int)x->l.tok.len, x->l.tok.s);
    *v = x->m->vars[y->index].address;
found:
    sg_lex_next(&x->l);
    if (generic) {
        if (!sg_tok_is(&x->l, ')'))
            return bad(&x->l, x->diag, "')' expected");
        sg_lex_next(&x->l);
    }
    while (sg_tok_is(&x->l, '+') || sg_tok_is(&x->l, '-')) {
        bool neg = sg_tok_is(&x->l, '-');

        sg_lex_next(&x->l);
        if (x->l.tok.kind != SG_T_INT)
            return bad(&x->l, x->diag, "a number expected");
        *v = neg ? *v - x->l.tok.ival : *v + x->l.tok.ival;
        sg_lex_next(&x->l);
    }
    return 0;
}

static uint64_t float_as(enum sg_type ty, const struct sg_tok *t, bool neg)
{
    double d;
    float f;
    uint32_t u;
    uint64_t r;

    if (t->kind == SG_T_F32) {
        u = (uint32_t)t->ival;
        memcpy(&f, &u, 4);
        d = (double)f;
        if (ty != SG_TY_F64)
            return neg ? u ^ 0x80000000u : u;
    } else {
        memcpy(&d, &t->ival, 8);
    }
    if (ty == SG_TY_F64) {
        d = neg ? -d : d;
        memcpy(&r, &d, 8);
        return r;
    }
    f = (float)(neg ? -d : d);
    memcpy(&u, &f, 4);
    return u;
}

static int init_element(struct init *x)
{
    uint64_t v = 0;
    bool neg = false, inv = false;
    int r;

    if (!sg_bytes_have(x->v->size, x->pos, x->esize))
        return bad(&x->l, x->diag, "more initial values than the variable has elements");
    for (;; sg_lex_next(&x->l)) {
        if (sg_tok_is(&x->l, '-'))
            neg = !neg;
        else if (sg_tok_is(&x->l, '~'))
            inv = !inv;
        else if (!sg_tok_is(&x->l, '+'))
            break;
    }
    if (x->l.tok.kind == SG_T_ID) {
        r = init_symbol(x, &v);
        if (r)
            return r;
    } else if (x->l.tok.kind == SG_T_F32 || x->l.tok.kind == SG_T_F64) {
        v = float_as(x->v->type, &x->l.tok, neg);
        sg_lex_next(&x->l);
    } else if (x->l.tok.kind == SG_T_INT) {
        struct sg_tok t = x->l.tok;

        v = neg ? 0 - t.ival : t.ival;
        v = inv ? ~v : v;
        sg_lex_next(&x->l);
        if (sg_tok_is(&x->l, '(')) { /* 0xff00(sym): one byte of an address */
            uint64_t mask = v;

            sg_lex_next(&x->l);
            r = init_symbol(x, &v);
            if (r)
                return r;
            if (!sg_tok_is(&x->l, ')'))
                return bad(&x->l, x->diag, "')' expected");
            sg_lex_next(&x->l);
            v &= mask;
            while (mask && !(mask & 1)) {
                mask >>= 1;
                v >>= 1;
            }
        } else if (x->v->type == SG_TY_F32 || x->v->type == SG_TY_F64) {
            double d = (double)t.ival;

            memcpy(&t.ival, &d, 8);
            t.kind = SG_T_F64;
            v = float_as(x->v->type, &t, neg);
        }
    } else {
        return bad(&x->l, x->diag, "a value expected");
    }
    memcpy(x->at + x->pos, &v, x->esize > 8 ? 8 : x->esize);
    x->pos += x->esize;
    return 0;
}

/* Where what a brace at this depth stands for ends; UINT64_MAX: behind the variable. */
static uint64_t brace_end(const struct init *x, uint32_t depth)
{
    uint64_t n = x->esize, end = x->pos;

    for (uint32_t i = depth; i < x->v->ndims; i++)
        if (!sg_size_mul(&n, x->v->dims[i], x->v->size))
            return UINT64_MAX;
    return sg_size_add(&end, n ? n : x->esize, x->v->size) ? end : UINT64_MAX;
}

static int init_var(struct init *x)
{
    uint64_t end[INIT_DEPTH + 1];
    uint32_t depth = 0;
    int r;

    if (!sg_tok_is(&x->l, '{'))
        return init_element(x);
    do {
        if (sg_tok_is(&x->l, '{')) {
            if (depth >= INIT_DEPTH)
                return bad(&x->l, x->diag, "too many braces");
            end[depth] = brace_end(x, depth);
            depth++;
            sg_lex_next(&x->l);
        } else if (sg_tok_is(&x->l, '}')) {
            depth--;
            if (depth && end[depth] == UINT64_MAX)
                return bad(&x->l, x->diag, "more initial values than the variable has elements");
            if (depth && x->pos < end[depth])
                x->pos = end[depth];
            sg_lex_next(&x->l);
        } else if (sg_tok_is(&x->l, ',')) {
            sg_lex_next(&x->l);
        } else {
            r = init_element(x);
            if (r)
                return r;
        }
    } while (depth);
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
        r = init_var(&x);
        if (r)
            return r;
    }
    sg_sass_init_globals(m);
    return 0;
}

static void take(struct sg_module *m, const struct sg_tok *t)
{
    struct sg_sym *y = t->kind == SG_T_ID ? sg_sym_find(&m->symtab, 0, t->s, t->len) : NULL;

    if (y && y->kind == SG_K_FUNC)
        m->funcs[y->index].taken = true;
}

static void take_moves(struct sg_module *m, const char *opcode)
{
    const char *p = m->text, *end = m->text + m->len;

    while ((p = memmem(p, (size_t)(end - p), opcode, strlen(opcode)))) {
        struct sg_lex l;

        p += strlen(opcode);
        /* destination , source; the bound keeps a text full of comments from costing n^2 */
        sg_lex_init(&l, p, end - p > 512 ? p + 512 : end, 1);
        sg_lex_next(&l);
        if (!sg_tok_is(&l, ','))
            continue;
        sg_lex_next(&l);
        take(m, &l.tok);
    }
}

void sg_module_find_taken(struct sg_module *m)
{
    pthread_mutex_lock(&m->lock);
    if (!m->taken_known) {
        for (uint32_t i = 0; i < m->nvars; i++) {
            struct sg_lex l;

            if (!m->vars[i].init || sg_type_size(m->vars[i].type) != 8)
                continue;
            sg_lex_init(&l, m->vars[i].init, m->text + m->len, 1);
            for (; l.tok.kind != SG_T_EOF && !sg_tok_is(&l, ';'); sg_lex_next(&l))
                take(m, &l.tok);
        }
        take_moves(m, "mov.u64");
        take_moves(m, "mov.b64");
        m->taken_known = true;
    }
    pthread_mutex_unlock(&m->lock);
}

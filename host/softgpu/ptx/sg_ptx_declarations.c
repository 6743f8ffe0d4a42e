/* SPDX-License-Identifier: MIT */
/* Declarations of variables and parameters, the symbol table, and growing arrays. */
#include "ptx/constant.h"

#include <stdlib.h>
#include <string.h>

#include "lib/hash/hash.h"

static uint32_t sym_hash(uint32_t frame, const char *s, uint32_t len)
{
    return (uint32_t)hsh_bytes(frame, s, len);
}

struct sg_sym *sg_sym_find(const struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len)
{
    uint32_t i;

    if (!t->nbuckets)
        return NULL;
    for (i = t->buckets[sym_hash(frame, s, len) & (t->nbuckets - 1)]; i; i = t->syms[i - 1].next) {
        struct sg_sym *y = &t->syms[i - 1];

        if (y->frame == frame && y->len == len && !memcmp(y->name, s, len))
            return y;
    }
    return NULL;
}

struct sg_sym *sg_sym_add(struct sg_symtab *t, uint32_t frame, const char *s, uint32_t len, uint32_t kind,
                          uint32_t index)
{
    struct sg_sym *y;
    uint32_t h;

    if (t->n >= t->nbuckets) {
        uint32_t nb = t->nbuckets ? t->nbuckets * 2 : 64;
        uint32_t *b = calloc(nb, sizeof(*b));

        if (!b)
            return NULL;
        for (uint32_t i = 0; i < t->n; i++) {
            h = sym_hash(t->syms[i].frame, t->syms[i].name, t->syms[i].len) & (nb - 1);
            t->syms[i].next = b[h];
            b[h] = i + 1;
        }
        free(t->buckets);
        t->buckets = b;
        t->nbuckets = nb;
    }
    if (!sg_grow(&t->syms, &t->cap, t->n, sizeof(*t->syms)))
        return NULL;
    h = sym_hash(frame, s, len) & (t->nbuckets - 1);
    y = &t->syms[t->n++];
    y->name = s;
    y->len = len;
    y->frame = frame;
    y->kind = kind;
    y->index = index;
    y->next = t->buckets[h];
    t->buckets[h] = t->n;
    return y;
}

void sg_sym_free(struct sg_symtab *t)
{
    free(t->syms);
    free(t->buckets);
    memset(t, 0, sizeof(*t));
}

static bool updates_node(const char *name)
{
    static const char *const what[] = {"SetParam", "SetEnabled", "SetGridDim", "UpdatesApply"};

    if (strncmp(name, "cudaGraphKernelNode", 19) != 0)
        return false;
    for (size_t i = 0; i < sizeof(what) / sizeof(what[0]); i++)
        if (!strcmp(name + 19, what[i]))
            return true;
    return false;
}

bool sg_is_builtin(const char *name)
{
    return !strcmp(name, "vprintf") || !strcmp(name, "malloc") || !strcmp(name, "free") ||
           !strcmp(name, "__assertfail") || !strcmp(name, "cudaGraphSetConditional") ||
           !strcmp(name, "cudaGraphLaunch") || !strcmp(name, "cudaGetParameterBufferV2") ||
           !strcmp(name, "cudaLaunchDeviceV2") || updates_node(name) || !strncmp(name, "__cudaCDP2", 10);
}

const char *sg_module_undefined(const struct sg_module *m)
{
    for (uint32_t i = 0; i < m->nfuncs; i++) {
        const struct sg_func *f = &m->funcs[i];

        if (!f->body && f->alias < 0 && !sg_is_builtin(f->name))
            return f->name;
    }
    return NULL;
}

/* .attribute(.managed) and .attribute(.unified(a, b)) */
static int decl_attribute(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag)
{
    int depth = 0;

    sg_lex_next(l);
    if (!sg_tok_is(l, '('))
        return sg_lex_bad(l, diag, "'(' expected");
    do {
        if (sg_tok_is(l, '('))
            depth++;
        else if (sg_tok_is(l, ')'))
            depth--;
        else if (l->tok.kind == SG_T_DIR && sg_tok_eq(&l->tok, ".managed"))
            d->v.is_managed = true;
        else if (l->tok.kind == SG_T_DIR && !sg_tok_eq(&l->tok, ".unified"))
            return sg_lex_bad(l, diag, "unknown attribute");
        else if (l->tok.kind == SG_T_EOF)
            return sg_lex_bad(l, diag, "unfinished .attribute");
        sg_lex_next(l);
    } while (depth);
    return 0;
}

/* True for a type of variables and registers (PTX ISA, "Fundamental Types"); instructions have more. */
static bool is_fundamental(enum sg_type t)
{
    return t != SG_TY_NONE && t != SG_TY_BF16 && t != SG_TY_BF16X2 && t != SG_TY_TF32 && t != SG_TY_E4M3 &&
           t != SG_TY_E5M2 && t != SG_TY_E4M3X2 && t != SG_TY_E5M2X2 && t != SG_TY_U16X2 &&
           t != SG_TY_S16X2 && t < SG_TY_F32X2;
}

int sg_decl_head(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag)
{
    bool pointee = false; /* after .ptr: the alignment is that of the pointed-to memory */
    bool aligned = false;

    d->vec = 1;
    while (l->tok.kind == SG_T_DIR) {
        const struct sg_tok *t = &l->tok;
        enum sg_type ty = sg_type_of(t->s + 1, t->len - 1);

        if (sg_tok_eq(t, ".align")) {
            if (d->v.type != SG_TY_NONE && !pointee && !d->attribute_only)
                return sg_lex_bad(l, diag, "'.align' stands before the type");
            aligned = true;
            sg_lex_next(l);
            if (l->tok.kind != SG_T_INT || !l->tok.ival || l->tok.ival > 4096 ||
                (l->tok.ival & (l->tok.ival - 1)))
                return sg_lex_bad(l, diag, "an alignment that is a power of two expected");
            if (!pointee)
                d->v.align = (uint32_t)l->tok.ival;
        } else if (sg_tok_eq(t, ".attribute")) {
            int r = decl_attribute(l, d, diag);

            if (r)
                return r;
            continue;
        } else if (sg_tok_eq(t, ".v2") || sg_tok_eq(t, ".v4")) {
            d->vec = (uint32_t)(t->s[2] - '0');
        } else if (sg_tok_eq(t, ".ptr")) {
            pointee = true;
        } else if (sg_tok_eq(t, ".global") || sg_tok_eq(t, ".const") || sg_tok_eq(t, ".shared") ||
                   sg_tok_eq(t, ".local")) {
            /* .ptr .space of a kernel parameter: a hint */
            if (!pointee || aligned)
                return sg_lex_bad(l, diag, "a state space stands directly behind '.ptr'");
        } else if (sg_tok_eq(t, ".texref") || sg_tok_eq(t, ".surfref") || sg_tok_eq(t, ".samplerref")) {
            d->opaque = true;
            d->opaque_kind = sg_tok_eq(t, ".texref")    ? SG_OPAQUE_TEXREF
                             : sg_tok_eq(t, ".surfref") ? SG_OPAQUE_SURFREF
                                                        : SG_OPAQUE_SAMPLERREF;
            d->v.type = SG_TY_B64;
        } else if (is_fundamental(ty)) {
            d->v.type = ty;
        } else {
            return sg_lex_bad(l, diag, "unknown word in a declaration");
        }
        sg_lex_next(l);
    }
    if (d->v.type == SG_TY_NONE)
        return sg_lex_bad(l, diag, "a type expected");
    if (d->vec > 1 && (d->v.type == SG_TY_PRED || d->vec * sg_type_size(d->v.type) > 16))
        return sg_lex_bad(l, diag, "a vector has at most 128 bits, and no predicates");
    return 0;
}

int sg_parse_pragma(struct sg_lex *l, struct sg_diag *diag)
{
    do {
        sg_lex_next(l);
        if (l->tok.kind != SG_T_STR)
            return sg_lex_bad(l, diag, "a string expected");
        sg_lex_next(l);
    } while (sg_tok_is(l, ','));
    if (!sg_tok_is(l, ';'))
        return sg_lex_bad(l, diag, "';' expected");
    sg_lex_next(l);
    return 0;
}

int sg_decl_name(struct sg_lex *l, struct sg_decl *d, struct sg_diag *diag)
{
    uint32_t esize = sg_type_size(d->v.type) * d->vec;
    uint64_t n, inner = 1; /* elements; every dimension counts as at least one */

    if (l->tok.kind != SG_T_ID)
        return sg_lex_bad(l, diag, "a name expected");
    d->name = l->tok.s;
    d->name_len = l->tok.len;
    d->line = l->tok.line;
    d->col = l->tok.col;
    d->range = 0;
    d->v.ndims = 0;
    d->v.vec = d->vec;
    d->v.unsized = false;
    sg_lex_next(l);
    if (sg_tok_is(l, '<')) {
        sg_lex_next(l);
        if (l->tok.kind != SG_T_INT || l->tok.ival > UINT32_MAX - 1)
            return sg_lex_bad(l, diag, "a register count expected");
        d->range = (uint32_t)l->tok.ival;
        sg_lex_next(l);
        if (!sg_tok_is(l, '>'))
            return sg_lex_bad(l, diag, "'>' expected");
        sg_lex_next(l);
        if (!d->range)
            d->range = 1;
    }
    while (sg_tok_is(l, '[')) {
        uint64_t dim = 0;

        sg_lex_next(l);
        if (sg_tok_is(l, ']') && !d->v.ndims) {
            d->v.unsized = true;
        } else if (l->tok.kind != SG_T_INT && !sg_tok_eq(&l->tok, "WARP_SZ")) {
            return sg_lex_bad(l, diag, "a number of elements expected"); /* no expression: as ptxas */
        } else {
            int r = sg_const_read_integer(l, SG_CONST_UNARY, &dim, diag);

            if (r)
                return r;
        }
        if (!sg_tok_is(l, ']'))
            return sg_lex_bad(l, diag, "']' expected");
        sg_lex_next(l);
        if (!dim && d->v.ndims)
            return sg_lex_bad(l, diag, "a row has no elements");
        if (d->v.ndims == 8 || !sg_size_mul(&inner, dim ? dim : 1, SG_MAX_GLOBAL))
            return sg_lex_bad(l, diag, "array too large");
        if (dim > UINT32_MAX)
            return sg_lex_bad(l, diag, "array dimension too large");
        d->v.dims[d->v.ndims++] = (uint32_t)dim;
    }
    n = inner;
    for (uint32_t i = 0; i < d->v.ndims; i++)
        n = d->v.dims[i] ? n : 0;
    if (!sg_size_mul(&inner, esize ? esize : 1, SG_MAX_GLOBAL) || !sg_size_mul(&n, esize, SG_MAX_GLOBAL))
        return sg_lex_bad(l, diag, "array too large");
    d->v.size = n;
    if (d->v.align < esize && (d->v.align == 0))
        d->v.align = esize ? esize : 1;
    return 0;
}

uint64_t sg_var_element(const struct sg_var *v)
{
    uint64_t n = v->ndims ? (uint64_t)sg_type_size(v->type) * v->vec : 0;

    for (uint32_t i = 1; i < v->ndims; i++)
        if (!sg_size_mul(&n, v->dims[i] ? v->dims[i] : 1, SG_MAX_GLOBAL))
            return 0;
    return n;
}

static int check_names(struct sg_lex *l, const struct sg_pdecl *p, uint32_t n, struct sg_diag *diag)
{
    struct sg_symtab seen = {0};
    int r = 0;

    for (uint32_t i = 0; i < n && !r; i++) {
        bool unnamed = p[i].len == 1 && p[i].name[0] == '_'; /* in a prototype */

        if (!unnamed && sg_sym_find(&seen, 0, p[i].name, p[i].len))
            r = sg_diag_at(diag, SG_ERR_PTX, l->tok.line, l->tok.col, "parameter '%.*s' is declared twice",
                           (int)p[i].len, p[i].name);
        else if (!sg_sym_add(&seen, 0, p[i].name, p[i].len, 0, i))
            r = SG_ERR_NOMEM;
    }
    sg_sym_free(&seen);
    return r;
}

/* ( decl, decl ... ); current token is '(' */
int sg_parse_params(struct sg_lex *l, struct sg_pdecl **out, uint32_t *n, struct sg_diag *diag)
{
    uint32_t cap = 0, offset = 0;

    sg_lex_next(l);
    while (!sg_tok_is(l, ')')) {
        struct sg_decl d = {0};
        struct sg_pdecl *p;
        int r;

        if (l->tok.kind != SG_T_DIR || (!sg_tok_eq(&l->tok, ".param") && !sg_tok_eq(&l->tok, ".reg")))
            return sg_lex_bad(l, diag, ".param or .reg expected");
        if (!sg_grow(out, &cap, *n, sizeof(**out)))
            return SG_ERR_NOMEM;
        p = &(*out)[*n];
        p->is_reg = sg_tok_eq(&l->tok, ".reg");
        sg_lex_next(l);
        r = sg_decl_head(l, &d, diag);
        if (r)
            return r;
        r = sg_decl_name(l, &d, diag);
        if (r)
            return r;
        if (d.v.size > SG_MAX_PARAM_BYTES)
            return sg_lex_bad(l, diag, "parameter too large");
        p->name = d.name;
        p->len = d.name_len;
        p->type = d.v.type;
        p->size = (uint32_t)d.v.size;
        p->align = d.v.align ? d.v.align : 1;
        p->element = sg_var_element(&d.v);
        p->vec = (uint8_t)d.vec;
        p->unsized = d.v.unsized;
        if (!sg_size_place(&offset, p->align, p->size, SG_MAX_PARAM_BYTES, &p->offset))
            return sg_lex_bad(l, diag, "parameters too large");
        (*n)++;
        if (sg_tok_is(l, ')'))
            break;
        if (!sg_tok_is(l, ','))
            return sg_lex_bad(l, diag, "',' or ')' expected");
        sg_lex_next(l);
        if (sg_tok_is(l, ')'))
            return sg_lex_bad(l, diag, "a parameter expected behind ','");
    }
    sg_lex_next(l);
    return check_names(l, *out, *n, diag);
}

int sg_check_entry_params(const struct sg_lex *l, const struct sg_func *f, struct sg_diag *diag)
{
    for (uint32_t i = 0; i < f->nparams; i++) {
        const struct sg_pdecl *p = &f->params[i];

        if (p->is_reg || p->type == SG_TY_PRED || p->vec > 1 || p->unsized)
            return sg_diag_at(diag, SG_ERR_PTX, l->tok.line, l->tok.col,
                              "'%.*s' cannot be a parameter of a kernel", (int)p->len, p->name);
    }
    return 0;
}

static bool same_parameters(const struct sg_pdecl *a, const struct sg_pdecl *b, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (a[i].type != b[i].type || a[i].size != b[i].size || a[i].is_reg != b[i].is_reg)
            return false;
    return true;
}

bool sg_same_prototype(const struct sg_func *a, const struct sg_func *b)
{
    return a->nparams == b->nparams && a->nrets == b->nrets &&
           same_parameters(a->params, b->params, a->nparams) && same_parameters(a->rets, b->rets, a->nrets);
}
